//! One chunk: fill a batch, let every contestant decide on it, add up.

use super::contestants::{Field, Runner};
use super::drive::{self, Answering, Outcome, VerifierCounts};
use super::tallying;
use crate::catalogue::{Catalogue, Requirement};
use crate::policy::{Ask, Decision, Policy};
use crate::router::{EligibleSet, Need, Plan, RouteId, Router};
use crate::standin::outcome::{COST_UNKNOWN, NOT_IN_WORLD, Outcomes};
use crate::stats::{PairTally, Tally, Unserved};
use crate::units::{Price, Score, Tokens, mix64};
use crate::workload::{Batch, DrawKey, NO_NAME, Workload};

/// Requests that are drawn and decided together: their columns stay in a core's cache.
const SLICE: usize = 128;
/// Splits the router's jitter off a request's random word.
const JITTER: u64 = 0x6a69_7474_6572_2e31;

/// What all chunks share.
pub(super) struct World<'a> {
    pub(super) catalogue: &'a Catalogue,
    pub(super) workload: &'a Workload,
    /// For each route of the catalogue its index in the workload.
    pub(super) world: Vec<u16>,
    /// By tenant and data class; the last of each stands for "none".
    pub(super) requirements: Vec<Requirement>,
    /// Data classes and "none".
    pub(super) classes: usize,
    /// Key of draws that several requests share.
    pub(super) key: u64,
    /// By route of the catalogue.
    pub(super) prices: Vec<Option<Price>>,
}

impl World<'_> {
    fn requirement(&self, tenant: u16, class: u16) -> Requirement {
        let tenants = self.requirements.len() / self.classes;
        let row = if tenant == NO_NAME {
            tenants - 1
        } else {
            tenant as usize
        };
        let column = if class == NO_NAME {
            self.classes - 1
        } else {
            class as usize
        };
        self.requirements[row * self.classes + column]
    }

    /// What a policy may know about the first `len` requests of the batch.
    fn asks(&self, batch: &Batch, len: usize, replicate: u32, asks: &mut Vec<Ask>) {
        let key = mix64(self.key ^ u64::from(replicate));
        // Most workloads have one requirement for everybody; then nothing is looked up.
        let everybody = (self.requirements.len() == 1).then(|| self.requirements[0]);
        asks.clear();
        asks.extend((0..len).map(|i| {
            let requirement =
                everybody.unwrap_or_else(|| self.requirement(batch.tenant[i], batch.data_class[i]));
            ask(batch, i, requirement, key)
        }));
    }

    /// What a policy may know about request `i` of the batch.
    pub(super) fn ask(&self, batch: &Batch, i: usize, replicate: u32) -> Ask {
        let requirement = self.requirement(batch.tenant[i], batch.data_class[i]);
        ask(
            batch,
            i,
            requirement,
            mix64(self.key ^ u64::from(replicate)),
        )
    }
}

#[inline(always)]
fn ask(batch: &Batch, i: usize, requirement: Requirement, key: u64) -> Ask {
    Ask {
        task: batch.task[i],
        tenant: batch.tenant[i],
        language: batch.language[i],
        user: batch.user[i],
        session: batch.session[i],
        prompt_chars: batch.prompt_chars[i],
        difficulty_hint: batch.difficulty_hint[i],
        need: Need {
            input_tokens: batch.input_tokens[i],
            output_cap: batch.output_cap[i],
            tools: batch.tools[i],
            residency: requirement.residency,
            local_only: requirement.local_only,
            account: None,
            deadline: None,
        },
        last_route: None,
        word: batch.policy_word[i],
        key,
    }
}

/// The router's jitter of a request.
#[inline(always)]
pub(super) fn jitter(ask: &Ask) -> u64 {
    mix64(ask.word ^ JITTER)
}

/// Tallies of all contestants.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) tallies: Vec<Tally>,
    /// By contestant, then by baseline.
    pub(super) pairs: Vec<Vec<PairTally>>,
}

impl Sums {
    pub(super) fn new(contestants: usize, baselines: usize, routes: usize) -> Self {
        let tally = Tally {
            final_count: vec![0; routes],
            ..Tally::default()
        };
        Self {
            tallies: vec![tally; contestants],
            pairs: vec![vec![PairTally::default(); baselines]; contestants],
        }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self
            .pairs
            .iter_mut()
            .flatten()
            .zip(other.pairs.iter().flatten())
        {
            mine.merge(theirs);
        }
        self
    }
}

/// What one worker reuses from chunk to chunk.
pub(super) struct Scratch {
    batch: Batch,
    outcomes: Outcomes,
    slice: Slice,
    /// By contestant.
    runners: Vec<ScratchRunner>,
    /// A router without history, for what only the configuration decides.
    fresh: Router,
}

/// What policies may know about the requests at hand, and what follows from it for all of them.
#[derive(Default)]
struct Slice {
    asks: Vec<Ask>,
    /// By request: the routes that pass its hard filters.
    eligible: Vec<EligibleSet>,
    /// By request, if the workload has more than one fold.
    folds: Vec<u8>,
    /// By route of the catalogue, then by request: the outcome if just this route is asked.
    single: Vec<Outcome>,
    /// By request: what the policy at hand decided.
    decisions: Vec<Decision>,
}

