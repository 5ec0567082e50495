//! The shape of OpenAI's Chat Completions, which two adapters share: building, whole answers, chunks.
//!
//! Source: OpenAI's OpenAPI 2.3.0 and its API reference (November 2026). Reading is tolerant of what
//! compatible servers send in either adapter; the adapters differ in what they build.

use serde_json::Value;

use super::error::Error;
use super::json::{field, joined, label, latest, list, text, tokens};
use super::stream::{Dialect, Flow, Sink, malformed};
use super::tools::{Fragment, TOOL_CALLS_MAX, check_number, made_up_id};
use super::typed::{self, AtMostOne, Skip, Text, object};
use super::types::{Message, Request, Response, Stop, ToolCall, ToolSpec, Usage, note_malformed};
use super::write::{self, List, Object};
use super::{Headers, Outgoing, Target, bearer, classify, document, outgoing};

/// What one adapter of this shape sends differently from another.
pub(super) struct Flavour<'a> {
    pub name: &'static str,
    pub path: &'a str,
    /// The field of the output cap.
    pub cap_field: &'static str,
    /// Whether usage is asked for in streams.
    pub stream_usage: bool,
}

pub(super) fn build(
    flavour: &Flavour<'_>,
    request: &Request,
    target: &Target<'_>,
    stream: bool,
) -> Outgoing {
    let body = write::body(flavour.name, request, |body| {
        body.text("model", target.model);
        body.list("messages", |messages| {
            system(request, messages);
            for turn in &request.messages {
                messages.object(|object| message(turn, object));
            }
        });
        body.number(flavour.cap_field, request.output_cap);
        if !request.tools.is_empty() {
            body.list("tools", |tools| function_tools(&request.tools, tools));
        }
        body.float("temperature", request.temperature);
        body.float("top_p", request.top_p);
        if stream {
            body.flag("stream", true);
            if flavour.stream_usage {
                body.object("stream_options", |options| {
                    options.flag("include_usage", true);
                });
            }
        }
    });
    let bearer = bearer(target);
    let headers = bearer.as_deref().map(|bearer| ("authorization", bearer));
    outgoing(flavour.path.to_owned(), headers.as_slice(), body)
}

/// Instructions as the first turn, which Ollama shares.
pub(super) fn system(request: &Request, messages: &mut List<'_>) {
    if !request.system.is_empty() {
        messages.object(|turn| {
            turn.word("role", "system");
            turn.text("content", &request.system);
        });
    }
}

/// Tools as functions, which Ollama shares.
pub(super) fn function_tools(tools: &[ToolSpec], list: &mut List<'_>) {
    for tool in tools {
        list.object(|object| {
            object.word("type", "function");
            object.object("function", |function| {
                function.text("name", &tool.name);
                function.text("description", &tool.description);
                function.value("parameters", &tool.parameters);
            });
        });
    }
}

fn message(message: &Message, turn: &mut Object<'_, '_>) {
    match message {
        Message::User { text } => {
            turn.word("role", "user");
            turn.text("content", text);
        }
        Message::Assistant {
            text, tool_calls, ..
        } => {
            turn.word("role", "assistant");
            if text.is_empty() {
                turn.null("content");
            } else {
                turn.text("content", text);
            }
            if !tool_calls.is_empty() {
                turn.list("tool_calls", |calls| {
                    for call in tool_calls {
                        calls.object(|object| {
                            object.text("id", &call.id);
                            object.word("type", "function");
                            object.object("function", |function| {
                                function.text("name", &call.name);
                                function.text("arguments", &call.raw);
                            });
                        });
                    }
                });
            }
        }
        Message::Tool { call_id, text, .. } => {
            turn.word("role", "tool");
            turn.text("tool_call_id", call_id);
            turn.text("content", text);
        }
    }
}

/// OpenAI's list of finish reasons; `function_call` is the deprecated form of `tool_calls`.
fn stop_of(raw: &str) -> Stop {
    match raw {
        "stop" => Stop::End,
        "length" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter" => Stop::Filtered,
        _ => Stop::Other,
    }
}

