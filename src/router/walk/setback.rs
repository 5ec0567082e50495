//! What the walk does when something goes wrong: faults, waits, cancellation, and the end without an
//! answer. All of it is cold.

use super::*;

impl Router {
    /// An attempt failed: who is to blame, and where does the call go from here?
    #[cold]
    #[inline(never)]
    pub(super) fn faulted<L: Log>(
        &mut self,
        call: &mut Call,
        fault: Fault,
        now: Instant,
        log: &mut L,
    ) -> Step {
        let kind = fault.kind;
        let route = call.route;
        log.fault(route, call.marks.attempt(), kind, call.shown, now);
        call.last_fault = Some(kind);
        call.seen &= !(seen::OUT_OF_TIME | seen::OUT_OF_RETRIES);
        if call.generation == self.generation {
            let hot = &mut self.hot[usize::from(route.0)];
            hot.in_flight = hot.in_flight.saturating_sub(1);
            // Before any output nothing was produced that could be billed, unless somebody says so.
            self.settle(call, fault.usage, call.shown);
            self.release_retry(call);
            self.plain = false;
            self.blame(call, kind, now, log);
            self.cool(route, fault, now);
        }
        let tables = &self.config.tables;
        if tables.alert.has(kind) {
            log.alert(route, Alert { kind }, now);
        }
        let retry_here = tables.retry_here.has(kind);
        let fail_over = tables.fail_over.has(kind);
        if call.shown {
            return self.fail(call, FailureReason::MidStream(kind));
        }
        if retry_here
            && call.marks.attempt() < self.config.attempts_max
            && let Some(step) = self.wait_here(call, fault, now, log)
        {
            return step;
        }
        if !fail_over {
            return if call.held.is_some()
                || call.seen & (seen::OUT_OF_TIME | seen::OUT_OF_RETRIES) != 0
            {
                self.give_up(call)
            } else {
                self.fail(call, FailureReason::Rejected(kind))
            };
        }
        if kind == FaultKind::ContextLength {
            let window = self.hot[usize::from(route.0)].window;
            call.window_floor = call.window_floor.max(window);
        }
        self.move_on(call, now, log)
    }

    /// Leaves `call.route` for the next member of its pool, or for the next leg.
    fn move_on<L: Log>(&mut self, call: &mut Call, now: Instant, log: &mut L) -> Step {
        if let Some(Leg {
            target: Target::Route(_),
            ..
        }) = call.plan.leg(call.marks.leg())
        {
            call.marks.next_leg();
        }
        self.advance(call, now, log)
    }

    /// Begins the wait for another attempt on the same route, if there may be one.
    fn wait_here<L: Log>(
        &mut self,
        call: &mut Call,
        fault: Fault,
        now: Instant,
        log: &mut L,
    ) -> Option<Step> {
        let hot = &self.hot[usize::from(call.route.0)];
        let breaker = &self.breakers[usize::from(hot.breaker)];
        if let Some(spec) = &self.config.breaker
            && spec.stops_retries
            && !breaker.is_closed()
        {
            return None;
        }
        let (u1, u2) = uniforms(call.jitter, u32::from(call.sends));
        let hint = fault.retry_after;
        let wait = retry::wait(&self.config.wait, hint, call.marks.attempt(), u1, u2)?;
        let until = now.after(wait);
        if until >= call.deadline {
            call.seen |= seen::OUT_OF_TIME;
            return None;
        }
        if hot.cooldown_until > until {
            let why = Skip::CoolingDown {
                until: hot.cooldown_until,
            };
            call.note(why);
            log.skip(call.route, why, now);
            return None;
        }
        if call.retries_left == Some(0) {
            call.seen |= seen::OUT_OF_RETRIES;
            return None;
        }
        if let Some(ledger) = &mut self.ledger {
            if !ledger.take(now) {
                call.seen |= seen::OUT_OF_RETRIES;
                return None;
            }
            call.holds_retry = true;
        }
        call.retries_left = call.retries_left.map(|left| left - 1);
        log.wait(call.route, call.marks.attempt(), hint, until);
        call.marks.at_attempt(call.marks.attempt() + 1);
        call.phase = Phase::Waiting;
        call.at = until;
        Some(Step::Wait { until })
    }

