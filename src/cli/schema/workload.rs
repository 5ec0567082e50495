//! The schemas of a workload file and of a columns file. Times are in `timeline`.

use serde_json::Value as Json;

use super::node::{Node, defined, list, names, number, share, table, text, whole, words};
use crate::workload::column_roles;

/// Largest number of tokens that a file may ask for.
const TOKENS_MAX: u64 = 1_000_000_000;
/// Most users or conversations.
const UNITS_MAX: u64 = 1 << 31;

/// The schema of a workload file, without its definitions.
pub(super) fn schema() -> Node {
    table(
        "A workload: requests, and what every route would have answered. Drawn from a model or recorded, one of the two.",
        [
            ("synthetic", synthetic()),
            ("recorded", recorded()),
            ("timeline", super::timeline::schema()),
        ],
    )
    .exactly_one_of(&["synthetic", "recorded"])
}

/// What it refers to.
pub(super) fn definitions() -> Vec<(&'static str, Json)> {
    vec![
        ("tokens", tokens(true).json()),
        ("plain_tokens", tokens(false).json()),
        ("difficulty", difficulty().json()),
        ("latency", super::timeline::latency_json()),
        ("lasting", super::timeline::lasting_json()),
        ("process", super::timeline::process_json()),
        ("daily", super::timeline::daily_json()),
    ]
}

/// The schema of a columns file, for `--columns`.
pub(super) fn columns() -> Node {
    table(
        "Which columns of a data file mean what, for --columns; the usual names are found without it.",
        common().into_iter().chain(roles()),
    )
}

fn synthetic() -> Node {
    let shares = |about: &str, name: &str| names(about, name, share("Its share of the requests."));
    table(
        "A drawn world: tasks, perhaps tenants and languages, and models with their skills.",
        [
            ("requests", whole("Requests of one replicate, unless --requests says otherwise.", 1, 1 << 40).required()),
            ("hint_noise", number("A policy sees the difficulty plus a normal error with this standard deviation.").from(0).to(100).default(0)),
            ("correlation", share("With this probability all models of a request share one uniform: 0 they err independently, 1 together.").default(0)),
            ("slope", number("P(right answer) = sigmoid(slope · (skill − difficulty)).").from(0.01).to(100).default(10)),
            ("users", whole("How many different users requests come from; nobody knows them unless given. With tenants, each has its own number.", 1, UNITS_MAX)),
            ("sessions_per_user", whole("Conversations of each user; there are none unless given.", 1, UNITS_MAX)),
            ("task", names("The tasks; their shares add up to 1.", "TASK", task()).with("minProperties", 1).with("maxProperties", 1_000).required()),
            ("language", shares("Languages; the shares add up to 1.", "LANGUAGE")),
            ("data_class", shares("Classes of data; the shares add up to 1. Each needs a rule in the route catalogue.", "CLASS")),
            ("tenant", names("Tenants; their shares add up to 1.", "TENANT", tenant())),
            ("model", names("What each route answers, by the route's name.", "ROUTE", model()).with("minProperties", 1).required()),
        ],
    )
}

fn task() -> Node {
    let tokens = table(
        "Lengths.",
        [
            ("input", defined("Of the prompt.", "tokens").required()),
            ("output", defined("Of the answer.", "tokens").required()),
            (
                "output_cap",
                whole(
                    "Most tokens that the caller lets the answer have; counts for the window.",
                    1,
                    TOKENS_MAX,
                )
                .unit("tokens"),
            ),
        ],
    );
    table(
        "A kind of request.",
        [
            ("share", share("Of the requests.").required()),
            (
                "difficulty",
                defined("How hard its requests are: 0 easy, 1 hard.", "difficulty").required(),
            ),
            ("tokens", tokens.required()),
            (
                "tools",
                share("Share of its requests that carries tools.").default(0),
            ),
        ],
    )
}

fn tenant() -> Node {
    table(
        "A customer.",
        [
            ("share", share("Of the requests.").required()),
            (
                "users",
                whole(
                    "How many different users its requests come from.",
                    1,
                    UNITS_MAX,
                )
                .default(1_000),
            ),
            (
                "language",
                names(
                    "Its languages in place of those of the world.",
                    "LANGUAGE",
                    share("Its share."),
                ),
            ),
            ("data_class", text("The class of all its data.")),
        ],
    )
}

fn model() -> Node {
    let skill = number("Above the difficulty it is mostly right, below mostly wrong.")
        .from(-5)
        .to(5);
    let shift = number("Added to the skill.").from(-5).to(5);
    table(
        "How good a route is.",
        [
            (
                "skill",
                names("By task, for every task.", "TASK", skill).required(),
            ),
            (
                "language",
                names("For requests in a language.", "LANGUAGE", shift),
            ),
        ],
    )
}

fn pair(about: &str, item: Node) -> Node {
    list(about, item).items(2, 2)
}

