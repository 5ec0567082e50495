//! Streams: bytes of a body in, events out, whatever the provider.
//!
//! The framing, the limits and the rules about endings are here, once; a [`Dialect`] only reads one
//! JSON object at a time. A body that turns out to be plain JSON although a stream was asked for (some
//! gateways do that, and Gemini without `alt=sse`) is read as well.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::classify;
use super::error::{Error, Place};
use super::json;
use super::sse::{Decoder, Frame, Limits};
use super::tools::{Calls, Fragment, TOOL_CALLS_MAX};
use super::types::{Echo, Finish, Response, Stop, StreamEvent, Usage, Warning};
use crate::router::FaultKind;

/// Most bytes of a body that is read as a whole.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// Most bytes of all events of a stream together, so of the text, reasoning and arguments that are
/// handed out as well. A server that never ends its answer is stopped here. Comments and names of events do not
/// count: nothing of them is kept, and time limits end them.
pub const STREAM_BYTES_MAX: usize = 64 << 20;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As announced.
    Eof,
    /// The transport broke.
    Reset,
}

/// A stream being read.
pub trait StreamParser {
    /// Reads more bytes and appends the events they complete to `events`.
    ///
    /// # Errors
    ///
    /// The provider's error frame, or what is wrong with the bytes. Events before it are in `events`.
    /// After an error the parser only repeats it.
    fn push(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error>;

    /// The body is over.
    ///
    /// # Errors
    ///
    /// As for [`push`](Self::push), and [`Place::TruncatedStream`] or [`Place::Transport`] if the
    /// provider never said that the answer is complete. The first counts as the server's failure
    /// ([`FaultKind::Server`]), the second as the network's ([`FaultKind::Timeout`]).
    fn finish(&mut self, end: End, events: &mut Vec<StreamEvent>) -> Result<(), Error>;
}

/// What a dialect says about one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// More may come.
    More,
    /// This was the last one.
    Last,
}

/// How one provider's stream objects are read.
pub(super) trait Dialect {
    /// One object of the stream. `name` is the event's name, if it has one.
    fn chunk(&mut self, name: &str, chunk: &Value, sink: &mut Sink) -> Result<Flow, Error>;

    /// The same from the text of an object of everyday shape. `None` leaves it to
    /// [`chunk`](Self::chunk), and `sink` as it was.
    fn short(
        &mut self,
        _name: &str,
        _chunk: &str,
        _sink: &mut Sink,
    ) -> Option<Result<Flow, Error>> {
        None
    }

    /// A whole answer, sent although a stream was asked for.
    fn whole(&self, body: &Value) -> Result<Response, Error>;

    /// Whether the body may end here.
    fn is_complete(&self, sink: &Sink) -> bool;

    /// Whether objects come one a line, without SSE.
    fn is_line_by_line(&self) -> bool {
        false
    }
}

/// What a dialect has found so far.
#[derive(Debug, Default)]
pub(super) struct Sink {
    events: Vec<StreamEvent>,
    calls: Calls,
    /// What the provider says about the end.
    pub stop: Option<(Stop, String)>,
    /// Counters so far.
    pub usage: Usage,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// The id of the answer, which tells made-up call ids apart.
    pub salt: String,
    /// The model that says it answers.
    pub model: Option<String>,
    /// What goes back with the turn.
    pub echo: Option<Echo>,
    /// What was odd.
    pub warnings: Vec<Warning>,
    /// Bytes of tool arguments handed out.
    argument_bytes: usize,
}

impl Sink {
    pub(super) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push(StreamEvent::Text(text.to_owned()));
        }
    }

    pub(super) fn reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.events.push(StreamEvent::Reasoning(text.to_owned()));
        }
    }

    /// How many calls there are.
    pub(super) fn calls(&self) -> u64 {
        self.calls.len()
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn call(&mut self, fragment: Fragment) -> Result<(), Error> {
        self.argument_bytes = self.argument_bytes.saturating_add(fragment.arguments.len());
        if self.argument_bytes > BODY_BYTES_MAX {
            return Err(too_large("tool arguments", BODY_BYTES_MAX));
        }
        self.calls
            .add(fragment, &self.salt, &mut self.events)
            .map_err(|_| too_large("number of tool calls", TOOL_CALLS_MAX))
    }

    /// A call that arrives whole. It takes a number of its own, so that nothing can be added to it.
    pub(super) fn whole_call(
        &mut self,
        id: String,
        name: String,
        arguments: String,
        echo: Option<Echo>,
    ) -> Result<(), Error> {
        self.call(Fragment {
            index: Some(self.calls.len()),
            id,
            name,
            arguments,
            echo,
        })
    }

    fn response(&mut self, mut response: Response) {
        response.request_id = response.request_id.or(self.request_id.take());
        response.into_events(&mut self.events);
    }

    fn done(&mut self) {
        self.calls.finish(&self.salt, &mut self.events);
        let (stop, raw_stop) = match self.stop.take() {
            Some((stop, raw)) => (stop, (!raw.is_empty()).then_some(raw)),
            None => (Stop::Other, None),
        };
        // A finish word for "done" beside tool calls means that the model waits for their results.
        let stop = match stop {
            Stop::End if self.has_calls() => Stop::ToolCalls,
            stop => stop,
        };
        self.events.push(StreamEvent::Done(Finish {
            stop,
            raw_stop,
            usage: self.usage,
            request_id: self.request_id.take(),
            model: self.model.take(),
            echo: self.echo.take(),
            warnings: std::mem::take(&mut self.warnings),
        }));
    }
}

