//! A comparison as a page: what was asked first, then the numbers, then what they are made of.

use super::measures;
use super::methods::measured;
use super::sheet;
use super::{Cell, Column, Group, Page, Part, Section, Status, Table, VerdictLine};
use super::{evidence, slices, stories};
use crate::report::format::{
    about, decimal, in_unit, margin_points, points, usd_difference, visible, whole,
};
use crate::report::layout::{self, Block};
use crate::report::sheet::Figure;
use crate::report::{Findings, Outcome, Paired, Row, plots};
use crate::sim::Evidence;
use crate::stats::{Estimate, Needed, NonInferiority};

/// The comparison as one HTML file.
#[must_use]
pub fn compare(findings: &Findings) -> String {
    compare_with(findings, &[])
}

/// The same with the verdicts of a gate above all others.
#[must_use]
pub fn compare_with(findings: &Findings, gate: &[VerdictLine]) -> String {
    page(findings, gate).html()
}

fn page(findings: &Findings, gate: &[VerdictLine]) -> Page {
    let mut sections = vec![verdicts(findings, gate), policies(findings)];
    sections.extend(scatter(findings));
    sections.extend(differences(findings));
    sections.extend(promotion(findings));
    sections.extend(sizing(findings));
    for (id, block) in [
        ("verifiers", layout::verifiers(findings)),
        ("shadows", layout::shadows(findings)),
        ("canaries", layout::rollouts(findings)),
        ("bootstrap", layout::bootstrapped(findings)),
    ] {
        sections.extend(from_block(id, &block));
    }
    sections.extend(slices::section(findings));
    sections.extend(stories::section(findings));
    sections.push(Section::new(
        "evidence",
        "Evidence: what this allows to say and what not",
        "",
        vec![Part::Table(evidence::table(findings.workload.evidence))],
    ));
    let notes = layout::notes(findings);
    if !notes.is_empty() {
        sections.push(Section::new("notes", "Notes", "", vec![Part::Notes(notes)]));
    }
    sections.push(Section::new(
        "source",
        "Source: how to make this again",
        "",
        vec![Part::Source(findings.manifest.clone())],
    ));
    Page {
        kind: "comparison",
        title: findings.workload.name.clone(),
        facts: facts(findings),
        warning: evidence::warning(findings.workload.evidence),
        sections,
    }
}

fn facts(findings: &Findings) -> Vec<String> {
    let workload = &findings.workload;
    let mut facts = vec![
        format!("{} requests", whole(workload.requests)),
        workload.evidence_word().to_owned(),
    ];
    if workload.replicates > 1 {
        facts.push(format!(
            "{} {}",
            whole(workload.replicates),
            if workload.shared_rows {
                "replicates of the policies' own draws"
            } else {
                "replicates"
            }
        ));
    }
    facts.push(format!("{} % intervals", margin_points(findings.level)));
    facts.push(format!("seed {}", findings.manifest.seed));
    facts.extend(priced(findings));
    facts
}

/// When the prices were read, if anybody said.
pub(in crate::report) fn priced(findings: &Findings) -> Option<String> {
    let (first, last) = findings.priced_on.as_ref()?;
    Some(if first == last {
        format!("prices of {}", visible(first))
    } else {
        format!("prices of {} to {}", visible(first), visible(last))
    })
}

fn verdicts(findings: &Findings, gate: &[VerdictLine]) -> Section {
    let mut lines = gate.to_vec();
    lines.extend(findings.requirements.iter().map(|judgement| {
        let simulated = match findings.workload.evidence {
            Evidence::Simulated => " (simulated)",
            _ => "",
        };
        VerdictLine {
            status: match judgement.outcome {
                Outcome::Pass => Status::Pass,
                Outcome::Fail => Status::Fail,
                Outcome::Inconclusive { .. } => Status::Inconclusive,
            },
            word: format!("{}{simulated}", judgement.outcome.word()),
            subject: judgement.policy.clone(),
            claim: judgement.requirement.clone(),
            measured: in_unit(judgement.unit, &judgement.estimate),
            remark: match &judgement.outcome {
                Outcome::Inconclusive { why, .. } => why.clone(),
                Outcome::Pass | Outcome::Fail => String::new(),
            },
        }
    }));
    lines.extend(
        findings
            .paired
            .iter()
            .filter(|pair| !pair.control)
            .map(|pair| VerdictLine {
                status: status(pair.verdict),
                word: pair.verdict.word().to_owned(),
                subject: pair.policy.clone(),
                claim: match pair.verdict {
                    NonInferiority::NonInferior => format!(
                        "shown to be not worse than {} by more than {} points",
                        pair.baseline,
                        margin_points(findings.margin)
                    ),
                    NonInferiority::Inferior => format!(
                        "worse than {} by more than {} points",
                        pair.baseline,
                        margin_points(findings.margin)
                    ),
                    NonInferiority::Inconclusive => format!(
                        "not known yet whether it is worse than {} by more than {} points",
                        pair.baseline,
                        margin_points(findings.margin)
                    ),
                },
                measured: format!("{} points", points(&pair.accuracy_difference)),
                remark: findings
                    .row(&pair.policy)
                    .and_then(|row| row.shadow.as_ref())
                    .map_or_else(
                        || missing(findings, pair),
                        // What it serves is not what it tries.
                        |shadow| {
                            format!(
                                "its candidate, which nobody is served: {}",
                                shadow.verdict.word()
                            )
                        },
                    ),
            }),
    );
    let mut parts = Vec::new();
    if !lines.is_empty() {
        parts.push(Part::Verdicts(lines));
    }
    parts.push(Part::Summary(findings.summary.clone()));
    Section::new(
        "verdicts",
        &format!("Verdicts, {}", findings.workload.evidence_word()),
        "",
        parts,
    )
}