fn difficulty() -> Node {
    table(
        "A distribution of difficulties: one of these.",
        [
            (
                "beta",
                pair(
                    "Beta with these two shapes.",
                    number("").from(0.05).to(1_000),
                ),
            ),
            ("uniform", pair("Uniform between low and high.", share(""))),
            ("fixed", share("Always this.")),
        ],
    )
    .one_key()
}

/// A number of tokens or a distribution of them; mixtures do not nest.
fn tokens(mixtures: bool) -> Node {
    let most = TOKENS_MAX;
    let distribution = |more: Vec<(&'static str, Node)>| {
        let percentile = |about: &str| number(about).from(1e-3).to(most).unit("tokens").required();
        let lognormal = table(
            "Lognormal by two of its percentiles.",
            [
                ("p50", percentile("The median.")),
                (
                    "p95",
                    percentile(
                        "The 95th percentile; at least the median, at most 10,000 times as much.",
                    ),
                ),
            ],
        );
        let plain = [
            ("fixed", whole("Always so many.", 0, most).unit("tokens")),
            ("lognormal", lognormal),
            (
                "uniform",
                pair("Uniform between low and high.", number("").from(0).to(most)).unit("tokens"),
            ),
        ];
        plain.into_iter().chain(more).collect::<Vec<_>>()
    };
    if !mixtures {
        let weight = share("How often it is this part; the weights add up to 1.").required();
        return table(
            "A part of a mixture.",
            distribution(vec![("weight", weight)]),
        )
        .exactly_one_of(&["fixed", "lognormal", "uniform"]);
    }
    let parts = list("One of several, by weight.", defined("", "plain_tokens")).items(1, 100);
    super::node::either(
        "A number of tokens or a distribution.",
        [
            whole("", 0, most).unit("tokens"),
            table("One of these.", distribution(vec![("mixture", parts)])).one_key(),
        ],
    )
}

fn recorded() -> Node {
    let columns = table(
        "Which column is what; the usual names are found without it. `{route}` stands for a route's name.",
        roles(),
    );
    let own = [
        (
            "file",
            text("The data: CSV, TSV, JSONL or Parquet, also .gz; relative to this file.")
                .with("minLength", 1)
                .required(),
        ),
        ("columns", columns),
    ];
    table(
        "Outcomes of every route on the same requests, from a data file.",
        own.into_iter().chain(common()),
    )
}

/// What `[recorded]` and a columns file have in common.
fn common() -> [(&'static str, Node); 4] {
    let split = table(
        "Which rows are training rows: policies learn from them, and they are never judged.",
        [
            ("column", text("The column that says so.").required()),
            ("train", words("The values of training rows.").required()),
        ],
    );
    [
        (
            "routes",
            list("The routes, where columns do not tell.", text(""))
                .with("minItems", 1)
                .with("uniqueItems", true),
        ),
        (
            "where",
            names(
                "Only rows that have one of these values in each column are read.",
                "COLUMN",
                words("The values."),
            ),
        ),
        ("split", split),
        (
            "missing",
            words("Texts that mean \"no value\", beside the empty cell."),
        ),
    ]
}

fn roles() -> Vec<(&'static str, Node)> {
    column_roles()
        .map(|(key, usual)| {
            let usual: Vec<String> = usual.iter().map(|name| format!("`{name}`")).collect();
            let about = format!("{} Usual names: {}.", role(key), usual.join(", "));
            (key, text(&about))
        })
        .collect()
}

/// What a column of this role holds; nothing for one that nobody described, which a test finds.
fn role(key: &str) -> &'static str {
    match key {
        "id" => "What tells requests apart.",
        "task" => "The kind of request.",
        "tenant" => "Whose it is.",
        "language" => "Its language.",
        "data_class" => "The class of its data.",
        "user" => "Who asked.",
        "session" => "The conversation it belongs to.",
        "tools" => "Whether it carries tools.",
        "difficulty_hint" => "How hard it seems before anybody answered, 0 to 1.",
        "input_tokens" => "Tokens of the prompt.",
        "output_tokens" => "Tokens of the answer; one column, or one for each route.",
        "output_cap" => "Most tokens that the caller lets the answer have.",
        "prompt_chars" => "Characters of the prompt, where tokens are unknown.",
        "grade" => "How right the answer is, 0 to 1; one column for each route.",
        "verifier_draw" => {
            "A uniform draw: a simulated verifier accepts below its rate; one column for each route."
        }
        "cost" => "What the answer cost, in USD; one column for each route.",
        "latency_ms" => "How long the answer took, in milliseconds; one column for each route.",
        "route" => "The route a row is about, in files with one row for each request and route.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_of_a_column_is_described() {
        for (key, _) in column_roles() {
            assert!(!role(key).is_empty(), "{key}");
        }
    }
}
