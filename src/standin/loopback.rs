//! A stand-in at the third fidelity: providers' servers on this machine, over real sockets.
//!
//! One [`Server`] speaks every dialect of [`crate::wire`], told apart by path. What it says comes from a
//! [`Model`], what goes wrong from a fault script or from a queue that a test fills. It holds clients to
//! what the providers demand (credentials, versions, required fields) and itself to bounds: head and body
//! of a request, open connections, time to read a request, time an unfinished answer is held open.
//!
//! It is a model of how providers behave on the wire, not of how well they answer.
//!
//! Three request headers, all optional, tie a request to an experiment. They replace what the server
//! would else count or look up: [`REQUEST_HEADER`](super::world::REQUEST_HEADER),
//! [`ATTEMPT_HEADER`](super::world::ATTEMPT_HEADER) and [`ROUTE_HEADER`](super::world::ROUTE_HEADER).

mod acting;
mod caller;
mod endpoint;
mod handle;
mod other;
mod sending;
mod sightings;
mod worldly;

pub use acting::Acting;
pub use caller::Caller;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

use super::faults::{Act, Faults};
use super::scripted;
use crate::wire::{ADAPTERS, Adapter, Headers, Incoming, Response};
use acting::Stage;
use sightings::Sightings;

/// A request as a [`Model`] sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The dialect it came in: [`Adapter::name`].
    pub adapter: &'static str,
    /// The request.
    pub incoming: &'a Incoming,
    /// Its body as it came.
    pub body: &'a [u8],
    /// Its headers.
    pub headers: &'a Headers,
    /// Its number: [`REQUEST_HEADER`](super::world::REQUEST_HEADER), or else how many requests for this model came before.
    pub number: u64,
}

/// Who answers.
pub trait Model: Send + Sync {
    /// The answer. It is called on the server's threads and should not wait for anything.
    fn answer(&self, asked: &Asked<'_>) -> Response;
}

/// The model of [`scripted`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Scripted;

impl Model for Scripted {
    fn answer(&self, asked: &Asked<'_>) -> Response {
        scripted::answer(asked.adapter, asked.incoming, asked.body)
    }
}

/// Whether the server waits where its answers have pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// It does.
    #[default]
    Real,
    /// It never does. The pauses travel in the header
    /// [`SCHEDULE_HEADER`](super::transmission::SCHEDULE_HEADER); an answer that stops is held open.
    Virtual,
}

/// What the server takes, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Open connections. More wait until one is closed.
    pub connections_max: usize,
    /// Bytes of one request's head, at least 8192.
    pub head_bytes_max: usize,
    /// Headers of one request.
    pub headers_max: usize,
    /// Bytes of one request's body; above it the answer is 413.
    pub body_bytes_max: usize,
    /// Bytes of all bodies held at one time; above it the answer is 503.
    pub bodies_bytes_max: usize,
    /// For a request's head, counted from when the connection is free for it, and again for its body.
    pub read_max: Duration,
    /// How long an answer that never ends is held open.
    pub hold_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            head_bytes_max: 64 << 10,
            headers_max: 100,
            body_bytes_max: crate::wire::BODY_BYTES_MAX,
            bodies_bytes_max: 256 << 20,
            read_max: Duration::from_secs(60),
            hold_max: Duration::from_secs(600),
        }
    }
}

/// Where the log of requests goes.
pub type Log = Arc<Mutex<dyn Write + Send>>;

/// What to serve.
#[derive(Clone)]
pub struct ServerSpec {
    /// The address to listen on.
    pub host: IpAddr,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// What goes wrong.
    pub faults: Faults,
    /// What providers do in time, if they do anything. It needs a server that waits ([`Clock::Real`]).
    pub acting: Option<Acting>,
    /// Whether it waits.
    pub clock: Clock,
    /// Names of models and the routes that lead to them: rules may name either.
    pub names: Vec<(String, String)>,
    /// One line of JSON per request goes here.
    pub log: Option<Log>,
    /// Whether those lines hold the bodies of requests. They never hold keys.
    pub log_bodies: bool,
    /// What it takes.
    pub bounds: Bounds,
}

impl Default for ServerSpec {
    /// The scripted model on a free port of this machine, without faults.
    fn default() -> Self {
        Self {
            host: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            model: Arc::new(Scripted),
            faults: Faults::default(),
            acting: None,
            clock: Clock::Real,
            names: Vec::new(),
            log: None,
            log_bodies: false,
            bounds: Bounds::default(),
        }
    }
}

