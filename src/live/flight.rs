//! One attempt on its way: an HTTP request that was sent, and the answer as it comes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use reqwest::header::{HeaderName, HeaderValue};

use super::clock::Clock;
use super::endpoint::{Endpoint, join};
use crate::router::{FaultKind, Limits, RouteId};
use crate::units::{Duration, Instant};
use crate::wire::{
    Adapter, Collector, End, Error, Exchange, Finish, Headers, Outgoing, Place, Request,
    StreamEvent, Target, Warning,
};

type Sending = Pin<Box<dyn Future<Output = Result<reqwest::Response, reqwest::Error>> + Send>>;

enum Wire {
    /// Nothing could be sent.
    Grounded(Box<Error>),
    /// The status has not come yet.
    Sending(Sending),
    /// The body is coming.
    Reading(reqwest::Response),
}

/// One attempt of a call.
pub(super) struct Flight {
    pub(super) route: RouteId,
    pub(super) attempt: u8,
    /// A verifier is going to look: the answer is kept back.
    pub(super) buffer: bool,
    /// Whether a stream was asked for.
    streamed: bool,
    /// When it was sent, in the attempt's own time.
    pub(super) started: Instant,
    /// When the first content came, if it was streamed.
    pub(super) first: Option<Instant>,
    /// Nothing of the request reached a server.
    pub(super) never_left: bool,
    /// The wait before it.
    pub(super) waited: Duration,
    pub(super) status: Option<u16>,
    /// The answer so far.
    pub(super) collector: Collector,
    /// Its end, once it has come.
    pub(super) finish: Option<Finish>,
    /// A call names a tool that was not offered.
    unoffered: bool,
    exchange: Exchange,
    adapter: Arc<dyn Adapter>,
    wire: Wire,
}

/// What the call asks of an attempt.
pub(super) struct Order {
    pub(super) route: RouteId,
    pub(super) attempt: u8,
    pub(super) limits: Limits,
    pub(super) buffer: bool,
    pub(super) streamed: bool,
    pub(super) waited: Duration,
}

impl Flight {
    /// Sends the request. `now` is the attempt's own time.
    pub(super) fn depart(
        http: &reqwest::Client,
        endpoint: &Endpoint,
        request: &Request,
        order: Order,
        now: Instant,
    ) -> Self {
        let target = Target {
            model: &endpoint.model,
            key: endpoint.key.as_deref(),
        };
        let wire = if let Some(variable) = &endpoint.missing_key {
            Wire::Grounded(Box::new(Error::new(
                FaultKind::Auth,
                Place::Transport,
                &format!("no key in {variable}, so nothing was sent"),
            )))
        } else {
            let outgoing = endpoint.adapter.build(request, &target, order.streamed);
            match http_request(&endpoint.base, &outgoing) {
                Ok(request) => Wire::Sending(Box::pin(http.execute(request))),
                Err(why) => Wire::Grounded(Box::new(Error::new(
                    FaultKind::InvalidRequest,
                    Place::Transport,
                    why,
                ))),
            }
        };
        Self {
            route: order.route,
            attempt: order.attempt,
            buffer: order.buffer,
            streamed: order.streamed,
            started: now,
            first: None,
            never_left: matches!(wire, Wire::Grounded(_)),
            waited: order.waited,
            status: None,
            collector: Collector::default(),
            finish: None,
            unoffered: false,
            exchange: Exchange::new(order.streamed, order.limits, now),
            adapter: endpoint.adapter.clone(),
            wire,
        }
    }

    /// Whether what comes is shown as it comes.
    pub(super) const fn is_forwarded(&self) -> bool {
        self.streamed && !self.buffer
    }

