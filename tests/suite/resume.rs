//! A run that was interrupted and goes on comes to the bytes of one that was not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use routelab::policy::{PolicyFile, Unit};
use routelab::report::{self, Manifest, Options};
use routelab::router::RouteId;
use routelab::sim::{
    self, Blocks, Checkpoint, Experiment, Fidelity, Results, Stage, Stopped, Timed,
};
use routelab::source::Diagnostics;
use routelab::timeline::{Arrivals, Lasting, Latency, Outages, Timeline};
use routelab::units::Duration;

use crate::given::{experiment, json_of, policies, routes, workload};

/// Runs until `requests` were reported, on so many threads; how many were reported in the end.
fn go_on(
    experiment: &Experiment<'_>,
    blocks: u64,
    from: Option<Checkpoint>,
    (requests, threads): (u64, usize),
) -> (Result<(Results, Blocks), Stopped>, u64) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let stop = AtomicBool::new(requests == 0);
    let seen = AtomicU64::new(0);
    let tick = |done: u64| {
        let all = seen.fetch_add(done, Ordering::Relaxed) + done;
        if all >= requests {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let ran = pool.build().unwrap().install(|| {
        let mut found = Diagnostics::default();
        let from = ("inputs", from);
        sim::run_resumable(experiment, blocks, from, &mut found, &tick, &stop)
    });
    (ran, seen.into_inner())
}

fn document((results, blocks): &(Results, Blocks)) -> (String, String) {
    let manifest = Manifest {
        seed: 2026,
        ..Manifest::default()
    };
    let found = report::findings_in_blocks(results, Some(blocks), &Options::default(), manifest);
    let findings = found.unwrap();
    let text = json_of(&findings);
    // Histograms are equal by what they count, not by how they are written for debugging.
    let mut results = results.clone();
    for contestant in &mut results.contestants {
        (contestant.passages, contestant.calm) = (Vec::new(), Vec::new());
    }
    (text, format!("{results:?}"))
}

/// A checkpoint goes through a file between any two runs.
fn through_a_file(checkpoint: &Checkpoint) -> Checkpoint {
    Checkpoint::from_text(&checkpoint.to_text()).unwrap()
}

/// Interrupts again and again, after `steps` requests each time, and compares with an uninterrupted run.
fn same(experiment: &Experiment<'_>, blocks: u64, steps: &[u64]) -> u32 {
    let whole = go_on(experiment, blocks, None, (u64::MAX, 2)).0.unwrap();
    let mut interruptions = 0;
    for (index, step) in steps.iter().enumerate() {
        let mut from: Option<Checkpoint> = None;
        let mut until = *step;
        for round in 0.. {
            let threads = [1, 2, 7][(index + round) % 3];
            let (ran, seen) = go_on(experiment, blocks, from.take(), (until, threads));
            match ran {
                Ok(resumed) => {
                    let (wanted, got) = (document(&whole), document(&resumed));
                    assert!(wanted.0 == got.0, "findings differ at step {step}");
                    assert!(wanted.1 == got.1, "results differ at step {step}");
                    for (one, other) in whole.0.contestants.iter().zip(&resumed.0.contestants) {
                        assert!(one.passages == other.passages && one.calm == other.calm);
                    }
                    break;
                }
                Err(Stopped::Interrupted(Some(checkpoint))) => {
                    interruptions += 1;
                    assert!(round < 100, "it does not come to an end");
                    // What was done is reported again, and a replicate that was not whole is done again.
                    until = seen.max(until) + step;
                    from = Some(through_a_file(&checkpoint));
                }
                Err(stopped) => panic!("{stopped:?}"),
            }
        }
    }
    interruptions
}

#[test]
fn a_run_in_chunks_goes_on_from_any_chunk() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let mut policies = policies("policies", &catalogue);
    policies.retain(|policy| policy.spec.kind() != "shadow");
    let all = experiment(&catalogue, &workload, &policies[..3], 60_000);
    let all = Experiment {
        replicates: 2,
        slices: true,
        ..all
    };
    // Six chunks of 10,000 in each replicate.
    assert!(same(&all, 6, &[1, 15_000, 40_000, 61_000, 90_000]) > 10);
    let clustered = experiment(&catalogue, &workload, &policies[..2], 20_000);
    let clustered = Experiment {
        cluster: Some(Unit::User),
        baseline: Some("always-large"),
        replicates: 2,
        ..clustered
    };
    same(&clustered, 4, &[9_000]);
}

#[test]
fn a_run_on_recorded_rows_goes_on() {
    let catalogue = routes();
    let workload = workload("workloads/lesson-recorded.toml");
    let policies = policies("policies/lesson", &catalogue);
    let all = experiment(&catalogue, &workload, &policies, u64::MAX);
    let all = Experiment {
        replicates: 3,
        slices: true,
        ..all
    };
    assert!(same(&all, 10, &[700, 2_500, 7_000]) >= 5);
}

