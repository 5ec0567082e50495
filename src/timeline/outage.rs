//! Outages at times that are drawn: an alternating renewal process.

use super::incident::{Effect, Incident};
use crate::router::RouteId;
use crate::units::Duration;
use crate::workload::DrawKey;

/// Times of health and times of outage, in turn, each drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Outages {
    /// What people call it.
    pub name: String,
    /// Which routes it concerns.
    pub routes: Vec<RouteId>,
    /// What an outage does.
    pub effect: Effect,
}

impl Outages {
    /// The outages that begin before `horizon`, in order. `index` tells one process from another.
    #[must_use]
    pub fn draw(&self, _key: DrawKey, _index: u32, _horizon: Duration) -> Vec<Incident> {
        Vec::new()
    }
}
