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

use super::{Origin, population, recorded_truths};
use crate::catalogue::Catalogue;
use crate::source::Diagnostic;
use crate::stats::{
    BernoulliMixture, BernoulliSequence, OperatingCharacteristics, Sprt, StreamSteps, StreamTest,
    operating_characteristics,
};
use crate::workload::Workload;

/// Among the runs that an SPRT would withdraw, the share that a step leaves it time for.
const IN_TIME: f64 = 0.999;
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
    /// Requests with a grade of both routes that the rates were counted on, if they were recorded.
    pub graded: Option<u64>,
    /// Where the rates come from.
    pub origin: Origin,
    /// Whether the workload has other tasks, which these rates say nothing about.
    pub has_other_tasks: bool,
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
            graded: None,
            origin: Origin::Given,
            has_other_tasks: false,
        }
    }

    /// The error rates in a recorded log, on the requests with a grade of both routes: those of `tasks`, or
    /// of all tasks if none is named. They are estimates: no better than the log is long.
    ///
    /// # Errors
    ///
    /// Those of [`recorded_truths`].
    pub fn recorded(
        workload: &Workload,
        candidate: usize,
        base: usize,
        tasks: &[usize],
    ) -> Result<Self, Box<Diagnostic>> {
        let truths = recorded_truths(workload, None, candidate, base, tasks)?;
        // Of all tasks the last entry is all of them together.
        let of_all = if tasks.is_empty() {
            &truths[truths.len() - 1..]
        } else {
            &truths[..]
        };
        let (mut graded, mut share, mut wrong) = (0, 0.0, (0.0, 0.0));
        for truth in of_all {
            let pairs = truth.pairs.unwrap_or(0);
            let (joint, weight) = (truth.joint, pairs as f64);
            graded += pairs;
            share += truth.share;
            wrong.0 += weight * (joint.p10() + joint.p00());
            wrong.1 += weight * (joint.p01() + joint.p00());
        }
        let names: Vec<&str> = of_all.iter().map(|truth| truth.task.as_str()).collect();
        Ok(Self {
            task: names.join(", "),
            candidate: workload.routes[candidate].clone(),
            base: workload.routes[base].clone(),
            p0: wrong.0 / graded as f64,
            p1: wrong.1 / graded as f64,
            share,
            graded: Some(graded),
            origin: Origin::Recorded,
            has_other_tasks: leaves_some(workload, tasks),
        })
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
    ) -> Result<Self, Box<Diagnostic>> {
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
            graded: None,
            origin: Origin::Simulated,
            has_other_tasks: leaves_some(workload, tasks),
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
    /// Extra wrong answers given until then, graded or not: the same for every slice. Those given while
    /// the deciding grade is on its way come on top ([`SliceHarm::extra_wrong_in_label_delay`]).
    pub extra_wrong_until_decision: f64,
    /// Graded answers within which it withdraws the worse candidate with chance 1 − β; `None` if it does
    /// so less often, not within a million, or if that is not known: for the control, and for error rates
    /// so close that the calculation was given up.
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
    /// Whether there is room for a control, but its odds are not known: the error rates are so close that
    /// the calculation was given up before it decides.
    pub is_control_unknown: bool,
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
            is_control_unknown: false,
            stanza: self.stanza(&truth, design, min_graded),
            truth,
        };
        let monitors = [
            self.monitored("sprt", &sprt, &sizing),
            self.by_sequence(&sizing),
            self.beside_control(&sizing),
        ];
        sizing.is_control_unknown = self.leaves_a_control() && monitors[2].is_none();
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
        let found = self.described(monitor, &equal, &worse, sizing);
        Some(Monitored {
            answers_for_power: answers_for(test, sizing.truth.p1, 1.0 - self.beta),
            ..found
        })
    }

    /// A confidence sequence that withdraws the candidate once it lies wholly above p0. It names no p1 and
    /// may be looked at for ever; where p1 is known it takes longer than the SPRT.
    fn by_sequence(&self, sizing: &CanarySizing) -> Option<Monitored> {
        let sequence = BernoulliSequence::new(self.alpha, sizing.min_graded as f64, self.alpha)?;
        let test = BernoulliMixture::new(sequence, sizing.design.0)?;
        self.monitored("confidence sequence", &test, sizing)
    }

    /// The SPRT on the slice's share of the wrong answers of slice and control, for the ratio p1/p0.
    ///
    /// A graded answer is the slice's or the control's with the same chance. Of the wrong ones, which are
    /// what this test observes, there are 2·p0 for each answer of the slice if both err alike, p0 + p1 if
    /// the candidate is worse, so the expected answers are the expected observations divided by that
    /// (Wald's equation; A. Wald, Annals of Mathematical Statistics 15 (1944) 283–296). How many wrong
    /// answers a step has is left to chance, so that its end is in none of these numbers.
    fn beside_control(&self, sizing: &CanarySizing) -> Option<Monitored> {
        let (p0, p1) = (sizing.truth.p0, sizing.truth.p1);
        let design = sizing.design.1 / (sizing.design.0 + sizing.design.1);
        if !self.leaves_a_control() {
            return None;
        }
        let test = Sprt::new(0.5, design, self.alpha, self.beta)?;
        let mut equal = operating_characteristics(&test, 0.5, None)?;
        let mut worse = operating_characteristics(&test, p1 / (p0 + p1), None)?;
        if !(equal.is_decided() && worse.is_decided()) {
            return None;
        }
        equal.expected_n /= 2.0 * p0;
        worse.expected_n /= p0 + p1;
        Some(self.described("control", &equal, &worse, sizing))
    }

    /// Whether a control of the slice's size is left at every step.
    fn leaves_a_control(&self) -> bool {
        self.weights.iter().all(|weight| *weight <= 0.5)
    }

    /// A monitor with these odds.
    fn described(
        &self,
        monitor: &'static str,
        equal: &OperatingCharacteristics,
        worse: &OperatingCharacteristics,
        sizing: &CanarySizing,
    ) -> Monitored {
        let steps = self.weights.len() as f64;
        let missed = 1.0 - worse.accept_h1;
        let slices = self
            .weights
            .iter()
            .map(|weight| self.slice(*weight, missed, worse.expected_n, sizing));
        Monitored {
            monitor,
            false_rollback: equal.accept_h1,
            // 1 − (1 − f)^steps, without losing a small f.
            false_rollback_in_ramp: -libm::expm1(steps * libm::log1p(-equal.accept_h1)),
            missed,
            missed_in_ramp: libm::pow(missed, steps),
            answers_if_equal: equal.expected_n,
            answers_if_worse: worse.expected_n,
            extra_wrong_until_decision: worse.expected_n / self.graded_share * sizing.gap,
            answers_for_power: None,
            slices: slices.collect(),
        }
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
        let mut text = String::new();
        if truth.has_other_tasks {
            // Debug writes line breaks, which would end the comment, as escapes.
            text.push_str(&format!(
                "# The error rates and graded answers are of task {:?} alone, and this ramp takes all traffic:\n# use it only where the traffic is that task.\n",
                truth.task
            ));
        }
        text.push_str(&format!(
            "[canary]\ncandidate = {}\nsteps = [\n",
            quoted(&truth.candidate)
        ));
        for weight in &self.weights {
            text.push_str(&format!(
                "    {{ weight = {weight:?}, min_graded = {min_graded} }},\n"
            ));
        }
        text.push_str("]\nstick_to = \"user\"\n");
        if !self.leaves_a_control() {
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

/// Whether `tasks` names some tasks of the workload and not all of them.
fn leaves_some(workload: &Workload, tasks: &[usize]) -> bool {
    !tasks.is_empty() && (0..workload.tasks.len()).any(|task| !tasks.contains(&task))
}

/// Graded answers that leave an SPRT time in nearly all runs that it would withdraw; `None` if a million
/// are too few.
///
/// Runs that are undecided after a million may all be withdrawn later, so they count as if they were.
fn in_time(sprt: &Sprt, p1: f64) -> Option<u64> {
    // Nearly all runs take more than the mean, and a mean above the limit takes seconds to count out.
    if mean_answers(sprt) > ANSWERS_MAX as f64 {
        return None;
    }
    let mut withdrawn = Vec::new();
    let (mut total, mut undecided) = (0.0, 1.0);
    for step in StreamSteps::new(sprt, p1, Some(ANSWERS_MAX))? {
        total += step.accept_h1;
        undecided = step.undecided;
        withdrawn.push(total);
        if undecided < 1e-12 {
            break;
        }
    }
    let wanted = IN_TIME * (total + undecided);
    let before = withdrawn.iter().position(|sum| *sum >= wanted)?;
    Some((before as u64 + 1).next_multiple_of(ROUND))
}

/// Wald's approximation of the answers an SPRT takes if its p1 is true, a little less than the exact
/// number: A. Wald, Annals of Mathematical Statistics 16 (1945) 117–186, section 4.
fn mean_answers(sprt: &Sprt) -> f64 {
    let (p1, alpha, beta) = (sprt.p1(), sprt.alpha(), sprt.beta());
    let upper = libm::log1p(-beta) - libm::log(alpha);
    let lower = libm::log(beta) - libm::log1p(-alpha);
    let per_hit = sprt.log_likelihood_ratio(1, 1);
    let per_miss = sprt.log_likelihood_ratio(0, 1);
    ((1.0 - beta) * upper + beta * lower) / (p1 * per_hit + (1.0 - p1) * per_miss)
}

/// The fewest answers within which the test accepts H1 with this chance.
fn answers_for(test: &impl StreamTest, p: f64, chance: f64) -> Option<u64> {
    let mut sum = 0.0;
    for step in StreamSteps::new(test, p, None)? {
        sum += step.accept_h1;
        if sum >= chance {
            return Some(step.n);
        }
        if step.n >= ANSWERS_MAX || step.undecided < 1e-12 {
            break;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan() -> CanaryPlan {
        CanaryPlan {
            weights: vec![0.01, 0.05, 0.25],
            alpha: 0.05,
            beta: 0.10,
            min_graded: None,
            requests_per_day: None,
            graded_share: 1.0,
            label_delay_h: 0.0,
        }
    }

    fn given(p0: f64, p1: f64) -> CanaryTruth {
        CanaryTruth::given("small".to_owned(), "large".to_owned(), p0, p1)
    }

    #[test]
    fn harm_until_the_decision_is_the_same_for_every_slice_and_only_the_delay_differs() {
        let sizing = plan().size(given(0.032, 0.140)).unwrap();
        for one in &sizing.monitors {
            for slice in &one.slices {
                // Requests × slice × gap is the harm, whichever slice.
                let harm = slice.requests_until_decision * slice.extra_wrong_per_1k / 1e3;
                assert!((harm - one.extra_wrong_until_decision).abs() < 1e-9);
                assert!(slice.missed_extra_wrong_per_1k < slice.extra_wrong_per_1k);
            }
            let ratio =
                one.slices[0].requests_until_decision / one.slices[2].requests_until_decision;
            assert!((ratio - 25.0).abs() < 1e-9);
        }
    }

    #[test]
    fn grades_that_come_late_or_seldom_cost_time_and_harm() {
        let prompt = CanaryPlan {
            requests_per_day: Some(24_000.0),
            ..plan()
        };
        let late = CanaryPlan {
            label_delay_h: 10.0,
            ..prompt.clone()
        };
        let seldom = CanaryPlan {
            graded_share: 0.5,
            ..prompt.clone()
        };
        let of = |plan: &CanaryPlan| plan.size(given(0.05, 0.10)).unwrap().monitors[0].clone();
        let (prompt, late, seldom) = (of(&prompt), of(&late), of(&seldom));
        let hours = |one: &Monitored| one.slices[0].hours_until_decision.unwrap();
        assert!((hours(&late) - hours(&prompt) - 10.0).abs() < 1e-9);
        assert!((hours(&seldom) / hours(&prompt) - 2.0).abs() < 1e-9);
        assert_eq!(
            late.extra_wrong_until_decision,
            prompt.extra_wrong_until_decision
        );
        let twice = seldom.extra_wrong_until_decision / prompt.extra_wrong_until_decision;
        assert!((twice - 2.0).abs() < 1e-9);
        // 1,000 requests an hour, one in a hundred in the slice, a gap of five points, for ten hours.
        let waiting = late.slices[0].extra_wrong_in_label_delay.unwrap();
        assert!((waiting - 5.0).abs() < 1e-9, "{waiting}");
        assert_eq!(prompt.slices[0].extra_wrong_in_label_delay, Some(0.0));
    }

    #[test]
    fn what_no_test_can_tell_apart_is_refused() {
        assert!(
            plan()
                .size(given(0.10, 0.05))
                .unwrap_err()
                .contains("no harm")
        );
        for (p0, p1) in [(0.05, 0.05), (0.0, 0.1), (0.1, 1.0), (0.5, 0.500_001)] {
            assert!(plan().size(given(p0, p1)).is_err(), "{p0} {p1}");
        }
    }

    #[test]
    fn the_mean_that_refuses_close_rates_is_below_the_exact_one() {
        for (p0, p1) in [(0.03, 0.035), (0.05, 0.10), (0.4, 0.45)] {
            let sprt = Sprt::new(p0, p1, 0.05, 0.10).unwrap();
            let exact = operating_characteristics(&sprt, p1, None).unwrap();
            let (mean, exact) = (mean_answers(&sprt), exact.expected_n);
            assert!(mean < exact && mean > 0.7 * exact, "{mean} {exact}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Whatever is planned is finite, and a chance is a chance.
        #[test]
        fn numbers_are_finite(p0 in 0.001f64..0.3, more in 1.3f64..4.0, alpha in 0.001f64..0.4, beta in 0.001f64..0.4, graded in 0.01f64..=1.0) {
            let plan = CanaryPlan { alpha, beta, graded_share: graded, requests_per_day: Some(100.0), ..plan() };
            let p1 = (p0 * more).min(0.95);
            let sizing = plan.size(given(p0, p1)).unwrap();
            prop_assert!(sizing.fastest_abort.is_some_and(|n| n <= sizing.min_graded));
            for one in &sizing.monitors {
                for chance in [one.false_rollback, one.false_rollback_in_ramp, one.missed, one.missed_in_ramp] {
                    prop_assert!((0.0..=1.0).contains(&chance), "{:?}", one);
                }
                prop_assert!(one.false_rollback <= one.false_rollback_in_ramp + 1e-12);
                prop_assert!(one.extra_wrong_until_decision > 0.0 && one.extra_wrong_until_decision.is_finite());
                for slice in &one.slices {
                    prop_assert!(slice.hours_until_decision.is_some_and(f64::is_finite));
                    prop_assert!(slice.days_for_step.is_some_and(f64::is_finite));
                }
            }
        }
    }
}
