//! Judges: what their calls cost, and what they may never see.

use std::fs;

use crate::program::run_in;

/// Routes of a town, its neighbour and an umpire overseas.
const ROUTES: &str = r#"
[route.near]
provider = "openai"
model = "near-2026-10-01"
residency = ["eu"]
usd_per_mtok = { input = 1, output = 2 }

[route.second]
provider = "openai"
model = "second-2026-10-01"
residency = ["eu"]
usd_per_mtok = { input = 8, output = 24 }

[route.umpire]
provider = "gemini"
model = "umpire-2026-10-01"
residency = ["us"]
usd_per_mtok = { input = 3, output = 6 }
context_tokens = 2_000

[require]
default = { residency = ["eu", "us"] }

[require.data_class.eu-only]
residency = ["eu"]
"#;

const JUDGED: &str = r#"
[cascade]
order = ["near", "second"]
verifier.judge = { route = "umpire", question = "Right?", simulate = { accept_if_correct = 1.0, accept_if_wrong = 0.0 } }
"#;

const COMPARE: [&str; 9] = [
    "compare",
    "d.csv",
    "-p",
    "p.toml",
    "--routes",
    "routes.toml",
    "-q",
    "--format",
    "json",
];

fn judged(data: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("routes.toml", ROUTES), ("p.toml", JUDGED), ("d.csv", data)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn metrics(data: &str) -> serde_json::Value {
    let findings = run_in(judged(data).path(), &COMPARE).json();
    assert_eq!(
        findings["rows"][0]["verifiers"],
        serde_json::json!(["judge"])
    );
    findings["rows"][0]["metrics"].clone()
}

fn value(metrics: &serde_json::Value, name: &str) -> f64 {
    metrics[name]["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("{name} is unknown"))
}

#[test]
fn a_judges_calls_are_billed_as_worked_out_by_hand() {
    // near: 100·1 + 10·2 = 120. umpire: (200 + 100 + 10)·3 + 5·6 = 960. second: 100·8 + 10·24 = 1,040, all in
    // 10⁻⁶ USD. The first request ends at near, 1,080; the second goes on, 2,120: 3,200 for two.
    let got = metrics(
        "id,input_tokens,output_tokens,correct_near,correct_second,correct_umpire\n1,100,10,1,1,1\n2,100,10,0,1,1\n",
    );
    assert!((value(&got, "usd_per_1k") - 1.6).abs() < 1e-12, "{got}");
    assert_eq!(value(&got, "calls_per_request"), 2.5);
    assert_eq!(value(&got, "judge_calls_per_request"), 1.0);
    assert!((value(&got, "judge_usd_per_1k") - 0.96).abs() < 1e-12);
    assert_eq!(value(&got, "accuracy"), 1.0);
    assert_eq!(value(&got, "verifier_false_accept"), 0.0);
    assert_eq!(value(&got, "verifier_unavailable"), 0.0);
    // Nobody counted the answer's tokens, so nobody knows what the judge read.
    let got = metrics(
        "id,input_tokens,correct_near,correct_second,correct_umpire\n1,100,1,1,1\n2,100,0,1,1\n",
    );
    assert!(got["usd_per_1k"]["value"].is_null(), "{got}");
    assert!(got["judge_usd_per_1k"]["value"].is_null(), "{got}");
    assert_eq!(value(&got, "judge_calls_per_request"), 1.0);
}

#[test]
fn data_that_may_not_leave_the_eu_is_not_shown_to_a_judge_outside() {
    let row = |id: u32, class: &str, tokens: u32| format!("{id},{class},{tokens},10,1,1,1\n");
    let head =
        "id,data_class,input_tokens,output_tokens,correct_near,correct_second,correct_umpire\n";
    let closed: String = (0..40).map(|id| row(id, "eu-only", 100)).collect();
    let got = metrics(&format!("{head}{closed}"));
    assert_eq!(value(&got, "judge_calls_per_request"), 0.0);
    assert_eq!(value(&got, "judge_usd_per_1k"), 0.0);
    assert_eq!(value(&got, "verifier_unavailable"), 1.0);
    assert_eq!(value(&got, "calls_per_request"), 2.0, "passed on");
    assert_eq!(got["final_share"]["second"]["value"], 1.0);
    assert!(
        (value(&got, "usd_per_1k") - (0.12 + 1.04)).abs() < 1e-12,
        "{got}"
    );
    assert!(
        got["verifier_false_reject"]["value"].is_null(),
        "nobody looked"
    );
    // Of mixed data the other half is judged, but for what its window does not hold.
    let mixed: String = (0..40)
        .map(|id| {
            row(
                id,
                if id % 2 == 0 { "eu-only" } else { "open" },
                if id % 4 == 1 { 1_790 } else { 100 },
            )
        })
        .collect();
    let rule = "\n[require.data_class.open]\nresidency = [\"eu\", \"us\"]\n";
    let folder = judged(&format!("{head}{mixed}"));
    fs::write(folder.path().join("routes.toml"), format!("{ROUTES}{rule}")).unwrap();
    let got = run_in(folder.path(), &COMPARE).json()["rows"][0]["metrics"].clone();
    assert_eq!(value(&got, "judge_calls_per_request"), 0.25, "{got}");
    assert_eq!(value(&got, "verifier_unavailable"), 0.75);
}

#[test]
fn explain_shows_whom_the_judge_was_asked_about_and_what_it_took() {
    let data = "id,data_class,input_tokens,output_tokens,correct_near,correct_second,correct_umpire\na,,100,10,0,1,1\nb,eu-only,100,10,1,1,1\n";
    let folder = judged(data);
    let explain = |id: &str| {
        let arguments = [
            "explain",
            "d.csv",
            "-p",
            "p.toml",
            "--routes",
            "routes.toml",
            "--request",
            id,
        ];
        run_in(folder.path(), &arguments).fine()
    };
    let asked = explain("a");
    for line in [
        "judge    `umpire` is asked about the answer of `near`",
        "was rejected",
        "3 calls",
    ] {
        assert!(asked.contains(line), "{asked}");
    }
    let barred = explain("b");
    for line in [
        "judge    `umpire` cannot be asked",
        "could not be verified",
        "2 calls",
    ] {
        assert!(barred.contains(line), "{barred}");
    }
}
