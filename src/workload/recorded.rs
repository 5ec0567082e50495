//! A recorded world: rows that were answered by every route, with the grades the answers got.
//!
//! Nothing is drawn but what was not recorded: a simulated verifier's uniforms and the policies' own
//! bits. Rows split into two folds by a hash of their id, unless the file says which rows are for
//! training; either way nothing is judged on what it was trained on.

use super::draws::{GROUP, POLICY, Page, VERIFIER, name_key, split, wide};
use super::{Batch, DrawKey, Examples};
use crate::units::{Score, Tokens, Usd, mix64};

/// Names that a data file mentions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names {
    pub(crate) tasks: Vec<String>,
    pub(crate) tenants: Vec<String>,
    pub(crate) languages: Vec<String>,
    pub(crate) data_classes: Vec<String>,
    pub(crate) routes: Vec<String>,
}

/// What a row says that does not depend on the route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Facts {
    pub(crate) task: u16,
    pub(crate) tenant: u16,
    pub(crate) language: u16,
    pub(crate) data_class: u16,
    pub(crate) tools: bool,
    /// Whether the row is for training only.
    pub(crate) train: bool,
    pub(crate) user: Option<u64>,
    pub(crate) session: Option<u64>,
    /// NaN when there is none.
    pub(crate) hint: f64,
    pub(crate) input: Tokens,
    /// The answer's tokens when one column holds for all routes.
    pub(crate) output: Tokens,
    pub(crate) output_cap: Tokens,
    pub(crate) prompt_chars: Tokens,
}

/// All ids in one piece of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ids {
    text: String,
    ends: Vec<usize>,
}

impl Ids {
    pub(crate) fn push(&mut self, id: &str) {
        self.text.push_str(id);
        self.ends.push(self.text.len());
    }

    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        let end = *self.ends.get(row)?;
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..end)
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// Per-route columns; `None` where the file has no such column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ByRoute {
    pub(crate) grade: Vec<Vec<Score>>,
    pub(crate) output: Option<Vec<Vec<Tokens>>>,
    pub(crate) verifier: Option<Vec<Vec<Option<u32>>>>,
    /// 10⁻¹² USD; `u64::MAX` is unknown.
    pub(crate) cost: Option<Vec<Vec<u64>>>,
}

/// An unknown cost.
pub(crate) const NO_COST: u64 = u64::MAX;

/// The world. Judged rows come first, training rows after them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recorded {
    ids: Ids,
    facts: Vec<Facts>,
    by_route: ByRoute,
    judged: usize,
    has_split: bool,
    /// A hash of each row's id: decides its fold and the order in which examples are taken.
    id_keys: Vec<u64>,
    task_keys: Vec<u64>,
    route_keys: Vec<u64>,
    verifier_keys: Vec<u64>,
    /// Rows that examples may come from, by task.
    lab_rows: Vec<Vec<u32>>,
}

impl Recorded {
    /// From rows in the file's order. `has_split` says that `Facts::train` means something.
    pub(crate) fn new(
        ids: &Ids,
        facts: &[Facts],
        by_route: &ByRoute,
        names: &Names,
        has_split: bool,
    ) -> Self {
        let (judged, training): (Vec<usize>, Vec<usize>) =
            (0..facts.len()).partition(|row| !facts[*row].train);
        let order: Vec<usize> = judged.iter().chain(&training).copied().collect();
        fn pick<T: Copy>(columns: &[Vec<T>], order: &[usize]) -> Vec<Vec<T>> {
            columns
                .iter()
                .map(|column| order.iter().map(|row| column[*row]).collect())
                .collect()
        }
        let mut sorted = Ids::default();
        for &row in &order {
            sorted.push(ids.get(row).unwrap_or_default());
        }
        let facts: Vec<Facts> = order.iter().map(|row| facts[*row]).collect();
        let mut lab_rows = vec![Vec::new(); names.tasks.len()];
        for (row, fact) in facts.iter().enumerate() {
            if !has_split || fact.train {
                lab_rows[usize::from(fact.task)].push(row as u32);
            }
        }
        let keys = |purpose: &str, names: &[String]| {
            names.iter().map(|name| name_key(purpose, name)).collect()
        };
        Self {
            id_keys: (0..sorted.len())
                .map(|row| name_key("row", sorted.get(row).unwrap_or_default()))
                .collect(),
            ids: sorted,
            by_route: ByRoute {
                grade: pick(&by_route.grade, &order),
                output: by_route.output.as_ref().map(|all| pick(all, &order)),
                verifier: by_route.verifier.as_ref().map(|all| pick(all, &order)),
                cost: by_route.cost.as_ref().map(|all| pick(all, &order)),
            },
            facts,
            judged: judged.len(),
            has_split,
            task_keys: keys("task", &names.tasks),
            route_keys: keys("route", &names.routes),
            verifier_keys: keys("verifier", &names.routes),
            lab_rows,
        }
    }

