//! Attempts as `tracing` events with the attribute names of OpenTelemetry's conventions for generative
//! AI.

use super::hooks::Hook;
use crate::router::{BreakerChange, FaultKind};
use crate::traffic::{Attempt, Outcome};

/// The version of the OpenTelemetry semantic conventions whose names are used. Those for generative AI
/// have the status "development" there; their names were checked in November 2026 against the pages
/// "Semantic conventions for generative client AI spans" and the attribute registry.
pub const SEMCONV_VERSION: &str = "1.41.0";

/// Emits an event for each attempt, at level INFO where it answered and WARN where it did not; alerts
/// and breakers at WARN. The target is `routelab::live`. Where the conventions have a name it is used;
/// what they do not know begins with `routelab.`. No prompt, no answer, no key is in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

const TARGET: &str = "routelab::live";

/// `gen_ai.provider.name` has well-known values; a dialect that is not a vendor is called by its name
/// in the catalogue.
fn provider(attempt: &Attempt) -> &str {
    match attempt.dialect.as_str() {
        "openai" => "openai",
        "anthropic" => "anthropic",
        "gemini" => "gcp.gemini",
        _ => &attempt.provider,
    }
}

/// The event, at the level that is given.
macro_rules! event {
    ($level:expr, $attempt:expr) => {{
        let attempt: &Attempt = $attempt;
        let (address, port) = match &attempt.host {
            Some(host) => match host.rsplit_once(':') {
                Some((address, port)) if port.parse::<u16>().is_ok() => {
                    (Some(address), port.parse::<u16>().ok())
                }
                _ => (Some(host.as_str()), None),
            },
            None => (None, None),
        };
        tracing::event!(
            target: TARGET,
            $level,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider(attempt),
            gen_ai.request.model = attempt.model.as_str(),
            gen_ai.response.model = attempt.model_reported.as_deref(),
            gen_ai.response.id = attempt.request_id.as_deref(),
            gen_ai.response.finish_reasons = attempt.stop.as_deref(),
            gen_ai.response.time_to_first_chunk = attempt.ttft.map(crate::units::Duration::as_secs_f64),
            gen_ai.usage.input_tokens = attempt.tokens.input,
            gen_ai.usage.output_tokens = attempt.tokens.output,
            gen_ai.usage.cache_read.input_tokens = attempt.tokens.cached,
            gen_ai.usage.cache_creation.input_tokens = attempt.tokens.cache_write,
            gen_ai.usage.reasoning.output_tokens = attempt.tokens.reasoning,
            server.address = address,
            server.port = port,
            "error.type" = attempt.kind.as_deref(),
            http.response.status_code = attempt.status,
            routelab.trace_id = attempt.trace_id.as_str(),
            routelab.origin = attempt.origin.name(),
            routelab.policy = attempt.policy.as_str(),
            routelab.route = attempt.route.as_str(),
            routelab.attempt = attempt.attempt,
            routelab.outcome = attempt.outcome.name(),
            routelab.reason = attempt.reason.as_deref(),
            routelab.cost_usd = attempt.cost.map(crate::units::Usd::as_f64),
            routelab.latency_s = attempt.latency.map(crate::units::Duration::as_secs_f64),
            routelab.waited_s = attempt.waited.map(crate::units::Duration::as_secs_f64),
            "attempt"
        );
    }};
}

impl Hook for Tracing {
    fn attempt(&self, attempt: &Attempt) {
        match attempt.outcome {
            Outcome::Ok => event!(tracing::Level::INFO, attempt),
            Outcome::Error | Outcome::ErrorMidStream | Outcome::Cancelled | Outcome::Skipped => {
                event!(tracing::Level::WARN, attempt);
            }
        }
    }

    fn alert(&self, route: &str, kind: FaultKind) {
        tracing::event!(
            target: TARGET,
            tracing::Level::WARN,
            routelab.route = route,
            "error.type" = kind.name(),
            "alert"
        );
    }

    fn breaker(&self, route: &str, change: BreakerChange) {
        let state = match change {
            BreakerChange::Opened { .. } => "open",
            BreakerChange::HalfOpen => "half_open",
            BreakerChange::TrialFreed => "trial_freed",
            BreakerChange::Closed => "closed",
        };
        tracing::event!(
            target: TARGET,
            tracing::Level::WARN,
            routelab.route = route,
            routelab.breaker = state,
            "breaker"
        );
    }
}
