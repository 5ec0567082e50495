//! `check`: what is wrong with these files?

use std::path::{Path, PathBuf};

use super::Exit;
use super::inputs::{ROUTES, Reader, policy_files, shown};
use super::screen::Screen;
use crate::catalogue::{Catalogue, PRICE_AGE_DAYS_MAX};
use crate::policy::PolicyFile;
use crate::source::{Diagnostic, Diagnostics, Severity};
use crate::standin::faults;
use crate::verify::Commands;
use crate::workload::Workload;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Workloads, policies, route catalogues, fault scripts, or folders of them [default: policies/ and workloads/].
    paths: Vec<PathBuf>,
    /// The route catalogue that policies refer to [default: routes.toml beside the policy or above it].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Count warnings as errors.
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Exit {
    let mut reader = Reader {
        commands: Commands::OnlyRead,
        ..Reader::default()
    };
    let default = ["policies", "workloads"].map(PathBuf::from);
    let paths = if arguments.paths.is_empty() {
        &default[..]
    } else {
        &arguments.paths[..]
    };
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            let routes = path.join("routes.toml");
            if routes.is_file() {
                files.push(routes);
            }
            files.extend(policy_files(path));
            // A folder that somebody names is meant to hold something.
            if files.len() == before && !arguments.paths.is_empty() {
                let nothing = format!("there is nothing to check in the folder `{}`", shown(path));
                reader.found.push(
                    Diagnostic::error(nothing)
                        .help("name a folder of TOML files, or write some with `routelab init`"),
                );
            }
        } else {
            files.push(path.clone());
        }
    }
    let mut counts = [0usize; 4];
    let mut catalogues: Vec<(PathBuf, Option<Catalogue>)> = Vec::new();
    let mut policies = Vec::new();
    let mut workloads = Vec::new();
    for path in &files {
        match what(&mut reader, path) {
            Some(What::Catalogue) => {
                counts[0] += 1;
                catalogue(&mut reader, &mut catalogues, path);
            }
            Some(What::Policy) => {
                counts[1] += 1;
                let routes = arguments.routes.clone();
                let routes = routes.unwrap_or_else(|| routes_near(path));
                let index = catalogue(&mut reader, &mut catalogues, &routes);
                policies.extend(
                    reader.policies(std::slice::from_ref(path), catalogues[index].1.as_ref()),
                );
            }
            Some(What::Workload) => {
                counts[2] += 1;
                let workload = reader.workload(path, None);
                if let Some(workload) = workload.as_ref().filter(|_| reader.has_timeline) {
                    let routes = arguments.routes.clone();
                    let routes = routes.unwrap_or_else(|| routes_near(path));
                    let index = catalogue(&mut reader, &mut catalogues, &routes);
                    if let Some(known) = &catalogues[index].1 {
                        // What is wrong with it is all that is wanted.
                        let _ = reader.timeline(path, known, &workload.tenants);
                    }
                }
                workloads.extend(workload);
            }
            Some(What::Faults) => {
                counts[3] += 1;
                if let Some(file) = reader.text(path) {
                    let _ = faults::parse(&file, &mut reader.found);
                }
            }
            None => {}
        }
    }
    for workload in &workloads {
        reader.found.0.extend(out_of_reach(&policies, workload));
    }
    let found = reader.found;
    screen.complain(&found);
    let warned = found.0.iter().any(|one| one.severity == Severity::Warning);
    if found.has_errors() || (arguments.strict && warned) {
        return Exit::BadInput;
    }
    if files.is_empty() {
        let nothing = Diagnostic::error("there is nothing to check here");
        let help = "name files or folders, or write some with `routelab init`";
        screen.complain(&Diagnostics(vec![nothing.help(help)]));
        return Exit::BadInput;
    }
    let part = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let mut parts = vec![
        part(counts[0], "route catalogue", "route catalogues"),
        part(counts[1], "policy", "policies"),
        part(counts[2], "workload", "workloads"),
    ];
    if counts[3] > 0 {
        parts.push(part(counts[3], "fault script", "fault scripts"));
    }
    let last = parts.pop().unwrap_or_default();
    screen.print(&format!(
        "checked {} and {last}: no errors\n",
        parts.join(", ")
    ))
}

/// The route catalogue beside a file or above it: policies may stand in folders below their catalogue,
/// and workloads beside the folder of the policies.
fn routes_near(path: &Path) -> PathBuf {
    let folders = || path.ancestors().skip(1);
    folders()
        .map(|folder| folder.join("routes.toml"))
        .chain(folders().map(|folder| folder.join(ROUTES)))
        .find(|near| near.is_file())
        .unwrap_or_else(|| PathBuf::from(ROUTES))
}

