//! Decisions one by one are those of the run, and samples of them are worth a look.

use std::sync::atomic::AtomicBool;

use routelab::policy::PolicyFile;
use routelab::router::RouteId;
use routelab::sim::{
    self, Contestant, Decisions, Experiment, Fidelity, Results, Samples, Stage, Timed,
};
use routelab::source::{Diagnostics, SourceFile};
use routelab::standin::faults::{self, Faults};
use routelab::stats::Tally;
use routelab::timeline::{Arrivals, Latency, Limit, Timeline};
use routelab::units::Duration;

use crate::given::{experiment, policies, policy_of, routes, run_on, workload};

fn decisions(experiment: &Experiment<'_>, rows_max: u64) -> Decisions {
    let stop = AtomicBool::new(false);
    match sim::decisions(experiment, rows_max, &|_| {}, &stop) {
        Ok(decisions) => decisions,
        Err(stopped) => panic!("{stopped:?}"),
    }
}

/// What rows of one policy add up to, as far as they tell.
fn added(decisions: &Decisions, policy: usize, routes: usize) -> Tally {
    let mut sum = Tally {
        final_count: vec![0; routes],
        ..Tally::default()
    };
    let width = decisions.policies.len();
    for row in decisions.rows.iter().skip(policy).step_by(width) {
        sum.requests += 1;
        sum.undetermined += u64::from(row.undetermined);
        sum.escalated += u64::from(row.escalated);
        sum.unverified += u64::from(row.unverified);
        sum.calls_sum += u64::from(row.calls);
        if let Some(why) = row.unserved {
            sum.unserved[why as usize] += 1;
        }
        if let Some(route) = row.route {
            sum.final_count[usize::from(route)] += 1;
        }
        if let Some(grade) = row.grade {
            sum.graded += 1;
            sum.score_sum += i128::from(grade);
        }
        if let Some(cost) = row.cost {
            sum.costed += 1;
            sum.cost_sum += i128::from(cost);
        }
        if let Some(copy) = row.mirror {
            sum.mirrored += 1;
            sum.mirror_cost_sum += i128::from(copy.cost.unwrap_or(0));
        }
    }
    sum
}

/// The same fields of a tally. A copy that reached nobody is not mirrored, but has a row.
fn told(contestant: &Contestant) -> Tally {
    let tally = contestant.tallies[0].clone();
    Tally {
        requests: tally.requests,
        undetermined: tally.undetermined,
        escalated: tally.escalated,
        unverified: tally.unverified,
        calls_sum: tally.calls_sum,
        unserved: tally.unserved,
        final_count: tally.final_count,
        graded: tally.graded,
        score_sum: tally.score_sum,
        costed: tally.costed,
        cost_sum: tally.cost_sum,
        mirrored: tally.mirrored,
        mirror_cost_sum: tally.mirror_cost_sum,
        ..Tally::default()
    }
}

fn assert_of_the_run(results: &Results, decisions: &Decisions) {
    assert_eq!((decisions.every, decisions.of), (1, results.requests));
    let deciding: Vec<&Contestant> = results
        .contestants
        .iter()
        .filter(|one| one.kind != "oracle" && one.unavailable.is_none())
        .collect();
    assert_eq!(decisions.policies.len(), deciding.len());
    assert_eq!(
        decisions.rows.len(),
        deciding.len() * results.requests as usize
    );
    for (place, contestant) in deciding.iter().enumerate() {
        assert_eq!(decisions.policies[place].name, contestant.name);
        let mut sum = added(decisions, place, results.routes.len());
        let mut told = told(contestant);
        assert!(sum.mirrored >= told.mirrored, "{}", contestant.name);
        (sum.mirrored, told.mirrored) = (0, 0);
        assert_eq!(sum, told, "{}", contestant.name);
    }
}

fn shadow_and_canary(catalogue: &routelab::catalogue::Catalogue) -> Vec<PolicyFile> {
    [
        ("canary-ramp", include_str!("../configs/canary-ramp.toml")),
        (
            "shadowed",
            "[shadow]\ncandidate = \"medium\"\nshare = 0.3\nbase.static = { default = \"small\" }\n",
        ),
    ]
    .map(|(name, text)| policy_of(name, text, catalogue))
    .into()
}

