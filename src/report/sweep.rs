//! A sweep: what every point costs and how accurate it is, which points are worth their cost, and how
//! sure that is.
//!
//! Points of one world form one front; the single routes of that world stand beside it for reference and
//! take no place on it, but a point that one of them dominates is named. Nobody chooses between worlds
//! (how correlated errors are, what a token costs), so there is no front across them. How the sureness is
//! computed is in [`Resampled`]; [`Sweep::sheet`] writes everything down, `plot` draws it.

use super::Workload;
use super::compare::{self, Paired};
use super::metrics::PER_1K;
use super::notes;
use super::rows::{self, Row};
use super::sample::{Pooling, draws_once};
use crate::sim::{Blocks, Contestant, Results};
use crate::stats::bootstrap::REPLICATES;
use crate::stats::{Bootstrap, Estimate, HalfWidths, Limits, Resampled, Rule, Tally, UnitSums};
use crate::sweep::Grid;

/// Units that requests are gathered into at most, before they are resampled.
const UNITS_MAX: usize = 200;
/// Most alternatives of a world whose pairs are all compared.
const PAIRED_MAX: usize = 50;

/// What the reader wants to know.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepOptions {
    /// Whom the points are compared with; `None` for the most accurate `always-<route>` over all worlds.
    pub baseline: Option<String>,
    /// How much less accurate a point may be and still count as "not worse": a share.
    pub margin: f64,
    /// Two-sided confidence level of every interval.
    pub level: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// One world of a sweep, measured.
#[derive(Clone, Debug)]
pub struct WorldResults {
    /// The experiment: the policies of [`Grid::policies`] in that order, then whatever else took part.
    pub results: Results,
    /// Its blocks.
    pub blocks: Blocks,
}

/// A position on the plane of cost and accuracy.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// A point's settings in words, or the name of a control.
    pub name: String,
    /// Number of its world.
    pub world: usize,
    /// Share of right answers.
    pub accuracy: Estimate,
    /// USD for a thousand requests.
    pub usd_per_1k: Estimate,
    /// Calls for one request.
    pub calls_per_request: Estimate,
    /// Share of requests nobody answered.
    pub unserved: Estimate,
    /// What to know about these numbers.
    pub notes: Vec<String>,
}

/// Who dominates a point most surely.
#[derive(Clone, Debug, PartialEq)]
pub struct Dominator {
    /// Its name.
    pub name: String,
    /// Share of the draws in which it does; `None` with too few requests to resample.
    pub probability: Option<f64>,
}

/// One point of the sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepPoint {
    /// For each parameter its value.
    pub values: Vec<String>,
    /// Where it stands.
    pub standing: Standing,
    /// The margin of its verdict.
    pub margin: f64,
    /// Against the baseline of its world; `None` if there is none or it is the baseline itself.
    pub paired: Option<Paired>,
    /// Whether no other point of its world dominates it. A single route may: see `dominated_by`.
    pub on_front: bool,
    /// Share of the draws in which that is so; `None` with too few requests to resample.
    pub front_probability: Option<f64>,
    /// The point of the front, or the single route, that dominates it most often, if any does in the
    /// estimates.
    pub dominated_by: Option<Dominator>,
    /// Limits for its accuracy that hold for all points of the sweep at once.
    pub accuracy_band: Option<Limits>,
    /// Limits for its USD per 1,000 that hold for all points of the sweep at once.
    pub usd_per_1k_band: Option<Limits>,
}

/// P(one dominates the other), for two alternatives of one world.
#[derive(Clone, Debug, PartialEq)]
pub struct Dominance {
    /// Number of the world.
    pub world: usize,
    /// Who dominates.
    pub by: String,
    /// Who is dominated.
    pub of: String,
    /// In which share of the draws, above zero.
    pub probability: f64,
}

