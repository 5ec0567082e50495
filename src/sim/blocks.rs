//! The same experiment with its requests cut into blocks whose sums are kept apart.
//!
//! Block sums are what a bootstrap resamples: all contestants saw the same requests, so the sums of one
//! block belong together, and drawing whole blocks keeps whatever ties the numbers of different
//! contestants to each other. Blocks are runs of consecutive requests, which on recorded rows keeps
//! together what stood together in the file.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::checkpoint::PartBlock;
use super::{Experiment, Results, Stopped};
use crate::source::Diagnostics;
use crate::stats::{Tally, UnitSums};

/// The block sums of every contestant, in the order of [`Results::contestants`].
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Blocks {
    /// `of[c][r][b]`: contestant c, replicate r, block b. A replicate of a staged experiment has none.
    pub of: Vec<Vec<Vec<UnitSums>>>,
}

impl Blocks {
    pub(super) fn new(contestants: usize) -> Self {
        Self {
            of: vec![Vec::new(); contestants],
        }
    }

    /// One more replicate: for each block the sums of all contestants.
    pub(super) fn add(&mut self, blocks: &[PartBlock]) {
        for (contestant, replicates) in self.of.iter_mut().enumerate() {
            let sums = blocks
                .iter()
                .filter_map(|block| block.units.get(contestant).copied());
            replicates.push(sums.collect());
        }
    }
}

/// Runs an experiment as [`super::run`] does, with the same results to the last digit, and gives the sums
/// of `blocks` blocks of each replicate beside them. Blocks differ in length by at most one request;
/// there are never more of them than requests, and always one.
///
/// # Errors
///
/// Those of [`super::run`]. An experiment with a stage is refused: its routers remember earlier requests, so
/// that blocks would not be independent.
pub fn run_in_blocks(
    experiment: &Experiment<'_>,
    blocks: u64,
    warnings: &mut Diagnostics,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<(Results, Blocks), Stopped> {
    if experiment.stage.is_some() {
        return Err(Stopped::Failed(
            "a staged experiment cannot be cut into blocks".to_owned(),
        ));
    }
    super::run_resumable(experiment, blocks, ("", None), warnings, tick, stop)
}

/// What a bootstrap needs of the tallies of a block.
pub(super) fn units(tallies: &[Tally]) -> Vec<UnitSums> {
    let unit = |tally: &Tally| UnitSums {
        graded: tally.graded,
        score_sum: tally.score_sum,
        costed: tally.costed,
        cost_sum: tally.cost_sum,
    };
    tallies.iter().map(unit).collect()
}

/// `requests` in `blocks` runs of nearly equal length.
pub(super) fn ranges(requests: u64, blocks: u64) -> Vec<Range<u64>> {
    let blocks = blocks.clamp(1, requests.max(1));
    let start = |block: u64| {
        // At most `requests`, so it fits.
        (u128::from(requests) * u128::from(block) / u128::from(blocks)) as u64
    };
    (0..blocks)
        .map(|block| start(block)..start(block + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_cover_every_request_once(requests in 0_u64..10_000, blocks in 0_u64..300) {
            let ranges = ranges(requests, blocks);
            prop_assert_eq!(ranges[0].start, 0);
            prop_assert_eq!(ranges.last().unwrap().end, requests);
            prop_assert!(ranges.windows(2).all(|two| two[0].end == two[1].start));
            let lengths = || ranges.iter().map(|range| range.end - range.start);
            prop_assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1);
        }
    }

    #[test]
    fn the_largest_experiment_can_be_cut() {
        let ranges = ranges(u64::MAX, 100);
        assert_eq!(ranges.len(), 100);
        assert_eq!(ranges[99].end, u64::MAX);
    }
}
