//! One replicate of an experiment, in whichever of the three ways it is run: in chunks, staged, or in time.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::blocks::{self, Blocks};
use super::clusters::Clusters;
use super::contestants::Field;
use super::episode::{self, Sums, World};
use super::stage::Trace;
use super::timeline::Passage;
use super::{CHUNK, Experiment, Results, Stopped, stage, timeline};
use crate::policy::Rollout;
use crate::stats::Tally;
use crate::timeline::Incident;
use crate::workload::{Domain, DrawKey};

/// Runs replicates.
pub(super) struct Runner<'a> {
    pub(super) experiment: &'a Experiment<'a>,
    pub(super) world: &'a World<'a>,
    pub(super) baselines: Vec<usize>,
    pub(super) requests: u64,
    pub(super) blocks: u64,
    pub(super) tick: &'a (dyn Fn(u64) + Sync),
    pub(super) stop: &'a AtomicBool,
}

/// What came of a replicate; lists are by contestant.
pub(super) struct Ran {
    sums: Sums,
    /// The sums of blocks of requests, where they are kept apart.
    blocks: Vec<Sums>,
    traces: Vec<Option<Trace>>,
    rollouts: Vec<Option<Rollout>>,
    passages: Vec<Option<Passage>>,
    calm: Vec<Option<Passage>>,
    calm_tallies: Vec<Option<Tally>>,
    incidents: Vec<Incident>,
    requests: u64,
}

impl Runner<'_> {
    /// Runs one replicate.
    pub(super) fn run(&self, replicate: u32, mut field: Field) -> Result<Ran, Stopped> {
        let key = DrawKey {
            seed: self.experiment.seed,
            domain: Domain::Traffic,
            replicate,
        };
        let mut ran = Ran {
            sums: Sums::new(self.world, field.len(), self.baselines.len()),
            blocks: Vec::new(),
            traces: Vec::new(),
            rollouts: Vec::new(),
            passages: Vec::new(),
            calm: Vec::new(),
            calm_tallies: Vec::new(),
            incidents: Vec::new(),
            requests: self.requests,
        };
        if let Some(stage) = self.experiment.stage {
            (ran.sums, ran.traces) = stage::run_field(
                stage,
                self.world,
                &mut field,
                &self.baselines,
                key,
                self.requests,
                self.tick,
                self.stop,
            )
            .map_err(Stopped::Failed)?;
        } else if let Some(timed) = self.experiment.timed() {
            let played = timeline::run_field(
                timed,
                self.world,
                &mut field,
                &self.baselines,
                key,
                self.requests,
                self.tick,
                self.stop,
            )
            .map_err(Stopped::Failed)?;
            ran.sums = played.sums;
            ran.traces = played.traces;
            ran.passages = played.passages;
            ran.calm = played.calm;
            ran.calm_tallies = played.calm_tallies;
            ran.incidents = played.incidents;
            ran.requests = played.requests;
        } else {
            (ran.blocks, ran.rollouts) = in_chunks(
                self.world,
                &field,
                &self.baselines,
                key,
                self.requests,
                self.blocks,
                self.tick,
                self.stop,
            );
            return Ok(ran);
        }
        ran.rollouts = field
            .runners()
            .map(super::contestants::Runner::rollout)
            .collect();
        Ok(ran)
    }
}

impl Ran {
    /// Takes it up into the results; what is left are the sums by cluster.
    pub(super) fn into_results(self, results: &mut Results, cut: &mut Blocks) -> Option<Clusters> {
        let mut sums = self.sums;
        if !self.blocks.is_empty() {
            cut.add(self.blocks.iter().map(|sums| sums.tallies.as_slice()));
            sums = self.blocks.into_iter().fold(sums, Sums::merge);
        }
        for (contestant, trace) in results.contestants.iter_mut().zip(self.traces) {
            contestant.traces.extend(trace);
        }
        for (contestant, rollout) in results.contestants.iter_mut().zip(self.rollouts) {
            contestant.rollouts.extend(rollout);
        }
        for (contestant, passage) in results.contestants.iter_mut().zip(self.passages) {
            contestant.passages.extend(passage);
        }
        for (contestant, passage) in results.contestants.iter_mut().zip(self.calm) {
            contestant.calm.extend(passage);
        }
        for (contestant, tally) in results.contestants.iter_mut().zip(self.calm_tallies) {
            contestant.calm_tallies.extend(tally);
        }
        if let Some(timetable) = &mut results.timetable {
            if timetable.incidents.is_empty() {
                results.requests = 0;
            }
            timetable.incidents.push(self.incidents);
            results.requests = results.requests.max(self.requests);
        }
        for ((contestant, tally), pairs) in results
            .contestants
            .iter_mut()
            .zip(sums.tallies)
            .zip(sums.pairs)
        {
            contestant.tallies.push(tally);
            for (all, pair) in contestant.pairs.iter_mut().zip(pairs) {
                all.push(pair);
            }
        }
        sums.clusters
    }
}

/// The sums of each block, in order, and by contestant how far the candidate came that it lets in step by
/// step.
fn in_chunks(
    world: &World<'_>,
    field: &Field,
    baselines: &[usize],
    key: DrawKey,
    requests: u64,
    blocks: u64,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> (Vec<Sums>, Vec<Option<Rollout>>) {
    let ranges = blocks::ranges(requests, blocks);
    let chunk = |scratch: &mut episode::Scratch, range: &Range<u64>, chunk: u64| {
        let mut sums = Sums::new(world, field.len(), baselines.len());
        if !stop.load(Ordering::Relaxed) {
            let first = range.start + chunk * CHUNK;
            let len = CHUNK.min(range.end - first);
            episode::run_chunk(world, scratch, baselines, key, first, len, &mut sums);
            tick(len);
        }
        sums
    };
    let chunks = |range: &Range<u64>| 0..(range.end - range.start).div_ceil(CHUNK);
    let empty = || Sums::new(world, field.len(), baselines.len());
    if field.stateful() {
        // What a stateful policy decides depends on all earlier requests: one scratch, in order.
        let mut scratch = episode::Scratch::new(world, field);
        let mut block = |range| {
            chunks(range).fold(empty(), |sums, index| {
                sums.merge(chunk(&mut scratch, range, index))
            })
        };
        let sums = ranges.iter().map(&mut block).collect();
        return (sums, scratch.rollouts());
    }
    let sums = ranges
        .par_iter()
        .map(|range| {
            chunks(range)
                .into_par_iter()
                .map_init(
                    || episode::Scratch::new(world, field),
                    |scratch, index| chunk(scratch, range, index),
                )
                .reduce(empty, Sums::merge)
        })
        .collect();
    (sums, Vec::new())
}
