//! "Not worse by more than the margin": the decision that a comparison of policies is made for.
//!
//! The hypothesis to reject is that the first policy is worse than the second by the margin or more.
//! A two-sided interval of level 1 − 2α decides it at one-sided α: a 95 % interval means α = 0.025.

use super::interval::Limits;
use super::paired::{Pairs, tango_statistic};

/// What the data say about "not worse by more than the margin".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonInferiority {
    /// Shown to be within the margin.
    NonInferior,
    /// Shown to be worse by more than the margin.
    Inferior,
    /// Neither: more data are needed.
    Inconclusive,
}

impl NonInferiority {
    /// The word reports print.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NonInferior => "non-inferior",
            Self::Inferior => "inferior",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Tango's test at the margin: T(−margin) ≥ z. It needs no root finding and agrees with the limits of
/// Tango's interval. Without pairs it is inconclusive.
#[must_use]
pub fn tango_test(pairs: Pairs, margin: f64, z: f64) -> NonInferiority {
    if !(pairs.n() > 0.0 && z.is_finite()) {
        return NonInferiority::Inconclusive;
    }
    let statistic = tango_statistic(pairs, -margin);
    if statistic >= z {
        NonInferiority::NonInferior
    } else if statistic <= -z {
        NonInferiority::Inferior
    } else {
        NonInferiority::Inconclusive
    }
}

/// The decision read off an interval of the difference, for scores that are not just right or wrong.
#[must_use]
pub fn from_limits(limits: Option<Limits>, margin: f64) -> NonInferiority {
    match limits {
        Some(limits) if limits.low >= -margin => NonInferiority::NonInferior,
        Some(limits) if limits.high < -margin => NonInferiority::Inferior,
        _ => NonInferiority::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tango;
    use proptest::prelude::*;

    const Z: f64 = 1.96;

    #[test]
    fn perfect_agreement_needs_125_pairs_at_three_points() {
        let agreed = |n| tango_test(Pairs::new(n, 0, 0, 0), 0.03, Z);
        assert_eq!(agreed(124), NonInferiority::Inconclusive);
        assert_eq!(agreed(125), NonInferiority::NonInferior);
        assert_eq!(agreed(0), NonInferiority::Inconclusive);
    }

    #[test]
    fn a_policy_far_below_is_inferior() {
        let pairs = Pairs::new(5378, 27, 371, 224);
        assert_eq!(tango_test(pairs, 0.03, Z), NonInferiority::Inferior);
        assert_eq!(tango_test(pairs, 0.07, Z), NonInferiority::NonInferior);
        assert_eq!(tango_test(pairs, 0.06, Z), NonInferiority::Inconclusive);
    }

    proptest! {
        #[test]
        fn the_test_and_the_interval_agree(
            n11 in 0_u64..400, n10 in 0_u64..60, n01 in 0_u64..60, n00 in 0_u64..100,
            margin in 0.001_f64..0.3,
        ) {
            let pairs = Pairs::new(n11, n10, n01, n00);
            prop_assume!(pairs.n() > 0.0);
            let limits = tango(pairs, Z).unwrap();
            // Limits are rounded to a float, so leave their immediate neighbourhood out.
            prop_assume!((limits.low + margin).abs() > 1e-9 && (limits.high + margin).abs() > 1e-9);
            prop_assert_eq!(tango_test(pairs, margin, Z), from_limits(Some(limits), margin));
            prop_assert!(limits.low <= pairs.difference() && pairs.difference() <= limits.high);
        }
    }
}
