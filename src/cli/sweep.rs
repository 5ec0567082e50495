//! `sweep`: one or two parameters over a range.
//!
//! Everything is read and checked for every point before anything is run. A value that a reader refuses is
//! reported with the parameter it belongs to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::builder::PossibleValuesParser;

use super::inputs::{self, Reader};
use super::screen::Screen;
use super::{Exit, numbers, provenance, timeline, watched};
use crate::catalogue::{self, Catalogue};
use crate::policy::{self, PolicyFile};
use crate::report::{self, Options, SHEET_FORMATS, Sweep, SweepOptions, WorldResults};
use crate::sim::{self, Experiment};
use crate::source::{Diagnostic, Diagnostics, Severity, SourceFile};
use crate::sweep::{Grid, Parameter, Scope, Setting, Spot};
use crate::workload::Workload;

/// Blocks that the requests of a world are cut into, over all replicates, for the bootstrap.
const BLOCKS: u64 = 100;
/// The margin when nobody gives one.
const MARGIN: f64 = 0.03;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A workload (TOML), or recorded outcomes of every route (CSV, JSONL or Parquet, also .gz).
    data: PathBuf,
    /// The policy.
    #[arg(short, long, value_name = "FILE")]
    policy: PathBuf,
    /// What to vary, such as "policy.cascade.verifier.simulated.accept_if_wrong=0:0.6:0.1" or
    /// "workload.synthetic.correlation=0,0.25,1": a key of the policy, the workload or the catalogue
    /// (`route.small.usd_per_mtok.input`), or `margin`; values, or FIRST:LAST:STEP. At most twice.
    #[arg(long, value_name = "KEY=VALUES", required = true)]
    vary: Vec<String>,
    /// The route catalogue [default: policies/routes.toml].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Which columns of a data file mean what (TOML), when its names are not the usual ones.
    #[arg(long, value_name = "FILE")]
    columns: Option<PathBuf>,
    /// Seed of every random draw; all points share it, and so their traffic.
    #[arg(long, value_name = "N", default_value_t = inputs::SEED)]
    seed: u64,
    #[command(flatten)]
    permission: inputs::Permission,
    /// Requests per replicate [default: what the workload says].
    #[arg(long, value_name = "N", value_parser = numbers::parse_count)]
    requests: Option<u64>,
    /// Replicates: fresh traffic each in a synthetic world, fresh draws of the policy on recorded rows.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicates: u32,
    /// Threads [default: one per core]. The result does not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Whom points are compared with: a control, or the policy as its file has it [default: the most
    /// accurate always-<route>].
    #[arg(long, value_name = "POLICY")]
    baseline: Option<String>,
    /// How much less accurate than the baseline still counts as "not worse" [default: 0.03, three points].
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, value_parser = numbers::parse_margin)]
    margin: Option<f64>,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS))]
    format: String,
    /// Draw cost against accuracy into this file (SVG).
    #[arg(long, value_name = "FILE", value_parser = numbers::parse_plot)]
    plot: Option<PathBuf>,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// No progress bar and no remarks.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let prepared = match prepare(arguments) {
        Ok(prepared) => prepared,
        Err(found) => {
            screen.complain(&found);
            return Exit::BadInput;
        }
    };
    let (mut bench, plan) = prepared;
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    let measured = match measure(arguments, &mut bench, &plan, screen) {
        Ok(measured) => measured,
        Err(exit) => return exit,
    };
    if !arguments.quiet {
        screen.complain(&bench.warnings);
        timeline::say_unused(bench.reader.has_timeline, "sweep", screen);
    }
    let sweep = match report::sweep(&bench.grid, &bench.name, &measured, &plan.options) {
        Ok(sweep) => sweep,
        Err(why) => {
            screen.complain(&Diagnostics(vec![Diagnostic::error(why)]));
            return Exit::BadInput;
        }
    };
    let manifest = provenance::manifest(&bench.reader.digests, arguments.seed, command_line);
    let plotted = plot(arguments, &sweep, screen);
    let plot = ("plot.svg".to_owned(), sweep.plot());
    let delivered = provenance::deliver(
        &sweep.sheet(),
        &arguments.format,
        &manifest,
        &folder,
        report::pictures(vec![plot]),
        screen,
    );
    match (delivered, plotted) {
        (Exit::Fine, Some(failure)) => failure,
        (delivered, _) => delivered,
    }
}

