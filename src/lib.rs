//! routelab
pub mod router;
pub mod sim;
pub mod stats;
pub mod units;
