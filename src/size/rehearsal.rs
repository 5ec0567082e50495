//! The promotion played through: traffic, shadow policy, router, tally, rule.
//!
//! The exact probabilities of [`super::ShadowPlan`] come from integrals and sums that share no code with
//! the simulation. Running the very policy that would mirror in production and asking the rule after
//! each run is the check of the whole chain: both numbers have to agree within Monte Carlo error.

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::shadow::Truth;
use crate::catalogue::Catalogue;
use crate::policy;
use crate::sim::{self, Experiment, Stopped};
use crate::source::{Diagnostics, SourceFile};
use crate::stats::{Counts, Criterion, Estimate, Rule, promotion_probability, wilson};
use crate::workload::Workload;

/// One rule after one number of pairs, simulated and exact.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rehearsed {
    /// Index into the truths.
    pub truth: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// Graded pairs of each run.
    pub n: u64,
    /// Share of the runs that promoted, with Wilson's interval; its n is the runs.
    pub simulated: Estimate,
    /// The exact probability.
    pub exact: f64,
    /// Their difference in standard errors of the exact probability; `None` where that is 0 or 1.
    pub standard_errors: Option<f64>,
}

/// How often to play, and where the draws start.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Runs of each number of pairs.
    pub count: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// Plays each truth of a synthetic `workload` with every rule and number of pairs.
///
/// A truth is left out if not all of its requests fit both routes: a run would then have fewer pairs
/// than requests. `tasks` gives each truth's task, `None` for all together.
///
/// # Errors
///
/// As [`sim::run`]: the inputs do not fit each other, or `stop` was raised.
#[expect(
    clippy::too_many_arguments,
    reason = "a whole experiment and the question about it"
)]
pub fn rehearse(
    workload: &Workload,
    catalogue: &Catalogue,
    truths: &[Truth],
    tasks: &[Option<usize>],
    rules: &[Rule],
    criterion: Criterion,
    pairs: &[u64],
    runs: Runs,
    stop: &AtomicBool,
) -> Result<Vec<Rehearsed>, Stopped> {
    let mut all = Vec::new();
    for (index, (truth, task)) in truths.iter().zip(tasks).enumerate() {
        let narrowed;
        let world = match task {
            Some(task) => match workload.only_task(*task) {
                Some(world) => {
                    narrowed = world;
                    &narrowed
                }
                None => continue,
            },
            None => workload,
        };
        let population = super::population(world, catalogue)
            .map_err(|error| Stopped::Invalid(Diagnostics(vec![*error])))?;
        let route = |name: &str| workload.routes.iter().position(|known| known == name);
        let (Some(candidate), Some(primary)) = (route(&truth.candidate), route(&truth.primary))
        else {
            continue;
        };
        if population
            .fitting(None, candidate, primary)
            .is_none_or(|share| share < 1.0 - 1e-12)
        {
            continue;
        }
        let mut found = Diagnostics::default();
        let policy = policy::parse(
            &SourceFile::new("shadow.toml", shadow(truth)),
            "shadow",
            catalogue,
            &mut found,
        )
        .ok_or_else(|| Stopped::Invalid(found))?;
        for &n in pairs {
            let experiment = Experiment {
                catalogue,
                workload: world,
                policies: std::slice::from_ref(&policy),
                seed: runs.seed,
                requests: n,
                replicates: runs.count,
                baseline: None,
                controls: false,
                stage: None,
                cluster: None,
            };
            let results = sim::run(&experiment, &mut Diagnostics::default(), &|_| {}, stop)?;
            let Some(contestant) = results.contestants.first() else {
                continue;
            };
            for &rule in rules {
                let promoted = contestant.tallies.iter().filter(|tally| {
                    let counts = Counts {
                        n11: tally.m11,
                        n10: tally.m10,
                        n01: tally.m01,
                        n00: tally.m00,
                    };
                    rule.promotes(counts, criterion) == Some(true)
                });
                let promoted = promoted.count() as u64;
                let Some(exact) = promotion_probability(rule, n, truth.joint, criterion) else {
                    continue;
                };
                all.push(compared(
                    index,
                    rule,
                    n,
                    promoted,
                    u64::from(runs.count),
                    exact,
                ));
            }
        }
    }
    Ok(all)
}

/// A policy that serves by the primary and mirrors everything to the candidate.
fn shadow(truth: &Truth) -> String {
    // A JSON string is a TOML string.
    let quoted = |name: &str| serde_json::Value::from(name).to_string();
    format!(
        "[shadow]\ncandidate = {}\nshare = 1.0\nbase.fixed = {{ route = {} }}\n",
        quoted(&truth.candidate),
        quoted(&truth.primary)
    )
}

fn compared(truth: usize, rule: Rule, n: u64, promoted: u64, runs: u64, exact: f64) -> Rehearsed {
    let share = promoted as f64 / runs as f64;
    let z = crate::stats::z_two_sided(LEVEL);
    let spread = (exact * (1.0 - exact) / runs as f64).sqrt();
    Rehearsed {
        truth,
        rule: rule.name(),
        n,
        simulated: Estimate::new(share, wilson(promoted, runs, z), LEVEL, runs, "wilson"),
        exact,
        standard_errors: (spread > 0.0).then(|| (share - exact) / spread),
    }
}

/// Level of the intervals of simulated shares.
const LEVEL: f64 = 0.95;
