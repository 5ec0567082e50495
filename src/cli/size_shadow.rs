//! `size shadow`: how many mirrored pairs it takes to promote a candidate.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::screen::Screen;
use super::{Exit, inputs, numbers, provenance, timeline, watched};
use crate::catalogue::Catalogue;
use crate::report::{self, SHEET_FORMATS};
use crate::size::{
    Mirroring, Origin, Rehearsal, Rehearsed, Runs, ShadowPlan, ShadowSizing, Truth,
    recorded_truths, simulated_truths,
};
use crate::source::{Diagnostic, Diagnostics, describe_list};
use crate::stats::{Criterion, Grader, Joint, RULES, Rule, z_two_sided};
use crate::workload::Workload;

/// Most graded pairs of a plan.
const PAIRS_MAX: u64 = 10_000_000;
/// Most numbers of pairs in one table.
const SIZES_MAX: usize = 24;
/// Most simulated requests of one command.
const SIMULATED_MAX: u64 = 10_000_000_000;
/// Most looks of one peeking table.
const LOOKS_MAX: u64 = 1_000;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A workload (TOML), or recorded outcomes of every route; not with --p10 and --p01.
    data: Option<PathBuf>,
    /// The route that may be promoted; may be repeated.
    #[arg(long, value_name = "ROUTE", requires = "data")]
    candidate: Vec<String>,
    /// The route that it would replace.
    #[arg(long, value_name = "ROUTE", requires = "data")]
    primary: Option<String>,
    /// Only pairs of this task; may be repeated [default: every task, and all together].
    #[arg(long, value_name = "TASK", requires = "data")]
    task: Vec<String>,
    /// Instead of data: share of pairs that only the candidate gets right.
    #[arg(long, value_name = "SHARE", conflicts_with = "data", requires = "p01", allow_negative_numbers = true, value_parser = numbers::parse_chance)]
    p10: Option<f64>,
    /// Instead of data: share of pairs that only the primary gets right.
    #[arg(long, value_name = "SHARE", conflicts_with = "data", requires = "p10", allow_negative_numbers = true, value_parser = numbers::parse_chance)]
    p01: Option<f64>,
    /// With --p10 and --p01: how often the primary is right. Only Newcombe's rules and graders ask
    /// [default: 0.9, or as near as the two allow].
    #[arg(long, value_name = "SHARE", requires = "p10", value_parser = numbers::parse_chance)]
    accuracy: Option<f64>,
    /// How much worse the candidate may be and still be promoted: 0.03 is three points.
    #[arg(long, value_name = "SHARE", default_value_t = 0.03, allow_negative_numbers = true, value_parser = numbers::parse_margin)]
    margin: f64,
    /// One-sided error of the rule [default: 0.025, as the usual z = 1.96].
    #[arg(long, value_name = "SHARE", value_parser = numbers::parse_error)]
    alpha: Option<f64>,
    /// The rule that promotes, or `all`; may be repeated. The first one is planned with.
    #[arg(long, value_name = "RULE", default_value = "tango", value_parser = PossibleValuesParser::new(rule_names()))]
    rule: Vec<String>,
    /// Numbers of graded pairs to tabulate.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', default_value = "50,100,200,400,800,1600", value_parser = numbers::parse_count)]
    pairs: Vec<u64>,
    /// Chances of promotion to plan for.
    #[arg(long, value_name = "SHARE,…", value_delimiter = ',', default_value = "0.8,0.9", value_parser = numbers::parse_power)]
    power: Vec<f64>,
    /// The other direction: the smallest margin that this many graded pairs can certify.
    #[arg(long, value_name = "N", conflicts_with = "days", value_parser = numbers::parse_count)]
    n: Option<u64>,
    /// The other direction: the smallest margin that so many days can certify.
    #[arg(long, value_name = "DAYS", requires = "requests_per_day", value_parser = numbers::parse_volume)]
    days: Option<f64>,
    /// Requests a day, over all tasks, for days.
    #[arg(long, value_name = "N", value_parser = numbers::parse_volume)]
    requests_per_day: Option<f64>,
    /// Share of the task's requests that is mirrored.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = numbers::parse_share)]
    mirror_share: f64,
    /// Share of the mirrored pairs that is graded.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = numbers::parse_share)]
    graded_share: f64,
    /// Days from an answer to its grade.
    #[arg(long, value_name = "DAYS", default_value_t = 0.0, value_parser = numbers::parse_days)]
    label_delay_days: f64,
    /// What grading one answer costs, in USD; a pair has two answers.
    #[arg(long, value_name = "USD", value_parser = numbers::parse_usd)]
    usd_per_grade: Option<f64>,
    /// A grader that errs: how often it sees a right answer as right, and a wrong one as wrong.
    #[arg(long, value_name = "SENS,SPEC", value_parser = parse_grader)]
    grader: Option<Grader>,
    /// What looking every N pairs up to a horizon does, such as 50,2000.
    #[arg(long, value_name = "N,HORIZON", value_parser = parse_peek)]
    peek: Option<(u64, u64)>,
    /// Also play every promotion so often: traffic, shadow policy, router, tally, rule.
    #[arg(long, value_name = "RUNS", requires = "data", conflicts_with = "grader", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    simulate: Option<u32>,
    /// Seed of the simulated runs.
    #[arg(long, value_name = "N", default_value_t = inputs::SEED)]
    seed: u64,
    /// The route catalogue [default: policies/routes.toml].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Which columns of a data file mean what (TOML), when its names are not the usual ones.
    #[arg(long, value_name = "FILE", requires = "data")]
    columns: Option<PathBuf>,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS))]
    format: String,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

