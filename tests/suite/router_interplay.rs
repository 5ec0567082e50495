//! How pools, cascades, waits and shared state work together.

use routelab::router::FaultKind::*;
use routelab::router::{
    BreakerState, Call, CooldownSpec, FailureReason, Fault, Input, Kinds, Leg, Need, Plan,
    RetryShare, RouteId, Router, RouterConfig, Served, ServedVerdict, Step, Strategy, Target,
    Verdict, VerifierId, preset,
};
use routelab::units::Tokens;

use super::router_world::*;

#[test]
fn pl02_a_round_robin_takes_turns_and_skips_who_is_cooling() {
    let mut world = World::new(&pool_config(Strategy::RoundRobin, 3));
    for _ in 0..4 {
        world.run(pooled(), need());
    }
    let hint = Fault {
        retry_after: Some(s(60)),
        ..fault(RateLimit)
    };
    world.queue(1, [Answer::Fails(hint)]);
    for _ in 0..3 {
        world.run(pooled(), need());
    }
    let sent: Vec<_> = world.trace.sent.iter().map(|r| r.0).collect();
    // The fifth call fails at 1 and goes on to 2; then 2 has its own turn, and 0 after it.
    assert_eq!(sent, [0, 1, 2, 0, 1, 2, 2, 0]);
    world.run(pooled(), need());
    assert_eq!(world.trace.sent.last(), Some(&RouteId(2)), "1 is cooling");
}

#[test]
fn pl05_after_a_failure_the_list_goes_on_behind_the_member_that_failed() {
    let mut config = pool_config(Strategy::RoundRobin, 4);
    config.attempts_max = 1;
    let mut router = Router::new(&config).unwrap();
    let (mut first, step) = begin(&mut router, pooled(), need(), 0, at(0));
    assert_eq!(sent_to(step), RouteId(0));
    let (_, step) = begin(&mut router, pooled(), need(), 0, at(0));
    assert_eq!(sent_to(step), RouteId(1));
    // Not the one whose turn it is: that is the next call's.
    let step = router.step(&mut first, Input::Fault(fault(Server)), at(1), &mut ());
    assert_eq!(sent_to(step), RouteId(1));
    let (_, step) = begin(&mut router, pooled(), need(), 0, at(1));
    assert_eq!(sent_to(step), RouteId(2));
}

#[test]
fn pl04_when_all_are_cooling_the_soonest_out_is_asked() {
    let mut config = pool_config(Strategy::RoundRobin, 2);
    config.attempts_max = 1;
    for soonest in [true, false] {
        config.pools[0].soonest_when_all_cool = soonest;
        let mut world = World::new(&config);
        for (route, secs) in [(0, 50), (1, 40)] {
            let hint = Fault {
                retry_after: Some(s(secs)),
                ..fault(RateLimit)
            };
            world.queue(route, [Answer::Fails(hint)]);
        }
        let step = world.run(pooled(), need());
        assert_eq!(reason(step), FailureReason::Exhausted(RateLimit));
        let step = world.run(pooled(), need());
        match step {
            Step::Done(served) => assert!(soonest && served.route == RouteId(1)),
            end => {
                assert!(!soonest);
                assert_eq!(reason(end), FailureReason::AllUnavailable);
            }
        }
    }
}

#[test]
fn pl06_the_papers_pool_fails_over_on_rate_limits_only() {
    let config = (preset::by_name("memagen").unwrap().config)();
    let config = RouterConfig {
        pools: vec![pool(Strategy::RoundRobin, &[0, 1])],
        ..with_routes(2, config)
    };
    let mut world = World::new(&config);
    world.fails(0, RateLimit, 1);
    assert!(matches!(world.run(pooled(), need()), Step::Done(_)));
    assert_eq!(world.router.cooldown_until(RouteId(0)), at(60));
    world.fails(1, Server, 1);
    let step = world.run(pooled(), need());
    assert_eq!(reason(step), FailureReason::Rejected(Server));
}

