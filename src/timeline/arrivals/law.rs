//! How far one arrival is from the next, in operational time: gaps with mean 1.
//!
//! Operational time runs as fast as the rate of arrivals, so that one arrival is expected in a unit of
//! it. Renewals with a law of gaps there, mapped to real time through the cumulative rate, keep their
//! burstiness under any daily curve (Gerhardt & Nelson, "Transforming renewal processes for simulation of
//! nonstationary arrival processes", INFORMS J. Comput. 21, 2009).

use std::sync::Arc;

use super::gamma::Tail;
use crate::workload::draws::unit;
use crate::workload::quantile::Table;

/// Smallest coefficient of variation of gaps; for no variation there is [`Law::Even`].
pub(super) const CV_MIN: f64 = 0.05;
/// Largest coefficient of variation of gaps; 16 of the 5,445 windows of ServeGen's m-small have more. A
/// gap comes from one lane of 32 bits, so none is longer than the one that is exceeded with probability
/// 2⁻³³. That takes less than a thousandth from the coefficient of variation, and from that of Weibull gaps
/// at 50, where the tail is heaviest, six thousandths.
pub(super) const CV_MAX: f64 = 50.0;

/// log₂ of the cells in an octave of a table: relative errors below 10⁻⁶ of the mean.
pub(super) const CELL_BITS: u32 = 5;

/// Families of gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// Gamma: bursts without structure.
    Gamma,
    /// Weibull: with the same coefficient of variation, rarer and longer silences.
    Weibull,
}

/// A law of gaps with mean 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Law {
    /// Always 1.
    Even,
    /// Exponential: a Poisson process.
    Poisson,
    /// A family with a coefficient of variation.
    Spread(Arc<Spread>),
}

/// See [`Law::Spread`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    family: Family,
    /// Coefficient of variation.
    cv: f64,
    /// Of the Gamma or Weibull distribution.
    shape: f64,
    /// Quantiles of the gap.
    gaps: Table,
}

impl Law {
    /// Gaps of this family with coefficient of variation `cv`, which lies in [`CV_MIN`]`..=`[`CV_MAX`].
    /// With 1 both families are exponential.
    pub(super) fn new(family: Family, cv: f64, cell_bits: u32) -> Self {
        if cv == 1.0 {
            return Self::Poisson;
        }
        let (shape, gaps) = match family {
            Family::Gamma => {
                let shape = 1.0 / (cv * cv);
                (shape, gamma_table(shape, cell_bits))
            }
            Family::Weibull => {
                let shape = weibull_shape(cv);
                (shape, weibull_table(shape, cell_bits))
            }
        };
        Self::Spread(Arc::new(Spread {
            family,
            cv,
            shape,
            gaps,
        }))
    }

    /// Coefficient of variation of the gap.
    pub(super) fn cv(&self) -> f64 {
        match self {
            Self::Even => 0.0,
            Self::Poisson => 1.0,
            Self::Spread(spread) => spread.cv,
        }
    }

    /// The gap at a lane: rises with it.
    #[inline(always)]
    pub(super) fn gap(&self, lane: u32) -> f64 {
        match self {
            Self::Poisson => exponential(lane),
            Self::Spread(spread) => spread.gaps.at(lane),
            Self::Even => 1.0,
        }
    }

    /// From the moment we begin to look until the first arrival. Even gaps begin with an arrival. All
    /// others are in equilibrium, as if they had been going on for ever: an arrival is as likely in the
    /// first second as in any later one. (A process that began with an ordinary gap at zero would have
    /// (cv² − 1)/2 arrivals too many, 200 at a cv of 20: Cox, "Renewal Theory", 1962, chapter 4.) The
    /// wait is a uniform part of a gap that is drawn in proportion to its length (ibid., chapter 5).
    pub(super) fn first(&self, part: u32, gap: u32) -> f64 {
        match self {
            Self::Even => 0.0,
            // Memoryless: the wait has the law of the gap.
            Self::Poisson => exponential(gap),
            Self::Spread(spread) => unit(part) * spread.met(gap),
        }
    }
}

