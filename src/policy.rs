//! Policies: given what may be known about a request, which routes should try to answer it.
//!
//! A policy is a [`Spec`] read from a TOML file, built into a [`Policy`] for one experiment. It sees an
//! [`Ask`], in which there is no ground truth: no realised output length, no grade. Adding a kind is one
//! file below this module and one line in [`KINDS`].

mod asks;
mod canary;
mod capability_cost;
mod cascade;
mod choice;
mod eval_driven;
mod fixed;
mod latency_aware;
mod length;
mod mix;
mod parse;
mod ready;
mod rollout;
mod shadow;
mod static_rules;
mod task_means;

use std::fmt;

pub use asks::Asks;
pub(crate) use choice::cheapest_first;
pub(crate) use fixed::always;
pub use length::Length;
pub use parse::{Names, PolicyFile, parse, parse_allowing, parse_kind};
pub use rollout::{AbortRule, Rollout, RolloutEnd, SliceCount};
pub use task_means::TaskMeans;

use crate::catalogue::Catalogue;
use crate::router::{FaultKind, Need, Plan, RouteId, Usage, VerifierId};
use crate::source::{At, Diagnostic, Table, describe_list, nearest};
use crate::units::{Duration, Instant, Score, Tokens, mix64, name_key};
use crate::verify::Verifier;

/// Every kind of policy that a file may hold.
pub const KINDS: &[Kind] = &[
    static_rules::KIND,
    capability_cost::KIND,
    cascade::KIND,
    eval_driven::KIND,
    canary::KIND,
    shadow::KIND,
    fixed::KIND,
    mix::KIND,
    length::KIND,
    task_means::KIND,
    latency_aware::KIND,
];

/// One kind of policy.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The table's name in a policy file.
    pub name: &'static str,
    /// What it does, what it needs to work, and how it typically fails.
    pub about: &'static str,
    /// A file of this kind that parses against routes `small`, `medium` and `large`.
    pub example: &'static str,
    /// Reads the table; reports what is wrong in the table's context.
    pub read: fn(Table<'_>, &Names<'_>) -> Option<Box<dyn Spec>>,
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What a policy may know about a request.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Index into the workload's task names.
    pub task: u16,
    /// Index into the tenant names, or `u16::MAX`.
    pub tenant: u16,
    /// Index into the language names, or `u16::MAX`.
    pub language: u16,
    /// Who asks. Unknown users are taken to be all different.
    pub user: u64,
    /// Which conversation it belongs to. Unknown ones are taken to be all different.
    pub session: u64,
    /// Length of the prompt in characters.
    pub prompt_chars: Tokens,
    /// What somebody guessed about the difficulty, on the scale of the policy's skills; NaN if nobody did.
    pub difficulty_hint: f64,
    /// Hard requirements, with the prompt's tokens and the output cap.
    pub need: Need,
    /// The route that answered this conversation last.
    pub last_route: Option<RouteId>,
    /// When the decision is made, by the driver's clock; [`Instant::ZERO`] where no time passes.
    pub now: Instant,
    /// 64 random bits of the request; use [`Ask::draw`].
    pub word: u64,
    /// A key of the experiment's seed and replicate, for draws that several requests share.
    pub key: u64,
}

/// Whose draw it is: requests of the same unit get the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Each request on its own.
    Request,
    /// All requests of a user.
    User,
    /// All requests of a conversation.
    Session,
    /// All requests of a tenant.
    Tenant,
}

/// The place of a policy in its file, such as `canary.base.mix`: what its draws are addressed by, so
/// that a policy and the one it wraps never share a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawPath(u64);

impl DrawPath {
    /// The path of this name.
    #[must_use]
    pub fn new(path: &str) -> Self {
        Self(name_key(path))
    }
}

impl Unit {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::User => "user",
            Self::Session => "session",
            Self::Tenant => "tenant",
        }
    }
}

impl Ask {
    /// A uniform 32-bit number of this request (or its user, …) for the policy at `path`. It does not
    /// depend on which draws were made before.
    #[must_use]
    #[inline]
    pub fn draw(&self, path: DrawPath, unit: Unit) -> u32 {
        let word = match unit {
            Unit::Request => self.word,
            Unit::User => mix64(self.user ^ self.key),
            Unit::Session => mix64(self.session ^ self.key.rotate_left(17)),
            // Requests without a tenant are not one tenant: each is drawn by itself.
            Unit::Tenant if self.tenant == u16::MAX => self.word,
            Unit::Tenant => mix64(u64::from(self.tenant) ^ self.key.rotate_left(34)),
        };
        (mix64(word ^ path.0) >> 32) as u32
    }
}

