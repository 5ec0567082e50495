//! Rules that a person wrote: conditions in order, then a route per task, then a default.

use super::choice::{Menu, Plans, read_fallback};
use super::{Ask, Asks, Decision, Kind, Names, Policy, Setup, Spec, Why};
use crate::router::{Plan, RouteId};
use crate::source::{At, Location, Table, Value};

pub(super) const KIND: Kind = Kind {
    name: "static",
    about: "Rules by task, tenant, language, tools and prompt length, written by hand. Needs somebody who knows \
            which model is good enough for what. Fails silently when traffic or models change under the rules.",
    example: "[static]\ndefault = \"large\"\ntask = { faq = \"small\", summarize = \"medium\" }\n\n[[static.rule]]\nwhen = { tools = true, input_tokens_min = 8000 }\nroute = \"large\"\n",
    read,
};

/// Most rules in one file.
const RULES_MAX: usize = 10_000;

#[derive(Debug)]
struct StaticSpec {
    default: At<RouteId>,
    tasks: Vec<(At<String>, At<RouteId>)>,
    rules: Vec<Rule>,
    fallback: Vec<RouteId>,
}

#[derive(Debug)]
struct Rule {
    when: When,
    route: RouteId,
    location: Location,
}

/// Every condition that is given must hold.
#[derive(Debug, Default)]
struct When {
    task: Option<Vec<At<String>>>,
    tenant: Option<Vec<At<String>>>,
    language: Option<Vec<At<String>>>,
    tools: Option<bool>,
    input_tokens_min: Option<u32>,
    input_tokens_max: Option<u32>,
}

fn read(mut table: Table<'_>, names: &Names<'_>) -> Option<Box<dyn Spec>> {
    let route = |value: &Value<'_>| {
        names.route(value).map(|route| At {
            value: route,
            location: value.location(),
        })
    };
    let default = table.require("default").and_then(|value| route(&value));
    let mut tasks = Vec::new();
    if let Some(mut inner) = table.get("task").and_then(|value| value.table()) {
        for (task, value) in inner.entries() {
            if let Some(route) = route(&value) {
                tasks.push((task, route));
            }
        }
    }
    let mut rules = Vec::new();
    if let Some(list) = table.get("rule") {
        let items = list.list().unwrap_or_default();
        if items.len() > RULES_MAX {
            list.error(format!("at most {RULES_MAX} rules fit in one policy"));
        }
        for item in items.iter().take(RULES_MAX) {
            rules.extend(read_rule(item, names));
        }
    }
    let fallback = read_fallback(&mut table, names);
    table.finish();
    Some(Box::new(StaticSpec {
        default: default?,
        tasks,
        rules,
        fallback,
    }))
}

fn read_rule(item: &Value<'_>, names: &Names<'_>) -> Option<Rule> {
    let mut table = item.table()?;
    let route = table.require("route").and_then(|value| names.route(&value));
    let when = table.require("when").and_then(|value| {
        let mut table = value.table()?;
        let words = |value: Value<'_>| {
            // One word is a list of one: `task = "faq"` is what people write first.
            if value.is_str() {
                value.string().map(|word| vec![word])
            } else {
                value.strings()
            }
        };
        let when = When {
            task: table.get("task").and_then(words),
            tenant: table.get("tenant").and_then(words),
            language: table.get("language").and_then(words),
            tools: table.get("tools").and_then(|value| value.boolean()),
            input_tokens_min: table
                .get("input_tokens_min")
                .and_then(|value| value.integer_in(0, 1 << 31))
                .map(|n| n as u32),
            input_tokens_max: table
                .get("input_tokens_max")
                .and_then(|value| value.integer_in(0, 1 << 31))
                .map(|n| n as u32),
        };
        if table.is_empty() {
            table.error("a rule without conditions would always hold; use `default` for that");
        }
        if let (Some(low), Some(high)) = (when.input_tokens_min, when.input_tokens_max)
            && low > high
        {
            table.error(format!(
                "no prompt has at least {low} and at most {high} tokens"
            ));
        }
        table.finish();
        Some(when)
    });
    let location = item.location();
    table.finish();
    Some(Rule {
        when: when?,
        route: route?,
        location,
    })
}

