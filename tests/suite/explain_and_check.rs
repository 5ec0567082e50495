//! `explain` and `check` from outside, on the shipped files and on worse ones.

use std::fs;

use crate::program::{run, run_in};

const SUPPORT: &str = "workloads/support.toml";
const RECORDED: &str = "workloads/lesson-recorded.toml";
const STATIC: &str = "policies/static.toml";

#[test]
fn explain_tells_the_story_of_a_request_under_every_policy() {
    let short = run(&["explain", RECORDED, "--request", "4"]).fine();
    insta::assert_snapshot!("explain_short", short);
    // 30,000 tokens of prompt do not fit the window of the small route.
    let long = run(&["explain", RECORDED, "--request", "135"]).fine();
    assert!(long.contains("skip     `small`: context_length (policies/routes.toml:"));
    insta::assert_snapshot!("explain_long_document", long);
    // The story agrees with what is counted: a run of that request alone.
    let world = crate::given::project("workloads/data/lesson-requests.csv.gz");
    let text = format!(
        "[recorded]\nfile = \"{}\"\n[recorded.columns]\nid = \"id\"\ntask = \"task\"\n\
         difficulty_hint = \"difficulty_estimate\"\ninput_tokens = \"input_tokens\"\n\
         output_tokens = \"output_tokens\"\ngrade = \"correct_{{route}}\"\n\
         verifier_draw = \"verifier_u_{{route}}\"\n[recorded.where]\nid = \"135\"\n",
        world.display()
    );
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one.toml");
    fs::write(&one, text).unwrap();
    let one = [
        "compare",
        one.to_str().unwrap(),
        "-p",
        "policies/cascade.toml",
        "--format",
        "json",
    ];
    let row = run(&one).json()["rows"][0].clone();
    let calls = row["metrics"]["calls_per_request"]["value"]
        .as_f64()
        .unwrap();
    let story = long
        .split("\n\n")
        .find(|story| story.starts_with("cascade"))
        .unwrap();
    assert_eq!(story.matches("  send ").count() as f64, calls, "{story}");
}

#[test]
fn explain_draws_synthetic_requests_and_refuses_ids_that_are_none() {
    let arguments = ["explain", SUPPORT, "-p", STATIC, "--request"];
    let story = |id: &str| run(&[&arguments[..], &[id]].concat());
    assert!(
        story("0")
            .fine()
            .contains("\n\nstatic\n  request  `0`, task `")
    );
    assert_eq!(story("17").fine(), story("17").fine());
    // Beyond what `compare` would run there are still requests.
    story("18446744073709551615").fine();
    for id in ["x", "-1", "1.5", "18446744073709551616", ""] {
        let errors = run(&["explain", SUPPORT, "-p", STATIC, &format!("--request={id}")]).refused();
        assert!(
            errors.contains(&format!("has no request `{id}`")),
            "{errors}"
        );
    }
    let errors = run(&["explain", RECORDED, "--request", "6001"]).refused();
    assert!(
        errors.contains("workload `lesson-recorded` has no request `6001`"),
        "{errors}"
    );
}

#[test]
fn check_passes_the_shipped_files_and_says_how_many_they_are() {
    let files = |folder: &str| {
        let entries = fs::read_dir(crate::given::project(folder)).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().path().extension() == Some("toml".as_ref()))
            .count()
    };
    let all = run(&["check"]).fine();
    let expected = format!(
        "checked 1 route catalogue, {} policies and {} workloads: no errors\n",
        files("policies") - 1,
        files("workloads")
    );
    assert_eq!(all, expected);
    assert_eq!(run(&["check", "policies", "workloads"]).fine(), all);
    // Policies in a folder below find the catalogue above.
    let below = run(&["check", "policies/lesson"]).fine();
    let lesson = files("policies/lesson");
    assert!(
        below.contains(&format!(" {lesson} policies ")) && lesson >= 7,
        "{below}"
    );
    let data = run(&["check", "workloads/data/lesson-requests.csv.gz"]).fine();
    assert!(data.contains("1 workload"));
}

#[test]
fn check_refuses_a_catalogue_without_price_or_residency_and_still_checks_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = fs::read_to_string(crate::given::project("policies/routes.toml")).unwrap();
    let bare: String = text
        .lines()
        .filter(|line| {
            !line.starts_with("usd_per_mtok") && !line.starts_with("residency = [\"eu\"]")
        })
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(here.join("routes.toml"), bare).unwrap();
    fs::write(here.join("p.toml"), "[fixed]\nroute = \"smal\"\n").unwrap();
    fs::write(here.join("w.toml"), "[synthetic]\nrequests = 0\n").unwrap();
    let errors = run_in(here, &["check", "."]).refused();
    for part in [
        "route `small` has no price",
        "route `small` has no residency tag",
        "route `large` has no price",
        "unknown route `smal`",
        "p.toml:2:9",
        "`synthetic.requests` must be between",
        "missing key `task`",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let errors = run_in(here, &["check", "nothing.toml"]).refused();
    assert!(errors.contains("there is no such file"), "{errors}");
    fs::create_dir(here.join("empty")).unwrap();
    let errors = run_in(here, &["check", "empty"]).refused();
    assert!(errors.contains("nothing to check"), "{errors}");
}

#[test]
fn strict_makes_warnings_count() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.toml");
    let text = fs::read_to_string(crate::given::project("policies/routes.toml")).unwrap();
    fs::write(
        &path,
        text.replace("priced_on = 2026-10-01", "priced_on = 2020-01-01"),
    )
    .unwrap();
    let lenient = run_in(folder.path(), &["check", "routes.toml"]);
    assert_eq!(lenient.code, Some(0));
    assert!(
        lenient
            .stderr
            .contains("warning: the price of route `small` is ")
    );
    assert!(
        lenient.stderr.ends_with("3 warnings\n"),
        "{}",
        lenient.stderr
    );
    let strict = run_in(folder.path(), &["check", "--strict", "routes.toml"]).refused();
    assert_eq!(strict, lenient.stderr);
    for (from, to, warning) in [
        (
            "priced_on = 2026-10-01",
            "",
            "nobody knows how old the price",
        ),
        (
            "2026-10-01\"",
            "latest\"",
            "model `small-latest` of route `small` is not pinned",
        ),
    ] {
        fs::write(&path, text.replace(from, to)).unwrap();
        let strict = run_in(folder.path(), &["check", "routes.toml", "--strict"]).refused();
        assert!(strict.contains(warning), "{strict}");
    }
}
