//! The same hour in the simulator and over sockets: arrivals, latencies, an outage, errors by chance, a
//! slow period, broken streams and a rate limit, scaled to seconds. The client is the live one, the
//! servers are stand-ins that act out the timeline; both see the same requests at the same times.
//!
//! What must be equal: for each request, every attempt, every route that was passed over, and how it
//! ended. What must agree within [`TOLERANCE`]: how long it took.
//!
//! Real time is never exact, so the script is one in which nothing hangs on a few milliseconds, and that
//! is checked: the simulated traces stay the same when latencies and incidents move by [`MARGIN`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration as Real;

use routelab::catalogue::Catalogue;
use routelab::live::{CallContext, CallError, Client, Options};
use routelab::sim::{self, Experiment, Timed};
use routelab::source::{Diagnostics, SourceFile};
use routelab::standin::loopback::{Acting, Clock, Server, ServerSpec};
use routelab::standin::world::World;
use routelab::timeline::{self, Arrivals, Names, Timeline};
use routelab::traffic::{Attempt, Outcome};
use routelab::units::{Duration, Instant};
use routelab::wire::{Message, Request};
use routelab::workload::{Batch, Domain, DrawKey, Workload};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant as Moment, sleep_until};

use crate::given::{catalogue_of, policy_of, workload_of};
use crate::live::KEY;

const REQUESTS: u64 = 60;
/// One of those under which the script keeps its margins.
const SEED: u64 = 1;
const GAP: Duration = Duration::from_millis(150);
/// How far latencies and incidents may move without changing any trace.
const MARGIN: Duration = Duration::from_millis(25);
/// How far a latency over sockets may be from the simulated one: 60 ms and a tenth of it.
const TOLERANCE: (Duration, f64) = (Duration::from_millis(60), 0.1);
/// A machine on which something was later than this did not keep time: other programs had it, and what is
/// compared is its scheduler.
const LATE_MAX: Real = Real::from_millis(10);
/// Most runs. One that agrees is enough, however late: a wrong simulation agrees with none.
const RUNS_MAX: usize = 6;

const WORKLOAD: &str = r#"
[synthetic]
requests = 60
[synthetic.task.chat]
share = 1.0
difficulty = { beta = [2, 5] }
tokens = { input = 400, output = 40 }
[synthetic.model.prime]
skill = { chat = 0.9 }
[synthetic.model.second]
skill = { chat = 0.8 }
[synthetic.model.third]
skill = { chat = 0.7 }
"#;

/// Overheads, in milliseconds.
const OVERHEADS: [f64; 3] = [25.0, 25.0, 60.0];

/// The names in braces stand for the overheads.
const TIMELINE: &str = r#"
[timeline.latency]
preset = "instant"
per_input_token_ms = 0.05
per_output_token_ms = 1.5
sigma = 0.25
output_sigma = 0.1
stall = { share = 0.06, seconds = 1.0 }
route.prime.overhead_ms = {prime}
route.second.overhead_ms = {second}
route.third = { overhead_ms = {third}, slots = 1 }
[timeline.errors.prime]
overloaded = 0.06
server = 0.04
cut = 0.06
[timeline.errors.second]
content_filter = 0.03
[timeline.limit.south]
provider = "south"
requests_per_min = 20
window_s = 12
[[timeline.incident]]
provider = "north"
at_s = 2.265
for_s = 1.5
fail = "overloaded"
[[timeline.incident]]
routes = ["prime"]
at_s = 5.565
for_s = 1.95
slow = 3.0
"#;

const POLICY: &str = "[static]\ndefault = \"prime\"\nfallback = [\"second\", \"third\"]\n";

/// Where the routes are is different for the simulator, which does not care.
fn catalogue(server: Option<&Server>) -> Catalogue {
    let mut text =
        "[router]\nattempts_max = 2\nttft_max_s = 0.4\ngap_max_s = 2\nattempt_max_s = 3\n\
        wait = { base_s = 0.04, jitter = \"none\", extra_max_s = 0 , wait_max_s = 0.2 }\n\
        breaker = { failures = 4, cooldown_s = 0.61 }\ncooldown = false\n"
            .to_owned();
    for (route, provider, kind) in [
        ("prime", "north", "openai"),
        ("second", "south", "anthropic"),
        ("third", "east", "openai"),
    ] {
        let root = server.map_or_else(|| "http://127.0.0.1:9".into(), |one| one.root_url(kind));
        text += &format!(
            "[provider.{provider}]\nkind = \"{kind}\"\nbase_url = \"{root}\"\napi_key_env = \"MARKER_KEY\"\n\
             [route.{route}]\nprovider = \"{provider}\"\nmodel = \"{route}-model\"\nresidency = [\"eu\"]\n\
             usd_per_mtok = {{ input = 1.0, output = 3.0 }}\n"
        );
    }
    catalogue_of(&(text + "[require]\ndefault = { residency = [\"eu\"] }\n"))
}