fn usage_of(body: &Value) -> Usage {
    let Some(usage) = field(body, "usage") else {
        return Usage::UNKNOWN;
    };
    let part = |details: &str, name| {
        usage
            .get(details)
            .map_or(crate::units::Tokens::UNKNOWN, |details| {
                tokens(details, name)
            })
    };
    let prompt = |name| part("prompt_tokens_details", name);
    Usage {
        input: tokens(usage, "prompt_tokens"),
        output: tokens(usage, "completion_tokens"),
        // DeepSeek counts its cache beside the details.
        cached: latest(
            tokens(usage, "prompt_cache_hit_tokens"),
            prompt("cached_tokens"),
        ),
        cache_write: prompt("cache_write_tokens"),
        reasoning: part("completion_tokens_details", "reasoning_tokens"),
    }
}

/// Text of a message or delta, and its reasoning. Servers name reasoning `reasoning_content`
/// (DeepSeek, llama.cpp) or `reasoning` (OpenRouter, vLLM), some send both with the same words
/// (DeepSeek-Reasonix#5930), and Mistral puts it into parts of the content.
fn words(message: &Value) -> (String, String) {
    let content = message.get("content").unwrap_or(&Value::Null);
    let mut said = joined(content);
    if said.is_empty() {
        // A refusal takes the place of the content.
        said = text(message, "refusal").unwrap_or("").to_owned();
    }
    let thought = text(message, "reasoning_content")
        .or_else(|| text(message, "reasoning"))
        .map_or_else(
            || {
                list(message, "content")
                    .iter()
                    .filter_map(|part| part.get("thinking"))
                    .map(joined)
                    .collect()
            },
            str::to_owned,
        );
    (said, thought)
}

/// Arguments should be a string holding JSON. Some servers send the object itself.
fn arguments(function: &Value) -> String {
    match field(function, "arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// Calls of a message or delta as fragments: the list, or the one deprecated `function_call`.
fn fragments(message: &Value) -> Vec<Fragment> {
    let mut found: Vec<Fragment> = list(message, "tool_calls")
        .iter()
        .filter(|call| call.is_object())
        .take(TOOL_CALLS_MAX + 1)
        .map(|call| {
            let function = field(call, "function").unwrap_or(call);
            Fragment {
                index: call.get("index").and_then(Value::as_u64),
                id: label(call, "id").unwrap_or_default(),
                name: text(function, "name").unwrap_or("").to_owned(),
                arguments: arguments(function),
                echo: None,
            }
        })
        .collect();
    if let Some(function) = field(message, "function_call") {
        found.push(Fragment {
            index: Some(0),
            name: text(function, "name").unwrap_or("").to_owned(),
            arguments: arguments(function),
            ..Fragment::default()
        });
    }
    found
}

object! {
    /// A whole answer or a chunk of everyday shape.
    'de Plain<'de> {
        id: Text<'de> = "id",
        model: Text<'de> = "model",
        choices: AtMostOne<PlainChoice<'de>> = "choices",
        usage: PlainUsage = "usage",
        error: Skip = "error",
    }
}

object! {
    'de PlainChoice<'de> {
        index: u64 = "index",
        message: PlainMessage<'de> = "message",
        delta: PlainMessage<'de> = "delta",
        finish_reason: Text<'de> = "finish_reason",
    }
}

object! {
    'de PlainMessage<'de> {
        content: Text<'de> = "content",
        refusal: Text<'de> = "refusal",
        reasoning_content: Text<'de> = "reasoning_content",
        reasoning: Text<'de> = "reasoning",
        tool_calls: Vec<PlainCall<'de>> = "tool_calls",
        function_call: Skip = "function_call",
    }
}

object! {
    'de PlainCall<'de> {
        index: u64 = "index",
        id: Text<'de> = "id",
        function: PlainFunction<'de> = "function",
    }
}

object! {
    'de PlainFunction<'de> {
        name: Text<'de> = "name",
        arguments: Text<'de> = "arguments",
    }
}

object! {
    'de PlainUsage {
        input: u64 = "prompt_tokens",
        output: u64 = "completion_tokens",
        cache_hits: u64 = "prompt_cache_hit_tokens",
        prompt: PlainDetails = "prompt_tokens_details",
        completion: PlainDetails = "completion_tokens_details",
    }
}

object! {
    'de PlainDetails {
        cached: u64 = "cached_tokens",
        cache_write: u64 = "cache_write_tokens",
        reasoning: u64 = "reasoning_tokens",
    }
}

