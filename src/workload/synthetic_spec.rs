//! The table `[synthetic]` of a workload file.

use super::draws::name_key;
use super::law::{DifficultyLaw, TokenLaw};
use super::population::{Declared, DeclaredTask};
use super::quantile::{SHAPE_MAX, SHAPE_MIN, SPREAD_MAX, Table as Quantiles};
use super::synthetic::{Answers, Count, Shares, Synthetic, Task, Tenant};
use super::{NO_NAME, Workload, World};
use crate::router::ROUTES_MAX;
use crate::source::{At, Diagnostic, Table, Value, describe_list};
use crate::units::{Probability, Tokens};

/// Most tasks of a synthetic world: each has its own table of difficulties.
const TASKS_MAX: usize = 1_000;
/// Most tenants, languages or data classes.
const NAMES_MAX: usize = 10_000;
/// Most requests in one replicate.
const REQUESTS_MAX: u64 = 1 << 40;
/// Largest number of tokens that a file may ask for.
const TOKENS_MAX: u64 = 1_000_000_000;
/// How far shares may be from adding up to one.
const SHARE_SLACK: f64 = 1e-9;

/// Names in the order of their first mention.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn index(&mut self, name: &str) -> u16 {
        let found = self.0.iter().position(|known| known == name);
        let index = found.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        u16::try_from(index).unwrap_or(NO_NAME)
    }
}

/// What a tenant's table says, before languages and data classes are numbered.
struct TenantDraft {
    share: f64,
    users: u32,
    languages: Option<Vec<(String, f64)>>,
    data_class: Option<String>,
}

/// What a task's table says.
struct TaskDraft {
    name: At<String>,
    declared: DeclaredTask,
    task: Task,
}

