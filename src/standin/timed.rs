//! What became of an attempt on a timeline, as bytes and pauses: providers that a [`Timeline`] describes,
//! acted out.
//!
//! The first piece of content comes when the first token was due, the last when the answer was complete,
//! and what is between is spread evenly. Where the caller was going to hang up, nothing comes that would
//! keep it from doing so. A whole answer that breaks off is an error of the server at that moment.
//!
//! [`Timeline`]: crate::timeline::Timeline

use super::transmission::{Ending, Piece, SCRIPTED, Transmission, content_ends};
use crate::router::FaultKind;
use crate::timeline::Answered;
use crate::units::{Duration, Instant};
use crate::wire::{Adapter, Answer, Headers};

/// What a caller who sent its request at `sent_at` gets to read. `answer` is what the route says if it
/// comes to that; `gap` is how long the caller waits between two pieces of content.
#[must_use]
pub fn transmission(
    adapter: &dyn Adapter,
    answer: &Answer<'_>,
    stream: bool,
    sent_at: Instant,
    gap: Duration,
    answered: &Answered,
) -> Transmission {
    let all = answered.ended_at.since(sent_at);
    let Some(fault) = answered.fault else {
        let reply = if stream {
            adapter.render_stream(answer)
        } else {
            adapter.render(answer)
        };
        let opening = match content_ends(adapter, &reply).first() {
            Some(first) if stream => *first,
            _ => 1,
        };
        let mut told = Transmission::from(reply);
        let shown = answered.shown_at.map_or(all, |at| at.since(sent_at));
        pace(&mut told.pieces, opening, shown, all);
        return told;
    };
    match answered.shown_at {
        Some(shown_at) if stream => {
            let mut reply = adapter.render_stream(answer);
            let ends = content_ends(adapter, &reply);
            let opening = ends.first().copied().unwrap_or(1);
            let hangs = fault.kind == FaultKind::Timeout;
            // Half of what there is to say, for what is said says nothing about time; and no more than
            // the beginning to a caller whom that alone keeps waiting until it hangs up.
            let kept = if hangs && answered.ended_at.since(shown_at) <= gap {
                opening
            } else {
                ends.get(ends.len() / 2).copied().unwrap_or(0)
            };
            reply.pieces.truncate(kept);
            let mut cut = Transmission::from(reply);
            // It is over when it is, not with the last word.
            cut.pieces.push(pause());
            pace(&mut cut.pieces, opening, shown_at.since(sent_at), all);
            if hangs {
                cut.ending = Ending::Hang;
            }
            cut
        }
        _ if fault.kind == FaultKind::Timeout => Transmission {
            status: 200,
            headers: Headers::default(),
            pieces: Vec::new(),
            ending: Ending::Hang,
        },
        _ => {
            let (status, body) = adapter.render_fault(fault.kind, SCRIPTED);
            let mut refusal = Transmission::refusal(status, &body, fault.retry_after);
            pace(&mut refusal.pieces, 1, all, all);
            refusal
        }
    }
}

fn pause() -> Piece {
    Piece {
        wait: Duration::ZERO,
        bytes: Vec::new(),
    }
}

/// The first `opening` pieces together after `shown`, the last one after `all`, those between evenly.
fn pace(pieces: &mut [Piece], opening: usize, shown: Duration, all: Duration) {
    let later = pieces.len().saturating_sub(opening) as u64;
    let Some(first) = pieces.first_mut() else {
        return;
    };
    if later == 0 {
        first.wait = all;
        return;
    }
    first.wait = shown;
    let rest = all.0.saturating_sub(shown.0);
    let each = rest / later;
    for piece in &mut pieces[opening..] {
        piece.wait = Duration(each);
    }
    if let Some(last) = pieces.last_mut() {
        last.wait = Duration(rest - each * (later - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::{Fault, Limits};
    use crate::standin::wired;
    use crate::timeline::Cause;
    use crate::wire::{ADAPTERS, Response};

    const SENT: Instant = Instant(40_000_077);

    fn after(millis: u64) -> Instant {
        SENT.after(Duration::from_millis(millis))
    }

    fn answered(shown: Option<u64>, ended: u64, fault: Option<FaultKind>) -> Answered {
        Answered {
            started_at: SENT,
            shown_at: shown.map(after),
            ended_at: after(ended),
            fault: fault.map(|kind| Fault {
                kind,
                retry_after: (kind == FaultKind::RateLimit).then_some(Duration(1_234_000)),
                usage: None,
            }),
            cause: Cause::None,
        }
    }

    /// Real bytes, really read: when the first content is there, when it is over, and how.
    fn check(stream: bool, limits: Limits, expected: Answered) {
        for kind in ADAPTERS {
            let adapter = (kind.make)();
            let response = Response {
                text: "This is a right answer.".to_owned(),
                ..Response::default()
            };
            let answer = Answer {
                response: &response,
                id: "req_1",
                model: "m",
            };
            let bytes = transmission(&*adapter, &answer, stream, SENT, limits.gap, &expected);
            let seen = wired::receive(&*adapter, &bytes, stream, limits, SENT);
            let case = format!("{} stream {stream} {expected:?}", kind.name);
            assert_eq!(seen.ended_at, expected.ended_at, "{case}");
            assert_eq!(seen.shown_at, expected.shown_at, "{case}");
            let fault = seen.result.as_ref().err().map(|error| error.fault());
            assert_eq!(fault, expected.fault, "{case}");
            if let Ok(told) = seen.result {
                assert_eq!(told.text, response.text, "{case}");
            }
        }
    }

    fn limits(ttft: u64, gap: u64, attempt: u64) -> Limits {
        Limits {
            ttft: Duration::from_millis(ttft),
            gap: Duration::from_millis(gap),
            attempt: Duration::from_millis(attempt),
        }
    }

    #[test]
    fn callers_read_what_the_timeline_says_at_the_time_it_says() {
        for (shown, ended) in [(0, 0), (0, 1_000), (1_000, 1_000), (250, 1_777)] {
            check(true, Limits::NONE, answered(Some(shown), ended, None));
            check(false, Limits::NONE, answered(Some(ended), ended, None));
        }
    }

    #[test]
    fn every_kind_of_refusal_comes_in_the_words_of_the_dialect() {
        for kind in FaultKind::ALL {
            if kind != FaultKind::Timeout {
                for stream in [true, false] {
                    check(stream, Limits::NONE, answered(None, 80, Some(kind)));
                }
            }
        }
    }

    #[test]
    fn answers_break_off_when_they_are_said_to() {
        let server = Some(FaultKind::Server);
        check(true, Limits::NONE, answered(Some(100), 100, server));
        check(true, Limits::NONE, answered(Some(100), 1_100, server));
        check(false, Limits::NONE, answered(None, 1_100, server));
    }

    #[test]
    fn callers_hang_up_where_the_timeline_says_that_they_do() {
        let timeout = Some(FaultKind::Timeout);
        let ttft = limits(2_000, 3_000, 10_000);
        check(true, ttft, answered(None, 2_000, timeout));
        check(false, ttft, answered(None, 10_000, timeout));
        check(
            true,
            limits(20_000, 3_000, 10_000),
            answered(None, 10_000, timeout),
        );
        // In the middle of a stream: by the limit of the whole, or by that of a gap.
        check(
            true,
            limits(2_000, 9_000, 10_000),
            answered(Some(1_500), 10_000, timeout),
        );
        check(
            true,
            limits(2_000, 700, 10_000),
            answered(Some(1_500), 2_200, timeout),
        );
    }
}
