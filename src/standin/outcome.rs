//! Answers by table look-up: what the workload says each route would have done.

use crate::router::{RouteId, Usage};
use crate::units::{Score, Usd};
use crate::verify::Verifier;
use crate::workload::Batch;

/// "This route is not in the workload."
pub const NOT_IN_WORLD: u16 = u16::MAX;

/// The answers to the requests of one batch. Routes are the catalogue's; `world` says where each
/// stands among the workload's own routes.
#[derive(Clone, Copy, Debug)]
pub struct Outcomes<'a> {
    /// The requests and the truth about them.
    pub batch: &'a Batch,
    /// For each route of the catalogue its index in the workload, or [`NOT_IN_WORLD`].
    pub world: &'a [u16],
}

impl Outcomes<'_> {
    #[inline(always)]
    fn column(&self, route: RouteId) -> usize {
        self.world[route.0 as usize] as usize
    }

    /// What the call would be billed.
    #[must_use]
    #[inline(always)]
    pub fn usage(&self, route: RouteId, i: usize) -> Usage {
        Usage {
            input: self.batch.input_tokens[i],
            output: self.batch.output(self.column(route), i),
        }
    }

    /// The grade of the answer.
    #[must_use]
    #[inline(always)]
    pub fn grade(&self, route: RouteId, i: usize) -> Score {
        self.batch.grade[self.column(route)][i]
    }

    /// The recorded cost of the call, if the data holds costs.
    #[must_use]
    #[inline(always)]
    pub fn recorded_cost(&self, route: RouteId, i: usize) -> Option<Usd> {
        if self.batch.cost.is_empty() {
            None
        } else {
            self.batch.cost[self.column(route)][i]
        }
    }

    /// Whether the verifier accepts the answer; `None` when nobody graded it, so that nobody can say.
    #[must_use]
    #[inline(always)]
    pub fn accepts(&self, verifier: &Verifier, route: RouteId, i: usize) -> Option<bool> {
        let column = self.column(route);
        match verifier {
            Verifier::Simulated(simulated) => simulated.accepts(
                self.batch.grade[column][i],
                self.batch.verifier_lane[column][i],
            ),
        }
    }
}