#[test]
fn all_decisions_together_are_the_tallies_of_the_run() {
    let catalogue = routes();
    for (path, folder, requests) in [
        ("workloads/support.toml", "policies", 3_000),
        ("workloads/tenants.toml", "policies", 3_001),
        (
            "workloads/lesson-recorded.toml",
            "policies/lesson",
            u64::MAX,
        ),
    ] {
        let workload = workload(path);
        let mut policies = policies(folder, &catalogue);
        let all = experiment(&catalogue, &workload, &policies, requests);
        assert_of_the_run(&run_on(&all, 2), &decisions(&all, u64::MAX));
        // Policies that learn while they run, and several replicates, of which the first is told.
        policies.extend(shadow_and_canary(&catalogue));
        let all = experiment(&catalogue, &workload, &policies, requests);
        let all = Experiment {
            replicates: 2,
            ..all
        };
        assert_of_the_run(&run_on(&all, 2), &decisions(&all, u64::MAX));
    }
}

#[test]
fn decisions_of_a_staged_run_are_those_that_met_its_faults() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let mut policies = policies("policies", &catalogue);
    policies.extend(shadow_and_canary(&catalogue));
    let script = include_str!("../../workloads/faults/bad-day.toml");
    let mut found = Diagnostics::default();
    let faults: Faults =
        faults::parse(&SourceFile::new("faults.toml", script), &mut found).unwrap();
    let stage = Stage {
        faults,
        ..Stage::new(Fidelity::Outcome)
    };
    let all = experiment(&catalogue, &workload, &policies, 2_000);
    let all = Experiment {
        stage: Some(&stage),
        ..all
    };
    let decisions = decisions(&all, u64::MAX);
    assert_of_the_run(&run_on(&all, 2), &decisions);
    assert!(!decisions.independent);
    assert!(
        decisions.rows.iter().any(|row| row.unserved.is_some()),
        "a bad day"
    );
}

/// Two of three routes are limited, so that some requests are refused and others wait.
fn limited(catalogue: &routelab::catalogue::Catalogue) -> Timeline {
    let mut timeline = Timeline::instant(catalogue, Arrivals::every(Duration::from_millis(20)));
    timeline.latency = vec![Latency::hosted(); catalogue.routes.len()];
    timeline.limits = ["small", "large"]
        .map(|name| Limit {
            per_min: [Some(200), None, None, None],
            window: Duration::from_secs(60),
            ..Limit::new(name, vec![RouteId(catalogue.find(name).unwrap().0)])
        })
        .into();
    timeline
}

#[test]
fn decisions_of_a_timed_run_are_those_that_met_its_limits() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let mut policies = policies("policies", &catalogue);
    policies.extend(shadow_and_canary(&catalogue));
    let timeline = limited(&catalogue);
    let timed = Timed {
        timeline: &timeline,
        calm: true,
        keep_lines: false,
    };
    let all = experiment(&catalogue, &workload, &policies, 6_000);
    let all = Experiment {
        timed: Some(&timed),
        ..all
    };
    let results = run_on(&all, 2);
    let everything = decisions(&all, u64::MAX);
    assert_of_the_run(&results, &everything);
    assert!(
        everything.rows.iter().any(|row| row.unserved.is_some()),
        "refused by limits"
    );
    let calm = &results.contestants[0].calm_tallies[0];
    assert!(
        results
            .contestants
            .iter()
            .any(|one| one.tallies[0].final_count != calm.final_count)
    );
    thinned(&all, &everything);
    // Their samples tell what came of them in the run.
    let samples = samples(&all, &everything);
    assert!(samples.rule.contains("not each step"));
    for sample in &samples.of {
        for story in &sample.stories {
            assert!(story.lines[0].starts_with("decided  "));
            assert!(
                story.lines[1..]
                    .iter()
                    .any(|line| line.starts_with("result   "))
            );
        }
    }
}

