//! A canary from its file to its report: rollbacks as often as the exact calculation says, in every way of
//! running it.

use std::sync::atomic::AtomicBool;

use routelab::catalogue::Catalogue;
use routelab::policy::PolicyFile;
use routelab::sim::{
    self, AbortRule, Contestant, Experiment, Fidelity, Rollout, RolloutEnd, Stage,
};
use routelab::source::Diagnostics;
use routelab::stats::{Sprt, StreamSteps};
use routelab::workload::Workload;

use crate::given::{catalogue_of, policy_of, project, routes, workload_of};
use crate::program::run_in;

/// The shipped support world, summaries only.
fn summaries() -> Workload {
    workload_of(
        "workloads/summaries.toml",
        "[synthetic]\nrequests = 1000\n\n[synthetic.task.summarize]\nshare = 1.0\ndifficulty = { beta = [3, 4] }\n\
         tokens = { input = 2500, output = 250 }\n\n[synthetic.model.medium]\nskill = { summarize = 0.70 }\n\n\
         [synthetic.model.large]\nskill = { summarize = 0.90 }\n",
    )
}

/// P(wrong) of a model of this skill on summaries: 1 − sigmoid(10·(skill − d)) over d ~ Beta(3, 4), by
/// Simpson's rule.
fn error_rate(skill: f64) -> f64 {
    let wrong = |d: f64| {
        let density = 60.0 * d * d * (1.0 - d).powi(3);
        density / (1.0 + (10.0 * (skill - d)).exp())
    };
    let (n, mut sum) = (2_000, wrong(0.0) + wrong(1.0));
    for i in 1..n {
        let weight = if i % 2 == 1 { 4.0 } else { 2.0 };
        sum += weight * wrong(f64::from(i) / f64::from(n));
    }
    sum / (3.0 * f64::from(n))
}

fn simulate(
    catalogue: &Catalogue,
    workload: &Workload,
    policy: &str,
    (requests, replicates): (u64, u32),
    stage: Option<&Stage>,
) -> Contestant {
    let policies: [PolicyFile; 1] = [policy_of("canary", policy, catalogue)];
    let experiment = Experiment {
        catalogue,
        workload,
        policies: &policies,
        seed: 2026,
        requests,
        replicates,
        baseline: None,
        controls: false,
        stage,
        slices: false,
        timed: None,
        cluster: None,
    };
    let mut warnings = Diagnostics::default();
    let ran = sim::run(&experiment, &mut warnings, &|_| {}, &AtomicBool::new(false));
    let mut results = ran.unwrap();
    results.contestants.remove(0)
}

/// Holds a share of hits against its chance: within four standard errors.
fn assert_agrees(hits: usize, of: usize, chance: f64, what: &str) {
    let share = hits as f64 / of as f64;
    let error = (chance * (1.0 - chance) / of as f64).sqrt();
    assert!(
        (share - chance).abs() < 4.0 * error,
        "{what}: {share} of {of}, expected {chance} ± {error}"
    );
}

fn rolled_back(rollouts: &[Rollout]) -> Vec<&Rollout> {
    let back = rollouts
        .iter()
        .filter(|one| matches!(one.end, RolloutEnd::RolledBack { .. }));
    back.collect()
}

/// Half of the requests, one step, judged by the SPRT alone.
fn half(candidate: &str, abort: &str, min_graded: u64) -> String {
    format!(
        "[canary]\ncandidate = \"{candidate}\"\nsteps = [{{ weight = 0.5, min_graded = {min_graded} }}]\n\
         stick_to = \"request\"\nabort.{abort}\nbase.static = {{ default = \"large\" }}\n"
    )
}

