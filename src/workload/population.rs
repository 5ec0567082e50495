//! What a synthetic world comes to in expectation, by integration instead of by drawing.
//!
//! A [`Population`] is the world its file declares: infinitely many requests, no seed. A run on the same
//! world differs from it by chance alone, and the tests hold the two against each other. What this is
//! not: an expectation of recorded rows, or of a policy that looks at more than the task.
//!
//! A request that does not fit a route's window is not answered by it: it counts as wrong and costs
//! nothing. Left out, and said in [`Population::notes`]: tools, data classes and tenants' residency,
//! which can keep a request from a route; the router's retries and budgets.

use super::Workload;
use super::law::{DifficultyLaw, TokenLaw};
use super::synthetic::Synthetic;
use crate::source::Diagnostic;
use crate::stats::{Copula, Joint};
use crate::units::{Price, Tokens};

/// Most (difficulty, language) points over all tasks, times routes: a quarter of a gigabyte.
const POINTS_MAX: usize = 30_000_000;

/// What the population needs to know about a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Tokens of prompt and output cap together; unknown passes every prompt.
    pub context_tokens: Tokens,
    /// What it charges; costs that need an unknown price are unknown.
    pub price: Option<Price>,
}

impl Terms {
    /// Nothing is known: no window, no price.
    pub const UNKNOWN: Self = Self {
        context_tokens: Tokens::UNKNOWN,
        price: None,
    };
}

/// What the file says, kept beside the compiled world.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declared {
    pub(crate) tasks: Vec<DeclaredTask>,
    /// How often each language occurs over all tenants; requests without a language last.
    pub(crate) languages: Vec<f64>,
}

/// What the file says about a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeclaredTask {
    pub(crate) share: f64,
    pub(crate) difficulty: DifficultyLaw,
    pub(crate) input: TokenLaw,
    pub(crate) output: TokenLaw,
}

/// Accuracy, cost and calls of a policy in expectation.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Expected {
    /// P(the request is answered and the answer is right). NaN where it is not known: recorded requests
    /// none of which has a grade; JSON has `null` for it.
    pub accuracy: f64,
    /// Expected cost of 1,000 requests in USD; `None` if a price is unknown.
    pub usd_per_1k: Option<f64>,
    /// Expected calls of a request.
    pub calls: f64,
}

impl Expected {
    /// No request: where sums start.
    pub const NOTHING: Self = Self {
        accuracy: 0.0,
        usd_per_1k: Some(0.0),
        calls: 0.0,
    };

    /// Adds `weight` times `other`. What is unknown of `other`, its accuracy (NaN) or its cost, makes the
    /// sum unknown, unless it has no weight.
    pub fn add(&mut self, weight: f64, other: &Self) {
        self.calls += weight * other.calls;
        // A route that nobody asks needs neither grades nor a price.
        if weight > 0.0 {
            self.accuracy += weight * other.accuracy;
            self.usd_per_1k = self
                .usd_per_1k
                .zip(other.usd_per_1k)
                .map(|(sum, usd)| sum + weight * usd);
        }
    }
}

/// One route on one task.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct RoutePopulation {
    /// P(right | the request fits), over difficulties and languages: the route's skill. Length and
    /// difficulty are independent, so it holds for short and long requests alike.
    pub right: f64,
    /// P(the request fits the route's window).
    pub fits: f64,
    /// Expected cost of a request in USD, where those that do not fit cost nothing; `None` without a price.
    pub usd: Option<f64>,
}

impl RoutePopulation {
    /// P(right), where a request that does not fit is wrong.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.right * self.fits
    }

    /// A policy that sends every request of the task here.
    #[must_use]
    pub fn expected(&self) -> Expected {
        Expected {
            accuracy: self.accuracy(),
            usd_per_1k: self.usd.map(|usd| usd * 1e3),
            calls: self.fits,
        }
    }
}

/// Requests whose length fits the same routes.
#[derive(Clone, Debug, PartialEq)]
struct Band {
    share: f64,
    /// Mean prompt tokens of the band's requests, times its share.
    input_tokens: f64,
    fits: Vec<bool>,
}

