//! Rows in, sums out, one row at a time.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;

use super::bins::Bins;
use super::row::{Failed, Hint, Row};
use super::tie::{Open, OpenRequests, Tie, Tied, Visit};
use super::{
    ATTEMPTS_SHOWN, Failures, Options, Place, Reached, Residences, Ruling, STRAYS_MAX, Seen,
    Spread, Stray,
};
use crate::units::{Duration, Instant};

/// Most places that are told apart; attempts at others are one place without a name.
const PLACES_MAX: usize = 1_000;
/// Most reasons for not judging a residence that are told apart.
const REASONS_MAX: usize = 100;
/// Rows are written by many threads: so far apart two may stand in the wrong order.
const DISORDER: Duration = Duration::from_secs(1);
/// Numbers of rows that are remembered, to see when counting begins anew.
const SEQS_MAX: usize = 4_096;
/// Longest gap that quantiles tell apart: thirty days, in µs.
const GAP_MAX_US: u64 = 30 * 86_400 * 1_000_000;

pub(super) struct Summing<'a> {
    options: &'a Options<'a>,
    seen: Seen,
    place_of: BTreeMap<(String, Option<String>, Option<String>), u32>,
    /// By place: until when it asked not to be asked.
    quiet_until: Vec<Option<Instant>>,
    failures: BTreeMap<Failed, u64>,
    reasons: BTreeMap<String, u64>,
    bins: Bins,
    open: OpenRequests,
    retry_gaps: Gaps,
    failover_gaps: Gaps,
    session: Session,
}

/// One run of the server.
#[derive(Debug, Default)]
struct Session {
    /// Where it begins on the common time line.
    offset: Duration,
    /// The latest row so far, on the server's own clock.
    last: Instant,
    seqs: BTreeSet<u64>,
}

impl Session {
    /// Whether this row was written by a server that was started anew.
    fn is_over_at(&self, row: &Row) -> bool {
        let again = self.seqs.contains(&row.seq)
            || (self.seqs.len() == SEQS_MAX && self.seqs.first() > Some(&row.seq));
        again || self.last.since(row.at) > DISORDER
    }

    fn note(&mut self, row: &Row) {
        self.last = self.last.max(row.at);
        self.seqs.insert(row.seq);
        if self.seqs.len() > SEQS_MAX {
            self.seqs.pop_first();
        }
    }
}

struct Gaps(Option<Histogram<u64>>);

impl Gaps {
    fn new() -> Self {
        // The bounds are legal; without a histogram there are no quantiles.
        Self(Histogram::new_with_bounds(1, GAP_MAX_US, 3).ok())
    }

    fn note(&mut self, gap: Duration) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(gap.0);
        }
    }

    fn spread(&self) -> Spread {
        let Some(histogram) = self.0.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return Spread::default();
        };
        let at = |quantile| Duration(histogram.value_at_quantile(quantile));
        Spread {
            n: histogram.len(),
            min: Duration(histogram.min()),
            p50: at(0.5),
            p95: at(0.95),
            max: Duration(histogram.max()),
        }
    }
}

impl<'a> Summing<'a> {
    pub(super) fn new(options: &'a Options<'a>) -> Self {
        let seen = Seen {
            residences: options.residency.map(|_| Residences::default()),
            ..Seen::default()
        };
        Self {
            options,
            seen,
            place_of: BTreeMap::new(),
            quiet_until: Vec::new(),
            failures: BTreeMap::new(),
            reasons: BTreeMap::new(),
            bins: Bins::default(),
            open: OpenRequests::default(),
            retry_gaps: Gaps::new(),
            failover_gaps: Gaps::new(),
            session: Session::default(),
        }
    }

    /// Adds a row that stands in this line.
    pub(super) fn row(&mut self, row: &Row, line: u64) {
        if self.seen.sessions == 0 || self.session.is_over_at(row) {
            self.begin_session();
        }
        self.session.note(row);
        let at = row.at.after(self.session.offset);
        self.seen.length = self.seen.length.max(at.since(Instant::ZERO));
        if !row.is_attempt {
            self.seen.other_rows += 1;
            return;
        }
        while let Some(open) = self.open.expired(at, self.options.within) {
            self.close(&open);
        }
        self.attempt(row, line, at);
    }

