//! The traffic and the truth about it: synthetic worlds and recorded outcome matrices, column by column.
//!
//! A [`Workload`] fills [`Batch`]es. What a batch holds for request i depends on (seed, domain,
//! replicate, i) alone, never on which batch it is in or who asked first. No mutable randomness here.

use crate::units::{Score, Tokens, Usd};

/// Requests of one batch: enough to amortise a call, small enough to stay in a core's cache.
pub const BATCH: usize = 2048;

/// "None of the names", in a column of name indices.
pub const NO_NAME: u16 = u16::MAX;

/// Which draws: everything random in a world is a function of this, a lane, and the request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawKey {
    /// The experiment's seed.
    pub seed: u64,
    /// What the draws are for.
    pub domain: Domain,
    /// Replicate of the experiment.
    pub replicate: u32,
}

/// Separate worlds under one seed, so that nothing trains on what it is judged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// The traffic policies are judged on.
    Traffic,
    /// Labelled examples for policies that learn.
    Lab,
}

/// Columns of consecutive requests. Every `Vec` has `len` entries; per-route columns are indexed by the
/// world's own route index (see [`Workload::routes`](crate::workload)).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Number of the first request.
    pub first: u64,
    /// Requests in the batch.
    pub len: usize,
    /// Index into the workload's task names.
    pub task: Vec<u16>,
    /// Index into the tenant names, or [`NO_NAME`].
    pub tenant: Vec<u16>,
    /// Index into the language names, or [`NO_NAME`].
    pub language: Vec<u16>,
    /// Index into the data-class names, or [`NO_NAME`].
    pub data_class: Vec<u16>,
    /// Identity of the user (a number that means nothing else); unknown users are the request itself.
    pub user: Vec<u64>,
    /// Identity of the conversation; unknown ones are the request itself.
    pub session: Vec<u64>,
    /// Whether the request carries tools.
    pub tools: Vec<bool>,
    /// Prompt tokens.
    pub input_tokens: Vec<Tokens>,
    /// Most tokens the caller lets the answer have.
    pub output_cap: Vec<Tokens>,
    /// Prompt length in characters.
    pub prompt_chars: Vec<Tokens>,
    /// What a policy may know about the difficulty; NaN when it knows nothing.
    pub difficulty_hint: Vec<f64>,
    /// 64 random bits for policies' own draws, split further by the policy's path.
    pub policy_word: Vec<u64>,
    /// Tokens each route's answer has: one column for all routes, or one per route.
    pub output_tokens: Vec<Vec<Tokens>>,
    /// Grade of each route's answer, per route.
    pub grade: Vec<Vec<Score>>,
    /// Uniform 32-bit lane for a simulated verifier's look at each route's answer, per route.
    pub verifier_lane: Vec<Vec<u32>>,
    /// Recorded cost of each route's answer, per route; empty when cost follows from tokens and prices.
    pub cost: Vec<Vec<Option<Usd>>>,
}

impl Batch {
    /// Tokens of `route`'s answer to request `i` of the batch.
    #[must_use]
    #[inline(always)]
    pub fn output(&self, route: usize, i: usize) -> Tokens {
        let column = if self.output_tokens.len() == 1 { 0 } else { route };
        self.output_tokens[column][i]
    }
}