/// Everything a sweep found.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The policy that was varied, or whose surroundings were.
    pub policy: String,
    /// What was run, with the requests of the smallest world.
    pub workload: Workload,
    /// Requests of the largest world.
    pub requests_max: u64,
    /// The parameters and the points' places.
    pub grid: Grid,
    /// Two-sided confidence level of every interval.
    pub level: f64,
    /// One-sided error rate of a verdict.
    pub alpha: f64,
    /// Whom points are compared with.
    pub baseline: Option<String>,
    /// The points, in the order of the grid.
    pub points: Vec<SweepPoint>,
    /// The single routes of each world.
    pub references: Vec<Standing>,
    /// P(one dominates the other), where a world has few enough alternatives to list all pairs.
    pub dominance: Vec<Dominance>,
    /// What was drawn with repetition, in words, such as `100 blocks of consecutive rows`.
    pub resampled: String,
    /// How many of them there are.
    pub units: usize,
    /// Draws of the bootstrap.
    pub draws: u32,
    /// What has to be known to read the numbers.
    pub notes: Vec<String>,
}

/// Computes everything a sweep says.
///
/// # Errors
///
/// A baseline that is not there, with the nearest name; a world without the policies of the grid.
pub fn sweep(
    grid: &Grid,
    policy: &str,
    worlds: &[WorldResults],
    options: &SweepOptions,
) -> Result<Sweep, String> {
    let Some(first) = worlds.first().filter(|_| worlds.len() == grid.worlds.len()) else {
        return Err("the sweep was not run in all of its worlds".to_owned());
    };
    if worlds
        .iter()
        .any(|world| world.results.contestants.len() < grid.policies.len())
    {
        return Err("the sweep was not run with all of its policies".to_owned());
    }
    let mut found_notes = first.results.notes.clone();
    let baseline = match &options.baseline {
        Some(asked) => Some(asked.clone()),
        None => {
            let pooled = pooled(worlds);
            let (chosen, note) = compare::baseline(&pooled, None)?;
            found_notes.extend(note);
            chosen.map(|chosen| chosen.name(&pooled).to_owned())
        }
    };
    let alternatives = Alternatives::of(grid, worlds);
    let units = gather(&alternatives, worlds);
    let bootstrap = Bootstrap {
        seed: options.seed,
        replicates: REPLICATES,
    };
    let resampled = Resampled::new(&units.sums, &bootstrap);
    let swept: Vec<usize> = (0..alternatives.all.len())
        .filter(|&index| alternatives.all[index].policy.is_some())
        .collect();
    let bands = resampled.band(&swept, options.level);
    let mut fronts: Vec<Option<Placed>> = vec![None; alternatives.all.len()];
    let mut dominance = Vec::new();
    for world in 0..worlds.len() {
        place(&alternatives, world, &resampled, &mut fronts);
        dominance.extend(pairs(&alternatives, world, &resampled));
    }
    for (member, band) in swept.iter().zip(bands) {
        if let Some(placed) = &mut fronts[*member] {
            placed.band = band;
        }
    }
    let rows: Vec<Row> = alternatives
        .all
        .iter()
        .map(|one| {
            let results = &worlds[one.world].results;
            let contestant = &results.contestants[one.contestant];
            let total = Tally::total(&contestant.tallies);
            let mut row = rows::row(
                results,
                contestant,
                &total,
                &pooling(results, options.level),
                (Rule::Tango, options.margin),
            );
            row.policy.clone_from(&one.name);
            row
        })
        .collect();
    let standings: Vec<Standing> = alternatives
        .all
        .iter()
        .zip(&rows)
        .map(|(one, row)| standing(one, row))
        .collect();
    let mut differences = Differences::default();
    let mut points = Vec::with_capacity(grid.points.len());
    for point in &grid.points {
        let margin = grid.margin(point, options.margin);
        let results = &worlds[point.world].results;
        let index = alternatives.index(point.world, point.policy);
        let contestant = &results.contestants[point.policy];
        let paired = match &baseline {
            Some(name) => differences.of(results, point.world, name, margin, options.level)?,
            None => &[],
        };
        let paired = paired.iter().find(|one| one.policy == contestant.name);
        let placed = fronts[index].clone().unwrap_or_default();
        let standing = standings[index].clone();
        let values = grid.parameters.iter().zip(&point.values);
        points.push(SweepPoint {
            values: values
                .map(|(one, value)| one.values[*value].clone())
                .collect(),
            margin,
            paired: paired.cloned(),
            on_front: placed.on,
            front_probability: placed.probability,
            dominated_by: placed.dominated_by,
            accuracy_band: around(&standing.accuracy, placed.band.score, 1e6, 1.0),
            usd_per_1k_band: around(
                &standing.usd_per_1k,
                placed.band.cost,
                PER_1K,
                f64::INFINITY,
            ),
            standing,
        });
    }
    found_notes.extend(gathered(grid, &alternatives, rows, &points));
    let results = &first.results;
    let requests = || worlds.iter().map(|world| world.results.requests);
    Ok(Sweep {
        policy: policy.to_owned(),
        workload: Workload {
            name: results.workload.clone(),
            requests: requests().min().unwrap_or(results.requests),
            replicates: results.replicates,
            shared_rows: results.shared_rows,
            evidence: results.evidence,
        },
        requests_max: requests().max().unwrap_or(results.requests),
        grid: grid.clone(),
        level: options.level,
        alpha: ((1.0 - options.level) / 2.0 * 1e12).round() / 1e12,
        baseline,
        points,
        references: alternatives
            .all
            .iter()
            .zip(standings)
            .filter_map(|(one, standing)| one.policy.is_none().then_some(standing))
            .collect(),
        dominance,
        resampled: units.in_words,
        units: units.count,
        draws: REPLICATES,
        notes: found_notes,
    })
}

