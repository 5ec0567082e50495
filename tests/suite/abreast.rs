//! Whoever has a menu is walked 64 requests at a time, whoever has none one by one. Nothing may tell.

use std::fs;

use proptest::prelude::*;
use routelab::catalogue::{Catalogue, Requirement};
use routelab::policy::{Ask, Asks, Decision, KINDS, NoLab, Policy, PolicyFile, Setup, Spec, Why};
use routelab::router::{Regions, RouteId};
use routelab::units::Tokens;
use routelab::verify::Verifier;
use routelab::workload::Workload;

use crate::given::{catalogue_of, policies, policy_of, project, routes, run, workload};

/// A policy file whose policies have no menu.
#[derive(Debug)]
struct OneByOne(Box<dyn Spec>);

struct WithoutMenu(Box<dyn Policy>);

impl Spec for OneByOne {
    fn kind(&self) -> &'static str {
        self.0.kind()
    }

    fn trains(&self, tasks: &[String]) -> bool {
        self.0.trains(tasks)
    }

    fn build(&self, setup: &mut Setup<'_>) -> Box<dyn Policy> {
        Box::new(WithoutMenu(self.0.build(setup)))
    }

    fn routes(&self) -> Vec<RouteId> {
        self.0.routes()
    }

    fn verifiers(&self) -> Vec<&Verifier> {
        self.0.verifiers()
    }
}

impl Policy for WithoutMenu {
    fn plan(&mut self, ask: &Ask) -> Decision {
        self.0.plan(ask)
    }

    fn fork(&self) -> Box<dyn Policy> {
        Box::new(Self(self.0.fork()))
    }

    fn explain(&self, ask: &Ask, why: Why) -> String {
        self.0.explain(ask, why)
    }
}

fn compare(catalogue: &Catalogue, workload: &Workload, files: impl Fn() -> Vec<PolicyFile>) {
    let slow: Vec<PolicyFile> = files()
        .into_iter()
        .map(|file| PolicyFile {
            name: file.name,
            spec: Box::new(OneByOne(file.spec)),
        })
        .collect();
    let fast = files();
    // The last slice is whole once and cut off twice.
    for requests in [64, 1000, 4096] {
        let fast = run(catalogue, workload, &fast, requests);
        let slow = run(catalogue, workload, &slow, requests);
        assert_eq!(fast.contestants.len(), slow.contestants.len());
        for (fast, slow) in fast.contestants.iter().zip(&slow.contestants) {
            let name = format!("{} on {requests} of {}", fast.name, workload.name);
            assert_eq!(fast.tallies, slow.tallies, "{name}");
            assert_eq!(fast.pairs, slow.pairs, "{name}");
        }
    }
}

#[test]
fn tallies_and_pairs_are_the_same_as_one_by_one() {
    let catalogue = routes();
    let more = [
        (
            "strict",
            "[cascade]\norder = [\"medium\", \"small\"]\nverifier.simulated = { accept_if_correct = 1.0, accept_if_wrong = 0.0 }\n",
        ),
        (
            "checked",
            "[cascade]\norder = [\"small\", \"medium\", \"large\"]\nverifier.exact = { text = \"yes\", simulate = { passes = \"yes\", fails = \"no\", pass_if_correct = 0.9, pass_if_wrong = 0.25 } }\n",
        ),
        (
            "judged",
            "[cascade]\norder = [\"small\", \"large\"]\nverifier.judge = { route = \"medium\", question = \"Right?\", simulate = { accept_if_correct = 0.9, accept_if_wrong = 0.25 } }\n",
        ),
        (
            "fallback",
            "[fixed]\nroute = \"small\"\nfallback = [\"large\"]\n",
        ),
    ];
    let files = || {
        let mut files = policies("policies", &catalogue);
        files.extend(more.map(|(name, text)| policy_of(name, text, &catalogue)));
        files
    };
    for path in ["workloads/support.toml", "workloads/lesson-recorded.toml"] {
        compare(&catalogue, &workload(path), files);
    }
}

