//! One row per policy or control: its metrics, its routes' shares, and what to know about them.

use super::metrics::{METRICS, Unit, final_share};
use super::mixes;
use super::notes;
use super::require::Measure;
use super::rollouts::Rollouts;
use super::sample::{Pooling, draws_once};
use super::saving::Saving;
use super::shadow::Shadow;
use crate::sim::{Contestant, Results, Trace};
use crate::stats::{Estimate, Rule, Tally};

/// A policy or a control with everything measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub policy: String,
    /// Its kind.
    pub kind: String,
    /// Whether it is a control rather than a policy under test.
    pub control: bool,
    /// Kinds of the verifiers that look at its answers.
    pub verifiers: Vec<&'static str>,
    /// Set on the two mixes that stand beside a policy.
    pub mix: Option<Mix>,
    /// Why nothing could be measured, if so.
    pub unavailable: Option<String>,
    /// One estimate per entry of [`METRICS`], in its order.
    pub metrics: Vec<Estimate>,
    /// Share of requests whose final answer came from each route.
    pub final_share: Vec<Estimate>,
    /// On how many requests the numbers stand.
    pub known: Known,
    /// What a policy that mirrors learnt about its candidate.
    pub shadow: Option<Shadow>,
    /// What the router did, one trace per replicate, if requests went one after the other.
    pub traces: Vec<Trace>,
    /// What became of its candidate, if it lets one in step by step.
    pub rollouts: Option<Rollouts>,
    /// What it saves against the cheapest mix of single routes that is as accurate, if that is known.
    pub saving: Option<Saving>,
    /// What to know about this row.
    pub notes: Vec<String>,
}

/// On how many of a row's requests its numbers stand. All zero for a mix, which borrows its numbers,
/// and for a row that is not available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Requests, over all replicates unless they share their rows.
    pub requests: u64,
    /// Of these, those whose course is known (see the metric `undetermined`).
    pub determined: u64,
    /// Those whose outcome has a grade.
    pub graded: u64,
    /// Those whose cost is known.
    pub costed: u64,
}

impl Known {
    /// The share of the requests that a measure is about on which it is known: 1 if nothing is left
    /// out. `None` for a measure that is not a share of the requests, so that what is left out could
    /// have any influence on it, or none.
    #[must_use]
    pub fn share_of(&self, measure: Measure) -> Option<f64> {
        let known = match measure {
            Measure::Metric(metric) => match metric.name {
                "accuracy" => self.graded,
                "missing" | "undetermined" => self.requests,
                // Their base is what verifiers looked at, not the requests.
                "verifier_false_accept" | "verifier_false_reject" => return None,
                _ if metric.unit == Unit::Share => self.determined,
                _ => return None,
            },
            Measure::FinalShare(_) => self.determined,
        };
        Some(if known >= self.requests {
            1.0
        } else {
            known as f64 / self.requests as f64
        })
    }
}

/// What makes a row a mix: a control without any decision in it, computed from the single routes.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// The policy it belongs to.
    pub of: String,
    /// How much more accurate that policy is than the mix, a share.
    pub lead: Estimate,
}

impl Row {
    /// The estimate of a metric by name; unknown for a name that is no metric.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Estimate> {
        let index = METRICS.iter().position(|metric| metric.name == name)?;
        self.metrics.get(index)
    }

    /// The estimate that a requirement is about.
    #[must_use]
    pub fn measure(&self, measure: Measure) -> Option<&Estimate> {
        match measure {
            Measure::Metric(metric) => self.metric(metric.name),
            Measure::FinalShare(route) => self.final_share.get(route),
        }
    }

    /// Every number of the row with the name it has in requirements and CSV.
    pub(super) fn named<'a>(
        &'a self,
        routes: &'a [String],
    ) -> impl Iterator<Item = (String, &'a Estimate)> {
        METRICS
            .iter()
            .map(|metric| metric.name.to_owned())
            .zip(&self.metrics)
            .chain(
                routes
                    .iter()
                    .map(|route| format!("final_share.{route}"))
                    .zip(&self.final_share),
            )
    }

    /// A row about which nothing is known, and why.
    pub(super) fn unknown(
        policy: String,
        kind: &str,
        control: bool,
        routes: usize,
        level: f64,
        reason: &str,
    ) -> Self {
        Self {
            policy,
            kind: kind.to_owned(),
            control,
            verifiers: Vec::new(),
            mix: None,
            unavailable: Some(reason.to_owned()),
            metrics: vec![Estimate::unknown(level); METRICS.len()],
            final_share: vec![Estimate::unknown(level); routes],
            known: Known::default(),
            shadow: None,
            traces: Vec::new(),
            rollouts: None,
            saving: None,
            notes: vec![format!("not available: {reason}")],
        }
    }
}

/// The rows of all contestants, each policy's mixes directly behind it.
pub(super) fn rows(results: &Results, pooling: &Pooling, promotion: (Rule, f64)) -> Vec<Row> {
    let totals: Vec<Tally> = results
        .contestants
        .iter()
        .map(|contestant| Tally::total(&contestant.tallies))
        .collect();
    let mut rows = Vec::new();
    for (contestant, total) in results.contestants.iter().zip(&totals) {
        let row = row(results, contestant, total, pooling, promotion);
        let mixes = if contestant.control {
            Vec::new()
        } else {
            mixes::mixes(results, &totals, &row, total, pooling)
        };
        rows.push(row);
        rows.extend(mixes);
    }
    rows
}

/// One contestant's row.
pub(super) fn row(
    results: &Results,
    contestant: &Contestant,
    total: &Tally,
    pooling: &Pooling,
    promotion: (Rule, f64),
) -> Row {
    let routes = results.routes.len();
    if let Some(reason) = &contestant.unavailable {
        return Row::unknown(
            contestant.name.clone(),
            contestant.kind,
            contestant.control,
            routes,
            pooling.level,
            reason,
        );
    }
    let (replicates, draws_once) = (contestant.tallies.as_slice(), draws_once(contestant));
    Row {
        policy: contestant.name.clone(),
        kind: contestant.kind.to_owned(),
        control: contestant.control,
        verifiers: contestant.verifiers.clone(),
        mix: None,
        unavailable: None,
        metrics: METRICS
            .iter()
            .map(|metric| metric.estimate(pooling, total, replicates, draws_once))
            .collect(),
        final_share: (0..routes)
            .map(|route| {
                pooling.estimate(total, replicates, draws_once, |tally| {
                    final_share(tally, route)
                })
            })
            .collect(),
        known: Known {
            requests: pooling.count(total.requests),
            determined: pooling.count(total.determined()),
            graded: pooling.count(total.graded),
            costed: pooling.count(total.costed),
        },
        shadow: Shadow::of(contestant, total, pooling, promotion),
        traces: contestant.traces.clone(),
        rollouts: Rollouts::of(contestant, pooling),
        saving: None,
        notes: notes::of_row(contestant, total, pooling),
    }
}

/// Whether a metric's numbers are shares.
pub(super) fn is_share(measure: Measure) -> bool {
    match measure {
        Measure::Metric(metric) => metric.unit == Unit::Share,
        Measure::FinalShare(_) => true,
    }
}
