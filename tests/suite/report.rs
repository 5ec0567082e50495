//! From hand-made results to findings and documents.

mod decisions;
mod documents;
mod made;
mod numbers;