/// Tenants, tools, data that may not go everywhere, and a route of the catalogue that the world lacks.
#[test]
fn requests_with_different_needs_are_the_same_as_one_by_one() {
    let text = fs::read_to_string(project("policies/routes.toml")).unwrap();
    let text = text.replace("[route.small]\n", "[route.small]\ntools = false\n");
    let catalogue = catalogue_of(&text);
    let files = || {
        [
            ("large", "[fixed]\nroute = \"large\"\n"),
            ("cascade", "[cascade]\norder = [\"small\", \"large\"]\nverifier.simulated = { accept_if_correct = 0.9, accept_if_wrong = 0.2 }\n"),
            ("static", "[static]\ndefault = \"large\"\ntask = { chat = \"small\" }\n\n[[static.rule]]\nwhen = { tenant = \"bank\", input_tokens_max = 4000 }\nroute = \"small\"\n"),
            ("skills", "[capability-cost]\ntarget = 0.8\notherwise = \"large\"\nskill.small = { chat = 0.6, agent = 0.35 }\nskill.large = { chat = 0.85, agent = 0.8, classify = 0.9 }\n"),
            ("eval", "[eval-driven]\ntarget = 0.7\notherwise = \"large\"\nroutes = [\"small\", \"large\"]\n"),
        ]
        .map(|(name, text)| policy_of(name, text, &catalogue))
        .into()
    };
    compare(&catalogue, &workload("workloads/tenants.toml"), files);
}

proptest! {
    #[test]
    fn what_is_picked_from_a_menu_is_what_is_planned(
        rows in prop::collection::vec((0..2u16, 0..40_000u32, 0..4u32, any::<bool>(), -0.2..1.2f64), 1..80),
        tools in any::<bool>(), regions in prop_oneof![Just(u64::MAX), Just(1), Just(0)], mixed in any::<bool>(),
    ) {
        let catalogue = catalogue_of(&fs::read_to_string(project("policies/routes.toml")).unwrap());
        let tasks: Vec<String> = ["faq", "summarize"].map(str::to_owned).to_vec();
        let len = rows.len();
        let rare = |code: u32, n: u32| if code == 0 { Tokens::UNKNOWN } else { Tokens::new(n) };
        let task: Vec<u16> = rows.iter().map(|row| row.0).collect();
        let input_tokens: Vec<Tokens> = rows.iter().map(|row| rare(row.2, row.1)).collect();
        let output_cap: Vec<Tokens> = rows.iter().map(|row| rare(row.2 % 2, row.1 / 2)).collect();
        let hint: Vec<f64> = rows.iter().map(|row| if row.2 == 3 { f64::NAN } else { row.4 }).collect();
        let tools: Vec<bool> = rows.iter().map(|row| tools && row.3).collect();
        let one = Requirement { residency: Regions(regions), local_only: false };
        let requirement = if mixed {
            rows.iter().map(|row| if row.3 { one } else { Requirement::NONE }).collect()
        } else {
            vec![one]
        };
        let (names, numbers) = (vec![u16::MAX; len], (0..len as u64).collect::<Vec<_>>());
        let asks = Asks {
            task: &task, tenant: &names, language: &names, user: &numbers, session: &numbers,
            prompt_chars: &output_cap, difficulty_hint: &hint, input_tokens: &input_tokens,
            output_cap: &output_cap, tools: &tools, requirement: &requirement, word: &numbers, key: 3,
        };
        let mut with_menu = 0;
        for kind in KINDS {
            let file = policy_of("example", kind.example, &catalogue);
            let lab = NoLab;
            let mut policy = Setup::new(&catalogue, &tasks, &[], &[], &lab).build(&*file.spec);
            if policy.menu().is_empty() {
                continue;
            }
            with_menu += 1;
            let mut picks = vec![0; len];
            policy.pick_all(&asks, &mut picks);
            for (i, pick) in picks.into_iter().enumerate() {
                let planned = policy.plan(&asks.get(i));
                prop_assert!(planned.mirror.is_none());
                prop_assert_eq!(policy.menu()[usize::from(pick)], planned.serve, "{} {}", kind.name, i);
            }
        }
        prop_assert!(with_menu >= 6, "{} kinds have a menu", with_menu);
    }
}
