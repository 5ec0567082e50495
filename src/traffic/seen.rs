//! What stand-ins saw of a gateway: the log of `routelab serve --log`, summed up.
//!
//! Whatever calls the stand-ins, their log holds every attempt that reached them: how often a request was
//! tried, whether it was answered in the end, whether anybody waited as long as they were told, and whether
//! data went where it must not. [`read`] goes through the log once, line by line. What it keeps grows with
//! the requests that are open at one time (and with places and kinds of failure, which are few), and each of
//! these is bounded; so a log may be of any length.
//!
//! What it cannot know: what the gateway answered to whoever called *it*, and any attempt that never left.
//! Which attempts belong to one request is told by an id where there is one, else guessed; see [`Tie`].

mod bins;
mod classes;
mod row;
mod summing;
mod tie;

use std::io::{self, BufRead};

pub use bins::Bin;
pub use classes::{CLASSES_MAX, Classes};
pub use tie::Tie;

use crate::router::FaultKind;
use crate::source::{Diagnostic, Diagnostics, Location};
use crate::units::Duration;
use row::Row;
use summing::Summing;

/// Longest line that is read, in bytes. Lines with bodies (`--log-bodies`) are the long ones.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Most lines that are complained about one by one; the others are counted.
pub const BAD_SHOWN_MAX: usize = 20;
/// Most attempts that went where they must not that are listed; the others are counted.
pub const STRAYS_MAX: usize = 1_000;
/// Requests by their number of attempts: 1, 2, …, and this many or more.
pub const ATTEMPTS_SHOWN: usize = 10;

/// How a log is read.
pub struct Options<'a> {
    /// Longest silence within one request. An attempt later than this after the last one of the same id
    /// (conversation, body) begins a new request.
    pub within: Duration,
    /// What ties attempts together; `None` for the surest thing that each row has.
    pub tie: Option<Tie>,
    /// Whose data requests hold, beyond what their headers say.
    pub classes: Classes,
    /// Where which data may go; `None` for anywhere.
    pub residency: Option<&'a dyn Residency>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            within: Duration::from_secs(300),
            tie: None,
            classes: Classes::default(),
            residency: None,
        }
    }
}

/// Where which data may go.
pub trait Residency {
    /// Whether an attempt may have gone where it went.
    fn judge(&self, reached: &Reached<'_>) -> Ruling;
}

/// An attempt, as far as its data's residence is concerned. At least one of tenant and data class is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached<'a> {
    /// On whose behalf.
    pub tenant: Option<&'a str>,
    /// The class of the data.
    pub data_class: Option<&'a str>,
    /// The dialect that was spoken.
    pub dialect: &'a str,
    /// The model that was asked.
    pub model: Option<&'a str>,
    /// The route that the caller named in `x-routelab-route`.
    pub route: Option<&'a str>,
}

/// Whether data may be where it went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may.
    Allowed,
    /// It may not.
    Refused {
        /// The route it reached.
        route: String,
        /// Where that may take it, and where it may be.
        why: String,
    },
    /// Nobody knows: no route has this model, several have it and only some are allowed, or the data class
    /// has no rule. The reason in words.
    Unknown(String),
}

/// An attempt that went where its data must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Line of the log, from 1.
    pub line: u64,
    /// Since the log began.
    pub at: Duration,
    /// The request's id, if it has one.
    pub request: Option<String>,
    /// On whose behalf.
    pub tenant: Option<String>,
    /// The class of its data.
    pub data_class: Option<String>,
    /// The route it reached.
    pub route: String,
    /// Where that may take it, and where it may be.
    pub why: String,
}

/// What attempts did about residency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residences {
    /// Attempts whose data's class or tenant is known, and judged.
    pub judged: u64,
    /// Attempts of which neither is known.
    pub unclassed: u64,
    /// Attempts that could not be judged, by reason.
    pub unknown: Vec<(String, u64)>,
    /// Attempts that went where they must not.
    pub strays: u64,
    /// Requests with at least one of them.
    pub stray_requests: u64,
    /// The first [`STRAYS_MAX`] of them.
    pub listed: Vec<Stray>,
}