/// Writes the plot; how that failed, if it did.
fn plot(arguments: &Arguments, sweep: &Sweep, screen: &Screen) -> Option<Exit> {
    if let Some(path) = &arguments.plot {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let files = [(name.into_owned(), sweep.plot().into_bytes())];
        if let Err(error) = provenance::write(folder.unwrap_or(Path::new(".")), &files) {
            return Some(screen.cannot_write(path, &error));
        }
    }
    None
}

/// The files as they are, and how to make those of any point from them.
struct Bench {
    reader: Reader,
    grid: Grid,
    /// The policy's name.
    name: String,
    /// Where each parameter's value stands; nowhere for the margin.
    spots: Vec<Option<Spot>>,
    data: PathBuf,
    columns: Option<PathBuf>,
    /// `None` for a data file given directly.
    workload: Option<Arc<SourceFile>>,
    catalogue: Arc<SourceFile>,
    policy: Arc<SourceFile>,
    /// Whether the policy as its file has it takes part as well.
    original: bool,
    warnings: Diagnostics,
}

/// One world, ready to be run.
struct World {
    catalogue: Catalogue,
    workload: Workload,
    policies: Vec<PolicyFile>,
}

/// What was settled when everything was checked.
struct Plan {
    options: SweepOptions,
    /// Blocks of a replicate.
    blocks: u64,
    /// Requests in all worlds and replicates.
    total: u64,
    /// The world, if there is only one.
    only: Option<World>,
}

/// Reads all files, finds the parameters in them, and checks every point.
fn prepare(arguments: &Arguments) -> Result<(Bench, Plan), Diagnostics> {
    let mut bench = Bench::read(arguments)?;
    let options = SweepOptions {
        baseline: arguments.baseline.clone(),
        margin: arguments.margin.unwrap_or(MARGIN),
        level: Options::default().level,
        seed: arguments.seed,
    };
    let (mut found, mut only) = (Diagnostics::default(), None);
    let (mut fewest, mut total) = (u64::MAX, 0_u64);
    for index in 0..bench.grid.worlds.len() {
        let world = match bench.world(index) {
            Ok(world) => world,
            Err(wrong) => {
                add_new(&mut found, wrong);
                continue;
            }
        };
        let requests = requests(arguments, &world.workload);
        fewest = fewest.min(requests);
        total = total.saturating_add(requests.saturating_mul(u64::from(arguments.replicates)));
        let experiment = experiment(arguments, &world);
        let names = sim::contestants(&experiment).map_err(|wrong| bench.blamed_on(index, wrong));
        match names {
            Ok(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let routes: Vec<&str> = world.catalogue.names().collect();
                let options = Options {
                    baseline: options.baseline.clone(),
                    margin: options.margin,
                    ..Options::default()
                };
                let errors = report::check(&options, &names, &routes);
                add_new(
                    &mut found,
                    Diagnostics(errors.into_iter().map(Diagnostic::error).collect()),
                );
            }
            Err(wrong) => add_new(&mut found, wrong),
        }
        // Recorded rows may be large: worlds are read again, one at a time, when they are run.
        if bench.grid.worlds.len() == 1 {
            only = Some(world);
        }
    }
    if found.has_errors() {
        return Err(found);
    }
    let per_replicate = if only
        .as_ref()
        .is_some_and(|world| world.workload.is_recorded())
    {
        BLOCKS
    } else {
        BLOCKS.div_ceil(u64::from(arguments.replicates))
    };
    let plan = Plan {
        options,
        blocks: per_replicate.min(fewest).max(1),
        total,
        only,
    };
    Ok((bench, plan))
}

/// Adds complaints that are not there yet: worlds share most of their files.
fn add_new(found: &mut Diagnostics, more: Diagnostics) {
    for one in more.0 {
        if !found.0.contains(&one) {
            found.push(one);
        }
    }
}

fn requests(arguments: &Arguments, workload: &Workload) -> u64 {
    let asked = arguments.requests.unwrap_or_else(|| workload.len());
    if workload.is_recorded() {
        asked.min(workload.len())
    } else {
        asked
    }
}

fn experiment<'a>(arguments: &'a Arguments, world: &'a World) -> Experiment<'a> {
    Experiment {
        catalogue: &world.catalogue,
        workload: &world.workload,
        policies: &world.policies,
        seed: arguments.seed,
        requests: requests(arguments, &world.workload),
        replicates: arguments.replicates,
        baseline: arguments.baseline.as_deref(),
        controls: true,
        stage: None,
        slices: false,
        timed: None,
        cluster: None,
    }
}

