//! A synthetic world: tasks, difficulties, tokens, and how good each route is at each task.
//!
//! P(route answers correctly) = sigmoid(slope · (skill − difficulty)); a uniform u is right iff
//! u · (1 + e^(slope·difficulty) · e^(−slope·skill)) < 1, which takes one exponential per request
//! instead of one per route. Errors of routes are tied together by a mixture copula: with probability
//! `correlation` all routes of a request share one uniform, else each has its own. Marginals stay
//! exact, and P(both right) = ρ·min(p, q) + (1 − ρ)·p·q.
//!
//! Columns are filled one at a time over small groups of requests, so that the loops stay tight.

use super::draws::{
    COIN, DATA_CLASS, DIFFICULTY, GRADE, GROUP, HINT, INPUT_TOKENS, LANGUAGE, OUTPUT_TOKENS,
    POLICY, Page, SESSION, SHARED, TASK, TENANT, TOOLS, USER, VERIFIER, mix, name_key, split, unit,
    wide,
};
use super::quantile::{Table, Variate};
use super::{Batch, Domain, DrawKey, Examples, NO_NAME};
use crate::units::{Probability, Score, Tokens};

/// Which of several names: cumulative shares as lane thresholds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shares {
    /// `ends[k]`: lanes below it (and not below the one before) mean name k; the last name has none.
    ends: Vec<u32>,
}

impl Shares {
    /// From shares that sum to one.
    pub(crate) fn new(shares: &[f64]) -> Self {
        let mut sum = 0.0;
        // The last name that has a share takes what is left, so names without one are never drawn.
        let last = shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        let ends = shares[..last]
            .iter()
            .map(|share| {
                sum += share;
                // A float-to-integer `as` saturates.
                (sum * 4_294_967_296.0).round() as u32
            })
            .collect();
        Self { ends }
    }

    /// The index that `lane` means.
    #[inline(always)]
    fn pick(&self, lane: u32) -> u16 {
        if self.ends.len() <= 16 {
            // Counting compares is quicker than a search, and has no branch to mispredict.
            let mut index = 0;
            for end in &self.ends {
                index += u16::from(lane >= *end);
            }
            index
        } else {
            self.ends.partition_point(|end| *end <= lane) as u16
        }
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) difficulty: Difficulty,
    pub(crate) input: Variate,
    pub(crate) output: Variate,
    pub(crate) output_cap: Tokens,
    pub(crate) tools: Probability,
}

impl Task {
    /// An answer's tokens, cut off at the cap.
    #[inline(always)]
    fn output_tokens(&self, lane: u32) -> Tokens {
        let tokens = whole(self.output.at(lane));
        match (tokens.get(), self.output_cap.get()) {
            (Some(tokens), Some(cap)) => Tokens::new(tokens.min(cap)),
            _ => tokens,
        }
    }
}

/// A distribution of difficulties.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Difficulty {
    /// Tables of the difficulty and of e^(slope·difficulty): looking the latter up saves an exponential.
    Tables {
        /// The difficulty.
        value: Table,
        /// e^(slope·difficulty), with the same cells.
        odds: Table,
    },
    /// Anything else.
    Drawn(Variate),
}

impl Difficulty {
    /// The difficulty and e^(slope·difficulty).
    #[inline(always)]
    fn at(&self, lane: u32, slope: f64) -> (f64, f64) {
        match self {
            Self::Tables { value, odds } => {
                let place = value.find(lane);
                (value.read(place), odds.read(place))
            }
            Self::Drawn(variate) => {
                let value = variate.at(lane);
                (value, libm::exp(slope * value))
            }
        }
    }
}

/// One tenant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tenant {
    pub(crate) users: u32,
    /// Instead of the world's.
    pub(crate) languages: Option<Shares>,
    /// Instead of the world's.
    pub(crate) data_class: Option<u16>,
}

/// One route's answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answers {
    pub(crate) grade_key: u64,
    pub(crate) verifier_key: u64,
    /// e^(−slope·skill) by task, then by language, "none" last: `factors[task * (languages + 1) + language]`.
    pub(crate) factors: Vec<f64>,
}

impl Answers {
    pub(crate) fn new(route: &str, factors: Vec<f64>) -> Self {
        Self {
            grade_key: name_key("grade", route),
            verifier_key: name_key("verifier", route),
            factors,
        }
    }
}

/// The world.
#[derive(Clone, Debug)]
pub(crate) struct Synthetic {
    pub(crate) requests: u64,
    pub(crate) slope: f64,
    pub(crate) hint_noise: f64,
    pub(crate) correlation: Probability,
    pub(crate) tasks: Vec<Task>,
    pub(crate) task_shares: Shares,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) tenant_shares: Shares,
    pub(crate) languages: usize,
    pub(crate) language_shares: Option<Shares>,
    pub(crate) data_class_shares: Option<Shares>,
    /// Users of a world without tenants; zero if each request is its own user.
    pub(crate) users: u32,
    /// Conversations each user has; zero if each request is its own conversation.
    pub(crate) sessions_per_user: u32,
    pub(crate) routes: Vec<Answers>,
    pub(crate) normal: Table,
    /// SHA-256 keys of (task, route) pairs, for labelled examples.
    pub(crate) example_pages: Vec<u64>,
}

