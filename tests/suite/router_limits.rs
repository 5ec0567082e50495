//! Deadlines, retry budgets, hard filters, and what a router does with what makes no sense; the rest of
//! the checklist's rows about the router.

use routelab::router::FaultKind::*;
use routelab::router::{
    AccountId, AccountSpec, BreakerScope, BreakerState, CooldownSpec, Failure, FailureReason,
    Input, Kinds, Limits, Need, Plan, Regions, Reply, RouteId, RouterConfig, Served, ServedVerdict,
    Skip, Step, UnservedReason, Verdict, WaitPolicy, preset,
};
use routelab::units::{Duration, Instant, Usd};

use super::router_world::*;

fn lesson004() -> World {
    let config = (preset::by_name("lesson004").unwrap().config)();
    World::new(&with_routes(1, config))
}

#[test]
fn rb09_a_wait_that_would_pass_the_deadline_is_not_begun() {
    let mut world = lesson004();
    world.queue(0, [hinted(30)]);
    assert_eq!(reason(world.run(chain(1), need())), FailureReason::Deadline);
    assert_eq!(world.trace.calls(), [1, 0, 0]);
    assert_eq!(world.trace.waits, []);
    assert_eq!(world.now, Instant::ZERO);
}

#[test]
fn rb09_a_wait_that_ends_at_the_deadline_is_too_long() {
    let mut world = lesson004();
    world.queue(0, [hinted(10)]);
    assert_eq!(reason(world.run(chain(1), need())), FailureReason::Deadline);
    assert_eq!(world.now, Instant::ZERO);
}

#[test]
fn rb10_the_deadline_stops_new_attempts_not_the_one_in_flight() {
    let mut world = lesson004();
    world.queue(0, [Answer::SlowFails(s(8), fault(Timeout)); 3]);
    assert_eq!(reason(world.run(chain(1), need())), FailureReason::Deadline);
    assert_eq!(world.trace.calls(), [2, 0, 0]);
    assert_eq!(world.trace.waits, [Duration::from_millis(500)]);
    assert_eq!(world.now, Instant(16_500_000));
}

#[test]
fn rb11_a_wait_within_the_deadline_is_taken_as_it_is() {
    let mut world = lesson004();
    world.queue(0, [hinted(7)]);
    served(world.run(chain(1), need()));
    assert_eq!(world.trace.waits, [s(7)]);
    assert_eq!(world.trace.text, "oa#1:rate_limit oa#2:ok");
}

#[test]
fn rb12_limits_never_reach_beyond_the_deadline() {
    let mut world = lesson004();
    let mut call = world.router.open(chain(1), need(), 1);
    let trace = &mut world.trace;
    let step = world.router.step(&mut call, Input::Begin, at(0), trace);
    let limits = |ttft, gap, attempt| Limits { ttft, gap, attempt };
    assert!(matches!(step, Step::Send { limits: l, .. } if l == limits(s(10), s(10), s(10))));
    let failed = Input::Fault(fault(Timeout));
    let step = world.router.step(&mut call, failed, at(8), trace);
    let until = Instant(8_500_000);
    assert_eq!(step, Step::Wait { until });
    let step = world.router.step(&mut call, Input::Wake, until, trace);
    let rest = Duration::from_millis(1500);
    assert!(matches!(step, Step::Send { limits: l, .. } if l == limits(rest, rest, rest)));
}

#[test]
fn rb14_one_budget_of_retries_over_nine_calls() {
    let mut world = lesson004();
    let mut left = 3;
    let mut ends = Vec::new();
    for _ in 0..9 {
        world.answers[0].clear();
        world.fails(0, Overloaded, 1);
        let call = world
            .router
            .open(chain(1), need(), 1)
            .with_retries_left(left);
        let (step, call) = world.drive(call);
        left = call.retries_left().unwrap();
        ends.push(step);
        if let Step::Failed(_) = step {
            break;
        }
    }
    assert_eq!(ends.len(), 4, "three complete, the fourth fails");
    assert_eq!(reason(ends[3]), FailureReason::RetryBudget);
    assert_eq!(world.trace.waits.len(), 3, "it fails instead of sleeping");
    // A provider that never fails never touches the budget.
    world.answers[0].clear();
    let call = world.router.open(chain(1), need(), 1).with_retries_left(3);
    assert_eq!(world.drive(call).1.retries_left(), Some(3));
}

