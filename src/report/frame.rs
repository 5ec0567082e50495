//! Tables of typed columns, for data frames and spreadsheets: CSV, Parquet, and a dictionary of the columns.
//!
//! What is unknown is an empty cell in CSV and a null in Parquet, never a zero. CSV is for people and
//! spreadsheets, so its texts are made visible and cannot be formulas; Parquet is for programs and holds
//! texts as they came.

use super::csv::guarded;
use super::format::visible;
use serde_json::{Map, Value};

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// Its columns, all of one length.
    pub columns: Vec<FrameColumn>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameColumn {
    /// Its name.
    pub name: String,
    /// What it holds, with its unit, in a sentence.
    pub about: String,
    /// Its cells.
    pub cells: Cells,
}

/// The cells of a column; `None` is what nobody knows, or what does not apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Words.
    Text(Vec<Option<String>>),
    /// Numbers.
    Number(Vec<Option<f64>>),
    /// Counts.
    Count(Vec<Option<u64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Text(cells) => cells.len(),
            Self::Number(cells) => cells.len(),
            Self::Count(cells) => cells.len(),
            Self::Flag(cells) => cells.len(),
        }
    }

    /// The word for the type in a dictionary.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Number(_) => "number",
            Self::Count(_) => "count",
            Self::Flag(_) => "true or false",
        }
    }

    fn text(&self, row: usize) -> String {
        let cell = match self {
            Self::Text(cells) => cells[row].as_deref().map(guarded),
            // Adding zero takes the sign off a zero.
            Self::Number(cells) => cells[row].map(|number| (number + 0.0).to_string()),
            Self::Count(cells) => cells[row].map(|count| count.to_string()),
            Self::Flag(cells) => cells[row].map(|flag| flag.to_string()),
        };
        cell.unwrap_or_default()
    }
}

impl Frame {
    /// A table of these columns.
    #[must_use]
    pub fn new(columns: Vec<(&str, &str, Cells)>) -> Self {
        let column = |(name, about, cells): (&str, &str, Cells)| FrameColumn {
            name: name.to_owned(),
            about: about.to_owned(),
            cells,
        };
        Self {
            columns: columns.into_iter().map(column).collect(),
        }
    }

    /// Flat records of which each has the keys of the first, as a table. A column is of numbers if all that is
    /// known in it are numbers, of text if there is any text.
    pub(super) fn of_records(records: &[Map<String, Value>]) -> Self {
        let keys = records.first().map(|first| first.keys().cloned());
        let column = |name: String| {
            let known = || {
                let cells = records.iter().filter_map(|record| record.get(&name));
                cells.filter(|cell| !cell.is_null())
            };
            let cells = if known().next().is_some() && known().all(Value::is_boolean) {
                Cells::Flag(each(records, &name, Value::as_bool))
            } else if known().all(Value::is_u64) && known().next().is_some() {
                Cells::Count(each(records, &name, Value::as_u64))
            } else if known().all(Value::is_number) {
                Cells::Number(each(records, &name, Value::as_f64))
            } else {
                Cells::Text(each(records, &name, |cell| {
                    Some(match cell {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    })
                }))
            };
            FrameColumn {
                about: String::new(),
                name,
                cells,
            }
        };
        Self {
            columns: keys.into_iter().flatten().map(column).collect(),
        }
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }

    /// The table as CSV (RFC 4180) with a header.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        // Writing to memory cannot fail, and every record has the header's length.
        let header = self.columns.iter().map(|column| guarded(&column.name));
        let _ = writer.write_record(header);
        for row in 0..self.height() {
            let cells = self.columns.iter().map(|column| column.cells.text(row));
            let _ = writer.write_record(cells);
        }
        // The records were made of strings.
        String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// What the columns mean, as a Markdown table.
    #[must_use]
    pub fn dictionary(&self) -> String {
        let mut text = "| column | type | meaning |\n| --- | --- | --- |\n".to_owned();
        for column in &self.columns {
            text.push_str(&format!(
                "| `{}` | {} | {} |\n",
                visible(&column.name).replace('`', "'").replace('|', "\\|"),
                column.cells.kind(),
                visible(&column.about).replace('|', "\\|"),
            ));
        }
        text
    }

    /// The table as one compressed file, with its name: Parquet, or CSV without the feature `frames`.
    pub(super) fn packed(&self, name: &str) -> (String, Vec<u8>) {
        use std::io::Write as _;

        if let Some(bytes) = self.parquet() {
            return (format!("{name}.parquet"), bytes);
        }
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        // Writing to memory cannot fail.
        let _ = packer.write_all(self.csv().as_bytes());
        (
            format!("{name}.csv.gz"),
            packer.finish().unwrap_or_default(),
        )
    }

