//! What a policy would have earned, from the choices that another policy made and logged.
//!
//! A log holds, for each request, which route was chosen, with what probability (its *propensity*), and
//! the reward of that route alone. A *target* policy that would have chosen otherwise is judged by weighing
//! each logged reward with w = π(a|x)/b(a|x): the target's probability of the logged choice over the
//! logger's. That works only where the logger gave a chance to whatever the target does; [`evaluate`]
//! refuses, with the reason, where it did not. What this module is not: a way around missing support. The
//! methods of [`Estimator`] compute whatever they are given, for replays of other tools' numbers.
//!
//! Sources: D. G. Horvitz, D. J. Thompson, JASA 47 (1952) 663–685 (weighing); A. Swaminathan, T. Joachims,
//! NIPS 28 (2015) (self-normalised); M. Dudík, J. Langford, L. Li, ICML (2011) (doubly robust); Y.-X. Wang,
//! A. Agarwal, M. Dudík, ICML (2017) (switch); Y. Su, M. Dimakopoulou, A. Krishnamurthy, M. Dudík, ICML
//! (2020) (optimistic shrinkage); A. M. Metelli, A. Russo, M. Restelli, NeurIPS 34 (2021) (sub-gaussian).

mod diagnostics;
mod outcome_model;
mod rows;
mod support;

pub use diagnostics::{Diagnostics, effective_size, effective_size_by_task};
pub use outcome_model::{Observation, cross_fitted};
pub use rows::Choice;
pub use support::{EFFECTIVE_SIZE_MIN, Refusal, Support};

use super::bootstrap::Bootstrap;
use super::interval::Limits;

/// One logged choice, reduced to what the estimators look at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logged {
    /// Reward of the logged action: a grade from 0 to 1, a cost, or any finite number.
    pub reward: f64,
    /// Probability b(a|x) with which the logger chose the action it chose, in (0, 1].
    pub propensity: f64,
    /// Probability π(a|x) with which the target chooses that action, in [0, 1].
    pub target: f64,
    /// q(x, a), NaN without a model: what an outcome model predicts of the logged action's reward. It must not have been fitted
    /// to this row (see [`cross_fitted`]). Zero turns the doubly robust estimators into the plain ones.
    pub predicted: f64,
    /// Σₐ π(a|x) q(x, a), NaN without a model: what the model predicts of the target's reward.
    pub predicted_target: f64,
}

impl Logged {
    /// The importance weight π(a|x)/b(a|x). Infinite or NaN if the propensity is zero.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.target / self.propensity
    }
}

/// An estimator of the target's mean reward from n logged choices with weights w, rewards r, predictions
/// q of the logged action and v of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Estimator {
    /// Inverse propensity scoring, mean(w·r). Unbiased with full support; wide when weights are uneven.
    Ips,
    /// mean(min(w, τ)·r): narrower, biased towards 0 by what is cut off. τ > 0.
    ClippedIps {
        /// Largest weight that counts.
        tau: f64,
    },
    /// Self-normalised: Σ w·r / Σ w. Within the range of the rewards; bias of order 1/n.
    Snips,
    /// The direct method, mean(v): no weights, and as wrong as the outcome model.
    Dm,
    /// Doubly robust, mean(v + w·(r − q)): right if the propensities or the model are.
    Dr,
    /// Doubly robust with min(w, τ) for w. τ > 0.
    ClippedDr {
        /// Largest weight that counts.
        tau: f64,
    },
    /// Self-normalised doubly robust: mean(v) + Σ w·(r − q) / Σ w.
    Sndr,
    /// Doubly robust where w ≤ τ, and the model alone where weights are larger. τ ≥ 0.
    SwitchDr {
        /// Largest weight whose correction counts.
        tau: f64,
    },
    /// Doubly robust with optimistic shrinkage: λ·w/(w² + λ) for w. λ ≥ 0; λ = 0 is the direct method.
    Dros {
        /// How little is shrunk: infinity is plain doubly robust.
        lambda: f64,
    },
    /// Sub-gaussian IPS: w/(1 − λ + λ·w) for w, bounded by 1/λ. 0 ≤ λ ≤ 1; λ = 0 is IPS.
    SubGaussianIps {
        /// How much is shrunk.
        lambda: f64,
    },
}

