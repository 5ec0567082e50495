//! Sequential decisions: the canary's test, group-sequential boundaries, peeking, e-processes and
//! confidence sequences.

use routelab::stats::Sprt;
use serde_json::Value;

use super::{Check, Family, Vectors};

pub(super) const FAMILIES: &[(&str, Family)] = &[("canary_sprt", canary_sprt)];

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
