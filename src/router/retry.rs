//! How long to wait before asking the same route again, and how to read what a provider asked for.
//!
//! A hint is a minimum: the waits computed here are never shorter than it, and one that is longer
//! than the caller is willing to wait sends the call to the next route instead.

use crate::units::{Duration, mix64};

/// How the backoff is spread out, so that callers that failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Exactly the backoff.
    None,
    /// Uniform between zero and the backoff (AWS's "full jitter").
    Full,
    /// Half the backoff, and a uniform part up to the other half (AWS's "equal jitter").
    Equal,
    /// The backoff times a uniform factor.
    Spread {
        /// Least factor, in percent.
        low_percent: u32,
        /// Greatest factor, in percent.
        high_percent: u32,
    },
}

/// What a provider's hint does to the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintUse {
    /// The longer of backoff and hint.
    Longer,
    /// The hint in place of the backoff.
    Instead,
    /// Nothing. Only for presets of gateways that do not read it.
    Ignored,
}

/// How long to wait between two attempts on the same route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitPolicy {
    /// Backoff after the first attempt.
    pub base: Duration,
    /// Each further backoff is this many times the one before.
    pub factor: u32,
    /// Longest backoff, before jitter.
    pub cap: Duration,
    /// How the backoff is spread.
    pub jitter: Jitter,
    /// A uniform time between zero and this is added to whatever wait comes out.
    pub extra: Duration,
    /// What a hint does.
    pub hint: HintUse,
    /// A wait longer than this (not counting `extra`) is not begun: next route.
    pub wait_max: Duration,
}

impl Default for WaitPolicy {
    /// 0.5 s doubling to 8 s with equal jitter, or the hint if it is longer; 0.1 s on top; at most 10 s.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            factor: 2,
            cap: Duration::from_secs(8),
            jitter: Jitter::Equal,
            extra: Duration::from_millis(100),
            hint: HintUse::Longer,
            wait_max: Duration::from_secs(10),
        }
    }
}

/// The wait after `attempt` (from 1) failed, `None` if it would be longer than `wait_max`.
///
/// `u1` and `u2` are uniform fractions of 2³²: the first spreads the backoff, the second the extra.
#[must_use]
pub fn wait(
    policy: &WaitPolicy,
    hint: Option<Duration>,
    attempt: u8,
    u1: u32,
    u2: u32,
) -> Option<Duration> {
    let growth = u64::from(policy.factor).saturating_pow(u32::from(attempt.saturating_sub(1)));
    let backoff = Duration(policy.base.0.saturating_mul(growth)).min(policy.cap);
    let spread = match policy.jitter {
        Jitter::None => backoff,
        Jitter::Full => fraction(backoff, u1),
        Jitter::Equal => {
            let half = Duration(backoff.0 / 2);
            half.plus(fraction(Duration(backoff.0 - half.0), u1))
        }
        Jitter::Spread {
            low_percent,
            high_percent,
        } => {
            let low = percent(backoff, low_percent);
            low.plus(fraction(
                percent(backoff, high_percent.saturating_sub(low_percent)),
                u1,
            ))
        }
    };
    let wait = match (policy.hint, hint) {
        (HintUse::Longer, Some(hint)) => spread.max(hint),
        (HintUse::Instead, Some(hint)) => hint,
        (HintUse::Ignored, _) | (_, None) => spread,
    };
    (wait <= policy.wait_max).then(|| wait.plus(fraction(policy.extra, u2)))
}

fn fraction(of: Duration, u: u32) -> Duration {
    Duration(((u128::from(of.0) * u128::from(u)) >> 32) as u64)
}

fn percent(of: Duration, percent: u32) -> Duration {
    Duration(u64::try_from(u128::from(of.0) * u128::from(percent) / 100).unwrap_or(u64::MAX))
}

/// Two independent uniform 32-bit fractions from a call's jitter and a counter: the finaliser of
/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) over the counter's Weyl sequence.
#[inline]
pub(super) fn uniforms(jitter: u64, counter: u32) -> (u32, u32) {
    let z = mix64(jitter.wrapping_add(u64::from(counter).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    ((z >> 32) as u32, z as u32)
}

/// The header `Retry-After` (RFC 9110, section 10.2.3): whole seconds or an HTTP-date; decimal
/// seconds are accepted as some providers send them. A date is taken relative to `wall`, the time
/// since the Unix epoch; a past one means now. `None` for anything else.
#[must_use]
pub fn retry_after(value: &str, wall: Duration) -> Option<Duration> {
    let value = value.trim();
    if let Some(wait) = decimal(value, 1_000_000) {
        return Some(wait);
    }
    let when = httpdate::parse_http_date(value).ok()?;
    let micros = when
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        });
    Some(Duration(micros.saturating_sub(wall.0)))
}

/// The headers `retry-after-ms` and `x-ms-retry-after-ms` (OpenAI and Azure): milliseconds, whole or
/// decimal.
#[must_use]
pub fn retry_after_ms(value: &str) -> Option<Duration> {
    decimal(value.trim(), 1_000)
}

/// `retryDelay` of Google's `RetryInfo` error detail: seconds with at most nine decimals and an `s`,
/// such as `34s` or `1.5s` (the JSON form of `google.protobuf.Duration`).
#[must_use]
pub fn retry_info(value: &str) -> Option<Duration> {
    decimal(value.trim().strip_suffix('s')?, 1_000_000)
}

