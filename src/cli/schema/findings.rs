//! The schema of `findings.json`, which `compare --format json` prints.

use serde_json::Value as Json;

use super::node::{
    Node, defined, either, flag, list, names, number, share, table, text, whole, word,
};
use crate::report::{METRICS, SliceBy, Unit as Measured};
use crate::stats::RULES;

/// Counts that no run reaches.
const MOST: u64 = u64::MAX >> 1;

fn count(about: &str) -> Node {
    whole(about, 0, MOST).required()
}

/// A value, or `null` where it is unknown.
fn or_null(about: &str, node: Node) -> Node {
    either(about, [node, null()]).required()
}

fn null() -> Node {
    text("").with("type", "null")
}

fn estimate(about: &str) -> Node {
    defined(about, "estimate")
}

/// The schema, without its definitions.
pub(super) fn schema() -> Node {
    table(
        "The result of a comparison. Unknown numbers are null.",
        [
            (
                "schema",
                text("Name and version of this shape.")
                    .with("const", "routelab.findings/1")
                    .required(),
            ),
            ("manifest", manifest().required()),
            ("workload", workload().required()),
            (
                "rows",
                list("One for each policy and control.", row()).required(),
            ),
            (
                "paired",
                list(
                    "Differences between policies on the same requests.",
                    paired(),
                )
                .required(),
            ),
            (
                "slices",
                list(
                    "The same for each task and tenant; in report folders.",
                    slice(),
                ),
            ),
        ],
    )
}

fn slice() -> Node {
    let row = table(
        "",
        [
            ("policy", text("Its name.").required()),
            ("control", flag("Whether it is a control.").required()),
            ("accuracy", estimate("Mean grade.").required()),
            (
                "usd_per_1k",
                estimate("Cost of a thousand requests.")
                    .unit("USD")
                    .required(),
            ),
            (
                "accuracy_difference",
                or_null("Policy less baseline.", estimate("")),
            ),
            (
                "verdict",
                or_null(
                    "Against the margin, for this slice alone.",
                    word("", ["non-inferior", "inferior", "inconclusive"]),
                ),
            ),
        ],
    );
    table(
        "",
        [
            (
                "by",
                word("By what it was cut.", SliceBy::ALL.map(SliceBy::name)).required(),
            ),
            (
                "task",
                or_null("Its task, unless it is cut by tenant.", text("")),
            ),
            (
                "tenant",
                or_null("Its tenant, unless it is cut by task.", text("")),
            ),
            ("requests", count("Its requests.")),
            (
                "baseline",
                or_null("With whom the others are compared.", text("")),
            ),
            ("margin", number("As given.").required()),
            ("alpha", share("One-sided.").required()),
            (
                "rows",
                list("One for each policy and control.", row).required(),
            ),
        ],
    )
}

/// What it refers to.
pub(super) fn definitions() -> Vec<(&'static str, Json)> {
    let estimate = table(
        "A measured number with its interval.",
        [
            ("value", or_null("The number.", number(""))),
            ("low", or_null("Lower end of the interval.", number(""))),
            ("high", or_null("Upper end of the interval.", number(""))),
            ("level", share("Level of the interval.").required()),
            ("n", count("Requests that it is known for.")),
            ("method", text("How the interval was computed.").required()),
        ],
    );
    let tails = table(
        "Both p-values of a verdict.",
        [
            (
                "noninferior",
                share("Against: worse by the margin or more.").required(),
            ),
            (
                "inferior",
                share("Against: not worse by the margin.").required(),
            ),
        ],
    );
    vec![("estimate", estimate.json()), ("tails", tails.json())]
}

fn manifest() -> Node {
    let input = table(
        "",
        [
            ("path", text("As it was named.").required()),
            (
                "sha256",
                text("Digest of its bytes.")
                    .with("pattern", "^[0-9a-f]{64}$")
                    .required(),
            ),
        ],
    );
    table(
        "What the result was made from.",
        [
            ("version", text("Of routelab.").required()),
            (
                "seed",
                whole("Of every random draw.", 0, u64::MAX).required(),
            ),
            ("inputs", list("The files.", input).required()),
        ],
    )
}

