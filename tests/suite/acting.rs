//! What acts on time, through the whole path: budgets for retries as `routes.toml` writes them, and what a
//! policy that needs time says where none passes.

use routelab::router::RetryShare;
use routelab::sim::{Fidelity, Stage};
use routelab::source::{Diagnostics, SourceFile};
use routelab::standin::faults;
use routelab::units::Duration;

use crate::given::{catalogue_of, contestant, policy_of, project, run_staged, tally, workload_of};
use crate::program::run_in;

const REQUESTS: u64 = 1_000;

fn sound(name: &str) -> String {
    std::fs::read_to_string(project("tests/configs/invalid/sound").join(name)).unwrap()
}

fn routes(router: &str) -> String {
    format!("{}\n[router]\n{router}\n", sound("routes.toml"))
}

/// Calls for a request when the only route fails every time, and waits are short.
fn calls_in_an_outage(router: &str) -> f64 {
    let text = "attempts_max = 4\nbreaker = false\ncooldown = false\nwait = { base_s = 0.001, jitter = \"none\" }\n";
    let catalogue = catalogue_of(&routes(&format!("{text}{router}")));
    let workload = workload_of("tests/configs/invalid/sound/w.toml", &sound("w.toml"));
    let policy = policy_of("one", "[fixed]\nroute = \"large\"\n", &catalogue);
    let mut found = Diagnostics::default();
    let script = SourceFile::new("f.toml", "[[fault]]\nkind = \"overloaded\"\n");
    let stage = Stage {
        faults: faults::parse(&script, &mut found).expect("a sound script"),
        ..Stage::new(Fidelity::Wired)
    };
    let results = run_staged(&catalogue, &workload, &[policy], REQUESTS, Some(&stage));
    assert_eq!(contestant(&results, "one").kind, "fixed");
    let tally = tally(&results, "one");
    assert_eq!(tally.unserved.iter().sum::<u64>(), REQUESTS);
    tally.calls_sum as f64 / REQUESTS as f64
}

#[test]
fn a_retry_budget_in_the_file_bounds_what_an_outage_multiplies() {
    assert_eq!(calls_in_an_outage(""), 4.0, "every attempt there is");
    assert_eq!(calls_in_an_outage("retry_budget = false"), 4.0);
    // One retry for every five calls, to the last one.
    let window = "retry_budget = { percent = 20, reserve_per_s = 0, window_s = 3600 }";
    assert_eq!(calls_in_an_outage(window), 1.2);
    // Whatever the traffic, ten a second for ten seconds are a hundred at once; requests are a second
    // apart here, so that nobody is ever refused one.
    assert_eq!(calls_in_an_outage("retry_budget = { percent = 20 }"), 4.0);
    // Calls come one after the other: 20 % of one call in progress is none, the reserve is one.
    let in_flight = "retry_budget = { in_flight_percent = 20, reserve = 0 }";
    assert_eq!(calls_in_an_outage(in_flight), 1.0);
    assert_eq!(calls_in_an_outage("retry_budget = { reserve = 1 }"), 4.0);
}

#[test]
fn what_a_budget_leaves_out_is_what_its_inventors_take() {
    let read = |text: &str| catalogue_of(&routes(text)).router.retry_share;
    let finagle = Some(RetryShare::Window {
        percent: 20,
        reserve_per_s: 10,
        window: Duration::from_secs(10),
    });
    assert_eq!(read("retry_budget = { percent = 20 }"), finagle);
    assert_eq!(read("retry_budget = { window_s = 10.0 }"), finagle);
    let envoy = Some(RetryShare::InFlight {
        percent: 20,
        reserve: 3,
    });
    assert_eq!(read("retry_budget = { reserve = 3 }"), envoy);
    assert_eq!(read("preset = \"envoy\""), envoy, "its own default");
    assert_eq!(read("preset = \"envoy\"\nretry_budget = true"), envoy);
    assert_eq!(read("preset = \"envoy\"\nretry_budget = false"), None);
    assert_eq!(
        read("preset = \"envoy\"\nretry_budget = { percent = 20 }"),
        finagle,
        "another form replaces the preset's"
    );
    assert_eq!(read("attempts_max = 3"), None);
}

#[test]
fn where_no_time_passes_a_latency_aware_policy_splits_evenly_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["w.toml", "routes.toml"] {
        std::fs::write(folder.path().join(name), sound(name)).unwrap();
    }
    let policy = "[latency-aware]\nroutes = [\"small\", \"large\"]\n";
    std::fs::write(folder.path().join("fast.toml"), policy).unwrap();
    let ran = run_in(
        folder.path(),
        &[
            "compare",
            "w.toml",
            "-p",
            "fast.toml",
            "--routes",
            "routes.toml",
            "--requests",
            "10000",
            "--format",
            "json",
        ],
    );
    assert!(
        ran.stderr.contains("no time passes in this comparison"),
        "{}",
        ran.stderr
    );
    let share = &ran.json()["rows"][0]["metrics"]["final_share"]["small"]["value"];
    let share = share.as_f64().unwrap();
    // Four standard deviations.
    assert!((share - 0.5).abs() < 0.02, "{share}");
}
