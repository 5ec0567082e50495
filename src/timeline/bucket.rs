//! A token bucket with continuous refill, in whole numbers.
//!
//! This is the algorithm that providers describe for their limits a minute: an allowance that fills all the
//! time instead of being handed out when the minute turns. All arithmetic is exact, for every rate,
//! capacity and time that 64 bits can hold, so a bucket never drifts and never depends on how often
//! it was looked at. It is the same rule as the generic cell rate algorithm (ITU-T I.371), which counts
//! in time where a bucket counts in tokens; the tests compare the two.

use crate::units::{Duration, Instant};

/// Microseconds of a minute: a bucket's content is counted in units of which one token has so many, so that
/// a rate of n tokens a minute adds exactly n units in a microsecond.
const UNITS: u128 = 60_000_000;

/// A bucket that fills by a fixed rate up to its capacity. What is taken must be there whole. Times
/// must not run backwards; a time before the last one counts as the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens a minute.
    per_min: u64,
    /// As of when `level` is.
    at: Instant,
    /// Units.
    capacity: u128,
    /// Units, at most `capacity`.
    level: u128,
}

impl Bucket {
    /// A full bucket that fills by `per_min` tokens a minute up to `capacity` tokens.
    #[must_use]
    pub const fn new(per_min: u64, capacity: u64) -> Self {
        Self::of_units(per_min, capacity as u128 * UNITS)
    }

    /// A full bucket that fills by `per_min` tokens a minute up to what comes in over `window`, which need
    /// not be a whole number of tokens: 90 a minute over a second are one and a half.
    #[must_use]
    pub const fn over(per_min: u64, window: Duration) -> Self {
        Self::of_units(per_min, per_min as u128 * window.0 as u128)
    }

    const fn of_units(per_min: u64, capacity: u128) -> Self {
        Self {
            per_min,
            at: Instant::ZERO,
            capacity,
            level: capacity,
        }
    }

    /// Most tokens that can be taken at once: the capacity without a broken part.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        whole(self.capacity)
    }

    /// Whole tokens that are there.
    #[must_use]
    pub fn level(&mut self, now: Instant) -> u64 {
        self.fill(now);
        whole(self.level)
    }

    /// Lets time pass.
    #[inline(always)]
    fn fill(&mut self, now: Instant) {
        let passed = now.since(self.at);
        self.at = self.at.max(now);
        // The product of two 64-bit numbers fits; the sum need not.
        let added = u128::from(self.per_min) * u128::from(passed.0);
        self.level = self.capacity.min(self.level.saturating_add(added));
    }

    /// Whether `tokens` are there.
    #[must_use]
    #[inline(always)]
    pub fn has(&mut self, tokens: u64, now: Instant) -> bool {
        self.fill(now);
        u128::from(tokens) * UNITS <= self.level
    }

    /// How long until `tokens` are there if nobody takes any: zero if they are, `None` if they never will
    /// be. It is exact: a microsecond earlier they are not there.
    #[must_use]
    pub fn wait(&mut self, tokens: u64, now: Instant) -> Option<Duration> {
        self.fill(now);
        let wanted = u128::from(tokens) * UNITS;
        if wanted <= self.level {
            return Some(Duration::ZERO);
        }
        if wanted > self.capacity || self.per_min == 0 {
            return None;
        }
        let missing = wanted - self.level;
        // Division of 64-bit numbers is several times as fast, and nearly always enough.
        let micros = match u64::try_from(missing) {
            Ok(missing) => missing.div_ceil(self.per_min),
            Err(_) => u64::try_from(missing.div_ceil(u128::from(self.per_min))).ok()?,
        };
        // At the end of time nothing comes any more.
        now.0.checked_add(micros).map(|_| Duration(micros))
    }

    /// Takes `tokens` if they are there.
    #[inline(always)]
    pub fn take(&mut self, tokens: u64, now: Instant) -> bool {
        let there = self.has(tokens, now);
        if there {
            self.spend(tokens);
        }
        there
    }

    /// Takes what [`Bucket::has`] has just found there.
    #[inline(always)]
    pub(super) fn spend(&mut self, tokens: u64) {
        self.level = self.level.saturating_sub(u128::from(tokens) * UNITS);
    }

    /// Takes up to `tokens`: as much as is there, broken parts included.
    pub fn drain(&mut self, tokens: u64, now: Instant) {
        self.fill(now);
        self.level = self.level.saturating_sub(u128::from(tokens) * UNITS);
    }
}

