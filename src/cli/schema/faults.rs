//! The schema of a fault script, for `--faults`.

use serde_json::json;

use super::node::{Node, flag, list, names, number, share, table, text, whole, word, words};
use crate::router::FaultKind;
use crate::standin::faults::RULES_MAX;

/// What a rule may do, one key each.
const ACTS: [&str; 9] = [
    "status",
    "kind",
    "error_frame",
    "cut",
    "reset",
    "stall",
    "slow_first_token_s",
    "broken_frame",
    "keep_alives_only",
];

pub(super) fn schema() -> Node {
    table(
        "A fault script: which requests a stand-in does not simply answer, and what happens instead.",
        [(
            "fault",
            list("Rules, of which the first that holds decides.", rule())
                .with("maxItems", RULES_MAX)
                .required(),
        )],
    )
}

fn rule() -> Node {
    let seconds = |about: &str| number(about).from(0).to(86_400).unit("s");
    let kind = |about: &str| word(about, FaultKind::ALL.map(FaultKind::name));
    let after = || {
        let about = "Pieces of content (words, pieces of tool calls) before it.";
        ("after", whole(about, 0, u64::from(u32::MAX)).default(0))
    };
    let whole_number = |about: &str| whole(about, 0, u64::MAX >> 1);
    table(
        "One rule. It does exactly one thing.",
        [
            (
                "route",
                words("Routes or models that it concerns; all unless given."),
            ),
            (
                "skip",
                whole_number("The first request it holds for, counted from 0.").default(0),
            ),
            (
                "first",
                whole_number("For how many requests from there; all unless given."),
            ),
            ("share", share("For which share of those.").default(1)),
            (
                "attempts",
                whole(
                    "For the first so many attempts of a request at a route; all unless given.",
                    1,
                    255,
                ),
            ),
            (
                "status",
                whole("This HTTP status, with `headers` and `body`.", 200, 599),
            ),
            (
                "headers",
                names(
                    "With `status`.",
                    "HEADER",
                    text("Its value, of printable ASCII."),
                ),
            ),
            ("body", text("With `status`.").default("")),
            (
                "kind",
                kind("A failure of this kind, in the provider's own words."),
            ),
            (
                "retry_after_s",
                seconds("With `kind`: what the provider asks the caller to wait."),
            ),
            (
                "error_frame",
                table(
                    "The stream begins, then an error ends it.",
                    [("kind", kind("Which error.").required()), after()],
                ),
            ),
            (
                "cut",
                table("The body ends as if all were said.", [after()]),
            ),
            ("reset", table("The connection breaks.", [after()])),
            (
                "stall",
                table(
                    "The answer stops, and the connection stays open.",
                    [after()],
                ),
            ),
            (
                "slow_first_token_s",
                seconds("The whole answer comes so much later."),
            ),
            ("broken_frame", table("A frame that is no JSON.", [after()])),
            (
                "keep_alives_only",
                flag("Keep-alives and nothing else, for ever.").with("const", true),
            ),
        ],
    )
    .exactly_one_of(&ACTS)
    .with(
        "dependentRequired",
        json!({ "headers": ["status"], "body": ["status"], "retry_after_s": ["kind"] }),
    )
}