/// What the policies mean to do that this workload has too few requests for. Who checks the two together
/// means to run them together, so that is an error; `compare` only warns, for it is told how many to run.
fn out_of_reach(policies: &[PolicyFile], workload: &Workload) -> Vec<Diagnostic> {
    let found = policies
        .iter()
        .flat_map(|policy| policy.spec.out_of_reach(workload.len()));
    found
        .map(|mut one| {
            one.message = format!("with workload `{}`, {}", workload.name, one.message);
            one.severity = Severity::Error;
            one
        })
        .collect()
}

enum What {
    Catalogue,
    Policy,
    Workload,
    Faults,
}

/// What a file holds, by its top-level tables.
fn what(reader: &mut Reader, path: &Path) -> Option<What> {
    if path.extension().is_none_or(|extension| extension != "toml") {
        // A data file given directly is a workload with the usual column names.
        return Some(What::Workload);
    }
    let file = reader.text(path)?;
    let document = crate::source::Document::parse(&file);
    let context = document.context();
    let mut table = document.table(&context);
    let has = |key: &str, table: &mut crate::source::Table<'_>| table.get(key).is_some();
    if has("synthetic", &mut table) || has("recorded", &mut table) || has("timeline", &mut table) {
        Some(What::Workload)
    } else if has("fault", &mut table) {
        Some(What::Faults)
    } else if has("route", &mut table)
        || has("router", &mut table)
        || has("require", &mut table)
        || has("provider", &mut table)
        || path.file_name().is_some_and(|name| name == "routes.toml")
    {
        Some(What::Catalogue)
    } else {
        Some(What::Policy)
    }
}

/// Reads a catalogue once; its index in the list. What is wrong with it was reported, but its names
/// may still serve to check policies.
fn catalogue(
    reader: &mut Reader,
    known: &mut Vec<(PathBuf, Option<Catalogue>)>,
    path: &Path,
) -> usize {
    if let Some(index) = known.iter().position(|(other, _)| other == path) {
        return index;
    }
    let read = reader.catalogue(path);
    if let Ok(catalogue) = &read {
        for warning in stale(catalogue, today()) {
            reader.found.push(warning);
        }
    }
    known.push((
        path.to_owned(),
        read.map_or_else(|partly| partly.map(|one| *one), Some),
    ));
    known.len() - 1
}

/// Prices that are old or undated, and model ids that may come to mean another model overnight.
fn stale(catalogue: &Catalogue, today: i64) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for route in &catalogue.routes {
        let mut warn = |message: String, help: &str| {
            let mut warning = Diagnostic::warning(message).help(help);
            warning.location.clone_from(&route.location);
            warnings.push(warning);
        };
        match route.priced_on {
            None => warn(
                format!(
                    "nobody knows how old the price of route `{}` is",
                    route.name
                ),
                "add `priced_on = YYYY-MM-DD`, the day you read the price",
            ),
            Some((year, month, day)) => {
                let age = today - days(i64::from(year), i64::from(month), i64::from(day));
                if age > PRICE_AGE_DAYS_MAX {
                    warn(
                        format!("the price of route `{}` is {age} days old", route.name),
                        "read it again and set `priced_on`",
                    );
                } else if age < 0 {
                    warn(
                        format!("the price of route `{}` was read in the future", route.name),
                        "correct `priced_on`",
                    );
                }
            }
        }
        if !is_pinned(&route.model) {
            warn(
                format!(
                    "model `{}` of route `{}` is not pinned to a version",
                    route.model, route.name
                ),
                "name a dated snapshot if the provider has one: an alias changes under you",
            );
        }
    }
    warnings
}

/// Whether a model id carries a date or a version of its own: at least four digits in a row, as in
/// `small-2026-10-01`, `x-20261001` or `y-0613`.
fn is_pinned(model: &str) -> bool {
    let mut run = 0;
    for c in model.chars() {
        run = if c.is_ascii_digit() { run + 1 } else { 0 };
        if run >= 4 {
            return true;
        }
    }
    false
}

/// Days since 1970-01-01 of a date of the Gregorian calendar (Howard Hinnant, "chrono-compatible
/// low-level date algorithms", 2013: `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Today, in days since 1970-01-01. Only `check` asks: no result depends on it.
#[expect(
    clippy::disallowed_methods,
    reason = "how old a price is depends on the day; no result does"
)]
fn today() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| (since.as_secs() / 86_400) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(days(2026, 11, 30) - days(2026, 10, 1), 60);
    }

    #[test]
    fn dated_snapshots_are_pinned_and_aliases_are_not() {
        for pinned in ["small-2026-10-01", "x-20261001", "y-0613"] {
            assert!(is_pinned(pinned), "{pinned}");
        }
        for alias in ["latest", "big-4.5", "model-v2", ""] {
            assert!(!is_pinned(alias), "{alias}");
        }
    }
}
