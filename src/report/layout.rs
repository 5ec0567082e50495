//! The report as blocks of text cells, which the table and the Markdown renderer draw each in its way.
//!
//! Cells hold names as they came; whoever draws them escapes them.

use super::format::{
    UNKNOWN, count, decimal, in_unit, margin_points, percent, percent_digits, points, share, usd,
    usd_difference, whole,
};
use super::{Findings, Outcome, Row};
use crate::sim::{Rollout, RolloutEnd};

/// A heading with a grid under it.
pub(super) struct Block {
    pub(super) heading: String,
    pub(super) columns: Vec<Column>,
    pub(super) lines: Vec<Line>,
}

pub(super) struct Column {
    pub(super) title: String,
    /// Numbers stand on the right.
    pub(super) right: bool,
}

pub(super) enum Line {
    /// One cell per column.
    Cells(Vec<String>),
    /// A sub-heading across the grid.
    Label(&'static str),
}

/// Columns from their titles, and whether they stand on the right.
pub(super) fn columns(titles: &[(&str, bool)]) -> Vec<Column> {
    titles
        .iter()
        .map(|&(title, right)| Column {
            title: title.to_owned(),
            right,
        })
        .collect()
}

/// What was run, in one line.
pub(super) fn title(findings: &Findings) -> String {
    let workload = &findings.workload;
    let mut text = format!(
        "{}: {} requests, {}",
        workload.name,
        whole(workload.requests),
        workload.evidence_word()
    );
    if workload.replicates > 1 {
        let what = if workload.shared_rows {
            "replicates of the policies' own draws"
        } else {
            "replicates"
        };
        text.push_str(&format!(", {} {what}", whole(workload.replicates)));
    }
    text.push_str(&format!(", {} % intervals", margin_points(findings.level)));
    text
}

/// The blocks, in reading order; empty ones are left out.
pub(super) fn blocks(findings: &Findings) -> Vec<Block> {
    [
        requirements(findings),
        policies(findings),
        super::finance::block(findings),
        mirrors(findings),
        shadows(findings),
        rollouts(findings),
        paired(findings),
        bootstrapped(findings),
        verifiers(findings),
    ]
    .into_iter()
    .filter(|block| !block.lines.is_empty())
    .collect()
}

fn requirements(findings: &Findings) -> Block {
    let lines = findings
        .requirements
        .iter()
        .map(|judgement| {
            let remark = match &judgement.outcome {
                Outcome::Inconclusive { why, .. } => why.clone(),
                Outcome::Pass | Outcome::Fail => String::new(),
            };
            Line::Cells(vec![
                judgement.outcome.word().to_owned(),
                judgement.policy.clone(),
                judgement.requirement.clone(),
                in_unit(judgement.unit, &judgement.estimate),
                remark,
            ])
        })
        .collect();
    Block {
        heading: "Requirements".to_owned(),
        columns: columns(&[
            ("result", false),
            ("policy", false),
            ("requirement", false),
            ("measured", true),
            ("remark", false),
        ]),
        lines,
    }
}

/// Policies above, controls below the label; mixes stand beside their policy in the next block.
fn policies(findings: &Findings) -> Block {
    let answers = Answers::of(&findings.routes);
    let titles = [
        ("policy", false),
        ("kind", false),
        ("accuracy", true),
        ("USD per 1,000", true),
        ("calls", true),
        ("unserved", true),
        (answers.title(), answers.are_numbers()),
    ];
    let cells = |row: &Row| {
        let text = |name: &str, write: &dyn Fn(&crate::stats::Estimate) -> String| {
            row.metric(name).map_or_else(|| UNKNOWN.to_owned(), write)
        };
        Line::Cells(vec![
            row.policy.clone(),
            row.kind.clone(),
            text("accuracy", &share),
            text("usd_per_1k", &usd),
            text("calls_per_request", &|e| {
                e.value
                    .map_or_else(|| UNKNOWN.to_owned(), |v| decimal(v, 2))
            }),
            text("unserved", &percent),
            answers.cell(row, &findings.routes),
        ])
    };
    let standing = || findings.rows.iter().filter(|row| row.mix.is_none());
    let mut lines: Vec<Line> = standing().filter(|row| !row.control).map(cells).collect();
    let controls: Vec<Line> = standing().filter(|row| row.control).map(cells).collect();
    if !controls.is_empty() {
        lines.push(Line::Label("controls"));
        lines.extend(controls);
    }
    Block {
        heading: format!(
            "Policies, {} (final: whose answers were served, %)",
            findings.workload.evidence_word()
        ),
        columns: columns(&titles),
        lines,
    }
}

/// Copies that nobody is served, in a block of their own: they belong in no other column.
fn mirrors(findings: &Findings) -> Block {
    let lines = findings
        .rows
        .iter()
        .filter_map(|row| {
            let cost = row.metric("mirror_usd_per_1k")?;
            // A policy that mirrors nothing has nothing to say here.
            let some = row.mix.is_none() && cost.value.is_some_and(|usd| usd > 0.0);
            some.then(|| Line::Cells(vec![row.policy.clone(), usd(cost)]))
        })
        .collect();
    Block {
        heading: format!(
            "Mirrored calls, billed beside the answers, {}",
            findings.workload.evidence_word()
        ),
        columns: columns(&[("policy", false), ("USD per 1,000", true)]),
        lines,
    }
}

/// What each shadow says about its candidate.
pub(super) fn shadows(findings: &Findings) -> Block {
    let several = findings.workload.replicates > 1;
    let with = findings
        .rows
        .iter()
        .filter_map(|row| Some((row, row.shadow.as_ref()?)));
    let lines = with
        .map(|(row, shadow)| {
            let mut cells = vec![
                row.policy.clone(),
                whole(shadow.mirrored),
                whole(shadow.graded),
                whole(shadow.n10),
                whole(shadow.n01),
                points(&shadow.difference),
                shadow.verdict.word().to_owned(),
            ];
            if several {
                cells.push(share(&shadow.promoted));
            }
            Line::Cells(cells)
        })
        .collect();
    let mut titles = vec![
        ("policy", false),
        ("mirrored", true),
        ("graded", true),
        ("only candidate right", true),
        ("only served right", true),
        ("accuracy, points", true),
        ("verdict", false),
    ];
    if several {
        titles.push(("promoted", true));
    }
    Block {
        heading: format!(
            "Shadows, {} (candidate against what was served; rule {}, margin {} points, one-sided alpha {})",
            findings.workload.evidence_word(),
            findings
                .rows
                .iter()
                .find_map(|row| row.shadow.as_ref())
                .map_or("", |shadow| shadow.rule),
            margin_points(findings.margin),
            findings.alpha
        ),
        columns: columns(&titles),
        lines,
    }
}

/// The differences once more, with limits by drawing clusters anew.
pub(super) fn bootstrapped(findings: &Findings) -> Block {
    let lines = findings
        .paired
        .iter()
        .filter_map(|pair| {
            let drawn = pair.bootstrap.as_ref()?;
            Some(Line::Cells(vec![
                pair.policy.clone(),
                points(&drawn.accuracy_difference),
                usd_difference(&drawn.usd_per_1k_difference),
            ]))
        })
        .collect();
    Block {
        heading: format!(
            "The same differences with BCa intervals, {} (each {} drawn anew)",
            findings.workload.evidence_word(),
            findings.cluster.unwrap_or("cluster")
        ),
        columns: columns(&[
            ("policy", false),
            ("accuracy, points", true),
            ("USD per 1,000", true),
        ]),
        lines,
    }
}

/// What became of candidates that are let in step by step.
pub(super) fn rollouts(findings: &Findings) -> Block {
    let with = findings
        .rows
        .iter()
        .filter_map(|row| Some((row, row.rollouts.as_ref()?)));
    let lines = with
        .map(|(row, rollouts)| {
            let mut cells = vec![row.policy.clone()];
            for of in [&rollouts.promoted, &rollouts.paused, &rollouts.rolled_back] {
                cells.push(share(of));
            }
            cells.push(count(&rollouts.requests_until_rollback));
            // Their intervals are in JSON and CSV: here they would make the lines too long to read.
            for of in [&rollouts.graded, &rollouts.wrong, &rollouts.extra_wrong] {
                cells.push(match of.value {
                    Some(mean) => decimal(mean, usize::from(mean.abs() < 100.0)),
                    None => UNKNOWN.to_owned(),
                });
            }
            cells.push(rollouts.runs.first().map_or_else(String::new, rollout));
            Line::Cells(cells)
        })
        .collect();
    Block {
        heading: format!(
            "Canary, {} (shares of replicates; means per replicate of requests and answers; extra wrong: beyond the control's)",
            findings.workload.evidence_word()
        ),
        columns: columns(&[
            ("policy", false),
            ("promoted", true),
            ("paused", true),
            ("rolled back", true),
            ("until rollback", true),
            ("graded", true),
            ("wrong", true),
            ("extra wrong", true),
            ("first replicate", false),
        ]),
        lines,
    }
}

/// How one rollout ended.
fn rollout(run: &Rollout) -> String {
    match run.end {
        RolloutEnd::Promoted { request } => format!("promoted at {}", whole(request + 1)),
        RolloutEnd::Paused => format!("at step {} of {}", run.step + 1, run.steps),
        RolloutEnd::RolledBack { request, by } => format!(
            "rolled back at {} ({}, step {} of {})",
            whole(request + 1),
            by.name(),
            run.step + 1,
            run.steps
        ),
    }
}

/// How often verifiers erred: a cascade is as good as these two numbers.
pub(super) fn verifiers(findings: &Findings) -> Block {
    let with = findings
        .rows
        .iter()
        .filter(|row| row.mix.is_none() && !row.verifiers.is_empty());
    let lines = with
        .map(|row| {
            let mut cells = vec![row.policy.clone(), row.verifiers.join(", ")];
            for name in ["verifier_false_accept", "verifier_false_reject"] {
                let measured = row.metric(name);
                cells.push(measured.map_or_else(|| UNKNOWN.to_owned(), share));
                cells.push(measured.map_or_else(|| UNKNOWN.to_owned(), |e| whole(e.n)));
            }
            Line::Cells(cells)
        })
        .collect();
    Block {
        heading: format!(
            "Verifiers, {} (of the wrong answers looked at, those accepted; of the right ones, those rejected)",
            findings.workload.evidence_word()
        ),
        columns: columns(&[
            ("policy", false),
            ("verifier", false),
            ("false accepts", true),
            ("n", true),
            ("false rejects", true),
            ("n", true),
        ]),
        lines,
    }
}

/// How final answers per route are written: the shares alone under a title that names the routes while
/// that is short, else each share with its route's name.
pub(super) struct Answers {
    title: Option<String>,
}

impl Answers {
    pub(super) fn of(routes: &[String]) -> Self {
        const ROUTES_MAX: usize = 4;
        const TITLE_CHARS_MAX: usize = 30;
        let title = format!("final {}", routes.join("/"));
        let short = routes.len() <= ROUTES_MAX && title.chars().count() <= TITLE_CHARS_MAX;
        Self {
            title: short.then_some(title),
        }
    }

