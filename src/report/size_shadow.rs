//! The size of a shadow run as a document.

use serde_json::{Map, Value, json};

use super::format::{UNKNOWN, about, decimal, usd_value, whole};
use super::layout::Block;
use super::sheet::{Sheet, block};
use super::size_shadow_words::{notes, summary};
use crate::size::{KeepsAlpha, Needed, Origin, ShadowPlan, ShadowSizing, Truth};

/// Writes down how many pairs a promotion takes.
#[must_use]
pub fn size_shadow(plan: &ShadowPlan, sizing: &ShadowSizing) -> Sheet {
    let facts = match serde_json::to_value(sizing) {
        Ok(Value::Object(facts)) => facts,
        _ => Map::new(),
    };
    Sheet {
        schema: "routelab.size-shadow/1",
        title: title(sizing),
        blocks: [
            truths(sizing),
            chances(plan, sizing),
            errors(plan, sizing),
            sizes(sizing),
            certified(sizing),
            peeked(sizing),
            rehearsed(sizing),
        ]
        .into_iter()
        .filter(|block| !block.lines.is_empty())
        .collect(),
        figures: Vec::new(),
        file: None,
        summary: summary(plan, sizing),
        notes: notes(plan, sizing),
        facts,
        records: records(sizing),
    }
}

/// How `z` is written: 1.96, not 1.9600; what is too small for four decimals keeps three digits.
pub(super) fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.2e}");
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A probability for people: three digits, and never a zero or a one that is none.
pub(super) fn chance(p: f64) -> String {
    match p {
        0.0 => "0 %".to_owned(),
        1.0 => "100 %".to_owned(),
        p if p < 1e-4 => "<0.01 %".to_owned(),
        p if p > 1.0 - 1e-4 => ">99.99 %".to_owned(),
        p if !(0.1..=0.999).contains(&p) => format!("{} %", decimal(p * 100.0, 2)),
        p => format!("{} %", decimal(p * 100.0, 1)),
    }
}

fn title(sizing: &ShadowSizing) -> String {
    let mut text = format!(
        "promotion within a margin of {} points, z = {} (one-sided alpha {})",
        short(sizing.margin * 100.0),
        short(sizing.z),
        short(sizing.alpha),
    );
    if let Some(grader) = sizing.grader {
        text.push_str(&format!(
            ", grader right on {} % of right and {} % of wrong answers",
            short(grader.sensitivity() * 100.0),
            short(grader.specificity() * 100.0)
        ));
    }
    text
}

fn who(sizing: &ShadowSizing, truth: usize) -> Vec<String> {
    let truth = &sizing.truths[truth];
    vec![
        truth.task.clone(),
        format!("{} for {}", truth.candidate, truth.primary),
    ]
}

fn origin(truth: &Truth) -> &'static str {
    match truth.origin {
        Origin::Simulated => "simulated world",
        Origin::Recorded => "recorded",
        Origin::Given => "as given",
    }
}

fn truths(sizing: &ShadowSizing) -> Block {
    let rows = sizing.truths.iter().enumerate().map(|(index, truth)| {
        let joint = truth.joint;
        let mut cells = who(sizing, index);
        cells.extend([
            chance(joint.p11() + joint.p10()),
            chance(joint.p11() + joint.p01()),
            decimal(joint.difference() * 100.0, 2),
            chance(joint.disagreement()),
            if joint.difference() > -sizing.margin {
                "yes"
            } else {
                "no"
            }
            .to_owned(),
            match truth.pairs {
                Some(pairs) => format!("{}, {} pairs", origin(truth), whole(pairs)),
                None => origin(truth).to_owned(),
            },
        ]);
        cells
    });
    block(
        "What pairs are like".to_owned(),
        &[
            ("task", false),
            ("promote", false),
            ("candidate right", true),
            ("primary right", true),
            ("points", true),
            ("disagree", true),
            ("within margin", false),
            ("source", false),
        ],
        rows.collect(),
    )
}

fn chances(plan: &ShadowPlan, sizing: &ShadowSizing) -> Block {
    let mut titles = vec![
        ("task".to_owned(), false),
        ("promote".to_owned(), false),
        ("rule".to_owned(), false),
    ];
    titles.extend(
        plan.pairs
            .iter()
            .map(|n| (format!("n = {}", whole(*n)), true)),
    );
    let mut rows = Vec::new();
    for truth in 0..sizing.truths.len() {
        for rule in &plan.rules {
            let cells = || {
                sizing
                    .cells
                    .iter()
                    .filter(|cell| cell.truth == truth && cell.rule == rule.name())
            };
            let mut row = who(sizing, truth);
            row.push(rule.name().to_owned());
            row.extend(cells().map(|cell| chance(cell.promote)));
            rows.push(row);
            if sizing.grader.is_some() {
                let mut row = who(sizing, truth);
                row.push(format!("{}, margin as it is", rule.name()));
                row.extend(
                    cells().map(|cell| cell.promote_uncorrected.map_or(UNKNOWN.to_owned(), chance)),
                );
                rows.push(row);
            }
        }
    }
    let titles: Vec<(&str, bool)> = titles
        .iter()
        .map(|(t, right)| (t.as_str(), *right))
        .collect();
    block(
        "Chance that n graded pairs promote, exact".to_owned(),
        &titles,
        rows,
    )
}

