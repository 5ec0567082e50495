//! The integration tests, one binary.

mod router_scenarios;
