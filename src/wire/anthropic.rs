//! Anthropic Messages, `POST /v1/messages`.
//!
//! Source: Anthropic's API reference, "Streaming Messages", "Handling stop reasons" and "Errors"
//! (November 2026). `input_tokens` leaves out cached and cache-written tokens there; here it is the
//! whole prompt. Counters of a stream are cumulative and may repeat.

mod turns;

use serde_json::{Map, Value};

use super::error::Error;
use super::json::{field, greater, sum, text, tokens};
use super::serve::{self, Answer, Incoming, Reply};
use super::stream::{Dialect, Flow, Reader, Sink, StreamParser, malformed, too_large};
use super::tools::{Fragment, check_number, made_up_id};
use super::typed::{self, Skip, Text, object};
use super::types::{Echo, Request, Response, Stop, ToolCall, Usage, note_malformed};
use super::write;
use super::{
    Adapter, BODY_BYTES_MAX, Headers, Outgoing, Target, bearer, classify, document, outgoing,
};
use crate::router::FaultKind;
use crate::units::Tokens;

use turns::write_turns;

pub(super) const NAME: &str = "anthropic";

/// The field of [`Echo`] with the blocks of thinking before a call. With extended thinking the API
/// wants them back, signatures and all, as long as the model waits for results of its calls.
const THINKING: &str = "thinking_blocks";

/// The first version of the API that refuses `temperature`, `top_p` and `top_k`.
pub(super) const WITHOUT_SAMPLING: &str = "2026-10-21";

/// The adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anthropic {
    /// Path below the host.
    pub path: String,
    /// The required header `anthropic-version`, a date. From 2026-10-21 on the API answers 400 to
    /// sampling parameters, even at their defaults, so [`Request::temperature`] and [`Request::top_p`]
    /// are then not sent.
    pub version: String,
}

impl Default for Anthropic {
    fn default() -> Self {
        Self {
            path: "/v1/messages".to_owned(),
            version: WITHOUT_SAMPLING.to_owned(),
        }
    }
}

impl Adapter for Anthropic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn build(&self, request: &Request, target: &Target<'_>, stream: bool) -> Outgoing {
        let body = write::body(NAME, request, |body| {
            body.text("model", target.model);
            body.number("max_tokens", request.output_cap);
            body.list("messages", |turns| write_turns(&request.messages, turns));
            if !request.system.is_empty() {
                body.text("system", &request.system);
            }
            if !request.tools.is_empty() {
                body.list("tools", |tools| {
                    for tool in &request.tools {
                        tools.object(|object| {
                            object.text("name", &tool.name);
                            object.text("description", &tool.description);
                            object.value("input_schema", &tool.parameters);
                        });
                    }
                });
            }
            // Dates in this form sort as text.
            if self.version.as_str() < WITHOUT_SAMPLING {
                body.float("temperature", request.temperature);
                body.float("top_p", request.top_p);
            }
            if stream {
                body.flag("stream", true);
            }
        });
        let version = ("anthropic-version", self.version.as_str());
        match bearer(target) {
            Some(bearer) => {
                let headers = [version, ("authorization", bearer.as_str())];
                outgoing(self.path.clone(), &headers, body)
            }
            None => outgoing(self.path.clone(), &[version], body),
        }
    }

    fn parse(&self, headers: &Headers, body: &[u8]) -> Result<Response, Error> {
        let mut response = match short(body) {
            Some(response) => response,
            None => whole(&document(body)?)?,
        };
        response.request_id = headers.get("request-id").map(str::to_owned);
        Ok(response)
    }

    fn stream(&self, headers: &Headers) -> Box<dyn StreamParser + Send> {
        let id = headers.get("request-id").map(str::to_owned);
        Box::new(Reader::new(Events::default(), id))
    }

    fn parse_request(&self, _: &str, headers: &Headers, body: &[u8]) -> Result<Incoming, Error> {
        serve::anthropic::parse_request(headers, body)
    }

    fn render(&self, answer: &Answer<'_>) -> Reply {
        serve::anthropic::render(answer)
    }

    fn render_stream(&self, answer: &Answer<'_>) -> Reply {
        serve::anthropic::render_stream(answer)
    }

    fn render_fault(&self, kind: FaultKind, message: &str) -> (u16, Value) {
        serve::anthropic::render_fault(kind, message)
    }

    fn render_fault_frame(&self, kind: FaultKind, message: &str) -> Vec<u8> {
        serve::frame("error", &self.render_fault(kind, message).1)
    }
}

/// Anthropic's stop reasons. `pause_turn` is no finished turn.
fn stop_of(raw: &str) -> Stop {
    match raw {
        "end_turn" | "stop_sequence" => Stop::End,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "tool_use" => Stop::ToolCalls,
        "refusal" => Stop::Filtered,
        _ => Stop::Other,
    }
}

