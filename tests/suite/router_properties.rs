//! Many calls at once on one router, with whatever input at whatever time: what must never happen.

use proptest::prelude::*;
use routelab::router::{
    AccountId, AccountSpec, BreakerChange, BreakerScope, BreakerSpec, BreakerState, Call,
    CooldownSpec, Fault, FaultKind, Input, Kinds, Leg, Log, Need, Plan, PoolId, PoolSpec, Regions,
    Reply, RetryShare, RouteId, Router, RouterConfig, Step, Strategy, Target, Usage, Verdict,
    VerifierId, preset,
};
use routelab::units::{Duration, Instant, Tokens, Usd};

use super::router_world::*;

const ROUTES: u16 = 5;
const SLOTS: usize = 6;

/// One random act: which call, what happens to it, a number to draw from, how much later.
type Act = (usize, u8, u32, u64);

fn acts() -> impl proptest::strategy::Strategy<Value = Vec<Act>> {
    prop::collection::vec(
        (
            0..SLOTS,
            any::<u8>(),
            any::<u32>(),
            prop_oneof![Just(0_u64), 0_u64..3_000_000, 0_u64..40_000_000],
        ),
        1..160,
    )
}

/// Routes 0, 1: EU only; 2: EU and US; 3: US; 4: EU, local, no tools. Routes 0 and 1 share a key.
fn config(variant: u8) -> RouterConfig {
    let base = match variant % 5 {
        0 => RouterConfig::default(),
        1 => (preset::by_name("lesson").unwrap().config)(),
        2 => (preset::by_name("litellm").unwrap().config)(),
        3 => (preset::by_name("envoy").unwrap().config)(),
        _ => RouterConfig {
            attempts_max: 3,
            retries_per_call: Some(2),
            retry_share: Some(RetryShare::Window {
                percent: 50,
                reserve_per_s: 1,
                window: Duration::from_secs(10),
            }),
            breaker: Some(BreakerSpec {
                scope: BreakerScope::Credential,
                cooldown: Duration::from_secs(5),
                ..BreakerSpec::default()
            }),
            cooldown: Some(CooldownSpec {
                kinds: Kinds::of(&[FaultKind::RateLimit, FaultKind::Timeout]),
                base: Some(Duration::from_secs(3)),
                use_hint: true,
                max: Duration::from_secs(20),
            }),
            ..RouterConfig::default()
        },
    };
    let mut config = with_routes(ROUTES, base);
    config.routes[1].credential = config.routes[0].credential;
    config.routes[2].residency = Regions(EU.0 | US.0);
    config.routes[3].residency = US;
    config.routes[4].local = true;
    config.routes[4].tools = false;
    let strategy = [
        Strategy::RoundRobin,
        Strategy::LeastLoaded,
        Strategy::Weighted,
    ][usize::from(variant) % 3];
    config.pools = vec![PoolSpec {
        name: "all".into(),
        members: (0..ROUTES).map(RouteId).collect(),
        strategy,
        soonest_when_all_cool: variant.is_multiple_of(2),
    }];
    config.accounts = vec![AccountSpec {
        name: "small".into(),
        limit: Usd(900_000_000), // six calls at 152,000,000
    }];
    config
}

fn plan(draw: u32) -> Plan {
    let legs: Vec<_> = (0..1 + draw % 4)
        .map(|leg| {
            let bits = draw >> (4 + 5 * leg);
            let target = match bits % 7 {
                6 => Target::Pool(PoolId(0)),
                5 => Target::Route(RouteId(0)),
                route => Target::Route(RouteId(route as u16)),
            };
            Leg {
                target,
                verifier: (bits & 8 != 0).then_some(VerifierId(1)),
            }
        })
        .collect();
    Plan::new(&legs).unwrap()
}

fn some_need(draw: u32, now: Instant) -> Need {
    Need {
        residency: if draw & 1 == 0 {
            EU
        } else {
            Regions(EU.0 | US.0)
        },
        tools: draw & 2 != 0,
        local_only: draw & 12 == 12,
        account: (draw & 16 != 0).then_some(AccountId(0)),
        deadline: (draw & 32 != 0).then(|| now.after(Duration(u64::from(draw >> 8)))),
        ..need()
    }
}

