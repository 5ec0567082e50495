//! Results in, a report out: [`findings`] computes every number, [`RENDERERS`] write them down.
//!
//! ```text
//! sim::Results ──findings()──▶ Findings ──render──▶ table, Markdown, CSV, JSON, page
//! ```
//!
//! Renderers are pure functions of [`Findings`]: they look at no terminal, clock or file, so the same
//! findings give the same bytes. Names come from outside (policy files, recorded traffic) and are
//! escaped wherever they are shown. What this module is not: a writer of files, see [`files`].

mod compare;
mod csv;
mod decisions;
mod diff;
mod drill;
mod drill_facts;
mod drill_incidents;
mod drill_line;
mod drill_plot;
mod drill_sheet;
mod drill_summary;
mod drill_words;
mod finance;
mod format;
mod frame;
mod gate;
mod gate_sheet;
mod json;
mod layout;
mod manifest;
mod markdown;
mod metrics;
mod mixes;
mod notes;
pub mod page;
mod plot;
mod plots;
#[cfg(feature = "png")]
mod png;
mod promotion;
mod require;
mod rollouts;
mod rows;
mod sample;
mod samples;
mod saving;
mod seen;
mod shadow;
mod sheet;
mod size_canary;
mod size_eval;
mod size_shadow;
mod size_shadow_words;
mod slices;
mod summary;
mod sweep;
mod sweep_sheet;
mod table;

pub use compare::{Bootstrapped, Paired};
pub use decisions::{DECISIONS_MAX, decision_files, decisions};
pub use diff::diff;
pub use drill::{Drill, DrillOptions, drill};
pub use format::visible;
pub use frame::{Cells, Frame, FrameColumn};
pub use gate::{ChangedKey, Gate, GateOptions, GateResult, GateVerdict};
pub use manifest::{FileDigest, Manifest, sha256_hex};
pub use metrics::{METRICS, Metric, Unit};
pub use plots::{plots, slide};
#[cfg(feature = "png")]
pub use png::png;
pub use promotion::{Promotion, PromotionCurve};
pub use require::{Judgement, Measure, Outcome, Requirement};
pub use rollouts::Rollouts;
pub use rows::{Known, Mix, Row};
pub use samples::{Sample, Story};
pub use saving::Saving;
pub use seen::seen;
pub use shadow::Shadow;
pub use sheet::{SHEET_FORMATS, Sheet};
pub use size_canary::size_canary;
pub use size_eval::size_eval;
pub use size_shadow::size_shadow;
pub use slices::{SLICE_PAIRS_LEAST, Slice, SliceBy, SliceRow};
pub use sweep::{
    Dominance, Dominator, Standing, Sweep, SweepOptions, SweepPoint, WorldResults, sweep,
};

use crate::sim::{Blocks, Decisions, Evidence, Results};
use crate::stats::{Bootstrap, Rule};
use sample::Pooling;

/// What the reader wants to know.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whom the others are compared with; `None` for the most accurate `always-<route>` that is
    /// graded on at least half of the requests.
    pub baseline: Option<String>,
    /// How much less accurate a policy may be and still count as "not worse": a share, 0.03 is three
    /// percentage points.
    pub margin: f64,
    /// Two-sided confidence level of every interval.
    pub level: f64,
    /// Requests for which the summary states the total cost.
    pub volume: Option<f64>,
    /// Requirements such as `accuracy>=0.9` (see [`Requirement::parse`]).
    pub require: Vec<String>,
    /// Metric to minimise (one of which less is better) among the policies that meet every requirement, for the summary.
    pub minimize: Option<String>,
    /// The rule by which shadows promote their candidates, at the same margin and error rate.
    pub promotion_rule: Rule,
    /// Replicates of a bootstrap over clusters, whose intervals then stand beside the others; it needs an
    /// experiment that added up differences by cluster. Its seed is the manifest's.
    pub bootstrap: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            baseline: None,
            margin: 0.03,
            level: 0.95,
            volume: None,
            require: Vec::new(),
            minimize: None,
            promotion_rule: Rule::Tango,
            bootstrap: None,
        }
    }
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Requests in one replicate.
    pub requests: u64,
    /// Replicates.
    pub replicates: u64,
    /// Whether replicates share their requests, so that they do not add to n.
    pub shared_rows: bool,
    /// How far the numbers can be trusted.
    pub evidence: Evidence,
}

