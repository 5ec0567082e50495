//! The binomial distribution, exact to about fourteen digits even far out in a tail.
//!
//! A probability such as 10⁻¹⁷ is an answer here ("this candidate is never promoted"), so it has to be
//! right in its own digits, not only to within 10⁻¹⁶ of a sum near one. Differences of log-gamma values
//! lose about n·ln n roundings; the saddle-point form used here loses none of that. `exp` and `ln` are
//! those of `libm`, so the bits are the same on every machine.
//!
//! What this is not: a general distribution crate. Counts are whole numbers held in `f64` (exact up to
//! 2⁵³), and the complement of a probability is passed along rather than formed, because 1 − p forgets
//! the digits of a small p.

/// ln n! − (n + ½)·ln n + n − ½·ln 2π for n = 0 to 15; zero at n = 0 by convention.
const STIRLING_ERROR: [f64; 16] = [
    0.0,
    0.081_061_466_795_327_26,
    0.041_340_695_955_409_29,
    0.027_677_925_684_998_34,
    0.020_790_672_103_765_093,
    0.016_644_691_189_821_193,
    0.013_876_128_823_070_748,
    0.011_896_709_945_891_77,
    0.010_411_265_261_972_096,
    0.009_255_462_182_712_733,
    0.008_330_563_433_362_87,
    0.007_573_675_487_951_841,
    0.006_942_840_107_209_53,
    0.006_408_994_188_004_207,
    0.005_951_370_112_758_848,
    0.005_554_733_551_962_801,
];

/// Below this share of the sum so far a further term cannot change the sum.
const NEGLIGIBLE: f64 = 1e-18;

/// Error of Stirling's formula for ln n!, n a whole number.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        return STIRLING_ERROR[n as usize];
    }
    let r = 1.0 / n;
    let s = r * r;
    r * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0))))
}

/// x·ln(x/m) + m − x for x, m > 0: how far a count x lies from its mean m, without cancellation near it.
fn deviance(x: f64, mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() >= 0.1 * (x + mean) {
        return x * libm::log(x / mean) - difference;
    }
    let v = difference / (x + mean);
    let square = v * v;
    let mut sum = difference * v;
    let mut power = 2.0 * x * v;
    let mut odd = 1.0;
    loop {
        power *= square;
        odd += 2.0;
        let next = sum + power / odd;
        if next == sum {
            return sum;
        }
        sum = next;
    }
}

/// P(X = k) for X binomial with n trials and success probability `p`; `q` is 1 − p, passed separately
/// so that neither loses digits.
///
/// `k` and `n` are whole numbers up to 2⁵³. Outside 0 ≤ k ≤ n the probability is zero. The relative
/// error is about 10⁻¹⁴ down to 10⁻³⁰⁰.
///
/// Source: C. Loader, Fast and Accurate Computation of Binomial Probabilities (2000): the probability
/// is exp(δ(n) − δ(k) − δ(n−k) − D(k, np) − D(n−k, nq))·√(n/(2π·k·(n−k))), with δ the error of
/// Stirling's formula and D the deviance x·ln(x/m) + m − x.
#[must_use]
pub fn binomial_pmf(k: f64, n: f64, p: f64, q: f64) -> f64 {
    if !(0.0 <= k && k <= n) {
        return 0.0;
    }
    if p <= 0.0 {
        return f64::from(u8::from(k == 0.0));
    }
    if q <= 0.0 {
        return f64::from(u8::from(k == n));
    }
    let all = |share: f64, other: f64| {
        let log = if other < 0.5 {
            libm::log1p(-other)
        } else {
            libm::log(share)
        };
        libm::exp(n * log)
    };
    if k == 0.0 {
        return all(q, p);
    }
    if k == n {
        return all(p, q);
    }
    let rest = n - k;
    let exponent = stirling_error(n)
        - stirling_error(k)
        - stirling_error(rest)
        - deviance(k, n * p)
        - deviance(rest, n * q);
    libm::exp(exponent) / (std::f64::consts::TAU * k * (rest / n)).sqrt()
}

/// P(X ≥ k) for X binomial, arguments as for [`binomial_pmf`].
///
/// Terms are added from the one at `k` outward, each from its neighbour by the ratio
/// (n − b)/(b + 1)·p/q, until they no longer matter; below the mean the complement is summed instead.
/// So a small tail keeps its relative accuracy (about 10⁻¹³), and the work is some ten standard
/// deviations, whatever n is.
#[must_use]
pub fn binomial_upper(k: f64, n: f64, p: f64, q: f64) -> f64 {
    if k <= 0.0 {
        1.0
    } else if k > n {
        0.0
    } else if p <= 0.0 || q <= 0.0 {
        f64::from(u8::from(q <= 0.0))
    } else if k > n * p {
        climb(k, n, p, q)
    } else {
        // P(X ≤ k − 1) is the upper tail of the failures.
        1.0 - climb(n - k + 1.0, n, q, p)
    }
}

