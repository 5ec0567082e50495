//! `explain` on logs: decisions that were made, and requests that went where they may not.
//!
//! A decision is *recorded* only if the record carries the digests of the very files that are given; else nobody
//! knows what decided, and what today's files say about it is *counterfactual*.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::screen::{Screen, visible};
use super::{Exit, drill_seen, inputs};
use crate::catalogue::{Catalogue, Route};
use crate::router::Regions;
use crate::source::{Diagnostic, Diagnostics, Location};
use crate::traffic::attempts;
use crate::traffic::seen;
use crate::traffic::{Attempt, Origin, Outcome};
use crate::units::Duration;

/// Most bytes at the beginning of a file by which it is told what it is.
const BEGINNING_BYTES: u64 = 1 << 20;
/// Most violations that are listed one by one.
const LISTED_MAX: usize = 1_000;

/// What a file of JSON lines holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Log {
    /// Attempts that `call --log` wrote.
    Attempts,
    /// What stand-ins saw.
    Seen,
}

/// What the file is, if it is a log rather than a workload or a table of outcomes.
pub(super) fn kind(path: &Path) -> Option<Log> {
    if !drill_seen::is_log(path) {
        return None;
    }
    let mut beginning = String::new();
    let mut file = open(path).ok()?;
    let mut first = file.as_mut().take(BEGINNING_BYTES);
    while beginning.trim().is_empty() {
        beginning.clear();
        if BufReader::new(&mut first).read_line(&mut beginning).ok()? == 0 {
            return None;
        }
    }
    if attempts::is_attempt(&beginning) {
        return Some(Log::Attempts);
    }
    let value: serde_json::Value = serde_json::from_str(&beginning).ok()?;
    (value.get("seq").is_some() && value.get("at_ms").is_some()).then_some(Log::Seen)
}

fn open(path: &Path) -> std::io::Result<Box<dyn std::io::Read>> {
    let file = File::open(path)?;
    Ok(if path.extension().is_some_and(|ending| ending == "gz") {
        Box::new(MultiGzDecoder::new(BufReader::new(file)))
    } else {
        Box::new(file)
    })
}

/// What is asked of a log.
pub(super) struct Asked<'a> {
    pub(super) log: &'a Path,
    pub(super) kind: Log,
    pub(super) routes: &'a Path,
    pub(super) policies: &'a [std::path::PathBuf],
    /// Id of a call; `None` to list violations.
    pub(super) request: Option<&'a str>,
}

/// Explains one call of a log, or lists every request of it that went where it may not.
pub(super) fn run(asked: &Asked<'_>, screen: &Screen) -> Exit {
    let mut reader = inputs::Reader::default();
    let catalogue = reader.catalogue(asked.routes).ok();
    let Some(catalogue) = catalogue.filter(|_| !reader.found.has_errors()) else {
        screen.complain(&reader.found);
        return Exit::BadInput;
    };
    let routes_digest = reader.digests.first().map(|digest| digest.sha256.clone());
    if asked.kind == Log::Seen {
        return seen_violations(asked, &catalogue, reader, screen);
    }
    let mut policies = Vec::new();
    for path in asked.policies {
        let files = if path.is_dir() {
            inputs::policy_files(path)
        } else {
            vec![path.clone()]
        };
        for file in files {
            let before = reader.digests.len();
            if reader
                .bytes(&file, crate::source::CONFIG_BYTES_MAX)
                .is_some()
            {
                let digest = reader
                    .digests
                    .get(before)
                    .map(|digest| digest.sha256.clone());
                policies.push((inputs::shown(&file), digest));
            }
        }
    }
    let files = Files {
        catalogue: &catalogue,
        routes: inputs::shown(asked.routes),
        routes_digest,
        policies,
    };
    let mut found = Diagnostics::default();
    let mut taken = Taken::default();
    let read = open(asked.log).and_then(|log| {
        let mut log = BufReader::new(log);
        let mut take = |line, attempt| taken.take(line, attempt, asked.request, &files);
        attempts::read(&mut log, &inputs::shown(asked.log), &mut found, &mut take)
    });
    if let Err(error) = read {
        found.push(inputs::unreadable(asked.log, &error));
    }
    reader.found.0.append(&mut found.0);
    if reader.found.has_errors() {
        screen.complain(&reader.found);
        return Exit::BadInput;
    }
    match asked.request {
        Some(id) if taken.attempts.is_empty() => {
            let error = Diagnostic::error(format!(
                "`{}` holds no call `{id}`",
                inputs::shown(asked.log)
            ));
            let help = match (&taken.first, taken.calls) {
                (Some(first), n) => format!(
                    "its ids are the `trace_id` of its lines, such as `{first}` ({n} lines)"
                ),
                (None, _) => {
                    "it holds no attempt at all; write one with `routelab call --log FILE`"
                        .to_owned()
                }
            };
            screen.complain(&Diagnostics(vec![error.help(help)]));
            Exit::BadInput
        }
        Some(_) => screen.print(&files.story(&taken.attempts)),
        None => violated(screen.print(&taken.told(&files)), taken.strays),
    }
}

