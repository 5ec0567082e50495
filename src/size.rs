//! How many labelled examples, mirrored pairs or canary requests it takes to be sure, and how sure.
//!
//! Plans are computed before there are data, or from data at hand, as exact sums where those exist:
//! nothing here is drawn. What this module is not: the statistics, which are in
//! [`stats`](crate::stats), or how the answers are written down.

mod canary;
mod eval;
mod eval_tasks;
mod expected;
mod peeking;
mod rehearsal;
mod shadow;

pub use canary::{CanaryPlan, CanarySizing, CanaryTruth, Monitored, SliceHarm};
pub use eval::{EvalCell, EvalNeeded, EvalPlan, EvalSizing, Labelling, Pick, TaskPicks};
pub use eval_tasks::{EvalRoute, EvalSubject, EvalTask, eval_subject};
pub use expected::{population, terms};
pub use peeking::{KeepsAlpha, Peeked};
pub use rehearsal::{Rehearsal, Rehearsed, Runs};
pub use shadow::{
    Campaign, Cell, Certified, Mirroring, Needed, Origin, ShadowPlan, ShadowSizing,
    TYPE_ONE_PAIRS_MAX, Truth, TypeOne, recorded_truths, simulated_truths,
};
