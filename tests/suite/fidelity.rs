//! The three fidelities against each other: the same attempts, failures and waits, and the same numbers.

use routelab::catalogue::Catalogue;
use routelab::policy::PolicyFile;
use routelab::sim::{Fidelity, Results, Stage};
use routelab::source::{Diagnostics, SourceFile};
use routelab::standin::faults::{self, Faults};

use crate::given::{self, run_staged};

/// A script with every act, on every route.
const SCRIPT: &str = r#"
[[fault]]
skip = 500
first = 40
route = "large"
status = 503
headers = { retry-after = "1" }

[[fault]]
skip = 1
first = 60
status = 429
headers = { retry-after = "Thu, 01 Jan 1970 00:00:30 GMT" }

[[fault]]
share = 0.03
attempts = 1
kind = "rate_limit"
retry_after_s = 1.5

[[fault]]
share = 0.01
kind = "overloaded"

[[fault]]
share = 0.004
kind = "quota"

[[fault]]
share = 0.004
kind = "context_length"

[[fault]]
share = 0.004
kind = "content_filter"

[[fault]]
share = 0.01
error_frame = { kind = "overloaded", after = 2 }

[[fault]]
share = 0.005
error_frame = { kind = "server", after = 0 }

[[fault]]
share = 0.01
cut = { after = 1 }

[[fault]]
share = 0.01
reset = { after = 0 }

[[fault]]
share = 0.005
stall = { after = 2 }

[[fault]]
share = 0.005
slow_first_token_s = 3

[[fault]]
share = 0.005
slow_first_token_s = 45

[[fault]]
share = 0.005
broken_frame = { after = 1 }

[[fault]]
share = 0.005
keep_alives_only = true
"#;

fn script(text: &str) -> Faults {
    let mut found = Diagnostics::default();
    let read = faults::parse(&SourceFile::new("faults.toml", text), &mut found);
    read.unwrap_or_else(|| panic!("{}", found.render(false)))
}

/// Every kind of policy there is, with a check and a judge.
fn everybody(catalogue: &Catalogue) -> Vec<PolicyFile> {
    let mut policies: Vec<PolicyFile> = routelab::policy::KINDS
        .iter()
        .map(|kind| given::policy_of(&format!("a-{}", kind.name), kind.example, catalogue))
        .collect();
    for kind in routelab::verify::CHECKS {
        // Programs are not run ten thousand times; their own tests run them.
        if kind.name == "command" {
            continue;
        }
        let text = format!(
            "[cascade]\norder = [\"small\", \"medium\", \"large\"]\n{}\n",
            kind.example
        );
        policies.push(given::policy_of(
            &format!("cascade-{}", kind.name),
            &text,
            catalogue,
        ));
    }
    policies
}

fn stage(fidelity: Fidelity, faults: &Faults) -> Stage {
    Stage {
        faults: faults.clone(),
        keep_lines: true,
        ..Stage::new(fidelity)
    }
}

/// Sockets are slower: here the first of the requests go through them, and `.ci/fidelity` sends all ten
/// thousand with a quick build.
#[cfg(feature = "live")]
const OVER_SOCKETS: u64 = 1_000;

/// The first line in which two traces differ, with what stands before it.
fn assert_alike(one: &Results, other: &Results, what: &str) {
    for (a, b) in one.contestants.iter().zip(&other.contestants) {
        for (a_trace, b_trace) in a.traces.iter().zip(&b.traces) {
            let differs = a_trace
                .lines
                .iter()
                .zip(&b_trace.lines)
                .position(|(a, b)| a != b);
            if let Some(at) = differs {
                panic!(
                    "{what}: `{}` differs:\n  {}\n  {}\nafter {:#?}",
                    a.name,
                    a_trace.lines[at],
                    b_trace.lines[at],
                    &a_trace.lines[at.saturating_sub(6)..at]
                );
            }
            assert_eq!(a_trace, b_trace, "{what}: {}", a.name);
        }
        assert_eq!(a.tallies, b.tallies, "{what}: {}", a.name);
        assert_eq!(a.pairs, b.pairs, "{what}: {}", a.name);
    }
}

#[test]
fn without_faults_the_fast_tables_and_the_bytes_agree() {
    let (catalogue, workload) = (given::routes(), given::workload("workloads/support.toml"));
    let policies = everybody(&catalogue);
    let none = Faults::default();
    let fast = run_staged(&catalogue, &workload, &policies, 10_000, None);
    let tables = run_staged(
        &catalogue,
        &workload,
        &policies,
        10_000,
        Some(&stage(Fidelity::Outcome, &none)),
    );
    let wired = run_staged(
        &catalogue,
        &workload,
        &policies,
        10_000,
        Some(&stage(Fidelity::Wired, &none)),
    );
    for (a, b) in fast.contestants.iter().zip(&tables.contestants) {
        assert_eq!(a.tallies, b.tallies, "{}", a.name);
        assert_eq!(a.pairs, b.pairs, "{}", a.name);
    }
    assert_alike(&tables, &wired, "wired");
}

#[test]
fn with_faults_the_attempts_failures_and_waits_are_the_same_at_every_fidelity() {
    let (catalogue, workload) = (given::routes(), given::workload("workloads/support.toml"));
    let policies = everybody(&catalogue);
    let faults = script(SCRIPT);
    let tables = run_staged(
        &catalogue,
        &workload,
        &policies,
        10_000,
        Some(&stage(Fidelity::Outcome, &faults)),
    );
    let wired = run_staged(
        &catalogue,
        &workload,
        &policies,
        10_000,
        Some(&stage(Fidelity::Wired, &faults)),
    );
    if let Ok(path) = std::env::var("ROUTELAB_TRACES") {
        for one in &tables.contestants {
            for trace in &one.traces {
                std::fs::write(format!("{path}/{}.trace", one.name), trace.lines.join("\n"))
                    .unwrap();
            }
        }
    }
    assert_alike(&tables, &wired, "wired");
    for one in tables.contestants.iter().filter(|one| one.name != "oracle") {
        let trace = &one.traces[0];
        assert!(trace.attempts > 0, "{}", one.name);
        assert!(
            trace.failed > 0 && trace.failed_after_output > 0,
            "{}",
            one.name
        );
        assert!(trace.waits > 0, "{}", one.name);
    }
}

#[test]
fn what_goes_wrong_does_not_depend_on_the_number_of_threads() {
    let (catalogue, workload) = (given::routes(), given::workload("workloads/support.toml"));
    let policies = everybody(&catalogue);
    let faults = script(SCRIPT);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(|| {
            let stage = stage(Fidelity::Wired, &faults);
            run_staged(&catalogue, &workload, &policies, 1_000, Some(&stage))
        })
    };
    let one = with(1);
    for threads in [2, 7] {
        assert_alike(&one, &with(threads), &format!("{threads} threads"));
    }
}

#[cfg(feature = "live")]
#[test]
fn over_sockets_the_attempts_failures_and_waits_are_the_same() {
    let (catalogue, workload) = (given::routes(), given::workload("workloads/support.toml"));
    let policies = everybody(&catalogue);
    for faults in [Faults::default(), script(SCRIPT)] {
        let wired = run_staged(
            &catalogue,
            &workload,
            &policies,
            OVER_SOCKETS,
            Some(&stage(Fidelity::Wired, &faults)),
        );
        let loopback = run_staged(
            &catalogue,
            &workload,
            &policies,
            OVER_SOCKETS,
            Some(&stage(Fidelity::Loopback, &faults)),
        );
        assert_alike(&wired, &loopback, "loopback");
    }
}
