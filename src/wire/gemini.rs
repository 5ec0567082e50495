//! Gemini generateContent, `POST /v1beta/models/{model}:generateContent`.
//!
//! Source: Google's `generateContent` reference and "Thought signatures" (November 2026). Fields are read
//! in camel and in snake case: both are in use. `candidatesTokenCount` leaves out thoughts there; here
//! output is everything billed. A `thoughtSignature` goes back with its call, or the next turn is a 400.

mod turns;

use serde_json::{Map, Value};

use super::error::Error;
use super::json::{either, field, latest, list, sum, text, tokens};
use super::serve::{self, Answer, Incoming, Reply};
use super::stream::{Dialect, Flow, Reader, Sink, StreamParser, malformed};
use super::tools::{check_number, made_up_id};
use super::typed::{self, AtMostOne, Skip, Text, object};
use super::types::{Echo, Request, Response, Stop, ToolCall, Usage, Warning, note_malformed};
use super::{Adapter, Headers, Outgoing, Target, classify, document, outgoing, percent, write};
use crate::router::FaultKind;
use crate::units::Tokens;

pub(super) use turns::signed;
use turns::{write_text, write_tools, write_turns};

pub(super) const NAME: &str = "gemini";

/// The field with the provider's signature of a part.
pub(super) const SIGNATURE: &str = "thoughtSignature";

/// The adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gemini {
    /// Path below the host before `/models/`: the version of the API.
    pub base_path: String,
}

impl Default for Gemini {
    fn default() -> Self {
        Self {
            base_path: "/v1beta".to_owned(),
        }
    }
}

impl Adapter for Gemini {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, request: &Request, target: &Target<'_>, stream: bool) -> Outgoing {
        let body = write::body(NAME, request, |body| {
            body.list("contents", |turns| write_turns(&request.messages, turns));
            body.object("generationConfig", |config| {
                config.number("maxOutputTokens", request.output_cap);
                config.float("temperature", request.temperature);
                config.float("topP", request.top_p);
            });
            if !request.system.is_empty() {
                body.object("systemInstruction", |system| {
                    system.list("parts", |parts| write_text(&request.system, parts));
                });
            }
            if !request.tools.is_empty() {
                body.list("tools", |tools| {
                    tools.object(|object| {
                        object.list("functionDeclarations", |declarations| {
                            write_tools(&request.tools, declarations);
                        });
                    });
                });
            }
        });
        let method = if stream {
            ":streamGenerateContent?alt=sse"
        } else {
            ":generateContent"
        };
        let model = percent::encode(target.model);
        let path = [self.base_path.as_str(), "/models/", &model, method].concat();
        let headers = target.credential().map(|key| ("x-goog-api-key", key));
        outgoing(path, headers.as_slice(), body)
    }

    fn parse(&self, _: &Headers, body: &[u8]) -> Result<Response, Error> {
        match short(body) {
            Some(response) => Ok(response),
            None => whole(&document(body)?),
        }
    }

    fn stream(&self, _: &Headers) -> Box<dyn StreamParser + Send> {
        Box::new(Reader::new(Chunks, None))
    }

    fn parse_request(&self, path: &str, _: &Headers, body: &[u8]) -> Result<Incoming, Error> {
        serve::gemini::parse_request(path, body)
    }

    fn render(&self, answer: &Answer<'_>) -> Reply {
        serve::gemini::render(answer)
    }

    fn render_stream(&self, answer: &Answer<'_>) -> Reply {
        serve::gemini::render_stream(answer)
    }

    fn render_fault(&self, kind: FaultKind, message: &str) -> (u16, Value) {
        serve::gemini::render_fault(kind, message)
    }
}

/// Google's finish reasons. There is none for tool calls: they follow from the parts.
fn stop_of(raw: &str) -> Stop {
    match raw {
        "STOP" => Stop::End,
        "MAX_TOKENS" => Stop::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => Stop::Filtered,
        _ => Stop::Other,
    }
}

/// Reasons with which the provider gives up on a call that the model wrote.
const MALFORMED_CALL: &[&str] = &[
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
];

/// The stop, given that there are calls. An unknown reason beside calls is one of the servers that
/// write `FUNCTION_CALL`.
fn stop_with(raw: &str, calls: bool) -> Stop {
    match stop_of(raw) {
        Stop::End if calls => Stop::ToolCalls,
        Stop::Other if calls && !MALFORMED_CALL.contains(&raw) => Stop::ToolCalls,
        stop => stop,
    }
}

/// Counters as they are sent.
struct Counters {
    prompt: Tokens,
    tool_prompt: Tokens,
    answer: Tokens,
    thoughts: Tokens,
    cached: Tokens,
    total: Tokens,
}

