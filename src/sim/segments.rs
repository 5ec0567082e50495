//! The parts of the traffic: each task of each tenant, added up apart.
//!
//! A policy may be fine on the whole and bad for somebody. The sums of a segment are integers, kept beside
//! the tallies of the whole and changing nothing about them; whoever wants a task, or a tenant, merges
//! segments. They hold what a verdict about accuracy and cost needs, not all that a [`Tally`](crate::stats::Tally)
//! holds. Their number is bounded by tasks × tenants; where that is too many, there are none and a note says so.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::tallying::{self, Column};
use crate::stats::{PairTally, SegmentTally};
use crate::units::lanes::{LANES, Lanes};
use crate::workload::{Batch, NO_NAME};

/// Most segments that are kept apart.
pub const SEGMENTS_MAX: usize = 4_096;
/// Most sums kept at a time: segments × contestants × (1 + baselines) × replicates. Each takes 128 bytes.
pub const SEGMENT_SUMS_MAX: usize = 1_000_000;

/// The requests of one task of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The task.
    pub task: String,
    /// The tenant; `None` for requests that name none.
    pub tenant: Option<String>,
    /// Requests, by replicate.
    pub requests: Vec<u64>,
    /// By contestant, in the order of [`Results::contestants`](super::Results::contestants).
    pub of: Vec<SegmentSums>,
}

/// One contestant on a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSums {
    /// By replicate.
    pub tallies: Vec<SegmentTally>,
    /// `pairs[b][r]`: against `Results::baselines[b]`, in replicate r.
    pub pairs: Vec<Vec<PairTally>>,
}

/// What tells segments apart: indices of task and tenant.
type Key = (u16, u16);

/// The sums of some requests, by segment.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Segments {
    #[serde(with = "super::checkpoint::as_pairs")]
    sums: BTreeMap<Key, Sums>,
    contestants: usize,
    baselines: usize,
    /// Whether a limit was passed; then there are no sums.
    too_many: bool,
}

/// The sums of one segment.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Sums {
    requests: u64,
    /// By contestant.
    tallies: Vec<SegmentTally>,
    /// By contestant, and for each of them the baselines.
    pairs: Vec<PairTally>,
}

impl Sums {
    fn merge(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.pairs.iter_mut().zip(&other.pairs) {
            mine.merge(theirs);
        }
    }
}

impl Segments {
    pub(super) fn new(contestants: usize, baselines: usize) -> Self {
        Self {
            sums: BTreeMap::new(),
            contestants,
            baselines,
            too_many: false,
        }
    }

    /// Adds a slice of requests; columns are the contestants'.
    pub(super) fn add(&mut self, batch: &Batch, columns: &[&Column], baselines: &[usize]) {
        if self.too_many {
            return;
        }
        let groups = batch.len.div_ceil(LANES);
        // By segment of this slice, which requests are its own.
        let mut members: BTreeMap<Key, Vec<Lanes>> = BTreeMap::new();
        let keys = batch.task[..batch.len].iter().zip(&batch.tenant);
        for (i, (task, tenant)) in keys.enumerate() {
            let lanes = members
                .entry((*task, *tenant))
                .or_insert_with(|| vec![0; groups]);
            lanes[i / LANES] |= 1 << (i % LANES);
        }
        for (key, members) in members {
            let (contestants, pairs) = (self.contestants, self.contestants * self.baselines);
            let sums = self.sums.entry(key).or_insert_with(|| Sums {
                requests: 0,
                tallies: vec![SegmentTally::default(); contestants],
                pairs: vec![PairTally::default(); pairs],
            });
            let count = |sum: u64, lanes: &Lanes| sum + u64::from(lanes.count_ones());
            sums.requests += members.iter().fold(0, count);
            for (column, tally) in columns.iter().zip(&mut sums.tallies) {
                tallying::add_some(tally, column, &members);
            }
            // Without baselines there are no pairs, and a chunk may not be empty.
            let by_contestant = sums.pairs.chunks_exact_mut(self.baselines.max(1));
            for (mine, pairs) in columns.iter().zip(by_contestant) {
                for (baseline, pair) in baselines.iter().zip(pairs) {
                    tallying::add_some_pairs(pair, mine, columns[*baseline], &members);
                }
            }
        }
        self.check();
    }

