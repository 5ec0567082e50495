//! Rules about the source itself: who may import whom, how long a file may be, that every file says
//! what it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most lines of one source file.
const LINES_MAX: usize = 640;

/// Module → modules of the crate it may import. `cli` and `main` may import everything.
pub(crate) const IMPORTS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("source", &["units"]),
    ("router", &["units"]),
    ("stats", &["units"]),
    ("wire", &["units", "router"]),
    ("verify", &["units", "source", "router"]),
    ("catalogue", &["units", "source", "router"]),
    ("workload", &["units", "source", "router", "stats"]),
    (
        "policy",
        &["units", "source", "router", "stats", "verify", "catalogue"],
    ),
    ("traffic", &["units", "source", "router"]),
    (
        "timeline",
        &["units", "source", "router", "catalogue", "workload"],
    ),
    (
        "standin",
        &[
            "units", "source", "router", "wire", "workload", "timeline", "verify",
        ],
    ),
    (
        "sim",
        &[
            "units",
            "source",
            "router",
            "catalogue",
            "policy",
            "workload",
            "timeline",
            "standin",
            "stats",
            "verify",
            "wire",
        ],
    ),
    (
        "live",
        &[
            "units",
            "source",
            "router",
            "wire",
            "catalogue",
            "policy",
            "traffic",
            "verify",
        ],
    ),
    (
        "size",
        &[
            "units",
            "source",
            "router",
            "catalogue",
            "workload",
            "policy",
            "stats",
            "sim",
        ],
    ),
    ("sweep", &["source"]),
    (
        "report",
        &[
            "units", "router", "stats", "timeline", "sim", "size", "sweep", "traffic",
        ],
    ),
];

/// What only live calls and stand-ins on sockets may use.
const SOCKETS: &[&str] = &[
    "SystemTime",
    "std::time::Instant",
    "std::net",
    "tokio::",
    "reqwest::",
    "hyper::",
    "hyper_util::",
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder, by path.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The top-level module a file belongs to.
fn module(path: &Path) -> String {
    let below = path.strip_prefix(root().join("src")).unwrap();
    let first = below
        .components()
        .next()
        .unwrap()
        .as_os_str()
        .to_str()
        .unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// The first path segment after each `crate::`.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
    {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            found.push(name);
        }
    }
    found
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let table: BTreeMap<&str, &[&str]> = IMPORTS.iter().copied().collect();
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src")) {
        let module = module(&path);
        if ["cli", "main", "lib"].contains(&module.as_str()) {
            continue;
        }
        let Some(allowed) = table.get(module.as_str()) else {
            wrong.push(format!(
                "{}: module `{module}` is not in the import table",
                path.display()
            ));
            continue;
        };
        for import in imports(&std::fs::read_to_string(&path).unwrap()) {
            if import != module && !allowed.contains(&import.as_str()) {
                wrong.push(format!(
                    "{}: `{module}` may not import `{import}`",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut wrong = Vec::new();
    for folder in ["src", "tests", "benches"] {
        for path in rust_files(&root().join(folder)) {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.lines().count() > LINES_MAX {
                wrong.push(format!(
                    "{}: {} lines, at most {LINES_MAX}",
                    path.display(),
                    text.lines().count()
                ));
            }
            if !text.starts_with("//!") {
                wrong.push(format!("{}: no module documentation", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_right_modules_read_clocks_open_files_or_print() {
    // What must stay out of everything but the command line, with the reason in ARCHITECTURE.md.
    let forbidden = [
        "SystemTime",
        "std::time::Instant",
        "std::fs::",
        "std::net",
        "tokio::",
        "reqwest::",
        "hyper::",
        "hyper_util::",
        "std::process",
        "println!",
        "eprintln!",
        "HashMap",
        "HashSet",
        "thread_rng",
        "rand::rng(",
        "todo!(",
        "unimplemented!(",
    ];
    // Who may what all the same.
    let exempt = [
        // It runs a program that a policy names, and not for longer than it says.
        (
            "src/verify/command.rs",
            ["std::process", "std::time::Instant"],
        ),
        // The process's number keeps trace ids of two processes apart.
        ("src/live/client.rs", ["std::process", "std::process"]),
    ];
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src")) {
        if ["cli", "main"].contains(&module(&path).as_str()) {
            continue;
        }
        // Real time and real sockets have two homes.
        let below = path.strip_prefix(root().join("src")).unwrap();
        let of_sockets = below.starts_with("live")
            || below.starts_with("standin/loopback")
            || below == Path::new("live.rs")
            || below == Path::new("standin/loopback.rs");
        let may = |word: &str| {
            let mut exempt = exempt.iter().filter(|(file, _)| path.ends_with(file));
            exempt.any(|(_, words)| words.contains(&word))
                || (of_sockets && SOCKETS.contains(&word))
        };
        let text = std::fs::read_to_string(&path).unwrap();
        // Unit tests may read fixtures.
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            for word in forbidden {
                if line.contains(word) && !may(word) {
                    wrong.push(format!("{}: `{word}` in: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_router_core_has_no_floats_and_allocates_only_when_it_is_built() {
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src"))
        .into_iter()
        .filter(|path| module(path) == "router")
    {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
        {
            if line.contains("f64") || line.contains("f32") {
                wrong.push(format!("{}: a float in: {}", path.display(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
