//! How long things last: positive random times, and what is left of one that somebody walks in on.

use crate::units::Duration;
use crate::workload::draws::{Block, unit};

/// Lanes of times of health: two to draw from.
pub(super) const LANES_A: [usize; 2] = [0, 1];
/// Lanes of times of outage.
pub(super) const LANES_B: [usize; 2] = [4, 5];

/// A law of how long something lasts. Draws are whole microseconds, at least one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lasting {
    /// Always as long.
    Fixed(Duration),
    /// Exponential: how long it has lasted says nothing about how long it will.
    Exponential {
        /// Mean.
        mean: Duration,
    },
    /// Lognormal.
    Lognormal {
        /// Median.
        p50: Duration,
        /// Standard deviation of the natural logarithm, at least 0.
        sigma: f64,
    },
}

impl Lasting {
    /// Mean, in seconds.
    #[must_use]
    pub fn mean_s(&self) -> f64 {
        match *self {
            Self::Fixed(time) => time.as_secs_f64(),
            Self::Exponential { mean } => mean.as_secs_f64(),
            Self::Lognormal { p50, sigma } => p50.as_secs_f64() * libm::exp(0.5 * sigma * sigma),
        }
    }

    /// Variance, in seconds².
    #[must_use]
    pub fn variance_s2(&self) -> f64 {
        match *self {
            Self::Fixed(_) => 0.0,
            Self::Exponential { mean } => mean.as_secs_f64() * mean.as_secs_f64(),
            Self::Lognormal { sigma, .. } => {
                self.mean_s() * self.mean_s() * libm::expm1(sigma * sigma)
            }
        }
    }

    /// A time, from two lanes.
    pub(super) fn draw(&self, block: &Block, lanes: [usize; 2]) -> Duration {
        micros(match *self {
            Self::Fixed(time) => time.0 as f64,
            Self::Exponential { mean } => mean.0 as f64 * exponential(block[lanes[0]]),
            Self::Lognormal { p50, sigma } => {
                p50.0 as f64 * libm::exp(sigma * normal(block, lanes))
            }
        })
    }

    /// What is left of a time that somebody walks in on, with `part` uniform in (0, 1). The time walked in
    /// on has the length-biased law x·f(x)/E\[X\], and a uniform part of it is left (Cox 1962, section
    /// 5.4). Length-biased, a lognormal time has e^(sigma²) times the median.
    pub(super) fn left(&self, block: &Block, lanes: [usize; 2], part: f64) -> Duration {
        micros(match *self {
            Self::Fixed(time) => time.0 as f64 * part,
            // It has no memory.
            Self::Exponential { mean } => mean.0 as f64 * exponential(block[lanes[0]]),
            Self::Lognormal { p50, sigma } => {
                p50.0 as f64 * libm::exp(sigma * sigma + sigma * normal(block, lanes)) * part
            }
        })
    }
}

fn micros(time_us: f64) -> Duration {
    // A float-to-integer `as` saturates and maps NaN to zero.
    Duration((time_us.round() as u64).max(1))
}

/// Exponential with mean 1, by inversion.
fn exponential(lane: u32) -> f64 {
    -libm::log(unit(lane))
}

/// Standard normal from two lanes (Box & Muller, Annals of Mathematical Statistics 29, 1958).
fn normal(block: &Block, lanes: [usize; 2]) -> f64 {
    let radius = (2.0 * exponential(block[lanes[0]])).sqrt();
    radius * libm::cos(std::f64::consts::TAU * unit(block[lanes[1]]))
}
