//! One chunk: fill a batch, let every contestant decide on it, add up.

use super::contestants::{Field, Runner};
use super::drive::{
    self, Answering, COST_UNKNOWN, NO_ROUTE, Outcome, Tariff, VerifierCounts, flag,
};
use crate::catalogue::{Catalogue, Requirement};
use crate::policy::{Ask, Policy};
use crate::router::{Need, RouteId, Router};
use crate::standin::outcome::{NOT_IN_WORLD, Outcomes};
use crate::stats::{PairTally, Tally, Unserved};
use crate::units::{Score, Tokens, mix64};
use crate::workload::{Batch, DrawKey, NO_NAME, Workload};

/// Requests that are drawn and decided together: their columns stay in a core's cache.
const SLICE: usize = 512;
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
    pub(super) tariff: Tariff,
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

    /// What a policy may know about request `i` of the batch.
    pub(super) fn ask(&self, batch: &Batch, i: usize, replicate: u32) -> Ask {
        let requirement = self.requirement(batch.tenant[i], batch.data_class[i]);
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
            key: mix64(self.key ^ u64::from(replicate)),
        }
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
    asks: Vec<Ask>,
    folds: Vec<u8>,
    /// By contestant.
    runners: Vec<ScratchRunner>,
}

struct ScratchRunner {
    runner: Runner,
    router: Router,
    outcomes: Vec<Outcome>,
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
                outcomes: Vec::with_capacity(SLICE),
            })
            .collect();
        Self {
            batch: Batch::default(),
            asks: Vec::with_capacity(SLICE),
            folds: Vec::with_capacity(SLICE),
            runners,
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
        world
            .workload
            .fill(key, first + done, slice, &mut scratch.batch);
        scratch.asks.clear();
        scratch
            .asks
            .extend((0..slice).map(|i| world.ask(&scratch.batch, i, key.replicate)));
        scratch.folds.clear();
        if world.workload.folds() > 1 {
            scratch
                .folds
                .extend((0..slice as u64).map(|i| world.workload.fold(first + done + i)));
        }
        for (index, scratch_runner) in scratch.runners.iter_mut().enumerate() {
            let ScratchRunner {
                runner,
                router,
                outcomes,
            } = scratch_runner;
            outcomes.clear();
            let tally = &mut sums.tallies[index];
            let view = Outcomes {
                batch: &scratch.batch,
                world: &world.world,
            };
            match runner {
                Runner::Policy {
                    per_fold,
                    verifiers,
                    ..
                } => {
                    let answering = Answering {
                        outcomes: view,
                        tariff: &world.tariff,
                        verifiers,
                    };
                    decide(
                        per_fold,
                        router,
                        &answering,
                        &scratch.asks,
                        &scratch.folds,
                        outcomes,
                        tally,
                    );
                }
                Runner::Oracle => {
                    oracle(world, &view, &scratch.asks, outcomes);
                    tally.mirror_costed += slice as u64;
                }
                Runner::Unavailable => continue,
            }
            add(tally, outcomes, &scratch.asks);
        }
        for (b, baseline) in baselines.iter().enumerate() {
            let theirs = std::mem::take(&mut scratch.runners[*baseline].outcomes);
            for (index, mine) in scratch.runners.iter().enumerate() {
                let outcomes = if index == *baseline {
                    &theirs
                } else {
                    &mine.outcomes
                };
                add_pairs(&mut sums.pairs[index][b], outcomes, &theirs);
            }
            scratch.runners[*baseline].outcomes = theirs;
        }
        done += slice as u64;
    }
}

