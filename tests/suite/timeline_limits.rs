//! What rate limits let in, and how long they make callers wait.

use proptest::prelude::*;
use routelab::router::RouteId;
use routelab::source::Severity;
use routelab::timeline::{Dimension, Limit, Limiter, OutputCount, Refusal, parse_limit};
use routelab::units::{Duration, Instant, Tokens};

use crate::given::routes;

const A: RouteId = RouteId(0);
const B: RouteId = RouteId(1);

fn limit(dimension: Dimension, per_min: u64) -> Limit {
    Limit::new("gpt", vec![A]).with(dimension, per_min)
}

fn tokens(count: u32) -> Tokens {
    Tokens::new(count)
}

/// Sends a request of this many tokens.
fn ask(limiter: &mut Limiter, route: RouteId, at: u64, size: [u32; 3]) -> Result<(), Refusal> {
    let [input, output, cap] = size.map(tokens);
    limiter.admit(route, Instant(at), input, output, cap)
}

#[test]
fn routes_that_share_a_limit_use_up_one_allowance() {
    let mut shared = limit(Dimension::Requests, 2);
    shared.routes.push(B);
    let mut limiter = Limiter::new(&[shared], 3);
    assert!(ask(&mut limiter, A, 0, [1; 3]).is_ok());
    assert!(ask(&mut limiter, B, 0, [1; 3]).is_ok());
    let expected = Refusal {
        limit: 0,
        dimension: Dimension::Requests,
        retry_after: Some(Duration::from_secs(30)),
    };
    assert_eq!(ask(&mut limiter, A, 0, [1; 3]), Err(expected));
    assert_eq!(ask(&mut limiter, B, 0, [1; 3]), Err(expected));
    assert!(ask(&mut limiter, RouteId(2), 0, [1; 3]).is_ok());
    assert!(ask(&mut limiter, RouteId(9), 0, [1; 3]).is_ok());
}

#[test]
fn a_request_passes_all_limits_or_uses_up_none() {
    let limits = [
        limit(Dimension::Requests, 3).with(Dimension::InputTokens, 100),
        limit(Dimension::OutputTokens, 50),
    ];
    let mut limiter = Limiter::new(&limits, 1);
    for _ in 0..10 {
        let refused = ask(&mut limiter, A, 0, [10, 51, 51]).unwrap_err();
        assert_eq!(
            (refused.limit, refused.dimension),
            (1, Dimension::OutputTokens)
        );
        assert!(refused.is_final());
    }
    // Nothing of the first limit is gone.
    assert!(ask(&mut limiter, A, 0, [100, 0, 0]).is_ok());
    let refused = ask(&mut limiter, A, 0, [50, 0, 0]).unwrap_err();
    assert_eq!(refused.dimension, Dimension::InputTokens);
    assert_eq!(refused.retry_after, Some(Duration::from_secs(30)));
}

#[test]
fn answers_count_as_they_are_or_as_callers_cap_them() {
    for (count, size, passes) in [
        (OutputCount::Actual, [100, 50, 5_000], true),
        (OutputCount::Cap, [100, 50, 5_000], false),
        (OutputCount::Cap, [100, 50, 900], true),
        (OutputCount::Actual, [100, 901, 10], false),
    ] {
        let mut one = limit(Dimension::Tokens, 1_000);
        one.output = count;
        let mut limiter = Limiter::new(&[one], 1);
        let asked = ask(&mut limiter, A, 0, size);
        assert_eq!(asked.is_ok(), passes, "{count:?} {size:?}");
    }
    // Nobody set a cap: the answer itself counts.
    let mut one = limit(Dimension::OutputTokens, 1_000);
    one.output = OutputCount::Cap;
    let mut limiter = Limiter::new(&[one], 1);
    let asked = limiter.admit(A, Instant::ZERO, tokens(1), tokens(1_001), Tokens::UNKNOWN);
    assert!(asked.unwrap_err().is_final());
    let unknown = Tokens::UNKNOWN;
    assert!(
        limiter
            .admit(A, Instant::ZERO, unknown, unknown, unknown)
            .is_ok()
    );
}

