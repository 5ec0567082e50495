//! One contestant on a timeline: its router, its providers, and the calls that are in progress.
//!
//! A call has exactly one outstanding step, so it has at most one entry in the queue of events. What an
//! attempt comes to is known when it is sent; the entry says when the caller learns of it. Entries are
//! taken in the order of time, and at the same moment in the order of requests, a request before its
//! mirror. Whoever arrives at that moment comes after them: what ends then has made room.

mod asking;
mod ending;

use std::collections::VecDeque;

use asking::Asked;

use super::chapter::{CHAPTER, Chapter, Window};
use super::passage::{Passage, Reason};
use super::queue::{Event, Queue};
use super::watch::Watch;
use crate::policy::{Ask, Feedback, FeedbackOf, Policy, Why};
use crate::router::{Call, Input, Need, Plan, Reply, RouteId, Router, Step, VerifierId};
use crate::sim::drive::{Outcome, Sum, Verified, VerifierCounts};
use crate::sim::episode::{World, jitter};
use crate::sim::ledger::Ledger;
use crate::standin::outcome::NOT_IN_WORLD;
use crate::stats::Tally;
use crate::timeline::{Answered, Attempted, Cause, Dimension, Providers, Slo};
use crate::units::{Duration, Instant, Tokens};
use crate::verify::Verifier;

/// Bits of a request's fate.
pub(super) mod fate {
    pub(in crate::sim::timeline) const SERVED: u8 = 1;
    pub(in crate::sim::timeline) const IN_SLO: u8 = 1 << 1;
    pub(in crate::sim::timeline) const RIGHT: u8 = 1 << 2;
    /// Nobody can say.
    pub(in crate::sim::timeline) const UNKNOWN: u8 = 1 << 3;
    /// Served, and nobody graded the answer.
    pub(in crate::sim::timeline) const UNGRADED: u8 = 1 << 4;
}

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
    number: u64,
    arrived: Instant,
    /// When the last attempt was sent.
    sent_at: Instant,
    pending: Pending,
    cost: Sum,
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
    /// Whether a route was passed over that could have been asked at another time.
    is_paused: bool,
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
    /// Whether it is a calm day.
    is_calm: bool,
    per_fold: Vec<Box<dyn Policy>>,
    verifiers: Vec<Verifier>,
    learns: bool,
    learns_from_attempts: bool,
    router: Router,
    providers: Providers<'a>,
    watch: Watch<'a>,
    pub(super) tally: Tally,
    counts: Verified,
    calls: Vec<Live>,
    free: Vec<u32>,
    queue: Queue,
    pub(super) ended: VecDeque<Ended>,
    /// By route: attempts in flight.
    in_flight: Vec<u32>,
    /// By route: a key of its name.
    route_keys: &'a [u64],
    now: Instant,
    spare: Vec<Ended>,
    /// Where decisions are written down, if they are.
    ledger: Option<Ledger>,
}

/// What a cell is made of.
pub(super) struct Parts<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) slo: Slo,
    pub(super) is_calm: bool,
    pub(super) per_fold: Vec<Box<dyn Policy>>,
    pub(super) verifiers: Vec<Verifier>,
    pub(super) router: Router,
    pub(super) providers: Providers<'a>,
    pub(super) watch: Watch<'a>,
    pub(super) route_keys: &'a [u64],
    pub(super) ledger: Option<Ledger>,
}

impl<'a> Cell<'a> {
    pub(super) fn new(parts: Parts<'a>) -> Self {
        let routes = parts.world.catalogue.routes.len();
        Self {
            learns: parts.per_fold.iter().any(|policy| policy.stateful()),
            learns_from_attempts: parts
                .per_fold
                .iter()
                .any(|policy| policy.learns_from_attempts()),
            world: parts.world,
            slo: parts.slo,
            is_calm: parts.is_calm,
            per_fold: parts.per_fold,
            verifiers: parts.verifiers,
            router: parts.router,
            providers: parts.providers,
            watch: parts.watch,
            tally: Tally {
                final_count: vec![0; routes],
                ..Tally::default()
            },
            counts: Verified::default(),
            calls: Vec::new(),
            free: Vec::new(),
            queue: Queue::new(),
            ended: VecDeque::new(),
            in_flight: vec![0; routes],
            route_keys: parts.route_keys,
            now: Instant::ZERO,
            spare: Vec::new(),
            ledger: parts.ledger,
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
            let mut ask = asks.get(i);
            ask.now = *at;
            self.arrive(window, chapter, i, &ask);
        }
    }

