//! The expected rate of arrivals over time, and the way from operational time back to real time.
//!
//! A [`Curve`] is a mean rate, times a daily curve, times the factors of the bursts that last. The daily
//! curve is a sine drawn as a polygon with a corner each minute: at its corners it is exact, so are its
//! highest and its lowest point and its mean, and between corners it is off by less than 3·10⁻⁶ of the mean.
//! Of a polygon the cumulative rate is piecewise quadratic and is inverted in closed form. A [`Walk`] goes
//! along it segment by segment.

use std::sync::Arc;

use crate::units::{Duration, Instant};

/// Microseconds of a day.
pub(super) const DAY: u64 = 86_400_000_000;
/// Microseconds of a minute.
const MINUTE: u64 = 60_000_000;
/// Corners of the daily curve.
const CORNERS: usize = 1_440;

/// A daily curve with mean 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Daily {
    /// Time of day of the highest rate, in microseconds; below [`DAY`].
    peak_at: u64,
    /// Levels at the corners, minute by minute from the peak on.
    levels: Arc<[f64]>,
    /// Integral of the level from the peak to each corner, and over the whole day at the end: microseconds.
    sums: Arc<[f64]>,
}

impl Daily {
    /// A sine over 24 hours whose highest rate is `peak_to_trough` times its lowest; at least 1.
    pub(super) fn new(peak_to_trough: f64, peak_at: Duration) -> Self {
        let swing = (peak_to_trough - 1.0) / (peak_to_trough + 1.0);
        let level = |corner: usize| {
            let angle = corner as f64 * (2.0 * std::f64::consts::PI / CORNERS as f64);
            1.0 + swing * libm::cos(angle)
        };
        // The second half of the day mirrors the first, to the last bit.
        let levels: Vec<f64> = (0..CORNERS)
            .map(|corner| level(corner.min(CORNERS - corner)))
            .collect();
        let mut sums = vec![0.0];
        let mut sum = 0.0;
        for corner in 0..CORNERS {
            sum += 0.5 * (levels[corner] + levels[(corner + 1) % CORNERS]) * MINUTE as f64;
            sums.push(sum);
        }
        Self {
            peak_at: peak_at.0 % DAY,
            levels: levels.into(),
            sums: sums.into(),
        }
    }

    /// The corner before a moment, and the time since then.
    fn place(&self, at: u64) -> (usize, u64) {
        let phase = (at % DAY + DAY - self.peak_at) % DAY;
        ((phase / MINUTE) as usize, phase % MINUTE)
    }

    /// Level at a moment, its rise in a microsecond, and how long it rises like that.
    fn segment(&self, at: u64) -> (f64, f64, u64) {
        let (corner, since) = self.place(at);
        let from = self.levels[corner];
        let slope = (self.levels[(corner + 1) % CORNERS] - from) / MINUTE as f64;
        (from + slope * since as f64, slope, MINUTE - since)
    }

    /// Integral of the level over the first `at` microseconds.
    fn integral(&self, at: u64) -> f64 {
        self.since_peak(at) - self.since_peak(0)
    }

    /// Integral of the level from the last peak before time zero to `at`.
    fn since_peak(&self, at: u64) -> f64 {
        let (corner, since) = self.place(at);
        // The last peak before zero lies less than a day before it.
        let days = at / DAY + u64::from(at % DAY >= self.peak_at);
        let from = self.levels[corner];
        let rise = self.levels[(corner + 1) % CORNERS] - from;
        let since = since as f64;
        let part = since * (from + 0.5 * rise / MINUTE as f64 * since);
        days as f64 * self.sums[CORNERS] + self.sums[corner] + part
    }
}

/// A time from which on the rate is multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Edge {
    at: u64,
    factor: f64,
    /// Arrivals expected before.
    before: f64,
}

