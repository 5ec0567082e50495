//! The lesson's table, to the last digit on its own requests, and its world in expectation.

use routelab::catalogue::Catalogue;
use routelab::stats::Tally;

use crate::given::{
    contestant, fixture, policies, policy_of, reference, routes, run, tally, workload, workload_of,
};

/// Our name of a row → the lesson's.
const ROWS: [(&str, &str); 7] = [
    ("always-small", "always small"),
    ("always-medium", "always medium"),
    ("always-large", "always large"),
    ("static", "static rules"),
    ("capability-cost", "capability+cost aware"),
    ("cascade-30", "cascade (small>medium>large)"),
    ("eval-driven", "eval-driven (n=300, one draw)"),
];

fn assert_relative(what: &str, got: f64, want: f64) {
    assert!(
        (got - want).abs() <= 1e-9 * want.abs().max(1e-300),
        "{what}: {got}, but the lesson has {want}"
    );
}

fn assert_row(name: &str, tally: &Tally, want: &serde_json::Value, routes: &[String]) {
    let n = 6000.0;
    let number = |key: &str| want[key].as_f64().unwrap();
    assert_eq!(tally.requests, 6000);
    assert_eq!(tally.graded, 6000, "an unserved request counts as wrong");
    let right = tally.score_sum / 1_000_000;
    assert_eq!(
        right,
        (number("accuracy") * n).round() as i128,
        "{name}: right answers"
    );
    assert_relative(name, right as f64 / n, number("accuracy"));
    assert_relative(
        name,
        tally.cost_sum as f64 / 1e12 / n * 1000.0,
        number("usd_per_1k"),
    );
    assert_relative(
        name,
        tally.calls_sum as f64 / n,
        number("calls_per_request"),
    );
    if let Some(shares) = want.get("final_share") {
        for (route, count) in routes.iter().zip(&tally.final_count) {
            assert_relative(name, *count as f64 / n, shares[route].as_f64().unwrap());
        }
    }
}

#[test]
fn the_lessons_table_comes_out_exactly() {
    let want = fixture("lesson_expected.json");
    let catalogue = routes();
    let world = workload("workloads/lesson-recorded.toml");
    let results = run(
        &catalogue,
        &world,
        &policies("policies/lesson", &catalogue),
        6000,
    );
    for (ours, theirs) in ROWS {
        assert_row(
            ours,
            tally(&results, ours),
            &want["policies"][theirs],
            &results.routes,
        );
    }
    for (ours, theirs) in [
        ("cascade-00", "0.0"),
        ("cascade-10", "0.1"),
        ("cascade-30", "0.3"),
        ("cascade-60", "0.6"),
    ] {
        assert_row(
            ours,
            tally(&results, ours),
            &want["cascade_by_accept_if_wrong"][theirs],
            &results.routes,
        );
    }
    // The counts as the lesson gives them, of 6,000.
    let right = |name: &str| tally(&results, name).score_sum / 1_000_000;
    let counts = [
        "always-small",
        "always-large",
        "static",
        "capability-cost",
        "cascade-30",
        "eval-driven",
    ]
    .map(right);
    assert_eq!(counts, [3841, 5749, 5405, 5501, 5080, 5549]);
    let small = tally(&results, "always-small");
    assert_eq!(
        small.unserved,
        [0, 94, 0],
        "prompts that do not fit are shown as unserved"
    );
    assert_eq!(small.final_count.iter().sum::<u64>(), 6000 - 94);
}

#[test]
fn the_committed_copies_are_the_shared_reference_values() {
    if let Some(shared) = reference("data/seed_workload/expected.json") {
        assert_eq!(shared, fixture("lesson_expected.json"));
    }
    if let Some(shared) = reference("data/statistics/reference_vectors.json") {
        let ours = fixture("lesson_world.json");
        for (key, value) in ours["cascade"].as_object().unwrap() {
            assert_eq!(&shared["copula"][key], value, "{key}");
        }
        assert_eq!(shared["policies_population"], ours["policies_population"]);
        assert_eq!(
            shared["policy_comparison_on_seed_csv"]["static rules - always large"],
            ours["static_against_large"]
        );
        assert_eq!(
            shared["policy_comparison_on_seed_csv"]["oracle - static rules"],
            ours["oracle_against_static"]
        );
    }
}

#[test]
fn paired_counts_on_the_lessons_rows_are_the_reference_counts() {
    let want = &fixture("lesson_world.json")["static_against_large"];
    let catalogue = routes();
    let world = workload("workloads/lesson-recorded.toml");
    let results = run(
        &catalogue,
        &world,
        &policies("policies/lesson", &catalogue),
        6000,
    );
    let large = results
        .baselines
        .iter()
        .position(|at| results.contestants[*at].name == "always-large")
        .unwrap();
    let pair = &contestant(&results, "static").pairs[large][0];
    for (key, got) in [
        ("n11", pair.n11),
        ("n10", pair.n10),
        ("n01", pair.n01),
        ("n00", pair.n00),
    ] {
        assert_eq!(want[key].as_u64(), Some(got), "{key}");
    }
    let mean = pair.cost_difference_sum as f64 / 1e12 / 6000.0 * 1000.0;
    assert_relative(
        "cost difference",
        mean,
        want["cost_diff_usd1k"].as_f64().unwrap(),
    );
    let square = pair.cost_difference_square_sum as f64 / 1e24;
    let sum = pair.cost_difference_sum as f64 / 1e12;
    let se = ((square - sum * sum / 6000.0) / 5999.0 / 6000.0).sqrt() * 1000.0;
    assert!(
        (se - want["cost_se_paired"].as_f64().unwrap()).abs() < 1e-6,
        "{se}"
    );

    // The reference's "oracle" is the policy that routes each task like the oracle: the lesson's picks.
    let picks = tally(&results, "eval-driven");
    let difference = (picks.score_sum - tally(&results, "static").score_sum) as f64 / 1e6 / 6000.0;
    let want = fixture("lesson_world.json")["oracle_against_static"]["diff"]
        .as_f64()
        .unwrap();
    assert_relative("picks against static", difference, want);
    let best = tally(&results, "oracle").score_sum;
    assert!(
        results
            .contestants
            .iter()
            .all(|one| one.tallies[0].score_sum <= best),
        "nobody beats the oracle"
    );
}

