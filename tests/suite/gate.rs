//! `gate`: verdicts that are those of `compare`, residency that no statistics excuse, and exit codes.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::given::project;
use crate::program::{Ran, run, run_in};

const SUPPORT: &str = "workloads/support.toml";
const TENANTS: &str = "workloads/tenants.toml";
const RECORDED: &str = "workloads/lesson-recorded.toml";

/// A folder with the shipped files as two configurations, `base` and `head`, of which `change` makes another.
fn configurations(policy: &str, change: impl Fn(&Path)) -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    for side in ["base", "head"] {
        let folder = scratch.path().join(side);
        fs::create_dir(&folder).unwrap();
        for file in ["routes.toml", policy] {
            fs::copy(project("policies").join(file), folder.join(file)).unwrap();
        }
    }
    fs::create_dir(scratch.path().join("workloads")).unwrap();
    for file in [SUPPORT, TENANTS] {
        fs::copy(project(file), scratch.path().join(file)).unwrap();
    }
    change(&scratch.path().join("head"));
    scratch
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn between(scratch: &tempfile::TempDir, data: &str, more: &[&str]) -> Ran {
    let fixed = ["gate", data, "--base", "base", "--head", "head", "-q"];
    run_in(scratch.path(), &[&fixed[..], more].concat())
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))
}

fn result_of(gate: &Value, question: &str, task: Option<&str>, tenant: Option<&str>) -> String {
    let verdicts = gate["verdicts"].as_array().unwrap();
    let found = verdicts.iter().find(|one| {
        one["question"] == question
            && one["task"].as_str() == task
            && one["tenant"].as_str() == tenant
    });
    found.unwrap()["result"].as_str().unwrap().to_owned()
}

#[test]
fn the_numbers_are_those_of_a_comparison() {
    for (data, more) in [
        (SUPPORT, &["--requests", "150k"][..]),
        (TENANTS, &[][..]),
        (RECORDED, &[][..]),
    ] {
        let gate = [
            "gate",
            data,
            "--baseline",
            "static",
            "--candidate",
            "cascade",
            "-q",
            "--format",
            "json",
        ];
        let gate = json(&run(&[&gate[..], more].concat()));
        let compare = [
            "compare",
            data,
            "-q",
            "--baseline",
            "static",
            "--format",
            "json",
        ];
        let compare = run(&[&compare[..], more].concat()).json();
        let paired = compare["paired"].as_array().unwrap();
        let paired = paired
            .iter()
            .find(|one| one["policy"] == "cascade")
            .unwrap();
        for number in ["accuracy_difference", "usd_per_1k_difference"] {
            assert_eq!(gate[number], paired[number], "{data} {number}");
        }
        let rows = compare["rows"].as_array().unwrap();
        for (side, name) in [("base", "static"), ("head", "cascade")] {
            let row = rows.iter().find(|row| row["policy"] == name).unwrap();
            for metric in [
                "accuracy",
                "usd_per_1k",
                "calls_per_request",
                "unserved",
                "escalated",
            ] {
                assert_eq!(
                    gate[side]["metrics"][metric], row["metrics"][metric],
                    "{data} {name} {metric}"
                );
            }
        }
        assert!(gate["violations"].as_array().unwrap().is_empty());
    }
}

#[test]
fn the_exit_code_says_what_the_verdicts_come_to() {
    let go = |candidate: &str, more: &[&str]| {
        let fixed = [
            "gate",
            SUPPORT,
            "--baseline",
            "always-large",
            "--candidate",
            candidate,
            "-q",
        ];
        run(&[&fixed[..], more].concat())
    };
    let pass = go("shadow", &[]);
    assert_eq!(pass.code, Some(0), "{}", pass.stderr);
    assert!(pass.stdout.contains("pass (simulated):"), "{}", pass.stdout);
    let fail = go("cascade", &[]);
    assert_eq!(fail.code, Some(100));
    assert!(fail.stdout.contains("fail (simulated):"), "{}", fail.stdout);
    // So few requests decide nothing about tasks that are one in ten of them.
    let few = ["--requests", "200"];
    let open = go("canary", &few);
    assert_eq!(open.code, Some(102));
    assert!(
        open.stdout.contains("inconclusive (simulated):"),
        "{}",
        open.stdout
    );
    let warned = go("canary", &[&few[..], &["--inconclusive", "warn"]].concat());
    assert_eq!(warned.code, Some(0));
    assert_eq!(warned.stdout, open.stdout);
    assert!(warned.stderr.starts_with("warning:"), "{}", warned.stderr);
    // What fails is not let through by it.
    assert_eq!(go("cascade", &["--inconclusive", "warn"]).code, Some(100));
}

