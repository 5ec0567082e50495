//! Sums in, estimates out: integer tallies, and the intervals computed from them.
//!
//! A [`Tally`] holds no float, so merging tallies in any order gives the same bytes. An [`Estimate`]
//! is the only kind of number a report prints: a value with its interval, level, n and method.
//! What this module is not: a place that knows what a policy, a route or a dollar is. It sees counts
//! and sums, and every function is pure.

mod binomial;
pub mod bootstrap;
mod cluster;
mod concurrent_control;
mod confidence_sequence;
mod copula;
mod eprocess;
mod eval_size;
mod front;
mod grader;
mod group_sequential;
mod interval;
mod mcnemar;
mod mix;
pub mod multiplicity;
mod noninferiority;
pub mod off_policy;
mod paired;
mod pairs_needed;
pub mod pareto;
mod peeking;
mod plug_in;
mod promotion;
mod quadrature;
mod quantile;
mod root;
mod rule;
mod sample_size;
mod sprt;
mod stream_test;
mod tally;
mod type_one;
mod unconditional;
mod wide;

pub use binomial::{binomial_lower, binomial_pmf, binomial_upper};
pub use bootstrap::Bootstrap;
pub use cluster::{
    CLUSTERS_LEAST, ClusterMean, ClusterPair, ClusterSum, cluster_bca, cluster_mean,
    cluster_percentile,
};
pub use concurrent_control::{CanaryCost, ConcurrentControl, ControlOdds, error_share};
pub use confidence_sequence::{
    BernoulliMixture, BernoulliSequence, Stitching, normal_mixture_one_sided, normal_mixture_rho,
    normal_mixture_two_sided,
};
pub use copula::Copula;
pub use eprocess::{MixtureE, STAKES};
pub use eval_size::{
    Bar, CheapestPassing, EvalCell, EvalOutlook, EvalSize, MeasuredOption, SequentialEval,
    indifference_zone,
};
pub use front::{HalfWidths, Resampled, UnitSums};
pub use grader::Grader;
pub use group_sequential::{
    Sides, Spending, crossing_probabilities, naive_error, obrien_fleming_constant, pocock_constant,
    spending_boundaries,
};
pub use interval::{
    Limits, Moments, Ratio, difference_of_independent, mean_limits, moments, ratio, wilson,
    wilson_continuity, wilson_fraction,
};
pub use mcnemar::{McNemar, mcnemar, unpaired_standard_error};
pub use mix::{CheapestMix, cheapest_mix};
pub use noninferiority::{NonInferiority, Tails, from_limits, tango_test, upheld};
pub use paired::{
    Ddof, Newcombe, Pairs, agresti_min, bonett_price, newcombe, newcombe10, tango, tango_statistic,
    wald, wald_continuity, wald_corrected_variance,
};
pub use pairs_needed::{
    PairsNeeded, approximate_pairs_needed, no_disagreement_floor, pairs_needed, smallest_margin,
};
pub use peeking::{PairCounts, Peeking, peeking};
pub use plug_in::{EmpiricalBernstein, PlugInCapital};
pub use promotion::{Joint, coverage, promotion_probability};
pub use quadrature::Legendre;
pub use quantile::{normal_tail, student_tail, student_two_sided, z_two_sided};
pub use rule::{Counts, Criterion, Decider, RULES, Rule};
pub use sample_size::{Needed, ODDS, needed, needed_among};
pub use sprt::{Sprt, SprtState};
pub use stream_test::{
    OperatingCharacteristics, StreamStep, StreamSteps, StreamTest, Verdict, n_until_h1,
    operating_characteristics,
};
pub use tally::{PairTally, SegmentTally, Tally, Unserved};
pub use type_one::{WorstCase, type_one_error, type_one_error_max};
pub use unconditional::{
    UNCONDITIONAL_PAIRS_MAX, UnconditionalCutoff, unconditional_cutoff, unconditional_cutoff_over,
    unconditional_p_value,
};

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

impl Estimate {
    /// The method of an estimate whose value the data cannot tell.
    pub const UNKNOWN: &'static str = "unknown";

    /// The method of an interval that has the spread over requests and that over replicates in it.
    pub const ROWS_AND_REPLICATES: &'static str = "rows+replicates";

    /// The method of an interval that takes clusters of requests, not requests, for independent.
    pub const CLUSTER_T: &'static str = "cluster-t";
    /// Method: Tango's interval with as many pairs as there are clusters, where these hardly differ.
    pub const CLUSTER_TANGO: &'static str = "cluster-tango";

    /// The method of an interval by drawing clusters anew.
    pub const CLUSTER_BCA: &'static str = "cluster-bca";

    /// The method of an interval by drawing blocks of consecutive requests anew, the same for everybody.
    pub const BLOCK_BOOTSTRAP: &'static str = "block-bootstrap";

    /// The method of a value that has no interval because requests hang on each other and there is but one
    /// replicate.
    pub const ONE_REPLICATE: &'static str = "one-replicate";

    /// The method of an interval over the means of replicates, whose n is the replicates.
    pub const T_REPLICATES: &'static str = "t-replicates";

    /// Nothing is known: no value, no interval, no observation.
    #[must_use]
    pub const fn unknown(level: f64) -> Self {
        Self {
            value: None,
            low: None,
            high: None,
            level,
            n: 0,
            method: Self::UNKNOWN,
        }
    }

    /// A value with its limits, or without an interval where the data allow none (one observation).
    #[must_use]
    pub fn new(
        value: f64,
        limits: Option<Limits>,
        level: f64,
        n: u64,
        method: &'static str,
    ) -> Self {
        Self {
            value: Some(value),
            low: limits.map(|l| l.low),
            high: limits.map(|l| l.high),
            level,
            n,
            method,
        }
    }

    /// The same estimate in another unit: value and limits times `factor`, which is positive.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for part in [&mut self.value, &mut self.low, &mut self.high] {
            *part = part.map(|v| v * factor);
        }
        self
    }

    /// Both limits, if the estimate has an interval.
    #[must_use]
    pub fn limits(&self) -> Option<Limits> {
        Some(Limits {
            low: self.low?,
            high: self.high?,
        })
    }
}
