//! What the latency-aware policy decides, told this and that.

use super::*;
use crate::catalogue::Catalogue;
use crate::policy::{Names, NoLab};
use crate::router::{FaultKind, Need, Regions, Target};
use crate::source::{Diagnostics, Document, SourceFile};
use crate::units::{Tokens, mix64};
use crate::verify::Commands;

fn catalogue() -> Catalogue {
    Catalogue::of_unknown_routes(&["small", "medium", "large"].map(str::to_owned))
}

fn spec(text: &str) -> Result<Box<dyn Spec>, String> {
    let file = SourceFile::new("p.toml", format!("latency-aware = {{ {text} }}\n"));
    let document = Document::parse(&file);
    let context = document.context();
    let catalogue = catalogue();
    let names = Names {
        catalogue: &catalogue,
        depth: 0,
        commands: Commands::default(),
    };
    let mut root = document.table(&context);
    let read = root
        .get("latency-aware")
        .and_then(|value| value.table())
        .and_then(|table| read(table, &names));
    let wrong = context.has_errors();
    let mut found = Diagnostics::default();
    context.finish(&mut found);
    match read {
        Some(spec) if !wrong => Ok(spec),
        _ => Err(found.render(false)),
    }
}

fn policy(text: &str) -> Box<dyn Policy> {
    let catalogue = catalogue();
    let mut setup = Setup::new(&catalogue, &[], &[], &[], &NoLab);
    setup.build(&*spec(text).unwrap())
}

fn ask(number: u64, now: Instant) -> Ask {
    Ask {
        task: 0,
        tenant: u16::MAX,
        language: u16::MAX,
        user: number,
        session: number,
        prompt_chars: Tokens::UNKNOWN,
        difficulty_hint: f64::NAN,
        need: Need {
            input_tokens: Tokens::UNKNOWN,
            output_cap: Tokens::UNKNOWN,
            tools: false,
            residency: Regions::ALL,
            local_only: false,
            account: None,
            deadline: None,
        },
        last_route: None,
        now,
        word: mix64(number ^ 0x5eed),
        key: 7,
    }
}

fn at_s(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000)
}

fn attempt(route: u16, at: Instant, millis: u64) -> Feedback {
    Feedback {
        of: FeedbackOf::Attempt,
        request: 0,
        task: 0,
        why: Why(0),
        route: Some(RouteId(route)),
        fault: None,
        usage: None,
        at,
        latency: Duration::from_millis(millis),
        ttft: None,
        grade: None,
    }
}

/// Tells of `count` attempts that took this long.
fn tell(policy: &mut dyn Policy, route: u16, at: Instant, millis: u64, count: usize) {
    for _ in 0..count {
        policy.learn(&attempt(route, at, millis));
    }
}

/// Shares of 10,000 requests by the route that is asked first.
fn shares(policy: &mut dyn Policy, now: Instant) -> [f64; 3] {
    let mut counts = [0_u32; 3];
    for number in 0..10_000 {
        counts[usize::from(legs(policy, number, now)[0])] += 1;
    }
    counts.map(|count| f64::from(count) / 10_000.0)
}

fn legs(policy: &mut dyn Policy, number: u64, now: Instant) -> Vec<u16> {
    let decision = policy.plan(&ask(number, now));
    let route = |leg: crate::router::Leg| match leg.target {
        Target::Route(route) => route.0,
        Target::Pool(_) => unreachable!("it names no pools"),
    };
    decision.serve.legs().map(route).collect()
}

const ALL: &str = "routes = [\"small\", \"medium\", \"large\"]";

#[test]
fn routes_nobody_has_seen_share_the_traffic() {
    let shares = shares(&mut *policy(ALL), Instant::ZERO);
    for share in shares {
        // Four standard deviations of 10,000 draws.
        assert!((share - 1.0 / 3.0).abs() < 0.019, "{shares:?}");
    }
}

#[test]
fn the_fastest_route_comes_first_and_the_others_behind_it_in_order() {
    let mut policy = policy(&format!("{ALL}, explore = 0"));
    for (route, millis) in [(0, 900), (1, 300), (2, 600)] {
        tell(&mut *policy, route, at_s(1), millis, 5);
    }
    for number in 0..100 {
        assert_eq!(legs(&mut *policy, number, at_s(2)), [1, 2, 0]);
    }
}

#[test]
fn routes_within_the_buffer_share_and_those_beyond_it_do_not() {
    let mut policy = policy(&format!("{ALL}, explore = 0, buffer = 0.1"));
    for (route, millis) in [(0, 1_000), (1, 1_100), (2, 1_101)] {
        tell(&mut *policy, route, at_s(1), millis, 5);
    }
    let shares = shares(&mut *policy, at_s(2));
    assert!((shares[0] - 0.5).abs() < 0.02, "{shares:?}");
    assert_eq!(shares[2], 0.0);
}