fn script(catalogue: &Catalogue, streamed: bool, overheads: [f64; 3]) -> Timeline {
    let mut found = Diagnostics::default();
    let mut text = format!("[timeline]\nstreamed = {}\n{TIMELINE}", u8::from(streamed));
    for (route, overhead) in ["{prime}", "{second}", "{third}"].iter().zip(overheads) {
        text = text.replace(route, &overhead.to_string());
    }
    let names = Names {
        catalogue,
        tenants: &[],
    };
    let draft = timeline::parse(&SourceFile::new("w.toml", text), &names, &mut found);
    let built = draft.and_then(|draft| draft.build(None, &mut found));
    let mut timeline = built.unwrap_or_else(|| panic!("{}", found.render(false)));
    timeline.arrivals = Arrivals::every(GAP);
    timeline
}

/// What one request went through.
#[derive(Clone, Debug, Default, PartialEq)]
struct Story {
    /// Such as `prime#1:overloaded`, `prime-:breaker_open`, `second#1:ok`.
    steps: Vec<String>,
    /// From arrival to the end.
    total: Duration,
}

impl Story {
    fn text(&self) -> String {
        self.steps.join(" ")
    }
}

fn simulated(catalogue: &Catalogue, workload: &Workload, timeline: &Timeline) -> Vec<Story> {
    let policies = [policy_of("chain", POLICY, catalogue)];
    let timed = Timed {
        timeline,
        calm: false,
        keep_lines: true,
    };
    let experiment = Experiment {
        catalogue,
        workload,
        policies: &policies,
        seed: SEED,
        requests: REQUESTS,
        replicates: 1,
        baseline: None,
        controls: false,
        stage: None,
        slices: false,
        timed: Some(&timed),
        cluster: None,
    };
    let mut warnings = Diagnostics::default();
    let run = sim::run(&experiment, &mut warnings, &|_| {}, &AtomicBool::new(false));
    let results = run.unwrap_or_else(|stopped| panic!("{stopped:?}"));
    let mut stories = vec![Story::default(); REQUESTS as usize];
    for line in &results.contestants[0].traces[0].lines {
        let words: Vec<&str> = line.split(' ').collect();
        let number: usize = words[0].parse().unwrap();
        let at = Instant(words[1].parse().unwrap());
        let story = &mut stories[number];
        let step = match words[2..] {
            ["reply", attempt] => format!("{attempt}:ok"),
            ["fault", attempt, kind] => format!("{attempt}:{kind}"),
            ["fault", attempt, kind, "mid-stream"] => format!("{attempt}:{kind}-mid-stream"),
            ["skip", route, why] => format!("{route}-:{why}"),
            _ => continue,
        };
        story.steps.push(step);
        story.total = at.since(arrival(number));
    }
    stories
}

fn arrival(number: usize) -> Instant {
    Instant(GAP.0 * number as u64)
}

fn step(one: &Attempt) -> String {
    let (route, attempt) = (&one.route, one.attempt);
    let kind = one.kind.as_deref().unwrap_or("?");
    match one.outcome {
        Outcome::Ok => format!("{route}#{attempt}:ok"),
        Outcome::Error => format!("{route}#{attempt}:{kind}"),
        Outcome::ErrorMidStream => format!("{route}#{attempt}:{kind}-mid-stream"),
        Outcome::Cancelled => format!("{route}#{attempt}:cancelled"),
        Outcome::Skipped => format!("{route}-:{}", one.reason.as_deref().unwrap_or("?")),
    }
}

/// Words that stand-ins take for this request of the workload: those that say nothing else are told apart
/// by their digest.
fn words(number: u64) -> String {
    let candidates = (0..).map(|n| format!("Question {n}"));
    let means = |text: &String| {
        let digest = Sha256::digest(text.as_str());
        let head = digest[..8].try_into().unwrap();
        u64::from_be_bytes(head) % REQUESTS == number
    };
    candidates.into_iter().find(means).unwrap()
}

