//! One attempt as its bytes arrive: status, headers, body, and the limits on how long each may take.
//!
//! It reads no clock and no socket. A driver tells it what came and when, and asks
//! [`Exchange::next_limit`] how long it may wait for more. The same object reads answers from real
//! sockets, from stand-ins in this process, and from recordings.

use super::error::{Error, Place};
use super::stream::{BODY_BYTES_MAX, End, StreamParser};
use super::types::StreamEvent;
use super::{Adapter, Headers};
use crate::router::{FaultKind, Limits};
use crate::units::{Duration, Instant};

/// Most bytes kept of the body of an error.
pub const ERROR_BYTES_MAX: usize = 1 << 20;

enum Body {
    /// The status has not come yet.
    Awaited,
    /// Not 2xx.
    Refusal { status: u16, bytes: Vec<u8> },
    /// An answer sent at once.
    Whole(Vec<u8>),
    /// An answer in pieces.
    Stream(Box<dyn StreamParser + Send>),
    /// The last event or an error has been handed out.
    Over,
}

/// One attempt being read.
pub struct Exchange {
    streamed: bool,
    limits: Limits,
    started: Instant,
    /// When the last content came.
    content_at: Option<Instant>,
    headers: Headers,
    body: Body,
}

impl Exchange {
    /// An attempt whose request was sent at `started`. `streamed` says whether a stream was asked for:
    /// of an answer sent at once nobody can tell when its first token came, so only
    /// [`Limits::attempt`] holds.
    #[must_use]
    pub fn new(streamed: bool, limits: Limits, started: Instant) -> Self {
        Self {
            streamed,
            limits,
            started,
            content_at: None,
            headers: Headers::default(),
            body: Body::Awaited,
        }
    }

    /// Status and headers have come.
    pub fn head(&mut self, adapter: &dyn Adapter, status: u16, headers: Headers) {
        self.headers = headers;
        self.body = if !(200..300).contains(&status) {
            Body::Refusal {
                status,
                bytes: Vec::new(),
            }
        } else if self.streamed {
            Body::Stream(adapter.stream(&self.headers))
        } else {
            Body::Whole(Vec::new())
        };
    }

    /// Bytes of the body came at `now`. What they complete is appended to `events`; after
    /// [`StreamEvent::Done`] the attempt is over and nothing more need be read.
    ///
    /// # Errors
    ///
    /// What the provider says went wrong, what is wrong with the bytes, or that they came too late
    /// (then nothing of them is used). The attempt is over.
    pub fn body(
        &mut self,
        bytes: &[u8],
        now: Instant,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        self.tick(now)?;
        let before = events.len();
        let result = match &mut self.body {
            Body::Refusal { bytes: held, .. } => {
                let room = ERROR_BYTES_MAX - held.len();
                held.extend_from_slice(&bytes[..bytes.len().min(room)]);
                Ok(())
            }
            Body::Whole(held) => {
                if held.len() + bytes.len() > BODY_BYTES_MAX {
                    Err(super::stream::too_large("body", BODY_BYTES_MAX))
                } else {
                    held.extend_from_slice(bytes);
                    Ok(())
                }
            }
            Body::Stream(parser) => parser.push(bytes, events),
            Body::Awaited | Body::Over => Ok(()),
        };
        self.note(&events[before..], now);
        if result.is_err() {
            self.body = Body::Over;
        }
        result
    }

