//! `size canary`: numbers held against the reference, and the policy file it writes held against `check`.

use routelab::size::{CanaryPlan, CanaryTruth, Origin};
use routelab::stats::{Sprt, Verdict};

use crate::given::{fixture, project, routes, workload};
use crate::program::run_in;

fn plan(alpha: f64, beta: f64) -> CanaryPlan {
    CanaryPlan {
        weights: vec![0.01, 0.05, 0.25],
        alpha,
        beta,
        min_graded: Some(5_000),
        requests_per_day: None,
        graded_share: 1.0,
        label_delay_h: 0.0,
    }
}

fn given(p0: f64, p1: f64) -> CanaryTruth {
    CanaryTruth::given("small".to_owned(), "large".to_owned(), p0, p1)
}

/// Every canary of the reference file: with a step so long that it never cuts the test off, rollbacks and
/// expected answers are the file's.
#[test]
fn the_sprts_odds_are_those_of_the_reference() {
    let reference = fixture("statistics_reference.json");
    let mut held = 0;
    for (key, expected) in reference["canary_sprt"].as_object().unwrap() {
        // sprt_canary|p0=0.05|p1=0.1|a=.05|b=.10|p=0.05
        let number = |name: &str| -> f64 {
            let part = key.split('|').find_map(|part| part.strip_prefix(name));
            part.unwrap().parse().unwrap()
        };
        let (p0, p1) = (number("p0="), number("p1="));
        let truth = CanaryTruth::given("a".to_owned(), "b".to_owned(), p0, p1);
        let sizing = plan(number("a="), number("b=")).size(truth).unwrap();
        let sprt = &sizing.monitors[0];
        let (rollback, answers) = if number("p=") == p0 {
            (sprt.false_rollback, sprt.answers_if_equal)
        } else {
            assert_eq!(number("p="), p1, "{key}");
            (1.0 - sprt.missed, sprt.answers_if_worse)
        };
        for (found, at) in [(rollback, 0), (answers, 1)] {
            let expected = expected[at].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{key}: {found} {expected}");
            held += 1;
        }
        let harm = sprt.answers_if_worse * (p1 - p0);
        assert!((sprt.extra_wrong_until_decision - harm).abs() < 1e-9);
    }
    assert!(
        held >= 8,
        "only {held} numbers were held against the reference"
    );
}

#[test]
fn the_rate_of_harm_is_the_lessons_and_the_error_rates_are_the_worlds() {
    let (world, catalogue) = (workload("workloads/support.toml"), routes());
    let index = |name: &str, names: &[String]| names.iter().position(|one| one == name).unwrap();
    let medium = index("medium", &world.routes);
    let large = index("large", &world.routes);
    let summarize = index("summarize", &world.tasks);
    let truth = CanaryTruth::simulated(&world, &catalogue, medium, large, &[summarize]).unwrap();
    assert!((truth.gap() - 0.107_987_5).abs() < 1e-6, "{}", truth.gap());
    assert!((truth.share - 0.2).abs() < 1e-12);
    let sizing = plan(0.05, 0.10).size(truth).unwrap();
    let rates: Vec<f64> = sizing.monitors[0]
        .slices
        .iter()
        .map(|one| one.extra_wrong_per_1k)
        .collect();
    // The lesson counted 1.1, 5.4 and 26.8 in its own sample.
    for (found, lesson, error) in [
        (rates[0], 1.1, 0.05),
        (rates[1], 5.4, 0.05),
        (rates[2], 26.8, 0.3),
    ] {
        assert!((found - lesson).abs() < error, "{found} {lesson}");
    }
    // A candidate that short windows keep from long documents answers fewer of them wrong than it would.
    let small = index("small", &world.routes);
    let slice = CanaryTruth::simulated(&world, &catalogue, small, large, &[summarize]).unwrap();
    let population = routelab::size::population(&world, &catalogue).unwrap();
    let small = population.tasks[summarize].routes[small];
    assert!(small.fits < 1.0);
    assert!(slice.p1 < 1.0 - small.accuracy());
    assert!(slice.p1 > slice.p0);
    // All tasks together are their mean.
    let all = CanaryTruth::simulated(&world, &catalogue, medium, large, &[]).unwrap();
    assert!((1.0 - all.p0 - population.always(large).accuracy).abs() < 1e-12);
}

