//! The exact population of the shipped lesson's world: marginals, 2×2 tables, policies, cascades.

use routelab::policy::{Ask, NoLab, PolicyFile, Setup};
use routelab::router::{Need, Regions, Target};
use routelab::size;
use routelab::stats::Copula;
use routelab::units::{Instant, Tokens};
use routelab::workload::{Cascade, Expected, NO_NAME, Population, Workload};
use serde_json::Value;

use super::{Check, Family, Vectors};
use crate::given::{policies, project, routes, run, tally, workload, workload_of};

pub(super) const FAMILIES: &[(&str, Family)] = &[
    ("joint_probabilities", joint_probabilities),
    ("marginals", marginals),
    ("policies_population", policies_population),
    ("copula", copula),
];

const WORLD: &str = "workloads/support.toml";

/// The shipped world with another correlation.
fn world(rho: &str) -> Workload {
    let text = std::fs::read_to_string(project(WORLD)).unwrap();
    let declared = "correlation = 0.0";
    assert!(text.contains(declared), "{WORLD} declares no correlation");
    workload_of(
        WORLD,
        &text.replace(declared, &format!("correlation = {rho}")),
    )
}

fn population(workload: &Workload) -> Population {
    size::population(workload, &routes()).unwrap()
}

fn position(names: &[String], name: &str) -> Option<usize> {
    names.iter().position(|known| known == name)
}

/// The indices in `task/candidate/primary`.
fn cell(workload: &Workload, key: &str) -> Option<(usize, usize, usize)> {
    let mut parts = key.split('/');
    let task = position(&workload.tasks, parts.next()?)?;
    let candidate = position(&workload.routes, parts.next()?)?;
    let primary = position(&workload.routes, parts.next()?)?;
    parts.next().is_none().then_some((task, candidate, primary))
}

fn joint_probabilities(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("joint_probabilities");
    let workload = workload(WORLD);
    let population = population(&workload);
    for (key, table) in family.as_object().unwrap() {
        let Some((task, candidate, primary)) = cell(&workload, key) else {
            check.unknown(key);
            continue;
        };
        let joint = population.joint(Some(task), candidate, primary).unwrap();
        for (name, want) in table.as_object().unwrap() {
            let got = match name.as_str() {
                "p11" => joint.p11(),
                "p10" => joint.p10(),
                "p01" => joint.p01(),
                "p00" => joint.p00(),
                other => {
                    check.unknown(&format!("{key} {other}"));
                    continue;
                }
            };
            check.near(&format!("{key} {name}"), got, want, tolerance);
        }
    }
}

fn marginals(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("joint_probabilities");
    let workload = workload(WORLD);
    let population = population(&workload);
    for (task_name, by_route) in family.as_object().unwrap() {
        for (route_name, want) in by_route.as_object().unwrap() {
            let what = format!("{task_name}/{route_name}");
            let found =
                position(&workload.tasks, task_name).zip(position(&workload.routes, route_name));
            match found {
                Some((task, route)) => {
                    let got = population.tasks[task].routes[route].right;
                    check.near(&what, got, want, tolerance);
                }
                None => check.unknown(&what),
            }
        }
    }
}

/// The first route of what the policy plans for a request of each task, as the world numbers routes.
fn routes_by_task(workload: &Workload, file: &PolicyFile) -> Vec<usize> {
    let catalogue = routes();
    let mut setup = Setup::new(
        &catalogue,
        &workload.tasks,
        &workload.tenants,
        &workload.languages,
        &NoLab,
    );
    let mut policy = setup.build(file.spec.as_ref());
    (0..workload.tasks.len())
        .map(|task| {
            let ask = Ask {
                task: task as u16,
                tenant: NO_NAME,
                language: NO_NAME,
                user: 0,
                session: 0,
                prompt_chars: Tokens::UNKNOWN,
                difficulty_hint: f64::NAN,
                need: Need {
                    input_tokens: Tokens::UNKNOWN,
                    output_cap: Tokens::UNKNOWN,
                    tools: false,
                    residency: Regions::ALL,
                    local_only: false,
                    account: None,
                    deadline: None,
                },
                last_route: None,
                now: Instant::ZERO,
                word: 0,
                key: 0,
            };
            let plan = policy.plan(&ask).serve;
            let leg = plan.legs().next().expect("a plan has a leg");
            let Target::Route(route) = leg.target else {
                panic!("`{}` asks a pool", file.name)
            };
            position(&workload.routes, &catalogue.routes[route.0 as usize].name).unwrap()
        })
        .collect()
}

