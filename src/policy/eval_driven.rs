//! Measure every route on labelled examples of every task, then take the cheapest that is good enough.

use super::choice::{Plans, cheapest_first, read_fallback};
use super::ready::ByTask;
use super::{Bar, Examples, Kind, Names, Policy, Setup, Spec};
use crate::router::RouteId;
use crate::source::Table;
use crate::units::Score;

pub(super) const KIND: Kind = Kind {
    name: "eval-driven",
    about: "Per task, the cheapest route whose score on labelled examples reaches a bar. Needs an eval set per \
            task and route. Fails near the bar, where the examples' noise picks the route, and when the eval set is \
            not like the traffic.",
    example: "[eval-driven]\ntarget = 0.88\nexamples = 300\notherwise = \"large\"\n",
    read,
};

/// Most labelled examples per task and route.
const EXAMPLES_MAX: u64 = 10_000_000;

#[derive(Debug)]
struct EvalDrivenSpec(Bar);

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let target = table
        .require("target")
        .and_then(|value| value.probability());
    let examples = table
        .get("examples")
        .and_then(|value| value.integer_in(1, EXAMPLES_MAX))
        .unwrap_or(300);
    let otherwise = table
        .require("otherwise")
        .and_then(|value| names.route(&value));
    let routes = table.get("routes").and_then(|value| names.routes(&value));
    let mut picks = Vec::new();
    if let Some(mut inner) = table.get("picks").and_then(|value| value.table()) {
        for (task, value) in inner.entries() {
            picks.extend(names.route(&value).map(|route| (task, route)));
        }
    }
    let fallback = read_fallback(&mut table, names);
    table.finish();
    Some(Box::new(EvalDrivenSpec(Bar {
        target: Score::from_fraction(target?.get())?,
        examples,
        otherwise: otherwise?,
        routes,
        picks,
        fallback,
    })))
}

impl Spec for EvalDrivenSpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn trains(&self, tasks: &[String]) -> bool {
        // Pinned tasks need no examples.
        let pinned = |task: &String| self.0.picks.iter().any(|(pin, _)| pin.value == *task);
        !tasks.iter().all(pinned)
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let plans = Plans::new(setup.catalogue, &self.0.fallback);
        let mut pinned = vec![None; setup.tasks.len()];
        for (task, route) in &self.0.picks {
            if let Some(index) = setup.task(task) {
                pinned[index as usize] = Some((*route, task.location.short()));
            }
        }
        let target = u64::from(self.0.target.millionths().unwrap_or(u32::MAX));
        let choices = pinned.into_iter().enumerate().map(|(task, pin)| {
            let (route, reason) = match pin {
                Some((route, place)) => (route, format!("pinned by `picks` ({place})")),
                None => self.pick(setup, task as u16, target),
            };
            (plans.of(route), reason)
        });
        Box::new(ByTask::new(choices.collect()))
    }

    fn routes(&self) -> Vec<RouteId> {
        let mut routes = self.0.routes.clone().unwrap_or_default();
        routes.push(self.0.otherwise);
        routes.extend(self.0.picks.iter().map(|(_, route)| *route));
        routes.extend(&self.0.fallback);
        routes
    }

    fn bar(&self) -> Option<Bar> {
        Some(self.0.clone())
    }
}

impl EvalDrivenSpec {
    fn pick(&self, setup: &Setup<'_>, task: u16, target: u64) -> (RouteId, String) {
        let candidates: Vec<(RouteId, Examples)> = (0..setup.catalogue.routes.len())
            .map(|index| RouteId(index as u16))
            .filter(|route| {
                self.0
                    .routes
                    .as_ref()
                    .is_none_or(|routes| routes.contains(route))
            })
            .map(|route| (route, setup.lab.examples(task, route, self.0.examples)))
            .collect();
        for route in cheapest_first(setup.catalogue, &candidates) {
            let Some((_, seen)) = candidates.iter().find(|(other, _)| *other == route) else {
                continue;
            };
            if seen.reach(target) {
                let score = seen.score_sum as f64 / 1e6 / seen.graded as f64;
                let reason = format!(
                    "the cheapest route that reached {} on this task's labelled examples: {score:.4} of {}",
                    target as f64 / 1e6,
                    seen.graded
                );
                return (route, reason);
            }
        }
        let most = candidates
            .iter()
            .map(|(_, seen)| seen.graded)
            .max()
            .unwrap_or(0);
        let reason = if most == 0 {
            "`otherwise`: there are no labelled examples of this task".to_owned()
        } else {
            format!(
                "`otherwise`: no route reached {} on up to {most} labelled examples",
                target as f64 / 1e6
            )
        };
        (self.0.otherwise, reason)
    }
}
