//! routelab
pub mod catalogue;
pub mod cli;
pub mod policy;
pub mod report;
pub mod router;
pub mod sim;
pub mod source;
pub mod standin;
pub mod stats;
pub mod units;
pub mod verify;
pub mod workload;
