//! Looking at data more than once: what it costs, and boundaries that pay for it.
//!
//! A test at 2.5 % that is looked at five times rejects a true hypothesis 7 % of the time. With a
//! planned end, boundaries that are high at first and fall later keep the promised error over all
//! looks. Everything here is about a standardised statistic Z that behaves like a Brownian motion seen
//! at information fractions t₁ < t₂ < … (n/N for n of N planned pairs): Z_k·√t_k has independent
//! increments with variance t_k − t_{k−1}. Used with Tango's statistic it is an approximation; exact
//! odds for pairs are in `peeking`.
//!
//! What it is not: always valid. Looks beyond the plan, or a plan that grows because the data look
//! promising, are what `MixtureE` is for.

use super::quadrature::Legendre;
use super::root::{false_position, halved};

/// Which values of Z end the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Z at or above the bound.
    One,
    /// Z at or above the bound, or at or below its negative.
    Two,
}

/// How much of the error may be used up by an information fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// Almost nothing early: 2·(1 − Φ(z₁₋α/₂/√t)), close to O'Brien and Fleming's boundaries.
    OBrienFleming,
    /// About evenly: α·ln(1 + (e − 1)·t), close to Pocock's boundaries.
    Pocock,
}

impl Spending {
    /// Error used up at information fraction `t` out of `alpha`: 0 for t ≤ 0, `alpha` for t ≥ 1. NaN
    /// unless `alpha` lies strictly between 0 and 1.
    ///
    /// Source: K. K. G. Lan, D. L. DeMets, Biometrika 70 (1983) 659–663, functions α₁* and α₂*.
    #[must_use]
    pub fn spent(self, alpha: f64, t: f64) -> f64 {
        if !(alpha > 0.0 && alpha < 1.0) || t.is_nan() {
            f64::NAN
        } else if t <= 0.0 {
            0.0
        } else if t >= 1.0 {
            alpha
        } else {
            match self {
                Self::OBrienFleming => 2.0 * upper(normal_upper(alpha / 2.0) / t.sqrt()),
                Self::Pocock => alpha * libm::log1p((std::f64::consts::E - 1.0) * t),
            }
        }
    }
}

/// Spends below this are not worth a look: its boundary is infinite.
const LEAST_SPEND: f64 = 1e-15;

/// Nodes of the coarsest density.
const NODES: usize = 160;

/// Nodes of the finest density. With it looks may be 1/5,000 of the planned information apart.
const NODES_MAX: usize = 2560;

/// The chance of stopping at each look, for a Z whose mean is drift·√t: drift 0 is the hypothesis to
/// reject, and the sum then the error over all looks. With a drift of z₁₋α + z₁₋β a single look at
/// t = 1 has power 1 − β.
///
/// `bounds[k]` belongs to `fractions[k]`; an infinite bound means that nothing is decided there.
/// `None` unless the fractions are positive and increasing, at least a 1/5,000 of the last one apart,
/// and the bounds as many and not NaN.
///
/// Method: the density of the undecided is carried from look to look by Gauss–Legendre quadrature.
/// Source: P. Armitage, C. K. McPherson, B. C. Rowe, JRSS A 132 (1969) 235–244.
#[must_use]
pub fn crossing_probabilities(
    fractions: &[f64],
    bounds: &[f64],
    sides: Sides,
    drift: f64,
) -> Option<Vec<f64>> {
    if fractions.len() != bounds.len() || bounds.iter().any(|bound| bound.is_nan()) {
        return None;
    }
    let mut walk = Walk::new(fractions, sides, drift)?;
    let stop = |bound: &f64| {
        let (stopped, ()) = (walk.crossing(*bound), walk.advance(*bound));
        stopped
    };
    Some(bounds.iter().map(stop).collect())
}

