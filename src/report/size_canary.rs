//! The size of a canary as a document.

use serde_json::{Map, Value, json};

use super::format::{UNKNOWN, decimal, margin_points, percent_exact, whole};
use super::layout::Block;
use super::sheet::{Sheet, SheetFile, block};
use crate::size::{CanarySizing, CanaryTruth, Monitored, Origin, SliceHarm};

/// Writes down what slices of a canary cost and take.
#[must_use]
pub fn size_canary(sizing: &CanarySizing) -> Sheet {
    let facts = match serde_json::to_value(sizing) {
        Ok(Value::Object(facts)) => facts,
        _ => Map::new(),
    };
    Sheet {
        schema: "routelab.size-canary/1",
        title: format!(
            "canary of {} for {}: {} graded answers a step, alpha {}, beta {}",
            sizing.truth.candidate,
            sizing.truth.base,
            whole(sizing.min_graded),
            sizing.alpha,
            sizing.beta
        ),
        blocks: vec![truth(sizing), monitors(sizing), slices(sizing)],
        figures: Vec::new(),
        file: Some(SheetFile {
            name: "canary.toml",
            language: "toml",
            text: sizing.stanza.clone(),
        }),
        summary: summary(sizing),
        notes: notes(sizing),
        facts,
        records: records(sizing),
    }
}

/// A number of answers, requests or wrong answers: digits where there are few of them.
fn few(value: f64) -> String {
    decimal(
        value,
        match value.abs() {
            v if v < 10.0 => 2,
            v if v < 100.0 => 1,
            _ => 0,
        },
    )
}

fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), few)
}

/// Decimals of a percentage with which both error rates show, and differ.
fn decimals(truth: &CanaryTruth) -> usize {
    let shown = |rate: f64, decimals| decimal(rate * 100.0, decimals);
    let differ = |decimals: &usize| {
        let (base, slice) = (shown(truth.p0, *decimals), shown(truth.p1, *decimals));
        base != slice && base != shown(0.0, *decimals)
    };
    // More than a float has in front of its noise would be no digits of the rates.
    (1..12).find(differ).unwrap_or(12)
}

/// The error rates of base and slice.
fn rates(truth: &CanaryTruth) -> (String, String) {
    let decimals = decimals(truth);
    let shown = |rate: f64| format!("{} %", decimal(rate * 100.0, decimals));
    (shown(truth.p0), shown(truth.p1))
}

fn evidence(truth: &CanaryTruth) -> String {
    match (truth.origin, truth.graded) {
        (Origin::Simulated, _) => "simulated world".to_owned(),
        (Origin::Given, _) => "as given".to_owned(),
        (Origin::Recorded, Some(graded)) => format!("recorded, {} requests", whole(graded)),
        (Origin::Recorded, None) => "recorded".to_owned(),
    }
}

fn truth(sizing: &CanarySizing) -> Block {
    let truth = &sizing.truth;
    let (base, slice) = rates(truth);
    block(
        "Wrong answers".to_owned(),
        &[
            ("task", false),
            ("share of requests", true),
            ("base", true),
            ("slice", true),
            ("gap, points", true),
            ("evidence", false),
        ],
        vec![vec![
            truth.task.clone(),
            percent_exact(truth.share),
            base,
            slice,
            decimal(sizing.gap * 100.0, decimals(truth).max(2)),
            evidence(truth),
        ]],
    )
}

