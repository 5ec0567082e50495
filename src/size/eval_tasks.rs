//! Where the rates come from that an eval set measures: a synthetic world, or recorded rows.

use super::expected::terms;
use crate::catalogue::Catalogue;
use crate::policy::{Bar, Examples, cheapest_first};
use crate::router::RouteId;
use crate::source::{Diagnostic, nearest};
use crate::units::{Score, Tokens};
use crate::workload::{BATCH, Batch, Domain, DrawKey, Expected, Terms, Workload};

/// What labelled examples are to be taken of.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalSubject {
    /// The workload's name.
    pub workload: String,
    /// Requests behind the rates, if they were recorded; `None` for a population.
    pub requests: Option<u64>,
    /// The tasks, in the workload's order.
    pub tasks: Vec<EvalTask>,
    /// What the numbers leave out.
    pub remarks: Vec<String>,
}

impl EvalSubject {
    /// What kind of evidence the rates are: `simulated` or `recorded`.
    #[must_use]
    pub fn evidence(&self) -> &'static str {
        if self.requests.is_some() {
            "recorded"
        } else {
            "simulated"
        }
    }
}

/// One task whose route labelled examples pick.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalTask {
    /// The task's name.
    pub name: String,
    /// Its share of the requests.
    pub share: f64,
    /// Every route that the task may get: the candidates from cheap to dear, then `otherwise` if it is
    /// none of them.
    pub routes: Vec<EvalRoute>,
    /// How many of `routes` are candidates. None if the policy pins the task to a route.
    pub candidates: usize,
    /// Index of the route that gets the task when no candidate reaches the bar.
    pub otherwise: usize,
}

/// One route on one task.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalRoute {
    /// The route's name.
    pub name: String,
    /// P(a labelled example is right); `None` for a route that is no candidate or has no grade.
    pub rate: Option<f64>,
    /// Grades behind the rate, if it was recorded: it is an estimate then.
    pub graded: Option<u64>,
    /// Whether the rate reaches the bar.
    pub reaches: bool,
    /// The task's requests if they all come here, fallbacks included.
    pub expected: Expected,
}

impl EvalTask {
    /// The index of the route that somebody picks who knows the rates: the cheapest that reaches the bar.
    #[must_use]
    pub fn oracle(&self) -> usize {
        let candidates = self.routes.iter().take(self.candidates);
        candidates
            .enumerate()
            .find(|(_, route)| route.reaches)
            .map_or(self.otherwise, |(at, _)| at)
    }
}

/// What is known about a route on a task, whether it was integrated or counted.
struct Measured {
    /// Right answers among labelled examples, as a rate, and their number if they were counted.
    rate: Option<(f64, Option<u64>)>,
    reaches: bool,
    /// For the order by cost.
    cost: Examples,
}

/// The tasks of `workload` as the policy with this `bar` meets them.
///
/// A synthetic world is integrated: the rates are exact. Recorded rows are counted, all that are judged:
/// the rates are estimates. In both, a labelled example is an answer whatever the prompt's length, and a
/// request that does not fit a route's window goes to the fallbacks, if there are any.
///
/// # Errors
///
/// Recorded grades between right and wrong; a task without a route to fall back on in the data; a world
/// that cannot be integrated; a pin on a task that does not occur is not an error.
pub fn eval_subject(
    workload: &Workload,
    catalogue: &Catalogue,
    bar: &Bar,
) -> Result<EvalSubject, Box<Diagnostic>> {
    let column = |route: RouteId| {
        let name = &catalogue.routes[usize::from(route.0)].name;
        workload.routes.iter().position(|known| known == name)
    };
    let needed = bar.picks.iter().map(|(_, route)| *route);
    for route in needed.chain([bar.otherwise]) {
        if column(route).is_none() {
            return Err(Box::new(unknown_route(workload, catalogue, route)));
        }
    }
    let candidates: Vec<RouteId> = (0..catalogue.routes.len())
        .map(|index| RouteId(index as u16))
        .filter(|route| bar.routes.as_ref().is_none_or(|some| some.contains(route)))
        .filter(|route| column(*route).is_some())
        .collect();
    // Who answers in turn, for every route that a task may go to, by index of the catalogue.
    let chains: Vec<Vec<usize>> = (0..catalogue.routes.len())
        .map(|index| RouteId(index as u16))
        .map(|route| {
            let rest = bar.fallback.iter().filter(|other| **other != route);
            let order = [route];
            let order = order.iter().chain(rest);
            order.filter_map(|route| column(*route)).collect()
        })
        .collect();
    let source = Source::new(workload, catalogue, &chains, bar.target)?;
    let mut tasks = Vec::with_capacity(workload.tasks.len());
    for (index, name) in workload.tasks.iter().enumerate() {
        let pin = bar.picks.iter().find(|(task, _)| task.value == *name);
        let mut measured: Vec<(RouteId, Measured)> = Vec::new();
        if pin.is_none() {
            for route in &candidates {
                if let Some(column) = column(*route) {
                    measured.push((*route, source.measure(index, column)));
                }
            }
        }
        let costs: Vec<(RouteId, Examples)> = measured
            .iter()
            .map(|(route, measured)| (*route, measured.cost))
            .collect();
        let mut routes = Vec::with_capacity(measured.len() + 1);
        for route in cheapest_first(catalogue, &costs) {
            let Some((_, measured)) = measured.iter().find(|(known, _)| *known == route) else {
                continue;
            };
            routes.push((
                route,
                EvalRoute {
                    name: catalogue.routes[usize::from(route.0)].name.clone(),
                    rate: measured.rate.map(|(rate, _)| rate),
                    graded: measured.rate.and_then(|(_, graded)| graded),
                    reaches: measured.reaches,
                    expected: source.expect(index, &chains, route),
                },
            ));
        }
        let candidates = routes.len();
        let last = pin.map_or(bar.otherwise, |(_, route)| *route);
        let otherwise = routes.iter().position(|(route, _)| *route == last);
        let otherwise = otherwise.unwrap_or_else(|| {
            routes.push((
                last,
                EvalRoute {
                    name: catalogue.routes[usize::from(last.0)].name.clone(),
                    rate: None,
                    graded: None,
                    reaches: false,
                    expected: source.expect(index, &chains, last),
                },
            ));
            routes.len() - 1
        });
        tasks.push(EvalTask {
            name: name.clone(),
            share: source.share(index),
            routes: routes.into_iter().map(|(_, route)| route).collect(),
            candidates,
            otherwise,
        });
    }
    Ok(EvalSubject {
        workload: workload.name.clone(),
        requests: workload.is_recorded().then(|| workload.len()),
        tasks,
        remarks: source.remarks(workload),
    })
}