/// The chance that a true hypothesis is rejected at one of `looks` equally spaced looks, if each is
/// judged as though it were the only one, with critical value `z`. `None` for no look, more than 5,000
/// looks, or a `z` that is not finite.
#[must_use]
pub fn naive_error(looks: u32, z: f64, sides: Sides) -> Option<f64> {
    let bounds = vec![z; looks as usize];
    let each = z
        .is_finite()
        .then(|| crossing_probabilities(&equally_spaced(looks), &bounds, sides, 0.0))??;
    (looks > 0).then(|| each.iter().sum())
}

/// Pocock's constant: the critical value that, used at each of `looks` equally spaced looks, makes the
/// error over all of them `alpha`. `None` for no look, more than 5,000, or an `alpha` outside (0, 1)
/// (one-sided: outside (0, ½), where a constant could be negative).
///
/// Source: S. J. Pocock, Biometrika 64 (1977) 191–199.
#[must_use]
pub fn pocock_constant(looks: u32, alpha: f64, sides: Sides) -> Option<f64> {
    constant(looks, alpha, sides, |_| 1.0)
}

/// O'Brien and Fleming's constant C: with critical values C·√(K/k) at looks k = 1, …, K the error over
/// all of them is `alpha`. `None` as for [`pocock_constant`].
///
/// Source: P. C. O'Brien, T. R. Fleming, Biometrics 35 (1979) 549–556.
#[must_use]
pub fn obrien_fleming_constant(looks: u32, alpha: f64, sides: Sides) -> Option<f64> {
    constant(looks, alpha, sides, |t| 1.0 / t.sqrt())
}

/// Critical values of Z at the given information fractions, with which the error used up by each look
/// is what `spending` allows, and `alpha` in all if the last fraction is 1. Two-sided boundaries are
/// symmetric and spend `alpha` on both sides together.
///
/// A look that may spend less than 1e-15 has an infinite value: nothing is decided there. The plan may
/// be adapted to when looks really take place, as long as that does not depend on the data; fractions
/// above 1 spend nothing more. `None` unless the fractions are as for [`crossing_probabilities`] and
/// 0 < alpha < 1 (one-sided: < ½).
///
/// Source: as for [`Spending::spent`].
#[must_use]
pub fn spending_boundaries(
    fractions: &[f64],
    spending: Spending,
    alpha: f64,
    sides: Sides,
) -> Option<Vec<f64>> {
    if !is_error(alpha, sides) {
        return None;
    }
    let mut walk = Walk::new(fractions, sides, 0.0)?;
    let mut before = 0.0;
    let mut bounds = Vec::with_capacity(fractions.len());
    for &t in fractions {
        let until = spending.spent(alpha, t);
        let spend = until - before;
        before = until;
        let bound = if spend < LEAST_SPEND {
            f64::INFINITY
        } else {
            halved(-50.0, 50.0, |bound| walk.crossing(bound) > spend)
        };
        walk.advance(bound);
        bounds.push(bound);
    }
    Some(bounds)
}

fn equally_spaced(looks: u32) -> Vec<f64> {
    let share = |k| f64::from(k) / f64::from(looks);
    (1..=looks).map(share).collect()
}

fn is_error(alpha: f64, sides: Sides) -> bool {
    let limit = match sides {
        Sides::One => 0.5,
        Sides::Two => 1.0,
    };
    alpha > 0.0 && alpha < limit
}

/// The constant C with which bounds C·shape(t) have the error `alpha` over all looks.
fn constant(looks: u32, alpha: f64, sides: Sides, shape: impl Fn(f64) -> f64) -> Option<f64> {
    if looks == 0 || !is_error(alpha, sides) {
        return None;
    }
    let fractions = equally_spaced(looks);
    let shapes: Vec<f64> = fractions.iter().map(|&t| shape(t)).collect();
    let excess = |constant: f64| {
        let bounds: Vec<f64> = shapes.iter().map(|shape| constant * shape).collect();
        let each = crossing_probabilities(&fractions, &bounds, sides, 0.0)?;
        Some(each.iter().sum::<f64>() - alpha)
    };
    let one_sided = match sides {
        Sides::One => alpha,
        Sides::Two => alpha / 2.0,
    };
    // The last look alone has the error of the lower end; all looks together, even if no two of them
    // ever erred together, at most that of the upper end.
    let low = normal_upper(one_sided);
    let high = normal_upper(one_sided / f64::from(looks));
    false_position(low, high, excess)
}

