//! One call through the router core, answered by tables.

use crate::router::{
    Input, Log, Need, Plan, Reply, Router, ServedVerdict, Step, UnservedReason, Verdict,
};
use crate::standin::outcome::{COST_UNKNOWN, Outcomes};
use crate::stats::Unserved;
use crate::units::{Instant, Score};
use crate::verify::Verifier;

/// "Nobody answered."
pub(super) const NO_ROUTE: u16 = u16::MAX;

/// What became of one request under one policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Cost of all calls in 10⁻¹² USD, or [`COST_UNKNOWN`].
    pub(super) cost: u64,
    /// Grade of what was served; an unserved request is wrong.
    pub(super) grade: Score,
    /// Who served, or [`NO_ROUTE`].
    pub(super) route: u16,
    /// Calls made.
    pub(super) calls: u8,
    /// Bits of [`flag`].
    pub(super) flags: u8,
}

/// Bits of [`Outcome::flags`].
pub(super) mod flag {
    /// A verifier met an ungraded answer.
    pub(in crate::sim) const UNDETERMINED: u8 = 1;
    /// The served answer was not accepted.
    pub(in crate::sim) const UNVERIFIED: u8 = 2;
    /// An answer was passed on at least once.
    pub(in crate::sim) const ESCALATED: u8 = 4;
    /// Bits 4 and 5: why nobody served, plus one; zero when somebody did.
    pub(in crate::sim) const UNSERVED_SHIFT: u8 = 4;
}

impl Outcome {
    /// Nothing can be said.
    pub(super) const UNDETERMINED: Self = Self {
        cost: COST_UNKNOWN,
        grade: Score::MISSING,
        route: NO_ROUTE,
        calls: 0,
        flags: flag::UNDETERMINED,
    };

    /// Why nobody served, if nobody did.
    #[inline(always)]
    pub(super) fn unserved(self) -> Option<usize> {
        let code = self.flags >> flag::UNSERVED_SHIFT;
        if code == 0 {
            None
        } else {
            Some(code as usize - 1)
        }
    }

    /// An unserved request.
    #[inline(always)]
    pub(super) fn not_served(why: Unserved, cost: u64, calls: u8) -> Self {
        Self {
            cost,
            grade: Score::WRONG,
            route: NO_ROUTE,
            calls,
            flags: (why as u8 + 1) << flag::UNSERVED_SHIFT,
        }
    }
}

/// How often verifiers were right, in the order of the tally's four counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VerifierCounts {
    pub(super) right: u64,
    pub(super) right_accepted: u64,
    pub(super) wrong: u64,
    pub(super) wrong_accepted: u64,
}

/// Everything a call needs but the request itself.
pub(super) struct Answering<'a> {
    pub(super) outcomes: &'a Outcomes,
    pub(super) verifiers: &'a [Verifier],
}

/// Runs one call to its end. Tables answer at once, so no time passes and nothing has to wait.
#[inline(always)]
pub(super) fn call<L: Log>(
    router: &mut Router,
    answering: &Answering<'_>,
    counts: &mut VerifierCounts,
    plan: Plan,
    need: Need,
    jitter: u64,
    i: usize,
    log: &mut L,
) -> Outcome {
    let mut now = Instant::ZERO;
    let mut call = router.open(plan, need, jitter);
    let mut step = router.step(&mut call, Input::Begin, now, log);
    let mut cost = 0u64;
    let mut calls = 0u8;
    loop {
        step = match step {
            Step::Send { route, .. } => {
                let this = answering.outcomes.cost(route, i);
                cost = if this == COST_UNKNOWN || cost == COST_UNKNOWN {
                    COST_UNKNOWN
                } else {
                    // One below "unknown", so that a huge cost never turns into an unknown one.
                    cost.saturating_add(this).min(COST_UNKNOWN - 1)
                };
                calls += 1;
                // Usage matters to accounts with a limit only, and those have no place where requests
                // are independent of each other.
                router.step(&mut call, Input::Reply(Reply { usage: None }), now, log)
            }
            Step::Verify { route, verifier } => {
                let verifier = &answering.verifiers[verifier.0 as usize];
                let Some(accepted) = answering.outcomes.accepts(verifier, route, i) else {
                    router.step(&mut call, Input::Cancelled, now, log);
                    return Outcome::UNDETERMINED;
                };
                let grade = answering.outcomes.grade(route, i);
                counts.right += u64::from(grade == Score::RIGHT);
                counts.right_accepted += u64::from(grade == Score::RIGHT && accepted);
                counts.wrong += u64::from(grade == Score::WRONG);
                counts.wrong_accepted += u64::from(grade == Score::WRONG && accepted);
                let verdict = if accepted {
                    Verdict::Accept
                } else {
                    Verdict::Reject
                };
                router.step(&mut call, Input::Verdict(verdict), now, log)
            }
            Step::Wait { until } => {
                now = until;
                router.step(&mut call, Input::Wake, now, log)
            }
            Step::Done(served) => {
                let mut flags = 0;
                if served.verdict == ServedVerdict::Unverified {
                    flags |= flag::UNVERIFIED;
                }
                if served.escalations > 0 {
                    flags |= flag::ESCALATED;
                }
                let grade = answering.outcomes.grade(served.route, i);
                return Outcome {
                    cost,
                    grade,
                    route: served.route.0,
                    calls,
                    flags,
                };
            }
            Step::Failed(failure) => {
                let why = match failure.unserved() {
                    UnservedReason::Residency => Unserved::RefusedByResidency,
                    UnservedReason::NoCapableRoute => Unserved::NoCapableRoute,
                    UnservedReason::Failed => Unserved::Failed,
                };
                return Outcome::not_served(why, cost, calls);
            }
        }
    }
}
