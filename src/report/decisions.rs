//! Decisions as a table: one row for each request and policy, with a dictionary of its columns.

use super::frame::{Cells, Frame};
use crate::sim::{Decided, DecidedRequest, Decider, Decisions, Evidence};
use crate::stats::Unserved;

/// Most rows of decisions in a report; above, requests are thinned evenly.
pub const DECISIONS_MAX: u64 = 1_000_000;

/// How the dictionary of a report begins.
const BEGINNING: &str = "# Columns\n\nEmpty cells (nulls in Parquet) are what is not known or does not apply; nothing unknown is a zero.\n\n";

/// One row: whose decision, on which request, and what came of it.
type Row<'d> = (&'d Decider, &'d DecidedRequest, &'d Decided);

/// The decisions with what is known about each, for data frames. `evidence` is the report's word for how far they can be
/// trusted.
#[must_use]
pub fn decisions(decisions: &Decisions, evidence: &str) -> Frame {
    let rows: Vec<Row<'_>> = decisions
        .requests
        .iter()
        .enumerate()
        .flat_map(|(place, request)| {
            let rows = decisions.of_request(place).iter();
            let deciders = decisions.policies.iter();
            deciders
                .zip(rows)
                .map(move |(decider, row)| (decider, request, row))
        })
        .collect();
    let text = |of: &dyn Fn(&Row<'_>) -> Option<String>| Cells::Text(rows.iter().map(of).collect());
    let number = |of: fn(&Decided) -> Option<f64>| {
        Cells::Number(rows.iter().map(|(.., row)| of(row)).collect())
    };
    let flag = |of: fn(&Decided) -> bool| {
        Cells::Flag(rows.iter().map(|(.., row)| Some(of(row))).collect())
    };
    let named = |names: &[String], index: u16| names.get(usize::from(index)).cloned();
    let count =
        |of: &dyn Fn(&Row<'_>) -> u64| Cells::Count(rows.iter().map(|row| Some(of(row))).collect());
    Frame::new(vec![
        (
            "request",
            "Id of the request, as `routelab explain --request` takes it.",
            text(&|(_, request, _)| Some(request.id.clone())),
        ),
        (
            "number",
            "Its number in the replicate, from 0.",
            count(&|(_, request, _)| request.number),
        ),
        (
            "task",
            "Its task.",
            text(&|(_, request, _)| named(&decisions.tasks, request.task)),
        ),
        (
            "tenant",
            "Whose it is; empty if it names nobody.",
            text(&|(_, request, _)| {
                request
                    .tenant
                    .and_then(|tenant| named(&decisions.tenants, tenant))
            }),
        ),
        (
            "policy",
            "Who decided.",
            text(&|(decider, ..)| Some(decider.name.clone())),
        ),
        (
            "control",
            "Whether that is a control rather than a policy under test.",
            Cells::Flag(
                rows.iter()
                    .map(|(decider, ..)| Some(decider.control))
                    .collect(),
            ),
        ),
        (
            "reason",
            "Why, in the policy's words; numbers in it are those of the first request decided for this reason.",
            text(&|(decider, _, row)| decider.reasons.get(usize::from(row.reason)).cloned()),
        ),
        (
            "route",
            "Whose answer was served; empty if nobody's.",
            text(&|(.., row)| named(&decisions.routes, row.route?)),
        ),
        (
            "unserved",
            "Why nobody's was: residency, no capable route, or failed; empty if somebody's was.",
            text(&|(.., row)| row.unserved.map(|why| unserved(why).to_owned())),
        ),
        (
            "calls",
            "Calls made for the caller: retries, failovers, escalations and judges count, mirrors do not.",
            count(&|(.., row)| u64::from(row.calls)),
        ),
        (
            "cost_usd",
            "What they cost together, in USD; empty if that is not known.",
            number(|row| row.cost.map(usd)),
        ),
        (
            "grade",
            "Grade of what was served, from 0 to 1; nobody's answer is 0; empty if nobody graded it.",
            number(|row| row.grade.map(share)),
        ),
        (
            "escalated",
            "Whether an answer was passed on after a verifier had not accepted it.",
            flag(|row| row.escalated),
        ),
        (
            "unverified",
            "Whether what was served had been rejected.",
            flag(|row| row.unverified),
        ),
        (
            "undetermined",
            "Whether what happened is not known, because a verifier met an answer that nobody graded.",
            flag(|row| row.undetermined),
        ),
        (
            "mirror_route",
            "Who answered the copy that nobody saw; empty without one.",
            text(&|(.., row)| named(&decisions.routes, row.mirror?.route?)),
        ),
        (
            "mirror_cost_usd",
            "What the copy cost, in USD.",
            number(|row| row.mirror?.cost.map(usd)),
        ),
        (
            "mirror_grade",
            "Grade of the copy's answer, from 0 to 1.",
            number(|row| row.mirror?.grade.map(share)),
        ),
        (
            "evidence",
            "How far the row can be trusted: simulated, off-policy, paired or re-priced.",
            text(&|_| Some(evidence.to_owned())),
        ),
    ])
}

/// USD of 10⁻¹² USD.
fn usd(cost: u64) -> f64 {
    cost as f64 / 1e12
}

/// A share of millionths.
fn share(millionths: u32) -> f64 {
    f64::from(millionths) / 1e6
}

const fn unserved(why: Unserved) -> &'static str {
    match why {
        Unserved::RefusedByResidency => "residency",
        Unserved::NoCapableRoute => "no capable route",
        Unserved::Failed => "failed",
    }
}

/// What the columns of the report's tables mean, as Markdown. Beside the decisions it is said which requests they are
/// about.
pub(super) fn dictionary(findings: &Frame, decisions: Option<(&Frame, &str)>) -> String {
    let mut text = format!(
        "{BEGINNING}## findings\n\nOne row for each number of the report.\n\n{}",
        findings.dictionary()
    );
    if let Some((frame, which)) = decisions {
        text.push('\n');
        text.push_str(&about(frame, which));
    }
    text
}

fn about(frame: &Frame, which: &str) -> String {
    format!(
        "## decisions\n\nOne row for each request and policy: {which}.\n\n{}",
        frame.dictionary()
    )
}

/// The decisions of a report whose findings explain themselves: `decisions.parquet` (else `decisions.csv.gz`), and
/// `columns.md` with the meaning of its columns.
#[must_use]
pub fn decision_files(decided: &Decisions, evidence: Evidence) -> Vec<(String, Vec<u8>)> {
    let frame = decisions(decided, evidence.name());
    let words = format!("{BEGINNING}{}", about(&frame, &decided.in_words()));
    vec![
        frame.packed("decisions"),
        ("columns.md".to_owned(), words.into_bytes()),
    ]
}
