//! Logged choices with the full probabilities of both policies.

use super::support::{ROUNDING, check_row};
use super::{Logged, Refusal, Support, sum};

/// One logged choice among K actions, with everything both policies and the model say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Which action was chosen, from 0 to K − 1.
    pub action: usize,
    /// Its reward.
    pub reward: f64,
    /// The logger's probability of each action; K numbers that add up to 1.
    pub behaviour: Vec<f64>,
    /// The target's probability of each action; K numbers that add up to 1.
    pub target: Vec<f64>,
    /// The model's prediction of each action's reward; K numbers, or none for estimators without a model.
    pub predicted: Vec<f64>,
}

impl Choice {
    /// Reduces one choice to what estimators look at, without asking whether it has support. `None` if the
    /// lists do not fit each other.
    #[must_use]
    pub fn reduced(&self) -> Option<Logged> {
        let actions = self.behaviour.len();
        let model = self.predicted.len();
        if self.target.len() != actions || (model != 0 && model != actions) {
            return None;
        }
        // What no model predicts is unknown: an estimator that asks for it has no value.
        let (mut predicted, mut predicted_target) = (f64::NAN, f64::NAN);
        if model != 0 {
            predicted = *self.predicted.get(self.action)?;
            predicted_target = sum(self.target.iter().zip(&self.predicted).map(|(p, q)| p * q));
        }
        Some(Logged {
            reward: self.reward,
            propensity: *self.behaviour.get(self.action)?,
            target: *self.target.get(self.action)?,
            predicted,
            predicted_target,
        })
    }

    /// Reduces a log whose full probabilities are known, if it supports the target: every probability is
    /// one, each list adds up to 1, and wherever the target may go the logger went, too.
    ///
    /// What remains to be asked of the weights, [`super::evaluate`] asks.
    ///
    /// # Errors
    ///
    /// The first [`Refusal`] that holds.
    pub fn logged(choices: &[Self], support: &Support) -> Result<Vec<Logged>, Refusal> {
        let mut rows = Vec::with_capacity(choices.len());
        for (row, choice) in choices.iter().enumerate() {
            let reduced = choice.reduced().ok_or(Refusal::Shape { row })?;
            // Actions that were not taken may have probability zero; whose they are is asked below.
            for &value in &choice.behaviour {
                if !(0.0..=1.0).contains(&value) {
                    return Err(Refusal::Propensity { row, value });
                }
            }
            for &value in &choice.target {
                if !(0.0..=1.0).contains(&value) {
                    return Err(Refusal::Target { row, value });
                }
            }
            check_row(row, &reduced)?;
            for (whose, list) in [("behaviour", &choice.behaviour), ("target", &choice.target)] {
                let sum = sum(list.iter().copied());
                if (sum - 1.0).abs() > ROUNDING {
                    return Err(Refusal::Sum { row, whose, sum });
                }
            }
            rows.push(reduced);
        }
        if rows.is_empty() {
            return Err(Refusal::Empty);
        }
        let certain = |choice: &Self| choice.behaviour.contains(&1.0);
        if choices.iter().all(certain) {
            return Err(Refusal::Deterministic);
        }
        support.refuse_unsupported(choices.iter().map(|choice| {
            let both = choice.behaviour.iter().zip(&choice.target);
            sum(both
                .filter(|(behaviour, _)| **behaviour <= support.floor)
                .map(|(_, target)| *target))
        }))?;
        Ok(rows)
    }
}
