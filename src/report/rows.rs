//! One row per policy or control: its metrics, its routes' shares, and what to know about them.

use super::metrics::{METRICS, Unit, final_share};
use super::mixes;
use super::require::Measure;
use super::sample::Pooling;
use crate::sim::{Contestant, Results};
use crate::stats::{Estimate, Tally};

/// A policy or a control with everything measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name.
    pub policy: String,
    /// Its kind.
    pub kind: String,
    /// Whether it is a control rather than a policy under test.
    pub control: bool,
    /// Set on the two mixes that stand beside a policy.
    pub mix: Option<Mix>,
    /// Why nothing could be measured, if so.
    pub unavailable: Option<String>,
    /// One estimate per entry of [`METRICS`], in its order.
    pub metrics: Vec<Estimate>,
    /// Share of requests whose final answer came from each route.
    pub final_share: Vec<Estimate>,
    /// What to know about this row.
    pub notes: Vec<String>,
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
            mix: None,
            unavailable: Some(reason.to_owned()),
            metrics: vec![Estimate::unknown(level); METRICS.len()],
            final_share: vec![Estimate::unknown(level); routes],
            notes: vec![format!("not available: {reason}")],
        }
    }
}

/// The rows of all contestants, each policy's mixes directly behind it.
pub(super) fn rows(results: &Results, pooling: &Pooling) -> Vec<Row> {
    let totals: Vec<Tally> = results
        .contestants
        .iter()
        .map(|contestant| Tally::total(&contestant.tallies))
        .collect();
    let mut rows = Vec::new();
    for (contestant, total) in results.contestants.iter().zip(&totals) {
        let row = row(results, contestant, total, pooling);
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

fn row(results: &Results, contestant: &Contestant, total: &Tally, pooling: &Pooling) -> Row {
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
    let (replicates, trained) = (contestant.tallies.as_slice(), contestant.trained);
    Row {
        policy: contestant.name.clone(),
        kind: contestant.kind.to_owned(),
        control: contestant.control,
        mix: None,
        unavailable: None,
        metrics: METRICS
            .iter()
            .map(|metric| metric.estimate(pooling, total, replicates, trained))
            .collect(),
        final_share: (0..routes)
            .map(|route| {
                pooling.estimate(total, replicates, trained, |tally| {
                    final_share(tally, route)
                })
            })
            .collect(),
        notes: notes(contestant, total, pooling),
    }
}

fn notes(contestant: &Contestant, total: &Tally, pooling: &Pooling) -> Vec<String> {
    let mut notes = Vec::new();
    let count = |pooled| super::format::whole(pooling.count(pooled));
    let (all, determined) = (count(total.requests), total.determined());
    if total.undetermined > 0 {
        notes.push(format!(
            "{} of {all} requests are undetermined (an answer that decides what comes next has no grade) and left out",
            count(total.undetermined)
        ));
    }
    if total.missing > 0 {
        notes.push(format!(
            "{} of {all} final answers have no grade and are left out of accuracy",
            count(total.missing)
        ));
    }
    if total.costed == 0 && determined > 0 {
        notes.push("cost is unknown".to_owned());
    } else if total.costed < determined {
        notes.push(format!(
            "cost is known for {} of {} requests and estimated on these",
            count(total.costed),
            count(determined)
        ));
    }
    if total.unknown_need > 0 {
        notes.push(format!(
            "{} of {all} requests have a prompt of unknown length, which was not checked against context windows",
            count(total.unknown_need)
        ));
    }
    if total.cost_square_sum == i128::MAX {
        notes.push("costs are too large for an interval".to_owned());
    }
    if contestant.trained && !pooling.shared_rows && contestant.tallies.len() < 2 {
        notes.push(
            "trained once: intervals hold for this one training, use more replicates to include its spread"
                .to_owned(),
        );
    }
    notes
}

/// The rows' notes, each said once with the names of the rows it is about.
pub(super) fn gathered_notes(rows: &[Row]) -> Vec<String> {
    let mut gathered: Vec<(&str, Vec<&str>)> = Vec::new();
    // Why a mix is not available follows from what is said of its policy.
    let said = rows
        .iter()
        .filter(|row| row.mix.is_none() || row.unavailable.is_none());
    for row in said {
        for note in &row.notes {
            match gathered.iter_mut().find(|(text, _)| text == note) {
                Some((_, names)) => names.push(&row.policy),
                None => gathered.push((note, vec![&row.policy])),
            }
        }
    }
    gathered
        .into_iter()
        .map(|(text, names)| {
            if names.len() > 1 && names.len() == rows.iter().filter(|r| r.mix.is_none()).count() {
                format!("all rows: {text}")
            } else {
                format!("{}: {text}", names.join(", "))
            }
        })
        .collect()
}

/// Whether a metric's numbers are shares.
pub(super) fn is_share(measure: Measure) -> bool {
    match measure {
        Measure::Metric(metric) => metric.unit == Unit::Share,
        Measure::FinalShare(_) => true,
    }
}
