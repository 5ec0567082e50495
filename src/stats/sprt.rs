//! Wald's sequential probability ratio test for a stream of hits and misses, and its exact odds.
//!
//! Two shares of hits are held against each other: `p0`, where all is well, and `p1`, where something
//! should be done. After every observation the test either goes on or decides. It needs far fewer
//! observations than a fixed number would, because clear cases end early. The decision depends on two
//! whole numbers, hits and observations, so no rounding builds up along a long stream and a state can
//! be stored and taken up again.
//!
//! What it is not: a test of shares that are not known beforehand. For those see the concurrent
//! control (`ConcurrentControl`) and the confidence sequences.

use super::stream_test::{
    OperatingCharacteristics, StreamTest, Verdict, n_until_h1, operating_characteristics,
};

/// A test of `p0` against a larger `p1`.
///
/// With h hits in n observations the log-likelihood ratio is
/// Λ = h·ln(p1/p0) + (n − h)·ln((1 − p1)/(1 − p0)). H1 is accepted when Λ ≥ ln((1 − β)/α), H0 when
/// Λ ≤ ln(β/(1 − α)). The errors are α and β nearly, because Λ overshoots its boundaries:
/// [`Sprt::operating_characteristics`] gives them exactly.
///
/// Source: A. Wald, Annals of Mathematical Statistics 16 (1945) 117–186, sections 3 and 5.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sprt {
    p0: f64,
    p1: f64,
    alpha: f64,
    beta: f64,
    /// What a hit adds to the log-likelihood ratio: positive.
    hit: f64,
    /// What a miss adds: negative.
    miss: f64,
    upper: f64,
    lower: f64,
}

impl Sprt {
    /// A test of `p0` against `p1`, with error bounds `alpha` (accepting H1 under `p0`) and `beta`
    /// (accepting H0 under `p1`).
    ///
    /// `None` unless 0 < p0 < p1 < 1, both bounds are positive and their sum is below 1.
    #[must_use]
    pub fn new(p0: f64, p1: f64, alpha: f64, beta: f64) -> Option<Self> {
        let sensible =
            p0 > 0.0 && p0 < p1 && p1 < 1.0 && alpha > 0.0 && beta > 0.0 && alpha + beta < 1.0;
        if !sensible {
            return None;
        }
        // Formed from the difference, so that close hypotheses keep their digits.
        let test = Self {
            p0,
            p1,
            alpha,
            beta,
            hit: libm::log1p((p1 - p0) / p0),
            miss: libm::log1p(-((p1 - p0) / (1.0 - p0))),
            upper: libm::log1p(-beta) - libm::log(alpha),
            lower: libm::log(beta) - libm::log1p(-alpha),
        };
        (test.hit.is_finite() && test.miss.is_finite()).then_some(test)
    }

    /// The share of hits under H0.
    #[must_use]
    pub fn p0(&self) -> f64 {
        self.p0
    }

    /// The share of hits under H1.
    #[must_use]
    pub fn p1(&self) -> f64 {
        self.p1
    }

    /// Bound on the chance of accepting H1 under `p0`.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Bound on the chance of accepting H0 under `p1`.
    #[must_use]
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// The log-likelihood ratio after `hits` in `n` observations. More hits than observations count
    /// as `n`.
    #[must_use]
    pub fn log_likelihood_ratio(&self, hits: u64, n: u64) -> f64 {
        hits.min(n) as f64 * self.hit + n.saturating_sub(hits) as f64 * self.miss
    }

    /// What the test says at these counts, whatever came before.
    #[must_use]
    pub fn verdict(&self, hits: u64, n: u64) -> Verdict {
        let ratio = self.log_likelihood_ratio(hits, n);
        if ratio >= self.upper {
            Verdict::AcceptH1
        } else if ratio <= self.lower {
            Verdict::AcceptH0
        } else {
            Verdict::Continue
        }
    }

    /// The fewest hits in `n` observations with which H1 is accepted; `None` if no number suffices.
    #[must_use]
    pub fn least_hits_for_h1(&self, n: u64) -> Option<u64> {
        least(n, |hits| self.verdict(hits, n) == Verdict::AcceptH1)
    }

    /// The most hits in `n` observations with which H0 is accepted; `None` if even none are too many.
    #[must_use]
    pub fn most_hits_for_h0(&self, n: u64) -> Option<u64> {
        match least(n, |hits| self.verdict(hits, n) != Verdict::AcceptH0) {
            Some(above) => above.checked_sub(1),
            None => Some(n),
        }
    }

