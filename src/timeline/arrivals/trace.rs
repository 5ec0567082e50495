//! Recorded arrivals: times as they were, once or again and again.

use crate::units::{Duration, Instant};
use crate::workload::NO_NAME;

/// Times that were recorded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recorded {
    /// In rising order, in microseconds.
    times: Vec<u64>,
    /// Whose each is; empty if the trace does not say.
    tenants: Vec<u16>,
    /// After which time all begins again.
    period: Option<u64>,
}

impl Recorded {
    /// `times` in rising order; `tenants` as many or none. To be repeated, a trace lasts a mean gap longer
    /// than until its last arrival; `None` if that is no time at all.
    pub(super) fn new(times: Vec<u64>, tenants: Vec<u16>, repeat: bool) -> Option<Self> {
        let mut recorded = Self {
            times,
            tenants,
            period: None,
        };
        if repeat {
            recorded.period = Some(recorded.length().filter(|length| *length > 0)?);
        }
        Some(recorded)
    }

    /// From time zero to a mean gap after the last arrival.
    fn length(&self) -> Option<u64> {
        let (first, last) = (*self.times.first()?, *self.times.last()?);
        let gaps = self.times.len() as u64 - 1;
        let gap = (last - first).checked_div(gaps)?;
        (gap > 0).then(|| last.saturating_add(gap))
    }

    /// Arrivals per second between the first and the last.
    pub(super) fn mean_rate_per_s(&self) -> Option<f64> {
        let (first, last) = (*self.times.first()?, *self.times.last()?);
        let span = Duration(last - first).as_secs_f64();
        (span > 0.0).then(|| (self.times.len() - 1) as f64 / span)
    }

    /// When the last arrival comes, unless all begins again.
    pub(super) fn ends(&self) -> Option<Duration> {
        match self.period {
            Some(_) => None,
            None => self.times.last().map(|last| Duration(*last)),
        }
    }

    /// Whether it says whose each arrival is.
    pub(super) fn has_tenants(&self) -> bool {
        !self.tenants.is_empty()
    }

    /// Plays it from time zero.
    pub(super) const fn play(&self) -> Playing<'_> {
        Playing {
            recorded: self,
            next: 0,
            offset: 0,
        }
    }

    /// The start of the window of this length with the most arrivals, starting at `latest` at the latest.
    pub(super) fn busiest(&self, length: Duration, latest: Instant) -> Instant {
        // A second round shows windows that span the seam.
        let rounds = 2 * self.times.len();
        let times: Vec<u64> = self.play().take(rounds).map(|(at, _)| at).collect();
        let mut best = (0, Instant::ZERO);
        let mut after = 0;
        for (index, &at) in times.iter().enumerate() {
            let start = Instant(at).min(latest);
            let before = times[..=index].partition_point(|time| *time < start.0);
            while after < times.len() && Instant(times[after]) < start.after(length) {
                after += 1;
            }
            let count = after.saturating_sub(before);
            if count > best.0 {
                best = (count, start);
            }
            if start == latest {
                break;
            }
        }
        best.1
    }
}

/// A trace that is played.
#[derive(Clone, Debug)]
pub(super) struct Playing<'a> {
    recorded: &'a Recorded,
    next: usize,
    offset: u64,
}

impl Iterator for Playing<'_> {
    /// Time in microseconds, and tenant.
    type Item = (u64, u16);

    #[inline]
    fn next(&mut self) -> Option<(u64, u16)> {
        let times = &self.recorded.times;
        if self.next == times.len() {
            self.offset = self.offset.checked_add(self.recorded.period?)?;
            self.next = 0;
        }
        let at = times.get(self.next)?.checked_add(self.offset)?;
        let tenant = self.recorded.tenants.get(self.next);
        self.next += 1;
        Some((at, tenant.copied().unwrap_or(NO_NAME)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(times: &[u64], repeat: bool) -> Recorded {
        Recorded::new(times.to_vec(), Vec::new(), repeat).unwrap()
    }

    #[test]
    fn a_repeated_trace_goes_on_a_mean_gap_after_its_end() {
        let trace = recorded(&[5, 5, 11], true);
        let times: Vec<u64> = trace.play().map(|(at, _)| at).take(7).collect();
        assert_eq!(times, [5, 5, 11, 19, 19, 25, 33]);
        assert_eq!(trace.ends(), None);
        assert_eq!(trace.mean_rate_per_s(), Some(2.0 / 6e-6));
    }

    #[test]
    fn a_trace_without_length_cannot_be_repeated() {
        for times in [vec![], vec![3], vec![3, 3, 3]] {
            assert_eq!(Recorded::new(times, Vec::new(), true), None);
        }
    }

    #[test]
    fn the_busiest_window_is_the_one_with_the_most_arrivals() {
        let trace = recorded(&[0, 10, 50, 52, 54, 55, 90, 91, 92, 93, 94], false);
        let busiest = |length, latest| trace.busiest(Duration(length), Instant(latest)).0;
        assert_eq!(busiest(6, u64::MAX), 90);
        assert_eq!(busiest(6, 60), 50);
        assert_eq!(busiest(5, 51), 50, "of equal ones the first");
        let late = recorded(&[0, 100, 101, 102], false);
        assert_eq!(late.busiest(Duration(7), Instant(95)).0, 95);
        assert_eq!(busiest(3, 51), 50, "50 and 52, and not 52 alone");
        assert_eq!(busiest(1, 0), 0);
        // Across the seam: 94 + 9 = 103 is a round, so 90..94 and 103 lie in 15.
        let again = recorded(&[0, 10, 50, 52, 54, 55, 90, 91, 92, 93, 94], true);
        assert_eq!(again.busiest(Duration(15), Instant(u64::MAX)).0, 90);
    }
}
