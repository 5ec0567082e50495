//! What has a closed form, and what has to be refused. Values of other programs: `tests/suite/off_policy.rs`.

use super::*;
use proptest::prelude::*;

const ALL: [Estimator; 10] = [
    Estimator::Ips,
    Estimator::ClippedIps { tau: 2.0 },
    Estimator::Snips,
    Estimator::Dm,
    Estimator::Dr,
    Estimator::ClippedDr { tau: 2.0 },
    Estimator::Sndr,
    Estimator::SwitchDr { tau: 2.0 },
    Estimator::Dros { lambda: 5.0 },
    Estimator::SubGaussianIps { lambda: 0.1 },
];

fn row(reward: f64, propensity: f64, target: f64) -> Logged {
    Logged {
        reward,
        propensity,
        target,
        predicted: 0.0,
        predicted_target: 0.0,
    }
}

/// A log in which the logger tosses a fair coin between two actions, and so does the target.
fn fair(n: u32) -> Vec<Logged> {
    (0..n)
        .map(|i| row(f64::from(i % 3 == 0), 0.5, 0.5))
        .collect()
}

#[test]
fn the_loggers_own_policy_is_worth_its_mean_reward() {
    let rows = fair(90);
    for estimator in [
        Estimator::Ips,
        Estimator::Snips,
        Estimator::Dr,
        Estimator::Sndr,
    ] {
        let got = evaluate(&rows, estimator, &Support::default()).unwrap();
        assert!((got.value - 1.0 / 3.0).abs() < 1e-15, "{estimator:?}");
        // sd of 30 ones in 90, divisor n − 1; the delta method divides by n.
        let variance = (1.0 / 3.0) * (2.0 / 3.0) / 89.0;
        assert!((got.standard_error.unwrap() / f64::sqrt(variance) - 1.0).abs() < 0.006);
    }
    let seen = Diagnostics::of(&rows).unwrap();
    assert_eq!(
        (seen.effective_size, seen.overlap, seen.share_zero),
        (90.0, 1.0, 0.0)
    );
}

#[test]
fn a_perfect_model_leaves_nothing_to_correct() {
    let rows: Vec<Logged> = (0..200)
        .map(|i| Logged {
            reward: f64::from(i % 7),
            propensity: 0.25,
            target: f64::from(i % 2) * 0.5,
            predicted: f64::from(i % 7),
            predicted_target: 0.4,
        })
        .collect();
    for estimator in ALL.into_iter().filter(|one| one.uses_model()) {
        assert!(
            (estimator.value(&rows).unwrap() - 0.4).abs() < 1e-15,
            "{estimator:?}"
        );
    }
}

#[test]
fn the_delta_method_agrees_with_drawing_rows_anew() {
    let rows: Vec<Logged> = (0..600_u32)
        .map(|i| Logged {
            predicted: 0.5,
            predicted_target: 0.3 + f64::from(i % 11) / 30.0,
            ..row(
                f64::from(i * 7919 % 13 < 5),
                [0.2, 0.3, 0.5][(i % 3) as usize],
                [0.6, 0.3, 0.1][(i % 3) as usize],
            )
        })
        .collect();
    let draws = Bootstrap {
        seed: 5,
        replicates: 4_000,
    };
    for estimator in ALL {
        let limits = estimator.bootstrap(&rows, 0.95, &draws).unwrap();
        let error = estimator.standard_error(&rows).unwrap();
        let width = (limits.high - limits.low) / (2.0 * 1.96 * error);
        assert!((width - 1.0).abs() < 0.05, "{estimator:?}: {width}");
    }
}

#[test]
fn parameters_outside_their_range_are_refused() {
    let rows = fair(60);
    for wrong in [
        Estimator::ClippedIps { tau: 0.0 },
        Estimator::ClippedDr { tau: f64::NAN },
        Estimator::SwitchDr { tau: -1.0 },
        Estimator::Dros { lambda: -0.1 },
        Estimator::SubGaussianIps { lambda: 1.1 },
    ] {
        let refused = evaluate(&rows, wrong, &Support::default()).unwrap_err();
        assert_eq!(
            refused,
            Refusal::Parameter {
                estimator: wrong.name()
            }
        );
        assert_eq!(wrong.value(&rows), None);
    }
}

