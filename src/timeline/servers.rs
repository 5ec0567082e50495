//! The servers behind a route: a queue in order of arrival, and how long each answer takes.
//!
//! A route with `slots = c` has c servers and one queue that is served first come, first served (Kiefer
//! and Wolfowitz, 1955). Attempts arrive in the order of time, so the whole course of one is known when
//! it arrives: it starts when the earliest server gets free. Nobody who comes later can change that.
//!
//! A caller that hangs up before its turn never occupies a server; one that hangs up later frees it at
//! that moment, as servers that notice a closed connection do. A route without `slots` has no state.

#[cfg(test)]
mod examples;
#[cfg(test)]
mod queues;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::latency::{Latency, Spread};
use crate::router::Limits;
use crate::units::{Duration, Instant, Tokens, mix64};

/// Splits off the bits that decide about stalls.
const STALL: u64 = 0x7374_616c_6c2e_2e31;

/// Room for the ends of so many attempts is made beforehand.
const ROOM: usize = 1_024;

/// One attempt, for the servers.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// When it arrives.
    pub at: Instant,
    /// Its prompt.
    pub input: Tokens,
    /// Its answer.
    pub output: Tokens,
    /// How many times as long as usual it takes.
    pub slow: f64,
    /// Random bits.
    pub lanes: u64,
    /// When the caller hangs up.
    pub limits: Limits,
    /// Whether the caller sees the answer as it grows.
    pub stream: bool,
    /// Where the answer breaks off, if it does: this many 2³²ths of its time after the first token.
    pub breaks: Option<u32>,
}

/// How an attempt came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer was complete.
    Complete,
    /// It broke off.
    BrokeOff,
    /// The caller hung up while it was served.
    HungUp,
    /// The caller hung up before a server took it up.
    LeftQueue,
}

/// When what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When a server took it up, or would have.
    pub started: Instant,
    /// When the first token was there, or would have been.
    pub first_token: Instant,
    /// When the answer was complete, or would have been.
    pub ended: Instant,
    /// How it really ended.
    pub ending: Ending,
    /// When it really ended; its server is free again from then on.
    pub over: Instant,
}

/// The servers of all routes.
#[derive(Clone, Debug)]
pub struct Servers {
    routes: Vec<Route>,
}

/// A route's latency, ready for use, and its queue.
#[derive(Clone, Debug)]
struct Route {
    overhead_us: f64,
    /// Cached tokens counted in.
    per_input_token_us: f64,
    per_output_token_us: f64,
    unknown_input: u32,
    unknown_output: u32,
    first: Spread,
    pace: Spread,
    /// A lane below stalls.
    stall_below: u64,
    stall_us: f64,
    stall_spread: Spread,
    queue: Option<Queue>,
}

/// When servers get free.
#[derive(Clone, Debug)]
struct Queue {
    slots: usize,
    /// What each further attempt in service adds to the load factor.
    load_step: f64,
    /// Ends of the attempts in service. Those that are over stay until the next arrival.
    ends: BinaryHeap<Reverse<Instant>>,
}

impl Servers {
    /// All idle.
    #[must_use]
    pub fn new(latency: &[Latency]) -> Self {
        Self {
            routes: latency.iter().map(Route::new).collect(),
        }
    }

    /// Serves an attempt. Attempts come in the order of time.
    ///
    /// Everything about an attempt's times is fixed when it starts: its load factor is
    /// 1 + (load factor − 1) × (n − 1)/(slots − 1), where n attempts are in service with it then
    /// (llm-d-inference-sim's rule, its latency documentation, read November 2026). Whoever had to wait
    /// starts in a full house.
    #[must_use]
    #[inline]
    pub fn serve(&mut self, route: usize, work: &Work) -> Timing {
        let route = &mut self.routes[route];
        let Some(queue) = &mut route.queue else {
            return route.timing(work, work.at, 1.0);
        };
        let (started, others) = queue.turn(work.at);
        let load = 1.0 + queue.load_step * others as f64;
        let timing = route.timing(work, started, load);
        if let Some(queue) = &mut route.queue
            && timing.ending != Ending::LeftQueue
        {
            queue.occupy(timing.over);
        }
        timing
    }

    /// How long a refusal takes to come back: the route's overhead, always the same.
    #[must_use]
    #[inline(always)]
    pub fn overhead(&self, route: usize) -> Duration {
        micros(self.routes[route].overhead_us)
    }
}