struct ScratchRunner {
    runner: Runner,
    router: Router,
    column: Vec<Outcome>,
}

impl Scratch {
    pub(super) fn new(world: &World<'_>, field: &Field) -> Self {
        // The catalogue was validated when it was read.
        let fresh = world.catalogue.router();
        let runners = field
            .runners()
            .map(|runner| ScratchRunner {
                runner: runner.fork(),
                router: fresh.clone(),
                column: Vec::with_capacity(SLICE),
            })
            .collect();
        Self {
            batch: Batch::default(),
            outcomes: Outcomes::default(),
            slice: Slice::default(),
            runners,
            fresh,
        }
    }
}

/// Runs requests `first .. first + len` of one replicate and adds what happened to `sums`.
pub(super) fn run_chunk(
    world: &World<'_>,
    scratch: &mut Scratch,
    baselines: &[usize],
    key: DrawKey,
    first: u64,
    len: u64,
    sums: &mut Sums,
) {
    for runner in &mut scratch.runners {
        if !runner.runner.stateful() {
            runner.router.reset();
        }
    }
    let mut done = 0;
    while done < len {
        let slice = (len - done).min(SLICE as u64) as usize;
        run_slice(world, scratch, baselines, key, first + done, slice, sums);
        done += slice as u64;
    }
}

fn run_slice(
    world: &World<'_>,
    scratch: &mut Scratch,
    baselines: &[usize],
    key: DrawKey,
    first: u64,
    slice: usize,
    sums: &mut Sums,
) {
    world.workload.fill(key, first, slice, &mut scratch.batch);
    scratch
        .outcomes
        .fill(&scratch.batch, &world.world, &world.prices);
    world.asks(
        &scratch.batch,
        slice,
        key.replicate,
        &mut scratch.slice.asks,
    );
    scratch.slice.eligible.clear();
    let needs = scratch.slice.asks.iter().map(|ask| &ask.need);
    scratch
        .slice
        .eligible
        .extend(needs.map(|need| scratch.fresh.eligible_set(need)));
    scratch.slice.folds.clear();
    if world.workload.folds() > 1 {
        let folds = (0..slice as u64).map(|i| world.workload.fold(first + i));
        scratch.slice.folds.extend(folds);
    }
    scratch
        .slice
        .walk_singles(&mut scratch.fresh, &scratch.outcomes);
    let unknown = scratch.batch.input_tokens[..slice].iter();
    let unknown_need = unknown.filter(|tokens| **tokens == Tokens::UNKNOWN).count() as u64;
    for (index, scratch_runner) in scratch.runners.iter_mut().enumerate() {
        let ScratchRunner {
            runner,
            router,
            column,
        } = scratch_runner;
        column.clear();
        let tally = &mut sums.tallies[index];
        match runner {
            Runner::Policy {
                per_fold,
                verifiers,
                ..
            } => {
                let answering = Answering {
                    outcomes: &scratch.outcomes,
                    verifiers,
                };
                decide(
                    per_fold,
                    router,
                    &answering,
                    &mut scratch.slice,
                    column,
                    tally,
                );
            }
            Runner::Oracle => {
                oracle(world, &scratch.outcomes, &scratch.slice.asks, column);
                tally.mirror_costed += slice as u64;
            }
            Runner::Unavailable => continue,
        }
        tallying::add(tally, column);
        tally.unknown_need += unknown_need;
    }
    for (b, baseline) in baselines.iter().enumerate() {
        let theirs = std::mem::take(&mut scratch.runners[*baseline].column);
        for (index, mine) in scratch.runners.iter().enumerate() {
            let mine = if index == *baseline {
                &theirs
            } else {
                &mine.column
            };
            tallying::add_pairs(&mut sums.pairs[index][b], mine, &theirs);
        }
        scratch.runners[*baseline].column = theirs;
    }
}

fn decide(
    per_fold: &mut [Box<dyn Policy>],
    router: &mut Router,
    answering: &Answering<'_>,
    slice: &mut Slice,
    column: &mut Vec<Outcome>,
    tally: &mut Tally,
) {
    let mut counts = VerifierCounts::default();
    let mut unseen = VerifierCounts::default();
    let mut unpriced = 0;
    slice.decide(per_fold);
    // Failures cannot happen here, so what holds before the slice holds all through it.
    let instant = router.is_instant();
    let requests = slice.asks.len();
    for (i, decision) in slice.decisions.iter().enumerate() {
        let (ask, eligible) = (&slice.asks[i], instant.then_some(slice.eligible[i]));
        // What one route alone makes of a request does not depend on who sends it there.
        let known = match decision.serve.as_single() {
            Some(route) if instant => slice
                .single
                .get(usize::from(route.0) * requests + i)
                .copied(),
            _ => None,
        };
        column.push(known.unwrap_or_else(|| {
            drive::answer(
                router,
                answering,
                &mut counts,
                decision.serve,
                ask,
                eligible,
                jitter(ask),
                i,
            )
        }));
        if let Some(mirror) = decision.mirror {
            // Nobody waits for the mirror; its verdicts say nothing about what was served.
            let copy = drive::answer(
                router,
                answering,
                &mut unseen,
                mirror,
                ask,
                eligible,
                !jitter(ask),
                i,
            );
            unpriced += u64::from(copy.cost == COST_UNKNOWN);
            add_mirror(tally, &copy);
        }
    }
    // A request without a mirror costs nothing to mirror.
    tally.mirror_costed += requests as u64 - unpriced;
    tally.verified_right += u64::from(counts.right);
    tally.accepted_right += u64::from(counts.right_accepted);
    tally.verified_wrong += u64::from(counts.wrong);
    tally.accepted_wrong += u64::from(counts.wrong_accepted);
}

