//! The traffic and the truth about it: synthetic worlds and recorded outcome matrices, column by column.
//!
//! A [`Workload`] fills [`Batch`]es. What a batch holds for request i depends on (seed, domain,
//! replicate, i) alone, never on which batch it is in or who asked first. No mutable randomness here.
//!
//! A workload is read in two steps. [`parse`] (a TOML file) or [`bare`] (a data file with default
//! column names) gives a [`WorkloadSpec`], which names the data file it needs, if any; the caller reads
//! that file, for this module touches none, and [`WorkloadSpec::build`] gives the [`Workload`].

mod columns;
pub(crate) mod draws;
mod law;
mod population;
pub(crate) mod quantile;
mod recorded;
mod recorded_csv;
mod recorded_json;
mod recorded_parquet;
mod recorded_rows;
mod recorded_spec;
mod spec;
mod synthetic;
mod synthetic_spec;
pub(crate) mod unpack;

pub(crate) use columns::roles as column_roles;
pub use population::{Cascade, Expected, Population, RoutePopulation, TaskPopulation, Terms};
pub use spec::{WorkloadSpec, bare, parse};

use crate::source::Diagnostic;
use crate::units::{Score, Tokens, Usd};
use recorded::Recorded;
use synthetic::Synthetic;

/// Requests of one batch: enough to amortise a call, small enough to stay in a core's cache.
pub const BATCH: usize = 2048;

/// "None of the names", in a column of name indices.
pub const NO_NAME: u16 = u16::MAX;

/// Which draws: everything random in a world is a function of this, a lane, and the request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawKey {
    /// The experiment's seed.
    pub seed: u64,
    /// What the draws are for.
    pub domain: Domain,
    /// Replicate of the experiment.
    pub replicate: u32,
}

/// Separate worlds under one seed, so that nothing trains on what it is judged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// The traffic policies are judged on.
    Traffic,
    /// Labelled examples for policies that learn.
    Lab,
}

/// Columns of consecutive requests. Every `Vec` has `len` entries; per-route columns are indexed by the
/// world's own route index (see [`Workload::routes`](crate::workload)).
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Number of the first request.
    pub first: u64,
    /// Requests in the batch.
    pub len: usize,
    /// Index into the workload's task names.
    pub task: Vec<u16>,
    /// Index into the tenant names, or [`NO_NAME`].
    pub tenant: Vec<u16>,
    /// Index into the language names, or [`NO_NAME`].
    pub language: Vec<u16>,
    /// Index into the data-class names, or [`NO_NAME`].
    pub data_class: Vec<u16>,
    /// Identity of the user (a number that means nothing else); unknown users are the request itself.
    pub user: Vec<u64>,
    /// Identity of the conversation; unknown ones are the request itself.
    pub session: Vec<u64>,
    /// Whether the request carries tools.
    pub tools: Vec<bool>,
    /// Prompt tokens.
    pub input_tokens: Vec<Tokens>,
    /// Most tokens the caller lets the answer have.
    pub output_cap: Vec<Tokens>,
    /// Prompt length in characters.
    pub prompt_chars: Vec<Tokens>,
    /// What a policy may know about the difficulty; NaN when it knows nothing.
    pub difficulty_hint: Vec<f64>,
    /// 64 random bits for policies' own draws, split further by the policy's path.
    pub policy_word: Vec<u64>,
    /// Tokens each route's answer has: one column for all routes, or one per route.
    pub output_tokens: Vec<Vec<Tokens>>,
    /// Grade of each route's answer, per route.
    pub grade: Vec<Vec<Score>>,
    /// Uniform 32-bit lane for a simulated verifier's look at each route's answer, per route.
    pub verifier_lane: Vec<Vec<u32>>,
    /// Recorded cost of each route's answer, per route; empty when cost follows from tokens and prices.
    pub cost: Vec<Vec<Option<Usd>>>,
}

