//! What a policy saves at equal accuracy: against the cheapest mix of single routes that is as accurate.
//!
//! "Cheaper than the large model" is no feat for whoever is less accurate. Without any routing one could send
//! a share of the requests, drawn blindly, to one route and the rest to another; a policy has earned
//! something if that costs more at the accuracy that the policy has. The mix is found anew in each bootstrap
//! draw ([`cheapest_mix`]), for the routes, the policy and what they cost were measured on the same requests.
//!
//! * The draws are of blocks of consecutive requests (of rows, on recorded traffic, whatever the replicates),
//!   the same blocks for everybody; limits are percentiles (Efron and Tibshirani, 1993, section 13.3). Where the
//!   policy draws once for many requests, its luck counts as everywhere else in a report (`sample.rs`).
//! * Staged requests and those that share a clock hang on each other: only replicates give an interval there.
//! * In some draws no mix may be as accurate as the policy: there the saving has no bound, and neither has the
//!   interval if that happens in more of them than one of its tails holds. Then it has a lower limit only.

use super::metrics::PER_1K;
use super::rows::Row;
use super::sample::{Point, Pooling, draws_once};
use super::sweep::{fewer, merged};
use crate::sim::{Blocks, Contestant, Results};
use crate::stats::bootstrap::{REPLICATES, quantile};
use crate::stats::pareto;
use crate::stats::{
    Bootstrap, CheapestMix, Estimate, Limits, Moments, Resampled, Tally, UnitSums, cheapest_mix,
};

/// What a policy saves against the cheapest mix of single routes that is as accurate.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// The mix in words, such as `62 % small, 38 % large`, or why there is none. Names come from outside.
    pub mix: String,
    /// What the mix costs more, in USD per 1,000 requests; negative if the policy is the dearer one.
    pub usd_per_1k: Estimate,
    /// The same as a share of what the mix costs.
    pub share: Estimate,
    /// What to know about the interval, or about the lack of it.
    pub note: Option<String>,
}