pub(super) fn status(verdict: NonInferiority) -> Status {
    match verdict {
        NonInferiority::NonInferior => Status::Pass,
        NonInferiority::Inferior => Status::Fail,
        NonInferiority::Inconclusive => Status::Inconclusive,
    }
}

/// What an open verdict wants for; empty for one that is decided.
fn missing(findings: &Findings, pair: &Paired) -> String {
    if pair.verdict != NonInferiority::Inconclusive {
        return String::new();
    }
    if pair.left_open {
        return format!(
            "open for the {} of {} requests without a grade for both",
            whole(pair.left_out),
            whole(pair.requests)
        );
    }
    let (needed, _) = in_words(pair);
    let held = if pair.held_back {
        format!(
            "; decided if it were the only one of {} tested",
            findings.family
        )
    } else {
        String::new()
    };
    format!("{needed}{held}")
}

/// How many it takes to settle an open verdict, and the number itself.
fn in_words(pair: &Paired) -> (String, Option<f64>) {
    match pair.needed {
        Needed::Observations(n) => {
            let what = match pair.accuracy_difference.method {
                Estimate::T_REPLICATES => format!("{} replicates", whole(n)),
                Estimate::ROWS_AND_REPLICATES => {
                    format!(
                        "{} graded requests, with as many times the replicates,",
                        about(n)
                    )
                }
                _ => format!("{} graded requests", about(n)),
            };
            (
                format!("about {what} would settle it with 80 % odds"),
                Some(n as f64),
            )
        }
        Needed::Never => (
            "its difference equals the margin: no number of requests settles it".to_owned(),
            None,
        ),
        Needed::Unknown => ("there is too little to go by".to_owned(), None),
    }
}

fn policies(findings: &Findings) -> Section {
    let mut parts = vec![Part::Table(measures::policies(findings))];
    parts.push(Part::Folded(
        "Every measure of every policy, with interval, method and n".to_owned(),
        measures::all(findings),
    ));
    Section::new(
        "policies",
        &format!("Policies, {}", findings.workload.evidence_word()),
        "Intervals stand in brackets; rest on a number to see how it was measured. Controls are not candidates: they say what no decision at all, or a perfect one, would do.",
        parts,
    )
}

fn scatter(findings: &Findings) -> Option<Section> {
    let svg = plots::scatter(findings)?;
    Some(Section::new(
        "cost-accuracy",
        "Cost and accuracy",
        "",
        vec![Part::Figure(Figure {
            title: "Accuracy against cost".to_owned(),
            about: "Each policy with the intervals of its cost and its accuracy. The line joins those of the policies and single routes that none is both cheaper and better than, by their estimates; filled: on that line. Squares: controls. The table above has the numbers.".to_owned(),
            svg,
        })],
    ))
}

/// The columns of the differences: a mix's are there only if there are mixes.
fn differences(findings: &Findings) -> Option<Section> {
    let baseline = findings.baseline.as_ref()?;
    let mixes = findings.rows.iter().any(|row| row.mix.is_some());
    let mut columns = vec![
        Column::words("policy"),
        Column::number(
            "accuracy, points",
            "Accuracy of the policy minus that of the baseline",
        ),
        Column::number(
            "USD per 1,000",
            "Cost of the policy minus that of the baseline",
        ),
        Column::words("verdict"),
        Column::number(
            "only it right",
            "Requests that only the policy got right, over all replicates",
        ),
        Column::number(
            "only baseline right",
            "Requests that only the baseline got right, over all replicates",
        ),
    ];
    if mixes {
        columns.push(Column::number(
            "same mix (lead)",
            "Accuracy if each request went to a random route in the policy's own proportions, and the policy's lead over it",
        ));
        columns.push(Column::number(
            "same cost (lead)",
            "Accuracy of two single routes mixed at random to cost the same, and the policy's lead over it",
        ));
    }
    let row = |row: &Row| -> Option<Vec<Cell>> {
        let pair = findings
            .paired
            .iter()
            .find(|pair| pair.policy == row.policy)?;
        let mut cells = vec![
            Cell::words(&row.policy),
            measured(
                &pair.accuracy_difference,
                &points(&pair.accuracy_difference),
            ),
            measured(
                &pair.usd_per_1k_difference,
                &usd_difference(&pair.usd_per_1k_difference),
            ),
            Cell {
                status: Some(status(pair.verdict)),
                ..Cell::words(pair.verdict.word())
            },
            Cell::number(whole(pair.n10), Some(pair.n10 as f64)),
            Cell::number(whole(pair.n01), Some(pair.n01 as f64)),
        ];
        if mixes {
            for kind in ["random-mix", "cost-matched-mix"] {
                cells.push(sheet::cell(&layout::mix(findings, row, kind), true));
            }
        }
        Some(cells)
    };
    let groups = groups(findings, |one| row(one));
    if groups.iter().all(|group| group.rows.is_empty()) {
        return None;
    }
    let holm = if findings.family > 1 {
        format!(", Holm over {} policies", findings.family)
    } else {
        String::new()
    };
    Some(Section::new(
        "differences",
        "Differences, on the same requests",
        &format!(
            "Against {}, {}; margin {} points, one-sided alpha {}{holm}.",
            visible(baseline),
            findings.workload.evidence_word(),
            margin_points(findings.margin),
            findings.alpha
        ),
        vec![Part::Table(Table {
            caption: "Differences from the baseline".to_owned(),
            columns,
            groups,
            filters: Vec::new(),
        })],
    ))
}

