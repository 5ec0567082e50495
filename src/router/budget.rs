//! Two kinds of budget: money per account, and retries as a share of traffic.

use crate::units::{Duration, Instant, Usd};

/// An account that may spend so much and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSpec {
    /// Its name, for messages.
    pub name: Box<str>,
    /// What it may spend in all.
    pub limit: Usd,
}

/// The state of an account.
///
/// `spent + reserved ≤ limit` holds after every step: a call reserves the most it can cost before it
/// is sent and settles on what it did cost, so any number of calls at once cannot all see the same
/// rest (R29).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// What it may spend in all.
    pub limit: Usd,
    /// What ended calls cost.
    pub spent: Usd,
    /// What calls in flight may cost at most.
    pub reserved: Usd,
    /// What providers billed beyond the most a call was to cost, and beyond what was left.
    pub overrun: Usd,
}

impl Account {
    pub(super) const fn new(limit: Usd) -> Self {
        Self {
            limit,
            spent: Usd::ZERO,
            reserved: Usd::ZERO,
            overrun: Usd::ZERO,
        }
    }

    /// What is neither spent nor reserved.
    #[must_use]
    pub const fn left(&self) -> Usd {
        let taken = self.spent.plus(self.reserved);
        Usd(self.limit.0.saturating_sub(taken.0))
    }

    /// Sets `amount` aside. The caller has compared it with [`Account::left`].
    pub(super) fn reserve(&mut self, amount: Usd) {
        debug_assert!(amount <= self.left());
        self.reserved = self.reserved.plus(amount);
    }

    /// Ends a reservation at its real cost.
    pub(super) fn settle(&mut self, reserved: Usd, cost: Usd) {
        self.reserved = Usd(self.reserved.0.saturating_sub(reserved.0));
        let fits = cost.min(self.left());
        self.spent = self.spent.plus(fits);
        self.overrun = self.overrun.plus(Usd(cost.0 - fits.0));
    }
}

/// How many retries there may be in proportion to the traffic, so that an outage is not made worse
/// by those who wait for its end. Only retries on the same route count; another route is another
/// server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryShare {
    /// Retries in flight or waiting, at most `percent` of the calls in progress or `reserve`,
    /// whichever is more. The form of Envoy's `retry_budget` (`budget_percent`,
    /// `min_retry_concurrency`).
    InFlight {
        /// Retries for a hundred calls in progress.
        percent: u32,
        /// Allowed whatever the traffic.
        reserve: u32,
    },
    /// Each call deposits `percent` hundredths of a retry, each retry takes a whole one, and
    /// deposits expire after `window`. The form of Finagle's `RetryBudget`.
    Window {
        /// Retries for a hundred calls.
        percent: u32,
        /// Retries a second allowed whatever the traffic.
        reserve_per_s: u32,
        /// How long a deposit lives.
        window: Duration,
    },
}

const SLOTS: usize = 10;

/// The state behind a [`RetryShare`].
#[derive(Clone, Debug)]
pub(super) struct RetryLedger {
    share: RetryShare,
    calls: u32,
    retries: u32,
    /// Deposits and withdrawals of the last window in hundredths of a retry, a slot per tenth of it.
    slots: [i64; SLOTS],
    /// Number of the slot that is being written, counted from the epoch.
    slot: u64,
}

impl RetryLedger {
    pub(super) const fn new(share: RetryShare) -> Self {
        Self {
            share,
            calls: 0,
            retries: 0,
            slots: [0; SLOTS],
            slot: 0,
        }
    }

    /// A call begins.
    pub(super) fn begin(&mut self, now: Instant) {
        self.calls = self.calls.saturating_add(1);
        if let RetryShare::Window {
            percent, window, ..
        } = self.share
        {
            *self.slot_at(window, now) += i64::from(percent);
        }
    }

    /// A call ends.
    pub(super) fn end(&mut self) {
        self.calls = self.calls.saturating_sub(1);
    }