impl Queue {
    /// When the next attempt would start, and how many others would be in service then.
    #[inline]
    fn turn(&mut self, now: Instant) -> (Instant, usize) {
        // A server that gets free at this very moment is free.
        while let Some(Reverse(end)) = self.ends.peek()
            && *end <= now
        {
            self.ends.pop();
        }
        match self.ends.peek() {
            Some(Reverse(end)) if self.ends.len() >= self.slots => (*end, self.slots - 1),
            _ => (now, self.ends.len()),
        }
    }

    /// The server that `turn` found is taken until `over`.
    #[inline]
    fn occupy(&mut self, over: Instant) {
        if self.ends.len() < self.slots {
            self.ends.push(Reverse(over));
        } else if let Some(mut earliest) = self.ends.peek_mut() {
            *earliest = Reverse(over);
            drop::<PeekMut<'_, _>>(earliest);
        }
    }
}

impl Route {
    fn new(latency: &Latency) -> Self {
        let queue = latency.slots().map(|slots| Queue {
            slots: slots as usize,
            load_step: match slots {
                1 => 0.0,
                _ => (latency.load_factor - 1.0) / f64::from(slots - 1),
            },
            ends: BinaryHeap::with_capacity(ROOM.min(slots as usize)),
        });
        let stall = latency.stall.as_ref();
        Self {
            overhead_us: latency.overhead_us,
            per_input_token_us: latency.per_input_token_us * (1.0 - latency.cached_share),
            per_output_token_us: latency.per_output_token_us,
            unknown_input: latency.unknown_input,
            unknown_output: latency.unknown_output,
            first: latency.first.clone(),
            pace: latency.pace.clone(),
            stall_below: stall.map_or(0, |stall| stall.share.threshold()),
            stall_us: stall.map_or(0.0, |stall| stall.us),
            stall_spread: stall.map_or(Spread::NONE, |stall| stall.spread.clone()),
            queue,
        }
    }

    /// The course of an attempt that a server takes up at `started`.
    #[inline(always)]
    fn timing(&self, work: &Work, started: Instant, load: f64) -> Timing {
        let scale = load * work.slow;
        let input = f64::from(work.input.get().unwrap_or(self.unknown_input));
        let output = work.output.get().unwrap_or(self.unknown_output);
        let gaps = f64::from(output.saturating_sub(1));
        let first = self.overhead_us + input * self.per_input_token_us;
        let first = first * self.first.at(work.lanes as u32) * scale;
        let pace = self.per_output_token_us * self.pace.at((work.lanes >> 32) as u32) * scale;
        let first_token = started.after(micros(first + self.stall(work.lanes)));
        let rest = micros(gaps * pace);
        let ended = first_token.after(rest);

        // Whatever comes first ends it.
        let (mut ending, mut over) = (Ending::Complete, ended);
        if let Some(part) = work.breaks {
            let part = (u128::from(rest.0) * u128::from(part)) >> 32;
            (ending, over) = (Ending::BrokeOff, first_token.after(Duration(part as u64)));
        }
        let gives_up = work.at.after(work.limits.attempt);
        if over > gives_up {
            (ending, over) = (Ending::HungUp, gives_up);
        }
        if work.stream {
            let first_by = work.at.after(work.limits.ttft);
            if first_token > first_by && over > first_by {
                (ending, over) = (Ending::HungUp, first_by);
            } else if gaps > 0.0 && micros(pace) > work.limits.gap {
                let next_by = first_token.after(work.limits.gap);
                if over > next_by {
                    (ending, over) = (Ending::HungUp, next_by);
                }
            }
        }
        if over < started {
            ending = Ending::LeftQueue;
        }
        Timing {
            started,
            first_token,
            ended,
            ending,
            over,
        }
    }

    /// Microseconds before the first token that have nothing to do with the request.
    #[inline(always)]
    fn stall(&self, lanes: u64) -> f64 {
        if self.stall_below == 0 {
            return 0.0;
        }
        let bits = mix64(lanes ^ STALL);
        if bits >> 32 < self.stall_below {
            self.stall_us * self.stall_spread.at(bits as u32)
        } else {
            0.0
        }
    }
}

/// Whole microseconds of a number that is never negative. It saturates, at 292,000 years.
#[inline(always)]
fn micros(us: f64) -> Duration {
    // Through a signed number: that is one instruction.
    Duration((us + 0.5) as i64 as u64)
}
