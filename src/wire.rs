//! What goes over the wire: normalised requests and answers, and one adapter per provider's dialect.
//!
//! ```text
//! Request ──Adapter::build──▶ Outgoing ─ ─ (somebody sends it) ─ ─▶ status, headers, bytes
//! Response ◀──Adapter::parse── whole body      StreamEvent… ◀──StreamParser::push── bytes as they come
//! Error ◀──Adapter::classify── status that is not 2xx
//! ```
//!
//! Everything here is a pure function of bytes: no socket, no clock, no retry. A driver sends what
//! [`Adapter::build`] made and tells the router what came of it. An application uses [`Request`],
//! [`Response`] and [`StreamEvent`] and never names a provider's field.
//!
//! The adapters are tolerant of what real servers send (missing ids, `null` deltas, reasoning under
//! two names) and strict about one thing: a stream that ends without saying that the answer is
//! complete is an error, not a short answer.

mod anthropic;
mod chat;
mod classify;
mod compatible;
mod error;
mod exchange;
mod gemini;
mod json;
mod ollama;
mod openai;
pub mod overflow;
mod percent;
mod pull;
mod serve;
pub mod sse;
mod stream;
mod tools;
mod typed;
mod types;
mod write;

use std::fmt;

use serde_json::Value;

pub use anthropic::Anthropic;
pub use classify::classify;
pub use compatible::Compatible;
pub use error::{Error, MESSAGE_CHARS_MAX, Place};
pub use exchange::{ERROR_BYTES_MAX, Exchange};
pub use gemini::Gemini;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use serve::{Answer, Incoming, Reply};
pub use stream::{BODY_BYTES_MAX, End, STREAM_BYTES_MAX, StreamParser};
pub use tools::TOOL_CALLS_MAX;
pub use types::{
    Collector, Echo, Finish, INVALID_JSON_KEY, Message, OUTPUT_CAP_DEFAULT, Request, Response,
    Stop, StreamEvent, ToolCall, ToolSpec, Usage, Warning, collect,
};

use crate::router::FaultKind;
use crate::units::Duration;

/// HTTP headers in the order they were sent. Names are compared without regard to case.
///
/// `Debug` does not show the values of headers that carry keys.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first header of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        Self(
            headers
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

/// Whether the value of a header of this name is a secret.
pub(crate) fn is_secret(name: &str) -> bool {
    SECRET_HEADERS
        .iter()
        .any(|secret| name.eq_ignore_ascii_case(secret))
}

/// Headers whose values are secrets.
const SECRET_HEADERS: &[&str] = &["authorization", "x-api-key", "x-goog-api-key", "api-key"];

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(name, value)| {
                let secret = is_secret(name);
                (name, if secret { "…" } else { value.as_str() })
            }))
            .finish()
    }
}

/// An HTTP POST to be sent: everything but the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Path and query, beginning with a slash.
    pub path: String,
    /// Headers beyond those of every HTTP request; `content-type` is among them.
    pub headers: Headers,
    /// The body: JSON text.
    pub body: Vec<u8>,
}

/// Which model is asked, and with whose key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// The provider's name of the model.
    pub model: &'a str,
    /// The key. `None` and an empty one send no credential, as servers on one's own machine want it.
    pub key: Option<&'a str>,
}

impl Target<'_> {
    /// The key, unless there is none.
    fn credential(&self) -> Option<&str> {
        self.key.filter(|key| !key.is_empty())
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("model", &self.model)
            .field("key", &self.key.map(|_| "…"))
            .finish()
    }
}

/// One provider's dialect.
pub trait Adapter: Send + Sync {
    /// Its name: the key of [`Request::extras`] and of [`Echo::adapter`].
    fn name(&self) -> &'static str;