/// With less room every k-th request is kept, with the same rows.
fn thinned(experiment: &Experiment<'_>, everything: &Decisions) {
    let width = everything.policies.len();
    for most in [1, 100, 700] {
        let few = decisions(experiment, (most * width) as u64);
        let every = few.every as usize;
        assert_eq!((few.of, &few.policies), (everything.of, &few.policies));
        assert!(
            few.requests.len() <= most && few.requests.len() * 2 > most,
            "{most}"
        );
        assert!(few.every > 1 && few.in_words().contains(&format!("every {every}th")));
        for (place, request) in few.requests.iter().enumerate() {
            assert_eq!(*request, everything.requests[place * every]);
            let (mine, all) = (few.of_request(place), everything.of_request(place * every));
            for (((mine, all), few), everything) in mine
                .iter()
                .zip(all)
                .zip(&few.policies)
                .zip(&everything.policies)
            {
                let reason = |decider: &sim::Decider, row: &sim::Decided| {
                    decider.reasons[usize::from(row.reason)].clone()
                };
                let without = |row: &sim::Decided| sim::Decided { reason: 0, ..*row };
                assert_eq!(without(mine), without(all));
                // Where the words tell a number it is that of the first request with this reason.
                if ["static", "cascade", "always"].contains(&few.kind) {
                    assert_eq!(reason(few, mine), reason(everything, all));
                }
            }
        }
    }
}

#[test]
fn where_there_is_no_room_for_all_requests_every_kth_is_kept() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let mut policies = policies("policies", &catalogue);
    policies.retain(|policy| policy.spec.kind() != "canary");
    let stateless = experiment(&catalogue, &workload, &policies, 5_000);
    thinned(&stateless, &decisions(&stateless, u64::MAX));
    let mut policies = policies;
    policies.extend(shadow_and_canary(&catalogue));
    let stateful = experiment(&catalogue, &workload, &policies, 5_000);
    thinned(&stateful, &decisions(&stateful, u64::MAX));
}

fn samples(experiment: &Experiment<'_>, decisions: &Decisions) -> Samples {
    let stop = AtomicBool::new(false);
    match sim::samples(experiment, decisions, 12, 30, &stop) {
        Ok(samples) => samples,
        Err(stopped) => panic!("{stopped:?}"),
    }
}

#[test]
fn samples_are_bounded_tell_what_explain_tells_and_prefer_disagreement() {
    let catalogue = routes();
    let workload = workload("workloads/tenants.toml");
    let mut policies = policies("policies", &catalogue);
    policies.extend(shadow_and_canary(&catalogue));
    let all = experiment(&catalogue, &workload, &policies, 4_000);
    let decisions = decisions(&all, 1_000 * 20);
    let chosen = samples(&all, &decisions);
    assert_eq!(chosen, samples(&all, &decisions));
    assert_eq!(chosen.of.len(), 30);
    for task in &workload.tasks {
        let of: Vec<_> = chosen
            .of
            .iter()
            .filter(|sample| sample.task == *task)
            .collect();
        assert_eq!(of.len(), 10, "{task}");
        assert!(of.windows(2).all(|two| two[0].number < two[1].number));
        let differ = of.iter().filter(|sample| {
            let first = sample.stories[0].grade;
            sample.stories.iter().any(|story| story.grade != first)
        });
        assert!(differ.count() >= 5, "{task}");
    }
    for sample in &chosen.of {
        let mut found = Diagnostics::default();
        let told = sim::explain(&all, &sample.request, &mut found).unwrap();
        assert_eq!(told.len(), sample.stories.len());
        let place = decisions
            .requests
            .iter()
            .position(|one| one.id == sample.request)
            .unwrap();
        for (index, (story, told)) in sample.stories.iter().zip(told).enumerate() {
            assert_eq!((&story.policy, &story.lines), (&told.policy, &told.lines));
            let row = decisions.of_request(place)[index];
            let route = row
                .route
                .map(|route| decisions.routes[usize::from(route)].clone());
            assert_eq!(
                (&story.route, story.grade, story.cost, story.calls),
                (&route, row.grade, row.cost, row.calls)
            );
        }
    }
    let results: Results = run_on(&all, 2);
    let mut findings = routelab::report::findings(
        &results,
        &routelab::report::Options::default(),
        routelab::report::Manifest::default(),
    )
    .unwrap();
    findings.show(&chosen);
    assert_eq!(findings.samples.len(), 30);
    assert_eq!(findings.samples[0].stories.len(), policies.len());
    assert!(findings.sample_rule.is_some());
}