/// Data that went where it may not is a requirement that failed.
fn violated(printed: Exit, strays: u64) -> Exit {
    match printed {
        Exit::Fine if strays > 0 => Exit::RequirementFailed,
        printed => printed,
    }
}

/// What was taken from the log.
#[derive(Default)]
struct Taken {
    /// The attempts of the call that was asked for.
    attempts: Vec<Attempt>,
    first: Option<String>,
    calls: u64,
    /// Attempts that were sent, and those of them whose data was bound to places.
    sent: u64,
    bound: u64,
    unknown: u64,
    /// Judged by routes that are not those which decided, or nobody knows.
    other_routes: u64,
    strays: u64,
    listed: Vec<String>,
}

impl Taken {
    fn take(&mut self, line: u64, attempt: Attempt, request: Option<&str>, files: &Files<'_>) {
        self.calls += 1;
        self.first.get_or_insert_with(|| attempt.trace_id.clone());
        match request {
            Some(id) if attempt.trace_id == id => self.attempts.push(attempt),
            Some(_) => {}
            None if attempt.outcome == Outcome::Skipped => {}
            None => {
                self.sent += 1;
                let is_bound = attempt.residency.is_some() || attempt.local_only;
                self.bound += u64::from(is_bound);
                if !is_bound {
                    return;
                }
                match files.route(&attempt.route) {
                    None => self.unknown += 1,
                    Some(route) => {
                        let same = attempt.routes_digest.is_some()
                            && attempt.routes_digest == files.routes_digest;
                        self.other_routes += u64::from(!same);
                        if let Some(why) = files.barred(&attempt, route) {
                            self.strays += 1;
                            if self.listed.len() < LISTED_MAX {
                                self.listed.push(format!(
                                    "line {line}  call `{}`  `{}`{}: {why}{}  {}",
                                    attempt.trace_id,
                                    attempt.route,
                                    on_behalf(attempt.origin),
                                    place(route),
                                    files.standing(&attempt).0,
                                ));
                            }
                        }
                    }
                }
            }
        }
    }

    /// The violations, one a line, and how many there were.
    fn told(&self, files: &Files<'_>) -> String {
        let mut text = String::new();
        for line in &self.listed {
            text.push_str(&visible(line));
            text.push('\n');
        }
        let more = self.strays - self.listed.len() as u64;
        if more > 0 {
            text.push_str(&format!("and {more} more\n"));
        }
        text.push_str(&format!(
            "{} of {} attempts whose data is bound to places went elsewhere, by the routes of {}",
            self.strays,
            self.bound,
            visible(&files.routes)
        ));
        text.push_str(&format!(
            "; {} more attempts were free to go anywhere",
            self.sent - self.bound
        ));
        if self.unknown > 0 {
            text.push_str(&format!(
                "; {} went to routes that it does not know, so nothing can be said about them",
                self.unknown
            ));
        }
        if self.other_routes > 0 {
            text.push_str(&format!(
                "; counterfactual for {} of them: their record does not carry the digest of this file, so it may say something else about them than the one that decided",
                self.other_routes
            ));
        }
        text.push('\n');
        text
    }
}

fn on_behalf(origin: Origin) -> String {
    match origin {
        Origin::User => String::new(),
        other => format!(" ({})", other.name()),
    }
}

