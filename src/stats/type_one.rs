//! How often a rule promotes a candidate that is worse by exactly the margin: its type I error, exactly.
//!
//! At the margin the probability still depends on how often the two disagree, which nobody knows before
//! the run. A rule's honest number is therefore the worst case over that rate.

use std::f64::consts::FRAC_PI_2;

use super::promotion::{Joint, promotion_probability};
use super::rule::{Criterion, Rule};

/// The worst case over the rate of disagreement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorstCase {
    /// The rate of disagreement, p10 + p01, at which the probability is largest.
    pub disagreement: f64,
    /// The largest probability.
    pub probability: f64,
}

/// P(the rule promotes) after `n` pairs when the candidate is worse by exactly the margin: p10 − p01 = −m
/// at p10 + p01 = `disagreement`. Nominal is [`Criterion::alpha`].
///
/// `primary` is the primary's share right. It matters for rules that look at agreement only
/// ([`Rule::looks_at_agreement`]); for the others any value between `disagreement` and one will do.
/// `None` if no joint distribution has these rates, or where [`Rule::at`] gives none.
/// Computed by [`promotion_probability`], to its accuracy.
#[must_use]
pub fn type_one_error(
    rule: Rule,
    n: u64,
    disagreement: f64,
    criterion: Criterion,
    primary: f64,
) -> Option<f64> {
    let joint = at_margin(rule, disagreement, criterion.margin(), primary)?;
    promotion_probability(rule, n, joint, criterion)
}

/// The largest type I error over all rates of disagreement from the margin to one.
///
/// The rate is searched on a grid, dense at both ends, with steps of about a quarter of a standard
/// deviation of the counts, finer than any feature of the curve, and refined by golden sections around
/// the highest points. Rates
/// that contradict `primary` are left out, for rules to which it matters. `None` where [`Rule::at`]
/// gives none. The work is that of about 12·√n evaluations of [`type_one_error`].
#[must_use]
pub fn type_one_error_max(
    rule: Rule,
    n: u64,
    criterion: Criterion,
    primary: f64,
) -> Option<WorstCase> {
    let (decider, margin) = (rule.at(n, criterion)?, criterion.margin());
    worst_over_disagreement(n, margin, |disagreement| {
        let joint = at_margin(rule, disagreement, margin, primary)?;
        Some(decider.promotion_probability(joint))
    })
}

/// The joint distribution at the margin; the primary's accuracy is dropped where it does not matter.
fn at_margin(rule: Rule, disagreement: f64, margin: f64, primary: f64) -> Option<Joint> {
    if rule.looks_at_agreement() {
        Joint::at_margin(margin, disagreement, primary)
    } else {
        // A rate equal to the margin but for rounding is the margin.
        let p10 = (disagreement - margin) / 2.0;
        let p10 = if p10.abs() < 1e-15 { 0.0 } else { p10 };
        Joint::from_disagreement(p10, (disagreement + margin) / 2.0)
    }
}

/// Highest points of the grid that are refined, if they come close to the highest of all.
const REFINED: usize = 8;

/// How close: the grid is so fine that no peak is hidden by more than this.
const CLOSE: f64 = 0.98;

/// Golden sections per point: the place is found to 10⁻⁵ of a step, the height to about 10⁻¹¹ of itself.
const SECTIONS: u32 = 25;

