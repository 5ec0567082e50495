//! The log of what came in and what was answered: enough to judge any gateway in front of it.
//!
//! Keys are never written. Prompts are written only if asked for; else a body is its length and its
//! SHA-256, which tell whether a retry sent the same.

use std::sync::PoisonError;
use std::time::Instant;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::Log;
use crate::router::FaultKind;
use crate::standin::faults::{Act, Cut};
use crate::wire::{Headers, Incoming, Message};

/// Headers whose values are written. All others are written by name only.
const HARMLESS: &[&str] = &[
    "accept",
    "accept-encoding",
    "anthropic-beta",
    "anthropic-version",
    "connection",
    "content-length",
    "content-type",
    "idempotency-key",
    "transfer-encoding",
    "traceparent",
    "user-agent",
    "x-envoy-attempt-count",
    "x-goog-api-client",
    "x-request-id",
    "x-routelab-attempt",
    "x-routelab-data-class",
    "x-routelab-request",
    "x-routelab-route",
    "x-routelab-tenant",
    "x-stainless-lang",
    "x-stainless-package-version",
    "x-stainless-read-timeout",
    "x-stainless-retry-count",
    "x-stainless-timeout",
];
/// Headers of answers that are written: how long to wait before the next attempt.
const HINTS: [&str; 3] = ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"];
/// Most characters of a path, a name or a value.
const CHARS_MAX: usize = 200;

/// A request and what became of it.
pub(super) struct Sighting<'a> {
    /// Its number among all requests, from 0.
    pub(super) seq: u64,
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) target: &'a str,
    pub(super) headers: &'a Headers,
    pub(super) body: Option<&'a [u8]>,
    pub(super) dialect: Option<&'a str>,
    pub(super) asked: Option<&'a Incoming>,
    /// The number that rules saw, and the attempt.
    pub(super) number: Option<(u64, u8)>,
    pub(super) status: u16,
    pub(super) act: Option<&'a Act>,
    /// How a timeline made it fail: what a script would call it, and the kind.
    pub(super) acted: Option<(&'static str, FaultKind)>,
    /// Why the server itself refused it.
    pub(super) refused: Option<FaultKind>,
    /// The answer's headers.
    pub(super) answered: &'a Headers,
}

/// Where they are written.
pub(super) struct Sightings {
    log: Log,
    bodies: bool,
    started: Instant,
}

impl Sightings {
    #[expect(
        clippy::disallowed_methods,
        reason = "when a request came is what the log is for; no result depends on it"
    )]
    pub(super) fn new(log: Log, bodies: bool) -> Self {
        Self {
            log,
            bodies,
            started: Instant::now(),
        }
    }

    pub(super) fn write(&self, sighting: &Sighting<'_>) {
        let mut line = line(sighting, self.bodies);
        let ms = self.started.elapsed().as_micros() as f64 / 1_000.0;
        line["at_ms"] = ms.into();
        let mut text = line.to_string();
        text.push('\n');
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that cannot be written must not stop the server; nobody here could be told.
        let _ = log.write_all(text.as_bytes()).and_then(|()| log.flush());
    }
}

