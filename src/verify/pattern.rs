//! Accepts what a regular expression finds something in.
//!
//! The `regex` crate looks at each byte a bounded number of times, so no answer can make it slow.

use regex::{Regex, RegexBuilder};

use super::{Check, Checked, Kind, Reading, Verifier};
use crate::router::Verdict;
use crate::source::Table;

/// Most bytes that a compiled expression takes, and its automaton beside it.
const PATTERN_BYTES_MAX: usize = 1_048_576;

pub(super) const KIND: Kind = Kind {
    name: "pattern",
    about: "Accepts an answer in which a regular expression finds something: `^` and `$` hold it to the whole text. \
            Good for forms, such as a ticket number. Fails on right answers that are put otherwise.",
    example: "verifier.pattern = { matches = '^[A-Z]{3}-\\d{4}$', simulate = { passes = \"ABC-1234\", fails = \"I do not know.\", pass_if_correct = 0.97, pass_if_wrong = 0.55 } }",
    read,
};

#[derive(Debug)]
struct Pattern(Regex);

impl Check for Pattern {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn check(&self, answer: &str) -> Verdict {
        if self.0.is_match(answer) {
            Verdict::Accept
        } else {
            Verdict::Reject
        }
    }
}

fn read(mut table: Table<'_>, _reading: &Reading<'_>) -> Option<Verifier> {
    let pattern = table.require("matches").and_then(|value| {
        let text = value.string()?;
        let built = RegexBuilder::new(&text.value)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .build();
        match built {
            Ok(regex) => Some(Box::new(Pattern(regex)) as Box<dyn Check>),
            Err(error) => {
                value.error_help(
                    format!(
                        "`{}` is no regular expression: {}",
                        value.path(),
                        in_words(&error)
                    ),
                    "write it in single quotes, so that a backslash is a backslash",
                );
                None
            }
        }
    });
    Checked::read(table, pattern)
}

/// The reason alone: the picture around it shows the expression, which the complaint shows anyway.
fn in_words(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => {
            format!("compiled it takes more than {PATTERN_BYTES_MAX} bytes")
        }
        other => {
            let text = other.to_string();
            let reason = text.lines().last().unwrap_or_default();
            reason.trim_start_matches("error: ").to_owned()
        }
    }
}
