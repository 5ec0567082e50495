//! A whole walk at once, for drivers that know every answer beforehand.
//!
//! Where answers are rows of a table, no time passes and no attempt fails, the state of a call between
//! two steps is of no use to anybody. [`Router::instant`] then walks the plan in one go, on the set of
//! routes that pass the request's hard filters. It says nothing new: a test holds it against the steps,
//! and whatever it does not cover (a route that is unhealthy, a pool, a budget) it leaves to them.

use super::{Router, fits, prompt_and_cap};
use crate::router::{Need, Plan, RouteId, ServedVerdict, Target, VerifierId};
use crate::units::Duration;

/// Routes that pass the hard filters of one request. Only the first 64 routes can be in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EligibleSet(pub(super) u64);

impl EligibleSet {
    /// Whether the route is one of them.
    #[must_use]
    #[inline(always)]
    pub fn has(self, route: RouteId) -> bool {
        self.0 & bit(route) != 0
    }
}

/// How an instant walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstantEnd {
    /// Whose answer is served.
    pub route: RouteId,
    /// What is known of it.
    pub verdict: ServedVerdict,
    /// How many answers were rejected before it.
    pub escalations: u8,
}

/// What an instant walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstantWalk {
    /// An answer is served.
    Served(InstantEnd),
    /// The verifier could not be asked, because nobody knows what it would say.
    Undetermined,
    /// It has to be walked step by step.
    StepByStep,
}

impl Router {
    /// Whether instant walks are possible at all now: no budget is kept, nothing has failed since the
    /// last reset, and there are no more than 64 routes.
    #[must_use]
    pub fn is_instant(&self) -> bool {
        self.plain && self.hot.len() <= 64 && self.call_deadline > Duration::ZERO
    }

    /// The routes that pass the hard filters of `need`.
    #[must_use]
    #[inline(always)]
    pub fn eligible_set(&self, need: &Need) -> EligibleSet {
        let tokens = prompt_and_cap(need);
        let mut set = 0;
        for (index, hot) in self.hot.iter().take(64).enumerate() {
            set |= u64::from(fits(hot, need, tokens)) << index;
        }
        EligibleSet(set)
    }

    /// Walks `plan` to its end, with an answer from every route that is asked. `answered` is told of
    /// each; `accepts` is the verdict on an answer that a later eligible leg could better, `None` if
    /// nobody can know. Requires [`Router::is_instant`], `eligible` from this router, and a request
    /// without a deadline of its own.
    #[inline(always)]
    pub fn instant(
        plan: &Plan,
        eligible: EligibleSet,
        mut answered: impl FnMut(RouteId),
        mut accepts: impl FnMut(RouteId, VerifierId) -> Option<bool>,
    ) -> InstantWalk {
        let mut left = eligible.0;
        let mut escalations = 0;
        let mut index = 0;
        while let Some(leg) = plan.leg(index) {
            index += 1;
            let Target::Route(route) = leg.target else {
                return InstantWalk::StepByStep;
            };
            let bit = bit(route);
            if left & bit == 0 {
                continue;
            }
            left &= !bit;
            answered(route);
            if let Some(verifier) = leg.verifier {
                match later(plan, index, left) {
                    None => return InstantWalk::StepByStep,
                    Some(false) => {}
                    Some(true) => match accepts(route, verifier) {
                        None => return InstantWalk::Undetermined,
                        Some(true) => {
                            return InstantWalk::Served(InstantEnd {
                                route,
                                verdict: ServedVerdict::Accepted,
                                escalations,
                            });
                        }
                        Some(false) => {
                            escalations += 1;
                            continue;
                        }
                    },
                }
            }
            return InstantWalk::Served(InstantEnd {
                route,
                verdict: ServedVerdict::NotAsked,
                escalations,
            });
        }
        // Nobody could be asked; the steps say why.
        InstantWalk::StepByStep
    }
}

