//! A log of attempts (`routelab.attempt/1`, one JSON object a line), read back: decisions as they were made.

use std::io::BufRead;

use super::{Attempt, SCHEMA};
use crate::source::{Diagnostic, Diagnostics, Location};

/// Longest line, in bytes.
pub const LINE_BYTES_MAX: u64 = 16 << 20;
/// Most mistakes that are told one by one.
const TOLD_MAX: usize = 20;

/// Whether a line is an attempt of our own rather than something else in JSON.
#[must_use]
pub fn is_attempt(line: &str) -> bool {
    let schema = |value: serde_json::Value| value.get("schema")?.as_str().map(str::to_owned);
    serde_json::from_str(line)
        .ok()
        .and_then(schema)
        .is_some_and(|schema| schema == SCHEMA)
}

/// Reads every attempt and hands it to `take` with its line number (from 1). Empty lines mean nothing. Lines that
/// are no attempt go to `found`, each with its place, the first of them in full.
///
/// # Errors
///
/// What the reader says; and a line that is longer than [`LINE_BYTES_MAX`].
pub fn read(
    log: &mut dyn BufRead,
    path: &str,
    found: &mut Diagnostics,
    take: &mut dyn FnMut(u64, Attempt),
) -> std::io::Result<()> {
    let mut line = Vec::new();
    let (mut number, mut bad) = (0_u64, 0_u64);
    loop {
        line.clear();
        number += 1;
        let read =
            std::io::Read::take(&mut *log, LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if line.len() as u64 > LINE_BYTES_MAX {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("line {number} is longer than {LINE_BYTES_MAX} bytes"),
            ));
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match serde_json::from_slice::<Attempt>(&line) {
            Ok(attempt) => take(number, attempt),
            Err(error) => {
                bad += 1;
                if bad <= TOLD_MAX as u64 {
                    let text = String::from_utf8_lossy(&line);
                    let text = text.trim_end_matches(['\n', '\r']).to_owned();
                    let column = error.column().saturating_sub(1).min(text.len());
                    found.push(
                        Diagnostic::error(format!("this is no `{SCHEMA}`: {error}")).at(
                            Location::Line {
                                path: path.to_owned(),
                                line: usize::try_from(number).unwrap_or(usize::MAX),
                                range: column..(column + 1).min(text.len().max(column)),
                                text,
                            },
                        ),
                    );
                }
            }
        }
    }
    if bad > TOLD_MAX as u64 {
        found.push(Diagnostic::error(format!(
            "{} more lines of `{path}` are no `{SCHEMA}`",
            bad - TOLD_MAX as u64
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_attempt_are_told_with_their_place_and_counted() {
        let log = format!(
            "\n{}",
            "{\"schema\": \"other/1\"}\n[]\nnonsense\n".repeat(10)
        );
        let mut found = Diagnostics::default();
        let mut taken = 0;
        let read = read(&mut log.as_bytes(), "a.jsonl", &mut found, &mut |_, _| {
            taken += 1
        });
        assert!(read.is_ok());
        assert_eq!(taken, 0);
        assert_eq!(found.0.len(), TOLD_MAX + 1);
        let text = found.render(false);
        assert!(text.contains("a.jsonl:2"), "{text}");
        assert!(text.contains("10 more lines"), "{text}");
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let mut endless = std::io::BufReader::new(std::io::repeat(b'x'));
        let read = read(
            &mut endless,
            "a",
            &mut Diagnostics::default(),
            &mut |_, _| (),
        );
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::InvalidData);
    }

    #[test]
    fn our_own_attempts_are_told_from_other_json() {
        assert!(is_attempt(
            "{\"schema\": \"routelab.attempt/1\", \"rest\": 1}"
        ));
        assert!(!is_attempt("{\"seq\": 0}"));
        assert!(!is_attempt("id,task"));
    }
}