fn sized(arguments: &[&str]) -> String {
    let line: Vec<&str> = ["size", "canary"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    run_in(&project(""), &line).fine()
}

#[test]
fn the_policy_file_it_writes_passes_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = project("policies/routes.toml");
    for more in [
        &[][..],
        &["--weights", "0.05,0.5,1", "--min-graded", "30"],
        &["--weights", "0.003", "--alpha", "0.001", "--beta", "0.3"],
    ] {
        let base = [
            "--p0",
            "0.0321",
            "--p1",
            "0.14",
            "--candidate",
            "medium",
            "--base",
            "large",
            "--format",
            "toml",
        ];
        let line: Vec<&str> = base.iter().chain(more).copied().collect();
        let text = sized(&line);
        std::fs::write(folder.path().join("ramp.toml"), &text).unwrap();
        let check = [
            "check",
            "--strict",
            "ramp.toml",
            "--routes",
            catalogue.to_str().unwrap(),
        ];
        let checked = run_in(folder.path(), &check).fine();
        assert!(checked.contains("1 policy"), "{checked}");
        // The table shows the same lines.
        let mut line = line.clone();
        line.truncate(line.len() - more.len() - 2);
        line.extend(more);
        let table = sized(&line);
        for wanted in text.lines() {
            assert!(
                table.lines().any(|shown| shown.trim() == wanted.trim()),
                "{wanted}\n{table}"
            );
        }
    }
}

#[test]
fn a_recorded_log_gives_its_own_rates_and_says_how_long_it_is() {
    let folder = tempfile::tempdir().unwrap();
    // 10 % of faq wrong by the base and 30 % by the candidate; one task in two is code, all right.
    let rows: String = (0..400)
        .map(|i| match (i % 2, i / 2 % 10) {
            (0, n) => format!("{i},faq,{},{}\n", u8::from(n > 2), u8::from(n > 0)),
            (_, 0) => format!("{i},code,,1\n"),
            _ => format!("{i},code,1,1\n"),
        })
        .collect();
    let text = format!("id,task,correct_small,correct_large\n{rows}");
    std::fs::write(folder.path().join("d.csv"), text).unwrap();
    let json = |more: &[&str]| {
        let line = [
            "size",
            "canary",
            "d.csv",
            "--candidate",
            "small",
            "--base",
            "large",
            "--format",
            "json",
        ];
        let line: Vec<&str> = line.iter().chain(more).copied().collect();
        run_in(folder.path(), &line).json()
    };
    let near = |found: &serde_json::Value, expected: f64| {
        assert!(
            (found.as_f64().unwrap() - expected).abs() < 1e-12,
            "{found} {expected}"
        );
    };
    let faq = json(&["--task", "faq"]);
    near(&faq["truth"]["p0"], 0.1);
    near(&faq["truth"]["p1"], 0.3);
    near(&faq["truth"]["share"], 0.5);
    assert_eq!(faq["truth"]["graded"], 200);
    let both = json(&["--task", "faq", "--task", "code"]);
    let all = json(&[]);
    for found in [&both, &all] {
        // 20 of the code requests lack a grade of the candidate.
        assert_eq!(found["truth"]["graded"], 380);
        near(&found["truth"]["p0"], 20.0 / 380.0);
        near(&found["truth"]["p1"], 60.0 / 380.0);
    }
    assert!(all["notes"].to_string().contains("380 recorded requests"));
    assert_eq!(all["truth"]["origin"], "recorded");
    assert_eq!(all["truth"]["has_other_tasks"], false);
    assert_eq!(faq["truth"]["has_other_tasks"], true);
    assert_eq!(both["truth"]["has_other_tasks"], false);
}

/// Three monitors of the same candidate: only the SPRT is told how bad it may be, and it is the fastest.
#[test]
fn what_is_known_beforehand_saves_answers() {
    let truth = || CanaryTruth::given("a".to_owned(), "b".to_owned(), 0.05, 0.10);
    let long = plan(0.05, 0.10).size(truth()).unwrap();
    let names: Vec<&str> = long.monitors.iter().map(|one| one.monitor).collect();
    assert_eq!(names, ["sprt", "confidence sequence", "control"]);
    let [sprt, sequence, control] = &long.monitors[..] else {
        panic!("{names:?}");
    };
    assert!(sprt.answers_if_worse < sequence.answers_if_worse);
    assert!(sprt.answers_if_worse < control.answers_if_worse);
    // However long it is looked at, a sound candidate is withdrawn with chance alpha at most, and in the end
    // every bad one is.
    assert!(sequence.false_rollback <= 0.05, "{sequence:?}");
    assert!(sequence.missed < 1e-9, "{sequence:?}");
    // With a slice above one half there is no room for a control.
    let wide = CanaryPlan {
        weights: vec![0.1, 0.6],
        ..plan(0.05, 0.10)
    };
    assert_eq!(wide.size(truth()).unwrap().monitors.len(), 2);
}

