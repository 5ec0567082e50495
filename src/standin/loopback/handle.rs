//! One request: where it belongs, whether it may, what it asks, what is answered.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::body::{Body as _, Incoming as Receiving};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::Value;

use super::endpoint::{Service, endpoint};
use super::sending::Sending;
use super::sightings::Sighting;
use super::{Asked, Clock, MODELS_MAX, State, other};
use crate::router::FaultKind;
use crate::standin::faults::Act;
use crate::standin::transmission::{Ending, SCHEDULE_HEADER, Transmission};
use crate::standin::world::{ATTEMPT_HEADER, REQUEST_HEADER, ROUTE_HEADER};
use crate::wire::{Adapter, Answer, Headers, Incoming};

/// Bytes of a body from which it counts as large.
const LARGE_BYTES: usize = 1 << 20;
/// How many times the limit of a body is read and thrown away, so that a client that sent too much can
/// finish and read why it was refused.
const DRAINED_TIMES: usize = 4;

/// Answers one request.
pub(super) async fn handle(
    state: Arc<State>,
    request: Request<Receiving>,
) -> Result<Response<Sending>, Infallible> {
    let (head, body) = request.into_parts();
    let headers: Headers = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let target = head
        .uri
        .path_and_query()
        .map_or_else(String::new, ToString::to_string);
    let mut call = Call {
        state: &state,
        headers: &headers,
        method: head.method.as_str(),
        target: &target,
        dialect: None,
        body: None,
        asked: None,
        number: None,
        act: None,
        is_acted: false,
        acted: None,
        refused: None,
        is_stream: false,
    };
    let mut answer = call.answer(body).await;
    call.note(answer.status, &answer.headers);
    let at_once = !call.is_stream;
    let head_after = call.is_acted.then(|| head_after(&state, &mut answer));
    drop(call);
    let response = response(&state, answer, at_once);
    if let Some(wait) = head_after {
        // A client that hangs up meanwhile ends this.
        tokio::time::sleep(wait).await;
    }
    Ok(response)
}

/// On a timeline a provider says nothing, not even a status, before it has something to say. An answer that
/// never comes is held open as long as any, and then the connection breaks.
fn head_after(state: &State, answer: &mut Transmission) -> std::time::Duration {
    match answer.pieces.first_mut() {
        Some(first) => {
            let wait = std::mem::replace(&mut first.wait, crate::units::Duration::ZERO);
            std::time::Duration::from_micros(wait.0)
        }
        None if answer.ending == Ending::Hang => {
            answer.ending = Ending::Reset;
            state.bounds.hold_max
        }
        None => std::time::Duration::ZERO,
    }
}

/// A request on its way through the server.
struct Call<'a> {
    state: &'a Arc<State>,
    headers: &'a Headers,
    method: &'a str,
    target: &'a str,
    dialect: Option<&'static str>,
    body: Option<Held>,
    asked: Option<Incoming>,
    number: Option<(u64, u8)>,
    act: Option<Act>,
    /// Whether a timeline decided.
    is_acted: bool,
    /// How the timeline made it fail: what a script would call it, and the kind.
    acted: Option<(&'static str, FaultKind)>,
    /// Why it was refused, if it was.
    refused: Option<FaultKind>,
    is_stream: bool,
}

