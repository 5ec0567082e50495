//! Named defaults: what other routers do when nobody configures them, on the same traffic.
//!
//! A preset sets attempts, waits, breakers, cooldowns and tables; routes, pools and accounts stay the
//! configuration's own. What is rebuilt is the *documented default behaviour as far as this core can
//! express it*; where it cannot, the comment says so. Facts were read in documents or sources up to
//! November 2026. "Not stated" means that the number is this core's own default.
//!
//! Three things no preset takes over, because they are known bugs: more than one trial after a
//! breaker's cooldown, success counted at the first byte, and a cooldown that a later failure cuts
//! short.

use super::FaultKind::{
    Auth, ContentFilter, InvalidRequest, Overloaded, Quota, RateLimit, Server, Timeout,
};
use super::{
    BreakerScope, BreakerSpec, CooldownSpec, FaultTables, HintUse, Jitter, Kinds, Limits,
    RetryShare, RouterConfig, Scope, Trip, WaitPolicy,
};
use crate::units::Duration;

/// One named set of defaults.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name in a configuration.
    pub name: &'static str,
    /// What it reproduces, in one line.
    pub about: &'static str,
    /// The configuration, without routes.
    pub config: fn() -> RouterConfig,
    /// Limits of an attempt, for routes that give none.
    pub limits: Limits,
}

/// All presets, the project's own sources first.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "lesson",
        about: "the router lesson: two attempts, breaker of 3 failures per provider",
        config: lesson,
        limits: attempt(5),
    },
    Preset {
        name: "resilience",
        about: "the resilience article's library: one attempt, breaker per route",
        config: resilience,
        limits: Limits::NONE, // RB-06: no timeout unless the caller gives one
    },
    Preset {
        name: "memagen",
        about: "the paper's pools: fail over on rate limits only, 60 s cooldown",
        config: memagen,
        limits: Limits::NONE,
    },
    Preset {
        name: "memagen_credential",
        about: "the paper's single credential: wait 65 to 95 s after a rate limit, twice",
        config: memagen_credential,
        limits: Limits::NONE,
    },
    Preset {
        name: "lesson004",
        about: "the capstone lesson: three attempts within a deadline of 10 s, no fallback",
        config: lesson004,
        limits: attempt(8),
    },
    Preset {
        name: "litellm",
        about: "LiteLLM Router: three attempts, 5 s cooldown above half failures a minute",
        config: litellm,
        limits: Limits::NONE,
    },
    Preset {
        name: "portkey",
        about: "Portkey's open gateway: six attempts, fallback on whatever is not a success",
        config: portkey,
        limits: Limits::NONE,
    },
    Preset {
        name: "tensorzero",
        about: "TensorZero: one attempt per provider, every error goes on to the next",
        config: tensorzero,
        limits: attempt(15 * 60),
    },
    Preset {
        name: "helicone",
        about: "Helicone's gateway: retries on server errors, no fallback, pool by error ratio",
        config: helicone,
        limits: Limits::NONE,
    },
    Preset {
        name: "bifrost",
        about: "Bifrost: one attempt per provider, every error goes on to the next",
        config: bifrost,
        limits: Limits::NONE,
    },
    Preset {
        name: "aisix",
        about: "AISIX: three attempts, cooldown apart from retries, 30 s to 10 min",
        config: aisix,
        limits: attempt(6_000),
    },
    Preset {
        name: "envoy",
        about: "Envoy AI Gateway's sample: one attempt per backend, outlier ejection",
        config: envoy,
        limits: attempt(30),
    },
];

/// The preset with this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

const fn attempt(secs: u64) -> Limits {
    Limits {
        ttft: Duration::MAX,
        gap: Duration::MAX,
        attempt: Duration::from_secs(secs),
    }
}

const ALL: Kinds = Kinds::of(&super::FaultKind::ALL);
/// 429, 5xx, and no answer: what nearly everybody calls transient.
const TRANSIENT: Kinds = Kinds::of(&[RateLimit, Overloaded, Timeout, Server]);
/// 5xx and no answer.
const BROKEN: Kinds = Kinds::of(&[Overloaded, Timeout, Server]);

/// Nothing but one attempt after another: what presets start from.
fn bare() -> RouterConfig {
    RouterConfig {
        attempts_max: 1,
        wait: WaitPolicy {
            wait_max: Duration::MAX,
            ..WaitPolicy::default()
        },
        call_deadline: None,
        breaker: None,
        cooldown: None,
        ..RouterConfig::default()
    }
}

