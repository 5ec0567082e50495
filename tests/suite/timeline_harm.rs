//! What the incidents did is told against a day without them, of requests of which both days are known.

use routelab::catalogue::Catalogue;
use routelab::report::{self, DrillOptions};
use routelab::router::{BreakerScope, BreakerSpec, FaultKind, Trip};
use routelab::sim::{self, Results, Stopped, Timed};
use routelab::source::Diagnostics;
use routelab::timeline::{
    Arrivals, Drift, Effect, Incident, Lasting, Latency, Outages, Timeline, parse_limit,
};
use routelab::units::{Duration, Instant, Probability};
use routelab::workload::Workload;

use crate::given::{policy_of, routes, run_timed, workload, workload_of};

fn run(
    catalogue: &Catalogue,
    workload: &Workload,
    policy: &str,
    timeline: &Timeline,
    requests: u64,
) -> Result<Results, Stopped> {
    let policies = [policy_of("policy", policy, catalogue)];
    let timed = Timed {
        timeline,
        calm: true,
        keep_lines: false,
    };
    run_timed(catalogue, workload, &policies, &timed, (2026, requests))
}

fn every(catalogue: &Catalogue, gap_ms: u64) -> Timeline {
    Timeline::instant(catalogue, Arrivals::every(Duration::from_millis(gap_ms)))
}

fn down(catalogue: &Catalogue, target: &str, from_s: u64, for_s: u64) -> Incident {
    let effect = Effect::Fail {
        kind: FaultKind::Overloaded,
        share: Probability::ONE,
    };
    let from = Instant::ZERO.after(Duration::from_secs(from_s));
    Incident::of_target(catalogue, target, from, Duration::from_secs(for_s), effect).unwrap()
}

/// The calm day of a world whose quality changes is the world in which it does not.
#[test]
fn on_the_calm_day_quality_does_not_change() {
    let catalogue = routes();
    let workload = workload("workloads/support.toml");
    let mut timeline = every(&catalogue, 10);
    timeline.drifts = vec![Drift {
        route: catalogue.find("small").unwrap(),
        from: Instant(30_000_000),
        until: None,
        right_to_wrong: Probability::new(0.5).unwrap(),
        wrong_to_right: Probability::ZERO,
    }];
    let policy = "[fixed]\nroute = \"small\"\n";
    let drifting = run(&catalogue, &workload, policy, &timeline, 6_000).unwrap();
    let steady = run(&catalogue, &workload, policy, &timeline.calm(), 6_000).unwrap();
    let one = &drifting.contestants[0];
    assert_eq!(one.calm_tallies[0], steady.contestants[0].tallies[0]);
    // Half of the requests come after the change, and half of the right answers among them turn wrong.
    let right = |score_sum: i128| (score_sum / 1_000_000) as u64;
    let lost = right(one.calm_tallies[0].score_sum) - right(one.tallies[0].score_sum);
    assert_eq!(one.passages[0].totals.spoilt, lost);
    assert_eq!(one.passages[0].totals.harmed, 0);
    assert_eq!(one.passages[0].totals.compared, 6_000);
    let options = DrillOptions {
        level: 0.95,
        assumptions: Vec::new(),
    };
    let summary = report::drill(&drifting, &timeline, &options)
        .sheet()
        .summary;
    let share = 100.0 * lost as f64 / 6_000.0;
    assert!(
        summary.contains("No latency and no error shows it")
            && summary.contains(&format!("`policy` {share:.1} %")),
        "{summary}"
    );
    let expected = right(one.calm_tallies[0].score_sum) as f64 / 4.0;
    // Binomial of about 1,900 right answers: 5 standard deviations are about 110.
    assert!((lost as f64 - expected).abs() < 110.0, "{lost}, {expected}");
}

