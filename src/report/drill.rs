//! A drill as numbers: what became of each policy's requests while something failed, beside the same
//! requests on a calm day.
//!
//! Every number is a mean over replicates. Requests of one replicate depend on each other (they share an
//! outage, breakers, limits), so that intervals are Student's over replicates, never over requests: with a
//! single replicate there are none, and none where all replicates agree, which is no certainty. What is not
//! known stays unknown.

use super::Workload;
use super::drill_incidents::{Occasion, Recovery, occasions, recoveries};
use super::metrics::PER_1K;
use crate::sim::{BINS_MAX, Contestant, Lost, Passage, Results, RoutePassage};
use crate::stats::{Estimate, Limits, Tally, student_two_sided};
use crate::timeline::{Slo, Timeline};
use crate::units::Duration;

/// What the reader of a drill wants to know, and has to.
#[derive(Clone, Debug, PartialEq)]
pub struct DrillOptions {
    /// Two-sided confidence level of every interval, between 0 and 1.
    pub level: f64,
    /// What was assumed about the world, one sentence each, for the notes.
    pub assumptions: Vec<String>,
}

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A share from 0 to 1.
    Share,
    /// Seconds.
    Seconds,
    /// USD for a thousand requests.
    Usd,
    /// Any other number.
    Plain,
}

/// One number that is measured of a policy in each replicate.
pub(super) struct Measure {
    /// Its name in JSON.
    pub(super) name: &'static str,
    pub(super) form: Form,
    of: fn(&Passage, &Tally) -> Option<f64>,
}

fn part(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Requests of which it is known what became of them.
fn determined(passage: &Passage) -> u64 {
    let totals = &passage.totals;
    totals.requests.saturating_sub(totals.undetermined)
}

fn seconds(at: Option<Duration>) -> Option<f64> {
    at.map(Duration::as_secs_f64)
}

/// Whether the costs of at least half of the served requests are known. Those of unserved ones, which are
/// mostly nothing, always are, and alone they say nothing.
fn has_costs(passage: &Passage, tally: &Tally) -> bool {
    let known = tally.costed.saturating_sub(tally.unserved_total());
    tally.costed > 0 && known.saturating_mul(2) >= passage.totals.served
}

/// Whether at least half of the served requests are graded. Those that nobody served always count as wrong, and
/// alone they say nothing.
fn has_grades(passage: &Passage, tally: &Tally) -> bool {
    let known = tally.graded.saturating_sub(tally.unserved_total());
    tally.graded > 0 && known.saturating_mul(2) >= passage.totals.served
}

macro_rules! measure {
    ($name:literal, $form:ident, $of:expr) => {
        Measure {
            name: $name,
            form: Form::$form,
            of: $of,
        }
    };
}

/// Everything that is measured of a policy in each replicate.
pub(super) const MEASURES: &[Measure] = &[
    measure!("availability", Share, |p, _| part(
        p.totals.served,
        determined(p)
    )),
    measure!("slo_attainment", Share, |p, _| part(
        p.totals.in_slo,
        determined(p)
    )),
    // Requests of which nobody knows may have been good.
    measure!("goodput_per_s", Plain, |p, _| (p.span > Duration::ZERO
        && p.totals.undetermined == 0)
        .then(|| p.totals.in_slo as f64 / p.span.as_secs_f64())),
    measure!("ttft_p50_s", Seconds, |p, _| seconds(p.ttft.quantile(0.50))),
    measure!("ttft_p95_s", Seconds, |p, _| seconds(p.ttft.quantile(0.95))),
    measure!("ttft_p99_s", Seconds, |p, _| seconds(p.ttft.quantile(0.99))),
    measure!("total_p50_s", Seconds, |p, _| seconds(
        p.total.quantile(0.50)
    )),
    measure!("total_p95_s", Seconds, |p, _| seconds(
        p.total.quantile(0.95)
    )),
    measure!("total_p99_s", Seconds, |p, _| seconds(
        p.total.quantile(0.99)
    )),
    measure!("fallback_share", Share, |p, _| part(
        p.totals.fallback,
        determined(p)
    )),
    measure!("escalated_share", Share, |p, _| part(
        p.totals.escalated,
        determined(p)
    )),
    measure!("attempts_per_request", Plain, |p, _| part(
        p.totals.attempts,
        p.totals.requests
    )),
    measure!("retries_per_request", Plain, |p, _| part(
        p.totals.retries,
        p.totals.requests
    )),
    measure!("usd_per_1k", Usd, |p, t| has_costs(p, t)
        .then(|| t.cost_sum as f64 / t.costed as f64 / PER_1K)),
    // Only if all costs are known: else what was served for nothing cannot be told from it.
    measure!("usd_per_1k_served", Usd, |p, t| (p.totals.served > 0
        && t.costed == determined(p))
    .then(|| t.cost_sum as f64 / p.totals.served as f64 / PER_1K)),
    measure!("wasted_usd_per_1k", Usd, |p, t| has_costs(p, t)
        .then(|| p.wasted_cost as f64 / t.costed as f64 / PER_1K)),
    measure!("mirror_usd_per_1k", Usd, |_, t| (t.mirror_costed > 0
        && t.mirror_costed == t.requests)
        .then(|| t.mirror_cost_sum as f64 / t.requests as f64 / PER_1K)),
    measure!("accuracy", Share, |p, t| has_grades(p, t)
        .then(|| t.score_sum as f64 / t.graded as f64 / 1e6)),
];

/// What the incidents did, as shares of the requests.
pub(super) const HARMS: &[Measure] = &[
    measure!("harmed", Share, |p, _| part(
        p.totals.harmed,
        p.totals.compared
    )),
    measure!("lost", Share, |p, _| part(p.totals.lost, p.totals.compared)),
    measure!("spoilt", Share, |p, _| part(
        p.totals.spoilt,
        p.totals.judged
    )),
];

/// What a policy went through.
#[derive(Clone, Debug)]
pub(super) struct Day {
    /// One estimate per entry of [`MEASURES`].
    pub(super) measures: Vec<Estimate>,
    /// The time line of the first replicate.
    pub(super) first: Passage,
}

impl Day {
    /// The estimate of a measure by its name.
    pub(super) fn get(&self, name: &str) -> Option<&Estimate> {
        let index = MEASURES.iter().position(|measure| measure.name == name)?;
        self.measures.get(index)
    }

    /// The value of a measure, if it is known.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.get(name)?.value
    }
}

