//! The circuit breaker: after too many failures a route rests, then one trial decides.
//!
//! Three rules that other gateways' bug reports taught (R05, R01, TR-01 to TR-03):
//!
//! - After the cooldown there is exactly one trial, and every way out of it frees the slot: success,
//!   failure, a fault that says nothing about health, a cancelled call. A trial that never ends is
//!   taken for lost after one more cooldown.
//! - A cooldown may only be extended.
//! - An attempt that was sent before the breaker opened says nothing about the breaker any more.

use crate::units::{Duration, Instant};

/// What shares one breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerScope {
    /// Every route has its own.
    Route,
    /// All routes called with the same credential.
    Credential,
    /// All routes of the same provider.
    Provider,
}

/// When a breaker opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trip {
    /// After this many failures in a row.
    Consecutive(u32),
    /// When more than `percent` of the results in the current window are failures, and there are at
    /// least `results_min`. Windows follow each other without overlap; the first result after the
    /// end of one begins the next.
    Share {
        /// Failures in a hundred results.
        percent: u32,
        /// Fewer results than this prove nothing.
        results_min: u32,
        /// Length of the window.
        window: Duration,
    },
}

/// How breakers behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSpec {
    /// When it opens.
    pub trip: Trip,
    /// How long it stays open.
    pub cooldown: Duration,
    /// Whether the n-th opening in a row lasts n cooldowns (Envoy's outlier ejection).
    pub grows: bool,
    /// Longest cooldown when it grows.
    pub cooldown_max: Duration,
    /// What shares one breaker.
    pub scope: BreakerScope,
    /// Whether one trial decides after the cooldown. If not, it closes by itself.
    pub trial: bool,
    /// Whether the failure that opens it also ends the call's retries on that route.
    pub stops_retries: bool,
}

impl Default for BreakerSpec {
    /// Three failures in a row, 30 s, one breaker per route, one trial; an opening stops retries.
    fn default() -> Self {
        Self {
            trip: Trip::Consecutive(3),
            cooldown: Duration::from_secs(30),
            grows: false,
            cooldown_max: Duration::MAX,
            scope: BreakerScope::Route,
            trial: true,
            stops_retries: true,
        }
    }
}

/// The state of a breaker, for inspection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum BreakerState {
    /// Requests pass.
    Closed {
        /// Failures counted so far.
        failures: u32,
    },
    /// Nothing passes before `until`; the first request from then on is the trial.
    Open {
        /// End of the cooldown.
        until: Instant,
    },
    /// The trial is in flight; nothing else passes.
    HalfOpen {
        /// When the trial is taken for lost.
        lost_at: Instant,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    HalfOpen { until: Instant, lost_at: Instant },
}

/// Whether a request may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Yes.
    Free,
    /// Yes, as the one trial (or, without trials, because the cooldown is over).
    Trial,
    /// Not before then.
    No(Instant),
}

/// What a result did to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// No change of state.
    None,
    /// It opened, or stayed open for longer.
    Opened(Instant),
    /// It closed.
    Closed,
    /// The trial's slot is free again.
    Freed,
}

/// One breaker. `epoch` tells attempts apart: it changes when the breaker opens and when a trial
/// begins, so in `HalfOpen` only the trial carries the present epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaker {
    state: State,
    failures: u32,
    results: u32,
    window_end: Instant,
    openings: u32,
    epoch: u32,
}

impl Breaker {
    pub(super) const NEW: Self = Self {
        state: State::Closed,
        failures: 0,
        results: 0,
        window_end: Instant::ZERO,
        openings: 0,
        epoch: 0,
    };

    #[inline(always)]
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether a success would change anything (if successes are not counted as such).
    #[inline(always)]
    pub(super) fn is_spotless(&self) -> bool {
        self.is_closed() && self.failures == 0 && self.openings == 0
    }

