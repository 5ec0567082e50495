//! The schema of a policy file: one table, whose name is the kind.

use serde_json::{Value as Json, json};

use super::node::{
    Node, any_table, defined, flag, list, names, number, route, routes, share, table, text, whole,
    word, words,
};
use crate::policy::KINDS;
use crate::router::LEGS_MAX;
use crate::verify::CHECKS;

/// Largest number of tokens of a rule.
const TOKENS_MAX: u64 = 1 << 31;

/// The schema, without its definitions.
pub(super) fn schema() -> Node {
    defined(
        "A policy: one table, whose name is its kind. The file's name is the policy's name.",
        "policy",
    )
}

/// What the schema refers to. A policy is among it, for policies may stand around others.
pub(super) fn definitions() -> Vec<(&'static str, Json)> {
    let policy = kinds("A kind of policy; at most four may be nested.");
    vec![("policy", policy.json()), ("verifier", verifier().json())]
}

/// A table with one key, a kind of policy.
fn kinds(about: &str) -> Node {
    // A kind without keys of its own here would be a kind that somebody forgot: a test holds that against.
    table(
        about,
        KINDS
            .iter()
            .filter_map(|kind| Some((kind.name, of_kind(kind.name, kind.about)?))),
    )
    .one_key()
}

fn of_kind(kind: &str, about: &str) -> Option<Node> {
    Some(match kind {
        "static" => rules(about),
        "capability-cost" => capability_cost(about),
        "cascade" => table(
            about,
            [
                ("order", routes("Who is asked, in this order.").with("maxItems", LEGS_MAX).with("uniqueItems", true).required()),
                ("verifier", defined("Who says whether an answer is good enough.", "verifier").required()),
            ],
        ),
        "eval-driven" => table(
            about,
            [
                ("target", share("Least mean grade on the examples.").required()),
                ("examples", whole("Labelled examples for each task and route.", 1, 10_000_000).default(300)),
                ("otherwise", route("Who gets a task that no route is good enough for.").required()),
                ("routes", routes("Who may be picked; all routes unless given.")),
                ("picks", names("Tasks whose route is fixed; they need no examples.", "TASK", route("Its route."))),
                fallback(),
            ],
        ),
        "canary" => canary(about),
        "shadow" => table(
            about,
            [
                ("candidate", route("Who gets a copy. Nobody sees its answers.").required()),
                ("share", share("Share of the requests that is copied.").required()),
                ("task", list("Only requests of these tasks; all unless given.", text(""))),
                base(),
            ],
        ),
        "fixed" => table(
            about,
            [("route", route("Who gets everything.").required()), fallback()],
        ),
        "mix" => table(
            about,
            [
                ("weight", names("How often each route is drawn, relative to the others; at least one above 0.", "ROUTE", number("Its weight.").from(0).to(1e9)).with("minProperties", 1).required()),
                fallback(),
            ],
        ),
        "length" => table(
            about,
            [
                ("weak", route("Who answers short prompts.").required()),
                ("strong", route("Who answers long prompts, and those of unknown length.").required()),
                ("threshold", whole("Longest short prompt; the median of the labelled examples unless given. Characters where tokens are unknown.", 0, TOKENS_MAX).unit("tokens")),
            ],
        ),
        "task-means" => table(
            about,
            [("examples", whole("Labelled examples for each task and route.", 1, 10_000_000).default(1_000))],
        ),
        "latency-aware" => latency_aware(about),
        _ => return None,
    })
}

fn fallback() -> (&'static str, Node) {
    let about = "Who is asked, in order, when the route cannot take a request or fails.";
    let routes = list(about, text(""))
        .items(1, LEGS_MAX - 1)
        .with("uniqueItems", true);
    ("fallback", routes)
}

fn base() -> (&'static str, Node) {
    let about = "The policy that decides about everything else.";
    ("base", defined(about, "policy").required())
}

fn rules(about: &str) -> Node {
    let tokens = |about: &str| whole(about, 0, TOKENS_MAX).unit("tokens");
    let when = table(
        "Every condition that is given must hold; there must be one.",
        [
            ("task", words("One of these tasks.")),
            ("tenant", words("One of these tenants.")),
            ("language", words("One of these languages.")),
            ("tools", flag("Whether the request carries tools.")),
            (
                "input_tokens_min",
                tokens("The prompt has so many tokens or more."),
            ),
            (
                "input_tokens_max",
                tokens("The prompt has so many tokens or fewer."),
            ),
        ],
    )
    .some_key();
    table(
        about,
        [
            (
                "default",
                route("Who gets what no rule and no task is about.").required(),
            ),
            ("task", names("By task.", "TASK", route("Its route."))),
            (
                "rule",
                list(
                    "Rules, of which the first that holds decides, before `task`.",
                    table(
                        "",
                        [
                            ("when", when.required()),
                            ("route", route("Who gets the request then.").required()),
                        ],
                    ),
                )
                .with("maxItems", 10_000),
            ),
            fallback(),
        ],
    )
}

