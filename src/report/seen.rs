//! What stand-ins saw of a gateway, as a document.

use serde_json::{Map, Value, json};

use super::format::{UNKNOWN, decimal, percent_exact, whole};
use super::layout::Block;
use super::sheet::{Sheet, block};
use crate::stats::{Limits, wilson, z_two_sided};
use crate::traffic::seen::{ATTEMPTS_SHOWN, Place, Residences, Seen, Spread, Stray, Tie};
use crate::units::Duration;

/// Level of the interval.
const LEVEL: f64 = 0.95;
/// Most attempts gone astray that the table names; JSON has more.
const STRAYS_SHOWN: usize = 20;
/// Most places that the table shows; JSON and CSV have all.
const PLACES_SHOWN: usize = 30;

/// Writes down what a log of stand-ins comes to. `path` names the log.
#[must_use]
pub fn seen(path: &str, seen: &Seen) -> Sheet {
    Sheet {
        schema: "routelab.seen/1",
        title: title(path, seen),
        blocks: [
            overview(seen),
            by_attempts(seen),
            places(seen),
            failures(seen),
            gaps(seen),
            strays(seen),
            timeline(seen),
        ]
        .into_iter()
        .filter(|block| !block.lines.is_empty())
        .collect(),
        figures: Vec::new(),
        file: None,
        summary: summary(seen),
        notes: notes(seen),
        facts: facts(path, seen),
        records: records(seen),
    }
}

/// The share of answered requests and its limits.
fn availability(seen: &Seen) -> Option<(f64, Limits)> {
    let limits = wilson(seen.answered, seen.requests, z_two_sided(LEVEL))?;
    Some((seen.answered as f64 / seen.requests as f64, limits))
}

fn share(part: u64, of: u64) -> String {
    if of == 0 {
        return UNKNOWN.to_owned();
    }
    percent_exact(part as f64 / of as f64)
}

/// `1 line`, `2 lines`.
fn many(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", whole(count))
}

/// A count and its share of another.
fn counted(part: u64, of: u64, what: &str) -> String {
    format!("{} ({} of {what})", whole(part), share(part, of))
}

/// A length of time for people: `250 ms`, `2.5 s`, `12.0 min`, `3.2 h`.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        0.0 => "0 s".to_owned(),
        s if s < 1.0 => format!("{} ms", decimal(s * 1e3, if s < 0.01 { 1 } else { 0 })),
        s if s < 120.0 => format!("{} s", decimal(s, 1)),
        s if s < 7_200.0 => format!("{} min", decimal(s / 60.0, 1)),
        s => format!("{} h", decimal(s / 3_600.0, 1)),
    }
}

fn title(path: &str, seen: &Seen) -> String {
    format!(
        "{path}: {} in {} over {}, as stand-ins saw them",
        many(seen.requests, "request"),
        many(seen.attempts, "attempt"),
        time(seen.length)
    )
}

