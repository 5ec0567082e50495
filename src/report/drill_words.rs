//! How a drill's reasons, effects and times are said.

use super::drill::{Drill, LimitName};
use super::format::decimal;
use super::notes::listed;
use crate::router::FaultKind;
use crate::sim::Reason;
use crate::timeline::{Dimension, Effect};
use crate::units::{Duration, Instant};

/// A kind of failure in words.
pub(super) fn kind(kind: FaultKind) -> String {
    kind.name().replace('_', " ")
}

/// `45 min`, `1 h 30 min`, `20 s`, `0.25 s`.
pub(super) fn length(length: Duration) -> String {
    let secs = length.as_secs_f64();
    if secs < 60.0 {
        let decimals = if secs.fract() == 0.0 { 0 } else { 2 };
        return format!("{} s", decimal(secs, decimals));
    }
    let minutes = (secs / 60.0).round() as u64;
    match (minutes / 1_440, minutes % 1_440 / 60, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, 0, 0) => format!("{days} d"),
        (days, hours, 0) => format!("{days} d {hours} h"),
        (days, hours, minutes) => format!("{days} d {hours} h {minutes} min"),
    }
}

/// `13:53`, `13:53:20`, `day 2, 0:30`: times count from the beginning of the run, which is midnight.
pub(super) fn clock(at: Instant) -> String {
    let secs = at.0 / 1_000_000;
    let (day, rest) = (secs / 86_400, secs % 86_400);
    let (hours, minutes, seconds) = (rest / 3_600, rest % 3_600 / 60, rest % 60);
    let mut text = if day > 0 {
        format!("day {}, {hours}:{minutes:02}", day + 1)
    } else {
        format!("{hours}:{minutes:02}")
    };
    if seconds > 0 {
        text.push_str(&format!(":{seconds:02}"));
    }
    text
}

/// What an incident does.
pub(super) fn effect(effect: Effect) -> String {
    let of = |share: f64| {
        if share >= 1.0 {
            "all".to_owned()
        } else {
            format!("{} % of", percent(share))
        }
    };
    match effect {
        Effect::Fail { kind: how, share } => {
            format!("{} attempts fail ({})", of(share.get()), kind(how))
        }
        Effect::Slow { factor } => format!("{factor} times as slow"),
        Effect::Cut { share } => {
            format!("{} answers break off", of(share.get()))
        }
    }
}

/// A share in percent, with as many digits as it needs.
fn percent(share: f64) -> String {
    super::format::margin_points(share)
}

/// The name of an effect in JSON.
pub(super) const fn effect_key(effect: Effect) -> &'static str {
    match effect {
        Effect::Fail { .. } => "fail",
        Effect::Slow { .. } => "slow",
        Effect::Cut { .. } => "cut",
    }
}

/// A limit with the routes behind it: "`secondary`: tokens per minute of limit `eu-2`".
fn limit(limit: &LimitName, what: Dimension) -> String {
    let of = if limit.routes == [limit.name.as_str()] {
        String::new()
    } else {
        format!(" of limit `{}`", limit.name)
    };
    let routes = listed(limit.routes.iter().map(String::as_str));
    format!("`{routes}`: {} per minute{of}", what.words())
}

impl Drill {
    /// Why nobody served a request.
    pub(super) fn reason(&self, reason: Reason) -> String {
        match reason {
            Reason::Residency => "its data may go to no route of the plan".to_owned(),
            Reason::NoCapableRoute => "no route of the plan can take it".to_owned(),
            Reason::Saturated(index, what) => match self.limits.get(usize::from(index)) {
                Some(one) => format!("{} used up", limit(one, what)),
                None => format!("{} per minute used up", what.words()),
            },
            Reason::Unavailable => "every route behind an open breaker or paused".to_owned(),
            Reason::Exhausted(how) => format!("every route failed, the last: {}", kind(how)),
            Reason::Rejected(how) => format!("failed for good: {}", kind(how)),
            Reason::MidStream(how) => format!("broke off in the middle: {}", kind(how)),
            Reason::Deadline => "the call's deadline".to_owned(),
            Reason::RetryBudget => "the retry budget was spent".to_owned(),
            Reason::MoneyBudget => "the account could not pay".to_owned(),
        }
    }

    /// What callers expect, in words.
    pub(super) fn slo_in_words(&self) -> String {
        let mut parts = Vec::new();
        for (what, limit) in [
            ("first token", self.slo.ttft),
            ("whole answer", self.slo.total),
        ] {
            if limit != Duration::MAX {
                parts.push(format!("{what} within {}", length(limit)));
            }
        }
        if parts.is_empty() {
            "no SLO".to_owned()
        } else {
            format!("SLO: {}", parts.join(", "))
        }
    }
}

/// The name of a reason in JSON, without what it is about.
pub(super) const fn reason_key(reason: Reason) -> &'static str {
    match reason {
        Reason::Residency => "residency",
        Reason::NoCapableRoute => "no_capable_route",
        Reason::Saturated(..) => "saturated",
        Reason::Unavailable => "unavailable",
        Reason::Exhausted(_) => "exhausted",
        Reason::Rejected(_) => "rejected",
        Reason::MidStream(_) => "mid_stream",
        Reason::Deadline => "deadline",
        Reason::RetryBudget => "retry_budget",
        Reason::MoneyBudget => "money_budget",
    }
}

/// The kind of failure of a reason that has one.
pub(super) const fn reason_kind(reason: Reason) -> Option<FaultKind> {
    match reason {
        Reason::Exhausted(kind) | Reason::Rejected(kind) | Reason::MidStream(kind) => Some(kind),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Probability;

    #[test]
    fn times_are_said_as_people_say_them() {
        let said = |secs: f64| length(Duration::from_secs_f64(secs));
        assert_eq!(said(0.25), "0.25 s");
        assert_eq!(said(45.0 * 60.0), "45 min");
        assert_eq!(said(5_400.0), "1 h 30 min");
        assert_eq!(said(90_000.0), "1 d 1 h");
        let clock = |secs: u64| clock(Instant(secs * 1_000_000));
        assert_eq!(clock(50_000), "13:53:20");
        assert_eq!(clock(0), "0:00");
        assert_eq!(clock(88_200), "day 2, 0:30");
    }

    #[test]
    fn effects_are_said_with_their_share() {
        let share = |share| Probability::new(share).unwrap();
        let fail = |s| Effect::Fail {
            kind: FaultKind::RateLimit,
            share: share(s),
        };
        assert_eq!(effect(fail(1.0)), "all attempts fail (rate limit)");
        assert_eq!(effect(fail(0.25)), "25 % of attempts fail (rate limit)");
        assert_eq!(effect(Effect::Slow { factor: 3.0 }), "3 times as slow");
    }
}
