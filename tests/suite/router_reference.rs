//! Every script of three routes and two attempts against a plain reading of the rules.
//!
//! A script is a list of what happens: answers, the ten kinds of failure, verdicts. It is enumerated as
//! a tree, since a walk only looks at as much of a script as it gets to: each leaf stands for all the
//! scripts that begin alike.

use routelab::router::FaultKind::*;
use routelab::router::{
    FailureReason, Fault, FaultKind, Input, Leg, Plan, RouteId, Router, RouterConfig,
    ServedVerdict, Step, Target, Verdict, VerifierId, preset,
};
use routelab::units::{Duration, Instant, Tokens};

use super::router_world::*;

const WINDOWS: [u32; 3] = [16_000, 64_000, 64_000];

/// Picks one of the possibilities at each fork, and all of them in the course of the runs.
#[derive(Default)]
struct Forks {
    path: Vec<(usize, usize)>,
    depth: usize,
}

impl Forks {
    fn pick(&mut self, possibilities: usize) -> usize {
        if self.depth == self.path.len() {
            self.path.push((0, possibilities));
        }
        let (picked, of) = self.path[self.depth];
        assert_eq!(of, possibilities, "both sides take the same turns");
        self.depth += 1;
        picked
    }

    /// Goes to the next leaf; `false` after the last.
    fn next(&mut self) -> bool {
        self.depth = 0;
        while let Some((picked, of)) = self.path.pop() {
            if picked + 1 < of {
                self.path.push((picked + 1, of));
                return true;
            }
        }
        false
    }
}

/// What can happen to an attempt.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Answer,
    Failure(Fault),
    FailureAfterOutput(Fault),
}

/// An answer and each kind of failure; these kinds also after output; and, if asked for, rate limits
/// with a short and a very long hint.
fn outcomes(after_output: &[FaultKind], hints: bool) -> Vec<Outcome> {
    let mut all = vec![Outcome::Answer];
    all.extend(FaultKind::ALL.map(|kind| Outcome::Failure(fault(kind))));
    all.extend(
        after_output
            .iter()
            .map(|&kind| Outcome::FailureAfterOutput(fault(kind))),
    );
    if hints {
        for secs in [1, 3600] {
            all.push(Outcome::Failure(Fault {
                retry_after: Some(s(secs)),
                ..fault(RateLimit)
            }));
        }
    }
    all
}

#[derive(Debug, PartialEq)]
enum Event {
    Send(usize, u8, bool),
    Verify(usize),
    Wait,
}

#[derive(Debug, PartialEq)]
enum End {
    Served(usize, u8, ServedVerdict),
    Rejected(FaultKind),
    MidStream(FaultKind),
    Exhausted(FaultKind),
}

/// The rules, said once more without any of the router's machinery.
fn reference(
    verified: bool,
    wait_max: Duration,
    outcomes: &[Outcome],
    forks: &mut Forks,
) -> (Vec<Event>, End) {
    let retried = [RateLimit, Overloaded, Timeout, Server];
    let final_kinds = [ContentFilter, InvalidRequest];
    let mut events = Vec::new();
    let mut too_small = 0;
    let mut rejected: Option<(usize, u8)> = None;
    let mut last = None;
    'routes: for (route, window) in WINDOWS.into_iter().enumerate() {
        if window <= too_small {
            continue;
        }
        let is_last = !(route + 1..3).any(|later| WINDOWS[later] > too_small);
        let held_back = verified && !is_last;
        for attempt in 1..=2 {
            events.push(Event::Send(route, attempt, held_back));
            let failure = match outcomes[forks.pick(outcomes.len())] {
                Outcome::Answer if held_back => {
                    events.push(Event::Verify(route));
                    if forks.pick(3) == 0 {
                        let accepted = ServedVerdict::Accepted;
                        return (events, End::Served(route, attempt, accepted));
                    }
                    rejected = Some((route, attempt));
                    continue 'routes;
                }
                Outcome::Answer => {
                    let unasked = ServedVerdict::NotAsked;
                    return (events, End::Served(route, attempt, unasked));
                }
                Outcome::FailureAfterOutput(failure) if !held_back => {
                    return (events, End::MidStream(failure.kind));
                }
                Outcome::FailureAfterOutput(failure) | Outcome::Failure(failure) => failure,
            };
            last = Some(failure.kind);
            let patient = failure.retry_after.is_none_or(|hint| hint <= wait_max);
            if retried.contains(&failure.kind) && attempt == 1 && patient {
                events.push(Event::Wait);
                continue;
            }
            if final_kinds.contains(&failure.kind) {
                let end = match rejected {
                    Some((route, attempt)) => {
                        End::Served(route, attempt, ServedVerdict::Unverified)
                    }
                    None => End::Rejected(failure.kind),
                };
                return (events, end);
            }
            if failure.kind == ContextLength {
                too_small = too_small.max(window);
            }
            continue 'routes;
        }
    }
    let end = match rejected {
        Some((route, attempt)) => End::Served(route, attempt, ServedVerdict::Unverified),
        None => End::Exhausted(last.unwrap()),
    };
    (events, end)
}