/// For a while the rate is multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Burst {
    /// From when.
    pub(super) at: Instant,
    /// For how long; above zero.
    pub(super) length: Duration,
    /// How many times the rate; zero silences it.
    pub(super) factor: f64,
}

/// An expected rate over time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    /// Arrivals in a microsecond, in the mean of a day without bursts.
    rate: f64,
    daily: Option<Daily>,
    /// The first is at zero.
    edges: Vec<Edge>,
}

impl Curve {
    /// `rate_per_s` above zero; factors of bursts that overlap are multiplied.
    pub(super) fn new(rate_per_s: f64, daily: Option<Daily>, bursts: &[Burst]) -> Self {
        let until = |burst: &Burst| burst.at.after(burst.length).0;
        let mut times: Vec<u64> = bursts
            .iter()
            .flat_map(|burst| [burst.at.0, until(burst)])
            .chain([0])
            .collect();
        times.sort_unstable();
        times.dedup();
        let factor = |at: u64| -> f64 {
            let lasting = bursts.iter().filter(|b| b.at.0 <= at && at < until(b));
            lasting.map(|burst| burst.factor).product()
        };
        let mut curve = Self {
            rate: rate_per_s * 1e-6,
            daily,
            edges: Vec::with_capacity(times.len()),
        };
        for at in times {
            let before = curve.cumulative(Instant(at));
            let factor = factor(at);
            curve.edges.push(Edge { at, factor, before });
        }
        curve
    }

    /// Arrivals in a second, in the mean of a day without bursts.
    pub(super) fn mean_per_s(&self) -> f64 {
        self.rate * 1e6
    }

    /// The highest rate of all times over the mean.
    pub(super) fn highest_factor(&self) -> f64 {
        let factors = self.edges.iter().map(|edge| edge.factor);
        factors.fold(0.0, f64::max)
    }

    /// Arrivals expected before a moment.
    pub(super) fn cumulative(&self, at: Instant) -> f64 {
        let after = self.edges.partition_point(|edge| edge.at <= at.0);
        let Some(edge) = after.checked_sub(1).map(|last| self.edges[last]) else {
            return 0.0;
        };
        edge.before + edge.factor * self.rate * (self.integral(at.0) - self.integral(edge.at))
    }

    /// Integral of the daily level.
    fn integral(&self, at: u64) -> f64 {
        match &self.daily {
            Some(daily) => daily.integral(at),
            None => at as f64,
        }
    }

    /// Times at which bursts begin and end.
    pub(super) fn edges(&self) -> impl Iterator<Item = Instant> {
        self.edges.iter().skip(1).map(|edge| Instant(edge.at))
    }

    /// Whether the rate depends on the time of day.
    pub(super) const fn is_daily(&self) -> bool {
        self.daily.is_some()
    }

    /// Walks along from time zero.
    pub(super) fn walk(&self) -> Walk<'_> {
        let mut walk = Walk {
            curve: self,
            edge: 0,
            start: 0,
            end: 0,
            from: 0.0,
            slope: 0.0,
            inverse: 0.0,
            mass: 0.0,
            done: 0.0,
        };
        walk.enter();
        walk
    }
}

/// A place on a curve that only moves forwards.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    curve: &'a Curve,
    /// The last edge passed.
    edge: usize,
    /// The segment, in microseconds.
    start: u64,
    end: u64,
    /// Rate at the start of the segment, its rise in a microsecond, and for a constant rate its inverse.
    from: f64,
    slope: f64,
    inverse: f64,
    /// Arrivals expected in the segment.
    mass: f64,
    /// Operational time since the start of the segment.
    done: f64,
}

