//! What one contestant went through on a timeline: counts, latencies and a time line, in whole numbers.

use hdrhistogram::Histogram;

use crate::router::{BreakerChange, BreakerState, FaultKind, RouteId};
use crate::timeline::{Dimension, Incident};
use crate::units::{Duration, Instant};

/// Most bins of a time line; what is later is counted in the last one.
pub const BINS_MAX: usize = 10_000;
/// Most changes of breakers that are kept, in order; further ones are only counted.
pub const CHANGES_MAX: usize = 10_000;
/// Longest latency that is told apart from longer ones: a day.
const LATENCY_MAX_US: u64 = 86_400_000_000;

/// How long things took, in microseconds, to three significant digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        // The bounds are within what the crate allows, so that it cannot refuse them.
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3);
        Self(histogram.unwrap_or_else(|error| unreachable!("{error}")))
    }
}

impl Latencies {
    /// Adds one. More than a day counts as a day.
    #[inline]
    pub fn add(&mut self, latency: Duration) {
        self.0.saturating_record(latency.0);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The smallest latency that at least `share` of them do not exceed, to three significant digits;
    /// `None` if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        (self.count() > 0).then(|| Duration(self.0.value_at_quantile(share)))
    }

    /// Mean, to three significant digits; `None` if there are none.
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        (self.count() > 0).then(|| Duration(self.0.mean().round() as u64))
    }
}

/// Each latency that occurred, to three significant digits, and how often.
impl serde::Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let recorded = self.0.iter_recorded();
        serializer.collect_seq(recorded.map(|one| (one.value_iterated_to(), one.count_at_value())))
    }
}

impl<'de> serde::Deserialize<'de> for Latencies {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let recorded = Vec::<(u64, u64)>::deserialize(deserializer)?;
        let mut latencies = Self::default();
        for (latency, count) in recorded {
            latencies.0.saturating_record_n(latency, count);
        }
        Ok(latencies)
    }
}

/// Counts of requests, by when they arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Served by anybody.
    pub served: u64,
    /// Served within the SLO.
    pub in_slo: u64,
    /// Served by a later route because an earlier one of the plan failed or could not be asked.
    pub fallback: u64,
    /// Passed on because a verifier did not accept an answer.
    pub escalated: u64,
    /// Nothing can be said of them: a verifier met an ungraded answer.
    pub undetermined: u64,
    /// Attempts sent for them, mirrored and judging ones not included.
    pub attempts: u64,
    /// Attempts after the first one on the same route.
    pub retries: u64,
    /// Within the SLO on the calm day, and not here. Zero if there was no calm day to compare with.
    pub harmed: u64,
    /// Served on the calm day, and not here.
    pub lost: u64,
    /// Wholly right on the calm day, and not here. Both days must have a grade; nobody served is wrong.
    pub spoilt: u64,
    /// Requests of which it is known on both days what became of them: what harm is a share of.
    pub compared: u64,
    /// Of those, requests whose grade is known on both days.
    pub judged: u64,
}

impl Counts {
    /// Adds another's counts.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            requests,
            served,
            in_slo,
            fallback,
            escalated,
            undetermined,
            attempts,
            retries,
            harmed,
            lost,
            spoilt,
            compared,
            judged,
        } = other;
        for (mine, theirs) in [
            (&mut self.requests, requests),
            (&mut self.served, served),
            (&mut self.in_slo, in_slo),
            (&mut self.fallback, fallback),
            (&mut self.escalated, escalated),
            (&mut self.undetermined, undetermined),
            (&mut self.attempts, attempts),
            (&mut self.retries, retries),
            (&mut self.harmed, harmed),
            (&mut self.lost, lost),
            (&mut self.spoilt, spoilt),
            (&mut self.compared, compared),
            (&mut self.judged, judged),
        ] {
            *mine += theirs;
        }
    }
}

/// Why nobody served a request.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Reason {
    /// Its data may not go where the plan points.
    Residency,
    /// No route of the plan can take it.
    NoCapableRoute,
    /// A rate limit refused it on the last route that could have served: the limit, and what was used up.
    Saturated(u16, Dimension),
    /// Every route that could have served was behind an open breaker or paused.
    Unavailable,
    /// Every route was tried; the last failure.
    Exhausted(FaultKind),
    /// The failure allowed no other route.
    Rejected(FaultKind),
    /// It broke off after output had reached the caller.
    MidStream(FaultKind),
    /// The call's deadline.
    Deadline,
    /// The retry budget was spent.
    RetryBudget,
    /// The account could not pay.
    MoneyBudget,
}

/// Requests of one class that nobody served for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Lost {
    /// Whose: an index into `Timetable::classes`.
    pub class: u16,
    /// Why.
    pub reason: Reason,
    /// How many.
    pub requests: u64,
}

