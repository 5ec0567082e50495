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
