//! Documents that are not comparisons: plans and sizes, as table, Markdown, CSV, JSON or page.
//!
//! A [`Sheet`] is to `size` what `Findings` is to `compare`: everything that is printed is in it, and
//! rendering computes nothing. The table and Markdown are for people; JSON holds the same numbers in
//! full, and CSV its records, one per line.

use serde_json::{Map, Value, json};

use super::Manifest;
use super::format::visible;
use super::frame::Frame;
use super::layout::{Block, Line, columns};
use super::{json as shape, markdown, table};

/// Names of the formats a sheet can be written in.
pub const SHEET_FORMATS: [&str; 5] = ["table", "markdown", "csv", "json", "html"];

/// A document of its own kind.
pub struct Sheet {
    /// Name and version of the JSON's shape, such as `routelab.size-shadow/1`.
    pub schema: &'static str,
    /// What was computed, in one line.
    pub title: String,
    /// Grids, in reading order.
    pub(super) blocks: Vec<Block>,
    /// A file that the document proposes, if it does.
    pub(super) file: Option<SheetFile>,
    /// Its pictures, which are parts of its page.
    pub(super) figures: Vec<Figure>,
    /// The one sentence to take away.
    pub summary: String,
    /// What has to be known to read the numbers.
    pub notes: Vec<String>,
    /// Everything, in full precision; unknown numbers are `null`.
    pub facts: Map<String, Value>,
    /// The records of the CSV file: flat, each with the same keys as the first.
    pub records: Vec<Map<String, Value>>,
}

/// A picture as part of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figure {
    /// What it is called, in a few words.
    pub(super) title: String,
    /// What can be seen in it, in a sentence or two.
    pub(super) about: String,
    /// The SVG document.
    pub(super) svg: String,
}

/// A file as part of a document.
pub(super) struct SheetFile {
    /// What it may be called.
    pub(super) name: &'static str,
    /// What Markdown calls its language.
    pub(super) language: &'static str,
    /// Its text, in which names from outside are already escaped.
    pub(super) text: String,
}

impl SheetFile {
    /// For a terminal.
    fn plain(&self) -> String {
        let lines = self
            .text
            .lines()
            .map(|line| format!("  {}\n", visible(line)));
        format!("\n{}:\n\n{}", self.name, lines.collect::<String>())
    }

    /// A fenced block, with a fence that the text does not hold.
    fn fenced(&self) -> String {
        let longest = self.text.split(|c| c != '`').map(str::len).max();
        let fence = "`".repeat(longest.unwrap_or(0).max(2) + 1);
        let text: String = self
            .text
            .lines()
            .map(|line| format!("{}\n", visible(line)))
            .collect();
        format!(
            "\n## {}\n\n{fence}{}\n{text}{fence}\n",
            self.name, self.language
        )
    }
}

impl std::fmt::Debug for Sheet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sheet")
            .field("schema", &self.schema)
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

impl Sheet {
    /// The document in one of [`SHEET_FORMATS`]; `None` if there is no such format.
    #[must_use]
    pub fn render(&self, format: &str, manifest: &Manifest) -> Option<String> {
        Some(match format {
            "table" => {
                let text = table::text(&self.title, &self.blocks, &self.summary, &self.notes);
                text + &self
                    .file
                    .as_ref()
                    .map_or_else(String::new, SheetFile::plain)
            }
            "markdown" => {
                let text = markdown::text(&self.title, &self.blocks, &self.summary, &self.notes);
                text + &self
                    .file
                    .as_ref()
                    .map_or_else(String::new, SheetFile::fenced)
            }
            "csv" => Frame::of_records(&self.records).csv(),
            "json" => self.json(manifest),
            "html" => super::page::of_sheet(self, manifest).html(),
            _ => return None,
        })
    }

    /// The files of a report folder, as relative name and bytes: the page `report.html`, `findings.json`, `findings.csv` and (with the
    /// feature `frames`) `findings.parquet`, `table.md`, `table.txt`, then `more`, and last `manifest.json`,
    /// which holds the digests of the others.
    #[must_use]
    pub fn files(
        &self,
        more: Vec<(String, Vec<u8>)>,
        manifest: &Manifest,
    ) -> Vec<(String, Vec<u8>)> {
        let written = [
            ("report.html", "html"),
            ("findings.json", "json"),
            ("table.md", "markdown"),
            ("table.txt", "table"),
        ];
        let mut files: Vec<(String, Vec<u8>)> = written
            .into_iter()
            .filter_map(|(name, format)| {
                Some((name.to_owned(), self.render(format, manifest)?.into_bytes()))
            })
            .collect();
        files.extend(super::frame_files(
            "findings",
            &Frame::of_records(&self.records),
        ));
        files.extend(more);
        super::with_manifest(files, manifest)
    }

    fn json(&self, manifest: &Manifest) -> String {
        let mut object = Map::new();
        object.insert("schema".to_owned(), json!(self.schema));
        object.insert(
            "manifest".to_owned(),
            json!({
                "version": manifest.version,
                "seed": manifest.seed,
                "inputs": manifest.inputs,
                "command": manifest.command,
            }),
        );
        object.extend(self.facts.clone());
        object.insert("summary".to_owned(), json!(self.summary));
        object.insert("notes".to_owned(), json!(self.notes));
        shape::pretty(&Value::Object(object))
    }
}

/// A grid from titles (and whether they stand on the right) and rows of cells.
pub(super) fn block(heading: String, titles: &[(&str, bool)], rows: Vec<Vec<String>>) -> Block {
    Block {
        heading,
        columns: columns(titles),
        lines: rows.into_iter().map(Line::Cells).collect(),
    }
}