fn policies_population(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("eval");
    let workload = workload(WORLD);
    let population = population(&workload);
    let catalogue = routes();
    let files = policies("policies/lesson", &catalogue);
    // The lesson's own rows, decided and tallied by the simulation.
    let rows = crate::given::workload("workloads/lesson-recorded.toml");
    let results = run(&catalogue, &rows, &files, rows.len());
    for (key, values) in family.as_object().unwrap() {
        let name = key.strip_prefix("policy ").unwrap_or(key);
        let file = files.iter().find(|file| file.name == name);
        let (expected, ours): (Expected, String) = match (name.strip_prefix("always "), file) {
            (Some(route), _) => match position(&workload.routes, route) {
                Some(at) => (population.always(at), format!("always-{route}")),
                None => {
                    check.unknown(key);
                    continue;
                }
            },
            (None, Some(file)) if file.spec.kind() == "static" => (
                population.by_task(&routes_by_task(&workload, file)),
                name.to_owned(),
            ),
            _ => {
                check.unknown(key);
                continue;
            }
        };
        let seen = tally(&results, &ours);
        let n = seen.requests as f64;
        for (name, want) in values.as_object().unwrap() {
            let got = match name.as_str() {
                "pop_acc" => expected.accuracy,
                "pop_usd1k" => expected.usd_per_1k.unwrap(),
                "fixed_acc" => seen.score_sum as f64 / 1e6 / n,
                "fixed_usd1k" => seen.cost_sum as f64 / 1e9 / n,
                other => {
                    check.unknown(&format!("{key} {other}"));
                    continue;
                }
            };
            check.near(&format!("{key} {name}"), got, want, tolerance);
        }
    }
}

fn family_of(name: &str) -> Option<Copula> {
    match name {
        "F" => Some(Copula::Frechet),
        "G" => Some(Copula::Gaussian),
        _ => None,
    }
}

/// The number after `name=` in one part of a key.
fn parameter<'k>(parts: &[&'k str], name: &str) -> Option<&'k str> {
    parts
        .iter()
        .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn copula(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    for (key, value) in family.as_object().unwrap() {
        let parts: Vec<&str> = key.split('|').collect();
        let Some(rho) = parameter(&parts, "rho") else {
            check.unknown(key);
            continue;
        };
        let workload = world(rho);
        let mut population = population(&workload);
        if parts[0] == "cascade" {
            let rate = |name| parameter(&parts, name).and_then(|rate| rate.parse().ok());
            let (Some(copula), Some(accept_if_correct), Some(accept_if_wrong)) =
                (family_of(parts[1]), rate("A"), rate("r"))
            else {
                check.unknown(key);
                continue;
            };
            population.copula = copula;
            let order =
                ["small", "medium", "large"].map(|name| position(&workload.routes, name).unwrap());
            let expected = population
                .cascade(&Cascade {
                    order: &order,
                    accept_if_correct,
                    accept_if_wrong,
                })
                .unwrap();
            let got = [
                expected.accuracy,
                expected.usd_per_1k.unwrap(),
                expected.calls,
            ];
            let tolerance = vectors.tolerance(&format!("copula_{}", parts[1]));
            compare(check, key, &got, value, tolerance);
            continue;
        }
        let Some((task, candidate, primary)) = cell(&workload, parts[0]) else {
            check.unknown(key);
            continue;
        };
        for (name, table) in value.as_object().unwrap() {
            let what = format!("{key} {name}");
            let Some(copula) = family_of(name) else {
                check.unknown(&what);
                continue;
            };
            population.copula = copula;
            let joint = population.joint(Some(task), candidate, primary).unwrap();
            let cells = [joint.p11(), joint.p10(), joint.p01(), joint.p00()];
            let tolerance = vectors.tolerance(&format!("copula_{name}"));
            compare(check, &what, &cells, table, tolerance);
        }
    }
}

fn compare(check: &mut Check, what: &str, got: &[f64], want: &Value, tolerance: f64) {
    let want = want.as_array().unwrap();
    check.same(&format!("{what}: length"), got.len(), &want.len().into());
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        check.near(&format!("{what} [{at}]"), *got, want, tolerance);
    }
}
