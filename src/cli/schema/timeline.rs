//! The schema of `[timeline]`: when requests come, how long everything takes, and what goes wrong.

use serde_json::{Value as Json, json};

use super::node::{
    Node, defined, either, flag, list, names, number, routes, share, table, text, whole, word,
};
use crate::router::FaultKind;
use crate::timeline::{Dimension, ENTRIES_MAX, Latency};

/// Latest and longest time of a script: ten years, in seconds.
const TIME_MAX_S: f64 = 10.0 * 365.0 * 86_400.0;
/// The same where bursts are read, whose years have 365.25 days.
const BURST_S_MAX: f64 = 315_576_000.0;
/// Units of times, and how many seconds they have.
const UNITS: [(&str, f64); 3] = [("s", 1.0), ("min", 60.0), ("h", 3_600.0)];

type Keys = Vec<(&'static str, Node)>;

pub(super) fn schema() -> Node {
    let mut slo = length(
        ["ttft_s", "ttft_min", "ttft_h"],
        "Longest time from arrival to the first token.",
    );
    slo.extend(length(
        ["total_s", "total_min", "total_h"],
        "Longest time from arrival to the end of the answer.",
    ));
    let mut keys = length(
        ["duration_s", "duration_min", "duration_h"],
        "No request comes later; all requests of the run unless given.",
    );
    keys.extend(length(
        ["bin_s", "bin_min", "bin_h"],
        "Width of the bins of time lines; by the length of the run unless given.",
    ));
    keys.extend([
        (
            "streamed",
            share("Share of the requests whose answers are streamed.").default(1),
        ),
        ("slo", table("What callers expect of every answer.", slo)),
        ("arrivals", arrivals()),
        ("latency", latency(true)),
        (
            "limit",
            names(
                "What providers refuse, by a name for each limit.",
                "NAME",
                limit(),
            )
            .with("maxProperties", ENTRIES_MAX),
        ),
        ("errors", errors(true)),
        (
            "incident",
            list("What fails, by script.", incident()).with("maxItems", ENTRIES_MAX),
        ),
        (
            "outage",
            names(
                "What fails, at times that are drawn; by a name for each.",
                "NAME",
                outage(),
            )
            .with("maxProperties", ENTRIES_MAX),
        ),
        (
            "drift",
            list("How the quality of a route changes.", drift()).with("maxItems", ENTRIES_MAX),
        ),
    ]);
    table(
        "Time: without this table requests are independent and take none.",
        keys,
    )
}

/// A length of time by any of three keys.
fn length(keys: [&'static str; 3], about: &str) -> Keys {
    times(keys, about, |node, high| node.above(0).to(high))
}

/// A moment by any of three keys.
fn moment(keys: [&'static str; 3], about: &str) -> Keys {
    times(keys, about, |node, high| node.from(0).to(high))
}

fn times(keys: [&'static str; 3], about: &str, bound: impl Fn(Node, f64) -> Node) -> Keys {
    keys.into_iter()
        .zip(UNITS)
        .map(|(key, (unit, seconds))| (key, bound(number(about).unit(unit), TIME_MAX_S / seconds)))
        .collect()
}

/// Whom an entry concerns.
const TARGETS: [&str; 3] = ["provider", "region", "routes"];

fn target() -> Keys {
    vec![
        ("provider", text("It concerns all routes of this provider.")),
        (
            "region",
            text("It concerns all routes whose endpoint is in this region."),
        ),
        (
            "routes",
            routes("It concerns these routes.").with("uniqueItems", true),
        ),
    ]
}

fn rate(about: &str) -> Node {
    number(about).from(1e-6).to(1e6).unit("1/s")
}

fn arrivals() -> Node {
    let burst = table(
        "The rate is multiplied for a while; overlapping factors are multiplied.",
        [
            (
                "at_s",
                number("When it begins.")
                    .from(0)
                    .to(BURST_S_MAX)
                    .unit("s")
                    .required(),
            ),
            (
                "for_s",
                number("How long.")
                    .above(0)
                    .to(BURST_S_MAX)
                    .unit("s")
                    .required(),
            ),
            (
                "factor",
                number("So many times the rate; below 1 it is a lull.")
                    .from(0)
                    .to(10_000)
                    .required(),
            ),
            (
                "tenant",
                text("This tenant's rate only; everybody's unless given."),
            ),
        ],
    );
    let tenant = table(
        "How one tenant's requests come.",
        [
            ("rate_per_s", rate("In the mean of a day.").required()),
            ("process", defined("As above unless given.", "process")),
            ("daily", defined("As above unless given.", "daily")),
        ],
    );
    table(
        "When requests come: a rate, a rate for each tenant, or a recorded trace. Without this table 5.5 requests a second on a daily curve.",
        [
            ("rate_per_s", rate("In the mean of a day.")),
            ("process", defined("How gaps vary.", "process").default("poisson")),
            ("daily", defined("A daily curve; the rate is constant without it.", "daily")),
            ("burst", list("Bursts.", burst).with("maxItems", ENTRIES_MAX)),
            ("tenant", names("In place of `rate_per_s`: every tenant of the workload, each on its own.", "TENANT", tenant).with("maxProperties", ENTRIES_MAX)),
            ("trace", text("A recorded trace, relative to this file, also .gz; nothing above goes with it.")),
            ("speed", number("So many times as fast as recorded.").from(0.001).to(1_000).default(1)),
            ("repeat", flag("Whether the trace starts again at its end.").default(false)),
        ],
    )
    .exactly_one_of(&["rate_per_s", "tenant", "trace"])
    .with("dependentRequired", json!({ "speed": ["trace"], "repeat": ["trace"] }))
}

/// `process` of arrivals.
pub(super) fn process_json() -> Json {
    let spread = |about: &str| {
        table(
            about,
            [(
                "cv",
                number("Coefficient of variation of the gaps.")
                    .from(0.05)
                    .to(50)
                    .required(),
            )],
        )
    };
    either(
        "How the gaps between requests vary.",
        [
            word("", ["poisson", "even"]),
            table(
                "One of these.",
                [
                    ("gamma", spread("Gamma gaps.")),
                    ("weibull", spread("Weibull gaps.")),
                ],
            )
            .one_key(),
        ],
    )
    .json()
}

/// `daily` of arrivals.
pub(super) fn daily_json() -> Json {
    table(
        "A sine over 24 hours. Time zero is midnight.",
        [
            (
                "peak_to_trough",
                number("Highest rate over the lowest.")
                    .from(1)
                    .to(1_000)
                    .default(9.9),
            ),
            (
                "peak_at_h",
                number("When it is highest.")
                    .from(0)
                    .to(24)
                    .unit("h")
                    .default(15),
            ),
        ],
    )
    .json()
}

/// `latency.route.ROUTE`.
pub(super) fn latency_json() -> Json {
    latency(false).json()
}

fn latency(for_all: bool) -> Node {
    let sigma = |about: &str| number(about).from(0).to(3);
    let stall = either(
        "Some attempts stall; `false` for none.",
        [
            word_false(),
            table(
                "",
                [
                    ("share", share("Of the attempts.").required()),
                    (
                        "seconds",
                        number("How long.")
                            .from(0)
                            .to(Latency::DELAY_MAX_MS / 1e3)
                            .unit("s")
                            .required(),
                    ),
                    (
                        "sigma",
                        sigma("Sigma of a lognormal factor of that.").default(0),
                    ),
                ],
            ),
        ],
    );
    let unknown = table(
        "What stands in for lengths that nobody knows.",
        [
            (
                "input",
                whole("Of the prompt.", 1, 10_000_000)
                    .unit("tokens")
                    .default(1_020),
            ),
            (
                "output",
                whole("Of the answer.", 1, 10_000_000)
                    .unit("tokens")
                    .default(129),
            ),
        ],
    );
    let per_token = |about: &str| {
        number(about)
            .from(0)
            .to(Latency::PER_TOKEN_MAX_MS)
            .unit("ms")
    };
    let mut keys = vec![
        (
            "preset",
            word(
                "Measured numbers to begin with; `hosted-70b` unless given.",
                Latency::presets().map(|(name, _)| name),
            ),
        ),
        (
            "overhead_ms",
            number("Before anything else.")
                .from(0)
                .to(Latency::DELAY_MAX_MS)
                .unit("ms"),
        ),
        (
            "per_input_token_ms",
            per_token("For each prompt token that is not cached."),
        ),
        (
            "per_output_token_ms",
            per_token("For each token after the first."),
        ),
        (
            "cached_share",
            share("Share of the prompt's tokens that the provider has cached."),
        ),
        (
            "sigma",
            sigma("Sigma of a lognormal factor of the time to the first token."),
        ),
        (
            "spread",
            word("Another factor in its place.", ["none", "exponential"]),
        ),
        (
            "output_sigma",
            sigma("Sigma of a lognormal factor of the time per output token."),
        ),
        (
            "slots",
            whole(
                "Attempts that are served at once; others queue. No limit unless given.",
                1,
                u64::from(Latency::SLOTS_MAX),
            ),
        ),
        (
            "load_factor",
            number("So many times as slow with all slots taken; needs `slots`.")
                .from(1)
                .to(Latency::LOAD_FACTOR_MAX)
                .default(1),
        ),
        ("stall", stall),
        ("unknown_tokens", unknown),
    ];
    if for_all {
        keys.push((
            "route",
            names("By route, what differs.", "ROUTE", defined("", "latency")),
        ));
    }
    table(
        "How long attempts take: (overhead + prompt) × a factor, then a time per token.",
        keys,
    )
    .with("not", json!({ "required": ["sigma", "spread"] }))
}

/// The word `false`.
fn word_false() -> Node {
    flag("").with("const", false)
}

fn limit() -> Node {
    let mut keys = target();
    for dimension in Dimension::ALL {
        keys.push((
            dimension.key(),
            whole(
                &format!("Most {}.", dimension.words()),
                1,
                1_000_000_000_000,
            )
            .unit("1/min"),
        ));
    }
    let dimensions: Vec<Json> = Dimension::ALL
        .iter()
        .map(|dimension| json!({ "required": [dimension.key()] }))
        .collect();
    keys.extend([
        (
            "window_s",
            number("The allowance of this time can be used at once.")
                .from(0.001)
                .to(86_400)
                .unit("s")
                .default(60),
        ),
        (
            "output",
            word(
                "How answers count: by their length, or by their cap, in advance.",
                ["actual", "cap"],
            )
            .default("actual"),
        ),
        (
            "cached_free",
            flag("Whether cached prompt tokens count as none.").default(false),
        ),
        (
            "refused_count",
            flag("Whether a refused request uses up the allowance, too.").default(false),
        ),
    ]);
    table(
        "A token bucket, refilled continuously, that these routes share.",
        keys,
    )
    .exactly_one_of(&TARGETS)
    .with("anyOf", dimensions)
}

/// `[timeline.errors]`, for all routes, and tables for single ones.
fn errors(for_all: bool) -> Node {
    let kinds =
        FaultKind::ALL.map(|kind| (kind.name(), share("Share of the attempts that fails so.")));
    let more = [
        ("cut", share("Share of the answers that breaks off.")),
        (
            "preset",
            word("Measured shares to begin with.", ["normal-day"]),
        ),
    ];
    let node = table(
        "What goes wrong at any time, by kind of failure.",
        kinds.into_iter().chain(more),
    );
    if for_all {
        // A table is a route: then its own shares hold.
        let own = errors(false).json();
        node.with("additionalProperties", own)
            .with(super::node::NAME, "ROUTE")
    } else {
        node
    }
}

/// What an incident or an outage does.
fn effects() -> Keys {
    vec![
        (
            "fail",
            word(
                "Attempts fail like this.",
                FaultKind::ALL.map(FaultKind::name),
            ),
        ),
        (
            "share",
            share("With `fail`: the share of the attempts that does.").default(1),
        ),
        (
            "slow",
            number("Or everything takes so many times as long.")
                .from(1)
                .to(1_000),
        ),
        ("cut", share("Or this share of the answers breaks off.")),
    ]
}

fn incident() -> Node {
    let mut keys = target();
    keys.extend(moment(["at_s", "at_min", "at_h"], "When it begins."));
    keys.extend(length(["for_s", "for_min", "for_h"], "How long it lasts."));
    keys.extend(effects());
    table("Something that fails at a time.", keys)
        .exactly_one_of(&TARGETS)
        .exactly_one_of(&["at_s", "at_min", "at_h"])
        .exactly_one_of(&["for_s", "for_min", "for_h"])
        .exactly_one_of(&["fail", "slow", "cut"])
        .with("dependentRequired", json!({ "share": ["fail"] }))
}

fn outage() -> Node {
    let range = |about: &str| list(about, share("")).items(2, 2);
    let mut keys = target();
    keys.extend([
        (
            "up_h",
            defined(
                "How long all is well in between; as measured on hosted APIs unless given.",
                "lasting",
            )
            .unit("h"),
        ),
        (
            "down_min",
            defined(
                "How long an outage lasts; as measured on hosted APIs unless given.",
                "lasting",
            )
            .unit("min"),
        ),
    ]);
    keys.extend(effects());
    keys.extend([
        (
            "partial_share",
            share("Share of the outages that is partial; with `fail` without `share`.")
                .default(0.85),
        ),
        (
            "partial",
            range("Share of attempts that fail in a partial one, from and to.")
                .default(json!([0.05, 0.5])),
        ),
        (
            "major",
            range("The same of the others.").default(json!([0.8, 1.0])),
        ),
    ]);
    table("Times of health and of outage in turn; `overloaded` unless it says otherwise.", keys)
        .exactly_one_of(&TARGETS)
        .with("not", json!({ "anyOf": [
            { "required": ["fail", "slow"] }, { "required": ["fail", "cut"] }, { "required": ["slow", "cut"] },
        ] }))
}

/// A law of lengths of time, in the unit of its key.
pub(super) fn lasting_json() -> Json {
    let time = |about: &str| number(about).from(0.001);
    let lognormal = table(
        "Lognormal by two of its percentiles.",
        [
            ("p50", time("The median.").required()),
            ("p95", time("The 95th percentile.").required()),
        ],
    );
    either(
        "A time, or a distribution of times, in the unit of the key.",
        [
            time(""),
            table(
                "One of these.",
                [
                    ("exponential", time("Exponential with this mean.")),
                    ("lognormal", lognormal),
                ],
            )
            .one_key(),
        ],
    )
    .json()
}

fn drift() -> Node {
    let mut keys: Keys = vec![("route", text("Whose answers change.").required())];
    keys.extend(moment(["at_s", "at_min", "at_h"], "From when on."));
    keys.extend(length(
        ["for_s", "for_min", "for_h"],
        "How long; for good unless given.",
    ));
    keys.extend([
        (
            "right_to_wrong",
            share("Share of the right answers that turn wrong."),
        ),
        (
            "wrong_to_right",
            share("Share of the wrong answers that turn right."),
        ),
    ]);
    table(
        "A vendor's update: as fast, as cheap, and less often right.",
        keys,
    )
    .exactly_one_of(&["at_s", "at_min", "at_h"])
    .with(
        "anyOf",
        json!([{ "required": ["right_to_wrong"] }, { "required": ["wrong_to_right"] }]),
    )
}