    /// The body is over, or the connection broke. `wall` is the time since the Unix epoch: some
    /// providers name the moment at which to come again.
    ///
    /// # Errors
    ///
    /// As for [`body`](Self::body), and that the answer is incomplete.
    pub fn end(
        &mut self,
        adapter: &dyn Adapter,
        end: End,
        now: Instant,
        wall: Duration,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        self.tick(now)?;
        let before = events.len();
        let result = match std::mem::replace(&mut self.body, Body::Over) {
            Body::Awaited => Err(self.broken()),
            // A refusal whose body was cut is a refusal: its status says enough.
            Body::Refusal { status, bytes } => {
                Err(adapter.classify(status, &self.headers, &bytes, wall))
            }
            Body::Whole(_) if end == End::Reset => Err(self.broken()),
            Body::Whole(bytes) => adapter
                .parse(&self.headers, &bytes)
                .map(|response| response.into_events(events)),
            Body::Stream(mut parser) => parser.finish(end, events),
            Body::Over => Ok(()),
        };
        self.note(&events[before..], now);
        result
    }

    /// Nothing came until `now`.
    ///
    /// # Errors
    ///
    /// A [`FaultKind::Timeout`] at [`Place::Limit`] if that is too long. The attempt is over.
    pub fn tick(&mut self, now: Instant) -> Result<(), Error> {
        if matches!(self.body, Body::Over) || now <= self.next_limit() {
            return Ok(());
        }
        if let Body::Refusal { status, bytes } = std::mem::replace(&mut self.body, Body::Over) {
            // Its status says enough. What day it is is not known here: a date to come again is past.
            return Err(super::classify(
                status,
                &self.headers,
                &bytes,
                Duration::MAX,
            ));
        }
        let attempt = self.started.after(self.limits.attempt);
        let (what, limit) = if now > attempt && attempt <= self.patience() {
            ("the attempt took longer than", self.limits.attempt)
        } else if self.content_at.is_some() {
            ("no further token within", self.limits.gap)
        } else {
            ("no first token within", self.limits.ttft)
        };
        let mut error = Error::new(FaultKind::Timeout, Place::Limit, &format!("{what} {limit}"));
        error.after_output = self.content_at.is_some();
        Err(error)
    }

    /// What comes later than this comes too late. Comments and frames without content do not move it.
    #[must_use]
    pub fn next_limit(&self) -> Instant {
        self.started.after(self.limits.attempt).min(self.patience())
    }