#[test]
fn a_cooldown_longer_than_the_wait_sends_the_call_on() {
    let mut config = with_routes(2, RouterConfig::default());
    config.cooldown = Some(CooldownSpec {
        kinds: Kinds::of(&[RateLimit]),
        base: Some(s(60)),
        use_hint: true,
        max: s(600),
    });
    // Both routes share a key: a rate limit on one rests the other, too.
    config.routes[1].credential = config.routes[0].credential;
    let mut world = World::new(&config);
    world.fails(0, RateLimit, 1);
    let step = world.run(chain(2), need());
    assert_eq!(reason(step), FailureReason::Exhausted(RateLimit));
    assert_eq!(
        world.trace.text,
        "oa#1:rate_limit oa#-:cooling_down an#-:cooling_down"
    );
    assert_eq!(world.trace.waits, [], "no use in waiting half a second");
    assert_eq!(world.now, at(0));
}

fn cascade(routes: u16) -> Plan {
    let legs: Vec<_> = (0..routes)
        .map(|route| Leg {
            target: Target::Route(RouteId(route)),
            verifier: Some(VerifierId(3)),
        })
        .collect();
    Plan::new(&legs).unwrap()
}

#[test]
fn the_last_eligible_leg_of_a_cascade_is_final() {
    let mut config = with_routes(3, RouterConfig::default());
    config.routes[2].residency = US;
    let mut router = Router::new(&config).unwrap();
    let (mut call, step) = begin(&mut router, cascade(3), need(), 0, at(0));
    assert!(matches!(step, Step::Send { buffer: true, .. }));
    let step = router.step(&mut call, REPLY, at(1), &mut ());
    let verify = Step::Verify {
        route: RouteId(0),
        verifier: VerifierId(3),
    };
    assert_eq!(step, verify);
    // The verifier breaks down: that is no acceptance.
    let broken = Input::Verdict(Verdict::Unavailable);
    let step = router.step(&mut call, broken, at(2), &mut ());
    assert!(matches!(
        step,
        Step::Send {
            route: RouteId(1),
            buffer: false,
            ..
        }
    ));
    let step = router.step(&mut call, REPLY, at(3), &mut ());
    let served = Served {
        route: RouteId(1),
        leg: 1,
        attempt: 1,
        verdict: ServedVerdict::NotAsked,
        escalations: 1,
        unavailable_verdicts: 1,
        sends: 2,
    };
    assert_eq!(step, Step::Done(served));
}

#[test]
fn a_rejected_answer_is_served_if_nothing_better_comes() {
    let ends: [(Input, u64); 3] = [
        (Input::Fault(fault(Server)), 3),
        (Input::Fault(fault(InvalidRequest)), 3),
        (Input::Fault(fault(Quota)), 200), // beyond the deadline
    ];
    for (failure, when) in ends {
        let config = RouterConfig {
            attempts_max: 1,
            ..RouterConfig::default()
        };
        let mut router = Router::new(&with_routes(2, config)).unwrap();
        let (mut call, _) = begin(&mut router, cascade(2), need(), 0, at(0));
        router.step(&mut call, REPLY, at(1), &mut ());
        let reject = Input::Verdict(Verdict::Reject);
        let step = router.step(&mut call, reject, at(2), &mut ());
        assert_eq!(sent_to(step), RouteId(1));
        let end = router.step(&mut call, failure, at(when), &mut ());
        let Step::Done(served) = end else {
            panic!("{failure:?}: {end:?}");
        };
        assert_eq!((served.route, served.leg, served.sends), (RouteId(0), 0, 2));
        assert_eq!(served.verdict, ServedVerdict::Unverified);
        assert_eq!(router.step(&mut call, REPLY, at(300), &mut ()), end);
    }
}

#[test]
fn no_rejected_answer_is_served_once_another_has_begun_to_show() {
    let mut router = Router::new(&with_routes(2, RouterConfig::default())).unwrap();
    let (mut call, _) = begin(&mut router, cascade(2), need(), 0, at(0));
    // Of a buffered answer nothing is shown: the fault may still be retried.
    router.step(&mut call, Input::Shown, at(0), &mut ());
    let step = router.step(&mut call, Input::Fault(fault(Quota)), at(1), &mut ());
    assert_eq!(sent_to(step), RouteId(1));
    let (mut call, _) = begin(&mut router, cascade(2), need(), 0, at(2));
    router.step(&mut call, REPLY, at(3), &mut ());
    router.step(&mut call, Input::Verdict(Verdict::Reject), at(3), &mut ());
    router.step(&mut call, Input::Shown, at(4), &mut ());
    let end = router.step(&mut call, Input::Fault(fault(Server)), at(5), &mut ());
    assert_eq!(reason(end), FailureReason::MidStream(Server));
}

