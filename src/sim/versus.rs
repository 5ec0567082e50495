//! Two configurations on the same requests: what changes if one takes the other's place.
//!
//! Each side has a route catalogue and a policy of its own; the traffic is one. Draws belong to requests and to
//! routes by their names, so both sides see the same answers from routes of the same name, and the
//! difference between them is a paired one. Requests take their course step by step, so that every call is
//! seen: a request whose first answer was rejected has been where that answer came from.

mod sides;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::contestants::{Field, Runner};
use super::drive::{self, Answering, NO_ROUTE, Outcome, Verified, Watch, flag};
use super::episode::{World, add_mirror, jitter};
use super::segments::{Gathered, Segments};
use super::tallying::{self, Column};
use super::{CHUNK, Contestant, Evidence, Experiment, Results, Stopped, prepare};
use crate::catalogue::Requirement;
use crate::router::{Log, Plan, Regions, RouteId, Router, Target};
use crate::source::{Diagnostic, Diagnostics, describe_list, nearest};
use crate::standin::outcome::{COST_UNKNOWN, Outcomes};
use crate::stats::{PairTally, Tally};
use crate::units::{Duration, Instant, Tokens};
use crate::workload::{Batch, Domain, DrawKey, NO_NAME};
use sides::{Allowed, Names};

/// Requests that are drawn together.
const SLICE: u64 = 1_024;

/// One of the two configurations.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Its catalogue and policies. Both sides have the same workload, seed, requests and replicates.
    pub experiment: &'a Experiment<'a>,
    /// Who of it is compared: a policy or a control that sends requests.
    pub contestant: &'a str,
    /// What it is called in the results.
    pub called: &'a str,
}

/// Requests that went from one route to another; `None` for those that nobody served.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Who served them on the first side.
    pub from: Option<String>,
    /// Who serves them on the second.
    pub to: Option<String>,
    /// How many.
    pub requests: u64,
    /// The same as a share of the requests whose course is known on both sides.
    pub share: f64,
}

/// Requests that the second side sends, or would send after a failure, where the first side's rules do not let them go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Whose requests.
    pub tenant: Option<String>,
    /// Their data class.
    pub data_class: Option<String>,
    /// The route they were sent to.
    pub route: String,
    /// How many.
    pub requests: u64,
    /// The first of them.
    pub example: String,
}

/// What became of the same requests on both sides.
#[derive(Clone, Debug)]
pub struct Versus {
    /// Both as contestants, the first side first, each paired with the first.
    pub results: Results,
    /// Requests, over all replicates unless they share their rows.
    pub requests: u64,
    /// Of these, those whose course is known on both sides.
    pub determined: u64,
    /// Of the determined, those that another route serves, most frequent changes first.
    pub moves: Vec<Move>,
    /// Requests with a call, or a further leg of their plan, where they may not go: each counts once.
    pub strayed: u64,
    /// The same by tenant, data class and route; a request counts for each of its routes.
    pub violations: Vec<Violation>,
    /// Requests that a rule of the first side binds to places or to one's own machines.
    pub bound: u64,
    /// Rules of the first side that bind no request here, as `tenant.NAME` and `data_class.NAME`.
    pub unused_rules: Vec<String>,
    /// Routes of the second side that the first one does not know: where their data may go is believed.
    pub unknown_routes: Vec<String>,
}

impl Versus {
    /// The share of requests that another route serves.
    #[must_use]
    pub fn rerouted(&self) -> f64 {
        self.moves.iter().map(|one| one.share).sum()
    }
}

