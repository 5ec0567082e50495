//! Who takes part: the policies under test, and the controls beside them.

use super::episode::World;
use super::lab::WorldLab;
use super::{Contestant, Experiment};
use crate::policy::{
    Examples, Lab, Length, Policy, Rollout, Setup, Spec, TaskMeans, Unit, always, cheapest_first,
};
use crate::router::RouteId;
use crate::source::{Diagnostic, Diagnostics, describe_list, nearest};
use crate::standin::outcome::NOT_IN_WORLD;
use crate::verify::Verifier;

/// Labelled examples per task and route that the controls learn from.
const CONTROL_EXAMPLES: u64 = 1000;

/// How a contestant decides.
pub(super) enum Runner {
    /// A policy; one trained copy for each fold it decides about.
    Policy {
        per_fold: Vec<Box<dyn Policy>>,
        verifiers: Vec<Verifier>,
    },
    /// The best grade there is.
    Oracle,
    /// It cannot be run on this data.
    Unavailable,
}

impl Runner {
    pub(super) fn stateful(&self) -> bool {
        matches!(self, Self::Policy { per_fold, .. } if per_fold.iter().any(|policy| policy.stateful()))
    }

    /// How far a candidate came. All copies of a policy were told the same, so the first one knows.
    pub(super) fn rollout(&self) -> Option<Rollout> {
        match self {
            Self::Policy { per_fold, .. } => per_fold.first()?.rollout(),
            Self::Oracle | Self::Unavailable => None,
        }
    }

    pub(super) fn fork(&self) -> Self {
        match self {
            Self::Policy {
                per_fold,
                verifiers,
            } => Self::Policy {
                per_fold: per_fold.iter().map(|policy| policy.fork()).collect(),
                verifiers: verifiers.clone(),
            },
            Self::Oracle => Self::Oracle,
            Self::Unavailable => Self::Unavailable,
        }
    }
}

/// The verifiers of all contestants.
#[derive(Clone, Debug, Default)]
pub(super) struct Verifiers {
    pub(super) all: Vec<Verifier>,
    /// By contestant: where its verifiers begin.
    pub(super) offsets: Vec<usize>,
}

struct Entrant {
    name: String,
    kind: &'static str,
    control: bool,
    trained: bool,
    sticks_to: Option<&'static str>,
    verifiers: Vec<&'static str>,
    always: Option<u16>,
    unavailable: Option<String>,
    runner: Runner,
}

/// Everybody who takes part in one replicate.
pub(super) struct Field(Vec<Entrant>);

impl Field {
    /// Builds (and trains) everybody.
    pub(super) fn build(
        experiment: &Experiment<'_>,
        world: &World<'_>,
        replicate: u32,
        warnings: &mut Diagnostics,
    ) -> Self {
        let mut entrants = Vec::new();
        let labs: Vec<WorldLab<'_>> = (0..experiment.workload.folds())
            .map(|fold| WorldLab {
                workload: experiment.workload,
                world: &world.world,
                seed: experiment.seed,
                replicate,
                fold,
            })
            .collect();
        for policy in experiment.policies {
            let runner = train(experiment, &labs, &*policy.spec, warnings);
            entrants.push(Entrant {
                name: policy.name.clone(),
                kind: policy.spec.kind(),
                control: false,
                trained: policy.spec.trains(&experiment.workload.tasks),
                sticks_to: policy.spec.sticks_to().map(Unit::name),
                verifiers: policy
                    .spec
                    .verifiers()
                    .iter()
                    .map(|one| one.name())
                    .collect(),
                always: None,
                unavailable: None,
                runner,
            });
        }
        if experiment.controls {
            entrants.extend(controls(experiment, world, &labs));
        }
        Self(entrants)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn runners(&self) -> impl Iterator<Item = &Runner> {
        self.0.iter().map(|entrant| &entrant.runner)
    }

    /// Everybody's names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entrant| entrant.name.as_str())
    }

    /// How one of them decides.
    pub(super) fn runner(&self, index: usize) -> &Runner {
        &self.0[index].runner
    }

    pub(super) fn runners_mut(&mut self) -> impl Iterator<Item = &mut Runner> {
        self.0.iter_mut().map(|entrant| &mut entrant.runner)
    }

