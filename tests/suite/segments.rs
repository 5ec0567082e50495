//! Tasks and tenants apart: the same sums as the whole, whichever way an experiment is run.

use std::sync::atomic::AtomicBool;

use routelab::catalogue::Catalogue;
use routelab::policy::PolicyFile;
use routelab::report::{self, Manifest, Options, SLICE_PAIRS_LEAST, SliceBy};
use routelab::sim::{self, Experiment, Fidelity, Results, Segment, Stage, Timed};
use routelab::source::Diagnostics;
use routelab::stats::{NonInferiority, PairTally, SegmentTally, Tally};
use routelab::timeline::{Arrivals, Timeline};
use routelab::units::Duration;
use routelab::workload::Workload;

use crate::given::{experiment, json_of, policies, routes, run_on, workload};

const TENANTS: &str = "workloads/tenants.toml";

fn manifest() -> Manifest {
    Manifest {
        seed: 2026,
        ..Manifest::default()
    }
}

/// What a segment counts of a tally.
fn counted(tally: &Tally) -> SegmentTally {
    SegmentTally {
        requests: tally.requests,
        graded: tally.graded,
        fractional: tally.fractional,
        score_sum: tally.score_sum,
        score_square_sum: tally.score_square_sum,
        costed: tally.costed,
        cost_sum: tally.cost_sum,
        cost_square_sum: tally.cost_square_sum,
    }
}

/// All segments together are the whole, for everybody, in each replicate.
fn assert_whole(results: &Results) {
    assert!(!results.segments.is_empty());
    for (index, contestant) in results.contestants.iter().enumerate() {
        let name = &contestant.name;
        for (replicate, tally) in contestant.tallies.iter().enumerate() {
            let mut all = SegmentTally::default();
            for segment in &results.segments {
                all.merge(&segment.of[index].tallies[replicate]);
            }
            assert_eq!(all, counted(tally), "{name} in replicate {replicate}");
            for (baseline, pairs) in contestant.pairs.iter().enumerate() {
                let parts = results.segments.iter();
                let parts = parts.map(|one| &one.of[index].pairs[baseline][replicate]);
                assert_eq!(PairTally::total(parts), pairs[replicate], "{name}");
            }
        }
    }
    for replicate in 0..results.replicates as usize {
        let requests: u64 = results
            .segments
            .iter()
            .map(|one| one.requests[replicate])
            .sum();
        assert_eq!(requests, results.contestants[0].tallies[replicate].requests);
    }
}

/// The same with and without segments, at any number of threads, and they add up to the whole.
fn holds(experiment: &Experiment<'_>) -> Vec<Segment> {
    let without = run_on(experiment, 2);
    assert!(without.segments.is_empty());
    let with = Experiment { ..*experiment };
    let with = Experiment {
        slices: true,
        ..with
    };
    let one = run_on(&with, 1);
    assert_eq!(
        format!("{:?}", one.contestants),
        format!("{:?}", without.contestants)
    );
    assert_eq!(one.notes, without.notes);
    for threads in [2, 7] {
        assert_eq!(
            run_on(&with, threads).segments,
            one.segments,
            "{threads} threads"
        );
    }
    assert_whole(&one);
    one.segments
}

fn given(path: &str) -> (Catalogue, Workload, Vec<PolicyFile>) {
    let catalogue = routes();
    let folder = if path == TENANTS {
        "policies"
    } else {
        "policies/lesson"
    };
    let policies = policies(folder, &catalogue);
    (catalogue, workload(path), policies)
}

