//! The promotion played through: traffic, shadow policy, router, tally, rule.
//!
//! The exact probabilities of [`super::ShadowPlan`] come from integrals and sums that share no code with
//! the simulation. Running the very policy that would mirror in production and asking the rule after
//! each run is the check of the whole chain: both numbers have to agree within Monte Carlo error.

use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::shadow::{ShadowPlan, Truth};
use crate::catalogue::Catalogue;
use crate::policy;
use crate::sim::{self, Experiment, Stopped};
use crate::source::{Diagnostics, SourceFile};
use crate::stats::{Counts, Estimate, Rule, promotion_probability, wilson};
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

/// A synthetic world in which promotions can be played.
#[derive(Debug)]
pub struct Rehearsal<'a> {
    /// The world; of a recorded one nothing is played.
    pub workload: &'a Workload,
    /// Its routes.
    pub catalogue: &'a Catalogue,
    /// How often, from which seed.
    pub runs: Runs,
}

impl Rehearsal<'_> {
    /// Plays each truth with every rule and number of pairs of the plan.
    ///
    /// A truth is left out if not all of its requests fit both routes: a run would then have fewer
    /// pairs than requests.
    ///
    /// # Errors
    ///
    /// As [`sim::run`], which also says what `tick` and `stop` are.
    pub fn play(
        &self,
        plan: &ShadowPlan,
        truths: &[Truth],
        tick: &(dyn Fn(u64) + Sync),
        stop: &AtomicBool,
    ) -> Result<Vec<Rehearsed>, Stopped> {
        let mut all = Vec::new();
        for (index, truth) in truths.iter().enumerate() {
            if let Some(world) = self.world(truth)? {
                for &n in &plan.pairs {
                    all.extend(self.runs_of(plan, &world, (index, truth), n, (tick, stop))?);
                }
            }
        }
        Ok(all)
    }

    /// The world in which each request is a pair of this truth, if there is one.
    fn world(&self, truth: &Truth) -> Result<Option<Workload>, Stopped> {
        let task = self
            .workload
            .tasks
            .iter()
            .position(|name| *name == truth.task);
        let world = match task {
            Some(task) => self.workload.only_task(task),
            None => Some(self.workload.clone()),
        };
        let Some(world) = world else {
            return Ok(None);
        };
        let population = super::population(&world, self.catalogue)
            .map_err(|error| Stopped::Invalid(Diagnostics(vec![*error])))?;
        let route = |name: &str| world.routes.iter().position(|known| known == name);
        let fitting = route(&truth.candidate)
            .zip(route(&truth.primary))
            .and_then(|(candidate, primary)| population.fitting(None, candidate, primary));
        Ok(fitting
            .is_some_and(|share| share > 1.0 - 1e-12)
            .then_some(world))
    }

    fn runs_of(
        &self,
        plan: &ShadowPlan,
        world: &Workload,
        (index, truth): (usize, &Truth),
        n: u64,
        (tick, stop): (&(dyn Fn(u64) + Sync), &AtomicBool),
    ) -> Result<Vec<Rehearsed>, Stopped> {
        let mut found = Diagnostics::default();
        let file = SourceFile::new("shadow.toml", shadow(truth));
        let policy = policy::parse(&file, "shadow", self.catalogue, &mut found)
            .ok_or(Stopped::Invalid(found))?;
        let experiment = Experiment {
            catalogue: self.catalogue,
            workload: world,
            policies: &[policy],
            seed: self.runs.seed,
            requests: n,
            replicates: self.runs.count,
            baseline: None,
            controls: false,
            stage: None,
            slices: false,
            timed: None,
            cluster: None,
        };
        let results = sim::run(&experiment, &mut Diagnostics::default(), tick, stop)?;
        let tallies = results
            .contestants
            .first()
            .map_or(&[][..], |one| &one.tallies);
        let played = plan.rules.iter().filter_map(|&rule| {
            let promoted = tallies.iter().filter(|tally| {
                let counts = Counts {
                    n11: tally.m11,
                    n10: tally.m10,
                    n01: tally.m01,
                    n00: tally.m00,
                };
                rule.promotes(counts, plan.criterion) == Some(true)
            });
            let promoted = promoted.count() as u64;
            let exact = promotion_probability(rule, n, truth.joint, plan.criterion)?;
            Some(compared(index, rule, n, promoted, self.runs.count, exact))
        });
        Ok(played.collect())
    }
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

fn compared(truth: usize, rule: Rule, n: u64, promoted: u64, runs: u32, exact: f64) -> Rehearsed {
    let runs = u64::from(runs);
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
