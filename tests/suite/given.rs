//! What the tests start from: shipped files, reference data, and a run of an experiment.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use routelab::catalogue::{self, Catalogue};
use routelab::policy::{self, PolicyFile};
use routelab::sim::{self, Contestant, Experiment, Results, Stage, Timed};
use routelab::source::{Diagnostics, SourceFile};
use routelab::stats::Tally;
use routelab::workload::{self, Workload};

/// A path below the project.
pub(crate) fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A file of reference data beside the checkout; `None`, with a message, if it is absent.
#[expect(clippy::print_stderr, reason = "a test that is skipped has to say so")]
pub(crate) fn shared(path: &str) -> Option<Vec<u8>> {
    let full = project("../shared").join(path);
    match std::fs::read(&full) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            let required = std::env::var("ROUTELAB_REQUIRE_SHARED").is_ok_and(|value| value == "1");
            assert!(!required, "{}: {error}", full.display());
            eprintln!("skipped: {} is not here", full.display());
            None
        }
    }
}

/// A JSON file of reference values beside the checkout.
pub(crate) fn reference(path: &str) -> Option<serde_json::Value> {
    Some(serde_json::from_slice(&shared(path)?).expect("reference files are JSON"))
}

/// The names of a report folder's files, sorted: what every report has, and what this one has beside it.
pub(crate) fn report_names(own: &[&str]) -> Vec<String> {
    let mut names = vec![
        "findings.csv",
        "findings.json",
        "manifest.json",
        "report.html",
        "table.md",
        "table.txt",
    ];
    names.extend(own);
    if cfg!(feature = "frames") {
        names.push("findings.parquet");
    }
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    if cfg!(feature = "png") {
        let drawn = own.iter().filter_map(|name| name.strip_suffix(".svg"));
        names.extend(drawn.map(|stem| format!("{stem}.png")));
    }
    names.sort_unstable();
    names
}

/// Whether these are the files of a comparison's report: what every report has, decisions with their dictionary, the
/// slide, and plots.
pub(crate) fn is_comparison(names: &[String]) -> bool {
    let decisions = if cfg!(feature = "frames") {
        "decisions.parquet"
    } else {
        "decisions.csv.gz"
    };
    let own = ["accuracy-cost.svg", "columns.md", decisions, "slide.svg"];
    let needed = report_names(&own);
    let is_picture = |name: &String| name.ends_with(".svg") || name.ends_with(".png");
    needed.iter().all(|name| names.contains(name))
        && names
            .iter()
            .all(|name| needed.contains(name) || is_picture(name))
}

/// Findings as the document for programs.
pub(crate) fn json_of(findings: &routelab::report::Findings) -> String {
    let json = routelab::report::Renderer::named("json").expect("a renderer");
    (json.render)(findings)
}

