//! The integration tests, one binary.

mod router_cases;
mod router_interplay;
mod router_limits;
mod router_properties;
mod router_reference;
mod router_scenarios;
mod router_world;
