//! The policies of a comparison as tables: what one decides by, and behind it everything that was measured.

use super::compare::groups;
use super::methods::{alone, measured, method};
use super::{Cell, Column, Group, Table};
use crate::report::format::{UNKNOWN, decimal, in_unit, percent, share, usd, whole};
use crate::report::layout::Answers;
use crate::report::{Findings, METRICS, Metric, Row, Unit};
use crate::stats::Estimate;

/// Metrics that have a column only where somebody has some of them: retries, judges and mirrors are billed
/// beside the answers and must not hide in one sum.
const SOMETIMES: [&str; 3] = ["retr", "judge_", "mirror_"];

/// What one decides by.
pub(super) fn policies(findings: &Findings) -> Table {
    let answers = Answers::of(&findings.routes);
    let more = sometimes(findings);
    let has_savings = findings.rows.iter().any(|row| row.saving.is_some());
    let mut columns = vec![
        Column::words("policy"),
        Column::words("kind"),
        number("accuracy, %", "accuracy"),
        number("USD per 1,000", "usd_per_1k"),
    ];
    if let Some(volume) = findings.volume {
        columns.push(Column::number(
            "USD a month",
            &format!("At {} requests a month", decimal(volume, 0)),
        ));
    }
    columns.push(number("USD per right answer", "usd_per_correct"));
    if has_savings {
        columns.push(Column::number(
            "saving, USD per 1,000",
            "What the cheapest mix of single routes that is as accurate costs more",
        ));
    }
    columns.push(number("calls", "calls_per_request"));
    columns.extend(
        more.iter()
            .map(|metric| number(&heading(metric), metric.name)),
    );
    columns.push(number("unserved", "unserved"));
    columns.push(Column {
        title: answers.title().to_owned(),
        right: answers.are_numbers(),
        about: "Share of requests whose final answer came from each route, %".to_owned(),
    });
    let row = |row: &Row| -> Option<Vec<Cell>> {
        let cell = |name: &str, write: &dyn Fn(&Estimate) -> String| {
            row.metric(name).map_or_else(
                || Cell::words(UNKNOWN),
                |estimate| measured(estimate, &write(estimate)),
            )
        };
        let mut cells = vec![
            Cell::words(&row.policy),
            Cell::words(&row.kind),
            // The heading says what it is a share of.
            cell("accuracy", &|estimate| {
                share(estimate).replacen(" %", "", 1)
            }),
            cell("usd_per_1k", &usd),
        ];
        if let Some(volume) = findings.volume {
            let month = row
                .metric("usd_per_1k")
                .map(|estimate| estimate.clone().scaled(volume / 1000.0));
            cells.push(month.map_or_else(
                || Cell::words(UNKNOWN),
                |month| measured(&month, &usd(&month)),
            ));
        }
        cells.push(cell("usd_per_correct", &usd));
        if has_savings {
            cells.push(row.saving.as_ref().map_or_else(Cell::default, |saving| {
                let mut cell = measured(&saving.usd_per_1k, &usd(&saving.usd_per_1k));
                if !cell.detail.is_empty() {
                    cell.detail = format!(
                        "against {}, of whose cost it is {}: {}",
                        saving.mix,
                        share(&saving.share),
                        cell.detail
                    );
                }
                cell
            }));
        }
        let plain = |name: &str, write: &dyn Fn(&Estimate) -> String| {
            let metric = Metric::named(name).zip(row.metric(name));
            metric.map_or_else(
                || Cell::words(UNKNOWN),
                |(metric, estimate)| {
                    alone(estimate, write(estimate), &in_unit(metric.unit, estimate))
                },
            )
        };
        cells.push(plain("calls_per_request", &|estimate| {
            estimate
                .value
                .map_or_else(|| UNKNOWN.to_owned(), |value| decimal(value, 2))
        }));
        for metric in &more {
            cells.push(cell(metric.name, &|estimate| {
                in_unit(metric.unit, estimate)
            }));
        }
        cells.push(plain("unserved", &percent));
        cells.push(Cell {
            text: answers.cell(row, &findings.routes),
            is_prose: true,
            ..Cell::default()
        });
        Some(cells)
    };
    Table {
        caption: "Policies and controls".to_owned(),
        columns,
        groups: groups(findings, row),
        filters: Vec::new(),
    }
}

/// A column of a metric, with the metric's own sentence.
fn number(title: &str, metric: &str) -> Column {
    Column::number(
        title,
        Metric::named(metric).map_or("", |metric| metric.about),
    )
}

/// A metric's name as a heading: `mirror_usd_per_1k` is `mirror USD per 1,000`.
fn heading(metric: &Metric) -> String {
    metric
        .name
        .replace("usd_per_1k", "USD per 1,000")
        .replace("usd_per_correct", "USD per right answer")
        .replace('_', " ")
}

fn sometimes(findings: &Findings) -> Vec<&'static Metric> {
    METRICS
        .iter()
        .enumerate()
        .filter(|(place, metric)| {
            let is_one = SOMETIMES.iter().any(|start| metric.name.starts_with(start));
            is_one
                && findings.rows.iter().any(|row| {
                    let value = row.metrics.get(*place).and_then(|estimate| estimate.value);
                    row.mix.is_none() && value.is_some_and(|value| value > 0.0)
                })
        })
        .map(|(_, metric)| metric)
        .collect()
}

/// Everything that was measured, a line each: it can be picked from, and fits on paper.
pub(super) fn all(findings: &Findings) -> Table {
    let lines = |control: bool| {
        let rows = findings.rows.iter();
        rows.filter(|row| row.mix.is_none() && row.control == control)
            .flat_map(|row| lines(findings, row))
            .collect()
    };
    Table {
        caption: "Every measure".to_owned(),
        columns: vec![
            Column::words("policy"),
            Column::words("measure"),
            Column::number("value", "With its interval"),
            Column::words("interval by"),
            Column::number("n", "Observations behind it"),
        ],
        groups: vec![
            Group {
                label: String::new(),
                rows: lines(false),
            },
            Group {
                label: "controls".to_owned(),
                rows: lines(true),
            },
        ],
        filters: vec![0, 1],
    }
}

/// What is known of one policy.
fn lines(findings: &Findings, row: &Row) -> Vec<Vec<Cell>> {
    let metrics = METRICS
        .iter()
        .map(|metric| (heading(metric), metric.unit))
        .zip(&row.metrics);
    let shares = findings
        .routes
        .iter()
        .map(|route| (format!("final share {route}"), Unit::Share))
        .zip(&row.final_share);
    metrics
        .chain(shares)
        .filter(|(_, estimate)| estimate.value.is_some())
        .map(|((name, unit), estimate)| {
            let mut value = measured(estimate, &in_unit(unit, estimate));
            // It stands in the next cells.
            value.detail.clear();
            vec![
                Cell::words(&row.policy),
                Cell::words(&name),
                value,
                Cell::words(match estimate.limits() {
                    Some(_) => method(estimate.method),
                    None => "no interval",
                }),
                Cell::number(whole(estimate.n), Some(estimate.n as f64)),
            ]
        })
        .collect()
}
