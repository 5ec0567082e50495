//! A synthetic world: tasks, difficulties, tokens, and how good each route is at each task.
//!
//! P(route answers correctly) = sigmoid(slope · (skill − difficulty)); a uniform u is right iff
//! u · (1 + e^(slope·difficulty) · e^(−slope·skill)) < 1, which takes one exponential per request
//! instead of one per route. Errors of routes are tied together by a mixture copula: with probability
//! `correlation` all routes of a request share one uniform, else each has its own. Marginals stay
//! exact, and P(both right) = ρ·min(p, q) + (1 − ρ)·p·q.
//!
//! Columns are filled one at a time over small groups of requests, so that the loops stay tight.

use std::hint::select_unpredictable;

use super::draws::{
    Block, COIN, DATA_CLASS, DIFFICULTY, GRADE, GROUP, HINT, INPUT_TOKENS, LANGUAGE, OUTPUT_TOKENS,
    POLICY, Page, SESSION, SHARED, TASK, TENANT, TOOLS, USER, VERIFIER, name_key, split, unit,
    wide,
};
use super::population::Declared;
use super::quantile::{Table, Twin, Variate};
use super::{Batch, Domain, DrawKey, Examples, NO_NAME};
use crate::units::vectors::{Work, widest};
use crate::units::{Probability, Score, Tokens, mix64};

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

    /// The index that `lane` of each block means. One name at a time for all requests: that vectorises.
    #[inline(always)]
    fn pick_all(&self, blocks: &[Block; GROUP], lane: usize) -> [u16; GROUP] {
        if self.ends.len() > 16 {
            return blocks.map(|block| self.pick(block[lane]));
        }
        let lanes = blocks.map(|block| block[lane]);
        let mut indices = [0; GROUP];
        for end in &self.ends {
            for (index, lane) in indices.iter_mut().zip(&lanes) {
                *index += u16::from(lane >= end);
            }
        }
        indices
    }

    /// The index that `lane` means.
    #[inline(always)]
    fn pick(&self, lane: u32) -> u16 {
        self.ends.partition_point(|end| *end <= lane) as u16
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) difficulty: Difficulty,
    pub(crate) input: Count,
    pub(crate) output: Count,
    pub(crate) output_cap: Tokens,
    pub(crate) tools: Probability,
}

impl Task {
    /// An answer's tokens, cut off at the cap.
    #[inline(always)]
    fn output_tokens(&self, lane: u32) -> Tokens {
        // What is drawn is known; an unknown cap is larger than everything, so it cuts off nothing.
        let tokens = self.output.tokens(lane);
        Tokens::new(tokens.bits().min(self.output_cap.bits()))
    }
}

/// A distribution of numbers of tokens. The simple ones are spelt out, for they are the common ones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Count {
    /// A number for lanes below the end of the stretch, and another for the rest.
    Either {
        /// Where the first stretch ends; 0 for a number that is always the same.
        end: u32,
        /// Below it.
        low: Tokens,
        /// From it on.
        high: Tokens,
    },
    /// Anything else.
    Drawn(Variate),
}

impl Count {
    /// The simplest form of a distribution.
    pub(crate) fn new(variate: Variate) -> Self {
        let either = match variate {
            Variate::Fixed(value) => Some((value, 0, value)),
            _ => variate.as_either(),
        };
        match either {
            Some((low, end, high)) => Self::Either {
                end,
                low: whole(low),
                high: whole(high),
            },
            None => Self::Drawn(variate),
        }
    }

    #[inline(always)]
    fn tokens(&self, lane: u32) -> Tokens {
        match self {
            // Nobody can guess which it is, so nobody should try.
            Self::Either { end, low, high } => select_unpredictable(lane < *end, *low, *high),
            Self::Drawn(variate) => whole(variate.at(lane)),
        }
    }
}

/// A distribution of difficulties.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Difficulty {
    /// Tables of the difficulty and of e^(slope·difficulty): looking the latter up saves an exponential.
    Tables(Twin),
    /// Anything else.
    Drawn(Variate),
}

impl Difficulty {
    /// The difficulty and e^(slope·difficulty).
    #[inline(always)]
    fn at(&self, lane: u32, slope: f64) -> (f64, f64) {
        match self {
            Self::Tables(tables) => tables.at(lane),
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
    /// Whether any request carries tools.
    pub(crate) tools: bool,
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
    /// What the file declared, for expectations without a draw.
    pub(crate) declared: Declared,
}

/// What a group of requests needs while it is filled. Groups are always whole: what is beyond the
/// batch's end is drawn and dropped, so that the loops have a fixed length.
struct Group {
    blocks: [Block; GROUP],
    /// The second page, if it is needed.
    more: Vec<Block>,
    task: [u16; GROUP],
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

/// The part of a group that is in the batch. Nearly always it is all of it, which copies without a call.
#[inline(always)]
fn put<T: Copy>(group: &[T; GROUP], batch: &mut [T]) {
    match <&mut [T; GROUP]>::try_from(&mut *batch) {
        Ok(whole) => *whole = *group,
        Err(_) => batch.copy_from_slice(&group[..batch.len()]),
    }
}

/// Turns a group's lanes into requests `at..at + size` of a batch.
struct FillGroup<'a> {
    world: &'a Synthetic,
    group: &'a mut Group,
    /// Number of the batch's first request.
    first: u64,
    at: usize,
    size: usize,
    /// Whose the requests of the batch are, if that is known.
    tenants: Option<&'a [u16]>,
    batch: &'a mut Batch,
}

impl Work for FillGroup<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            world,
            group,
            first,
            at,
            size,
            tenants,
            batch,
        } = self;
        group.task = world.task_shares.pick_all(&group.blocks, TASK);
        world.who(group, first, at, size, tenants, batch);
        world.what(group, at, size, batch);
        world.answers(group, at, size, batch);
    }
}

