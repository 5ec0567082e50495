//! How sure a comparison is: several policies together, requests of the same users, shadows that promote.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use routelab::catalogue::Catalogue;
use routelab::policy::{PolicyFile, Unit};
use routelab::report::{Findings, Manifest, Options, findings};
use routelab::sim::{self, Experiment, Fidelity, Results, Stage};
use routelab::source::Diagnostics;
use routelab::stats::{
    Bootstrap, ClusterPair, Criterion, Estimate, Joint, Needed, NonInferiority, PairTally, Rule,
    cluster_bca, cluster_mean, promotion_probability, student_two_sided,
};
use routelab::workload::Workload;
use serde_json::Value;

use crate::given::{contestant, policy_of, routes, run, tally, workload_of};
use crate::program;
use crate::report::made;

/// Runs with clusters.
fn clustered(
    catalogue: &Catalogue,
    workload: &Workload,
    policies: &[PolicyFile],
    (requests, replicates): (u64, u32),
    cluster: Option<Unit>,
    stage: Option<&Stage>,
) -> Results {
    let experiment = Experiment {
        catalogue,
        workload,
        policies,
        seed: 2026,
        requests,
        replicates,
        baseline: Some("always-large"),
        controls: true,
        stage,
        slices: false,
        timed: None,
        cluster,
    };
    let ran = sim::run(
        &experiment,
        &mut Diagnostics::default(),
        &|_| {},
        &AtomicBool::new(false),
    );
    ran.unwrap_or_else(|stopped| panic!("{stopped:?}"))
}

fn found(results: &Results, options: &Options) -> Findings {
    findings(results, options, Manifest::default()).unwrap()
}

/// A world of 40 users, and two policies.
fn of_users() -> (Catalogue, Workload, Vec<PolicyFile>) {
    let catalogue = routes();
    let text = std::fs::read_to_string(crate::given::project("workloads/support.toml")).unwrap();
    let text = text.replacen("[synthetic]\n", "[synthetic]\nusers = 40\n", 1);
    let world = workload_of("workloads/users.toml", &text);
    let policies = vec![
        policy_of("medium", "[fixed]\nroute = \"medium\"\n", &catalogue),
        policy_of(
            "shadow",
            "[shadow]\ncandidate = \"medium\"\nshare = 1.0\nbase.fixed = { route = \"large\" }\n",
            &catalogue,
        ),
    ];
    (catalogue, world, policies)
}

#[test]
fn clusters_change_no_tally_and_add_up_to_the_pairs() {
    let (catalogue, world, policies) = of_users();
    let stage = Stage::new(Fidelity::Outcome);
    for stage in [None, Some(&stage)] {
        let run = |cluster| clustered(&catalogue, &world, &policies, (3_000, 2), cluster, stage);
        let plain = run(None);
        let with = run(Some(Unit::User));
        assert_eq!(with.cluster, Some("user"));
        for (a, b) in plain.contestants.iter().zip(&with.contestants) {
            assert_eq!(a.tallies, b.tallies, "{}", a.name);
            assert_eq!(a.pairs, b.pairs, "{}", a.name);
            assert!(a.clusters.is_empty());
            // Two replicates of a drawn world have different people.
            assert_eq!(b.clusters[0].len(), 80, "{}", a.name);
            let mut total = ClusterPair::default();
            b.clusters[0].iter().for_each(|one| total.merge(*one));
            let pair = PairTally::total(&b.pairs[0]);
            assert_eq!(total.score.n, pair.graded);
            assert_eq!(total.score.sum, pair.score_difference_sum);
            assert_eq!(total.cost.n, pair.costed);
            assert_eq!(total.cost.sum, pair.cost_difference_sum);
        }
    }
}

#[test]
fn clustering_by_request_is_no_clustering() {
    let (catalogue, world, policies) = of_users();
    let unit = Some(Unit::Request);
    let results = clustered(&catalogue, &world, &policies, (2_000, 1), unit, None);
    assert_eq!(results.cluster, None);
    assert!(contestant(&results, "medium").clusters.is_empty());
}

