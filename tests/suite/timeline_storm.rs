//! What jitter and a retry budget buy when everybody is refused at once (PL-08, PL-09): 30 requests of nine
//! calls each against a limit of 200 calls a minute.

use std::fmt::Write as _;

use routelab::catalogue::Catalogue;
use routelab::router::{HintUse, Jitter, RetryShare, RouteId};
use routelab::sim::{Passage, Timed};
use routelab::timeline::{Arrivals, Latency, Limit, Timeline};
use routelab::units::Duration;

use crate::given::{catalogue_of, policy_of, run_timed, workload_of};

const ROUTES: &str = r#"
[route.only]
provider = "openai"
model = "only-2026-10-01"
residency = ["eu"]
usd_per_mtok = { input = 1, output = 5 }
priced_on = 2026-10-01
[require]
default = { residency = ["eu"] }
"#;

/// Nine calls take 2,792 prompt tokens and bring 296 answer tokens, so one takes about 310 and 33.
const WORLD: &str = r#"
[synthetic]
requests = 270
hint_noise = 0
[synthetic.task.plan]
share = 1
difficulty = { fixed = 0.5 }
tokens = { input = 310, output = 33 }
[synthetic.model.only]
skill = { plan = 0.9 }
"#;

/// How callers retry.
struct Manners {
    name: &'static str,
    jitter: Jitter,
    hint: HintUse,
    budget: Option<RetryShare>,
}

fn catalogue(manners: &Manners, attempts_max: u8) -> Catalogue {
    let mut catalogue = catalogue_of(ROUTES);
    let router = &mut catalogue.router;
    router.attempts_max = attempts_max;
    // One thing at a time: neither breakers nor pauses stand in the way of retries.
    router.breaker = None;
    router.cooldown = None;
    router.wait.jitter = manners.jitter;
    router.wait.hint = manners.hint;
    router.wait.extra = Duration::ZERO;
    router.wait.wait_max = Duration::from_secs(60);
    router.call_deadline = Some(Duration::from_secs(60));
    router.retry_share = manners.budget;
    catalogue
}

/// 270 calls, one every `gap`, against 200 a minute.
fn storm(manners: &Manners, attempts_max: u8, gap: Duration) -> Passage {
    let catalogue = catalogue(manners, attempts_max);
    let workload = workload_of("storm.toml", WORLD);
    let policies = [policy_of("only", "[fixed]\nroute = \"only\"\n", &catalogue)];
    let mut timeline = Timeline::instant(&catalogue, Arrivals::every(gap));
    timeline.latency = vec![Latency::hosted()];
    timeline.bin = Some(Duration::from_millis(100));
    timeline.limits = vec![Limit {
        per_min: [Some(200), None, None, None],
        window: Duration::from_secs(60),
        ..Limit::new("organisation", vec![RouteId(0)])
    }];
    let timed = Timed {
        timeline: &timeline,
        calm: false,
        keep_lines: false,
    };
    let ran = run_timed(&catalogue, &workload, &policies, &timed, (2026, 270));
    let mut results = ran.unwrap_or_else(|stopped| panic!("{stopped:?}"));
    results.contestants.remove(0).passages.remove(0)
}

const NONE: Manners = Manners {
    name: "no jitter",
    jitter: Jitter::None,
    hint: HintUse::Ignored,
    budget: None,
};
const HINT: Manners = Manners {
    name: "no jitter, Retry-After obeyed",
    hint: HintUse::Longer,
    ..NONE
};
const FULL: Manners = Manners {
    name: "full jitter",
    jitter: Jitter::Full,
    ..NONE
};
const EQUAL: Manners = Manners {
    name: "equal jitter",
    jitter: Jitter::Equal,
    ..NONE
};
const BUDGET: Manners = Manners {
    name: "no jitter, retry budget of 20 %",
    budget: Some(RetryShare::InFlight {
        percent: 20,
        reserve: 3,
    }),
    ..NONE
};
const BOTH: Manners = Manners {
    name: "full jitter, retry budget of 20 %",
    jitter: Jitter::Full,
    ..BUDGET
};

#[test]
fn pl09_seventy_of_270_calls_at_once_are_over_a_limit_of_200_a_minute() {
    let passage = storm(&NONE, 1, Duration::ZERO);
    assert_eq!(passage.totals.requests, 30 * 9);
    assert_eq!(passage.totals.served, 200);
    assert_eq!(passage.routes[0].refused, [70, 0, 0, 0]);
    assert_eq!(passage.unserved.len(), 1);
    assert_eq!(passage.unserved[0].requests, 70);
}

/// Spread over the minute the same calls pass: the bucket refills while they come.
#[test]
fn pl08_it_is_the_burst_that_trips_the_limit() {
    let passage = storm(&NONE, 1, Duration(60_000_000 / 270));
    assert_eq!(passage.totals.served, 270);
}

#[test]
fn jitter_and_a_retry_budget_buy_fewer_wasted_attempts() {
    let mut table = String::new();
    let mut attempts = Vec::new();
    for manners in [NONE, HINT, EQUAL, FULL, BUDGET, BOTH] {
        let passage = storm(&manners, 8, Duration::ZERO);
        let refused: u64 = passage.routes[0].refused.iter().sum();
        let busiest = passage.routes[0]
            .bins
            .iter()
            .skip(1)
            .map(|bin| bin.attempts)
            .max();
        let p99 = passage
            .total
            .quantile(0.99)
            .map_or(0.0, Duration::as_secs_f64);
        let _ = writeln!(
            table,
            "{:34} served {:3}  attempts {:4}  refused {:4}  most in a later 0.1 s {:3}  p99 {:5.1} s",
            manners.name,
            passage.totals.served,
            passage.routes[0].attempts,
            refused,
            busiest.unwrap_or(0),
            p99,
        );
        attempts.push((passage.routes[0].attempts, passage.totals.served, busiest));
        assert_eq!(
            passage.routes[0].attempts,
            passage.totals.served + refused,
            "every attempt is served or refused"
        );
        // A bucket of 200 that refills 200 a minute lets no more in.
        let end = passage.total.quantile(1.0).unwrap_or_default();
        let room = 200.0 + 200.0 * (end.as_secs_f64() + 1.0) / 60.0;
        assert!((passage.totals.served as f64) <= room);
    }
    let documents = crate::readme::all_text();
    for line in table.lines() {
        assert!(documents.contains(line), "no document shows {line}");
    }
    insta::assert_snapshot!(table);
    let (none, full, budget) = (attempts[0], attempts[3], attempts[4]);
    assert!(full.2 < none.2, "jitter flattens the waves");
    assert!(budget.0 < none.0, "a budget sheds attempts");
}

/// Everybody who was refused comes back at the same moment, if nothing spreads them.
#[test]
fn without_jitter_a_storm_comes_in_waves() {
    let wave = |manners: &Manners| {
        let passage = storm(manners, 4, Duration::ZERO);
        // The first wait is 0.5 s after a refusal that takes as long as the route's overhead.
        let bins = &passage.routes[0].bins;
        bins.iter().skip(1).map(|bin| bin.attempts).max()
    };
    assert_eq!(wave(&NONE), Some(70));
    assert!(wave(&FULL) < Some(35), "{:?}", wave(&FULL));
}
