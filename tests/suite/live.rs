//! Live calls over loopback: the client against stand-in servers, with real sockets and, where nothing
//! is timed, a clock that jumps over waits.

mod application;
mod call;
mod conformance;
mod fallback;
mod limits;
mod records;
mod shadows;
mod streams;

use std::sync::{Arc, Mutex};

use routelab::catalogue::{self, Catalogue};
use routelab::live::{AnswerStream, CallContext, CallError, Client, Hook, Options, VirtualClock};
use routelab::policy::{self, PolicyFile};
use routelab::router::{BreakerChange, FaultKind};
use routelab::source::{Diagnostics, SourceFile};
use routelab::standin::faults::Act;
use routelab::standin::loopback::{Asked, Model, Server, ServerSpec};
use routelab::traffic::{Attempt, Outcome};
use routelab::units::Duration;
use routelab::wire::{Message, Request, Response, StreamEvent, collect};

/// What must never be seen outside of a request's own headers.
pub(crate) const KEY: &str = "sk-marker-5f0c1d7e9a";

/// The lesson's chain: a route at each of three providers, then two local ones.
pub(crate) const CHAIN: &str = "[static]\ndefault = \"oa\"\nfallback = [\"an\", \"ge\"]\n";

/// A catalogue whose five routes are all at `server`; `router` is the content of `[router]`.
pub(crate) fn routes(server: &Server, router: &str) -> String {
    let mut text = format!("[router]\n{router}\n");
    for (name, kind) in [
        ("oa", "openai"),
        ("an", "anthropic"),
        ("ge", "gemini"),
        ("co", "compatible"),
        ("ol", "ollama"),
    ] {
        let key = match kind {
            "compatible" | "ollama" => String::new(),
            _ => "api_key_env = \"MARKER_KEY\"\n".to_owned(),
        };
        text += &format!(
            "[provider.{name}-host]\nkind = \"{kind}\"\nbase_url = \"{}\"\n{key}\n\
             [route.{name}]\nprovider = \"{name}-host\"\nmodel = \"{name}-model\"\nresidency = [\"eu\"]\n\
             region = \"eu-west\"\nusd_per_mtok = {{ input = 1.0, output = 3.0 }}\n",
            server.root_url(kind)
        );
    }
    text + "[require]\ndefault = { residency = [\"eu\"] }\n"
}

pub(crate) fn catalogue(text: &str) -> Catalogue {
    let mut found = Diagnostics::default();
    let read = catalogue::parse(&SourceFile::new("routes.toml", text), &mut found);
    read.unwrap_or_else(|| panic!("{}", found.render(false)))
}

pub(crate) fn policy(text: &str, catalogue: &Catalogue) -> PolicyFile {
    let mut found = Diagnostics::default();
    let read = policy::parse(&SourceFile::new("p.toml", text), "p", catalogue, &mut found);
    read.unwrap_or_else(|| panic!("{}", found.render(false)))
}

/// Remembers everything a client does.
#[derive(Default)]
pub(crate) struct Diary {
    pub(crate) attempts: Mutex<Vec<Attempt>>,
    pub(crate) alerts: Mutex<Vec<(String, FaultKind)>>,
    pub(crate) breakers: Mutex<Vec<(String, BreakerChange)>>,
}

impl Hook for Diary {
    fn attempt(&self, attempt: &Attempt) {
        self.attempts.lock().unwrap().push(attempt.clone());
    }

    fn alert(&self, route: &str, kind: FaultKind) {
        self.alerts.lock().unwrap().push((route.to_owned(), kind));
    }

    fn breaker(&self, route: &str, change: BreakerChange) {
        self.breakers
            .lock()
            .unwrap()
            .push((route.to_owned(), change));
    }
}

impl Diary {
    /// Takes what was noted, in the lesson's way: `oa#1:overloaded an#1:ok`.
    pub(crate) fn trace(&self) -> String {
        trace(&std::mem::take(&mut *self.attempts.lock().unwrap()))
    }
}

