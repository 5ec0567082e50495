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
        check_order(&whole.0, whole.1.is_ok());
    }
}

/// The contract of a stream: calls start before their arguments, and there is one `Done`, at the end.
fn check_order(events: &[StreamEvent], is_ok: bool) {
    let mut started = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            StreamEvent::Text(text) | StreamEvent::Reasoning(text) => assert!(!text.is_empty()),
            StreamEvent::ToolStart { index, id, .. } => {
                assert!(!id.is_empty());
                assert!(!started.contains(index), "started twice: {events:?}");
                started.push(*index);
            }
            StreamEvent::ToolArgs { index, .. } => {
                assert!(started.contains(index), "not started: {events:?}");
            }
            StreamEvent::Done(_) => assert_eq!(at, events.len() - 1),
        }
    }
    let done = matches!(events.last(), Some(StreamEvent::Done(_)));
    assert_eq!(done, is_ok);
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
