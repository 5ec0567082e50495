//! Single requests worth looking at, with what every policy under test did with them.
//!
//! A reader wants to see where policies differ: on which requests one was right and another wrong, whom nobody
//! served, and what an ordinary request looks like. Which requests those are is read off [`Decisions`]; their
//! stories are then told in one pass over the traffic, not in one for each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::contestants::{Field, Runner};
use super::decisions::{Decided, Decisions};
use super::drive::{Answering, Outcome};
use super::episode::{Scratch, Sums, World, run_chunk};
use super::explain::{UNSERVED, cost_text, grade_text, tell};
use super::{CHUNK, Experiment, Stopped, prepare};
use crate::source::Diagnostics;
use crate::standin::outcome::{COST_UNKNOWN, Outcomes};
use crate::units::Score;
use crate::workload::{Batch, Domain, DrawKey};

/// Some requests and how they were chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// By task, then by number.
    pub of: Vec<Sample>,
    /// How they were chosen, for the reader.
    pub rule: String,
}

/// A request and what became of it under each policy under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its number in replicate 0.
    pub number: u64,
    /// Its id.
    pub request: String,
    /// Its task.
    pub task: String,
    /// Whose it is, if it says so.
    pub tenant: Option<String>,
    /// One for each policy under test, in their order.
    pub stories: Vec<SampleStory>,
}

/// What one policy did with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleStory {
    /// Name of the policy.
    pub policy: String,
    /// Whose answer was served.
    pub route: Option<String>,
    /// Its grade in millionths, if there is one.
    pub grade: Option<u32>,
    /// What the request cost, in 10⁻¹² USD, if that is known.
    pub cost: Option<u64>,
    /// Calls made for it.
    pub calls: u8,
    /// What happened, as `explain` prints it; text from outside is in it as it is.
    pub lines: Vec<String>,
}

/// How much policies differ about a request, from what is most worth a look to what is least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Interest {
    /// Some served a better answer than others.
    Grades,
    /// Somebody left it unserved.
    Unserved,
    /// Different routes answered, equally well.
    Routes,
    /// All did the same.
    Same,
}

impl Interest {
    const ALL: [Self; 4] = [Self::Grades, Self::Unserved, Self::Routes, Self::Same];

    fn of(rows: &[Decided]) -> Self {
        let differ = |of: fn(&Decided) -> Option<u32>| {
            let mut known = rows.iter().filter_map(of);
            let first = known.next();
            known.any(|one| Some(one) != first)
        };
        if differ(|row| row.grade) {
            Self::Grades
        } else if rows.iter().any(|row| row.unserved.is_some()) {
            Self::Unserved
        } else if differ(|row| row.route.map(u32::from)) {
            Self::Routes
        } else {
            Self::Same
        }
    }

    /// The part of a task's places that is kept for it.
    const fn share(self) -> (usize, usize) {
        match self {
            Self::Grades => (1, 2),
            Self::Unserved | Self::Routes => (1, 6),
            Self::Same => (1, 6),
        }
    }
}

/// `count` of the places, evenly spread and in their order.
fn spread(places: &[usize], count: usize) -> Vec<usize> {
    let count = count.min(places.len());
    // The middle of each of `count` equal parts.
    let at = |k: usize| places[(2 * k + 1) * places.len() / (2 * count)];
    (0..count).map(at).collect()
}

/// The places among the kept requests that are chosen: of each task at most `per_task`, and at most `in_all`
/// together.
fn choose(decisions: &Decisions, per_task: usize, in_all: usize) -> Vec<usize> {
    let is_tested = |decided: &[Decided]| -> Vec<Decided> {
        let deciders = decisions.policies.iter().zip(decided);
        deciders
            .filter(|(decider, _)| !decider.control)
            .map(|(_, row)| *row)
            .collect()
    };
    let mut by_task: BTreeMap<u16, BTreeMap<Interest, Vec<usize>>> = BTreeMap::new();
    for (place, request) in decisions.requests.iter().enumerate() {
        let interest = Interest::of(&is_tested(decisions.of_request(place)));
        let kinds = by_task.entry(request.task).or_default();
        kinds.entry(interest).or_default().push(place);
    }
    let per_task = per_task.min(in_all / by_task.len().max(1)).max(1);
    let mut chosen = Vec::new();
    for kinds in by_task.values().take(in_all) {
        let held = |interest: Interest| kinds.get(&interest).map_or(0, Vec::len);
        let mut wanted: BTreeMap<Interest, usize> = Interest::ALL
            .into_iter()
            .map(|interest| {
                let (part, of) = interest.share();
                (interest, (per_task * part / of).min(held(interest)))
            })
            .collect();
        // Places that are left over go to what is most worth a look.
        let mut left = per_task.saturating_sub(wanted.values().sum());
        for (interest, count) in &mut wanted {
            let more = left.min(held(*interest) - *count);
            *count += more;
            left -= more;
        }
        let mut own: Vec<usize> = kinds
            .iter()
            .flat_map(|(interest, places)| spread(places, wanted[interest]))
            .collect();
        own.sort_unstable();
        chosen.extend(own);
    }
    chosen
}