/// Everybody that savings are about, on the same requests.
struct Ground<'r> {
    /// The single routes: names and places among the contestants.
    singles: Vec<(&'r str, usize)>,
    /// The policies under test.
    policies: Vec<(&'r Contestant, usize)>,
    /// Sums by single route, then by policy: in each replicate, and of all.
    replicates: Vec<Vec<UnitSums>>,
    pooled: Vec<UnitSums>,
    resampled: Option<Resampled>,
}

/// Fills in the savings of the policies under test, if the experiment ran single routes.
pub(super) fn fill(
    rows: &mut [Row],
    results: &Results,
    blocks: Option<&Blocks>,
    pooling: &Pooling,
    seed: u64,
) {
    let Some(ground) = Ground::of(results, blocks, seed) else {
        return;
    };
    for (place, (contestant, _)) in ground.policies.iter().enumerate() {
        let own = |row: &&mut Row| row.mix.is_none() && row.policy == contestant.name;
        if let Some(row) = rows.iter_mut().find(own) {
            row.saving = Some(ground.saving(contestant, place, results, pooling));
        }
    }
}

impl<'r> Ground<'r> {
    fn of(results: &'r Results, blocks: Option<&Blocks>, seed: u64) -> Option<Self> {
        let all = results.contestants.iter().enumerate();
        let singles: Vec<(&str, usize)> = all
            .clone()
            .filter_map(|(index, one)| {
                let name = results.routes.get(usize::from(one.always?))?;
                one.control.then_some((name.as_str(), index))
            })
            .collect();
        let policies: Vec<(&Contestant, usize)> = all
            .filter(|(_, one)| !one.control && one.unavailable.is_none())
            .map(|(index, one)| (one, index))
            .collect();
        if singles.is_empty() {
            return None;
        }
        let members = || {
            let singles = singles.iter().map(|(_, index)| *index);
            singles.chain(policies.iter().map(|(_, index)| *index))
        };
        let of = |index: usize, replicate: usize| {
            let tallies = &results.contestants[index].tallies;
            tallies.get(replicate).map(units).unwrap_or_default()
        };
        let count = members().map(|index| results.contestants[index].tallies.len());
        let replicates: Vec<Vec<UnitSums>> = (0..count.max().unwrap_or(0))
            .map(|replicate| members().map(|index| of(index, replicate)).collect())
            .collect();
        let pooled = (0..members().count())
            .map(|place| merged(replicates.iter().map(|one| &one[place])))
            .collect();
        let cut: Option<Vec<Vec<UnitSums>>> = blocks.map(|blocks| {
            let of = |index: usize| blocks.of.get(index).map_or(&[][..], Vec::as_slice);
            members()
                .map(|index| fewer(in_units(of(index), results.shared_rows)))
                .collect()
        });
        let draws = Bootstrap {
            seed,
            replicates: REPLICATES,
        };
        let enough = |cut: &Vec<Vec<UnitSums>>| cut.iter().all(|units| units.len() > 1);
        Some(Self {
            resampled: cut.filter(enough).map(|cut| Resampled::new(&cut, &draws)),
            singles,
            policies,
            replicates,
            pooled,
        })
    }

    /// Why nothing can be said about any policy.
    fn unknown(&self, results: &Results) -> Option<String> {
        let blind = self
            .singles
            .iter()
            .zip(&self.pooled)
            .find(|((_, index), sums)| {
                results.contestants[*index].unavailable.is_some()
                    || sums.graded == 0
                    || sums.costed == 0
            });
        blind.map(|((name, _), sums)| {
            let what = if sums.graded == 0 { "accuracy" } else { "cost" };
            format!("not known: the {what} of `{name}` alone is not known, and it might be part of the cheapest mix")
        })
    }

    fn saving(
        &self,
        contestant: &Contestant,
        place: usize,
        results: &Results,
        pooling: &Pooling,
    ) -> Saving {
        let routes = self.singles.len();
        let unknown = |mix: String| Saving {
            mix,
            usd_per_1k: Estimate::unknown(pooling.level),
            share: Estimate::unknown(pooling.level),
            note: None,
        };
        if let Some(why) = self.unknown(results) {
            return unknown(why);
        }
        let own = self.pooled[routes + place];
        if own.graded == 0 || own.costed == 0 {
            return unknown("not known: the policy's accuracy or cost is not".to_owned());
        }
        let points: Vec<pareto::Point> = self.pooled.iter().map(UnitSums::position).collect();
        let Some(mix) = at(&points, routes, place) else {
            return unknown("no mix of single routes is as accurate".to_owned());
        };
        // Without blocks nothing but replicates can tell how sure it is.
        let once = draws_once(contestant) || (self.resampled.is_none() && !pooling.shared_rows);
        let reached = |one: &Vec<UnitSums>| {
            let points: Vec<pareto::Point> = one.iter().map(UnitSums::position).collect();
            at(&points, routes, place).is_some()
        };
        let missed = once && !self.replicates.iter().all(reached);
        let method = if self.resampled.is_some() {
            Estimate::BLOCK_BOOTSTRAP
        } else {
            Estimate::ONE_REPLICATE
        };
        let estimate = |of: fn(&CheapestMix, pareto::Point) -> f64, unit: f64, high: f64| {
            let value = |points: &[pareto::Point]| {
                let mix = at(points, routes, place);
                mix.map_or(f64::INFINITY, |mix| of(&mix, points[routes + place]) / unit)
            };
            let drawn = self.resampled.as_ref().map(|drawn| drawn.values(value));
            let (limits, low) = limits(drawn, pooling.level);
            let point = |sums: &Vec<UnitSums>| {
                let points: Vec<pareto::Point> = sums.iter().map(UnitSums::position).collect();
                let (graded, costed) = (sums[routes + place].graded, sums[routes + place].costed);
                let mean = of(&at(&points, routes, place)?, points[routes + place]);
                Some(Point::Mean {
                    moments: Moments {
                        n: graded.min(costed),
                        mean,
                        variance: None,
                    },
                    unit,
                    bounds: (f64::NEG_INFINITY, high),
                    method,
                })
            };
            let rows = Some((limits, method));
            let mut estimate =
                pooling.estimate_with(&self.pooled, &self.replicates, once, rows, point);
            if missed {
                (estimate.low, estimate.high) = (None, None);
            } else if estimate.low.is_none() && estimate.method == method {
                estimate.low = low;
            }
            estimate
        };
        let usd_per_1k = estimate(|mix, own| mix.cost - own.cost, PER_1K, f64::INFINITY);
        let share = if mix.cost > 0.0 {
            estimate(|mix, own| (mix.cost - own.cost) / mix.cost, 1.0, 1.0)
        } else {
            Estimate::unknown(pooling.level)
        };
        let note = if missed {
            Some("in some replicates no mix of single routes is as accurate, so there is no interval".to_owned())
        } else if usd_per_1k.low.is_some() && usd_per_1k.high.is_none() {
            Some(
                "there is no upper limit: in too many draws no mix of single routes is as accurate"
                    .to_owned(),
            )
        } else if usd_per_1k.low.is_none() && self.resampled.is_none() {
            Some("no interval: requests hang on each other, and it takes two replicates or more of their own requests to see how much".to_owned())
        } else if usd_per_1k.low.is_none() && usd_per_1k.method == Estimate::BLOCK_BOOTSTRAP {
            Some(
                "no interval: in nearly all draws no mix of single routes is as accurate"
                    .to_owned(),
            )
        } else {
            None
        };
        Saving {
            mix: self.in_words(&mix),
            usd_per_1k,
            share,
            note,
        }
    }

    fn in_words(&self, mix: &CheapestMix) -> String {
        let (low, high) = (self.singles[mix.low].0, self.singles[mix.high].0);
        if mix.low == mix.high {
            return format!("{high} alone");
        }
        // Rounded so that the two make a hundred.
        let percent = (mix.share * 100.0).round();
        format!("{} % {low}, {percent} % {high}", 100.0 - percent)
    }
}

/// The cheapest mix of the first `routes` points that is as accurate as the policy at `place` behind them.
fn at(points: &[pareto::Point], routes: usize, place: usize) -> Option<CheapestMix> {
    cheapest_mix(&points[..routes], points[routes + place].accuracy)
}

/// What a bootstrap needs of a tally.
fn units(tally: &Tally) -> UnitSums {
    UnitSums {
        graded: tally.graded,
        score_sum: tally.score_sum,
        costed: tally.costed,
        cost_sum: tally.cost_sum,
    }
}

/// What is drawn anew, from the blocks of the replicates: on shared rows the sums of a block of rows are those
/// of all replicates.
fn in_units(replicates: &[Vec<UnitSums>], shared_rows: bool) -> Vec<UnitSums> {
    if !shared_rows {
        return replicates.iter().flatten().copied().collect();
    }
    let blocks = replicates.iter().map(Vec::len).min().unwrap_or(0);
    (0..blocks)
        .map(|block| merged(replicates.iter().map(|blocks| &blocks[block])))
        .collect()
}

/// Percentile limits of draws, some of which may be infinite, and the lower one also if the upper one is. No
/// limits if a draw is not a number: then somebody's place is unknown in it.
fn limits(drawn: Option<Vec<f64>>, level: f64) -> (Option<Limits>, Option<f64>) {
    let Some(mut drawn) = drawn.filter(|drawn| !drawn.iter().any(|value| value.is_nan())) else {
        return (None, None);
    };
    drawn.sort_by(f64::total_cmp);
    let low = quantile(&drawn, (1.0 - level) / 2.0);
    let high = quantile(&drawn, f64::midpoint(1.0, level));
    let both = low.is_finite() && high.is_finite();
    (
        both.then_some(Limits { low, high }),
        low.is_finite().then_some(low),
    )
}
