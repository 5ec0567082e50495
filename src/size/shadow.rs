//! How many mirrored pairs it takes to promote a candidate that is not worse by more than a margin.
//!
//! The candidate answers a copy of some requests. Of each copy that is graded for both routes, one of
//! four things is seen: both right, only the candidate, only the primary, both wrong. A [`Truth`] says
//! how likely each is; a [`ShadowPlan`] says by which rule and with how many pairs is decided; the
//! probability of each decision is then a finite sum, and [`ShadowPlan::size`] computes it.

use rayon::prelude::*;
use serde::Serialize;

use super::peeking::{self, Peeked};
use super::rehearsal::Rehearsed;
use crate::catalogue::Catalogue;
use crate::source::Diagnostic;
use crate::stats::{
    Criterion, Grader, Joint, PairsNeeded, Rule, approximate_pairs_needed, pairs_needed,
    promotion_probability, smallest_margin, type_one_error_max,
};
use crate::units::Price;
use crate::workload::{BATCH, Batch, Domain, DrawKey, Terms, Workload};

/// Where the probabilities of a [`Truth`] come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The exact expectation of a synthetic world.
    Simulated,
    /// Shares of recorded pairs: estimates, with the error that their number leaves.
    Recorded,
    /// Given by the user.
    Given,
}

/// What pairs of answers are like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Truth {
    /// The task, or what the pairs are of.
    pub task: String,
    /// The candidate route.
    pub candidate: String,
    /// The route it would replace.
    pub primary: String,
    /// How likely each of the four outcomes of a pair is, as a perfect grader sees it.
    pub joint: Joint,
    /// Share of all requests that can be mirrored for this pair: those of the task.
    pub share: f64,
    /// Mean cost of one mirrored call of the candidate, in USD; `None` if a price is unknown.
    pub usd_per_mirror: Option<f64>,
    /// Pairs behind `joint`, if it was recorded.
    pub pairs: Option<u64>,
    /// Recorded requests that lack a grade of one of the two.
    pub ungraded: Option<u64>,
    /// Where it comes from.
    pub origin: Origin,
}

/// How copies are made and graded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mirroring {
    /// Requests a day, over all tasks.
    pub requests_per_day: f64,
    /// Share of the task's requests that the candidate gets a copy of, above 0.
    pub mirror_share: f64,
    /// Share of the mirrored pairs whose two answers are graded, above 0.
    pub graded_share: f64,
    /// Days from an answer to its grade.
    pub label_delay_days: f64,
    /// Cost of grading one answer, in USD: a pair has two. `None` if nobody said.
    pub usd_per_grade: Option<f64>,
}

/// What `n` graded pairs take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Campaign {
    /// Pairs that are graded.
    pub graded_pairs: u64,
    /// Pairs that are mirrored for it.
    pub mirrored_pairs: u64,
    /// Days until the last of them has its grade; `None` without a number of requests a day.
    pub days: Option<f64>,
    /// Cost of the candidate's mirrored calls in USD; `None` if a price is unknown.
    pub mirror_usd: Option<f64>,
    /// Cost of grading in USD; `None` if nobody said what a grade costs.
    pub grading_usd: Option<f64>,
}

impl Mirroring {
    /// What `graded_pairs` take. Expected numbers, rounded up: shares are chances, not quotas.
    #[must_use]
    pub fn campaign(&self, truth: &Truth, graded_pairs: u64, traffic_known: bool) -> Campaign {
        let mirrored = (graded_pairs as f64 / self.graded_share).ceil();
        let per_day = self.requests_per_day * truth.share * self.mirror_share;
        Campaign {
            graded_pairs,
            mirrored_pairs: mirrored as u64,
            days: (traffic_known && per_day > 0.0)
                .then(|| mirrored / per_day + self.label_delay_days),
            mirror_usd: truth.usd_per_mirror.map(|usd| usd * mirrored),
            grading_usd: self
                .usd_per_grade
                .map(|usd| 2.0 * usd * graded_pairs as f64),
        }
    }

