//! One request in progress: where it stands on its plan, and what it has seen.

use crate::router::{
    Failure, FailureReason, FaultKind, Need, Plan, ROUTES_MAX, RouteId, Served, ServedVerdict, Skip,
};
use crate::units::{Instant, Tokens, Usd};

/// What the call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    New,
    Sent,
    Verifying,
    Waiting,
    Served,
    Failed,
}

/// Facts collected on the walk, for the reason at its end.
pub(super) mod seen {
    pub(in crate::router) const RESIDENCY: u8 = 1;
    pub(in crate::router) const INCAPABLE: u8 = 1 << 1;
    pub(in crate::router) const UNAVAILABLE: u8 = 1 << 2;
    pub(in crate::router) const BUDGET: u8 = 1 << 3;
    /// The last failure was not retried because of the deadline.
    pub(in crate::router) const OUT_OF_TIME: u8 = 1 << 4;
    /// The last failure was not retried because of a retry budget.
    pub(in crate::router) const OUT_OF_RETRIES: u8 = 1 << 5;
}

/// One request in progress, with exactly one outstanding step.
///
/// It holds no heap memory and needs no drop. A driver that abandons it first sends
/// [`Input::Cancelled`](crate::router::Input::Cancelled); or else its place among the requests in
/// flight, its trial and its reservation stay taken.
#[derive(Debug)]
pub struct Call {
    pub(super) plan: Plan,
    pub(super) need: Need,
    pub(super) jitter: u64,
    /// When the outstanding attempt was sent, or the outstanding wait ends.
    pub(super) at: Instant,
    pub(super) phase: Phase,
    /// What is known of the answer that was served.
    pub(super) verdict: ServedVerdict,
    /// Why there was none.
    pub(super) reason: FailureReason,
    pub(super) marks: Marks,
    pub(super) buffered: bool,
    pub(super) shown: bool,
    pub(super) holds_retry: bool,
    pub(super) seen: u8,
    pub(super) retries_left: Option<u8>,
    pub(super) last_fault: Option<FaultKind>,
    pub(super) held: Option<Held>,
    pub(super) sends: u16,
    pub(super) route: RouteId,
    /// Prompt and output cap, as far as known.
    pub(super) tokens: u32,
    /// After a context-length fault: windows must be bigger than this.
    pub(super) window_floor: u32,
    pub(super) epoch: u32,
    pub(super) generation: u32,
    pub(super) reserved: Option<Usd>,
    pub(super) deadline: Instant,
    pub(super) retry_at: Instant,
    pub(super) visited: Visited,
}

/// Four counters in one word: leg, attempt on the present route, answers not accepted, and verifiers
/// that were unavailable. As four bytes, written one by one and read back together by `served`, they
/// cost a failed store forwarding per call: a quarter of its time when measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks(u32);

impl Marks {
    const NEW: Self = Self(0);

    #[inline(always)]
    pub(super) const fn leg(self) -> u8 {
        self.0 as u8
    }

    /// From 1; 0 before the first send.
    #[inline(always)]
    pub(super) const fn attempt(self) -> u8 {
        (self.0 >> 8) as u8
    }

    #[inline(always)]
    const fn escalations(self) -> u8 {
        (self.0 >> 16) as u8
    }

    #[inline(always)]
    const fn unavailable_verdicts(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// On to the next leg. (A plan has too few legs for any of the counters to overflow.)
    #[inline(always)]
    pub(super) const fn next_leg(&mut self) {
        self.0 += 1;
    }

    #[inline(always)]
    pub(super) const fn at_attempt(&mut self, attempt: u8) {
        self.0 = self.0 & !0xff00 | (attempt as u32) << 8;
    }

    pub(super) const fn at_leg(&mut self, leg: u8) {
        self.0 = self.0 & !0xff | leg as u32;
    }

    /// An answer was not accepted.
    #[inline(always)]
    pub(super) const fn escalate(&mut self, unavailable: bool) {
        self.0 += 1 << 16 | (unavailable as u32) << 24;
    }
}

/// A set of routes. Four words with names instead of an array: an array that is indexed at run time
/// would force the whole call into memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Visited {
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
}

const _: () = assert!(ROUTES_MAX == 4 * 64, "Visited has room for all routes");

impl Visited {
    #[inline(always)]
    fn has(&self, route: RouteId) -> bool {
        let word = match route.0 / 64 {
            0 => self.first,
            1 => self.second,
            2 => self.third,
            _ => self.fourth,
        };
        word >> (route.0 % 64) & 1 == 1
    }