impl Call<'_> {
    async fn answer(&mut self, body: Receiving) -> Transmission {
        let path = self.target.split('?').next().unwrap_or_default();
        let gemini_key = self.headers.get("x-goog-api-key").is_some();
        let Some((dialect, service)) = endpoint(path, gemini_key) else {
            return self.refuse(
                404,
                FaultKind::InvalidRequest,
                "nothing is served at this path",
            );
        };
        self.dialect = Some(dialect);
        if self.method != service.method() {
            let mut refused = self.refuse(
                405,
                FaultKind::InvalidRequest,
                "this path takes another method",
            );
            let allow = ("allow".to_owned(), service.method().to_owned());
            refused.headers.0.push(allow);
            return refused;
        }
        if !has_credential(dialect, self.target, self.headers) {
            return self.refuse(401, FaultKind::Auth, "there is no key in this request");
        }
        match self.receive(body).await {
            Ok(held) => self.body = Some(held),
            Err(TooMuch::OfOne) => {
                return self.refuse(413, FaultKind::InvalidRequest, "the body is too large");
            }
            Err(TooMuch::Together) => {
                return self.refuse(503, FaultKind::Overloaded, "too many large bodies at once");
            }
            Err(TooMuch::Time) => {
                return self.refuse(408, FaultKind::Timeout, "the body did not come in time");
            }
        }
        match service {
            Service::Complete => self.complete().await,
            Service::Show => whole(&other::show()),
            Service::Models => {
                let mut names: Vec<&str> = Vec::new();
                for (model, _) in &self.state.names {
                    if !names.contains(&model.as_str()) {
                        names.push(model);
                    }
                }
                if names.is_empty() {
                    names.push("standin");
                }
                whole(&other::models(dialect, path, &names))
            }
        }
    }

    /// The answer to a request for a completion.
    async fn complete(&mut self) -> Transmission {
        let state = self.state;
        let Some((adapter, dialect)) = self
            .dialect
            .and_then(|dialect| Some((state.adapter(dialect)?, dialect)))
        else {
            return self.refuse(404, FaultKind::InvalidRequest, "no such dialect");
        };
        let held = self.body.take();
        let body = held.as_ref().map_or(&[][..], |held| &held.bytes);
        let _turn = if body.len() > LARGE_BYTES {
            state.large.acquire().await.ok()
        } else {
            None
        };
        let parsed = adapter.parse_request(self.target, self.headers, body);
        let incoming = match parsed {
            Ok(incoming) => incoming,
            Err(error) => {
                self.body = held;
                let status = error.status.unwrap_or(400);
                return self.refuse(status, error.kind, &error.message);
            }
        };
        let (number, ordinal) = self.count(dialect, &incoming.model);
        let decimal = |name| self.headers.get(name).and_then(|text| text.parse().ok());
        let number = decimal(REQUEST_HEADER).unwrap_or(number);
        let attempt: u8 = self
            .headers
            .get(ATTEMPT_HEADER)
            .and_then(|text| text.parse().ok())
            .unwrap_or(1);
        self.number = Some((number, attempt));
        self.is_stream = incoming.stream;
        if self.act.is_none() {
            let mut names = vec![incoming.model.as_str()];
            match self.headers.get(ROUTE_HEADER) {
                Some(route) => names.push(route),
                None => names.extend(
                    (state.names.iter())
                        .filter(|(model, _)| *model == incoming.model)
                        .map(|(_, route)| route.as_str()),
                ),
            }
            self.act = state.faults.act(&names, number, attempt).cloned();
        }
        let response = state.model.answer(&Asked {
            adapter: dialect,
            incoming: &incoming,
            body,
            headers: self.headers,
            number,
        });
        // As the providers' own look: Gemini names the answer, the others the request.
        let id = match dialect {
            "openai" => format!("req_oa_{ordinal}"),
            "gemini" => format!("resp_{ordinal}"),
            other => format!("req_{}_{ordinal}", &other[..2]),
        };
        let answer = Answer {
            response: &response,
            id: &id,
            model: &incoming.model,
        };
        // A script of faults goes before the timeline.
        let played = match (&state.stage, &self.act) {
            (Some(stage), None) => {
                let attempt = self.headers.get(ATTEMPT_HEADER).map(|_| attempt);
                stage.play(state, self.headers, number, attempt, &incoming)
            }
            _ => None,
        };
        let mut sent = match played {
            Some(played) => {
                self.number = Some((played.number, played.attempt));
                self.is_acted = true;
                self.acted = played.failure();
                played.transmission(adapter, &answer, incoming.stream)
            }
            None => Transmission::of(adapter, &answer, incoming.stream, self.act.as_ref()),
        };
        // A status of one's own has the headers of one's own, and no others.
        if !matches!(self.act, Some(Act::Status { .. })) {
            identify(dialect, &id, &mut sent.headers);
        }
        self.asked = Some(incoming);
        self.body = held;
        sent
    }

    /// Counts the request and takes what a test has queued for it. Returns how many of this model came
    /// before, and which of its dialect it is, from 1.
    fn count(&mut self, dialect: &'static str, model: &str) -> (u64, u64) {
        let mut counts = self.state.counts();
        self.act = counts
            .queues
            .get_mut(dialect)
            .and_then(std::collections::VecDeque::pop_front);
        let ordinal = counts.by_adapter.entry(dialect).or_default();
        *ordinal += 1;
        let ordinal = *ordinal;
        let mut key = (dialect, model.to_owned());
        if counts.by_model.len() >= MODELS_MAX && !counts.by_model.contains_key(&key) {
            key.1 = String::new();
        }
        let before = counts.by_model.entry(key).or_default();
        *before += 1;
        (*before - 1, ordinal)
    }

    /// The whole body, within the bounds.
    async fn receive(&self, mut body: Receiving) -> Result<Held, TooMuch> {
        let bounds = &self.state.bounds;
        let mut held = Held {
            bytes: Vec::new(),
            state: Arc::clone(self.state),
        };
        let mut result = Ok(());
        let mut read = 0_usize;
        let reading = async {
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                let Ok(frame) = frame else {
                    return; // the client left
                };
                let Some(data) = frame.data_ref() else {
                    continue;
                };
                read = read.saturating_add(data.len());
                if result.is_ok() {
                    result = held.push(data, bounds.body_bytes_max, bounds.bodies_bytes_max);
                }
                if read > bounds.body_bytes_max.saturating_mul(DRAINED_TIMES) {
                    return;
                }
            }
        };
        if tokio::time::timeout(bounds.read_max, reading)
            .await
            .is_err()
        {
            return Err(TooMuch::Time);
        }
        result.map(|()| held)
    }

    fn refuse(&mut self, status: u16, kind: FaultKind, message: &str) -> Transmission {
        self.refused = Some(kind);
        let state = self.state;
        let adapter = self.dialect.and_then(|name| state.adapter(name));
        refusal(adapter, status, kind, message)
    }

    fn note(&self, status: u16, answered: &Headers) {
        let seq = self.state.seen.fetch_add(1, Ordering::SeqCst);
        if let Some(sightings) = &self.state.sightings {
            sightings.write(&Sighting {
                seq,
                method: self.method,
                target: self.target,
                headers: self.headers,
                body: self.body.as_ref().map(|held| held.bytes.as_slice()),
                dialect: self.dialect,
                asked: self.asked.as_ref(),
                number: self.number,
                status,
                act: self.act.as_ref(),
                acted: self.acted,
                refused: self.refused,
                answered,
            });
        }
    }
}