/// The provider's counters as they are: they only grow.
#[derive(Clone, Copy)]
struct Counters {
    input: Tokens,
    cache_write: Tokens,
    cached: Tokens,
    output: Tokens,
    reasoning: Tokens,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            input: Tokens::UNKNOWN,
            cache_write: Tokens::UNKNOWN,
            cached: Tokens::UNKNOWN,
            output: Tokens::UNKNOWN,
            reasoning: Tokens::UNKNOWN,
        }
    }
}

impl Counters {
    fn see(&mut self, holder: &Value) {
        let Some(usage) = field(holder, "usage") else {
            return;
        };
        let seen = |old, name| greater(old, tokens(usage, name));
        self.input = seen(self.input, "input_tokens");
        self.cache_write = seen(self.cache_write, "cache_creation_input_tokens");
        self.cached = seen(self.cached, "cache_read_input_tokens");
        self.output = seen(self.output, "output_tokens");
        if let Some(details) = field(usage, "output_tokens_details") {
            self.reasoning = greater(self.reasoning, tokens(details, "thinking_tokens"));
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            input: sum(self.input, &[self.cache_write, self.cached]),
            output: self.output,
            cached: self.cached,
            cache_write: self.cache_write,
            reasoning: self.reasoning,
        }
    }
}

object! {
    /// A whole answer of everyday shape.
    'de Plain<'de> {
        model: Text<'de> = "model",
        content: Vec<PlainBlock<'de>> = "content",
        stop_reason: Text<'de> = "stop_reason",
        usage: PlainUsage = "usage",
        error: Skip = "error",
    }
}

object! {
    'de PlainBlock<'de> {
        type_: Text<'de> = "type",
        text: Text<'de> = "text",
    }
}

object! {
    'de PlainUsage {
        input: u64 = "input_tokens",
        cache_write: u64 = "cache_creation_input_tokens",
        cached: u64 = "cache_read_input_tokens",
        output: u64 = "output_tokens",
        details: PlainDetails = "output_tokens_details",
    }
}

object! {
    'de PlainDetails {
        reasoning: u64 = "thinking_tokens",
    }
}

object! {
    /// A piece of a block, by far the most frequent event of a stream.
    'de PlainEvent<'de> {
        type_: Text<'de> = "type",
        delta: PlainDelta<'de> = "delta",
        error: Skip = "error",
    }
}

object! {
    'de PlainDelta<'de> {
        type_: Text<'de> = "type",
        text: Text<'de> = "text",
    }
}

/// What [`whole`] says of a body of everyday shape, and `None` of any other.
pub(super) fn short(body: &[u8]) -> Option<Response> {
    let mut answer = Plain::default();
    typed::read(&mut answer, body)?;
    plain(&mut answer)
}

/// A whole answer of everyday shape: text and nothing else. It means what [`whole`] says.
fn plain(body: &mut Plain<'_>) -> Option<Response> {
    let mut said: Option<String> = None;
    for block in body.content.take().filter(|_| body.error.is_none())? {
        if Text::filled(&block.type_) != Some("text") {
            return None;
        }
        match (&mut said, block.text) {
            (Some(said), Some(more)) => said.push_str(&more.0),
            (None, more) => said = Text::kept(more),
            (Some(_), None) => {}
        }
    }
    let usage = body.usage.take().unwrap_or_default();
    let counters = Counters {
        input: typed::tokens(usage.input),
        cache_write: typed::tokens(usage.cache_write),
        cached: typed::tokens(usage.cached),
        output: typed::tokens(usage.output),
        reasoning: typed::tokens(usage.details.unwrap_or_default().reasoning),
    };
    let raw_stop = Text::kept(body.stop_reason.take());
    Some(Response {
        text: said.unwrap_or_default(),
        usage: counters.usage(),
        stop: raw_stop.as_deref().map_or(Stop::Other, stop_of),
        raw_stop,
        model: Text::kept(body.model.take()),
        ..Response::default()
    })
}

