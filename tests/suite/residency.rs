//! Data that may not leave the EU never leaves it: not as an answer, a mirror, a canary or a fallback.

use std::fs;

use serde_json::Value;

use crate::given::{catalogue_of, policy_of, project};
use crate::program::run_in;

const ROUTES: &str = r#"
[route.near]
provider = "openai"
model = "near-2026-10-01"
residency = ["eu"]
usd_per_mtok = { input = 1, output = 2 }
context_tokens = 1_000

[route.far]
provider = "gemini"
model = "far-2026-10-01"
residency = ["eu", "us"]
usd_per_mtok = { input = 8, output = 24 }

[require]
default = { residency = ["eu", "us"] }

[require.data_class.eu-only]
residency = ["eu"]
"#;

/// Prompts of `short` tokens fit the near route, those of 5,000 do not.
fn world(eu_only: f64) -> String {
    let others = 1.0 - eu_only;
    format!(
        r#"
[synthetic]
requests = 4000
users = 500
data_class = {{ eu-only = {eu_only}, open = {others} }}

[synthetic.task.short]
share = 0.5
difficulty = {{ beta = [2, 5] }}
tokens = {{ input = 400, output = 100 }}

[synthetic.task.long]
share = 0.5
difficulty = {{ beta = [2, 5] }}
tokens = {{ input = 5000, output = 100 }}

[synthetic.model.near]
skill = {{ short = 0.7, long = 0.7 }}

[synthetic.model.far]
skill = {{ short = 0.9, long = 0.9 }}
"#
    )
}

/// A policy of every kind that would send as much as it can to the far route.
const POLICIES: [(&str, &str); 10] = [
    ("fixed", "[fixed]\nroute = \"far\"\nfallback = [\"near\"]\n"),
    (
        "static",
        "[static]\ndefault = \"far\"\ntask = { short = \"near\" }\nfallback = [\"far\"]\n",
    ),
    (
        "cascade",
        "[cascade]\norder = [\"near\", \"far\"]\nverifier.simulated = { accept_if_correct = 0.5, accept_if_wrong = 0.1 }\n",
    ),
    (
        "canary",
        "[canary]\ncandidate = \"far\"\nweight = 1.0\nbase.static = { default = \"near\", fallback = [\"far\"] }\n",
    ),
    (
        "shadow",
        "[shadow]\ncandidate = \"far\"\nshare = 1.0\nbase.fixed = { route = \"near\" }\n",
    ),
    ("mix", "[mix]\nweight = { near = 1, far = 9 }\n"),
    (
        "capability-cost",
        "[capability-cost]\ntarget = 0.9\notherwise = \"far\"\nskill.near = { short = 0.7, long = 0.7 }\nskill.far = { short = 0.9, long = 0.9 }\n",
    ),
    (
        "eval-driven",
        "[eval-driven]\ntarget = 0.99\notherwise = \"far\"\n",
    ),
    (
        "by-length",
        "[length]\nweak = \"near\"\nstrong = \"far\"\nthreshold = 1000\n",
    ),
    (
        "latency-aware",
        "[latency-aware]\nroutes = [\"far\", \"near\"]\nexplore = 0.5\n",
    ),
];

fn findings(routes: &str, world: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::create_dir(here.join("policies")).unwrap();
    fs::write(here.join("policies/routes.toml"), routes).unwrap();
    fs::write(here.join("w.toml"), world).unwrap();
    for (name, text) in POLICIES {
        fs::write(here.join(format!("policies/{name}.toml")), text).unwrap();
    }
    run_in(here, &["compare", "w.toml", "--format", "json", "-q"]).json()
}

fn row<'f>(findings: &'f Value, name: &str) -> &'f Value {
    let rows = findings["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["policy"] == name)
        .unwrap_or_else(|| panic!("no row `{name}`"))
}

