//! One contestant on a timeline: its router, its providers, and the calls that are in progress.
//!
//! A call has exactly one outstanding step, so it has at most one entry in the queue of events. What an
//! attempt comes to is known when it is sent; the entry says when the caller learns of it. Entries are
//! taken in the order of time, and at the same moment in the order of requests, a request before its
//! mirror. Whoever arrives at that moment comes after them: what ends then has made room.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::chapter::{CHAPTER, Chapter, Window};
use super::passage::{Passage, Reason};
use super::watch::Watch;
use crate::policy::{Ask, Feedback, Policy, Why};
use crate::router::{
    Call, Failure, FailureReason, FaultKind, Input, Need, Plan, Reply, RouteId, Router, Served,
    ServedVerdict, Step, Verdict, VerifierId,
};
use crate::sim::drive::{Answering, NO_ROUTE, Outcome, Sum, VerifierCounts};
use crate::sim::episode::{self, World, jitter};
use crate::standin::outcome::{COST_UNKNOWN, JudgeCall, NOT_IN_WORLD};
use crate::stats::Tally;
use crate::timeline::{Answered, Attempted, Cause, Dimension, Providers, Slo};
use crate::units::{Duration, Instant, Score, Tokens};
use crate::verify::Verifier;

/// Bits of a request's fate.
pub(super) mod fate {
    pub(in crate::sim::timeline) const SERVED: u8 = 1;
    pub(in crate::sim::timeline) const IN_SLO: u8 = 1 << 1;
    pub(in crate::sim::timeline) const RIGHT: u8 = 1 << 2;
}

/// Keeps the draws of a judge's call apart from those of the attempt it judges.
const JUDGE: u64 = 0x6a75_6467_652e_3031;

/// What a call waits for.
#[derive(Clone, Copy)]
enum Pending {
    /// Its attempt at a route ends.
    Answer(RouteId, Answered),
    /// The router's wait is over.
    Wake,
    /// A judge has read the answer of a route, or could not.
    Judged(RouteId, VerifierId, Answered, u64),
}

/// The mirror of a request.
#[derive(Clone, Copy)]
enum Mirror {
    None,
    InProgress,
    Done(Outcome),
}

/// A call in progress.
struct Live {
    call: Call,
    need: Need,
    number: u64,
    arrived: Instant,
    pending: Pending,
    cost: Sum,
    /// What the last answer cost.
    last_cost: u64,
    /// When the caller saw the first token of the last answer, if it was not kept back.
    shown_at: Option<Instant>,
    seen: VerifierCounts,
    why: Why,
    task: u16,
    calls: u8,
    attempts: u16,
    retries: u16,
    /// The limit that refused it last, or on account of which a route was passed over.
    refused_by: Option<(u16, Dimension)>,
    /// For a mirror: the place of the request it copies.
    copies: Option<u32>,
    mirror: Mirror,
    /// What became of it, once that is known.
    outcome: Option<Outcome>,
}

/// What became of the requests of one chapter.
pub(super) struct Ended {
    pub(super) outcomes: Vec<Outcome>,
    /// Bits of [`fate`].
    pub(super) fates: Vec<u8>,
    /// Requests and mirrors that are still in progress.
    open: u32,
}

/// One contestant, in the world as it is or on a calm day.
pub(super) struct Cell<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) slo: Slo,
    per_fold: Vec<Box<dyn Policy>>,
    verifiers: Vec<Verifier>,
    learns: bool,
    router: Router,
    providers: Providers<'a>,
    watch: Watch<'a>,
    pub(super) tally: Tally,
    counts: VerifierCounts,
    calls: Vec<Live>,
    free: Vec<u32>,
    /// Time, request and whether it is a mirror, place of the call.
    queue: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    pub(super) ended: VecDeque<Ended>,
    /// By route: attempts in flight.
    in_flight: Vec<u32>,
    /// By route: a key of its name.
    route_keys: &'a [u64],
    now: Instant,
    spare: Vec<Ended>,
}

