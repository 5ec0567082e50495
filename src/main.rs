//! Parses the command line, runs the command, ends with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    routelab::cli::main(std::env::args_os().collect())
}