fn some_input(action: u8, draw: u32) -> Input {
    let usage = (draw & 1 == 0).then_some(Usage {
        input: Tokens::new(draw >> 24),
        output: if draw & 2 == 0 {
            Tokens::new(draw >> 20 & 0xff)
        } else {
            Tokens::UNKNOWN
        },
    });
    match action % 16 {
        0..=2 => Input::Reply(Reply { usage }),
        3..=8 => Input::Fault(Fault {
            kind: FaultKind::ALL[draw as usize % 10],
            retry_after: (draw & 16 == 0).then(|| Duration(u64::from(draw >> 8))),
            usage,
        }),
        9 => Input::Shown,
        10 => Input::Verdict(Verdict::Accept),
        11 => Input::Verdict(Verdict::Reject),
        12 => Input::Verdict(Verdict::Unavailable),
        13 => Input::Cancelled,
        14 => Input::Begin,
        _ => Input::Wake,
    }
}

/// Hears which attempt is a trial.
#[derive(Default)]
struct Trials {
    half_opened: Option<RouteId>,
    freed: bool,
    sent: bool,
}

impl Log for Trials {
    fn breaker(&mut self, route: RouteId, change: BreakerChange, _: Instant) {
        match change {
            BreakerChange::HalfOpen => self.half_opened = Some(route),
            BreakerChange::TrialFreed => self.freed = true,
            BreakerChange::Opened { .. } | BreakerChange::Closed => {}
        }
    }

    fn attempt(&mut self, _: RouteId, _: u8, _: Instant) {
        self.sent = true;
    }
}

/// A call and what the test knows of it.
struct Open {
    call: Call,
    need: Need,
    step: Step,
    sends: [u8; ROUTES as usize],
    trial: bool,
}

struct Crowd {
    config: RouterConfig,
    router: Router,
    open: [Option<Open>; SLOTS],
    cooldowns: [Instant; ROUTES as usize],
    steps: Vec<Step>,
}

impl Crowd {
    fn new(config: RouterConfig) -> Self {
        Self {
            router: Router::new(&config).unwrap(),
            config,
            open: [const { None }; SLOTS],
            cooldowns: [Instant::ZERO; ROUTES as usize],
            steps: Vec::new(),
        }
    }

    fn act(&mut self, (slot, action, draw, _): Act, now: Instant) {
        let mut open = self.open[slot].take().unwrap_or_else(|| {
            let need = some_need(draw.rotate_left(7), now);
            let call = self.router.open(plan(draw), need, u64::from(draw));
            Open {
                call,
                need,
                step: Step::Wait { until: now },
                sends: [0; ROUTES as usize],
                trial: false,
            }
        });
        self.feed(&mut open, some_input(action, draw), now);
        let over = matches!(open.step, Step::Done(_) | Step::Failed(_));
        self.open[slot] = (!over).then_some(open);
        self.check(now);
    }

    /// One step of one call, with everything that must hold of it alone.
    fn feed(&mut self, open: &mut Open, input: Input, now: Instant) {
        let states: Vec<_> = (0..ROUTES)
            .map(|route| self.router.breaker_state(RouteId(route), now))
            .collect();
        let mut log = Trials::default();
        let step = self.router.step(&mut open.call, input, now, &mut log);
        self.steps.push(step);
        if log.sent {
            let Step::Send {
                route,
                attempt,
                limits,
                ..
            } = step
            else {
                panic!("sent without a step: {step:?}");
            };
            let index = usize::from(route.0);
            open.sends[index] += 1;
            open.trial = log.half_opened.is_some();
            assert_eq!(attempt, open.sends[index], "attempts are counted per route");
            assert!(attempt <= self.config.attempts_max);
            // Hard filters hold whatever is down.
            let spec = &self.config.routes[index];
            assert!(spec.residency.is_subset_of(open.need.residency));
            assert!(spec.local || !open.need.local_only);
            assert!(spec.tools || !open.need.tools);
            if let Some(deadline) = open.need.deadline {
                assert!(now < deadline && limits.attempt <= deadline.since(now));
            }
            let keeps_on = attempt > 1 && !self.config.breaker.unwrap().stops_retries;
            match states[index] {
                BreakerState::Open { until } => assert!(keeps_on || until <= now),
                // The call's own trial may just have ended without a verdict on the route.
                BreakerState::HalfOpen { lost_at } => assert!(lost_at <= now || log.freed),
                BreakerState::Closed { .. } => assert!(!open.trial),
            }
        } else if !matches!(step, Step::Send { .. }) {
            open.trial = false;
        }
        open.step = step;
    }

