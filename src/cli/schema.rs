//! `schema`: what may be in each file, as JSON Schema for editors and as a page for people.
//!
//! The schemas are kept by hand, one file each below this one. Tests hold them against the readers: every
//! key a reader asks for is in its schema, every key of a schema is asked for, and every file that ships is
//! valid. They say what can be said of one file alone; that names exist and shares add up, `check` says.

#[cfg(test)]
mod census;
mod faults;
mod findings;
mod markdown;
mod node;
mod policy;
mod routes;
mod timeline;
mod workload;

use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value as Json, json};

use super::Exit;
use super::screen::Screen;
use node::Node;

/// The draft that the schemas are written in.
const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Of which file; without it the kinds are listed.
    #[arg(value_name = "KIND", value_parser = PossibleValuesParser::new(KINDS.iter().map(|kind| kind.name)))]
    kind: Option<String>,
    /// Print tables for people to read; without KIND for all files that are written by hand.
    #[arg(long)]
    markdown: bool,
}

/// A kind of file.
struct Kind {
    name: &'static str,
    /// What it is, as a heading.
    title: &'static str,
    /// Whether people write it, not the program.
    is_input: bool,
    schema: fn() -> Node,
    definitions: fn() -> Vec<(&'static str, Json)>,
}

fn none() -> Vec<(&'static str, Json)> {
    Vec::new()
}

const KINDS: [Kind; 6] = [
    Kind {
        name: "routes",
        title: "Route catalogue: `routes.toml`",
        is_input: true,
        schema: routes::schema,
        definitions: routes::definitions,
    },
    Kind {
        name: "policy",
        title: "Policy: `policies/NAME.toml`",
        is_input: true,
        schema: policy::schema,
        definitions: policy::definitions,
    },
    Kind {
        name: "workload",
        title: "Workload: `workloads/NAME.toml`",
        is_input: true,
        schema: workload::schema,
        definitions: workload::definitions,
    },
    Kind {
        name: "columns",
        title: "Columns of a data file: `--columns FILE`",
        is_input: true,
        schema: workload::columns,
        definitions: none,
    },
    Kind {
        name: "faults",
        title: "Fault script: `--faults FILE`",
        is_input: true,
        schema: faults::schema,
        definitions: none,
    },
    Kind {
        name: "findings",
        title: "Findings: `compare --format json`",
        is_input: false,
        schema: findings::schema,
        definitions: findings::definitions,
    },
];

impl Kind {
    /// The whole schema.
    fn json(&self) -> Json {
        let mut document = Map::new();
        document.insert("$schema".to_owned(), json!(DRAFT));
        document.insert("title".to_owned(), json!(format!("routelab {}", self.name)));
        if let Json::Object(schema) = (self.schema)().json() {
            document.extend(schema);
        }
        let definitions: Map<String, Json> = (self.definitions)()
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), schema))
            .collect();
        if !definitions.is_empty() {
            document.insert("$defs".to_owned(), Json::Object(definitions));
        }
        Json::Object(document)
    }
}

/// The files that people write, with their schemas: name and text.
pub(super) fn inputs() -> impl Iterator<Item = (&'static str, String)> {
    KINDS
        .iter()
        .filter(|kind| kind.is_input)
        .map(|kind| (kind.name, pretty(&kind.json())))
}

/// Indented, with a line feed at its end.
fn pretty(value: &Json) -> String {
    format!("{value:#}\n")
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Exit {
    let named = |kind: &&Kind| arguments.kind.as_deref() == Some(kind.name);
    let kind = KINDS.iter().find(named);
    screen.print(&match (kind, arguments.markdown) {
        (Some(kind), false) => pretty(&kind.json()),
        (Some(kind), true) => markdown::section(kind.title, &kind.json()),
        (None, true) => markdown::page(
            KINDS
                .iter()
                .filter(|kind| kind.is_input)
                .map(|kind| (kind.title, kind.json())),
        ),
        (None, false) => listing(),
    })
}

fn listing() -> String {
    let mut text = String::new();
    for kind in &KINDS {
        text.push_str(&format!(
            "{:10} {}\n",
            kind.name,
            kind.title.replace('`', "")
        ));
    }
    text.push_str("next: routelab schema workload\n");
    text
}
