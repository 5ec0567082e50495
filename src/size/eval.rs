//! How many labelled examples it takes until they pick the right route for each task.
//!
//! An eval-driven policy asks every candidate the same number of labelled examples of a task and takes
//! the cheapest whose share of right answers reaches a bar. Each share is binomial, so what the examples
//! pick is a finite sum; nothing here is drawn. Beside the fixed number stands a sequential test, route by
//! route, which ends early where a route is clearly above or below the bar.
//!
//! Two candidates' examples count as independent, as a lab that draws them apart has them.

use rayon::prelude::*;
use serde::Serialize;

use super::eval_tasks::EvalTask;
use crate::stats::{Bar, CheapestPassing, Sprt, indifference_zone, wilson_fraction, z_two_sided};
use crate::units::Score;
use crate::workload::Expected;

/// Level of the limits of counted rates.
const LEVEL: f64 = 0.95;

/// What is asked about labelled examples.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalPlan {
    /// The bar: least share of right answers.
    pub target: Score,
    /// Numbers of examples for each task and route to tabulate.
    pub examples: Vec<u64>,
    /// Chances of the oracle's route to find an n for, such as 0.8.
    pub chances: Vec<f64>,
    /// Half-width of the zone around the bar in which either verdict will do.
    pub epsilon: f64,
    /// Chance of a wrong verdict outside the zone, on either side.
    pub error: f64,
    /// Most examples of one task and route that anybody would label.
    pub labels_max: u64,
    /// What a right answer is worth in USD, for regret.
    pub usd_per_correct: Option<f64>,
}

/// The chance of a route, and whether it is the oracle's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pick {
    /// The route.
    pub route: String,
    /// P(the examples pick it).
    pub chance: f64,
    /// Whether somebody who knows the rates would pick it.
    pub oracle: bool,
}

/// What the examples of one task pick.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskPicks {
    /// The task.
    pub task: String,
    /// P(the oracle's route).
    pub oracle_chance: f64,
    /// Labelled examples of this task, over all routes; expected ones if their number is chance.
    pub labels: f64,
    /// Every route it may get.
    pub picks: Vec<Pick>,
}

/// One way to label, and what it leads to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Labelling {
    /// Examples for each task and route; `None` for the sequential test.
    pub examples: Option<u64>,
    /// Labelled examples in all; expected ones if their number is chance.
    pub labels: f64,
    /// Expected number of tasks that get the oracle's route.
    pub oracle_tasks: f64,
    /// P(all tasks get the oracle's route).
    pub all_oracle_chance: f64,
    /// Accuracy, cost and calls in expectation, over requests and over the examples' luck.
    pub expected: Expected,
    /// Utility of the oracle's picks less the expected one, in USD per 1,000 requests, where a right
    /// answer is worth `usd_per_correct`. Below zero if mis-routing happens to pay: the oracle aims at
    /// the bar, not at utility.
    pub regret_usd_per_1k: Option<f64>,
    /// By task.
    pub tasks: Vec<TaskPicks>,
}

/// One candidate on one task against the bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvalCell {
    /// The task.
    pub task: String,
    /// The route.
    pub route: String,
    /// Its rate of right answers; `None` if no answer of it has a grade.
    pub rate: Option<f64>,
    /// Grades behind the rate, if it was counted.
    pub graded: Option<u64>,
    /// Wilson's 95 % limits of a counted rate.
    pub rate_low: Option<f64>,
    /// See [`EvalCell::rate_low`].
    pub rate_high: Option<f64>,
    /// Rate minus bar.
    pub above_bar: Option<f64>,
    /// Whether it is the oracle's route for the task.
    pub oracle: bool,
    /// Examples from which on the share is on the right side of the bar with the last of the plan's
    /// chances; `None` if there is no such number up to the plan's limit, or nothing to settle.
    pub settled: Option<u64>,
    /// Whether its verdict matters: not that of the dearest candidate if it gets the task anyway when
    /// the others fail. The sequential test leaves it out.
    pub tested: bool,
    /// P(the sequential test passes it).
    pub sequential_pass: Option<f64>,
    /// Expected labels of the sequential test, if it comes to it.
    pub sequential_labels: Option<f64>,
    /// P(the sequential test reaches the limit undecided).
    pub sequential_undecided: Option<f64>,
}

