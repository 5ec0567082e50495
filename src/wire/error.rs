//! A failed call, in the router's ten kinds.

use std::fmt;

use crate::router::{Fault, FaultKind};
use crate::units::Duration;

/// Most characters kept of a provider's message: enough to recognise it, too few to hold a prompt
/// that a provider quotes back.
pub const MESSAGE_CHARS_MAX: usize = 80;

/// Where in an exchange a failure showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The HTTP status was not 2xx.
    Status,
    /// The status was 200 and the body an error object.
    InBody,
    /// An error frame in a stream before any output: falling back is still possible.
    InStream,
    /// An error frame, or any other failure, after output: it must be reported, never replayed.
    MidStream,
    /// The body ended without the signal that the answer is complete.
    TruncatedStream,
    /// The transport broke before that signal.
    Transport,
    /// What came is not the JSON it should be.
    Malformed,
    /// A line, an event or a body passed its size limit.
    TooLarge,
    /// It took longer than the caller wants to wait.
    Limit,
}

impl Place {
    /// The name in reports and test data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::InBody => "in_body",
            Self::InStream => "in_stream",
            Self::MidStream => "mid_stream",
            Self::TruncatedStream => "truncated_stream",
            Self::Transport => "transport",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::Limit => "time_limit",
        }
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What it means for the router.
    pub kind: FaultKind,
    /// Where it showed.
    pub place: Place,
    /// Output had been handed out before it, so the caller has seen part of an answer.
    pub after_output: bool,
    /// HTTP status, or the one an error frame names.
    pub status: Option<u16>,
    /// The machine code that decided, or the most specific one there was.
    pub code: Option<String>,
    /// The beginning of the provider's message, at most [`MESSAGE_CHARS_MAX`] characters.
    pub message: String,
    /// How long the provider asks to wait, at least.
    pub retry_after: Option<Duration>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
}

impl Error {
    /// A failure without a provider's error object.
    #[must_use]
    pub fn new(kind: FaultKind, place: Place, message: &str) -> Self {
        Self {
            kind,
            place,
            after_output: false,
            status: None,
            code: None,
            message: shorten(message),
            retry_after: None,
            request_id: None,
        }
    }

    /// For the router. What the attempt cost is not known: no provider says it with an error.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault {
            kind: self.kind,
            retry_after: self.retry_after,
            usage: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.kind.name(), self.place.name())?;
        if let Some(status) = self.status {
            write!(f, ", HTTP {status}")?;
        }
        if let Some(code) = &self.code {
            write!(f, ", {code}")?;
        }
        write!(f, "): {}", self.message)
    }
}

impl std::error::Error for Error {}

/// The first [`MESSAGE_CHARS_MAX`] characters, control characters replaced by spaces.
pub(super) fn shorten(message: &str) -> String {
    message
        .chars()
        .take(MESSAGE_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