fn errors(plan: &ShadowPlan, sizing: &ShadowSizing) -> Block {
    let mut titles = vec![("rule".to_owned(), false)];
    titles.extend(
        plan.pairs
            .iter()
            .map(|n| (format!("n = {}", whole(*n)), true)),
    );
    let rows = plan.rules.iter().map(|rule| {
        let mut row = vec![rule.name().to_owned()];
        row.extend(plan.pairs.iter().map(|n| {
            let found = sizing
                .type_one
                .iter()
                .find(|one| one.rule == rule.name() && one.n == *n);
            found.map_or_else(|| "not computed".to_owned(), |one| chance(one.error))
        }));
        row
    });
    let titles: Vec<(&str, bool)> = titles
        .iter()
        .map(|(t, right)| (t.as_str(), *right))
        .collect();
    block(
        "Chance of promoting a candidate that is worse by exactly the margin, exact: the highest over all shares of disagreement".to_owned(),
        &titles,
        rows.collect(),
    )
}

fn sizes(sizing: &ShadowSizing) -> Block {
    let money = |usd: Option<f64>| usd.map_or_else(|| UNKNOWN.to_owned(), usd_value);
    // Columns of money and days stand only where somebody said what they need.
    let campaigns = || sizing.needed.iter().filter_map(|needed| needed.campaign);
    let (mirror, grading, days) = (
        campaigns().any(|campaign| campaign.mirror_usd.is_some()),
        campaigns().any(|campaign| campaign.grading_usd.is_some()),
        campaigns().any(|campaign| campaign.days.is_some()),
    );
    let mut titles = vec![
        ("task", false),
        ("promote", false),
        ("rule", false),
        ("chance", true),
        ("first n", true),
        ("n", true),
        ("mirrored", true),
    ];
    titles.extend(mirror.then_some(("mirror USD", true)));
    titles.extend(grading.then_some(("grading USD", true)));
    titles.extend(days.then_some(("days", true)));
    let rows = sizing
        .needed
        .iter()
        .filter(|needed| told(sizing, needed))
        .map(|needed| {
            let mut cells = who(sizing, needed.truth);
            cells.push(needed.rule.to_owned());
            let (Some(first), Some(settled), Some(campaign)) =
                (needed.first, needed.settled, needed.campaign)
            else {
                match needed.about {
                    Some(n) => cells.extend([
                        chance(needed.power),
                        String::new(),
                        format!("about {}", about(n)),
                    ]),
                    None => cells.extend(["any".to_owned(), "none".to_owned(), "none".to_owned()]),
                }
                cells.resize(titles.len(), String::new());
                return cells;
            };
            cells.push(chance(needed.power));
            cells.push(whole(first));
            cells.push(whole(settled));
            cells.push(whole(campaign.mirrored_pairs));
            cells.extend(mirror.then(|| money(campaign.mirror_usd)));
            cells.extend(grading.then(|| money(campaign.grading_usd)));
            cells.extend(days.then(|| {
                campaign.days.map_or_else(
                    || UNKNOWN.to_owned(),
                    |days| decimal(days, if days < 10.0 { 1 } else { 0 }),
                )
            }));
            cells
        });
    let rows = rows.collect();
    block(
        "Graded pairs to promote with this chance: the first n, the n from which it stays, and what that takes".to_owned(),
        &titles,
        rows,
    )
}

/// Where no number of pairs helps, one row says so, not one for each chance.
fn told(sizing: &ShadowSizing, needed: &Needed) -> bool {
    let same = |one: &&Needed| {
        one.truth == needed.truth && one.rule == needed.rule && one.settled.is_none()
    };
    needed.settled.is_some()
        || needed.about.is_some()
        || sizing
            .needed
            .iter()
            .find(same)
            .is_some_and(|first| first.power == needed.power)
}

fn certified(sizing: &ShadowSizing) -> Block {
    let rows = sizing.certified.iter().map(|one| {
        let mut cells = who(sizing, one.truth);
        cells.push(one.rule.to_owned());
        cells.push(whole(one.n));
        cells.push(chance(one.power));
        cells.push(one.margin.map_or_else(
            || "none".to_owned(),
            |margin| format!("{} points", decimal(margin * 100.0, 2)),
        ));
        cells
    });
    block(
        "The smallest margin that n graded pairs certify with this chance".to_owned(),
        &[
            ("task", false),
            ("promote", false),
            ("rule", false),
            ("n", true),
            ("chance", true),
            ("margin", true),
        ],
        rows.collect(),
    )
}

