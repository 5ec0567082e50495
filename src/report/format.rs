//! How numbers and names are written: enough digits to tell the interval's ends apart, no more.

use super::metrics::Unit;
use crate::stats::Estimate;

/// What stands where a number is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// A whole number with thousands separated: `6,000`.
pub(super) fn whole(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rough number, rounded up to two significant digits: `13,000`.
pub(super) fn about(n: u64) -> String {
    let mut unit = 1_u64;
    while n / unit >= 100 {
        unit *= 10;
    }
    whole(n.div_ceil(unit).saturating_mul(unit))
}

/// A number with fixed decimals, thousands separated, and no minus sign in front of a zero.
pub(super) fn decimal(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (integer, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let grouped = integer
        .parse::<u64>()
        .map_or_else(|_| integer.to_owned(), whole);
    let negative = value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b));
    format!("{}{grouped}{fraction}", if negative { "-" } else { "" })
}

/// As [`decimal`], with a plus sign in front of what is above zero.
pub(super) fn signed(value: f64, decimals: usize) -> String {
    let text = decimal(value, decimals);
    let positive = value > 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b));
    format!("{}{text}", if positive { "+" } else { "" })
}

/// Decimals, from `least` to 6, at which an interval of this width is at least one digit wide.
fn decimals_for(width: Option<f64>, least: usize) -> usize {
    let Some(width) = width.filter(|w| *w > 0.0) else {
        return least;
    };
    let mut decimals = least;
    let mut step = [1.0, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6][least.min(6)];
    while decimals < 6 && width < step {
        decimals += 1;
        step /= 10.0;
    }
    decimals
}

/// Decimals for an amount of money: three significant digits, two decimals below a thousand.
fn money_decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 1.0 || v == 0.0 => 2,
        v if v >= 0.1 => 3,
        v if v >= 0.01 => 4,
        v if v >= 0.001 => 5,
        _ => 6,
    }
}

fn with_interval(
    estimate: &Estimate,
    factor: f64,
    least: usize,
    suffix: &str,
    write: impl Fn(f64, usize) -> String,
) -> String {
    let Some(value) = estimate.value else {
        return UNKNOWN.to_owned();
    };
    let Some(limits) = estimate.limits() else {
        return format!("{}{suffix} [{UNKNOWN}]", write(value * factor, least));
    };
    let decimals = decimals_for(Some((limits.high - limits.low) * factor), least);
    format!(
        "{}{suffix} [{}, {}]",
        write(value * factor, decimals),
        write(limits.low * factor, decimals),
        write(limits.high * factor, decimals),
    )
}

/// A value times `factor` with its interval, or alone where there is none: `98.12 % [98.05, 98.20]`.
pub(super) fn measured(estimate: &Estimate, factor: f64, least: usize, suffix: &str) -> String {
    match (estimate.value, estimate.limits()) {
        (Some(value), None) => format!("{}{suffix}", decimal(value * factor, least)),
        _ => with_interval(estimate, factor, least, suffix, decimal),
    }
}

/// A share with its interval: `90.1 % [89.3, 90.8]`.
pub(super) fn share(estimate: &Estimate) -> String {
    with_interval(estimate, 100.0, 1, " %", decimal)
}

/// A difference of shares in percentage points with its interval: `-5.7 [-6.4, -5.1]`.
pub(super) fn points(estimate: &Estimate) -> String {
    with_interval(estimate, 100.0, 1, "", signed)
}

/// An amount of money with its interval: `6.98 [6.70, 7.25]`.
pub(super) fn usd(estimate: &Estimate) -> String {
    let least = money_decimals(estimate.value.unwrap_or(0.0));
    with_interval(estimate, 1.0, least, "", decimal)
}

/// A difference of amounts of money with its interval: `-11.24 [-11.92, -10.56]`.
pub(super) fn usd_difference(estimate: &Estimate) -> String {
    let least = money_decimals(estimate.value.unwrap_or(0.0));
    with_interval(estimate, 1.0, least, "", signed)
}

/// An amount of money alone: `6.98`.
pub(super) fn usd_value(value: f64) -> String {
    decimal(value, money_decimals(value))
}

/// A mean count with its interval: `28.2 [26.1, 30.3]`, whole numbers from a hundred on.
pub(super) fn count(estimate: &Estimate) -> String {
    let least = usize::from(estimate.value.is_some_and(|value| value.abs() < 100.0));
    with_interval(estimate, 1.0, least, "", decimal)
}

