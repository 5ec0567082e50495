//! From hand-made results to findings and documents.

mod decisions;
mod documents;
mod drill;
pub(crate) mod made;
mod numbers;