#[test]
fn a_spent_retry_budget_fails_over_if_it_can() {
    let config = RouterConfig {
        retries_per_call: Some(0),
        ..RouterConfig::default()
    };
    let mut world = World::new(&with_routes(2, config));
    world.fails(0, Overloaded, 1);
    assert_eq!(served(world.run(chain(2), need())).route, RouteId(1));
    assert_eq!(world.trace.text, "oa#1:overloaded an#1:ok");
}

#[test]
fn tr01_three_mid_stream_deaths_open_the_breaker() {
    let mut world = World::new(&with_routes(1, RouterConfig::default()));
    for deaths in 1..=3 {
        world.queue(0, [Answer::Dies(fault(Server))]);
        world.run(chain(1), need());
        let open = matches!(
            world.router.breaker_state(RouteId(0), world.now),
            BreakerState::Open { .. }
        );
        assert_eq!(open, deaths == 3);
    }
    let Step::Failed(failure) = world.run(chain(1), need()) else {
        panic!("the breaker is open");
    };
    assert_eq!(failure.reason, FailureReason::AllUnavailable);
    assert_eq!(failure.retry_at, Some(at(30)), "FB-09: when to come back");
    assert_eq!(world.trace.sent.len(), 3);
}

#[test]
fn fb10_the_failure_that_opens_the_breaker_ends_the_retries() {
    let mut world = World::new(&with_routes(2, RouterConfig::default()));
    world.fails(0, Server, 9);
    for _ in 0..2 {
        served(world.run(chain(2), need()));
    }
    assert_eq!(
        world.trace.text,
        "oa#1:server oa#2:server an#1:ok oa#1:server an#1:ok"
    );
}

#[test]
fn tr09_a_long_prompt_or_a_bad_key_shuts_nobody_elses_door() {
    // Two routes of one provider behind one breaker, with different keys.
    let mut config = with_routes(2, RouterConfig::default());
    config.routes[1].provider = config.routes[0].provider;
    let breaker = config.breaker.as_mut().unwrap();
    breaker.scope = BreakerScope::Provider;
    let mut world = World::new(&config);
    for kind in [Auth, Quota, ContextLength, Unsupported, InvalidRequest] {
        world.fails(0, kind, 5);
        for _ in 0..5 {
            world.run(Plan::single(RouteId(0)), need());
        }
        let state = world.router.breaker_state(RouteId(1), world.now);
        assert_eq!(state, BreakerState::Closed { failures: 0 }, "{kind:?}");
    }
    world.fails(0, Server, 3);
    for _ in 0..2 {
        world.run(Plan::single(RouteId(0)), need());
    }
    let state = world.router.breaker_state(RouteId(1), world.now);
    assert!(matches!(state, BreakerState::Open { .. }), "{state:?}");
}

#[test]
fn tr10_a_skipped_route_is_no_failure_of_the_server() {
    let mut config = with_routes(1, RouterConfig::default());
    config.routes[0].tools = false;
    let mut world = World::new(&config);
    let tools = Need {
        tools: true,
        ..need()
    };
    let Step::Failed(failure) = world.run(chain(1), tools) else {
        panic!("no route takes tools");
    };
    assert_eq!(failure.reason, FailureReason::NoCapableRoute);
    assert_eq!(failure.unserved(), UnservedReason::NoCapableRoute);
    assert_eq!(world.trace.skips, [(RouteId(0), Skip::Tools)]);
    assert_eq!(world.trace.sent, []);
}

#[test]
fn tr12_the_deadline_is_over_the_whole_walk() {
    let config = RouterConfig {
        call_deadline: Some(s(12)),
        attempts_max: 2,
        ..RouterConfig::default()
    };
    let mut world = World::new(&with_routes(3, config));
    for route in 0..3 {
        world.queue(route, [Answer::SlowFails(s(5), fault(Timeout)); 2]);
    }
    assert_eq!(reason(world.run(chain(3), need())), FailureReason::Deadline);
    assert!(world.trace.sent.len() == 3 && world.now < at(17));
}

#[test]
fn a_wait_that_passes_the_deadline_fails_over_at_once_if_another_route_can_be_tried() {
    let config = RouterConfig {
        wait: WaitPolicy {
            wait_max: s(100),
            ..WaitPolicy::default()
        },
        ..RouterConfig::default()
    };
    let mut world = World::new(&with_routes(2, config));
    world.queue(0, [hinted(30)]);
    let soon = Need {
        deadline: Some(at(10)),
        ..need()
    };
    assert_eq!(served(world.run(chain(2), soon)).route, RouteId(1));
    assert_eq!(world.trace.waits, []);
    assert_eq!(world.now, at(0));
    // The reason is that of the last failure, not of an earlier one.
    world.router.reset();
    world.queue(0, [hinted(30)]);
    world.fails(1, Quota, 1);
    let step = world.run(chain(2), soon);
    assert_eq!(reason(step), FailureReason::Exhausted(Quota));
}

