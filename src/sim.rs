//! Experiments: every policy on the same requests, tallied in integers.
//!
//! The unit of work is a chunk of [`CHUNK`] requests. What a chunk adds depends on (seed, replicate,
//! chunk, inputs) alone, and tallies merge in any order, so the number of threads changes nothing.
//! Within a chunk every contestant sees the same batch: draws are paid once, and paired counts fall out.

mod blocks;
mod checkpoint;
mod clusters;
mod contestants;
mod decisions;
mod drive;
mod episode;
mod explain;
mod lab;
mod ledger;
mod plain;
mod prepare;
mod replicate;
mod samples;
mod segments;
mod stage;
mod tallying;
mod timeline;
mod versus;

pub use crate::policy::{AbortRule, Rollout, RolloutEnd, SliceCount};
pub use blocks::{Blocks, run_in_blocks};
pub use checkpoint::Checkpoint;
pub use clusters::CLUSTER_SUMS_MAX;
pub use decisions::{Decided, DecidedRequest, Decider, Decisions, Mirrored, decisions};
pub use explain::{Explanation, explain};
pub use samples::{Sample, SampleStory, Samples, samples};
pub use segments::{SEGMENT_SUMS_MAX, SEGMENTS_MAX, Segment, SegmentSums};
pub use stage::{Fidelity, Stage, Trace};
pub use timeline::{
    BINS_MAX, CHANGES_MAX, Change, Counts, Latencies, Lost, Passage, Reason, RouteBin,
    RoutePassage, Timed, Timetable,
};
pub use versus::{Move, Side, Versus, Violation, versus};

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::catalogue::Catalogue;
use crate::policy::{PolicyFile, Unit};
use crate::source::{Diagnostic, Diagnostics};
use crate::stats::{ClusterPair, PairTally, Tally};
use crate::workload::Workload;

use clusters::Clusters;
use contestants::Field;
use prepare::prepare;
use segments::Gathered;

/// Requests of one chunk.
pub const CHUNK: u64 = 65_536;

/// How far a result can be trusted, printed with every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Tokens of recorded traffic at other prices.
    RePriced,
    /// A full matrix of requests × routes: every policy judged on the same recorded answers.
    Paired,
    /// Recorded choices with propensities.
    OffPolicy,
    /// Drawn from a model of the world.
    Simulated,
}

impl Evidence {
    /// The word that every report prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RePriced => "re-priced",
            Self::Paired => "paired",
            Self::OffPolicy => "off-policy",
            Self::Simulated => "simulated",
        }
    }
}

/// One row of an experiment: a policy or a control.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// Name: the policy file's stem, or the control's name such as `always-small`.
    pub name: String,
    /// Kind: `static`, `cascade`, `always`, `oracle`, …
    pub kind: &'static str,
    /// Whether it is a control rather than a policy under test.
    pub control: bool,
    /// Whether it learnt from labelled examples, redrawn in each replicate.
    pub trained: bool,
    /// The unit (`user`, `tenant`, …) whose requests share one draw of the policy, if any do: its
    /// numbers then depend on the luck of few draws, which more requests of the same units do not even out.
    pub sticks_to: Option<&'static str>,
    /// Kinds of the verifiers that look at its answers.
    pub verifiers: Vec<&'static str>,
    /// `Some(route)` for the control `always-<route>`.
    pub always: Option<u16>,
    /// Why its metrics cannot be computed on this data, if so (its tallies are then empty).
    pub unavailable: Option<String>,
    /// One tally per replicate.
    pub tallies: Vec<Tally>,
    /// One trace per replicate, if the experiment was staged; the oracle, which sends nothing, has none.
    pub traces: Vec<Trace>,
    /// What it went through in each replicate, if the experiment was in time and it sends anything.
    pub passages: Vec<Passage>,
    /// The same on a calm day, if there was one.
    pub calm: Vec<Passage>,
    /// One tally per replicate of the calm day, if there was one and it sends anything.
    pub calm_tallies: Vec<Tally>,
    /// What became of the candidate in each replicate, if the policy lets one in step by step.
    pub rollouts: Vec<Rollout>,
    /// `pairs[b][r]`: against `Results::baselines[b]`, in replicate r.
    pub pairs: Vec<Vec<PairTally>>,
    /// `clusters[b]`: the same by cluster, one entry for each, if the experiment asked for clusters;
    /// else there are no entries. Replicates that share their rows add to the same clusters; of others
    /// each has its own.
    pub clusters: Vec<Vec<ClusterPair>>,
}