#[test]
fn a_route_that_is_not_judged_gets_a_share_and_not_everything() {
    let mut policy = policy(&format!("{ALL}, explore = 0"));
    tell(&mut *policy, 0, at_s(1), 100, 50);
    tell(&mut *policy, 1, at_s(1), 500, 50);
    tell(&mut *policy, 2, at_s(1), 9_000, OBSERVATIONS_MIN - 1);
    let before = shares(&mut *policy, at_s(2));
    assert!(
        (before[2] - 0.5).abs() < 0.02 && before[1] == 0.0,
        "{before:?}"
    );
    tell(&mut *policy, 2, at_s(2), 9_000, 1);
    assert_eq!(shares(&mut *policy, at_s(2))[0], 1.0);
}

#[test]
fn so_many_requests_look_elsewhere() {
    let mut policy = policy(&format!("{ALL}, explore = 0.1"));
    for (route, millis) in [(0, 100), (1, 500), (2, 500)] {
        tell(&mut *policy, route, at_s(1), millis, 5);
    }
    let shares = shares(&mut *policy, at_s(2));
    assert!((shares[0] - 0.9).abs() < 0.012, "{shares:?}");
    assert!((shares[1] - 0.05).abs() < 0.009, "{shares:?}");
}

#[test]
fn a_route_that_was_slow_is_taken_back_when_it_has_recovered() {
    let mut policy = policy(&format!("{ALL}, window = 20, explore = 0.05"));
    tell(&mut *policy, 0, at_s(1), 100, 20);
    tell(&mut *policy, 1, at_s(1), 300, 20);
    tell(&mut *policy, 2, at_s(1), 300, 20);
    // An outage: more than half of what is remembered has failed.
    for _ in 0..11 {
        let failed = Feedback {
            fault: Some(FaultKind::Overloaded),
            ..attempt(0, at_s(2), 5)
        };
        policy.learn(&failed);
    }
    assert!(shares(&mut *policy, at_s(3))[0] < 0.04);
    // Only the few who look meet it now, and each is fast again.
    let mut met = 0;
    for number in 0..2_000 {
        let now = at_s(3 + number);
        let first = legs(&mut *policy, number, now)[0];
        let millis = [100, 300, 300][usize::from(first)];
        met += u64::from(first == 0);
        tell(&mut *policy, first, now, millis, 1);
    }
    assert!((1_000..2_000).contains(&met), "{met}");
    assert!(shares(&mut *policy, at_s(2_003))[0] > 0.9);
}

#[test]
fn what_ended_long_ago_is_forgotten_to_the_microsecond() {
    let mut policy = policy(&format!("{ALL}, window_s = 60, explore = 0"));
    tell(&mut *policy, 0, at_s(10), 100, 9);
    tell(&mut *policy, 1, at_s(50), 300, 9);
    tell(&mut *policy, 2, at_s(50), 300, 9);
    assert_eq!(shares(&mut *policy, Instant(69_999_999))[0], 1.0);
    let after = shares(&mut *policy, at_s(70));
    assert!(
        after.iter().all(|share| (share - 1.0 / 3.0).abs() < 0.02),
        "{after:?}: forgotten, so it shares with the best two"
    );
}

#[test]
fn a_failure_counts_as_configured_or_as_long_as_it_took() {
    let counted = |latency_ms: u64, kind| {
        let mut policy = policy(&format!("{ALL}, failure_s = 2, explore = 0, buffer = 0"));
        tell(&mut *policy, 1, at_s(1), 1_999, 5);
        tell(&mut *policy, 2, at_s(1), 2_001, 5);
        for _ in 0..5 {
            policy.learn(&Feedback {
                fault: Some(kind),
                ..attempt(0, at_s(1), latency_ms)
            });
        }
        legs(&mut *policy, 0, at_s(1))
    };
    assert_eq!(counted(1, FaultKind::Server), [1, 0, 2]);
    assert_eq!(counted(2_002, FaultKind::Timeout), [1, 2, 0]);
}

#[test]
fn a_request_that_was_at_fault_says_nothing_about_the_route() {
    let mut policy = policy(&format!("{ALL}, explore = 0"));
    for route in 0..3 {
        tell(&mut *policy, route, at_s(1), 100, 9);
    }
    let before = shares(&mut *policy, at_s(2));
    for kind in [
        FaultKind::InvalidRequest,
        FaultKind::ContentFilter,
        FaultKind::ContextLength,
        FaultKind::Unsupported,
    ] {
        for _ in 0..20 {
            policy.learn(&Feedback {
                fault: Some(kind),
                ..attempt(1, at_s(2), 3_000)
            });
        }
    }
    assert_eq!(shares(&mut *policy, at_s(2)), before);
}

