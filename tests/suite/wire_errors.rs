//! What error bodies mean: a documented sample of each provider and kind, the lesson's table, and the
//! bodies that other routers got wrong.

use routelab::router::{FaultKind, FaultTables};
use routelab::units::Duration;
use routelab::wire::{End, Headers, MESSAGE_CHARS_MAX, Place, StreamEvent, adapter, classify};
use serde_json::{Value, json};

use crate::given::fixture;

fn rows(section: &str) -> Vec<Value> {
    let file = fixture("wire_errors.json");
    file[section].as_array().unwrap().clone()
}

fn headers(row: &Value) -> Headers {
    row["headers"]
        .as_object()
        .map_or_else(Headers::default, |object| {
            object
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
                .collect()
        })
}

fn check(row: &Value) -> Option<String> {
    let adapter = adapter(row["adapter"].as_str().unwrap()).unwrap();
    let body = match &row["body"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let status = row["status"].as_u64().unwrap() as u16;
    let error = adapter.classify(status, &headers(row), body.as_bytes(), Duration::ZERO);
    let wait = error.retry_after.map(|wait| wait.0 / 1_000);
    let kind_fits = row["kind"] == error.kind.name();
    let wait_fits = row
        .get("retry_after_ms")
        .is_none_or(|ms| ms.as_u64() == wait);
    let rest = error.place == Place::Status && error.status == Some(status);
    (!(kind_fits && wait_fits && rest)).then(|| format!("{error:?}\n    for {row}"))
}

fn check_all(rows: &[Value]) {
    let wrong: Vec<String> = rows.iter().filter_map(check).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn er08_every_kind_has_a_sample_of_every_vendor() {
    let rows = rows("samples");
    for vendor in ["openai", "anthropic", "gemini", "compatible"] {
        for kind in FaultKind::ALL {
            let found = rows
                .iter()
                .filter(|row| row["adapter"] == vendor && row["kind"] == kind.name())
                .count();
            assert_eq!(found, 1, "{vendor} {kind:?}");
        }
    }
    check_all(&rows);
}

/// ER-05: the thirteen rows, and what the kinds allow.
#[test]
fn er05_the_lessons_table_holds() {
    let rows = rows("lesson");
    assert_eq!(rows.len(), 13);
    check_all(&rows);
    let tables = FaultTables::DEFAULT;
    let allowed: Vec<(bool, bool)> = rows
        .iter()
        .map(|row| FaultKind::from_name(row["kind"].as_str().unwrap()).unwrap())
        .map(|kind| (tables.retry_here.has(kind), tables.fail_over.has(kind)))
        .collect();
    let (both, over, none) = ((true, true), (false, true), (false, false));
    assert_eq!(
        allowed,
        [
            both, over, both, over, over, both, over, none, both, over, over, both, over
        ]
    );
}

#[test]
fn r07_r15_tr06_tr07_bodies_that_others_got_wrong() {
    check_all(&rows("more"));
}

#[test]
fn r31_a_held_back_answer_is_a_policy_outcome_streamed_or_not() {
    use routelab::wire::{Stop, collect};
    let whole = [
        (
            "openai",
            json!({"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "content_filter"}]}),
        ),
        (
            "anthropic",
            json!({"content": [], "stop_reason": "refusal"}),
        ),
        (
            "gemini",
            json!({"promptFeedback": {"blockReason": "SAFETY"}}),
        ),
        (
            "gemini",
            json!({"candidates": [{"finishReason": "SAFETY"}]}),
        ),
    ];
    for (name, body) in whole {
        let adapter = adapter(name).unwrap();
        let bytes = body.to_string();
        let response = adapter
            .parse(&Headers::default(), bytes.as_bytes())
            .unwrap();
        assert_eq!(response.stop, Stop::Filtered, "{name}");
        assert_eq!(response.stop.fault(), Some(FaultKind::ContentFilter));
    }
    let streams = [
        (
            "openai",
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\n",
        ),
        (
            "anthropic",
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        (
            "gemini",
            "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n",
        ),
    ];
    for (name, body) in streams {
        let adapter = adapter(name).unwrap();
        let (events, result) =
            crate::wire_cases::read(&*adapter, &Headers::default(), [body.as_bytes()], End::Eof);
        assert_eq!(result, Ok(()), "{name}");
        assert_eq!(collect(events).unwrap().stop, Stop::Filtered, "{name}");
    }
}

#[test]
fn an_error_in_a_stream_keeps_its_kind_and_says_whether_output_was_shown() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n";
    for (frame, kind) in [
        (
            json!({"message": "x", "type": "rate_limit_error", "code": "rate_limit_exceeded"}),
            FaultKind::RateLimit,
        ),
        (
            json!({"message": "x", "type": "insufficient_quota", "code": "credit_balance_exhausted"}),
            FaultKind::Quota,
        ),
        (json!({"message": "x", "code": 503}), FaultKind::Overloaded),
        (json!({"message": "x", "code": "429"}), FaultKind::RateLimit),
        (
            json!({"message": "x", "type": "invalid_request_error"}),
            FaultKind::InvalidRequest,
        ),
        (json!({"message": "x"}), FaultKind::Server),
        (json!("something broke"), FaultKind::Server),
    ] {
        for (before, place) in [("", Place::InStream), (text, Place::MidStream)] {
            let body = format!("{before}data: {}\n\n", json!({ "error": frame }));
            let adapter = adapter("compatible").unwrap();
            let (events, result) = crate::wire_cases::read(
                &*adapter,
                &Headers::default(),
                [body.as_bytes()],
                End::Eof,
            );
            let error = result.unwrap_err();
            assert_eq!((error.kind, error.place), (kind, place), "{body}");
            assert_eq!(error.after_output, !before.is_empty());
            assert!(
                !events
                    .iter()
                    .any(|event| matches!(event, StreamEvent::Done(_)))
            );
        }
    }
}

#[test]
fn a_200_with_an_error_object_is_an_error() {
    for name in ["openai", "anthropic", "gemini", "compatible", "ollama"] {
        let adapter = adapter(name).unwrap();
        let body = br#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let error = adapter.parse(&Headers::default(), body).unwrap_err();
        assert_eq!(
            (error.kind, error.place),
            (FaultKind::Overloaded, Place::InBody),
            "{name}"
        );
        for body in [
            &b"[]"[..],
            b"null",
            b"{}",
            b"\"x\"",
            b"<html>",
            b"",
            b"{\"a\":",
        ] {
            let error = adapter.parse(&Headers::default(), body).unwrap_err();
            assert_eq!(
                (error.kind, error.place),
                (FaultKind::Server, Place::Malformed),
                "{name}"
            );
        }
        // Deeper than any answer: a typed error, not a full stack.
        let deep = "[".repeat(100_000);
        let error = adapter
            .parse(&Headers::default(), deep.as_bytes())
            .unwrap_err();
        assert_eq!(error.place, Place::Malformed, "{name}");
    }
}

#[test]
fn er04_little_of_a_message_is_kept_and_no_page() {
    let long = json!({ "error": { "message": "é".repeat(500) } }).to_string();
    let error = classify(400, &Headers::default(), long.as_bytes(), Duration::ZERO);
    assert_eq!(error.message.chars().count(), MESSAGE_CHARS_MAX);
    let page = b"<html><body>secret</body></html>";
    let error = classify(502, &Headers::default(), page, Duration::ZERO);
    assert_eq!(error.message, "an HTML page");
    for body in [
        &b"\xff\xfe"[..],
        b"",
        b"{\"error\":",
        b"[[[[",
        b"{\"error\":[1]}",
    ] {
        let error = classify(500, &Headers::default(), body, Duration::ZERO);
        assert_eq!(error.kind, FaultKind::Server);
    }
}

#[test]
fn keys_are_not_shown() {
    let headers: Headers = [
        ("Authorization", "Bearer sk-secret"),
        ("x-goog-api-key", "g-secret"),
    ]
    .into_iter()
    .collect();
    assert!(!format!("{headers:?}").contains("secret"));
    let target = routelab::wire::Target {
        model: "m",
        key: Some("sk-secret"),
    };
    assert!(!format!("{target:?}").contains("secret"));
}