/// Runs both sides on the same requests. `tick` and `stop` are as in [`super::run`].
///
/// # Errors
///
/// What does not fit between the inputs of either side, an unknown contestant, or one that sends nothing (the
/// oracle). Sides with different traffic are refused.
pub fn versus(
    sides: [Side<'_>; 2],
    warnings: &mut Diagnostics,
    tick: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<Versus, Stopped> {
    let [base, head] = sides.map(|side| side.experiment);
    if !std::ptr::eq(base.workload, head.workload)
        || (base.seed, base.requests, base.replicates)
            != (head.seed, head.requests, head.replicates)
    {
        return Err(Stopped::Failed(
            "two sides can be compared on the same requests only".to_owned(),
        ));
    }
    let worlds = [
        prepare(base, warnings).map_err(Stopped::Invalid)?,
        prepare(head, warnings).map_err(Stopped::Invalid)?,
    ];
    let pair = Pair {
        worlds: &worlds,
        names: Names::of(base.catalogue, head.catalogue),
        allowed: Allowed::of(base.catalogue, head.catalogue),
    };
    let requests = base.run_length();
    let mut all: Option<Sums> = None;
    let mut results: Option<Results> = None;
    let mut segments = Gathered::default();
    for replicate in 0..base.replicates.max(1) {
        let mut unsaid = Diagnostics::default();
        let fields = [
            Field::build(base, &worlds[0], replicate, &mut unsaid),
            Field::build(head, &worlds[1], replicate, &mut unsaid),
        ];
        let mut chosen = [0; 2];
        for (index, (field, side)) in chosen.iter_mut().zip(fields.iter().zip(&sides)) {
            *index = find(field, side.contestant).map_err(Stopped::Invalid)?;
        }
        if replicate == 0 {
            let new = unsaid.0.into_iter().filter(|one| !warnings.0.contains(one));
            warnings.0.extend(new.collect::<Vec<_>>());
        }
        let results = results.get_or_insert_with(|| empty(&sides, &fields, chosen, requests));
        let runners = [0, 1].map(|side| fields[side].runner(chosen[side]));
        let key = DrawKey {
            seed: base.seed,
            domain: Domain::Traffic,
            replicate,
        };
        let mut sums = pair.replicate(runners, key, requests, tick, stop);
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped::Interrupted(None));
        }
        for (side, contestant) in results.contestants.iter_mut().enumerate() {
            contestant.tallies.push(sums.tallies[side].clone());
            contestant.pairs[0].push(sums.pairs[side].clone());
        }
        let own = std::mem::replace(&mut sums.segments, Segments::new(2, 1));
        segments.push(own);
        all = Some(match all {
            Some(before) => before.merge(sums),
            None => sums,
        });
    }
    let (Some(mut results), Some(sums)) = (results, all) else {
        return Err(Stopped::Failed("there is nothing to run".to_owned()));
    };
    let names = (
        base.workload.tasks.as_slice(),
        base.workload.tenants.as_slice(),
    );
    match segments.finish(names, (2, 1)) {
        Ok(segments) => results.segments = segments,
        Err(why) => results.notes.push(why),
    }
    Ok(pair.told(results, sums))
}

/// The contestant of this name.
fn find(field: &Field, name: &str) -> Result<usize, Diagnostics> {
    let runs = |runner: &Runner| matches!(runner, Runner::Policy { .. });
    let known = || {
        let entrants = field.names().zip(field.runners());
        entrants
            .filter(|(_, runner)| runs(runner))
            .map(|(known, _)| known)
    };
    let found = field.names().zip(field.runners());
    let found = found
        .enumerate()
        .find(|(_, (known, runner))| *known == name && runs(runner));
    found.map(|(index, _)| index).ok_or_else(|| {
        let error = Diagnostic::error(format!("there is no policy `{name}` that sends requests"));
        Diagnostics(vec![match nearest(name, known()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help(format!("there is {}", describe_list(known()))),
        }])
    })
}

