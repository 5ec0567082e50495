//! Every expected number here is worked out by hand or comes from the reference file.

use super::made::*;
use routelab::report::{Options, Outcome, RENDERERS};
use routelab::sim::Results;
use routelab::stats::{Estimate, NonInferiority, z_two_sided};

/// Ten requests on two routes at 1 and 3 USD: small is right on six, large on nine. The policy sends
#[test]
fn mixes_of_two_routes_come_out_as_by_hand() {
    let findings = found(&two_routes(), &Options::default());
    let z = z_two_sided(0.95);
    // 4 of 10 small, 6 of 10 large: 0.4·0.6 + 0.6·0.9 = 0.78, and 0.4·1 + 0.6·3 = 2.2 USD.
    let random = metric(&findings, "random-mix:static", "accuracy");
    assert_close(random.value, 0.78, 1e-12);
    assert_eq!((random.n, random.method), (10, "wilson"));
    let by_hand = routelab::stats::wilson_fraction(0.78, 10.0, z).expect("limits");
    assert_close(random.low, by_hand.low, 1e-12);
    let cost = metric(&findings, "random-mix:static", "usd_per_1k");
    assert_close(cost.value, 2200.0, 1e-9);
    // One request costs 1 or 3 with probabilities 0.4 and 0.6: variance 0.4·0.6·2² = 0.96.
    assert_close(
        cost.high,
        2200.0 + z * (0.96_f64 / 10.0).sqrt() * 1000.0,
        1e-6,
    );
    // The policy costs 2.5 USD, a quarter of the way down from 3 to 1: 0.25·0.6 + 0.75·0.9 = 0.825.
    let matched = metric(&findings, "cost-matched-mix:static", "accuracy");
    assert_close(matched.value, 0.825, 1e-12);
    assert_close(
        metric(&findings, "cost-matched-mix:static", "usd_per_1k").value,
        2500.0,
        1e-9,
    );
    let shares = &findings
        .row("cost-matched-mix:static")
        .expect("a row")
        .final_share;
    assert_close(shares[0].value, 0.25, 1e-12);
    assert_close(shares[1].value, 0.75, 1e-12);
    // The policy itself is right on all but the last request.
    assert_close(metric(&findings, "static", "accuracy").value, 0.9, 1e-12);
    let lead = &findings
        .row("random-mix:static")
        .expect("a row")
        .mix
        .as_ref()
        .expect("a mix")
        .lead;
    assert_close(lead.value, 0.12, 1e-12);
    assert!(lead.low.expect("low") < 0.12 && lead.high.expect("high") > 0.12);
}

#[test]
fn a_policy_outside_the_single_routes_costs_is_compared_with_the_nearest() {
    let mut results = two_routes();
    let dear: Vec<Did> = (0..10).map(|_| did(1, true, 9.0)).collect();
    results.contestants[0].tallies = vec![tally(&dear, 2)];
    let findings = found(&results, &Options::default());
    let row = findings.row("cost-matched-mix:static").expect("a row");
    assert_close(row.metric("accuracy").and_then(|e| e.value), 0.9, 1e-12);
    assert!(row.notes[0].contains("costs more than every single route; this is always-large"));
}

#[test]
fn a_random_mix_has_the_unserved_requests_of_its_routes_and_no_others() {
    let mut results = two_routes();
    let mut policy: Vec<Did> = (0..10).map(|_| did(1, true, 3.0)).collect();
    for unserved in &mut policy[..5] {
        *unserved = Did {
            route: None,
            score: Some(0),
            cost: Some(0),
            calls: 2,
        };
    }
    results.contestants[0].tallies = vec![tally(&policy, 2)];
    let findings = found(&results, &Options::default());
    assert_close(metric(&findings, "static", "accuracy").value, 0.5, 1e-12);
    assert_close(metric(&findings, "static", "unserved").value, 0.5, 1e-12);
    assert_close(
        metric(&findings, "static", "unserved_failed").value,
        0.5,
        1e-12,
    );
    assert_close(
        metric(&findings, "static", "calls_per_request").value,
        1.5,
        1e-12,
    );
    assert_close(
        metric(&findings, "random-mix:static", "accuracy").value,
        0.9,
        1e-12,
    );
    assert_eq!(
        metric(&findings, "random-mix:static", "unserved").value,
        Some(0.0)
    );
    let note = "static: 5 of 10 requests unserved (50.0 %): failed";
    assert!(
        findings.notes.iter().any(|n| n == note),
        "{:?}",
        findings.notes
    );
}