    /// The HTTP request for `request`.
    fn build(&self, request: &Request, target: &Target<'_>, stream: bool) -> Outgoing;

    /// Reads a whole body that came with a 2xx status.
    ///
    /// # Errors
    ///
    /// [`Place::InBody`] if the body is an error all the same, [`Place::Malformed`] if it is not the
    /// JSON it should be, [`Place::TooLarge`] above [`BODY_BYTES_MAX`].
    fn parse(&self, headers: &Headers, body: &[u8]) -> Result<Response, Error>;

    /// Opens a stream that began with a 2xx status.
    fn stream(&self, headers: &Headers) -> Box<dyn StreamParser + Send>;

    /// Reads an answer whose status is not 2xx. `wall` is the time since the Unix epoch.
    fn classify(&self, status: u16, headers: &Headers, body: &[u8], wall: Duration) -> Error {
        classify(status, headers, body, wall)
    }

    /// A stand-in's end: reads a request as a client of this provider sends it. Credentials are not
    /// looked at. The spellings of all known clients are read.
    ///
    /// # Errors
    ///
    /// What the provider would refuse, with the status in [`Error::status`].
    fn parse_request(&self, path: &str, headers: &Headers, body: &[u8]) -> Result<Incoming, Error>;

    /// A stand-in's end: an answer sent at once.
    fn render(&self, answer: &Answer<'_>) -> Reply;

    /// A stand-in's end: an answer in pieces, complete with the signal that it is.
    fn render_stream(&self, answer: &Answer<'_>) -> Reply;

    /// A stand-in's end: status and body of a failure in the provider's documented shape.
    /// [`classify`](Self::classify) reads the kind back.
    fn render_fault(&self, kind: FaultKind, message: &str) -> (u16, Value);

    /// A stand-in's end: the failure as a frame of a stream that has begun.
    fn render_fault_frame(&self, kind: FaultKind, message: &str) -> Vec<u8> {
        serve::frame("", &self.render_fault(kind, message).1)
    }
}

/// A kind of adapter that a route can name.
pub struct AdapterKind {
    /// [`Adapter::name`].
    pub name: &'static str,
    /// What it speaks, in one line.
    pub about: &'static str,
    /// One with the documented defaults.
    pub make: fn() -> Box<dyn Adapter>,
}

/// Every kind of adapter.
pub const ADAPTERS: &[AdapterKind] = &[
    AdapterKind {
        name: openai::NAME,
        about: "OpenAI Chat Completions",
        make: || Box::new(OpenAi::default()),
    },
    AdapterKind {
        name: anthropic::NAME,
        about: "Anthropic Messages",
        make: || Box::new(Anthropic::default()),
    },
    AdapterKind {
        name: gemini::NAME,
        about: "Gemini generateContent",
        make: || Box::new(Gemini::default()),
    },
    AdapterKind {
        name: compatible::NAME,
        about: "servers that speak Chat Completions after their own fashion: llama.cpp, vLLM, gateways",
        make: || Box::new(Compatible::default()),
    },
    AdapterKind {
        name: ollama::NAME,
        about: "Ollama's own chat API, one JSON object a line",
        make: || Box::new(Ollama::default()),
    },
];

/// The adapter of that name with its documented defaults.
#[must_use]
pub fn adapter(name: &str) -> Option<Box<dyn Adapter>> {
    ADAPTERS
        .iter()
        .find(|kind| kind.name == name)
        .map(|kind| (kind.make)())
}

/// Reads a body as JSON, bounded.
fn document(body: &[u8]) -> Result<Value, Error> {
    if body.len() > BODY_BYTES_MAX {
        return Err(Error::new(
            FaultKind::Server,
            Place::TooLarge,
            "the body is over the limit",
        ));
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let value = json::parse(body)?;
    // Before anything else: an error object may come with status 200.
    if classify::is_error(&value) {
        return Err(classify::in_body(&value));
    }
    Ok(value)
}

/// Adds the headers every request has.
fn outgoing(path: String, headers: &[(&str, &str)], body: Vec<u8>) -> Outgoing {
    let mut all = Vec::with_capacity(headers.len() + 1);
    all.extend(
        headers
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned())),
    );
    all.push(("content-type".to_owned(), "application/json".to_owned()));
    Outgoing {
        path,
        headers: Headers(all),
        body,
    }
}

/// The value of `authorization`, if there is a key.
fn bearer(target: &Target<'_>) -> Option<String> {
    target.credential().map(|key| ["Bearer ", key].concat())
}