/// What a cell is made of.
pub(super) struct Parts<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) slo: Slo,
    pub(super) per_fold: Vec<Box<dyn Policy>>,
    pub(super) verifiers: Vec<Verifier>,
    pub(super) providers: Providers<'a>,
    pub(super) watch: Watch<'a>,
    pub(super) route_keys: &'a [u64],
}

impl<'a> Cell<'a> {
    pub(super) fn new(parts: Parts<'a>) -> Self {
        let routes = parts.world.catalogue.routes.len();
        Self {
            learns: parts.per_fold.iter().any(|policy| policy.stateful()),
            world: parts.world,
            slo: parts.slo,
            per_fold: parts.per_fold,
            verifiers: parts.verifiers,
            router: parts.world.catalogue.router(),
            providers: parts.providers,
            watch: parts.watch,
            tally: Tally {
                final_count: vec![0; routes],
                ..Tally::default()
            },
            counts: VerifierCounts::default(),
            calls: Vec::new(),
            free: Vec::new(),
            queue: BinaryHeap::new(),
            ended: VecDeque::new(),
            in_flight: vec![0; routes],
            route_keys: parts.route_keys,
            now: Instant::ZERO,
            spare: Vec::new(),
        }
    }

    /// Lets time pass until everybody of the window's last chapter has arrived.
    pub(super) fn play(&mut self, window: &Window) {
        let Some(chapter) = window.back() else {
            return;
        };
        let mut ended = self.spare.pop().unwrap_or_else(|| Ended {
            outcomes: Vec::with_capacity(CHAPTER),
            fates: Vec::with_capacity(CHAPTER),
            open: 0,
        });
        ended.outcomes.clear();
        ended.outcomes.resize(chapter.len(), Outcome::UNDETERMINED);
        ended.fates.clear();
        ended.fates.resize(chapter.len(), 0);
        ended.open = chapter.len() as u32;
        self.ended.push_back(ended);
        self.tally.unknown_need += chapter.unknown_need;
        let asks = chapter.asks();
        for (i, at) in chapter.at.iter().enumerate() {
            self.until(window, *at);
            self.now = *at;
            let ask = asks.get(i);
            self.arrive(window, chapter, i, &ask);
        }
    }

    /// Takes all events up to `end`, those at that moment included.
    fn until(&mut self, window: &Window, end: Instant) {
        while let Some(Reverse((at, _, place))) = self.queue.peek().copied() {
            if at > end {
                break;
            }
            self.queue.pop();
            self.now = at;
            self.resume(window, place);
        }
    }

    /// Lets everything come to its end.
    pub(super) fn drain(&mut self, window: &Window) {
        self.until(window, Instant(u64::MAX));
    }

