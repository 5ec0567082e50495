//! `compare`: every policy on the same traffic.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::Exit;
use super::inputs::{self, Inputs};
use super::resume::{Resume, Resuming};
use super::screen::Screen;
use super::{numbers, provenance, timeline, watched};
use crate::policy::Unit;
use crate::report::{self, Options, Outcome, RENDERERS, Renderer};
use crate::sim::{self, Experiment, Fidelity, Stage, Timed};
use crate::source::{Diagnostic, Diagnostics};
use crate::standin::faults;
use crate::stats::{RULES, Rule};
use crate::units::Duration;

/// Blocks of requests, over all replicates that have their own: enough for a bootstrap, and few enough to
/// cost nothing beside the run.
const BLOCKS: u64 = 100;
/// Whose requests may be taken together.
const CLUSTER_UNITS: [Unit; 3] = [Unit::User, Unit::Session, Unit::Tenant];

/// Most requests of one task that are shown one by one in a report, and in all.
const SAMPLES_PER_TASK: usize = 12;
const SAMPLES_MAX: usize = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: inputs::Files,
    /// Requests per replicate [default: what the workload says].
    #[arg(long, value_name = "N", value_parser = numbers::parse_count)]
    requests: Option<u64>,
    /// Replicates: fresh traffic each in a synthetic world, fresh draws of the policies on recorded rows.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicates: u32,
    /// Threads [default: one per core]. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Whom the others are compared with [default: the most accurate always-<route>].
    #[arg(long, value_name = "POLICY")]
    baseline: Option<String>,
    /// How much less accurate than the baseline still counts as "not worse": 0.03 is three points.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, default_value_t = 0.03, value_parser = numbers::parse_margin)]
    margin: f64,
    /// The rule by which a shadow promotes its candidate, at this margin.
    #[arg(long, value_name = "RULE", default_value = "tango", value_parser = PossibleValuesParser::new(RULES.iter().map(|(name, _)| *name)))]
    promotion_rule: String,
    /// Take each user, conversation or tenant for independent, not each request, in the intervals of
    /// differences and in verdicts.
    #[arg(long, value_name = "UNIT", value_parser = PossibleValuesParser::new(CLUSTER_UNITS.map(Unit::name)))]
    cluster: Option<String>,
    /// Also give intervals of differences by drawing the clusters anew so many times (BCa, seeded).
    #[arg(long, value_name = "N", requires = "cluster", value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    bootstrap: Option<u32>,
    /// Also say what this many requests would cost, such as 40M.
    #[arg(long, value_name = "N", value_parser = numbers::parse_volume)]
    volume: Option<f64>,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(RENDERERS.iter().map(|renderer| renderer.name)))]
    format: String,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    #[command(flatten)]
    resume: Resuming,
    /// Something that must hold, such as "accuracy>=0.9" or "cascade.usd_per_1k<=5"; may be repeated.
    #[arg(long, value_name = "RULE")]
    require: Vec<String>,
    /// Metric by which the summary picks among the policies that meet every requirement.
    #[arg(long, value_name = "METRIC")]
    minimize: Option<String>,
    /// How much of the way to a provider is real: tables, the providers' bytes in this process, or the
    /// same bytes over sockets on this machine. Requests then come one after the other in virtual time.
    #[arg(long, value_name = "FIDELITY", value_parser = PossibleValuesParser::new(Fidelity::ALL.map(Fidelity::name)))]
    fidelity: Option<String>,
    /// What goes wrong (TOML, one `[[fault]]` each); at the fidelity `outcome` unless --fidelity names another.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Seconds of virtual time from the end of a request to the next, where they come one after the other.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_spacing)]
    spacing: f64,
    /// No progress bar and no remarks.
    #[arg(short, long)]
    quiet: bool,
}