/// Reads the table. Complaints go to its context; the result is only to be used if there are none.
pub(crate) fn read(mut table: Table<'_>, name: &str) -> Option<Workload> {
    let requests = table
        .require("requests")
        .and_then(|value| value.integer_in(1, REQUESTS_MAX));
    let hint_noise = match table.get("hint_noise") {
        Some(value) => value.number_in(0.0, 100.0),
        None => Some(0.0),
    };
    let correlation = match table.get("correlation") {
        Some(value) => value.probability(),
        None => Some(Probability::ZERO),
    };
    let slope = match table.get("slope") {
        Some(value) => value.number_in(0.01, 100.0),
        None => Some(10.0),
    };
    let users = whole(table.get("users"), 1, 1 << 31);
    let sessions_per_user = whole(table.get("sessions_per_user"), 1, 1 << 31);
    let tasks = read_tasks(&mut table, slope.unwrap_or(10.0));
    let world_languages = table.get("language").and_then(|value| read_shares(&value));
    let world_classes = table
        .get("data_class")
        .and_then(|value| read_shares(&value));
    let tenants = read_tenants(&mut table);
    if let (Some(_), false) = (table.get("users"), tenants.is_empty()) {
        table.error("`users` stands in each `[synthetic.tenant.*]` when there are tenants");
    }

    let mut languages = Names::default();
    let mut classes = Names::default();
    let drafts = tenants
        .iter()
        .filter_map(|(_, draft)| draft.languages.as_ref());
    for (name, _) in world_languages.iter().chain(drafts).flatten() {
        languages.index(name);
    }
    for (name, _) in world_classes.iter().flatten() {
        classes.index(name);
    }
    let spread = |shares: &[(String, f64)], names: &mut Names| {
        let mut all = vec![0.0; names.0.len()];
        for (name, share) in shares {
            let index = usize::from(names.index(name));
            if let Some(slot) = all.get_mut(index) {
                *slot = *share;
            }
        }
        all
    };
    let aligned = |shares: &[(String, f64)], names: &mut Names| Shares::new(&spread(shares, names));
    // How often each language occurs over all tenants; without one, last.
    let mut language_weights = vec![0.0; languages.0.len() + 1];
    let mut speakers: Vec<(f64, Option<&Vec<_>>)> = tenants
        .iter()
        .map(|(_, draft)| (draft.share, draft.languages.as_ref()))
        .collect();
    if speakers.is_empty() {
        speakers.push((1.0, None));
    }
    for (share, own) in speakers {
        match own.or(world_languages.as_ref()) {
            Some(shares) => {
                let shares = spread(shares, &mut languages);
                for (weight, language) in language_weights.iter_mut().zip(shares) {
                    *weight += share * language;
                }
            }
            None => language_weights[languages.0.len()] += share,
        }
    }
    let data_class_shares = world_classes
        .as_ref()
        .map(|shares| aligned(shares, &mut classes));
    let tenant_shares: Vec<f64> = tenants.iter().map(|(_, draft)| draft.share).collect();
    let (tenant_names, tenants): (Vec<String>, Vec<Tenant>) = tenants
        .into_iter()
        .map(|(name, draft)| {
            let tenant = Tenant {
                users: draft.users,
                languages: draft
                    .languages
                    .as_ref()
                    .map(|shares| aligned(shares, &mut languages)),
                data_class: draft.data_class.map(|class| classes.index(&class)),
            };
            (name, tenant)
        })
        .unzip();
    let language_shares = world_languages
        .as_ref()
        .map(|shares| aligned(shares, &mut languages));
    let routes = read_models(&mut table, &tasks, &languages.0, slope.unwrap_or(10.0));
    if languages.0.len() > NAMES_MAX || classes.0.len() > NAMES_MAX || tenants.len() > NAMES_MAX {
        table.error(format!(
            "at most {NAMES_MAX} tenants, languages and data classes are supported"
        ));
        return None;
    }
    table.finish();

    let shares: Vec<f64> = tasks.iter().map(|draft| draft.declared.share).collect();
    let mut task_names = Vec::with_capacity(tasks.len());
    let mut declared_tasks = Vec::with_capacity(tasks.len());
    let mut compiled = Vec::with_capacity(tasks.len());
    for draft in tasks {
        task_names.push(draft.name.value);
        declared_tasks.push(draft.declared);
        compiled.push(draft.task);
    }
    let tasks = compiled;
    let (route_names, routes): (Vec<String>, Vec<Answers>) = routes.into_iter().unzip();
    let example_pages = task_names
        .iter()
        .flat_map(|task| {
            route_names
                .iter()
                .map(move |route| name_key("examples", &format!("{task}\0{route}")) | 1 << 63)
        })
        .collect();
    let world = Synthetic {
        requests: requests?,
        slope: slope?,
        hint_noise: hint_noise?,
        correlation: correlation?,
        tools: tasks.iter().any(|task| task.tools > Probability::ZERO),
        tasks,
        task_shares: Shares::new(&shares),
        tenants,
        tenant_shares: Shares::new(&tenant_shares),
        languages: languages.0.len(),
        language_shares,
        data_class_shares,
        users: users.unwrap_or(0),
        sessions_per_user: sessions_per_user.unwrap_or(0),
        routes,
        normal: Quantiles::normal(),
        example_pages,
        declared: Declared {
            tasks: declared_tasks,
            languages: language_weights,
        },
    };
    Some(Workload {
        name: name.to_owned(),
        tasks: task_names,
        tenants: tenant_names,
        languages: languages.0,
        data_classes: classes.0,
        routes: route_names,
        world: World::Synthetic(Box::new(world)),
        notes: Vec::new(),
    })
}

fn whole(value: Option<Value<'_>>, low: u64, high: u64) -> Option<u32> {
    value
        .and_then(|value| value.integer_in(low, high))
        .and_then(|number| u32::try_from(number).ok())
}

/// Says so when shares do not add up.
fn check_sum(value: &Value<'_>, shares: impl Iterator<Item = f64>) {
    let sum: f64 = shares.sum();
    if (sum - 1.0).abs() > SHARE_SLACK {
        // Rounded for display only: .35 + .20 + … may be off by an ulp.
        let shown = (sum * 1e9).round() / 1e9;
        value.error(format!(
            "the shares in `{}` add up to {shown}, not 1",
            value.path()
        ));
    }
}

/// A table of name = share.
fn read_shares(value: &Value<'_>) -> Option<Vec<(String, f64)>> {
    let entries = value.table()?.entries();
    let shares: Vec<_> = entries
        .iter()
        .filter_map(|(name, share)| Some((name.value.clone(), share.probability()?.get())))
        .collect();
    if shares.len() == entries.len() {
        check_sum(value, shares.iter().map(|(_, share)| *share));
    }
    Some(shares)
}

