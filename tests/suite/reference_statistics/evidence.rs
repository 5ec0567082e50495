//! Several tests at once, and logged choices.

use routelab::stats::multiplicity::{benjamini_hochberg, holm};
use routelab::stats::off_policy::{Choice, Diagnostics, Estimator, Logged};
use serde_json::Value;

use super::{Check, Family, Vectors, number};

pub(super) const FAMILIES: &[(&str, Family)] = &[("holm", adjusted), ("ope", off_policy)];

fn numbers(value: &Value) -> Vec<f64> {
    let all = value.as_array().expect("a list of numbers");
    all.iter()
        .map(|one| number(one).expect("a number"))
        .collect()
}

/// One table of p-values, or a list of such tables.
fn adjusted(_: &Vectors<'_>, value: &Value, check: &mut Check) {
    match value.as_array() {
        Some(tables) => tables.iter().for_each(|table| adjusted_table(table, check)),
        None => adjusted_table(value, check),
    }
}

fn adjusted_table(value: &Value, check: &mut Check) {
    let p = numbers(&value["p"]);
    for (key, want) in value.as_object().expect("a table") {
        let got = match key.as_str() {
            "p" | "note" => continue,
            "adjusted" | "holm" => holm(&p),
            "bh" => benjamini_hochberg(&p),
            _ => {
                check.unknown(key);
                continue;
            }
        };
        let got = got.expect("the p-values are probabilities");
        let want = want.as_array().expect("a list");
        check.same(
            &format!("{key}: length"),
            got.len(),
            &Value::from(want.len()),
        );
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            // The file names no tolerance for these: a few products, exact but for rounding.
            check.near(&format!("{key}[{i}]"), *got, want, 1e-12);
        }
    }
}

fn off_policy(vectors: &Vectors<'_>, value: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("ope");
    for (name, set) in value.as_object().expect("sets of rows by name") {
        let rows: Vec<Logged> = set["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| {
                let choice = Choice {
                    action: row["action"].as_u64().expect("an action") as usize,
                    reward: number(&row["reward"]).expect("a reward"),
                    behaviour: numbers(&row["behavior"]),
                    target: numbers(&row["target"]),
                    predicted: numbers(&row["q_hat"]),
                };
                choice.reduced().expect("lists of one length")
            })
            .collect();
        for (key, want) in set["expected"].as_object().expect("expected values") {
            let what = format!("{name}: {key}");
            match computed(key, &rows) {
                Some(got) => check.near(&what, got.unwrap_or(f64::NAN), want, tolerance),
                None => check.unknown(&what),
            }
        }
        for key in set.as_object().expect("a set").keys() {
            if !["rows", "expected", "obp_agrees", "note"].contains(&key.as_str()) {
                check.unknown(&format!("{name}: {key}"));
            }
        }
    }
}

/// What the file calls `key`: `None` for a name that means nothing here.
fn computed(key: &str, rows: &[Logged]) -> Option<Option<f64>> {
    let diagnostics = Diagnostics::of(rows)?;
    Some(match key {
        "ess" => Some(diagnostics.effective_size),
        "ess_ratio" => Some(diagnostics.effective_share),
        "mean_w" => Some(diagnostics.mean_weight),
        "max_w" => Some(diagnostics.weight_max),
        _ => match key.strip_prefix("se_") {
            Some(error) => match error.strip_suffix("_delta") {
                Some(name) => estimator(name)?.standard_error(rows),
                None => estimator(error)?.standard_error_of_terms(rows),
            },
            None => estimator(key)?.value(rows),
        },
    })
}

/// An estimator by the name it has in the reference files: `ips`, `switch_dr_1.2`, `dros_lambda5`,
/// `dr_clip10`, …
pub(crate) fn estimator(key: &str) -> Option<Estimator> {
    let plain = match key {
        "ips" => Some(Estimator::Ips),
        "snips" => Some(Estimator::Snips),
        "dm" => Some(Estimator::Dm),
        "dr" => Some(Estimator::Dr),
        "sndr" => Some(Estimator::Sndr),
        _ => None,
    };
    let with = |prefix: &str| key.strip_prefix(prefix)?.parse::<f64>().ok();
    let tau = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| with(prefix));
    plain
        .or_else(|| tau(&["clipped_ips_", "ips_clip"]).map(|tau| Estimator::ClippedIps { tau }))
        .or_else(|| tau(&["clipped_dr_", "dr_clip"]).map(|tau| Estimator::ClippedDr { tau }))
        .or_else(|| tau(&["switch_dr_tau", "switch_dr_"]).map(|tau| Estimator::SwitchDr { tau }))
        .or_else(|| tau(&["dros_lambda", "dros_"]).map(|lambda| Estimator::Dros { lambda }))
        .or_else(|| {
            tau(&["sg_ips_lambda", "sg_ips_"]).map(|lambda| Estimator::SubGaussianIps { lambda })
        })
}

#[test]
fn names_of_the_files_are_read_and_others_are_not() {
    assert_eq!(
        estimator("switch_dr_1.2"),
        Some(Estimator::SwitchDr { tau: 1.2 })
    );
    assert_eq!(
        estimator("dros_lambda5"),
        Some(Estimator::Dros { lambda: 5.0 })
    );
    assert_eq!(
        estimator("sg_ips_0.1"),
        Some(Estimator::SubGaussianIps { lambda: 0.1 })
    );
    for unknown in ["cab_dr", "switch_dr_", "ips_", "mrdr"] {
        assert_eq!(estimator(unknown), None, "{unknown}");
    }
}
