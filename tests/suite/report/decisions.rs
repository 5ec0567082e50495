//! What is decided from the numbers: the baseline, requirements, and the recommendation.

use super::made::*;
use routelab::report::{Manifest, Options, Outcome, findings};
use routelab::stats::{NonInferiority, wilson, z_two_sided};

#[test]
fn the_default_baseline_is_the_most_accurate_single_route() {
    let results = two_routes();
    let by_default = found(&results, &Options::default());
    assert_eq!(by_default.baseline.as_deref(), Some("always-large"));
    let asked = Options {
        baseline: Some("always-small".to_owned()),
        ..Options::default()
    };
    let asked = found(&results, &asked);
    assert_eq!(asked.baseline.as_deref(), Some("always-small"));
    assert_eq!(asked.paired[0].n01, 0);
    let mut none = results;
    none.baselines.clear();
    let none = found(&none, &Options::default());
    assert_eq!(none.baseline, None);
    assert!(none.paired.is_empty() && none.summary.contains("no baseline"));
}

#[test]
fn every_mistake_in_the_options_is_reported_at_once() {
    let options = Options {
        baseline: Some("always-larg".to_owned()),
        margin: 3.0,
        level: 95.0,
        volume: Some(-1.0),
        require: vec!["acuracy>=0.9".to_owned(), "accuracy>0.9".to_owned()],
        minimize: Some("usd".to_owned()),
    };
    let errors = findings(&two_routes(), &options, Manifest::default()).expect_err("mistakes");
    assert_eq!(errors.len(), 7, "{errors:#?}");
    assert!(
        errors
            .iter()
            .any(|e| e.contains("did you mean `always-large`?")),
        "{errors:#?}"
    );
    assert!(
        errors
            .iter()
            .any(|e| e.contains("did you mean `accuracy`?")),
        "{errors:#?}"
    );
    let unpaired = Options {
        baseline: Some("static".to_owned()),
        ..Options::default()
    };
    assert!(findings(&two_routes(), &unpaired, Manifest::default()).is_err());
}

#[test]
fn a_failed_requirement_outweighs_an_inconclusive_one() {
    let code = |require: &[&str]| {
        let require = require.iter().map(|&text| text.to_owned()).collect();
        found(
            &lesson(),
            &Options {
                require,
                ..Options::default()
            },
        )
        .exit_code()
    };
    assert_eq!(code(&[]), 0);
    assert_eq!(code(&["accuracy>=0.89", "usd_per_1k<=7.5"]), 0);
    assert_eq!(code(&["accuracy>=0.9"]), 102);
    assert_eq!(code(&["accuracy>=0.9", "accuracy>=0.95"]), 100);
    assert_eq!(
        code(&[
            "always-large.accuracy>=0.95",
            "static.final_share.small>=0.5"
        ]),
        0
    );
}

#[test]
fn an_inconclusive_requirement_says_how_much_is_needed() {
    let require = vec!["accuracy>=0.9".to_owned()];
    let findings = found(
        &lesson(),
        &Options {
            require,
            ..Options::default()
        },
    );
    let [judgement] = findings.requirements.as_slice() else {
        panic!("{:?}", findings.requirements);
    };
    let Outcome::Inconclusive {
        needed_n: Some(n),
        why,
    } = &judgement.outcome
    else {
        panic!("{judgement:?}");
    };
    assert!(why.contains("requests would settle it"));
    // With as many requests and the same share right, it is settled.
    let right = (n * 5405).div_ceil(6000);
    let limits = wilson(right, *n, z_two_sided(0.95)).expect("limits");
    assert!(limits.low >= 0.9 - 1e-6, "{limits:?}");
}

#[test]
fn the_summary_names_the_cheapest_policy_that_qualifies() {
    let large: Vec<Did> = (0..2000).map(|i| did(1, i % 20 != 0, 0.020)).collect();
    let small: Vec<Did> = (0..2000).map(|i| did(0, i % 3 != 0, 0.001)).collect();
    let near = |usd: f64| {
        (0..2000)
            .map(|i| did(usize::from(i % 4 == 0), i % 19 != 0, usd))
            .collect()
    };
    let results = experiment(
        &["small", "large"],
        &[
            ("dear", "static", near(0.010)),
            ("cheap", "cascade", near(0.005)),
            ("wrong", "static", small.clone()),
            ("always-small", "always", small),
            ("always-large", "always", large),
        ],
    );
    // (Their errors fall on different requests, so the interval is wide: a margin of five points.)
    let options = Options {
        margin: 0.05,
        volume: Some(40e6),
        ..Options::default()
    };
    let summary = found(&results, &options).summary;
    assert!(summary.starts_with("cheap is the cheapest of the 2 of 3 policies shown to be not worse than always-large by more than 5 points: 0.25 times its cost, 5.00 against 20.00 USD"), "{summary}");
    assert!(
        summary.contains("simulated, n = 2,000, one-sided alpha 0.025"),
        "{summary}"
    );
    assert!(
        summary.ends_with("At 40,000,000 requests: 200,000 USD against 800,000 USD."),
        "{summary}"
    );

    let strict = found(
        &results,
        &Options {
            margin: 0.0,
            ..Options::default()
        },
    )
    .summary;
    assert!(strict.starts_with("No policy is shown to be not worse than always-large by more than 0 points. The closest is"), "{strict}");

    let minimize = Options {
        require: vec!["accuracy>=0.9".to_owned()],
        minimize: Some("usd_per_1k".to_owned()),
        ..Options::default()
    };
    let minimized = found(&results, &minimize).summary;
    assert!(minimized.starts_with("cheap is the lowest in usd_per_1k of the 2 of 3 policies shown to meet every requirement, usd_per_1k 5.00 ["), "{minimized}");
}

#[test]
fn agreeing_on_a_few_partial_grades_is_no_proof() {
    let halves: Vec<Did> = (0..20)
        .map(|_| Did {
            score: Some(RIGHT / 2),
            ..did(0, true, 1.0)
        })
        .collect();
    let results = experiment(
        &["small"],
        &[
            ("p", "static", halves.clone()),
            ("always-small", "always", halves),
        ],
    );
    let findings = found(&results, &Options::default());
    assert_eq!(findings.paired[0].verdict, NonInferiority::Inconclusive);
    assert!(
        findings.summary.contains("too few data"),
        "{}",
        findings.summary
    );
}
