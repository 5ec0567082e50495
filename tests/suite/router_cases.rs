//! Faults that other gateways' users reported, each as a test that this router does not have it. The
//! ids are those of the project's list of cases.

use routelab::router::FaultKind::*;
use routelab::router::{
    Account, AccountId, AccountSpec, BreakerState, Call, CooldownSpec, FailureReason, Fault,
    FaultKind, Input, Kinds, Leg, Need, Plan, PoolId, Reply, RouteId, Router, RouterConfig, Skip,
    Step, Strategy, Target, Usage, WaitPolicy,
};
use routelab::units::{Instant, Price, TokenPrice, Tokens, Usd};

use super::router_world::*;

#[test]
fn r01_a_cooldown_is_only_ever_extended() {
    let mut config = pool_config(Strategy::RoundRobin, 2);
    config.attempts_max = 1;
    config.cooldown = Some(CooldownSpec {
        kinds: Kinds::of(&[RateLimit]),
        base: Some(s(60)),
        use_hint: true,
        max: s(600),
    });
    let mut router = Router::new(&config).unwrap();
    let a = RouteId(0);
    let single = Plan::single(a);
    let (mut first, _) = begin(&mut router, single, need(), 0, at(0));
    let (mut second, _) = begin(&mut router, single, need(), 0, at(0));
    let (mut third, _) = begin(&mut router, single, need(), 0, at(0));
    let hinted = |secs| {
        Input::Fault(Fault {
            retry_after: Some(s(secs)),
            ..fault(RateLimit)
        })
    };
    router.step(&mut first, hinted(1), at(0), &mut ());
    assert_eq!(router.cooldown_until(a), at(1));
    let late = Instant(200_000);
    router.step(&mut second, Input::Fault(fault(RateLimit)), late, &mut ());
    assert_eq!(router.cooldown_until(a), Instant(60_200_000));
    // A later and shorter one does not cut it short.
    router.step(&mut third, hinted(1), at(1), &mut ());
    assert_eq!(router.cooldown_until(a), Instant(60_200_000));
    for _ in 0..10 {
        let (mut call, step) = begin(&mut router, pooled(), need(), 0, at(2));
        assert_eq!(sent_to(step), RouteId(1));
        router.step(&mut call, REPLY, at(2), &mut ());
    }
}

#[test]
fn r03_a_stream_that_is_cut_counts_as_a_failure() {
    let mut world = World::new(&with_routes(2, RouterConfig::default()));
    world.queue(0, [Answer::Dies(fault(Timeout))]);
    let step = world.run(chain(2), need());
    assert_eq!(reason(step), FailureReason::MidStream(Timeout));
    let state = world.router.breaker_state(RouteId(0), world.now);
    assert_eq!(state, BreakerState::Closed { failures: 1 });
    assert_eq!(world.trace.calls(), [1, 0, 0], "no other route");
}

/// A breaker that opened at 0 and whose trial was sent at 30 s.
fn trial() -> (Router, Call) {
    let mut router = Router::new(&with_routes(1, RouterConfig::default())).unwrap();
    for _ in 0..3 {
        let (mut call, step) = begin(&mut router, chain(1), need(), 0, at(0));
        sent_to(step);
        router.step(&mut call, Input::Fault(fault(Server)), at(0), &mut ());
        router.step(&mut call, Input::Cancelled, at(0), &mut ());
    }
    let (_, step) = begin(&mut router, chain(1), need(), 0, at(29));
    assert_eq!(reason(step), FailureReason::AllUnavailable);
    let (call, step) = begin(&mut router, chain(1), need(), 0, at(30));
    sent_to(step);
    let (_, second) = begin(&mut router, chain(1), need(), 0, at(30));
    assert_eq!(reason(second), FailureReason::AllUnavailable, "one trial");
    (router, call)
}