#[test]
fn segments_change_nothing_and_add_up_to_the_whole_in_chunks() {
    let (catalogue, workload, policies) = given(TENANTS);
    // More than one chunk, the last slice cut short; without and with policies that learn while they run.
    let all = experiment(&catalogue, &workload, &policies, 66_000);
    let segments = holds(&Experiment {
        replicates: 2,
        ..all
    });
    assert_eq!(
        segments.len(),
        workload.tasks.len() * workload.tenants.len()
    );
    let names: Vec<(&str, Option<&str>)> = segments
        .iter()
        .map(|one| (one.task.as_str(), one.tenant.as_deref()))
        .collect();
    assert_eq!(
        names[..3],
        [
            ("chat", Some("acme")),
            ("chat", Some("bank")),
            ("agent", Some("acme"))
        ]
    );
    let stateless: Vec<PolicyFile> = policies
        .into_iter()
        .filter(|policy| !["canary"].contains(&policy.spec.kind()))
        .collect();
    let few = experiment(&catalogue, &workload, &stateless, 66_000);
    holds(&few);
    let recorded = given("workloads/lesson-recorded.toml");
    let recorded = experiment(&recorded.0, &recorded.1, &recorded.2, u64::MAX);
    assert!(holds(&recorded).iter().all(|one| one.tenant.is_none()));
}

#[test]
fn segments_are_the_same_where_requests_are_cut_into_blocks() {
    let (catalogue, workload, policies) = given(TENANTS);
    let all = experiment(&catalogue, &workload, &policies[..2], 5_000);
    let all = Experiment {
        slices: true,
        ..all
    };
    let whole = run_on(&all, 2);
    let stop = AtomicBool::new(false);
    let (results, blocks) =
        sim::run_in_blocks(&all, 7, &mut Diagnostics::default(), &|_| {}, &stop).unwrap();
    assert_eq!(results.segments, whole.segments);
    assert_eq!(
        format!("{:?}", results.contestants),
        format!("{:?}", whole.contestants)
    );
    for (of, contestant) in blocks.of.iter().zip(&whole.contestants) {
        let graded: u64 = of[0].iter().map(|block| block.graded).sum();
        assert_eq!((of[0].len(), graded), (7, contestant.tallies[0].graded));
    }
}

#[test]
fn segments_change_nothing_and_add_up_to_the_whole_staged_and_in_time() {
    let (catalogue, workload, policies) = given(TENANTS);
    let all = experiment(&catalogue, &workload, &policies, 5_000);
    let batch = holds(&all);
    let stage = Stage::new(Fidelity::Outcome);
    let staged = holds(&Experiment {
        stage: Some(&stage),
        ..all
    });
    assert_eq!(staged, batch, "nothing goes wrong here");
    let all = experiment(&catalogue, &workload, &policies, 5_000);
    let timeline = Timeline::instant(&catalogue, Arrivals::every(Duration::from_millis(1)));
    let timed = Timed {
        timeline: &timeline,
        calm: true,
        keep_lines: false,
    };
    let timed = holds(&Experiment {
        timed: Some(&timed),
        ..all
    });
    assert_eq!(timed, batch, "nothing takes time here");
}

