//! Findings made by hand that have everything a page can show.

use crate::report::made::{Did, did, experiment};
use routelab::report::{
    FileDigest, Findings, Manifest, Options, Sample, Saving, Slice, SliceBy, SliceRow, Story,
    findings,
};
use routelab::stats::{Estimate, Limits, NonInferiority};

/// Routes with names that try to break out.
pub(super) const ROUTES: [&str; 2] = ["<b>small</b>", "\"large\" & 'dear'"];

/// Names that try to break out, one of them long, one from right to left.
pub(super) fn hostile_names() -> Vec<String> {
    vec![
        "<script>alert(1)</script>".to_owned(),
        "\"'><img src=x onerror=alert(1)>".to_owned(),
        "]]></style></script><!-- `${1}`".to_owned(),
        "\u{202e}gpj.exe\u{2066}\u{200b}".to_owned(),
        "=HYPERLINK(\"http://e.x\")|a".to_owned(),
        "a\n\u{1b}[31mb".to_owned(),
        "מדיניות".to_owned(),
        "x".repeat(300),
    ]
}

/// Names from everyday life.
fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Six hundred requests under policies of these names.
fn made(policies: &[String], routes: [&str; 2], tasks: &[String], tenants: &[String]) -> Findings {
    let large: Vec<Did> = (0..600)
        .map(|i| did(1, i % 20 != 0, 0.018 + (i % 7) as f64 * 1e-4))
        .collect();
    let small: Vec<Did> = (0..600).map(|i| did(0, i % 3 != 0, 0.000_3)).collect();
    let always = routes.map(|route| format!("always-{route}"));
    let mut contestants: Vec<(&str, &'static str, Vec<Did>)> = policies
        .iter()
        .enumerate()
        .map(|(place, name)| {
            let mixed = (0..600).map(|i| match i % (place + 2) {
                0 => small[i],
                _ => large[i],
            });
            (name.as_str(), "static", mixed.collect())
        })
        .collect();
    contestants.push((&always[0], "always", small));
    contestants.push((&always[1], "always", large));
    let mut results = experiment(&routes, &contestants);
    results.priced_on = Some(("2026-10-01".to_owned(), "2026-10-01".to_owned()));
    let options = Options {
        require: vec!["accuracy>=0.9".to_owned()],
        ..Options::default()
    };
    let manifest = Manifest {
        version: "0.1.0".to_owned(),
        seed: 2026,
        inputs: vec![FileDigest::of("workloads/support.toml", b"[synthetic]")],
        outputs: Vec::new(),
        command: names(&[
            "routelab",
            "compare",
            "workloads/support.toml",
            "--require",
            "accuracy>=0.9",
        ]),
    };
    let mut findings = findings(&results, &options, manifest).expect("valid options");
    findings.slices = slices(policies, tasks, tenants);
    findings.samples = samples(policies, routes, tasks, tenants);
    for row in findings.rows.iter_mut().filter(|row| !row.control) {
        row.saving = Some(Saving {
            mix: format!("62 % {}, 38 % {}", routes[0], routes[1]),
            usd_per_1k: estimate(1.25, 1.0, 1.5, "normal"),
            share: estimate(0.2, 0.1, 0.3, "normal"),
            note: None,
        });
    }
    findings
}

fn estimate(value: f64, low: f64, high: f64, method: &'static str) -> Estimate {
    Estimate::new(value, Some(Limits { low, high }), 0.95, 120, method)
}

fn slices(policies: &[String], tasks: &[String], tenants: &[String]) -> Vec<Slice> {
    let rows = |shift: usize| -> Vec<SliceRow> {
        let verdicts = [
            NonInferiority::NonInferior,
            NonInferiority::Inconclusive,
            NonInferiority::Inferior,
        ];
        let with = policies.iter().enumerate().map(|(place, policy)| {
            let value = -0.012 * ((place + shift) % 5) as f64;
            SliceRow {
                policy: policy.clone(),
                control: false,
                accuracy: estimate(0.93 + value, 0.9 + value, 0.95 + value, "wilson"),
                usd_per_1k: estimate(6.0 + place as f64, 5.5, 8.5, "normal"),
                accuracy_difference: Some(estimate(value, value - 0.02, value + 0.015, "tango")),
                verdict: Some(verdicts[(place + shift) % 3]),
            }
        });
        with.collect()
    };
    let mut slices = Vec::new();
    for (place, task) in tasks.iter().enumerate() {
        slices.push(Slice {
            by: SliceBy::Task,
            task: Some(task.clone()),
            tenant: None,
            requests: 120 + place as u64,
            rows: rows(place),
        });
    }
    for (place, tenant) in tenants.iter().map(Some).chain([None]).enumerate() {
        slices.push(Slice {
            by: SliceBy::Tenant,
            task: None,
            tenant: tenant.cloned(),
            requests: 90 + place as u64,
            rows: rows(place + 1),
        });
    }
    slices
}

fn samples(
    policies: &[String],
    routes: [&str; 2],
    tasks: &[String],
    tenants: &[String],
) -> Vec<Sample> {
    (0..12)
        .map(|number| Sample {
            request: format!("r{}", 1_000 + number * 37),
            task: tasks[number % tasks.len()].clone(),
            tenant: tenants.get(number % (tenants.len() + 1)).cloned(),
            stories: policies
                .iter()
                .enumerate()
                .map(|(place, policy)| Story {
                    policy: policy.clone(),
                    route: Some(routes[(place + number) % 2].to_owned()),
                    grade: [Some(1.0), Some(0.0), None][(place + number) % 3],
                    cost_usd: Some(0.003 + place as f64 * 1e-4),
                    calls: 1 + (number % 2) as u32,
                    lines: vec![
                        format!("1  filter   {} allowed: all data may go there", routes[0]),
                        format!(
                            "2  {policy}   {} chosen: task {}",
                            routes[1],
                            tasks[number % tasks.len()]
                        ),
                    ],
                })
                .collect(),
        })
        .collect()
}

/// An ordinary comparison.
pub(super) fn everyday() -> Findings {
    made(
        &names(&["cascade", "eval-driven", "static"]),
        ["small", "large"],
        &names(&["orders", "refunds", "complaints", "smalltalk"]),
        &names(&["acme", "globex"]),
    )
}

/// The same with names from hell, everywhere.
pub(super) fn hostile() -> Findings {
    let evil = hostile_names();
    let mut findings = made(&evil, ROUTES, &evil, &evil);
    findings.workload.name = evil[0].clone();
    findings.priced_on = Some((evil[2].clone(), evil[3].clone()));
    findings.notes.extend(evil.clone());
    findings.manifest.inputs = evil.iter().map(|name| FileDigest::of(name, b"")).collect();
    findings.manifest.command.extend(evil);
    findings
}
