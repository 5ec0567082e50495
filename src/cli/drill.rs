//! `drill`: what happens to the traffic when a provider fails.
//!
//! The same requests go through every policy twice, in the world as declared and on a calm day without its
//! incidents. The world is the workload file's `[timeline]`; without one it is a day of traffic at hosted
//! providers. What fails is in that table or on the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;

use super::resume::{Resume, Resuming};
use super::screen::Screen;
use super::{Exit, drill_seen, drill_world, inputs, numbers, provenance, watched};
use crate::report::{self, DrillOptions, SHEET_FORMATS};
use crate::router::FaultKind;
use crate::sim::{self, Experiment, Timed};
use crate::source::{Diagnostic, Diagnostics};
use crate::units::Duration;
use numbers::When;

/// How long an incident of the command line lasts when nobody says: about the median of the API incidents
/// that Anthropic reported from July 2023 to August 2024 (46 minutes, by the incident table of the ICPE 2025
/// study of LLM services' outages).
const LENGTH: &str = "45m";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) inputs: inputs::Files,
    /// What fails: a provider, a region or a route; may be repeated, and all of them fail at once.
    #[arg(long, value_name = "TARGET")]
    pub(super) down: Vec<String>,
    /// When it begins: `peak` (when most requests come), a time of the first day such as 14:30, or a time from the
    /// beginning of the run such as 90m.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true, default_value = "peak", requires = "down", value_parser = numbers::parse_when)]
    pub(super) at: When,
    /// How long it lasts, such as 45m, 2h or 90s.
    #[arg(long = "for", value_name = "LENGTH", allow_hyphen_values = true, default_value = LENGTH, requires = "down", value_parser = numbers::parse_length)]
    pub(super) length: Duration,
    /// How its attempts fail: a kind of failure. (Answers that break off are scripted in `[[timeline.incident]]`.)
    #[arg(long, value_name = "KIND", default_value = FaultKind::Overloaded.name(), requires = "down", value_parser = PossibleValuesParser::new(FaultKind::ALL.map(FaultKind::name)))]
    pub(super) fail: String,
    /// Which share of its attempts fails.
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, default_value_t = 1.0, requires = "down", value_parser = numbers::parse_share)]
    pub(super) share: f64,
    /// It does not fail, but takes so many times as long.
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true, requires = "down", conflicts_with_all = ["fail", "share"], value_parser = numbers::parse_factor)]
    pub(super) slow: Option<f64>,
    /// What a rate limit is set to, such as "small.tpm=60000": rpm, itpm, otpm or tpm; may be repeated. Where
    /// `[timeline]` limits the route in that already, its number changes, for all routes that share it.
    #[arg(long, value_name = "ROUTE.KEY=N")]
    pub(super) limit: Vec<String>,
    /// Requests per second in the mean of a day with a daily curve [default: as `[timeline]` says;
    /// without one 1, or what spreads --requests or recorded rows over the run].
    #[arg(long, value_name = "RPS", allow_hyphen_values = true, value_parser = numbers::parse_volume)]
    pub(super) rate: Option<f64>,
    /// Length of the run [default: as `[timeline]` says, else 24].
    #[arg(long, value_name = "HOURS", allow_hyphen_values = true, value_parser = numbers::parse_hours_of_run)]
    pub(super) hours: Option<f64>,
    /// Most requests per replicate [default: all that come].
    #[arg(long, value_name = "N", value_parser = numbers::parse_count)]
    pub(super) requests: Option<u64>,
    /// Replicates: fresh traffic each in a synthetic world, fresh draws of all else on recorded rows.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) replicates: u32,
    /// Threads [default: one per core]. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// How the result is printed; CSV holds the time lines.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS))]
    format: String,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    resume: Resuming,
    /// Draw the time line into this file (SVG); with several policies one file each, with the policy's name.
    #[arg(long, value_name = "FILE", value_parser = numbers::parse_plot)]
    plot: Option<PathBuf>,
    /// No progress bar and no remarks.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    seen: drill_seen::Options,
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let is_log = drill_seen::is_log(&arguments.inputs.data);
    let stray = strays(arguments, is_log);
    if !stray.is_empty() {
        let file = inputs::shown(&arguments.inputs.data);
        let what = if is_log {
            "is a log of stand-ins, in which everything has happened already"
        } else {
            "is no log of stand-ins"
        };
        let errors = stray.iter().map(|option| {
            let error = Diagnostic::error(format!("{option} does nothing here: `{file}` {what}"));
            error.help("leave it out")
        });
        screen.complain(&Diagnostics(errors.collect()));
        return Exit::BadInput;
    }
    if is_log {
        return drill_seen::run(
            &arguments.inputs.data,
            arguments.inputs.routes.as_deref(),
            &arguments.seen,
            &arguments.format,
            arguments.report.as_deref(),
            command_line,
            screen,
        );
    }
    let read = inputs::read(&arguments.inputs).and_then(|(mut inputs, warnings)| {
        let world = drill_world::of(arguments, &mut inputs)?;
        Ok((inputs, warnings, world))
    });
    let (inputs, mut warnings, world) = match read {
        Ok(read) => read,
        Err(found) => {
            screen.complain(&found);
            return Exit::BadInput;
        }
    };
    let timed = Timed {
        timeline: &world.timeline,
        calm: world.timeline.has_incidents(),
        keep_lines: false,
    };
    let experiment = Experiment {
        catalogue: &inputs.catalogue,
        workload: &inputs.workload,
        policies: &inputs.policies,
        seed: arguments.inputs.seed,
        requests: world.requests,
        replicates: arguments.replicates,
        baseline: None,
        controls: true,
        stage: None,
        slices: false,
        timed: Some(&timed),
        cluster: None,
    };
    // What is wrong is said before a run that may take hours, not after it.
    if let Err(found) = sim::contestants(&experiment) {
        screen.complain(&found);
        return Exit::BadInput;
    }
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    let total = world
        .expected
        .saturating_mul(u64::from(arguments.replicates));
    let resume = Resume::prepare(
        &arguments.resume,
        arguments.report.as_deref(),
        &inputs.digests,
        command_line,
        screen,
    );
    let mut resume = match resume {
        Ok(resume) => resume,
        Err(exit) => return exit,
    };
    let from = resume.from.take();
    let ran = watched::run_resumable(
        total,
        arguments.threads,
        arguments.quiet,
        &resume,
        screen,
        |tick, stop| {
            let from = (resume.inputs.as_str(), from);
            let ran = sim::run_resumable(&experiment, 1, from, &mut warnings, tick, stop)?;
            Ok(ran.0)
        },
    );
    let results = match ran {
        Ok(results) => results,
        Err(exit) => return exit,
    };
    if !arguments.quiet {
        screen.complain(&warnings);
        // What was assumed about the world stands in the document.
        for remark in &inputs.remarks {
            screen.say(&format!("note: {remark}"));
        }
    }
    let options = DrillOptions {
        level: report::Options::default().level,
        assumptions: world.remarks.clone(),
    };
    let drill = report::drill(&results, &world.timeline, &options);
    let manifest = provenance::manifest(&inputs.digests, arguments.inputs.seed, command_line);
    let plots = drill.plots();
    let plotted = plot(arguments, &plots, screen);
    let plots = plots.into_iter();
    let plots = plots.map(|(policy, svg)| (format!("plot-{policy}.svg"), svg));
    let mut more = report::pictures(plots.collect());
    if arguments.report.is_some() {
        let decided = watched::run(
            world.expected,
            arguments.threads,
            arguments.quiet,
            screen,
            |tick, stop| sim::decisions(&experiment, report::DECISIONS_MAX, tick, stop),
        );
        match decided {
            Ok(decided) => more.extend(report::decision_files(&decided, results.evidence)),
            Err(exit) => return exit,
        }
    }
    let delivered = provenance::deliver(
        &drill.sheet(),
        &arguments.format,
        &manifest,
        &folder,
        more,
        screen,
    );
    match (delivered, plotted) {
        (Exit::Fine, Some(failure)) => failure,
        (delivered, _) => {
            if delivered == Exit::Fine {
                resume.done();
            }
            delivered
        }
    }
}

