//! Why one request went where it went, step by step.

use std::fmt::Write as _;

use super::contestants::{Field, Runner};
use super::drive::{self, Answering, Outcome, Verified, Watch};
use super::episode::{Scratch, Sums, World, jitter, run_chunk};
use super::{CHUNK, Experiment, prepare};
use crate::policy::{Ask, Decision, Policy};
use crate::router::{FaultKind, Log, Plan, Regions, RouteId, Skip, Target, Verdict};
use crate::source::Diagnostics;
use crate::standin::outcome::{COST_UNKNOWN, NOT_IN_WORLD, Outcomes};
use crate::units::{Duration, Instant, Score, Usd};
use crate::workload::{Batch, Domain, DrawKey, NO_NAME};

/// The story of one request under one policy, line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Name of the policy.
    pub policy: String,
    /// What happened, in order; text from outside is in it as it is.
    pub lines: Vec<String>,
}

/// Explains what each policy of the experiment does with the request of this id (in replicate 0).
///
/// # Errors
///
/// What does not fit between the inputs, or that there is no such request.
pub fn explain(
    experiment: &Experiment<'_>,
    id: &str,
    warnings: &mut Diagnostics,
) -> Result<Vec<Explanation>, Diagnostics> {
    let world = prepare(experiment, warnings)?;
    let Some(number) = experiment.workload.find_request(id) else {
        let last = experiment.workload.len().saturating_sub(1);
        let range = format!(
            "`{}` to `{}`",
            experiment.workload.request_id(0),
            experiment.workload.request_id(last)
        );
        return Err(Diagnostics(vec![
            crate::source::Diagnostic::error(format!(
                "workload `{}` has no request `{id}`",
                experiment.workload.name
            ))
            .help(format!("its requests are {range}")),
        ]));
    };
    let field = Field::build(experiment, &world, 0, warnings);
    let mut batch = Batch::default();
    let key = DrawKey {
        seed: experiment.seed,
        domain: Domain::Traffic,
        replicate: 0,
    };
    experiment.workload.fill(key, number, 1, &mut batch);
    let mut requirement = Vec::new();
    let ask = world.asks(&batch, 0, &mut requirement).get(0);
    let mut outcomes = Outcomes::default();
    outcomes.fill(&batch, &world.world, &world.prices);
    let mut stories = Vec::new();
    let mut runners = runners_before(&world, &field, key, number);
    for (policy, runner) in experiment.policies.iter().zip(&mut runners) {
        let Runner::Policy {
            per_fold,
            verifiers,
        } = runner
        else {
            continue;
        };
        let answering = Answering {
            outcomes: &outcomes,
            verifiers,
            batch: &batch,
            world: &world,
        };
        let told = tell(&world, &answering, &ask, per_fold, number, id);
        stories.push(Explanation {
            policy: policy.name.clone(),
            lines: told.0,
        });
    }
    Ok(stories)
}

/// The story of one request under a policy that has seen everything before it, and what became of it. The
/// request is alone in its batch.
pub(super) fn tell(
    world: &World<'_>,
    answering: &Answering<'_>,
    ask: &Ask,
    per_fold: &mut [Box<dyn Policy>],
    number: u64,
    id: &str,
) -> (Vec<String>, Outcome) {
    let fold = match world.workload.folds() {
        0 | 1 => 0,
        _ => usize::from(world.workload.fold(number)).min(per_fold.len() - 1),
    };
    let decision = per_fold[fold].plan(ask);
    let reason = per_fold[fold].explain(ask, decision.why);
    story(world, answering, ask, &decision, &reason, id)
}

/// Everybody as they are when the request of this number comes: policies that remember have seen all
/// requests before it.
fn runners_before(world: &World<'_>, field: &Field, key: DrawKey, number: u64) -> Vec<Runner> {
    let mut scratch = Scratch::new(world, field);
    if field.stateful() {
        let mut sums = Sums::new(world, field.len(), 0);
        let mut first = 0;
        while first < number {
            let len = CHUNK.min(number - first);
            run_chunk(world, &mut scratch, &[], key, first, len, &mut sums);
            first += len;
        }
    }
    scratch.into_runners()
}

/// Why nobody answered, by [`Unserved`](crate::stats::Unserved).
pub(super) const UNSERVED: [&str; 3] = [
    "its data may go to no route of the plan",
    "no route of the plan can take it",
    "every route failed",
];

