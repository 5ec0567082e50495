//! Off-policy estimates against the Open Bandit Pipeline's, on drawn and on recorded logs.

use std::collections::BTreeMap;
use std::io::Read as _;

use routelab::stats::off_policy::{
    Choice, Diagnostics, Estimator, Logged, Refusal, Support, evaluate,
};
use routelab::stats::{Bootstrap, bootstrap, z_two_sided};
use serde_json::Value;

use crate::given::{reference, shared};
use crate::reference_statistics::evidence::estimator;

/// What an unsupported log is called in the reference data.
const REFUSED: &str = "obd_bts_women_to_random";

/// A table's columns by name.
fn table(path: &str) -> Option<BTreeMap<String, Vec<f64>>> {
    let bytes = shared(&format!("data/ope/{path}"))?;
    let mut text = String::new();
    if path.ends_with(".gz") {
        let mut packed = flate2::read::GzDecoder::new(bytes.as_slice());
        packed.read_to_string(&mut text).unwrap();
    } else {
        text = String::from_utf8(bytes).unwrap();
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = reader
        .headers()
        .unwrap()
        .iter()
        .map(str::to_owned)
        .collect();
    let mut columns = vec![Vec::new(); names.len()];
    for record in reader.records() {
        for (column, cell) in columns.iter_mut().zip(record.unwrap().iter()) {
            column.push(cell.parse().unwrap());
        }
    }
    Some(names.into_iter().zip(columns).collect())
}

/// The rows of a drawn log, which holds target and predictions of every action.
fn drawn(data: &BTreeMap<String, Vec<f64>>) -> Vec<Logged> {
    let actions = data.keys().filter(|name| name.starts_with("pi_e_")).count();
    let of = |prefix: &str, action: usize, i: usize| data[&format!("{prefix}_{action}")][i];
    (0..data["action"].len())
        .map(|i| {
            let action = data["action"][i] as usize;
            Logged {
                reward: data["reward"][i],
                propensity: data["propensity"][i],
                target: of("pi_e", action, i),
                predicted: of("q_hat", action, i),
                predicted_target: (0..actions)
                    .map(|a| of("pi_e", a, i) * of("q_hat", a, i))
                    .sum(),
            }
        })
        .collect()
}

/// The rows of a recorded log: the target depends on action and position, and the model is a table of the
/// log's own means, drawn towards `prior` as by `strength` rows.
fn recorded(
    data: &BTreeMap<String, Vec<f64>>,
    target: &BTreeMap<String, Vec<f64>>,
    actions: usize,
    (prior, strength): (f64, f64),
) -> Vec<Logged> {
    let cell = |action: f64, position: f64| (action as usize, position as usize);
    let policy: BTreeMap<(usize, usize), f64> = (0..target["pi_e"].len())
        .map(|i| {
            (
                cell(target["action"][i], target["position"][i]),
                target["pi_e"][i],
            )
        })
        .collect();
    let mut seen: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    let rows = data["action"].len();
    let place = |i: usize| cell(data["action"][i], data["position"][i]);
    for (i, reward) in data["reward"].iter().enumerate() {
        let (clicks, n) = seen.entry(place(i)).or_default();
        *clicks += reward;
        *n += 1.0;
    }
    let model = |cell| {
        let (clicks, n) = seen.get(&cell).copied().unwrap_or_default();
        (clicks + prior * strength) / (n + strength)
    };
    (0..rows)
        .map(|i| {
            let (action, position) = place(i);
            Logged {
                reward: data["reward"][i],
                propensity: data["propensity"][i],
                target: policy[&(action, position)],
                predicted: model((action, position)),
                predicted_target: (0..actions)
                    .map(|a| policy[&(a, position)] * model((a, position)))
                    .sum(),
            }
        })
        .collect()
}

/// `(clicks + 0.0046*50)/(n + 50)`: the prior and the strength in the description of the model.
fn prior_and_strength(description: &str) -> (f64, f64) {
    let inside = description.split("clicks + ").nth(1).unwrap();
    let (prior, rest) = inside.split_once('*').unwrap();
    let (strength, _) = rest.split_once(')').unwrap();
    (prior.parse().unwrap(), strength.parse().unwrap())
}

fn rows_of(case: &Value) -> Option<Vec<Logged>> {
    let data = table(case["file"].as_str().unwrap())?;
    let Some(target) = case["target_policy_file"].as_str() else {
        return Some(drawn(&data));
    };
    let actions = case["n_actions"].as_u64().unwrap() as usize;
    let model = prior_and_strength(case["q_hat"].as_str().unwrap());
    Some(recorded(&data, &table(target)?, actions, model))
}

fn near(what: &str, got: f64, want: &Value, tolerance: f64) {
    let want = want.as_f64().unwrap_or_else(|| panic!("{what}: {want}"));
    // Not "greater than": a NaN has to fail.
    let fine = (got - want).abs() <= tolerance;
    assert!(fine, "{what}: {got:e} instead of {want:e}");
}

fn limits(what: &str, low: f64, high: f64, want: &Value, tolerance: f64) {
    near(&format!("{what}, low"), low, &want[0], tolerance);
    near(&format!("{what}, high"), high, &want[1], tolerance);
}

#[test]
fn off_policy_estimates_are_those_of_the_open_bandit_pipeline() {
    let Some(expected) = reference("data/ope/expected.json") else {
        return;
    };
    let draws = Bootstrap {
        seed: 2026,
        replicates: 2_000,
    };
    for (name, case) in expected["cases"].as_object().unwrap() {
        let Some(rows) = rows_of(case) else { return };
        assert_eq!(rows.len() as u64, case["n"].as_u64().unwrap(), "{name}");
        for (key, want) in case["estimators"].as_object().unwrap() {
            let what = format!("{name}: {key}");
            let one = estimator(key).unwrap_or_else(|| panic!("{what} is not implemented"));
            let value = one.value(&rows).unwrap();
            let error = one.standard_error_of_terms(&rows).unwrap();
            for (field, want) in want.as_object().unwrap() {
                let what = format!("{what}: {field}");
                match field.as_str() {
                    "value" => near(&what, value, want, 1e-9),
                    "se_iid" => near(&what, error, want, 1e-9),
                    "ci95_normal" => {
                        let half = z_two_sided(0.95) * error;
                        limits(&what, value - half, value + half, want, 1e-8);
                    }
                    "obp_bootstrap_ci95" => {
                        // Means of the terms, as the pipeline draws them.
                        let terms = one.terms(&rows);
                        let values = draws.values(terms.len(), |times| {
                            let sum: f64 = times
                                .iter()
                                .zip(&terms)
                                .map(|(times, term)| f64::from(*times) * term)
                                .sum();
                            sum / terms.len() as f64
                        });
                        let got = bootstrap::percentile(&values, 0.95).unwrap();
                        let width = want[1].as_f64().unwrap() - want[0].as_f64().unwrap();
                        limits(&what, got.low, got.high, want, width / 10.0);
                    }
                    _ => panic!("{what}: not implemented"),
                }
            }
        }
        let seen = Diagnostics::of(&rows).unwrap();
        for (key, want) in case["diagnostics"].as_object().unwrap() {
            let got = match key.as_str() {
                "ess" => seen.effective_size,
                "ess_fraction" => seen.effective_share,
                "mean_weight" => seen.mean_weight,
                "max_weight" => seen.weight_max,
                "p99_weight" => seen.weight_p99,
                "share_zero_weight" => seen.share_zero,
                "min_pscore" => seen.propensity_min,
                _ => panic!("{name}: the diagnostic {key} is not implemented"),
            };
            near(&format!("{name}: {key}"), got, want, 1e-9);
        }
        let rewards: f64 = rows.iter().map(|row| row.reward).sum();
        let naive = rewards / rows.len() as f64;
        near(
            &format!("{name}: naive"),
            naive,
            &case["naive_mean_logged_reward"],
            1e-9,
        );
    }
}

#[test]
fn a_log_without_support_is_refused_and_the_others_are_not() {
    let Some(expected) = reference("data/ope/expected.json") else {
        return;
    };
    for (name, case) in expected["cases"].as_object().unwrap() {
        let Some(rows) = rows_of(case) else { return };
        for (key, _) in case["estimators"].as_object().unwrap() {
            let one = estimator(key).unwrap();
            let got = evaluate(&rows, one, &Support::default());
            if name == REFUSED {
                match got {
                    Err(Refusal::EffectiveSize { size, .. }) => assert!(size < 3.0),
                    other => panic!("{name}: {key}: {other:?}"),
                }
            } else {
                let got = got.unwrap_or_else(|refusal| panic!("{name}: {key}: {refusal}"));
                // The truth is known of drawn logs. These estimators are consistent for it, so it lies
                // within four standard errors.
                let consistent = matches!(
                    one,
                    Estimator::Ips | Estimator::Snips | Estimator::Dr | Estimator::Sndr
                );
                if let (Some(truth), true) = (case["ground_truth_value"].as_f64(), consistent) {
                    let error = got.standard_error.unwrap();
                    assert!(
                        (got.value - truth).abs() < 4.0 * error,
                        "{name}: {key}: {got:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_target_that_only_takes_what_the_logger_never_took_is_refused() {
    // The recorded logs' random logger, had it left out one item: the full table shows it.
    let uniform = vec![1.0 / 33.0; 34];
    let choices: Vec<Choice> = (0..500)
        .map(|i| {
            let mut behaviour = uniform.clone();
            behaviour[33] = 0.0;
            Choice {
                action: i % 33,
                reward: 0.0,
                behaviour,
                target: vec![1.0 / 34.0; 34],
                predicted: Vec::new(),
            }
        })
        .collect();
    match Choice::logged(&choices, &Support::default()) {
        Err(Refusal::Unsupported { row: 0, share }) => {
            assert!((share - 1.0 / 34.0).abs() < 1e-12);
        }
        other => panic!("{other:?}"),
    }
}