/// Requests behind the checks in expectation.
const MANY: u64 = 1_000_000;

/// Asserts that accuracy, USD and calls lie within four standard errors of exact values.
fn assert_within_four_standard_errors(name: &str, tally: &Tally, want: [f64; 3]) {
    let n = tally.requests as f64;
    let mean_and_se = |sum: f64, square: f64| {
        let mean = sum / n;
        (mean, ((square / n - mean * mean) / (n - 1.0)).sqrt())
    };
    let (accuracy, accuracy_se) = mean_and_se(
        tally.score_sum as f64 / 1e6,
        tally.score_square_sum as f64 / 1e12,
    );
    let (usd, usd_se) = mean_and_se(
        tally.cost_sum as f64 / 1e9,
        tally.cost_square_sum as f64 / 1e18,
    );
    let (calls, calls_se) = mean_and_se(tally.calls_sum as f64, tally.calls_square_sum as f64);
    for (what, got, se, want) in [
        ("accuracy", accuracy, accuracy_se, want[0]),
        ("USD", usd, usd_se, want[1]),
        ("calls", calls, calls_se, want[2]),
    ] {
        assert!(
            (got - want).abs() <= 4.0 * se + 1e-12,
            "{name}: {what} is {got}, exact is {want}: {:.1} standard errors apart",
            (got - want).abs() / se
        );
    }
}

fn cascade(accept_if_correct: f64, accept_if_wrong: f64) -> String {
    format!(
        "[cascade]\norder = [\"small\", \"medium\", \"large\"]\nverifier.simulated = \
         {{ accept_if_correct = {accept_if_correct}, accept_if_wrong = {accept_if_wrong} }}\n"
    )
}

fn world_in_expectation(catalogue: &Catalogue, rho: &str) {
    let exact = fixture("lesson_world.json");
    let text = std::fs::read_to_string(crate::given::project("workloads/support.toml")).unwrap();
    let text = text.replace("correlation = 0.0", &format!("correlation = {rho}"));
    let world = workload_of("workloads/support.toml", &text);
    let cases = [
        ("0.93", "0.3"),
        ("0.93", "0.0"),
        ("0.93", "0.1"),
        ("0.93", "0.6"),
        ("1.0", "0.0"),
    ];
    let policies: Vec<_> = cases
        .iter()
        .map(|(a, r)| {
            policy_of(
                &format!("{a}-{r}"),
                &cascade(a.parse().unwrap(), r.parse().unwrap()),
                catalogue,
            )
        })
        .collect();
    let results = run(catalogue, &world, &policies, MANY);
    let mut checked = 0;
    for (a, r) in cases {
        let key = format!("cascade|F|A={a}|r={r}|rho={}", rho.trim_end_matches(".0"));
        // The fixture's names are the reference file's: `r=0.0`, `rho=0`, `rho=0.25`, `rho=1`.
        let value = &exact["cascade"][&key];
        assert!(value.is_array(), "no exact value `{key}`");
        let want = [0, 1, 2].map(|index| value[index].as_f64().unwrap());
        assert_within_four_standard_errors(&key, tally(&results, &format!("{a}-{r}")), want);
        checked += 1;
    }
    assert_eq!(checked, cases.len());
    if rho == "1.0" {
        // Comonotone errors: a verifier that never accepts a wrong answer buys nothing over the best route.
        let perfect = tally(&results, "1.0-0.0").score_sum;
        assert_eq!(perfect, tally(&results, "always-large").score_sum);
    }
}

#[test]
fn the_lessons_world_holds_in_expectation_when_errors_are_independent() {
    world_in_expectation(&routes(), "0.0");
}

#[test]
fn the_lessons_world_holds_in_expectation_when_a_quarter_of_errors_is_shared() {
    world_in_expectation(&routes(), "0.25");
}

#[test]
fn the_bonus_of_a_perfect_verifier_vanishes_when_routes_err_together() {
    world_in_expectation(&routes(), "1.0");
}

#[test]
fn single_routes_and_static_rules_hold_in_expectation() {
    let exact = &fixture("lesson_world.json")["policies_population"];
    let catalogue = routes();
    let policies = policies("policies", &catalogue);
    let results = run(
        &catalogue,
        &workload("workloads/support.toml"),
        &policies,
        MANY,
    );
    for (ours, theirs, calls) in [
        // Two per cent of the traffic are documents that do not fit the small window.
        ("always-small", "policy always small", 0.98),
        ("always-large", "policy always large", 1.0),
        ("static", "policy static", 1.0),
    ] {
        let value = |key: &str| exact[theirs][key].as_f64().unwrap();
        assert_within_four_standard_errors(
            ours,
            tally(&results, ours),
            [value("pop_acc"), value("pop_usd1k"), calls],
        );
    }
}
