//! Bytes that nobody should send: nothing panics, memory stays bounded, failures have a type.

use proptest::prelude::*;
use routelab::router::FaultKind;
use routelab::units::Duration;
use routelab::wire::{
    ADAPTERS, Adapter, Answer, BODY_BYTES_MAX, End, Headers, Message, Place, Request, Response,
    Stop, StreamEvent, TOOL_CALLS_MAX, Target, ToolCall, adapter, collect,
};
use serde_json::{Value, json};

use crate::wire_cases::read;
use crate::wire_fuzz::bodies::check;

/// Everything an adapter reads, on the same bytes.
fn read_all(adapter: &dyn Adapter, bytes: &[u8]) {
    let headers: Headers = [("anthropic-version", "2023-06-01")].into_iter().collect();
    let _ = adapter.parse(&headers, bytes);
    let _ = adapter.parse_request("/v1beta/models/m:generateContent", &headers, bytes);
    for status in [400, 429, 500] {
        let error = adapter.classify(status, &headers, bytes, Duration::ZERO);
        assert_eq!(error.status, Some(status));
    }
    for end in [End::Eof, End::Reset] {
        let whole = read(adapter, &headers, [bytes], end);
        let single = read(adapter, &headers, bytes.chunks(1), end);
        assert_eq!(whole, single, "the cuts matter");
        check(&whole.0, &whole.1);
    }
}

/// A sound answer, request or error of an adapter, for spoiling.
fn sound(adapter: &dyn Adapter, which: usize) -> Vec<u8> {
    let response = Response {
        text: "Hi you".into(),
        reasoning: "Hm".into(),
        tool_calls: vec![
            ToolCall::new("a", "f", "{\"k\":1}"),
            ToolCall::new("b", "g", "{\"l\":[1,2]}"),
        ],
        stop: Stop::ToolCalls,
        ..Response::default()
    };
    let answer = Answer {
        response: &response,
        id: "r",
        model: "m",
    };
    let request = Request {
        system: "s".into(),
        messages: vec![
            Message::user("q"),
            Message::answer(&response),
            Message::result(&response.tool_calls[0], "1"),
        ],
        ..Request::default()
    };
    let target = Target {
        model: "m",
        key: None,
    };
    match which % 4 {
        0 => adapter.render(&answer).pieces.concat(),
        1 => adapter.render_stream(&answer).pieces.concat(),
        2 => adapter.build(&request, &target, true).body,
        _ => {
            let kind = FaultKind::ALL[which % FaultKind::ALL.len()];
            adapter.render_fault(kind, "x").1.to_string().into_bytes()
        }
    }
}

/// Replaces the value number `at` (in reading order) by something else.
fn spoil(value: &mut Value, at: &mut usize, by: &Value) {
    if *at == 0 {
        *value = by.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| spoil(item, at, by)),
        Value::Object(object) => object.values_mut().for_each(|item| spoil(item, at, by)),
        _ => {}
    }
}

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        Just(json!(-1)),
        Just(json!(1e300)),
        Just(json!(u64::MAX)),
        Just(json!("")),
        Just(json!("x")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([null, 1, "a", {}])),
        Just(json!({"error": {"code": [], "message": 1, "details": [null, {"violations": 3}]}})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_bytes_panic_any_parser(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for kind in ADAPTERS {
            read_all(&*(kind.make)(), &bytes);
        }
    }

    #[test]
    fn no_damage_to_sound_bytes_panics(
        which in 0_usize..40,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        for kind in ADAPTERS {
            let adapter = (kind.make)();
            let mut bytes = sound(&*adapter, which);
            for (at, byte) in &flips {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            read_all(&*adapter, &bytes);
            bytes.truncate(cut.index(bytes.len()));
            read_all(&*adapter, &bytes);
        }
    }

    #[test]
    fn no_odd_value_in_a_sound_place_panics(
        which in 0_usize..40,
        at in 0_usize..60,
        by in odd_value(),
    ) {
        for kind in ADAPTERS {
            let adapter = (kind.make)();
            let bytes = sound(&*adapter, which);
            if let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) {
                spoil(&mut value, &mut at.clone(), &by);
                read_all(&*adapter, value.to_string().as_bytes());
                // The same as a frame of a stream.
                read_all(&*adapter, format!("data: {value}\n\n").as_bytes());
                continue;
            }
            let text = String::from_utf8(bytes).unwrap();
            let mut left = at;
            let spoiled: Vec<String> = text.lines().map(|line| {
                let json = line.strip_prefix("data: ").unwrap_or(line);
                let Ok(mut value) = serde_json::from_str::<Value>(json) else {
                    return line.to_owned();
                };
                if left < usize::MAX / 2 {
                    spoil(&mut value, &mut left, &by);
                }
                line.replace(json, &value.to_string())
            }).collect();
            read_all(&*adapter, (spoiled.join("\n") + "\n").as_bytes());
        }
    }
}