fn story(
    world: &World<'_>,
    answering: &Answering<'_>,
    ask: &Ask,
    decision: &Decision,
    reason: &str,
    id: &str,
) -> (Vec<String>, Outcome) {
    let mut lines = vec![format!("request  {}", facts(world, ask, id))];
    // Where data may go comes before every other reason.
    lines.extend(barred(world, ask, answering.batch.data_class[0]));
    lines.push(format!("decided  {reason}"));
    lines.push(format!("plan     {}", plan_text(world, &decision.serve)));
    let mut diary = Diary {
        world,
        lines: Vec::new(),
    };
    let mut router = world.catalogue.router();
    let mut counts = Verified::default();
    let outcome = drive::call(
        &mut router,
        answering,
        &mut counts,
        decision.serve,
        ask.need,
        jitter(ask.word),
        0,
        &mut diary,
    );
    lines.append(&mut diary.lines);
    lines.push(match (outcome.unserved(), outcome.flags()) {
        (Some(why), _) => {
            let why = UNSERVED[why];
            format!("result   unserved: {why}; counts as wrong")
        }
        (None, flags) if flags & drive::flag::UNDETERMINED != 0 => {
            "result   undetermined: a verifier met an answer that nobody graded".to_owned()
        }
        _ => format!(
            "result   `{}` answered: {}; {} call{}, {}",
            world.catalogue.routes[outcome.route() as usize].name,
            grade_text(outcome.grade()),
            outcome.calls(),
            if outcome.calls() == 1 { "" } else { "s" },
            cost_text(outcome.cost),
        ),
    });
    if let Some(mirror) = decision.mirror {
        let copy = drive::call(
            &mut router,
            answering,
            &mut counts,
            mirror,
            ask.need,
            !jitter(ask.word),
            0,
            &mut (),
        );
        lines.push(format!(
            "mirror   {}: {}, {}; nobody sees it",
            plan_text(world, &mirror),
            grade_text(copy.grade()),
            cost_text(copy.cost)
        ));
    }
    let mut elsewhere = String::new();
    for (index, column) in world.world.iter().enumerate() {
        let route = RouteId(index as u16);
        if *column != NOT_IN_WORLD && world.catalogue.can_serve(route, &ask.need) {
            let view = &answering.outcomes;
            let cost = view.cost(route, 0);
            let separator = if elsewhere.is_empty() { "" } else { "; " };
            let _ = write!(
                elsewhere,
                "{separator}`{}` {}, {}",
                world.catalogue.routes[index].name,
                grade_text(view.grade(route, 0)),
                cost_text(cost)
            );
        }
    }
    lines.push(format!("truth    {elsewhere} (no policy sees this)"));
    (lines, outcome)
}

/// The routes that this request's data may not reach, with the lines that say so.
fn barred(world: &World<'_>, ask: &Ask, data_class: u16) -> Vec<String> {
    let (catalogue, workload) = (world.catalogue, world.workload);
    let name = |names: &'_ [String], index: u16| {
        (index != NO_NAME).then(|| names[usize::from(index)].clone())
    };
    let tenant = name(&workload.tenants, ask.tenant);
    let class = name(&workload.data_classes, data_class);
    let rules: Vec<String> = catalogue
        .rules_of(tenant.as_deref(), class.as_deref())
        .map(crate::source::Location::short)
        .collect();
    let regions = |set: Regions| {
        let all = catalogue.regions.iter().enumerate();
        let named = all.filter(|(bit, _)| set.0 >> bit & 1 == 1);
        let named: Vec<&str> = named.map(|(_, name)| name.as_str()).collect();
        named.join(" and ")
    };
    let mut lines = Vec::new();
    for (route, column) in catalogue.routes.iter().zip(&world.world) {
        let why = if ask.need.local_only && !route.local {
            "the data must stay on one's own machines".to_owned()
        } else if !route.residency.is_subset_of(ask.need.residency) {
            format!("its data may go to {}", regions(route.residency))
        } else {
            continue;
        };
        if *column == NOT_IN_WORLD {
            continue;
        }
        let place = route.location.as_ref();
        let place = place.map_or_else(String::new, |one| format!(" ({})", one.short()));
        let by = if rules.is_empty() {
            String::new()
        } else {
            format!("; the rule is {}", rules.join(" and "))
        };
        lines.push(format!("barred   `{}`: {why}{place}{by}", route.name));
    }
    lines
}

