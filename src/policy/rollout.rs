//! How far a candidate came that was let in step by step.
//!
//! A policy that widens or withdraws a slice while it runs says at the end of a run what became of it.
//! What this is not: an estimate. One run gives one [`Rollout`]; shares and intervals over many runs are
//! computed from them in `report`.

/// Answers of one slice of the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SliceCount {
    /// Answers that were graded right or wrong.
    pub graded: u64,
    /// Of these, the wrong ones.
    pub wrong: u64,
    /// Answers without a grade, or with partial credit: they count neither as right nor as wrong, and a
    /// step does not end by them.
    pub ungraded: u64,
}

impl SliceCount {
    /// Counts one answer: `Some(true)` for a wrong one, `None` for one that is neither right nor wrong.
    pub(super) fn note(&mut self, wrong: Option<bool>) {
        match wrong {
            Some(wrong) => {
                self.graded += 1;
                self.wrong += u64::from(wrong);
            }
            None => self.ungraded += 1,
        }
    }
}

/// Which test withdrew a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AbortRule {
    /// Its own answers, against error rates that were known beforehand.
    Sprt,
    /// Its wrong answers, against those of the control in the same hours.
    Control,
}

impl AbortRule {
    /// The word for it, which is also its key in a policy file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sprt => "sprt",
            Self::Control => "control",
        }
    }
}

/// Where a rollout stands when a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum RolloutEnd {
    /// The last step was done.
    Promoted {
        /// The request (from 0) whose grade completed it.
        request: u64,
    },
    /// Still at a step: too few answers were graded to leave it.
    Paused,
    /// Withdrawn for good.
    RolledBack {
        /// The request (from 0) whose grade tipped the test.
        request: u64,
        /// The test.
        by: AbortRule,
    },
}

/// What became of a candidate in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rollout {
    /// Where it stands.
    pub end: RolloutEnd,
    /// The step reached, from 0.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// Answers of the slice graded at that step.
    pub graded_at_step: u64,
    /// The slice's answers over all steps, up to promotion or withdrawal.
    pub slice: SliceCount,
    /// Those of the control in the same time, if there is one.
    pub control: Option<SliceCount>,
}

impl Rollout {
    /// Wrong answers of the slice beyond those of the control, which is as large and was drawn in the
    /// same way: what the candidate cost its users, with the noise of both counts. Negative when the
    /// control did worse; `None` without a control.
    #[must_use]
    pub fn extra_wrong(&self) -> Option<i64> {
        let control = self.control?;
        Some(self.slice.wrong as i64 - control.wrong as i64)
    }
}