fn overview(seen: &Seen) -> Block {
    let mut rows: Vec<(&str, String)> = vec![(
        "answered requests",
        match availability(seen) {
            None => UNKNOWN.to_owned(),
            Some((value, limits)) => format!(
                "{} % [{}, {}] of {}",
                decimal(value * 100.0, 2),
                decimal(limits.low * 100.0, 2),
                decimal(limits.high * 100.0, 2),
                whole(seen.requests)
            ),
        },
    )];
    rows.push((
        "answered after a first failure",
        counted(seen.rescued, seen.requests, "requests"),
    ));
    rows.push((
        "attempts per request",
        match seen.amplification() {
            None => UNKNOWN.to_owned(),
            Some(mean) => format!("{}, at most {}", decimal(mean, 3), whole(seen.attempts_max)),
        },
    ));
    rows.push((
        "failed attempts",
        counted(seen.failed, seen.attempts, "attempts"),
    ));
    rows.push((
        "retries at the same place",
        counted(seen.retries, seen.attempts, "attempts"),
    ));
    if seen.retries > 0 {
        let known = seen.retries - seen.unknown_body;
        rows.push((
            "retries with the same body",
            counted(seen.same_body, known, "those whose body is known"),
        ));
    }
    rows.push((
        "attempts elsewhere",
        counted(seen.failovers, seen.attempts, "attempts"),
    ));
    rows.push(("attempts after an answer", whole(seen.after_success)));
    let hints = &seen.hints;
    if hints.given + hints.unreadable > 0 {
        rows.push(("failures that said how long to wait", whole(hints.given)));
        let mut early = counted(hints.too_early, hints.retried, "retries after that");
        if hints.too_early > 0 {
            early.push_str(&format!(", by up to {}", time(hints.earliest_by)));
        }
        rows.push(("retries before the time was over", early));
        let meanwhile: u64 = seen.places.iter().map(|place| place.sent_meanwhile).sum();
        rows.push(("other requests sent meanwhile", whole(meanwhile)));
    }
    if let Some(residences) = &seen.residences {
        rows.push((
            "attempts where the data must not be",
            if residences.judged == 0 {
                UNKNOWN.to_owned()
            } else {
                counted(residences.strays, residences.judged, "those judged")
            },
        ));
    }
    let rows = rows
        .into_iter()
        .map(|(what, value)| vec![what.to_owned(), value])
        .collect();
    block("What they did".to_owned(), &[("", false), ("", true)], rows)
}

fn by_attempts(seen: &Seen) -> Block {
    let rows = seen.by_attempts.iter().zip(1..).filter(|(n, _)| **n > 0);
    let rows = rows.map(|(requests, attempts)| {
        vec![
            if attempts == ATTEMPTS_SHOWN {
                format!("{attempts} or more")
            } else {
                attempts.to_string()
            },
            whole(*requests),
            share(*requests, seen.requests),
        ]
    });
    block(
        "Requests by attempts".to_owned(),
        &[("attempts", true), ("requests", true), ("share", true)],
        rows.collect(),
    )
}

fn model(place: &Place) -> String {
    place.model.clone().unwrap_or_else(|| "not read".to_owned())
}

fn places(seen: &Seen) -> Block {
    let mut order: Vec<&Place> = seen.places.iter().collect();
    order.sort_by_key(|place| std::cmp::Reverse(place.attempts));
    let rows = order.into_iter().take(PLACES_SHOWN).map(|place| {
        vec![
            place.dialect.clone(),
            model(place),
            place.route.clone().unwrap_or_default(),
            whole(place.attempts),
            whole(place.failed),
            share(place.failed, place.attempts),
            whole(place.sent_meanwhile),
        ]
    });
    block(
        "Where attempts went".to_owned(),
        &[
            ("dialect", false),
            ("model", false),
            ("route", false),
            ("attempts", true),
            ("failed", true),
            ("share", true),
            ("sent into a wait", true),
        ],
        rows.collect(),
    )
}

fn failures(seen: &Seen) -> Block {
    let rows = seen.failures.iter().map(|one| {
        vec![
            one.kind.name().to_owned(),
            one.status.to_string(),
            one.fault.unwrap_or("none").to_owned(),
            whole(one.attempts),
            share(one.attempts, seen.failed),
        ]
    });
    block(
        "What failed".to_owned(),
        &[
            ("kind", false),
            ("status", true),
            ("scripted fault", false),
            ("attempts", true),
            ("share", true),
        ],
        rows.collect(),
    )
}

fn gaps(seen: &Seen) -> Block {
    let spreads = [
        ("to a retry at the same place", &seen.retry_gaps),
        ("from a failure to another place", &seen.failover_gaps),
    ];
    let rows = spreads.into_iter().filter(|(_, spread)| spread.n > 0);
    let rows = rows.map(|(what, spread)| {
        let times = [spread.min, spread.p50, spread.p95, spread.max];
        let mut row = vec![what.to_owned(), whole(spread.n)];
        row.extend(times.map(time));
        row
    });
    block(
        "Time between attempts of a request".to_owned(),
        &[
            ("from one attempt", false),
            ("n", true),
            ("least", true),
            ("p50", true),
            ("p95", true),
            ("most", true),
        ],
        rows.collect(),
    )
}

