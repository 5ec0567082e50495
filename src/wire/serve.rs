//! The other end of the wire: what a stand-in for a provider needs to read requests and write answers.
//!
//! It is held against the reading side in tests: what is rendered here parses back to the same answer,
//! and what [`Adapter::build`](super::Adapter::build) made is read back as the same request. The shapes
//! are the documented ones, since other people's clients are to accept them.

pub(super) mod anthropic;
pub(super) mod chat;
pub(super) mod gemini;
pub(super) mod ollama;

use serde_json::{Value, json};

use super::error::{Error, Place};
use super::json::{label, text};
use super::types::{Message, Request, Response, Stop, ToolCall, ToolSpec};
use super::{BODY_BYTES_MAX, Headers};
use crate::router::FaultKind;
use crate::units::Tokens;

/// A request as a stand-in received it.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// The model that is asked.
    pub model: String,
    /// Whether the answer is to be streamed.
    pub stream: bool,
    /// The request. Options without a normalised form are left out.
    pub request: Request,
    /// Pictures, sounds, files and other parts of turns that were left out because they are not text.
    pub media_parts: usize,
}

/// An answer to be written.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The answer. Its `raw_stop`, `request_id` and `model` are not used.
    pub response: &'a Response,
    /// The id of the request and of the answer.
    pub id: &'a str,
    /// The model that claims to answer.
    pub model: &'a str,
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers; `content-type` is among them.
    pub headers: Headers,
    /// The body: one element if it is sent at once, one per event of a stream.
    pub pieces: Vec<Vec<u8>>,
}

impl Reply {
    pub(super) fn whole(mut headers: Vec<(&str, &str)>, body: &Value) -> Self {
        headers.push(("content-type", "application/json"));
        Self {
            status: 200,
            headers: headers.into_iter().collect(),
            pieces: vec![body.to_string().into_bytes()],
        }
    }

    pub(super) fn stream(
        mut headers: Vec<(&str, &str)>,
        content_type: &'static str,
        pieces: Vec<Vec<u8>>,
    ) -> Self {
        headers.push(("content-type", content_type));
        Self {
            status: 200,
            headers: headers.into_iter().collect(),
            pieces,
        }
    }
}

/// The media type of Server-Sent Events.
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// One event: a name if there is one, `data: ` with a space, a blank line. Some clients need each of these.
pub(super) fn frame(event: &str, data: &Value) -> Vec<u8> {
    if event.is_empty() {
        format!("data: {data}\n\n").into_bytes()
    } else {
        format!("event: {event}\ndata: {data}\n\n").into_bytes()
    }
}

/// Text in pieces that a stream sends one by one: each word with the white space after it.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// Arguments in at most three pieces.
pub(super) fn thirds(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let size = chars.len().div_ceil(3).max(1);
    chars
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// A request that is wrong, as the caller gets to hear it.
pub(super) fn refuse(message: &str) -> Error {
    Error {
        status: Some(400),
        ..Error::new(FaultKind::InvalidRequest, Place::Status, message)
    }
}

/// The body of a request.
pub(super) fn received(body: &[u8]) -> Result<Value, Error> {
    if body.len() > BODY_BYTES_MAX {
        return Err(Error {
            status: Some(413),
            ..Error::new(
                FaultKind::InvalidRequest,
                Place::TooLarge,
                "the body is too large",
            )
        });
    }
    match super::json::parse(body) {
        Ok(Value::Object(object)) => Ok(Value::Object(object)),
        _ => Err(refuse("the body is not a JSON object")),
    }
}

/// How many parts of a content are neither text nor one of `read`, the types that are read elsewhere.
pub(super) fn media_parts(content: &Value, read: &[&str]) -> usize {
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    parts
        .iter()
        .filter(|part| part.is_object() && part.get("text").is_none())
        .filter(|part| !text(part, "type").is_some_and(|type_| read.contains(&type_)))
        .count()
}

/// The model of a request whose body names it.
pub(super) fn model(body: &Value) -> Result<String, Error> {
    text(body, "model")
        .map(str::to_owned)
        .ok_or_else(|| refuse("model: field required"))
}

/// A tool in the shape of Chat Completions, which Ollama shares.
pub(super) fn function_tool(tool: &Value) -> Option<ToolSpec> {
    let function = tool.get("function")?;
    Some(ToolSpec {
        name: label(function, "name")?,
        description: text(function, "description").unwrap_or("").to_owned(),
        parameters: function
            .get("parameters")
            .cloned()
            .unwrap_or_else(|| json!({ "type": "object" })),
    })
}

/// The call that a result belongs to: the one with that id; else, as some clients send no ids or make up
/// one for the result alone, the first without a result, of that name if there is one.
pub(super) fn call_of_result<'a>(
    messages: &'a [Message],
    id: &str,
    name: &str,
) -> Option<&'a ToolCall> {
    let calls = || {
        messages.iter().flat_map(|message| match message {
            Message::Assistant { tool_calls, .. } => tool_calls.as_slice(),
            _ => &[],
        })
    };
    let answered = |call: &ToolCall| {
        messages
            .iter()
            .any(|message| matches!(message, Message::Tool { call_id, .. } if *call_id == call.id))
    };
    calls()
        .rfind(|call| call.id == id)
        .or_else(|| calls().find(|call| (name.is_empty() || call.name == name) && !answered(call)))
}

/// The name of the tool whose call has that id; some results do not repeat it.
pub(super) fn name_of(messages: &[Message], id: &str) -> String {
    call_of_result(messages, id, "").map_or_else(String::new, |call| call.name.clone())
}

/// A cap; absent ones are the default.
pub(super) fn cap(value: Option<&Value>) -> Option<u32> {
    value
        .and_then(Value::as_u64)
        .map(|cap| u32::try_from(cap).unwrap_or(u32::MAX))
}

/// Adds a counter that is known.
pub(super) fn count(object: &mut Value, name: &str, tokens: Tokens) {
    if let Some(count) = tokens.get() {
        object[name] = count.into();
    }
}

/// `whole` less the parts that are known.
pub(super) fn less(whole: Tokens, parts: &[Tokens]) -> Tokens {
    Tokens::from(whole.get().map(|whole| {
        parts
            .iter()
            .filter_map(|part| part.get())
            .fold(whole, u32::saturating_sub)
    }))
}

/// The provider's word for a stop, given its words for the five in the order of [`Stop::ALL`].
pub(super) fn word(stop: Stop, words: [&'static str; 5]) -> &'static str {
    words[stop as usize]
}

/// The status and message with which the documents of most providers describe a kind of failure.
pub(super) fn status_of(kind: FaultKind) -> u16 {
    match kind {
        FaultKind::RateLimit => 429,
        FaultKind::Overloaded => 503,
        FaultKind::Timeout => 504,
        FaultKind::Server => 500,
        FaultKind::Quota => 402,
        FaultKind::Auth => 401,
        FaultKind::ContextLength
        | FaultKind::Unsupported
        | FaultKind::ContentFilter
        | FaultKind::InvalidRequest => 400,
    }
}