    /// What the test does if each observation is a hit with chance `p`:
    /// [`operating_characteristics`] of this test.
    #[must_use]
    pub fn operating_characteristics(
        &self,
        p: f64,
        cap: Option<u64>,
    ) -> Option<OperatingCharacteristics> {
        operating_characteristics(self, p, cap)
    }

    /// How soon it accepts H1: [`n_until_h1`] of this test.
    #[must_use]
    pub fn n_until_h1(&self, p: f64, quantile: f64, cap: Option<u64>) -> Option<u64> {
        n_until_h1(self, p, quantile, cap)
    }
}

impl StreamTest for Sprt {
    fn verdict(&self, hits: u64, n: u64) -> Verdict {
        Sprt::verdict(self, hits, n)
    }
}

/// The least of 0, …, n that holds, where all after it hold too.
fn least(n: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(n) {
        return None;
    }
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = u64::midpoint(low, high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// A test under way: the counts so far.
///
/// A decision is final: what comes after it is not counted, so that [`SprtState::verdict`] is always
/// the verdict of the counts shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SprtState {
    sprt: Sprt,
    hits: u64,
    n: u64,
}

impl SprtState {
    /// Before the first observation.
    #[must_use]
    pub fn new(sprt: Sprt) -> Self {
        Self {
            sprt,
            hits: 0,
            n: 0,
        }
    }

    /// Takes one observation, and says where the test stands with it.
    pub fn observe(&mut self, hit: bool) -> Verdict {
        if self.verdict() == Verdict::Continue {
            self.n += 1;
            self.hits += u64::from(hit);
        }
        self.verdict()
    }

    /// Where the test stands.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.sprt.verdict(self.hits, self.n)
    }

    /// Hits among the observations counted.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Observations counted: those up to the decision.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// The test.
    #[must_use]
    pub fn sprt(&self) -> &Sprt {
        &self.sprt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every sequence of `length` observations, walked to its end, weighed with its chance.
    fn enumerated(sprt: Sprt, p: f64, length: u32) -> OperatingCharacteristics {
        let mut odds = OperatingCharacteristics {
            accept_h1: 0.0,
            accept_h0: 0.0,
            undecided: 0.0,
            expected_n: 0.0,
            cap: u64::from(length),
        };
        for bits in 0_u32..1 << length {
            let mut state = SprtState::new(sprt);
            let mut chance = 1.0;
            for i in 0..length {
                let hit = bits >> i & 1 == 1;
                chance *= if hit { p } else { 1.0 - p };
                state.observe(hit);
            }
            odds.expected_n += chance * state.n() as f64;
            *match state.verdict() {
                Verdict::Continue => &mut odds.undecided,
                Verdict::AcceptH0 => &mut odds.accept_h0,
                Verdict::AcceptH1 => &mut odds.accept_h1,
            } += chance;
        }
        odds
    }

    fn assert_close(a: OperatingCharacteristics, b: OperatingCharacteristics) {
        for (x, y) in [
            (a.accept_h1, b.accept_h1),
            (a.accept_h0, b.accept_h0),
            (a.undecided, b.undecided),
            (a.expected_n, b.expected_n),
        ] {
            // The sum over thousands of sequences is the less exact of the two.
            assert!((x - y).abs() < 1e-10, "{a:?} {b:?}");
        }
        assert_eq!(a.cap, b.cap);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn the_odds_are_those_of_all_sequences(
            p0 in 0.01_f64..0.6, gap in 0.05_f64..0.38, alpha in 0.01_f64..0.3,
            beta in 0.01_f64..0.3, p in 0.0_f64..=1.0, length in 1_u32..=13,
        ) {
            let sprt = Sprt::new(p0, p0 + gap, alpha, beta).unwrap();
            let odds = sprt.operating_characteristics(p, Some(u64::from(length))).unwrap();
            assert_close(odds, enumerated(sprt, p, length));
        }

        #[test]
        fn walds_inequalities_hold(
            p0 in 0.02_f64..0.6, gap in 0.05_f64..0.35, alpha in 0.001_f64..0.3,
            beta in 0.001_f64..0.3,
        ) {
            // α'/(1 − β') ≤ α/(1 − β) and β'/(1 − α') ≤ β/(1 − α): Wald 1945, equations 3.12 and 3.13.
            let sprt = Sprt::new(p0, p0 + gap, alpha, beta).unwrap();
            let well = sprt.operating_characteristics(p0, None).unwrap();
            let bad = sprt.operating_characteristics(p0 + gap, None).unwrap();
            prop_assert!(well.undecided < 1e-15 && bad.undecided < 1e-15);
            prop_assert!((well.accept_h1 + well.accept_h0 - 1.0).abs() < 1e-12);
            prop_assert!(well.accept_h1 / bad.accept_h1 <= alpha / (1.0 - beta) * (1.0 + 1e-9));
            prop_assert!(bad.accept_h0 / well.accept_h0 <= beta / (1.0 - alpha) * (1.0 + 1e-9));
        }

        #[test]
        fn limits_in_hits_agree_with_the_verdict(n in 0_u64..5000, hits in 0_u64..5000) {
            let sprt = Sprt::new(0.05, 0.10, 0.05, 0.10).unwrap();
            let hits = hits.min(n);
            let expected = match sprt.verdict(hits, n) {
                Verdict::AcceptH1 => (true, false),
                Verdict::AcceptH0 => (false, true),
                Verdict::Continue => (false, false),
            };
            let h1 = sprt.least_hits_for_h1(n).is_some_and(|least| hits >= least);
            let h0 = sprt.most_hits_for_h0(n).is_some_and(|most| hits <= most);
            prop_assert_eq!((h1, h0), expected);
        }
    }

    #[test]
    fn a_decision_is_final() {
        let mut state = SprtState::new(Sprt::new(0.1, 0.5, 0.05, 0.05).unwrap());
        while state.observe(true) == Verdict::Continue {}
        let (hits, n) = (state.hits(), state.n());
        for _ in 0..100 {
            assert_eq!(state.observe(false), Verdict::AcceptH1);
        }
        assert_eq!((state.hits(), state.n()), (hits, n));
    }

    #[test]
    fn nonsense_is_no_test() {
        for (p0, p1, alpha, beta) in [
            (0.0, 0.1, 0.05, 0.05),
            (0.1, 0.1, 0.05, 0.05),
            (0.2, 0.1, 0.05, 0.05),
            (0.1, 1.0, 0.05, 0.05),
            (0.1, 0.2, 0.0, 0.05),
            (0.1, 0.2, 0.6, 0.4),
            (f64::NAN, 0.2, 0.05, 0.05),
            (0.1, f64::NAN, 0.05, 0.05),
            (0.1, 0.2, f64::NAN, 0.05),
            (1e-320, 0.2, 0.05, 0.05),
        ] {
            assert_eq!(Sprt::new(p0, p1, alpha, beta), None, "{p0} {p1}");
        }
        let sprt = Sprt::new(0.1, 0.2, 0.05, 0.05).unwrap();
        for p in [-0.1, 1.1, f64::NAN] {
            assert_eq!(sprt.operating_characteristics(p, None), None);
            assert_eq!(sprt.n_until_h1(p, 0.5, None), None);
        }
        assert_eq!(sprt.n_until_h1(0.1, 1.5, None), None);
    }

    #[test]
    fn extremes_are_finite_and_right() {
        let sprt = Sprt::new(0.05, 0.10, 0.05, 0.10).unwrap();
        // Only hits: as many as Λ needs, ln(18)/ln(2) = 4.17.
        let sure = sprt.operating_characteristics(1.0, None).unwrap();
        assert_eq!(
            (sure.accept_h1, sure.accept_h0, sure.expected_n),
            (1.0, 0.0, 5.0)
        );
        assert_eq!(sprt.n_until_h1(1.0, 0.5, None), Some(5));
        let never = sprt.operating_characteristics(0.0, None).unwrap();
        assert_eq!((never.accept_h1, never.accept_h0), (0.0, 1.0));
        assert_eq!(sprt.n_until_h1(0.0, 0.5, None), None);
        let nothing = sprt.operating_characteristics(0.07, Some(0)).unwrap();
        assert_eq!(
            (nothing.undecided, nothing.expected_n, nothing.cap),
            (1.0, 0.0, 0)
        );
        // Hypotheses that no traffic could tell apart: broken off, and said so.
        let close = Sprt::new(0.5, 0.500_000_1, 0.05, 0.05).unwrap();
        let odds = close.operating_characteristics(0.5, Some(2000)).unwrap();
        assert!((odds.undecided - 1.0).abs() < 1e-12 && odds.cap == 2000);
        assert!(Sprt::new(0.5, 0.5_f64.next_up(), 0.05, 0.05).is_some());
    }

    #[test]
    fn quantiles_of_detection_enclose_the_chance() {
        let sprt = Sprt::new(0.032, 0.14, 0.05, 0.10).unwrap();
        let total = sprt
            .operating_characteristics(0.14, None)
            .unwrap()
            .accept_h1;
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let n = sprt.n_until_h1(0.14, quantile, None).unwrap();
            let within = |n| {
                sprt.operating_characteristics(0.14, Some(n))
                    .unwrap()
                    .accept_h1
            };
            assert!(within(n) >= quantile * total * (1.0 - 1e-12));
            assert!(within(n - 1) < quantile * total);
        }
    }
}