fn plain_usage(usage: Option<&PlainUsage>) -> Usage {
    let Some(usage) = usage else {
        return Usage::UNKNOWN;
    };
    let prompt = usage.prompt.as_ref();
    let completion = usage.completion.as_ref();
    Usage {
        input: typed::tokens(usage.input),
        output: typed::tokens(usage.output),
        cached: typed::tokens(prompt.and_then(|part| part.cached).or(usage.cache_hits)),
        cache_write: typed::tokens(prompt.and_then(|part| part.cache_write)),
        reasoning: typed::tokens(completion.and_then(|part| part.reasoning)),
    }
}

impl<'de> Plain<'de> {
    /// The one choice; `None` inside for an answer without any.
    fn choice(&mut self) -> Option<Option<&mut PlainChoice<'de>>> {
        let choice = self.choices.as_mut()?.0.as_mut();
        let index = choice.as_ref().and_then(|choice| choice.index);
        (self.error.is_none() && index.unwrap_or(0) == 0).then_some(choice)
    }
}

impl PlainMessage<'_> {
    fn is_plain(&self) -> bool {
        let calls = self.tool_calls.as_deref().unwrap_or_default();
        let few = calls.len() <= TOOL_CALLS_MAX;
        few && self.function_call.is_none() && calls.iter().all(|call| call.function.is_some())
    }

    /// Text and reasoning, as [`words`] finds them.
    fn words(&mut self) -> (Option<Text<'_>>, Option<Text<'_>>) {
        let filled = |text: &Text<'_>| !text.0.is_empty();
        let said = self.content.take().filter(filled);
        let thought = self.reasoning_content.take().filter(filled);
        (
            said.or(self.refusal.take().filter(filled)),
            thought.or(self.reasoning.take().filter(filled)),
        )
    }
}

impl PlainCall<'_> {
    fn fragment(self) -> Fragment {
        let function = self.function.unwrap_or_default();
        Fragment {
            index: self.index,
            id: Text::kept(self.id).unwrap_or_default(),
            name: Text::kept(function.name).unwrap_or_default(),
            arguments: Text::kept(function.arguments).unwrap_or_default(),
            echo: None,
        }
    }
}

/// What [`whole`] says of a body of everyday shape, and `None` of any other.
pub(super) fn short(body: &[u8]) -> Option<Response> {
    let mut answer = Plain::default();
    typed::read(&mut answer, body)?;
    plain(&mut answer)
}

/// A whole answer of everyday shape. It means what [`whole`] says.
fn plain(body: &mut Plain<'_>) -> Option<Response> {
    let id = body.id.take();
    let salt = Text::filled(&id).unwrap_or("");
    let usage = plain_usage(body.usage.as_ref());
    let model = Text::kept(body.model.take());
    let choice = body.choice()??;
    let reason = Text::kept(choice.finish_reason.take());
    let message = choice.message.as_mut().filter(|said| said.is_plain())?;
    let fragments = message.tool_calls.take().unwrap_or_default().into_iter();
    let tool_calls = calls(salt, fragments.map(PlainCall::fragment));
    let (said, thought) = message.words();
    Some(response(
        Text::kept(said).unwrap_or_default(),
        Text::kept(thought).unwrap_or_default(),
        tool_calls,
        reason,
        usage,
        model,
    ))
}

/// The first choice: the one with index 0, or without an index.
fn choice(body: &Value) -> Option<&Value> {
    list(body, "choices")
        .iter()
        .find(|choice| field(choice, "index").is_none_or(|index| index.as_u64() == Some(0)))
}

pub(super) fn parse(headers: &Headers, body: &[u8]) -> Result<Response, Error> {
    let mut response = match short(body) {
        Some(response) => response,
        None => whole(&document(body)?)?,
    };
    if let Some(id) = headers.get("x-request-id") {
        response.request_id = Some(id.to_owned());
    }
    Ok(response)
}

pub(super) fn whole(body: &Value) -> Result<Response, Error> {
    if classify::is_error(body) {
        return Err(classify::in_body(body));
    }
    let choice = choice(body).ok_or_else(malformed)?;
    let message = field(choice, "message").ok_or_else(malformed)?;
    let salt = label(body, "id").unwrap_or_default();
    let fragments = fragments(message);
    check_number(fragments.len())?;
    let tool_calls = calls(&salt, fragments.into_iter());
    let (said, thought) = words(message);
    Ok(response(
        said,
        thought,
        tool_calls,
        text(choice, "finish_reason").map(str::to_owned),
        usage_of(body),
        text(body, "model").map(str::to_owned),
    ))
}

