//! Real verifiers: what they accept, what they may do, and how often they err, measured.

use std::fs;

use proptest::prelude::*;
use routelab::catalogue::{Catalogue, Requirement};
use routelab::policy::{self, Ask, NoLab, PolicyFile, Setup};
use routelab::router::{Input, Need, Reply, RouteId, Router, Step, Verdict};
use routelab::source::{Diagnostics, SourceFile};
use routelab::units::Instant;
use routelab::verify::{CHECKS, Commands, Verifier};
use routelab::workload::{Batch, Domain, DrawKey, Workload};
use statrs::distribution::{Binomial, DiscreteCDF};

use crate::given::{routes, run, tally, workload_of};
use crate::program::{command, run_in};

fn read(line: &str, catalogue: &Catalogue, commands: Commands) -> Result<PolicyFile, String> {
    let text = format!("[cascade]\norder = [\"small\", \"medium\", \"large\"]\n{line}\n");
    let mut found = Diagnostics::default();
    let file = SourceFile::new("p.toml", text);
    policy::parse_allowing(&file, "p", catalogue, commands, &mut found)
        .ok_or_else(|| found.render(false))
}

fn cascade(line: &str) -> PolicyFile {
    read(line, &routes(), Commands::Allowed).unwrap_or_else(|found| panic!("{line}\n{found}"))
}

fn verifier(line: &str) -> Verifier {
    cascade(line).spec.verifiers()[0].clone()
}

#[test]
fn each_check_accepts_what_it_says_and_rejects_the_rest() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            r"verifier.pattern = { matches = '(?i)^ticket [A-Z]{2}-\d+$' }",
            &["Ticket AB-1", "ticket ab-99"],
            &["", "Ticket AB-", "see Ticket AB-1", "Ticket AB-1\n"],
        ),
        (
            r#"verifier.json_schema = { schema = { type = "object", required = ["city"], properties = { city = { type = "string", minLength = 2 }, n = { type = "integer", minimum = 1 } }, additionalProperties = false } }"#,
            &[
                r#"{"city": "Oslo"}"#,
                "```json\n{\"n\": 3, \"city\": \"Rome\"}\n```",
                " {\"city\":\"Oslo\"}\n",
            ],
            &[
                "Oslo",
                "",
                "{}",
                r#"{"city": 1}"#,
                r#"{"city": "x"}"#,
                r#"{"city": "Oslo", "n": 0.5}"#,
                r#"{"city": "Oslo", "other": 1}"#,
                r#"{"city": "Oslo"} and more"#,
                "```json\n{\"city\": \"Oslo\"",
            ],
        ),
        (
            r##"verifier.json_schema = { schema_json = '{"$defs": {"pair": {"type": "array", "minItems": 2}}, "$ref": "#/$defs/pair"}' }"##,
            &["[1, 2]", "[[], {}, 3]"],
            &["[1]", "{}", "null"],
        ),
        (
            r#"verifier.exact = { text = " Paris\n" }"#,
            &["Paris", "  Paris\n\n"],
            &["paris", "Paris.", "", "Par is"],
        ),
        (
            r#"verifier.exact = { text = "STRAẞE", ignore_case = true }"#,
            &["straße", "Straße "],
            &["strasse", "STRASE"],
        ),
        (
            "verifier.number = { min = -1.5, max = 1_000 }",
            &["It is 1,000.", "-1.5", "first 5000, then 7"],
            &["1,000.5", "-2", "none", "", "7 of 5000", "1e999"],
        ),
        (
            "verifier.number = { value = 0.3, tolerance = 0.01 }",
            &["0.3", "about 0.305", "$0.29"],
            &["0.32", "3", "-0.3"],
        ),
        (
            "verifier.number = { min = 10 }",
            &["10", "1e300"],
            &["9.99", "-10"],
        ),
        (
            r#"verifier.command = { program = ["grep", "-q", "^ok$"] }"#,
            &["ok", "first\nok\n"],
            &["not ok", ""],
        ),
    ];
    for (line, accepted, rejected) in cases {
        let verifier = verifier(line);
        for (texts, want) in [(accepted, Verdict::Accept), (rejected, Verdict::Reject)] {
            for text in *texts {
                assert_eq!(verifier.verdict(text), Some(want), "{line}: {text:?}");
            }
        }
    }
    // Every check is in the table.
    for kind in CHECKS {
        let tried = cases
            .iter()
            .any(|case| case.0.starts_with(&format!("verifier.{} ", kind.name)));
        let reads = verifier(kind.example).verdict("").is_some();
        assert_eq!(tried, reads, "{}", kind.name);
        assert_eq!(verifier(kind.example).name(), kind.name);
    }
}