#[test]
fn cached_prompt_tokens_are_free_where_the_limit_says_so() {
    for (free, fitting) in [(false, 10), (true, 40)] {
        let mut one = limit(Dimension::InputTokens, 10_000);
        one.cached_free = free;
        let mut limiter = Limiter::with_cached(&[one], [0.75]);
        let passed = (0..100).filter(|_| ask(&mut limiter, A, 0, [1_000, 0, 0]).is_ok());
        assert_eq!(passed.count(), fitting);
    }
    // Of three tokens half are one and a half; a broken token counts whole. All cached, nothing counts.
    for (share, size, fitting) in [(0.5, 3, 5), (1.0, u32::MAX, 100), (0.0, 4, 2)] {
        let mut one = limit(Dimension::InputTokens, 10);
        one.cached_free = true;
        let mut limiter = Limiter::with_cached(&[one], [share]);
        let passed = (0..100).filter(|_| ask(&mut limiter, A, 0, [size, 0, 0]).is_ok());
        assert_eq!(passed.count(), fitting, "{share}");
    }
}

#[test]
fn a_short_window_enforces_the_same_rate_on_smaller_bursts() {
    let mut one = limit(Dimension::Requests, 600);
    one.window = Duration::from_secs(1);
    let mut limiter = Limiter::new(&[one], 1);
    let burst = (0..600).filter(|_| ask(&mut limiter, A, 0, [1; 3]).is_ok());
    assert_eq!(burst.count(), 10);
    // Spread out, the whole rate gets in: ten a second over a minute.
    let spread = (1..=600).filter(|n| ask(&mut limiter, A, n * 100_000, [1; 3]).is_ok());
    assert_eq!(spread.count(), 600);
}

#[test]
fn refused_requests_that_count_starve_a_storm() {
    // Four requests a second against one a second.
    let storm = |refused_count| {
        let mut one = limit(Dimension::Requests, 60);
        one.refused_count = refused_count;
        let mut limiter = Limiter::new(&[one], 1);
        (0..4 * 600)
            .filter(|n| ask(&mut limiter, A, n * 250_000, [1; 3]).is_ok())
            .count()
    };
    // The burst of a minute's allowance with what fills meanwhile, then one a second for the rest.
    assert_eq!(storm(false), 60 + 599);
    // Each request takes 3/4 more than fills meanwhile: the 80th finds 0.75 and loses it, as all after it.
    assert_eq!(storm(true), 79);
}

#[test]
fn a_refusal_that_counts_makes_the_wait_longer_and_is_blamed_on_what_refused() {
    let mut one = limit(Dimension::Requests, 1).with(Dimension::InputTokens, 6_000);
    one.refused_count = true;
    let mut limiter = Limiter::new(&[one], 1);
    assert!(ask(&mut limiter, A, 0, [6_000, 0, 0]).is_ok());
    // After a minute both are full again; 100 tokens too many would take a second.
    let refused = ask(&mut limiter, A, 60_000_000, [6_001, 0, 0]).unwrap_err();
    assert!(refused.is_final());
    let refused = ask(&mut limiter, A, 119_000_000, [6_000, 0, 0]).unwrap_err();
    assert_eq!(refused.dimension, Dimension::Requests);
    // The refusals took the only request away each time.
    assert_eq!(refused.retry_after, Some(Duration::from_secs(60)));
}

fn some_limits() -> impl Strategy<Value = Vec<Limit>> {
    let dimension = prop::option::weighted(0.6, 1..3_000_u64);
    let one = (
        (
            dimension.clone(),
            dimension.clone(),
            dimension.clone(),
            dimension,
        ),
        1..120_u64,
        any::<[bool; 3]>(),
        1..4_u8,
    )
        .prop_map(
            |(per_min, window_s, [cap, cached_free, refused_count], routes)| Limit {
                routes: [A, B]
                    .into_iter()
                    .filter(|route| routes >> route.0 & 1 == 1)
                    .collect(),
                per_min: [per_min.0, per_min.1, per_min.2, per_min.3],
                window: Duration::from_secs(window_s),
                output: if cap {
                    OutputCount::Cap
                } else {
                    OutputCount::Actual
                },
                cached_free,
                refused_count,
                ..Limit::new("x", Vec::new())
            },
        );
    prop::collection::vec(one, 1..4)
}

type Request = (u64, u16, [u32; 3]);

fn some_requests() -> impl Strategy<Value = Vec<Request>> {
    let gap = prop_oneof![Just(0_u64), 1..1_000_000_u64, 1..60_000_000_u64];
    prop::collection::vec((gap, 0..2_u16, [0..400_u32, 0..200, 0..400]), 1..120)
}

