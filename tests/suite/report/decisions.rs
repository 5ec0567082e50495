//! What is decided from the numbers: the baseline, requirements, and the recommendation.

use super::made::*;
use routelab::report::{Manifest, Options, Outcome, findings};
use routelab::sim::Results;
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

/// Two routes; `odd` is right wherever it is graded, which is on the first `graded` of 1,000 requests.
fn rarely_graded(graded: usize) -> Results {
    let odd: Vec<Did> = (0..1000)
        .map(|i| Did {
            score: (i < graded).then_some(RIGHT),
            ..did(0, true, 0.001)
        })
        .collect();
    let large: Vec<Did> = (0..1000).map(|i| did(1, i % 10 != 0, 0.02)).collect();
    experiment(
        &["odd", "large"],
        &[
            ("p", "static", large.clone()),
            ("always-odd", "always", odd),
            ("always-large", "always", large),
        ],
    )
}

#[test]
fn a_route_that_nobody_graded_is_not_the_default_baseline() {
    let passed_over = "not considered as the baseline, with grades on fewer than half of the requests: always-odd";
    let few = found(&rarely_graded(3), &Options::default());
    assert_eq!(few.baseline.as_deref(), Some("always-large"));
    assert!(
        few.notes.iter().any(|n| n == passed_over),
        "{:?}",
        few.notes
    );
    let half = found(&rarely_graded(500), &Options::default());
    assert_eq!(half.baseline.as_deref(), Some("always-odd"));
    assert!(!half.notes.iter().any(|n| n == passed_over));
    // Who asks for it gets it.
    let asked = Options {
        baseline: Some("always-odd".to_owned()),
        ..Options::default()
    };
    let asked = found(&rarely_graded(3), &asked);
    assert_eq!(asked.baseline.as_deref(), Some("always-odd"));
    // Nobody is graded on half: the most grades count, not the best.
    let mut none = rarely_graded(3);
    none.contestants[2].tallies[0].graded = 400;
    none.contestants[2].tallies[0].score_sum = 100 * RIGHT;
    let none = found(&none, &Options::default());
    assert_eq!(none.baseline.as_deref(), Some("always-large"));
    assert!(
        none.notes
            .iter()
            .any(|n| n.starts_with("no single route has grades on half")),
        "{:?}",
        none.notes
    );
}

#[test]
fn requests_that_are_left_out_can_open_a_verdict() {
    // On the graded requests the policy equals the baseline; `left` of 2,000 have no grade.
    let compared = |left: usize, right: bool| {
        let base: Vec<Did> = (0..2000).map(|i| did(0, i % 10 != 0, 0.02)).collect();
        let policy: Vec<Did> = base
            .iter()
            .enumerate()
            .map(|(i, &base)| Did {
                score: match i {
                    i if i < left => None,
                    _ if right => base.score,
                    _ => Some(0),
                },
                cost: Some(USD / 100),
                ..base
            })
            .collect();
        let results = experiment(
            &["large"],
            &[("p", "cascade", policy), ("always-large", "always", base)],
        );
        let options = Options {
            require: vec!["accuracy>=0.85".to_owned()],
            ..Options::default()
        };
        found(&results, &options)
    };
    let verdict = |left, right| compared(left, right).paired[0].verdict;
    assert_eq!(verdict(0, true), NonInferiority::NonInferior);
    // One in a hundred costs a point of the three; one in twenty costs five.
    assert_eq!(verdict(20, true), NonInferiority::NonInferior);
    assert_eq!(verdict(100, true), NonInferiority::Inconclusive);
    assert_eq!(verdict(100, false), NonInferiority::Inferior);
    assert_eq!(verdict(1200, false), NonInferiority::Inconclusive);

    let sure = compared(20, true);
    assert!(
        sure.summary.ends_with(" Of 2,000 requests, p has a grade on 1,980 and a cost on 2,000: its numbers are about these only."),
        "{}",
        sure.summary
    );
    assert_eq!(sure.requirements[0].outcome, Outcome::Pass);
    // A dearer policy whose price is known on part of the requests might be the cheaper one.
    let base: Vec<Did> = (0..2000).map(|i| did(0, i % 10 != 0, 0.02)).collect();
    let at = |usd: i128, priced: usize| -> Vec<Did> {
        base.iter()
            .enumerate()
            .map(|(i, &base)| Did {
                cost: (i < priced).then_some(usd),
                ..base
            })
            .collect()
    };
    let results = experiment(
        &["large"],
        &[
            ("whole", "static", at(USD / 200, 2000)),
            ("partly", "static", at(USD / 100, 1500)),
            ("always-large", "always", base.clone()),
        ],
    );
    let summary = found(&results, &Options::default()).summary;
    assert!(
        summary.starts_with("whole is the cheapest of the 2 policies")
            && summary.ends_with(
                "It was chosen beside policies that are known on part of the requests: partly."
            ),
        "{summary}"
    );
    let open = compared(100, true);
    // The interval itself stays on what is graded.
    assert_eq!(open.paired[0].accuracy_difference.n, 1900);
    assert_eq!(
        (open.paired[0].left_out, open.paired[0].requests),
        (100, 2000)
    );
    assert!(
        open.summary
            .contains("its interval would decide, but 100 of 2,000 requests are left out"),
        "{}",
        open.summary
    );
    let note = "p: the interval would decide, but 100 of 2,000 requests are left out, and how they would have ended could turn the verdict";
    assert!(open.notes.iter().any(|n| n == note), "{:?}", open.notes);
    // 90 % of 95 % is 85.5 %, and its lower limit is below 85 %.
    let Outcome::Inconclusive { why, needed_n } = &open.requirements[0].outcome else {
        panic!("{:?}", open.requirements);
    };
    assert_eq!(
        (why.as_str(), *needed_n),
        (
            "would pass without the 5.0 % of requests that nobody graded, which could turn it",
            None
        )
    );
    assert_eq!(open.exit_code(), 102);
}

