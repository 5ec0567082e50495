//! What is said beside the numbers: about policies that can do nothing with the data, and about the data.

use std::fs;

use crate::program::{run, run_in};

#[test]
fn what_makes_a_policy_idle_on_this_data_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let routes = crate::given::project("policies/routes.toml");
    let capability = crate::given::project("policies/capability-cost.toml");
    write(
        "c.toml",
        "[canary]\ncandidate = \"small\"\nweight = 0.3\nstick_to = \"tenant\"\nbase.fixed = { route = \"large\" }\n",
    );
    let rows: String = (0..400)
        .map(|i| format!("{i},faq,{},1,1\n", i % 2))
        .collect();
    write(
        "d.csv",
        &format!("id,task,correct_small,correct_medium,correct_large\n{rows}"),
    );
    let ran = run_in(
        folder.path(),
        &[
            "compare",
            "d.csv",
            "--format",
            "json",
            "--requests",
            "300",
            "-p",
            "c.toml",
            "-p",
            capability.to_str().unwrap(),
            "--routes",
            routes.to_str().unwrap(),
        ],
    );
    assert!(
        ran.stderr
            .contains("no request of this workload has a difficulty hint"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .contains("no request of this workload has a tenant"),
        "{}",
        ran.stderr
    );
    let findings = ran.json();
    let share = findings["rows"][0]["metrics"]["final_share"]["small"]["value"]
        .as_f64()
        .unwrap();
    assert!(
        (0.2..0.4).contains(&share),
        "requests without a tenant are not one tenant: {share}"
    );
    let table = run_in(
        folder.path(),
        &[
            "compare",
            "d.csv",
            "--requests",
            "300",
            "-p",
            "c.toml",
            "--routes",
            routes.to_str().unwrap(),
        ],
    );
    assert!(table.fine().contains("only the first 300 of 400 rows"));
}

#[test]
fn a_policy_whose_tasks_are_all_pinned_learns_nothing() {
    let pinned = run(&[
        "compare",
        "workloads/lesson-recorded.toml",
        "-p",
        "policies/lesson/eval-driven.toml",
    ]);
    assert!(
        !pinned.fine().contains("eval-driven, length"),
        "no training, so no luck of training"
    );
}

#[test]
fn a_policy_by_length_says_when_there_are_no_lengths() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let routes = crate::given::project("policies/routes.toml");
    write("l.toml", "[length]\nweak = \"small\"\nstrong = \"large\"\n");
    write(
        "d.csv",
        "id,correct_small,correct_medium,correct_large\n1,1,1,1\n2,0,1,1\n",
    );
    let ran = run_in(
        folder.path(),
        &[
            "compare",
            "d.csv",
            "-p",
            "l.toml",
            "--routes",
            routes.to_str().unwrap(),
        ],
    );
    assert!(
        ran.stderr
            .contains("no request of this workload has a prompt length"),
        "{}",
        ran.stderr
    );
    ran.fine();
}
