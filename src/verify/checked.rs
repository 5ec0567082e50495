//! What all checks share: the code that reads an answer, and the specimens that stand for answers where
//! nobody writes any.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{Simulated, Verifier};
use crate::router::Verdict;
use crate::source::{At, Diagnostic, Location, Table};

/// Code that reads an answer and says whether it will do.
pub trait Check: Send + Sync + fmt::Debug {
    /// Name of its kind, as in a policy file.
    fn name(&self) -> &'static str;

    /// The verdict. It depends on the text alone, but for programs, which may do what they like.
    fn check(&self, answer: &str) -> Verdict;
}

/// What answers look like where stand-ins give them.
#[derive(Clone, Debug, PartialEq)]
pub struct Specimens {
    /// An answer that the check accepts.
    pub passes: String,
    /// An answer that the check rejects.
    pub fails: String,
    /// P(the answer is the passing one | right) and P(… | wrong).
    pub rates: Simulated,
    /// Where the two texts stand.
    places: Option<[Location; 2]>,
}

impl Specimens {
    /// Two answers, and how often each sort of answer is the first.
    #[must_use]
    pub fn new(passes: impl Into<String>, fails: impl Into<String>, rates: Simulated) -> Self {
        Self {
            passes: passes.into(),
            fails: fails.into(),
            rates,
            places: None,
        }
    }

    fn read(mut table: Table<'_>) -> Option<Self> {
        let mut text = |key| table.require(key).and_then(|value| value.string());
        let (passes, fails): (Option<At<String>>, Option<At<String>>) =
            (text("passes"), text("fails"));
        let rates = Simulated::take(&mut table, ["pass_if_correct", "pass_if_wrong"]);
        table.finish();
        let (passes, fails) = (passes?, fails?);
        Some(Self {
            places: Some([passes.location, fails.location]),
            passes: passes.value,
            fails: fails.value,
            rates: rates?,
        })
    }
}

/// A check, with its specimens if it has any. Copies are the same check.
#[derive(Clone)]
pub struct Checked(Arc<Inner>);