enum Body {
    /// Nothing but white space so far.
    Unknown(Vec<u8>),
    Sse(Decoder),
    /// One JSON document.
    Document(Vec<u8>),
    /// One JSON object a line.
    Lines(Vec<u8>),
}

/// The one [`StreamParser`]: framing around a dialect.
pub(super) struct Reader<D> {
    dialect: D,
    body: Body,
    sink: Sink,
    /// Bytes of events or lines so far.
    read_bytes: usize,
    /// Text, reasoning or a tool call has been handed out.
    shown: bool,
    /// `Ok` after the last event, the error after a failure.
    over: Option<Result<(), Error>>,
}

impl<D: Dialect> Reader<D> {
    pub(super) fn new(dialect: D, request_id: Option<String>) -> Self {
        Self {
            dialect,
            body: Body::Unknown(Vec::new()),
            sink: Sink {
                request_id,
                ..Sink::default()
            },
            read_bytes: 0,
            shown: false,
            over: None,
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.body {
            Body::Unknown(held) => {
                held.extend_from_slice(bytes);
                let start = held.strip_prefix(b"\xef\xbb\xbf").unwrap_or(held);
                let Some(&first) = start.iter().find(|byte| !byte.is_ascii_whitespace()) else {
                    // A body of white space holds nothing worth keeping beyond a possible mark.
                    held.truncate(64);
                    return Ok(());
                };
                if first == 0xef && start.len() < 3 && held.len() < 3 {
                    return Ok(()); // a byte order mark may be on its way
                }
                let held = std::mem::take(held);
                self.body = match first {
                    b'{' | b'[' if self.dialect.is_line_by_line() => Body::Lines(Vec::new()),
                    b'{' | b'[' => Body::Document(Vec::new()),
                    _ => Body::Sse(Decoder::new(Limits::default())),
                };
                self.feed(&held)
            }
            Body::Document(held) => {
                if held.len() + bytes.len() > BODY_BYTES_MAX {
                    return Err(too_large("body", BODY_BYTES_MAX));
                }
                held.extend_from_slice(bytes);
                Ok(())
            }
            Body::Lines(held) => {
                let mut held = std::mem::take(held);
                let mut rest = bytes;
                while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
                    extend_line(&mut held, &rest[..end])?;
                    self.line(&held)?;
                    if self.over.is_some() {
                        return Ok(());
                    }
                    held.clear();
                    rest = &rest[end + 1..];
                }
                extend_line(&mut held, rest)?;
                self.body = Body::Lines(held);
                Ok(())
            }
            Body::Sse(decoder) => {
                let mut frames = Vec::new();
                let result = decoder.push(bytes, &mut frames);
                for frame in frames {
                    self.frame(&frame)?;
                    if self.over.is_some() {
                        return Ok(());
                    }
                }
                result.map_err(|error| too_large("line or event", error.limit))
            }
        }
    }

    fn end(&mut self, end: End) -> Result<(), Error> {
        match std::mem::replace(&mut self.body, Body::Unknown(Vec::new())) {
            Body::Unknown(_) => {}
            Body::Document(held) => match json::parse(bare(&held)) {
                Ok(document) => return self.document(&document),
                Err(error) if error.place == Place::TooLarge => return Err(error),
                Err(_) => {}
            },
            Body::Lines(held) => {
                // Half a line is the end of a cut stream, not an object that cannot be read.
                if is_json(bare(&held)) {
                    self.line(&held)?;
                }
            }
            Body::Sse(mut decoder) => {
                let last = decoder
                    .finish()
                    .map_err(|error| too_large("line or event", error.limit))?;
                if let Some(frame) = last {
                    let readable = frame.data.trim() == "[DONE]"
                        || frame.error.is_some()
                        || is_json(frame.data.as_bytes());
                    if readable {
                        self.frame(&frame)?;
                    }
                }
            }
        }
        if self.over.is_some() {
            return Ok(());
        }
        if self.dialect.is_complete(&self.sink) {
            self.complete();
            return Ok(());
        }
        Err(match end {
            End::Eof => truncated(),
            // As for any other failure of the network, nothing says whose fault it was.
            End::Reset => Error::new(
                FaultKind::Timeout,
                Place::Transport,
                "the connection broke in a stream",
            ),
        })
    }