fn strays(seen: &Seen) -> Block {
    let listed = seen.residences.iter().flat_map(|found| &found.listed);
    let rows = listed.take(STRAYS_SHOWN).map(|stray| {
        vec![
            stray.line.to_string(),
            time(stray.at),
            stray.request.clone().unwrap_or_else(|| UNKNOWN.to_owned()),
            stray.tenant.clone().unwrap_or_default(),
            stray.data_class.clone().unwrap_or_default(),
            stray.route.clone(),
            stray.why.clone(),
        ]
    });
    block(
        "Where data must not be".to_owned(),
        &[
            ("line", true),
            ("at", true),
            ("request", false),
            ("tenant", false),
            ("data class", false),
            ("route", false),
            ("why", false),
        ],
        rows.collect(),
    )
}

fn from(seen: &Seen, index: usize) -> Duration {
    Duration(seen.bin.0.saturating_mul(index as u64))
}

fn timeline(seen: &Seen) -> Block {
    let mut rows = Vec::new();
    let mut index = 0;
    while let Some(bin) = seen.bins.get(index) {
        let quiet = seen.bins[index..].iter();
        let quiet = quiet.take_while(|bin| bin.by_place.is_empty()).count();
        let mut row = vec![time(from(seen, index))];
        row.extend([bin.requests, bin.attempts(), bin.failed()].map(whole));
        row.push(match quiet {
            0 => share(bin.failed(), bin.attempts()),
            1 => String::new(),
            // A long silence is one line.
            _ => format!("until {}", time(from(seen, index + quiet))),
        });
        rows.push(row);
        index += quiet.max(1);
    }
    block(
        format!("Time line, in bins of {}", time(seen.bin)),
        &[
            ("from", true),
            ("new requests", true),
            ("attempts", true),
            ("failed", true),
            ("share", true),
        ],
        rows,
    )
}

fn summary(seen: &Seen) -> String {
    let Some((value, _)) = availability(seen) else {
        return "Nothing was asked.".to_owned();
    };
    let mut text = format!(
        "{} % of {} answered, at {} attempts each",
        decimal(value * 100.0, 2),
        many(seen.requests, "request"),
        decimal(seen.amplification().unwrap_or(f64::NAN), 3)
    );
    if seen.hints.retried > 0 {
        text.push_str(&match seen.hints.too_early {
            0 => "; every retry waited as long as it was told".to_owned(),
            early => format!(
                "; {} of {} retries came before the time they were told",
                whole(early),
                whole(seen.hints.retried)
            ),
        });
    }
    if let Some(residences) = &seen.residences {
        text.push_str(&residence_summary(residences));
    }
    text.push('.');
    text
}

fn residence_summary(residences: &Residences) -> String {
    match (residences.strays, residences.judged) {
        (_, 0) => "; nothing can be said about residency".to_owned(),
        (0, judged) => format!(
            "; none of the {} attempts that can be judged went where its data must not be",
            whole(judged)
        ),
        (strays, _) => format!(
            "; {} of {} went where the data must not be",
            many(strays, "attempt"),
            many(residences.stray_requests, "request")
        ),
    }
}

