//! Decisions one by one: for each request and policy where it went, why, what it cost and how good it was.
//!
//! They are those of replicate 0 of the run itself. Requests that are independent of each other are decided
//! again, by the very code of the run; a staged experiment and one in time are played again, with a ledger
//! beside each contestant, so that what breakers, limits and incidents did to a request is in its row. Only an
//! even sample of the requests is kept where all would be too many.
//!
//! Everybody who decides takes part: the policies under test and the controls `always-…`, `length` and
//! `task-means`, so that whoever reads the rows can compare. The oracle does not: it looks at the truth and
//! sends nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use super::contestants::{Field, Runner};
use super::drive::{Answering, Outcome, Verified, flag};
use super::episode::{One, World, is_instant};
use super::ledger::{Closed, Entry, Ledger};
use super::{Experiment, Stopped, prepare, replicate};
use crate::policy::{Asks, Policy};
use crate::router::Router;
use crate::source::Diagnostics;
use crate::standin::outcome::{COST_UNKNOWN, Outcomes};
use crate::stats::Unserved;
use crate::verify::Verifier;
use crate::workload::{Batch, Domain, DrawKey, NO_NAME};

/// Requests that are drawn together where most of them are looked at.
const SLICE: u64 = 128;

/// What was decided about requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// Route names; a route is an index into this list.
    pub routes: Vec<String>,
    /// Task names, likewise.
    pub tasks: Vec<String>,
    /// Tenant names, likewise.
    pub tenants: Vec<String>,
    /// Who decided.
    pub policies: Vec<Decider>,
    /// The requests that were kept, in their order.
    pub requests: Vec<DecidedRequest>,
    /// Request by request, and for each request one row for each of `policies`.
    pub rows: Vec<Decided>,
    /// Every so many-th request was kept, from the first one on: 1 if all were.
    pub every: u64,
    /// Requests of the replicate.
    pub of: u64,
    /// Whether requests were independent of each other; else they met faults, or shared a clock.
    pub independent: bool,
}

impl Decisions {
    /// Which requests these are, for the reader.
    #[must_use]
    pub fn in_words(&self) -> String {
        let all = self.of;
        match self.every {
            1 => format!("all {all} requests of replicate 0"),
            every => format!(
                "{} of the {all} requests of replicate 0: every {every}th one by number, from the first one on",
                self.requests.len()
            ),
        }
    }

    /// The rows of the i-th request that was kept, in the order of `policies`.
    #[must_use]
    pub fn of_request(&self, i: usize) -> &[Decided] {
        let width = self.policies.len();
        self.rows
            .get(i * width..(i + 1) * width)
            .unwrap_or_default()
    }
}

/// Somebody who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Whether it is a control.
    pub control: bool,
    /// Its reasons in its own words. Where the words tell a number of the request, it is that of the first
    /// request that was decided for this reason. Text from outside is in them as it is.
    pub reasons: Vec<String>,
}

/// A request about which was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedRequest {
    /// Its number in the replicate, from 0.
    pub number: u64,
    /// Its id, as `explain` takes it.
    pub id: String,
    /// Index into [`Decisions::tasks`].
    pub task: u16,
    /// Index into [`Decisions::tenants`], if it names one.
    pub tenant: Option<u16>,
}

/// What one policy decided about one request, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Index into [`Decider::reasons`].
    pub reason: u16,
    /// Whose answer was served.
    pub route: Option<u16>,
    /// Why nobody's was.
    pub unserved: Option<Unserved>,
    /// A verifier met an answer that nobody graded, so what happened is not known.
    pub undetermined: bool,
    /// The answer was passed on to another route after a verifier had not accepted it.
    pub escalated: bool,
    /// What was served had been rejected.
    pub unverified: bool,
    /// Calls made for the caller.
    pub calls: u8,
    /// What they cost together, in 10⁻¹² USD, if that is known.
    pub cost: Option<u64>,
    /// The grade of what was served in millionths, if there is one; unserved is wrong.
    pub grade: Option<u32>,
    /// The copy that nobody saw, if there was one.
    pub mirror: Option<Mirrored>,
}

