//! Servers that speak Chat Completions after their own fashion: llama.cpp, vLLM, SGLang, LiteLLM and
//! other gateways.
//!
//! What is sent differs from OpenAI's own: the output cap is `max_tokens`, which all of them know, and
//! there need not be a key. What they answer differs more, and is read the same way as OpenAI's:
//!
//! | difference | seen at |
//! | --- | --- |
//! | reasoning in `reasoning_content` or `reasoning` | DeepSeek, llama.cpp; OpenRouter, vLLM |
//! | `code` of an error is an integer, or a number in a string | llama.cpp; LiteLLM |
//! | an `error:` line in place of `data:` in a stream | llama.cpp before 2026 |
//! | tool calls without id or index, or with a number as id | several |
//! | `content`, `delta` or `tool_calls` is `null`; `finish_reason` is an empty string | several |
//! | the usage chunk has a choice with an empty delta | LiteLLM |

use super::chat::{self, Chunks, Flavour};
use super::stream::{Reader, StreamParser};
use serde_json::Value;

use super::serve::{self, Answer, Incoming, Reply};
use super::{Adapter, Error, Headers, Outgoing, Request, Response, Target};
use crate::router::FaultKind;

pub(super) const NAME: &str = "compatible";

/// The adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compatible {
    /// Path below the host.
    pub path: String,
    /// Whether usage is asked for in streams. Old servers refuse `stream_options`.
    pub stream_usage: bool,
}

impl Default for Compatible {
    fn default() -> Self {
        Self {
            path: "/v1/chat/completions".to_owned(),
            stream_usage: true,
        }
    }
}

impl Adapter for Compatible {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, request: &Request, target: &Target<'_>, stream: bool) -> Outgoing {
        let flavour = Flavour {
            name: NAME,
            path: &self.path,
            cap_field: "max_tokens",
            stream_usage: self.stream_usage,
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
        serve::chat::render_compatible_fault(kind, message)
    }
}