fn pooling(results: &Results, level: f64) -> Pooling {
    Pooling {
        replicates: results.replicates.max(1),
        shared_rows: results.shared_rows,
        level,
    }
}

/// The first world's results with the tallies of the others' contestants of the same name added: what
/// the default baseline is chosen by.
fn pooled(worlds: &[WorldResults]) -> Results {
    let mut pooled = worlds[0].results.clone();
    for contestant in &mut pooled.contestants {
        for world in &worlds[1..] {
            let same = |one: &&Contestant| one.name == contestant.name;
            if let Some(other) = world.results.contestants.iter().find(same) {
                contestant.tallies.extend(other.tallies.iter().cloned());
            }
        }
    }
    pooled
}

/// A policy or a single route of one world.
struct Alternative {
    world: usize,
    contestant: usize,
    /// Its number in the grid, if it is swept.
    policy: Option<usize>,
    name: String,
}

/// Everybody who has a place on the plane: world by world the policies, then the single routes.
struct Alternatives {
    all: Vec<Alternative>,
    /// By world: where it begins.
    starts: Vec<usize>,
}

impl Alternatives {
    fn of(grid: &Grid, worlds: &[WorldResults]) -> Self {
        let (mut all, mut starts) = (Vec::new(), Vec::new());
        for (world, measured) in worlds.iter().enumerate() {
            starts.push(all.len());
            let contestants = measured.results.contestants.iter().enumerate();
            for (index, contestant) in contestants {
                let swept = index < grid.policies.len();
                if swept || (contestant.always.is_some() && contestant.unavailable.is_none()) {
                    let name = if swept && !grid.policies[index].is_empty() {
                        grid.in_words(&grid.policies[index])
                    } else {
                        contestant.name.clone()
                    };
                    all.push(Alternative {
                        world,
                        contestant: index,
                        policy: swept.then_some(index),
                        name,
                    });
                }
            }
        }
        Self { all, starts }
    }

    fn index(&self, world: usize, policy: usize) -> usize {
        self.starts[world] + policy
    }