/// A route under one policy: means per replicate.
#[derive(Clone, Debug)]
pub(super) struct RouteRow {
    /// Index of the route.
    pub(super) route: usize,
    /// All replicates together.
    pub(super) sum: RoutePassage,
}

/// Requests that nobody served, of one class and for one reason, over all replicates.
pub(super) type LostRow = Lost;

/// A policy or control in a drill.
#[derive(Clone, Debug)]
pub(super) struct DrillRow {
    pub(super) policy: String,
    pub(super) kind: &'static str,
    pub(super) control: bool,
    /// In the world as declared.
    pub(super) drill: Day,
    /// On the calm day, if there was one.
    pub(super) calm: Option<Day>,
    /// One estimate per entry of [`HARMS`], if there was a calm day.
    pub(super) harms: Vec<Estimate>,
    /// Requests, attempts and changes of breakers over all replicates.
    pub(super) sums: crate::sim::Counts,
    /// Routes that it sent anything to.
    pub(super) routes: Vec<RouteRow>,
    /// The most frequent first.
    pub(super) unserved: Vec<LostRow>,
    /// One per entry of [`Drill::occasions`], if there was a calm day.
    pub(super) recoveries: Vec<Recovery>,
    pub(super) residency_violations: u64,
    pub(super) in_flight_max: u64,
    /// Requests over all replicates whose cost is known.
    pub(super) costed: u64,
}

/// A rate limit as reports call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LimitName {
    pub(super) name: String,
    /// Names of the routes that share it.
    pub(super) routes: Vec<String>,
}

/// What a drill showed.
#[derive(Clone, Debug)]
pub struct Drill {
    /// What was run.
    pub workload: Workload,
    /// Two-sided confidence level of every interval.
    pub level: f64,
    /// Names of the routes.
    pub routes: Vec<String>,
    pub(super) slo: Slo,
    pub(super) limits: Vec<LimitName>,
    pub(super) classes: Vec<String>,
    /// Policies, then controls.
    pub(super) rows: Vec<DrillRow>,
    /// What went wrong in the first replicate.
    pub(super) occasions: Vec<Occasion>,
    /// Incidents that all replicates have in common: the first ones of `occasions`.
    pub(super) common: usize,
    pub(super) has_calm: bool,
    /// Whether the quality of a route changes.
    pub(super) has_drifts: bool,
    pub(super) notes: Vec<String>,
}

