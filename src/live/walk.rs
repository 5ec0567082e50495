//! One call on its way through the router: does what each step says and reports what happened.
//!
//! The state of the call is kept in the struct, not in a future: whoever drops a future that waits for
//! the next event and asks again later loses nothing, and whoever drops the struct cancels the call.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use super::client::Shared;
use super::error::CallError;
use super::flight::{Flight, Order};
use super::record::{self, Ending};
use super::verdict::{Verdicts, verdict};
use crate::policy::{Feedback, FeedbackOf, Why};
use crate::router::{
    Alert, BreakerChange, Call, Failure, Fault, FaultKind, Input, Log, Need, Plan, Reply, RouteId,
    Served, Skip, Step, Verdict,
};
use crate::traffic::{Attempt, Origin, Rejected};
use crate::units::{Duration, Instant};
use crate::wire::{self, Place, Request, Response, StreamEvent};

/// A request with everything its attempts have in common.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) request: Request,
    pub(super) need: Need,
    pub(super) trace_id: String,
    pub(super) origin: Origin,
    /// Names of the regions the data may go to; `None` for anywhere.
    pub(super) residency: Option<Vec<String>>,
    /// Number of the call, index of the task and the policy's reason, for policies that learn.
    pub(super) number: u64,
    pub(super) task: u16,
    pub(super) why: Why,
    pub(super) jitter: u64,
}

/// One call.
pub(super) struct Walk {
    shared: Arc<Shared>,
    question: Arc<Question>,
    /// The copy to be sent beside it.
    mirror: Option<Plan>,
    streamed: bool,
    call: Call,
    /// `None` before the first step.
    step: Option<Step>,
    flight: Option<Flight>,
    verdicts: Option<Verdicts>,
    /// The record of an attempt that a verifier is looking at.
    pending: Option<Attempt>,
    /// Answers that were not shown, by route and attempt.
    kept: Vec<(RouteId, u8, Response)>,
    /// Events for the caller.
    out: VecDeque<StreamEvent>,
    /// The end of the answer that was shown.
    finish: Option<StreamEvent>,
    served: Option<Served>,
    response: Option<Response>,
    failure: Option<Failure>,
    last_error: Option<wire::Error>,
    partial: String,
    rejected: Vec<Rejected>,
    trail: Vec<Attempt>,
    /// The wait before the next attempt.
    waited: Duration,
    deadline: Instant,
    /// Time for which the caller did not ask for more.
    idle: Duration,
    /// When the caller was last given something.
    given_at: Option<Instant>,
    over: bool,
}

impl Walk {
    pub(super) fn new(
        shared: Arc<Shared>,
        question: Arc<Question>,
        plan: Plan,
        mirror: Option<Plan>,
        streamed: bool,
        jitter: u64,
    ) -> Self {
        let call = shared.router().open(plan, question.need, jitter);
        Self {
            shared,
            question,
            mirror,
            streamed,
            call,
            step: None,
            flight: None,
            verdicts: None,
            pending: None,
            kept: Vec::new(),
            out: VecDeque::new(),
            finish: None,
            served: None,
            response: None,
            failure: None,
            last_error: None,
            partial: String::new(),
            rejected: Vec::new(),
            trail: Vec::new(),
            waited: Duration::ZERO,
            deadline: Instant(u64::MAX),
            idle: Duration::ZERO,
            given_at: None,
            over: false,
        }
    }

    /// Goes on until there is something for the caller: an event, the failure, or nothing more.
    pub(super) async fn next(&mut self) -> Option<Result<StreamEvent, CallError>> {
        if let Some(given) = self.given_at.take() {
            self.idle = self.idle.plus(self.shared.clock.now().since(given));
        }
        loop {
            if let Some(event) = self.out.pop_front() {
                self.given_at = Some(self.shared.clock.now());
                return Some(Ok(event));
            }
            if let Some(failure) = self.failure.take() {
                return Some(Err(self.error(failure)));
            }
            if self.over {
                return None;
            }
            self.turn().await;
        }
    }

