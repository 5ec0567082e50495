//! When requests come.
//!
//! [`Arrivals`] is the checked table `[timeline.arrivals]`: renewals under a rate that may change over the day
//! and in bursts, one process for all or one for each tenant; or the times of a recorded trace, or
//! the clients of a published service. [`Arrivals::open`] gives the arrivals of a replicate one by one.
//!
//! Gap number n of a tenant is a function of (seed, replicate, tenant's name, n) alone: tenants that are
//! added or removed do not move the arrivals of the others. What requests *are*, their tokens included, is
//! the workload's business: recorded traces give times here and nothing else.

mod clients;
mod data;
mod data_rows;
mod gamma;
mod intensity;
mod law;
mod moment;
mod read;
mod renewal;
mod trace;

pub(super) use data::Plan;
pub(super) use read::{Declared, read};

use std::sync::Arc;

use crate::units::{Duration, Instant};
use crate::workload::{DrawKey, NO_NAME};

use clients::{Clients, Sending};
use intensity::{Curve, DAY, Daily};
use law::Law;
use renewal::{Merge, Renewal, Renewing, page};
use trace::{Playing, Recorded};

/// Smallest mean rate of arrivals: one in eleven days.
pub const RATE_MIN_PER_S: f64 = 1e-6;
/// Largest rate of arrivals, bursts included: time has a million microseconds a second.
pub const RATE_MAX_PER_S: f64 = 1e6;
/// Largest ratio of the highest rate of a day to its lowest.
pub const PEAK_TO_TROUGH_MAX: f64 = 1_000.0;
/// Most moments at which [`Arrivals::busiest`] looks between the edges of bursts.
const LOOKS_MAX: u64 = 50_000;

/// One request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// Whose it is, if arrivals are declared by tenant; else [`NO_NAME`].
    pub tenant: u16,
}

/// How requests come.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Every(Duration),
    /// In the order of tenants.
    Renewals(Vec<Renewal>),
    Clients(Arc<Clients>),
    Recorded(Arc<Recorded>),
}

impl Arrivals {
    /// One request every `gap`, the first at time zero.
    #[must_use]
    pub const fn every(gap: Duration) -> Self {
        Self {
            kind: Kind::Every(gap),
        }
    }

    /// A Poisson process with a constant rate in
    /// [`RATE_MIN_PER_S`]`..=`[`RATE_MAX_PER_S`]; `None` outside.
    #[must_use]
    pub fn poisson(rate_per_s: f64) -> Option<Self> {
        let sound = (RATE_MIN_PER_S..=RATE_MAX_PER_S).contains(&rate_per_s);
        sound.then(|| Self::one(Law::Poisson, Curve::new(rate_per_s, None, &[])))
    }

    /// A Poisson process whose rate follows a sine over 24 hours: `rate_per_s` in the mean of a day, highest at
    /// the time of day `peak_at` (time zero is midnight), there `peak_to_trough` times as high as twelve
    /// hours later. `None` unless the rate lies in [`RATE_MIN_PER_S`]`..=`[`RATE_MAX_PER_S`] and the ratio in
    /// 1..=[`PEAK_TO_TROUGH_MAX`].
    #[must_use]
    pub fn daily(rate_per_s: f64, peak_to_trough: f64, peak_at: Duration) -> Option<Self> {
        let sound = (RATE_MIN_PER_S..=RATE_MAX_PER_S).contains(&rate_per_s)
            && (1.0..=PEAK_TO_TROUGH_MAX).contains(&peak_to_trough);
        sound.then(|| {
            let daily = Daily::new(peak_to_trough, peak_at);
            Self::one(Law::Poisson, Curve::new(rate_per_s, Some(daily), &[]))
        })
    }