/// Computes what a drill showed from the results of an experiment on `timeline`. Contestants that send
/// nothing (the oracle) are left out.
#[must_use]
pub fn drill(results: &Results, timeline: &Timeline, options: &DrillOptions) -> Drill {
    let table = results.timetable.as_ref();
    let has_calm = table.is_some_and(|table| table.has_calm);
    let incidents = table.map_or(&[][..], |table| table.incidents.as_slice());
    // Scripted incidents stand first, and are those of every replicate.
    let common = timeline
        .incidents
        .len()
        .min(incidents.first().map_or(0, Vec::len));
    let name = |index: usize| {
        let name = results.routes.get(index);
        name.cloned().unwrap_or_else(|| format!("route {index}"))
    };
    let occasions = occasions(incidents.first().map_or(&[][..], Vec::as_slice), &name);
    let level = options.level;
    let rows = results
        .contestants
        .iter()
        .filter_map(|contestant| row(contestant, results, (incidents, common), has_calm, level))
        .collect();
    let mut notes = options.assumptions.clone();
    let passages = results.contestants.iter().flat_map(|one| &one.passages);
    let bin = passages.map(|passage| passage.bin).max();
    if let (Some(asked), Some(bin)) = (timeline.bin, bin)
        && bin > asked
    {
        notes.push(format!(
            "bins of {asked} would be more than {BINS_MAX} over this run: they are {bin} wide instead"
        ));
    }
    let overlap = |(index, one): (usize, &crate::timeline::Incident)| {
        timeline.incidents[..index].iter().any(|other| {
            one.from < other.until
                && other.from < one.until
                && one.routes.iter().any(|route| other.routes.contains(route))
        })
    };
    if timeline.incidents.iter().enumerate().any(overlap) {
        notes.push("incidents overlap on a route: each tosses coins of its own, the first in the file that hits decides, times multiply; a request that came under two counts for both".to_owned());
    }
    notes.extend(results.notes.iter().cloned());
    Drill {
        workload: Workload {
            name: results.workload.clone(),
            requests: results.requests,
            replicates: results.replicates,
            shared_rows: results.shared_rows,
            evidence: results.evidence,
        },
        level,
        slo: timeline.slo,
        limits: timeline
            .limits
            .iter()
            .map(|limit| LimitName {
                name: limit.name.clone(),
                routes: limit
                    .routes
                    .iter()
                    .map(|route| name(usize::from(route.0)))
                    .collect(),
            })
            .collect(),
        classes: table.map_or_else(Vec::new, |table| table.classes.clone()),
        routes: results.routes.clone(),
        rows,
        occasions,
        common,
        has_calm,
        has_drifts: !timeline.drifts.is_empty(),
        notes,
    }
}

fn row(
    contestant: &Contestant,
    results: &Results,
    (incidents, common): (&[Vec<crate::timeline::Incident>], usize),
    has_calm: bool,
    level: f64,
) -> Option<DrillRow> {
    let passages = contestant.passages.as_slice();
    let drill = day(passages, &contestant.tallies, level)?;
    let calm = if has_calm {
        day(&contestant.calm, &contestant.calm_tallies, level)
    } else {
        None
    };
    let harms = if calm.is_some() {
        estimates(HARMS, passages, &contestant.tallies, level)
    } else {
        Vec::new()
    };
    let mut sums = crate::sim::Counts::default();
    for passage in passages {
        sums.merge(&passage.totals);
    }
    Some(DrillRow {
        policy: contestant.name.clone(),
        kind: contestant.kind,
        control: contestant.control,
        recoveries: if calm.is_some() {
            recoveries(passages, incidents, common, level)
        } else {
            Vec::new()
        },
        drill,
        calm,
        harms,
        sums,
        routes: (0..results.routes.len())
            .filter_map(|route| route_row(passages, route))
            .collect(),
        unserved: unserved(passages),
        residency_violations: passages.iter().map(|one| one.residency_violations).sum(),
        costed: contestant.tallies.iter().map(|tally| tally.costed).sum(),
        in_flight_max: passages.iter().map(|one| one.in_flight_max).max()?,
    })
}

fn day(passages: &[Passage], tallies: &[Tally], level: f64) -> Option<Day> {
    Some(Day {
        measures: estimates(MEASURES, passages, tallies, level),
        first: passages.first()?.clone(),
    })
}

fn estimates(
    measures: &[Measure],
    passages: &[Passage],
    tallies: &[Tally],
    level: f64,
) -> Vec<Estimate> {
    let nothing = Tally::default();
    measures
        .iter()
        .map(|measure| {
            let values = passages.iter().enumerate().map(|(replicate, passage)| {
                (measure.of)(passage, tallies.get(replicate).unwrap_or(&nothing))
            });
            let mut estimate = over_replicates(values, level);
            let most = if measure.form == Form::Share {
                1.0
            } else {
                f64::INFINITY
            };
            for limit in [&mut estimate.low, &mut estimate.high] {
                *limit = limit.map(|limit| limit.clamp(0.0, most));
            }
            estimate
        })
        .collect()
}