/// What a group of requests needs while it is filled.
struct Group {
    blocks: [[u32; 16]; GROUP],
    more: [[u32; 16]; GROUP],
    difficulty: [f64; GROUP],
    /// e^(slope·difficulty).
    odds: [f64; GROUP],
    /// Index into [`Answers::factors`].
    factor: [u32; GROUP],
    /// All ones where the routes share one uniform.
    shared: [u32; GROUP],
}

/// Tokens are whole, not negative.
#[inline(always)]
fn whole(value: f64) -> Tokens {
    // A float-to-integer `as` saturates.
    Tokens::new((value + 0.5) as u32)
}

impl Synthetic {
    /// Whether the second page of lanes is needed.
    fn needs_more(&self) -> bool {
        !self.tenants.is_empty()
            || self.data_class_shares.is_some()
            || self.users > 0
            || self.sessions_per_user > 0
    }

    /// Requests `first..first + len` into `batch`, whose vectors are reused.
    pub(crate) fn fill(&self, key: DrawKey, first: u64, len: usize, batch: &mut Batch) {
        batch.resize(first, len, self.routes.len(), 1, false);
        let mut page = Page::open(key, 0, first);
        let mut more = self.needs_more().then(|| Page::open(key, 1, first));
        let mut group = Group {
            blocks: [[0; 16]; GROUP],
            more: [[0; 16]; GROUP],
            difficulty: [0.0; GROUP],
            odds: [0.0; GROUP],
            factor: [0; GROUP],
            shared: [0; GROUP],
        };
        let mut at = 0;
        while at < len {
            let size = GROUP.min(len - at);
            page.read(&mut group.blocks[..size]);
            if let Some(more) = &mut more {
                more.read(&mut group.more[..size]);
            }
            self.who(&group, first, at, size, batch);
            self.what(&mut group, at, size, batch);
            self.answers(&group, at, size, batch);
            at += size;
        }
    }

    /// Task, tenant, user, session, language, data class, tools.
    fn who(&self, group: &Group, first: u64, at: usize, size: usize, batch: &mut Batch) {
        let blocks = &group.blocks[..size];
        for (task, block) in batch.task[at..at + size].iter_mut().zip(blocks) {
            *task = self.task_shares.pick(block[TASK]);
        }
        for (word, block) in batch.policy_word[at..at + size].iter_mut().zip(blocks) {
            *word = wide(block, POLICY);
        }
        // Columns that the world has no use for are not drawn; their lanes stay theirs.
        if self
            .tasks
            .iter()
            .all(|task| task.tools == Probability::ZERO)
        {
            batch.tools[at..at + size].fill(false);
        } else {
            for (i, block) in blocks.iter().enumerate() {
                let task = &self.tasks[usize::from(batch.task[at + i])];
                batch.tools[at + i] = u64::from(block[TOOLS]) < task.tools.threshold();
            }
        }
        if self.tenants.is_empty() {
            for i in 0..size {
                let number = first.wrapping_add((at + i) as u64);
                batch.tenant[at + i] = NO_NAME;
                batch.user[at + i] = number;
                batch.session[at + i] = number;
            }
        } else {
            for (tenant, block) in batch.tenant[at..at + size].iter_mut().zip(blocks) {
                *tenant = self.tenant_shares.pick(block[TENANT]);
            }
        }
        if self.needs_more() {
            self.people(group, first, at, size, batch);
        } else {
            batch.data_class[at..at + size].fill(NO_NAME);
        }
        if self.languages == 0 {
            batch.language[at..at + size].fill(NO_NAME);
            return;
        }
        for (i, block) in blocks.iter().enumerate() {
            let own = self
                .tenants
                .get(usize::from(batch.tenant[at + i]))
                .and_then(|tenant| tenant.languages.as_ref());
            batch.language[at + i] = match own.or(self.language_shares.as_ref()) {
                Some(shares) => shares.pick(block[LANGUAGE]),
                None => NO_NAME,
            };
        }
    }

