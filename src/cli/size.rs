//! `size`: how many examples, pairs or requests it takes to be sure.

use std::ffi::OsString;

use super::Exit;
use super::screen::Screen;
use super::size_canary;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Slices of a canary: harm, delay, false and missed rollbacks, and a policy file for the ramp.
    Canary(Box<size_canary::Arguments>),
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    match &arguments.what {
        What::Canary(canary) => size_canary::run(canary, command_line, screen),
    }
}
