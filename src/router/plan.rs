//! What a policy decides: at most [`LEGS_MAX`] legs, tried in order.

use std::num::NonZeroU8;

use super::{LEGS_MAX, Leg, PoolId, RouteId, Target, VerifierId};

/// Verifiers that legs can name: their ids are below this.
pub const VERIFIERS_MAX: usize = 63;

/// The legs of one call in the order in which they are tried. Never empty, never longer than
/// [`LEGS_MAX`], and small enough to be copied.
///
/// Legs are packed into sixteen bits each, four to a word: whoever looks at leg i shifts and needs no
/// memory, so a call that is driven to its end at once can stay in registers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    first: u64,
    second: u64,
    /// Never zero, so that no plan at all takes no more room than a plan.
    len: NonZeroU8,
}

/// Bits of a packed leg: nine for the target, one that says it is a pool, six for the verifier plus one.
const TARGET_BITS: u32 = 9;
/// Stands for every id that no configuration can have.
const NO_SUCH: u16 = (1 << TARGET_BITS) - 1;
const POOL: u16 = 1 << TARGET_BITS;
const VERIFIER_SHIFT: u32 = TARGET_BITS + 1;

const _: () = assert!(super::ROUTES_MAX <= NO_SUCH as usize && LEGS_MAX == 8);

const fn pack_route(route: RouteId) -> u16 {
    if route.0 < NO_SUCH { route.0 } else { NO_SUCH }
}

fn pack(leg: Leg) -> Option<u16> {
    let target = match leg.target {
        Target::Route(route) => pack_route(route),
        Target::Pool(pool) => POOL | pack_route(RouteId(pool.0)),
    };
    match leg.verifier {
        None => Some(target),
        Some(verifier) if usize::from(verifier.0) < VERIFIERS_MAX => {
            Some(target | (u16::from(verifier.0) + 1) << VERIFIER_SHIFT)
        }
        Some(_) => None,
    }
}

#[inline(always)]
fn unpack(bits: u16) -> Leg {
    let id = bits & NO_SUCH;
    let verifier = (bits >> VERIFIER_SHIFT) as u8;
    Leg {
        target: if bits & POOL == 0 {
            Target::Route(RouteId(id))
        } else {
            Target::Pool(PoolId(id))
        },
        verifier: if verifier == 0 {
            None
        } else {
            Some(VerifierId(verifier - 1))
        },
    }
}

impl Plan {
    /// One route and nothing to fall back on.
    #[must_use]
    #[inline(always)]
    pub const fn single(route: RouteId) -> Self {
        Self {
            first: pack_route(route) as u64,
            second: 0,
            len: NonZeroU8::MIN,
        }
    }

    /// The route, if the plan is just one route without a verifier.
    #[must_use]
    #[inline(always)]
    pub const fn as_single(&self) -> Option<RouteId> {
        // One leg, and nothing but a target in it.
        if self.len.get() == 1 && self.first < NO_SUCH as u64 {
            Some(RouteId(self.first as u16))
        } else {
            None
        }
    }

    /// Whether all legs are routes, none a pool.
    #[must_use]
    pub const fn is_routes(&self) -> bool {
        const POOLS: u64 = POOL as u64 * 0x0001_0001_0001_0001;
        (self.first | self.second) & POOLS == 0
    }

    /// Routes to be tried in this order, without verifiers: an outage fallback. `None` if the list
    /// is empty or longer than [`LEGS_MAX`].
    #[must_use]
    pub fn chain(routes: &[RouteId]) -> Option<Self> {
        Self::packed(routes.iter().map(|route| Some(pack_route(*route))))
    }

    /// Any legs. `None` if there is none, if there are more than [`LEGS_MAX`], or if a verifier's id is
    /// not below [`VERIFIERS_MAX`].
    #[must_use]
    pub fn new(legs: &[Leg]) -> Option<Self> {
        Self::packed(legs.iter().map(|leg| pack(*leg)))
    }

    fn packed(legs: impl ExactSizeIterator<Item = Option<u16>>) -> Option<Self> {
        let len = u8::try_from(legs.len()).ok().and_then(NonZeroU8::new)?;
        if legs.len() > LEGS_MAX {
            return None;
        }
        let mut words = [0u64; 2];
        for (index, leg) in legs.enumerate() {
            words[index / 4] |= u64::from(leg?) << (16 * (index % 4));
        }
        Some(Self {
            first: words[0],
            second: words[1],
            len,
        })
    }

