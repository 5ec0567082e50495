//! Numbers, times and names of plots on the command line: what is accepted, and what the refusal says.

use std::path::PathBuf;

use crate::units::Duration;

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

/// The name of a plot.
pub(super) fn parse_plot(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("svg"))
    {
        Ok(path)
    } else {
        Err("plots are SVG: expected a name that ends with .svg".to_owned())
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

/// Longest time on the command line: 366 days.
const TIME_MAX_S: f64 = 366.0 * 86_400.0;

/// A length of time above zero with its units, such as `45m`, `2h`, `90s` or `1h30m`, up to 366 days.
pub(super) fn parse_length(text: &str) -> Result<Duration, String> {
    let wrong = || {
        "expected a length with its unit, such as 45m, 2h, 90s or 1h30m, at most 366 days"
            .to_owned()
    };
    let (mut seconds, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, after) = rest.split_at(digits.ok_or_else(wrong)?);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = after.chars().next().ok_or_else(wrong)?;
        seconds += number
            * match unit {
                's' => 1.0,
                'm' => 60.0,
                'h' => 3_600.0,
                'd' => 86_400.0,
                _ => return Err(wrong()),
            };
        rest = &after[unit.len_utf8()..];
    }
    // A microsecond is the shortest time there is.
    if (1e-6..=TIME_MAX_S).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(wrong())
    }
}

/// When something begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// When most requests come.
    Peak,
    /// So long after the beginning of the run.
    At(Duration),
}

/// `peak`, a time of the day such as `14:30`, or a length from the beginning such as `2h`.
pub(super) fn parse_when(text: &str) -> Result<When, String> {
    let wrong = || {
        "expected `peak`, a time of the first day such as 14:30, or a time from the beginning of the run such as 90m".to_owned()
    };
    if text == "peak" {
        return Ok(When::Peak);
    }
    if let Some((hours, minutes)) = text.split_once(':') {
        let part = |text: &str, most: u64| {
            let digits = text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse::<u64>().ok().filter(|_| digits);
            number.filter(|number| *number <= most).ok_or_else(wrong)
        };
        let seconds = part(hours, 23)? * 3_600 + part(minutes, 59)? * 60;
        return Ok(When::At(Duration::from_secs(seconds)));
    }
    if text == "0" {
        return Ok(When::At(Duration::ZERO));
    }
    parse_length(text).map(When::At).map_err(|_| wrong())
}

/// How many times as long something takes, from 1 to 1000.
pub(super) fn parse_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (1.0..=1_000.0).contains(&factor) => Ok(factor),
        _ => Err("expected how many times as long it takes, from 1 to 1000".to_owned()),
    }
}

/// Hours above 0, up to 366 days.
pub(super) fn parse_hours_of_run(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if hours > 0.0 && hours * 3_600.0 <= TIME_MAX_S => Ok(hours),
        _ => Err("expected hours, above 0 and at most 8784 (366 days)".to_owned()),
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
    fn times_have_units() {
        let secs = |secs| Ok(Duration::from_secs(secs));
        assert_eq!(parse_length("45m"), secs(2_700));
        assert_eq!(parse_length("1h30m"), secs(5_400));
        assert_eq!(parse_length("1.5h"), secs(5_400));
        assert_eq!(parse_length("3600s"), secs(3_600));
        assert_eq!(parse_when("peak"), Ok(When::Peak));
        assert_eq!(parse_when("14:30"), secs(52_200).map(When::At));
        assert_eq!(parse_when("2h"), secs(7_200).map(When::At));
        assert_eq!(parse_when("0"), Ok(When::At(Duration::ZERO)));
        for bad in [
            "", "45", "m", "-1m", "0m", "1x", "1mm", "nan", "infs", "1e9s", "400d", "1.2.3s", "é",
            "1é",
        ] {
            assert!(parse_length(bad).is_err(), "{bad}");
        }
        for bad in [
            "24:00", "1:60", ":", "1:2:3", "-1:00", "+1:00", "noon", "Peak", "001:00",
        ] {
            assert!(parse_when(bad).is_err(), "{bad}");
        }
        for bad in ["0.5", "nan", "inf", "", "1001"] {
            assert!(parse_factor(bad).is_err(), "{bad}");
        }
        for bad in ["0", "-1", "nan", "8785"] {
            assert!(parse_hours_of_run(bad).is_err(), "{bad}");
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