    pub(super) fn into_runners(self) -> impl Iterator<Item = Runner> {
        self.0.into_iter().map(|entrant| entrant.runner)
    }

    pub(super) fn stateful(&self) -> bool {
        self.runners().any(Runner::stateful)
    }

    /// The verifiers of everybody, in one list.
    pub(super) fn verifiers(&self) -> Verifiers {
        let mut verifiers = Verifiers::default();
        for runner in self.runners() {
            verifiers.offsets.push(verifiers.all.len());
            if let Runner::Policy { verifiers: own, .. } = runner {
                verifiers.all.extend_from_slice(own);
            }
        }
        verifiers
    }

    /// The rows of the results, still without tallies.
    pub(super) fn contestants(&self, baselines: usize) -> Vec<Contestant> {
        self.0
            .iter()
            .map(|entrant| Contestant {
                name: entrant.name.clone(),
                kind: entrant.kind,
                control: entrant.control,
                trained: entrant.trained,
                sticks_to: entrant.sticks_to,
                verifiers: entrant.verifiers.clone(),
                always: entrant.always,
                unavailable: entrant.unavailable.clone(),
                tallies: Vec::new(),
                traces: Vec::new(),
                passages: Vec::new(),
                calm: Vec::new(),
                calm_tallies: Vec::new(),
                rollouts: Vec::new(),
                pairs: vec![Vec::new(); baselines],
                clusters: Vec::new(),
            })
            .collect()
    }

    /// Whom the others are paired with.
    pub(super) fn baselines(&self, wanted: Option<&str>) -> Result<Vec<usize>, Diagnostics> {
        let Some(name) = wanted else {
            return Ok(self
                .0
                .iter()
                .enumerate()
                .filter(|(_, one)| one.always.is_some())
                .map(|(index, _)| index)
                .collect());
        };
        let can = |entrant: &&Entrant| !matches!(entrant.runner, Runner::Unavailable);
        if let Some(index) = self
            .0
            .iter()
            .position(|entrant| entrant.name == name && can(&entrant))
        {
            return Ok(vec![index]);
        }
        let names: Vec<&str> = self
            .0
            .iter()
            .filter(can)
            .map(|entrant| entrant.name.as_str())
            .collect();
        let mut error = Diagnostic::error(format!("unknown baseline `{name}`"));
        error = match nearest(name, names.iter().copied()) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help(format!("known: {}", describe_list(names.iter().copied()))),
        };
        Err(Diagnostics(vec![error]))
    }
}

/// The names of everybody who takes part, in the order of the results, without building anybody.
pub(super) fn names(experiment: &Experiment<'_>) -> Vec<String> {
    let mut names: Vec<String> = experiment
        .policies
        .iter()
        .map(|policy| policy.name.clone())
        .collect();
    if experiment.controls {
        let present = |name: &&str| experiment.workload.routes.iter().any(|known| known == name);
        names.extend(
            experiment
                .catalogue
                .names()
                .filter(present)
                .map(|name| format!("always-{name}")),
        );
        names.extend(["length", "task-means", "oracle"].map(str::to_owned));
    }
    names
}