/// Where attempts go: what a stand-in can tell apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The dialect.
    pub dialect: String,
    /// The model that was asked; `None` where a request was refused before anybody read it.
    pub model: Option<String>,
    /// The route that the caller named.
    pub route: Option<String>,
    /// Attempts.
    pub attempts: u64,
    /// Failed ones among them.
    pub failed: u64,
    /// Attempts of other requests than the one that was told to wait, before the time was over.
    pub sent_meanwhile: u64,
}

/// How often something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// HTTP status; 200 for answers that broke off.
    pub status: u16,
    /// Which of the ten kinds it is to a caller.
    pub kind: FaultKind,
    /// What a fault script calls it, if one did it.
    pub fault: Option<&'static str>,
    /// Attempts.
    pub attempts: u64,
}

/// Lengths of time: the smallest, the largest, and quantiles to three significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many.
    pub n: u64,
    /// The smallest.
    pub min: Duration,
    /// The median.
    pub p50: Duration,
    /// The 95th percentile.
    pub p95: Duration,
    /// The largest.
    pub max: Duration,
}

/// What became of requests to wait (`Retry-After` and its kin).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Failed attempts that were told how long to wait.
    pub given: u64,
    /// Answers that said something about it that a log cannot tell, such as a date.
    pub unreadable: u64,
    /// Retries at the same place after being told.
    pub retried: u64,
    /// Those that came too early.
    pub too_early: u64,
    /// By how much at most.
    pub earliest_by: Duration,
}

/// What a log comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Lines that are not blank.
    pub rows: u64,
    /// Those that were not understood.
    pub bad_rows: u64,
    /// Those that asked for no completion: lists of models, unknown paths.
    pub other_rows: u64,
    /// How many times the server was started: logs are appended to.
    pub sessions: u64,
    /// From the first session's beginning to the last row; sessions are laid end to end.
    pub length: Duration,
    /// Attempts.
    pub attempts: u64,
    /// Failed ones among them.
    pub failed: u64,
    /// Requests.
    pub requests: u64,
    /// Requests whose last attempt succeeded.
    pub answered: u64,
    /// Those among them whose first attempt failed.
    pub rescued: u64,
    /// Requests by number of attempts: 1, 2, …; the last is [`ATTEMPTS_SHOWN`] or more.
    pub by_attempts: [u64; ATTEMPTS_SHOWN],
    /// Most attempts of one request.
    pub attempts_max: u64,
    /// Attempts where their request had been before.
    pub retries: u64,
    /// Retries with the very body of the attempt before at that place.
    pub same_body: u64,
    /// Retries of which it is not known, for a body was not read.
    pub unknown_body: u64,
    /// Attempts elsewhere than any before of their request.
    pub failovers: u64,
    /// Attempts after one of the same request had succeeded: escalations, hedges, ids used twice.
    pub after_success: u64,
    /// Requests by what ties their attempts, in the order of [`Tie::ALL`].
    pub by_tie: [u64; Tie::ALL.len()],
    /// Requests that were counted as over because too many were open.
    pub closed_early: u64,
    /// Where attempts went, in the order they first did.
    pub places: Vec<Place>,
    /// What failed, the most frequent first.
    pub failures: Vec<Failures>,
    /// From an attempt to the next at the same place.
    pub retry_gaps: Spread,
    /// From a failed attempt to the next elsewhere.
    pub failover_gaps: Spread,
    /// Waiting as told.
    pub hints: Hints,
    /// Width of the bins.
    pub bin: Duration,
    /// The time line.
    pub bins: Vec<Bin>,
    /// Where data went; `None` if nobody said where it may.
    pub residences: Option<Residences>,
}

impl Seen {
    /// Attempts for a request; `None` without requests.
    #[must_use]
    pub fn amplification(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.attempts as f64 / self.requests as f64)
    }
}

