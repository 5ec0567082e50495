//! Documents: their look, their shape, and what outside text can do to them.

use super::made::*;
use crate::given::report_names;
use proptest::prelude::*;
use routelab::report::{
    FileDigest, Findings, Manifest, Options, RENDERERS, Renderer, files, findings, sha256_hex,
};
use routelab::stats::Estimate;

/// Findings with everything a document can show, and with names that try to break out of it.
fn shown() -> Findings {
    let large: Vec<Did> = (0..400)
        .map(|i| did(1, i % 20 != 0, 0.018 + (i % 7) as f64 * 1e-4))
        .collect();
    let small: Vec<Did> = (0..400).map(|i| did(0, i % 3 != 0, 0.000_3)).collect();
    let rules: Vec<Did> = (0..400)
        .map(|i| if i % 3 == 0 { large[i] } else { small[i] })
        .collect();
    let mut evil: Vec<Did> = (0..400)
        .map(|i| Did {
            cost: None,
            calls: 2,
            ..small[i]
        })
        .collect();
    evil[7] = Did {
        route: None,
        score: Some(0),
        cost: None,
        calls: 2,
    };
    let mut results = experiment(
        &["small", "large"],
        &[
            ("static", "static", rules.clone()),
            ("=cmd|' /C calc'!A0\n\u{1b}[31m<b>", "cascade", evil),
            ("always-small", "always", small),
            ("always-large", "always", large),
            ("oracle", "oracle", rules),
        ],
    );
    results.workload = "support | lesson".to_owned();
    results.notes.push("12 rows were filtered out".to_owned());
    let options = Options {
        require: vec![
            "accuracy>=0.9".to_owned(),
            "static.usd_per_1k<=9".to_owned(),
        ],
        volume: Some(40e6),
        ..Options::default()
    };
    let manifest = Manifest {
        version: "0.1.0".to_owned(),
        seed: 2026,
        inputs: vec![FileDigest::of("workloads/support.toml", b"[synthetic]")],
        outputs: Vec::new(),
        command: ["compare", "workloads/support.toml"]
            .map(str::to_owned)
            .to_vec(),
    };
    findings(&results, &options, manifest).expect("valid options")
}

#[test]
fn documents_look_as_reviewed() {
    let findings = shown();
    // Pages have snapshots of their own: most of one is style.
    for renderer in RENDERERS.iter().filter(|one| one.name != "html") {
        insta::assert_snapshot!(renderer.name, (renderer.render)(&findings));
    }
}

#[test]
fn renderers_have_distinct_names_and_end_their_documents_with_a_newline() {
    let findings = shown();
    for (i, renderer) in RENDERERS.iter().enumerate() {
        assert!(
            RENDERERS[..i]
                .iter()
                .all(|other| other.name != renderer.name)
        );
        let text = (renderer.render)(&findings);
        assert!(
            text.ends_with('\n') && !text.ends_with("\n\n"),
            "{}",
            renderer.name
        );
        assert_eq!(text, (renderer.render)(&findings), "{}", renderer.name);
        assert!(!text.contains('\u{1b}'), "{}", renderer.name);
    }
    assert!(Renderer::named("json").is_some() && Renderer::named("yaml").is_none());
}

