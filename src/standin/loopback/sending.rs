//! The body of an answer as it goes into the socket: piece by piece, with pauses, perhaps without end.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::{Clock, State};
use crate::standin::transmission::{Ending, KEEP_ALIVE_EVERY, Piece};

/// Keep-alives that are sent in virtual time, where nobody waits for the next.
const BEATS_VIRTUAL: u32 = 3;

/// Longer than any server runs.
const NEVER: Duration = Duration::from_secs(86_400 * 365 * 10);

/// The body.
pub(super) struct Sending {
    pieces: std::vec::IntoIter<Piece>,
    /// A piece that is due when the sleep is over.
    due: Option<Bytes>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// When the last piece was due: pauses are counted from there, so that what each is late does not
    /// add up.
    was_due: Option<Instant>,
    ending: Ending,
    clock: Clock,
    /// Whether what was said so far has been given the chance to leave.
    is_flushed: bool,
    beats: u32,
    hold_max: Duration,
    /// Until when it is held open, once nothing but keep-alives comes.
    held: Option<Pin<Box<Sleep>>>,
    left: Option<u64>,
    state: Arc<State>,
}

impl Sending {
    pub(super) fn new(
        state: Arc<State>,
        pieces: Vec<Piece>,
        ending: Ending,
        at_once: bool,
    ) -> Self {
        state.in_flight.fetch_add(1, Ordering::SeqCst);
        let length = pieces.iter().map(|piece| piece.bytes.len() as u64).sum();
        Self {
            pieces: pieces.into_iter(),
            due: None,
            sleep: None,
            was_due: None,
            ending,
            clock: state.clock,
            // The head of an answer that breaks off has to leave before it does.
            is_flushed: ending == Ending::Clean,
            beats: 0,
            hold_max: state.bounds.hold_max,
            held: None,
            left: (at_once && ending == Ending::Clean).then_some(length),
            state,
        }
    }

    fn data(&mut self, bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.is_flushed = false;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.state.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the connection without the end of the body.
fn broken() -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
    let error = io::Error::new(io::ErrorKind::ConnectionReset, "as the script says");
    Poll::Ready(Some(Err(error)))
}

impl Body for Sending {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(sleep) = &mut this.sleep {
                if sleep.as_mut().poll(context).is_pending() {
                    // The limit ends keep-alives as well.
                    if let Some(held) = &mut this.held
                        && held.as_mut().poll(context).is_ready()
                    {
                        return broken();
                    }
                    return Poll::Pending;
                }
                this.sleep = None;
            }
            if let Some(bytes) = this.due.take() {
                return this.data(bytes);
            }
            // The connection is flushed when a body has nothing at the moment, so each piece is
            // followed by such a moment: a client sees pieces, not what happens to fit a buffer.
            if !this.is_flushed && this.left.is_none() {
                this.is_flushed = true;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(piece) = this.pieces.next() {
                if this.clock == Clock::Real && piece.wait.0 > 0 {
                    let wait = Duration::from_micros(piece.wait.0);
                    let before = this.was_due.unwrap_or_else(Instant::now);
                    // Further off than any clock goes is never.
                    let due = before.checked_add(wait).unwrap_or_else(|| before + NEVER);
                    this.was_due = Some(due);
                    this.sleep = Some(Box::pin(tokio::time::sleep_until(due)));
                }
                if !piece.bytes.is_empty() {
                    this.due = Some(piece.bytes.into());
                }
                continue;
            }
            match this.ending {
                Ending::Clean => return Poll::Ready(None),
                Ending::Reset => return broken(),
                Ending::Hang | Ending::KeepAlives(_) => {}
            }
            let hold_max = this.hold_max;
            let held = this
                .held
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(hold_max)));
            if held.as_mut().poll(context).is_ready() {
                return broken();
            }
            match this.ending {
                Ending::KeepAlives(beat) if this.clock == Clock::Real => {
                    let every = Duration::from_micros(KEEP_ALIVE_EVERY.0);
                    this.sleep = Some(Box::pin(tokio::time::sleep(every)));
                    this.due = Some(Bytes::from_static(beat));
                }
                Ending::KeepAlives(beat) if this.beats < BEATS_VIRTUAL => {
                    this.beats += 1;
                    this.due = Some(Bytes::from_static(beat));
                }
                _ => return Poll::Pending,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        false
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
