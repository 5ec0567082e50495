//! routelab
pub mod report;
pub mod router;
pub mod sim;
pub mod stats;
pub mod units;