    /// What is assumed where nobody says when requests come: a Poisson process of one request a second in the
    /// mean, with a rate that is 9.9 times as high at three in the afternoon as twelve hours later. The ratio is
    /// that of the clients of deepseek-r1 over a day (ServeGen, Alibaba, 2025: 73 clients).
    #[must_use]
    pub fn usual() -> Self {
        let peak_at = Some(Daily::new(9.9, Duration::from_secs(15 * 3_600)));
        Self::one(Law::Poisson, Curve::new(1.0, peak_at, &[]))
    }

    /// One process for all requests.
    fn one(law: Law, curve: Curve) -> Self {
        Self::renewals(vec![Renewal {
            page: page("arrivals", ""),
            tenant: NO_NAME,
            law,
            curve,
        }])
    }

    const fn renewals(streams: Vec<Renewal>) -> Self {
        Self {
            kind: Kind::Renewals(streams),
        }
    }

    /// Whether each arrival says whose it is.
    #[must_use]
    pub fn has_tenants(&self) -> bool {
        match &self.kind {
            Kind::Every(_) | Kind::Clients(_) => false,
            Kind::Renewals(streams) => streams.iter().any(|stream| stream.tenant != NO_NAME),
            Kind::Recorded(trace) => trace.has_tenants(),
        }
    }

    /// Arrivals per second in the mean of a day; bursts are not counted. Of a trace, the arrivals between its first
    /// and its last. `None` if there is no mean: all at the same time, or only one.
    #[must_use]
    pub fn mean_rate_per_s(&self) -> Option<f64> {
        match &self.kind {
            Kind::Every(gap) => (*gap > Duration::ZERO).then(|| 1.0 / gap.as_secs_f64()),
            Kind::Renewals(streams) => {
                Some(streams.iter().map(|stream| stream.curve.mean_per_s()).sum())
            }
            Kind::Clients(clients) => Some(clients.mean_rate_per_s()),
            Kind::Recorded(trace) => trace.mean_rate_per_s(),
        }
    }

    /// Coefficient of variation of the gaps between the arrivals of a tenant or client: the mean over them,
    /// weighted by their rates. 0 is even, 1 is Poisson, above is bursty. `None` for recorded times, which
    /// have no law.
    #[must_use]
    pub fn variation(&self) -> Option<f64> {
        match &self.kind {
            Kind::Every(_) => Some(0.0),
            Kind::Renewals(streams) => {
                let rates = streams.iter().map(|stream| stream.curve.mean_per_s());
                let weighted = streams
                    .iter()
                    .map(|stream| stream.curve.mean_per_s() * stream.law.cv());
                Some(weighted.sum::<f64>() / rates.sum::<f64>())
            }
            Kind::Clients(clients) => Some(clients.variation()),
            Kind::Recorded(_) => None,
        }
    }

    /// When the last arrival has come, at the latest: known of a trace that is not repeated, else never.
    #[must_use]
    pub fn ends(&self) -> Option<Duration> {
        match &self.kind {
            Kind::Every(_) | Kind::Renewals(_) => None,
            Kind::Clients(clients) => clients.ends(),
            Kind::Recorded(trace) => trace.ends(),
        }
    }

    /// Where the window of this `length` with the most expected arrivals begins, among those that lie between time
    /// zero and `within`; of several the first, and time zero if `length` is longer than that. Of a daily
    /// curve it is found to the minute, at the edges of bursts and of clients' windows exactly; of a
    /// recorded trace arrivals are counted.
    #[must_use]
    pub fn busiest(&self, length: Duration, within: Duration) -> Instant {
        let latest = Instant(within.0.saturating_sub(length.0));
        match &self.kind {
            Kind::Every(_) => Instant::ZERO,
            Kind::Renewals(streams) => busiest_of_curves(streams, length, latest),
            Kind::Clients(clients) => {
                let steps = clients.cumulative();
                let starts = around(steps.iter().map(|step| step.0), length, latest);
                highest(starts, length, |at| between(&steps, at))
            }
            Kind::Recorded(trace) => trace.busiest(length, latest),
        }
    }