    /// The legs, in order.
    pub fn legs(&self) -> impl ExactSizeIterator<Item = Leg> + use<> {
        let plan = *self;
        (0..plan.len.get()).map(move |index| plan.at(index))
    }

    /// Leg `index`, if there is one.
    #[inline(always)]
    pub(super) fn leg(&self, index: u8) -> Option<Leg> {
        if index < self.len.get() {
            Some(self.at(index))
        } else {
            None
        }
    }

    #[inline(always)]
    fn at(&self, index: u8) -> Leg {
        let word = if index < 4 { self.first } else { self.second };
        unpack((word >> (16 * (index % 4))) as u16)
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.legs()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_never_empty_nor_longer_than_the_limit() {
        let leg = Leg {
            target: Target::Route(RouteId(0)),
            verifier: None,
        };
        assert_eq!(Plan::chain(&[]), None);
        assert_eq!(Plan::new(&[]), None);
        assert_eq!(Plan::chain(&[RouteId(1); LEGS_MAX + 1]), None);
        assert_eq!(Plan::new(&[leg; LEGS_MAX + 1]), None);
        let longest = Plan::chain(&[RouteId(1); LEGS_MAX]).unwrap();
        assert_eq!(longest.legs().len(), LEGS_MAX);
        let unknown = Leg {
            verifier: Some(VerifierId(VERIFIERS_MAX as u8)),
            ..leg
        };
        assert_eq!(Plan::new(&[unknown]), None);
    }

    #[test]
    fn legs_come_out_as_they_went_in() {
        for target in [
            Target::Route(RouteId(0)),
            Target::Route(RouteId(255)),
            Target::Pool(PoolId(0)),
            Target::Pool(PoolId(200)),
        ] {
            for verifier in [None, Some(VerifierId(0)), Some(VerifierId(62))] {
                let leg = Leg { target, verifier };
                for len in 1..=LEGS_MAX {
                    let mut legs = vec![
                        Leg {
                            target: Target::Route(RouteId(7)),
                            verifier: None
                        };
                        len
                    ];
                    legs[len - 1] = leg;
                    let plan = Plan::new(&legs).unwrap();
                    assert_eq!(plan.legs().collect::<Vec<_>>(), legs);
                    assert_eq!(plan.is_routes(), matches!(target, Target::Route(_)));
                    assert_eq!(plan.leg(len as u8 - 1), Some(leg));
                    assert_eq!(plan.leg(len as u8), None);
                }
            }
        }
    }

    #[test]
    fn a_route_that_cannot_be_is_not_taken_for_another_one() {
        let plan = Plan::single(RouteId(u16::MAX));
        let Some(Leg {
            target: Target::Route(route),
            ..
        }) = plan.leg(0)
        else {
            panic!("a route")
        };
        assert!(usize::from(route.0) >= crate::router::ROUTES_MAX);
    }

    #[test]
    fn equal_legs_make_equal_plans() {
        let one = Plan::single(RouteId(7));
        assert_eq!(one, Plan::chain(&[RouteId(7)]).unwrap());
        assert_ne!(one, Plan::chain(&[RouteId(7), RouteId(0)]).unwrap());
        assert!(size_of::<Option<Plan>>() <= 24);
        assert_eq!(one.as_single(), Some(RouteId(7)));
        assert_eq!(Plan::single(RouteId(0)).as_single(), Some(RouteId(0)));
        assert_eq!(Plan::single(RouteId(u16::MAX)).as_single(), None);
        assert_eq!(
            Plan::chain(&[RouteId(7), RouteId(0)]).unwrap().as_single(),
            None
        );
        let verified = Leg {
            target: Target::Route(RouteId(7)),
            verifier: Some(VerifierId(0)),
        };
        assert_eq!(Plan::new(&[verified]).unwrap().as_single(), None);
        let pool = Leg {
            target: Target::Pool(PoolId(7)),
            verifier: None,
        };
        assert_eq!(Plan::new(&[pool]).unwrap().as_single(), None);
    }
}
