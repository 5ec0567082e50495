//! What looking more than once does to a promotion, beside two ways of looking that keep their promise.

use serde::Serialize;

use super::shadow::Truth;
use crate::stats::{Criterion, Joint};

/// What looking more than once does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peeked {
    /// Whose pairs: an index into the truths, or `None` for a candidate worse by exactly the margin.
    pub truth: Option<usize>,
    /// Share of pairs on which the two disagree.
    pub disagreement: f64,
    /// The way of deciding.
    pub method: String,
    /// Whether it keeps its alpha under peeking.
    pub valid: bool,
    /// Chance that it promotes at any look.
    pub promote: f64,
    /// Expected pairs until it stops, at most the horizon.
    pub expected_n: f64,
}

/// Every way of looking on every truth, and on a candidate worse by exactly the margin.
pub(super) fn peeked(
    _looks: (u64, u64),
    _truths: &[Truth],
    _seen: &dyn Fn(&Truth) -> Joint,
    _criterion: Criterion,
) -> Vec<Peeked> {
    Vec::new()
}