/// One task in expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPopulation {
    /// The task's name.
    pub name: String,
    /// Its share of the requests.
    pub share: f64,
    /// Its routes, by index of [`Workload::routes`].
    pub routes: Vec<RoutePopulation>,
    /// Mean prompt tokens of its requests, those that fit no route among them.
    pub input_tokens: f64,
    /// Mean tokens of an answer, cut off at the cap.
    pub output_tokens: f64,
    /// Weights of (difficulty, language) points; they add up to one.
    weights: Vec<f64>,
    /// P(right) at each point, route beside route.
    right: Vec<f64>,
    bands: Vec<Band>,
    prices: Vec<Option<Price>>,
}

/// Shares of a task's requests by which of two routes they fit.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    both: f64,
    candidate_alone: f64,
    primary_alone: f64,
    neither: f64,
}

/// A cascade over routes of the world, with a verifier that knows nothing but its two rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cascade<'a> {
    /// Routes in the order they are asked, by index of [`Workload::routes`]. Those that the request does
    /// not fit are passed over; the answer of the last one that fits is final.
    pub order: &'a [usize],
    /// P(the verifier accepts a right answer).
    pub accept_if_correct: f64,
    /// P(the verifier accepts a wrong answer).
    pub accept_if_wrong: f64,
}

/// A synthetic world in expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// Tasks, by index of [`Workload::tasks`].
    pub tasks: Vec<TaskPopulation>,
    /// What ties the routes' errors together: [`Copula::Frechet`] is how the world is drawn.
    pub copula: Copula,
    /// The copula's parameter, as the world declares it.
    pub correlation: f64,
    /// What is left out for this world.
    pub notes: Vec<String>,
}

impl Population {
    /// A policy that sends each task's requests to routes by chance: `pick(task, route)` is the
    /// probability, and what it leaves to one is not served.
    #[must_use]
    pub fn routed(&self, pick: impl Fn(usize, usize) -> f64) -> Expected {
        let mut total = Expected::NOTHING;
        for (t, task) in self.tasks.iter().enumerate() {
            for (r, route) in task.routes.iter().enumerate() {
                total.add(task.share * pick(t, r), &route.expected());
            }
        }
        total
    }

    /// A policy that sends every request to one route.
    #[must_use]
    pub fn always(&self, route: usize) -> Expected {
        self.routed(|_, at| f64::from(u8::from(at == route)))
    }

    /// A policy that sends each task to a route of its own; a task beyond the list is not served.
    #[must_use]
    pub fn by_task(&self, routes: &[usize]) -> Expected {
        self.routed(|task, at| f64::from(u8::from(routes.get(task) == Some(&at))))
    }

    /// The 2×2 table of `candidate` and `primary` over the requests of `task` that fit both, or over all
    /// tasks by their shares of these: what a shadow run sees, because a request that does not fit the
    /// candidate is not mirrored. `None` if a name is out of range or nothing fits both.
    #[must_use]
    pub fn joint(&self, task: Option<usize>, candidate: usize, primary: usize) -> Option<Joint> {
        self.mean(task, |task| {
            let (cells, fit) = self.pair(task, candidate, primary)?;
            Some((cells, fit.both))
        })
    }

    /// The same over all requests, where one that does not fit counts as wrong: what promoting the
    /// candidate would change for the traffic.
    #[must_use]
    pub fn joint_of_all(
        &self,
        task: Option<usize>,
        candidate: usize,
        primary: usize,
    ) -> Option<Joint> {
        self.mean(task, |task| {
            let ([p11, p10, p01, p00], fit) = self.pair(task, candidate, primary)?;
            let (p, q) = (task.routes[candidate].right, task.routes[primary].right);
            let cells = [
                fit.both * p11,
                fit.both * p10 + fit.candidate_alone * p,
                fit.both * p01 + fit.primary_alone * q,
                fit.both * p00
                    + fit.candidate_alone * (1.0 - p)
                    + fit.primary_alone * (1.0 - q)
                    + fit.neither,
            ];
            Some((cells, 1.0))
        })
    }

