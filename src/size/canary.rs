//! How large a canary's slice should be: delay against harm, before anybody is served by the candidate.
//!
//! A [`CanaryTruth`] says how often base and candidate are wrong; a [`CanaryPlan`] says which slices are
//! tried, how the answers are graded and when a step may end. What a monitor does is then exact
//! ([`StreamSteps`]): how often it withdraws a sound candidate, how often it keeps a bad one, and after
//! how many graded answers it decides.
//!
//! The size of the slice is in none of these. Extra wrong answers until the decision are (expected
//! answers) × (gap between the error rates) for every slice; a smaller one only takes longer. What grows
//! with the slice is the *rate* of harm, and so the harm of everything that is not detected: a candidate
//! that was missed, and the answers given while grades are on their way.
//!
//! What this is not: the canary itself, see `policy::canary`.

use serde::Serialize;

use super::population;
use crate::catalogue::Catalogue;
use crate::source::Diagnostic;
use crate::stats::{
    OperatingCharacteristics, Sprt, StreamStep, StreamSteps, StreamTest, operating_characteristics,
};
use crate::workload::Workload;

/// Among the runs that an SPRT would withdraw, the share that a step leaves it time for.
const IN_TIME: f64 = 0.99;
/// A step's graded answers are rounded up to a multiple of this.
const ROUND: u64 = 10;
/// Most graded answers that are looked through for a monitor's chance.
const ANSWERS_MAX: u64 = 1_000_000;

/// How often answers are wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CanaryTruth {
    /// The task, or what the requests are.
    pub task: String,
    /// The route that is tried.
    pub candidate: String,
    /// The route that answers now.
    pub base: String,
    /// Share of wrong answers that the base gives.
    pub p0: f64,
    /// Share of wrong answers that the slice gets. A request that does not fit the candidate is answered
    /// by the base in the slice, too.
    pub p1: f64,
    /// Share of all requests that these are.
    pub share: f64,
}

impl CanaryTruth {
    /// Error rates that somebody knows.
    #[must_use]
    pub fn given(candidate: String, base: String, p0: f64, p1: f64) -> Self {
        Self {
            task: "given".to_owned(),
            candidate,
            base,
            p0,
            p1,
            share: 1.0,
        }
    }

    /// The error rates of a synthetic world in expectation: those of `tasks` (indices of
    /// [`Workload::tasks`]) by their shares, or of all tasks if none is named.
    ///
    /// Whether a request fits a route depends on its length alone, so whatever fits the smaller window
    /// fits the larger one.
    ///
    /// # Errors
    ///
    /// Those of [`Workload::population`]; recorded data have no population.
    pub fn simulated(
        workload: &Workload,
        catalogue: &Catalogue,
        candidate: usize,
        base: usize,
        tasks: &[usize],
    ) -> Result<Self, Diagnostic> {
        let world = population(workload, catalogue).map_err(|error| *error)?;
        let (mut share, mut wrong_base, mut wrong_slice) = (0.0, 0.0, 0.0);
        let mut names = Vec::new();
        for (index, task) in world.tasks.iter().enumerate() {
            if !tasks.is_empty() && !tasks.contains(&index) {
                continue;
            }
            let (tried, now) = (&task.routes[candidate], &task.routes[base]);
            let only_base = (now.fits - tried.fits).max(0.0);
            share += task.share;
            wrong_base += task.share * (1.0 - now.accuracy());
            wrong_slice += task.share * (1.0 - tried.accuracy() - only_base * now.right);
            names.push(task.name.as_str());
        }
        Ok(Self {
            task: if tasks.is_empty() {
                "all tasks".to_owned()
            } else {
                names.join(", ")
            },
            candidate: workload.routes[candidate].clone(),
            base: workload.routes[base].clone(),
            p0: wrong_base / share,
            p1: wrong_slice / share,
            share,
        })
    }

    /// Extra wrong answers per answer of the slice.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.p1 - self.p0
    }
}

/// What is planned.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryPlan {
    /// Slices, as shares of the users: above 0, rising, at most 1.
    pub weights: Vec<f64>,
    /// Bound on the chance to withdraw a sound candidate.
    pub alpha: f64,
    /// Bound on the chance to keep one that errs with p1.
    pub beta: f64,
    /// Graded answers before a step may end; `None` for as many as the SPRT needs in nearly all runs that
    /// it would withdraw.
    pub min_graded: Option<u64>,
    /// Requests a day over all tasks; without it delays are known in requests only.
    pub requests_per_day: Option<f64>,
    /// Share of the slice's answers that is graded, above 0.
    pub graded_share: f64,
    /// Hours from an answer to its grade.
    pub label_delay_h: f64,
}