fn workload() -> Node {
    table(
        "The traffic.",
        [
            ("name", text("Its file's name.").required()),
            ("requests", count("Of one replicate.")),
            (
                "replicates",
                whole("How often it was run.", 1, 100_000).required(),
            ),
            (
                "evidence",
                word(
                    "What the numbers rest on.",
                    ["simulated", "paired", "off-policy", "re-priced"],
                )
                .required(),
            ),
        ],
    )
}

fn row() -> Node {
    let requirement = table(
        "",
        [
            ("requirement", text("As it was written.").required()),
            (
                "outcome",
                word("What became of it.", ["pass", "fail", "inconclusive"]).required(),
            ),
            (
                "needed_n",
                or_null(
                    "Requests that would tell, if it is inconclusive and somebody can say.",
                    whole("", 0, MOST),
                ),
            ),
        ],
    );
    table(
        "A policy or a control.",
        [
            ("policy", text("Its name.").required()),
            ("kind", text("Its kind.").required()),
            ("control", flag("Whether it is a control.").required()),
            ("verifiers", list("Its verifiers.", text(""))),
            ("metrics", metrics().required()),
            (
                "mix_of",
                text("Of a control that is a random mix: whose shares it has."),
            ),
            (
                "lead_of_policy",
                estimate("Of such a mix: by how much that policy is more accurate."),
            ),
            ("unavailable", text("Why it could not be run.")),
            ("requirements", list("What it had to meet.", requirement)),
            ("saving", saving()),
            ("shadow", shadow()),
            (
                "traces",
                list(
                    "What stand-ins and router did, one for each replicate; with --fidelity.",
                    trace(),
                ),
            ),
            ("canary", canary()),
            (
                "notes",
                list("What to know before reading its numbers.", text("")),
            ),
        ],
    )
}

fn saving() -> Node {
    table(
        "What it saves against the cheapest mix of single routes that is as accurate.",
        [
            (
                "mix",
                text("The mix in words, or why there is none.").required(),
            ),
            (
                "usd_per_1k",
                estimate("What the mix costs more, for a thousand requests.")
                    .unit("USD")
                    .required(),
            ),
            (
                "share",
                estimate("The same as a share of what the mix costs.").required(),
            ),
            (
                "note",
                or_null("What to know about its interval.", text("")),
            ),
        ],
    )
}

fn metrics() -> Node {
    let metrics = METRICS.iter().map(|metric| {
        let node = estimate(metric.about).required();
        let node = match metric.unit {
            Measured::Share => node.unit("share"),
            Measured::Usd => node.unit("USD"),
            Measured::Count => node,
        };
        (metric.name, node)
    });
    let shares = names(
        "Whose answers were served, by route.",
        "ROUTE",
        estimate("Share of the requests."),
    );
    table(
        "Its numbers.",
        metrics.chain([("final_share", shares.required())]),
    )
}