    /// Graded pairs that are to be expected within `days`.
    #[must_use]
    pub fn pairs_within(&self, truth: &Truth, days: f64) -> u64 {
        let mirroring_days = (days - self.label_delay_days).max(0.0);
        let pairs = mirroring_days
            * self.requests_per_day
            * truth.share
            * self.mirror_share
            * self.graded_share;
        // A float-to-integer `as` saturates.
        pairs.floor() as u64
    }
}

/// A question about promotion.
#[derive(Clone, Debug)]
pub struct ShadowPlan {
    /// Rules to compare; the first is the one that is planned with.
    pub rules: Vec<Rule>,
    /// How much worse the candidate may be, and how sure that has to be.
    pub criterion: Criterion,
    /// Numbers of pairs to tabulate.
    pub pairs: Vec<u64>,
    /// Chances of promotion to plan for, such as 0.8.
    pub powers: Vec<f64>,
    /// Numbers of pairs for which the smallest margin is asked, by truth; empty if nobody asked.
    pub certify: Vec<u64>,
    /// Who grades; `None` for one that never errs.
    pub grader: Option<Grader>,
    /// How copies are made and graded.
    pub mirroring: Mirroring,
    /// Whether the number of requests a day was given.
    pub traffic_known: bool,
    /// Looks at every so many pairs up to a horizon, if somebody means to peek.
    pub peek: Option<(u64, u64)>,
}

/// P(promote) of one truth by one rule at one n.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Index into the truths.
    pub truth: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// Graded pairs.
    pub n: u64,
    /// Exact probability that the rule promotes.
    pub promote: f64,
    /// With an imperfect grader: what the rule would do if its margin were not corrected.
    pub promote_uncorrected: Option<f64>,
}

/// The highest chance of promoting a candidate that is worse by exactly the margin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeOne {
    /// The rule's name.
    pub rule: &'static str,
    /// Graded pairs.
    pub n: u64,
    /// The highest chance over all shares of disagreement.
    pub error: f64,
    /// The share of disagreement at which it is reached.
    pub disagreement: f64,
}

/// Pairs that give a chance of promotion.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Needed {
    /// Index into the truths.
    pub truth: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// The chance asked for.
    pub power: f64,
    /// The normal approximation, where it is too large for the exact search: 200,000 pairs, 1,500 for
    /// Newcombe's rules, 700 for the exact unconditional one.
    pub about: Option<u64>,
    /// The first n that gives it; `None` if no n does, or it was not searched for.
    pub first: Option<u64>,
    /// The n from which the chance stays above: the one to plan with.
    pub settled: Option<u64>,
    /// What the settled n takes.
    pub campaign: Option<Campaign>,
}

/// The smallest margin that a number of pairs can certify.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certified {
    /// Index into the truths.
    pub truth: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// Graded pairs.
    pub n: u64,
    /// The chance asked for.
    pub power: f64,
    /// The smallest margin at which the rule promotes with that chance, and at which n pairs that all
    /// agree would be evidence at all, (1 − margin)ⁿ ≤ α; `None` if none below 1 does.
    pub margin: Option<f64>,
}

/// Everything that was computed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShadowSizing {
    /// The question's margin.
    pub margin: f64,
    /// Normal quantile of the rules.
    pub z: f64,
    /// One-sided error that it stands for.
    pub alpha: f64,
    /// Sensitivity and specificity, if the grader errs.
    pub grader: Option<Grader>,
    /// The margin on the grader's scale.
    pub graded_margin: f64,
    /// What pairs are like.
    pub truths: Vec<Truth>,
    /// P(promote).
    pub cells: Vec<Cell>,
    /// Error at the margin.
    pub type_one: Vec<TypeOne>,
    /// Sizes.
    pub needed: Vec<Needed>,
    /// The other direction.
    pub certified: Vec<Certified>,
    /// Several looks.
    pub peeked: Vec<Peeked>,
    /// The same played through the simulation, if it was.
    pub rehearsed: Vec<Rehearsed>,
}

/// Most pairs among which the number needed is searched for exactly; more would take long.
fn searched_max(rule: Rule) -> u64 {
    match rule {
        Rule::ExactUnconditional => 700,
        rule if rule.looks_at_agreement() => 1_500,
        _ => 200_000,
    }
}