impl Slice {
    /// Lets a policy decide about every request.
    fn decide(&mut self, per_fold: &mut [Box<dyn Policy>]) {
        self.decisions.clear();
        match per_fold {
            [policy] => policy.plan_all(&self.asks, &mut self.decisions),
            per_fold => {
                let last = per_fold.len() - 1;
                for (ask, fold) in self.asks.iter().zip(&self.folds) {
                    self.decisions
                        .push(per_fold[usize::from(*fold).min(last)].plan(ask));
                }
            }
        }
    }

    /// Walks the plan of each single route, for everybody who will send a request just there.
    fn walk_singles(&mut self, router: &mut Router, outcomes: &Outcomes) {
        self.single.clear();
        if !router.is_instant() {
            return;
        }
        let answering = Answering {
            outcomes,
            verifiers: &[],
        };
        let mut counts = VerifierCounts::default();
        for route in 0..router.routes() {
            let route = RouteId(route as u16);
            let first = self.single.len();
            // Nearly every request can be taken by nearly every route: write the answer down without
            // asking, and walk the few others after it.
            self.single.extend(
                outcomes
                    .of(route)
                    .map(|(cost, grade)| Outcome::new(cost, grade, route.0, 1, 0)),
            );
            for (i, (ask, eligible)) in self.asks.iter().zip(&self.eligible).enumerate() {
                if !eligible.has(route) {
                    let plan = Plan::single(route);
                    let eligible = Some(*eligible);
                    self.single[first + i] = drive::answer(
                        router,
                        &answering,
                        &mut counts,
                        plan,
                        ask,
                        eligible,
                        jitter(ask),
                        i,
                    );
                }
            }
        }
    }
}

#[inline(never)]
fn add_mirror(tally: &mut Tally, copy: &Outcome) {
    tally.mirror_calls += u64::from(copy.calls());
    if copy.cost != COST_UNKNOWN {
        tally.mirror_cost_sum += i128::from(copy.cost);
        tally.mirror_cost_square_sum += tallying::square(copy.cost);
    }
}

/// The best grade among the routes that can serve, ties to the cheaper. A route without a grade might
/// have been the best one; unless a route that is no dearer was right, nothing can be said.
fn oracle(world: &World<'_>, view: &Outcomes, asks: &[Ask], outcomes: &mut Vec<Outcome>) {
    for (i, ask) in asks.iter().enumerate() {
        let mut best: Option<Outcome> = None;
        // Least cost among the routes without a grade; one of unknown cost may have been free.
        let mut ungraded: Option<u64> = None;
        let mut refused = false;
        for (index, column) in world.world.iter().enumerate() {
            let route = RouteId(index as u16);
            if *column == NOT_IN_WORLD {
                continue;
            }
            if !world.catalogue.can_serve(route, &ask.need) {
                let known = &world.catalogue.routes[index];
                refused |= !known.residency.is_subset_of(ask.need.residency)
                    || (ask.need.local_only && !known.local);
                continue;
            }
            let (grade, cost) = (view.grade(route, i), view.cost(route, i));
            if grade.is_missing() {
                let cost = if cost == COST_UNKNOWN { 0 } else { cost };
                ungraded = Some(ungraded.map_or(cost, |least| least.min(cost)));
                continue;
            }
            let better = best.is_none_or(|best| {
                (grade, std::cmp::Reverse(cost)) > (best.grade(), std::cmp::Reverse(best.cost))
            });
            if better {
                best = Some(Outcome::new(cost, grade, route.0, 1, 0));
            }
        }
        let settled = |best: &Outcome| {
            ungraded.is_none_or(|least| best.grade() == Score::RIGHT && best.cost <= least)
        };
        outcomes.push(match best {
            Some(best) if settled(&best) => best,
            _ if ungraded.is_some() => Outcome::UNDETERMINED,
            // The same reasons as the router's: a plan that names a route which the data may not
            // reach was refused, whatever else was wrong with the others.
            _ if refused => Outcome::not_served(Unserved::RefusedByResidency, 0, 0),
            _ => Outcome::not_served(Unserved::NoCapableRoute, 0, 0),
        });
    }
}
