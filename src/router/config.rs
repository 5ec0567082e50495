//! What a router is told: routes, pools, and how it is to behave. Plain data, checked in one place.

use super::{
    AccountSpec, BreakerScope, BreakerSpec, CredentialId, FaultTables, Kinds, Limits, ProviderId,
    ROUTES_MAX, Regions, RetryShare, RouteId, Scope, Trip, WaitPolicy,
};
use crate::units::{Duration, Price, Tokens};

/// One endpoint that can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSpec {
    /// Its name, unique.
    pub name: Box<str>,
    /// Who runs it.
    pub provider: ProviderId,
    /// The key it is called with.
    pub credential: CredentialId,
    /// Tokens its context holds, prompt and answer together. Unknown counts as unlimited.
    pub window: Tokens,
    /// Whether it takes tools.
    pub tools: bool,
    /// Everywhere a request's data may go when it is sent here.
    pub residency: Regions,
    /// Whether it runs on the caller's own machines.
    pub local: bool,
    /// List price. Without one no limited account can use the route.
    pub price: Option<Price>,
    /// Weight in a weighted pool; 1 if not given.
    pub weight: Option<u32>,
    /// How long an attempt may take.
    pub limits: Limits,
}

/// How a pool picks the member to try first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// In turn; after a failure the next in the list.
    RoundRobin,
    /// Fewest requests in flight; a tie is drawn.
    LeastLoaded,
    /// Drawn in proportion to the weights of those that can be tried now. If these have no weight
    /// at all, each is as likely.
    Weighted,
}

/// Routes of which any will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name, for messages.
    pub name: Box<str>,
    /// The members, in the order of the list, each once.
    pub members: Vec<RouteId>,
    /// How one is picked.
    pub strategy: Strategy,
    /// If every member that could serve is cooling down: send to the one that is out soonest (PL-04)
    /// instead of going to the next leg.
    pub soonest_when_all_cool: bool,
}

/// When a failure makes a route pause, apart from its breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CooldownSpec {
    /// Which failures do.
    pub kinds: Kinds,
    /// For how long, if the provider does not say. `None`: only if it says.
    pub base: Option<Duration>,
    /// Whether what the provider says is used.
    pub use_hint: bool,
    /// Longest pause.
    pub max: Duration,
}

/// Everything a router is told. The default is documented field by field; presets of other gateways
/// are in [`preset`](super::preset).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterConfig {
    /// The routes; a [`RouteId`] is an index into this list.
    pub routes: Vec<RouteSpec>,
    /// The pools; a [`PoolId`](super::PoolId) is an index into this list.
    pub pools: Vec<PoolSpec>,
    /// The accounts with a limit; an [`AccountId`](super::AccountId) is an index into this list.
    pub accounts: Vec<AccountSpec>,
    /// Attempts on one route in one call, at least 1. Default 2.
    pub attempts_max: u8,
    /// Waits between them.
    pub wait: WaitPolicy,
    /// Longest time from the beginning of a call to its last attempt's start, for calls that bring
    /// no deadline of their own or a later one. Default 180 s.
    pub call_deadline: Option<Duration>,
    /// Retries on the same route that one call may make in all. Default: no limit but
    /// `attempts_max`.
    pub retries_per_call: Option<u8>,
    /// Retries in proportion to traffic. Default: no limit.
    pub retry_share: Option<RetryShare>,
    /// Breakers; `None` disables them.
    pub breaker: Option<BreakerSpec>,
    /// Cooldowns. Default: a rate limit with a hint rests the routes of that credential, for ten
    /// minutes at most: one absurd hint must not take a route away for good.
    pub cooldown: Option<CooldownSpec>,
    /// What each kind of failure permits and proves.
    pub tables: FaultTables,
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            routes: Vec::new(),
            pools: Vec::new(),
            accounts: Vec::new(),
            attempts_max: 2,
            wait: WaitPolicy::default(),
            call_deadline: Some(Duration::from_secs(180)),
            retries_per_call: None,
            retry_share: None,
            breaker: Some(BreakerSpec::default()),
            cooldown: Some(CooldownSpec {
                kinds: Kinds::of(&[super::FaultKind::RateLimit]),
                base: None,
                use_hint: true,
                max: Duration::from_secs(600),
            }),
            tables: FaultTables::DEFAULT,
        }
    }
}