#[test]
fn false_rollbacks_and_detections_are_as_frequent_as_the_exact_calculation_says() {
    let (catalogue, workload) = (routes(), summaries());
    let (cap, replicates) = (150, 2_000);
    for (candidate, skill, known) in [("large", 0.90, 0.029_006), ("medium", 0.70, 0.905_655)] {
        let policy = half(
            candidate,
            "sprt = { p0 = 0.032, p1 = 0.140, alpha = 0.05, beta = 0.10 }",
            cap,
        );
        let ran = simulate(&catalogue, &workload, &policy, (600, replicates), None);
        assert_eq!(ran.rollouts.len(), replicates as usize);
        let sprt = Sprt::new(0.032, 0.140, 0.05, 0.10).unwrap();
        let rate = error_rate(skill);
        let exact = sprt.operating_characteristics(rate, Some(cap)).unwrap();
        // The error rates of this world are 0.032 and 0.140 nearly, so the chances are those of the notes
        // on statistics nearly.
        assert!((exact.accept_h1 - known).abs() < 0.02, "{exact:?}");
        let back = rolled_back(&ran.rollouts);
        assert_agrees(back.len(), ran.rollouts.len(), exact.accept_h1, candidate);
        // And it takes as many answers.
        let steps: Vec<_> = StreamSteps::new(&sprt, rate, Some(cap)).unwrap().collect();
        let weighed = |power: i32| {
            let sum: f64 = steps
                .iter()
                .map(|one| one.accept_h1 * (one.n as f64).powi(power))
                .sum();
            sum / exact.accept_h1
        };
        let (mean, spread) = (weighed(1), (weighed(2) - weighed(1).powi(2)).sqrt());
        let seen: u64 = back.iter().map(|one| one.slice.graded).sum();
        let seen = seen as f64 / back.len() as f64;
        let error = spread / (back.len() as f64).sqrt();
        assert!(
            (seen - mean).abs() < 4.0 * error,
            "{candidate}: {seen} answers until rollback, expected {mean} ± {error}"
        );
        // Nobody is left over: whoever was not withdrawn had enough answers.
        assert!(ran.rollouts.iter().all(|one| one.end != RolloutEnd::Paused));
        for one in &back {
            assert!(matches!(
                one.end,
                RolloutEnd::RolledBack {
                    by: AbortRule::Sprt,
                    ..
                }
            ));
        }
    }
}

#[test]
fn a_control_in_the_same_hours_does_without_known_rates() {
    let (catalogue, workload) = (routes(), summaries());
    let (large, medium) = (error_rate(0.90), error_rate(0.70));
    let replicates = 600;
    for (candidate, base, wrong) in [
        ("medium", "large", medium / (medium + large)),
        // Equal to its base, on an error rate that no file mentions.
        ("medium", "medium", 0.5),
    ] {
        let policy = half(
            candidate,
            "control = { ratio = 4.0, alpha = 0.05, beta = 0.10 }",
            800,
        )
        .replace("default = \"large\"", &format!("default = \"{base}\""));
        let ran = simulate(&catalogue, &workload, &policy, (1_900, replicates), None);
        // Some 137 wrong answers or more come before the step ends; the test needs a tenth of that.
        let sprt = Sprt::new(0.5, 0.8, 0.05, 0.10).unwrap();
        let exact = sprt.operating_characteristics(wrong, Some(100)).unwrap();
        assert!(exact.undecided < 1e-5, "{exact:?}");
        let back = rolled_back(&ran.rollouts);
        let what = format!("{candidate} over {base}");
        assert_agrees(back.len(), ran.rollouts.len(), exact.accept_h1, &what);
        let extra: i64 = ran.rollouts.iter().filter_map(Rollout::extra_wrong).sum();
        assert!(base == "medium" || extra > 0, "{extra}");
    }
}

const RAMP: &str = "[canary]\ncandidate = \"medium\"\n\
    steps = [{ weight = 0.1, min_graded = 20 }, { weight = 0.3, min_graded = 40 }]\nstick_to = \"request\"\n\
    abort.sprt = { p0 = 0.2, p1 = 0.4 }\nabort.control = { ratio = 3.0 }\nbase.static = { default = \"large\" }\n";

#[test]
fn a_rollout_is_the_same_with_stand_ins_as_from_tables() {
    let (catalogue, workload) = (routes(), summaries());
    let tables = simulate(&catalogue, &workload, RAMP, (700, 3), None);
    assert!(
        tables
            .rollouts
            .iter()
            .any(|one| matches!(one.end, RolloutEnd::Promoted { .. })),
        "{:?}",
        tables.rollouts
    );
    for fidelity in [Fidelity::Outcome, Fidelity::Wired] {
        let stage = Stage::new(fidelity);
        let staged = simulate(&catalogue, &workload, RAMP, (700, 3), Some(&stage));
        assert_eq!(staged.rollouts, tables.rollouts);
        assert_eq!(staged.tallies[0].final_count, tables.tallies[0].final_count);
    }
}

#[test]
fn every_replicate_starts_afresh_and_threads_change_nothing() {
    let (catalogue, workload) = (routes(), summaries());
    let alone = |threads: usize, replicates| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| simulate(&catalogue, &workload, RAMP, (700, replicates), None))
    };
    let (one, many) = (alone(1, 1), alone(2, 4));
    assert_eq!(one.rollouts[0], many.rollouts[0]);
    assert_eq!(one.tallies[0], many.tallies[0]);
    assert_eq!(many.rollouts, alone(1, 4).rollouts);
    // A second run that began where the first ended would be promoted at its first request.
    for one in &many.rollouts {
        if let RolloutEnd::Promoted { request } = one.end {
            assert!(request > 60, "{one:?}");
        }
    }
}

