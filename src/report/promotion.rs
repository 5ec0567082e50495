//! How likely a rule is to promote a candidate, by how much better or worse the candidate truly is.
//!
//! A verdict says what one run showed; this says what such runs can show. The probabilities are exact sums
//! (`stats::promotion`), for as many pairs as a shadow mirrored and for multiples of it, at the rate of
//! disagreement that was seen. Whoever plans a shadow reads two things here: how often a bad candidate
//! slips through, and how often a good one is held up for want of pairs.

use super::compare::Paired;
use super::rows::Row;
use crate::stats::{Criterion, Joint, Rule};

/// Curves of one question, at several sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Promotion {
    /// The policy whose pairs the curves take after.
    pub policy: String,
    /// Whether it mirrored these pairs; else they are its differences from the baseline.
    pub is_shadow: bool,
    /// Name of the rule that promotes.
    pub rule: &'static str,
    /// Share of the pairs in which exactly one of the two was right, as seen.
    pub disagreement: f64,
    /// One curve for each number of pairs, in rising order.
    pub curves: Vec<PromotionCurve>,
}

/// The chance of promotion after so many pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct PromotionCurve {
    /// Pairs with a grade on both sides.
    pub pairs: u64,
    /// True difference of accuracies (candidate minus served, a share) and the probability of promotion.
    pub points: Vec<(f64, f64)>,
}

/// Pairs of the curves of a policy that mirrored nothing.
const PLANNED: [u64; 3] = [500, 2_000, 8_000];
/// Multiples of the pairs that a shadow mirrored: with four times as many an interval is half as wide.
const MULTIPLES: [u64; 3] = [1, 4, 16];
/// Points of a curve.
const POINTS: u32 = 61;
/// Most shadows that have curves.
const SHADOWS_MAX: usize = 4;
/// Most pairs for rules whose sums grow with the square of n, or that are prepared for each n.
const PAIRS_MAX: u64 = 4_000;

/// The curves of each shadow, and of the policy whose difference from the baseline is nearest to the margin.
pub(super) fn promotions(
    rows: &[Row],
    paired: &[Paired],
    rule: Rule,
    (margin, z): (f64, f64),
    replicates: u64,
) -> Vec<Promotion> {
    let Some(criterion) = Criterion::new(margin, z) else {
        return Vec::new();
    };
    let shadows = rows.iter().filter_map(|row| {
        let shadow = row.shadow.as_ref()?;
        let seen = Seen {
            both: shadow.n11,
            candidate: shadow.n10,
            served: shadow.n01,
            none: shadow.n00,
        };
        // Each replicate decides on its own pairs.
        let each = (seen.pairs() / replicates.max(1)).max(1);
        let sizes = MULTIPLES.map(|multiple| each.saturating_mul(multiple));
        promotion(&row.policy, true, seen, &sizes, rule, criterion)
    });
    let closest = paired
        .iter()
        .filter(|pair| !pair.control)
        .filter_map(|pair| {
            let value = pair.accuracy_difference.value?;
            // A copy of the baseline never disagrees with it: there is nothing to learn from it.
            (pair.n10 + pair.n01 > 0).then_some((pair, (value + margin).abs()))
        })
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .and_then(|(pair, _)| {
            let seen = Seen {
                both: pair.n11,
                candidate: pair.n10,
                served: pair.n01,
                none: pair.n00,
            };
            promotion(&pair.policy, false, seen, &PLANNED, rule, criterion)
        });
    shadows.take(SHADOWS_MAX).chain(closest).collect()
}

/// A table of pairs as it was seen.
#[derive(Clone, Copy)]
struct Seen {
    both: u64,
    candidate: u64,
    served: u64,
    none: u64,
}

impl Seen {
    fn pairs(self) -> u64 {
        self.both + self.candidate + self.served + self.none
    }

    fn share(self, count: u64) -> f64 {
        count as f64 / self.pairs() as f64
    }
}

fn promotion(
    policy: &str,
    is_shadow: bool,
    seen: Seen,
    sizes: &[u64],
    rule: Rule,
    criterion: Criterion,
) -> Option<Promotion> {
    if seen.pairs() == 0 {
        return None;
    }
    let disagreement = seen.share(seen.candidate + seen.served);
    let primary = seen.share(seen.both + seen.served);
    let is_slow = rule.looks_at_agreement() || rule == Rule::ExactUnconditional;
    let (low, high) = (
        -(2.0 * criterion.margin()).max(0.02),
        criterion.margin().max(0.01),
    );
    let differences: Vec<f64> = (0..POINTS)
        .map(|step| low + (high - low) * f64::from(step) / f64::from(POINTS - 1))
        .collect();
    let curves: Vec<PromotionCurve> = sizes
        .iter()
        .filter(|pairs| !is_slow || **pairs <= PAIRS_MAX)
        .filter_map(|&pairs| {
            let decider = rule.at(pairs, criterion)?;
            let points = differences
                .iter()
                .filter_map(|&difference| {
                    let joint = joint(rule, primary, difference, disagreement)?;
                    Some((difference, decider.promotion_probability(joint)))
                })
                .collect();
            Some(PromotionCurve { pairs, points })
        })
        .collect();
    (!curves.is_empty()).then(|| Promotion {
        policy: policy.to_owned(),
        is_shadow,
        rule: rule.name(),
        disagreement,
        curves,
    })
}

/// Pairs with this true difference that disagree as often as was seen, or as the difference demands.
fn joint(rule: Rule, primary: f64, difference: f64, disagreement: f64) -> Option<Joint> {
    let disagreement = disagreement.max(difference.abs());
    if rule.looks_at_agreement() {
        return Joint::from_accuracies(primary + difference, primary, disagreement);
    }
    let p10 = (disagreement + difference) / 2.0;
    let p01 = (disagreement - difference) / 2.0;
    Joint::from_disagreement(p10.max(0.0), p01.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(rule: Rule, sizes: &[u64]) -> Promotion {
        let seen = Seen {
            both: 450,
            candidate: 20,
            served: 60,
            none: 70,
        };
        let criterion = Criterion::new(0.03, 1.959_963_984_540_054).unwrap();
        promotion("p", true, seen, sizes, rule, criterion).unwrap()
    }

    #[test]
    fn better_candidates_and_more_pairs_are_promoted_more_often() {
        let found = curves(Rule::Tango, &[600, 2_400, 9_600]);
        assert!((found.disagreement - 80.0 / 600.0).abs() < 1e-12);
        for curve in &found.curves {
            assert_eq!(curve.points.len(), POINTS as usize);
            assert!(
                curve
                    .points
                    .windows(2)
                    .all(|two| two[0].1 <= two[1].1 + 1e-9)
            );
            // At the margin itself a rule promotes about as often as its alpha says.
            let at_margin = curve
                .points
                .iter()
                .find(|point| (point.0 + 0.03).abs() < 1e-9);
            assert!(
                at_margin.is_some_and(|point| (0.015..0.035).contains(&point.1)),
                "{at_margin:?}"
            );
        }
        let at_zero = |pairs: usize| {
            let points = &found.curves[pairs].points;
            points.iter().find(|point| point.0.abs() < 1e-9).unwrap().1
        };
        assert!(at_zero(0) < at_zero(1) && at_zero(1) < at_zero(2) && at_zero(2) > 0.99);
    }

    #[test]
    fn slow_rules_have_the_curves_they_have_time_for() {
        for rule in [Rule::Newcombe10, Rule::ExactUnconditional] {
            let found = curves(rule, &[600, 9_600]);
            assert_eq!(found.curves.len(), 1, "{rule:?}");
        }
    }
}
