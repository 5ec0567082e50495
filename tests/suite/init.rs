//! `init`: what it writes works at once, and it destroys nothing.

use std::fs;
use std::path::Path;

use crate::program::{Ran, run_in};

const TEMPLATES: [&str; 4] = ["quickstart", "recorded", "drill", "ci"];

/// All files below a folder with their texts, by path.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                found.push((name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Whether the program has this command.
fn has_command(name: &str) -> bool {
    let help = crate::program::run(&["--help"]).fine();
    help.lines()
        .any(|line| line.split_whitespace().next() == Some(name))
}

#[test]
fn the_printed_next_command_works_without_an_edit() {
    for template in TEMPLATES {
        let outer = tempfile::tempdir().unwrap();
        let said = run_in(outer.path(), &["init", "demo", "--template", template]).fine();
        let next = said.lines().last().unwrap();
        let next = next.strip_prefix("next: cd demo && routelab ").unwrap();
        let folder = outer.path().join("demo");
        let arguments: Vec<&str> = next.split(' ').collect();
        // Every line but the last is a file, or a folder of several, and every file is on a line.
        let written = files(&folder);
        let created = said.lines().filter(|line| line.starts_with("created"));
        let created: Vec<&str> = created
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        for (name, _) in &written {
            let is_on =
                |path: &&str| *path == name || (path.ends_with('/') && name.starts_with(*path));
            assert_eq!(
                created.iter().filter(|path| is_on(path)).count(),
                1,
                "{name}: {said}"
            );
        }
        assert!(written.len() >= created.len(), "{said}");
        let checked = run_in(&folder, &["check"]);
        assert_eq!(
            (checked.code, checked.stderr.as_str()),
            (Some(0), ""),
            "{template}"
        );
        if has_command(arguments[0]) {
            let Ran {
                code,
                stdout,
                stderr,
            } = run_in(&folder, &arguments);
            assert_eq!(code, Some(0), "{template}: {stderr}");
            assert!(stdout.lines().count() > 5, "{stdout}");
        }
        // What the command would read is there whatever it does with it.
        let (data, policies) = (arguments[1], "policies");
        run_in(&folder, &["compare", data, "-p", policies, "--quiet"]).fine();
    }
}

#[test]
fn a_second_time_nothing_is_overwritten_and_everything_in_the_way_is_named() {
    let folder = tempfile::tempdir().unwrap();
    run_in(folder.path(), &["init"]).fine();
    let edited = folder.path().join("policies/static.toml");
    fs::write(&edited, "[static]\ndefault = \"small\"\n").unwrap();
    fs::remove_file(folder.path().join("policies/cascade.toml")).unwrap();
    let before = files(folder.path());
    let said = run_in(folder.path(), &["init"]).refused();
    assert_eq!(files(folder.path()), before);
    for (name, _) in &before {
        assert!(said.contains(&format!("`{name}`")), "{said}");
    }
    assert!(
        said.contains("--force") && said.contains("nothing was written"),
        "{said}"
    );
    let said = run_in(folder.path(), &["init", "--force"]).fine();
    assert!(said.contains("replaced  policies/static.toml"), "{said}");
    assert!(said.contains("created   policies/cascade.toml"), "{said}");
    assert!(fs::read_to_string(&edited).unwrap().contains("large"));
}

#[test]
fn force_does_not_remove_folders_and_a_file_where_a_folder_should_be_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("policies/static.toml")).unwrap();
    fs::write(folder.path().join("workloads"), "mine").unwrap();
    for arguments in [&["init"][..], &["init", "--force"]] {
        let said = run_in(folder.path(), arguments).refused();
        assert!(
            said.contains("`policies/static.toml`, `workloads`"),
            "{said}"
        );
        assert!(
            said.contains("help: name another folder, or move them away"),
            "{said}"
        );
        assert_eq!(
            files(folder.path()),
            [("workloads".to_owned(), "mine".to_owned())]
        );
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_an_error_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let said = run_in(folder.path(), &["init", "file"]).refused();
    assert!(said.contains("`file`") && said.contains("help:"), "{said}");
    // A place where nobody can make a folder, not even root.
    #[cfg(target_os = "linux")]
    {
        let ran = run_in(folder.path(), &["init", "/proc/demo"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("/proc/demo") && ran.stderr.contains("help:"),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.stdout, "");
    }
}
