//! How much times vary from one attempt to the next.

use std::sync::Arc;

use crate::workload::quantile::{NORMAL_95, Table};

/// A factor that is drawn for each attempt: a monotone function of one uniform 32-bit lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Always 1 if there is none. Shared, for it takes 64 kB.
    table: Option<Arc<Table>>,
}

impl Spread {
    /// Largest σ of a lognormal factor: one attempt in twenty then takes 139 times the median or more.
    pub const SIGMA_MAX: f64 = 3.0;
    /// Always 1.
    pub const NONE: Self = Self { table: None };

    /// Lognormal with median 1: ln of the factor is normal with standard deviation `sigma`. Its mean is
    /// e^(σ²/2). `None` unless `sigma` is in 0..=[`Self::SIGMA_MAX`].
    #[must_use]
    pub fn lognormal(sigma: f64) -> Option<Self> {
        if !(0.0..=Self::SIGMA_MAX).contains(&sigma) {
            return None;
        }
        let table =
            (sigma > 0.0).then(|| Arc::new(Table::lognormal(1.0, libm::exp(sigma * NORMAL_95))));
        Some(Self { table })
    }

    /// Exponential with mean 1: the service time of the queueing textbooks, to hold a set-up against
    /// their formulas.
    #[must_use]
    pub fn exponential() -> Self {
        Self {
            table: Some(Arc::new(Table::exponential())),
        }
    }

    /// The factor at `lane`.
    #[must_use]
    #[inline(always)]
    pub fn at(&self, lane: u32) -> f64 {
        match &self.table {
            Some(table) => table.at(lane),
            None => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::draws::unit;

    #[test]
    fn spreads_that_are_none_or_cannot_be() {
        assert_eq!(Spread::lognormal(0.0), Some(Spread::NONE));
        for wrong in [-0.1, Spread::SIGMA_MAX * 1.001, f64::NAN, f64::INFINITY] {
            assert_eq!(Spread::lognormal(wrong), None, "{wrong}");
        }
        assert_eq!(Spread::NONE.at(7), 1.0);
    }

    #[test]
    fn factors_are_positive_and_have_the_median_and_mean_they_should() {
        let lanes = || (0..1_u32 << 16).map(|n| n << 16 | 1 << 15);
        for sigma in [0.01, 0.2, 1.0, Spread::SIGMA_MAX] {
            let spread = Spread::lognormal(sigma).unwrap();
            assert!((spread.at(1 << 31) - 1.0).abs() < 1e-6, "{sigma}");
            let logs: Vec<f64> = lanes().map(|lane| libm::log(spread.at(lane))).collect();
            let square = logs.iter().map(|x| x * x).sum::<f64>() / logs.len() as f64;
            // The two outermost of 65,536 cells are all that an even grid can miss.
            assert!(
                (square.sqrt() / sigma - 1.0).abs() < 1e-4,
                "{sigma} {square}"
            );
            assert!(spread.at(0) > 0.0 && spread.at(u32::MAX).is_finite());
        }
        let spread = Spread::exponential();
        let mean = lanes().map(|lane| spread.at(lane)).sum::<f64>() / 65_536.0;
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
    }

    #[test]
    fn the_exponential_inverts_its_distribution_function() {
        let spread = Spread::exponential();
        for bit in 0..32 {
            for lane in [
                1_u32 << bit,
                !(1_u32 << bit),
                (1_u32 << bit).wrapping_mul(3),
            ] {
                let (value, u) = (spread.at(lane), unit(lane));
                // Both tails, each in relative terms.
                assert!((-libm::expm1(-value) / u - 1.0).abs() < 1e-6, "{lane}");
                assert!((libm::exp(-value) / (1.0 - u) - 1.0).abs() < 1e-6, "{lane}");
            }
        }
    }
}
