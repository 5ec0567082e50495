//! `explain`: why one request went where it went.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::Exit;
use super::screen::{Screen, visible};
use super::{explain_log, inputs, timeline};
use crate::sim::{self, Experiment, Side, Stopped};
use crate::source::Diagnostics;

/// What such an explanation is: these data hold outcomes, and no decision of anybody.
const STANDING: &str =
    "counterfactual: what these policies would do; the data hold no decision that was made\n\n";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: inputs::Files,
    /// The request: its id in recorded data, its number in a synthetic world, the trace id in a log of calls.
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "violations",
        conflicts_with = "violations"
    )]
    request: Option<String>,
    /// List the requests that were sent where their data may not go: of a log what happened, else what the
    /// policies would do.
    #[arg(long)]
    violations: bool,
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Exit {
    let files = &arguments.inputs;
    if let Some(kind) = explain_log::kind(&files.data) {
        let folder = vec![PathBuf::from(inputs::POLICIES)];
        let folder: Vec<PathBuf> = folder.into_iter().filter(|path| path.is_dir()).collect();
        let asked = explain_log::Asked {
            log: &files.data,
            kind,
            routes: files.routes.as_deref().unwrap_or(Path::new(inputs::ROUTES)),
            policies: if files.policy.is_empty() {
                &folder
            } else {
                &files.policy
            },
            request: arguments.request.as_deref(),
        };
        return explain_log::run(&asked, screen);
    }
    let (inputs, mut warnings) = match inputs::read(&arguments.inputs) {
        Ok(read) => read,
        Err(found) => {
            screen.complain(&found);
            return Exit::BadInput;
        }
    };
    let experiment = Experiment {
        catalogue: &inputs.catalogue,
        workload: &inputs.workload,
        policies: &inputs.policies,
        seed: arguments.inputs.seed,
        requests: inputs.workload.len(),
        replicates: 1,
        baseline: None,
        controls: false,
        stage: None,
        slices: false,
        timed: None,
        cluster: None,
    };
    let Some(request) = &arguments.request else {
        return violations(&experiment, &mut warnings, screen);
    };
    match sim::explain(&experiment, request, &mut warnings) {
        Ok(stories) => {
            screen.complain(&warnings);
            timeline::say_unused(inputs.timeline.is_some(), "explain", screen);
            let mut text = STANDING.to_owned();
            for story in stories {
                text.push_str(&visible(&story.policy));
                text.push('\n');
                for line in story.lines {
                    text.push_str("  ");
                    text.push_str(&visible(&line));
                    text.push('\n');
                }
                text.push('\n');
            }
            screen.print(&text)
        }
        Err(found) => {
            screen.complain(&found);
            Exit::BadInput
        }
    }
}

/// Goes through every request under every policy.
fn violations(experiment: &Experiment<'_>, warnings: &mut Diagnostics, screen: &Screen) -> Exit {
    let (mut text, mut all) = (STANDING.to_owned(), 0);
    for policy in experiment.policies {
        let side = Side {
            experiment,
            contestant: &policy.name,
            called: &policy.name,
        };
        let versus = match sim::versus([side, side], warnings, &|_| (), &AtomicBool::new(false)) {
            Ok(versus) => versus,
            Err(Stopped::Invalid(found)) => {
                screen.complain(&found);
                return Exit::BadInput;
            }
            // Nobody raises the flag.
            Err(Stopped::Interrupted(_)) => return Exit::Interrupted,
            Err(Stopped::Failed(why)) => {
                return screen.fail(&why, "report this: it is no mistake of yours");
            }
        };
        for one in &versus.violations {
            let named = |what: &str, name: &Option<String>| {
                name.as_ref()
                    .map_or_else(String::new, |name| format!(", {what} `{name}`"))
            };
            text.push_str(&visible(&format!(
                "{}: {} requests to `{}`{}{}, such as `{}`",
                policy.name,
                one.requests,
                one.route,
                named("tenant", &one.tenant),
                named("data class", &one.data_class),
                one.example
            )));
            text.push('\n');
        }
        let strays = versus.strayed;
        all += strays;
        text.push_str(&visible(&format!(
            "{}: {strays} of {} requests sent where their data may not go, or would be after a failure; mirrors and judges counted",
            policy.name, versus.requests
        )));
        text.push('\n');
    }
    screen.complain(warnings);
    match screen.print(&text) {
        Exit::Fine if all > 0 => Exit::RequirementFailed,
        printed => printed,
    }
}
