//! The distributions that a synthetic world's file declares, as laws rather than as tables.
//!
//! A [`Variate`] turns a lane into a draw and keeps no more than it needs for that. A law keeps what was
//! declared: it can be compiled into a variate, and expectations under it can be computed without a draw.

use super::quantile::{NORMAL_95, Table, Twin, Variate};
use super::synthetic::Difficulty;
use crate::stats::Legendre;

/// Largest slope for which e^(slope·difficulty) comes from a table: beyond, the table would lose digits.
const TABLE_SLOPE_MAX: f64 = 10.0;

/// How difficult the requests of a task are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DifficultyLaw {
    /// Beta with shapes in `SHAPE_MIN..=SHAPE_MAX`.
    Beta {
        /// First shape.
        a: f64,
        /// Second shape.
        b: f64,
    },
    /// Evenly between two numbers.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Always this.
    Fixed(f64),
}

impl DifficultyLaw {
    /// What draws it, with e^(slope·difficulty).
    pub(crate) fn compile(self, slope: f64) -> Difficulty {
        match self {
            Self::Beta { a, b } => {
                let value = Table::beta(a, b);
                // Of the same shapes, so they have the same cells.
                let twin = (slope <= TABLE_SLOPE_MAX)
                    .then(|| Twin::new(&value, &Table::beta_odds(a, b, slope)))
                    .flatten();
                match twin {
                    Some(tables) => Difficulty::Tables(tables),
                    None => Difficulty::Drawn(Variate::Table(value)),
                }
            }
            Self::Uniform { low, high } => Difficulty::Drawn(Variate::Uniform {
                low,
                width: high - low,
            }),
            Self::Fixed(value) => Difficulty::Drawn(Variate::Fixed(value)),
        }
    }

    /// Difficulties and weights (which add up to one) such that Σ weight·f(difficulty) is the mean of f,
    /// for every f made of logistic curves 1/(1 + e^(slope·(d − skill))) by sums and products. The
    /// error is below 1e-13 for every law, slope and skill that a file can ask for.
    ///
    /// Beta: with d = 1/(1 + e^−y) the density over y is d^a·(1 − d)^b/B(a, b), which dies out
    /// exponentially on both sides, so the trapezoidal rule converges geometrically, also where the
    /// density over d is infinite at an end (Trefethen & Weideman, SIAM Review 56, 2014, section 5).
    /// Its step follows from the distance of the nearest pole, 2·atan(2π/slope), from the skew and from the width.
    /// Uniform: 64 Gauss–Legendre nodes for each stretch on which the curve turns by at most 10.
    pub(crate) fn nodes(self, slope: f64) -> Vec<(f64, f64)> {
        match self {
            Self::Fixed(value) => vec![(value, 1.0)],
            Self::Uniform { low, high } if high <= low => vec![(low, 1.0)],
            Self::Uniform { low, high } => {
                let pieces = ((high - low) * slope / 10.0).ceil().max(1.0);
                let width = (high - low) / pieces;
                (0..pieces as usize)
                    .flat_map(|piece| {
                        let start = low + width * piece as f64;
                        Legendre::standard().on(start, start + width)
                    })
                    .map(|(value, weight)| (value, weight / (high - low)))
                    .collect()
            }
            Self::Beta { a, b } => beta_nodes(a, b, slope),
        }
    }
}

