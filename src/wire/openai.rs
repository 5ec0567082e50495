//! OpenAI Chat Completions, `POST /v1/chat/completions`.
//!
//! Source: OpenAI's API reference and OpenAPI 2.3.0 (November 2026). `max_tokens` is deprecated there in
//! favour of `max_completion_tokens`; usage in a stream comes only if it is asked for.

use super::chat::{self, Chunks, Flavour};
use super::stream::{Reader, StreamParser};
use serde_json::Value;

use super::serve::{self, Answer, Incoming, Reply};
use super::{Adapter, Error, Headers, Outgoing, Request, Response, Target};
use crate::router::FaultKind;

pub(super) const NAME: &str = "openai";

/// The adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAi {
    /// Path below the host.
    pub path: String,
}

impl Default for OpenAi {
    fn default() -> Self {
        Self {
            path: "/v1/chat/completions".to_owned(),
        }
    }
}

impl Adapter for OpenAi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, request: &Request, target: &Target<'_>, stream: bool) -> Outgoing {
        let flavour = Flavour {
            name: NAME,
            path: &self.path,
            cap_field: "max_completion_tokens",
            stream_usage: true,
        };
        chat::build(&flavour, request, target, stream)
    }

    fn parse(&self, headers: &Headers, body: &[u8]) -> Result<Response, Error> {
        chat::parse(headers, body)
    }

    fn stream(&self, headers: &Headers) -> Box<dyn StreamParser + Send> {
        let id = headers.get("x-request-id").map(str::to_owned);
        Box::new(Reader::new(Chunks, id))
    }

    fn parse_request(&self, path: &str, _: &Headers, body: &[u8]) -> Result<Incoming, Error> {
        serve::chat::parse_request(path, body)
    }

    fn render(&self, answer: &Answer<'_>) -> Reply {
        serve::chat::render(answer)
    }

    fn render_stream(&self, answer: &Answer<'_>) -> Reply {
        serve::chat::render_stream(answer)
    }

    fn render_fault(&self, kind: FaultKind, message: &str) -> (u16, Value) {
        serve::chat::render_fault(kind, message)
    }
}