/// Zero for routes beyond the set.
#[inline(always)]
fn bit(route: RouteId) -> u64 {
    if route.0 < 64 { 1 << route.0 } else { 0 }
}

/// Whether a leg from `index` on has a route in `left`; `None` if one is a pool.
#[inline(always)]
fn later(plan: &Plan, mut index: u8, left: u64) -> Option<bool> {
    while let Some(leg) = plan.leg(index) {
        let Target::Route(route) = leg.target else {
            return None;
        };
        if left & bit(route) != 0 {
            return Some(true);
        }
        index += 1;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{
        CredentialId, Input, Leg, Limits, ProviderId, Regions, Reply, RouteSpec, RouterConfig,
        Step, Verdict,
    };
    use crate::units::{Instant, Tokens};

    fn router() -> Router {
        let route = |index: u16| RouteSpec {
            name: format!("r{index}").into(),
            provider: ProviderId(index),
            credential: CredentialId(index),
            window: Tokens::new(10 * (1 + u32::from(index))),
            tools: index != 0,
            residency: Regions(if index == 2 { 3 } else { 1 }),
            local: false,
            price: None,
            weight: None,
            limits: Limits::default(),
        };
        Router::new(&RouterConfig {
            routes: (0..3).map(route).collect(),
            ..RouterConfig::default()
        })
        .unwrap()
    }

    /// The same call step by step: who was asked, and how it ended.
    fn stepped(
        router: &mut Router,
        plan: Plan,
        need: Need,
        verdicts: u32,
    ) -> (Vec<RouteId>, Option<InstantEnd>, u32) {
        let mut call = router.open(plan, need, 0);
        let now = Instant::ZERO;
        let mut step = router.step(&mut call, Input::Begin, now, &mut ());
        let (mut asked, mut looked) = (Vec::new(), 0);
        loop {
            step = match step {
                Step::Send { route, .. } => {
                    asked.push(route);
                    router.step(&mut call, Input::Reply(Reply { usage: None }), now, &mut ())
                }
                Step::Verify { .. } => {
                    let accept = verdicts >> looked & 1 == 1;
                    looked += 1;
                    let verdict = if accept {
                        Verdict::Accept
                    } else {
                        Verdict::Reject
                    };
                    router.step(&mut call, Input::Verdict(verdict), now, &mut ())
                }
                Step::Done(served) => {
                    let end = InstantEnd {
                        route: served.route,
                        verdict: served.verdict,
                        escalations: served.escalations,
                    };
                    return (asked, Some(end), looked);
                }
                Step::Failed(_) => return (asked, None, looked),
                Step::Wait { .. } => panic!("nothing has failed"),
            };
        }
    }

    /// Every plan of up to four legs over three routes and one that does not exist, with and without
    /// verifiers, every need, every sequence of verdicts: about 0.7 million walks, both ways.
    #[test]
    fn an_instant_walk_is_the_walk() {
        let mut router = router();
        assert!(router.is_instant());
        let legs: Vec<Leg> = (0..4u16)
            .flat_map(|route| {
                [None, Some(VerifierId(1))].map(|verifier| Leg {
                    target: Target::Route(RouteId(route)),
                    verifier,
                })
            })
            .collect();
        let needs: Vec<Need> = [
            Tokens::UNKNOWN,
            Tokens::new(10),
            Tokens::new(15),
            Tokens::new(25),
            Tokens::new(99),
        ]
        .into_iter()
        .flat_map(|input_tokens| {
            [(false, 3), (true, 3), (false, 1), (true, 1)].map(|(tools, residency)| Need {
                input_tokens,
                output_cap: Tokens::UNKNOWN,
                tools,
                residency: Regions(residency),
                local_only: false,
                account: None,
                deadline: None,
            })
        })
        .collect();
        let mut walks = 0u32;
        let (mut served, mut unserved) = (0u32, 0u32);
        for len in 1..=4u32 {
            for code in 0..8usize.pow(len) {
                let plan: Vec<Leg> = (0..len).map(|at| legs[code / 8usize.pow(at) % 8]).collect();
                let plan = Plan::new(&plan).unwrap();
                for need in &needs {
                    for verdicts in 0..1 << (len - 1) {
                        walks += 1;
                        let (mut asked, mut looked) = (Vec::new(), 0);
                        let walk = Router::instant(
                            &plan,
                            router.eligible_set(need),
                            |route| asked.push(route),
                            |_, _| {
                                looked += 1;
                                Some(verdicts >> (looked - 1) & 1 == 1)
                            },
                        );
                        let (want_asked, want, want_looked) =
                            stepped(&mut router, plan, *need, verdicts);
                        match (walk, want) {
                            (InstantWalk::Served(end), Some(want)) => {
                                served += 1;
                                assert_eq!(
                                    (end, asked, looked),
                                    (want, want_asked, want_looked),
                                    "{plan:?} {need:?}"
                                );
                            }
                            (InstantWalk::StepByStep, None) => unserved += 1,
                            (walk, want) => panic!("{walk:?} but {want:?} for {plan:?} {need:?}"),
                        }
                    }
                }
            }
        }
        assert!(
            walks > 500_000 && served > 100_000 && unserved > 10_000,
            "{walks} {served} {unserved}"
        );
    }

    /// Drivers may take the answer of a single eligible route without walking.
    #[test]
    fn a_single_route_is_asked_just_when_it_is_eligible() {
        let router = router();
        for input in [5, 15, 25, 99] {
            let need = Need {
                input_tokens: Tokens::new(input),
                output_cap: Tokens::UNKNOWN,
                tools: false,
                residency: Regions::ALL,
                local_only: false,
                account: None,
                deadline: None,
            };
            let eligible = router.eligible_set(&need);
            for route in (0..70).map(RouteId) {
                let mut asked = Vec::new();
                let walk = Router::instant(
                    &Plan::single(route),
                    eligible,
                    |route| asked.push(route),
                    |_, _| None,
                );
                let served = InstantEnd {
                    route,
                    verdict: ServedVerdict::NotAsked,
                    escalations: 0,
                };
                if eligible.has(route) {
                    assert_eq!((walk, asked), (InstantWalk::Served(served), vec![route]));
                } else {
                    assert_eq!((walk, asked), (InstantWalk::StepByStep, vec![]));
                }
            }
        }
    }

    #[test]
    fn what_nobody_knows_ends_the_walk_undetermined() {
        let router = router();
        let need = Need {
            input_tokens: Tokens::new(5),
            output_cap: Tokens::UNKNOWN,
            tools: false,
            residency: Regions::ALL,
            local_only: false,
            account: None,
            deadline: None,
        };
        let leg = |route, verifier| Leg {
            target: Target::Route(RouteId(route)),
            verifier,
        };
        let plan = Plan::new(&[leg(0, Some(VerifierId(0))), leg(1, None)]).unwrap();
        let walk = Router::instant(&plan, router.eligible_set(&need), |_| {}, |_, _| None);
        assert_eq!(walk, InstantWalk::Undetermined);
    }

    #[test]
    fn routers_that_keep_books_or_remember_failures_are_not_instant() {
        use crate::router::{Fault, FaultKind};
        let mut router = router();
        let need = Need {
            input_tokens: Tokens::new(5),
            output_cap: Tokens::UNKNOWN,
            tools: false,
            residency: Regions::ALL,
            local_only: false,
            account: None,
            deadline: None,
        };
        let mut call = router.open(Plan::single(RouteId(0)), need, 0);
        router.step(&mut call, Input::Begin, Instant::ZERO, &mut ());
        let fault = Fault {
            kind: FaultKind::Server,
            retry_after: None,
            usage: None,
        };
        router.step(&mut call, Input::Fault(fault), Instant::ZERO, &mut ());
        assert!(!router.is_instant(), "a failure is remembered");
        router.reset();
        assert!(router.is_instant());
    }
}
