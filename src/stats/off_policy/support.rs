//! Whether a log can say anything about a target policy, and if not, why.

use super::{Diagnostics, Logged};

/// Rows of equal weight below which no estimate is given. A suggestion, not a theorem: at 30 a share is
/// known to about ±18 points, and the normal limits begin to hold.
pub const EFFECTIVE_SIZE_MIN: f64 = 30.0;

/// Standard errors by which the mean weight may differ from 1 before something must be wrong.
const MEAN_WEIGHT_ERRORS_MAX: f64 = 5.0;
/// What probabilities that should add up to 1 may miss it by: files hold rounded ones.
pub(super) const ROUNDING: f64 = 1e-4;

/// Why a log does not support an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Refusal {
    /// There are no rows.
    Empty,
    /// The estimator's parameter is outside its range.
    Parameter {
        /// Name of the estimator.
        estimator: &'static str,
    },
    /// Rows of probabilities and predictions differ in length, or the logged action is not among them.
    Shape {
        /// Which row.
        row: usize,
    },
    /// A propensity is not in (0, 1].
    Propensity {
        /// Which row.
        row: usize,
        /// The propensity.
        value: f64,
    },
    /// A target probability is not in [0, 1].
    Target {
        /// Which row.
        row: usize,
        /// The probability.
        value: f64,
    },
    /// The probabilities of one policy on one request do not add up to 1.
    Sum {
        /// Which row.
        row: usize,
        /// Whose: `behaviour` or `target`.
        whose: &'static str,
        /// What they add up to.
        sum: f64,
    },
    /// A reward or a prediction is not a finite number; rows without a model, whose predictions are both
    /// NaN, are refused with [`Refusal::NotFinite`] by the estimators that need one.
    NotANumber {
        /// Which row.
        row: usize,
    },
    /// Every choice was certain: the logger never tried anything else, so nothing can be weighed.
    Deterministic,
    /// The target gives probability to actions the logger never takes.
    Unsupported {
        /// The first such row.
        row: usize,
        /// Share of the target's probability without support, over all rows.
        share: f64,
    },
    /// A few rows carry all the weight.
    EffectiveSize {
        /// The effective sample size.
        size: f64,
        /// The least that is asked for.
        min: f64,
        /// Rows.
        n: u64,
    },
    /// The mean weight is too far from 1 for propensities that are right and complete.
    MeanWeight {
        /// The mean weight.
        mean: f64,
        /// Its standard error.
        error: f64,
    },
    /// The estimate is not a finite number.
    NotFinite,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no logged choices"),
            Self::Parameter { estimator } => {
                write!(f, "the parameter of `{estimator}` is outside its range")
            }
            Self::Shape { row } => write!(
                f,
                "row {row}: the logged action is not among its probabilities, or their lists differ in length"
            ),
            Self::Propensity { row, value } => write!(
                f,
                "row {row}: the propensity {value} is not a probability above 0"
            ),
            Self::Target { row, value } => {
                write!(f, "row {row}: the target's {value} is not a probability")
            }
            Self::Sum { row, whose, sum } => write!(
                f,
                "row {row}: the {whose} probabilities add up to {sum}, not to 1"
            ),
            Self::NotANumber { row } => {
                write!(
                    f,
                    "row {row}: a reward or prediction is not a finite number"
                )
            }
            Self::Deterministic => write!(
                f,
                "every logged choice was certain (propensity 1): nothing is known about what would have happened otherwise"
            ),
            Self::Unsupported { row, share } => write!(
                f,
                "the target gives {share:.4} of its probability to actions that the logger never takes (first in row {row})"
            ),
            Self::EffectiveSize { size, min, n } => write!(
                f,
                "the {n} rows are worth {size:.1} of equal weight; at least {min} are needed"
            ),
            Self::MeanWeight { mean, error } => write!(
                f,
                "the weights average {mean:.4} (standard error {error:.4}) where 1 is due: propensities are wrong, or support is missing"
            ),
            Self::NotFinite => write!(f, "the estimate is not a finite number"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What is asked of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Support {
    /// Least effective sample size; [`EFFECTIVE_SIZE_MIN`] unless there is a reason.
    pub effective_size_min: f64,
    /// A logged probability up to this is no support: 0, or a small number below which a logger's
    /// probabilities are not believed.
    pub floor: f64,
    /// Share of the target's probability that may be without support, for rounding: 10⁻⁶.
    pub unsupported_max: f64,
}

impl Default for Support {
    fn default() -> Self {
        Self {
            effective_size_min: EFFECTIVE_SIZE_MIN,
            floor: 0.0,
            unsupported_max: 1e-6,
        }
    }
}

impl Support {
    /// Checks what single rows and the weights can show. With the full probabilities of both policies
    /// use [`super::Choice::logged`], which finds missing support where it is, not only by its traces.
    ///
    /// # Errors
    ///
    /// The first [`Refusal`] that holds.
    pub fn check(&self, rows: &[Logged]) -> Result<Diagnostics, Refusal> {
        let diagnostics = Diagnostics::of(rows).ok_or(Refusal::Empty)?;
        for (row, one) in rows.iter().enumerate() {
            check_row(row, one)?;
        }
        if rows.iter().all(|row| row.propensity == 1.0) {
            return Err(Refusal::Deterministic);
        }
        // What the logged row alone shows: a certain choice leaves nothing for the others, and a choice
        // at or below the floor was no support.
        let lost = rows.iter().map(|row| {
            if row.propensity == 1.0 {
                1.0 - row.target
            } else if row.propensity <= self.floor {
                row.target
            } else {
                0.0
            }
        });
        self.refuse_unsupported(lost)?;
        if diagnostics.effective_size < self.effective_size_min {
            return Err(Refusal::EffectiveSize {
                size: diagnostics.effective_size,
                min: self.effective_size_min,
                n: diagnostics.n,
            });
        }
        if let Some(error) = diagnostics.mean_weight_error
            && (diagnostics.mean_weight - 1.0).abs() > MEAN_WEIGHT_ERRORS_MAX * error + ROUNDING
        {
            return Err(Refusal::MeanWeight {
                mean: diagnostics.mean_weight,
                error,
            });
        }
        Ok(diagnostics)
    }

    /// Refuses if too much of the target's probability, given by row, is without support.
    pub(super) fn refuse_unsupported(
        &self,
        lost: impl ExactSizeIterator<Item = f64>,
    ) -> Result<(), Refusal> {
        let n = lost.len() as f64;
        let (mut first, mut total) = (None, 0.0);
        for (row, lost) in lost.enumerate() {
            total += lost;
            if lost > self.unsupported_max {
                first = first.or(Some(row));
            }
        }
        match first {
            Some(row) if total / n > self.unsupported_max => Err(Refusal::Unsupported {
                row,
                share: total / n,
            }),
            _ => Ok(()),
        }
    }
}

/// Probabilities that are some, numbers that are some.
pub(super) fn check_row(row: usize, one: &Logged) -> Result<(), Refusal> {
    if !(one.propensity > 0.0 && one.propensity <= 1.0) {
        return Err(Refusal::Propensity {
            row,
            value: one.propensity,
        });
    }
    if !(0.0..=1.0).contains(&one.target) {
        return Err(Refusal::Target {
            row,
            value: one.target,
        });
    }
    let without_model = one.predicted.is_nan() && one.predicted_target.is_nan();
    let predicted = one.predicted.is_finite() && one.predicted_target.is_finite();
    if one.reward.is_finite() && (predicted || without_model) {
        Ok(())
    } else {
        Err(Refusal::NotANumber { row })
    }
}
