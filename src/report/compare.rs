//! Each contestant against the baseline, request by request.

use super::did_you_mean;
use super::metrics::PER_1K;
use super::notes::listed;
use super::sample::{Point, Pooling, draws_once};
use crate::sim::{Contestant, Results};

use crate::stats::multiplicity::holm;
use crate::stats::{
    Bootstrap, CLUSTERS_LEAST, ClusterMean, ClusterPair, ClusterSum, Estimate, Limits, Needed,
    NonInferiority, PairTally, Pairs, Tails, Tally, cluster_bca, cluster_mean, from_limits,
    moments, needed_among, normal_tail, student_tail, student_two_sided, tango, tango_test, upheld,
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
    /// Whether the verdict would be another one if this policy were the only one tested.
    pub held_back: bool,
    /// One-sided p-values of the verdict, each request that is left out counting against it. `None`
    /// without an interval.
    pub p: Option<Tails>,
    /// The same adjusted by Holm's procedure over the policies tested together; `None` for controls,
    /// which are not tested.
    pub p_holm: Option<Tails>,
    /// Requests (replicates, if the method is `t-replicates`) that would settle an open verdict, at the
    /// strictest step of Holm's procedure if several policies are tested.
    pub needed: Needed,
    /// Clusters behind the accuracy difference, if requests were added up by cluster.
    pub clusters: Option<u64>,
    /// The differences with intervals by drawing clusters anew, if asked for. Verdicts do not look at
    /// them.
    pub bootstrap: Option<Bootstrapped>,
}

/// The differences again, with intervals by drawing clusters anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Bootstrapped {
    /// See [`Paired::accuracy_difference`].
    pub accuracy_difference: Estimate,
    /// See [`Paired::usd_per_1k_difference`].
    pub usd_per_1k_difference: Estimate,
}

/// What is asked of the differences.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    /// Margin of "not worse", a share.
    pub(super) margin: f64,
    /// One-sided error rate over all policies together.
    pub(super) alpha: f64,
    /// How clusters are drawn anew, if they are.
    pub(super) bootstrap: Option<Bootstrap>,
}

/// Clusters with a difference below which Student's interval over clusters is not believed where the
/// score interval is wider.
const DIFFERING_LEAST: usize = 5;

/// A score of one in the tallies' unit.
const SCORE: f64 = 1e6;

/// The baseline: its place in the contestants, and among those the others were paired with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Baseline {
    pub(super) contestant: usize,
    pub(super) pairing: usize,
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

/// What a comparison looks at, of all requests or of a part of them.
pub(super) struct Against<'r> {
    /// Against the baseline, by replicate.
    pub(super) replicates: &'r [PairTally],
    /// The requests, over all replicates.
    pub(super) pooled: u64,
    /// Differences by cluster, if anybody added them up.
    pub(super) clusters: Option<&'r [ClusterPair]>,
    /// Whether a contestant or the baseline draws once for many requests.
    pub(super) draws_once: bool,
}

/// One contestant's comparison before it is known who else is tested.
pub(super) struct Draft {
    pub(super) total: PairTally,
    pooled: u64,
    pub(super) accuracy: Estimate,
    usd_per_1k: Estimate,
    clusters: Option<u64>,
    bootstrap: Option<Bootstrapped>,
    known: f64,
    /// Whether there are too few clusters to decide.
    few: bool,
    /// Decided on the requests graded for both.
    decided: NonInferiority,
    /// The same, upheld whatever the others would have shown.
    pub(super) verdict: NonInferiority,
    /// p-values that go with `decided` and with `verdict`.
    tails: Option<(Tails, Tails)>,
}