fn rule_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
    names.push("all");
    names
}

fn parse_grader(text: &str) -> Result<Grader, String> {
    let wrong = || "expected two shares, such as 0.9,0.95".to_owned();
    let (sensitivity, specificity) = text.split_once(',').ok_or_else(wrong)?;
    let share = |text: &str| numbers::parse_share(text.trim()).map_err(|_| wrong());
    Grader::new(share(sensitivity)?, share(specificity)?).ok_or_else(|| {
        "sensitivity and specificity must add up to more than 1: a grader below that knows nothing"
            .to_owned()
    })
}

fn parse_peek(text: &str) -> Result<(u64, u64), String> {
    let wrong = || "expected how often and until when, such as 50,2000".to_owned();
    let (every, horizon) = text.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| numbers::parse_count(text.trim()).map_err(|_| wrong());
    let (every, horizon) = (number(every)?, number(horizon)?);
    if horizon < every || horizon.div_ceil(every) > LOOKS_MAX {
        return Err(format!(
            "the horizon must allow 1 to {LOOKS_MAX} looks, every {every} pairs up to {horizon} does not"
        ));
    }
    Ok((every, horizon))
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let mut reader = inputs::Reader::default();
    let asked = asked(arguments, &mut reader);
    let mut found = reader.found;
    check(arguments, &mut found);
    let z = arguments
        .alpha
        .map_or(1.96, |alpha| z_two_sided(1.0 - 2.0 * alpha));
    let criterion = Criterion::new(arguments.margin, z);
    if criterion.is_none() {
        found.push(Diagnostic::error(format!(
            "no rule decides at a margin of {} and z = {z}",
            arguments.margin
        )));
    }
    let (Some(asked), Some(criterion), false) = (asked, criterion, found.has_errors()) else {
        screen.complain(&found);
        return Exit::BadInput;
    };
    screen.complain(&found);
    let plan = plan(arguments, &asked.truths, criterion);
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    let rehearsed = match rehearse(arguments, &asked, &plan, screen) {
        Ok(rehearsed) => rehearsed,
        Err(exit) => return exit,
    };
    let sizing = ShadowSizing {
        rehearsed,
        ..plan.size(asked.truths)
    };
    let sheet = report::size_shadow(&plan, &sizing);
    timeline::say_unused(reader.has_timeline, "size", screen);
    let manifest = provenance::manifest(&reader.digests, arguments.seed, command_line);
    provenance::deliver(
        &sheet,
        &arguments.format,
        &manifest,
        &folder,
        Vec::new(),
        screen,
    )
}

