//! Sixty-four instant walks of one plan abreast, one bit for each request.
//!
//! An instant walk ([`Router::instant`]) is a handful of questions about a request: may it go there,
//! does the verifier accept, is anybody left to pass it on to. Asked about 64 requests at once, the
//! answers are words, and the walk is a few `and`s and `or`s for each leg. It says nothing new: a test
//! holds every bit of it against the walks one by one, which another test holds against the steps.

use super::call::tokens;
use super::{Router, wants};
use crate::router::{Leg, Plan, Regions, RouteId, Target, VerifierId};
use crate::units::Tokens;

/// How the walks ended, in bits: bit i is about the i-th request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abreast {
    /// An answer was rejected and the request passed on at least once.
    pub escalated: u64,
    /// Nobody could be asked. The steps say why.
    pub unasked: u64,
}

/// Whoever knows every answer to 64 requests beforehand. Bit i of all words is about the i-th request.
pub trait AnswersAbreast {
    /// `route` is asked about these requests, and answers.
    fn answered(&mut self, route: RouteId, asked: u64);

    /// Which of the answers of `route` the verifier accepts. Only the bits in `looked` matter.
    fn accepts(&mut self, route: RouteId, verifier: VerifierId, looked: u64) -> u64;

    /// The answers of `route` to these requests are final.
    fn serves(&mut self, route: RouteId, served: u64);
}

impl Router {
    /// Prompt and output cap together, as the window filter counts them: an unknown prompt passes it, an
    /// unknown cap counts as nothing.
    #[must_use]
    #[inline(always)]
    pub fn tokens(input: Tokens, output_cap: Tokens) -> u32 {
        tokens(input, output_cap)
    }

    /// The requests that pass the hard filters, by route, for 64 requests that may go to the same
    /// places: bit i of `eligible[r]` says whether route r is in the [`Router::eligible_set`] of the i-th.
    /// `tokens` are those of [`Router::tokens`], bit i of `tools` is whether the request carries tools.
    #[inline(always)]
    pub fn eligible_abreast(
        &self,
        tokens: &[u32; 64],
        tools: u64,
        residency: Regions,
        local_only: bool,
        eligible: &mut [u64],
    ) {
        for (hot, eligible) in self.hot.iter().zip(eligible) {
            let may =
                hot.residency.is_subset_of(residency) && hot.lacks & wants(false, local_only) == 0;
            if !may {
                *eligible = 0;
                continue;
            }
            let fit = crate::units::lanes::which(|lane| tokens[lane] <= hot.window);
            let lacks_tools = hot.lacks & wants(true, false) != 0;
            *eligible = if lacks_tools { fit & !tools } else { fit };
        }
    }

    /// Walks `plan` to its end for the requests in `among`, with an answer from every route that is
    /// asked. `eligible` holds the requests that pass each route's hard filters.
    ///
    /// Requires [`Router::is_instant`], requests without a deadline of their own, a plan without pools
    /// ([`Plan::is_routes`]; with one, all requests come back unasked), and verifiers that can be asked
    /// about everything.
    #[inline(always)]
    pub fn instant_abreast(
        plan: &Plan,
        among: u64,
        eligible: &[u64],
        answers: &mut impl AnswersAbreast,
    ) -> Abreast {
        let mut end = Abreast {
            escalated: 0,
            unasked: among,
        };
        if !plan.is_routes() {
            return end;
        }
        // Requests that nobody has served yet, and those that somebody has answered.
        let mut open = among;
        let mut index = 0;
        while let Some(leg) = plan.leg(index) {
            index += 1;
            let Target::Route(route) = leg.target else {
                break;
            };
            let asked = open & fresh(plan, index - 1, route, eligible);
            if asked == 0 {
                continue;
            }
            end.unasked &= !asked;
            answers.answered(route, asked);
            let served = match leg {
                Leg { verifier: None, .. } => asked,
                Leg {
                    verifier: Some(verifier),
                    ..
                } => {
                    // A verdict matters where somebody else could still be asked.
                    let looked = asked & later(plan, index, eligible);
                    if looked == 0 {
                        asked
                    } else {
                        asked & !(looked & !answers.accepts(route, verifier, looked))
                    }
                }
            };
            end.escalated |= asked & !served;
            open &= !served;
            if served != 0 {
                answers.serves(route, served);
            }
        }
        end
    }
}