/// Everyone but the baseline against it, and how many policies were tested together.
pub(super) fn paired(
    results: &Results,
    baseline: Baseline,
    pooling: &Pooling,
    test: &Test,
) -> (Vec<Paired>, u64) {
    let reference = &results.contestants[baseline.contestant];
    let drafts: Vec<(&Contestant, Draft)> = results
        .contestants
        .iter()
        .enumerate()
        .filter(|&(index, _)| index != baseline.contestant)
        .map(|(_, contestant)| {
            let against = Against {
                replicates: contestant
                    .pairs
                    .get(baseline.pairing)
                    .map_or(&[], Vec::as_slice),
                pooled: Tally::total(&contestant.tallies).requests,
                clusters: contestant.clusters.get(baseline.pairing).map(Vec::as_slice),
                draws_once: draws_once(contestant) || draws_once(reference),
            };
            (contestant, Draft::of(&against, pooling, test))
        })
        .collect();
    // Controls stand beside the policies to be looked at, not to be chosen from.
    let tested =
        |(contestant, draft): &&(&Contestant, Draft)| !contestant.control && draft.tails.is_some();
    let family = drafts.iter().filter(tested).count();
    let adjusted = |of: fn(&(Tails, Tails)) -> Tails| {
        let tails: Vec<Tails> = drafts
            .iter()
            .filter(tested)
            .filter_map(|(_, draft)| draft.tails.as_ref().map(of))
            .collect();
        holm_tails(&tails)
    };
    let (mut on_known, mut on_all) = (
        adjusted(|tails| tails.0).into_iter(),
        adjusted(|tails| tails.1).into_iter(),
    );
    let paired = drafts
        .iter()
        .map(|one| {
            let (known, all) = match tested(&one) {
                true => (on_known.next(), on_all.next()),
                false => (None, None),
            };
            let (contestant, draft) = one;
            draft.finish(
                (contestant, reference),
                pooling,
                test,
                family,
                known.zip(all),
            )
        })
        .collect();
    (paired, family as u64)
}

/// Holm's adjustment of both decisions, each a family of its own.
fn holm_tails(tails: &[Tails]) -> Vec<Tails> {
    let of = |side: fn(&Tails) -> f64| {
        let raw: Vec<f64> = tails.iter().map(side).collect();
        // A p-value that is none belongs to no decision.
        holm(&raw).unwrap_or_else(|| vec![1.0; raw.len()])
    };
    of(|one| one.noninferior)
        .into_iter()
        .zip(of(|one| one.inferior))
        .map(|(noninferior, inferior)| Tails {
            noninferior,
            inferior,
        })
        .collect()
}