impl ShadowPlan {
    /// The margin below which `n` pairs that all agree are no evidence: 1 − α^(1/n). Wald's rule, whose
    /// standard error is 0 there, knows no such bound.
    fn evident(&self, n: u64) -> f64 {
        -libm::expm1(libm::log(self.criterion.alpha()) / n as f64)
    }

    /// Computes everything the plan asks of these truths. Exact sums, the same at any number of threads.
    ///
    /// A number that its rule cannot give (the exact unconditional rule has no cutoff for large n) is
    /// left out.
    #[must_use]
    pub fn size(&self, truths: Vec<Truth>) -> ShadowSizing {
        let graded = match self.grader {
            Some(grader) => grader.corrected(self.criterion),
            None => Some(self.criterion),
        }
        .unwrap_or(self.criterion);
        let seen = |truth: &Truth| match self.grader {
            Some(grader) => grader.graded(truth.joint),
            None => truth.joint,
        };
        let cases: Vec<(usize, Rule)> = (0..truths.len())
            .flat_map(|truth| self.rules.iter().map(move |rule| (truth, *rule)))
            .collect();
        let cells = cases
            .par_iter()
            .flat_map_iter(|&(truth, rule)| {
                let joint = seen(&truths[truth]);
                self.pairs.iter().filter_map(move |&n| {
                    Some(Cell {
                        truth,
                        rule: rule.name(),
                        n,
                        promote: promotion_probability(rule, n, joint, graded)?,
                        promote_uncorrected: self
                            .grader
                            .and_then(|_| promotion_probability(rule, n, joint, self.criterion)),
                    })
                })
            })
            .collect();
        let edges: Vec<(Rule, u64)> = self
            .rules
            .iter()
            .flat_map(|rule| self.pairs.iter().map(move |n| (*rule, *n)))
            .filter(|(rule, n)| {
                *n <= if rule.looks_at_agreement() {
                    TYPE_ONE_PAIRS_MAX / 50
                } else {
                    TYPE_ONE_PAIRS_MAX
                }
            })
            .collect();
        let type_one = edges
            .par_iter()
            .filter_map(|&(rule, n)| {
                let worst = type_one_error_max(rule, n, graded, PRIMARY_ACCURACY)?;
                Some(TypeOne {
                    rule: rule.name(),
                    n,
                    error: worst.probability,
                    disagreement: worst.disagreement,
                })
            })
            .collect();
        let asked: Vec<(usize, Rule, f64)> = cases
            .iter()
            .flat_map(|&(truth, rule)| self.powers.iter().map(move |power| (truth, rule, *power)))
            .collect();
        let needed = asked
            .par_iter()
            .map(|&(truth, rule, power)| {
                let joint = seen(&truths[truth]);
                let about = approximate_pairs_needed(joint, graded, power);
                let searched = about.is_some_and(|about| about <= searched_max(rule) as f64);
                let found = if searched {
                    pairs_needed(rule, joint, graded, power)
                } else {
                    None
                };
                Needed {
                    truth,
                    rule: rule.name(),
                    power,
                    // A float-to-integer `as` saturates.
                    about: about.filter(|_| !searched).map(|about| about.ceil() as u64),
                    first: found.map(|found: PairsNeeded| found.first),
                    settled: found.map(|found| found.settled),
                    campaign: found.map(|found| {
                        self.mirroring
                            .campaign(&truths[truth], found.settled, self.traffic_known)
                    }),
                }
            })
            .collect();
        let certified = asked
            .par_iter()
            .filter_map(|&(truth, rule, power)| {
                let n = *self.certify.get(truth)?;
                let found =
                    smallest_margin(rule, n, seen(&truths[truth]), self.criterion.z(), power);
                let attenuation = self.grader.map_or(1.0, Grader::attenuation);
                let margin = found.map(|margin| margin.max(self.evident(n)) / attenuation);
                Some(Certified {
                    truth,
                    rule: rule.name(),
                    n,
                    power,
                    margin: margin.filter(|margin| *margin < 1.0),
                })
            })
            .collect();
        let peeked = match self.peek {
            Some(looks) => peeking::peeked(looks, &self.rules, &truths, &seen, graded),
            None => Vec::new(),
        };
        ShadowSizing {
            margin: self.criterion.margin(),
            z: self.criterion.z(),
            alpha: self.criterion.alpha(),
            grader: self.grader,
            graded_margin: graded.margin(),
            truths,
            cells,
            type_one,
            needed,
            certified,
            peeked,
            rehearsed: Vec::new(),
        }
    }
}

