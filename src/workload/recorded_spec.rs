//! The table `[recorded]` of a workload file, or a columns file: which column of a data file is what.

use super::columns::Columns;
use super::recorded::{Names, Recorded};
use super::recorded_rows::{Collector, same};
use super::{Workload, World, recorded_csv, recorded_json, recorded_parquet, unpack};
use crate::source::{At, Diagnostic, Diagnostics, Location, Table, Value};

/// What a workload file says about its recorded data.
#[derive(Clone, Debug)]
pub(crate) struct RecordedSpec {
    /// The data file.
    pub(crate) file: At<String>,
    /// Route names, when the file gives them.
    pub(crate) routes: Option<Vec<At<String>>>,
    /// Which column is what; `None` looks for the default names.
    pub(crate) columns: Option<Columns>,
    /// Only rows that pass all of these are read.
    pub(crate) filters: Vec<Filter>,
    /// Which rows are training rows; they are never judged.
    pub(crate) split: Option<Filter>,
    /// Texts that mean "no value", beside the empty cell.
    pub(crate) missing: Vec<String>,
}

/// A column and the values that pass.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) column: At<String>,
    pub(crate) values: Vec<String>,
}

impl RecordedSpec {
    /// A file with default column names.
    pub(crate) fn defaults(path: &str) -> Self {
        Self {
            file: At {
                value: path.to_owned(),
                location: Location::File {
                    path: path.to_owned(),
                },
            },
            routes: None,
            columns: None,
            filters: Vec::new(),
            split: None,
            missing: Vec::new(),
        }
    }

    /// Reads `[recorded]`. Complaints go to the table's context.
    pub(crate) fn read(mut table: Table<'_>) -> Option<Self> {
        let file = table.require("file").and_then(|value| value.string());
        if let Some(file) = &file
            && file.value.is_empty()
        {
            table
                .context()
                .report(Diagnostic::error("`file` is empty").at(file.location.clone()));
        }
        let mut spec = Self {
            file: file?,
            ..Self::defaults("")
        };
        spec.read_common(&mut table);
        spec.columns = table
            .get("columns")
            .and_then(|value| value.table())
            .map(|mut columns| {
                let read = Columns::read(&mut columns);
                columns.finish();
                read
            });
        table.finish();
        Some(spec)
    }

    /// Reads a columns file: the same keys, those of `[recorded.columns]` at its root.
    pub(crate) fn read_columns_file(mut table: Table<'_>, path: &str) -> Option<Self> {
        let mut spec = Self::defaults(path);
        spec.read_common(&mut table);
        let columns = Columns::read_some(&mut table);
        spec.columns = columns;
        table.finish();
        Some(spec)
    }

    fn read_common(&mut self, table: &mut Table<'_>) {
        self.routes = table.get("routes").and_then(|value| {
            let routes = value.strings()?;
            if routes.is_empty() {
                value.error("`routes` is empty");
            }
            for (at, route) in routes.iter().enumerate() {
                if routes[..at]
                    .iter()
                    .any(|before| before.value == route.value)
                {
                    table.context().report(
                        Diagnostic::error(format!("route `{}` is listed twice", route.value))
                            .at(route.location.clone()),
                    );
                }
            }
            Some(routes)
        });
        self.filters = table
            .get("where")
            .and_then(|value| value.table())
            .map(|mut filters| {
                filters
                    .entries()
                    .into_iter()
                    .filter_map(|(column, value)| {
                        let values = one_or_more(&value)?;
                        Some(Filter { column, values })
                    })
                    .collect()
            })
            .unwrap_or_default();
        self.split = table
            .get("split")
            .and_then(|value| value.table())
            .and_then(|mut split| {
                let column = split.require("column").and_then(|value| value.string());
                let train = split.require("train").and_then(|value| one_or_more(&value));
                split.finish();
                Some(Filter {
                    column: column?,
                    values: train?,
                })
            });
        self.missing = table
            .get("missing")
            .and_then(|value| one_or_more(&value))
            .unwrap_or_default();
    }

    /// Reads the data and makes it a workload.
    pub(crate) fn build(
        self,
        name: &str,
        data: &[u8],
        diagnostics: &mut Diagnostics,
    ) -> Option<Workload> {
        let path = self.file.value.clone();
        let location = || Location::File { path: path.clone() };
        let unpacked;
        let (data, plain) = match path.strip_suffix(".gz") {
            Some(plain) => match unpack::gunzip(data, unpack::BYTES_MAX) {
                Ok(bytes) => {
                    unpacked = bytes;
                    (unpacked.as_slice(), plain)
                }
                Err(message) => {
                    diagnostics.push(Diagnostic::error(message).at(location()).help(
                        "it may be cut off, or not compressed at all: then name it without `.gz`",
                    ));
                    return None;
                }
            },
            None => (data, path.as_str()),
        };
        let ending = plain.rsplit_once('.').map_or("", |(_, ending)| ending);
        let mut rows = Collector::new(&self, &path);
        match ending.to_lowercase().as_str() {
            "csv" => recorded_csv::read(data, b',', &path, &mut rows),
            "tsv" | "tab" => recorded_csv::read(data, b'\t', &path, &mut rows),
            "jsonl" | "ndjson" => recorded_json::read(data, &path, &mut rows),
            "parquet" => recorded_parquet::read(data, &path, &mut rows),
            _ => {
                diagnostics.push(
                    Diagnostic::error(format!(
                        "`{path}` is in no format that is known by its ending"
                    ))
                    .at(self.file.location.clone())
                    .help(
                        "known endings: .csv, .tsv, .jsonl, .ndjson, .parquet, each also with .gz",
                    ),
                );
                return None;
            }
        }
        let before = diagnostics.has_errors();
        let (world, names, notes) = rows.finish(diagnostics)?;
        if before || diagnostics.has_errors() {
            return None;
        }
        Some(Self::workload(name, world, names, notes))
    }

    fn workload(name: &str, world: Recorded, names: Names, notes: Vec<String>) -> Workload {
        Workload {
            name: name.to_owned(),
            tasks: names.tasks,
            tenants: names.tenants,
            languages: names.languages,
            data_classes: names.data_classes,
            routes: names.routes,
            world: World::Recorded(Box::new(world)),
            notes,
        }
    }

    /// Whether a text means "no value".
    pub(crate) fn is_missing(&self, text: &str) -> bool {
        matches!(text, "" | "NA" | "N/A" | "null" | "NULL" | "None")
            || self.missing.iter().any(|missing| same(missing, text))
    }
}

/// A string, or a list of strings.
fn one_or_more(value: &Value<'_>) -> Option<Vec<String>> {
    if value.is_str() {
        return value.string().map(|one| vec![one.value]);
    }
    let many = value.strings()?;
    if many.is_empty() {
        value.error(format!("`{}` is empty", value.path()));
    }
    Some(many.into_iter().map(|one| one.value).collect())
}