pub(crate) fn trace(attempts: &[Attempt]) -> String {
    let step = |one: &Attempt| {
        let what = one.kind.clone().or(one.reason.clone());
        match one.outcome {
            Outcome::Skipped => format!("{}#-:{}", one.route, what.unwrap()),
            Outcome::ErrorMidStream => format!("{}:MID-STREAM-{}", one.route, what.unwrap()),
            Outcome::Ok => format!("{}#{}:ok", one.route, one.attempt),
            Outcome::Cancelled => format!("{}#{}:cancelled", one.route, one.attempt),
            Outcome::Error => format!("{}#{}:{}", one.route, one.attempt, what.unwrap()),
        }
    };
    attempts.iter().map(step).collect::<Vec<_>>().join(" ")
}

/// A server, a client of it, and what the client was seen to do.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) diary: Arc<Diary>,
    pub(crate) clock: Arc<VirtualClock>,
}

impl Stage {
    pub(crate) fn new(router: &str, policy_text: &str) -> Self {
        Self::of(ServerSpec::default(), router, policy_text, |_| {})
    }

    /// With a model of one's own.
    pub(crate) fn saying(model: impl Model + 'static, router: &str, policy_text: &str) -> Self {
        let spec = ServerSpec {
            model: Arc::new(model),
            ..ServerSpec::default()
        };
        Self::of(spec, router, policy_text, |_| {})
    }

    pub(crate) fn of(
        spec: ServerSpec,
        router: &str,
        policy_text: &str,
        adjust: impl FnOnce(&mut Options),
    ) -> Self {
        let server = Server::start(spec).expect("a free port");
        let catalogue = catalogue(&routes(&server, router));
        let policy = policy(policy_text, &catalogue);
        let diary = Arc::new(Diary::default());
        let clock = Arc::new(VirtualClock::new(Duration::from_secs(1_700_000_000)));
        let mut options = Options {
            hooks: vec![diary.clone()],
            keys: Arc::new(|name| (name == "MARKER_KEY").then(|| KEY.to_owned())),
            clock: clock.clone(),
            call_seed: Some(1),
            ..Options::default()
        };
        adjust(&mut options);
        let client = Client::new(catalogue, &policy, options).expect("a client");
        Self {
            server,
            client,
            diary,
            clock,
        }
    }

    /// Calls of the three hosted providers, as the lesson counts them.
    pub(crate) fn calls(&self) -> [u64; 3] {
        ["openai", "anthropic", "gemini"].map(|kind| self.server.calls(kind))
    }

    pub(crate) fn queue(&self, dialect: &str, times: usize, act: &Act) {
        for _ in 0..times {
            self.server.queue(dialect, act.clone());
        }
    }

    pub(crate) async fn complete(&self) -> Result<routelab::live::Completion, CallError> {
        self.client
            .complete(&hello(), &CallContext::default())
            .await
    }

    pub(crate) fn stream(&self) -> AnswerStream {
        self.client.stream(&hello(), &CallContext::default())
    }

    /// The same question, streamed or not.
    pub(crate) async fn answer(&self, streamed: bool) -> Result<Response, CallError> {
        if streamed {
            let (events, end) = drain(&mut self.stream()).await;
            end.map(|()| collect(events).expect("a stream without an error is complete"))
        } else {
            self.complete().await.map(|completion| completion.response)
        }
    }
}

pub(crate) fn hello() -> Request {
    Request {
        messages: vec![Message::user("hello there")],
        output_cap: 50,
        ..Request::default()
    }
}

/// Everything a stream says, and how it ended.
pub(crate) async fn drain(stream: &mut AnswerStream) -> (Vec<StreamEvent>, Result<(), CallError>) {
    let mut events = Vec::new();
    loop {
        match stream.next().await {
            None => return (events, Ok(())),
            Some(Ok(event)) => events.push(event),
            Some(Err(error)) => {
                assert!(stream.next().await.is_none(), "an error is the last item");
                return (events, Err(error));
            }
        }
    }
}

pub(crate) fn fails(kind: FaultKind) -> Act {
    Act::Kind {
        kind,
        retry_after: None,
    }
}

/// A model that always gives the same answer.
pub(crate) struct Says(pub(crate) Response);

impl Model for Says {
    fn answer(&self, _: &Asked<'_>) -> Response {
        self.0.clone()
    }
}

/// Waits, in real time and not for long, until something on another thread has happened.
pub(crate) async fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if happened() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{what} did not happen");
}