/// All routes of a provider are shut out while their shared breaker is open, and no longer.
#[test]
fn a_shared_breaker_is_booked_for_all_routes_and_closes_for_all() {
    let mut catalogue = routes();
    for route in &mut catalogue.router.routes {
        route.provider = routelab::router::ProviderId(0);
    }
    catalogue.router.breaker = Some(BreakerSpec {
        trip: Trip::Consecutive(3),
        scope: BreakerScope::Provider,
        cooldown: Duration::from_secs(10),
        ..BreakerSpec::default()
    });
    let workload = workload("workloads/support.toml");
    let mut timeline = every(&catalogue, 500);
    timeline.latency = vec![Latency::new(50.0, 0.0, 0.0).unwrap(); 3];
    timeline.incidents = vec![
        down(&catalogue, "small", 60, 60),
        down(&catalogue, "medium", 60, 60),
        down(&catalogue, "large", 60, 60),
    ];
    let policy = "[mix]\nweight = { small = 1, medium = 1, large = 1 }\n";
    let results = run(&catalogue, &workload, policy, &timeline, 1_200).unwrap();
    let passage = &results.contestants[0].passages[0];
    let open: Vec<Duration> = passage
        .routes
        .iter()
        .map(|route| route.breaker_open)
        .collect();
    assert_eq!(open[0], open[1]);
    assert_eq!(open[0], open[2]);
    // A minute of outage, and at most a cooldown and a few requests beyond it.
    assert!(open[0] > Duration::from_secs(50), "{open:?}");
    assert!(open[0] < Duration::from_secs(80), "{open:?}");
}

#[test]
fn more_outages_than_can_be_told_apart_stop_the_run() {
    let catalogue = routes();
    let workload = workload("workloads/support.toml");
    let mut timeline = every(&catalogue, 100_000_000);
    let second = Lasting::Fixed(Duration::from_secs(1));
    timeline.outages = vec![Outages {
        name: "often".to_owned(),
        routes: vec![catalogue.find("small").unwrap()],
        up: second,
        down: second,
        ..Outages::typical("often", vec![catalogue.find("small").unwrap()])
    }];
    let policy = "[fixed]\nroute = \"small\"\n";
    match run(&catalogue, &workload, policy, &timeline, 10) {
        Err(Stopped::Failed(why)) => assert!(why.contains("65535 incidents"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// A prompt of unknown length is not an empty one.
#[test]
fn unknown_lengths_count_against_limits_and_are_reported_as_unknown() {
    let catalogue = routes();
    let csv = "id,task,grade_small\n1,a,1\n2,a,0\n3,a,1\n4,a,1\n";
    let workload = workload_of_rows(csv);
    let mut timeline = every(&catalogue, 1_000);
    timeline.limits = vec![parse_limit("small.itpm=1500", &catalogue).unwrap()];
    let policy = "[fixed]\nroute = \"small\"\n";
    let results = run(&catalogue, &workload, policy, &timeline, 4).unwrap();
    let route = &results.contestants[0].passages[0].routes[0];
    assert!(
        route.refused[1] > 0,
        "an unknown prompt is about 1,020 tokens"
    );
    assert_eq!(route.tokens_unknown, route.attempts);
}

fn workload_of_rows(csv: &str) -> Workload {
    let mut found = Diagnostics::default();
    routelab::workload::bare("rows.csv", None, &mut found)
        .and_then(|spec| spec.build(Some(csv.as_bytes()), &mut found))
        .unwrap_or_else(|| panic!("{}", found.render(false)))
}

/// A bin that would make more bins than are kept apart is widened.
#[test]
fn bins_are_never_more_than_are_kept_apart() {
    let catalogue = routes();
    let workload = workload_of(
        "world.toml",
        &std::fs::read_to_string(crate::given::project("workloads/support.toml")).unwrap(),
    );
    let mut timeline = every(&catalogue, 60_000);
    timeline.bin = Some(Duration::from_millis(1));
    timeline.incidents = vec![down(&catalogue, "openai", 3_000, 60)];
    let policy = "[fixed]\nroute = \"small\"\n";
    let results = run(&catalogue, &workload, policy, &timeline, 600).unwrap();
    let passage = &results.contestants[0].passages[0];
    assert!(passage.bins.len() <= sim::BINS_MAX);
    assert!(passage.bin > Duration::from_millis(1));
    assert_eq!(passage.bins.last().map(|bin| bin.requests), Some(1));
}
