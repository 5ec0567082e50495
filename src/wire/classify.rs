//! From a status, headers and an error body to one of the router's ten kinds.
//!
//! One table serves all providers: gateways pass each other's bodies on, and no code means two things.
//! The most specific machine code decides, then wordings about money and windows, then the status;
//! codes that only repeat the status class decide when there is no status, as in an error frame.
//! Sources: OpenAI's error codes and OpenAPI 2.3.0, Anthropic's "Errors" page, Gemini's
//! "Troubleshooting" page and `google.rpc`, llama.cpp's server (as of November 2026).

use serde_json::Value;

use super::Headers;
use super::error::{Error, Place, shorten};
use super::json::{field, label, list, text};
use super::overflow::is_overflow;
use crate::router::{FaultKind, retry};
use crate::units::Duration;

/// Codes that decide whatever the status. Compared in lower case.
const STRONG: &[(&str, FaultKind)] = &[
    // Money and long-term allowances: waiting does not help, an operator does.
    ("insufficient_quota", FaultKind::Quota),
    ("credit_balance_exhausted", FaultKind::Quota),
    ("organization_spend_limit_exceeded", FaultKind::Quota),
    ("project_spend_limit_exceeded", FaultKind::Quota),
    ("organization_usage_limit_exceeded", FaultKind::Quota),
    ("billing_hard_limit_reached", FaultKind::Quota),
    ("billing_not_active", FaultKind::Quota),
    ("enforced_spend_limit_reached", FaultKind::Quota),
    ("contract_spend_limit_reached", FaultKind::Quota),
    ("linked_organization_spend_limit_reached", FaultKind::Quota),
    ("organization_on_hold", FaultKind::Quota),
    ("billing_error", FaultKind::Quota),
    ("payment_required", FaultKind::Quota),
    ("quota_exceeded", FaultKind::Quota),
    ("usage_limit_reached", FaultKind::Quota),
    ("terminal_quota_exhausted", FaultKind::Quota),
    // Short-term limits, also where the type beside them says `insufficient_quota`.
    ("rate_limit_exceeded", FaultKind::RateLimit),
    ("rate_limit_error", FaultKind::RateLimit),
    ("ramp_limit_exceeded", FaultKind::RateLimit),
    ("slow_down", FaultKind::RateLimit),
    ("throttling_error", FaultKind::RateLimit),
    ("too_many_requests", FaultKind::RateLimit),
    ("overloaded_error", FaultKind::Overloaded),
    ("server_is_overloaded", FaultKind::Overloaded),
    ("service_unavailable_error", FaultKind::Overloaded),
    ("service_unavailable", FaultKind::Overloaded),
    ("unavailable_error", FaultKind::Overloaded), // llama.cpp while it loads
    ("unavailable", FaultKind::Overloaded),       // gRPC
    ("timeout_error", FaultKind::Timeout),
    ("timeout", FaultKind::Timeout), // gateways with a 408, and in their frames
    ("deadline_exceeded", FaultKind::Timeout),
    ("request_timeout", FaultKind::Timeout),
    ("context_length_exceeded", FaultKind::ContextLength),
    ("context_window_exceeded", FaultKind::ContextLength),
    ("exceed_context_size_error", FaultKind::ContextLength), // llama.cpp
    ("invalid_api_key", FaultKind::Auth),
    ("api_key_invalid", FaultKind::Auth), // google.rpc.ErrorInfo.reason, with HTTP 400
    ("authentication_error", FaultKind::Auth),
    ("authentication", FaultKind::Auth),
    ("permission_error", FaultKind::Auth),
    ("unauthenticated", FaultKind::Auth),
    ("permission_denied", FaultKind::Auth),
    ("content_policy_violation", FaultKind::ContentFilter),
    ("content_filter", FaultKind::ContentFilter),
    ("responsibleaipolicyviolation", FaultKind::ContentFilter), // Azure, inner error
    ("moderation_blocked", FaultKind::ContentFilter),
    ("unsupported_parameter", FaultKind::Unsupported),
    ("unsupported_value", FaultKind::Unsupported),
    ("model_not_found", FaultKind::Unsupported),
    ("not_supported_error", FaultKind::Unsupported), // llama.cpp, 501
    ("unimplemented", FaultKind::Unsupported),
];