#[test]
fn only_what_should_be_small_is_minimised() {
    let options = Options {
        minimize: Some("accuracy".to_owned()),
        ..Options::default()
    };
    let errors = findings(&two_routes(), &options, Manifest::default()).expect_err("a mistake");
    assert_eq!(
        errors,
        routelab::report::check(&options, &["static"], &["small"])
    );
    assert!(
        errors[0].starts_with(
            "of `accuracy` more is better, so it cannot be minimised; can be: usd_per_1k, "
        ),
        "{errors:?}"
    );
    let shares = Options {
        minimize: Some("final_share.large".to_owned()),
        ..Options::default()
    };
    let summary = found(&two_routes(), &shares).summary;
    // A lowest value is no test: there is no alpha.
    assert!(
        summary.starts_with("static is the only policy, final_share.large 60.0 % ["),
        "{summary}"
    );
    assert!(summary.ends_with("(simulated, n = 10)."), "{summary}");
}

#[test]
fn the_summary_names_ties_and_says_when_nothing_is_cheaper() {
    let large: Vec<Did> = (0..2000).map(|i| did(0, i % 20 != 0, 0.020)).collect();
    let at = |usd: f64| -> Vec<Did> {
        large
            .iter()
            .map(|&did| Did {
                cost: Some((usd * USD as f64) as i128),
                ..did
            })
            .collect()
    };
    let summary = |prices: &[(&str, f64)], baseline: Option<&str>| {
        let mut contestants: Vec<(&str, &'static str, Vec<Did>)> = prices
            .iter()
            .map(|&(name, usd)| (name, "static", at(usd)))
            .collect();
        contestants.push(("always-large", "always", large.clone()));
        let mut results = experiment(&["large"], &contestants);
        if let Some(name) = baseline {
            let index = results.contestants.iter().position(|c| c.name == name);
            let index = index.expect("a contestant");
            results.baselines = vec![index];
            let theirs = contestants[index].2.clone();
            for (contestant, (.., all)) in results.contestants.iter_mut().zip(&contestants) {
                contestant.pairs = vec![vec![pair(all, &theirs)]];
            }
        }
        let options = Options {
            baseline: baseline.map(str::to_owned),
            ..Options::default()
        };
        found(&results, &options).summary
    };
    let tie = summary(&[("a", 0.005), ("b", 0.005), ("c", 0.01)], None);
    assert!(tie.starts_with("a and b, equal to the digits shown, are the cheapest of the 3 policies shown to be not worse than always-large by more than 3 points: 0.25 times its cost"), "{tie}");
    let dear = summary(&[("a", 0.030), ("b", 0.025)], None);
    assert!(dear.starts_with("2 of 2 policies are shown to be not worse than always-large by more than 3 points, but none is cheaper than always-large: b costs 25.00 against 20.00 USD"), "{dear}");
    let same = summary(&[("a", 0.020)], None);
    assert!(
        same.contains("but none is cheaper than always-large: a costs 20.00 against 20.00"),
        "{same}"
    );
    let own = summary(&[("a", 0.030), ("b", 0.025)], Some("b"));
    assert!(own.starts_with("1 of 1 other policies is shown to be not worse than b by more than 3 points, but none is cheaper than b: a costs 30.00 against 25.00"), "{own}");
    let own = summary(&[("a", 0.020), ("b", 0.025)], Some("b"));
    assert!(own.starts_with("a is the cheapest of the 2 policies shown to be not worse than b by more than 3 points: 0.80 times its cost"), "{own}");
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
        ..Options::default()
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
