//! How long exact tables take: the lesson's twelve shadow cells, its sizing table, and a million pairs.
//!
//! Everything is computed anew in each iteration from the world's 64 quadrature nodes on down, except for
//! the world itself. The sums allocate nothing; what is allocated belongs to the lists that hold results.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use routelab::stats::{
    self, Bar, CheapestPassing, EvalCell, EvalOutlook, Joint, Rule, promotion_probability,
};
use routelab::workload::{Population, Terms, Workload, parse};
use routelab::{catalogue, size, source};

fn support() -> (Workload, Vec<Terms>) {
    let mut diagnostics = source::Diagnostics::default();
    let text = include_str!("../workloads/support.toml");
    let file = source::SourceFile::new("support.toml", text);
    let world = parse(&file, "support", &mut diagnostics)
        .and_then(|spec| spec.build(None, &mut diagnostics))
        .expect("the workload in the repository is sound");
    let text = include_str!("../policies/routes.toml");
    let routes = catalogue::parse(
        &source::SourceFile::new("routes.toml", text),
        &mut diagnostics,
    )
    .expect("the catalogue in the repository is sound");
    let terms = size::terms(&world, &routes);
    (world, terms)
}

fn index(names: &[String], name: &str) -> usize {
    let at = names.iter().position(|known| known == name);
    at.expect("the lesson's world has it")
}

/// The pairs of the lesson's three rows.
fn pairs(world: &Workload, population: &Population) -> [Joint; 3] {
    [("summarize", "medium"), ("faq", "small"), ("faq", "medium")].map(|(task, candidate)| {
        let route = |name| index(&world.routes, name);
        population
            .joint(
                Some(index(&world.tasks, task)),
                route(candidate),
                route("large"),
            )
            .expect("requests of the task fit both")
    })
}

const PAIRS: [u64; 4] = [50, 200, 800, 1_600];

fn shadow(joints: &[Joint; 3], rule: Rule, criterion: stats::Criterion) -> f64 {
    let mut sum = 0.0;
    for joint in joints {
        for n in PAIRS {
            sum += promotion_probability(rule, n, black_box(*joint), criterion)
                .expect("the rule decides at this n");
        }
    }
    sum
}

/// The lesson's sizes: P(pick) of every task and route, and what follows from it.
fn sizing(cells: &[Cell], rule: CheapestPassing) -> f64 {
    let mut sum = 0.0;
    for n in [15, 60, 300] {
        let mut picks = [[0.0; 3]; 5];
        for (cell, picks) in cells.iter().zip(&mut picks) {
            rule.picks_into(n, black_box(&cell.right), picks)
                .expect("three routes");
        }
        let mut table = [EvalCell {
            share: 0.0,
            picks: &[],
            oracle: 0,
            accuracy: &[],
            cost: &[],
        }; 5];
        for ((entry, cell), picks) in table.iter_mut().zip(cells).zip(&picks) {
            *entry = EvalCell {
                share: cell.share,
                picks,
                oracle: cell.oracle,
                accuracy: &cell.accuracy,
                cost: &cell.usd,
            };
        }
        sum += EvalOutlook::new(&table)
            .expect("lists of one length")
            .matches;
    }
    sum
}

struct Cell {
    share: f64,
    oracle: usize,
    right: [f64; 3],
    accuracy: [f64; 3],
    usd: [f64; 3],
}

fn cells(population: &Population, rule: CheapestPassing) -> Vec<Cell> {
    let cell = |task: &routelab::workload::TaskPopulation| {
        let of = |f: &dyn Fn(&routelab::workload::RoutePopulation) -> f64| {
            [0, 1, 2].map(|route| f(&task.routes[route]))
        };
        let right = of(&|route| route.right);
        Cell {
            share: task.share,
            oracle: rule.oracle(&right).expect("three routes"),
            right,
            accuracy: of(&|route| route.accuracy()),
            usd: of(&|route| route.usd.expect("the catalogue has prices")),
        }
    };
    population.tasks.iter().map(cell).collect()
}

fn tables(criterion: &mut Criterion) {
    let (world, terms) = support();
    let population = world.population(&terms).expect("the world is synthetic");
    let joints = pairs(&world, &population);
    let lesson = stats::Criterion::new(0.03, 1.96).expect("a margin and a z");
    let rule = CheapestPassing {
        bar: Bar::from_share(0.88).expect("a share"),
        fallback: index(&world.routes, "large"),
    };
    let cells = cells(&population, rule);
    let mut group = criterion.benchmark_group("tables");
    group.bench_function("population", |bencher| {
        bencher.iter(|| world.population(black_box(&terms)));
    });
    for rule in [Rule::Tango, Rule::WaldLesson] {
        group.bench_function(format!("twelve shadow cells, {}", rule.name()), |bencher| {
            bencher.iter(|| shadow(&joints, rule, lesson));
        });
    }
    group.bench_function("sizing at n = 15, 60, 300", |bencher| {
        bencher.iter(|| sizing(&cells, rule));
    });
    group.bench_function("shadow cells and sizing together", |bencher| {
        bencher.iter(|| shadow(&joints, Rule::Tango, lesson) + sizing(&cells, rule));
    });
    group.bench_function("a million pairs, tango", |bencher| {
        bencher
            .iter(|| promotion_probability(Rule::Tango, 1_000_000, black_box(joints[2]), lesson));
    });
    group.finish();
}

criterion_group!(benches, tables);
criterion_main!(benches);
