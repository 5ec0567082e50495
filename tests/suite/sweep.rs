//! Sweeps: points are what `compare` says of them, fronts are fronts, and the lesson's exercise comes out.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::given::{fixture, project};
use crate::program::{run, run_in};

const SUPPORT: &str = "workloads/support.toml";
const RECORDED: &str = "workloads/lesson-recorded.toml";
const CASCADE: &str = "policies/cascade.toml";
const FALSE_ACCEPT: &str = "policy.cascade.verifier.simulated.accept_if_wrong";

/// A sweep as JSON.
fn sweep(world: &str, policy: &str, more: &[&str]) -> Value {
    let fixed = ["sweep", world, "-p", policy, "--format", "json", "-q"];
    run(&[&fixed[..], more].concat()).json()
}

fn points(sweep: &Value) -> &Vec<Value> {
    sweep["points"].as_array().unwrap()
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn the_lessons_verifier_exercise_comes_out_exactly() {
    let want = &fixture("lesson_expected.json")["cascade_by_accept_if_wrong"];
    let want = want.as_object().unwrap();
    let values: Vec<&str> = want.keys().map(String::as_str).collect();
    let vary = format!("{FALSE_ACCEPT}={}", values.join(","));
    let found = sweep(
        RECORDED,
        "policies/lesson/cascade-30.toml",
        &["--vary", &vary],
    );
    assert_eq!(points(&found).len(), want.len());
    let mut right = Vec::new();
    for (point, (key, want)) in points(&found).iter().zip(want) {
        assert_eq!(
            number(&point["values"][FALSE_ACCEPT]),
            key.parse::<f64>().unwrap()
        );
        for metric in ["accuracy", "usd_per_1k", "calls_per_request"] {
            let (got, want) = (number(&point[metric]["value"]), number(&want[metric]));
            assert!(
                (got - want).abs() <= 1e-9 * want,
                "{key} {metric}: {got}, not {want}"
            );
        }
        right.push((number(&point["accuracy"]["value"]) * 6000.0).round());
    }
    assert_eq!(right, [5809.0, 5565.0, 5080.0, 4448.0]);
}

/// What `compare` says with the value written into the file by hand.
fn compared(folder: &Path, command: &[&str], policy: &str) -> (Value, Value) {
    let found = run_in(
        folder,
        &[&["compare"], command, &["--format", "json", "-q"]].concat(),
    )
    .json();
    let of = |list: &str| {
        let all = found[list].as_array().unwrap();
        all.iter()
            .find(|one| one["policy"] == policy)
            .unwrap()
            .clone()
    };
    (of("rows"), of("paired"))
}

/// Every kind of parameter at once: each point must be the row of a comparison whose files hold its
/// values, to the last digit. Policies that learn, that draw for users, and recorded rows included.
#[test]
fn a_point_is_the_row_of_a_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let base = [
        "--routes",
        "routes.toml",
        "--requests",
        "5000",
        "--margin",
        "0.04",
    ];
    let mut compared_points = 0;
    for (policy, world, vary, replicates) in [
        (
            "capability-cost",
            SUPPORT,
            [
                "policy.capability-cost.target=0.7,0.9",
                "route.large.usd_per_mtok.output=24.00,5",
            ],
            "1",
        ),
        (
            "capability-cost",
            RECORDED,
            [
                "policy.capability-cost.target=0.7,0.9",
                "policy.capability-cost.otherwise=large,medium",
            ],
            "1",
        ),
        (
            "eval-driven",
            SUPPORT,
            [
                "policy.eval-driven.examples=15,300",
                "workload.synthetic.correlation=0.0,0.5",
            ],
            "3",
        ),
        (
            "eval-driven",
            RECORDED,
            [
                "policy.eval-driven.examples=15,300",
                "policy.eval-driven.target=0.88,0.9",
            ],
            "3",
        ),
        (
            "canary",
            SUPPORT,
            [
                "policy.canary.weight=0.05,0.5",
                "policy.canary.stick_to=user,request",
            ],
            "2",
        ),
    ] {
        for name in ["routes", policy] {
            fs::copy(
                project(&format!("policies/{name}.toml")),
                path(&format!("{name}.toml")),
            )
            .unwrap();
        }
        let policy_file = format!("{policy}.toml");
        let data = project(world);
        let mut command: Vec<&str> = vec![data.to_str().unwrap(), "-p", &policy_file];
        command.extend(base);
        command.extend(["--replicates", replicates]);
        let swept = [
            &["sweep"][..],
            &command,
            &[
                "--vary", vary[0], "--vary", vary[1], "--format", "json", "-q",
            ],
        ]
        .concat();
        let found = run_in(folder.path(), &swept).json();
        for point in points(&found) {
            let mut world_text = fs::read_to_string(&data).unwrap();
            let mut texts = [
                (policy_file.clone(), String::new()),
                ("routes.toml".to_owned(), String::new()),
            ];
            for (name, text) in &mut texts {
                *text = fs::read_to_string(project(&format!("policies/{name}"))).unwrap();
            }
            for (parameter, value) in point["values"].as_object().unwrap() {
                // By hand: the line that holds the key, with the other value on it.
                let key = parameter.rsplit('.').next().unwrap();
                // Text is quoted in TOML as it is in JSON.
                let new = value.to_string();
                let text = match parameter.split('.').next().unwrap() {
                    "policy" => &mut texts[0].1,
                    "route" => &mut texts[1].1,
                    _ => &mut world_text,
                };
                let from = if key == "output" {
                    text.find("[route.large]").unwrap()
                } else {
                    0
                };
                let at = from + text[from..].find(&format!("{key} = ")).unwrap() + key.len() + 3;
                let end = at + text[at..].find([' ', ',', '}', '\n']).unwrap();
                text.replace_range(at..end, &new);
            }
            for (name, text) in &texts {
                fs::write(path(name), text).unwrap();
            }
            let by_hand = if world == SUPPORT {
                fs::write(path("support.toml"), &world_text).unwrap();
                "support.toml"
            } else {
                data.to_str().unwrap()
            };
            command[0] = by_hand;
            let (row, paired) = compared(folder.path(), &command, policy);
            for metric in ["accuracy", "usd_per_1k", "calls_per_request", "unserved"] {
                assert_eq!(
                    point[metric], row["metrics"][metric],
                    "{policy} {metric} {}",
                    point["values"]
                );
            }
            for (key, value) in point["paired"].as_object().unwrap() {
                // Alone there is nobody to adjust for.
                match key.as_str() {
                    "verdict" | "family" => {}
                    "p_holm" => {
                        let tail = |of: &Value, side: &str| number(&of[side]);
                        for side in ["noninferior", "inferior"] {
                            assert!(tail(value, side) >= tail(&paired["p"], side));
                        }
                    }
                    _ => assert_eq!(value, &paired[key], "{policy} {key} {}", point["values"]),
                }
            }
            compared_points += 1;
        }
    }
    assert_eq!(compared_points, 5 * 4);
}