#[test]
fn every_guarded_task_must_pass() {
    let gate = |guard: &str| {
        run(&[
            "gate",
            SUPPORT,
            "--baseline",
            "always-large",
            "--candidate",
            "static",
            "-q",
            "--format",
            "json",
            "--margin",
            "0.06",
            "--requests",
            "60k",
            "--guard",
            guard,
        ])
    };
    // Rules by hand cost a few points on the whole, and all of them where `small` answers.
    let whole = gate("none");
    assert_eq!(whole.code, Some(0), "{}", whole.stdout);
    let guarded = gate("task");
    assert_eq!(guarded.code, Some(100));
    let guarded = json(&guarded);
    assert_eq!(result_of(&guarded, "accuracy", None, None), "pass");
    assert_eq!(result_of(&guarded, "accuracy", Some("code"), None), "pass");
    assert_eq!(
        result_of(&guarded, "accuracy", Some("extract"), None),
        "fail"
    );
}

#[test]
fn each_tenant_has_a_verdict_and_both_together_if_asked() {
    let gate = |guard: &str| {
        json(&run(&[
            "gate",
            TENANTS,
            "--baseline",
            "static",
            "--candidate",
            "cascade",
            "-q",
            "--format",
            "json",
            "--guard",
            guard,
        ]))
    };
    let of = |gate: &Value| gate["verdicts"].as_array().unwrap().len();
    // Residency, evidence, the whole; 3 tasks, 2 tenants.
    assert_eq!(of(&gate("none")), 3);
    assert_eq!(of(&gate("task,tenant")), 3 + 3 + 2);
    assert_eq!(of(&gate("task-and-tenant")), 3 + 6);
}

#[test]
fn a_requirement_is_about_the_candidate() {
    let gate = |rule: &str| {
        let fixed = [
            "gate",
            SUPPORT,
            "--baseline",
            "always-large",
            "--candidate",
            "shadow",
            "-q",
            "--require",
        ];
        run(&[&fixed[..], &[rule]].concat())
    };
    assert_eq!(gate("usd_per_1k<=25").code, Some(0));
    assert_eq!(gate("usd_per_1k<=5").code, Some(100));
    let near = gate("usd_per_1q<=5").refused();
    assert!(near.contains("did you mean `usd_per_1k`"), "{near}");
}

#[test]
fn simulated_outcomes_do_not_pass_where_recorded_ones_are_asked_for() {
    let gate = |data: &str| {
        run(&[
            "gate",
            data,
            "--baseline",
            "always-large",
            "--candidate",
            "always-large2",
            "-q",
            "--min-evidence",
            "paired",
        ])
    };
    assert!(
        gate(SUPPORT)
            .refused()
            .contains("did you mean `always-large`")
    );
    let gate = |data: &str| {
        run(&[
            "gate",
            data,
            "--baseline",
            "static",
            "--candidate",
            "always-large",
            "-q",
            "--min-evidence",
            "paired",
            "--guard",
            "none",
        ])
    };
    let simulated = gate(SUPPORT);
    assert_eq!(simulated.code, Some(102), "{}", simulated.stdout);
    assert!(simulated.stdout.contains("--min-evidence asks for paired"));
    let recorded = gate(RECORDED);
    assert_eq!(recorded.code, Some(0), "{}", recorded.stdout);
    assert!(
        recorded.stdout.contains("pass (paired):"),
        "{}",
        recorded.stdout
    );
}

