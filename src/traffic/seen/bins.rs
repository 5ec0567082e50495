//! A time line whose length is not known beforehand: bins that grow together when there are too many.

use std::collections::BTreeMap;

use crate::units::{Duration, Instant};

/// Most bins.
pub(super) const BINS_MAX: usize = 60;

/// Widths in seconds, each a multiple of the one before; after the last they double.
const WIDTHS_S: [u64; 10] = [1, 2, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200];

/// What came in within one bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Requests whose first attempt it was.
    pub requests: u64,
    /// Attempts and failed attempts, by place: the index into [`Seen::places`](super::Seen::places).
    pub by_place: BTreeMap<u32, (u64, u64)>,
}

impl Bin {
    /// Attempts at all places.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.by_place.values().map(|(attempts, _)| attempts).sum()
    }

    /// Failed ones among them.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.by_place.values().map(|(_, failed)| failed).sum()
    }

    fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        for (place, (attempts, failed)) in other.by_place {
            let sum = self.by_place.entry(place).or_default();
            sum.0 += attempts;
            sum.1 += failed;
        }
    }
}

/// All bins, from the first second on.
#[derive(Clone, Debug)]
pub(super) struct Bins {
    pub(super) width: Duration,
    pub(super) bins: Vec<Bin>,
}

impl Default for Bins {
    fn default() -> Self {
        Self {
            width: Duration::from_secs(WIDTHS_S[0]),
            bins: Vec::new(),
        }
    }
}

impl Bins {
    /// The bin in which `at` lies.
    pub(super) fn at(&mut self, at: Instant) -> &mut Bin {
        while at.0 / self.width.0 >= BINS_MAX as u64 {
            self.widen();
        }
        let index = (at.0 / self.width.0) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }

    fn widen(&mut self) {
        let seconds = self.width.0 / 1_000_000;
        let next = WIDTHS_S.into_iter().find(|width| *width > seconds);
        let next = Duration::from_secs(next.unwrap_or(seconds.saturating_mul(2)));
        let factor = (next.0 / self.width.0) as usize;
        let mut merged: Vec<Bin> = Vec::new();
        for (index, bin) in std::mem::take(&mut self.bins).into_iter().enumerate() {
            match merged.get_mut(index / factor) {
                Some(wide) => wide.merge(bin),
                None => merged.push(bin),
            }
        }
        self.bins = merged;
        self.width = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn widening_loses_nothing_and_moves_nobody(
            seconds in proptest::collection::vec(0_u64..200_000, 1..80),
        ) {
            let mut bins = Bins::default();
            for (index, second) in seconds.iter().enumerate() {
                let bin = bins.at(Instant(second * 1_000_000 + 7));
                bin.requests += 1;
                let sum = bin.by_place.entry(index as u32 % 3).or_default();
                sum.0 += 2;
                sum.1 += 1;
            }
            proptest::prop_assert!(bins.bins.len() <= BINS_MAX);
            let width = bins.width.0 / 1_000_000;
            for (index, bin) in bins.bins.iter().enumerate() {
                let here = seconds.iter().filter(|second| **second / width == index as u64).count() as u64;
                proptest::prop_assert_eq!(bin.requests, here);
                proptest::prop_assert_eq!((bin.attempts(), bin.failed()), (2 * here, here));
            }
        }
    }

    #[test]
    fn widths_divide_each_other() {
        for pair in WIDTHS_S.windows(2) {
            assert_eq!(pair[1] % pair[0], 0, "{pair:?}");
        }
    }
}