/// The largest of `probability` over the rates of disagreement from `margin` to one; `None` if it has no
/// value at any of them.
pub(super) fn worst_over_disagreement(
    n: u64,
    margin: f64,
    probability: impl Fn(f64) -> Option<f64>,
) -> Option<WorstCase> {
    // pd = m + (1 − m)·sin²u: at the lower end the mean of n10 is about n·u²/2, at the upper end that of
    // the agreeing pairs n·(π/2 − u)², so equal steps of u are equal steps of their square roots, whose
    // deviation is ½. Steps of π/(24·√n) are a fifth and a quarter of it.
    let steps = (12.0 * (n as f64).sqrt()).ceil().max(32.0);
    let rate = |u: f64| {
        let sine = libm::sin(u);
        (margin + (1.0 - margin) * sine * sine).min(1.0)
    };
    let at = |index: f64| FRAC_PI_2 * index / steps;
    let heights: Vec<Option<f64>> = (0..=steps as usize)
        .map(|index| probability(rate(at(index as f64))))
        .collect();
    let height = |index: Option<usize>| {
        index
            .and_then(|index| *heights.get(index)?)
            .unwrap_or(f64::NEG_INFINITY)
    };
    let mut peaks: Vec<usize> = (0..heights.len())
        .filter(|&index| {
            let here = height(Some(index));
            heights[index].is_some()
                && here >= height(index.checked_sub(1))
                && here >= height(Some(index + 1))
        })
        .collect();
    peaks.sort_by(|a, b| height(Some(*b)).total_cmp(&height(Some(*a))));
    peaks.truncate(REFINED);
    let highest = height(peaks.first().copied());
    peaks.retain(|peak| height(Some(*peak)) >= CLOSE * highest);

    let mut worst: Option<WorstCase> = None;
    let mut consider = |disagreement: f64, probability: f64| {
        if worst.is_none_or(|worst| probability > worst.probability) {
            worst = Some(WorstCase {
                disagreement,
                probability,
            });
        }
    };
    for peak in peaks {
        let centre = peak as f64;
        consider(rate(at(centre)), height(Some(peak)));
        let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
        let value = |u: f64| probability(rate(u)).unwrap_or(f64::NEG_INFINITY);
        let (mut low, mut high) = (at((centre - 1.0).max(0.0)), at((centre + 1.0).min(steps)));
        let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
        let (mut at_left, mut at_right) = (value(left), value(right));
        for _ in 0..SECTIONS {
            if at_left >= at_right {
                (high, right, at_right) = (right, left, at_left);
                left = high - golden * (high - low);
                at_left = value(left);
            } else {
                (low, left, at_left) = (left, right, at_right);
                right = low + golden * (high - low);
                at_right = value(right);
            }
        }
        consider(rate(left), at_left);
        consider(rate(right), at_right);
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::RULES;

    fn lesson() -> Criterion {
        Criterion::new(0.03, 1.96).unwrap()
    }

    #[test]
    fn the_search_finds_what_a_fine_grid_finds() {
        for &(name, rule) in RULES {
            let n = if rule.looks_at_agreement() { 30 } else { 90 };
            let worst = type_one_error_max(rule, n, lesson(), 0.9).unwrap();
            let decider = rule.at(n, lesson()).unwrap();
            let fine = (0..=4_000)
                .filter_map(|step| {
                    let rate =
                        0.03 + 0.97 * libm::sin(f64::from(step) * FRAC_PI_2 / 4_000.0).powi(2);
                    let joint = at_margin(rule, rate, 0.03, 0.9)?;
                    Some(decider.promotion_probability(joint))
                })
                .max_by(f64::total_cmp)
                .unwrap();
            assert!(
                worst.probability >= fine - 1e-12,
                "{name}: {worst:?} {fine}"
            );
            assert!(worst.probability <= fine + 2e-5, "{name}: {worst:?} {fine}");
            let again = type_one_error(rule, n, worst.disagreement, lesson(), 0.9).unwrap();
            assert_eq!(again, worst.probability, "{name}");
        }
    }

    #[test]
    fn the_lessons_rule_errs_many_times_as_often_as_it_says() {
        let of = |rule, n| {
            type_one_error_max(rule, n, lesson(), 0.9)
                .unwrap()
                .probability
        };
        assert!(of(Rule::WaldLesson, 50) > 0.2);
        assert!(of(Rule::ExactUnconditional, 50) <= lesson().alpha());
        assert!(of(Rule::Tango, 800) < 0.026);
    }

    #[test]
    fn rates_that_no_distribution_has_have_no_error() {
        assert_eq!(type_one_error(Rule::Tango, 50, 0.02, lesson(), 0.9), None);
        assert_eq!(type_one_error(Rule::Tango, 50, 1.2, lesson(), 0.9), None);
        assert_eq!(
            type_one_error(Rule::Newcombe10, 50, 0.5, lesson(), 0.99),
            None
        );
        // The primary's accuracy is of no interest to Tango's test.
        let any = type_one_error(Rule::Tango, 50, 0.5, lesson(), f64::NAN);
        assert_eq!(any, type_one_error(Rule::Tango, 50, 0.5, lesson(), 0.9));
        assert!(type_one_error(Rule::Tango, 1, 0.03, lesson(), 0.9) == Some(0.0));
        assert_eq!(
            type_one_error_max(Rule::Tango, u64::MAX, lesson(), 0.9),
            None
        );
    }
}