    /// The arrivals of a replicate, in the order of time.
    #[must_use]
    pub fn open(&self, key: DrawKey) -> Arriving<'_> {
        Arriving {
            state: match &self.kind {
                Kind::Every(gap) => State::Every(Some(Instant::ZERO), *gap),
                Kind::Renewals(streams) => {
                    let open = streams.iter().map(|stream| stream.open(key)).collect();
                    State::Renewals(Merge::new(open), streams)
                }
                Kind::Clients(clients) => State::Clients(Merge::new(clients.open(key))),
                Kind::Recorded(trace) => State::Recorded(trace.play()),
            },
        }
    }
}

/// Arrivals, one after the other; times never fall. At the end of time (584,000 years) there are no more.
#[derive(Clone, Debug)]
pub struct Arriving<'a> {
    state: State<'a>,
}

#[derive(Clone, Debug)]
enum State<'a> {
    Every(Option<Instant>, Duration),
    Renewals(Merge<Renewing<'a>>, &'a [Renewal]),
    Clients(Merge<Sending<'a>>),
    Recorded(Playing<'a>),
}

impl Iterator for Arriving<'_> {
    type Item = Arrival;

    #[inline]
    fn next(&mut self) -> Option<Arrival> {
        let (at, tenant) = match &mut self.state {
            State::Renewals(merge, streams) => {
                let (at, stream) = merge.next()?;
                (Instant(at), streams[stream].tenant)
            }
            State::Every(next, gap) => {
                let at = (*next)?;
                *next = at.0.checked_add(gap.0).map(Instant);
                (at, NO_NAME)
            }
            State::Clients(merge) => (Instant(merge.next()?.0), NO_NAME),
            State::Recorded(playing) => {
                let (at, tenant) = playing.next()?;
                (Instant(at), tenant)
            }
        };
        Some(Arrival { at, tenant })
    }
}

/// Starts of windows that begin or end at one of `edges`, with the first and the last that can matter;
/// sorted.
fn around(edges: impl Iterator<Item = Instant>, length: Duration, latest: Instant) -> Vec<Instant> {
    let mut starts = vec![Instant::ZERO];
    let mut last = Instant::ZERO;
    for edge in edges {
        last = last.max(edge);
        starts.push(edge.min(latest));
        starts.push(Instant(edge.0.saturating_sub(length.0)).min(latest));
    }
    // From a day after the last edge on, days repeat.
    starts.push(latest.min(last.after(Duration(DAY))));
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The first start of a window that expects the most arrivals.
fn highest(starts: Vec<Instant>, length: Duration, cumulative: impl Fn(Instant) -> f64) -> Instant {
    let mut best = (0.0, Instant::ZERO);
    for start in starts {
        let expected = cumulative(start.after(length)) - cumulative(start);
        // Rounding makes no later window better.
        if expected > best.0 * (1.0 + 1e-9) {
            best = (expected, start);
        }
    }
    best.1
}

fn busiest_of_curves(streams: &[Renewal], length: Duration, latest: Instant) -> Instant {
    let curves = || streams.iter().map(|stream| &stream.curve);
    let mut starts = around(curves().flat_map(Curve::edges), length, latest);
    if curves().any(Curve::is_daily) {
        let until = starts.last().copied().unwrap_or_default();
        let step = (until.0 / LOOKS_MAX).max(60_000_000);
        starts.extend((0..=until.0 / step).map(|look| Instant(look * step)));
        starts.sort_unstable();
    }
    highest(starts, length, |at| {
        curves().map(|curve| curve.cumulative(at)).sum()
    })
}

/// A piecewise linear function, constant after its last step.
fn between(steps: &[(Instant, f64)], at: Instant) -> f64 {
    let after = steps.partition_point(|step| step.0 <= at);
    match (
        after.checked_sub(1).map(|before| steps[before]),
        steps.get(after),
    ) {
        (Some((start, low)), Some((end, high))) => {
            let part = at.since(start).0 as f64 / end.since(start).0 as f64;
            low + part * (high - low)
        }
        (Some((_, value)), None) => value,
        (None, _) => 0.0,
    }
}
