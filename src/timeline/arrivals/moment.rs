//! Dates with a time of day, as traces write them.

/// Ticks of a second: Azure's times have seven digits after the point.
pub(super) const TICKS: i64 = 10_000_000;

/// `YYYY-MM-DD HH:MM:SS[.fraction][Z|±HH:MM]` in ticks since the year 0; digits beyond the seventh are cut.
pub(super) fn moment(text: &str) -> Option<i64> {
    let digits = |range: std::ops::Range<usize>| -> Option<i64> {
        let part = text.get(range)?;
        let plain = part.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| part.parse().ok())?
    };
    let is = |at: usize, allowed: &str| {
        text.get(at..=at)
            .is_some_and(|found| allowed.contains(found))
    };
    if !(is(4, "-") && is(7, "-") && is(10, " T") && is(13, ":") && is(16, ":")) {
        return None;
    }
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [
        31,
        28 + i64::from(leap),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let length = *lengths.get(usize::try_from(month - 1).ok()?)?;
    if !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let before: i64 = lengths[..(month - 1) as usize].iter().sum();
    let past = year - 1;
    let days = 365 * year + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400);
    let mut seconds = (days + before + day) * 86_400 + hour * 3_600 + minute * 60 + second;
    let mut rest = &text[19..];
    let mut fraction = 0;
    if let Some(after) = rest.strip_prefix('.') {
        let end = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        if end == 0 {
            return None;
        }
        for place in 0..7 {
            let digit = after.as_bytes()[..end].get(place).map_or(0, |b| b - b'0');
            fraction = fraction * 10 + i64::from(digit);
        }
        rest = &after[end..];
    }
    match rest.as_bytes() {
        [] | [b'Z'] => {}
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
            if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) =>
        {
            let two = |a: &u8, b: &u8| i64::from(a - b'0') * 10 + i64::from(b - b'0');
            let offset = two(h1, h2) * 3_600 + two(m1, m2) * 60;
            seconds += if *sign == b'+' { -offset } else { offset };
        }
        _ => return None,
    }
    Some(seconds * TICKS + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates_of_the_gregorian_calendar() {
        let seconds = |a: &str, b: &str| (moment(b).unwrap() - moment(a).unwrap()) / TICKS;
        assert_eq!(
            seconds("1970-01-01 00:00:00", "2001-09-09 01:46:40"),
            1_000_000_000
        );
        assert_eq!(seconds("2023-12-31 23:59:59", "2024-01-01T00:00:00Z"), 1);
        assert_eq!(
            seconds("2024-02-28 00:00:00", "2024-03-01 00:00:00"),
            172_800
        );
        assert_eq!(
            seconds("1900-02-28 00:00:00", "1900-03-01 00:00:00"),
            86_400
        );
        assert_eq!(
            seconds("2024-05-10 00:00:00+02:00", "2024-05-10 00:00:00"),
            7_200
        );
        let ticks = |text: &str| moment(text).unwrap() % TICKS;
        assert_eq!(ticks("2023-11-16 18:17:03.9799600"), 9_799_600);
        assert_eq!(ticks("2023-11-16 18:17:03.97996009"), 9_799_600);
        assert_eq!(ticks("2023-11-16 18:17:03.5+00:00"), 5_000_000);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "0",
            "2023-11-16",
            "2023-02-29 00:00:00",
            "2023-13-01 00:00:00",
            "2023-00-01 00:00:00",
            "2023-01-00 00:00:00",
            "2023-01-01 24:00:00",
            "2023-01-01 00:00:00.",
            "2023-01-01 00:00:00 PST",
            "2023-01-01 00:00:00+2",
            "+023-01-01 00:00:00",
            "2023-01-01 00:00:0ä",
            "1700158623.5",
            "äääääääääää",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
