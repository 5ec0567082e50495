//! Reads a policy file: one table, whose name is the kind.

use std::sync::Arc;

use super::{KINDS, Spec};
use crate::catalogue::Catalogue;
use crate::router::RouteId;
use crate::source::{Diagnostic, Diagnostics, Document, SourceFile, Value, describe_list};
use crate::verify::{Commands, Reading, Verifier};

/// Most policies that one file may nest.
const DEPTH_MAX: usize = 4;

/// The names a policy file may use.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The routes.
    pub catalogue: &'a Catalogue,
    /// How deep this policy is nested in others.
    pub depth: usize,
    /// Whether verifiers may run programs.
    pub commands: Commands,
}

impl Names<'_> {
    /// The route that a string names.
    #[must_use]
    pub fn route(&self, value: &Value<'_>) -> Option<RouteId> {
        let name = value.string()?;
        let found = self.catalogue.find(&name.value);
        if found.is_none() {
            value.report_diagnostic(name.unknown("route", self.catalogue.names()));
        }
        found
    }

    /// The verifier that a table `KIND = { … }` describes.
    #[must_use]
    pub fn verifier(&self, value: &Value<'_>) -> Option<Verifier> {
        let reading = Reading {
            route: &|value| self.route(value),
            commands: self.commands,
        };
        Verifier::read(value, &reading)
    }

    /// The routes that a list of strings names, at least one.
    #[must_use]
    pub fn routes(&self, value: &Value<'_>) -> Option<Vec<RouteId>> {
        let items = value.list()?;
        if items.is_empty() {
            value.error(format!("`{}` must name at least one route", value.path()));
            return None;
        }
        let routes: Vec<RouteId> = items.iter().filter_map(|item| self.route(item)).collect();
        (routes.len() == items.len()).then_some(routes)
    }
}

/// A policy file that was read without errors.
#[derive(Debug)]
pub struct PolicyFile {
    /// The file's stem.
    pub name: String,
    /// What it says.
    pub spec: Box<dyn Spec>,
}

/// Reads a policy file; `None`, with the reasons in `diagnostics`, if anything in it is wrong. One whose
/// verifier runs a program is refused; see [`parse_allowing`].
#[must_use]
pub fn parse(
    file: &Arc<SourceFile>,
    name: &str,
    catalogue: &Catalogue,
    diagnostics: &mut Diagnostics,
) -> Option<PolicyFile> {
    parse_allowing(file, name, catalogue, Commands::Refused, diagnostics)
}

/// As [`parse`], where the caller says whether verifiers may run programs. Reading runs none.
#[must_use]
pub fn parse_allowing(
    file: &Arc<SourceFile>,
    name: &str,
    catalogue: &Catalogue,
    commands: Commands,
    diagnostics: &mut Diagnostics,
) -> Option<PolicyFile> {
    let document = Document::parse(file);
    let context = document.context();
    let mut root = document.table(&context);
    let entries = root.entries();
    let spec = match entries.as_slice() {
        // A file without sense is not called empty as well.
        [] if context.has_errors() => None,
        [] => {
            context.report(
                Diagnostic::error("this policy file is empty")
                    .at(root.location())
                    .help(format!("its one table is the kind: {}", kinds())),
            );
            None
        }
        [(first, _), ..] if let Some(what) = other_file(&first.value) => {
            context.report(
                Diagnostic::error(format!("this is {what}, not a policy"))
                    .at(first.location.clone())
                    .help(format!(
                        "a policy file holds one table, its kind: {}",
                        kinds()
                    )),
            );
            None
        }
        [(kind, value)] => read(
            kind,
            value,
            &Names {
                catalogue,
                depth: 0,
                commands,
            },
        ),
        [_, rest @ ..] => {
            for (kind, _) in rest {
                context.report(
                    Diagnostic::error(format!(
                        "a policy file holds one policy, `[{}]` is a second",
                        kind.value
                    ))
                    .at(kind.location.clone())
                    .help("give it a file of its own: the file's name is the policy's name"),
                );
            }
            None
        }
    };
    let wrong = context.has_errors();
    context.finish(diagnostics);
    if wrong {
        None
    } else {
        spec.map(|spec| PolicyFile {
            name: name.to_owned(),
            spec,
        })
    }
}

/// Reads the policy that another one wraps: a table with one key, the kind.
#[must_use]
pub fn parse_kind(value: &Value<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let mut table = value.table()?;
    let names = Names {
        depth: names.depth + 1,
        ..*names
    };
    if names.depth > DEPTH_MAX {
        value.error(format!("policies may be nested at most {DEPTH_MAX} deep"));
        return None;
    }
    match table.entries().as_slice() {
        [(kind, inner)] => read(kind, inner, &names),
        _ => {
            value.error_help(
                format!("`{}` must hold one policy", value.path()),
                format!(
                    "write `{}.KIND = {{ … }}` with one of {}",
                    value.path(),
                    kinds()
                ),
            );
            None
        }
    }
}

fn read(
    kind: &crate::source::At<String>,
    value: &Value<'_>,
    names: &Names<'_>,
) -> Option<Box<dyn Spec>> {
    let Some(found) = KINDS.iter().find(|known| known.name == kind.value) else {
        value.report_diagnostic(kind.unknown("policy kind", KINDS.iter().map(|kind| kind.name)));
        return None;
    };
    (found.read)(value.table()?, names)
}

/// What a file is that has this table, if it is no policy.
fn other_file(table: &str) -> Option<&'static str> {
    match table {
        "route" | "router" | "provider" | "require" => {
            Some("a route catalogue (name it with --routes)")
        }
        "synthetic" | "recorded" | "timeline" => Some("a workload"),
        _ => None,
    }
}

fn kinds() -> String {
    describe_list(KINDS.iter().map(|kind| kind.name))
}
