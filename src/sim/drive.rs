//! One call through the router core, answered by tables.
//!
//! Verdicts on a request that ends undetermined are not counted: nothing about it is.

use super::episode::World;
use super::tallying;
use crate::policy::{Ask, Feedback, FeedbackOf, Policy, Why};
use crate::router::{
    EligibleSet, Failure, Input, InstantWalk, Log, Need, Plan, Reply, RouteId, Router, Served,
    ServedVerdict, Step, UnservedReason, Verdict, VerifierId,
};
use crate::standin::outcome::{COST_UNKNOWN, JudgeCall, Outcomes};
use crate::stats::{Tally, Unserved};
use crate::units::{Duration, Instant, Score, Tokens};
use crate::verify::{Judge, Verifier};
use crate::workload::Batch;

/// "Nobody answered."
pub(super) const NO_ROUTE: u16 = u16::MAX;

/// What became of one request under one policy.
///
/// Two whole words: put together from smaller fields in memory, an outcome would be read back before its
/// parts have arrived there, and that wait costs as much as the rest of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Cost of all calls in 10⁻¹² USD, or [`COST_UNKNOWN`].
    pub(super) cost: u64,
    /// Grade in bits 0 to 31, route in 32 to 47, calls in 48 to 55, bits of [`flag`] in 56 to 63.
    rest: u64,
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
    pub(super) const UNDETERMINED: Self = Self::new(
        COST_UNKNOWN,
        Score::MISSING,
        NO_ROUTE,
        0,
        flag::UNDETERMINED,
    );

    /// Cost, grade of what was served (an unserved request is wrong), who served or [`NO_ROUTE`], calls
    /// made, and bits of [`flag`].
    #[inline(always)]
    pub(super) const fn new(cost: u64, grade: Score, route: u16, calls: u8, flags: u8) -> Self {
        let rest = grade.bits() as u64
            | (route as u64) << 32
            | (calls as u64) << 48
            | (flags as u64) << 56;
        Self { cost, rest }
    }

    #[inline(always)]
    pub(super) const fn grade(self) -> Score {
        Score::from_bits(self.rest as u32)
    }

    #[inline(always)]
    pub(super) const fn route(self) -> u16 {
        (self.rest >> 32) as u16
    }

    #[inline(always)]
    pub(super) const fn calls(self) -> u8 {
        (self.rest >> 48) as u8
    }

    #[inline(always)]
    pub(super) const fn flags(self) -> u8 {
        (self.rest >> 56) as u8
    }

    /// Why nobody served, if nobody did.
    pub(super) fn unserved(self) -> Option<usize> {
        let code = self.flags() >> flag::UNSERVED_SHIFT;
        if code == 0 {
            None
        } else {
            Some(usize::from(code) - 1)
        }
    }

    /// A walk that ended with an answer of this grade.
    #[inline(always)]
    pub(super) fn of_served(served: &Served, grade: Score, cost: u64, calls: u8) -> Self {
        let mut flags = 0;
        if served.verdict == ServedVerdict::Unverified {
            flags |= flag::UNVERIFIED;
        }
        if served.escalations > 0 {
            flags |= flag::ESCALATED;
        }
        Self::new(cost, grade, served.route.0, calls, flags)
    }

    /// A walk that ended without an answer.
    pub(super) fn of_failure(failure: &Failure, cost: u64, calls: u8) -> Self {
        let why = match failure.unserved() {
            UnservedReason::Residency => Unserved::RefusedByResidency,
            UnservedReason::NoCapableRoute => Unserved::NoCapableRoute,
            UnservedReason::Failed => Unserved::Failed,
        };
        Self::not_served(why, cost, calls)
    }

    /// An unserved request.
    pub(super) const fn not_served(why: Unserved, cost: u64, calls: u8) -> Self {
        Self::new(
            cost,
            Score::WRONG,
            NO_ROUTE,
            calls,
            (why as u8 + 1) << flag::UNSERVED_SHIFT,
        )
    }
}

/// Tells everybody who learns what became of a request. Copies of a policy for different folds are told
/// about each other's requests: they stand for one policy.
pub(super) fn tell(
    per_fold: &mut [Box<dyn Policy>],
    request: u64,
    task: u16,
    why: Why,
    outcome: Outcome,
    at: Instant,
    latency: Duration,
) {
    let grade = outcome.grade();
    let feedback = Feedback {
        of: FeedbackOf::Request,
        request,
        task,
        why,
        route: (outcome.route() != NO_ROUTE).then_some(RouteId(outcome.route())),
        fault: None,
        usage: None,
        at,
        latency,
        ttft: None,
        grade: (!grade.is_missing()).then_some(grade),
    };
    for policy in per_fold {
        policy.learn(&feedback);
    }
}