const fn whole(units: u128) -> u64 {
    let tokens = units / UNITS;
    if tokens > u64::MAX as u128 {
        u64::MAX
    } else {
        tokens as u64
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use governor::clock::{Clock as _, FakeRelativeClock};
    use governor::{Quota, RateLimiter};
    use proptest::prelude::*;

    use super::*;

    fn real(micros: u64) -> std::time::Duration {
        std::time::Duration::from_micros(micros)
    }

    /// How long until the next take.
    #[derive(Clone, Copy, Debug)]
    enum Gap {
        Micros(u64),
        /// As long as the bucket says,
        UntilThere,
        /// and a microsecond less.
        JustBefore,
    }

    /// Runs the same takes through a bucket and through `governor`, and returns how many were granted
    /// by both before the first one on which they differ, with the bucket's wait there.
    ///
    /// The correspondence: a bucket of capacity B at n a minute is a GCRA with emission interval
    /// t = 60 s/n and tolerance (B − 1)·t, and its theoretical arrival time is the moment at which the bucket
    /// is full again. So k tokens are there if and only if GCRA lets k cells in. `governor` counts t in
    /// whole nanoseconds, rounded down: where 60·10⁹/n is whole the two are the same function;
    /// elsewhere its buckets fill by less than a nanosecond a token too fast.
    fn compare(
        per_min: u32,
        burst: u32,
        steps: &[(Gap, u32)],
    ) -> Result<(u64, Option<Option<Duration>>), TestCaseError> {
        let clock = FakeRelativeClock::default();
        let rate = NonZeroU32::new(per_min).unwrap();
        let quota = Quota::per_minute(rate).allow_burst(NonZeroU32::new(burst).unwrap());
        let reference = RateLimiter::direct_with_clock(quota, clock.clone());
        let mut bucket = Bucket::new(u64::from(per_min), u64::from(burst));
        let mut now = Instant::ZERO;
        let mut granted = 0;
        for &(gap, cells) in steps {
            let wait = bucket.wait(u64::from(cells), now).map_or(0, |wait| wait.0);
            let gap_us = match gap {
                Gap::Micros(gap_us) => gap_us,
                Gap::UntilThere => wait,
                Gap::JustBefore => wait.saturating_sub(1),
            };
            clock.advance(real(gap_us));
            now = now.after(Duration(gap_us));
            let wait = bucket.wait(u64::from(cells), now);
            let ours = bucket.take(u64::from(cells), now);
            prop_assert_eq!(wait == Some(Duration::ZERO), ours);
            match reference.check_n(NonZeroU32::new(cells).unwrap()) {
                Err(_) => {
                    prop_assert!(!ours && wait.is_none(), "{} of {} fit", cells, burst);
                }
                Ok(Ok(())) if ours => granted += u64::from(cells),
                Ok(Err(refused)) if !ours => {
                    let theirs = refused.wait_time_from(clock.now()).as_nanos();
                    let ours = u128::from(wait.unwrap().0);
                    // Whole microseconds are never shorter than the nanoseconds, and longer by less than
                    // one and what `governor` gained.
                    let gained = u128::from(granted + u64::from(burst));
                    prop_assert!(
                        theirs <= ours * 1_000 && ours * 1_000 < theirs + 1_000 + gained,
                        "{} µs, {} ns",
                        ours,
                        theirs
                    );
                }
                Ok(Ok(())) => return Ok((granted, Some(wait))),
                Ok(Err(_)) => prop_assert!(false, "granted what governor refuses"),
            }
        }
        Ok((granted, None))
    }

    fn steps() -> impl Strategy<Value = Vec<(Gap, u32)>> {
        let gap = prop_oneof![
            Just(Gap::Micros(0)),
            (1..2_000_u64).prop_map(Gap::Micros),
            (1..200_000_000_u64).prop_map(Gap::Micros),
            Just(Gap::UntilThere),
            Just(Gap::JustBefore),
        ];
        prop::collection::vec((gap, 1..40_u32), 1..300)
    }

    proptest! {
        #[test]
        fn a_bucket_is_governors_where_a_nanosecond_divides_the_interval(
            exponents in (0..=11_u32, 0..=1_u32, 0..=10_u32), burst in 1..100_u32, steps in steps(),
        ) {
            // 60·10⁹ = 2¹¹·3·5¹⁰: its divisors that are rates of 32 bits.
            let (two, three, five) = exponents;
            let rate = 2_u64.pow(two) * 3_u64.pow(three) * 5_u64.pow(five);
            let rate = u32::try_from(rate).unwrap_or(60_000);
            let (_, differs) = compare(rate, burst, &steps)?;
            prop_assert_eq!(differs, None);
        }

        #[test]
        fn elsewhere_they_differ_by_less_than_a_nanosecond_for_each_token(
            per_min in 1..2_000_000_u32, burst in 1..100_u32, steps in steps(),
        ) {
            let (granted, differs) = compare(per_min, burst, &steps)?;
            if let Some(wait) = differs {
                // What is missing when they first differ: a nanosecond for each token that was ever
                // refilled or is still to be, in whole microseconds.
                let bound = (granted + u64::from(burst)).div_ceil(1_000);
                prop_assert!(wait.unwrap().0 <= bound, "{:?} after {}", wait, granted);
            }
        }

        #[test]
        fn after_the_wait_the_take_succeeds_and_a_microsecond_earlier_it_does_not(
            per_min: u64, capacity: u64, start: u64,
            takes in prop::collection::vec((0..=u64::MAX, 0..5_000_000_u64), 0..20),
            wanted: u64, small: bool,
        ) {
            // Small numbers, too, so that not nearly all buckets are full or wants too large.
            let scale = |n: u64| if small { n % 1_000 } else { n };
            let mut bucket = Bucket::new(scale(per_min), scale(capacity));
            let mut now = Instant(if small { start % (1 << 40) } else { start });
            for (tokens, gap) in takes {
                bucket.take(scale(tokens) / 4, now);
                now = now.after(Duration(gap));
            }
            let wanted = scale(wanted);
            match bucket.wait(wanted, now) {
                None => {
                    let end = Instant(u64::MAX);
                    prop_assert!(!bucket.take(wanted, end));
                }
                Some(wait) => {
                    prop_assert!(now.0.checked_add(wait.0).is_some());
                    if wait > Duration::ZERO {
                        prop_assert!(!bucket.clone().take(wanted, now.after(Duration(wait.0 - 1))));
                    }
                    prop_assert!(bucket.take(wanted, now.after(wait)));
                }
            }
        }

        #[test]
        fn looking_changes_nothing(
            per_min in 0..10_000_u64, capacity in 0..1_000_u64,
            steps in prop::collection::vec((0..3_000_000_u64, 0..300_u64, any::<bool>()), 1..100),
        ) {
            let mut watched = Bucket::new(per_min, capacity);
            let mut alone = watched;
            let mut now = Instant::ZERO;
            for (gap, tokens, take) in steps {
                now = now.after(Duration(gap));
                let _ = (watched.wait(tokens, now), watched.level(now), watched.has(tokens, now));
                if take {
                    prop_assert_eq!(watched.take(tokens, now), alone.take(tokens, now));
                }
            }
            prop_assert_eq!(watched.level(now), alone.level(now));
        }

        #[test]
        fn no_input_overflows(
            per_min: u64, window: u64, times in prop::collection::vec(any::<(u64, u64)>(), 1..20),
        ) {
            for mut bucket in [Bucket::new(per_min, window), Bucket::over(per_min, Duration(window))] {
                for &(now, tokens) in times.iter().chain(&[(u64::MAX, u64::MAX)]) {
                    let now = Instant(now);
                    let wait = bucket.wait(tokens, now);
                    prop_assert_eq!(bucket.take(tokens, now), wait == Some(Duration::ZERO));
                    bucket.drain(tokens / 2, now);
                    prop_assert!(bucket.level <= bucket.capacity);
                }
            }
        }
    }

    #[test]
    fn the_largest_bucket_stays_full_for_ever() {
        let mut bucket = Bucket::over(u64::MAX, Duration::MAX);
        assert_eq!(bucket.level(Instant(u64::MAX)), u64::MAX);
        assert_eq!(bucket.level, bucket.capacity);
        assert!(bucket.take(u64::MAX, Instant(u64::MAX)));
    }

    #[test]
    fn a_limit_of_six_hundred_a_minute_over_a_second_is_ten_a_second() {
        let mut bucket = Bucket::over(600, Duration::from_secs(1));
        assert_eq!(bucket.capacity(), 10);
        for second in 0..5 {
            let now = Instant(second * 1_000_000);
            let granted = (0..100).filter(|_| bucket.take(1, now)).count();
            assert_eq!(granted, 10, "second {second}");
            assert_eq!(bucket.wait(1, now), Some(Duration::from_millis(100)));
        }
    }

    #[test]
    fn the_broken_part_of_a_capacity_is_kept() {
        // One and a half tokens: after the first, half of one is there, and the other half takes 1/3 s.
        let mut bucket = Bucket::over(90, Duration::from_secs(1));
        assert_eq!(bucket.capacity(), 1);
        assert!(bucket.take(1, Instant::ZERO));
        assert_eq!(bucket.wait(1, Instant::ZERO), Some(Duration(333_334)));
        assert_eq!(bucket.wait(2, Instant::ZERO), None);
    }

    #[test]
    fn what_never_fills_never_promises() {
        let mut bucket = Bucket::new(0, 3);
        assert!(bucket.take(3, Instant::ZERO));
        assert_eq!(bucket.wait(1, Instant(u64::MAX)), None);
        assert_eq!(bucket.wait(0, Instant(u64::MAX)), Some(Duration::ZERO));
    }

    #[test]
    fn draining_takes_what_is_there() {
        let mut bucket = Bucket::new(60, 2);
        bucket.drain(5, Instant::ZERO);
        assert_eq!(bucket.wait(1, Instant::ZERO), Some(Duration::from_secs(1)));
        bucket.drain(1, Instant(500_000));
        assert_eq!(
            bucket.wait(1, Instant(500_000)),
            Some(Duration::from_secs(1))
        );
    }
}
