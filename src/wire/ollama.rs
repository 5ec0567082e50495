//! Ollama's own chat API, `POST /api/chat`: a local server whose streams are one JSON object a line.
//!
//! Source: `docs/api.md` of Ollama (November 2026). Arguments of calls are objects, calls have no ids,
//! results are matched by `tool_name`, and a stream ends with an object whose `done` is true.

use serde_json::Value;

use super::chat;
use super::error::Error;
use super::json::{field, label, list, text, tokens};
use super::serve::{self, Answer, Incoming, Reply};
use super::stream::{Dialect, Flow, Reader, Sink, StreamParser, malformed, truncated};
use super::tools::{TOOL_CALLS_MAX, check_number, made_up_id};
use super::typed::{self, Skip, Text, object};
use super::types::{Message, Request, Response, Stop, ToolCall, Usage, note_malformed};
use super::write::{self, Object};
use super::{Adapter, Headers, Outgoing, Target, bearer, classify, document, outgoing};
use crate::router::FaultKind;
use crate::units::Tokens;

pub(super) const NAME: &str = "ollama";

/// The adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ollama {
    /// Path below the host.
    pub path: String,
}

impl Default for Ollama {
    fn default() -> Self {
        Self {
            path: "/api/chat".to_owned(),
        }
    }
}

impl Adapter for Ollama {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, request: &Request, target: &Target<'_>, stream: bool) -> Outgoing {
        let body = write::body(NAME, request, |body| {
            body.text("model", target.model);
            body.list("messages", |messages| {
                chat::system(request, messages);
                for turn in &request.messages {
                    messages.object(|object| message(turn, object));
                }
            });
            // Streaming is the default there, so it is always said.
            body.flag("stream", stream);
            body.object("options", |options| {
                options.number("num_predict", request.output_cap);
                options.float("temperature", request.temperature);
                options.float("top_p", request.top_p);
            });
            if !request.tools.is_empty() {
                body.list("tools", |tools| {
                    chat::function_tools(&request.tools, tools);
                });
            }
        });
        let bearer = bearer(target);
        let headers = bearer.as_deref().map(|bearer| ("authorization", bearer));
        outgoing(self.path.clone(), headers.as_slice(), body)
    }

    fn parse(&self, _: &Headers, body: &[u8]) -> Result<Response, Error> {
        match short(body) {
            Some(response) => Ok(response),
            None => whole(&document(body)?),
        }
    }

    fn stream(&self, _: &Headers) -> Box<dyn StreamParser + Send> {
        Box::new(Reader::new(Lines::default(), None))
    }

    fn parse_request(&self, _: &str, _: &Headers, body: &[u8]) -> Result<Incoming, Error> {
        serve::ollama::parse_request(body)
    }

    fn render(&self, answer: &Answer<'_>) -> Reply {
        serve::ollama::render(answer)
    }

    fn render_stream(&self, answer: &Answer<'_>) -> Reply {
        serve::ollama::render_stream(answer)
    }

    fn render_fault(&self, kind: FaultKind, message: &str) -> (u16, Value) {
        serve::ollama::render_fault(kind, message)
    }

    fn render_fault_frame(&self, kind: FaultKind, message: &str) -> Vec<u8> {
        format!("{}\n", self.render_fault(kind, message).1).into_bytes()
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
            turn.text("content", text);
            if !tool_calls.is_empty() {
                turn.list("tool_calls", |calls| {
                    for call in tool_calls {
                        calls.object(|object| {
                            object.object("function", |function| {
                                function.text("name", &call.name);
                                function.value("arguments", &call.arguments);
                            });
                        });
                    }
                });
            }
        }
        Message::Tool { name, text, .. } => {
            turn.word("role", "tool");
            turn.text("tool_name", name);
            turn.text("content", text);
        }
    }
}

fn stop_of(raw: &str) -> Stop {
    match raw {
        "stop" => Stop::End,
        "length" => Stop::Length,
        _ => Stop::Other,
    }
}

fn usage_of(body: &Value) -> Usage {
    Usage {
        input: tokens(body, "prompt_eval_count"),
        output: tokens(body, "eval_count"),
        cached: Tokens::UNKNOWN,
        cache_write: Tokens::UNKNOWN,
        reasoning: Tokens::UNKNOWN,
    }
}

fn is_done(body: &Value) -> bool {
    body.get("done").and_then(Value::as_bool) == Some(true)
}

/// Calls of a message: id, name, arguments as text.
pub(super) fn calls(message: &Value) -> Vec<(String, String, String)> {
    list(message, "tool_calls")
        .iter()
        .filter_map(|call| {
            let function = field(call, "function")?;
            let arguments = match field(function, "arguments") {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => String::new(),
            };
            Some((
                label(call, "id").unwrap_or_default(),
                text(function, "name").unwrap_or("").to_owned(),
                arguments,
            ))
        })
        .take(TOOL_CALLS_MAX + 1)
        .collect()
}

/// Answers have no id of their own; their time tells them apart.
fn salt(body: &Value) -> &str {
    text(body, "created_at").unwrap_or("")
}

