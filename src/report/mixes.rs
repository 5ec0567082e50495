//! Controls without a decision in them: what a policy's accuracy would be if it chose blindly.
//!
//! * `random-mix:<policy>` sends each request to route r with the probability with which the policy's
//!   final answers came from r: shares of the answers, not of the requests, because a single route
//!   leaves requests unserved itself, and what the policy left unserved must not count on top of that.
//!   A policy that does not beat it has learnt nothing about which request is hard; one that always
//!   takes the same route is its own mix and leads by exactly nothing.
//! * `cost-matched-mix:<policy>` mixes the two single routes whose costs lie just below and just above
//!   the policy's, so that it costs the same.
//!
//! Both follow from the tallies of `always-<route>` without another pass: a request's outcome under
//! the mix is that of route r with probability w_r, so its mean is Σ w_r·mean_r and its variance
//! Σ w_r·(variance_r + (mean_r − mean)²).

use super::metrics::{METRICS, PER_1K};
use super::rows::{Known, Mix, Row};
use super::sample::Pooling;
use crate::sim::Results;
use crate::stats::{
    Estimate, Limits, Moments, Tally, difference_of_independent, mean_limits, moments,
    wilson_fraction,
};

/// A single route's tally and its probability in the mix.
struct Part<'a> {
    weight: f64,
    route: usize,
    tally: &'a Tally,
}

/// A mix: its parts, whose weights add up to one.
struct Recipe<'a> {
    parts: Vec<Part<'a>>,
    note: Option<String>,
}

/// The two mixes beside `row`, whose tally is `total`. None if the experiment ran no single route, or
/// could not measure the policy.
pub(super) fn mixes(
    results: &Results,
    totals: &[Tally],
    row: &Row,
    total: &Tally,
    pooling: &Pooling,
) -> Vec<Row> {
    let singles: Vec<Part<'_>> = results
        .contestants
        .iter()
        .zip(totals)
        .filter(|(contestant, _)| contestant.unavailable.is_none())
        .filter_map(|(contestant, tally)| {
            Some(Part {
                weight: 0.0,
                route: usize::from(contestant.always?),
                tally,
            })
        })
        .collect();
    if singles.is_empty() || row.unavailable.is_some() {
        return Vec::new();
    }
    [
        ("random-mix", random(results, &singles, total)),
        ("cost-matched-mix", cost_matched(results, &singles, total)),
    ]
    .into_iter()
    .map(|(kind, recipe)| {
        let name = format!("{kind}:{}", row.policy);
        let mut mix = recipe.map_or_else(
            |reason| {
                Row::unknown(
                    name.clone(),
                    kind,
                    true,
                    results.routes.len(),
                    pooling.level,
                    &reason,
                )
            },
            |recipe| mixed_row(&name, kind, &recipe, total, results.routes.len(), pooling),
        );
        // The formulas below take requests for independent, and on a timeline they are not.
        if results.timetable.is_some() && mix.unavailable.is_none() {
            for estimate in mix.metrics.iter_mut().chain(&mut mix.final_share) {
                (estimate.low, estimate.high) = (None, None);
            }
            mix.notes.push(
                "mixes have no intervals on a timeline: they are computed as if requests were independent"
                    .to_owned(),
            );
        }
        let accuracy = |row: &Row| {
            row.metric("accuracy")
                .cloned()
                .unwrap_or_else(|| Estimate::unknown(pooling.level))
        };
        mix.mix = Some(Mix {
            of: row.policy.clone(),
            lead: difference_of_independent(&accuracy(row), &accuracy(&mix)),
        });
        mix
    })
    .collect()
}

fn random<'a>(
    results: &Results,
    singles: &[Part<'a>],
    total: &Tally,
) -> Result<Recipe<'a>, String> {
    let answered: u64 = total.final_count.iter().sum();
    if answered == 0 {
        return Err("the policy answered no request".to_owned());
    }
    let mut parts = Vec::new();
    for (route, &count) in total.final_count.iter().enumerate() {
        if count == 0 {
            continue;
        }
        let single = singles
            .iter()
            .find(|single| single.route == route)
            .ok_or_else(|| {
                let name = results.routes.get(route).map_or("?", String::as_str);
                format!("always-{name} was not measured")
            })?;
        parts.push(Part {
            weight: count as f64 / answered as f64,
            ..*single
        });
    }
    Ok(Recipe { parts, note: None })
}

fn cost_matched<'a>(
    results: &Results,
    singles: &[Part<'a>],
    total: &Tally,
) -> Result<Recipe<'a>, String> {
    let cost_of = |tally: &Tally| {
        moments(tally.costed, tally.cost_sum, tally.cost_square_sum).map(|m| m.mean)
    };
    let cost = cost_of(total).ok_or("the policy's cost is unknown")?;
    let mut priced: Vec<(f64, &Part<'a>)> = singles
        .iter()
        .filter(|single| single.tally.graded > 0)
        .filter_map(|single| Some((cost_of(single.tally)?, single)))
        .collect();
    // Of routes that cost the same the more accurate one counts: a control should be hard to beat.
    let accuracy = |tally: &Tally| tally.score_sum as f64 / tally.graded as f64;
    priced.sort_by(|(a, x), (b, y)| {
        a.total_cmp(b)
            .then(accuracy(y.tally).total_cmp(&accuracy(x.tally)))
            .then(x.route.cmp(&y.route))
    });
    priced.dedup_by(|(later, _), (kept, _)| later == kept);
    let alone = |single: &Part<'a>, note: Option<String>| Recipe {
        parts: vec![Part {
            weight: 1.0,
            ..*single
        }],
        note,
    };
    let above = priced.partition_point(|(single_cost, _)| *single_cost < cost);
    let name = |single: &Part<'_>| results.routes.get(single.route).map_or("?", String::as_str);
    match (above.checked_sub(1).map(|i| priced[i]), priced.get(above)) {
        (_, Some((high, single))) if *high == cost => Ok(alone(single, None)),
        (Some((low, cheap)), Some((high, dear))) => {
            let weight = (cost - low) / (high - low);
            Ok(Recipe {
                parts: vec![
                    Part {
                        weight: 1.0 - weight,
                        ..*cheap
                    },
                    Part { weight, ..**dear },
                ],
                note: None,
            })
        }
        (None, Some((_, single))) => Ok(alone(
            single,
            Some(format!(
                "the policy costs less than every single route; this is always-{}",
                name(single)
            )),
        )),
        (Some((_, single)), None) => Ok(alone(
            single,
            Some(format!(
                "the policy costs more than every single route; this is always-{}",
                name(single)
            )),
        )),
        (None, None) => Err("no single route has both a cost and grades".to_owned()),
    }
}