#[test]
fn the_clustered_interval_is_the_formulas() {
    let (catalogue, world, policies) = of_users();
    let results = clustered(
        &catalogue,
        &world,
        &policies,
        (3_000, 1),
        Some(Unit::User),
        None,
    );
    let options = Options {
        bootstrap: Some(1_000),
        ..Options::default()
    };
    let said = found(&results, &options);
    let pair = said
        .paired
        .iter()
        .find(|pair| pair.policy == "medium")
        .unwrap();
    let clusters = &contestant(&results, "medium").clusters[0];
    // √(G/(G − 1) · Σ_g (Σ_{i in g} (d_i − mean))²)/n, written once more.
    let n: u64 = clusters.iter().map(|one| one.score.n).sum();
    let sum: i128 = clusters.iter().map(|one| one.score.sum).sum();
    let mean = sum as f64 / n as f64;
    let squares: f64 = clusters
        .iter()
        .map(|one| (one.score.sum as f64 - one.score.n as f64 * mean).powi(2))
        .sum();
    let g = clusters.len() as f64;
    let half = student_two_sided(0.95, 39) * (g / (g - 1.0) * squares).sqrt() / n as f64 / 1e6;
    let got = &pair.accuracy_difference;
    assert_eq!((got.method, got.n), (Estimate::CLUSTER_T, 3_000));
    assert_eq!(pair.clusters, Some(40));
    made::assert_close(got.value, mean / 1e6, 1e-15);
    made::assert_close(got.low, mean / 1e6 - half, 1e-12);
    made::assert_close(got.high, mean / 1e6 + half, 1e-12);
    // People here do not differ, so the width is about that of independent requests.
    let plain = found(
        &clustered(&catalogue, &world, &policies, (3_000, 1), None, None),
        &Options::default(),
    );
    let width = |said: &Findings| {
        let pair = said
            .paired
            .iter()
            .find(|pair| pair.policy == "medium")
            .unwrap();
        pair.accuracy_difference.high.unwrap() - pair.accuracy_difference.low.unwrap()
    };
    let ratio = width(&said) / width(&plain);
    assert!((0.75..1.35).contains(&ratio), "{ratio}");
    // The bootstrap stands beside it, seeded.
    let drawn = pair.bootstrap.as_ref().unwrap();
    assert_eq!(drawn.accuracy_difference.method, Estimate::CLUSTER_BCA);
    let again = found(&results, &options);
    assert_eq!(said.paired, again.paired);
    let sums: Vec<_> = clusters.iter().map(|one| one.score).collect();
    let draws = Bootstrap {
        seed: 0,
        replicates: 1_000,
    };
    let limits = cluster_bca(&sums, 0.95, &draws).unwrap();
    made::assert_close(drawn.accuracy_difference.low, limits.low / 1e6, 1e-15);
    assert!((limits.low / 1e6 - got.low.unwrap()).abs() < 0.3 * half);
    assert_eq!(cluster_mean(sums).unwrap().clusters, 40);
    assert!(
        said.notes
            .iter()
            .any(|note| note.contains("each user for independent (40 of them)"))
    );
}

/// A table in which 20 users send 10 requests each, all alike: large is right, small only for every
/// second user.
fn alike() -> String {
    let mut table = "id,user,task,input_tokens,grade_small,grade_large,output_tokens\n".to_owned();
    for i in 0..200 {
        let user = i / 10;
        table.push_str(&format!(
            "r{i},u{user},faq,100,{},1,50\n",
            u8::from(user % 2 == 0)
        ));
    }
    table
}

fn compare(folder: &std::path::Path, arguments: &[&str]) -> program::Ran {
    program::run_in(
        folder,
        &[&["compare", "grades.csv", "-p", "p.toml"], arguments].concat(),
    )
}