fn capability_cost(about: &str) -> Node {
    let skill = names(
        "Of this route, by task.",
        "TASK",
        number("P(right) = sigmoid(slope · (skill − difficulty))."),
    );
    table(
        about,
        [
            ("target", number("Least predicted probability of a right answer.").above(0).below(1).required()),
            ("slope", number("How sharply the probability falls with the difficulty.").above(0).default(10)),
            ("otherwise", route("Who gets what no route is predicted to answer well enough.").required()),
            ("skill", names("What the policy believes, by route. Others are not asked.", "ROUTE", skill).required()),
            ("output_tokens", names("Expected length of an answer, by task.", "TASK", number("Its length.").from(0).to(1e9).unit("tokens"))),
            ("latency_p50_s", names("Typical latency, by route.", "ROUTE", number("Its median.").above(0).unit("s"))),
            ("latency_max_s", number("Slower routes are left out; needs `latency_p50_s`.").above(0).unit("s")),
            ("usd_per_second", number("What a second of waiting costs; needs `latency_p50_s` of every route with a skill.").from(0).unit("USD/s").default(0)),
            fallback(),
        ],
    )
}

fn latency_aware(about: &str) -> Node {
    table(
        about,
        [
            (
                "routes",
                list(
                    "The routes it chooses among: only those that are good enough.",
                    text(""),
                )
                .items(2, LEGS_MAX)
                .with("uniqueItems", true)
                .required(),
            ),
            (
                "measure",
                word(
                    "What is compared: the time to the first token, or to the end.",
                    ["ttft", "total"],
                )
                .default("ttft"),
            ),
            (
                "quantile",
                number("Which quantile of the latencies.")
                    .above(0)
                    .to(1)
                    .default(0.5),
            ),
            (
                "window",
                whole("Attempts that are remembered for each route.", 1, 10_000).default(100),
            ),
            (
                "window_s",
                number("How long they are remembered.")
                    .above(0)
                    .to(604_800)
                    .unit("s")
                    .default(600),
            ),
            (
                "buffer",
                number("A route may be slower than the fastest by this share of its latency.")
                    .from(0)
                    .to(10)
                    .default(0.1),
            ),
            (
                "explore",
                share(
                    "Share of the requests that goes to a route at random, so that recovery shows.",
                )
                .default(0.02),
            ),
            (
                "failure_s",
                number("What a failed attempt counts as.")
                    .above(0)
                    .to(86_400)
                    .unit("s")
                    .default(30),
            ),
        ],
    )
}

fn canary(about: &str) -> Node {
    let step = table(
        "",
        [
            ("weight", number("Share of the units that get the candidate; at most 0.5 with a control. It rises from step to step.").above(0).to(1).required()),
            ("min_graded", whole("Graded answers of the candidate after which the next step begins.", 1, 1_000_000_000).required()),
        ],
    );
    let errors = || {
        let chance = |about: &str, default: f64| number(about).above(0).below(1).default(default);
        [
            (
                "alpha",
                chance("Chance to withdraw a sound candidate.", 0.05),
            ),
            ("beta", chance("Chance to keep a bad one.", 0.10)),
        ]
    };
    let rate = |about: &str| number(about).above(0).below(1).required();
    let sprt = [
        ("p0", rate("Share of wrong answers that is fine.")),
        (
            "p1",
            rate("Share of wrong answers that is too high; above `p0`."),
        ),
    ];
    let control = [(
        "ratio",
        number("So many times the control's wrong answers are too many.")
            .from(1.01)
            .to(1_000)
            .required(),
    )];
    let abort = table(
        "When it is withdrawn.",
        [
            (
                "sprt",
                table(
                    "Wald's sequential test of the share of wrong answers.",
                    sprt.into_iter().chain(errors()),
                ),
            ),
            (
                "control",
                table(
                    "The same, against the control that answers as much of the traffic.",
                    control.into_iter().chain(errors()),
                ),
            ),
        ],
    )
    .some_key();
    table(
        about,
        [
            ("candidate", route("Who is let in.").required()),
            (
                "weight",
                share("Share of the units that get the candidate's answers, for good."),
            ),
            (
                "steps",
                list("Or a ramp, in place of `weight`.", step).items(1, 12),
            ),
            (
                "control",
                flag("With `steps`: whether an equal share of the others is watched beside it.")
                    .default(true),
            ),
            (
                "then",
                word(
                    "With `steps`: what comes after the last one.",
                    ["stay", "promote"],
                )
                .default("stay"),
            ),
            ("abort", abort),
            (
                "stick_to",
                word(
                    "Whose requests stay together.",
                    ["user", "tenant", "session", "request"],
                )
                .default("user"),
            ),
            fallback(),
            base(),
        ],
    )
    .exactly_one_of(&["weight", "steps"])
    .with(
        "dependentRequired",
        json!({ "steps": ["abort"], "abort": ["steps"], "control": ["steps"], "then": ["steps"] }),
    )
}

