//! Every command with targets it cannot use: a file that is missing, of the wrong kind, empty, a folder,
//! standard input, and places that nobody can write to. Each time it says which, and what to do next.

use std::fs;
use std::path::Path;

use crate::program::{Ran, command, run, run_in};

/// How each command is called with a file to read: `{}` stands for it. The rest of the line is sound, so that
/// there is nothing else to complain about.
const READING: &[(&str, &str)] = &[
    ("compare", "compare {}"),
    ("compare", "compare w.toml -p {} --routes routes.toml"),
    ("compare", "compare w.toml --routes {}"),
    (
        "compare",
        "compare data.csv -p p.toml --routes routes.toml --columns {}",
    ),
    (
        "compare",
        "compare w.toml -p p.toml --routes routes.toml --faults {}",
    ),
    (
        "gate",
        "gate {} -p p.toml --routes routes.toml --baseline p --candidate always-small",
    ),
    (
        "gate",
        "gate w.toml -p {} --routes routes.toml --baseline p --candidate always-small",
    ),
    ("gate", "gate w.toml --base {} --head {} --candidate p"),
    ("diff", "diff {} {}"),
    (
        "explain",
        "explain {} -p p.toml --routes routes.toml --violations",
    ),
    (
        "sweep",
        "sweep {} -p p.toml --vary policy.fixed.route=small,large --routes routes.toml",
    ),
    (
        "sweep",
        "sweep w.toml -p {} --vary policy.fixed.route=small,large --routes routes.toml",
    ),
    (
        "drill",
        "drill {} -p p.toml --routes routes.toml --down small",
    ),
    (
        "drill",
        "drill w.toml -p {} --routes routes.toml --down small",
    ),
    (
        "explain",
        "explain {} --request 1 -p p.toml --routes routes.toml",
    ),
    (
        "explain",
        "explain w.toml --request 1 -p p.toml --routes {}",
    ),
    ("check", "check {}"),
    ("check", "check p.toml --routes {}"),
    (
        "size",
        "size eval {} --routes routes.toml --target 0.8 --otherwise large",
    ),
    (
        "size",
        "size shadow {} --routes routes.toml --candidate small --primary large",
    ),
    (
        "size",
        "size canary {} --routes routes.toml --candidate small --base large",
    ),
    ("call", "call hello -p {} --routes routes.toml"),
    ("call", "call hello -p p.toml --routes {}"),
    ("serve", "serve --world {} --routes routes.toml"),
    ("serve", "serve --world w.toml --routes {}"),
    ("serve", "serve --faults {}"),
];

/// How each command is called with a place to write to.
const WRITING: &[(&str, &str)] = &[
    (
        "compare",
        "compare w.toml -p p.toml --routes routes.toml --report {}",
    ),
    (
        "gate",
        "gate w.toml -p p.toml --routes routes.toml --baseline p --candidate always-small --report {}",
    ),
    (
        "sweep",
        "sweep w.toml -p p.toml --routes routes.toml --vary policy.fixed.route=small,large --report {}",
    ),
    (
        "sweep",
        "sweep w.toml -p p.toml --routes routes.toml --vary policy.fixed.route=small,large --plot {}.svg",
    ),
    (
        "drill",
        "drill w.toml -p p.toml --routes routes.toml --down small --replicates 1 --hours 1 --report {}",
    ),
    (
        "drill",
        "drill w.toml -p p.toml --routes routes.toml --down small --replicates 1 --hours 1 --plot {}.svg",
    ),
    ("call", "call hello -p p.toml --routes routes.toml --log {}"),
    ("serve", "serve --log {}"),
    ("init", "init {}"),
    ("man", "man {}"),
];

/// Commands that neither read nor write a file that somebody names.
const NEITHER: &[&str] = &["completions", "schema", "help"];