/// How the comparison is staged, if it is.
fn stage(
    arguments: &Arguments,
    inputs: &mut Inputs,
    found: &mut Diagnostics,
) -> Result<Option<Stage>, Diagnostics> {
    let named = arguments.fidelity.as_deref();
    if named.is_none() && arguments.faults.is_none() {
        return Ok(None);
    }
    // The parser admits only names of fidelities.
    let fidelity = Fidelity::ALL
        .into_iter()
        .find(|fidelity| named == Some(fidelity.name()))
        .unwrap_or(Fidelity::Outcome);
    let mut stage = Stage::new(fidelity);
    stage.spacing = Duration::from_secs_f64(arguments.spacing);
    if let Some(path) = &arguments.faults {
        let mut reader = inputs::Reader::default();
        let read = reader
            .text(path)
            .and_then(|file| faults::parse(&file, &mut reader.found));
        let Some(read) = read else {
            return Err(reader.found);
        };
        let routes = &inputs.catalogue.routes;
        let names = routes.iter().flat_map(|route| [&route.name, &route.model]);
        let names: Vec<&str> = names.map(String::as_str).collect();
        let unknown = read.check_names(&names);
        if unknown.has_errors() {
            return Err(unknown);
        }
        found.0.append(&mut reader.found.0);
        inputs.digests.append(&mut reader.digests);
        stage.faults = read;
    }
    Ok(Some(stage))
}

/// Seconds of spacing.
fn parse_spacing(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, from 0 to 86400".to_owned()),
    }
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let read = inputs::read(&arguments.inputs).and_then(|(mut inputs, mut warnings)| {
        let stage = stage(arguments, &mut inputs, &mut warnings)?;
        Ok((inputs, warnings, stage))
    });
    let (inputs, mut warnings, stage) = match read {
        Ok(read) => read,
        Err(found) => {
            screen.complain(&found);
            return Exit::BadInput;
        }
    };
    let timeline = inputs.timeline.as_ref().filter(|_| stage.is_none());
    let requests = timeline::requests(arguments.requests, &inputs.workload, timeline);
    let timed = timeline.map(|timeline| Timed {
        timeline,
        calm: false,
        keep_lines: false,
    });
    let experiment = Experiment {
        catalogue: &inputs.catalogue,
        workload: &inputs.workload,
        policies: &inputs.policies,
        seed: arguments.inputs.seed,
        requests,
        replicates: arguments.replicates,
        baseline: arguments.baseline.as_deref(),
        controls: true,
        stage: stage.as_ref(),
        // A table in a terminal has no room for parts of the traffic; every other form shows them, with or
        // without a report beside it.
        slices: arguments.report.is_some() || !["table", "markdown"].contains(&&*arguments.format),
        timed: timed.as_ref(),
        // The parser admits only these names.
        cluster: CLUSTER_UNITS
            .into_iter()
            .find(|unit| arguments.cluster.as_deref() == Some(unit.name())),
    };
    let options = Options {
        baseline: arguments.baseline.clone(),
        margin: arguments.margin,
        volume: arguments.volume,
        require: arguments.require.clone(),
        minimize: arguments.minimize.clone(),
        // The parser admits only names of rules.
        promotion_rule: Rule::parse(&arguments.promotion_rule).unwrap_or(Rule::Tango),
        bootstrap: arguments.bootstrap,
        ..Options::default()
    };
    // What is wrong is said before a run that may take hours, not after it.
    if let Err(found) = check(&experiment, &options) {
        screen.complain(&found);
        return Exit::BadInput;
    }
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
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
    let measured = simulate(arguments, &experiment, &mut resume, &mut warnings, screen);
    let (results, blocks) = match measured {
        Ok(measured) => measured,
        Err(exit) => return exit,
    };
    if !arguments.quiet {
        screen.complain(&warnings);
        if inputs.workload.is_recorded() && results.requests < requests {
            screen.say(&format!(
                "note: `{}` holds {} requests to judge on, so {requests} cannot be run",
                inputs.workload.name, results.requests
            ));
        }
        for remark in &inputs.remarks {
            screen.say(&format!("note: {remark}"));
        }
        if inputs.timeline.is_some() && stage.is_some() {
            screen.say("note: `[timeline]` is left out: with --fidelity or --faults requests come one after the other");
        }
    }
    let mut findings = match report::findings_in_blocks(
        &results,
        blocks.as_ref(),
        &options,
        provenance::manifest(&inputs.digests, arguments.inputs.seed, command_line),
    ) {
        Ok(findings) => findings,
        Err(errors) => {
            screen.complain(&complaints(errors));
            return Exit::BadInput;
        }
    };
    let written = if arguments.report.is_some() || arguments.format == "html" {
        look(arguments, &experiment, &mut findings, screen).and_then(|decisions| {
            folder.write(
                || report::files(&findings, Some(&decisions), Vec::new()),
                screen,
            )
        })
    } else {
        Ok(())
    }
    .err();
    // The parser admits only names of renderers.
    let Some(renderer) = Renderer::named(&arguments.format) else {
        return Exit::BadInput;
    };
    let printed = screen.print(&(renderer.render)(&findings));
    if printed != Exit::Fine {
        return printed;
    }
    for judgement in &findings.requirements {
        let why = match &judgement.outcome {
            Outcome::Pass => continue,
            Outcome::Fail => "the whole interval is on the wrong side",
            Outcome::Inconclusive { why, .. } => why,
        };
        screen.say(&format!(
            "{}: {} of `{}`: {why}",
            judgement.outcome.word(),
            judgement.requirement,
            judgement.policy
        ));
    }
    // What was computed was printed all the same.
    if let Some(failure) = written {
        return failure;
    }
    resume.done();
    match findings.exit_code() {
        100 => Exit::RequirementFailed,
        102 => Exit::Inconclusive,
        _ => Exit::Fine,
    }
}