/// How often verifiers were right about a request (or about several), in the order of the tally's four
/// counts, and what they took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VerifierCounts {
    pub(super) right: u32,
    pub(super) right_accepted: u32,
    pub(super) wrong: u32,
    pub(super) wrong_accepted: u32,
    /// Requests on which a verifier could not look.
    pub(super) unavailable: u32,
    /// Calls of judges.
    judge_calls: u32,
    /// What the judges of one request cost, which stays unknown once a part is.
    judge_cost: Sum,
}

/// What verifiers and judges did about all requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Verified {
    counts: VerifierCounts,
    /// Σ (a request's calls of judges)².
    judge_calls_square: u64,
    judge_cost_sum: i128,
    judge_cost_square_sum: i128,
    /// Requests on which it is not known what judges cost.
    judge_unpriced: u64,
}

impl VerifierCounts {
    /// A judge was asked.
    pub(super) fn ask_judge(&mut self) {
        self.judge_calls += 1;
    }

    /// A judge's answer is billed.
    pub(super) fn bill_judge(&mut self, cost: u64) {
        self.judge_cost.add(cost);
    }

    /// What judges cost so far, as far as it is known.
    pub(super) fn judge_cost(&self) -> u64 {
        if self.judge_cost.0 == COST_UNKNOWN {
            0
        } else {
            self.judge_cost.0
        }
    }

    pub(super) fn add_to(self, tally: &mut Tally) {
        tally.verified_right += u64::from(self.right);
        tally.accepted_right += u64::from(self.right_accepted);
        tally.verified_wrong += u64::from(self.wrong);
        tally.accepted_wrong += u64::from(self.wrong_accepted);
        tally.unavailable += u64::from(self.unavailable);
        tally.judge_calls_sum += u64::from(self.judge_calls);
    }

    /// Counts a verdict on an answer of this grade.
    #[inline(always)]
    pub(super) fn note(&mut self, grade: Score, accepted: bool) {
        self.right += u32::from(grade == Score::RIGHT);
        self.right_accepted += u32::from(grade == Score::RIGHT && accepted);
        self.wrong += u32::from(grade == Score::WRONG);
        self.wrong_accepted += u32::from(grade == Score::WRONG && accepted);
    }
}

impl Verified {
    /// Adds what was seen of one request.
    #[inline(always)]
    pub(super) fn add(&mut self, seen: VerifierCounts) {
        let counts = &mut self.counts;
        counts.unavailable += seen.unavailable.min(1);
        counts.right += seen.right;
        counts.right_accepted += seen.right_accepted;
        counts.wrong += seen.wrong;
        counts.wrong_accepted += seen.wrong_accepted;
        if seen.judge_calls > 0 {
            self.add_judges(&seen);
        }
    }

    /// Adds what judges did about one request. Most requests see none.
    #[inline(never)]
    fn add_judges(&mut self, seen: &VerifierCounts) {
        self.counts.judge_calls += seen.judge_calls;
        self.judge_calls_square += u64::from(seen.judge_calls) * u64::from(seen.judge_calls);
        let cost = seen.judge_cost.0;
        if cost == COST_UNKNOWN {
            self.judge_unpriced += 1;
            return;
        }
        tallying::grow(&mut self.judge_cost_sum, i128::from(cost));
        tallying::grow(&mut self.judge_cost_square_sum, tallying::square(cost));
    }

    pub(super) fn add_to(&self, tally: &mut Tally) {
        self.counts.add_to(tally);
        tally.judge_calls_square_sum += self.judge_calls_square;
        tally.judge_unpriced += self.judge_unpriced;
        tallying::grow(&mut tally.judge_cost_sum, self.judge_cost_sum);
        tallying::grow(&mut tally.judge_cost_square_sum, self.judge_cost_square_sum);
    }
}

/// Everything a call needs but the request itself.
pub(super) struct Answering<'a> {
    pub(super) outcomes: &'a Outcomes,
    pub(super) verifiers: &'a [Verifier],
    pub(super) batch: &'a Batch,
    pub(super) world: &'a World<'a>,
}

/// A log that is also told what the driver does by itself.
pub(super) trait Watch: Log {
    /// The judge was asked about the answer of `judged`, at this cost; or nothing of the request may go
    /// there.
    fn judge(&mut self, _judge: RouteId, _judged: RouteId, _cost: Option<u64>) {}
}

impl Watch for () {}

