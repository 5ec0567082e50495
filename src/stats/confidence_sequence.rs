//! Confidence sequences: intervals that hold at all times at once.
//!
//! An ordinary 95 % interval holds at one time that was fixed beforehand. A confidence sequence covers
//! the truth at every time together with chance 95 %, so that one may look after every observation and
//! stop on what one sees. It is wider, by a factor of about two, at any single time.
//!
//! Bounds of sums come in two shapes: the normal mixture, tightest around a chosen time, and polynomial
//! stitching, with the smallest growth. For shares there is an exact beta-binomial mixture, which is
//! also a sequential test with no alternative to name ([`BernoulliMixture`]). Means of bounded values
//! are in `plug_in`.
//!
//! Main source: S. R. Howard, A. Ramdas, J. McAuliffe, J. Sekhon, Annals of Statistics 49 (2021)
//! 1055–1080, "HRMS" below. What it is not: for a planned number of looks; see `group_sequential`.

use super::interval::Limits;
use super::root::halved;
use super::stream_test::{StreamTest, Verdict};

pub(super) fn is_level(alpha: f64) -> bool {
    alpha > 0.0 && alpha < 1.0
}

/// The mixture variance ρ with which the two-sided normal mixture bound is near its tightest where the
/// variance process is `v_opt`: ρ = v/(2·ln(1/α) + ln(1 + 2·ln(1/α))).
///
/// `None` unless v_opt is positive and finite and 0 < alpha_opt < 1. Source: HRMS,
/// where the root of a Lambert W is approximated so.
#[must_use]
pub fn normal_mixture_rho(v_opt: f64, alpha_opt: f64) -> Option<f64> {
    let twice = -2.0 * libm::log(alpha_opt);
    (v_opt > 0.0 && v_opt.is_finite() && is_level(alpha_opt))
        .then(|| v_opt / (twice + libm::log1p(twice)))
}

/// The two-sided normal mixture bound: a sum of centred sub-Gaussian terms with variance process `v`
/// has |S| below it at all times with chance 1 − alpha.
///
/// u(v) = √((v + ρ)·ln((v + ρ)/(ρ·α²))), with ρ of [`normal_mixture_rho`]. `None` for v negative or not
/// finite, or arguments outside the range of ρ. Source: HRMS, equation (14).
#[must_use]
pub fn normal_mixture_two_sided(v: f64, alpha: f64, v_opt: f64, alpha_opt: f64) -> Option<f64> {
    let rho = normal_mixture_rho(v_opt, alpha_opt)?;
    (v >= 0.0 && v.is_finite() && is_level(alpha)).then(|| {
        let total = v + rho;
        (total * (libm::log(total / rho) - 2.0 * libm::log(alpha))).sqrt()
    })
}

/// The one-sided normal mixture bound: S stays below it at all times with chance 1 − alpha.
///
/// It is the s at which ln of the mixture over positive means,
/// ½·ln(4ρ/(v + ρ)) + s²/(2(v + ρ)) + ln Φ(s/√(v + ρ)), reaches ln(1/α); ρ is that of
/// [`normal_mixture_rho`] at twice `alpha_opt`. `None` as for [`normal_mixture_two_sided`], and unless
/// alpha_opt < ½. Source: HRMS, proposition 6.
#[must_use]
pub fn normal_mixture_one_sided(v: f64, alpha: f64, v_opt: f64, alpha_opt: f64) -> Option<f64> {
    let rho = normal_mixture_rho(v_opt, 2.0 * alpha_opt)?;
    if !(v >= 0.0 && v.is_finite() && is_level(alpha)) {
        return None;
    }
    let total = v + rho;
    let target = -libm::log(alpha) - 0.5 * libm::log(4.0 * rho / total);
    // In units of √(v + ρ): x²/2 + ln Φ(x) rises with x.
    let below = |x: f64| {
        let phi = 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
        0.5 * x * x + libm::log(phi) < target
    };
    // ln Φ(x) ≥ ln ½ for x ≥ 0, so that the root is below √(2·(target + ln 2)).
    let high = (2.0 * (target + std::f64::consts::LN_2)).max(0.0).sqrt();
    Some(total.sqrt() * halved(-30.0, high + 1e-9, below))
}

/// The shape of a polynomial stitched bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stitching {
    /// Variance from which on the bound holds; before, it stays at its value there. Positive.
    pub v_min: f64,
    /// Scale of sub-gamma tails, 0 for sub-Gaussian terms. Not negative.
    pub c: f64,
    /// Exponent of the spending over epochs, above 1: 1.4 is usual.
    pub s: f64,
    /// Ratio of the lengths of successive epochs, above 1: 2 is usual.
    pub eta: f64,
}

