//! The program as a user meets it: flags, exit codes, what goes to which stream, shapes of output.

use std::fs;
use std::io::Read as _;
use std::process::Stdio;

use serde_json::Value;

use crate::given::is_comparison;
use crate::program::{Ran, command, run, run_in};

const SUPPORT: &str = "workloads/support.toml";
const RECORDED: &str = "workloads/lesson-recorded.toml";
const STATIC: &str = "policies/static.toml";

/// Names of the policies under test, in the order of the rows.
fn policies(findings: &Value) -> Vec<&str> {
    rows(findings)
        .iter()
        .filter(|row| row["control"] == false)
        .map(|row| row["policy"].as_str().unwrap())
        .collect()
}

fn rows(findings: &Value) -> &Vec<Value> {
    findings["rows"].as_array().unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// A run of `compare` on the support traffic under the static rules.
fn compare(more: &[&str]) -> Ran {
    let mut arguments = vec!["compare", SUPPORT, "-p", STATIC];
    arguments.extend(more);
    run(&arguments)
}

#[test]
fn a_requirement_that_holds_ends_with_0_one_that_fails_with_100_an_open_one_with_102() {
    let passed = compare(&["--require", "accuracy>=0.85"]);
    assert_eq!((passed.code, passed.stderr.as_str()), (Some(0), ""));
    let failed = compare(&["--require", "accuracy>=0.95"]);
    assert_eq!(failed.code, Some(100));
    assert!(failed.stderr.contains("FAIL: accuracy>=0.95 of `static`"));
    let open = compare(&["--require", "accuracy>=0.895"]);
    assert_eq!(open.code, Some(102));
    let needed: u64 = open
        .stderr
        .strip_prefix("inconclusive: accuracy>=0.895 of `static`: about ")
        .and_then(|rest| rest.strip_suffix(" requests would settle it with 80 % odds\n"))
        .unwrap_or_else(|| panic!("{}", open.stderr))
        .replace(',', "")
        .parse()
        .unwrap();
    assert!(needed > 6000, "{needed}");
    // It does settle it.
    let enough = (2 * needed).to_string();
    let settled = compare(&["--require", "accuracy>=0.895", "--requests", &enough]);
    assert_eq!(settled.code, Some(0), "{}", settled.stderr);
    // The result is printed all the same, and a failure counts more than an open question.
    for ran in [&failed, &open] {
        assert!(ran.stdout.contains("always-large"));
    }
    let both = compare(&["--require=accuracy>=0.9", "--require=accuracy>=0.95", "-q"]);
    assert_eq!(both.code, Some(100));
    assert_eq!(both.stderr.lines().count(), 2, "{}", both.stderr);
}

#[test]
fn a_report_folder_that_cannot_be_made_is_said_before_the_run_and_ends_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let below = file.join("report");
    // More requests than anybody would wait for.
    let ran = compare(&["--report", below.to_str().unwrap(), "--requests", "100G"]);
    assert_eq!(ran.code, Some(1));
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr.starts_with("error: cannot write to"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_report_that_cannot_be_written_in_the_end_still_prints_its_result() {
    let folder = tempfile::tempdir().unwrap();
    // A folder stands where a file should go.
    fs::create_dir_all(folder.path().join("findings.csv/x")).unwrap();
    let ran = compare(&["--report", folder.path().to_str().unwrap()]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("always-large"));
    assert!(ran.stderr.contains("cannot write to"), "{}", ran.stderr);
}

#[test]
fn usage_mistakes_end_with_2_and_help_with_0() {
    for arguments in [
        &[][..],
        &["compare"],
        &["compare", SUPPORT, "--sed", "3"],
        &["compare", SUPPORT, "--seed", "-1"],
        &["compare", SUPPORT, "--requests", "0"],
        &["compare", SUPPORT, "--replicates", "0"],
        &["compare", SUPPORT, "--threads", "0"],
        &["compare", SUPPORT, "--format", "pdf"],
        &["compare", SUPPORT, "--volume", "-3"],
        &["compare", SUPPORT, "--margin", "3"],
        &["explain", SUPPORT],
        &["completions", "cmd.exe"],
    ] {
        let errors = run(arguments).refused();
        assert!(
            errors.contains("--help") || errors.contains("Usage:"),
            "{arguments:?}: {errors}"
        );
    }
    let help = run(&["--help"]).fine();
    assert!(
        help.contains("Exit codes:") && help.contains("compare"),
        "{help}"
    );
    assert!(run(&["compare", "--help"]).fine().contains("--baseline"));
    assert!(
        run(&["--version"])
            .fine()
            .contains(env!("CARGO_PKG_VERSION"))
    );
}

#[cfg(unix)]
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a program that hangs must not hang its test"
)]
fn an_interrupted_run_ends_with_130_and_leaves_nothing_behind() {
    use std::time::{Duration, Instant};

    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let mut child = command(&crate::given::project(""))
        .args([
            "compare",
            SUPPORT,
            "-p",
            STATIC,
            "--requests",
            "100G",
            "--threads",
            "1",
        ])
        .args(["--report", report.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    // The folder is made just before the handler is set, and the handler just before the run.
    let status = format!("/proc/{}/status", child.id());
    let listens = || match fs::read_to_string(&status) {
        // Bit 1 of the mask of caught signals is SIGINT (proc_pid_status(5)).
        Ok(text) => text
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 2 != 0),
        Err(_) => report.exists(),
    };
    while !listens() {
        assert!(Instant::now() < deadline, "it never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(100));
    let sent = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it did not stop");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(ended.code(), Some(130), "{stderr}");
    assert_eq!(stdout, "");
    assert!(stderr.starts_with("interrupted after "), "{stderr}");
    assert!(!report.exists());
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    for arguments in [
        &["compare", SUPPORT, "--format", "json", "--requests", "100k"][..],
        &["explain", RECORDED, "--request", "4"],
        &["completions", "bash"],
        &["check"],
        &["--help"],
    ] {
        let mut child = command(&crate::given::project(""))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert!(!ran.stderr.contains("error"), "{}", ran.stderr);
    }
}

#[test]
fn policies_come_from_files_and_folders_each_once_and_in_the_order_given() {
    let shipped = [
        "canary",
        "capability-cost",
        "cascade",
        "eval-driven",
        "shadow",
        "static",
    ];
    let json = |arguments: &[&str]| run(&[arguments, &["--format", "json"]].concat()).json();
    assert_eq!(policies(&json(&["compare", SUPPORT])), shipped);
    assert_eq!(
        policies(&json(&["compare", SUPPORT, "-p", "policies"])),
        shipped
    );
    let some = [
        "compare",
        SUPPORT,
        "-p",
        STATIC,
        "--policy",
        "policies/canary.toml",
    ];
    assert_eq!(policies(&json(&some)), ["static", "canary"]);
    let repeated = [
        &some[..],
        &[
            "-p",
            "./policies/",
            "-p",
            "policies/../policies/static.toml",
        ],
    ];
    assert_eq!(
        policies(&json(&repeated.concat())),
        [
            "static",
            "canary",
            "capability-cost",
            "cascade",
            "eval-driven",
            "shadow"
        ]
    );
}

#[test]
fn findings_as_json_have_exactly_the_documented_shape() {
    let findings = compare(&["--format", "json", "--require", "accuracy>=0.8"]).json();
    assert_eq!(
        keys(&findings),
        ["schema", "manifest", "workload", "rows", "paired", "slices"]
    );
    assert_eq!(findings["schema"], "routelab.findings/1");
    assert_eq!(keys(&findings["manifest"]), ["version", "seed", "inputs"]);
    assert_eq!(findings["manifest"]["seed"], 2026);
    let inputs = findings["manifest"]["inputs"].as_array().unwrap();
    assert_eq!(inputs.len(), 3);
    for input in inputs {
        assert_eq!(keys(input), ["path", "sha256"]);
        let bytes = fs::read(crate::given::project(input["path"].as_str().unwrap())).unwrap();
        assert_eq!(
            input["sha256"],
            routelab::report::sha256_hex(&bytes).as_str()
        );
    }
    assert_eq!(
        keys(&findings["workload"]),
        ["name", "requests", "replicates", "evidence"]
    );
    assert_eq!(findings["workload"]["evidence"], "simulated");
    for row in rows(&findings) {
        assert_eq!(keys(row)[..4], ["policy", "kind", "control", "metrics"]);
        let metrics = keys(&row["metrics"]);
        for name in [
            "accuracy",
            "usd_per_1k",
            "mirror_usd_per_1k",
            "usd_per_correct",
            "calls_per_request",
            "unserved",
            "final_share",
        ] {
            assert!(metrics.contains(&name), "{name} of {}", row["policy"]);
        }
        let estimate = ["value", "low", "high", "level", "n", "method"];
        for (name, metric) in row["metrics"].as_object().unwrap() {
            if name != "final_share" {
                assert_eq!(keys(metric), estimate, "{name}");
            }
        }
        assert_eq!(
            keys(&row["metrics"]["final_share"]),
            ["small", "medium", "large"]
        );
        for share in row["metrics"]["final_share"].as_object().unwrap().values() {
            assert_eq!(keys(share), estimate);
        }
    }
    for entry in findings["paired"].as_array().unwrap() {
        assert_eq!(
            keys(entry)[..3],
            ["baseline", "policy", "accuracy_difference"]
        );
        assert_eq!(entry["baseline"], "always-large");
    }
    let recorded = run(&["compare", RECORDED, "-p", STATIC, "--format", "json"]).json();
    assert_eq!(recorded["workload"]["evidence"], "paired");
    assert_eq!(recorded["manifest"]["inputs"].as_array().unwrap().len(), 4);
}

#[test]
fn each_format_prints_what_the_report_folder_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    for (format, file) in [
        ("table", "table.txt"),
        ("markdown", "table.md"),
        ("csv", "findings.csv"),
        ("json", "findings.json"),
    ] {
        let printed = compare(&["--format", format, "--report", path.to_str().unwrap()]).fine();
        assert_eq!(
            printed,
            fs::read_to_string(path.join(file)).unwrap(),
            "{format}"
        );
        assert!(printed.contains("always-medium"));
    }
    assert_eq!(compare(&[]).fine(), compare(&["--format=table"]).fine());
    let names: Vec<String> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(is_comparison(&names), "{names:?}");
}

#[test]
fn baseline_margin_volume_and_minimize_change_what_the_report_says() {
    let json = |more: &[&str]| compare(&[more, &["--format", "json"]].concat()).json();
    let paired = |findings: &Value| findings["paired"][0].clone();
    let entry = paired(&json(&["--baseline", "always-medium"]));
    assert_eq!(
        (&entry["baseline"], &entry["policy"]),
        (&"always-medium".into(), &"static".into())
    );
    assert_eq!(
        json(&["--baseline", "static"])["paired"][0]["baseline"],
        "static"
    );
    // Five points worse: inferior at a margin of three, non-inferior at ten.
    assert_eq!(paired(&json(&[]))["verdict"], "inferior");
    let wide = paired(&json(&["--margin", "0.10"]));
    assert_eq!(
        (&wide["verdict"], &wide["margin"]),
        (&"non-inferior".into(), &0.1.into())
    );
    let text = compare(&["--margin=0.10", "--volume", "40M"]).fine();
    assert!(text.contains("At 40,000,000 requests: "), "{text}");
    assert!(!compare(&["--margin=0.10"]).fine().contains("40,000,000"));
    let all = [
        "compare",
        SUPPORT,
        "--require",
        "accuracy>=0.85",
        "-q",
        "--minimize",
    ];
    let cheapest = run(&[&all[..], &["usd_per_1k"]].concat()).stdout;
    assert!(
        cheapest.contains("static is the lowest in usd_per_1k"),
        "{cheapest}"
    );
    let busiest = run(&[&all[..], &["final_share.large"]].concat()).stdout;
    assert!(
        busiest.contains("static is the lowest in final_share.large"),
        "{busiest}"
    );
}

#[test]
fn requests_and_replicates_say_how_much_is_run() {
    let requests = |more: &[&str]| {
        let findings = compare(&[more, &["--format", "json"]].concat()).json();
        let n = rows(&findings)[0]["metrics"]["accuracy"]["n"]
            .as_u64()
            .unwrap();
        (findings["workload"]["requests"].as_u64().unwrap(), n)
    };
    assert_eq!(requests(&[]), (6000, 6000));
    assert_eq!(requests(&["--requests", "25k"]), (25_000, 25_000));
    assert_eq!(
        requests(&["--requests", "1_000", "--replicates", "4"]),
        (1000, 4000)
    );
    // Recorded rows cannot become more.
    let more = [
        "compare",
        RECORDED,
        "-p",
        STATIC,
        "--requests",
        "7k",
        "--format",
        "json",
    ];
    let ran = run(&more);
    assert!(
        ran.stderr.contains("holds 6000 requests to judge on"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.json()["workload"]["requests"], 6000);
    let fewer = [
        "compare",
        RECORDED,
        "-p",
        STATIC,
        "--requests",
        "50",
        "--format",
        "json",
    ];
    assert_eq!(run(&fewer).json()["workload"]["requests"], 50);
}

#[test]
fn the_seed_may_stand_in_the_environment() {
    let asked = compare(&["--seed", "7", "--format", "json"]).fine();
    let mut from_environment = command(&crate::given::project(""));
    from_environment.args(["compare", SUPPORT, "-p", STATIC, "--format", "json"]);
    from_environment
        .env("ROUTELAB_SEED", "7")
        .env("ROUTELAB_THREADS", "2");
    assert_eq!(Ran::from(from_environment.output().unwrap()).fine(), asked);
    assert_ne!(compare(&["--format", "json"]).fine(), asked);
}

#[test]
fn quiet_leaves_out_warnings_and_remarks_but_not_errors() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("odd.toml");
    fs::write(
        &policy,
        "[static]\ndefault = \"large\"\ntask = { faqs = \"small\" }\n",
    )
    .unwrap();
    let arguments = ["compare", SUPPORT, "-p", policy.to_str().unwrap()];
    let loud = run(&arguments);
    assert!(
        loud.stderr
            .contains("warning: no request of this workload has task `faqs`")
    );
    assert!(loud.stderr.contains("did you mean `faq` instead of"));
    let quiet = run(&[&arguments[..], &["--quiet"]].concat());
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.fine(), loud.fine());
    fs::write(&policy, "[static]\ndefault = \"larg\"\n").unwrap();
    assert!(
        !run(&[&arguments[..], &["-q"]].concat())
            .refused()
            .is_empty()
    );
}

#[test]
fn data_files_are_read_with_usual_names_or_those_of_a_columns_file() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(
        here.join("a.csv"),
        "id,task,grade_x,grade_y\n1,t,1,0\n2,t,0,0\n3,u,1,1\n",
    )
    .unwrap();
    fs::write(
        here.join("b.csv"),
        "Nr,Art,x gut,y gut\n1,t,1,0\n2,t,0,0\n3,u,1,1\n",
    )
    .unwrap();
    fs::write(
        here.join("columns.toml"),
        "id = \"Nr\"\ntask = \"Art\"\ngrade = \"{route} gut\"\n",
    )
    .unwrap();
    let usual = run_in(here, &["compare", "a.csv", "--format", "json"]);
    assert!(
        usual.stderr.contains("only controls are run"),
        "{}",
        usual.stderr
    );
    let usual = usual.json();
    let named = run_in(
        here,
        &[
            "compare",
            "b.csv",
            "--columns",
            "columns.toml",
            "--format",
            "json",
        ],
    )
    .json();
    assert_eq!(usual["rows"], named["rows"]);
    assert_eq!(rows(&usual)[0]["policy"], "always-x");
    assert_eq!(
        rows(&usual)[0]["metrics"]["usd_per_1k"]["value"],
        Value::Null
    );
    let errors = run_in(here, &["compare", "b.csv"]).refused();
    assert!(
        errors.contains("no column looks like a route's grades"),
        "{errors}"
    );
}

#[test]
fn completions_are_there_for_every_common_shell() {
    for (shell, part) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef routelab"),
        ("fish", "complete -c routelab"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = run(&["completions", shell]).fine();
        assert!(script.contains(part), "{shell}");
        assert!(
            script.contains("minimize") && script.contains("explain"),
            "{shell}"
        );
    }
}
