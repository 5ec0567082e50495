//! Sizes of eval sets: against the reference values, against drawn examples, and on the command line.

use routelab::policy::PolicyFile;
use routelab::size::{EvalPlan, EvalSizing, EvalSubject, EvalTask, eval_subject};
use routelab::units::Score;
use routelab::workload::{Domain, DrawKey, Workload};
use serde_json::Value;

use crate::given::{fixture, policies, policy_of, routes, workload};
use crate::program::run;

const WORLD: &str = "workloads/support.toml";
const POLICY: &str = "policies/eval-driven.toml";

fn policy() -> PolicyFile {
    let mut files = policies("policies", &routes());
    let at = files.iter().position(|file| file.name == "eval-driven");
    files.swap_remove(at.unwrap())
}

fn subject(workload: &Workload) -> EvalSubject {
    eval_subject(workload, &routes(), &policy().spec.bar().unwrap()).unwrap()
}

fn plan(examples: &[u64], chances: &[f64]) -> EvalPlan {
    EvalPlan {
        target: Score::from_fraction(0.88).unwrap(),
        examples: examples.to_vec(),
        chances: chances.to_vec(),
        epsilon: 0.02,
        error: 0.05,
        labels_max: 5_000,
        usd_per_correct: Some(0.5),
    }
}

fn size(tasks: &[EvalTask], examples: &[u64], chances: &[f64]) -> EvalSizing {
    plan(examples, chances).size(tasks).unwrap()
}

fn near(what: &str, got: f64, want: &Value) {
    let want = want.as_f64().unwrap_or_else(|| panic!("{what}: {want}"));
    assert!(
        (got - want).abs() <= 1e-9,
        "{what}: {got} instead of {want}"
    );
}

#[test]
fn fixed_numbers_of_examples_come_to_the_reference_values() {
    let want = &fixture("statistics_reference.json")["eval_driven"];
    let world = subject(&workload(WORLD));
    // The same picks on the lesson's own requests: rates of the world, costs of the rows.
    let rows = subject(&workload("workloads/lesson-recorded.toml"));
    let mut mixed = world.tasks.clone();
    for task in &mut mixed {
        let own = rows.tasks.iter().find(|own| own.name == task.name).unwrap();
        task.share = own.share;
        for route in &mut task.routes {
            let same = own.routes.iter().find(|same| same.name == route.name);
            route.expected = same.unwrap().expected;
        }
    }
    let mut compared = 0;
    for (n, want) in want.as_object().unwrap() {
        let Ok(examples) = n.parse::<u64>() else {
            continue;
        };
        let sizing = size(&world.tasks, &[examples], &[0.9]);
        let way = &sizing.fixed[0];
        assert_eq!(way.labels, (examples * 15) as f64);
        for task in &way.tasks {
            for pick in &task.picks {
                let want = &want["pick"][&task.task][&pick.route];
                near(
                    &format!("{n} {} {}", task.task, pick.route),
                    pick.chance,
                    want,
                );
                compared += 1;
            }
        }
        near("match", way.oracle_tasks, &want["exp_match"]);
        near("all", way.all_oracle_chance, &want["p_all5"]);
        near("accuracy", way.expected.accuracy, &want["pop_acc"]);
        near("USD", way.expected.usd_per_1k.unwrap(), &want["pop_usd1k"]);
        let on_rows = &size(&mixed, &[examples], &[0.9]).fixed[0].expected;
        near("accuracy on the rows", on_rows.accuracy, &want["fixed_acc"]);
        near(
            "USD on the rows",
            on_rows.usd_per_1k.unwrap(),
            &want["fixed_usd1k"],
        );
        compared += 6;
    }
    assert!(compared >= 42, "only {compared} values were compared");
}

#[test]
fn the_numbers_that_a_near_tie_needs_are_the_reference_values() {
    let want = &fixture("statistics_reference.json")["eval_driven"]["n_needed_extract"];
    let want = want.as_object().unwrap();
    let chances: Vec<f64> = want.keys().map(|key| key.parse().unwrap()).collect();
    let sizing = size(&subject(&workload(WORLD)).tasks, &[15], &chances);
    let of = sizing.needed.iter().filter(|one| one.task == "extract");
    let found: Vec<u64> = of.map(|one| one.settled.unwrap()).collect();
    let want: Vec<u64> = want.values().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(found, want);
}

