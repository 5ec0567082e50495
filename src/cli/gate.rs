//! `gate`: may this change ship? Two policies, or two whole configurations, on the same requests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use toml::de::{DeTable, DeValue};

use super::screen::Screen;
use super::{Exit, inputs, numbers, provenance, watched};
use crate::catalogue::Catalogue;
use crate::policy::PolicyFile;
use crate::report::{
    self, ChangedKey, Gate, GateOptions, GateResult, Options, SHEET_FORMATS, SliceBy,
};
use crate::sim::{self, Evidence, Experiment, Side};
use crate::source::{Diagnostic, Diagnostics, describe_list, nearest};
use crate::workload::Workload;

/// Most characters of a value that is shown as changed.
const VALUE_CHARS_MAX: usize = 120;
/// The evidence that can be asked for, from weak to strong.
const EVIDENCE: [(&str, Evidence); 3] = [
    ("simulated", Evidence::Simulated),
    ("off-policy", Evidence::OffPolicy),
    ("paired", Evidence::Paired),
];
/// What `--guard` says for no slice at all.
const NOTHING: &str = "none";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: inputs::Files,
    /// The policy of today: its name, or a control such as always-large.
    #[arg(long, value_name = "POLICY", required_unless_present = "base")]
    baseline: Option<String>,
    /// The policy that would take its place.
    #[arg(long, value_name = "POLICY", required_unless_present = "head")]
    candidate: Option<String>,
    /// The configuration of today: a folder with a routes.toml and its policies.
    #[arg(long, value_name = "DIR", requires = "head", conflicts_with_all = ["policy", "routes"])]
    base: Option<PathBuf>,
    /// The configuration that would take its place.
    #[arg(long, value_name = "DIR", requires = "base")]
    head: Option<PathBuf>,
    /// How much less accurate the candidate may be, everywhere it is guarded: 0.03 is three points.
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true, default_value_t = 0.03, value_parser = numbers::parse_margin)]
    margin: f64,
    /// Which parts of the traffic have a verdict of their own.
    #[arg(long, value_name = "BY,…", value_delimiter = ',', default_value = "task,tenant", value_parser = PossibleValuesParser::new(SliceBy::ALL.map(SliceBy::name).into_iter().chain([NOTHING])))]
    guard: Vec<String>,
    /// The least evidence that can pass; with less, the gate is inconclusive.
    #[arg(long, value_name = "LEVEL", default_value = "simulated", value_parser = PossibleValuesParser::new(EVIDENCE.map(|(name, _)| name)))]
    min_evidence: String,
    /// Whether an inconclusive gate ends with exit code 102, or with 0 and a warning.
    #[arg(long, value_name = "fail|warn", default_value = "fail", value_parser = PossibleValuesParser::new(["fail", "warn"]))]
    inconclusive: String,
    /// Something that must hold of the candidate, such as "usd_per_1k<=5"; may be repeated.
    #[arg(long, value_name = "RULE")]
    require: Vec<String>,
    /// Also say what this many requests would cost, such as 40M.
    #[arg(long, value_name = "N", value_parser = numbers::parse_volume)]
    volume: Option<f64>,
    /// Requests per replicate [default: what the workload says].
    #[arg(long, value_name = "N", value_parser = numbers::parse_count)]
    requests: Option<u64>,
    /// Replicates: fresh traffic each in a synthetic world, fresh draws of the policies on recorded rows.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replicates: u32,
    /// Threads [default: one per core]. The result does not depend on it.
    #[arg(long, value_name = "N", env = "ROUTELAB_THREADS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// How the result is printed; Markdown is for a comment on a change.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS))]
    format: String,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// No progress bar and no remarks.
    #[arg(short, long)]
    quiet: bool,
}

/// One side as it was read.
struct Configuration {
    catalogue: Catalogue,
    policies: Vec<PolicyFile>,
    /// Who of it is compared.
    contestant: String,
    /// What it is called in the results.
    called: String,
}

