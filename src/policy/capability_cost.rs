//! The cheapest route that fits and that is predicted to be right often enough.

use super::choice::{Plans, expected_cost, read_fallback};
use super::{Ask, Decision, Kind, Names, Policy, Setup, Spec, Why};
use crate::catalogue::{Catalogue, Fit};
use crate::router::RouteId;
use crate::source::{At, Diagnostic, Location, Table};

pub(super) const KIND: Kind = Kind {
    name: "capability-cost",
    about: "The cheapest route that fits the prompt, is fast enough, and whose predicted P(right) at the hinted \
            difficulty reaches a target. Needs skills per route and task and a difficulty hint. Fails when the skills \
            it believes in are out of date or the hint is noisy near the target.",
    example: "[capability-cost]\ntarget = 0.85\notherwise = \"large\"\nskill.small = { faq = 0.70 }\nskill.medium = { faq = 0.85 }\nskill.large = { faq = 0.95 }\n",
    read,
};

/// Answer length that is assumed for a task whose length the file does not give, in tokens.
const OUTPUT_TOKENS: f64 = 250.0;
/// Prompt length that is assumed when nobody said, in tokens.
const INPUT_TOKENS: f64 = 1_000.0;

/// Skill by task, as a file gives it.
type Skills = Vec<(At<String>, f64)>;

#[derive(Debug)]
struct CapabilityCostSpec {
    /// P(right) to reach.
    target: f64,
    /// Slope of the logistic curve: P(right) = sigmoid(slope · (skill − difficulty)).
    slope: f64,
    otherwise: RouteId,
    skills: Vec<(RouteId, Skills)>,
    output_tokens: Vec<(At<String>, f64)>,
    latency_p50_s: Vec<(RouteId, f64)>,
    latency_max_s: Option<f64>,
    usd_per_second: f64,
    fallback: Vec<RouteId>,
    location: Location,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let target = table.require("target").and_then(|value| {
        let target = value.probability()?.get();
        if target <= 0.0 || target >= 1.0 {
            value.error("a logistic curve reaches neither 0 nor 1; choose a target between");
            return None;
        }
        Some(target)
    });
    let slope = table
        .get("slope")
        .and_then(|value| value.positive())
        .unwrap_or(10.0);
    let otherwise = table
        .require("otherwise")
        .and_then(|value| names.route(&value));
    let mut skills = Vec::new();
    if let Some(mut inner) = table.require("skill").and_then(|value| value.table()) {
        for (name, value) in inner.entries() {
            let route = names.catalogue.find(&name.value);
            if route.is_none() {
                value.report_diagnostic(name.unknown("route", names.catalogue.names()));
            }
            let Some(mut tasks) = value.table() else {
                continue;
            };
            let tasks = tasks.entries();
            let tasks = tasks
                .into_iter()
                .filter_map(|(task, value)| Some((task, value.number()?)))
                .collect();
            if let Some(route) = route {
                skills.push((route, tasks));
            }
        }
    }
    let mut output_tokens = Vec::new();
    if let Some(mut inner) = table.get("output_tokens").and_then(|value| value.table()) {
        for (task, value) in inner.entries() {
            output_tokens.extend(value.number_in(0.0, 1e9).map(|tokens| (task, tokens)));
        }
    }
    let mut latency_p50_s = Vec::new();
    if let Some(mut inner) = table.get("latency_p50_s").and_then(|value| value.table()) {
        for (name, value) in inner.entries() {
            match names.catalogue.find(&name.value) {
                Some(route) => {
                    latency_p50_s.extend(value.positive().map(|seconds| (route, seconds)))
                }
                None => value.report_diagnostic(name.unknown("route", names.catalogue.names())),
            }
        }
    }
    let latency_max_s = table
        .get("latency_max_s")
        .and_then(|value| value.positive());
    let usd_per_second = table
        .get("usd_per_second")
        .and_then(|value| value.number_in(0.0, f64::MAX))
        .unwrap_or(0.0);
    if (latency_max_s.is_some() || usd_per_second > 0.0) && latency_p50_s.is_empty() {
        table.error("`latency_max_s` and `usd_per_second` need `latency_p50_s`: what is the policy to go by?");
    }
    let fallback = read_fallback(&mut table, names);
    let location = table.location();
    table.finish();
    Some(Box::new(CapabilityCostSpec {
        location,
        target: target?,
        slope,
        otherwise: otherwise?,
        skills,
        output_tokens,
        latency_p50_s,
        latency_max_s,
        usd_per_second,
        fallback,
    }))
}

