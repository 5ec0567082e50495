//! Comparisons in time: requests share a clock, so breakers, pauses, rate limits and queues matter.
//!
//! Each contestant has a cell of its own: a router, providers, and a queue of events in virtual time. All
//! cells read the same arrivals and the same requests, chapter by chapter, and what became of a chapter is
//! added up once nobody of it is in progress any more, so that memory grows with what arrives during the
//! longest call and not with all requests. With a timeline on which nothing takes time, nothing is refused and nothing goes
//! wrong, the sums are those of the batch path.
//!
//! A drill runs every contestant twice, in the world as declared and on a calm day without its incidents,
//! on the same requests with the same draws: the difference is what the incidents did.

mod cell;
mod chapter;
mod passage;
mod queue;
mod watch;

pub use passage::{
    BINS_MAX, CHANGES_MAX, Change, Counts, Latencies, Lost, Passage, Reason, RouteBin,
    RoutePassage, Timetable,
};

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::contestants::{Field, Runner};
use super::episode::{self, Sums, World};
use super::ledger::Ledger;
use super::stage::{Trace, Tracer};
use super::tallying::{self, Column};
use crate::stats::Tally;
use crate::timeline::{Drifts, INCIDENTS_MAX, Providers, Timeline};
use crate::units::{Duration, Instant, name_key};
use crate::workload::DrawKey;
use cell::{Cell, Ended, Parts};
use chapter::{Chapter, Classes, Reader, Window};
use watch::Watch;

/// Bins that a time line has at most unless its width is declared.
const BINS: u64 = 240;
/// Widths of bins that people can read, in seconds.
const WIDTHS_S: [u64; 16] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400,
];

/// A run in time.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'a> {
    /// What happens when.
    pub timeline: &'a Timeline,
    /// Whether everybody also goes through a calm day: the same without incidents, outages and drifts.
    pub calm: bool,
    /// Whether the lines of traces are kept.
    pub keep_lines: bool,
}

impl Timed<'_> {
    /// For the reader of a report.
    pub(super) fn in_words(&self) -> String {
        let timeline = self.timeline;
        let mut parts = Vec::new();
        let count = |n: usize, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{n} {what}s"),
        };
        if !timeline.limits.is_empty() {
            parts.push(count(timeline.limits.len(), "rate limit"));
        }
        if !timeline.incidents.is_empty() {
            parts.push(count(timeline.incidents.len(), "incident"));
        }
        if !timeline.outages.is_empty() {
            parts.push(format!(
                "{} of outages",
                count(timeline.outages.len(), "process")
            ));
        }
        if !timeline.drifts.is_empty() {
            parts.push(count(timeline.drifts.len(), "change") + " of quality");
        }
        let what = if parts.is_empty() {
            "neither rate limits nor incidents".to_owned()
        } else {
            parts.join(", ")
        };
        format!(
            "requests share a clock: arrivals, latencies, {what}; what happens to one request depends on others, which intervals within a replicate do not know, and mixes are made from single routes with breakers and limits of their own"
        )
    }
}

/// What came of one replicate.
pub(super) struct Played {
    pub(super) sums: Sums,
    pub(super) requests: u64,
    /// By contestant; none for those who send nothing.
    pub(super) passages: Vec<Option<Passage>>,
    pub(super) calm: Vec<Option<Passage>>,
    pub(super) calm_tallies: Vec<Option<Tally>>,
    pub(super) traces: Vec<Option<Trace>>,
    pub(super) incidents: Vec<crate::timeline::Incident>,
    /// What was decided in the world as declared, if it was written down.
    pub(super) ledgers: Vec<Option<Ledger>>,
}

/// Names of what unserved requests are split by.
pub(super) fn timetable(timed: &Timed<'_>, world: &World<'_>) -> Timetable {
    Timetable {
        limits: timed
            .timeline
            .limits
            .iter()
            .map(|limit| limit.name.clone())
            .collect(),
        classes: Classes::new(world).names(world),
        incidents: Vec::new(),
        slo: timed.timeline.slo,
        has_calm: timed.calm,
    }
}

/// What goes wrong, and when, in a replicate: scripted incidents and those that are drawn.
pub(super) fn incidents(
    timed: &Timed<'_>,
    seed: u64,
    replicate: u32,
    requests: u64,
) -> Vec<crate::timeline::Incident> {
    let key = DrawKey {
        seed,
        domain: crate::workload::Domain::Traffic,
        replicate,
    };
    let length = length(timed.timeline, key, requests);
    let declared = Providers::open(timed.timeline, key, length);
    declared.weather().incidents().to_vec()
}

/// The width of the bins of a run of this length.
fn bin_of(timeline: &Timeline, length: Duration) -> Duration {
    if let Some(bin) = timeline.bin {
        // Wider, where there would be more bins than are kept apart.
        return bin.max(Duration(length.0.div_ceil(BINS_MAX as u64)));
    }
    let least = length.0.div_ceil(BINS);
    let widths = WIDTHS_S.map(Duration::from_secs);
    let fits = widths.into_iter().find(|width| width.0 >= least);
    fits.unwrap_or(Duration(least))
}