/// Options that are given and mean nothing for such a file.
fn strays(arguments: &Arguments, is_log: bool) -> Vec<&'static str> {
    let given: &[(&'static str, bool)] = if is_log {
        &[
            ("--policy", !arguments.inputs.policy.is_empty()),
            ("--columns", arguments.inputs.columns.is_some()),
            ("--down", !arguments.down.is_empty()),
            ("--limit", !arguments.limit.is_empty()),
            ("--rate", arguments.rate.is_some()),
            ("--hours", arguments.hours.is_some()),
            ("--requests", arguments.requests.is_some()),
            ("--resume", arguments.resume.resume.is_some()),
            ("--plot", arguments.plot.is_some()),
        ]
    } else {
        &[
            ("--classes", arguments.seen.has_classes()),
            ("--tie", arguments.seen.has_tie()),
        ]
    };
    given
        .iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(option, _)| *option)
        .collect()
}

/// Writes the plots that --plot asks for; how that failed, if it did.
fn plot(arguments: &Arguments, plots: &[(String, String)], screen: &Screen) -> Option<Exit> {
    let path = arguments.plot.as_ref()?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let several = plots.len() > 1;
    let files: Vec<(String, Vec<u8>)> = plots
        .iter()
        .map(|(policy, svg)| {
            let name = if several {
                format!("{stem}-{policy}.svg")
            } else {
                format!("{stem}.svg")
            };
            (name, svg.clone().into_bytes())
        })
        .collect();
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if let Err(error) = provenance::write(folder, &files) {
        return Some(screen.cannot_write(path, &error));
    }
    if several && !arguments.quiet {
        let names: Vec<String> = files
            .iter()
            .map(|(name, _)| inputs::shown(&folder.join(name)))
            .collect();
        screen.say(&format!("note: one plot per policy: {}", names.join(", ")));
    }
    None
}
