//! The scenarios of the router lesson and of the capstone lesson, as traces with their waits.

use routelab::router::FaultKind::*;
use routelab::router::{BreakerState, FailureReason, Need, RouteId, RouterConfig, preset, wait};
use routelab::units::{Duration, Tokens};

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
    assert_eq!(reason(step), FailureReason::Rejected(InvalidRequest));
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
    assert_eq!(reason(step), FailureReason::Exhausted(Overloaded));
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
    assert_eq!(reason(step), FailureReason::MidStream(Overloaded));
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
    assert_eq!(reason(step), FailureReason::Exhausted(ContextLength));
    assert_eq!(
        world.trace.text,
        "oa#1:context_length an#-:smaller_window ge#-:smaller_window"
    );
}
