//! What is measured of one policy: a list of metrics, each one entry with the sums it reads.
//!
//! Unknown stays unknown: a metric without data has no value, and a metric that is known for part of
//! the requests is estimated on that part, with its n. A request nobody served is graded wrong, so it
//! lowers accuracy and has no special place here beyond being counted.

use super::sample::{Point, Pooling};
use crate::stats::{Estimate, Tally, Unserved, ratio};

/// What a metric's numbers are, which decides how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share between 0 and 1, written in percent.
    Share,
    /// US dollars.
    Usd,
    /// A plain count.
    Count,
}

/// One measured property of a policy.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name in JSON, CSV and requirements.
    pub name: &'static str,
    /// What its numbers are.
    pub unit: Unit,
    /// One sentence for a newcomer.
    pub about: &'static str,
    point: fn(&Tally) -> Option<Point>,
}

impl Metric {
    /// The metric of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    pub(super) fn estimate(
        &self,
        pooling: &Pooling,
        pooled: &Tally,
        replicates: &[Tally],
        draws_once: bool,
    ) -> Estimate {
        pooling.estimate(pooled, replicates, draws_once, self.point)
    }

    /// Whether more of it is better, so that nobody would minimise it.
    #[must_use]
    pub fn more_is_better(&self) -> bool {
        self.name == "accuracy"
    }
}

const NON_NEGATIVE: (f64, f64) = (0.0, f64::INFINITY);
/// One USD for a thousand requests, in 10⁻¹² USD for one.
pub(super) const PER_1K: f64 = 1e9;

