//! Requests that share a clock: simulated requests per second and core, with faults and limits on.
//!
//! The world is a small one of its own: Poisson-like arrivals, lognormal latencies, rate limits on every
//! route, an incident that lasts a tenth of the run, errors by chance; the policy is a cascade with
//! fallbacks or static rules. The opponent is the same queue written with simpy, run right after on the same
//! machine on CPU time; set `ROUTELAB_SIMPY_PYTHON` to a Python that has simpy.

use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use criterion::{Criterion, Throughput};
use routelab::catalogue::{self, Catalogue};
use routelab::policy::{self, PolicyFile};
use routelab::router::{FaultKind, RouteId};
use routelab::sim::{self, Experiment, Timed};
use routelab::source::{Diagnostics, SourceFile};
use routelab::timeline::{Arrivals, Chances, Effect, Incident, Latency, Limit, Slo, Timeline};
use routelab::units::{Duration, Instant, Probability};
use routelab::workload::{self, Workload};

const REQUESTS: u64 = 1_000_000;

struct Inputs {
    catalogue: Catalogue,
    workload: Workload,
    policies: Vec<PolicyFile>,
    timeline: Timeline,
}

fn inputs(policy: &str) -> Inputs {
    let mut found = Diagnostics::default();
    let file = SourceFile::new("routes.toml", include_str!("../policies/routes.toml"));
    let catalogue = catalogue::parse(&file, &mut found).expect("the shipped catalogue");
    let file = SourceFile::new("support.toml", include_str!("../workloads/support.toml"));
    let workload = workload::parse(&file, "support", &mut found)
        .and_then(|spec| spec.build(None, &mut found))
        .expect("the shipped workload");
    let file = SourceFile::new("policy.toml", policy);
    let policies = vec![policy::parse(&file, "policy", &catalogue, &mut found).expect("a policy")];
    let timeline = timeline(&catalogue);
    Inputs {
        catalogue,
        workload,
        policies,
        timeline,
    }
}

fn timeline(catalogue: &Catalogue) -> Timeline {
    let mut timeline = Timeline::instant(catalogue, Arrivals::every(Duration::from_millis(5)));
    let routes = catalogue.routes.len();
    let share = |p| Probability::new(p).expect("a probability");
    timeline.latency = vec![Latency::hosted(); routes];
    timeline.chances = (0..routes)
        .map(|_| Chances::new(vec![(FaultKind::Overloaded, share(0.004))], share(0.001)))
        .collect::<Option<_>>()
        .expect("shares that add up to less than one");
    timeline.limits = (0..routes)
        .map(|route| Limit {
            per_min: [Some(11_000), Some(12_000_000), Some(3_000_000), None],
            ..Limit::new(format!("limit-{route}"), vec![RouteId(route as u16)])
        })
        .collect();
    let length = 5_000 * REQUESTS;
    timeline.incidents = vec![Incident {
        name: "openai".to_owned(),
        routes: vec![RouteId(0)],
        from: Instant(length * 4 / 10),
        until: Instant(length * 5 / 10),
        effect: Effect::Fail {
            kind: FaultKind::Overloaded,
            share: share(0.8),
        },
    }];
    timeline.slo = Slo {
        ttft: Duration::from_secs(3),
        total: Duration::from_secs(20),
    };
    timeline
}

fn run(inputs: &Inputs) -> sim::Results {
    let timed = Timed {
        timeline: &inputs.timeline,
        calm: false,
        keep_lines: false,
    };
    let experiment = Experiment {
        catalogue: &inputs.catalogue,
        workload: &inputs.workload,
        policies: &inputs.policies,
        seed: 2026,
        requests: REQUESTS,
        replicates: 1,
        baseline: None,
        controls: false,
        stage: None,
        slices: false,
        timed: Some(&timed),
        cluster: None,
    };
    let stop = AtomicBool::new(false);
    sim::run(&experiment, &mut Diagnostics::default(), &|_| {}, &stop)
        .expect("the shipped files fit each other")
}

/// CPU time of this thread so far, in nanoseconds (Linux: first field of `schedstat`).
fn cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Million requests per second of this core's time: the best of `repeats`.
fn best(inputs: &Inputs, repeats: usize) -> Option<f64> {
    let one = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("one thread");
    (0..repeats)
        .filter_map(|_| {
            one.install(|| {
                let before = cpu_ns()?;
                black_box(run(inputs));
                Some(REQUESTS as f64 * 1e3 / (cpu_ns()? - before) as f64)
            })
        })
        .max_by(f64::total_cmp)
}

/// The same of the simpy model, in million requests per second.
fn simpy() -> Result<f64, String> {
    let python = std::env::var_os("ROUTELAB_SIMPY_PYTHON").unwrap_or_else(|| "python3".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/simpy_baseline.py");
    let output = Command::new(python)
        .arg(script)
        .output()
        .map_err(|error| format!("python3: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let error = String::from_utf8_lossy(&output.stderr);
        let last = error.lines().last().unwrap_or("no output").to_owned();
        format!("benches/simpy_baseline.py did not run: {last}; `pip install simpy`")
    })
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench reports to whoever runs it"
)]
fn main() {
    let worlds = [
        ("static_rules", include_str!("../policies/static.toml")),
        ("cascade", include_str!("../policies/cascade.toml")),
    ]
    .map(|(name, policy)| (name, inputs(policy)));
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    let one = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("one thread");
    let mut group = criterion.benchmark_group("timeline");
    group.throughput(Throughput::Elements(REQUESTS));
    for (name, inputs) in &worlds {
        group.bench_function(*name, |bencher| {
            one.install(|| bencher.iter(|| black_box(run(inputs))));
        });
    }
    group.finish();
    criterion.final_summary();

    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let mut slowest: Option<f64> = None;
    for (name, inputs) in &worlds {
        let Some(ours) = best(inputs, 5) else {
            eprintln!("no CPU clock of a thread on this system; no ratio");
            return;
        };
        let results = run(inputs);
        let passage = &results.contestants[0].passages[0];
        let refused: u64 = passage.routes.iter().flat_map(|route| route.refused).sum();
        let attempts: u64 = passage.routes.iter().map(|route| route.attempts).sum();
        println!(
            "{name}: {ours:.2} M requests/s per core (CPU time, best of 5); {attempts} attempts for {REQUESTS} requests, {refused} refused by limits, {} in flight at most",
            passage.in_flight_max
        );
        slowest = Some(slowest.map_or(ours, |slowest| slowest.min(ours)));
    }
    match (simpy(), slowest) {
        (Ok(simpy), Some(ours)) => println!(
            "simpy, one route, the same queue: {simpy:.3} M requests/s\nratio (of the slower of ours): {:.0}",
            ours / simpy
        ),
        (Err(why), _) => println!("no simpy figure to compare with ({why})"),
        (Ok(_), None) => {}
    }
}