    fn of_world(&self, world: usize) -> std::ops::Range<usize> {
        let end = self.starts.get(world + 1).copied();
        self.starts[world]..end.unwrap_or(self.all.len())
    }
}

/// What is drawn with repetition.
struct Units {
    sums: Vec<Vec<UnitSums>>,
    count: usize,
    in_words: String,
}

/// The sums of all alternatives on the same units: replicates where one draw of a policy stands behind a
/// whole replicate, else blocks of requests.
fn gather(alternatives: &Alternatives, worlds: &[WorldResults]) -> Units {
    let first = &worlds[0].results;
    let whole_replicates = !first.shared_rows
        && first.replicates > 1
        && alternatives.all.iter().any(|one| {
            let contestant = &worlds[one.world].results.contestants[one.contestant];
            one.policy.is_some() && draws_once(contestant)
        });
    let sums: Vec<Vec<UnitSums>> = alternatives
        .all
        .iter()
        .map(|one| {
            let replicates = &worlds[one.world].blocks.of[one.contestant];
            let units: Vec<UnitSums> = if first.shared_rows {
                // Replicates share the rows: the sums of a block of rows are those of all of them.
                let blocks = replicates.iter().map(Vec::len).min().unwrap_or(0);
                (0..blocks)
                    .map(|block| merged(replicates.iter().map(|blocks| &blocks[block])))
                    .collect()
            } else if whole_replicates {
                replicates.iter().map(merged).collect()
            } else {
                replicates.iter().flatten().copied().collect()
            };
            fewer(units)
        })
        .collect();
    let count = sums.iter().map(Vec::len).min().unwrap_or(0);
    let what = if first.shared_rows {
        "blocks of consecutive rows"
    } else if whole_replicates {
        "replicates (the requests of one share a training, a draw for their user, or a rollout)"
    } else {
        "blocks of consecutive requests"
    };
    Units {
        sums,
        count,
        in_words: format!("{count} {what}"),
    }
}

pub(super) fn merged<'a>(units: impl IntoIterator<Item = &'a UnitSums>) -> UnitSums {
    let mut total = UnitSums::default();
    for unit in units {
        total.merge(unit);
    }
    total
}

/// At most [`UNITS_MAX`] units, of neighbours.
pub(super) fn fewer(units: Vec<UnitSums>) -> Vec<UnitSums> {
    if units.len() <= UNITS_MAX {
        return units;
    }
    let start = |group: usize| units.len() * group / UNITS_MAX;
    (0..UNITS_MAX)
        .map(|group| merged(&units[start(group)..start(group + 1)]))
        .collect()
}

/// Where the bootstrap places an alternative.
#[derive(Clone, Debug, Default)]
struct Placed {
    on: bool,
    probability: Option<f64>,
    dominated_by: Option<Dominator>,
    band: HalfWidths,
}

/// The front of one world.
fn place(
    alternatives: &Alternatives,
    world: usize,
    resampled: &Resampled,
    into: &mut [Option<Placed>],
) {
    let here = alternatives.of_world(world);
    let (swept, references): (Vec<usize>, Vec<usize>) =
        here.partition(|&index| alternatives.all[index].policy.is_some());
    let front = resampled.front(&swept);
    let on: Vec<usize> = swept
        .iter()
        .zip(&front)
        .filter_map(|(&member, (on, _))| on.then_some(member))
        .collect();
    for (&member, (is_on, probability)) in swept.iter().zip(front) {
        let mut dominated_by: Option<Dominator> = None;
        let Some(me) = resampled.estimate(member) else {
            into[member] = Some(Placed::default());
            continue;
        };
        for &other in on.iter().chain(&references) {
            if !resampled.estimate(other).is_some_and(|at| at.dominates(me)) {
                continue;
            }
            let probability = resampled.dominates(other, member);
            if dominated_by
                .as_ref()
                .is_none_or(|known| probability > known.probability)
            {
                dominated_by = Some(Dominator {
                    name: alternatives.all[other].name.clone(),
                    probability,
                });
            }
        }
        into[member] = Some(Placed {
            on: is_on,
            probability,
            dominated_by,
            band: HalfWidths::default(),
        });
    }
}

