//! Each contestant against the baseline, request by request.

use super::did_you_mean;
use super::metrics::PER_1K;
use super::notes::listed;
use super::sample::{Point, Pooling, draws_once};
use crate::sim::{Contestant, Results};
use crate::stats::{
    Estimate, Needed, NonInferiority, PairTally, Pairs, Tally, from_limits, moments, needed,
    tango_test, upheld,
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
    /// Requests, over all replicates unless they share their rows.
    pub requests: u64,
    /// Of these, those without a grade for both, which the difference leaves out.
    pub left_out: u64,
    /// Whether the policy is not worse by more than the margin. Decided only if it holds even when each
    /// request that is left out counts against the decision.
    pub verdict: NonInferiority,
    /// Whether the verdict is open for no other reason than the requests that are left out.
    pub left_open: bool,
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

/// The baseline asked for, else the most accurate `always-<route>` among those graded on at least half
/// of the requests; the cheaper, then the first one listed, of equals. If none is graded that often, the
/// one with the most grades. `Ok(None)` when the experiment has none to offer.
///
/// Beside it a note, if routes were passed over: a route graded three times may look perfect.
pub(super) fn baseline(
    results: &Results,
    asked: Option<&str>,
) -> Result<(Option<Baseline>, Option<String>), String> {
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
            .map(|(baseline, _)| (Some(baseline), None))
            .next()
            .ok_or_else(|| {
                format!("nothing was paired with `{asked}`, so it cannot be the baseline")
            });
    }
    let mean = |sum: i128, n: u64| moments(n, sum, i128::MAX).map(|m| m.mean);
    let single = results.baselines.len() == 1;
    let candidates: Vec<(Baseline, &Contestant, Tally)> = known
        .filter(|(_, entry)| entry.unavailable.is_none() && (entry.always.is_some() || single))
        .map(|(baseline, entry)| (baseline, entry, Tally::total(&entry.tallies)))
        .filter(|(.., total)| total.graded > 0)
        .collect();
    let half = |total: &Tally| total.graded >= total.requests.div_ceil(2);
    let most = candidates.iter().map(|(.., total)| total.graded).max();
    let enough = candidates.iter().any(|(.., total)| half(total));
    let eligible = |total: &Tally| {
        if enough {
            half(total)
        } else {
            Some(total.graded) == most
        }
    };
    let mut best: Option<(Baseline, f64, f64)> = None;
    for (baseline, _, total) in candidates.iter().filter(|(.., total)| eligible(total)) {
        let Some(accuracy) = mean(total.score_sum, total.graded) else {
            continue;
        };
        let cost = mean(total.cost_sum, total.costed).unwrap_or(f64::INFINITY);
        if best.is_none_or(|(_, a, c)| accuracy > a || (accuracy == a && cost < c)) {
            best = Some((*baseline, accuracy, cost));
        }
    }
    let passed_over: Vec<&str> = candidates
        .iter()
        .filter(|(.., total)| !eligible(total))
        .map(|(_, entry, _)| entry.name.as_str())
        .collect();
    let note = if !enough && !candidates.is_empty() {
        Some("no single route has grades on half of the requests: the baseline is the one with the most, which may not be the best".to_owned())
    } else if passed_over.is_empty() {
        None
    } else {
        Some(format!(
            "not considered as the baseline, with grades on fewer than half of the requests: {}",
            listed(passed_over)
        ))
    };
    Ok((best.map(|(baseline, ..)| baseline), note))
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
            let draws_once = draws_once(contestant) || draws_once(reference);
            let accuracy_difference = pooling.estimate(&total, replicates, draws_once, accuracy);
            let decided = if accuracy_difference.method == "tango" {
                tango_test(table(&total).scaled(pooling.weight()), margin, pooling.z())
            } else {
                from_limits(accuracy_difference.limits(), margin)
            };
            let pooled = Tally::total(&contestant.tallies).requests;
            let known = if total.graded >= pooled {
                1.0
            } else {
                total.graded as f64 / pooled as f64
            };
            let verdict = upheld(decided, accuracy_difference.limits(), known, margin);
            Paired {
                baseline: reference.name.clone(),
                policy: contestant.name.clone(),
                control: contestant.control,
                usd_per_1k_difference: pooling.estimate(&total, replicates, draws_once, cost),
                n11: total.n11,
                n10: total.n10,
                n01: total.n01,
                n00: total.n00,
                requests: pooling.count(pooled),
                left_out: pooling.count(pooled.saturating_sub(total.graded)),
                verdict,
                left_open: verdict != decided,
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