/// What a policy decided.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// Who is to answer.
    pub serve: Plan,
    /// Who gets a copy whose answer nobody sees.
    pub mirror: Option<Plan>,
    /// Why, in the policy's own numbering; [`Policy::explain`] puts it into words.
    pub why: Why,
}

/// A policy's reason: an index that only the policy can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Why(pub u32);

/// What a [`Feedback`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackOf {
    /// One attempt at one route, whatever became of the request. Nobody has graded it yet.
    Attempt,
    /// A whole request, about the answer that was served.
    Request,
}

/// What became of a call, for policies that learn while they run.
///
/// In a comparison there is one for each request. Where time passes, policies whose
/// [`Policy::learns_from_attempts`] is true are told about each attempt as well, when it ends. Live calls
/// give one for each attempt and none for a request, for nobody grades answers there.
#[derive(Clone, Copy, Debug)]
pub struct Feedback {
    /// What it is about.
    pub of: FeedbackOf,
    /// Number of the request in its run, from 0.
    pub request: u64,
    /// The request's task.
    pub task: u16,
    /// Why the policy decided about it as it did: its own words, given back.
    pub why: Why,
    /// Whose answer or failure it is; `None` for a request that nobody answered.
    pub route: Option<RouteId>,
    /// How the route failed, if it did.
    pub fault: Option<FaultKind>,
    /// What it billed.
    pub usage: Option<Usage>,
    /// When it ended, by the clock of [`Ask::now`].
    pub at: Instant,
    /// How long it took: an attempt from its sending, a request from its arrival.
    pub latency: Duration,
    /// From an attempt's sending to the first token of its answer. `None` if there was none, if the answer
    /// came as a whole, and for a request.
    pub ttft: Option<Duration>,
    /// The grade, if anybody gave one. A request that nobody answered is wrong.
    pub grade: Option<Score>,
}

/// A policy at work.
pub trait Policy: Send + Sync {
    /// Decides about one request.
    fn plan(&mut self, ask: &Ask) -> Decision;

    /// The plans it can come to, if they are few, known beforehand, and never mirrored; else nothing.
    fn menu(&self) -> &[Plan] {
        &[]
    }

    /// For each request the index in the menu of the plan that [`Policy::plan`] would decide on. Not
    /// called when the menu is empty. Only policies whose decisions do not depend on earlier requests
    /// have a menu.
    fn pick_all(&self, _asks: &Asks<'_>, picks: &mut [u8]) {
        picks.fill(0);
    }

    /// How far a candidate came that the policy lets in step by step, if it does.
    fn rollout(&self) -> Option<Rollout> {
        None
    }

    /// Told what became of each call: of requests in their order where no time passes, else in the order in
    /// which things ended. Only policies whose [`Policy::stateful`] is true listen.
    fn learn(&mut self, _feedback: &Feedback) {}

    /// Whether it wants to be told about every attempt ([`FeedbackOf::Attempt`]), not of requests alone.
    /// Whoever says so listens at all: [`Policy::stateful`] is true, too.
    fn learns_from_attempts(&self) -> bool {
        false
    }

    /// Whether a decision may depend on earlier requests.
    fn stateful(&self) -> bool {
        false
    }

    /// A copy in its present state.
    fn fork(&self) -> Box<dyn Policy>;

    /// The reason in words, with file and line where a line of the file decided.
    fn explain(&self, ask: &Ask, why: Why) -> String;
}

/// What a policy file says.
pub trait Spec: Send + Sync + fmt::Debug {
    /// Name of the kind.
    fn kind(&self) -> &'static str;

    /// Whether building it for these tasks takes labelled examples.
    fn trains(&self, _tasks: &[String]) -> bool {
        false
    }

    /// Whether it sends copies of requests to anybody.
    fn mirrors(&self) -> bool {
        false
    }

    /// What requests share a draw of this policy, if any do: then a few lucky or unlucky units can move
    /// its numbers, and more requests of the same units do not help.
    fn sticks_to(&self) -> Option<Unit> {
        None
    }

