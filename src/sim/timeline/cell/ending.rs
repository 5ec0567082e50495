//! How calls end, and what is booked then.

use super::{CHAPTER, Cell, Mirror, Reason, Window, fate};
use crate::policy::{Feedback, FeedbackOf};
use crate::router::{Failure, FailureReason, Input, RouteId, Served, ServedVerdict};
use crate::sim::drive::{NO_ROUTE, Outcome, VerifierCounts};
use crate::sim::episode;
use crate::standin::outcome::COST_UNKNOWN;
use crate::stats::{Tally, Unserved};
use crate::units::Score;

/// Adds a copy of a request to the tally.
fn join(tally: &mut Tally, served: &Outcome, copy: &Outcome) {
    tally.mirror_costed += u64::from(copy.cost != COST_UNKNOWN);
    episode::add_mirror(tally, Some(served), copy);
}

impl Cell<'_> {
    /// A verifier met an answer that nobody graded.
    pub(super) fn cannot_tell(&mut self, window: &Window, place: u32) {
        let live = &mut self.calls[place as usize];
        self.router
            .step_stored(&mut live.call, Input::Cancelled, self.now, &mut self.watch);
        live.seen = VerifierCounts::default();
        if live.copies.is_none() {
            let arrived = live.arrived;
            self.watch.counts_at(arrived).undetermined += 1;
        }
        self.end(window, place, Outcome::UNDETERMINED, fate::UNKNOWN);
    }

    pub(super) fn served(&mut self, window: &Window, place: u32, served: &Served) {
        let live = &mut self.calls[place as usize];
        let (chapter, i) = window.of(live.number);
        let grade = chapter.outcomes(self.is_calm).grade(served.route, i);
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
        let own_cost = chapter.outcomes(self.is_calm).cost(served.route, i);
        let passage = &mut self.watch.passage;
        if live.cost.0 != COST_UNKNOWN && own_cost != COST_UNKNOWN {
            let rest = live.cost.0.saturating_sub(own_cost);
            passage.wasted_cost += u128::from(rest.saturating_sub(live.seen.judge_cost()));
        }
        passage.ttft.add(ttft);
        passage.total.add(total);
        passage.routes[usize::from(served.route.0)].served += 1;
        let counts = self.watch.counts_at(live.arrived);
        counts.served += 1;
        counts.in_slo += u64::from(in_slo);
        counts.fallback += u64::from(served.leg > served.escalations);
        counts.escalated += u64::from(served.escalations > 0);
        let mut fate = fate::SERVED;
        fate |= if in_slo { fate::IN_SLO } else { 0 };
        fate |= match grade {
            Score::RIGHT => fate::RIGHT,
            Score::MISSING => fate::UNGRADED,
            _ => 0,
        };
        self.end(window, place, outcome, fate);
    }

    pub(super) fn failed(&mut self, window: &Window, place: u32, failure: &Failure) {
        let live = &mut self.calls[place as usize];
        let mut outcome = Outcome::of_failure(failure, live.cost.0, live.calls);
        if live.copies.is_none() {
            let (chapter, i) = window.of(live.number);
            let class = chapter.class[i];
            let reason = match (failure.reason, live.refused_by) {
                // For want of a route that its data may go to, while those it may go to were behind an
                // open breaker or paused: that is what has to be mended.
                (FailureReason::RefusedByResidency, Some((limit, dimension))) if live.is_paused => {
                    Reason::Saturated(limit, dimension)
                }
                (FailureReason::RefusedByResidency, None) if live.is_paused => Reason::Unavailable,
                (FailureReason::RefusedByResidency, _) => Reason::Residency,
                (FailureReason::NoCapableRoute, _) => Reason::NoCapableRoute,
                // Whatever failed before: a limit stood in the way of the last route.
                (
                    FailureReason::AllUnavailable | FailureReason::Exhausted(_),
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
            // What a limit or a breaker kept from routes that its data may go to is no matter of residency.
            if matches!(reason, Reason::Saturated(..) | Reason::Unavailable) {
                outcome = Outcome::not_served(Unserved::Failed, live.cost.0, live.calls);
            }
            let passage = &mut self.watch.passage;
            if live.cost.0 != COST_UNKNOWN {
                passage.wasted_cost +=
                    u128::from(live.cost.0.saturating_sub(live.seen.judge_cost()));
            }
            passage.lose(class, reason);
        }
        self.end(window, place, outcome, 0);
    }

    /// A call is over.
    pub(super) fn end(&mut self, window: &Window, place: u32, outcome: Outcome, fate: u8) {
        let live = &mut self.calls[place as usize];
        let chapter = live.number / CHAPTER as u64 - window.base();
        let i = (live.number % CHAPTER as u64) as usize;
        let ended = &mut self.ended[chapter as usize];
        ended.open -= 1;
        if let Some(request) = live.copies {
            if let Some(ledger) = &mut self.ledger {
                ledger.mirrored(live.number, outcome);
            }
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
        if let Some(ledger) = &mut self.ledger {
            ledger.ended(live.number, outcome);
        }
        ended.outcomes[i] = outcome;
        ended.fates[i] = fate;
        self.counts.add(live.seen);
        let counts = self.watch.counts_at(live.arrived);
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
                of: FeedbackOf::Request,
                request: number,
                task,
                why,
                route: (outcome.route() != NO_ROUTE).then_some(RouteId(outcome.route())),
                fault: None,
                usage: None,
                at: self.now,
                latency: self.now.since(arrived),
                ttft: None,
                grade: (!grade.is_missing()).then_some(grade),
            };
            for policy in &mut self.per_fold {
                policy.learn(&feedback);
            }
        }
    }
}