#[test]
fn requests_of_the_same_user_count_as_one_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("grades.csv"), alike()).unwrap();
    std::fs::write(folder.path().join("p.toml"), "[fixed]\nroute = \"small\"\n").unwrap();
    std::fs::create_dir(folder.path().join("policies")).unwrap();
    std::fs::copy(
        crate::given::project("policies/routes.toml"),
        folder.path().join("policies/routes.toml"),
    )
    .unwrap();
    let width = |findings: &Value| {
        let difference = &findings["paired"][0]["accuracy_difference"];
        difference["high"].as_f64().unwrap() - difference["low"].as_f64().unwrap()
    };
    let json = ["--format", "json", "-q"];
    let plain = compare(folder.path(), &json).json();
    let users = compare(folder.path(), &[&json[..], &["--cluster", "user"]].concat()).json();
    let pair = &users["paired"][0];
    assert_eq!(pair["clusters"], 20);
    assert_eq!(pair["cluster"], "user");
    assert_eq!(pair["accuracy_difference"]["method"], "cluster-t");
    // 20 users, half of them at −1: √(0.25/19)·t₁₉, against 200 requests.
    let half = student_two_sided(0.95, 19) * f64::sqrt(0.25 / 19.0);
    assert!((width(&users) - 2.0 * half).abs() < 1e-12);
    assert!(width(&users) > 3.0 * width(&plain));
    // Without clusters the report says what is amiss, and with them it does not.
    let said = compare(folder.path(), &["-q"]).stdout;
    assert!(
        said.contains("several requests come from the same users"),
        "{said}"
    );
    let said = compare(
        folder.path(),
        &["-q", "--cluster", "user", "--bootstrap", "1000"],
    )
    .stdout;
    assert!(!said.contains("several requests come"), "{said}");
    assert!(said.contains("each user drawn anew"), "{said}");
    assert!(said.contains("too narrow"), "20 clusters are few: {said}");
    let refused = compare(folder.path(), &["--bootstrap", "1000"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--cluster"), "{}", refused.stderr);
    let refused = compare(folder.path(), &["--cluster", "session"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("nothing to cluster by"),
        "{}",
        refused.stderr
    );
}

/// Users who never show a difference: no cluster variance, which is not certainty.
#[test]
fn agreement_throughout_is_worth_one_pair_per_user() {
    let compared = |users: usize| {
        let folder = tempfile::tempdir().unwrap();
        let mut table =
            "id,user,task,input_tokens,grade_small,grade_large,output_tokens\n".to_owned();
        for i in 0..users * 3 {
            table.push_str(&format!("r{i},u{},faq,{},1,1,50\n", i % users, 100 + i));
        }
        std::fs::write(folder.path().join("grades.csv"), table).unwrap();
        std::fs::write(folder.path().join("p.toml"), "[fixed]\nroute = \"small\"\n").unwrap();
        std::fs::create_dir(folder.path().join("policies")).unwrap();
        std::fs::copy(
            crate::given::project("policies/routes.toml"),
            folder.path().join("policies/routes.toml"),
        )
        .unwrap();
        let arguments = [
            "--format",
            "json",
            "-q",
            "--cluster",
            "user",
            "--bootstrap",
            "1000",
        ];
        compare(
            folder.path(),
            &[&arguments[..], &["--baseline", "always-large"]].concat(),
        )
        .json()
    };
    // Tango without disagreement among n pairs reaches z²/(n + z²); 3 points take 125 pairs.
    for (users, verdict) in [
        (2, "inconclusive"),
        (9, "inconclusive"),
        (124, "inconclusive"),
        (125, "non-inferior"),
    ] {
        let said = compared(users);
        let pair = &said["paired"][0];
        let difference = &pair["accuracy_difference"];
        let square = 1.959_963_984_540_054_f64.powi(2);
        let reach = square / (users as f64 + square);
        assert_eq!(difference["method"], Estimate::CLUSTER_TANGO, "{users}");
        assert!(
            (difference["low"].as_f64().unwrap() + reach).abs() < 1e-6,
            "{difference}"
        );
        assert!(
            (difference["high"].as_f64().unwrap() - reach).abs() < 1e-6,
            "{difference}"
        );
        assert_eq!(pair["verdict"], verdict, "{users}");
        let drawn = &pair["bootstrap"]["accuracy_difference"];
        assert_eq!(
            (&drawn["low"], &drawn["high"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(pair["p"].is_null(), users < 10, "{pair}");
    }
}

/// Policies beside `always-large`, right on all of 2,000 requests but so many.
fn field(wrong: &[usize]) -> Results {
    let did = |wrong: usize| (0..2_000).map(|i| made::did(0, i >= wrong, 1.0)).collect();
    let names: Vec<String> = (0..wrong.len()).map(|i| format!("p{i}")).collect();
    let mut contestants: Vec<(&str, &'static str, Vec<made::Did>)> = names
        .iter()
        .zip(wrong)
        .map(|(name, wrong)| (name.as_str(), "fixed", did(*wrong)))
        .collect();
    contestants.push(("always-large", "always", did(0)));
    made::experiment(&["large"], &contestants)
}

#[test]
fn a_verdict_that_only_luck_among_several_explains_is_held_back() {
    // The most wrong answers in 2,000 at which one policy alone is just non-inferior.
    let alone = |wrong: usize| found(&field(&[wrong]), &Options::default()).paired[0].clone();
    let most = (0..100)
        .take_while(|&wrong| alone(wrong).verdict == NonInferiority::NonInferior)
        .last()
        .unwrap();
    let just = alone(most);
    assert_eq!(just.p, just.p_holm);
    assert!(just.p.unwrap().noninferior <= 0.025 && !just.held_back);
    // Beside three that are clearly worse it has to clear a quarter of alpha: it does not.
    let said = found(&field(&[most, 400, 500, 600]), &Options::default());
    assert_eq!(said.family, 4);
    let pair = &said.paired[0];
    assert_eq!(pair.verdict, NonInferiority::Inconclusive);
    assert!(pair.held_back);
    assert_eq!(pair.p, just.p);
    let adjusted = pair.p_holm.unwrap().noninferior;
    assert!((adjusted - 4.0 * just.p.unwrap().noninferior).abs() < 1e-15);
    // "Needed" is about the adjusted verdict: more than there are.
    match (pair.needed, just.needed) {
        (Needed::Observations(among), Needed::Observations(alone)) => {
            assert!(among > alone && among > 2_000, "{among} {alone}")
        }
        other => panic!("{other:?}"),
    }
    for worse in &said.paired[1..] {
        assert_eq!(worse.verdict, NonInferiority::Inferior, "{}", worse.policy);
    }
    // Step down: beside three that are clearly as good it needs alpha itself, and has it.
    let said = found(&field(&[most, 0, 0, 0]), &Options::default());
    for pair in &said.paired {
        assert_eq!(pair.verdict, NonInferiority::NonInferior, "{}", pair.policy);
    }
    assert!(
        said.notes
            .iter()
            .any(|note| note.starts_with("Holm over 4 policies"))
    );
    assert!(found(&field(&[most]), &Options::default()).notes.is_empty());
}

#[test]
fn controls_are_not_of_the_family() {
    let (catalogue, world, policies) = of_users();
    let said = found(
        &run(&catalogue, &world, &policies, 2_000),
        &Options::default(),
    );
    assert_eq!(said.family, 2);
    for pair in &said.paired {
        assert_eq!(pair.p_holm.is_none(), pair.control, "{}", pair.policy);
        assert!(pair.p.is_some(), "{}", pair.policy);
    }
}

#[test]
fn a_shadow_that_mirrors_everything_is_the_paired_comparison() {
    let (catalogue, world, policies) = of_users();
    for stage in [
        None,
        Some(Stage::new(Fidelity::Outcome)),
        Some(Stage::new(Fidelity::Wired)),
    ] {
        let results = clustered(
            &catalogue,
            &world,
            &policies,
            (1_000, 1),
            None,
            stage.as_ref(),
        );
        let shadow = tally(&results, "shadow");
        let pair = &contestant(&results, "always-medium").pairs[0][0];
        assert_eq!(shadow.mirrored, 1_000);
        let counts = shadow.mirror_pairs();
        assert_eq!(
            (counts.n11, counts.n10, counts.n01, counts.n00),
            (pair.n11, pair.n10, pair.n01, pair.n00)
        );
        let said = found(&results, &Options::default());
        let row = said.row("shadow").unwrap().shadow.clone().unwrap();
        let medium = said
            .paired
            .iter()
            .find(|pair| pair.policy == "medium")
            .unwrap();
        assert_eq!(row.difference, medium.accuracy_difference);
        assert_eq!((row.graded, row.rule), (1_000, "tango"));
        assert!(said.row("medium").unwrap().shadow.is_none());
    }
}

#[test]
fn a_copy_that_was_kept_back_is_no_pair() {
    let catalogue = routes();
    let mut table = "id,task,input_tokens,output_tokens,grade_large,grade_small\n".to_owned();
    for i in 0..100 {
        // A quarter of the prompts is too long for the candidate, and a fifth has no grade of it.
        let tokens = if i % 4 == 0 { 20_000 } else { 10 };
        let small = if i % 5 == 0 { "" } else { "1" };
        table.push_str(&format!("r{i},t,{tokens},5,0,{small}\n"));
    }
    let world = crate::workload_recorded::sound("grades.csv", &table);
    let policy = policy_of(
        "shadow",
        "[shadow]\ncandidate = \"small\"\nshare = 1.0\nbase.fixed = { route = \"large\" }\n",
        &catalogue,
    );
    let results = run(&catalogue, &world, &[policy], 100);
    let shadow = tally(&results, "shadow");
    assert_eq!(shadow.mirrored, 75);
    assert_eq!(shadow.mirror_graded(), 60);
    assert_eq!(
        (shadow.m10, shadow.m11, shadow.m01, shadow.m00),
        (60, 0, 0, 0)
    );
}

#[test]
fn promotion_rates_over_replicates_are_the_exact_ones() {
    // One task, all of it mirrored: 400 pairs in each of 300 runs.
    let catalogue = routes();
    let text = r#"
        [synthetic]
        requests = 400
        [synthetic.task.t]
        share = 1.0
        difficulty = { fixed = 0.5 }
        tokens = { input = 100, output = 10 }
        [synthetic.model.small]
        skill = { t = 0.5 }
        [synthetic.model.medium]
        skill = { t = 0.85 }
        [synthetic.model.large]
        skill = { t = 0.86 }
    "#;
    let world = workload_of("workloads/one-task.toml", text);
    let policies = [policy_of(
        "shadow",
        "[shadow]\ncandidate = \"medium\"\nshare = 1.0\nbase.fixed = { route = \"large\" }\n",
        &catalogue,
    )];
    let runs = 300;
    let results = clustered(&catalogue, &world, &policies, (400, runs), None, None);
    let right = |skill: f64| 1.0 / (1.0 + libm::exp(-10.0 * (skill - 0.5)));
    let (p, q) = (right(0.85), right(0.86));
    let joint = Joint::new(p * q, p * (1.0 - q), (1.0 - p) * q, (1.0 - p) * (1.0 - q)).unwrap();
    let criterion = Criterion::new(0.03, routelab::stats::z_two_sided(0.95)).unwrap();
    let mut seen = BTreeMap::new();
    for rule in [Rule::Tango, Rule::WaldLesson, Rule::BonettPrice] {
        let options = Options {
            promotion_rule: rule,
            ..Options::default()
        };
        let said = found(&results, &options);
        let shadow = said.row("shadow").unwrap().shadow.clone().unwrap();
        let rate = shadow.promoted.value.unwrap();
        let exact = promotion_probability(rule, 400, joint, criterion).unwrap();
        let error = (exact * (1.0 - exact) / f64::from(runs)).sqrt();
        assert!(
            (rate - exact).abs() < 4.0 * error,
            "{rule:?}: {rate} {exact}"
        );
        assert!(
            (0.05..0.95).contains(&exact),
            "{rule:?}: {exact} shows nothing"
        );
        assert_eq!(shadow.promoted.n, u64::from(runs));
        // The same by hand from the tallies.
        let tallies = &contestant(&results, "shadow").tallies;
        let promoted = tallies
            .iter()
            .filter(|one| rule.promotes(one.mirror_pairs(), criterion).unwrap())
            .count();
        assert!((rate - promoted as f64 / f64::from(runs)).abs() < 1e-15);
        seen.insert(rule, promoted);
    }
    assert!(seen[&Rule::WaldLesson] >= seen[&Rule::Tango], "{seen:?}");
}

#[test]
fn a_report_shows_promotion_rates_in_every_format() {
    let said = program::run(&[
        "compare",
        "workloads/support.toml",
        "-p",
        "policies/shadow.toml",
        "--requests",
        "2000",
        "--replicates",
        "3",
        "--promotion-rule",
        "wald",
        "-q",
    ]);
    assert!(said.stdout.contains("rule wald"), "{}", said.stdout);
    assert!(said.stdout.contains("promoted"), "{}", said.stdout);
    let json = program::run(&[
        "compare",
        "workloads/support.toml",
        "-p",
        "policies/shadow.toml",
        "--requests",
        "2000",
        "--replicates",
        "3",
        "--format",
        "json",
        "-q",
    ])
    .json();
    let shadow = &json["rows"][0]["shadow"];
    assert_eq!(shadow["promoted"]["n"], 3);
    assert_eq!(shadow["rule"], "tango");
    let cells = ["n11", "n10", "n01", "n00"].map(|cell| shadow[cell].as_u64().unwrap());
    assert_eq!(
        cells.iter().sum::<u64>(),
        shadow["graded"].as_u64().unwrap()
    );
}
