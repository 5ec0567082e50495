//! The exact unconditional test of "worse by the margin or more": its cutoff, and the p-value of a table.
//!
//! Tables are ordered by Tango's statistic T(−m). At the margin the distribution of a table depends on one
//! unknown, the rate of disagreement; the test takes the worst case over it. So its error is at most α
//! whatever that rate is, which no approximation can promise. From about 100 pairs on the cutoff is within
//! a hundredth of the normal quantile, so that [`Rule::Tango`](super::Rule::Tango) and this test
//! differ little.

use super::paired::{Pairs, tango_statistic};
use super::promotion::{Joint, over_disagreement};
use super::quantile::z_two_sided;
use super::rule::Counts;
use super::type_one::{WorstCase, worst_over_disagreement};

/// Most pairs for which the test is computed. The work grows with n: about a second at this limit.
/// Beyond it the cutoff equals the normal quantile to within 0.005, so use Tango's test.
pub const UNCONDITIONAL_PAIRS_MAX: u64 = 20_000;

/// Values of T closer than this are one value: tables that tie in exact arithmetic differ by a rounding.
const TIE: f64 = 1e-10;

/// The cutoff of the exact unconditional test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnconditionalCutoff {
    /// Promote from this value of T(−m) on: the smallest attained value whose size is at most α.
    pub statistic: f64,
    /// The next smaller attained value, which would be too liberal.
    pub next: f64,
    /// The largest probability of promotion at the margin, over all rates of disagreement.
    pub size: f64,
    /// The rate of disagreement at which it is reached.
    pub worst_disagreement: f64,
    /// Tables (n10, n01) that promote.
    pub cells: u64,
}

/// The cutoff of the exact unconditional test for `n` pairs at one-sided level `alpha`.
///
/// With T ordered by [`tango_statistic`], the size of the cutoff t is the supremum over pd in \[m, 1\] of
/// P(T(−m) ≥ t) under p10 = (pd − m)/2, p01 = (pd + m)/2. The supremum is searched on a grid finer than
/// any feature of that polynomial and refined around its highest points.
///
/// `Some(None)` if no table can be promoted at this level (n too small). `None` unless
/// 1 ≤ n ≤ [`UNCONDITIONAL_PAIRS_MAX`], 0 ≤ margin < 1 and 0 < alpha < 1.
///
/// Source: for the ordering T. Tango, Statistics in Medicine 17 (1998) 891–908; for the unconditional
/// test I. S. F. Chan, Statistics in Medicine 17 (1998) 1403–1413.
#[must_use]
pub fn unconditional_cutoff(
    n: u64,
    margin: f64,
    alpha: f64,
) -> Option<Option<UnconditionalCutoff>> {
    let order = Order::new(n, margin)?;
    cutoff(&order, alpha, |least| order.size(least))
}

/// The same with the worst case taken over the given rates of disagreement alone, to compare with tables
/// computed on a grid, or because a rate is known not to exceed some value. Rates outside \[m, 1\] have no
/// meaning and are passed over; `None` if none is left, and as for [`unconditional_cutoff`].
///
/// The range matters: close to a rate of one the number of discordant pairs hardly varies, their
/// difference is then even or odd, and the error jumps up. Leaving that corner out gives a lower cutoff.
#[must_use]
pub fn unconditional_cutoff_over(
    n: u64,
    margin: f64,
    alpha: f64,
    rates: &[f64],
) -> Option<Option<UnconditionalCutoff>> {
    let order = Order::new(n, margin)?;
    let inside = || rates.iter().filter(|rate| (margin..=1.0).contains(*rate));
    inside().next()?;
    cutoff(&order, alpha, |least| {
        let mut worst = WorstCase {
            disagreement: margin,
            probability: 0.0,
        };
        let region = order.region(least);
        for &disagreement in inside() {
            let probability = region.probability(disagreement);
            if probability >= worst.probability {
                worst = WorstCase {
                    disagreement,
                    probability,
                };
            }
        }
        worst
    })
}

/// The p-value of a table in the exact unconditional test of "worse by `margin` or more".
///
/// The supremum over the rate of disagreement of the probability, at the margin, of a T(−m) at least as
/// large as the table's. Same range and source as [`unconditional_cutoff`].
#[must_use]
pub fn unconditional_p_value(counts: Counts, margin: f64) -> Option<f64> {
    let order = Order::new(counts.n()?, margin)?;
    let statistic = tango_statistic(Pairs::from(counts), -margin);
    Some(order.size(statistic).probability)
}

/// Tables of n pairs in the order of T(−margin).
struct Order {
    n: u64,
    margin: f64,
}

impl Order {
    fn new(n: u64, margin: f64) -> Option<Self> {
        ((1..=UNCONDITIONAL_PAIRS_MAX).contains(&n) && (0.0..1.0).contains(&margin))
            .then_some(Self { n, margin })
    }

    fn statistic(&self, s: u64, n10: u64) -> f64 {
        tango_statistic(Pairs::new(self.n - s, n10, s - n10, 0), -self.margin)
    }