/// A metric, such as `unserved` or `final_share.near`.
fn value(row: &Value, path: &str) -> f64 {
    let metric = path
        .split('.')
        .fold(&row["metrics"], |value, key| &value[key]);
    metric["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("{path} of {} is unknown", row["policy"]))
}

#[test]
fn no_call_mirror_or_canary_leaves_the_eu_when_no_route_inside_can_take_the_request() {
    let routes = ROUTES.to_owned() + "\n[require.data_class.open]\nresidency = [\"eu\", \"us\"]\n";
    let closed = findings(&routes, &world(1.0));
    // The share of long prompts, from the run itself: what the near route cannot take.
    let long = value(row(&closed, "always-near"), "unserved");
    assert!((0.45..0.55).contains(&long), "{long}");
    for (name, _) in POLICIES {
        let row = row(&closed, name);
        assert_eq!(value(row, "final_share.far"), 0.0, "{name}");
        assert_eq!(value(row, "mirror_usd_per_1k"), 0.0, "{name}");
        let reasons = [
            "unserved_refused_by_residency",
            "unserved_no_capable_route",
            "unserved_failed",
        ];
        let [refused, incapable, failed] = reasons.map(|reason| value(row, reason));
        assert_eq!(failed, 0.0, "{name}");
        assert!(
            (refused + incapable - value(row, "unserved")).abs() < 1e-12,
            "{name}"
        );
        assert!((value(row, "final_share.near") + value(row, "unserved") - 1.0).abs() < 1e-12);
        assert!(value(row, "unserved") >= long, "{name}");
        // Every call that was paid for was one to the near route, which answered.
        let calls = value(row, "calls_per_request");
        assert!(
            (calls - value(row, "final_share.near")).abs() < 1e-12,
            "{name}: {calls}"
        );
        let usd = value(row, "usd_per_1k") - 1000.0 * calls * (400.0 + 2.0 * 100.0) / 1e6;
        assert!(usd.abs() < 1e-9, "{name}: {usd}");
    }
    // A plan that names the far route is refused by residency, one that does not has no capable route.
    let split = |name: &str| {
        let row = row(&closed, name);
        (
            value(row, "unserved_refused_by_residency"),
            value(row, "unserved_no_capable_route"),
        )
    };
    assert_eq!(split("always-far"), (1.0, 0.0));
    assert_eq!(split("always-near"), (0.0, long));
    assert_eq!(split("shadow"), (0.0, long));
    for name in ["fixed", "static", "cascade", "canary"] {
        assert_eq!(split(name), (long, 0.0), "{name}");
    }
    assert_eq!(value(row(&closed, "oracle"), "unserved"), long);
    assert_eq!(value(row(&closed, "oracle"), "final_share.far"), 0.0);
}

#[test]
fn the_same_policies_do_use_the_far_route_for_data_that_may_go_there() {
    let routes = ROUTES.to_owned() + "\n[require.data_class.open]\nresidency = [\"eu\", \"us\"]\n";
    let open = findings(&routes, &world(0.0));
    for (name, _) in POLICIES {
        let row = row(&open, name);
        let far = value(row, "final_share.far") + value(row, "mirror_usd_per_1k");
        assert!(far > 0.0, "{name}");
        assert_eq!(value(row, "unserved_refused_by_residency"), 0.0, "{name}");
    }
    assert_eq!(value(row(&open, "always-far"), "unserved"), 0.0);
    // Of mixed traffic, exactly the open part reaches it.
    let mixed = findings(&routes, &world(0.3));
    let far = value(row(&mixed, "always-far"), "final_share.far");
    assert!((0.67..0.73).contains(&far), "{far}");
    assert_eq!(
        value(row(&mixed, "always-far"), "unserved_refused_by_residency"),
        value(row(&mixed, "always-far"), "unserved")
    );
    let mirrored = value(row(&mixed, "shadow"), "mirror_usd_per_1k");
    let all = value(row(&open, "shadow"), "mirror_usd_per_1k");
    assert!((mirrored / all - far).abs() < 0.02, "{mirrored} of {all}");
}

#[test]
fn a_tenant_inside_the_eu_is_kept_there_by_its_own_rule_and_local_only_by_its_flag() {
    let world = world(0.0)
        .replace("users = 500\n", "")
        .replace("data_class = { eu-only = 0, open = 1 }\n", "")
        + "\n[synthetic.tenant.acme]\nshare = 0.4\n\n[synthetic.tenant.other]\nshare = 0.6\n";
    for rule in [
        "residency = [\"eu\"]",
        "residency = \"anywhere\"\nlocal_only = true",
    ] {
        let routes = format!("{ROUTES}\n[require.tenant.acme]\n{rule}\n");
        let got = findings(&routes, &world);
        let far = value(row(&got, "always-far"), "final_share.far");
        assert!((0.57..0.63).contains(&far), "{rule}: {far}");
    }
}

#[test]
fn every_shipped_route_has_a_price_a_residency_tag_and_a_window() {
    let catalogue = crate::given::routes();
    assert_eq!(catalogue.routes.len(), 3);
    for route in &catalogue.routes {
        let price = route.price.expect(&route.name);
        assert!(price.input.0 > 0 && price.output.0 > 0, "{}", route.name);
        assert!(route.residency.0 != 0, "{}", route.name);
        assert!(route.priced_on.is_some(), "{}", route.name);
        assert!(route.context_tokens.get().is_some(), "{}", route.name);
    }
}

#[test]
fn every_shipped_policy_is_of_a_known_kind_and_every_workload_is_sound() {
    let catalogue = crate::given::routes();
    let kinds: Vec<&str> = routelab::policy::KINDS
        .iter()
        .map(|kind| kind.name)
        .collect();
    for folder in ["policies", "policies/lesson"] {
        let policies = crate::given::policies(folder, &catalogue);
        assert!(policies.len() >= 6, "{folder}");
        for policy in policies {
            assert!(kinds.contains(&policy.spec.kind()), "{}", policy.name);
            assert!(!policy.spec.routes().is_empty(), "{}", policy.name);
        }
    }
    for entry in fs::read_dir(project("workloads")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let relative = path.strip_prefix(project("")).unwrap();
            let workload = crate::given::workload(relative.to_str().unwrap());
            assert!(!workload.is_empty(), "{}", path.display());
        }
    }
}

