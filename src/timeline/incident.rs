//! Incidents: what is wrong with which routes, from when to when.
//!
//! Several may last at once, on one route, too. Each has its own coin for every attempt, so each hits its
//! share whatever the others do; the first in the order of the file that hits an attempt decides how it
//! fails or whether it breaks off, and slownesses multiply. Outages at drawn times come after all
//! scripted incidents. An incident begins at its first microsecond and is over at its last: at `until` all
//! is well again.

mod spec;
mod weather;

pub(super) use spec::{effect, read};
pub use weather::{Conditions, INCIDENTS_MAX, Weather};

use super::target::Target;
use crate::catalogue::Catalogue;
use crate::router::{FaultKind, RouteId};
use crate::source::Diagnostic;
use crate::units::{Duration, Instant, Probability};

/// What an incident does to attempts that are sent while it lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// A share of them fail like this. [`FaultKind::Timeout`] leaves the caller waiting until its own
    /// limits end that; everything else fails after the route's overhead.
    Fail {
        /// How.
        kind: FaultKind,
        /// How many of them.
        share: Probability,
    },
    /// All take so many times as long.
    Slow {
        /// At least 1.
        factor: f64,
    },
    /// A share of them break off in the middle of the answer.
    Cut {
        /// How many of them.
        share: Probability,
    },
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// What people call it: the provider, region or route that it was declared for.
    pub name: String,
    /// Which routes it concerns.
    pub routes: Vec<RouteId>,
    /// When it begins.
    pub from: Instant,
    /// When it is over.
    pub until: Instant,
    /// What it does.
    pub effect: Effect,
}

impl Incident {
    /// An incident at a provider, in a region or on a route, whichever is called `target`, as a command
    /// line asks for it. A name that several kinds have is fine as long as it stands for the same routes.
    ///
    /// # Errors
    ///
    /// If nothing is called `target` (with the nearest name that something is), if the name is
    /// ambiguous, or if the incident would last no time or begin at the end of time.
    pub fn of_target(
        catalogue: &Catalogue,
        target: &str,
        from: Instant,
        length: Duration,
        effect: Effect,
    ) -> Result<Self, Box<Diagnostic>> {
        let Target { name, routes } = Target::named(target, catalogue)?;
        let until = from.after(length);
        if until <= from {
            let message = format!("the incident at `{name}` would last no time");
            return Err(Box::new(Diagnostic::error(message)));
        }
        Ok(Self {
            name,
            routes,
            from,
            until,
            effect,
        })
    }

    /// Whether it does the same as `other` to the same routes at the same time.
    #[must_use]
    pub fn repeats(&self, other: &Self) -> bool {
        (self.from, self.until, self.effect) == (other.from, other.until, other.effect)
            && self.routes.len() == other.routes.len()
            && self.routes.iter().all(|route| other.routes.contains(route))
    }
}