    /// Builds the policy for one workload.
    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy>;

    /// Names of routes the policy may send requests to, those of judges among them.
    fn routes(&self) -> Vec<RouteId>;

    /// The bar that it holds labelled examples against, if that is how it picks routes.
    fn bar(&self) -> Option<Bar> {
        None
    }

    /// What it means to do with so many requests and cannot be expected to get done.
    fn out_of_reach(&self, _requests: u64) -> Vec<Diagnostic> {
        Vec::new()
    }

    /// The verifiers that look at answers of its plans.
    fn verifiers(&self) -> Vec<&Verifier> {
        Vec::new()
    }
}

/// How a policy picks a route for each task by labelled examples: the cheapest whose mean grade reaches
/// the target.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Least mean grade.
    pub target: Score,
    /// Labelled examples for each task and route.
    pub examples: u64,
    /// Who gets the task when no route reaches the target.
    pub otherwise: RouteId,
    /// The routes that may be picked; `None` for all of the catalogue.
    pub routes: Option<Vec<RouteId>>,
    /// Tasks whose route is fixed, so that they need no examples.
    pub picks: Vec<(At<String>, RouteId)>,
    /// Who is asked, in order, when the picked route cannot take a request or fails.
    pub fallback: Vec<RouteId>,
}

/// What a policy is built for.
pub struct Setup<'a> {
    /// The routes.
    pub catalogue: &'a Catalogue,
    /// The workload's task names.
    pub tasks: &'a [String],
    /// The workload's tenant names.
    pub tenants: &'a [String],
    /// The workload's language names.
    pub languages: &'a [String],
    /// Where labelled examples come from.
    pub lab: &'a dyn Lab,
    /// Verifiers of the policies built so far; a [`VerifierId`] is an index into this list.
    pub verifiers: Vec<Verifier>,
    /// Whether requests come with a hint of their difficulty.
    pub difficulty_hints: bool,
    /// How many requests it will decide about, if that is known.
    pub requests: Option<u64>,
    /// Whether attempts take time and policies are told how much. It does not pass in a comparison of
    /// independent requests.
    pub time_passes: bool,
    /// What else looks odd.
    remarks: Vec<Diagnostic>,
    /// Names of the policy that no request of the workload has, with what they were meant to be: most
    /// often harmless, sometimes a slip of the pen.
    absent: Vec<(&'static str, At<String>)>,
    /// Path of the policy being built, for its draws.
    pub path: String,
}

impl fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<'a> Setup<'a> {
    /// A setup without verifiers, at the root path.
    #[must_use]
    pub fn new(
        catalogue: &'a Catalogue,
        tasks: &'a [String],
        tenants: &'a [String],
        languages: &'a [String],
        lab: &'a dyn Lab,
    ) -> Self {
        Self {
            catalogue,
            tasks,
            tenants,
            languages,
            lab,
            verifiers: Vec::new(),
            difficulty_hints: true,
            requests: None,
            time_passes: true,
            remarks: Vec::new(),
            absent: Vec::new(),
            path: String::new(),
        }
    }

    /// Builds `spec` under its own draw path.
    pub fn build(&mut self, spec: &dyn Spec) -> Box<dyn Policy> {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(spec.kind());
        let policy = spec.build(self);
        self.path.truncate(outer);
        policy
    }

