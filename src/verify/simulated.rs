//! The verifier that is only its two error rates.

use super::{Kind, Reading, Verifier};
use crate::source::Table;
use crate::units::lanes::{self, LANES, Lanes};
use crate::units::{Probability, Score};

pub(super) const KIND: Kind = Kind {
    name: "simulated",
    about: "Accepts right and wrong answers with two fixed probabilities, without reading them. \
            For asking how good a verifier would have to be. It fails just as often as you say.",
    example: "verifier.simulated = { accept_if_correct = 0.93, accept_if_wrong = 0.30 }",
    read,
};

fn read(table: Table<'_>, _reading: &Reading<'_>) -> Option<Verifier> {
    Simulated::read(table, ["accept_if_correct", "accept_if_wrong"]).map(Verifier::Simulated)
}

/// A verifier that accepts with a probability that depends on whether the answer is right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulated {
    /// P(accept | right).
    pub accept_if_correct: Probability,
    /// P(accept | wrong): the false-accept rate.
    pub accept_if_wrong: Probability,
    if_correct: u64,
    if_wrong: u64,
}

impl Simulated {
    /// Reads a table of just the two rates, under these names.
    pub(super) fn read(mut table: Table<'_>, names: [&str; 2]) -> Option<Self> {
        let rates = Self::take(&mut table, names);
        table.finish();
        rates
    }

    /// Takes the two rates out of a table.
    pub(super) fn take(table: &mut Table<'_>, names: [&str; 2]) -> Option<Self> {
        let [correct, wrong] =
            names.map(|name| table.require(name).and_then(|value| value.probability()));
        Some(Self::new(correct?, wrong?))
    }

    /// A verifier with these two rates.
    #[must_use]
    pub fn new(accept_if_correct: Probability, accept_if_wrong: Probability) -> Self {
        Self {
            accept_if_correct,
            accept_if_wrong,
            if_correct: accept_if_correct.threshold(),
            if_wrong: accept_if_wrong.threshold(),
        }
    }

    /// The verdict on an answer of this grade, given a uniform 32-bit lane: accepted with probability
    /// g·a + (1 − g)·b. `None` when nobody graded the answer, so that nobody can say.
    #[must_use]
    #[inline(always)]
    pub fn accepts(&self, grade: Score, lane: u32) -> Option<bool> {
        let g = u64::from(grade.millionths()?);
        // Thresholds are at most 2³² and g at most 10⁶, so the products fit.
        let threshold = match g {
            0 => self.if_wrong,
            1_000_000 => self.if_correct,
            _ => (g * self.if_correct + (1_000_000 - g) * self.if_wrong + 500_000) / 1_000_000,
        };
        Some(u64::from(lane) < threshold)
    }

    /// The verdicts on 64 answers that are right or wrong: bit i of `right` is about the i-th.
    #[inline(always)]
    pub(crate) fn accepts_lanes(&self, right: Lanes, lane: &[u32; LANES]) -> Lanes {
        (right & below(lane, self.if_correct)) | (!right & below(lane, self.if_wrong))
    }
}

/// Which of 64 lanes are below a threshold of [`Probability::threshold`].
#[inline(always)]
fn below(lane: &[u32; LANES], threshold: u64) -> Lanes {
    match u32::try_from(threshold) {
        Ok(threshold) => lanes::which(|i| lane[i] < threshold),
        // Certainty is one more than the largest lane.
        Err(_) => lanes::ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graded_answers_are_accepted_in_proportion_to_their_grade() {
        let verifier = Simulated::new(
            Probability::new(0.75).unwrap(),
            Probability::new(0.25).unwrap(),
        );
        let half = Score::from_fraction(0.5).unwrap();
        assert_eq!(verifier.accepts(half, (1 << 31) - 1), Some(true));
        assert_eq!(verifier.accepts(half, 1 << 31), Some(false));
        assert_eq!(verifier.accepts(Score::RIGHT, (3 << 30) - 1), Some(true));
        assert_eq!(verifier.accepts(Score::WRONG, 1 << 30), Some(false));
        assert_eq!(verifier.accepts(Score::MISSING, 0), None);
    }

    #[test]
    fn verdicts_abreast_are_the_verdicts_one_by_one() {
        for (a, b) in [(0.93, 0.3), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5)] {
            let rate = |p| Probability::new(p).unwrap();
            let verifier = Simulated::new(rate(a), rate(b));
            for right in [0, u64::MAX, 0x5a5a_1234_8765_f00f] {
                let lane: [u32; 64] = std::array::from_fn(|i| match i {
                    0 | 1 => 0,
                    2 | 3 => u32::MAX,
                    // Just below a threshold, and just there.
                    4 | 5 => (verifier.if_correct.saturating_sub(1)) as u32,
                    6 | 7 => verifier.if_correct as u32,
                    _ => (i as u32).wrapping_mul(0x9e37_79b9),
                });
                let accepted = verifier.accepts_lanes(right, &lane);
                for (i, lane) in lane.iter().enumerate() {
                    let grade = Score::from_right(right >> i & 1 == 1);
                    let wanted = verifier.accepts(grade, *lane);
                    assert_eq!(Some(accepted >> i & 1 == 1), wanted);
                }
            }
        }
    }

    #[test]
    fn perfect_verifiers_never_err() {
        let verifier = Simulated::new(Probability::ONE, Probability::ZERO);
        assert_eq!(verifier.accepts(Score::RIGHT, u32::MAX), Some(true));
        assert_eq!(verifier.accepts(Score::WRONG, 0), Some(false));
    }
}