impl Stitching {
    /// The bound at variance process `v`: a sum stays below it at all times with chance 1 − alpha.
    ///
    /// With ℓ = s·ln ln(ηv/v_min) + ln(ζ(s)/(α·(ln η)^s)), k₁ = (η^¼ + η^−¼)/√2 and k₂ = (√η + 1)/2 it
    /// is √(k₁²·v·ℓ + k₂²·c²·ℓ²) + k₂·c·ℓ. `None` for parameters out of range. Source: HRMS, theorem 1
    /// and equation (10).
    #[must_use]
    pub fn bound(&self, v: f64, alpha: f64) -> Option<f64> {
        let Self { v_min, c, s, eta } = *self;
        let sensible = v >= 0.0
            && v.is_finite()
            && v_min > 0.0
            && v_min.is_finite()
            && c >= 0.0
            && c.is_finite()
            && s > 1.0
            && s.is_finite()
            && eta > 1.0
            && eta.is_finite()
            && is_level(alpha);
        if !sensible {
            return None;
        }
        let v = v.max(v_min);
        let log_eta = libm::log(eta);
        let ell = s * libm::log(libm::log(v / v_min) + log_eta) + libm::log(zeta(s))
            - libm::log(alpha)
            - s * libm::log(log_eta);
        let k1 = (libm::pow(eta, 0.25) + libm::pow(eta, -0.25)) * std::f64::consts::FRAC_1_SQRT_2;
        let k2 = f64::midpoint(eta.sqrt(), 1.0) * c * ell;
        Some((k1 * k1 * v * ell + k2 * k2).sqrt() + k2)
    }
}

/// Riemann's ζ(s) for s > 1, by the Euler–Maclaurin formula after ten terms: better than 1e-14.
///
/// Source: H. M. Edwards, Riemann's Zeta Function (1974), section 6.4.
fn zeta(s: f64) -> f64 {
    const TERMS: i32 = 10;
    /// B₂ⱼ/(2j)! for j = 1, …, 6.
    const BERNOULLI: [f64; 6] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30_240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
    ];
    let n = f64::from(TERMS);
    let head: f64 = (1..TERMS).map(|k| libm::pow(f64::from(k), -s)).sum();
    let last = libm::pow(n, -s);
    let mut sum = head + last * n / (s - 1.0) + 0.5 * last;
    // s·(s + 1)·…·(s + 2j − 2)·n^(1 − s − 2j)
    let mut factor = s * last / n;
    for (j, bernoulli) in BERNOULLI.iter().enumerate() {
        sum += bernoulli * factor;
        let next = s + 2.0 * j as f64;
        factor *= (next + 1.0) * (next + 2.0) / (n * n);
    }
    sum
}

/// A confidence sequence for a share of hits: a beta-binomial mixture.
///
/// For each candidate share p a wealth is kept that is a fair game if p is the truth: the likelihood
/// of the data under a beta prior around p with c observations' weight, divided by that under p,
/// B(x + cp, n − x + c(1−p))/B(cp, c(1−p))/(pˣ(1−p)ⁿ⁻ˣ). The sequence is all p whose wealth is below
/// 1/α. c is chosen so that it is near its tightest at n = t_opt.
///
/// Source: HRMS, proposition 7 (beta-binomial mixture) with g = p, h = 1 − p.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BernoulliSequence {
    alpha: f64,
    weight: f64,
}

impl BernoulliSequence {
    /// The sequence of level 1 − `alpha`, near its tightest at `t_opt` observations when used at
    /// `alpha_opt`. `None` unless both lie in (0, 1) and t_opt is positive and finite.
    #[must_use]
    pub fn new(alpha: f64, t_opt: f64, alpha_opt: f64) -> Option<Self> {
        let rho = normal_mixture_rho(t_opt, alpha_opt)?;
        is_level(alpha).then(|| Self {
            alpha,
            weight: (rho - 1.0).max(1e-3),
        })
    }

    /// The chance that the truth is ever left out.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// ln of the wealth against the share `p`, 0 < p < 1, after `hits` in `n`. NaN otherwise.
    fn log_wealth(&self, hits: u64, n: u64, p: f64) -> f64 {
        if !(p > 0.0 && p < 1.0 && hits <= n) {
            return f64::NAN;
        }
        let (x, y) = (hits as f64, (n - hits) as f64);
        let (a, b) = (self.weight * p, self.weight * (1.0 - p));
        log_rising(a, x) + log_rising(b, y)
            - log_rising(self.weight, n as f64)
            - x * libm::log(p)
            - y * libm::log1p(-p)
    }