#[test]
fn the_reasons_of_unserved_requests_are_split() {
    let mut results = two_routes();
    let policy = &mut results.contestants[0].tallies[0];
    policy.unserved = [3, 1, 0];
    let notes = found(&results, &Options::default()).notes;
    let note = "static: 4 of 10 requests unserved (40.0 %): refused by residency 3 (30.0 %), no capable route 1 (10.0 %)";
    assert!(notes.iter().any(|n| n == note), "{notes:?}");
}

#[test]
fn a_policy_that_is_one_route_leads_its_random_mix_by_exactly_nothing() {
    // 7 of 31 requests do not fit the route: shares that no float holds exactly.
    for partial in [false, true] {
        let small: Vec<Did> = (0..31)
            .map(|i| match i {
                0..7 => Did {
                    route: None,
                    score: Some(0),
                    cost: Some(0),
                    calls: 0,
                },
                7 if partial => Did {
                    score: Some(RIGHT / 3),
                    ..did(0, true, 1.0)
                },
                i => did(0, i % 3 == 0, 1.0),
            })
            .collect();
        let large = (0..31).map(|_| did(1, true, 3.0)).collect();
        let results = experiment(
            &["small", "large"],
            &[
                ("fixed", "fixed", small.clone()),
                ("always-small", "always", small),
                ("always-large", "always", large),
            ],
        );
        let findings = found(&results, &Options::default());
        let mix = findings.row("random-mix:fixed").expect("a row");
        assert_eq!(mix.mix.as_ref().expect("a mix").lead.value, Some(0.0));
        for name in ["accuracy", "usd_per_1k", "unserved", "calls_per_request"] {
            assert_eq!(
                metric(&findings, "random-mix:fixed", name).value,
                metric(&findings, "fixed", name).value,
                "{name}"
            );
        }
    }
}

#[test]
fn the_lessons_static_policy_is_inferior_by_the_reference_interval() {
    let fixture: serde_json::Value =
        serde_json::from_str(include_str!("../../fixtures/intervals.json")).expect("valid JSON");
    let entry = &fixture["policy_comparison_on_seed_csv"]["static rules - always large"];
    // The reference used z = 1.96 exactly, which is this level.
    let level = 0.950_004_209_703_559_1;
    let findings = found(
        &lesson(),
        &Options {
            level,
            ..Options::default()
        },
    );
    assert_eq!(findings.baseline.as_deref(), Some("always-large"));
    let paired = &findings.paired[0];
    assert_eq!(
        (paired.n10, paired.n01, paired.policy.as_str()),
        (27, 371, "static")
    );
    let difference = &paired.accuracy_difference;
    assert_eq!((difference.method, difference.n), ("tango", 6000));
    assert_close(
        difference.value,
        entry["diff"].as_f64().expect("diff"),
        1e-12,
    );
    assert_close(
        difference.low,
        entry["tango"][0].as_f64().expect("low"),
        1e-9,
    );
    assert_close(
        difference.high,
        entry["tango"][1].as_f64().expect("high"),
        1e-9,
    );
    assert_eq!(paired.verdict, NonInferiority::Inferior);
    assert_close(paired.usd_per_1k_difference.value, -11.0, 1e-9);

    let wider = found(
        &lesson(),
        &Options {
            margin: 0.07,
            ..Options::default()
        },
    );
    assert_eq!(wider.paired[0].verdict, NonInferiority::NonInferior);
    let between = found(
        &lesson(),
        &Options {
            margin: 0.06,
            ..Options::default()
        },
    );
    assert_eq!(between.paired[0].verdict, NonInferiority::Inconclusive);
}

#[test]
fn replicates_of_recorded_rows_do_not_add_to_n() {
    let once = lesson();
    let mut thrice = once.clone();
    thrice.shared_rows = true;
    thrice.replicates = 3;
    for contestant in &mut thrice.contestants {
        contestant.tallies = vec![contestant.tallies[0].clone(); 3];
        for pairs in &mut contestant.pairs {
            *pairs = vec![pairs[0].clone(); 3];
        }
    }
    let (one, three) = (
        found(&once, &Options::default()),
        found(&thrice, &Options::default()),
    );
    for (a, b) in one.rows.iter().zip(&three.rows) {
        for (x, y) in a.metrics.iter().zip(&b.metrics) {
            assert_eq!((x.n, x.method), (y.n, y.method), "{}", a.policy);
            if let (Some(x), Some(y)) = (x.low, y.low) {
                assert!(
                    (x - y).abs() <= 1e-6 * (1.0 + x.abs()),
                    "{}: {x} {y}",
                    a.policy
                );
            }
        }
    }
    let (a, b) = (
        &one.paired[0].accuracy_difference,
        &three.paired[0].accuracy_difference,
    );
    assert_eq!(b.n, 6000);
    assert_close(b.low, a.low.expect("low"), 1e-9);
    assert_eq!(one.paired[0].verdict, three.paired[0].verdict);

    // The same tallies from a synthetic world are three times the requests.
    thrice.shared_rows = false;
    let synthetic = found(&thrice, &Options::default());
    assert_eq!(metric(&synthetic, "static", "accuracy").n, 18_000);
}