impl Counters {
    fn usage(&self) -> Usage {
        // Results of the provider's own tools are read by the model, and counted apart.
        let input = sum(self.prompt, &[self.tool_prompt]);
        let output = match (self.answer.get(), self.thoughts.get()) {
            (Some(_), _) => sum(self.answer, &[self.thoughts]),
            // A zero is left out of the JSON form of a protocol buffer; the total says whether it is one.
            (None, _) => match (self.total.get(), input.get()) {
                (Some(total), Some(input)) if total >= input => Tokens::new(total - input),
                _ => self.thoughts,
            },
        };
        Usage {
            input,
            output,
            cached: self.cached,
            cache_write: Tokens::UNKNOWN,
            reasoning: self.thoughts,
        }
    }
}

fn usage_of(body: &Value) -> Usage {
    let Some(usage) = either(body, "usageMetadata", "usage_metadata") else {
        return Usage::UNKNOWN;
    };
    let count = |camel, snake| latest(tokens(usage, snake), tokens(usage, camel));
    Counters {
        prompt: count("promptTokenCount", "prompt_token_count"),
        tool_prompt: count("toolUsePromptTokenCount", "tool_use_prompt_token_count"),
        answer: count("candidatesTokenCount", "candidates_token_count"),
        thoughts: count("thoughtsTokenCount", "thoughts_token_count"),
        cached: count("cachedContentTokenCount", "cached_content_token_count"),
        total: count("totalTokenCount", "total_token_count"),
    }
    .usage()
}

/// Why a prompt was held back.
fn block_reason(body: &Value) -> Option<&str> {
    let feedback = either(body, "promptFeedback", "prompt_feedback")?;
    either(feedback, "blockReason", "block_reason")?.as_str()
}

fn parts(candidate: &Value) -> &[Value] {
    field(candidate, "content").map_or(&[], |content| list(content, "parts"))
}

/// A part that is a call: name, arguments and what goes back with it.
pub(super) fn call_of(part: &Value) -> Option<(String, String, String, Option<Echo>)> {
    let call = either(part, "functionCall", "function_call")?;
    let mut fields = Map::new();
    let id = text(call, "id").unwrap_or("");
    if !id.is_empty() {
        fields.insert("id".into(), id.into());
    }
    if let Some(signature) = signature(part) {
        fields.insert(SIGNATURE.into(), signature.clone());
    }
    let echo = (!fields.is_empty()).then_some(Echo {
        adapter: NAME,
        fields,
    });
    let arguments = field(call, "args").map_or_else(|| "{}".to_owned(), Value::to_string);
    let name = text(call, "name").unwrap_or("").to_owned();
    Some((id.to_owned(), name, arguments, echo))
}

fn signature(part: &Value) -> Option<&Value> {
    either(part, SIGNATURE, "thought_signature")
}

/// What goes back with a turn if this part of its text is signed. The text of the part is kept beside
/// the signature, since Google's documents forbid joining signed parts with others.
pub(super) fn signed_text(part: &Value) -> Option<Echo> {
    let signature = signature(part)?;
    if part.get("text").is_none() && part.as_object()?.len() > 1 {
        return None; // a picture or what is not yet invented
    }
    let mut fields = Map::new();
    fields.insert("text".into(), text(part, "text").unwrap_or("").into());
    fields.insert(SIGNATURE.into(), signature.clone());
    Some(Echo {
        adapter: NAME,
        fields,
    })
}

pub(super) fn is_thought(part: &Value) -> bool {
    part.get("thought").and_then(Value::as_bool) == Some(true)
}