    fn document(&mut self, document: &Value) -> Result<(), Error> {
        if let Value::Array(chunks) = document {
            for chunk in chunks {
                self.object("", chunk)?;
            }
            if self.over.is_none() && self.dialect.is_complete(&self.sink) {
                self.complete();
            }
            return match self.over {
                Some(_) => Ok(()),
                None => Err(truncated()),
            };
        }
        let response = self.dialect.whole(document)?;
        self.sink.response(response);
        self.over = Some(Ok(()));
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Error> {
        self.count(line.len())?;
        let line = bare(line);
        if line.is_empty() || self.over.is_some() {
            return Ok(());
        }
        let short = std::str::from_utf8(line)
            .ok()
            .and_then(|line| self.dialect.short("", line, &mut self.sink));
        if let Some(flow) = short {
            return self.flow(flow?);
        }
        let object = json::parse(line)?;
        self.object("", &object)
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.read_bytes += bytes;
        if self.read_bytes > STREAM_BYTES_MAX {
            return Err(too_large("stream", STREAM_BYTES_MAX));
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), Error> {
        self.count(frame.data.len())?;
        if let Some(error) = &frame.error {
            let object =
                serde_json::from_str(error).unwrap_or_else(|_| Value::from(error.as_str()));
            let body = serde_json::json!({ "error": object });
            return Err(classify::frame(&body));
        }
        if frame.data.trim() == "[DONE]" {
            // Literal text, not JSON (OpenAI). What comes after it is not read.
            if self.dialect.is_complete(&self.sink) {
                self.complete();
                return Ok(());
            }
            return Err(truncated());
        }
        if let Some(flow) = self
            .dialect
            .short(&frame.event, &frame.data, &mut self.sink)
        {
            return self.flow(flow?);
        }
        match json::parse(frame.data.as_bytes()) {
            Ok(object) => self.object(&frame.event, &object),
            // A named event that nobody knows may hold anything.
            Err(_) if frame.event == "ping" => Ok(()),
            Err(_) if frame.event == "error" => {
                let body = serde_json::json!({ "error": frame.data });
                Err(classify::frame(&body))
            }
            Err(error) => Err(error),
        }
    }

    fn object(&mut self, name: &str, object: &Value) -> Result<(), Error> {
        let flow = self.dialect.chunk(name, object, &mut self.sink)?;
        self.flow(flow)
    }

    fn flow(&mut self, flow: Flow) -> Result<(), Error> {
        if flow == Flow::Last {
            self.complete();
        }
        Ok(())
    }

    fn complete(&mut self) {
        self.sink.done();
        self.over = Some(Ok(()));
    }

    /// Moves what was found to the caller and remembers a failure.
    fn hand_over(
        &mut self,
        result: Result<(), Error>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        self.shown |= self
            .sink
            .events
            .iter()
            .any(|event| !matches!(event, StreamEvent::Done(_)));
        events.append(&mut self.sink.events);
        let Err(mut error) = result else {
            return Ok(());
        };
        error.after_output = self.shown;
        if error.place == Place::InStream && self.shown {
            error.place = Place::MidStream;
        }
        if error.request_id.is_none() {
            error.request_id = self.sink.request_id.take();
        }
        self.over = Some(Err(error.clone()));
        Err(error)
    }
}

impl<D: Dialect> StreamParser for Reader<D> {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if let Some(over) = &self.over {
            return over.clone();
        }
        let result = self.feed(bytes);
        self.hand_over(result, events)
    }

    fn finish(&mut self, end: End, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if let Some(over) = &self.over {
            return over.clone();
        }
        let result = self.end(end);
        self.hand_over(result, events)
    }
}

/// Adds to a line that is not yet whole, bounded.
fn extend_line(line: &mut Vec<u8>, bytes: &[u8]) -> Result<(), Error> {
    let limit = Limits::default().line_bytes;
    if line.len() + bytes.len() > limit {
        return Err(too_large("line", limit));
    }
    line.extend_from_slice(bytes);
    Ok(())
}

/// Whether it is whole.
fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Without white space and a byte order mark around it.
fn bare(bytes: &[u8]) -> &[u8] {
    bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii()
}

pub(super) fn malformed() -> Error {
    Error::new(
        FaultKind::Server,
        Place::Malformed,
        "what came is not the JSON it should be",
    )
}

pub(super) fn truncated() -> Error {
    Error::new(
        FaultKind::Server,
        Place::TruncatedStream,
        "the stream ended before the answer was complete",
    )
}

pub(super) fn too_large(what: &str, limit: usize) -> Error {
    Error::new(
        FaultKind::Server,
        Place::TooLarge,
        &format!("{what} over the limit of {limit}"),
    )
}
