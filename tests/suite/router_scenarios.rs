//! The scenarios of the router lesson and of the capstone lesson, as traces with their waits.

use routelab::router::FaultKind::*;
use routelab::router::{
    AccountSpec, BreakerState, CooldownSpec, Failure, FailureReason, Fault, Input, Kinds, Limits,
    Need, Plan, Regions, Reply, RouteId, RouterConfig, Served, ServedVerdict, Skip, Step,
    UnservedReason, WaitPolicy, preset, wait,
};
use routelab::units::{Duration, Instant, Tokens, Usd};

use super::router_world::*;

/// The first draws of CPython's `random.Random(1)`.
const LESSON_DRAWS: [f64; 9] = [
    0.134_364_244_112_401_22,
    0.847_433_736_937_232_7,
    0.763_774_618_976_614,
    0.255_069_025_739_421_7,
    0.495_435_087_091_940_95,
    0.449_491_064_788_738_1,
    0.651_592_972_722_763,
    0.788_723_351_135_513_2,
    0.093_859_586_774_234_9,
];

fn lesson() -> World {
    let config = (preset::by_name("lesson").unwrap().config)();
    World::new(&with_routes(3, config))
}

fn hinted(secs: u64) -> Answer {
    Answer::Fails(Fault {
        retry_after: Some(s(secs)),
        ..fault(RateLimit)
    })
}

/// Recomputes the waits of a trace with the lesson's own draws, in the lesson's order.
fn lesson_sleeps(draws: &[Draw]) -> Vec<Duration> {
    let policy = (preset::by_name("lesson").unwrap().config)().wait;
    let mut uniforms = LESSON_DRAWS
        .iter()
        .map(|draw| (draw * 4_294_967_296.0) as u32);
    let mut sleeps = Vec::new();
    let mut last = None;
    for draw in draws {
        match *draw {
            Draw::Backoff { attempt, hint } => {
                // The draw is taken even if no retry follows (RB-04).
                let u1 = hint.map_or_else(|| uniforms.next().unwrap(), |_| 0);
                last = Some((attempt, hint, u1));
            }
            Draw::Extra => {
                let (attempt, hint, u1) = last.unwrap();
                let u2 = uniforms.next().unwrap();
                sleeps.push(wait(&policy, hint, attempt, u1, u2).unwrap());
            }
        }
    }
    sleeps
}

fn assert_sleeps(trace: &Trace, expected: &[f64]) {
    let sleeps = lesson_sleeps(&trace.draws);
    assert_eq!(sleeps.len(), expected.len(), "{sleeps:?}");
    for (sleep, &seconds) in sleeps.iter().zip(expected) {
        let expected = Duration::from_secs_f64(seconds);
        assert!(
            sleep.0.abs_diff(expected.0) <= 1,
            "{sleep} is not {expected}"
        );
    }
}

fn kind_of(step: Step) -> FailureReason {
    match step {
        Step::Failed(failure) => failure.reason,
        other => panic!("{other:?} is no failure"),
    }
}

fn served(step: Step) -> Served {
    match step {
        Step::Done(served) => served,
        other => panic!("{other:?} is no answer"),
    }
}

#[test]
fn fb03_a_rate_limit_with_a_hint_is_retried_on_the_same_provider() {
    let mut world = lesson();
    world.queue(0, [hinted(1)]);
    assert_eq!(served(world.run(chain(3), need())).route, RouteId(0));
    assert_eq!(world.trace.text, "oa#1:rate_limit oa#2:ok");
    assert_eq!(world.trace.calls(), [2, 0, 0]);
    assert_sleeps(&world.trace, &[1.013_436_424_411_240_2]);
    assert!(world.trace.waits[0] >= s(1), "a hint is a minimum");
}

#[test]
fn fb03_two_overloads_fail_over() {
    let mut world = lesson();
    world.fails(0, Overloaded, 2);
    assert_eq!(served(world.run(chain(3), need())).route, RouteId(1));
    assert_eq!(world.trace.text, "oa#1:overloaded oa#2:overloaded an#1:ok");
    assert_eq!(world.trace.calls(), [2, 1, 0]);
    assert_sleeps(&world.trace, &[0.219_107_617_806_124_48]);
}

