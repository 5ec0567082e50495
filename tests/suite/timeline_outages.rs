//! Outages at drawn times, checked against what is known about alternating renewal processes.

use routelab::router::{FaultKind, RouteId};
use routelab::timeline::{Effect, Incident, Lasting, Outages, Typical, Weather};
use routelab::units::{Duration, Instant, Probability};
use routelab::workload::{Domain, DrawKey};

use crate::given::reference;

const HOUR: u64 = 3_600_000_000;

const fn key(replicate: u32) -> DrawKey {
    DrawKey {
        seed: 2026,
        domain: Domain::Traffic,
        replicate,
    }
}

const fn hours(count: u64) -> Duration {
    Duration(count * HOUR)
}

fn process(up: Lasting, down: Lasting) -> Outages {
    Outages {
        up,
        down,
        ..Outages::typical("openai", vec![RouteId(0)])
    }
}

fn exponential() -> Outages {
    process(
        Lasting::Exponential { mean: hours(10) },
        Lasting::Exponential { mean: hours(2) },
    )
}

fn lognormal() -> Outages {
    process(
        Lasting::Lognormal {
            p50: hours(8),
            sigma: 0.9,
        },
        Lasting::Lognormal {
            p50: hours(1),
            sigma: 1.2,
        },
    )
}

/// Share of the time up to `horizon` without an outage.
fn share_up(outages: &[Incident], horizon: Duration) -> f64 {
    let end = Instant::ZERO.after(horizon);
    let down: u64 = outages
        .iter()
        .map(|one| one.until.min(end).since(one.from).0)
        .sum();
    1.0 - down as f64 / horizon.0 as f64
}

/// Mean share of time up over independent replicates.
fn mean_share_up(process: &Outages, horizon: Duration, replicates: u32) -> f64 {
    let sum: f64 = (0..replicates)
        .map(|replicate| share_up(&process.draw(key(replicate), horizon), horizon))
        .sum();
    sum / f64::from(replicates)
}

#[test]
fn exponential_times_are_up_for_mu_over_lambda_plus_mu_of_the_time() {
    let process = exponential();
    // Rates an hour of going down and of coming back.
    let (lambda, mu) = (1.0 / 10.0, 1.0 / 2.0);
    let expected = mu / (lambda + mu);
    assert!((process.availability() - expected).abs() < 1e-12);
    for (length, replicates) in [(20_000, 100_u32), (5, 20_000)] {
        let found = mean_share_up(&process, hours(length), replicates);
        // The state is a Markov chain whose autocovariance falls as A(1 − A)·e^(−r·t) with r = λ + μ, so its
        // mean over T has the variance 2A(1 − A)/(rT)·(1 − (1 − e^(−rT))/(rT)), exactly.
        let rt = (lambda + mu) * length as f64;
        let variance = 2.0 * expected * (1.0 - expected) / rt * (1.0 - (1.0 - (-rt).exp()) / rt);
        let error = (variance / f64::from(replicates)).sqrt();
        assert!(
            (found - expected).abs() < 4.0 * error,
            "{found} over {length} h, expected {expected} ± {error}"
        );
    }
}

#[test]
fn lognormal_times_are_up_for_the_mean_share_of_the_time() {
    let process = lognormal();
    let (up, down) = (8.0 * (0.405_f64).exp(), (0.72_f64).exp());
    let expected = up / (up + down);
    assert!((process.availability() - expected).abs() < 1e-9);
    // Time up over T is asymptotically normal with variance
    // (E[down]²·Var[up] + E[up]²·Var[down])/(E[up] + E[down])³·T (Takács 1957; Cox 1962, section 7.4).
    let variance_of = |mean: f64, sigma: f64| mean * mean * ((sigma * sigma).exp() - 1.0);
    let numerator = down * down * variance_of(up, 0.9) + up * up * variance_of(down, 1.2);
    let (length, replicates) = (20_000, 100_u32);
    let variance = numerator / (up + down).powi(3) / length as f64;
    let error = (variance / f64::from(replicates)).sqrt();
    let found = mean_share_up(&process, hours(length), replicates);
    assert!(
        (found - expected).abs() < 4.0 * error,
        "{found}, expected {expected} ± {error}"
    );
}

#[test]
fn a_process_is_in_equilibrium_from_the_first_moment() {
    let fixed = process(Lasting::Fixed(hours(3)), Lasting::Fixed(hours(1)));
    let replicates = 20_000_u32;
    for (name, process) in [
        ("exponential", exponential()),
        ("lognormal", lognormal()),
        ("fixed", fixed),
    ] {
        let runs: Vec<Vec<Incident>> = (0..replicates)
            .map(|replicate| process.draw(key(replicate), hours(30)))
            .collect();
        let expected = 1.0 - process.availability();
        let error = (expected * (1.0 - expected) / f64::from(replicates)).sqrt();
        for minutes in [0, 30, 240, 1_799] {
            let now = Instant(minutes * HOUR / 60);
            let down = runs
                .iter()
                .filter(|run| run.iter().any(|one| one.from <= now && now < one.until))
                .count() as f64;
            let found = down / f64::from(replicates);
            assert!(
                (found - expected).abs() < 4.0 * error,
                "{name} after {minutes} min: {found}, expected {expected} ± {error}"
            );
        }
    }
}

