//! Reading the file of a recorded trace. What it is shows in its first line:
//!
//! - Azure's LLM inference traces (CC-BY 4.0; Patel et al., "Splitwise", ISCA 2024): CSV with `TIMESTAMP`,
//!   a date and time, which counts from the earliest row on;
//! - Mooncake's (Apache-2.0; Qin et al., FAST 2025): JSON lines with `timestamp` in milliseconds;
//! - a CSV with a column `at_s`, or JSON lines with a key `at_s`, in seconds, with or without a `tenant`;
//! - ServeGen's clients (Apache-2.0): CSV with `client`, `window_start_s`, `rate_rps`, `cv` and `pattern`.
//!
//! Everything else in the file, recorded tokens included, is left alone. Rows that are not in order of
//! time are sorted: many logs are written when a request ends. Of rows with the same time each is one
//! arrival, in the order of the file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::clients::{Clients, Row, Unfit};
use super::data_rows::{Cells, Sheet};
use super::law::{CV_MAX, CV_MIN, Family};
use super::moment::{TICKS, moment};
use super::trace::Recorded;
use super::{Arrivals, Kind, RATE_MAX_PER_S, RATE_MIN_PER_S};
use crate::source::{At, Diagnostic, Diagnostics, Location, describe_list};
use crate::workload::{NO_NAME, unpack};

/// Most rows of a trace.
pub(super) const ROWS_MAX: usize = 10_000_000;
/// Most clients of a service.
const CLIENTS_MAX: usize = 10_000;
/// Latest time in a trace: ten years.
const AT_MAX_S: f64 = 315_576_000.0;

/// A trace that a file names.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::timeline) struct Plan {
    /// Path of the data.
    pub(in crate::timeline) file: At<String>,
    /// How many times as fast as recorded.
    pub(super) speed: f64,
    /// Whether it starts again at its end.
    pub(super) repeat: bool,
    /// Indices of the workload's tenants.
    pub(super) tenants: BTreeMap<String, u16>,
}

impl Plan {
    /// The arrivals. `data` is the content of the file, still compressed if it is. Complaints go to
    /// `diagnostics`, and the answer is then `None` if any is an error.
    pub(in crate::timeline) fn build(
        &self,
        data: &[u8],
        diagnostics: &mut Diagnostics,
    ) -> Option<Arrivals> {
        let path = self.file.value.as_str();
        let location = || Location::File {
            path: path.to_owned(),
        };
        let unpacked;
        let mut data = data;
        if path.ends_with(".gz") || data.starts_with(&[0x1f, 0x8b]) {
            match unpack::gunzip(data, unpack::BYTES_MAX) {
                Ok(bytes) => unpacked = bytes,
                Err(message) => {
                    diagnostics.push(Diagnostic::error(message).at(location()).help(
                        "it may be cut off, or not compressed at all: then name it without `.gz`",
                    ));
                    return None;
                }
            }
            data = &unpacked;
        }
        let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
        let text = match std::str::from_utf8(data) {
            Ok(text) => text,
            Err(error) => {
                let line = 1 + data[..error.valid_up_to()]
                    .iter()
                    .filter(|byte| **byte == b'\n')
                    .count();
                diagnostics.push(
                    Diagnostic::error(format!("line {line} is not UTF-8 text"))
                        .at(location())
                        .help("save the file as UTF-8; of Parquet, export the times as CSV"),
                );
                return None;
            }
        };
        let mut sheet = Sheet::new(text, path);
        let found = if text.trim_start().starts_with('{') {
            self.json_lines(&mut sheet).map(Content::Stamps)
        } else {
            self.csv(&mut sheet)
        };
        let found = found.filter(|found| {
            let none = found.is_empty() && !sheet.is_hopeless();
            if none {
                let place = sheet.file();
                sheet.problem(Diagnostic::error("the trace has no rows").at(place));
            }
            !none
        });
        // Kept for the notes, which speak of lines.
        let lines = Sheet::new(text, path);
        if !sheet.finish(diagnostics) {
            return None;
        }
        match found? {
            Content::Stamps(stamps) => self.recorded(stamps, &lines, diagnostics),
            Content::Clients(rows, names) => self.clients(rows, &names, &lines, diagnostics),
        }
    }

