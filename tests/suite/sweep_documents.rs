//! What a sweep writes: the same bytes always, tables that fit, pictures that are pictures; and the blocks
//! that its probabilities stand on.

use std::fs;
use std::sync::atomic::AtomicBool;

use routelab::sim::{self, Experiment};
use routelab::source::Diagnostics;
use routelab::stats::{Tally, UnitSums};
use serde_json::Value;

use crate::given::{policies, project, report_names, routes, workload};
use crate::program::{run, run_in};

const SUPPORT: &str = "workloads/support.toml";
const RECORDED: &str = "workloads/lesson-recorded.toml";
const CASCADE: &str = "policies/cascade.toml";
const FALSE_ACCEPT: &str = "policy.cascade.verifier.simulated.accept_if_wrong";

#[test]
fn blocks_add_up_to_the_whole_experiment() {
    let catalogue = routes();
    let found = policies("policies", &catalogue);
    for (world, requests, replicates) in [(SUPPORT, 70_000, 2), (RECORDED, 6000, 2)] {
        let world = workload(world);
        let experiment = Experiment {
            catalogue: &catalogue,
            workload: &world,
            policies: &found,
            seed: 7,
            requests,
            replicates,
            baseline: None,
            controls: true,
            stage: None,
            slices: false,
            timed: None,
            cluster: None,
        };
        let (mut warnings, stop) = (Diagnostics::default(), AtomicBool::new(false));
        let whole = sim::run(&experiment, &mut warnings, &|_| {}, &stop).unwrap();
        let (cut, blocks) =
            sim::run_in_blocks(&experiment, 30, &mut warnings, &|_| {}, &stop).unwrap();
        assert_eq!(whole.contestants.len(), blocks.of.len());
        for ((one, other), blocks) in whole
            .contestants
            .iter()
            .zip(&cut.contestants)
            .zip(&blocks.of)
        {
            assert_eq!(one.tallies, other.tallies, "{}", one.name);
            assert_eq!(one.pairs, other.pairs, "{}", one.name);
            for (tally, blocks) in one.tallies.iter().zip(blocks) {
                assert_eq!(blocks.len(), 30);
                let mut sum = UnitSums::default();
                blocks.iter().for_each(|block| sum.merge(block));
                let of =
                    |tally: &Tally| (tally.graded, tally.score_sum, tally.costed, tally.cost_sum);
                assert_eq!(
                    (sum.graded, sum.score_sum, sum.costed, sum.cost_sum),
                    of(tally)
                );
            }
        }
    }
}

#[test]
fn a_sweep_is_the_same_bytes_at_1_2_and_7_threads_and_says_what_it_was_made_from() {
    let vary = format!("{FALSE_ACCEPT}=0:0.6:0.2");
    for (world, more) in [
        (
            SUPPORT,
            [
                "--vary",
                "workload.synthetic.correlation=0,1",
                "--requests",
                "100k",
            ],
        ),
        (
            RECORDED,
            ["--vary", "margin=0.01,0.05", "--replicates", "2"],
        ),
    ] {
        let report = |threads: &str, seed: &str| -> Vec<(String, Vec<u8>)> {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("r");
            let fixed = [
                "sweep",
                world,
                "-p",
                CASCADE,
                "--vary",
                &vary,
                "-q",
                "--threads",
                threads,
                "--seed",
                seed,
                "--report",
                out.to_str().unwrap(),
            ];
            run(&[&fixed[..], &more].concat()).fine();
            let names = report_names(&["plot.svg"]);
            let mut there: Vec<String> = fs::read_dir(&out)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            there.sort();
            assert_eq!(there, names);
            names
                .into_iter()
                .map(|name| {
                    let bytes = fs::read(out.join(&name)).unwrap();
                    (name, bytes)
                })
                .collect::<Vec<_>>()
        };
        let one = report("1", "5");
        for threads in ["2", "7"] {
            assert!(one == report(threads, "5"), "{world} at {threads} threads");
        }
        let other = report("1", "6");
        assert!(one[0] != other[0], "another seed has other numbers");
        let is_manifest = |file: &&(String, Vec<u8>)| file.0 == "manifest.json";
        let manifest = one.iter().find(is_manifest).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest.1).unwrap();
        let outputs = manifest["outputs"].as_array().unwrap();
        assert_eq!(outputs.len(), one.len() - 1);
        let written = one.iter().filter(|file| !is_manifest(file));
        for ((name, bytes), output) in written.zip(outputs) {
            assert_eq!(output["path"], name.as_str());
            assert_eq!(
                output["sha256"],
                routelab::report::sha256_hex(bytes).as_str()
            );
        }
        for input in manifest["inputs"].as_array().unwrap() {
            let bytes = fs::read(project(input["path"].as_str().unwrap())).unwrap();
            assert_eq!(
                input["sha256"],
                routelab::report::sha256_hex(&bytes).as_str()
            );
        }
        let sweep: Value = serde_json::from_slice(
            &one.iter()
                .find(|(name, _)| name == "findings.json")
                .unwrap()
                .1,
        )
        .unwrap();
        assert_eq!(sweep["schema"], "routelab.sweep/1");
        assert_eq!(sweep["manifest"]["command"], manifest["command"]);
    }
}