/// Single decisions, and requests to look into, which become a part of the findings.
fn look(
    arguments: &Arguments,
    experiment: &Experiment<'_>,
    findings: &mut report::Findings,
    screen: &Screen,
) -> Result<sim::Decisions, Exit> {
    let requests = findings.workload.requests;
    let (decisions, samples) = watched::run(
        requests,
        arguments.threads,
        arguments.quiet,
        screen,
        |tick, stop| {
            let decisions = sim::decisions(experiment, report::DECISIONS_MAX, tick, stop)?;
            let samples =
                sim::samples(experiment, &decisions, SAMPLES_PER_TASK, SAMPLES_MAX, stop)?;
            Ok((decisions, samples))
        },
    )?;
    findings.show(&samples);
    Ok(decisions)
}

/// Everything that does not fit between inputs and options.
fn check(experiment: &Experiment<'_>, options: &Options) -> Result<(), Diagnostics> {
    let names = sim::contestants(experiment)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let routes: Vec<&str> = experiment.catalogue.names().collect();
    let errors = report::check(options, &names, &routes);
    if errors.is_empty() {
        Ok(())
    } else {
        Err(complaints(errors))
    }
}

fn complaints(errors: Vec<String>) -> Diagnostics {
    Diagnostics(errors.into_iter().map(Diagnostic::error).collect())
}

fn simulate(
    arguments: &Arguments,
    experiment: &Experiment<'_>,
    resume: &mut Resume,
    warnings: &mut Diagnostics,
    screen: &Screen,
) -> Result<(sim::Results, Option<sim::Blocks>), Exit> {
    let requests = match experiment.timed {
        Some(timed) => timeline::extent(timed.timeline, experiment.requests, experiment.seed).0,
        None => experiment.requests,
    };
    let total = requests.saturating_mul(u64::from(experiment.replicates));
    let from = resume.from.take();
    let resume = &*resume;
    watched::run_resumable(
        total,
        arguments.threads,
        arguments.quiet,
        resume,
        screen,
        |tick, stop| {
            let blocks = match experiment.workload.is_recorded() {
                true => BLOCKS,
                false => BLOCKS.div_ceil(u64::from(experiment.replicates)),
            };
            // Requests that hang on each other are not drawn anew in blocks.
            let whole = experiment.stage.is_some() || experiment.timed.is_some();
            let blocks = if whole { 1 } else { blocks };
            let from = (resume.inputs.as_str(), from);
            let ran = sim::run_resumable(experiment, blocks, from, warnings, tick, stop)?;
            Ok((ran.0, Some(ran.1).filter(|_| !whole)))
        },
    )
}