impl Answering<'_> {
    /// The verdict on an answer, counted; `None` if nobody graded it.
    #[inline(always)]
    fn accepts(
        &self,
        route: RouteId,
        verifier: VerifierId,
        i: usize,
        counts: &mut VerifierCounts,
    ) -> Option<bool> {
        let accepted = self
            .outcomes
            .accepts(&self.verifiers[verifier.0 as usize], route, i)?;
        counts.note(self.outcomes.grade(route, i), accepted);
        Some(accepted)
    }

    /// What asking the judge costs; `None` if the request's data may not go there, or do not fit.
    pub(super) fn judge_call(
        &self,
        router: &Router,
        judge: &Judge,
        judged: RouteId,
        need: Need,
        i: usize,
    ) -> Option<u64> {
        // Only answers of the world are judged.
        let column = self.world.world[usize::from(judged.0)];
        let price = self.world.prices.get(usize::from(judge.route.0)).copied();
        let call = JudgeCall::new(judge, price.flatten(), self.batch, column, i);
        let need = Need {
            input_tokens: call.input_tokens,
            output_cap: Tokens::new(judge.output_tokens),
            // The judge reads about tools, it uses none.
            tools: false,
            ..need
        };
        router.eligible(judge.route, &need).ok()?;
        Some(call.cost)
    }
}

/// Runs one call to its end: in one go where the router can, else step by step.
#[inline(always)]
pub(super) fn answer(
    router: &mut Router,
    answering: &Answering<'_>,
    counts: &mut Verified,
    plan: Plan,
    ask: &Ask,
    eligible: Option<EligibleSet>,
    jitter: u64,
    i: usize,
) -> Outcome {
    if let Some(eligible) = eligible {
        let mut cost = Sum(0);
        let mut calls = 0u8;
        let mut seen = VerifierCounts::default();
        let walk = Router::instant(
            &plan,
            eligible,
            |route| {
                cost.add(answering.outcomes.cost(route, i));
                calls += 1;
            },
            |route, verifier| answering.accepts(route, verifier, i, &mut seen),
        );
        match walk {
            InstantWalk::Served(end) => {
                counts.add(seen);
                let flags = if end.escalations > 0 {
                    flag::ESCALATED
                } else {
                    0
                };
                let grade = answering.outcomes.grade(end.route, i);
                return Outcome::new(cost.0, grade, end.route.0, calls, flags);
            }
            InstantWalk::Undetermined => return Outcome::UNDETERMINED,
            InstantWalk::StepByStep => {}
        }
    }
    call(
        router,
        answering,
        counts,
        plan,
        ask.need,
        jitter,
        i,
        &mut (),
    )
}

/// Runs one call to its end, step by step. Tables answer at once, so no time passes and nothing has to
/// wait.
#[inline(never)]
pub(super) fn call<L: Watch>(
    router: &mut Router,
    answering: &Answering<'_>,
    counts: &mut Verified,
    plan: Plan,
    need: Need,
    jitter: u64,
    i: usize,
    log: &mut L,
) -> Outcome {
    let mut now = Instant::ZERO;
    let mut call = router.open(plan, need, jitter);
    let mut step = router.step(&mut call, Input::Begin, now, log);
    let mut cost = Sum(0);
    let mut calls = 0u8;
    let mut seen = VerifierCounts::default();
    loop {
        step = match step {
            Step::Send { route, .. } => {
                cost.add(answering.outcomes.cost(route, i));
                calls += 1;
                // Usage matters to accounts with a limit only, and those have no place where requests
                // are independent of each other.
                router.step(&mut call, Input::Reply(Reply { usage: None }), now, log)
            }
            Step::Verify { route, verifier } => {
                if let Some(judge) = answering.verifiers[usize::from(verifier.0)].judge() {
                    let asked = answering.judge_call(router, judge, route, need, i);
                    log.judge(judge.route, route, asked);
                    let Some(billed) = asked else {
                        seen.unavailable += 1;
                        step =
                            router.step(&mut call, Input::Verdict(Verdict::Unavailable), now, log);
                        continue;
                    };
                    cost.add(billed);
                    calls += 1;
                    seen.ask_judge();
                    seen.bill_judge(billed);
                }
                let Some(accepted) = answering.accepts(route, verifier, i, &mut seen) else {
                    router.step(&mut call, Input::Cancelled, now, log);
                    return Outcome::UNDETERMINED;
                };
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
                counts.add(seen);
                let grade = answering.outcomes.grade(served.route, i);
                return Outcome::of_served(&served, grade, cost.0, calls);
            }
            Step::Failed(failure) => {
                counts.add(seen);
                return Outcome::of_failure(&failure, cost.0, calls);
            }
        }
    }
}

/// A sum of costs that stays unknown once a part of it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum(pub(super) u64);

impl Sum {
    #[inline(always)]
    pub(super) fn add(&mut self, cost: u64) {
        self.0 = if cost == COST_UNKNOWN || self.0 == COST_UNKNOWN {
            COST_UNKNOWN
        } else {
            // One below "unknown", so that a huge cost never turns into an unknown one.
            self.0.saturating_add(cost).min(COST_UNKNOWN - 1)
        };
    }
}