/// Codes that only repeat a class of status: they decide where there is none.
const WEAK: &[(&str, FaultKind)] = &[
    ("resource_exhausted", FaultKind::RateLimit),
    ("invalid_request_error", FaultKind::InvalidRequest),
    ("invalid_argument", FaultKind::InvalidRequest),
    ("failed_precondition", FaultKind::InvalidRequest),
    ("not_found_error", FaultKind::InvalidRequest),
    ("not_found", FaultKind::InvalidRequest),
    ("request_too_large", FaultKind::InvalidRequest),
    ("conflict_error", FaultKind::InvalidRequest),
];

/// Wordings about money, in lower case, for the bodies without a code.
const QUOTA_WORDINGS: &[&str] = &[
    "you have reached your specified", // Anthropic's user-set spend limit, a plain 400
    "monthly usage limit",
    "credit balance is too low", // Anthropic, 400
    "insufficient balance",      // DeepSeek
    "check your plan and billing details",
    "enable billing",
];

/// Wordings of a provider's policy, in lower case, for the bodies without a code.
const FILTER_WORDINGS: &[&str] = &[
    "blocked by content filtering policy", // Anthropic, a plain 400
    "content management policy",           // Azure
    "rejected as a result of our safety system", // OpenAI
];

/// Wordings of a route that cannot do what is asked, in lower case.
const UNSUPPORTED_WORDINGS: &[&str] = &[
    "is not found for api version", // Gemini, 404: no such model here
    "location is not supported",    // Gemini, FAILED_PRECONDITION
    "does not support tools",       // Ollama, 400
    "does not exist or you do not have access", // OpenAI, 404
];

/// An error answer: a body with a status that is not 2xx. `wall` is the time since the Unix epoch, for
/// a `Retry-After` that names a date.
#[must_use]
pub fn classify(status: u16, headers: &Headers, body: &[u8], wall: Duration) -> Error {
    let (value, plain) = match super::json::parse(body) {
        Ok(value) => (value, false),
        // Proxies answer in HTML or plain text.
        Err(_) => {
            let start = &body[..body.len().min(8_192)];
            let message = Value::from(String::from_utf8_lossy(start).into_owned());
            (serde_json::json!({ "error": message }), true)
        }
    };
    let mut error = decide(&value, Some(status), Place::Status);
    if plain && error.message.trim_start().starts_with('<') {
        error.message = "an HTML page".to_owned();
    }
    let told = hint(headers, wall);
    error.retry_after = error.retry_after.max(told);
    let header = ["x-request-id", "request-id", "x-goog-request-id"]
        .iter()
        .find_map(|name| headers.get(name));
    if let Some(id) = header {
        error.request_id = Some(id.to_owned());
    }
    error
}

/// An error object inside a body or a frame that came with status 200.
pub(super) fn frame(body: &Value) -> Error {
    decide(body, None, Place::InStream)
}

/// An error object in a whole body that came with status 200.
pub(super) fn in_body(body: &Value) -> Error {
    decide(body, None, Place::InBody)
}

/// Whether a body is an error although its status says otherwise.
pub(super) fn is_error(body: &Value) -> bool {
    field(body, "error").is_some_and(|error| match error {
        Value::Object(object) => !object.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    })
}

