//! Differences between policies by user, conversation or tenant, in integers.
//!
//! Requests of one user are not independent of each other, so an interval needs sums by user: how much
//! more accurate and how much dearer a contestant was than a baseline, over this user's requests. They
//! are added up beside the tallies and change nothing about them. This is the one thing a comparison keeps
//! that grows with the traffic, so it has a limit.

use std::collections::BTreeMap;

use super::tallying::Column;
use crate::policy::Unit;
use crate::stats::ClusterPair;
use crate::workload::{Batch, NO_NAME};

/// Most sums kept at a time: clusters × contestants × baselines. Each takes 64 bytes.
pub const CLUSTER_SUMS_MAX: usize = 4_000_000;

/// The sums of some requests.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Clusters {
    /// By cluster: contestants, and for each of them the baselines.
    #[serde(with = "super::checkpoint::as_pairs")]
    sums: BTreeMap<u64, Vec<ClusterPair>>,
    /// Sums of one cluster.
    width: usize,
    /// Whether the limit was passed; then there are no sums.
    too_many: bool,
}

impl Clusters {
    pub(super) fn new(contestants: usize, baselines: usize) -> Self {
        Self {
            width: contestants * baselines,
            ..Self::default()
        }
    }

    /// Adds a slice of requests, whose clusters are `ids`; columns are the contestants'.
    pub(super) fn add(&mut self, ids: &[u64], columns: &[&Column], baselines: &[usize]) {
        if baselines.is_empty() {
            return;
        }
        for (i, id) in ids.iter().enumerate() {
            if self.too_many {
                return;
            }
            let width = self.width;
            let sums = self
                .sums
                .entry(*id)
                .or_insert_with(|| vec![ClusterPair::default(); width]);
            for (mine, sums) in columns.iter().zip(sums.chunks_exact_mut(baselines.len())) {
                for (baseline, sum) in baselines.iter().zip(sums) {
                    if let (Some(first), Some(second)) = (mine.at(i), columns[*baseline].at(i)) {
                        if let (Some(a), Some(b)) = (first.score, second.score) {
                            sum.score.n += 1;
                            sum.score.sum += i128::from(a) - i128::from(b);
                        }
                        if let (Some(a), Some(b)) = (first.cost, second.cost) {
                            sum.cost.n += 1;
                            sum.cost.sum += i128::from(a) - i128::from(b);
                        }
                    }
                }
            }
            self.check();
        }
    }

    /// Adds another part's requests. The order does not matter: the limit is passed if and only if all
    /// clusters together pass it.
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.too_many |= other.too_many;
        for (id, sums) in other.sums {
            match self.sums.entry(id) {
                std::collections::btree_map::Entry::Vacant(entry) => {
                    entry.insert(sums);
                }
                std::collections::btree_map::Entry::Occupied(mut entry) => {
                    for (mine, theirs) in entry.get_mut().iter_mut().zip(sums) {
                        mine.merge(theirs);
                    }
                }
            }
        }
        self.check();
        self
    }

    fn check(&mut self) {
        self.too_many |= self.sums.len() * self.width > CLUSTER_SUMS_MAX;
        if self.too_many {
            self.sums.clear();
        }
    }

    /// The sums by contestant, then by baseline, in the order of the clusters' identities; or how many
    /// clusters can be held.
    pub(super) fn by_pair(&self, baselines: usize) -> Result<Vec<Vec<Vec<ClusterPair>>>, usize> {
        if self.too_many {
            return Err(CLUSTER_SUMS_MAX / self.width.max(1));
        }
        let contestants = self.width / baselines.max(1);
        Ok((0..contestants)
            .map(|contestant| {
                (0..baselines)
                    .map(|baseline| {
                        let place = contestant * baselines + baseline;
                        self.sums.values().map(|sums| sums[place]).collect()
                    })
                    .collect()
            })
            .collect())
    }
}

/// The clusters of a batch's requests. Whoever has no tenant's name is alone.
pub(super) fn ids(unit: Unit, batch: &Batch, first: u64) -> Vec<u64> {
    match unit {
        Unit::User => batch.user[..batch.len].to_vec(),
        Unit::Session => batch.session[..batch.len].to_vec(),
        Unit::Tenant => batch.tenant[..batch.len]
            .iter()
            .zip(first..)
            .map(|(tenant, number)| match *tenant {
                // Beyond the names of tenants, which are 16 bits.
                NO_NAME => number.saturating_add(1 << 16),
                named => u64::from(named),
            })
            .collect(),
        Unit::Request => (first..).take(batch.len).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(id: u64, score: i128) -> (u64, Vec<ClusterPair>) {
        let mut pair = ClusterPair::default();
        pair.score.n = 1;
        pair.score.sum = score;
        (id, vec![pair; 2])
    }

    fn of(parts: &[(u64, i128)]) -> Clusters {
        let mut clusters = Clusters::new(2, 1);
        for (id, score) in parts {
            let mut part = Clusters::new(2, 1);
            part.sums.extend([one(*id, *score)]);
            clusters = clusters.merge(part);
        }
        clusters
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_the_order(
            parts in prop::collection::vec((0_u64..6, -9_i128..9), 0..20), cut in 0_usize..20,
        ) {
            let cut = cut.min(parts.len());
            let forward = of(&parts).by_pair(1).unwrap();
            let halves = of(&parts[cut..]).merge(of(&parts[..cut]));
            prop_assert_eq!(forward, halves.by_pair(1).unwrap());
        }
    }

    #[test]
    fn more_clusters_than_can_be_held_are_counted_as_too_many_in_any_order() {
        // So many pairs that the fourth cluster is one too many.
        let part = |id| {
            let mut part = Clusters::new(1_200, 1_000);
            part.sums.insert(id, Vec::new());
            part.check();
            part
        };
        let three = part(1).merge(part(2)).merge(part(3)).merge(part(2));
        assert_eq!((three.too_many, three.sums.len()), (false, 3));
        assert_eq!(three.merge(part(4)).by_pair(1_000), Err(3));
        let other = part(4).merge(part(3)).merge(part(2).merge(part(1)));
        assert_eq!(other.merge(part(1)).by_pair(1_000), Err(3));
    }

    #[test]
    fn requests_without_a_tenant_stand_alone() {
        let batch = Batch {
            tenant: vec![3, NO_NAME, 3, NO_NAME],
            len: 4,
            ..Batch::default()
        };
        let ids = ids(Unit::Tenant, &batch, 10);
        assert_eq!((ids[0], ids[2]), (3, 3));
        assert!(ids[1] != ids[3] && ids[1] > 0xffff && ids[3] > 0xffff);
    }
}