/// Most pairs for which the worst error is searched for: beyond it that takes seconds, and the error is
/// close to alpha. A fiftieth of it for rules that look at agreement, whose sums are longer.
pub const TYPE_ONE_PAIRS_MAX: u64 = 50_000;

/// How often the primary is taken to be right where a table is about no route in particular: only
/// Newcombe's rules look at it.
const PRIMARY_ACCURACY: f64 = 0.9;

/// Pairs of a recorded log: for each task, and for all together if more than one is asked for.
///
/// `candidate` and `primary` are indices of the workload's routes, `tasks` of its tasks; all tasks if
/// empty. A pair counts only if both answers have a grade. Tasks without a pair are left out.
///
/// # Errors
///
/// When a grade is neither right nor wrong, or no request has a grade of both routes.
pub fn recorded_truths(
    workload: &Workload,
    catalogue: Option<&Catalogue>,
    candidate: usize,
    primary: usize,
    tasks: &[usize],
) -> Result<Vec<Truth>, Box<Diagnostic>> {
    if !workload.has_binary_grades() {
        return Err(Box::new(Diagnostic::error(format!(
            "workload `{}` has grades between right and wrong, about which these rules know nothing",
            workload.name
        ))
        .help("round the grades to 0 and 1 first: only you know from which grade on an answer is good enough")));
    }
    let price = catalogue
        .and_then(|catalogue| {
            let route = catalogue.find(&workload.routes[candidate])?;
            Some(&catalogue.routes[usize::from(route.0)])
        })
        .and_then(|route| route.price);
    let wanted = |task: usize| tasks.is_empty() || tasks.contains(&task);
    let mut seen = vec![Seen::default(); workload.tasks.len()];
    let key = DrawKey {
        seed: 0,
        domain: Domain::Traffic,
        replicate: 0,
    };
    let mut batch = Batch::default();
    let mut first = 0;
    while first < workload.len() {
        let size = BATCH.min(usize::try_from(workload.len() - first).unwrap_or(BATCH));
        workload.fill(key, first, size, &mut batch);
        for i in 0..batch.len {
            let seen = &mut seen[usize::from(batch.task[i])];
            let right = |route: usize| batch.grade[route][i].millionths().map(|grade| grade > 0);
            seen.add(
                right(candidate),
                right(primary),
                cost(&batch, candidate, price, i),
            );
        }
        first += batch.len.max(1) as u64;
    }
    let requests: u64 = seen.iter().map(|seen| seen.requests).sum();
    let truth = |task: String, seen: &Seen| {
        let pairs = seen.counts.iter().sum::<u64>();
        let share = |count: u64| count as f64 / pairs as f64;
        let [n11, n10, n01, n00] = seen.counts;
        (pairs > 0).then_some(())?;
        Some(Truth {
            task,
            candidate: workload.routes[candidate].clone(),
            primary: workload.routes[primary].clone(),
            joint: Joint::new(share(n11), share(n10), share(n01), share(n00))?,
            share: seen.requests as f64 / requests as f64,
            usd_per_mirror: (seen.costs > 0)
                .then(|| seen.cost_sum as f64 / seen.costs as f64 / PICO_USD),
            pairs: Some(pairs),
            ungraded: Some(seen.requests - pairs),
            origin: Origin::Recorded,
        })
    };
    let mut truths = Vec::new();
    let mut all = Seen::default();
    for (index, (name, seen)) in workload.tasks.iter().zip(&seen).enumerate() {
        if wanted(index) {
            all.merge(seen);
            truths.extend(truth(name.clone(), seen));
        }
    }
    if truths.len() > 1 && tasks.is_empty() {
        truths.extend(truth(ALL_TASKS.to_owned(), &all));
    }
    if truths.is_empty() {
        return Err(Box::new(Diagnostic::error(format!(
            "no request of `{}` has a grade of both `{}` and `{}`",
            workload.name, workload.routes[candidate], workload.routes[primary]
        ))));
    }
    Ok(truths)
}