    /// Takes all events up to `end`, those at that moment included.
    fn until(&mut self, window: &Window, end: Instant) {
        while let Some(event) = self.queue.pop_until(end) {
            self.now = event.at;
            self.resume(window, event.place);
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

    /// Counts what became of the first chapter's requests, which arrived at `at`, that did not become of them
    /// on a calm day.
    pub(super) fn add_harm(&mut self, calm: &Ended, at: &[Instant]) {
        let Some(ended) = self.ended.front() else {
            return;
        };
        for ((mine, theirs), at) in ended.fates.iter().zip(&calm.fates).zip(at) {
            let either = mine | theirs;
            // Where nobody can say what became of a request, nobody can say that it was harmed.
            if either & fate::UNKNOWN != 0 {
                continue;
            }
            let gone = theirs & !mine;
            let counts = self.watch.counts_at(*at);
            counts.compared += 1;
            counts.harmed += u64::from(gone & fate::IN_SLO != 0);
            counts.lost += u64::from(gone & fate::SERVED != 0);
            if either & fate::UNGRADED == 0 {
                counts.judged += 1;
                counts.spoilt += u64::from(gone & fate::RIGHT != 0);
            }
        }
    }

    /// The end of the run: the policies as they are now, what was added up, what happened.
    pub(super) fn finish(mut self, span: Duration) -> Finished<'a> {
        self.counts.add_to(&mut self.tally);
        let end = self.now.max(Instant::ZERO.after(span));
        self.watch.finish(end);
        self.watch.passage.span = span;
        let routes = 0..self.route_keys.len();
        let breakers = routes.map(|route| self.router.breaker_state(RouteId(route as u16), end));
        self.watch.passage.breakers = breakers.collect();
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
            ledger: self.ledger,
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
        if let Some(ledger) = &mut self.ledger {
            ledger.decided(number, ask, &*self.per_fold[fold], decision.why);
        }
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

    /// Opens a call; most take up the room of one that is over.
    fn open(&mut self, opened: Opened, plan: Plan, jitter: u64) -> u32 {
        let live = Live {
            call: self.router.open(plan, opened.need, jitter),
            number: opened.number,
            arrived: self.now,
            sent_at: self.now,
            pending: Pending::Wake,
            cost: Sum(0),
            shown_at: None,
            seen: VerifierCounts::default(),
            why: opened.why,
            task: opened.task,
            calls: 0,
            attempts: 0,
            retries: 0,
            refused_by: None,
            is_paused: false,
            copies: opened.copies,
            mirror: Mirror::None,
            outcome: None,
        };
        if let Some(place) = self.free.pop() {
            self.calls[place as usize] = live;
            return place;
        }
        self.calls.push(live);
        self.watch.passage.in_flight_max = self.calls.len() as u64;
        (self.calls.len() - 1) as u32
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
                let verdict = self.read_by_judge(window, place, route, verifier, &answered, cost);
                if let Some(input) = self.heard(window, place, verdict) {
                    self.step(window, place, input);
                }
            }
        }
    }

    /// An attempt has ended: what the router is told of it.
    fn answered(
        &mut self,
        window: &Window,
        place: u32,
        route: RouteId,
        answered: &Answered,
    ) -> Input {
        self.in_flight[usize::from(route.0)] -= 1;
        if self.learns_from_attempts {
            self.tell_attempt(place, route, answered);
        }
        let live = &mut self.calls[place as usize];
        let traced = self.watch.tracer.is_some();
        if let Some(shown_at) = answered.shown_at
            && (traced || answered.fault.is_some())
        {
            // Nobody else is concerned by it, so it can be told now.
            self.router
                .step_stored(&mut live.call, Input::Shown, shown_at, &mut self.watch);
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
                let cost = chapter.outcomes(self.is_calm).cost(route, i);
                live.cost.add(cost);
                live.shown_at = answered.shown_at;
                Input::Reply(Reply { usage: None })
            }
        }
    }

    /// Tells policies that want to know about it what became of an attempt.
    fn tell_attempt(&mut self, place: u32, route: RouteId, answered: &Answered) {
        let live = &self.calls[place as usize];
        let feedback = Feedback {
            of: FeedbackOf::Attempt,
            request: live.number,
            task: live.task,
            why: live.why,
            route: Some(route),
            fault: answered.fault.map(|fault| fault.kind),
            usage: None,
            at: self.now,
            latency: self.now.since(live.sent_at),
            ttft: answered.shown_at.map(|at| at.since(live.sent_at)),
            grade: None,
        };
        for policy in &mut self.per_fold {
            policy.learn(&feedback);
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
            self.watch.is_paused = false;
            let live = &mut self.calls[place as usize];
            let step = self
                .router
                .step_stored(&mut live.call, input, self.now, &mut self.watch);
            live.is_paused |= self.watch.is_paused;
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
                    live.sent_at = self.now;
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
                    let allowed = chapter.requirement_of(i).residency;
                    let mut answered = self.send(&sent, allowed);
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
                    let Some(heard) = self.heard(window, place, verdict) else {
                        return;
                    };
                    input = heard;
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
        self.queue.push(Event {
            at: until,
            order: live.number << 1 | u64::from(live.copies.is_some()),
            place,
        });
    }
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

/// What is left of a cell.
pub(super) struct Finished<'a> {
    pub(super) per_fold: Vec<Box<dyn Policy>>,
    pub(super) verifiers: Vec<Verifier>,
    pub(super) tally: Tally,
    pub(super) passage: Passage,
    pub(super) tracer: Option<crate::sim::stage::Tracer<'a>>,
    pub(super) ledger: Option<Ledger>,
}
