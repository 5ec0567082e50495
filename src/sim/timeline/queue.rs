//! The queue of events: a calendar of short days, in which most events cost neither search nor swap.
//!
//! Brown's calendar queue (Communications of the ACM, 1988) with days of a fixed length: an event is put
//! onto the heap of its day unsorted, and a day is sorted when it comes. What lies beyond the calendar
//! waits in a binary heap. Events come out in the order of (time, order), whatever order they went in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::units::Instant;

/// A day has 2¹³ µs, some 8 ms.
const DAY_BITS: u32 = 13;
/// Days of the calendar, some 33 s in all.
const DAYS: usize = 4_096;

/// When something happens, which of the things that happen then comes first, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) at: Instant,
    /// Among events of the same moment, the lower one is first. No two are equal.
    pub(super) order: u64,
    pub(super) place: u32,
}

impl Event {
    fn day(&self) -> u64 {
        self.at.0 >> DAY_BITS
    }
}

/// Events to come.
#[derive(Debug)]
pub(super) struct Queue {
    /// Number of the day that has come.
    today: u64,
    /// The rest of today and whatever was put before it, last first.
    now: Vec<Event>,
    /// The days after today, by their number modulo [`DAYS`].
    days: Vec<Vec<Event>>,
    /// Which of them have events, as bits.
    occupied: [u64; DAYS / 64],
    /// Events in `days`.
    in_days: usize,
    /// What is beyond the calendar.
    later: BinaryHeap<Reverse<Event>>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            today: 0,
            now: Vec::new(),
            days: vec![Vec::new(); DAYS],
            occupied: [0; DAYS / 64],
            in_days: 0,
            later: BinaryHeap::new(),
        }
    }

    /// Puts an event in.
    #[inline]
    pub(super) fn push(&mut self, event: Event) {
        let day = event.day();
        if day <= self.today {
            let place = self.now.partition_point(|other| *other > event);
            self.now.insert(place, event);
        } else if day - self.today < DAYS as u64 {
            self.put(event);
        } else {
            self.later.push(Reverse(event));
        }
    }

    #[inline(always)]
    fn put(&mut self, event: Event) {
        let slot = (event.day() % DAYS as u64) as usize;
        self.days[slot].push(event);
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.in_days += 1;
    }

    /// Takes the first event out, unless it is later than `end` or there is none.
    #[inline]
    pub(super) fn pop_until(&mut self, end: Instant) -> Option<Event> {
        if self.now.is_empty() && !self.turn() {
            return None;
        }
        let first = self.now.last()?;
        if first.at > end {
            return None;
        }
        self.now.pop()
    }

    /// Turns to the next day that has events; false if there is none.
    fn turn(&mut self) -> bool {
        if self.in_days == 0 {
            let Some(Reverse(first)) = self.later.peek() else {
                return false;
            };
            // One day before it, so that it is put into the calendar like all others.
            self.today = first.day() - 1;
        } else {
            self.today = self.next_occupied() - 1;
        }
        while let Some(Reverse(first)) = self.later.peek()
            && first.day() - self.today < DAYS as u64
        {
            let event = *first;
            self.later.pop();
            self.put(event);
        }
        // The first event may have come from beyond the calendar.
        self.today = self.next_occupied();
        let slot = (self.today % DAYS as u64) as usize;
        std::mem::swap(&mut self.now, &mut self.days[slot]);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        self.in_days -= self.now.len();
        self.now.sort_unstable_by(|a, b| b.cmp(a));
        true
    }

    /// Number of the first day after today that has events. There is one.
    fn next_occupied(&self) -> u64 {
        let from = self.today + 1;
        let slot = (from % DAYS as u64) as usize;
        let (word, bit) = (slot / 64, slot % 64);
        let words = DAYS / 64;
        let first = self.occupied[word] & (u64::MAX << bit);
        if first != 0 {
            return from + u64::from(first.trailing_zeros()) - bit as u64;
        }
        for step in 1..=words {
            let bits = self.occupied[(word + step) % words];
            if bits != 0 {
                let ahead = step * 64 - bit + bits.trailing_zeros() as usize;
                return from + ahead as u64;
            }
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain binary heap, with times near and far, equal times, and pushes in between.
        #[test]
        fn events_come_out_in_order(
            steps in prop::collection::vec(
                (0u8..4, prop_oneof![0u64..50_000, 0u64..100_000_000, 0u64..40_000_000_000, Just(0)]),
                1..400,
            ),
        ) {
            let mut queue = Queue::new();
            let mut plain = BinaryHeap::new();
            let mut now = 0;
            let mut order = 0;
            for (what, ahead) in steps {
                if what > 0 {
                    // Not before what came out last, as in a simulation.
                    let event = Event { at: Instant(now + ahead), order, place: order as u32 };
                    order += 1;
                    queue.push(event);
                    plain.push(Reverse(event));
                } else {
                    let end = Instant(now + ahead);
                    loop {
                        let expected = match plain.peek() {
                            Some(Reverse(event)) if event.at <= end => {
                                let event = *event;
                                plain.pop();
                                Some(event)
                            }
                            _ => None,
                        };
                        let found = queue.pop_until(end);
                        prop_assert_eq!(found, expected);
                        match found {
                            Some(event) => now = event.at.0,
                            None => break,
                        }
                    }
                    now = now.max(end.0);
                }
            }
            let rest: Vec<Event> = std::iter::from_fn(|| queue.pop_until(Instant(u64::MAX))).collect();
            let mut expected: Vec<Event> = plain.into_iter().map(|Reverse(event)| event).collect();
            expected.sort_unstable();
            prop_assert_eq!(rest, expected);
        }
    }
}
