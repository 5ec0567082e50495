//! Seeded resampling: the same seed gives the same bytes, on any number of threads.
//!
//! Each replicate has a stream of its own in a generator keyed by the seed, so that replicate 17 is the
//! same draw whoever computes it and however many others there are. What is drawn is how often each unit
//! counts; units are whatever is independent of each other: requests, users, conversations. A function of
//! these counts that adds up integers, or adds floats in the order of the units, is then reproducible.
//!
//! Source: B. Efron, R. J. Tibshirani, An Introduction to the Bootstrap (1993), chapters 13 and 14.

use rand::Rng as _;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use statrs::distribution::{ContinuousCDF as _, Normal};

use super::interval::Limits;
use super::quantile::normal_tail;

/// Changes when draws change their meaning, so that old and new limits are never mixed up.
const VERSION: u32 = 1;

/// Replicates that are enough for limits at 95 %: Efron and Tibshirani's advice for BCa.
pub const REPLICATES: u32 = 2_000;

/// How resamples are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The seed: equal seeds give equal resamples of equally many units.
    pub seed: u64,
    /// How many resamples; at 95 % at least 1,000, better [`REPLICATES`].
    pub replicates: u32,
}

impl Bootstrap {
    /// Calls `statistic` for each replicate with how often each of the `units` was drawn (counts that add
    /// up to `units`), and returns what it gave, in the order of the replicates. Empty without units.
    pub fn draws<T: Send>(&self, units: usize, statistic: impl Fn(&[u32]) -> T + Sync) -> Vec<T> {
        if units == 0 {
            return Vec::new();
        }
        (0..self.replicates)
            .into_par_iter()
            .map_init(
                || vec![0_u32; units],
                |times, replicate| {
                    self.draw(replicate, times);
                    statistic(times)
                },
            )
            .collect()
    }

    /// The same for a statistic that is a number.
    pub fn values(&self, units: usize, statistic: impl Fn(&[u32]) -> f64 + Sync) -> Vec<f64> {
        self.draws(units, statistic)
    }

    /// How often each unit is drawn in one replicate.
    fn draw(&self, replicate: u32, times: &mut [u32]) {
        let mut key = [0; 32];
        key[..8].copy_from_slice(b"routelab");
        key[8..16].copy_from_slice(&self.seed.to_le_bytes());
        key[16..24].copy_from_slice(b"resample");
        key[24..28].copy_from_slice(&VERSION.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(u64::from(replicate));
        times.fill(0);
        let units = times.len() as u128;
        for _ in 0..times.len() {
            // The high half of a product: a bias of units/2⁶⁴, which no number of replicates shows.
            let unit = (u128::from(generator.next_u64()) * units) >> 64;
            times[unit as usize] += 1;
        }
    }
}

/// The value that a share `q` of sorted numbers lies below, interpolated between neighbours (type 7 of
/// R. J. Hyndman, Y. Fan, The American Statistician 50 (1996) 361–365). NaN without numbers or for a `q`
/// outside [0, 1].
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let (Some(last), true) = (sorted.len().checked_sub(1), (0.0..=1.0).contains(&q)) else {
        return f64::NAN;
    };
    let place = last as f64 * q;
    let below = place.floor();
    let (low, high) = (
        sorted[below as usize],
        sorted[(below as usize + 1).min(last)],
    );
    // Equal neighbours, infinite ones among them, need no interpolation.
    if low == high {
        low
    } else {
        low + (high - low) * (place - below)
    }
}

/// Percentile limits: the middle share `level` of the replicates' values.
///
/// `None` without values, if one is not a finite number, or unless `level` lies strictly between 0 and 1.
/// Source: Efron and Tibshirani (1993), section 13.3.
#[must_use]
pub fn percentile(values: &[f64], level: f64) -> Option<Limits> {
    let sorted = sorted(values)?;
    (level > 0.0 && level < 1.0).then(|| Limits {
        low: quantile(&sorted, (1.0 - level) / 2.0),
        high: quantile(&sorted, f64::midpoint(1.0, level)),
    })
}

