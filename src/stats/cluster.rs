//! Means over requests that are not independent: users, conversations and tenants come back.
//!
//! Requests of one user resemble each other, so a thousand requests of ten users say less than a thousand
//! of a thousand. Intervals here take the clusters for what is drawn independently, and leave open how
//! requests within one depend on each other. Sums are integers, one pair of them per cluster.

use super::bootstrap::{Bootstrap, bca, percentile};
use super::interval::Limits;
use super::quantile::student_two_sided;

/// Fewer clusters than this decide nothing. With so few, the robust standard error is biased towards zero
/// and Student's t does not make up for it: tests reject more often than they say. On few clusters see
/// A. C. Cameron, D. L. Miller, Journal of Human Resources 50 (2015) 317–372. The number is a choice.
pub const CLUSTERS_LEAST: u64 = 10;

/// What one cluster adds: how many observations, and their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClusterSum {
    /// Observations.
    pub n: u64,
    /// Their sum, such as of score differences in millionths or cost differences in 10⁻¹² USD.
    pub sum: i128,
}

impl ClusterSum {
    /// Adds another one's observations.
    pub fn merge(&mut self, other: Self) {
        self.n = self.n.saturating_add(other.n);
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// What one cluster's requests add to the comparison of two policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClusterPair {
    /// First score − second score in millionths, over requests graded for both.
    pub score: ClusterSum,
    /// First cost − second cost in 10⁻¹² USD, over requests of known cost for both.
    pub cost: ClusterSum,
}

impl ClusterPair {
    /// Adds another one's requests; the order does not matter.
    pub fn merge(&mut self, other: Self) {
        self.score.merge(other.score);
        self.cost.merge(other.cost);
    }
}

/// A mean over clustered observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterMean {
    /// Observations.
    pub n: u64,
    /// Clusters with at least one observation.
    pub clusters: u64,
    /// Mean over observations.
    pub mean: f64,
    /// Its cluster-robust standard error; `None` for one cluster.
    pub standard_error: Option<f64>,
}

impl ClusterMean {
    /// mean ± t·se, with Student's t of clusters − 1 degrees of freedom. `None` for one cluster, for
    /// clusters that do not differ at all (an interval without width would be Wald's artefact, not
    /// certainty), or unless `level` lies strictly between 0 and 1.
    ///
    /// With fewer than about 30 clusters, or a few large ones among small ones, such intervals are still
    /// too narrow. Source: A. C. Cameron, D. L. Miller, Journal of Human Resources 50 (2015) 317–372.
    #[must_use]
    pub fn limits(&self, level: f64) -> Option<Limits> {
        let t = student_two_sided(level, self.clusters.checked_sub(1)?);
        let half = t * self.standard_error.filter(|error| *error > 0.0)?;
        half.is_finite().then(|| Limits::around(self.mean, half))
    }
}

/// The mean of clustered observations, and its standard error
/// √(G/(G − 1) · Σ over clusters g of (Σ in g of (d − mean))²)/n.
///
/// With one observation in each of G = n clusters this is the ordinary sd/√n. Clusters without
/// observations do not count. `None` without observations.
/// Source: K.-Y. Liang, S. L. Zeger, Biometrika 73 (1986) 13–22, for a mean; the factor G/(G − 1) is the
/// usual small-sample correction.
#[must_use]
pub fn cluster_mean(clusters: impl IntoIterator<Item = ClusterSum> + Clone) -> Option<ClusterMean> {
    let counted = || clusters.clone().into_iter().filter(|one| one.n > 0);
    let mut total = ClusterSum::default();
    let mut groups = 0_u64;
    for one in counted() {
        total.merge(one);
        groups += 1;
    }
    if total.n == 0 {
        return None;
    }
    let mean = total.sum as f64 / total.n as f64;
    // n·s − m·S is exact: a small spread about a large mean must not cancel to noise.
    let apart = |one: ClusterSum| {
        let exact = one
            .sum
            .checked_mul(i128::from(total.n))
            .zip(total.sum.checked_mul(i128::from(one.n)))
            .and_then(|(own, due)| own.checked_sub(due));
        match exact {
            Some(exact) => exact as f64 / total.n as f64,
            None => one.sum as f64 - one.n as f64 * mean,
        }
    };
    let squares: f64 = counted()
        .map(|one| {
            let apart = apart(one);
            apart * apart
        })
        .sum();
    Some(ClusterMean {
        n: total.n,
        clusters: groups,
        mean,
        standard_error: (groups > 1).then(|| {
            let g = groups as f64;
            (g / (g - 1.0) * squares).sqrt() / total.n as f64
        }),
    })
}

