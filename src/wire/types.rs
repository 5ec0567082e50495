//! Normalised requests, answers and stream events: what application code sees, whoever answers.
//!
//! Nothing here was invented by one provider. What a provider wants back unchanged (a signature, its
//! own call id) travels in [`Echo`], which only the adapter that made it reads; what only one
//! provider can do goes into [`Request::extras`].

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::json::parse;
use crate::router;
use crate::units::Tokens;

/// Most tokens of an answer if the caller does not say.
pub const OUTPUT_CAP_DEFAULT: u32 = 256;

/// The only key of [`ToolCall::arguments`] when the model's text was no JSON object; its value is that text.
pub const INVALID_JSON_KEY: &str = "_invalid_json";

/// A question to a model. The model's name is the route's business, not the request's.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Instructions above the conversation; empty for none.
    pub system: String,
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// Tools the model may call.
    pub tools: Vec<ToolSpec>,
    /// Most tokens the answer may have, reasoning included.
    pub output_cap: u32,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Nucleus sampling mass; `None` leaves it to the provider.
    pub top_p: Option<f64>,
    /// Fields for one adapter only, by [`Adapter::name`](super::Adapter::name). They are merged into the body last:
    /// objects key by key, anything else replaces what is there.
    pub extras: BTreeMap<String, Map<String, Value>>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            system: String::new(),
            messages: Vec::new(),
            tools: Vec::new(),
            output_cap: OUTPUT_CAP_DEFAULT,
            temperature: None,
            top_p: None,
            extras: BTreeMap::new(),
        }
    }
}

/// One turn of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What the user said.
    User {
        /// The words.
        text: String,
    },
    /// What the model answered.
    Assistant {
        /// The words; may be empty beside tool calls.
        text: String,
        /// The tools it asked for.
        tool_calls: Vec<ToolCall>,
        /// [`Response::echo`] of the answer; `None` for a turn that no provider answered.
        echo: Option<Echo>,
    },
    /// What a tool returned.
    Tool {
        /// [`ToolCall::id`] of the call.
        call_id: String,
        /// Name of the tool: some providers match results by it.
        name: String,
        /// The result.
        text: String,
    },
}

impl Message {
    /// A user turn.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// The assistant turn that keeps an answer in the conversation. Reasoning is not part of it.
    #[must_use]
    pub fn answer(response: &Response) -> Self {
        Self::Assistant {
            text: response.text.clone(),
            tool_calls: response.tool_calls.clone(),
            echo: response.echo.clone(),
        }
    }

    /// The result of a call.
    #[must_use]
    pub fn result(call: &ToolCall, text: impl Into<String>) -> Self {
        Self::Tool {
            call_id: call.id.clone(),
            name: call.name.clone(),
            text: text.into(),
        }
    }
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, in words for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The provider's id, or one made here if it sent none. Unique within its message.
    pub id: String,
    /// Which tool.
    pub name: String,
    /// The arguments, parsed once. See [`ToolCall::is_malformed`].
    pub arguments: Map<String, Value>,
    /// The arguments as the model wrote them; `{}` where it wrote nothing.
    pub raw: String,
    /// What the provider wants back with this call.
    pub echo: Option<Echo>,
}

impl ToolCall {
    /// A call with its arguments still as text. Empty text means no arguments. A JSON string that
    /// itself holds an object is unpacked, since some servers encode twice. Anything else that is no
    /// object becomes one with the only key [`INVALID_JSON_KEY`].
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, raw: impl Into<String>) -> Self {
        let mut raw = raw.into();
        if raw.trim().is_empty() {
            raw = "{}".to_owned();
        }
        let arguments = match parse(raw.as_bytes()) {
            Ok(Value::Object(object)) => object,
            Ok(Value::String(inner)) => match parse(inner.as_bytes()) {
                Ok(Value::Object(object)) => {
                    raw = inner;
                    object
                }
                _ => marked(&raw),
            },
            Ok(Value::Null) => {
                raw = "{}".to_owned();
                Map::new()
            }
            _ => marked(&raw),
        };
        Self {
            id: id.into(),
            name: name.into(),
            arguments,
            raw,
            echo: None,
        }
    }

    /// Whether the model's text was no JSON object, so that `arguments` only holds the text.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        self.arguments.len() == 1
            && self.arguments.get(INVALID_JSON_KEY).and_then(Value::as_str) == Some(&self.raw)
    }
}

fn marked(raw: &str) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert(INVALID_JSON_KEY.to_owned(), Value::String(raw.to_owned()));
    object
}

/// Fields that go back to the provider with the call or the turn they came with, and to nobody else.
#[derive(Clone, Debug, PartialEq)]
pub struct Echo {
    /// [`Adapter::name`](super::Adapter::name) of the adapter that may send them.
    pub adapter: &'static str,
    /// The fields as they came.
    pub fields: Map<String, Value>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stop {
    /// The model was done.
    End,
    /// The output cap or the window was full.
    Length,
    /// It waits for the results of tool calls.
    ToolCalls,
    /// The provider's policy held the answer or the prompt back.
    Filtered,
    /// Anything else; [`Response::raw_stop`] says what. Not to be taken for a finished turn.
    Other,
}

impl Stop {
    /// All five.
    pub const ALL: [Self; 5] = [
        Self::End,
        Self::Length,
        Self::ToolCalls,
        Self::Filtered,
        Self::Other,
    ];