/// What came over the sockets, and how late this machine was.
struct Lived {
    stories: Vec<Story>,
    late: Real,
}

/// The script as stand-ins act it out.
fn acting(plain: &Catalogue, workload: &Workload, streamed: bool) -> Acting {
    let world = World {
        workload: workload.clone(),
        key: DrawKey {
            seed: SEED,
            domain: Domain::Traffic,
            replicate: 0,
        },
        columns: workload.routes.iter().cloned().zip(0..).collect(),
        verifiers: Vec::new(),
    };
    Acting {
        timeline: script(plain, streamed, OVERHEADS),
        world,
        routes: plain.names().map(str::to_owned).collect(),
        horizon: Duration::from_secs(60),
        limits: plain.limits,
    }
}

async fn lived(workload: &Workload, streamed: bool) -> Lived {
    let plain = catalogue(None);
    let names = |route: &routelab::catalogue::Route| (route.model.clone(), route.name.clone());
    let spec = ServerSpec {
        acting: Some(acting(&plain, workload, streamed)),
        names: plain.routes.iter().map(names).collect(),
        ..ServerSpec::default()
    };
    let server = Server::start(spec).expect("a free port");
    let catalogue = catalogue(Some(&server));
    let policy = policy_of("chain", POLICY, &catalogue);
    let options = Options {
        keys: Arc::new(|name| (name == "MARKER_KEY").then(|| KEY.to_owned())),
        call_seed: Some(1),
        ..Options::default()
    };
    let client = Client::new(catalogue, &policy, options).expect("a client");
    let mut batch = Batch::default();
    let texts: Vec<String> = (0..REQUESTS).map(words).collect();
    let key = DrawKey {
        seed: SEED,
        domain: Domain::Traffic,
        replicate: 0,
    };
    workload.fill(key, 0, REQUESTS as usize, &mut batch);
    let watch = Watch::start();
    server.begin_timeline();
    let began = Moment::now();
    let calls: Vec<_> = texts
        .into_iter()
        .enumerate()
        .map(|(number, text)| {
            let due = began + Real::from_micros(arrival(number).0);
            let client = client.clone();
            let request = Request {
                messages: vec![Message::user(&text)],
                output_cap: batch.output_cap[number].get().unwrap_or(1_000),
                ..Request::default()
            };
            tokio::spawn(async move {
                sleep_until(due).await;
                let late = due.elapsed();
                let trail = call(&client, &request, streamed).await;
                let story = Story {
                    steps: trail.iter().map(step).collect(),
                    total: Duration(due.elapsed().as_micros() as u64),
                };
                (story, late)
            })
        })
        .collect();
    let mut lived = Lived {
        stories: Vec::new(),
        late: Real::ZERO,
    };
    for call in calls {
        let (story, late) = call.await.expect("no call panics");
        lived.stories.push(story);
        lived.late = lived.late.max(late);
    }
    lived.late = lived.late.max(watch.stop());
    lived
}

/// Sleeps a little again and again, and knows the worst delay in waking up.
struct Watch {
    over: Arc<AtomicBool>,
    sleepers: Vec<JoinHandle<Real>>,
}

impl Watch {
    fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let sleeper = || {
            let over = over.clone();
            let nap = Real::from_millis(2);
            std::thread::spawn(move || {
                let mut worst = Real::ZERO;
                while !over.load(Ordering::Relaxed) {
                    let before = Moment::now();
                    std::thread::sleep(nap);
                    worst = worst.max(before.elapsed().saturating_sub(nap));
                }
                worst
            })
        };
        let sleepers = vec![sleeper(), sleeper()];
        Self { over, sleepers }
    }

    fn stop(self) -> Real {
        self.over.store(true, Ordering::Relaxed);
        let worst = |sleeper: JoinHandle<Real>| sleeper.join().unwrap();
        self.sleepers.into_iter().map(worst).max().unwrap()
    }
}

async fn call(client: &Client, request: &Request, streamed: bool) -> Vec<Attempt> {
    let context = CallContext::default();
    let failed = |error: CallError| match error {
        CallError::Unserved { trail, .. } | CallError::MidStream { trail, .. } => trail,
        other => panic!("{other}"),
    };
    if !streamed {
        return match client.complete(request, &context).await {
            Ok(completion) => completion.trail,
            Err(error) => failed(error),
        };
    }
    let mut stream = client.stream(request, &context);
    while let Some(event) = stream.next().await {
        if let Err(error) = event {
            return failed(error);
        }
    }
    stream.trail().to_vec()
}

