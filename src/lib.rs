//! routelab
pub mod router;
pub mod sim;
pub mod source;
pub mod stats;
pub mod units;
pub mod workload;
