//! Bets whose stake follows the data: bounds for means of values in [0, 1] that hold at all times.
//!
//! Before each value a stake is chosen from the mean and the spread of those before. That adapts to
//! small variances without a tuning constant, but the result depends on the order of the values, so
//! counts are not enough to resume and exact odds are out of reach. Right and wrong answers are better
//! served by `MixtureE` and `BernoulliSequence`; these are for partial credit.

use super::confidence_sequence::is_level;

/// What the plug-in methods know of the past: a shrunken mean and variance of values in [0, 1].
#[derive(Clone, Copy, Debug, PartialEq)]
struct PlugIn {
    alpha: f64,
    t: u64,
    sum: f64,
    squares: f64,
}

impl PlugIn {
    fn new(alpha: f64) -> Option<Self> {
        is_level(alpha).then_some(Self {
            alpha,
            t: 0,
            sum: 0.0,
            squares: 0.0,
        })
    }

    /// (½ + Σy)/(t + 1)
    fn mean(&self) -> f64 {
        (0.5 + self.sum) / (self.t + 1) as f64
    }

    /// The stake for the next value: √(2·ln(1/α)/(s²·t·ln(1 + t))), s² from the values so far.
    fn stake(&self) -> f64 {
        let variance = (0.25 + self.squares) / (self.t + 1) as f64;
        let t = (self.t + 1) as f64;
        (-2.0 * libm::log(self.alpha) / (variance * t * libm::log1p(t))).sqrt()
    }

    fn observe(&mut self, y: f64) {
        self.t += 1;
        self.sum += y;
        let off = y - self.mean();
        self.squares += off * off;
    }
}

/// Predictable plug-in empirical Bernstein: a lower bound for the mean of values in [0, 1] that holds
/// at all times with chance 1 − α.
///
/// With stakes λ_t = min(√(2·ln(1/α)/(s²_{t−1}·t·ln(1 + t))), ½) it is
/// (Σλy − ln(1/α) − Σψ(λ)(y − μ_{t−1})²)/Σλ, where ψ(λ) = −ln(1 − λ) − λ and μ, s² are a shrunken mean
/// and variance of the values before. It depends on the order of the values.
///
/// Source: I. Waudby-Smith, A. Ramdas, JRSS B 86 (2024) 1–27, theorem 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmpiricalBernstein {
    past: PlugIn,
    stakes: f64,
    staked: f64,
    penalty: f64,
}

impl EmpiricalBernstein {
    /// Before the first value. `None` unless 0 < alpha < 1.
    #[must_use]
    pub fn new(alpha: f64) -> Option<Self> {
        Some(Self {
            past: PlugIn::new(alpha)?,
            stakes: 0.0,
            staked: 0.0,
            penalty: 0.0,
        })
    }

    /// Takes a value. `false`, and nothing is taken, if it is outside [0, 1].
    pub fn observe(&mut self, y: f64) -> bool {
        if !(0.0..=1.0).contains(&y) {
            return false;
        }
        let stake = self.past.stake().min(0.5);
        let off = y - self.past.mean();
        self.stakes += stake;
        self.staked += stake * y;
        self.penalty += (-libm::log1p(-stake) - stake) * off * off;
        self.past.observe(y);
        true
    }

    /// The lower bound after the values so far; `None` before the first. May be below 0: then it says
    /// nothing yet.
    #[must_use]
    pub fn lower(&self) -> Option<f64> {
        (self.past.t > 0)
            .then(|| (self.staked + libm::log(self.past.alpha) - self.penalty) / self.stakes)
    }
}

/// A single bet whose stake follows the data, on a paired difference being within a margin.
///
/// Values X = 1, 0, −1 become Y = (X + 1)/2; the hypothesis to reject is E Y ≤ (1 − m)/2 = y₀, and the
/// wealth Π(1 + λ_t(Y_t − y₀)) with the stakes of [`EmpiricalBernstein`], cut off at ½/y₀ instead. It
/// depends on the order of the pairs, unlike `MixtureE`, which is preferred.
///
/// Source: I. Waudby-Smith, A. Ramdas, JRSS B 86 (2024) 1–27, section 4 (the upper half of their hedged
/// capital process).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlugInCapital {
    past: PlugIn,
    floor: f64,
    log_capital: f64,
}