#[test]
fn json_has_the_documented_shape() {
    let text = (Renderer::named("json").expect("json").render)(&shown());
    let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    let keys = |value: &serde_json::Value| {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(&value),
        ["schema", "manifest", "workload", "rows", "paired"]
    );
    assert_eq!(keys(&value["manifest"]), ["version", "seed", "inputs"]);
    assert_eq!(
        keys(&value["workload"]),
        ["name", "requests", "replicates", "evidence"]
    );
    assert_eq!(
        keys(&value["rows"][0])[..4],
        ["policy", "kind", "control", "metrics"]
    );
    for name in [
        "accuracy",
        "usd_per_1k",
        "mirror_usd_per_1k",
        "usd_per_correct",
        "calls_per_request",
        "unserved",
    ] {
        let estimate = &value["rows"][0]["metrics"][name];
        assert_eq!(
            keys(estimate),
            ["value", "low", "high", "level", "n", "method"],
            "{name}"
        );
    }
    assert_eq!(
        keys(&value["rows"][0]["metrics"]["final_share"]),
        ["small", "large"]
    );
    let unknown = value["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .find(|row| row["kind"] == "cascade")
        .expect("the cascade");
    assert!(unknown["metrics"]["usd_per_1k"]["value"].is_null());
    assert_eq!(unknown["metrics"]["usd_per_1k"]["method"], "unknown");
    assert_eq!(
        keys(&value["paired"][0])[..3],
        ["baseline", "policy", "accuracy_difference"]
    );
}

#[test]
fn csv_is_read_back_number_for_number() {
    let findings = shown();
    let text = (Renderer::named("csv").expect("csv").render)(&findings);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut accuracies = 0;
    for record in reader.records() {
        let record = record.expect("a record of twelve fields");
        assert_eq!(record.len(), 12);
        assert!(!record[0].starts_with(['=', '+', '-', '@']), "{record:?}");
        if &record[3] == "accuracy" && &record[0] == "static" {
            let expected = metric(&findings, "static", "accuracy").value;
            assert_eq!(record[4].parse::<f64>().ok(), expected);
            accuracies += 1;
        }
    }
    assert_eq!(accuracies, 1);
}

#[test]
fn the_manifest_holds_the_digest_of_every_file_but_itself() {
    let files = files(
        &shown(),
        None,
        vec![("more.svg".to_owned(), b"more".to_vec())],
    );
    let mut names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.last(), Some(&"manifest.json"));
    names.sort_unstable();
    let is_plot = |name: &&str| name.starts_with("promotion") || name.starts_with("slices");
    names.retain(|name| !is_plot(name) && *name != "more.svg");
    let own = ["accuracy-cost.svg", "columns.md", "slide.svg"];
    assert_eq!(names, report_names(&own));
    let (_, manifest) = files.last().expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(manifest).expect("valid JSON");
    let outputs = manifest["outputs"].as_array().expect("outputs");
    assert_eq!(outputs.len(), files.len() - 1);
    for (output, (name, bytes)) in outputs.iter().zip(&files) {
        assert_eq!(output["path"], name.as_str());
        assert_eq!(output["sha256"], sha256_hex(bytes).as_str());
    }
    assert_eq!(manifest["inputs"][0]["path"], "workloads/support.toml");
    assert_eq!(manifest["command"][0], "compare");
}

