//! How two routes' errors hang together: the 2×2 table of right and wrong answers on one request.
//!
//! Each route has its own probability of being right. What ties the routes is one parameter ρ in
//! [0, 1] and a family: ρ = 0 is independence, and at ρ = 1 the better route is right whenever the
//! worse one is (comonotone). Neither family touches the marginals. What this is not: an estimate of ρ
//! from data.

use std::sync::OnceLock;

use super::promotion::Joint;
use super::quadrature::Legendre;

/// A family of dependence with one parameter ρ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copula {
    /// With probability ρ all routes share one uniform, else each has its own: a mixture of the
    /// independent copula and the upper Fréchet bound (Fréchet 1951; Nelsen, An Introduction to
    /// Copulas, 2nd ed., 2006, section 2.2 and exercise 2.4). P(both) = ρ·min(p, q) + (1 − ρ)·p·q;
    /// everything that follows is linear in ρ. This is how synthetic worlds are drawn.
    #[default]
    Frechet,
    /// One Gaussian factor W: route m's Z = √ρ·W + √(1 − ρ)·ε, right iff Φ(Z) < p (Vasicek, Risk 15(12),
    /// 2002, uses it for loans). P(both) = ∫ φ(w)·Φ((Φ⁻¹(p) − √ρ·w)/√(1 − ρ))·Φ((Φ⁻¹(q) − √ρ·w)/√(1 − ρ)) dw,
    /// a bivariate normal probability with correlation ρ. 400 Legendre nodes on [−9.5, 9.5] leave an
    /// error of 5e-14 for ρ ≤ 0.95; between 0.95 and 1 it grows, and at 1 the limit min(p, q) is taken.
    Gaussian,
}

impl Copula {
    /// P(both right) for marginals `p` and `q`. `None` unless all three numbers lie in [0, 1].
    #[must_use]
    pub fn both(self, p: f64, q: f64, rho: f64) -> Option<f64> {
        let mut both = 0.0;
        self.states(&[p, q], rho, &mut |weight, given| {
            both += weight * given[0] * given[1];
        })
        .then_some(both)
    }

    /// The 2×2 table for marginals `candidate` and `primary`. `None` unless all numbers lie in [0, 1].
    #[must_use]
    pub fn joint(self, candidate: f64, primary: f64, rho: f64) -> Option<Joint> {
        let both = self.both(candidate, primary, rho)?;
        // Of a difference that ought to be zero, a rounding may be left.
        let cell = |value: f64| value.max(0.0);
        Joint::new(
            both,
            cell(candidate - both),
            cell(primary - both),
            cell(1.0 - candidate - primary + both),
        )
    }

    /// Takes the dependence apart: calls `visit` with states that have weights adding up to one, and in
    /// each of which the routes are independent with the probabilities given. So whatever is known for
    /// independent routes, a cascade for one, is known under the copula as the weighted mean.
    ///
    /// Returns whether `right` and `rho` lie in [0, 1]; if not, nothing is visited.
    pub fn states(self, right: &[f64], rho: f64, visit: &mut dyn FnMut(f64, &[f64])) -> bool {
        let unit = |value: &f64| (0.0..=1.0).contains(value);
        if !unit(&rho) || !right.iter().all(unit) {
            return false;
        }
        match self {
            _ if rho == 0.0 => visit(1.0, right),
            Self::Frechet => {
                if rho < 1.0 {
                    visit(1.0 - rho, right);
                }
                comonotone(right, rho, visit);
            }
            Self::Gaussian if rho == 1.0 => comonotone(right, 1.0, visit),
            Self::Gaussian => gaussian(right, rho, visit),
        }
        true
    }
}

/// One uniform for all routes: between two neighbouring probabilities the set of right routes is fixed.
fn comonotone(right: &[f64], weight: f64, visit: &mut dyn FnMut(f64, &[f64])) {
    let mut ends: Vec<f64> = right.to_vec();
    ends.push(1.0);
    ends.sort_by(f64::total_cmp);
    let mut given = vec![0.0; right.len()];
    let mut start = 0.0;
    for end in ends {
        if end > start {
            for (given, p) in given.iter_mut().zip(right) {
                *given = if *p >= end { 1.0 } else { 0.0 };
            }
            visit(weight * (end - start), &given);
            start = end;
        }
    }
}

/// Where the normal density is taken to end: beyond, it weighs 2e-21.
const FACTOR_MAX: f64 = 9.5;
/// Nodes for the factor.
const FACTOR_NODES: usize = 400;

