//! Accepts one text.

use super::{Check, Checked, Kind, Reading, Verifier};
use crate::router::Verdict;
use crate::source::Table;

pub(super) const KIND: Kind = Kind {
    name: "exact",
    about: "Accepts one text, but for white space around it, with `ignore_case = true` in any case. \
            Good for requests whose answer is known. Fails on right answers with one more word.",
    example: "verifier.exact = { text = \"Paris\", ignore_case = true, simulate = { passes = \"paris\", fails = \"Lyon\", pass_if_correct = 0.9, pass_if_wrong = 0.0 } }",
    read,
};

#[derive(Debug)]
struct Exact {
    text: String,
    ignore_case: bool,
}

impl Check for Exact {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn check(&self, answer: &str) -> Verdict {
        let answer = answer.trim();
        let same = if self.ignore_case {
            let lower = |text: &str| {
                text.chars()
                    .flat_map(char::to_lowercase)
                    .collect::<Vec<_>>()
            };
            // Most answers are much longer: they need not be lowered to be told apart. A character can
            // become three when lowered, and one that takes four bytes can become one of one.
            answer.len() <= 16 * self.text.len() && lower(answer) == lower(&self.text)
        } else {
            answer == self.text
        };
        if same {
            Verdict::Accept
        } else {
            Verdict::Reject
        }
    }
}

fn read(mut table: Table<'_>, _reading: &Reading<'_>) -> Option<Verifier> {
    let text = table.require("text").and_then(|value| {
        let text = value.string()?.value.trim().to_owned();
        if text.is_empty() {
            value.error(format!(
                "`{}` is empty: only empty answers would pass",
                value.path()
            ));
            return None;
        }
        Some(text)
    });
    let ignore_case = match table.get("ignore_case") {
        Some(value) => value.boolean(),
        None => Some(false),
    };
    let check = text
        .zip(ignore_case)
        .map(|(text, ignore_case)| Box::new(Exact { text, ignore_case }) as Box<dyn Check>);
    Checked::read(table, check)
}
