//! What it costs a month: the bill at a volume, what each part of it is, and what is saved at equal accuracy.
//!
//! Every amount is that of a thousand requests, scaled, with its interval. Mirrored calls are billed beside the
//! answers, judges are part of the bill. Attempts that fail count as free, because no provider says what it bills for them; how
//! many there were is said, so that whoever knows better can add them.

use super::format::{decimal, percent_digits, usd, whole};
use super::layout::{Block, Line, columns};
use super::{Findings, Row};
use crate::stats::Estimate;

/// The block, if a volume was given.
pub(super) fn block(findings: &Findings) -> Block {
    let lines = findings.volume.map_or_else(Vec::new, |volume| {
        let rows = || {
            findings
                .rows
                .iter()
                .filter(|row| row.mix.is_none() && row.unavailable.is_none())
        };
        let mut lines: Vec<Line> = rows()
            .filter(|row| !row.control)
            .map(|row| line(row, volume))
            .collect();
        let controls: Vec<Line> = rows()
            .filter(|row| row.control)
            .map(|row| line(row, volume))
            .collect();
        if !lines.is_empty() && !controls.is_empty() {
            lines.push(Line::Label("controls:"));
        }
        lines.extend(controls);
        lines
    });
    Block {
        heading: format!(
            "Cost of {} requests in USD, {} (saving: against the cheapest mix of single routes that is as accurate)",
            decimal(findings.volume.unwrap_or(0.0), 0),
            findings.workload.evidence_word()
        ),
        columns: columns(&[
            ("policy", false),
            ("USD", true),
            ("per right answer", true),
            ("judges", true),
            ("mirrors", true),
            ("failed attempts", true),
            ("saving", true),
            ("%", true),
            ("against", false),
        ]),
        lines,
    }
}

fn line(row: &Row, volume: f64) -> Line {
    let scaled = |estimate: &Estimate| estimate.clone().scaled(volume / 1_000.0);
    let metric = |name: &str| row.metric(name);
    let amount = |name: &str| metric(name).map_or_else(String::new, |one| usd(&scaled(one)));
    // What there is none of takes no room.
    let part = |name: &str| {
        let some = metric(name).filter(|one| one.value != Some(0.0));
        some.map_or_else(|| "0".to_owned(), |one| usd(&scaled(one)))
    };
    let failed: u64 = row
        .traces
        .iter()
        .map(|trace| trace.failed + trace.failed_after_output)
        .sum();
    let saving = row.saving.as_ref();
    Line::Cells(vec![
        row.policy.clone(),
        amount("usd_per_1k"),
        metric("usd_per_correct").map_or_else(String::new, usd),
        part("judge_usd_per_1k"),
        part("mirror_usd_per_1k"),
        match failed {
            0 => "0".to_owned(),
            some => format!("{} (free)", whole(some)),
        },
        saving.map_or_else(String::new, |one| usd(&scaled(&one.usd_per_1k))),
        saving
            .and_then(|one| one.share.value)
            .map_or_else(String::new, percent_digits),
        saving.map_or_else(String::new, |one| one.mix.clone()),
    ])
}