/// The mix's mean and the variance of one request. `None` when a part has no observation.
fn mixed(
    recipe: &Recipe<'_>,
    of: impl Fn(&Tally) -> Option<Moments>,
) -> Option<(f64, Option<f64>)> {
    let parts: Vec<(f64, Moments)> = recipe
        .parts
        .iter()
        .map(|part| Some((part.weight, of(part.tally)?)))
        .collect::<Option<_>>()?;
    // An empty `sum` of floats is −0.
    let mean = parts.iter().fold(0.0, |sum, (w, m)| sum + w * m.mean);
    let variance = parts.iter().try_fold(0.0, |sum, (w, m)| {
        let off = m.mean - mean;
        Some(sum + w * (m.variance? + off * off))
    });
    Some((mean, variance))
}

fn mixed_row(
    name: &str,
    kind: &str,
    recipe: &Recipe<'_>,
    total: &Tally,
    routes: usize,
    pooling: &Pooling,
) -> Row {
    // A mix is known no better than the policy, nor than its least known part.
    let n = |of: fn(&Tally) -> u64| {
        recipe
            .parts
            .iter()
            .map(|part| of(part.tally))
            .fold(of(total), u64::min)
    };
    let estimate = |value: f64, n: u64, method, limits: &dyn Fn(f64) -> Option<Limits>| {
        (n > 0).then(|| {
            let limits = limits(n as f64 * pooling.weight());
            Estimate::new(value, limits, pooling.level, pooling.count(n), method)
        })
    };
    let mean = |n: u64, unit: f64, high: f64, of: &dyn Fn(&Tally) -> Option<Moments>| {
        let (mean, variance) = mixed(recipe, of)?;
        estimate(mean / unit, n, "normal", &|n| {
            let limits = mean_limits(mean, variance, n, pooling.z())?;
            let scaled = Limits {
                low: limits.low / unit,
                high: limits.high / unit,
            };
            Some(scaled.clipped(0.0, high))
        })
    };
    let share = |hits: &dyn Fn(&Tally) -> u64, of: fn(&Tally) -> u64| {
        let p = recipe.parts.iter().try_fold(0.0, |sum, part| {
            let of = of(part.tally);
            (of > 0).then(|| sum + part.weight * (hits(part.tally) as f64 / of as f64))
        })?;
        // Weights are rounded floats: their sum may pass 1 by the last bit.
        let p = p.clamp(0.0, 1.0);
        estimate(p, n(of), "wilson", &|n| wilson_fraction(p, n, pooling.z()))
    };
    let accuracy = || {
        if recipe.parts.iter().any(|part| part.tally.fractional > 0) {
            let score = |t: &Tally| moments(t.graded, t.score_sum, t.score_square_sum);
            return mean(n(|tally| tally.graded), 1e6, 1.0, &score);
        }
        // The same arithmetic as for a policy's accuracy, so that equal answers differ by exactly zero.
        let right = |t: &Tally| u64::try_from(t.score_sum / 1_000_000).unwrap_or(0);
        share(&right, |t| t.graded)
    };
    let metrics = METRICS
        .iter()
        .map(|metric| match metric.name {
            "accuracy" => accuracy(),
            "usd_per_1k" => mean(n(|t| t.costed), PER_1K, f64::INFINITY, &|t| {
                moments(t.costed, t.cost_sum, t.cost_square_sum)
            }),
            "calls_per_request" => mean(n(Tally::determined), 1.0, f64::INFINITY, &|t| {
                moments(
                    t.determined(),
                    t.calls_sum.into(),
                    t.calls_square_sum.into(),
                )
            }),
            "unserved" => share(&Tally::unserved_total, Tally::determined),
            _ => None,
        })
        .map(|known| known.unwrap_or_else(|| Estimate::unknown(pooling.level)))
        .collect();
    let final_share = (0..routes)
        .map(|route| {
            let count = |t: &Tally| t.final_count.get(route).copied().unwrap_or(0);
            share(&count, Tally::determined).unwrap_or_else(|| Estimate::unknown(pooling.level))
        })
        .collect();
    Row {
        policy: name.to_owned(),
        kind: kind.to_owned(),
        control: true,
        verifiers: Vec::new(),
        mix: None,
        unavailable: None,
        metrics,
        final_share,
        known: Known::default(),
        shadow: None,
        traces: Vec::new(),
        rollouts: None,
        saving: None,
        notes: recipe.note.iter().cloned().collect(),
    }
}