proptest! {
    #[test]
    fn no_answer_makes_a_check_panic(text in "\\PC{0,80}|[\\[\\]{}\",:0-9a-z`\n .-]{0,80}") {
        for kind in CHECKS.iter().filter(|kind| kind.name != "command") {
            let verifier = verifier(kind.example);
            match verifier.verdict(&text) {
                // Those that read the answer here come to a verdict on any.
                Some(verdict) => prop_assert_ne!(verdict, Verdict::Unavailable),
                None => prop_assert!(matches!(verifier, Verifier::Simulated(_) | Verifier::Judge(_))),
            }
        }
    }
}

#[test]
fn a_program_runs_only_where_that_was_allowed() {
    let line = r#"verifier.command = { program = ["true"] }"#;
    let catalogue = routes();
    let refused = read(line, &catalogue, Commands::Refused).unwrap_err();
    assert!(refused.contains("--allow-commands"), "{refused}");
    assert!(refused.contains("p.toml:3"), "{refused}");
    let of = |commands| {
        let policy = read(line, &catalogue, commands).unwrap();
        policy.spec.verifiers()[0].verdict("x")
    };
    assert_eq!(of(Commands::OnlyRead), Some(Verdict::Unavailable));
    assert_eq!(of(Commands::Allowed), Some(Verdict::Accept));
    // Wrapped or not.
    let text = format!(
        "[shadow]\ncandidate = \"small\"\nshare = 0.1\nbase.cascade = {{ order = [\"small\", \"large\"], {line} }}\n"
    );
    let file = SourceFile::new("p.toml", text);
    for (commands, readable) in [(Commands::Refused, false), (Commands::Allowed, true)] {
        let mut found = Diagnostics::default();
        let read = policy::parse_allowing(&file, "p", &catalogue, commands, &mut found);
        assert_eq!(read.is_some(), readable, "{}", found.render(false));
        assert!(read.is_none_or(|policy| policy.spec.verifiers().len() == 1));
    }
}

/// A policy whose program leaves a trace, and all that it is run with.
fn with_program(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sound = crate::given::project("tests/configs/invalid/sound");
    for name in ["w.toml", "routes.toml"] {
        fs::copy(sound.join(name), folder.path().join(name)).unwrap();
    }
    let policy = format!(
        "[cascade]\norder = [\"small\", \"large\"]\n[cascade.verifier.command]\nprogram = [\"sh\", \"-c\", '''{script}''']\nsimulate = {{ passes = \"ok\", fails = \"bad\", pass_if_correct = 0.9, pass_if_wrong = 0.5 }}\n"
    );
    fs::write(folder.path().join("p.toml"), policy).unwrap();
    folder
}

const COMPARE: [&str; 9] = [
    "compare",
    "w.toml",
    "-p",
    "p.toml",
    "--routes",
    "routes.toml",
    "-q",
    "--format",
    "json",
];

#[test]
fn the_command_line_runs_a_program_only_with_its_flag_and_keeps_keys_from_it() {
    let folder = with_program("env > seen.txt; grep -q ok");
    let here = folder.path();
    let refused = run_in(here, &COMPARE).refused();
    assert!(refused.contains("--allow-commands"), "{refused}");
    let explain = [
        "explain",
        "w.toml",
        "-p",
        "p.toml",
        "--routes",
        "routes.toml",
        "--request",
        "0",
    ];
    assert!(
        run_in(here, &explain)
            .refused()
            .contains("--allow-commands")
    );
    run_in(
        here,
        &["check", "p.toml", "w.toml", "--routes", "routes.toml"],
    )
    .fine();
    assert!(!here.join("seen.txt").exists(), "nothing may have run");
    let mut allowed = command(here);
    allowed.args(COMPARE).arg("--allow-commands");
    allowed
        .env("OPENAI_API_KEY", "sk-secret")
        .env("HOME", "/home/somebody");
    let ran = allowed.output().unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let seen = fs::read_to_string(here.join("seen.txt")).unwrap();
    assert!(seen.contains("PATH="), "{seen}");
    assert!(
        !seen.contains("sk-secret") && !seen.contains("/home/somebody"),
        "{seen}"
    );
    let explain: Vec<&str> = explain.into_iter().chain(["--allow-commands"]).collect();
    run_in(here, &explain).fine();
}