pub(super) fn whole(body: &Value) -> Result<Response, Error> {
    if classify::is_error(body) {
        return Err(classify::in_body(body));
    }
    let mut response = Response {
        usage: usage_of(body),
        request_id: either(body, "responseId", "response_id")
            .and_then(Value::as_str)
            .map(str::to_owned),
        model: either(body, "modelVersion", "model_version")
            .and_then(Value::as_str)
            .map(str::to_owned),
        ..Response::default()
    };
    let Some(candidate) = list(body, "candidates").first() else {
        let known = ["candidates", "promptFeedback", "prompt_feedback"];
        if !known.iter().any(|name| body.get(name).is_some()) && response.usage == Usage::UNKNOWN {
            return Err(malformed());
        }
        // The prompt was held back: there is nothing to choose from.
        response.stop = Stop::Filtered;
        response.raw_stop = block_reason(body).map(str::to_owned);
        return Ok(response);
    };
    let salt = response.request_id.clone().unwrap_or_default();
    for part in parts(candidate) {
        if let Some((id, name, arguments, echo)) = call_of(part) {
            let id = if id.is_empty() {
                made_up_id(&salt, response.tool_calls.len(), &name)
            } else {
                id
            };
            response.tool_calls.push(ToolCall {
                echo,
                ..ToolCall::new(id, name, arguments)
            });
            check_number(response.tool_calls.len())?;
        } else if is_thought(part) {
            response
                .reasoning
                .push_str(text(part, "text").unwrap_or(""));
        } else {
            response.text.push_str(text(part, "text").unwrap_or(""));
            response.echo = signed_text(part).or(response.echo);
        }
    }
    let raw = either(candidate, "finishReason", "finish_reason").and_then(Value::as_str);
    if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
        response.stop = stop_with(raw, !response.tool_calls.is_empty());
        response.raw_stop = Some(raw.to_owned());
        if MALFORMED_CALL.contains(&raw) {
            response.warnings.push(Warning::MalformedToolCall);
        }
    }
    note_malformed(&mut response);
    Ok(response)
}

object! {
    /// An answer or a chunk of everyday shape.
    'de Plain<'de> {
        candidates: AtMostOne<PlainCandidate<'de>> = "candidates",
        usage: PlainUsage = "usageMetadata",
        id: Text<'de> = "responseId",
        model: Text<'de> = "modelVersion",
        feedback: Skip = "promptFeedback",
        error: Skip = "error",
    }
    not "usage_metadata" | "response_id" | "model_version" | "prompt_feedback"
}

object! {
    'de PlainCandidate<'de> {
        index: u64 = "index",
        content: PlainContent<'de> = "content",
        finish_reason: Text<'de> = "finishReason",
    }
    not "finish_reason"
}

object! {
    'de PlainContent<'de> {
        parts: Vec<PlainPart<'de>> = "parts",
    }
}

object! {
    'de PlainPart<'de> {
        text: Text<'de> = "text",
        thought: bool = "thought",
    }
    not "functionCall" | "function_call" | "thoughtSignature" | "thought_signature"
}

object! {
    'de PlainUsage {
        prompt: u64 = "promptTokenCount",
        tool_prompt: u64 = "toolUsePromptTokenCount",
        answer: u64 = "candidatesTokenCount",
        thoughts: u64 = "thoughtsTokenCount",
        cached: u64 = "cachedContentTokenCount",
        total: u64 = "totalTokenCount",
    }
    not "prompt_token_count" | "tool_use_prompt_token_count" | "candidates_token_count"
        | "thoughts_token_count" | "cached_content_token_count" | "total_token_count"
}

impl<'de> Plain<'de> {
    /// The one candidate, if there is one and nothing is odd.
    fn candidate(&mut self) -> Option<PlainCandidate<'de>> {
        let candidate = self.candidates.take()?.0?;
        let is_first = candidate.index.unwrap_or(0) == 0;
        (is_first && self.error.is_none() && self.feedback.is_none()).then_some(candidate)
    }

    fn usage(&self) -> Usage {
        let Some(usage) = &self.usage else {
            return Usage::UNKNOWN;
        };
        Counters {
            prompt: typed::tokens(usage.prompt),
            tool_prompt: typed::tokens(usage.tool_prompt),
            answer: typed::tokens(usage.answer),
            thoughts: typed::tokens(usage.thoughts),
            cached: typed::tokens(usage.cached),
            total: typed::tokens(usage.total),
        }
        .usage()
    }
}

/// What [`whole`] says of a body of everyday shape, and `None` of any other.
pub(super) fn short(body: &[u8]) -> Option<Response> {
    let mut answer = Plain::default();
    typed::read(&mut answer, body)?;
    plain(&mut answer)
}

/// A whole answer of everyday shape: one candidate of text. It means what [`whole`] says.
fn plain(body: &mut Plain<'_>) -> Option<Response> {
    let candidate = body.candidate()?;
    let mut response = Response {
        usage: body.usage(),
        request_id: body.id.take().map(|id| id.0.into_owned()),
        model: body.model.take().map(|model| model.0.into_owned()),
        ..Response::default()
    };
    for part in candidate
        .content
        .unwrap_or_default()
        .parts
        .unwrap_or_default()
    {
        let target = match part.thought {
            Some(true) => &mut response.reasoning,
            _ => &mut response.text,
        };
        match Text::kept(part.text) {
            Some(said) if target.is_empty() => *target = said,
            Some(said) => target.push_str(&said),
            None => {}
        }
    }
    if let Some(raw) = Text::kept(candidate.finish_reason) {
        if MALFORMED_CALL.contains(&raw.as_str()) {
            return None;
        }
        response.stop = stop_of(&raw);
        response.raw_stop = Some(raw);
    }
    Some(response)
}

