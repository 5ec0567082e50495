//! Results made by hand: what each policy did with each request, summed as an experiment would.

use routelab::report::{Findings, Manifest, Options, findings};
use routelab::sim::{Contestant, Evidence, Results};
use routelab::stats::{Estimate, PairTally, Tally};

/// One USD in the unit of tallies.
pub(crate) const USD: i128 = 1_000_000_000_000;
pub(crate) const RIGHT: i128 = 1_000_000;

/// What one policy did with one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Did {
    /// Final route; `None` is an unserved request.
    pub(crate) route: Option<usize>,
    /// Millionths; `None` has no grade.
    pub(crate) score: Option<i128>,
    /// 10⁻¹² USD; `None` is unknown.
    pub(crate) cost: Option<i128>,
    pub(crate) calls: u64,
}

pub(crate) fn did(route: usize, right: bool, usd: f64) -> Did {
    Did {
        route: Some(route),
        score: Some(i128::from(right) * RIGHT),
        cost: Some((usd * USD as f64) as i128),
        calls: 1,
    }
}

pub(crate) fn tally(all: &[Did], routes: usize) -> Tally {
    let mut t = Tally {
        final_count: vec![0; routes],
        ..Tally::default()
    };
    for did in all {
        t.requests += 1;
        t.calls_sum += did.calls;
        t.calls_square_sum += did.calls * did.calls;
        t.mirror_costed += 1;
        match did.route {
            Some(route) => t.final_count[route] += 1,
            None => t.unserved[2] += 1,
        }
        match did.score {
            Some(score) => {
                t.graded += 1;
                t.fractional += u64::from(score != 0 && score != RIGHT);
                t.score_sum += score;
                t.score_square_sum += score * score;
            }
            None => t.missing += 1,
        }
        if let Some(cost) = did.cost {
            t.costed += 1;
            t.cost_sum += cost;
            t.cost_square_sum += cost * cost;
        }
        if let (Some(cost), Some(score)) = (did.cost, did.score) {
            t.both += 1;
            t.both_cost_sum += cost;
            t.both_cost_square_sum += cost * cost;
            t.both_score_sum += score;
            t.both_score_square_sum += score * score;
            t.both_cross_sum += cost * score;
        }
    }
    t
}

pub(crate) fn pair(first: &[Did], second: &[Did]) -> PairTally {
    let mut t = PairTally::default();
    for (a, b) in first.iter().zip(second) {
        if let (Some(x), Some(y)) = (a.score, b.score) {
            t.graded += 1;
            t.score_difference_sum += x - y;
            t.score_difference_square_sum += (x - y) * (x - y);
            match (x, y) {
                (RIGHT, RIGHT) => t.n11 += 1,
                (RIGHT, 0) => t.n10 += 1,
                (0, RIGHT) => t.n01 += 1,
                (0, 0) => t.n00 += 1,
                _ => t.fractional += 1,
            }
        }
        if let (Some(x), Some(y)) = (a.cost, b.cost) {
            t.costed += 1;
            t.cost_difference_sum += x - y;
            t.cost_difference_square_sum += (x - y) * (x - y);
        }
    }
    t
}

/// An experiment: `(name, kind, what it did)` per contestant; names `always-<route>` are controls and
/// the baselines.
pub(crate) fn experiment(
    routes: &[&str],
    contestants: &[(&str, &'static str, Vec<Did>)],
) -> Results {
    let always = |name: &str| {
        let route = name.strip_prefix("always-")?;
        routes.iter().position(|known| *known == route)
    };
    let baselines: Vec<usize> = contestants
        .iter()
        .enumerate()
        .filter(|(_, (name, ..))| always(name).is_some())
        .map(|(index, _)| index)
        .collect();
    Results {
        routes: routes.iter().map(|&name| name.to_owned()).collect(),
        workload: "support".to_owned(),
        evidence: Evidence::Simulated,
        requests: contestants
            .first()
            .map_or(0, |(_, _, all)| all.len() as u64),
        replicates: 1,
        shared_rows: false,
        segments: Vec::new(),
        contestants: contestants
            .iter()
            .map(|(name, kind, all)| Contestant {
                name: (*name).to_owned(),
                kind,
                control: always(name).is_some() || *kind == "oracle",
                trained: false,
                sticks_to: None,
                verifiers: Vec::new(),
                always: always(name).map(|route| route as u16),
                unavailable: None,
                tallies: vec![tally(all, routes.len())],
                traces: Vec::new(),
                rollouts: Vec::new(),
                passages: Vec::new(),
                calm: Vec::new(),
                calm_tallies: Vec::new(),
                pairs: baselines
                    .iter()
                    .map(|&b| vec![pair(all, &contestants[b].2)])
                    .collect(),
                clusters: Vec::new(),
            })
            .collect(),
        baselines,
        cluster: None,
        priced_on: None,
        timetable: None,
        notes: Vec::new(),
    }
}

pub(crate) fn found(results: &Results, options: &Options) -> Findings {
    findings(results, options, Manifest::default()).expect("valid options")
}

pub(crate) fn metric<'a>(findings: &'a Findings, policy: &str, name: &str) -> &'a Estimate {
    findings
        .row(policy)
        .unwrap_or_else(|| panic!("no row {policy}"))
        .metric(name)
        .unwrap_or_else(|| panic!("no metric {name}"))
}

pub(crate) fn assert_close(got: Option<f64>, expected: f64, tolerance: f64) {
    let got = got.expect("a number");
    assert!(
        (got - expected).abs() <= tolerance,
        "{got}, expected {expected}"
    );
}

/// the four requests that small gets right first to small, and pays 0.3 USD a request for deciding.
pub(crate) fn two_routes() -> Results {
    let small: Vec<Did> = (0..10).map(|i| did(0, i < 6, 1.0)).collect();
    let large: Vec<Did> = (0..10).map(|i| did(1, i != 9, 3.0)).collect();
    let policy = (0..10)
        .map(|i| {
            let mut chosen = if i < 4 { small[i] } else { large[i] };
            chosen.cost = chosen.cost.map(|cost| cost + USD * 3 / 10);
            chosen
        })
        .collect();
    experiment(
        &["small", "large"],
        &[
            ("static", "static", policy),
            ("always-small", "always", small),
            ("always-large", "always", large),
        ],
    )
}

/// 6,000 rows with the lesson's paired table of static rules against the large model.
pub(crate) fn lesson() -> Results {
    let fixture: serde_json::Value =
        serde_json::from_str(include_str!("../../fixtures/intervals.json")).expect("valid JSON");
    let entry = &fixture["policy_comparison_on_seed_csv"]["static rules - always large"];
    let count = |key: &str| entry[key].as_u64().expect("a count") as usize;
    let cells = [
        (count("n11"), true, true),
        (count("n10"), true, false),
        (count("n01"), false, true),
        (count("n00"), false, false),
    ];
    let (mut policy, mut large) = (Vec::new(), Vec::new());
    for (count, first, second) in cells {
        for i in 0..count {
            policy.push(did(usize::from(i % 3 == 0), first, 0.007));
            large.push(did(1, second, 0.018));
        }
    }
    let small = large.iter().map(|_| did(0, false, 0.000_3)).collect();
    experiment(
        &["small", "large"],
        &[
            ("static", "static", policy),
            ("always-small", "always", small),
            ("always-large", "always", large),
        ],
    )
}