/// Routes `small`, `medium` and `large`, which is what examples of policies may name.
fn example_catalogue() -> routelab::catalogue::Catalogue {
    catalogue_of(&fs::read_to_string(project("policies/routes.toml")).unwrap())
}

#[test]
fn every_kind_of_policy_says_what_it_needs_and_shows_an_example_that_works() {
    let catalogue = example_catalogue();
    let mut names = Vec::new();
    for kind in routelab::policy::KINDS {
        assert!(!names.contains(&kind.name), "{} twice", kind.name);
        names.push(kind.name);
        let sentences = kind.about.matches(['.', ':', ';']).count();
        assert!(
            kind.about.len() >= 100 && sentences >= 2,
            "{}: {}",
            kind.name,
            kind.about
        );
        assert!(
            kind.about.contains("Need"),
            "{} does not say what it needs",
            kind.name
        );
        let policy = policy_of("example", kind.example, &catalogue);
        assert_eq!(policy.spec.kind(), kind.name);
    }
}

#[test]
fn every_kind_of_policy_decides_the_same_when_asked_the_same() {
    use routelab::policy::{Ask, Feedback, FeedbackOf, NoLab, Setup, Why};
    use routelab::router::{Need, Regions, RouteId};
    use routelab::units::{Duration, Instant};

    let catalogue = example_catalogue();
    let tasks: Vec<String> = ["faq", "summarize"].map(str::to_owned).to_vec();
    let lab = NoLab;
    let attempt = |route: u16, millis: u64| Feedback {
        of: FeedbackOf::Attempt,
        request: 0,
        task: 0,
        why: Why(0),
        route: Some(RouteId(route)),
        fault: None,
        usage: None,
        at: Instant::ZERO,
        latency: Duration::from_millis(millis),
        ttft: None,
        grade: None,
    };
    let asks: Vec<Ask> = (0..400u64)
        .map(|i| Ask {
            task: (i % 2) as u16,
            tenant: u16::MAX,
            language: u16::MAX,
            user: i / 3,
            session: i / 5,
            prompt_chars: Some(100 * i as u32).into(),
            difficulty_hint: i as f64 / 400.0,
            need: Need {
                input_tokens: Some(50 * i as u32).into(),
                tools: i % 7 == 0,
                residency: Regions::ALL,
                output_cap: None.into(),
                local_only: false,
                account: None,
                deadline: None,
            },
            last_route: None,
            now: Instant::ZERO,
            word: i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            key: 11,
        })
        .collect();
    for kind in routelab::policy::KINDS {
        let policy = policy_of("example", kind.example, &catalogue);
        let build = || {
            let mut setup = Setup::new(&catalogue, &tasks, &[], &[], &lab);
            setup.build(&*policy.spec)
        };
        let (mut forwards, mut backwards) = (build(), build());
        // Those with a memory decide by what they were told, not by what they were asked.
        for copy in [&mut forwards, &mut backwards] {
            for number in 0..20_u16 {
                copy.learn(&attempt(number % 3, u64::from(number) + 100));
            }
        }
        let mut fork = forwards.fork();
        let show = |decision: routelab::policy::Decision| format!("{decision:?}");
        let told: Vec<String> = asks.iter().map(|ask| show(forwards.plan(ask))).collect();
        let mut reversed: Vec<String> = asks
            .iter()
            .rev()
            .map(|ask| show(backwards.plan(ask)))
            .collect();
        reversed.reverse();
        assert_eq!(told, reversed, "{}", kind.name);
        for (ask, told) in asks.iter().zip(&told) {
            assert_eq!(&show(fork.plan(ask)), told, "{}", kind.name);
            assert_eq!(&show(forwards.plan(ask)), told, "{}", kind.name);
            let decision = fork.plan(ask);
            let why = fork.explain(ask, decision.why);
            assert!(
                !why.is_empty() && !why.contains('\n'),
                "{}: {why:?}",
                kind.name
            );
        }
    }
}

/// A rule that matches nobody leaves somebody's data without its rule, so near misses are not passed over.
#[test]
fn a_rule_for_a_tenant_that_nearly_occurs_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let routes = std::fs::read_to_string(crate::given::project("policies/routes.toml")).unwrap()
        + "\n[require.tenant.acmee]\nresidency = [\"eu\"]\n";
    std::fs::write(folder.path().join("routes.toml"), routes).unwrap();
    std::fs::write(folder.path().join("p.toml"), "[fixed]\nroute = \"large\"\n").unwrap();
    std::fs::write(
        folder.path().join("d.csv"),
        "id,tenant,correct_small,correct_medium,correct_large\n1,acme,1,1,1\n2,b,0,1,1\n",
    )
    .unwrap();
    let ran = crate::program::run_in(
        folder.path(),
        &[
            "compare",
            "d.csv",
            "-p",
            "p.toml",
            "--routes",
            "routes.toml",
        ],
    );
    assert!(
        ran.stderr.contains("no request has tenant `acmee`"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("some have tenant `acme`"),
        "{}",
        ran.stderr
    );
    ran.fine();
}