#[test]
fn r05_trial_slot_is_freed_on_every_way_out() {
    let mut ways: Vec<_> = FaultKind::ALL
        .map(|kind| Some(Input::Fault(fault(kind))))
        .into();
    // An answer, a caller that goes away, and a trial that never ends.
    ways.extend([Some(REPLY), Some(Input::Cancelled), None]);
    for way in ways {
        for shown in [false, true] {
            let (mut router, mut call) = trial();
            if shown {
                router.step(&mut call, Input::Shown, at(31), &mut ());
            }
            if let Some(input) = way {
                router.step(&mut call, input, at(31), &mut ());
                let state = router.breaker_state(RouteId(0), at(31));
                let stuck = matches!(state, BreakerState::HalfOpen { .. });
                assert!(!stuck, "{way:?} leaves {state:?}");
            }
            let (_, step) = begin(&mut router, chain(1), need(), 0, at(91));
            assert!(matches!(step, Step::Send { .. }), "{way:?}: {step:?}");
        }
    }
}

#[test]
fn r05_a_fault_of_the_request_frees_the_trial_at_once_and_blames_nobody() {
    for kind in [ContextLength, Unsupported, ContentFilter, InvalidRequest] {
        let (mut router, mut call) = trial();
        router.step(&mut call, Input::Fault(fault(kind)), at(31), &mut ());
        let (_, step) = begin(&mut router, chain(1), need(), 0, at(31));
        assert!(matches!(step, Step::Send { .. }), "{kind:?}: {step:?}");
    }
}

#[test]
fn r05_a_result_from_before_the_opening_does_not_end_the_trial() {
    let mut router = Router::new(&with_routes(1, RouterConfig::default())).unwrap();
    let mut early: Vec<_> = (0..5)
        .map(|_| begin(&mut router, chain(1), need(), 0, at(0)).0)
        .collect();
    for call in &mut early[..3] {
        router.step(call, Input::Fault(fault(Server)), at(0), &mut ());
    }
    let (mut trial, step) = begin(&mut router, chain(1), need(), 0, at(30));
    sent_to(step);
    router.step(&mut early[3], REPLY, at(31), &mut ());
    router.step(&mut early[4], Input::Fault(fault(Server)), at(31), &mut ());
    let state = router.breaker_state(RouteId(0), at(31));
    assert_eq!(state, BreakerState::HalfOpen { lost_at: at(60) });
    router.step(&mut trial, REPLY, at(32), &mut ());
    let state = router.breaker_state(RouteId(0), at(32));
    assert_eq!(state, BreakerState::Closed { failures: 0 });
}

#[test]
fn r07_a_spent_quota_is_no_rate_limit() {
    let config = RouterConfig {
        attempts_max: 3,
        ..RouterConfig::default()
    };
    let mut world = World::new(&with_routes(2, config));
    world.fails(0, Quota, 3);
    assert!(matches!(world.run(chain(2), need()), Step::Done(_)));
    assert_eq!(world.trace.text, "oa#1:quota an#1:ok");
    assert_eq!(world.trace.waits, []);
    assert_eq!(world.trace.alerts, [Quota]);
    // The control: a rate limit is retried.
    world.answers[0].clear();
    world.trace = Trace::default();
    world.fails(0, RateLimit, 1);
    world.run(chain(2), need());
    assert_eq!(world.trace.text, "oa#1:rate_limit oa#2:ok");
}

#[test]
fn r09_in_flight_counts_never_go_below_zero_and_load_stays_even() {
    let mut router = Router::new(&pool_config(Strategy::LeastLoaded, 4)).unwrap();
    let mut old: Vec<_> = (0..8)
        .map(|jitter| begin(&mut router, pooled(), need(), jitter, at(0)).0)
        .collect();
    let loads = |router: &Router| [0, 1, 2, 3].map(|r| router.in_flight(RouteId(r)));
    assert_eq!(loads(&router), [2, 2, 2, 2]);
    router.reset();
    for (index, call) in old.iter_mut().enumerate() {
        let input = if index % 2 == 0 {
            REPLY
        } else {
            Input::Cancelled
        };
        router.step(call, input, at(1), &mut ());
        router.step(call, input, at(1), &mut ());
    }
    assert_eq!(loads(&router), [0; 4]);
    let mut picks = [0_u32; 4];
    for jitter in 0..400 {
        let (mut call, step) = begin(&mut router, pooled(), need(), jitter, at(2));
        picks[usize::from(sent_to(step).0)] += 1;
        router.step(&mut call, REPLY, at(2), &mut ());
    }
    assert!(picks.iter().all(|n| (80..=120).contains(n)), "{picks:?}");
    let (mut call, step) = begin(&mut router, pooled(), need(), 0, at(3));
    for _ in 0..3 {
        router.step(&mut call, Input::Cancelled, at(3), &mut ());
    }
    assert_eq!(router.in_flight(sent_to(step)), 0, "decremented once");
}

