//! From tallies to one estimate: what replicates count for.
//!
//! * Replicates of a synthetic world have their own requests: their tallies are pooled, n is all of
//!   them.
//! * Replicates of recorded traffic share their rows, only the policies' own draws differ. The value is
//!   the pooled mean, and n stays the rows of one replicate. The pooled spread contains the policies'
//!   draws, so the interval is a little wider than it had to be: conservative.
//! * Some policies draw once for many requests: one that learnt from examples was trained anew in each
//!   replicate, and one that sticks to a user decides once for all of a user's requests. Requests of one
//!   replicate share this luck, so they do not average it out; only replicates do.
//!   * In a synthetic world the replicate means are independent observations: a Student interval over
//!     them (`t-replicates`), n is the replicates.
//!   * On recorded rows they share the rows, so their spread is the policy's luck alone. It is added to
//!     that of the rows (`rows+replicates`): variance of the mean = variance over rows / n + variance
//!     between replicates / R. The half width of the second part uses Student's t with R − 1 degrees of
//!     freedom, because R is small, and limits are combined by square-and-add. Draws that are already in
//!     the spread over rows count twice: conservative.
//!   * With a single replicate the interval holds for that one draw only, and a note says so.
//! * Requests that share a clock (`[timeline]`) depend on each other whatever the policy is: one outage,
//!   one open breaker, one empty bucket meets all who come then. They are treated as if the policy drew
//!   once.

use crate::sim::Contestant;
use crate::stats::{
    Estimate, Limits, Moments, Pairs, Ratio, mean_limits, moments, student_two_sided, tango,
    wilson_fraction, z_two_sided,
};

/// The sums that one estimate is made from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Point {
    /// So many of so many.
    Share { hits: u64, of: u64 },
    /// A mean of integers, divided by `unit`, known to lie within `bounds`.
    // Divided, because 10⁻⁹ is no float and 10⁹ is: a price of 1 prints as 1.
    Mean {
        moments: Moments,
        unit: f64,
        bounds: (f64, f64),
        method: &'static str,
    },
    /// A ratio of two sums, divided by `unit`; n requests entered it.
    Ratio { n: u64, ratio: Ratio, unit: f64 },
    /// A difference of two shares on the same requests.
    Paired { pairs: Pairs, n: u64 },
}

impl Point {
    /// `hits` of `of`; nothing if nothing was looked at.
    pub(super) fn share(hits: u64, of: u64) -> Option<Self> {
        (of > 0).then_some(Self::Share {
            hits: hits.min(of),
            of,
        })
    }

    /// A mean from integer sums, divided by `unit`; nothing if there are no observations.
    pub(super) fn mean(
        (n, sum, square_sum): (u64, i128, i128),
        unit: f64,
        bounds: (f64, f64),
        method: &'static str,
    ) -> Option<Self> {
        moments(n, sum, square_sum).map(|moments| Self::Mean {
            moments,
            unit,
            bounds,
            method,
        })
    }

    fn value(&self) -> f64 {
        match self {
            Self::Share { hits, of } => *hits as f64 / *of as f64,
            Self::Mean { moments, unit, .. } => moments.mean / unit,
            Self::Ratio { ratio, unit, .. } => ratio.value / unit,
            Self::Paired { pairs, .. } => pairs.difference(),
        }
    }

    fn n(&self) -> u64 {
        match self {
            Self::Share { of, .. } => *of,
            Self::Mean { moments, .. } => moments.n,
            Self::Ratio { n, .. } | Self::Paired { n, .. } => *n,
        }
    }

    fn bounds(&self) -> (f64, f64) {
        match self {
            Self::Share { .. } => (0.0, 1.0),
            Self::Mean { bounds, .. } => *bounds,
            Self::Ratio { .. } => (0.0, f64::INFINITY),
            Self::Paired { .. } => (-1.0, 1.0),
        }
    }

    fn method(&self) -> &'static str {
        match self {
            Self::Share { .. } => "wilson",
            Self::Mean { method, .. } => method,
            Self::Ratio { .. } => "ratio",
            Self::Paired { .. } => "tango",
        }
    }

    /// The interval if each observation counts for `weight` of one.
    fn limits(&self, weight: f64, z: f64) -> Option<Limits> {
        let n = self.n() as f64 * weight;
        let scaled = |limits: Limits, unit: f64| Limits {
            low: limits.low / unit,
            high: limits.high / unit,
        };
        let limits = match self {
            Self::Share { .. } => wilson_fraction(self.value(), n, z)?,
            Self::Mean { moments, unit, .. } => {
                scaled(mean_limits(moments.mean, moments.variance, n, z)?, *unit)
            }
            Self::Ratio { ratio, unit, .. } => {
                scaled(mean_limits(ratio.value, ratio.variance, n, z)?, *unit)
            }
            Self::Paired { pairs, .. } => tango(pairs.scaled(weight), z)?,
        };
        let (low, high) = self.bounds();
        Some(limits.clipped(low, high))
    }
}

