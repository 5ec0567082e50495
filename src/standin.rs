//! Stand-ins: who answers instead of a provider.
//!
//! There are three fidelities, each wrapping the one before. `outcome`: an answer is a row of a table:
//! the grade, the tokens, and how a verifier would look at it, as the workload says. `wired`: the same
//! answer is written and read as the provider's bytes, in this process. `loopback`: the bytes go
//! through sockets on this machine.

pub mod effect;
pub mod faults;
#[cfg(feature = "live")]
pub mod loopback;
pub mod outcome;
pub mod scripted;
pub mod timed;
pub mod transmission;
pub mod wired;
pub mod world;