impl Draft {
    /// The comparison of one contestant with the baseline, without regard to others.
    pub(super) fn of(against: &Against<'_>, pooling: &Pooling, test: &Test) -> Self {
        let &Against {
            replicates,
            pooled,
            clusters,
            draws_once,
        } = against;
        let total = PairTally::total(replicates);
        let scores = clusters.and_then(|all| cluster_mean(all.iter().map(|one| one.score)));
        let costs = clusters.and_then(|all| cluster_mean(all.iter().map(|one| one.cost)));
        // Limits that take clusters for independent.
        let as_clusters = clusters
            .zip(scores)
            .and_then(|(all, mean)| as_pairs(all, mean, &total));
        let score_rows = clusters.map(|all| score_limits(all, scores, as_clusters, pooling));
        let cost_rows = clusters.map(|_| {
            let limits = costs.and_then(|mean| mean.limits(pooling.level));
            let limits = limits.map(|limits| in_unit(limits, PER_1K));
            (limits.or(constant_cost(&total)), Estimate::CLUSTER_T)
        });
        let estimate = |rows, point: fn(&PairTally) -> Option<Point>| {
            pooling.estimate_with(&total, replicates, draws_once, rows, point)
        };
        let accuracy_difference = estimate(score_rows, accuracy);
        let usd_per_1k = estimate(cost_rows, cost);
        let pairs = match accuracy_difference.method {
            "tango" => Some(table(&total).scaled(pooling.weight())),
            Estimate::CLUSTER_TANGO => as_clusters,
            _ => None,
        };
        // Replicates that are drawn anew stand for themselves, whatever their clusters.
        let few = clusters.is_some()
            && accuracy_difference.method != Estimate::T_REPLICATES
            && scores.is_none_or(|mean| mean.clusters < CLUSTERS_LEAST);
        let decided = match pairs {
            _ if few => NonInferiority::Inconclusive,
            Some(pairs) => tango_test(pairs, test.margin, pooling.z()),
            None => from_limits(accuracy_difference.limits(), test.margin),
        };
        let known = if total.graded >= pooled {
            1.0
        } else {
            total.graded as f64 / pooled as f64
        };
        let tails = |known: f64| {
            if few {
                return None;
            }
            if let Some(pairs) = pairs {
                return Tails::tango(pairs, test.margin, known);
            }
            let (value, limits) = (accuracy_difference.value?, accuracy_difference.limits()?);
            let freedom = match accuracy_difference.method {
                Estimate::T_REPLICATES => accuracy_difference.n.checked_sub(1),
                Estimate::CLUSTER_T => scores?.clusters.checked_sub(1),
                _ => None,
            };
            let at = (test.margin, known);
            match freedom {
                Some(freedom) => {
                    let critical = student_two_sided(pooling.level, freedom);
                    let tail = |t| student_tail(t, freedom);
                    Tails::of_limits(value, limits, critical, tail, at)
                }
                None => Tails::of_limits(value, limits, pooling.z(), normal_tail, at),
            }
        };
        let bootstrap = clusters.zip(test.bootstrap).filter(|_| {
            // Draws that a whole replicate shares are in no cluster.
            !draws_once || replicates.len() < 2
        });
        Self {
            pooled,
            verdict: if few {
                decided
            } else {
                upheld(decided, accuracy_difference.limits(), known, test.margin)
            },
            few,
            decided,
            known,
            tails: tails(1.0).zip(tails(known)),
            clusters: clusters.map(|_| scores.map_or(0, |mean| mean.clusters)),
            bootstrap: bootstrap.map(|(clusters, draws)| {
                Bootstrapped::of(clusters, &draws, pooling, constant_cost(&total))
            }),
            accuracy: accuracy_difference,
            usd_per_1k,
            total,
        }
    }

    /// The comparison, with the p-values that were adjusted for the others: of the requests graded for
    /// both alone, and of all.
    fn finish(
        &self,
        (contestant, reference): (&Contestant, &Contestant),
        pooling: &Pooling,
        test: &Test,
        family: usize,
        adjusted: Option<(Tails, Tails)>,
    ) -> Paired {
        let several = adjusted.filter(|_| family > 1);
        let (decided, verdict) = match several {
            Some((known, all)) => {
                let (known, all) = (known.decide(test.alpha), all.decide(test.alpha));
                // What is open on the known requests, more unknown ones do not decide.
                (
                    known,
                    if all == known {
                        all
                    } else {
                        NonInferiority::Inconclusive
                    },
                )
            }
            None => (self.decided, self.verdict),
        };
        let tests = if several.is_some() { family as u64 } else { 1 };
        Paired {
            baseline: reference.name.clone(),
            policy: contestant.name.clone(),
            control: contestant.control,
            usd_per_1k_difference: self.usd_per_1k.clone(),
            n11: self.total.n11,
            n10: self.total.n10,
            n01: self.total.n01,
            n00: self.total.n00,
            requests: pooling.count(self.pooled),
            left_out: pooling.count(self.pooled.saturating_sub(self.total.graded)),
            verdict,
            left_open: self.known < 1.0 && verdict != decided,
            held_back: verdict != self.verdict && decided != self.decided,
            p: self.tails.map(|(_, all)| all),
            p_holm: adjusted.map(|(_, all)| all),
            // More requests of the same few do not help.
            needed: if self.few {
                Needed::Unknown
            } else {
                needed_among(&self.accuracy, -test.margin, tests)
            },
            clusters: self.clusters,
            bootstrap: self.bootstrap.clone(),
            accuracy_difference: self.accuracy.clone(),
        }
    }
}

