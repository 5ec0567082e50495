//! `routelab drill` and what other commands do with `[timeline]`, from outside.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::given::report_names;
use crate::program::{Ran, run_in};

const ROUTES: &str = r#"
[provider.azure-eu]
kind = "openai"
[provider.vertex-eu]
kind = "gemini"
[provider.us-cloud]
kind = "openai"

[route.primary]
provider = "azure-eu"
model = "large-2026-10-01"
region = "eu-west"
residency = ["eu"]
usd_per_mtok = { input = 2.00, output = 8.00 }

[route.secondary]
provider = "vertex-eu"
model = "large-2026-10-02"
region = "eu-central"
residency = ["eu"]
usd_per_mtok = { input = 3.00, output = 12.00 }

[route.overseas]
provider = "us-cloud"
model = "large-2026-10-03"
region = "us-east"
residency = ["us"]
usd_per_mtok = { input = 2.00, output = 8.00 }

[require]
default = { residency = ["eu", "us"] }
[require.data_class.eu-only]
residency = ["eu"]
[require.data_class.public]
residency = ["eu", "us"]
"#;

/// 1,000 tokens a request; the synthetic part of the world.
const WORLD: &str = r#"
[synthetic]
requests = 3000
data_class = { public = 0.5, eu-only = 0.5 }

[synthetic.task.chat]
share = 1.0
difficulty = { beta = [2, 4] }
tokens = { input = 800, output = 200 }

[synthetic.model.primary]
skill = { chat = 0.85 }
[synthetic.model.secondary]
skill = { chat = 0.80 }
[synthetic.model.overseas]
skill = { chat = 0.85 }
"#;

/// An hour and a half, a request of 1,000 tokens a second, half of them with data that must stay in the EU;
/// the secondary has half the tokens per minute that these need.
const TIMELINE: &str = r#"
[timeline]
duration_h = 1.5
bin_min = 1
slo = { ttft_s = 3, total_s = 20 }
[timeline.arrivals]
rate_per_s = 1.0
[timeline.latency]
preset = "hosted-70b"
[timeline.limit.eu-2]
routes = ["secondary"]
tokens_per_min = 15_000
[[timeline.incident]]
provider = "azure-eu"
at_min = 30
for_min = 20
fail = "overloaded"
"#;

/// A folder with a world (with these lines behind it), routes and two policies.
fn folder(timeline: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("routes.toml", ROUTES);
    write("w.toml", &format!("{WORLD}{timeline}"));
    fs::create_dir(folder.path().join("p")).unwrap();
    write(
        "p/resilient.toml",
        "[fixed]\nroute = \"primary\"\nfallback = [\"secondary\", \"overseas\"]\n",
    );
    write("p/alone.toml", "[fixed]\nroute = \"primary\"\n");
    folder
}

fn go(folder: &Path, command: &str, more: &[&str]) -> Ran {
    let mut arguments = vec![command, "w.toml", "-p", "p", "--routes", "routes.toml"];
    arguments.extend(more);
    run_in(folder, &arguments)
}

fn policy<'a>(json: &'a Value, name: &str) -> &'a Value {
    let policies = json["policies"].as_array().unwrap();
    policies
        .iter()
        .find(|one| one["policy"] == name)
        .unwrap_or_else(|| panic!("no policy {name}"))
}

fn value(policy: &Value, day: &str, name: &str) -> f64 {
    let value = &policy[day][name]["value"];
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{day} {name}: {value}"))
}

#[test]
fn the_fallback_whose_limit_was_used_up_is_named_with_whose_data_it_was() {
    let folder = folder(TIMELINE);
    let more = ["--replicates", "2", "--format", "json"];
    let json = go(folder.path(), "drill", &more).json();
    let resilient = policy(&json, "resilient");
    assert!(value(resilient, "calm", "availability") > 0.999);
    // 20 of 90 minutes. All requests try the secondary, which has room for a quarter of them; half of the
    // others may go overseas.
    let lost = value(resilient, "harm", "lost");
    let expected = 20.0 / 90.0 * 0.75 * 0.5;
    assert!((lost - expected).abs() < 0.01, "{lost} {expected}");
    let unserved = resilient["unserved"].as_array().unwrap();
    let all: u64 = unserved
        .iter()
        .map(|one| one["requests"].as_u64().unwrap())
        .sum();
    let saturated: u64 = unserved
        .iter()
        .filter(|one| one["reason"] == "saturated")
        .map(|one| {
            assert_eq!(one["limit"], "eu-2");
            assert_eq!(one["used_up"], "tpm");
            assert_eq!(one["class"], "eu");
            one["requests"].as_u64().unwrap()
        })
        .sum();
    assert!(
        saturated * 10 > all * 9,
        "{saturated} of {all}: {unserved:?}"
    );
    assert_eq!(resilient["residency_violations"], 0);
    assert!(
        json["summary"]
            .as_str()
            .unwrap()
            .contains("`secondary`: tokens per minute of limit `eu-2` used up"),
        "{}",
        json["summary"]
    );
    // Whoever has no fallback loses all of the 20 minutes.
    let alone = value(policy(&json, "alone"), "harm", "lost");
    assert!((alone - 20.0 / 90.0).abs() < 0.02, "{alone}");
    assert_eq!(json["incidents"][0]["name"], "azure-eu");
    let recovered = policy(&json, "alone")["incidents"][0]["by_replicate_s"].as_array();
    for seconds in recovered.unwrap() {
        assert!(seconds.as_f64().unwrap() <= 300.0, "{seconds}");
    }
}

