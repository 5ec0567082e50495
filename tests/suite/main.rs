//! The one integration-test binary: a module per subject, so that builds and disk stay small.

mod intervals;
mod report;
mod router_scenarios;
mod tidy;
