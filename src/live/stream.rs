//! An answer as it comes.

use std::fmt;
use std::sync::Arc;

use super::client::{Shared, Spend};
use super::error::CallError;
use super::walk::Walk;
use crate::router::Served;
use crate::traffic::Attempt;
use crate::wire::StreamEvent;

/// A streamed answer. Nothing is sent before the first [`next`](Self::next), and nothing is read that nobody asks
/// for: a slow reader slows the server down.
///
/// Dropping it cancels the call. Time in which nobody asks for more counts against no limit of the attempt.
pub struct AnswerStream {
    shared: Arc<Shared>,
    inner: Inner,
}

enum Inner {
    Refused(Option<CallError>),
    Walk(Box<Walk>),
}

impl AnswerStream {
    pub(super) fn new(shared: Arc<Shared>, walk: Result<Walk, CallError>) -> Self {
        Self {
            shared,
            inner: match walk {
                Ok(walk) => Inner::Walk(Box::new(walk)),
                Err(error) => Inner::Refused(Some(error)),
            },
        }
    }

    /// The next event; `None` after [`StreamEvent::Done`] or an error. The future may be dropped and asked
    /// for again without losing anything.
    ///
    /// # Errors
    ///
    /// Why there is no answer, or no more of it.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, CallError>> {
        match &mut self.inner {
            Inner::Refused(error) => error.take().map(Err),
            Inner::Walk(walk) => walk.next().await,
        }
    }

    /// Attempts so far.
    #[must_use]
    pub fn trail(&self) -> &[Attempt] {
        match &self.inner {
            Inner::Refused(_) => &[],
            Inner::Walk(walk) => walk.trail(),
        }
    }

    /// Which answer was served, once it is settled.
    #[must_use]
    pub fn served(&self) -> Option<Served> {
        match &self.inner {
            Inner::Refused(_) => None,
            Inner::Walk(walk) => walk.served(),
        }
    }

    /// Name of the route whose answer was served, once it is settled.
    #[must_use]
    pub fn route(&self) -> Option<&str> {
        let served = self.served()?;
        let route = self
            .shared
            .catalogue
            .routes
            .get(usize::from(served.route.0));
        route.map(|route| route.name.as_str())
    }

    /// What all attempts so far cost.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::of(self.trail())
    }
}

impl fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerStream")
            .field("attempts", &self.trail().len())
            .field("served", &self.served())
            .finish_non_exhaustive()
    }
}
