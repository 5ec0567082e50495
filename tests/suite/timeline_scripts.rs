//! What a workload file says about limits, incidents, outages, drifts and chances, and what is said about
//! it where it is wrong.

use routelab::catalogue::Catalogue;
use routelab::router::{FaultKind, RouteId};
use routelab::source::{Diagnostics, SourceFile};
use routelab::timeline::{
    self, Dimension, Effect, Incident, Lasting, Limit, Names, OutputCount, Timeline,
};
use routelab::units::{Duration, Instant, Probability};

use crate::given::{catalogue_of, reference};

/// Two routes at one provider, in two regions; a provider and a region with routes, and one without.
pub(crate) fn catalogue() -> Catalogue {
    catalogue_of(
        r#"
[provider.spare]
kind = "compatible"
base_url = "http://localhost:9"

[route.small]
provider = "openai"
model = "small"
region = "eu-west"
residency = ["eu"]
usd_per_mtok = { input = 0.15, output = 0.60 }

[route.small-us]
provider = "openai"
model = "small"
region = "us-east"
residency = ["us"]
usd_per_mtok = { input = 0.15, output = 0.60 }

[route.large]
provider = "gemini"
model = "large"
region = "us-east"
residency = ["eu", "us"]
usd_per_mtok = { input = 8.00, output = 24.00 }

[require]
default = { residency = ["eu", "us"] }
"#,
    )
}

pub(crate) const SMALL: RouteId = RouteId(0);
pub(crate) const SMALL_US: RouteId = RouteId(1);
pub(crate) const LARGE: RouteId = RouteId(2);

/// Reads a timeline; what is wrong with it, as text, if anything is.
fn read(text: &str) -> (Option<Timeline>, String) {
    let catalogue = catalogue();
    let names = Names {
        catalogue: &catalogue,
        tenants: &[],
    };
    let mut found = Diagnostics::default();
    let draft = timeline::parse(&SourceFile::new("w.toml", text), &names, &mut found);
    let timeline = draft.and_then(|draft| draft.build(None, &mut found));
    assert_eq!(timeline.is_none(), found.has_errors(), "{text}");
    (timeline, found.render(false))
}

pub(crate) fn sound(text: &str) -> Timeline {
    let (timeline, complaints) = read(text);
    assert_eq!(complaints, "");
    timeline.unwrap()
}

pub(crate) fn share(value: f64) -> Probability {
    Probability::new(value).unwrap()
}

pub(crate) fn fail(kind: FaultKind, value: f64) -> Effect {
    let share = share(value);
    Effect::Fail { kind, share }
}

#[test]
fn limits_are_read() {
    let timeline = sound(
        r#"
[timeline.limit.openai-gpt]
routes = ["small-us", "small"]
requests_per_min = 200
input_tokens_per_min = 40_000
cached_free = true

[timeline.limit.gemini]
provider = "gemini"
tokens_per_min = 90_000
output_tokens_per_min = 8_000
window_s = 1
output = "cap"
refused_count = true
"#,
    );
    let mut first = Limit::new("openai-gpt", vec![SMALL, SMALL_US])
        .with(Dimension::Requests, 200)
        .with(Dimension::InputTokens, 40_000);
    first.cached_free = true;
    let mut second = Limit::new("gemini", vec![LARGE])
        .with(Dimension::Tokens, 90_000)
        .with(Dimension::OutputTokens, 8_000);
    second.window = Duration::from_secs(1);
    second.output = OutputCount::Cap;
    second.refused_count = true;
    assert_eq!(timeline.limits, [first, second]);
}

#[test]
fn incidents_are_read_in_any_unit_of_time() {
    let timeline = sound(
        r#"
[[timeline.incident]]
provider = "openai"
at_s = 1800
for_min = 45
fail = "overloaded"
share = 0.5

[[timeline.incident]]
region = "us-east"
at_h = 0.5
for_s = 2700
slow = 4.0

[[timeline.incident]]
routes = ["large"]
at_min = 0
for_h = 1
cut = 0.2

[[timeline.incident]]
routes = ["large", "small"]
at_s = 0
for_s = 0.000_001
fail = "timeout"
"#,
    );
    let incident = |name: &str, routes: &[RouteId], from, until, effect| Incident {
        name: name.into(),
        routes: routes.to_vec(),
        from: Instant(from),
        until: Instant(until),
        effect,
    };
    let (from, until) = (1_800_000_000, 4_500_000_000);
    assert_eq!(
        timeline.incidents,
        [
            incident(
                "openai",
                &[SMALL, SMALL_US],
                from,
                until,
                fail(FaultKind::Overloaded, 0.5)
            ),
            incident(
                "us-east",
                &[SMALL_US, LARGE],
                from,
                until,
                Effect::Slow { factor: 4.0 }
            ),
            incident(
                "large",
                &[LARGE],
                0,
                3_600_000_000,
                Effect::Cut { share: share(0.2) }
            ),
            incident(
                "large, small",
                &[SMALL, LARGE],
                0,
                1,
                fail(FaultKind::Timeout, 1.0)
            ),
        ]
    );
    assert!(timeline.has_incidents() && !timeline.calm().has_incidents());
}