impl Bootstrapped {
    /// `constant` is what the cost difference is on each request, if it is the same on all.
    fn of(
        clusters: &[ClusterPair],
        draws: &Bootstrap,
        pooling: &Pooling,
        constant: Option<Limits>,
    ) -> Self {
        let estimate = |of: fn(&ClusterPair) -> ClusterSum, unit: f64, constant: Option<Limits>| {
            let sums: Vec<ClusterSum> = clusters.iter().map(of).collect();
            let Some(mean) = cluster_mean(sums.iter().copied()) else {
                return Estimate::unknown(pooling.level);
            };
            let limits = cluster_bca(&sums, pooling.level, draws);
            Estimate::new(
                mean.mean / unit,
                limits.map(|limits| in_unit(limits, unit)).or(constant),
                pooling.level,
                pooling.count(mean.n),
                Estimate::CLUSTER_BCA,
            )
        };
        Self {
            accuracy_difference: estimate(|one| one.score, SCORE, None),
            usd_per_1k_difference: estimate(|one| one.cost, PER_1K, constant),
        }
    }
}

/// The 2×2 table with as many pairs as there are clusters: what it says if the requests of a cluster say
/// the same thing over and over, which is the least they can say. An effective sample size, after
/// L. Kish, Survey Sampling (1965), section 8.2, at an intraclass correlation of one. `None` for scores
/// between right and wrong that differ, which no table holds.
fn as_pairs(clusters: &[ClusterPair], mean: ClusterMean, total: &PairTally) -> Option<Pairs> {
    let held = total.fractional == 0 || total.score_difference_square_sum == 0;
    (held && total.graded > 0 && !clusters.is_empty())
        .then(|| table(total).scaled(mean.clusters as f64 / total.graded as f64))
}

/// Limits of the accuracy difference, clusters taken for independent, and their method.
///
/// Student's interval lives on how much clusters differ. Where none or hardly any of them shows a
/// difference, it is next to nothing: Wald's artefact once more. There the score interval of as many
/// pairs as there are clusters takes its place, if it is wider.
fn score_limits(
    clusters: &[ClusterPair],
    mean: Option<ClusterMean>,
    as_clusters: Option<Pairs>,
    pooling: &Pooling,
) -> (Option<Limits>, &'static str) {
    let student = mean.and_then(|mean| mean.limits(pooling.level));
    let student = student.map(|limits| in_unit(limits, SCORE));
    let differing = clusters.iter().filter(|one| one.score.sum != 0).count();
    let equal = mean.is_some_and(|mean| mean.standard_error == Some(0.0));
    let score = as_clusters
        .filter(|_| equal || differing < DIFFERING_LEAST)
        .and_then(|pairs| tango(pairs, pooling.z()));
    let width = |limits: Limits| limits.high - limits.low;
    match (student, score) {
        (Some(student), Some(score)) if width(student) >= width(score) => {
            (Some(student), Estimate::CLUSTER_T)
        }
        (_, Some(score)) => (Some(score), Estimate::CLUSTER_TANGO),
        (student, None) => (student, Estimate::CLUSTER_T),
    }
}

/// The cost difference, if each request shows the same one: what does not vary needs no width.
fn constant_cost(total: &PairTally) -> Option<Limits> {
    let constant = total.costed > 1
        && total
            .cost_difference_sum
            .checked_mul(total.cost_difference_sum)
            .zip(
                total
                    .cost_difference_square_sum
                    .checked_mul(i128::from(total.costed)),
            )
            .is_some_and(|(square, squares)| square == squares);
    constant.then(|| {
        Limits::around(
            total.cost_difference_sum as f64 / total.costed as f64 / PER_1K,
            0.0,
        )
    })
}

/// Limits divided by `unit`.
fn in_unit(limits: Limits, unit: f64) -> Limits {
    Limits {
        low: limits.low / unit,
        high: limits.high / unit,
    }
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
            SCORE,
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
