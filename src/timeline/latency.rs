//! How long a route takes.

use crate::units::Duration;
use crate::workload::quantile::Table;

/// How long a route takes: (overhead + uncached prompt tokens × time per token) × a lognormal factor to the
/// first token, then a time for each further token.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Before anything else: network, queueing that is not modelled, safety checks. Microseconds.
    pub(super) overhead_us: f64,
    /// For each prompt token that is not cached, in microseconds.
    pub(super) per_input_token_us: f64,
    /// For each token after the first, in microseconds.
    pub(super) per_output_token_us: f64,
    /// Share of the prompt tokens that the provider has cached.
    pub(super) cached_share: f64,
    /// The lognormal factor, with median 1; none if always 1.
    pub(super) spread: Option<Table>,
    /// Requests served at the same time; all of them if `None`.
    pub(super) slots: Option<u32>,
    /// How many times as long everything takes when all slots are taken, at least 1.
    pub(super) load_factor: f64,
    /// Share of attempts that stall before the first token, and for how long.
    pub(super) stall: Option<(f64, Duration)>,
}

impl Latency {
    /// Takes no time.
    pub const INSTANT: Self = Self {
        overhead_us: 0.0,
        per_input_token_us: 0.0,
        per_output_token_us: 0.0,
        cached_share: 0.0,
        spread: None,
        slots: None,
        load_factor: 1.0,
        stall: None,
    };

    /// A hosted model of some 70 billion parameters.
    #[must_use]
    pub fn hosted() -> Self {
        Self {
            overhead_us: 80_000.0,
            per_input_token_us: 500.0,
            per_output_token_us: 25_000.0,
            cached_share: 0.0,
            spread: Some(Table::lognormal(
                1.0,
                libm::exp(0.2 * 1.644_853_626_951_472_2),
            )),
            slots: None,
            load_factor: 1.0,
            stall: None,
        }
    }
}