/// See [`DifficultyLaw::nodes`].
fn beta_nodes(a: f64, b: f64, slope: f64) -> Vec<(f64, f64)> {
    /// ln of the error that the step leaves, of the order of 1e-21.
    const DIGITS: f64 = 49.0;
    /// ln of the density below which the tails are cut, relative to the mode.
    const CUT: f64 = -44.0;
    let pi = std::f64::consts::PI;
    // Of a skewed density the transform decays like that of a log-gamma law, e^(−πω/2).
    let pole = (2.0 * libm::atan(2.0 * pi / slope)).min(0.5 * pi);
    let width = (1.0 / a + 1.0 / b).sqrt();
    let step = (2.0 * pi * pole / DIGITS).min(width * pi * (2.0 / DIGITS).sqrt());
    // ln(1 + e^y) without overflow.
    let soft = |y: f64| y.max(0.0) + libm::log1p(libm::exp(-y.abs()));
    let log_density = |y: f64| -a * soft(-y) - b * soft(y);
    let mode = libm::log(a / b);
    let top = log_density(mode);
    let side = |direction: f64, from: u32| {
        (from..)
            .map(move |k| mode + direction * step * f64::from(k))
            .map(|y| (y, log_density(y) - top))
            .take_while(|(_, log)| *log > CUT)
            .map(|(y, log)| (1.0 / (1.0 + libm::exp(-y)), libm::exp(log)))
            .collect::<Vec<_>>()
    };
    let mut nodes = side(-1.0, 1);
    nodes.reverse();
    nodes.extend(side(1.0, 0));
    // The constant 1/B(a, b) is integrated by the same rule, so that the weights add up to one.
    let total: f64 = nodes.iter().map(|(_, weight)| weight).sum();
    for (_, weight) in &mut nodes {
        *weight /= total;
    }
    nodes
}

/// How many tokens a prompt or an answer has. Draws are rounded to whole tokens, half up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenLaw {
    /// Always this.
    Fixed(f64),
    /// Evenly between two numbers.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Lognormal by its median and its 95th percentile, which is larger.
    Lognormal {
        /// Median.
        p50: f64,
        /// 95th percentile.
        p95: f64,
    },
    /// One of several, by weights that add up to one.
    Mixture(Vec<(f64, TokenLaw)>),
}

impl TokenLaw {
    /// What draws it.
    pub(crate) fn variate(&self) -> Variate {
        match self {
            Self::Fixed(value) => Variate::Fixed(*value),
            Self::Uniform { low, high } => Variate::Uniform {
                low: *low,
                width: high - low,
            },
            Self::Lognormal { p50, p95 } => Variate::Table(Table::lognormal(*p50, *p95)),
            Self::Mixture(parts) => Variate::mixture(
                parts
                    .iter()
                    .map(|(weight, part)| (*weight, part.variate()))
                    .collect(),
            ),
        }
    }

    /// P(tokens ≤ `most`) and E[tokens; tokens ≤ `most`]; everything for `None`.
    ///
    /// Exact for fixed numbers, uniform laws and mixtures of them. A lognormal law is summed token by
    /// token up to 4,096 and beyond as the continuous law, E[X; X ≤ x] = e^(μ + σ²/2)·Φ((ln x − μ)/σ − σ)
    /// (Johnson, Kotz & Balakrishnan, Continuous Univariate Distributions 1, 1994, chapter 14): without
    /// rounding to whole tokens, which matters only if nearly all lie within a few tokens of each other.
    pub(crate) fn up_to(&self, most: Option<u32>) -> (f64, f64) {
        // Rounded, X is at most `most` iff it is below this.
        let end = most.map_or(f64::INFINITY, |most| f64::from(most) + 0.5);
        match self {
            Self::Fixed(value) => fixed_up_to(*value, end),
            Self::Uniform { low, high } if high <= low => fixed_up_to(*low, end),
            Self::Uniform { low, high } => uniform_up_to(*low, *high, end),
            Self::Lognormal { p50, p95 } => lognormal_up_to(*p50, *p95, end),
            Self::Mixture(parts) => parts
                .iter()
                .fold((0.0, 0.0), |(mass, sum), (weight, part)| {
                    let (more, tokens) = part.up_to(most);
                    (mass + weight * more, sum + weight * tokens)
                }),
        }
    }

    /// E[min(tokens, `cap`)].
    pub(crate) fn mean_capped(&self, cap: Option<u32>) -> f64 {
        let (mass, sum) = self.up_to(cap);
        let cut = cap.map_or(0.0, |cap| f64::from(cap) * (1.0 - mass).max(0.0));
        sum + cut
    }
}

fn fixed_up_to(value: f64, end: f64) -> (f64, f64) {
    if value < end {
        (1.0, (value + 0.5).floor())
    } else {
        (0.0, 0.0)
    }
}

