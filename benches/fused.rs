//! Draw and six policies through the real router core, streamed: requests per second and core.
//!
//! The opponent is what a good Python user writes: `numpy_baseline.py`, run right after on the same
//! machine, on CPU time as here. Its ratio is printed last. Set `ROUTELAB_NUMPY_BASELINE` to the
//! script's path if it is not at `../shared/bench/numpy_baseline.py`.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use criterion::{Criterion, Throughput};
use routelab::catalogue::{self, Catalogue};
use routelab::policy::{self, PolicyFile};
use routelab::sim::{self, Experiment};
use routelab::source::{Diagnostics, SourceFile};
use routelab::workload::{self, Workload};

const REQUESTS: u64 = 1_000_000;

/// The six policies of the lesson's table.
const POLICIES: [(&str, &str); 6] = [
    ("always-small", "[fixed]\nroute = \"small\"\n"),
    ("always-large", "[fixed]\nroute = \"large\"\n"),
    ("static", include_str!("../policies/static.toml")),
    (
        "capability-cost",
        include_str!("../policies/capability-cost.toml"),
    ),
    ("cascade", include_str!("../policies/cascade.toml")),
    ("eval-driven", include_str!("../policies/eval-driven.toml")),
];

struct Inputs {
    catalogue: Catalogue,
    workload: Workload,
    policies: Vec<PolicyFile>,
}

fn inputs() -> Inputs {
    let mut found = Diagnostics::default();
    let file = SourceFile::new(
        "policies/routes.toml",
        include_str!("../policies/routes.toml"),
    );
    let catalogue = catalogue::parse(&file, &mut found).expect("the shipped catalogue");
    let file = SourceFile::new(
        "workloads/support.toml",
        include_str!("../workloads/support.toml"),
    );
    let workload = workload::parse(&file, "support", &mut found)
        .and_then(|spec| spec.build(None, &mut found))
        .expect("the shipped workload");
    let policies = POLICIES
        .iter()
        .map(|(name, text)| {
            let file = SourceFile::new(*name, *text);
            policy::parse(&file, name, &catalogue, &mut found).expect("a shipped policy")
        })
        .collect();
    Inputs {
        catalogue,
        workload,
        policies,
    }
}

fn run(inputs: &Inputs, requests: u64, controls: bool) -> sim::Results {
    let experiment = Experiment {
        catalogue: &inputs.catalogue,
        workload: &inputs.workload,
        policies: if controls {
            &inputs.policies[2..]
        } else {
            &inputs.policies
        },
        seed: 2026,
        requests,
        replicates: 1,
        baseline: None,
        controls,
        stage: None,
        slices: false,
        timed: None,
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
fn best(inputs: &Inputs, repeats: usize, controls: bool) -> Option<f64> {
    let one = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("one thread");
    (0..repeats)
        .filter_map(|_| {
            one.install(|| {
                let before = cpu_ns()?;
                black_box(run(inputs, REQUESTS, controls));
                Some(REQUESTS as f64 * 1e3 / (cpu_ns()? - before) as f64)
            })
        })
        .max_by(f64::total_cmp)
}

/// The same of the NumPy program: draw and six policies.
fn numpy() -> Result<f64, String> {
    let script = std::env::var_os("ROUTELAB_NUMPY_BASELINE").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/bench/numpy_baseline.py"),
        PathBuf::from,
    );
    let output = Command::new("python3")
        .arg(&script)
        .args(["--n", "1000000", "--threads", "1", "--reps", "5"])
        .output()
        .map_err(|error| format!("python3: {error}"))?;
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        format!(
            "{} did not run: {}",
            script.display(),
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    json["runs"][0]["draw_plus_policies_req_per_core_s"]
        .as_f64()
        .map(|rate| rate / 1e6)
        .ok_or_else(|| "its output has no rate".to_owned())
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench reports to whoever runs it"
)]
fn main() {
    let inputs = inputs();
    let mut criterion = Criterion::default().configure_from_args().sample_size(10);
    let one = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .expect("one thread");
    let mut group = criterion.benchmark_group("fused");
    group.throughput(Throughput::Elements(REQUESTS));
    group.bench_function("draw_and_six_policies", |bencher| {
        one.install(|| bencher.iter(|| black_box(run(&inputs, REQUESTS, false))));
    });
    group.bench_function("compare_with_controls_and_pairs", |bencher| {
        one.install(|| bencher.iter(|| black_box(run(&inputs, REQUESTS, true))));
    });
    group.finish();
    criterion.final_summary();

    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let Some(ours) = best(&inputs, 5, false) else {
        eprintln!("no CPU clock of a thread on this system; no ratio");
        return;
    };
    println!(
        "\nroutelab, draw + six policies through the router core: {ours:.2} M requests/s per core (CPU time, best of 5)"
    );
    match numpy() {
        Ok(numpy) => println!(
            "numpy_baseline.py, draw + six policies:                {numpy:.2} M requests/s per core\nratio: {:.2}",
            ours / numpy
        ),
        Err(why) => println!("no NumPy figure to compare with ({why})"),
    }
}