/// P(Z ≥ z) for a standard normal Z.
fn upper(z: f64) -> f64 {
    0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)
}

/// z with P(Z ≥ z) = `tail`, for 0 < tail ≤ ½, to the last bits, as the error of the spending depends
/// on it.
fn normal_upper(tail: f64) -> f64 {
    halved(0.0, 40.0, |z| upper(z) > tail)
}

/// The undecided, from look to look: the density of S = Z·√t on nodes, as masses.
struct Walk<'a> {
    fractions: &'a [f64],
    sides: Sides,
    drift: f64,
    look: usize,
    /// Values of S, ascending, and the probability each stands for.
    nodes: Vec<f64>,
    masses: Vec<f64>,
    rules: Vec<(usize, Legendre)>,
}

/// Standard deviations beyond which a normal density is left out: 1e-19 of it.
const REACH: f64 = 9.0;

impl<'a> Walk<'a> {
    fn new(fractions: &'a [f64], sides: Sides, drift: f64) -> Option<Self> {
        let mut before = 0.0;
        for &t in fractions {
            if !(t > before && t.is_finite()) {
                return None;
            }
            before = t;
        }
        let walk = Self {
            fractions,
            sides,
            drift,
            look: 0,
            nodes: vec![0.0],
            masses: vec![1.0],
            rules: Vec::new(),
        };
        let fine = (0..fractions.len()).all(|look| walk.nodes_at(look) <= NODES_MAX);
        (fine && drift.is_finite()).then_some(walk)
    }

    fn gap(&self, look: usize) -> f64 {
        let before = look.checked_sub(1).map_or(0.0, |k| self.fractions[k]);
        self.fractions[look] - before
    }

    /// Nodes for the density at a look: in the middle, where they are widest apart, less than 0.6
    /// standard deviations of the steps to and from it. Quadrature of a normal density with spacing h
    /// is off by about exp(−2π²/h²), which is 1e-24.
    fn nodes_at(&self, look: usize) -> usize {
        let Some(next) = self.fractions.get(look + 1) else {
            // Nothing is integrated at the last look.
            return 0;
        };
        let t = self.fractions[look];
        let step = self.gap(look).min(next - t).sqrt();
        let spacing = 0.5 * std::f64::consts::PI * 2.0 * REACH * t.sqrt();
        let wanted = spacing / (0.6 * step);
        let mut nodes = NODES;
        while (nodes as f64) < wanted && nodes <= NODES_MAX {
            nodes *= 2;
        }
        nodes
    }

    /// The chance of being undecided until the present look and at or beyond `bound` there.
    fn crossing(&self, bound: f64) -> f64 {
        let t = self.fractions[self.look];
        let gap = self.gap(self.look);
        let (edge, spread, shift) = (bound * t.sqrt(), gap.sqrt(), self.drift * gap);
        let beyond = |x: f64| {
            let above = upper((edge - x - shift) / spread);
            match self.sides {
                Sides::One => above,
                // A bound of zero or below stops everybody once, not twice.
                Sides::Two if bound <= 0.0 => 1.0,
                Sides::Two => above + upper((edge + x + shift) / spread),
            }
        };
        let each = self.nodes.iter().zip(&self.masses);
        each.map(|(&x, mass)| mass * beyond(x)).sum()
    }