/// A policy that learns is trained once for each half of recorded rows; the ramp around it stays one.
#[test]
fn copies_of_a_policy_for_two_folds_share_one_ramp() {
    let rows: String = (0..400)
        .map(|i| {
            let grade = if i % 5 == 0 { "" } else { "1" };
            format!("{i},faq,{grade},{grade}\n")
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "d.csv",
        &format!("id,task,correct_small,correct_large\n{rows}"),
    );
    write(
        "c.toml",
        "[canary]\ncandidate = \"small\"\nsteps = [{ weight = 0.5, min_graded = 1_000 }]\nstick_to = \"request\"\n\
         abort.sprt = { p0 = 0.05, p1 = 0.5 }\n\
         base.eval-driven = { routes = [\"small\", \"large\"], otherwise = \"large\", target = 0.8, examples = 15 }\n",
    );
    let routes = project("policies/routes.toml");
    let routes = routes.to_str().unwrap();
    let line = [
        "compare", "d.csv", "-p", "c.toml", "--routes", routes, "--format", "json",
    ];
    let ran = run_in(folder.path(), &line);
    assert!(
        ran.stderr.contains("step 1 cannot be completed"),
        "{}",
        ran.stderr
    );
    let findings = ran.json();
    let canary = &findings["rows"][0]["canary"];
    let run = &canary["runs"][0];
    let count = |slice: &str, what: &str| run[slice][what].as_u64().unwrap();
    let sum = |what| count("slice", what) + count("control", what);
    // Half and half is everybody: nothing is counted twice, and no row is lost between the folds.
    assert_eq!((sum("graded"), sum("ungraded")), (320, 80), "{run}");
    assert_eq!(sum("wrong"), 0);
    assert_eq!(run["outcome"], "paused");
    assert_eq!(run["graded_at_step"], run["slice"]["graded"]);
    assert_eq!(canary["paused"]["value"], 1.0);
    assert_eq!(
        canary["requests_until_rollback"]["value"],
        serde_json::Value::Null
    );
}

#[test]
fn the_story_of_a_request_knows_what_came_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let rows: String = (0..300).map(|i| format!("r{i},faq,0,1\n")).collect();
    write(
        "d.csv",
        &format!("id,task,correct_small,correct_large\n{rows}"),
    );
    write(
        "c.toml",
        "[canary]\ncandidate = \"small\"\nsteps = [{ weight = 0.5, min_graded = 50 }]\nstick_to = \"request\"\n\
         abort.sprt = { p0 = 0.05, p1 = 0.5 }\nbase.static = { default = \"large\" }\n",
    );
    let routes = project("policies/routes.toml");
    let story = |request: &str| {
        let line = [
            "explain",
            "d.csv",
            "--request",
            request,
            "-p",
            "c.toml",
            "--routes",
            routes.to_str().unwrap(),
        ];
        run_in(folder.path(), &line).fine()
    };
    let first = story("r0");
    assert!(
        first.contains("step 1 of 1, weight 0.5"),
        "half is in the slice and half in its control: {first}"
    );
    // Every answer of the slice is wrong.
    let last = story("r299");
    assert!(
        last.contains("the canary was withdrawn after request"),
        "{last}"
    );
}

#[test]
fn the_example_of_a_ramp_is_promoted_or_withdrawn_in_every_format() {
    let routes = catalogue_of(&std::fs::read_to_string(project("policies/routes.toml")).unwrap());
    let text = std::fs::read_to_string(project("tests/configs/canary-ramp.toml")).unwrap();
    let _ = policy_of("canary-ramp", &text, &routes);
    let folder = project("");
    let shown = |format: &str| {
        let line = [
            "compare",
            "workloads/support.toml",
            "-p",
            "tests/configs/canary-ramp.toml",
            "--routes",
            "policies/routes.toml",
            "--replicates",
            "3",
            "--format",
            format,
        ];
        run_in(&folder, &line).fine()
    };
    let table = shown("table");
    assert!(table.contains("Canary, simulated"), "{table}");
    assert!(table.contains("rolled back"), "{table}");
    assert!(shown("markdown").contains("## Canary, simulated"));
    let json: serde_json::Value = serde_json::from_str(&shown("json")).unwrap();
    let canary = &json["rows"][0]["canary"];
    assert_eq!(canary["runs"].as_array().unwrap().len(), 3);
    let csv = shown("csv");
    for name in [
        "promoted",
        "paused",
        "rolled_back",
        "requests_until_rollback",
        "graded",
        "wrong",
        "extra_wrong",
    ] {
        let line = format!("canary-ramp,canary,false,canary.{name},");
        assert!(csv.contains(&line), "{name}: {csv}");
        assert!(canary[name]["method"].is_string(), "{name}");
    }
}
