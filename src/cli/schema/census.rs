//! The schemas against the readers: both know the same keys, and what one takes the other takes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;
use toml::de::{DeTable, DeValue};

use super::KINDS;
use crate::catalogue::{self, Catalogue};
use crate::policy;
use crate::source::census::{self, Asked, By};
use crate::source::{Diagnostics, SourceFile};
use crate::standin::faults;
use crate::verify::Commands;
use crate::{timeline, workload};

/// A file of the project, or a block of a document.
struct Written {
    file: Arc<SourceFile>,
    kind: &'static str,
    /// Its content; what cannot be parsed is not there.
    json: Json,
    /// Whether it is TOML at all.
    is_toml: bool,
    /// The catalogue that it refers to.
    routes: Option<PathBuf>,
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Every TOML text of the project that somebody may hand to the program.
fn all() -> Vec<Written> {
    let mut paths = Vec::new();
    let mut folders = [
        "policies",
        "workloads",
        "tests/configs",
        "tests/clients",
        "src/cli/init",
    ]
    .map(project)
    .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "toml")
                && !path.ends_with("taplo.toml")
            {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let mut all: Vec<Written> = paths
        .iter()
        .filter_map(|path| {
            let text = String::from_utf8(std::fs::read(path).unwrap()).ok()?;
            let name = path.strip_prefix(project("")).unwrap().to_str().unwrap();
            let beside = path.with_file_name("routes.toml");
            written(name, text, beside.is_file().then_some(beside))
        })
        .collect();
    let readme = std::fs::read_to_string(project("README.md")).unwrap();
    let blocks = readme.split("```toml\n").skip(1);
    all.extend(blocks.enumerate().filter_map(|(index, rest)| {
        let text = rest.split("```").next().unwrap();
        written(&format!("README.md, block {index}"), text.to_owned(), None)
    }));
    all
}

fn written(name: &str, text: String, routes: Option<PathBuf>) -> Option<Written> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
    let (root, errors) = DeTable::parse_recoverable(&text);
    let root = root.get_ref();
    let has = |names: &[&str]| names.iter().any(|name| root.contains_key(*name));
    let kind = if has(&["synthetic", "recorded", "timeline"]) {
        "workload"
    } else if has(&["router", "provider", "require"])
        || root
            .get("route")
            .is_some_and(|value| value.get_ref().is_table())
    {
        "routes"
    } else if has(&["fault"]) {
        "faults"
    } else if policy::KINDS.iter().any(|kind| has(&[kind.name])) {
        "policy"
    } else if root.iter().next().is_some() {
        "columns"
    } else {
        return None;
    };
    Some(Written {
        kind,
        json: object(root),
        is_toml: errors.is_empty(),
        file: SourceFile::new(name, text.clone()),
        routes,
    })
}