/// Whether many requests of a replicate depend on few draws of the contestant, on one moment at which
/// a candidate was let in or withdrawn, or on each other: on a timeline they share breakers, limits and
/// queues.
pub(super) fn draws_once(contestant: &Contestant) -> bool {
    contestant.trained
        || contestant.sticks_to.is_some()
        || !contestant.rollouts.is_empty()
        || !contestant.passages.is_empty()
}

/// How the replicates of an experiment relate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pooling {
    /// How many there are, at least 1.
    pub(super) replicates: u64,
    /// Whether they share their rows.
    pub(super) shared_rows: bool,
    /// Two-sided confidence level.
    pub(super) level: f64,
}

impl Pooling {
    /// What one pooled observation counts for.
    pub(super) fn weight(&self) -> f64 {
        if self.shared_rows {
            1.0 / self.replicates.max(1) as f64
        } else {
            1.0
        }
    }

    /// Observations that `pooled` ones count for.
    pub(super) fn count(&self, pooled: u64) -> u64 {
        if self.shared_rows {
            // Missing grades may differ from replicate to replicate: round up, never to zero.
            pooled.div_ceil(self.replicates.max(1))
        } else {
            pooled
        }
    }

    /// The critical value of the normal distribution at this level.
    pub(super) fn z(&self) -> f64 {
        z_two_sided(self.level)
    }

    /// The estimate that `point` reads from the pooled sums. If the policy `draws_once`, the spread of
    /// the replicates counts as the module's documentation says.
    ///
    /// No spread among a handful of replicates is not certainty: replicates that are all equal, or
    /// fewer than two, change nothing.
    pub(super) fn estimate<T>(
        &self,
        pooled: &T,
        replicates: &[T],
        draws_once: bool,
        point: impl Fn(&T) -> Option<Point>,
    ) -> Estimate {
        self.estimate_with(pooled, replicates, draws_once, None, point)
    }

    /// The same with the interval over requests made otherwise: `rows` holds its limits and its method.
    /// Replicates that are independent of each other need none.
    pub(super) fn estimate_with<T>(
        &self,
        pooled: &T,
        replicates: &[T],
        draws_once: bool,
        rows: Option<(Option<Limits>, &'static str)>,
        point: impl Fn(&T) -> Option<Point>,
    ) -> Estimate {
        let Some(all) = point(pooled) else {
            return Estimate::unknown(self.level);
        };
        let (row_limits, method) =
            rows.unwrap_or_else(|| (all.limits(self.weight(), self.z()), all.method()));
        let luck = draws_once
            .then(|| Luck::of(replicates, self.level, &point))
            .flatten();
        let (low, high) = all.bounds();
        match luck {
            Some(luck) if !self.shared_rows => Estimate::new(
                luck.mean,
                Some(Limits::around(luck.mean, luck.half).clipped(low, high)),
                self.level,
                luck.n,
                Estimate::T_REPLICATES,
            ),
            Some(luck) => Estimate::new(
                all.value(),
                row_limits.map(|rows| rows.widened(all.value(), luck.half).clipped(low, high)),
                self.level,
                self.count(all.n()),
                Estimate::ROWS_AND_REPLICATES,
            ),
            None => Estimate::new(
                all.value(),
                row_limits.map(|rows| rows.clipped(low, high)),
                self.level,
                self.count(all.n()),
                method,
            ),
        }
    }
}

/// What the values of the replicates say about the draws that a replicate's requests share.
struct Luck {
    n: u64,
    mean: f64,
    /// Half width of Student's interval for the mean.
    half: f64,
}

impl Luck {
    fn of<T>(replicates: &[T], level: f64, point: impl Fn(&T) -> Option<Point>) -> Option<Self> {
        let values: Vec<f64> = replicates
            .iter()
            .filter_map(|tally| point(tally).map(|p| p.value()))
            .collect();
        let n = values.len();
        if n < 2 || values.iter().all(|v| *v == values[0]) {
            return None;
        }
        // Summed in the order of the replicates, so the result is always the same.
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1) as f64;
        let t = student_two_sided(level, n as u64 - 1);
        Some(Self {
            n: n as u64,
            mean,
            half: t * (variance / n as f64).sqrt(),
        })
    }
}
