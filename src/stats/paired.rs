//! Intervals for the difference of two shares measured on the same requests.
//!
//! Two policies that answer the same requests are compared pair by pair: only the requests on which
//! exactly one is right carry information about the difference. Tango's score interval is the default
//! of reports; the others are for comparison with other tools and with the literature. Counts are
//! floats here because rows shared by replicates are weighted down to their number.

use super::interval::{Limits, wilson_continuity, wilson_fraction};

/// A paired 2×2 table, first policy against second. Counts need not be whole.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pairs {
    /// Both right.
    pub n11: f64,
    /// First right, second wrong.
    pub n10: f64,
    /// First wrong, second right.
    pub n01: f64,
    /// Both wrong.
    pub n00: f64,
}

impl Pairs {
    /// From whole counts.
    #[must_use]
    pub fn new(n11: u64, n10: u64, n01: u64, n00: u64) -> Self {
        Self {
            n11: n11 as f64,
            n10: n10 as f64,
            n01: n01 as f64,
            n00: n00 as f64,
        }
    }

    /// Every count times `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            n11: self.n11 * factor,
            n10: self.n10 * factor,
            n01: self.n01 * factor,
            n00: self.n00 * factor,
        }
    }

    /// Number of pairs.
    #[must_use]
    pub fn n(self) -> f64 {
        self.n11 + self.n10 + self.n01 + self.n00
    }

    /// Share right of the first minus share right of the second. NaN without pairs.
    #[must_use]
    pub fn difference(self) -> f64 {
        (self.n10 - self.n01) / self.n()
    }
}

/// What the variance of a paired Wald interval is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ddof {
    /// n, as in textbooks.
    Zero,
    /// n − 1, the sample variance.
    One,
}

/// Wald's interval: difference ± z·sd/√n. `None` with too few pairs.
///
/// Its width is zero when no pair disagrees, so it must not decide anything at small n.
#[must_use]
pub fn wald(pairs: Pairs, z: f64, ddof: Ddof) -> Option<Limits> {
    let n = pairs.n();
    let divisor = match ddof {
        Ddof::Zero => n,
        Ddof::One => n - 1.0,
    };
    let (sum, discordant) = (pairs.n10 - pairs.n01, pairs.n10 + pairs.n01);
    let variance = ((discordant - sum * sum / n) / divisor).max(0.0);
    (divisor > 0.0).then(|| Limits::around(sum / n, z * (variance / n).sqrt()))
}

/// Bonett and Price's adjusted Wald interval (one pair added to each discordant count), unclipped.
///
/// Source: D. G. Bonett, R. M. Price, J. Educ. Behav. Stat. 37 (2012) 479–488.
#[must_use]
pub fn bonett_price(pairs: Pairs, z: f64) -> Limits {
    let n = pairs.n() + 2.0;
    let (p10, p01) = ((pairs.n10 + 1.0) / n, (pairs.n01 + 1.0) / n);
    let difference = p10 - p01;
    let variance = (p10 + p01 - difference * difference).max(0.0) / n;
    Limits::around(difference, z * variance.sqrt())
}

/// Agresti and Min's interval: half a pair added to each of the four counts, then Wald. Unclipped.
///
/// Source: A. Agresti, Y. Min, Statistics in Medicine 24 (2005) 729–740.
#[must_use]
pub fn agresti_min(pairs: Pairs, z: f64) -> Limits {
    let adjusted = Pairs {
        n11: pairs.n11 + 0.5,
        n10: pairs.n10 + 0.5,
        n01: pairs.n01 + 0.5,
        n00: pairs.n00 + 0.5,
    };
    // n is at least 2, so the interval exists.
    wald(adjusted, z, Ddof::Zero).unwrap_or(Limits {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
    })
}

/// Wald's interval widened by 1/n on each side, for counts being whole: difference ± (z·sd/√n + 1/n).
/// `None` with too few pairs.
///
/// Valid where Wald's is; with few discordant pairs it is still much too narrow. Not to be confused with
/// [`wald_corrected_variance`]. Source: J. L. Fleiss, Statistical Methods for Rates and Proportions,
/// 2nd ed. (1981), section 8.2.
#[must_use]
pub fn wald_continuity(pairs: Pairs, z: f64, ddof: Ddof) -> Option<Limits> {
    let step = 1.0 / pairs.n();
    wald(pairs, z, ddof).map(|limits| Limits {
        low: limits.low - step,
        high: limits.high + step,
    })
}

/// Wald's interval with Edwards' correction inside the variance: difference ± (z/n)·√(S − (|D| − 1)²/n),
/// where D = n10 − n01 and S = n10 + n01. `None` without pairs.
///
/// Source: M. W. Fagerland, S. Lydersen, P. Laake, Statistics in Medicine 33 (2014) 2850–2875.
#[must_use]
pub fn wald_corrected_variance(pairs: Pairs, z: f64) -> Option<Limits> {
    let n = pairs.n();
    let (sum, discordant) = (pairs.n10 - pairs.n01, pairs.n10 + pairs.n01);
    let nearer = sum.abs() - 1.0;
    let variance = (discordant - nearer * nearer / n).max(0.0);
    (n > 0.0).then(|| Limits::around(sum / n, z * variance.sqrt() / n))
}

