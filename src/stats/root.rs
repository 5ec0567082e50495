//! Where a monotone function crosses zero.

/// A zero of a falling function between `low` and `high`, by the Illinois variant of false position:
/// an end that stays twice counts half, so that both ends move.
///
/// Source: M. Dowell, P. Jarratt, BIT 11 (1971) 168–174.
pub(super) fn false_position(
    mut low: f64,
    mut high: f64,
    f: impl Fn(f64) -> Option<f64>,
) -> Option<f64> {
    let (mut f_low, mut f_high) = (f(low)?, f(high)?);
    if f_low <= 0.0 {
        return Some(low);
    }
    if f_high >= 0.0 {
        return Some(high);
    }
    for _ in 0..100 {
        let next = (low * f_high - high * f_low) / (f_high - f_low);
        let value = f(next)?;
        let moved = if value > 0.0 { next - low } else { high - next };
        if value == 0.0 || moved <= 1e-13 * next.abs() {
            return Some(next);
        }
        if value > 0.0 {
            (low, f_low) = (next, value);
            f_high *= 0.5;
        } else {
            (high, f_high) = (next, value);
            f_low *= 0.5;
        }
    }
    Some(f64::midpoint(low, high))
}

/// The point where `below` turns from true to false, by halving until floats are exhausted.
pub(super) fn halved(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if below(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_find_the_same_root() {
        let f = |x: f64| 2.0 - x * x * x;
        let root = libm::cbrt(2.0);
        assert!((halved(0.0, 5.0, |x| f(x) > 0.0) - root).abs() < 1e-15);
        assert!((false_position(0.0, 5.0, |x| Some(f(x))).unwrap() - root).abs() < 1e-12);
    }

    #[test]
    fn a_function_without_a_root_gives_the_nearer_end() {
        assert_eq!(false_position(0.0, 1.0, |x| Some(5.0 - x)), Some(1.0));
        assert_eq!(false_position(0.0, 1.0, |x| Some(-5.0 - x)), Some(0.0));
        assert_eq!(false_position(0.0, 1.0, |_| None), None);
        assert_eq!(halved(0.0, 1.0, |_| false), 0.0);
    }
}
