//! One line of the log: what a stand-in wrote down about a request that came in.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::router::{FaultKind, retry};
use crate::units::{Duration, Instant};

/// Longest time a log may span, in milliseconds: a bit more than thirty years.
const AT_MAX_MS: f64 = 1e12;
/// Longest name, id or model that is kept; stand-ins write no longer ones.
const CHARS_MAX: usize = 200;

/// A line as it is written. Fields that nobody here needs are passed over.
#[derive(Debug, Deserialize)]
struct Written {
    seq: u64,
    at_ms: f64,
    method: String,
    status: u16,
    dialect: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Option<String>>,
    model: Option<String>,
    body_sha256: Option<String>,
    conversation_sha256: Option<String>,
    fault: Option<String>,
    kind: Option<String>,
    #[serde(default)]
    answer_headers: BTreeMap<String, String>,
}

/// How an attempt ended, as far as the stand-in knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failed {
    /// HTTP status; 200 for an answer that broke off.
    pub(super) status: u16,
    /// Which of the ten kinds it is to a caller.
    pub(super) kind: FaultKind,
    /// What spoilt it: an entry of [`FAULTS`], or nothing.
    pub(super) fault: Option<&'static str>,
}

/// What the answer said about the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    None,
    /// Wait as long as this.
    Wait(Duration),
    /// It said something that the log cannot tell, such as a date: there is no date in a log.
    Unreadable,
}

/// A line, understood.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) seq: u64,
    /// Since the server began.
    pub(super) at: Instant,
    /// Whether it asked for a completion, or meant to.
    pub(super) is_attempt: bool,
    pub(super) dialect: String,
    pub(super) model: Option<String>,
    pub(super) route: Option<String>,
    pub(super) body: Option<String>,
    pub(super) conversation: Option<String>,
    pub(super) failed: Option<Failed>,
    pub(super) hint: Hint,
    headers: BTreeMap<String, Option<String>>,
}

/// What fault scripts call the ways to spoil an answer, and whether the status still says 200.
const FAULTS: [&str; 9] = [
    "status",
    "kind",
    "error_frame",
    "cut",
    "reset",
    "stall",
    "slow_first_token_s",
    "broken_frame",
    "keep_alives_only",
];

/// What is wrong with a line: the message, and the column (from 1) if it is known.
pub(super) type Problem = (String, Option<usize>);

impl Row {
    /// Reads a line.
    pub(super) fn read(line: &[u8]) -> Result<Self, Problem> {
        let written: Written = serde_json::from_slice(line).map_err(|error| {
            // The parser saw one line only, so that its "line 1" would mislead.
            let text = error.to_string();
            let what = text.split(" at line ").next().unwrap_or_default();
            let column = error.column();
            (what.to_owned(), (column > 0).then_some(column))
        })?;
        let wrong = |what: String| Err((what, None));
        if !(0.0..=AT_MAX_MS).contains(&written.at_ms) {
            return wrong(format!(
                "`at_ms` must be between 0 and {AT_MAX_MS}, but is {}",
                written.at_ms
            ));
        }
        if !(100..=599).contains(&written.status) {
            return wrong(format!(
                "`status` must be an HTTP status, but is {}",
                written.status
            ));
        }
        let fault = match written.fault.as_deref() {
            None => None,
            Some(name) => match FAULTS.iter().find(|known| **known == name) {
                Some(known) => Some(*known),
                None => return wrong(format!("there is no fault `{}`", short(name))),
            },
        };
        let kind = match written.kind.as_deref() {
            None => None,
            Some(name) => match FaultKind::from_name(name) {
                Some(kind) => Some(kind),
                None => return wrong(format!("there is no kind of failure `{}`", short(name))),
            },
        };
        let refused = written.status >= 400;
        let is_attempt = written.model.is_some()
            || (written.method == "POST" && written.dialect.is_some() && refused);
        let header = |name: &str| written.headers.get(name).and_then(Option::as_deref);
        let route = header("x-routelab-route").map(short);
        Ok(Self {
            seq: written.seq,
            at: Instant((written.at_ms * 1_000.0).round() as u64),
            is_attempt,
            dialect: short(written.dialect.as_deref().unwrap_or_default()),
            model: written.model.as_deref().map(short),
            route,
            body: written.body_sha256,
            conversation: written.conversation_sha256,
            failed: failed(written.status, fault, kind),
            hint: hint(&written.answer_headers),
            headers: written.headers,
        })
    }

    /// The value of a header, if it came and was written down.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let value = self.headers.get(name)?.as_deref()?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// The trace id of a `traceparent` (W3C Trace Context, 2021: version, trace id, parent id, flags); an id
    /// of zeros only is none.
    pub(super) fn trace_id(&self) -> Option<&str> {
        let mut parts = self.header("traceparent")?.split('-');
        let id = parts.nth(1)?;
        let is_id = id.len() == 32
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
            && id.bytes().any(|byte| byte != b'0');
        is_id.then_some(id)
    }
}

pub(super) fn short(text: &str) -> String {
    text.chars().take(CHARS_MAX).collect()
}

