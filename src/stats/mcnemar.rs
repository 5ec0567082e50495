//! McNemar's test that two policies are equally often right, and the standard error that ignores pairing.
//!
//! The test conditions on the discordant pairs, so it needs no assumption about the others. It asks about
//! a difference of zero only: at a margin the conditional distribution depends on an unknown, and
//! [`Rule`](super::Rule) is the place to look.

use super::binomial::{binomial_lower, binomial_pmf};
use super::paired::Pairs;
use super::rule::Counts;

/// Two-sided p-values of McNemar's test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McNemar {
    /// Exact conditional p-value: never too small, often too large.
    pub exact: f64,
    /// Mid-p value: half of the observed table's probability left out; close to nominal.
    pub mid_p: f64,
}

/// McNemar's test on the discordant counts: n10 is Bin(n10 + n01, ½) if both are equally often right.
///
/// With f the probability of the observed split, exact = min(1, 2·P(X ≤ min(n10, n01))) and
/// mid-p = exact − f; an even split has exact 1 and mid-p 1 − f/2, and without discordant pairs both are
/// 1. Any counts with a sum up to 2⁵³; `None` above.
///
/// Source: M. W. Fagerland, S. Lydersen, P. Laake, BMC Medical Research Methodology 13 (2013) 91.
#[must_use]
pub fn mcnemar(n10: u64, n01: u64) -> Option<McNemar> {
    let sum = n10.checked_add(n01).filter(|sum| *sum <= 1 << 53)?;
    if sum == 0 {
        return Some(McNemar {
            exact: 1.0,
            mid_p: 1.0,
        });
    }
    let (smaller, all) = (n10.min(n01) as f64, sum as f64);
    let observed = binomial_pmf(smaller, all, 0.5, 0.5);
    Some(if n10 == n01 {
        McNemar {
            exact: 1.0,
            mid_p: 1.0 - observed / 2.0,
        }
    } else {
        // 2·P(X ≤ k) − P(X = k) = P(X ≤ k) + P(X < k), which subtracts nothing.
        let lower = binomial_lower(smaller, all, 0.5, 0.5);
        McNemar {
            exact: (2.0 * lower).min(1.0),
            mid_p: lower + binomial_lower(smaller - 1.0, all, 0.5, 0.5),
        }
    })
}

/// Standard error of the difference of two shares as if they came from different requests:
/// √((p1(1 − p1) + p2(1 − p2))/(n − 1)). Its square over that of the paired standard error is what
/// comparing on the same requests saves. `None` below two pairs.
#[must_use]
pub fn unpaired_standard_error(counts: Counts) -> Option<f64> {
    let pairs = Pairs::from(counts);
    let n = pairs.n();
    let spread = |p: f64| p * (1.0 - p);
    let (p1, p2) = ((pairs.n11 + pairs.n10) / n, (pairs.n11 + pairs.n01) / n);
    (n > 1.0).then(|| ((spread(p1) + spread(p2)).max(0.0) / (n - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_tables_come_out_as_counted_by_hand() {
        // 1 of 6: P(X ≤ 1) = 7/64, the split itself has 6/64.
        let one_of_six = mcnemar(5, 1).unwrap();
        assert!((one_of_six.exact - 14.0 / 64.0).abs() < 1e-15);
        assert!((one_of_six.mid_p - 8.0 / 64.0).abs() < 1e-15);
        assert_eq!(mcnemar(1, 5), Some(one_of_six));
        // 2 of 4, the even split: 6/16.
        let even = mcnemar(2, 2).unwrap();
        assert_eq!((even.exact, even.mid_p), (1.0, 1.0 - 3.0 / 16.0));
        // 0 of 1.
        let single = mcnemar(1, 0).unwrap();
        assert!((single.exact - 1.0).abs() < 1e-15 && (single.mid_p - 0.5).abs() < 1e-15);
    }

    #[test]
    fn no_disagreement_is_no_evidence_and_much_is_finite() {
        let none = mcnemar(0, 0).unwrap();
        assert_eq!((none.exact, none.mid_p), (1.0, 1.0));
        let much = mcnemar(1_000_000, 0).unwrap();
        assert_eq!(much.exact, 0.0);
        assert_eq!(mcnemar(u64::MAX, 1), None);
        let thousand = mcnemar(1000, 0).unwrap();
        // 2·2⁻¹⁰⁰⁰.
        assert!((thousand.exact / 0.5_f64.powi(999) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn pairing_saves_nothing_when_answers_are_unrelated() {
        // Independent answers, right 3 times in 4 and 1 time in 2: both standard errors agree.
        let counts = Counts {
            n11: 300,
            n10: 300,
            n01: 100,
            n00: 100,
        };
        let unpaired = unpaired_standard_error(counts).unwrap();
        let paired = ((400.0 - 200.0_f64.powi(2) / 800.0) / 799.0 / 800.0).sqrt();
        assert!((unpaired - paired).abs() < 1e-15, "{unpaired} {paired}");
        assert_eq!(unpaired_standard_error(Counts::default()), None);
    }
}