/// Results that hold nothing yet.
fn empty(sides: &[Side<'_>; 2], fields: &[Field; 2], chosen: [usize; 2], requests: u64) -> Results {
    let [base, head] = sides.map(|side| side.experiment);
    let workload = base.workload;
    let contestants = (0..2).map(|side| Contestant {
        name: sides[side].called.to_owned(),
        control: false,
        always: None,
        ..fields[side].contestants(1).swap_remove(chosen[side])
    });
    let days = [base, head].map(|side| side.catalogue.priced_on());
    let mut days: Vec<String> = days
        .into_iter()
        .flatten()
        .flat_map(|(first, last)| [first, last])
        .collect();
    days.sort();
    Results {
        routes: Names::of(base.catalogue, head.catalogue).all,
        workload: workload.name.clone(),
        evidence: if workload.is_recorded() {
            Evidence::Paired
        } else {
            Evidence::Simulated
        },
        requests,
        replicates: u64::from(base.replicates.max(1)),
        shared_rows: workload.is_recorded(),
        baselines: vec![0],
        contestants: contestants.collect(),
        cluster: None,
        priced_on: days.first().cloned().zip(days.last().cloned()),
        timetable: None,
        segments: Vec::new(),
        notes: workload.notes().to_vec(),
    }
}

/// What is added up.
struct Sums {
    tallies: [Tally; 2],
    /// Each side against the first.
    pairs: [PairTally; 2],
    /// By places of the two routes.
    moves: BTreeMap<(u16, u16), u64>,
    /// By tenant, data class and place of the route: how many, and the first one's number.
    violations: BTreeMap<(u16, u16, u16), (u64, u64)>,
    determined: u64,
    requests: u64,
    strayed: u64,
    bound: u64,
    segments: Segments,
}

impl Sums {
    fn new(routes: usize) -> Self {
        let tally = Tally {
            final_count: vec![0; routes],
            ..Tally::default()
        };
        Self {
            tallies: [tally.clone(), tally],
            pairs: Default::default(),
            moves: BTreeMap::new(),
            violations: BTreeMap::new(),
            determined: 0,
            requests: 0,
            strayed: 0,
            bound: 0,
            segments: Segments::new(2, 1),
        }
    }

    fn merge(mut self, other: Self) -> Self {
        for side in 0..2 {
            self.tallies[side].merge(&other.tallies[side]);
            self.pairs[side].merge(&other.pairs[side]);
        }
        for (key, requests) in other.moves {
            *self.moves.entry(key).or_default() += requests;
        }
        for (key, (requests, first)) in other.violations {
            let entry = self.violations.entry(key).or_insert((0, first));
            *entry = (entry.0 + requests, entry.1.min(first));
        }
        self.determined += other.determined;
        self.requests += other.requests;
        self.strayed += other.strayed;
        self.bound += other.bound;
        self.segments = self.segments.merge(other.segments);
        self
    }
}

/// Both sides.
struct Pair<'a> {
    worlds: &'a [World<'a>; 2],
    names: Names,
    allowed: Allowed,
}

/// What one worker needs of a side.
struct Half {
    runner: Runner,
    router: Router,
    outcomes: Outcomes,
    requirement: Vec<Requirement>,
    column: Column,
}

/// Hears where a request is sent.
#[derive(Default)]
struct Called(Vec<RouteId>);

impl Log for Called {
    fn attempt(&mut self, route: RouteId, _attempt: u8, _now: Instant) {
        if !self.0.contains(&route) {
            self.0.push(route);
        }
    }
}

impl Watch for Called {
    fn judge(&mut self, judge: RouteId, _judged: RouteId, cost: Option<u64>) {
        if cost.is_some() && !self.0.contains(&judge) {
            self.0.push(judge);
        }
    }
}