#[test]
fn every_format_holds_the_same_numbers() {
    let common = [
        "--p0",
        "0.05",
        "--p1",
        "0.1",
        "--requests-per-day",
        "10k",
        "--label-delay-h",
        "12",
    ];
    let format = |name: &str| {
        let line: Vec<&str> = common.iter().chain(&["--format", name]).copied().collect();
        sized(&line)
    };
    let json: serde_json::Value = serde_json::from_str(&format("json")).unwrap();
    assert_eq!(json["schema"], "routelab.size-canary/1");
    let monitors = json["monitors"].as_array().unwrap();
    let csv = format("csv");
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let header = rows.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|one| one == name).unwrap();
    let (monitor, weight) = (column("monitor"), column("weight"));
    let mut count = 0;
    for row in rows.records() {
        let row = row.unwrap();
        let found = monitors
            .iter()
            .find(|one| one["monitor"] == row[monitor])
            .unwrap();
        let slices = found["slices"].as_array().unwrap();
        let slice = slices
            .iter()
            .find(|one| row[weight].parse::<f64>().ok() == one["weight"].as_f64())
            .unwrap();
        for (value, name) in row.iter().zip(&header) {
            let expected = [slice, found, &json["truth"], &json]
                .into_iter()
                .find_map(|part| part.get(name));
            match expected.unwrap() {
                serde_json::Value::String(text) => assert_eq!(value, text),
                serde_json::Value::Null => assert_eq!(value, ""),
                serde_json::Value::Number(number) => {
                    assert_eq!(value.parse::<f64>().ok(), number.as_f64(), "{name}");
                }
                other => assert_eq!(value, other.to_string(), "{name}"),
            }
        }
        count += 1;
    }
    assert_eq!(count, monitors.len() * 3);
    assert!(format("markdown").contains("## Monitors, exact"));
    assert!(format("markdown").contains("```toml\n[canary]\n"));
    insta::assert_snapshot!("size_canary_table", format("table"));
}

/// The control's expected answers come from Wald's equation; here they are counted out, answer by
/// answer, each the slice's or the control's with the same chance.
#[test]
fn the_controls_expected_answers_are_those_of_the_walk() {
    let (p0, p1) = (0.05, 0.20);
    let sizing = plan(0.05, 0.10).size(given(p0, p1)).unwrap();
    let control = sizing
        .monitors
        .iter()
        .find(|one| one.monitor == "control")
        .unwrap();
    let test = Sprt::new(0.5, 0.8, 0.05, 0.10).unwrap();
    for (rate, expected, odds) in [
        (p0, control.answers_if_equal, control.false_rollback),
        (p1, control.answers_if_worse, 1.0 - control.missed),
    ] {
        // Chance of each undecided pair (wrong answers of the slice, of the control).
        let mut mass = std::collections::BTreeMap::from([((0u64, 0u64), 1.0)]);
        let (mut answers, mut aborted, mut left) = (0.0, 0.0, 1.0);
        while left > 1e-10 {
            answers += left / 2.0;
            let mut next = std::collections::BTreeMap::new();
            for ((slice, other), here) in mass {
                let wrong = [
                    ((slice + 1, other), rate / 2.0),
                    ((slice, other + 1), p0 / 2.0),
                ];
                let right = 1.0 - wrong[0].1 - wrong[1].1;
                *next.entry((slice, other)).or_insert(0.0) += here * right;
                for ((slice, other), chance) in wrong {
                    match test.verdict(slice, slice + other) {
                        Verdict::Continue => {
                            *next.entry((slice, other)).or_insert(0.0) += here * chance;
                        }
                        Verdict::AcceptH1 => aborted += here * chance,
                        Verdict::AcceptH0 => {}
                    }
                }
            }
            left = next.values().sum();
            mass = next;
        }
        assert!(
            (answers - expected).abs() < 1e-5,
            "{rate}: {answers} {expected}"
        );
        assert!((aborted - odds).abs() < 1e-8, "{rate}: {aborted} {odds}");
    }
}

/// The calculation is given up long before such a test decides; what it has counted by then is no
/// total of the runs that are withdrawn.
#[test]
fn rates_too_close_for_any_step_are_refused_and_leave_the_control_unknown() {
    let unplanned = CanaryPlan {
        min_graded: None,
        ..plan(0.05, 0.10)
    };
    for p1 in [0.0301, 0.0303] {
        let why = unplanned.size(given(0.03, p1)).unwrap_err();
        assert!(why.contains("so close that no step of 1000000"), "{why}");
    }
    let short = CanaryPlan {
        min_graded: Some(1_000),
        ..plan(0.05, 0.10)
    };
    let sizing = short.size(given(0.03, 0.0301)).unwrap();
    assert!(sizing.is_control_unknown);
    assert!(sizing.monitors.iter().all(|one| one.monitor != "control"));
    let apart = short.size(given(0.03, 0.06)).unwrap();
    assert!(!apart.is_control_unknown);
    assert!(apart.monitors.iter().any(|one| one.monitor == "control"));
}

