//! What providers do with an attempt: everything of a [`Timeline`] that an attempt meets, in one place.
//!
//! In this order: an incident may fail it; a rate limit may refuse it; chance may fail it; else servers
//! take it up, and it comes to its end unless it breaks off or the caller hangs up first.

use std::borrow::Cow;

use super::{Dimension, Effect, Ending, Limiter, Servers, Timeline, Weather, Work};
use crate::router::{Fault, FaultKind, Limits, RouteId};
use crate::units::{Duration, Instant, Probability, Tokens, mix64};
use crate::workload::DrawKey;

/// A caller without limits of its own hangs up all the same after an hour.
const PATIENCE_MAX: Duration = Duration::from_secs(3_600);

/// Purposes that an attempt's random bits are split for.
mod lane {
    pub(super) const INCIDENT: u64 = 0x696e_6369_6465_6e74;
    pub(super) const CHANCE: u64 = 0x6368_616e_6365_2e31;
    pub(super) const CUT: u64 = 0x6375_742e_7368_6172;
    pub(super) const WHERE: u64 = 0x6375_742e_706c_6163;
    pub(super) const SERVICE: u64 = 0x7365_7276_6963_652e;
    pub(super) const STREAM: u64 = 0x7374_7265_616d_2e32;
}

/// One attempt as it reaches a provider.
#[derive(Clone, Copy, Debug)]
pub struct Attempted {
    /// Where it goes.
    pub route: RouteId,
    /// When it is sent.
    pub at: Instant,
    /// Its prompt.
    pub input: Tokens,
    /// The answer that the route would give.
    pub output: Tokens,
    /// Most tokens the caller lets the answer have.
    pub cap: Tokens,
    /// When the caller hangs up.
    pub limits: Limits,
    /// 64 random bits of (request, route, attempt); see [`Attempted::bits`].
    pub bits: u64,
}

impl Attempted {
    /// The random bits of an attempt (from 1) at a route, from those of its request and a key of the
    /// route's name. They do not depend on what else was attempted before.
    #[must_use]
    #[inline(always)]
    pub const fn bits(word: u64, route_key: u64, attempt: u8) -> u64 {
        mix64(word.wrapping_add(route_key) ^ (attempt as u64) << 56)
    }
}

/// Why an attempt went as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing went wrong.
    None,
    /// An incident: its index among [`Weather::incidents`].
    Incident(u16),
    /// A rate limit: its index, and what was used up.
    Limit(u16, Dimension),
    /// Chance.
    Chance,
    /// It took longer than the caller waits.
    Patience,
}

/// What becomes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// When a server took it up; when it was sent, if none did.
    pub started_at: Instant,
    /// When the first token was there; for an answer that is sent as a whole, when that was.
    pub shown_at: Option<Instant>,
    /// When it was over.
    pub ended_at: Instant,
    /// How it failed, if it did.
    pub fault: Option<Fault>,
    /// Why.
    pub cause: Cause,
}

/// The providers of one run. What they remember is how full their buckets are and when their servers are
/// free.
#[derive(Clone, Debug)]
pub struct Providers<'a> {
    timeline: Cow<'a, Timeline>,
    weather: Weather,
    limiter: Limiter,
    servers: Servers,
}

#[inline(always)]
fn lane(bits: u64, purpose: u64) -> u32 {
    (mix64(bits ^ purpose) >> 32) as u32
}

#[inline(always)]
fn happens(lane: u32, share: Probability) -> bool {
    u64::from(lane) < share.threshold()
}

impl<'a> Providers<'a> {
    /// Providers at the beginning of the replicate of `key`. Outages are drawn up to `horizon`.
    #[must_use]
    pub fn open(timeline: &'a Timeline, key: DrawKey, horizon: Duration) -> Self {
        Self::over(Cow::Borrowed(timeline), key, horizon)
    }