fn read_tasks(table: &mut Table<'_>, slope: f64) -> Vec<TaskDraft> {
    let Some(value) = table.require("task") else {
        return Vec::new();
    };
    let Some(entries) = value.table().map(|mut table| table.entries()) else {
        return Vec::new();
    };
    if entries.is_empty() || entries.len() > TASKS_MAX {
        value.error(format!("a world has 1 to {TASKS_MAX} tasks"));
    }
    let tasks: Vec<_> = entries
        .iter()
        .take(TASKS_MAX)
        .filter_map(|(name, value)| read_task(name, value.table()?, slope))
        .collect();
    if tasks.len() == entries.len() {
        check_sum(&value, tasks.iter().map(|draft| draft.declared.share));
    }
    tasks
}

fn read_task(name: &At<String>, mut table: Table<'_>, slope: f64) -> Option<TaskDraft> {
    let share = table.require("share").and_then(|value| value.probability());
    let difficulty = table
        .require("difficulty")
        .and_then(|value| read_difficulty(&value))
        .unwrap_or(DifficultyLaw::Fixed(0.0));
    let tokens = table.require("tokens").and_then(|value| value.table());
    let (mut input, mut output, mut output_cap) = (None, None, Tokens::UNKNOWN);
    if let Some(mut tokens) = tokens {
        input = tokens
            .require("input")
            .and_then(|value| read_tokens(&value, true));
        output = tokens
            .require("output")
            .and_then(|value| read_tokens(&value, true));
        output_cap = whole(tokens.get("output_cap"), 1, TOKENS_MAX).into();
        tokens.finish();
    }
    let tools = match table.get("tools") {
        Some(value) => value.probability(),
        None => Some(Probability::ZERO),
    };
    table.finish();
    let input = input.unwrap_or(TokenLaw::Fixed(0.0));
    let output = output.unwrap_or(TokenLaw::Fixed(0.0));
    // A task that is half right still has a name for the skills to refer to.
    Some(TaskDraft {
        name: name.clone(),
        task: Task {
            difficulty: difficulty.compile(slope),
            input: Count::new(input.variate()),
            output: Count::new(output.variate()),
            output_cap,
            tools: tools.unwrap_or_default(),
        },
        declared: DeclaredTask {
            share: share.unwrap_or_default().get(),
            difficulty,
            input,
            output,
        },
    })
}

/// A table with exactly one of `kinds` as its key.
fn one_kind<'t>(value: &Value<'t>, kinds: &[&'static str]) -> Option<(&'static str, Value<'t>)> {
    let mut table = value.table()?;
    let entries = table.entries();
    let list = describe_list(kinds.iter().copied());
    let [(name, inner)] = entries.as_slice() else {
        value.error(format!(
            "`{}` must have exactly one of {list}",
            value.path()
        ));
        return None;
    };
    let Some(kind) = kinds.iter().find(|kind| **kind == name.value) else {
        table
            .context()
            .report(name.unknown("distribution", kinds.iter().copied()));
        return None;
    };
    Some((kind, inner.clone()))
}

