//! Labelled examples from a workload, apart from the requests that are judged.

use crate::policy::{Examples, Lab};
use crate::router::RouteId;
use crate::standin::outcome::NOT_IN_WORLD;
use crate::workload::{Domain, DrawKey, Workload};

/// Unlabelled prompts behind a median length.
const LENGTHS: usize = 4096;

/// The lab of one replicate and fold.
pub(super) struct WorldLab<'a> {
    pub(super) workload: &'a Workload,
    pub(super) world: &'a [u16],
    pub(super) seed: u64,
    pub(super) replicate: u32,
    /// The fold that a policy trained here will decide about: its examples come from elsewhere.
    pub(super) fold: u8,
}

impl WorldLab<'_> {
    fn key(&self) -> DrawKey {
        DrawKey {
            seed: self.seed,
            domain: Domain::Lab,
            replicate: self.replicate,
        }
    }
}

impl Lab for WorldLab<'_> {
    fn examples(&self, task: u16, route: RouteId, count: u64) -> Examples {
        let column = self.world[route.0 as usize];
        if column == NOT_IN_WORLD {
            return Examples::default();
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let seen =
            self.workload
                .examples(self.key(), self.fold, task as usize, column as usize, count);
        Examples {
            graded: seen.n,
            score_sum: seen.score_sum,
            tokens_known: seen.tokens_known,
            input_tokens_sum: seen.input_tokens_sum,
            output_tokens_sum: seen.output_tokens_sum,
            costs_known: seen.costs_known,
            cost_sum: seen.cost_sum,
        }
    }

    fn median_length(&self) -> Option<u32> {
        let mut lengths = self.workload.lengths(self.key(), self.fold, LENGTHS);
        if lengths.is_empty() {
            return None;
        }
        let middle = (lengths.len() - 1) / 2;
        Some(*lengths.select_nth_unstable(middle).1)
    }
}