pub(super) fn whole(body: &Value) -> Result<Response, Error> {
    if classify::is_error(body) {
        return Err(classify::in_body(body));
    }
    let content = body
        .get("content")
        .and_then(Value::as_array)
        .ok_or_else(malformed)?;
    let salt = text(body, "id").unwrap_or("");
    let mut response = Response::default();
    let mut thinking = Vec::new();
    for block in content {
        match text(block, "type").unwrap_or("") {
            "text" => response.text.push_str(text(block, "text").unwrap_or("")),
            "thinking" => {
                let thought = text(block, "thinking").unwrap_or("");
                response.reasoning.push_str(thought);
                thinking.push(block.clone());
            }
            "redacted_thinking" => thinking.push(block.clone()),
            "tool_use" => {
                let name = text(block, "name").unwrap_or("");
                let id = text(block, "id").map_or_else(
                    || made_up_id(salt, response.tool_calls.len(), name),
                    str::to_owned,
                );
                let raw = arguments(block);
                response.tool_calls.push(ToolCall {
                    echo: kept(&mut thinking),
                    ..ToolCall::new(id, name, raw)
                });
                check_number(response.tool_calls.len())?;
            }
            // Blocks of tools that ran at the provider, and those not yet invented.
            _ => {}
        }
    }
    let mut counters = Counters::default();
    counters.see(body);
    response.usage = counters.usage();
    let raw = text(body, "stop_reason");
    response.stop = match raw.map_or(Stop::Other, stop_of) {
        Stop::End if !response.tool_calls.is_empty() => Stop::ToolCalls,
        stop => stop,
    };
    response.raw_stop = raw.map(str::to_owned);
    response.model = text(body, "model").map(str::to_owned);
    note_malformed(&mut response);
    Ok(response)
}

/// The blocks of thinking since the last call, if they are signed; unsigned ones are of no use.
fn kept(thinking: &mut Vec<Value>) -> Option<Echo> {
    let blocks: Vec<Value> = std::mem::take(thinking)
        .into_iter()
        .filter(|block| {
            text(block, "signature")
                .or_else(|| text(block, "data"))
                .is_some()
        })
        .collect();
    (!blocks.is_empty()).then(|| {
        let mut fields = Map::new();
        fields.insert(THINKING.into(), blocks.into());
        Echo {
            adapter: NAME,
            fields,
        }
    })
}

/// Appends to a text field of a block.
fn append(block: &mut Value, name: &str, more: &str) {
    match block.get_mut(name) {
        Some(Value::String(whole)) => whole.push_str(more),
        _ => block[name] = more.into(),
    }
}

fn index_of(event: &Value) -> Option<u64> {
    event.get("index").and_then(Value::as_u64)
}

/// The input of a call as text.
fn arguments(block: &Value) -> String {
    field(block, "input").map_or_else(String::new, Value::to_string)
}

/// A block that is a call.
struct CallBlock {
    /// The block's index.
    block: u64,
    /// The block's id.
    id: String,
    /// The number of the call.
    call: u64,
    /// A filled `input` with which the block began, in case no pieces follow.
    input: Option<String>,
}

/// Events of a stream.
#[derive(Default)]
pub(super) struct Events {
    counters: Counters,
    /// Blocks that are calls for the caller; tools that run at the provider stream pieces, too.
    call_blocks: Vec<CallBlock>,
    /// The index of the block that began last: where a gateway leaves indices out, pieces belong to it.
    current: u64,
    has_blocks: bool,
    /// Blocks of thinking since the last call, the last one perhaps unfinished.
    thinking: Vec<Value>,
    thinking_bytes: usize,
    stopped: bool,
}