/// Means over observations when clusters are drawn anew, one per replicate. Clusters without
/// observations must not be among them.
fn resampled(clusters: &[ClusterSum], draws: &Bootstrap) -> Vec<f64> {
    draws.values(clusters.len(), |times| {
        let mut total = ClusterSum::default();
        for (&times, one) in times.iter().zip(clusters) {
            total.n = total.n.saturating_add(one.n.saturating_mul(times.into()));
            total.sum = total
                .sum
                .saturating_add(one.sum.saturating_mul(times.into()));
        }
        total.sum as f64 / total.n as f64
    })
}

/// Percentile limits of the mean, by drawing clusters anew. `None` for fewer than two clusters.
///
/// Source: as for [`percentile`]; A. C. Davison, D. V. Hinkley, Bootstrap Methods (1997), section 3.8, for
/// drawing whole clusters.
#[must_use]
pub fn cluster_percentile(
    clusters: &[ClusterSum],
    level: f64,
    draws: &Bootstrap,
) -> Option<Limits> {
    let counted: Vec<ClusterSum> = clusters.iter().copied().filter(|one| one.n > 0).collect();
    (counted.len() > 1)
        .then(|| percentile(&resampled(&counted, draws), level))
        .flatten()
}

/// BCa limits of the mean, by drawing clusters anew; the jackknife leaves out a cluster at a time. `None`
/// for fewer than two clusters, for clusters that do not differ (all draws are equal, which says nothing
/// about other clusters), and as for [`bca`].
#[must_use]
pub fn cluster_bca(clusters: &[ClusterSum], level: f64, draws: &Bootstrap) -> Option<Limits> {
    let counted: Vec<ClusterSum> = clusters.iter().copied().filter(|one| one.n > 0).collect();
    // None for one cluster, zero for equal ones.
    cluster_mean(counted.iter().copied())?
        .standard_error
        .filter(|error| *error > 0.0)?;
    let mut total = ClusterSum::default();
    counted.iter().for_each(|one| total.merge(*one));
    let left_out: Vec<f64> = counted
        .iter()
        .map(|one| total.sum.saturating_sub(one.sum) as f64 / (total.n - one.n) as f64)
        .collect();
    let mean = total.sum as f64 / total.n as f64;
    bca(&resampled(&counted, draws), mean, &left_out, level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::moments;
    use proptest::prelude::*;

    const DRAWS: Bootstrap = Bootstrap {
        seed: 7,
        replicates: 2_000,
    };

    fn singletons(values: &[i64]) -> Vec<ClusterSum> {
        values
            .iter()
            .map(|value| ClusterSum {
                n: 1,
                sum: i128::from(*value),
            })
            .collect()
    }

    proptest! {
        #[test]
        fn singletons_give_the_ordinary_standard_error(
            values in prop::collection::vec(-1_000_000_000_i64..1_000_000_000, 2..60),
        ) {
            let got = cluster_mean(singletons(&values)).unwrap();
            let n = values.len() as u64;
            let sum = values.iter().map(|v| i128::from(*v)).sum();
            let squares = values.iter().map(|v| i128::from(*v) * i128::from(*v)).sum();
            let ordinary = moments(n, sum, squares).unwrap();
            let error = (ordinary.variance.unwrap() / n as f64).sqrt();
            prop_assert!((got.standard_error.unwrap() - error).abs() <= 1e-12 * error.max(1.0));
            prop_assert_eq!(got.mean, ordinary.mean);
        }

        #[test]
        fn the_order_of_clusters_and_empty_ones_change_nothing(
            sums in prop::collection::vec((1_u64..9, -1000_i128..1000), 2..20),
        ) {
            let all: Vec<ClusterSum> =
                sums.iter().map(|&(n, sum)| ClusterSum { n, sum }).collect();
            let mut other = vec![ClusterSum::default()];
            other.extend(all.iter().rev());
            let (a, b) = (cluster_mean(all).unwrap(), cluster_mean(other).unwrap());
            prop_assert_eq!((a.n, a.clusters, a.mean), (b.n, b.clusters, b.mean));
            let (x, y) = (a.standard_error.unwrap(), b.standard_error.unwrap());
            prop_assert!((x - y).abs() <= 1e-12 * x.max(1.0));
        }
    }

    #[test]
    fn requests_that_are_copies_of_each_other_count_once() {
        // Each value k times in one cluster: the same standard error as of the values themselves.
        let values = [3_i64, -1, 4, 1, -5, 9, 2, -6];
        let copies = |k: u64| {
            let clusters = values.map(|v| ClusterSum {
                n: k,
                sum: i128::from(v) * i128::from(k),
            });
            cluster_mean(clusters).unwrap().standard_error.unwrap()
        };
        assert!((copies(1) - copies(25)).abs() < 1e-12);
    }

    #[test]
    fn a_small_spread_about_a_huge_mean_is_exact() {
        let x = 1_000_000_000_000_000_i64;
        let got = cluster_mean(singletons(&[x, x + 1, x + 2])).unwrap();
        assert!((got.standard_error.unwrap() - (1.0_f64 / 3.0).sqrt()).abs() < 1e-15);
    }

    #[test]
    fn one_cluster_has_a_mean_but_no_interval() {
        let one = [ClusterSum { n: 9, sum: 3 }];
        let got = cluster_mean(one).unwrap();
        assert_eq!(
            (got.clusters, got.standard_error, got.limits(0.95)),
            (1, None, None)
        );
        assert_eq!(cluster_bca(&one, 0.95, &DRAWS), None);
        assert_eq!(cluster_percentile(&one, 0.95, &DRAWS), None);
        assert_eq!(cluster_mean([ClusterSum::default()]), None);
    }

    #[test]
    fn clusters_that_do_not_differ_have_no_interval() {
        // The same mean of 2/3 in each, of different sizes.
        let equal: Vec<ClusterSum> = (1..40)
            .map(|k| ClusterSum {
                n: 3 * k,
                sum: 2 * i128::from(k),
            })
            .collect();
        let got = cluster_mean(equal.iter().copied()).unwrap();
        assert_eq!((got.standard_error, got.limits(0.95)), (Some(0.0), None));
        assert_eq!(cluster_bca(&equal, 0.95, &DRAWS), None);
    }

    #[test]
    fn drawing_clusters_anew_agrees_with_the_robust_error() {
        // 300 clusters of one to five requests, whose requests lean the same way.
        let clusters: Vec<ClusterSum> = (0..300_i128)
            .map(|g| {
                let n = (g % 5 + 1) as u64;
                ClusterSum {
                    n,
                    sum: (g * 7919 % 101 - 50) * i128::from(n),
                }
            })
            .collect();
        let robust = cluster_mean(clusters.iter().copied()).unwrap();
        let error = robust.standard_error.unwrap();
        let limits = robust.limits(0.95).unwrap();
        for drawn in [
            cluster_percentile(&clusters, 0.95, &DRAWS).unwrap(),
            cluster_bca(&clusters, 0.95, &DRAWS).unwrap(),
        ] {
            assert!(
                (drawn.low - limits.low).abs() < 0.25 * error,
                "{drawn:?} {limits:?}"
            );
            assert!(
                (drawn.high - limits.high).abs() < 0.25 * error,
                "{drawn:?} {limits:?}"
            );
        }
        // Requests that lean together say less than independent ones: about √(mean n²)/mean n times.
        let naive = error / (11.0_f64 / 3.0).sqrt();
        assert!(error > 1.5 * naive);
    }
}
