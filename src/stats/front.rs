//! Which alternatives are worth their cost, and how sure that is: the Pareto front of (cost, score) under
//! resampling.
//!
//! All alternatives were measured on the same requests, so their errors go together: what matters for "A
//! is better than B" is the spread of the difference, not of A and of B. A bootstrap over *units* of
//! requests (B. Efron, Annals of Statistics 7 (1979) 1–26; units that are runs of consecutive requests:
//! H. R. Künsch, Annals of Statistics 17 (1989) 1217–1241) that draws the same units for every
//! alternative keeps that. From its draws follow
//!
//! * P(on the front): the share of draws in which no other alternative dominates this one,
//! * P(A dominates B): the share of draws in which A costs no more, scores no less, and is not equal,
//! * a simultaneous band: estimate ± c·se, c being the quantile of the largest |draw − estimate| / se
//!   over all alternatives and both axes (max-|t|; P. H. Westfall, S. S. Young, *Resampling-Based
//!   Multiple Testing*, 1993, chapter 2). At level 0.95 all of them hold at once 95 % of the time, so that
//!   picking the best looking one is covered.
//!
//! The draws are a function of the seed: which units a draw takes comes from hashing (seed, draw, place).
//! What this is not: an interval for one alternative alone; those do not need resampling.

use rayon::prelude::*;

use crate::units::mix64;

/// Sums of one alternative on one unit of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

impl UnitSums {
    /// Adds `other`'s requests to these, saturating.
    pub fn merge(&mut self, other: &Self) {
        self.add(other, 1);
    }

    fn add(&mut self, other: &Self, times: u64) {
        let wide = i128::from(times);
        let plus = |mine: i128, theirs: i128| mine.saturating_add(theirs.saturating_mul(wide));
        self.graded = self
            .graded
            .saturating_add(other.graded.saturating_mul(times));
        self.costed = self
            .costed
            .saturating_add(other.costed.saturating_mul(times));
        self.score_sum = plus(self.score_sum, other.score_sum);
        self.cost_sum = plus(self.cost_sum, other.cost_sum);
    }

    /// Mean cost and mean score; `None` unless something is known of both.
    #[must_use]
    pub fn position(&self) -> Option<Position> {
        (self.graded > 0 && self.costed > 0).then(|| Position {
            cost: self.cost_sum as f64 / self.costed as f64,
            score: self.score_sum as f64 / self.graded as f64,
        })
    }
}

/// Where an alternative stands, in the units of the sums, per request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    /// Mean cost.
    pub cost: f64,
    /// Mean score.
    pub score: f64,
}

impl Position {
    /// Whether it costs no more than `other`, scores no less, and is not equal to it.
    #[must_use]
    pub fn dominates(&self, other: &Self) -> bool {
        self.cost <= other.cost && self.score >= other.score && self != other
    }
}

/// Which of these positions no other one dominates. Of equal ones, all or none. An unknown position is on
/// no front and dominates nobody.
#[must_use]
pub fn undominated(positions: &[Option<Position>]) -> Vec<bool> {
    let mut on = vec![false; positions.len()];
    let mut known: Vec<(usize, Position)> = positions
        .iter()
        .enumerate()
        .filter_map(|(index, position)| Some((index, (*position)?)))
        .collect();
    // Cheapest first, the best of equally cheap ones before the others.
    known.sort_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost).then(b.score.total_cmp(&a.score)));
    let mut best: Option<Position> = None;
    for (index, position) in known {
        if best.is_none_or(|best| position.score > best.score || position == best) {
            on[index] = true;
            best = Some(position);
        }
    }
    on
}

/// Bootstrap draws of the positions of alternatives measured on the same units.
#[derive(Clone, Debug)]
pub struct Resampled {
    estimates: Vec<Option<Position>>,
    /// By alternative, then by draw; empty with fewer than two units.
    draws: Vec<Vec<Option<Position>>>,
}

/// Half widths of a simultaneous band, `None` where the draws show no spread or nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HalfWidths {
    /// Of the mean cost.
    pub cost: Option<f64>,
    /// Of the mean score.
    pub score: Option<f64>,
}

