//! The common path of a walk, apart: nothing has failed since the last reset, nothing is booked, and
//! the leg at hand can be tried.
//!
//! Every other case is the business of [`Router::slow`], which can do all that this can and more. What
//! is here must be *the same in less time*: a test drives both side by side. It is inlined into the
//! driver and touches the call only by value, so that a call that nobody keeps never leaves the
//! registers; that is worth three quarters of its time.

use super::{Call, Router, fits};
use crate::router::walk::call::Phase;
use crate::router::{Input, Leg, Log, RouteId, ServedVerdict, Step, Target, Verdict};
use crate::units::Instant;

impl Router {
    /// The next step if the common path leads to it; otherwise `None`, and nothing has changed.
    #[inline(always)]
    pub(super) fn quick<L: Log>(
        &mut self,
        call: &mut Call,
        input: Input,
        now: Instant,
        log: &mut L,
    ) -> Option<Step> {
        if !self.plain {
            return None;
        }
        match (call.phase, input) {
            (Phase::New, Input::Begin) => {
                let deadline = call.deadline.min(now.after(self.call_deadline));
                let leg = call.plan.leg(0)?;
                let route = self.quick_target(call, leg)?;
                if now >= deadline {
                    return None;
                }
                call.deadline = deadline;
                call.generation = self.generation;
                Some(self.quick_send(call, leg, route, now, log))
            }
            (Phase::Sent, Input::Reply(_)) if call.generation == self.generation => {
                let hot = self.hot.get_mut(usize::from(call.route.0))?;
                let verifier = if call.buffered && now < call.deadline {
                    call.plan.leg(call.marks.leg()).and_then(|leg| leg.verifier)
                } else {
                    None
                };
                hot.in_flight = hot.in_flight.saturating_sub(1);
                log.reply(call.route, call.marks.attempt(), now);
                if let Some(verifier) = verifier {
                    call.phase = Phase::Verifying;
                    return Some(Step::Verify {
                        route: call.route,
                        verifier,
                    });
                }
                let verdict = if call.buffered {
                    ServedVerdict::Unverified
                } else {
                    ServedVerdict::NotAsked
                };
                Some(quick_done(call, verdict))
            }
            (Phase::Verifying, Input::Verdict(Verdict::Accept))
                if call.generation == self.generation =>
            {
                log.verdict(call.route, Verdict::Accept, now);
                Some(quick_done(call, ServedVerdict::Accepted))
            }
            (Phase::Verifying, Input::Verdict(Verdict::Reject))
                if call.generation == self.generation
                    && call.window_floor == 0
                    && now < call.deadline =>
            {
                let leg = call.plan.leg(call.marks.leg() + 1)?;
                let route = self.quick_target(call, leg)?;
                if call.has_visited(route) {
                    return None;
                }
                log.verdict(call.route, Verdict::Reject, now);
                call.hold();
                call.marks.escalate(false);
                call.marks.next_leg();
                Some(self.quick_send(call, leg, route, now, log))
            }
            _ => None,
        }
    }

    /// The leg's route, if the request passes its hard filters.
    #[inline(always)]
    fn quick_target(&self, call: &Call, leg: Leg) -> Option<RouteId> {
        let Target::Route(route) = leg.target else {
            return None;
        };
        let hot = self.hot.get(usize::from(route.0))?;
        fits(hot, &call.need, call.tokens).then_some(route)
    }

    #[inline(always)]
    fn quick_send<L: Log>(
        &mut self,
        call: &mut Call,
        leg: Leg,
        route: RouteId,
        now: Instant,
        log: &mut L,
    ) -> Step {
        call.visit(route);
        call.buffered = leg.verifier.is_some() && self.quick_has_later(call);
        call.route = route;
        call.marks.at_attempt(1);
        if let Some(hot) = self.hot.get_mut(usize::from(route.0)) {
            hot.in_flight += 1;
        }
        call.sends = call.sends.saturating_add(1);
        call.shown = false;
        call.phase = Phase::Sent;
        call.at = now;
        log.attempt(route, 1, now);
        Step::Send {
            route,
            attempt: 1,
            limits: self.limits(call),
            buffer: call.buffered,
        }
    }