#[test]
fn a_program_that_does_not_tell_its_specimens_apart_is_refused_before_the_run() {
    for (script, why) in [
        ("exit 0", "but the verifier accepts it"),
        ("exit 1", "but the verifier rejects it"),
        ("kill -KILL $$", "could not look at it"),
    ] {
        let folder = with_program(script);
        let arguments: Vec<&str> = COMPARE.into_iter().chain(["--allow-commands"]).collect();
        let refused = run_in(folder.path(), &arguments).refused();
        assert!(refused.contains(why), "{refused}");
        assert!(refused.contains("p.toml:5"), "{refused}");
    }
}

#[test]
fn schemas_that_lead_elsewhere_are_refused_where_they_do() {
    for (line, at) in [
        (
            r#"verifier.json_schema = { schema = { "$ref" = "https://example.com/s.json" } }"#,
            "\"https:",
        ),
        (
            r#"verifier.json_schema = { schema = { properties = { a = { "$ref" = "other.json#/a" } } } }"#,
            "\"other",
        ),
        (
            r#"verifier.json_schema = { schema = { anyOf = [{ "$dynamicRef" = "file:///etc/passwd" }] } }"#,
            "\"file:",
        ),
        (
            r#"verifier.json_schema = { schema_json = '{"items": {"$ref": "urn:x"}}' }"#,
            "'{",
        ),
    ] {
        let refused = read(line, &routes(), Commands::Refused).unwrap_err();
        assert!(refused.contains("refers to another document"), "{refused}");
        let place = format!("p.toml:3:{}\n", line.find(at).unwrap() + 1);
        assert!(refused.contains(&place), "{refused}");
    }
    // Data and properties of that name are no references.
    for line in [
        r#"verifier.json_schema = { schema = { const = { "$ref" = "https://example.com" } } }"#,
        r#"verifier.json_schema = { schema = { properties = { "$ref" = { type = "string" } } } }"#,
    ] {
        read(line, &routes(), Commands::Refused).unwrap();
    }
}

const WORLD: &str = r#"
[synthetic]
requests = 20_000

[synthetic.task.a]
share = 0.6
difficulty = { beta = [2, 5] }
tokens = { input = 400, output = 100 }

[synthetic.task.b]
share = 0.4
difficulty = { beta = [4, 3] }
tokens = { input = 90, output = 700 }

[synthetic.model.small]
skill = { a = 0.45, b = 0.4 }

[synthetic.model.medium]
skill = { a = 0.6, b = 0.55 }

[synthetic.model.large]
skill = { a = 0.8, b = 0.8 }
"#;

/// What the test's own driver saw.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    right: u64,
    right_accepted: u64,
    wrong: u64,
    wrong_accepted: u64,
    calls: u64,
    judge_calls: u64,
    cost: i128,
}

/// Drives a cascade over the first requests. Each answer is a text, and each verdict what the verifier
/// makes of the text.
fn drive(file: &PolicyFile, catalogue: &Catalogue, workload: &Workload, requests: usize) -> Seen {
    let lab = NoLab;
    let mut setup = Setup::new(catalogue, &workload.tasks, &[], &[], &lab);
    let mut policy = setup.build(&*file.spec);
    let verifiers = setup.verifiers;
    let mut batch = Batch::default();
    let key = DrawKey {
        seed: 2026,
        domain: Domain::Traffic,
        replicate: 0,
    };
    workload.fill(key, 0, requests, &mut batch);
    let column = |route: RouteId| {
        let name = &catalogue.routes[usize::from(route.0)].name;
        workload
            .routes
            .iter()
            .position(|known| known == name)
            .unwrap()
    };
    let requirement = catalogue
        .requirement(None, None)
        .unwrap_or(Requirement::NONE);
    let mut router: Router = catalogue.router();
    let mut seen = Seen::default();
    for i in 0..requests {
        let need = Need {
            input_tokens: batch.input_tokens[i],
            output_cap: batch.output_cap[i],
            tools: batch.tools[i],
            residency: requirement.residency,
            local_only: requirement.local_only,
            account: None,
            deadline: None,
        };
        let ask = Ask {
            task: batch.task[i],
            tenant: u16::MAX,
            language: u16::MAX,
            user: 0,
            session: 0,
            prompt_chars: batch.prompt_chars[i],
            difficulty_hint: f64::NAN,
            need,
            last_route: None,
            now: Instant::ZERO,
            word: batch.policy_word[i],
            key: 0,
        };
        let tokens = |route: RouteId| {
            let output = batch.output(column(route), i).get().unwrap();
            (batch.input_tokens[i].get().unwrap(), output)
        };
        let mut bill = |route: RouteId, input: u32, output: u32| {
            let price = catalogue.routes[usize::from(route.0)].price.unwrap();
            seen.cost += i128::from(price.of(input, output).0);
            seen.calls += 1;
        };
        let mut call = router.open(policy.plan(&ask).serve, need, 0);
        let mut input = Input::Begin;
        loop {
            input = match router.step(&mut call, input, Instant::ZERO, &mut ()) {
                Step::Send { route, .. } => {
                    let (prompt, output) = tokens(route);
                    bill(route, prompt, output);
                    Input::Reply(Reply { usage: None })
                }
                Step::Verify { route, verifier } => {
                    let grade = batch.grade[column(route)][i];
                    let lane = batch.verifier_lane[column(route)][i];
                    let verifier = &verifiers[usize::from(verifier.0)];
                    let passes = verifier.rates().unwrap().accepts(grade, lane).unwrap();
                    let verdict = match (verifier, verifier.specimen(passes)) {
                        (Verifier::Checked(_), Some(text)) => verifier.verdict(text).unwrap(),
                        (Verifier::Judge(judge), None) => {
                            let (prompt, output) = tokens(route);
                            bill(
                                judge.route,
                                judge.prompt_tokens + prompt + output,
                                judge.output_tokens,
                            );
                            seen.judge_calls += 1;
                            judge.read(judge.answer(passes))
                        }
                        (Verifier::Simulated(_), None) if passes => Verdict::Accept,
                        (Verifier::Simulated(_), None) => Verdict::Reject,
                        other => panic!("{other:?}"),
                    };
                    let accepted = u64::from(verdict == Verdict::Accept);
                    if grade.millionths() == Some(0) {
                        seen.wrong += 1;
                        seen.wrong_accepted += accepted;
                    } else {
                        seen.right += 1;
                        seen.right_accepted += accepted;
                    }
                    Input::Verdict(verdict)
                }
                Step::Done(_) => break,
                step => panic!("{step:?}"),
            };
        }
    }
    seen
}

