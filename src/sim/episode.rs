//! One chunk: fill a batch, let every contestant decide on it, add up.

use super::clusters::{self, Clusters};
use super::contestants::{Field, Runner};
use super::drive::{self, Answering, Outcome, Verified};
use super::ledger::Ledger;
use super::plain::{Deciding, Plain};
use super::segments::Segments;
use super::tallying::{self, Column};
use crate::catalogue::{Catalogue, Requirement};
use crate::policy::{Ask, Asks, Policy, Rollout, Unit};
use crate::router::{RouteId, Router};
use crate::standin::outcome::{COST_UNKNOWN, NOT_IN_WORLD, Outcomes};
use crate::stats::{PairTally, Tally, Unserved};
use crate::units::{Duration, Instant, Price, Score, Tokens, mix64};
use crate::verify::Verifier;
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
    /// Whose requests are added up together for intervals, if anybody's are.
    pub(super) cluster: Option<Unit>,
    /// Whether each task of each tenant is added up apart.
    pub(super) segments: bool,
}

impl World<'_> {
    pub(super) fn requirement(&self, tenant: u16, class: u16) -> Requirement {
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

    /// What policies may know about the requests of the batch. `requirement` is room for what they need.
    pub(super) fn asks<'a>(
        &self,
        batch: &'a Batch,
        replicate: u32,
        requirement: &'a mut Vec<Requirement>,
    ) -> Asks<'a> {
        self.requirements_of(batch, requirement);
        Self::view(batch, requirement, self.key_of(replicate))
    }

    /// The key of draws that several requests of a replicate share.
    pub(super) fn key_of(&self, replicate: u32) -> u64 {
        mix64(self.key ^ u64::from(replicate))
    }

    /// What the requests of the batch need: one entry for all, or one for each.
    pub(super) fn requirements_of(&self, batch: &Batch, requirement: &mut Vec<Requirement>) {
        requirement.clear();
        if self.requirements.len() == 1 {
            // Most workloads have one requirement for everybody; then nothing is looked up.
            requirement.push(self.requirements[0]);
        } else {
            let names = batch.tenant[..batch.len].iter().zip(&batch.data_class);
            requirement.extend(names.map(|(tenant, class)| self.requirement(*tenant, *class)));
        }
    }

    /// The batch as policies see it.
    pub(super) fn view<'a>(batch: &'a Batch, requirement: &'a [Requirement], key: u64) -> Asks<'a> {
        Asks {
            task: &batch.task[..batch.len],
            tenant: &batch.tenant[..batch.len],
            language: &batch.language[..batch.len],
            user: &batch.user[..batch.len],
            session: &batch.session[..batch.len],
            prompt_chars: &batch.prompt_chars[..batch.len],
            difficulty_hint: &batch.difficulty_hint[..batch.len],
            input_tokens: &batch.input_tokens[..batch.len],
            output_cap: &batch.output_cap[..batch.len],
            tools: &batch.tools[..batch.len],
            requirement,
            word: &batch.policy_word[..batch.len],
            key,
        }
    }
}

/// The router's jitter of the request with this random word.
#[inline(always)]
pub(super) fn jitter(word: u64) -> u64 {
    mix64(word ^ JITTER)
}

/// Tallies of all contestants.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Sums {
    pub(super) tallies: Vec<Tally>,
    /// By contestant, then by baseline.
    pub(super) pairs: Vec<Vec<PairTally>>,
    /// The pairs by cluster, if asked for.
    pub(super) clusters: Option<Clusters>,
    /// Tallies and pairs by task and tenant, if asked for.
    pub(super) segments: Option<Segments>,
}

impl Sums {
    pub(super) fn new(world: &World<'_>, contestants: usize, baselines: usize) -> Self {
        let tally = Tally {
            final_count: vec![0; world.catalogue.routes.len()],
            ..Tally::default()
        };
        Self {
            tallies: vec![tally; contestants],
            pairs: vec![vec![PairTally::default(); baselines]; contestants],
            clusters: world.cluster.map(|_| Clusters::new(contestants, baselines)),
            segments: world
                .segments
                .then(|| Segments::new(contestants, baselines)),
        }
    }

