//! The shape of OpenAI's Chat Completions, which two adapters share: building, whole answers, chunks.
//!
//! Source: OpenAI's OpenAPI 2.3.0 and its API reference (November 2026). Reading is tolerant of what
//! compatible servers send in either adapter; the adapters differ in what they build.

use serde_json::Value;

use super::error::Error;
use super::json::{field, joined, label, latest, list, text, tokens};
use super::stream::{Dialect, Flow, Sink, malformed};
use super::tools::{Fragment, made_up_id};
use super::types::{
    Message, Request, Response, Stop, ToolCall, ToolSpec, Usage, Warning, note_malformed,
};
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

/// The first choice: the one with index 0, or without an index.
fn choice(body: &Value) -> Option<&Value> {
    list(body, "choices")
        .iter()
        .find(|choice| field(choice, "index").is_none_or(|index| index.as_u64() == Some(0)))
}

pub(super) fn parse(headers: &Headers, body: &[u8]) -> Result<Response, Error> {
    let mut response = whole(&document(body)?)?;
    if let Some(id) = headers.get("x-request-id") {
        response.request_id = Some(id.to_owned());
    }
    Ok(response)
}

fn whole(body: &Value) -> Result<Response, Error> {
    if classify::is_error(body) {
        return Err(classify::in_body(body));
    }
    let choice = choice(body).ok_or_else(malformed)?;
    let message = field(choice, "message").ok_or_else(malformed)?;
    let salt = label(body, "id").unwrap_or_default();
    let tool_calls: Vec<ToolCall> = fragments(message)
        .into_iter()
        .enumerate()
        .map(|(number, call)| {
            let id = if call.id.is_empty() {
                made_up_id(&salt, number, &call.name)
            } else {
                call.id
            };
            ToolCall::new(id, call.name, call.arguments)
        })
        .collect();
    let raw = text(choice, "finish_reason");
    let stop = match raw.map_or(Stop::Other, stop_of) {
        Stop::End if !tool_calls.is_empty() => Stop::ToolCalls,
        stop => stop,
    };
    let (said, thought) = words(message);
    let mut response = Response {
        text: said,
        reasoning: thought,
        tool_calls,
        stop,
        raw_stop: raw.map(str::to_owned),
        usage: usage_of(body),
        request_id: None,
        model: text(body, "model").map(str::to_owned),
        echo: None,
        warnings: Vec::<Warning>::new(),
    };
    note_malformed(&mut response);
    Ok(response)
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
        let usage = usage_of(chunk);
        sink.usage = Usage {
            input: latest(sink.usage.input, usage.input),
            output: latest(sink.usage.output, usage.output),
            cached: latest(sink.usage.cached, usage.cached),
            cache_write: latest(sink.usage.cache_write, usage.cache_write),
            reasoning: latest(sink.usage.reasoning, usage.reasoning),
        };
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

    fn whole(&self, body: &Value) -> Result<Response, Error> {
        whole(body)
    }

    fn is_complete(&self, sink: &Sink) -> bool {
        // `[DONE]` may be missing, the reason may not.
        sink.stop.is_some()
    }
}
