//! Intervals for one sample: a share (Wilson), a mean (normal) and a ratio of means (delta method).
//!
//! Means and sums of squares are formed in integers, so that nothing is lost when the mean is large
//! and the spread small; the first float is the finished centred sum of squares.

use super::Estimate;

/// Lower and upper limit of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

impl Limits {
    /// `centre ± half`.
    #[must_use]
    pub fn around(centre: f64, half: f64) -> Self {
        Self {
            low: centre - half,
            high: centre + half,
        }
    }

    /// The part of the interval inside `[low, high]`.
    #[must_use]
    pub fn clipped(self, low: f64, high: f64) -> Self {
        Self {
            low: self.low.clamp(low, high),
            high: self.high.clamp(low, high),
        }
    }

    /// What limits found on a share `known` of the requests say of all of them, if nothing is assumed
    /// about the rest: each limit is weighed with the lowest or highest value the rest can have.
    ///
    /// Source: C. F. Manski, American Economic Review 80 (1990) 319–323, worst-case bounds.
    #[must_use]
    pub fn for_all(self, known: f64, (lowest, highest): (f64, f64)) -> Self {
        let known = known.clamp(0.0, 1.0);
        if known == 1.0 {
            return self;
        }
        Self {
            low: self.low * known + lowest * (1.0 - known),
            high: self.high * known + highest * (1.0 - known),
        }
    }

    /// These limits about `value`, each moved away from it for a second, independent source of chance
    /// with half width `half`: squares of the distances add up (the reasoning of
    /// [`difference_of_independent`]).
    #[must_use]
    pub fn widened(self, value: f64, half: f64) -> Self {
        let side = |distance: f64| (distance * distance + half * half).sqrt();
        Self {
            low: value - side(value - self.low),
            high: value + side(self.high - value),
        }
    }
}

/// Wilson's score interval for `successes` out of `n`. `None` when n is 0 or `successes > n`.
///
/// Source: E. B. Wilson, JASA 22 (1927) 209–212.
#[must_use]
pub fn wilson(successes: u64, n: u64, z: f64) -> Option<Limits> {
    (n > 0 && successes <= n)
        .then(|| wilson_fraction(successes as f64 / n as f64, n as f64, z))
        .flatten()
}

/// Wilson's interval for a share `p` that need not be a whole number of successes: a mixture of
/// shares, or a share pooled over replicates that counts as fewer rows than it was averaged over.
///
/// `None` unless `0 ≤ p ≤ 1` and `n > 0`. A share of exactly 0 or 1 keeps that limit exactly.
#[must_use]
pub fn wilson_fraction(p: f64, n: f64, z: f64) -> Option<Limits> {
    if !((0.0..=1.0).contains(&p) && n > 0.0 && z.is_finite()) {
        return None;
    }
    let z2 = z * z;
    let centre = (n * p + z2 / 2.0) / (n + z2);
    let half = z / (n + z2) * (n * p * (1.0 - p) + z2 / 4.0).sqrt();
    Some(Limits {
        low: if p == 0.0 {
            0.0
        } else {
            (centre - half).max(0.0)
        },
        high: if p == 1.0 {
            1.0
        } else {
            (centre + half).min(1.0)
        },
    })
}

/// Wilson's interval with continuity correction, for a share `p` of `n`.
///
/// `None` unless `0 ≤ p ≤ 1` and `n > 0`. The limits solve |p − t| − 1/(2n) = z·√(t(1−t)/n); at p = 0 the
/// lower limit is 0, at p = 1 the upper one is 1. Wider than Wilson's own, at least nominal in coverage.
///
/// Source: R. G. Newcombe, Statistics in Medicine 17 (1998) 857–872, method 4.
#[must_use]
pub fn wilson_continuity(p: f64, n: f64, z: f64) -> Option<Limits> {
    if !((0.0..=1.0).contains(&p) && n > 0.0 && z.is_finite()) {
        return None;
    }
    let z2 = z * z;
    let (centre, divisor) = (2.0 * n * p + z2, 2.0 * (n + z2));
    let spread = |sign: f64| {
        let inside = z2 - 1.0 / n + 4.0 * n * p * (1.0 - p) + sign * (4.0 * p - 2.0);
        z * inside.max(0.0).sqrt() + 1.0
    };
    Some(Limits {
        low: if p == 0.0 {
            0.0
        } else {
            ((centre - spread(1.0)) / divisor).max(0.0)
        },
        high: if p == 1.0 {
            1.0
        } else {
            ((centre + spread(-1.0)) / divisor).min(1.0)
        },
    })
}