/// Accept if right, accept if wrong, correlation, as the keys of the reference have them; and the values.
type Case = (String, String, String, Vec<f64>);

/// The cascade in expectation, for every verifier and correlation that the reference values hold.
#[test]
fn correlated_errors_agree_with_the_closed_forms() {
    let reference = fixture("statistics_reference.json");
    // Keys such as `cascade|F|A=0.93|r=0.3|rho=0.25`.
    let mut cases: Vec<Case> = Vec::new();
    for (key, values) in reference["copula"].as_object().unwrap() {
        let parts: Vec<&str> = key.split('|').collect();
        let ["cascade", "F", accept, wrong, rho] = parts.as_slice() else {
            continue;
        };
        let strip = |text: &str, name: &str| text.strip_prefix(name).unwrap().to_owned();
        cases.push((
            strip(accept, "A="),
            strip(wrong, "r="),
            strip(rho, "rho="),
            values.as_array().unwrap().iter().map(number).collect(),
        ));
    }
    let distinct = |of: fn(&Case) -> &String| -> Vec<String> {
        let mut all: Vec<String> = cases.iter().map(|case| of(case).clone()).collect();
        all.sort();
        all.dedup();
        all
    };
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("cascade.toml");
    let text = fs::read_to_string(project(CASCADE)).unwrap();
    let mut checked = 0;
    for accept in distinct(|case| &case.0) {
        fs::write(
            &policy,
            text.replace(
                "accept_if_correct = 0.93",
                &format!("accept_if_correct = {accept}"),
            ),
        )
        .unwrap();
        let wrong = format!("{FALSE_ACCEPT}={}", distinct(|case| &case.1).join(","));
        let rho = format!(
            "workload.synthetic.correlation={}",
            distinct(|case| &case.2).join(",")
        );
        let found = sweep(
            SUPPORT,
            policy.to_str().unwrap(),
            &["--vary", &wrong, "--vary", &rho, "--requests", "200k"],
        );
        for (a, wrong, rho, want) in &cases {
            if *a != accept {
                continue;
            }
            let is_it = |point: &&Value| {
                let value = |key: &str| number(&point["values"][key]);
                value(FALSE_ACCEPT) == wrong.parse::<f64>().unwrap()
                    && value("workload.synthetic.correlation") == rho.parse::<f64>().unwrap()
            };
            let point = points(&found).iter().find(is_it).unwrap();
            for (metric, want) in ["accuracy", "usd_per_1k", "calls_per_request"]
                .iter()
                .zip(want)
            {
                let part = |name: &str| number(&point[metric][name]);
                let se = (part("high") - part("low")) / 2.0 / 1.96;
                let off = (part("value") - want).abs() / se;
                assert!(
                    off < 4.5,
                    "A {a} r {wrong} rho {rho} {metric}: {off} standard errors"
                );
            }
            checked += 1;
        }
    }
    assert!(checked >= 12, "only {checked} cases");
}

