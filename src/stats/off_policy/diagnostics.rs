//! What the weights look like: how many rows they are worth, how uneven they are, whom they leave out.

use std::collections::BTreeMap;

use super::{Logged, mean, sum};

/// Numbers about the weights of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diagnostics {
    /// Rows.
    pub n: u64,
    /// Kish's effective sample size (Σ w)²/Σ w²: rows of equal weight that would be as precise.
    /// Source: L. Kish, Survey Sampling (1965), section 11.7.
    pub effective_size: f64,
    /// Effective size over rows, from 0 to 1.
    pub effective_share: f64,
    /// Mean weight. Its expectation is the share of the target's probability that lies on actions the
    /// logger takes at all: 1 with full support.
    pub mean_weight: f64,
    /// Standard error of the mean weight; `None` for one row.
    pub mean_weight_error: Option<f64>,
    /// Largest weight.
    pub weight_max: f64,
    /// 99th percentile of the weights, interpolated between neighbours.
    pub weight_p99: f64,
    /// Share of rows of weight zero: choices that the target never makes.
    pub share_zero: f64,
    /// Smallest logged propensity.
    pub propensity_min: f64,
    /// Mean of min(w, 1), which estimates the mean over requests of Σₐ min(π(a|x), b(a|x)): 1 if the two
    /// policies are one, 0 if they never choose alike.
    pub overlap: f64,
}

impl Diagnostics {
    /// The diagnostics of these rows; `None` without rows.
    ///
    /// Propensities of zero give infinite weights and a size of NaN: [`super::Support::check`] refuses them.
    #[must_use]
    pub fn of(rows: &[Logged]) -> Option<Self> {
        if rows.is_empty() {
            return None;
        }
        let n = rows.len() as f64;
        let mut weights: Vec<f64> = rows.iter().map(Logged::weight).collect();
        let centre = mean(weights.iter().copied());
        let spread = sum(weights.iter().map(|w| (w - centre) * (w - centre)));
        let effective = effective_size(rows);
        let zero = weights.iter().filter(|w| **w == 0.0).count();
        let overlap = mean(weights.iter().map(|w| w.min(1.0)));
        weights.sort_by(f64::total_cmp);
        Some(Self {
            n: rows.len() as u64,
            effective_size: effective,
            effective_share: effective / n,
            mean_weight: centre,
            mean_weight_error: (rows.len() > 1).then(|| (spread / (n - 1.0) / n).sqrt()),
            weight_max: weights[weights.len() - 1],
            weight_p99: crate::stats::bootstrap::quantile(&weights, 0.99),
            share_zero: zero as f64 / n,
            propensity_min: rows
                .iter()
                .map(|row| row.propensity)
                .fold(f64::INFINITY, f64::min),
            overlap,
        })
    }
}

/// Kish's effective sample size (Σ w)²/Σ w² of the rows' weights: 0 without rows or if all weights are
/// zero. Source: as for [`Diagnostics::effective_size`].
#[must_use]
pub fn effective_size(rows: &[Logged]) -> f64 {
    let total = sum(rows.iter().map(Logged::weight));
    let squares = sum(rows.iter().map(|row| row.weight() * row.weight()));
    if squares == 0.0 {
        0.0
    } else {
        total * total / squares
    }
}

/// The effective size by task, where `tasks[i]` is the task of row i: a log can be worth a thousand rows
/// in all and three on the task where the two policies differ. Rows beyond the shorter list are left out.
#[must_use]
pub fn effective_size_by_task<T: Ord + Copy>(rows: &[Logged], tasks: &[T]) -> BTreeMap<T, f64> {
    let mut by_task: BTreeMap<T, Vec<Logged>> = BTreeMap::new();
    for (row, task) in rows.iter().zip(tasks) {
        by_task.entry(*task).or_default().push(*row);
    }
    by_task
        .into_iter()
        .map(|(task, rows)| (task, effective_size(&rows)))
        .collect()
}
