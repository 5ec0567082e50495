//! The parts of the traffic: a picture of their differences, and every number in a table to pick from.

use super::compare::status;
use super::methods::measured;
use super::{Cell, Column, Group, Part, Section, Table};
use crate::report::format::{points, share, usd, whole};
use crate::report::sheet::Figure;
use crate::report::{Findings, plots};

/// Most rows of the table: the page must stay small enough to be sent by mail.
const ROWS_MAX: usize = 300;

/// The section, if requests were told apart.
pub(super) fn section(findings: &Findings) -> Option<Section> {
    let mut rows = Vec::new();
    let mut all = 0;
    for slice in &findings.slices {
        for row in slice.rows.iter().filter(|row| !row.control) {
            all += 1;
            if rows.len() == ROWS_MAX {
                continue;
            }
            let plain = |estimate, written: String| Cell {
                // The column says how, the row on how many: said in each cell it would fill the page.
                detail: String::new(),
                ..measured(estimate, &written)
            };
            let mut cells = vec![
                Cell::words(&row.policy),
                Cell::words(slice.by.name()),
                Cell::words(slice.task.as_deref().unwrap_or("")),
                Cell::words(slice.tenant.as_deref().unwrap_or("")),
                Cell::number(whole(slice.requests), Some(slice.requests as f64)),
                plain(&row.accuracy, share(&row.accuracy).replacen(" %", "", 1)),
                plain(&row.usd_per_1k, usd(&row.usd_per_1k)),
            ];
            cells.push(
                row.accuracy_difference
                    .as_ref()
                    .map_or_else(Cell::default, |difference| {
                        plain(difference, points(difference))
                    }),
            );
            cells.push(row.verdict.map_or_else(Cell::default, |verdict| Cell {
                status: Some(status(verdict)),
                ..Cell::words(verdict.word())
            }));
            rows.push(cells);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut parts: Vec<Part> = findings
        .slice_note
        .iter()
        .cloned()
        .map(Part::Prose)
        .collect();
    if let Some(svg) = plots::slices(findings) {
        parts.push(Part::Figure(Figure {
            title: "Differences from the baseline by part of the traffic".to_owned(),
            about: "A dot for each policy with its interval, by part of the traffic. Left of the broken line a policy is worse by more than the margin. The table below has the numbers.".to_owned(),
            svg,
        }));
    }
    let left = all - rows.len();
    parts.push(Part::Table(Table {
        caption: "Policies by task and tenant".to_owned(),
        columns: vec![
            Column::words("policy"),
            Column::words("by"),
            Column::words("task"),
            Column::words("tenant"),
            Column::number("requests", "Requests of the slice, over all replicates"),
            Column::number("accuracy, %", "With its interval, by Wilson's score unless grades are partial"),
            Column::number("USD per 1,000", "With its interval, by the normal curve"),
            Column::number(
                "accuracy, points",
                "Difference from the baseline with its interval, by Tango's paired score unless grades are partial",
            ),
            Column::words("verdict"),
        ],
        groups: vec![Group {
            label: String::new(),
            rows,
        }],
        filters: vec![1, 2, 3, 0],
    }));
    if left > 0 {
        parts.push(Part::Prose(format!(
            "{} further rows are in findings.json.",
            whole(left as u64)
        )));
    }
    Some(Section::new(
        "slices",
        "Slices: by task and tenant",
        "A policy that is fine on the whole can be bad for somebody. Verdicts of parts are not adjusted for each other: among many, some look good or bad by chance.",
        parts,
    ))
}