#[test]
fn a_trained_policy_is_judged_over_its_trainings() {
    let replicate = |right: usize| (0..100).map(|i| did(0, i < right, 1.0)).collect::<Vec<_>>();
    let mut results = experiment(
        &["small"],
        &[
            ("eval", "eval", replicate(80)),
            ("always-small", "always", replicate(90)),
        ],
    );
    results.replicates = 3;
    results.contestants[0].trained = true;
    let runs = [80, 90, 85].map(replicate);
    results.contestants[0].tallies = runs.iter().map(|run| tally(run, 1)).collect();
    let base = replicate(90);
    results.contestants[1].tallies = vec![tally(&base, 1); 3];
    results.contestants[0].pairs = vec![runs.iter().map(|run| pair(run, &base)).collect()];
    let findings = found(&results, &Options::default());
    let accuracy = metric(&findings, "eval", "accuracy");
    assert_eq!((accuracy.n, accuracy.method), (3, "t-replicates"));
    assert_close(accuracy.value, 0.85, 1e-12);
    // sd 0.05, t with 2 degrees of freedom 4.302652730 (any printed table).
    assert_close(
        accuracy.low,
        0.85 - 4.302_652_730 * 0.05 / 3.0_f64.sqrt(),
        1e-9,
    );
    let difference = &findings.paired[0].accuracy_difference;
    assert_eq!((difference.n, difference.method), (3, "t-replicates"));
    assert_close(difference.value, -0.05, 1e-12);
    // Its cost is the same in every training, which is no proof of anything: the pooled interval stands.
    assert_eq!(metric(&findings, "eval", "usd_per_1k").method, "normal");
    // A control that learnt nothing is pooled.
    assert_eq!(metric(&findings, "always-small", "accuracy").n, 300);

    results.replicates = 1;
    results.contestants[0].tallies.truncate(1);
    results.contestants[0].pairs[0].truncate(1);
    let single = found(&results, &Options::default());
    assert_eq!(metric(&single, "eval", "accuracy").method, "wilson");
    assert!(
        single
            .notes
            .iter()
            .any(|note| note.starts_with("eval: trained once")),
        "{:?}",
        single.notes
    );
}

/// A policy of one route in three replicates of the same 100 rows, right on so many of them.
fn three_draws_on_the_same_rows() -> Results {
    let replicate = |right: usize| (0..100).map(|i| did(0, i < right, 1.0)).collect::<Vec<_>>();
    let runs = [80, 90, 85].map(replicate);
    let base = replicate(90);
    let mut results = experiment(
        &["small"],
        &[
            ("canary", "canary", runs[0].clone()),
            ("always-small", "always", base.clone()),
        ],
    );
    results.replicates = 3;
    results.shared_rows = true;
    results.contestants[0].tallies = runs.iter().map(|run| tally(run, 1)).collect();
    results.contestants[1].tallies = vec![tally(&base, 1); 3];
    results.contestants[0].pairs = vec![runs.iter().map(|run| pair(run, &base)).collect()];
    results
}

