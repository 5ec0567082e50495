//! One replicate of an experiment, in whichever of the three ways it is run: in chunks, staged, or in time.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::blocks::{self, Blocks};
use super::checkpoint::{Part, PartBlock};
use super::clusters::Clusters;
use super::contestants::Field;
use super::episode::{self, Sums, World};
use super::ledger::Ledger;
use super::segments::Segments;
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
    /// For how many requests decisions are written down, staged and in time.
    pub(super) record: Option<usize>,
    pub(super) tick: &'a (dyn Fn(u64) + Sync),
    pub(super) stop: &'a AtomicBool,
}

/// What came of a replicate; lists are by contestant.
pub(super) struct Ran {
    sums: Sums,
    /// By block of requests, where they are kept apart.
    blocks: Vec<PartBlock>,
    traces: Vec<Option<Trace>>,
    rollouts: Vec<Option<Rollout>>,
    passages: Vec<Option<Passage>>,
    calm: Vec<Option<Passage>>,
    calm_tallies: Vec<Option<Tally>>,
    incidents: Vec<Incident>,
    pub(super) requests: u64,
    pub(super) ledgers: Vec<Option<Ledger>>,
}

impl Runner<'_> {
    /// Runs one replicate, or what is left of it.
    pub(super) fn run(
        &self,
        replicate: u32,
        mut field: Field,
        part: Option<Part>,
    ) -> Result<Ran, Stopped> {
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
            ledgers: Vec::new(),
        };
        if let Some(stage) = self.experiment.stage {
            let staged = stage::run_field(
                stage,
                self.world,
                &mut field,
                &self.baselines,
                key,
                self.requests,
                self.record,
                self.tick,
                self.stop,
            )
            .map_err(Stopped::Failed)?;
            ran.sums = staged.sums;
            ran.traces = staged.traces;
            ran.ledgers = staged.ledgers;
        } else if let Some(timed) = self.experiment.timed() {
            let played = timeline::run_field(
                timed,
                self.world,
                &mut field,
                &self.baselines,
                key,
                self.requests,
                self.record,
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
            ran.ledgers = played.ledgers;
        } else {
            (ran.sums, ran.blocks, ran.rollouts) = in_chunks(
                self.world,
                &field,
                &self.baselines,
                key,
                (self.requests, self.blocks),
                part,
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
    /// What is done of a replicate that was interrupted, if its chunks are independent of each other.
    pub(super) fn into_part(self) -> Option<Part> {
        let any = self.blocks.iter().any(|block| !block.chunks.is_empty());
        any.then_some(Part {
            sums: self.sums,
            blocks: self.blocks,
        })
    }

    /// Takes it up into the results; what is left are the sums by cluster and by segment.
    pub(super) fn into_results(
        self,
        results: &mut Results,
        cut: &mut Blocks,
    ) -> (Option<Clusters>, Option<Segments>) {
        let sums = self.sums;
        if !self.blocks.is_empty() {
            cut.add(&self.blocks);
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
        (sums.clusters, sums.segments)
    }
}

/// All sums, those of each block in order and by contestant, and by contestant how far the candidate came
/// that it lets in step by step.
fn in_chunks(
    world: &World<'_>,
    field: &Field,
    baselines: &[usize],
    key: DrawKey,
    (requests, blocks): (u64, u64),
    part: Option<Part>,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> (Sums, Vec<PartBlock>, Vec<Option<Rollout>>) {
    let ranges = blocks::ranges(requests, blocks);
    let chunk = |scratch: &mut episode::Scratch, range: &Range<u64>, chunk: u64| {
        let mut sums = Sums::new(world, field.len(), baselines.len());
        let goes_on = !stop.load(Ordering::Relaxed);
        if goes_on {
            let first = range.start + chunk * CHUNK;
            let len = CHUNK.min(range.end - first);
            episode::run_chunk(world, scratch, baselines, key, first, len, &mut sums);
            tick(len);
        }
        (sums, goes_on)
    };
    let chunks = |range: &Range<u64>| 0..(range.end - range.start).div_ceil(CHUNK);
    let empty = || Sums::new(world, field.len(), baselines.len());
    if field.stateful() {
        // What a stateful policy decides depends on all earlier requests: one scratch, in order.
        let mut scratch = episode::Scratch::new(world, field);
        let mut units = Vec::new();
        let mut all = empty();
        for range in &ranges {
            let block = chunks(range).fold(empty(), |sums, index| {
                sums.merge(chunk(&mut scratch, range, index).0)
            });
            units.push(PartBlock {
                units: blocks::units(&block.tallies),
                chunks: Vec::new(),
            });
            all = all.merge(block);
        }
        return (all, units, scratch.rollouts());
    }
    let (mut before, held) = match part {
        Some(part) => (part.blocks, part.sums),
        None => (Vec::new(), empty()),
    };
    before.resize_with(ranges.len(), PartBlock::default);
    for (range, block) in ranges.iter().zip(&before) {
        let done = block.chunks.iter();
        tick(done.fold(0, |sum, chunk| {
            let first = range.start.saturating_add(chunk.saturating_mul(CHUNK));
            sum + CHUNK.min(range.end.saturating_sub(first))
        }));
    }
    let block = |(range, before): (&Range<u64>, PartBlock)| {
        let finished: BTreeSet<u64> = before.chunks.iter().copied().collect();
        let left: Vec<u64> = chunks(range)
            .filter(|index| !finished.contains(index))
            .collect();
        let (sums, ran) = left
            .into_par_iter()
            .map_init(
                || episode::Scratch::new(world, field),
                |scratch, index| {
                    let (sums, ran) = chunk(scratch, range, index);
                    (sums, if ran { vec![index] } else { Vec::new() })
                },
            )
            .reduce(
                || (empty(), Vec::new()),
                |(sums, mut ran), (others, more)| {
                    ran.extend(more);
                    (sums.merge(others), ran)
                },
            );
        let mut units = blocks::units(&sums.tallies);
        for (unit, before) in units.iter_mut().zip(&before.units) {
            unit.merge(before);
        }
        let mut all = before.chunks;
        all.extend(ran);
        (vec![PartBlock { units, chunks: all }], sums)
    };
    let (blocks, sums) = ranges.par_iter().zip(before).map(block).reduce(
        || (Vec::new(), empty()),
        |(mut blocks, sums), (more, others)| {
            // Parts are put together in their order, whoever is ready first.
            blocks.extend(more);
            (blocks, sums.merge(others))
        },
    );
    (sums.merge(held), blocks, Vec::new())
}