/// Everything an experiment measured.
#[derive(Clone, Debug)]
pub struct Results {
    /// Route names; a route id is an index into this list.
    pub routes: Vec<String>,
    /// Name of the workload.
    pub workload: String,
    /// Evidence level.
    pub evidence: Evidence,
    /// Requests per replicate.
    pub requests: u64,
    /// Replicates. Of a synthetic world each has its own requests; of recorded rows they share the
    /// rows, and only the policies' own draws differ.
    pub replicates: u64,
    /// Whether replicates share their rows (n stays the rows).
    pub shared_rows: bool,
    /// Indices into `contestants` that others are paired with: the baseline asked for, or every
    /// `always-<route>` when the default baseline is still to be chosen.
    pub baselines: Vec<usize>,
    /// Policies first, in the order given, then controls.
    pub contestants: Vec<Contestant>,
    /// Whose requests were added up together (`user`, `session`, `tenant`), if anybody's were.
    pub cluster: Option<&'static str>,
    /// Each task of each tenant, by task, then by tenant, if the experiment asked for them.
    pub segments: Vec<Segment>,
    /// The days on which prices were read (`YYYY-MM-DD`), earliest and latest, of the routes that say so.
    pub priced_on: Option<(String, String)>,
    /// What happened when, if the experiment was in time.
    pub timetable: Option<Timetable>,
    /// Facts about the data that belong beside the numbers (rows filtered out, missing grades, …).
    pub notes: Vec<String>,
}

/// What to run.
#[derive(Debug)]
pub struct Experiment<'a> {
    /// The routes and what requests need.
    pub catalogue: &'a Catalogue,
    /// The traffic and the truth.
    pub workload: &'a Workload,
    /// The policies under test.
    pub policies: &'a [PolicyFile],
    /// The one seed of every draw.
    pub seed: u64,
    /// Requests per replicate; more than a recorded workload holds are cut to its rows.
    pub requests: u64,
    /// Replicates, at least 1.
    pub replicates: u32,
    /// The contestant to pair with; every `always-<route>` when `None`.
    pub baseline: Option<&'a str>,
    /// Whether the controls take part. A comparison that people read always has them.
    pub controls: bool,
    /// Send requests one after the other through stand-ins, with faults; `None` for tables that answer
    /// at once.
    pub stage: Option<&'a Stage>,
    /// Also add up the parts of the traffic: each task and each tenant. It changes no tally.
    pub slices: bool,
    /// Let requests share a clock; `None` for requests that do not meet. It is not used in a staged
    /// experiment.
    pub timed: Option<&'a Timed<'a>>,
    /// Also add up differences by user, conversation or tenant, for intervals that know that requests of
    /// one of them resemble each other. It changes no tally. `Unit::Request` is as `None`.
    pub cluster: Option<Unit>,
}

impl<'a> Experiment<'a> {
    /// The timeline, if it is used.
    fn timed(&self) -> Option<&'a Timed<'a>> {
        if self.stage.is_some() {
            None
        } else {
            self.timed
        }
    }

    /// Requests that one replicate has.
    fn run_length(&self) -> u64 {
        if self.workload.is_recorded() {
            self.requests.min(self.workload.len())
        } else {
            self.requests
        }
    }
}

/// Why there are no results.
#[derive(Debug)]
pub enum Stopped {
    /// The inputs do not fit each other; the reasons.
    Invalid(Diagnostics),
    /// The caller raised the flag; what a run has done, for [`run_resumable`] to go on from.
    Interrupted(Option<Box<Checkpoint>>),
    /// Something failed that is nobody's input: a socket could not be opened, or broke.
    Failed(String),
}

/// Names of everybody who will take part, in the order of [`Results::contestants`], or what does not fit
/// between the inputs: for checking everything that can be checked before a long run.
///
/// # Errors
///
/// What [`run`] would report as [`Stopped::Invalid`], but for the baseline.
pub fn contestants(experiment: &Experiment<'_>) -> Result<Vec<String>, Diagnostics> {
    prepare(experiment, &mut Diagnostics::default())?;
    Ok(contestants::names(experiment))
}

