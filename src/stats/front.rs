//! The front of alternatives that were measured on the same requests, from sums over parts of them.
//!
//! All alternatives saw the same requests, so their errors go together: what matters for "A is better
//! than B" is the spread of the difference, not of A and of B. A bootstrap over *units* of requests (units
//! that are runs of consecutive requests: H. R. Künsch, Annals of Statistics 17 (1989) 1217–1241) that
//! draws the same units for every alternative keeps that. [`Resampled`] holds its draws; what they say
//! of fronts, dominance and simultaneous bands is in [`pareto`](super::pareto).
//!
//! What this is not: an interval for one alternative alone; those do not need resampling.

use super::bootstrap::Bootstrap;
use super::pareto::{self, Point};

/// Sums of one alternative on one unit of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct UnitSums {
    /// Requests with a grade.
    pub graded: u64,
    /// Σ score over them.
    pub score_sum: i128,
    /// Requests with a known cost.
    pub costed: u64,
    /// Σ cost over them.
    pub cost_sum: i128,
}

/// Where nothing is known: on no front, and dominating nobody.
const NOWHERE: Point = Point {
    cost: f64::NAN,
    accuracy: f64::NAN,
};

impl UnitSums {
    /// Adds `other`'s requests to these, saturating.
    pub fn merge(&mut self, other: &Self) {
        self.add(other, 1);
    }

    fn add(&mut self, other: &Self, times: u32) {
        let (few, many) = (u64::from(times), i128::from(times));
        let plus = |mine: u64, theirs: u64| mine.saturating_add(theirs.saturating_mul(few));
        self.graded = plus(self.graded, other.graded);
        self.costed = plus(self.costed, other.costed);
        let plus = |mine: i128, theirs: i128| mine.saturating_add(theirs.saturating_mul(many));
        self.score_sum = plus(self.score_sum, other.score_sum);
        self.cost_sum = plus(self.cost_sum, other.cost_sum);
    }

    /// Mean cost and mean score, each in the unit of its sum; NaN unless something is known of both.
    #[must_use]
    pub fn position(&self) -> Point {
        if self.graded == 0 || self.costed == 0 {
            return NOWHERE;
        }
        Point {
            cost: self.cost_sum as f64 / self.costed as f64,
            accuracy: self.score_sum as f64 / self.graded as f64,
        }
    }
}

/// Bootstrap draws of where alternatives stand that were measured on the same units.
#[derive(Clone, Debug)]
pub struct Resampled {
    estimates: Vec<Point>,
    /// By draw, then by alternative; empty with fewer than two units.
    draws: Vec<Vec<Point>>,
}

/// Half widths of a simultaneous band; `None` where the draws do not differ or nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HalfWidths {
    /// Of the mean cost.
    pub cost: Option<f64>,
    /// Of the mean score.
    pub score: Option<f64>,
}

impl Resampled {
    /// Draws as many units as there are, with repetition, the same for all alternatives.
    ///
    /// `sums[a][u]` is alternative a on unit u; the shortest list sets the number of units. With fewer
    /// than two units there is nothing to resample: estimates are known, probabilities are not.
    #[must_use]
    pub fn new(sums: &[Vec<UnitSums>], bootstrap: &Bootstrap) -> Self {
        let units = sums.iter().map(Vec::len).min().unwrap_or(0);
        let positions = |times: &[u32]| -> Vec<Point> {
            let position = |of: &Vec<UnitSums>| {
                let mut total = UnitSums::default();
                // A third of the units is not drawn at all.
                let drawn = of.iter().zip(times).filter(|(_, times)| **times > 0);
                for (unit, times) in drawn {
                    total.add(unit, *times);
                }
                total.position()
            };
            sums.iter().map(position).collect()
        };
        Self {
            estimates: positions(&vec![1; units]),
            draws: if units < 2 {
                Vec::new()
            } else {
                bootstrap.draws(units, positions)
            },
        }
    }

    /// Where the alternative stands on all units, in the units of the sums; `None` if that is not known.
    #[must_use]
    pub fn estimate(&self, alternative: usize) -> Option<Point> {
        let point = self.estimates.get(alternative)?;
        (!point.cost.is_nan()).then_some(*point)
    }

