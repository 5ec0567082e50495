//! A workload file, checked: `[synthetic]` or `[recorded]`.

use std::sync::Arc;

use super::recorded_spec::RecordedSpec;
use super::{Workload, synthetic_spec};
use crate::source::{At, Context, Diagnostics, Document, SourceFile};

/// A workload whose file was read and found right; what is missing is the data it names.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// The workload's name.
    pub name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Synthetic(Box<Workload>),
    Recorded(Box<RecordedSpec>),
}

/// Reads a workload TOML. `name` is what the workload is to be called (the file's stem). All complaints
/// go to `diagnostics`; the answer is `None` if any is an error.
pub fn parse(
    file: &Arc<SourceFile>,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Option<WorkloadSpec> {
    let document = Document::parse(file);
    let context = document.context();
    let mut root = document.table(&context);
    let synthetic = root.get("synthetic");
    let recorded = root.get("recorded");
    // Times are read by `timeline`, which knows the routes.
    let _ = root.get("timeline");
    let kind = match (synthetic, recorded) {
        (Some(value), None) => value
            .table()
            .and_then(|table| synthetic_spec::read(table, name))
            .map(|workload| Kind::Synthetic(Box::new(workload))),
        (None, Some(value)) => value
            .table()
            .and_then(RecordedSpec::read)
            .map(|spec| Kind::Recorded(Box::new(spec))),
        (Some(_), Some(recorded)) => {
            recorded.error("a workload is either `[synthetic]` or `[recorded]`, not both");
            None
        }
        (None, None) => {
            root.error("a workload file needs a table `[synthetic]` or `[recorded]`");
            None
        }
    };
    root.finish();
    finish(context, kind, name, diagnostics)
}

/// A data file (CSV, JSONL or Parquet) given directly: default column names, or those of a columns
/// TOML, which has the keys of `[recorded.columns]` at its root, beside `routes`, `split`, `missing` and
/// the table `[where]`. The workload is called after the file.
pub fn bare(
    data_path: &str,
    columns: Option<&Arc<SourceFile>>,
    diagnostics: &mut Diagnostics,
) -> Option<WorkloadSpec> {
    let name = stem(data_path).to_owned();
    let Some(file) = columns else {
        return Some(WorkloadSpec {
            name,
            kind: Kind::Recorded(Box::new(RecordedSpec::defaults(data_path))),
        });
    };
    let document = Document::parse(file);
    let context = document.context();
    let spec = RecordedSpec::read_columns_file(document.table(&context), data_path);
    let kind = spec.map(|spec| Kind::Recorded(Box::new(spec)));
    finish(context, kind, &name, diagnostics)
}

fn finish(
    context: Context,
    kind: Option<Kind>,
    name: &str,
    diagnostics: &mut Diagnostics,
) -> Option<WorkloadSpec> {
    let sound = !context.has_errors();
    context.finish(diagnostics);
    kind.filter(|_| sound).map(|kind| WorkloadSpec {
        name: name.to_owned(),
        kind,
    })
}

/// A file's name without folders and endings: `data/a.csv.gz` is `a`.
fn stem(path: &str) -> &str {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    match file.find('.') {
        Some(at) if at > 0 => &file[..at],
        _ => file,
    }
}

impl WorkloadSpec {
    /// The data file that [`WorkloadSpec::build`] needs, as the workload file writes it: relative paths
    /// are relative to that file. `None` if no data is needed.
    #[must_use]
    pub fn data_path(&self) -> Option<&At<String>> {
        match &self.kind {
            Kind::Synthetic(_) => None,
            Kind::Recorded(spec) => Some(&spec.file),
        }
    }

    /// Names of the routes, if they can be known without the data.
    #[must_use]
    pub fn routes(&self) -> Option<&[String]> {
        match &self.kind {
            Kind::Synthetic(workload) => Some(&workload.routes),
            Kind::Recorded(_) => None,
        }
    }

    /// The workload. `data` is the content of the file at [`WorkloadSpec::data_path`], still compressed
    /// if it is. Complaints about the data go to `diagnostics`, and the answer is then `None`.
    #[must_use]
    pub fn build(self, data: Option<&[u8]>, diagnostics: &mut Diagnostics) -> Option<Workload> {
        match self.kind {
            Kind::Synthetic(workload) => Some(*workload),
            Kind::Recorded(spec) => spec.build(&self.name, data.unwrap_or_default(), diagnostics),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn a_data_file_names_its_workload() {
        for (path, expected) in [
            ("data/a.csv.gz", "a"),
            ("b", "b"),
            ("c:\\x\\d.parquet", "d"),
            (".csv", ".csv"),
            ("", ""),
        ] {
            assert_eq!(stem(path), expected);
        }
    }
}