    pub(super) fn title(&self) -> &str {
        self.title.as_deref().unwrap_or("final")
    }

    pub(super) fn are_numbers(&self) -> bool {
        self.title.is_some()
    }

    pub(super) fn cell(&self, row: &Row, routes: &[String]) -> String {
        if self.title.is_none() || row.final_share.iter().any(|share| share.value.is_none()) {
            return final_answers(row, routes);
        }
        let shares = row.final_share.iter().filter_map(|share| share.value);
        shares.map(percent_digits).collect::<Vec<_>>().join(" / ")
    }
}

/// The routes with the most final answers, `small 63, medium 17, large 20`; of many routes the largest
/// shares, `a 40, b 9, c 8, d 8, +29 more`. For a row of one route, whose name says which, `98 %`.
fn final_answers(row: &Row, routes: &[String]) -> String {
    const SHOWN_MAX: usize = 4;
    /// Smaller shares are named only where there is room for all.
    const SHARE_MIN: f64 = 0.01;
    if row
        .final_share
        .iter()
        .all(|estimate| estimate.value.is_none())
    {
        return UNKNOWN.to_owned();
    }
    let mut known: Vec<(usize, f64)> = row
        .final_share
        .iter()
        .enumerate()
        .filter_map(|(route, estimate)| Some((route, estimate.value?)))
        .filter(|(_, value)| *value > 0.0)
        .collect();
    if let ("always", [(_, share)]) = (row.kind.as_str(), known.as_slice()) {
        return format!("{} %", percent_digits(*share));
    }
    // The largest are shown, in the order of the catalogue, so that columns of rows compare.
    known.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
    let used = known.len();
    if used > SHOWN_MAX {
        let large = known.iter().filter(|(_, v)| *v >= SHARE_MIN).count();
        known.truncate(large.clamp(1, SHOWN_MAX));
    }
    let rest = used - known.len();
    known.sort_by_key(|(route, _)| *route);
    let mut parts: Vec<String> = known
        .iter()
        .map(|(route, value)| {
            let name = routes.get(*route).map_or("?", String::as_str);
            format!("{name} {}", percent_digits(*value))
        })
        .collect();
    if rest > 0 {
        parts.push(format!("+{rest} more"));
    }
    if parts.is_empty() {
        parts.push("none".to_owned());
    }
    parts.join(", ")
}

fn paired(findings: &Findings) -> Block {
    let mixes = findings.rows.iter().any(|row| row.mix.is_some());
    let mut titles = vec![
        ("policy", false),
        ("accuracy, points", true),
        ("USD per 1,000", true),
        ("verdict", false),
    ];
    if mixes {
        titles.push(("same mix (lead)", true));
        titles.push(("same cost (lead)", true));
    }
    let cells = |row: &Row| {
        let comparison = findings.paired.iter().find(|p| p.policy == row.policy);
        let (accuracy, usd, verdict) = match comparison {
            Some(paired) => (
                points(&paired.accuracy_difference),
                usd_difference(&paired.usd_per_1k_difference),
                paired.verdict.word(),
            ),
            None if findings.baseline.as_ref() == Some(&row.policy) => {
                (String::new(), String::new(), "the baseline")
            }
            None => (String::new(), String::new(), ""),
        };
        let mut cells = vec![row.policy.clone(), accuracy, usd, verdict.to_owned()];
        if mixes {
            cells.push(mix(findings, row, "random-mix"));
            cells.push(mix(findings, row, "cost-matched-mix"));
        }
        Line::Cells(cells)
    };
    let standing = || findings.rows.iter().filter(|row| row.mix.is_none());
    let mut lines: Vec<Line> = standing().filter(|row| !row.control).map(cells).collect();
    let controls: Vec<Line> = standing()
        .filter(|row| row.control && findings.paired.iter().any(|p| p.policy == row.policy))
        .map(cells)
        .collect();
    if !controls.is_empty() {
        lines.push(Line::Label("controls"));
        lines.extend(controls);
    }
    let heading = match &findings.baseline {
        Some(baseline) => format!(
            "Difference from {baseline} on the same requests, {} (margin {} points, one-sided alpha {}{})",
            findings.workload.evidence_word(),
            margin_points(findings.margin),
            findings.alpha,
            if findings.family > 1 {
                format!(", Holm over {} policies", findings.family)
            } else {
                String::new()
            }
        ),
        None => "Policies beside their mixes (no baseline to compare with)".to_owned(),
    };
    if findings.baseline.is_none() && !mixes {
        lines.clear();
    }
    Block {
        heading,
        columns: columns(&titles),
        lines,
    }
}

/// Accuracy of a policy's mix and the policy's lead over it in points: `87.0 % (+3.1)`.
pub(super) fn mix(findings: &Findings, row: &Row, kind: &str) -> String {
    let found = findings.rows.iter().find_map(|candidate| {
        let mix = candidate.mix.as_ref()?;
        (mix.of == row.policy && candidate.kind == kind).then_some((candidate, mix))
    });
    let Some((candidate, mix)) = found else {
        return String::new();
    };
    match (
        candidate.metric("accuracy").and_then(|e| e.value),
        mix.lead.value,
    ) {
        (Some(accuracy), Some(lead)) => format!(
            "{} % ({}{})",
            decimal(accuracy * 100.0, 1),
            if lead * 100.0 >= 0.05 { "+" } else { "" },
            decimal(lead * 100.0, 1)
        ),
        _ => UNKNOWN.to_owned(),
    }
}

/// What explains the blocks: the columns of mixes, and the experiment's notes.
pub(super) fn notes(findings: &Findings) -> Vec<String> {
    let mut notes = Vec::new();
    if findings.rows.iter().any(|row| row.mix.is_some()) {
        notes.push(
            "same mix: accuracy if each request went to a random route, in the proportions of the policy's final answers; same cost: if two single routes were mixed at random to cost the same; in brackets the policy's lead in points"
                .to_owned(),
        );
    }
    notes.extend(findings.notes.iter().cloned());
    notes
}

#[cfg(test)]
mod tests {
    use crate::report::{METRICS, Unit};

    #[test]
    fn the_columns_exist_as_metrics_of_the_expected_unit() {
        for (name, unit) in [
            ("accuracy", Unit::Share),
            ("usd_per_1k", Unit::Usd),
            ("mirror_usd_per_1k", Unit::Usd),
            ("calls_per_request", Unit::Count),
            ("unserved", Unit::Share),
            ("verifier_false_accept", Unit::Share),
            ("verifier_false_reject", Unit::Share),
        ] {
            assert!(
                METRICS.iter().any(|m| m.name == name && m.unit == unit),
                "{name}"
            );
        }
    }
}
