//! `size canary`: what slices of a canary cost and take, and a policy file for it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::screen::Screen;
use super::{Exit, inputs, numbers, provenance, timeline};
use crate::report::{self, SHEET_FORMATS};
use crate::size::{CanaryPlan, CanaryTruth};
use crate::source::{Diagnostic, describe_list};

/// Most graded answers of a step.
const ANSWERS_MAX: u64 = 1_000_000;
/// Most slices of a ramp.
const SLICES_MAX: usize = 12;
/// The format that is the policy file alone.
const FILE: &str = "toml";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A workload (TOML), or recorded outcomes of every route; not with --p0 and --p1.
    data: Option<PathBuf>,
    /// The route that is tried.
    #[arg(long, value_name = "ROUTE")]
    candidate: Option<String>,
    /// The route that answers now.
    #[arg(long, value_name = "ROUTE")]
    base: Option<String>,
    /// Only requests of this task; may be repeated [default: all tasks together].
    #[arg(long, value_name = "TASK", requires = "data")]
    task: Vec<String>,
    /// Instead of a workload: share of the base's answers that are wrong.
    #[arg(long, value_name = "SHARE", conflicts_with = "data", requires = "p1", value_parser = numbers::parse_share)]
    p0: Option<f64>,
    /// Instead of a workload: share of the candidate's answers that are wrong.
    #[arg(long, value_name = "SHARE", conflicts_with = "data", requires = "p0", value_parser = numbers::parse_share)]
    p1: Option<f64>,
    /// Chance to withdraw a sound candidate, at most about this.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = numbers::parse_error)]
    alpha: f64,
    /// Chance to keep a bad one, at most about this.
    #[arg(long, value_name = "SHARE", default_value_t = 0.10, value_parser = numbers::parse_error)]
    beta: f64,
    /// Slices, each larger than the one before.
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_value = "0.01,0.05,0.25", value_parser = numbers::parse_share)]
    weights: Vec<f64>,
    /// Graded answers before a step may end [default: what the SPRT needs in nearly every run that it ends].
    #[arg(long, value_name = "N", value_parser = numbers::parse_count)]
    min_graded: Option<u64>,
    /// Requests a day, over all tasks, for hours and days.
    #[arg(long, value_name = "N", value_parser = numbers::parse_volume)]
    requests_per_day: Option<f64>,
    /// Share of the slice's answers that is graded.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = numbers::parse_share)]
    graded_share: f64,
    /// Hours from an answer to its grade.
    #[arg(long, value_name = "HOURS", default_value_t = 0.0, value_parser = parse_hours)]
    label_delay_h: f64,
    /// The route catalogue [default: policies/routes.toml].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Which columns of a data file mean what (TOML), when its names are not the usual ones.
    #[arg(long, value_name = "FILE", requires = "data")]
    columns: Option<PathBuf>,
    /// How the result is printed; `toml` is the policy file alone.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS.into_iter().chain([FILE])))]
    format: String,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Hours from 0 to ten years.
fn parse_hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if (0.0..=87_600.0).contains(&hours) => Ok(hours),
        _ => Err("expected hours, from 0 to 87600".to_owned()),
    }
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let mut reader = inputs::Reader::default();
    check(arguments, &mut reader);
    let sizing = truth(arguments, &mut reader).and_then(|truth| {
        if reader.found.has_errors() {
            return None;
        }
        let plan = CanaryPlan {
            weights: arguments.weights.clone(),
            alpha: arguments.alpha,
            beta: arguments.beta,
            min_graded: arguments.min_graded,
            requests_per_day: arguments.requests_per_day,
            graded_share: arguments.graded_share,
            label_delay_h: arguments.label_delay_h,
        };
        plan.size(truth)
            .map_err(|why| reader.found.push(Diagnostic::error(why)))
            .ok()
    });
    screen.complain(&reader.found);
    let Some(sizing) = sizing else {
        return Exit::BadInput;
    };
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    timeline::say_unused(reader.has_timeline, "size", screen);
    let manifest = provenance::manifest(&reader.digests, inputs::SEED, command_line);
    let sheet = report::size_canary(&sizing);
    if arguments.format == FILE {
        let written = folder.write(|| sheet.files(Vec::new(), &manifest), screen);
        let printed = screen.print(&sizing.stanza);
        return written.err().unwrap_or(printed);
    }
    provenance::deliver(
        &sheet,
        &arguments.format,
        &manifest,
        &folder,
        Vec::new(),
        screen,
    )
}

/// What clap cannot say: limits over several values.
fn check(arguments: &Arguments, reader: &mut inputs::Reader) {
    if arguments.min_graded.is_some_and(|n| n > ANSWERS_MAX) {
        reader.found.push(Diagnostic::error(format!(
            "a step can be planned with at most {ANSWERS_MAX} graded answers"
        )));
    }
    if arguments.weights.len() > SLICES_MAX {
        reader.found.push(Diagnostic::error(format!(
            "a ramp has at most {SLICES_MAX} slices"
        )));
    }
    let pairs = arguments.weights.iter().zip(&arguments.weights[1..]);
    for (before, after) in pairs.filter(|(before, after)| after <= before) {
        reader.found.push(
            Diagnostic::error(format!(
                "--weights must rise, and {after} is not above {before}"
            ))
            .help("whoever is in a slice stays in it while it grows"),
        );
    }
}

/// How often answers are wrong; `None` if that cannot be said, with the reasons in `reader.found`.
fn truth(arguments: &Arguments, reader: &mut inputs::Reader) -> Option<CanaryTruth> {
    let name = |given: &Option<String>, otherwise: &str| {
        given.clone().unwrap_or_else(|| otherwise.to_owned())
    };
    let Some(data) = &arguments.data else {
        let (Some(p0), Some(p1)) = (arguments.p0, arguments.p1) else {
            reader.found.push(
                Diagnostic::error("how often are answers wrong?")
                    .help("name a workload with --candidate and --base, or give --p0 and --p1"),
            );
            return None;
        };
        let candidate = name(&arguments.candidate, "candidate");
        return Some(CanaryTruth::given(
            candidate,
            name(&arguments.base, "base"),
            p0,
            p1,
        ));
    };
    let workload = reader.workload(data, arguments.columns.as_deref())?;
    let (Some(candidate), Some(base)) = (&arguments.candidate, &arguments.base) else {
        reader.found.push(
            Diagnostic::error("which route is tried, and which one answers now?").help(format!(
                "say --candidate and --base; the workload knows {}",
                describe_list(workload.routes.iter().map(String::as_str))
            )),
        );
        return None;
    };
    let mut index =
        |what: &str, name: &str, known: &[String]| reader.named(&workload, what, name, known);
    let candidate = index("route", candidate, &workload.routes);
    let base = index("route", base, &workload.routes);
    let tasks: Vec<Option<usize>> = arguments
        .task
        .iter()
        .map(|task| index("task", task, &workload.tasks))
        .collect();
    let tasks: Vec<usize> = tasks.into_iter().collect::<Option<_>>()?;
    let (candidate, base) = (candidate?, base?);
    let truth = if workload.is_recorded() {
        CanaryTruth::recorded(&workload, candidate, base, &tasks)
    } else {
        // What a route can read decides what the base answers in its stead.
        let path = arguments.routes.clone();
        let path = path.unwrap_or_else(|| PathBuf::from(inputs::ROUTES));
        let catalogue = reader.catalogue(&path).ok()?;
        CanaryTruth::simulated(&workload, &catalogue, candidate, base, &tasks)
    };
    truth.map_err(|error| reader.found.push(*error)).ok()
}