/// A copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// Who answered it.
    pub route: Option<u16>,
    /// What it cost, in 10⁻¹² USD, if that is known.
    pub cost: Option<u64>,
    /// The grade of its answer in millionths, if there is one.
    pub grade: Option<u32>,
}

fn cost(outcome: Outcome) -> Option<u64> {
    (outcome.cost != COST_UNKNOWN).then_some(outcome.cost)
}

fn route(outcome: Outcome) -> Option<u16> {
    (outcome.route() != super::drive::NO_ROUTE).then_some(outcome.route())
}

impl Decided {
    fn of(entry: &Entry) -> Self {
        let outcome = entry.outcome;
        let has = |bit: u8| outcome.flags() & bit != 0;
        let unserved = [
            Unserved::RefusedByResidency,
            Unserved::NoCapableRoute,
            Unserved::Failed,
        ];
        Self {
            reason: entry.reason,
            route: route(outcome),
            unserved: outcome
                .unserved()
                .and_then(|why| unserved.get(why).copied()),
            undetermined: has(flag::UNDETERMINED),
            escalated: has(flag::ESCALATED),
            unverified: has(flag::UNVERIFIED),
            calls: outcome.calls(),
            cost: cost(outcome),
            grade: outcome.grade().millionths(),
            mirror: entry.mirror.map(|copy| Mirrored {
                route: route(copy),
                cost: cost(copy),
                grade: copy.grade().millionths(),
            }),
        }
    }
}