#[test]
fn pr04_data_that_must_stay_never_leaves_though_every_allowed_route_is_down() {
    let mut config = with_routes(3, RouterConfig::default());
    config.routes[1].residency = US;
    config.routes[2].residency = Regions(EU.0 | US.0);
    let mut world = World::new(&config);
    world.fails(0, Server, 2);
    let step = world.run(chain(3), need());
    assert_eq!(reason(step), FailureReason::Exhausted(Server));
    assert_eq!(world.trace.calls(), [2, 0, 0]);
    assert_eq!(
        world.trace.text,
        "oa#1:server oa#2:server an#-:residency ge#-:residency"
    );
    let abroad = Plan::chain(&[RouteId(1), RouteId(2)]).unwrap();
    let Step::Failed(failure) = world.run(abroad, need()) else {
        panic!("nothing may be served from there");
    };
    assert_eq!(failure.unserved(), UnservedReason::Residency);
}

#[test]
fn pr01_local_only_goes_to_declared_local_routes_or_nowhere() {
    let mut config = with_routes(2, RouterConfig::default());
    config.routes[1].local = true;
    let mut world = World::new(&config);
    let private = Need {
        local_only: true,
        ..need()
    };
    assert_eq!(served(world.run(chain(2), private)).route, RouteId(1));
    let step = world.run(Plan::single(RouteId(0)), private);
    assert_eq!(reason(step), FailureReason::RefusedByResidency);
    assert_eq!(
        world.router.eligible(RouteId(0), &private),
        Err(Skip::LocalOnly)
    );
    assert_eq!(world.router.eligible(RouteId(1), &private), Ok(()));
    assert_eq!(
        world.router.eligible(RouteId(9), &private),
        Err(Skip::NoSuchRoute)
    );
}

#[test]
fn a_route_that_does_not_exist_is_skipped_without_panic() {
    let mut world = World::new(&with_routes(1, RouterConfig::default()));
    let plan = Plan::chain(&[RouteId(u16::MAX), RouteId(300), RouteId(0)]).unwrap();
    assert_eq!(served(world.run(plan, need())).leg, 2);
    let step = world.run(Plan::single(RouteId(256)), need());
    assert_eq!(reason(step), FailureReason::NoCapableRoute);
}

#[test]
fn an_early_wake_and_anything_after_the_end_repeat_the_answer() {
    let config = with_routes(1, RouterConfig::default());
    let mut world = World::new(&config);
    let router = &mut world.router;
    let mut call = router.open(chain(1), need(), 5);
    let send = router.step(&mut call, Input::Begin, at(0), &mut ());
    for senseless in [Input::Begin, Input::Wake, Input::Verdict(Verdict::Reject)] {
        assert_eq!(router.step(&mut call, senseless, at(1), &mut ()), send);
    }
    let failed = Input::Fault(fault(Server));
    let pause = router.step(&mut call, failed, at(2), &mut ());
    let Step::Wait { until } = pause else {
        panic!("{pause:?}");
    };
    let early = Instant(until.0 - 1);
    assert_eq!(router.step(&mut call, Input::Wake, early, &mut ()), pause);
    assert_eq!(router.step(&mut call, REPLY, until, &mut ()), pause);
    let again = router.step(&mut call, Input::Wake, until, &mut ());
    assert!(matches!(again, Step::Send { attempt: 2, .. }));
    let end = router.step(&mut call, REPLY, until, &mut ());
    assert!(matches!(
        end,
        Step::Done(Served {
            verdict: ServedVerdict::NotAsked,
            ..
        })
    ));
    for late in [REPLY, Input::Cancelled, Input::Wake, failed, Input::Begin] {
        assert_eq!(router.step(&mut call, late, until, &mut ()), end);
    }
    assert_eq!(router.in_flight(RouteId(0)), 0);
}