/// One bin of a route's time line, by when attempts were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RouteBin {
    /// Attempts sent to it.
    pub attempts: u64,
    /// Attempts that failed, refused ones included.
    pub failed: u64,
    /// Attempts that a rate limit refused.
    pub refused: u64,
    /// Time to first token, summed over the attempts that brought an answer.
    pub ttft_sum: Duration,
    /// How long its breaker was not closed.
    pub breaker_open: Duration,
    /// Most requests in flight on it at once.
    pub in_flight_max: u32,
}

/// What a route went through. All attempts count here, mirrored and judging ones included.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RoutePassage {
    /// Attempts sent to it.
    pub attempts: u64,
    /// Attempts that failed, by kind, in the order of [`FaultKind::ALL`].
    pub faults: [u64; 10],
    /// Attempts that a rate limit refused, by what was used up.
    pub refused: [u64; 4],
    /// Attempts that an incident failed or cut off.
    pub by_incident: u64,
    /// Attempts on which the caller hung up.
    pub hung_up: u64,
    /// Attempts that failed after output had begun. What providers bill for them is not known.
    pub cut: u64,
    /// Requests whose answer it gave.
    pub served: u64,
    /// Attempts of which the length of the prompt or of the answer is not known: the two sums of tokens then are
    /// not known either.
    pub tokens_unknown: u64,
    /// Prompt tokens of attempts that were let in.
    pub input_tokens: u64,
    /// Answer tokens of attempts that brought an answer.
    pub output_tokens: u64,
    /// Time to first token of attempts that brought an answer, from their sending.
    pub ttft: Latencies,
    /// Time that attempts waited for a server, summed.
    pub queued: Duration,
    /// Times its breaker opened.
    pub opened: u64,
    /// How long its breaker was not closed.
    pub breaker_open: Duration,
    /// The time line.
    pub bins: Vec<RouteBin>,
}

/// A breaker changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Change {
    /// When.
    pub at: Instant,
    /// Whose breaker.
    pub route: RouteId,
    /// How.
    pub change: BreakerChange,
}

/// What one contestant went through in one replicate.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Passage {
    /// From the beginning to the last arrival.
    pub span: Duration,
    /// Width of a bin.
    pub bin: Duration,
    /// All requests.
    pub totals: Counts,
    /// By when they arrived.
    pub bins: Vec<Counts>,
    /// From arrival to the first token that the caller saw, of served requests.
    pub ttft: Latencies,
    /// From arrival to the end of the answer, of served requests.
    pub total: Latencies,
    /// By route of the catalogue.
    pub routes: Vec<RoutePassage>,
    /// Who was not served, and why, by class and reason in order.
    pub unserved: Vec<Lost>,
    /// Changes of breakers, the first [`CHANGES_MAX`] of them.
    pub changes: Vec<Change>,
    /// Changes beyond those.
    pub changes_dropped: u64,
    /// By route: the state of its breaker when everything had come to its end.
    pub breakers: Vec<BreakerState>,
    /// Answers that were paid for and not served, in 10⁻¹² USD.
    pub wasted_cost: u128,
    /// Most calls in flight at once: what memory grows with.
    pub in_flight_max: u64,
    /// Requests that were sent where their data may not go. Always zero.
    pub residency_violations: u64,
}

/// What all contestants of an experiment on a timeline share.
#[derive(Clone, Debug, PartialEq)]
pub struct Timetable {
    /// Names of the rate limits.
    pub limits: Vec<String>,
    /// By what requests need, such as `eu` or `eu, us`: the classes that unserved requests are split by.
    pub classes: Vec<String>,
    /// What went wrong and when, by replicate: scripted incidents and those that were drawn.
    pub incidents: Vec<Vec<Incident>>,
    /// What callers expect.
    pub slo: crate::timeline::Slo,
    /// Whether each contestant also went through a calm day.
    pub has_calm: bool,
}

impl Passage {
    /// The bin that a moment falls into.
    #[must_use]
    #[inline(always)]
    pub fn bin_of(&self, at: Instant) -> usize {
        let bin = at.0 / self.bin.0.max(1);
        (bin as usize).min(BINS_MAX - 1)
    }

    /// Counts a request that nobody served.
    pub(super) fn lose(&mut self, class: u16, reason: Reason) {
        let key = (class, reason);
        match self
            .unserved
            .binary_search_by_key(&key, |lost| (lost.class, lost.reason))
        {
            Ok(found) => self.unserved[found].requests += 1,
            Err(place) => self.unserved.insert(
                place,
                Lost {
                    class,
                    reason,
                    requests: 1,
                },
            ),
        }
    }
}
