//! What was decided about requests, one by one: an even sample of them that fits into memory.
//!
//! A ledger keeps every k-th request, from the first one on. k is a power of two: when there is no more room,
//! every other request is struck out and k doubles, so that nobody has to know beforehand how many will come, and
//! the ledgers of all contestants keep the same ones.

use std::collections::BTreeMap;

use super::drive::Outcome;
use crate::policy::{Ask, Policy, Why};

/// Reasons that one policy's ledger tells apart; all others share the last place.
const REASONS_MAX: usize = 4_096;

/// One contestant's ledger.
#[derive(Debug)]
pub(super) struct Ledger {
    most: usize,
    every: u64,
    /// Of requests 0, `every`, 2 · `every`, …
    entries: Vec<Entry>,
    places: BTreeMap<u32, u16>,
    reasons: Vec<String>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) task: u16,
    pub(super) tenant: u16,
    /// Index into the ledger's reasons.
    pub(super) reason: u16,
    pub(super) outcome: Outcome,
    pub(super) mirror: Option<Outcome>,
}

/// A ledger that is closed.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) every: u64,
    pub(super) entries: Vec<Entry>,
    pub(super) reasons: Vec<String>,
}

impl Ledger {
    /// Room for `most` requests, at least one. If it is known that no more than `requests` come, those that
    /// will be struck out are never looked at.
    pub(super) fn new(most: usize, requests: Option<u64>) -> Self {
        let most = most.max(1);
        let mut every = 1_u64;
        while requests.is_some_and(|n| n.div_ceil(every) > most as u64) {
            every *= 2;
        }
        Self {
            most,
            every,
            entries: Vec::new(),
            places: BTreeMap::new(),
            reasons: Vec::new(),
        }
    }

    /// The distance between requests that are kept.
    pub(super) fn every(&self) -> u64 {
        self.every
    }

    pub(super) fn keeps(&self, number: u64) -> bool {
        number.is_multiple_of(self.every)
    }

    /// The policy has decided about a request, and is as it was then. Requests come in their order.
    pub(super) fn decided(&mut self, number: u64, ask: &Ask, policy: &dyn Policy, why: Why) {
        if !self.keeps(number) {
            return;
        }
        let reason = self.reason(ask, policy, why);
        self.entries.push(Entry {
            task: ask.task,
            tenant: ask.tenant,
            reason,
            outcome: Outcome::UNDETERMINED,
            mirror: None,
        });
        while self.entries.len() > self.most {
            let mut place = 0;
            self.entries.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
    }

    fn reason(&mut self, ask: &Ask, policy: &dyn Policy, why: Why) -> u16 {
        if let Some(known) = self.places.get(&why.0) {
            return *known;
        }
        let place = self.reasons.len().min(REASONS_MAX) as u16;
        if self.reasons.len() <= REASONS_MAX {
            self.reasons.push(if self.reasons.len() == REASONS_MAX {
                "one of more reasons than are told apart".to_owned()
            } else {
                policy.explain(ask, why)
            });
        }
        if usize::from(place) < REASONS_MAX {
            self.places.insert(why.0, place);
        }
        place
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        if !self.keeps(number) {
            return None;
        }
        let place = usize::try_from(number / self.every).ok()?;
        self.entries.get_mut(place)
    }

    /// The request has come to its end.
    pub(super) fn ended(&mut self, number: u64, outcome: Outcome) {
        if let Some(entry) = self.entry(number) {
            entry.outcome = outcome;
        }
    }

    /// So has its copy.
    pub(super) fn mirrored(&mut self, number: u64, copy: Outcome) {
        if let Some(entry) = self.entry(number) {
            entry.mirror = Some(copy);
        }
    }

    pub(super) fn close(self) -> Closed {
        Closed {
            every: self.every,
            entries: self.entries,
            reasons: self.reasons,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Requirement;
    use crate::policy::{Asks, Decision};
    use crate::router::{Plan, RouteId};
    use crate::units::{Score, Tokens};

    /// A policy that gives the number it is told as its reason.
    struct Numbers;

    impl Policy for Numbers {
        fn plan(&mut self, _ask: &Ask) -> Decision {
            Decision {
                serve: Plan::single(RouteId(0)),
                mirror: None,
                why: Why(0),
            }
        }

        fn fork(&self) -> Box<dyn Policy> {
            Box::new(Self)
        }

        fn explain(&self, _ask: &Ask, why: Why) -> String {
            format!("reason {}", why.0)
        }
    }

    fn ask() -> Ask {
        Asks {
            task: &[3],
            tenant: &[1],
            language: &[0],
            user: &[0],
            session: &[0],
            prompt_chars: &[Tokens::UNKNOWN],
            difficulty_hint: &[0.0],
            input_tokens: &[Tokens::UNKNOWN],
            output_cap: &[Tokens::UNKNOWN],
            tools: &[false],
            requirement: &[Requirement::NONE],
            word: &[0],
            key: 0,
        }
        .get(0)
    }

    fn kept(most: usize, known: Option<u64>, requests: u64) -> Closed {
        let mut ledger = Ledger::new(most, known);
        for number in 0..requests {
            ledger.decided(number, &ask(), &Numbers, Why(number as u32 % 3));
            // The end of a request may come after later ones were decided about.
            if let Some(before) = number.checked_sub(5) {
                ledger.ended(before, Outcome::new(before, Score::RIGHT, 0, 1, 0));
            }
        }
        for number in requests.saturating_sub(5)..requests {
            ledger.ended(number, Outcome::new(number, Score::RIGHT, 0, 1, 0));
        }
        ledger.close()
    }

    #[test]
    fn an_even_sample_is_kept_that_does_not_depend_on_what_was_known() {
        for requests in [0, 1, 2, 99, 100, 101, 1_000, 1_601] {
            let known = kept(100, Some(requests), requests);
            let unknown = kept(100, None, requests);
            assert_eq!(known.every, unknown.every);
            for ledger in [known, unknown] {
                let (every, n) = (ledger.every, ledger.entries.len() as u64);
                assert_eq!(n, requests.div_ceil(every));
                assert!(n <= 100 && (every == 1 || n > 50));
                for (place, entry) in ledger.entries.iter().enumerate() {
                    let number = place as u64 * every;
                    assert_eq!(entry.outcome.cost, number, "every {every}");
                    let reason = &ledger.reasons[usize::from(entry.reason)];
                    assert_eq!(*reason, format!("reason {}", number % 3));
                    assert_eq!((entry.task, entry.tenant), (3, 1));
                }
            }
        }
    }

    #[test]
    fn too_many_reasons_share_a_place() {
        let mut ledger = Ledger::new(10_000, None);
        for number in 0..5_000 {
            ledger.decided(number, &ask(), &Numbers, Why(number as u32));
        }
        let ledger = ledger.close();
        let reason = |at: usize| &ledger.reasons[usize::from(ledger.entries[at].reason)];
        assert_eq!(ledger.reasons.len(), REASONS_MAX + 1);
        assert_eq!(reason(REASONS_MAX - 1), "reason 4095");
        assert_eq!(reason(REASONS_MAX), reason(4_999));
        assert!(reason(4_999).contains("more reasons"));
    }
}