#[test]
fn the_same_configuration_twice_changes_nothing() {
    let scratch = configurations("cascade.toml", |_| {});
    let same = between(&scratch, TENANTS, &["--format", "json"]);
    assert_eq!(same.code, Some(0), "{}", same.stdout);
    let gate = json(&same);
    assert_eq!(gate["rerouted"]["value"], 0.0);
    assert_eq!(gate["accuracy_difference"]["value"], 0.0);
    assert_eq!(gate["changed_keys"], Value::Array(Vec::new()));
}

#[test]
fn data_that_may_not_go_there_fails_however_accurate_it_is() {
    // The better model for everybody, and a rule that now lets EU data leave.
    let scratch = configurations("cascade.toml", |head| {
        replace(
            &head.join("routes.toml"),
            "[require.data_class.eu-only]   # holds beside the tenant's rule or the default\nresidency = [\"eu\"]",
            "[require.data_class.eu-only]\nresidency = [\"eu\", \"us\"]",
        );
        fs::write(head.join("cascade.toml"), "[static]\ndefault = \"large\"\n").unwrap();
    });
    let ran = between(&scratch, TENANTS, &["--format", "json"]);
    assert_eq!(ran.code, Some(100));
    let gate = json(&ran);
    assert_eq!(result_of(&gate, "residency", None, None), "fail");
    assert_eq!(result_of(&gate, "accuracy", None, None), "pass");
    let strays = gate["violations"].as_array().unwrap();
    assert!(
        strays
            .iter()
            .all(|one| one["data_class"] == "eu-only" && one["route"] == "large"),
        "{strays:?}"
    );
    // The bank's requests, and one in ten of acme's.
    let requests: u64 = strays
        .iter()
        .map(|one| one["requests"].as_u64().unwrap())
        .sum();
    assert!((7_000..8_000).contains(&requests), "{requests}");
    let table = between(&scratch, TENANTS, &[]).stdout;
    assert!(table.contains("where they may not go"), "{table}");
    let keys: Vec<&str> = gate["changed_keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    assert!(
        keys.contains(&"require.data_class.eu-only.residency"),
        "{keys:?}"
    );
}

#[test]
fn saying_that_an_endpoint_stands_elsewhere_does_not_move_it() {
    let scratch = configurations("static.toml", |head| {
        let routes = head.join("routes.toml");
        let text = fs::read_to_string(&routes).unwrap();
        let at = text.find("[route.large]").unwrap();
        let (before, large) = text.split_at(at);
        // Somebody has to know the region; `small` gets no such data then.
        let before = before.replacen("[\"eu\"] ", "[\"eu\", \"us\"] ", 1);
        let large = large.replacen("[\"eu\", \"us\"]", "[\"eu\"]", 1);
        fs::write(&routes, before + &large).unwrap();
    });
    let gate = json(&between(&scratch, TENANTS, &["--format", "json"]));
    assert_eq!(result_of(&gate, "residency", None, None), "fail");
    // Neither does another label for its region, nor another name for the route.
    let routes = scratch.path().join("head/routes.toml");
    replace(&routes, "region = \"us-east\"", "region = \"eu-north\"");
    let gate = json(&between(&scratch, TENANTS, &["--format", "json"]));
    assert_eq!(result_of(&gate, "residency", None, None), "fail");
    replace(&routes, "[route.large]", "[route.grand]");
    replace(
        &scratch.path().join("head/static.toml"),
        "\"large\"",
        "\"grand\"",
    );
    let world = scratch.path().join(TENANTS);
    let text = fs::read_to_string(&world).unwrap();
    let model = text
        .split("[synthetic.model.large]")
        .nth(1)
        .unwrap()
        .to_owned();
    fs::write(&world, text + "\n[synthetic.model.grand]" + &model).unwrap();
    let gate = json(&between(&scratch, TENANTS, &["--format", "json"]));
    assert_eq!(result_of(&gate, "residency", None, None), "fail");
    // Another model is another endpoint, about which the head is believed, and that is said.
    replace(&routes, "large-2026-10-01", "large-2026-11-01");
    let ran = between(&scratch, TENANTS, &[]);
    assert!(
        ran.stdout
            .contains("the base does not know the endpoint of grand"),
        "{}",
        ran.stdout
    );
    let gate = json(&between(&scratch, TENANTS, &["--format", "json"]));
    assert_eq!(result_of(&gate, "residency", None, None), "pass");
}

