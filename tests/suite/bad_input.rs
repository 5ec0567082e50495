//! What users see when they got something wrong, to the letter.
//!
//! Each folder of `tests/configs/invalid` holds a `command.txt`, the files it names, and `stderr.snap`.
//! To add a case, add a folder and accept its snapshot (`INSTA_UPDATE=always`) after reading it as
//! somebody would who has never seen the source: which file, which line, what was expected, what to do?

use std::fs;

use crate::program::{Ran, command, run_in};

/// A folder with sound files, to be made worse.
fn sound() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(crate::given::project("tests/configs/invalid/sound")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

const COMPARE: [&str; 6] = [
    "compare",
    "w.toml",
    "-p",
    "p.toml",
    "--routes",
    "routes.toml",
];

#[test]
fn every_mistake_is_named_with_its_place_and_a_way_out() {
    let mut cases = 0;
    insta::glob!("../configs/invalid", "*/command.txt", |path| {
        cases += 1;
        let folder = path.parent().unwrap();
        let line = fs::read_to_string(path).unwrap();
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let errors = run_in(folder, &arguments).refused();
        for word in [
            "panicked",
            "thread 'main'",
            "/work",
            env!("CARGO_MANIFEST_DIR"),
        ] {
            assert!(!errors.contains(word), "{}: {errors}", folder.display());
        }
        insta::with_settings!({
            snapshot_path => folder,
            prepend_module_to_snapshot => false,
            snapshot_suffix => "",
            omit_expression => true,
            input_file => "command.txt",
            description => line.trim(),
        }, {
            insta::assert_snapshot!("stderr", errors);
        });
    });
    assert!(cases >= 60, "only {cases} cases were found");
}

#[test]
fn the_files_that_cases_are_made_from_are_sound() {
    let folder = crate::given::project("tests/configs/invalid/sound");
    run_in(&folder, &COMPARE).fine();
    run_in(
        &folder,
        &[
            "compare",
            "data.csv",
            "-p",
            "p.toml",
            "--routes",
            "routes.toml",
        ],
    )
    .fine();
}

#[test]
fn an_api_key_that_was_pasted_into_a_file_is_never_repeated() {
    let key = "sk-live-0123456789abcdef";
    let folder = sound();
    let routes = folder.path().join("routes.toml");
    let text = fs::read_to_string(&routes).unwrap();
    for wrong in [
        // In the wrong place, under a wrong name, beside another mistake, and cut off.
        format!("[provider.a]\nkind = \"compatible\"\napi_key_env = \"{key}\"\n"),
        format!("[provider.a]\nkind = \"compatible\"\napi_key = '{key}'\n"),
        format!("[provider.a]\nkind = \"compatible\"\nbearer_token = \"{key}\"\n"),
        format!("[provider]\na = {{ kind = \"compatble\", api_key_env = \"{key}\" }}\n"),
        format!("[provider]\na = {{ api_key_env = \"{key}\", kind = \"compatble\", zz = 1 }}\n"),
        format!("[provider.a]\nkind = \"compatible\"\napi_key_env = \"{key}\n"),
    ] {
        fs::write(&routes, format!("{text}\n{wrong}")).unwrap();
        for arguments in [&COMPARE[..], &["check", "routes.toml"]] {
            let errors = run_in(folder.path(), arguments).refused();
            assert!(!errors.contains("0123456789"), "{errors}");
            assert!(errors.contains("routes.toml:"), "{errors}");
        }
    }
}

#[test]
fn a_byte_order_mark_is_no_mistake() {
    let folder = sound();
    let expected = run_in(folder.path(), &COMPARE).fine();
    for name in ["w.toml", "p.toml", "routes.toml", "data.csv"] {
        let path = folder.path().join(name);
        let text = fs::read(&path).unwrap();
        fs::write(&path, [b"\xef\xbb\xbf".as_slice(), &text].concat()).unwrap();
    }
    assert_eq!(run_in(folder.path(), &COMPARE).fine(), expected);
    let data = [
        "compare",
        "data.csv",
        "-p",
        "p.toml",
        "--routes",
        "routes.toml",
    ];
    assert!(run_in(folder.path(), &data).fine().contains("always-small"));
}

#[test]
fn line_ends_of_another_system_are_no_mistake() {
    let folder = sound();
    let expected = run_in(folder.path(), &COMPARE).fine();
    for name in ["w.toml", "p.toml", "routes.toml"] {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace('\n', "\r\n")).unwrap();
    }
    assert_eq!(run_in(folder.path(), &COMPARE).fine(), expected);
    // And the column of a mistake stays right.
    fs::write(
        folder.path().join("p.toml"),
        "[fixed]\r\nroute = \"larg\"\r\n",
    )
    .unwrap();
    let errors = run_in(folder.path(), &COMPARE).refused();
    assert!(errors.contains("p.toml:2:9"), "{errors}");
}

#[test]
fn colour_is_used_only_when_it_is_asked_for() {
    let folder = sound();
    fs::write(folder.path().join("p.toml"), "[fixed]\nroute = \"larg\"\n").unwrap();
    let ran = |set: &dyn Fn(&mut std::process::Command)| -> String {
        let mut command = command(folder.path());
        command.args(COMPARE);
        set(&mut command);
        Ran::from(command.output().unwrap()).refused()
    };
    let plain = ran(&|_| ());
    assert!(!plain.contains('\u{1b}'));
    // Not a terminal: plain without NO_COLOR, too.
    assert_eq!(
        ran(&|command| {
            command.env_remove("NO_COLOR");
        }),
        plain
    );
    let coloured = ran(&|command| {
        command.arg("--color=always");
    });
    assert!(coloured.contains('\u{1b}'));
    assert_eq!(
        ran(&|command| {
            command.env("ROUTELAB_COLOR", "always");
        }),
        coloured
    );
    assert_eq!(
        ran(&|command| {
            command.arg("--color=never");
        }),
        plain
    );
}

/// Every prefix of a sound file, and the file with any one byte gone or changed, is either accepted or
/// refused in words: no panic (exit code 101), no signal.
#[test]
fn files_that_were_cut_or_damaged_anywhere_are_refused_in_words_or_accepted() {
    let folder = sound();
    let mut runs = 0;
    for (name, step) in [
        ("routes.toml", 29),
        ("p.toml", 3),
        ("w.toml", 41),
        ("data.csv", 5),
    ] {
        let path = folder.path().join(name);
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(step) {
            let mut changed = whole.clone();
            changed[at] = b"\"[}=\n\xff\0,"[at % 8];
            let mut without = whole.clone();
            without.remove(at);
            for damaged in [whole[..at].to_vec(), changed, without] {
                fs::write(&path, damaged).unwrap();
                let data = if name == "data.csv" {
                    "data.csv"
                } else {
                    "w.toml"
                };
                let arguments = ["compare", data, "-p", "p.toml", "--routes", "routes.toml"];
                let ran = run_in(folder.path(), &arguments);
                assert!(
                    matches!(ran.code, Some(0 | 2)),
                    "{name} at {at}: {:?} {}",
                    ran.code,
                    ran.stderr
                );
                assert_eq!(ran.code == Some(2), ran.stdout.is_empty(), "{name} at {at}");
                runs += 1;
            }
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(runs > 100);
}