/// Picks out of 4,000 first picks of a weighted pool.
fn weighted(weights: [Option<u32>; 3], order: [u16; 3], down: Option<u16>) -> [u32; 3] {
    let mut config = with_routes(3, RouterConfig::default());
    for (route, weight) in config.routes.iter_mut().zip(weights) {
        route.weight = weight;
    }
    config.pools = vec![pool(Strategy::Weighted, &order)];
    let mut router = Router::new(&config).unwrap();
    for _ in 0..3 {
        if let Some(down) = down {
            let single = Plan::single(RouteId(down));
            let (mut call, _) = begin(&mut router, single, need(), 0, at(0));
            router.step(&mut call, Input::Fault(fault(Server)), at(0), &mut ());
        }
    }
    let mut picks = [0; 3];
    for jitter in 0..4_000 {
        let (mut call, step) = begin(&mut router, pooled(), need(), jitter, at(1));
        picks[usize::from(sent_to(step).0)] += 1;
        router.step(&mut call, REPLY, at(1), &mut ());
    }
    picks
}

#[test]
fn r11_weights_do_not_depend_on_the_order_of_the_list() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let some = [None, Some(3), Some(1)];
    let first = weighted(some, orders[0], None);
    // A missing weight is 1: one, three and one fifths of 4,000.
    for (picks, expected) in first.iter().zip([800_u32, 2_400, 800]) {
        assert!(picks.abs_diff(expected) < 130, "{first:?}");
    }
    for order in orders {
        assert_eq!(weighted(some, order, None), first, "{order:?}");
    }
    let nothing = weighted([Some(0); 3], orders[0], None);
    assert!(
        nothing.iter().all(|n| n.abs_diff(1_333) < 130),
        "{nothing:?}"
    );
    let zero = [Some(0), Some(1), Some(0)];
    assert_eq!(weighted(zero, orders[0], None), [0, 4_000, 0]);
    let down = weighted(zero, orders[0], Some(1));
    assert!(down[1] == 0 && down[0].abs_diff(2_000) < 150, "{down:?}");
}

#[test]
fn r13_no_route_is_visited_twice_whatever_the_plan_says() {
    let mut config = pool_config(Strategy::RoundRobin, 2);
    config.breaker = None;
    let mut world = World::new(&config);
    for route in 0..2 {
        world.fails(route, Overloaded, 20);
    }
    let leg = |target| Leg {
        target,
        verifier: None,
    };
    let (a, b) = (Target::Route(RouteId(0)), Target::Route(RouteId(1)));
    let round = [a, b, a, b, Target::Pool(PoolId(0)), b, a].map(leg);
    let step = world.run(Plan::new(&round).unwrap(), need());
    assert_eq!(reason(step), FailureReason::Exhausted(Overloaded));
    let sent: Vec<_> = world.trace.sent.iter().map(|r| r.0).collect();
    assert_eq!(sent, [0, 0, 1, 1], "two attempts each, one visit each");
    assert!(
        world
            .trace
            .skips
            .contains(&(RouteId(0), Skip::AlreadyTried))
    );
}

#[test]
fn r15_an_overflow_goes_to_a_bigger_window_and_not_to_a_smaller_one() {
    let mut config = with_routes(3, RouterConfig::default());
    for (route, window) in config.routes.iter_mut().zip([32_000, 16_000, 200_000]) {
        route.window = Tokens::new(window);
    }
    let mut world = World::new(&config);
    world.fails(0, ContextLength, 1);
    assert!(matches!(world.run(chain(3), need()), Step::Done(_)));
    assert_eq!(world.trace.calls(), [1, 0, 1]);
}

#[test]
fn r17_silence_before_the_first_token_fails_over_after_the_limit() {
    let mut config = with_routes(2, RouterConfig::default());
    config.attempts_max = 1;
    config.routes[0].limits.ttft = s(2);
    let mut router = Router::new(&config).unwrap();
    let (mut call, step) = begin(&mut router, chain(2), need(), 0, at(0));
    let Step::Send { limits, .. } = step else {
        panic!("{step:?}");
    };
    let silent = Instant::ZERO.after(limits.ttft);
    assert_eq!(silent, at(2));
    let step = router.step(&mut call, Input::Fault(fault(Timeout)), silent, &mut ());
    assert_eq!(sent_to(step), RouteId(1));
    assert_eq!(router.in_flight(RouteId(0)), 0);
}

