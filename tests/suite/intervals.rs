//! Paired intervals against reference values: computed elsewhere in high precision, and published.

use routelab::stats::{
    Ddof, Limits, Pairs, agresti_min, bonett_price, newcombe10, tango, wald, wilson, z_two_sided,
};
use serde_json::Value;

/// Reference values are printed with 16 digits; two independent computations agree far closer.
const TOLERANCE: f64 = 1e-9;

fn fixture() -> Value {
    serde_json::from_str(include_str!("../fixtures/intervals.json")).expect("valid JSON")
}

fn count(entry: &Value, key: &str) -> u64 {
    entry[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key} in {entry}"))
}

fn pairs(entry: &Value) -> Pairs {
    Pairs::new(
        count(entry, "n11"),
        count(entry, "n10"),
        count(entry, "n01"),
        count(entry, "n00"),
    )
}

/// The interval called `name` in the reference file; `None` for those this crate does not offer.
fn computed(name: &str, pairs: Pairs, z: f64) -> Option<Limits> {
    match name {
        "wald_ddof0" => wald(pairs, z, Ddof::Zero),
        "wald_ddof1" => wald(pairs, z, Ddof::One),
        "bonett_price" => Some(bonett_price(pairs, z)),
        "agresti_min" => Some(agresti_min(pairs, z)),
        "newcombe_m10_corrected_phi" => newcombe10(pairs, z),
        "tango" => tango(pairs, z),
        _ => None,
    }
}

fn assert_close(limits: Limits, expected: &Value, tolerance: f64, what: &str) {
    let (low, high) = (
        expected[0].as_f64().expect("low"),
        expected[1].as_f64().expect("high"),
    );
    assert!(
        (limits.low - low).abs() <= tolerance && (limits.high - high).abs() <= tolerance,
        "{what}: {limits:?}, expected [{low}, {high}]"
    );
}

#[test]
fn paired_intervals_hit_the_reference_values() {
    let fixture = fixture();
    let mut checked = 0;
    for entry in fixture["intervals"].as_array().expect("a list") {
        let z = entry["z"].as_f64().expect("z");
        for (name, expected) in entry["intervals"].as_object().expect("intervals") {
            if let Some(limits) = computed(name, pairs(entry), z) {
                let what = format!("{name} of {}", entry["note"]);
                assert_close(limits, expected, TOLERANCE, &what);
                checked += 1;
            }
        }
        for (name, expected) in entry["published"].as_object().into_iter().flatten() {
            if let Some(limits) = computed(name, pairs(entry), z) {
                // Publications print three to four decimals.
                let what = format!("{name} as published, {}", entry["note"]);
                assert_close(limits, expected, 6e-4, &what);
                checked += 1;
            }
        }
    }
    assert!(
        checked >= 9 * 6,
        "only {checked} reference values were found"
    );
}

#[test]
fn the_lessons_comparisons_come_out_as_computed_elsewhere() {
    let fixture = fixture();
    let comparisons = fixture["policy_comparison_on_seed_csv"]
        .as_object()
        .expect("an object");
    assert!(!comparisons.is_empty());
    // These values were made with z = 1.96 rather than the exact quantile.
    let z = 1.96;
    for (name, entry) in comparisons {
        let table = pairs(entry);
        assert_eq!(table.n(), count(entry, "n") as f64, "{name}");
        let difference = entry["diff"].as_f64().expect("diff");
        assert!((table.difference() - difference).abs() < 1e-12, "{name}");
        let limits = wald(table, z, Ddof::One).expect("pairs");
        let se = (limits.high - limits.low) / (2.0 * z);
        assert!(
            (se - entry["se_paired"].as_f64().expect("se")).abs() < TOLERANCE,
            "{name}: {se}"
        );
        assert_close(
            tango(table, z).expect("pairs"),
            &entry["tango"],
            TOLERANCE,
            name,
        );
        assert_close(
            newcombe10(table, z).expect("pairs"),
            &entry["newcombe10"],
            TOLERANCE,
            name,
        );
    }
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "a skipped test says that it was skipped"
)]
fn the_committed_reference_values_equal_their_source() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data/statistics/reference_vectors.json");
    let Ok(text) = std::fs::read_to_string(&source) else {
        assert!(
            std::env::var_os("ROUTELAB_REQUIRE_SHARED").is_none_or(|v| v != "1"),
            "{} is required but absent",
            source.display()
        );
        eprintln!("skipped: {} is absent", source.display());
        return;
    };
    let source: Value = serde_json::from_str(&text).expect("valid JSON");
    for (key, part) in fixture().as_object().expect("an object") {
        assert_eq!(part, &source[key], "{key}");
    }
}

#[test]
fn empty_tables_have_no_interval() {
    let empty = Pairs::default();
    assert_eq!(tango(empty, 1.96), None);
    assert_eq!(newcombe10(empty, 1.96), None);
    assert_eq!(wald(empty, 1.96, Ddof::Zero), None);
    assert_eq!(wald(Pairs::new(1, 0, 0, 0), 1.96, Ddof::One), None);
    assert_eq!(wilson(0, 0, 1.96), None);
}

#[test]
fn swapping_the_policies_mirrors_the_interval() {
    let z = z_two_sided(0.95);
    for (n11, n10, n01, n00) in [
        (5378, 27, 371, 224),
        (0, 3, 0, 0),
        (4, 9, 3, 16),
        (1, 0, 0, 1),
    ] {
        let ahead = tango(Pairs::new(n11, n10, n01, n00), z).expect("pairs");
        let behind = tango(Pairs::new(n11, n01, n10, n00), z).expect("pairs");
        assert!(
            (ahead.low + behind.high).abs() < 1e-12,
            "{n11} {n10} {n01} {n00}"
        );
        assert!(
            (ahead.high + behind.low).abs() < 1e-12,
            "{n11} {n10} {n01} {n00}"
        );
    }
}