pub(super) fn whole(body: &Value) -> Result<Response, Error> {
    if classify::is_error(body) {
        return Err(classify::in_body(body));
    }
    let message = field(body, "message").ok_or_else(malformed)?;
    let found = calls(message);
    check_number(found.len())?;
    let tool_calls: Vec<ToolCall> = found
        .into_iter()
        .enumerate()
        .map(|(number, (id, name, raw))| {
            let id = if id.is_empty() {
                made_up_id(salt(body), number, &name)
            } else {
                id
            };
            ToolCall::new(id, name, raw)
        })
        .collect();
    let raw = text(body, "done_reason");
    let stop = match raw.map_or(Stop::Other, stop_of) {
        Stop::End if !tool_calls.is_empty() => Stop::ToolCalls,
        stop => stop,
    };
    let mut response = Response {
        text: text(message, "content").unwrap_or("").to_owned(),
        reasoning: text(message, "thinking").unwrap_or("").to_owned(),
        tool_calls,
        stop,
        raw_stop: raw.map(str::to_owned),
        usage: usage_of(body),
        model: text(body, "model").map(str::to_owned),
        ..Response::default()
    };
    note_malformed(&mut response);
    Ok(response)
}

object! {
    /// An object of everyday shape.
    'de Plain<'de> {
        model: Text<'de> = "model",
        created_at: Text<'de> = "created_at",
        message: PlainMessage<'de> = "message",
        done: bool = "done",
        done_reason: Text<'de> = "done_reason",
        input: u64 = "prompt_eval_count",
        output: u64 = "eval_count",
        error: Skip = "error",
    }
}

object! {
    'de PlainMessage<'de> {
        content: Text<'de> = "content",
        thinking: Text<'de> = "thinking",
        tool_calls: Vec<Skip> = "tool_calls",
    }
}

impl Plain<'_> {
    fn is_plain(&self) -> bool {
        let calls = self
            .message
            .as_ref()
            .and_then(|said| said.tool_calls.as_ref());
        self.error.is_none() && calls.is_none_or(Vec::is_empty)
    }

    fn usage(&self) -> Usage {
        Usage {
            input: typed::tokens(self.input),
            output: typed::tokens(self.output),
            ..Usage::UNKNOWN
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
    if !body.is_plain() {
        return None;
    }
    let usage = body.usage();
    let message = body.message.as_mut()?;
    let raw_stop = Text::kept(body.done_reason.take());
    Some(Response {
        text: Text::kept(message.content.take()).unwrap_or_default(),
        reasoning: Text::kept(message.thinking.take()).unwrap_or_default(),
        stop: raw_stop.as_deref().map_or(Stop::Other, stop_of),
        raw_stop,
        usage,
        model: Text::kept(body.model.take()),
        ..Response::default()
    })
}

/// Objects of a stream.
#[derive(Default)]
pub(super) struct Lines {
    done: bool,
}

impl Lines {
    fn last(&mut self, raw: &str, usage: Usage, sink: &mut Sink) -> Flow {
        self.done = true;
        sink.usage = usage;
        // Servers before 0.3 say only that they are done.
        let stop = if raw.is_empty() {
            Stop::End
        } else {
            stop_of(raw)
        };
        sink.stop = Some((stop, raw.to_owned()));
        Flow::Last
    }
}

impl Dialect for Lines {
    fn chunk(&mut self, _: &str, object: &Value, sink: &mut Sink) -> Result<Flow, Error> {
        if classify::is_error(object) {
            return Err(classify::frame(object));
        }
        if sink.salt.is_empty() {
            sink.salt = salt(object).to_owned();
        }
        if sink.model.is_none() {
            sink.model = text(object, "model").map(str::to_owned);
        }
        if let Some(message) = field(object, "message") {
            sink.reasoning(text(message, "thinking").unwrap_or(""));
            sink.text(text(message, "content").unwrap_or(""));
            // Each call arrives whole.
            for (id, name, raw) in calls(message) {
                sink.whole_call(id, name, raw, None)?;
            }
        }
        if !is_done(object) {
            return Ok(Flow::More);
        }
        let reason = text(object, "done_reason").unwrap_or("");
        Ok(self.last(reason, usage_of(object), sink))
    }

    fn short(&mut self, _: &str, line: &str, sink: &mut Sink) -> Option<Result<Flow, Error>> {
        let mut object = Plain::default();
        typed::read(&mut object, line.as_bytes())?;
        if !object.is_plain() {
            return None;
        }
        let usage = object.usage();
        if sink.salt.is_empty() {
            sink.salt = Text::kept(object.created_at).unwrap_or_default();
        }
        if sink.model.is_none() {
            sink.model = Text::kept(object.model);
        }
        if let Some(message) = &object.message {
            sink.reasoning(Text::filled(&message.thinking).unwrap_or(""));
            sink.text(Text::filled(&message.content).unwrap_or(""));
        }
        if object.done != Some(true) {
            return Some(Ok(Flow::More));
        }
        let reason = Text::filled(&object.done_reason).unwrap_or("");
        Some(Ok(self.last(reason, usage, sink)))
    }

    fn whole(&self, body: &Value) -> Result<Response, Error> {
        if is_done(body) {
            whole(body)
        } else {
            Err(truncated())
        }
    }

    fn is_complete(&self, _: &Sink) -> bool {
        self.done
    }

    fn is_line_by_line(&self) -> bool {
        true
    }
}
