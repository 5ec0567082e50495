//! The walk of one call over its plan: the step loop.
//!
//! The common path (begin, send, answer, verdict) is inlined into the driver and touches one
//! compact record per route. Whatever goes wrong is cold and out of line.

mod abreast;
mod call;
mod instant;
mod quick;
mod setback;
mod state;

pub use abreast::{Abreast, AnswersAbreast};
pub use call::Call;
pub use instant::{EligibleSet, InstantEnd, InstantWalk};

use super::breaker::{Breaker, Effect, Pass};
use super::budget::RetryLedger;
use super::pool::Pool;
use super::retry::{self, uniforms};
use call::{Held, Phase, prompt_and_cap, seen};

use super::{
    Account, Alert, BreakerChange, BreakerScope, BreakerState, ConfigError, FailureReason, Fault,
    FaultKind, Input, Leg, Limits, Log, Need, Plan, Regions, Reply, RouteId, RouteSpec,
    RouterConfig, Scope, ServedVerdict, Skip, Step, Target, Trip, Usage, Verdict,
};
use crate::units::{Duration, Instant, Usd};

/// What the common path needs of a route, in one cache line.
#[derive(Clone, Debug)]
struct Hot {
    residency: Regions,
    limits: Limits,
    cooldown_until: Instant,
    /// `u32::MAX` when unknown, which no need exceeds.
    window: u32,
    in_flight: u32,
    breaker: u16,
    /// What it cannot do, as bits of [`wants`].
    lacks: u8,
}

/// What calls share: routes, breakers, cooldowns, requests in flight, budgets.
#[derive(Clone, Debug)]
pub struct Router {
    hot: Vec<Hot>,
    breakers: Vec<Breaker>,
    pub(super) pools: Vec<Pool>,
    accounts: Vec<Account>,
    ledger: Option<RetryLedger>,
    config: RouterConfig,
    /// Breakers that are not closed.
    open: u32,
    /// No cooldown ends later than this.
    cooling_until: Instant,
    /// Whether breakers count successes, too.
    counts_successes: bool,
    /// Whether there are accounts or a retry ledger to keep.
    keeps_books: bool,
    /// Neither of the two above, and no failure since the last reset: every breaker is spotless and
    /// in its first epoch, no route pauses, and none of it need be looked at.
    plain: bool,
    /// `config.call_deadline`, or for ever.
    call_deadline: Duration,
    /// Changes with every reset, so that calls from before it do not touch what came after.
    generation: u32,
}

impl Router {
    /// A router with nothing learnt yet.
    ///
    /// # Errors
    ///
    /// Everything that [`RouterConfig::validate`] finds.
    pub fn new(config: &RouterConfig) -> Result<Self, Vec<ConfigError>> {
        let errors = config.validate();
        if !errors.is_empty() {
            return Err(errors);
        }
        let scope = config.breaker.as_ref().map(|breaker| breaker.scope);
        // The routes that share a breaker all use the one of the first of them.
        let shares = |a: &RouteSpec, b: &RouteSpec| match scope {
            Some(BreakerScope::Provider) => a.provider == b.provider,
            Some(BreakerScope::Credential) => a.credential == b.credential,
            Some(BreakerScope::Route) | None => false,
        };
        let hot = config.routes.iter().enumerate().map(|(index, route)| {
            let first = config.routes[..index].iter().position(|r| shares(r, route));
            Hot {
                residency: route.residency,
                limits: route.limits,
                cooldown_until: Instant::ZERO,
                window: route.window.get().unwrap_or(u32::MAX),
                in_flight: 0,
                breaker: first.unwrap_or(index) as u16,
                lacks: wants(!route.tools, !route.local),
            }
        });
        let counts_successes = config
            .breaker
            .is_some_and(|breaker| matches!(breaker.trip, Trip::Share { .. }));
        let keeps_books = !config.accounts.is_empty() || config.retry_share.is_some();
        Ok(Self {
            hot: hot.collect(),
            breakers: vec![Breaker::NEW; config.routes.len()],
            pools: config.pools.iter().map(Pool::new).collect(),
            accounts: config
                .accounts
                .iter()
                .map(|account| Account::new(account.limit))
                .collect(),
            ledger: config.retry_share.map(RetryLedger::new),
            open: 0,
            cooling_until: Instant::ZERO,
            counts_successes,
            keeps_books,
            plain: !counts_successes && !keeps_books,
            call_deadline: config.call_deadline.unwrap_or(Duration::MAX),
            generation: 0,
            config: config.clone(),
        })
    }