    /// What the second page decides: user, session, data class.
    fn people(&self, group: &Group, first: u64, at: usize, size: usize, batch: &mut Batch) {
        for (i, block) in group.more[..size].iter().enumerate() {
            let number = first.wrapping_add((at + i) as u64);
            let tenant = batch.tenant[at + i];
            let of = self.tenants.get(usize::from(tenant));
            let users = of.map_or(self.users, |tenant| tenant.users);
            let user = if users == 0 {
                number
            } else {
                let nth = (u64::from(block[USER]) * u64::from(users)) >> 32;
                // Tenants' users are different people. Bit 63 keeps them apart from request numbers.
                1 << 63 | u64::from(tenant) << 32 | nth
            };
            batch.user[at + i] = user;
            batch.session[at + i] = if self.sessions_per_user == 0 {
                number
            } else {
                let nth = (u64::from(block[SESSION]) * u64::from(self.sessions_per_user)) >> 32;
                mix(user ^ mix(nth))
            };
            let own = of.and_then(|tenant| tenant.data_class);
            batch.data_class[at + i] = match (own, &self.data_class_shares) {
                (Some(class), _) => class,
                (None, Some(shares)) => shares.pick(block[DATA_CLASS]),
                (None, None) => NO_NAME,
            };
        }
    }

    /// Difficulty, hint, tokens.
    fn what(&self, group: &mut Group, at: usize, size: usize, batch: &mut Batch) {
        let tasks = &batch.task[at..at + size];
        let stride = self.languages as u32 + 1;
        for (i, &task) in tasks.iter().enumerate() {
            let block = &group.blocks[i];
            let law = &self.tasks[usize::from(task)].difficulty;
            (group.difficulty[i], group.odds[i]) = law.at(block[DIFFICULTY], self.slope);
            let language = match batch.language[at + i] {
                NO_NAME => self.languages as u32,
                language => u32::from(language),
            };
            group.factor[i] = u32::from(task) * stride + language;
        }
        let hints = &mut batch.difficulty_hint[at..at + size];
        for (i, hint) in hints.iter_mut().enumerate() {
            let noise = self.normal.at(group.blocks[i][HINT]);
            *hint = group.difficulty[i] + self.hint_noise * noise;
        }
        let input = &mut batch.input_tokens[at..at + size];
        let output = &mut batch.output_tokens[0][at..at + size];
        let caps = &mut batch.output_cap[at..at + size];
        for (i, &task) in tasks.iter().enumerate() {
            let (block, task) = (&group.blocks[i], &self.tasks[usize::from(task)]);
            input[i] = whole(task.input.at(block[INPUT_TOKENS]));
            output[i] = task.output_tokens(block[OUTPUT_TOKENS]);
            caps[i] = task.output_cap;
        }
        let coin = self.correlation.threshold();
        for i in 0..size {
            let same = u64::from(group.blocks[i][COIN]) < coin;
            group.shared[i] = u32::from(same).wrapping_neg();
        }
    }

    /// Each route's grade and verifier lane.
    fn answers(&self, group: &Group, at: usize, size: usize, batch: &mut Batch) {
        for (r, route) in self.routes.iter().enumerate() {
            let grades = &mut batch.grade[r][at..at + size];
            let requests = group.blocks.iter().zip(&group.shared);
            let odds = group.odds.iter().zip(&group.factor);
            for ((grade, (block, shared)), (odds, factor)) in
                grades.iter_mut().zip(requests).zip(odds)
            {
                let own = split(wide(block, GRADE), route.grade_key);
                let lane = own ^ ((own ^ block[SHARED]) & shared);
                let odds = odds * route.factors[*factor as usize];
                *grade = Score::from_right(unit(lane) * (1.0 + odds) < 1.0);
            }
            let lanes = &mut batch.verifier_lane[r][at..at + size];
            for (lane, block) in lanes.iter_mut().zip(&group.blocks) {
                *lane = split(wide(block, VERIFIER), route.verifier_key);
            }
        }
    }

    /// `count` labelled examples of one task and route, drawn apart from all other pairs'.
    pub(crate) fn examples(
        &self,
        key: DrawKey,
        task: usize,
        route: usize,
        count: usize,
    ) -> Examples {
        let key = DrawKey {
            domain: Domain::Lab,
            ..key
        };
        let (law, answers) = (&self.tasks[task], &self.routes[route]);
        let mut page = Page::open(key, self.example_pages[task * self.routes.len() + route], 0);
        let mut examples = Examples::default();
        let mut blocks = [[0; 16]; GROUP];
        let mut left = count;
        while left > 0 {
            let size = GROUP.min(left);
            page.read(&mut blocks[..size]);
            for block in &blocks[..size] {
                let own = self
                    .tenants
                    .get(usize::from(self.tenant_shares.pick(block[TENANT])))
                    .and_then(|tenant| tenant.languages.as_ref());
                let language = own
                    .or(self.language_shares.as_ref())
                    .map_or(self.languages, |shares| {
                        usize::from(shares.pick(block[LANGUAGE]))
                    });
                let (_, odds) = law.difficulty.at(block[DIFFICULTY], self.slope);
                let odds = odds * answers.factors[task * (self.languages + 1) + language];
                let lane = split(wide(block, GRADE), answers.grade_key);
                let grade = Score::from_right(unit(lane) * (1.0 + odds) < 1.0);
                let output = law.output_tokens(block[OUTPUT_TOKENS]);
                examples.add(grade, whole(law.input.at(block[INPUT_TOKENS])), output);
            }
            left -= size;
        }
        examples
    }
}