fn uniform_up_to(low: f64, high: f64, end: f64) -> (f64, f64) {
    let end = end.clamp(low, high);
    // Relative to a whole number near by, so that large numbers lose no digits.
    let base = low.floor();
    // ∫ floor(t + ½) dt from 0 to x.
    let rounded = |x: f64| {
        let steps = (x + 0.5).floor();
        0.5 * steps * (steps - 1.0) + steps * (x - steps + 0.5)
    };
    let mass = (end - low) / (high - low);
    let above = (rounded(end - base) - rounded(low - base)) / (high - low);
    (mass, base * mass + above)
}

fn lognormal_up_to(p50: f64, p95: f64, end: f64) -> (f64, f64) {
    /// Tokens up to which rounding is followed.
    const WHOLE_MAX: u32 = 4_096;
    let (mu, sigma) = (libm::log(p50), libm::log(p95 / p50) / NORMAL_95);
    let score = |x: f64| (libm::log(x) - mu) / sigma;
    let below = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let mut sum = 0.0;
    let mut before = below(score(0.5_f64.min(end)));
    let mut start = 0.5;
    for tokens in 1..=WHOLE_MAX {
        if start >= end {
            return (before, sum);
        }
        start = f64::from(tokens) + 0.5;
        let now = below(score(start));
        sum += f64::from(tokens) * (now - before);
        before = now;
    }
    if start < end {
        let mean = libm::exp(mu + 0.5 * sigma * sigma);
        sum += mean * (below(score(end) - sigma) - below(score(start) - sigma));
    }
    (below(score(end)), sum)
}

#[cfg(test)]
mod tests {
    use super::super::quantile::{SHAPE_MAX, SHAPE_MIN};
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{Beta, Continuous as _};

    fn mean(law: DifficultyLaw, slope: f64, f: impl Fn(f64) -> f64) -> f64 {
        law.nodes(slope)
            .iter()
            .map(|(d, weight)| weight * f(*d))
            .sum()
    }

    /// Moments of a Beta law have closed forms whatever the shapes: E[X] and E[X²].
    #[test]
    fn beta_nodes_have_the_moments_of_the_law_for_every_shape() {
        let shapes = [SHAPE_MIN, 0.3, 1.0, 2.0, 5.5, 40.0, SHAPE_MAX];
        for a in shapes {
            for b in shapes {
                for slope in [0.01, 10.0, 100.0] {
                    let law = DifficultyLaw::Beta { a, b };
                    let (m1, m2) = (a / (a + b), a * (a + 1.0) / ((a + b) * (a + b + 1.0)));
                    let got = (mean(law, slope, |d| d), mean(law, slope, |d| d * d));
                    assert!((got.0 - m1).abs() < 1e-13, "{a} {b} {slope}: {got:?}");
                    assert!((got.1 - m2).abs() < 1e-13, "{a} {b} {slope}: {got:?}");
                }
            }
        }
    }

