//! One integration binary: everything that is tested through the public interface.

mod workload_bad_data;
mod workload_recorded;
mod workload_synthetic;