    fn begin_session(&mut self) {
        self.close_all();
        self.seen.sessions += 1;
        self.quiet_until.fill(None);
        self.session = Session {
            offset: self.seen.length,
            ..Session::default()
        };
    }

    fn attempt(&mut self, row: &Row, line: u64, at: Instant) {
        let place = self.place(row);
        let tied = Tied::of(row, self.options.tie);
        let mut over = None;
        let open = self.open.take(&tied, |open| over = Some(open));
        if let Some(over) = over {
            self.close(&over);
        }
        let is_new = open.is_none();
        let mut open = open.unwrap_or_else(|| Open::new(tied.tie, at));
        let succeeded = row.failed.is_none();
        if is_new {
            open.first_succeeded = succeeded;
        } else {
            self.follow(&open, row, place, at);
        }
        self.meanwhile(&open, row, place, at);
        self.count(row, place, at, is_new);
        if row.header("x-routelab-tenant").is_some()
            || row.header("x-routelab-data-class").is_some()
        {
            open.tenant = row.header("x-routelab-tenant").map(Box::from);
            open.data_class = row.header("x-routelab-data-class").map(Box::from);
        }
        self.judge(&mut open, &tied, row, line, at);
        open.attempts += 1;
        open.last_at = open.last_at.max(at);
        open.succeeded = succeeded;
        open.visit(Visit {
            place,
            at,
            told: match (row.hint, succeeded) {
                (Hint::Wait(wait), false) => Some(wait),
                _ => None,
            },
            body: row.body.as_deref().and_then(digest_word),
        });
        if let Some(done) = self.open.put(&tied, open) {
            self.seen.closed_early += u64::from(tied.tie != Tie::Nothing);
            self.close(&done);
        }
    }

    /// Which place it is; a new one if need be.
    fn place(&mut self, row: &Row) -> u32 {
        let mut key = (row.dialect.clone(), row.model.clone(), row.route.clone());
        if self.place_of.len() >= PLACES_MAX && !self.place_of.contains_key(&key) {
            key = (String::new(), None, None);
        }
        if let Some(place) = self.place_of.get(&key) {
            return *place;
        }
        let place = self.seen.places.len() as u32;
        self.seen.places.push(Place {
            dialect: key.0.clone(),
            model: key.1.clone(),
            route: key.2.clone(),
            ..Place::default()
        });
        self.quiet_until.push(None);
        self.place_of.insert(key, place);
        place
    }

    /// An attempt that is not the first of its request.
    fn follow(&mut self, open: &Open, row: &Row, place: u32, at: Instant) {
        self.seen.after_success += u64::from(open.succeeded);
        let gap = at.since(open.last_at);
        let Some(before) = open.visits.iter().find(|visit| visit.place == place) else {
            self.seen.failovers += 1;
            if !open.succeeded {
                self.failover_gaps.note(gap);
            }
            return;
        };
        self.seen.retries += 1;
        let waited = at.since(before.at);
        self.retry_gaps.note(waited);
        match (before.body, row.body.as_deref().and_then(digest_word)) {
            (Some(before), Some(now)) => self.seen.same_body += u64::from(before == now),
            _ => self.seen.unknown_body += 1,
        }
        if let Some(told) = before.told {
            let hints = &mut self.seen.hints;
            hints.retried += 1;
            // The answer left after the earlier attempt was noted, so that less is too little for sure.
            if waited < told {
                hints.too_early += 1;
                let early = Duration(told.0 - waited.0);
                hints.earliest_by = hints.earliest_by.max(early);
            }
        }
    }

    /// Somebody else was told to leave this place alone for a while, and here comes an attempt.
    fn meanwhile(&mut self, open: &Open, row: &Row, place: u32, at: Instant) {
        let index = place as usize;
        let told_itself =
            (open.visits.iter()).any(|visit| visit.place == place && visit.told.is_some());
        if self.quiet_until[index].is_some_and(|until| at < until) && !told_itself {
            self.seen.places[index].sent_meanwhile += 1;
        }
        if let (Hint::Wait(wait), Some(_)) = (row.hint, row.failed) {
            let until = at.after(wait);
            self.quiet_until[index] = self.quiet_until[index].max(Some(until));
        }
    }

