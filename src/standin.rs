//! Stand-ins: who answers instead of a provider.
//!
//! At this fidelity an answer is a row of a table: the grade, the tokens, and how a verifier would look
//! at it, as the workload says. No bytes, no time.

pub mod outcome;
