//! Outages at times that are drawn: an alternating renewal process.
//!
//! Times of health and times of outage take turns, each drawn from its own law. The n-th of them is a
//! function of (seed, replicate, name of the process, n), so another process, another route or a longer
//! run never moves it. The process is in equilibrium from the beginning: a run is a window on a history
//! that began long before, so it may begin in the middle of an outage, and what is left of the first
//! stretch follows the law of residual life (density P(X > x)/E\[X\]; D. R. Cox, "Renewal Theory", 1962,
//! sections 5.1 and 7.2). The mean share of time without an outage is then E\[up\]/(E\[up\] + E\[down\]) over
//! every window, however short.
//!
//! What is not here: outages of several processes do not attract each other, and hours of the day do not
//! matter to them; both were measured (see [`Typical`]), and neither is modelled.

mod law;
mod spec;

pub use law::Lasting;
pub(super) use spec::read;

use super::incident::{Effect, Incident};
use crate::router::{FaultKind, RouteId};
use crate::units::{Duration, Instant, Probability};
use crate::workload::DrawKey;
use crate::workload::draws::{Block, Page, name_key, unit};
use law::{LANES_A, LANES_B};

/// Lane of the coin for the state at the beginning.
const START: usize = 8;
/// Lane of the part of the first stretch that is left.
const LEFT: usize = 9;
/// Lane of the coin for a partial outage.
const PARTIAL: usize = 10;
/// Lane of the share of attempts that an outage fails.
const SHARE: usize = 11;
/// Blocks that are drawn at once.
const BLOCKS: usize = 16;

/// How many attempts the outages of a process fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Severity {
    /// Share of the outages that are partial.
    pub partial_share: Probability,
    /// Between which shares of attempts a partial one fails, evenly.
    pub partial: [Probability; 2],
    /// Between which shares of attempts another one fails, evenly.
    pub major: [Probability; 2],
}

/// Times of health and times of outage, in turn, each drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Outages {
    /// What people call it; its draws are addressed by it.
    pub name: String,
    /// Which routes it concerns, all at once.
    pub routes: Vec<RouteId>,
    /// What an outage does.
    pub effect: Effect,
    /// How long all is well.
    pub up: Lasting,
    /// How long an outage lasts.
    pub down: Lasting,
    /// How many attempts fail, drawn anew for each outage; as `effect` says if `None`. It concerns
    /// [`Effect::Fail`] only.
    pub severity: Option<Severity>,
}

/// Outages of hosted APIs as they were measured: the defaults of an [`Outages`].
///
/// Source: incident tables of two large providers up to 31 August 2024 (Chu et al., "An Empirical
/// Characterization of Outages and Incidents in Public Services for Large Language Models", ICPE 2025,
/// arXiv 2501.12469), components of the API only, rounded between the two: 8.9 and 5.3 incidents in 30
/// days, coefficients of variation between them of 1.3 and 1.9, durations with a median of 80 and 46
/// minutes and a lognormal sigma of 1.2 and 1.4. The ranges of shares are assumptions: status pages speak of
/// "partial" and "major". Measured and not modelled: 55 % of the incidents begin from 14 to 22 h UTC, 7 % at
/// weekends, and 7 % of one provider's overlap one of the other's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Typical {
    /// Incidents in 30 days.
    pub incidents_per_30d: f64,
    /// Coefficient of variation of the times from one beginning to the next.
    pub inter_incident_cv: f64,
    /// ln of the median of their durations in minutes.
    pub duration_min_lognormal_mu: f64,
    /// Standard deviation of the ln of their durations.
    pub duration_min_lognormal_sigma: f64,
    /// Share of them that is partial.
    pub partial_share: f64,
    /// Shares of attempts that fail in a partial one, from and to.
    pub partial_error_prob: [f64; 2],
    /// The same for the others.
    pub major_error_prob: [f64; 2],
}

impl Typical {
    /// A hosted API.
    pub const API: Self = Self {
        incidents_per_30d: 7.0,
        inter_incident_cv: 1.5,
        duration_min_lognormal_mu: 4.2,
        duration_min_lognormal_sigma: 1.3,
        partial_share: 0.85,
        partial_error_prob: [0.05, 0.5],
        major_error_prob: [0.8, 1.0],
    };

    /// How long an outage lasts.
    #[must_use]
    pub fn down(&self) -> Lasting {
        Lasting::Lognormal {
            p50: Duration::from_secs_f64(60.0 * libm::exp(self.duration_min_lognormal_mu)),
            sigma: self.duration_min_lognormal_sigma,
        }
    }

