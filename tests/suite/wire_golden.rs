//! Golden streams, from reports of faults and from real servers, with every line ending and cut at every
//! byte; characters that are cut; faults of other routers that are a matter of the wire alone.

use routelab::router::FaultKind;
use routelab::units::Duration;
use routelab::wire::{
    Adapter, Answer, End, Headers, Place, Response, Stop, StreamEvent, ToolCall, adapter, classify,
    collect,
};
use serde_json::{Value, json};

use crate::wire_cases::{base64, headers, json_files, read, say, shared};

/// A golden stream: name, adapter, headers, bytes, how it ended.
type Golden = (String, Box<dyn Adapter>, Headers, Vec<u8>, End);

fn golden() -> Vec<Golden> {
    let mut all: Vec<Golden> = Vec::new();
    if let Some(folder) = shared("cases") {
        for (name, case) in json_files(&folder) {
            let kind = match case["dialect"].as_str() {
                Some("openai-chat") => "compatible",
                Some("anthropic-messages") => "anthropic",
                Some("gemini-generate-content") => "gemini",
                Some("ollama-chat") => "ollama",
                _ => continue,
            };
            let input = &case["input"];
            let Some(pieces) = input["pieces"]
                .as_array()
                .filter(|_| case["kind"] == "stream")
            else {
                continue;
            };
            let bytes = pieces.iter().flat_map(|piece| match piece {
                Value::String(text) => text.clone().into_bytes(),
                object => base64(object["b64"].as_str().unwrap()),
            });
            let end = match input["end"].as_str() {
                Some("reset") => End::Reset,
                _ => End::Eof,
            };
            let adapter = adapter(kind).unwrap();
            all.push((
                name,
                adapter,
                headers(&input["headers"]),
                bytes.collect(),
                end,
            ));
        }
    }
    if let Some(folder) = shared("captured_responses") {
        for (name, file) in json_files(&folder) {
            let path = file["request"]["path"].as_str().unwrap();
            let kind = match path {
                path if path.contains("/chat/completions") => "compatible",
                path if path.contains("/messages") => "anthropic",
                path if path.contains("enerateContent") => "gemini",
                path if path.contains("/api/chat") => "ollama",
                _ => continue,
            };
            let answer = &file["response"];
            let body = answer["body_text"].as_str().unwrap_or_default();
            if answer["status"] != 200 || body.is_empty() {
                continue;
            }
            let end = match answer["transport_error"].is_null() {
                true => End::Eof,
                false => End::Reset,
            };
            let adapter = adapter(kind).unwrap();
            let head = headers(&answer["headers"]);
            all.push((name, adapter, head, body.as_bytes().to_vec(), end));
        }
    }
    all
}

/// The bytes with every line ending replaced.
fn with_ending(bytes: &[u8], ending: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() * 2);
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\r' => {
                at += usize::from(bytes.get(at + 1) == Some(&b'\n'));
                out.extend_from_slice(ending);
            }
            b'\n' => out.extend_from_slice(ending),
            byte => out.push(byte),
        }
        at += 1;
    }
    out
}

#[test]
fn golden_streams_cut_at_every_byte_with_any_line_ending_give_the_same_events() {
    let (mut streams, mut cuts) = (0, 0_usize);
    for (name, adapter, head, bytes, end) in golden() {
        // JSON documents have no lines, and in lines of JSON a CR is white space, not an ending.
        let sse = bytes.windows(5).any(|five| five == b"data:");
        let endings: &[&[u8]] = match sse {
            true => &[b"\n", b"\r\n", b"\r"],
            false if adapter.name() == "ollama" => &[b"\n", b"\r\n"],
            false => &[b"\n"],
        };
        let expected = read(&*adapter, &head, [&with_ending(&bytes, b"\n")[..]], end);
        let original = read(&*adapter, &head, [&bytes[..]], end);
        assert_eq!(original, expected, "{name}");
        for ending in endings {
            let body = with_ending(&bytes, ending);
            let singly = read(&*adapter, &head, body.chunks(1), end);
            assert_eq!(singly, expected, "{name} {ending:?}, byte by byte");
            for cut in 0..=body.len() {
                let (a, b) = body.split_at(cut);
                let got = read(&*adapter, &head, [a, b], end);
                assert_eq!(got, expected, "{name} {ending:?} at {cut}");
                cuts += 1;
            }
        }
        streams += 1;
    }
    say(&format!("{streams} golden streams, {cuts} cuts"));
}