#[test]
fn runs_in_which_requests_hang_on_earlier_ones_go_on_from_the_last_whole_replicate() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let mut policies = policies("policies", &catalogue);
    policies.push(crate::given::policy_of(
        "ramp",
        include_str!("../configs/canary-ramp.toml"),
        &catalogue,
    ));
    let all = experiment(&catalogue, &workload, &policies, 2_000);
    let all = Experiment {
        replicates: 4,
        slices: true,
        ..all
    };
    assert!(same(&all, 4, &[2_001, 5_000]) >= 2);
    let stage = Stage {
        keep_lines: true,
        ..Stage::new(Fidelity::Outcome)
    };
    assert!(
        same(
            &Experiment {
                stage: Some(&stage),
                ..all
            },
            1,
            &[2_001, 6_000]
        ) >= 2
    );
}

#[test]
fn a_run_in_time_goes_on_from_the_last_whole_replicates() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let policies: Vec<PolicyFile> = policies("policies", &catalogue);
    let mut timeline = Timeline::instant(&catalogue, Arrivals::every(Duration::from_millis(100)));
    timeline.latency = vec![Latency::hosted(); catalogue.routes.len()];
    let minutes = |n: u64| Duration::from_secs(60 * n);
    timeline.outages = vec![Outages {
        up: Lasting::Exponential { mean: minutes(2) },
        down: Lasting::Exponential { mean: minutes(1) },
        ..Outages::typical("openai", vec![RouteId(0)])
    }];
    let timed = Timed {
        timeline: &timeline,
        calm: true,
        keep_lines: false,
    };
    let all = experiment(&catalogue, &workload, &policies[..2], 3_000);
    let all = Experiment {
        replicates: 12,
        timed: Some(&timed),
        ..all
    };
    assert!(same(&all, 1, &[5_000, 13_000]) >= 1);
}

#[test]
fn a_checkpoint_of_another_run_is_refused_with_what_differs() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let policies = policies("policies", &catalogue);
    let all = experiment(&catalogue, &workload, &policies[..2], 60_000);
    let stopped = go_on(&all, 6, None, (10_000, 1)).0;
    let Err(Stopped::Interrupted(Some(checkpoint))) = stopped else {
        panic!("{stopped:?}");
    };
    assert_eq!(checkpoint.progress().0, 0);
    assert!(checkpoint.progress().1 >= 1);
    let refused = |experiment: &Experiment<'_>, blocks: u64, inputs: &str| {
        let from = Some(through_a_file(&checkpoint));
        let stop = AtomicBool::new(false);
        let mut found = Diagnostics::default();
        let ran = sim::run_resumable(
            experiment,
            blocks,
            (inputs, from),
            &mut found,
            &|_| {},
            &stop,
        );
        match ran {
            Err(Stopped::Invalid(why)) => why.render(false),
            other => panic!("{other:?}"),
        }
    };
    let seed = refused(&Experiment { seed: 2027, ..all }, 6, "inputs");
    assert!(seed.contains("seed (2026 there, 2027 here)"), "{seed}");
    let all = experiment(&catalogue, &workload, &policies[..2], 60_000);
    assert!(refused(&all, 7, "inputs").contains("blocks (6 there, 7 here)"));
    assert!(refused(&all, 6, "others").contains("inputs (inputs there, others here)"));
    let longer = experiment(&catalogue, &workload, &policies[..2], 60_001);
    assert!(refused(&longer, 6, "inputs").contains("requests (60000 there"));
    let more = experiment(&catalogue, &workload, &policies[..3], 60_000);
    assert!(refused(&more, 6, "inputs").contains("contestants"));
    let stage = Stage::new(Fidelity::Outcome);
    let all = experiment(&catalogue, &workload, &policies[..2], 60_000);
    assert!(
        refused(
            &Experiment {
                stage: Some(&stage),
                ..all
            },
            6,
            "inputs"
        )
        .contains("stage")
    );
}

#[test]
fn a_corrupted_checkpoint_is_refused() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let policies = policies("policies", &catalogue);
    let all = experiment(&catalogue, &workload, &policies[..1], 20_000);
    let stopped = go_on(&all, 4, None, (5_000, 1)).0;
    let Err(Stopped::Interrupted(Some(checkpoint))) = stopped else {
        panic!("{stopped:?}");
    };
    let text = checkpoint.to_text();
    let again = Checkpoint::from_text(&text).unwrap();
    assert_eq!(again.to_text(), text);
    // Cut anywhere, or with any byte changed.
    let places: Vec<usize> = (0..text.len() - 1).step_by(text.len() / 200).collect();
    for place in places {
        assert!(
            Checkpoint::from_text(&text[..place]).is_err(),
            "cut at {place}"
        );
        let mut bytes = text.clone().into_bytes();
        bytes[place] = if bytes[place] == b'1' { b'2' } else { b'1' };
        if let Ok(changed) = String::from_utf8(bytes) {
            let read = Checkpoint::from_text(&changed);
            assert!(read.is_err_and(|why| why.contains("without it")), "{place}");
        }
    }
    for text in ["", "\n", "{}\n{}\n", "null\nnull\n", "\u{0}\n\n\n"] {
        assert!(Checkpoint::from_text(text).is_err());
    }
}