/// Where a route is defined.
fn place(route: &Route) -> String {
    let location = route.location.as_ref();
    location.map_or_else(String::new, |one| format!(" ({})", one.short()))
}

/// The files that are held against a log.
struct Files<'a> {
    catalogue: &'a Catalogue,
    routes: String,
    routes_digest: Option<String>,
    /// Policies with their digests.
    policies: Vec<(String, Option<String>)>,
}

impl Files<'_> {
    fn route(&self, name: &str) -> Option<&Route> {
        let id = self.catalogue.find(name)?;
        self.catalogue.routes.get(usize::from(id.0))
    }

    /// Why the attempt should not have gone to `route`, if so.
    fn barred(&self, attempt: &Attempt, route: &Route) -> Option<String> {
        if attempt.local_only && !route.local {
            return Some("must stay on one's own machines".to_owned());
        }
        let allowed = attempt.residency.as_ref()?;
        let goes = self.regions(route.residency);
        let strange: Vec<&str> = goes
            .iter()
            .copied()
            .filter(|region| allowed.iter().all(|known| known != region))
            .collect();
        (!strange.is_empty()).then(|| {
            format!(
                "its data may go to {}, and only {} is allowed",
                goes.join(" and "),
                allowed.join(" and ")
            )
        })
    }

    fn regions(&self, set: Regions) -> Vec<&str> {
        let all = self.catalogue.regions.iter().enumerate();
        all.filter(|(bit, _)| set.0 >> bit & 1 == 1)
            .map(|(_, name)| name.as_str())
            .collect()
    }

    /// Whether an attempt is a recorded decision of these files, and why not.
    fn standing(&self, attempt: &Attempt) -> (&'static str, String) {
        let policy = match &attempt.policy_digest {
            None => Err("the record does not say which policy file decided".to_owned()),
            Some(digest) => self
                .policies
                .iter()
                .find(|(_, known)| known.as_ref() == Some(digest))
                .map(|(file, _)| file.clone())
                .ok_or_else(|| {
                    if self.policies.is_empty() {
                        "no policy file is given to hold it against (-p FILE)".to_owned()
                    } else {
                        format!(
                            "no policy given is the one that decided, {}…",
                            short(digest)
                        )
                    }
                }),
        };
        let routes = match &attempt.routes_digest {
            None => Err("the record does not say which routes it knew".to_owned()),
            same if *same == self.routes_digest => Ok(()),
            Some(digest) => Err(format!(
                "`{}` is not the file that decided, {}…",
                self.routes,
                short(digest)
            )),
        };
        match (policy, routes) {
            (Ok(file), Ok(())) => (
                "recorded decision",
                format!("by {file} and {}, whose digests it carries", self.routes),
            ),
            (Err(one), Err(other)) => ("counterfactual", format!("{one}; {other}")),
            (Err(why), _) | (_, Err(why)) => ("counterfactual", why),
        }
    }

    /// One call, step by step, what residency barred first.
    fn story(&self, attempts: &[Attempt]) -> String {
        let mut lines = Vec::new();
        let Some(first) = attempts.first() else {
            return String::new();
        };
        // A call is a recorded decision if every attempt of it is.
        let standings = attempts.iter().map(|attempt| self.standing(attempt));
        let (word, why) = standings
            .min_by_key(|(word, _)| *word != "counterfactual")
            .unwrap_or_else(|| self.standing(first));
        lines.push(format!("{word}: {why}"));
        lines.push(format!(
            "call     `{}` under policy `{}`, {}",
            first.trace_id,
            first.policy,
            required(first)
        ));
        for route in &self.catalogue.routes {
            if let Some(why) = self.barred(first, route) {
                lines.push(format!("barred   `{}`: {why}{}", route.name, place(route)));
            }
        }
        let mut said: Vec<(String, String)> = Vec::new();
        for attempt in attempts {
            for rejected in &attempt.rejected {
                let key = (rejected.route.clone(), rejected.reason.clone());
                if !said.contains(&key) {
                    let place = self.route(&rejected.route).map_or_else(String::new, place);
                    lines.push(format!("skip     `{}`: {}{place}", key.0, key.1));
                    said.push(key);
                }
            }
            if attempt.outcome == Outcome::Skipped {
                let reason = attempt.reason.clone().unwrap_or_default();
                let key = (attempt.route.clone(), reason);
                if !said.contains(&key) {
                    let place = self.route(&key.0).map_or_else(String::new, place);
                    lines.push(format!("skip     `{}`: {}{place}", key.0, key.1));
                    said.push(key);
                }
                continue;
            }
            lines.push(sent(attempt));
            if let Some(verdict) = &attempt.verdict {
                lines.push(format!(
                    "verdict  the answer of `{}`: {verdict}",
                    attempt.route
                ));
            }
        }
        lines.iter().map(|line| visible(line) + "\n").collect()
    }
}