    /// Share of all requests that are of `task` (of any, if `None`) and fit both routes: those that a
    /// shadow run can pair. `None` if a name is out of range.
    #[must_use]
    pub fn fitting(&self, task: Option<usize>, candidate: usize, primary: usize) -> Option<f64> {
        let tasks = match task {
            Some(at) => self.tasks.get(at..=at)?,
            None => &self.tasks,
        };
        if candidate.max(primary) >= tasks.first()?.routes.len() {
            return None;
        }
        let both = |task: &TaskPopulation| -> f64 {
            let bands = task.bands.iter();
            let fits = bands.filter(|band| band.fits[candidate] && band.fits[primary]);
            fits.map(|band| band.share).sum()
        };
        Some(tasks.iter().map(|task| task.share * both(task)).sum())
    }

    /// The mean over one task or all of them of cells with weights, which their shares multiply.
    fn mean(
        &self,
        task: Option<usize>,
        of: impl Fn(&TaskPopulation) -> Option<([f64; 4], f64)>,
    ) -> Option<Joint> {
        let tasks = match task {
            Some(at) => self.tasks.get(at..=at)?,
            None => &self.tasks,
        };
        let (mut sums, mut total) = ([0.0; 4], 0.0);
        for task in tasks {
            let (cells, weight) = of(task)?;
            let weight = weight * if tasks.len() == 1 { 1.0 } else { task.share };
            for (sum, cell) in sums.iter_mut().zip(cells) {
                *sum += weight * cell;
            }
            total += weight;
        }
        let [p11, p10, p01, p00] = sums.map(|sum| sum / total);
        Joint::new(p11, p10, p01, p00)
    }

    /// The cells of the requests that fit both, and how many fit whom.
    fn pair(
        &self,
        task: &TaskPopulation,
        candidate: usize,
        primary: usize,
    ) -> Option<([f64; 4], Fit)> {
        if candidate.max(primary) >= task.routes.len() {
            return None;
        }
        // A route's answer is right exactly when it is right.
        let rho = if candidate == primary {
            1.0
        } else {
            self.correlation
        };
        let mut cells = [0.0; 4];
        for (weight, right) in task.points() {
            let joint = self.copula.joint(right[candidate], right[primary], rho)?;
            let here = [joint.p11(), joint.p10(), joint.p01(), joint.p00()];
            for (cell, p) in cells.iter_mut().zip(here) {
                *cell += weight * p;
            }
        }
        let mut fit = Fit::default();
        for band in &task.bands {
            *match (band.fits[candidate], band.fits[primary]) {
                (true, true) => &mut fit.both,
                (true, false) => &mut fit.candidate_alone,
                (false, true) => &mut fit.primary_alone,
                (false, false) => &mut fit.neither,
            } += band.share;
        }
        Some((cells, fit))
    }

    /// A cascade. `None` if a route is out of range, or a rate is no probability.
    #[must_use]
    pub fn cascade(&self, cascade: &Cascade<'_>) -> Option<Expected> {
        let unit = |value: f64| (0.0..=1.0).contains(&value);
        if !unit(cascade.accept_if_correct) || !unit(cascade.accept_if_wrong) {
            return None;
        }
        let mut total = Expected::NOTHING;
        for task in &self.tasks {
            total.add(task.share, &self.cascade_on(task, cascade)?);
        }
        Some(total)
    }