    /// Forgets everything: health, cooldowns, requests in flight, what accounts spent. Calls that are
    /// in progress go on, but leave no trace.
    pub fn reset(&mut self) {
        for hot in &mut self.hot {
            hot.cooldown_until = Instant::ZERO;
            hot.in_flight = 0;
        }
        self.breakers.fill(Breaker::NEW);
        self.pools.iter_mut().for_each(Pool::reset);
        for account in &mut self.accounts {
            *account = Account::new(account.limit);
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.reset();
        }
        self.open = 0;
        self.cooling_until = Instant::ZERO;
        self.plain = !self.counts_successes && !self.keeps_books;
        self.generation = self.generation.wrapping_add(1);
    }

    /// A call that has not begun. `jitter` is the only randomness it will use.
    #[must_use]
    #[inline(always)]
    pub fn open(&self, plan: Plan, need: Need, jitter: u64) -> Call {
        Call::new(plan, need, jitter, self.config.retries_per_call)
    }

    /// Takes what happened at `now` and says what to do next.
    ///
    /// An input that makes no sense for what is outstanding (an early wake, a verdict nobody asked
    /// for, anything after the end) changes nothing and gets the outstanding step again. `now` must
    /// not run backwards; if it does, the time that has passed counts as zero.
    #[inline(always)]
    pub fn step<L: Log>(
        &mut self,
        call: &mut Call,
        input: Input,
        now: Instant,
        log: &mut L,
    ) -> Step {
        if let Some(step) = self.quick(call, input, now, log) {
            return step;
        }
        // By value, there and back: a call that is lent to code that is not inlined has to live in
        // memory from its first field to its last, also when that code is never reached.
        let mut aside = call.duplicate();
        self.slow(&mut aside, input, now, log);
        *call = aside;
        self.outstanding(call)
    }

    /// As [`Router::step`], for drivers that keep their calls in memory anyway: without the short cut for
    /// calls that live in registers, and without the copies that it costs everybody else.
    pub fn step_stored<L: Log>(
        &mut self,
        call: &mut Call,
        input: Input,
        now: Instant,
        log: &mut L,
    ) -> Step {
        self.slow(call, input, now, log);
        self.outstanding(call)
    }

    /// Any input in any state.
    #[cold]
    #[inline(never)]
    fn slow<L: Log>(&mut self, call: &mut Call, input: Input, now: Instant, log: &mut L) {
        match (call.phase, input) {
            (Phase::Sent, Input::Reply(reply)) => {
                self.replied(call, reply, now, log);
            }
            (Phase::Sent, Input::Shown) if !call.buffered && !call.shown => {
                call.shown = true;
                log.shown(call.route, call.marks.attempt(), now);
            }
            (Phase::Sent, Input::Fault(fault)) => {
                self.faulted(call, fault, now, log);
            }
            (Phase::Verifying, Input::Verdict(verdict)) => {
                self.judged(call, verdict, now, log);
            }
            (Phase::Waiting, Input::Wake) if now >= call.at => {
                self.woke(call, now, log);
            }
            (Phase::New | Phase::Sent | Phase::Verifying | Phase::Waiting, Input::Cancelled) => {
                self.cancelled(call, now, log);
            }
            (Phase::New, _) => {
                self.begin(call, now, log);
            }
            _ => {}
        }
    }