impl Estimator {
    /// The name in tables: `ips`, `clipped-ips`, `snips`, `dm`, `dr`, `clipped-dr`, `sndr`, `switch-dr`,
    /// `dros`, `sg-ips`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ips => "ips",
            Self::ClippedIps { .. } => "clipped-ips",
            Self::Snips => "snips",
            Self::Dm => "dm",
            Self::Dr => "dr",
            Self::ClippedDr { .. } => "clipped-dr",
            Self::Sndr => "sndr",
            Self::SwitchDr { .. } => "switch-dr",
            Self::Dros { .. } => "dros",
            Self::SubGaussianIps { .. } => "sg-ips",
        }
    }

    /// Whether the parameter, if there is one, is within its range (see the variants).
    #[must_use]
    pub fn is_valid(self) -> bool {
        match self {
            Self::ClippedIps { tau } | Self::ClippedDr { tau } => tau > 0.0,
            Self::SwitchDr { tau } => tau >= 0.0,
            Self::Dros { lambda } => lambda >= 0.0,
            Self::SubGaussianIps { lambda } => (0.0..=1.0).contains(&lambda),
            Self::Ips | Self::Snips | Self::Dm | Self::Dr | Self::Sndr => true,
        }
    }

    /// Whether the outcome model's predictions enter.
    #[must_use]
    pub const fn uses_model(self) -> bool {
        !matches!(
            self,
            Self::Ips | Self::ClippedIps { .. } | Self::Snips | Self::SubGaussianIps { .. }
        )
    }

    /// What stands in the place of the weight w.
    fn shaped(self, w: f64) -> f64 {
        match self {
            Self::ClippedIps { tau } | Self::ClippedDr { tau } => w.min(tau),
            Self::SwitchDr { tau } => {
                if w <= tau {
                    w
                } else {
                    0.0
                }
            }
            Self::Dros { lambda } if lambda == f64::INFINITY => w,
            // 0/0 at w = λ = 0: a weight of zero stays one.
            Self::Dros { .. } if w == 0.0 => 0.0,
            Self::Dros { lambda } => lambda * w / (w * w + lambda),
            Self::SubGaussianIps { .. } if w == 0.0 => 0.0,
            Self::SubGaussianIps { lambda } => w / (1.0 - lambda + lambda * w),
            Self::Dm => 0.0,
            Self::Ips | Self::Snips | Self::Dr | Self::Sndr => w,
        }
    }

    /// The two parts of one row: what is averaged as it is, and what may be divided by the mean weight.
    fn parts(self, row: &Logged) -> (f64, f64) {
        let w = self.shaped(row.weight());
        // 0 · NaN is NaN: a row that does not count must not spoil the rest.
        let times = |x: f64| if w == 0.0 { 0.0 } else { w * x };
        if self.uses_model() {
            (row.predicted_target, times(row.reward - row.predicted))
        } else {
            (0.0, times(row.reward))
        }
    }

    const fn is_self_normalised(self) -> bool {
        matches!(self, Self::Snips | Self::Sndr)
    }

    /// The terms whose mean is the estimate, one per row. Those of the self-normalised estimators are
    /// divided by the mean weight; NaN if all weights are zero. Empty for no rows.
    #[must_use]
    pub fn terms(self, rows: &[Logged]) -> Vec<f64> {
        let by = if self.is_self_normalised() {
            mean(rows.iter().map(Logged::weight))
        } else {
            1.0
        };
        rows.iter()
            .map(|row| {
                let (whole, weighed) = self.parts(row);
                whole + weighed / by
            })
            .collect()
    }

    /// The estimate, whether or not the rows support it: see [`evaluate`]. `None` without rows, or where
    /// it is not a finite number (all weights zero under a self-normalised estimator, a zero propensity).
    #[must_use]
    pub fn value(self, rows: &[Logged]) -> Option<f64> {
        if rows.is_empty() || !self.is_valid() {
            return None;
        }
        let whole = mean(rows.iter().map(|row| self.parts(row).0));
        let weighed = mean(rows.iter().map(|row| self.parts(row).1));
        let value = if self.is_self_normalised() {
            whole + weighed / mean(rows.iter().map(Logged::weight))
        } else {
            whole + weighed
        };
        value.is_finite().then_some(value)
    }

    /// Sample standard deviation of [`Estimator::terms`] over √n. `None` for fewer than two rows.
    ///
    /// For the self-normalised estimators this takes the mean weight for a constant, as the Open Bandit
    /// Pipeline does; [`Estimator::standard_error`] does not.
    #[must_use]
    pub fn standard_error_of_terms(self, rows: &[Logged]) -> Option<f64> {
        let terms = self.terms(rows);
        let n = terms.len() as f64;
        let centre = mean(terms.iter().copied());
        let squares = sum(terms.iter().map(|term| (term - centre) * (term - centre)));
        let error = (squares / (n - 1.0) / n).sqrt();
        (terms.len() > 1 && self.is_valid() && error.is_finite()).then_some(error)
    }

    /// The standard error to report: that of the terms, and for the self-normalised estimators the delta
    /// method's. SNIPS: √(Σ (w·(r − V))²)/Σ w (A. B. Owen, Monte Carlo theory (2013), section 9.2). SNDR:
    /// √(Σ φ²)/n of its influence values φ = v − mean(v) + n/Σw · w·(r − q − C), C the correction.
    /// `None` for fewer than two rows.
    #[must_use]
    pub fn standard_error(self, rows: &[Logged]) -> Option<f64> {
        if !self.is_self_normalised() {
            return self.standard_error_of_terms(rows);
        }
        if rows.len() < 2 {
            return None;
        }
        let weights = sum(rows.iter().map(Logged::weight));
        let whole = mean(rows.iter().map(|row| self.parts(row).0));
        let correction = sum(rows.iter().map(|row| self.parts(row).1)) / weights;
        let n = rows.len() as f64;
        let squares = sum(rows.iter().map(|row| {
            let (own, weighed) = self.parts(row);
            let influence = own - whole + n / weights * (weighed - row.weight() * correction);
            influence * influence
        }));
        let error = squares.sqrt() / n;
        error.is_finite().then_some(error)
    }

    /// Percentile bootstrap limits: rows are drawn anew, and the estimate is made of them, mean weight and
    /// all. `None` where the estimate or too many resamples have none, or the level is not in (0, 1).
    #[must_use]
    pub fn bootstrap(self, rows: &[Logged], level: f64, draws: &Bootstrap) -> Option<Limits> {
        self.value(rows)?;
        let parts: Vec<(f64, f64, f64)> = rows
            .iter()
            .map(|row| {
                let (whole, weighed) = self.parts(row);
                (whole, weighed, row.weight())
            })
            .collect();
        let n = rows.len() as f64;
        let values = draws.values(rows.len(), |times| {
            let (mut whole, mut weighed, mut weights) = (0.0, 0.0, 0.0);
            for (&times, part) in times.iter().zip(&parts).filter(|(times, _)| **times > 0) {
                let times = f64::from(times);
                whole += times * part.0;
                weighed += times * part.1;
                weights += times * part.2;
            }
            if self.is_self_normalised() {
                whole / n + weighed / weights
            } else {
                (whole + weighed) / n
            }
        });
        super::bootstrap::percentile(&values, level)
    }
}

