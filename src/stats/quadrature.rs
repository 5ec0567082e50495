//! Integrals of smooth functions by Gauss–Legendre quadrature.
//!
//! n nodes integrate polynomials of degree 2n − 1 exactly; for a function that is analytic around the
//! interval the error falls geometrically with n (Trefethen, "Is Gauss quadrature better than
//! Clenshaw–Curtis?", SIAM Review 50, 2008). Nodes and weights are computed here with `libm` alone, so
//! that every machine integrates to the same bits. Not meant for integrands with kinks or poles in the
//! interval: cut the interval there.

use std::sync::OnceLock;

/// Nodes and weights on [0, 1].
#[derive(Clone, Debug, PartialEq)]
pub struct Legendre {
    nodes: Vec<f64>,
    weights: Vec<f64>,
}

impl Legendre {
    /// Nodes of [`Legendre::standard`].
    pub const STANDARD: usize = 64;

    /// The rule with `count` nodes (at least one: zero is taken as one).
    ///
    /// The nodes are the zeros of the Legendre polynomial Pₙ moved from [−1, 1], found by Newton's method
    /// from Tricomi's approximation cos(π(i − ¼)/(n + ½)); the weights are 2/((1 − x²)Pₙ′(x)²) (Davis &
    /// Rabinowitz, Methods of Numerical Integration, 2nd ed., 1984, section 2.7). Checked up to 1,000 nodes.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let count = count.max(1);
        let mut nodes = vec![0.5; count];
        let mut weights = vec![1.0; count];
        for i in 0..count.div_ceil(2) {
            let angle = std::f64::consts::PI * (i as f64 + 0.75) / (count as f64 + 0.5);
            let mut x = libm::cos(angle);
            for _ in 0..20 {
                let (value, slope) = legendre(count, x);
                let step = value / slope;
                x -= step;
                if step.abs() <= 1e-16 {
                    break;
                }
            }
            if 2 * i + 1 == count {
                // The middle zero of an odd polynomial.
                x = 0.0;
            }
            let (_, slope) = legendre(count, x);
            let weight = 1.0 / ((1.0 - x * x) * slope * slope);
            let mirror = count - 1 - i;
            (nodes[mirror], weights[mirror]) = (0.5 + 0.5 * x, weight);
            (nodes[i], weights[i]) = (0.5 - 0.5 * x, weight);
        }
        Self { nodes, weights }
    }

    /// The rule with 64 nodes, computed once: enough for 1e-15 wherever the nearest pole is at least a
    /// third of the interval's length away.
    #[must_use]
    pub fn standard() -> &'static Self {
        static STANDARD: OnceLock<Legendre> = OnceLock::new();
        STANDARD.get_or_init(|| Self::new(Self::STANDARD))
    }

    /// Nodes in [`low`, `high`] with their weights, which add up to `high − low`.
    pub fn on(&self, low: f64, high: f64) -> impl Iterator<Item = (f64, f64)> + Clone + '_ {
        let width = high - low;
        self.nodes
            .iter()
            .zip(&self.weights)
            .map(move |(node, weight)| (low + width * node, width * weight))
    }

    /// ∫ `f` from `low` to `high`.
    #[must_use]
    pub fn integrate(&self, low: f64, high: f64, mut f: impl FnMut(f64) -> f64) -> f64 {
        self.on(low, high).map(|(x, weight)| weight * f(x)).sum()
    }
}

/// Pₙ(x) and its derivative, by the three-term recurrence; `n` ≥ 1 and |x| < 1.
fn legendre(n: usize, x: f64) -> (f64, f64) {
    let (mut before, mut value) = (1.0, x);
    for k in 2..=n {
        let k = k as f64;
        (before, value) = (
            value,
            ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k,
        );
    }
    let slope = n as f64 * (x * value - before) / (x * x - 1.0);
    (value, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_rules_are_the_printed_ones() {
        // Abramowitz & Stegun, table 25.4, moved to [0, 1].
        let two = Legendre::new(2);
        assert!((two.nodes[0] - (0.5 - 0.5 / 3.0_f64.sqrt())).abs() < 1e-15);
        assert!((two.weights[0] - 0.5).abs() < 1e-15);
        let three = Legendre::new(3);
        assert_eq!(three.nodes[1], 0.5);
        assert!((three.nodes[2] - (0.5 + 0.5 * 0.6_f64.sqrt())).abs() < 1e-15);
        assert!((three.weights[1] - 4.0 / 9.0).abs() < 1e-15);
        assert_eq!(Legendre::new(0), Legendre::new(1));
    }

    #[test]
    fn n_nodes_integrate_polynomials_of_degree_2n_minus_1_exactly() {
        for count in [1, 2, 3, 7, 16, 64, 160, 400, 1_000] {
            let rule = Legendre::new(count);
            assert!(rule.nodes.is_sorted(), "{count}");
            let degree = (2 * count - 1).min(301) as i32;
            for power in [0, 1, degree / 2, degree] {
                let got = rule.integrate(0.0, 1.0, |x| x.powi(power));
                let want = 1.0 / f64::from(power + 1);
                assert!((got - want).abs() < 2e-15, "{count} {power}: {got}");
            }
        }
        // One degree more is not exact, or the test above would show nothing.
        let got = Legendre::new(3).integrate(0.0, 1.0, |x| x.powi(6));
        assert!((got - 1.0 / 7.0).abs() > 1e-5);
    }

    #[test]
    fn intervals_other_than_the_unit_one_are_scaled() {
        let got = Legendre::standard().integrate(-2.0, 3.0, libm::exp);
        assert!((got - (libm::exp(3.0) - libm::exp(-2.0))).abs() < 1e-14);
    }
}
