//! Verifiers: who looks at an answer before it is served.
//!
//! So far there is one kind, the simulated verifier, whose two error rates are parameters. It sees the
//! grade only through the world that draws its verdict; no policy ever does.

use crate::source::{Table, Value};
use crate::units::lanes::{self, LANES, Lanes};
use crate::units::{Probability, Score};

/// A verifier of answers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verifier {
    /// Accepts right and wrong answers with fixed probabilities.
    Simulated(Simulated),
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

impl Verifier {
    /// Reads `verifier = { simulated = { accept_if_correct = …, accept_if_wrong = … } }`.
    #[must_use]
    pub fn read(value: &Value<'_>) -> Option<Self> {
        let mut table = value.table()?;
        let simulated = table.get("simulated");
        let read = match &simulated {
            Some(value) => value.table().and_then(|table| read_simulated(table)),
            None => {
                table.error("a verifier needs its kind: `simulated = { accept_if_correct = …, accept_if_wrong = … }`");
                None
            }
        };
        table.finish();
        read
    }
}

fn read_simulated(mut table: Table<'_>) -> Option<Verifier> {
    let correct = table
        .require("accept_if_correct")
        .and_then(|value| value.probability());
    let wrong = table
        .require("accept_if_wrong")
        .and_then(|value| value.probability());
    table.finish();
    Some(Verifier::Simulated(Simulated::new(correct?, wrong?)))
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