#[test]
fn the_table_and_the_csv_are_frozen() {
    let vary = format!("{FALSE_ACCEPT}=0:0.6:0.2");
    let fixed = ["sweep", RECORDED, "-p", CASCADE, "--vary", &vary, "-q"];
    let table = run(&fixed).fine();
    assert!(
        table
            .lines()
            .filter(|line| line.starts_with(' '))
            .all(|line| line.chars().count() <= 120)
    );
    insta::assert_snapshot!("sweep_table", table);
    let csv = run(&[&fixed[..], &["--format", "csv"]].concat()).fine();
    insta::assert_snapshot!("sweep_csv", csv);
}

#[test]
fn tables_of_two_parameters_fit_a_terminal() {
    let vary = format!("{FALSE_ACCEPT}=0,0.3");
    for second in [
        "workload.synthetic.correlation=0,0.25",
        "margin=0.01,0.05",
        "policy.cascade.order[1]=medium",
    ] {
        let table = run(&[
            "sweep", SUPPORT, "-p", CASCADE, "--vary", &vary, "--vary", second, "-q",
        ])
        .fine();
        let grid = table
            .lines()
            .filter(|line| line.starts_with(' ') || line.starts_with("---"));
        let widest = grid.map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 120, "{second}: {widest}\n{table}");
    }
}

/// Names from files stand in the picture as text, whatever is in them, and the picture is XML.
#[test]
fn a_plot_holds_names_as_text_and_says_what_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a<b>&\"]]>\u{7}x.toml";
    fs::copy(project(CASCADE), folder.path().join(name)).unwrap();
    let plot = folder.path().join("p.svg");
    let routes = project("policies/routes.toml");
    let world = project(SUPPORT);
    let vary = format!("{FALSE_ACCEPT}=0:0.6:0.1");
    run_in(
        folder.path(),
        &[
            "sweep",
            world.to_str().unwrap(),
            "-p",
            name,
            "--routes",
            routes.to_str().unwrap(),
            "--vary",
            &vary,
            "--plot",
            "p.svg",
            "-q",
        ],
    )
    .fine();
    let svg = fs::read_to_string(&plot).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(
        svg.contains("a&lt;b&gt;&amp;&quot;]]&gt;\\u{7}x on support: 7 points, simulated"),
        "{svg}"
    );
    for text in [
        "cost, USD per 1,000 requests, logarithmic",
        "accuracy, % of requests right",
        "always-medium",
        "labels: accept_if_wrong",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("<b>") && !svg.contains('\u{7}'));
    // Every tag is one of those a picture needs, and each that is opened is closed.
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let word = tag
            .trim_start_matches('/')
            .split_whitespace()
            .next()
            .unwrap();
        assert!(
            ["svg", "rect", "circle", "line", "polyline", "text"].contains(&word),
            "{tag}"
        );
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(word));
        } else if !tag.ends_with('/') {
            open.push(word);
        }
    }
    assert!(open.is_empty());
}

/// Being on the front of the points says nothing about the single routes, so the summary does.
#[test]
fn points_of_the_front_that_a_single_route_dominates_are_named_in_the_summary() {
    let vary = format!("{FALSE_ACCEPT}=0:0.6:0.2");
    let swept = ["sweep", RECORDED, "-p", CASCADE, "--vary", &vary, "-q"];
    let found = run(&[&swept[..], &["--format", "json"]].concat()).json();
    let beaten: Vec<String> = found["points"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|point| point["front"]["on"] == true && !point["front"]["dominated_by"].is_null())
        .map(|point| point["values"][FALSE_ACCEPT].to_string())
        .collect();
    assert!(!beaten.is_empty(), "{found}");
    let said = run(&swept).stdout;
    let sentence = format!(
        "Single routes dominate {} of these: accept_if_wrong = {}.",
        beaten.len(),
        beaten.join(", ")
    );
    assert!(said.contains(&sentence), "{sentence}\n{said}");
    assert!(said.contains("points are on the point front;"), "{said}");
    assert!(!said.contains("on the front:"), "{said}");
}