    /// Pairs everybody's column with those of the baselines. The requests begin with number `first`;
    /// `batch` draws them, where it matters whose they are.
    pub(super) fn add_pairs<'b>(
        &mut self,
        columns: &[&Column],
        baselines: &[usize],
        (cluster, first): (Option<Unit>, u64),
        batch: impl FnOnce() -> &'b Batch,
    ) {
        for (b, baseline) in baselines.iter().enumerate() {
            for (mine, pairs) in columns.iter().zip(&mut self.pairs) {
                tallying::add_pairs(&mut pairs[b], mine, columns[*baseline]);
            }
        }
        if self.clusters.is_some() || self.segments.is_some() {
            self.add_parts(columns, baselines, (cluster, first), batch());
        }
    }

    /// Adds up clusters and segments.
    fn add_parts(
        &mut self,
        columns: &[&Column],
        baselines: &[usize],
        (cluster, first): (Option<Unit>, u64),
        batch: &Batch,
    ) {
        if let (Some(clusters), Some(unit)) = (&mut self.clusters, cluster) {
            clusters.add(&clusters::ids(unit, batch, first), columns, baselines);
        }
        if let Some(segments) = &mut self.segments {
            segments.add(batch, columns, baselines);
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
        if let (Some(mine), Some(theirs)) = (self.clusters.take(), other.clusters) {
            self.clusters = Some(mine.merge(theirs));
        }
        if let (Some(mine), Some(theirs)) = (self.segments.take(), other.segments) {
            self.segments = Some(mine.merge(theirs));
        }
        self
    }
}

/// What one worker reuses from chunk to chunk.
pub(super) struct Scratch {
    batch: Batch,
    /// What requests need, see [`Asks::requirement`].
    requirement: Vec<Requirement>,
    /// By request, if the workload has more than one fold.
    folds: Vec<u8>,
    plain: Plain,
    outcomes: Outcomes,
    /// By contestant.
    runners: Vec<ScratchRunner>,
    /// A router without history, for what only the configuration decides.
    fresh: Router,
}

struct ScratchRunner {
    runner: Runner,
    router: Router,
    column: Column,
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
                column: Column::default(),
            })
            .collect();
        Self {
            batch: Batch::default(),
            requirement: Vec::new(),
            folds: Vec::new(),
            plain: Plain::default(),
            outcomes: Outcomes::default(),
            runners,
            fresh,
        }
    }
}

impl Scratch {
    /// How far the candidates came that policies let in step by step, by contestant.
    pub(super) fn rollouts(&self) -> Vec<Option<Rollout>> {
        let runners = self.runners.iter();
        runners.map(|runner| runner.runner.rollout()).collect()
    }

    /// The contestants' policies as they are now.
    pub(super) fn runners(&self) -> impl Iterator<Item = &Runner> {
        self.runners.iter().map(|one| &one.runner)
    }