#[test]
fn a_rejected_answer_has_left_the_house_as_well() {
    // Every request is shown to `large` first, which is never believed, and answered by `medium`.
    let scratch = configurations("cascade.toml", |head| {
        replace(
            &head.join("routes.toml"),
            "[require.data_class.eu-only]   # holds beside the tenant's rule or the default\nresidency = [\"eu\"]",
            "[require.data_class.eu-only]\nresidency = [\"eu\", \"us\"]",
        );
        let cascade = "[cascade]\norder = [\"large\", \"medium\"]\nverifier.simulated = { accept_if_correct = 0.0, accept_if_wrong = 0.0 }\n";
        fs::write(head.join("cascade.toml"), cascade).unwrap();
    });
    let gate = json(&between(&scratch, TENANTS, &["--format", "json"]));
    assert_eq!(result_of(&gate, "residency", None, None), "fail");
    let served = &gate["moves"].as_array().unwrap()[..];
    assert!(served.iter().all(|one| one["to"] != "large"), "{served:?}");
}

#[test]
fn a_fallback_that_nobody_has_needed_yet_counts() {
    let scratch = configurations("static.toml", |head| {
        replace(
            &head.join("routes.toml"),
            "[require.data_class.eu-only]   # holds beside the tenant's rule or the default\nresidency = [\"eu\"]",
            "[require.data_class.eu-only]\nresidency = [\"eu\", \"us\"]",
        );
        let rules = "[static]\ndefault = \"medium\"\nfallback = [\"large\"]\n";
        fs::write(head.join("static.toml"), rules).unwrap();
    });
    let gate = json(&between(&scratch, TENANTS, &["--format", "json"]));
    assert_eq!(result_of(&gate, "residency", None, None), "fail");
    // Each request counts once, however many of its routes are barred.
    let text = between(&scratch, TENANTS, &[]).stdout;
    let strays = gate["violations"].as_array().unwrap().iter();
    let strays: u64 = strays.map(|one| one["requests"].as_u64().unwrap()).sum();
    let strays = format!("{},{:03}", strays / 1_000, strays % 1_000);
    assert!(
        text.contains(&format!("{strays} of 20,000 requests outside")),
        "{text}"
    );
}

#[test]
fn a_policy_that_draws_once_does_not_pass_on_one_draw() {
    let gate = |more: &[&str]| {
        let fixed = [
            "gate",
            SUPPORT,
            "--baseline",
            "always-large",
            "--candidate",
            "eval-driven",
            "-q",
            "--guard",
            "none",
            "--margin",
            "0.05",
        ];
        run(&[&fixed[..], more].concat())
    };
    let once = gate(&[]);
    assert_eq!(once.code, Some(102), "{}", once.stdout);
    assert!(
        once.stdout.contains("one draw of the policy"),
        "{}",
        once.stdout
    );
    let often = gate(&["--replicates", "20"]);
    assert_eq!(often.code, Some(0), "{}", often.stdout);
}

#[test]
fn more_slices_than_can_be_told_apart_do_not_pass() {
    let scratch = tempfile::tempdir().unwrap();
    let mut rows = "id,task,tenant,grade_a,grade_b\n".to_owned();
    for id in 0..4_200 {
        rows.push_str(&format!("{id},chat,t{id},1,1\n"));
    }
    fs::write(scratch.path().join("many.csv"), rows).unwrap();
    let gate = [
        "gate",
        "many.csv",
        "--baseline",
        "always-a",
        "--candidate",
        "always-b",
        "-q",
    ];
    let ran = run_in(scratch.path(), &gate);
    assert_eq!(ran.code, Some(102), "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("too many tasks and tenants"),
        "{}",
        ran.stdout
    );
    let whole = run_in(scratch.path(), &[&gate[..], &["--guard", "none"]].concat());
    assert_eq!(whole.code, Some(0), "{}", whole.stdout);
}

