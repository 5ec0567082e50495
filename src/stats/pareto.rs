//! Cost against accuracy, several policies at once: who is on the front, and how sure that is.
//!
//! A front that is drawn through estimates looks certain. Here the estimates' joint uncertainty, as
//! replicates in which all policies saw the same requests, says how often each policy is on it.

use super::bootstrap::quantile;

/// A policy's cost and accuracy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Cost, in any unit; less is better.
    pub cost: f64,
    /// Accuracy, a share; more is better.
    pub accuracy: f64,
}

impl Point {
    /// Whether this one is at least as good in both respects and better in one. Points with a NaN
    /// neither dominate nor are dominated.
    #[must_use]
    pub fn dominates(self, other: Self) -> bool {
        self.cost <= other.cost
            && self.accuracy >= other.accuracy
            && (self.cost < other.cost || self.accuracy > other.accuracy)
    }

    fn is_known(self) -> bool {
        !self.cost.is_nan() && !self.accuracy.is_nan()
    }
}

/// Which points nobody dominates. Of equal points all are on the front; one with a NaN is not.
#[must_use]
pub fn front(points: &[Point]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..points.len())
        .filter(|&index| points[index].is_known())
        .collect();
    // Cheapest first, the best of equally cheap ones before the others: whoever is not better than all
    // before it is dominated. Adding 0.0 makes one zero of both.
    order.sort_by(|&a, &b| {
        let (a, b) = (points[a], points[b]);
        let costs = (a.cost + 0.0).total_cmp(&(b.cost + 0.0));
        costs.then((b.accuracy + 0.0).total_cmp(&(a.accuracy + 0.0)))
    });
    let mut on = vec![false; points.len()];
    let mut best: Option<Point> = None;
    for index in order {
        let point = points[index];
        if best.is_none_or(|best| point.accuracy > best.accuracy || point == best) {
            on[index] = true;
            best = Some(point);
        }
    }
    on
}

/// For each policy the share of the replicates in which it is on the front. `replicates[r][j]` is policy
/// j in replicate r, where all policies saw the same requests. `None` without replicates, or if they
/// differ in length.
#[must_use]
pub fn on_front(replicates: &[Vec<Point>]) -> Option<Vec<f64>> {
    let policies = replicates.first()?.len();
    let mut counts = vec![0_u64; policies];
    for points in replicates {
        if points.len() != policies {
            return None;
        }
        for (count, is_on) in counts.iter_mut().zip(front(points)) {
            *count += u64::from(is_on);
        }
    }
    let all = replicates.len() as f64;
    Some(counts.into_iter().map(|count| count as f64 / all).collect())
}

/// The share of the replicates in which policy `a` dominates policy `b`. `None` without replicates, or if
/// one of them lacks a policy.
#[must_use]
pub fn dominance(replicates: &[Vec<Point>], a: usize, b: usize) -> Option<f64> {
    let mut count = 0_u64;
    for points in replicates {
        count += u64::from(points.get(a)?.dominates(*points.get(b)?));
    }
    (!replicates.is_empty()).then(|| count as f64 / replicates.len() as f64)
}

/// A band that covers all of several values at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Standard errors to either side: larger than one value's critical value.
    pub critical: f64,
    /// Half width for each value: `critical` times its standard error.
    pub half: Vec<f64>,
}