    /// The wait is over. Meanwhile others may have opened the breaker, begun its trial, extended the
    /// cooldown or spent the money.
    #[cold]
    #[inline(never)]
    pub(super) fn woke<L: Log>(&mut self, call: &mut Call, now: Instant, log: &mut L) -> Step {
        let route = call.route;
        let hot = &self.hot[usize::from(route.0)];
        let breaker = &self.breakers[usize::from(hot.breaker)];
        let stops = self.config.breaker.is_some_and(|spec| spec.stops_retries);
        let in_trial = matches!(breaker.state(), BreakerState::HalfOpen { .. });
        let obstacle = match breaker.pass(now) {
            Pass::No(until) if stops || in_trial => Some(Skip::BreakerOpen { until }),
            _ if now < hot.cooldown_until => Some(Skip::CoolingDown {
                until: hot.cooldown_until,
            }),
            _ if !self.can_pay(call, route) => Some(Skip::Budget),
            _ => None,
        };
        if now >= call.deadline {
            self.release_retry(call);
            call.seen |= seen::OUT_OF_TIME;
            return self.give_up(call);
        }
        if let Some(why) = obstacle {
            self.release_retry(call);
            call.note(why);
            log.skip(route, why, now);
            return self.move_on(call, now, log);
        }
        let verifies = call
            .plan
            .leg(call.marks.leg())
            .is_some_and(|leg| leg.verifier.is_some());
        call.buffered = verifies && self.has_later(call, now);
        self.dispatch(call, now, log)
    }

    /// The caller went away: everything the call holds is given back.
    #[cold]
    #[inline(never)]
    pub(super) fn cancelled<L: Log>(&mut self, call: &mut Call, now: Instant, log: &mut L) -> Step {
        if call.phase == Phase::New {
            call.phase = Phase::Failed;
            return Step::Failed(call.failure());
        }
        if call.phase == Phase::Sent && call.generation == self.generation {
            let hot = &mut self.hot[usize::from(call.route.0)];
            hot.in_flight = hot.in_flight.saturating_sub(1);
            let breaker = &mut self.breakers[usize::from(hot.breaker)];
            if breaker.release(call.epoch) == Effect::Freed {
                log.breaker(call.route, BreakerChange::TrialFreed, now);
            }
            // Output that the caller has seen was produced, and nobody will say what it cost.
            self.settle(call, None, call.shown);
        }
        self.release_retry(call);
        self.fail(call, FailureReason::Cancelled)
    }

    /// No leg is left, or no time: the held answer is served, or the reason is given.
    pub(super) fn give_up(&mut self, call: &mut Call) -> Step {
        if let Some(held) = call.held {
            call.route = held.route;
            call.marks.at_leg(held.leg);
            call.marks.at_attempt(held.attempt);
            return self.done(call, ServedVerdict::Unverified);
        }
        let saw = |fact: u8| call.seen & fact != 0;
        let reason = match call.last_fault {
            _ if saw(seen::OUT_OF_TIME) => FailureReason::Deadline,
            Some(_) if saw(seen::OUT_OF_RETRIES) => FailureReason::RetryBudget,
            Some(kind) => FailureReason::Exhausted(kind),
            None if saw(seen::RESIDENCY) => FailureReason::RefusedByResidency,
            None if saw(seen::BUDGET) => FailureReason::MoneyBudget,
            None if saw(seen::UNAVAILABLE) => FailureReason::AllUnavailable,
            None => FailureReason::NoCapableRoute,
        };
        self.fail(call, reason)
    }

    fn fail(&mut self, call: &mut Call, reason: FailureReason) -> Step {
        call.reason = reason;
        call.phase = Phase::Failed;
        self.end(call);
        Step::Failed(call.failure())
    }

    /// An answer came from a route whose breaker is not spotless, or whose successes are counted.
    #[cold]
    #[inline(never)]
    pub(super) fn succeed<L: Log>(&mut self, call: &Call, now: Instant, log: &mut L) {
        let Some(spec) = self.config.breaker else {
            return;
        };
        let hot = &self.hot[usize::from(call.route.0)];
        let breaker = &mut self.breakers[usize::from(hot.breaker)];
        if breaker.success(&spec, call.epoch, now) == Effect::Closed {
            self.open -= 1;
            log.breaker(call.route, BreakerChange::Closed, now);
        }
    }