/// One thing wrong with a configuration, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl RouterConfig {
    /// Everything that is wrong with it; empty if it can be used.
    #[must_use]
    pub fn validate(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        let mut say = |text: String| errors.push(ConfigError(text));
        if self.routes.is_empty() {
            say("there is no route".into());
        }
        if self.routes.len() > ROUTES_MAX {
            say(format!(
                "{} routes are more than {ROUTES_MAX}",
                self.routes.len()
            ));
        }
        for (index, route) in self.routes.iter().enumerate() {
            if route.name.is_empty() {
                say(format!("route {index} has no name"));
            }
            if self.routes[..index].iter().any(|r| r.name == route.name) {
                say(format!("two routes are called `{}`", route.name));
            }
            let limits = route.limits;
            for (name, limit) in [
                ("ttft", limits.ttft),
                ("gap", limits.gap),
                ("attempt", limits.attempt),
            ] {
                if limit == Duration::ZERO {
                    say(format!("route `{}`: limit `{name}` is zero", route.name));
                }
            }
        }
        for pool in &self.pools {
            if pool.members.is_empty() {
                say(format!("pool `{}` has no members", pool.name));
            }
            for (index, member) in pool.members.iter().enumerate() {
                if usize::from(member.0) >= self.routes.len() {
                    say(format!(
                        "pool `{}`: there is no route {}",
                        pool.name, member.0
                    ));
                }
                if pool.members[..index].contains(member) {
                    say(format!(
                        "pool `{}` lists route {} twice",
                        pool.name, member.0
                    ));
                }
            }
        }
        if self.attempts_max == 0 {
            say("attempts_max must be at least 1".into());
        }
        if self.call_deadline == Some(Duration::ZERO) {
            say("the deadline of a call must not be zero".into());
        }
        if let super::Jitter::Spread {
            low_percent,
            high_percent,
        } = self.wait.jitter
            && low_percent > high_percent
        {
            say(format!(
                "jitter from {low_percent} % to {high_percent} % is upside down"
            ));
        }
        if let Some(breaker) = &self.breaker {
            match breaker.trip {
                Trip::Consecutive(0) => say("a breaker threshold of 0 would never close".into()),
                Trip::Share { percent, .. } if percent > 100 => {
                    say(format!("a failure share of {percent} % is never exceeded"));
                }
                Trip::Share { window, .. } if window == Duration::ZERO => {
                    say("the breaker's window is zero".into());
                }
                _ => {}
            }
        }
        if let Some(RetryShare::Window { window, .. }) = self.retry_share
            && window == Duration::ZERO
        {
            say("the retry budget's window is zero".into());
        }
        errors
    }

    /// Whether a failure of a kind with this scope counts against a breaker of that scope.
    pub(super) fn reaches(scope: Scope, breaker: BreakerScope) -> bool {
        match scope {
            Scope::Request => false,
            Scope::Credential => breaker != BreakerScope::Provider,
            Scope::Route | Scope::Provider => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(name: &str) -> RouteSpec {
        RouteSpec {
            name: name.into(),
            provider: ProviderId(0),
            credential: CredentialId(0),
            window: Tokens::UNKNOWN,
            tools: true,
            residency: Regions::ALL,
            local: false,
            price: None,
            weight: None,
            limits: Limits::default(),
        }
    }

    #[test]
    fn every_mistake_is_named_at_once() {
        let config = RouterConfig {
            routes: vec![route("a"), route("a"), route("")],
            pools: vec![PoolSpec {
                name: "p".into(),
                members: vec![RouteId(0), RouteId(9), RouteId(0)],
                strategy: Strategy::RoundRobin,
                soonest_when_all_cool: true,
            }],
            attempts_max: 0,
            ..RouterConfig::default()
        };
        let text: Vec<_> = config.validate().iter().map(ToString::to_string).collect();
        assert_eq!(
            text,
            [
                "two routes are called `a`",
                "route 2 has no name",
                "pool `p`: there is no route 9",
                "pool `p` lists route 0 twice",
                "attempts_max must be at least 1",
            ]
        );
    }

    #[test]
    fn the_defaults_with_one_route_are_valid() {
        let config = RouterConfig {
            routes: vec![route("a")],
            ..RouterConfig::default()
        };
        assert_eq!(config.validate(), []);
        assert_eq!(RouterConfig::default().validate().len(), 1, "no route");
    }
}
