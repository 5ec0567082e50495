//! The same comparison for parts of the traffic: each task, each tenant, and each task of each tenant.
//!
//! A policy that is fine on the whole can be bad for somebody. A slice has its own estimates, its own
//! differences and its own verdict; small ones are inconclusive, which is what they are. Verdicts of slices are
//! not adjusted for each other: whoever asks that *all* of them pass (a gate) needs no adjustment (R. L.
//! Berger, *Technometrics* 24, 1982: an intersection–union test at level α has level α), and whoever looks
//! for the one that is best or worst must know that he looks at many.

use std::collections::BTreeMap;

use super::compare::{Against, Baseline, Draft, Test};
use super::metrics::Metric;
use super::sample::{Pooling, draws_once};
use crate::sim::{Results, Segment, SegmentSums};
use crate::stats::{Estimate, NonInferiority, PairTally, SegmentTally, Tally};

/// Pairs with both grades below which a slice is inconclusive whatever its interval says.
///
/// Tango's interval keeps its level on average over what might be true, not for each truth: with a dozen pairs
/// and hardly any disagreement it can be far too sure (R. G. Newcombe, *Statistics in Medicine* 17 (1998)
/// 2635–2650, tabulates paired methods down to n = 10). And a dozen requests are seldom a fair picture of
/// what a tenant sends. Thirty is the usual bound of the textbooks for "large enough"; it is a convention.
pub const SLICE_PAIRS_LEAST: u64 = 30;

/// By what requests are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SliceBy {
    /// The kind of task.
    Task,
    /// Whose requests they are.
    Tenant,
    /// Both at once.
    TaskAndTenant,
}

impl SliceBy {
    /// All of them, from coarse to fine.
    pub const ALL: [Self; 3] = [Self::Task, Self::Tenant, Self::TaskAndTenant];

    /// The word in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Tenant => "tenant",
            Self::TaskAndTenant => "task-and-tenant",
        }
    }
}

/// One part of the traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// By what it was cut.
    pub by: SliceBy,
    /// Its task, unless it is cut by tenant alone.
    pub task: Option<String>,
    /// Its tenant, unless it is cut by task alone; `None` of a slice by tenant are the requests that name none.
    pub tenant: Option<String>,
    /// Its requests, over all replicates unless they share their rows.
    pub requests: u64,
    /// Everybody who takes part, policies first, in the order of [`Findings::rows`](super::Findings::rows) without mixes.
    pub rows: Vec<SliceRow>,
}

/// One policy or control on a slice.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceRow {
    /// Its name.
    pub policy: String,
    /// Whether it is a control.
    pub control: bool,
    /// Mean grade.
    pub accuracy: Estimate,
    /// USD per 1,000 requests.
    pub usd_per_1k: Estimate,
    /// How much more accurate it is than the baseline, a share; `None` for the baseline itself, or if there is none.
    pub accuracy_difference: Option<Estimate>,
    /// Whether it is not worse than the baseline by more than the margin, for this slice alone.
    pub verdict: Option<NonInferiority>,
}

/// What a slice is cut by, and its task and tenant as far as it is cut by them.
type Key<'r> = (SliceBy, Option<&'r str>, Option<&'r str>);

/// Every slice: by task, then by tenant if requests have any, then by both if there are several tasks. Within
/// each the order is that of the segments, which is that of the workload.
pub(super) fn slices(
    results: &Results,
    baseline: Option<Baseline>,
    pooling: &Pooling,
    test: &Test,
) -> Vec<Slice> {
    let segments = &results.segments;
    let has_tenants = segments.iter().any(|one| one.tenant.is_some());
    let several = segments.iter().any(|one| one.task != segments[0].task);
    let mut slices = Vec::new();
    for by in SliceBy::ALL {
        let cut = match by {
            SliceBy::Task => true,
            SliceBy::Tenant => has_tenants,
            SliceBy::TaskAndTenant => has_tenants && several,
        };
        if !cut {
            continue;
        }
        // By what tells a slice from the others, in the order in which segments name it.
        let mut order: Vec<Key<'_>> = Vec::new();
        let mut parts: BTreeMap<Key<'_>, Vec<&Segment>> = BTreeMap::new();
        for segment in segments {
            let task = (by != SliceBy::Tenant).then_some(segment.task.as_str());
            let tenant = segment.tenant.as_deref().filter(|_| by != SliceBy::Task);
            let own = parts.entry((by, task, tenant)).or_insert_with(|| {
                order.push((by, task, tenant));
                Vec::new()
            });
            own.push(segment);
        }
        if by == SliceBy::Tenant {
            order.sort_by_key(|(.., tenant)| place_of(segments, *tenant));
        }
        slices.extend(order.into_iter().filter_map(|key| {
            let parts = parts.get(&key)?;
            Some(slice(key, parts, results, baseline, pooling, test))
        }));
    }
    slices
}