/// The requests that leg `index` could ask `route` for. A request that is still open at a leg was open
/// at all legs before it, so a route that stands there already has been asked if it may be at all.
#[inline(always)]
fn fresh(plan: &Plan, index: u8, route: RouteId, eligible: &[u64]) -> u64 {
    let mut before = 0;
    while before < index {
        if plan
            .leg(before)
            .is_some_and(|leg| leg.target == Target::Route(route))
        {
            return 0;
        }
        before += 1;
    }
    eligible.get(usize::from(route.0)).copied().unwrap_or(0)
}

/// The requests that some leg from `index` on could ask a route for that no leg before it has.
#[inline(always)]
fn later(plan: &Plan, index: u8, eligible: &[u64]) -> u64 {
    let mut lanes = 0;
    let mut at = index;
    while let Some(leg) = plan.leg(at) {
        if let Target::Route(route) = leg.target {
            // Legs between `index` and `at` may name the route, too: then it is in already.
            lanes |= fresh(plan, index, route, eligible);
        }
        at += 1;
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::super::instant::EligibleSet;
    use super::*;
    use crate::router::{
        CredentialId, InstantWalk, Limits, Need, PoolId, ProviderId, RouteSpec, RouterConfig,
    };
    use crate::units::lanes::each;

    /// What happened to each request.
    struct Diary {
        /// By route: whose answers are accepted.
        verdicts: [u64; 4],
        asked: [Vec<RouteId>; 64],
        looked: [Vec<RouteId>; 64],
        served: [Option<RouteId>; 64],
    }

    impl Diary {
        fn new(verdicts: [u64; 4]) -> Self {
            Self {
                verdicts,
                asked: [const { Vec::new() }; 64],
                looked: [const { Vec::new() }; 64],
                served: [None; 64],
            }
        }
    }

    impl AnswersAbreast for Diary {
        fn answered(&mut self, route: RouteId, asked: u64) {
            each(asked).for_each(|lane| self.asked[lane].push(route));
        }

        fn accepts(&mut self, route: RouteId, _: VerifierId, looked: u64) -> u64 {
            each(looked).for_each(|lane| self.looked[lane].push(route));
            self.verdicts[usize::from(route.0)]
        }

        fn serves(&mut self, route: RouteId, served: u64) {
            for lane in each(served) {
                assert_eq!(self.served[lane].replace(route), None, "served twice");
            }
        }
    }

    /// Every plan of up to four legs over four routes, with and without verifiers, against every set of
    /// eligible routes and every verdict on each route: bit by bit what the walks one by one say.
    #[test]
    fn walks_abreast_are_the_walks_one_by_one() {
        let legs: Vec<Leg> = (0..4u16)
            .flat_map(|route| {
                [None, Some(VerifierId(1))].map(|verifier| Leg {
                    target: Target::Route(RouteId(route)),
                    verifier,
                })
            })
            .collect();
        let (mut walks, mut escalated, mut unasked) = (0u32, 0u32, 0u32);
        for len in 1..=4u32 {
            for code in 0..8usize.pow(len) {
                let plan: Vec<Leg> = (0..len).map(|at| legs[code / 8usize.pow(at) % 8]).collect();
                let plan = Plan::new(&plan).unwrap();
                // A word holds the 16 sets of routes with 4 of the 16 patterns of verdicts.
                for word in 0..4u64 {
                    let case = |lane: u64| (lane % 16, word * 4 + lane / 16);
                    let column = |pick: &dyn Fn(u64) -> bool| {
                        (0..64).fold(0, |bits, lane| bits | u64::from(pick(lane)) << lane)
                    };
                    let eligible: Vec<u64> = (0..4)
                        .map(|route| column(&|lane| case(lane).0 >> route & 1 == 1))
                        .collect();
                    let among = !(1 << (code % 64));
                    let mut diary = Diary::new(std::array::from_fn(|route| {
                        column(&|lane| case(lane).1 >> route & 1 == 1)
                    }));
                    let end = Router::instant_abreast(&plan, among, &eligible, &mut diary);
                    let Diary {
                        asked,
                        looked,
                        served,
                        ..
                    } = diary;
                    for lane in 0..64 {
                        let (set, verdicts) = case(lane);
                        let at = lane as usize;
                        if among >> lane & 1 == 0 {
                            assert!(asked[at].is_empty() && served[at].is_none());
                            assert_eq!((end.escalated | end.unasked) >> lane & 1, 0);
                            continue;
                        }
                        walks += 1;
                        let (mut want_asked, mut want_looked) = (Vec::new(), Vec::new());
                        let walk = Router::instant(
                            &plan,
                            EligibleSet(set),
                            |route| want_asked.push(route),
                            |route, _| {
                                want_looked.push(route);
                                Some(verdicts >> route.0 & 1 == 1)
                            },
                        );
                        assert_eq!((&asked[at], &looked[at]), (&want_asked, &want_looked));
                        let bits = (end.escalated >> lane & 1 == 1, end.unasked >> lane & 1 == 1);
                        match walk {
                            InstantWalk::Served(want) => {
                                assert_eq!(served[at], Some(want.route), "{plan:?}");
                                assert_eq!(bits, (want.escalations > 0, false), "{plan:?}");
                            }
                            InstantWalk::StepByStep => {
                                assert_eq!((served[at], bits), (None, (false, true)), "{plan:?}");
                            }
                            InstantWalk::Undetermined => panic!("every verdict is known"),
                        }
                        escalated += u32::from(bits.0);
                        unasked += u32::from(bits.1);
                    }
                }
            }
        }
        assert!(
            walks > 1_000_000 && escalated > 100_000 && unasked > 10_000,
            "{walks} {escalated} {unasked}"
        );
    }

    #[test]
    fn plans_with_pools_are_left_to_the_steps() {
        let pool = Leg {
            target: Target::Pool(PoolId(0)),
            verifier: None,
        };
        let plan = Plan::new(&[pool]).unwrap();
        let mut diary = Diary::new([0; 4]);
        let end = Router::instant_abreast(&plan, 5, &[7], &mut diary);
        assert_eq!((end.escalated, end.unasked), (0, 5));
        assert!(diary.asked.iter().all(Vec::is_empty));
    }

    #[test]
    fn the_same_requests_are_eligible_abreast_as_one_by_one() {
        let route = |index: u16| RouteSpec {
            name: format!("r{index}").into(),
            provider: ProviderId(index),
            credential: CredentialId(index),
            window: if index == 4 {
                Tokens::UNKNOWN
            } else {
                Tokens::new(10 * (1 + u32::from(index)))
            },
            tools: index != 0,
            residency: Regions(if index == 2 { 3 } else { 1 }),
            local: index == 3,
            price: None,
            weight: None,
            limits: Limits::default(),
        };
        let router = Router::new(&RouterConfig {
            routes: (0..5).map(route).collect(),
            ..RouterConfig::default()
        })
        .unwrap();
        for (residency, local_only) in [(3, false), (1, false), (0, false), (3, true), (1, true)] {
            let need = |lane: usize| Need {
                input_tokens: match lane {
                    60 => Tokens::UNKNOWN,
                    61 => Tokens::new(u32::MAX),
                    _ => Tokens::new(lane as u32),
                },
                output_cap: if lane.is_multiple_of(3) {
                    Tokens::UNKNOWN
                } else {
                    Tokens::new(lane as u32 % 4)
                },
                tools: lane % 2 == 1,
                residency: Regions(residency),
                local_only,
                account: None,
                deadline: None,
            };
            let tokens = std::array::from_fn(|lane| super::super::prompt_and_cap(&need(lane)));
            let tools = crate::units::lanes::which(|lane| need(lane).tools);
            let mut eligible = [0; 5];
            router.eligible_abreast(
                &tokens,
                tools,
                Regions(residency),
                local_only,
                &mut eligible,
            );
            for lane in 0..64 {
                let set = router.eligible_set(&need(lane));
                for (index, lanes) in eligible.iter().enumerate() {
                    assert_eq!(lanes >> lane & 1 == 1, set.has(RouteId(index as u16)));
                }
            }
        }
    }
}
