//! Writes down what the router did, line by line, and keeps a digest of it.

use std::fmt::Write as _;

use sha2::Digest as _;

use super::Trace;
use crate::router::{Alert, BreakerChange, FaultKind, Log, RouteId, Skip, Verdict};
use crate::units::{Duration, Instant};

/// Writes a [`Trace`].
pub(in crate::sim) struct Tracer<'a> {
    routes: &'a [String],
    pub(in crate::sim) trace: Trace,
    digest: sha2::Sha256,
    keep_lines: bool,
    line: String,
    pub(in crate::sim) request: u64,
    /// `""`, or what is not the request itself: `mirror `, `judge `.
    pub(in crate::sim) origin: &'static str,
    failed_at: Option<Instant>,
}

impl<'a> Tracer<'a> {
    pub(in crate::sim) fn new(routes: &'a [String], keep_lines: bool) -> Self {
        Self {
            routes,
            trace: Trace::default(),
            digest: sha2::Sha256::new(),
            keep_lines,
            line: String::new(),
            request: 0,
            origin: "",
            failed_at: None,
        }
    }

    pub(in crate::sim) fn say(&mut self, now: Instant, what: std::fmt::Arguments<'_>) {
        self.line.clear();
        // Writing to a string does not fail.
        let _ = writeln!(
            self.line,
            "{} {} {}{what}",
            self.request, now.0, self.origin
        );
        self.digest.update(self.line.as_bytes());
        if self.keep_lines {
            self.trace.lines.push(self.line.trim_end().to_owned());
        }
    }

    fn name(&self, route: RouteId) -> &'a str {
        self.routes
            .get(usize::from(route.0))
            .map_or("?", String::as_str)
    }

    pub(in crate::sim) fn finish(mut self) -> Trace {
        for byte in self.digest.finalize() {
            let _ = write!(self.trace.sha256, "{byte:02x}");
        }
        self.trace
    }
}

impl Log for Tracer<'_> {
    fn attempt(&mut self, route: RouteId, attempt: u8, now: Instant) {
        self.trace.attempts += 1;
        let name = self.name(route);
        self.say(now, format_args!("attempt {name}#{attempt}"));
    }

    fn shown(&mut self, route: RouteId, attempt: u8, now: Instant) {
        let name = self.name(route);
        self.say(now, format_args!("shown {name}#{attempt}"));
    }

    fn reply(&mut self, route: RouteId, attempt: u8, now: Instant) {
        let name = self.name(route);
        self.say(now, format_args!("reply {name}#{attempt}"));
    }

    fn fault(&mut self, route: RouteId, attempt: u8, kind: FaultKind, mid: bool, now: Instant) {
        if mid {
            self.trace.failed_after_output += 1;
        } else {
            self.trace.failed += 1;
        }
        self.failed_at = Some(now);
        let (name, kind) = (self.name(route), kind.name());
        let mid = if mid { " mid-stream" } else { "" };
        self.say(now, format_args!("fault {name}#{attempt} {kind}{mid}"));
    }

    fn skip(&mut self, route: RouteId, why: Skip, now: Instant) {
        let name = self.name(route);
        self.say(now, format_args!("skip {name} {}", why.name()));
    }

    fn breaker(&mut self, route: RouteId, change: BreakerChange, now: Instant) {
        if matches!(change, BreakerChange::Opened { .. }) {
            self.trace.breakers_opened += 1;
        }
        let name = self.name(route);
        self.say(now, format_args!("breaker {name} {change:?}"));
    }

    fn wait(&mut self, route: RouteId, attempt: u8, hint: Option<Duration>, until: Instant) {
        let now = self.failed_at.unwrap_or(until);
        self.trace.waits += 1;
        self.trace.waited = self.trace.waited.plus(until.since(now));
        let name = self.name(route);
        let hint = hint.map_or(0, |hint| hint.0);
        self.say(
            now,
            format_args!("wait {name}#{attempt} hint {hint} until {}", until.0),
        );
    }

    fn verdict(&mut self, route: RouteId, verdict: Verdict, now: Instant) {
        let name = self.name(route);
        self.say(now, format_args!("verdict {name} {verdict:?}"));
    }

    fn alert(&mut self, route: RouteId, alert: Alert, now: Instant) {
        let name = self.name(route);
        self.say(now, format_args!("alert {name} {}", alert.kind.name()));
    }
}