    /// Goes on to the next look with those inside `bound`.
    fn advance(&mut self, bound: f64) {
        let count = self.nodes_at(self.look);
        if count > 0 {
            let t = self.fractions[self.look];
            let gap = self.gap(self.look);
            let (centre, reach) = (self.drift * t, REACH * t.sqrt());
            let edge = bound * t.sqrt();
            let high = edge.min(centre + reach);
            let low = match self.sides {
                Sides::One => centre - reach,
                Sides::Two => (-edge).max(centre - reach),
            };
            if !self.rules.iter().any(|(nodes, _)| *nodes == count) {
                self.rules.push((count, Legendre::new(count)));
            }
            let rule = self.rules.iter().find(|(nodes, _)| *nodes == count);
            let on = rule
                .filter(|_| low < high)
                .map(|(_, rule)| rule.on(low, high));
            let (nodes, masses) = on
                .into_iter()
                .flatten()
                .map(|(y, weight)| (y, weight * self.density(y, gap)))
                .unzip();
            (self.nodes, self.masses) = (nodes, masses);
        }
        self.look += 1;
    }

    /// Density of those undecided so far at `y`, one step of variance `gap` later.
    fn density(&self, y: f64, gap: f64) -> f64 {
        let spread = gap.sqrt();
        let centre = y - self.drift * gap;
        // Beyond 12 standard deviations the kernel is below 1e-31.
        let first = self.nodes.partition_point(|&x| x < centre - 12.0 * spread);
        let end = self.nodes.partition_point(|&x| x <= centre + 12.0 * spread);
        let kernel = |x: f64| {
            let z = (centre - x) / spread;
            libm::exp(-0.5 * z * z)
        };
        let sum: f64 = self.nodes[first..end]
            .iter()
            .zip(&self.masses[first..end])
            .map(|(&x, mass)| mass * kernel(x))
            .sum();
        sum / (spread * std::f64::consts::TAU.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::z_two_sided;
    use proptest::prelude::*;

    #[test]
    fn one_look_is_the_ordinary_test() {
        let z = z_two_sided(0.95);
        assert!((naive_error(1, z, Sides::Two).unwrap() - 0.05).abs() < 1e-12);
        assert!((naive_error(1, z, Sides::One).unwrap() - 0.025).abs() < 1e-12);
        for constant in [pocock_constant, obrien_fleming_constant] {
            assert!((constant(1, 0.05, Sides::Two).unwrap() - z).abs() < 1e-11);
        }
        let power = crossing_probabilities(&[1.0], &[z], Sides::One, z + 0.841_621_233_572_9);
        assert!((power.unwrap()[0] - 0.8).abs() < 1e-12);
    }

    #[test]
    fn two_looks_agree_with_the_bivariate_normal() {
        // P(Z1 < 0, Z2 < 0) with correlation √½ is ¼ + asin(√½)/(2π) = 3/8 (Sheppard 1899).
        let each = crossing_probabilities(&[0.5, 1.0], &[0.0, 0.0], Sides::One, 0.0).unwrap();
        assert!((each[0] - 0.5).abs() < 1e-14);
        assert!((1.0 - each[0] - each[1] - 0.375).abs() < 1e-13, "{each:?}");
        // Under a strong drift everybody stops at once.
        let each = crossing_probabilities(&[0.5, 1.0], &[0.0, 0.0], Sides::One, 40.0).unwrap();
        assert!((each[0] - 1.0).abs() < 1e-14 && each[1].abs() < 1e-14);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_spent_adds_up_to_alpha_whatever_the_looks(
            gaps in prop::collection::vec(0.02_f64..1.0, 1..8),
            alpha in 0.001_f64..0.2, pocock: bool, two: bool,
        ) {
            let total: f64 = gaps.iter().sum();
            let mut sum = 0.0;
            let mut fractions: Vec<f64> = gaps.iter().map(|gap| { sum += gap; sum / total }).collect();
            *fractions.last_mut().unwrap() = 1.0;
            let spending = if pocock { Spending::Pocock } else { Spending::OBrienFleming };
            let sides = if two { Sides::Two } else { Sides::One };
            let bounds = spending_boundaries(&fractions, spending, alpha, sides).unwrap();
            let each = crossing_probabilities(&fractions, &bounds, sides, 0.0).unwrap();
            let mut spent = 0.0;
            for (t, stopped) in fractions.iter().zip(&each) {
                spent += stopped;
                prop_assert!((spent - spending.spent(alpha, *t)).abs() < 1e-13, "{} {}", t, spent);
            }
            prop_assert!((spent - alpha).abs() < 1e-13);
        }
    }

    #[test]
    fn many_looks_are_as_exact_as_few() {
        // A look that decides nothing changes nothing, however close it is to its neighbours.
        let z = 2.0;
        let two = crossing_probabilities(&[0.5, 1.0], &[z, z], Sides::One, 0.3).unwrap();
        let mut fractions: Vec<f64> = (1..=500).map(|k| f64::from(k) / 500.0).collect();
        let bound = |t: &f64| {
            if *t == 0.5 || *t == 1.0 {
                z
            } else {
                f64::INFINITY
            }
        };
        let bounds: Vec<f64> = fractions.iter().map(bound).collect();
        let many = crossing_probabilities(&fractions, &bounds, Sides::One, 0.3).unwrap();
        assert!((many[249] - two[0]).abs() < 1e-12);
        assert!(
            (many[499] - two[1]).abs() < 1e-12,
            "{} {}",
            many[499],
            two[1]
        );
        assert!(
            many.iter()
                .enumerate()
                .all(|(k, p)| k == 249 || k == 499 || *p == 0.0)
        );
        fractions[1] = fractions[0] + 1e-9;
        assert_eq!(
            crossing_probabilities(&fractions, &bounds, Sides::One, 0.0),
            None
        );
    }

    #[test]
    fn nonsense_has_no_boundary() {
        let of = |fractions: &[f64], alpha| {
            spending_boundaries(fractions, Spending::OBrienFleming, alpha, Sides::One)
        };
        assert_eq!(of(&[0.5, 0.5], 0.025), None);
        assert_eq!(of(&[0.0, 0.5], 0.025), None);
        assert_eq!(of(&[f64::NAN], 0.025), None);
        assert_eq!(of(&[1.0], 0.0), None);
        assert_eq!(of(&[1.0], f64::NAN), None);
        assert_eq!(of(&[], 0.025), Some(Vec::new()));
        assert_eq!(pocock_constant(0, 0.05, Sides::Two), None);
        assert_eq!(naive_error(0, 1.96, Sides::Two), None);
        assert_eq!(naive_error(3, f64::NAN, Sides::Two), None);
        assert_eq!(crossing_probabilities(&[1.0], &[], Sides::One, 0.0), None);
        assert_eq!(
            crossing_probabilities(&[1.0], &[1.0], Sides::One, f64::NAN),
            None
        );
        assert!(Spending::Pocock.spent(2.0, 0.5).is_nan());
        assert_eq!(Spending::Pocock.spent(0.025, 7.0), 0.025);
        // Everything stops at once, or nothing ever does.
        let at = |bound| crossing_probabilities(&[0.5, 1.0], &[bound; 2], Sides::Two, 0.0).unwrap();
        assert_eq!(at(f64::NEG_INFINITY), [1.0, 0.0]);
        assert_eq!(at(f64::INFINITY), [0.0, 0.0]);
    }

    #[test]
    fn looks_that_may_spend_nothing_decide_nothing() {
        let fractions: Vec<f64> = (1..=40).map(|k| f64::from(k) / 40.0).collect();
        let bounds =
            spending_boundaries(&fractions, Spending::OBrienFleming, 0.025, Sides::One).unwrap();
        assert!(bounds[..2].iter().all(|bound| bound.is_infinite()));
        assert!(bounds[5..].iter().all(|bound| bound.is_finite()));
        assert!(bounds[5..].is_sorted_by(|a, b| a > b), "{bounds:?}");
    }
}
