//! What looking more than once does to a promotion, beside two ways of looking that keep their promise.

use serde::Serialize;

use super::shadow::Truth;
use crate::stats::{
    Criterion, Joint, MixtureE, NonInferiority, PairCounts, Pairs, Rule, Sides, Spending, peeking,
    spending_boundaries, tango_statistic, type_one_error_max,
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
    pub valid: bool,
    /// Chance that it promotes at any look.
    pub promote: f64,
    /// Expected pairs until it promotes, at most the horizon.
    pub expected_n: f64,
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
    let mut ways: Vec<(String, bool, Way)> = rules
        .iter()
        .filter(|rule| !rule.looks_at_agreement() && **rule != Rule::ExactUnconditional)
        .map(|rule| {
            (
                format!("{}, every look", rule.name()),
                false,
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
        (name, true, Way::Planned(bounds))
    }));
    ways.extend(MixtureE::new(criterion.margin()).map(|process| {
        (
            "mixture e-process, any time".to_owned(),
            true,
            Way::Always(process),
        )
    }));
    // The candidate that is worse by the margin, at the disagreement that is worst for a single look.
    let edge = rules
        .first()
        .and_then(|rule| type_one_error_max(*rule, every, criterion, PRIMARY_ACCURACY))
        .map(|worst| {
            let room = (worst.disagreement - criterion.margin()).max(0.0) / 2.0;
            (None, (room, room + criterion.margin()))
        });
    let cases = truths.iter().enumerate().map(|(index, truth)| {
        let joint = seen(truth);
        (Some(index), (joint.p10(), joint.p01()))
    });
    let mut all = Vec::new();
    for (truth, rates) in edge.into_iter().chain(cases) {
        for (method, valid, way) in &ways {
            let decided = peeking(rates, &looks, |counts, look| {
                if way.promotes(counts, look, criterion) {
                    NonInferiority::NonInferior
                } else {
                    NonInferiority::Inconclusive
                }
            });
            all.extend(decided.map(|decided| Peeked {
                truth,
                disagreement: rates.0 + rates.1,
                method: method.clone(),
                valid: *valid,
                promote: decided.promoted(),
                expected_n: decided.expected_n,
            }));
        }
    }
    all
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

/// Where a table is about no route in particular.
const PRIMARY_ACCURACY: f64 = 0.9;