/// Examples that a task needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvalNeeded {
    /// The task.
    pub task: String,
    /// The chance of the oracle's route that is asked for.
    pub chance: f64,
    /// Examples for each route from which on the chance is never lower, up to the plan's limit; `None` if
    /// there is no such number.
    pub settled: Option<u64>,
}

/// Everything that is known before the first label.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvalSizing {
    /// The bar.
    pub target: f64,
    /// See [`EvalPlan::epsilon`].
    pub epsilon: f64,
    /// See [`EvalPlan::error`].
    pub error: f64,
    /// See [`EvalPlan::labels_max`].
    pub labels_max: u64,
    /// See [`EvalPlan::usd_per_correct`].
    pub usd_per_correct: Option<f64>,
    /// Candidates against the bar.
    pub cells: Vec<EvalCell>,
    /// A fixed number of examples for each task and route.
    pub fixed: Vec<Labelling>,
    /// A sequential test for each task and route.
    pub sequential: Labelling,
    /// What the oracle's picks come to.
    pub oracle: Expected,
    /// Fixed numbers by task.
    pub needed: Vec<EvalNeeded>,
}

impl EvalPlan {
    /// Answers the plan for `tasks`, whose rates are taken for the truth.
    ///
    /// `None` unless the zone around the bar lies inside (0, 1), the error is above 0 and below ½, the
    /// chances lie strictly between 0 and 1, and labels and examples are at least 1.
    #[must_use]
    pub fn size(&self, tasks: &[EvalTask]) -> Option<EvalSizing> {
        let bar = Bar::from_millionths(self.target.millionths()?)?;
        let sprt = indifference_zone(bar, self.epsilon, self.error, self.error)?;
        let sound = |chance: &f64| *chance > 0.0 && *chance < 1.0;
        if self.labels_max == 0 || !self.chances.iter().all(sound) {
            return None;
        }
        let test = Test { sprt, bar };
        let mut fixed: Vec<Vec<(Vec<f64>, f64)>> = vec![Vec::new(); self.examples.len()];
        let mut sequential = Vec::with_capacity(tasks.len());
        let (mut cells, mut needed) = (Vec::new(), Vec::new());
        // Tasks are independent of each other; collecting keeps their order.
        let answers: Vec<Answer> = tasks
            .par_iter()
            .map(|task| self.answer(task, &test))
            .collect::<Option<_>>()?;
        for answer in answers {
            for (picks, found) in fixed.iter_mut().zip(answer.fixed) {
                picks.push(found);
            }
            sequential.push(answer.sequential);
            cells.extend(answer.cells);
            needed.extend(answer.needed);
        }
        let mut oracle = Expected::NOTHING;
        for task in tasks {
            oracle.add(task.share, &task.routes[task.oracle()].expected);
        }
        Some(EvalSizing {
            target: bar.share(),
            epsilon: self.epsilon,
            error: self.error,
            labels_max: self.labels_max,
            usd_per_correct: self.usd_per_correct,
            cells,
            fixed: self
                .examples
                .iter()
                .zip(fixed)
                .map(|(n, picks)| self.labelling(Some(*n), tasks, picks, &oracle))
                .collect(),
            sequential: self.labelling(None, tasks, sequential, &oracle),
            oracle,
            needed,
        })
    }

