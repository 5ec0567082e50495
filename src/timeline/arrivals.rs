//! When requests come.

use crate::units::{Duration, Instant};
use crate::workload::{DrawKey, NO_NAME};

/// One request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// Whose it is, if arrivals are declared by tenant; else [`NO_NAME`].
    pub tenant: u16,
}

/// How requests come.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    gap: Duration,
}

impl Arrivals {
    /// One request every `gap`.
    #[must_use]
    pub const fn every(gap: Duration) -> Self {
        Self { gap }
    }

    /// Whether each arrival says whose it is.
    #[must_use]
    pub const fn has_tenants(&self) -> bool {
        false
    }

    /// The arrivals of a replicate, in the order of time.
    #[must_use]
    pub fn open(&self, _key: DrawKey) -> Arriving<'_> {
        Arriving {
            arrivals: self,
            next: Instant::ZERO,
        }
    }
}

/// Arrivals, one after the other; times never fall.
#[derive(Clone, Debug)]
pub struct Arriving<'a> {
    arrivals: &'a Arrivals,
    next: Instant,
}

impl Iterator for Arriving<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = self.next;
        self.next = at.after(self.arrivals.gap);
        Some(Arrival {
            at,
            tenant: NO_NAME,
        })
    }
}