/// Mean and spread of n integers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// How many.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// Sample variance (divisor n − 1). `None` for one observation, or when the sum of squares no
    /// longer fits its integer and was cut off.
    pub variance: Option<f64>,
}

/// Mean and variance from integer sums. `None` for n = 0.
#[must_use]
pub fn moments(n: u64, sum: i128, square_sum: i128) -> Option<Moments> {
    (n > 0).then(|| Moments {
        n,
        mean: sum as f64 / n as f64,
        variance: (n > 1)
            .then(|| centred(n, sum, sum, square_sum))
            .flatten()
            .map(|centred| centred.max(0.0) / (n - 1) as f64),
    })
}

/// Σ (x − x̄)(y − ȳ) from Σx, Σy and Σxy.
///
/// With Σx = n·q + r the sum is (Σxy − q·Σy) − r·Σy/n: the bracket is exact, and small if the spread
/// is small. `None` when a sum was cut off at the limit of its type (see `Tally::merge`).
fn centred(n: u64, sum_x: i128, sum_y: i128, cross: i128) -> Option<f64> {
    if n == 0 || cross == i128::MAX {
        return None;
    }
    let n = i128::from(n);
    let (qx, rx) = (sum_x.div_euclid(n), sum_x.rem_euclid(n));
    let (qy, ry) = (sum_y.div_euclid(n), sum_y.rem_euclid(n));
    // Σ (x − qx)(y − qy) = Σxy − qx·Σy − qy·(Σx − n·qx), and then the rests: − rx·ry/n.
    let about_whole = cross
        .checked_sub(qx.checked_mul(sum_y)?)?
        .checked_sub(qy.checked_mul(rx)?)?;
    let exact = about_whole
        .checked_mul(n)
        .and_then(|whole| whole.checked_sub(rx.checked_mul(ry)?));
    Some(match exact {
        Some(exact) => exact as f64 / n as f64,
        None => about_whole as f64 - rx as f64 * ry as f64 / n as f64,
    })
}

/// `mean ± z·√(variance/n)`. `None` without a variance.
///
/// `n` is apart from the moments' own count because rows shared by replicates count once.
#[must_use]
pub fn mean_limits(mean: f64, variance: Option<f64>, n: f64, z: f64) -> Option<Limits> {
    let variance = variance?;
    (n > 0.0 && z.is_finite()).then(|| Limits::around(mean, z * (variance / n).sqrt()))
}

/// A ratio of two means, with its standard error for one observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Σx / Σy.
    pub value: f64,
    /// Variance of (x − value·y)/ȳ: divided by n it is the ratio's variance. `None` as in [`Moments`].
    pub variance: Option<f64>,
}

/// The ratio Σx/Σy, and its variance by the delta method (Taylor linearisation): that of the
/// residuals x − (Σx/Σy)·y, divided by ȳ².
///
/// `None` when n is 0 or Σy is not positive: money per right answer is undefined without a right one.
/// Source: W. G. Cochran, Sampling Techniques, 3rd ed. (1977), section 6.3.
#[must_use]
pub fn ratio(
    n: u64,
    (sum_x, square_x): (i128, i128),
    (sum_y, square_y): (i128, i128),
    cross: i128,
) -> Option<Ratio> {
    if n == 0 || sum_y <= 0 {
        return None;
    }
    let value = sum_x as f64 / sum_y as f64;
    let variance = || {
        let xx = centred(n, sum_x, sum_x, square_x)?;
        let yy = centred(n, sum_y, sum_y, square_y)?;
        let xy = centred(n, sum_x, sum_y, cross)?;
        let residual = (xx - 2.0 * value * xy + value * value * yy).max(0.0);
        let mean_y = sum_y as f64 / n as f64;
        Some(residual / (n - 1) as f64 / (mean_y * mean_y))
    };
    Some(Ratio {
        value,
        variance: (n > 1).then(variance).flatten(),
    })
}

