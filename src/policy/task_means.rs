//! Per task, the route with the best mean grade on labelled examples.

use super::choice::cheapest_first;
use super::ready::ByTask;
use super::{Examples, Kind, Names, Policy, Setup, Spec};
use crate::router::{Plan, RouteId};
use crate::source::Table;

pub(super) const KIND: Kind = Kind {
    name: "task-means",
    about: "Per task, the route with the highest mean grade on labelled examples, ties to the cheaper. Needs labels \
            and ignores cost. As a control it shows what knowing the task alone is worth.",
    example: "[task-means]\nexamples = 1000\n",
    read,
};

/// Per task, the route with the best mean grade.
#[derive(Clone, Copy, Debug)]
pub struct TaskMeans {
    /// Most labelled examples per task and route.
    pub examples: u64,
}

fn read(mut table: Table<'_>, _names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let examples = table
        .get("examples")
        .and_then(|value| value.integer_in(1, 10_000_000))
        .unwrap_or(1000);
    table.finish();
    Some(Box::new(TaskMeans { examples }))
}

impl Spec for TaskMeans {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn trains(&self, _tasks: &[String]) -> bool {
        true
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let routes: Vec<RouteId> = (0..setup.catalogue.routes.len())
            .map(|index| RouteId(index as u16))
            .collect();
        let mut choices = Vec::with_capacity(setup.tasks.len());
        // A task without a single example falls back to the route that is best over all tasks.
        let mut overall = vec![Examples::default(); routes.len()];
        let mut per_task = Vec::with_capacity(setup.tasks.len());
        for task in 0..setup.tasks.len() {
            let seen: Vec<(RouteId, Examples)> = routes
                .iter()
                .map(|route| {
                    (
                        *route,
                        setup.lab.examples(task as u16, *route, self.examples),
                    )
                })
                .collect();
            for (total, (_, seen)) in overall.iter_mut().zip(&seen) {
                total.add(seen);
            }
            per_task.push(seen);
        }
        let overall: Vec<(RouteId, Examples)> = routes.iter().copied().zip(overall).collect();
        for seen in &per_task {
            let (seen, what) = if seen.iter().any(|(_, seen)| seen.graded > 0) {
                (seen, "on this task's labelled examples")
            } else {
                (
                    &overall,
                    "over all tasks (this one has no labelled example)",
                )
            };
            let route = best(setup, seen);
            let of = seen
                .iter()
                .find(|(other, _)| *other == route)
                .map(|(_, seen)| *seen)
                .unwrap_or_default();
            let mean = of.score_sum as f64 / 1e6 / of.graded.max(1) as f64;
            let reason = format!("highest mean grade {what}: {mean:.4} of {}", of.graded);
            choices.push((Plan::single(route), reason));
        }
        Box::new(ByTask::new(choices))
    }

    fn routes(&self) -> Vec<RouteId> {
        Vec::new()
    }
}

/// The route with the highest mean grade; ties go to the cheaper one.
fn best(setup: &Setup<'_>, seen: &[(RouteId, Examples)]) -> RouteId {
    let mut best: Option<(RouteId, Examples)> = None;
    for route in cheapest_first(setup.catalogue, seen) {
        let Some((_, examples)) = seen.iter().find(|(other, _)| *other == route) else {
            continue;
        };
        let better = match best {
            None => examples.graded > 0,
            // Fractions are compared by cross-multiplication, so that ties are exact.
            Some((_, b)) => {
                u128::from(examples.score_sum) * u128::from(b.graded)
                    > u128::from(b.score_sum) * u128::from(examples.graded)
            }
        };
        if better && examples.graded > 0 {
            best = Some((route, *examples));
        }
    }
    best.map_or(RouteId(0), |(route, _)| route)
}