    #[inline(always)]
    fn add(&mut self, route: RouteId) {
        let bit = 1 << (route.0 % 64);
        match route.0 / 64 {
            0 => self.first |= bit,
            1 => self.second |= bit,
            2 => self.third |= bit,
            _ => self.fourth |= bit,
        }
    }
}

/// An answer that was not accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) route: RouteId,
    pub(super) leg: u8,
    pub(super) attempt: u8,
}

impl Call {
    /// A call that has not begun.
    #[inline(always)]
    pub(super) fn new(plan: Plan, need: Need, jitter: u64, retries_left: Option<u8>) -> Self {
        let tokens = prompt_and_cap(&need);
        Call {
            plan,
            need,
            jitter,
            at: Instant::ZERO,
            phase: Phase::New,
            verdict: ServedVerdict::NotAsked,
            reason: FailureReason::Cancelled,
            marks: Marks::NEW,
            buffered: false,
            shown: false,
            holds_retry: false,
            seen: 0,
            retries_left,
            last_fault: None,
            held: None,
            sends: 0,
            route: RouteId(0),
            tokens,
            window_floor: 0,
            epoch: 0,
            generation: 0,
            reserved: None,
            deadline: need.deadline.unwrap_or(Instant(u64::MAX)),
            retry_at: Instant(u64::MAX),
            visited: Visited::default(),
        }
    }

    /// Limits the retries of this call, whatever the configuration says: a driver that makes several
    /// calls for one request carries the rest of the request's budget from call to call.
    #[must_use]
    pub fn with_retries_left(mut self, retries: u8) -> Self {
        self.retries_left = Some(retries);
        self
    }

    /// Retries that are left, `None` if they are not limited.
    #[must_use]
    pub fn retries_left(&self) -> Option<u8> {
        self.retries_left
    }

    /// Requests sent so far.
    #[must_use]
    #[inline(always)]
    pub fn sends(&self) -> u16 {
        self.sends
    }

    pub(in crate::router) fn jitter(&self) -> u64 {
        self.jitter
    }

    /// The route that was tried last.
    pub(in crate::router) fn last_route(&self) -> Option<RouteId> {
        (self.sends > 0).then_some(self.route)
    }

    /// The answer that was served.
    #[inline(always)]
    pub(super) fn served(&self) -> Served {
        Served {
            route: self.route,
            leg: self.marks.leg(),
            attempt: self.marks.attempt(),
            verdict: self.verdict,
            escalations: self.marks.escalations(),
            unavailable_verdicts: self.marks.unavailable_verdicts(),
            sends: self.sends,
        }
    }

    /// Why there was no answer.
    pub(super) fn failure(&self) -> Failure {
        Failure {
            reason: self.reason,
            sends: self.sends,
            retry_at: (self.retry_at < Instant(u64::MAX)).then_some(self.retry_at),
        }
    }

    /// A copy, for the router's own use: outside a call has one owner.
    #[inline(always)]
    pub(super) fn duplicate(&self) -> Self {
        Self { ..*self }
    }

    /// Remembers the present answer, which was not accepted.
    #[inline(always)]
    pub(super) fn hold(&mut self) {
        self.held = Some(Held {
            route: self.route,
            leg: self.marks.leg(),
            attempt: self.marks.attempt(),
        });
    }

    #[inline(always)]
    pub(super) fn has_visited(&self, route: RouteId) -> bool {
        self.visited.has(route)
    }

    #[inline(always)]
    pub(super) fn visit(&mut self, route: RouteId) {
        self.visited.add(route);
    }

    pub(super) fn note(&mut self, why: Skip) {
        self.seen |= match why {
            Skip::Residency | Skip::LocalOnly => seen::RESIDENCY,
            Skip::BreakerOpen { until } | Skip::CoolingDown { until } => {
                self.retry_at = self.retry_at.min(until);
                seen::UNAVAILABLE
            }
            Skip::Budget => seen::BUDGET,
            Skip::NoSuchRoute | Skip::Window | Skip::Tools => seen::INCAPABLE,
            Skip::AlreadyTried | Skip::SmallerWindow => 0,
        };
    }
}

/// Prompt and output cap together as far as they are known, for the window filter: an unknown prompt
/// passes it, an unknown cap counts as nothing.
#[inline(always)]
pub(super) fn prompt_and_cap(need: &Need) -> u32 {
    tokens(need.input_tokens, need.output_cap)
}

/// [`prompt_and_cap`] of a request with these.
#[inline(always)]
pub(super) fn tokens(input: Tokens, output_cap: Tokens) -> u32 {
    match input.get() {
        Some(input) => input.saturating_add(output_cap.get().unwrap_or(0)),
        None => 0,
    }
}
