//! Integer sums over the requests of one experiment cell.

/// Why nobody answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unserved {
    /// Some route could have, but the data may not go there.
    RefusedByResidency = 0,
    /// No allowed route has the window or the tools.
    NoCapableRoute = 1,
    /// Routes were tried (or were unavailable) and none answered.
    Failed = 2,
}

/// What one policy did with the requests of one cell. Scores are millionths, money is 10⁻¹² USD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests seen.
    pub requests: u64,
    /// Requests whose outcome has a grade (an unserved request is graded wrong).
    pub graded: u64,
    /// Graded requests whose score is neither 0 nor 1.
    pub fractional: u64,
    /// Σ score.
    pub score_sum: i128,
    /// Σ score².
    pub score_square_sum: i128,
    /// Served requests whose answer nobody graded.
    pub missing: u64,
    /// Requests on which a verifier met an ungraded answer: no grade, no cost.
    pub undetermined: u64,
    /// Unserved requests by reason, indexed by [`Unserved`].
    pub unserved: [u64; 3],
    /// Σ calls made for the caller (mirrors are apart).
    pub calls_sum: u64,
    /// Σ calls².
    pub calls_square_sum: u64,
    /// Requests whose cost is known.
    pub costed: u64,
    /// Σ cost.
    pub cost_sum: i128,
    /// Σ cost².
    pub cost_square_sum: i128,
    /// Requests with both cost and grade known, and the sums over just these.
    pub both: u64,
    /// Σ cost where both are known.
    pub both_cost_sum: i128,
    /// Σ cost² where both are known.
    pub both_cost_square_sum: i128,
    /// Σ score where both are known.
    pub both_score_sum: i128,
    /// Σ score² where both are known.
    pub both_score_square_sum: i128,
    /// Σ cost × score where both are known.
    pub both_cross_sum: i128,
    /// Final answers per route, indexed by route id.
    pub final_count: Vec<u64>,
    /// Answers served although the last verdict on them was a rejection.
    pub unverified: u64,
    /// Requests that were passed on after a verifier's rejection at least once.
    pub escalated: u64,
    /// Answers a verifier looked at that were entirely right, and how many of them it accepted.
    pub verified_right: u64,
    /// See [`Tally::verified_right`].
    pub accepted_right: u64,
    /// Answers a verifier looked at that were entirely wrong, and how many of them it accepted.
    pub verified_wrong: u64,
    /// See [`Tally::verified_wrong`].
    pub accepted_wrong: u64,
    /// Requests of unknown prompt length: they passed the window filter unchecked.
    pub unknown_need: u64,
    /// Mirrored calls.
    pub mirror_calls: u64,
    /// Requests whose mirroring cost is known (a request without a mirror costs zero).
    pub mirror_costed: u64,
    /// Σ cost of mirrors.
    pub mirror_cost_sum: i128,
    /// Σ (cost of a request's mirrors)².
    pub mirror_cost_square_sum: i128,
}

/// Two policies on the same requests. `first` is the policy, `second` the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairTally {
    /// Requests graded for both.
    pub graded: u64,
    /// Of these, requests where a score is neither 0 nor 1.
    pub fractional: u64,
    /// Both right (only requests where both scores are 0 or 1 enter the four counts).
    pub n11: u64,
    /// First right, second wrong.
    pub n10: u64,
    /// First wrong, second right.
    pub n01: u64,
    /// Both wrong.
    pub n00: u64,
    /// Σ (first score − second score).
    pub score_difference_sum: i128,
    /// Σ (first score − second score)².
    pub score_difference_square_sum: i128,
    /// Requests whose cost is known for both.
    pub costed: u64,
    /// Σ (first cost − second cost).
    pub cost_difference_sum: i128,
    /// Σ (first cost − second cost)².
    pub cost_difference_square_sum: i128,
}