    /// The outstanding step, from what the call remembers of it.
    #[inline(always)]
    fn outstanding(&self, call: &Call) -> Step {
        match (call.phase, call.plan.leg(call.marks.leg())) {
            (Phase::Sent, _) => Step::Send {
                route: call.route,
                attempt: call.marks.attempt(),
                limits: self.limits(call),
                buffer: call.buffered,
            },
            (
                Phase::Verifying,
                Some(Leg {
                    verifier: Some(verifier),
                    ..
                }),
            ) => Step::Verify {
                route: call.route,
                verifier,
            },
            (Phase::New | Phase::Verifying | Phase::Waiting, _) => Step::Wait { until: call.at },
            (Phase::Served, _) => Step::Done(call.served()),
            (Phase::Failed, _) => Step::Failed(call.failure()),
        }
    }

    /// How long the outstanding attempt may take.
    #[inline(always)]
    fn limits(&self, call: &Call) -> Limits {
        let rest = call.deadline.since(call.at);
        self.hot[usize::from(call.route.0)].limits.clipped(rest)
    }

    /// Whether `route` may ever serve a request with this need: the hard filters, which no health,
    /// budget or deadline changes.
    ///
    /// # Errors
    ///
    /// The first filter that it does not pass.
    pub fn eligible(&self, route: RouteId, need: &Need) -> Result<(), Skip> {
        let Some(hot) = self.hot.get(usize::from(route.0)) else {
            return Err(Skip::NoSuchRoute);
        };
        let tokens = prompt_and_cap(need);
        if fits(hot, need, tokens) {
            Ok(())
        } else {
            Err(unfit(hot, need))
        }
    }

    /// Whether nothing but the hard filters can stand in a request's way.
    #[inline(always)]
    fn calm(&self, now: Instant) -> bool {
        self.plain || (!self.keeps_books && self.open == 0 && now >= self.cooling_until)
    }

    #[inline(always)]
    fn begin<L: Log>(&mut self, call: &mut Call, now: Instant, log: &mut L) -> Step {
        call.deadline = call.deadline.min(now.after(self.call_deadline));
        call.generation = self.generation;
        if !self.plain
            && let Some(ledger) = &mut self.ledger
        {
            ledger.begin(now);
        }
        if let (Some(leg), true) = (call.plan.leg(0), self.calm(now) && now < call.deadline)
            && let Target::Route(route) = leg.target
            && let Some(hot) = self.hot.get(usize::from(route.0))
            && fits(hot, &call.need, call.tokens)
        {
            return self.send(call, leg, route, now, log);
        }
        self.advance(call, now, log)
    }

    /// Goes on from `call.marks.leg()`, and from the next member of its pool, to whatever can be tried.
    #[cold]
    #[inline(never)]
    fn advance<L: Log>(&mut self, call: &mut Call, now: Instant, log: &mut L) -> Step {
        if now >= call.deadline {
            call.seen |= seen::OUT_OF_TIME;
            return self.give_up(call);
        }
        while let Some(leg) = call.plan.leg(call.marks.leg()) {
            match leg.target {
                Target::Route(route) => match self.admits(call, route, now) {
                    Ok(()) => return self.send(call, leg, route, now, log),
                    Err(why) => {
                        call.note(why);
                        log.skip(route, why, now);
                    }
                },
                Target::Pool(pool) => {
                    let pool = usize::from(pool.0);
                    if let Some(route) = self.pool_pick(pool, call, now) {
                        return self.send(call, leg, route, now, log);
                    }
                    match self.pools.get(pool) {
                        None => call.note(Skip::NoSuchRoute),
                        Some(pool) => {
                            for &route in pool.members() {
                                if let Err(why) = self.admits(call, route, now) {
                                    call.note(why);
                                    log.skip(route, why, now);
                                }
                            }
                        }
                    }
                }
            }
            call.marks.next_leg();
        }
        self.give_up(call)
    }