fn train(
    experiment: &Experiment<'_>,
    labs: &[WorldLab<'_>],
    spec: &dyn Spec,
    warnings: &mut Diagnostics,
) -> Runner {
    // A policy that learns nothing needs no copy for each fold.
    let labs = if spec.trains(&experiment.workload.tasks) {
        labs
    } else {
        &labs[..1]
    };
    let mut verifiers = Vec::new();
    let mut per_fold = Vec::new();
    for lab in labs {
        let workload = experiment.workload;
        let mut setup = Setup::new(
            experiment.catalogue,
            &workload.tasks,
            &workload.tenants,
            &workload.languages,
            lab,
        );
        setup.difficulty_hints = workload.has_difficulty_hint();
        setup.requests = Some(experiment.run_length());
        // Without a clock nobody measures how long anything takes.
        setup.time_passes = experiment.timed().is_some();
        per_fold.push(setup.build(spec));
        for warning in setup.warnings() {
            if !warnings.0.contains(&warning) {
                warnings.push(warning);
            }
        }
        // Every fold registers the same verifiers in the same order.
        verifiers = setup.verifiers;
    }
    Runner::Policy {
        per_fold,
        verifiers,
    }
}

fn controls(experiment: &Experiment<'_>, world: &World<'_>, labs: &[WorldLab<'_>]) -> Vec<Entrant> {
    let catalogue = experiment.catalogue;
    let present: Vec<RouteId> = (0..catalogue.routes.len())
        .filter(|index| world.world[*index] != NOT_IN_WORLD)
        .map(|index| RouteId(index as u16))
        .collect();
    let control = |name: String, kind, runner| Entrant {
        name,
        kind,
        control: true,
        trained: false,
        sticks_to: None,
        verifiers: Vec::new(),
        always: None,
        unavailable: None,
        runner,
    };
    let mut entrants: Vec<Entrant> = present
        .iter()
        .map(|route| Entrant {
            always: Some(route.0),
            ..control(
                format!("always-{}", catalogue.routes[route.0 as usize].name),
                "always",
                Runner::Policy {
                    per_fold: vec![always(*route)],
                    verifiers: Vec::new(),
                },
            )
        })
        .collect();

    let length = if experiment.workload.has_prompt_length() {
        let mut per_fold = Vec::new();
        for lab in labs {
            let (weak, strong) = weak_and_strong(experiment, &present, lab);
            let mut setup = Setup::new(catalogue, &experiment.workload.tasks, &[], &[], lab);
            per_fold.push(setup.build(&Length {
                weak,
                strong,
                threshold: None,
            }));
        }
        Entrant {
            trained: true,
            ..control(
                "length".into(),
                "length",
                Runner::Policy {
                    per_fold,
                    verifiers: Vec::new(),
                },
            )
        }
    } else {
        Entrant {
            unavailable: Some("the data holds no prompt length".into()),
            ..control("length".into(), "length", Runner::Unavailable)
        }
    };
    entrants.push(length);

    let examples = if experiment.workload.is_recorded() {
        u64::MAX
    } else {
        CONTROL_EXAMPLES
    };
    let runner = train(
        experiment,
        labs,
        &TaskMeans { examples },
        &mut Diagnostics::default(),
    );
    entrants.push(Entrant {
        trained: true,
        ..control("task-means".into(), "task-means", runner)
    });
    entrants.push(control("oracle".into(), "oracle", Runner::Oracle));
    entrants
}

/// The most accurate route on the lab's examples, and the cheapest other one (the least accurate one
/// when prices are unknown).
fn weak_and_strong(
    experiment: &Experiment<'_>,
    present: &[RouteId],
    lab: &WorldLab<'_>,
) -> (RouteId, RouteId) {
    let tasks = experiment.workload.tasks.len();
    let examples = if experiment.workload.is_recorded() {
        u64::MAX
    } else {
        CONTROL_EXAMPLES
    };
    let seen: Vec<(RouteId, Examples)> = present
        .iter()
        .map(|route| {
            let mut all = Examples::default();
            for task in 0..tasks {
                all.add(&lab.examples(task as u16, *route, examples));
            }
            (*route, all)
        })
        .collect();
    let mean = |seen: &Examples| seen.score_sum as f64 / seen.graded.max(1) as f64;
    // Ties go to the route that stands first.
    let mut strong = seen[0];
    for one in &seen[1..] {
        if mean(&one.1) > mean(&strong.1) {
            strong = *one;
        }
    }
    let others: Vec<(RouteId, Examples)> = seen
        .into_iter()
        .filter(|(route, _)| *route != strong.0)
        .collect();
    let priced = |(route, seen): &(RouteId, Examples)| {
        seen.costs_known > 0
            || experiment.catalogue.routes[usize::from(route.0)]
                .price
                .is_some()
    };
    let weak = if others.iter().all(priced) {
        cheapest_first(experiment.catalogue, &others)
            .first()
            .copied()
    } else {
        others
            .iter()
            .min_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)))
            .map(|(route, _)| *route)
    };
    (weak.unwrap_or(strong.0), strong.0)
}
