//! Quantiles of the normal and of Student's t distribution, as two-sided critical values.
//!
//! The distributions come from `statrs`. Its series call the platform's logarithm, whose last bit
//! may differ between systems, so the values are rounded to twelve decimals: far finer than any
//! interval needs, and the same bytes everywhere.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

fn rounded(value: f64) -> f64 {
    (value * 1e12).round() / 1e12
}

/// z with P(|Z| ≤ z) = `level` for a standard normal Z: 1.959963984540 for 0.95.
///
/// NaN unless `level` lies strictly between 0 and 1.
#[must_use]
pub fn z_two_sided(level: f64) -> f64 {
    if level > 0.0 && level < 1.0 {
        rounded(Normal::standard().inverse_cdf(f64::midpoint(1.0, level)))
    } else {
        f64::NAN
    }
}

/// t with P(|T| ≤ t) = `level` for Student's t with `freedom` degrees of freedom.
///
/// NaN unless `level` lies strictly between 0 and 1 and `freedom` is at least 1.
#[must_use]
pub fn student_two_sided(level: f64, freedom: u64) -> f64 {
    if !(level > 0.0 && level < 1.0) {
        return f64::NAN;
    }
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::NAN, |t| {
        rounded(t.inverse_cdf(f64::midpoint(1.0, level)))
    })
}

/// P(Z > z) for a standard normal Z: the one-sided p-value of a statistic. Accurate in the far tail, where
/// 1 − P(Z ≤ z) would be zero; NaN for NaN. From `libm`, so it is the same bits everywhere.
///
/// Source: P(Z > z) = erfc(z/√2)/2.
#[must_use]
pub fn normal_tail(z: f64) -> f64 {
    libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2) / 2.0
}

/// P(T > t) for Student's T with `freedom` degrees of freedom: the one-sided p-value of a statistic whose
/// standard error was estimated. Rounded to twelve decimals, as the critical values are; NaN for NaN or
/// without a degree of freedom.
#[must_use]
pub fn student_tail(t: f64, freedom: u64) -> f64 {
    if t.is_nan() {
        return f64::NAN;
    }
    if t.is_infinite() && freedom > 0 {
        return if t > 0.0 { 0.0 } else { 1.0 };
    }
    StudentsT::new(0.0, 1.0, freedom as f64)
        .map_or(f64::NAN, |distribution| rounded(distribution.sf(t)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_agree_with_printed_tables() {
        // Any table of the normal and of Student's t distribution.
        for (level, z) in [
            (0.90, 1.644_853_6),
            (0.95, 1.959_964_0),
            (0.99, 2.575_829_3),
        ] {
            assert!((z_two_sided(level) - z).abs() < 5e-8, "{level}");
        }
        for (freedom, t) in [(1, 12.706_204_7), (4, 2.776_445_1), (30, 2.042_272_5)] {
            let got = student_two_sided(0.95, freedom);
            assert!((got - t).abs() < 5e-7, "{freedom}: {got}");
        }
    }

    #[test]
    fn the_normal_tail_belongs_to_the_critical_values() {
        for level in [0.5, 0.9, 0.95, 0.99, 0.999] {
            let tail = normal_tail(z_two_sided(level));
            assert!(
                (tail - (1.0 - level) / 2.0).abs() < 1e-12,
                "{level}: {tail}"
            );
        }
        assert_eq!(normal_tail(0.0), 0.5);
        assert_eq!(
            (normal_tail(f64::INFINITY), normal_tail(f64::NEG_INFINITY)),
            (0.0, 1.0)
        );
        // Any table of the tail: 2.8665e-7 at five standard deviations.
        assert!((normal_tail(5.0) / 2.866_515_7e-7 - 1.0).abs() < 1e-7);
        assert!(normal_tail(f64::NAN).is_nan());
    }

    #[test]
    fn students_tail_belongs_to_the_critical_values() {
        for freedom in [1, 4, 30, 500] {
            let tail = student_tail(student_two_sided(0.95, freedom), freedom);
            assert!((tail - 0.025).abs() < 1e-10, "{freedom}: {tail}");
            assert_eq!(student_tail(f64::INFINITY, freedom), 0.0);
            assert_eq!(student_tail(f64::NEG_INFINITY, freedom), 1.0);
        }
        assert!(student_tail(1.0, 0).is_nan() && student_tail(f64::NAN, 3).is_nan());
    }

    #[test]
    fn student_approaches_the_normal_from_above() {
        let z = z_two_sided(0.95);
        let mut before = f64::INFINITY;
        for freedom in [1, 2, 5, 20, 100, 10_000] {
            let t = student_two_sided(0.95, freedom);
            assert!(t > z && t < before, "{freedom}: {t}");
            before = t;
        }
    }

    #[test]
    fn senseless_levels_have_no_critical_value() {
        for level in [0.0, 1.0, -0.5, 2.0, f64::NAN] {
            assert!(z_two_sided(level).is_nan(), "{level}");
            assert!(student_two_sided(level, 3).is_nan(), "{level}");
        }
        assert!(student_two_sided(0.95, 0).is_nan());
    }
}