impl Batch {
    /// Tokens of `route`'s answer to request `i` of the batch.
    #[must_use]
    #[inline(always)]
    pub fn output(&self, route: usize, i: usize) -> Tokens {
        let column = if self.output_tokens.len() == 1 {
            0
        } else {
            route
        };
        self.output_tokens[column][i]
    }
}

impl Batch {
    /// Makes room for `len` requests. Nothing is allocated once the vectors have grown.
    fn resize(&mut self, first: u64, len: usize, routes: usize, outputs: usize, cost: bool) {
        fn columns<T: Clone>(columns: &mut Vec<Vec<T>>, count: usize, len: usize, fill: T) {
            columns.resize_with(count, Vec::new);
            for column in columns {
                column.resize(len, fill.clone());
            }
        }
        self.first = first;
        self.len = len;
        self.task.resize(len, 0);
        self.tenant.resize(len, NO_NAME);
        self.language.resize(len, NO_NAME);
        self.data_class.resize(len, NO_NAME);
        self.user.resize(len, 0);
        self.session.resize(len, 0);
        self.tools.resize(len, false);
        self.input_tokens.resize(len, Tokens::UNKNOWN);
        self.output_cap.resize(len, Tokens::UNKNOWN);
        self.prompt_chars.resize(len, Tokens::UNKNOWN);
        self.difficulty_hint.resize(len, f64::NAN);
        self.policy_word.resize(len, 0);
        columns(&mut self.output_tokens, outputs, len, Tokens::UNKNOWN);
        columns(&mut self.grade, routes, len, Score::MISSING);
        columns(&mut self.verifier_lane, routes, len, 0);
        columns(&mut self.cost, if cost { routes } else { 0 }, len, None);
    }
}

/// What labelled examples of one task and one route add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examples {
    /// Graded examples.
    pub n: u64,
    /// Sum of their grades, in millionths.
    pub score_sum: u64,
    /// Sum of the prompt tokens of the examples whose prompt and answer tokens are both known.
    pub input_tokens_sum: u64,
    /// Sum of the answer tokens of the same examples.
    pub output_tokens_sum: u64,
    /// How many those are.
    pub tokens_known: u64,
    /// Examples whose cost was recorded.
    pub costs_known: u64,
    /// Sum of their costs, in 10⁻¹² USD.
    pub cost_sum: u128,
}

impl Examples {
    /// Adds one example. A missing grade adds nothing.
    fn add(&mut self, grade: Score, input: Tokens, output: Tokens, cost: Option<Usd>) {
        let Some(millionths) = grade.millionths() else {
            return;
        };
        self.n += 1;
        self.score_sum += u64::from(millionths);
        if let (Some(input), Some(output)) = (input.get(), output.get()) {
            self.input_tokens_sum += u64::from(input);
            self.output_tokens_sum += u64::from(output);
            self.tokens_known += 1;
        }
        if let Some(cost) = cost {
            self.cost_sum += u128::from(cost.0);
            self.costs_known += 1;
        }
    }

    /// Mean grade; `None` without examples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then(|| self.score_sum as f64 / (self.n as f64 * 1e6))
    }
}

/// Traffic and the truth about it, ready to be read.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The workload's name: its file's stem.
    pub name: String,
    /// Task names; at least one.
    pub tasks: Vec<String>,
    /// Tenant names; may be empty.
    pub tenants: Vec<String>,
    /// Language names; may be empty.
    pub languages: Vec<String>,
    /// Data-class names; may be empty.
    pub data_classes: Vec<String>,
    /// Route names, in the order of the per-route columns of a [`Batch`].
    pub routes: Vec<String>,
    world: World,
    notes: Vec<String>,
}

#[derive(Clone, Debug)]
enum World {
    Synthetic(Box<Synthetic>),
    Recorded(Box<Recorded>),
}

