//! What a shadow is for: whether its candidate may be promoted, and how often this run would say so.
//!
//! The rule looks at the mirrored requests on which both the candidate's copy and the served answer have a
//! grade. Each replicate decides for itself, as one run of the shadow would, and the share of replicates
//! that promote is the rule's operating characteristic in this world.

use super::sample::{Point, Pooling, draws_once};
use crate::sim::Contestant;
use crate::stats::{Counts, Criterion, Estimate, NonInferiority, Rule, Tally, wilson};

/// A shadow's pairs and what follows from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadow {
    /// Requests whose copy was sent to the candidate, over all replicates.
    pub mirrored: u64,
    /// Of these, pairs of right and wrong answers.
    pub graded: u64,
    /// Pairs that the candidate and what was served both got right.
    pub n11: u64,
    /// Pairs that only the candidate got right.
    pub n10: u64,
    /// Pairs that only the served answer got right.
    pub n01: u64,
    /// Pairs that both got wrong.
    pub n00: u64,
    /// Accuracy of the candidate minus accuracy of what was served, on the graded pairs.
    pub difference: Estimate,
    /// Name of the rule that promotes.
    pub rule: &'static str,
    /// What all pairs together say.
    pub verdict: NonInferiority,
    /// Share of the replicates in which the rule promotes.
    pub promoted: Estimate,
}

impl Shadow {
    /// `None` for a contestant that mirrored nothing.
    pub(super) fn of(
        contestant: &Contestant,
        total: &Tally,
        pooling: &Pooling,
        (rule, margin): (Rule, f64),
    ) -> Option<Self> {
        if total.mirrored == 0 {
            return None;
        }
        let replicates = contestant.tallies.as_slice();
        let difference = pooling.estimate(total, replicates, draws_once(contestant), |tally| {
            let n = tally.mirror_graded();
            (n > 0).then(|| Point::Paired {
                pairs: tally.mirror_pairs().into(),
                n,
            })
        });
        let criterion = Criterion::new(margin, pooling.z());
        let promotes = |counts| rule.promotes(counts, criterion?);
        let decisions = || {
            replicates
                .iter()
                .map(|tally| promotes(tally.mirror_pairs()))
        };
        let runs = decisions().flatten().count() as u64;
        let promoted = decisions().flatten().filter(|promotes| *promotes).count() as u64;
        let pooled = pooled(total, pooling);
        let verdict = match promotes(pooled) {
            Some(true) => NonInferiority::NonInferior,
            _ if is_inferior(rule, pooled, margin, pooling.z()) => NonInferiority::Inferior,
            _ => NonInferiority::Inconclusive,
        };
        Some(Self {
            mirrored: total.mirrored,
            graded: total.mirror_graded(),
            n11: total.m11,
            n10: total.m10,
            n01: total.m01,
            n00: total.m00,
            difference,
            rule: rule.name(),
            verdict,
            promoted: if runs == 0 {
                Estimate::unknown(pooling.level)
            } else {
                Estimate::new(
                    promoted as f64 / runs as f64,
                    wilson(promoted, runs, pooling.z()),
                    pooling.level,
                    runs,
                    "wilson",
                )
            },
        })
    }
}

/// The pairs that all replicates together count for, in whole numbers.
fn pooled(total: &Tally, pooling: &Pooling) -> Counts {
    let all = total.mirror_pairs();
    let count = |pooled: u64| (pooled as f64 * pooling.weight()).round() as u64;
    Counts {
        n11: count(all.n11),
        n10: count(all.n10),
        n01: count(all.n01),
        n00: count(all.n00),
    }
}

/// Whether the rule's whole interval lies below the margin; the exact unconditional rule has none of its
/// own and borrows Tango's, whose statistic it orders tables by.
fn is_inferior(rule: Rule, counts: Counts, margin: f64, z: f64) -> bool {
    let limits = rule
        .limits(counts, z)
        .or_else(|| Rule::Tango.limits(counts, z));
    limits.is_some_and(|limits| limits.high < -margin)
}
