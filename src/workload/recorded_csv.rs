//! Comma- or tab-separated text (RFC 4180, also with bare line feeds).

use std::borrow::Cow;

use csv::{ByteRecord, ReaderBuilder};

use super::recorded_rows::Collector;
use crate::source::{Diagnostic, Location};

/// Reads a whole file into `rows`.
pub(crate) fn read(data: &[u8], separator: u8, path: &str, rows: &mut Collector<'_>) {
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    let lines = Lines { data, path };
    if let Err(error) = std::str::from_utf8(data) {
        // Guessing an encoding would change names silently.
        let start = data[..error.valid_up_to()]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |feed| feed + 1);
        rows.problem(|| {
            Diagnostic::error("the file is not UTF-8 text")
                .at(lines.place(start, separator, usize::MAX))
                .help("save it as UTF-8")
        });
        return;
    }
    let mut reader = ReaderBuilder::new()
        .delimiter(separator)
        .has_headers(false)
        // Rows of the wrong length are reported here, all of them and with their line.
        .flexible(true)
        .from_reader(data);
    let mut record = ByteRecord::new();
    let mut width = 0;
    loop {
        match reader.read_byte_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                rows.file_problem(format!("the file cannot be read: {error}"));
                return;
            }
        }
        let start = record.position().map_or(0, |position| position.byte()) as usize;
        let place = |column: usize| lines.place(start, separator, column);
        let cells: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
        if width == 0 {
            width = cells.len();
            let header = cells.iter().map(|cell| cell.trim().to_owned()).collect();
            if !rows.header(header) {
                return;
            }
        } else if cells.len() != width {
            let swallowed = cells.iter().any(|cell| cell.contains('\n'));
            rows.problem(|| {
                let cell = if cells.len() == 1 { "cell" } else { "cells" };
                let message = format!("the row has {} {cell}, not {width}", cells.len());
                let problem = Diagnostic::error(message).at(place(usize::MAX));
                if swallowed {
                    problem.help("a quotation mark that is not closed swallows the lines after it")
                } else {
                    problem
                }
            });
        } else {
            rows.row(&cells, &place);
        }
    }
    if width == 0 {
        rows.file_problem("the file is empty");
    }
}

/// The file's text, for pointing at cells.
struct Lines<'d> {
    data: &'d [u8],
    path: &'d str,
}

impl Lines<'_> {
    /// The cell in `column` of the record at byte `start`; a column beyond the last is the whole line.
    /// A cell with line feeds in quotes pushes later cells to a later line: the line is the cell's own.
    fn place(&self, start: usize, separator: u8, column: usize) -> Location {
        // Blank lines before a record belong to it, as far as the reader is concerned.
        let mut at = start.min(self.data.len());
        while matches!(self.data.get(at), Some(b'\n' | b'\r')) {
            at += 1;
        }
        let first = at;
        let (mut cell, mut quoted, mut cell_start) = (0, false, at);
        let mut cell_end = None;
        while let Some(byte) = self.data.get(at) {
            match byte {
                b'"' => quoted = !quoted,
                b'\n' | b'\r' if !quoted => break,
                byte if *byte == separator && !quoted => {
                    if cell == column {
                        cell_end = Some(at);
                        break;
                    }
                    cell += 1;
                    cell_start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        let (cell_start, cell_end) = if cell == column {
            (cell_start, cell_end.unwrap_or(at))
        } else {
            (first, at)
        };
        let line_start = self.data[..cell_start]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |feed| feed + 1);
        let line_end = self.data[cell_start..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(self.data.len(), |feed| cell_start + feed);
        let text = |from: usize, to: usize| String::from_utf8_lossy(&self.data[from..to.max(from)]);
        let before = text(line_start, cell_start);
        let cell = text(cell_start, cell_end.min(line_end));
        let after = text(cell_end.min(line_end).max(cell_start), line_end);
        let range = before.len()..before.len() + cell.len();
        let line = format!("{before}{cell}{after}");
        Location::Line {
            path: self.path.to_owned(),
            line: 1 + self.data[..cell_start]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count(),
            text: line.trim_end_matches('\r').to_owned(),
            range,
        }
    }
}
