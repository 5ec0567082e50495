//! What the router tells while calls overlap: breakers, refusals, and, if asked for, every line of the trace.

use super::passage::{CHANGES_MAX, Change, Counts, Passage, RouteBin};
use crate::router::{Alert, BreakerChange, FaultKind, Log, RouteId, Router, Skip, Verdict};
use crate::sim::stage::Tracer;
use crate::timeline::Dimension;
use crate::units::{Duration, Instant};

/// Listens to one contestant's router.
pub(super) struct Watch<'a> {
    pub(super) passage: Passage,
    /// Lines, if they are wanted.
    pub(super) tracer: Option<Tracer<'a>>,
    /// By route: the first route that shares its breaker.
    guards: Vec<RouteId>,
    /// By route: since when its breaker is not closed.
    open_since: Vec<Option<Instant>>,
    /// By route: the limit that refused the attempt there that was sent last of those that failed, if one did.
    pub(super) refused_by: Vec<Option<(u16, Dimension)>>,
    /// A limit on account of which a route was passed over in the present step.
    pub(super) passed_over: Option<(u16, Dimension)>,
    /// The bin that was asked for last: when it begins, when it ends, its index. Most moments fall into the
    /// same one as the moment before, and then nothing is divided.
    recent: (Instant, Instant, usize),
    /// Whether a route was passed over in the present step that could have been asked at another time.
    pub(super) is_paused: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(passage: Passage, tracer: Option<Tracer<'a>>, router: &Router) -> Self {
        let routes = passage.routes.len();
        let all = (0..routes).map(|route| router.breaker_of(RouteId(route as u16)));
        Self {
            passage,
            tracer,
            guards: all.collect(),
            open_since: vec![None; routes],
            refused_by: vec![None; routes],
            passed_over: None,
            recent: (Instant::ZERO, Instant::ZERO, 0),
            is_paused: false,
        }
    }

    /// The index of the bin that a moment falls into.
    #[inline(always)]
    fn index(&mut self, at: Instant) -> usize {
        let (from, end, index) = self.recent;
        if from <= at && at < end {
            return index;
        }
        let index = self.passage.bin_of(at);
        let width = self.passage.bin.0.max(1);
        let from = Instant(at.0 - at.0 % width);
        // The last bin has no end of its own, but all that is in it has the same index.
        self.recent = (from, Instant(from.0.saturating_add(width)), index);
        index
    }

    /// Counts of requests in the bin of a moment.
    #[inline(always)]
    pub(super) fn counts_at(&mut self, at: Instant) -> &mut Counts {
        let index = self.index(at);
        let bins = &mut self.passage.bins;
        if bins.len() <= index {
            bins.resize(index + 1, Counts::default());
        }
        &mut bins[index]
    }

    /// The bin of a route's time line that `now` falls into.
    #[inline(always)]
    pub(super) fn bin(&mut self, route: usize, now: Instant) -> &mut RouteBin {
        let index = self.index(now);
        let bins = &mut self.passage.routes[route].bins;
        if bins.len() <= index {
            bins.resize(index + 1, RouteBin::default());
        }
        &mut bins[index]
    }

    /// A breaker is no longer open, or the run is over.
    fn close(&mut self, route: usize, now: Instant) {
        let Some(since) = self.open_since[route].take() else {
            return;
        };
        let width = self.passage.bin;
        self.passage.routes[route].breaker_open = self.passage.routes[route]
            .breaker_open
            .plus(now.since(since));
        let mut from = since;
        while from < now {
            let index = self.passage.bin_of(from);
            let ends = if index + 1 >= super::passage::BINS_MAX || width == Duration::ZERO {
                now
            } else {
                Instant((index as u64 + 1).saturating_mul(width.0)).min(now)
            };
            let bin = self.bin(route, from);
            bin.breaker_open = bin.breaker_open.plus(ends.since(from));
            from = ends;
        }
    }

    /// The run is over.
    pub(super) fn finish(&mut self, now: Instant) {
        for route in 0..self.open_since.len() {
            self.close(route, now);
        }
    }
}

impl Log for Watch<'_> {
    fn attempt(&mut self, route: RouteId, attempt: u8, now: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.attempt(route, attempt, now);
        }
    }

    fn shown(&mut self, route: RouteId, attempt: u8, now: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.shown(route, attempt, now);
        }
    }

    fn reply(&mut self, route: RouteId, attempt: u8, now: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.reply(route, attempt, now);
        }
    }

    fn fault(&mut self, route: RouteId, attempt: u8, kind: FaultKind, mid: bool, now: Instant) {
        if mid && let Some(route) = self.passage.routes.get_mut(usize::from(route.0)) {
            route.cut += 1;
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.fault(route, attempt, kind, mid, now);
        }
    }

    fn skip(&mut self, route: RouteId, why: Skip, now: Instant) {
        if matches!(why, Skip::BreakerOpen { .. } | Skip::CoolingDown { .. }) {
            self.is_paused = true;
            let refused = self.refused_by.get(usize::from(route.0)).copied();
            self.passed_over = refused.flatten().or(self.passed_over);
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.skip(route, why, now);
        }
    }

    fn breaker(&mut self, route: RouteId, change: BreakerChange, now: Instant) {
        // It concerns all routes that share the breaker, whoever's attempt it was.
        let guard = self.guards[usize::from(route.0)];
        for index in 0..self.guards.len() {
            if self.guards[index] != guard {
                continue;
            }
            match change {
                BreakerChange::Opened { .. } => {
                    self.open_since[index].get_or_insert(now);
                    self.passage.routes[index].opened += 1;
                }
                BreakerChange::Closed => self.close(index, now),
                BreakerChange::HalfOpen | BreakerChange::TrialFreed => {}
            }
        }
        if self.passage.changes.len() < CHANGES_MAX {
            self.passage.changes.push(Change {
                at: now,
                route,
                change,
            });
        } else {
            self.passage.changes_dropped += 1;
        }
        if let Some(tracer) = &mut self.tracer {
            tracer.breaker(route, change, now);
        }
    }

    fn wait(&mut self, route: RouteId, attempt: u8, hint: Option<Duration>, until: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.wait(route, attempt, hint, until);
        }
    }

    fn verdict(&mut self, route: RouteId, verdict: Verdict, now: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.verdict(route, verdict, now);
        }
    }

    fn alert(&mut self, route: RouteId, alert: Alert, now: Instant) {
        if let Some(tracer) = &mut self.tracer {
            tracer.alert(route, alert, now);
        }
    }
}
