//! "Not worse by more than the margin": the decision that a comparison of policies is made for.
//!
//! The hypothesis to reject is that the first policy is worse than the second by the margin or more.
//! A two-sided interval of level 1 − 2α decides it at one-sided α: a 95 % interval means α = 0.025.

use super::interval::Limits;
use super::paired::{Pairs, tango_statistic};
use super::quantile::normal_tail;

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

/// One-sided p-values of the two decisions about a margin: small ones decide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tails {
    /// Of "worse by the margin or more", which non-inferiority rejects.
    pub noninferior: f64,
    /// Of "worse by no more than the margin", which inferiority rejects.
    pub inferior: f64,
}

impl Tails {
    /// By Tango's statistic, when each request that is left out may count either way: on the share
    /// `known` of the requests the difference then has to exceed (1 − known − margin)/known, or to stay
    /// below −(margin + 1 − known)/known (see [`Limits::for_all`]). `None` without pairs.
    ///
    /// With everything known, `noninferior` = P(Z > T(−margin)), and comparing it with α decides as
    /// [`tango_test`] does with the z of α. Source: as for [`tango_statistic`].
    #[must_use]
    pub fn tango(pairs: Pairs, margin: f64, known: f64) -> Option<Self> {
        let (reach, fall) = thresholds(margin, known)?;
        let statistic = |threshold: f64| {
            if threshold >= 1.0 {
                f64::NEG_INFINITY
            } else if threshold <= -1.0 {
                f64::INFINITY
            } else {
                tango_statistic(pairs, threshold)
            }
        };
        (pairs.n() > 0.0).then(|| Self {
            noninferior: normal_tail(statistic(reach)),
            inferior: normal_tail(-statistic(fall)),
        })
    }

    /// By an interval `limits` about `value` that reaches `critical` standard errors to either side, with
    /// the tail of the distribution that `critical` is from. `None` without an interval, or where
    /// something is not a number. `known` is as for [`Tails::tango`].
    #[must_use]
    pub fn of_limits(
        value: f64,
        limits: Limits,
        critical: f64,
        tail: impl Fn(f64) -> f64,
        (margin, known): (f64, f64),
    ) -> Option<Self> {
        let (reach, fall) = thresholds(margin, known)?;
        let distance = |from: f64, half: f64| {
            if half > 0.0 {
                critical * from / half
            } else if from >= 0.0 {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        };
        let tails = Self {
            noninferior: tail(distance(value - reach, value - limits.low)),
            inferior: tail(distance(fall - value, limits.high - value)),
        };
        (tails.noninferior.is_finite() && tails.inferior.is_finite()).then_some(tails)
    }

    /// The decision at one-sided `alpha`.
    #[must_use]
    pub fn decide(self, alpha: f64) -> NonInferiority {
        if self.noninferior <= alpha {
            NonInferiority::NonInferior
        } else if self.inferior <= alpha {
            NonInferiority::Inferior
        } else {
            NonInferiority::Inconclusive
        }
    }
}

/// What the difference on the known requests has to exceed, and what it has to stay below.
fn thresholds(margin: f64, known: f64) -> Option<(f64, f64)> {
    let unknown = 1.0 - known.min(1.0);
    (known > 0.0).then(|| {
        (
            (unknown - margin) / known.min(1.0),
            (-margin - unknown) / known.min(1.0),
        )
    })
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
        fn p_values_decide_as_the_test_and_the_worst_case_do(
            n11 in 0_u64..400, n10 in 0_u64..60, n01 in 0_u64..60, n00 in 0_u64..100,
            margin in 0.001_f64..0.3, known in 0.3..=1.0_f64,
        ) {
            let pairs = Pairs::new(n11, n10, n01, n00);
            prop_assume!(pairs.n() > 0.0);
            let z = crate::stats::z_two_sided(0.95);
            let limits = tango(pairs, z).unwrap();
            let all = limits.for_all(known, (-1.0, 1.0));
            prop_assume!((all.low + margin).abs() > 1e-9 && (all.high + margin).abs() > 1e-9);
            let tails = Tails::tango(pairs, margin, known).unwrap();
            let plain = tango_test(pairs, margin, z);
            prop_assert_eq!(tails.decide(0.025), upheld(plain, Some(limits), known, margin));
            // The same from a symmetric interval.
            let value = pairs.difference();
            let normal = crate::stats::wald(pairs, z, crate::stats::Ddof::Zero).unwrap();
            let all = normal.for_all(known, (-1.0, 1.0));
            prop_assume!((all.low + margin).abs() > 1e-9 && (all.high + margin).abs() > 1e-9);
            let tails =
                Tails::of_limits(value, normal, z, normal_tail, (margin, known)).unwrap();
            let plain = from_limits(Some(normal), margin);
            prop_assert_eq!(tails.decide(0.025), upheld(plain, Some(normal), known, margin));
        }

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
