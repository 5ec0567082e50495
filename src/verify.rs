//! Verifiers: who looks at an answer before it is served.
//!
//! There are three sorts. The *simulated* verifier is nothing but its two error rates. A *check* is code that
//! reads the answer: a pattern, a schema, a number, a program. A *judge* is one more call to a route, which
//! whoever drives the router makes and pays; here are its prompt and the reading of what it says. A verifier
//! sees a grade only through the world that draws its verdict; no policy ever does.
//!
//! Where no provider is asked, somebody has to say what answers look like. So checks and judges have
//! `simulate`: how often a right and a wrong answer pass, and for checks two *specimens*, a text that passes
//! and one that fails. A check has to tell its own specimens apart before it is believed.

mod checked;
mod command;
mod exact;
mod judge;
mod number;
mod pattern;
mod schema;
mod simulated;

use std::fmt;

pub use checked::{Check, Checked, Specimens};
pub use judge::Judge;
pub use simulated::Simulated;

use crate::router::{RouteId, Verdict};
use crate::source::{Diagnostic, Table, Value, describe_list};

/// Every kind of verifier that a policy may name.
pub const CHECKS: &[Kind] = &[
    simulated::KIND,
    pattern::KIND,
    schema::KIND,
    exact::KIND,
    number::KIND,
    command::KIND,
    judge::KIND,
];

/// One kind of verifier.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The key behind `verifier.` in a policy file.
    pub name: &'static str,
    /// What it accepts, and how it fails.
    pub about: &'static str,
    /// A line of a policy file that can be read beside routes `small`, `medium` and `large`.
    pub example: &'static str,
    /// Reads the table; reports what is wrong in the table's context.
    pub read: fn(Table<'_>, &Reading<'_>) -> Option<Verifier>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Whether verifiers may run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commands {
    /// A policy that would run one is refused, with the flag that allows it.
    #[default]
    Refused,
    /// Such a policy is read, but its program never runs: the verdict is that nobody could look.
    OnlyRead,
    /// The caller allows it.
    Allowed,
}

/// What reading a verifier takes besides its table.
pub struct Reading<'a> {
    /// The route that a string names; a name that is none is reported.
    pub route: &'a dyn Fn(&Value<'_>) -> Option<RouteId>,
    /// Whether programs may be run.
    pub commands: Commands,
}

impl fmt::Debug for Reading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("commands", &self.commands)
            .finish_non_exhaustive()
    }
}

/// A verifier of answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Verifier {
    /// Accepts right and wrong answers with fixed probabilities.
    Simulated(Simulated),
    /// Reads the answer.
    Checked(Checked),
    /// Asks another route.
    Judge(Judge),
}

impl Verifier {
    /// Reads `verifier.KIND = { … }`, one of [`CHECKS`].
    #[must_use]
    pub fn read(value: &Value<'_>, reading: &Reading<'_>) -> Option<Self> {
        let mut table = value.table()?;
        let names = || CHECKS.iter().map(|kind| kind.name);
        match table.entries().as_slice() {
            [(name, inner)] => match CHECKS.iter().find(|kind| kind.name == name.value) {
                Some(kind) => (kind.read)(inner.table()?, reading),
                None => {
                    value.report_diagnostic(name.unknown("kind of verifier", names()));
                    None
                }
            },
            several => {
                value.error_help(
                    match several.len() {
                        0 => "a verifier needs its kind".to_owned(),
                        n => format!("a policy has one verifier, not {n}"),
                    },
                    format!(
                        "write `{}.KIND = {{ … }}` with one of {}",
                        value.path(),
                        describe_list(names())
                    ),
                );
                None
            }
        }
    }

    /// Name of its kind.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Simulated(_) => simulated::KIND.name,
            Self::Checked(checked) => checked.check().name(),
            Self::Judge(_) => judge::KIND.name,
        }
    }

    /// How often answers of stand-ins pass, if anybody said so. Where they are known the verdict is a
    /// matter of the answer's grade and one draw: a check has told its two specimens apart.
    #[must_use]
    #[inline(always)]
    pub fn rates(&self) -> Option<&Simulated> {
        match self {
            Self::Simulated(simulated) => Some(simulated),
            Self::Checked(checked) => checked.specimens().map(|specimens| &specimens.rates),
            Self::Judge(judge) => judge.simulate.as_ref(),
        }
    }

    /// The answer that a stand-in gives so that it passes, or fails. `None` where the text of the answer
    /// says nothing: a simulated verifier does not read it, and a judge reads it as it pleases (what the
    /// *judge* answers is [`Judge::answer`]).
    #[must_use]
    pub fn specimen(&self, passes: bool) -> Option<&str> {
        let Self::Checked(checked) = self else {
            return None;
        };
        let specimens = checked.specimens()?;
        Some(if passes {
            &specimens.passes
        } else {
            &specimens.fails
        })
    }

    /// What a check says about an answer. `None` for those that do not read it here: a simulated
    /// verifier, and a judge, whom somebody has to ask.
    #[must_use]
    pub fn verdict(&self, answer: &str) -> Option<Verdict> {
        match self {
            Self::Checked(checked) => Some(checked.check().check(answer)),
            Self::Simulated(_) | Self::Judge(_) => None,
        }
    }

    /// The judge, if it is one.
    #[must_use]
    pub fn judge(&self) -> Option<&Judge> {
        match self {
            Self::Judge(judge) => Some(judge),
            Self::Simulated(_) | Self::Checked(_) => None,
        }
    }

    /// What stands against using it where stand-ins answer: nobody said how often answers pass, or a
    /// check does not tell its specimens apart. A program is run for this, once, if it may be.
    #[must_use]
    pub fn unfit_for_stand_ins(&self) -> Vec<Diagnostic> {
        match self {
            Self::Simulated(_) => Vec::new(),
            Self::Checked(checked) => checked.unfit_for_stand_ins(),
            Self::Judge(judge) => judge.unfit_for_stand_ins(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_name_and_says_what_it_accepts() {
        for (i, kind) in CHECKS.iter().enumerate() {
            assert!(kind.about.ends_with('.') && kind.about.len() > 60);
            assert!(kind.about.contains("Fails") || kind.about.contains("fails"));
            assert!(kind.example.contains(&format!("verifier.{} ", kind.name)));
            assert!(CHECKS[..i].iter().all(|other| other.name != kind.name));
        }
    }
}