/// Whether `hits` of `n` is what a share of `p` gives in all but one of a million cases.
fn plausible(hits: u64, n: u64, p: f64) -> bool {
    let law = Binomial::new(p, n).unwrap();
    let at_most = law.cdf(hits);
    let at_least = if hits == 0 { 1.0 } else { law.sf(hits - 1) };
    n > 100 && at_most.min(at_least) > 5e-7
}

#[test]
fn every_kind_of_verifier_errs_as_often_as_its_file_says_and_its_report_shows() {
    let catalogue = routes();
    let world = workload_of("w.toml", WORLD);
    for kind in CHECKS {
        let file = cascade(kind.example);
        // A program is started for each answer.
        let requests = if kind.name == "command" {
            1_000
        } else {
            20_000
        };
        let seen = drive(&file, &catalogue, &world, requests);
        let rates = *file.spec.verifiers()[0].rates().unwrap();
        let (accept, pass) = (rates.accept_if_wrong.get(), rates.accept_if_correct.get());
        let name = kind.name;
        assert!(
            plausible(seen.wrong_accepted, seen.wrong, accept),
            "{name}: {seen:?}"
        );
        assert!(
            plausible(seen.right_accepted, seen.right, pass),
            "{name}: {seen:?}"
        );
        // The comparison, which reads no text, has the same numbers to the last one.
        let results = run(&catalogue, &world, &[file], requests as u64);
        let told = tally(&results, "p");
        let table = Seen {
            right: told.verified_right,
            right_accepted: told.accepted_right,
            wrong: told.verified_wrong,
            wrong_accepted: told.accepted_wrong,
            calls: told.calls_sum,
            judge_calls: told.judge_calls_sum,
            cost: told.cost_sum,
        };
        assert_eq!(table, seen, "{name}");
        assert_eq!(seen.judge_calls > 0, name == "judge");
        assert_eq!(told.unavailable, 0);
        let findings =
            routelab::report::findings(&results, &Default::default(), Default::default());
        let findings = findings.unwrap();
        for format in ["table", "markdown"] {
            let text = (routelab::report::Renderer::named(format).unwrap().render)(&findings);
            let (_, block) = text.split_once("Verifiers, simulated").expect("a block");
            assert!(
                block.contains(&name.replace('_', if format == "table" { "_" } else { "\\_" })),
                "{block}"
            );
        }
    }
}

#[test]
fn the_test_of_rates_would_notice_a_wrong_one() {
    assert!(plausible(300, 1000, 0.3) && plausible(0, 1000, 0.0) && plausible(1000, 1000, 1.0));
    assert!(!plausible(400, 1000, 0.3) && !plausible(1, 1000, 0.0) && !plausible(999, 1000, 1.0));
}