    /// The name in reports and test data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::Filtered => "filtered",
            Self::Other => "other",
        }
    }

    /// The failure a router should be told of although the HTTP call went well. It is the same
    /// whether the answer was streamed or not: parsing reports `Filtered`, the driver decides.
    #[must_use]
    pub const fn fault(self) -> Option<router::FaultKind> {
        match self {
            Self::Filtered => Some(router::FaultKind::ContentFilter),
            _ => None,
        }
    }
}

/// Tokens a provider says it counted. A counter nobody sent is [`Tokens::UNKNOWN`], never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, cached and cache-written tokens included.
    pub input: Tokens,
    /// Everything billed as output, hidden reasoning included.
    pub output: Tokens,
    /// The part of `input` that was read from a cache.
    pub cached: Tokens,
    /// The part of `input` that was written to a cache.
    pub cache_write: Tokens,
    /// The part of `output` that was reasoning.
    pub reasoning: Tokens,
}

impl Usage {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        input: Tokens::UNKNOWN,
        output: Tokens::UNKNOWN,
        cached: Tokens::UNKNOWN,
        cache_write: Tokens::UNKNOWN,
        reasoning: Tokens::UNKNOWN,
    };

    /// For the router: `None` if neither side is known.
    #[must_use]
    pub fn billed(&self) -> Option<router::Usage> {
        (self.input != Tokens::UNKNOWN || self.output != Tokens::UNKNOWN).then_some(router::Usage {
            input: self.input,
            output: self.output,
        })
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// Something odd in an answer that is good enough to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Warning {
    /// The provider says that the model wrote a tool call nobody could read.
    MalformedToolCall,
    /// A call's arguments are no JSON object ([`ToolCall::is_malformed`]).
    ArgumentsNotJson,
    /// A call came without a tool name.
    UnnamedToolCall,
    /// A call names a tool that was not offered. It is never taken for another one of a similar name.
    UnofferedTool,
}

impl Warning {
    /// The code in reports and test data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MalformedToolCall => "malformed_tool_call",
            Self::ArgumentsNotJson => "arguments_not_json",
            Self::UnnamedToolCall => "unnamed_tool_call",
            Self::UnofferedTool => "unoffered_tool",
        }
    }
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// What the model said.
    pub text: String,
    /// What it thought aloud, where the provider shows it. Never part of `text`.
    pub reasoning: String,
    /// The tools it calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub stop: Stop,
    /// The provider's own word for it.
    pub raw_stop: Option<String>,
    /// Tokens.
    pub usage: Usage,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The model that says it answered.
    pub model: Option<String>,
    /// What the provider wants back with the turn as a whole.
    pub echo: Option<Echo>,
    /// What was odd.
    pub warnings: Vec<Warning>,
}

impl Default for Response {
    /// An empty answer of which nothing is known.
    fn default() -> Self {
        Self {
            text: String::new(),
            reasoning: String::new(),
            tool_calls: Vec::new(),
            stop: Stop::Other,
            raw_stop: None,
            usage: Usage::UNKNOWN,
            request_id: None,
            model: None,
            echo: None,
            warnings: Vec::new(),
        }
    }
}

/// A piece of an answer that arrives over time.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// More words. Never empty.
    Text(String),
    /// More reasoning. Never empty.
    Reasoning(String),
    /// A tool call begins.
    ToolStart {
        /// Its number in the message, from 0; [`StreamEvent::ToolArgs`] refers to it.
        index: usize,
        /// [`ToolCall::id`].
        id: String,
        /// [`ToolCall::name`].
        name: String,
        /// [`ToolCall::echo`].
        echo: Option<Echo>,
    },
    /// More of a call's arguments. Only the concatenation of all pieces is JSON.
    ToolArgs {
        /// The call's number.
        index: usize,
        /// The piece. Never empty.
        text: String,
    },
    /// The answer is complete. The last event, and there is exactly one in a stream that did not fail.
    Done(Finish),
}

/// What is known at the end of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// [`Response::stop`].
    pub stop: Stop,
    /// [`Response::raw_stop`].
    pub raw_stop: Option<String>,
    /// [`Response::usage`].
    pub usage: Usage,
    /// [`Response::request_id`].
    pub request_id: Option<String>,
    /// [`Response::model`].
    pub model: Option<String>,
    /// [`Response::echo`].
    pub echo: Option<Echo>,
    /// [`Response::warnings`].
    pub warnings: Vec<Warning>,
}

impl StreamEvent {
    /// Whether the caller sees something of the answer in it: everything but the end.
    #[must_use]
    pub const fn is_content(&self) -> bool {
        !matches!(self, Self::Done(_))
    }
}

