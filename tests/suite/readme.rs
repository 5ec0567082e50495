//! The project's own documents: what they show is what the program does now.
//!
//! Blocks marked `console` are run, blocks marked `toml` are read by the library, blocks marked
//! `csv NAME` are files that the commands may use. A line `…` in an output stands for whatever is left
//! out there.

use std::fs;
use std::path::Path;

use routelab::policy::{self, KINDS};
use routelab::source::{Diagnostics, SourceFile};
use routelab::verify::{CHECKS, Commands};
use routelab::{timeline, workload};

use crate::given::{catalogue_of, project, routes};
use crate::program::run_in;

const DOCUMENTS: [&str; 3] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/// A fenced block: the words behind its opening fence, and its text with the last line feed.
struct Block {
    info: String,
    text: String,
    /// Line of the opening fence.
    line: usize,
}

fn document(name: &str) -> String {
    fs::read_to_string(project(name)).unwrap()
}

/// The fenced blocks of a document, and the document without them.
fn blocks(text: &str) -> (Vec<Block>, String) {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                open = Some(Block {
                    info: info.to_owned(),
                    text: String::new(),
                    line: index + 1,
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {
                prose.push_str(line);
                prose.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block is not closed");
    (blocks, prose)
}

#[test]
fn every_toml_block_can_be_read() {
    let catalogue = routes();
    let mut kinds = Vec::new();
    let mut verifiers = Vec::new();
    for name in DOCUMENTS {
        for block in blocks(&document(name)).0 {
            if block.info != "toml" {
                continue;
            }
            let place = format!("{name}:{}", block.line);
            let mut found = Diagnostics::default();
            let file = SourceFile::new(&*place, &*block.text);
            let table = block.text.lines().find_map(|line| line.strip_prefix('['));
            let first = table.map_or("", |rest| rest.split([']', '.']).next().unwrap());
            let good = match first {
                "route" | "router" => {
                    catalogue_of(&block.text);
                    true
                }
                "timeline" => {
                    let names = timeline::Names {
                        catalogue: &catalogue,
                        tenants: &["acme".to_owned(), "bank".to_owned()],
                    };
                    let read = timeline::parse(&file, &names, &mut found).is_some();
                    assert!(read, "{place}: {}", found.render(false));
                    true
                }
                "synthetic" => workload::parse(&file, "w", &mut found)
                    .is_some_and(|spec| spec.build(None, &mut found).is_some()),
                // Its data are not here.
                "recorded" => workload::parse(&file, "w", &mut found).is_some(),
                // A columns file has no table of its own.
                "" => workload::bare("data.csv", Some(&file), &mut found).is_some(),
                kind => {
                    kinds.push(kind.to_owned());
                    // Programs are read about, not run.
                    let commands = Commands::OnlyRead;
                    policy::parse_allowing(&file, "p", &catalogue, commands, &mut found)
                        .is_some_and(|policy| {
                            verifiers.extend(policy.spec.verifiers().iter().map(|v| v.name()));
                            true
                        })
                }
            };
            assert!(
                good && !found.has_errors(),
                "{place}: {}",
                found.render(false)
            );
        }
    }
    for kind in KINDS {
        assert!(
            kinds.iter().any(|known| known == kind.name),
            "no example of a policy of kind `{}`",
            kind.name
        );
    }
    for kind in CHECKS {
        let shown = verifiers.contains(&kind.name);
        assert!(shown, "no example of a `{}` verifier", kind.name);
    }
}

/// A command line in words; double quotes hold one together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Whether `shown`, with `…` for what is left out, is `output`, but for empty lines at the end.
fn is_excerpt(shown: &str, output: &str) -> bool {
    let output = &format!("{}\n", output.trim_end());
    let mut parts = shown.split("…\n");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = output.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

#[test]
fn excerpts_are_told_from_what_is_not_there() {
    for (shown, output, is) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\n", "a\nb\n", false),
        ("a\n…\n", "a\nb\n", true),
        ("…\nb\n", "a\nb\n", true),
        ("…\nb\n", "a\nb\nc\n", false),
        ("a\n…\nc\n…\ne\n", "a\nb\nc\nd\ne\n", true),
        ("a\n…\nd\n…\nc\n", "a\nb\nc\nd\ne\n", false),
        ("b\n…\n", "a\nb\n", false),
        ("a\n", "a\n\n", true),
    ] {
        assert_eq!(is_excerpt(shown, output), is, "{shown:?} of {output:?}");
    }
}

#[test]
fn every_output_is_what_the_program_prints() {
    let folder = tempfile::tempdir().unwrap();
    for part in [
        "policies",
        "workloads",
        "tests/configs/invalid/route-unknown-in-cascade",
        "tests/fixtures/seen",
    ] {
        copy(&project(part), &folder.path().join(part));
    }
    let mut commands = 0;
    for name in DOCUMENTS {
        let (blocks, _) = blocks(&document(name));
        for block in &blocks {
            if let Some(file) = block.info.strip_prefix("csv ") {
                fs::write(folder.path().join(file), &block.text).unwrap();
            }
        }
        for block in blocks.iter().filter(|block| block.info == "console") {
            let place = format!("{name}:{}", block.line);
            let line = block.text.lines().next().unwrap_or_default();
            let arguments = line
                .strip_prefix("$ cargo run --release -- ")
                .unwrap_or_else(|| panic!("{place} runs something else"));
            let shown = &block.text[line.len() + 1..];
            let (shown, code) = match shown.split_once("$ echo $?\n") {
                Some((shown, code)) => (shown, code.trim().parse().unwrap()),
                None => (shown, 0),
            };
            let arguments = words(arguments);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let ran = run_in(folder.path(), &arguments);
            assert_eq!(ran.code, Some(code), "{place}: {}", ran.stderr);
            // Warnings may be left out; results and errors may not.
            let all = format!("{}{}", ran.stdout, ran.stderr);
            assert!(
                is_excerpt(shown, &all) || (code == 0 && is_excerpt(shown, &ran.stdout)),
                "{place} shows:\n{shown}\nbut `{line}` prints:\n{all}"
            );
            commands += 1;
        }
    }
    assert!(commands >= 5, "only {commands} commands were found");
    let readme = document("README.md");
    let comparison = "```console\n$ cargo run --release -- compare workloads/support.toml\n";
    let (before, after) = readme.split_once(comparison).expect("the main command");
    assert!(before.lines().count() < 12, "it stands on the first screen");
    let shown = after.split_once("```").unwrap().0;
    assert!(!shown.contains('…'), "its output is shown whole");
}

#[test]
fn the_lessons_numbers_are_those_of_the_run() {
    let arguments = "compare workloads/lesson-recorded.toml -p policies/lesson --format json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let findings = crate::program::run(&arguments).json();
    let readme = document("README.md");
    let (_, table) = readme
        .split_once("| right answers of 6,000 | USD per 1,000 |\n| --- | --- | ---: | ---: |\n")
        .expect("the lesson's table");
    let mut lines = 0;
    for line in table.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, name, right, usd, _] = cells[..] else {
            panic!("{line}");
        };
        let mut rows = findings["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["policy"] == name.trim_matches('`'));
        let metrics = &row.unwrap_or_else(|| panic!("{line}"))["metrics"];
        let value = |metric: &str| metrics[metric]["value"].as_f64().unwrap();
        assert_eq!(
            format!("{:.0}", value("accuracy") * 6000.0),
            right,
            "{line}"
        );
        assert_eq!(format!("{:.3}", value("usd_per_1k")), usd, "{line}");
        lines += 1;
    }
    assert_eq!(lines, 6);
}

/// A heading as GitHub links to it.
fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn every_path_and_link_leads_somewhere() {
    const TOP: [&str; 6] = [
        "src/",
        "tests/",
        "policies/",
        "workloads/",
        "benches/",
        ".ci/",
    ];
    let mut wrong = Vec::new();
    for name in DOCUMENTS {
        let (_, prose) = blocks(&document(name));
        let mut found = 0;
        for after in prose.split("](").skip(1) {
            let target = after.split_once(')').expect("a link ends").0;
            if target.starts_with("https://") {
                continue;
            }
            found += 1;
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { name } else { path };
            if !project(path).exists() {
                wrong.push(format!("{name}: link to `{path}`"));
            } else if !heading.is_empty() {
                let there = document(path);
                let mut headings = there.lines().filter(|line| line.starts_with('#'));
                if !headings.any(|line| anchor(line.trim_start_matches('#').trim()) == heading) {
                    wrong.push(format!("{name}: link to `{target}`"));
                }
            }
        }
        // Between backticks: every second part.
        for code in prose.split('`').skip(1).step_by(2) {
            let patterns = ['*', '<', '{', ' ', '…'];
            if TOP.iter().any(|top| code.starts_with(top)) && !code.contains(patterns) {
                found += 1;
                if !project(code).exists() {
                    wrong.push(format!("{name}: path `{code}`"));
                }
            }
        }
        assert!(found > 0, "{name} names no path");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_test_that_is_named_exists() {
    let mut sources = String::new();
    for path in crate::tidy::rust_files(&project("tests")) {
        sources.push_str(&fs::read_to_string(path).unwrap());
    }
    for path in crate::tidy::rust_files(&project("src")) {
        sources.push_str(&fs::read_to_string(path).unwrap());
    }
    let mut named = 0;
    for name in DOCUMENTS {
        let (_, prose) = blocks(&document(name));
        for code in prose.split('`').skip(1).step_by(2) {
            // Names of tests are sentences.
            let plain = code.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            if plain && code.matches('_').count() >= 4 {
                named += 1;
                assert!(sources.contains(&format!("fn {code}(")), "{name}: `{code}`");
            }
        }
    }
    assert!(named > 0);
}

#[test]
fn the_limits_are_those_of_the_code() {
    let mut limits = 0;
    let readme = document("README.md");
    for line in readme.lines().filter(|line| line.contains("_MAX` | `src/")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, limit, name, file, _] = cells[..] else {
            panic!("{line}");
        };
        let limit: u64 = limit.replace(',', "").parse().unwrap();
        let source = fs::read_to_string(project(file.trim_matches('`'))).unwrap();
        let declared = format!("const {}: ", name.trim_matches('`'));
        let (_, rest) = source
            .split_once(&declared)
            .unwrap_or_else(|| panic!("{line}"));
        let value = rest.split_once("= ").unwrap().1.split_once(';').unwrap().0;
        let number = |text: &str| -> u64 {
            let text = text.trim().replace('_', "");
            text.strip_suffix(".0").unwrap_or(&text).parse().unwrap()
        };
        let value = match value.split_once("<<") {
            Some((left, right)) => number(left) << number(right),
            None => number(value),
        };
        assert_eq!(limit, value, "{line}");
        limits += 1;
    }
    assert!(limits > 10, "only {limits} limits were found");
}

#[test]
fn every_metric_is_named_in_the_readme() {
    let readme = document("README.md");
    for metric in routelab::report::METRICS {
        assert!(
            readme.contains(&format!("`{}`", metric.name)),
            "{}",
            metric.name
        );
    }
}

#[test]
fn the_import_table_is_the_one_that_is_enforced() {
    let (blocks, _) = blocks(&document("ARCHITECTURE.md"));
    let shown = blocks.iter().find(|block| block.info == "text imports");
    let want: String = crate::tidy::IMPORTS
        .iter()
        .map(|(module, allowed)| {
            let allowed = if allowed.is_empty() {
                "–".to_owned()
            } else {
                allowed.join(" ")
            };
            format!("{:<10} {allowed}\n", format!("{module}:"))
        })
        .chain([format!("{:<10} everything\n", "cli, main:")])
        .collect();
    assert_eq!(shown.expect("the table of imports").text, want);
}
