//! `drill`: what happens to traffic when something fails. So far it reads logs of stand-ins.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use super::screen::Screen;
use super::{Exit, drill_seen};
use crate::report::SHEET_FORMATS;
use crate::source::{Diagnostic, Diagnostics};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// What `routelab serve --log` wrote while any gateway called the stand-ins (JSONL, also .gz).
    log: PathBuf,
    /// The route catalogue: where which data may go.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    #[command(flatten)]
    seen: drill_seen::Options,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS))]
    format: String,
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    if !drill_seen::is_log(&arguments.log) {
        let error = Diagnostic::error(format!(
            "`{}` is no log of stand-ins",
            arguments.log.display()
        ));
        let error = error.help("a log is what `serve --log seen.jsonl` writes");
        screen.complain(&Diagnostics(vec![error]));
        return Exit::BadInput;
    }
    drill_seen::run(
        &arguments.log,
        arguments.routes.as_deref(),
        &arguments.seen,
        &arguments.format,
        command_line,
        screen,
    )
}