    fn csv(&self, sheet: &mut Sheet<'_>) -> Option<Content> {
        let reader = sheet.csv(
            |sheet, header| {
                let columns = Columns::of(&header);
                if columns.is_none() {
                    let place = sheet.place(header.start(), |line| 0..line.len());
                    let found = describe_list(header.iter());
                    sheet.problem(
                        Diagnostic::error(format!("no known trace has the columns {found}"))
                            .at(place)
                            .help(KNOWN),
                    );
                }
                Some((columns?, Reader::default()))
            },
            |sheet, (columns, reader), cells| match columns {
                Columns::Azure { at } => reader.azure(sheet, cells, *at),
                Columns::Seconds { at, tenant } => {
                    reader.seconds(sheet, cells, *at, *tenant, self);
                }
                Columns::Clients(columns) => reader.client(sheet, cells, *columns),
            },
        );
        let empty = reader.is_none() && sheet.text.trim().is_empty();
        if empty {
            let place = sheet.file();
            sheet.problem(Diagnostic::error("the file is empty").at(place));
        }
        let (columns, reader) = reader?;
        Some(match columns {
            Columns::Clients(_) => Content::Clients(reader.rows, reader.names),
            Columns::Azure { .. } => {
                let earliest = reader.stamps.iter().map(|stamp| stamp.ticks).min();
                let from_first = |stamp: Stamp| Stamp {
                    ticks: stamp.ticks - earliest.unwrap_or(0),
                    ..stamp
                };
                Content::Stamps(reader.stamps.into_iter().map(from_first).collect())
            }
            Columns::Seconds { .. } => Content::Stamps(reader.stamps),
        })
    }

