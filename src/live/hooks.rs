//! Hooks: who hears of every attempt.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::router::{BreakerChange, FaultKind};
use crate::traffic::Attempt;

/// Hears what a client does. It is called in the middle of a call, never while the router is locked: it
/// should be quick, and it must not panic (a panic ends the call it happens in, and no other).
pub trait Hook: Send + Sync {
    /// An attempt has ended, or a route was passed over.
    fn attempt(&self, attempt: &Attempt);

    /// Something that waiting does not mend: money or credentials.
    fn alert(&self, route: &str, kind: FaultKind) {
        let _ = (route, kind);
    }

    /// The breaker that guards a route changed.
    fn breaker(&self, route: &str, change: BreakerChange) {
        let _ = (route, change);
    }
}

/// Writes one JSON object a line for each attempt ([`SCHEMA`](crate::traffic::SCHEMA)).
pub struct JsonLines<W> {
    writer: Mutex<W>,
    errors: AtomicU64,
}

impl<W: Write + Send> JsonLines<W> {
    /// Lines that go to `writer`, each with one call of `write_all`.
    pub const fn new(writer: W) -> Self {
        Self {
            writer: Mutex::new(writer),
            errors: AtomicU64::new(0),
        }
    }

    /// Lines that could not be written. A full disk stops no call.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// The writer back.
    pub fn into_inner(self) -> W {
        self.writer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> fmt::Debug for JsonLines<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLines")
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}

impl<W: Write + Send> Hook for JsonLines<W> {
    fn attempt(&self, attempt: &Attempt) {
        let Ok(mut line) = serde_json::to_vec(attempt) else {
            self.errors.fetch_add(1, Ordering::Relaxed);
            return;
        };
        line.push(b'\n');
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer
            .write_all(&line)
            .and_then(|()| writer.flush())
            .is_err()
        {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}
