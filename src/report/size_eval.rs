//! The size of an eval set as a document.

use serde_json::{Map, Value, json};

use super::format::{UNKNOWN, decimal, usd_value, whole};
use super::layout::Block;
use super::sheet::{Sheet, block};
use super::size_shadow::{chance, short};
use crate::size::{EvalSizing, EvalSubject, Labelling};

/// Writes down how many labelled examples it takes.
#[must_use]
pub fn size_eval(subject: &EvalSubject, sizing: &EvalSizing) -> Sheet {
    let mut facts = Map::new();
    facts.insert("workload".to_owned(), json!(subject.workload));
    facts.insert("evidence".to_owned(), json!(subject.evidence()));
    facts.insert("requests".to_owned(), json!(subject.requests));
    if let Ok(Value::Object(all)) = serde_json::to_value(sizing) {
        facts.extend(all);
    }
    Sheet {
        schema: "routelab.size-eval/1",
        title: title(subject, sizing),
        blocks: [
            cells(sizing),
            chances(sizing),
            needed(sizing),
            outcomes(sizing),
            picks(sizing),
        ]
        .into_iter()
        .filter(|block| !block.lines.is_empty())
        .collect(),
        figures: Vec::new(),
        file: None,
        summary: summary(sizing),
        notes: notes(subject, sizing),
        facts,
        records: records(subject, sizing),
    }
}

fn signed_points(share: f64) -> String {
    let text = decimal(share * 100.0, 2);
    if share >= 0.000_05 {
        format!("+{text}")
    } else {
        text
    }
}

/// A share that somebody chose, as they wrote it: 88 %.
fn setting(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

fn usd(usd: Option<f64>) -> String {
    usd.map_or_else(|| UNKNOWN.to_owned(), usd_value)
}

fn title(subject: &EvalSubject, sizing: &EvalSizing) -> String {
    let evidence = match subject.requests {
        Some(requests) => format!("estimated from {} recorded requests", whole(requests)),
        None => "exact, of a simulated world".to_owned(),
    };
    format!(
        "{}: labelled examples for a bar of {}, {evidence}",
        subject.workload,
        setting(sizing.target)
    )
}

/// How a way of labelling is called.
fn name(labelling: &Labelling) -> String {
    match labelling.examples {
        Some(n) => format!("n = {}", whole(n)),
        None => "sequential".to_owned(),
    }
}

/// The ways of labelling, in the order they are shown.
fn ways(sizing: &EvalSizing) -> impl Iterator<Item = &Labelling> + Clone {
    sizing.fixed.iter().chain([&sizing.sequential])
}

/// A labelling's number of labels: a whole number unless it is an expectation.
fn labels(labelling: &Labelling) -> String {
    match labelling.examples {
        Some(_) => decimal(labelling.labels, 0),
        None => format!("about {}", decimal(labelling.labels, 0)),
    }
}

fn cells(sizing: &EvalSizing) -> Block {
    let most = format!("none up to {}", whole(sizing.labels_max));
    let rows = sizing.cells.iter().map(|cell| {
        let rate = match (cell.rate, cell.graded) {
            (None, _) => UNKNOWN.to_owned(),
            (Some(rate), None) => chance(rate),
            (Some(rate), Some(graded)) => {
                let limits = cell.rate_low.zip(cell.rate_high).map(|(low, high)| {
                    format!(
                        " [{}, {}]",
                        decimal(low * 100.0, 1),
                        decimal(high * 100.0, 1)
                    )
                });
                format!(
                    "{}{} of {}",
                    chance(rate),
                    limits.unwrap_or_default(),
                    whole(graded)
                )
            }
        };
        let sequential = match (cell.tested, cell.sequential_labels, cell.sequential_pass) {
            (true, Some(labels), Some(pass)) => [chance(pass), decimal(labels, 0)],
            _ if cell.rate.is_none() => [UNKNOWN.to_owned(), UNKNOWN.to_owned()],
            _ => ["not tested".to_owned(), "0".to_owned()],
        };
        let [pass, labels] = sequential;
        vec![
            cell.task.clone(),
            cell.route.clone(),
            rate,
            cell.above_bar
                .map_or_else(|| UNKNOWN.to_owned(), signed_points),
            if cell.oracle { "picks it" } else { "" }.to_owned(),
            match cell.settled {
                Some(n) => whole(n),
                None if cell.rate.is_none() => UNKNOWN.to_owned(),
                None if !cell.tested => "either way".to_owned(),
                None => most.clone(),
            },
            pass,
            labels,
        ]
    });
    let settled = last_chance(sizing).map_or_else(
        || "examples".to_owned(),
        |wanted| format!("examples for {}", setting(wanted)),
    );
    block(
        "Routes against the bar, from cheap to dear".to_owned(),
        &[
            ("task", false),
            ("route", false),
            ("right", true),
            ("points above bar", true),
            ("oracle", false),
            (&settled, true),
            ("sequential passes", true),
            ("labels", true),
        ],
        rows.collect(),
    )
}

fn last_chance(sizing: &EvalSizing) -> Option<f64> {
    sizing.needed.last().map(|needed| needed.chance)
}

/// Titles of a table with one column for each way of labelling.
fn by_way<'a>(first: &[(&'a str, bool)], names: &'a [String]) -> Vec<(&'a str, bool)> {
    let names = names.iter().map(|name| (name.as_str(), true));
    first.iter().copied().chain(names).collect()
}