    /// Adds another part's requests; the order does not matter, see [`super::clusters`].
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.too_many |= other.too_many;
        for (key, sums) in other.sums {
            match self.sums.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(sums);
                }
                Entry::Occupied(mut entry) => entry.get_mut().merge(&sums),
            }
        }
        self.check();
        self
    }

    fn check(&mut self) {
        let segments = self.sums.len();
        let width = self.contestants * (1 + self.baselines);
        self.too_many |= segments > SEGMENTS_MAX || segments * width > SEGMENT_SUMS_MAX;
        if self.too_many {
            self.sums.clear();
        }
    }
}

/// The segments of all replicates so far. Those that a replicate does not have count as empty in it.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Gathered {
    #[serde(with = "super::checkpoint::as_pairs")]
    of: BTreeMap<Key, Vec<Option<Sums>>>,
    replicates: usize,
    too_many: bool,
}

impl Gathered {
    /// One more replicate.
    pub(super) fn push(&mut self, own: Segments) {
        let width = own.contestants * (1 + own.baselines);
        self.too_many |= own.too_many;
        for (key, sums) in own.sums {
            let all = self.of.entry(key).or_default();
            all.resize(self.replicates, None);
            all.push(Some(sums));
        }
        self.replicates += 1;
        let segments = self.of.len();
        self.too_many |=
            segments > SEGMENTS_MAX || segments * width * self.replicates > SEGMENT_SUMS_MAX;
        if self.too_many {
            self.of.clear();
        }
    }

