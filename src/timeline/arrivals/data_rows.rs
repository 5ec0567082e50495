//! Reading the rows of a trace: text with a place for every complaint.

use crate::source::{Diagnostic, Diagnostics, Location};

/// After so many bad rows the rest is not read: they are all bad for the same reason.
const PROBLEMS_MAX: usize = 20;

/// The text of a data file and what is wrong with it.
#[derive(Debug)]
pub(super) struct Sheet<'d> {
    pub(super) text: &'d str,
    path: &'d str,
    problems: Vec<Diagnostic>,
}

/// One row: where it starts in the text, and its cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells<'r> {
    start: usize,
    record: &'r csv::StringRecord,
}

impl<'d> Sheet<'d> {
    pub(super) const fn new(text: &'d str, path: &'d str) -> Self {
        Self {
            text,
            path,
            problems: Vec::new(),
        }
    }

    /// The number of the line that holds a byte, from 1.
    pub(super) fn line_number(&self, at: usize) -> usize {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }

    /// The line at a byte, with the bytes of it that are meant.
    pub(super) fn place(
        &self,
        start: usize,
        range: impl Fn(&str) -> std::ops::Range<usize>,
    ) -> Location {
        let rest = &self.text[start..];
        let line = rest.split('\n').next().unwrap_or_default();
        let line = line.trim_end_matches('\r');
        Location::Line {
            path: self.path.to_owned(),
            line: self.line_number(start),
            text: line.to_owned(),
            range: range(line),
        }
    }

    /// The file as a whole.
    pub(super) fn file(&self) -> Location {
        Location::File {
            path: self.path.to_owned(),
        }
    }

    /// Adds a complaint.
    pub(super) fn problem(&mut self, problem: Diagnostic) {
        self.problems.push(problem);
    }

    /// Whether there is no use in reading on.
    pub(super) fn is_hopeless(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// Hands over what was found; false if that is anything.
    pub(super) fn finish(self, diagnostics: &mut Diagnostics) -> bool {
        let sound = self.problems.is_empty();
        diagnostics.0.extend(self.problems);
        sound
    }

    /// Reads comma-separated text: the cells of the first line go to `header`, which says what to do with a
    /// row, or `None` if there is no use in reading on. The answer is that reader, with what it kept.
    pub(super) fn csv<R>(
        &mut self,
        header: impl FnOnce(&mut Self, Cells<'_>) -> Option<R>,
        mut row: impl FnMut(&mut Self, &mut R, Cells<'_>),
    ) -> Option<R> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            // Rows of the wrong length are reported here, with their line.
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(self.text.as_bytes());
        let mut record = csv::StringRecord::new();
        let mut header = Some(header);
        let mut read = None;
        let mut width = 0;
        while !self.is_hopeless() {
            match reader.read_record(&mut record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let problem = Diagnostic::error(format!("the file cannot be read: {error}"));
                    let place = self.file();
                    self.problem(problem.at(place));
                    return None;
                }
            }
            let start = record.position().map_or(0, |position| position.byte()) as usize;
            // Blank lines before a record belong to it, as far as the reader is concerned.
            let blank = self.text.as_bytes()[start..]
                .iter()
                .take_while(|byte| matches!(byte, b'\n' | b'\r'))
                .count();
            let cells = Cells {
                start: start + blank,
                record: &record,
            };
            if let Some(header) = header.take() {
                width = record.len();
                read = Some(header(self, cells)?);
            } else if let Some(read) = &mut read {
                if record.len() == width {
                    row(self, read, cells);
                } else {
                    let cell = if record.len() == 1 { "cell" } else { "cells" };
                    let message = format!("the row has {} {cell}, not {width}", record.len());
                    let place = self.place(cells.start, |line| 0..line.len());
                    self.problem(Diagnostic::error(message).at(place));
                }
            }
        }
        read
    }
}

impl<'r> Cells<'r> {
    /// Where the row starts.
    pub(super) const fn start(&self) -> usize {
        self.start
    }

    /// The cell of a column.
    pub(super) fn get(&self, column: usize) -> &'r str {
        self.record.get(column).unwrap_or_default()
    }

    /// The cells, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'r str> {
        self.record.iter()
    }

    /// Reports a cell.
    pub(super) fn wrong(&self, sheet: &mut Sheet<'_>, column: usize, message: String, help: &str) {
        let place = sheet.place(self.start, |line| cell_range(line, column));
        sheet.problem(Diagnostic::error(message).at(place).help(help));
    }

    /// A number in `low..=high`, called `name` in messages; reported if it is none.
    pub(super) fn number(
        &self,
        sheet: &mut Sheet<'_>,
        (column, name): (usize, &str),
        (low, high): (f64, f64),
        help: &str,
    ) -> Option<f64> {
        let cell = self.get(column);
        match cell.parse::<f64>() {
            Ok(number) if (low..=high).contains(&number) => Some(number),
            Ok(number) => {
                let message = format!("`{name}` must be between {low} and {high}, but is {number}");
                self.wrong(sheet, column, message, help);
                None
            }
            Err(_) => {
                let message = if cell.is_empty() {
                    format!("`{name}` is empty")
                } else {
                    format!("`{name}` must be a number, but is `{cell}`")
                };
                self.wrong(sheet, column, message, "");
                None
            }
        }
    }
}

/// Bytes of a cell; the whole line if quotation marks make that hard to say.
fn cell_range(line: &str, column: usize) -> std::ops::Range<usize> {
    if line.contains('"') {
        return 0..line.len();
    }
    let mut start = 0;
    for (index, cell) in line.split(',').enumerate() {
        if index == column {
            return start..start + cell.len();
        }
        start += cell.len() + 1;
    }
    0..line.len()
}