    /// When the last event or an error has been handed out.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.body, Body::Over)
    }

    /// Whether any content has come.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.content_at.is_some()
    }

    /// Status and headers as far as they have come.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Until when the next content has to come.
    fn patience(&self) -> Instant {
        match self.content_at {
            _ if !self.streamed => Instant(u64::MAX),
            Some(last) => last.after(self.limits.gap),
            None => self.started.after(self.limits.ttft),
        }
    }

    fn note(&mut self, events: &[StreamEvent], now: Instant) {
        if events.iter().any(StreamEvent::is_content) {
            self.content_at = Some(now);
        }
        if matches!(events.last(), Some(StreamEvent::Done(_))) {
            self.body = Body::Over;
        }
    }

    fn broken(&self) -> Error {
        Error::new(
            FaultKind::Timeout,
            Place::Transport,
            "the connection broke before the answer was there",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::adapter;

    const LIMITS: Limits = Limits {
        ttft: Duration::from_secs(2),
        gap: Duration::from_secs(3),
        attempt: Duration::from_secs(10),
    };

    fn at(seconds: f64) -> Instant {
        Instant::ZERO.after(Duration::from_secs_f64(seconds))
    }

    fn streaming() -> (Exchange, Box<dyn Adapter>) {
        let adapter = adapter("openai").unwrap();
        let mut exchange = Exchange::new(true, LIMITS, Instant::ZERO);
        exchange.head(&*adapter, 200, Headers::default());
        (exchange, adapter)
    }

    const WORD: &[u8] =
        b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n";
    const ROLE: &[u8] =
        b"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";

    #[test]
    fn r17_comments_and_role_only_chunks_do_not_put_off_the_first_token() {
        let (mut exchange, _) = streaming();
        let mut events = Vec::new();
        exchange.body(ROLE, at(0.1), &mut events).unwrap();
        for tenth in 1..=20 {
            let now = at(f64::from(tenth) / 10.0);
            exchange.body(b": ping\n\n", now, &mut events).unwrap();
            assert_eq!(exchange.next_limit(), at(2.0));
        }
        let error = exchange
            .body(b": ping\n\n", at(2.1), &mut events)
            .unwrap_err();
        assert_eq!(
            (error.kind, error.place),
            (FaultKind::Timeout, Place::Limit)
        );
        assert!(!error.after_output);
        assert_eq!(events, []);
    }

    #[test]
    fn r19_silence_after_the_first_token_ends_at_the_gap() {
        let (mut exchange, _) = streaming();
        let mut events = Vec::new();
        exchange.body(WORD, at(0.1), &mut events).unwrap();
        assert_eq!(exchange.next_limit(), at(3.1));
        exchange.tick(at(3.1)).unwrap();
        let error = exchange.tick(at(3.2)).unwrap_err();
        assert_eq!(error.kind, FaultKind::Timeout);
        assert!(error.after_output && error.message.contains("further token"));
    }

    #[test]
    fn an_attempt_that_drips_ends_all_the_same() {
        let (mut exchange, _) = streaming();
        let mut events = Vec::new();
        for second in 1..=10 {
            exchange
                .body(WORD, at(f64::from(second)), &mut events)
                .unwrap();
        }
        let error = exchange.body(WORD, at(10.5), &mut events).unwrap_err();
        assert!(error.message.contains("the attempt"), "{error}");
        assert_eq!(events.len(), 10);
    }

    #[test]
    fn an_answer_at_once_has_only_the_limit_of_the_attempt() {
        let adapter = adapter("openai").unwrap();
        let mut exchange = Exchange::new(false, LIMITS, Instant::ZERO);
        exchange.head(&*adapter, 200, Headers::default());
        let mut events = Vec::new();
        let body = br#"{"choices":[{"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}"#;
        exchange.body(body, at(9.0), &mut events).unwrap();
        exchange
            .end(&*adapter, End::Eof, at(9.5), Duration::ZERO, &mut events)
            .unwrap();
        assert_eq!(events[0], StreamEvent::Text("Yes.".into()));
        assert!(matches!(events[1], StreamEvent::Done(_)));
        assert!(exchange.is_over());
    }

    #[test]
    fn a_connection_that_breaks_before_the_status_is_nobodys_answer() {
        let adapter = adapter("openai").unwrap();
        let mut exchange = Exchange::new(true, LIMITS, Instant::ZERO);
        let error = exchange
            .end(
                &*adapter,
                End::Reset,
                at(1.0),
                Duration::ZERO,
                &mut Vec::new(),
            )
            .unwrap_err();
        assert_eq!(
            (error.kind, error.place),
            (FaultKind::Timeout, Place::Transport)
        );
    }

    #[test]
    fn a_refusal_whose_body_stalls_is_a_refusal() {
        let adapter = adapter("openai").unwrap();
        let mut exchange = Exchange::new(true, LIMITS, Instant::ZERO);
        let headers = Headers::from_iter([("retry-after", "7")]);
        exchange.head(&*adapter, 429, headers);
        let mut events = Vec::new();
        exchange.body(b"{\"err", at(0.5), &mut events).unwrap();
        let error = exchange.tick(at(11.0)).unwrap_err();
        assert_eq!(error.kind, FaultKind::RateLimit);
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn the_body_of_a_refusal_is_bounded() {
        let adapter = adapter("openai").unwrap();
        let mut exchange = Exchange::new(true, LIMITS, Instant::ZERO);
        exchange.head(&*adapter, 503, Headers::default());
        let mut events = Vec::new();
        for _ in 0..40 {
            exchange
                .body(&[b'x'; 1 << 16], at(0.5), &mut events)
                .unwrap();
        }
        let error = exchange
            .end(&*adapter, End::Eof, at(0.6), Duration::ZERO, &mut events)
            .unwrap_err();
        assert_eq!(error.kind, FaultKind::Overloaded);
    }
}