/// What a monitor does within one step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Monitored {
    /// `sprt`, …
    pub monitor: &'static str,
    /// Chance to withdraw a candidate that errs as often as the base.
    pub false_rollback: f64,
    /// The same in any step of the ramp: each has a test of its own.
    pub false_rollback_in_ramp: f64,
    /// Chance not to withdraw a candidate that errs with p1.
    pub missed: f64,
    /// The same in every step of the ramp, so that it is promoted.
    pub missed_in_ramp: f64,
    /// Expected graded answers until it decides or the step ends, for a candidate as good as the base.
    pub answers_if_equal: f64,
    /// The same for one that errs with p1.
    pub answers_if_worse: f64,
    /// Extra wrong answers given until then, graded or not: the same for every slice.
    pub extra_wrong_until_decision: f64,
    /// Graded answers within which it withdraws the worse candidate with chance 1 − β; `None` if it never
    /// does so often, or not within a million.
    pub answers_for_power: Option<u64>,
    /// By slice.
    pub slices: Vec<SliceHarm>,
}

/// What the size of the slice does change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SliceHarm {
    /// The slice.
    pub weight: f64,
    /// Extra wrong answers per 1,000 requests of the task, for as long as a bad candidate stays: a rate.
    pub extra_wrong_per_1k: f64,
    /// The part of that rate which is expected to go undetected in this step.
    pub missed_extra_wrong_per_1k: f64,
    /// Requests of the task until the monitor decides on a bad candidate, on average.
    pub requests_until_decision: f64,
    /// The same in hours, with the wait for the last grade; `None` without a number of requests a day.
    pub hours_until_decision: Option<f64>,
    /// Extra wrong answers given while the deciding grade is on its way.
    pub extra_wrong_in_label_delay: Option<f64>,
    /// Requests of the task until a step of a sound candidate has its graded answers.
    pub requests_for_step: f64,
    /// The same in days, with the wait for the last grade.
    pub days_for_step: Option<f64>,
}

/// A canary, sized.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CanarySizing {
    /// How often answers are wrong.
    pub truth: CanaryTruth,
    /// Extra wrong answers per answer of the slice.
    pub gap: f64,
    /// The rates that the SPRT is built for: the truth, rounded to three digits.
    pub design: (f64, f64),
    /// Bounds on the SPRT's errors.
    pub alpha: f64,
    /// See `alpha`.
    pub beta: f64,
    /// Graded answers before a step may end.
    pub min_graded: u64,
    /// Fewest wrong answers in a row with which the SPRT aborts.
    pub fastest_abort: Option<u64>,
    /// Requests of the task a day.
    pub task_requests_per_day: Option<f64>,
    /// Share of the slice's answers that is graded.
    pub graded_share: f64,
    /// Hours from an answer to its grade.
    pub label_delay_h: f64,
    /// What each monitor does.
    pub monitors: Vec<Monitored>,
    /// A policy file for this ramp.
    pub stanza: String,
}

impl CanaryPlan {
    /// Sizes the canary.
    ///
    /// # Errors
    ///
    /// When no test can tell the two error rates apart: the slice errs no more often than the base, or a
    /// rate is 0 or 1.
    pub fn size(&self, truth: CanaryTruth) -> Result<CanarySizing, String> {
        let design = (three_digits(truth.p0), three_digits(truth.p1));
        if truth.p1 <= truth.p0 {
            return Err(format!(
                "`{}` is wrong in {} of the answers and `{}` in {}: there is no harm to size a canary by",
                truth.candidate, design.1, truth.base, design.0
            ));
        }
        let Some(sprt) = Sprt::new(design.0, design.1, self.alpha, self.beta) else {
            return Err(format!(
                "no test tells error rates of {} and {} apart with errors of {} and {}: rates must lie between 0 and 1 and differ in three digits",
                design.0, design.1, self.alpha, self.beta
            ));
        };
        let Some(min_graded) = self.min_graded.or_else(|| in_time(&sprt, truth.p1)) else {
            return Err(format!(
                "error rates of {} and {} are so close that no step of {ANSWERS_MAX} graded answers tells them apart",
                design.0, design.1
            ));
        };
        let mut sizing = CanarySizing {
            gap: truth.gap(),
            design,
            alpha: self.alpha,
            beta: self.beta,
            min_graded,
            fastest_abort: fastest_abort(&sprt),
            task_requests_per_day: self.requests_per_day.map(|all| all * truth.share),
            graded_share: self.graded_share,
            label_delay_h: self.label_delay_h,
            monitors: Vec::new(),
            stanza: self.stanza(&truth, design, min_graded),
            truth,
        };
        let monitors = [self.monitored("sprt", &sprt, &sizing)];
        sizing.monitors = monitors.into_iter().flatten().collect();
        Ok(sizing)
    }