impl Spread {
    /// The gap that a moment falls into: its density is x times that of the gap. For Gamma gaps that is a
    /// Gamma with a shape larger by 1; the power `shape` of a Weibull gap is one with shape 1 + 1/shape.
    fn met(&self, lane: u32) -> f64 {
        let u = unit(lane);
        let log_quantile = |shape: f64| {
            if u < 0.5 {
                Tail::lower(shape).node(u).0
            } else {
                Tail::upper(shape).node(1.0 - u).0
            }
        };
        match self.family {
            Family::Gamma => libm::exp(log_quantile(self.shape + 1.0)) / self.shape,
            Family::Weibull => {
                let inverse = 1.0 / self.shape;
                libm::exp(log_quantile(1.0 + inverse) * inverse - libm::lgamma(1.0 + inverse))
            }
        }
    }
}

/// −ln(1 − u).
#[inline(always)]
fn exponential(lane: u32) -> f64 {
    -libm::log(unit(!lane))
}

fn gamma_table(shape: f64, cell_bits: u32) -> Table {
    let (mut lower, mut upper) = (Tail::lower(shape), Tail::upper(shape));
    let node = move |tail: &mut Tail, v: f64| {
        let (log_x, slope) = tail.node(v);
        let x = libm::exp(log_x) / shape;
        (x, x * slope)
    };
    Table::build(cell_bits, |v| node(&mut lower, v), |v| node(&mut upper, v))
}

fn weibull_table(shape: f64, cell_bits: u32) -> Table {
    let inverse = 1.0 / shape;
    let log_mean = libm::lgamma(1.0 + inverse);
    // x as a function of e = −ln P(X > x), and its derivative by e.
    let at = move |e: f64| {
        let x = libm::exp(libm::log(e) * inverse - log_mean);
        (x, x * inverse / e)
    };
    Table::build(
        cell_bits,
        |v| {
            let (x, slope) = at(-libm::log1p(-v));
            (x, slope / (1.0 - v))
        },
        |v| {
            let (x, slope) = at(-libm::log(v));
            (x, -slope / v)
        },
    )
}

