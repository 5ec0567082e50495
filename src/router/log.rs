//! What the router tells an observer. It holds ids, counts and times, never content (PR-06).

use super::{FaultKind, RouteId, Skip, Verdict};
use crate::units::{Duration, Instant};

/// A breaker changed its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum BreakerChange {
    /// Too many failures: nothing is sent until then.
    Opened {
        /// When a trial is allowed.
        until: Instant,
    },
    /// The cooldown is over and one trial is being sent.
    HalfOpen,
    /// The trial ended without saying anything about the route; the next call is the trial.
    TrialFreed,
    /// It works again.
    Closed,
}

/// Something that waiting does not mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Which kind of failure.
    pub kind: FaultKind,
}

/// Hears of every decision. All hooks do nothing unless implemented; `()` hears nothing and costs
/// nothing.
pub trait Log {
    /// `attempt` (from 1) is being sent to `route`.
    #[inline(always)]
    fn attempt(&mut self, route: RouteId, attempt: u8, now: Instant) {
        let _ = (route, attempt, now);
    }

    /// The first output of the attempt reached the caller.
    #[inline(always)]
    fn shown(&mut self, route: RouteId, attempt: u8, now: Instant) {
        let _ = (route, attempt, now);
    }

    /// The attempt brought an answer.
    #[inline(always)]
    fn reply(&mut self, route: RouteId, attempt: u8, now: Instant) {
        let _ = (route, attempt, now);
    }

    /// The attempt failed, `mid_stream` if output had reached the caller.
    #[inline(always)]
    fn fault(
        &mut self,
        route: RouteId,
        attempt: u8,
        kind: FaultKind,
        mid_stream: bool,
        now: Instant,
    ) {
        let _ = (route, attempt, kind, mid_stream, now);
    }

    /// `route` was passed over without sending anything.
    #[inline(always)]
    fn skip(&mut self, route: RouteId, why: Skip, now: Instant) {
        let _ = (route, why, now);
    }

    /// The breaker that guards `route` changed.
    #[inline(always)]
    fn breaker(&mut self, route: RouteId, change: BreakerChange, now: Instant) {
        let _ = (route, change, now);
    }

    /// `attempt` failed and the same route is asked again after a wait. `hint` is what the provider
    /// asked for.
    #[inline(always)]
    fn wait(&mut self, route: RouteId, attempt: u8, hint: Option<Duration>, until: Instant) {
        let _ = (route, attempt, hint, until);
    }

    /// A verifier has spoken about the answer of `route`.
    #[inline(always)]
    fn verdict(&mut self, route: RouteId, verdict: Verdict, now: Instant) {
        let _ = (route, verdict, now);
    }

    /// An operator should look at `route`.
    #[inline(always)]
    fn alert(&mut self, route: RouteId, alert: Alert, now: Instant) {
        let _ = (route, alert, now);
    }
}

impl Log for () {}
