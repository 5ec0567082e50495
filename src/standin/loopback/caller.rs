//! A caller of stand-ins over real sockets in virtual time: what a stand-in would wait for is said beside
//! the bytes, in a [`Schedule`], and nobody waits.

use std::net::SocketAddr;

use crate::router::Limits;
use crate::standin::transmission::{SCHEDULE_HEADER, Schedule};
use crate::standin::wired::{Reading, Received};
use crate::units::Instant;
use crate::wire::{Adapter, End, Headers, Outgoing};

/// Threads that move bytes.
const THREADS: usize = 2;
/// A real stop for a stand-in that never answers, in seconds: no test may hang.
const PATIENCE_S: u64 = 60;

/// Sends requests to one server of stand-ins. Many threads may call at once.
pub struct Caller {
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    root: String,
}

impl Caller {
    /// A caller of the server there.
    ///
    /// # Errors
    ///
    /// If threads or sockets are not to be had.
    pub fn new(server: SocketAddr) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()?;
        // Nothing from the environment may send stand-ins' traffic elsewhere, and nobody but the router
        // sends a request again.
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(std::io::Error::other)?;
        Ok(Self {
            runtime,
            http,
            root: format!("http://{server}"),
        })
    }

    /// Makes one attempt at the stand-in of this adapter; `more` are headers beyond the adapter's.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached at all: that is no fault of a script.
    pub fn call(
        &self,
        adapter: &dyn Adapter,
        outgoing: Outgoing,
        more: &[(&str, String)],
        stream: bool,
        limits: Limits,
        started: Instant,
    ) -> Result<Received, String> {
        let url = format!("{}/{}{}", self.root, adapter.name(), outgoing.path);
        let mut request = self.http.post(url).body(outgoing.body);
        for (name, value) in &outgoing.headers.0 {
            request = request.header(name.as_str(), value.as_str());
        }
        for (name, value) in more {
            request = request.header(*name, value.as_str());
        }
        let exchange = async {
            let mut response = match request.send().await {
                Ok(response) => response,
                Err(error) if error.is_connect() => {
                    return Err(format!("cannot reach the stand-in: {error}"));
                }
                // A connection may break before the status has left.
                Err(_) => {
                    let mut reading = Reading::new(stream, limits, started);
                    reading.end(adapter, End::Reset);
                    return Ok(reading.finish());
                }
            };
            let headers: Headers = response
                .headers()
                .iter()
                .map(|(name, value)| {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    (name.as_str(), value.into_owned())
                })
                .collect();
            let mut clock = Clock::new(headers.get(SCHEDULE_HEADER));
            let mut reading = Reading::new(stream, limits, started);
            reading
                .exchange
                .head(adapter, response.status().as_u16(), headers);
            loop {
                if clock.hangs() {
                    reading.hang();
                    return Ok(reading.finish());
                }
                match response.chunk().await {
                    Ok(Some(bytes)) => {
                        if clock.feed(&mut reading, &bytes) {
                            return Ok(reading.finish());
                        }
                    }
                    Ok(None) => {
                        reading.end(adapter, End::Eof);
                        return Ok(reading.finish());
                    }
                    Err(_) => {
                        reading.end(adapter, End::Reset);
                        return Ok(reading.finish());
                    }
                }
            }
        };
        self.runtime.block_on(async {
            let patience = std::time::Duration::from_secs(PATIENCE_S);
            match tokio::time::timeout(patience, exchange).await {
                Ok(result) => result,
                Err(_) => Err(format!("a stand-in said nothing for {PATIENCE_S} s")),
            }
        })
    }
}

/// Virtual time, as far as the bytes have come.
struct Clock {
    schedule: Schedule,
    /// The next of `schedule.waits`.
    next: usize,
    /// Bytes of the body so far.
    offset: u64,
}

impl Clock {
    fn new(header: Option<&str>) -> Self {
        Self {
            schedule: header.and_then(Schedule::parse).unwrap_or_default(),
            next: 0,
            offset: 0,
        }
    }

    /// Whether nothing more will come.
    fn hangs(&self) -> bool {
        self.schedule.hangs_at.is_some_and(|at| self.offset >= at)
    }

    /// Gives bytes to the reader, with the pauses before and between them. Whether the attempt is over.
    fn feed(&mut self, reading: &mut Reading, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some(&(at, wait)) = self.schedule.waits.get(self.next) {
            let before = at.saturating_sub(self.offset) as usize;
            if before >= rest.len() {
                break;
            }
            let (now, later) = rest.split_at(before);
            if !now.is_empty() && reading.bytes(now) {
                return true;
            }
            self.offset += before as u64;
            rest = later;
            self.next += 1;
            if reading.pause(wait) {
                return true;
            }
        }
        self.offset += rest.len() as u64;
        reading.bytes(rest)
    }
}
