//! `size eval`: how many labelled examples it takes to pick the right route for each task.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::screen::Screen;
use super::{Exit, inputs, numbers, provenance, timeline};
use crate::catalogue::Catalogue;
use crate::policy::Bar;
use crate::report::{self, SHEET_FORMATS};
use crate::size::{EvalPlan, eval_subject};
use crate::source::{Diagnostic, describe_list, nearest};
use crate::units::Score;

/// Most examples of one task and route.
const EXAMPLES_MAX: u64 = 10_000_000;
/// Most examples up to which every number is gone through.
const LABELS_MAX: u64 = 100_000;
/// Most numbers of examples, or chances, in one table.
const SIZES_MAX: usize = 24;
/// Numbers of examples that are shown beside the policy's own.
const LADDER: [u64; 4] = [15, 60, 300, 1_000];

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A workload (TOML), or recorded outcomes of every route (CSV, JSONL or Parquet, also .gz).
    data: PathBuf,
    /// An eval-driven policy: its bar, routes, pins and fallbacks.
    #[arg(short, long, value_name = "FILE", required_unless_present = "target")]
    policy: Option<PathBuf>,
    /// Instead of a policy: least share of right answers.
    #[arg(long, value_name = "SHARE", conflicts_with = "policy", requires = "otherwise", value_parser = numbers::parse_power)]
    target: Option<f64>,
    /// With --target: the route for tasks on which no other reaches it.
    #[arg(long, value_name = "ROUTE", requires = "target")]
    otherwise: Option<String>,
    /// Numbers of examples for each task and route [default: the policy's own among 15,60,300,1000].
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = numbers::parse_count)]
    examples: Vec<u64>,
    /// Chances of the oracle's route to find a number of examples for.
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_value = "0.8,0.9,0.95", value_parser = numbers::parse_power)]
    chance: Vec<f64>,
    /// Sequential test: half-width of the zone around the bar in which either verdict will do.
    #[arg(long, value_name = "SHARE", default_value_t = 0.02, value_parser = numbers::parse_error)]
    epsilon: f64,
    /// Sequential test: chance of a wrong verdict outside the zone.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, value_parser = numbers::parse_error)]
    error: f64,
    /// Most examples of one task and route that anybody would label.
    #[arg(long, value_name = "N", default_value = "5000", value_parser = numbers::parse_count)]
    labels_max: u64,
    /// What a right answer is worth, for the regret of picking another route than the oracle.
    #[arg(long, value_name = "USD", value_parser = numbers::parse_usd)]
    usd_per_correct: Option<f64>,
    /// The route catalogue [default: policies/routes.toml].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Which columns of a data file mean what (TOML), when its names are not the usual ones.
    #[arg(long, value_name = "FILE")]
    columns: Option<PathBuf>,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS))]
    format: String,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let mut reader = inputs::Reader::default();
    let workload = reader.workload(&arguments.data, arguments.columns.as_deref());
    let routes = arguments.routes.clone();
    let routes = routes.unwrap_or_else(|| PathBuf::from(inputs::ROUTES));
    let catalogue = reader.catalogue(&routes);
    let bar = match &catalogue {
        Ok(catalogue) => bar(arguments, catalogue, &mut reader),
        Err(partly) => {
            // The policy's own mistakes are worth knowing as well.
            reader.policies(arguments.policy.as_slice(), partly.as_deref());
            None
        }
    };
    let plan = bar
        .as_ref()
        .and_then(|bar| plan(arguments, bar, &mut reader));
    let (Some(workload), Ok(catalogue), Some(bar), Some(plan)) = (workload, catalogue, bar, plan)
    else {
        screen.complain(&reader.found);
        return Exit::BadInput;
    };
    let subject = match eval_subject(&workload, &catalogue, &bar) {
        Ok(subject) => subject,
        Err(error) => {
            reader.found.push(*error);
            screen.complain(&reader.found);
            return Exit::BadInput;
        }
    };
    let Some(sizing) = plan.size(&subject.tasks) else {
        reader.found.push(zone(&plan));
        screen.complain(&reader.found);
        return Exit::BadInput;
    };
    screen.complain(&reader.found);
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    let sheet = report::size_eval(&subject, &sizing);
    timeline::say_unused(reader.has_timeline, "size", screen);
    let manifest = provenance::manifest(&reader.digests, inputs::SEED, command_line);
    provenance::deliver(
        &sheet,
        &arguments.format,
        &manifest,
        &folder,
        Vec::new(),
        screen,
    )
}

