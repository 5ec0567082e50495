//! What a policy saves at equal accuracy.

use crate::stats::Estimate;

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