    /// What `statistic` says of where all alternatives stand, in each draw and in their order; NaN stands for a
    /// place that is not known. Empty with fewer than two units.
    pub fn values(&self, statistic: impl Fn(&[Point]) -> f64) -> Vec<f64> {
        self.draws.iter().map(|points| statistic(points)).collect()
    }

    /// For each of these alternatives: whether it is on the front that they form, and in which share of
    /// the draws it is. The share is `None` with fewer than two units. An alternative that is not there
    /// is on no front.
    #[must_use]
    pub fn front(&self, members: &[usize]) -> Vec<(bool, Option<f64>)> {
        let of = |points: &Vec<Point>| -> Vec<Point> {
            let point = |member: &usize| points.get(*member).copied().unwrap_or(NOWHERE);
            members.iter().map(point).collect()
        };
        let draws: Vec<Vec<Point>> = self.draws.iter().map(of).collect();
        let shares = pareto::on_front(&draws);
        pareto::front(&of(&self.estimates))
            .into_iter()
            .enumerate()
            .map(|(index, on)| (on, shares.as_ref().map(|shares| shares[index])))
            .collect()
    }

    /// The share of draws in which `a` dominates `b`; `None` with fewer than two units or for an
    /// alternative that is not there.
    #[must_use]
    pub fn dominates(&self, a: usize, b: usize) -> Option<f64> {
        pareto::dominance(&self.draws, a, b)
    }

