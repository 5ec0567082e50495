//! `size`: how many examples, pairs or requests it takes to be sure.

use std::ffi::OsString;

use super::Exit;
use super::screen::Screen;
use super::size_canary;
use super::size_shadow;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Slices of a canary: harm, delay, false and missed rollbacks, and a policy file for the ramp.
    Canary(Box<size_canary::Arguments>),
    /// Mirrored pairs to promote a candidate, exactly: chance for each n, n for a chance, cost and days.
    Shadow(Box<size_shadow::Arguments>),
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    match &arguments.what {
        What::Canary(canary) => size_canary::run(canary, command_line, screen),
        What::Shadow(shadow) => size_shadow::run(shadow, command_line, screen),
    }
}
