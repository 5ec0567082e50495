//! The decoder of Server-Sent Events against `sseer`, somebody else's reading of the same standard.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use proptest::prelude::*;
use routelab::wire::sse::{Decoder, Limits};

struct Pieces(VecDeque<Vec<u8>>);

impl Stream for Pieces {
    type Item = Result<Vec<u8>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// Name and data of every event that has data.
fn theirs(pieces: &[&[u8]]) -> Vec<(String, String)> {
    let owned = pieces.iter().map(|piece| piece.to_vec()).collect();
    let mut stream = pin!(sseer::event_stream::EventStream::new(Pieces(owned)));
    let mut context = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    while let Poll::Ready(Some(event)) = stream.as_mut().poll_next(&mut context) {
        let event = event.expect("the bytes are UTF-8");
        // A browser calls an event without a name `message`.
        let name = if &*event.event == "message" {
            ""
        } else {
            &*event.event
        };
        events.push((name.to_owned(), event.data.to_string()));
    }
    events.retain(|(_, data)| !data.is_empty());
    events
}

fn ours(pieces: &[&[u8]]) -> Vec<(String, String)> {
    let mut decoder = Decoder::new(Limits::default());
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece, &mut frames).unwrap();
    }
    assert_eq!(decoder.finish(), Ok(None), "the last event is not ended");
    frames
        .into_iter()
        .map(|frame| (frame.event, frame.data))
        .collect()
}

fn body() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("data"),
        Just("data: "),
        Just("data:  "),
        Just("event:"),
        Just("event: x"),
        Just("id: 1"),
        Just("retry: 5"),
        Just("\n"),
        Just("\r"),
        Just("\r\n"),
        Just("\n\n"),
        Just("\r\n\r\n"),
        Just(":"),
        Just(" "),
        Just("x"),
        Just("你"),
        Just("🌍"),
        Just("{\"a\":1}"),
        Just("\ndata: y\n"),
        Just("[DONE]"),
    ];
    (any::<bool>(), proptest::collection::vec(token, 0..60)).prop_map(|(mark, tokens)| {
        let mark = if mark { "\u{feff}" } else { "" };
        format!("{mark}{}\n\n", tokens.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn two_readings_of_the_standard_agree(
        body in body(),
        sizes in proptest::collection::vec(1_usize..12, 1..30),
    ) {
        let mut pieces = Vec::new();
        let mut rest = body.as_bytes();
        for &size in sizes.iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, after) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(ours(&pieces), theirs(&pieces));
    }
}