    /// Tells the breaker of a failure, or that its trial said nothing.
    fn blame<L: Log>(&mut self, call: &Call, kind: FaultKind, now: Instant, log: &mut L) {
        let Some(spec) = self.config.breaker else {
            return;
        };
        let tables = &self.config.tables;
        let counts = tables.counts_against_health.has(kind)
            && RouterConfig::reaches(tables.scope_of(kind), spec.scope);
        let hot = &self.hot[usize::from(call.route.0)];
        let breaker = &mut self.breakers[usize::from(hot.breaker)];
        let was_closed = breaker.is_closed();
        let effect = if counts {
            breaker.failure(&spec, call.epoch, now)
        } else {
            breaker.release(call.epoch)
        };
        match effect {
            Effect::Opened(until) => {
                self.open += u32::from(was_closed);
                log.breaker(call.route, BreakerChange::Opened { until }, now);
            }
            Effect::Freed => log.breaker(call.route, BreakerChange::TrialFreed, now),
            Effect::Closed | Effect::None => {}
        }
    }

    /// Makes whatever the failure is about pause. A pause is only ever extended (R01).
    fn cool(&mut self, route: RouteId, fault: Fault, now: Instant) {
        let Some(spec) = self.config.cooldown else {
            return;
        };
        if !spec.kinds.has(fault.kind) {
            return;
        }
        let hint = fault.retry_after.filter(|_| spec.use_hint);
        let Some(pause) = hint.or(spec.base) else {
            return;
        };
        let until = now.after(pause.min(spec.max));
        let scope = self.config.tables.scope_of(fault.kind);
        let source = &self.config.routes[usize::from(route.0)];
        for (index, (hot, other)) in self.hot.iter_mut().zip(&self.config.routes).enumerate() {
            let shares = match scope {
                Scope::Request | Scope::Route => index == usize::from(route.0),
                Scope::Credential => other.credential == source.credential,
                Scope::Provider => other.provider == source.provider,
            };
            if shares {
                hot.cooldown_until = hot.cooldown_until.max(until);
            }
        }
        self.cooling_until = self.cooling_until.max(until);
    }

    /// The most a call can cost on `route` at list price; `None` if nobody can say.
    fn most(&self, need: &Need, route: RouteId) -> Option<Usd> {
        let price = self.config.routes.get(usize::from(route.0))?.price?;
        Some(price.of(need.input_tokens.get()?, need.output_cap.get()?))
    }

    /// Whether the account, if it has a limit, can pay the most the call can cost. A cost that nobody
    /// can bound is not admitted to a limited account.
    pub(super) fn can_pay(&self, call: &Call, route: RouteId) -> bool {
        let account = call.need.account.and_then(|account| self.account(account));
        account.is_none_or(|account| {
            self.most(&call.need, route)
                .is_some_and(|most| most <= account.left())
        })
    }

    /// Sets the most the call can cost aside. [`Router::can_pay`] has said yes.
    #[cold]
    #[inline(never)]
    pub(super) fn reserve(&mut self, call: &mut Call) {
        let most = self.most(&call.need, call.route);
        if let Some(id) = call.need.account
            && let Some(account) = self.accounts.get_mut(usize::from(id.0))
            && let Some(most) = most
        {
            account.reserve(most);
            call.reserved = Some(most);
        }
    }

    /// Ends the reservation at what the attempt cost. If nobody says what that is, it is the whole
    /// reservation when there was output, and nothing when there was none.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(&mut self, call: &mut Call, usage: Option<Usage>, had_output: bool) {
        let Some(reserved) = call.reserved.take() else {
            return;
        };
        let price = self
            .config
            .routes
            .get(usize::from(call.route.0))
            .and_then(|route| route.price);
        let known = |usage: Usage| Some(price?.of(usage.input.get()?, usage.output.get()?));
        let cost = match usage {
            Some(usage) => known(usage).unwrap_or(reserved),
            None if had_output => reserved,
            None => Usd::ZERO,
        };
        if let Some(id) = call.need.account
            && let Some(account) = self.accounts.get_mut(usize::from(id.0))
        {
            account.settle(reserved, cost);
        }
    }

    /// Gives the retry back that the call holds, if it does.
    #[cold]
    #[inline(never)]
    pub(super) fn release_retry(&mut self, call: &mut Call) {
        if call.holds_retry
            && call.generation == self.generation
            && let Some(ledger) = &mut self.ledger
        {
            ledger.release();
        }
        call.holds_retry = false;
    }
}