/// Pairs of a synthetic world, in exact expectation: for each task, and for all together if more than
/// one is asked for. Requests that do not fit both routes are not mirrored and not pairs.
///
/// Arguments as for [`recorded_truths`].
///
/// # Errors
///
/// Where [`Workload::population`] has none, or nothing fits both routes.
pub fn simulated_truths(
    workload: &Workload,
    catalogue: Option<&Catalogue>,
    candidate: usize,
    primary: usize,
    tasks: &[usize],
) -> Result<Vec<Truth>, Box<Diagnostic>> {
    let terms = match catalogue {
        Some(catalogue) => super::terms(workload, catalogue),
        None => vec![Terms::UNKNOWN; workload.routes.len()],
    };
    let population = workload.population(&terms)?;
    let truth = |name: &str, task: Option<usize>| {
        let chosen = || {
            let all = population.tasks.iter().enumerate();
            all.filter(move |(index, _)| task.is_none_or(|task| task == *index))
                .map(|(_, task)| (task.share, &task.routes[candidate]))
        };
        // A call is made only where the request fits, so the mean is over those.
        let fits: f64 = chosen().map(|(share, route)| share * route.fits).sum();
        let usd = chosen()
            .map(|(share, route)| Some(share * route.usd?))
            .sum::<Option<f64>>();
        Some(Truth {
            task: name.to_owned(),
            candidate: workload.routes[candidate].clone(),
            primary: workload.routes[primary].clone(),
            joint: population.joint(task, candidate, primary)?,
            share: population.fitting(task, candidate, primary)?,
            usd_per_mirror: usd.filter(|_| fits > 0.0).map(|usd| usd / fits),
            pairs: None,
            ungraded: None,
            origin: Origin::Simulated,
        })
    };
    let wanted = |task: &usize| tasks.is_empty() || tasks.contains(task);
    let mut truths: Vec<Truth> = (0..workload.tasks.len())
        .filter(wanted)
        .filter_map(|task| truth(&workload.tasks[task], Some(task)))
        .collect();
    if truths.len() > 1 && tasks.is_empty() {
        truths.extend(truth(ALL_TASKS, None));
    }
    if truths.is_empty() {
        return Err(Box::new(Diagnostic::error(format!(
            "no request of `{}` fits both `{}` and `{}`",
            workload.name, workload.routes[candidate], workload.routes[primary]
        ))));
    }
    Ok(truths)
}

/// What the row of all tasks together is called.
pub(super) const ALL_TASKS: &str = "all tasks";

/// 10⁻¹² USD in one USD.
const PICO_USD: f64 = 1e12;

/// What the candidate's answer to request `i` cost, in 10⁻¹² USD.
fn cost(batch: &Batch, route: usize, price: Option<Price>, i: usize) -> Option<u64> {
    if let Some(costs) = batch.cost.get(route) {
        return costs[i].map(|usd| usd.0);
    }
    let (input, output) = (batch.input_tokens[i].get()?, batch.output(route, i).get()?);
    Some(price?.of(input, output).0)
}

/// What was recorded of one task.
#[derive(Clone, Debug, Default)]
struct Seen {
    requests: u64,
    /// n11, n10, n01, n00.
    counts: [u64; 4],
    costs: u64,
    cost_sum: u128,
}

impl Seen {
    fn add(&mut self, candidate: Option<bool>, primary: Option<bool>, cost: Option<u64>) {
        self.requests += 1;
        if let (Some(candidate), Some(primary)) = (candidate, primary) {
            self.counts[usize::from(!candidate) * 2 + usize::from(!primary)] += 1;
        }
        if let Some(cost) = cost {
            self.costs += 1;
            self.cost_sum += u128::from(cost);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        for (sum, count) in self.counts.iter_mut().zip(other.counts) {
            *sum += count;
        }
        self.costs += other.costs;
        self.cost_sum += other.cost_sum;
    }
}
