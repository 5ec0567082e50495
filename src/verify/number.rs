//! Accepts answers whose last number is in a range, or near enough to a value.

use super::{Check, Checked, Kind, Reading, Verifier};
use crate::router::Verdict;
use crate::source::Table;

pub(super) const KIND: Kind = Kind {
    name: "number",
    about: "Accepts an answer whose last number lies in `min` to `max`, or within `tolerance` of `value`; `1,234.5` is one number. \
            Good for sums and counts. Fails when a number follows the answer, and where a comma is the decimal point.",
    example: "verifier.number = { min = 0, max = 120, simulate = { passes = \"The answer is 42.\", fails = \"The answer is 1,042.\", pass_if_correct = 1.0, pass_if_wrong = 0.6 } }",
    read,
};

#[derive(Debug)]
enum Number {
    /// From, to.
    Within(f64, f64),
    /// Value, tolerance.
    Near(f64, f64),
}

impl Check for Number {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn check(&self, answer: &str) -> Verdict {
        let good = last_number(answer).is_some_and(|number| match *self {
            Self::Within(min, max) => (min..=max).contains(&number),
            Self::Near(value, tolerance) if tolerance > 0.0 => {
                // 0.3 − 0.29 is a little more than 0.01 in floats, and in nobody's mind.
                let slack = 4.0 * f64::EPSILON * number.abs().max(value.abs());
                (number - value).abs() <= tolerance + slack
            }
            Self::Near(value, _) => number == value,
        });
        if good {
            Verdict::Accept
        } else {
            Verdict::Reject
        }
    }
}

/// The last number in a text, in ASCII digits: with a sign, with `,`, `_`, `'` or a narrow space between
/// groups of three digits, with a fraction behind a point, with an exponent. One beyond what a float holds is
/// infinite, and no check accepts that.
fn last_number(text: &str) -> Option<f64> {
    let mut last = None;
    let mut at = 0;
    while let Some(digit) = text.get(at..)?.find(|c: char| c.is_ascii_digit()) {
        let start = at + digit;
        let mut digits = String::new();
        if minus_before(&text[..start]) {
            digits.push('-');
        }
        // `.5` has no digit before its point.
        if text[..start].ends_with('.')
            && !text[..start - 1].ends_with(|c: char| c.is_alphanumeric())
        {
            digits = String::from(if minus_before(&text[..start - 1]) {
                "-0."
            } else {
                "0."
            });
            at = take_digits(text, start, &mut digits);
        } else {
            at = take_groups(text, start, &mut digits);
            if text[at..].starts_with('.') && digit_at(text, at + 1) {
                digits.push('.');
                at = take_digits(text, at + 1, &mut digits);
            }
        }
        if let Some(mark) = exponent(&text[at..]) {
            digits.push_str(&text[at..at + mark]);
            at = take_digits(text, at + mark, &mut digits);
        }
        last = digits.parse().ok();
    }
    last.filter(|number: &f64| number.is_finite())
}

/// Whether a number that follows has a minus sign, which is no hyphen between words and no dash of a range.
fn minus_before(text: &str) -> bool {
    let sign = text
        .strip_suffix('-')
        .or_else(|| text.strip_suffix('\u{2212}'));
    sign.is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == ')'))
}

fn digit_at(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_some_and(u8::is_ascii_digit)
}

/// Takes the digits from `at` on; where they end.
fn take_digits(text: &str, at: usize, into: &mut String) -> usize {
    let rest = &text[at..];
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    into.push_str(&rest[..len]);
    at + len
}

/// Takes digits and further groups of exactly three behind a separator; where they end.
fn take_groups(text: &str, at: usize, into: &mut String) -> usize {
    const SEPARATORS: [char; 6] = [',', '_', '\'', '\u{a0}', '\u{2009}', '\u{202f}'];
    let mut end = take_digits(text, at, into);
    if end - at > 3 {
        return end;
    }
    while let Some(separator) = text[end..]
        .chars()
        .next()
        .filter(|c| SEPARATORS.contains(c))
    {
        let group = end + separator.len_utf8();
        let len = text[group..].bytes().take_while(u8::is_ascii_digit).count();
        if len != 3 {
            break;
        }
        end = take_digits(text, group, into);
    }
    end
}