    pub(crate) fn judged(&self) -> usize {
        self.judged
    }

    /// Whether two rows to judge on have the same identity of some sort.
    pub(crate) fn repeats(&self, identity: impl Fn(&Facts) -> Option<u64>) -> bool {
        let mut seen: Vec<u64> = self.facts[..self.judged]
            .iter()
            .filter_map(identity)
            .collect();
        seen.sort_unstable();
        seen.windows(2).any(|two| two[0] == two[1])
    }

    pub(crate) fn id(&self, row: u64) -> Option<&str> {
        let row = usize::try_from(row).ok()?;
        (row < self.judged).then(|| self.ids.get(row))?
    }

    pub(crate) fn find(&self, id: &str) -> Option<u64> {
        let key = name_key("row", id);
        (0..self.judged)
            .find(|row| self.id_keys[*row] == key && self.ids.get(*row) == Some(id))
            .map(|row| row as u64)
    }

    pub(crate) fn folds(&self) -> u8 {
        if self.has_split { 1 } else { 2 }
    }

    pub(crate) fn fold(&self, row: u64) -> u8 {
        if self.has_split {
            return 0;
        }
        usize::try_from(row)
            .ok()
            .and_then(|row| self.id_keys.get(row))
            .map_or(0, |key| (key & 1) as u8)
    }

    /// Rows `first..first + len`, as far as there are any.
    pub(crate) fn fill(&self, key: DrawKey, first: u64, len: usize, batch: &mut Batch) {
        let start = usize::try_from(first)
            .unwrap_or(usize::MAX)
            .min(self.judged);
        let len = len.min(self.judged - start);
        let routes = self.by_route.grade.len();
        let outputs = self.by_route.output.as_ref().map_or(1, Vec::len);
        batch.resize(first, len, routes, outputs, self.by_route.cost.is_some());
        let rows = start..start + len;
        for (i, fact) in self.facts[rows.clone()].iter().enumerate() {
            let number = first + i as u64;
            batch.task[i] = fact.task;
            batch.tenant[i] = fact.tenant;
            batch.language[i] = fact.language;
            batch.data_class[i] = fact.data_class;
            batch.user[i] = fact.user.unwrap_or(number);
            batch.session[i] = fact.session.unwrap_or(number);
            batch.tools[i] = fact.tools;
            batch.input_tokens[i] = fact.input;
            batch.output_cap[i] = fact.output_cap;
            batch.prompt_chars[i] = fact.prompt_chars;
            batch.difficulty_hint[i] = fact.hint;
        }
        match &self.by_route.output {
            Some(columns) => {
                for (to, from) in batch.output_tokens.iter_mut().zip(columns) {
                    to.copy_from_slice(&from[rows.clone()]);
                }
            }
            None => {
                for (to, fact) in batch.output_tokens[0]
                    .iter_mut()
                    .zip(&self.facts[rows.clone()])
                {
                    *to = fact.output;
                }
            }
        }
        for (to, from) in batch.grade.iter_mut().zip(&self.by_route.grade) {
            to.copy_from_slice(&from[rows.clone()]);
        }
        for (to, from) in batch
            .cost
            .iter_mut()
            .zip(self.by_route.cost.iter().flatten())
        {
            for (to, from) in to.iter_mut().zip(&from[rows.clone()]) {
                *to = (*from != NO_COST).then_some(Usd(*from));
            }
        }
        let mut page = Page::open(key, 0, first);
        let mut blocks = [[0; 16]; GROUP];
        for at in (0..len).step_by(GROUP) {
            let size = GROUP.min(len - at);
            page.read(&mut blocks[..size]);
            for (i, block) in blocks[..size].iter().enumerate() {
                batch.policy_word[at + i] = wide(block, POLICY);
            }
            for (r, key) in self.verifier_keys.iter().enumerate() {
                let recorded = self.by_route.verifier.as_ref().map(|all| &all[r]);
                for (i, block) in blocks[..size].iter().enumerate() {
                    batch.verifier_lane[r][at + i] = recorded
                        .and_then(|lanes| lanes[start + at + i])
                        .unwrap_or_else(|| split(wide(block, VERIFIER), *key));
                }
            }
        }
    }