#[test]
fn draws_shared_by_many_recorded_requests_widen_the_interval() {
    let mut results = three_draws_on_the_same_rows();
    let plain = found(&results, &Options::default());
    assert_eq!(metric(&plain, "canary", "accuracy").method, "wilson");
    results.contestants[0].sticks_to = Some("user");
    let sticky = found(&results, &Options::default());
    results.contestants[0].sticks_to = None;
    results.contestants[0].trained = true;
    let trained = found(&results, &Options::default());
    for findings in [&sticky, &trained] {
        let accuracy = metric(findings, "canary", "accuracy");
        assert_eq!((accuracy.n, accuracy.method), (100, "rows+replicates"));
        assert_close(accuracy.value, 0.85, 1e-12);
        // Wilson's limits of 85 of 100, and 4.30265·0.05/√3 from the three replicates.
        let rows = routelab::stats::wilson(85, 100, z_two_sided(0.95)).expect("limits");
        let luck = 4.302_652_730 * 0.05 / 3.0_f64.sqrt();
        let low = 0.85 - ((0.85 - rows.low).powi(2) + luck * luck).sqrt();
        assert_close(accuracy.low, low, 1e-9);
        let high = 0.85 + ((rows.high - 0.85).powi(2) + luck * luck).sqrt();
        assert_close(accuracy.high, high, 1e-9);
        let difference = &findings.paired[0].accuracy_difference;
        assert_eq!((difference.n, difference.method), (100, "rows+replicates"));
        let narrow = &plain.paired[0].accuracy_difference;
        assert_close(
            difference.low,
            -0.05 - ((-0.05 - narrow.low.expect("low")).powi(2) + luck * luck).sqrt(),
            1e-9,
        );
        // What is the same in every replicate has no such spread.
        assert_eq!(metric(findings, "canary", "usd_per_1k").method, "normal");
        let why = &found(
            &results,
            &Options {
                require: vec!["canary.accuracy>=0.8".to_owned()],
                ..Options::default()
            },
        )
        .requirements[0]
            .outcome;
        assert!(
            matches!(why, Outcome::Inconclusive { why, .. } if why.contains("as many times the replicates")),
            "{why:?}"
        );
    }
    // Requests of their own make replicates the observations.
    results.shared_rows = false;
    results.contestants[0].trained = false;
    results.contestants[0].sticks_to = Some("user");
    let own = found(&results, &Options::default());
    let accuracy = metric(&own, "canary", "accuracy");
    assert_eq!((accuracy.n, accuracy.method), (3, "t-replicates"));
}

#[test]
fn a_single_draw_is_noted_on_recorded_rows_too() {
    for shared_rows in [false, true] {
        let mut results = two_routes();
        results.shared_rows = shared_rows;
        results.contestants[0].trained = true;
        results.contestants[0].sticks_to = Some("user");
        let notes = found(&results, &Options::default()).notes;
        for start in [
            "static: trained once: intervals hold for this one training",
            "static: one draw per user: intervals hold for this one draw, use more replicates",
        ] {
            assert!(notes.iter().any(|n| n.starts_with(start)), "{notes:?}");
        }
        results.replicates = 2;
        for contestant in &mut results.contestants {
            contestant.tallies = vec![contestant.tallies[0].clone(); 2];
        }
        let notes = found(&results, &Options::default()).notes;
        assert!(!notes.iter().any(|n| n.contains("once:")), "{notes:?}");
        assert!(!notes.iter().any(|n| n.contains("one draw")), "{notes:?}");
    }
}

#[test]
fn unknown_costs_are_unknown_and_not_zero() {
    let unknown = |route, right| Did {
        cost: None,
        ..did(route, right, 0.0)
    };
    let mut all: Vec<Did> = (0..200).map(|i| unknown(0, i % 10 != 0)).collect();
    let large: Vec<Did> = (0..200).map(|i| did(0, i % 10 != 0, 2.0)).collect();
    let none = found(
        &experiment(
            &["small"],
            &[
                ("p", "static", all.clone()),
                ("always-small", "always", large.clone()),
            ],
        ),
        &Options::default(),
    );
    for name in ["usd_per_1k", "usd_per_correct"] {
        assert_eq!(*metric(&none, "p", name), Estimate::unknown(0.95), "{name}");
    }
    assert_eq!(
        none.paired[0].usd_per_1k_difference,
        Estimate::unknown(0.95)
    );
    assert!(
        none.notes.contains(&"p: cost is unknown".to_owned()),
        "{:?}",
        none.notes
    );
    assert!(
        none.summary.contains("their cost is unknown"),
        "{}",
        none.summary
    );
    for renderer in RENDERERS {
        let text = (renderer.render)(&none);
        assert!(!text.contains("NaN"), "{}: {text}", renderer.name);
    }

    for known in &mut all[..50] {
        known.cost = Some(USD);
    }
    let partly = found(
        &experiment(
            &["small"],
            &[("p", "static", all), ("always-small", "always", large)],
        ),
        &Options::default(),
    );
    let cost = metric(&partly, "p", "usd_per_1k");
    assert_eq!((cost.n, cost.value), (50, Some(1000.0)));
    assert!(
        partly
            .notes
            .contains(&"p: cost is known for 50 of 200 requests and estimated on these".to_owned()),
        "{:?}",
        partly.notes
    );
}