/// Requests of `decisions` that are worth a look: of each task at most `per_task`, and at most `in_all`
/// together (but one at least of each task, as far as `in_all` goes). The experiment is the one that the
/// decisions are of.
///
/// Where requests are independent of each other their stories are those of [`explain`](super::explain()), told in
/// one pass over the traffic; else they say what came of the request in the run, for its steps hang on others.
///
/// # Errors
///
/// Those of [`run`](super::run).
pub fn samples(
    experiment: &Experiment<'_>,
    decisions: &Decisions,
    per_task: usize,
    in_all: usize,
    stop: &AtomicBool,
) -> Result<Samples, Stopped> {
    let chosen = choose(decisions, per_task, in_all);
    let mut of: Vec<Sample> = chosen
        .iter()
        .map(|place| {
            let request = &decisions.requests[*place];
            let named = |names: &[String], index: u16| names.get(usize::from(index)).cloned();
            Sample {
                number: request.number,
                request: request.id.clone(),
                task: named(&decisions.tasks, request.task).unwrap_or_default(),
                tenant: request
                    .tenant
                    .and_then(|index| named(&decisions.tenants, index)),
                stories: Vec::new(),
            }
        })
        .collect();
    if decisions.independent {
        told(experiment, &mut of, stop)?;
    } else {
        for (sample, place) in of.iter_mut().zip(&chosen) {
            sample.stories = recorded(decisions, *place);
        }
    }
    let stories = if decisions.independent {
        ""
    } else {
        "; they met faults or other requests, so what is told is what came of them in the run, not each step"
    };
    let rule = format!(
        "of {}, at most {per_task} of each task and {in_all} in all: half of them where policies under test differ in grade, the rest where somebody left the request unserved, where routes differ, and where all did the same, evenly spread by number{stories}",
        decisions.in_words(),
    );
    Ok(Samples { of, rule })
}

/// Tells the stories of requests that are independent of each other, but for what policies remember.
fn told(
    experiment: &Experiment<'_>,
    samples: &mut [Sample],
    stop: &AtomicBool,
) -> Result<(), Stopped> {
    // Policies do not see each other, so the controls can stay away.
    let experiment = Experiment {
        controls: false,
        baseline: None,
        cluster: None,
        slices: false,
        ..*experiment
    };
    let mut unheard = Diagnostics::default();
    let world = prepare(&experiment, &mut unheard).map_err(Stopped::Invalid)?;
    let field = Field::build(&experiment, &world, 0, &mut unheard);
    let key = DrawKey {
        seed: experiment.seed,
        domain: Domain::Traffic,
        replicate: 0,
    };
    let mut scratch = Scratch::new(&world, &field);
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|at| samples[*at].number);
    let (mut batch, mut requirement, mut outcomes) =
        (Batch::default(), Vec::new(), Outcomes::default());
    let mut seen = 0;
    for at in order {
        let sample = &mut samples[at];
        if field.stateful() {
            let mut sums = Sums::new(&world, field.len(), 0);
            while seen < sample.number && !stop.load(Ordering::Relaxed) {
                let len = CHUNK.min(sample.number - seen);
                run_chunk(&world, &mut scratch, &[], key, seen, len, &mut sums);
                seen += len;
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped::Interrupted(None));
        }
        world.workload.fill(key, sample.number, 1, &mut batch);
        let ask = world.asks(&batch, 0, &mut requirement).get(0);
        outcomes.fill(&batch, &world.world, &world.prices);
        for (policy, runner) in experiment.policies.iter().zip(scratch.runners()) {
            // What is told here is decided again when the pass goes on.
            let Runner::Policy {
                mut per_fold,
                verifiers,
            } = runner.fork()
            else {
                continue;
            };
            let answering = Answering {
                outcomes: &outcomes,
                verifiers: &verifiers,
                batch: &batch,
                world: &world,
            };
            let number = sample.number;
            let (lines, outcome) = tell(
                &world,
                &answering,
                &ask,
                &mut per_fold,
                number,
                &sample.request,
            );
            sample
                .stories
                .push(story(&world, &policy.name, outcome, lines));
        }
    }
    Ok(())
}