    /// The tables with T ≥ least.
    fn region(&self, least: f64) -> Region<'_> {
        Region {
            order: self,
            firsts: self.firsts(least - TIE).map(|(_, first)| first).collect(),
        }
    }

    /// The worst probability of T ≥ least at the margin.
    fn size(&self, least: f64) -> WorstCase {
        let region = self.region(least);
        worst_over_disagreement(self.n, self.margin, |disagreement| {
            Some(region.probability(disagreement))
        })
        // Every rate from the margin to one has a joint distribution, so there is a worst case.
        .unwrap_or(WorstCase {
            disagreement: self.margin,
            probability: 1.0,
        })
    }

    /// For every S the first n10 with T ≥ least; S + 1 if there is none.
    fn firsts(&self, least: f64) -> impl Iterator<Item = (u64, u64)> {
        let mut first = 0;
        (0..=self.n).map(move |s| {
            // T rises with n10, and the first table moves little from one S to the next.
            while first > 0 && self.statistic(s, first - 1) >= least {
                first -= 1;
            }
            while first <= s && self.statistic(s, first) < least {
                first += 1;
            }
            (s, first)
        })
    }

    /// The values of T attained in [low, high], ascending, ties taken together.
    fn attained(&self, low: f64, high: f64) -> Vec<f64> {
        let mut values = Vec::new();
        for (s, first) in self.firsts(low) {
            values.extend(
                (first..=s)
                    .map(|n10| self.statistic(s, n10))
                    .take_while(|statistic| *statistic <= high),
            );
        }
        values.sort_by(f64::total_cmp);
        values.dedup_by(|next, kept| *next - *kept <= TIE);
        values
    }

    /// How many tables have T ≥ least.
    fn cells(&self, least: f64) -> u64 {
        self.firsts(least - TIE)
            .map(|(s, first)| s + 1 - first)
            .sum()
    }
}

/// A set of tables: for each number of discordant pairs those with at least some number of wins. Laid out
/// once, it is evaluated at many rates of disagreement.
struct Region<'a> {
    order: &'a Order,
    firsts: Vec<u64>,
}

impl Region<'_> {
    /// Its probability at the margin with the two disagreeing at this rate.
    fn probability(&self, disagreement: f64) -> f64 {
        let Order { n, margin } = *self.order;
        let p10 = ((disagreement - margin) / 2.0).max(0.0);
        let p01 = (disagreement + margin) / 2.0;
        Joint::from_disagreement(p10, p01).map_or(0.0, |joint| {
            over_disagreement(n, joint, |s, n10| n10 >= self.firsts[s as usize])
        })
    }
}

/// The smallest attained cutoff whose `size` is at most `alpha`.
///
/// A size is dear, the probability at one rate of disagreement cheap. So the cutoff is found for a few rates
/// first, and then its size says whether another rate is worse: if so, that one joins the few.
fn cutoff(
    order: &Order,
    alpha: f64,
    size: impl Fn(f64) -> WorstCase,
) -> Option<Option<UnconditionalCutoff>> {
    if !(alpha > 0.0 && alpha < 1.0) {
        return None;
    }
    let z = z_two_sided((1.0 - 2.0 * alpha).abs()) * (0.5 - alpha).signum();
    let start = if z.is_nan() { 0.0 } else { z };
    let mut rates = vec![size(start).disagreement];
    loop {
        let exceeds = |least: f64| {
            let region = order.region(least);
            rates.iter().any(|rate| region.probability(*rate) > alpha)
        };
        let Some((next, statistic)) = neighbours(order, start, exceeds) else {
            return Some(None);
        };
        let worst = size(statistic);
        if worst.probability <= alpha {
            return Some(Some(UnconditionalCutoff {
                statistic,
                next,
                size: worst.probability,
                worst_disagreement: worst.disagreement,
                cells: order.cells(statistic),
            }));
        }
        if rates.contains(&worst.disagreement) {
            // The size was at most α a moment ago: only rounding is left to tell the two apart.
            return Some(None);
        }
        rates.push(worst.disagreement);
    }
}