fn monitors(sizing: &CanarySizing) -> Block {
    let row = |one: &Monitored| {
        vec![
            one.monitor.to_owned(),
            percent_exact(one.false_rollback),
            percent_exact(one.false_rollback_in_ramp),
            percent_exact(one.missed),
            percent_exact(one.missed_in_ramp),
            few(one.answers_if_equal),
            few(one.answers_if_worse),
            few(one.extra_wrong_until_decision),
            one.answers_for_power.map_or_else(String::new, whole),
        ]
    };
    let mut rows: Vec<Vec<String>> = sizing.monitors.iter().map(row).collect();
    if sizing.is_control_unknown {
        let mut unknown = vec![UNKNOWN.to_owned(); 8];
        unknown[0] = "control".to_owned();
        unknown.push(String::new());
        rows.push(unknown);
    }
    let power = format!("answers for {}", percent_exact(1.0 - sizing.beta));
    block(
        "Monitors, exact: chances within a step and over the whole ramp, mean answers until the end, wrong answers beyond the base's".to_owned(),
        &[
            ("monitor", false),
            ("false rollback", true),
            ("in ramp", true),
            ("missed", true),
            ("in ramp", true),
            ("answers, equal", true),
            ("worse", true),
            ("extra wrong", true),
            (&power, true),
        ],
        rows,
    )
}

fn slices(sizing: &CanarySizing) -> Block {
    let mut rows = Vec::new();
    let mut weights: Vec<(&Monitored, &SliceHarm)> = Vec::new();
    for at in 0.. {
        let of_weight = sizing
            .monitors
            .iter()
            .filter_map(|one| Some((one, one.slices.get(at)?)));
        let before = weights.len();
        weights.extend(of_weight);
        if weights.len() == before {
            break;
        }
    }
    // Columns of time stand only where somebody said how many requests a day has.
    let timed = weights
        .iter()
        .any(|(_, slice)| slice.hours_until_decision.is_some());
    let delayed = timed && sizing.label_delay_h > 0.0;
    for (monitor, slice) in weights {
        let mut cells = vec![
            format!("{} %", margin_points(slice.weight)),
            monitor.monitor.to_owned(),
            few(slice.extra_wrong_per_1k),
            few(slice.missed_extra_wrong_per_1k),
            few(slice.requests_until_decision),
        ];
        cells.extend(timed.then(|| maybe(slice.hours_until_decision)));
        cells.extend(delayed.then(|| maybe(slice.extra_wrong_in_label_delay)));
        cells.push(few(slice.requests_for_step));
        cells.extend(timed.then(|| maybe(slice.days_for_step)));
        rows.push(cells);
    }
    let mut titles = vec![
        ("slice", false),
        ("monitor", false),
        ("extra wrong per 1,000", true),
        ("missed", true),
        ("requests to decide", true),
    ];
    titles.extend(timed.then_some(("hours", true)));
    titles.extend(delayed.then_some(("while grading", true)));
    titles.push(("requests for step", true));
    titles.extend(timed.then_some(("days", true)));
    let heading = if delayed {
        "Slices (extra wrong per 1,000 and what is missed of it are rates while a bad candidate stays; while grading: extra wrong during the label delay)"
    } else {
        "Slices (extra wrong per 1,000 and what is missed of it are rates while a bad candidate stays)"
    };
    block(heading.to_owned(), &titles, rows)
}

fn summary(sizing: &CanarySizing) -> String {
    let Some(sprt) = sizing.monitors.first() else {
        return String::new();
    };
    let delays: Vec<String> = sprt
        .slices
        .iter()
        .map(|slice| {
            let time = slice
                .hours_until_decision
                .map_or_else(String::new, |hours| format!(" ({} hours)", few(hours)));
            format!(
                "{} requests{time} at {} %",
                few(slice.requests_until_decision),
                margin_points(slice.weight)
            )
        })
        .collect();
    let (base, slice) = rates(&sizing.truth);
    format!(
        "A candidate that errs in {slice} of the answers instead of {base} costs {} extra wrong answers until the answer on which the {} decides or the step ends, whatever the slice{}; the slice sets how long that takes: {}. It misses such a candidate in {} of the runs of a step and withdraws a sound one in {}.",
        few(sprt.extra_wrong_until_decision),
        sprt.monitor.to_uppercase(),
        while_waiting(sizing, sprt),
        delays.join(", "),
        percent_exact(sprt.missed),
        percent_exact(sprt.false_rollback),
    )
}

