//! Labelled examples for the eval-driven policy, on the shipped lesson's world.

use routelab::catalogue::Catalogue;
use routelab::policy::PolicyFile;
use routelab::size;
use routelab::stats::{
    Bar, CheapestPassing, EvalCell, EvalOutlook, SequentialEval, indifference_zone,
};
use routelab::workload::{Population, Workload};
use serde_json::Value;

use super::sequential::keyed;
use super::{Check, Family, Vectors};
use crate::given::{policy_of, routes, run, tally, workload};

pub(super) const FAMILIES: &[(&str, Family)] = &[
    ("eval_driven", eval_driven),
    ("eval_sequential_sprt", eval_sequential_sprt),
];

/// "k/n >= 0.88 decided as 25k >= 22n", as the file's notes say.
const BAR_MILLIONTHS: u32 = 880_000;

/// Errors and most labels of the file's sequential test, which its keys do not state.
const ERROR: f64 = 0.05;
const LABELS_MAX: u64 = 5_000;

/// Where the search for an eval set's size ends.
const EXAMPLES_MAX: u64 = 20_000;

/// The shipped world, its routes from cheapest to dearest.
struct World {
    workload: Workload,
    population: Population,
    catalogue: Catalogue,
    /// Indices of the workload's routes.
    order: Vec<usize>,
    rule: CheapestPassing,
}

impl World {
    fn shipped() -> Self {
        let workload = workload("workloads/support.toml");
        let catalogue = routes();
        let population = size::population(&workload, &catalogue).unwrap();
        let cost = |route: &usize| population.always(*route).usd_per_1k.unwrap();
        let mut order: Vec<usize> = (0..workload.routes.len()).collect();
        order.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        let rule = CheapestPassing {
            bar: Bar::from_millionths(BAR_MILLIONTHS).unwrap(),
            fallback: order.len() - 1,
        };
        Self {
            workload,
            population,
            catalogue,
            order,
            rule,
        }
    }

    fn task(&self, name: &str) -> Option<usize> {
        self.workload.tasks.iter().position(|task| task == name)
    }

    /// The place of a route from cheapest to dearest.
    fn place(&self, name: &str) -> Option<usize> {
        self.order
            .iter()
            .position(|route| self.workload.routes[*route] == name)
    }

    /// Something of every route of a task, from cheapest to dearest.
    fn each(&self, of: impl Fn(usize) -> f64) -> Vec<f64> {
        self.order.iter().map(|route| of(*route)).collect()
    }

    fn accuracies(&self, task: usize) -> Vec<f64> {
        self.each(|route| self.population.tasks[task].routes[route].accuracy())
    }

    fn usd_per_1k(&self, task: usize) -> Vec<f64> {
        self.each(|route| self.population.tasks[task].routes[route].usd.unwrap() * 1e3)
    }

    fn route_name(&self, place: usize) -> &str {
        &self.workload.routes[self.order[place]]
    }
}

/// The lesson's own rows: what always taking the cheapest route comes to, and what sending one task's
/// requests to a dearer one adds, from whole runs of static policies.
struct Recorded {
    accuracy: f64,
    usd_per_1k: f64,
    /// By task, then by place.
    more_accuracy: Vec<Vec<f64>>,
    more_usd_per_1k: Vec<Vec<f64>>,
}

impl Recorded {
    fn rows(world: &World) -> Self {
        let rows = workload("workloads/lesson-recorded.toml");
        let cheapest = world.route_name(0);
        let name = |task: &str, place: usize| format!("{task}-to-{}", world.route_name(place));
        let mut files: Vec<PolicyFile> = Vec::new();
        for task in &world.workload.tasks {
            for place in 0..world.order.len() {
                let text = format!(
                    "[static]\ndefault = \"{cheapest}\"\ntask = {{ {task} = \"{}\" }}\n",
                    world.route_name(place)
                );
                files.push(policy_of(&name(task, place), &text, &world.catalogue));
            }
        }
        let results = run(&world.catalogue, &rows, &files, rows.len());
        let seen = |policy: &str| {
            let tally = tally(&results, policy);
            let n = tally.requests as f64;
            (
                tally.score_sum as f64 / 1e6 / n,
                tally.cost_sum as f64 / 1e9 / n,
            )
        };
        let (accuracy, usd_per_1k) = seen(&format!("always-{cheapest}"));
        let more = |of: &dyn Fn(&str) -> f64| -> Vec<Vec<f64>> {
            let of_task = |task: &String| {
                (0..world.order.len())
                    .map(|at| of(&name(task, at)))
                    .collect()
            };
            world.workload.tasks.iter().map(of_task).collect()
        };
        Self {
            accuracy,
            usd_per_1k,
            more_accuracy: more(&|policy| seen(policy).0 - accuracy),
            more_usd_per_1k: more(&|policy| seen(policy).1 - usd_per_1k),
        }
    }
}