impl Events {
    fn block_start(&mut self, event: &Value, sink: &mut Sink) -> Result<(), Error> {
        let Some(block) = field(event, "content_block") else {
            return Ok(());
        };
        // Without an index it is another block than those before, never the first of them.
        self.current = match index_of(event) {
            Some(index) => index,
            None if self.has_blocks => self.current.wrapping_add(1),
            None => 0,
        };
        self.has_blocks = true;
        match text(block, "type").unwrap_or("") {
            "text" => sink.text(text(block, "text").unwrap_or("")),
            "thinking" => {
                sink.reasoning(text(block, "thinking").unwrap_or(""));
                self.keep(block)?;
            }
            "redacted_thinking" => self.keep(block)?,
            "tool_use" => {
                let id = text(block, "id").unwrap_or("").to_owned();
                let known = |one: &CallBlock| one.block == self.current && one.id == id;
                if !id.is_empty() && self.call_blocks.iter().any(known) {
                    return Ok(()); // said twice
                }
                // `input` is an empty placeholder here; it must not become the start of the
                // arguments (litellm#4537). A filled one counts if no pieces follow.
                let filled = field(block, "input")
                    .and_then(Value::as_object)
                    .is_some_and(|input| !input.is_empty());
                let call = sink.calls();
                // Every block is a call of its own, whatever its index claims.
                sink.call(Fragment {
                    index: Some(call),
                    id: id.clone(),
                    name: text(block, "name").unwrap_or("").to_owned(),
                    echo: kept(&mut self.thinking),
                    ..Fragment::default()
                })?;
                self.call_blocks.push(CallBlock {
                    block: self.current,
                    id,
                    call,
                    input: filled.then(|| arguments(block)),
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn block_delta(&mut self, event: &Value, sink: &mut Sink) -> Result<(), Error> {
        let index = index_of(event).unwrap_or(self.current);
        let Some(delta) = field(event, "delta") else {
            return Ok(());
        };
        match text(delta, "type").unwrap_or("") {
            "text_delta" => sink.text(text(delta, "text").unwrap_or("")),
            "thinking_delta" => {
                let piece = text(delta, "thinking").unwrap_or("");
                sink.reasoning(piece);
                self.grow("thinking", piece)?;
            }
            "signature_delta" => self.grow("signature", text(delta, "signature").unwrap_or(""))?,
            "input_json_delta" => {
                let piece = text(delta, "partial_json").unwrap_or("");
                let block = self.call_blocks.iter_mut().rfind(|one| one.block == index);
                if let Some(block) = block.filter(|_| !piece.is_empty()) {
                    block.input = None;
                    sink.call(Fragment {
                        index: Some(block.call),
                        arguments: piece.to_owned(),
                        ..Fragment::default()
                    })?;
                }
            }
            // Citations, and what is not yet invented.
            _ => {}
        }
        Ok(())
    }

    fn keep(&mut self, block: &Value) -> Result<(), Error> {
        self.count(block.to_string().len())?;
        self.thinking.push(block.clone());
        Ok(())
    }

    fn grow(&mut self, name: &str, piece: &str) -> Result<(), Error> {
        self.count(piece.len())?;
        if let Some(block) = self.thinking.last_mut() {
            append(block, name, piece);
        }
        Ok(())
    }

    /// Thinking is held until a call comes, so it has to be bounded.
    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.thinking_bytes = self.thinking_bytes.saturating_add(bytes);
        if self.thinking_bytes > BODY_BYTES_MAX {
            return Err(too_large("thinking", BODY_BYTES_MAX));
        }
        Ok(())
    }

    fn block_stop(&mut self, index: Option<u64>, sink: &mut Sink) -> Result<(), Error> {
        for block in &mut self.call_blocks {
            if index.is_some_and(|index| index != block.block) {
                continue;
            }
            if let Some(input) = block.input.take() {
                sink.call(Fragment {
                    index: Some(block.call),
                    arguments: input,
                    ..Fragment::default()
                })?;
            }
        }
        Ok(())
    }
}

impl Dialect for Events {
    fn chunk(&mut self, name: &str, event: &Value, sink: &mut Sink) -> Result<Flow, Error> {
        // The type is in the data as well; some gateways leave the event's name out.
        let kind = text(event, "type").unwrap_or(name);
        if kind == "error" || classify::is_error(event) {
            return Err(classify::frame(event));
        }
        match kind {
            "message_start" => {
                if let Some(message) = field(event, "message") {
                    self.counters.see(message);
                    sink.salt = text(message, "id").unwrap_or("").to_owned();
                    sink.model = text(message, "model").map(str::to_owned);
                }
            }
            "content_block_start" => self.block_start(event, sink)?,
            "content_block_delta" => self.block_delta(event, sink)?,
            "content_block_stop" => {
                let index = index_of(event).unwrap_or(self.current);
                self.block_stop(Some(index), sink)?;
            }
            "message_delta" => {
                self.counters.see(event);
                if let Some(raw) =
                    field(event, "delta").and_then(|delta| text(delta, "stop_reason"))
                {
                    sink.stop = Some((stop_of(raw), raw.to_owned()));
                }
            }
            "message_stop" => {
                self.block_stop(None, sink)?;
                self.stopped = true;
            }
            // `ping`, and events not yet invented: the reference asks clients to pass over them.
            _ => {}
        }
        sink.usage = self.counters.usage();
        Ok(if self.stopped { Flow::Last } else { Flow::More })
    }

    fn short(&mut self, name: &str, data: &str, sink: &mut Sink) -> Option<Result<Flow, Error>> {
        if !matches!(name, "" | "content_block_delta") {
            return None;
        }
        let mut event = PlainEvent::default();
        typed::read(&mut event, data.as_bytes())?;
        let is_delta = Text::filled(&event.type_).unwrap_or(name) == "content_block_delta";
        let delta = event.delta.filter(|_| is_delta && event.error.is_none())?;
        if Text::filled(&delta.type_) != Some("text_delta") || self.stopped {
            return None;
        }
        sink.text(Text::filled(&delta.text).unwrap_or(""));
        Some(Ok(Flow::More))
    }

    fn whole(&self, body: &Value) -> Result<Response, Error> {
        whole(body)
    }

    fn is_complete(&self, _: &Sink) -> bool {
        self.stopped
    }
}