fn calls(salt: &str, fragments: impl Iterator<Item = Fragment>) -> Vec<ToolCall> {
    fragments
        .enumerate()
        .map(|(number, call)| {
            let id = if call.id.is_empty() {
                made_up_id(salt, number, &call.name)
            } else {
                call.id
            };
            ToolCall::new(id, call.name, call.arguments)
        })
        .collect()
}

fn response(
    text: String,
    reasoning: String,
    tool_calls: Vec<ToolCall>,
    raw_stop: Option<String>,
    usage: Usage,
    model: Option<String>,
) -> Response {
    let stop = match raw_stop.as_deref().map_or(Stop::Other, stop_of) {
        Stop::End if !tool_calls.is_empty() => Stop::ToolCalls,
        stop => stop,
    };
    let mut response = Response {
        text,
        reasoning,
        tool_calls,
        stop,
        raw_stop,
        usage,
        request_id: None,
        model,
        echo: None,
        warnings: Vec::new(),
    };
    note_malformed(&mut response);
    response
}

/// Counters of a chunk: those it has replace earlier ones.
fn count(usage: Usage, sink: &mut Sink) {
    sink.usage = Usage {
        input: latest(sink.usage.input, usage.input),
        output: latest(sink.usage.output, usage.output),
        cached: latest(sink.usage.cached, usage.cached),
        cache_write: latest(sink.usage.cache_write, usage.cache_write),
        reasoning: latest(sink.usage.reasoning, usage.reasoning),
    };
}

/// Chunks of a stream.
pub(super) struct Chunks;

impl Dialect for Chunks {
    fn chunk(&mut self, name: &str, chunk: &Value, sink: &mut Sink) -> Result<Flow, Error> {
        if classify::is_error(chunk) || name == "error" {
            return Err(classify::frame(chunk));
        }
        if sink.salt.is_empty()
            && let Some(id) = label(chunk, "id")
        {
            sink.salt = id;
        }
        if sink.model.is_none() {
            sink.model = text(chunk, "model").map(str::to_owned);
        }
        count(usage_of(chunk), sink);
        // The usage chunk has no choices; Azure's first chunk has none either.
        let Some(choice) = choice(chunk) else {
            return Ok(Flow::More);
        };
        if let Some(delta) = field(choice, "delta").or_else(|| field(choice, "message")) {
            let (said, thought) = words(delta);
            sink.reasoning(&thought);
            sink.text(&said);
            for fragment in fragments(delta) {
                sink.call(fragment)?;
            }
        }
        // Some servers send an empty reason until the end (sglang#3912).
        if let Some(raw) = text(choice, "finish_reason") {
            sink.stop = Some((stop_of(raw), raw.to_owned()));
        }
        Ok(Flow::More)
    }

    fn short(&mut self, name: &str, chunk: &str, sink: &mut Sink) -> Option<Result<Flow, Error>> {
        let mut plain = Plain::default();
        typed::read(&mut plain, chunk.as_bytes())?;
        if name == "error" {
            return None;
        }
        let (id, model) = (plain.id.take(), plain.model.take());
        let usage = plain_usage(plain.usage.as_ref());
        let (delta, reason) = match plain.choice()? {
            Some(choice) => {
                let delta = choice.delta.as_mut().or(choice.message.as_mut());
                (delta, choice.finish_reason.take())
            }
            None => (None, None),
        };
        if delta.as_ref().is_some_and(|delta| !delta.is_plain()) {
            return None;
        }
        if sink.salt.is_empty() {
            sink.salt = Text::kept(id).unwrap_or_default();
        }
        if sink.model.is_none() {
            sink.model = Text::kept(model);
        }
        count(usage, sink);
        if let Some(delta) = delta {
            let calls = delta.tool_calls.take().unwrap_or_default();
            let (said, thought) = delta.words();
            sink.reasoning(Text::filled(&thought).unwrap_or(""));
            sink.text(Text::filled(&said).unwrap_or(""));
            for call in calls {
                if let Err(error) = sink.call(call.fragment()) {
                    return Some(Err(error));
                }
            }
        }
        if let Some(raw) = Text::kept(reason) {
            sink.stop = Some((stop_of(&raw), raw));
        }
        Some(Ok(Flow::More))
    }

    fn whole(&self, body: &Value) -> Result<Response, Error> {
        whole(body)
    }

    fn is_complete(&self, sink: &Sink) -> bool {
        // `[DONE]` may be missing, the reason may not.
        sink.stop.is_some()
    }
}