fn gaussian(right: &[f64], rho: f64, visit: &mut dyn FnMut(f64, &[f64])) {
    static RULE: OnceLock<Vec<(f64, f64)>> = OnceLock::new();
    let rule = RULE.get_or_init(|| {
        let density = |w: f64| libm::exp(-0.5 * w * w) / (2.0 * std::f64::consts::PI).sqrt();
        Legendre::new(FACTOR_NODES)
            .on(-FACTOR_MAX, FACTOR_MAX)
            .map(|(w, weight)| (w, weight * density(w)))
            .collect()
    });
    let quantiles: Vec<f64> = right.iter().map(|p| normal_quantile(*p)).collect();
    let (pull, spread) = (rho.sqrt(), (1.0 - rho).sqrt());
    let mut given = vec![0.0; right.len()];
    for &(w, weight) in rule {
        for (given, quantile) in given.iter_mut().zip(&quantiles) {
            *given = normal_cdf((quantile - pull * w) / spread);
        }
        visit(weight, &given);
    }
}

/// Φ(z).
fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// Φ⁻¹(p): infinite at 0 and 1. Newton's method on ln Φ in the smaller tail. It is concave, so
/// the search falls to the root from the right without passing it; it starts at the z at which the bound
/// P(Z > z) ≤ ½e^(−z²/2) reaches the tail. The relative error is about 1e-15.
fn normal_quantile(p: f64) -> f64 {
    let tail = p.min(1.0 - p);
    if tail <= 0.0 {
        return if p < 0.5 {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    let mut z = (-2.0 * libm::log(2.0 * tail)).max(0.0).sqrt();
    for _ in 0..60 {
        let below = normal_cdf(-z);
        let density = libm::exp(-0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt();
        let step = libm::log(below / tail) * below / density;
        z += step;
        if step.abs() <= 1e-15 * (1.0 + z) {
            break;
        }
    }
    if p < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAMILIES: [Copula; 2] = [Copula::Frechet, Copula::Gaussian];

    #[test]
    fn normal_quantiles_invert_the_distribution_function() {
        for exponent in 1..=300 {
            let p = libm::exp2(-f64::from(exponent));
            let z = normal_quantile(p);
            assert!(
                (normal_cdf(z) / p - 1.0).abs() < 1e-13 * (1.0 + z * z),
                "{p:e}"
            );
        }
        // Percentage points as any table of the normal distribution prints them.
        for (p, z) in [
            (0.975, 1.959_963_985),
            (0.995, 2.575_829_304),
            (0.000_1, -3.719_016_485),
            (1e-9, -5.997_807_015),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-9, "{p}");
        }
        assert_eq!(normal_quantile(0.25), -normal_quantile(0.75));
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
    }

    #[test]
    fn a_gaussian_pair_at_the_median_is_the_orthant_probability() {
        // Sheppard 1899: P(both below the median) = 1/4 + asin(ρ)/2π.
        for rho in [0.1, 0.25, 0.5, 0.9, 0.95] {
            let both = Copula::Gaussian.both(0.5, 0.5, rho).unwrap();
            let want = 0.25 + libm::asin(rho) / (2.0 * std::f64::consts::PI);
            assert!(
                (both - want).abs() < 1e-13,
                "{rho}: {both} instead of {want}"
            );
        }
    }

    #[test]
    fn numbers_that_are_no_probabilities_have_no_table() {
        for family in FAMILIES {
            for (p, q, rho) in [
                (-0.1, 0.5, 0.5),
                (0.5, 1.1, 0.5),
                (0.5, 0.5, f64::NAN),
                (0.5, 0.5, 2.0),
            ] {
                assert_eq!(family.joint(p, q, rho), None);
            }
        }
    }

    proptest! {
        #[test]
        fn marginals_stay_and_the_table_lies_between_independence_and_the_bound(
            p in 0.0..=1.0_f64, q in 0.0..=1.0_f64, rho in prop_oneof![Just(0.0), Just(1.0), 0.0..0.95_f64],
        ) {
            for family in FAMILIES {
                let joint = family.joint(p, q, rho).unwrap();
                prop_assert!((joint.p11() + joint.p10() - p).abs() < 1e-12);
                prop_assert!((joint.p11() + joint.p01() - q).abs() < 1e-12);
                prop_assert!((joint.p11() + joint.disagreement() + joint.p00() - 1.0).abs() < 1e-12);
                prop_assert!(joint.p11() >= p * q - 1e-12 && joint.p11() <= p.min(q) + 1e-12);
                if rho == 1.0 {
                    prop_assert!((joint.p11() - p.min(q)).abs() < 1e-15);
                }
            }
        }

        #[test]
        fn states_average_to_the_marginals_of_any_number_of_routes(
            right in prop::collection::vec(0.0..=1.0_f64, 1..5), rho in 0.0..0.95_f64,
        ) {
            for family in FAMILIES {
                let (mut total, mut means) = (0.0, vec![0.0; right.len()]);
                let sound = family.states(&right, rho, &mut |weight, given| {
                    total += weight;
                    for (mean, given) in means.iter_mut().zip(given) {
                        *mean += weight * given;
                    }
                });
                prop_assert!(sound && (total - 1.0).abs() < 1e-12);
                for (mean, p) in means.iter().zip(&right) {
                    prop_assert!((mean - p).abs() < 1e-12, "{} instead of {}", mean, p);
                }
            }
        }
    }
}