impl Pair<'_> {
    fn replicate(
        &self,
        runners: [&Runner; 2],
        key: DrawKey,
        requests: u64,
        tick: &(dyn Fn(u64) + Sync),
        stop: &AtomicBool,
    ) -> Sums {
        let halves = || {
            [0, 1].map(|side: usize| Half {
                runner: runners[side].fork(),
                router: self.worlds[side].catalogue.router(),
                outcomes: Outcomes::default(),
                requirement: Vec::new(),
                column: Column::default(),
            })
        };
        let chunk = |halves: &mut [Half; 2], index: u64| {
            let first = index * CHUNK;
            let len = CHUNK.min(requests - first);
            let mut sums = self.sums();
            if !stop.load(Ordering::Relaxed) {
                self.chunk(halves, key, first, len, &mut sums);
                tick(len);
            }
            sums
        };
        let chunks = 0..requests.div_ceil(CHUNK);
        if runners.iter().any(|runner| runner.stateful()) {
            let mut halves = halves();
            return chunks.fold(self.sums(), |sums, index| {
                sums.merge(chunk(&mut halves, index))
            });
        }
        chunks
            .into_par_iter()
            .map(|index| chunk(&mut halves(), index))
            .reduce(|| self.sums(), Sums::merge)
    }

    fn sums(&self) -> Sums {
        Sums::new(self.names.all.len())
    }

    fn chunk(&self, halves: &mut [Half; 2], key: DrawKey, first: u64, len: u64, sums: &mut Sums) {
        let mut batch = Batch::default();
        for half in halves.iter_mut() {
            if !half.runner.stateful() {
                half.router.reset();
            }
        }
        let mut done = 0;
        while done < len {
            let slice = SLICE.min(len - done);
            let workload = self.worlds[0].workload;
            workload.fill(key, first + done, slice as usize, &mut batch);
            self.slice(halves, &batch, key, first + done, sums);
            done += slice;
        }
    }

    fn slice(
        &self,
        halves: &mut [Half; 2],
        batch: &Batch,
        key: DrawKey,
        first: u64,
        sums: &mut Sums,
    ) {
        let mut strayed = Vec::new();
        for (side, half) in halves.iter_mut().enumerate() {
            let stray = (side == 1).then_some(&mut strayed);
            self.half(
                side,
                half,
                batch,
                key,
                first,
                &mut sums.tallies[side],
                stray,
            );
        }
        let [base, head] = halves;
        for (one, other) in base.column.outcomes().iter().zip(head.column.outcomes()) {
            let known = |outcome: &Outcome| outcome.flags() & flag::UNDETERMINED == 0;
            if known(one) && known(other) {
                sums.determined += 1;
                if one.route() != other.route() {
                    *sums.moves.entry((one.route(), other.route())).or_default() += 1;
                }
            }
        }
        let mut before = None;
        for (i, route) in strayed {
            // They come request by request.
            sums.strayed += u64::from(before.replace(i) != Some(i));
            let place = self.names.place[1][usize::from(route.0)];
            let key = (batch.tenant[i], batch.data_class[i], place);
            let number = first + i as u64;
            let entry = sums.violations.entry(key).or_insert((0, number));
            *entry = (entry.0 + 1, entry.1.min(number));
        }
        sums.requests += batch.len as u64;
        let names = batch.tenant[..batch.len].iter().zip(&batch.data_class);
        let binds = |need: Requirement| need.local_only || need.residency != Regions::ALL;
        let bound =
            names.filter(|(tenant, class)| binds(self.worlds[0].requirement(**tenant, **class)));
        sums.bound += bound.count() as u64;
        base.column.settle();
        head.column.settle();
        tallying::add_pairs(&mut sums.pairs[0], &base.column, &base.column);
        tallying::add_pairs(&mut sums.pairs[1], &head.column, &base.column);
        sums.segments
            .add(batch, &[&base.column, &head.column], &[0]);
    }

    /// Lets one side decide about a slice. `strayed` gets the requests that were sent where the first side's
    /// rules do not let them go, with the routes.
    fn half(
        &self,
        side: usize,
        half: &mut Half,
        batch: &Batch,
        key: DrawKey,
        first: u64,
        tally: &mut Tally,
        mut strayed: Option<&mut Vec<(usize, RouteId)>>,
    ) {
        let world = &self.worlds[side];
        let Half {
            runner,
            router,
            outcomes: view,
            requirement,
            column,
        } = half;
        let Runner::Policy {
            per_fold,
            verifiers,
        } = runner
        else {
            return;
        };
        let asks = world.asks(batch, key.replicate, requirement);
        view.fill(batch, &world.world, &world.prices);
        let answering = Answering {
            outcomes: view,
            verifiers,
            batch,
            world,
        };
        let learns = per_fold.iter().any(|policy| policy.stateful());
        let folds = world.workload.folds() > 1;
        let last = per_fold.len() - 1;
        let (mut counts, mut unseen) = (Verified::default(), Verified::default());
        let mut unpriced = 0;
        let outcomes = column.begin_outcomes();
        for i in 0..asks.len() {
            let number = first + i as u64;
            let fold = if folds {
                usize::from(world.workload.fold(number)).min(last)
            } else {
                0
            };
            let ask = asks.get(i);
            tally.unknown_need += u64::from(ask.need.input_tokens == Tokens::UNKNOWN);
            let decision = per_fold[fold].plan(&ask);
            let jitter = jitter(ask.word);
            let mut called = Called::default();
            let mut go = |plan, counts: &mut Verified, jitter| {
                drive::call(
                    router,
                    &answering,
                    counts,
                    plan,
                    ask.need,
                    jitter,
                    i,
                    &mut called,
                )
            };
            let outcome = go(decision.serve, &mut counts, jitter);
            let copy = decision.mirror.map(|plan| go(plan, &mut unseen, !jitter));
            // By the names that both sides share.
            let route = match outcome.route() {
                NO_ROUTE => NO_ROUTE,
                route => self.names.place[side][usize::from(route)],
            };
            let (calls, flags) = (outcome.calls(), outcome.flags());
            outcomes.push(Outcome::new(
                outcome.cost,
                outcome.grade(),
                route,
                calls,
                flags,
            ));
            if learns {
                let (at, latency) = (Instant::ZERO, Duration::ZERO);
                drive::tell(
                    per_fold,
                    number,
                    ask.task,
                    decision.why,
                    outcome,
                    at,
                    latency,
                );
            }
            if let Some(copy) = copy {
                unpriced += u64::from(copy.cost == COST_UNKNOWN);
                add_mirror(tally, outcomes.last(), &copy);
            }
            if let Some(strayed) = strayed.as_deref_mut() {
                let need = self.worlds[0].requirement(batch.tenant[i], batch.data_class[i]);
                // Whoever stands further down the plan gets the request as soon as something fails.
                let plans = [Some(decision.serve), decision.mirror];
                for leg in plans.iter().flatten().flat_map(Plan::legs) {
                    if let Target::Route(route) = leg.target
                        && router.eligible(route, &ask.need).is_ok()
                        && !called.0.contains(&route)
                    {
                        called.0.push(route);
                    }
                }
                let barred = |route: &RouteId| !self.allowed.allows(*route, &need);
                strayed.extend(called.0.into_iter().filter(barred).map(|route| (i, route)));
            }
        }
        tally.mirror_costed += asks.len() as u64 - unpriced;
        counts.add_to(tally);
        tallying::add(tally, outcomes);
    }

    /// Rules of the first side for tenants and data classes that no request has.
    fn unused_rules(&self) -> Vec<String> {
        let (catalogue, workload) = (self.worlds[0].catalogue, self.worlds[0].workload);
        let tenants = catalogue.tenants.keys();
        let tenants = tenants.filter(|name| !workload.tenants.contains(name));
        let classes = catalogue.data_classes.keys();
        let classes = classes.filter(|name| !workload.data_classes.contains(name));
        let tenants = tenants.map(|name| format!("tenant.{name}"));
        tenants
            .chain(classes.map(|name| format!("data_class.{name}")))
            .collect()
    }

    /// The sums with the names of what they are about.
    fn told(&self, results: Results, sums: Sums) -> Versus {
        let workload = self.worlds[0].workload;
        // Replicates that share their rows go through the same requests again.
        let again = if results.shared_rows {
            results.replicates
        } else {
            1
        };
        let route = |place: u16| self.names.all.get(usize::from(place)).cloned();
        let name = |names: &[String], index: u16| {
            (index != NO_NAME).then(|| names[usize::from(index)].clone())
        };
        let mut moves: Vec<Move> = sums
            .moves
            .iter()
            .map(|(&(from, to), &requests)| Move {
                from: route(from),
                to: route(to),
                requests: requests.div_ceil(again),
                share: requests as f64 / sums.determined.max(1) as f64,
            })
            .collect();
        moves.sort_by(|a, b| {
            b.requests
                .cmp(&a.requests)
                .then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to)))
        });
        let violations = sums.violations.iter();
        let violations =
            violations.map(|(&(tenant, class, place), &(requests, first))| Violation {
                tenant: name(&workload.tenants, tenant),
                data_class: name(&workload.data_classes, class),
                route: route(place).unwrap_or_default(),
                requests: requests.div_ceil(again),
                example: workload.request_id(first),
            });
        Versus {
            requests: sums.requests / again,
            determined: sums.determined / again,
            moves,
            strayed: sums.strayed.div_ceil(again),
            bound: sums.bound / again,
            unused_rules: self.unused_rules(),
            unknown_routes: self.allowed.unknown(self.worlds[1].catalogue),
            violations: violations.collect(),
            results,
        }
    }
}