/// A committed JSON file of reference values.
pub(crate) fn fixture(name: &str) -> serde_json::Value {
    let text = std::fs::read(project("tests/fixtures").join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn file(path: &str) -> std::sync::Arc<SourceFile> {
    SourceFile::new(path, std::fs::read_to_string(project(path)).unwrap())
}

/// A catalogue from text.
pub(crate) fn catalogue_of(text: &str) -> Catalogue {
    let mut found = Diagnostics::default();
    let read = catalogue::parse(&SourceFile::new("routes.toml", text), &mut found);
    read.unwrap_or_else(|| panic!("{}", found.render(false)))
}

/// The shipped catalogue.
pub(crate) fn routes() -> Catalogue {
    catalogue_of(&file("policies/routes.toml").text)
}

/// A policy from text.
pub(crate) fn policy_of(name: &str, text: &str, catalogue: &Catalogue) -> PolicyFile {
    let mut found = Diagnostics::default();
    let read = policy::parse(&SourceFile::new(name, text), name, catalogue, &mut found);
    read.unwrap_or_else(|| panic!("{}", found.render(false)))
}

/// All policies of a folder of the project, by name.
pub(crate) fn policies(folder: &str, catalogue: &Catalogue) -> Vec<PolicyFile> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(project(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| {
        path.extension().is_some_and(|e| e == "toml") && path.file_name().unwrap() != "routes.toml"
    });
    paths.sort();
    let read = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        policy_of(&name, &std::fs::read_to_string(&path).unwrap(), catalogue)
    };
    paths.into_iter().map(read).collect()
}

/// A workload from the text of a workload file that stands at `path`.
pub(crate) fn workload_of(path: &str, text: &str) -> Workload {
    let mut found = Diagnostics::default();
    let name = Path::new(path).file_stem().unwrap().to_str().unwrap();
    let spec = workload::parse(&SourceFile::new(path, text), name, &mut found);
    let spec = spec.unwrap_or_else(|| panic!("{}", found.render(false)));
    let data = spec
        .data_path()
        .map(|data| std::fs::read(project(path).parent().unwrap().join(&data.value)).unwrap());
    let built = spec.build(data.as_deref(), &mut found);
    built.unwrap_or_else(|| panic!("{}", found.render(false)))
}

/// A workload of the project.
pub(crate) fn workload(path: &str) -> Workload {
    workload_of(path, &file(path).text)
}

/// An experiment with all policies and the controls, in a batch.
pub(crate) fn experiment<'a>(
    catalogue: &'a Catalogue,
    workload: &'a Workload,
    policies: &'a [PolicyFile],
    requests: u64,
) -> Experiment<'a> {
    Experiment {
        catalogue,
        workload,
        policies,
        seed: 2026,
        requests,
        replicates: 1,
        baseline: None,
        controls: true,
        stage: None,
        slices: false,
        timed: None,
        cluster: None,
    }
}

/// Runs an experiment that fits together, on so many threads.
pub(crate) fn run_on(experiment: &Experiment<'_>, threads: usize) -> Results {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let ran = pool.build().unwrap().install(|| {
        let stop = AtomicBool::new(false);
        sim::run(experiment, &mut Diagnostics::default(), &|_| {}, &stop)
    });
    match ran {
        Ok(results) => results,
        Err(stopped) => panic!("{stopped:?}"),
    }
}

/// Runs all policies, with controls, on the first `requests` requests.
pub(crate) fn run(
    catalogue: &Catalogue,
    workload: &Workload,
    policies: &[PolicyFile],
    requests: u64,
) -> Results {
    run_staged(catalogue, workload, policies, requests, None)
}

/// The same, perhaps with stand-ins and faults.
pub(crate) fn run_staged(
    catalogue: &Catalogue,
    workload: &Workload,
    policies: &[PolicyFile],
    requests: u64,
    stage: Option<&Stage>,
) -> Results {
    let experiment = Experiment {
        stage,
        ..experiment(catalogue, workload, policies, requests)
    };
    let mut warnings = Diagnostics::default();
    match sim::run(&experiment, &mut warnings, &|_| {}, &AtomicBool::new(false)) {
        Ok(results) => results,
        Err(sim::Stopped::Invalid(found)) => panic!("{}", found.render(false)),
        Err(sim::Stopped::Interrupted(_)) => panic!("interrupted"),
        Err(sim::Stopped::Failed(why)) => panic!("{why}"),
    }
}

/// Runs the policies, without controls, in time: one replicate of `seed`.
pub(crate) fn run_timed(
    catalogue: &Catalogue,
    workload: &Workload,
    policies: &[PolicyFile],
    timed: &Timed<'_>,
    (seed, requests): (u64, u64),
) -> Result<Results, sim::Stopped> {
    let experiment = Experiment {
        catalogue,
        workload,
        policies,
        seed,
        requests,
        replicates: 1,
        baseline: None,
        controls: false,
        stage: None,
        slices: false,
        timed: Some(timed),
        cluster: None,
    };
    let stop = AtomicBool::new(false);
    sim::run(&experiment, &mut Diagnostics::default(), &|_| {}, &stop)
}

/// The contestant of this name.
pub(crate) fn contestant<'r>(results: &'r Results, name: &str) -> &'r Contestant {
    let names: Vec<&str> = results
        .contestants
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    results
        .contestants
        .iter()
        .find(|one| one.name == name)
        .unwrap_or_else(|| panic!("no `{name}` among {names:?}"))
}

/// Its tally in the first replicate.
pub(crate) fn tally<'r>(results: &'r Results, name: &str) -> &'r Tally {
    &contestant(results, name).tallies[0]
}