impl Resampled {
    /// Draws `draws` times as many units as there are, with repetition, the same for all alternatives.
    ///
    /// `sums[a][u]` is alternative a on unit u; the shortest list sets the number of units. With fewer
    /// than two units there is nothing to resample: estimates are known, probabilities are not.
    #[must_use]
    pub fn new(sums: &[Vec<UnitSums>], draws: usize, seed: u64) -> Self {
        let units = sums.iter().map(Vec::len).min().unwrap_or(0);
        let mean = |weighted: &mut dyn Iterator<Item = (&UnitSums, u64)>| {
            let mut total = UnitSums::default();
            for (sums, times) in weighted {
                total.add(sums, times);
            }
            total.position()
        };
        let estimates = sums
            .iter()
            .map(|units_of| mean(&mut units_of[..units].iter().map(|sums| (sums, 1))))
            .collect();
        if units < 2 {
            return Self {
                estimates,
                draws: vec![Vec::new(); sums.len()],
            };
        }
        let times: Vec<Vec<u64>> = (0..draws as u64)
            .map(|draw| multiplicities(seed, draw, units))
            .collect();
        let draws = sums
            .par_iter()
            .map(|units_of| {
                times
                    .iter()
                    .map(|times| mean(&mut units_of.iter().zip(times.iter().copied())))
                    .collect()
            })
            .collect();
        Self { estimates, draws }
    }

    /// Where the alternative stands on all units.
    #[must_use]
    pub fn estimate(&self, alternative: usize) -> Option<Position> {
        self.estimates.get(alternative).copied().flatten()
    }

    /// For each of these alternatives: whether it is on the front that they form, and in which share of
    /// the draws it is. The share is `None` with fewer than two units.
    #[must_use]
    pub fn front(&self, members: &[usize]) -> Vec<(bool, Option<f64>)> {
        let estimates: Vec<Option<Position>> = members
            .iter()
            .map(|&member| self.estimate(member))
            .collect();
        let draws = members
            .iter()
            .map(|&member| self.draws.get(member).map_or(0, Vec::len))
            .min()
            .unwrap_or(0);
        let counts = (0..draws)
            .into_par_iter()
            .fold(
                || vec![0_u64; members.len()],
                |mut counts, draw| {
                    let positions: Vec<Option<Position>> = members
                        .iter()
                        .map(|&member| self.draws[member][draw])
                        .collect();
                    for (count, on) in counts.iter_mut().zip(undominated(&positions)) {
                        *count += u64::from(on);
                    }
                    counts
                },
            )
            .reduce(
                || vec![0; members.len()],
                |mut all, some| {
                    for (mine, theirs) in all.iter_mut().zip(some) {
                        *mine += theirs;
                    }
                    all
                },
            );
        undominated(&estimates)
            .into_iter()
            .zip(counts)
            .map(|(on, count)| (on, (draws > 0).then(|| count as f64 / draws as f64)))
            .collect()
    }

    /// The share of draws in which `a` dominates `b`; `None` with fewer than two units or for an
    /// alternative that is not there.
    #[must_use]
    pub fn dominates(&self, a: usize, b: usize) -> Option<f64> {
        let (a, b) = (self.draws.get(a)?, self.draws.get(b)?);
        let draws = a.len().min(b.len());
        let wins = a
            .iter()
            .zip(b)
            .filter(|(a, b)| matches!((a, b), (Some(a), Some(b)) if a.dominates(b)))
            .count();
        (draws > 0).then(|| wins as f64 / draws as f64)
    }

    /// The half widths of a band that holds for all of these alternatives and both axes at once with
    /// probability `level`. All `None` with fewer than two units or a level not between 0 and 1.
    #[must_use]
    pub fn band(&self, members: &[usize], level: f64) -> Vec<HalfWidths> {
        let axes: [fn(&Position) -> f64; 2] = [|at| at.cost, |at| at.score];
        let mut deviations: Vec<[Option<(f64, f64)>; 2]> = Vec::with_capacity(members.len());
        for &member in members {
            deviations.push(axes.map(|axis| {
                let centre = axis(&self.estimate(member)?);
                let values: Option<Vec<f64>> = self
                    .draws
                    .get(member)?
                    .iter()
                    .map(|draw| draw.as_ref().map(axis))
                    .collect();
                let se = spread(&values?)?;
                Some((centre, se))
            }));
        }
        let draws = members
            .iter()
            .map(|&member| self.draws.get(member).map_or(0, Vec::len))
            .min()
            .unwrap_or(0);
        let mut largest: Vec<f64> = (0..draws)
            .map(|draw| {
                let mut most = 0.0_f64;
                for (&member, spreads) in members.iter().zip(&deviations) {
                    for (axis, spread) in axes.iter().zip(spreads) {
                        if let (Some((centre, se)), Some(at)) = (spread, &self.draws[member][draw])
                        {
                            most = most.max((axis(at) - centre).abs() / se);
                        }
                    }
                }
                most
            })
            .collect();
        largest.sort_by(f64::total_cmp);
        // The order statistic that a new draw stays below with at least this probability.
        let rank = (level * (draws as f64 + 1.0)).ceil();
        let critical = (level > 0.0 && level < 1.0 && draws > 0)
            .then(|| largest[(rank as usize).clamp(1, draws) - 1]);
        deviations
            .into_iter()
            .map(|[cost, score]| {
                let half = |spread: Option<(f64, f64)>| Some(critical? * spread?.1);
                HalfWidths {
                    cost: half(cost),
                    score: half(score),
                }
            })
            .collect()
    }
}