/// Why a body was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TooMuch {
    OfOne,
    Together,
    Time,
}

/// A body, counted among all that are held.
struct Held {
    bytes: Vec<u8>,
    state: Arc<State>,
}

impl Held {
    fn push(&mut self, data: &[u8], max: usize, together_max: usize) -> Result<(), TooMuch> {
        let too_much = if self.bytes.len() + data.len() > max {
            TooMuch::OfOne
        } else if self.state.held.fetch_add(data.len(), Ordering::SeqCst) + data.len()
            > together_max
        {
            self.state.held.fetch_sub(data.len(), Ordering::SeqCst);
            TooMuch::Together
        } else {
            self.bytes.extend_from_slice(data);
            return Ok(());
        };
        // What is thrown away need not be held while the rest is drained.
        self.release();
        Err(too_much)
    }

    fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.state.held.fetch_sub(bytes.len(), Ordering::SeqCst);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

/// Whether a request brings a key in any of the places where clients of these providers put it. Servers
/// on one's own machine want none.
fn has_credential(dialect: &str, target: &str, headers: &Headers) -> bool {
    if matches!(dialect, "compatible" | "ollama") {
        return true;
    }
    let bearer = headers.get("authorization").is_some_and(|value| {
        value.split_once(' ').is_some_and(|(scheme, key)| {
            scheme.eq_ignore_ascii_case("bearer") && !key.trim().is_empty()
        })
    });
    let named = ["x-api-key", "x-goog-api-key", "api-key"]
        .iter()
        .any(|name| headers.get(name).is_some_and(|key| !key.trim().is_empty()));
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let parameter = query
        .split('&')
        .any(|pair| pair.strip_prefix("key=").is_some_and(|key| !key.is_empty()));
    bearer || named || parameter
}

/// A refusal in the dialect's shape, or in the plainest if it belongs to none.
fn refusal(
    adapter: Option<&dyn Adapter>,
    status: u16,
    kind: FaultKind,
    message: &str,
) -> Transmission {
    let mut body = match adapter {
        Some(adapter) => adapter.render_fault(kind, message).1,
        None => serde_json::json!({
            "error": { "message": message, "type": "invalid_request_error", "param": null, "code": null },
        }),
    };
    // Two dialects repeat the status in the body.
    if let Some(code) = body.pointer_mut("/error/code")
        && code.is_number()
    {
        *code = status.into();
    }
    if status == 401
        && let Some(word) = body.pointer_mut("/error/status")
    {
        *word = "UNAUTHENTICATED".into();
    }
    Transmission::refusal(status, &body, None)
}

fn whole(body: &Value) -> Transmission {
    Transmission::refusal(200, body, None)
}

/// Adds the id of the request under the name the dialect has for it, if the answer has none.
fn identify(dialect: &str, id: &str, headers: &mut Headers) {
    let name = match dialect {
        "anthropic" => "request-id",
        "gemini" => "x-goog-request-id",
        _ => "x-request-id",
    };
    if headers.get(name).is_none() {
        headers.0.push((name.to_owned(), id.to_owned()));
    }
}

fn response(state: &Arc<State>, sent: Transmission, at_once: bool) -> Response<Sending> {
    let schedule = (state.clock == Clock::Virtual).then(|| sent.schedule().header());
    let sending = Sending::new(Arc::clone(state), sent.pieces, sent.ending, at_once);
    let mut response = Response::new(sending);
    *response.status_mut() =
        StatusCode::from_u16(sent.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in &sent.headers.0 {
        // How the body is framed is the server's business: a script that says otherwise would have
        // it send something that is no HTTP.
        let is_framing = ["content-length", "transfer-encoding"]
            .iter()
            .any(|framing| name.eq_ignore_ascii_case(framing));
        if let (Ok(name), Ok(value), false) = (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_str(value),
            is_framing,
        ) {
            response.headers_mut().append(name, value);
        }
    }
    if let Some(schedule) = schedule.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert(SCHEDULE_HEADER, schedule);
    }
    response
}
