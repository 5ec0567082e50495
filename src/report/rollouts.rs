//! What became of a candidate that a policy lets in step by step, over all replicates.
//!
//! Each replicate is one rollout from start to end, so the observations here are replicates, not requests:
//! shares have Wilson intervals over them, means Student's. Over recorded rows replicates share the rows
//! and differ in who was drawn into the slice only; a note says so.

use super::sample::Pooling;
use crate::sim::{Contestant, Rollout, RolloutEnd, SliceCount};
use crate::stats::{Estimate, Limits, mean_limits, moments, student_two_sided, wilson};

/// The rollouts of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Rollouts {
    /// Share of the replicates in which the last step was done.
    pub promoted: Estimate,
    /// Share in which the requests ended before the ramp did.
    pub paused: Estimate,
    /// Share in which the candidate was withdrawn.
    pub rolled_back: Estimate,
    /// Mean number of requests until it was withdrawn, over the replicates in which it was.
    pub requests_until_rollback: Estimate,
    /// Mean number of graded answers of the slice.
    pub graded: Estimate,
    /// Mean number of wrong ones among them.
    pub wrong: Estimate,
    /// Mean number of wrong answers beyond the control's; unknown without a control.
    pub extra_wrong: Estimate,
    /// One per replicate.
    pub runs: Vec<Rollout>,
}

impl Rollouts {
    /// `None` for a policy that lets nobody in step by step.
    pub(super) fn of(contestant: &Contestant, pooling: &Pooling) -> Option<Self> {
        let runs = &contestant.rollouts;
        if runs.is_empty() {
            return None;
        }
        let share = |counts: fn(&RolloutEnd) -> bool| {
            let n = runs.len() as u64;
            let hits = runs.iter().filter(|run| counts(&run.end)).count() as u64;
            let limits = wilson(hits, n, pooling.z());
            Estimate::new(hits as f64 / n as f64, limits, pooling.level, n, "wilson")
        };
        let mean = |value: &dyn Fn(&Rollout) -> Option<i128>, lowest| {
            mean(runs.iter().filter_map(value), pooling.level, lowest)
        };
        let slice =
            |count: fn(&SliceCount) -> u64| mean(&|run| Some(i128::from(count(&run.slice))), 0.0);
        Some(Self {
            promoted: share(|end| matches!(end, RolloutEnd::Promoted { .. })),
            paused: share(|end| matches!(end, RolloutEnd::Paused)),
            rolled_back: share(|end| matches!(end, RolloutEnd::RolledBack { .. })),
            requests_until_rollback: mean(
                &|run| match run.end {
                    RolloutEnd::RolledBack { request, .. } => Some(i128::from(request) + 1),
                    RolloutEnd::Promoted { .. } | RolloutEnd::Paused => None,
                },
                1.0,
            ),
            graded: slice(|count| count.graded),
            wrong: slice(|count| count.wrong),
            extra_wrong: mean(&|run| run.extra_wrong().map(i128::from), f64::MIN),
            runs: runs.clone(),
        })
    }

    /// Every number with its name in JSON and CSV.
    pub(super) fn named(&self) -> [(&'static str, &Estimate); 7] {
        [
            ("promoted", &self.promoted),
            ("paused", &self.paused),
            ("rolled_back", &self.rolled_back),
            ("requests_until_rollback", &self.requests_until_rollback),
            ("graded", &self.graded),
            ("wrong", &self.wrong),
            ("extra_wrong", &self.extra_wrong),
        ]
    }

    /// Answers of all replicates' slices that were neither right nor wrong.
    pub(super) fn ungraded(&self) -> u64 {
        self.runs.iter().map(|run| run.slice.ungraded).sum()
    }
}

/// A mean over replicates, with Student's interval cut off at `lowest`.
fn mean(values: impl Iterator<Item = i128>, level: f64, lowest: f64) -> Estimate {
    let (mut n, mut sum, mut squares) = (0u64, 0i128, 0i128);
    for value in values {
        n += 1;
        sum += value;
        squares = squares.saturating_add(value.saturating_mul(value));
    }
    let Some(moments) = moments(n, sum, squares) else {
        return Estimate::unknown(level);
    };
    let t = student_two_sided(level, n.saturating_sub(1));
    let limits: Option<Limits> = mean_limits(moments.mean, moments.variance, n as f64, t);
    let limits = limits.map(|limits| limits.clipped(lowest, f64::MAX));
    Estimate::new(moments.mean, limits, level, n, Estimate::T_REPLICATES)
}