impl Spec for StaticSpec {
    fn kind(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        let plans = Plans::new(setup.catalogue, &self.fallback);
        let mut reasons = vec![format!("`default` ({})", self.default.location.short())];
        let decision = |route: RouteId, reason: usize| Decision {
            serve: plans.of(route),
            mirror: None,
            why: Why(reason as u32),
        };
        let mut by_task = vec![decision(self.default.value, 0); setup.tasks.len()];
        for (task, route) in &self.tasks {
            if let Some(index) = setup.task(task) {
                reasons.push(format!(
                    "`task.{}` ({})",
                    task.value,
                    route.location.short()
                ));
                by_task[index as usize] = decision(route.value, reasons.len() - 1);
            }
        }
        let mut rules = Vec::new();
        for rule in &self.rules {
            let task = indices(&rule.when.task, |name| setup.task(name));
            let tenant = indices(&rule.when.tenant, |name| setup.tenant(name));
            let language = indices(&rule.when.language, |name| setup.language(name));
            reasons.push(format!("the rule at {}", rule.location.short()));
            rules.push(BuiltRule {
                task,
                tenant,
                language,
                tools: rule.when.tools,
                input_tokens_min: rule.when.input_tokens_min,
                input_tokens_max: rule.when.input_tokens_max,
                decision: decision(rule.route, reasons.len() - 1),
                on_menu: 0,
            });
        }
        let mut menu = Menu::new(&by_task);
        for rule in &mut rules {
            rule.on_menu = menu.add(&rule.decision);
        }
        Box::new(Static {
            by_task,
            menu,
            rules,
            reasons,
        })
    }

    fn routes(&self) -> Vec<RouteId> {
        let mut routes = vec![self.default.value];
        routes.extend(self.tasks.iter().map(|(_, route)| route.value));
        routes.extend(self.rules.iter().map(|rule| rule.route));
        routes.extend(&self.fallback);
        routes
    }
}

/// Indices of names in the workload; names that never occur are left out, so that a condition on
/// nothing else never holds.
fn indices(
    names: &Option<Vec<At<String>>>,
    mut find: impl FnMut(&At<String>) -> Option<u16>,
) -> Option<Vec<u16>> {
    let names = names.as_ref()?;
    Some(names.iter().filter_map(&mut find).collect())
}

#[derive(Clone, Debug)]
struct BuiltRule {
    task: Option<Vec<u16>>,
    tenant: Option<Vec<u16>>,
    language: Option<Vec<u16>>,
    tools: Option<bool>,
    input_tokens_min: Option<u32>,
    input_tokens_max: Option<u32>,
    decision: Decision,
    /// Which plan of the menu that is.
    on_menu: u8,
}

impl BuiltRule {
    fn holds(&self, ask: &Ask) -> bool {
        let among = |list: &Option<Vec<u16>>, value: u16| {
            list.as_ref().is_none_or(|list| list.contains(&value))
        };
        // A prompt of unknown length meets no bound on its length.
        let tokens = ask.need.input_tokens.get();
        among(&self.task, ask.task)
            && among(&self.tenant, ask.tenant)
            && among(&self.language, ask.language)
            && self.tools.is_none_or(|tools| tools == ask.need.tools)
            && self
                .input_tokens_min
                .is_none_or(|low| tokens.is_some_and(|n| n >= low))
            && self
                .input_tokens_max
                .is_none_or(|high| tokens.is_some_and(|n| n <= high))
    }
}

#[derive(Clone, Debug)]
struct Static {
    by_task: Vec<Decision>,
    /// Of `by_task`, then of the rules.
    menu: Menu,
    rules: Vec<BuiltRule>,
    reasons: Vec<String>,
}

impl Policy for Static {
    #[inline]
    fn plan(&mut self, ask: &Ask) -> Decision {
        match self.rules.iter().find(|rule| rule.holds(ask)) {
            Some(rule) => rule.decision,
            None => self.by_task[ask.task as usize],
        }
    }

    fn menu(&self) -> &[Plan] {
        self.menu.plans()
    }

    fn pick_all(&self, asks: &Asks<'_>, picks: &mut [u8]) {
        self.menu.pick_by_task(asks, picks);
        if self.rules.is_empty() {
            return;
        }
        for (i, pick) in picks.iter_mut().enumerate() {
            let ask = asks.get(i);
            if let Some(rule) = self.rules.iter().find(|rule| rule.holds(&ask)) {
                *pick = rule.on_menu;
            }
        }
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn explain(&self, _ask: &Ask, why: Why) -> String {
        self.reasons[why.0 as usize].clone()
    }
}
