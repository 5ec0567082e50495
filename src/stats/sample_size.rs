//! How many observations would settle a question that the present ones leave open.
//!
//! The answer takes the present estimate for the truth, so it is an order of magnitude, not a promise;
//! designing an experiment before there are data is power analysis and lives elsewhere.

use super::{Estimate, z_two_sided};

/// Observations needed to settle on which side of a threshold a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// About so many in total, if the estimate stays where it is.
    Observations(u64),
    /// The estimate equals the threshold: no number settles it while it stays there.
    Never,
    /// Nothing to go by: no value, or no interval.
    Unknown,
}

/// Observations at which the interval's end nearer to `threshold` would reach it.
///
/// An interval's half width shrinks as 1/√n, so n grows with the square of the factor by which it must
/// shrink. Wilson's interval is not symmetric; for it the score equation is solved exactly:
/// n = z²·t(1−t)/(p−t)².
#[must_use]
pub fn needed(estimate: &Estimate, threshold: f64) -> Needed {
    let (Some(value), Some(limits)) = (estimate.value, estimate.limits()) else {
        return Needed::Unknown;
    };
    let distance = (value - threshold).abs();
    if distance == 0.0 {
        return Needed::Never;
    }
    let n = if estimate.method == "wilson" {
        let z = z_two_sided(estimate.level);
        z * z * threshold * (1.0 - threshold) / (distance * distance)
    } else {
        let half = if value > threshold {
            value - limits.low
        } else {
            limits.high - value
        };
        estimate.n as f64 * (half / distance) * (half / distance)
    };
    if n.is_nan() {
        return Needed::Unknown;
    }
    // Below the present n there is nothing to gather; a float-to-integer `as` saturates.
    Needed::Observations((n.ceil().max(0.0) as u64).max(estimate.n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Limits, wilson};

    #[test]
    fn wilson_clears_the_threshold_at_the_answer_and_not_before() {
        let (p, threshold) = (0.91, 0.9);
        let z = z_two_sided(0.95);
        let at = |n: f64| super::super::wilson_fraction(p, n, z).unwrap().low;
        let estimate = Estimate::new(p, wilson(910, 1000, z), 0.95, 1000, "wilson");
        let Needed::Observations(n) = needed(&estimate, threshold) else {
            panic!("an answer was expected");
        };
        assert!(n > 1000);
        assert!(at(n as f64) >= threshold);
        assert!(at(n as f64 - 2.0) < threshold);
    }

    #[test]
    fn halving_the_distance_quadruples_the_data() {
        let estimate = Estimate::new(5.0, Some(Limits::around(5.0, 1.0)), 0.95, 100, "normal");
        assert_eq!(needed(&estimate, 5.5), Needed::Observations(400));
        assert_eq!(needed(&estimate, 4.75), Needed::Observations(1600));
    }

    #[test]
    fn no_number_of_requests_settles_a_tie_or_an_unknown() {
        let tie = Estimate::new(5.0, Some(Limits::around(5.0, 1.0)), 0.95, 100, "normal");
        assert_eq!(needed(&tie, 5.0), Needed::Never);
        assert_eq!(needed(&Estimate::unknown(0.95), 0.9), Needed::Unknown);
        let single = Estimate::new(5.0, None, 0.95, 1, "normal");
        assert_eq!(needed(&single, 4.0), Needed::Unknown);
    }
}