impl Synthetic {
    /// The world in which every request is of one task.
    pub(crate) fn only_task(&self, task: usize) -> Option<Self> {
        let shares: Vec<f64> = (0..self.tasks.len())
            .map(|index| f64::from(u8::from(index == task)))
            .collect();
        (task < shares.len()).then(|| {
            let mut only = self.clone();
            only.task_shares = Shares::new(&shares);
            for (declared, share) in only.declared.tasks.iter_mut().zip(&shares) {
                declared.share = *share;
            }
            only
        })
    }

    /// Whether the second page of lanes is needed.
    fn needs_more(&self) -> bool {
        !self.tenants.is_empty()
            || self.data_class_shares.is_some()
            || self.users > 0
            || self.sessions_per_user > 0
    }

    /// Whether requests come from users who come back.
    pub(crate) fn has_users(&self) -> bool {
        self.users > 0 || self.tenants.iter().any(|tenant| tenant.users > 0)
    }

    /// Requests `first..first + len` into `batch`, whose vectors are reused. `tenants` says whose they are,
    /// if that is known.
    pub(crate) fn fill(
        &self,
        key: DrawKey,
        first: u64,
        len: usize,
        tenants: Option<&[u16]>,
        batch: &mut Batch,
    ) {
        batch.resize(first, len, self.routes.len(), 1, false);
        // The one column that nothing below writes: the batch may have held another workload's.
        batch.prompt_chars.fill(Tokens::UNKNOWN);
        let mut page = Page::open(key, 0, first);
        let mut more = self.needs_more().then(|| Page::open(key, 1, first));
        let mut group = Group {
            blocks: [[0; 16]; GROUP],
            more: vec![[0; 16]; if more.is_some() { GROUP } else { 0 }],
            task: [0; GROUP],
            difficulty: [0.0; GROUP],
            odds: [0.0; GROUP],
            factor: [0; GROUP],
            shared: [0; GROUP],
        };
        for at in (0..len).step_by(GROUP) {
            page.read(&mut group.blocks);
            if let Some(more) = &mut more {
                more.read(&mut group.more);
            }
            widest(FillGroup {
                world: self,
                group: &mut group,
                first,
                at,
                size: GROUP.min(len - at),
                tenants,
                batch,
            });
        }
    }

    /// Task, tenant, user, session, language, data class, tools.
    #[inline(always)]
    fn who(
        &self,
        group: &Group,
        first: u64,
        at: usize,
        size: usize,
        known: Option<&[u16]>,
        batch: &mut Batch,
    ) {
        let blocks = &group.blocks;
        put(&group.task, &mut batch.task[at..at + size]);
        for (word, block) in batch.policy_word[at..at + size].iter_mut().zip(blocks) {
            *word = wide(block, POLICY);
        }
        // Columns that the world has no use for are not drawn; their lanes stay theirs.
        let tools = &mut batch.tools[at..at + size];
        if self.tools {
            for ((tools, block), task) in tools.iter_mut().zip(blocks).zip(&group.task) {
                let law = &self.tasks[usize::from(*task)];
                *tools = u64::from(block[TOOLS]) < law.tools.threshold();
            }
        } else {
            tools.fill(false);
        }
        if self.tenants.is_empty() {
            batch.tenant[at..at + size].fill(NO_NAME);
        } else if let Some(known) = known {
            batch.tenant[at..at + size].copy_from_slice(&known[at..at + size]);
        } else {
            let tenants = self.tenant_shares.pick_all(blocks, TENANT);
            put(&tenants, &mut batch.tenant[at..at + size]);
        }
        if self.needs_more() {
            self.people(group, first, at, size, batch);
        } else {
            for i in at..at + size {
                let number = first.wrapping_add(i as u64);
                batch.user[i] = number;
                batch.session[i] = number;
            }
            batch.data_class[at..at + size].fill(NO_NAME);
        }
        let languages = &mut batch.language[at..at + size];
        if self.languages == 0 {
            languages.fill(NO_NAME);
            return;
        }
        let tenants = &batch.tenant[at..at + size];
        for ((language, block), tenant) in languages.iter_mut().zip(blocks).zip(tenants) {
            let own = self
                .tenants
                .get(usize::from(*tenant))
                .and_then(|tenant| tenant.languages.as_ref());
            *language = match own.or(self.language_shares.as_ref()) {
                Some(shares) => shares.pick(block[LANGUAGE]),
                None => NO_NAME,
            };
        }
    }