    fn cascade_on(&self, task: &TaskPopulation, cascade: &Cascade<'_>) -> Option<Expected> {
        let routes = task.routes.len();
        if cascade.order.iter().any(|route| *route >= routes) {
            return None;
        }
        let mut total = Expected::NOTHING;
        for band in &task.bands {
            let legs: Vec<usize> = cascade
                .order
                .iter()
                .copied()
                .filter(|route| band.fits[*route])
                .collect();
            let Some((last, _)) = legs.split_last() else {
                continue;
            };
            let mut right = 0.0;
            let mut reached = vec![0.0; legs.len()];
            for (weight, all) in task.points() {
                let own: Vec<f64> = legs.iter().map(|route| all[*route]).collect();
                let sound = self
                    .copula
                    .states(&own, self.correlation, &mut |state, given| {
                        let mut reach = weight * state;
                        for ((leg, p), reached) in legs.iter().zip(given).zip(&mut reached) {
                            *reached += reach;
                            if leg == last {
                                right += reach * p;
                                continue;
                            }
                            right += reach * p * cascade.accept_if_correct;
                            reach *= p * (1.0 - cascade.accept_if_correct)
                                + (1.0 - p) * (1.0 - cascade.accept_if_wrong);
                        }
                    });
                if !sound {
                    return None;
                }
            }
            let mut here = Expected {
                accuracy: band.share * right,
                ..Expected::NOTHING
            };
            for (leg, reached) in legs.iter().zip(&reached) {
                let call = Expected {
                    accuracy: 0.0,
                    usd_per_1k: task.usd(*leg, band).map(|usd| usd * 1e3),
                    calls: band.share,
                };
                here.add(*reached, &call);
            }
            total.add(1.0, &here);
        }
        Some(total)
    }
}

impl TaskPopulation {
    /// A plan without a verifier: the first route of `order` that a request fits answers it. Routes out
    /// of range are passed over.
    #[must_use]
    pub fn first_that_fits(&self, order: &[usize]) -> Expected {
        let mut total = Expected::NOTHING;
        for band in &self.bands {
            let fits = |route: &&usize| band.fits.get(**route) == Some(&true);
            if let Some(route) = order.iter().find(fits) {
                let answered = Expected {
                    accuracy: band.share * self.routes[*route].right,
                    usd_per_1k: self.usd(*route, band).map(|usd| usd * 1e3),
                    calls: band.share,
                };
                total.add(1.0, &answered);
            }
        }
        total
    }

    /// Weights and P(right) by route.
    fn points(&self) -> impl Iterator<Item = (&f64, &[f64])> {
        self.weights
            .iter()
            .zip(self.right.chunks_exact(self.routes.len().max(1)))
    }

    /// What a call of `route` costs in USD, times the band's share.
    fn usd(&self, route: usize, band: &Band) -> Option<f64> {
        let price = self.prices[route]?;
        // 10⁻¹² USD for one token.
        let input = price.input.0 as f64 * band.input_tokens;
        let output = price.output.0 as f64 * band.share * self.output_tokens;
        Some((input + output) * 1e-12)
    }
}

/// The population of `world`; routes beyond `terms` have no known price and no window.
pub(super) fn of(
    workload: &Workload,
    world: &Synthetic,
    terms: &[Terms],
) -> Result<Population, Box<Diagnostic>> {
    let terms: Vec<Terms> = (0..world.routes.len())
        .map(|route| terms.get(route).copied().unwrap_or(Terms::UNKNOWN))
        .collect();
    let mut room = POINTS_MAX;
    let mut tasks = Vec::with_capacity(world.tasks.len());
    for (index, name) in workload.tasks.iter().enumerate() {
        let task = task(world, index, name, &terms, &mut room);
        tasks.push(task.ok_or_else(|| Box::new(too_large(&workload.name)))?);
    }
    let mut notes = Vec::new();
    let mut left_out = Vec::new();
    if world.tools {
        left_out.push("tools");
    }
    if world.data_class_shares.is_some() || !world.tenants.is_empty() {
        left_out.push("data classes and tenants' residency");
    }
    if !left_out.is_empty() {
        notes.push(format!(
            "the expectations leave out {}: requests that a route may not or cannot take for them count as taken",
            left_out.join(", ")
        ));
    }
    Ok(Population {
        tasks,
        copula: Copula::Frechet,
        correlation: world.correlation.get(),
        notes,
    })
}