    fn monitored(
        &self,
        monitor: &'static str,
        test: &impl StreamTest,
        sizing: &CanarySizing,
    ) -> Option<Monitored> {
        let within = |p| -> Option<OperatingCharacteristics> {
            operating_characteristics(test, p, Some(sizing.min_graded))
        };
        let (equal, worse) = (within(sizing.truth.p0)?, within(sizing.truth.p1)?);
        let steps = self.weights.len() as f64;
        let missed = 1.0 - worse.accept_h1;
        let slices = self
            .weights
            .iter()
            .map(|weight| self.slice(*weight, missed, worse.expected_n, sizing));
        Some(Monitored {
            monitor,
            false_rollback: equal.accept_h1,
            // 1 − (1 − f)^steps, without losing a small f.
            false_rollback_in_ramp: -libm::expm1(steps * libm::log1p(-equal.accept_h1)),
            missed,
            missed_in_ramp: libm::pow(missed, steps),
            answers_if_equal: equal.expected_n,
            answers_if_worse: worse.expected_n,
            extra_wrong_until_decision: worse.expected_n / self.graded_share * sizing.gap,
            answers_for_power: answers_for(test, sizing.truth.p1, 1.0 - self.beta),
            slices: slices.collect(),
        })
    }

    fn slice(&self, weight: f64, missed: f64, answers: f64, sizing: &CanarySizing) -> SliceHarm {
        let graded = weight * self.graded_share;
        let rate = weight * sizing.gap * 1e3;
        let (decision, step) = (answers / graded, sizing.min_graded as f64 / graded);
        let per_hour = sizing.task_requests_per_day.map(|daily| daily / 24.0);
        let hours = |requests: f64| per_hour.map(|rate| requests / rate + self.label_delay_h);
        SliceHarm {
            weight,
            extra_wrong_per_1k: rate,
            missed_extra_wrong_per_1k: missed * rate,
            requests_until_decision: decision,
            hours_until_decision: hours(decision),
            extra_wrong_in_label_delay: per_hour
                .map(|per_hour| per_hour * self.label_delay_h * rate / 1e3),
            requests_for_step: step,
            days_for_step: hours(step).map(|hours| hours / 24.0),
        }
    }

    /// The ramp as a policy file.
    fn stanza(&self, truth: &CanaryTruth, (p0, p1): (f64, f64), min_graded: u64) -> String {
        // A string of JSON is one of TOML, too.
        let quoted = |name: &str| serde_json::Value::from(name).to_string();
        let mut text = format!(
            "[canary]\ncandidate = {}\nsteps = [\n",
            quoted(&truth.candidate)
        );
        for weight in &self.weights {
            text.push_str(&format!(
                "    {{ weight = {weight:?}, min_graded = {min_graded} }},\n"
            ));
        }
        text.push_str("]\nstick_to = \"user\"\n");
        if self.weights.iter().any(|weight| *weight > 0.5) {
            text.push_str("control = false\n");
        }
        text.push_str(&format!(
            "abort.sprt = {{ p0 = {p0:?}, p1 = {p1:?}, alpha = {:?}, beta = {:?} }}\nbase.static = {{ default = {} }}\n",
            self.alpha,
            self.beta,
            quoted(&truth.base)
        ));
        text
    }
}

/// A rate as a person would write it into a file.
fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn fastest_abort(sprt: &Sprt) -> Option<u64> {
    (1..10_000).find(|n| sprt.least_hits_for_h1(*n).is_some())
}

/// Graded answers that leave an SPRT time in nearly all runs that it would withdraw.
fn in_time(sprt: &Sprt, p1: f64) -> Option<u64> {
    let total = operating_characteristics(sprt, p1, None)?.accept_h1;
    let n = answers_for(sprt, p1, IN_TIME * total)?;
    Some(n.next_multiple_of(ROUND))
}

/// The fewest answers within which the test accepts H1 with this chance.
fn answers_for(test: &impl StreamTest, p: f64, chance: f64) -> Option<u64> {
    let mut sum = 0.0;
    StreamSteps::new(test, p, None)?
        .take_while(|step: &StreamStep| step.n <= ANSWERS_MAX && step.undecided > 1e-12)
        .find_map(|step| {
            sum += step.accept_h1;
            (sum >= chance).then_some(step.n)
        })
}
