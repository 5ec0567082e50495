//! `explain`: why one request went where it went.

use super::Exit;
use super::inputs;
use super::screen::Screen;
use super::timeline;
use crate::sim::{self, Experiment};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    inputs: inputs::Files,
    /// The request: its id in recorded data, its number in a synthetic world.
    #[arg(long, value_name = "ID")]
    request: String,
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Exit {
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
    match sim::explain(&experiment, &arguments.request, &mut warnings) {
        Ok(stories) => {
            screen.complain(&warnings);
            timeline::say_unused(inputs.timeline.is_some(), "explain", screen);
            let mut text = String::new();
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

/// Names come from files: control characters must not reach the terminal.
fn visible(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