    /// The shares not excluded after `hits` in `n`. `None` when hits > n. Without observations: all.
    #[must_use]
    pub fn limits(&self, hits: u64, n: u64) -> Option<Limits> {
        if hits > n {
            return None;
        }
        if n == 0 {
            return Some(Limits {
                low: 0.0,
                high: 1.0,
            });
        }
        let observed = hits as f64 / n as f64;
        let threshold = -libm::log(self.alpha);
        // The wealth falls towards the observed share and rises beyond it. Ends that are not excluded
        // at the last float before them stay open.
        let out = |p: f64| self.log_wealth(hits, n, p) >= threshold;
        let low = if hits == 0 {
            0.0
        } else {
            halved(0.0, observed, |p| p == 0.0 || out(p))
        };
        let high = if hits == n {
            1.0
        } else {
            halved(observed, 1.0, |p| p < 1.0 && !out(p))
        };
        Some(Limits { low, high })
    }
}

/// ln Γ(a + k) − ln Γ(a): ln of the rising factorial.
fn log_rising(a: f64, k: f64) -> f64 {
    libm::lgamma(a + k) - libm::lgamma(a)
}

/// The same sequence as a test of one share, with no alternative to name: it ends when the share is
/// outside the limits.
///
/// Above the share it accepts H1 ("higher"), below H0 ("lower"). If the truth is the share itself, it
/// ends with chance α at most, ever; otherwise it ends for certain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BernoulliMixture {
    sequence: BernoulliSequence,
    share: f64,
}

impl BernoulliMixture {
    /// A test of `share`, strictly between 0 and 1, by a sequence. `None` for another share.
    #[must_use]
    pub fn new(sequence: BernoulliSequence, share: f64) -> Option<Self> {
        (share > 0.0 && share < 1.0).then_some(Self { sequence, share })
    }
}

