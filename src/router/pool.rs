//! Which member of a pool is tried next.
//!
//! The pick is total: it looks at every member that can be tried now, never at the first one alone
//! (R11), and of a tie or a weight it is drawn from the call's own jitter, over the members in the
//! order of their ids, so that the order of a list decides nothing but a round robin.

use super::config::{PoolSpec, Strategy};
use super::retry::uniforms;
use super::walk::{Call, Router};
use super::{RouteId, Skip};
use crate::units::Instant;

/// A pool and where its round robin stands.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    members: Box<[RouteId]>,
    by_id: Box<[RouteId]>,
    strategy: Strategy,
    soonest: bool,
    cursor: usize,
}

impl Pool {
    pub(super) fn new(spec: &PoolSpec) -> Self {
        let mut by_id = spec.members.clone();
        by_id.sort_unstable();
        Self {
            members: spec.members.clone().into(),
            by_id: by_id.into(),
            strategy: spec.strategy,
            soonest: spec.soonest_when_all_cool,
            cursor: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.cursor = 0;
    }

    pub(super) fn members(&self) -> &[RouteId] {
        &self.members
    }
}

impl Router {
    /// Whether some member of the pool could be tried now.
    pub(super) fn pool_has(&self, pool: usize, call: &Call, now: Instant) -> bool {
        let Some(entry) = self.pools.get(pool) else {
            return false;
        };
        entry.members.iter().any(|&route| {
            match self.admits(call, route, now) {
                Ok(()) => true,
                // The soonest of a pool that is cooling down is as good as ready.
                Err(Skip::CoolingDown { .. }) => entry.soonest,
                Err(_) => false,
            }
        })
    }

    /// The member to try next, and whether its cooldown is to be overlooked.
    pub(super) fn pool_pick(&mut self, pool: usize, call: &Call, now: Instant) -> Option<RouteId> {
        let entry = self.pools.get(pool)?;
        let open = |route: RouteId| self.admits(call, route, now).is_ok();
        let draw = uniforms(call.jitter(), DRAW + u32::from(call.sends())).0;
        let picked = match entry.strategy {
            Strategy::RoundRobin => {
                let len = entry.members.len();
                // After a failure the list goes on behind the member that failed; the shared cursor
                // is moved by first picks alone.
                let behind = call
                    .last_route()
                    .and_then(|last| entry.members.iter().position(|&m| m == last));
                let start = behind.map_or(entry.cursor, |at| at + 1);
                let at = (0..len)
                    .map(|step| (start + step) % len)
                    .find(|&at| open(entry.members[at]));
                let route = at.map(|at| entry.members[at]);
                if let (Some(at), None) = (at, behind) {
                    self.pools[pool].cursor = (at + 1) % len;
                }
                route
            }
            Strategy::LeastLoaded => {
                let members = || entry.by_id.iter().copied().filter(|&r| open(r));
                let least = members().map(|r| self.in_flight(r)).min();
                least.and_then(|least| {
                    let ties = || members().filter(|&r| self.in_flight(r) == least);
                    ties().nth(below(draw, ties().count() as u64) as usize)
                })
            }
            Strategy::Weighted => {
                let members = || entry.by_id.iter().copied().filter(|&r| open(r));
                let total: u64 = members().map(|r| u64::from(self.weight(r))).sum();
                if total == 0 {
                    members().nth(below(draw, members().count() as u64) as usize)
                } else {
                    let mut rest = below(draw, total);
                    members().find(|&route| {
                        let weight = u64::from(self.weight(route));
                        let hit = rest < weight;
                        rest = rest.saturating_sub(weight);
                        hit
                    })
                }
            }
        };
        picked.or_else(|| self.soonest_out(pool, call, now))
    }

    /// PL-04: if all that is left is cooling down, the member that is out first.
    fn soonest_out(&self, pool: usize, call: &Call, now: Instant) -> Option<RouteId> {
        let entry = &self.pools[pool];
        if !entry.soonest {
            return None;
        }
        let waits = |&route: &RouteId| match self.admits(call, route, now) {
            Err(Skip::CoolingDown { until }) => Some((until, route)),
            _ => None,
        };
        let (_, route) = entry.by_id.iter().filter_map(waits).min()?;
        Some(route)
    }
}

/// Counters of draws for pools; those for waits are below.
const DRAW: u32 = 1 << 16;

/// A uniform whole number below `n`, or 0 if `n` is 0. Its bias is below n / 2³².
fn below(draw: u32, n: u64) -> u64 {
    ((u128::from(draw) * u128::from(n)) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_covers_the_whole_range_and_nothing_else() {
        assert_eq!(below(0, 7), 0);
        assert_eq!(below(u32::MAX, 7), 6);
        assert_eq!(below(u32::MAX, 0), 0);
        assert_eq!(below(1 << 31, 2), 1);
    }
}