/// Runs every world.
fn measure(
    arguments: &Arguments,
    bench: &mut Bench,
    plan: &Plan,
    screen: &Screen,
) -> Result<Vec<WorldResults>, Exit> {
    watched::run(
        plan.total,
        arguments.threads,
        arguments.quiet,
        screen,
        |tick, stop| {
            let mut measured = Vec::with_capacity(bench.grid.worlds.len());
            for index in 0..bench.grid.worlds.len() {
                let read;
                let world = match &plan.only {
                    Some(world) => world,
                    None => {
                        read = bench.world(index).map_err(sim::Stopped::Invalid)?;
                        &read
                    }
                };
                let experiment = experiment(arguments, world);
                let mut warnings = Diagnostics::default();
                let (results, blocks) =
                    sim::run_in_blocks(&experiment, plan.blocks, &mut warnings, tick, stop)?;
                add_new(&mut bench.warnings, warnings);
                measured.push(WorldResults { results, blocks });
            }
            Ok(measured)
        },
    )
}

impl Bench {
    /// Reads the files as they are and finds every parameter in them.
    fn read(arguments: &Arguments) -> Result<Self, Diagnostics> {
        let mut found = Diagnostics::default();
        let mut parameters = Vec::new();
        for vary in &arguments.vary {
            match Parameter::parse(vary) {
                Ok(parameter) => parameters.push(parameter),
                Err(wrong) => found.push(*wrong),
            }
        }
        if found.has_errors() {
            return Err(found);
        }
        let grid = Grid::new(parameters).map_err(|wrong| Diagnostics(vec![*wrong]))?;
        let varied = |scope| grid.parameters.iter().any(|one| one.scope == scope);
        if let (true, Some(margin)) = (varied(Scope::Margin), arguments.margin) {
            return Err(Diagnostics(vec![
                Diagnostic::error("the margin is varied, and --margin gives it as well")
                    .help(format!("leave out --margin {margin}")),
            ]));
        }
        let mut reader = Reader {
            commands: arguments.permission.commands(),
            ..Reader::default()
        };
        let routes = arguments.routes.clone();
        let routes = routes.unwrap_or_else(|| PathBuf::from(inputs::ROUTES));
        let name = inputs::policy_name(&arguments.policy);
        let is_file = inputs::is_workload_file(&arguments.data);
        if varied(Scope::Workload) && !is_file {
            reader.found.push(
                Diagnostic::error(format!(
                    "`{}` is a data file: it has no keys to vary",
                    inputs::shown(&arguments.data)
                ))
                .help("describe it in a workload file with a `[recorded]` table"),
            );
        }
        let workload = if is_file {
            reader.text(&arguments.data)
        } else {
            None
        };
        let catalogue = reader.text(&routes);
        let policy = reader.text(&arguments.policy);
        let (Some(catalogue), Some(policy)) = (catalogue, policy) else {
            return Err(reader.found);
        };
        if is_file && workload.is_none() {
            return Err(reader.found);
        }
        let mut bench = Self {
            original: !grid.policies[0].is_empty() && arguments.baseline.as_ref() == Some(&name),
            spots: Vec::new(),
            data: arguments.data.clone(),
            columns: arguments.columns.clone(),
            warnings: Diagnostics::default(),
            reader,
            grid,
            name,
            workload,
            catalogue,
            policy,
        };
        // As they are first: what is wrong with a file is not a value's fault.
        bench.check_as_written()?;
        for parameter in &bench.grid.parameters {
            let file = match parameter.scope {
                Scope::Policy => Some(&bench.policy),
                Scope::Workload => bench.workload.as_ref(),
                Scope::Catalogue => Some(&bench.catalogue),
                Scope::Margin => None,
            };
            let spot = file.map(|file| Spot::find(file, parameter)).transpose();
            match spot {
                Ok(spot) => bench.spots.push(spot),
                Err(wrong) => found.push(*wrong),
            }
        }
        if found.has_errors() {
            Err(found)
        } else {
            Ok(bench)
        }
    }