/// Chunks of a stream: each is a whole answer object with a part of the answer.
pub(super) struct Chunks;

/// Counters of a chunk: those it has replace earlier ones.
fn count(usage: Usage, sink: &mut Sink) {
    sink.usage = Usage {
        input: latest(sink.usage.input, usage.input),
        output: latest(sink.usage.output, usage.output),
        cached: latest(sink.usage.cached, usage.cached),
        cache_write: Tokens::UNKNOWN,
        reasoning: latest(sink.usage.reasoning, usage.reasoning),
    };
}

impl Dialect for Chunks {
    fn short(&mut self, name: &str, chunk: &str, sink: &mut Sink) -> Option<Result<Flow, Error>> {
        let mut plain = Plain::default();
        typed::read(&mut plain, chunk.as_bytes())?;
        let candidate = plain.candidate()?;
        let raw = Text::filled(&candidate.finish_reason);
        if name == "error" || raw.is_some_and(|raw| MALFORMED_CALL.contains(&raw)) {
            return None;
        }
        let usage = plain.usage();
        if let Some(id) = plain.id.take() {
            if sink.salt.is_empty() {
                sink.salt = id.0.clone().into_owned();
            }
            if sink.request_id.as_deref() != Some(&id.0) {
                sink.request_id = Some(id.0.into_owned());
            }
        }
        if let Some(model) = plain.model.take()
            && sink.model.as_deref() != Some(&model.0)
        {
            sink.model = Some(model.0.into_owned());
        }
        count(usage, sink);
        let parts = candidate
            .content
            .as_ref()
            .and_then(|content| content.parts.as_ref());
        for part in parts.map_or(&[][..], Vec::as_slice) {
            let said = Text::filled(&part.text).unwrap_or("");
            match part.thought {
                Some(true) => sink.reasoning(said),
                _ => sink.text(said),
            }
        }
        if let Some(raw) = raw {
            sink.stop = Some((stop_with(raw, sink.has_calls()), raw.to_owned()));
        }
        Some(Ok(Flow::More))
    }

    fn chunk(&mut self, name: &str, chunk: &Value, sink: &mut Sink) -> Result<Flow, Error> {
        if classify::is_error(chunk) || name == "error" {
            return Err(classify::frame(chunk));
        }
        if let Some(id) = either(chunk, "responseId", "response_id").and_then(Value::as_str) {
            if sink.salt.is_empty() {
                sink.salt = id.to_owned();
            }
            sink.request_id = Some(id.to_owned());
        }
        if let Some(model) = either(chunk, "modelVersion", "model_version").and_then(Value::as_str)
        {
            sink.model = Some(model.to_owned());
        }
        count(usage_of(chunk), sink);
        let candidate = list(chunk, "candidates").iter().find(|candidate| {
            field(candidate, "index").is_none_or(|index| index.as_u64() == Some(0))
        });
        let Some(candidate) = candidate else {
            if let Some(reason) = block_reason(chunk) {
                sink.stop = Some((Stop::Filtered, reason.to_owned()));
            }
            return Ok(Flow::More);
        };
        for part in parts(candidate) {
            if let Some((id, name, arguments, echo)) = call_of(part) {
                // Calls arrive whole, so each is one of its own.
                sink.whole_call(id, name, arguments, echo)?;
            } else if is_thought(part) {
                sink.reasoning(text(part, "text").unwrap_or(""));
            } else {
                sink.text(text(part, "text").unwrap_or(""));
                if let Some(echo) = signed_text(part) {
                    sink.echo = Some(echo);
                }
            }
        }
        let raw = either(candidate, "finishReason", "finish_reason").and_then(Value::as_str);
        if let Some(raw) = raw.filter(|raw| !raw.is_empty()) {
            sink.stop = Some((stop_with(raw, sink.has_calls()), raw.to_owned()));
            if MALFORMED_CALL.contains(&raw) && sink.warnings.is_empty() {
                sink.warnings.push(Warning::MalformedToolCall);
            }
        }
        Ok(Flow::More)
    }

    fn whole(&self, body: &Value) -> Result<Response, Error> {
        let response = whole(body)?;
        // One chunk alone, without its end, is a cut stream and not a short answer.
        if response.raw_stop.is_none() && response.stop == Stop::Other {
            return Err(super::stream::truncated());
        }
        Ok(response)
    }

    fn is_complete(&self, sink: &Sink) -> bool {
        sink.stop.is_some()
    }
}