fn chances(sizing: &EvalSizing) -> Block {
    let names: Vec<String> = ways(sizing).map(name).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, task) in sizing.sequential.tasks.iter().enumerate() {
        let oracle = task.picks.iter().find(|pick| pick.oracle);
        let mut row = vec![
            task.task.clone(),
            oracle.map(|pick| pick.route.clone()).unwrap_or_default(),
        ];
        row.extend(ways(sizing).map(|way| chance(way.tasks[at].oracle_chance)));
        rows.push(row);
    }
    block(
        "Chance that a task gets the oracle's route, by labelled examples for each task and route, exact"
            .to_owned(),
        &by_way(&[("task", false), ("oracle's route", false)], &names),
        rows,
    )
}

fn needed(sizing: &EvalSizing) -> Block {
    let mut chances: Vec<f64> = Vec::new();
    for needed in &sizing.needed {
        if !chances.contains(&needed.chance) {
            chances.push(needed.chance);
        }
    }
    let titles: Vec<String> = chances.iter().map(|wanted| setting(*wanted)).collect();
    let rows = sizing.sequential.tasks.iter().map(|task| {
        let mut row = vec![task.task.clone()];
        let of = sizing.needed.iter().filter(|one| one.task == task.task);
        row.extend(of.map(|one| match one.settled {
            Some(n) => whole(n),
            None => format!("none up to {}", whole(sizing.labels_max)),
        }));
        row
    });
    block(
        "Examples for each route from which on a task keeps the oracle's route with chance"
            .to_owned(),
        &by_way(&[("task", false)], &titles),
        rows.collect(),
    )
}

fn outcomes(sizing: &EvalSizing) -> Block {
    let tasks = sizing.sequential.tasks.len();
    let with_regret = sizing.usd_per_correct.is_some();
    let money = |accuracy: f64, cost: Option<f64>| {
        let accuracy = if accuracy.is_nan() {
            UNKNOWN.to_owned()
        } else {
            format!("{} %", decimal(accuracy * 100.0, 2))
        };
        vec![accuracy, usd(cost)]
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for way in ways(sizing) {
        let mut row = vec![
            name(way),
            labels(way),
            format!("{} of {tasks}", decimal(way.oracle_tasks, 3)),
            chance(way.all_oracle_chance),
        ];
        row.extend(money(way.expected.accuracy, way.expected.usd_per_1k));
        if with_regret {
            row.push(usd(way.regret_usd_per_1k));
        }
        rows.push(row);
    }
    let mut row = vec![
        "oracle".to_owned(),
        String::new(),
        format!("{tasks} of {tasks}"),
        "100 %".to_owned(),
    ];
    row.extend(money(sizing.oracle.accuracy, sizing.oracle.usd_per_1k));
    if with_regret {
        row.push(usd(sizing.oracle.usd_per_1k.map(|_| 0.0)));
    }
    rows.push(row);
    let mut titles = vec![
        ("examples", false),
        ("labels in all", true),
        ("tasks like the oracle", true),
        ("all of them", true),
        ("accuracy", true),
        ("USD per 1,000", true),
    ];
    if with_regret {
        titles.push(("regret per 1,000", true));
    }
    block(
        "What that comes to, expected over the examples' luck".to_owned(),
        &titles,
        rows,
    )
}

/// Where tasks go, route by route.
fn picks(sizing: &EvalSizing) -> Block {
    let names: Vec<String> = ways(sizing).map(name).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, task) in sizing.sequential.tasks.iter().enumerate() {
        for (route, pick) in task.picks.iter().enumerate() {
            let mut row = vec![task.task.clone(), pick.route.clone()];
            row.extend(ways(sizing).map(|way| chance(way.tasks[at].picks[route].chance)));
            rows.push(row);
        }
    }
    block(
        "Where the tasks go".to_owned(),
        &by_way(&[("task", false), ("route", false)], &names),
        rows,
    )
}

