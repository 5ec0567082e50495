//! Fault scripts: which requests a stand-in does not simply answer, and what happens instead.
//!
//! A rule is a function of the request's number, the attempt and the route. Nothing is used up and
//! nothing depends on who asks first, so every fidelity and every number of threads sees the same
//! faults.

use std::sync::Arc;

use crate::router::FaultKind;
use crate::source::{At, Diagnostics, Document, SourceFile, Table, Value};
use crate::units::{Duration, Probability, mix64};
use crate::wire::Headers;

/// Most rules of one script.
pub const RULES_MAX: usize = 1_000;
/// Most seconds of a wait in a script.
const SECONDS_MAX: f64 = 86_400.0;
/// Keeps a script's draws apart from all others.
const DRAW: u64 = 0x6661_756c_7473_2e31;

/// How a body is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It ends as if all were said.
    Clean,
    /// The connection breaks.
    Reset,
}

/// What happens to an answer. `after` counts pieces of content (words, pieces of tool calls); an answer
/// with fewer is cut before its end. An answer that is sent at once has no pieces: it fails as a whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// This status, headers and body instead.
    Status {
        /// HTTP status.
        status: u16,
        /// Headers.
        headers: Headers,
        /// The body.
        body: Vec<u8>,
    },
    /// A failure of this kind, in the provider's own words.
    Kind {
        /// Which.
        kind: FaultKind,
        /// What the provider asks the caller to wait.
        retry_after: Option<Duration>,
    },
    /// The stream begins, then an error frame ends it.
    ErrorFrame {
        /// Which error.
        kind: FaultKind,
        /// Pieces of content before it.
        after: u32,
    },
    /// The answer is cut off.
    Cut {
        /// Pieces of content before it.
        after: u32,
        /// How.
        how: Cut,
    },
    /// The answer stops and the connection stays open.
    Stall {
        /// Pieces of content before it.
        after: u32,
    },
    /// The whole answer comes this much later.
    SlowFirstToken {
        /// How much.
        delay: Duration,
    },
    /// A frame that is no JSON.
    BrokenFrame {
        /// Pieces of content before it.
        after: u32,
    },
    /// Keep-alives and nothing else, for ever.
    KeepAlivesOnly,
}

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Names of routes or models; all if empty.
    pub routes: Vec<At<String>>,
    /// The first request it holds for.
    pub skip: u64,
    /// How many requests from there.
    pub first: u64,
    /// Share of those.
    pub share: Probability,
    /// It holds for the first so many attempts of a request at a route.
    pub attempts: u8,
    /// What happens.
    pub act: Act,
}

/// A fault script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The first rule that holds decides.
    pub rules: Vec<Rule>,
}

impl Faults {
    /// What happens to `attempt` (from 1) of request `number` at a route known by these names.
    #[must_use]
    pub fn act(&self, names: &[&str], number: u64, attempt: u8) -> Option<&Act> {
        let (_, rule) = self.rules.iter().enumerate().find(|(index, rule)| {
            (rule.routes.is_empty()
                || rule
                    .routes
                    .iter()
                    .any(|r| names.contains(&r.value.as_str())))
                && number >= rule.skip
                && number - rule.skip < rule.first
                && attempt <= rule.attempts
                && {
                    let key = mix64(DRAW ^ *index as u64);
                    let lane = (mix64(number ^ key) >> 32) as u32;
                    u64::from(lane) < rule.share.threshold()
                }
        })?;
        Some(&rule.act)
    }

    /// Whether a rule can leave a caller waiting until its own limits end that.
    #[must_use]
    pub fn can_hang(&self) -> bool {
        let hangs = |act: &Act| matches!(act, Act::Stall { .. } | Act::KeepAlivesOnly);
        self.rules.iter().any(|rule| hangs(&rule.act))
    }

    /// What is wrong with the names in the rules, where these are known.
    #[must_use]
    pub fn check_names(&self, known: &[&str]) -> Diagnostics {
        let named = self.rules.iter().flat_map(|rule| &rule.routes);
        let unknown = named.filter(|name| !known.contains(&name.value.as_str()));
        Diagnostics(
            unknown
                .map(|name| name.unknown("route", known.iter().copied()))
                .collect(),
        )
    }
}

/// Reads a script; `None`, with the reasons in `diagnostics`, if anything in it is wrong.
#[must_use]
pub fn parse(file: &Arc<SourceFile>, diagnostics: &mut Diagnostics) -> Option<Faults> {
    let document = Document::parse(file);
    let context = document.context();
    let mut root = document.table(&context);
    let mut rules = Vec::new();
    if let Some(list) = root.require("fault").and_then(|value| {
        let list = value.list();
        if list.as_ref().is_some_and(|list| list.len() > RULES_MAX) {
            value.error(format!("at most {RULES_MAX} rules fit in one script"));
            return None;
        }
        list
    }) {
        for value in list {
            if let Some(table) = value.table() {
                rules.extend(rule(table));
            }
        }
    }
    root.finish();
    let wrong = context.has_errors();
    context.finish(diagnostics);
    (!wrong).then_some(Faults { rules })
}

