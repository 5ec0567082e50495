//! Decimal numbers as people write them, exactly: `0.1` is one tenth, and ten steps of it are one.

use std::fmt;

/// Most digits behind the point.
const SCALE_MAX: u32 = 12;
/// Largest absolute value, so that sums and products of steps fit.
const VALUE_MAX: i128 = 1_000_000_000_000_000;

/// `units` · 10^−`scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    units: i128,
    scale: u32,
}

impl Decimal {
    /// A decimal of at most [`SCALE_MAX`] digits behind the point, with an optional sign, underscores
    /// between digits and an optional exponent. `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        if exponent.abs() > 30 {
            return None;
        }
        let negative = mantissa.starts_with('-');
        let digits = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fine = |part: &str| {
            part.bytes().all(|b| b.is_ascii_digit() || b == b'_')
                && !part.starts_with('_')
                && !part.ends_with('_')
        };
        if whole.is_empty()
            || !fine(whole)
            || !fine(fraction)
            || (digits.contains('.') && fraction.is_empty())
        {
            return None;
        }
        let fraction = fraction.replace('_', "");
        let mut units: i128 = 0;
        for digit in whole.replace('_', "").bytes().chain(fraction.bytes()) {
            units = units
                .checked_mul(10)?
                .checked_add(i128::from(digit - b'0'))?;
        }
        let mut scale = i64::try_from(fraction.len()).ok()? - i64::from(exponent);
        while scale < 0 {
            units = units.checked_mul(10)?;
            scale += 1;
        }
        while scale > 0 && units % 10 == 0 {
            units /= 10;
            scale -= 1;
        }
        let scale = u32::try_from(scale)
            .ok()
            .filter(|scale| *scale <= SCALE_MAX)?;
        let one = Self {
            units: if negative { -units } else { units },
            scale,
        };
        (units <= VALUE_MAX * 10_i128.pow(scale)).then_some(one)
    }

    /// The same value with this many digits behind the point, which are no fewer than it has.
    fn units_at(self, scale: u32) -> i128 {
        self.units * 10_i128.pow(scale - self.scale)
    }

    /// `first`, `first + step`, … up to `last`, which is among them if a whole number of steps leads to
    /// it. `None` if the step is zero or leads away from `last`, or there are more than `most`, whose
    /// number is then the error.
    pub(super) fn range(
        first: Self,
        last: Self,
        step: Self,
        most: usize,
    ) -> Result<Vec<Self>, Amiss> {
        let scale = first.scale.max(last.scale).max(step.scale);
        let [from, to, by] = [first, last, step].map(|one| one.units_at(scale));
        if by == 0 {
            return Err(Amiss::NoStep);
        }
        let steps = (to - from) / by;
        if (to - from).signum() * by.signum() < 0 {
            return Err(Amiss::Away);
        }
        if steps >= most as i128 {
            return Err(Amiss::TooMany(steps + 1));
        }
        // The i-th from the first, not from the one before: nothing adds up.
        Ok((0..=steps)
            .map(|i| Self {
                units: from + i * by,
                scale,
            })
            .collect())
    }
}

/// Why a range is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amiss {
    /// The step is zero.
    NoStep,
    /// The step leads away from the end.
    Away,
    /// So many values.
    TooMany(i128),
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u128.pow(self.scale);
        let (units, sign) = (
            self.units.unsigned_abs(),
            if self.units < 0 { "-" } else { "" },
        );
        write!(f, "{sign}{}", units / one)?;
        let fraction = format!("{:0width$}", units % one, width = self.scale as usize);
        match fraction.trim_end_matches('0') {
            "" => Ok(()),
            digits => write!(f, ".{digits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: &str, last: &str, step: &str) -> Result<Vec<String>, Amiss> {
        let [first, last, step] = [first, last, step].map(|text| Decimal::parse(text).unwrap());
        Decimal::range(first, last, step, 1000)
            .map(|all| all.iter().map(Decimal::to_string).collect())
    }

    #[test]
    fn tenths_add_up_to_one() {
        let tenths = range("0", "1", "0.1").unwrap();
        assert_eq!(
            tenths,
            [
                "0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"
            ]
        );
        // As floats, 3 · 0.1 is 0.30000000000000004.
        assert_eq!(range("0", "0.3", "0.1").unwrap().last().unwrap(), "0.3");
    }

    #[test]
    fn ranges_go_down_too_and_stop_before_their_end_if_they_miss_it() {
        assert_eq!(range("1", "-1", "-0.75").unwrap(), ["1", "0.25", "-0.5"]);
        assert_eq!(range("5", "5", "1").unwrap(), ["5"]);
        assert_eq!(range("0", "1e3", "5e2").unwrap(), ["0", "500", "1000"]);
        assert_eq!(range("0", "1", "0"), Err(Amiss::NoStep));
        assert_eq!(range("0", "1", "-1"), Err(Amiss::Away));
        assert_eq!(range("0", "1", "0.001"), Err(Amiss::TooMany(1001)));
        assert_eq!(
            range("-1e15", "1e15", "1e-12"),
            Err(Amiss::TooMany(2 * 10_i128.pow(27) + 1))
        );
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        for bad in [
            "",
            "-",
            ".",
            "1.",
            ".5",
            "1e",
            "1e99",
            "0x10",
            "nan",
            "inf",
            "1_",
            "_1",
            "1 ",
            "--1",
            "1e16",
            "0.0000000000001",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(Decimal::parse(bad), None, "{bad}");
        }
        assert_eq!(Decimal::parse("-0").unwrap().to_string(), "0");
        assert_eq!(Decimal::parse("1_000.50").unwrap().to_string(), "1000.5");
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_was_read(units in -1_000_000_000_i64..1_000_000_000, scale in 0_u32..9) {
            let one = Decimal { units: units.into(), scale };
            let again = Decimal::parse(&one.to_string()).unwrap();
            prop_assert_eq!(again.units_at(9), one.units_at(9));
        }

        #[test]
        fn no_text_makes_it_panic(text in "[-+0-9._eE]{0,50}") {
            let _ = Decimal::parse(&text).map(|one| one.to_string());
        }
    }
}