/// What clap cannot say: limits over several arguments.
fn check(arguments: &Arguments, found: &mut Diagnostics) {
    if arguments
        .days
        .is_some_and(|days| days <= arguments.label_delay_days)
    {
        found.push(
            Diagnostic::error(format!(
                "the grades come {} days after the answers, so {} days leave none to decide with",
                arguments.label_delay_days,
                arguments.days.unwrap_or_default()
            ))
            .help("give --days more than --label-delay-days"),
        );
    }
    let most = arguments.pairs.iter().chain(&arguments.n).max();
    if most.is_some_and(|n| *n > PAIRS_MAX) {
        found.push(
            Diagnostic::error(format!("at most {PAIRS_MAX} pairs can be planned with"))
                .help("give --pairs and --n smaller numbers"),
        );
    }
    if arguments.pairs.len() > SIZES_MAX {
        found.push(
            Diagnostic::error(format!(
                "at most {SIZES_MAX} numbers of pairs fit one table"
            ))
            .help("give --pairs fewer of them"),
        );
    }
    if let (Some(p10), Some(p01)) = (arguments.p10, arguments.p01) {
        if p10 + p01 > 1.0 + 1e-12 {
            found.push(Diagnostic::error(format!(
                "--p10 and --p01 are shares of the same pairs, but {p10} and {p01} add up to more than 1"
            )));
        } else if given(p10, p01, arguments.accuracy).is_none() {
            found.push(
                Diagnostic::error(format!(
                    "a primary that is right in {} of the pairs cannot be the only one right in {p01} of them while the candidate is in {p10}",
                    arguments.accuracy.unwrap_or_default()
                ))
                .help("--accuracy must be at least --p01, and at most 1 less --p10"),
            );
        }
    }
}

/// What the question is about.
struct Asked {
    truths: Vec<Truth>,
    /// Where the truths come from, unless they were given.
    data: Option<(Workload, Option<Catalogue>)>,
}

/// The simulated runs, if they were asked for.
fn rehearse(
    arguments: &Arguments,
    asked: &Asked,
    plan: &ShadowPlan,
    screen: &Screen,
) -> Result<Vec<Rehearsed>, Exit> {
    let (Some(count), Some((workload, catalogue))) = (arguments.simulate, &asked.data) else {
        return Ok(Vec::new());
    };
    let refused = |why: String, help: &str| {
        screen.complain(&Diagnostics(vec![Diagnostic::error(why).help(help)]));
        Err(Exit::BadInput)
    };
    if workload.is_recorded() {
        return refused(
            "recorded requests cannot be drawn anew".to_owned(),
            "leave --simulate out, or name a synthetic workload",
        );
    }
    let Some(catalogue) = catalogue else {
        return refused(
            "a simulated run needs a route catalogue".to_owned(),
            "name one with --routes FILE",
        );
    };
    let pairs = plan.pairs.iter().sum::<u64>() * asked.truths.len() as u64;
    let total = pairs.saturating_mul(u64::from(count));
    if total > SIMULATED_MAX {
        return refused(
            format!(
                "{count} runs of {pairs} pairs are more than {SIMULATED_MAX} simulated requests"
            ),
            "ask for fewer runs, or for fewer numbers of pairs with --pairs",
        );
    }
    let rehearsal = Rehearsal {
        workload,
        catalogue,
        runs: Runs {
            count,
            seed: arguments.seed,
        },
    };
    watched::run(total, None, false, screen, |tick, stop| {
        rehearsal.play(plan, &asked.truths, tick, stop)
    })
}