/// What has to be known to read slices.
pub(super) fn note(slices: &[Slice], cluster: Option<&str>) -> Option<String> {
    if slices.is_empty() {
        return None;
    }
    let clusters = cluster.map_or_else(String::new, |unit| {
        format!("; their intervals take requests for independent, not each {unit}, so they may be too narrow")
    });
    Some(format!(
        "verdicts of slices are each at the level of one test, not adjusted for their number: requiring all of them is sound, picking the best or the worst is not; fewer than {SLICE_PAIRS_LEAST} graded pairs are always inconclusive{clusters}"
    ))
}

/// Where a tenant stands: segments are by task first, and a tenant need not be in the first one.
fn place_of(segments: &[Segment], tenant: Option<&str>) -> (bool, usize) {
    let mut names: Vec<&str> = Vec::new();
    for segment in segments {
        if let Some(name) = segment.tenant.as_deref()
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    let place = names.iter().position(|name| Some(*name) == tenant);
    // Those without a tenant come last.
    (place.is_none(), place.unwrap_or(0))
}

fn slice(
    (by, task, tenant): Key<'_>,
    parts: &[&Segment],
    results: &Results,
    baseline: Option<Baseline>,
    pooling: &Pooling,
    test: &Test,
) -> Slice {
    let rows = (0..results.contestants.len()).map(|index| {
        let of: Vec<&SegmentSums> = parts.iter().filter_map(|part| part.of.get(index)).collect();
        row(index, &of, results, baseline, pooling, test)
    });
    let requests = parts.iter().flat_map(|part| &part.requests);
    let pooled = requests.fold(0_u64, |sum, n| sum.saturating_add(*n));
    Slice {
        by,
        task: task.map(str::to_owned),
        tenant: tenant.map(str::to_owned),
        requests: pooling.count(pooled),
        rows: rows.collect(),
    }
}

/// One contestant on the segments `parts`.
fn row(
    index: usize,
    parts: &[&SegmentSums],
    results: &Results,
    baseline: Option<Baseline>,
    pooling: &Pooling,
    test: &Test,
) -> SliceRow {
    let contestant = &results.contestants[index];
    let tallies: Vec<Tally> = (0..contestant.tallies.len())
        .map(|replicate| {
            let mut all = SegmentTally::default();
            for one in parts.iter().filter_map(|part| part.tallies.get(replicate)) {
                all.merge(one);
            }
            all.to_tally()
        })
        .collect();
    let total = Tally::total(&tallies);
    let once = draws_once(contestant);
    let metric = |name: &str| {
        Metric::named(name).map_or_else(
            || Estimate::unknown(pooling.level),
            |metric| metric.estimate(pooling, &total, &tallies, once),
        )
    };
    let against = baseline.filter(|chosen| chosen.contestant != index);
    let draft = against.map(|chosen| {
        let pairs = parts
            .iter()
            .filter_map(|part| part.pairs.get(chosen.pairing));
        let mut replicates = vec![PairTally::default(); contestant.tallies.len()];
        for of in pairs {
            for (all, one) in replicates.iter_mut().zip(of) {
                all.merge(one);
            }
        }
        let against = Against {
            replicates: &replicates,
            pooled: total.requests,
            clusters: None,
            draws_once: once || draws_once(&results.contestants[chosen.contestant]),
        };
        Draft::of(&against, pooling, test)
    });
    let verdict = |draft: &Draft| {
        if pooling.count(draft.total.graded) < SLICE_PAIRS_LEAST {
            NonInferiority::Inconclusive
        } else {
            draft.verdict
        }
    };
    SliceRow {
        policy: contestant.name.clone(),
        control: contestant.control,
        accuracy: metric("accuracy"),
        usd_per_1k: metric("usd_per_1k"),
        verdict: draft.as_ref().map(verdict),
        accuracy_difference: draft.map(|draft| draft.accuracy),
    }
}
