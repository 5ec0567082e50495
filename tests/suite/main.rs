//! The one integration-test binary: a module per subject, so that builds and disk stay small.

mod given;
mod intervals;
mod lesson;
mod report;
mod router_scenarios;
mod tidy;
mod workload_recorded;
mod workload_synthetic;
