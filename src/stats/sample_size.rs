//! How many observations would settle a question that the present ones leave open.
//!
//! The answer takes the present estimate for the truth, so it is an order of magnitude, not a promise;
//! designing an experiment before there are data is power analysis and lives elsewhere.

use super::{Estimate, z_two_sided};

/// Observations needed to settle on which side of a threshold a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// With about so many in total it is settled four times out of five ([`ODDS`]), if the estimate is
    /// the truth.
    Observations(u64),
    /// The estimate equals the threshold: no number settles it while it stays there.
    Never,
    /// Nothing to go by: no value, or no interval.
    Unknown,
}

/// The chance with which the observations of [`needed`] settle the question: the usual power of a
/// designed experiment.
pub const ODDS: f64 = 0.8;

/// Observations with which the interval ends on the estimate's side of `threshold` with chance
/// [`ODDS`], if the estimate `p` is the truth.
///
/// Where the end would just reach the threshold t the odds are even, because the next estimate falls
/// above or below the present one. For better odds the distance must also cover z_b, the normal
/// quantile of [`ODDS`]: n grows by ((z_a + z_b)/z_a)², which doubles it at a level of 95 %. An
/// interval's half width shrinks as 1/√n. Wilson's interval is not symmetric; for it the score test
/// is solved: n = (z_a·√(t(1−t)) + z_b·√(p(1−p)))²/(p−t)².
///
/// Source: J. L. Fleiss, Statistical Methods for Rates and Proportions, 2nd ed. (1981), section 2.5.
#[must_use]
pub fn needed(estimate: &Estimate, threshold: f64) -> Needed {
    needed_among(estimate, threshold, 1)
}

/// The same for one of `tests` decisions that are made together by Holm's procedure: with the error rate
/// of its first and strictest step, a `tests`-th of that of `estimate`'s interval. So many observations are
/// enough whatever becomes of the other tests; if those decide, fewer will do.
#[must_use]
pub fn needed_among(estimate: &Estimate, threshold: f64, tests: u64) -> Needed {
    let (Some(value), Some(limits)) = (estimate.value, estimate.limits()) else {
        return Needed::Unknown;
    };
    let distance = (value - threshold).abs();
    if distance == 0.0 {
        return Needed::Never;
    }
    let z = z_two_sided(estimate.level);
    let z_step = if tests > 1 {
        z_two_sided(1.0 - (1.0 - estimate.level) / tests as f64)
    } else {
        z
    };
    // P(|Z| ≤ z) = 2·0.8 − 1 is P(Z ≤ z) = 0.8.
    let beta = z_two_sided(2.0 * ODDS - 1.0);
    let n = if estimate.method == "wilson" {
        let spread = |p: f64| (p * (1.0 - p)).max(0.0).sqrt();
        let reach = (z_step * spread(threshold) + beta * spread(value)) / distance;
        reach * reach
    } else {
        let half = if value > threshold {
            value - limits.low
        } else {
            limits.high - value
        };
        let reach = half / distance * (z_step + beta) / z;
        estimate.n as f64 * reach * reach
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

    /// P(X ≥ k) for X binomial, by summing logarithms of its terms.
    fn binomial_tail(n: u64, p: f64, k: u64) -> f64 {
        let log_choose = |k: u64| {
            let g = |x: u64| libm::lgamma(x as f64 + 1.0);
            g(n) - g(k) - g(n - k)
        };
        (k..=n)
            .map(|k| {
                libm::exp(
                    log_choose(k) + k as f64 * libm::log(p) + (n - k) as f64 * libm::log(1.0 - p),
                )
            })
            .sum()
    }

    #[test]
    fn a_wilson_interval_clears_the_threshold_four_times_out_of_five() {
        let (p, threshold) = (0.91, 0.9);
        let z = z_two_sided(0.95);
        let estimate = Estimate::new(p, wilson(910, 1000, z), 0.95, 1000, "wilson");
        let Needed::Observations(n) = needed(&estimate, threshold) else {
            panic!("an answer was expected");
        };
        let settled = |n: u64| {
            let least = (0..=n)
                .find(|&k| wilson(k, n, z).unwrap().low >= threshold)
                .unwrap();
            binomial_tail(n, p, least)
        };
        assert!((settled(n) - 0.8).abs() < 0.01, "{n}: {}", settled(n));
        // At half of it, where the limit just reaches the threshold, the odds are about even.
        assert!((settled(n / 2) - 0.5).abs() < 0.06, "{}", settled(n / 2));
    }

    #[test]
    fn halving_the_distance_quadruples_the_data() {
        let estimate = Estimate::new(5.0, Some(Limits::around(5.0, 1.0)), 0.95, 100, "normal");
        // (1.960 + 0.842)² / 1.960² = 2.0432, times 4 and 16.
        assert_eq!(needed(&estimate, 5.5), Needed::Observations(818));
        assert_eq!(needed(&estimate, 4.75), Needed::Observations(3270));
    }

    #[test]
    fn one_test_among_several_needs_more() {
        let estimate = Estimate::new(5.0, Some(Limits::around(5.0, 1.0)), 0.95, 100, "normal");
        // 97.5 % one-sided becomes 99.375 % among four: (2.4977 + 0.8416)² / 1.960², times 4.
        assert_eq!(needed_among(&estimate, 5.5, 4), Needed::Observations(1162));
        assert_eq!(needed_among(&estimate, 5.5, 1), needed(&estimate, 5.5));
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