impl Spec for CapabilityCostSpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let plans = Plans::new(setup.catalogue, &self.fallback);
        if !setup.difficulty_hints {
            setup.remark(
                Diagnostic::warning(
                    "no request of this workload has a difficulty hint, so all of them go to `otherwise`",
                )
                .at(self.location.clone()),
            );
        }
        let mut output_tokens = vec![OUTPUT_TOKENS; setup.tasks.len()];
        for (task, tokens) in &self.output_tokens {
            if let Some(index) = setup.task(task) {
                output_tokens[index as usize] = *tokens;
            }
        }
        // P(right) ≥ target where the hint is at most skill − logit(target) / slope.
        let margin = libm::log(self.target / (1.0 - self.target)) / self.slope;
        let mut candidates = vec![Vec::new(); setup.tasks.len()];
        for (route, skills) in &self.skills {
            let latency = self
                .latency_p50_s
                .iter()
                .find(|(other, _)| other == route)
                .map(|(_, s)| *s);
            // A route of unknown speed is not known to be fast enough.
            if self
                .latency_max_s
                .is_some_and(|max| latency.is_none_or(|latency| latency > max))
            {
                continue;
            }
            for (task, skill) in skills {
                if let Some(index) = setup.task(task) {
                    candidates[index as usize].push(Candidate {
                        route: *route,
                        hint_max: skill - margin,
                        fit: setup.catalogue.fit(*route),
                        waiting_cost: latency.unwrap_or(0.0) * self.usd_per_second * 1e12,
                        decision: Decision {
                            serve: plans.of(*route),
                            mirror: None,
                            why: Why(route.0),
                        },
                    });
                }
            }
        }
        let catalogue = setup.catalogue.clone();
        let by_task = candidates
            .into_iter()
            .zip(output_tokens)
            .map(|(candidates, output_tokens)| Task::new(candidates, output_tokens, &catalogue))
            .collect();
        let otherwise = Decision {
            serve: plans.of(self.otherwise),
            mirror: None,
            why: Why(u16::MAX),
        };
        Box::new(CapabilityCost {
            by_task,
            otherwise,
            otherwise_route: self.otherwise,
            target: self.target,
            catalogue,
        })
    }

    fn routes(&self) -> Vec<RouteId> {
        let mut routes: Vec<_> = self.skills.iter().map(|(route, _)| *route).collect();
        routes.push(self.otherwise);
        routes.extend(&self.fallback);
        routes
    }
}

#[derive(Clone, Debug)]
struct Candidate {
    route: RouteId,
    /// Largest difficulty hint at which the route is predicted to reach the target.
    hint_max: f64,
    /// What its median latency is worth, in 10⁻¹² USD.
    waiting_cost: f64,
    /// What the route can take.
    fit: Fit,
    decision: Decision,
}

/// The candidates for one task. If their order by cost is the same for every prompt length it is
/// fixed here, and the first that passes is the answer; otherwise costs are compared per request.
#[derive(Clone, Debug)]
struct Task {
    candidates: Vec<Candidate>,
    output_tokens: f64,
    ordered: bool,
}

impl Task {
    fn new(mut candidates: Vec<Candidate>, output_tokens: f64, catalogue: &Catalogue) -> Self {
        let at = |candidate: &Candidate, input: f64| {
            expected_cost(catalogue, candidate.route, input, output_tokens) + candidate.waiting_cost
        };
        candidates.sort_by(|a, b| at(a, INPUT_TOKENS).total_cmp(&at(b, INPUT_TOKENS)));
        // Costs are linear in the prompt's length: ordered at both ends is ordered everywhere.
        let ordered = [0.0, f64::from(u32::MAX)].iter().all(|input| {
            candidates
                .windows(2)
                .all(|two| at(&two[0], *input) <= at(&two[1], *input))
        });
        Self {
            candidates,
            output_tokens,
            ordered,
        }
    }
}

#[derive(Clone, Debug)]
struct CapabilityCost {
    by_task: Vec<Task>,
    otherwise: Decision,
    otherwise_route: RouteId,
    target: f64,
    catalogue: Catalogue,
}

impl Policy for CapabilityCost {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        let task = &self.by_task[ask.task as usize];
        // A NaN hint compares false with every bound: without a hint nothing can be predicted.
        let passes = |candidate: &&Candidate| {
            ask.difficulty_hint <= candidate.hint_max && candidate.fit.takes(&ask.need)
        };
        if task.ordered {
            return task
                .candidates
                .iter()
                .find(passes)
                .map_or(self.otherwise, |candidate| candidate.decision);
        }
        let input = ask.need.input_tokens.get().map_or(INPUT_TOKENS, f64::from);
        task.candidates
            .iter()
            .filter(passes)
            .map(|candidate| {
                let cost =
                    expected_cost(&self.catalogue, candidate.route, input, task.output_tokens);
                (cost + candidate.waiting_cost, candidate)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(self.otherwise, |(_, candidate)| candidate.decision)
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, ask: &Ask, why: Why) -> String {
        let name = |route: RouteId| &self.catalogue.routes[route.0 as usize].name;
        if why.0 == u16::MAX {
            return format!(
                "no cheaper route that fits is predicted to be right with probability {} at difficulty hint {:.3}; `otherwise` is `{}`",
                self.target,
                ask.difficulty_hint,
                name(self.otherwise_route)
            );
        }
        let bound = self.by_task[ask.task as usize]
            .candidates
            .iter()
            .find(|candidate| candidate.route.0 == why.0)
            .map_or(f64::NAN, |candidate| candidate.hint_max);
        format!(
            "`{}` is the cheapest that fits and reaches P(right) ≥ {} up to difficulty {:.3}; the hint is {:.3}",
            name(RouteId(why.0)),
            self.target,
            bound,
            ask.difficulty_hint
        )
    }
}