fn too_large(name: &str) -> Diagnostic {
    Diagnostic::error(format!(
        "`{name}` is too large to integrate: its tasks, difficulties, languages and models come to more than \
         {POINTS_MAX} points"
    ))
    .help("a world has fewer with fewer languages whose skills differ, or with a slope of 10 or less")
}

/// One task; `None` if there is no `room` for its points.
fn task(
    world: &Synthetic,
    index: usize,
    name: &str,
    terms: &[Terms],
    room: &mut usize,
) -> Option<TaskPopulation> {
    let declared = &world.declared.tasks[index];
    // Languages in which every route is equally good are one.
    let mut voices: Vec<(f64, Vec<f64>)> = Vec::new();
    for (language, share) in world.declared.languages.iter().enumerate() {
        if *share <= 0.0 {
            continue;
        }
        let factors: Vec<f64> = world
            .routes
            .iter()
            .map(|route| route.factors[index * (world.languages + 1) + language])
            .collect();
        match voices.iter_mut().find(|(_, known)| *known == factors) {
            Some((known, _)) => *known += share,
            None => voices.push((*share, factors)),
        }
    }
    let nodes = declared.difficulty.nodes(world.slope);
    *room = room.checked_sub(nodes.len() * voices.len() * terms.len().max(1))?;
    let mut weights = Vec::with_capacity(nodes.len() * voices.len());
    let mut right = Vec::with_capacity(weights.capacity() * terms.len());
    let mut means = vec![0.0; terms.len()];
    for (share, factors) in &voices {
        for (difficulty, weight) in &nodes {
            let weight = share * weight;
            let odds = libm::exp(world.slope * difficulty);
            weights.push(weight);
            for (mean, factor) in means.iter_mut().zip(factors) {
                let p = 1.0 / (1.0 + odds * factor);
                right.push(p);
                *mean += weight * p;
            }
        }
    }
    let cap = world.tasks[index].output_cap;
    let bands = bands(&declared.input, cap, terms);
    let mut task = TaskPopulation {
        name: name.to_owned(),
        share: declared.share,
        routes: Vec::new(),
        weights,
        right,
        bands,
        input_tokens: declared.input.up_to(None).1,
        output_tokens: declared.output.mean_capped(cap.get()),
        prices: terms.iter().map(|terms| terms.price).collect(),
    };
    task.routes = means
        .into_iter()
        .enumerate()
        .map(|(route, right)| {
            let fitting = task.bands.iter().filter(|band| band.fits[route]);
            RoutePopulation {
                right,
                fits: fitting.clone().map(|band| band.share).sum(),
                usd: fitting
                    .map(|band| task.usd(route, band))
                    .try_fold(0.0, |sum, usd| Some(sum + usd?)),
            }
        })
        .collect();
    Some(task)
}

/// Prompt lengths, cut where a window ends.
fn bands(input: &TokenLaw, cap: Tokens, terms: &[Terms]) -> Vec<Band> {
    // The longest prompt that fits, if there is a limit; `None` in it if no prompt fits.
    let longest: Vec<Option<Option<u32>>> = terms
        .iter()
        .map(|terms| {
            let window = terms.context_tokens.get()?;
            Some(window.checked_sub(cap.get().unwrap_or(0)))
        })
        .collect();
    let mut ends: Vec<u32> = longest.iter().flatten().flatten().copied().collect();
    ends.sort_unstable();
    ends.dedup();
    let mut bands = Vec::with_capacity(ends.len() + 1);
    let (mut mass, mut sum) = (0.0, 0.0);
    for end in ends.into_iter().map(Some).chain([None]) {
        let (up_to, tokens) = input.up_to(end);
        let share = up_to - mass;
        if share > 0.0 {
            let fits = longest.iter().map(|longest| match (longest, end) {
                (None, _) => true,
                (Some(Some(longest)), Some(end)) => end <= *longest,
                _ => false,
            });
            bands.push(Band {
                share,
                input_tokens: tokens - sum,
                fits: fits.collect(),
            });
        }
        (mass, sum) = (up_to, tokens);
    }
    bands
}