    /// Whether nobody of the first chapter is in progress any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.front().is_none_or(|ended| ended.open == 0)
    }

    /// What became of the first chapter, which has ended.
    pub(super) fn front(&self) -> Option<&Ended> {
        self.ended.front()
    }

    /// Forgets the first chapter.
    pub(super) fn pop(&mut self) {
        self.spare.extend(self.ended.pop_front());
    }

    /// Counts of harm, by when a request of the first chapter arrived.
    pub(super) fn passage_mut(&mut self) -> &mut Passage {
        &mut self.watch.passage
    }

    /// The end of the run: the policies as they are now, what was added up, what happened.
    pub(super) fn finish(mut self, span: Duration) -> Finished<'a> {
        self.counts.add_to(&mut self.tally);
        let end = self.now.max(Instant::ZERO.after(span));
        self.watch.finish(end);
        self.watch.passage.span = span;
        let mut passage = self.watch.passage;
        for counts in &passage.bins {
            passage.totals.merge(counts);
        }
        Finished {
            per_fold: self.per_fold,
            verifiers: self.verifiers,
            tally: self.tally,
            passage,
            tracer: self.watch.tracer,
        }
    }

    /// A request arrives.
    fn arrive(&mut self, window: &Window, chapter: &Chapter, i: usize, ask: &Ask) {
        let last = self.per_fold.len() - 1;
        let fold = chapter
            .folds
            .get(i)
            .map_or(0, |fold| usize::from(*fold).min(last));
        let decision = self.per_fold[fold].plan(ask);
        let number = chapter.first + i as u64;
        let jitter = jitter(ask.word);
        let request = Opened {
            number,
            why: decision.why,
            task: ask.task,
            need: ask.need,
            copies: None,
        };
        let place = self.open(request, decision.serve, jitter);
        if decision.mirror.is_some() {
            self.calls[place as usize].mirror = Mirror::InProgress;
        }
        self.step(window, place, Input::Begin);
        let Some(mirror) = decision.mirror else {
            self.tally.mirror_costed += 1;
            return;
        };
        // The copy goes out with the request. What it does to breakers and limits concerns everybody.
        if let Some(ended) = self.ended.back_mut() {
            ended.open += 1;
        }
        let copy = Opened {
            copies: Some(place),
            ..request
        };
        let copy = self.open(copy, mirror, !jitter);
        self.step(window, copy, Input::Begin);
    }

    fn open(&mut self, opened: Opened, plan: Plan, jitter: u64) -> u32 {
        let live = Live {
            call: self.router.open(plan, opened.need, jitter),
            need: opened.need,
            number: opened.number,
            arrived: self.now,
            pending: Pending::Wake,
            cost: Sum(0),
            last_cost: 0,
            shown_at: None,
            seen: VerifierCounts::default(),
            why: opened.why,
            task: opened.task,
            calls: 0,
            attempts: 0,
            retries: 0,
            refused_by: None,
            copies: opened.copies,
            mirror: Mirror::None,
            outcome: None,
        };
        match self.free.pop() {
            Some(place) => {
                self.calls[place as usize] = live;
                place
            }
            None => {
                self.calls.push(live);
                self.watch.passage.in_flight_max = self.calls.len() as u64;
                (self.calls.len() - 1) as u32
            }
        }
    }

    /// What a call was waiting for has come.
    fn resume(&mut self, window: &Window, place: u32) {
        let live = &mut self.calls[place as usize];
        match live.pending {
            Pending::Wake => self.step(window, place, Input::Wake),
            Pending::Answer(route, answered) => {
                let input = self.answered(window, place, route, &answered);
                self.step(window, place, input);
            }
            Pending::Judged(route, verifier, answered, cost) => {
                if let Some(judge) = self.verifiers[usize::from(verifier.0)].judge() {
                    let asked = judge.route;
                    self.arrived_back(asked, &answered);
                }
                let verdict = if answered.fault.is_some() {
                    Some(Verdict::Unavailable)
                } else {
                    self.calls[place as usize].cost.add(cost);
                    self.look(window, place, route, verifier)
                };
                self.judged(window, place, verdict);
            }
        }
    }

    /// Books that an attempt at a route is over.
    fn arrived_back(&mut self, route: RouteId, answered: &Answered) {
        let index = usize::from(route.0);
        self.in_flight[index] -= 1;
        let refusal = match answered.cause {
            Cause::Limit(limit, dimension) => Some((limit, dimension)),
            _ => None,
        };
        self.watch.ended(index, refusal);
    }

    /// An attempt has ended: what the router is told of it.
    fn answered(
        &mut self,
        window: &Window,
        place: u32,
        route: RouteId,
        answered: &Answered,
    ) -> Input {
        self.arrived_back(route, answered);
        let live = &mut self.calls[place as usize];
        let traced = self.watch.tracer.is_some();
        if let Some(shown_at) = answered.shown_at
            && (traced || answered.fault.is_some())
        {
            // Nobody else is concerned by it, so it can be told now.
            self.router
                .step(&mut live.call, Input::Shown, shown_at, &mut self.watch);
        }
        match answered.fault {
            Some(fault) => {
                if let Cause::Limit(limit, dimension) = answered.cause {
                    live.refused_by = Some((limit, dimension));
                } else {
                    live.refused_by = None;
                }
                Input::Fault(fault)
            }
            None => {
                let (chapter, i) = window.of(live.number);
                live.last_cost = chapter.outcomes.cost(route, i);
                live.cost.add(live.last_cost);
                live.shown_at = answered.shown_at;
                Input::Reply(Reply { usage: None })
            }
        }
    }

    /// Takes the call as far as it goes without waiting.
    fn step(&mut self, window: &Window, place: u32, mut input: Input) {
        if let Some(tracer) = &mut self.watch.tracer {
            let live = &self.calls[place as usize];
            tracer.request = live.number;
            tracer.origin = if live.copies.is_some() { "mirror " } else { "" };
        }
        loop {
            self.watch.passed_over = None;
            let live = &mut self.calls[place as usize];
            let step = self
                .router
                .step(&mut live.call, input, self.now, &mut self.watch);
            if let Some(refusal) = self.watch.passed_over {
                live.refused_by = Some(refusal);
            }
            match step {
                Step::Send {
                    route,
                    attempt,
                    limits,
                    buffer,
                } => {
                    live.calls = live.calls.saturating_add(1);
                    live.attempts += 1;
                    live.retries += u16::from(attempt > 1);
                    let (chapter, i) = window.of(live.number);
                    let column = self.world.world[usize::from(route.0)];
                    let batch = &chapter.batch;
                    let sent = Attempted {
                        route,
                        at: self.now,
                        input: batch.input_tokens[i],
                        output: if column == NOT_IN_WORLD {
                            Tokens::UNKNOWN
                        } else {
                            batch.output(usize::from(column), i)
                        },
                        cap: batch.output_cap[i],
                        limits,
                        bits: Attempted::bits(
                            batch.policy_word[i],
                            self.route_keys[usize::from(route.0)]
                                ^ u64::from(live.copies.is_some()),
                            attempt,
                        ),
                    };
                    let need = live.need;
                    let mut answered = self.send(&sent, need);
                    if buffer {
                        answered.shown_at = None;
                    }
                    if answered.ended_at > self.now {
                        self.wait(place, answered.ended_at, Pending::Answer(route, answered));
                        return;
                    }
                    input = self.answered(window, place, route, &answered);
                }
                Step::Verify { route, verifier } => {
                    let verdict = if self.verifiers[usize::from(verifier.0)].judge().is_some() {
                        match self.ask_judge(window, place, route, verifier) {
                            Asked::Later => return,
                            Asked::Now(verdict) => verdict,
                        }
                    } else {
                        self.look(window, place, route, verifier)
                    };
                    let Some(verdict) = verdict else {
                        self.cannot_tell(window, place);
                        return;
                    };
                    if verdict == Verdict::Unavailable {
                        self.calls[place as usize].seen.unavailable += 1;
                    }
                    input = Input::Verdict(verdict);
                }
                Step::Wait { until } => {
                    if until > self.now {
                        self.wait(place, until, Pending::Wake);
                        return;
                    }
                    input = Input::Wake;
                }
                Step::Done(served) => {
                    self.served(window, place, &served);
                    return;
                }
                Step::Failed(failure) => {
                    self.failed(window, place, &failure);
                    return;
                }
            }
        }
    }

    fn wait(&mut self, place: u32, until: Instant, pending: Pending) {
        let live = &mut self.calls[place as usize];
        live.pending = pending;
        let order = live.number << 1 | u64::from(live.copies.is_some());
        self.queue.push(Reverse((until, order, place)));
    }

    /// Sends an attempt to a provider, and books it.
    fn send(&mut self, sent: &Attempted, need: Need) -> Answered {
        let index = usize::from(sent.route.0);
        let answered = self.providers.attempt(sent);
        self.in_flight[index] += 1;
        let in_flight = self.in_flight[index];
        let bin = self.watch.bin(index, sent.at);
        bin.attempts += 1;
        bin.in_flight_max = bin.in_flight_max.max(in_flight);
        if answered.fault.is_some() {
            bin.failed += 1;
            bin.refused += u64::from(matches!(answered.cause, Cause::Limit(..)));
        } else if let Some(shown_at) = answered.shown_at {
            bin.ttft_sum = bin.ttft_sum.plus(shown_at.since(sent.at));
        }
        let passage = &mut self.watch.passage;
        if !self.world.catalogue.routes[index]
            .residency
            .is_subset_of(need.residency)
        {
            passage.residency_violations += 1;
        }
        let passage = &mut passage.routes[index];
        passage.attempts += 1;
        match (answered.fault, answered.cause) {
            (Some(fault), cause) => {
                passage.faults[fault.kind as usize] += 1;
                match cause {
                    Cause::Limit(_, dimension) => passage.refused[dimension as usize] += 1,
                    Cause::Incident(_) => passage.by_incident += 1,
                    Cause::Patience => passage.hung_up += 1,
                    Cause::Chance | Cause::None => {}
                }
            }
            (None, _) => {
                passage.output_tokens += u64::from(sent.output.get().unwrap_or(0));
                if let Some(shown_at) = answered.shown_at {
                    passage.ttft.add(shown_at.since(sent.at));
                }
            }
        }
        passage.queued = passage.queued.plus(answered.started_at.since(sent.at));
        if !matches!(answered.cause, Cause::Limit(..)) {
            passage.input_tokens += u64::from(sent.input.get().unwrap_or(0));
        }
        answered
    }

    /// Asks a judge, if the request may go there.
    fn ask_judge(
        &mut self,
        window: &Window,
        place: u32,
        judged: RouteId,
        verifier: VerifierId,
    ) -> Asked {
        let Some(judge) = self.verifiers[usize::from(verifier.0)].judge() else {
            return Asked::Now(Some(Verdict::Unavailable));
        };
        let live = &mut self.calls[place as usize];
        let (chapter, i) = window.of(live.number);
        let answering = Answering {
            outcomes: &chapter.outcomes,
            verifiers: &self.verifiers,
            batch: &chapter.batch,
            world: self.world,
        };
        let Some(cost) = answering.judge_call(&self.router, judge, judged, live.need, i) else {
            return Asked::Now(Some(Verdict::Unavailable));
        };
        live.calls = live.calls.saturating_add(1);
        live.seen.judge_calls += 1;
        let column = self.world.world[usize::from(judged.0)];
        let price = self.world.prices[usize::from(judge.route.0)];
        let sent = Attempted {
            route: judge.route,
            at: self.now,
            input: JudgeCall::new(judge, price, &chapter.batch, column, i).input_tokens,
            output: Tokens::new(judge.output_tokens),
            cap: Tokens::new(judge.output_tokens),
            limits: self.world.catalogue.limits,
            bits: Attempted::bits(
                chapter.batch.policy_word[i] ^ JUDGE ^ u64::from(judged.0),
                self.route_keys[usize::from(judge.route.0)],
                1,
            ),
        };
        let need = live.need;
        let answered = self.send(&sent, need);
        if answered.ended_at > self.now {
            let until = answered.ended_at;
            self.wait(
                place,
                until,
                Pending::Judged(judged, verifier, answered, cost),
            );
            return Asked::Later;
        }
        self.arrived_back(sent.route, &answered);
        if answered.fault.is_some() {
            return Asked::Now(Some(Verdict::Unavailable));
        }
        self.calls[place as usize].cost.add(cost);
        Asked::Now(self.look(window, place, judged, verifier))
    }

    /// The verdict on an answer; `None` if nobody graded it.
    fn look(
        &mut self,
        window: &Window,
        place: u32,
        route: RouteId,
        verifier: VerifierId,
    ) -> Option<Verdict> {
        let live = &mut self.calls[place as usize];
        let (chapter, i) = window.of(live.number);
        let verifier = &self.verifiers[usize::from(verifier.0)];
        let accepted = chapter.outcomes.accepts(verifier, route, i)?;
        live.seen.note(chapter.outcomes.grade(route, i), accepted);
        Some(if accepted {
            Verdict::Accept
        } else {
            Verdict::Reject
        })
    }

    /// A verdict that took time.
    fn judged(&mut self, window: &Window, place: u32, verdict: Option<Verdict>) {
        match verdict {
            None => self.cannot_tell(window, place),
            Some(verdict) => {
                if verdict == Verdict::Unavailable {
                    self.calls[place as usize].seen.unavailable += 1;
                }
                self.step(window, place, Input::Verdict(verdict));
            }
        }
    }

    /// A verifier met an answer that nobody graded.
    fn cannot_tell(&mut self, window: &Window, place: u32) {
        let live = &mut self.calls[place as usize];
        self.router
            .step(&mut live.call, Input::Cancelled, self.now, &mut self.watch);
        live.seen = VerifierCounts::default();
        if live.copies.is_none() {
            let arrived = live.arrived;
            self.watch.passage.counts_at(arrived).undetermined += 1;
        }
        self.end(window, place, Outcome::UNDETERMINED, 0);
    }

    fn served(&mut self, window: &Window, place: u32, served: &Served) {
        let live = &mut self.calls[place as usize];
        let (chapter, i) = window.of(live.number);
        let grade = chapter.outcomes.grade(served.route, i);
        let outcome = Outcome::of_served(served, grade, live.cost.0, live.calls);
        if live.copies.is_some() {
            self.end(window, place, outcome, 0);
            return;
        }
        let shown_at = match served.verdict {
            ServedVerdict::NotAsked => live.shown_at.unwrap_or(self.now),
            // It was kept back until now.
            ServedVerdict::Accepted | ServedVerdict::Unverified => self.now,
        };
        let ttft = shown_at.since(live.arrived);
        let total = self.now.since(live.arrived);
        let in_slo = ttft <= self.slo.ttft && total <= self.slo.total;
        let own_cost = chapter.outcomes.cost(served.route, i);
        let passage = &mut self.watch.passage;
        if live.cost.0 != COST_UNKNOWN && own_cost != COST_UNKNOWN {
            passage.wasted_cost += u128::from(live.cost.0.saturating_sub(own_cost));
        }
        passage.ttft.add(ttft);
        passage.total.add(total);
        passage.routes[usize::from(served.route.0)].served += 1;
        let counts = passage.counts_at(live.arrived);
        counts.served += 1;
        counts.in_slo += u64::from(in_slo);
        counts.fallback += u64::from(served.leg > served.escalations);
        counts.escalated += u64::from(served.escalations > 0);
        let mut fate = fate::SERVED;
        fate |= if in_slo { fate::IN_SLO } else { 0 };
        fate |= if grade == Score::RIGHT {
            fate::RIGHT
        } else {
            0
        };
        self.end(window, place, outcome, fate);
    }

    fn failed(&mut self, window: &Window, place: u32, failure: &Failure) {
        let live = &mut self.calls[place as usize];
        let outcome = Outcome::of_failure(failure, live.cost.0, live.calls);
        if live.copies.is_none() {
            let (chapter, i) = window.of(live.number);
            let class = chapter.class[i];
            let reason = match (failure.reason, live.refused_by) {
                (FailureReason::RefusedByResidency, _) => Reason::Residency,
                (FailureReason::NoCapableRoute, _) => Reason::NoCapableRoute,
                (
                    FailureReason::AllUnavailable | FailureReason::Exhausted(FaultKind::RateLimit),
                    Some((limit, dimension)),
                ) => Reason::Saturated(limit, dimension),
                (FailureReason::Exhausted(kind), _) => Reason::Exhausted(kind),
                (FailureReason::AllUnavailable, None) => Reason::Unavailable,
                (FailureReason::Rejected(kind), _) => Reason::Rejected(kind),
                (FailureReason::MidStream(kind), _) => Reason::MidStream(kind),
                (FailureReason::Deadline, _) => Reason::Deadline,
                (FailureReason::RetryBudget, _) => Reason::RetryBudget,
                (FailureReason::MoneyBudget, _) => Reason::MoneyBudget,
                // Nobody cancels a call here.
                (FailureReason::Cancelled, _) => Reason::Unavailable,
            };
            let passage = &mut self.watch.passage;
            if live.cost.0 != COST_UNKNOWN {
                passage.wasted_cost += u128::from(live.cost.0);
            }
            passage.lose(class, reason);
        }
        self.end(window, place, outcome, 0);
    }

    /// A call is over.
    fn end(&mut self, window: &Window, place: u32, outcome: Outcome, fate: u8) {
        let live = &mut self.calls[place as usize];
        let chapter = live.number / CHAPTER as u64 - window.base();
        let i = (live.number % CHAPTER as u64) as usize;
        let ended = &mut self.ended[chapter as usize];
        ended.open -= 1;
        if let Some(request) = live.copies {
            self.free.push(place);
            let original = &mut self.calls[request as usize];
            match original.outcome {
                Some(served) => {
                    join(&mut self.tally, &served, &outcome);
                    self.free.push(request);
                }
                None => original.mirror = Mirror::Done(outcome),
            }
            return;
        }
        ended.outcomes[i] = outcome;
        ended.fates[i] = fate;
        self.counts.add(live.seen);
        let counts = self.watch.passage.counts_at(live.arrived);
        counts.requests += 1;
        counts.attempts += u64::from(live.attempts);
        counts.retries += u64::from(live.retries);
        let (number, task, why, arrived) = (live.number, live.task, live.why, live.arrived);
        match live.mirror {
            Mirror::None => self.free.push(place),
            Mirror::InProgress => live.outcome = Some(outcome),
            Mirror::Done(copy) => {
                join(&mut self.tally, &outcome, &copy);
                self.free.push(place);
            }
        }
        if self.learns {
            let grade = outcome.grade();
            let feedback = Feedback {
                request: number,
                task,
                why,
                route: (outcome.route() != NO_ROUTE).then_some(RouteId(outcome.route())),
                fault: None,
                usage: None,
                latency: self.now.since(arrived),
                grade: (!grade.is_missing()).then_some(grade),
            };
            for policy in &mut self.per_fold {
                policy.learn(&feedback);
            }
        }
    }
}

/// Adds a copy of a request to the tally.
fn join(tally: &mut Tally, served: &Outcome, copy: &Outcome) {
    tally.mirror_costed += u64::from(copy.cost != COST_UNKNOWN);
    episode::add_mirror(tally, Some(served), copy);
}

/// What a call is opened with.
#[derive(Clone, Copy)]
struct Opened {
    number: u64,
    why: Why,
    task: u16,
    need: Need,
    copies: Option<u32>,
}

/// When a judge's verdict comes.
enum Asked {
    Later,
    Now(Option<Verdict>),
}

/// What is left of a cell.
pub(super) struct Finished<'a> {
    pub(super) per_fold: Vec<Box<dyn Policy>>,
    pub(super) verifiers: Vec<Verifier>,
    pub(super) tally: Tally,
    pub(super) passage: Passage,
    pub(super) tracer: Option<crate::sim::stage::Tracer<'a>>,
}