#[test]
fn fb03_a_spent_quota_is_not_retried() {
    let mut world = lesson();
    world.fails(0, Quota, 1);
    assert_eq!(served(world.run(chain(3), need())).route, RouteId(1));
    assert_eq!(world.trace.text, "oa#1:quota an#1:ok");
    assert_eq!(world.trace.waits, []);
    assert_eq!(world.trace.alerts, [Quota], "an operator hears of it");
}

#[test]
fn fb03_a_wrong_request_fails_at_once() {
    let mut world = lesson();
    world.fails(0, InvalidRequest, 1);
    let step = world.run(chain(3), need());
    assert_eq!(kind_of(step), FailureReason::Rejected(InvalidRequest));
    assert_eq!(world.trace.text, "oa#1:invalid_request");
    assert_eq!(world.trace.calls(), [1, 0, 0]);
}

#[test]
fn fb03_a_bad_key_then_an_overload_reach_the_third() {
    let mut world = lesson();
    world.fails(0, Auth, 1);
    world.fails(1, Overloaded, 2);
    assert_eq!(served(world.run(chain(3), need())).route, RouteId(2));
    assert_eq!(
        world.trace.text,
        "oa#1:auth an#1:overloaded an#2:overloaded ge#1:ok"
    );
    assert_sleeps(&world.trace, &[0.923_811_198_834_894]);
}

#[test]
fn fb03_every_provider_down() {
    let mut world = lesson();
    for route in 0..3 {
        world.fails(route, Overloaded, 2);
    }
    let step = world.run(chain(3), need());
    assert_eq!(kind_of(step), FailureReason::Exhausted(Overloaded));
    assert_eq!(
        world.trace.text,
        "oa#1:overloaded oa#2:overloaded an#1:overloaded an#2:overloaded \
         ge#1:overloaded ge#2:overloaded"
    );
    assert_sleeps(
        &world.trace,
        &[
            0.219_107_617_806_124_48,
            0.304_612_534_448_615_8,
            0.730_465_307_836_314_2,
        ],
    );
}

#[test]
fn cb03_the_breaker_opens_skips_and_closes_again() {
    let mut world = lesson();
    world.fails(0, Server, 6);
    let start = world.now;
    for _ in 0..3 {
        served(world.run(chain(3), need()));
        world.now = start; // the lesson's clock stands still while it sleeps
    }
    assert_eq!(
        world.trace.text,
        "oa#1:server oa#2:server an#1:ok oa#1:server oa#2:server an#1:ok oa#-:breaker_open an#1:ok"
    );
    assert_eq!(world.trace.calls(), [4, 3, 0]);
    assert_sleeps(
        &world.trace,
        &[0.219_107_617_806_124_48, 0.304_612_534_448_615_8],
    );
    world.answers[0].clear();
    served(world.run(chain(3), need()));
    assert_eq!(world.trace.calls(), [4, 4, 0], "the next one skips it, too");
    world.now = at(33);
    assert_eq!(served(world.run(chain(3), need())).route, RouteId(0));
    assert_eq!(
        world.router.breaker_state(RouteId(0), world.now),
        BreakerState::Closed { failures: 0 }
    );
}

#[test]
fn st07_a_stream_that_fails_before_any_output_falls_back() {
    let mut world = lesson();
    world.stream = true;
    world.fails(0, Overloaded, 2);
    served(world.run(chain(3), need()));
    assert_eq!(world.trace.text, "oa#1:overloaded oa#2:overloaded an#1:ok");
    assert_sleeps(&world.trace, &[0.219_107_617_806_124_48]);
}

#[test]
fn st08_a_stream_that_fails_after_output_is_the_callers_to_see() {
    let mut world = lesson();
    world.queue(0, [Answer::Dies(fault(Overloaded))]);
    let step = world.run(chain(3), need());
    assert_eq!(kind_of(step), FailureReason::MidStream(Overloaded));
    assert_eq!(world.trace.text, "oa#1:ok oa:MID-STREAM-overloaded");
    assert_eq!(world.trace.waits, []);
    assert_eq!(world.trace.calls(), [1, 0, 0]);
}

