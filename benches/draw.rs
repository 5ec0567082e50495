//! How long it takes to draw traffic: the lesson's world, a batch at a time, into reused vectors.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use routelab::source::{Diagnostics, SourceFile};
use routelab::workload::{BATCH, Batch, Domain, DrawKey, Workload, parse};

fn support(replace: (&str, &str)) -> Workload {
    let text = include_str!("../workloads/support.toml").replace(replace.0, replace.1);
    let mut diagnostics = Diagnostics::default();
    let file = SourceFile::new("support.toml", text);
    parse(&file, "support", &mut diagnostics)
        .and_then(|spec| spec.build(None, &mut diagnostics))
        .expect("the workload in the repository is sound")
}

fn draw(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("draw");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, replace) in [
        ("support", ("", "")),
        (
            "support, correlated",
            ("correlation = 0.0", "correlation = 0.25"),
        ),
    ] {
        let world = support(replace);
        let mut batch = Batch::default();
        let mut first = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let key = DrawKey {
                    seed: 2026,
                    domain: Domain::Traffic,
                    replicate: 0,
                };
                world.fill(key, first, BATCH, &mut batch);
                first += BATCH as u64;
                black_box(&mut batch);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, draw);
criterion_main!(benches);