/// `routes` routes, each with its own share of ungraded and unserved requests, and a policy that uses all.
fn crowd(routes: usize) -> Findings {
    let names: Vec<String> = (0..routes).map(|r| format!("m{r:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let single = |route: usize| -> Vec<Did> {
        (0..1000)
            .map(|i| match i {
                i if i < route => Did {
                    score: None,
                    ..did(route, true, 0.001)
                },
                i if i < 2 * route + 5 => Did {
                    route: None,
                    score: Some(0),
                    cost: Some(0),
                    calls: 1,
                },
                i => did(route, i % 10 != 0, 0.001 * (route + 1) as f64),
            })
            .collect()
    };
    let spread: Vec<Did> = (0..1000)
        .map(|i| did((i * i) % routes, i % 10 != 0, 0.001))
        .collect();
    let controls: Vec<String> = names.iter().map(|name| format!("always-{name}")).collect();
    let mut contestants = vec![("spread", "static", spread)];
    for (route, name) in controls.iter().enumerate() {
        contestants.push((name, "always", single(route)));
    }
    let mut results = experiment(&names, &contestants);
    for contestant in &mut results.contestants {
        contestant.tallies[0].unknown_need = 7;
    }
    let mut oracle = results.contestants[1].clone();
    oracle.name = "oracle".to_owned();
    oracle.kind = "oracle";
    oracle.always = None;
    oracle.unavailable = Some("some grades are missing".to_owned());
    oracle.tallies.clear();
    oracle.pairs = vec![Vec::new(); results.baselines.len()];
    results.contestants.push(oracle);
    found(&results, &Options::default())
}

#[test]
fn a_table_of_many_routes_stays_readable() {
    let findings = crowd(33);
    let table = (Renderer::named("table").expect("table").render)(&findings);
    for line in table.lines().filter(|line| line.starts_with([' ', '-'])) {
        assert!(line.chars().count() < 150, "{line}");
    }
    let line = |name: &str| {
        table
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap_or_else(|| panic!("{table}"))
            .trim_end()
    };
    let spread = line("spread ");
    let (_, more) = spread.rsplit_once(", +").expect("more");
    assert!(more.ends_with(" more"), "{spread}");
    assert_eq!(spread.matches(" m").count(), 5, "{spread}");
    // Its name says which route it is.
    assert!(
        line("always-m02 ").ends_with("  99 %"),
        "{}",
        line("always-m02 ")
    );
}

#[test]
fn notes_on_many_routes_are_few_and_short() {
    let findings = crowd(120);
    let all: usize = findings.notes.iter().map(String::len).sum();
    assert!(
        findings.notes.len() < 25 && all < 4000,
        "{:#?}",
        findings.notes
    );
    for part in [
        "all rows with numbers: 7 of 1,000 requests have a prompt of unknown length",
        "always-m00: 5 of 1,000 requests unserved (0.5 %): failed",
        "and 111 more: the same with other numbers, which are in the JSON",
    ] {
        assert!(
            findings.notes.iter().any(|note| note.contains(part)),
            "{part}: {:#?}",
            findings.notes
        );
    }
    // Nothing is lost: each row has its own.
    let row = findings.row("always-m77").expect("a row");
    assert!(
        row.notes
            .iter()
            .any(|n| n.starts_with("82 of 1,000 requests unserved (8.2 %): failed")),
        "{:?}",
        row.notes
    );
}

/// Anything that can happen to a request, with amounts up to a million dollars.
fn any_did() -> impl Strategy<Value = Did> {
    (
        prop::option::weighted(0.9, 0_usize..2),
        prop::option::weighted(0.9, prop_oneof![Just(0), Just(RIGHT), 0..=RIGHT]),
        prop::option::weighted(0.8, 0..=USD * 1_000_000),
        0_u64..5,
    )
        .prop_map(|(route, score, cost, calls)| Did {
            route,
            score,
            cost,
            calls,
        })
}

proptest! {
    #[test]
    fn every_estimate_lies_within_its_interval_and_every_document_can_be_read(
        (a, b, c) in (0_usize..40).prop_flat_map(|n| {
            let one = || prop::collection::vec(any_did(), n);
            (one(), one(), one())
        }),
        shared_rows: bool,
        trained: bool,
        sticks: bool,
        replicates in 1_usize..4,
    ) {
        let mut results = experiment(
            &["small", "large"],
            &[("p", "static", a), ("always-small", "always", b), ("always-large", "always", c)],
        );
        results.shared_rows = shared_rows;
        results.replicates = replicates as u64;
        results.contestants[0].trained = trained;
        results.contestants[1].sticks_to = sticks.then_some("user");
        for contestant in &mut results.contestants {
            contestant.tallies = vec![contestant.tallies[0].clone(); replicates];
            for pairs in &mut contestant.pairs {
                *pairs = vec![pairs[0].clone(); replicates];
            }
        }
        let require = vec!["accuracy>=0.5".to_owned(), "usd_per_correct<=1".to_owned()];
        let findings = found(&results, &Options { require, volume: Some(1e9), ..Options::default() });
        let estimates = findings
            .rows
            .iter()
            .flat_map(|row| row.metrics.iter().chain(&row.final_share).chain(row.mix.as_ref().map(|m| &m.lead)))
            .chain(findings.paired.iter().flat_map(|p| [&p.accuracy_difference, &p.usd_per_1k_difference]));
        for estimate in estimates {
            let Some(value) = estimate.value else {
                prop_assert_eq!(estimate, &Estimate::unknown(0.95));
                continue;
            };
            prop_assert!(value.is_finite() && estimate.n > 0, "{:?}", estimate);
            if let Some(limits) = estimate.limits() {
                let slack = 1e-12 * (1.0 + value.abs());
                prop_assert!(limits.low <= value + slack && value <= limits.high + slack, "{:?}", estimate);
            }
        }
        let json = (Renderer::named("json").expect("json").render)(&findings);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
        for renderer in RENDERERS {
            let text = (renderer.render)(&findings);
            let word = |word: &str| text.split(|c: char| !c.is_alphanumeric()).any(|w| w == word);
            prop_assert!(!word("NaN") && !word("inf"), "{}", text);
        }
    }
}