    fn check_as_written(&mut self) -> Result<(), Diagnostics> {
        match self.workload.clone() {
            Some(file) => {
                self.reader.workload_of(&self.data, &file);
            }
            None => {
                self.reader.workload(&self.data, self.columns.as_deref());
            }
        }
        let read = catalogue::parse_partly(&self.catalogue, &mut self.reader.found);
        let names = match &read {
            Ok(catalogue) => Some(catalogue),
            Err(partly) => partly.as_deref(),
        };
        if let Some(catalogue) = names {
            let _ = policy::parse_allowing(
                &self.policy,
                &self.name,
                catalogue,
                self.reader.commands,
                &mut self.reader.found,
            );
        }
        let found = std::mem::take(&mut self.reader.found);
        if found.has_errors() {
            return Err(found);
        }
        self.warnings = found;
        Ok(())
    }

    /// One of the files with the values of these settings in it.
    fn file(&self, file: &Arc<SourceFile>, settings: &[Setting], scope: Scope) -> Arc<SourceFile> {
        let values: Vec<(&Spot, &str)> = settings
            .iter()
            .filter(|(parameter, _)| self.grid.parameters[*parameter].scope == scope)
            .filter_map(|&(parameter, value)| {
                let text = self.grid.parameters[parameter].values[value].as_str();
                Some((self.spots[parameter].as_ref()?, text))
            })
            .collect();
        if values.is_empty() {
            file.clone()
        } else {
            Spot::replaced(file, values)
        }
    }

    /// Reads a world with all of its policies.
    ///
    /// # Errors
    ///
    /// What readers have against values of parameters.
    fn world(&mut self, index: usize) -> Result<World, Diagnostics> {
        let settings = self.grid.worlds[index].clone();
        let workload = match &self.workload {
            Some(file) => {
                let file = self.file(&file.clone(), &settings, Scope::Workload);
                self.reader.workload_of(&self.data.clone(), &file)
            }
            None => self
                .reader
                .workload(&self.data.clone(), self.columns.as_deref()),
        };
        let mut found = self.blamed(&settings, Scope::Workload);
        let file = self.file(&self.catalogue, &settings, Scope::Catalogue);
        let catalogue = catalogue::parse(&file, &mut self.reader.found);
        found.0.extend(self.blamed(&settings, Scope::Catalogue).0);
        let mut policies = Vec::new();
        if let Some(catalogue) = &catalogue {
            for settings in self.grid.policies.clone() {
                let words = self.grid.in_words(&settings);
                let name = format!("{} {words}", self.name);
                let file = self.file(&self.policy, &settings, Scope::Policy);
                policies.extend(policy::parse_allowing(
                    &file,
                    name.trim_end(),
                    catalogue,
                    self.reader.commands,
                    &mut self.reader.found,
                ));
                found.0.extend(self.blamed(&settings, Scope::Policy).0);
            }
            if self.original {
                policies.extend(policy::parse_allowing(
                    &self.policy,
                    &self.name,
                    catalogue,
                    self.reader.commands,
                    &mut self.reader.found,
                ));
                found.0.append(&mut self.reader.found.0);
            }
        }
        match (catalogue, workload) {
            (Some(catalogue), Some(workload)) if !found.has_errors() => {
                add_new(&mut self.warnings, found);
                Ok(World {
                    catalogue,
                    workload,
                    policies,
                })
            }
            _ => Err(found),
        }
    }

    /// What the reader found since this was last asked, with the settings that its file was read with.
    fn blamed(&mut self, settings: &[Setting], scope: Scope) -> Diagnostics {
        let found = std::mem::take(&mut self.reader.found);
        let settings: Vec<String> = self
            .grid
            .settings_of(settings, scope)
            .map(|(parameter, value)| format!("`{}` is varied; this is {value}", parameter.path))
            .collect();
        with_help(found, &settings)
    }

    /// Complaints about inputs that do not fit each other, with the world's settings.
    fn blamed_on(&self, world: usize, found: Diagnostics) -> Diagnostics {
        let words = self.grid.in_words(&self.grid.worlds[world]);
        let settings: Vec<String> = (!words.is_empty())
            .then(|| format!("with {words}"))
            .into_iter()
            .collect();
        with_help(found, &settings)
    }
}

fn with_help(mut found: Diagnostics, lines: &[String]) -> Diagnostics {
    let errors = found.0.iter_mut();
    for one in errors.filter(|one| one.severity == Severity::Error) {
        one.help.extend(lines.iter().cloned());
    }
    found
}