#[test]
fn the_sequential_test_comes_to_the_reference_values() {
    let want = &fixture("statistics_reference.json")["eval_sequential_sprt"];
    let sizing = size(&subject(&workload(WORLD)).tasks, &[15], &[0.9]);
    for task in &sizing.sequential.tasks {
        let want = &want[&format!("sprt|eps=0.02|{}", task.task)];
        near(&task.task, task.oracle_chance, &want["P_oracle"]);
        near(&task.task, task.labels, &want["E_labels"]);
        for cell in sizing.cells.iter().filter(|cell| cell.task == task.task) {
            let Some(want) = want.get(&cell.route) else {
                assert!(!cell.tested, "{} {}", cell.task, cell.route);
                continue;
            };
            near(&cell.route, cell.sequential_pass.unwrap(), &want[0]);
            near(&cell.route, cell.sequential_labels.unwrap(), &want[1]);
            near(&cell.route, cell.sequential_undecided.unwrap(), &want[2]);
        }
    }
    let total = &want["sprt|eps=0.02|total"];
    near("match", sizing.sequential.oracle_tasks, &total["match"]);
    near("labels", sizing.sequential.labels, &total["labels"]);
}

#[test]
fn drawn_examples_pick_routes_as_often_as_computed() {
    const REPLICATES: u32 = 4_000;
    const EXAMPLES: usize = 15;
    let world = workload(WORLD);
    let subject = subject(&world);
    let way = &size(&subject.tasks, &[EXAMPLES as u64], &[0.9]).fixed[0];
    for (t, task) in subject.tasks.iter().enumerate() {
        let mut counts = vec![0_u32; task.routes.len()];
        for replicate in 0..REPLICATES {
            let key = DrawKey {
                seed: 11,
                domain: Domain::Lab,
                replicate,
            };
            let reaches = |name: &str| {
                let route = world.routes.iter().position(|known| known == name).unwrap();
                let seen = world.examples(key, 0, t, route, EXAMPLES);
                // 22/25 is the bar, in whole numbers.
                25 * seen.score_sum >= 22 * 1_000_000 * seen.n
            };
            let picked = task.routes.iter().position(|route| reaches(&route.name));
            counts[picked.unwrap_or(task.otherwise)] += 1;
        }
        for (count, pick) in counts.iter().zip(&way.tasks[t].picks) {
            let (n, p) = (f64::from(REPLICATES), pick.chance);
            let (share, se) = (f64::from(*count) / n, (p * (1.0 - p) / n).sqrt());
            assert!(
                (share - p).abs() <= 4.5 * se + 1e-9,
                "{} {}: {share} drawn, {p} computed",
                task.name,
                pick.route
            );
        }
    }
}

#[test]
fn pins_and_fallbacks_of_the_policy_are_kept() {
    let catalogue = routes();
    let text = "[eval-driven]\ntarget = 0.88\nexamples = 20\notherwise = \"large\"\nroutes = [\"small\", \"medium\"]\n\
                picks = { faq = \"medium\" }\nfallback = [\"large\"]\n";
    let bar = policy_of("p", text, &catalogue).spec.bar().unwrap();
    let world = workload(WORLD);
    let subject = eval_subject(&world, &catalogue, &bar).unwrap();
    let sizing = size(&subject.tasks, &[20], &[0.9]);
    let of = |name: &str| {
        let tasks = &sizing.fixed[0].tasks;
        tasks.iter().find(|task| task.task == name).unwrap()
    };
    let pinned = of("faq");
    assert_eq!((pinned.oracle_chance, pinned.labels), (1.0, 0.0));
    assert_eq!(sizing.needed[0].settled, Some(0));
    let summarize = of("summarize");
    assert_eq!(summarize.labels, 40.0, "two candidates");
    assert_eq!(summarize.picks.last().unwrap().route, "large");
    // One in ten summaries is too long for the small route; the fallback answers those.
    let task = subject
        .tasks
        .iter()
        .find(|task| task.name == "summarize")
        .unwrap();
    let [small, _, large] = task.routes.as_slice() else {
        panic!("{task:?}")
    };
    let alone = 0.9 * small.rate.unwrap();
    let behind = (small.expected.accuracy - alone) / 0.1;
    assert!((behind - large.expected.accuracy).abs() < 1e-12, "{behind}");
    assert_eq!(small.expected.calls, 1.0);
    // The second candidate's verdict matters here: it is not the one that gets the task anyway.
    assert!(sizing.cells.iter().all(|cell| cell.tested));
}