fn lesson() -> RouterConfig {
    RouterConfig {
        attempts_max: 2, // RB-01
        wait: WaitPolicy {
            // RB-02: the hint, or uniform(0, 0.5 × 2^attempt); then uniform(0, 0.1) on top.
            base: Duration::from_secs(1),
            factor: 2,
            cap: Duration::MAX,
            jitter: Jitter::Full,
            extra: Duration::from_millis(100),
            hint: HintUse::Instead,
            wait_max: Duration::from_secs(2), // RB-01
        },
        breaker: Some(BreakerSpec {
            trip: Trip::Consecutive(3),        // CB-01
            cooldown: Duration::from_secs(30), // CB-01
            scope: BreakerScope::Provider,     // CB-01
            stops_retries: false,              // its loop does not look at the breaker again
            ..BreakerSpec::default()
        }),
        tables: FaultTables {
            // ER-01 is the default table; CB-02: everything counts but these two.
            counts_against_health: ALL.without(InvalidRequest).without(ContentFilter),
            scope: [Scope::Provider; 10],
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn resilience() -> RouterConfig {
    RouterConfig {
        attempts_max: 1, // RB-06
        wait: WaitPolicy {
            base: Duration::ZERO, // RB-06: backoff 0, multiplier 2, no jitter
            factor: 2,
            cap: Duration::MAX,
            jitter: Jitter::None,
            extra: Duration::ZERO,
            hint: HintUse::Ignored, // TR-15
            wait_max: Duration::MAX,
        },
        breaker: Some(BreakerSpec::default()), // CB-06, FB-10: per route, 3 failures, 30 s, one probe
        tables: FaultTables {
            // ER-10: timeout, rate limit and server errors (which include overload, ER-11) are
            // retried and fail over; everything else is raised at once and does not count.
            retry_here: TRANSIENT,
            fail_over: TRANSIENT,
            counts_against_health: TRANSIENT,
            alert: Kinds::NONE,
            scope: [Scope::Route; 10],
        },
        ..bare()
    }
}

fn memagen() -> RouterConfig {
    RouterConfig {
        breaker: Some(BreakerSpec {
            trip: Trip::Consecutive(5),      // CB-05
            scope: BreakerScope::Credential, // CB-05
            ..BreakerSpec::default()
        }),
        cooldown: Some(CooldownSpec {
            kinds: Kinds::of(&[RateLimit]),      // PL-06
            base: Some(Duration::from_secs(60)), // PL-01
            use_hint: false,
            max: Duration::MAX,
        }),
        tables: FaultTables {
            retry_here: Kinds::NONE,            // AG-08: the pool path moves on
            fail_over: Kinds::of(&[RateLimit]), // ER-15: any other exception is raised again
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn memagen_credential() -> RouterConfig {
    RouterConfig {
        attempts_max: 3, // RB-05: at most two retries
        wait: WaitPolicy {
            base: Duration::from_secs(65), // RB-05: a window of 60 s and five
            factor: 1,
            cap: Duration::MAX,
            jitter: Jitter::None,
            extra: Duration::from_secs(30), // RB-05
            hint: HintUse::Longer,          // it reads none; a hint is still never shortened
            wait_max: Duration::MAX,
        },
        cooldown: None, // the waiting call is the cooldown
        tables: FaultTables {
            retry_here: Kinds::of(&[RateLimit]),
            fail_over: Kinds::NONE, // FB-07: never silently another provider
            ..FaultTables::DEFAULT
        },
        ..memagen()
    }
}

fn lesson004() -> RouterConfig {
    RouterConfig {
        attempts_max: 3, // RB-08
        wait: WaitPolicy {
            base: Duration::from_millis(500), // RB-08: 0.5 s × 2^(attempt − 1), jitter injectable
            factor: 2,
            cap: Duration::MAX,
            jitter: Jitter::None,
            extra: Duration::ZERO,
            hint: HintUse::Instead, // RB-09: used as it is
            wait_max: Duration::MAX,
        },
        call_deadline: Some(Duration::from_secs(10)), // RB-08
        tables: FaultTables {
            retry_here: TRANSIENT,  // ER-13
            fail_over: Kinds::NONE, // it has one provider
            counts_against_health: Kinds::NONE,
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn litellm() -> RouterConfig {
    RouterConfig {
        attempts_max: 3, // source: max retries 2
        wait: WaitPolicy {
            hint: HintUse::Longer, // documents: Retry-After feeds the wait; backoff not stated
            wait_max: Duration::MAX,
            ..WaitPolicy::default()
        },
        breaker: Some(BreakerSpec {
            trip: Trip::Share {
                percent: 50, // source: more than half the minute's requests failed
                results_min: 5,
                window: Duration::from_secs(60),
            },
            cooldown: Duration::from_secs(5), // source: 5 s (60 s until September 2024)
            scope: BreakerScope::Route,       // a deployment
            trial: false,                     // the deployment is back when the time is over
            stops_retries: true,
            ..BreakerSpec::default()
        }),
        cooldown: Some(CooldownSpec {
            kinds: Kinds::of(&[RateLimit]),
            base: None,     // source: a lone failure never cools
            use_hint: true, // documents: Retry-After feeds the cooldown
            max: Duration::MAX,
        }),
        tables: FaultTables {
            // Source: 401, 404, 408, 429 and 5xx are considered.
            counts_against_health: TRANSIENT.with(Auth).with(Quota),
            scope: [Scope::Route; 10],
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn portkey() -> RouterConfig {
    RouterConfig {
        attempts_max: 6, // source: up to five retries
        wait: WaitPolicy {
            base: Duration::from_secs(1), // not stated
            factor: 2,
            cap: Duration::MAX,
            jitter: Jitter::None, // source: randomize off
            extra: Duration::ZERO,
            hint: HintUse::Instead,
            wait_max: Duration::from_secs(60), // source: over 60 s it gives up
        },
        tables: FaultTables {
            // Source: 429, 500, 502, 503, 504 by status alone, so a spent quota is retried, too.
            retry_here: TRANSIENT.with(Quota),
            fail_over: ALL,                     // source: any answer that is not 2xx
            counts_against_health: Kinds::NONE, // the breaker is a hosted feature
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn tensorzero() -> RouterConfig {
    RouterConfig {
        attempts_max: 1, // source: 0 retries
        wait: WaitPolicy {
            base: Duration::from_secs(1), // source: exponential from 1 s, factor 2, to 10 s, jitter
            factor: 2,
            cap: Duration::from_secs(10),
            jitter: Jitter::Full, // the jitter's form is not stated
            extra: Duration::ZERO,
            hint: HintUse::Ignored, // feature table: Retry-After not read
            wait_max: Duration::MAX,
        },
        tables: FaultTables {
            retry_here: ALL, // source: every error but its own rate limit
            fail_over: ALL,
            counts_against_health: Kinds::NONE, // no breaker, no cooldown
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn helicone() -> RouterConfig {
    let mut scope = FaultTables::DEFAULT.scope;
    scope[RateLimit as usize] = Scope::Provider;
    RouterConfig {
        attempts_max: 3, // source: two retries
        wait: WaitPolicy {
            base: Duration::from_secs(1), // source: 1 s to 30 s, factor 2, jitter
            factor: 2,
            cap: Duration::from_secs(30),
            jitter: Jitter::Full, // the jitter's form is not stated
            extra: Duration::ZERO,
            hint: HintUse::Ignored,
            wait_max: Duration::MAX,
        },
        breaker: Some(BreakerSpec {
            trip: Trip::Share {
                percent: 10, // source: error ratio 0.10 over 60 s, grace 20 requests
                results_min: 20,
                window: Duration::from_secs(60),
            },
            // Its ratio slides, so a provider is back when the bad minute is over; here it rests for
            // as long.
            cooldown: Duration::from_secs(60),
            scope: BreakerScope::Provider,
            trial: false,
            stops_retries: false,
            ..BreakerSpec::default()
        }),
        cooldown: Some(CooldownSpec {
            kinds: Kinds::of(&[RateLimit]), // source: 429 leaves the pool until Retry-After
            base: None,
            use_hint: true,
            max: Duration::MAX,
        }),
        tables: FaultTables {
            retry_here: BROKEN,     // source: 5xx and connection errors; 429 is not retried
            fail_over: Kinds::NONE, // maintainers: removal from the pool is not fallback
            counts_against_health: BROKEN,
            scope,
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn bifrost() -> RouterConfig {
    RouterConfig {
        attempts_max: 1, // documents: 0 retries
        wait: WaitPolicy {
            base: Duration::from_millis(500), // documents: min(500 ms × 2^n, 5 s) × 0.8 to 1.2
            factor: 2,
            cap: Duration::from_secs(5),
            jitter: Jitter::Spread {
                low_percent: 80,
                high_percent: 120,
            },
            extra: Duration::ZERO,
            hint: HintUse::Ignored, // feature table: Retry-After not read
            wait_max: Duration::MAX,
        },
        tables: FaultTables {
            retry_here: TRANSIENT, // documents: 429 and transient; 401, 402, 403 are dead
            fail_over: ALL,        // documents: each further provider gets a full budget
            counts_against_health: Kinds::NONE, // adaptive balancing is an enterprise feature
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn aisix() -> RouterConfig {
    RouterConfig {
        attempts_max: 3, // source: two retries
        wait: WaitPolicy {
            hint: HintUse::Ignored, // feature table: Retry-After feeds the cooldown; backoff not stated
            wait_max: Duration::MAX,
            ..WaitPolicy::default()
        },
        cooldown: Some(CooldownSpec {
            // Source: 401, 408, 429, 500, 502, 503, 504, timeouts and transport errors.
            kinds: TRANSIENT.with(Auth),
            base: Some(Duration::from_secs(30)),
            use_hint: true,
            max: Duration::from_secs(600),
        }),
        tables: FaultTables {
            retry_here: BROKEN, // source: retrying 429 is off, other 4xx are opt-in
            fail_over: BROKEN,
            counts_against_health: Kinds::NONE, // it has cooldowns, no breaker
            scope: [Scope::Route; 10],
            ..FaultTables::DEFAULT
        },
        ..bare()
    }
}

fn envoy() -> RouterConfig {
    RouterConfig {
        attempts_max: 1, // sample: one attempt per priority
        wait: WaitPolicy {
            base: Duration::from_millis(100), // sample: 100 ms to 10 s
            factor: 2,
            cap: Duration::from_secs(10),
            jitter: Jitter::Full,
            extra: Duration::ZERO,
            hint: HintUse::Ignored, // feature table: Retry-After not read
            wait_max: Duration::MAX,
        },
        // Documents: budget_percent 20, min_retry_concurrency 3. It bites when attempts are raised.
        retry_share: Some(RetryShare::InFlight {
            percent: 20,
            reserve: 3,
        }),
        breaker: Some(BreakerSpec {
            trip: Trip::Consecutive(5),        // outlier detection: consecutive_5xx
            cooldown: Duration::from_secs(30), // base ejection × count, to 300 s
            grows: true,
            cooldown_max: Duration::from_secs(300),
            scope: BreakerScope::Route,
            trial: false,
            stops_retries: true,
        }),
        tables: FaultTables {
            retry_here: Kinds::of(&[Server, Timeout]), // sample: 500 and connect-failure
            fail_over: Kinds::of(&[Server, Timeout]),
            counts_against_health: BROKEN,
            alert: Kinds::NONE,
            scope: [Scope::Route; 10],
        },
        ..bare()
    }
}

#[cfg(test)]
mod tests {
    use super::super::FaultKind::{ContextLength, Unsupported};
    use super::*;

    /// Kinds that are about the request in every preset but those that do not tell kinds apart.
    const OF_THE_REQUEST: [super::super::FaultKind; 4] =
        [ContextLength, Unsupported, ContentFilter, InvalidRequest];

    #[test]
    fn presets_have_unique_names_and_valid_settings() {
        for (index, preset) in PRESETS.iter().enumerate() {
            assert!(PRESETS[..index].iter().all(|p| p.name != preset.name));
            assert!(!preset.about.is_empty());
            assert_eq!(by_name(preset.name).unwrap().name, preset.name);
            let errors = (preset.config)().validate();
            // Only routes are missing.
            assert_eq!(errors.len(), 1, "{}: {errors:?}", preset.name);
        }
        assert!(by_name("nothing").is_none());
    }

    #[test]
    fn a_fault_of_the_request_is_never_retried_but_where_the_documents_say_so() {
        for preset in PRESETS {
            let retried = OF_THE_REQUEST
                .iter()
                .any(|&kind| (preset.config)().tables.retry_here.has(kind));
            assert_eq!(retried, preset.name == "tensorzero", "{}", preset.name);
        }
    }
}