    /// The table as Parquet: one file, compressed, in which the dictionary stands under the key
    /// `routelab.columns`. The same table gives the same bytes. `None` without the feature `frames`.
    #[must_use]
    pub fn parquet(&self) -> Option<Vec<u8>> {
        parquet(self)
    }
}

/// What `read` makes of the cells of this name, one for each record.
fn each<'r, T>(
    records: &'r [Map<String, Value>],
    name: &str,
    read: impl Fn(&'r Value) -> Option<T>,
) -> Vec<Option<T>> {
    let cell = |record: &'r Map<String, Value>| record.get(name).filter(|cell| !cell.is_null());
    let cells = records.iter().map(cell);
    cells.map(|cell| cell.and_then(&read)).collect()
}

#[cfg(not(feature = "frames"))]
fn parquet(_: &Frame) -> Option<Vec<u8>> {
    None
}

#[cfg(feature = "frames")]
fn parquet(frame: &Frame) -> Option<Vec<u8>> {
    use polars::prelude::{
        Column, DataFrame, KeyValueMetadata, NamedFrom as _, ParquetCompression, ParquetWriter,
        PlSmallStr, Series,
    };

    let columns = frame.columns.iter().map(|column| {
        let name = PlSmallStr::from_str(&column.name);
        Column::from(match &column.cells {
            Cells::Text(cells) => Series::new(name, cells),
            Cells::Number(cells) => Series::new(name, cells),
            Cells::Count(cells) => Series::new(name, cells),
            Cells::Flag(cells) => Series::new(name, cells),
        })
    });
    let mut table = DataFrame::new(frame.height(), columns.collect()).ok()?;
    let about: Map<String, Value> = frame
        .columns
        .iter()
        .map(|column| (column.name.clone(), Value::from(column.about.clone())))
        .collect();
    let about = Value::Object(about).to_string();
    let mut bytes = Vec::new();
    ParquetWriter::new(&mut bytes)
        .with_compression(ParquetCompression::Zstd(None))
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(vec![(
            "routelab.columns".to_owned(),
            about,
        )])))
        // One row group after the other: the bytes must not depend on threads.
        .set_parallel(false)
        .finish(&mut table)
        .ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame::new(vec![
            (
                "policy",
                "Its name.",
                Cells::Text(vec![Some("=a\u{202e}b".to_owned()), None]),
            ),
            (
                "value",
                "USD | cents.",
                Cells::Number(vec![None, Some(0.1)]),
            ),
            ("n", "Requests.", Cells::Count(vec![Some(3), None])),
            ("control", "Whether.", Cells::Flag(vec![Some(true), None])),
        ])
    }

    #[test]
    fn what_is_unknown_is_an_empty_cell_and_no_text_is_a_formula() {
        assert_eq!(
            frame().csv(),
            "policy,value,n,control\n'=a\\u{202e}b,,3,true\n,0.1,,\n"
        );
    }

    #[test]
    fn the_dictionary_says_what_each_column_is() {
        let text = frame().dictionary();
        assert!(
            text.contains("| `value` | number | USD \\| cents. |\n"),
            "{text}"
        );
    }

    #[test]
    fn records_become_columns_of_their_own_types() {
        let record = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let records = [
            record(r#"{"a": 1, "b": null, "c": "x", "d": true, "e": 1}"#),
            record(r#"{"a": 2, "b": null, "c": 3, "d": null, "e": 1.5}"#),
        ];
        let cells: Vec<Cells> = Frame::of_records(&records)
            .columns
            .into_iter()
            .map(|column| column.cells)
            .collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            cells,
            [
                Cells::Count(vec![Some(1), Some(2)]),
                Cells::Number(vec![None, None]),
                Cells::Text(vec![text("x"), text("3")]),
                Cells::Flag(vec![Some(true), None]),
                Cells::Number(vec![Some(1.0), Some(1.5)]),
            ]
        );
    }

    #[cfg(feature = "frames")]
    #[test]
    fn parquet_holds_the_same_cells_and_the_same_bytes_each_time() {
        use polars::prelude::{AnyValue, ParquetReader, SerReader as _};

        let bytes = frame().parquet().unwrap();
        assert_eq!(Some(&bytes), frame().parquet().as_ref());
        let read = ParquetReader::new(std::io::Cursor::new(bytes))
            .finish()
            .unwrap();
        let cell =
            |name: &str, row: usize| read.column(name).unwrap().get(row).unwrap().into_static();
        // As it came: whoever reads it with a program is no spreadsheet.
        assert_eq!(
            cell("policy", 0),
            AnyValue::StringOwned("=a\u{202e}b".into())
        );
        assert_eq!(cell("policy", 1), AnyValue::Null);
        assert_eq!(cell("value", 1), AnyValue::Float64(0.1));
        assert_eq!(cell("n", 0), AnyValue::UInt64(3));
        assert_eq!(cell("control", 1), AnyValue::Null);
    }
}
