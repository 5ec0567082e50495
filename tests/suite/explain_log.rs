//! `explain` on logs: what was decided, by whom, and what went where it may not.

use std::fs;
use std::path::Path;

use routelab::report::sha256_hex;
use serde_json::{Value, json};

use crate::given::project;
use crate::program::{run, run_in};

const ROUTES: &str = "policies/routes.toml";
const CASCADE: &str = "policies/cascade.toml";

fn digest(path: &str) -> String {
    sha256_hex(&fs::read(project(path)).unwrap())
}

/// An attempt as `call --log` writes it, with the digests of these files.
fn attempt(trace: &str, route: &str, policy: Option<&str>, residency: Value) -> Value {
    json!({
        "schema": "routelab.attempt/1", "trace_id": trace, "origin": "user", "policy": "cascade",
        "policy_digest": policy.map(digest), "routes_digest": policy.map(|_| digest(ROUTES)),
        "propensity": null, "rejected": [{"route": "large", "reason": "residency"}],
        "residency": residency, "local_only": false, "route": route, "region": "eu-west", "host": null,
        "provider": "openai", "dialect": "openai", "model": "m", "model_reported": null, "attempt": 1,
        "outcome": "ok", "kind": null, "reason": null, "code": null, "status": 200, "request_id": null,
        "stop": "stop", "verdict": "accept", "warnings": [],
        "tokens": {"input": 10, "output": 5, "cached": null, "cache_write": null, "reasoning": null},
        "cost_usd": 0.001, "billed": true, "metered": "answered", "latency_us": 412_000, "ttft_us": null, "waited_us": null,
    })
}

fn log(folder: &Path, attempts: &[Value]) -> String {
    let lines: Vec<String> = attempts.iter().map(Value::to_string).collect();
    let path = folder.join("calls.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_decision_is_recorded_only_with_the_digests_of_the_files_that_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let eu = json!(["eu"]);
    let log = log(
        folder.path(),
        &[
            attempt("a", "small", Some(CASCADE), eu.clone()),
            attempt("b", "small", None, eu),
        ],
    );
    let explain =
        |id: &str, policy: &str| run(&["explain", &log, "--request", id, "-p", policy]).fine();
    let recorded = explain("a", CASCADE);
    assert!(
        recorded.starts_with("recorded decision: by policies/cascade.toml"),
        "{recorded}"
    );
    // The residency comes first, with the line of the route.
    let barred = recorded.find("barred   `large`").unwrap();
    assert!(
        barred < recorded.find("send     `small`").unwrap(),
        "{recorded}"
    );
    assert!(recorded.contains("(policies/routes.toml:"), "{recorded}");
    assert!(
        recorded.contains("skip     `large`: residency"),
        "{recorded}"
    );
    let other = explain("a", "policies/static.toml");
    assert!(
        other.starts_with("counterfactual: no policy given is the one that decided"),
        "{other}"
    );
    let without = explain("b", CASCADE);
    assert!(
        without.starts_with("counterfactual: the record does not say"),
        "{without}"
    );
}

#[test]
fn other_data_are_always_counterfactual() {
    let explain = [
        "explain",
        "workloads/tenants.toml",
        "-p",
        CASCADE,
        "--request",
        "1",
    ];
    let text = run(&explain).fine();
    assert!(text.starts_with("counterfactual: "), "{text}");
}

#[test]
fn the_rule_that_bars_a_route_is_named_with_its_line() {
    let compare = [
        "explain",
        "workloads/tenants.toml",
        "-p",
        "policies/static.toml",
        "--request",
    ];
    let text = (0..20)
        .map(|id| run(&[&compare[..], &[&id.to_string()]].concat()).fine())
        .find(|text| text.contains("barred"))
        .expect("some of twenty requests hold data that may not leave");
    let lines: Vec<&str> = text.lines().collect();
    let at = |word: &str| {
        lines
            .iter()
            .position(|line| line.trim_start().starts_with(word))
            .unwrap()
    };
    assert!(at("barred") < at("decided"), "{text}");
    let routes = fs::read_to_string(project(ROUTES)).unwrap();
    let line = |what: &str| {
        routes
            .lines()
            .position(|line| line.starts_with(what))
            .unwrap()
            + 1
    };
    let rule = format!("{ROUTES}:{}", line("[require.data_class.eu-only]"));
    assert!(lines[at("barred")].contains(&rule), "{text}");
}

#[test]
fn violations_of_a_log_are_listed_and_what_cannot_be_judged_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let eu = json!(["eu"]);
    let log = log(
        folder.path(),
        &[
            attempt("fine", "small", Some(CASCADE), eu.clone()),
            attempt("stray", "large", Some(CASCADE), eu.clone()),
            attempt("free", "large", Some(CASCADE), Value::Null),
            attempt("strange", "nano", Some(CASCADE), eu),
        ],
    );
    let ran = run(&["explain", &log, "--violations", "-p", CASCADE]);
    assert_eq!(ran.code, Some(100), "{}", ran.stderr);
    let text = ran.stdout;
    let listed: Vec<&str> = text.lines().collect();
    assert_eq!(listed.len(), 2, "{text}");
    assert!(
        listed[0].contains("call `stray`") && listed[0].contains("recorded decision"),
        "{text}"
    );
    assert!(
        listed[1].starts_with("1 of 3 attempts") && listed[1].contains("1 more attempts were free"),
        "{text}"
    );
    assert!(
        listed[1].contains("1 went to routes that it does not know"),
        "{text}"
    );
}