struct Inner {
    check: Box<dyn Check>,
    specimens: Option<Specimens>,
    /// Where the verifier stands.
    place: Option<Location>,
    /// What its specimens showed, once they were put to it.
    trial: OnceLock<Vec<Diagnostic>>,
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked")
            .field("check", &self.0.check)
            .field("specimens", &self.0.specimens)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Checked {
    /// Whether they are copies of one another: code cannot be compared.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Checked {
    /// A check. Without specimens it is of no use where stand-ins answer.
    #[must_use]
    pub fn new(check: Box<dyn Check>, specimens: Option<Specimens>) -> Self {
        Self::placed(check, specimens, None)
    }

    fn placed(
        check: Box<dyn Check>,
        specimens: Option<Specimens>,
        place: Option<Location>,
    ) -> Self {
        Self(Arc::new(Inner {
            check,
            specimens,
            place,
            trial: OnceLock::new(),
        }))
    }

    /// Reads `simulate`, which every check may have, and ends the table.
    pub(super) fn read(mut table: Table<'_>, check: Option<Box<dyn Check>>) -> Option<Verifier> {
        let context = table.context();
        let checked = Self::read_untried(&mut table, check);
        table.finish();
        let checked = checked?;
        if checked.0.specimens.is_some() {
            for wrong in checked.unfit_for_stand_ins() {
                context.report(wrong);
            }
        }
        Some(Verifier::Checked(checked))
    }

    /// As [`Checked::read`], but the specimens are not put to the check before that is asked for.
    pub(super) fn read_untried(
        table: &mut Table<'_>,
        check: Option<Box<dyn Check>>,
    ) -> Option<Self> {
        let specimens = match table.get("simulate") {
            Some(value) => Some(Specimens::read(value.table()?)?),
            None => None,
        };
        Some(Self::placed(check?, specimens, Some(table.location())))
    }

    /// The code.
    #[must_use]
    #[inline(always)]
    pub fn check(&self) -> &dyn Check {
        &*self.0.check
    }

    /// The specimens, if there are any.
    #[must_use]
    #[inline(always)]
    pub fn specimens(&self) -> Option<&Specimens> {
        self.0.specimens.as_ref()
    }

    pub(super) fn unfit_for_stand_ins(&self) -> Vec<Diagnostic> {
        let name = self.check().name();
        let Some(specimens) = self.specimens() else {
            let error = Diagnostic::error(format!(
                "nobody says what this `{name}` verifier would make of the answers of stand-ins"
            ))
            .help(
                "add `simulate = { passes = \"a text that passes\", fails = \"one that fails\", pass_if_correct = 0.98, pass_if_wrong = 0.4 }`",
            );
            return vec![placed(error, self.0.place.as_ref())];
        };
        let trial = || {
            let [passes_at, fails_at] = match &specimens.places {
                Some([passes, fails]) => [Some(passes), Some(fails)],
                None => [self.0.place.as_ref(); 2],
            };
            let texts = [
                (&specimens.passes, Verdict::Accept, passes_at),
                (&specimens.fails, Verdict::Reject, fails_at),
            ];
            let mut wrong = Vec::new();
            for (text, wanted, place) in texts {
                let got = self.check().check(text);
                if got == wanted {
                    continue;
                }
                let which = match wanted {
                    Verdict::Accept => "passes",
                    _ => "fails",
                };
                let what = match got {
                    Verdict::Accept => "accepts it",
                    Verdict::Reject => "rejects it",
                    Verdict::Unavailable => "could not look at it",
                };
                let help = match got {
                    Verdict::Unavailable => {
                        "run the program by hand: it must end by itself, in time, and not by a signal"
                    }
                    _ => "write a text that the check does tell apart, or correct the check",
                };
                let error = Diagnostic::error(format!(
                    "this text is to stand for answers that {} the `{name}` verifier, but the verifier {what}",
                    if which == "passes" { "pass" } else { "fail" },
                ))
                .help(help);
                wrong.push(placed(error, place));
            }
            wrong
        };
        self.0.trial.get_or_init(trial).clone()
    }
}

pub(super) fn placed(error: Diagnostic, place: Option<&Location>) -> Diagnostic {
    match place {
        Some(place) => error.at(place.clone()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Probability;

    #[derive(Debug)]
    struct Short;

    impl Check for Short {
        fn name(&self) -> &'static str {
            "short"
        }

        fn check(&self, answer: &str) -> Verdict {
            match answer.len() {
                0..5 => Verdict::Accept,
                5..10 => Verdict::Reject,
                _ => Verdict::Unavailable,
            }
        }
    }

    fn unfit(passes: &str, fails: &str) -> usize {
        let rates = Simulated::new(Probability::ONE, Probability::ZERO);
        let specimens = Specimens::new(passes, fails, rates);
        let checked = Checked::new(Box::new(Short), Some(specimens));
        Verifier::Checked(checked).unfit_for_stand_ins().len()
    }

    #[test]
    fn specimens_that_the_check_does_not_tell_apart_are_refused() {
        assert_eq!(unfit("ab", "abcdefg"), 0);
        assert_eq!(unfit("abcdefg", "abcdefg"), 1);
        assert_eq!(unfit("ab", "ab"), 1);
        assert_eq!(unfit("abcdefg", "ab"), 2);
        assert_eq!(unfit("ab", "longer than ten"), 1, "nobody looked");
        let without = Verifier::Checked(Checked::new(Box::new(Short), None));
        assert_eq!(without.unfit_for_stand_ins().len(), 1);
        assert_eq!(without.verdict("ab"), Some(Verdict::Accept));
        assert!(without.rates().is_none() && without.specimen(true).is_none());
    }

    #[test]
    fn copies_are_the_same_check_and_others_are_not() {
        let one = Checked::new(Box::new(Short), None);
        assert_eq!(one, one.clone());
        assert_ne!(one, Checked::new(Box::new(Short), None));
    }
}
