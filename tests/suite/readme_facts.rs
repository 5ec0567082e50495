//! What the project's documents say outside their blocks: links, paths, names of tests, limits, numbers.
//!
//! Which files are documents, and the blocks in them, is in `readme`.

use std::fs;

use crate::given::project;
use crate::readme::{all_text, blocks, documents};

/// The table of `docs/recorded.md` that holds the lesson's numbers begins with this line.
const LESSON: &str = "| right answers of 6,000 | USD per 1,000 |\n| --- | --- | ---: | ---: |\n";

#[test]
fn the_lessons_numbers_are_those_of_the_run() {
    let arguments = "compare workloads/lesson-recorded.toml -p policies/lesson --format json";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let findings = crate::program::run(&arguments).json();
    let text = all_text();
    let (_, table) = text.split_once(LESSON).expect("the lesson's table");
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

/// The anchors of a document: of its headings, and not of comments in its blocks. A heading that stands
/// there twice gets a number the second time.
fn anchors(text: &str) -> Vec<String> {
    let (_, prose) = blocks(text);
    let mut found: Vec<String> = Vec::new();
    for line in prose.lines().filter(|line| line.starts_with('#')) {
        let plain = anchor(line.trim_start_matches('#').trim());
        let before = |name: &String| {
            let rest = name.strip_prefix(&plain);
            rest.is_some_and(|rest| {
                rest.is_empty()
                    || rest
                        .strip_prefix('-')
                        .is_some_and(|n| n.parse::<u32>().is_ok())
            })
        };
        let times = found.iter().filter(|name| before(name)).count();
        found.push(if times == 0 {
            plain
        } else {
            format!("{plain}-{times}")
        });
    }
    found
}

#[test]
fn anchors_are_those_of_headings_outside_blocks() {
    let text =
        "# Is this file right?\n```toml\n# no heading\n```\n## `a_b` and c\n## `a_b` and c\n";
    assert_eq!(
        anchors(text),
        ["is-this-file-right", "a_b-and-c", "a_b-and-c-1"]
    );
}

/// A link's path below the project, from the document that has it; `None` if it leads out of it.
fn resolved(document: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = document.split('/').collect();
    if path.is_empty() {
        return Some(document.to_owned());
    }
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[test]
fn links_are_relative_to_their_document() {
    for (document, path, target) in [
        ("README.md", "docs/a.md", Some("docs/a.md")),
        ("docs/a.md", "../README.md", Some("README.md")),
        ("docs/a.md", "b.md", Some("docs/b.md")),
        ("docs/a.md", "", Some("docs/a.md")),
        ("docs/a.md", "../../x", None),
    ] {
        assert_eq!(resolved(document, path).as_deref(), target, "{path}");
    }
}

/// What stands between backticks outside of blocks.
fn code(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2)
}

#[test]
fn every_path_and_link_leads_somewhere() {
    const TOP: [&str; 8] = [
        "src/",
        "tests/",
        "policies/",
        "workloads/",
        "benches/",
        "reports/",
        "docs/",
        ".ci/",
    ];
    let mut wrong = Vec::new();
    for document in documents() {
        let name = &document.name;
        let (_, prose) = blocks(&document.text);
        let mut found = 0;
        for after in prose.split("](").skip(1) {
            let target = after.split_once(')').expect("a link ends").0;
            if target.starts_with("https://") {
                continue;
            }
            found += 1;
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let Some(path) = resolved(name, path).filter(|path| project(path).is_file()) else {
                wrong.push(format!("{name}: link to `{target}`"));
                continue;
            };
            if !heading.is_empty() {
                let there = fs::read_to_string(project(&path)).unwrap();
                if !anchors(&there).iter().any(|anchor| anchor == heading) {
                    wrong.push(format!("{name}: no heading for the link `{target}`"));
                }
            }
        }
        for code in code(&prose) {
            let patterns = ["*", "<", "{", " ", "…", "NAME"];
            if TOP.iter().any(|top| code.starts_with(top))
                && !patterns.iter().any(|pattern| code.contains(pattern))
            {
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
fn every_guide_is_in_the_readmes_table() {
    let readme = fs::read_to_string(project("README.md")).unwrap();
    for document in documents() {
        let listed = readme.contains(&format!("]({})", document.name));
        assert!(
            listed || document.name == "README.md",
            "README.md does not lead to {}",
            document.name
        );
    }
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
    let mut wrong = Vec::new();
    for document in documents() {
        let (_, prose) = blocks(&document.text);
        for code in code(&prose) {
            // Names of tests are sentences.
            let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if code.chars().all(word) && code.matches('_').count() >= 4 {
                named += 1;
                if !sources.contains(&format!("fn {code}(")) {
                    wrong.push(format!("{}: `{code}`", document.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(named > 0);
}

#[test]
fn the_limits_are_those_of_the_code() {
    let mut limits = 0;
    let text = all_text();
    for line in text.lines().filter(|line| line.contains("_MAX` | `src/")) {
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
fn every_metric_is_named_somewhere() {
    let text = all_text();
    for metric in routelab::report::METRICS {
        let named = text.contains(&format!("`{}`", metric.name));
        assert!(named, "{}", metric.name);
    }
}

#[test]
fn the_import_table_is_the_one_that_is_enforced() {
    let text = fs::read_to_string(project("ARCHITECTURE.md")).unwrap();
    let (blocks, _) = blocks(&text);
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