/// Everything that was read.
struct Read {
    workload: Workload,
    sides: [Configuration; 2],
    changed: Option<Vec<ChangedKey>>,
    digests: Vec<report::FileDigest>,
    found: Diagnostics,
    has_timeline: bool,
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let read = match (&arguments.base, &arguments.head) {
        (Some(base), Some(head)) => read_folders(arguments, [base, head]),
        _ => read_policies(arguments),
    };
    let mut read = match read {
        Ok(read) => read,
        Err(found) => {
            screen.complain(&found);
            return Exit::BadInput;
        }
    };
    let requests = arguments.requests.unwrap_or(read.workload.len());
    let experiments = read.sides.each_ref().map(|side| Experiment {
        catalogue: &side.catalogue,
        workload: &read.workload,
        policies: &side.policies,
        seed: arguments.inputs.seed,
        requests,
        replicates: arguments.replicates,
        baseline: None,
        controls: true,
        stage: None,
        slices: true,
        timed: None,
        cluster: None,
    });
    let [base, head] = &read.sides;
    let options = Options {
        baseline: Some(base.called.clone()),
        margin: arguments.margin,
        volume: arguments.volume,
        require: rules(&arguments.require, head),
        ..Options::default()
    };
    let checked = check(&experiments, [base, head], &options);
    if let Err(found) = checked {
        screen.complain(&found);
        return Exit::BadInput;
    }
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    let [one, other] = &experiments;
    let sides = [
        Side {
            experiment: one,
            contestant: &base.contestant,
            called: &base.called,
        },
        Side {
            experiment: other,
            contestant: &head.contestant,
            called: &head.called,
        },
    ];
    let total = requests.saturating_mul(u64::from(arguments.replicates));
    let found = &mut read.found;
    let ran = watched::run(
        total,
        arguments.threads,
        arguments.quiet,
        screen,
        |tick, stop| sim::versus(sides, found, tick, stop),
    );
    let mut versus = match ran {
        Ok(versus) => versus,
        Err(exit) => return exit,
    };
    // What was odd about the inputs, and what was left out of them, belongs beside the verdict: in a pipeline
    // nobody reads what is said on the way.
    let odd = read.found.0.iter().map(|one| one.message.clone());
    versus.results.notes.extend(odd);
    if read.has_timeline {
        versus.results.notes.push(
            "`[timeline]` is left out: requests are taken one by one, without limits, incidents and latencies".to_owned(),
        );
    }
    if !arguments.quiet {
        screen.complain(&read.found);
    }
    let manifest = provenance::manifest(&read.digests, arguments.inputs.seed, command_line);
    let findings = match report::findings(&versus.results, &options, manifest.clone()) {
        Ok(findings) => findings,
        Err(errors) => {
            let errors = errors.into_iter().map(Diagnostic::error);
            screen.complain(&Diagnostics(errors.collect()));
            return Exit::BadInput;
        }
    };
    let gate = Gate::new(
        findings,
        versus,
        GateOptions {
            guard: SliceBy::ALL
                .into_iter()
                .filter(|by| arguments.guard.iter().any(|asked| asked == by.name()))
                .collect(),
            min_evidence: EVIDENCE
                .iter()
                .find(|(name, _)| *name == arguments.min_evidence)
                .map(|(_, evidence)| *evidence),
            changed: read.changed.clone(),
        },
    );
    let delivered = provenance::deliver(
        &gate.sheet(),
        &arguments.format,
        &manifest,
        &folder,
        Vec::new(),
        screen,
    );
    if delivered != Exit::Fine {
        return delivered;
    }
    match gate.result() {
        GateResult::Pass => Exit::Fine,
        GateResult::Fail => Exit::RequirementFailed,
        GateResult::Inconclusive if arguments.inconclusive == "warn" => {
            screen.say("warning: the gate is inconclusive, which --inconclusive warn lets through");
            Exit::Fine
        }
        GateResult::Inconclusive => Exit::Inconclusive,
    }
}

/// Requirements as requirements of the candidate, whatever name it has in the results.
fn rules(rules: &[String], candidate: &Configuration) -> Vec<String> {
    let own = |rule: &String| {
        let rule = rule.trim_start();
        // A policy's name, a dot, and a measure; measures have a dot only behind `final_share`.
        let plain = [&candidate.contestant, &candidate.called]
            .iter()
            .find_map(|name| rule.strip_prefix(name.as_str())?.strip_prefix('.'));
        format!("{}.{}", candidate.called, plain.unwrap_or(rule))
    };
    rules.iter().map(own).collect()
}