/// The traces do not hang on a few milliseconds: of one route or of all, or of when incidents begin.
fn check_margins(catalogue: &Catalogue, workload: &Workload, streamed: bool, traces: &[Story]) {
    let texts = |stories: &[Story]| -> Vec<String> { stories.iter().map(Story::text).collect() };
    let expected = texts(traces);
    let check = |what: &str, moved: &Timeline| {
        let found = texts(&simulated(catalogue, workload, moved));
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_eq!(
                found, expected,
                "request {number}, {what}: choose another script"
            );
        }
    };
    for later in [MARGIN.0 / 5, MARGIN.0] {
        for slower in [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0; 3]] {
            let moved = |route: usize| OVERHEADS[route] + slower[route] * later as f64 / 1e3;
            let moved = script(catalogue, streamed, [moved(0), moved(1), moved(2)]);
            check(&format!("slower by {later} µs where {slower:?}"), &moved);
        }
        // An incident that comes earlier is as attempts that come later.
        let mut moved = script(catalogue, streamed, OVERHEADS);
        for incident in &mut moved.incidents {
            incident.from = Instant(incident.from.0 - later);
            incident.until = Instant(incident.until.0 - later);
        }
        check(&format!("incidents earlier by {later} µs"), &moved);
    }
}

/// The story has everything in it that it is meant to compare.
fn check_variety(streamed: bool, traces: &[Story]) {
    let all: Vec<&str> = traces
        .iter()
        .flat_map(|story| story.steps.iter().map(String::as_str))
        .collect();
    let mut wanted = vec![
        "prime#1:ok",
        "prime#2:ok",
        "prime#1:overloaded",
        "prime#1:server",
        "prime#2:overloaded",
        "prime-:breaker_open",
        "second#1:ok",
        "second#1:rate_limit",
        "third#1:ok",
    ];
    if streamed {
        wanted.extend(["prime#1:timeout", "prime#1:server-mid-stream"]);
    }
    for step in wanted {
        assert!(all.contains(&step), "no {step} among {all:#?}");
    }
}

async fn sockets_agree_with_the_simulator(streamed: bool) {
    let plain = catalogue(None);
    let workload = workload_of("w.toml", WORKLOAD);
    let timeline = script(&plain, streamed, OVERHEADS);
    let expected = simulated(&plain, &workload, &timeline);
    check_variety(streamed, &expected);
    check_margins(&plain, &workload, streamed, &expected);
    let (mut on_time, mut told) = (0, String::new());
    for _ in 0..RUNS_MAX {
        let found = lived(&workload, streamed).await;
        let differences = differences(&found.stories, &expected);
        if differences.is_empty() {
            return;
        }
        on_time += usize::from(found.late <= LATE_MAX);
        told += &format!(
            "at worst {:?} late\n{}\n",
            found.late,
            differences.join("\n")
        );
        // Once may be a delay that nobody saw.
        if on_time > 1 {
            break;
        }
    }
    panic!("sockets and simulation disagree\n{told}");
}

fn differences(seen: &[Story], expected: &[Story]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, (seen, expected)) in seen.iter().zip(expected).enumerate() {
        let off = seen.total.0.abs_diff(expected.total.0) as f64;
        let allowed = TOLERANCE.0.0 as f64 + TOLERANCE.1 * expected.total.0 as f64;
        if seen.steps != expected.steps || off > allowed {
            found.push(format!(
                "request {number}\n  simulated {} {}\n  sockets   {} {}",
                expected.total,
                expected.text(),
                seen.total,
                seen.text()
            ));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_over_sockets_go_as_in_the_simulator() {
    sockets_agree_with_the_simulator(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_answers_over_sockets_go_as_in_the_simulator() {
    sockets_agree_with_the_simulator(false).await;
}

#[test]
fn a_timeline_needs_a_server_that_waits() {
    let plain = catalogue(None);
    let workload = workload_of("w.toml", WORKLOAD);
    let spec = ServerSpec {
        acting: Some(acting(&plain, &workload, true)),
        clock: Clock::Virtual,
        ..ServerSpec::default()
    };
    let refused = Server::start(spec).err().expect("an error");
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
}