#[test]
fn while_a_call_waits_another_may_take_the_trial_or_open_the_breaker() {
    let mut router = Router::new(&with_routes(2, RouterConfig::default())).unwrap();
    let (mut waiting, _) = begin(&mut router, chain(2), need(), 0, at(0));
    let pause = router.step(&mut waiting, Input::Fault(fault(Server)), at(0), &mut ());
    let Step::Wait { until } = pause else {
        panic!("{pause:?}");
    };
    for _ in 0..2 {
        let (mut call, step) = begin(&mut router, Plan::single(RouteId(0)), need(), 0, at(0));
        sent_to(step);
        router.step(&mut call, Input::Fault(fault(Server)), at(0), &mut ());
    }
    let mut trace = Trace::default();
    let step = router.step(&mut waiting, Input::Wake, until, &mut trace);
    assert_eq!(sent_to(step), RouteId(1));
    assert_eq!(trace.text, "oa#-:breaker_open");
}

#[test]
fn while_a_call_waits_another_may_learn_of_a_longer_pause() {
    let mut router = Router::new(&with_routes(2, RouterConfig::default())).unwrap();
    let (mut waiting, _) = begin(&mut router, chain(2), need(), 0, at(0));
    let (mut other, _) = begin(&mut router, chain(2), need(), 0, at(0));
    let pause = router.step(&mut waiting, Input::Fault(fault(Server)), at(0), &mut ());
    let Step::Wait { until } = pause else {
        panic!("{pause:?}");
    };
    let limited = Fault {
        retry_after: Some(s(60)),
        ..fault(RateLimit)
    };
    router.step(&mut other, Input::Fault(limited), at(0), &mut ());
    let mut trace = Trace::default();
    let step = router.step(&mut waiting, Input::Wake, until, &mut trace);
    assert_eq!(sent_to(step), RouteId(1));
    assert_eq!(trace.text, "oa#-:cooling_down");
}

#[test]
fn a_rejection_goes_neither_to_a_route_that_was_tried_nor_to_a_smaller_window() {
    let mut config = with_routes(4, RouterConfig::default());
    let windows = [64_000, 200_000, 16_000, 300_000];
    for (route, window) in config.routes.iter_mut().zip(windows) {
        route.window = Tokens::new(window);
    }
    let mut router = Router::new(&config).unwrap();
    let (mut call, _) = begin(&mut router, cascade(4), need(), 0, at(0));
    let step = router.step(
        &mut call,
        Input::Fault(fault(ContextLength)),
        at(0),
        &mut (),
    );
    assert!(matches!(
        step,
        Step::Send {
            route: RouteId(1),
            buffer: true,
            ..
        }
    ));
    router.step(&mut call, REPLY, at(1), &mut ());
    let reject = Input::Verdict(Verdict::Reject);
    let step = router.step(&mut call, reject, at(1), &mut ());
    assert!(matches!(
        step,
        Step::Send {
            route: RouteId(3),
            buffer: false,
            ..
        }
    ));

    let verified = |route| Leg {
        target: Target::Route(RouteId(route)),
        verifier: Some(VerifierId(0)),
    };
    let twice = Plan::new(&[verified(0), verified(0), verified(1)]).unwrap();
    router.reset();
    let (mut call, _) = begin(&mut router, twice, need(), 0, at(0));
    router.step(&mut call, REPLY, at(1), &mut ());
    let step = router.step(&mut call, reject, at(1), &mut ());
    assert_eq!(
        sent_to(step),
        RouteId(1),
        "the same answer would be rejected again"
    );
}

#[test]
fn an_answer_that_comes_after_the_deadline_is_served_without_a_verdict() {
    let mut router = Router::new(&with_routes(2, RouterConfig::default())).unwrap();
    let hasty = Need {
        deadline: Some(at(5)),
        ..need()
    };
    let (mut call, _) = begin(&mut router, cascade(2), hasty, 0, at(0));
    let step = router.step(&mut call, REPLY, at(5), &mut ());
    let Step::Done(served) = step else {
        panic!("{step:?}");
    };
    assert_eq!(served.verdict, ServedVerdict::Unverified);
    let (_, step) = begin(&mut router, cascade(2), hasty, 0, at(5));
    assert_eq!(
        reason(step),
        FailureReason::Deadline,
        "nothing is begun late"
    );
}