#[test]
fn violations_of_a_log_of_stand_ins_are_those_of_the_drill() {
    let seen = ["tests/fixtures/seen/seen.jsonl", "--routes", ROUTES];
    let ran = run(&[&["explain"][..], &seen, &["--violations"]].concat());
    assert_eq!(ran.code, Some(100), "{}", ran.stderr);
    let text = ran.stdout;
    let drill = run(&[&["drill"][..], &seen, &["--format", "json"]].concat()).json();
    let strays = drill["residency"]["violations"].as_u64().expect("a count");
    assert!(strays > 0);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len() as u64, strays + 1, "{text}");
    let asked = run(&[&["explain"][..], &seen, &["--request", "1"]].concat()).refused();
    assert!(asked.contains("call --log"), "{asked}");
}

#[test]
fn policies_send_nothing_where_it_may_not_go() {
    let text = run(&["explain", "workloads/tenants.toml", "--violations"]).fine();
    let counts: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("requests sent where"))
        .collect();
    assert_eq!(counts.len(), 6, "{text}");
    assert!(
        counts
            .iter()
            .all(|line| line.contains(": 0 of 20000 requests")),
        "{text}"
    );
}

#[test]
fn a_call_that_is_not_in_the_log_and_a_line_that_is_no_attempt_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = log(folder.path(), &[attempt("a", "small", None, Value::Null)]);
    let said = run(&["explain", &path, "--request", "z"]).refused();
    assert!(
        said.contains("holds no call `z`") && said.contains("such as `a`"),
        "{said}"
    );
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text + "\n{\"schema\": \"routelab.attempt/2\"}\n").unwrap();
    let said = run(&["explain", &path, "--request", "a"]).refused();
    assert!(said.contains("calls.jsonl:2"), "{said}");
}

#[test]
fn two_reports_are_put_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("workloads")).unwrap();
    let copy = |from: &str, to: &str| fs::copy(project(from), folder.path().join(to)).unwrap();
    copy("workloads/support.toml", "workloads/support.toml");
    fs::create_dir(folder.path().join("policies")).unwrap();
    copy(ROUTES, ROUTES);
    copy(CASCADE, CASCADE);
    let compare = |report: &str| {
        run_in(
            folder.path(),
            &[
                "compare",
                "workloads/support.toml",
                "-q",
                "--report",
                report,
            ],
        )
        .fine();
    };
    compare("before");
    let path = folder.path().join(CASCADE);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("0.30", "0.02")).unwrap();
    compare("after");
    let diff = run_in(
        folder.path(),
        &["diff", "before", "after", "--format", "json"],
    )
    .json();
    let verdicts = diff["verdicts"].as_array().unwrap();
    assert_eq!(
        verdicts[0]["about"],
        "paired[cascade, always-large].verdict"
    );
    assert_eq!(
        (&verdicts[0]["before"], &verdicts[0]["after"]),
        (&json!("inferior"), &json!("non-inferior"))
    );
    let inputs = diff["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 1);
    assert_eq!(inputs[0]["about"], CASCADE);
    assert_eq!(diff["settings"], json!([]));
    let other = [
        "compare",
        "workloads/support.toml",
        "-q",
        "--margin",
        "0.06",
        "--report",
        "other",
    ];
    run_in(folder.path(), &other).fine();
    let asked = run_in(folder.path(), &["diff", "after", "other"]).fine();
    assert!(
        asked.contains("what was asked is not: command, margin"),
        "{asked}"
    );
    let names: Vec<&str> = diff["numbers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["number"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"rows[cascade, cascade].metrics.accuracy"),
        "{names:?}"
    );
    // Controls have not changed.
    assert!(
        names.iter().all(|name| !name.starts_with("rows[always-")),
        "{names:?}"
    );
    let same = run_in(folder.path(), &["diff", "before", "before/findings.json"]).fine();
    assert!(same.contains("the inputs are the same"), "{same}");
    let said = run_in(folder.path(), &["diff", "before", "policies"]).refused();
    assert!(said.contains("findings.json"), "{said}");
}