#[test]
fn bodies_over_the_limit_are_typed_errors() {
    let huge = vec![b' '; BODY_BYTES_MAX + 1];
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        let error = adapter.parse(&Headers::default(), &huge).unwrap_err();
        assert_eq!(error.place, Place::TooLarge, "{}", kind.name);
        let headers: Headers = [("anthropic-version", "2023-06-01")].into_iter().collect();
        let path = "/v1/models/m:generateContent";
        let error = adapter.parse_request(path, &headers, &huge).unwrap_err();
        assert_eq!(error.status, Some(413), "{}", kind.name);
    }
}

#[test]
fn lines_and_documents_without_end_are_typed_errors() {
    for (name, start) in [
        ("openai", "data: {\"a\":\""),
        ("openai", "{\"choices\":[\""),
        ("gemini", "[{\"a\":\""),
        ("anthropic", "event: "),
        ("ollama", "{\"model\":\""),
    ] {
        let adapter = adapter(name).unwrap();
        let mut parser = adapter.stream(&Headers::default());
        let mut events = Vec::new();
        let mut result = parser.push(start.as_bytes(), &mut events);
        let piece = vec![b'x'; 1 << 20];
        let mut pushed = 0;
        while result.is_ok() && pushed < 2 * BODY_BYTES_MAX {
            result = parser.push(&piece, &mut events);
            pushed += piece.len();
        }
        let error = result.expect_err(name);
        assert_eq!(
            (error.place, error.kind),
            (Place::TooLarge, FaultKind::Server),
            "{name}"
        );
        // It stays failed.
        assert_eq!(
            parser.push(b"data: [DONE]\n\n", &mut events),
            Err(error.clone())
        );
        assert_eq!(parser.finish(End::Eof, &mut events), Err(error));
        assert!(events.is_empty());
    }
}

#[test]
fn calls_without_end_are_a_typed_error() {
    let adapter = adapter("compatible").unwrap();
    let mut parser = adapter.stream(&Headers::default());
    let mut events = Vec::new();
    let mut result = Ok(());
    for number in 0..=TOOL_CALLS_MAX {
        let call = json!({"index": number, "id": format!("c{number}"), "function": {"name": "f"}});
        let chunk = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
        result = parser.push(format!("data: {chunk}\n\n").as_bytes(), &mut events);
    }
    assert_eq!(result.unwrap_err().place, Place::TooLarge);
    assert_eq!(events.len(), TOOL_CALLS_MAX);
}