    /// The same with a timeline of their own.
    #[must_use]
    pub fn owning(timeline: Timeline, key: DrawKey, horizon: Duration) -> Providers<'static> {
        Providers::over(Cow::Owned(timeline), key, horizon)
    }

    fn over(timeline: Cow<'a, Timeline>, key: DrawKey, horizon: Duration) -> Self {
        let routes = timeline.latency.len();
        Self {
            weather: Weather::open(&timeline.incidents, &timeline.outages, routes, key, horizon),
            limiter: Limiter::with_cached(
                &timeline.limits,
                timeline.latency.iter().map(|latency| latency.cached_share),
            ),
            servers: Servers::new(&timeline.latency),
            timeline,
        }
    }

    /// What goes wrong in this run, and when.
    #[must_use]
    pub fn weather(&self) -> &Weather {
        &self.weather
    }

    /// Makes an attempt. Attempts come in the order of time. Whether its answer is streamed is drawn.
    pub fn attempt(&mut self, sent: &Attempted) -> Answered {
        let stream = happens(lane(sent.bits, lane::STREAM), self.timeline.streamed);
        self.attempt_as(sent, stream)
    }

    /// The same for a caller who says whether the answer is to be streamed.
    #[inline]
    pub fn attempt_as(&mut self, sent: &Attempted, stream: bool) -> Answered {
        let index = usize::from(sent.route.0);
        let limits = sent.limits.clipped(PATIENCE_MAX);
        let mut slow = 1.0;
        let mut slowed_by = Cause::Patience;
        let mut cut: Option<Cause> = None;
        let overhead = self.servers.overhead(index);
        let conditions = self.weather.at(sent.route, sent.at);
        for (number, effect) in conditions.active {
            let purpose = lane::INCIDENT ^ conditions.coins[usize::from(*number)];
            match effect {
                Effect::Fail { kind, share } if happens(lane(sent.bits, purpose), *share) => {
                    return failed(
                        sent,
                        *kind,
                        stream,
                        limits,
                        overhead,
                        Cause::Incident(*number),
                    );
                }
                Effect::Fail { .. } => {}
                Effect::Slow { factor } => {
                    slow *= factor;
                    slowed_by = Cause::Incident(*number);
                }
                Effect::Cut { share } => {
                    if happens(lane(sent.bits, purpose), *share) {
                        cut.get_or_insert(Cause::Incident(*number));
                    }
                }
            }
        }
        // Unknown lengths are not none: limits count them as the servers do.
        let latency = &self.timeline.latency[index];
        let input = Tokens::new(sent.input.get().unwrap_or(latency.unknown_input));
        let output = Tokens::new(sent.output.get().unwrap_or(latency.unknown_output));
        let refused = self
            .limiter
            .admit(sent.route, sent.at, input, output, sent.cap);
        if let Err(refusal) = refused {
            // Headers have whole milliseconds, and a wait is never shortened.
            let hint = refusal
                .retry_after
                .map(|wait| Duration(wait.0.div_ceil(1_000).saturating_mul(1_000)));
            return Answered {
                started_at: sent.at,
                shown_at: None,
                ended_at: sent.at.after(overhead),
                fault: Some(Fault {
                    kind: FaultKind::RateLimit,
                    retry_after: hint,
                    usage: None,
                }),
                cause: Cause::Limit(refusal.limit, refusal.dimension),
            };
        }
        let chances = &self.timeline.chances[index];
        if let Some(kind) = chances.fate(lane(sent.bits, lane::CHANCE)) {
            return failed(sent, kind, stream, limits, overhead, Cause::Chance);
        }
        if chances.breaks_off(lane(sent.bits, lane::CUT)) {
            cut.get_or_insert(Cause::Chance);
        }
        let timing = self.servers.serve(
            index,
            &Work {
                at: sent.at,
                input: sent.input,
                output: sent.output,
                slow,
                lanes: mix64(sent.bits ^ lane::SERVICE),
                limits,
                stream,
                breaks: cut.map(|_| lane(sent.bits, lane::WHERE)),
            },
        );
        let fault = |kind| {
            Some(Fault {
                kind,
                retry_after: None,
                usage: None,
            })
        };
        let (fault, cause) = match timing.ending {
            Ending::Complete => (None, Cause::None),
            Ending::BrokeOff => (fault(FaultKind::Server), cut.unwrap_or(Cause::None)),
            Ending::HungUp | Ending::LeftQueue => (fault(FaultKind::Timeout), slowed_by),
        };
        // Of a whole answer nothing is seen unless all of it is.
        let shown_at = if stream {
            (timing.first_token <= timing.over).then_some(timing.first_token)
        } else {
            fault.is_none().then_some(timing.over)
        };
        Answered {
            started_at: if timing.ending == Ending::LeftQueue {
                sent.at
            } else {
                timing.started
            },
            shown_at,
            ended_at: timing.over,
            fault,
            cause,
        }
    }
}

/// An attempt that no server takes up.
fn failed(
    sent: &Attempted,
    kind: FaultKind,
    stream: bool,
    limits: Limits,
    overhead: Duration,
    cause: Cause,
) -> Answered {
    let after = match kind {
        // Nothing comes back until the caller hangs up.
        FaultKind::Timeout if stream => limits.ttft.min(limits.attempt),
        FaultKind::Timeout => limits.attempt,
        _ => overhead,
    };
    Answered {
        started_at: sent.at,
        shown_at: None,
        ended_at: sent.at.after(after.min(limits.attempt)),
        fault: Some(Fault {
            kind,
            retry_after: None,
            usage: None,
        }),
        cause,
    }
}
