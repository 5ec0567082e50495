//! The statistics against reference values computed by other programs.
//!
//! Every leaf of the file is compared, whatever cells it holds: a family or a method that nothing here
//! computes is a failure, not a value passed over. `ROUTELAB_REFERENCE_STATISTICS=FILE` takes another
//! file of the same schema, so that anybody can check vectors of their own.

mod eval;
pub(crate) mod evidence;
mod pairs;
mod population;
mod sequential;

use std::fmt::Write as _;

use serde_json::Value;

use crate::given::{fixture, reference};

/// Compares one family of the file with what the library computes.
pub(crate) type Family = fn(&Vectors<'_>, &Value, &mut Check);

/// The whole file, for families that need another one's values.
pub(crate) struct Vectors<'a>(pub(crate) &'a Value);

impl Vectors<'_> {
    /// The stated tolerance of this name.
    pub(crate) fn tolerance(&self, name: &str) -> f64 {
        self.0["tolerances"][name]
            .as_f64()
            .unwrap_or_else(|| panic!("the file states no tolerance `{name}`"))
    }
}

/// What was compared so far.
#[derive(Default)]
pub(crate) struct Check {
    compared: usize,
    wrong: Vec<String>,
}

impl Check {
    /// Holds a number against the file's: within `tolerance`, and within a relative 1e-8 where the
    /// value itself is smaller than the tolerance, so that a zero does not pass for a tiny probability.
    pub(crate) fn near(&mut self, what: &str, got: f64, want: &Value, tolerance: f64) {
        self.compared += 1;
        let Some(want) = number(want) else {
            self.wrong.push(format!("{what}: `{want}` is not a number"));
            return;
        };
        let tiny = want != 0.0 && want.abs() < tolerance;
        let allowed = if tiny { 1e-8 * want.abs() } else { tolerance };
        // Not "greater than": a NaN has to fail.
        let near = (got - want).abs() <= allowed;
        if !near {
            self.wrong.push(format!(
                "{what}: {got:e} instead of {want:e}, off by {:e} where {allowed:e} is allowed",
                (got - want).abs()
            ));
        }
    }

    /// Holds a number against one that was itself computed with an absolute error of `noise`: within
    /// `tolerance`, and within the noise where the value is smaller than the tolerance.
    pub(crate) fn near_noisy(
        &mut self,
        what: &str,
        got: f64,
        want: &Value,
        (tolerance, noise): (f64, f64),
    ) {
        let tiny = number(want).is_some_and(|want| want.abs() < tolerance);
        if tiny {
            self.compared += 1;
            // Not "greater than": a NaN has to fail.
            let near = number(want).is_some_and(|want| (got - want).abs() <= noise);
            if !near {
                self.wrong.push(format!(
                    "{what}: {got:e} instead of {want}, where {noise:e} is allowed"
                ));
            }
        } else {
            self.near(what, got, want, tolerance);
        }
    }

    /// Holds anything else against the file's: whole numbers, words, truths.
    pub(crate) fn same(&mut self, what: &str, got: impl Into<Value>, want: &Value) {
        self.compared += 1;
        let got = got.into();
        if got != *want {
            self.wrong.push(format!("{what}: {got} instead of {want}"));
        }
    }

    /// The file asks for something that nothing here computes.
    pub(crate) fn unknown(&mut self, what: &str) {
        self.wrong.push(format!("{what}: not implemented"));
    }
}

/// A number of the file: some are written as text, to keep all their digits.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// Families by their key in the file.
const FAMILIES: &[&[(&str, Family)]] = &[
    eval::FAMILIES,
    evidence::FAMILIES,
    pairs::FAMILIES,
    population::FAMILIES,
    sequential::FAMILIES,
];

/// Keys that say how to read the file rather than what to compute.
const ABOUT: &[&str] = &["conventions", "tolerances", "notes"];

fn compare(vectors: &Value) {
    let mut failures = String::new();
    for (key, value) in vectors.as_object().expect("the file is a table") {
        if ABOUT.contains(&key.as_str()) {
            continue;
        }
        let mut check = Check::default();
        match FAMILIES
            .iter()
            .copied()
            .flatten()
            .find(|(name, _)| name == key)
        {
            Some((_, family)) => {
                family(&Vectors(vectors), value, &mut check);
                if check.compared == 0 {
                    check.wrong.push("nothing was compared".to_owned());
                }
            }
            None => check.unknown("this family"),
        }
        for wrong in check.wrong {
            let _ = writeln!(failures, "{key}: {wrong}");
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

#[test]
fn reference_statistics_are_reproduced() {
    match std::env::var_os("ROUTELAB_REFERENCE_STATISTICS") {
        Some(path) => {
            let bytes =
                std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            compare(&serde_json::from_slice(&bytes).expect("the file is JSON"));
        }
        None => compare(&fixture("statistics_reference.json")),
    }
}

#[test]
fn reference_statistics_committed_here_are_the_shared_ones() {
    if let Some(shared) = reference("data/statistics/reference_vectors.json") {
        assert_eq!(shared, fixture("statistics_reference.json"));
    }
}

#[test]
fn a_reference_value_that_is_off_or_not_a_number_is_found() {
    let mut check = Check::default();
    check.near("equal", 0.5, &Value::from(0.5), 1e-9);
    check.near("text", 0.25, &Value::from("0.25"), 1e-9);
    assert!(check.wrong.is_empty(), "{:?}", check.wrong);
    check.near("off", 0.5, &Value::from(0.500_000_1), 1e-9);
    check.near("nan", f64::NAN, &Value::from(0.5), 1e-9);
    check.near("zero for tiny", 0.0, &Value::from(1e-17), 1e-10);
    check.near("missing", 0.5, &Value::Null, 1e-9);
    check.same("whole", 3, &Value::from(4));
    check.unknown("method");
    assert_eq!(check.wrong.len(), 6, "{:?}", check.wrong);
}