fn story(world: &World<'_>, policy: &str, outcome: Outcome, lines: Vec<String>) -> SampleStory {
    let route = world.catalogue.routes.get(usize::from(outcome.route()));
    SampleStory {
        policy: policy.to_owned(),
        route: route.map(|route| route.name.clone()),
        grade: outcome.grade().millionths(),
        cost: (outcome.cost != COST_UNKNOWN).then_some(outcome.cost),
        calls: outcome.calls(),
        lines,
    }
}

/// What is written down of a request of a run in which requests meet faults or each other.
fn recorded(decisions: &Decisions, place: usize) -> Vec<SampleStory> {
    let rows = decisions.policies.iter().zip(decisions.of_request(place));
    rows.filter(|(decider, _)| !decider.control)
        .map(|(decider, row)| {
            let name = |route: Option<u16>| {
                let name = route.and_then(|route| decisions.routes.get(usize::from(route)));
                name.cloned()
            };
            let graded =
                |grade: Option<u32>| grade_text(grade.map_or(Score::MISSING, Score::from_bits));
            let costs = |cost: Option<u64>| cost_text(cost.unwrap_or(COST_UNKNOWN));
            let reason = decider.reasons.get(usize::from(row.reason));
            let mut lines = vec![format!("decided  {}", reason.map_or("", String::as_str))];
            if row.escalated {
                lines.push(
                    "verdict  an answer was not accepted, and the request passed on".to_owned(),
                );
            }
            lines.push(match (name(row.route), row.unserved) {
                (Some(route), _) => format!(
                    "result   `{route}` answered{}: {}; {} call{}, {}",
                    if row.unverified {
                        " (rejected, for want of a better one)"
                    } else {
                        ""
                    },
                    graded(row.grade),
                    row.calls,
                    if row.calls == 1 { "" } else { "s" },
                    costs(row.cost)
                ),
                (None, Some(why)) => {
                    let why = UNSERVED[why as usize];
                    format!(
                        "result   unserved: {why}; counts as wrong; {} calls, {}",
                        row.calls,
                        costs(row.cost)
                    )
                }
                (None, None) => {
                    "result   undetermined: a verifier met an answer that nobody graded".to_owned()
                }
            });
            if let Some(copy) = row.mirror {
                lines.push(format!(
                    "mirror   {}: {}, {}; nobody sees it",
                    name(copy.route)
                        .map_or_else(|| "nobody".to_owned(), |route| format!("`{route}`")),
                    graded(copy.grade),
                    costs(copy.cost)
                ));
            }
            SampleStory {
                policy: decider.name.clone(),
                route: name(row.route),
                grade: row.grade,
                cost: row.cost,
                calls: row.calls,
                lines,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Unserved;

    fn row(route: u16, grade: u32) -> Decided {
        Decided {
            reason: 0,
            route: Some(route),
            unserved: None,
            undetermined: false,
            escalated: false,
            unverified: false,
            calls: 1,
            cost: Some(1),
            grade: Some(grade),
            mirror: None,
        }
    }

    #[test]
    fn requests_are_as_interesting_as_policies_differ_about_them() {
        let refused = Decided {
            route: None,
            unserved: Some(Unserved::RefusedByResidency),
            ..row(0, 0)
        };
        assert_eq!(
            Interest::of(&[row(0, 0), row(1, 1_000_000)]),
            Interest::Grades
        );
        assert_eq!(Interest::of(&[refused, row(1, 0)]), Interest::Unserved);
        assert_eq!(Interest::of(&[row(0, 0), row(1, 0)]), Interest::Routes);
        assert_eq!(Interest::of(&[row(1, 0), row(1, 0)]), Interest::Same);
        // What nobody graded is no difference.
        let ungraded = Decided {
            grade: None,
            ..row(1, 0)
        };
        assert_eq!(Interest::of(&[row(1, 0), ungraded]), Interest::Same);
    }

    #[test]
    fn places_are_spread_evenly_and_never_taken_twice() {
        let places: Vec<usize> = (0..100).collect();
        assert_eq!(spread(&places, 4), [12, 37, 62, 87]);
        assert_eq!(spread(&places[..3], 5), [0, 1, 2]);
        assert_eq!(spread(&[], 3), Vec::<usize>::new());
        for count in 1..100 {
            let chosen = spread(&places, count);
            assert!(chosen.windows(2).all(|two| two[0] < two[1]) && chosen.len() == count);
        }
    }
}