/// Which of Newcombe's hybrid score intervals for paired shares: his numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcombe {
    /// Wilson limits, the correlation φ as it is.
    Eight,
    /// Wilson limits with continuity correction, φ as it is.
    Nine,
    /// Wilson limits, φ drawn towards zero: half of n is taken from n11·n00 − n10·n01 when that is
    /// positive, at most down to zero.
    Ten,
}

/// Newcombe's hybrid score interval with the corrected correlation (his method 10). `None` without
/// pairs. Source and formula: see [`newcombe`].
#[must_use]
pub fn newcombe10(pairs: Pairs, z: f64) -> Option<Limits> {
    newcombe(pairs, z, Newcombe::Ten)
}

/// Newcombe's hybrid score intervals: Wilson limits of the two shares, combined by square-and-add. `None`
/// without pairs.
///
/// With shares p1, p2 and their limits (l1, u1), (l2, u2), the lower limit is
/// p1 − p2 − √((p1−l1)² − 2φ(p1−l1)(u2−p2) + (u2−p2)²), and the upper one its mirror image; φ is the
/// correlation of the 2×2 table, zero if a margin is empty. Any table is in range.
///
/// Source: R. G. Newcombe, Statistics in Medicine 17 (1998) 2635–2650.
#[must_use]
pub fn newcombe(pairs: Pairs, z: f64, method: Newcombe) -> Option<Limits> {
    let n = pairs.n();
    let p1 = ((pairs.n11 + pairs.n10) / n).clamp(0.0, 1.0);
    let p2 = ((pairs.n11 + pairs.n01) / n).clamp(0.0, 1.0);
    let one = if method == Newcombe::Nine {
        wilson_continuity
    } else {
        wilson_fraction
    };
    let (w1, w2) = (one(p1, n, z)?, one(p2, n, z)?);
    let margins = (pairs.n11 + pairs.n10)
        * (pairs.n01 + pairs.n00)
        * (pairs.n11 + pairs.n01)
        * (pairs.n10 + pairs.n00);
    let product = pairs.n11 * pairs.n00 - pairs.n10 * pairs.n01;
    let corrected = match method {
        Newcombe::Eight | Newcombe::Nine => product,
        Newcombe::Ten if product > n / 2.0 => product - n / 2.0,
        Newcombe::Ten => product.min(0.0),
    };
    let phi = if margins > 0.0 {
        corrected / margins.sqrt()
    } else {
        0.0
    };
    let part = |a: f64, b: f64| (a * a - 2.0 * phi * a * b + b * b).max(0.0).sqrt();
    let difference = pairs.difference();
    Some(Limits {
        low: difference - part(p1 - w1.low, w2.high - p2),
        high: difference + part(p2 - w2.low, w1.high - p1),
    })
}

/// Tango's score statistic of the hypothesis that the true difference is `d`: positive when the
/// observed difference is larger. Infinite when the hypothesis leaves no variance.
///
/// Source: T. Tango, Statistics in Medicine 17 (1998) 891–908.
#[must_use]
pub fn tango_statistic(pairs: Pairs, d: f64) -> f64 {
    let n = pairs.n();
    let numerator = pairs.n10 - pairs.n01 - n * d;
    // q: the share "first wrong, second right" that is most likely among those with difference d.
    let a = 2.0 * n;
    let b = -pairs.n10 - pairs.n01 + (2.0 * n - pairs.n10 + pairs.n01) * d;
    let c = -pairs.n01 * d * (1.0 - d);
    let root = (b * b - 4.0 * a * c).max(0.0).sqrt();
    // The same root written two ways: pick the one that does not subtract near-equal numbers.
    let q = if b > 0.0 {
        -2.0 * c / (b + root)
    } else {
        (root - b) / (2.0 * a)
    };
    let variance = n * (2.0 * q + d * (1.0 - d));
    if numerator == 0.0 {
        0.0
    } else if variance > 0.0 {
        numerator / variance.sqrt()
    } else {
        numerator.signum() * f64::INFINITY
    }
}

/// Tango's score interval: the differences that the score test does not reject. `None` without pairs.
///
/// The limits are found by halving, so they are the same bits everywhere.
/// Source: as for [`tango_statistic`].
#[must_use]
pub fn tango(pairs: Pairs, z: f64) -> Option<Limits> {
    let n = pairs.n();
    if !(n > 0.0 && z.is_finite()) {
        return None;
    }
    let sum = pairs.n10 - pairs.n01;
    let observed = (sum / n).clamp(-1.0, 1.0);
    // The statistic falls as d grows. Keep `inside` accepted and `outside` rejected.
    let limit = |mut outside: f64, accepted: &dyn Fn(f64) -> bool| {
        let mut inside = observed;
        if accepted(outside) {
            return outside;
        }
        loop {
            let middle = f64::midpoint(inside, outside);
            if middle == inside || middle == outside {
                return inside;
            }
            if accepted(middle) {
                inside = middle;
            } else {
                outside = middle;
            }
        }
    };
    Some(Limits {
        low: if sum <= -n {
            -1.0
        } else {
            limit(-1.0, &|d| tango_statistic(pairs, d) <= z)
        },
        high: if sum >= n {
            1.0
        } else {
            limit(1.0, &|d| tango_statistic(pairs, d) >= -z)
        },
    })
}