    /// The rows that a policy deciding for `fold` may learn from.
    fn may_learn(&self, fold: u8, row: usize) -> bool {
        self.has_split || self.fold(row as u64) != fold
    }

    /// The first `count` of `rows` in an order that `salt` and the rows' ids decide.
    fn choose(&self, rows: impl Iterator<Item = usize>, salt: u64, count: usize) -> Vec<usize> {
        let mut order: Vec<(u64, usize)> = rows
            .map(|row| (mix64(self.id_keys[row] ^ salt), row))
            .collect();
        if count == 0 {
            return Vec::new();
        }
        if order.len() > count {
            order.select_nth_unstable(count - 1);
            order.truncate(count);
        }
        order.sort_unstable();
        order.into_iter().map(|(_, row)| row).collect()
    }

    pub(crate) fn examples(
        &self,
        key: DrawKey,
        fold: u8,
        task: usize,
        route: usize,
        count: usize,
    ) -> Examples {
        let grades = &self.by_route.grade[route];
        let rows = self.lab_rows[task]
            .iter()
            .map(|row| *row as usize)
            .filter(|row| self.may_learn(fold, *row) && !grades[*row].is_missing());
        let salt = salt(key) ^ mix64(self.task_keys[task] ^ mix64(self.route_keys[route]));
        let mut examples = Examples::default();
        for row in self.choose(rows, salt, count) {
            let output = match &self.by_route.output {
                Some(columns) => columns[route][row],
                None => self.facts[row].output,
            };
            let costs = self
                .by_route
                .cost
                .as_ref()
                .map(|columns| columns[route][row]);
            let cost = costs.filter(|cost| *cost != NO_COST).map(Usd);
            examples.add(grades[row], self.facts[row].input, output, cost);
        }
        examples
    }

    pub(crate) fn lengths(&self, key: DrawKey, fold: u8, count: usize) -> Vec<u32> {
        let tokens = self.facts.iter().any(|fact| fact.input.get().is_some());
        let length = |row: usize| {
            let fact = &self.facts[row];
            if tokens {
                fact.input
            } else {
                fact.prompt_chars
            }
            .get()
        };
        let rows = (0..self.facts.len()).filter(|row| {
            (!self.has_split || self.facts[*row].train)
                && self.may_learn(fold, *row)
                && length(*row).is_some()
        });
        self.choose(rows, salt(key), count)
            .into_iter()
            .filter_map(length)
            .collect()
    }

    fn judged_facts(&self) -> &[Facts] {
        &self.facts[..self.judged]
    }

    pub(crate) fn has_tokens(&self) -> bool {
        let input = self
            .judged_facts()
            .iter()
            .all(|fact| fact.input.get().is_some());
        let output = match &self.by_route.output {
            Some(columns) => columns
                .iter()
                .flat_map(|column| &column[..self.judged])
                .all(|tokens| tokens.get().is_some()),
            None => self
                .judged_facts()
                .iter()
                .all(|fact| fact.output.get().is_some()),
        };
        input && output
    }

    pub(crate) fn has_prompt_length(&self) -> bool {
        self.judged_facts()
            .iter()
            .any(|fact| fact.input.get().or(fact.prompt_chars.get()).is_some())
    }

    pub(crate) fn has_verifier_draws(&self) -> bool {
        self.by_route.verifier.is_some()
    }

    pub(crate) fn has_cost(&self) -> bool {
        self.by_route.cost.is_some()
    }

    pub(crate) fn has_difficulty_hint(&self) -> bool {
        self.judged_facts().iter().any(|fact| !fact.hint.is_nan())
    }

    fn judged_grades(&self) -> impl Iterator<Item = &[Score]> {
        self.by_route
            .grade
            .iter()
            .map(|column| &column[..self.judged])
    }

    pub(crate) fn has_binary_grades(&self) -> bool {
        self.judged_grades()
            .flatten()
            .all(|grade| grade.is_missing() || grade.is_binary())
    }

    pub(crate) fn fractional_grades(&self) -> u64 {
        self.judged_grades()
            .flatten()
            .filter(|grade| !grade.is_missing() && !grade.is_binary())
            .count() as u64
    }

    pub(crate) fn missing_grades(&self) -> Vec<u64> {
        self.judged_grades()
            .map(|column| column.iter().filter(|grade| grade.is_missing()).count() as u64)
            .collect()
    }
}

/// Seed and replicate as one number.
fn salt(key: DrawKey) -> u64 {
    mix64(key.seed ^ mix64(u64::from(key.replicate).wrapping_add(0x9e37_79b9_7f4a_7c15)))
}
