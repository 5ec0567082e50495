//! The route that has been fastest of late, shared with those that are nearly as fast.
//!
//! For each route it keeps the latencies of the last attempts, sorted, and compares a quantile of them.
//! LiteLLM's `latency-based-routing` and Kong's `lowest-latency` compare averages; a quantile is not moved by
//! a few stalls, and the median of a route that fails more often than not is what a failure counts as.
//! Sending everything to the fastest route makes it slow, and a route that nobody asks never shows that it
//! has recovered: `buffer` and `explore` are for that (the first is LiteLLM's
//! `lowest_latency_buffer`). What this is not: a balancer that knows how many calls are in flight.

use std::collections::VecDeque;

use super::{
    Ask, Decision, DrawPath, Feedback, FeedbackOf, Kind, Names, Policy, Setup, Spec, Unit, Why,
};
use crate::router::{FaultTables, LEGS_MAX, Plan, RouteId};
use crate::source::{Diagnostic, Location, Table, Value};
use crate::units::{Duration, Instant, Probability};

pub(super) const KIND: Kind = Kind {
    name: "latency-aware",
    about: "Sends each request to the route whose rolling quantile of latency is lowest, and falls back along the \
            others in that order. Needs time: in a comparison of independent requests nothing takes any, and it \
            splits them evenly. Looks at no quality and no price: list only routes that are good enough. Reacts \
            late, for an attempt counts when it ends; without `buffer` everybody runs to the same route.",
    example: "[latency-aware]\nroutes = [\"small\", \"medium\"]\n",
    read,
};

/// Below so many remembered attempts (or the whole window, if that is less) a route is not judged.
const OBSERVATIONS_MIN: usize = 5;
/// Most attempts that are remembered per route.
const WINDOW_MAX: u64 = 10_000;
/// Longest times that can be configured, in seconds: a week and a day.
const WINDOW_MAX_S: f64 = 604_800.0;
const FAILURE_MAX_S: f64 = 86_400.0;

/// Which latency is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Until the first token; until the end of an answer that comes as a whole.
    Ttft,
    /// Until the end of the answer.
    Total,
}

impl Measure {
    const NAMES: [&'static str; 2] = ["ttft", "total"];

    const fn words(self) -> &'static str {
        match self {
            Self::Ttft => "time to first token",
            Self::Total => "whole latency",
        }
    }
}

#[derive(Clone, Debug)]
struct LatencySpec {
    routes: Vec<RouteId>,
    /// In (0, 1].
    quantile: f64,
    measure: Measure,
    /// Attempts remembered per route.
    window: usize,
    /// How long they are remembered.
    memory: Duration,
    /// A route may be slower than the best by this share of it.
    buffer: f64,
    explore: Probability,
    failure: Duration,
    location: Location,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let routes = table
        .require("routes")
        .and_then(|value| read_routes(&value, names));
    let mut number =
        |key: &str, default: f64, read: &dyn Fn(&Value<'_>) -> Option<f64>| match table.get(key) {
            Some(value) => read(&value),
            None => Some(default),
        };
    let within = |max: f64| {
        move |value: &Value<'_>| {
            value
                .positive()
                .and_then(|_| value.number_in(f64::MIN_POSITIVE, max))
        }
    };
    let quantile = number("quantile", 0.5, &|value| {
        let quantile = value.probability()?.get();
        if quantile == 0.0 {
            value.error(format!(
                "`{}` must be above 0: the fastest attempt ever says little about a route",
                value.path()
            ));
            return None;
        }
        Some(quantile)
    });
    let memory = number("window_s", 600.0, &within(WINDOW_MAX_S));
    let buffer = number("buffer", 0.1, &|value| value.number_in(0.0, 10.0));
    let failure = number("failure_s", 30.0, &within(FAILURE_MAX_S));
    let explore = match table.get("explore") {
        Some(value) => value.probability(),
        None => Probability::new(0.02),
    };
    let measure = match table.get("measure") {
        Some(value) => value
            .one_of("measure", &Measure::NAMES)
            .map(|index| [Measure::Ttft, Measure::Total][index]),
        None => Some(Measure::Ttft),
    };
    let window = match table.get("window") {
        Some(value) => value.integer_in(1, WINDOW_MAX),
        None => Some(100),
    };
    let location = table.location();
    table.finish();
    Some(Box::new(LatencySpec {
        routes: routes?,
        quantile: quantile?,
        measure: measure?,
        window: window? as usize,
        memory: Duration::from_secs_f64(memory?),
        buffer: buffer?,
        explore: explore?,
        failure: Duration::from_secs_f64(failure?),
        location,
    }))
}