    /// Whether `route` may be tried by this call now, for the first time.
    pub(super) fn admits(&self, call: &Call, route: RouteId, now: Instant) -> Result<(), Skip> {
        let Some(hot) = self.hot.get(usize::from(route.0)) else {
            return Err(Skip::NoSuchRoute);
        };
        if !fits(hot, &call.need, call.tokens) {
            return Err(unfit(hot, &call.need));
        }
        if call.has_visited(route) {
            return Err(Skip::AlreadyTried);
        }
        if call.window_floor > 0 && hot.window <= call.window_floor {
            return Err(Skip::SmallerWindow);
        }
        if let Pass::No(until) = self.breakers[usize::from(hot.breaker)].pass(now) {
            return Err(Skip::BreakerOpen { until });
        }
        if !self.can_pay(call, route) {
            return Err(Skip::Budget);
        }
        if now < hot.cooldown_until {
            return Err(Skip::CoolingDown {
                until: hot.cooldown_until,
            });
        }
        Ok(())
    }

    /// Whether a later leg could be tried now: if not, the present one is final.
    fn has_later(&self, call: &Call, now: Instant) -> bool {
        self.has_later_from(call, call.marks.leg() + 1, now)
    }

    /// Whether a leg after `index` could be tried, in a router that remembers nothing.
    #[inline(never)]
    fn has_later_than(&self, call: &Call, index: u8) -> bool {
        self.has_later_from(call, index, call.at)
    }

    fn has_later_from(&self, call: &Call, mut index: u8, now: Instant) -> bool {
        while let Some(leg) = call.plan.leg(index) {
            let can = match leg.target {
                Target::Route(later) => {
                    if self.calm(now) && call.window_floor == 0 {
                        !call.has_visited(later)
                            && self
                                .hot
                                .get(usize::from(later.0))
                                .is_some_and(|hot| fits(hot, &call.need, call.tokens))
                    } else {
                        self.admits(call, later, now).is_ok()
                    }
                }
                Target::Pool(pool) => self.pool_has(usize::from(pool.0), call, now),
            };
            if can {
                return true;
            }
            index += 1;
        }
        false
    }

    /// Sends the first attempt to `route`, which may be tried.
    #[inline(always)]
    fn send<L: Log>(
        &mut self,
        call: &mut Call,
        leg: Leg,
        route: RouteId,
        now: Instant,
        log: &mut L,
    ) -> Step {
        call.visit(route);
        call.buffered = leg.verifier.is_some() && self.has_later(call, now);
        call.route = route;
        call.marks.at_attempt(1);
        self.dispatch(call, now, log)
    }

    /// Sends the next attempt to `call.route`.
    #[inline(always)]
    fn dispatch<L: Log>(&mut self, call: &mut Call, now: Instant, log: &mut L) -> Step {
        let route = call.route;
        if call.generation != self.generation {
            self.adopt(call, now);
        }
        if !self.plain {
            if self.open > 0 {
                self.begin_trial(route, now, log);
            }
            if self.keeps_books {
                self.reserve(call);
            }
            let breaker = self.hot[usize::from(route.0)].breaker;
            call.epoch = self.breakers[usize::from(breaker)].epoch();
        }
        self.hot[usize::from(route.0)].in_flight += 1;
        call.sends = call.sends.saturating_add(1);
        call.shown = false;
        call.phase = Phase::Sent;
        call.at = now;
        log.attempt(route, call.marks.attempt(), now);
        Step::Send {
            route,
            attempt: call.marks.attempt(),
            limits: self.limits(call),
            buffer: call.buffered,
        }
    }

