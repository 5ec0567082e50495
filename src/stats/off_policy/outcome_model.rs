//! A model of rewards for the doubly robust estimators: means per task and route, cross-fitted.
//!
//! A model that was fitted to the row it predicts has seen the answer, and its correction r − q is too
//! small. Rows are therefore dealt into folds, and each is predicted from the other folds only.
//! Source: V. Chernozhukov et al., The Econometrics Journal 21 (2018) C1–C68, section 3.

use std::collections::BTreeMap;

/// What the model learns from: one logged choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Index of the task.
    pub task: u32,
    /// Index of the chosen route.
    pub action: usize,
    /// Its reward.
    pub reward: f64,
}

/// Sums that a mean is made of.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    n: u64,
    sum: f64,
}

impl Cell {
    fn add(&mut self, reward: f64) {
        self.n += 1;
        self.sum += reward;
    }

    /// The mean, drawn towards `prior` as by `strength` rows of that reward.
    fn mean(self, prior: f64, strength: f64) -> f64 {
        let weight = self.n as f64 + strength;
        if weight > 0.0 {
            (self.sum + strength * prior) / weight
        } else {
            prior
        }
    }
}

/// For each row the predicted reward of each of `actions` actions on its task, from the rows of other folds
/// alone. Row i is in fold i mod `folds`.
///
/// A prediction is the mean reward of the task and action, drawn towards the action's mean over all tasks
/// as by `strength` rows of it (0 for plain means, which take the action's mean where the cell is empty);
/// and that, in the same way, towards the mean of everything. `None` unless `folds` ≥ 2, there are at
/// least as many rows as folds, every action is below `actions`, rewards are finite and `strength` is
/// finite and not negative.
#[must_use]
pub fn cross_fitted(
    rows: &[Observation],
    actions: usize,
    folds: usize,
    strength: f64,
) -> Option<Vec<Vec<f64>>> {
    let fine = |row: &Observation| row.action < actions && row.reward.is_finite();
    if folds < 2
        || rows.len() < folds
        || !rows.iter().all(fine)
        || !(strength.is_finite() && strength >= 0.0)
    {
        return None;
    }
    let mut predictions = vec![Vec::new(); rows.len()];
    for fold in 0..folds {
        let mut cells: BTreeMap<(u32, usize), Cell> = BTreeMap::new();
        let mut by_action = vec![Cell::default(); actions];
        let mut all = Cell::default();
        let others = rows.iter().enumerate().filter(|(i, _)| i % folds != fold);
        for (_, row) in others {
            cells
                .entry((row.task, row.action))
                .or_default()
                .add(row.reward);
            by_action[row.action].add(row.reward);
            all.add(row.reward);
        }
        // At least one row is in another fold.
        let everything = all.mean(0.0, 0.0);
        let action_means: Vec<f64> = by_action
            .iter()
            .map(|cell| cell.mean(everything, strength))
            .collect();
        for (row, prediction) in rows.iter().zip(&mut predictions).skip(fold).step_by(folds) {
            *prediction = action_means
                .iter()
                .enumerate()
                .map(|(action, prior)| {
                    let cell = cells.get(&(row.task, action)).copied().unwrap_or_default();
                    cell.mean(*prior, strength)
                })
                .collect();
        }
    }
    Some(predictions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(task: u32, action: usize, reward: f64) -> Observation {
        Observation {
            task,
            action,
            reward,
        }
    }

    #[test]
    fn a_row_is_predicted_from_the_other_folds_alone() {
        let rows = [
            row(0, 0, 1.0),
            row(0, 0, 0.0),
            row(0, 0, 1.0),
            row(0, 0, 1.0),
        ];
        // Even rows learn from odd ones, 0 and 1, and odd rows from even ones, 1 and 1.
        let got = cross_fitted(&rows, 1, 2, 0.0).unwrap();
        assert_eq!(got, [[0.5], [1.0], [0.5], [1.0]]);
    }

    #[test]
    fn changing_a_reward_never_changes_its_own_prediction() {
        let mut rows: Vec<Observation> = (0..60)
            .map(|i| row(i % 3, (i % 7 % 2) as usize, f64::from(i % 5)))
            .collect();
        let before = cross_fitted(&rows, 2, 5, 1.0).unwrap();
        for i in 0..rows.len() {
            let kept = rows[i].reward;
            rows[i].reward = 1e6;
            let after = cross_fitted(&rows, 2, 5, 1.0).unwrap();
            assert_eq!(before[i], after[i], "row {i}");
            assert_ne!(before, after, "row {i} taught nobody");
            rows[i].reward = kept;
        }
    }

    #[test]
    fn an_empty_cell_takes_the_actions_mean_and_an_unseen_action_the_mean_of_all() {
        let rows = [
            row(0, 0, 1.0),
            row(0, 0, 1.0),
            row(1, 0, 0.0),
            row(1, 0, 0.0),
        ];
        let got = cross_fitted(&rows, 2, 2, 0.0).unwrap();
        assert_eq!(got[0], [1.0, 0.5]);
        assert_eq!(got[2], [0.0, 0.5]);
        let drawn = cross_fitted(&rows, 2, 2, 1.0).unwrap();
        // The action's mean is (1 + 0.5)/3 = 0.5, the cell's (1 + 0.5)/2.
        assert_eq!(drawn[0], [0.75, 0.5]);
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let rows = [row(0, 0, 1.0), row(0, 1, 0.0)];
        assert_eq!(cross_fitted(&rows, 2, 1, 0.0), None);
        assert_eq!(cross_fitted(&rows, 2, 3, 0.0), None);
        assert_eq!(cross_fitted(&rows, 1, 2, 0.0), None);
        assert_eq!(cross_fitted(&rows, 2, 2, -1.0), None);
        assert_eq!(cross_fitted(&[row(0, 0, f64::NAN); 4], 1, 2, 0.0), None);
    }
}