#[test]
fn r27_a_character_cut_between_reads_arrives_whole() {
    let response = Response {
        text: "你好 🌍👩‍👩‍👧 naïve".into(),
        tool_calls: vec![ToolCall::new("a", "f", "{\"城市\":\"奥斯陆 🇳🇴\"}")],
        stop: Stop::ToolCalls,
        ..Response::default()
    };
    let answer = Answer {
        response: &response,
        id: "r",
        model: "m",
    };
    for name in ["openai", "anthropic", "gemini", "compatible", "ollama"] {
        let adapter = adapter(name).unwrap();
        let reply = adapter.render_stream(&answer);
        let body = reply.pieces.concat();
        for cut in 0..=body.len() {
            let (a, b) = body.split_at(cut);
            let (events, result) = read(&*adapter, &reply.headers, [a, b], End::Eof);
            assert_eq!(result, Ok(()), "{name} at {cut}");
            let got = collect(events).unwrap();
            assert_eq!(got.text, response.text, "{name} at {cut}");
            let arguments = &got.tool_calls[0].arguments;
            assert_eq!(
                *arguments, response.tool_calls[0].arguments,
                "{name} at {cut}"
            );
            assert!(!format!("{got:?}").contains('\u{fffd}'));
        }
    }
}

#[test]
fn r27_a_byte_that_is_no_character_is_one_replacement_however_it_is_cut() {
    let body = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xffb\"},\"finish_reason\":\"stop\"}]}\n\n";
    let adapter = adapter("openai").unwrap();
    for cut in 0..=body.len() {
        let (a, b) = body.split_at(cut);
        let (events, result) = read(&*adapter, &Headers::default(), [a, b], End::Eof);
        assert_eq!(result, Ok(()));
        assert_eq!(collect(events).unwrap().text, "a\u{fffd}b", "at {cut}");
    }
}

/// Frames of Chat Completions with these fragments of calls.
fn call_frames(fragments: &[Value]) -> String {
    let mut body: String = fragments
        .iter()
        .map(|call| {
            let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
            format!("data: {delta}\n\n")
        })
        .collect();
    body.push_str(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n",
    );
    body
}

#[test]
fn r21_interleaved_and_unnumbered_fragments_go_to_their_calls() {
    let interleaved = [
        json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}),
        json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}}),
        json!({"index": 0, "function": {"arguments": "{\"x\":"}}),
        json!({"index": 1, "function": {"arguments": "{\"y\":"}}),
        json!({"index": 0, "function": {"arguments": "1}"}}),
        json!({"index": 1, "function": {"arguments": "2}"}}),
    ];
    let unnumbered = [
        json!({"id": "a", "function": {"name": "f", "arguments": "{\"x\":"}}),
        json!({"function": {"arguments": "1}"}}),
        json!({"id": "b", "function": {"name": "g", "arguments": "{\"y\":2"}}),
        json!({"function": {"arguments": "}"}}),
    ];
    for fragments in [&interleaved[..], &unnumbered[..]] {
        for name in ["openai", "compatible"] {
            let body = call_frames(fragments);
            let adapter = adapter(name).unwrap();
            let (events, result) =
                read(&*adapter, &Headers::default(), [body.as_bytes()], End::Eof);
            assert_eq!(result, Ok(()));
            let calls = collect(events).unwrap().tool_calls;
            let got: Vec<_> = calls
                .iter()
                .map(|call| (call.id.as_str(), call.name.as_str(), call.raw.as_str()))
                .collect();
            let expected = [("a", "f", "{\"x\":1}"), ("b", "g", "{\"y\":2}")];
            assert_eq!(got, expected, "{name}");
        }
    }
}

#[test]
fn a_block_without_an_index_is_not_the_first_block() {
    let start = |id: &str, name: &str| json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}});
    let piece = |text: &str| json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": text}});
    let stop = json!({"type": "content_block_stop"});
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    // With no ids either, nothing but the blocks tells the calls apart.
    for ids in [["a", "b"], ["", ""]] {
        // Indices left out, or zero for every block.
        for index in [None, Some(0)] {
            let events = [
                start(ids[0], "f"),
                piece("{\"x\":"),
                piece("1}"),
                stop.clone(),
                start(ids[1], "f"),
                piece("{\"y\":2}"),
                stop.clone(),
            ];
            let body: String = events
                .into_iter()
                .map(|mut event| {
                    if let Some(index) = index {
                        event["index"] = index.into();
                    }
                    event
                })
                .chain(end.clone())
                .map(|event| format!("data: {event}\n\n"))
                .collect();
            let adapter = adapter("anthropic").unwrap();
            let (events, result) =
                read(&*adapter, &Headers::default(), [body.as_bytes()], End::Eof);
            assert_eq!(result, Ok(()));
            let calls = collect(events).unwrap().tool_calls;
            let raw: Vec<&str> = calls.iter().map(|call| call.raw.as_str()).collect();
            assert_eq!(raw, ["{\"x\":1}", "{\"y\":2}"], "{ids:?} {index:?}");
            assert_ne!(calls[0].id, calls[1].id);
        }
    }
}

