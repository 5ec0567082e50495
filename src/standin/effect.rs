//! What a caller sees of a fault, by rule: the first fidelity's answer to what the other two find out
//! by reading bytes. A test holds all three against each other for every act, dialect and limit.

use super::faults::{Act, Cut};
use super::transmission::Transmission;
use super::wired;
use crate::router::{Fault, FaultKind, Limits};
use crate::units::{Duration, Instant};
use crate::wire::Adapter;

/// What a caller sees, in time since the request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// When the first content came.
    pub shown_after: Option<Duration>,
    /// When the answer was complete, or failed.
    pub ended_after: Duration,
    /// How it failed, if it did.
    pub fault: Option<Fault>,
}

impl Effect {
    /// An answer at once.
    pub const NONE: Self = Self {
        shown_after: Some(Duration::ZERO),
        ended_after: Duration::ZERO,
        fault: None,
    };

    /// What `act` does to an answer that can be cut after `content` pieces of content
    /// ([`content_pieces`](super::transmission::content_pieces)) and is asked for at `started` within `limits`.
    #[must_use]
    pub fn of(
        adapter: &dyn Adapter,
        act: Option<&Act>,
        stream: bool,
        content: usize,
        limits: Limits,
        started: Instant,
    ) -> Self {
        let Some(act) = act else {
            return Self::NONE;
        };
        // Some of the answer is seen if it is cut after the first piece.
        let begun = |after: u32| stream && after > 0 && content > 0;
        let failed = |shown: bool, ended_after, kind, retry_after| Self {
            shown_after: shown.then_some(Duration::ZERO),
            ended_after,
            fault: Some(Fault {
                kind,
                retry_after,
                usage: None,
            }),
        };
        let at_once = |shown, kind| failed(shown, Duration::ZERO, kind, None);
        let to_first_token = if stream {
            limits.ttft.min(limits.attempt)
        } else {
            limits.attempt
        };
        match act {
            Act::Kind { kind, retry_after } => {
                // Headers have whole seconds or whole milliseconds; a wait is never shortened.
                let hint = retry_after.map(|wait| Duration(wait.0.div_ceil(1_000) * 1_000));
                failed(false, Duration::ZERO, *kind, hint)
            }
            Act::ErrorFrame { kind, .. } if !stream => at_once(false, *kind),
            Act::ErrorFrame { kind, after } => {
                at_once(begun(*after), kind_of_frame(adapter, *kind))
            }
            Act::Cut { after, how } => at_once(
                begun(*after),
                match how {
                    Cut::Clean => FaultKind::Server,
                    Cut::Reset => FaultKind::Timeout,
                },
            ),
            Act::BrokenFrame { after } => at_once(begun(*after), FaultKind::Server),
            Act::Stall { after } => {
                let shown = begun(*after);
                let ended = if shown {
                    limits.gap.min(limits.attempt)
                } else {
                    to_first_token
                };
                failed(shown, ended, FaultKind::Timeout, None)
            }
            Act::SlowFirstToken { delay } if *delay <= to_first_token => Self {
                shown_after: Some(*delay),
                ended_after: *delay,
                fault: None,
            },
            Act::SlowFirstToken { .. } | Act::KeepAlivesOnly => {
                failed(false, to_first_token, FaultKind::Timeout, None)
            }
            // Status and body are whatever the script says: only reading them tells.
            Act::Status { .. } => {
                let said = Transmission::of(
                    adapter,
                    &crate::wire::Answer {
                        response: &crate::wire::Response::default(),
                        id: "",
                        model: "",
                    },
                    stream,
                    Some(act),
                );
                let seen = wired::receive(adapter, &said, stream, limits, started);
                Self {
                    shown_after: seen.shown_at.map(|at| at.since(started)),
                    ended_after: seen.ended_at.since(started),
                    fault: seen.result.err().map(|error| error.fault()),
                }
            }
        }
    }
}