#[test]
fn questions_without_sense_have_no_answer() {
    let tasks = subject(&workload(WORLD)).tasks;
    for (target, epsilon, error, labels_max, examples) in [
        (0.99, 0.02, 0.05, 10, 1),
        (0.88, 0.0, 0.05, 10, 1),
        (0.88, 0.02, 0.5, 10, 1),
        (0.88, 0.02, 0.05, 0, 1),
        (0.88, 0.02, 0.05, 10, 0),
    ] {
        let plan = EvalPlan {
            target: Score::from_fraction(target).unwrap(),
            epsilon,
            error,
            labels_max,
            ..plan(&[examples], &[0.9])
        };
        assert_eq!(plan.size(&tasks), None, "{plan:?}");
    }
    // One example, and a limit of one, are questions with an answer.
    let plan = EvalPlan {
        labels_max: 1,
        ..plan(&[1, 1_000_000], &[0.9])
    };
    let sizing = plan.size(&tasks).unwrap();
    assert!(sizing.fixed.iter().all(|way| way.oracle_tasks.is_finite()));
    assert!(sizing.fixed[1].oracle_tasks > 4.999);
    assert_eq!(
        sizing.sequential.tasks[0].labels,
        1.0 + (1.0 - sizing.cells[0].sequential_pass.unwrap())
    );
}

#[test]
fn what_the_command_prints_is_frozen() {
    let table = |more: &[&str]| {
        let mut arguments = vec!["size", "eval", WORLD, "-p", POLICY];
        arguments.extend(more);
        run(&arguments).fine()
    };
    insta::assert_snapshot!(
        "size_eval_table",
        table(&["--examples", "15,60,300", "--usd-per-correct", "0.5"])
    );
    insta::assert_snapshot!(
        "size_eval_markdown",
        table(&["--examples", "15", "--format", "markdown"])
    );
    insta::assert_snapshot!(
        "size_eval_csv",
        table(&["--examples", "15", "--format", "csv"])
    );
    let recorded = [
        "size",
        "eval",
        "workloads/lesson-recorded.toml",
        "-p",
        POLICY,
    ];
    insta::assert_snapshot!("size_eval_recorded", run(&recorded).fine());
}

#[test]
fn json_holds_the_numbers_in_full() {
    let arguments = ["size", "eval", WORLD, "-p", POLICY, "--format", "json"];
    let json = run(&arguments).json();
    assert_eq!(json["schema"], "routelab.size-eval/1");
    assert_eq!(json["evidence"], "simulated");
    let want = &fixture("statistics_reference.json")["eval_driven"]["15"];
    let fixed = json["fixed"].as_array().unwrap();
    let shown: Vec<u64> = fixed
        .iter()
        .map(|way| way["examples"].as_u64().unwrap())
        .collect();
    assert_eq!(
        shown,
        [15, 60, 300, 1_000],
        "the policy's own 300 is one of the ladder"
    );
    near(
        "JSON",
        fixed[0]["oracle_tasks"].as_f64().unwrap(),
        &want["exp_match"],
    );
    assert_eq!(
        fixed[0]["regret_usd_per_1k"],
        Value::Null,
        "nobody said what a right answer is worth"
    );
}

#[test]
fn a_route_without_a_grade_makes_accuracy_unknown_and_not_zero() {
    let mut data = "id,task,grade_small,grade_large,input_tokens,output_tokens\n".to_owned();
    for i in 0..40 {
        data.push_str(&format!("{i},faq,1,1,100,10\n"));
        // `code` has to go to `large`, and nobody graded what it answered there.
        data.push_str(&format!("c{i},code,0,,100,10\n"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.csv");
    std::fs::write(&path, data).unwrap();
    let sized = |format: &str| {
        run(&[
            "size",
            "eval",
            path.to_str().unwrap(),
            "--target",
            "0.88",
            "--otherwise",
            "large",
            "--examples",
            "15",
            "--format",
            format,
        ])
    };
    let json = sized("json").json();
    assert_eq!(json["oracle"]["accuracy"], Value::Null);
    assert_eq!(json["fixed"][0]["expected"]["accuracy"], Value::Null);
    assert!(json["oracle"]["usd_per_1k"].as_f64().unwrap() > 0.0);
    let table = sized("table").fine();
    let oracle = table.lines().find(|line| line.starts_with(" oracle "));
    assert!(oracle.unwrap().contains("unknown"), "{table}");
    assert!(table.contains("note: accuracy is unknown where"), "{table}");
}
