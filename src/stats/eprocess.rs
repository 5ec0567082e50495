//! "Not worse by more than the margin", decided at any time: a test by betting.
//!
//! A player who believes that the candidate is within the margin bets against the hypothesis that it is
//! not, one mirrored pair after the other, at odds that are fair if the hypothesis is true. If it is,
//! the wealth stays below 1/α for ever with chance 1 − α, however often one looks and whenever one
//! stops (Ville's inequality). So wealth of 1/α is proof at level α, with no plan made beforehand.
//!
//! The wealth is a mean over several stakes, so that no stake need be guessed, and depends on the
//! counts alone: the order of the pairs does not matter, and a log of counts is all that is needed to
//! resume. The price is power: with a planned end, `spending_boundaries` decides somewhat earlier.

use super::NonInferiority;

/// Stakes that suit margins of a few points and hundreds to thousands of pairs: small ones for rare
/// disagreement near the margin, large ones for clear cases.
pub const STAKES: [f64; 8] = [0.02, 0.05, 0.10, 0.20, 0.30, 0.45, 0.60, 0.80];

/// What one stake makes of each kind of pair, as logarithms of the factors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bet {
    better: f64,
    same: f64,
    worse: f64,
}

/// A mixture e-process for a margin.
///
/// A pair counts X = 1 if only the candidate is right, −1 if only the primary is, else 0. To be
/// rejected is E X ≤ −m. With stakes λ the wealth is the mean of
/// (1 + λ(1 + m))^n10 · (1 + λm)^(n − n10 − n01) · (1 − λ(1 − m))^n01.
///
/// Source: I. Waudby-Smith, A. Ramdas, JRSS B 86 (2024) 1–27 (betting); H. Robbins, Annals of
/// Mathematical Statistics 41 (1970) 1397–1409 (mixtures); J. Ville (1939) for the inequality.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureE {
    for_promotion: Vec<Bet>,
    for_harm: Vec<Bet>,
}

impl MixtureE {
    /// The process for `margin` with the stakes [`STAKES`]. `None` unless 0 ≤ margin < 1.
    #[must_use]
    pub fn new(margin: f64) -> Option<Self> {
        Self::with_stakes(margin, &STAKES)
    }

    /// The same with other stakes, which weigh the same each: λ in (0, 1/(1 − margin)).
    ///
    /// Bets that the candidate is worse than the margin lose at most λ(1 + margin), so that there
    /// stakes of 1/(1 + margin) and above are left out. `None` if no stake is left for either bet, a
    /// stake is out of range, or the margin is not in [0, 1).
    #[must_use]
    pub fn with_stakes(margin: f64, stakes: &[f64]) -> Option<Self> {
        if !(0.0..1.0).contains(&margin) {
            return None;
        }
        let usable = |stake: &f64| *stake > 0.0 && stake * (1.0 - margin) < 1.0;
        if !stakes.iter().all(usable) {
            return None;
        }
        // X + m is 1 + m, m or −(1 − m).
        let bet = |stake: f64| Bet {
            better: libm::log1p(stake * (1.0 + margin)),
            same: libm::log1p(stake * margin),
            worse: libm::log1p(-stake * (1.0 - margin)),
        };
        let for_promotion: Vec<Bet> = stakes.iter().map(|&stake| bet(stake)).collect();
        let for_harm: Vec<Bet> = stakes
            .iter()
            .filter(|&stake| stake * (1.0 + margin) < 1.0)
            .map(|&stake| bet(-stake))
            .collect();
        (!for_promotion.is_empty() && !for_harm.is_empty()).then_some(Self {
            for_promotion,
            for_harm,
        })
    }

    /// ln of the wealth of betting that the candidate is within the margin, after `n` pairs of which
    /// in `n10` only the candidate was right and in `n01` only the primary. `None` if n10 + n01 > n.
    #[must_use]
    pub fn log_e(&self, n10: u64, n01: u64, n: u64) -> Option<f64> {
        log_mean(&self.for_promotion, n10, n01, n)
    }

    /// ln of the wealth of betting that it is worse by more than the margin: "stop for harm".
    #[must_use]
    pub fn log_e_for_harm(&self, n10: u64, n01: u64, n: u64) -> Option<f64> {
        log_mean(&self.for_harm, n10, n01, n)
    }

    /// Whether the counts prove, at one-sided level `alpha`, that the candidate is within the margin.
    #[must_use]
    pub fn promotes(&self, n10: u64, n01: u64, n: u64, alpha: f64) -> bool {
        self.log_e(n10, n01, n)
            .is_some_and(|log_e| log_e >= -libm::log(alpha))
    }

    /// Whether the counts prove, at one-sided level `alpha`, that it is worse by more than the margin.
    #[must_use]
    pub fn stops_for_harm(&self, n10: u64, n01: u64, n: u64, alpha: f64) -> bool {
        self.log_e_for_harm(n10, n01, n)
            .is_some_and(|log_e| log_e >= -libm::log(alpha))
    }

    /// The decision on these counts, each way at one-sided level `alpha`. Valid at whatever time it is
    /// asked for; a decision once made stands, even if later counts would not repeat it.
    #[must_use]
    pub fn decide(&self, n10: u64, n01: u64, n: u64, alpha: f64) -> NonInferiority {
        let promotes = self.promotes(n10, n01, n, alpha);
        let harms = self.stops_for_harm(n10, n01, n, alpha);
        match (promotes, harms) {
            (true, false) => NonInferiority::NonInferior,
            (false, true) => NonInferiority::Inferior,
            _ => NonInferiority::Inconclusive,
        }
    }
}

