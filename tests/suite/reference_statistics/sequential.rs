//! Sequential decisions: the canary's test, group-sequential boundaries, peeking, e-processes and
//! confidence sequences.

use routelab::stats::{
    BernoulliSequence, Criterion, Decider, EmpiricalBernstein, MixtureE, NonInferiority,
    PlugInCapital, Rule, STAKES, Sides, Spending, Sprt, Stitching, naive_error,
    normal_mixture_one_sided, normal_mixture_two_sided, obrien_fleming_constant, peeking,
    pocock_constant, spending_boundaries, z_two_sided,
};
use serde_json::Value;

use super::{Check, Family, Vectors, number};

pub(super) const FAMILIES: &[(&str, Family)] = &[
    ("canary_sprt", canary_sprt),
    ("group_sequential", group_sequential),
    ("peeking_every_50_to_2000", peeking_every_50),
    ("mixture_e_grid", mixture_e_grid),
    ("confidence_sequences", confidence_sequences),
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

/// Pairs between two looks, as the family's name says.
const EVERY: u64 = 50;

/// The critical value of the rules that look as though for the first time, as the file's notes say.
const Z: f64 = 1.96;

/// The vectors were made with Fourier transforms, whose rounding is absolute.
const PEEKING_NOISE: f64 = 1e-12;

/// p10 and p01 of a scenario: `margin pd=.12`, or `task candidate/primary` of the file's joint
/// probabilities.
fn scenario(vectors: &Vectors<'_>, name: &str) -> Option<(f64, f64)> {
    if let Some(disagreement) = name.strip_prefix("margin pd=") {
        let disagreement: f64 = disagreement.parse().ok()?;
        return Some(((disagreement - MARGIN) / 2.0, (disagreement + MARGIN) / 2.0));
    }
    let joint = &vectors.0["joint_probabilities"][name.replacen(' ', "/", 1)];
    Some((number(&joint["p10"])?, number(&joint["p01"])?))
}

/// Critical values of the looks; an infinite one decides nothing.
fn critical_values(method: &str, looks: usize) -> Option<Vec<f64>> {
    if let Some(planned) = method.strip_prefix("tango+LD-OBF") {
        let planned: u32 = planned.parse().ok()?;
        let fractions: Vec<f64> = (1..=planned)
            .map(|k| f64::from(k) / f64::from(planned))
            .collect();
        let bounds = spending_boundaries(&fractions, Spending::OBrienFleming, ALPHA, Sides::One)?;
        return (bounds.len() >= looks).then_some(bounds);
    }
    matches!(method, "wald_seed" | "tango").then(|| vec![Z; looks])
}

fn peeking_every_50(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("peeking");
    for (key, cells) in family.as_object().unwrap() {
        let (name, method) = key.split_once('|').unwrap_or((key, ""));
        let Some(rates) = scenario(vectors, name) else {
            check.unknown(key);
            continue;
        };
        let wants = cells["cum"].as_array().unwrap();
        let looks: Vec<u64> = (1..=wants.len() as u64).map(|k| k * EVERY).collect();
        let found = if let Some(alpha) = method.strip_prefix("eprocess ") {
            let alpha: f64 = alpha.parse().unwrap();
            let process = MixtureE::new(MARGIN).unwrap();
            peeking(rates, &looks, |counts, _| {
                promoted(process.promotes(counts.n10, counts.n01, counts.n, alpha))
            })
        } else if let Some(bounds) = critical_values(method, looks.len()) {
            let rule = if method == "wald_seed" {
                Rule::WaldLesson
            } else {
                Rule::Tango
            };
            let decider = |(n, z): (&u64, &f64)| -> Option<Decider> {
                let criterion = z.is_finite().then(|| Criterion::new(MARGIN, *z))??;
                rule.at(*n, criterion)
            };
            let deciders: Vec<Option<Decider>> = looks.iter().zip(&bounds).map(decider).collect();
            peeking(rates, &looks, |counts, look| {
                let decider = deciders[look].as_ref();
                promoted(decider.is_some_and(|one| one.promotes(counts.n10, counts.n01, 0)))
            })
        } else {
            check.unknown(key);
            continue;
        };
        let found = found.unwrap();
        for (part, want) in cells.as_object().unwrap() {
            match part.as_str() {
                "cum" => {
                    for ((n, got), want) in looks.iter().zip(&found.promoted_by).zip(wants) {
                        check.near_noisy(
                            &format!("{key} {n}"),
                            *got,
                            want,
                            (tolerance, PEEKING_NOISE),
                        );
                    }
                }
                "En" => check.near(&format!("{key} {part}"), found.expected_n, want, tolerance),
                _ => check.unknown(&format!("{key} {part}")),
            }
        }
    }
}

fn promoted(yes: bool) -> NonInferiority {
    if yes {
        NonInferiority::NonInferior
    } else {
        NonInferiority::Inconclusive
    }
}

fn mixture_e_grid(_: &Vectors<'_>, family: &Value, check: &mut Check) {
    check.same("stakes", STAKES.to_vec(), family);
}

fn confidence_sequences(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("confidence_sequences");
    for (part, cells) in family.as_object().unwrap() {
        if part == "sequence" {
            generated_sequence(cells, tolerance, check);
            continue;
        }
        for cell in cells.as_array().unwrap() {
            let what = format!("{part} {cell}");
            let number = |key: &str| {
                cell[key]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{what}: no `{key}`"))
            };
            let count = |key: &str| {
                cell[key]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{what}: no `{key}`"))
            };
            let mixture = |bound: fn(f64, f64, f64, f64) -> Option<f64>| {
                bound(
                    number("v"),
                    number("alpha"),
                    number("v_opt"),
                    number("alpha_opt"),
                )
                .unwrap()
            };
            match part.as_str() {
                "normal_mixture_two_sided" => {
                    check.near(
                        &what,
                        mixture(normal_mixture_two_sided),
                        &cell["bound"],
                        tolerance,
                    );
                }
                "normal_mixture_one_sided" => {
                    check.near(
                        &what,
                        mixture(normal_mixture_one_sided),
                        &cell["bound"],
                        tolerance,
                    );
                }
                "poly_stitching" => {
                    let shape = Stitching {
                        v_min: number("v_min"),
                        c: number("c"),
                        s: number("s"),
                        eta: number("eta"),
                    };
                    let bound = shape.bound(number("v"), number("alpha")).unwrap();
                    check.near(&what, bound, &cell["bound"], tolerance);
                }
                "bernoulli_cs" => {
                    let sequence = BernoulliSequence::new(
                        number("alpha"),
                        number("t_opt"),
                        number("alpha_opt"),
                    );
                    let limits = sequence
                        .unwrap()
                        .limits(count("successes"), count("n"))
                        .unwrap();
                    check.near(&what, limits.low, &cell["ci"][0], tolerance);
                    check.near(&what, limits.high, &cell["ci"][1], tolerance);
                }
                "mixture_e" => {
                    let process = MixtureE::new(number("margin")).unwrap();
                    let log_e = process.log_e(count("b"), count("c"), count("n")).unwrap();
                    check.near(&what, log_e, &cell["log_e"], tolerance);
                }
                _ => check.unknown(part),
            }
        }
    }
}

/// The error bound and the margin of the rows, which the file does not state.
const ALPHA: f64 = 0.025;
const MARGIN: f64 = 0.03;

/// Pairs from the generator that the file describes.
fn pairs(generator: &str) -> impl Iterator<Item = i64> {
    assert_eq!(
        generator,
        "LCG state=12345; state=(1103515245*state+12345) mod 2^31; u=state/2^31; x=1 if u<0.03, -1 if \
         u<0.07, else 0",
        "another generator than the one implemented here"
    );
    let mut state = 12_345_u64;
    std::iter::repeat_with(move || {
        state = (1_103_515_245 * state + 12_345) % (1 << 31);
        let u = state as f64 / f64::from(1_u32 << 31);
        match u {
            _ if u < 0.03 => 1,
            _ if u < 0.07 => -1,
            _ => 0,
        }
    })
}

fn generated_sequence(cells: &Value, tolerance: f64, check: &mut Check) {
    let generator = || pairs(cells["generator"].as_str().unwrap());
    for (key, wants) in cells.as_object().unwrap() {
        if key == "generator" {
            continue;
        }
        if let Some(count) = key.strip_prefix("first") {
            let first: Vec<i64> = generator().take(count.parse().unwrap()).collect();
            check.same(key, first, wants);
            continue;
        }
        if key != "rows" {
            check.unknown(key);
            continue;
        }
        for row in wants.as_array().unwrap() {
            let n = row["n"].as_u64().unwrap();
            let mut bound = EmpiricalBernstein::new(ALPHA).unwrap();
            let mut capital = PlugInCapital::new(MARGIN, ALPHA).unwrap();
            let (mut better, mut worse) = (0, 0);
            for x in generator().take(n as usize) {
                better += u64::from(x > 0);
                worse += u64::from(x < 0);
                assert!(bound.observe(f64::midpoint(1.0, x as f64)));
                capital.observe(x > 0, x < 0);
            }
            let lower = bound.lower().unwrap();
            for (value, want) in row.as_object().unwrap() {
                let what = format!("row {n} {value}");
                match value.as_str() {
                    "n" => {}
                    "b" => check.same(&what, better, want),
                    "c" => check.same(&what, worse, want),
                    "eb_lower_Y" => check.near(&what, lower, want, tolerance),
                    "eb_lower_X" => check.near(&what, 2.0 * lower - 1.0, want, tolerance),
                    "log_capital_plugin" => {
                        check.near(&what, capital.log_capital(), want, tolerance);
                    }
                    "log_e_mixture" => {
                        let process = MixtureE::new(MARGIN).unwrap();
                        let log_e = process.log_e(better, worse, n).unwrap();
                        check.near(&what, log_e, want, tolerance);
                    }
                    _ => check.unknown(&what),
                }
            }
        }
    }
}