/// The 2×2 table of two policies' grades.
fn cells() -> [(&'static str, Node); 4] {
    [
        ("n11", count("Both right.")),
        ("n10", count("Only the first right.")),
        ("n01", count("Only the second right.")),
        ("n00", count("Both wrong.")),
    ]
}

fn verdict() -> Node {
    word(
        "Against the margin.",
        ["non-inferior", "inferior", "inconclusive"],
    )
    .required()
}

fn shadow() -> Node {
    let keys = [
        ("mirrored", count("Requests that were copied.")),
        ("graded", count("Of these, graded.")),
    ];
    let more = [
        ("difference", estimate("Candidate less primary.").required()),
        ("margin", number("As given.").required()),
        ("alpha", share("One-sided.").required()),
        (
            "rule",
            word(
                "The rule of promotion.",
                RULES.iter().map(|(name, _)| *name),
            )
            .required(),
        ),
        ("verdict", verdict()),
        (
            "promoted",
            estimate("Share of the replicates in which the rule promotes.").required(),
        ),
    ];
    table(
        "What the mirrored copies show.",
        keys.into_iter().chain(cells()).chain(more),
    )
}

fn trace() -> Node {
    table(
        "",
        [
            (
                "sha256",
                text("Digest of every step of the router.")
                    .with("pattern", "^[0-9a-f]{64}$")
                    .required(),
            ),
            ("attempts", count("Attempts.")),
            ("failed", count("Of these, failed.")),
            (
                "failed_after_output",
                count("Of these, after output was shown."),
            ),
            ("waits", count("Waits before a retry.")),
            (
                "waited_s",
                number("Their sum.").from(0).unit("s").required(),
            ),
            ("breakers_opened", count("How often a breaker opened.")),
        ],
    )
}

fn canary() -> Node {
    let counts = |about: &str| {
        table(
            about,
            [
                ("graded", count("Graded answers.")),
                ("wrong", count("Of these, wrong.")),
                ("ungraded", count("Answers nobody graded.")),
            ],
        )
    };
    let run = table(
        "",
        [
            (
                "outcome",
                word("How it ended.", ["promoted", "paused", "rolled back"]).required(),
            ),
            ("request", or_null("At which request.", whole("", 0, MOST))),
            ("abort", or_null("Which test withdrew it.", text(""))),
            ("step", count("The last step, counted from 1.")),
            ("steps", count("How many there are.")),
            ("graded_at_step", count("Graded answers in that step.")),
            ("slice", counts("The candidate's answers.").required()),
            ("control", or_null("Those of the control.", counts(""))),
            (
                "extra_wrong",
                or_null("Wrong answers more than the control's.", number("")),
            ),
        ],
    );
    let estimates = [
        (
            "promoted",
            "Share of the replicates in which the last step was done.",
        ),
        ("paused", "Share of the replicates that ended before."),
        (
            "rolled_back",
            "Share of the replicates in which it was withdrawn.",
        ),
        (
            "requests_until_rollback",
            "Requests until then, in the mean of these.",
        ),
        ("graded", "Graded answers of the candidate, in the mean."),
        ("wrong", "Of these, wrong."),
        ("extra_wrong", "Wrong answers more than the control's."),
    ]
    .map(|(name, about)| (name, estimate(about).required()));
    table(
        "What became of a candidate that is let in step by step.",
        estimates
            .into_iter()
            .chain([("runs", list("By replicate.", run).required())]),
    )
}

fn paired() -> Node {
    let p = |about: &str| or_null(about, defined("", "tails"));
    let head = [
        ("baseline", text("Whom it is compared with.").required()),
        ("policy", text("Who is compared.").required()),
        (
            "accuracy_difference",
            estimate("Policy less baseline.").required(),
        ),
        (
            "usd_per_1k_difference",
            estimate("Policy less baseline, for a thousand requests.")
                .unit("USD")
                .required(),
        ),
    ];
    let bootstrap = table(
        "The same differences by drawing clusters anew.",
        [
            (
                "accuracy_difference",
                estimate("Policy less baseline.").required(),
            ),
            (
                "usd_per_1k_difference",
                estimate("Policy less baseline.").unit("USD").required(),
            ),
        ],
    );
    let tail = [
        ("requests", count("Requests that both were run on.")),
        ("left_out", count("Of these, without a grade of both.")),
        ("margin", number("As given.").required()),
        ("alpha", share("One-sided.").required()),
        ("verdict", verdict()),
        ("p", p("The p-values.")),
        ("p_holm", p("The same after Holm's correction.")),
        ("family", count("Over how many policies it corrects.")),
        ("cluster", text("What is taken together.")),
        ("clusters", whole("How many of them there are.", 0, MOST)),
        ("bootstrap", bootstrap),
    ];
    table(
        "A policy against its baseline.",
        head.into_iter().chain(cells()).chain(tail),
    )
}