#[test]
fn fb04_a_long_prompt_goes_only_where_it_fits() {
    let mut config = with_routes(3, RouterConfig::default());
    for (route, window) in config.routes.iter_mut().zip([16_000, 64_000, 200_000]) {
        route.window = Tokens::new(window);
    }
    let mut world = World::new(&config);
    let long = Need {
        input_tokens: Tokens::new(70_000),
        ..need()
    };
    assert_eq!(served(world.run(chain(3), long)).route, RouteId(2));
    assert_eq!(
        world.trace.text,
        "oa#-:context_length an#-:context_length ge#1:ok"
    );
    // Nobody said how long the prompt is: it passes, and the provider's own error decides.
    let unknown = Need {
        input_tokens: Tokens::UNKNOWN,
        ..need()
    };
    world.trace = Trace::default();
    world.fails(0, ContextLength, 1);
    world.fails(1, ContextLength, 1);
    assert_eq!(served(world.run(chain(3), unknown)).route, RouteId(2));
    assert_eq!(
        world.trace.text,
        "oa#1:context_length an#1:context_length ge#1:ok"
    );
}

#[test]
fn er09_context_length_fails_over_to_strictly_bigger_windows_only() {
    let mut config = with_routes(3, RouterConfig::default());
    for (route, window) in config.routes.iter_mut().zip([64_000, 64_000, 16_000]) {
        route.window = Tokens::new(window);
    }
    let mut world = World::new(&config);
    world.fails(0, ContextLength, 1);
    let step = world.run(chain(3), need());
    assert_eq!(kind_of(step), FailureReason::Exhausted(ContextLength));
    assert_eq!(
        world.trace.text,
        "oa#1:context_length an#-:smaller_window ge#-:smaller_window"
    );
}

fn lesson004() -> World {
    let config = (preset::by_name("lesson004").unwrap().config)();
    World::new(&with_routes(1, config))
}

#[test]
fn rb09_a_wait_that_would_pass_the_deadline_is_not_begun() {
    let mut world = lesson004();
    world.queue(0, [hinted(30)]);
    assert_eq!(
        kind_of(world.run(chain(1), need())),
        FailureReason::Deadline
    );
    assert_eq!(world.trace.calls(), [1, 0, 0]);
    assert_eq!(world.trace.waits, []);
    assert_eq!(world.now, Instant::ZERO);
}

#[test]
fn rb10_the_deadline_stops_new_attempts_not_the_one_in_flight() {
    let mut world = lesson004();
    world.queue(0, [Answer::SlowFails(s(8), fault(Timeout)); 3]);
    assert_eq!(
        kind_of(world.run(chain(1), need())),
        FailureReason::Deadline
    );
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
    assert_eq!(kind_of(ends[3]), FailureReason::RetryBudget);
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
    breaker.scope = routelab::router::BreakerScope::Provider;
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
    assert_eq!(
        kind_of(world.run(chain(3), need())),
        FailureReason::Deadline
    );
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
}

#[test]
fn pr04_data_that_must_stay_never_leaves_though_every_allowed_route_is_down() {
    let mut config = with_routes(3, RouterConfig::default());
    config.routes[1].residency = US;
    config.routes[2].residency = Regions(EU.0 | US.0);
    let mut world = World::new(&config);
    world.fails(0, Server, 2);
    let step = world.run(chain(3), need());
    assert_eq!(kind_of(step), FailureReason::Exhausted(Server));
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
    assert_eq!(kind_of(step), FailureReason::RefusedByResidency);
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
    assert_eq!(kind_of(step), FailureReason::NoCapableRoute);
}

#[test]
fn an_early_wake_and_anything_after_the_end_repeat_the_answer() {
    let config = with_routes(1, RouterConfig::default());
    let mut world = World::new(&config);
    let router = &mut world.router;
    let mut call = router.open(chain(1), need(), 5);
    let send = router.step(&mut call, Input::Begin, at(0), &mut ());
    for senseless in [
        Input::Begin,
        Input::Wake,
        Input::Verdict(routelab::router::Verdict::Reject),
    ] {
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
        account: Some(routelab::router::AccountId(0)),
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
    let account = router.account(routelab::router::AccountId(0)).unwrap();
    assert_eq!(account.spent, Usd::ZERO);
    router.step(&mut new, REPLY, at(4), &mut ());
    assert_eq!(router.in_flight(RouteId(0)), 0);
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
