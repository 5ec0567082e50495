//! Which attempts belong to one request: requests that may still go on, bounded in time and number.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::row::Row;
use crate::units::{Duration, Instant};

/// Most requests that are kept open; above it the one that was silent longest is closed early.
pub(super) const OPEN_MAX: usize = 200_000;
/// Most places of one request whose last attempt is remembered.
const PLACES_MAX: usize = 16;

/// What tells that two attempts belong to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tie {
    /// The header `x-routelab-request`, which a caller sets for each request and a gateway passes on.
    Request,
    /// The header `idempotency-key`.
    IdempotencyKey,
    /// The trace id of `traceparent`, together with the conversation, if that is in the log: one trace may
    /// hold many requests.
    Trace,
    /// The header `x-request-id`, as Envoy sets it.
    RequestId,
    /// The same conversation, in whatever dialect, after an attempt that failed.
    Conversation,
    /// The same body, after an attempt that failed.
    Body,
    /// Nothing: it is a request by itself.
    Nothing,
}

impl Tie {
    /// All of them, the surest first.
    pub const ALL: [Self; 7] = [
        Self::Request,
        Self::IdempotencyKey,
        Self::Trace,
        Self::RequestId,
        Self::Conversation,
        Self::Body,
        Self::Nothing,
    ];

    /// The word for it in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "x-routelab-request",
            Self::IdempotencyKey => "idempotency-key",
            Self::Trace => "traceparent",
            Self::RequestId => "x-request-id",
            Self::Conversation => "conversation",
            Self::Body => "body",
            Self::Nothing => "nothing",
        }
    }

    /// Whether whoever calls gives the request a name. Else it is only guessed that attempts belong together.
    #[must_use]
    pub const fn is_id(self) -> bool {
        matches!(
            self,
            Self::Request | Self::IdempotencyKey | Self::Trace | Self::RequestId
        )
    }

    /// What it goes by in this row.
    fn id(self, row: &Row) -> Option<&str> {
        match self {
            Self::Request => row.header("x-routelab-request"),
            Self::IdempotencyKey => row.header("idempotency-key"),
            Self::Trace => row.trace_id(),
            Self::RequestId => row.header("x-request-id"),
            Self::Conversation => row.conversation.as_deref(),
            Self::Body => row.body.as_deref(),
            Self::Nothing => None,
        }
    }
}

/// What a row is tied by.
pub(super) struct Tied {
    pub(super) tie: Tie,
    /// What it is called, for people and for the file of data classes.
    pub(super) id: Option<String>,
    key: u128,
}

impl Tied {
    /// By `only`, or by the surest thing that the row has.
    pub(super) fn of(row: &Row, only: Option<Tie>) -> Self {
        let ties = Tie::ALL.into_iter();
        let found = ties
            .filter(|tie| only.is_none_or(|only| only == *tie))
            .find_map(|tie| Some((tie, tie.id(row)?)));
        let Some((tie, id)) = found else {
            return Self {
                tie: Tie::Nothing,
                id: None,
                key: 0,
            };
        };
        let mut digest = Sha256::new();
        digest.update([tie as u8]);
        digest.update((id.len() as u64).to_le_bytes());
        digest.update(id);
        if let (Tie::Trace, Some(conversation)) = (tie, &row.conversation) {
            digest.update(conversation);
        }
        let mut key = [0; 16];
        key.copy_from_slice(&digest.finalize()[..16]);
        Self {
            tie,
            id: Some(super::row::short(id)),
            key: u128::from_le_bytes(key),
        }
    }
}

/// The last attempt of a request at one place.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) place: u32,
    pub(super) at: Instant,
    /// How long it was told to wait.
    pub(super) told: Option<Duration>,
    /// First bytes of its body's digest.
    pub(super) body: Option<u64>,
}

/// A request that may go on.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) tie: Tie,
    pub(super) attempts: u64,
    /// When its last attempt came.
    pub(super) last_at: Instant,
    /// Whether its last attempt succeeded.
    pub(super) succeeded: bool,
    pub(super) first_succeeded: bool,
    /// Where it has been, the last visit to each place.
    pub(super) visits: Vec<Visit>,
    /// As far as its attempts said.
    pub(super) tenant: Option<Box<str>>,
    pub(super) data_class: Option<Box<str>>,
    /// Whether it has been where it must not.
    pub(super) strayed: bool,
}

impl Open {
    pub(super) fn new(tie: Tie, at: Instant) -> Self {
        Self {
            tie,
            attempts: 0,
            last_at: at,
            succeeded: false,
            first_succeeded: false,
            visits: Vec::new(),
            tenant: None,
            data_class: None,
            strayed: false,
        }
    }

    /// Remembers a visit, in place of an earlier one to the same place.
    pub(super) fn visit(&mut self, visit: Visit) {
        let known = (self.visits.iter()).position(|one| one.place == visit.place);
        match known {
            Some(index) => self.visits[index] = visit,
            None if self.visits.len() < PLACES_MAX => self.visits.push(visit),
            None => {}
        }
    }
}

/// All requests that may go on.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    by_key: BTreeMap<u128, Open>,
    /// By the time of their last attempt.
    by_age: BTreeSet<(Instant, u128)>,
}

impl OpenRequests {
    /// Takes the request that an attempt belongs to; `ended` is told of one that it shows to be over. It
    /// has to be given back with [`OpenRequests::put`].
    pub(super) fn take(&mut self, tied: &Tied, mut ended: impl FnMut(Open)) -> Option<Open> {
        if tied.tie == Tie::Nothing {
            return None;
        }
        let open = self.by_key.remove(&tied.key)?;
        self.by_age.remove(&(open.last_at, tied.key));
        // Somebody who asks the same again after an answer asks anew.
        if open.succeeded && !tied.tie.is_id() {
            ended(open);
            return None;
        }
        Some(open)
    }

    /// Keeps a request. The one that was silent longest is returned if there are too many, and so is one
    /// that nothing can belong to any more.
    pub(super) fn put(&mut self, tied: &Tied, open: Open) -> Option<Open> {
        if tied.tie == Tie::Nothing {
            return Some(open);
        }
        self.by_age.insert((open.last_at, tied.key));
        self.by_key.insert(tied.key, open);
        if self.by_key.len() > OPEN_MAX {
            return self.pop();
        }
        None
    }

    /// A request that has been silent for longer than `within`, if there is one.
    pub(super) fn expired(&mut self, now: Instant, within: Duration) -> Option<Open> {
        let (last, _) = self.by_age.first()?;
        if now.since(*last) > within {
            self.pop()
        } else {
            None
        }
    }

    /// The request that has been silent longest.
    pub(super) fn pop(&mut self) -> Option<Open> {
        let (_, key) = self.by_age.pop_first()?;
        self.by_key.remove(&key)
    }
}