    fn count(&mut self, row: &Row, place: u32, at: Instant, is_new: bool) {
        let failed = u64::from(row.failed.is_some());
        self.seen.attempts += 1;
        self.seen.failed += failed;
        if let Some(why) = row.failed {
            // Statuses, kinds and faults are few, so these are as well.
            *self.failures.entry(why).or_default() += 1;
            match row.hint {
                Hint::Wait(_) => self.seen.hints.given += 1,
                Hint::Unreadable => self.seen.hints.unreadable += 1,
                Hint::None => {}
            }
        }
        let totals = &mut self.seen.places[place as usize];
        totals.attempts += 1;
        totals.failed += failed;
        let bin = self.bins.at(at);
        bin.requests += u64::from(is_new);
        let sum = bin.by_place.entry(place).or_default();
        sum.0 += 1;
        sum.1 += failed;
    }

    /// Whether the data may be where it went.
    fn judge(&mut self, open: &mut Open, tied: &Tied, row: &Row, line: u64, at: Instant) {
        let (Some(residency), Some(found)) = (self.options.residency, &mut self.seen.residences)
        else {
            return;
        };
        let listed = tied.id.as_deref().map(|id| self.options.classes.of(id));
        let (listed_tenant, listed_class) = listed.unwrap_or_default();
        let tenant = open.tenant.as_deref().or(listed_tenant);
        let data_class = open.data_class.as_deref().or(listed_class);
        if tenant.is_none() && data_class.is_none() {
            found.unclassed += 1;
            return;
        }
        let reached = Reached {
            tenant,
            data_class,
            dialect: &row.dialect,
            model: row.model.as_deref(),
            route: row.route.as_deref(),
        };
        match residency.judge(&reached) {
            Ruling::Allowed => found.judged += 1,
            Ruling::Unknown(why) => {
                if self.reasons.len() < REASONS_MAX || self.reasons.contains_key(&why) {
                    *self.reasons.entry(why).or_default() += 1;
                } else {
                    *self.reasons.entry("other reasons".to_owned()).or_default() += 1;
                }
            }
            Ruling::Refused { route, why } => {
                found.judged += 1;
                found.strays += 1;
                if found.listed.len() < STRAYS_MAX {
                    found.listed.push(Stray {
                        line,
                        at: at.since(Instant::ZERO),
                        request: tied.tie.is_id().then(|| tied.id.clone()).flatten(),
                        tenant: tenant.map(str::to_owned),
                        data_class: data_class.map(str::to_owned),
                        route,
                        why,
                    });
                }
                if !open.strayed {
                    found.stray_requests += 1;
                }
                open.strayed = true;
            }
        }
    }

    fn close(&mut self, open: &Open) {
        let seen = &mut self.seen;
        seen.requests += 1;
        seen.answered += u64::from(open.succeeded);
        seen.rescued += u64::from(open.succeeded && !open.first_succeeded);
        seen.attempts_max = seen.attempts_max.max(open.attempts);
        let index = usize::try_from(open.attempts).unwrap_or(ATTEMPTS_SHOWN);
        seen.by_attempts[index.clamp(1, ATTEMPTS_SHOWN) - 1] += 1;
        seen.by_tie[open.tie as usize] += 1;
    }

    fn close_all(&mut self) {
        while let Some(open) = self.open.pop() {
            self.close(&open);
        }
    }

    /// The sums; whatever is open is over.
    pub(super) fn finish(mut self) -> Seen {
        self.close_all();
        let mut seen = self.seen;
        seen.retry_gaps = self.retry_gaps.spread();
        seen.failover_gaps = self.failover_gaps.spread();
        seen.failures = self
            .failures
            .into_iter()
            .map(|(why, attempts)| Failures {
                status: why.status,
                kind: why.kind,
                fault: why.fault,
                attempts,
            })
            .collect();
        // Ties stay in the order of status, kind and fault.
        seen.failures
            .sort_by_key(|one| std::cmp::Reverse(one.attempts));
        if let Some(residences) = &mut seen.residences {
            residences.unknown = self.reasons.into_iter().collect();
        }
        seen.bin = self.bins.width;
        seen.bins = self.bins.bins;
        seen
    }
}

/// The first 64 bits of a digest in hexadecimal.
fn digest_word(hex: &str) -> Option<u64> {
    u64::from_str_radix(hex.get(..16)?, 16).ok()
}
