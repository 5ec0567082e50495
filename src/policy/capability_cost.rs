//! The cheapest route that fits and that is predicted to be right often enough.

use super::choice::{Menu, Plans, expected_cost, read_fallback};
use super::{Ask, Asks, Decision, Kind, Names, Policy, Setup, Spec, Why};
use crate::catalogue::{Catalogue, Fit};
use crate::router::{Need, Plan, RouteId, Router};
use crate::source::{At, Diagnostic, Location, Table, describe_list};
use crate::units::Tokens;

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

/// The reason when no candidate will do: above the number of every route.
const NOBODY: Why = Why(u16::MAX as u32);

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
    // Without its latency a route would wait for free, and unknown is not zero.
    let unknown: Vec<&str> = skills
        .iter()
        .map(|(route, _)| *route)
        .filter(|route| !latency_p50_s.iter().any(|(known, _)| known == route))
        .map(|route| names.catalogue.routes[usize::from(route.0)].name.as_str())
        .collect();
    if usd_per_second > 0.0 && !latency_p50_s.is_empty() && !unknown.is_empty() {
        table.error(format!(
            "`usd_per_second` needs the `latency_p50_s` of every route with a skill; {} {} none",
            describe_list(unknown.iter().copied()),
            if unknown.len() == 1 { "has" } else { "have" },
        ));
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
                            why: Why(u32::from(route.0)),
                        },
                        on_menu: 0,
                    });
                }
            }
        }
        let catalogue = setup.catalogue.clone();
        let mut by_task: Vec<Task> = candidates
            .into_iter()
            .zip(output_tokens)
            .map(|(candidates, output_tokens)| Task::new(candidates, output_tokens, &catalogue))
            .collect();
        let otherwise = Decision {
            serve: plans.of(self.otherwise),
            mirror: None,
            why: NOBODY,
        };
        let mut menu = Menu::default();
        let otherwise_on_menu = menu.add(&otherwise);
        for candidate in by_task.iter_mut().flat_map(|task| &mut task.candidates) {
            candidate.on_menu = menu.add(&candidate.decision);
        }
        Box::new(CapabilityCost {
            ladder: Ladder::new(&by_task),
            by_task,
            menu,
            otherwise_on_menu,
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
    /// Which plan of the menu that is.
    on_menu: u8,
}

/// The candidates for one task. If their order by cost is the same for every prompt length it is
/// fixed here, and the first that passes is the answer; otherwise costs are compared per request.
#[derive(Clone, Debug)]
struct Task {
    candidates: Vec<Candidate>,
    output_tokens: f64,
    ordered: bool,
}

/// The candidates of all tasks in one table, if those of every task have a fixed order: the same number
/// of rungs for each task, so that a request's are found without a branch.
#[derive(Clone, Debug)]
struct Ladder {
    /// Rungs per task.
    height: usize,
    /// By task, then from the cheapest up.
    rungs: Vec<Rung>,
    /// What the candidates can take; each thing once.
    fits: Vec<Fit>,
}

/// What is left of a candidate's conditions where neither tools nor residency rule anybody out.
#[derive(Clone, Copy, Debug)]
struct Rung {
    hint_max: f64,
    tokens_max: u32,
    on_menu: u8,
}

impl Ladder {
    /// A rung that holds nobody, for tasks with fewer candidates than others.
    const MISSING: Rung = Rung {
        hint_max: f64::NAN,
        tokens_max: 0,
        on_menu: 0,
    };

    fn new(by_task: &[Task]) -> Option<Self> {
        if !by_task.iter().all(|task| task.ordered) {
            return None;
        }
        let height = by_task.iter().map(|task| task.candidates.len()).max()?;
        let mut rungs = vec![Self::MISSING; height * by_task.len()];
        for (task, rungs) in by_task.iter().zip(rungs.chunks_mut(height.max(1))) {
            for (candidate, rung) in task.candidates.iter().zip(rungs) {
                *rung = Rung {
                    hint_max: candidate.hint_max,
                    tokens_max: candidate.fit.window_max(),
                    on_menu: candidate.on_menu,
                };
            }
        }
        let mut fits = Vec::new();
        for candidate in by_task.iter().flat_map(|task| &task.candidates) {
            if !fits.contains(&candidate.fit) {
                fits.push(candidate.fit);
            }
        }
        Some(Self {
            height,
            rungs,
            fits,
        })
    }

    /// Whether nothing but hint and prompt length tells requests apart.
    fn suits(&self, asks: &Asks<'_>) -> bool {
        if asks.is_empty() || asks.requirement.len() > 1 || asks.tools.contains(&true) {
            return false;
        }
        // What any of them needs beside room.
        let need = Need {
            input_tokens: Tokens::UNKNOWN,
            ..asks.need(0)
        };
        self.fits.iter().all(|fit| fit.takes(&need))
    }

    fn pick_all(&self, asks: &Asks<'_>, otherwise: u8, picks: &mut [u8]) {
        let tokens = asks.input_tokens.iter().zip(asks.output_cap);
        let columns = asks.task.iter().zip(asks.difficulty_hint).zip(tokens);
        for (pick, ((task, hint), (input, cap))) in picks.iter_mut().zip(columns) {
            let tokens = Router::tokens(*input, *cap);
            let first = usize::from(*task) * self.height;
            let mut found = otherwise;
            // The cheapest comes last, so that it has the last word.
            for rung in self.rungs[first..first + self.height].iter().rev() {
                let holds = (*hint <= rung.hint_max) & (tokens <= rung.tokens_max);
                found = std::hint::select_unpredictable(holds, rung.on_menu, found);
            }
            *pick = found;
        }
    }
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
    ladder: Option<Ladder>,
    /// Of `otherwise` and all candidates.
    menu: Menu,
    otherwise_on_menu: u8,
    otherwise: Decision,
    otherwise_route: RouteId,
    target: f64,
    catalogue: Catalogue,
}

impl CapabilityCost {
    #[inline]
    fn candidate(&self, ask: &Ask) -> Option<&Candidate> {
        let task = &self.by_task[ask.task as usize];
        // A NaN hint compares false with every bound: without a hint nothing can be predicted.
        let passes = |candidate: &&Candidate| {
            ask.difficulty_hint <= candidate.hint_max && candidate.fit.takes(&ask.need)
        };
        if task.ordered {
            return task.candidates.iter().find(passes);
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
            .map(|(_, candidate)| candidate)
    }
}

impl Policy for CapabilityCost {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        self.candidate(ask)
            .map_or(self.otherwise, |candidate| candidate.decision)
    }

    fn menu(&self) -> &[Plan] {
        self.menu.plans()
    }

    fn pick_all(&self, asks: &Asks<'_>, picks: &mut [u8]) {
        if let Some(ladder) = self.ladder.as_ref().filter(|ladder| ladder.suits(asks)) {
            ladder.pick_all(asks, self.otherwise_on_menu, picks);
            return;
        }
        for (i, pick) in picks.iter_mut().enumerate() {
            let candidate = self.candidate(&asks.get(i));
            *pick = candidate.map_or(self.otherwise_on_menu, |candidate| candidate.on_menu);
        }
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, ask: &Ask, why: Why) -> String {
        let name = |route: RouteId| &self.catalogue.routes[route.0 as usize].name;
        if why == NOBODY {
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
            .find(|candidate| u32::from(candidate.route.0) == why.0)
            .map_or(f64::NAN, |candidate| candidate.hint_max);
        format!(
            "`{}` is the cheapest that fits and reaches P(right) ≥ {} up to difficulty {:.3}; the hint is {:.3}",
            name(RouteId(why.0 as u16)),
            self.target,
            bound,
            ask.difficulty_hint
        )
    }
}
