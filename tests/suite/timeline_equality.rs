//! Where nothing takes time, nothing is refused and nothing goes wrong, a timeline changes nothing.

use std::sync::atomic::AtomicBool;

use routelab::catalogue::Catalogue;
use routelab::policy::{KINDS, PolicyFile};
use routelab::sim::{self, Experiment, Results, Timed};
use routelab::source::Diagnostics;
use routelab::timeline::{Arrivals, Timeline};
use routelab::units::Duration;
use routelab::workload::Workload;

use crate::given::{policies, policy_of, routes, run, workload};

fn in_time(
    catalogue: &Catalogue,
    workload: &Workload,
    policies: &[PolicyFile],
    requests: u64,
    gap: Duration,
) -> Results {
    let timeline = Timeline::instant(catalogue, Arrivals::every(gap));
    let timed = Timed {
        timeline: &timeline,
        calm: true,
        keep_lines: false,
    };
    let experiment = Experiment {
        catalogue,
        workload,
        policies,
        seed: 2026,
        requests,
        replicates: 1,
        baseline: None,
        controls: true,
        stage: None,
        slices: false,
        timed: Some(&timed),
        cluster: None,
    };
    match sim::run(
        &experiment,
        &mut Diagnostics::default(),
        &|_| {},
        &AtomicBool::new(false),
    ) {
        Ok(results) => results,
        Err(stopped) => panic!("{stopped:?}"),
    }
}

fn same(catalogue: &Catalogue, workload: &Workload, policies: &[PolicyFile], requests: u64) {
    let batch = run(catalogue, workload, policies, requests);
    for gap in [Duration::ZERO, Duration::from_millis(1)] {
        let timed = in_time(catalogue, workload, policies, requests, gap);
        assert_eq!(batch.requests, timed.requests);
        assert_eq!(batch.contestants.len(), timed.contestants.len());
        for (batch, timed) in batch.contestants.iter().zip(&timed.contestants) {
            let name = format!("{} on {requests} of {}", batch.name, workload.name);
            assert_eq!(batch.tallies, timed.tallies, "{name}");
            assert_eq!(batch.pairs, timed.pairs, "{name}");
            if !timed.passages.is_empty() {
                assert_eq!(timed.tallies, timed.calm_tallies, "{name}: on the calm day");
            }
            for (passage, calm) in timed.passages.iter().zip(&timed.calm) {
                let mut passage = passage.clone();
                assert_eq!(
                    passage.totals.compared,
                    passage.totals.requests - passage.totals.undetermined
                );
                for counts in passage.bins.iter_mut().chain([&mut passage.totals]) {
                    // Days are compared once, and it is booked in the day as declared.
                    (counts.compared, counts.judged) = (0, 0);
                }
                assert_eq!(
                    passage, *calm,
                    "{name}: there was nothing to make a difference"
                );
                let served: u64 = batch.tallies[0].final_count.iter().sum();
                assert_eq!(passage.totals.served, served, "{name}");
                assert_eq!(passage.totals.requests, batch.tallies[0].requests, "{name}");
                assert_eq!(passage.residency_violations, 0, "{name}");
            }
        }
    }
}

#[test]
fn an_instant_timeline_gives_the_tallies_of_the_batch_path_on_every_shipped_workload() {
    let catalogue = routes();
    for (path, folder, requests) in [
        ("workloads/support.toml", "policies", 6_000),
        ("workloads/tenants.toml", "policies", 9_000),
        ("workloads/lesson-recorded.toml", "policies/lesson", 6_000),
    ] {
        let workload = workload(path);
        let mut policies = policies(folder, &catalogue);
        policies.extend(policies_of_every_kind(&catalogue));
        same(&catalogue, &workload, &policies, requests);
    }
}

fn policies_of_every_kind(catalogue: &Catalogue) -> Vec<PolicyFile> {
    KINDS
        .iter()
        .filter(|kind| !kind.example.contains("latency-aware"))
        .map(|kind| policy_of(&format!("example-{}", kind.name), kind.example, catalogue))
        .collect()
}