    #[test]
    fn steep_curves_over_smooth_densities_agree_with_many_legendre_nodes() {
        for (a, b) in [(2.0, 5.0), (1.0, 1.0), (4.0, 3.0), (60.0, 90.0)] {
            let law = Beta::new(a, b).unwrap();
            for slope in [1.0, 10.0, 100.0] {
                for skill in [-0.3, 0.1, 0.5, 0.77, 1.4] {
                    let right = |d: f64| 1.0 / (1.0 + libm::exp(slope * (d - skill)));
                    let got = mean(DifficultyLaw::Beta { a, b }, slope, right);
                    // Fifty pieces, none of which a pole comes near to.
                    let want: f64 = (0..50)
                        .map(|piece| {
                            let low = f64::from(piece) / 50.0;
                            Legendre::standard()
                                .integrate(low, low + 0.02, |d| law.pdf(d) * right(d))
                        })
                        .sum();
                    assert!(
                        (got - want).abs() < 1e-13,
                        "{a} {b} {slope} {skill}: {got} {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn uniform_and_fixed_laws_have_their_closed_forms() {
        for slope in [0.01, 8.0, 100.0] {
            let (low, high, skill) = (0.2, 0.9, 0.6);
            let right = |d: f64| 1.0 / (1.0 + libm::exp(slope * (d - skill)));
            // ∫ 1/(1 + e^x) dx = −ln(1 + e^−x).
            let soft = |d: f64| -libm::log1p(libm::exp(-slope * (d - skill))) / slope;
            let want = (soft(high) - soft(low)) / (high - low);
            let got = mean(DifficultyLaw::Uniform { low, high }, slope, right);
            assert!((got - want).abs() < 1e-13, "{slope}: {got} {want}");
            assert_eq!(mean(DifficultyLaw::Fixed(0.4), slope, right), right(0.4));
            let point = DifficultyLaw::Uniform { low, high: low };
            assert_eq!(mean(point, slope, right), right(low));
        }
    }

    /// Mean and share of the draws that are at most `most`, over evenly spread lanes.
    fn drawn(law: &TokenLaw, most: u32) -> (f64, f64) {
        const LANES: u32 = 1 << 20;
        let variate = law.variate();
        let (mut count, mut sum) = (0.0, 0.0);
        for i in 0..LANES {
            let tokens = (variate.at((i << 12) | 1 << 11) + 0.5).floor();
            if tokens <= f64::from(most) {
                count += 1.0;
                sum += tokens;
            }
        }
        (count / f64::from(LANES), sum / f64::from(LANES))
    }

    #[test]
    fn token_laws_expect_what_their_variates_draw() {
        let laws = [
            TokenLaw::Fixed(120.0),
            TokenLaw::Fixed(2.5),
            TokenLaw::Uniform {
                low: 100.0,
                high: 900.0,
            },
            TokenLaw::Uniform {
                low: 3.2,
                high: 3.9,
            },
            TokenLaw::Lognormal {
                p50: 600.0,
                p95: 4_000.0,
            },
            TokenLaw::Lognormal { p50: 2.0, p95: 5.0 },
            TokenLaw::Mixture(vec![
                (0.75, TokenLaw::Fixed(2_500.0)),
                (
                    0.25,
                    TokenLaw::Lognormal {
                        p50: 3_000.0,
                        p95: 12_000.0,
                    },
                ),
            ]),
        ];
        for law in &laws {
            for most in [0, 3, 4, 120, 599, 2_500, 9_000, 10_000_000] {
                let (mass, sum) = law.up_to(Some(most));
                let (share, total) = drawn(law, most);
                assert!(
                    (mass - share).abs() < 3e-6,
                    "{law:?} {most}: {mass} {share}"
                );
                assert!(
                    (sum - total).abs() < 3e-4 * (1.0 + total),
                    "{law:?} {most}: {sum} {total}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn expectations_rise_with_the_cap_and_end_at_the_mean(
            low in 0.0..1e9_f64, width in 0.0..1e9_f64, p50 in 1e-3..1e6_f64, ratio in 1.0001..1e4_f64, caps in prop::collection::vec(any::<u32>(), 2..6),
        ) {
            let law = TokenLaw::Mixture(vec![
                (0.25, TokenLaw::Uniform { low, high: low + width }),
                (0.75, TokenLaw::Lognormal { p50, p95: p50 * ratio }),
            ]);
            let mut caps = caps;
            caps.sort_unstable();
            let whole = law.up_to(None);
            prop_assert!((whole.0 - 1.0).abs() < 1e-12);
            let mut before = (0.0, 0.0, 0.0);
            for cap in caps {
                let (mass, sum) = law.up_to(Some(cap));
                let mean = law.mean_capped(Some(cap));
                let slack = 1e-9 * (1.0 + whole.1);
                prop_assert!(mass >= before.0 - 1e-12 && mass <= 1.0 + 1e-12);
                prop_assert!(sum >= before.1 - slack && sum <= whole.1 + slack);
                prop_assert!(mean >= before.2 - slack && mean <= f64::from(cap) + slack);
                before = (mass, sum, mean);
            }
        }
    }
}