fn object(table: &DeTable<'_>) -> Json {
    table
        .iter()
        .map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A value as editors see it: dates are texts.
fn json(value: &DeValue<'_>) -> Json {
    match value {
        DeValue::String(text) => Json::from(text.as_ref()),
        DeValue::Boolean(value) => Json::from(*value),
        DeValue::Integer(text) => {
            let digits = text.as_str().replace('_', "");
            match i64::from_str_radix(&digits, text.radix()) {
                Ok(number) => Json::from(number),
                Err(_) => Json::from(1e300),
            }
        }
        // What JSON lacks is refused by every schema of a number.
        DeValue::Float(text) => match text.as_str().replace('_', "").parse::<f64>() {
            Ok(number) if number.is_finite() => Json::from(number),
            _ => Json::Null,
        },
        DeValue::Datetime(moment) => Json::from(moment.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => object(table),
    }
}

/// The catalogue that a file refers to.
fn catalogue_for(written: &Written) -> Catalogue {
    let parse = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        let file = SourceFile::new("routes.toml", text);
        catalogue::parse(&file, &mut Diagnostics::default())
    };
    let own = written.routes.as_deref().and_then(parse);
    own.or_else(|| parse(&project("policies/routes.toml")))
        .unwrap()
}

/// What the reader of its kind says.
fn read(written: &Written, catalogue: &Catalogue) -> Diagnostics {
    let mut found = Diagnostics::default();
    let file = &written.file;
    match written.kind {
        "routes" => drop(catalogue::parse(file, &mut found)),
        "faults" => drop(faults::parse(file, &mut found)),
        "columns" => drop(workload::bare("data.csv", Some(file), &mut found)),
        "policy" => {
            let commands = Commands::OnlyRead;
            drop(policy::parse_allowing(
                file, "p", catalogue, commands, &mut found,
            ));
        }
        _ => {
            // A piece of a workload in a document has only its times.
            let is_whole = ["synthetic", "recorded"]
                .iter()
                .any(|table| written.json.get(table).is_some());
            if is_whole {
                drop(workload::parse(file, "w", &mut found));
            }
            let tenants = written.json["synthetic"]["tenant"].as_object();
            let tenants = tenants.into_iter().flatten();
            let tenants: Vec<String> = tenants.map(|(name, _)| name.clone()).collect();
            let names = timeline::Names {
                catalogue,
                tenants: &tenants,
            };
            drop(timeline::parse(file, &names, &mut found));
        }
    }
    found
}

fn schemas() -> BTreeMap<&'static str, Json> {
    KINDS.iter().map(|kind| (kind.name, kind.json())).collect()
}

fn validator(schema: &Json) -> jsonschema::Validator {
    jsonschema::options().offline().build(schema).unwrap()
}

/// Where in a schema a table of a file is described. A name may have dots in it, so there may be several
/// answers; `true` is for places that take anything.
struct Places<'s> {
    schema: &'s Json,
    tables: BTreeSet<String>,
    anything: bool,
}

impl<'s> Places<'s> {
    fn of(schema: &'s Json, path: &str) -> Self {
        let mut places = Self {
            schema,
            tables: BTreeSet::new(),
            anything: false,
        };
        let segments: Vec<&str> = path.split('.').filter(|one| !one.is_empty()).collect();
        places.walk("", &segments);
        places
    }

    fn walk(&mut self, at: &str, segments: &[&str]) {
        let node = self.schema.pointer(at).unwrap();
        if let Some(reference) = node["$ref"].as_str() {
            self.walk(reference.trim_start_matches('#'), segments);
        }
        for index in 0..node["anyOf"].as_array().map_or(0, Vec::len) {
            self.walk(&format!("{at}/anyOf/{index}"), segments);
        }
        let open = node["additionalProperties"].is_object();
        if node["type"] == "object" && !node["properties"].is_object() && !open {
            self.anything = true;
        }
        let Some((first, rest)) = segments.split_first() else {
            if node["type"] == "object" {
                self.tables.insert(at.to_owned());
            }
            return;
        };
        let (key, indices) = first
            .split_once('[')
            .map_or((*first, 0), |(key, _)| (key, first.matches('[').count()));
        let below = "/items".repeat(indices);
        if !node["properties"][key].is_null() {
            self.follow(&format!("{at}/properties/{key}"), &below, rest);
        } else if open {
            for taken in 1..=segments.len() {
                self.follow(
                    &format!("{at}/additionalProperties"),
                    &below,
                    &segments[taken..],
                );
            }
        }
    }

    fn follow(&mut self, at: &str, below: &str, rest: &[&str]) {
        let at = format!("{at}{below}");
        if self.schema.pointer(&at).is_some() {
            self.walk(&at, rest);
        }
    }
}

/// Every property in a schema, by its place.
fn properties(schema: &Json, at: &str, into: &mut BTreeSet<String>) {
    match schema {
        Json::Object(map) => {
            for (key, value) in map {
                // What is required, and defaults, are no schemas.
                if [
                    "required",
                    "default",
                    "dependentRequired",
                    "not",
                    "enum",
                    "allOf",
                    "const",
                ]
                .contains(&key.as_str())
                {
                    continue;
                }
                let place = format!("{at}/{key}");
                if key == "properties" {
                    for (name, value) in value.as_object().unwrap() {
                        into.insert(format!("{place}/{name}"));
                        properties(value, &format!("{place}/{name}"), into);
                    }
                } else {
                    properties(value, &place, into);
                }
            }
        }
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                properties(item, &format!("{at}/{index}"), into);
            }
        }
        _ => {}
    }
}