/// Not every dialect has a frame for every kind: Ollama's hold a message and nothing else.
fn kind_of_frame(adapter: &dyn Adapter, kind: FaultKind) -> FaultKind {
    let frame = adapter.render_fault_frame(kind, "");
    let mut stream = adapter.stream(&crate::wire::Headers::default());
    let read = stream.push(&frame, &mut Vec::new());
    read.err().map_or(FaultKind::Server, |error| error.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::standin::transmission::content_pieces;
    use crate::units::Tokens;
    use crate::wire::{ADAPTERS, Answer, Headers, Response, Stop, Usage};

    fn acts() -> Vec<Option<Act>> {
        let mut acts = vec![None, Some(Act::KeepAlivesOnly)];
        for kind in FaultKind::ALL {
            for retry_after in [
                None,
                Some(Duration::from_secs(2)),
                Some(Duration(1_234_567)),
            ] {
                acts.push(Some(Act::Kind { kind, retry_after }));
            }
            for after in [0, 1, 3, 99] {
                acts.push(Some(Act::ErrorFrame { kind, after }));
            }
        }
        for after in [0, 1, 3, 99] {
            for how in [Cut::Clean, Cut::Reset] {
                acts.push(Some(Act::Cut { after, how }));
            }
            acts.push(Some(Act::Stall { after }));
            acts.push(Some(Act::BrokenFrame { after }));
        }
        for millis in [0, 1_000, 2_000, 2_001, 9_000, 20_000] {
            acts.push(Some(Act::SlowFirstToken {
                delay: Duration::from_millis(millis),
            }));
        }
        for (status, body) in [
            (503, ""),
            (429, "no json"),
            (200, ""),
            (200, "{"),
            (418, "{}"),
        ] {
            acts.push(Some(Act::Status {
                status,
                headers: Headers::from_iter([("retry-after", "7")]),
                body: body.into(),
            }));
        }
        acts.push(Some(Act::Status {
            status: 429,
            headers: Headers::from_iter([("retry-after", "Thu, 01 Jan 1970 00:01:00 GMT")]),
            body: Vec::new(),
        }));
        acts
    }

    /// The rules above against bytes that are really written and read.
    #[test]
    fn the_rules_say_what_reading_the_bytes_finds() {
        let limits = [(2, 3, 10), (5, 1, 4), (3, 20, 10)].map(|(ttft, gap, attempt)| Limits {
            ttft: Duration::from_secs(ttft),
            gap: Duration::from_secs(gap),
            attempt: Duration::from_secs(attempt),
        });
        let mut wrong = Vec::new();
        for kind in ADAPTERS {
            let adapter = (kind.make)();
            for text in ["", "One", "One two three four."] {
                let response = Response {
                    text: text.to_owned(),
                    stop: Stop::End,
                    usage: Usage {
                        input: Tokens::new(10),
                        output: Tokens::new(4),
                        ..Usage::UNKNOWN
                    },
                    ..Response::default()
                };
                let answer = Answer {
                    response: &response,
                    id: "req_1",
                    model: "m",
                };
                let content = content_pieces(&*adapter, &answer);
                for act in acts() {
                    for stream in [true, false] {
                        for limits in limits {
                            let start = Instant(40_000_077);
                            let act = act.as_ref();
                            let ruled = Effect::of(&*adapter, act, stream, content, limits, start);
                            let bytes = Transmission::of(&*adapter, &answer, stream, act);
                            let seen = wired::receive(&*adapter, &bytes, stream, limits, start);
                            let read = Effect {
                                shown_after: seen.shown_at.map(|at| at.since(start)),
                                ended_after: seen.ended_at.since(start),
                                fault: seen.result.err().map(|error| error.fault()),
                            };
                            // An empty answer shows nothing; whole or not, its end is what counts.
                            let mut ruled = ruled;
                            if text.is_empty() && ruled.fault.is_none() {
                                ruled.shown_after = None;
                            }
                            if ruled != read {
                                wrong.push(format!(
                                    "{} {text:?} {act:?} stream {stream} {limits:?}:\n  ruled {ruled:?}\n  read  {read:?}",
                                    kind.name
                                ));
                            }
                        }
                    }
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} differ\n{}",
            wrong.len(),
            wrong[..wrong.len().min(12)].join("\n")
        );
    }
}