#[test]
fn a_margin_moves_verdicts_and_nothing_else() {
    let found = sweep(
        RECORDED,
        "policies/lesson/static.toml",
        &["--vary", "margin=0:0.1:0.01"],
    );
    let words: Vec<&str> = points(&found)
        .iter()
        .map(|point| point["paired"]["verdict"].as_str().unwrap())
        .collect();
    // Tango's limits are −6.39 and −5.12 points.
    let expected: Vec<&str> = (0..=10)
        .map(|points| match points {
            0..=5 => "inferior",
            6 => "inconclusive",
            _ => "non-inferior",
        })
        .collect();
    assert_eq!(words, expected);
    for point in points(&found) {
        assert_eq!(point["accuracy"], points(&found)[0]["accuracy"]);
        assert_eq!(point["paired"]["n10"], 27);
        assert_eq!(point["front"]["on"], true);
    }
}

#[test]
fn a_price_moves_costs_in_proportion_and_nothing_else() {
    let found = sweep(
        SUPPORT,
        CASCADE,
        &["--vary", "route.small.usd_per_mtok.input=0.15,1.15,2.15"],
    );
    let of = |key: &str| -> Vec<f64> {
        points(&found)
            .iter()
            .map(|point| number(&point[key]["value"]))
            .collect()
    };
    let (cost, accuracy) = (of("usd_per_1k"), of("accuracy"));
    assert!(accuracy.windows(2).all(|two| two[0] == two[1]));
    assert!(cost[1] > cost[0] + 0.5);
    assert!(((cost[2] - cost[1]) - (cost[1] - cost[0])).abs() < 1e-9);
    assert_eq!(found["worlds"].as_array().unwrap().len(), 3);
    assert!(found["points"][0]["paired"]["baseline"] == "always-large");
}

/// Who picks the best of many points has tried many times: the verdict of each is adjusted for that.
#[test]
fn more_points_make_a_verdict_harder() {
    let verdict = |values: &str| {
        let vary = format!("{FALSE_ACCEPT}={values}");
        let found = sweep(RECORDED, CASCADE, &["--vary", &vary, "--margin", "0.0265"]);
        let paired = &points(&found)[0]["paired"];
        assert_eq!(paired["family"], points(&found).len());
        (
            number(&paired["p"]["inferior"]),
            number(&paired["p_holm"]["inferior"]),
        )
    };
    let alone = verdict("0.1");
    let among = verdict("0.1,0.101:0.119:0.001");
    assert_eq!(alone.0, alone.1);
    assert_eq!(alone.0, among.0);
    assert!(among.1 > among.0 && among.0 > 0.0, "{among:?}");
}

/// A verifier that rejects right answers at random costs more for no more accuracy: surely dominated.
#[test]
fn a_worse_verifier_is_off_the_front_for_sure() {
    let found = sweep(
        SUPPORT,
        CASCADE,
        &[
            "--vary",
            "policy.cascade.verifier.simulated.accept_if_correct=1,0.5",
            "--vary",
            &format!("{FALSE_ACCEPT}=0,0.3"),
        ],
    );
    for point in points(&found) {
        let good =
            number(&point["values"]["policy.cascade.verifier.simulated.accept_if_correct"]) == 1.0;
        let front = &point["front"];
        assert_eq!(front["on"], good, "{point}");
        assert_eq!(
            number(&front["probability"]),
            f64::from(u8::from(good)),
            "{point}"
        );
        if !good {
            assert_eq!(front["dominated_by"]["probability"], 1.0, "{point}");
        }
        for metric in ["accuracy", "usd_per_1k"] {
            let part = |of: &str, end: &str| number(&point[of][metric][end]);
            let alone = number(&point[metric]["high"]) - number(&point[metric]["low"]);
            let all = part("band", "high") - part("band", "low");
            // Four points on two axes, at once: wider than alone, but not by much.
            assert!(
                all > alone && all < 2.0 * alone,
                "{metric}: {all} and {alone}"
            );
        }
    }
    // Of two of them, exactly the better one dominates.
    let dominance = found["dominance"].as_array().unwrap();
    let wins = |by: &str, of: &str| {
        dominance
            .iter()
            .any(|one| one["by"] == by && one["of"] == of)
    };
    assert!(wins(
        "accept_if_correct = 1, accept_if_wrong = 0",
        "accept_if_correct = 0.5, accept_if_wrong = 0"
    ));
    assert!(!wins(
        "accept_if_correct = 0.5, accept_if_wrong = 0",
        "accept_if_correct = 1, accept_if_wrong = 0"
    ));
}

