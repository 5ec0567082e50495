//! Each contestant against the baseline, request by request.

use super::did_you_mean;
use super::metrics::PER_1K;
use super::sample::{Point, Pooling};
use crate::sim::Results;
use crate::stats::{
    Estimate, Needed, NonInferiority, PairTally, Pairs, Tally, from_limits, moments, needed,
    tango_test,
};

/// A contestant compared with the baseline on the same requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// Whom it is compared with.
    pub baseline: String,
    /// Who is compared.
    pub policy: String,
    /// Whether it is a control.
    pub control: bool,
    /// Accuracy of the policy minus accuracy of the baseline, a share.
    pub accuracy_difference: Estimate,
    /// Cost of the policy minus cost of the baseline, USD for a thousand requests.
    pub usd_per_1k_difference: Estimate,
    /// Requests both got right, over all replicates.
    pub n11: u64,
    /// Requests only the policy got right.
    pub n10: u64,
    /// Requests only the baseline got right.
    pub n01: u64,
    /// Requests both got wrong.
    pub n00: u64,
    /// Whether the policy is not worse by more than the margin.
    pub verdict: NonInferiority,
    /// Requests (replicates, if the method is `t-replicates`) that would settle an open verdict.
    pub needed: Needed,
}

/// The baseline: its place in the contestants, and among those the others were paired with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Baseline {
    contestant: usize,
    pairing: usize,
}

impl Baseline {
    pub(super) fn name(self, results: &Results) -> &str {
        &results.contestants[self.contestant].name
    }
}

/// The complaint that nobody of this name takes part.
pub(super) fn no_baseline<'n>(asked: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    format!(
        "there is no policy or control `{asked}` to be the baseline{}",
        did_you_mean(asked, names)
    )
}

/// The baseline asked for, else the most accurate `always-<route>`; the cheaper, then the first one
/// listed, of equals. `Ok(None)` when the experiment has none to offer.
pub(super) fn baseline(results: &Results, asked: Option<&str>) -> Result<Option<Baseline>, String> {
    let known = results
        .baselines
        .iter()
        .enumerate()
        .filter_map(|(pairing, &contestant)| {
            let entry = results.contestants.get(contestant)?;
            Some((
                Baseline {
                    contestant,
                    pairing,
                },
                entry,
            ))
        });
    if let Some(asked) = asked {
        let names = || results.contestants.iter().map(|c| c.name.as_str());
        if !names().any(|name| name == asked) {
            return Err(no_baseline(asked, names()));
        }
        return known
            .filter(|(_, entry)| entry.name == asked)
            .map(|(baseline, _)| Some(baseline))
            .next()
            .ok_or_else(|| {
                format!("nothing was paired with `{asked}`, so it cannot be the baseline")
            });
    }
    let mean = |sum: i128, n: u64| moments(n, sum, i128::MAX).map(|m| m.mean);
    let mut best: Option<(Baseline, f64, f64)> = None;
    let single = results.baselines.len() == 1;
    for (baseline, entry) in known {
        if entry.unavailable.is_some() || !(entry.always.is_some() || single) {
            continue;
        }
        let total = Tally::total(&entry.tallies);
        let Some(accuracy) = mean(total.score_sum, total.graded) else {
            continue;
        };
        let cost = mean(total.cost_sum, total.costed).unwrap_or(f64::INFINITY);
        if best.is_none_or(|(_, a, c)| accuracy > a || (accuracy == a && cost < c)) {
            best = Some((baseline, accuracy, cost));
        }
    }
    Ok(best.map(|(baseline, ..)| baseline))
}

/// Everyone but the baseline against it.
pub(super) fn paired(
    results: &Results,
    baseline: Baseline,
    pooling: &Pooling,
    margin: f64,
) -> Vec<Paired> {
    let reference = &results.contestants[baseline.contestant];
    results
        .contestants
        .iter()
        .enumerate()
        .filter(|&(index, _)| index != baseline.contestant)
        .map(|(_, contestant)| {
            let empty = Vec::new();
            let replicates = contestant.pairs.get(baseline.pairing).unwrap_or(&empty);
            let total = PairTally::total(replicates);
            let trained = contestant.trained || reference.trained;
            let accuracy_difference = pooling.estimate(&total, replicates, trained, accuracy);
            let verdict = if accuracy_difference.method == "tango" {
                tango_test(table(&total).scaled(pooling.weight()), margin, pooling.z())
            } else {
                from_limits(accuracy_difference.limits(), margin)
            };
            Paired {
                baseline: reference.name.clone(),
                policy: contestant.name.clone(),
                control: contestant.control,
                usd_per_1k_difference: pooling.estimate(&total, replicates, trained, cost),
                n11: total.n11,
                n10: total.n10,
                n01: total.n01,
                n00: total.n00,
                verdict,
                needed: needed(&accuracy_difference, -margin),
                accuracy_difference,
            }
        })
        .collect()
}

/// The 2×2 table. Scores between right and wrong that agree on every request are a table without
/// disagreement: their differences have no spread, and an interval without width would be too sure.
fn table(tally: &PairTally) -> Pairs {
    if tally.fractional > 0 {
        Pairs::new(tally.graded, 0, 0, 0)
    } else {
        Pairs::new(tally.n11, tally.n10, tally.n01, tally.n00)
    }
}

fn accuracy(tally: &PairTally) -> Option<Point> {
    if tally.fractional > 0 && tally.score_difference_square_sum > 0 {
        return Point::mean(
            (
                tally.graded,
                tally.score_difference_sum,
                tally.score_difference_square_sum,
            ),
            1e6,
            (-1.0, 1.0),
            "paired-normal",
        );
    }
    let pairs = table(tally);
    (pairs.n() > 0.0).then_some(Point::Paired {
        pairs,
        n: tally.graded,
    })
}

fn cost(tally: &PairTally) -> Option<Point> {
    Point::mean(
        (
            tally.costed,
            tally.cost_difference_sum,
            tally.cost_difference_square_sum,
        ),
        PER_1K,
        (f64::NEG_INFINITY, f64::INFINITY),
        "paired-normal",
    )
}
