//! Incidents: what is wrong with which routes, from when to when.

use super::Outages;
use crate::router::{FaultKind, RouteId};
use crate::units::{Duration, Instant, Probability};
use crate::workload::DrawKey;

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

/// What is wrong with a route at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions<'a> {
    /// Effects of the incidents that last, each with its index in the list of all.
    pub active: &'a [(u16, Effect)],
}

/// The incidents of one run, asked in the order of time.
#[derive(Clone, Debug)]
pub struct Weather {
    incidents: Vec<Incident>,
    /// By route: what lasts, and when that changes next.
    active: Vec<Vec<(u16, Effect)>>,
    changes: Vec<Instant>,
}

impl Weather {
    /// Scripted incidents, and those that `outages` come to under `key` before `horizon`.
    #[must_use]
    pub fn open(
        incidents: &[Incident],
        outages: &[Outages],
        routes: usize,
        key: DrawKey,
        horizon: Duration,
    ) -> Self {
        let mut all = incidents.to_vec();
        for (index, outage) in outages.iter().enumerate() {
            all.extend(outage.draw(key, index as u32, horizon));
        }
        Self {
            incidents: all,
            active: vec![Vec::new(); routes],
            changes: vec![Instant::ZERO; routes],
        }
    }

    /// All incidents, those that were drawn included.
    #[must_use]
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// What is wrong with `route` now. Times must not run backwards.
    pub fn at(&mut self, route: RouteId, now: Instant) -> Conditions<'_> {
        let index = usize::from(route.0);
        if self.changes[index] <= now {
            self.look(route, now);
        }
        Conditions {
            active: &self.active[index],
        }
    }

    #[cold]
    fn look(&mut self, route: RouteId, now: Instant) {
        let index = usize::from(route.0);
        let active = &mut self.active[index];
        active.clear();
        let mut next = Instant(u64::MAX);
        for (i, incident) in self.incidents.iter().enumerate() {
            if !incident.routes.contains(&route) || incident.until <= now {
                continue;
            }
            if incident.from <= now {
                active.push((i as u16, incident.effect));
                next = next.min(incident.until);
            } else {
                next = next.min(incident.from);
            }
        }
        self.changes[index] = next;
    }
}