/// A list of exactly two numbers.
fn pair<'t>(value: &Value<'t>, what: &str) -> Option<[Value<'t>; 2]> {
    let items = value.list()?;
    let count = items.len();
    let pair: Option<[Value<'t>; 2]> = items.try_into().ok();
    if pair.is_none() {
        value.error(format!(
            "`{}` must be two numbers, {what}, but has {count}",
            value.path()
        ));
    }
    pair
}

fn read_difficulty(value: &Value<'_>) -> Option<DifficultyLaw> {
    let (kind, inner) = one_kind(value, &["beta", "uniform", "fixed"])?;
    match kind {
        "beta" => {
            let [a, b] = pair(&inner, "a and b")?;
            let (a, b) = (
                a.number_in(SHAPE_MIN, SHAPE_MAX),
                b.number_in(SHAPE_MIN, SHAPE_MAX),
            );
            Some(DifficultyLaw::Beta { a: a?, b: b? })
        }
        "uniform" => {
            let [low, high] = pair(&inner, "low and high")?;
            let (low, high) = (low.number_in(0.0, 1.0), high.number_in(0.0, 1.0));
            let (low, high) = rising(&inner, low?, high?)?;
            Some(DifficultyLaw::Uniform { low, high })
        }
        _ => inner.number_in(0.0, 1.0).map(DifficultyLaw::Fixed),
    }
}

/// Two numbers that do not fall.
fn rising(value: &Value<'_>, low: f64, high: f64) -> Option<(f64, f64)> {
    if low > high {
        value.error(format!(
            "`{}` must rise, but {low} is above {high}",
            value.path()
        ));
        return None;
    }
    Some((low, high))
}

/// A number of tokens: a whole number, or a distribution. Mixtures do not nest.
fn read_tokens(value: &Value<'_>, mixtures: bool) -> Option<TokenLaw> {
    let count = |value: &Value<'_>| {
        value
            .integer_in(0, TOKENS_MAX)
            .map(|count| TokenLaw::Fixed(count as f64))
    };
    if value.is_number() {
        return count(value);
    }
    if !value.is_table() {
        value.error(format!(
            "`{}` must be a number of tokens or a distribution such as {{ lognormal = {{ p50 = 400, p95 = 2000 }} }}",
            value.path()
        ));
        return None;
    }
    let kinds: &[&'static str] = if mixtures {
        &["fixed", "lognormal", "uniform", "mixture"]
    } else {
        &["fixed", "lognormal", "uniform"]
    };
    let (kind, inner) = one_kind(value, kinds)?;
    read_token_kind(kind, &inner)
}

fn read_token_kind(kind: &str, inner: &Value<'_>) -> Option<TokenLaw> {
    let most = TOKENS_MAX as f64;
    match kind {
        "fixed" => inner
            .integer_in(0, TOKENS_MAX)
            .map(|count| TokenLaw::Fixed(count as f64)),
        "uniform" => {
            let [low, high] = pair(inner, "low and high")?;
            let (low, high) = (low.number_in(0.0, most), high.number_in(0.0, most));
            let (low, high) = rising(inner, low?, high?)?;
            Some(TokenLaw::Uniform { low, high })
        }
        "lognormal" => {
            let mut table = inner.table()?;
            let p50 = table
                .require("p50")
                .and_then(|value| value.number_in(1e-3, most));
            let p95 = table
                .require("p95")
                .and_then(|value| value.number_in(1e-3, most));
            table.finish();
            let (p50, p95) = (p50?, p95?);
            if p95 < p50 || p95 > SPREAD_MAX * p50 {
                inner.error(format!(
                    "`{}`: p95 must be p50 or more, and at most {SPREAD_MAX} times as much",
                    inner.path()
                ));
                return None;
            }
            Some(if p95 == p50 {
                TokenLaw::Fixed(p50)
            } else {
                TokenLaw::Lognormal { p50, p95 }
            })
        }
        _ => read_mixture(inner),
    }
}