#[test]
fn a_reset_router_is_as_new_and_calls_from_before_leave_no_trace() {
    let mut config = with_routes(1, RouterConfig::default());
    config.accounts = vec![AccountSpec {
        name: "a".into(),
        limit: Usd(1_000_000_000),
    }];
    config.cooldown = Some(CooldownSpec {
        kinds: Kinds::of(&[RateLimit]),
        base: Some(s(60)),
        use_hint: true,
        max: s(600),
    });
    let mut world = World::new(&config);
    let router = &mut world.router;
    let paid = Need {
        account: Some(AccountId(0)),
        ..need()
    };
    let mut old = router.open(chain(1), paid, 0);
    router.step(&mut old, Input::Begin, at(0), &mut ());
    let mut limited = router.open(chain(1), paid, 0);
    router.step(&mut limited, Input::Begin, at(0), &mut ());
    router.step(&mut limited, Input::Fault(fault(RateLimit)), at(1), &mut ());
    assert!(router.cooldown_until(RouteId(0)) > at(60));
    router.reset();
    assert_eq!(router.cooldown_until(RouteId(0)), Instant::ZERO);
    assert_eq!(router.in_flight(RouteId(0)), 0);
    let mut new = router.open(chain(1), paid, 0);
    router.step(&mut new, Input::Begin, at(2), &mut ());
    router.step(
        &mut old,
        Input::Reply(Reply { usage: None }),
        at(3),
        &mut (),
    );
    assert_eq!(router.in_flight(RouteId(0)), 1, "only the new one counts");
    let account = router.account(AccountId(0)).unwrap();
    assert_eq!(account.spent, Usd::ZERO);
    router.step(&mut new, REPLY, at(4), &mut ());
    assert_eq!(router.in_flight(RouteId(0)), 0);
}

#[test]
fn a_call_that_waits_across_a_reset_counts_like_a_new_one() {
    let mut world = World::new(&with_routes(1, RouterConfig::default()));
    let router = &mut world.router;
    let mut call = router.open(chain(1), need(), 0);
    router.step(&mut call, Input::Begin, at(0), &mut ());
    let step = router.step(&mut call, Input::Fault(fault(Server)), at(0), &mut ());
    let Step::Wait { until } = step else {
        panic!("{step:?}");
    };
    router.reset();
    router.step(&mut call, Input::Wake, until, &mut ());
    assert_eq!(router.in_flight(RouteId(0)), 1);
    router.step(&mut call, REPLY, until, &mut ());
    assert_eq!(router.in_flight(RouteId(0)), 0);
}

/// What each preset makes of one overload, and of one rate limit with a hint of a second.
#[test]
fn each_preset_does_what_its_documents_say() {
    let again = ("oa#1:overloaded oa#2:ok", "oa#1:rate_limit oa#2:ok");
    let on = ("oa#1:overloaded an#1:ok", "oa#1:rate_limit an#1:ok");
    let expected = [
        ("lesson", again),
        ("resilience", on),
        ("memagen", ("oa#1:overloaded", on.1)),
        ("memagen_credential", ("oa#1:overloaded", again.1)),
        ("lesson004", again),
        ("litellm", again),
        ("portkey", again),
        ("tensorzero", on),
        ("helicone", (again.0, "oa#1:rate_limit")),
        ("bifrost", on),
        (
            "aisix",
            (
                "oa#1:overloaded oa#-:cooling_down an#1:ok",
                "oa#1:rate_limit",
            ),
        ),
        ("envoy", ("oa#1:overloaded", "oa#1:rate_limit")),
    ];
    assert_eq!(expected.len(), preset::PRESETS.len());
    for (name, (overload, rate_limit)) in expected {
        let config = (preset::by_name(name).unwrap().config)();
        let mut world = World::new(&with_routes(2, config));
        world.fails(0, Overloaded, 1);
        world.run(chain(2), need());
        assert_eq!(world.trace.text, overload, "{name}");
        world.router.reset();
        world.trace = Trace::default();
        world.queue(0, [hinted(1)]);
        world.answers[0].truncate(1);
        world.run(chain(2), need());
        assert_eq!(world.trace.text, rate_limit, "{name}");
        if name == "memagen_credential" {
            let wait = world.trace.waits[0];
            assert!(wait >= s(65) && wait <= s(95), "RB-05: {wait}");
        }
    }
}

#[test]
fn a_cancelled_call_says_so_whatever_it_was_doing() {
    let mut world = World::new(&with_routes(1, RouterConfig::default()));
    let router = &mut world.router;
    let cancelled = |sends| {
        Step::Failed(Failure {
            reason: FailureReason::Cancelled,
            sends,
            retry_at: None,
        })
    };
    let mut call = router.open(chain(1), need(), 0);
    let step = router.step(&mut call, Input::Cancelled, at(0), &mut ());
    assert_eq!(step, cancelled(0));
    let mut call = router.open(chain(1), need(), 0);
    router.step(&mut call, Input::Begin, at(0), &mut ());
    router.step(&mut call, Input::Fault(fault(Server)), at(0), &mut ());
    let step = router.step(&mut call, Input::Cancelled, at(0), &mut ());
    assert_eq!(step, cancelled(1));
}
