//! The report as CSV in long form: one line per number, for spreadsheets and data frames.
//!
//! A text cell that a spreadsheet would take for a formula gets an apostrophe in front (OWASP, "CSV
//! Injection"), and control characters are written as escapes. An unknown number is an empty cell.

use super::format::visible;
use super::{Findings, Rollouts};
use crate::stats::Estimate;

const HEADER: [&str; 10] = [
    "policy", "kind", "control", "metric", "value", "low", "high", "level", "n", "method",
];

pub(super) fn render(findings: &Findings) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory cannot fail, and every record has the header's length.
    let mut write = |record: [String; 10]| drop(writer.write_record(record));
    write(HEADER.map(str::to_owned));
    for row in &findings.rows {
        let mut line = |metric: &str, estimate: &Estimate| {
            write(record(
                &row.policy,
                &row.kind,
                row.control,
                metric,
                estimate,
            ));
        };
        for (metric, estimate) in row.named(&findings.routes) {
            line(&metric, estimate);
        }
        for (name, estimate) in row.rollouts.iter().flat_map(Rollouts::named) {
            line(&format!("canary.{name}"), estimate);
        }
        if let Some(mix) = &row.mix {
            line("lead_of_policy", &mix.lead);
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
            write(record(
                &paired.policy,
                kind,
                paired.control,
                &metric,
                estimate,
            ));
        }
    }
    // The records were made of strings.
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn record(
    policy: &str,
    kind: &str,
    control: bool,
    metric: &str,
    estimate: &Estimate,
) -> [String; 10] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    [
        guarded(policy),
        guarded(kind),
        control.to_string(),
        guarded(metric),
        number(estimate.value),
        number(estimate.low),
        number(estimate.high),
        estimate.level.to_string(),
        estimate.n.to_string(),
        estimate.method.to_owned(),
    ]
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