fn summary(sizing: &EvalSizing) -> String {
    let tasks = sizing.sequential.tasks.len();
    let mut parts = Vec::new();
    if let Some(way) = sizing.fixed.last() {
        parts.push(format!(
            "{} labelled examples for each task and route ({} in all) send {} of {tasks} tasks where the oracle would",
            way.examples.map(whole).unwrap_or_default(),
            labels(way),
            decimal(way.oracle_tasks, 2),
        ));
    }
    parts.push(format!(
        "testing route by route until it is clear takes {} labels for {}",
        labels(&sizing.sequential),
        decimal(sizing.sequential.oracle_tasks, 2),
    ));
    let mut text = format!("{}.", parts.join("; "));
    let near: Vec<String> = sizing
        .cells
        .iter()
        .filter(|cell| cell.tested && cell.settled.is_none())
        .map(|cell| format!("{} on {}", cell.route, cell.task))
        .collect();
    if let (false, Some(wanted)) = (near.is_empty(), last_chance(sizing)) {
        text.push_str(&format!(
            " Too near the bar for {} examples to settle with {}: {}.",
            whole(sizing.labels_max),
            setting(wanted),
            near.join(", ")
        ));
    }
    text
}

fn notes(subject: &EvalSubject, sizing: &EvalSizing) -> Vec<String> {
    let mut notes = Vec::new();
    if subject.requests.is_some() {
        notes.push(
            "the rates are estimates from the recorded requests, taken for the truth: near the bar the oracle's route itself is a guess"
                .to_owned(),
        );
        notes.push("accuracy and cost are those of the recorded requests".to_owned());
        if sizing.oracle.accuracy.is_nan() || ways(sizing).any(|way| way.expected.accuracy.is_nan())
        {
            notes.push("accuracy is unknown where a task may go to a route none of whose answers there has a grade".to_owned());
        }
    } else {
        notes.push(
            "rates, accuracy and cost are expectations of the world that the file declares, not of the requests that a run draws from it"
                .to_owned(),
        );
    }
    notes.push(
        "the oracle knows the rates and takes the cheapest route that reaches the bar; routes are tried from cheap to dear by their expected cost"
            .to_owned(),
    );
    let unclear: Vec<String> = sizing
        .cells
        .iter()
        .filter(|cell| cell.tested)
        .filter(|cell| {
            let limits = cell.rate_low.zip(cell.rate_high);
            limits.is_some_and(|(low, high)| low <= sizing.target && sizing.target <= high)
        })
        .map(|cell| format!("{} on {}", cell.route, cell.task))
        .collect();
    if !unclear.is_empty() {
        notes.push(format!(
            "the recorded grades themselves cannot tell whether these reach the bar (95 % limits): {}",
            unclear.join(", ")
        ));
    }
    notes.push(format!(
        "sequential: for each task and route, from cheap to dear, Wald's test of {} against {} with errors of {}, at most {} examples, then by the share; between the two either verdict counts as right; the last route is not tested when it gets the task anyway",
        setting(sizing.target - sizing.epsilon),
        setting(sizing.target + sizing.epsilon),
        setting(sizing.error),
        whole(sizing.labels_max),
    ));
    match sizing.usd_per_correct {
        Some(worth) => notes.push(format!(
            "regret: what the oracle's picks are worth more than the expected ones, per 1,000 requests, if a right answer is worth {} USD; it can be below zero, for the oracle aims at the bar",
            short(worth)
        )),
        None => notes.push(
            "accuracy alone misleads: a task sent to a dearer route than needed gains some; --usd-per-correct weighs it against cost"
                .to_owned(),
        ),
    }
    notes.extend(subject.remarks.iter().cloned());
    notes
}

/// One record for each way of labelling, task and route.
fn records(subject: &EvalSubject, sizing: &EvalSizing) -> Vec<Map<String, Value>> {
    let mut records = Vec::new();
    for way in ways(sizing) {
        for task in &way.tasks {
            for pick in &task.picks {
                let fields = [
                    ("evidence", json!(subject.evidence())),
                    (
                        "method",
                        json!(if way.examples.is_some() {
                            "fixed"
                        } else {
                            "sequential"
                        }),
                    ),
                    ("examples", json!(way.examples)),
                    ("task", json!(task.task)),
                    ("route", json!(pick.route)),
                    ("chance", json!(pick.chance)),
                    ("oracle", json!(pick.oracle)),
                    ("task_labels", json!(task.labels)),
                    ("labels", json!(way.labels)),
                    ("oracle_tasks", json!(way.oracle_tasks)),
                    ("accuracy", json!(way.expected.accuracy)),
                    ("usd_per_1k", json!(way.expected.usd_per_1k)),
                    ("regret_usd_per_1k", json!(way.regret_usd_per_1k)),
                ];
                let fields = fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value));
                records.push(fields.collect());
            }
        }
    }
    records
}