/// ln of the mean over the bets of what each has become.
fn log_mean(bets: &[Bet], n10: u64, n01: u64, n: u64) -> Option<f64> {
    let same = n.checked_sub(n10.checked_add(n01)?)? as f64;
    let (n10, n01) = (n10 as f64, n01 as f64);
    let wealth = |bet: &Bet| n10 * bet.better + same * bet.same + n01 * bet.worse;
    let most = bets.iter().map(wealth).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = bets.iter().map(|bet| libm::exp(wealth(bet) - most)).sum();
    Some(most + libm::log(sum / bets.len() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expected wealth when each pair is stopped on the first time `stops` holds, or after `length`.
    fn expected_wealth(
        (p10, p01): (f64, f64),
        length: u64,
        log_e: &dyn Fn(u64, u64, u64) -> f64,
        stops: &dyn Fn(u64, u64, u64) -> bool,
    ) -> f64 {
        let side = length as usize + 1;
        let mut chance = vec![0.0; side * side];
        chance[0] = 1.0;
        let mut stopped = 0.0;
        for n in 1..=length {
            let mut next = vec![0.0; side * side];
            for a in 0..n as usize {
                for b in 0..n as usize - a {
                    let here = chance[a * side + b];
                    next[a * side + b] += here * (1.0 - p10 - p01);
                    next[(a + 1) * side + b] += here * p10;
                    next[a * side + b + 1] += here * p01;
                }
            }
            for a in 0..=n {
                for b in 0..=n - a {
                    let at = a as usize * side + b as usize;
                    if n == length || stops(a, b, n) {
                        stopped += next[at] * log_e(a, b, n).exp();
                        next[at] = 0.0;
                    }
                }
            }
            chance = next;
        }
        stopped
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn at_the_margin_the_game_is_fair_however_it_is_stopped(
            margin in 0.0_f64..0.3, extra in 0.0_f64..0.5, length in 1_u64..40, limit in 0.1_f64..3.0,
        ) {
            // E X = −m exactly: p01 − p10 = m.
            let p10 = extra / 2.0;
            let p01 = p10 + margin;
            let e = MixtureE::new(margin).unwrap();
            let promotion = |a, b, n| e.log_e(a, b, n).unwrap();
            let harm = |a, b, n| e.log_e_for_harm(a, b, n).unwrap();
            for log_e in [&promotion as &dyn Fn(u64, u64, u64) -> f64, &harm] {
                let stops = |a, b, n| log_e(a, b, n) >= limit;
                let fair = expected_wealth((p10, p01), length, log_e, &stops);
                prop_assert!((fair - 1.0).abs() < 1e-11, "{}", fair);
            }
            // Beyond the margin betting on promotion loses, within it betting on harm does.
            let never = |_, _, _| false;
            let worse = expected_wealth((p10, p01 + 0.05), length, &promotion, &never);
            prop_assert!(worse < 1.0);
            let better = expected_wealth((p10 + 0.05, p01), length, &harm, &never);
            prop_assert!(better < 1.0);
        }

        #[test]
        fn better_counts_never_lower_the_wealth(
            n10 in 0_u64..200, n01 in 1_u64..200, rest in 0_u64..2000,
        ) {
            let e = MixtureE::new(0.03).unwrap();
            let n = n10 + n01 + rest;
            let base = e.log_e(n10, n01, n).unwrap();
            prop_assert!(e.log_e(n10 + 1, n01 - 1, n).unwrap() > base);
            prop_assert!(e.log_e(n10, n01 - 1, n).unwrap() > base);
            prop_assert!(e.log_e_for_harm(n10, n01 - 1, n).unwrap() < e.log_e_for_harm(n10, n01, n).unwrap());
        }
    }

    #[test]
    fn clear_cases_are_decided_and_extremes_finite() {
        let e = MixtureE::new(0.03).unwrap();
        assert_eq!(e.decide(0, 0, 400, 0.025), NonInferiority::NonInferior);
        assert_eq!(e.decide(0, 60, 200, 0.025), NonInferiority::Inferior);
        assert_eq!(e.decide(0, 0, 0, 0.025), NonInferiority::Inconclusive);
        assert_eq!(e.decide(3, 3, 5, 0.025), NonInferiority::Inconclusive);
        assert_eq!(e.log_e(0, 0, 0), Some(0.0));
        assert_eq!(e.log_e(u64::MAX, 1, 5), None);
        for (n10, n01) in [(0, 0), (1_000_000, 0), (0, 1_000_000), (500_000, 500_000)] {
            assert!(e.log_e(n10, n01, 1_000_000).unwrap().is_finite());
            assert!(e.log_e_for_harm(n10, n01, 1_000_000).unwrap().is_finite());
        }
        // Without a margin agreement proves nothing, for ever.
        let none = MixtureE::new(0.0).unwrap();
        assert_eq!(none.log_e(0, 0, 1_000_000), Some(0.0));
        assert!(!none.promotes(0, 0, 1_000_000, 0.025));
    }

    #[test]
    fn nonsense_is_no_process() {
        for margin in [-0.1, 1.0, f64::NAN] {
            assert_eq!(MixtureE::new(margin), None);
        }
        for stakes in [&[][..], &[0.0], &[-0.5], &[2.0], &[f64::NAN]] {
            assert_eq!(MixtureE::with_stakes(0.03, stakes), None, "{stakes:?}");
        }
        // 0.8·1.3 is more than can be lost: the other stakes remain.
        let wide = MixtureE::new(0.3).unwrap();
        assert_eq!((wide.for_promotion.len(), wide.for_harm.len()), (8, 7));
        let e = MixtureE::new(0.03).unwrap();
        assert!(!e.promotes(0, 0, 1000, f64::NAN));
        assert!(!e.promotes(0, 0, 1000, 0.0));
    }
}
