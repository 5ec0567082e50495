//! What it costs a month: the bill at a volume, what each part of it is, and what is saved at equal accuracy.
//!
//! Every amount is that of a thousand requests, scaled, with its interval. Mirrored calls are billed beside the
//! answers, judges are part of the bill. Attempts that fail count as free, because no provider says what it bills for them; how
//! many there were is said, so that whoever knows better can add them.

use super::format::{decimal, percent_digits, usd, whole};
use super::layout::{Block, Line, columns};
use super::{Findings, Row};
use crate::stats::Estimate;

/// The columns beside the bill; those in which there is nothing but zeros are left out.
const PARTS: [(&str, &str); 2] = [
    ("judges", "judge_usd_per_1k"),
    ("mirrors", "mirror_usd_per_1k"),
];

/// The block, if a volume was given.
pub(super) fn block(findings: &Findings) -> Block {
    let volume = findings.volume.unwrap_or(0.0);
    let rows: Vec<&Row> = findings
        .rows
        .iter()
        .filter(|_| findings.volume.is_some())
        .filter(|row| row.mix.is_none() && row.unavailable.is_none())
        .collect();
    let parts: Vec<(&str, &str)> = PARTS
        .into_iter()
        .filter(|(_, metric)| rows.iter().any(|row| has(row, metric)))
        .collect();
    let mirrors = parts.iter().any(|(title, _)| *title == "mirrors");
    let fails = rows.iter().any(|row| failed(row) > 0);
    let saves = rows.iter().any(|row| row.saving.is_some());
    let line = |row: &&Row| {
        let scaled = |estimate: &Estimate| estimate.clone().scaled(volume / 1_000.0);
        let mut cells = vec![
            row.policy.clone(),
            row.metric("usd_per_1k")
                .map_or_else(String::new, |one| usd(&scaled(one))),
            row.metric("usd_per_correct").map_or_else(String::new, usd),
        ];
        for (_, metric) in &parts {
            let some = row.metric(metric).filter(|_| has(row, metric));
            cells.push(some.map_or_else(|| "0".to_owned(), |one| usd(&scaled(one))));
        }
        if mirrors {
            let both = row
                .metric("usd_per_1k")
                .zip(row.metric("mirror_usd_per_1k"));
            cells.push(both.map_or_else(String::new, |(served, mirrored)| {
                usd(&scaled(&with(served, mirrored)))
            }));
        }
        if fails {
            cells.push(match failed(row) {
                0 => "0".to_owned(),
                some => format!("{} (free)", whole(some)),
            });
        }
        if saves {
            let saving = row.saving.as_ref();
            cells.extend([
                saving.map_or_else(String::new, |one| usd(&scaled(&one.usd_per_1k))),
                saving
                    .and_then(|one| one.share.value)
                    .map_or_else(String::new, percent_digits),
                saving.map_or_else(String::new, |one| one.mix.clone()),
            ]);
        }
        Line::Cells(cells)
    };
    let of = |control: bool| rows.iter().filter(move |row| row.control == control);
    let mut lines: Vec<Line> = of(false).map(line).collect();
    if !lines.is_empty() && of(true).next().is_some() {
        lines.push(Line::Label("controls"));
    }
    lines.extend(of(true).map(line));
    let mut titles = vec![("policy", false), ("USD", true), ("per right answer", true)];
    titles.extend(parts.iter().map(|(title, _)| (*title, true)));
    if mirrors {
        titles.push(("USD with mirrors", true));
    }
    if fails {
        titles.push(("failed attempts", true));
    }
    if saves {
        let saving = if mirrors {
            "saving before mirrors"
        } else {
            "saving"
        };
        titles.extend([(saving, true), ("%", true), ("against", false)]);
    }
    Block {
        heading: format!(
            "Cost of {} requests in USD, {}{}",
            decimal(volume, 0),
            findings.workload.evidence_word(),
            if saves {
                " (saving: against the cheapest mix of single routes that is as accurate)"
            } else {
                ""
            }
        ),
        columns: columns(&titles),
        lines,
    }
}

/// Both together. How they hang together is not known here, so the limits are those of the worst case: both low, both
/// high.
fn with(served: &Estimate, mirrored: &Estimate) -> Estimate {
    let sum = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
    Estimate {
        value: sum(served.value, mirrored.value),
        low: sum(served.low, mirrored.low),
        high: sum(served.high, mirrored.high),
        ..served.clone()
    }
}

/// Whether there is any of it. What is not known is not nothing.
fn has(row: &Row, metric: &str) -> bool {
    row.metric(metric)
        .is_some_and(|one| one.value != Some(0.0) && one.n > 0)
}

/// Attempts that failed, where requests went through the router one by one.
fn failed(row: &Row) -> u64 {
    let traces = row.traces.iter();
    traces
        .map(|trace| trace.failed + trace.failed_after_output)
        .sum()
}