impl Workload {
    /// The word for the evidence level that every report prints.
    #[must_use]
    pub const fn evidence_word(&self) -> &'static str {
        self.evidence.name()
    }
}

/// Everything a report says; renderers add nothing to it but form.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// What it was made from.
    pub manifest: Manifest,
    /// What was run.
    pub workload: Workload,
    /// Route names; `Row::final_share` has the same order.
    pub routes: Vec<String>,
    /// Two-sided confidence level of every interval.
    pub level: f64,
    /// Margin of "not worse", a share.
    pub margin: f64,
    /// One-sided error rate of the verdicts: (1 − level)/2, over all policies together.
    pub alpha: f64,
    /// Policies whose verdicts hold together, by Holm's procedure if there are several.
    pub family: u64,
    /// What differences take for independent (`user`, `session`, `tenant`), if not requests.
    pub cluster: Option<&'static str>,
    /// Name of the baseline, if there is one.
    pub baseline: Option<String>,
    /// Policies, then controls, each policy's mixes directly behind it.
    pub rows: Vec<Row>,
    /// Every row but the mixes against the baseline.
    pub paired: Vec<Paired>,
    /// One entry per requirement and policy.
    pub requirements: Vec<Judgement>,
    /// How likely the promotion rule is to promote, by the true difference: for each shadow, and for the
    /// policy whose difference is nearest to the margin.
    pub promotions: Vec<Promotion>,
    /// The same comparison for each task and tenant, if the experiment kept them apart.
    pub slices: Vec<Slice>,
    /// What has to be known to read them.
    pub slice_note: Option<String>,
    /// Some requests with everything that happened to them, if anybody looked.
    pub samples: Vec<Sample>,
    /// How they were chosen.
    pub sample_rule: Option<String>,
    /// The volume for which costs are stated: requests a month, if anybody asked.
    pub volume: Option<f64>,
    /// The days on which prices of the routes were read (`YYYY-MM-DD`), earliest and latest; `None` if nobody said.
    pub priced_on: Option<(String, String)>,
    /// The answer, in a sentence or two.
    pub summary: String,
    /// What has to be known to read the numbers.
    pub notes: Vec<String>,
}

impl Findings {
    /// The exit code the requirements call for: 100 when one failed, else 102 when one is
    /// inconclusive, else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let outcomes = || self.requirements.iter().map(|judgement| &judgement.outcome);
        if outcomes().any(|o| matches!(o, Outcome::Fail)) {
            100
        } else if outcomes().any(|o| matches!(o, Outcome::Inconclusive { .. })) {
            102
        } else {
            0
        }
    }

    /// Takes up single requests and the rule by which they were chosen.
    pub fn show(&mut self, samples: &crate::sim::Samples) {
        self.samples = samples.of.iter().map(Sample::of).collect();
        self.sample_rule = Some(samples.rule.clone()).filter(|_| !self.samples.is_empty());
    }

    /// The row of this name.
    #[must_use]
    pub fn row(&self, policy: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.policy == policy)
    }
}

/// Computes everything a report says, from one run.
///
/// # Errors
///
/// Those of [`findings_in_blocks`].
pub fn findings(
    results: &Results,
    options: &Options,
    manifest: Manifest,
) -> Result<Findings, Vec<String>> {
    findings_in_blocks(results, None, options, manifest)
}