    fn json_lines(&self, sheet: &mut Sheet<'_>) -> Option<Vec<Stamp>> {
        let mut stamps = Vec::new();
        let mut start = 0;
        let mut in_seconds = None;
        let text = sheet.text;
        for line in text.split_inclusive('\n') {
            let at = start;
            start += line.len();
            if line.trim().is_empty() {
                continue;
            }
            if sheet.is_hopeless() {
                break;
            }
            let read: Line<'_> = match serde_json::from_str(line) {
                Ok(read) => read,
                Err(error) => {
                    let column = error.column().saturating_sub(1);
                    let place = sheet.place(at, |line| {
                        let mut column = column.min(line.len());
                        while !line.is_char_boundary(column) {
                            column -= 1;
                        }
                        let width = line[column..].chars().next().map_or(0, char::len_utf8);
                        column..column + width
                    });
                    // The place says which line.
                    let message = error.to_string();
                    let message = message.split(" at line ").next().unwrap_or_default();
                    sheet.problem(
                        Diagnostic::error(format!("the row cannot be read: {message}")).at(place),
                    );
                    continue;
                }
            };
            // The first row says which of the two it is.
            let in_seconds = *in_seconds.get_or_insert(read.at_s.is_some());
            let (name, value, unit) = if in_seconds {
                ("at_s", read.at_s, 1.0)
            } else {
                ("timestamp", read.timestamp, 1e-3)
            };
            let whole_line = |line: &str| 0..line.len();
            let Some(value) = value else {
                let place = sheet.place(at, whole_line);
                sheet.problem(
                    Diagnostic::error(format!("the row has no `{name}`"))
                        .at(place)
                        .help(KNOWN),
                );
                continue;
            };
            if !(0.0..=AT_MAX_S).contains(&(value * unit)) {
                let place = sheet.place(at, whole_line);
                let high = AT_MAX_S / unit;
                let message = format!("`{name}` must be between 0 and {high}, but is {value}");
                sheet.problem(Diagnostic::error(message).at(place).help(FROM_ZERO));
                continue;
            }
            let tenant = match read.tenant.as_deref() {
                Some(name) if in_seconds => match self.tenant(name) {
                    Ok(tenant) => tenant,
                    Err(problem) => {
                        let place = sheet.place(at, whole_line);
                        sheet.problem(problem.at(place));
                        continue;
                    }
                },
                _ => NO_NAME,
            };
            stamps.push(Stamp {
                ticks: (value * unit * TICKS as f64).round() as i64,
                start: at,
                tenant,
            });
            if too_many(sheet, stamps.len()) {
                return None;
            }
        }
        Some(stamps)
    }

    /// The index of a tenant; none of them for an empty name.
    fn tenant(&self, name: &str) -> Result<u16, Box<Diagnostic>> {
        if name.is_empty() {
            return Ok(NO_NAME);
        }
        if let Some(index) = self.tenants.get(name) {
            return Ok(*index);
        }
        let known = self.tenants.keys().map(String::as_str);
        let help = match crate::source::nearest(name, known.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.tenants.is_empty() => {
                "the workload has no tenants: name them there, or leave this column out".to_owned()
            }
            None => format!("tenants of the workload: {}", describe_list(known)),
        };
        let problem = Diagnostic::error(format!("unknown tenant `{name}`"));
        Err(Box::new(problem.help(help)))
    }

    fn recorded(
        &self,
        mut stamps: Vec<Stamp>,
        lines: &Sheet<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Arrivals> {
        let mut early = stamps
            .windows(2)
            .filter(|two| two[1].ticks < two[0].ticks)
            .map(|two| two[1].start);
        if let Some(first) = early.next() {
            let count = 1 + early.count();
            let rows = plural(count, "row is", "rows are");
            diagnostics.push(
                Diagnostic::warning(format!(
                    "{rows} earlier than the row above; the trace is sorted by time"
                ))
                .at(lines.place(first, |line| 0..line.len()))
                .label("the first of them"),
            );
            stamps.sort_by_key(|stamp| stamp.ticks);
        }
        let together = stamps.windows(2).filter(|two| two[0].ticks == two[1].ticks);
        let together = together.count();
        if together > 0 {
            let rows = plural(together, "row has", "rows have");
            diagnostics.push(
                Diagnostic::warning(format!(
                    "{rows} the same time as the one before, of {}",
                    stamps.len()
                ))
                .at(lines.file())
                .help("each is an arrival, in the order of the file; bursts may come from the way times were recorded"),
            );
        }
        // Seven digits become six, downwards: a time never moves into the next second.
        let micros = |ticks: i64| {
            if self.speed == 1.0 {
                ticks as u64 / 10
            } else {
                (ticks as f64 / 10.0 / self.speed) as u64
            }
        };
        let times = stamps.iter().map(|stamp| micros(stamp.ticks)).collect();
        let named = stamps.iter().any(|stamp| stamp.tenant != NO_NAME);
        let tenants = if named {
            stamps.iter().map(|stamp| stamp.tenant).collect()
        } else {
            Vec::new()
        };
        let recorded = Recorded::new(times, tenants, self.repeat);
        if recorded.is_none() {
            diagnostics.push(
                Diagnostic::error("all arrivals of the trace come at the same time, so it has no length after which it could be repeated")
                    .at(lines.file())
                    .help("leave out `repeat`"),
            );
        }
        Some(Arrivals {
            kind: Kind::Recorded(recorded?.into()),
        })
    }

    fn clients(
        &self,
        rows: Vec<Row>,
        names: &[String],
        lines: &Sheet<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Arrivals> {
        let clamped = rows
            .iter()
            .filter(|row| row.rate_per_s > 0.0 && !(CV_MIN..=CV_MAX).contains(&row.cv))
            .count();
        if clamped > 0 {
            let windows = plural(clamped, "window has", "windows have");
            diagnostics.push(
                Diagnostic::warning(format!(
                    "{windows} a `cv` outside of {CV_MIN} to {CV_MAX}, which is drawn as the nearer of these"
                ))
                .at(lines.file()),
            );
        }
        let message = match Clients::new(rows, names, self.speed, self.repeat) {
            Ok(clients) => {
                return Some(Arrivals {
                    kind: Kind::Clients(clients.into()),
                });
            }
            Err(Unfit::Silent) => "the rate of all clients is 0 at all times".to_owned(),
            Err(Unfit::Short) => "two windows start less than a second apart".to_owned(),
            Err(Unfit::Twice { client, start_s }) => format!(
                "client `{}` has two rows for the window that starts at {start_s} s",
                names[client as usize]
            ),
            Err(Unfit::Uneven { start_s, window_s }) => format!(
                "windows are as long as the smallest distance of their starts, {window_s} s, but the one at {start_s} s starts between two"
            ),
        };
        diagnostics.push(Diagnostic::error(message).at(lines.file()));
        None
    }
}

/// What is known, for those whose file is not.
const KNOWN: &str = "known: `at_s` (with or without `tenant`); Azure's `TIMESTAMP`; ServeGen's `client`, `window_start_s`, `rate_rps`, `cv` and `pattern`; JSON lines with `timestamp` in milliseconds (Mooncake's) or `at_s`";
/// For times that are dates.
const FROM_ZERO: &str = "times count from the start of the run; of dates, subtract the first";

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Reports a trace that is too long.
fn too_many(sheet: &mut Sheet<'_>, count: usize) -> bool {
    if count > ROWS_MAX {
        let place = sheet.file();
        let message = format!("the trace has more than {ROWS_MAX} rows");
        sheet.problem(Diagnostic::error(message).at(place));
    }
    count > ROWS_MAX
}

/// One recorded arrival.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    ticks: i64,
    /// Where its row starts.
    start: usize,
    tenant: u16,
}

enum Content {
    Stamps(Vec<Stamp>),
    Clients(Vec<Row>, Vec<String>),
}