#[test]
fn what_fails_and_what_is_limited_can_be_said_on_the_command_line() {
    let folder = folder("");
    let common = [
        "--requests",
        "3000",
        "--replicates",
        "1",
        "--format",
        "json",
    ];
    let with = |more: &[&str]| {
        let all = [&common[..], more].concat();
        go(folder.path(), "drill", &all)
    };
    let down = with(&["--down", "azure-eu", "--at", "peak", "--for", "45m"]).json();
    let incident = &down["incidents"][0];
    let from = incident["from_s"].as_f64().unwrap();
    assert!(
        (14.0 * 3_600.0..=15.5 * 3_600.0).contains(&from),
        "the day's peak is at 15:00: {from}"
    );
    assert_eq!(incident["until_s"].as_f64().unwrap() - from, 2_700.0);
    assert_eq!(incident["routes"], serde_json::json!(["primary"]));
    assert_eq!(down["workload"]["requests"], 3_000);
    let notes = down["notes"].to_string();
    assert!(notes.contains("has no `[timeline]`"), "{notes}");
    assert!(value(policy(&down, "alone"), "harm", "lost") > 0.02);

    let slow = with(&[
        "--down", "primary", "--at", "14:30", "--slow", "4", "--for", "1h30m",
    ])
    .json();
    assert_eq!(slow["incidents"][0]["effect"], "slow");
    assert_eq!(slow["incidents"][0]["from_s"], 52_200.0);
    let alone = policy(&slow, "alone");
    let p99 = |day| value(alone, day, "ttft_p99_s");
    assert!(
        p99("drill") > 1.3 * p99("calm"),
        "{} {}",
        p99("drill"),
        p99("calm")
    );

    let part = with(&[
        "--down", "azure-eu", "--fail", "server", "--share", "0.5", "--at", "2h",
    ]);
    assert_eq!(part.json()["incidents"][0]["share"], 0.5);

    let limit = with(&["--limit", "primary.rpm=2"]).json();
    assert_eq!(limit["has_calm_day"], false);
    assert_eq!(limit["limits"][0]["name"], "primary");
    let alone = policy(&limit, "alone");
    assert!(value(alone, "drill", "availability") < 0.9);
    assert_eq!(alone["unserved"][0]["reason"], "saturated");
    let notes = limit["notes"].to_string();
    assert!(
        notes.contains("limits `primary` alone, beside what else is limited"),
        "{notes}"
    );
}

#[test]
fn recorded_rows_are_spread_over_a_day() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..500)
        .map(|i| format!("{i},chat,1,{}\n", i % 2))
        .collect();
    fs::write(
        folder.path().join("d.csv"),
        format!("id,task,correct_a,correct_b\n{rows}"),
    )
    .unwrap();
    let ran = run_in(
        folder.path(),
        &[
            "drill",
            "d.csv",
            "--down",
            "a",
            "--for",
            "2h",
            "--replicates",
            "2",
            "--format",
            "json",
        ],
    );
    let json = ran.json();
    assert_eq!(json["workload"]["requests"], 500);
    assert_eq!(json["workload"]["shared_rows"], true);
    let span = json["span_s"].as_f64().unwrap();
    assert!((60_000.0..120_000.0).contains(&span), "{span}");
    assert!(value(policy(&json, "always-a"), "harm", "lost") > 0.05);
    assert_eq!(value(policy(&json, "always-b"), "harm", "lost"), 0.0);
    assert!(
        policy(&json, "always-a")["drill"]["usd_per_1k"]["value"].is_null(),
        "nobody knows what these routes cost"
    );
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let folder = folder(TIMELINE);
    let files = |threads: &str| -> Vec<(String, Vec<u8>)> {
        let out = folder.path().join(format!("out-{threads}"));
        let more = [
            "--replicates",
            "3",
            "--threads",
            threads,
            "--report",
            out.to_str().unwrap(),
        ];
        go(folder.path(), "drill", &more).fine();
        let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs::read(path).unwrap())
            })
            .collect();
        files.sort();
        files
    };
    let one = files("1");
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        report_names(&[
            "columns.md",
            if cfg!(feature = "frames") {
                "decisions.parquet"
            } else {
                "decisions.csv.gz"
            },
            "plot-alone.svg",
            "plot-resilient.svg"
        ])
    );
    for threads in ["2", "7"] {
        assert!(one == files(threads), "{threads} threads");
    }
    let manifest: Value = serde_json::from_slice(
        &one.iter()
            .find(|(name, _)| name == "manifest.json")
            .unwrap()
            .1,
    )
    .unwrap();
    for output in manifest["outputs"].as_array().unwrap() {
        let name = output["path"].as_str().unwrap();
        let (_, bytes) = one.iter().find(|(known, _)| known == name).unwrap();
        assert_eq!(
            output["sha256"],
            routelab::report::sha256_hex(bytes),
            "{name}"
        );
    }
    let csv = one.iter().find(|(name, _)| name == "findings.csv").unwrap();
    let csv = String::from_utf8(csv.1.clone()).unwrap();
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert!(columns.iter().all(|count| *count == columns[0]));
    assert!(
        csv.lines()
            .any(|line| line.starts_with("resilient,false,secondary,1800,60,"))
    );
}