#[test]
fn outages_are_read_and_default_to_what_was_measured() {
    let timeline = sound(
        r#"
[timeline.outage.typical]
provider = "openai"

[timeline.outage.own]
region = "us-east"
up_h = { exponential = 100 }
down_min = { lognormal = { p50 = 67, p95 = 566 } }
fail = "server"
partial_share = 0.5
partial = [0.1, 0.2]
major = [1, 1]

[timeline.outage.maintenance]
routes = ["large"]
up_h = 167.5
down_min = 30
fail = "overloaded"
share = 1.0

[timeline.outage.slow]
routes = ["large"]
slow = 3
"#,
    );
    let [typical, own, maintenance, slow] = timeline.outages.as_slice() else {
        panic!("{:?}", timeline.outages);
    };
    let expected = timeline::Outages::typical("typical", vec![SMALL, SMALL_US]);
    assert_eq!(*typical, expected);
    assert_eq!(own.routes, [SMALL_US, LARGE]);
    let mean = Duration::from_secs(360_000);
    assert_eq!(own.up, Lasting::Exponential { mean });
    let Lasting::Lognormal { p50, sigma } = own.down else {
        panic!("{:?}", own.down);
    };
    assert_eq!(p50, Duration::from_secs(67 * 60));
    assert!((p50.as_secs_f64() * (1.644_853_627 * sigma).exp() / 60.0 - 566.0).abs() < 1e-3);
    let severity = own.severity.unwrap();
    assert_eq!(severity.partial_share, share(0.5));
    assert_eq!(severity.partial, [share(0.1), share(0.2)]);
    assert_eq!(severity.major, [Probability::ONE; 2]);
    assert!(matches!(
        own.effect,
        Effect::Fail {
            kind: FaultKind::Server,
            ..
        }
    ));
    assert_eq!(maintenance.down, Lasting::Fixed(Duration::from_secs(1_800)));
    assert_eq!(maintenance.effect, fail(FaultKind::Overloaded, 1.0));
    assert_eq!((maintenance.severity, slow.severity), (None, None));
    assert_eq!(slow.effect, Effect::Slow { factor: 3.0 });
}

#[test]
fn drifts_and_chances_are_read() {
    let timeline = sound(
        r#"
[[timeline.drift]]
route = "small"
at_h = 2
for_h = 1
right_to_wrong = 0.1

[[timeline.drift]]
route = "large"
at_s = 60
wrong_to_right = 0.3

[timeline.errors]
overloaded = 0.01
server = 0.02
cut = 0.001

[timeline.errors.small-us]
preset = "normal-day"
timeout = 0.5
"#,
    );
    let [first, second] = timeline.drifts.as_slice() else {
        panic!("{:?}", timeline.drifts);
    };
    assert_eq!((first.route, first.right_to_wrong), (SMALL, share(0.1)));
    assert_eq!(first.from, Instant(7_200_000_000));
    assert_eq!(first.until, Some(Instant(10_800_000_000)));
    assert_eq!((second.route, second.until), (LARGE, None));
    assert_eq!(second.wrong_to_right, share(0.3));
    assert_eq!(second.right_to_wrong, Probability::ZERO);
    let all = [
        (FaultKind::Overloaded, share(0.01)),
        (FaultKind::Server, share(0.02)),
    ];
    for route in [SMALL, LARGE] {
        let chances = &timeline.chances[usize::from(route.0)];
        assert_eq!((chances.fail(), chances.cut()), (&all[..], share(0.001)));
    }
    let own = &timeline.chances[usize::from(SMALL_US.0)];
    assert_eq!(own.cut(), Probability::ZERO);
    assert!(own.fail().contains(&(FaultKind::Timeout, share(0.5))));
    assert!(
        own.fail()
            .contains(&(FaultKind::ContentFilter, share(0.002)))
    );
    assert_eq!(own.fail().len(), 7);
}

