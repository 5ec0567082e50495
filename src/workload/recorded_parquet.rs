//! Parquet files, read with polars, a slice of rows at a time and only the columns that are wanted.
//!
//! polars takes minutes to compile, so it is behind the feature `frames`; without it, this says so.

/// Reads a whole file into `rows`.
#[cfg(not(feature = "frames"))]
pub(crate) fn read(_data: &[u8], _path: &str, rows: &mut super::recorded_rows::Collector<'_>) {
    rows.file_problem("this program was built without Parquet: build it with `--features frames`, or convert the file to CSV or JSONL");
}

#[cfg(feature = "frames")]
pub(crate) use frames::read;

#[cfg(feature = "frames")]
mod frames {
    use std::borrow::Cow;
    use std::io::Cursor;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use polars::prelude::{DataFrame, DataType, ParquetReader, SerReader as _, StringChunked};

    use super::super::recorded_rows::Collector;
    use crate::source::Location;

    /// Rows that are decoded at a time.
    const SLICE_ROWS: usize = 65_536;

    /// Reads a whole file into `rows`.
    pub(crate) fn read(data: &[u8], path: &str, rows: &mut Collector<'_>) {
        let names = match guarded(|| {
            let schema = ParquetReader::new(Cursor::new(data)).schema()?;
            Ok(schema.iter_names().map(|name| name.to_string()).collect())
        }) {
            Ok(names) => names,
            Err(message) => return rows.file_problem(message),
        };
        let names: Vec<String> = names;
        if !rows.header(names.clone()) {
            return;
        }
        let wanted = rows.wanted();
        let mut first = 0;
        loop {
            let frame = match guarded(|| slice(data, first, &wanted)) {
                Ok(frame) => frame,
                Err(message) => return rows.file_problem(message),
            };
            let height = frame.height();
            if height == 0 {
                return;
            }
            let columns = match guarded(|| texts(&frame, &names, &wanted)) {
                Ok(columns) => columns,
                Err(message) => return rows.file_problem(message),
            };
            for at in 0..height {
                let mut cells = vec![Cow::Borrowed(""); names.len()];
                for (column, texts) in wanted.iter().zip(&columns) {
                    cells[*column] = Cow::Borrowed(texts.get(at).unwrap_or(""));
                }
                // There are no lines to point at: the row's number and its cell stand in for them.
                let place = |column: usize| {
                    let text = cells.get(column).map_or("", |cell| cell).to_owned();
                    Location::Line {
                        path: path.to_owned(),
                        line: first + at + 1,
                        range: 0..text.len(),
                        text,
                    }
                };
                rows.row(&cells, &place);
            }
            first += height;
        }
    }

    fn slice(
        data: &[u8],
        first: usize,
        wanted: &[usize],
    ) -> polars::prelude::PolarsResult<DataFrame> {
        ParquetReader::new(Cursor::new(data))
            .with_slice(Some((first, SLICE_ROWS)))
            .with_projection(Some(wanted.to_vec()))
            .finish()
    }

    /// The wanted columns as text.
    fn texts(
        frame: &DataFrame,
        names: &[String],
        wanted: &[usize],
    ) -> polars::prelude::PolarsResult<Vec<StringChunked>> {
        wanted
            .iter()
            .map(|column| {
                let text = frame.column(&names[*column])?.cast(&DataType::String)?;
                Ok(text.str()?.clone())
            })
            .collect()
    }

    /// Runs a piece of the decoder. It panics on some malformed files; here that is an error like others.
    fn guarded<T>(work: impl FnOnce() -> polars::prelude::PolarsResult<T>) -> Result<T, String> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(format!("the Parquet file cannot be read: {error}")),
            Err(_) => Err("the Parquet file cannot be read: its decoder gave up".to_owned()),
        }
    }
}
