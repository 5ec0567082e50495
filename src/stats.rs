//! Sums in, estimates out: integer tallies, and the intervals computed from them.
//!
//! A [`Tally`] holds no float, so merging tallies in any order gives the same bytes. An [`Estimate`]
//! is the only kind of number a report prints: a value with its interval, level, n and method.

mod tally;

pub use tally::{PairTally, Tally, Unserved};

/// A number with what is needed to judge it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The point estimate; `None` when the data cannot tell (unknown is not zero).
    pub value: Option<f64>,
    /// Lower limit of the interval.
    pub low: Option<f64>,
    /// Upper limit of the interval.
    pub high: Option<f64>,
    /// Two-sided confidence level of the interval, such as 0.95.
    pub level: f64,
    /// Observations behind it.
    pub n: u64,
    /// How the interval was computed: `wilson`, `tango`, `normal`, `wald`, …
    pub method: &'static str,
}
