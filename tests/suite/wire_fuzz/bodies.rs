//! What must hold of every parser on any bytes: one function per fuzz target. The fuzzer in `fuzz/` runs
//! them, and so do the property tests of this suite, which need no fuzzer.

use routelab::units::Duration;
use routelab::wire::sse::{Decoder, Limits};
use routelab::wire::{
    ADAPTERS, Adapter, End, Error, Headers, Place, StreamEvent, Target, adapter, collect,
};

/// The sizes of the pieces that `bytes` are cut into, from the bytes themselves.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let (mut rest, mut state) = (bytes, bytes.len());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + state % 13).min(rest.len()));
        state = state.wrapping_mul(31).wrapping_add(usize::from(piece[0]));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Frames do not depend on how the bytes are cut, and limits are kept.
pub(crate) fn sse(bytes: &[u8]) {
    let read = |pieces: &[&[u8]], limits| {
        let mut decoder = Decoder::new(limits);
        let mut frames = Vec::new();
        for piece in pieces {
            if let Err(error) = decoder.push(piece, &mut frames) {
                return (frames, Err(error));
            }
        }
        let last = decoder.finish();
        (frames, last)
    };
    let small = Limits {
        line_bytes: 40,
        event_bytes: 60,
    };
    for limits in [Limits::default(), small] {
        let whole = read(&[bytes], limits);
        assert_eq!(whole, read(&pieces(bytes), limits), "the cuts matter");
        for frame in &whole.0 {
            assert!(frame.data.len() <= limits.event_bytes * 3, "over the limit");
        }
    }
}

/// A stream of the adapter of this name.
pub(crate) fn stream(name: &str, bytes: &[u8]) {
    let adapter = adapter(name).expect("a known adapter");
    let _ = adapter.parse(&Headers::default(), bytes);
    for end in [End::Eof, End::Reset] {
        let whole = read(&*adapter, &[bytes], end);
        assert_eq!(
            whole,
            read(&*adapter, &pieces(bytes), end),
            "the cuts matter"
        );
        check(&whole.0, &whole.1);
    }
}

fn read(
    adapter: &dyn Adapter,
    pieces: &[&[u8]],
    end: End,
) -> (Vec<StreamEvent>, Result<(), Error>) {
    let mut parser = adapter.stream(&Headers::default());
    let mut events = Vec::new();
    let mut result = Ok(());
    for piece in pieces {
        result = parser.push(piece, &mut events);
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() {
        result = parser.finish(end, &mut events);
    }
    // What is over stays over, and hands out nothing more.
    let before = events.len();
    assert_eq!(parser.push(b"data: {}\n\n{}\n", &mut events), result);
    assert_eq!(parser.finish(End::Eof, &mut events), result);
    assert_eq!(events.len(), before, "events after the end");
    (events, result)
}

/// The contract of a stream: nothing is empty, calls start before their arguments, there is one `Done`
/// exactly if it went well, at the end, and `collect` adds up what was handed out.
pub(crate) fn check(events: &[StreamEvent], result: &Result<(), Error>) {
    let mut started = Vec::new();
    let mut arguments: Vec<String> = Vec::new();
    let (mut text, mut reasoning) = (String::new(), String::new());
    for (at, event) in events.iter().enumerate() {
        match event {
            StreamEvent::Text(piece) => {
                assert!(!piece.is_empty());
                text.push_str(piece);
            }
            StreamEvent::Reasoning(piece) => {
                assert!(!piece.is_empty());
                reasoning.push_str(piece);
            }
            StreamEvent::ToolStart {
                index, id, name, ..
            } => {
                assert!(!id.is_empty());
                assert!(
                    !started.iter().any(|(known, _)| known == index),
                    "started twice: {events:?}"
                );
                started.push((*index, name.clone()));
                arguments.push(String::new());
            }
            StreamEvent::ToolArgs { index, text } => {
                let call = started.iter().position(|(known, _)| known == index);
                arguments[call.expect("arguments of a call that has not started")].push_str(text);
            }
            StreamEvent::Done(_) => assert_eq!(at, events.len() - 1, "events after Done"),
        }
    }
    let response = collect(events.iter().cloned());
    assert_eq!(response.is_some(), result.is_ok());
    if let Err(error) = result {
        assert_eq!(error.after_output, !events.is_empty());
        assert_ne!(error.place, Place::Status);
    }
    let Some(response) = response else { return };
    assert_eq!((response.text, response.reasoning), (text, reasoning));
    started.sort();
    let names: Vec<String> = started.into_iter().map(|(_, name)| name).collect();
    let called: Vec<String> = response
        .tool_calls
        .into_iter()
        .map(|call| call.name)
        .collect();
    assert_eq!(called, names);
}

/// An error body under any status: the first two bytes are the status.
pub(crate) fn classify(bytes: &[u8]) {
    let (status, body) = match bytes {
        [high, low, body @ ..] => (u16::from_be_bytes([*high, *low]), body),
        short => (500, short),
    };
    let headers: Headers = [(
        "retry-after",
        String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned(),
    )]
    .into_iter()
    .collect();
    let error = routelab::wire::classify(status, &headers, body, Duration::from_secs(1 << 30));
    assert_eq!((error.status, error.place), (Some(status), Place::Status));
    assert!(error.message.chars().count() <= routelab::wire::MESSAGE_CHARS_MAX);
    assert!(!error.after_output);
}

/// A request at every serving end. What is read can be sent on by every adapter.
pub(crate) fn parse_request(bytes: &[u8]) {
    let target = Target {
        model: "m",
        key: None,
    };
    for version in ["2023-06-01", "2026-10-21"] {
        let headers: Headers = [("anthropic-version", version)].into_iter().collect();
        for kind in ADAPTERS {
            let path = "/v1beta/models/m:generateContent";
            match (kind.make)().parse_request(path, &headers, bytes) {
                Ok(asked) => {
                    assert!(!asked.model.is_empty());
                    for other in ADAPTERS {
                        let built = (other.make)().build(&asked.request, &target, asked.stream);
                        let body = serde_json::from_slice::<serde::de::IgnoredAny>(&built.body);
                        assert!(body.is_ok(), "{}", other.name);
                    }
                }
                Err(error) => assert!(matches!(error.status, Some(400 | 413))),
            }
        }
    }
}
