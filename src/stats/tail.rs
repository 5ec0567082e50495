//! Binomial chances for the sizing of eval sets: one term, and both tails from one sum.

/// Error of Stirling's formula for ln n!, from the recursion ln n! = ln (n − 1)! + ln n below 16 and
/// from its asymptotic series above.
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        // Products up to 15! are exact in a float.
        let factorial: f64 = (1..=n as u32).map(f64::from).product();
        let half_log_tau = 0.918_938_533_204_672_7;
        return libm::log(factorial) - (n + 0.5) * libm::log(n) + n - half_log_tau;
    }
    let r = 1.0 / n;
    let s = r * r;
    r * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0))))
}

/// x·ln(x/m) + m − x for positive x and m, by its series where x is near m.
fn deviance(x: f64, mean: f64) -> f64 {
    let difference = x - mean;
    if difference.abs() >= 0.1 * (x + mean) {
        return x * libm::log(x / mean) - difference;
    }
    let v = difference / (x + mean);
    let mut sum = difference * v;
    let mut power = 2.0 * x * v;
    for odd in 1..200 {
        power *= v * v;
        let next = sum + power / f64::from(2 * odd + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

/// P(X = k) for X binomial with `n` trials; `q` is 1 − p.
///
/// Source: C. Loader, Fast and Accurate Computation of Binomial Probabilities (2000).
pub(super) fn binomial_pmf(k: f64, n: f64, p: f64, q: f64) -> f64 {
    if !(0.0 <= k && k <= n) {
        return 0.0;
    }
    if p <= 0.0 || q <= 0.0 {
        let sure = if p <= 0.0 { 0.0 } else { n };
        return f64::from(u8::from(k == sure));
    }
    if k == 0.0 {
        return libm::exp(n * libm::log1p(-p));
    }
    if k == n {
        return libm::exp(n * libm::log1p(-q));
    }
    let rest = n - k;
    let exponent = stirling_error(n)
        - stirling_error(k)
        - stirling_error(rest)
        - deviance(k, n * p)
        - deviance(rest, n * q);
    libm::exp(exponent) / (std::f64::consts::TAU * k * (rest / n)).sqrt()
}

/// The terms from `k` up, for k above the mean.
fn climb(k: f64, n: f64, p: f64, q: f64) -> f64 {
    let odds = p / q;
    let mut term = binomial_pmf(k, n, p, q);
    let mut sum = term;
    let mut b = k;
    while b < n && term > 1e-18 * sum {
        term *= (n - b) / (b + 1.0) * odds;
        b += 1.0;
        sum += term;
    }
    sum
}

/// P(X < k) and P(X ≥ k). The smaller of the two has its own digits, and they add up to one.
pub(super) fn binomial_sides(k: f64, n: f64, p: f64, q: f64) -> (f64, f64) {
    if k <= 0.0 {
        (0.0, 1.0)
    } else if k > n || p <= 0.0 {
        (1.0, 0.0)
    } else if q <= 0.0 {
        (0.0, 1.0)
    } else if k > n * p {
        let upper = climb(k, n, p, q);
        (1.0 - upper, upper)
    } else {
        let lower = climb(n - k + 1.0, n, q, p);
        (lower, 1.0 - lower)
    }
}
