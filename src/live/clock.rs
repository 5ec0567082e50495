//! What time it is, and how to wait: the real clock, and one that jumps.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use crate::units::{Duration, Instant};

/// A wait in progress.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time of a client. Everything it decides by time goes through here.
pub trait Clock: Send + Sync {
    /// Time since the clock's own epoch. Never runs backwards.
    fn now(&self) -> Instant;

    /// Time since the Unix epoch. Only for `Retry-After` headers that hold a date.
    fn wall(&self) -> Duration;

    /// The wait that the router asked for between two attempts.
    fn wait(&self, until: Instant) -> Sleep;

    /// How long to wait for bytes that may never come.
    fn patience(&self, until: Instant) -> Sleep;
}

/// The clock of this machine.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    epoch: tokio::time::Instant,
}

impl RealClock {
    /// A clock whose epoch is now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch: tokio::time::Instant::now(),
        }
    }

    fn sleep(&self, until: Instant) -> Sleep {
        match self
            .epoch
            .checked_add(std::time::Duration::from_micros(until.0))
        {
            Some(until) => Box::pin(tokio::time::sleep_until(until)),
            None => Box::pin(std::future::pending()),
        }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a date in a header is relative to the wall clock; no simulated result is"
    )]
    fn wall(&self) -> Duration {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Duration(since.map_or(0, |since| {
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        }))
    }

    fn wait(&self, until: Instant) -> Sleep {
        self.sleep(until)
    }

    fn patience(&self, until: Instant) -> Sleep {
        self.sleep(until)
    }
}

/// A clock for tests that use real sockets and do not want to wait: it stands still but for the waits
/// that the router asks for, which it notes and jumps over. It never loses patience with a server;
/// time limits need the real clock.
#[derive(Debug, Default)]
pub struct VirtualClock {
    inner: Mutex<Virtual>,
}

#[derive(Debug, Default)]
struct Virtual {
    now: Instant,
    wall: Duration,
    waits: Vec<Duration>,
}

impl VirtualClock {
    /// A clock that shows zero while the wall clock shows `wall` (time since the Unix epoch).
    #[must_use]
    pub fn new(wall: Duration) -> Self {
        Self {
            inner: Mutex::new(Virtual {
                wall,
                ..Virtual::default()
            }),
        }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.now = inner.now.after(by);
    }

    /// The waits so far, in order.
    #[must_use]
    pub fn waits(&self) -> Vec<Duration> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.waits.clone()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        self.inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .now
    }

    fn wall(&self) -> Duration {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.wall.plus(Duration(inner.now.0))
    }

    fn wait(&self, until: Instant) -> Sleep {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = until.since(inner.now);
        inner.waits.push(wait);
        inner.now = inner.now.max(until);
        Box::pin(std::future::ready(()))
    }

    fn patience(&self, _until: Instant) -> Sleep {
        Box::pin(std::future::pending())
    }
}