    /// Waits for the next thing to happen and appends the content it brings to `events`. True when the
    /// answer is complete. Dropping the future loses nothing.
    ///
    /// `idle` is the time for which the caller has not asked for more: a server is not to blame for it,
    /// so the limits do not count it.
    pub(super) async fn advance(
        &mut self,
        clock: &dyn Clock,
        idle: Duration,
        request: &Request,
        events: &mut Vec<StreamEvent>,
    ) -> Result<bool, Error> {
        let limit = self.exchange.next_limit().after(idle);
        let own = |now: Instant| Instant(now.0.saturating_sub(idle.0));
        let mut came = Vec::new();
        let result = match &mut self.wire {
            Wire::Grounded(error) => return Err((**error).clone()),
            Wire::Sending(sending) => match within(clock, limit, sending.as_mut()).await {
                None => self.exchange.tick(own(clock.now())),
                Some(Ok(response)) => {
                    let status = response.status().as_u16();
                    self.status = Some(status);
                    let headers = headers(response.headers());
                    self.exchange.tick(own(clock.now()))?;
                    self.exchange.head(&*self.adapter, status, headers);
                    self.wire = Wire::Reading(response);
                    Ok(())
                }
                Some(Err(error)) => {
                    self.never_left |= error.is_connect();
                    Err(unsent(&error))
                }
            },
            Wire::Reading(response) => match within(clock, limit, response.chunk()).await {
                None => self.exchange.tick(own(clock.now())),
                Some(Ok(Some(bytes))) => self.exchange.body(&bytes, own(clock.now()), &mut came),
                Some(last) => {
                    let end = if last.is_ok() { End::Eof } else { End::Reset };
                    let (now, wall) = (own(clock.now()), clock.wall());
                    self.exchange
                        .end(&*self.adapter, end, now, wall, &mut came)
                        .and_then(|()| match came.last() {
                            Some(StreamEvent::Done(_)) => Ok(()),
                            _ => Err(Error::new(
                                FaultKind::Server,
                                Place::TruncatedStream,
                                "the answer had no end",
                            )),
                        })
                }
            },
        };
        if self.streamed && self.first.is_none() && came.iter().any(StreamEvent::is_content) {
            self.first = Some(own(clock.now()));
        }
        self.take(came, request, events);
        result.map(|()| self.finish.is_some())
    }

    /// Keeps what came, and hands on what the caller may see of it at once.
    fn take(&mut self, came: Vec<StreamEvent>, request: &Request, events: &mut Vec<StreamEvent>) {
        for mut event in came {
            match &mut event {
                StreamEvent::ToolStart { name, .. } => {
                    let is_offered = request.tools.iter().any(|tool| tool.name == *name);
                    self.unoffered |= !is_offered && !name.is_empty();
                }
                StreamEvent::Done(finish) => {
                    if self.unoffered {
                        finish.warnings.push(Warning::UnofferedTool);
                    }
                    self.finish = Some(finish.clone());
                }
                _ => {}
            }
            if self.is_forwarded() {
                if event.is_content() {
                    self.collector.push(event.clone());
                    events.push(event);
                } else {
                    self.collector.push(event);
                }
            } else {
                self.collector.push(event);
            }
        }
    }
}

/// What `future` brings, unless patience ends first.
pub(super) async fn within<F: Future>(
    clock: &dyn Clock,
    limit: Instant,
    future: F,
) -> Option<F::Output> {
    if limit == Instant(u64::MAX) {
        return Some(future.await);
    }
    tokio::select! {
        biased;
        output = future => Some(output),
        () = clock.patience(Instant(limit.0.saturating_add(1))) => None,
    }
}

fn http_request(base: &str, outgoing: &Outgoing) -> Result<reqwest::Request, &'static str> {
    let url = reqwest::Url::parse(&join(base, &outgoing.path))
        .map_err(|_| "base address and path make no address")?;
    let mut request = reqwest::Request::new(reqwest::Method::POST, url);
    for (name, value) in &outgoing.headers.0 {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a header has no name")?;
        let mut content = HeaderValue::from_str(value).map_err(|_| "a header cannot be sent")?;
        content.set_sensitive(crate::wire::is_secret(name));
        request.headers_mut().insert(header, content);
    }
    *request.body_mut() = Some(outgoing.body.clone().into());
    Ok(request)
}

fn headers(map: &reqwest::header::HeaderMap) -> Headers {
    map.iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        })
        .collect()
}

/// A failure before any status came. What the transport says about it is not repeated: it quotes
/// addresses.
fn unsent(error: &reqwest::Error) -> Error {
    let what = if error.is_connect() && error.is_timeout() {
        "nobody answered the connection in time"
    } else if error.is_connect() {
        "no connection could be made"
    } else {
        "the connection broke before the answer was there"
    };
    Error::new(FaultKind::Timeout, Place::Transport, what)
}