/// The mean over replicates with Student's interval; unknown unless every replicate knows its value. A
/// single replicate has no interval, and neither have replicates that all agree.
pub(super) fn over_replicates(values: impl Iterator<Item = Option<f64>>, level: f64) -> Estimate {
    let Some(values) = values.collect::<Option<Vec<f64>>>() else {
        return Estimate::unknown(level);
    };
    let Some(first) = values.first() else {
        return Estimate::unknown(level);
    };
    let n = values.len();
    if values.iter().all(|value| value == first) {
        return Estimate::new(*first, None, level, n as u64, Estimate::T_REPLICATES);
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1) as f64;
    let half = student_two_sided(level, n as u64 - 1) * (variance / n as f64).sqrt();
    let limits = Some(Limits::around(mean, half));
    Estimate::new(mean, limits, level, n as u64, Estimate::T_REPLICATES)
}

fn route_row(passages: &[Passage], route: usize) -> Option<RouteRow> {
    let mut sum = RoutePassage::default();
    for one in passages.iter().filter_map(|one| one.routes.get(route)) {
        sum.attempts += one.attempts;
        for (mine, theirs) in sum.faults.iter_mut().zip(one.faults) {
            *mine += theirs;
        }
        for (mine, theirs) in sum.refused.iter_mut().zip(one.refused) {
            *mine += theirs;
        }
        sum.by_incident += one.by_incident;
        sum.hung_up += one.hung_up;
        sum.cut += one.cut;
        sum.served += one.served;
        sum.tokens_unknown += one.tokens_unknown;
        sum.input_tokens += one.input_tokens;
        sum.output_tokens += one.output_tokens;
        sum.ttft.merge(&one.ttft);
        sum.queued = sum.queued.plus(one.queued);
        sum.opened += one.opened;
        sum.breaker_open = sum.breaker_open.plus(one.breaker_open);
    }
    (sum.attempts > 0).then_some(RouteRow { route, sum })
}

fn unserved(passages: &[Passage]) -> Vec<LostRow> {
    let mut all: Vec<LostRow> = Vec::new();
    for lost in passages.iter().flat_map(|passage| &passage.unserved) {
        let same = |one: &&mut LostRow| (one.class, one.reason) == (lost.class, lost.reason);
        match all.iter_mut().find(same) {
            Some(one) => one.requests += lost.requests,
            None => all.push(*lost),
        }
    }
    // Of equals the order of class and reason decides, whatever replicate met them first.
    all.sort_by_key(|one| (std::cmp::Reverse(one.requests), one.class, one.reason));
    all
}

impl Drill {
    /// Replicates as a divisor.
    pub(super) fn replicates(&self) -> f64 {
        self.workload.replicates.max(1) as f64
    }

    /// The rows that tables with many lines are about: the policies under test, or the controls if there
    /// are none.
    pub(super) fn shown(&self) -> Vec<&DrillRow> {
        let tested: Vec<&DrillRow> = self.rows.iter().filter(|row| !row.control).collect();
        if tested.is_empty() {
            self.rows.iter().collect()
        } else {
            tested
        }
    }

    /// Whether callers expect anything but an answer.
    pub(super) fn has_slo(&self) -> bool {
        self.slo != Slo::NONE
    }

    /// The name of a route.
    pub(super) fn route(&self, index: usize) -> &str {
        self.routes.get(index).map_or("?", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students_over_replicates_and_only_where_they_differ() {
        let one = over_replicates([Some(0.5)].into_iter(), 0.95);
        assert_eq!((one.value, one.limits()), (Some(0.5), None));
        let same = over_replicates([Some(1.0); 10].into_iter(), 0.95);
        assert_eq!((same.value, same.limits(), same.n), (Some(1.0), None, 10));
        let hole = over_replicates([Some(1.0), None].into_iter(), 0.95);
        assert_eq!(hole.value, None);
        assert_eq!(over_replicates(std::iter::empty(), 0.95).value, None);
        // The mean of 1, 2, 3, 4 is 2.5, their standard deviation √(5/3), t(0.975, 3) = 3.182446.
        let four = over_replicates([1.0, 2.0, 3.0, 4.0].into_iter().map(Some), 0.95);
        let half = 3.182_446_305 * (5.0_f64 / 3.0 / 4.0).sqrt();
        let limits = four.limits().unwrap();
        assert!((limits.low - (2.5 - half)).abs() < 1e-6, "{limits:?}");
        assert!((limits.high - (2.5 + half)).abs() < 1e-6, "{limits:?}");
        assert_eq!(four.method, "t-replicates");
    }
}
