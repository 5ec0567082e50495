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

/// A decision made on part of the requests, upheld only if it holds whatever the rest would have shown:
/// `limits` are those of the difference on the share `known`, and each request left out may count for
/// or against the policy.
#[must_use]
pub fn upheld(
    decided: NonInferiority,
    limits: Option<Limits>,
    known: f64,
    margin: f64,
) -> NonInferiority {
    if known >= 1.0 {
        return decided;
    }
    let all = limits.map(|limits| limits.for_all(known, (-1.0, 1.0)));
    if from_limits(all, margin) == decided {
        decided
    } else {
        NonInferiority::Inconclusive
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

    #[test]
    fn what_was_left_out_can_open_a_decision_but_not_make_one() {
        use NonInferiority::{Inconclusive, Inferior, NonInferior};
        let limits = |low, high| Some(Limits { low, high });
        let good = limits(-0.01, 0.01);
        // −0.01·0.99 − 0.01 = −0.0199, but −0.01·0.97 − 0.03 = −0.0397.
        assert_eq!(upheld(NonInferior, good, 0.99, 0.03), NonInferior);
        assert_eq!(upheld(NonInferior, good, 0.97, 0.03), Inconclusive);
        let bad = limits(-0.2, -0.1);
        // −0.1·0.95 + 0.05 = −0.045, but −0.1·0.9 + 0.1 = 0.01.
        assert_eq!(upheld(Inferior, bad, 0.95, 0.03), Inferior);
        assert_eq!(upheld(Inferior, bad, 0.90, 0.03), Inconclusive);
        assert_eq!(upheld(Inconclusive, good, 1.0, 0.03), Inconclusive);
        assert_eq!(upheld(Inferior, None, 0.5, 0.03), Inconclusive);
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
