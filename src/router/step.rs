//! The protocol between the router and its driver: what goes in, what comes out.

use super::{Fault, FaultKind, Reply, RouteId, Verdict, VerifierId};
use crate::units::{Duration, Instant};

/// What happened. One of these goes into every [`Router::step`](super::Router::step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Start. (A call that has not begun begins with whatever input comes first, but
    /// [`Input::Cancelled`].)
    Begin,
    /// The first output of the attempt reached the caller: from here on there is no other route.
    /// Of a buffered attempt nothing is shown, so there it means nothing.
    Shown,
    /// The attempt ended with an answer (of a stream: its end, not its first byte).
    Reply(Reply),
    /// The attempt failed.
    Fault(Fault),
    /// The verifier has spoken.
    Verdict(Verdict),
    /// The time asked for has come.
    Wake,
    /// The caller went away. A driver sends this also when it is dropped in the middle.
    Cancelled,
}

/// How long an attempt may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To the first token of content. Comments and role-only chunks do not count as one.
    pub ttft: Duration,
    /// Between two chunks of content.
    pub gap: Duration,
    /// For the whole attempt.
    pub attempt: Duration,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        ttft: Duration::MAX,
        gap: Duration::MAX,
        attempt: Duration::MAX,
    };

    /// The same, but none longer than `rest`.
    #[must_use]
    #[inline(always)]
    pub fn clipped(self, rest: Duration) -> Self {
        Self {
            ttft: self.ttft.min(rest),
            gap: self.gap.min(rest),
            attempt: self.attempt.min(rest),
        }
    }
}

impl Default for Limits {
    /// 30 s to the first token and between chunks, 120 s in all.
    fn default() -> Self {
        Self {
            ttft: Duration::from_secs(30),
            gap: Duration::from_secs(30),
            attempt: Duration::from_secs(120),
        }
    }
}

/// What the driver is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the request to `route`; report `Shown`, then `Reply` or `Fault`.
    Send {
        /// Where.
        route: RouteId,
        /// Which attempt on this route it is, from 1.
        attempt: u8,
        /// How long it may take; nothing is longer than what is left of the call's deadline.
        limits: Limits,
        /// Keep the answer back: a verifier is going to look at it.
        buffer: bool,
    },
    /// Show the answer of `route` to the verifier; report `Verdict`.
    Verify {
        /// Whose answer.
        route: RouteId,
        /// Who looks.
        verifier: VerifierId,
    },
    /// Sleep, then report `Wake`.
    Wait {
        /// When to wake up.
        until: Instant,
    },
    /// Serve this answer.
    Done(Served),
    /// There is no answer.
    Failed(Failure),
}

/// What is known of the answer that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedVerdict {
    /// No verifier looked: the leg has none, or it was the last that could be tried.
    NotAsked,
    /// The verifier accepted it.
    Accepted,
    /// A verifier rejected it or could not look, and nothing better came.
    Unverified,
}

/// Which answer to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Whose answer: not always the last route that was asked.
    pub route: RouteId,
    /// The index of its leg in the plan.
    pub leg: u8,
    /// On which attempt on that route it came, from 1.
    pub attempt: u8,
    /// What is known of it.
    pub verdict: ServedVerdict,
    /// How many answers were not accepted (rejected, or the verifier was unavailable).
    pub escalations: u8,
    /// How many of those because the verifier was unavailable.
    pub unavailable_verdicts: u8,
    /// Requests sent in all.
    pub sends: u16,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// A route of the plan was dropped because the data may not go there, and no route was tried.
    RefusedByResidency,
    /// Every route was dropped for its window, its tools, or because it does not exist.
    NoCapableRoute,
    /// Every leg was tried or skipped; this is the last failure.
    Exhausted(FaultKind),
    /// Nothing was sent: what could have served is behind an open breaker or cooling down.
    AllUnavailable,
    /// The failure allows no other route: it is the request's own.
    Rejected(FaultKind),
    /// It failed after output had reached the caller.
    MidStream(FaultKind),
    /// The deadline of the call has passed, or would pass during the wait that is due.
    Deadline,
    /// A retry was due, the retry budget is spent, and there is no other route.
    RetryBudget,
    /// The account cannot pay for any route that could serve.
    MoneyBudget,
    /// The caller went away.
    Cancelled,
}

/// How a call without an answer is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnservedReason {
    /// Refused: the request's data may not go where the plan points.
    Residency,
    /// No route of the plan can take the request.
    NoCapableRoute,
    /// It was tried, or could have been, and did not work.
    Failed,
}

/// The end of a call without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub reason: FailureReason,
    /// Requests sent in all.
    pub sends: u16,
    /// The earliest time at which a route that was behind a breaker or cooling down may be tried
    /// again, if there was one.
    pub retry_at: Option<Instant>,
}

impl Failure {
    /// Under which of the three headings it is counted.
    #[must_use]
    #[inline(always)]
    pub const fn unserved(&self) -> UnservedReason {
        match self.reason {
            FailureReason::RefusedByResidency => UnservedReason::Residency,
            FailureReason::NoCapableRoute => UnservedReason::NoCapableRoute,
            _ => UnservedReason::Failed,
        }
    }
}

/// Why a route was passed over without sending anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// The plan names a route that the configuration does not have.
    NoSuchRoute,
    /// Its data may go to a region that the request does not allow.
    Residency,
    /// The request is for the caller's own machines only.
    LocalOnly,
    /// Prompt and output cap do not fit its window.
    Window,
    /// It takes no tools.
    Tools,
    /// The call has had its attempts there.
    AlreadyTried,
    /// Another route reported that the prompt is too long, and this window is no bigger.
    SmallerWindow,
    /// Its breaker is open, or its one trial is in flight.
    BreakerOpen {
        /// When it may be tried again, at the latest.
        until: Instant,
    },
    /// It asked for a pause.
    CoolingDown {
        /// When the pause ends.
        until: Instant,
    },
    /// The account cannot pay for it, or nobody can say what it may cost at most.
    Budget,
}

impl Skip {
    /// The name used in traces, such as `breaker_open`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSuchRoute => "no_such_route",
            Self::Residency => "residency",
            Self::LocalOnly => "local_only",
            Self::Window => "context_length",
            Self::Tools => "unsupported",
            Self::AlreadyTried => "already_tried",
            Self::SmallerWindow => "smaller_window",
            Self::BreakerOpen { .. } => "breaker_open",
            Self::CoolingDown { .. } => "cooling_down",
            Self::Budget => "budget",
        }
    }
}