/// Two to eight different routes.
fn read_routes(value: &Value<'_>, names: &Names<'_>) -> Option<Vec<RouteId>> {
    let routes = names.routes(value)?;
    if !(2..=LEGS_MAX).contains(&routes.len()) {
        value.error(format!(
            "`{}` must name 2 to {LEGS_MAX} routes, but names {}",
            value.path(),
            routes.len()
        ));
        return None;
    }
    for (index, route) in routes.iter().enumerate() {
        if routes[..index].contains(route) {
            value.error(format!(
                "`{}` names `{}` twice",
                value.path(),
                names.catalogue.routes[usize::from(route.0)].name
            ));
            return None;
        }
    }
    Some(routes)
}

impl Spec for LatencySpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        if !setup.time_passes {
            setup.remark(
                Diagnostic::warning(
                    "no time passes in this comparison, so a latency-aware policy learns no latencies: it splits the requests evenly among its routes",
                )
                .at(self.location.clone()),
            );
        }
        let name = |route: &RouteId| setup.catalogue.routes[usize::from(route.0)].name.clone();
        Box::new(LatencyAware {
            names: self.routes.iter().map(name).collect(),
            recent: vec![Recent::new(self.window); self.routes.len()],
            enough: OBSERVATIONS_MIN.min(self.window),
            share: setup.draw_path(),
            explore: DrawPath::new(&format!("{}.explore", setup.path)),
            spec: self.clone(),
        })
    }

    fn routes(&self) -> Vec<RouteId> {
        self.routes.clone()
    }
}

/// The latencies of a route's last attempts.
#[derive(Clone, Debug)]
struct Recent {
    /// When each ended, and its latency, the oldest first.
    order: VecDeque<(Instant, Duration)>,
    /// The same latencies, rising.
    sorted: Vec<Duration>,
    window: usize,
}

impl Recent {
    fn new(window: usize) -> Self {
        Self {
            order: VecDeque::with_capacity(window),
            sorted: Vec::with_capacity(window),
            window,
        }
    }

    /// Remembers an attempt, in place of the oldest if there is no room.
    fn note(&mut self, at: Instant, latency: Duration) {
        if self.order.len() == self.window {
            self.drop_oldest();
        }
        self.order.push_back((at, latency));
        let place = self.sorted.partition_point(|known| *known <= latency);
        self.sorted.insert(place, latency);
    }

    /// Forgets what ended `memory` ago or earlier.
    fn forget(&mut self, now: Instant, memory: Duration) {
        while let Some((at, _)) = self.order.front()
            && now.since(*at) >= memory
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, latency)) = self.order.pop_front()
            && let Ok(place) = self.sorted.binary_search(&latency)
        {
            self.sorted.remove(place);
        }
    }

    /// The smallest remembered latency that this share of all does not exceed (the inverse of the empirical
    /// distribution); `None` if fewer than `enough` are remembered.
    #[inline]
    fn quantile(&self, share: f64, enough: usize) -> Option<Duration> {
        let n = self.sorted.len();
        if n < enough {
            return None;
        }
        let rank = (share * n as f64).ceil() as usize;
        self.sorted.get(rank.clamp(1, n) - 1).copied()
    }
}

#[derive(Clone, Debug)]
struct LatencyAware {
    spec: LatencySpec,
    /// By listed route.
    names: Vec<String>,
    recent: Vec<Recent>,
    /// Attempts from which a route is judged.
    enough: usize,
    /// Who among the best.
    share: DrawPath,
    /// Whether to look elsewhere, and where.
    explore: DrawPath,
}

/// Reasons: which route, and how it came to be picked.
mod reason {
    /// Fewer than enough attempts are remembered.
    pub(super) const UNJUDGED: u32 = 0;
    /// The best, or nearly.
    pub(super) const FAST: u32 = 1;
    /// Somebody has to look.
    pub(super) const EXPLORED: u32 = 2;
    pub(super) const COUNT: u32 = 3;
}

/// A uniform choice of `0..among` by a uniform 32-bit number.
#[inline]
fn choose(draw: u32, among: usize) -> usize {
    ((u64::from(draw) * among as u64) >> 32) as usize
}

impl LatencyAware {
    /// The quantile of each listed route, `None` where too little is known.
    #[inline]
    fn levels(&self) -> [Option<Duration>; LEGS_MAX] {
        let mut levels = [None; LEGS_MAX];
        for (level, recent) in levels.iter_mut().zip(&self.recent) {
            *level = recent.quantile(self.spec.quantile, self.enough);
        }
        levels
    }

    /// The slowest quantile that is as good as the best.
    #[inline]
    fn good_enough(&self, levels: &[Option<Duration>]) -> Duration {
        let best = levels.iter().flatten().min().copied();
        best.map_or(Duration::ZERO, |best| {
            // A float-to-integer `as` saturates.
            Duration((best.0 as f64 * (1.0 + self.spec.buffer)) as u64).max(best)
        })
    }