fn eval_driven(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("eval");
    let world = World::shipped();
    let recorded = Recorded::rows(&world);
    for (key, cells) in family.as_object().unwrap() {
        if let Some(task) = key.strip_prefix("n_needed_") {
            let Some(task) = world.task(task) else {
                check.unknown(key);
                continue;
            };
            for (target, want) in cells.as_object().unwrap() {
                let size = world.rule.examples_needed(
                    &world.accuracies(task),
                    target.parse().unwrap(),
                    EXAMPLES_MAX,
                );
                check.same(
                    &format!("{key} {target}"),
                    size.map(|size| size.settled),
                    want,
                );
            }
        } else if let Ok(n) = key.parse() {
            fixed_number(n, &world, &recorded, cells, tolerance, check);
        } else {
            check.unknown(key);
        }
    }
}

fn fixed_number(
    n: u64,
    world: &World,
    recorded: &Recorded,
    cells: &Value,
    tolerance: f64,
    check: &mut Check,
) {
    let tasks = 0..world.workload.tasks.len();
    let of_tasks =
        |of: &dyn Fn(usize) -> Vec<f64>| -> Vec<Vec<f64>> { tasks.clone().map(of).collect() };
    let accuracies = of_tasks(&|task| world.accuracies(task));
    let usd_per_1k = of_tasks(&|task| world.usd_per_1k(task));
    let picks = of_tasks(&|task| world.rule.picks(n, &accuracies[task]).unwrap());
    let outlook = |whole: bool, accuracy: &[Vec<f64>], cost: &[Vec<f64>]| {
        let cell = |task: usize| EvalCell {
            // What is recorded is already by request of all tasks.
            share: if whole {
                1.0
            } else {
                world.population.tasks[task].share
            },
            picks: &picks[task],
            oracle: world.rule.oracle(&accuracies[task]).unwrap(),
            accuracy: &accuracy[task],
            cost: &cost[task],
        };
        let cells: Vec<EvalCell<'_>> = tasks.clone().map(cell).collect();
        EvalOutlook::new(&cells).unwrap()
    };
    let expected = outlook(false, &accuracies, &usd_per_1k);
    let fixed = outlook(true, &recorded.more_accuracy, &recorded.more_usd_per_1k);
    for (name, want) in cells.as_object().unwrap() {
        let what = format!("{n} {name}");
        let got = match name.as_str() {
            "k" => {
                check.same(&what, world.rule.bar.least_right(n), want);
                continue;
            }
            "pick" => {
                for (task_name, by_route) in want.as_object().unwrap() {
                    for (route, want) in by_route.as_object().unwrap() {
                        let what = format!("{what} {task_name} {route}");
                        match world.task(task_name).zip(world.place(route)) {
                            Some((task, place)) => {
                                check.near(&what, picks[task][place], want, tolerance)
                            }
                            None => check.unknown(&what),
                        }
                    }
                }
                continue;
            }
            "exp_match" => expected.matches,
            "p_all5" => expected.all_match,
            "pop_acc" => expected.accuracy,
            "pop_usd1k" => expected.cost,
            "fixed_acc" => recorded.accuracy + fixed.accuracy,
            "fixed_usd1k" => recorded.usd_per_1k + fixed.cost,
            _ => {
                check.unknown(&what);
                continue;
            }
        };
        check.near(&what, got, want, tolerance);
    }
}

fn eval_sequential_sprt(vectors: &Vectors<'_>, family: &Value, check: &mut Check) {
    let tolerance = vectors.tolerance("sprt");
    let world = World::shipped();
    let of = |task: usize, zone: f64| -> SequentialEval {
        let test = indifference_zone(world.rule.bar, zone, ERROR, ERROR).unwrap();
        let accuracies = world.accuracies(task);
        world
            .rule
            .sequential(&accuracies, &test, LABELS_MAX)
            .unwrap()
    };
    let right = |task: usize, found: &SequentialEval| {
        found.picks[world.rule.oracle(&world.accuracies(task)).unwrap()]
    };
    for (key, cells) in family.as_object().unwrap() {
        let name = key.rsplit('|').next().unwrap_or(key);
        let (Some(zone), true) = (keyed(key, "eps"), key.starts_with("sprt|")) else {
            check.unknown(key);
            continue;
        };
        if name == "total" {
            let all: Vec<(f64, f64)> = (0..world.workload.tasks.len())
                .map(|task| {
                    let found = of(task, zone);
                    (right(task, &found), found.labels)
                })
                .collect();
            for (name, want) in cells.as_object().unwrap() {
                let what = format!("{key} {name}");
                match name.as_str() {
                    "match" => {
                        check.near(&what, all.iter().map(|one| one.0).sum(), want, tolerance)
                    }
                    "labels" => {
                        check.near(&what, all.iter().map(|one| one.1).sum(), want, tolerance)
                    }
                    _ => check.unknown(&what),
                }
            }
            continue;
        }
        let Some(task) = world.task(name) else {
            check.unknown(key);
            continue;
        };
        let found = of(task, zone);
        for (name, want) in cells.as_object().unwrap() {
            let what = format!("{key} {name}");
            match name.as_str() {
                "P_oracle" => check.near(&what, right(task, &found), want, tolerance),
                "E_labels" => check.near(&what, found.labels, want, tolerance),
                route => match world.place(route).and_then(|place| found.tests.get(place)) {
                    Some(test) => {
                        check.near(&what, test.accept_h1, &want[0], tolerance);
                        check.near(&what, test.expected_n, &want[1], tolerance);
                        check.near(&what, test.undecided, &want[2], tolerance);
                    }
                    None => check.unknown(&what),
                },
            }
        }
    }
}