impl Workload {
    /// How many requests there are: what a synthetic world's file suggests (more can be drawn), or the
    /// recorded rows that policies are judged on.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.world {
            World::Synthetic(world) => world.requests,
            World::Recorded(world) => world.judged() as u64,
        }
    }

    /// Whether there is nothing to judge on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the requests and grades were recorded rather than drawn.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        matches!(self.world, World::Recorded(_))
    }

    /// Whether requests come from users who may come back: a recorded column in which a user has more
    /// than one of the rows to judge on, or a synthetic world with users.
    #[must_use]
    pub fn has_users(&self) -> bool {
        match &self.world {
            World::Synthetic(world) => world.has_users(),
            World::Recorded(world) => world.repeats(|fact| fact.user),
        }
    }

    /// Whether requests belong to conversations that may hold several (see [`Workload::has_users`]).
    #[must_use]
    pub fn has_sessions(&self) -> bool {
        match &self.world {
            World::Synthetic(world) => world.has_users() && world.sessions_per_user > 0,
            World::Recorded(world) => world.repeats(|fact| fact.session),
        }
    }

    /// Writes requests `first..first + len` into `batch`, reusing its vectors. A recorded batch ends at
    /// the last row that is to be judged: `batch.len` tells.
    pub fn fill(&self, key: DrawKey, first: u64, len: usize, batch: &mut Batch) {
        match &self.world {
            World::Synthetic(world) => world.fill(key, first, len, None, batch),
            World::Recorded(world) => world.fill(key, first, len, batch),
        }
    }

    /// As [`Workload::fill`], for requests of which it is known whose they are: `tenants` has `len` indices
    /// of tenants, which a synthetic world takes instead of its own draws. All other draws are the same.
    /// Recorded rows say themselves whose they are.
    pub fn fill_for(
        &self,
        key: DrawKey,
        first: u64,
        len: usize,
        tenants: Option<&[u16]>,
        batch: &mut Batch,
    ) {
        match &self.world {
            World::Synthetic(world) => world.fill(key, first, len, tenants, batch),
            World::Recorded(world) => world.fill(key, first, len, batch),
        }
    }

    /// The synthetic world in which every request is of `task`; all else is as here. `None` for recorded
    /// rows, or if there is no such task.
    #[must_use]
    pub fn only_task(&self, task: usize) -> Option<Self> {
        let World::Synthetic(world) = &self.world else {
            return None;
        };
        let mut only = self.clone();
        only.world = World::Synthetic(Box::new(world.only_task(task)?));
        Some(only)
    }

    /// What request `i` is called: the recorded id, or its number.
    #[must_use]
    pub fn request_id(&self, i: u64) -> String {
        match &self.world {
            World::Synthetic(_) => i.to_string(),
            World::Recorded(world) => world.id(i).map_or_else(|| i.to_string(), str::to_owned),
        }
    }

    /// The request of that name. A synthetic world has one for every number.
    #[must_use]
    pub fn find_request(&self, id: &str) -> Option<u64> {
        match &self.world {
            World::Synthetic(_) => id.parse().ok(),
            World::Recorded(world) => world.find(id),
        }
    }

    /// Number of folds: 2 for recorded rows without a split column, else 1.
    #[must_use]
    pub fn folds(&self) -> u8 {
        match &self.world {
            World::Synthetic(_) => 1,
            World::Recorded(world) => world.folds(),
        }
    }

    /// The fold that request `i` belongs to. It is decided by the policy trained for that fold, which
    /// saw only examples from elsewhere: the other fold, the training rows, or the lab's own draws.
    #[must_use]
    pub fn fold(&self, i: u64) -> u8 {
        match &self.world {
            World::Synthetic(_) => 0,
            World::Recorded(world) => world.fold(i),
        }
    }

    /// At most `count` labelled examples of `task` and `route` for a policy that will decide for `fold`.
    ///
    /// A synthetic world draws as many as asked for, apart for each task and route. Recorded rows are
    /// taken without repetition, in an order that depends on (seed, replicate, task, route, row id); there
    /// may be fewer. Indices out of range give no examples. The key's domain is taken to be the lab's.
    #[must_use]
    pub fn examples(
        &self,
        key: DrawKey,
        fold: u8,
        task: usize,
        route: usize,
        count: usize,
    ) -> Examples {
        if task >= self.tasks.len() || route >= self.routes.len() {
            return Examples::default();
        }
        match &self.world {
            World::Synthetic(world) => world.examples(key, task, route, count),
            World::Recorded(world) => world.examples(key, fold, task, route, count),
        }
    }

    /// Prompt lengths of at most `count` unlabelled lab requests for a policy that will decide for
    /// `fold`: tokens if they are known, else characters. Requests of unknown length are left out.
    #[must_use]
    pub fn lengths(&self, key: DrawKey, fold: u8, count: usize) -> Vec<u32> {
        let key = DrawKey {
            domain: Domain::Lab,
            ..key
        };
        match &self.world {
            World::Synthetic(world) => {
                let mut lengths = Vec::with_capacity(count);
                let mut batch = Batch::default();
                while lengths.len() < count {
                    let size = BATCH.min(count - lengths.len());
                    world.fill(key, lengths.len() as u64, size, None, &mut batch);
                    lengths.extend(batch.input_tokens.iter().filter_map(|tokens| tokens.get()));
                }
                lengths
            }
            World::Recorded(world) => world.lengths(key, fold, count),
        }
    }

    /// The exact expectations of a synthetic world under `terms`, one for each of [`Workload::routes`]:
    /// see [`Population`].
    ///
    /// # Errors
    ///
    /// Recorded rows are a sample of a population that nobody knows; and a world may be too large to
    /// integrate.
    pub fn population(&self, terms: &[Terms]) -> Result<Population, Box<Diagnostic>> {
        match &self.world {
            World::Synthetic(world) => population::of(self, world, terms),
            World::Recorded(_) => {
                let refused = Diagnostic::error(format!(
                    "`{}` is recorded: the population behind its rows is not known",
                    self.name
                ));
                Err(Box::new(
                    refused.help("a synthetic world has an exact population"),
                ))
            }
        }
    }

    /// Facts about the data that belong beside the numbers: rows read and left out, missing grades.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether every request has known prompt and answer tokens for every route.
    #[must_use]
    pub fn has_tokens(&self) -> bool {
        match &self.world {
            World::Synthetic(_) => true,
            World::Recorded(world) => world.has_tokens(),
        }
    }

    /// Whether at least one request's prompt length (tokens or characters) is known.
    #[must_use]
    pub fn has_prompt_length(&self) -> bool {
        match &self.world {
            World::Synthetic(_) => true,
            World::Recorded(world) => world.has_prompt_length(),
        }
    }

    /// Whether a simulated verifier's uniforms were recorded (otherwise they are drawn).
    #[must_use]
    pub fn has_verifier_draws(&self) -> bool {
        match &self.world {
            World::Synthetic(_) => false,
            World::Recorded(world) => world.has_verifier_draws(),
        }
    }

    /// Whether the cost of answers was recorded, so that prices are not needed.
    #[must_use]
    pub fn has_cost(&self) -> bool {
        match &self.world {
            World::Synthetic(_) => false,
            World::Recorded(world) => world.has_cost(),
        }
    }

    /// Whether at least one request has a difficulty hint.
    #[must_use]
    pub fn has_difficulty_hint(&self) -> bool {
        match &self.world {
            World::Synthetic(_) => true,
            World::Recorded(world) => world.has_difficulty_hint(),
        }
    }

    /// Whether every grade that is there is 0 or 1.
    #[must_use]
    pub fn has_binary_grades(&self) -> bool {
        match &self.world {
            World::Synthetic(_) => true,
            World::Recorded(world) => world.has_binary_grades(),
        }
    }

    /// How many judged requests lack a grade, per route.
    #[must_use]
    pub fn missing_grades(&self) -> Vec<u64> {
        match &self.world {
            World::Synthetic(_) => vec![0; self.routes.len()],
            World::Recorded(world) => world.missing_grades(),
        }
    }
}