/// Every metric of a row, in the order of JSON and CSV. `final_share.<route>` comes beside them, one
/// for each route.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "accuracy",
        unit: Unit::Share,
        about: "Mean grade of the final answers; a request nobody served counts as wrong.",
        point: |t| {
            if t.fractional == 0 {
                Point::share(u64::try_from(t.score_sum / 1_000_000).ok()?, t.graded)
            } else {
                Point::mean(
                    (t.graded, t.score_sum, t.score_square_sum),
                    1e6,
                    (0.0, 1.0),
                    "normal",
                )
            }
        },
    },
    Metric {
        name: "usd_per_1k",
        unit: Unit::Usd,
        about: "Cost of a thousand requests in USD, all calls made for the caller included, mirrors not; attempts that fail count as free, for what providers bill for them is not known.",
        point: |t| {
            Point::mean(
                (t.costed, t.cost_sum, t.cost_square_sum),
                PER_1K,
                NON_NEGATIVE,
                "normal",
            )
        },
    },
    Metric {
        name: "mirror_usd_per_1k",
        unit: Unit::Usd,
        about: "Cost of mirrored calls (shadow copies nobody is served) in USD for a thousand requests.",
        point: |t| {
            Point::mean(
                (t.mirror_costed, t.mirror_cost_sum, t.mirror_cost_square_sum),
                PER_1K,
                NON_NEGATIVE,
                "normal",
            )
        },
    },
    Metric {
        name: "judge_usd_per_1k",
        unit: Unit::Usd,
        about: "Cost of calls of judges in USD for a thousand requests; it is part of their cost.",
        point: |t| {
            let priced = t.determined().saturating_sub(t.judge_unpriced);
            Point::mean(
                (priced, t.judge_cost_sum, t.judge_cost_square_sum),
                PER_1K,
                NON_NEGATIVE,
                "normal",
            )
        },
    },
    Metric {
        name: "usd_per_correct",
        unit: Unit::Usd,
        about: "Cost divided by the number of right answers, on requests with both known.",
        point: |t| {
            let ratio = ratio(
                t.both,
                (t.both_cost_sum, t.both_cost_square_sum),
                (t.both_score_sum, t.both_score_square_sum),
                t.both_cross_sum,
            )?;
            // 10⁻¹² USD over millionths of a right answer.
            Some(Point::Ratio {
                n: t.both,
                ratio,
                unit: 1e6,
            })
        },
    },
    Metric {
        name: "calls_per_request",
        unit: Unit::Count,
        about: "Calls made for one request: retries, failovers and escalations count, mirrors do not.",
        point: |t| {
            Point::mean(
                (
                    t.determined(),
                    t.calls_sum.into(),
                    t.calls_square_sum.into(),
                ),
                1.0,
                NON_NEGATIVE,
                "normal",
            )
        },
    },
    Metric {
        name: "unserved",
        unit: Unit::Share,
        about: "Requests that nobody answered.",
        point: |t| Point::share(t.unserved_total(), t.determined()),
    },
    Metric {
        name: "unserved_refused_by_residency",
        unit: Unit::Share,
        about: "Requests that some route could have answered, but the data may not go there.",
        point: |t| unserved(t, Unserved::RefusedByResidency),
    },
    Metric {
        name: "unserved_no_capable_route",
        unit: Unit::Share,
        about: "Requests for which no allowed route has the context window or the tools.",
        point: |t| unserved(t, Unserved::NoCapableRoute),
    },
    Metric {
        name: "unserved_failed",
        unit: Unit::Share,
        about: "Requests for which routes were tried, or were unavailable, and none answered.",
        point: |t| unserved(t, Unserved::Failed),
    },
    Metric {
        name: "escalated",
        unit: Unit::Share,
        about: "Requests passed on to another route after a verifier did not accept an answer.",
        point: |t| Point::share(t.escalated, t.determined()),
    },
    Metric {
        name: "unverified",
        unit: Unit::Share,
        about: "Requests served an answer that the verifier had rejected, for want of a better one.",
        point: |t| Point::share(t.unverified, t.determined()),
    },
    Metric {
        name: "verifier_false_accept",
        unit: Unit::Share,
        about: "Of the wrong answers a verifier looked at, those it accepted.",
        point: |t| Point::share(t.accepted_wrong, t.verified_wrong),
    },
    Metric {
        name: "verifier_false_reject",
        unit: Unit::Share,
        about: "Of the right answers a verifier looked at, those it rejected.",
        point: |t| {
            Point::share(
                t.verified_right.saturating_sub(t.accepted_right),
                t.verified_right,
            )
        },
    },
    Metric {
        name: "verifier_unavailable",
        unit: Unit::Share,
        about: "Requests with an answer that a verifier could not look at, so that it was passed on.",
        point: |t| Point::share(t.unavailable, t.determined()),
    },
    Metric {
        name: "judge_calls_per_request",
        unit: Unit::Count,
        about: "Calls of judges for one request; they are among its calls, and in its cost.",
        point: |t| {
            Point::mean(
                (
                    t.determined(),
                    t.judge_calls_sum.into(),
                    t.judge_calls_square_sum.into(),
                ),
                1.0,
                NON_NEGATIVE,
                "normal",
            )
        },
    },
    Metric {
        name: "missing",
        unit: Unit::Share,
        about: "Requests whose final answer nobody graded.",
        point: |t| Point::share(t.missing, t.requests),
    },
    Metric {
        name: "undetermined",
        unit: Unit::Share,
        about: "Requests whose course is unknown: a verifier (or the oracle) met an answer without a grade.",
        point: |t| Point::share(t.undetermined, t.requests),
    },
];

fn unserved(tally: &Tally, reason: Unserved) -> Option<Point> {
    Point::share(tally.unserved[reason as usize], tally.determined())
}

/// The share of requests whose final answer came from `route`.
pub(super) fn final_share(tally: &Tally, route: usize) -> Option<Point> {
    Point::share(
        tally.final_count.get(route).copied().unwrap_or(0),
        tally.determined(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_own_name_and_a_sentence() {
        for (i, metric) in METRICS.iter().enumerate() {
            assert!(metric.about.ends_with('.'), "{}", metric.name);
            assert!(
                METRICS[..i].iter().all(|other| other.name != metric.name),
                "{}",
                metric.name
            );
            assert!(
                metric
                    .name
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
        }
    }

    #[test]
    fn every_metric_of_an_empty_tally_is_unknown() {
        let pooling = Pooling {
            replicates: 1,
            shared_rows: false,
            level: 0.95,
        };
        for metric in METRICS {
            let got = metric.estimate(&pooling, &Tally::default(), &[], false);
            assert_eq!(got, Estimate::unknown(0.95), "{}", metric.name);
        }
    }
}
