//! Requirements such as `accuracy>=0.9`: what a report must show for its exit code to be 0.
//!
//! An interval decides, not the point estimate. A requirement passes when even the interval's worse
//! end satisfies it, fails when even the better end does not, and is inconclusive between. Requests that
//! a share of the requests leaves out (nobody graded them) must not matter: it is decided only if it is
//! the same whether they all count for it or all against it. Costs have no such bounds: they are judged
//! on the requests with a known cost.

use super::did_you_mean;
use super::metrics::{METRICS, Metric, Unit};
use super::rows::{Row, is_share};
use crate::stats::{Estimate, Limits, Needed, needed};

impl Outcome {
    /// A bound on money that holds for the requests of known cost does not pass while others have none: they may
    /// cost anything.
    fn unless_unpriced(self, row: &Row, measure: Measure) -> Self {
        let unpriced = row.known.determined.saturating_sub(row.known.costed);
        if measure.unit() != Unit::Usd || unpriced == 0 || self != Self::Pass {
            return self;
        }
        Self::Inconclusive {
            needed_n: None,
            why: format!(
                "would pass on the others, but the cost of {} of {} requests is not known",
                super::format::whole(unpriced),
                super::format::whole(row.known.determined)
            ),
        }
    }
}

/// A number every row has.
#[derive(Clone, Copy, Debug)]
pub enum Measure {
    /// A metric of the list.
    Metric(&'static Metric),
    /// The share of final answers of the route with this id.
    FinalShare(usize),
}

impl Measure {
    /// From its name: `accuracy`, …, or `final_share.<route>`.
    ///
    /// # Errors
    ///
    /// A sentence that names the nearest measure, if the name is none.
    pub fn parse(name: &str, routes: &[&str]) -> Result<Self, String> {
        if let Some(metric) = Metric::named(name) {
            return Ok(Self::Metric(metric));
        }
        if let Some(route) = name.strip_prefix("final_share.") {
            return routes
                .iter()
                .position(|known| *known == route)
                .map(Self::FinalShare)
                .ok_or_else(|| {
                    let hint = did_you_mean(route, routes.iter().copied());
                    format!("there is no route `{route}`{hint}")
                });
        }
        let names = || METRICS.iter().map(|metric| metric.name);
        let mut hint = did_you_mean(name, names());
        if hint.is_empty() {
            let known: Vec<&str> = names().collect();
            hint = format!("; known: {}, final_share.<route>", known.join(", "));
        }
        Err(format!("there is no metric `{name}`{hint}"))
    }

    /// As [`Measure::parse`], for a measure of which less is better.
    ///
    /// # Errors
    ///
    /// A sentence that lists what can be minimised, if more of it is better.
    pub fn to_minimize(name: &str, routes: &[&str]) -> Result<Self, String> {
        match Self::parse(name, routes)? {
            Self::Metric(metric) if metric.more_is_better() => {
                let less: Vec<&str> = METRICS
                    .iter()
                    .filter(|metric| !metric.more_is_better())
                    .map(|metric| metric.name)
                    .collect();
                Err(format!(
                    "of `{name}` more is better, so it cannot be minimised; can be: {}, final_share.<route>",
                    less.join(", ")
                ))
            }
            measure => Ok(measure),
        }
    }

    /// What its numbers are.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Metric(metric) => metric.unit,
            Self::FinalShare(_) => Unit::Share,
        }
    }
}

/// A bound on a measure of one policy, or of every policy.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// As it was written.
    pub text: String,
    /// The policy or control it is about; `None` for every policy (not the controls).
    pub policy: Option<String>,
    /// What is bounded.
    pub measure: Measure,
    /// `>=` if set, else `<=`.
    pub at_least: bool,
    /// The bound, in the measure's unit; shares between 0 and 1.
    pub threshold: f64,
}

impl Requirement {
    /// Reads `[policy.]measure>=number` or `<=`, such as `accuracy>=0.9`, `static.unserved<=1%`,
    /// `final_share.small>=0.5`. `policies` are the names that may stand in front.
    ///
    /// # Errors
    ///
    /// A sentence that says what cannot be read and, where something is like it, what was meant.
    pub fn parse(text: &str, policies: &[&str], routes: &[&str]) -> Result<Self, String> {
        let fail = |why: String| Err(format!("requirement `{text}`: {why}"));
        let Some((at, at_least)) = text
            .find(">=")
            .map(|at| (at, true))
            .or_else(|| text.find("<=").map(|at| (at, false)))
        else {
            return fail("it needs `>=` or `<=`, as in `accuracy>=0.9`".to_owned());
        };
        let (left, right) = (text[..at].trim(), text[at + 2..].trim());
        let (policy, measure) = match Self::left(left, policies, routes) {
            Ok(left) => left,
            Err(why) => return fail(why),
        };
        let (digits, percent) = match right.strip_suffix('%') {
            Some(digits) => (digits.trim_end(), true),
            None => (right, false),
        };
        let Some(number) = digits.parse::<f64>().ok().filter(|n| n.is_finite()) else {
            return fail(format!("`{right}` is not a number"));
        };
        let threshold = if percent { number / 100.0 } else { number };
        if is_share(measure) && !(0.0..=1.0).contains(&threshold) {
            let hint = if !percent && (1.0..=100.0).contains(&number) {
                format!("; did you mean `{right}%`?")
            } else {
                String::new()
            };
            return fail(format!("a share lies between 0 and 1{hint}"));
        }
        if percent && !is_share(measure) {
            return fail("only shares can be given in percent".to_owned());
        }
        Ok(Self {
            text: text.to_owned(),
            policy,
            measure,
            at_least,
            threshold,
        })
    }