/// A running server with threads of its own. It stops when it is dropped.
pub struct Server {
    addr: SocketAddr,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
struct State {
    model: Arc<dyn Model>,
    faults: Faults,
    stage: Option<Stage>,
    clock: Clock,
    names: Vec<(String, String)>,
    bounds: Bounds,
    adapters: Vec<Box<dyn Adapter>>,
    counts: Mutex<Counts>,
    in_flight: AtomicUsize,
    /// Bytes of bodies being held.
    held: AtomicUsize,
    /// Large bodies are read as JSON one at a time: as values they take many times their size.
    large: Semaphore,
    /// Requests so far, of every kind.
    seen: AtomicU64,
    sightings: Option<Sightings>,
}

#[derive(Default)]
struct Counts {
    /// Requests that were understood, by dialect.
    by_adapter: BTreeMap<&'static str, u64>,
    /// The same, by dialect and model.
    by_model: BTreeMap<(&'static str, String), u64>,
    queues: BTreeMap<&'static str, VecDeque<Act>>,
}

/// Most models that are counted one by one; all further ones share a count.
const MODELS_MAX: usize = 10_000;

impl State {
    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn adapter(&self, name: &str) -> Option<&dyn Adapter> {
        let found = self.adapters.iter().find(|adapter| adapter.name() == name);
        found.map(|adapter| &**adapter)
    }
}

impl Server {
    /// Opens the port and serves until the server is dropped.
    ///
    /// # Errors
    ///
    /// The port is taken, the address is not this machine's, or there are no threads to be had; or a
    /// timeline is to be acted out in virtual time.
    pub fn start(spec: ServerSpec) -> io::Result<Self> {
        if spec.acting.is_some() && spec.clock == Clock::Virtual {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a timeline is acted out in real time only",
            ));
        }
        let listener = std::net::TcpListener::bind((spec.host, spec.port))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let state = Arc::new(State {
            model: spec.model,
            faults: spec.faults,
            stage: spec.acting.map(Stage::new),
            clock: spec.clock,
            names: spec.names,
            bounds: spec.bounds,
            adapters: ADAPTERS.iter().map(|kind| (kind.make)()).collect(),
            counts: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            large: Semaphore::new(1),
            seen: AtomicU64::new(0),
            sightings: spec.log.map(|log| Sightings::new(log, spec.log_bodies)),
        });
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::sync_channel(1);
        let shared = Arc::clone(&state);
        // The runtime lives and dies on a thread of its own, so that a server can be started and
        // dropped anywhere, inside another runtime as well.
        let thread = std::thread::Builder::new()
            .name("standin".into())
            .spawn(move || run(listener, shared, stopped, &ready))?;
        is_ready
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the server's thread ended")))?;
        Ok(Self {
            addr,
            state,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The part of the address that all requests of a dialect share: what stands before the path that
    /// [`Adapter::build`] makes.
    #[must_use]
    pub fn root_url(&self, adapter: &str) -> String {
        format!("http://{}/{adapter}", self.addr)
    }

    /// What the official client of a dialect is told: [`root_url`](Self::root_url), with `/v1` for
    /// clients of Chat Completions, which leave it out of their paths.
    #[must_use]
    pub fn base_url(&self, adapter: &str) -> String {
        let version = match adapter {
            "openai" | "compatible" => "/v1",
            _ => "",
        };
        self.root_url(adapter) + version
    }

    /// Something that happens to the next request of this dialect that is not refused, before any rule
    /// is asked. Several are taken in order, one per request.
    ///
    /// # Panics
    ///
    /// If there is no dialect of that name.
    pub fn queue(&self, adapter: &str, act: Act) {
        let name = self.dialect(adapter);
        let mut counts = self.state.counts();
        counts.queues.entry(name).or_default().push_back(act);
    }

    /// How many requests of this dialect have been understood, faults among them.
    ///
    /// # Panics
    ///
    /// If there is no dialect of that name.
    #[must_use]
    pub fn calls(&self, adapter: &str) -> u64 {
        let name = self.dialect(adapter);
        let counts = self.state.counts();
        counts.by_adapter.get(name).copied().unwrap_or(0)
    }

    /// The same by dialect and model.
    #[must_use]
    pub fn calls_by_model(&self) -> BTreeMap<(&'static str, String), u64> {
        self.state.counts().by_model.clone()
    }

    /// Begins the timeline again: now is its time zero, buckets are full and servers idle. It began for
    /// the first time when the server started. Without a timeline nothing happens.
    pub fn begin_timeline(&self) {
        if let Some(stage) = &self.state.stage {
            stage.begin();
        }
    }

    /// Answers that are being written at this moment.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.state.in_flight.load(Ordering::SeqCst)
    }

    fn dialect(&self, adapter: &str) -> &'static str {
        match self.state.adapter(adapter) {
            Some(adapter) => adapter.name(),
            None => panic!("no dialect is called {adapter}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // If nobody listens it has stopped already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The server's own thread.
fn run(
    listener: std::net::TcpListener,
    state: Arc<State>,
    stopped: oneshot::Receiver<()>,
    ready: &mpsc::SyncSender<io::Result<()>>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("standin")
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        tokio::select! {
            () = accept(listener, state) => {}
            _ = stopped => {}
        }
    });
    // Answers under way are dropped where they stand.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Takes connections until it is dropped.
async fn accept(listener: TcpListener, state: Arc<State>) {
    let places = Arc::new(Semaphore::new(state.bounds.connections_max));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return; // never closed
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Out of file descriptors, most likely: some will come free.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        // Each piece is to leave when it is written.
        let _ = stream.set_nodelay(true);
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let bounds = state.bounds;
            let service = service_fn(move |request| handle::handle(Arc::clone(&state), request));
            // A client that leaves in the middle is its own business.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(bounds.read_max)
                .max_headers(bounds.headers_max)
                .max_header_size(bounds.head_bytes_max)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
}