    pub(super) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed => BreakerState::Closed {
                failures: self.failures,
            },
            State::Open { until } => BreakerState::Open { until },
            State::HalfOpen { lost_at, .. } => BreakerState::HalfOpen { lost_at },
        }
    }

    #[inline(always)]
    pub(super) fn pass(&self, now: Instant) -> Pass {
        match self.state {
            State::Closed => Pass::Free,
            State::Open { until } | State::HalfOpen { lost_at: until, .. } if now < until => {
                Pass::No(until)
            }
            State::Open { .. } | State::HalfOpen { .. } => Pass::Trial,
        }
    }

    /// The trial is being sent. Without trials the breaker just closes.
    pub(super) fn begin_trial(&mut self, spec: &BreakerSpec, now: Instant) -> Effect {
        let until = match self.state {
            State::Open { until } | State::HalfOpen { until, .. } => until,
            State::Closed => return Effect::None,
        };
        if !spec.trial {
            self.close();
            return Effect::Closed;
        }
        self.epoch = self.epoch.wrapping_add(1);
        self.state = State::HalfOpen {
            until,
            // A cooldown of zero would lose the trial at once and admit everybody.
            lost_at: now.after(spec.cooldown.max(Duration(1))),
        };
        Effect::None
    }

    /// An attempt of `epoch` brought an answer.
    pub(super) fn success(&mut self, spec: &BreakerSpec, epoch: u32, now: Instant) -> Effect {
        if epoch != self.epoch {
            return Effect::None;
        }
        self.openings = 0;
        if !self.is_closed() {
            self.close();
            return Effect::Closed;
        }
        match spec.trip {
            Trip::Consecutive(_) => self.failures = 0,
            Trip::Share { window, .. } => self.count(window, now),
        }
        Effect::None
    }

    /// An attempt of `epoch` failed in a way that counts.
    pub(super) fn failure(&mut self, spec: &BreakerSpec, epoch: u32, now: Instant) -> Effect {
        if epoch != self.epoch {
            return Effect::None;
        }
        if !self.is_closed() {
            return self.open(spec, now);
        }
        let trips = match spec.trip {
            Trip::Consecutive(threshold) => {
                self.failures = self.failures.saturating_add(1);
                self.failures >= threshold
            }
            Trip::Share {
                percent,
                results_min,
                window,
            } => {
                self.count(window, now);
                self.failures = self.failures.saturating_add(1);
                self.results >= results_min
                    && u64::from(self.failures) * 100 > u64::from(percent) * u64::from(self.results)
            }
        };
        if trips {
            self.open(spec, now)
        } else {
            Effect::None
        }
    }

    /// An attempt of `epoch` ended without saying anything about health.
    pub(super) fn release(&mut self, epoch: u32) -> Effect {
        match self.state {
            State::HalfOpen { until, .. } if epoch == self.epoch => {
                self.state = State::Open { until };
                Effect::Freed
            }
            _ => Effect::None,
        }
    }

    fn count(&mut self, window: Duration, now: Instant) {
        if now >= self.window_end {
            self.failures = 0;
            self.results = 0;
            self.window_end = now.after(window);
        }
        self.results = self.results.saturating_add(1);
    }

    fn open(&mut self, spec: &BreakerSpec, now: Instant) -> Effect {
        self.openings = self.openings.saturating_add(1);
        let cooldown = if spec.grows {
            let grown = spec.cooldown.0.saturating_mul(u64::from(self.openings));
            Duration(grown).min(spec.cooldown_max)
        } else {
            spec.cooldown
        };
        let mut until = now.after(cooldown);
        if let State::Open { until: old } | State::HalfOpen { until: old, .. } = self.state {
            until = until.max(old);
        }
        self.state = State::Open { until };
        self.epoch = self.epoch.wrapping_add(1);
        self.failures = 0;
        self.results = 0;
        self.window_end = Instant::ZERO;
        Effect::Opened(until)
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.failures = 0;
        self.results = 0;
        self.window_end = Instant::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: BreakerSpec = BreakerSpec {
        trip: Trip::Consecutive(3),
        cooldown: Duration(30),
        grows: false,
        cooldown_max: Duration::MAX,
        scope: BreakerScope::Route,
        trial: true,
        stops_retries: true,
    };

    fn opened(at: u64) -> Breaker {
        let mut breaker = Breaker::NEW;
        for _ in 0..3 {
            breaker.failure(&SPEC, breaker.epoch(), Instant(at));
        }
        assert_eq!(breaker.pass(Instant(at)), Pass::No(Instant(at + 30)));
        breaker
    }

    #[test]
    fn tr02_after_the_cooldown_one_request_passes_not_all() {
        let mut breaker = opened(0);
        assert_eq!(breaker.pass(Instant(29)), Pass::No(Instant(30)));
        assert_eq!(breaker.pass(Instant(30)), Pass::Trial);
        breaker.begin_trial(&SPEC, Instant(30));
        assert_eq!(breaker.pass(Instant(30)), Pass::No(Instant(60)));
        assert_eq!(
            breaker.success(&SPEC, breaker.epoch(), Instant(31)),
            Effect::Closed
        );
        assert_eq!(breaker.pass(Instant(31)), Pass::Free);
    }

    #[test]
    fn a_failed_trial_restarts_the_cooldown() {
        let mut breaker = opened(0);
        breaker.begin_trial(&SPEC, Instant(40));
        let effect = breaker.failure(&SPEC, breaker.epoch(), Instant(45));
        assert_eq!(effect, Effect::Opened(Instant(75)));
    }

    #[test]
    fn a_result_from_before_the_opening_changes_nothing() {
        let mut breaker = Breaker::NEW;
        let early = breaker.epoch();
        for _ in 0..3 {
            breaker.failure(&SPEC, early, Instant(0));
        }
        breaker.begin_trial(&SPEC, Instant(30));
        let before = breaker.state();
        assert_eq!(breaker.success(&SPEC, early, Instant(31)), Effect::None);
        assert_eq!(breaker.failure(&SPEC, early, Instant(31)), Effect::None);
        assert_eq!(breaker.release(early), Effect::None);
        assert_eq!(breaker.state(), before);
    }

    #[test]
    fn r05_a_trial_that_never_ends_is_lost_after_one_more_cooldown() {
        let mut breaker = opened(0);
        breaker.begin_trial(&SPEC, Instant(30));
        let lost = breaker.epoch();
        assert_eq!(breaker.pass(Instant(59)), Pass::No(Instant(60)));
        assert_eq!(breaker.pass(Instant(60)), Pass::Trial);
        breaker.begin_trial(&SPEC, Instant(60));
        // The lost one turns up after all: too late to speak for the new trial.
        assert_eq!(breaker.failure(&SPEC, lost, Instant(61)), Effect::None);
        assert_eq!(breaker.pass(Instant(61)), Pass::No(Instant(90)));
    }

    #[test]
    fn cb04_it_opens_by_share_only_with_enough_results() {
        let spec = BreakerSpec {
            trip: Trip::Share {
                percent: 50,
                results_min: 5,
                window: Duration(60),
            },
            ..SPEC
        };
        let mut breaker = Breaker::NEW;
        for second in 0..4 {
            assert_eq!(breaker.failure(&spec, 0, Instant(second)), Effect::None);
        }
        assert_eq!(
            breaker.failure(&spec, 0, Instant(4)),
            Effect::Opened(Instant(34))
        );
        // Exactly half is not more than half; and a new window forgets.
        let mut breaker = Breaker::NEW;
        for second in 0..20 {
            breaker.success(&spec, 0, Instant(second));
            assert_eq!(breaker.failure(&spec, 0, Instant(second)), Effect::None);
        }
        for second in 60..64 {
            assert_eq!(breaker.failure(&spec, 0, Instant(second)), Effect::None);
        }
    }

    #[test]
    fn a_growing_cooldown_grows_to_its_limit_and_starts_again_after_a_success() {
        let spec = BreakerSpec {
            trip: Trip::Consecutive(1),
            grows: true,
            cooldown_max: Duration(70),
            trial: false,
            ..SPEC
        };
        let mut breaker = Breaker::NEW;
        let mut now = Instant(0);
        for expected in [30, 60, 70, 70] {
            let effect = breaker.failure(&spec, breaker.epoch(), now);
            assert_eq!(effect, Effect::Opened(now.after(Duration(expected))));
            now = now.after(Duration(expected));
            assert_eq!(breaker.begin_trial(&spec, now), Effect::Closed);
        }
        breaker.success(&spec, breaker.epoch(), now);
        let effect = breaker.failure(&spec, breaker.epoch(), now);
        assert_eq!(effect, Effect::Opened(now.after(Duration(30))));
    }
}
