//! Experiments: every policy on the same requests, tallied in integers.

use crate::stats::{PairTally, Tally};

/// How far a result can be trusted, printed with every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Tokens of recorded traffic at other prices.
    RePriced,
    /// A full matrix of requests × routes: every policy judged on the same recorded answers.
    Paired,
    /// Recorded choices with propensities.
    OffPolicy,
    /// Drawn from a model of the world.
    Simulated,
}

/// One row of an experiment: a policy or a control.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// Name: the policy file's stem, or the control's name such as `always-small`.
    pub name: String,
    /// Kind: `static`, `cascade`, `always`, `oracle`, …
    pub kind: &'static str,
    /// Whether it is a control rather than a policy under test.
    pub control: bool,
    /// Whether it learnt from labelled examples, redrawn in each replicate.
    pub trained: bool,
    /// `Some(route)` for the control `always-<route>`.
    pub always: Option<u16>,
    /// Why its metrics cannot be computed on this data, if so (its tallies are then empty).
    pub unavailable: Option<String>,
    /// One tally per replicate.
    pub tallies: Vec<Tally>,
    /// `pairs[b][r]`: against `Results::baselines[b]`, in replicate r.
    pub pairs: Vec<Vec<PairTally>>,
}

/// Everything an experiment measured.
#[derive(Clone, Debug)]
pub struct Results {
    /// Route names; a route id is an index into this list.
    pub routes: Vec<String>,
    /// Whether each route can serve at all in this data (it has grades), same order.
    pub workload: String,
    /// Evidence level.
    pub evidence: Evidence,
    /// Requests per replicate.
    pub requests: u64,
    /// Replicates. Of a synthetic world each has its own requests; of recorded rows they share the
    /// rows, and only the policies' own draws differ.
    pub replicates: u64,
    /// Whether replicates share their rows (n stays the rows).
    pub shared_rows: bool,
    /// Indices into `contestants` that others are paired with: the baseline asked for, or every
    /// `always-<route>` when the default baseline is still to be chosen.
    pub baselines: Vec<usize>,
    /// Policies first, in the order given, then controls.
    pub contestants: Vec<Contestant>,
    /// Facts about the data that belong beside the numbers (rows filtered out, missing grades, …).
    pub notes: Vec<String>,
}