/// A folder with sound files, and others that are of no use.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let sound = crate::given::project("tests/configs/invalid/sound");
    for entry in fs::read_dir(sound).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let at = |name: &str| folder.path().join(name);
    // The first bytes of a PNG, which no text has.
    let picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0";
    for name in [
        "picture.png",
        "picture.toml",
        "picture.csv",
        "picture.jsonl",
    ] {
        fs::write(at(name), picture).unwrap();
    }
    for name in ["object.toml", "object.json"] {
        fs::write(at(name), "{\"synthetic\": {\"requests\": 10}}\n").unwrap();
    }
    for name in ["empty.toml", "empty.csv", "empty.jsonl", "file"] {
        fs::write(at(name), "").unwrap();
    }
    fs::create_dir(at("folder")).unwrap();
    fs::create_dir(at("folder.toml")).unwrap();
    folder
}

/// What is of no use to whoever reads a workload, a policy, a catalogue or data.
const USELESS: [&str; 14] = [
    "missing.toml",
    "missing.csv",
    "no/such/folder.toml",
    "picture.png",
    "picture.toml",
    "picture.csv",
    "object.toml",
    "object.json",
    "empty.toml",
    "empty.csv",
    "folder",
    "folder.toml",
    "-",
    "",
];

/// The commands of the program, as its help lists them.
fn commands() -> Vec<String> {
    let help = run(&["--help"]).fine();
    let list = help.split("Commands:\n").nth(1).unwrap();
    let list = list.split("\n\n").next().unwrap();
    // Names stand at an indent of two; what goes on below them is further in.
    let names = list
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

/// Whether a text ends with what to do next.
fn ends_with_a_way_out(stderr: &str) -> bool {
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let tail = &lines[lines.len().saturating_sub(4)..];
    tail.iter().any(|line| {
        line.contains("help:")
            || line.contains("did you mean")
            || line.starts_with("For more information, try")
    })
}

#[track_caller]
fn assert_refused(ran: &Ran, line: &str, target: &str) {
    let Ran {
        code,
        stdout,
        stderr,
    } = ran;
    assert!(
        matches!(code, Some(1 | 2)),
        "`{line}` ended with {code:?}: {stderr}"
    );
    assert_eq!(stdout, "", "`{line}`");
    assert!(stderr.contains("error"), "`{line}`: {stderr}");
    assert!(
        stderr.contains(target),
        "`{line}` does not name its target: {stderr}"
    );
    assert!(!stderr.contains("panicked"), "`{line}`: {stderr}");
    assert!(
        ends_with_a_way_out(stderr),
        "`{line}` does not say what to do: {stderr}"
    );
}

#[test]
fn no_command_is_forgotten() {
    let commands = commands();
    assert!(commands.len() > 8, "{commands:?}");
    for name in &commands {
        let known = READING.iter().chain(WRITING).map(|(name, _)| *name);
        assert!(
            known
                .chain(NEITHER.iter().copied())
                .any(|known| known == name),
            "`{name}` is a command whose targets nobody tried"
        );
    }
    for (name, _) in READING.iter().chain(WRITING) {
        assert!(
            commands.iter().any(|known| known == name) || !cfg!(feature = "live"),
            "{name}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_a_way_out() {
    let folder = folder();
    let commands = commands();
    for (name, line) in READING {
        if !commands.iter().any(|known| known == name) {
            continue;
        }
        let mut targets = USELESS.to_vec();
        // Of the right format, and something else.
        targets.push(
            match line.split_whitespace().position(|word| word == "{}") {
                Some(at) if line.split_whitespace().nth(at - 1) == Some("-p") => "w.toml",
                _ if line.contains("--routes {}") => "w.toml",
                _ if line.starts_with("check") => "picture.toml",
                _ => "p.toml",
            },
        );
        for target in targets {
            // A folder of policies may be asked for; one without any is wrong all the same.
            let words = line.split_whitespace();
            let words: Vec<&str> = words
                .map(|word| if word == "{}" { target } else { word })
                .collect();
            if line.starts_with("check {}") && target == "picture.png" {
                continue;
            }
            let ran = run_in(folder.path(), &words);
            assert_refused(&ran, &words.join(" "), target);
            assert_eq!(ran.code, Some(2), "`{}`", words.join(" "));
        }
    }
}

#[test]
fn a_log_of_stand_ins_that_is_none_is_named_with_a_way_out() {
    let folder = folder();
    for target in ["missing.jsonl", "empty.jsonl", "picture.jsonl"] {
        let ran = run_in(folder.path(), &["drill", target]);
        assert_refused(&ran, target, target);
    }
}

#[test]
fn standard_input_is_said_not_to_be_read() {
    let folder = folder();
    for line in [
        "compare -",
        "compare w.toml -p - --routes routes.toml",
        "check -",
        "drill -",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let said = run_in(folder.path(), &words).refused();
        assert!(
            said.contains("standard input is not read"),
            "{line}: {said}"
        );
    }
}

#[test]
fn a_place_that_cannot_be_written_to_is_named_with_a_way_out() {
    let folder = folder();
    let commands = commands();
    let mut places = vec!["file/below"];
    // Where nobody can make anything, not even who may do everything.
    if cfg!(target_os = "linux") {
        places.push("/proc/routelab");
    }
    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    if lock(&locked) {
        places.push("locked/below");
    }
    for (name, line) in WRITING {
        if !commands.iter().any(|known| known == name) {
            continue;
        }
        for place in &places {
            let line = line.replace("{}", place);
            let words: Vec<&str> = line.split_whitespace().collect();
            let ran: Ran = command(folder.path()).args(&words).output().unwrap().into();
            // `init` says that a file is in the way before it tries.
            let target = place.split("/below").next().unwrap();
            assert!(
                matches!(ran.code, Some(1 | 2)),
                "`{line}`: {:?} {}",
                ran.code,
                ran.stderr
            );
            assert!(ran.stderr.contains(target), "`{line}`: {}", ran.stderr);
            assert!(ends_with_a_way_out(&ran.stderr), "`{line}`: {}", ran.stderr);
        }
    }
    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"");
}

/// Takes away the right to write; whether that keeps anybody from it (it does not keep root).
fn lock(folder: &Path) -> bool {
    let mut permissions = fs::metadata(folder).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(folder, permissions).unwrap();
    let probe = folder.join("probe");
    let is_locked = fs::write(&probe, "").is_err();
    let _ = fs::remove_file(probe);
    is_locked
}

#[test]
fn names_that_are_nearly_right_are_recognised() {
    for (line, meant) in [
        ("compar workloads/support.toml", "compare"),
        ("compare workloads/support.toml --sed 3", "--seed"),
        ("compare workloads/suport.toml", "workloads/support.toml"),
        (
            "compare workloads/support.toml -p policies/cascad.toml",
            "policies/cascade.toml",
        ),
        (
            "compare workloads/support.toml --baseline cascad",
            "cascade",
        ),
        (
            "compare workloads/support.toml --minimize usd_per_k",
            "usd_per_1k",
        ),
        (
            "compare workloads/support.toml --require acuracy>=0.9",
            "accuracy",
        ),
        (
            "compare workloads/support.toml --require cascad.accuracy>=0.9",
            "cascade",
        ),
        ("compare workloads/support.toml --format jsn", "json"),
        (
            "size shadow workloads/support.toml --candidate medum --primary large",
            "medium",
        ),
        (
            "size shadow workloads/support.toml --candidate medium --primary large --task fax",
            "faq",
        ),
        ("drill workloads/support.toml --down opnai", "openai"),
        ("schema polcy", "policy"),
        ("init --template quikstart", "quickstart"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = run(&words);
        assert_eq!(ran.code, Some(2), "`{line}`: {}", ran.stderr);
        assert!(ran.stderr.contains(meant), "`{line}`: {}", ran.stderr);
        assert!(
            ran.stderr.contains("did you mean") || ran.stderr.contains("similar"),
            "`{line}`: {}",
            ran.stderr
        );
    }
}