/// Bias-corrected and accelerated limits: percentiles that are moved for the median bias of the
/// replicates about `estimate` and for a spread that changes with the value. `left_out` holds the
/// estimate with each unit left out in turn (the jackknife), from which the acceleration follows.
///
/// Second-order accurate: the error of each tail falls as 1/units, not 1/√units. `None` as for
/// [`percentile`], or if all replicates lie on one side of the estimate, or the correction is too large
/// to be made (fewer than about a dozen units of very uneven size).
/// Source: B. Efron, JASA 82 (1987) 171–185; Efron and Tibshirani (1993), section 14.3.
#[must_use]
pub fn bca(values: &[f64], estimate: f64, left_out: &[f64], level: f64) -> Option<Limits> {
    let sorted = sorted(values)?;
    if !(level > 0.0 && level < 1.0 && estimate.is_finite()) {
        return None;
    }
    let below = sorted.partition_point(|value| *value < estimate);
    let up_to = sorted.partition_point(|value| *value <= estimate);
    // Values that equal the estimate count half on either side.
    let share = (below + up_to) as f64 / 2.0 / sorted.len() as f64;
    if share <= 0.0 || share >= 1.0 {
        return None;
    }
    let bias = normal_quantile(share);
    let acceleration = acceleration(left_out)?;
    let at = |share: f64| {
        let moved = bias + normal_quantile(share);
        let stretch = 1.0 - acceleration * moved;
        // Past the pole the corrected percentiles are no longer in order.
        (stretch > 0.0).then(|| quantile(&sorted, 1.0 - normal_tail(bias + moved / stretch)))
    };
    Some(Limits {
        low: at((1.0 - level) / 2.0)?,
        high: at(f64::midpoint(1.0, level))?,
    })
}