proptest! {
    #[test]
    fn who_waits_as_long_as_told_gets_in_and_not_a_microsecond_earlier(
        limits in some_limits(), requests in some_requests(),
    ) {
        let mut limiter = Limiter::with_cached(&limits, [0.3, 0.0]);
        let mut now = 0;
        for (gap, route, size) in requests {
            now += gap;
            let Err(refusal) = ask(&mut limiter, RouteId(route), now, size) else { continue };
            let again = |at| ask(&mut limiter.clone(), RouteId(route), at, size).is_ok();
            match refusal.retry_after {
                Some(wait) => {
                    prop_assert!(wait > Duration::ZERO);
                    prop_assert!(again(now + wait.0));
                    prop_assert!(!again(now + wait.0 - 1));
                }
                None => prop_assert!(!again(u64::MAX)),
            }
        }
    }

    #[test]
    fn no_stretch_of_time_sees_more_than_a_burst_and_the_refill(
        mut limits in some_limits(), requests in some_requests(),
    ) {
        for one in &mut limits {
            one.cached_free = false;
        }
        let mut limiter = Limiter::new(&limits, 2);
        let mut now = 0;
        let mut admitted: Vec<Request> = Vec::new();
        for (gap, route, size) in requests {
            now += gap;
            if ask(&mut limiter, RouteId(route), now, size).is_ok() {
                admitted.push((now, route, size));
            }
        }
        for one in &limits {
            let own: Vec<&Request> = admitted
                .iter()
                .filter(|(_, route, _)| one.routes.contains(&RouteId(*route)))
                .collect();
            for (index, per_min) in one.per_min.iter().enumerate() {
                let Some(per_min) = per_min else { continue };
                for (first, start) in own.iter().enumerate() {
                    let mut sum = 0;
                    for (at, _, [input, output, cap]) in &own[first..] {
                        let output = if one.output == OutputCount::Cap { cap } else { output };
                        sum += [1, *input, *output, input + output][index];
                        let allowed = u128::from(*per_min) * u128::from(one.window.0 + at - start.0);
                        prop_assert!(u128::from(sum) * 60_000_000 <= allowed);
                    }
                }
            }
        }
    }
}

#[test]
fn limits_of_a_command_line_are_read() {
    let catalogue = routes();
    let small = catalogue.find("small").unwrap();
    for (text, dimension, per_min) in [
        ("small.tpm=40_000", Dimension::Tokens, 40_000),
        ("small.rpm=1", Dimension::Requests, 1),
        ("small.itpm = 7", Dimension::InputTokens, 7),
        (
            "small.otpm=1000000000000",
            Dimension::OutputTokens,
            1_000_000_000_000,
        ),
    ] {
        let read = parse_limit(text, &catalogue).unwrap();
        assert_eq!(
            read,
            Limit::new("small", vec![small]).with(dimension, per_min)
        );
    }
}

#[test]
fn limits_of_a_command_line_that_are_none_say_what_is_wrong() {
    let catalogue = routes();
    let mut all = String::new();
    for text in [
        "",
        "small",
        "small.tpm",
        "tpm=5",
        "smal.tpm=5",
        "claude.tpm=5",
        "small.tmp=5",
        "small.=5",
        "small.tpm=",
        "small.tpm=0",
        "small.tpm=-1",
        "small.tpm=+1",
        "small.tpm=1.5",
        "small.tpm=5k",
        "small.tpm=9999999999999999999999",
        ".tpm=5",
        "small.tpm=1=2",
    ] {
        let complaint = parse_limit(text, &catalogue).unwrap_err();
        assert_eq!(complaint.severity, Severity::Error);
        all.push_str(&complaint.render(false));
        all.push_str("\n\n");
    }
    insta::assert_snapshot!(all);
}

#[test]
fn a_limit_of_the_command_line_replaces_the_number_and_keeps_who_shares_it() {
    let mut shared = limit(Dimension::Requests, 10).with(Dimension::Tokens, 100);
    shared.routes.push(B);
    shared.window = Duration::from_secs(10);
    let mut limits = vec![shared.clone()];
    limit(Dimension::Tokens, 70).set_in(&mut limits);
    shared.per_min[Dimension::Tokens as usize] = Some(70);
    assert_eq!(limits, [shared.clone()]);
    // Nobody counted answers so far: the new limit is the route's own.
    limit(Dimension::OutputTokens, 5).set_in(&mut limits);
    assert_eq!(limits, [shared.clone(), limit(Dimension::OutputTokens, 5)]);
    // One a minute over ten seconds would never let one in.
    limit(Dimension::Requests, 1).set_in(&mut limits);
    assert_eq!(limits[0].window, Duration::from_secs(60));
    assert!(ask(&mut Limiter::new(&limits, 2), B, 0, [1; 3]).is_ok());
}
