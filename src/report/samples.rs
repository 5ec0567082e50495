//! Single requests with what every policy did with them, for whoever wants to see what numbers are made of.

use crate::stats::Estimate;

/// One request and what became of it under each policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its id.
    pub request: String,
    /// Its task.
    pub task: String,
    /// Whose it is, if it says so.
    pub tenant: Option<String>,
    /// One entry for each policy under test, in their order.
    pub stories: Vec<Story>,
}

/// What one policy did with a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Story {
    /// Name of the policy.
    pub policy: String,
    /// Whose answer was served; `None` if nobody's.
    pub route: Option<String>,
    /// The grade of what was served, from 0 to 1; `None` if nobody graded it.
    pub grade: Option<f64>,
    /// What it cost, in USD; `None` if that is not known.
    pub cost_usd: Option<f64>,
    /// Calls made for it.
    pub calls: u32,
    /// What happened, step by step, as `explain` prints it; text from outside is in it as it is.
    pub lines: Vec<String>,
}

/// What a policy saves against the cheapest mix of single routes that is as accurate.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// The mix in words, such as `62 % small, 38 % large`.
    pub mix: String,
    /// What the mix costs more, in USD per 1,000 requests; negative if the policy is the dearer one.
    pub usd_per_1k: Estimate,
    /// The same as a share of what the mix costs.
    pub share: Estimate,
}
