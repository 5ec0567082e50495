//! What a policy saves at equal accuracy, where it is known what it must be.

use std::sync::atomic::AtomicBool;

use routelab::catalogue::Catalogue;
use routelab::policy::PolicyFile;
use routelab::report::{self, Findings, Manifest, Options, Saving};
use routelab::sim::{self, Experiment, Fidelity, Stage};
use routelab::source::Diagnostics;
use routelab::workload::Workload;

use crate::given::{experiment, json_of, policy_of, routes, run_on, workload_of};

/// Two models, so that a mix of them is on the hull whatever its weights.
const TWO: &str = r#"
[synthetic]
requests = 20_000
hint_noise = 0
[synthetic.task.chat]
share = 1
difficulty = { beta = [2, 4] }
tokens.input = { lognormal = { p50 = 600, p95 = 4_000 } }
tokens.output = { lognormal = { p50 = 150, p95 = 600 } }
[synthetic.model.small]
skill = { chat = 0.5 }
[synthetic.model.large]
skill = { chat = 0.8 }
"#;

fn two() -> Workload {
    workload_of("two.toml", TWO)
}

fn findings(experiment: &Experiment<'_>) -> Findings {
    let stop = AtomicBool::new(false);
    let mut found = Diagnostics::default();
    let (results, blocks) =
        sim::run_in_blocks(experiment, 100, &mut found, &|_| {}, &stop).unwrap();
    let manifest = Manifest {
        seed: experiment.seed,
        ..Manifest::default()
    };
    report::findings_in_blocks(&results, Some(&blocks), &Options::default(), manifest).unwrap()
}

fn saving(findings: &Findings, policy: &str) -> Saving {
    findings.row(policy).unwrap().saving.clone().unwrap()
}

fn mix(catalogue: &Catalogue) -> PolicyFile {
    policy_of(
        "mixed",
        "[mix]\nweight = { small = 3, large = 1 }\n",
        catalogue,
    )
}

/// Whoever is a mix saves nothing against mixes: the interval holds zero about as often as it says.
#[test]
fn a_policy_that_is_a_mix_saves_nothing_at_about_the_level() {
    let (catalogue, workload) = (routes(), two());
    let policies = [mix(&catalogue)];
    let runs = 300;
    let (mut held, mut sum, mut width) = (0, 0.0, 0.0);
    for seed in 1..=runs {
        let all = experiment(&catalogue, &workload, &policies, 10_000);
        let saved = saving(&findings(&Experiment { seed, ..all }), "mixed");
        assert_eq!(saved.usd_per_1k.method, "block-bootstrap");
        assert!(
            saved.mix.contains(" % small, ") && saved.note.is_none(),
            "{saved:?}"
        );
        let limits = saved.usd_per_1k.limits().unwrap();
        assert!(limits.low < saved.usd_per_1k.value.unwrap());
        assert!(limits.high > saved.usd_per_1k.value.unwrap());
        held += u32::from(limits.low <= 0.0 && limits.high >= 0.0);
        let share = saved.share.limits().unwrap();
        assert_eq!(share.low <= 0.0, limits.low <= 0.0);
        sum += saved.usd_per_1k.value.unwrap();
        width += limits.high - limits.low;
    }
    // 285 of 300 at the level; three standard errors of a binomial are 11.
    assert!((274..=296).contains(&held), "{held} of {runs}");
    // The mean of 300 is within four of its standard errors of zero.
    let error = width / f64::from(runs as u32) / 3.92 / f64::from(runs as u32).sqrt();
    assert!((sum / f64::from(runs as u32)).abs() < 4.0 * error);
}

#[test]
fn a_single_route_is_its_own_cheapest_mix() {
    let (catalogue, workload) = (routes(), two());
    let policies = [policy_of(
        "only",
        "[fixed]\nroute = \"large\"\n",
        &catalogue,
    )];
    let all = experiment(&catalogue, &workload, &policies, 5_000);
    let saved = saving(&findings(&all), "only");
    assert_eq!(saved.mix, "large alone");
    assert_eq!(
        (saved.usd_per_1k.value, saved.share.value),
        (Some(0.0), Some(0.0))
    );
    assert_eq!(saved.usd_per_1k.low, Some(0.0));
}