#[test]
fn a_normal_day_is_what_was_reported_without_rate_limits() {
    let Some(defaults) = reference("data/traffic/realism_defaults.json") else {
        return;
    };
    let given = &defaults["errors"]["normal_day_default"];
    let chances = timeline::Chances::normal_day();
    let mut sum = 0.0;
    for kind in FaultKind::ALL {
        let reported = given[kind.name()].as_f64().unwrap_or(0.0);
        let found = chances.fail().iter().find(|(one, _)| *one == kind);
        if kind != FaultKind::RateLimit {
            assert_eq!(found.map_or(0.0, |(_, share)| share.get()), reported);
        } else {
            assert_eq!(found, None);
        }
        sum += reported;
    }
    assert!((sum - given["total"].as_f64().unwrap()).abs() < 1e-9);
}

#[test]
fn a_route_may_be_called_like_a_failure() {
    let text = r#"
[route.timeout]
provider = "openai"
model = "m"
residency = ["eu"]
usd_per_mtok = { input = 1, output = 1 }

[require]
default = { residency = ["eu"] }
"#;
    let catalogue = catalogue_of(text);
    let names = Names {
        catalogue: &catalogue,
        tenants: &[],
    };
    let mut found = Diagnostics::default();
    let file = SourceFile::new("w.toml", "[timeline.errors.timeout]\ntimeout = 0.25\n");
    let draft = timeline::parse(&file, &names, &mut found).unwrap();
    let timeline = draft.build(None, &mut found).unwrap();
    assert_eq!(
        timeline.chances[0].fail(),
        [(FaultKind::Timeout, share(0.25))]
    );
}

#[test]
fn rate_limits_by_chance_are_possible_and_warned_of() {
    let (timeline, complaints) = read("[timeline.errors]\nrate_limit = 0.05\n");
    assert!(timeline.is_some());
    assert!(complaints.contains("warning") && complaints.contains("timeline.limit"));
}