/// The beginning of a digest.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

fn required(attempt: &Attempt) -> String {
    match (&attempt.residency, attempt.local_only) {
        (_, true) => "whose data must stay on one's own machines".to_owned(),
        (Some(regions), false) => format!("whose data may go to {}", regions.join(" and ")),
        (None, false) => "whose data may go anywhere".to_owned(),
    }
}

fn sent(attempt: &Attempt) -> String {
    let mut text = format!(
        "send     `{}`{}, attempt {}: {}",
        attempt.route,
        on_behalf(attempt.origin),
        attempt.attempt,
        attempt.outcome.name()
    );
    for part in [&attempt.kind, &attempt.reason].into_iter().flatten() {
        text.push_str(&format!(", {part}"));
    }
    if let Some(status) = attempt.status {
        text.push_str(&format!(", status {status}"));
    }
    if let Some(Duration(us)) = attempt.latency {
        text.push_str(&format!(", {} ms", us / 1_000));
    }
    text.push_str(&match attempt.cost {
        Some(cost) => format!(", {cost}"),
        None => ", cost unknown".to_owned(),
    });
    text
}

/// Violations in a log of stand-ins.
fn seen_violations(
    asked: &Asked<'_>,
    catalogue: &Catalogue,
    mut reader: inputs::Reader,
    screen: &Screen,
) -> Exit {
    if let Some(id) = asked.request {
        let shown = inputs::shown(asked.log);
        let error = Diagnostic::error(format!(
            "`{shown}` is a log of stand-ins: they see requests, not why they came, so nothing explains `{id}`"
        ))
        .at(Location::File { path: shown });
        screen.complain(&Diagnostics(vec![error.help(
            "explain a log that `routelab call --log FILE` wrote, or list what went where it may not with --violations",
        )]));
        return Exit::BadInput;
    }
    let rules = drill_seen::Rules(catalogue);
    let options = seen::Options {
        within: Duration::from_secs(300),
        tie: None,
        classes: seen::Classes::default(),
        residency: Some(&rules),
    };
    let read = drill_seen::read(asked.log, &options, &mut reader);
    let (Some(seen), false) = (read, reader.found.has_errors()) else {
        screen.complain(&reader.found);
        return Exit::BadInput;
    };
    let Some(found) = seen.residences else {
        return screen.print("nothing can be said about residency\n");
    };
    let mut text = String::new();
    for stray in &found.listed {
        let named = |what: &str, name: &Option<String>| {
            name.as_ref()
                .map_or_else(String::new, |name| format!("  {what} `{name}`"))
        };
        let line = format!(
            "line {}{}{}{}  `{}`: {}{}  counterfactual",
            stray.line,
            named("request", &stray.request),
            named("tenant", &stray.tenant),
            named("data class", &stray.data_class),
            stray.route,
            stray.why,
            catalogue
                .find(&stray.route)
                .map_or_else(String::new, |id| place(
                    &catalogue.routes[usize::from(id.0)]
                )),
        );
        text.push_str(&visible(&line));
        text.push('\n');
    }
    let more = found.strays - found.listed.len() as u64;
    if more > 0 {
        text.push_str(&format!("and {more} more\n"));
    }
    let unknown: u64 = found.unknown.iter().map(|(_, count)| count).sum();
    text.push_str(&format!(
        "{} of {} attempts whose tenant or data class is known went where they may not ({} requests), by the rules of {}; {} could not be judged, {} name neither tenant nor data class\n",
        found.strays,
        found.judged,
        found.stray_requests,
        visible(&inputs::shown(asked.routes)),
        unknown,
        found.unclassed,
    ));
    violated(screen.print(&text), found.strays)
}