    /// Everything about one task.
    fn answer(&self, task: &EvalTask, test: &Test) -> Option<Answer> {
        let rule = CheapestPassing {
            bar: test.bar,
            fallback: task.otherwise,
        };
        // No share of no answers reaches a bar, and who is no candidate stands last and is not asked.
        let rates: Vec<f64> = task
            .routes
            .iter()
            .map(|route| route.rate.unwrap_or(0.0))
            .collect();
        let labels = task.candidates as f64;
        let fixed = self
            .examples
            .iter()
            .map(|n| Some((rule.picks(*n, &rates)?, *n as f64 * labels)))
            .collect::<Option<_>>()?;
        let tested = rule.sequential(&rates, &test.sprt, self.labels_max)?;
        let needed = self.chances.iter().map(|chance| EvalNeeded {
            task: task.name.clone(),
            chance: *chance,
            settled: if task.candidates == 0 {
                // A pinned task needs no examples.
                Some(0)
            } else {
                let found = rule.examples_needed(&rates, *chance, self.labels_max);
                found.map(|size| size.settled)
            },
        });
        let oracle = task.oracle();
        let mut cells = Vec::with_capacity(task.candidates);
        for (at, route) in task.routes[..task.candidates].iter().enumerate() {
            let odds = tested.measured.get(at).filter(|_| route.rate.is_some());
            let counted = route.rate.zip(route.graded);
            let limits =
                counted.and_then(|(rate, n)| wilson_fraction(rate, n as f64, z_two_sided(LEVEL)));
            cells.push(EvalCell {
                task: task.name.clone(),
                route: route.name.clone(),
                rate: route.rate,
                graded: route.graded,
                rate_low: limits.map(|limits| limits.low),
                rate_high: limits.map(|limits| limits.high),
                above_bar: route.rate.map(|rate| rate - test.bar.share()),
                oracle: at == oracle,
                settled: odds
                    .and(route.rate)
                    .and_then(|rate| self.settled(test.bar, rate)),
                tested: odds.is_some(),
                sequential_pass: odds.map(|odds| odds.passes),
                sequential_labels: odds.map(|odds| odds.labels),
                sequential_undecided: odds.map(|odds| odds.capped),
            });
        }
        Some(Answer {
            fixed,
            sequential: (tested.picks, tested.labels),
            cells,
            needed: needed.collect(),
        })
    }

    /// Examples that tell on which side of the bar a rate lies, with the last of the plan's chances:
    /// those that pick rightly between the route and one that is asked nothing.
    fn settled(&self, bar: Bar, rate: f64) -> Option<u64> {
        let alone = CheapestPassing { bar, fallback: 1 };
        let chance = *self.chances.last()?;
        let found = alone.examples_needed(&[rate, 0.0], chance, self.labels_max);
        found.map(|size| size.settled)
    }

    /// What becomes of chances by task and route, with the labels of each task.
    fn labelling(
        &self,
        examples: Option<u64>,
        tasks: &[EvalTask],
        picks: Vec<(Vec<f64>, f64)>,
        oracle: &Expected,
    ) -> Labelling {
        let mut expected = Expected::NOTHING;
        let mut shown = Vec::with_capacity(tasks.len());
        for (task, (chances, labels)) in tasks.iter().zip(picks) {
            let right = task.oracle();
            for (route, chance) in task.routes.iter().zip(&chances) {
                expected.add(task.share * chance, &route.expected);
            }
            let routes = task.routes.iter().zip(&chances).enumerate();
            shown.push(TaskPicks {
                task: task.name.clone(),
                oracle_chance: chances[right],
                labels,
                picks: routes
                    .map(|(at, (route, chance))| Pick {
                        route: route.name.clone(),
                        chance: *chance,
                        oracle: at == right,
                    })
                    .collect(),
            });
        }
        let regret = |worth: f64| {
            let accuracy = oracle.accuracy - expected.accuracy;
            let saved = expected.usd_per_1k? - oracle.usd_per_1k?;
            Some(1_000.0 * worth * accuracy + saved)
        };
        Labelling {
            examples,
            labels: shown.iter().map(|task| task.labels).sum(),
            oracle_tasks: shown.iter().map(|task| task.oracle_chance).sum(),
            all_oracle_chance: shown.iter().map(|task| task.oracle_chance).product(),
            expected,
            regret_usd_per_1k: self.usd_per_correct.and_then(regret),
            tasks: shown,
        }
    }
}

/// What is found out about one task.
struct Answer {
    /// For each number of examples: the chance of each route, and the labels it takes.
    fixed: Vec<(Vec<f64>, f64)>,
    sequential: (Vec<f64>, f64),
    cells: Vec<EvalCell>,
    needed: Vec<EvalNeeded>,
}

/// The sequential test of a bar.
struct Test {
    sprt: Sprt,
    bar: Bar,
}
