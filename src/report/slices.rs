//! The same comparison for parts of the traffic: each task, each tenant, and each task of each tenant.
//!
//! A policy that is fine on the whole can be bad for somebody. A slice has its own estimates, its own
//! differences and its own verdict; small ones are inconclusive, which is what they are. Verdicts of slices are
//! not adjusted for each other: whoever asks that *all* of them pass (a gate) needs no adjustment (R. L.
//! Berger, *Technometrics* 24, 1982: an intersection–union test at level α has level α), and whoever looks
//! for the one that is best or worst must know that he looks at many.

use crate::stats::{Estimate, NonInferiority};

/// By what requests are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SliceBy {
    /// The kind of task.
    Task,
    /// Whose requests they are.
    Tenant,
    /// Both at once.
    TaskAndTenant,
}

impl SliceBy {
    /// All of them, from coarse to fine.
    pub const ALL: [Self; 3] = [Self::Task, Self::Tenant, Self::TaskAndTenant];

    /// The word in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Tenant => "tenant",
            Self::TaskAndTenant => "task-and-tenant",
        }
    }
}

/// One part of the traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// By what it was cut.
    pub by: SliceBy,
    /// Its task, unless it is cut by tenant alone.
    pub task: Option<String>,
    /// Its tenant, unless it is cut by task alone; `None` of a slice by tenant are the requests that name none.
    pub tenant: Option<String>,
    /// Its requests, over all replicates unless they share their rows.
    pub requests: u64,
    /// Everybody who takes part, policies first, in the order of [`Findings::rows`](super::Findings::rows) without mixes.
    pub rows: Vec<SliceRow>,
}

/// One policy or control on a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceRow {
    /// Its name.
    pub policy: String,
    /// Whether it is a control.
    pub control: bool,
    /// Mean grade.
    pub accuracy: Estimate,
    /// USD per 1,000 requests.
    pub usd_per_1k: Estimate,
    /// How much more accurate it is than the baseline, a share; `None` for the baseline itself, or if there is none.
    pub accuracy_difference: Option<Estimate>,
    /// Whether it is not worse than the baseline by more than the margin, for this slice alone.
    pub verdict: Option<NonInferiority>,
}