/// A share of the requests at half the cost of the mix is a saving of half.
#[test]
fn the_saving_is_what_the_mix_costs_more() {
    let (catalogue, workload) = (routes(), two());
    let cascade = "[cascade]\norder = [\"small\", \"large\"]\nverifier.simulated = { accept_if_correct = 1.0, accept_if_wrong = 0.7 }\n";
    let policies = [policy_of("cascade", cascade, &catalogue)];
    let all = experiment(&catalogue, &workload, &policies, 20_000);
    let findings = findings(&all);
    let saved = saving(&findings, "cascade");
    let of = |name: &str, metric: &str| {
        findings
            .row(name)
            .unwrap()
            .metric(metric)
            .unwrap()
            .value
            .unwrap()
    };
    let (low, high) = (
        of("always-small", "accuracy"),
        of("always-large", "accuracy"),
    );
    let share = (of("cascade", "accuracy") - low) / (high - low);
    let costs = ["always-small", "always-large"].map(|name| of(name, "usd_per_1k"));
    let mixed = costs[0] + share * (costs[1] - costs[0]);
    let wanted = mixed - of("cascade", "usd_per_1k");
    let got = saved.usd_per_1k.value.unwrap();
    assert!((got - wanted).abs() < 1e-9, "{got}, not {wanted}");
    assert!((saved.share.value.unwrap() - wanted / mixed).abs() < 1e-9);
    assert!(
        saved.usd_per_1k.low.unwrap() > 0.0,
        "a verifier that knows something saves something"
    );
    let document: serde_json::Value = serde_json::from_str(&json_of(&findings)).unwrap();
    let row = &document["rows"][0];
    assert_eq!(row["saving"]["usd_per_1k"]["method"], "block-bootstrap");
    assert_eq!(row["saving"]["mix"], saved.mix);
    assert!(
        document["rows"][1].get("saving").is_none(),
        "a mix has none"
    );
}

#[test]
fn whoever_is_more_accurate_than_every_mix_has_no_saving_at_equal_accuracy() {
    let (catalogue, workload) = (routes(), two());
    let cascade = |wrong: f64| {
        format!(
            "[cascade]\norder = [\"small\", \"large\"]\nverifier.simulated = {{ accept_if_correct = 1.0, accept_if_wrong = {wrong} }}\n"
        )
    };
    let policies = [policy_of("perfect", &cascade(0.0), &catalogue)];
    let all = experiment(&catalogue, &workload, &policies, 5_000);
    let saved = saving(&findings(&all), "perfect");
    assert_eq!(saved.mix, "no mix of single routes is as accurate");
    assert_eq!((saved.usd_per_1k.value, saved.usd_per_1k.low), (None, None));
    // Whoever is about as accurate as the best route is more accurate in some draws: no upper limit.
    let near: Vec<Saving> = (0..40)
        .map(|step| {
            let policies = [policy_of(
                "near",
                &cascade(f64::from(step) / 100.0),
                &catalogue,
            )];
            let all = experiment(&catalogue, &workload, &policies, 5_000);
            saving(&findings(&all), "near")
        })
        .collect();
    let open = near
        .iter()
        .find(|saved| saved.note.is_some())
        .expect("one is about as accurate");
    assert!(
        open.usd_per_1k.low.is_some() && open.usd_per_1k.high.is_none(),
        "{open:?}"
    );
    assert!(open.note.as_ref().unwrap().contains("no upper limit"));
}

#[test]
fn where_requests_hang_on_each_other_only_replicates_tell_how_sure_it_is() {
    let (catalogue, workload) = (routes(), two());
    let policies = [mix(&catalogue)];
    let stage = Stage::new(Fidelity::Outcome);
    let all = experiment(&catalogue, &workload, &policies, 2_000);
    for (replicates, method) in [(1, "one-replicate"), (3, "t-replicates")] {
        let results = run_on(
            &Experiment {
                stage: Some(&stage),
                replicates,
                ..all
            },
            2,
        );
        let findings =
            report::findings(&results, &Options::default(), Manifest::default()).unwrap();
        let saved = saving(&findings, "mixed");
        assert_eq!(saved.usd_per_1k.method, method);
        assert_eq!(saved.usd_per_1k.low.is_none(), replicates == 1);
        assert_eq!(saved.note.is_some(), replicates == 1);
        assert!(saved.usd_per_1k.value.is_some());
    }
    // In a batch a policy that draws once for a user is known no better than its replicates.
    let sticky = "[canary]\ncandidate = \"small\"\nweight = 0.5\nstick_to = \"user\"\nbase.static = { default = \"large\" }\n";
    let policies = [policy_of("sticky", sticky, &catalogue)];
    let all = experiment(&catalogue, &workload, &policies, 2_000);
    let saved = saving(
        &findings(&Experiment {
            replicates: 4,
            ..all
        }),
        "sticky",
    );
    assert_eq!(saved.usd_per_1k.method, "t-replicates");
    assert_eq!(saved.usd_per_1k.n, 4);
}

#[test]
fn a_route_of_unknown_cost_leaves_the_cheapest_mix_unknown() {
    let (mut catalogue, workload) = (routes(), two());
    let large = catalogue.find("large").unwrap();
    catalogue.routes[usize::from(large.0)].price = None;
    let policies = [policy_of(
        "only",
        "[fixed]\nroute = \"small\"\n",
        &catalogue,
    )];
    let all = experiment(&catalogue, &workload, &policies, 500);
    let saved = saving(&findings(&all), "only");
    assert!(
        saved
            .mix
            .starts_with("not known: the cost of `large` alone"),
        "{}",
        saved.mix
    );
    assert_eq!(saved.usd_per_1k.value, None);
}