fn failed(status: u16, fault: Option<&'static str>, kind: Option<FaultKind>) -> Option<Failed> {
    let by_fault = match fault {
        Some("error_frame" | "cut" | "reset" | "broken_frame") => Some(FaultKind::Server),
        // Nothing more comes: it ends when the caller's patience does.
        Some("stall" | "keep_alives_only") => Some(FaultKind::Timeout),
        _ => None,
    };
    let by_status = (!(200..300).contains(&status)).then(|| of_status(status));
    let found = by_fault.or(by_status)?;
    Some(Failed {
        status,
        kind: kind.unwrap_or(found),
        fault,
    })
}

/// What a bare status most often means with providers, for lines that name no kind.
fn of_status(status: u16) -> FaultKind {
    match status {
        401 | 403 => FaultKind::Auth,
        402 => FaultKind::Quota,
        408 | 504 => FaultKind::Timeout,
        429 => FaultKind::RateLimit,
        // 529 is Anthropic's word for it.
        503 | 529 => FaultKind::Overloaded,
        500..=599 => FaultKind::Server,
        _ => FaultKind::InvalidRequest,
    }
}

fn hint(headers: &BTreeMap<String, String>) -> Hint {
    let names = ["retry-after-ms", "x-ms-retry-after-ms", "retry-after"];
    let given: Vec<&str> = names
        .iter()
        .filter_map(|name| headers.get(*name).map(String::as_str))
        .collect();
    if given.is_empty() {
        return Hint::None;
    }
    // Only numbers: what a date comes to depends on when it was sent.
    let number = |name: &str| {
        let value = headers.get(name)?.as_str();
        value
            .trim()
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(value)
    };
    match retry::hint(number, Duration::ZERO) {
        Some(wait) => Hint::Wait(wait),
        None => Hint::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(more: &str) -> Result<Row, Problem> {
        Row::read(
            format!(
                r#"{{"seq":1,"at_ms":2.5,"method":"POST","dialect":"openai","status":200{more}}}"#
            )
            .as_bytes(),
        )
    }

    #[test]
    fn what_failed_is_told_by_kind_fault_or_status() {
        let kind = |more: &str| row(more).unwrap().failed.map(|failed| failed.kind);
        assert_eq!(kind(r#","model":"m""#), None);
        assert_eq!(kind(r#","fault":"slow_first_token_s""#), None);
        assert_eq!(kind(r#","fault":"cut""#), Some(FaultKind::Server));
        assert_eq!(kind(r#","fault":"stall""#), Some(FaultKind::Timeout));
        assert_eq!(
            kind(r#","fault":"error_frame","kind":"overloaded""#),
            Some(FaultKind::Overloaded)
        );
        for (status, wanted) in [
            (429, FaultKind::RateLimit),
            (529, FaultKind::Overloaded),
            (500, FaultKind::Server),
            (401, FaultKind::Auth),
            (404, FaultKind::InvalidRequest),
            (302, FaultKind::InvalidRequest),
        ] {
            assert_eq!(failed(status, None, None).unwrap().kind, wanted, "{status}");
        }
        let quota = failed(429, Some("kind"), Some(FaultKind::Quota)).unwrap();
        assert_eq!(quota.kind, FaultKind::Quota, "its own word goes first");
    }

    #[test]
    fn hints_are_read_in_every_form_but_a_date() {
        let of = |headers: &str| {
            row(&format!(r#","answer_headers":{headers}"#))
                .unwrap()
                .hint
        };
        assert_eq!(of("{}"), Hint::None);
        assert_eq!(
            of(r#"{"retry-after":"2"}"#),
            Hint::Wait(Duration::from_secs(2))
        );
        assert_eq!(
            of(r#"{"retry-after":"2","retry-after-ms":"1500"}"#),
            Hint::Wait(Duration::from_millis(1_500))
        );
        for text in ["Thu, 01 Jan 1970 00:00:30 GMT", "soon", "-1", ""] {
            let found = of(&format!(r#"{{"retry-after":"{text}"}}"#));
            assert_eq!(found, Hint::Unreadable, "{text}");
        }
    }

    #[test]
    fn a_trace_id_is_the_second_part_of_a_traceparent() {
        let id = |value: &str| {
            let row = row(&format!(r#","headers":{{"traceparent":"{value}"}}"#)).unwrap();
            row.trace_id().map(str::to_owned)
        };
        let good = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(
            id(&format!("00-{good}-00f067aa0ba902b7-01")).as_deref(),
            Some(good)
        );
        assert_eq!(
            id("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
            None
        );
        assert_eq!(id("00-xyz-1-01"), None);
        assert_eq!(id(""), None);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (more, wanted) in [
            (r#","fault":"meteor""#, "no fault `meteor`"),
            (r#","kind":"sad""#, "no kind of failure `sad`"),
            (r#","at_ms":1"#, "duplicate field `at_ms`"),
            (r#","model":3"#, "expected a string"),
        ] {
            let (found, _) = row(more).unwrap_err();
            assert!(found.contains(wanted), "{found}");
        }
        let (found, column) = Row::read(b"{\"seq\": -1}").unwrap_err();
        assert!(
            found.contains("invalid value") && column == Some(10),
            "{found} {column:?}"
        );
        let line = br#"{"seq":1,"at_ms":-1,"method":"GET","status":200}"#;
        assert!(Row::read(line).unwrap_err().0.contains("`at_ms` must be"));
        let line = br#"{"seq":1,"at_ms":1,"method":"GET","status":999}"#;
        assert!(Row::read(line).unwrap_err().0.contains("an HTTP status"));
    }
}