impl Response {
    /// The answer as a stream would have told it.
    pub fn into_events(self, events: &mut Vec<StreamEvent>) {
        if !self.reasoning.is_empty() {
            events.push(StreamEvent::Reasoning(self.reasoning));
        }
        if !self.text.is_empty() {
            events.push(StreamEvent::Text(self.text));
        }
        for (index, call) in self.tool_calls.into_iter().enumerate() {
            events.push(StreamEvent::ToolStart {
                index,
                id: call.id,
                name: call.name,
                echo: call.echo,
            });
            events.push(StreamEvent::ToolArgs {
                index,
                text: call.raw,
            });
        }
        events.push(StreamEvent::Done(Finish {
            stop: self.stop,
            raw_stop: self.raw_stop,
            usage: self.usage,
            request_id: self.request_id,
            model: self.model,
            echo: self.echo,
            warnings: self.warnings,
        }));
    }
}

/// A stream's events on their way to one answer.
#[derive(Debug, Default)]
pub struct Collector {
    response: Response,
    /// Id, name, echo and arguments so far, by the call's number.
    calls: BTreeMap<usize, (String, String, Option<Echo>, String)>,
    finish: Option<Finish>,
}

impl Collector {
    /// Takes the next event.
    pub fn push(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Text(text) => self.response.text.push_str(&text),
            StreamEvent::Reasoning(text) => self.response.reasoning.push_str(&text),
            StreamEvent::ToolStart {
                index,
                id,
                name,
                echo,
            } => {
                self.calls.insert(index, (id, name, echo, String::new()));
            }
            StreamEvent::ToolArgs { index, text } => {
                if let Some(call) = self.calls.get_mut(&index) {
                    call.3.push_str(&text);
                }
            }
            StreamEvent::Done(done) => self.finish = Some(done),
        }
    }

    /// The text so far.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.response.text
    }

    /// The answer; `None` without [`StreamEvent::Done`]: a stream that was cut is no answer.
    #[must_use]
    pub fn response(self) -> Option<Response> {
        let mut response = self.response;
        let finish = self.finish?;
        response.tool_calls = self
            .calls
            .into_values()
            .map(|(id, name, echo, raw)| ToolCall {
                echo,
                ..ToolCall::new(id, name, raw)
            })
            .collect();
        response.stop = finish.stop;
        response.raw_stop = finish.raw_stop;
        response.usage = finish.usage;
        response.request_id = finish.request_id;
        response.model = finish.model;
        response.echo = finish.echo;
        response.warnings = finish.warnings;
        note_malformed(&mut response);
        Some(response)
    }
}

/// Folds a stream's events into the answer a call without streaming would have given: texts are
/// joined, arguments joined and parsed once. `None` without [`StreamEvent::Done`]: a stream that was
/// cut is no answer.
#[must_use]
pub fn collect(events: impl IntoIterator<Item = StreamEvent>) -> Option<Response> {
    let mut collector = Collector::default();
    for event in events {
        collector.push(event);
    }
    collector.response()
}

/// Raises [`Warning::ArgumentsNotJson`] and [`Warning::UnnamedToolCall`] where they apply.
pub(super) fn note_malformed(response: &mut Response) {
    let odd = [
        (
            Warning::ArgumentsNotJson,
            response.tool_calls.iter().any(ToolCall::is_malformed),
        ),
        (
            Warning::UnnamedToolCall,
            response.tool_calls.iter().any(|call| call.name.is_empty()),
        ),
    ];
    for (warning, applies) in odd {
        if applies && !response.warnings.contains(&warning) {
            response.warnings.push(warning);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nt11_arguments_are_parsed_once_and_never_fail() {
        for (raw, expected) in [
            ("", "{}"),
            ("  ", "{}"),
            ("null", "{}"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
            (r#""{\"a\":1}""#, r#"{"a":1}"#),
        ] {
            let call = ToolCall::new("i", "n", raw);
            assert_eq!(Value::Object(call.arguments.clone()).to_string(), expected);
            assert!(!call.is_malformed(), "{raw}");
        }
        for raw in ["{", "[1]", "3", r#""words""#, "{\"a\":1} {"] {
            let call = ToolCall::new("i", "n", raw);
            assert!(call.is_malformed(), "{raw}");
            assert_eq!(call.raw, raw);
            assert_eq!(call.arguments[INVALID_JSON_KEY], Value::from(raw));
        }
    }

    #[test]
    fn a_stream_without_its_end_is_no_answer() {
        assert_eq!(collect([StreamEvent::Text("The answer is".into())]), None);
    }

    #[test]
    fn unknown_counters_are_not_billed_as_zero() {
        assert_eq!(Usage::UNKNOWN.billed(), None);
        let half = Usage {
            input: Tokens::new(3),
            ..Usage::UNKNOWN
        };
        let billed = half.billed().expect("one side is known");
        assert_eq!(
            (billed.input, billed.output),
            (Tokens::new(3), Tokens::UNKNOWN)
        );
    }
}
