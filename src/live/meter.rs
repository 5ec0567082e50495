//! A usage meter: what was spent where, with failed and abandoned work apart from what was served.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use super::hooks::Hook;
use crate::traffic::{Attempt, Metered, Origin};
use crate::units::Usd;

/// Sums over attempts of one sort. What a provider did not report is counted as unknown, never as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Attempts.
    pub attempts: u64,
    /// Σ of known prompt tokens.
    pub input_tokens: u64,
    /// Σ of known generated tokens.
    pub output_tokens: u64,
    /// Attempts whose prompt or generated tokens are not known.
    pub tokens_unknown: u64,
    /// Σ of known costs at list price, in 10⁻¹² USD.
    pub cost: u64,
    /// Attempts whose cost is not known.
    pub cost_unknown: u64,
    /// Attempts of which it is certain that they were not billed.
    pub unbilled: u64,
}

impl Sum {
    /// The known costs.
    #[must_use]
    pub const fn usd(&self) -> Usd {
        Usd(self.cost)
    }

    fn add(&mut self, attempt: &Attempt) {
        self.attempts += 1;
        let (input, output) = (attempt.tokens.input, attempt.tokens.output);
        self.input_tokens += u64::from(input.unwrap_or(0));
        self.output_tokens += u64::from(output.unwrap_or(0));
        let unbilled = attempt.billed == Some(false);
        self.unbilled += u64::from(unbilled);
        // Of what was refused there is nothing to know.
        self.tokens_unknown += u64::from(!unbilled && (input.is_none() || output.is_none()));
        self.cost_unknown += u64::from(!unbilled && attempt.cost.is_none());
        self.cost = self
            .cost
            .saturating_add(attempt.cost.map_or(0, |cost| cost.0));
    }
}

/// What happened on one route, by how it is booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Whole answers.
    pub answered: Sum,
    /// Failures before any output reached the caller.
    pub failed: Sum,
    /// Failures after output.
    pub mid_stream: Sum,
    /// Calls whose caller went away.
    pub abandoned: Sum,
    /// Times it was passed over without sending anything.
    pub skipped: u64,
}

/// One line of a meter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MeterRow {
    /// On whose behalf.
    pub origin: Origin,
    /// Name of the route.
    pub route: String,
    /// The sums.
    pub totals: Totals,
}

/// Adds up attempts by origin and route.
#[derive(Debug, Default)]
pub struct Meter {
    rows: Mutex<BTreeMap<(Origin, String), Totals>>,
}

impl Meter {
    /// A meter that shows nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything so far, ordered by origin and route.
    #[must_use]
    pub fn rows(&self) -> Vec<MeterRow> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.iter()
            .map(|((origin, route), totals)| MeterRow {
                origin: *origin,
                route: route.clone(),
                totals: *totals,
            })
            .collect()
    }

    /// What users' calls did on a route.
    #[must_use]
    pub fn route(&self, route: &str) -> Totals {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.get(&(Origin::User, route.to_owned()))
            .copied()
            .unwrap_or_default()
    }
}

impl Hook for Meter {
    fn attempt(&self, attempt: &Attempt) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = rows
            .entry((attempt.origin, attempt.route.clone()))
            .or_default();
        match attempt.metered {
            Metered::Answered => totals.answered.add(attempt),
            Metered::Failed => totals.failed.add(attempt),
            Metered::MidStream => totals.mid_stream.add(attempt),
            Metered::Abandoned => totals.abandoned.add(attempt),
            Metered::Nothing => totals.skipped += 1,
        }
    }
}