impl StreamTest for BernoulliMixture {
    fn verdict(&self, hits: u64, n: u64) -> Verdict {
        let hits = hits.min(n);
        if n == 0 || self.sequence.log_wealth(hits, n, self.share) < -libm::log(self.sequence.alpha)
        {
            Verdict::Continue
        } else if hits as f64 > self.share * n as f64 {
            Verdict::AcceptH1
        } else {
            Verdict::AcceptH0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::operating_characteristics;
    use proptest::prelude::*;

    #[test]
    fn zeta_has_its_known_values() {
        let pi = std::f64::consts::PI;
        assert!((zeta(2.0) - pi * pi / 6.0).abs() < 1e-14);
        assert!((zeta(4.0) - pi.powi(4) / 90.0).abs() < 1e-14);
        // Apéry's constant, and the pole at 1: ζ(s) = 1/(s − 1) + γ + …
        assert!((zeta(3.0) - 1.202_056_903_159_594_2).abs() < 1e-14);
        let s = 1.0 + 1e-6;
        assert!((zeta(s) - 1.0 / (s - 1.0) - 0.577_215_664_9).abs() < 1e-6);
        assert_eq!(zeta(1e6), 1.0);
    }

    #[test]
    fn bounds_rise_with_variance_and_with_confidence() {
        let two = |v, alpha| normal_mixture_two_sided(v, alpha, 10.0, 0.05).unwrap();
        let one = |v, alpha| normal_mixture_one_sided(v, alpha, 10.0, 0.05).unwrap();
        let shape = Stitching {
            v_min: 1.0,
            c: 0.0,
            s: 1.4,
            eta: 2.0,
        };
        let stitched = |v, alpha| shape.bound(v, alpha).unwrap();
        for bound in [&two as &dyn Fn(f64, f64) -> f64, &one, &stitched] {
            let mut before = 0.0;
            for v in [1.0, 1.5, 10.0, 1e3, 1e6, 1e12] {
                let at = bound(v, 0.05);
                assert!(at > before && at.is_finite(), "{v}");
                assert!(bound(v, 0.01) > at, "{v}");
                // Never as tight as an interval for one time.
                assert!(at > 1.96 * f64::sqrt(v) || v < 1.0, "{v}");
                before = at;
            }
        }
        assert!(one(100.0, 0.05) < two(100.0, 0.05));
        // Sub-gamma tails widen it.
        let heavy = Stitching { c: 1.0, ..shape };
        assert!(heavy.bound(100.0, 0.05).unwrap() > stitched(100.0, 0.05));
        assert_eq!(stitched(0.0, 0.05), stitched(1.0, 0.05));
    }

    #[test]
    fn the_mixture_is_tightest_near_its_chosen_time() {
        // Against mixtures chosen for other times, at the time itself.
        let at = |v_opt| normal_mixture_two_sided(100.0, 0.05, v_opt, 0.05).unwrap();
        for other in [10.0, 50.0, 200.0, 1000.0] {
            assert!(at(100.0) < at(other), "{other}");
        }
    }

    #[test]
    fn nonsense_has_no_bound() {
        assert_eq!(normal_mixture_two_sided(-1.0, 0.05, 10.0, 0.05), None);
        assert_eq!(normal_mixture_two_sided(1.0, 1.0, 10.0, 0.05), None);
        assert_eq!(normal_mixture_two_sided(1.0, 0.05, 0.0, 0.05), None);
        assert_eq!(normal_mixture_one_sided(1.0, 0.05, 10.0, 0.5), None);
        assert_eq!(normal_mixture_one_sided(f64::NAN, 0.05, 10.0, 0.05), None);
        let shape = Stitching {
            v_min: 1.0,
            c: 0.0,
            s: 1.0,
            eta: 2.0,
        };
        assert_eq!(shape.bound(10.0, 0.05), None);
        assert_eq!(BernoulliSequence::new(0.0, 100.0, 0.05), None);
        assert_eq!(BernoulliSequence::new(0.05, f64::INFINITY, 0.05), None);
        let sequence = BernoulliSequence::new(0.05, 100.0, 0.05).unwrap();
        assert_eq!(sequence.limits(3, 2), None);
        for share in [0.0, 1.0, f64::NAN] {
            assert_eq!(BernoulliMixture::new(sequence, share), None);
        }
    }

    #[test]
    fn extreme_shares_have_finite_limits() {
        let sequence = BernoulliSequence::new(0.05, 100.0, 0.05).unwrap();
        assert_eq!(
            sequence.limits(0, 0),
            Some(Limits {
                low: 0.0,
                high: 1.0
            })
        );
        for n in [1, 2, 1000, 1_000_000] {
            let none = sequence.limits(0, n).unwrap();
            let all = sequence.limits(n, n).unwrap();
            assert!(
                none.low == 0.0 && none.high > 0.0 && none.high <= 1.0,
                "{n} {none:?}"
            );
            assert!(
                all.high == 1.0 && (all.low - (1.0 - none.high)).abs() < 1e-8,
                "{n} {all:?}"
            );
        }
        let half = sequence.limits(500_000, 1_000_000).unwrap();
        assert!(half.low > 0.4975 && half.high < 0.5025, "{half:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_wealth_against_the_truth_is_a_fair_game(
            p in 0.001_f64..0.999, n in 1_u64..60, t_opt in 1.0_f64..1000.0,
        ) {
            let sequence = BernoulliSequence::new(0.05, t_opt, 0.05).unwrap();
            let mut chance = (1.0 - p).powi(n as i32);
            let mut sum = 0.0;
            for hits in 0..=n {
                sum += chance * sequence.log_wealth(hits, n, p).exp();
                chance *= (n - hits) as f64 / (hits + 1) as f64 * p / (1.0 - p);
            }
            prop_assert!((sum - 1.0).abs() < 1e-9, "{}", sum);
        }

        #[test]
        fn the_test_ends_where_the_limits_leave_the_share(
            n in 1_u64..500, hits in 0_u64..500, share in 0.01_f64..0.99,
        ) {
            let hits = hits.min(n);
            let sequence = BernoulliSequence::new(0.05, 100.0, 0.05).unwrap();
            let limits = sequence.limits(hits, n).unwrap();
            prop_assert!(limits.low <= hits as f64 / n as f64 && hits as f64 / n as f64 <= limits.high);
            prop_assume!((limits.low - share).abs() > 1e-9 && (limits.high - share).abs() > 1e-9);
            let verdict = BernoulliMixture::new(sequence, share).unwrap().verdict(hits, n);
            let expected = if share < limits.low {
                Verdict::AcceptH1
            } else if share > limits.high {
                Verdict::AcceptH0
            } else {
                Verdict::Continue
            };
            prop_assert_eq!(verdict, expected);
        }

        #[test]
        fn the_truth_is_left_out_less_often_than_alpha_over_all_times(
            p in 0.02_f64..0.98, alpha in 0.01_f64..0.3,
        ) {
            let sequence = BernoulliSequence::new(alpha, 50.0, alpha).unwrap();
            let test = BernoulliMixture::new(sequence, p).unwrap();
            let found = operating_characteristics(&test, p, Some(400)).unwrap();
            prop_assert!(found.accept_h1 + found.accept_h0 <= alpha, "{:?}", found);
            // Away from the truth it ends, on the right side.
            let far = operating_characteristics(&test, p / 8.0, Some(4000)).unwrap();
            prop_assert!(far.accept_h1 <= alpha);
            prop_assert!(far.accept_h0 > 0.5);
        }
    }
}
