//! `schema` from outside: the findings of real runs are valid, and the page of the keys is up to date.

use serde_json::Value as Json;

use crate::given::project;
use crate::program::{run, run_in};

fn validator(kind: &str) -> jsonschema::Validator {
    let schema = run(&["schema", kind]).json();
    jsonschema::options().offline().build(&schema).unwrap()
}

#[track_caller]
fn assert_valid(validator: &jsonschema::Validator, document: &Json, what: &str) {
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {}", errors.join("\n"));
}

#[test]
fn findings_of_every_kind_of_run_are_valid() {
    let findings = validator("findings");
    for line in [
        "workloads/support.toml",
        "workloads/support.toml --requests 500 --replicates 3 --require accuracy>=0.5 --require accuracy>=0.99",
        "workloads/lesson-recorded.toml -p policies/lesson --quiet",
        "workloads/tenants.toml --requests 2000 --cluster user --bootstrap 1000 -p policies/static.toml --quiet",
        "workloads/support.toml --requests 100 --fidelity outcome -p policies/cascade.toml",
        "workloads/outage-drill.toml --requests 300 --quiet",
    ] {
        let words = ["compare", "--format=json"]
            .into_iter()
            .chain(line.split(' '));
        let ran = run(&words.collect::<Vec<_>>());
        let document =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
        assert_valid(&findings, &document, line);
    }
    let ramp = run(&[
        "compare",
        "workloads/support.toml",
        "-p",
        "tests/configs/canary-ramp.toml",
        "--format",
        "json",
        "--quiet",
    ])
    .json();
    assert!(ramp.to_string().contains("rolled_back"));
    assert_valid(&findings, &ramp, "a ramp");
    let mut wrong = ramp;
    wrong["rows"][0]["metrics"]["accuracy"]["value"] = "high".into();
    assert!(!findings.is_valid(&wrong));
}

#[test]
fn the_page_of_all_keys_is_what_the_program_prints() {
    let printed = run(&["schema", "--markdown"]).fine();
    let path = project("docs/configuration.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|value| value == "always") {
        std::fs::write(&path, &printed).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == printed,
        "docs/configuration.md is not up to date: write it anew with `routelab schema --markdown > docs/configuration.md`"
    );
}

#[test]
fn without_a_kind_the_kinds_are_listed_and_each_can_be_printed() {
    let list = run(&["schema"]).fine();
    let kinds: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with("next:"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(kinds.len() >= 6, "{list}");
    for kind in kinds {
        let schema = run(&["schema", kind]).json();
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
        assert!(
            run(&["schema", kind, "--markdown"])
                .fine()
                .starts_with("## ")
        );
    }
}

#[test]
fn what_init_writes_for_editors_is_what_schema_prints() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &["init"]).fine();
    for kind in ["routes", "policy", "workload", "columns", "faults"] {
        let path = format!(".routelab/schema/{kind}.json");
        let text = std::fs::read_to_string(folder.path().join(&path)).unwrap();
        assert_eq!(text, run(&["schema", kind]).fine(), "{path}");
        let rules = std::fs::read_to_string(folder.path().join(".taplo.toml")).unwrap();
        assert!(rules.contains(&path), "{path}");
    }
}