    /// How long all is well: lognormal, with the mean and variance that, with those of an outage, make up
    /// the times from one beginning to the next.
    #[must_use]
    pub fn up(&self) -> Lasting {
        let down = self.down();
        let cycle_s = 30.0 * 86_400.0 / self.incidents_per_30d;
        let spread_s = self.inter_incident_cv * cycle_s;
        let mean_s = cycle_s - down.mean_s();
        let variance = spread_s * spread_s - down.variance_s2();
        let log_variance = libm::log1p(variance / (mean_s * mean_s));
        Lasting::Lognormal {
            p50: Duration::from_secs_f64(mean_s * libm::exp(-0.5 * log_variance)),
            sigma: log_variance.sqrt(),
        }
    }

    /// How many attempts fail.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let share = |value: f64| Probability::new(value).unwrap_or_default();
        Severity {
            partial_share: share(self.partial_share),
            partial: self.partial_error_prob.map(share),
            major: self.major_error_prob.map(share),
        }
    }
}

/// One outage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spell {
    pub(super) from: Instant,
    pub(super) until: Instant,
    pub(super) effect: Effect,
}

impl Outages {
    /// Outages of a hosted API (see [`Typical`]): attempts are refused as overloaded.
    #[must_use]
    pub fn typical(name: impl Into<String>, routes: Vec<RouteId>) -> Self {
        Self {
            name: name.into(),
            routes,
            effect: Effect::Fail {
                kind: FaultKind::Overloaded,
                share: Probability::ONE,
            },
            up: Typical::API.up(),
            down: Typical::API.down(),
            severity: Some(Typical::API.severity()),
        }
    }

    /// Long-run share of time without an outage, E\[up\]/(E\[up\] + E\[down\]).
    #[must_use]
    pub fn availability(&self) -> f64 {
        let (up, down) = (self.up.mean_s(), self.down.mean_s());
        up / (up + down)
    }

    /// Mean number of outages that begin within `length`.
    #[must_use]
    pub fn expected(&self, length: Duration) -> f64 {
        length.as_secs_f64() / (self.up.mean_s() + self.down.mean_s())
    }

    /// The outages that begin before `horizon`, in order.
    #[must_use]
    pub fn draw(&self, key: DrawKey, horizon: Duration) -> Vec<Incident> {
        self.spells(key, horizon)
            .map(|spell| Incident {
                name: self.name.clone(),
                routes: self.routes.clone(),
                from: spell.from,
                until: spell.until,
                effect: spell.effect,
            })
            .collect()
    }

    /// The same, one after the other.
    pub(super) fn spells(
        &self,
        key: DrawKey,
        horizon: Duration,
    ) -> impl Iterator<Item = Spell> + '_ {
        let mut page = Page::open(key, name_key("outage", &self.name), 0);
        let mut blocks = [[0; 16]; BLOCKS];
        let mut number = 0_usize;
        let mut now = Instant::ZERO;
        std::iter::from_fn(move || {
            let within = number % BLOCKS;
            if within == 0 {
                page.read(&mut blocks);
            }
            let block = &blocks[within];
            let first = number == 0;
            number = number.wrapping_add(1);
            let (from, until) = if first {
                self.first(block)
            } else {
                let from = now.after(self.up.draw(block, LANES_A));
                (from, from.after(self.down.draw(block, LANES_B)))
            };
            now = until;
            (from < Instant::ZERO.after(horizon)).then(|| Spell {
                from,
                until,
                effect: self.effect_of(block),
            })
        })
    }

    /// The first outage of a process that has been going on for ever: with the chance that it is down, one
    /// that began before the run.
    fn first(&self, block: &Block) -> (Instant, Instant) {
        let left = unit(block[LEFT]);
        if unit(block[START]) < self.availability() {
            let from = Instant::ZERO.after(self.up.left(block, LANES_A, left));
            (from, from.after(self.down.draw(block, LANES_B)))
        } else {
            let left = self.down.left(block, LANES_B, left);
            (Instant::ZERO, Instant::ZERO.after(left))
        }
    }

    fn effect_of(&self, block: &Block) -> Effect {
        let (Effect::Fail { kind, .. }, Some(severity)) = (self.effect, self.severity) else {
            return self.effect;
        };
        let partial = u64::from(block[PARTIAL]) < severity.partial_share.threshold();
        let [low, high] = if partial {
            severity.partial
        } else {
            severity.major
        };
        let share = low.get() + unit(block[SHARE]) * (high.get() - low.get());
        Effect::Fail {
            kind,
            share: Probability::new(share).unwrap_or(high),
        }
    }
}