fn decide(
    per_fold: &mut [Box<dyn Policy>],
    router: &mut Router,
    answering: &Answering<'_>,
    asks: &[Ask],
    folds: &[u8],
    outcomes: &mut Vec<Outcome>,
    tally: &mut Tally,
) {
    let mut counts = VerifierCounts::default();
    let mut unseen = VerifierCounts::default();
    for (i, ask) in asks.iter().enumerate() {
        let fold = folds.get(i).copied().unwrap_or(0) as usize;
        let decision = per_fold[fold.min(per_fold.len() - 1)].plan(ask);
        let outcome = drive::call(
            router,
            answering,
            &mut counts,
            decision.serve,
            ask.need,
            jitter(ask),
            i,
            &mut (),
        );
        outcomes.push(outcome);
        match decision.mirror {
            None => tally.mirror_costed += 1,
            Some(mirror) => {
                // Nobody waits for the mirror; its verdicts say nothing about what was served.
                let copy = drive::call(
                    router,
                    answering,
                    &mut unseen,
                    mirror,
                    ask.need,
                    !jitter(ask),
                    i,
                    &mut (),
                );
                tally.mirror_calls += u64::from(copy.calls);
                if copy.cost != COST_UNKNOWN {
                    tally.mirror_costed += 1;
                    tally.mirror_cost_sum += i128::from(copy.cost);
                    tally.mirror_cost_square_sum += square(copy.cost);
                }
            }
        }
    }
    tally.verified_right += counts.right;
    tally.accepted_right += counts.right_accepted;
    tally.verified_wrong += counts.wrong;
    tally.accepted_wrong += counts.wrong_accepted;
}

/// The best grade among the routes that can serve, ties to the cheaper. A route that nobody graded
/// might have been the best one, so then nothing can be said.
fn oracle(world: &World<'_>, view: &Outcomes<'_>, asks: &[Ask], outcomes: &mut Vec<Outcome>) {
    for (i, ask) in asks.iter().enumerate() {
        let mut best: Option<Outcome> = None;
        let mut missing = false;
        let mut allowed = false;
        let mut residency_only = false;
        for (index, column) in world.world.iter().enumerate() {
            let route = RouteId(index as u16);
            if *column == NOT_IN_WORLD {
                continue;
            }
            let known = &world.catalogue.routes[index];
            let may = known.residency.is_subset_of(ask.need.residency)
                && (known.local || !ask.need.local_only);
            allowed |= may;
            if !world.catalogue.can_serve(route, &ask.need) {
                residency_only |= !may;
                continue;
            }
            let grade = view.grade(route, i);
            missing |= grade.is_missing();
            let cost = world
                .tariff
                .cost(route, view.usage(route, i), view.recorded_cost(route, i));
            let better = best.is_none_or(|best| {
                (grade, std::cmp::Reverse(cost)) > (best.grade, std::cmp::Reverse(best.cost))
            });
            if better {
                best = Some(Outcome {
                    cost,
                    grade,
                    route: route.0,
                    calls: 1,
                    flags: 0,
                });
            }
        }
        outcomes.push(match best {
            _ if missing => Outcome::UNDETERMINED,
            Some(best) => best,
            None if residency_only && !allowed => {
                Outcome::not_served(Unserved::RefusedByResidency, 0, 0)
            }
            None => Outcome::not_served(Unserved::NoCapableRoute, 0, 0),
        });
    }
}

#[inline(always)]
fn square(value: u64) -> i128 {
    // (2⁶⁴)² does not fit, but one request never costs 18 million dollars: clip at 2⁶³.
    let value = value.min(i64::MAX as u64) as u128;
    (value * value) as i128
}

/// Adds the outcomes of one policy.
fn add(tally: &mut Tally, outcomes: &[Outcome], asks: &[Ask]) {
    tally.requests += outcomes.len() as u64;
    tally.unknown_need += asks
        .iter()
        .filter(|ask| ask.need.input_tokens == Tokens::UNKNOWN)
        .count() as u64;
    // Right, wrong and priced is what nearly every outcome is: these sums stay in registers.
    let (mut right, mut wrong, mut calls, mut calls_square) = (0u64, 0u64, 0u64, 0u64);
    let (mut cost_sum, mut cost_square, mut right_cost) = (0u128, 0i128, 0u128);
    for outcome in outcomes {
        let plain = outcome.cost != COST_UNKNOWN && outcome.grade.is_binary();
        if !plain {
            add_other(tally, outcome);
            continue;
        }
        let is_right = outcome.grade == Score::RIGHT;
        right += u64::from(is_right);
        wrong += u64::from(!is_right);
        calls += u64::from(outcome.calls);
        calls_square += u64::from(outcome.calls) * u64::from(outcome.calls);
        cost_sum += u128::from(outcome.cost);
        cost_square += square(outcome.cost);
        right_cost += if is_right {
            u128::from(outcome.cost)
        } else {
            0
        };
        add_flags(tally, outcome);
    }
    let scale = i128::from(1_000_000);
    let graded = right + wrong;
    let (cost_sum, right_cost) = (cost_sum as i128, right_cost as i128);
    tally.graded += graded;
    tally.score_sum += i128::from(right) * scale;
    tally.score_square_sum += i128::from(right) * scale * scale;
    tally.calls_sum += calls;
    tally.calls_square_sum += calls_square;
    tally.costed += graded;
    tally.cost_sum += cost_sum;
    tally.cost_square_sum += cost_square;
    tally.both += graded;
    tally.both_cost_sum += cost_sum;
    tally.both_cost_square_sum += cost_square;
    tally.both_score_sum += i128::from(right) * scale;
    tally.both_score_square_sum += i128::from(right) * scale * scale;
    tally.both_cross_sum += right_cost * scale;
}