/// A band estimate ± half that holds for all of the `estimates` together with confidence `level`: the
/// critical value is that quantile of max over j of |θ*ⱼ − θⱼ|/seⱼ over the replicates, seⱼ being the
/// standard deviation of value j's replicates.
///
/// `replicates[r][j]` is value j in replicate r. A value without spread has a half width of 0. `None` for
/// fewer than two replicates, lists that differ in length, numbers that are not finite, or unless `level`
/// lies strictly between 0 and 1.
/// Source: J. P. Romano, M. Wolf, Econometrica 73 (2005) 1237–1282, for the studentised maximum.
#[must_use]
pub fn simultaneous(estimates: &[f64], replicates: &[Vec<f64>], level: f64) -> Option<Band> {
    let n = replicates.len();
    let fits = |values: &[f64]| {
        values.len() == estimates.len() && values.iter().all(|value| value.is_finite())
    };
    let all_fit = fits(estimates) && replicates.iter().all(|values| fits(values));
    if n < 2 || !all_fit || !(level > 0.0 && level < 1.0) {
        return None;
    }
    let errors: Vec<f64> = (0..estimates.len())
        .map(|j| {
            let mean = replicates.iter().map(|values| values[j]).sum::<f64>() / n as f64;
            let apart = |values: &Vec<f64>| (values[j] - mean) * (values[j] - mean);
            (replicates.iter().map(apart).sum::<f64>() / (n - 1) as f64).sqrt()
        })
        .collect();
    let mut furthest: Vec<f64> = replicates
        .iter()
        .map(|values| {
            let each = values.iter().zip(estimates).zip(&errors);
            each.filter(|(_, error)| **error > 0.0)
                .map(|((value, estimate), error)| (value - estimate).abs() / error)
                .fold(0.0, f64::max)
        })
        .collect();
    furthest.sort_by(f64::total_cmp);
    let critical = quantile(&furthest, level);
    Some(Band {
        critical,
        half: errors.iter().map(|error| critical * error).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Bootstrap, z_two_sided};
    use proptest::prelude::*;

    fn at(cost: f64, accuracy: f64) -> Point {
        Point { cost, accuracy }
    }

    #[test]
    fn a_front_rises_with_cost() {
        let points = [
            at(1.0, 0.6),
            at(2.0, 0.9),
            at(3.0, 0.8),
            at(2.0, 0.9),
            at(4.0, 0.95),
        ];
        assert_eq!(front(&points), [true, true, false, true, true]);
        let unknown = [at(1.0, f64::NAN), at(2.0, 0.5)];
        assert_eq!(front(&unknown), [false, true]);
        assert!(front(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn the_front_is_what_nobody_dominates(
            grid in prop::collection::vec((0_u8..6, 0_u8..6), 0..24),
        ) {
            let value = |n: u8| match n {
                0 => f64::NAN,
                1 => -0.0,
                2 => 0.0,
                n => f64::from(n),
            };
            let points: Vec<Point> = grid.iter().map(|&(c, a)| at(value(c), value(a))).collect();
            for (point, on) in points.iter().zip(front(&points)) {
                let beaten = points.iter().any(|other| other.dominates(*point));
                prop_assert_eq!(on, point.is_known() && !beaten);
            }
        }
    }

    #[test]
    fn shares_are_counted_over_replicates() {
        let replicates = vec![
            vec![at(1.0, 0.9), at(2.0, 0.8)],
            vec![at(1.0, 0.7), at(2.0, 0.8)],
            vec![at(1.0, 0.8), at(2.0, 0.8)],
            vec![at(3.0, 0.7), at(2.0, 0.8)],
        ];
        assert_eq!(on_front(&replicates).unwrap(), [0.75, 0.5]);
        assert_eq!(dominance(&replicates, 0, 1), Some(0.5));
        assert_eq!(dominance(&replicates, 1, 0), Some(0.25));
        assert_eq!(dominance(&replicates, 0, 2), None);
        assert_eq!(on_front(&[]), None);
        assert_eq!(on_front(&[vec![at(1.0, 1.0)], vec![]]), None);
    }

    #[test]
    fn independent_values_need_a_wider_band_and_copies_of_one_do_not() {
        // Five independent normal-like values: means of 60 two-sided coins each, drawn anew.
        let units = 300;
        let draws = Bootstrap {
            seed: 3,
            replicates: 8_000,
        };
        let value = |times: &[u32], j: usize| {
            let part = &times[j * 60..(j + 1) * 60];
            let signed = part.iter().enumerate();
            signed
                .map(|(i, t)| f64::from(*t) * if i % 2 == 0 { 1.0 } else { -1.0 })
                .sum::<f64>()
                / 60.0
        };
        let five = draws.draws(units, |times| (0..5).map(|j| value(times, j)).collect());
        let band = simultaneous(&[0.0; 5], &five, 0.95).unwrap();
        // For independent values each has to hold with the fifth root of 0.95 (Šidák).
        let sidak = z_two_sided(0.95_f64.powf(0.2));
        assert!(
            (band.critical - sidak).abs() < 0.06,
            "{} {sidak}",
            band.critical
        );
        let copies = draws.draws(units, |times| vec![value(times, 0); 5]);
        let band = simultaneous(&[0.0; 5], &copies, 0.95).unwrap();
        assert!((band.critical - 1.96).abs() < 0.06, "{}", band.critical);
    }

    #[test]
    fn a_value_without_spread_has_no_width() {
        let replicates = vec![vec![1.0, 5.0], vec![3.0, 5.0], vec![2.0, 5.0]];
        let band = simultaneous(&[2.0, 5.0], &replicates, 0.9).unwrap();
        assert_eq!(band.half[1], 0.0);
        assert!(band.half[0] > 0.0);
        assert_eq!(simultaneous(&[2.0], &replicates, 0.9), None);
        assert_eq!(simultaneous(&[2.0, 5.0], &replicates[..1], 0.9), None);
    }

    proptest! {
        #[test]
        fn whoever_is_not_on_the_front_is_dominated_by_somebody_on_it(
            raw in prop::collection::vec((0..6_u8, 0..6_u8), 1..12),
        ) {
            let points: Vec<Point> =
                raw.iter().map(|&(c, a)| at(f64::from(c), f64::from(a))).collect();
            let is_on = front(&points);
            prop_assert!(is_on.contains(&true));
            for (point, on) in points.iter().zip(&is_on) {
                let beaten = points.iter().zip(&is_on).any(|(p, on)| *on && p.dominates(*point));
                prop_assert_eq!(*on, !beaten);
            }
        }
    }
}