    /// Both names may hold dots, so the known policies are tried, longest match first.
    fn left(
        left: &str,
        policies: &[&str],
        routes: &[&str],
    ) -> Result<(Option<String>, Measure), String> {
        let whole = Measure::parse(left, routes);
        if let Ok(measure) = whole {
            return Ok((None, measure));
        }
        let prefix = policies
            .iter()
            .filter(|policy| {
                left.strip_prefix(**policy)
                    .is_some_and(|rest| rest.starts_with('.'))
            })
            .max_by_key(|policy| policy.len());
        if let Some(policy) = prefix {
            let measure = Measure::parse(&left[policy.len() + 1..], routes)?;
            return Ok((Some((*policy).to_owned()), measure));
        }
        // An unknown policy in front of a known measure?
        let split = left
            .match_indices('.')
            .map(|(at, _)| (&left[..at], &left[at + 1..]))
            .find(|(_, rest)| Measure::parse(rest, routes).is_ok());
        if let Some((policy, _)) = split {
            let hint = did_you_mean(policy, policies.iter().copied());
            return Err(format!("there is no policy `{policy}`{hint}"));
        }
        whole.map(|measure| (None, measure))
    }

    /// `requests` are all that count towards n, `known` is the share of them that the estimate stands on.
    fn outcome(&self, estimate: &Estimate, requests: u64, known: Option<f64>) -> Outcome {
        let Some(limits) = estimate.limits() else {
            return Outcome::Inconclusive {
                needed_n: None,
                why: "there is no interval to decide with".to_owned(),
            };
        };
        let decided = self.decided(limits);
        let all = known.map_or(limits, |known| limits.for_all(known, (0.0, 1.0)));
        if let Some(outcome) = decided {
            if self.decided(all).as_ref() == Some(&outcome) {
                return outcome;
            }
            let left_out = super::format::percent_exact(1.0 - known.unwrap_or(1.0));
            return Outcome::Inconclusive {
                needed_n: None,
                why: format!(
                    "would {} without the {left_out} of requests that nobody graded, which could turn it",
                    match outcome {
                        Outcome::Pass => "pass",
                        _ => "fail",
                    }
                ),
            };
        }
        let settle = |what: &str| format!("about {what} would settle it with 80 % odds");
        let (needed_n, why) = match needed(estimate, self.threshold) {
            Needed::Observations(n) if estimate.method == Estimate::T_REPLICATES => (
                Some(n),
                settle(&format!("{} replicates", super::format::whole(n))),
            ),
            Needed::Observations(n) => {
                // A metric that only some requests bear on needs proportionally more requests.
                let scale = requests as f64 / estimate.n.max(1) as f64;
                let n = (n as f64 * scale).ceil() as u64;
                let mut what = format!("{} requests", super::format::about(n));
                if estimate.method == Estimate::ROWS_AND_REPLICATES {
                    what.push_str(", with as many times the replicates,");
                }
                (Some(n), settle(&what))
            }
            Needed::Never => (
                None,
                "the estimate equals the bound, so no number of requests settles it".to_owned(),
            ),
            Needed::Unknown => (None, "there is no interval to decide with".to_owned()),
        };
        Outcome::Inconclusive { needed_n, why }
    }

    /// The outcome that an interval decides, if it decides one.
    fn decided(&self, limits: Limits) -> Option<Outcome> {
        let t = self.threshold;
        let (passes, fails) = if self.at_least {
            (limits.low >= t, limits.high < t)
        } else {
            (limits.high <= t, limits.low > t)
        };
        match (passes, fails) {
            (true, _) => Some(Outcome::Pass),
            (_, true) => Some(Outcome::Fail),
            _ => None,
        }
    }
}

/// What became of a requirement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Shown to hold.
    Pass,
    /// Shown not to hold.
    Fail,
    /// Neither.
    Inconclusive {
        /// Requests (replicates, for a policy that is trained anew in each) that would settle it with 80 % odds;
        /// `None` when no number would, or when nothing is known.
        needed_n: Option<u64>,
        /// The same in words.
        why: String,
    },
}

impl Outcome {
    /// The word reports print.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::Inconclusive { .. } => "inconclusive",
        }
    }
}

/// A requirement judged for one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The requirement as written.
    pub requirement: String,
    /// The policy.
    pub policy: String,
    /// What the estimate's numbers are.
    pub unit: Unit,
    /// The estimate it was judged by.
    pub estimate: Estimate,
    /// The judgement.
    pub outcome: Outcome,
}