fn peeked(sizing: &ShadowSizing) -> Block {
    let rows = sizing.peeked.iter().map(|one| {
        let whom = match one.truth {
            Some(truth) => who(sizing, truth).join(", "),
            None => format!("worse by the margin, {} disagree", chance(one.disagreement)),
        };
        vec![
            whom,
            one.method.clone(),
            match one.keeps_alpha {
                KeepsAlpha::No => "no",
                KeepsAlpha::Nearly => "nearly",
                KeepsAlpha::Yes => "yes",
            }
            .to_owned(),
            chance(one.promote),
            whole(one.expected_n.round() as u64),
        ]
    });
    block(
        "Looking more than once, exact: chance of promotion at any look, and pairs used on average"
            .to_owned(),
        &[
            ("pairs", false),
            ("decided by", false),
            ("keeps alpha", false),
            ("promoted", true),
            ("mean n", true),
        ],
        rows.collect(),
    )
}

fn rehearsed(sizing: &ShadowSizing) -> Block {
    let rows = sizing.rehearsed.iter().map(|one| {
        let mut cells = who(sizing, one.truth);
        let share = one.simulated.value.unwrap_or(f64::NAN);
        cells.extend([
            one.rule.to_owned(),
            whole(one.n),
            super::format::share(&one.simulated),
            chance(one.exact),
            format!("{:+.2}", (share - one.exact) * 100.0),
            one.standard_errors
                .map_or_else(String::new, |errors| format!("{errors:+.1}")),
        ]);
        cells
    });
    let runs = sizing.rehearsed.first().map_or(0, |one| one.simulated.n);
    block(
        format!(
            "The same, simulated: {} runs of traffic, shadow policy, router, tally and rule",
            whole(runs)
        ),
        &[
            ("task", false),
            ("promote", false),
            ("rule", false),
            ("n", true),
            ("simulated", true),
            ("exact", true),
            ("difference, points", true),
            ("in standard errors", true),
        ],
        rows.collect(),
    )
}

/// One record per number.
fn records(sizing: &ShadowSizing) -> Vec<Map<String, Value>> {
    let mut records = Vec::new();
    let mut push =
        |what: &str, truth: Option<usize>, rule: &str, n: Value, power: Value, value: Value| {
            let truth = truth.map(|truth| &sizing.truths[truth]);
            let mut record = Map::new();
            record.insert("what".to_owned(), json!(what));
            record.insert("task".to_owned(), json!(truth.map(|t| &t.task)));
            record.insert("candidate".to_owned(), json!(truth.map(|t| &t.candidate)));
            record.insert("primary".to_owned(), json!(truth.map(|t| &t.primary)));
            record.insert("rule".to_owned(), json!(rule));
            record.insert("n".to_owned(), n);
            record.insert("power".to_owned(), power);
            record.insert("value".to_owned(), value);
            records.push(record);
        };
    for (index, truth) in sizing.truths.iter().enumerate() {
        for (what, value) in [
            ("p11", truth.joint.p11()),
            ("p10", truth.joint.p10()),
            ("p01", truth.joint.p01()),
            ("p00", truth.joint.p00()),
        ] {
            push(
                what,
                Some(index),
                "",
                json!(truth.pairs),
                Value::Null,
                json!(value),
            );
        }
    }
    for cell in &sizing.cells {
        push(
            "promote",
            Some(cell.truth),
            cell.rule,
            json!(cell.n),
            Value::Null,
            json!(cell.promote),
        );
        if let Some(uncorrected) = cell.promote_uncorrected {
            push(
                "promote_uncorrected",
                Some(cell.truth),
                cell.rule,
                json!(cell.n),
                Value::Null,
                json!(uncorrected),
            );
        }
    }
    for one in &sizing.type_one {
        push(
            "type_one_error_max",
            None,
            one.rule,
            json!(one.n),
            Value::Null,
            json!(one.error),
        );
    }
    for needed in &sizing.needed {
        push(
            "first_n",
            Some(needed.truth),
            needed.rule,
            Value::Null,
            json!(needed.power),
            json!(needed.first),
        );
        push(
            "settled_n",
            Some(needed.truth),
            needed.rule,
            Value::Null,
            json!(needed.power),
            json!(needed.settled),
        );
    }
    for one in &sizing.certified {
        push(
            "smallest_margin",
            Some(one.truth),
            one.rule,
            json!(one.n),
            json!(one.power),
            json!(one.margin),
        );
    }
    for one in &sizing.peeked {
        push(
            "promote_at_any_look",
            one.truth,
            &one.method,
            Value::Null,
            Value::Null,
            json!(one.promote),
        );
        push(
            "expected_n",
            one.truth,
            &one.method,
            Value::Null,
            Value::Null,
            json!(one.expected_n),
        );
    }
    records
}