/// What everybody decides about the requests of replicate 0. There are at most `rows_max` rows, and one request
/// at least: where more would come, requests are thinned evenly (see [`Decisions::every`]). `tick` and
/// `stop` are as in [`run`](super::run). Warnings are those of the run, and are not given twice.
///
/// # Errors
///
/// Those of [`run`](super::run).
pub fn decisions(
    experiment: &Experiment<'_>,
    rows_max: u64,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<Decisions, Stopped> {
    let mut unheard = Diagnostics::default();
    let world = prepare(experiment, &mut unheard).map_err(Stopped::Invalid)?;
    let field = Field::build(experiment, &world, 0, &mut unheard);
    let decides = |runner: &&Runner| matches!(runner, Runner::Policy { .. });
    let deciders = field.runners().filter(decides).count() as u64;
    let most = usize::try_from(rows_max / deciders.max(1)).unwrap_or(usize::MAX);
    let contestants = field.contestants(0);
    let independent = experiment.stage.is_none() && experiment.timed().is_none();
    let (ledgers, requests) = if independent {
        let requests = experiment.run_length();
        let ledgers = in_batch(experiment, &world, field, requests, most, tick, stop);
        (ledgers, requests)
    } else {
        let runner = replicate::Runner {
            experiment,
            world: &world,
            baselines: Vec::new(),
            requests: experiment.run_length(),
            blocks: 1,
            record: Some(most),
            tick,
            stop,
        };
        let ran = runner.run(0, field, None)?;
        (ran.ledgers, ran.requests)
    };
    if stop.load(Ordering::Relaxed) {
        return Err(Stopped::Interrupted(None));
    }
    let mut policies = Vec::new();
    let mut books: Vec<Closed> = Vec::new();
    for (contestant, ledger) in contestants.into_iter().zip(ledgers) {
        // Whoever does not decide has no ledger.
        let Some(ledger) = ledger else { continue };
        let closed = ledger.close();
        policies.push(Decider {
            name: contestant.name,
            kind: contestant.kind,
            control: contestant.control,
            reasons: closed.reasons.clone(),
        });
        books.push(closed);
    }
    let workload = experiment.workload;
    let every = books.first().map_or(1, |book| book.every);
    let kept = books.first().map_or(0, |book| book.entries.len());
    let request = |place: usize| {
        let number = place as u64 * every;
        let entry = books[0].entries[place];
        DecidedRequest {
            number,
            id: workload.request_id(number),
            task: entry.task,
            tenant: (entry.tenant != NO_NAME).then_some(entry.tenant),
        }
    };
    let rows = (0..kept).flat_map(|place| books.iter().map(move |book| &book.entries[place]));
    Ok(Decisions {
        routes: experiment.catalogue.names().map(str::to_owned).collect(),
        tasks: workload.tasks.clone(),
        tenants: workload.tenants.clone(),
        rows: rows.map(Decided::of).collect(),
        requests: (0..kept).map(request).collect(),
        policies,
        every,
        of: requests,
        independent,
    })
}

/// Somebody with a ledger.
struct Writer {
    per_fold: Vec<Box<dyn Policy>>,
    verifiers: Vec<Verifier>,
    router: Router,
    ledger: Ledger,
    stateful: bool,
}

/// Decides about requests that are independent of each other, but for what policies remember. Those that
/// remember have to see all requests; the others only those that are kept.
fn in_batch(
    experiment: &Experiment<'_>,
    world: &World<'_>,
    field: Field,
    requests: u64,
    most: usize,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Vec<Option<Ledger>> {
    let key = DrawKey {
        seed: experiment.seed,
        domain: Domain::Traffic,
        replicate: 0,
    };
    let stateful = field.stateful();
    let mut writers: Vec<Option<Writer>> = field
        .into_runners()
        .map(|runner| {
            let is_stateful = runner.stateful();
            let Runner::Policy {
                per_fold,
                verifiers,
            } = runner
            else {
                return None;
            };
            Some(Writer {
                per_fold,
                verifiers,
                router: world.catalogue.router(),
                ledger: Ledger::new(most, Some(requests)),
                stateful: is_stateful,
            })
        })
        .collect();
    let every = Ledger::new(most, Some(requests)).every();
    let (mut batch, mut requirement, mut outcomes) =
        (Batch::default(), Vec::new(), Outcomes::default());
    let mut first = 0;
    while first < requests && !stop.load(Ordering::Relaxed) {
        // Where few are kept and nobody remembers, they are drawn one by one.
        let alone = !stateful && every > SLICE / 8;
        let len = if alone {
            1
        } else {
            SLICE.min(requests - first)
        };
        world.workload.fill(key, first, len as usize, &mut batch);
        let asks = world.asks(&batch, 0, &mut requirement);
        outcomes.fill(&batch, &world.world, &world.prices);
        for writer in writers.iter_mut().flatten() {
            writer.write(world, &batch, &asks, &outcomes, first);
        }
        let next = if alone {
            first.saturating_add(every).min(requests)
        } else {
            first + len
        };
        tick(next - first);
        first = next;
    }
    let ledger = |writer: Option<Writer>| writer.map(|writer| writer.ledger);
    writers.into_iter().map(ledger).collect()
}

impl Writer {
    /// Decides about the requests of a slice that begins with number `first`.
    fn write(
        &mut self,
        world: &World<'_>,
        batch: &Batch,
        asks: &Asks<'_>,
        outcomes: &Outcomes,
        first: u64,
    ) {
        let answering = Answering {
            outcomes,
            verifiers: &self.verifiers,
            batch,
            world,
        };
        let (mut counts, mut unseen) = (Verified::default(), Verified::default());
        let last = self.per_fold.len() - 1;
        let instant = is_instant(&self.router, &self.verifiers);
        for i in 0..asks.len() {
            let number = first + i as u64;
            if !self.stateful && !self.ledger.keeps(number) {
                continue;
            }
            let fold = match world.workload.folds() {
                0 | 1 => 0,
                _ => usize::from(world.workload.fold(number)).min(last),
            };
            let mut one = One {
                per_fold: &mut self.per_fold,
                fold,
                router: &mut self.router,
                answering: &answering,
                instant,
                learns: self.stateful,
                ledger: Some(&mut self.ledger),
            };
            one.decide(&asks.get(i), first, i, &mut counts, &mut unseen);
        }
    }
}