fn notes(seen: &Seen) -> Vec<String> {
    let mut notes = vec![
        "a stand-in sees attempts, not what the gateway answered to its own callers: a request counts as answered if the last attempt that is known of it succeeded".to_owned(),
        "an attempt that never reached a stand-in (refused by a breaker, a queue, a limit of the gateway's own) is not in the log, nor is a caller who hung up".to_owned(),
        "the interval takes requests for independent (Wilson, 95 %); in an outage they fail together, and it is too narrow".to_owned(),
        "times are of arrival at the stand-in: a gap holds what the attempt before took as well as the wait".to_owned(),
    ];
    notes.push(ties(seen));
    if seen.hints.retried > 0 {
        notes.push("a retry is too early if it arrived sooner after the attempt before than that one's answer asked for (Retry-After and its kin); attempts elsewhere need not wait".to_owned());
    }
    if seen.hints.unreadable > 0 {
        notes.push(format!(
            "{} answers said when to come back in a way that a log cannot tell, such as a date",
            whole(seen.hints.unreadable)
        ));
    }
    if seen.sessions > 1 {
        notes.push(format!(
            "the log holds {} runs of the server, laid end to end; no request goes on from one to the next",
            whole(seen.sessions)
        ));
    }
    if seen.bad_rows > 0 {
        notes.push(format!(
            "{} of {} lines were not understood and are left out: numbers are short by what stood there",
            whole(seen.bad_rows),
            whole(seen.rows)
        ));
    }
    if seen.other_rows > 0 {
        notes.push(format!(
            "left out, for no completion was asked: {} (lists of models, unknown paths)",
            many(seen.other_rows, "line")
        ));
    }
    if seen.closed_early > 0 {
        notes.push(format!(
            "{} requests were taken for over because too many were open at once",
            whole(seen.closed_early)
        ));
    }
    if seen.places.len() > PLACES_SHOWN {
        notes.push(format!(
            "the table shows {PLACES_SHOWN} of {} places",
            whole(seen.places.len() as u64)
        ));
    }
    match &seen.residences {
        Some(residences) => notes.extend(residence_notes(residences)),
        None => notes.push(
            "where data may go was not looked at: --routes names the catalogue that says so"
                .to_owned(),
        ),
    }
    notes
}

/// What attempts were tied by, in words.
fn ties(seen: &Seen) -> String {
    let used = Tie::ALL.into_iter().zip(seen.by_tie);
    let used: Vec<(Tie, u64)> = used.filter(|(_, requests)| *requests > 0).collect();
    let parts: Vec<String> = used
        .iter()
        .map(|(tie, requests)| format!("{} by {}", whole(*requests), tie.name()))
        .collect();
    let guessed = used.iter().any(|(tie, _)| !tie.is_id());
    let mut text = format!("what ties attempts to requests: {}", parts.join(", "));
    if guessed {
        text.push_str(
            "; where no header names the request it is guessed from what was asked, and equal questions at one time are taken for one. Have the gateway pass on x-routelab-request",
        );
    }
    text
}

fn residence_notes(residences: &Residences) -> Vec<String> {
    let mut notes = Vec::new();
    if residences.unclassed > 0 {
        notes.push(format!(
            "not judged, for neither tenant nor data class is known: {}; send x-routelab-tenant or x-routelab-data-class, or name a file with --classes",
            many(residences.unclassed, "attempt")
        ));
    }
    for (why, attempts) in &residences.unknown {
        notes.push(format!(
            "not judged: {}, for {why}",
            many(*attempts, "attempt")
        ));
    }
    if residences.strays > STRAYS_SHOWN as u64 {
        notes.push(format!(
            "the table names {STRAYS_SHOWN} of {} attempts that went where their data must not be; JSON names the first {}",
            whole(residences.strays),
            whole(residences.listed.len() as u64)
        ));
    }
    notes
}

fn seconds(duration: Duration) -> Value {
    json!(duration.as_secs_f64())
}

fn spread(spread: &Spread) -> Value {
    let known = |duration: Duration| (spread.n > 0).then(|| duration.as_secs_f64());
    json!({
        "n": spread.n,
        "min_s": known(spread.min),
        "p50_s": known(spread.p50),
        "p95_s": known(spread.p95),
        "max_s": known(spread.max),
    })
}

