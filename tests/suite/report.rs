//! From hand-made results to findings and documents.

mod decisions;
mod documents;
pub(crate) mod made;
mod numbers;