/// The shape k with 1 + cv² = Γ(1 + 2/k)/Γ(1 + 1/k)², which falls in k; by bisection of ln k.
fn weibull_shape(cv: f64) -> f64 {
    let goal = libm::log1p(cv * cv);
    let spread = |k: f64| libm::lgamma(1.0 + 2.0 / k) - 2.0 * libm::lgamma(1.0 + 1.0 / k);
    let (mut low, mut high) = (libm::log(0.1), libm::log(100.0));
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if spread(libm::exp(middle)) > goal {
            low = middle;
        } else {
            high = middle;
        }
    }
    libm::exp(0.5 * (low + high))
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF as _, Gamma, Weibull};

    use super::*;

    /// Mean and coefficient of variation over all lanes: in each octave of either tail the midpoints of
    /// 4,096 cells, or every lane if there are fewer.
    fn moments(law: &Law) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for upper in [false, true] {
            for octave in 0..31 {
                let first = 1_u64 << octave;
                let cells = first.min(4_096);
                let width = first / cells;
                for cell in 0..cells {
                    let lane = (first + cell * width + width / 2) as u32;
                    let gap = law.gap(if upper { !lane } else { lane });
                    sum += gap * width as f64;
                    squares += gap * gap * width as f64;
                }
            }
        }
        for lane in [0, u32::MAX] {
            let gap = law.gap(lane);
            sum += gap;
            squares += gap * gap;
        }
        let count = 4_294_967_296.0;
        let mean = sum / count;
        (mean, (squares / count / (mean * mean) - 1.0).sqrt())
    }

    fn laws(cv: f64) -> [Law; 2] {
        [Family::Gamma, Family::Weibull].map(|family| Law::new(family, cv, CELL_BITS))
    }

    #[test]
    fn every_law_has_mean_one_and_the_declared_variation() {
        for cv in [0.05, 0.3, 0.9, 1.0, 1.1, 2.3, 3.95, 8.0, 20.0, 50.0] {
            for law in laws(cv) {
                let (mean, found) = moments(&law);
                // What the largest lane cuts off, see `CV_MAX`.
                let tolerance = if cv > 20.0 { 7e-3 } else { 1e-3 };
                assert!((found / cv - 1.0).abs() < tolerance, "{cv} {found}");
                assert!((mean - 1.0).abs() < 2e-5, "{cv} {mean}");
            }
        }
    }

    #[test]
    fn coarse_tables_are_good_enough_for_windows() {
        for cv in [0.05, 0.5, 2.3, 10.0] {
            for family in [Family::Gamma, Family::Weibull] {
                let (mean, found) = moments(&Law::new(family, cv, 4));
                assert!((mean - 1.0).abs() < 1e-4, "{cv} {mean} {family:?}");
                assert!((found / cv - 1.0).abs() < 1e-3, "{cv} {found} {family:?}");
            }
        }
    }

    #[test]
    fn gaps_are_the_quantiles_of_statrs() {
        for cv in [0.2, 0.7, 1.6, 3.0] {
            for law in laws(cv) {
                let Law::Spread(spread) = &law else {
                    panic!("{cv} is not exponential")
                };
                let k = spread.shape;
                for bits in 0..31 {
                    for lane in [1_u32 << bits, !(1_u32 << bits), 3 << bits >> 1] {
                        let gap = law.gap(lane);
                        let cdf = match spread.family {
                            Family::Gamma => Gamma::new(k, k).unwrap().cdf(gap),
                            Family::Weibull => {
                                let scale = 1.0 / libm::tgamma(1.0 + 1.0 / k);
                                Weibull::new(k, scale).unwrap().cdf(gap)
                            }
                        };
                        let u = unit(lane);
                        let tail = u.min(1.0 - u);
                        assert!(
                            (cdf - u).abs() < 1e-4 * tail + 1e-14,
                            "{cv} {lane} {gap} {cdf} {u}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_gamma_or_weibull_of_variation_one_is_poisson() {
        assert_eq!(laws(1.0), [Law::Poisson, Law::Poisson]);
        let nearly = Law::new(Family::Gamma, 1.0 + 1e-12, CELL_BITS);
        for lane in [0, 77, 1 << 20, 1 << 31, u32::MAX - 5, u32::MAX] {
            let (one, other) = (nearly.gap(lane), Law::Poisson.gap(lane));
            assert!((one / other - 1.0).abs() < 1e-5, "{lane} {one} {other}");
        }
    }

    #[test]
    fn the_wait_for_the_first_arrival_is_that_of_equilibrium() {
        // Its mean is (1 + cv²)/2, and its density 1 − F is 1 at zero.
        for (cv, law) in [0.5, 2.3, 6.0]
            .into_iter()
            .flat_map(|cv| laws(cv).map(|law| (cv, law)))
        {
            let (mut sum, mut soon) = (0.0, 0);
            let (parts, gaps) = (64_u32, 4_096_u32);
            for part in 0..parts {
                for gap in 0..gaps {
                    let middle = |index: u32, of: u32| (u32::MAX / of) * index + u32::MAX / of / 2;
                    let wait = law.first(middle(part, parts), middle(gap, gaps));
                    sum += wait;
                    soon += u32::from(wait < 0.02 && cv < 1.0);
                }
            }
            let count = f64::from(parts * gaps);
            let expected = 0.5 * (1.0 + cv * cv);
            assert!(
                (sum / count / expected - 1.0).abs() < 0.02,
                "{cv} {}",
                sum / count
            );
            if cv < 1.0 {
                let share = f64::from(soon) / count;
                assert!((share / 0.02 - 1.0).abs() < 0.1, "{cv} {share}");
            }
        }
    }
}