/// When the last request comes, or when none comes any more.
fn length(timeline: &Timeline, key: DrawKey, requests: u64) -> Duration {
    if let Some(length) = timeline.duration {
        return length;
    }
    let all = usize::try_from(requests).unwrap_or(usize::MAX);
    let last = timeline.arrivals.open(key).take(all).last();
    last.map_or(Duration::ZERO, |last| last.at.since(Instant::ZERO))
}

/// Somebody who decides, in the world as declared and perhaps on a calm day.
struct Player<'a> {
    cell: Cell<'a>,
    calm: Option<Cell<'a>>,
}

impl<'a> Player<'a> {
    fn cells(&self) -> impl Iterator<Item = &Cell<'a>> {
        std::iter::once(&self.cell).chain(&self.calm)
    }
}

/// Runs everybody on the same requests. `record` says for how many of them decisions are written down.
pub(super) fn run_field(
    timed: &Timed<'_>,
    world: &World<'_>,
    field: &mut Field,
    baselines: &[usize],
    key: DrawKey,
    requests: u64,
    record: Option<usize>,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<Played, String> {
    let timeline = timed.timeline;
    let calm_day = timeline.calm();
    let classes = Classes::new(world);
    let names: Vec<String> = world.catalogue.names().map(str::to_owned).collect();
    let route_keys: Vec<u64> = names.iter().map(|name| name_key(name)).collect();
    let length = length(timeline, key, requests);
    let bin = bin_of(timeline, length);
    let declared = Providers::open(timeline, key, length);
    let calm = timed.calm.then(|| Providers::open(&calm_day, key, length));
    let complete = declared.weather().complete_until();
    if complete < Instant::ZERO.after(length) {
        return Err(format!(
            "more than {INCIDENTS_MAX} incidents and outages would begin within the run: there is room for those of the first {:.1} h; let it be shorter, or outages rarer",
            complete.since(Instant::ZERO).as_secs_f64() / 3_600.0
        ));
    }
    let incidents = declared.weather().incidents().to_vec();
    let shared = Shared {
        timed,
        world,
        names: &names,
        route_keys: &route_keys,
        bin,
        record,
    };
    let mut players: Vec<Option<Player<'_>>> = field
        .runners()
        .map(|runner| {
            Some(Player {
                cell: shared.cell(runner, &declared, false, timed.keep_lines)?,
                calm: calm
                    .as_ref()
                    .and_then(|providers| shared.cell(runner, providers, true, false)),
            })
        })
        .collect();
    let is_oracle: Vec<bool> = field
        .runners()
        .map(|runner| matches!(runner, Runner::Oracle))
        .collect();
    let mut books = Books {
        world,
        baselines,
        is_oracle,
        columns: (0..players.len()).map(|_| Column::default()).collect(),
        sums: Sums::new(world, players.len(), baselines.len()),
        calm: Sums::new(world, players.len(), 0).tallies,
    };
    let mut reader = Reader {
        timeline,
        world,
        classes: &classes,
        drifts: Drifts::new(&timeline.drifts, names.len()),
        route_keys: &route_keys,
        arriving: timeline.arrivals.open(key),
        key,
        left: requests,
        next: 0,
        spare: Vec::new(),
    };
    let mut window = Window::default();
    let mut span = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let Some(chapter) = reader.read() else {
            break;
        };
        let len = chapter.len() as u64;
        span = chapter
            .at
            .last()
            .map_or(span, |last| last.since(Instant::ZERO));
        window.push(chapter);
        play(&mut players, |cell| cell.play(&window));
        books.close(&mut players, &mut window, &mut reader.spare);
        tick(len);
    }
    play(&mut players, |cell| cell.drain(&window));
    books.close(&mut players, &mut window, &mut reader.spare);
    let mut played = Played {
        sums: books.sums,
        requests: reader.next,
        passages: Vec::new(),
        calm: Vec::new(),
        calm_tallies: Vec::new(),
        traces: Vec::new(),
        incidents,
        ledgers: Vec::new(),
    };
    let runners = field.runners_mut();
    for (((player, runner), tally), mut calm_tally) in players
        .into_iter()
        .zip(runners)
        .zip(&mut played.sums.tallies)
        .zip(books.calm)
    {
        let Some(player) = player else {
            played.passages.push(None);
            played.calm.push(None);
            played.calm_tallies.push(None);
            played.traces.push(None);
            played.ledgers.push(None);
            continue;
        };
        let finished = player.cell.finish(span);
        tally.merge(&finished.tally);
        played.passages.push(Some(finished.passage));
        played.traces.push(finished.tracer.map(Tracer::finish));
        played.ledgers.push(finished.ledger);
        let calm = player.calm.map(|calm| calm.finish(span));
        played.calm_tallies.push(calm.as_ref().map(|calm| {
            calm_tally.merge(&calm.tally);
            calm_tally
        }));
        played.calm.push(calm.map(|calm| calm.passage));
        *runner = Runner::Policy {
            per_fold: finished.per_fold,
            verifiers: finished.verifiers,
        };
    }
    Ok(played)
}

