//! Numbers on the command line: what is accepted, and what the refusal says.

/// Most requests of one replicate.
pub(super) const REQUESTS_MAX: u64 = 1_000_000_000_000;

/// A share from 0 to below 1.
pub(super) fn parse_margin(text: &str) -> Result<f64, String> {
    let wrong = |hint: String| format!("expected a share from 0 to below 1{hint}");
    match text.parse::<f64>() {
        Ok(margin) if (0.0..1.0).contains(&margin) => Ok(margin),
        Ok(points) if (1.0..100.0).contains(&points) => Err(wrong(format!(
            "; {points} percentage points are {}",
            points / 100.0
        ))),
        _ => Err(wrong(
            ", such as 0.03 for three percentage points".to_owned(),
        )),
    }
}

/// A whole number with an optional k, M or G, such as 100M.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    let count = parse_volume(text)?;
    if count.fract() != 0.0 || !(1.0..=REQUESTS_MAX as f64).contains(&count) {
        return Err(format!(
            "expected a whole number from 1 to {REQUESTS_MAX}, such as 6000 or 100M"
        ));
    }
    Ok(count as u64)
}

/// A number above zero with an optional k, M or G, such as 40M.
pub(super) fn parse_volume(text: &str) -> Result<f64, String> {
    let plain = text.replace('_', "");
    let (digits, scale) = match plain.char_indices().last() {
        Some((at, 'k' | 'K')) => (&plain[..at], 1e3),
        Some((at, 'm' | 'M')) => (&plain[..at], 1e6),
        Some((at, 'g' | 'G')) => (&plain[..at], 1e9),
        _ => (plain.as_str(), 1.0),
    };
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number * scale),
        _ => Err("expected a number above 0, such as 6000, 250k or 40M".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_suffixes_and_refuse_the_rest() {
        assert_eq!(parse_count("6000"), Ok(6000));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000));
        assert_eq!(parse_count("100_000"), Ok(100_000));
        for bad in ["", "0", "-1", "1.5", "M", "nan", "inf", "1e30", "1x", "é"] {
            assert!(parse_count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_margin_is_a_share() {
        assert_eq!(parse_margin("0.03"), Ok(0.03));
        assert_eq!(parse_margin("0"), Ok(0.0));
        assert!(
            parse_margin("3")
                .unwrap_err()
                .ends_with("; 3 percentage points are 0.03")
        );
        for bad in ["1", "-0.1", "nan", "inf", "x", "", "100"] {
            assert!(parse_margin(bad).is_err(), "{bad}");
        }
    }
}