#[test]
fn nothing_after_the_end_is_read() {
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\ndata: {\"error\":{\"message\":\"late\"}}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"!\"}}]}\n\n";
    let adapter = adapter("openai").unwrap();
    for size in [1, 7, body.len()] {
        let (events, result) = read(
            &*adapter,
            &Headers::default(),
            body.as_bytes().chunks(size),
            End::Eof,
        );
        assert_eq!(result, Ok(()));
        assert_eq!(collect(events).unwrap().text, "Hi");
    }
}

/// Pushes `piece` until the parser has had enough, at most `times` times.
fn flood(
    name: &str,
    start: &[u8],
    piece: &[u8],
    times: usize,
) -> (Vec<StreamEvent>, usize, Result<(), routelab::wire::Error>) {
    let adapter = adapter(name).unwrap();
    let mut parser = adapter.stream(&Headers::default());
    let (mut handed_out, mut bytes) = (Vec::new(), 0);
    let mut result = parser.push(start, &mut handed_out);
    let mut events = Vec::new();
    for _ in 0..times {
        if result.is_err() {
            break;
        }
        result = parser.push(piece, &mut events);
        // The caller looks at the pieces and keeps their number only.
        for event in events.drain(..) {
            match event {
                StreamEvent::Text(text) | StreamEvent::ToolArgs { text, .. } => bytes += text.len(),
                other => handed_out.push(other),
            }
        }
    }
    (handed_out, bytes, result)
}

#[test]
fn an_answer_without_end_is_stopped_at_the_documented_total() {
    use routelab::wire::STREAM_BYTES_MAX;
    let word = "word ".repeat(20_000);
    let cases = [
        (
            "openai",
            format!(
                "data: {}\n\n",
                json!({"choices": [{"index": 0, "delta": {"content": word}}]})
            ),
        ),
        (
            "gemini",
            format!(
                "data: {}\n\n",
                json!({"candidates": [{"content": {"parts": [{"text": word}]}}]})
            ),
        ),
        (
            "anthropic",
            format!(
                "data: {}\n\n",
                json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": word}})
            ),
        ),
        (
            "ollama",
            format!("{}\n", json!({"message": {"content": word}, "done": false})),
        ),
    ];
    for (name, frame) in cases {
        let (_, bytes, result) = flood(name, b"", frame.as_bytes(), 2_000);
        let error = result.expect_err(name);
        assert_eq!(
            (error.place, error.after_output),
            (Place::TooLarge, true),
            "{name}"
        );
        assert!(
            bytes <= STREAM_BYTES_MAX && bytes > STREAM_BYTES_MAX / 2,
            "{name}: {bytes}"
        );
    }
}

#[test]
fn comments_and_empty_events_without_end_hold_nothing() {
    let piece = [
        ": keep-alive\n\n",
        "event: ping\n\n",
        "data:\n\n",
        "id: 1\nretry: 5\n\n",
    ]
    .concat()
    .repeat(1_000);
    for name in ["openai", "anthropic", "gemini", "compatible"] {
        // More bytes than any limit, so that nothing of them can have been counted or kept.
        let times = 2 * routelab::wire::STREAM_BYTES_MAX / piece.len();
        let (events, bytes, result) = flood(name, b"", piece.as_bytes(), times.min(500));
        assert_eq!((events.len(), bytes, result), (0, 0, Ok(())), "{name}");
    }
}

#[test]
fn a_million_empty_calls_are_a_typed_error_streamed_or_not() {
    let calls = |call: &str| vec![call; 1_000_000].join(",");
    for (name, body) in [
        (
            "openai",
            format!(
                "{{\"choices\":[{{\"message\":{{\"tool_calls\":[{}]}}}}]}}",
                calls("{\"function\":{}}")
            ),
        ),
        (
            "anthropic",
            format!("{{\"content\":[{}]}}", calls("{\"type\":\"tool_use\"}")),
        ),
        (
            "gemini",
            format!(
                "{{\"candidates\":[{{\"content\":{{\"parts\":[{}]}}}}]}}",
                calls("{\"functionCall\":{}}")
            ),
        ),
        (
            "ollama",
            format!(
                "{{\"message\":{{\"tool_calls\":[{}]}},\"done\":true}}",
                calls("{\"function\":{}}")
            ),
        ),
    ] {
        let adapter = adapter(name).unwrap();
        let error = adapter
            .parse(&Headers::default(), body.as_bytes())
            .unwrap_err();
        assert_eq!(error.place, Place::TooLarge, "{name}");
    }
    for (name, frame) in [
        (
            "openai",
            json!({"choices": [{"delta": {"tool_calls": [{"function": {"name": "f"}, "id": "@"}]}}]}),
        ),
        (
            "gemini",
            json!({"candidates": [{"content": {"parts": [{"functionCall": {}}]}}]}),
        ),
        (
            "anthropic",
            json!({"type": "content_block_start", "content_block": {"type": "tool_use"}}),
        ),
    ] {
        let frames: String = (0..2 * TOOL_CALLS_MAX)
            .map(|n| {
                format!(
                    "data: {}\n\n",
                    frame.to_string().replace('@', &n.to_string())
                )
            })
            .collect();
        let (_, _, result) = flood(name, b"", frames.as_bytes(), 1);
        assert_eq!(result.unwrap_err().place, Place::TooLarge, "{name}");
    }
}

#[test]
fn huge_and_odd_indices_are_numbers_like_any_other() {
    let frames: String = [json!(u64::MAX), json!(-1), json!(1e300), json!("7"), json!(null), json!(u64::MAX)]
        .iter()
        .enumerate()
        .map(|(n, index)| {
            let call = json!({"index": index, "id": format!("c{n}"), "function": {"name": "f", "arguments": "{}"}});
            format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}))
        })
        .chain(["data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n".to_owned()])
        .collect();
    let adapter = adapter("compatible").unwrap();
    let (events, result) = read(
        &*adapter,
        &Headers::default(),
        [frames.as_bytes()],
        End::Eof,
    );
    assert_eq!(result, Ok(()));
    assert_eq!(collect(events).unwrap().tool_calls.len(), 6);
    let blocks: String = (0..3)
        .map(|_| json!({"type": "content_block_start", "index": u64::MAX, "content_block": {"type": "tool_use", "name": "f"}}))
        .chain([json!({"type": "content_block_start", "content_block": {"type": "tool_use", "name": "f"}}), json!({"type": "message_stop"})])
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let adapter = routelab::wire::adapter("anthropic").unwrap();
    let (events, result) = read(
        &*adapter,
        &Headers::default(),
        [blocks.as_bytes()],
        End::Eof,
    );
    assert_eq!(result, Ok(()));
    assert_eq!(collect(events).unwrap().tool_calls.len(), 4);
}

