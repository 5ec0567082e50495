//! The servers behind a route: a queue in order of arrival, and how long each answer takes.

use super::Latency;
use crate::router::Limits;
use crate::units::{Duration, Instant, Tokens};

/// One attempt, for the servers.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// When it arrives.
    pub at: Instant,
    /// Its prompt.
    pub input: Tokens,
    /// Its answer.
    pub output: Tokens,
    /// How many times as long as usual it takes.
    pub slow: f64,
    /// Random bits.
    pub lanes: u64,
    /// When the caller hangs up.
    pub limits: Limits,
    /// Whether the caller sees the answer as it grows.
    pub stream: bool,
}

/// When what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When a server took it up.
    pub started: Instant,
    /// When the first token was there.
    pub first_token: Instant,
    /// When the answer was complete, or would have been.
    pub ended: Instant,
}

/// The servers of all routes.
#[derive(Clone, Debug)]
pub struct Servers {
    latency: Vec<Latency>,
}

impl Servers {
    /// All idle.
    #[must_use]
    pub fn new(latency: &[Latency]) -> Self {
        Self {
            latency: latency.to_vec(),
        }
    }

    /// Serves an attempt. Attempts come in the order of time.
    pub fn serve(&mut self, route: usize, work: &Work) -> Timing {
        let latency = &self.latency[route];
        let factor = latency
            .spread
            .as_ref()
            .map_or(1.0, |spread| spread.at(work.lanes as u32))
            * work.slow;
        let input = f64::from(work.input.get().unwrap_or(0)) * (1.0 - latency.cached_share);
        let output = f64::from(work.output.get().unwrap_or(0).saturating_sub(1));
        let first = (latency.overhead_us + input * latency.per_input_token_us) * factor;
        let rest = output * latency.per_output_token_us * work.slow;
        let first_token = work.at.after(Duration(first.round() as u64));
        Timing {
            started: work.at,
            first_token,
            ended: first_token.after(Duration(rest.round() as u64)),
        }
    }

    /// How long a refusal takes to come back.
    #[must_use]
    pub fn overhead(&self, route: usize) -> Duration {
        Duration(self.latency[route].overhead_us.round() as u64)
    }
}
