//! The size of a canary as a document.

use serde_json::{Map, Value, json};

use super::format::{UNKNOWN, decimal, margin_points, percent_exact, whole};
use super::layout::Block;
use super::sheet::{Sheet, block};
use crate::size::{CanarySizing, Monitored, SliceHarm};

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
        blocks: vec![
            truth(sizing),
            monitors(sizing),
            slices(sizing),
            file(sizing),
        ],
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

fn truth(sizing: &CanarySizing) -> Block {
    let truth = &sizing.truth;
    block(
        "Wrong answers".to_owned(),
        &[
            ("task", false),
            ("share of requests", true),
            ("base", true),
            ("slice", true),
            ("gap, points", true),
        ],
        vec![vec![
            truth.task.clone(),
            percent_exact(truth.share),
            percent_exact(truth.p0),
            percent_exact(truth.p1),
            decimal(sizing.gap * 100.0, 2),
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
    let power = format!("answers for {}", percent_exact(1.0 - sizing.beta));
    block(
        "Monitors within a step, exact (the same for every slice)".to_owned(),
        &[
            ("monitor", false),
            ("false rollback", true),
            ("in any step", true),
            ("missed", true),
            ("in every step", true),
            ("answers if equal", true),
            ("answers if worse", true),
            ("extra wrong until decision", true),
            (&power, true),
        ],
        sizing.monitors.iter().map(row).collect(),
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
    for (monitor, slice) in weights {
        rows.push(vec![
            format!("{} %", margin_points(slice.weight)),
            monitor.monitor.to_owned(),
            few(slice.extra_wrong_per_1k),
            few(slice.missed_extra_wrong_per_1k),
            few(slice.requests_until_decision),
            maybe(slice.hours_until_decision),
            maybe(slice.extra_wrong_in_label_delay),
            few(slice.requests_for_step),
            maybe(slice.days_for_step),
        ]);
    }
    block(
        "Slices (extra wrong per 1,000 is a rate while a bad candidate stays; requests are the task's)".to_owned(),
        &[
            ("slice", false),
            ("monitor", false),
            ("extra wrong per 1,000", true),
            ("of it missed", true),
            ("requests to decision", true),
            ("hours", true),
            ("extra wrong in label delay", true),
            ("requests for step", true),
            ("days", true),
        ],
        rows,
    )
}

fn file(sizing: &CanarySizing) -> Block {
    block(
        "Policy file".to_owned(),
        &[("canary.toml", false)],
        sizing
            .stanza
            .lines()
            .map(|line| vec![line.to_owned()])
            .collect(),
    )
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
    format!(
        "A candidate that errs in {} of the answers instead of {} costs {} extra wrong answers until the {} decides, whatever the slice; the slice sets how long that takes: {}. It misses such a candidate in {} of the runs of a step and withdraws a sound one in {}.",
        percent_exact(sizing.truth.p1),
        percent_exact(sizing.truth.p0),
        few(sprt.extra_wrong_until_decision),
        sprt.monitor.to_uppercase(),
        delays.join(", "),
        percent_exact(sprt.missed),
        percent_exact(sprt.false_rollback),
    )
}

fn notes(sizing: &CanarySizing) -> Vec<String> {
    let mut notes = vec![
        "extra wrong until decision = expected answers × gap / share graded; the rate per 1,000 is no total: it runs for as long as the candidate stays".to_owned(),
        "each step has a test of its own; the chances over the ramp take every slice above as a step".to_owned(),
        "confidence sequence: withdraws once the share of wrong answers is shown to be above the base's; it needs no error rate of the candidate, and may be looked at for ever".to_owned(),
        "control: the same test on the wrong answers of slice and control, for a base whose error rate nobody knows; how many of them a step has is left to chance, so its end is not in these numbers".to_owned(),
        "answers are taken to be independent; a few users with many requests decide earlier or later than this".to_owned(),
    ];
    if let Some(graded) = sizing.truth.graded {
        notes.push(format!(
            "the error rates are those of {} recorded requests with a grade of both routes, and no surer than that",
            whole(graded)
        ));
    }
    if sizing.label_delay_h > 0.0 {
        notes.push("a slice goes on answering while the deciding grade is on its way: that part of the harm does grow with the slice".to_owned());
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