/// Files with mistakes; the first word of each says what it is about.
const WRONG: &[(&str, &str)] = &[
    (
        "limit of nobody",
        "[timeline.limit.x]\nrequests_per_min = 5\n",
    ),
    (
        "limit of nothing",
        "[timeline.limit.x]\nroutes = [\"small\"]\n",
    ),
    (
        "limit: zero, negative, broken, too large",
        "[timeline.limit.x]\nroutes = [\"small\"]\nrequests_per_min = 0\ninput_tokens_per_min = -5\n\
         output_tokens_per_min = 1.5\ntokens_per_min = 1_000_000_000_001\n",
    ),
    (
        "limit that lets nothing through its window",
        "[timeline.limit.x]\nroutes = [\"small\"]\nrequests_per_min = 50\nwindow_s = 1\n",
    ),
    (
        "limit: names and types",
        "[timeline.limit.x]\nroutes = [\"smal\", \"large\", \"large\", \"claude\"]\nrequests_per_min = 5\n\
         window_s = 0\noutput = \"caps\"\ncached_free = 1\nburst = 3\n",
    ),
    (
        "limit of no routes",
        "[timeline.limit.x]\nroutes = []\nrequests_per_min = 5\n",
    ),
    (
        "limit that is a list",
        "[[timeline.limit]]\nroutes = [\"small\"]\n",
    ),
    (
        "limit of a provider twice",
        "[timeline.limit.x]\nprovider = \"openai\"\nroutes = [\"small\"]\nrequests_per_min = 5\n",
    ),
    (
        "incident: unknown provider, known without routes, region that is a tag",
        "[[timeline.incident]]\nprovider = \"opnai\"\nat_s = 1\nfor_s = 1\nfail = \"server\"\n\
         [[timeline.incident]]\nprovider = \"spare\"\nat_s = 1\nfor_s = 1\nfail = \"server\"\n\
         [[timeline.incident]]\nregion = \"eu\"\nat_s = 1\nfor_s = 1\nfail = \"server\"\n\
         [[timeline.incident]]\nregion = \"eu-wst\"\nat_s = 1\nfor_s = 1\nfail = \"server\"\n",
    ),
    ("incident of nothing", "[[timeline.incident]]\n"),
    (
        "incident: times twice, reversed, none, too late",
        "[[timeline.incident]]\nprovider = \"openai\"\nat_s = 1\nat_h = 1\nfor_s = 1\nfail = \"server\"\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_s = -1\nfor_s = -60\nfail = \"server\"\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_h = 1e9\nfor_s = 0\nfail = \"server\"\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_s = nan\nfor_s = 1e-9\nfail = \"server\"\n",
    ),
    (
        "incident: effects",
        "[[timeline.incident]]\nprovider = \"openai\"\nat_s = 1\nfor_s = 1\nfail = \"overload\"\nshare = 50\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_s = 1\nfor_s = 1\nslow = 0.5\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_s = 1\nfor_s = 1\nslow = 2\nshare = 0.5\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_s = 1\nfor_s = 1\nslow = 2\ncut = 0.5\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_s = 1\nfor_s = 1\ncut = 1.5\n\
         [[timeline.incident]]\nprovider = \"openai\"\nat_s = 1\nfor_s = 1\nshare = 0.5\n",
    ),
    (
        "incident twice",
        "[[timeline.incident]]\nprovider = \"openai\"\nat_s = 60\nfor_s = 1\nfail = \"server\"\n\
         [[timeline.incident]]\nroutes = [\"small-us\", \"small\"]\nat_min = 1\nfor_s = 1\nfail = \"server\"\n",
    ),
    (
        "incident that is a table",
        "[timeline.incident]\nat_s = 1\n",
    ),
    (
        "outage: laws",
        "[timeline.outage.x]\nprovider = \"openai\"\nup_h = \"long\"\ndown_min = { normal = 3 }\n\
         [timeline.outage.y]\nprovider = \"openai\"\nup_h = -1\ndown_min = { exponential = 0 }\n\
         [timeline.outage.z]\nprovider = \"openai\"\nup_h = { exponential = 1, lognormal = { p50 = 1, p95 = 2 } }\n\
         down_min = { lognormal = { p50 = 3, p95 = 2 } }\n",
    ),
    (
        "outage: severity",
        "[timeline.outage.x]\nprovider = \"openai\"\npartial_share = 85\npartial = [0.5, 0.05]\nmajor = [1]\n\
         [timeline.outage.y]\nprovider = \"openai\"\nfail = \"server\"\nshare = 1\npartial_share = 0.5\n\
         [timeline.outage.z]\nprovider = \"openai\"\nslow = 3\nmajor = [0.9, 1]\nat_s = 3\n",
    ),
    (
        "drift: everything",
        "[[timeline.drift]]\nroute = \"smal\"\nat_s = 1\nat_min = 1\nright_to_wrong = 10\n\
         [[timeline.drift]]\nat_s = 1\n\
         [[timeline.drift]]\nroute = \"small\"\nfor_s = 0\nwrong_to_right = -0.1\n",
    ),
    (
        "drift twice",
        "[[timeline.drift]]\nroute = \"small\"\nat_s = 1\nright_to_wrong = 0.1\n\
         [[timeline.drift]]\nroute = \"small\"\nat_s = 1\nright_to_wrong = 0.1\n",
    ),
    (
        "errors: everything",
        "[timeline.errors]\nserver = 0.6\ntimeout = 0.5\n[timeline.errors.smal]\nserver = 0.1\n\
         [timeline.errors.large]\nservr = 0.1\ncut = 5\npreset = \"bad-day\"\n",
    ),
    (
        "errors: a route that is no table",
        "[timeline.errors]\nlarg = 0.1\n",
    ),
    ("errors that are none", "[timeline]\nerrors = 0.1\n"),
];

#[test]
fn every_mistake_in_a_script_is_named_with_its_place_and_a_way_out() {
    let mut all = String::new();
    for (what, text) in WRONG {
        let (timeline, complaints) = read(text);
        assert!(timeline.is_none(), "{what}");
        all.push_str(&format!("## {what}\n{complaints}\n"));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn more_entries_than_a_timeline_holds_are_refused() {
    let repeat =
        |part: &dyn Fn(usize) -> String, count: usize| -> String { (0..count).map(part).collect() };
    let kinds: [(&str, &dyn Fn(usize) -> String); 4] = [
        ("limits", &|n| {
            format!("[timeline.limit.x{n}]\nroutes = [\"small\"]\nrequests_per_min = 5\n")
        }),
        ("incidents", &|n| {
            format!("[[timeline.incident]]\nroutes = [\"small\"]\nat_s = {n}\nfor_s = 1\ncut = 1\n")
        }),
        ("outages", &|n| {
            format!("[timeline.outage.x{n}]\nroutes = [\"small\"]\n")
        }),
        ("drifts", &|n| {
            format!("[[timeline.drift]]\nroute = \"small\"\nat_s = {n}\nright_to_wrong = 1\n")
        }),
    ];
    for (what, part) in kinds {
        sound(&repeat(part, timeline::ENTRIES_MAX));
        let (timeline, complaints) = read(&repeat(part, timeline::ENTRIES_MAX + 1));
        assert!(timeline.is_none());
        let expected = format!("at most 1000 {what} fit in one timeline");
        assert!(complaints.contains(&expected), "{complaints}");
    }
}
