//! What the router's tests share: routes, a log that writes a trace, and a scripted driver.

use std::collections::VecDeque;
use std::fmt::Write;

use routelab::router::{
    Alert, BreakerChange, Call, CredentialId, FailureReason, Fault, FaultKind, Input, Leg, Limits,
    Log, Need, Plan, PoolId, PoolSpec, ProviderId, Regions, Reply, RouteId, RouteSpec, Router,
    RouterConfig, Served, Skip, Step, Strategy, Target, Usage, Verdict,
};
use routelab::units::{Duration, Instant, Price, TokenPrice, Tokens};

/// Regions used in tests.
pub(crate) const EU: Regions = Regions(1);
pub(crate) const US: Regions = Regions(2);

/// The short names of the lesson's traces.
pub(crate) const NAMES: [&str; 8] = ["oa", "an", "ge", "r3", "r4", "r5", "r6", "r7"];

pub(crate) const fn s(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn at(secs: u64) -> Instant {
    Instant(secs * 1_000_000)
}

/// A route with its own provider and credential, a window of 100,000 and a price of 1 / 3 USD per
/// million tokens (the lesson's defaults, FB-06).
pub(crate) fn route(index: u16) -> RouteSpec {
    RouteSpec {
        name: NAMES
            .get(usize::from(index))
            .copied()
            .unwrap_or("more")
            .into(),
        provider: ProviderId(index),
        credential: CredentialId(index),
        window: Tokens::new(100_000),
        tools: true,
        residency: EU,
        local: false,
        price: Some(Price {
            input: TokenPrice(1_000_000),
            output: TokenPrice(3_000_000),
            cached_input: None,
            cache_write: None,
            reasoning: None,
        }),
        weight: None,
        limits: Limits::default(),
    }
}

/// `config` with `routes` such routes.
pub(crate) fn with_routes(routes: u16, config: RouterConfig) -> RouterConfig {
    RouterConfig {
        routes: (0..routes).map(route).collect(),
        ..config
    }
}

pub(crate) fn need() -> Need {
    Need {
        input_tokens: Tokens::new(2),
        output_cap: Tokens::new(50),
        tools: false,
        residency: EU,
        local_only: false,
        account: None,
        deadline: None,
    }
}

pub(crate) fn chain(routes: u16) -> Plan {
    let routes: Vec<_> = (0..routes).map(RouteId).collect();
    Plan::chain(&routes).unwrap()
}

pub(crate) fn fault(kind: FaultKind) -> Fault {
    Fault {
        kind,
        retry_after: None,
        usage: None,
    }
}

pub(crate) const REPLY: Input = Input::Reply(Reply { usage: None });

/// What the lesson's random generator is asked for: one draw at a failure without a hint, one more
/// at a wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Draw {
    Backoff { attempt: u8, hint: Option<Duration> },
    Extra,
}

/// A log in the notation of the lesson: `oa#1:overloaded oa#2:overloaded an#1:ok`.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) text: String,
    pub(crate) sent: Vec<RouteId>,
    pub(crate) waits: Vec<Duration>,
    pub(crate) skips: Vec<(RouteId, Skip)>,
    pub(crate) alerts: Vec<FaultKind>,
    pub(crate) changes: Vec<BreakerChange>,
    pub(crate) draws: Vec<Draw>,
    pub(crate) verdicts: Vec<Verdict>,
    shown: bool,
    now: Instant,
    pub(crate) hint: Option<Duration>,
}

impl Trace {
    fn word(&mut self, word: std::fmt::Arguments<'_>) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.write_fmt(word).unwrap();
    }

    /// Sends per route.
    pub(crate) fn calls(&self) -> [usize; 3] {
        [0, 1, 2].map(|r| self.sent.iter().filter(|route| route.0 == r).count())
    }
}

fn name(route: RouteId) -> &'static str {
    NAMES.get(usize::from(route.0)).copied().unwrap_or("??")
}

impl Log for Trace {
    fn attempt(&mut self, route: RouteId, _: u8, _: Instant) {
        self.sent.push(route);
        self.shown = false;
    }

    fn shown(&mut self, route: RouteId, attempt: u8, _: Instant) {
        self.shown = true;
        self.word(format_args!("{}#{attempt}:ok", name(route)));
    }

    fn reply(&mut self, route: RouteId, attempt: u8, _: Instant) {
        if !self.shown {
            self.word(format_args!("{}#{attempt}:ok", name(route)));
        }
    }

    fn fault(&mut self, route: RouteId, attempt: u8, kind: FaultKind, mid: bool, now: Instant) {
        self.now = now;
        let (route, kind) = (name(route), kind.name());
        if mid {
            self.word(format_args!("{route}:MID-STREAM-{kind}"));
        } else {
            self.word(format_args!("{route}#{attempt}:{kind}"));
            let hint = self.hint;
            self.draws.push(Draw::Backoff { attempt, hint });
        }
    }

    fn skip(&mut self, route: RouteId, why: Skip, _: Instant) {
        self.skips.push((route, why));
        self.word(format_args!("{}#-:{}", name(route), why.name()));
    }

    fn breaker(&mut self, _: RouteId, change: BreakerChange, _: Instant) {
        self.changes.push(change);
    }

