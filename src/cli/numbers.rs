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

/// Smallest share that is told from nothing.
const SHARE_MIN: f64 = 1e-9;

/// "5 % are 0.05", for who wrote a percentage where a share is expected.
fn percent_hint(number: f64) -> String {
    if number > 1.0 && number <= 100.0 {
        let share = (number * 1e6).round() / 1e8;
        format!("; {number} % are {share}")
    } else {
        String::new()
    }
}

/// A share above 0 and at most 1.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (SHARE_MIN..=1.0).contains(&share) => Ok(share),
        other => Err(format!(
            "expected a share above 0 (at least 1e-9), at most 1{}",
            other.map_or_else(|_| String::new(), percent_hint)
        )),
    }
}

/// A share from 0 to 1, both included.
pub(super) fn parse_chance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        other => Err(format!(
            "expected a share from 0 to 1{}",
            other.map_or_else(|_| String::new(), percent_hint)
        )),
    }
}

/// A share from 10⁻⁹ to below one half: an error that a decision may have.
pub(super) fn parse_error(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (1e-9..0.5).contains(&share) => Ok(share),
        _ => Err("expected a share from 1e-9 to below 0.5, such as 0.025".to_owned()),
    }
}

/// A share above 0 and below 1: a chance that something is planned for.
pub(super) fn parse_power(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (SHARE_MIN..1.0).contains(&share) => Ok(share),
        other => Err(format!(
            "expected a chance above 0 and below 1, such as 0.9{}",
            other.map_or_else(|_| String::new(), percent_hint)
        )),
    }
}

/// Days from 0 to ten years.
pub(super) fn parse_days(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(days) if (0.0..=3650.0).contains(&days) => Ok(days),
        _ => Err("expected days, from 0 to 3650".to_owned()),
    }
}

/// An amount of money in USD, 0 or more.
pub(super) fn parse_usd(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if (0.0..=1e9).contains(&usd) => Ok(usd),
        _ => Err("expected an amount in USD, 0 or more, such as 0.05".to_owned()),
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

    #[test]
    fn shares_chances_errors_powers_days_and_money_have_their_ranges() {
        assert_eq!(parse_share("1"), Ok(1.0));
        assert!(parse_share("90").unwrap_err().ends_with("90 % are 0.9"));
        assert_eq!(parse_chance("0"), Ok(0.0));
        assert_eq!(parse_error("0.025"), Ok(0.025));
        assert_eq!(parse_power("0.8"), Ok(0.8));
        assert_eq!(parse_days("0"), Ok(0.0));
        assert_eq!(parse_usd("0.05"), Ok(0.05));
        for bad in ["", "x", "nan", "inf", "-1"] {
            assert!(parse_share(bad).is_err(), "{bad}");
            assert!(parse_chance(bad).is_err(), "{bad}");
            assert!(parse_error(bad).is_err(), "{bad}");
            assert!(parse_power(bad).is_err(), "{bad}");
            assert!(parse_days(bad).is_err(), "{bad}");
            assert!(parse_usd(bad).is_err(), "{bad}");
        }
        assert!(parse_error("0.5").is_err());
        assert!(parse_power("1").is_err());
        assert!(parse_share("0").is_err());
    }
}