/// Reads a log. Lines that are not understood become warnings in `diagnostics`, one by one up to
/// [`BAD_SHOWN_MAX`]; if there is no other line, an error.
///
/// # Errors
///
/// If the log cannot be read to its end.
pub fn read(
    log: &mut dyn BufRead,
    path: &str,
    options: &Options<'_>,
    diagnostics: &mut Diagnostics,
) -> io::Result<Seen> {
    let mut summing = Summing::new(options);
    let (mut rows, mut bad) = (0_u64, 0_u64);
    let mut buffer = Vec::new();
    let mut number = 0;
    while let Some(line) = next_line(log, &mut buffer)? {
        number += 1;
        let mut line = line;
        if let (1, Ok(bytes)) = (number, line) {
            // A byte-order mark is an editor's habit.
            line = Ok(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        }
        if line.is_ok_and(|bytes| bytes.trim_ascii().is_empty()) {
            continue;
        }
        rows += 1;
        let read = match line {
            Ok(bytes) => Row::read(bytes),
            Err(TooLong) => Err((
                format!("the line is longer than {LINE_BYTES_MAX} bytes"),
                None,
            )),
        };
        match read {
            Ok(row) => summing.row(&row, number),
            Err((message, column)) => {
                bad += 1;
                if bad <= BAD_SHOWN_MAX as u64 {
                    let shown = line.unwrap_or_default();
                    diagnostics.push(complaint(path, number, shown, &message, column));
                }
            }
        }
    }
    if bad > BAD_SHOWN_MAX as u64 {
        diagnostics.push(
            Diagnostic::warning(format!(
                "{} more lines were not understood",
                bad - BAD_SHOWN_MAX as u64
            ))
            .at(Location::File {
                path: path.to_owned(),
            }),
        );
    }
    if rows == bad {
        let what = if rows == 0 {
            "the log is empty"
        } else {
            "no line of the log was understood"
        };
        let error = Diagnostic::error(what).at(Location::File {
            path: path.to_owned(),
        });
        let error = error.help("it is what `routelab serve --log FILE` writes");
        diagnostics.push(error.help(
            "recorded outcomes in JSONL are drilled through a workload file that names them in `[recorded]`",
        ));
    }
    let mut seen = summing.finish();
    (seen.rows, seen.bad_rows) = (rows, bad);
    Ok(seen)
}

#[derive(Clone, Copy, Debug)]
struct TooLong;

/// The next line without its end; of a line that is too long nothing is kept. `None` at the end.
fn next_line<'b>(
    log: &mut dyn BufRead,
    buffer: &'b mut Vec<u8>,
) -> io::Result<Option<Result<&'b [u8], TooLong>>> {
    buffer.clear();
    let (mut any, mut fits) = (false, true);
    loop {
        let bytes = match log.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            break;
        }
        any = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        fits &= buffer.len() + part.len() <= LINE_BYTES_MAX;
        if fits {
            buffer.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        log.consume(used);
        if end.is_some() {
            break;
        }
    }
    let line = if fits {
        Ok(buffer.as_slice())
    } else {
        Err(TooLong)
    };
    Ok(any.then_some(line))
}

fn complaint(
    path: &str,
    line: u64,
    bytes: &[u8],
    message: &str,
    column: Option<usize>,
) -> Diagnostic {
    // Only the start of a line is ever shown; a place beyond it is said in words.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
    let (range, message) = match column {
        Some(column) if text.is_char_boundary(column - 1) && text.is_char_boundary(column) => {
            (column - 1..column, message.to_owned())
        }
        Some(column) => (0..text.len(), format!("{message} (column {column})")),
        None => (0..text.len(), message.to_owned()),
    };
    let warning = Diagnostic::warning(format!("the line is left out: {message}"));
    let warning = warning.at(Location::Line {
        path: path.to_owned(),
        line: usize::try_from(line).unwrap_or(usize::MAX),
        text,
        range,
    });
    if bytes
        .windows(18)
        .take(200)
        .any(|part| part == b"routelab.attempt/1")
    {
        return warning.help("this is a record of `call --log`; `serve --log` writes another kind");
    }
    warning
}

#[cfg(test)]
mod tests;