/// Length of `e`, `e+` or `e-` if digits follow.
fn exponent(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(['e', 'E'])?;
    let signed = rest.starts_with(['+', '-']);
    digit_at(rest, usize::from(signed)).then_some(1 + usize::from(signed))
}

fn read(mut table: Table<'_>, _reading: &Reading<'_>) -> Option<Verifier> {
    let mut numbers = [None; 4];
    let mut present = [false; 4];
    let names = ["min", "max", "value", "tolerance"];
    for (index, name) in names.into_iter().enumerate() {
        if let Some(value) = table.get(name) {
            present[index] = true;
            numbers[index] = match name {
                "tolerance" => value.number_in(0.0, f64::MAX),
                _ => value.number(),
            };
        }
    }
    let all_read = present
        .iter()
        .zip(&numbers)
        .all(|(there, read)| *there == read.is_some());
    let check = match (present, numbers) {
        ([false, false, false, _], _) => {
            table.error("a `number` verifier needs `min`, `max` or both, or a `value`");
            None
        }
        ([min, max, true, _], _) if min || max => {
            table.error("a `number` verifier has either a range or a `value`, not both");
            None
        }
        ([_, _, false, true], _) => {
            table.error("`tolerance` goes with a `value`, not with a range");
            None
        }
        (_, [_, _, Some(value), tolerance]) => {
            all_read.then(|| Number::Near(value, tolerance.unwrap_or(0.0)))
        }
        (_, [min, max, ..]) => {
            let (min, max) = (min.unwrap_or(f64::MIN), max.unwrap_or(f64::MAX));
            if all_read && min > max {
                table.error(format!("no number lies between {min} and {max}"));
            }
            (all_read && min <= max).then_some(Number::Within(min, max))
        }
    };
    Checked::read(table, check.map(|check| Box::new(check) as Box<dyn Check>))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_read_as_a_person_reads_it() {
        let cases: &[(&str, Option<f64>)] = &[
            ("The answer is 42.", Some(42.0)),
            ("1,234,567.5 USD", Some(1_234_567.5)),
            ("first 3, then 14", Some(14.0)),
            ("1,2,3", Some(3.0)),
            ("12,3456", Some(3456.0)),
            ("1234,567", Some(567.0)),
            ("1_000_000", Some(1e6)),
            ("1'000", Some(1000.0)),
            ("12\u{202f}500\u{a0}km", Some(12_500.0)),
            ("-5", Some(-5.0)),
            ("\u{2212}5.25", Some(-5.25)),
            ("10-20", Some(20.0)),
            ("gpt-4", Some(4.0)),
            ("x = -.5", Some(-0.5)),
            (".75", Some(0.75)),
            ("6.02e23", Some(6.02e23)),
            ("1e-3.", Some(0.001)),
            ("5e", Some(5.0)),
            ("1,234kg", Some(1234.0)),
            ("3.4.5", Some(5.0)),
            ("1e999", None),
            ("none", None),
            ("", None),
            ("٣", None),
        ];
        for (text, want) in cases {
            assert_eq!(last_number(text), *want, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn numbers_are_found_behind_any_words(n in -1_000_000_000i64..1_000_000_000, words in "[a-z ]{0,20}") {
            let text = format!("{words} {n} {words}");
            proptest::prop_assert_eq!(last_number(&text), Some(n as f64));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}|[-+0-9.,_'eE \u{a0}\u{2212}]{0,40}") {
            if let Some(number) = last_number(&text) {
                proptest::prop_assert!(number.is_finite());
            }
        }
    }
}
