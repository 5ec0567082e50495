//! The project's own documents: what they show is what the program does now.
//!
//! Documents are README.md, ARCHITECTURE.md, CONTRIBUTING.md and whatever stands in `docs/`. Blocks marked
//! `console` are run, blocks marked `toml` are read by the library; `csv NAME` and `toml NAME` are files
//! that the commands of the same document may use. A line `…` in an output stands for whatever is left
//! out there. What documents say beside their blocks (links, paths, limits) is in `readme_facts`.

use std::fs;
use std::path::Path;

use rayon::prelude::*;
use routelab::catalogue::Catalogue;
use routelab::policy::{self, KINDS};
use routelab::source::{Diagnostics, SourceFile};
use routelab::standin::faults;
use routelab::verify::{CHECKS, Commands};
use routelab::{timeline, workload};

use crate::given::{catalogue_of, project, routes};
use crate::program::run_in;

/// A document: its path below the project, and its text.
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A fenced block: the words behind its opening fence, and its text with the last line feed.
pub(crate) struct Block {
    pub(crate) info: String,
    pub(crate) text: String,
    /// Line of the opening fence.
    pub(crate) line: usize,
}

/// All documents, in a fixed order. A new file in `docs/` is one of them without being named here.
pub(crate) fn documents() -> Vec<Document> {
    let mut names: Vec<String> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .map(str::to_owned)
        .into();
    let mut guides: Vec<String> = fs::read_dir(project("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .collect();
    guides.sort();
    assert!(guides.len() >= 5, "only {guides:?} are in docs/");
    names.append(&mut guides);
    let read = |name: String| {
        let text = fs::read_to_string(project(&name)).unwrap();
        Document { name, text }
    };
    names.into_iter().map(read).collect()
}

/// The text of all documents, one after the other.
pub(crate) fn all_text() -> String {
    let texts: Vec<String> = documents().into_iter().map(|one| one.text).collect();
    texts.join("\n")
}

/// The fenced blocks of a document, and the document without them.
pub(crate) fn blocks(text: &str) -> (Vec<Block>, String) {
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

/// The catalogue that a block's routes are looked up in: the shipped one, or that of the same document
/// in a folder above the block's own file, as `check` finds it.
fn catalogue_for(block: &Block, others: &[Block]) -> Catalogue {
    let file = block.info.strip_prefix("toml ").unwrap_or_default();
    let mut files = others.iter().filter_map(|other| {
        let name = other.info.strip_prefix("toml ")?;
        Some((name.strip_suffix("routes.toml")?, &other.text))
    });
    let own = files.find(|(folder, _)| file.starts_with(folder));
    own.map_or_else(routes, |(_, text)| catalogue_of(text))
}

/// The word of a block's first table, such as `cascade` of `[cascade.verifier]`; empty without a table.
fn first_table(text: &str) -> &str {
    let table = text.lines().find(|line| line.starts_with('['));
    let word = table.map(|line| line.trim_start_matches('[').split([']', '.']).next());
    word.flatten().unwrap_or_default()
}

#[test]
fn every_toml_block_can_be_read() {
    let mut kinds = Vec::new();
    let mut verifiers = Vec::new();
    for document in documents() {
        let (blocks, _) = blocks(&document.text);
        for block in &blocks {
            if block.info.split(' ').next() != Some("toml") {
                continue;
            }
            let catalogue = catalogue_for(block, &blocks);
            let place = format!("{}:{}", document.name, block.line);
            let mut found = Diagnostics::default();
            let file = SourceFile::new(&*place, &*block.text);
            let good = match first_table(&block.text) {
                "route" | "router" => {
                    catalogue_of(&block.text);
                    true
                }
                "timeline" => {
                    let names = timeline::Names {
                        catalogue: &catalogue,
                        tenants: &["acme".to_owned(), "bank".to_owned()],
                    };
                    timeline::parse(&file, &names, &mut found).is_some()
                }
                "fault" => faults::parse(&file, &mut found).is_some(),
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

/// One command of a block.
struct Shown<'t> {
    arguments: &'t str,
    output: String,
    code: i32,
}

/// The commands of a `console` block. A line that begins with `$` is a command, what follows is what it
/// prints; `$ echo $?` shows its exit code, else that is 0.
fn commands(text: &str) -> Result<Vec<Shown<'_>>, String> {
    let mut found: Vec<Shown<'_>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else {
            let last = found.last_mut().ok_or("output before a command")?;
            last.output.push_str(line);
            last.output.push('\n');
            continue;
        };
        if command == "echo $?" {
            let code = lines.next().and_then(|code| code.trim().parse().ok());
            let last = found.last_mut().ok_or("a code of no command")?;
            last.code = code.ok_or("no exit code behind `echo $?`")?;
            continue;
        }
        let arguments = ["cargo run --release -- ", "routelab "]
            .iter()
            .find_map(|program| command.strip_prefix(program))
            .ok_or_else(|| format!("`{command}` runs something else"))?;
        found.push(Shown {
            arguments,
            output: String::new(),
            code: 0,
        });
    }
    Ok(found)
}

#[test]
fn commands_are_told_from_what_they_print() {
    let text = "$ routelab check a\nfine\n$ routelab check b\nbad\n$ echo $?\n2\n";
    let found: Vec<_> = commands(text)
        .unwrap()
        .into_iter()
        .map(|one| (one.arguments, one.output, one.code))
        .collect();
    let first = ("check a", "fine\n".to_owned(), 0);
    assert_eq!(found, [first, ("check b", "bad\n".to_owned(), 2)]);
    for wrong in ["no command\n", "$ rm -r x\n", "$ echo $?\n0\n"] {
        assert!(commands(wrong).is_err(), "{wrong}");
    }
}

/// Pictures of documents are made again where the document's commands are run.
const PICTURES: &str = "docs/img";

/// Runs the commands of one document in a folder of its own, so that documents need not wait for each
/// other; blocks of one document see the files that blocks above them made. Returns how many commands
/// there were, which pictures they drew, and what is wrong.
fn run_commands(document: &Document) -> (usize, Vec<String>, Vec<String>) {
    let (blocks, _) = blocks(&document.text);
    let (mut count, mut drawn, mut wrong) = (0, Vec::new(), Vec::new());
    if !blocks.iter().any(|block| block.info == "console") {
        return (count, drawn, wrong);
    }
    let folder = tempfile::tempdir().unwrap();
    for part in [
        "policies",
        "workloads",
        "tests/configs/invalid/route-unknown-in-cascade",
        "tests/fixtures/seen",
    ] {
        copy(&project(part), &folder.path().join(part));
    }
    let pictures = folder.path().join(PICTURES);
    fs::create_dir_all(&pictures).unwrap();
    for block in &blocks {
        if let Some(("csv" | "toml", file)) = block.info.split_once(' ') {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &block.text).unwrap();
        }
    }
    for block in blocks.iter().filter(|block| block.info == "console") {
        let place = format!("{}:{}", document.name, block.line);
        let shown = match commands(&block.text) {
            Ok(shown) => shown,
            Err(why) => {
                wrong.push(format!("{place}: {why}"));
                continue;
            }
        };
        for one in shown {
            let arguments = words(one.arguments);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let ran = run_in(folder.path(), &arguments);
            count += 1;
            if ran.code != Some(one.code) {
                let (code, stderr) = (ran.code, &ran.stderr);
                let line = one.arguments;
                wrong.push(format!("{place}: `{line}` ends with {code:?}: {stderr}"));
            }
            // Warnings may be left out; results and errors may not.
            let all = format!("{}{}", ran.stdout, ran.stderr);
            let fine = is_excerpt(&one.output, &all)
                || (one.code == 0 && is_excerpt(&one.output, &ran.stdout));
            if !fine {
                wrong.push(format!(
                    "{place} shows:\n{}\nbut `{}` prints:\n{all}",
                    one.output, one.arguments
                ));
            }
        }
    }
    for entry in fs::read_dir(&pictures).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let here = fs::read(project(PICTURES).join(&name)).ok();
        if here != Some(fs::read(pictures.join(&name)).unwrap()) {
            let document = &document.name;
            wrong.push(format!("{document}: {PICTURES}/{name} is another picture"));
        }
        drawn.push(name);
    }
    (count, drawn, wrong)
}

#[test]
fn every_output_is_what_the_program_prints() {
    let ran: Vec<_> = documents().par_iter().map(run_commands).collect();
    let (mut count, mut drawn, mut wrong) = (0, Vec::new(), Vec::new());
    for (commands, pictures, problems) in ran {
        count += commands;
        drawn.extend(pictures);
        wrong.extend(problems);
    }
    for entry in fs::read_dir(project(PICTURES)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !drawn.contains(&name) {
            wrong.push(format!("no command of a document draws {PICTURES}/{name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count >= 20, "only {count} commands were found");
}

#[test]
fn the_readme_begins_with_the_main_command_and_stays_short() {
    let readme = fs::read_to_string(project("README.md")).unwrap();
    let comparison = "```console\n$ cargo run --release -- compare workloads/support.toml\n";
    let (before, after) = readme.split_once(comparison).expect("the main command");
    assert!(before.lines().count() < 40, "it stands near the top");
    let shown = after.split_once("```").unwrap().0;
    assert!(shown.lines().count() >= 5, "some of its output is shown");
    assert!(readme.lines().count() <= 340, "what is longer is a guide");
}