/// Runs the experiment. `tick` is told how many requests were finished since it was last called (from
/// any thread); raising `stop` ends the run after the chunks in progress. Warnings go to `warnings`.
///
/// # Errors
///
/// [`Stopped::Invalid`] when policies, catalogue and workload do not fit each other.
pub fn run(
    experiment: &Experiment<'_>,
    warnings: &mut Diagnostics,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<Results, Stopped> {
    run_resumable(experiment, 1, ("", None), warnings, tick, stop).map(|(results, _)| results)
}

/// As [`run`], with the requests of each replicate cut into `blocks` runs of consecutive requests whose sums
/// are kept apart as well (those of a staged experiment and of one in time are not: routers remember), and
/// going on from where an earlier run was interrupted, if there was one. `inputs` is a digest of the files
/// behind the experiment, for a checkpoint is good for the same ones only. What was done before is reported to
/// `tick` as if it were done now.
///
/// # Errors
///
/// Those of [`run`]; and [`Stopped::Invalid`] with the reason if the checkpoint is of another experiment.
pub fn run_resumable(
    experiment: &Experiment<'_>,
    blocks: u64,
    (inputs, from): (&str, Option<Checkpoint>),
    warnings: &mut Diagnostics,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<(Results, Blocks), Stopped> {
    let world = prepare(experiment, warnings).map_err(Stopped::Invalid)?;
    let requests = experiment.run_length();
    let replicates = experiment.replicates.max(1);
    let first = Field::build(experiment, &world, 0, warnings);
    let baselines = first
        .baselines(experiment.baseline)
        .map_err(Stopped::Invalid)?;
    let mut results = Results {
        routes: experiment.catalogue.names().map(str::to_owned).collect(),
        workload: experiment.workload.name.clone(),
        evidence: if experiment.workload.is_recorded() {
            Evidence::Paired
        } else {
            Evidence::Simulated
        },
        requests,
        replicates: u64::from(replicates),
        shared_rows: experiment.workload.is_recorded(),
        contestants: first.contestants(baselines.len()),
        baselines,
        cluster: world.cluster.map(Unit::name),
        segments: Vec::new(),
        priced_on: experiment.catalogue.priced_on(),
        timetable: experiment
            .timed()
            .map(|timed| timeline::timetable(timed, &world)),
        notes: experiment.workload.notes().to_vec(),
    };
    results.notes.extend(shared_identities(experiment));
    let rows = experiment.workload.len();
    if experiment.workload.is_recorded() && requests < rows {
        results.notes.push(format!(
            "only the first {requests} of {rows} rows were used; if the file is sorted they are no fair sample"
        ));
    }
    if let Some(stage) = experiment.stage {
        results.notes.push(stage.in_words());
    }
    if let Some(timed) = experiment.timed() {
        results.notes.push(timed.in_words());
    }
    let mut cut = Blocks::new(results.contestants.len());
    let mut clusters: Option<Clusters> = None;
    let mut segments = Gathered::default();
    let identity = checkpoint::identity(experiment, blocks, inputs);
    let (mut done, mut part) = (0, None);
    if let Some(mut from) = from {
        let differs = from.differs(&identity).map(|what| {
            format!("the checkpoint is of another run: {what}; run the command again without it")
        });
        let fits = differs.map_or_else(|| from.give(&mut results), Err);
        fits.map_err(|why| Stopped::Invalid(Diagnostics(vec![Diagnostic::error(why)])))?;
        tick(u64::from(from.done).saturating_mul(requests));
        if let Some(timed) = experiment.timed()
            && from.done > 0
        {
            results.requests = from.requests;
            if let Some(timetable) = &mut results.timetable {
                let of =
                    |replicate| timeline::incidents(timed, experiment.seed, replicate, requests);
                timetable.incidents = (0..from.done).map(of).collect();
            }
        }
        (done, part) = (from.done, from.part);
        (cut, clusters, segments) = (from.blocks, from.clusters, from.segments);
    }
    let runner = replicate::Runner {
        experiment,
        world: &world,
        baselines: results.baselines.clone(),
        requests,
        blocks,
        record: None,
        tick,
        stop,
    };
    // Warnings are the same in every replicate, so only the first one's are kept.
    let mut first = Some(first);
    let fresh =
        |replicate| Field::build(experiment, &world, replicate, &mut Diagnostics::default());
    while done < replicates {
        // On a timeline one replicate after the other uses one thread for each contestant; several at a
        // time use more. They are taken up in order, whoever is ready first.
        let width = match experiment.timed() {
            Some(_) => (rayon::current_num_threads() as u32).max(1),
            None => 1,
        };
        let end = replicates.min(done.saturating_add(width));
        let fields: Vec<(u32, Option<Field>, Option<checkpoint::Part>)> = (done..end)
            .map(|replicate| {
                let first = first.take().filter(|_| replicate == 0);
                (replicate, first, part.take())
            })
            .collect();
        let ran: Vec<_> = fields
            .into_par_iter()
            .map(|(replicate, field, part)| {
                runner.run(replicate, field.unwrap_or_else(|| fresh(replicate)), part)
            })
            .collect();
        if stop.load(Ordering::Relaxed) {
            // Of several replicates at a time none is known to be whole.
            let part = ran.into_iter().next().and_then(|ran| ran.ok()?.into_part());
            let sums = (clusters, segments);
            let taken = Checkpoint::take(identity, done, &mut results, cut, sums, part);
            return Err(Stopped::Interrupted(Some(Box::new(taken))));
        }
        for ran in ran {
            let (own_clusters, own_segments) = ran?.into_results(&mut results, &mut cut);
            if let Some(own) = own_segments {
                segments.push(own);
            }
            if let Some(own) = own_clusters {
                if results.shared_rows {
                    clusters = Some(match clusters.take() {
                        Some(before) => before.merge(own),
                        None => own,
                    });
                } else {
                    keep(&own, &mut results)?;
                }
            }
        }
        done = end;
    }
    if let Some(clusters) = clusters {
        keep(&clusters, &mut results)?;
    }
    let shape = (results.contestants.len(), results.baselines.len());
    let workload = experiment.workload;
    match segments.finish((&workload.tasks, &workload.tenants), shape) {
        Ok(segments) => results.segments = segments,
        Err(why) => results.notes.push(why),
    }
    Ok((results, cut))
}

/// Adds the sums by cluster to the contestants they are about.
fn keep(clusters: &Clusters, results: &mut Results) -> Result<(), Stopped> {
    let too_many = |max: usize| {
        Stopped::Failed(format!(
            "there are more than {max} clusters, the most that can be told apart with {} contestants and {} baselines; choose one with --baseline, or cluster by something coarser",
            results.contestants.len(),
            results.baselines.len()
        ))
    };
    let baselines = results.baselines.len();
    let by_pair = clusters.by_pair(baselines).map_err(too_many)?;
    let kept = results
        .contestants
        .first()
        .and_then(|one| one.clusters.first());
    let held = kept.map_or(0, Vec::len);
    let width = results.contestants.len() * baselines;
    let fresh = by_pair
        .first()
        .and_then(|one| one.first())
        .map_or(0, Vec::len);
    if (held + fresh) * width > CLUSTER_SUMS_MAX {
        return Err(too_many(CLUSTER_SUMS_MAX / width.max(1)));
    }
    for (contestant, pairs) in results.contestants.iter_mut().zip(by_pair) {
        contestant.clusters.resize(baselines, Vec::new());
        for (all, own) in contestant.clusters.iter_mut().zip(pairs) {
            all.extend(own);
        }
    }
    Ok(())
}

/// That recorded requests come from the same people, where intervals do not know it. The requests of a
/// synthetic world are drawn one by one, whoever sends them.
fn shared_identities(experiment: &Experiment<'_>) -> Option<String> {
    let workload = experiment.workload;
    if experiment.cluster.is_some() || !workload.is_recorded() {
        return None;
    }
    let (what, unit) = match (workload.has_users(), workload.has_sessions()) {
        (true, _) => ("users", Unit::User),
        (false, true) => ("conversations", Unit::Session),
        (false, false) => return None,
    };
    Some(format!(
        "several requests come from the same {what}, and intervals take requests for independent: they may be too narrow; `--cluster {}` takes the {what} for independent instead",
        unit.name()
    ))
}