/// The same with the sums of blocks of requests beside the results, if the run gave them
/// ([`run_in_blocks`](crate::sim::run_in_blocks)): savings then have an interval.
///
/// # Errors
///
/// One sentence per mistake in `options`: a margin or level out of range, a baseline that is not there
/// (with the nearest name), a requirement that cannot be read. All of them are reported, not the first.
pub fn findings_in_blocks(
    results: &Results,
    blocks: Option<&Blocks>,
    options: &Options,
    manifest: Manifest,
) -> Result<Findings, Vec<String>> {
    let policies: Vec<&str> = results
        .contestants
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    let routes: Vec<&str> = results.routes.iter().map(String::as_str).collect();
    let (requirements, minimize) = read_options(options, &policies, &routes)?;
    let (baseline, passed_over) =
        compare::baseline(results, options.baseline.as_deref()).map_err(|error| vec![error])?;

    let pooling = Pooling {
        replicates: results.replicates.max(1),
        shared_rows: results.shared_rows,
        level: options.level,
    };
    let mut rows = rows::rows(results, &pooling, (options.promotion_rule, options.margin));
    saving::fill(&mut rows, results, blocks, &pooling, manifest.seed);
    // (1 − 0.95)/2 is 0.025000000000000022 in floats: name it as it is meant.
    let alpha = ((1.0 - options.level) / 2.0 * 1e12).round() / 1e12;
    let test = compare::Test {
        margin: options.margin,
        alpha,
        bootstrap: options.bootstrap.map(|replicates| Bootstrap {
            seed: manifest.seed,
            replicates,
        }),
    };
    let (paired, family) = baseline.map_or((Vec::new(), 0), |chosen| {
        compare::paired(results, chosen, &pooling, &test)
    });
    let slices = slices::slices(results, baseline, &pooling, &test);
    let promotions = promotion::promotions(
        &rows,
        &paired,
        options.promotion_rule,
        (options.margin, pooling.z()),
        pooling.replicates,
    );
    let requests_total = if results.shared_rows {
        results.requests
    } else {
        results.requests.saturating_mul(pooling.replicates)
    };
    let requirements = require::judge(&requirements, &rows, requests_total);
    let mut notes = results.notes.clone();
    notes.extend(passed_over);
    notes.extend(notes::gathered(&rows, &paired));
    notes.extend(notes::of_family(family, alpha));
    notes.extend(notes::of_clusters(results.cluster, &paired));
    notes.extend(notes::of_shadows(&rows, &pooling));
    let slice_note = slices::note(&slices, results.cluster);
    let mut findings = Findings {
        manifest,
        workload: Workload {
            name: results.workload.clone(),
            requests: results.requests,
            replicates: results.replicates,
            shared_rows: results.shared_rows,
            evidence: results.evidence,
        },
        routes: results.routes.clone(),
        level: options.level,
        margin: options.margin,
        alpha,
        family,
        cluster: results.cluster,
        baseline: baseline.map(|chosen| chosen.name(results).to_owned()),
        rows,
        paired,
        requirements,
        promotions,
        slices,
        slice_note,
        sample_rule: None,
        samples: Vec::new(),
        volume: options.volume,
        priced_on: results.priced_on.clone(),
        summary: String::new(),
        notes,
    };
    findings.summary = summary::summary(&findings, options.volume, minimize);
    Ok(findings)
}

/// What is wrong with `options`, if the contestants have these names: the errors that [`findings`] would
/// give, known before anything is run.
#[must_use]
pub fn check(options: &Options, policies: &[&str], routes: &[&str]) -> Vec<String> {
    read_options(options, policies, routes)
        .err()
        .unwrap_or_default()
}

/// The requirements and the metric to minimise, or everything that is wrong with the options.
fn read_options(
    options: &Options,
    policies: &[&str],
    routes: &[&str],
) -> Result<(Vec<Requirement>, Option<Measure>), Vec<String>> {
    let mut errors = Vec::new();
    if !(0.0..1.0).contains(&options.margin) {
        errors.push(format!(
            "the margin must be a share from 0 to below 1, such as 0.03 for three points, not {}",
            options.margin
        ));
    }
    if !(options.level > 0.0 && options.level < 1.0) {
        errors.push(format!(
            "the level must lie between 0 and 1, such as 0.95, not {}",
            options.level
        ));
    }
    if let Some(volume) = options.volume
        && !(volume > 0.0 && volume.is_finite())
    {
        errors.push(format!(
            "the volume must be a positive number of requests, not {volume}"
        ));
    }
    if let Some(asked) = &options.baseline
        && !policies.contains(&asked.as_str())
    {
        errors.push(compare::no_baseline(asked, policies.iter().copied()));
    }
    let mut requirements = Vec::new();
    for text in &options.require {
        match Requirement::parse(text, policies, routes) {
            Ok(requirement) => requirements.push(requirement),
            Err(error) => errors.push(error),
        }
    }
    let minimize = options.minimize.as_deref().and_then(|name| {
        Measure::to_minimize(name, routes)
            .map_err(|error| errors.push(error))
            .ok()
    });
    if errors.is_empty() {
        Ok((requirements, minimize))
    } else {
        Err(errors)
    }
}