    /// The contestants' policies in their present state.
    pub(super) fn into_runners(self) -> Vec<Runner> {
        self.runners.into_iter().map(|one| one.runner).collect()
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
    let batch = &mut scratch.batch;
    world.workload.fill(key, first, slice, batch);
    let batch = &*batch;
    let asks = world.asks(batch, key.replicate, &mut scratch.requirement);
    scratch.folds.clear();
    if world.workload.folds() > 1 {
        let folds = (0..slice as u64).map(|i| world.workload.fold(first + i));
        scratch.folds.extend(folds);
    }
    let is_plain = scratch.plain.fill(batch, &asks, world, &scratch.fresh);
    // Whoever is walked request by request needs the answers in another shape: made for the first.
    let mut outcomes_ready = false;
    let mut ready = |outcomes: &mut Outcomes| {
        if !outcomes_ready {
            outcomes.fill(batch, &world.world, &world.prices);
            outcomes_ready = true;
        }
    };
    let unknown = asks.input_tokens.iter();
    let unknown_need = unknown.filter(|tokens| **tokens == Tokens::UNKNOWN).count() as u64;
    for (scratch_runner, tally) in scratch.runners.iter_mut().zip(&mut sums.tallies) {
        let ScratchRunner {
            runner,
            router,
            column,
        } = scratch_runner;
        match runner {
            Runner::Policy {
                per_fold,
                verifiers,
                ..
            } => {
                let decided = is_plain
                    && router.is_instant()
                    && Deciding {
                        plain: &mut scratch.plain,
                        per_fold,
                        folds: &scratch.folds,
                        verifiers,
                        batch,
                        asks: &asks,
                        router,
                        column,
                        tally,
                    }
                    .decide();
                if !decided {
                    ready(&mut scratch.outcomes);
                    let answering = Answering {
                        outcomes: &scratch.outcomes,
                        verifiers,
                        batch,
                        world,
                    };
                    let outcomes = column.begin_outcomes();
                    decide(
                        per_fold,
                        &scratch.folds,
                        router,
                        &answering,
                        &asks,
                        first,
                        outcomes,
                        tally,
                    );
                    tallying::add(tally, outcomes);
                }
            }
            Runner::Oracle => {
                ready(&mut scratch.outcomes);
                let outcomes = column.begin_outcomes();
                oracle(world, &scratch.outcomes, &asks, outcomes);
                tallying::add(tally, outcomes);
                tally.mirror_costed += slice as u64;
            }
            Runner::Unavailable => continue,
        }
        tally.unknown_need += unknown_need;
    }
    if baselines.is_empty() && sums.segments.is_none() {
        return;
    }
    for scratch_runner in &mut scratch.runners {
        scratch_runner.column.settle();
    }
    for (b, baseline) in baselines.iter().enumerate() {
        let theirs = &scratch.runners[*baseline].column;
        for (mine, pairs) in scratch.runners.iter().zip(&mut sums.pairs) {
            tallying::add_pairs(&mut pairs[b], &mine.column, theirs);
        }
    }
    if sums.clusters.is_some() || sums.segments.is_some() {
        let columns: Vec<&Column> = scratch.runners.iter().map(|one| &one.column).collect();
        sums.add_parts(&columns, baselines, (world.cluster, first), batch);
    }
}

fn decide(
    per_fold: &mut [Box<dyn Policy>],
    folds: &[u8],
    router: &mut Router,
    answering: &Answering<'_>,
    asks: &Asks<'_>,
    first: u64,
    outcomes: &mut Vec<Outcome>,
    tally: &mut Tally,
) {
    let learns = per_fold.iter().any(|policy| policy.stateful());
    let mut counts = Verified::default();
    let mut unseen = Verified::default();
    let mut unpriced = 0;
    let instant = is_instant(router, answering.verifiers);
    let last = per_fold.len() - 1;
    for i in 0..asks.len() {
        let fold = folds.get(i).map_or(0, |fold| usize::from(*fold).min(last));
        let ask = asks.get(i);
        let mut one = One {
            per_fold,
            fold,
            router,
            answering,
            instant,
            learns,
            ledger: None,
        };
        let (outcome, copy) = one.decide(&ask, first, i, &mut counts, &mut unseen);
        outcomes.push(outcome);
        if let Some(copy) = copy {
            unpriced += u64::from(copy.cost == COST_UNKNOWN);
            add_mirror(tally, outcomes.last(), &copy);
        }
    }
    // A request without a mirror costs nothing to mirror.
    tally.mirror_costed += asks.len() as u64 - unpriced;
    counts.add_to(tally);
}

/// What it takes to decide about one request of a slice, and to see what becomes of it.
pub(super) struct One<'a, 'w> {
    pub(super) per_fold: &'a mut [Box<dyn Policy>],
    pub(super) fold: usize,
    pub(super) router: &'a mut Router,
    pub(super) answering: &'a Answering<'w>,
    /// Whether what holds before the slice holds all through it, and no call is made step by step.
    pub(super) instant: bool,
    /// Whether anybody wants to know what became of it.
    pub(super) learns: bool,
    /// Where it is written down, if it is.
    pub(super) ledger: Option<&'a mut Ledger>,
}

impl One<'_, '_> {
    /// What became of the i-th request of the slice that begins with number `first`, and of its copy.
    #[inline(always)]
    pub(super) fn decide(
        &mut self,
        ask: &Ask,
        first: u64,
        i: usize,
        counts: &mut Verified,
        unseen: &mut Verified,
    ) -> (Outcome, Option<Outcome>) {
        let number = first + i as u64;
        let (router, answering) = (&mut *self.router, self.answering);
        let decision = self.per_fold[self.fold].plan(ask);
        if let Some(ledger) = &mut self.ledger {
            ledger.decided(number, ask, &*self.per_fold[self.fold], decision.why);
        }
        let eligible = self.instant.then(|| router.eligible_set(&ask.need));
        let jitter = jitter(ask.word);
        let serve = decision.serve;
        let outcome = drive::answer(router, answering, counts, serve, ask, eligible, jitter, i);
        if self.learns {
            // Tables answer at once.
            let (at, latency) = (Instant::ZERO, Duration::ZERO);
            let (task, why) = (ask.task, decision.why);
            drive::tell(self.per_fold, number, task, why, outcome, at, latency);
        }
        // Nobody waits for the mirror; its verdicts say nothing about what was served.
        let copy = decision.mirror.map(|mirror| {
            drive::answer(router, answering, unseen, mirror, ask, eligible, !jitter, i)
        });
        if let Some(ledger) = &mut self.ledger {
            ledger.ended(number, outcome);
            if let Some(copy) = copy {
                ledger.mirrored(number, copy);
            }
        }
        (outcome, copy)
    }
}

/// Whether a router answers at once for somebody with these verifiers. Failures cannot happen here, so what
/// holds before a slice holds all through it; but a judge's call is made step by step: it may be barred
/// from what the judged route may see.
pub(super) fn is_instant(router: &Router, verifiers: &[Verifier]) -> bool {
    router.is_instant() && !verifiers.iter().any(|one| one.judge().is_some())
}

/// Adds a copy of a request, and how its answer compares with what was served.
#[inline(never)]
pub(super) fn add_mirror(tally: &mut Tally, served: Option<&Outcome>, copy: &Outcome) {
    tally.mirror_calls += u64::from(copy.calls());
    // A copy that reached nobody says nothing about the candidate's answers.
    if let (Some(served), 1..) = (served, copy.calls()) {
        tally.mirrored += 1;
        let (first, second) = (copy.grade(), served.grade());
        if first.is_binary() && second.is_binary() {
            let cell = match (first == Score::RIGHT, second == Score::RIGHT) {
                (true, true) => &mut tally.m11,
                (true, false) => &mut tally.m10,
                (false, true) => &mut tally.m01,
                (false, false) => &mut tally.m00,
            };
            *cell += 1;
        } else if !first.is_missing() && !second.is_missing() {
            tally.mirror_fractional += 1;
        }
    }
    if copy.cost != COST_UNKNOWN {
        tallying::grow(&mut tally.mirror_cost_sum, i128::from(copy.cost));
        tallying::grow(
            &mut tally.mirror_cost_square_sum,
            tallying::square(copy.cost),
        );
    }
}

/// The best grade among the routes that can serve, ties to the cheaper. A route without a grade might
/// have been the best one; unless a route that is no dearer was right, nothing can be said.
pub(super) fn oracle(
    world: &World<'_>,
    view: &Outcomes,
    asks: &Asks<'_>,
    outcomes: &mut Vec<Outcome>,
) {
    for i in 0..asks.len() {
        let need = asks.need(i);
        let mut best: Option<Outcome> = None;
        // Least cost among the routes without a grade; one of unknown cost may have been free.
        let mut ungraded: Option<u64> = None;
        let mut refused = false;
        for (index, column) in world.world.iter().enumerate() {
            let route = RouteId(index as u16);
            if *column == NOT_IN_WORLD {
                continue;
            }
            if !world.catalogue.can_serve(route, &need) {
                let known = &world.catalogue.routes[index];
                refused |= !known.residency.is_subset_of(need.residency)
                    || (need.local_only && !known.local);
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