/// P(X ≤ k) for X binomial, arguments as for [`binomial_pmf`].
#[must_use]
pub fn binomial_lower(k: f64, n: f64, p: f64, q: f64) -> f64 {
    binomial_upper(n - k, n, q, p)
}

/// The sum of the terms from `k` upwards, for k above the mean.
fn climb(k: f64, n: f64, p: f64, q: f64) -> f64 {
    let odds = p / q;
    let mut term = binomial_pmf(k, n, p, q);
    let mut sum = term;
    let mut b = k;
    while b < n && term > NEGLIGIBLE * sum {
        term *= (n - b) / (b + 1.0) * odds;
        b += 1.0;
        sum += term;
    }
    sum
}

/// P(X ≥ k) for X binomial with n trials, kept up to date while n and k move by one: each move costs a
/// few operations, where a fresh sum costs hundreds.
///
/// The moves add or subtract one term: P(X ≥ k | n+1) = P(X ≥ k | n) + p·P(X = k−1 | n), and
/// P(X ≥ k+1 | n) = P(X ≥ k | n) − P(X = k | n). Rounding errors of the moves are bounded by summing
/// afresh every [`FRESH`] moves, and whenever subtraction has eaten two digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct MovingTail {
    p: f64,
    q: f64,
    n: f64,
    k: f64,
    /// P(X = k).
    term: f64,
    /// P(X ≥ k).
    tail: f64,
    /// The largest tail since the last fresh sum.
    peak: f64,
    moves: u32,
}

/// Moves after which a [`MovingTail`] is summed afresh.
const FRESH: u32 = 256;

impl MovingTail {
    /// The tail at (n, k), 0 ≤ k ≤ n + 1.
    pub(super) fn new(n: f64, k: f64, p: f64, q: f64) -> Self {
        let tail = binomial_upper(k, n, p, q);
        Self {
            p,
            q,
            n,
            k,
            term: binomial_pmf(k, n, p, q),
            tail,
            peak: tail,
            moves: 0,
        }
    }

    /// P(X ≥ k), between 0 and 1.
    pub(super) fn tail(&self) -> f64 {
        self.tail
    }

    /// k.
    pub(super) fn k(&self) -> f64 {
        self.k
    }

    /// n + 1 trials.
    pub(super) fn more_trials(&mut self) {
        let below = self.n + 1.0 - self.k;
        if below <= 0.0 {
            return self.afresh(self.n + 1.0, self.k);
        }
        let scaled = self.term * self.q / below;
        self.tail += scaled * self.k;
        self.term = scaled * (self.n + 1.0);
        self.n += 1.0;
        self.moved();
    }

    /// n − 1 trials. `k` may be left at n + 1 at most: it is lowered with n if necessary.
    pub(super) fn fewer_trials(&mut self) {
        if self.k > self.n || self.q <= 0.0 {
            let n = self.n - 1.0;
            return self.afresh(n, self.k.min(n + 1.0));
        }
        let share = self.term / self.n;
        self.tail -= share * self.k;
        self.term = share * (self.n - self.k) / self.q;
        self.n -= 1.0;
        self.moved();
    }

    /// k + 1.
    pub(super) fn raise(&mut self) {
        if self.q <= 0.0 {
            return self.afresh(self.n, self.k + 1.0);
        }
        self.tail -= self.term;
        self.term *= (self.n - self.k) / (self.k + 1.0) * (self.p / self.q);
        self.k += 1.0;
        self.moved();
    }

    /// k − 1.
    pub(super) fn lower(&mut self) {
        if self.k > self.n || self.p <= 0.0 {
            return self.afresh(self.n, self.k - 1.0);
        }
        self.term *= self.k / (self.n - self.k + 1.0) * (self.q / self.p);
        self.tail += self.term;
        self.k -= 1.0;
        self.moved();
    }

    fn moved(&mut self) {
        self.moves += 1;
        self.peak = self.peak.max(self.tail);
        // A term that has sunk out of the range of floats cannot climb back by multiplication.
        if self.moves >= FRESH || self.term < 1e-280 || self.tail < 0.01 * self.peak {
            self.afresh(self.n, self.k);
        }
    }