#[test]
fn shares_of_requests_stay_shares_over_replicates() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(
        scratch.path().join("three.csv"),
        "id,task,grade_small,grade_large\n1,a,1,1\n2,a,1,1\n3,a,1,1\n",
    )
    .unwrap();
    fs::create_dir(scratch.path().join("policies")).unwrap();
    let put = |name: &str, text: &str| {
        fs::write(scratch.path().join("policies").join(name), text).unwrap()
    };
    put(
        "routes.toml",
        &fs::read_to_string(project("policies/routes.toml")).unwrap(),
    );
    put("coin.toml", "[mix]\nweight = { small = 1, large = 1 }\n");
    let gate = [
        "gate",
        "three.csv",
        "--baseline",
        "always-small",
        "--candidate",
        "coin",
        "-q",
        "--replicates",
        "101",
        "--format",
        "json",
    ];
    let gate = json(&run_in(scratch.path(), &gate));
    let share = gate["rerouted"]["value"].as_f64().unwrap();
    assert!((0.3..0.7).contains(&share), "{share}");
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let scratch = configurations("cascade.toml", |head| {
        replace(&head.join("cascade.toml"), "0.30", "0.10");
    });
    let go = |threads: &str| {
        let more = [
            "--threads",
            threads,
            "--requests",
            "200k",
            "--replicates",
            "2",
            "--format",
            "json",
        ];
        between(&scratch, TENANTS, &more).stdout
    };
    let one = go("1");
    assert!(one.contains("\"moves\""), "{one}");
    assert_eq!(one, go("2"));
    assert_eq!(one, go("7"));
}

#[test]
fn what_a_gate_prints_for_a_comment_is_frozen() {
    let scratch = configurations("static.toml", |head| {
        replace(
            &head.join("static.toml"),
            "summarize = \"medium\"",
            "summarize = \"large\"",
        );
        replace(&head.join("routes.toml"), "input = 1.00", "input = 0.80");
    });
    for (name, format) in [("gate_table", "table"), ("gate_markdown", "markdown")] {
        let ran = between(&scratch, SUPPORT, &["--format", format, "--volume", "40M"]);
        insta::assert_snapshot!(name, ran.stdout);
    }
}

#[test]
fn what_is_wrong_with_either_side_is_said_at_once() {
    let scratch = configurations("static.toml", |head| {
        replace(
            &head.join("routes.toml"),
            "priced_on = 2026-10-01",
            "priced_no = 2026-10-01",
        );
        replace(
            &head.join("static.toml"),
            "default = \"large\"",
            "default = \"larg\"",
        );
    });
    let said = between(&scratch, SUPPORT, &[]).refused();
    assert!(
        said.contains("priced_no") && said.contains("did you mean `large`"),
        "{said}"
    );
    let said = run_in(
        scratch.path(),
        &["gate", SUPPORT, "--base", "base", "--head", "nowhere"],
    )
    .refused();
    assert!(said.contains("`nowhere` is no folder"), "{said}");
    let said = run_in(
        scratch.path(),
        &["gate", SUPPORT, "--base", "base", "--head", "workloads"],
    )
    .refused();
    assert!(
        said.contains("there is no `routes.toml` in `workloads`"),
        "{said}"
    );
    let two = [
        "gate",
        SUPPORT,
        "--base",
        project("policies").to_str().unwrap(),
        "--head",
        "base",
    ]
    .map(str::to_owned);
    let two: Vec<&str> = two.iter().map(String::as_str).collect();
    let said = run_in(scratch.path(), &two).refused();
    assert!(
        said.contains("none is named") && said.contains("--candidate NAME"),
        "{said}"
    );
    let said = run(&[
        "gate",
        SUPPORT,
        "--baseline",
        "static",
        "--candidate",
        "static",
    ])
    .refused();
    assert!(said.contains("nothing changes"), "{said}");
}