    /// What the second page decides: user, session, data class.
    #[inline(always)]
    fn people(&self, group: &Group, first: u64, at: usize, size: usize, batch: &mut Batch) {
        for i in 0..size {
            let lane = |lane: usize| group.more[i][lane];
            let number = first.wrapping_add((at + i) as u64);
            let tenant = batch.tenant[at + i];
            let of = self.tenants.get(usize::from(tenant));
            let users = of.map_or(self.users, |tenant| tenant.users);
            let user = if users == 0 {
                number
            } else {
                let nth = (u64::from(lane(USER)) * u64::from(users)) >> 32;
                // Tenants' users are different people. Bit 63 keeps them apart from request numbers.
                1 << 63 | u64::from(tenant) << 32 | nth
            };
            batch.user[at + i] = user;
            batch.session[at + i] = if self.sessions_per_user == 0 {
                number
            } else {
                let nth = (u64::from(lane(SESSION)) * u64::from(self.sessions_per_user)) >> 32;
                mix64(user ^ mix64(nth))
            };
            let own = of.and_then(|tenant| tenant.data_class);
            batch.data_class[at + i] = match (own, &self.data_class_shares) {
                (Some(class), _) => class,
                (None, Some(shares)) => shares.pick(lane(DATA_CLASS)),
                (None, None) => NO_NAME,
            };
        }
    }

    /// Difficulty, hint, tokens.
    #[inline(always)]
    fn what(&self, group: &mut Group, at: usize, size: usize, batch: &mut Batch) {
        let blocks = &group.blocks;
        for (i, block) in blocks.iter().enumerate() {
            let law = &self.tasks[usize::from(group.task[i])].difficulty;
            (group.difficulty[i], group.odds[i]) = law.at(block[DIFFICULTY], self.slope);
        }
        let stride = self.languages as u32 + 1;
        group.factor = group.task.map(|task| u32::from(task) * stride + stride - 1);
        if self.languages > 0 {
            let languages = &batch.language[at..at + size];
            for (factor, language) in group.factor.iter_mut().zip(languages) {
                if *language != NO_NAME {
                    *factor = *factor + 1 - stride + u32::from(*language);
                }
            }
        }
        let hints = &mut batch.difficulty_hint[at..at + size];
        for (i, hint) in hints.iter_mut().enumerate() {
            let noise = self.normal.at(blocks[i][HINT]);
            *hint = group.difficulty[i] + self.hint_noise * noise;
        }
        let input = &mut batch.input_tokens[at..at + size];
        let output = &mut batch.output_tokens[0][at..at + size];
        let caps = &mut batch.output_cap[at..at + size];
        let columns = input.iter_mut().zip(output).zip(caps);
        for (i, ((input, output), cap)) in columns.enumerate() {
            let task = &self.tasks[usize::from(group.task[i])];
            *input = task.input.tokens(blocks[i][INPUT_TOKENS]);
            *output = task.output_tokens(blocks[i][OUTPUT_TOKENS]);
            *cap = task.output_cap;
        }
        let coin = self.correlation.threshold();
        for (shared, block) in group.shared.iter_mut().zip(blocks) {
            *shared = u32::from(u64::from(block[COIN]) < coin).wrapping_neg();
        }
    }

    /// Each route's grade and verifier lane.
    #[inline(always)]
    fn answers(&self, group: &Group, at: usize, size: usize, batch: &mut Batch) {
        // Columns of their own: what follows is done for several requests at a time.
        let grade_words = group.blocks.each_ref().map(|block| wide(block, GRADE));
        let verifier_words = group.blocks.each_ref().map(|block| wide(block, VERIFIER));
        let shared_lanes = group.blocks.each_ref().map(|block| block[SHARED]);
        for (r, route) in self.routes.iter().enumerate() {
            let mut grades = [Score::WRONG; GROUP];
            let mut verifier = [0; GROUP];
            let mut factors = [0.0; GROUP];
            for (factor, index) in factors.iter_mut().zip(&group.factor) {
                *factor = route.factors[*index as usize];
            }
            for (i, grade) in grades.iter_mut().enumerate() {
                let own = split(grade_words[i], route.grade_key);
                let lane = own ^ ((own ^ shared_lanes[i]) & group.shared[i]);
                let odds = group.odds[i] * factors[i];
                *grade = Score::from_right(unit(lane) * (1.0 + odds) < 1.0);
            }
            for (lane, word) in verifier.iter_mut().zip(&verifier_words) {
                *lane = split(*word, route.verifier_key);
            }
            put(&grades, &mut batch.grade[r][at..at + size]);
            put(&verifier, &mut batch.verifier_lane[r][at..at + size]);
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
                examples.add(grade, law.input.tokens(block[INPUT_TOKENS]), output, None);
            }
            left -= size;
        }
        examples
    }
}
