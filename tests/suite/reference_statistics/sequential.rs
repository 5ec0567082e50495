//! Sequential decisions: the canary's test, group-sequential boundaries, peeking, e-processes and
//! confidence sequences.

use routelab::stats::{
    Sides, Spending, Sprt, naive_error, obrien_fleming_constant, pocock_constant,
    spending_boundaries, z_two_sided,
};
use serde_json::Value;

use super::{Check, Family, Vectors};

pub(super) const FAMILIES: &[(&str, Family)] = &[
    ("canary_sprt", canary_sprt),
    ("group_sequential", group_sequential),
];

/// The number after `name=` in a key such as `sprt|p0=0.05|a=.05`.
pub(super) fn keyed(key: &str, name: &str) -> Option<f64> {
    key.split('|')
        .find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn canary_sprt(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("sprt");
    for (key, want) in family.as_object().unwrap() {
        let number = |name| keyed(key, name).unwrap_or_else(|| panic!("{key}: no `{name}`"));
        if !key.starts_with("sprt_canary|") || want.as_array().is_none_or(|w| w.len() != 2) {
            check.unknown(key);
            continue;
        }
        let sprt = Sprt::new(number("p0"), number("p1"), number("a"), number("b")).unwrap();
        let odds = sprt.operating_characteristics(number("p"), None).unwrap();
        check.near(key, odds.accept_h1, &want[0], tolerance);
        check.near(key, odds.expected_n, &want[1], tolerance);
    }
}

/// The percentage in a key such as `naive_one_sided_2_5pct`, as a share.
fn percent(key: &str, before: &str) -> Option<f64> {
    let digits = key.strip_prefix(before)?.strip_suffix("pct")?;
    let percent: f64 = digits.replace('_', ".").parse().ok()?;
    Some(percent / 100.0)
}

fn group_sequential(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("group_sequential");
    for (part, cells) in family.as_object().unwrap() {
        let cells = cells.as_object().unwrap();
        if let Some(alpha) = percent(part, "naive_two_sided_") {
            for (looks, want) in cells {
                let z = z_two_sided(1.0 - alpha);
                let error = naive_error(looks.parse().unwrap(), z, Sides::Two).unwrap();
                check.near(&format!("{part} {looks}"), error, want, tolerance);
            }
        } else if let Some(alpha) = percent(part, "naive_one_sided_") {
            for (looks, want) in cells {
                let z = z_two_sided(1.0 - 2.0 * alpha);
                let error = naive_error(looks.parse().unwrap(), z, Sides::One).unwrap();
                check.near(&format!("{part} {looks}"), error, want, tolerance);
            }
        } else if let Some(alpha) = percent(part, "constants_two_sided_") {
            for (kind, constants) in cells {
                let constant = match kind.as_str() {
                    "pocock" => pocock_constant,
                    "obf" => obrien_fleming_constant,
                    _ => {
                        check.unknown(&format!("{part} {kind}"));
                        continue;
                    }
                };
                for (looks, want) in constants.as_object().unwrap() {
                    let got = constant(looks.parse().unwrap(), alpha, Sides::Two).unwrap();
                    check.near(&format!("{part} {kind} {looks}"), got, want, tolerance);
                }
            }
        } else if let Some(alpha) = percent(part, "lan_demets_one_sided_") {
            for (key, wants) in cells {
                let spending = match key.split('|').next() {
                    Some("obf") => Spending::OBrienFleming,
                    Some("pocock") => Spending::Pocock,
                    _ => {
                        check.unknown(&format!("{part} {key}"));
                        continue;
                    }
                };
                let looks = keyed(key, "K").unwrap() as u32;
                let fractions: Vec<f64> = (1..=looks)
                    .map(|k| f64::from(k) / f64::from(looks))
                    .collect();
                let bounds = spending_boundaries(&fractions, spending, alpha, Sides::One).unwrap();
                check.same(
                    &format!("{part} {key} looks"),
                    bounds.len(),
                    &wants.as_array().unwrap().len().into(),
                );
                for (bound, want) in bounds.iter().zip(wants.as_array().unwrap()) {
                    check.near(&format!("{part} {key}"), *bound, want, tolerance);
                }
            }
        } else {
            check.unknown(part);
        }
    }
}