/// What all files together make the readers of a kind ask for.
fn asked() -> BTreeMap<&'static str, Asked> {
    let mut asked: BTreeMap<&'static str, Asked> = BTreeMap::new();
    for written in all() {
        let catalogue = catalogue_for(&written);
        let of = census::of(|| drop(read(&written, &catalogue)));
        asked.entry(written.kind).or_default().extend(of);
    }
    asked
}

#[test]
fn every_key_that_a_reader_asks_for_is_in_the_schema_and_the_other_way_round() {
    let schemas = schemas();
    let mut wrong = Vec::new();
    let mut all = asked();
    for kind in KINDS
        .iter()
        .filter(|kind| kind.is_input)
        .map(|kind| kind.name)
    {
        let asked = all.remove(kind).unwrap_or_default();
        let schema = &schemas[kind];
        let mut unasked = BTreeSet::new();
        properties(schema, "", &mut unasked);
        for (path, key, by) in asked {
            let places = Places::of(schema, &path);
            let mut known = places.anything;
            for table in &places.tables {
                let node = schema.pointer(table).unwrap();
                if node["properties"].get(&key).is_some() {
                    unasked.remove(&format!("{table}/properties/{key}"));
                    known = true;
                }
                // Whoever lists a table takes names, and says which of them are none.
                known |= by == By::Listing;
            }
            if !known {
                wrong.push(format!(
                    "{kind}: `{key}` in `[{path}]` is asked for and not in the schema"
                ));
            }
        }
        wrong.extend(
            unasked
                .iter()
                .map(|place| format!("{kind}: nobody asks for {place}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(super::policy::missing_kinds(), Vec::<&str>::new());
}

#[test]
fn what_a_reader_takes_is_valid_and_what_is_of_a_wrong_type_or_unknown_is_not() {
    let schemas = schemas();
    let (mut sound, mut unsound) = (BTreeMap::<&str, usize>::new(), 0);
    let mut wrong = Vec::new();
    for written in all().iter().filter(|written| written.is_toml) {
        let found = read(written, &catalogue_for(written));
        let errors: Vec<String> = validator(&schemas[written.kind])
            .iter_errors(&written.json)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        // A catalogue in a document leaves out what it is not about; times stand without their workload.
        let is_piece = written.file.path.starts_with("README");
        let path = &written.file.path;
        if !found.has_errors() && !is_piece {
            *sound.entry(written.kind).or_default() += 1;
            if !errors.is_empty() {
                wrong.push(format!(
                    "{path} is sound, and the schema refuses it: {errors:?}"
                ));
            }
        }
        if is_piece {
            let of_whole = |error: &String| error.starts_with(": ") && !error.contains("dditional");
            if !errors.iter().all(of_whole) {
                wrong.push(format!("{path}: {errors:?}"));
            }
        }
        let shows = found.0.iter().any(|one| {
            let message = &one.message;
            let typed = message.contains("` must be ")
                && [", not a ", ", not true or false"]
                    .iter()
                    .any(|end| message.contains(end));
            message.starts_with("unknown key") || typed
        });
        if shows {
            unsound += 1;
            if errors.is_empty() {
                let said: Vec<&String> = found.0.iter().map(|one| &one.message).collect();
                wrong.push(format!("the schema takes {path}: {said:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sound.len() == 5 && unsound > 15, "{sound:?}, {unsound}");
}

#[test]
fn the_schemas_are_schemas() {
    for (kind, schema) in schemas() {
        assert!(jsonschema::meta::is_valid(&schema), "{kind}");
        let mut places = BTreeSet::new();
        properties(&schema, "", &mut places);
        for place in places {
            let node = schema.pointer(&place).unwrap();
            assert!(
                node["description"].is_string(),
                "{kind}: {place} is not described"
            );
        }
    }
}
