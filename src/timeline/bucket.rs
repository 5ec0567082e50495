//! A token bucket with continuous refill, in whole numbers.

use crate::units::{Duration, Instant};

/// Microseconds of a minute: a bucket's content is counted in units of which one token has so many, so that
/// a rate of n tokens a minute adds exactly n units in a microsecond.
const UNITS: u128 = 60_000_000;

/// A bucket that fills by a fixed rate up to its capacity. What is taken must be there whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens a minute.
    per_min: u64,
    /// Units.
    capacity: u128,
    /// Units, as of `at`.
    level: u128,
    at: Instant,
}

impl Bucket {
    /// A full bucket that fills by `per_min` tokens a minute up to `capacity` tokens.
    #[must_use]
    pub fn new(per_min: u64, capacity: u64) -> Self {
        let capacity = u128::from(capacity) * UNITS;
        Self {
            per_min,
            capacity,
            level: capacity,
            at: Instant::ZERO,
        }
    }

    /// Lets time pass.
    fn fill(&mut self, now: Instant) {
        let passed = now.since(self.at);
        self.at = self.at.max(now);
        let added = u128::from(self.per_min) * u128::from(passed.0);
        self.level = self.capacity.min(self.level + added);
    }

    /// How long until `tokens` are there; zero if they are, `None` if they never will be.
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
        let micros = missing.div_ceil(u128::from(self.per_min));
        Some(Duration(u64::try_from(micros).unwrap_or(u64::MAX)))
    }

    /// Takes `tokens` if they are there.
    pub fn take(&mut self, tokens: u64, now: Instant) -> bool {
        self.fill(now);
        let wanted = u128::from(tokens) * UNITS;
        let there = wanted <= self.level;
        if there {
            self.level -= wanted;
        }
        there
    }
}
