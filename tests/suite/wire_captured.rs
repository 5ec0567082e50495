//! Raw answers of real and mock servers, and raw requests of real clients: nothing may panic, a broken
//! stream is an error, and every request is understood.

use routelab::router::FaultKind;
use routelab::units::Duration;
use routelab::wire::{Adapter, End, Message, Place, adapter, collect};
use serde_json::Value;

use crate::wire_cases::{headers, json_files, read, say, shared};

/// Which adapter reads an answer from that path.
fn reader_of(path: &str) -> Option<Box<dyn Adapter>> {
    let name = if path.contains("/chat/completions") {
        "compatible"
    } else if path.contains("/messages") {
        "anthropic"
    } else if path.contains("enerateContent") {
        "gemini"
    } else if path.contains("/api/chat") {
        "ollama"
    } else {
        return None;
    };
    adapter(name)
}

/// Streams that are broken, whatever their file is called.
const BROKEN: &[&str] = &[
    "truncated_stream",
    "fault_disconnect",
    "fault_malformed",
    "fault_truncate",
    "error_frame",
];

#[test]
fn captured_answers_are_read_and_broken_streams_are_errors() {
    let Some(folder) = shared("captured_responses") else {
        return;
    };
    let (mut streams, mut bodies, mut errors, mut broken) = (0, 0, 0, 0);
    for (name, file) in json_files(&folder) {
        let answer = &file["response"];
        let path = file["request"]["path"].as_str().unwrap();
        let Some(adapter) = reader_of(path) else {
            continue;
        };
        let Some(status) = answer["status"].as_u64() else {
            continue; // the server never answered
        };
        let body = answer["body_text"].as_str().unwrap_or_default().as_bytes();
        let head = headers(&answer["headers"]);
        if !(200..300).contains(&status) {
            let error = adapter.classify(status as u16, &head, body, Duration::ZERO);
            assert_eq!(error.place, Place::Status, "{name}");
            let expected = captured_kind(&name, status);
            assert_eq!(error.kind, expected, "{name}: {error}");
            errors += 1;
            continue;
        }
        let asked = &file["request"]["body"]["stream"];
        let is_stream = asked == &Value::Bool(true)
            || path.contains("streamGenerateContent")
            || (path.contains("/api/chat") && asked.is_null());
        if !is_stream {
            let response = adapter
                .parse(&head, body)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(
                !response.text.is_empty() || !response.tool_calls.is_empty(),
                "{name}: an empty answer"
            );
            bodies += 1;
            continue;
        }
        let end = if answer["transport_error"].is_null() {
            End::Eof
        } else {
            End::Reset
        };
        let (events, result) = read(&*adapter, &head, [body], end);
        for size in [1, 7] {
            assert_eq!(
                read(&*adapter, &head, body.chunks(size), end),
                (events.clone(), result.clone()),
                "{name}"
            );
        }
        // The mock's Gemini dialect ignores that fault: every one of its frames is whole.
        let spared = name == "llmock__gemini_stream_fault_malformed";
        if BROKEN.iter().any(|word| name.contains(word)) && !spared {
            let error = result.expect_err(&name);
            let expected = match error.place {
                Place::Transport => FaultKind::Timeout,
                _ => FaultKind::Server,
            };
            assert_eq!(error.kind, expected, "{name}");
            assert_eq!(error.place == Place::Transport, end == End::Reset, "{name}");
            assert_eq!(collect(events), None, "{name}");
            broken += 1;
        } else {
            result.unwrap_or_else(|error| panic!("{name}: {error}"));
            let response = collect(events).unwrap();
            assert!(
                !response.text.is_empty() || !response.tool_calls.is_empty(),
                "{name}: an empty answer"
            );
            streams += 1;
        }
    }
    say(&format!(
        "{streams} streams, {broken} broken ones, {bodies} bodies, {errors} errors"
    ));
    assert!(streams > 20 && broken > 8 && bodies > 20 && errors > 10);
}

/// What the errors of the captured answers are, by the name of their file.
fn captured_kind(name: &str, status: u64) -> FaultKind {
    if name.contains("err_context") {
        return FaultKind::ContextLength;
    }
    match status {
        429 => FaultKind::RateLimit,
        503 | 529 => FaultKind::Overloaded,
        _ => FaultKind::InvalidRequest,
    }
}

/// Requests for other APIs than those the adapters speak, with the reason.
const OTHER_APIS: &[(&str, &str)] = &[
    ("anthropic_py__count_tokens", "counts tokens"),
    ("google_genai_py__count_tokens", "counts tokens"),
    ("google_genai_py__interactions", "Interactions API"),
    ("openai_py__models_list", "lists models"),
    ("openai_py__responses_basic", "Responses API"),
    ("vercel_openai_default__generate_basic", "Responses API"),
    ("vercel_openai_default__stream", "Responses API"),
    ("vercel_openai_default__tools_loop", "Responses API"),
];

#[test]
fn captured_requests_of_real_clients_are_understood() {
    let Some(folder) = shared("captured_requests") else {
        return;
    };
    let (mut understood, mut exempt) = (0, 0);
    let (mut tools, mut results) = (0, 0);
    for (name, file) in json_files(&folder) {
        if OTHER_APIS.iter().any(|(other, _)| *other == name) {
            exempt += 1;
            continue;
        }
        for sent in file["requests"].as_array().unwrap() {
            let path = sent["path"].as_str().unwrap();
            if path == "/api/show" {
                continue; // a probe that LiteLLM makes on its own
            }
            let adapter = reader_of(path).unwrap_or_else(|| panic!("{name}: {path}"));
            let body = sent["body"].to_string();
            let asked = adapter
                .parse_request(path, &headers(&sent["headers"]), body.as_bytes())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!asked.model.is_empty(), "{name}");
            let wants_stream = sent["body"]["stream"] == Value::Bool(true)
                || path.contains("streamGenerateContent");
            let by_default = path == "/api/chat" && sent["body"]["stream"].is_null();
            assert_eq!(asked.stream, wants_stream || by_default, "{name}");
            let messages = &asked.request.messages;
            assert!(!messages.is_empty(), "{name}: no turns");
            tools += usize::from(!asked.request.tools.is_empty());
            for message in messages {
                match message {
                    Message::User { text } => assert!(!text.is_empty(), "{name}: silence"),
                    Message::Assistant {
                        text, tool_calls, ..
                    } => {
                        assert!(!text.is_empty() || !tool_calls.is_empty(), "{name}");
                        for call in tool_calls {
                            assert_eq!(call.name, "get_weather", "{name}");
                            assert_eq!(call.arguments["city"], "Oslo", "{name}");
                        }
                    }
                    Message::Tool {
                        call_id,
                        name: tool,
                        text,
                    } => {
                        assert_eq!(
                            (tool.as_str(), text.contains("12C")),
                            ("get_weather", true),
                            "{name}: {text}"
                        );
                        let known = messages.iter().any(|message| match message {
                            Message::Assistant { tool_calls, .. } => {
                                tool_calls.iter().any(|call| call.id == *call_id)
                            }
                            _ => false,
                        });
                        assert!(known, "{name}: a result without its call");
                        results += 1;
                    }
                }
            }
            understood += 1;
        }
    }
    assert_eq!(exempt, OTHER_APIS.len());
    say(&format!(
        "{understood} requests, {tools} with tools, {results} results"
    ));
    assert!(understood > 70 && tools > 25 && results > 12);
}