    /// What must hold of the router as a whole.
    fn check(&mut self, now: Instant) {
        for route in 0..ROUTES {
            let id = RouteId(route);
            let flying = self
                .open
                .iter()
                .flatten()
                .filter(|open| matches!(open.step, Step::Send { route, .. } if route == id));
            assert_eq!(self.router.in_flight(id) as usize, flying.count());
            let cooldown = self.router.cooldown_until(id);
            let before = &mut self.cooldowns[usize::from(route)];
            assert!(cooldown >= *before, "a cooldown was cut short");
            *before = cooldown;
            if let BreakerState::HalfOpen { .. } = self.router.breaker_state(id, now) {
                let key = |other: RouteId| self.shares_breaker(id, other);
                let holds = |open: &Open| match open.step {
                    Step::Send { route, .. } => open.trial && key(route),
                    _ => false,
                };
                let holder = self.open.iter().flatten().any(holds);
                assert!(holder, "half-open without a trial in flight");
            }
        }
        let account = self.router.account(AccountId(0)).unwrap();
        assert!(account.spent.plus(account.reserved) <= account.limit);
    }

    fn shares_breaker(&self, a: RouteId, b: RouteId) -> bool {
        let spec = |route: RouteId| &self.config.routes[usize::from(route.0)];
        match self.config.breaker.unwrap().scope {
            BreakerScope::Route => a == b,
            BreakerScope::Credential => spec(a).credential == spec(b).credential,
            BreakerScope::Provider => spec(a).provider == spec(b).provider,
        }
    }

    /// Fails whatever is outstanding until every call has ended, within the bound of its walk.
    fn finish(&mut self, mut now: Instant) {
        for slot in 0..SLOTS {
            let Some(mut open) = self.open[slot].take() else {
                continue;
            };
            let bound = 2 * usize::from(ROUTES) * usize::from(self.config.attempts_max) + 10;
            let mut steps = 0;
            loop {
                let input = match open.step {
                    Step::Done(_) | Step::Failed(_) => break,
                    Step::Send { .. } => Input::Fault(fault(FaultKind::Overloaded)),
                    Step::Verify { .. } => Input::Verdict(Verdict::Reject),
                    Step::Wait { until } => {
                        now = now.max(until);
                        Input::Wake
                    }
                };
                self.feed(&mut open, input, now);
                steps += 1;
                assert!(steps <= bound, "the walk does not end");
            }
        }
        self.check(now);
        assert_eq!(
            self.router.account(AccountId(0)).unwrap().reserved,
            Usd::ZERO
        );
    }
}

fn run(variant: u8, acts: &[Act]) -> Vec<Step> {
    let mut crowd = Crowd::new(config(variant));
    let mut now = Instant::ZERO;
    for &act in acts {
        now = now.after(Duration(act.3));
        crowd.act(act, now);
    }
    crowd.finish(now);
    crowd.steps
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// In-flight counts are exact, no route is half-open without a trial in flight, cooldowns only
    /// grow, money never passes the limit, filters hold, walks end; and the same inputs at the same
    /// times give the same steps.
    #[test]
    fn whatever_happens_to_many_calls_at_once_the_router_keeps_its_promises(
        variant: u8,
        acts in acts(),
    ) {
        let once = run(variant, &acts);
        prop_assert_eq!(once, run(variant, &acts));
    }

    /// PR-04: with every European route down, European data is not sent anywhere.
    #[test]
    fn pr04_european_data_stays_though_europe_is_down(draws in prop::collection::vec(any::<u32>(), 1..60)) {
        let mut router = Router::new(&config(0)).unwrap();
        let down = |route: RouteId| matches!(route.0, 0 | 1 | 4);
        let mut now = Instant::ZERO;
        for draw in draws {
            let european = Need { residency: EU, ..some_need(draw & !48, now) };
            let mut call = router.open(plan(draw), european, u64::from(draw));
            let mut step = router.step(&mut call, Input::Begin, now, &mut ());
            loop {
                let input = match step {
                    Step::Send { route, .. } => {
                        prop_assert!(down(route), "{:?} is not in Europe", route);
                        Input::Fault(fault(FaultKind::Server))
                    }
                    Step::Wait { until } => {
                        now = until;
                        Input::Wake
                    }
                    Step::Verify { .. } => unreachable!("nobody answers"),
                    Step::Done(served) => panic!("{served:?}"),
                    Step::Failed(_) => break,
                };
                step = router.step(&mut call, input, now, &mut ());
            }
            now = now.after(Duration(u64::from(draw % 20_000_000)));
        }
    }
}
