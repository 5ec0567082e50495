//! What an imperfect grader makes of a paired comparison.
//!
//! A grader that sometimes calls a right answer wrong, or a wrong one right, shrinks every difference it
//! measures. A candidate that is truly worse by the margin then looks better than that, and a rule that
//! takes the grades for the truth promotes it far too often. Shrinking the margin by the same factor
//! restores the error rate; the price is more pairs.

use super::promotion::Joint;
use super::rule::Criterion;

/// Error rates of a grader.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Grader {
    sensitivity: f64,
    specificity: f64,
}

impl Grader {
    /// `sensitivity` is the share of right answers that the grader calls right, `specificity` the share of
    /// wrong answers that it calls wrong. Both come from answers whose truth is known.
    ///
    /// `None` unless both lie in \[0, 1\] and their sum is above 1: at 1 the grades say nothing about the
    /// truth, and below it they say the opposite.
    #[must_use]
    pub fn new(sensitivity: f64, specificity: f64) -> Option<Self> {
        let shares = [sensitivity, specificity]
            .iter()
            .all(|share| (0.0..=1.0).contains(share));
        (shares && sensitivity + specificity - 1.0 > 0.0).then_some(Self {
            sensitivity,
            specificity,
        })
    }

    /// A grader that makes no mistakes.
    #[must_use]
    pub const fn perfect() -> Self {
        Self {
            sensitivity: 1.0,
            specificity: 1.0,
        }
    }

    /// Share of right answers that it calls right.
    #[must_use]
    pub fn sensitivity(self) -> f64 {
        self.sensitivity
    }

    /// Share of wrong answers that it calls wrong.
    #[must_use]
    pub fn specificity(self) -> f64 {
        self.specificity
    }

    /// The factor by which differences shrink, sensitivity + specificity − 1 (Youden's index).
    ///
    /// Source: W. J. Rogan, B. Gladen, American Journal of Epidemiology 107 (1978) 71–76: the share
    /// graded right is p·sensitivity + (1 − p)·(1 − specificity), linear in the true share p.
    #[must_use]
    pub fn attenuation(self) -> f64 {
        self.sensitivity + self.specificity - 1.0
    }

    /// The joint distribution of the grades when `truth` is that of the answers.
    ///
    /// The grader's mistakes on the two answers of a pair are taken to be independent, given which of
    /// them are right. A grader that errs in the same way on both (it misreads the question) disagrees
    /// less than this says, so that fewer pairs are needed than computed.
    ///
    /// Where sensitivity and specificity are equal the rates of disagreement do not depend on how the
    /// agreeing pairs split into both right and both wrong; otherwise they do, so p11 must be given.
    #[must_use]
    pub fn graded(self, truth: Joint) -> Joint {
        // P(graded right | right), P(graded right | wrong).
        let (hit, slip) = (self.sensitivity, 1.0 - self.specificity);
        let cell = |candidate: bool, primary: bool| {
            let grade = |right: f64, wanted: bool| if wanted { right } else { 1.0 - right };
            truth.p11() * grade(hit, candidate) * grade(hit, primary)
                + truth.p10() * grade(hit, candidate) * grade(slip, primary)
                + truth.p01() * grade(slip, candidate) * grade(hit, primary)
                + truth.p00() * grade(slip, candidate) * grade(slip, primary)
        };
        let cells = [(true, true), (true, false), (false, true), (false, false)]
            .map(|(candidate, primary)| cell(candidate, primary));
        // Products and sums of probabilities that add up to one; only a rounding can be off.
        Joint::new(cells[0], cells[1], cells[2], cells[3]).unwrap_or(truth)
    }

    /// The criterion for grades that holds the margin for the truth: the margin times
    /// [`attenuation`](Self::attenuation), the critical value as it is. `None` if the corrected margin
    /// rounds to nothing although there is one.
    #[must_use]
    pub fn corrected(self, criterion: Criterion) -> Option<Criterion> {
        let corrected = criterion.with_margin(criterion.margin() * self.attenuation())?;
        (corrected.margin() > 0.0 || criterion.margin() == 0.0).then_some(corrected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Rule, promotion_probability};
    use proptest::prelude::*;

    #[test]
    fn a_grader_that_says_nothing_is_refused() {
        assert!(Grader::new(0.5, 0.5).is_none());
        assert!(Grader::new(0.3, 0.4).is_none());
        assert!(Grader::new(1.1, 0.9).is_none());
        assert!(Grader::new(f64::NAN, 0.9).is_none());
        assert_eq!(Grader::new(1.0, 1.0), Some(Grader::perfect()));
    }

    #[test]
    fn the_naive_rule_promotes_what_the_corrected_one_does_not() {
        // Exactly at the margin in truth. p11 is .9 here; the sum below shows that it does not matter.
        let criterion = Criterion::new(0.03, 1.96).unwrap();
        let grader = Grader::new(0.9, 0.9).unwrap();
        let corrected = grader.corrected(criterion).unwrap();
        assert!((corrected.margin() - 0.024).abs() < 1e-12);
        for p11 in [0.0, 0.5, 0.9] {
            let truth = Joint::new(p11, 0.02, 0.05, 0.93 - p11).unwrap();
            let seen = grader.graded(truth);
            let promoted =
                |criterion| promotion_probability(Rule::Tango, 20_000, seen, criterion).unwrap();
            let naive = promoted(criterion);
            assert!((naive - 0.43).abs() < 0.005, "{naive}");
            assert!(promoted(corrected) <= 0.025, "{}", promoted(corrected));
            assert!(promoted(corrected) > 0.024, "{}", promoted(corrected));
        }
    }

    #[test]
    fn how_often_both_are_right_matters_when_the_two_error_rates_differ() {
        let grader = Grader::new(0.8, 0.99).unwrap();
        let seen = |p11: f64| grader.graded(Joint::new(p11, 0.02, 0.05, 0.93 - p11).unwrap());
        assert!(seen(0.9).disagreement() > 3.0 * seen(0.0).disagreement());
        assert!((seen(0.9).difference() - seen(0.0).difference()).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn grades_shrink_the_difference_by_youdens_index(
            a in 0.0_f64..1.0, b in 0.0_f64..1.0, c in 0.0_f64..1.0, d in 0.01_f64..1.0,
            sensitivity in 0.51_f64..=1.0, specificity in 0.5_f64..=1.0,
        ) {
            let sum = a + b + c + d;
            let truth = Joint::new(a / sum, b / sum, c / sum, d / sum).unwrap();
            let grader = Grader::new(sensitivity, specificity).unwrap();
            let seen = grader.graded(truth);
            let want = grader.attenuation() * truth.difference();
            prop_assert!((seen.difference() - want).abs() < 1e-14);
            let total = seen.p11() + seen.p10() + seen.p01() + seen.p00();
            prop_assert!((total - 1.0).abs() < 1e-14);
            let same = Grader::perfect().graded(truth);
            prop_assert!((same.p11() - truth.p11()).abs() < 1e-15);
        }
    }
}