/// The bar that examples are held against; `None`, with the reasons in `reader.found`, if nobody says.
fn bar(arguments: &Arguments, catalogue: &Catalogue, reader: &mut inputs::Reader) -> Option<Bar> {
    if let (Some(target), Some(name)) = (arguments.target, &arguments.otherwise) {
        let Some(otherwise) = catalogue.find(name) else {
            let error = Diagnostic::error(format!(
                "there is no route `{name}`, which --otherwise names"
            ));
            reader.found.push(match nearest(name, catalogue.names()) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(format!("there is {}", describe_list(catalogue.names()))),
            });
            return None;
        };
        return Some(Bar {
            target: Score::from_fraction(target)?,
            examples: 300,
            otherwise,
            routes: None,
            picks: Vec::new(),
            fallback: Vec::new(),
        });
    }
    let file = arguments.policy.as_ref()?;
    if file.is_dir() {
        reader.found.push(
            Diagnostic::error(format!("`{}` is a folder", file.display()))
                .help("name one eval-driven policy"),
        );
        return None;
    }
    let policies = reader.policies(std::slice::from_ref(file), Some(catalogue));
    let policy = policies.first()?;
    let bar = policy.spec.bar();
    if bar.is_none() {
        reader.found.push(
            Diagnostic::error(format!(
                "policy `{}` is of the kind `{}`, which holds no labelled examples against a bar",
                policy.name,
                policy.spec.kind()
            ))
            .help("name an eval-driven policy, or give --target and --otherwise"),
        );
    }
    bar
}

/// The question; `None`, with the reasons in `reader.found`, if it is too large.
fn plan(arguments: &Arguments, bar: &Bar, reader: &mut inputs::Reader) -> Option<EvalPlan> {
    let mut examples = arguments.examples.clone();
    if examples.is_empty() {
        examples.extend(LADDER);
        examples.push(bar.examples);
    }
    examples.sort_unstable();
    examples.dedup();
    let mut chances = arguments.chance.clone();
    chances.sort_by(f64::total_cmp);
    chances.dedup();
    let mut refuse = |what: String| reader.found.push(Diagnostic::error(what));
    let before = (examples.last() > Some(&EXAMPLES_MAX)).then(|| {
        format!("at most {EXAMPLES_MAX} examples of a task and route can be planned with")
    });
    let labels = (arguments.labels_max > LABELS_MAX).then(|| {
        format!("--labels-max is at most {LABELS_MAX}: every number up to it is gone through")
    });
    let sizes = (examples.len() > SIZES_MAX || chances.len() > SIZES_MAX)
        .then(|| format!("at most {SIZES_MAX} numbers of examples, or chances, fit one table"));
    let wrong: Vec<String> = [before, labels, sizes].into_iter().flatten().collect();
    let fine = wrong.is_empty();
    wrong.into_iter().for_each(&mut refuse);
    fine.then_some(EvalPlan {
        target: bar.target,
        examples,
        chances,
        epsilon: arguments.epsilon,
        error: arguments.error,
        labels_max: arguments.labels_max,
        usd_per_correct: arguments.usd_per_correct,
    })
}

/// Why there is no sequential test.
fn zone(plan: &EvalPlan) -> Diagnostic {
    let target = f64::from(plan.target.millionths().unwrap_or_default()) / 1e6;
    Diagnostic::error(format!(
        "the bar of {target} with {} on either side does not lie between 0 and 1",
        plan.epsilon
    ))
    .help("choose a smaller --epsilon, or a bar that can be failed and passed")
}