fn facts(path: &str, seen: &Seen) -> Map<String, Value> {
    let availability = availability(seen);
    let ties: Map<String, Value> = Tie::ALL
        .into_iter()
        .zip(seen.by_tie)
        .map(|(tie, requests)| (tie.name().to_owned(), json!(requests)))
        .collect();
    let place = |place: &Place| {
        json!({
            "dialect": place.dialect,
            "model": place.model,
            "route": place.route,
            "attempts": place.attempts,
            "failed": place.failed,
            "sent_into_a_wait": place.sent_meanwhile,
        })
    };
    let facts = json!({
        "log": path,
        "rows": seen.rows,
        "bad_rows": seen.bad_rows,
        "other_rows": seen.other_rows,
        "sessions": seen.sessions,
        "length_s": seconds(seen.length),
        "requests": seen.requests,
        "answered": seen.answered,
        "rescued": seen.rescued,
        "availability": {
            "value": availability.map(|(value, _)| value),
            "low": availability.map(|(_, limits)| limits.low),
            "high": availability.map(|(_, limits)| limits.high),
            "n": seen.requests,
            "level": LEVEL,
            "method": "wilson",
        },
        "attempts": seen.attempts,
        "failed": seen.failed,
        "attempts_per_request": seen.amplification(),
        "attempts_max": seen.attempts_max,
        "requests_by_attempts": seen.by_attempts,
        "retries": seen.retries,
        "retries_same_body": seen.same_body,
        "retries_unknown_body": seen.unknown_body,
        "failovers": seen.failovers,
        "after_success": seen.after_success,
        "requests_by_tie": ties,
        "closed_early": seen.closed_early,
        "places": seen.places.iter().map(place).collect::<Vec<_>>(),
        "failures": seen.failures.iter().map(|one| json!({
            "kind": one.kind.name(),
            "status": one.status,
            "fault": one.fault,
            "attempts": one.attempts,
        })).collect::<Vec<_>>(),
        "retry_gaps": spread(&seen.retry_gaps),
        "failover_gaps": spread(&seen.failover_gaps),
        "retry_after": {
            "given": seen.hints.given,
            "unreadable": seen.hints.unreadable,
            "retries": seen.hints.retried,
            "too_early": seen.hints.too_early,
            "earliest_by_s": seconds(seen.hints.earliest_by),
        },
        "residency": seen.residences.as_ref().map(residency),
        "bin_s": seconds(seen.bin),
        "bins": seen.bins.iter().enumerate().map(|(index, bin)| json!({
            "from_s": seconds(from(seen, index)),
            "requests": bin.requests,
            "attempts": bin.attempts(),
            "failed": bin.failed(),
        })).collect::<Vec<_>>(),
    });
    match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}

fn residency(found: &Residences) -> Value {
    let stray = |stray: &Stray| {
        json!({
            "line": stray.line,
            "at_s": seconds(stray.at),
            "request": stray.request,
            "tenant": stray.tenant,
            "data_class": stray.data_class,
            "route": stray.route,
            "why": stray.why,
        })
    };
    let unknown: Map<String, Value> = found
        .unknown
        .iter()
        .map(|(why, attempts)| (why.clone(), json!(attempts)))
        .collect();
    json!({
        "judged": found.judged,
        "unclassed": found.unclassed,
        "unknown": unknown,
        "violations": found.strays,
        "requests": found.stray_requests,
        "listed": found.listed.iter().map(stray).collect::<Vec<_>>(),
    })
}

/// One record for each bin and place that saw attempts in it.
fn records(seen: &Seen) -> Vec<Map<String, Value>> {
    let mut records = Vec::new();
    for (index, bin) in seen.bins.iter().enumerate() {
        for (number, (attempts, failed)) in &bin.by_place {
            let place = &seen.places[*number as usize];
            let fields = [
                ("from_s", seconds(from(seen, index))),
                ("to_s", seconds(from(seen, index + 1))),
                ("dialect", json!(place.dialect)),
                ("model", json!(place.model)),
                ("route", json!(place.route)),
                ("attempts", json!(attempts)),
                ("failed", json!(failed)),
            ];
            let fields = fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value));
            records.push(fields.collect());
        }
    }
    records
}