/// Everything that does not fit between inputs and options.
fn check(
    experiments: &[Experiment<'_>; 2],
    sides: [&Configuration; 2],
    options: &Options,
) -> Result<(), Diagnostics> {
    let mut found = Diagnostics::default();
    for (experiment, side) in experiments.iter().zip(sides) {
        match sim::contestants(experiment) {
            Ok(names) => {
                if !names.contains(&side.contestant) {
                    found.push(unknown(&side.contestant, names.iter().map(String::as_str)));
                }
            }
            Err(errors) => {
                let new = errors.0.into_iter().filter(|one| !found.0.contains(one));
                let new: Vec<Diagnostic> = new.collect();
                found.0.extend(new);
            }
        }
    }
    let names = sides.map(|side| side.called.as_str());
    let mut routes: Vec<&str> = Vec::new();
    for name in sides.iter().flat_map(|side| side.catalogue.names()) {
        if !routes.contains(&name) {
            routes.push(name);
        }
    }
    let errors = report::check(options, &names, &routes);
    found.0.extend(errors.into_iter().map(Diagnostic::error));
    if found.has_errors() {
        Err(found)
    } else {
        Ok(())
    }
}

fn unknown<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> Diagnostic {
    let error = Diagnostic::error(format!("there is no policy or control `{name}`"));
    match nearest(name, known.clone()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help(format!("there is {}", describe_list(known))),
    }
}

/// Two policies of one configuration.
fn read_policies(arguments: &Arguments) -> Result<Read, Diagnostics> {
    let (inputs, found) = inputs::read(&arguments.inputs)?;
    let (Some(baseline), Some(candidate)) = (&arguments.baseline, &arguments.candidate) else {
        // The parser does not let this through.
        return Err(Diagnostics(vec![Diagnostic::error(
            "a gate needs --baseline and --candidate, or --base and --head",
        )]));
    };
    if baseline == candidate {
        return Err(Diagnostics(vec![
            Diagnostic::error(format!("`{baseline}` is named as both, so nothing changes"))
                .help("name the policy of today with --baseline and the new one with --candidate; to compare two versions of one policy, use --base and --head"),
        ]));
    }
    let side = |name: &String| Configuration {
        catalogue: inputs.catalogue.clone(),
        // A gate is about two policies: the others need not even be right.
        policies: Vec::new(),
        contestant: name.clone(),
        called: name.clone(),
    };
    let mut sides = [side(baseline), side(candidate)];
    for policy in inputs.policies {
        if let Some(side) = sides.iter_mut().find(|side| side.contestant == policy.name) {
            side.policies.push(policy);
        }
    }
    Ok(Read {
        workload: inputs.workload,
        sides,
        changed: None,
        digests: inputs.digests,
        found,
        has_timeline: inputs.timeline.is_some(),
    })
}

/// Two configurations, each in a folder of its own.
fn read_folders(arguments: &Arguments, folders: [&PathBuf; 2]) -> Result<Read, Diagnostics> {
    let mut reader = inputs::Reader {
        commands: arguments.inputs.permission.commands(),
        ..inputs::Reader::default()
    };
    let data = &arguments.inputs.data;
    let workload = reader.workload(data, arguments.inputs.columns.as_deref());
    let has_timeline = reader.has_timeline;
    let asked = [
        arguments.baseline.as_ref().or(arguments.candidate.as_ref()),
        arguments.candidate.as_ref().or(arguments.baseline.as_ref()),
    ];
    let mut sides = Vec::new();
    let mut texts = Vec::new();
    for ((folder, asked), word) in folders.into_iter().zip(asked).zip(["base", "head"]) {
        let Some((routes, policies)) = places(folder, &mut reader) else {
            continue;
        };
        let catalogue = reader.catalogue(&routes);
        let names = match &catalogue {
            Ok(catalogue) => Some(catalogue),
            Err(partly) => partly.as_deref(),
        };
        let mut read = reader.policies(std::slice::from_ref(&policies), names);
        texts.push(values(&policies, &routes, &mut reader));
        let Ok(catalogue) = catalogue else {
            continue;
        };
        let contestant = match (asked, read.as_slice()) {
            (Some(name), _) => name.clone(),
            (None, [only]) => only.name.clone(),
            (None, several) => {
                let names = several.iter().map(|policy| policy.name.as_str());
                let text = format!(
                    "`{}` has {} policies, and none is named",
                    inputs::shown(folder),
                    several.len()
                );
                let error = Diagnostic::error(text);
                reader.found.push(error.help(format!(
                    "say which with --candidate NAME (and --baseline NAME, if it is called otherwise in the base): there is {}",
                    describe_list(names)
                )));
                continue;
            }
        };
        let is_control = contestant
            .strip_prefix("always-")
            .is_some_and(|route| catalogue.find(route).is_some());
        if !is_control && read.iter().all(|policy| policy.name != contestant) {
            let names: Vec<String> = read.iter().map(|policy| policy.name.clone()).collect();
            let mut error = unknown(&contestant, names.iter().map(String::as_str));
            error.message = format!("{} in `{}`", error.message, inputs::shown(folder));
            reader.found.push(error);
        }
        read.retain(|policy| policy.name == contestant);
        sides.push(Configuration {
            called: format!("{contestant} ({word})"),
            catalogue,
            policies: read,
            contestant,
        });
    }
    let changed = match texts.as_slice() {
        [base, head] => Some(changed(base, head)),
        _ => None,
    };
    match (workload, <[Configuration; 2]>::try_from(sides)) {
        (Some(workload), Ok(sides)) if !reader.found.has_errors() => Ok(Read {
            workload,
            sides,
            changed,
            digests: reader.digests,
            found: reader.found,
            has_timeline,
        }),
        _ => Err(reader.found),
    }
}

/// Where a configuration keeps its routes and its policies.
fn places(folder: &Path, reader: &mut inputs::Reader) -> Option<(PathBuf, PathBuf)> {
    let name = Path::new(inputs::ROUTES).file_name().unwrap_or_default();
    let found: Vec<PathBuf> = [folder.to_owned(), folder.join("policies")]
        .into_iter()
        .filter(|policies| policies.join(name).is_file())
        .collect();
    match found.as_slice() {
        [policies] => return Some((policies.join(name), policies.clone())),
        [one, other, ..] => {
            let text = format!(
                "there are two configurations in `{}`: `{}` and `{}`",
                inputs::shown(folder),
                inputs::shown(&one.join(name)),
                inputs::shown(&other.join(name))
            );
            let error = Diagnostic::error(text);
            reader
                .found
                .push(error.help("name the folder of the one that counts"));
            return None;
        }
        [] => {}
    }
    let shown = inputs::shown(folder);
    let error = if folder.is_dir() {
        Diagnostic::error(format!("there is no `routes.toml` in `{shown}`")).help(
            "a configuration is a folder with a routes.toml and its policies, or one that has them in policies/",
        )
    } else {
        Diagnostic::error(format!("`{shown}` is no folder"))
            .help("name the folder of a configuration: a routes.toml and its policies")
    };
    reader.found.push(error);
    None
}

/// Values by file and key.
type Values = BTreeMap<(String, String), String>;

/// Every value of a configuration. Files that cannot be read were complained about already.
fn values(policies: &Path, routes: &Path, reader: &mut inputs::Reader) -> Values {
    let mut values = Values::new();
    let mut files = inputs::policy_files(policies);
    files.push(routes.to_owned());
    // It was read before, so that nothing new can be said about it.
    let before = reader.found.0.len();
    for path in files {
        let Some(file) = reader.text(&path) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Ok(table) = DeTable::parse(&file.text) {
            flatten(&name, "", table.get_ref(), &file.text, &mut values);
        }
    }
    reader.found.0.truncate(before);
    values
}

/// The values of a table as they are written.
fn flatten(file: &str, under: &str, table: &DeTable<'_>, text: &str, into: &mut Values) {
    for (name, value) in table.iter() {
        let key = if under.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{under}.{}", name.get_ref())
        };
        match value.get_ref() {
            DeValue::Table(inner) => flatten(file, &key, inner, text, into),
            DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(inner) = item.get_ref().as_table() {
                        flatten(file, &format!("{key}[{index}]"), inner, text, into);
                    }
                }
            }
            _ => {
                let written = text.get(value.span()).unwrap_or_default();
                into.insert((file.to_owned(), key), written.to_owned());
            }
        }
    }
}

/// The beginning of a value.
fn shown(value: &str) -> String {
    let short: String = value.chars().take(VALUE_CHARS_MAX).collect();
    if short.len() < value.len() {
        format!("{short}…")
    } else {
        short
    }
}

fn changed(base: &Values, head: &Values) -> Vec<ChangedKey> {
    let mut places: Vec<&(String, String)> = base.keys().chain(head.keys()).collect();
    places.sort();
    places.dedup();
    let differing = places
        .into_iter()
        .filter(|place| base.get(*place) != head.get(*place));
    differing
        .map(|place| ChangedKey {
            file: place.0.clone(),
            key: place.1.clone(),
            before: base.get(place).map(|value| shown(value)),
            after: head.get(place).map(|value| shown(value)),
        })
        .collect()
}