    /// Goes on to the end and returns the answer.
    pub(super) async fn run(&mut self) -> Result<Response, CallError> {
        loop {
            match self.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => break,
            }
        }
        // A walk that is over without a failure was served.
        Ok(self.response.take().unwrap_or_default())
    }

    pub(super) fn trail(&self) -> &[Attempt] {
        &self.trail
    }

    pub(super) fn take_trail(&mut self) -> Vec<Attempt> {
        std::mem::take(&mut self.trail)
    }

    pub(super) const fn served(&self) -> Option<Served> {
        self.served
    }

    /// Waits for what the outstanding step is about, and reports it.
    async fn turn(&mut self) {
        match self.step {
            None => self.begin(),
            Some(Step::Send { .. }) => self.fly().await,
            Some(Step::Wait { until }) => {
                self.shared.clock.wait(until).await;
                self.feed(Input::Wake);
            }
            Some(Step::Verify { .. }) => {
                let (verdict, trail) = match &mut self.verdicts {
                    Some(verdicts) => verdicts.await,
                    None => (Verdict::Unavailable, Vec::new()),
                };
                self.verdicts = None;
                self.trail.extend(trail);
                if let Some(mut record) = self.pending.take() {
                    record.verdict = Some(verdict_name(verdict).to_owned());
                    self.emit(record);
                }
                self.feed(Input::Verdict(verdict));
            }
            Some(Step::Done(_) | Step::Failed(_)) => self.over = true,
        }
    }

    fn begin(&mut self) {
        let now = self.shared.clock.now();
        let own = self.shared.call_deadline;
        self.deadline = now
            .after(own)
            .min(self.question.need.deadline.unwrap_or(Instant(u64::MAX)));
        if let Some(plan) = self.mirror.take() {
            let question = Question {
                origin: Origin::Shadow,
                ..(*self.question).clone()
            };
            self.shared.mirror(Arc::new(question), plan);
        }
        self.feed(Input::Begin);
    }

    async fn fly(&mut self) {
        let Some(flight) = &mut self.flight else {
            // Nobody sends without a flight; but if so, nothing is going to come of it.
            self.feed(Input::Cancelled);
            return;
        };
        let mut events = Vec::new();
        let progress = flight
            .advance(
                &*self.shared.clock,
                self.idle,
                &self.question.request,
                &mut events,
            )
            .await;
        if !events.is_empty() {
            // First the router hears that there is no way back, then the caller sees why.
            self.shown();
            self.out.extend(events);
        }
        match progress {
            Ok(false) => {}
            Ok(true) => self.landed(),
            Err(error) => self.crashed(error, None),
        }
    }

    /// The attempt's own time.
    fn own_now(&self) -> Instant {
        let now = self.shared.clock.now();
        Instant(now.0.saturating_sub(self.idle.0))
    }

    /// An answer is complete.
    fn landed(&mut self) {
        let Some(finish) = self
            .flight
            .as_ref()
            .and_then(|flight| flight.finish.clone())
        else {
            return;
        };
        if let Some(kind) = finish.stop.fault() {
            let mut error = wire::Error::new(
                kind,
                Place::InBody,
                finish
                    .raw_stop
                    .as_deref()
                    .unwrap_or("the answer was held back"),
            );
            error.request_id.clone_from(&finish.request_id);
            self.crashed(error, finish.usage.billed());
            return;
        }
        let Some(flight) = self.flight.take() else {
            return;
        };
        let now = self.own_now();
        let record = self.record(&flight, Ending::Answer, now);
        self.learn(&flight, None, finish.usage.billed(), now);
        if flight.buffer {
            self.pending = Some(record);
        } else {
            self.emit(record);
        }
        let usage = finish.usage.billed();
        if flight.is_forwarded() {
            self.finish = Some(StreamEvent::Done(finish));
        } else if let Some(response) = flight.collector.response() {
            self.kept.push((flight.route, flight.attempt, response));
        }
        self.feed(Input::Reply(Reply { usage }));
    }

    /// An attempt failed.
    fn crashed(&mut self, mut error: wire::Error, usage: Option<crate::router::Usage>) {
        let Some(flight) = self.flight.take() else {
            return;
        };
        let now = self.own_now();
        let shown = flight.is_forwarded() && flight.first.is_some();
        error.after_output = shown;
        self.scrub(flight.route, &mut error);
        let ending = Ending::Failure {
            error: &error,
            shown,
        };
        let record = self.record(&flight, ending, now);
        self.learn(&flight, Some(error.kind), usage, now);
        self.emit(record);
        if shown {
            self.partial = flight.collector.text().to_owned();
        }
        let fault = Fault {
            usage,
            ..error.fault()
        };
        self.last_error = Some(error);
        self.feed(Input::Fault(fault));
    }

    /// Takes the key out of what a server says about it.
    fn scrub(&self, route: RouteId, error: &mut wire::Error) {
        let endpoint = self.shared.endpoints.get(usize::from(route.0));
        let key = endpoint
            .and_then(Option::as_ref)
            .and_then(|endpoint| endpoint.key.as_deref());
        error.message = record::scrub(&error.message, key);
        error.code = error.code.as_deref().map(|code| record::scrub(code, key));
        error.request_id = error.request_id.as_deref().map(|id| record::scrub(id, key));
    }

    fn record(&self, flight: &Flight, ending: Ending<'_>, now: Instant) -> Attempt {
        let (shared, question) = (&self.shared, &self.question);
        record::ended(shared, question, flight, ending, &self.rejected, now)
    }

    fn learn(
        &self,
        flight: &Flight,
        fault: Option<FaultKind>,
        usage: Option<crate::router::Usage>,
        now: Instant,
    ) {
        if self.shared.learns && self.question.origin == Origin::User {
            let feedback = Feedback {
                of: FeedbackOf::Attempt,
                request: self.question.number,
                task: self.question.task,
                why: self.question.why,
                route: Some(flight.route),
                fault,
                usage,
                at: self.shared.clock.now(),
                latency: now.since(flight.started),
                ttft: flight.first.map(|first| first.since(flight.started)),
                grade: None,
            };
            let policy = self.shared.policy.lock();
            policy
                .unwrap_or_else(PoisonError::into_inner)
                .learn(&feedback);
        }
    }

    fn emit(&mut self, record: Attempt) {
        for hook in &self.shared.hooks {
            hook.attempt(&record);
        }
        self.trail.push(record);
    }

    /// The first output reaches the caller. The outstanding step stays what it is.
    fn shown(&mut self) {
        let now = self.shared.clock.now();
        let mut router = self.shared.router();
        router.step(&mut self.call, Input::Shown, now, &mut ());
    }

    /// Tells the router what happened and begins what it says.
    fn feed(&mut self, input: Input) {
        let now = self.shared.clock.now();
        let mut diary = Diary::default();
        let step = self
            .shared
            .router()
            .step(&mut self.call, input, now, &mut diary);
        if !matches!(step, Step::Verify { .. })
            && let Some(record) = self.pending.take()
        {
            self.emit(record);
        }
        self.tell(diary);
        let before = self.step.replace(step);
        match step {
            Step::Send {
                route,
                attempt,
                limits,
                buffer,
            } => {
                let order = Order {
                    route,
                    attempt,
                    limits,
                    buffer,
                    streamed: self.streamed,
                    waited: std::mem::replace(&mut self.waited, Duration::ZERO),
                };
                self.send(order, Instant(now.0.saturating_sub(self.idle.0)));
            }
            // A wait that goes on was counted when it began.
            Step::Wait { until } if before != Some(step) => {
                self.waited = self.waited.plus(until.since(now));
            }
            Step::Wait { .. } => {}
            Step::Verify { route, verifier } => {
                let newest = self.kept.iter().rev().find(|(kept, ..)| *kept == route);
                self.verdicts = newest.map(|(_, _, response)| {
                    let (shared, question) = (self.shared.clone(), self.question.clone());
                    verdict(shared, question, verifier, response, self.deadline)
                });
            }
            Step::Done(served) => self.serve(served),
            Step::Failed(failure) => {
                self.failure = Some(failure);
                self.over = true;
            }
        }
    }

    fn send(&mut self, order: Order, now: Instant) {
        let index = usize::from(order.route.0);
        let shared = self.shared.clone();
        let Some(endpoint) = shared.endpoints.get(index).and_then(Option::as_ref) else {
            // Only a policy that names routes it does not own up to gets here.
            self.feed(Input::Fault(Fault {
                kind: FaultKind::Unsupported,
                retry_after: None,
                usage: None,
            }));
            return;
        };
        let request = &self.question.request;
        self.flight = Some(Flight::depart(&shared.http, endpoint, request, order, now));
    }

    /// The answer is settled.
    fn serve(&mut self, served: Served) {
        self.served = Some(served);
        self.over = true;
        if let Some(finish) = self.finish.take() {
            self.out.push_back(finish);
            return;
        }
        let kept = self
            .kept
            .iter()
            .position(|(route, attempt, _)| (*route, *attempt) == (served.route, served.attempt));
        let Some(index) = kept else {
            return;
        };
        let (_, _, response) = self.kept.swap_remove(index);
        if self.streamed {
            let mut events = Vec::new();
            response.into_events(&mut events);
            self.out.extend(events);
        } else {
            self.response = Some(response);
        }
    }

    /// Passes on what the router noted.
    fn tell(&mut self, diary: Diary) {
        for (route, why) in diary.skips {
            let record = record::skipped(&self.shared, &self.question, route, why, &self.rejected);
            self.rejected.push(Rejected {
                route: record.route.clone(),
                reason: why.name().to_owned(),
            });
            self.emit(record);
        }
        let name = |route: RouteId| {
            let named = self.shared.catalogue.routes.get(usize::from(route.0));
            named.map_or("", |route| route.name.as_str())
        };
        for hook in &self.shared.hooks {
            for (route, change) in &diary.breakers {
                hook.breaker(name(*route), *change);
            }
            for (route, kind) in &diary.alerts {
                hook.alert(name(*route), *kind);
            }
        }
    }

    fn error(&mut self, failure: Failure) -> CallError {
        let trail = self.trail.clone();
        let last = self.last_error.take().map(Box::new);
        match (failure.reason, last) {
            (crate::router::FailureReason::MidStream(_), Some(error)) => CallError::MidStream {
                error,
                partial: std::mem::take(&mut self.partial),
                trail,
            },
            (_, last) => CallError::Unserved {
                failure,
                last,
                trail,
            },
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if self.over || self.step.is_none() {
            return;
        }
        self.verdicts = None;
        if let Some(flight) = self.flight.take() {
            let now = self.own_now();
            let record = self.record(&flight, Ending::Cancelled, now);
            // The connection closes before anybody hears of it.
            drop(flight);
            self.pending = Some(record);
        }
        if std::thread::panicking() {
            // A hook that panics again in the middle of a panic would end the process.
            let again = std::panic::AssertUnwindSafe(|| self.feed(Input::Cancelled));
            let _ = std::panic::catch_unwind(again);
        } else {
            self.feed(Input::Cancelled);
        }
    }
}

const fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Accept => "accept",
        Verdict::Reject => "reject",
        Verdict::Unavailable => "unavailable",
    }
}

/// What the router noted during one step.
#[derive(Default)]
struct Diary {
    skips: Vec<(RouteId, Skip)>,
    breakers: Vec<(RouteId, BreakerChange)>,
    alerts: Vec<(RouteId, FaultKind)>,
}

impl Log for Diary {
    fn skip(&mut self, route: RouteId, why: Skip, _now: Instant) {
        self.skips.push((route, why));
    }

    fn breaker(&mut self, route: RouteId, change: BreakerChange, _now: Instant) {
        self.breakers.push((route, change));
    }

    fn alert(&mut self, route: RouteId, alert: Alert, _now: Instant) {
        self.alerts.push((route, alert.kind));
    }
}