    /// Takes one retry, if there is one. It is given back with [`RetryLedger::release`].
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let allowed = match self.share {
            RetryShare::InFlight { percent, reserve } => {
                let share = u64::from(self.calls) * u64::from(percent) / 100;
                u64::from(self.retries) < share.max(u64::from(reserve))
            }
            RetryShare::Window {
                reserve_per_s,
                window,
                ..
            } => {
                self.slot_at(window, now);
                let balance: i64 = self.slots.iter().sum();
                let reserve = u128::from(reserve_per_s) * u128::from(window.0) / 10_000;
                let reserve = i64::try_from(reserve).unwrap_or(i64::MAX / 2);
                let enough = balance.saturating_add(reserve) >= 100;
                if enough {
                    *self.slot_at(window, now) -= 100;
                }
                enough
            }
        };
        if allowed {
            self.retries = self.retries.saturating_add(1);
        }
        allowed
    }

    /// A retry has ended.
    pub(super) fn release(&mut self) {
        self.retries = self.retries.saturating_sub(1);
    }

    pub(super) fn reset(&mut self) {
        *self = Self::new(self.share);
    }

    /// The slot that `now` falls into, after forgetting what has expired.
    fn slot_at(&mut self, window: Duration, now: Instant) -> &mut i64 {
        let width = (window.0 / SLOTS as u64).max(1);
        let slot = (now.0 / width).max(self.slot);
        let expired = (slot - self.slot).min(SLOTS as u64);
        for step in 1..=expired {
            self.slots[((self.slot + step) % SLOTS as u64) as usize] = 0;
        }
        if slot - self.slot > SLOTS as u64 {
            self.slots = [0; SLOTS];
        }
        self.slot = slot;
        &mut self.slots[(slot % SLOTS as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r29_reservations_are_settled_and_never_pass_the_limit() {
        let mut account = Account::new(Usd(100));
        account.reserve(Usd(30));
        account.reserve(Usd(30));
        assert_eq!(account.left(), Usd(40));
        account.settle(Usd(30), Usd(10));
        account.settle(Usd(30), Usd(0));
        assert_eq!((account.spent, account.reserved), (Usd(10), Usd(0)));
    }

    #[test]
    fn a_bill_above_the_reservation_is_kept_apart() {
        let mut account = Account::new(Usd(100));
        account.reserve(Usd(90));
        account.settle(Usd(90), Usd(130));
        assert_eq!(account.spent, Usd(100));
        assert_eq!(account.overrun, Usd(30));
    }

    #[test]
    fn retries_in_flight_stay_below_the_share_of_calls() {
        let mut ledger = RetryLedger::new(RetryShare::InFlight {
            percent: 20,
            reserve: 3,
        });
        for _ in 0..50 {
            ledger.begin(Instant::ZERO);
        }
        let taken = (0..50).filter(|_| ledger.take(Instant::ZERO)).count();
        assert_eq!(taken, 10);
        ledger.release();
        assert!(ledger.take(Instant::ZERO));
        for _ in 0..50 {
            ledger.end();
        }
        assert!(!ledger.take(Instant::ZERO));
        for _ in 0..8 {
            ledger.release();
        }
        assert!(ledger.take(Instant::ZERO), "two in flight, reserve three");
    }

    #[test]
    fn deposits_expire_and_the_reserve_does_not() {
        let mut ledger = RetryLedger::new(RetryShare::Window {
            percent: 20,
            reserve_per_s: 1,
            window: Duration::from_secs(10),
        });
        for _ in 0..100 {
            ledger.begin(Instant::ZERO);
        }
        let take_all = |ledger: &mut RetryLedger, at: u64| {
            let at = Instant(at * 1_000_000);
            (0..1000).filter(|_| ledger.take(at)).count()
        };
        assert_eq!(take_all(&mut ledger, 5), 30, "20 % of 100 and 10 s × 1");
        assert_eq!(take_all(&mut ledger, 9), 0);
        assert_eq!(take_all(&mut ledger, 11), 0, "withdrawals outlive deposits");
        assert_eq!(take_all(&mut ledger, 40), 10);
        assert_eq!(take_all(&mut ledger, 1_000_000), 10);
    }
}