#[test]
fn the_share_of_retries_bounds_an_outage_and_is_given_back() {
    let config = RouterConfig {
        retry_share: Some(RetryShare::InFlight {
            percent: 20,
            reserve: 1,
        }),
        breaker: None,
        ..RouterConfig::default()
    };
    let mut router = Router::new(&with_routes(1, config)).unwrap();
    let mut calls: Vec<_> = (0..10)
        .map(|jitter| begin(&mut router, chain(1), need(), jitter, at(0)).0)
        .collect();
    let mut waits = Vec::new();
    for call in &mut calls {
        match router.step(call, Input::Fault(fault(Overloaded)), at(1), &mut ()) {
            Step::Wait { until } => waits.push(until),
            end => assert_eq!(reason(end), FailureReason::RetryBudget),
        }
    }
    assert_eq!(waits.len(), 2, "20 % of ten");
    for (call, until) in calls.iter_mut().zip(waits) {
        router.step(call, Input::Wake, until, &mut ());
        router.step(call, REPLY, until, &mut ());
    }
    let (mut call, _) = begin(&mut router, chain(1), need(), 0, at(9));
    let step = router.step(&mut call, Input::Fault(fault(Server)), at(9), &mut ());
    assert!(matches!(step, Step::Wait { .. }), "all were given back");
    router.step(&mut call, Input::Cancelled, at(9), &mut ());
    let (mut call, _) = begin(&mut router, chain(1), need(), 0, at(9));
    let step = router.step(&mut call, Input::Fault(fault(Server)), at(9), &mut ());
    assert!(
        matches!(step, Step::Wait { .. }),
        "also by a cancelled call"
    );
}

#[test]
fn a_call_is_small_and_holds_nothing_to_drop() {
    // No drop glue means no heap: what is opened here never allocates.
    assert!(!std::mem::needs_drop::<Call>());
    assert!(!std::mem::needs_drop::<Step>());
    assert!(size_of::<Call>() <= 256, "{}", size_of::<Call>());
    assert!(size_of::<Step>() <= 48, "{}", size_of::<Step>());
}

#[test]
fn an_ejection_grows_with_each_opening_and_a_success_ends_that() {
    let config = (preset::by_name("envoy").unwrap().config)();
    let mut world = World::new(&with_routes(1, config));
    let open_for = |world: &mut World| {
        world.fails(0, Server, 5);
        for _ in 0..5 {
            world.run(chain(1), need());
        }
        match world.router.breaker_state(RouteId(0), world.now) {
            BreakerState::Open { until } => {
                let pause = until.since(world.now);
                world.now = until;
                pause
            }
            state => panic!("{state:?}"),
        }
    };
    assert_eq!(open_for(&mut world), s(30));
    let closed = BreakerState::Closed { failures: 0 };
    assert_eq!(world.router.breaker_state(RouteId(0), world.now), closed);
    assert_eq!(open_for(&mut world), s(60));
    assert_eq!(open_for(&mut world), s(90));
    world.run(chain(1), need());
    assert_eq!(open_for(&mut world), s(30));
}

#[test]
fn a_breaker_by_share_counts_successes_too() {
    let config = (preset::by_name("litellm").unwrap().config)();
    for (successes, opens) in [(0, true), (5, true), (6, false)] {
        let config = RouterConfig {
            attempts_max: 1,
            ..config.clone()
        };
        let mut world = World::new(&with_routes(1, config));
        for _ in 0..successes {
            world.run(chain(1), need());
        }
        // Six failures: of six, of eleven, and half of twelve, which is not more than half.
        world.fails(0, Server, 6);
        for _ in 0..6 {
            world.run(chain(1), need());
        }
        let state = world.router.breaker_state(RouteId(0), world.now);
        assert_eq!(
            matches!(state, BreakerState::Open { .. }),
            opens,
            "{state:?}"
        );
    }
}