impl Content {
    fn is_empty(&self) -> bool {
        match self {
            Self::Stamps(stamps) => stamps.is_empty(),
            Self::Clients(rows, _) => rows.is_empty(),
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    at_s: Option<f64>,
    timestamp: Option<f64>,
    #[serde(borrow)]
    tenant: Option<Cow<'a, str>>,
}

/// Where the columns stand.
#[derive(Clone, Copy, Debug)]
enum Columns {
    Azure { at: usize },
    Seconds { at: usize, tenant: Option<usize> },
    Clients([usize; 5]),
}

impl Columns {
    fn of(header: &Cells<'_>) -> Option<Self> {
        let column = |name: &str| header.iter().position(|cell| cell == name);
        if let Some(at) = column("at_s") {
            let tenant = column("tenant");
            return Some(Self::Seconds { at, tenant });
        }
        if let Some(at) = column("TIMESTAMP") {
            return Some(Self::Azure { at });
        }
        Some(Self::Clients([
            column("client")?,
            column("window_start_s")?,
            column("rate_rps")?,
            column("cv")?,
            column("pattern")?,
        ]))
    }
}

/// What the rows of a CSV come to.
#[derive(Default)]
struct Reader {
    stamps: Vec<Stamp>,
    rows: Vec<Row>,
    names: Vec<String>,
    numbers: BTreeMap<String, u32>,
}

impl Reader {
    fn push(&mut self, sheet: &mut Sheet<'_>, ticks: i64, start: usize, tenant: u16) {
        if self.stamps.len() < ROWS_MAX {
            self.stamps.push(Stamp {
                ticks,
                start,
                tenant,
            });
        } else if !sheet.is_hopeless() {
            too_many(sheet, ROWS_MAX + 1);
        }
    }

    fn azure(&mut self, sheet: &mut Sheet<'_>, cells: Cells<'_>, at: usize) {
        let cell = cells.get(at);
        match moment(cell) {
            Some(ticks) => self.push(sheet, ticks, cells.start(), NO_NAME),
            None => cells.wrong(
                sheet,
                at,
                format!("`TIMESTAMP` must be a date and time, but is `{cell}`"),
                "such as 2023-11-16 18:17:03.9799600",
            ),
        }
    }

    fn seconds(
        &mut self,
        sheet: &mut Sheet<'_>,
        cells: Cells<'_>,
        at: usize,
        tenant: Option<usize>,
        plan: &Plan,
    ) {
        let seconds = cells.number(sheet, (at, "at_s"), (0.0, AT_MAX_S), FROM_ZERO);
        let tenant = match tenant {
            None => Some(NO_NAME),
            Some(column) => match plan.tenant(cells.get(column)) {
                Ok(tenant) => Some(tenant),
                Err(problem) => {
                    let help = problem.help.join(" ");
                    cells.wrong(sheet, column, problem.message, &help);
                    None
                }
            },
        };
        if let (Some(seconds), Some(tenant)) = (seconds, tenant) {
            let ticks = (seconds * TICKS as f64).round() as i64;
            self.push(sheet, ticks, cells.start(), tenant);
        }
    }

    fn client(&mut self, sheet: &mut Sheet<'_>, cells: Cells<'_>, columns: [usize; 5]) {
        let [client, start, rate, cv, pattern] = columns;
        let mut number = |column, name, high| {
            let low = if name == "cv" { 1e-9 } else { 0.0 };
            cells.number(sheet, (column, name), (low, high), "")
        };
        let start_s = number(start, "window_start_s", AT_MAX_S);
        let rate_per_s = number(rate, "rate_rps", RATE_MAX_PER_S);
        let cv = number(cv, "cv", 1e9);
        if rate_per_s.is_some_and(|rate| rate > 0.0 && rate < RATE_MIN_PER_S) {
            let message = format!("`rate_rps` must be 0 or at least {RATE_MIN_PER_S}");
            cells.wrong(sheet, rate, message, "");
        }
        let family = match cells.get(pattern) {
            "Gamma" => Some(Family::Gamma),
            "Weibull" => Some(Family::Weibull),
            other => {
                let message = format!("`pattern` must be `Gamma` or `Weibull`, but is `{other}`");
                cells.wrong(sheet, pattern, message, "");
                None
            }
        };
        let name = cells.get(client);
        if !self.numbers.contains_key(name) {
            if self.names.len() == CLIENTS_MAX {
                let message = format!("the trace has more than {CLIENTS_MAX} clients");
                cells.wrong(sheet, client, message, "");
                return;
            }
            self.numbers
                .insert(name.to_owned(), self.names.len() as u32);
            self.names.push(name.to_owned());
        }
        if self.rows.len() == ROWS_MAX {
            too_many(sheet, ROWS_MAX + 1);
            return;
        }
        if let (Some(start_s), Some(rate_per_s), Some(cv), Some(family)) =
            (start_s, rate_per_s, cv, family)
        {
            self.rows.push(Row {
                client: self.numbers[name],
                start_s,
                rate_per_s,
                cv,
                family,
            });
        }
    }
}