#[test]
fn partial_credit_gets_normal_intervals() {
    let half = |i: usize| Did {
        score: Some(RIGHT / 2 * (i as i128 % 3)),
        ..did(0, true, 1.0)
    };
    let policy: Vec<Did> = (0..300).map(half).collect();
    let base: Vec<Did> = (0..300).map(|i| half(i + 1)).collect();
    let findings = found(
        &experiment(
            &["small"],
            &[("p", "static", policy), ("always-small", "always", base)],
        ),
        &Options::default(),
    );
    let accuracy = metric(&findings, "p", "accuracy");
    assert_eq!((accuracy.method, accuracy.value), ("normal", Some(0.5)));
    // Scores 0, ½, 1 in equal numbers: variance (1/6)·n/(n−1).
    let half_width = z_two_sided(0.95) * (1.0_f64 / 6.0 / 299.0).sqrt();
    assert_close(accuracy.high, 0.5 + half_width, 1e-9);
    let difference = &findings.paired[0].accuracy_difference;
    assert_eq!(
        (difference.method, difference.value),
        ("paired-normal", Some(0.0))
    );
}

#[test]
fn usd_per_correct_is_cost_over_right_answers() {
    let findings = found(&two_routes(), &Options::default());
    // 10 requests at 1 USD, 6 right.
    let ratio = metric(&findings, "always-small", "usd_per_correct");
    assert_close(ratio.value, 10.0 / 6.0, 1e-12);
    // Residuals 1 − (10/6)·y: −2/3 six times, 1 four times; Σ² = 6·4/9 + 4 = 20/3; over 9, over ȳ² = 0.36.
    let se = (20.0_f64 / 3.0 / 9.0 / 0.36 / 10.0).sqrt();
    assert_close(ratio.high, 10.0 / 6.0 + z_two_sided(0.95) * se, 1e-9);
    assert_eq!(ratio.method, "ratio");
}

#[test]
fn a_contestant_that_cannot_be_computed_says_why() {
    let mut results = two_routes();
    let mut oracle = results.contestants[0].clone();
    oracle.name = "oracle".to_owned();
    oracle.kind = "oracle";
    oracle.control = true;
    oracle.unavailable = Some("large has no grades".to_owned());
    oracle.tallies.clear();
    for pairs in &mut oracle.pairs {
        pairs.clear();
    }
    results.contestants.push(oracle);
    let findings = found(&results, &Options::default());
    assert_eq!(
        *metric(&findings, "oracle", "accuracy"),
        Estimate::unknown(0.95)
    );
    assert!(
        findings
            .notes
            .contains(&"oracle: not available: large has no grades".to_owned())
    );
}

#[test]
fn what_nobody_graded_is_counted_and_left_out() {
    let mut all: Vec<Did> = (0..100).map(|i| did(0, i % 2 == 0, 1.0)).collect();
    for ungraded in &mut all[..10] {
        ungraded.score = None;
    }
    let base: Vec<Did> = (0..100).map(|_| did(0, true, 1.0)).collect();
    let mut results = experiment(
        &["small"],
        &[("p", "cascade", all), ("always-small", "always", base)],
    );
    // Five more requests on which a verifier met an ungraded answer, and a verifier that looked at 40
    // right answers (30 accepted) and 20 wrong ones (5 accepted).
    let tally = &mut results.contestants[0].tallies[0];
    tally.requests += 5;
    tally.undetermined = 5;
    (tally.verified_right, tally.accepted_right) = (40, 30);
    (tally.verified_wrong, tally.accepted_wrong) = (20, 5);
    let findings = found(&results, &Options::default());
    let accuracy = metric(&findings, "p", "accuracy");
    assert_eq!((accuracy.n, accuracy.value), (90, Some(0.5)));
    assert_eq!(
        metric(&findings, "p", "verifier_false_accept").value,
        Some(0.25)
    );
    assert_eq!(
        metric(&findings, "p", "verifier_false_reject").value,
        Some(0.25)
    );
    assert_eq!(metric(&findings, "p", "unserved").n, 100);
    assert_close(metric(&findings, "p", "missing").value, 10.0 / 105.0, 1e-12);
    assert_eq!(findings.paired[0].accuracy_difference.n, 90);
    for note in [
        "p: 5 of 105 requests are undetermined (an answer that decides what comes next has no grade) and left out; the others are no random sample of all",
        "p: 10 of 105 final answers have no grade and are left out of accuracy; the others are no random sample of all",
    ] {
        assert!(
            findings.notes.iter().any(|n| n == note),
            "{:?}",
            findings.notes
        );
    }
}
