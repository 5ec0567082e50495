//! What a stand-in puts on the wire, and when: an answer, or an answer that something happens to.
//!
//! This is the one place that knows what each fault looks like as bytes. A server writes a
//! [`Transmission`] to a socket and sleeps where it says so; in virtual time nobody sleeps, and the
//! waits travel beside the bytes as a [`Schedule`].

use super::faults::{Act, Cut};
use crate::units::Duration;
use crate::wire::{Adapter, Answer, Headers, Reply};

/// Between two keep-alives of a stand-in that sends nothing else.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_millis(500);
/// The header that carries a [`Schedule`], in virtual time only.
pub const SCHEDULE_HEADER: &str = "x-routelab-schedule";

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As announced.
    Clean,
    /// The connection breaks.
    Reset,
    /// Nothing more comes, and the connection stays open.
    Hang,
    /// Nothing more comes but these, every [`KEEP_ALIVE_EVERY`].
    KeepAlives(&'static [u8]),
}

/// Bytes and the pause before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The pause.
    pub wait: Duration,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// An HTTP answer with its timing.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmission {
    /// HTTP status.
    pub status: u16,
    /// Headers; `content-type` is among them.
    pub headers: Headers,
    /// The body.
    pub pieces: Vec<Piece>,
    /// How it ends.
    pub ending: Ending,
}

impl Transmission {
    /// An answer and what `act` makes of it.
    #[must_use]
    pub fn of(adapter: &dyn Adapter, answer: &Answer<'_>, stream: bool, act: Option<&Act>) -> Self {
        let told = || {
            if stream {
                adapter.render_stream(answer)
            } else {
                adapter.render(answer)
            }
        };
        match act {
            None => Self::from(told()),
            Some(Act::Status {
                status,
                headers,
                body,
            }) => Self {
                status: *status,
                headers: headers.clone(),
                pieces: vec![Piece {
                    wait: Duration::ZERO,
                    bytes: body.clone(),
                }],
                ending: Ending::Clean,
            },
            Some(Act::Kind { kind, retry_after }) => {
                let (status, body) = adapter.render_fault(*kind, SCRIPTED);
                Self::refusal(status, &body, *retry_after)
            }
            // An answer that is sent at once has no frames: it fails before it begins.
            Some(Act::ErrorFrame { kind, .. }) if !stream => {
                let (status, body) = adapter.render_fault(*kind, SCRIPTED);
                Self::refusal(status, &body, None)
            }
            Some(Act::ErrorFrame { kind, after }) => {
                let mut cut = Self::cut(adapter, told(), *after);
                let frame = adapter.render_fault_frame(*kind, SCRIPTED);
                cut.push(Duration::ZERO, frame);
                cut
            }
            Some(Act::Cut { after, how }) => {
                let mut cut = if stream {
                    Self::cut(adapter, told(), *after)
                } else {
                    let mut whole = Self::from(told());
                    for piece in &mut whole.pieces {
                        let half = piece.bytes.len() / 2;
                        piece.bytes.truncate(half);
                    }
                    whole
                };
                cut.ending = match how {
                    Cut::Clean => Ending::Clean,
                    Cut::Reset => Ending::Reset,
                };
                cut
            }
            Some(Act::Stall { after }) => {
                let mut cut = if stream {
                    Self::cut(adapter, told(), *after)
                } else {
                    Self {
                        pieces: Vec::new(),
                        ..Self::from(told())
                    }
                };
                cut.ending = Ending::Hang;
                cut
            }
            Some(Act::SlowFirstToken { delay }) => {
                let mut slow = Self::from(told());
                if let Some(first) = slow.pieces.first_mut() {
                    first.wait = *delay;
                }
                slow
            }
            Some(Act::BrokenFrame { after }) => {
                let told = told();
                let broken = if is_lines(&told) || !stream {
                    b"{\"broken\": \n".to_vec()
                } else {
                    b"data: {\"broken\": \n\n".to_vec()
                };
                let mut cut = if stream {
                    Self::cut(adapter, told, *after)
                } else {
                    Self {
                        pieces: Vec::new(),
                        ..Self::from(told)
                    }
                };
                cut.push(Duration::ZERO, broken);
                cut
            }
            Some(Act::KeepAlivesOnly) => {
                let told = told();
                // White space between JSON texts, where there are no comments.
                let beat: &[u8] = if stream && !is_lines(&told) {
                    b": keep-alive\n\n"
                } else {
                    b"\n"
                };
                Self {
                    pieces: Vec::new(),
                    ending: Ending::KeepAlives(beat),
                    ..Self::from(told)
                }
            }
        }
    }