#[inline(always)]
fn add_flags(tally: &mut Tally, outcome: &Outcome) {
    if outcome.route != NO_ROUTE {
        tally.final_count[outcome.route as usize] += 1;
    }
    if outcome.flags != 0 {
        tally.unverified += u64::from(outcome.flags & flag::UNVERIFIED != 0);
        tally.escalated += u64::from(outcome.flags & flag::ESCALATED != 0);
        if let Some(why) = outcome.unserved() {
            tally.unserved[why] += 1;
        }
    }
}

/// An outcome with an unknown cost, or with a grade that is partial or missing.
fn add_other(tally: &mut Tally, outcome: &Outcome) {
    if outcome.flags & flag::UNDETERMINED != 0 {
        tally.undetermined += 1;
        return;
    }
    add_flags(tally, outcome);
    tally.calls_sum += u64::from(outcome.calls);
    tally.calls_square_sum += u64::from(outcome.calls) * u64::from(outcome.calls);
    let score = outcome.grade.millionths().map(i128::from);
    match score {
        None => tally.missing += 1,
        Some(score) => {
            tally.graded += 1;
            tally.fractional += u64::from(!outcome.grade.is_binary());
            tally.score_sum += score;
            tally.score_square_sum += score * score;
        }
    }
    if outcome.cost == COST_UNKNOWN {
        return;
    }
    let cost = i128::from(outcome.cost);
    tally.costed += 1;
    tally.cost_sum += cost;
    tally.cost_square_sum += square(outcome.cost);
    if let Some(score) = score {
        tally.both += 1;
        tally.both_cost_sum += cost;
        tally.both_cost_square_sum += square(outcome.cost);
        tally.both_score_sum += score;
        tally.both_score_square_sum += score * score;
        tally.both_cross_sum += cost * score;
    }
}

/// Adds the outcomes of a policy and of its baseline on the same requests.
fn add_pairs(pair: &mut PairTally, mine: &[Outcome], theirs: &[Outcome]) {
    let mut counts = [0u64; 4];
    for (mine, theirs) in mine.iter().zip(theirs) {
        if mine.grade.is_binary() && theirs.grade.is_binary() {
            let cell = usize::from(mine.grade == Score::RIGHT) * 2
                + usize::from(theirs.grade == Score::RIGHT);
            counts[cell] += 1;
        } else if let (Some(a), Some(b)) = (mine.grade.millionths(), theirs.grade.millionths()) {
            let difference = i128::from(a) - i128::from(b);
            pair.graded += 1;
            pair.fractional += 1;
            pair.score_difference_sum += difference;
            pair.score_difference_square_sum += difference * difference;
        }
        if mine.cost != COST_UNKNOWN && theirs.cost != COST_UNKNOWN {
            pair.costed += 1;
            pair.cost_difference_sum += i128::from(mine.cost) - i128::from(theirs.cost);
            pair.cost_difference_square_sum += square(mine.cost.abs_diff(theirs.cost));
        }
    }
    let [n00, n01, n10, n11] = counts;
    let scale = i128::from(1_000_000);
    pair.n00 += n00;
    pair.n01 += n01;
    pair.n10 += n10;
    pair.n11 += n11;
    pair.graded += counts.iter().sum::<u64>();
    pair.score_difference_sum += (i128::from(n10) - i128::from(n01)) * scale;
    pair.score_difference_square_sum += i128::from(n10 + n01) * scale * scale;
}