fn line(sighting: &Sighting<'_>, bodies: bool) -> Value {
    // The query may hold a key.
    let (path, query) = sighting
        .target
        .split_once('?')
        .unwrap_or((sighting.target, ""));
    let parameters: Vec<&str> = query
        .split('&')
        .filter_map(|pair| pair.split('=').next())
        .filter(|name| !name.is_empty())
        .collect();
    let headers: serde_json::Map<String, Value> = sighting
        .headers
        .0
        .iter()
        .map(|(name, value)| {
            let is_harmless = HARMLESS.contains(&name.as_str());
            let shown = is_harmless.then(|| short(value));
            (name.clone(), shown.into())
        })
        .collect();
    let mut line = json!({
        "seq": sighting.seq,
        "at_ms": null,
        "method": short(sighting.method),
        "path": short(path),
        "query": parameters,
        "dialect": sighting.dialect,
        "headers": headers,
    });
    if let Some(asked) = sighting.asked {
        line["model"] = short(&asked.model).into();
        line["stream"] = asked.stream.into();
        line["messages"] = asked.request.messages.len().into();
        line["tools"] = asked.request.tools.len().into();
        let digest = conversation(&asked.request.messages);
        line["conversation_sha256"] = digest.into();
    }
    if let Some((number, attempt)) = sighting.number {
        line["request"] = number.into();
        line["attempt"] = attempt.into();
    }
    if let Some(body) = sighting.body {
        line["body_bytes"] = body.len().into();
        line["body_sha256"] = hex(&Sha256::digest(body)).into();
        if bodies {
            line["body"] = String::from_utf8_lossy(body).into();
        }
    }
    line["status"] = sighting.status.into();
    let acted = sighting.acted;
    line["fault"] = sighting.act.map(name).or(acted.map(|one| one.0)).into();
    let kind = match sighting.act {
        Some(Act::Kind { kind, .. } | Act::ErrorFrame { kind, .. }) => Some(*kind),
        _ => acted.map(|one| one.1).or(sighting.refused),
    };
    line["kind"] = kind.map(FaultKind::name).into();
    let hints: serde_json::Map<String, Value> = HINTS
        .iter()
        .filter_map(|name| {
            Some((
                (*name).to_owned(),
                short(sighting.answered.get(name)?).into(),
            ))
        })
        .collect();
    if !hints.is_empty() {
        line["answer_headers"] = hints.into();
    }
    line
}

/// What was asked, whatever the dialect and the model: the same for a retry, and for an attempt elsewhere.
/// The SHA-256 of every turn's role and words, each with its length before it.
fn conversation(messages: &[Message]) -> String {
    let mut digest = Sha256::new();
    let mut add = |text: &str| {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    };
    for message in messages {
        match message {
            Message::User { text } => ["user", text].into_iter().for_each(&mut add),
            Message::Assistant {
                text, tool_calls, ..
            } => {
                ["assistant", text].into_iter().for_each(&mut add);
                tool_calls.iter().for_each(|call| add(&call.name));
            }
            Message::Tool { name, text, .. } => {
                ["tool", name, text].into_iter().for_each(&mut add);
            }
        }
    }
    hex(&digest.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn short(text: &str) -> String {
    text.chars().take(CHARS_MAX).collect()
}

/// What fault scripts call it.
fn name(act: &Act) -> &'static str {
    match act {
        Act::Status { .. } => "status",
        Act::Kind { .. } => "kind",
        Act::ErrorFrame { .. } => "error_frame",
        Act::Cut {
            how: Cut::Clean, ..
        } => "cut",
        Act::Cut {
            how: Cut::Reset, ..
        } => "reset",
        Act::Stall { .. } => "stall",
        Act::SlowFirstToken { .. } => "slow_first_token_s",
        Act::BrokenFrame { .. } => "broken_frame",
        Act::KeepAlivesOnly => "keep_alives_only",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_no_key_and_no_body() {
        let headers = Headers::from_iter([
            ("authorization", "Bearer SECRET"),
            ("x-api-key", "SECRET"),
            ("cookie", "SECRET"),
            ("user-agent", "client/1"),
        ]);
        let sighting = Sighting {
            seq: 7,
            method: "POST",
            target: "/v1/models/m:generateContent?key=SECRET&alt=sse",
            headers: &headers,
            body: Some(b"SECRET"),
            dialect: Some("gemini"),
            asked: None,
            number: Some((3, 1)),
            status: 200,
            act: Some(&Act::KeepAlivesOnly),
            acted: None,
            refused: None,
            answered: &Headers::from_iter([("set-cookie", "SECRET"), ("retry-after", "2")]),
        };
        let quiet = line(&sighting, false);
        assert!(!quiet.to_string().contains("SECRET"), "{quiet}");
        assert_eq!(quiet["query"], json!(["key", "alt"]));
        assert_eq!(quiet["headers"]["user-agent"], "client/1");
        assert_eq!(quiet["headers"]["x-api-key"], Value::Null);
        assert_eq!(quiet["fault"], "keep_alives_only");
        assert_eq!(quiet["answer_headers"], json!({ "retry-after": "2" }));
        assert_eq!(line(&sighting, true)["body"], "SECRET");
    }
}