/// The standard deviation of the draws; `None` if they do not differ.
fn spread(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    if values.iter().all(|value| *value == first) {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let se = (squares / (n - 1.0)).sqrt();
    (se > 0.0).then_some(se)
}

/// How often each of `units` units is in this draw.
fn multiplicities(seed: u64, draw: u64, units: usize) -> Vec<u64> {
    let mut times = vec![0; units];
    let key = mix64(mix64(seed ^ 0x6672_6f6e_7400_0001).wrapping_add(draw));
    for place in 0..units as u64 {
        // The golden-ratio step of SplittableRandom: places follow each other far apart.
        let word = mix64(key.wrapping_add((place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let unit = (u128::from(word) * units as u128) >> 64;
        times[unit as usize] += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(cost: f64, score: f64) -> Option<Position> {
        Some(Position { cost, score })
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

    #[test]
    fn equal_alternatives_share_the_front_and_unknown_ones_are_on_none() {
        let positions = [at(1.0, 0.5), None, at(1.0, 0.5), at(1.0, 0.4), at(2.0, 0.5)];
        assert_eq!(undominated(&positions), [true, false, true, false, false]);
        assert_eq!(undominated(&[]), [] as [bool; 0]);
    }

    proptest! {
        #[test]
        fn the_front_is_what_nobody_dominates(
            grid in prop::collection::vec((0_u8..6, 0_u8..6), 0..24),
        ) {
            let positions: Vec<Option<Position>> =
                grid.iter().map(|&(c, s)| (c > 0).then_some(Position { cost: c.into(), score: s.into() })).collect();
            for (index, on) in undominated(&positions).into_iter().enumerate() {
                let beaten = |me: &Position| positions.iter().flatten().any(|other| other.dominates(me));
                prop_assert_eq!(on, positions[index].is_some_and(|me| !beaten(&me)));
            }
        }

        #[test]
        fn a_draw_takes_as_many_units_as_there_are(seed: u64, draw in 0_u64..5000, units in 2_usize..200) {
            prop_assert_eq!(multiplicities(seed, draw, units).iter().sum::<u64>(), units as u64);
        }
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
            for (count, on) in front.iter_mut().zip(undominated(&both)) {
                *count += f64::from(u8::from(on));
            }
            wins += f64::from(u8::from(both[0].unwrap().dominates(&both[1].unwrap())));
            ways += 1.0;
        }
        let draws = 20_000;
        let resampled = Resampled::new(&[a, b], draws, 7);
        let near = |got: f64, want: f64| {
            let error = 4.0 * (want * (1.0 - want) / draws as f64).sqrt();
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
        let resampled = Resampled::new(&[better, worse], 4000, 2026);
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
            let band = Resampled::new(sums, 4000, 1).band(&members, 0.95);
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
        let one = Resampled::new(&[units(&[(1, 1)]), units(&[(0, 1)])], 100, 1);
        assert_eq!(one.front(&[0, 1]), [(true, None), (false, None)]);
        assert_eq!(one.dominates(0, 1), None);
        assert_eq!(one.band(&[0, 1], 0.95), [HalfWidths::default(); 2]);
        let unknown = vec![UnitSums::default(); 5];
        let two = Resampled::new(&[unknown, units(&[(1, 1); 5])], 100, 1);
        assert_eq!(two.front(&[0, 1]), [(false, Some(0.0)), (true, Some(1.0))]);
        assert_eq!(two.band(&[0], 0.95), [HalfWidths::default()]);
        assert_eq!(Resampled::new(&[], 10, 1).front(&[]), []);
    }
}
