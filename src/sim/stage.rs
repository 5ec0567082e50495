//! Comparisons in which requests take their course one after the other: through bytes, through sockets,
//! and through faults.
//!
//! Everywhere else in `sim` a call is answered at once by a row of a table. Here every attempt is an
//! exchange with a stand-in at one of three fidelities, in virtual time, and a fault script may spoil it.
//! Each request begins [`Stage::spacing`] after the one before has ended: no two overlap. The same attempts come out at every fidelity; that is what licenses the fast numbers.

mod course;
#[cfg(feature = "live")]
mod loopback;
mod teller;
mod tracer;

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

pub(super) use tracer::Tracer;

use super::contestants::Field;
use super::episode::{Sums, World};
use super::ledger::Ledger;
use super::tallying::{self, Column};
use crate::standin::faults::Faults;
use crate::units::Duration;
use crate::workload::{Batch, DrawKey};

/// Requests whose outcomes are added up together.
const SLICE: usize = 4_096;

/// How much of the way to a provider is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Answers are rows of a table, faults are looked up in a list of rules.
    Outcome,
    /// Requests and answers are written and read as the provider's bytes, in this process.
    Wired,
    /// The same bytes go through sockets on this machine. Time is virtual here, too.
    Loopback,
}

impl Fidelity {
    /// All three, from fast to real.
    pub const ALL: [Self; 3] = [Self::Outcome, Self::Wired, Self::Loopback];

    /// The name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::Wired => "wired",
            Self::Loopback => "loopback",
        }
    }
}

/// How a comparison is staged.
#[derive(Clone, Debug)]
pub struct Stage {
    /// How much is real.
    pub fidelity: Fidelity,
    /// What goes wrong.
    pub faults: Faults,
    /// Time from the end of one request to the beginning of the next.
    pub spacing: Duration,
    /// Whether the lines of traces are kept, or only their digest.
    pub keep_lines: bool,
}

impl Stage {
    /// For the reader of a report.
    pub(super) fn in_words(&self) -> String {
        let how = match self.fidelity {
            Fidelity::Outcome => "answered from tables",
            Fidelity::Wired => "through stand-ins that write and read the providers' bytes",
            Fidelity::Loopback => "through stand-ins over sockets on this machine",
        };
        let faults = match self.faults.rules.len() {
            0 => "without faults".to_owned(),
            1 => "with faults by one rule".to_owned(),
            n => format!("with faults by {n} rules"),
        };
        format!(
            "requests went one after the other, {how}, {faults}, {} of virtual time between them: no two overlap, so there are no rate limits or queues here{}",
            self.spacing,
            if self.faults.rules.is_empty() {
                ""
            } else {
                "; breakers and outages tie neighbouring requests together, which intervals do not know, and mixes are made from single routes with breakers of their own"
            }
        )
    }

    /// Nothing goes wrong, and a second passes between requests.
    #[must_use]
    pub fn new(fidelity: Fidelity) -> Self {
        Self {
            fidelity,
            faults: Faults::default(),
            spacing: Duration::from_secs(1),
            keep_lines: false,
        }
    }
}

/// What the router did with all requests of one contestant, in order: attempts, failures, waits, routes
/// passed over, verdicts, breakers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Trace {
    /// SHA-256 of the lines, in hexadecimal.
    pub sha256: String,
    /// The lines, if they were kept.
    pub lines: Vec<String>,
    /// Attempts sent, mirrored and judging ones included.
    pub attempts: u64,
    /// Attempts that failed before any output reached the caller.
    pub failed: u64,
    /// Attempts that failed after output had begun. What providers bill for them is not known; they
    /// count as free.
    pub failed_after_output: u64,
    /// Waits.
    pub waits: u64,
    /// The sum of all waits.
    pub waited: Duration,
    /// Times a breaker opened.
    pub breakers_opened: u64,
}

/// What came of one replicate; lists are by contestant.
pub(super) struct Staged {
    pub(super) sums: Sums,
    pub(super) traces: Vec<Option<Trace>>,
    pub(super) ledgers: Vec<Option<Ledger>>,
}

/// Runs everybody on the same requests. `record` says for how many of them decisions are written down.
pub(super) fn run_field(
    stage: &Stage,
    world: &World<'_>,
    field: &mut Field,
    baselines: &[usize],
    key: DrawKey,
    requests: u64,
    record: Option<usize>,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<Staged, String> {
    let contestants = field.len();
    let routes: Vec<String> = world.catalogue.names().map(str::to_owned).collect();
    let verifiers = field.verifiers();
    let theatre = teller::Theatre::open(stage, world, key, &verifiers)?;
    let ran: Vec<_> = field
        .runners_mut()
        .enumerate()
        .collect::<Vec<_>>()
        .into_par_iter()
        .map(|(index, runner)| {
            let course = course::Course {
                stage,
                world,
                theatre: &theatre,
                routes: &routes,
                first_verifier: verifiers.offsets[index],
                key,
                requests,
                stop,
            };
            let ledger = record.map(|most| Ledger::new(most, Some(requests)));
            let played = course.play(runner, ledger);
            // Progress is counted in requests, not in requests and contestants.
            tick(
                requests * (index as u64 + 1) / contestants as u64
                    - requests * index as u64 / contestants as u64,
            );
            played
        })
        .collect();
    let mut sums = Sums::new(world, contestants, baselines.len());
    let mut batch = Batch::default();
    let (mut traces, mut ledgers) = (Vec::new(), Vec::new());
    let mut everybody = Vec::new();
    for (played, tally) in ran.into_iter().zip(&mut sums.tallies) {
        let played = played?;
        let (outcomes, trace, ledger) = match played {
            Some(played) => {
                tally.merge(&played.tally);
                (Some(played.outcomes), played.trace, played.ledger)
            }
            None => (None, None, None),
        };
        everybody.push(outcomes);
        traces.push(trace);
        ledgers.push(ledger);
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Staged {
            sums,
            traces,
            ledgers,
        });
    }
    let mut columns: Vec<Column> = (0..contestants).map(|_| Column::default()).collect();
    let mut done = 0;
    while done < requests as usize {
        let end = (done + SLICE).min(requests as usize);
        for ((column, outcomes), tally) in columns.iter_mut().zip(&everybody).zip(&mut sums.tallies)
        {
            let slice = column.begin_outcomes();
            if let Some(outcomes) = outcomes {
                slice.extend_from_slice(&outcomes[done..end]);
                tallying::add(tally, slice);
            }
            column.settle();
        }
        let settled: Vec<&Column> = columns.iter().collect();
        let (first, drawn) = (done as u64, &mut batch);
        sums.add_pairs(&settled, baselines, (world.cluster, first), move || {
            // Who sent a request is not in its outcome; drawing it again costs little beside the calls.
            world.workload.fill(key, first, end - done, drawn);
            drawn
        });
        done = end;
    }
    Ok(Staged {
        sums,
        traces,
        ledgers,
    })
}