#[test]
fn plots_are_written_where_they_are_wanted() {
    let folder = folder(TIMELINE);
    let plot = ["--replicates", "1", "--plot", "day.svg", "-q"];
    go(folder.path(), "drill", &plot).fine();
    for name in ["day-alone.svg", "day-resilient.svg"] {
        let svg = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains("azure-eu"),
            "{name}"
        );
    }
    let one = [
        "drill",
        "w.toml",
        "-p",
        "p/alone.toml",
        "--routes",
        "routes.toml",
        "--replicates",
        "1",
        "--plot",
        "only.svg",
    ];
    run_in(folder.path(), &one).fine();
    assert!(folder.path().join("only.svg").is_file());
}

#[test]
fn compare_runs_in_time_and_takes_its_intervals_from_replicates() {
    let folder = folder(TIMELINE);
    let metric = |more: &[&str]| {
        let all = [&["--format", "json"], more].concat();
        let json = go(folder.path(), "compare", &all).json();
        let rows = json["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["policy"] == "alone").unwrap();
        (row["metrics"]["unserved"].clone(), row["notes"].to_string())
    };
    let (several, notes) = metric(&["--replicates", "3"]);
    assert_eq!(several["method"], "t-replicates");
    assert_eq!(several["n"], 3);
    let value = several["value"].as_f64().unwrap();
    assert!((value - 20.0 / 90.0).abs() < 0.02, "{value}");
    assert!(!notes.contains("one run on the timeline"), "{notes}");
    let (one, notes) = metric(&[]);
    assert_ne!(one["method"], "t-replicates");
    assert!(notes.contains("one run on the timeline"), "{notes}");

    let staged = go(folder.path(), "compare", &["--fidelity", "outcome"]);
    assert!(
        staged.stderr.contains("`[timeline]` is left out"),
        "{}",
        staged.stderr
    );
    staged.fine();
}

#[test]
fn commands_that_take_requests_one_by_one_say_so() {
    let folder = folder(TIMELINE);
    let said = |arguments: &[&str], has: bool| {
        let ran = run_in(folder.path(), arguments);
        let note = "does not use `[timeline]`";
        assert_eq!(
            ran.stderr.contains(note),
            has,
            "{arguments:?}: {}",
            ran.stderr
        );
        ran.fine();
    };
    let files = ["w.toml", "-p", "p/alone.toml", "--routes", "routes.toml"];
    said(
        &[&["explain"], &files[..], &["--request", "3"]].concat(),
        true,
    );
    let sweep = [&["sweep"], &files[..], &["--vary", "margin=0.01,0.02"]].concat();
    said(&sweep, true);
    said(&[&sweep[..], &["-q"]].concat(), false);
    let size = [
        "size",
        "canary",
        "w.toml",
        "--candidate",
        "secondary",
        "--base",
        "primary",
        "--routes",
        "routes.toml",
    ];
    said(&size, true);
    fs::write(folder.path().join("w.toml"), WORLD).unwrap();
    said(&size, false);
}

#[test]
fn mistakes_in_a_timeline_are_found_by_every_command_that_reads_it_and_once() {
    let wrong = TIMELINE.replace("azure-eu", "azure-uk");
    let folder = folder(&wrong);
    for command in ["compare", "drill"] {
        let errors = go(folder.path(), command, &[]).refused();
        assert_eq!(
            errors.matches("azure-uk").count(),
            2,
            "message and line: {errors}"
        );
        assert!(errors.contains("did you mean `azure-eu`?"), "{errors}");
    }
    let errors = run_in(folder.path(), &["check", "w.toml"]).refused();
    assert!(errors.contains("did you mean `azure-eu`?"), "{errors}");
    fs::write(folder.path().join("w.toml"), format!("{WORLD}{TIMELINE}")).unwrap();
    run_in(folder.path(), &["check", "w.toml"]).fine();

    let broken = format!("{WORLD}{TIMELINE}\n[timeline.errors\n");
    fs::write(folder.path().join("w.toml"), broken).unwrap();
    for command in ["compare", "drill"] {
        let errors = go(folder.path(), command, &[]).refused();
        assert!(errors.ends_with("\n1 error\n"), "{errors}");
    }
}

#[test]
fn a_trace_that_is_missing_is_reported_where_it_is_named() {
    let timeline = "[timeline.arrivals]\ntrace = \"nowhere.csv\"\n";
    let folder = folder(timeline);
    let errors = go(folder.path(), "drill", &[]).refused();
    assert!(errors.contains("cannot read `nowhere.csv`"), "{errors}");
    assert!(errors.contains("w.toml:"), "{errors}");
}