/// The harm that does grow with the slice.
fn while_waiting(sizing: &CanarySizing, sprt: &Monitored) -> String {
    if sizing.label_delay_h <= 0.0 {
        return String::new();
    }
    let harm: Option<Vec<String>> = sprt
        .slices
        .iter()
        .map(|slice| {
            let extra = few(slice.extra_wrong_in_label_delay?);
            Some(format!("{extra} at {} %", margin_points(slice.weight)))
        })
        .collect();
    let harm = match harm {
        Some(harm) => harm.join(", "),
        None => "how many takes a number of requests a day to say".to_owned(),
    };
    format!(
        ", and more in the {} hours until that answer is graded, in proportion to the slice ({harm})",
        few(sizing.label_delay_h)
    )
}

fn notes(sizing: &CanarySizing) -> Vec<String> {
    let mut notes = vec![
        "extra wrong until decision = expected answers × gap / share graded; the rate per 1,000 is no total: it runs for as long as the candidate stays".to_owned(),
        "each step has a test of its own; the chances over the ramp take every slice above as a step".to_owned(),
        "confidence sequence: withdraws once the share of wrong answers is shown to be above the base's; it needs no error rate of the candidate, and may be looked at for ever".to_owned(),
        "requests and answers are those of the tasks named above".to_owned(),
        "answers are taken to be independent; a few users with many requests decide earlier or later than this".to_owned(),
    ];
    let control = sizing.monitors.iter().any(|one| one.monitor == "control");
    if control || sizing.is_control_unknown {
        notes.push(
        "control: the same test on the wrong answers of slice and control, for a base whose error rate nobody knows; how many of them a step has is left to chance, so its end is not in these numbers".to_owned()
        );
    } else {
        notes.push("no control: a slice of more than half leaves no control of equal size, so the policy file has none".to_owned());
    }
    if let Some(graded) = sizing.truth.graded {
        notes.push(format!(
            "the error rates are those of {} recorded requests with a grade of both routes, and no surer than that",
            whole(graded)
        ));
    }
    if sizing.truth.origin == Origin::Simulated {
        notes.push("the error rates are exact expectations of a simulated world: as good as its assumptions".to_owned());
    }
    if sizing.truth.has_other_tasks {
        notes.push(format!(
            "error rates, graded answers, requests, hours and days are of task {} alone, and the ramp in the policy file takes all traffic: use it only where the traffic is that task",
            sizing.truth.task
        ));
    }
    if sizing.is_control_unknown {
        notes.push("control: the error rates are so close that what it does was not counted out; it is not known".to_owned());
    }
    if sizing.label_delay_h > 0.0 {
        notes.push("a slice goes on answering while the deciding grade is on its way: that part of the harm grows with the slice and is not in extra wrong until decision".to_owned());
    }
    if let Some(fastest) = sizing.fastest_abort
        && fastest > sizing.min_graded
    {
        notes.push(format!(
            "the SPRT cannot abort before {fastest} answers, and a step ends after {}: it would watch for nothing",
            sizing.min_graded
        ));
    }
    notes
}

/// One record per monitor and slice.
fn records(sizing: &CanarySizing) -> Vec<Map<String, Value>> {
    let mut records = Vec::new();
    for one in &sizing.monitors {
        for slice in &one.slices {
            let mut record = Map::new();
            let mut add = |name: &str, value: Value| {
                record.insert(name.to_owned(), value);
            };
            add("task", json!(sizing.truth.task));
            add("candidate", json!(sizing.truth.candidate));
            add("base", json!(sizing.truth.base));
            add("p0", json!(sizing.truth.p0));
            add("p1", json!(sizing.truth.p1));
            add("origin", json!(sizing.truth.origin));
            add("min_graded", json!(sizing.min_graded));
            let parts = [serde_json::to_value(one), serde_json::to_value(slice)];
            for part in parts.into_iter().flatten() {
                if let Value::Object(part) = part {
                    record.extend(part.into_iter().filter(|(_, value)| !value.is_array()));
                }
            }
            records.push(record);
        }
    }
    records
}