/// Judges each requirement for each row it is about, `requests` being all that count towards n.
pub(super) fn judge(requirements: &[Requirement], rows: &[Row], requests: u64) -> Vec<Judgement> {
    let mut judgements = Vec::new();
    for requirement in requirements {
        let concerned = rows.iter().filter(|row| match &requirement.policy {
            Some(policy) => row.policy == *policy,
            None => !row.control,
        });
        for row in concerned {
            if let Some(estimate) = row.measure(requirement.measure) {
                judgements.push(Judgement {
                    requirement: requirement.text.clone(),
                    policy: row.policy.clone(),
                    unit: requirement.measure.unit(),
                    estimate: estimate.clone(),
                    outcome: requirement
                        .outcome(estimate, requests, row.known.share_of(requirement.measure))
                        .unless_unpriced(row, requirement.measure),
                });
            }
        }
    }
    judgements
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{wilson, z_two_sided};

    const POLICIES: &[&str] = &["static", "cascade", "v1.2", "always-large"];
    const ROUTES: &[&str] = &["small", "gpt-4.1"];

    fn parse(text: &str) -> Result<Requirement, String> {
        Requirement::parse(text, POLICIES, ROUTES)
    }

    #[test]
    fn requirements_are_read_with_and_without_a_policy() {
        let got = parse("accuracy>=0.9").unwrap();
        assert_eq!((got.policy, got.at_least, got.threshold), (None, true, 0.9));
        let got = parse(" static.usd_per_1k <= 5 ").unwrap();
        assert_eq!(
            (got.policy.as_deref(), got.at_least, got.threshold),
            (Some("static"), false, 5.0)
        );
        let got = parse("v1.2.final_share.gpt-4.1<=25%").unwrap();
        assert_eq!((got.policy.as_deref(), got.threshold), (Some("v1.2"), 0.25));
        assert!(matches!(got.measure, Measure::FinalShare(1)));
        for metric in METRICS {
            parse(&format!("{}<=1", metric.name)).unwrap();
        }
    }

    #[test]
    fn mistakes_are_named_with_what_was_meant() {
        for (text, part) in [
            (
                "acuracy>=0.9",
                "there is no metric `acuracy`; did you mean `accuracy`?",
            ),
            (
                "statc.accuracy>=0.9",
                "there is no policy `statc`; did you mean `static`?",
            ),
            (
                "final_share.smal>=0.9",
                "there is no route `smal`; did you mean `small`?",
            ),
            ("static.acuracy>=0.9", "did you mean `accuracy`?"),
            ("accuracy=0.9", "it needs `>=` or `<=`"),
            ("accuracy>=high", "`high` is not a number"),
            ("accuracy>=NaN", "`NaN` is not a number"),
            ("accuracy>=90", "did you mean `90%`?"),
            ("accuracy>=-1", "a share lies between 0 and 1"),
            ("usd_per_1k<=5%", "only shares can be given in percent"),
            ("", "it needs `>=` or `<=`"),
            (">=1", "there is no metric ``"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn the_interval_decides_and_not_the_point_estimate() {
        let share = |k, n| {
            let limits = wilson(k, n, z_two_sided(0.95));
            Estimate::new(k as f64 / n as f64, limits, 0.95, n, "wilson")
        };
        let at_least = parse("accuracy>=0.9").unwrap();
        assert_eq!(
            at_least.outcome(&share(5700, 6000), 6000, Some(1.0)),
            Outcome::Pass
        );
        assert_eq!(
            at_least.outcome(&share(5000, 6000), 6000, Some(1.0)),
            Outcome::Fail
        );
        let open = at_least.outcome(&share(5410, 6000), 6000, Some(1.0));
        let Outcome::Inconclusive {
            needed_n: Some(n), ..
        } = open
        else {
            panic!("{open:?}");
        };
        assert!(n > 6000);
        let exact = at_least.outcome(&share(5400, 6000), 6000, Some(1.0));
        assert!(
            matches!(exact, Outcome::Inconclusive { needed_n: None, .. }),
            "{exact:?}"
        );

        let at_most = parse("usd_per_1k<=5").unwrap();
        let cost =
            |mean, half| Estimate::new(mean, Some(Limits::around(mean, half)), 0.95, 100, "normal");
        assert_eq!(
            at_most.outcome(&cost(4.0, 0.5), 100, Some(1.0)),
            Outcome::Pass
        );
        assert_eq!(
            at_most.outcome(&cost(6.0, 0.5), 100, Some(1.0)),
            Outcome::Fail
        );
        let open = at_most.outcome(&cost(4.5, 1.0), 200, Some(1.0));
        assert!(
            matches!(
                open,
                Outcome::Inconclusive {
                    needed_n: Some(1636),
                    ..
                }
            ),
            "{open:?}"
        );
        let unknown = at_most.outcome(&Estimate::unknown(0.95), 100, Some(1.0));
        assert!(matches!(
            unknown,
            Outcome::Inconclusive { needed_n: None, .. }
        ));
    }
}