#[test]
fn tr05_every_spelling_of_a_wait_is_read_as_it_is() {
    let wall = Duration::from_secs(784_111_777); // 1994-11-06 08:49:37
    for (name, value, seconds) in [
        ("retry-after", "2", Some(2.0)),
        ("retry-after", "1.5", Some(1.5)),
        ("Retry-After-Ms", "250", Some(0.25)),
        ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT", Some(30.0)),
        ("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT", Some(0.0)),
        ("retry-after", "soon", None),
        ("retry-after", "", None),
        // A wait longer than any cap is handed on as it is: whoever retries compares it.
        ("retry-after", "3600", Some(3600.0)),
    ] {
        let headers: Headers = [(name, value)].into_iter().collect();
        let error = classify(429, &headers, b"{}", wall);
        let expected = seconds.map(Duration::from_secs_f64);
        assert_eq!(error.retry_after, expected, "{name}: {value}");
    }
}

#[test]
fn tr06_geminis_wait_and_daily_quota_are_read_from_the_details() {
    let body = |details: Value| {
        json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": details}})
            .to_string()
    };
    let gemini = adapter("gemini").unwrap();
    let read = |details| {
        let error = gemini.classify(
            429,
            &Headers::default(),
            body(details).as_bytes(),
            Duration::ZERO,
        );
        (error.kind, error.retry_after)
    };
    let wait = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.4s"});
    assert_eq!(
        read(json!([wait])),
        (FaultKind::RateLimit, Some(Duration::from_secs_f64(34.4)))
    );
    let daily = json!({"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]});
    assert_eq!(read(json!([daily])).0, FaultKind::Quota);
}

#[test]
fn tr07_a_window_that_is_full_is_told_from_a_parameter_that_is_wrong() {
    let kind = |status, message: &str| {
        let body = json!({"error": {"message": message}}).to_string();
        classify(status, &Headers::default(), body.as_bytes(), Duration::ZERO).kind
    };
    assert_ne!(
        kind(400, "max_tokens is too long"),
        FaultKind::ContextLength
    );
    let full = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
    for status in [400, 413, 422] {
        assert_eq!(kind(status, full), FaultKind::ContextLength);
    }
}

#[test]
fn tr17_a_filter_is_the_same_streamed_or_not() {
    let body = json!({"choices": [{"index": 0, "message": {"content": "Half"}, "delta": {"content": "Half"}, "finish_reason": "content_filter"}]});
    let adapter = adapter("openai").unwrap();
    let whole = adapter
        .parse(&Headers::default(), body.to_string().as_bytes())
        .unwrap();
    let frames = format!("data: {body}\n\ndata: [DONE]\n\n");
    let (events, result) = read(
        &*adapter,
        &Headers::default(),
        [frames.as_bytes()],
        End::Eof,
    );
    assert_eq!(result, Ok(()));
    assert_eq!(events[0], StreamEvent::Text("Half".into()));
    let streamed = collect(events).unwrap();
    assert_eq!(whole, streamed);
    assert_eq!(streamed.stop.fault(), Some(FaultKind::ContentFilter));
}

#[test]
fn r03_a_stream_without_its_end_is_an_error_on_every_vendor() {
    let word = |n: usize| format!("word{n} ");
    for (name, frame) in [
        (
            "openai",
            json!({"choices": [{"index": 0, "delta": {"content": "@"}}]}),
        ),
        (
            "anthropic",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "@"}}),
        ),
        (
            "gemini",
            json!({"candidates": [{"content": {"parts": [{"text": "@"}]}}]}),
        ),
    ] {
        let body: String = (0..40)
            .map(|n| format!("data: {}\n\n", frame.to_string().replace('@', &word(n))))
            .collect();
        let adapter = adapter(name).unwrap();
        let (events, result) = read(&*adapter, &Headers::default(), [body.as_bytes()], End::Eof);
        assert_eq!(events.len(), 40, "{name}");
        let error = result.unwrap_err();
        assert_eq!(
            (error.kind, error.place, error.after_output),
            (FaultKind::Server, Place::TruncatedStream, true),
            "{name}"
        );
        assert_eq!(collect(events), None);
    }
}