/// Σ d³ / (6·(Σ d²)^1.5) of the jackknife's distances d = mean − value: a sixth of the skewness of one
/// unit's influence. 0 if no unit has any influence.
fn acceleration(left_out: &[f64]) -> Option<f64> {
    let n = left_out.len() as f64;
    let mean = left_out.iter().sum::<f64>() / n;
    let (mut squares, mut cubes) = (0.0, 0.0);
    for value in left_out {
        let distance = mean - value;
        squares += distance * distance;
        cubes += distance * distance * distance;
    }
    if squares == 0.0 {
        return Some(0.0);
    }
    let acceleration = cubes / (6.0 * squares * squares.sqrt());
    acceleration.is_finite().then_some(acceleration)
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// z with P(Z ≤ z) = `share`, rounded as critical values are, to be the same everywhere.
fn normal_quantile(share: f64) -> f64 {
    (Normal::standard().inverse_cdf(share) * 1e12).round() / 1e12
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: Bootstrap = Bootstrap {
        seed: 2026,
        replicates: 4_000,
    };

    fn mean_of(values: &[f64], times: &[u32]) -> f64 {
        let sum: f64 = values
            .iter()
            .zip(times)
            .map(|(value, times)| value * f64::from(*times))
            .sum();
        sum / values.len() as f64
    }

    /// A skewed sample without structure: −ln of evenly spread numbers.
    fn skewed(n: u32) -> Vec<f64> {
        (0..n)
            .map(|i| -libm::log((f64::from(i * 7919 % n) + 0.5) / f64::from(n)))
            .collect()
    }

    fn left_out(values: &[f64]) -> Vec<f64> {
        let sum: f64 = values.iter().sum();
        let n = values.len() as f64;
        values.iter().map(|v| (sum - v) / (n - 1.0)).collect()
    }

    #[test]
    fn a_replicate_draws_as_many_units_as_there_are_and_each_of_them_fairly() {
        let totals = DRAWS.draws(50, |times| times.iter().sum::<u32>());
        assert!(totals.iter().all(|total| *total == 50));
        assert_eq!(totals.len(), 4_000);
        let mut counts = [0_u64; 50];
        for times in DRAWS.draws(50, <[u32]>::to_vec) {
            for (count, times) in counts.iter_mut().zip(times) {
                *count += u64::from(times);
            }
        }
        // 4,000 draws each are expected, give or take √3,920 = 63.
        assert!(counts.iter().all(|n| n.abs_diff(4_000) < 300), "{counts:?}");
    }

    #[test]
    fn draws_depend_on_the_seed_and_on_nothing_else() {
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| DRAWS.draws(31, <[u32]>::to_vec))
        };
        let one = on(1);
        assert_eq!(one, on(3));
        let fewer = Bootstrap {
            replicates: 7,
            ..DRAWS
        };
        assert_eq!(fewer.draws(31, <[u32]>::to_vec), one[..7]);
        let other = Bootstrap { seed: 1, ..fewer };
        assert_ne!(other.draws(31, <[u32]>::to_vec), one[..7]);
    }

    #[test]
    fn a_means_replicates_spread_as_its_standard_error() {
        let values = skewed(400);
        let got = DRAWS.values(400, |times| mean_of(&values, times));
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let error = (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n / n).sqrt();
        let spread = {
            let centre = got.iter().sum::<f64>() / 4_000.0;
            (got.iter().map(|v| (v - centre) * (v - centre)).sum::<f64>() / 3_999.0).sqrt()
        };
        // The spread of 4,000 replicates is known to about 1/√8,000 of itself.
        assert!((spread / error - 1.0).abs() < 0.05, "{spread} {error}");
        let limits = percentile(&got, 0.95).unwrap();
        let normal = Limits::around(mean, 1.96 * error);
        assert!(
            (limits.low - normal.low).abs() < 0.2 * error,
            "{limits:?} {normal:?}"
        );
        assert!((limits.high - normal.high).abs() < 0.2 * error);
    }

    #[test]
    fn on_symmetric_replicates_the_corrections_vanish() {
        let values: Vec<f64> = (-500..=500).map(f64::from).collect();
        let units: Vec<f64> = (-20..=20).map(f64::from).collect();
        let (plain, corrected) = (
            percentile(&values, 0.9).unwrap(),
            bca(&values, 0.0, &left_out(&units), 0.9).unwrap(),
        );
        assert!(
            (plain.low - corrected.low).abs() < 1e-6,
            "{plain:?} {corrected:?}"
        );
        assert!((plain.high - corrected.high).abs() < 1e-6);
    }

    #[test]
    fn the_acceleration_of_a_mean_is_a_sixth_of_its_skewness() {
        let values = skewed(60);
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let moment = |k: i32| values.iter().map(|v| (v - mean).powi(k)).sum::<f64>() / n;
        let skewness = moment(3) / (moment(2) * moment(2).sqrt());
        let got = acceleration(&left_out(&values)).unwrap();
        assert!((got - skewness / 6.0 / n.sqrt()).abs() < 1e-12, "{got}");
    }

    #[test]
    fn on_skewed_data_the_limits_reach_further_to_the_long_side() {
        let values = skewed(40);
        let got = DRAWS.values(40, |times| mean_of(&values, times));
        let mean = values.iter().sum::<f64>() / 40.0;
        let plain = percentile(&got, 0.95).unwrap();
        let corrected = bca(&got, mean, &left_out(&values), 0.95).unwrap();
        assert!(corrected.low > plain.low && corrected.high > plain.high);
        // Edgeworth's correction of the mean moves both by about skewness/(6√n)·(2z² + 1)·se (P. Hall,
        // The Bootstrap and Edgeworth Expansion (1992), section 3.10) less what percentiles have already.
        assert!(corrected.high - plain.high < plain.high - plain.low);
    }

    #[test]
    fn what_has_no_limits_has_none() {
        assert_eq!(percentile(&[], 0.95), None);
        assert_eq!(percentile(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(percentile(&[1.0], 1.0), None);
        assert_eq!(bca(&[1.0, 2.0], 5.0, &[1.0, 2.0], 0.95), None);
        let same = bca(&[1.0; 9], 1.0, &[1.0; 3], 0.95).unwrap();
        assert_eq!((same.low, same.high), (1.0, 1.0));
        assert!(DRAWS.values(0, |_| 0.0).is_empty());
        assert!(quantile(&[], 0.5).is_nan() && quantile(&[1.0], 1.5).is_nan());
        assert_eq!(quantile(&[1.0, 3.0], 0.25), 1.5);
    }
}