    fn afresh(&mut self, n: f64, k: f64) {
        *self = Self::new(n, k, self.p, self.q);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use statrs::distribution::{Binomial, Discrete, DiscreteCDF};

    fn relative(got: f64, want: f64) -> f64 {
        (got - want).abs() / want.abs().max(f64::MIN_POSITIVE)
    }

    /// n! as a product of whole numbers, exact for the n used here.
    fn choose(n: u64, k: u64) -> f64 {
        let mut value: u128 = 1;
        for i in 0..k {
            value = value * u128::from(n - i) / u128::from(i + 1);
        }
        value as f64
    }

    #[test]
    fn probabilities_are_right_in_their_own_digits_where_whole_numbers_say_what_they_are() {
        // With p a power of two the probability is a binomial coefficient times an exact power.
        for n in [1_u64, 2, 7, 16, 17, 40, 100] {
            for k in 0..=n {
                let want = choose(n, k) * 0.5_f64.powi(n as i32);
                let got = binomial_pmf(k as f64, n as f64, 0.5, 0.5);
                assert!(relative(got, want) < 2e-14, "{n} {k}: {got:e} {want:e}");
            }
        }
        // 0.75 is exact too, and 3^k fits: a skewed case with tails down to 1e-60.
        for k in 0..=33_u64 {
            let want = choose(100, k) * 3_f64.powi(k as i32) * 0.25_f64.powi(100);
            let got = binomial_pmf(k as f64, 100.0, 0.75, 0.25);
            assert!(relative(got, want) < 3e-14, "{k}: {got:e} {want:e}");
        }
    }

    #[test]
    fn a_million_trials_lose_no_digits() {
        // Probabilities of all counts add up to one, and the mean comes out, far inside what lgamma gives.
        let (n, p) = (1e6, 0.018);
        let (mut sum, mut mean) = (0.0, 0.0);
        for k in 16_000..20_000_u32 {
            let probability = binomial_pmf(f64::from(k), n, p, 1.0 - p);
            sum += probability;
            mean += probability * f64::from(k);
        }
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        assert!(relative(mean, n * p) < 1e-12, "{mean}");
    }

    #[test]
    fn ends_of_the_range_are_exact() {
        assert_eq!(binomial_pmf(0.0, 5.0, 0.0, 1.0), 1.0);
        assert_eq!(binomial_pmf(5.0, 5.0, 1.0, 0.0), 1.0);
        assert_eq!(binomial_pmf(6.0, 5.0, 0.5, 0.5), 0.0);
        assert_eq!(binomial_pmf(0.0, 0.0, 0.3, 0.7), 1.0);
        assert_eq!(binomial_upper(0.0, 5.0, 0.1, 0.9), 1.0);
        assert_eq!(binomial_upper(6.0, 5.0, 0.1, 0.9), 0.0);
        assert_eq!(binomial_upper(1.0, 5.0, 0.0, 1.0), 0.0);
        assert_eq!(binomial_upper(5.0, 5.0, 1.0, 0.0), 1.0);
        assert_eq!(binomial_lower(5.0, 5.0, 0.3, 0.7), 1.0);
        // (1 − 10⁻²⁰)^(10⁶): 1 − p would be 1.
        let none = binomial_pmf(0.0, 1e6, 1e-20, 1.0);
        assert!(relative(1.0 - none, 1e-14) < 0.02, "{none}");
    }

    proptest! {
        #[test]
        fn another_crate_agrees(n in 1_u64..400, p in 0.001_f64..0.999, share in 0.0_f64..1.0) {
            let k = (share * n as f64) as u64;
            let other = Binomial::new(p, n).unwrap();
            let (kf, nf) = (k as f64, n as f64);
            let got = binomial_pmf(kf, nf, p, 1.0 - p);
            prop_assert!((got - other.pmf(k)).abs() < 1e-11);
            let lower = binomial_lower(kf, nf, p, 1.0 - p);
            prop_assert!((lower - other.cdf(k)).abs() < 1e-10, "{} {}", lower, other.cdf(k));
            let upper = binomial_upper(kf + 1.0, nf, p, 1.0 - p);
            prop_assert!((lower + upper - 1.0).abs() < 1e-13);
        }

        #[test]
        fn a_moving_tail_is_where_a_fresh_sum_would_be(
            start in 0_u32..300, part in 0.0_f64..1.0, p in 0.0_f64..1.0,
            moves in prop::collection::vec(0_u8..4, 1..700),
        ) {
            let (mut n, q) = (f64::from(start), 1.0 - p);
            let mut k = (part * (n + 1.0)).floor();
            let mut tail = MovingTail::new(n, k, p, q);
            for step in moves {
                match step {
                    0 => { tail.more_trials(); n += 1.0; }
                    1 if n > 0.0 => { tail.fewer_trials(); n -= 1.0; k = k.min(n + 1.0); }
                    2 if k <= n => { tail.raise(); k += 1.0; }
                    3 if k > 0.0 => { tail.lower(); k -= 1.0; }
                    _ => continue,
                }
                let want = binomial_upper(k, n, p, q);
                prop_assert_eq!(tail.k(), k);
                prop_assert!(
                    (tail.tail() - want).abs() <= 1e-11 * want,
                    "n {} k {} p {}: {:e} {:e}", n, k, p, tail.tail(), want
                );
            }
        }
    }
}