#[test]
fn impossible_probabilities_are_refused_where_they_stand() {
    for wrong in [0.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
        let mut rows = fair(60);
        rows[7].propensity = wrong;
        match evaluate(&rows, Estimator::Ips, &Support::default()) {
            Err(Refusal::Propensity { row: 7, .. }) => {}
            other => panic!("{wrong}: {other:?}"),
        }
    }
    let mut rows = fair(60);
    rows[3].target = 1.5;
    let refused = evaluate(&rows, Estimator::Ips, &Support::default()).unwrap_err();
    assert_eq!(refused, Refusal::Target { row: 3, value: 1.5 });
    rows[3] = row(f64::NAN, 0.5, 0.5);
    let refused = evaluate(&rows, Estimator::Ips, &Support::default()).unwrap_err();
    assert_eq!(refused, Refusal::NotANumber { row: 3 });
    let empty = evaluate(&[], Estimator::Dm, &Support::default()).unwrap_err();
    assert_eq!(empty, Refusal::Empty);
}

#[test]
fn a_logger_that_never_tried_anything_else_is_refused() {
    let certain: Vec<Logged> = (0..100).map(|_| row(1.0, 1.0, 1.0)).collect();
    let refused = evaluate(&certain, Estimator::Ips, &Support::default()).unwrap_err();
    assert_eq!(refused, Refusal::Deterministic);
    // Certain for half of the requests only: on these the target's other actions have no support.
    let mut half = fair(100);
    half[..50].fill(row(1.0, 1.0, 0.5));
    match evaluate(&half, Estimator::Snips, &Support::default()) {
        Err(Refusal::Unsupported { row: 0, share }) => assert!((share - 0.25).abs() < 1e-12),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fewer_than_thirty_rows_worth_of_weight_are_refused() {
    let estimate = |rows: &[Logged]| evaluate(rows, Estimator::Snips, &Support::default());
    assert!(estimate(&fair(30)).is_ok());
    match estimate(&fair(29)) {
        Err(Refusal::EffectiveSize { n: 29, min, .. }) => assert_eq!(min, EFFECTIVE_SIZE_MIN),
        other => panic!("{other:?}"),
    }
    // One weight of a million among a thousand of one.
    let mut uneven = fair(1_000);
    uneven[0].propensity = 5e-7;
    assert!(matches!(
        estimate(&uneven),
        Err(Refusal::EffectiveSize { .. })
    ));
}

#[test]
fn weights_that_do_not_average_one_are_refused() {
    // The logger says 0.5 and the target 0.25 of every action it ever took: the rest is elsewhere.
    let rows: Vec<Logged> = (0..100)
        .map(|i| row(1.0, 0.5, if i % 2 == 0 { 0.25 } else { 0.26 }))
        .collect();
    match evaluate(&rows, Estimator::Dr, &Support::default()) {
        Err(Refusal::MeanWeight { mean, .. }) => assert!((mean - 0.51).abs() < 1e-12),
        other => panic!("{other:?}"),
    }
}

fn choice(action: usize, behaviour: [f64; 3], target: [f64; 3]) -> Choice {
    Choice {
        action,
        reward: 1.0,
        behaviour: behaviour.to_vec(),
        target: target.to_vec(),
        predicted: vec![0.5; 3],
    }
}

#[test]
fn full_probabilities_show_where_support_is_missing() {
    let support = Support::default();
    let good = choice(0, [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]);
    let bad = choice(0, [0.5, 0.5, 0.0], [0.1, 0.1, 0.8]);
    let rows = Choice::logged(&vec![good.clone(); 4], &support).unwrap();
    assert!((rows[0].predicted_target - 0.5).abs() < 1e-15);
    assert_eq!(rows[0].weight(), 0.2);
    match Choice::logged(&[good.clone(), bad.clone()], &support) {
        Err(Refusal::Unsupported { row: 1, share }) => assert!((share - 0.4).abs() < 1e-12),
        other => panic!("{other:?}"),
    }
    // The logger's zero is no loss where the target never goes there either.
    let spared = choice(0, [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]);
    assert!(Choice::logged(&[good.clone(), spared], &support).is_ok());
    // Below a floor the logger's probabilities are not believed.
    let floor = Support {
        floor: 0.25,
        ..support
    };
    assert!(matches!(
        Choice::logged(std::slice::from_ref(&good), &floor),
        Err(Refusal::Unsupported { row: 0, .. })
    ));
}

#[test]
fn rows_of_probabilities_have_to_be_whole() {
    let support = Support::default();
    let logged = |one: Choice| Choice::logged(&[one], &support).unwrap_err();
    assert!(matches!(
        logged(choice(0, [0.5, 0.3, 0.1], [0.1, 0.1, 0.8])),
        Refusal::Sum {
            row: 0,
            whose: "behaviour",
            ..
        }
    ));
    assert!(matches!(
        logged(choice(0, [0.5, 0.3, 0.2], [0.2, 0.1, 0.8])),
        Refusal::Sum {
            row: 0,
            whose: "target",
            ..
        }
    ));
    assert!(matches!(
        logged(choice(0, [0.5, 0.7, -0.2], [0.1, 0.1, 0.8])),
        Refusal::Propensity { row: 0, .. }
    ));
    assert!(matches!(
        logged(choice(0, [0.5, 0.3, 0.2], [0.1, f64::NAN, 0.8])),
        Refusal::Target { row: 0, .. }
    ));
    assert_eq!(
        logged(choice(3, [0.5, 0.3, 0.2], [0.1, 0.1, 0.8])),
        Refusal::Shape { row: 0 }
    );
    assert_eq!(
        logged(choice(0, [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])),
        Refusal::Deterministic
    );
    let mut short = choice(0, [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]);
    short.predicted.pop();
    assert_eq!(logged(short), Refusal::Shape { row: 0 });
    assert_eq!(Choice::logged(&[], &support), Err(Refusal::Empty));
}

#[test]
fn a_task_on_which_the_policies_differ_is_worth_few_rows() {
    let mut rows = fair(100);
    let tasks: Vec<u8> = (0..100).map(|i| u8::from(i >= 50)).collect();
    for one in &mut rows[50..99] {
        one.target = 0.0;
    }
    let sizes = effective_size_by_task(&rows, &tasks);
    assert_eq!(sizes[&0], 50.0);
    assert_eq!(sizes[&1], 1.0);
}

#[test]
fn every_refusal_says_why() {
    let said = Refusal::EffectiveSize {
        size: 2.08,
        min: 30.0,
        n: 10_000,
    };
    assert_eq!(
        said.to_string(),
        "the 10000 rows are worth 2.1 of equal weight; at least 30 are needed"
    );
}

proptest! {
    #[test]
    fn limits_of_the_parameters_are_the_plain_estimators(
        raw in prop::collection::vec((0.0..1.0f64, 0.05..1.0f64, 0.0..1.0f64, 0.0..1.0f64), 2..40),
    ) {
        let rows: Vec<Logged> = raw
            .iter()
            .map(|&(reward, propensity, target, predicted)| Logged {
                reward, propensity, target, predicted, predicted_target: predicted / 2.0,
            })
            .collect();
        let value = |estimator: Estimator| estimator.value(&rows).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let infinity = f64::INFINITY;
        for (one, other) in [
            (Estimator::ClippedIps { tau: infinity }, Estimator::Ips),
            (Estimator::SubGaussianIps { lambda: 0.0 }, Estimator::Ips),
            (Estimator::SwitchDr { tau: infinity }, Estimator::Dr),
            (Estimator::Dros { lambda: infinity }, Estimator::Dr),
            (Estimator::Dros { lambda: 1e12 }, Estimator::Dr),
            (Estimator::Dros { lambda: 0.0 }, Estimator::Dm),
        ] {
            prop_assert!(near(value(one), value(other)), "{:?}", one);
        }
        // SNIPS is a weighted mean of rewards.
        let (least, most) = raw.iter().fold((1.0_f64, 0.0_f64), |(a, b), r| (a.min(r.0), b.max(r.0)));
        let snips = value(Estimator::Snips);
        prop_assert!(snips >= least - 1e-12 && snips <= most + 1e-12);
        // Terms average to the estimate, self-normalised or not.
        for estimator in ALL {
            let terms = estimator.terms(&rows);
            prop_assert!(near(terms.iter().sum::<f64>() / terms.len() as f64, value(estimator)));
        }
    }
}

#[test]
fn estimators_that_need_a_model_have_no_value_without_one() {
    let choices: Vec<Choice> = (0..60)
        .map(|i| Choice {
            action: i % 2,
            reward: f64::from(u8::from(i % 3 == 0)),
            behaviour: vec![0.5, 0.5],
            target: vec![0.5, 0.5],
            predicted: Vec::new(),
        })
        .collect();
    let rows = Choice::logged(&choices, &Support::default()).unwrap();
    let of = |estimator: Estimator| evaluate(&rows, estimator, &Support::default());
    assert!((of(Estimator::Ips).unwrap().value - 1.0 / 3.0).abs() < 1e-12);
    assert!(of(Estimator::Snips).is_ok());
    for estimator in [Estimator::Dm, Estimator::Dr, Estimator::Sndr] {
        assert_eq!(of(estimator).unwrap_err(), Refusal::NotFinite);
    }
}
