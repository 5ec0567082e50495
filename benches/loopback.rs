//! Completions and streamed tokens per second through the live client, over real sockets on this machine.
//!
//! Client and server share the machine's cores, so this is what both together can do. The lesson's server
//! manages about 1,000 completions a second; the aim is ten times that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use routelab::live::{CallContext, Client, Options};
use routelab::source::{Diagnostics, SourceFile};
use routelab::standin::loopback::{Asked, Model, Server, ServerSpec};
use routelab::wire::{Message, Request, Response, Stop, StreamEvent};
use routelab::{catalogue, policy};

/// Calls in flight at once.
const IN_FLIGHT: usize = 32;
/// Words of a streamed answer.
const WORDS: usize = 200;
/// How long each measurement takes.
const TAKES: Duration = Duration::from_secs(3);

struct Talks(usize);

impl Model for Talks {
    fn answer(&self, _: &Asked<'_>) -> Response {
        Response {
            text: "word ".repeat(self.0),
            stop: Stop::End,
            ..Response::default()
        }
    }
}

fn client(server: &Server) -> Client {
    let routes = format!(
        "[provider.here]\nkind = \"openai\"\nbase_url = \"{}\"\napi_key_env = \"KEY\"\n\
         [route.one]\nprovider = \"here\"\nmodel = \"m\"\nresidency = [\"eu\"]\n\
         usd_per_mtok = {{ input = 1, output = 1 }}\n[require]\ndefault = {{ residency = [\"eu\"] }}\n",
        server.root_url("openai")
    );
    let mut found = Diagnostics::default();
    let catalogue =
        catalogue::parse(&SourceFile::new("routes.toml", routes), &mut found).expect("a catalogue");
    let file = SourceFile::new("p.toml", "[fixed]\nroute = \"one\"\n");
    let policy = policy::parse(&file, "p", &catalogue, &mut found).expect("a policy");
    let options = Options {
        keys: Arc::new(|_| Some("key".to_owned())),
        ..Options::default()
    };
    Client::new(catalogue, &policy, options).expect("a client")
}

/// Runs calls for a while and counts what `one` counts.
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn measure<F, O>(words: usize, one: F) -> f64
where
    F: Fn(Client) -> O + Send + Sync + 'static,
    O: Future<Output = u64> + Send,
{
    let spec = ServerSpec {
        model: Arc::new(Talks(words)),
        ..ServerSpec::default()
    };
    let server = Server::start(spec).expect("a server");
    let client = client(&server);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let one = Arc::new(one);
    let begun = Instant::now();
    let count: u64 = runtime.block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..IN_FLIGHT {
            let (client, one) = (client.clone(), one.clone());
            tasks.push(tokio::spawn(async move {
                let mut count = 0;
                while begun.elapsed() < TAKES {
                    count += one(client.clone()).await;
                }
                count
            }));
        }
        let mut sum = 0;
        for task in tasks {
            sum += task.await.expect("no panic");
        }
        sum
    });
    count as f64 / begun.elapsed().as_secs_f64()
}

fn request() -> Request {
    Request {
        messages: vec![Message::user("hello there")],
        output_cap: 1_000,
        ..Request::default()
    }
}

#[expect(clippy::print_stdout, reason = "a bench prints what it measured")]
fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let completions = measure(4, |client| async move {
        let context = CallContext::default();
        let answer = client.complete(&request(), &context).await;
        answer.expect("an answer");
        1
    });
    println!("completions: {completions:.0} a second, {IN_FLIGHT} in flight");
    let tokens = measure(WORDS, |client| async move {
        let context = CallContext::default();
        let mut stream = client.stream(&request(), &context);
        let mut words = 0;
        while let Some(event) = stream.next().await {
            words += u64::from(matches!(event.expect("no failure"), StreamEvent::Text(_)));
        }
        words
    });
    println!(
        "streamed tokens: {tokens:.0} a second, {WORDS} in each answer, {IN_FLIGHT} in flight"
    );
}