fn unknown_route(workload: &Workload, catalogue: &Catalogue, route: RouteId) -> Diagnostic {
    let name = &catalogue.routes[usize::from(route.0)].name;
    let error = Diagnostic::error(format!(
        "workload `{}` knows nothing about route `{name}`, to which tasks may go",
        workload.name
    ));
    match nearest(name, workload.routes.iter().map(String::as_str)) {
        Some(near) => error.help(format!("it knows `{near}`")),
        None => error,
    }
}

/// The numbers behind the tasks.
enum Source {
    Population {
        population: crate::workload::Population,
        target: f64,
    },
    Rows(Box<Rows>),
}

impl Source {
    fn new(
        workload: &Workload,
        catalogue: &Catalogue,
        chains: &[Vec<usize>],
        target: Score,
    ) -> Result<Self, Box<Diagnostic>> {
        let millionths = target.millionths().unwrap_or(u32::MAX);
        let terms = terms(workload, catalogue);
        if !workload.is_recorded() {
            return Ok(Self::Population {
                population: workload.population(&terms)?,
                target: f64::from(millionths) / 1e6,
            });
        }
        if !workload.has_binary_grades() {
            let refused = Diagnostic::error(format!(
                "workload `{}` has grades between right and wrong, whose means are not binomial",
                workload.name
            ));
            return Err(Box::new(refused.help(
                "round the grades to 0 and 1 first: only you know from which grade on an answer is good enough",
            )));
        }
        let rows = Rows::read(workload, &terms, chains, millionths);
        Ok(Self::Rows(Box::new(rows)))
    }

    fn remarks(&self, workload: &Workload) -> Vec<String> {
        match self {
            Self::Population { population, .. } => population.notes.clone(),
            Self::Rows(_) if workload.tenants.is_empty() && workload.data_classes.is_empty() => {
                Vec::new()
            }
            Self::Rows(_) => vec![
                "data classes and tenants' residency are left out: requests that a route may not take for them count as taken"
                    .to_owned(),
            ],
        }
    }

    fn share(&self, task: usize) -> f64 {
        match self {
            Self::Population { population, .. } => population.tasks[task].share,
            Self::Rows(rows) => rows.share(task),
        }
    }

    fn measure(&self, task: usize, route: usize) -> Measured {
        match self {
            Self::Population { population, target } => {
                let task = &population.tasks[task];
                let rate = task.routes[route].right;
                // Means as sums over so many examples that rounding does not show.
                let many = 1_u64 << 32;
                let sum = |mean: f64| (mean * many as f64).round() as u64;
                Measured {
                    rate: Some((rate, None)),
                    reaches: rate >= *target,
                    cost: Examples {
                        graded: many,
                        tokens_known: many,
                        input_tokens_sum: sum(task.input_tokens),
                        output_tokens_sum: sum(task.output_tokens),
                        ..Examples::default()
                    },
                }
            }
            Self::Rows(rows) => rows.measure(task, route),
        }
    }

    fn expect(&self, task: usize, chains: &[Vec<usize>], route: RouteId) -> Expected {
        let route = usize::from(route.0);
        match self {
            Self::Population { population, .. } => {
                population.tasks[task].first_that_fits(&chains[route])
            }
            Self::Rows(rows) => rows.tasks[task].served[route].expected(),
        }
    }
}