/// Requests few enough to doubt: over fresh seeds, the share of runs in which a point is on the front is
/// about what each run says of it.
#[test]
fn the_probability_of_the_front_is_neither_zero_nor_one_where_there_is_doubt() {
    let vary = [
        "--vary",
        "policy.static.default=medium,large",
        "--vary",
        "policy.static.task.faq=small,medium,large",
        "--requests",
        "300",
    ];
    let (mut said, mut seen, mut doubts) = (vec![0.0; 6], vec![0.0; 6], 0);
    let runs = 24;
    for seed in 1..=runs {
        let seed = seed.to_string();
        let found = sweep(
            SUPPORT,
            "policies/static.toml",
            &[&vary[..], &["--seed", &seed]].concat(),
        );
        for (index, point) in points(&found).iter().enumerate() {
            let p = number(&point["front"]["probability"]);
            said[index] += p / f64::from(runs);
            seen[index] += f64::from(u8::from(point["front"]["on"] == true)) / f64::from(runs);
            doubts += u32::from(p > 0.05 && p < 0.95);
        }
    }
    assert!(doubts >= 10, "only {doubts} doubts");
    for (said, seen) in said.iter().zip(&seen) {
        assert!(
            (said - seen).abs() < 0.3,
            "{said} was said, {seen} was seen"
        );
    }
}

#[test]
fn the_policy_as_its_file_has_it_can_be_the_baseline() {
    let vary = format!("{FALSE_ACCEPT}=0.3,0.1");
    let found = sweep(
        SUPPORT,
        CASCADE,
        &["--vary", &vary, "--baseline", "cascade"],
    );
    assert_eq!(found["baseline"], "cascade");
    // The file has 0.30.
    let same = &points(&found)[0]["paired"];
    assert_eq!(same["accuracy_difference"]["value"], 0.0);
    assert_eq!(same["usd_per_1k_difference"]["value"], 0.0);
    assert!(number(&points(&found)[1]["paired"]["accuracy_difference"]["low"]) > 0.0);
    // Where nothing of the policy is varied, each world's point is its own baseline.
    let own = sweep(
        SUPPORT,
        CASCADE,
        &[
            "--vary",
            "workload.synthetic.correlation=0,1",
            "--baseline",
            "cascade",
        ],
    );
    assert!(points(&own).iter().all(|point| point["paired"].is_null()));
}

#[test]
fn extreme_sweeps_end_with_numbers_or_words() {
    let one = sweep(
        SUPPORT,
        CASCADE,
        &["--vary", &format!("{FALSE_ACCEPT}=0.3"), "--requests", "1"],
    );
    assert!(points(&one)[0]["front"]["probability"].is_null());
    assert_eq!(one["resampling"]["units"], 1);
    assert!(
        one["notes"]
            .to_string()
            .contains("too few requests to resample")
    );
    let many = sweep(
        SUPPORT,
        CASCADE,
        &[
            "--vary",
            &format!("{FALSE_ACCEPT}=0.001:1:0.001"),
            "--requests",
            "50",
        ],
    );
    assert_eq!(points(&many).len(), 1000);
    // More replicates than units: neighbours are gathered.
    let gathered = sweep(
        SUPPORT,
        CASCADE,
        &[
            "--vary",
            &format!("{FALSE_ACCEPT}=0,1"),
            "--requests",
            "20",
            "--replicates",
            "500",
        ],
    );
    assert_eq!(gathered["resampling"]["units"], 200);
    let svg = tempfile::tempdir().unwrap();
    let path = svg.path().join("new/folder/p.svg");
    run(&[
        "sweep",
        SUPPORT,
        "-p",
        CASCADE,
        "--vary",
        "margin=0.03",
        "--plot",
        path.to_str().unwrap(),
        "-q",
    ])
    .fine();
    assert!(
        fs::read_to_string(path)
            .unwrap()
            .contains("cascade on support: 1 points")
    );
}
