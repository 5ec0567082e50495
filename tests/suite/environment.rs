//! Flags from the environment, and manual pages.

use crate::given::project;
use crate::program::{Ran, command, run, run_in};

fn run_with(variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut command = command(&project(""));
    command.args(arguments).envs(variables.iter().copied());
    command.output().unwrap().into()
}

#[test]
fn the_recorded_command_repeats_a_run_whose_flags_came_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let given = [
        ("ROUTELAB_SEED", "11"),
        ("ROUTELAB_MARGIN", "0.01"),
        ("ROUTELAB_COMPARE_REQUESTS", "700"),
        ("ROUTELAB_COMPARE_FORMAT", "json"),
        ("ROUTELAB_COMPARE_POLICY", "policies/static.toml"),
        ("ROUTELAB_THREADS", "2"),
        ("ROUTELAB_QUIET", "yes"),
        ("ROUTELAB_COMPARE_REPORT", report.to_str().unwrap()),
        // Another command's.
        ("ROUTELAB_DRILL_REQUESTS", "3"),
    ];
    let there = run_with(&given, &["compare", "workloads/support.toml"]).fine();
    let manifest = std::fs::read(report.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let words = manifest["command"].as_array().unwrap();
    let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
    for gone in ["thread", "report", "quiet", "drill"] {
        assert!(!words.iter().any(|word| word.contains(gone)), "{words:?}");
    }
    assert!(
        words.contains(&"--seed=11") && words.contains(&"--margin=0.01"),
        "{words:?}"
    );
    assert_eq!(run(&words[1..]).fine(), there);
    assert_ne!(
        run(&["compare", "workloads/support.toml", "--format=json"]).fine(),
        there
    );
}

#[test]
fn the_command_line_goes_before_the_environment_and_an_empty_variable_is_none() {
    let line = [
        "compare",
        "workloads/support.toml",
        "--seed",
        "3",
        "--requests=300",
        "--format=json",
    ];
    let plain = run(&line).fine();
    assert_eq!(run_with(&[("ROUTELAB_SEED", "4")], &line).fine(), plain);
    let empty = [
        ("ROUTELAB_MARGIN", ""),
        ("ROUTELAB_COMPARE_VOLUME", ""),
        ("ROUTELAB_QUIET", ""),
    ];
    assert_eq!(run_with(&empty, &line).fine(), plain);
}

#[test]
fn a_bad_value_from_the_environment_names_its_variable() {
    for (variable, value, arguments) in [
        (
            "ROUTELAB_SEED",
            "many",
            &["compare", "workloads/support.toml"][..],
        ),
        (
            "ROUTELAB_QUIET",
            "perhaps",
            &["compare", "workloads/support.toml"],
        ),
        ("ROUTELAB_COLOR", "blue", &["check"]),
        (
            "ROUTELAB_SIZE_SHADOW_ALPHA",
            "5",
            &[
                "size",
                "shadow",
                "workloads/support.toml",
                "--candidate",
                "small",
            ],
        ),
        // A flag that does not go with another one.
        (
            "ROUTELAB_DRILL_SLOW",
            "3",
            &[
                "drill",
                "workloads/support.toml",
                "--down=small",
                "--share=0.5",
            ],
        ),
    ] {
        let said = run_with(&[(variable, value)], arguments).refused();
        assert!(said.contains(variable), "{variable}: {said}");
        assert!(said.contains("help:"), "{said}");
    }
    // One that stands on the line is nobody else's fault.
    let line = ["compare", "workloads/support.toml", "--seed", "many"];
    let said = run_with(&[("ROUTELAB_SEED", "few")], &line).refused();
    assert!(!said.contains("ROUTELAB_SEED"), "{said}");
}

#[test]
fn help_names_the_variables_and_not_what_is_in_them() {
    let said = run_with(
        &[("ROUTELAB_COMPARE_BASELINE", "a-secret")],
        &["compare", "--help"],
    )
    .fine();
    assert!(
        said.contains("[env: ROUTELAB_COMPARE_BASELINE]") && !said.contains("a-secret"),
        "{said}"
    );
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let page = run(&["man"]).fine();
    assert!(page.contains(".TH routelab 1"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let said = run_in(folder.path(), &["man", "pages"]).fine();
    let mut names: Vec<String> = std::fs::read_dir(folder.path().join("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(said.contains(&format!("{} pages", names.len())), "{said}");
    for name in [
        "routelab.1",
        "routelab-compare.1",
        "routelab-init.1",
        "routelab-size-shadow.1",
    ] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    let compare = std::fs::read_to_string(folder.path().join("pages/routelab-compare.1")).unwrap();
    assert!(
        compare.contains("ROUTELAB") && compare.contains("margin"),
        "{compare}"
    );
    assert_eq!(
        std::fs::read_to_string(folder.path().join("pages/routelab.1")).unwrap(),
        page
    );
}
