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

/// Most pairs for which the test is computed. The work grows with n: a second or two at this limit.
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
    if n == 0 {
        return None;
    }
    cutoff(n, margin, alpha)
}

/// The p-value of a table in the exact unconditional test of "worse by `margin` or more".
///
/// The supremum over the rate of disagreement of the probability, at the margin, of a T(−m) at least as
/// large as the table's. Same range and source as [`unconditional_cutoff`].
#[must_use]
pub fn unconditional_p_value(counts: Counts, margin: f64) -> Option<f64> {
    let n = counts.n()?;
    if n == 0 || !in_range(n, margin) {
        return None;
    }
    let statistic = tango_statistic(Pairs::from(counts), -margin);
    Some(Order { n, margin }.size(statistic).probability)
}

fn in_range(n: u64, margin: f64) -> bool {
    n <= UNCONDITIONAL_PAIRS_MAX && (0.0..1.0).contains(&margin)
}

/// Tables of n pairs in the order of T(−margin).
struct Order {
    n: u64,
    margin: f64,
}

impl Order {
    fn statistic(&self, s: u64, n10: u64) -> f64 {
        tango_statistic(Pairs::new(self.n - s, n10, s - n10, 0), -self.margin)
    }

    /// P(T ≥ least) at the margin with the two disagreeing at this rate.
    fn probability(&self, least: f64, disagreement: f64) -> f64 {
        let (p10, p01) = (
            ((disagreement - self.margin) / 2.0).max(0.0),
            (disagreement + self.margin) / 2.0,
        );
        Joint::from_disagreement(p10, p01).map_or(0.0, |joint| {
            over_disagreement(self.n, joint, |s, n10| {
                self.statistic(s, n10) >= least - TIE
            })
        })
    }

    /// The worst probability of T ≥ least at the margin.
    fn size(&self, least: f64) -> WorstCase {
        worst_over_disagreement(self.n, self.margin, |disagreement| {
            Some(self.probability(least, disagreement))
        })
        // Every rate from the margin to one has a joint distribution, so there is a worst case.
        .unwrap_or(WorstCase {
            disagreement: self.margin,
            probability: 1.0,
        })
    }

    /// Whether the size of this cutoff is above `alpha`. `likely` is where the worst case was last time:
    /// often enough a single evaluation there settles it.
    fn exceeds(&self, least: f64, alpha: f64, likely: &mut f64) -> bool {
        if self.probability(least, *likely) > alpha {
            return true;
        }
        let worst = self.size(least);
        *likely = worst.disagreement;
        worst.probability > alpha
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

/// The cutoff as described at [`unconditional_cutoff`]; no table passes where there are no pairs.
pub(super) fn cutoff(n: u64, margin: f64, alpha: f64) -> Option<Option<UnconditionalCutoff>> {
    if !(in_range(n, margin) && alpha > 0.0 && alpha < 1.0) {
        return None;
    }
    let order = Order { n, margin };
    // The candidate winning or losing every pair: no table is above the one or below the other.
    let (bottom, top) = (order.statistic(n, 0), order.statistic(n, n));
    let mut likely = (margin + 1.0) / 2.0;
    if n == 0 || order.exceeds(top, alpha, &mut likely) {
        return Some(None);
    }
    // Bracket the cutoff: too liberal at `low`, valid at `high`. At the bottom every table passes.
    let z = z_two_sided((1.0 - 2.0 * alpha).abs()) * (0.5 - alpha).signum();
    let z = if z.is_nan() { 0.0 } else { z };
    let (mut low, mut high, mut step) = ((z - 0.02).max(bottom), (z + 0.02).min(top), 0.1);
    while low > bottom && !order.exceeds(low, alpha, &mut likely) {
        high = low;
        low = (low - step).max(bottom);
        step *= 2.0;
    }
    while high < top && order.exceeds(high, alpha, &mut likely) {
        low = high;
        high = (high + step).min(top);
        step *= 2.0;
    }
    // Halve until few attained values are left between the two, then halve among those.
    while high - low > 0.5 / n as f64 {
        let middle = f64::midpoint(low, high);
        if order.exceeds(middle, alpha, &mut likely) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut attained = order.attained(low - TIE, high + TIE);
    // The smallest value at or above `high` is the last that can be asked for.
    let mut reach = 1.0 / n as f64;
    while attained.last().is_none_or(|last| *last < high - TIE) {
        attained = order.attained(low - TIE, high + reach);
        reach *= 2.0;
    }
    let (mut liberal, mut valid) = (0, attained.len() - 1);
    // The first may still be valid: `low` itself need not be attained. Then what failed is below it.
    while valid - liberal > 1 {
        let middle = usize::midpoint(liberal, valid);
        if order.exceeds(attained[middle], alpha, &mut likely) {
            liberal = middle;
        } else {
            valid = middle;
        }
    }
    let statistic = attained[valid];
    let worst = order.size(statistic);
    Some(Some(UnconditionalCutoff {
        statistic,
        next: attained[liberal],
        size: worst.probability,
        worst_disagreement: worst.disagreement,
        cells: order.cells(statistic),
    }))
}