fn read_mixture(value: &Value<'_>) -> Option<TokenLaw> {
    let items = value.list()?;
    if items.is_empty() || items.len() > 100 {
        value.error(format!("`{}` must have 1 to 100 parts", value.path()));
        return None;
    }
    let mut parts = Vec::with_capacity(items.len());
    for item in &items {
        let Some(mut table) = item.table() else {
            continue;
        };
        let weight = table
            .require("weight")
            .and_then(|value| value.probability());
        let kinds = ["fixed", "lognormal", "uniform"];
        let mut found: Vec<(&str, Value<'_>)> = kinds
            .iter()
            .filter_map(|kind| Some((*kind, table.get(kind)?)))
            .collect();
        table.finish();
        let law = match (found.pop(), found.is_empty()) {
            (Some((kind, inner)), true) => read_token_kind(kind, &inner),
            _ => {
                item.error(format!(
                    "`{}` must have exactly one of {}",
                    item.path(),
                    describe_list(kinds)
                ));
                None
            }
        };
        if let (Some(weight), Some(law)) = (weight, law) {
            parts.push((weight.get(), law));
        }
    }
    if parts.len() < items.len() {
        return None;
    }
    let sum: f64 = parts.iter().map(|(weight, _)| weight).sum();
    if (sum - 1.0).abs() > SHARE_SLACK {
        value.error(format!(
            "the weights in `{}` add up to {sum}, not 1",
            value.path()
        ));
        return None;
    }
    Some(TokenLaw::Mixture(parts))
}

fn read_tenants(table: &mut Table<'_>) -> Vec<(String, TenantDraft)> {
    let Some(value) = table.get("tenant") else {
        return Vec::new();
    };
    let Some(entries) = value.table().map(|mut table| table.entries()) else {
        return Vec::new();
    };
    let mut tenants = Vec::with_capacity(entries.len());
    for (name, value) in &entries {
        let Some(mut table) = value.table() else {
            continue;
        };
        let share = table.require("share").and_then(|value| value.probability());
        let users = match table.get("users") {
            Some(value) => whole(Some(value), 1, 1 << 31),
            None => Some(1_000),
        };
        let languages = table.get("language").and_then(|value| read_shares(&value));
        let data_class = table.get("data_class").and_then(|value| value.string());
        table.finish();
        if let (Some(share), Some(users)) = (share, users) {
            let draft = TenantDraft {
                share: share.get(),
                users,
                languages,
                data_class: data_class.map(|class| class.value),
            };
            tenants.push((name.value.clone(), draft));
        }
    }
    if tenants.len() == entries.len() && !tenants.is_empty() {
        check_sum(&value, tenants.iter().map(|(_, draft)| draft.share));
    }
    tenants
}

fn read_models(
    table: &mut Table<'_>,
    tasks: &[TaskDraft],
    languages: &[String],
    slope: f64,
) -> Vec<(String, Answers)> {
    let Some(value) = table.require("model") else {
        return Vec::new();
    };
    let Some(entries) = value.table().map(|mut table| table.entries()) else {
        return Vec::new();
    };
    if entries.is_empty() || entries.len() > ROUTES_MAX {
        value.error(format!("a world has 1 to {ROUTES_MAX} models"));
    }
    entries
        .iter()
        .take(ROUTES_MAX)
        .filter_map(|(name, value)| {
            let mut table = value.table()?;
            let skills = read_skills(&mut table, tasks)?;
            let shifts = read_shifts(&mut table, languages);
            table.finish();
            let mut factors = Vec::with_capacity(tasks.len() * (languages.len() + 1));
            for skill in &skills {
                for shift in &shifts {
                    factors.push(libm::exp(-slope * (skill + shift)));
                }
            }
            Some((name.value.clone(), Answers::new(&name.value, factors)))
        })
        .collect()
}

/// The skill for each task, in the order of the tasks.
fn read_skills(table: &mut Table<'_>, tasks: &[TaskDraft]) -> Option<Vec<f64>> {
    let value = table.require("skill")?;
    let mut skills = value.table()?;
    let known = || tasks.iter().map(|draft| draft.name.value.as_str());
    let mut found = vec![None; tasks.len()];
    for (name, skill) in skills.entries() {
        match known().position(|task| task == name.value) {
            Some(at) => found[at] = Some(skill.number_in(-5.0, 5.0).unwrap_or(0.0)),
            None => skills
                .context()
                .report(name.unknown("task", known().collect::<Vec<_>>())),
        }
    }
    let missing = known()
        .zip(&found)
        .filter(|(_, skill)| skill.is_none())
        .map(|(task, _)| task);
    if found.iter().any(Option::is_none) {
        value.error(format!(
            "`{}` has no skill for {}",
            value.path(),
            describe_list(missing)
        ));
    }
    Some(
        found
            .into_iter()
            .map(|skill| skill.unwrap_or(0.0))
            .collect(),
    )
}

/// What each language adds to the skill; the last entry is for requests without a language.
fn read_shifts(table: &mut Table<'_>, languages: &[String]) -> Vec<f64> {
    let mut shifts = vec![0.0; languages.len() + 1];
    let Some(mut named) = table.get("language").and_then(|value| value.table()) else {
        return shifts;
    };
    for (name, shift) in named.entries() {
        match languages.iter().position(|known| *known == name.value) {
            Some(at) => shifts[at] = shift.number_in(-5.0, 5.0).unwrap_or(0.0),
            None if languages.is_empty() => named.context().report(
                Diagnostic::error(format!("no traffic is in the language `{}`", name.value))
                    .at(name.location.clone())
                    .help("give shares of languages in `[synthetic.language]`"),
            ),
            None => named.context().report(name.unknown(
                "language",
                languages.iter().map(String::as_str).collect::<Vec<_>>(),
            )),
        }
    }
    shifts
}