/// The two neighbouring attained values of T of which the lower `exceeds` and the upper does not, looked
/// for from `start` on. `None` if even the largest does; at the smallest every table passes.
fn neighbours(order: &Order, start: f64, exceeds: impl Fn(f64) -> bool) -> Option<(f64, f64)> {
    // The candidate losing or winning every pair: no table is below the one or above the other.
    let (bottom, top) = (
        order.statistic(order.n, 0),
        order.statistic(order.n, order.n),
    );
    if exceeds(top) {
        return None;
    }
    let (mut low, mut high) = ((start - 0.02).max(bottom), (start + 0.02).min(top));
    let mut step = 0.1;
    while low > bottom && !exceeds(low) {
        high = low;
        low = (low - step).max(bottom);
        step *= 2.0;
    }
    while high < top && exceeds(high) {
        low = high;
        high = (high + step).min(top);
        step *= 2.0;
    }
    // Halve until few attained values are left between the two, then halve among those.
    let close = 0.5 / order.n as f64;
    while high - low > close {
        let middle = f64::midpoint(low, high);
        if exceeds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    // `low` fails and no value lies between it and the first one attained above it, so that one fails
    // too; the first one at or above `high` does not.
    let mut reach = close;
    let attained = loop {
        let attained = order.attained(low - TIE, high + reach);
        if attained.last().is_some_and(|last| *last >= high - TIE) {
            break attained;
        }
        reach *= 2.0;
    };
    let (mut liberal, mut valid) = (0, attained.len() - 1);
    while valid - liberal > 1 {
        let middle = usize::midpoint(liberal, valid);
        if exceeds(attained[middle]) {
            liberal = middle;
        } else {
            valid = middle;
        }
    }
    (valid > liberal).then(|| (attained[liberal], attained[valid]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Criterion, Rule};
    use std::f64::consts::PI;

    /// Every T of n pairs, ascending, ties taken together, by looking at every table.
    fn all_values(n: u64, margin: f64) -> Vec<f64> {
        let mut values = Vec::new();
        for n10 in 0..=n {
            for n01 in 0..=n - n10 {
                values.push(tango_statistic(
                    Pairs::new(n - n10 - n01, n10, n01, 0),
                    -margin,
                ));
            }
        }
        values.sort_by(f64::total_cmp);
        values.dedup_by(|next, kept| *next - *kept <= TIE);
        values
    }

    #[test]
    fn the_cutoff_is_the_smallest_valid_one_of_all() {
        for (margin, alpha) in [
            (0.03, 0.025),
            (0.1, 0.05),
            (0.0, 0.025),
            (0.3, 0.001),
            (0.1, 0.6),
        ] {
            for n in [1, 2, 5, 12, 25] {
                let order = Order::new(n, margin).unwrap();
                let values = all_values(n, margin);
                let want = values
                    .iter()
                    .position(|value| order.size(*value).probability <= alpha);
                let got = unconditional_cutoff(n, margin, alpha).unwrap();
                match (got, want) {
                    (None, None) => {}
                    (Some(got), Some(at)) => {
                        let what = format!("{margin} {alpha} {n}: {got:?}");
                        assert!((got.statistic - values[at]).abs() <= TIE, "{what}");
                        assert!((got.next - values[at - 1]).abs() <= TIE, "{what}");
                        assert!(got.size <= alpha, "{what}");
                    }
                    _ => panic!("{margin} {alpha} {n}: {got:?} {want:?}"),
                }
            }
        }
    }

    #[test]
    fn no_rate_of_disagreement_breaks_the_promise() {
        let criterion = Criterion::new(0.03, 1.96).unwrap();
        for n in [50, 122, 200, 494] {
            let decider = Rule::ExactUnconditional.at(n, criterion).unwrap();
            for step in 0..=1_000 {
                // Dense at both ends.
                let rate = 0.03 + 0.97 * libm::sin(f64::from(step) * PI / 2_000.0).powi(2);
                let joint =
                    Joint::from_disagreement((rate - 0.03) / 2.0, (rate + 0.03) / 2.0).unwrap();
                let error = decider.promotion_probability(joint);
                assert!(error <= criterion.alpha() + 1e-9, "{n} {rate}: {error}");
            }
        }
    }

    #[test]
    fn a_p_value_of_at_most_alpha_is_a_promotion() {
        let (n, margin, alpha) = (30, 0.05, 0.025);
        let cutoff = unconditional_cutoff(n, margin, alpha).unwrap().unwrap();
        for (n10, n01) in [
            (0, 0),
            (3, 0),
            (5, 1),
            (9, 1),
            (12, 2),
            (2, 9),
            (30, 0),
            (0, 30),
        ] {
            let counts = Counts {
                n11: n - n10 - n01,
                n10,
                n01,
                n00: 0,
            };
            let p = unconditional_p_value(counts, margin).unwrap();
            let statistic = tango_statistic(Pairs::from(counts), -margin);
            assert_eq!(
                p <= alpha,
                statistic >= cutoff.statistic - TIE,
                "{n10} {n01}: {p}"
            );
        }
    }

    #[test]
    fn what_cannot_be_computed_is_refused_and_what_cannot_be_promoted_is_said() {
        assert_eq!(unconditional_cutoff(0, 0.03, 0.025), None);
        assert_eq!(
            unconditional_cutoff(UNCONDITIONAL_PAIRS_MAX + 1, 0.03, 0.025),
            None
        );
        assert_eq!(unconditional_cutoff(50, 1.0, 0.025), None);
        assert_eq!(unconditional_cutoff(50, f64::NAN, 0.025), None);
        assert_eq!(unconditional_cutoff(50, 0.03, 0.0), None);
        assert_eq!(unconditional_cutoff_over(50, 0.03, 0.025, &[]), None);
        assert_eq!(
            unconditional_cutoff_over(50, 0.03, 0.025, &[0.01, 1.5]),
            None
        );
        assert_eq!(unconditional_p_value(Counts::default(), 0.03), None);
        // A single pair is never enough: half of all candidates at the margin win it.
        assert_eq!(unconditional_cutoff(1, 0.03, 0.025), Some(None));
    }
}