/// P(A dominates B) for all pairs of a world that is small enough.
fn pairs(alternatives: &Alternatives, world: usize, resampled: &Resampled) -> Vec<Dominance> {
    let here = alternatives.of_world(world);
    if here.len() > PAIRED_MAX {
        return Vec::new();
    }
    let name = |index: usize| alternatives.all[index].name.clone();
    here.clone()
        .flat_map(|by| here.clone().map(move |of| (by, of)))
        .filter_map(|(by, of)| {
            let probability = resampled.dominates(by, of).filter(|share| *share > 0.0)?;
            Some(Dominance {
                world,
                by: name(by),
                of: name(of),
                probability,
            })
        })
        .collect()
}

fn standing(one: &Alternative, row: &Row) -> Standing {
    let unknown = || Estimate::unknown(row.metrics.first().map_or(0.95, |first| first.level));
    let estimate = |name: &str| row.metric(name).cloned().unwrap_or_else(unknown);
    Standing {
        name: one.name.clone(),
        world: one.world,
        accuracy: estimate("accuracy"),
        usd_per_1k: estimate("usd_per_1k"),
        calls_per_request: estimate("calls_per_request"),
        unserved: estimate("unserved"),
        notes: row.notes.clone(),
    }
}

/// What several points have to say for themselves, each said once.
fn gathered(
    grid: &Grid,
    alternatives: &Alternatives,
    rows: Vec<Row>,
    points: &[SweepPoint],
) -> Vec<String> {
    let in_world = |name: &str, world: usize| match grid.in_words(&grid.worlds[world]) {
        words if words.is_empty() => name.to_owned(),
        words => format!("{name} ({words})"),
    };
    let swept: Vec<Row> = alternatives
        .all
        .iter()
        .zip(rows)
        .filter(|(one, _)| one.policy.is_some())
        .map(|(one, mut row)| {
            row.policy = in_world(&row.policy, one.world);
            row
        })
        .collect();
    let paired: Vec<Paired> = points
        .iter()
        .filter_map(|point| {
            let mut paired = point.paired.clone()?;
            paired.policy = in_world(&point.standing.name, point.standing.world);
            Some(paired)
        })
        .collect();
    notes::gathered(&swept, &paired)
}

/// The band of half width `half` in units of the sums; `None` where the draws do not differ.
fn around(estimate: &Estimate, half: Option<f64>, unit: f64, high: f64) -> Option<Limits> {
    Some(Limits::around(estimate.value?, half? / unit).clipped(0.0, high))
}

/// Comparisons with the baseline, computed once for each world and margin.
#[derive(Default)]
struct Differences(Vec<(usize, f64, Vec<Paired>)>);

impl Differences {
    fn of(
        &mut self,
        results: &Results,
        world: usize,
        baseline: &str,
        margin: f64,
        level: f64,
    ) -> Result<&[Paired], String> {
        let known = |(w, m, _): &(usize, f64, Vec<Paired>)| *w == world && *m == margin;
        let at = match self.0.iter().position(known) {
            Some(at) => at,
            None => {
                let (chosen, _) = compare::baseline(results, Some(baseline))?;
                let paired = chosen.map_or_else(Vec::new, |chosen| {
                    let test = compare::Test {
                        margin,
                        alpha: (1.0 - level) / 2.0,
                        bootstrap: None,
                    };
                    compare::paired(results, chosen, &pooling(results, level), &test).0
                });
                self.0.push((world, margin, paired));
                self.0.len() - 1
            }
        };
        Ok(&self.0[at].2)
    }
}