/// What the pairs are like; `None` if that cannot be said, with the reasons in `reader.found`.
fn asked(arguments: &Arguments, reader: &mut inputs::Reader) -> Option<Asked> {
    let Some(data) = &arguments.data else {
        let (Some(p10), Some(p01)) = (arguments.p10, arguments.p01) else {
            reader.found.push(
                Diagnostic::error("what are the pairs like?")
                    .help("name a workload or recorded data with --candidate and --primary, or give --p10 and --p01"),
            );
            return None;
        };
        let truth = Truth {
            task: "given".to_owned(),
            candidate: "candidate".to_owned(),
            primary: "primary".to_owned(),
            joint: given(p10, p01, arguments.accuracy)?,
            share: 1.0,
            usd_per_mirror: None,
            pairs: None,
            ungraded: None,
            origin: Origin::Given,
        };
        return Some(Asked {
            truths: vec![truth],
            data: None,
        });
    };
    let workload = reader.workload(data, arguments.columns.as_deref())?;
    let path = arguments
        .routes
        .clone()
        .unwrap_or_else(|| PathBuf::from(inputs::ROUTES));
    // Without prices the money stays unknown; everything else is in the workload.
    let catalogue = if arguments.routes.is_some() || path.exists() {
        Some(reader.catalogue(&path).ok()?)
    } else {
        None
    };
    let mut index =
        |what: &str, name: &str, known: &[String]| reader.named(&workload, what, name, known);
    let candidates: Vec<_> = arguments
        .candidate
        .iter()
        .map(|name| index("route", name, &workload.routes))
        .collect();
    let primary = arguments
        .primary
        .as_ref()
        .map(|name| index("route", name, &workload.routes));
    let tasks: Vec<_> = arguments
        .task
        .iter()
        .map(|name| index("task", name, &workload.tasks))
        .collect();
    if candidates.is_empty() || primary.is_none() {
        reader.found.push(
            Diagnostic::error("whom is the candidate to replace?").help(format!(
                "say --candidate and --primary; the workload knows {}",
                describe_list(workload.routes.iter().map(String::as_str))
            )),
        );
    }
    let mut candidates: Vec<usize> = candidates.into_iter().collect::<Option<_>>()?;
    let mut seen = Vec::new();
    candidates.retain(|one| {
        !seen.contains(one) && {
            seen.push(*one);
            true
        }
    });
    let tasks: Vec<usize> = tasks.into_iter().collect::<Option<_>>()?;
    let primary = primary??;
    if candidates.contains(&primary) {
        reader.found.push(Diagnostic::error(format!(
            "`{}` cannot be candidate and primary at once",
            workload.routes[primary]
        )));
        return None;
    }
    let mut truths = Vec::new();
    for candidate in candidates {
        let made = if workload.is_recorded() {
            recorded_truths(&workload, catalogue.as_ref(), candidate, primary, &tasks)
        } else {
            simulated_truths(&workload, catalogue.as_ref(), candidate, primary, &tasks)
        };
        match made {
            Ok(made) => truths.extend(made),
            Err(error) => reader.found.push(*error),
        }
    }
    (!truths.is_empty()).then_some(Asked {
        truths,
        data: Some((workload, catalogue)),
    })
}

/// The joint distribution of pairs that disagree so often, under a primary that is right so often.
fn given(p10: f64, p01: f64, primary: Option<f64>) -> Option<Joint> {
    let most = (1.0 - p10).max(p01);
    let primary = primary.unwrap_or(0.9_f64.clamp(p01, most));
    // What is below zero by a rounding is zero.
    let cell = |share: f64| if share.abs() < 1e-12 { 0.0 } else { share };
    let p11 = cell(primary - p01);
    Joint::new(p11, p10, p01, cell(1.0 - p11 - p10 - p01))
}

fn plan(arguments: &Arguments, truths: &[Truth], criterion: Criterion) -> ShadowPlan {
    let mut rules: Vec<Rule> = Vec::new();
    for name in &arguments.rule {
        let named = RULES
            .iter()
            .filter(|(known, _)| name == "all" || known == name);
        for &(_, rule) in named {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    let mut pairs = arguments.pairs.clone();
    pairs.sort_unstable();
    pairs.dedup();
    let mut powers = arguments.power.clone();
    powers.sort_by(f64::total_cmp);
    powers.dedup();
    let mirroring = Mirroring {
        requests_per_day: arguments.requests_per_day.unwrap_or(0.0),
        mirror_share: arguments.mirror_share,
        graded_share: arguments.graded_share,
        label_delay_days: arguments.label_delay_days,
        usd_per_grade: arguments.usd_per_grade,
    };
    let certify = match (arguments.n, arguments.days) {
        (Some(n), _) => vec![n; truths.len()],
        (None, Some(days)) => truths
            .iter()
            .map(|truth| mirroring.pairs_within(truth, days).min(PAIRS_MAX))
            .collect(),
        (None, None) => Vec::new(),
    };
    ShadowPlan {
        rules,
        criterion,
        pairs,
        powers,
        certify,
        // One that never errs is none.
        grader: arguments
            .grader
            .filter(|grader| *grader != Grader::perfect()),
        mirroring,
        traffic_known: arguments.requests_per_day.is_some(),
        peek: arguments.peek,
    }
}