/// A table with one key, a kind of verifier.
fn verifier() -> Node {
    table(
        "Who says whether an answer is good enough: one of these.",
        CHECKS
            .iter()
            .filter_map(|kind| Some((kind.name, of_check(kind.name)?))),
    )
    .one_key()
}

fn of_check(kind: &str) -> Option<Node> {
    let rates = |correct: &'static str, wrong: &'static str| {
        [
            (
                correct,
                share("Of right answers, how many pass.").required(),
            ),
            (wrong, share("Of wrong answers, how many pass.").required()),
        ]
    };
    let simulate = || {
        let specimens = [
            (
                "passes",
                text("An answer that passes the check.").required(),
            ),
            ("fails", text("An answer that fails it.").required()),
        ];
        let keys = specimens
            .into_iter()
            .chain(rates("pass_if_correct", "pass_if_wrong"));
        (
            "simulate",
            table(
                "For stand-ins, whose answers have no text of their own: two answers to show, and how often each.",
                keys,
            ),
        )
    };
    Some(match kind {
        "simulated" => table(
            "Accepts right and wrong answers with fixed probabilities. Reads nothing.",
            rates("accept_if_correct", "accept_if_wrong"),
        ),
        "pattern" => table(
            "A regular expression.",
            [
                (
                    "matches",
                    text("It must match somewhere in the answer; `^` and `$` for all of it.")
                        .required(),
                ),
                simulate(),
            ],
        ),
        "json_schema" => table(
            "JSON by a JSON Schema, which may refer to nothing outside.",
            [
                ("schema", any_table("The schema, as a table.")),
                ("schema_json", text("The schema, as JSON text.")),
                simulate(),
            ],
        )
        .exactly_one_of(&["schema", "schema_json"]),
        "exact" => table(
            "A given text, without the white space around it.",
            [
                ("text", text("The text.").with("minLength", 1).required()),
                (
                    "ignore_case",
                    flag("Whether capitals do not matter.").default(false),
                ),
                simulate(),
            ],
        ),
        "number" => table(
            "The last number in the answer: in a range, or near a value.",
            [
                ("min", number("Least.")),
                ("max", number("Most.")),
                ("value", number("Or this value.")),
                (
                    "tolerance",
                    number("How far from `value` it may be.").from(0).default(0),
                ),
                simulate(),
            ],
        )
        .with(
            "anyOf",
            json!([{ "required": ["min"] }, { "required": ["max"] }, { "required": ["value"] }]),
        )
        .with("dependentRequired", json!({ "tolerance": ["value"] })),
        "command" => table(
            "A program that gets the answer on its standard input and ends with 0 if it is good; needs --allow-commands.",
            [
                (
                    "program",
                    list("The program and its arguments.", text(""))
                        .with("minItems", 1)
                        .required(),
                ),
                (
                    "timeout_s",
                    number("It is ended after this time, and nobody knows.")
                        .from(0.01)
                        .to(300)
                        .unit("s")
                        .default(5),
                ),
                simulate(),
            ],
        ),
        "judge" => table(
            "Another route that is asked about the answer; what it costs is counted.",
            [
                ("route", route("Who judges.").required()),
                (
                    "question",
                    text("What it is asked; request and answer follow.").required(),
                ),
                ("accept", text("The word that accepts.").default("yes")),
                ("reject", text("The word that rejects.").default("no")),
                (
                    "prompt_tokens",
                    whole(
                        "What the question adds to the request and the answer.",
                        0,
                        1_000_000,
                    )
                    .unit("tokens")
                    .default(200),
                ),
                (
                    "output_tokens",
                    whole("Length of the verdict.", 0, 1_000_000)
                        .unit("tokens")
                        .default(5),
                ),
                (
                    "simulate",
                    table(
                        "How often it accepts answers of stand-ins.",
                        rates("accept_if_correct", "accept_if_wrong"),
                    ),
                ),
            ],
        ),
        _ => return None,
    })
}

/// Whether every kind of policy and of verifier has its keys here.
#[cfg(test)]
pub(super) fn missing_kinds() -> Vec<&'static str> {
    let policies = KINDS.iter().filter(|kind| of_kind(kind.name, "").is_none());
    let checks = CHECKS.iter().filter(|kind| of_check(kind.name).is_none());
    policies
        .map(|kind| kind.name)
        .chain(checks.map(|kind| kind.name))
        .collect()
}