/// An estimate that the log supports.
#[derive(Clone, Debug, PartialEq)]
pub struct OffPolicy {
    /// The estimator.
    pub estimator: Estimator,
    /// The target's estimated mean reward.
    pub value: f64,
    /// Its standard error (see [`Estimator::standard_error`]); `None` for one row.
    pub standard_error: Option<f64>,
    /// What the weights look like.
    pub diagnostics: Diagnostics,
}

impl OffPolicy {
    /// Normal limits, value ± z·se. `None` without a standard error.
    #[must_use]
    pub fn limits(&self, z: f64) -> Option<Limits> {
        let error = self.standard_error?;
        z.is_finite().then(|| Limits::around(self.value, z * error))
    }
}

/// Estimates the target's mean reward, or says why this log cannot tell.
///
/// What is asked of the log is asked for every estimator, the direct method included: where support is
/// missing, a model that was fitted to the same log has nothing to go by either.
///
/// # Errors
///
/// [`Refusal`], with the first reason found, in the order of its variants.
pub fn evaluate(
    rows: &[Logged],
    estimator: Estimator,
    support: &Support,
) -> Result<OffPolicy, Refusal> {
    if !estimator.is_valid() {
        return Err(Refusal::Parameter {
            estimator: estimator.name(),
        });
    }
    let diagnostics = support.check(rows)?;
    let value = estimator.value(rows).ok_or(Refusal::NotFinite)?;
    Ok(OffPolicy {
        estimator,
        value,
        standard_error: estimator.standard_error(rows),
        diagnostics,
    })
}

/// A sum that loses nothing to the order of its terms' sizes (Neumaier, ZAMM 54 (1974) 39–51).
fn sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() {
            (total - next) + value
        } else {
            (value - next) + total
        };
        total = next;
    }
    // With an infinity or a NaN among them the correction is NaN and says nothing.
    if lost.is_finite() {
        total + lost
    } else {
        total
    }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    sum(values) / n
}

#[cfg(test)]
mod tests;