impl Walk<'_> {
    /// Goes on by `units` of operational time and says when that is; the end of time if never.
    #[inline]
    pub(super) fn pass(&mut self, units: f64) -> u64 {
        self.done += units;
        if self.done >= self.mass && !self.leave() {
            return u64::MAX;
        }
        let since = if self.slope == 0.0 {
            self.done * self.inverse
        } else {
            // The root of from·x + slope·x²/2 = done that does not cancel.
            let root = (self.from * self.from + 2.0 * self.slope * self.done).max(0.0);
            2.0 * self.done / (self.from + root.sqrt())
        };
        (self.start.saturating_add(since as u64)).min(self.end)
    }

    /// Leaves segments behind until what is done lies within one; false at the end of time.
    fn leave(&mut self) -> bool {
        while self.done >= self.mass {
            if self.end == u64::MAX {
                return false;
            }
            self.done -= self.mass;
            self.start = self.end;
            self.skip_days();
            self.enter();
        }
        true
    }

    fn next_edge(&self) -> u64 {
        let next = self.curve.edges.get(self.edge + 1);
        next.map_or(u64::MAX, |edge| edge.at)
    }

    /// Whole days at once, where nothing but the daily curve changes.
    fn skip_days(&mut self) {
        if self.next_edge() <= self.start {
            return;
        }
        let day = match &self.curve.daily {
            Some(daily) => daily.sums[CORNERS],
            None => DAY as f64,
        };
        let mass = day * self.curve.rate * self.curve.edges[self.edge].factor;
        let room = (self.next_edge() - self.start) / DAY;
        if self.done < mass || room == 0 || mass == 0.0 {
            return;
        }
        // A float-to-integer `as` saturates.
        let days = ((self.done / mass) as u64).min(room);
        self.done = (self.done - days as f64 * mass).max(0.0);
        self.start = self.start.saturating_add(days.saturating_mul(DAY));
    }

    /// Sets up the segment that begins at `start`.
    fn enter(&mut self) {
        while self.next_edge() <= self.start {
            if self.edge + 1 == self.curve.edges.len() {
                break;
            }
            self.edge += 1;
        }
        let factor = self.curve.edges[self.edge].factor;
        if factor == 0.0 {
            self.end = self.next_edge();
            (self.from, self.slope, self.mass) = (0.0, 0.0, 0.0);
            return;
        }
        let (level, slope, length) = match &self.curve.daily {
            Some(daily) => daily.segment(self.start),
            None => (1.0, 0.0, DAY),
        };
        let rate = self.curve.rate * factor;
        (self.from, self.slope) = (level * rate, slope * rate);
        self.inverse = 1.0 / self.from;
        self.end = self.start.saturating_add(length).min(self.next_edge());
        let length = (self.end - self.start) as f64;
        self.mass = length * (self.from + 0.5 * self.slope * length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = 3_600_000_000;

    fn hours(hours: f64) -> Duration {
        Duration::from_secs_f64(hours * 3_600.0)
    }

    #[test]
    fn peak_over_trough_and_the_mean_of_a_day_are_what_was_declared() {
        for (ratio, peak_h) in [(9.9, 15.0), (1.0, 0.0), (2.7, 23.99), (400.0, 6.5)] {
            let daily = Daily::new(ratio, hours(peak_h));
            let highest = daily.levels.iter().copied().fold(f64::MIN, f64::max);
            let lowest = daily.levels.iter().copied().fold(f64::MAX, f64::min);
            assert!((highest / lowest / ratio - 1.0).abs() < 1e-12, "{ratio}");
            let peak = daily.segment(hours(peak_h).0).0;
            assert!((peak / highest - 1.0).abs() < 1e-12);
            let trough = daily.segment((hours(peak_h).0 + DAY / 2) % DAY).0;
            assert!((trough / lowest - 1.0).abs() < 1e-12);
            let curve = Curve::new(5.0, Some(daily), &[]);
            for day in 1..4 {
                let expected = 5.0 * 86_400.0 * day as f64;
                let found = curve.cumulative(Instant(day * DAY));
                assert!((found / expected - 1.0).abs() < 1e-12, "{ratio} {found}");
            }
        }
    }

    #[test]
    fn the_cumulative_rate_is_that_of_a_sine() {
        let (ratio, peak) = (9.9, hours(15.25));
        let curve = Curve::new(2.0, Some(Daily::new(ratio, peak)), &[]);
        let omega = 2.0 * std::f64::consts::PI / 86_400.0;
        let swing = (ratio - 1.0) / (ratio + 1.0);
        let shift = peak.as_secs_f64();
        for minute in 0..3_000 {
            let t = f64::from(minute) * 61.7;
            let sine = swing / omega * ((omega * (t - shift)).sin() + (omega * shift).sin());
            let expected = 2.0 * (t + sine);
            let found = curve.cumulative(Instant::ZERO.after(Duration::from_secs_f64(t)));
            assert!((found - expected).abs() < 0.1, "{t}: {found} {expected}");
        }
    }

    #[test]
    fn bursts_multiply_where_they_overlap_and_end_when_they_should() {
        let burst = |from_h: u64, hours: u64, factor: f64| Burst {
            at: Instant(from_h * HOUR),
            length: Duration(hours * HOUR),
            factor,
        };
        let bursts = [burst(1, 2, 5.0), burst(2, 2, 3.0), burst(10, 1, 0.0)];
        let curve = Curve::new(1.0, None, &bursts);
        let per_hour: Vec<f64> = (0..12)
            .map(|hour| {
                let at = |hour: u64| curve.cumulative(Instant(hour * HOUR));
                (at(hour + 1) - at(hour)) / 3_600.0
            })
            .collect();
        let expected = [1.0, 5.0, 15.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0];
        for (found, expected) in per_hour.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{per_hour:?}");
        }
        assert_eq!(curve.highest_factor(), 15.0);
    }

    #[test]
    fn silence_for_ever_ends_the_walk_and_long_waits_do_not_take_long() {
        let silent = Burst {
            at: Instant(HOUR),
            length: Duration::MAX,
            factor: 0.0,
        };
        let curve = Curve::new(1.0, None, &[silent]);
        let mut walk = curve.walk();
        assert_eq!(walk.pass(3_599.0), 3_599_000_000);
        assert_eq!(walk.pass(2.0), u64::MAX);
        // A million years, minute by minute, would not end.
        let slow = Curve::new(1e-6, Some(Daily::new(9.9, hours(15.0))), &[]);
        let at = slow.walk().pass(86_400.0 * 365.0 * 1e-6 * 500_000.0);
        assert!((at as f64 / (DAY as f64 * 365.0 * 500_000.0) - 1.0).abs() < 1e-9);
        assert_eq!(slow.walk().pass(1e12), u64::MAX);
    }

    proptest! {
        #[test]
        fn a_walk_inverts_the_cumulative_rate(
            rate in 0.001..50.0_f64, ratio in 1.0..50.0_f64, peak_h in 0.0..24.0_f64, flat: bool,
            bursts in prop::collection::vec((0..200_000_u64, 1..90_000_u64, 0.0..9.0_f64), 0..4),
            gaps in prop::collection::vec(0.0..4_000.0_f64, 1..60),
        ) {
            let bursts: Vec<Burst> = bursts.iter().map(|&(at, length, factor)| Burst {
                at: Instant(at * 1_000_003), length: Duration(length * 999_999), factor,
            }).collect();
            let daily = (!flat).then(|| Daily::new(ratio, hours(peak_h)));
            let curve = Curve::new(rate, daily, &bursts);
            let mut walk = curve.walk();
            let (mut total, mut last) = (0.0, 0);
            for gap in gaps {
                total += gap;
                let at = walk.pass(gap);
                prop_assert!(at >= last);
                last = at;
                // What is expected before this microsecond, and before the next: the place lies between.
                let (low, high) = (curve.cumulative(Instant(at)), curve.cumulative(Instant(at + 1)));
                let slack = 1e-9 * total + 1e-9;
                prop_assert!(low <= total + slack && total <= high + slack, "{low} {total} {high} at {at}");
            }
        }
    }
}