/// The same script through the router.
fn actual(
    router: &mut Router,
    plan: Plan,
    outcomes: &[Outcome],
    forks: &mut Forks,
) -> (Vec<Event>, End) {
    let mut events = Vec::new();
    let mut now = Instant::ZERO;
    let mut call = router.open(plan, need(), 7);
    let mut step = router.step(&mut call, Input::Begin, now, &mut ());
    loop {
        let input = match step {
            Step::Send {
                route,
                attempt,
                buffer,
                ..
            } => {
                events.push(Event::Send(usize::from(route.0), attempt, buffer));
                match outcomes[forks.pick(outcomes.len())] {
                    Outcome::Answer => REPLY,
                    Outcome::Failure(failure) => Input::Fault(failure),
                    Outcome::FailureAfterOutput(failure) => {
                        let same = router.step(&mut call, Input::Shown, now, &mut ());
                        assert_eq!(same, step);
                        Input::Fault(failure)
                    }
                }
            }
            Step::Verify { route, .. } => {
                events.push(Event::Verify(usize::from(route.0)));
                let verdicts = [Verdict::Accept, Verdict::Reject, Verdict::Unavailable];
                Input::Verdict(verdicts[forks.pick(3)])
            }
            Step::Wait { until } => {
                assert!(until > now);
                events.push(Event::Wait);
                now = until;
                Input::Wake
            }
            Step::Done(served) => {
                let route = usize::from(served.route.0);
                assert_eq!(usize::from(served.leg), route);
                return (events, End::Served(route, served.attempt, served.verdict));
            }
            Step::Failed(failure) => {
                let end = match failure.reason {
                    FailureReason::Rejected(kind) => End::Rejected(kind),
                    FailureReason::MidStream(kind) => End::MidStream(kind),
                    FailureReason::Exhausted(kind) => End::Exhausted(kind),
                    other => panic!("{other:?} cannot happen here"),
                };
                return (events, end);
            }
        };
        step = router.step(&mut call, input, now, &mut ());
    }
}

/// Runs every script; gives the number of leaves, and of scripts of six outcomes they stand for.
fn check(config: RouterConfig, verified: bool, outcomes: &[Outcome]) -> (u64, u64) {
    let mut config = with_routes(3, config);
    for (route, window) in config.routes.iter_mut().zip(WINDOWS) {
        route.window = Tokens::new(window);
    }
    let legs = [0, 1, 2].map(|route| Leg {
        target: Target::Route(RouteId(route)),
        verifier: verified.then_some(VerifierId(0)),
    });
    let plan = Plan::new(&legs).unwrap();
    let mut router = Router::new(&config).unwrap();
    let mut forks = Forks::default();
    let (mut leaves, mut scripts) = (0, 0);
    loop {
        router.reset();
        let got = actual(&mut router, plan, outcomes, &mut forks);
        let used = forks.depth;
        assert_eq!(used, forks.path.len());
        forks.depth = 0;
        let expected = reference(verified, config.wait.wait_max, outcomes, &mut forks);
        assert_eq!(got, expected, "after {:?}", forks.path);
        assert_eq!(forks.depth, used, "both read as much of the script");
        leaves += 1;
        if !verified {
            scripts += (outcomes.len() as u64).pow(6 - used as u32);
        }
        assert!((0..3).all(|route| router.in_flight(RouteId(route)) == 0));
        if !forks.next() {
            return (leaves, scripts);
        }
    }
}

fn lesson() -> RouterConfig {
    (preset::by_name("lesson").unwrap().config)()
}

#[test]
fn every_script_of_ten_kinds_and_success_ends_as_the_rules_say() {
    for config in [RouterConfig::default(), lesson()] {
        let (leaves, scripts) = check(config, false, &outcomes(&[], false));
        assert_eq!(scripts, 11_u64.pow(6), "every one of 1,771,561 scripts");
        assert!(leaves > 10_000, "{leaves}");
    }
}

#[test]
fn every_script_with_hints_and_deaths_after_output_ends_as_the_rules_say() {
    for config in [RouterConfig::default(), lesson()] {
        let (_, scripts) = check(config, false, &outcomes(&FaultKind::ALL, true));
        assert_eq!(scripts, 23_u64.pow(6));
    }
}

#[test]
fn every_script_of_a_cascade_with_three_verdicts_ends_as_the_rules_say() {
    for config in [RouterConfig::default(), lesson()] {
        let (leaves, _) = check(config, true, &outcomes(&[Server], true));
        assert!(leaves > 10_000, "{leaves}");
    }
}