    /// The listed route to ask, and why. Routes that are not judged yet share the traffic with the best
    /// ones: enough to be judged soon, and not all of it, for they may be slow or down.
    #[inline]
    fn pick(&self, ask: &Ask, levels: &[Option<Duration>]) -> (usize, u32) {
        let bar = self.good_enough(levels);
        let mut able = [0; LEGS_MAX];
        let mut count = 0;
        for (index, level) in levels.iter().enumerate() {
            if level.is_none_or(|level| level <= bar) {
                able[count] = index;
                count += 1;
            }
        }
        let picked = able[choose(ask.draw(self.share, Unit::Request), count)];
        let draw = u64::from(ask.draw(self.explore, Unit::Request));
        let below = self.spec.explore.threshold();
        if draw < below {
            // Given that it is below, the draw is uniform below it.
            let step = draw * (levels.len() as u64 - 1) / below;
            let other = (picked + 1 + step as usize) % levels.len();
            return (other, reason::EXPLORED);
        }
        let why = match levels[picked] {
            Some(_) => reason::FAST,
            None => reason::UNJUDGED,
        };
        (picked, why)
    }

    /// The route, then the others: the fastest first, those that are not judged last.
    #[inline]
    fn plan_from(&self, first: usize, levels: &[Option<Duration>]) -> Plan {
        let mut order = [(Duration::ZERO, 0); LEGS_MAX];
        for (index, (place, level)) in order.iter_mut().zip(levels).enumerate() {
            *place = (level.unwrap_or(Duration::MAX), index);
        }
        order[first].0 = Duration::ZERO;
        let order = &mut order[..levels.len()];
        order.swap(0, first);
        order[1..].sort_unstable();
        let mut legs = [RouteId(0); LEGS_MAX];
        for (leg, (_, index)) in legs.iter_mut().zip(order.iter()) {
            *leg = self.spec.routes[*index];
        }
        Plan::chain(&legs[..levels.len()]).unwrap_or(Plan::single(legs[0]))
    }
}

impl Policy for LatencyAware {
    fn plan(&mut self, ask: &Ask) -> Decision {
        for recent in &mut self.recent {
            recent.forget(ask.now, self.spec.memory);
        }
        let levels = self.levels();
        let levels = &levels[..self.recent.len()];
        let (picked, why) = self.pick(ask, levels);
        Decision {
            serve: self.plan_from(picked, levels),
            mirror: None,
            why: Why(picked as u32 * reason::COUNT + why),
        }
    }

    fn learn(&mut self, feedback: &Feedback) {
        // What a request took says nothing about one route: it holds waits and failed attempts.
        if feedback.of != FeedbackOf::Attempt {
            return;
        }
        let place = (self.spec.routes.iter()).position(|route| Some(*route) == feedback.route);
        let Some(place) = place else {
            return;
        };
        let took = match (self.spec.measure, feedback.ttft) {
            (Measure::Ttft, Some(ttft)) => ttft,
            _ => feedback.latency,
        };
        let counts = match feedback.fault {
            None => took,
            // Somebody who waited longer than that for a failure did wait longer.
            Some(kind) if FaultTables::DEFAULT.counts_against_health.has(kind) => {
                feedback.latency.max(self.spec.failure)
            }
            // The request was at fault: the route did nothing that could be measured.
            Some(_) => return,
        };
        self.recent[place].note(feedback.at, counts);
    }

    fn learns_from_attempts(&self) -> bool {
        true
    }

    fn stateful(&self) -> bool {
        true
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, _ask: &Ask, why: Why) -> String {
        let picked = (why.0 / reason::COUNT) as usize % self.names.len();
        let name = &self.names[picked];
        let words = match why.0 % reason::COUNT {
            reason::UNJUDGED => format!(
                "`{name}`: fewer than {} attempts are remembered, so it shares the traffic with the fastest",
                self.enough
            ),
            reason::FAST => format!(
                "`{name}`: its quantile {} of the {} is the lowest, or within {} % of it",
                self.spec.quantile,
                self.spec.measure.words(),
                (self.spec.buffer * 1e6).round() / 1e4
            ),
            _ => format!("`{name}`: drawn to see how it does, not because it is fast"),
        };
        let levels = self.levels();
        let levels = self.names.iter().zip(&levels).zip(&self.recent);
        let seen: Vec<String> = levels
            .map(|((name, level), recent)| match level {
                Some(level) => format!("{name} {level} of {}", recent.sorted.len()),
                None => format!("{name} unknown, {} seen", recent.sorted.len()),
            })
            .collect();
        format!("{words} ({})", seen.join(", "))
    }
}

#[cfg(test)]
mod tests;
