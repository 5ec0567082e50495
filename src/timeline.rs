//! The world in time: when requests come, how long providers take, what they refuse, when they are down.
//!
//! A [`Timeline`] is the `[timeline]` table of a workload file, checked. Like the rest of a world it holds
//! no randomness that changes: arrivals are a function of (seed, replicate, tenant, number of the arrival),
//! what happens to an attempt is one of the request, the route and the attempt. What does change with
//! what came before is kept in [`Providers`]: how full the token buckets are, and when servers are free.
//!
//! Nothing here knows a policy or a router. `sim::timeline` asks [`Providers`] in virtual time, a stand-in
//! may ask it in real time.

mod arrivals;
mod bucket;
mod chance;
mod drift;
mod incident;
mod latency;
mod limits;
mod outage;
mod providers;
mod servers;
mod spec;
mod target;

pub use arrivals::{
    Arrival, Arrivals, Arriving, PEAK_TO_TROUGH_MAX, RATE_MAX_PER_S, RATE_MIN_PER_S,
};
pub use bucket::Bucket;
pub use chance::Chances;
pub use drift::{Drift, Drifts};
pub use incident::{Conditions, Effect, INCIDENTS_MAX, Incident, Weather};
pub use latency::{Latency, Spread};
pub use limits::{Dimension, Limit, Limiter, OutputCount, Refusal, parse_limit};
pub use outage::{Lasting, Outages, Severity, Typical};
pub use providers::{Answered, Attempted, Cause, Providers};
pub use servers::{Ending, Servers, Timing, Work};
pub use spec::{Draft, Names, parse};

use crate::catalogue::Catalogue;
use crate::units::{Duration, Probability};

/// Most incidents, limits and drifts of one timeline, each.
pub const ENTRIES_MAX: usize = 1_000;

/// The world in time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// When requests come.
    pub arrivals: Arrivals,
    /// How long each route takes, by route of the catalogue.
    pub latency: Vec<Latency>,
    /// What providers refuse.
    pub limits: Vec<Limit>,
    /// What goes wrong, and when.
    pub incidents: Vec<Incident>,
    /// What goes wrong at times that are drawn.
    pub outages: Vec<Outages>,
    /// What goes wrong at any time, by route of the catalogue.
    pub chances: Vec<Chances>,
    /// How the quality of routes changes.
    pub drifts: Vec<Drift>,
    /// What callers expect.
    pub slo: Slo,
    /// Share of the requests whose answers are streamed.
    pub streamed: Probability,
    /// No request comes later than this; all requests of the run if `None`.
    pub duration: Option<Duration>,
    /// Width of the bins of time lines; chosen by the length of the run if `None`.
    pub bin: Option<Duration>,
}

/// What callers expect of every answer (a service-level objective). A request meets it if it was served
/// within both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// Longest time from arrival to the first token that the caller sees.
    pub ttft: Duration,
    /// Longest time from arrival to the end of the answer.
    pub total: Duration,
}

impl Slo {
    /// Every answer is fast enough.
    pub const NONE: Self = Self {
        ttft: Duration::MAX,
        total: Duration::MAX,
    };
}

impl Timeline {
    /// Nothing takes any time, nothing is refused and nothing goes wrong; requests come at `arrivals`. A
    /// run on it equals one without a timeline.
    #[must_use]
    pub fn instant(catalogue: &Catalogue, arrivals: Arrivals) -> Self {
        let routes = catalogue.routes.len();
        Self {
            arrivals,
            latency: vec![Latency::INSTANT; routes],
            limits: Vec::new(),
            incidents: Vec::new(),
            outages: Vec::new(),
            chances: vec![Chances::default(); routes],
            drifts: Vec::new(),
            slo: Slo::NONE,
            streamed: Probability::ONE,
            duration: None,
            bin: None,
        }
    }

    /// Whether anything is meant to go wrong for a while: incidents or outages. A drill then runs a second
    /// time without them, to tell what they did.
    #[must_use]
    pub fn has_incidents(&self) -> bool {
        !self.incidents.is_empty() || !self.outages.is_empty() || !self.drifts.is_empty()
    }

    /// The same world on a day on which nothing goes wrong but what always may.
    #[must_use]
    pub fn calm(&self) -> Self {
        Self {
            incidents: Vec::new(),
            outages: Vec::new(),
            drifts: Vec::new(),
            ..self.clone()
        }
    }
}