fn facts(world: &World<'_>, ask: &Ask, id: &str) -> String {
    let workload = world.workload;
    let mut text = format!("`{id}`, task `{}`", workload.tasks[ask.task as usize]);
    for (what, index, names) in [
        ("tenant", ask.tenant, &workload.tenants),
        ("language", ask.language, &workload.languages),
    ] {
        if index != NO_NAME {
            let _ = write!(text, ", {what} `{}`", names[index as usize]);
        }
    }
    match ask.need.input_tokens.get() {
        Some(tokens) => {
            let _ = write!(text, ", {tokens} prompt tokens");
        }
        None => text.push_str(", prompt length unknown"),
    }
    if ask.need.tools {
        text.push_str(", with tools");
    }
    if !ask.difficulty_hint.is_nan() {
        let _ = write!(text, ", difficulty hint {:.3}", ask.difficulty_hint);
    }
    let allowed: Vec<&str> = world
        .catalogue
        .regions
        .iter()
        .enumerate()
        .filter(|(bit, _)| ask.need.residency.0 >> bit & 1 == 1)
        .map(|(_, name)| name.as_str())
        .collect();
    if !allowed.is_empty() {
        let _ = write!(text, ", data may go to {}", allowed.join(" and "));
    }
    text
}

fn plan_text(world: &World<'_>, plan: &Plan) -> String {
    let mut text = String::new();
    let mut before = None;
    for leg in plan.legs() {
        match before.replace(leg).map(|before| before.verifier.is_some()) {
            Some(true) => text.push_str(" → if rejected → "),
            Some(false) => text.push_str(" → if it fails → "),
            None => {}
        }
        match leg.target {
            Target::Route(route) => {
                let _ = write!(text, "`{}`", world.catalogue.routes[route.0 as usize].name);
            }
            Target::Pool(pool) => {
                let _ = write!(text, "pool {}", pool.0);
            }
        }
    }
    text
}

pub(super) fn grade_text(grade: Score) -> String {
    match grade.millionths() {
        None => "ungraded".to_owned(),
        Some(1_000_000) => "right".to_owned(),
        Some(0) => "wrong".to_owned(),
        Some(partial) => format!("graded {}", f64::from(partial) / 1e6),
    }
}

pub(super) fn cost_text(cost: u64) -> String {
    if cost == COST_UNKNOWN {
        "cost unknown".to_owned()
    } else {
        Usd(cost).to_string()
    }
}

/// Writes down what the router does.
struct Diary<'a> {
    world: &'a World<'a>,
    lines: Vec<String>,
}

impl Diary<'_> {
    fn route(&self, route: RouteId) -> &str {
        self.world
            .catalogue
            .routes
            .get(route.0 as usize)
            .map_or("?", |route| &route.name)
    }
}

impl Watch for Diary<'_> {
    fn judge(&mut self, judge: RouteId, judged: RouteId, cost: Option<u64>) {
        let (judge, judged) = (self.route(judge), self.route(judged));
        let line = match cost {
            Some(cost) => format!(
                "judge    `{judge}` is asked about the answer of `{judged}`, {}",
                cost_text(cost)
            ),
            None => format!(
                "judge    `{judge}` cannot be asked about the answer of `{judged}`: the data may not go there, or do not fit"
            ),
        };
        self.lines.push(line);
    }
}

impl Log for Diary<'_> {
    fn attempt(&mut self, route: RouteId, attempt: u8, _now: Instant) {
        self.lines.push(format!(
            "send     `{}`, attempt {attempt}",
            self.route(route)
        ));
    }

    fn fault(
        &mut self,
        route: RouteId,
        attempt: u8,
        kind: FaultKind,
        _mid_stream: bool,
        _now: Instant,
    ) {
        self.lines.push(format!(
            "fault    `{}`, attempt {attempt}: {}",
            self.route(route),
            kind.name()
        ));
    }

    fn skip(&mut self, route: RouteId, why: Skip, _now: Instant) {
        let place = self
            .world
            .catalogue
            .routes
            .get(route.0 as usize)
            .and_then(|route| route.location.as_ref());
        let place = place
            .map(|location| format!(" ({})", location.short()))
            .unwrap_or_default();
        self.lines.push(format!(
            "skip     `{}`: {}{place}",
            self.route(route),
            why.name()
        ));
    }

    fn wait(&mut self, route: RouteId, _attempt: u8, _hint: Option<Duration>, until: Instant) {
        self.lines.push(format!(
            "wait     until {} s, then `{}` again",
            until.0 as f64 / 1e6,
            self.route(route)
        ));
    }

    fn verdict(&mut self, route: RouteId, verdict: Verdict, _now: Instant) {
        let word = match verdict {
            Verdict::Accept => "accepted",
            Verdict::Reject => "rejected",
            Verdict::Unavailable => "could not be verified",
        };
        self.lines.push(format!(
            "verdict  the answer of `{}` was {word}",
            self.route(route)
        ));
    }
}