#[test]
fn depth_is_an_error_or_passed_over_but_never_a_full_stack() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let deep = deep(10_000);
    let headers: Headers = [("anthropic-version", "2026-10-21")].into_iter().collect();
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        for body in [
            deep.clone(),
            format!("{{\"messages\":{deep},\"contents\":{deep}}}"),
        ] {
            let path = "/v1/models/m:generateContent";
            let error = adapter
                .parse_request(path, &headers, body.as_bytes())
                .unwrap_err();
            assert_eq!(error.status, Some(400), "{}", kind.name);
            let error = adapter.parse(&headers, body.as_bytes()).unwrap_err();
            assert_eq!(error.place, Place::Malformed, "{}", kind.name);
            for frame in [format!("data: {body}\n\n"), format!("{body}\n")] {
                let (events, result) = read(&*adapter, &headers, [frame.as_bytes()], End::Eof);
                assert!(result.is_err() && events.is_empty(), "{}", kind.name);
            }
        }
        let error = adapter.classify(400, &headers, deep.as_bytes(), Duration::ZERO);
        assert_eq!(error.kind, FaultKind::InvalidRequest);
    }
    // Arguments are the model's own text: what cannot be read is kept and marked.
    let call = ToolCall::new("i", "f", format!("{{\"a\":{deep}}}"));
    assert!(call.is_malformed());
}

#[test]
fn a_body_of_the_allowed_size_cannot_become_a_tree_of_any_size() {
    let many = format!("{{\"choices\":[{}0]}}", "0,".repeat(2 << 20));
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        let error = adapter
            .parse(&Headers::default(), many.as_bytes())
            .unwrap_err();
        assert!(
            matches!(error.place, Place::TooLarge | Place::Malformed),
            "{}",
            kind.name
        );
    }
    assert!(ToolCall::new("i", "f", many).is_malformed());
}