    /// An error in the provider's shape.
    #[must_use]
    pub fn refusal(status: u16, body: &serde_json::Value, retry_after: Option<Duration>) -> Self {
        let mut headers = Headers::from_iter([("content-type", "application/json")]);
        if let Some(wait) = retry_after {
            if wait.0.is_multiple_of(1_000_000) {
                let seconds = (wait.0 / 1_000_000).to_string();
                headers.0.push(("retry-after".into(), seconds));
            } else {
                let millis = wait.0.div_ceil(1_000).to_string();
                headers.0.push(("retry-after-ms".into(), millis));
            }
        }
        Self {
            status,
            headers,
            pieces: vec![Piece {
                wait: Duration::ZERO,
                bytes: body.to_string().into_bytes(),
            }],
            ending: Ending::Clean,
        }
    }

    /// The reply up to and with its `after`-th piece of content, but never to its end.
    fn cut(adapter: &dyn Adapter, mut reply: Reply, after: u32) -> Self {
        let keep = content_ends(adapter, &reply);
        let at = match keep.len().min(after as usize) {
            // Nothing of the answer itself; what opens the stream may still come.
            0 => keep.first().map_or(0, |first| first - 1),
            n => keep[n - 1],
        };
        reply.pieces.truncate(at);
        Self::from(reply)
    }

    fn push(&mut self, wait: Duration, bytes: Vec<u8>) {
        self.pieces.push(Piece { wait, bytes });
    }

    /// The waits, as they travel beside the bytes in virtual time.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        let mut offset = 0;
        let mut waits = Vec::new();
        for piece in &self.pieces {
            if piece.wait != Duration::ZERO {
                waits.push((offset, piece.wait));
            }
            offset += piece.bytes.len() as u64;
        }
        Schedule {
            waits,
            hangs_at: matches!(self.ending, Ending::Hang | Ending::KeepAlives(_)).then_some(offset),
        }
    }
}

/// The message of every error that a script asks for.
pub(super) const SCRIPTED: &str = "scripted fault";

impl From<Reply> for Transmission {
    fn from(reply: Reply) -> Self {
        Self {
            status: reply.status,
            headers: reply.headers,
            pieces: reply
                .pieces
                .into_iter()
                .map(|bytes| Piece {
                    wait: Duration::ZERO,
                    bytes,
                })
                .collect(),
            ending: Ending::Clean,
        }
    }
}

/// Pieces of content that a streamed answer can be cut after.
#[must_use]
pub fn content_pieces(adapter: &dyn Adapter, answer: &Answer<'_>) -> usize {
    content_ends(adapter, &adapter.render_stream(answer)).len()
}

/// For each piece of content but those that come with the end: how many pieces of the body there are up
/// to and with it.
pub(super) fn content_ends(adapter: &dyn Adapter, reply: &Reply) -> Vec<usize> {
    let mut parser = adapter.stream(&reply.headers);
    let mut ends = Vec::new();
    let mut events = Vec::new();
    for (index, piece) in reply.pieces.iter().enumerate() {
        if parser.push(piece, &mut events).is_err() {
            break;
        }
        if events.iter().any(|event| !event.is_content()) {
            break;
        }
        if !events.is_empty() {
            ends.push(index + 1);
        }
        events.clear();
    }
    // Some dialects say with the last word that it is the last, and the end only with the body's.
    while ends
        .last()
        .is_some_and(|&end| is_complete(adapter, reply, end))
    {
        ends.pop();
    }
    ends
}

/// Whether the first pieces alone are a whole answer.
fn is_complete(adapter: &dyn Adapter, reply: &Reply, pieces: usize) -> bool {
    let mut parser = adapter.stream(&reply.headers);
    let mut events = Vec::new();
    reply.pieces[..pieces]
        .iter()
        .all(|piece| parser.push(piece, &mut events).is_ok())
        && parser.finish(crate::wire::End::Eof, &mut events).is_ok()
}

/// Whether the body is one JSON object a line.
fn is_lines(reply: &Reply) -> bool {
    reply
        .headers
        .get("content-type")
        .is_some_and(|kind| kind.contains("ndjson"))
}

/// When the bytes of a body come, for a reader that does not wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Offset in the body, and the pause before the byte there.
    pub waits: Vec<(u64, Duration)>,
    /// After this many bytes nothing more comes.
    pub hangs_at: Option<u64>,
}

impl Schedule {
    /// As the value of [`SCHEDULE_HEADER`]: `0+2000000,31!` for two seconds before the first byte and
    /// nothing after the 31st.
    #[must_use]
    pub fn header(&self) -> String {
        let waits = self
            .waits
            .iter()
            .map(|(at, wait)| format!("{at}+{}", wait.0));
        let hang = self.hangs_at.map(|at| format!("{at}!"));
        waits.chain(hang).collect::<Vec<_>>().join(",")
    }

    /// Reads [`Schedule::header`]; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut schedule = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            if let Some(at) = part.strip_suffix('!') {
                schedule.hangs_at = Some(at.parse().ok()?);
            } else {
                let (at, wait) = part.split_once('+')?;
                let wait = Duration(wait.parse().ok()?);
                schedule.waits.push((at.parse().ok()?, wait));
            }
        }
        Some(schedule)
    }
}
