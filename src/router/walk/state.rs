//! What can be seen of a router from outside.

use super::Router;
use crate::router::{Account, AccountId, BreakerState, RouteId};
use crate::units::Instant;

impl Router {
    /// The state of the breaker that guards `route` at `now`; an unknown route has a closed one. An
    /// open breaker stays open until its trial is sent, also when the cooldown is over.
    #[must_use]
    pub fn breaker_state(&self, route: RouteId, now: Instant) -> BreakerState {
        let closed = BreakerState::Closed { failures: 0 };
        let Some(hot) = self.hot.get(usize::from(route.0)) else {
            return closed;
        };
        let closes_by_itself = self.config.breaker.is_some_and(|spec| !spec.trial);
        match self.breakers[usize::from(hot.breaker)].state() {
            BreakerState::Open { until } if closes_by_itself && until <= now => closed,
            state => state,
        }
    }

    /// The first of the routes that share a breaker with `route`: itself, unless breakers are wider than routes.
    #[must_use]
    pub fn breaker_of(&self, route: RouteId) -> RouteId {
        self.hot
            .get(usize::from(route.0))
            .map_or(route, |hot| RouteId(hot.breaker))
    }

    /// Until when `route` pauses; [`Instant::ZERO`] if it never did.
    #[must_use]
    pub fn cooldown_until(&self, route: RouteId) -> Instant {
        self.hot
            .get(usize::from(route.0))
            .map_or(Instant::ZERO, |hot| hot.cooldown_until)
    }

    /// Requests that are in flight on `route`.
    #[must_use]
    pub fn in_flight(&self, route: RouteId) -> u32 {
        self.hot
            .get(usize::from(route.0))
            .map_or(0, |hot| hot.in_flight)
    }

    /// The state of an account with a limit.
    #[must_use]
    pub fn account(&self, account: AccountId) -> Option<Account> {
        self.accounts.get(usize::from(account.0)).copied()
    }

    /// Number of routes.
    #[must_use]
    pub fn routes(&self) -> usize {
        self.hot.len()
    }

    pub(in crate::router) fn weight(&self, route: RouteId) -> u32 {
        self.config
            .routes
            .get(usize::from(route.0))
            .map_or(0, |spec| spec.weight.unwrap_or(1))
    }
}
