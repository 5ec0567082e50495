//! How many labelled examples, mirrored pairs or canary requests it takes to be sure, and how sure.
//!
//! Plans are computed before there are data, or from data at hand, as exact sums where those exist:
//! nothing here is drawn. What this module is not: the statistics, which are in
//! [`stats`](crate::stats), or how the answers are written down.

mod expected;

pub use expected::{population, terms};