    fn wait(&mut self, _: RouteId, _: u8, _: Option<Duration>, until: Instant) {
        self.waits.push(until.since(self.now));
        self.draws.push(Draw::Extra);
    }

    fn verdict(&mut self, _: RouteId, verdict: Verdict, _: Instant) {
        self.verdicts.push(verdict);
    }

    fn alert(&mut self, _: RouteId, alert: Alert, _: Instant) {
        self.alerts.push(alert.kind);
    }
}

/// What a route does when it is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Ok,
    Fails(Fault),
    /// Shows output first.
    Dies(Fault),
    /// Takes so long, then fails.
    SlowFails(Duration, Fault),
    /// Answers with this bill.
    Costs(u32, u32),
}

/// A router, a clock and a queue of answers per route; a route without answers is well.
pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) now: Instant,
    pub(crate) answers: Vec<VecDeque<Answer>>,
    pub(crate) trace: Trace,
    pub(crate) stream: bool,
}

impl World {
    pub(crate) fn new(config: &RouterConfig) -> Self {
        Self {
            router: Router::new(config).unwrap(),
            now: Instant::ZERO,
            answers: vec![VecDeque::new(); config.routes.len()],
            trace: Trace::default(),
            stream: false,
        }
    }

    pub(crate) fn queue(&mut self, route: u16, answers: impl IntoIterator<Item = Answer>) {
        self.answers[usize::from(route)].extend(answers);
    }

    pub(crate) fn fails(&mut self, route: u16, kind: FaultKind, times: usize) {
        self.queue(
            route,
            std::iter::repeat_n(Answer::Fails(fault(kind)), times),
        );
    }

    /// One call to its end; every verdict is `Accept`.
    pub(crate) fn run(&mut self, plan: Plan, need: Need) -> Step {
        let call = self.router.open(plan, need, 1);
        self.drive(call).0
    }

    pub(crate) fn drive(&mut self, mut call: Call) -> (Step, Call) {
        let mut input = Input::Begin;
        loop {
            let step = self
                .router
                .step(&mut call, input, self.now, &mut self.trace);
            input = match step {
                Step::Send { route, .. } => self.answer(&mut call, route),
                Step::Verify { .. } => Input::Verdict(Verdict::Accept),
                Step::Wait { until } => {
                    self.now = until;
                    Input::Wake
                }
                Step::Done(_) | Step::Failed(_) => return (step, call),
            };
        }
    }

    fn answer(&mut self, call: &mut Call, route: RouteId) -> Input {
        let answer = self.answers[usize::from(route.0)].pop_front();
        let answer = answer.unwrap_or(Answer::Ok);
        let dies = matches!(answer, Answer::Dies(_));
        let shows = dies || (self.stream && matches!(answer, Answer::Ok));
        if shows {
            let _ = self
                .router
                .step(call, Input::Shown, self.now, &mut self.trace);
        }
        match answer {
            Answer::Ok => REPLY,
            Answer::Costs(input, output) => Input::Reply(Reply {
                usage: Some(Usage {
                    input: Tokens::new(input),
                    output: Tokens::new(output),
                }),
            }),
            Answer::Fails(fault) | Answer::Dies(fault) => {
                self.trace.hint = fault.retry_after;
                Input::Fault(fault)
            }
            Answer::SlowFails(time, fault) => {
                self.now = self.now.after(time);
                self.trace.hint = fault.retry_after;
                Input::Fault(fault)
            }
        }
    }
}

pub(crate) fn pool(strategy: Strategy, members: &[u16]) -> PoolSpec {
    PoolSpec {
        name: "pool".into(),
        members: members.iter().map(|&m| RouteId(m)).collect(),
        strategy,
        soonest_when_all_cool: true,
    }
}

pub(crate) fn pooled() -> Plan {
    Plan::new(&[Leg {
        target: Target::Pool(PoolId(0)),
        verifier: None,
    }])
    .unwrap()
}

pub(crate) fn pool_config(strategy: Strategy, routes: u16) -> RouterConfig {
    let members: Vec<_> = (0..routes).collect();
    RouterConfig {
        pools: vec![pool(strategy, &members)],
        ..with_routes(routes, RouterConfig::default())
    }
}

/// Opens a call and begins it.
pub(crate) fn begin(
    router: &mut Router,
    plan: Plan,
    need: Need,
    jitter: u64,
    now: Instant,
) -> (Call, Step) {
    let mut call = router.open(plan, need, jitter);
    let step = router.step(&mut call, Input::Begin, now, &mut ());
    (call, step)
}

pub(crate) fn sent_to(step: Step) -> RouteId {
    match step {
        Step::Send { route, .. } => route,
        other => panic!("{other:?} sends nothing"),
    }
}

pub(crate) fn reason(step: Step) -> FailureReason {
    match step {
        Step::Failed(failure) => failure.reason,
        other => panic!("{other:?} is no failure"),
    }
}

pub(crate) fn hinted(secs: u64) -> Answer {
    Answer::Fails(Fault {
        retry_after: Some(s(secs)),
        ..fault(FaultKind::RateLimit)
    })
}

pub(crate) fn served(step: Step) -> Served {
    match step {
        Step::Done(served) => served,
        other => panic!("{other:?} is no answer"),
    }
}