/// What a rule may do, one key each.
const ACTS: [&str; 9] = [
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

fn rule(mut table: Table<'_>) -> Option<Rule> {
    let routes = table
        .get("route")
        .and_then(|value| {
            if value.is_str() {
                value.string().map(|name| vec![name])
            } else {
                value.strings()
            }
        })
        .unwrap_or_default();
    let whole = |value: Value<'_>| value.integer_in(0, u64::MAX >> 1);
    let skip = table.get("skip").and_then(whole).unwrap_or(0);
    let first = table.get("first").and_then(whole).unwrap_or(u64::MAX);
    let share = table.get("share").and_then(|value| value.probability());
    let attempts = table
        .get("attempts")
        .and_then(|value| value.integer_in(1, 255));
    let mut acts = Vec::new();
    for key in ACTS {
        if let Some(value) = table.get(key) {
            acts.push((key, value));
        }
    }
    let headers = table.get("headers");
    let body = table.get("body");
    let retry_after = table.get("retry_after_s");
    let act = match acts.as_slice() {
        [(key, value)] => {
            if *key != "status" {
                for stray in [&headers, &body].into_iter().flatten() {
                    stray.error_help(
                        format!("`{}` goes with `status` only", stray.path()),
                        "with `kind`, status, headers and body are those of the provider",
                    );
                }
            }
            if *key != "kind"
                && let Some(stray) = &retry_after
            {
                stray.error_help(
                    format!("`{}` goes with `kind` only", stray.path()),
                    "with `status`, write `headers = { retry-after = \"2\" }`",
                );
            }
            act(key, value, headers, body, retry_after)
        }
        [] => {
            table.error(format!(
                "a rule needs one of {}",
                crate::source::describe_list(ACTS)
            ));
            None
        }
        [(first, _), (second, value), ..] => {
            value.error(format!(
                "a rule does one thing, and this one already has `{first}` beside `{second}`"
            ));
            None
        }
    };
    table.finish();
    Some(Rule {
        routes,
        skip,
        first,
        share: share.unwrap_or(Probability::ONE),
        attempts: attempts.map_or(u8::MAX, |n| n as u8),
        act: act?,
    })
}

fn act(
    key: &str,
    value: &Value<'_>,
    headers: Option<Value<'_>>,
    body: Option<Value<'_>>,
    retry_after: Option<Value<'_>>,
) -> Option<Act> {
    Some(match key {
        "status" => {
            let headers = headers.map(|value| self::headers(&value));
            let body = body.and_then(|value| value.string());
            Act::Status {
                status: value.integer_in(200, 599)? as u16,
                headers: headers.unwrap_or_default(),
                body: body.map_or_else(Vec::new, |text| text.value.into_bytes()),
            }
        }
        "kind" => Act::Kind {
            kind: kind(value)?,
            retry_after: match retry_after {
                Some(value) => Some(seconds(&value)?),
                None => None,
            },
        },
        "error_frame" => {
            let mut table = value.table()?;
            let kind = table.require("kind").and_then(|value| kind(&value));
            let after = after(&mut table);
            table.finish();
            Act::ErrorFrame {
                kind: kind?,
                after: after?,
            }
        }
        "slow_first_token_s" => Act::SlowFirstToken {
            delay: seconds(value)?,
        },
        "keep_alives_only" => {
            if !value.boolean()? {
                value.error("`keep_alives_only` is true or absent");
                return None;
            }
            Act::KeepAlivesOnly
        }
        _ => {
            let mut table = value.table()?;
            let after = after(&mut table);
            table.finish();
            let after = after?;
            match key {
                "cut" => Act::Cut {
                    after,
                    how: Cut::Clean,
                },
                "reset" => Act::Cut {
                    after,
                    how: Cut::Reset,
                },
                "stall" => Act::Stall { after },
                _ => Act::BrokenFrame { after },
            }
        }
    })
}

fn headers(value: &Value<'_>) -> Headers {
    let Some(mut table) = value.table() else {
        return Headers::default();
    };
    // Line breaks would end the header and begin another.
    let plain = |text: &str| text.chars().all(|c| (' '..='~').contains(&c));
    let name_like = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.!#$%&'*+^`|~".contains(c);
        !name.is_empty() && name.chars().all(allowed)
    };
    table
        .entries()
        .into_iter()
        .filter_map(|(name, value)| {
            let text = value.string()?;
            if !name_like(&name.value) || !plain(&text.value) {
                value.error("a header has a name without spaces and a value of printable ASCII");
            }
            Some((name.value, text.value))
        })
        .collect()
}

fn after(table: &mut Table<'_>) -> Option<u32> {
    match table.get("after") {
        Some(value) => value.integer_in(0, u64::from(u32::MAX)).map(|n| n as u32),
        None => Some(0),
    }
}

fn kind(value: &Value<'_>) -> Option<FaultKind> {
    let names = FaultKind::ALL.map(FaultKind::name);
    value
        .one_of("kind of failure", &names)
        .map(|index| FaultKind::ALL[index])
}

fn seconds(value: &Value<'_>) -> Option<Duration> {
    value
        .number_in(0.0, SECONDS_MAX)
        .map(Duration::from_secs_f64)
}