/// What the headers of an answer ask for, whatever form they use: milliseconds go before seconds,
/// being more exact. `header` looks a header up by its lower-case name.
#[must_use]
pub fn hint<'a>(header: impl Fn(&str) -> Option<&'a str>, wall: Duration) -> Option<Duration> {
    header("retry-after-ms")
        .and_then(retry_after_ms)
        .or_else(|| header("x-ms-retry-after-ms").and_then(retry_after_ms))
        .or_else(|| header("retry-after").and_then(|value| retry_after(value, wall)))
}

/// Reads an unsigned decimal number in units of `unit` microseconds, rounded up to a microsecond
/// (a hint is a minimum), saturating.
fn decimal(text: &str, unit: u64) -> Option<Duration> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) {
        return None;
    }
    if text.ends_with('.') {
        return None;
    }
    let whole = whole.bytes().fold(0_u64, |value, byte| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(byte - b'0'))
    });
    // Digits beyond the nanosecond only matter by not being zero.
    let mut parts = 0_u64;
    let mut scale = 1_u64;
    let mut rest = false;
    for byte in decimals.bytes() {
        if scale < 1_000_000_000 {
            parts = parts * 10 + u64::from(byte - b'0');
            scale *= 10;
        } else {
            rest |= byte != b'0';
        }
    }
    let scaled = parts * unit;
    let micros = scaled.div_ceil(scale) + u64::from(rest && scaled.is_multiple_of(scale));
    Some(Duration(whole.saturating_mul(unit).saturating_add(micros)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 1994-11-06 08:49:37 UTC, the instant of RFC 9110's example.
    const RFC_INSTANT: Duration = Duration::from_secs(784_111_777);

    #[test]
    fn rb03_tr05_every_documented_form_is_read() {
        let s = Duration::from_secs;
        let ms = Duration::from_millis;
        assert_eq!(retry_after("120", RFC_INSTANT), Some(s(120)));
        assert_eq!(retry_after(" 0 ", RFC_INSTANT), Some(Duration::ZERO));
        assert_eq!(retry_after("1.5", RFC_INSTANT), Some(ms(1500)));
        assert_eq!(retry_after_ms("250"), Some(ms(250)));
        assert_eq!(retry_after_ms("0.5"), Some(Duration(500)));
        assert_eq!(retry_info("34s"), Some(s(34)));
        assert_eq!(retry_info("1.5s"), Some(ms(1500)));
        assert_eq!(retry_info("0.000000001s"), Some(Duration(1)));
        let before = Duration(RFC_INSTANT.0 - 90_000_000);
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(retry_after(date, before), Some(s(90)), "{date}");
            let after = RFC_INSTANT.plus(s(5));
            assert_eq!(retry_after(date, after), Some(Duration::ZERO), "{date}");
        }
    }

    #[test]
    fn bad_text_is_no_hint_and_huge_values_saturate() {
        for bad in [
            "", "-1", "+1", "1,5", "soon", "1e3", "NaN", "inf", ".5", "1.", "1.5.2", "٣", "1 s",
        ] {
            assert_eq!(retry_after(bad, RFC_INSTANT), None, "{bad:?}");
            assert_eq!(retry_after_ms(bad), None, "{bad:?}");
            assert_eq!(retry_info(bad), None, "{bad:?}");
        }
        assert_eq!(retry_info("34"), None);
        let huge = "9".repeat(400);
        assert_eq!(retry_after(&huge, RFC_INSTANT), Some(Duration::MAX));
        assert_eq!(retry_after_ms(&huge), Some(Duration::MAX));
        let long = format!("1.{huge}");
        assert_eq!(retry_after(&long, RFC_INSTANT), Some(Duration(2_000_000)));
    }

    #[test]
    fn the_more_exact_header_wins() {
        let headers = |name: &str| match name {
            "retry-after-ms" => Some("1500"),
            "retry-after" => Some("2"),
            _ => None,
        };
        assert_eq!(
            hint(headers, RFC_INSTANT),
            Some(Duration::from_millis(1500))
        );
        let odd = |name: &str| match name {
            "x-ms-retry-after-ms" => Some("soon"),
            "retry-after" => Some("2"),
            _ => None,
        };
        assert_eq!(hint(odd, RFC_INSTANT), Some(Duration::from_secs(2)));
        assert_eq!(hint(|_| None, RFC_INSTANT), None);
    }

    proptest! {
        #[test]
        fn a_hint_is_never_shortened(
            hint in 0_u64..100_000_000,
            attempt in 0_u8..40,
            u1: u32,
            u2: u32,
            form in 0_usize..4,
            hint_use in prop_oneof![Just(HintUse::Longer), Just(HintUse::Instead)],
        ) {
            let forms = [
                Jitter::None,
                Jitter::Full,
                Jitter::Equal,
                Jitter::Spread { low_percent: 80, high_percent: 120 },
            ];
            let policy = WaitPolicy { jitter: forms[form], hint: hint_use, ..WaitPolicy::default() };
            let hint = Duration(hint);
            if let Some(wait) = wait(&policy, Some(hint), attempt, u1, u2) {
                prop_assert!(wait >= hint);
                prop_assert!(wait <= policy.wait_max.plus(policy.extra));
            } else {
                prop_assert!(hint > policy.wait_max || policy.jitter == forms[3]);
            }
        }

        #[test]
        fn any_text_is_read_without_panic(text in ".{0,40}") {
            let _ = (retry_after(&text, RFC_INSTANT), retry_after_ms(&text), retry_info(&text));
        }
    }
}