/// Lets all cells go on, in parallel where there is more than one.
fn play<'a>(players: &mut [Option<Player<'a>>], go_on: impl Fn(&mut Cell<'a>) + Sync) {
    let mut cells: Vec<&mut Cell<'a>> = players
        .iter_mut()
        .flatten()
        .flat_map(|player| std::iter::once(&mut player.cell).chain(player.calm.as_mut()))
        .collect();
    match cells.as_mut_slice() {
        [cell] => go_on(cell),
        cells => cells.par_iter_mut().for_each(|cell| go_on(cell)),
    }
}

/// What cells are made from.
struct Shared<'a> {
    timed: &'a Timed<'a>,
    world: &'a World<'a>,
    names: &'a [String],
    route_keys: &'a [u64],
    bin: Duration,
    record: Option<usize>,
}

impl<'a> Shared<'a> {
    /// A cell for somebody who decides.
    fn cell(
        &self,
        runner: &Runner,
        providers: &Providers<'a>,
        is_calm: bool,
        is_traced: bool,
    ) -> Option<Cell<'a>> {
        let Runner::Policy {
            per_fold,
            verifiers,
        } = runner
        else {
            return None;
        };
        let passage = Passage {
            bin: self.bin,
            routes: vec![RoutePassage::default(); self.names.len()],
            ..Passage::default()
        };
        let tracer = is_traced.then(|| Tracer::new(self.names, true));
        let router = self.world.catalogue.router();
        Some(Cell::new(Parts {
            world: self.world,
            slo: self.timed.timeline.slo,
            is_calm,
            per_fold: per_fold.iter().map(|policy| policy.fork()).collect(),
            verifiers: verifiers.clone(),
            providers: providers.clone(),
            watch: Watch::new(passage, tracer, &router),
            router,
            route_keys: self.route_keys,
            // Nobody knows how many requests will come; and the calm day is not what happened.
            ledger: self
                .record
                .filter(|_| !is_calm)
                .map(|most| Ledger::new(most, None)),
        }))
    }
}

/// Adds up what became of chapters.
struct Books<'a> {
    world: &'a World<'a>,
    baselines: &'a [usize],
    is_oracle: Vec<bool>,
    columns: Vec<Column>,
    sums: Sums,
    /// By contestant, on the calm day.
    calm: Vec<Tally>,
}

impl Books<'_> {
    /// Adds up the chapters that are over for everybody.
    fn close(
        &mut self,
        players: &mut [Option<Player<'_>>],
        window: &mut Window,
        spare: &mut Vec<Chapter>,
    ) {
        let all_ended = |players: &[Option<Player<'_>>]| {
            players
                .iter()
                .flatten()
                .flat_map(Player::cells)
                .all(Cell::has_ended)
        };
        while window.front().is_some() && all_ended(players) {
            if let Some(chapter) = window.front() {
                self.add(players, chapter);
            }
            for player in players.iter_mut().flatten() {
                player.cell.pop();
                if let Some(calm) = &mut player.calm {
                    calm.pop();
                }
            }
            spare.extend(window.pop());
        }
    }

    fn add(&mut self, players: &mut [Option<Player<'_>>], chapter: &Chapter) {
        for (index, player) in players.iter_mut().enumerate() {
            let column = &mut self.columns[index];
            let tally = &mut self.sums.tallies[index];
            let outcomes = column.begin_outcomes();
            if let Some(player) = player {
                let ended: Option<&Ended> = player.cell.front();
                outcomes.extend(
                    ended
                        .iter()
                        .flat_map(|ended| ended.outcomes.iter().copied()),
                );
                tallying::add(tally, outcomes);
                if let Some(ended) = player.calm.as_ref().and_then(Cell::front) {
                    tallying::add(&mut self.calm[index], &ended.outcomes);
                    player.cell.add_harm(ended, &chapter.at);
                }
            } else if self.is_oracle[index] {
                episode::oracle(
                    self.world,
                    chapter.outcomes(false),
                    &chapter.asks(),
                    outcomes,
                );
                tallying::add(tally, outcomes);
                tally.mirror_costed += chapter.len() as u64;
                tally.unknown_need += chapter.unknown_need;
            }
            column.settle();
        }
        let columns: Vec<&Column> = self.columns.iter().collect();
        let whose = (self.world.cluster, chapter.first);
        self.sums
            .add_pairs(&columns, self.baselines, whose, || &chapter.batch);
    }
}