#[test]
fn r19_a_stall_after_the_first_token_ends_the_attempt() {
    let mut router = Router::new(&with_routes(2, RouterConfig::default())).unwrap();
    let (mut call, step) = begin(&mut router, chain(2), need(), 0, at(0));
    let Step::Send { limits, .. } = step else {
        panic!("{step:?}");
    };
    let first = Instant(100_000);
    assert_eq!(router.step(&mut call, Input::Shown, first, &mut ()), step);
    let stalled = first.after(limits.gap);
    assert_eq!(stalled, Instant(30_100_000));
    let end = router.step(&mut call, Input::Fault(fault(Timeout)), stalled, &mut ());
    assert_eq!(reason(end), FailureReason::MidStream(Timeout));
    assert_eq!(router.in_flight(RouteId(0)), 0);
    let state = router.breaker_state(RouteId(0), stalled);
    assert_eq!(state, BreakerState::Closed { failures: 1 });
}

#[test]
fn r25_a_hint_is_waited_out_or_the_route_is_left() {
    let config = RouterConfig {
        call_deadline: Some(s(60)),
        wait: WaitPolicy {
            wait_max: s(60),
            ..WaitPolicy::default()
        },
        ..RouterConfig::default()
    };
    let hinted = |secs| {
        Answer::Fails(Fault {
            retry_after: Some(s(secs)),
            ..fault(RateLimit)
        })
    };
    let mut world = World::new(&with_routes(2, config));
    world.queue(0, [hinted(30)]);
    world.run(chain(2), need());
    assert_eq!(world.trace.waits.len(), 1);
    assert!(world.trace.waits[0] >= s(30));
    // A hostile hour: no wait, the next route; or, without one, an immediate error.
    world.trace = Trace::default();
    world.queue(0, [hinted(3600)]);
    let before = world.now;
    world.run(chain(2), need());
    assert_eq!(world.trace.text, "oa#1:rate_limit an#1:ok");
    assert_eq!(world.now, before);
    world.router.reset();
    world.queue(0, [hinted(3600)]);
    let step = world.run(Plan::single(RouteId(0)), need());
    assert_eq!(reason(step), FailureReason::Exhausted(RateLimit));
    assert_eq!(world.now, before);
}

/// A route at 1 µUSD a token in and out, so that 100,000 tokens in and 200,000 out are 0.30 USD.
fn dear() -> (RouterConfig, Need) {
    let mut config = with_routes(1, RouterConfig::default());
    config.routes[0].price = Some(Price {
        input: TokenPrice(1_000_000),
        output: TokenPrice(1_000_000),
        cached_input: None,
        cache_write: None,
        reasoning: None,
    });
    config.routes[0].window = Tokens::UNKNOWN;
    config.accounts = vec![AccountSpec {
        name: "team".into(),
        limit: Usd(Usd::PER_DOLLAR),
    }];
    let need = Need {
        input_tokens: Tokens::new(100_000),
        output_cap: Tokens::new(200_000),
        account: Some(AccountId(0)),
        ..need()
    };
    (config, need)
}

fn account(router: &Router) -> Account {
    router.account(AccountId(0)).unwrap()
}