/// Rows of policies, and rows of controls apart; mixes have none.
pub(super) fn groups(findings: &Findings, row: impl Fn(&Row) -> Option<Vec<Cell>>) -> Vec<Group> {
    let of = |control: bool| {
        findings
            .rows
            .iter()
            .filter(|row| row.mix.is_none() && row.control == control)
            .filter_map(&row)
            .collect()
    };
    vec![
        Group {
            label: String::new(),
            rows: of(false),
        },
        Group {
            label: "controls".to_owned(),
            rows: of(true),
        },
    ]
}

fn promotion(findings: &Findings) -> Option<Section> {
    let figures: Vec<Part> = findings
        .promotions
        .iter()
        .map(|promotion| {
            Part::Figure(Figure {
                title: plots::promotion_title(promotion),
                about: format!(
                    "Probability that the rule {} promotes, against the true difference, for several numbers of pairs. Exact sums, with the two disagreeing on {} % of pairs as seen {}.",
                    promotion.rule,
                    decimal(promotion.disagreement * 100.0, 1),
                    if promotion.is_shadow {
                        "in the mirrored pairs"
                    } else {
                        "against the baseline; this policy's difference is nearest to the margin"
                    }
                ),
                svg: plots::promotion(findings, promotion),
            })
        })
        .collect();
    (!figures.is_empty()).then(|| {
        Section::new(
            "promotion",
            "Promotion: chances by true difference",
            "How often a test of so many pairs would promote a candidate. Left of the margin a promotion is an error; at a difference of 0 a refusal is a good candidate held up.",
            figures,
        )
    })
}

/// What open verdicts and requirements want for.
fn sizing(findings: &Findings) -> Option<Section> {
    let open = |pair: &&Paired| pair.verdict == NonInferiority::Inconclusive && !pair.control;
    let mut rows: Vec<Vec<Cell>> = findings
        .paired
        .iter()
        .filter(open)
        .map(|pair| {
            let (_, key) = in_words(pair);
            vec![
                Cell::words(&pair.policy),
                Cell::prose(&format!("not worse than {}", pair.baseline)),
                measured(
                    &pair.accuracy_difference,
                    &points(&pair.accuracy_difference),
                ),
                Cell::number(
                    whole(pair.accuracy_difference.n),
                    Some(pair.accuracy_difference.n as f64),
                ),
                Cell::number(
                    key.map_or_else(|| "unknown".to_owned(), |n| about(n as u64)),
                    key,
                ),
                Cell::prose(&missing(findings, pair)),
            ]
        })
        .collect();
    rows.extend(findings.requirements.iter().filter_map(|judgement| {
        let Outcome::Inconclusive { needed_n, why } = &judgement.outcome else {
            return None;
        };
        Some(vec![
            Cell::words(&judgement.policy),
            Cell::prose(&judgement.requirement),
            measured(
                &judgement.estimate,
                &in_unit(judgement.unit, &judgement.estimate),
            ),
            Cell::number(
                whole(judgement.estimate.n),
                Some(judgement.estimate.n as f64),
            ),
            Cell::number(
                needed_n.map_or_else(|| "unknown".to_owned(), about),
                needed_n.map(|n| n as f64),
            ),
            Cell::prose(why),
        ])
    }));
    if rows.is_empty() {
        return None;
    }
    Some(Section::new(
        "sizing",
        "Sizing: data that would settle what is open",
        "",
        vec![Part::Table(Table {
            caption: "Open verdicts".to_owned(),
            columns: vec![
                Column::words("policy"),
                Column::words("question"),
                Column::number("measured", "A difference of accuracies is in points"),
                Column::number("n", "Observations behind it"),
                Column::number(
                    "needed",
                    "Observations that would settle it four times out of five, if the estimate is the truth",
                ),
                Column::words("what is missing"),
            ],
            groups: vec![Group {
                label: String::new(),
                rows,
            }],
            filters: Vec::new(),
        })],
    ))
}

/// A block of the table's as a section; `None` if it is empty.
fn from_block(id: &str, block: &Block) -> Option<Section> {
    (!block.lines.is_empty()).then(|| sheet::section(block, id))
}
