//! What a policy decides: at most [`LEGS_MAX`] legs, tried in order.

use super::{LEGS_MAX, Leg, RouteId, Target};

const FILLER: Leg = Leg {
    target: Target::Route(RouteId(0)),
    verifier: None,
};

/// The legs of one call in the order in which they are tried. Never empty, never longer than
/// [`LEGS_MAX`], and small enough to be copied.
#[derive(Clone, Copy)]
pub struct Plan {
    legs: [Leg; LEGS_MAX],
    len: u8,
}

impl Plan {
    /// One route and nothing to fall back on.
    #[must_use]
    #[inline(always)]
    pub const fn single(route: RouteId) -> Self {
        let mut legs = [FILLER; LEGS_MAX];
        legs[0].target = Target::Route(route);
        Self { legs, len: 1 }
    }

    /// Routes to be tried in this order, without verifiers: an outage fallback. `None` if the list
    /// is empty or longer than [`LEGS_MAX`].
    #[must_use]
    #[inline]
    pub fn chain(routes: &[RouteId]) -> Option<Self> {
        if routes.is_empty() || routes.len() > LEGS_MAX {
            return None;
        }
        let mut legs = [FILLER; LEGS_MAX];
        for (leg, &route) in legs.iter_mut().zip(routes) {
            leg.target = Target::Route(route);
        }
        Some(Self {
            legs,
            len: routes.len() as u8,
        })
    }

    /// Any legs. `None` if there is none or if there are more than [`LEGS_MAX`].
    #[must_use]
    #[inline]
    pub fn new(legs: &[Leg]) -> Option<Self> {
        if legs.is_empty() || legs.len() > LEGS_MAX {
            return None;
        }
        let mut all = [FILLER; LEGS_MAX];
        all[..legs.len()].copy_from_slice(legs);
        Some(Self {
            legs: all,
            len: legs.len() as u8,
        })
    }

    /// The legs, in order.
    #[must_use]
    #[inline(always)]
    pub fn legs(&self) -> &[Leg] {
        &self.legs[..usize::from(self.len)]
    }

    /// Leg `index`, if there is one.
    #[inline(always)]
    pub(super) fn leg(&self, index: u8) -> Option<Leg> {
        (index < self.len).then(|| self.legs[usize::from(index) % LEGS_MAX])
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.legs() == other.legs()
    }
}

impl Eq for Plan {}

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
        assert_eq!(Plan::chain(&[]), None);
        assert_eq!(Plan::new(&[]), None);
        assert_eq!(Plan::chain(&[RouteId(1); LEGS_MAX + 1]), None);
        assert_eq!(Plan::new(&[FILLER; LEGS_MAX + 1]), None);
        let longest = Plan::chain(&[RouteId(1); LEGS_MAX]).unwrap();
        assert_eq!(longest.legs().len(), LEGS_MAX);
    }

    #[test]
    fn equality_and_lookup_do_not_see_the_filler() {
        let one = Plan::single(RouteId(7));
        assert_eq!(one, Plan::chain(&[RouteId(7)]).unwrap());
        assert_ne!(one, Plan::chain(&[RouteId(7), RouteId(0)]).unwrap());
        assert_eq!(one.leg(0), Some(one.legs()[0]));
        assert_eq!(one.leg(1), None);
        assert!(size_of::<Plan>() <= 64);
    }
}
