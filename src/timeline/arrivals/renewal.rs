//! One stream of arrivals: renewals in operational time, mapped to real time; and streams side by side.

use super::intensity::{Curve, Walk};
use super::law::Law;
use crate::workload::DrawKey;
use crate::workload::draws::{Block, Page, name_key};

/// Blocks that are drawn at once: as many as the generator makes in one go.
const BLOCKS: usize = 4;

/// Random lanes of one stream, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    page: Page,
    blocks: [Block; BLOCKS],
    next: usize,
}

/// The page of a stream's own lanes, from what kind of stream it is and its name. The highest bit keeps it away
/// from the pages that a world counts from zero.
pub(super) fn page(kind: &str, name: &str) -> u64 {
    name_key(kind, name) | 1 << 63
}

impl Lanes {
    pub(super) fn open(key: DrawKey, page: u64) -> Self {
        Self {
            page: Page::open(key, page, 0),
            blocks: [[0; 16]; BLOCKS],
            next: 16 * BLOCKS,
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> u32 {
        if self.next == 16 * BLOCKS {
            self.page.read(&mut self.blocks);
            self.next = 0;
        }
        let lane = self.blocks.as_flattened()[self.next];
        self.next += 1;
        lane
    }
}

/// A stream as it is declared.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Renewal {
    /// See [`page`].
    pub(super) page: u64,
    /// Whose it is.
    pub(super) tenant: u16,
    pub(super) law: Law,
    pub(super) curve: Curve,
}

impl Renewal {
    /// Its times in the replicate of `key`. The first takes lanes 0 and 1, gap n the lane n + 1.
    pub(super) fn open(&self, key: DrawKey) -> Renewing<'_> {
        Renewing {
            law: &self.law,
            walk: self.curve.walk(),
            lanes: Lanes::open(key, self.page),
            begun: false,
        }
    }
}

/// Something that gives times in rising order; [`u64::MAX`], then and for ever, when there are no more.
pub(super) trait Times {
    /// The next time in microseconds.
    fn next(&mut self) -> u64;
}

/// The times of a [`Renewal`].
#[derive(Clone, Debug)]
pub(super) struct Renewing<'a> {
    law: &'a Law,
    walk: Walk<'a>,
    lanes: Lanes,
    begun: bool,
}

impl Times for Renewing<'_> {
    #[inline]
    fn next(&mut self) -> u64 {
        if !self.begun {
            self.begun = true;
            let (part, gap) = (self.lanes.next(), self.lanes.next());
            return self.walk.pass(self.law.first(part, gap));
        }
        self.walk.pass(self.law.gap(self.lanes.next()))
    }
}

/// Streams merged by time; of two at the same time, the one with the lower index comes first.
///
/// A tournament of losers (Knuth, "The Art of Computer Programming", volume 3, section 5.4.1): each inner
/// node keeps what lost there. After a stream has moved on, its next time is played against the losers on its
/// way to the root, whose places are known beforehand.
#[derive(Clone, Debug)]
pub(super) struct Merge<S> {
    streams: Vec<S>,
    /// Next times, each above the index of its stream in the lower 32 bits. The winner stands at 0, the
    /// root is 1, and n/2 is above n; the leaves, which come after, need no place.
    keys: Vec<u128>,
}

/// Orders by time, then by index.
const fn played(at: u64, stream: usize) -> u128 {
    (at as u128) << 32 | stream as u128
}

impl<S: Times> Merge<S> {
    pub(super) fn new(mut streams: Vec<S>) -> Self {
        let leaves = streams.len().next_power_of_two();
        let mut winners = vec![0; leaves];
        for leaf in 0..leaves {
            let at = streams.get_mut(leaf).map_or(u64::MAX, Times::next);
            winners.push(played(at, leaf));
        }
        let mut keys = vec![0; leaves];
        for node in (1..leaves).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            winners[node] = left.min(right);
            keys[node] = left.max(right);
        }
        // With a single leaf the root is that leaf.
        keys[0] = winners[1];
        Self { streams, keys }
    }

    /// The next time and the index of its stream; `None` if there are no more.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(u64, usize)> {
        let at = (self.keys[0] >> 32) as u64;
        let stream = (self.keys[0] as u32) as usize;
        if at == u64::MAX {
            return None;
        }
        let mut key = played(self.streams[stream].next(), stream);
        let mut node = (self.keys.len() + stream) / 2;
        while node > 0 {
            let other = self.keys[node];
            self.keys[node] = other.max(key);
            key = other.min(key);
            node /= 2;
        }
        self.keys[0] = key;
        Some((at, stream))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::Domain;

    struct Fixed(std::vec::IntoIter<u64>);

    impl Times for Fixed {
        fn next(&mut self) -> u64 {
            self.0.next().unwrap_or(u64::MAX)
        }
    }

    #[test]
    fn gap_n_is_a_function_of_its_number() {
        let key = DrawKey {
            seed: 7,
            domain: Domain::Traffic,
            replicate: 2,
        };
        let page = page("arrivals", "acme");
        assert!(page > 1 << 63);
        let mut lanes = Lanes::open(key, page);
        for n in 0..1_000_usize {
            let mut alone = [[0; 16]];
            Page::open(key, page, n as u64 / 16).read(&mut alone);
            assert_eq!(lanes.next(), alone[0][n % 16], "lane {n}");
        }
    }

    proptest! {
        #[test]
        fn merging_is_a_stable_sort(lists in prop::collection::vec(prop::collection::vec(0..30_u64, 0..12), 1..9)) {
            let lists: Vec<Vec<u64>> = lists.into_iter().map(|mut list| { list.sort_unstable(); list }).collect();
            let mut expected: Vec<(u64, usize)> = lists
                .iter()
                .enumerate()
                .flat_map(|(stream, list)| list.iter().map(move |at| (*at, stream)))
                .collect();
            expected.sort_unstable();
            let mut merge = Merge::new(lists.into_iter().map(|list| Fixed(list.into_iter())).collect());
            let found: Vec<_> = std::iter::from_fn(|| merge.next()).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(merge.next(), None);
        }
    }
}
