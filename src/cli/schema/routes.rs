//! The schema of a route catalogue, `routes.toml`.

use serde_json::{Value as Json, json};

use super::node::{
    Node, date, defined, either, flag, list, names, number, routes as texts, table, text, whole,
    word,
};
use crate::catalogue::ProviderKind;
use crate::router::{FaultKind, preset};

/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Longest time of `[router]`: a day.
const SECONDS_MAX: f64 = 86_400.0;

pub(super) fn schema() -> Node {
    table(
        "The route catalogue: what each route costs, reads and may see, and how the router behaves.",
        [
            (
                "route",
                named(
                    names("One table for each route.", "ROUTE", route()).with("minProperties", 1),
                )
                .required(),
            ),
            ("require", require().required()),
            (
                "provider",
                named(names(
                    "Providers beside the built-in ones, or under a name of your own.",
                    "PROVIDER",
                    provider(),
                )),
            ),
            ("router", router()),
        ],
    )
}

fn named(node: Node) -> Node {
    node.with(
        "propertyNames",
        json!({ "minLength": 1, "maxLength": NAME_CHARS_MAX }),
    )
}

fn route() -> Node {
    let price = |about: &str| number(about).from(0).to(1e9).unit("USD per million tokens");
    table(
        "A model at a provider.",
        [
            ("provider", text("Who serves it: `openai`, `anthropic`, `gemini`, `compatible`, `ollama`, or the name of a `[provider.NAME]`.").required()),
            ("model", text("The model id as the provider spells it; name a dated snapshot, for an alias changes under you.").required()),
            ("region", text("Where the endpoint stands. Incidents and limits may name it; no rule about data reads it.")),
            ("residency", texts("Everywhere its data may go; the rules in `[require]` read this.").required()),
            (
                "usd_per_mtok",
                table(
                    "List prices; at most six decimals.",
                    [
                        ("input", price("Prompt tokens.").required()),
                        ("output", price("Answer tokens.").required()),
                        ("cached_input", price("Prompt tokens that the provider has cached; as `input` unless given.")),
                        ("cache_write", price("Prompt tokens that are written to the cache; as `input` unless given.")),
                        ("reasoning", price("Reasoning tokens; as `output` unless given.")),
                    ],
                )
                .required(),
            ),
            ("priced_on", date("The day somebody read the price.")),
            ("context_tokens", whole("Prompt and answer together; longer requests skip the route. Unknown unless given.", 1, 1_000_000_000).unit("tokens")),
            ("tools", flag("Whether it can be given tools.").default(true)),
            ("local", flag("Whether it runs on your own machines, so that no data leaves them.").default(false)),
        ],
    )
}

fn provider() -> Node {
    table(
        "A server that speaks one of the known wire formats.",
        [
            ("kind", word("Its wire format.", ProviderKind::ALL.map(|(name, _)| name)).required()),
            ("base_url", text("Where it is; the vendor's own address unless given.").with("pattern", "^https?://")),
            ("api_key_env", text("Name of the environment variable that holds the key, in capitals. Never the key itself.").with("pattern", "^[A-Z0-9_]+$")),
        ],
    )
}

fn require() -> Node {
    let rule = |about: &str| {
        table(
            about,
            [
                (
                    "residency",
                    either(
                        "Regions that data may go to, of those that routes name; or \"anywhere\".",
                        [word("", ["anywhere"]), texts("")],
                    )
                    .required(),
                ),
                (
                    "local_only",
                    flag("Whether only routes on your own machines will do.").default(false),
                ),
            ],
        )
    };
    table(
        "Where data may go. A request must satisfy its tenant's rule, or the default, and that of its data class.",
        [
            (
                "default",
                rule("Of every tenant without a rule of its own.").required(),
            ),
            (
                "tenant",
                names("By tenant.", "TENANT", rule("In place of the default.")),
            ),
            (
                "data_class",
                names(
                    "By data class.",
                    "CLASS",
                    rule("Beside the tenant's rule or the default."),
                ),
            ),
        ],
    )
}

/// A time of `[router]`.
fn seconds(about: &str) -> Node {
    number(about).above(0).to(SECONDS_MAX).unit("s")
}

