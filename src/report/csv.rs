//! The report as CSV in long form: one line per number, for spreadsheets and data frames.
//!
//! A text cell that a spreadsheet would take for a formula gets an apostrophe in front (OWASP, "CSV
//! Injection"), and control characters are written as escapes. An unknown number is an empty cell.

use super::format::visible;
use super::frame::{Cells, Frame};
use super::{Findings, Rollouts};
use crate::stats::Estimate;

pub(super) fn render(findings: &Findings) -> String {
    frame(findings).csv()
}

/// One number of the report.
struct Number {
    policy: String,
    kind: String,
    control: bool,
    metric: String,
    estimate: Estimate,
    task: Option<String>,
    tenant: Option<String>,
}

/// Every number of the report in long form: one row each.
pub(super) fn frame(findings: &Findings) -> Frame {
    let numbers = numbers(findings);
    let text = |of: fn(&Number) -> Option<String>| Cells::Text(numbers.iter().map(of).collect());
    let number = |of: fn(&Estimate) -> Option<f64>| {
        Cells::Number(numbers.iter().map(|one| of(&one.estimate)).collect())
    };
    Frame::new(vec![
        (
            "policy",
            "Name of the policy or control.",
            text(|one| Some(one.policy.clone())),
        ),
        ("kind", "Its kind.", text(|one| Some(one.kind.clone()))),
        (
            "control",
            "Whether it is a control rather than a policy under test.",
            Cells::Flag(numbers.iter().map(|one| Some(one.control)).collect()),
        ),
        (
            "metric",
            "What was measured; a difference names the baseline behind its dot.",
            text(|one| Some(one.metric.clone())),
        ),
        (
            "value",
            "The estimate: shares from 0 to 1, money in USD; empty if unknown.",
            number(|estimate| estimate.value),
        ),
        (
            "low",
            "Lower limit of its interval.",
            number(|estimate| estimate.low),
        ),
        (
            "high",
            "Upper limit of its interval.",
            number(|estimate| estimate.high),
        ),
        (
            "level",
            "Two-sided confidence level of the interval.",
            number(|estimate| Some(estimate.level)),
        ),
        (
            "n",
            "Observations that entered it.",
            Cells::Count(numbers.iter().map(|one| Some(one.estimate.n)).collect()),
        ),
        (
            "method",
            "How the interval was made.",
            text(|one| Some(one.estimate.method.to_owned())),
        ),
        (
            "task",
            "The task of the slice it is about; empty for all tasks.",
            text(|one| one.task.clone()),
        ),
        (
            "tenant",
            "The tenant of the slice it is about; empty for all tenants.",
            text(|one| one.tenant.clone()),
        ),
    ])
}

fn numbers(findings: &Findings) -> Vec<Number> {
    let mut numbers = Vec::new();
    let mut push = |policy: &str, kind: &str, control: bool, metric: &str, estimate: &Estimate| {
        numbers.push(Number {
            policy: policy.to_owned(),
            kind: kind.to_owned(),
            control,
            metric: metric.to_owned(),
            estimate: estimate.clone(),
            task: None,
            tenant: None,
        });
    };
    for row in &findings.rows {
        let mut line = |metric: &str, estimate: &Estimate| {
            push(&row.policy, &row.kind, row.control, metric, estimate);
        };
        for (metric, estimate) in row.named(&findings.routes) {
            line(&metric, estimate);
        }
        if let Some((volume, usd)) = findings.volume.zip(row.metric("usd_per_1k")) {
            line("usd_at_volume", &usd.clone().scaled(volume / 1_000.0));
        }
        for (name, estimate) in row.rollouts.iter().flat_map(Rollouts::named) {
            line(&format!("canary.{name}"), estimate);
        }
        if let Some(mix) = &row.mix {
            line("lead_of_policy", &mix.lead);
        }
        if let Some(saving) = &row.saving {
            line("saving_usd_per_1k", &saving.usd_per_1k);
            line("saving_share", &saving.share);
        }
        if let Some(shadow) = &row.shadow {
            line("shadow_difference", &shadow.difference);
            line("shadow_promoted", &shadow.promoted);
        }
    }
    for paired in &findings.paired {
        let kind = findings
            .row(&paired.policy)
            .map_or("", |row| row.kind.as_str());
        let p_value = |value: Option<f64>, method: &'static str| Estimate {
            value,
            n: paired.accuracy_difference.n,
            method,
            ..Estimate::unknown(findings.level)
        };
        let raw = paired.accuracy_difference.method;
        let mut lines = vec![
            ("accuracy_difference", paired.accuracy_difference.clone()),
            (
                "usd_per_1k_difference",
                paired.usd_per_1k_difference.clone(),
            ),
        ];
        if let Some(drawn) = &paired.bootstrap {
            let (accuracy, usd) = (&drawn.accuracy_difference, &drawn.usd_per_1k_difference);
            lines.push(("accuracy_difference_bootstrap", accuracy.clone()));
            lines.push(("usd_per_1k_difference_bootstrap", usd.clone()));
        }
        for (tails, method, noninferior, inferior) in [
            (paired.p, raw, "p_noninferior", "p_inferior"),
            (
                paired.p_holm,
                "holm",
                "p_noninferior_holm",
                "p_inferior_holm",
            ),
        ] {
            if let Some(tails) = tails {
                lines.push((noninferior, p_value(Some(tails.noninferior), method)));
                lines.push((inferior, p_value(Some(tails.inferior), method)));
            }
        }
        for (metric, estimate) in &lines {
            let metric = format!("{metric}.{}", paired.baseline);
            push(&paired.policy, kind, paired.control, &metric, estimate);
        }
    }
    for slice in &findings.slices {
        for row in &slice.rows {
            let kind = findings
                .row(&row.policy)
                .map_or("", |row| row.kind.as_str());
            let difference = findings
                .baseline
                .as_ref()
                .zip(row.accuracy_difference.as_ref());
            let difference = difference
                .map(|(baseline, estimate)| (format!("accuracy_difference.{baseline}"), estimate));
            let lines = [
                ("accuracy".to_owned(), &row.accuracy),
                ("usd_per_1k".to_owned(), &row.usd_per_1k),
            ];
            numbers.extend(
                lines
                    .into_iter()
                    .chain(difference)
                    .map(|(metric, estimate)| Number {
                        policy: row.policy.clone(),
                        kind: kind.to_owned(),
                        control: row.control,
                        metric,
                        estimate: estimate.clone(),
                        task: slice.task.clone(),
                        tenant: slice.tenant.clone(),
                    }),
            );
        }
    }
    numbers
}

/// Text that no spreadsheet computes.
pub(super) fn guarded(text: &str) -> String {
    let text = visible(text);
    if text.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']) {
        format!("'{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_a_formula() {
        assert_eq!(guarded("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")");
        assert_eq!(guarded("@sum"), "'@sum");
        assert_eq!(guarded("static"), "static");
    }
}