impl PlugInCapital {
    /// Before the first pair. `None` unless 0 < alpha < 1 and 0 ≤ margin < 1.
    #[must_use]
    pub fn new(margin: f64, alpha: f64) -> Option<Self> {
        let past = PlugIn::new(alpha)?;
        (0.0..1.0).contains(&margin).then_some(Self {
            past,
            floor: (1.0 - margin) / 2.0,
            log_capital: 0.0,
        })
    }

    /// Takes a pair: whether the candidate and whether the primary was right.
    pub fn observe(&mut self, candidate: bool, primary: bool) {
        let y = f64::midpoint(f64::from(candidate), 1.0 - f64::from(primary));
        let stake = self.past.stake().min(0.5 / self.floor);
        self.log_capital += libm::log1p(stake * (y - self.floor));
        self.past.observe(y);
    }

    /// ln of the wealth: the hypothesis is rejected at level α when it reaches ln(1/α).
    #[must_use]
    pub fn log_capital(&self) -> f64 {
        self.log_capital
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `each` with every sequence of pair outcomes of this length and its chance.
    fn all_sequences(length: u32, (p10, p01): (f64, f64), mut each: impl FnMut(&[i32], f64)) {
        for code in 0..3_u32.pow(length) {
            let mut rest = code;
            let mut chance = 1.0;
            let mut sequence = Vec::new();
            for _ in 0..length {
                let x = (rest % 3) as i32 - 1;
                rest /= 3;
                chance *= match x {
                    1 => p10,
                    -1 => p01,
                    _ => 1.0 - p10 - p01,
                };
                sequence.push(x);
            }
            each(&sequence, chance);
        }
    }

    #[test]
    fn at_the_margin_the_bet_is_fair() {
        for (margin, p10) in [(0.0, 0.3), (0.03, 0.045), (0.2, 0.1)] {
            let mut expected = 0.0;
            all_sequences(8, (p10, p10 + margin), |sequence, chance| {
                let mut capital = PlugInCapital::new(margin, 0.025).unwrap();
                for x in sequence {
                    capital.observe(*x > 0, *x < 0);
                }
                expected += chance * capital.log_capital().exp();
            });
            assert!((expected - 1.0).abs() < 1e-12, "{margin}: {expected}");
        }
    }

    #[test]
    fn the_lower_bound_is_above_the_mean_less_often_than_alpha_over_all_times() {
        for (p10, p01) in [(0.3, 0.3), (0.02, 0.2), (0.5, 0.01)] {
            for alpha in [0.05, 0.5] {
                let mean = f64::midpoint(1.0, p10 - p01);
                let mut missed = 0.0;
                all_sequences(8, (p10, p01), |sequence, chance| {
                    let mut bound = EmpiricalBernstein::new(alpha).unwrap();
                    let above = sequence.iter().any(|x| {
                        assert!(bound.observe(f64::midpoint(1.0, f64::from(*x))));
                        bound.lower().unwrap() > mean
                    });
                    missed += if above { chance } else { 0.0 };
                });
                assert!(missed <= alpha, "{alpha}: {missed}");
            }
        }
    }

    #[test]
    fn the_lower_bound_finds_the_mean_in_the_end() {
        let mut bound = EmpiricalBernstein::new(0.05).unwrap();
        assert_eq!(bound.lower(), None);
        for i in 0..200_000_u32 {
            bound.observe(if i % 4 == 0 { 1.0 } else { 0.5 });
        }
        let low = bound.lower().unwrap();
        assert!(low < 0.625 && low > 0.615, "{low}");
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(EmpiricalBernstein::new(1.0), None);
        assert_eq!(PlugInCapital::new(1.0, 0.05), None);
        assert_eq!(PlugInCapital::new(0.03, f64::NAN), None);
        let mut bound = EmpiricalBernstein::new(0.05).unwrap();
        for y in [-0.1, 1.1, f64::NAN] {
            assert!(!bound.observe(y));
        }
        assert_eq!(bound.lower(), None);
    }
}
