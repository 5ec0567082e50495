//! A stand-in at the second fidelity: real bytes, rendered and parsed in this process, in virtual time.

use super::transmission::{Ending, KEEP_ALIVE_EVERY, Transmission};
use crate::router::Limits;
use crate::units::{Duration, Instant};
use crate::wire::{Adapter, Collector, End, Error, Exchange, Response, StreamEvent};

/// Keep-alives that are really read.
const BEATS: usize = 20;

/// What a caller saw of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    /// When the first content came.
    pub shown_at: Option<Instant>,
    /// When the answer was complete, or failed.
    pub ended_at: Instant,
    /// The answer.
    pub result: Result<Response, Error>,
}

/// Reads a transmission through the real adapter, bytes in, answer out, without waiting. The request was
/// sent at `started`; the Unix epoch is virtual time zero.
#[must_use]
pub fn receive(
    adapter: &dyn Adapter,
    transmission: &Transmission,
    stream: bool,
    limits: Limits,
    started: Instant,
) -> Received {
    let mut reading = Reading::new(stream, limits, started);
    reading
        .exchange
        .head(adapter, transmission.status, transmission.headers.clone());
    for piece in &transmission.pieces {
        if reading.pause(piece.wait) || reading.bytes(&piece.bytes) {
            return reading.finish();
        }
    }
    match transmission.ending {
        Ending::Clean => reading.end(adapter, End::Eof),
        Ending::Reset => reading.end(adapter, End::Reset),
        Ending::Hang => reading.hang(),
        Ending::KeepAlives(beat) => {
            // A few are fed; that they change nothing is the point. As many as come in time would be no
            // end of them where there is no limit.
            let over = (0..BEATS).any(|_| reading.pause(KEEP_ALIVE_EVERY) || reading.bytes(beat));
            if !over {
                reading.hang();
            }
        }
    }
    reading.finish()
}

/// An exchange in virtual time.
pub struct Reading {
    /// The exchange.
    pub exchange: Exchange,
    now: Instant,
    shown_at: Option<Instant>,
    collector: Collector,
    events: Vec<StreamEvent>,
    failure: Option<Error>,
}

impl Reading {
    /// An attempt whose request was sent at `started`.
    #[must_use]
    pub fn new(stream: bool, limits: Limits, started: Instant) -> Self {
        Self {
            exchange: Exchange::new(stream, limits, started),
            now: started,
            shown_at: None,
            collector: Collector::default(),
            events: Vec::new(),
            failure: None,
        }
    }

    /// Time passes without a byte. Whether the attempt is over.
    pub fn pause(&mut self, wait: Duration) -> bool {
        let limit = self.exchange.next_limit();
        let later = self.now.after(wait);
        if later > limit && !self.exchange.is_over() {
            self.now = limit;
            let late = self.exchange.tick(limit.after(Duration(1)));
            self.failure = late.err();
            return true;
        }
        self.now = later;
        self.exchange.is_over()
    }

    /// Nothing comes any more.
    pub fn hang(&mut self) {
        self.pause(Duration::MAX);
        if self.failure.is_none() && !self.exchange.is_over() {
            // No limit was ever going to end this; a caller who waits for ever gets no answer.
            let end = Instant(u64::MAX);
            self.now = end;
            self.failure = Some(Error::new(
                crate::router::FaultKind::Timeout,
                crate::wire::Place::Limit,
                "nothing came, and there is no limit",
            ));
        }
    }

    /// Bytes of the body come. Whether the attempt is over.
    pub fn bytes(&mut self, bytes: &[u8]) -> bool {
        let result = self.exchange.body(bytes, self.now, &mut self.events);
        self.take(result)
    }

    /// The body is over.
    pub fn end(&mut self, adapter: &dyn Adapter, end: End) {
        let wall = self.now.since(Instant::ZERO);
        let result = self
            .exchange
            .end(adapter, end, self.now, wall, &mut self.events);
        self.take(result);
    }

    fn take(&mut self, result: Result<(), Error>) -> bool {
        for event in self.events.drain(..) {
            if event.is_content() {
                self.shown_at.get_or_insert(self.now);
            }
            self.collector.push(event);
        }
        if let Err(error) = result {
            self.failure = Some(error);
        }
        self.failure.is_some() || self.exchange.is_over()
    }

    /// What came of it.
    #[must_use]
    pub fn finish(self) -> Received {
        let result = match self.failure {
            Some(error) => Err(error),
            None => self.collector.response().ok_or_else(|| {
                Error::new(
                    crate::router::FaultKind::Server,
                    crate::wire::Place::TruncatedStream,
                    "the body ended without an answer",
                )
            }),
        };
        Received {
            shown_at: self.shown_at,
            ended_at: self.now,
            result,
        }
    }
}