    /// Whether a later leg could be tried. (Pools are looked into by the slow path's own code.)
    #[inline(always)]
    fn quick_has_later(&self, call: &Call) -> bool {
        let next = call.marks.leg() + 1;
        if let Some(leg) = call.plan.leg(next)
            && let Some(route) = self.quick_target(call, leg)
            && !call.has_visited(route)
        {
            return true;
        }
        // A copy, so that the call itself is never lent to code that is not inlined.
        let aside = call.duplicate();
        self.has_later_than(&aside, next)
    }
}

#[inline(always)]
fn quick_done(call: &mut Call, verdict: ServedVerdict) -> Step {
    call.verdict = verdict;
    call.phase = Phase::Served;
    Step::Done(call.served())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{
        CredentialId, Fault, FaultKind, Limits, Need, Plan, ProviderId, Regions, Reply, RouteSpec,
        RouterConfig, VerifierId,
    };
    use crate::units::Tokens;
    use proptest::prelude::*;

    fn router() -> Router {
        let route = |index: u16| RouteSpec {
            name: format!("r{index}").into(),
            provider: ProviderId(index),
            credential: CredentialId(index),
            window: Tokens::new(1000 << index),
            tools: index != 1,
            residency: Regions(if index == 2 { 3 } else { 1 }),
            local: false,
            price: None,
            weight: None,
            limits: Limits::default(),
        };
        Router::new(&RouterConfig {
            routes: (0..4).map(route).collect(),
            ..RouterConfig::default()
        })
        .unwrap()
    }

    fn plan() -> impl Strategy<Value = Plan> {
        let leg = (0u16..5, prop::option::of(0u8..3)).prop_map(|(route, verifier)| Leg {
            target: Target::Route(RouteId(route)),
            verifier: verifier.map(VerifierId),
        });
        prop::collection::vec(leg, 1..6).prop_map(|legs| Plan::new(&legs).unwrap())
    }

    fn need() -> impl Strategy<Value = Need> {
        (
            prop::option::of(0u32..9000),
            any::<bool>(),
            1u64..4,
            any::<bool>(),
            prop::option::of(0u64..50),
        )
            .prop_map(|(input, tools, residency, local_only, deadline)| Need {
                input_tokens: input.into(),
                output_cap: Tokens::UNKNOWN,
                tools,
                residency: Regions(residency),
                local_only: local_only && input.is_none(),
                account: None,
                deadline: deadline.map(Instant),
            })
    }

    fn input() -> impl Strategy<Value = Input> {
        prop_oneof![
            4 => Just(Input::Begin),
            6 => Just(Input::Reply(Reply { usage: None })),
            3 => Just(Input::Verdict(Verdict::Accept)),
            5 => Just(Input::Verdict(Verdict::Reject)),
            1 => Just(Input::Verdict(Verdict::Unavailable)),
            1 => Just(Input::Shown),
            1 => Just(Input::Wake),
            1 => Just(Input::Cancelled),
            1 => (0usize..10).prop_map(|kind| Input::Fault(Fault {
                kind: FaultKind::ALL[kind], retry_after: None, usage: None,
            })),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        /// Both ways through the same router: same steps, same calls, same router, whatever comes.
        #[test]
        fn the_common_path_does_what_the_long_way_does(
            opened in prop::collection::vec((plan(), need()), 1..4),
            inputs in prop::collection::vec((0usize..4, input(), 0u64..8), 1..40),
        ) {
            let (mut one, mut other) = (router(), router());
            let mut calls: Vec<(Call, Call)> = opened
                .iter()
                .map(|(plan, need)| (one.open(*plan, *need, 5), other.open(*plan, *need, 5)))
                .collect();
            let mut now = Instant(1);
            for (which, input, passed) in inputs {
                now = Instant(now.0 + passed);
                let which = which % calls.len();
                let (mine, theirs) = &mut calls[which];
                let step = one.step(mine, input, now, &mut ());
                other.slow(theirs, input, now, &mut ());
                prop_assert_eq!(step, other.outstanding(theirs));
                prop_assert_eq!(format!("{mine:?}"), format!("{theirs:?}"));
            }
            prop_assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }
}
