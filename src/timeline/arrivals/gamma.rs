//! Quantiles of the Gamma distribution, accurate in both tails and for shapes far below 1.
//!
//! Everything is done with ln x and logarithms of probabilities: at a shape of 0.0004 half of the
//! distribution lies below 10⁻⁷⁵⁰, where a 64-bit float ends. `libm` alone is used, so that every machine
//! gets the same bits; `statrs` is the independent check in the tests.

use crate::workload::quantile::within;

/// One tail of a Gamma distribution with scale 1, walked from wherever it was asked last.
#[derive(Clone, Debug)]
pub(super) struct Tail {
    shape: f64,
    /// ln Γ(shape).
    log_gamma: f64,
    upper: bool,
    /// ln of the last quantile, where the next search starts.
    last: f64,
}

impl Tail {
    /// The lower tail: v is P(X ≤ x).
    pub(super) fn lower(shape: f64) -> Self {
        Self {
            shape,
            log_gamma: libm::lgamma(shape),
            upper: false,
            last: libm::log(shape),
        }
    }

    /// The upper tail: v is P(X > x).
    pub(super) fn upper(shape: f64) -> Self {
        Self {
            upper: true,
            ..Self::lower(shape)
        }
    }

    /// ln x at tail probability `v`, and the derivative of ln x by v (negative in the upper tail):
    /// Newton's method on the logarithm of the probability, which is a concave function of ln x, kept inside
    /// a bracket and bisected where it leaves it.
    pub(super) fn node(&mut self, v: f64) -> (f64, f64) {
        let goal = libm::log(v);
        let bracket = (-1e6, libm::log(self.shape + 1.0) + 8.0);
        let start = self.last.clamp(bracket.0, bracket.1);
        let of = |log_x| self.log_tail(log_x);
        let (log_x, slope) = within(of, goal, bracket, start, !self.upper, 1e-2);
        self.last = log_x;
        (log_x, 1.0 / (v * slope))
    }

    /// ln of the tail's probability at ln x, and its derivative by ln x.
    fn log_tail(&self, log_x: f64) -> (f64, f64) {
        let a = self.shape;
        let x = libm::exp(log_x);
        // ln of x·density.
        let log_front = a * log_x - x - self.log_gamma;
        let (log_p, log_q) = if x < a + 1.0 {
            let log_p = log_front - libm::log(a) + libm::log(series(a, x));
            (log_p, libm::log(-libm::expm1(log_p.min(-1e-300))))
        } else {
            let log_q = log_front + libm::log(continued_fraction(a, x));
            (libm::log1p(-libm::exp(log_q)), log_q)
        };
        if self.upper {
            (log_q, -libm::exp(log_front - log_q))
        } else {
            (log_p, libm::exp(log_front - log_p))
        }
    }
}

/// Σ xⁿ/((a + 1)…(a + n)), the series of the incomplete gamma function (DLMF 8.11.4,
/// <https://dlmf.nist.gov/8.11>); converges fast for x < a + 1.
fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, a);
    for _ in 0..10_000 {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term <= sum * 1e-17 {
            break;
        }
    }
    sum
}

/// The continued fraction of the complementary incomplete gamma function (DLMF 8.9.2,
/// <https://dlmf.nist.gov/8.9>, in its even part), evaluated by the modified Lentz method; for x ≥ a + 1.
fn continued_fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / guard(b);
    let mut value = d;
    for n in 1..10_000 {
        let n = f64::from(n);
        let term = -n * (n - a);
        b += 2.0;
        d = 1.0 / guard(term * d + b);
        c = guard(b + term / c);
        let change = c * d;
        value *= change;
        if (change - 1.0).abs() <= 1e-16 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use statrs::function::gamma::{gamma_lr, gamma_ur};

    use super::*;

    #[test]
    fn quantiles_invert_the_incomplete_gamma_functions_of_statrs() {
        for shape in [0.02, 0.3, 1.0, 1.7, 12.0, 60.0, 401.0] {
            let (mut lower, mut upper) = (Tail::lower(shape), Tail::upper(shape));
            for exponent in 1..34 {
                let v = libm::exp2(-f64::from(exponent));
                let x = libm::exp(lower.node(v).0);
                if x > 1e-290 {
                    let back = gamma_lr(shape, x);
                    assert!((back / v - 1.0).abs() < 1e-9, "P: {shape} {v} {x} {back}");
                }
                let x = libm::exp(upper.node(v).0);
                if x > 1e-290 {
                    let back = gamma_ur(shape, x);
                    assert!((back / v - 1.0).abs() < 1e-9, "Q: {shape} {v} {x} {back}");
                }
            }
        }
    }

    #[test]
    fn the_slope_is_the_derivative() {
        for shape in [0.0004, 0.1, 1.0, 30.0] {
            for v in [0.5, 0.2, 1e-3, 1e-9] {
                for tail in [Tail::lower(shape), Tail::upper(shape)] {
                    let step = v * 1e-5;
                    let at = |v: f64| tail.clone().node(v).0;
                    let measured = (at(v + step) - at(v - step)) / (2.0 * step);
                    let (_, slope) = tail.clone().node(v);
                    assert!(
                        (measured / slope - 1.0).abs() < 1e-4,
                        "{shape} {v} {slope} {measured}"
                    );
                }
            }
        }
    }

    #[test]
    fn tiny_shapes_do_not_underflow_in_logarithms() {
        // Far below 1, P(X ≤ x) = x^a / Γ(a + 1).
        let shape = 0.0004;
        let (log_x, _) = Tail::lower(shape).node(0.25);
        let expected = (libm::log(0.25) + libm::lgamma(shape + 1.0)) / shape;
        assert!((log_x / expected - 1.0).abs() < 1e-12, "{log_x} {expected}");
        assert!(log_x < -3_000.0);
    }
}
