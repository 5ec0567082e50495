//! What looking more than once does to a promotion, beside two ways of looking that keep their promise.

use serde::Serialize;

use super::shadow::Truth;
use crate::stats::{
    Criterion, Joint, MixtureE, NonInferiority, PairCounts, Pairs, Rule, Sides, Spending, peeking,
    spending_boundaries, tango_statistic,
};

/// What looking more than once does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Peeked {
    /// Whose pairs: an index into the truths, or `None` for a candidate worse by exactly the margin.
    pub truth: Option<usize>,
    /// Share of pairs on which the two disagree.
    pub disagreement: f64,
    /// The way of deciding.
    pub method: String,
    /// Whether it keeps its alpha under peeking.
    pub keeps_alpha: KeepsAlpha,
    /// Chance that it promotes at any look.
    pub promote: f64,
    /// Expected pairs until it promotes, at most the horizon.
    pub expected_n: f64,
}

/// Whether the chance of promoting at the margin, at any look, stays within alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepsAlpha {
    /// It was made for one look.
    No,
    /// In the limit of many pairs; with few it may exceed it by some tenths of itself.
    Nearly,
    /// At every look, for any number of them.
    Yes,
}

/// A way of deciding at each look.
enum Way {
    /// A rule that was made for one look, asked at every look.
    Naive(Rule),
    /// Tango's statistic against boundaries that spend alpha up to the horizon.
    Planned(Vec<f64>),
    /// The mixture e-process: valid at any look, with no horizon.
    Always(MixtureE),
}

/// Every way of looking on every truth, and on a candidate worse by exactly the margin, as a grader sees
/// the pairs. `(every, horizon)` says when is looked; the last look is at the horizon.
pub(super) fn peeked(
    (every, horizon): (u64, u64),
    rules: &[Rule],
    truths: &[Truth],
    seen: &dyn Fn(&Truth) -> Joint,
    criterion: Criterion,
) -> Vec<Peeked> {
    let mut looks: Vec<u64> = (1..=horizon / every).map(|look| look * every).collect();
    if looks.last() != Some(&horizon) {
        looks.push(horizon);
    }
    let mut ways: Vec<(String, KeepsAlpha, Way)> = rules
        .iter()
        .filter(|rule| !rule.looks_at_agreement() && **rule != Rule::ExactUnconditional)
        .map(|rule| {
            (
                format!("{}, every look", rule.name()),
                KeepsAlpha::No,
                Way::Naive(*rule),
            )
        })
        .collect();
    let fractions: Vec<f64> = looks.iter().map(|n| *n as f64 / horizon as f64).collect();
    let planned = spending_boundaries(
        &fractions,
        Spending::OBrienFleming,
        criterion.alpha(),
        Sides::One,
    );
    ways.extend(planned.map(|bounds| {
        let name = "tango, Lan-DeMets O'Brien-Fleming plan".to_owned();
        (name, KeepsAlpha::Nearly, Way::Planned(bounds))
    }));
    ways.extend(MixtureE::new(criterion.margin()).map(|process| {
        (
            "mixture e-process, any time".to_owned(),
            KeepsAlpha::Yes,
            Way::Always(process),
        )
    }));
    let over = |rates: (f64, f64), way: &Way| {
        peeking(rates, &looks, |counts, look| {
            if way.promotes(counts, look, criterion) {
                NonInferiority::NonInferior
            } else {
                NonInferiority::Inconclusive
            }
        })
    };
    let margin = criterion.margin();
    let mut all = Vec::new();
    for (method, keeps_alpha, way) in &ways {
        // Worse by exactly the margin, at the share of disagreement that is worst for this way.
        let worst = edges(margin)
            .into_iter()
            .filter_map(|disagreement| {
                let room = (disagreement - margin) / 2.0;
                let odds = (room >= 0.0).then(|| over((room, room + margin), way))??;
                Some((disagreement, odds))
            })
            .reduce(|a, b| {
                if b.1.promoted() > a.1.promoted() {
                    b
                } else {
                    a
                }
            });
        let worst = worst.map(|(disagreement, odds)| (None, disagreement, odds));
        let cases = truths.iter().enumerate().filter_map(|(index, truth)| {
            let joint = seen(truth);
            Some((
                Some(index),
                joint.disagreement(),
                over((joint.p10(), joint.p01()), way)?,
            ))
        });
        all.extend(
            worst
                .into_iter()
                .chain(cases)
                .map(|(truth, disagreement, odds)| Peeked {
                    truth,
                    disagreement,
                    method: method.clone(),
                    keeps_alpha: *keeps_alpha,
                    promote: odds.promoted(),
                    expected_n: odds.expected_n,
                }),
        );
    }
    // Whose pairs first, as people read it.
    all.sort_by_key(|one| one.truth.map_or(0, |truth| truth + 1));
    all
}

/// Shares of disagreement at which a candidate worse by the margin is tried: from just above the margin,
/// where rules made for one look fail worst, to nearly always.
fn edges(margin: f64) -> Vec<f64> {
    let near = [1.04, 1.25, 2.0, 4.0].map(|factor| factor * margin);
    let mut edges: Vec<f64> = near.into_iter().chain([0.02, 0.12, 0.4, 0.9]).collect();
    edges.retain(|share| *share > margin && *share < 1.0);
    edges
}

impl Way {
    fn promotes(&self, counts: PairCounts, look: usize, criterion: Criterion) -> bool {
        let PairCounts { n10, n01, n } = counts;
        match self {
            // How the agreeing pairs split does not matter to these rules.
            Self::Naive(rule) => rule
                .at(n, criterion)
                .is_some_and(|decider| decider.promotes(n10, n01, 0)),
            Self::Planned(bounds) => {
                let pairs = Pairs::new(n.saturating_sub(n10 + n01), n10, n01, 0);
                bounds
                    .get(look)
                    .is_some_and(|bound| tango_statistic(pairs, -criterion.margin()) >= *bound)
            }
            Self::Always(process) => process.promotes(n10, n01, n, criterion.alpha()),
        }
    }
}
