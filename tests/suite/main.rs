//! The one integration-test binary: a module per subject, so that builds and disk stay small.

mod abreast;
mod acting;
mod bad_input;
mod bad_targets;
mod canary;
mod command_line;
mod decisions;
mod drill_command;
mod environment;
mod evidence;
mod explain_and_check;
mod explain_log;
mod fidelity;
mod gate;
mod given;
mod init;
mod intervals;
mod judges;
mod latency_measured;
mod lesson;
#[cfg(feature = "live")]
mod live;
mod off_policy;
mod page;
mod population;
mod program;
mod readme;
mod readme_facts;
mod reference_statistics;
mod remarks;
mod report;
mod reproducible;
mod residency;
mod resume;
mod router_cases;
mod router_interplay;
mod router_limits;
mod router_properties;
mod router_reference;
mod router_scenarios;
mod router_world;
mod saving;
mod schemas;
mod seen;
mod segments;
#[cfg(feature = "live")]
mod serve_command;
#[cfg(feature = "live")]
mod serve_faults;
#[cfg(feature = "live")]
mod serve_limits;
#[cfg(feature = "live")]
mod serve_requests;
#[cfg(feature = "live")]
mod served;
mod size_canary;
mod size_eval;
mod size_shadow;
mod sweep;
mod sweep_documents;
mod tidy;
mod timeline_arrivals;
mod timeline_arrivals_read;
mod timeline_equality;
mod timeline_faults;
mod timeline_harm;
mod timeline_incidents;
mod timeline_limits;
#[cfg(feature = "live")]
mod timeline_live;
mod timeline_outages;
mod timeline_saturation;
mod timeline_scripts;
mod timeline_storm;
mod verifiers;
mod wire_captured;
mod wire_cases;
mod wire_ends;
mod wire_errors;
mod wire_fuzz;
mod wire_golden;
mod wire_hostile;
mod wire_requests;
mod wire_serving;
mod wire_sse;
mod workload_bad_data;
mod workload_recorded;
mod workload_synthetic;