/// An estimate in its unit, with its interval.
pub(super) fn in_unit(unit: Unit, estimate: &Estimate) -> String {
    match unit {
        Unit::Share => share(estimate),
        Unit::Usd => usd(estimate),
        Unit::Count => with_interval(estimate, 1.0, 2, "", decimal),
    }
}

/// A share alone: whole percent, or `<1 %` when it is small but not nothing.
pub(super) fn percent(estimate: &Estimate) -> String {
    estimate.value.map_or_else(
        || UNKNOWN.to_owned(),
        |value| format!("{} %", percent_digits(value)),
    )
}

/// Whole percent without the sign; `<1` and `>99` for what would round to nothing or everything.
pub(super) fn percent_digits(value: f64) -> String {
    match value {
        v if v > 0.0 && v < 0.005 => "<1".to_owned(),
        v if (0.995..1.0).contains(&v) => ">99".to_owned(),
        v => decimal(v * 100.0, 0),
    }
}

/// A share with a decimal: `2.1 %`; what would round to nothing is `<0.1 %`.
pub(super) fn percent_exact(value: f64) -> String {
    if value > 0.0 && value < 0.0005 {
        "<0.1 %".to_owned()
    } else {
        format!("{} %", decimal(value * 100.0, 1))
    }
}

/// Points without more decimals than they need: a margin of 0.03 is `3`, of 0.005 is `0.5`.
pub(super) fn margin_points(margin: f64) -> String {
    let text = format!("{:.4}", margin * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text from outside made safe for one line of a terminal: control characters, line separators and
/// the invisible characters that reorder text are written as escapes.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let invisible = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if invisible {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Limits;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate::new(value, Some(Limits { low, high }), 0.95, 100, "normal")
    }

    #[test]
    fn numbers_are_written_with_the_digits_they_deserve() {
        assert_eq!(
            share(&estimate(0.900_83, 0.893, 0.908_2)),
            "90.1 % [89.3, 90.8]"
        );
        assert_eq!(
            share(&estimate(0.900_83, 0.900_81, 0.900_85)),
            "90.083 % [90.081, 90.085]"
        );
        assert_eq!(
            points(&estimate(-0.0573, -0.0639, -0.0512)),
            "-5.7 [-6.4, -5.1]"
        );
        assert_eq!(points(&estimate(0.0, -0.01, 0.01)), "0.0 [-1.0, +1.0]");
        assert_eq!(usd(&estimate(6.979_6, 6.7, 7.25)), "6.98 [6.70, 7.25]");
        assert_eq!(usd(&estimate(0.287_55, 0.28, 0.29)), "0.288 [0.280, 0.290]");
        assert_eq!(
            usd(&estimate(12_345.6, 12_000.0, 13_000.0)),
            "12,346 [12,000, 13,000]"
        );
        assert_eq!(usd(&estimate(0.0, 0.0, 0.0)), "0.00 [0.00, 0.00]");
        assert_eq!(usd(&Estimate::unknown(0.95)), "unknown");
        assert_eq!(
            usd(&Estimate::new(2.0, None, 0.95, 1, "normal")),
            "2.00 [unknown]"
        );
    }

    #[test]
    fn a_small_share_is_not_written_as_nothing() {
        assert_eq!(percent_digits(0.0), "0");
        assert_eq!(percent_digits(0.001), "<1");
        assert_eq!(percent_digits(0.999), ">99");
        assert_eq!(percent_digits(1.0), "100");
        assert_eq!(percent_digits(0.626), "63");
    }

    #[test]
    fn zero_has_no_sign_and_thousands_are_separated() {
        assert_eq!(decimal(-0.001, 1), "0.0");
        assert_eq!(decimal(-1234.5, 1), "-1,234.5");
        assert_eq!(decimal(f64::NAN, 1), "unknown");
        assert_eq!(
            (whole(999), whole(1000), whole(u64::MAX)),
            (
                "999".into(),
                "1,000".into(),
                "18,446,744,073,709,551,615".into()
            )
        );
        assert_eq!(
            (about(99), about(12_345), about(100)),
            ("99".into(), "13,000".into(), "100".into())
        );
        assert!(!about(u64::MAX).is_empty());
        assert_eq!(
            (margin_points(0.03), margin_points(0.005)),
            ("3".into(), "0.5".into())
        );
    }

    #[test]
    fn names_cannot_move_the_cursor_or_reorder_text() {
        assert_eq!(
            visible("a\x1b[2Jb\nc\u{202e}d"),
            "a\\u{1b}[2Jb\\nc\\u{202e}d"
        );
        assert_eq!(visible("größe 模型"), "größe 模型");
    }
}