fn router() -> Node {
    let kinds = || FaultKind::ALL.map(FaultKind::name);
    table(
        "How often, how long, and after which failures. A preset sets all of it; what stands beside it holds in its place.",
        [
            ("preset", word("Documented defaults of other routers.", preset::PRESETS.iter().map(|preset| preset.name))),
            ("attempts_max", whole("Attempts of one call at one route, the first included.", 1, 100).default(2)),
            ("retries_per_call", whole("Retries of one call at all routes together; no such limit unless given.", 0, 255)),
            ("deadline_s", seconds("Longest time of a whole call.").default(180)),
            ("ttft_max_s", seconds("Longest wait for the first token of an attempt.").default(30)),
            ("gap_max_s", seconds("Longest wait between two pieces of a stream.").default(30)),
            ("attempt_max_s", seconds("Longest time of a whole attempt.").default(120)),
            (
                "wait",
                table(
                    "How long it waits before it tries the same route again.",
                    [
                        ("base_s", seconds("The first wait.").default(0.5)),
                        ("factor", whole("Each next wait is so many times the one before.", 1, 10).default(2)),
                        ("cap_s", seconds("The waits grow to this.").default(8)),
                        ("jitter", word("How much of a wait is drawn: none, all, or half.", ["none", "full", "equal"]).default("equal")),
                        ("extra_max_s", number("Up to this much is added.").from(0).to(SECONDS_MAX).unit("s").default(0.1)),
                        ("hint", word("What becomes of a provider's `retry-after`: it holds if it is longer, instead, or not at all.", ["longer", "instead", "ignored"]).default("longer")),
                        ("wait_max_s", seconds("A longer wait is not waited: the call goes on elsewhere.").default(10)),
                    ],
                ),
            ),
            (
                "breaker",
                either(
                    "Whom it stops to ask after failures in a row; `false` for nobody.",
                    [
                        flag(""),
                        table(
                            "",
                            [
                                ("failures", whole("So many in a row.", 1, 1_000_000).default(3)),
                                ("cooldown_s", seconds("How long nobody is asked; then one trial.").default(30)),
                                ("scope", word("What is not asked.", ["route", "credential", "provider"]).default("route")),
                                ("stops_retries", flag("Whether calls that wait for a retry there give up when it opens.").default(true)),
                            ],
                        ),
                    ],
                ),
            ),
            (
                "cooldown",
                either(
                    "Whom it leaves alone after a single failure of these kinds; `false` for nobody.",
                    [
                        flag(""),
                        table(
                            "",
                            [
                                ("base_s", seconds("How long where the provider gives no hint; not at all unless given.")),
                                ("cooldown_max_s", seconds("Longest.").default(600)),
                                ("use_hint", flag("Whether the provider's `retry-after` says how long.").default(true)),
                                ("kinds", list("After which failures.", word("", kinds())).default(json!(["rate_limit"]))),
                            ],
                        ),
                    ],
                ),
            ),
            (
                "retry_budget",
                either(
                    "Retries as a share of the traffic, of the calls lately or of those in progress; `false` for no budget.",
                    [
                        flag(""),
                        table(
                            "Of the calls lately (Finagle's form).",
                            [
                                ("percent", whole("Retries per hundred calls.", 0, 1_000).default(20)),
                                ("reserve_per_s", whole("Retries that are always allowed.", 0, 1_000_000).unit("1/s").default(10)),
                                ("window_s", number("How long back calls count.").from(0.1).to(3_600).unit("s").default(10)),
                            ],
                        )
                        .some_key(),
                        table(
                            "Of the calls in progress (Envoy's form).",
                            [
                                ("in_flight_percent", whole("Retries per hundred calls in progress.", 0, 1_000).default(20)),
                                ("reserve", whole("Retries at a time that are always allowed.", 0, 1_000_000).default(3)),
                            ],
                        )
                        .some_key(),
                    ],
                ),
            ),
            (
                "fault",
                table(
                    "By kind of failure, what follows from it.",
                    kinds().map(|kind| (kind, defined("What follows from it.", "fault"))),
                ),
            ),
        ],
    )
}

/// What the schema refers to.
pub(super) fn definitions() -> Vec<(&'static str, Json)> {
    vec![("fault", fault().json())]
}

fn fault() -> Node {
    table(
        "What follows from a failure of this kind.",
        [
            ("retry", flag("Whether the same route may be tried again.")),
            ("fail_over", flag("Whether the next route may be tried.")),
            (
                "counts",
                flag("Whether it counts against the health of whom it says something about."),
            ),
            ("alert", flag("Whether somebody should be told.")),
            (
                "scope",
                word(
                    "About whom it says something.",
                    ["request", "route", "credential", "provider"],
                ),
            ),
        ],
    )
}
