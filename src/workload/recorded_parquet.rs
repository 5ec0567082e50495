//! Parquet files, read with polars.

use super::recorded_rows::Collector;

/// Reads a whole file into `rows`.
#[cfg(not(feature = "frames"))]
pub(crate) fn read(_data: &[u8], _path: &str, rows: &mut Collector<'_>) {
    rows.file_problem("this program was built without Parquet: build it with `--features frames`, or convert the file to CSV or JSONL");
}