fn decide(body: &Value, status: Option<u16>, place: Place) -> Error {
    // Some Google endpoints wrap the object in a list.
    let body = body.get(0).unwrap_or(body);
    let object = field(body, "error").unwrap_or(body);
    let message = object
        .as_str()
        .or_else(|| text(object, "message"))
        .or_else(|| text(body, "message"))
        .or_else(|| text(body, "detail"))
        .unwrap_or("");
    let codes = codes(object);
    // A numeric code is the status it would have had: llama.cpp sends 400, LiteLLM "429".
    let named = codes
        .iter()
        .find_map(|code| code.parse::<u16>().ok())
        .filter(|status| (400..600).contains(status));
    let status = status.or(named);
    let words: Vec<&String> = codes
        .iter()
        .filter(|code| code.parse::<u64>().is_err())
        .collect();

    let mut error = Error::new(FaultKind::Server, place, message);
    error.status = status;
    error.code = words.first().map(|code| shorten(code));
    error.request_id = label(body, "request_id");
    error.retry_after = retry_info(object);
    let lower = message
        .chars()
        .take(4_096)
        .collect::<String>()
        .to_lowercase();

    let strong = words.iter().find_map(|code| {
        let code = code.to_lowercase();
        let kind = STRONG.iter().find(|(known, _)| *known == code);
        kind.map(|(_, kind)| *kind)
            .or_else(|| code.contains("overloaded").then_some(FaultKind::Overloaded))
    });
    error.kind = if let Some(kind) = strong.filter(|&kind| believable(kind, status)) {
        kind
    } else if status == Some(402) || has_any(&lower, QUOTA_WORDINGS) || is_daily_quota(object) {
        FaultKind::Quota
    } else if has_block(body) || has_block(object) || has_any(&lower, FILTER_WORDINGS) {
        FaultKind::ContentFilter
    } else if matches!(status, None | Some(400 | 413 | 422 | 500)) && is_overflow(message) {
        FaultKind::ContextLength
    } else if matches!(status, None | Some(400 | 404 | 422))
        && has_any(&lower, UNSUPPORTED_WORDINGS)
        || (status == Some(404) && lower.starts_with("model:"))
    {
        FaultKind::Unsupported
    } else {
        match status {
            Some(status) => by_status(status),
            None => words
                .iter()
                .find_map(|code| {
                    let code = code.to_lowercase();
                    WEAK.iter().find(|(known, _)| *known == code)
                })
                .map_or(FaultKind::Server, |(_, kind)| *kind),
        }
    };
    error
}

/// A code is not believed where the status contradicts it outright: a mock that answers 503 with a
/// type meant for 400s is overloaded, and nobody's key is wrong at a 5xx.
fn believable(kind: FaultKind, status: Option<u16>) -> bool {
    match kind {
        FaultKind::Auth => status.is_none_or(|status| status < 500),
        _ => true,
    }
}

fn by_status(status: u16) -> FaultKind {
    match status {
        401 | 403 => FaultKind::Auth,
        402 => FaultKind::Quota,
        408 | 499 | 504 => FaultKind::Timeout,
        429 => FaultKind::RateLimit,
        501 => FaultKind::Unsupported,
        503 | 529 => FaultKind::Overloaded,
        // A redirection is a server that is not where it should be: another one may answer.
        300..=399 | 500.. => FaultKind::Server,
        _ => FaultKind::InvalidRequest,
    }
}

/// The machine codes of an error object, most specific first.
fn codes(object: &Value) -> Vec<String> {
    let mut codes = Vec::new();
    let details = object.get("details");
    codes.extend(details.and_then(|details| label(details, "error_code")));
    for detail in list(object, "details") {
        codes.extend(label(detail, "reason"));
    }
    for inner in ["innererror", "inner_error"] {
        codes.extend(object.get(inner).and_then(|inner| label(inner, "code")));
    }
    for name in ["code", "type", "status"] {
        codes.extend(label(object, name));
    }
    codes
}

fn has_any(message: &str, wordings: &[&str]) -> bool {
    wordings.iter().any(|wording| message.contains(wording))
}

/// Gemini's `QuotaFailure`: a per-day allowance is used up, so waiting a minute is of no use.
fn is_daily_quota(object: &Value) -> bool {
    list(object, "details").iter().any(|detail| {
        list(detail, "violations").iter().any(|violation| {
            ["quotaId", "quota_id", "quotaMetric", "quota_metric"]
                .iter()
                .filter_map(|name| text(violation, name))
                .any(|id| id.contains("PerDay") || id.contains("per_day"))
        })
    })
}

/// A prompt that was held back, as Gemini's OpenAI-compatible endpoint says it: a 400 with `promptFeedback`.
fn has_block(object: &Value) -> bool {
    ["promptFeedback", "prompt_feedback"]
        .iter()
        .filter_map(|name| object.get(name))
        .any(|feedback| super::json::either(feedback, "blockReason", "block_reason").is_some())
}

/// Gemini's `RetryInfo`.
fn retry_info(object: &Value) -> Option<Duration> {
    list(object, "details")
        .iter()
        .filter_map(|detail| super::json::either(detail, "retryDelay", "retry_delay")?.as_str())
        .filter_map(retry::retry_info)
        .max()
}

/// What the headers ask for. A negative number of seconds means now, as a past date does.
fn hint(headers: &Headers, wall: Duration) -> Option<Duration> {
    retry::hint(|name| headers.get(name), wall).or_else(|| {
        let positive = headers.get("retry-after")?.trim().strip_prefix('-')?;
        retry::retry_after_ms(positive).map(|_| Duration::ZERO)
    })
}