    /// The segments by task, then by tenant; or why there are none.
    pub(super) fn finish(
        self,
        (tasks, tenants): (&[String], &[String]),
        (contestants, baselines): (usize, usize),
    ) -> Result<Vec<Segment>, String> {
        if self.too_many {
            return Err(format!(
                "tasks and tenants are not told apart: there are more than {SEGMENTS_MAX} pairs of them, or more than {SEGMENT_SUMS_MAX} sums with {contestants} contestants, {baselines} baselines and {} replicates; naming one --baseline makes room",
                self.replicates
            ));
        }
        let named = |names: &[String], index: u16| {
            let name = names.get(usize::from(index)).cloned();
            (index != NO_NAME).then(|| name.unwrap_or_else(|| "?".to_owned()))
        };
        let replicates = self.replicates;
        let segment = |((task, tenant), mut sums): (Key, Vec<Option<Sums>>)| {
            sums.resize(replicates, None);
            let each = |of: &dyn Fn(&Sums) -> SegmentTally| {
                let tallies = sums.iter().map(|one| one.as_ref().map(of));
                tallies.map(Option::unwrap_or_default).collect()
            };
            let pair = |place: usize| {
                let pairs = sums.iter().map(|one| one.as_ref());
                let pairs = pairs.map(|one| one.map(|one| one.pairs[place].clone()));
                pairs.map(Option::unwrap_or_default).collect()
            };
            let of = (0..contestants).map(|contestant| SegmentSums {
                tallies: each(&|one| one.tallies[contestant].clone()),
                pairs: (0..baselines)
                    .map(|baseline| pair(contestant * baselines + baseline))
                    .collect(),
            });
            let requests = sums.iter().map(|one| one.as_ref());
            Segment {
                task: named(tasks, task).unwrap_or_else(|| "?".to_owned()),
                tenant: named(tenants, tenant),
                requests: requests
                    .map(|one| one.map_or(0, |one| one.requests))
                    .collect(),
                of: of.collect(),
            }
        };
        Ok(self.of.into_iter().map(segment).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::drive::Outcome;
    use crate::standin::outcome::COST_UNKNOWN;
    use crate::units::Score;
    use proptest::prelude::*;

    fn outcome() -> impl Strategy<Value = Outcome> {
        let cost = prop_oneof![9 => 0u64..1 << 40, 1 => Just(COST_UNKNOWN), 1 => any::<u64>()];
        let grade = prop_oneof![
            5 => Just(Score::RIGHT),
            5 => Just(Score::WRONG),
            1 => Just(Score::MISSING),
            1 => Just(Score::from_fraction(0.25).unwrap()),
        ];
        (cost, grade).prop_map(|(cost, grade)| Outcome::new(cost, grade, 0, 1, 0))
    }

    fn plain() -> impl Strategy<Value = Outcome> {
        (0u64..1 << 40, any::<bool>())
            .prop_map(|(cost, right)| Outcome::new(cost, Score::from_right(right), 0, 1, 0))
    }

    fn column(outcomes: &[Outcome]) -> Column {
        let mut column = Column::default();
        column.begin_outcomes().extend_from_slice(outcomes);
        column.settle();
        column
    }

    type Row = (u16, u16, Outcome, Outcome);

    fn segments(rows: &[Row]) -> Segments {
        let batch = Batch {
            len: rows.len(),
            task: rows.iter().map(|row| row.0).collect(),
            tenant: rows.iter().map(|row| row.1).collect(),
            ..Batch::default()
        };
        let first: Vec<Outcome> = rows.iter().map(|row| row.2).collect();
        let second: Vec<Outcome> = rows.iter().map(|row| row.3).collect();
        let columns = [column(&first), column(&second)];
        let mut segments = Segments::new(2, 1);
        segments.add(&batch, &columns.each_ref(), &[1]);
        segments
    }

    /// Counted one by one, as slowly as can be.
    fn counted(rows: &[Row]) -> BTreeMap<Key, (SegmentTally, PairTally)> {
        let mut sums: BTreeMap<Key, (SegmentTally, PairTally)> = BTreeMap::new();
        for (task, tenant, mine, theirs) in rows {
            let (tally, pair) = sums.entry((*task, *tenant)).or_default();
            let cost = |one: &Outcome| (one.cost != COST_UNKNOWN).then_some(one.cost);
            tally.add(mine.grade().millionths(), cost(mine));
            let (mine, theirs) = (column(&[*mine]), column(&[*theirs]));
            tallying::add_pairs(pair, &mine, &theirs);
        }
        sums
    }

    proptest! {
        /// 64 abreast and one by one come to the same sums, wherever the requests are cut.
        #[test]
        fn segments_hold_the_sums_of_their_requests_and_merge_in_any_order(
            plain in prop::collection::vec((0u16..3, prop_oneof![Just(0u16), Just(NO_NAME)], plain(), plain()), 128),
            any in prop::collection::vec((0u16..3, 0u16..2, outcome(), outcome()), 0..150),
            cut in 0usize..150,
        ) {
            let all: Vec<Row> = plain.iter().chain(&any).copied().collect();
            let cut = cut.min(any.len());
            let parts = || [segments(&plain), segments(&any[..cut]), segments(&any[cut..])];
            let [a, b, c] = parts();
            let forward = a.merge(b).merge(c);
            let [a, b, c] = parts();
            let backward = c.merge(b.merge(a));
            let wanted = counted(&all);
            for merged in [forward, backward] {
                prop_assert_eq!(merged.sums.len(), wanted.len());
                for (key, sums) in &merged.sums {
                    prop_assert_eq!(&sums.tallies[0], &wanted[key].0);
                    prop_assert_eq!(&sums.pairs[0], &wanted[key].1);
                    prop_assert_eq!(sums.requests, wanted[key].0.requests);
                }
            }
        }
    }

    #[test]
    fn more_segments_than_can_be_held_are_left_out_in_any_order() {
        let right = Outcome::new(1, Score::RIGHT, 0, 1, 0);
        let rows = |tasks: std::ops::Range<u16>| -> Vec<Row> {
            tasks.map(|task| (task, NO_NAME, right, right)).collect()
        };
        let most = SEGMENTS_MAX as u16;
        let held = segments(&rows(0..most - 1)).merge(segments(&rows(9..most)));
        assert_eq!((held.too_many, held.sums.len()), (false, SEGMENTS_MAX));
        let full = held.merge(segments(&rows(most..most + 1)));
        let full = segments(&rows(0..3)).merge(full);
        assert!(full.too_many && full.sums.is_empty());
        let mut gathered = Gathered::default();
        gathered.push(segments(&rows(0..3)));
        gathered.push(full);
        let why = gathered.finish((&[], &[]), (2, 1));
        assert!(why.unwrap_err().contains("not told apart"));
    }
}