#[test]
fn the_first_token_is_what_counts_unless_the_whole_does() {
    let order = |measure: &str| {
        let mut policy = policy(&format!("{ALL}, measure = \"{measure}\", explore = 0"));
        for (route, ttft, total) in [(0, 500, 1_000), (1, 100, 3_000), (2, 900, 2_000)] {
            for _ in 0..5 {
                policy.learn(&Feedback {
                    ttft: Some(Duration::from_millis(ttft)),
                    ..attempt(route, at_s(1), total)
                });
            }
        }
        legs(&mut *policy, 0, at_s(1))
    };
    assert_eq!(order("ttft"), [1, 0, 2]);
    assert_eq!(order("total"), [0, 2, 1]);
}

#[test]
fn requests_and_routes_that_are_not_listed_teach_it_nothing() {
    let mut policy = policy("routes = [\"small\", \"large\"], explore = 0");
    for _ in 0..50 {
        policy.learn(&Feedback {
            of: FeedbackOf::Request,
            ..attempt(0, at_s(1), 9_000)
        });
        policy.learn(&attempt(1, at_s(1), 1));
        policy.learn(&Feedback {
            route: None,
            ..attempt(0, at_s(1), 1)
        });
    }
    let shares = shares(&mut *policy, at_s(1));
    assert!(
        (shares[0] - 0.5).abs() < 0.02 && shares[1] == 0.0,
        "{shares:?}"
    );
}

#[test]
fn a_copy_goes_on_from_where_the_original_was() {
    let mut policy = policy(&format!("{ALL}, explore = 0.2"));
    tell(&mut *policy, 1, at_s(1), 100, 9);
    let mut fork = policy.fork();
    for number in 0..500 {
        assert_eq!(
            legs(&mut *policy, number, at_s(2)),
            legs(&mut *fork, number, at_s(2))
        );
    }
    tell(&mut *fork, 0, at_s(2), 1, 9);
    assert_ne!(shares(&mut *policy, at_s(2)), shares(&mut *fork, at_s(2)));
    let explained = fork.explain(&ask(0, at_s(2)), Why(reason::FAST));
    assert!(
        explained.contains("small 0.001 s of 9") && explained.contains("large unknown, 0 seen"),
        "{explained}"
    );
}

proptest::proptest! {
    /// The quantile against sorting everything anew.
    #[test]
    fn the_window_holds_the_last_and_their_quantile(
        latencies in proptest::collection::vec(0_u64..50, 1..200),
        window in 1_usize..40,
        share in 0.001_f64..=1.0,
    ) {
        let mut recent = Recent::new(window);
        for (index, latency) in latencies.iter().enumerate() {
            recent.note(Instant(index as u64), Duration(*latency));
        }
        let memory = Duration(30);
        let now = Instant(latencies.len() as u64);
        recent.forget(now, memory);
        let kept = latencies.len().min(window).min(29);
        let mut plain = latencies[latencies.len() - kept..].to_vec();
        plain.sort_unstable();
        let wanted = plain.iter().copied().find(|one| {
            let at_most = plain.iter().filter(|other| *other <= one).count();
            at_most as f64 >= share * plain.len() as f64
        });
        proptest::prop_assert_eq!(recent.quantile(share, 1).map(|one| one.0), wanted);
        proptest::prop_assert!(recent.order.capacity() <= window.next_power_of_two().max(4));
    }
}

#[test]
fn settings_without_sense_are_refused_with_their_place() {
    for (text, wanted) in [
        ("routes = [\"small\"]", "must name 2 to 8 routes"),
        ("routes = [\"small\", \"small\"]", "names `small` twice"),
        ("routes = [\"small\", \"smal\"]", "did you mean `small`"),
        ("measure = \"ttft\"", "routes"),
        (&format!("{ALL}, quantile = 0"), "must be above 0"),
        (&format!("{ALL}, quantile = 50"), "50 % is written 0.5"),
        (&format!("{ALL}, measure = \"tfft\""), "did you mean `ttft`"),
        (&format!("{ALL}, window = 0"), "between 1 and 10000"),
        (&format!("{ALL}, window_s = 0"), "must be above 0"),
        (&format!("{ALL}, buffer = -0.1"), "between 0 and 10"),
        (&format!("{ALL}, explore = 2"), "2 % is written 0.02"),
        (&format!("{ALL}, failure_s = 1e9"), "86400"),
        (&format!("{ALL}, failure = 1"), "did you mean `failure_s`"),
    ] {
        let found = spec(text).unwrap_err();
        assert!(found.contains(wanted), "{text}: {found}");
    }
}