#[test]
fn a_report_compares_each_task_each_tenant_and_both() {
    let (catalogue, workload, policies) = given(TENANTS);
    let all = experiment(&catalogue, &workload, &policies, 20_000);
    let results = run_on(
        &Experiment {
            slices: true,
            ..all
        },
        2,
    );
    let findings = report::findings(&results, &Options::default(), manifest()).unwrap();
    let of = |by| findings.slices.iter().filter(move |slice| slice.by == by);
    let counts = SliceBy::ALL.map(|by| of(by).count());
    assert_eq!(counts, [3, 2, 6]);
    for by in SliceBy::ALL {
        let requests: u64 = of(by).map(|slice| slice.requests).sum();
        assert_eq!(requests, 20_000);
    }
    assert!(of(SliceBy::Tenant).all(|slice| slice.task.is_none() && slice.tenant.is_some()));
    assert!(of(SliceBy::Task).all(|slice| slice.task.is_some() && slice.tenant.is_none()));
    for slice in &findings.slices {
        assert_eq!(slice.rows.len(), results.contestants.len());
        for row in &slice.rows {
            let is_baseline = Some(&row.policy) == findings.baseline.as_ref();
            assert_eq!(row.verdict.is_none(), is_baseline);
            assert_eq!(row.accuracy_difference.is_none(), is_baseline);
        }
    }
    // The mean over slices, weighted by their requests, is the whole.
    let whole = findings.row("cascade").unwrap();
    for (name, value) in [
        (
            "accuracy",
            (|row| row.accuracy.value) as fn(&report::SliceRow) -> Option<f64>,
        ),
        ("usd_per_1k", |row| row.usd_per_1k.value),
    ] {
        let parts = of(SliceBy::TaskAndTenant).map(|slice| {
            let row = slice
                .rows
                .iter()
                .find(|row| row.policy == "cascade")
                .unwrap();
            value(row).unwrap() * slice.requests as f64 / 20_000.0
        });
        let sum: f64 = parts.sum();
        let wanted = whole.metric(name).unwrap().value.unwrap();
        assert!((sum - wanted).abs() < 1e-9, "{name}: {sum}, not {wanted}");
    }
    let document: serde_json::Value = serde_json::from_str(&json_of(&findings)).unwrap();
    assert_eq!(document["slices"].as_array().unwrap().len(), 11);
    assert_eq!(document["slices"][3]["by"], "tenant");
    assert_eq!(document["slices"][3]["tenant"], "acme");
    assert!(document["slices"][3]["task"].is_null());
    assert!(
        findings
            .slice_note
            .iter()
            .any(|note| note.contains("verdicts of slices"))
    );
    // Whoever did not ask finds nothing of it.
    let results = run_on(&experiment(&catalogue, &workload, &policies, 2_000), 2);
    let findings = report::findings(&results, &Options::default(), manifest()).unwrap();
    let text = json_of(&findings);
    assert!(findings.slices.is_empty() && !text.contains("slices"));
}

/// One slice only, with a verdict that the whole run shares: what is computed is the same.
#[test]
fn a_slice_that_is_the_whole_says_what_the_whole_says() {
    let (catalogue, workload, policies) = given(TENANTS);
    let only = workload.only_task(0).unwrap();
    let all = experiment(&catalogue, &only, &policies, 3_000);
    let results = run_on(
        &Experiment {
            slices: true,
            replicates: 3,
            ..all
        },
        2,
    );
    let findings = report::findings(&results, &Options::default(), manifest()).unwrap();
    assert_eq!(findings.slices.len(), 1 + workload.tenants.len());
    let slice = &findings.slices[0];
    assert_eq!(slice.requests, 3 * 3_000);
    // Verdicts of the whole may be held back for the other policies that are tested; those of slices are not.
    for paired in findings
        .paired
        .iter()
        .filter(|one| one.control || !one.held_back)
    {
        let row = slice
            .rows
            .iter()
            .find(|row| row.policy == paired.policy)
            .unwrap();
        assert_eq!(
            row.accuracy_difference.as_ref(),
            Some(&paired.accuracy_difference)
        );
        assert_eq!(row.verdict, Some(paired.verdict), "{}", row.policy);
        let whole = findings.row(&row.policy).unwrap();
        assert_eq!(Some(&row.accuracy), whole.metric("accuracy"));
        assert_eq!(Some(&row.usd_per_1k), whole.metric("usd_per_1k"));
    }
}

#[test]
fn a_slice_with_few_pairs_is_inconclusive_whatever_its_interval_says() {
    let (catalogue, workload, _) = given(TENANTS);
    for (requests, open) in [(SLICE_PAIRS_LEAST - 1, true), (SLICE_PAIRS_LEAST, false)] {
        let only = workload.only_task(2).unwrap();
        let all = experiment(&catalogue, &only, &[], requests);
        let all = Experiment {
            slices: true,
            baseline: Some("always-small"),
            ..all
        };
        let results = run_on(&all, 1);
        let options = Options {
            margin: 0.6,
            ..Options::default()
        };
        let findings = report::findings(&results, &options, manifest()).unwrap();
        let slice = &findings.slices[0];
        assert_eq!(slice.requests, requests);
        let large = slice
            .rows
            .iter()
            .find(|row| row.policy == "always-large")
            .unwrap();
        let interval = large.accuracy_difference.as_ref().unwrap().low.unwrap();
        assert!(interval > -0.6, "an interval that would do");
        assert_eq!(large.verdict == Some(NonInferiority::Inconclusive), open);
    }
}