    /// Says that something about the policy looks odd for this workload.
    pub fn remark(&mut self, remark: Diagnostic) {
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// Builds the policy that the one being built wraps. Its draws are its own.
    pub fn build_base(&mut self, spec: &dyn Spec) -> Box<dyn Policy> {
        let outer = self.path.len();
        self.path.push_str(".base");
        let base = self.build(spec);
        self.path.truncate(outer);
        base
    }

    /// The draw path of the policy being built.
    #[must_use]
    pub fn draw_path(&self) -> DrawPath {
        DrawPath::new(&self.path)
    }

    /// Registers a verifier.
    pub fn verifier(&mut self, verifier: Verifier) -> VerifierId {
        if let Some(index) = self.verifiers.iter().position(|known| *known == verifier) {
            return VerifierId(index as u8);
        }
        self.verifiers.push(verifier);
        VerifierId((self.verifiers.len() - 1) as u8)
    }

    /// Index of a task by name; one that never occurs is `None`.
    pub fn task(&mut self, name: &At<String>) -> Option<u16> {
        index_of("task", name, self.tasks, &mut self.absent)
    }

    /// Index of a tenant by name; one that never occurs is `None`.
    pub fn tenant(&mut self, name: &At<String>) -> Option<u16> {
        index_of("tenant", name, self.tenants, &mut self.absent)
    }

    /// Index of a language by name; one that never occurs is `None`.
    pub fn language(&mut self, name: &At<String>) -> Option<u16> {
        index_of("language", name, self.languages, &mut self.absent)
    }
}

fn index_of(
    what: &'static str,
    name: &At<String>,
    known: &[String],
    absent: &mut Vec<(&'static str, At<String>)>,
) -> Option<u16> {
    let found = known.iter().position(|known| *known == name.value);
    if found.is_none() && !absent.iter().any(|(_, other)| other == name) {
        absent.push((what, name.clone()));
    }
    found.map(|index| index as u16)
}

impl Setup<'_> {
    /// What looks odd: the remarks, and one warning for each sort of name that never occurs.
    #[must_use]
    pub fn warnings(&self) -> Vec<Diagnostic> {
        let sorts = [
            ("task", self.tasks),
            ("tenant", self.tenants),
            ("language", self.languages),
        ];
        let mut warnings = self.remarks.clone();
        for (what, known) in sorts {
            let absent: Vec<&At<String>> = self
                .absent
                .iter()
                .filter(|(sort, _)| *sort == what)
                .map(|(_, name)| name)
                .collect();
            let Some(first) = absent.first() else {
                continue;
            };
            let mut names: Vec<&str> = Vec::new();
            for name in &absent {
                if !names.contains(&name.value.as_str()) {
                    names.push(&name.value);
                }
            }
            let mut warning = Diagnostic::warning(format!(
                "no request of this workload has {what} {}",
                describe_list(names.iter().copied())
            ))
            .at(first.location.clone());
            for name in &names {
                if let Some(near) = nearest(name, known.iter().map(String::as_str)) {
                    warning = warning.help(format!("did you mean `{near}` instead of `{name}`?"));
                }
            }
            warnings.push(warning);
        }
        warnings
    }
}

/// Labelled examples of one task answered by one route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examples {
    /// Examples with a grade.
    pub graded: u64,
    /// Σ of their grades, in millionths.
    pub score_sum: u64,
    /// Examples whose tokens are known.
    pub tokens_known: u64,
    /// Σ of their prompt tokens.
    pub input_tokens_sum: u64,
    /// Σ of their answers' tokens.
    pub output_tokens_sum: u64,
    /// Examples whose cost was recorded.
    pub costs_known: u64,
    /// Σ of their costs, in 10⁻¹² USD.
    pub cost_sum: u128,
}

impl Examples {
    /// These and the other ones together.
    pub fn add(&mut self, other: &Self) {
        self.graded += other.graded;
        self.score_sum += other.score_sum;
        self.tokens_known += other.tokens_known;
        self.input_tokens_sum += other.input_tokens_sum;
        self.output_tokens_sum += other.output_tokens_sum;
        self.costs_known += other.costs_known;
        self.cost_sum += other.cost_sum;
    }

    /// Whether the mean grade reaches `target` millionths, decided in integers. No examples reach nothing.
    #[must_use]
    pub fn reach(&self, target_millionths: u64) -> bool {
        self.graded > 0
            && u128::from(self.score_sum) >= u128::from(self.graded) * u128::from(target_millionths)
    }
}

/// Where a policy that learns gets labelled examples: never the requests it will be judged on.
pub trait Lab {
    /// Up to `count` examples of a task answered by a route.
    fn examples(&self, task: u16, route: RouteId, count: u64) -> Examples;

    /// Median prompt length of requests like the ones to come, in tokens if they are known, else in
    /// characters; `None` when neither is.
    fn median_length(&self) -> Option<u32>;
}

/// A lab without examples, for policies that are only checked or that do not learn.
#[derive(Clone, Copy, Debug)]
pub struct NoLab;

impl Lab for NoLab {
    fn examples(&self, _task: u16, _route: RouteId, _count: u64) -> Examples {
        Examples::default()
    }

    fn median_length(&self) -> Option<u32> {
        None
    }
}