/// The judged rows of a recorded workload, counted.
struct Rows {
    tasks: Vec<RowsOfTask>,
    target: u64,
}

/// Sums over one task's rows.
struct RowsOfTask {
    requests: u64,
    /// By route of the workload.
    seen: Vec<Examples>,
    /// By chain.
    served: Vec<Served>,
}

/// What became of requests that were sent down one chain.
#[derive(Clone, Copy, Default)]
struct Served {
    requests: u64,
    calls: u64,
    graded: u64,
    right: u64,
    costed: u64,
    /// In 10⁻¹² USD.
    usd: u128,
}

impl Served {
    /// Accuracy over the rows whose grade is known, cost over those whose cost is known; without such
    /// rows they are unknown.
    fn expected(&self) -> Expected {
        Expected {
            accuracy: if self.graded > 0 {
                self.right as f64 / self.graded as f64
            } else {
                f64::NAN
            },
            usd_per_1k: (self.costed > 0).then(|| self.usd as f64 * 1e-9 / self.costed as f64),
            calls: self.calls as f64 / self.requests.max(1) as f64,
        }
    }
}

impl Rows {
    fn read(workload: &Workload, terms: &[Terms], chains: &[Vec<usize>], target: u32) -> Self {
        let mut tasks: Vec<RowsOfTask> = workload
            .tasks
            .iter()
            .map(|_| RowsOfTask {
                requests: 0,
                seen: vec![Examples::default(); terms.len()],
                served: vec![Served::default(); chains.len()],
            })
            .collect();
        // Rows are read, not drawn: the key says nothing.
        let key = DrawKey {
            seed: 0,
            domain: Domain::Traffic,
            replicate: 0,
        };
        let mut batch = Batch::default();
        let mut first = 0;
        while first < workload.len() {
            workload.fill(key, first, BATCH, &mut batch);
            for i in 0..batch.len {
                tasks[usize::from(batch.task[i])].add(&batch, i, terms, chains);
            }
            first += batch.len.max(1) as u64;
        }
        Self {
            tasks,
            target: u64::from(target),
        }
    }

    fn share(&self, task: usize) -> f64 {
        let total: u64 = self.tasks.iter().map(|task| task.requests).sum();
        self.tasks[task].requests as f64 / total.max(1) as f64
    }

    fn measure(&self, task: usize, route: usize) -> Measured {
        let seen = self.tasks[task].seen[route];
        let rate = seen.score_sum as f64 / 1e6 / seen.graded as f64;
        Measured {
            rate: (seen.graded > 0).then_some((rate, Some(seen.graded))),
            reaches: seen.reach(self.target),
            cost: seen,
        }
    }
}

impl RowsOfTask {
    /// Row `i` of the batch.
    fn add(&mut self, batch: &Batch, i: usize, terms: &[Terms], chains: &[Vec<usize>]) {
        self.requests += 1;
        let recorded = |route: usize| batch.cost.get(route).and_then(|column| column[i]);
        for (route, seen) in self.seen.iter_mut().enumerate() {
            let Some(grade) = batch.grade[route][i].millionths() else {
                continue;
            };
            seen.graded += 1;
            seen.score_sum += u64::from(grade);
            let tokens = batch.input_tokens[i]
                .get()
                .zip(batch.output(route, i).get());
            if let Some((input, output)) = tokens {
                seen.tokens_known += 1;
                seen.input_tokens_sum += u64::from(input);
                seen.output_tokens_sum += u64::from(output);
            }
            if let Some(usd) = recorded(route) {
                seen.costs_known += 1;
                seen.cost_sum += u128::from(usd.0);
            }
        }
        for (served, chain) in self.served.iter_mut().zip(chains) {
            served.requests += 1;
            let fits =
                |route: &&usize| fits(&terms[**route], batch.input_tokens[i], batch.output_cap[i]);
            let Some(&route) = chain.iter().find(fits) else {
                // Nobody answers: wrong, and free.
                served.graded += 1;
                served.costed += 1;
                continue;
            };
            served.calls += 1;
            if let Some(grade) = batch.grade[route][i].millionths() {
                served.graded += 1;
                served.right += u64::from(grade > 0);
            }
            let priced = || {
                let (input, output) = (batch.input_tokens[i], batch.output(route, i));
                Some(terms[route].price?.of(input.get()?, output.get()?))
            };
            if let Some(usd) = recorded(route).or_else(priced) {
                served.costed += 1;
                served.usd += u128::from(usd.0);
            }
        }
    }
}

/// Whether a prompt fits a window, as the router's filter decides it.
fn fits(terms: &Terms, input: Tokens, cap: Tokens) -> bool {
    match (input.get(), terms.context_tokens.get()) {
        (Some(input), Some(window)) => {
            u64::from(input) + u64::from(cap.get().unwrap_or(0)) <= u64::from(window)
        }
        _ => true,
    }
}