#[test]
fn a_ramp_sized_for_one_task_says_that_it_takes_all_traffic() {
    let world = |more: &[&str]| {
        let line = [
            "workloads/support.toml",
            "--candidate",
            "medium",
            "--base",
            "large",
        ];
        sized(&line.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let comment = "# The error rates and graded answers are of task \"summarize\" alone, and this ramp takes all traffic:\n# use it only where the traffic is that task.\n[canary]\n";
    let file = world(&["--task", "summarize", "--format", "toml"]);
    assert!(file.starts_with(comment), "{file}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ramp.toml"), &file).unwrap();
    let catalogue = project("policies/routes.toml");
    let catalogue = catalogue.to_str().unwrap();
    run_in(
        folder.path(),
        &["check", "--strict", "ramp.toml", "--routes", catalogue],
    )
    .fine();
    let table = world(&["--task", "summarize"]);
    assert!(
        table
            .contains("of task summarize alone, and the ramp in the policy file takes all traffic"),
        "{table}"
    );
    // A ramp for all tasks, one by one or unnamed, has nothing to warn of.
    let workload = workload("workloads/support.toml");
    let mut every = vec!["--format", "toml"];
    for task in &workload.tasks {
        every.extend(["--task", task]);
    }
    for file in [world(&["--format", "toml"]), world(&every)] {
        assert!(file.starts_with("[canary]"), "{file}");
    }
}

/// Line breaks in a task's name, which a data file may hold, stay in the comment.
#[test]
fn a_task_with_line_breaks_in_its_name_stays_within_the_comment() {
    let truth = CanaryTruth {
        task: "a\nweight = 1\u{7f}".to_owned(),
        has_other_tasks: true,
        ..given(0.05, 0.10)
    };
    let stanza = plan(0.05, 0.10).size(truth).unwrap().stanza;
    let read = toml::de::DeTable::parse(&stanza).unwrap();
    let keys = read.get_ref().keys().map(|key| key.get_ref().as_ref());
    assert_eq!(keys.collect::<Vec<&str>>(), ["canary"]);
}

#[test]
fn the_summary_says_which_harm_grows_with_the_slice() {
    let summary = |more: &[&str]| {
        let line = ["--p0", "0.05", "--p1", "0.1"];
        let table = sized(&line.iter().chain(more).copied().collect::<Vec<_>>());
        let found = table.lines().find(|line| line.starts_with("A candidate"));
        found.unwrap().to_owned()
    };
    let prompt = summary(&[]);
    assert!(prompt.contains("whatever the slice; "), "{prompt}");
    let late = summary(&["--label-delay-h", "12", "--requests-per-day", "10k"]);
    // 5,000 requests in half a day, of which the slice has its share and a twentieth more are wrong.
    assert!(
        late.contains("and more in the 12.0 hours until that answer is graded, in proportion to the slice (2.50 at 1 %, 12.5 at 5 %, 62.5 at 25 %)"),
        "{late}"
    );
    let unknown = summary(&["--label-delay-h", "12"]);
    assert!(
        unknown.contains("in proportion to the slice (how many takes"),
        "{unknown}"
    );
}

#[test]
fn evidence_says_where_the_rates_come_from() {
    let of_world = [
        "workloads/support.toml",
        "--candidate",
        "medium",
        "--base",
        "large",
        "--format",
    ];
    let of_world = |format| sized(&[&of_world[..], &[format]].concat());
    let table = of_world("table");
    assert!(table.contains("  simulated world\n"), "{table}");
    assert!(table.contains("expectations of a simulated world"));
    let json: serde_json::Value = serde_json::from_str(&of_world("json")).unwrap();
    assert_eq!(json["truth"]["origin"], "simulated");
    assert_eq!(given(0.05, 0.10).origin, Origin::Given);
    let table = sized(&["--p0", "0.05", "--p1", "0.1"]);
    assert!(table.contains("  as given\n") && !table.contains("simulated"));
}

#[test]
fn error_rates_show_as_many_digits_as_tell_them_apart() {
    for (p0, p1, wanted) in [
        ("0.03", "0.0301", "3.01 % of the answers instead of 3.00 %"),
        (
            "0.0001",
            "0.0002",
            "0.02 % of the answers instead of 0.01 %",
        ),
        ("0.05", "0.1", "10.0 % of the answers instead of 5.0 %"),
    ] {
        let line = ["--p0", p0, "--p1", p1, "--weights", "0.6", "--min-graded"];
        let table = sized(&[&line[..], &["1000"]].concat());
        assert!(table.contains(wanted), "{table}");
    }
}

#[test]
fn a_control_that_was_not_counted_out_is_shown_as_unknown() {
    let table = sized(&["--p0", "0.03", "--p1", "0.0301", "--min-graded", "1000"]);
    let row = table.lines().find(|line| line.starts_with(" control"));
    let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(cells[0], "control");
    assert_eq!(cells[1..], ["unknown"; 7], "{table}");
    assert!(table.contains("note: control: the error rates are so close"));
}