    /// A call from before a reset goes on: from here on it counts like a new one.
    #[cold]
    #[inline(never)]
    fn adopt(&mut self, call: &mut Call, now: Instant) {
        call.generation = self.generation;
        call.epoch = 0;
        call.holds_retry = false;
        if let Some(ledger) = &mut self.ledger {
            ledger.begin(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_trial<L: Log>(&mut self, route: RouteId, now: Instant, log: &mut L) {
        let Some(spec) = self.config.breaker else {
            return;
        };
        let breaker = &mut self.breakers[usize::from(self.hot[usize::from(route.0)].breaker)];
        if breaker.pass(now) != Pass::Trial {
            return;
        }
        match breaker.begin_trial(&spec, now) {
            Effect::Closed => {
                self.open -= 1;
                log.breaker(route, BreakerChange::Closed, now);
            }
            _ => log.breaker(route, BreakerChange::HalfOpen, now),
        }
    }

    #[inline(always)]
    fn replied<L: Log>(
        &mut self,
        call: &mut Call,
        reply: Reply,
        now: Instant,
        log: &mut L,
    ) -> Step {
        let route = call.route;
        log.reply(route, call.marks.attempt(), now);
        if call.generation == self.generation {
            let hot = &mut self.hot[usize::from(route.0)];
            hot.in_flight = hot.in_flight.saturating_sub(1);
            if !self.plain {
                if self.counts_successes || !self.breakers[usize::from(hot.breaker)].is_spotless() {
                    self.succeed(call, now, log);
                }
                if self.keeps_books {
                    self.settle(call, reply.usage, true);
                    self.release_retry(call);
                }
            }
        }
        if call.buffered
            && now < call.deadline
            && let Some(verifier) = call.plan.leg(call.marks.leg()).and_then(|leg| leg.verifier)
        {
            call.phase = Phase::Verifying;
            return Step::Verify { route, verifier };
        }
        let verdict = if call.buffered {
            ServedVerdict::Unverified
        } else {
            ServedVerdict::NotAsked
        };
        self.done(call, verdict)
    }

    #[inline(always)]
    fn judged<L: Log>(
        &mut self,
        call: &mut Call,
        verdict: Verdict,
        now: Instant,
        log: &mut L,
    ) -> Step {
        log.verdict(call.route, verdict, now);
        if verdict == Verdict::Accept {
            return self.done(call, ServedVerdict::Accepted);
        }
        call.held = Some(Held {
            route: call.route,
            leg: call.marks.leg(),
            attempt: call.marks.attempt(),
        });
        call.marks.escalate(verdict == Verdict::Unavailable);
        call.marks.next_leg();
        if let Some(leg) = call.plan.leg(call.marks.leg())
            && let Target::Route(route) = leg.target
            && self.calm(now)
            && now < call.deadline
            && call.window_floor == 0
            && !call.has_visited(route)
            && let Some(hot) = self.hot.get(usize::from(route.0))
            && fits(hot, &call.need, call.tokens)
        {
            return self.send(call, leg, route, now, log);
        }
        self.advance(call, now, log)
    }

    /// The answer that has just come is served.
    #[inline(always)]
    fn done(&mut self, call: &mut Call, verdict: ServedVerdict) -> Step {
        call.verdict = verdict;
        call.phase = Phase::Served;
        self.end(call);
        Step::Done(call.served())
    }

    #[inline(always)]
    fn end(&mut self, call: &mut Call) {
        if !self.plain
            && call.generation == self.generation
            && let Some(ledger) = &mut self.ledger
        {
            ledger.end();
        }
    }
}

/// The hard filters.
#[inline(always)]
fn fits(hot: &Hot, need: &Need, tokens: u32) -> bool {
    hot.residency.is_subset_of(need.residency)
        & (hot.lacks & wants(need.tools, need.local_only) == 0)
        & (tokens <= hot.window)
}

/// What a request asks of a route beside room and residency, one bit each.
#[inline(always)]
const fn wants(tools: bool, local: bool) -> u8 {
    tools as u8 | (local as u8) << 1
}

/// Which hard filter it was.
#[cold]
fn unfit(hot: &Hot, need: &Need) -> Skip {
    if !hot.residency.is_subset_of(need.residency) {
        Skip::Residency
    } else if hot.lacks & wants(false, need.local_only) != 0 {
        Skip::LocalOnly
    } else if hot.lacks & wants(need.tools, false) != 0 {
        Skip::Tools
    } else {
        Skip::Window
    }
}