#[test]
fn as_many_outages_begin_as_expected() {
    // In equilibrium the mean number over any window is its length over the mean cycle; those that last
    // when the window opens began before. 20,000 runs of about two outages each: for these laws the
    // variance of the number is below its mean of 2.5, so four standard errors are below 0.045.
    let process = exponential();
    let replicates = 20_000_u32;
    let count: usize = (0..replicates)
        .map(|replicate| {
            let run = process.draw(key(replicate), hours(30));
            run.iter().filter(|one| one.from > Instant::ZERO).count()
        })
        .sum();
    let found = count as f64 / f64::from(replicates);
    let expected = process.expected(hours(30));
    assert!((expected - 2.5).abs() < 1e-12);
    assert!((found - expected).abs() < 0.045, "{found}");
}

#[test]
fn a_longer_run_another_route_and_another_process_move_no_outage() {
    let process = lognormal();
    let long = process.draw(key(0), hours(5_000));
    let short = process.draw(key(0), hours(700));
    assert!(short.len() > 20 && long.len() > short.len());
    assert_eq!(long[..short.len()], short);
    let spans = |run: &[Incident]| -> Vec<(Instant, Instant)> {
        run.iter().map(|one| (one.from, one.until)).collect()
    };
    let elsewhere = Outages {
        routes: vec![RouteId(3), RouteId(1)],
        effect: Effect::Slow { factor: 3.0 },
        ..process.clone()
    };
    assert_eq!(spans(&elsewhere.draw(key(0), hours(700))), spans(&short));
    let renamed = Outages {
        name: "gemini".into(),
        ..process.clone()
    };
    assert_ne!(spans(&renamed.draw(key(0), hours(700))), spans(&short));
    assert_ne!(spans(&process.draw(key(1), hours(700))), spans(&short));
    let both = Weather::open(&[], &[renamed, process], 4, key(0), hours(700));
    let own: Vec<Incident> = both
        .incidents()
        .iter()
        .filter(|one| one.name == "openai")
        .cloned()
        .collect();
    assert_eq!(own, short);
}

#[test]
fn outages_take_turns_with_health_and_never_overlap() {
    for process in [exponential(), lognormal()] {
        let run = process.draw(key(5), hours(20_000));
        assert!(run.len() > 1_000);
        for pair in run.windows(2) {
            assert!(pair[0].from < pair[0].until && pair[0].until < pair[1].from);
        }
    }
}

#[test]
fn most_outages_are_partial_and_each_fails_its_own_share() {
    let mut process = exponential();
    process.severity = Some(Typical::API.severity());
    let run = process.draw(key(0), hours(100_000));
    let mut partial = Vec::new();
    for one in &run {
        let Effect::Fail { kind, share } = one.effect else {
            panic!("{:?}", one.effect);
        };
        assert_eq!(kind, FaultKind::Overloaded);
        let share = share.get();
        if share <= 0.5 {
            assert!(share >= 0.05);
            partial.push(share);
        } else {
            assert!((0.8..=1.0).contains(&share), "{share}");
        }
    }
    let count = run.len() as f64;
    let found = partial.len() as f64 / count;
    let error = (0.85 * 0.15 / count).sqrt();
    assert!((found - 0.85).abs() < 4.0 * error, "{found} ± {error}");
    // Evenly in 0.05..0.5: mean 0.275, standard deviation 0.45/√12.
    let mean = partial.iter().sum::<f64>() / partial.len() as f64;
    let error = 0.45 / (12.0 * partial.len() as f64).sqrt();
    assert!((mean - 0.275).abs() < 4.0 * error, "{mean} ± {error}");
    process.severity = None;
    process.effect = Effect::Fail {
        kind: FaultKind::Server,
        share: Probability::ONE,
    };
    let same = process.draw(key(0), hours(1_000));
    assert!(same.iter().all(|one| one.effect == process.effect));
}

#[test]
fn the_defaults_are_those_that_were_measured() {
    let Some(defaults) = reference("data/traffic/realism_defaults.json") else {
        return;
    };
    let given = &defaults["outages"]["default_api"];
    let number = |key: &str| given[key].as_f64().unwrap();
    let range = |key: &str| [0, 1].map(|end| given[key][end].as_f64().unwrap());
    assert_eq!(
        Typical::API,
        Typical {
            incidents_per_30d: number("incidents_per_30d"),
            inter_incident_cv: number("inter_incident_cv"),
            duration_min_lognormal_mu: number("duration_min_lognormal_mu"),
            duration_min_lognormal_sigma: number("duration_min_lognormal_sigma"),
            partial_share: number("partial_share"),
            partial_error_prob: range("partial_error_prob"),
            major_error_prob: range("major_error_prob"),
        }
    );
    let (up, down) = (Typical::API.up(), Typical::API.down());
    let cycle_s = up.mean_s() + down.mean_s();
    let cv = (up.variance_s2() + down.variance_s2()).sqrt() / cycle_s;
    assert!((30.0 * 86_400.0 / cycle_s - number("incidents_per_30d")).abs() < 1e-6);
    assert!((cv - number("inter_incident_cv")).abs() < 1e-6, "{cv}");
}

#[test]
fn a_run_without_an_end_is_cut_off_where_there_is_no_more_room() {
    let process = process(
        Lasting::Exponential { mean: hours(1) },
        Lasting::Exponential { mean: hours(1) },
    );
    let other = Outages {
        name: "other".into(),
        ..process.clone()
    };
    let weather = Weather::open(&[], &[process, other], 1, key(0), Duration::MAX);
    let incidents = weather.incidents();
    assert_eq!(incidents.len(), routelab::timeline::INCIDENTS_MAX);
    // Both processes are there up to the same moment.
    assert!(weather.complete_until() < Instant(u64::MAX));
    assert!(
        incidents
            .iter()
            .all(|one| one.from <= weather.complete_until())
    );
    let others = incidents.iter().filter(|one| one.name == "other").count();
    assert!((30_000..36_000).contains(&others), "{others}");
}
