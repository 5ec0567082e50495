//! Text that people wrote, with the place of every value, and errors that point at it.
//!
//! A reader walks a TOML file with [`Table`] and [`Value`], which *collect* complaints in the file's
//! [`Context`] instead of stopping at the first: one run shows everything that is wrong. Unknown keys
//! and unknown names come with the nearest known one. Nothing here knows what the keys mean.

mod diagnostic;
mod table;
mod value;

pub use diagnostic::{Diagnostic, Diagnostics, Location, Severity, nearest};
#[cfg(test)]
pub(crate) use table::census;
pub use table::{At, Context, Document, Table, describe_list};
pub use value::Value;

use std::sync::Arc;

/// Largest configuration file that is read, in bytes.
pub const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// A file's text under the name by which messages call it.
#[derive(Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path as the user gave it.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl SourceFile {
    /// Text that did not come from a file keeps a name in angle brackets, such as `<builtin>`.
    #[must_use]
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            path: path.into(),
            text: text.into(),
        })
    }

    /// Line and column of a byte offset, both from 1; the column counts characters.
    #[must_use]
    pub fn line_column(&self, offset: usize) -> (usize, usize) {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.text[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (
            before.matches('\n').count() + 1,
            before[line_start..].chars().count() + 1,
        )
    }
}