#[test]
fn r29_of_ten_calls_at_once_three_fit_the_budget() {
    let (config, need) = dear();
    let mut router = Router::new(&config).unwrap();
    let mut passed = Vec::new();
    for _ in 0..10 {
        let (call, step) = begin(&mut router, chain(1), need, 0, at(0));
        match step {
            Step::Send { .. } => passed.push(call),
            end => assert_eq!(reason(end), FailureReason::MoneyBudget),
        }
    }
    assert_eq!(passed.len(), 3);
    let cent = |cents: u64| Usd(Usd::PER_DOLLAR / 100 * cents);
    assert_eq!(account(&router).reserved, cent(90));
    // Settled at the real cost; released on failure and on cancellation; unknown usage is the
    // whole reservation.
    let bill = Usage {
        input: Tokens::new(100_000),
        output: Tokens::new(20_000),
    };
    let reply = Input::Reply(Reply { usage: Some(bill) });
    router.step(&mut passed[0], reply, at(1), &mut ());
    assert_eq!(account(&router).spent, cent(12));
    router.step(&mut passed[1], Input::Fault(fault(Server)), at(1), &mut ());
    router.step(&mut passed[2], Input::Cancelled, at(1), &mut ());
    assert_eq!(account(&router).reserved, Usd::ZERO);
    assert_eq!(account(&router).spent, cent(12));
    let (mut call, _) = begin(&mut router, chain(1), need, 0, at(2));
    router.step(&mut call, REPLY, at(3), &mut ());
    assert_eq!(account(&router).spent, cent(42));
    router.reset();
    let half_known = Usage {
        input: Tokens::new(1),
        output: Tokens::UNKNOWN,
    };
    let (mut call, _) = begin(&mut router, chain(1), need, 0, at(3));
    let reply = Input::Reply(Reply {
        usage: Some(half_known),
    });
    router.step(&mut call, reply, at(3), &mut ());
    assert_eq!(account(&router).spent, cent(30), "unknown is not zero");
    // Output that was seen was made, also if the stream died or the caller left.
    let (mut call, _) = begin(&mut router, chain(1), need, 0, at(4));
    router.step(&mut call, Input::Shown, at(4), &mut ());
    router.step(&mut call, Input::Cancelled, at(5), &mut ());
    assert_eq!(account(&router).spent, cent(60));
}

#[test]
fn r29_what_nobody_can_bound_is_not_admitted_to_a_limited_account() {
    let (mut config, need) = dear();
    let mut router = Router::new(&config).unwrap();
    let uncapped = Need {
        output_cap: Tokens::UNKNOWN,
        ..need
    };
    let (_, step) = begin(&mut router, chain(1), uncapped, 0, at(0));
    assert_eq!(reason(step), FailureReason::MoneyBudget);
    config.routes[0].price = None;
    let mut router = Router::new(&config).unwrap();
    let (_, step) = begin(&mut router, chain(1), need, 0, at(0));
    assert_eq!(reason(step), FailureReason::MoneyBudget);
    // An account that no budget is kept for is not held up.
    let free = Need {
        account: Some(AccountId(7)),
        ..need
    };
    let (_, step) = begin(&mut router, chain(1), free, 0, at(0));
    sent_to(step);
}

#[test]
fn r29_a_retry_needs_money_again() {
    let (config, need) = dear();
    let mut world = World::new(&config);
    world.queue(
        0,
        [
            Answer::Fails(Fault {
                usage: Some(Usage {
                    input: Tokens::new(900_000),
                    output: Tokens::new(0),
                }),
                ..fault(Server)
            }),
            Answer::Costs(1, 1),
        ],
    );
    let step = world.run(chain(1), need);
    assert_eq!(reason(step), FailureReason::Exhausted(Server));
    assert_eq!(world.trace.skips, [(RouteId(0), Skip::Budget)]);
    assert_eq!(world.trace.sent.len(), 1);
}

#[test]
fn r31_a_refusal_is_no_outage() {
    for shown in [false, true] {
        let mut world = World::new(&with_routes(2, RouterConfig::default()));
        let refused = fault(ContentFilter);
        world.queue(
            0,
            [if shown {
                Answer::Dies(refused)
            } else {
                Answer::Fails(refused)
            }],
        );
        let end = reason(world.run(chain(2), need()));
        let expected = if shown {
            FailureReason::MidStream(ContentFilter)
        } else {
            FailureReason::Rejected(ContentFilter)
        };
        assert_eq!(end, expected);
        assert_eq!(world.trace.calls(), [1, 0, 0]);
        let state = world.router.breaker_state(RouteId(0), world.now);
        assert_eq!(state, BreakerState::Closed { failures: 0 });
    }
    // Unless the configuration says so in as many words.
    let mut config = with_routes(2, RouterConfig::default());
    config.tables.fail_over = config.tables.fail_over.with(ContentFilter);
    let mut world = World::new(&config);
    world.fails(0, ContentFilter, 1);
    assert!(matches!(world.run(chain(2), need()), Step::Done(_)));
    assert_eq!(world.trace.text, "oa#1:content_filter an#1:ok");
}
