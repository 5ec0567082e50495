//! What a cell asks for: attempts at routes, verdicts of verifiers, the time of judges.

use super::{Cell, Pending, Window};
use crate::router::{Input, Regions, RouteId, Verdict, VerifierId};
use crate::sim::drive::Answering;
use crate::standin::outcome::JudgeCall;
use crate::timeline::{Answered, Attempted, Cause};
use crate::units::Tokens;

/// Keeps the draws of a judge's call apart from those of the attempt it judges.
const JUDGE: u64 = 0x6a75_6467_652e_3031;

/// When a judge's verdict comes.
pub(super) enum Asked {
    Later,
    Now(Option<Verdict>),
}

impl Cell<'_> {
    /// Sends an attempt to a provider, and books it.
    pub(super) fn send(&mut self, sent: &Attempted, allowed: Regions) -> Answered {
        let index = usize::from(sent.route.0);
        let answered = self.providers.attempt(sent);
        // By when attempts are sent: answers to earlier ones may still come after a refusal. One that is let
        // in while a refusal is on its way back is no sign that the limit is not met.
        if answered.fault.is_some() {
            self.watch.refused_by[index] = match answered.cause {
                Cause::Limit(limit, dimension) => Some((limit, dimension)),
                _ => None,
            };
        }
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
            .is_subset_of(allowed)
        {
            passage.residency_violations += 1;
        }
        let passage = &mut passage.routes[index];
        passage.attempts += 1;
        passage.tokens_unknown +=
            u64::from(sent.input == Tokens::UNKNOWN || sent.output == Tokens::UNKNOWN);
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
    pub(super) fn ask_judge(
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
            outcomes: chapter.outcomes(self.is_calm),
            verifiers: &self.verifiers,
            batch: &chapter.batch,
            world: self.world,
        };
        let need = chapter.asks().need(i);
        let Some(cost) = answering.judge_call(&self.router, judge, judged, need, i) else {
            return Asked::Now(Some(Verdict::Unavailable));
        };
        live.calls = live.calls.saturating_add(1);
        live.seen.ask_judge();
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
        let answered = self.send(&sent, need.residency);
        if answered.ended_at > self.now {
            let until = answered.ended_at;
            self.wait(
                place,
                until,
                Pending::Judged(judged, verifier, answered, cost),
            );
            return Asked::Later;
        }
        Asked::Now(self.read_by_judge(window, place, judged, verifier, &answered, cost))
    }

    /// The verdict of a judge whose call is over, which cost so much if it brought an answer.
    pub(super) fn read_by_judge(
        &mut self,
        window: &Window,
        place: u32,
        judged: RouteId,
        verifier: VerifierId,
        answered: &Answered,
        cost: u64,
    ) -> Option<Verdict> {
        if let Some(judge) = self.verifiers[usize::from(verifier.0)].judge() {
            self.in_flight[usize::from(judge.route.0)] -= 1;
        }
        if answered.fault.is_some() {
            return Some(Verdict::Unavailable);
        }
        let live = &mut self.calls[place as usize];
        live.cost.add(cost);
        live.seen.bill_judge(cost);
        self.look(window, place, judged, verifier)
    }

    /// The verdict on an answer; `None` if nobody graded it.
    pub(super) fn look(
        &mut self,
        window: &Window,
        place: u32,
        route: RouteId,
        verifier: VerifierId,
    ) -> Option<Verdict> {
        let live = &mut self.calls[place as usize];
        let (chapter, i) = window.of(live.number);
        let verifier = &self.verifiers[usize::from(verifier.0)];
        let accepted = chapter.outcomes(self.is_calm).accepts(verifier, route, i)?;
        live.seen
            .note(chapter.outcomes(self.is_calm).grade(route, i), accepted);
        Some(if accepted {
            Verdict::Accept
        } else {
            Verdict::Reject
        })
    }

    /// What the router is told of a verdict; nothing if nobody can tell, and then the call is over.
    pub(super) fn heard(
        &mut self,
        window: &Window,
        place: u32,
        verdict: Option<Verdict>,
    ) -> Option<Input> {
        let Some(verdict) = verdict else {
            self.cannot_tell(window, place);
            return None;
        };
        if verdict == Verdict::Unavailable {
            self.calls[place as usize].seen.unavailable += 1;
        }
        Some(Input::Verdict(verdict))
    }
}