/// One way to write findings down.
#[derive(Clone, Copy, Debug)]
pub struct Renderer {
    /// Its name on the command line.
    pub name: &'static str,
    /// Extension of a file written this way, without the dot.
    pub extension: &'static str,
    /// The whole document, with a newline at its end.
    pub render: fn(&Findings) -> String,
}

impl Renderer {
    /// The renderer of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        RENDERERS.iter().find(|renderer| renderer.name == name)
    }
}

/// Every renderer.
pub const RENDERERS: &[Renderer] = &[
    Renderer {
        name: "table",
        extension: "txt",
        render: table::render,
    },
    Renderer {
        name: "markdown",
        extension: "md",
        render: markdown::render,
    },
    Renderer {
        name: "csv",
        extension: "csv",
        render: csv::render,
    },
    Renderer {
        name: "json",
        extension: "json",
        render: json::render,
    },
    Renderer {
        name: "html",
        extension: "html",
        render: page::compare,
    },
];

/// The files of a report folder, as relative name and bytes: the page `report.html`, `findings.json`, `findings.csv`
/// and (with the feature `frames`) `findings.parquet`, `decisions.parquet` (else `decisions.csv.gz`), `columns.md` with the
/// meaning of their columns, `table.md`, `table.txt`, the plots, `slide.svg` and `more`, and last `manifest.json`, which
/// holds the digests of the others.
#[must_use]
pub fn files(
    findings: &Findings,
    decided: Option<&Decisions>,
    more: Vec<(String, Vec<u8>)>,
) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        (
            "findings.json".to_owned(),
            json::render(findings).into_bytes(),
        ),
        (
            "table.md".to_owned(),
            markdown::render(findings).into_bytes(),
        ),
        ("table.txt".to_owned(), table::render(findings).into_bytes()),
    ];
    files.push((
        "report.html".to_owned(),
        page::compare(findings).into_bytes(),
    ));
    let numbers = csv::frame(findings);
    files.extend(frame_files("findings", &numbers));
    let decided = decided.map(|decided| {
        let frame = decisions(decided, findings.workload.evidence_word());
        (frame, decided.in_words())
    });
    if let Some((frame, _)) = &decided {
        files.push(frame.packed("decisions"));
    }
    let words = decisions::dictionary(
        &numbers,
        decided
            .as_ref()
            .map(|(frame, which)| (frame, which.as_str())),
    );
    files.push(("columns.md".to_owned(), words.into_bytes()));
    let mut drawn = plots(findings);
    drawn.push(("slide.svg".to_owned(), slide(findings)));
    files.extend(pictures(drawn));
    files.extend(more);
    with_manifest(files, &findings.manifest)
}

/// Pictures as files: SVG and, with the feature `png`, the same as PNG.
pub(crate) fn pictures(drawn: Vec<(String, String)>) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (name, svg) in drawn {
        #[cfg(feature = "png")]
        if let (Some(stem), Some(bytes)) = (name.strip_suffix(".svg"), png(&svg, PNG_SCALE)) {
            files.push((format!("{stem}.png"), bytes));
        }
        files.push((name, svg.into_bytes()));
    }
    files
}

/// Pixels of a PNG for each of its SVG: enough for a slide on a large screen.
#[cfg(feature = "png")]
const PNG_SCALE: u32 = 2;

/// A table as `NAME.csv` and, with the feature `frames`, `NAME.parquet`.
pub(crate) fn frame_files(name: &str, frame: &Frame) -> Vec<(String, Vec<u8>)> {
    let csv = (format!("{name}.csv"), frame.csv().into_bytes());
    let parquet = frame.parquet();
    let parquet = parquet.map(|bytes| (format!("{name}.parquet"), bytes));
    std::iter::once(csv).chain(parquet).collect()
}

/// These files in the order of their names, and last `manifest.json`, which holds their digests.
fn with_manifest(mut files: Vec<(String, Vec<u8>)>, manifest: &Manifest) -> Vec<(String, Vec<u8>)> {
    files.sort_by(|a, b| a.0.cmp(&b.0));
    let manifest = Manifest {
        outputs: files
            .iter()
            .map(|(name, bytes)| FileDigest::of(name, bytes))
            .collect(),
        ..manifest.clone()
    };
    files.push((
        "manifest.json".to_owned(),
        json::pretty(&manifest).into_bytes(),
    ));
    files
}

/// The candidate most like `word`, if any is like it: for "did you mean".
fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean …?` or nothing.
fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}