/// The difference of two estimates that are treated as independent: `a − b`, with each limit combined
/// from the distances of the two estimates' own limits (square-and-add).
///
/// If the two were measured on the same requests and rise and fall together, the true interval is
/// narrower, so this one errs on the safe side. Unknown when either is.
/// Source: G. Y. Zou, A. Donner, Statistics in Medicine 27 (2008) 1693–1702.
#[must_use]
pub fn difference_of_independent(a: &Estimate, b: &Estimate) -> Estimate {
    let (Some(va), Some(vb)) = (a.value, b.value) else {
        return Estimate::unknown(a.level);
    };
    let side = |x: f64, y: f64| (x * x + y * y).sqrt();
    let limits = a.limits().zip(b.limits()).map(|(la, lb)| Limits {
        low: va - vb - side(va - la.low, lb.high - vb),
        high: va - vb + side(la.high - va, vb - lb.low),
    });
    Estimate::new(va - vb, limits, a.level, a.n.min(b.n), "square-and-add")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const Z: f64 = 1.959_963_984_540_054;

    #[test]
    fn wilson_limits_solve_the_score_equation() {
        // The limits are the shares t at which |p − t| = z·√(t(1−t)/n), whatever formula is used.
        for (k, n) in [(1, 10), (5405, 6000), (7, 8), (300, 1_000_000)] {
            let limits = wilson(k, n, Z).unwrap();
            let p = k as f64 / n as f64;
            for t in [limits.low, limits.high] {
                let score = (p - t).abs() / (t * (1.0 - t) / n as f64).sqrt();
                assert!((score - Z).abs() < 1e-9, "{k}/{n}: {t} {score}");
            }
        }
    }

    #[test]
    fn corrected_wilson_limits_solve_their_equation() {
        for (p, n) in [(0.1, 10.0), (0.9, 6000.0), (0.5, 2.0), (0.875, 8.0)] {
            let limits = wilson_continuity(p, n, Z).unwrap();
            for t in [limits.low, limits.high] {
                let score = ((p - t).abs() - 0.5 / n) / (t * (1.0 - t) / n).sqrt();
                assert!((score - Z).abs() < 1e-9, "{p} of {n}: {t} {score}");
            }
        }
        assert_eq!(wilson_continuity(0.0, 5.0, Z).unwrap().low, 0.0);
        assert_eq!(wilson_continuity(1.0, 5.0, Z).unwrap().high, 1.0);
        assert_eq!(wilson_continuity(0.5, 0.0, Z), None);
        assert_eq!(wilson_continuity(f64::NAN, 5.0, Z), None);
    }

    #[test]
    fn a_share_of_nothing_or_everything_keeps_its_limit() {
        let none = wilson(0, 6000, Z).unwrap();
        assert_eq!(none.low, 0.0);
        assert!((none.high - Z * Z / (6000.0 + Z * Z)).abs() < 1e-12);
        let all = wilson(6000, 6000, Z).unwrap();
        assert_eq!(all.high, 1.0);
        assert!(all.low > 0.999);
        assert_eq!(wilson(0, 0, Z), None);
        assert_eq!(wilson(3, 2, Z), None);
        assert_eq!(wilson_fraction(f64::NAN, 5.0, Z), None);
    }

    #[test]
    fn a_small_spread_about_a_huge_mean_is_exact() {
        // Three values x, x+1, x+2 have variance 1; in floats their squares would cancel to noise.
        let x: i128 = 1_000_000_000_000_000;
        let values = [x, x + 1, x + 2];
        let sum = values.iter().sum();
        let squares = values.iter().map(|v| v * v).sum();
        let got = moments(3, sum, squares).unwrap();
        assert_eq!(got.variance, Some(1.0));
        assert_eq!(got.mean, 1_000_000_000_000_001.0);
    }

    #[test]
    fn what_is_left_out_may_be_all_bad_or_all_good() {
        let limits = Limits {
            low: -0.02,
            high: 0.01,
        };
        let all = limits.for_all(0.9, (-1.0, 1.0));
        assert!((all.low - (-0.018 - 0.1)).abs() < 1e-15, "{all:?}");
        assert!((all.high - (0.009 + 0.1)).abs() < 1e-15, "{all:?}");
        assert_eq!(limits.for_all(1.0, (-1.0, 1.0)), limits);
        assert_eq!(
            limits.for_all(0.0, (-1.0, f64::INFINITY)).high,
            f64::INFINITY
        );
    }

    #[test]
    fn a_second_source_of_chance_adds_its_square() {
        let limits = Limits::around(5.0, 3.0).widened(5.0, 4.0);
        assert_eq!((limits.low, limits.high), (0.0, 10.0));
        let same = Limits::around(5.0, 3.0).widened(5.0, 0.0);
        assert_eq!((same.low, same.high), (2.0, 8.0));
    }

    #[test]
    fn one_observation_has_a_mean_but_no_spread() {
        let got = moments(1, 7, 49).unwrap();
        assert_eq!((got.mean, got.variance), (7.0, None));
        assert_eq!(mean_limits(7.0, None, 1.0, Z), None);
        assert_eq!(moments(0, 0, 0), None);
    }

    #[test]
    fn newcombes_unpaired_interval_is_the_square_and_add_of_two_wilson_intervals() {
        // 56/70 against 48/80: R. G. Newcombe, Statistics in Medicine 17 (1998) 873-890, table II,
        // method 10, example (a).
        let share = |k, n| Estimate::new(k as f64 / n as f64, wilson(k, n, Z), 0.95, n, "wilson");
        let got = difference_of_independent(&share(56, 70), &share(48, 80));
        assert!((got.value.unwrap() - 0.2).abs() < 1e-12);
        assert!((got.low.unwrap() - 0.0524).abs() < 5e-5, "{got:?}");
        assert!((got.high.unwrap() - 0.3339).abs() < 5e-5, "{got:?}");
        assert_eq!(got.n, 70);
        let unknown = Estimate::unknown(0.95);
        assert_eq!(
            difference_of_independent(&unknown, &share(1, 2)).value,
            None
        );
    }

    #[test]
    fn a_sum_that_was_cut_off_gives_no_interval() {
        assert_eq!(moments(9, 5, i128::MAX).unwrap().variance, None);
    }

    #[test]
    fn a_ratio_of_proportional_columns_has_no_spread() {
        // x = 3y exactly.
        let y = [1_i128, 4, 2, 9];
        let (sum, square) = (
            y.iter().sum::<i128>(),
            y.iter().map(|v| v * v).sum::<i128>(),
        );
        let got = ratio(4, (3 * sum, 9 * square), (sum, square), 3 * square).unwrap();
        assert_eq!(got.value, 3.0);
        assert!(got.variance.unwrap() < 1e-20);
        assert_eq!(ratio(4, (5, 9), (0, 0), 0), None);
    }

    proptest! {
        #[test]
        fn integer_sums_give_the_two_pass_moments(
            pairs in prop::collection::vec((-1_000_000_i64..1_000_000, 1_i64..1_000_000), 2..60)
        ) {
            let n = pairs.len() as u64;
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().map(|&(a, b)| (a as f64, b as f64)).unzip();
            let (mean_x, mean_y) = (x.iter().sum::<f64>() / n as f64, y.iter().sum::<f64>() / n as f64);
            let var = x.iter().map(|v| (v - mean_x).powi(2)).sum::<f64>() / (n - 1) as f64;
            let sum = |f: &dyn Fn(i128, i128) -> i128| {
                pairs.iter().map(|&(a, b)| f(a.into(), b.into())).sum::<i128>()
            };
            let got = moments(n, sum(&|a, _| a), sum(&|a, _| a * a)).unwrap();
            prop_assert!((got.variance.unwrap() - var).abs() <= 1e-9 * var + 1e-9);
            let r = ratio(n, (sum(&|a, _| a), sum(&|a, _| a * a)), (sum(&|_, b| b), sum(&|_, b| b * b)), sum(&|a, b| a * b)).unwrap();
            let value = mean_x / mean_y;
            let residual = x.iter().zip(&y).map(|(a, b)| (a - value * b).powi(2)).sum::<f64>() / (n - 1) as f64 / (mean_y * mean_y);
            prop_assert!((r.value - value).abs() <= 1e-9 * (1.0 + value.abs()));
            prop_assert!((r.variance.unwrap() - residual).abs() <= 1e-7 * residual + 1e-9);
        }
    }
}