    /// The half widths of a band that holds for all of these alternatives and both axes at once with
    /// confidence `level` (see [`pareto::simultaneous`]). Alternatives that are unknown in a draw have
    /// none. All `None` with fewer than two units or a level not between 0 and 1.
    #[must_use]
    pub fn band(&self, members: &[usize], level: f64) -> Vec<HalfWidths> {
        let is_known = |points: &Vec<Point>, member: usize| {
            points.get(member).is_some_and(|point| !point.cost.is_nan())
        };
        let known: Vec<usize> = members
            .iter()
            .copied()
            .filter(|&member| {
                let mut all = self.draws.iter().chain([&self.estimates]);
                all.all(|points| is_known(points, member))
            })
            .collect();
        let values = |points: &Vec<Point>| -> Vec<f64> {
            let both = |&member: &usize| [points[member].cost, points[member].accuracy];
            known.iter().flat_map(both).collect()
        };
        let draws: Vec<Vec<f64>> = self.draws.iter().map(values).collect();
        let band = pareto::simultaneous(&values(&self.estimates), &draws, level);
        let half = |value: Option<&f64>| value.copied().filter(|half| *half > 0.0);
        members
            .iter()
            .map(|member| {
                let place = known.iter().position(|one| one == member);
                let halves = band.as_ref().zip(place);
                halves.map_or_else(HalfWidths::default, |(band, place)| HalfWidths {
                    cost: half(band.half.get(2 * place)),
                    score: half(band.half.get(2 * place + 1)),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::mix64;

    fn draws(replicates: u32, seed: u64) -> Bootstrap {
        Bootstrap { seed, replicates }
    }

    /// One request per unit, right or wrong, with its cost.
    fn units(outcomes: &[(u8, u32)]) -> Vec<UnitSums> {
        let unit = |&(right, cost): &(u8, u32)| UnitSums {
            graded: 1,
            score_sum: i128::from(right),
            costed: 1,
            cost_sum: i128::from(cost),
        };
        outcomes.iter().map(unit).collect()
    }

    /// What the bootstrap of three units gives, by all 27 ways to draw three.
    #[test]
    fn shares_of_draws_approach_those_of_all_possible_draws() {
        let a = units(&[(1, 4), (0, 2), (1, 9)]);
        let b = units(&[(1, 5), (1, 7), (0, 3)]);
        let (mut front, mut wins, mut ways) = ([0.0; 2], 0.0, 0.0);
        for (i, j, k) in (0..27).map(|way| (way / 9, way / 3 % 3, way % 3)) {
            let total = |of: &[UnitSums]| {
                let mut total = of[i];
                total.merge(&of[j]);
                total.merge(&of[k]);
                total.position()
            };
            let both = [total(&a), total(&b)];
            for (count, on) in front.iter_mut().zip(pareto::front(&both)) {
                *count += f64::from(u8::from(on));
            }
            wins += f64::from(u8::from(both[0].dominates(both[1])));
            ways += 1.0;
        }
        let many = 20_000;
        let resampled = Resampled::new(&[a, b], &draws(many, 7));
        let near = |got: f64, want: f64| {
            let error = 4.0 * (want * (1.0 - want) / f64::from(many)).sqrt();
            assert!((got - want).abs() <= error, "{got}, not {want}");
        };
        for ((_, share), count) in resampled.front(&[0, 1]).iter().zip(front) {
            near(share.unwrap(), count / ways);
        }
        near(resampled.dominates(0, 1).unwrap(), wins / ways);
    }

    /// A policy that is right on one request more than another at the same cost dominates it in every draw
    /// that holds that request: 1 − (1 − 1/n)ⁿ of them. Unpaired resampling would say about one half.
    #[test]
    fn alternatives_are_resampled_together() {
        let n = 200;
        let mut outcomes: Vec<(u8, u32)> = (0..n).map(|i| (u8::from(i % 3 > 0), 10 + i)).collect();
        let better = units(&outcomes);
        outcomes[1].0 = 0;
        let worse = units(&outcomes);
        let resampled = Resampled::new(&[better, worse], &draws(4000, 2026));
        let want = 1.0 - (1.0 - 1.0 / f64::from(n)).powi(n as i32);
        let got = resampled.dominates(0, 1).unwrap();
        assert!(
            (got - want).abs() < 4.0 * (want * (1.0 - want) / 4000.0_f64).sqrt(),
            "{got}"
        );
        assert_eq!(resampled.dominates(1, 0), Some(0.0));
        let front = resampled.front(&[0, 1]);
        assert_eq!(front[0], (true, Some(1.0)));
        assert!(!front[1].0 && (front[1].1.unwrap() - (1.0 - got)).abs() < 1e-12);
    }

    /// For one alternative whose cost never varies the band is the usual 1.96 standard errors; more
    /// alternatives that vary independently make it wider, equal ones do not.
    #[test]
    fn the_band_is_as_wide_as_the_number_of_different_alternatives_asks() {
        let n = 2000_u64;
        let alternative = |salt: u64| -> Vec<UnitSums> {
            let right = |i: u64| (mix64(i + salt * 1_000_003) & 1) as u8;
            units(&(0..n).map(|i| (right(i), 5)).collect::<Vec<_>>())
        };
        let half = |sums: &[Vec<UnitSums>]| {
            let members: Vec<usize> = (0..sums.len()).collect();
            let band = Resampled::new(sums, &draws(4000, 1)).band(&members, 0.95);
            assert!(band.iter().all(|half| half.cost.is_none()));
            band[0].score.unwrap() / (0.25 / n as f64).sqrt()
        };
        let one = half(&[alternative(0)]);
        assert!((one - 1.96).abs() < 0.12, "{one}");
        let equal = half(&[alternative(0), alternative(0), alternative(0)]);
        assert_eq!(one, equal);
        let many: Vec<Vec<UnitSums>> = (0..20).map(alternative).collect();
        // Šidák: Φ⁻¹((1 + 0.95^(1/20))/2) = 3.016.
        let wide = half(&many);
        assert!((wide - 3.02).abs() < 0.2, "{wide}");
    }

    #[test]
    fn a_single_unit_and_missing_numbers_give_no_false_certainty() {
        let one = Resampled::new(&[units(&[(1, 1)]), units(&[(0, 1)])], &draws(100, 1));
        assert_eq!(one.front(&[0, 1]), [(true, None), (false, None)]);
        assert_eq!(one.dominates(0, 1), None);
        assert_eq!(one.band(&[0, 1], 0.95), [HalfWidths::default(); 2]);
        let unknown = vec![UnitSums::default(); 5];
        let two = Resampled::new(&[unknown, units(&[(1, 1); 5])], &draws(100, 1));
        assert_eq!(two.front(&[0, 1]), [(false, Some(0.0)), (true, Some(1.0))]);
        assert_eq!(two.band(&[0], 0.95), [HalfWidths::default()]);
        assert_eq!(Resampled::new(&[], &draws(10, 1)).front(&[]), []);
    }
}
