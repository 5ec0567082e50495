//! The command line. Only here are files read and written and texts printed.
//!
//! Results go to stdout; progress, warnings and errors go to stderr. Exit codes are in [`Exit`].

#[cfg(feature = "live")]
mod call;
mod check;
mod compare;
mod diff;
mod drill;
mod drill_seen;
mod drill_world;
mod environment;
mod explain;
mod explain_log;
mod gate;
mod init;
mod inputs;
mod man;
mod numbers;
mod provenance;
mod resume;
mod schema;
mod screen;
#[cfg(feature = "live")]
mod serve;
mod size;
mod size_canary;
mod size_eval;
mod size_shadow;
mod sweep;
mod timeline;
mod watched;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use screen::Screen;

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything went well.
    Fine = 0,
    /// Something failed while running.
    Failure = 1,
    /// The command line or an input file is wrong.
    BadInput = 2,
    /// A requirement is not met.
    RequirementFailed = 100,
    /// Too little data to tell whether a requirement is met.
    Inconclusive = 102,
    /// Stopped by Ctrl-C or SIGTERM.
    Interrupted = 130,
}

const AFTER_HELP: &str = "\
Exit codes: 0 fine · 1 failure while running · 2 bad usage or bad input · 100 a requirement failed ·
102 inconclusive (too little data) · 130 interrupted

Every flag can be set by an environment variable, which its help names; the command line goes before it.";

/// A wind tunnel for LLM routing policies: what each costs, how accurate it is, how sure that is.
#[derive(Debug, Parser)]
#[command(name = "routelab", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Arguments {
    /// When to colour the output.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto)]
    color: Colour,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a folder with routes, policies and a workload in which the next command works at once.
    Init(init::Arguments),
    /// Run policies on the same traffic and compare cost, accuracy and reliability.
    Compare(Box<compare::Arguments>),
    /// Read workloads, policies and route catalogues, and say everything that is wrong with them.
    Check(check::Arguments),
    /// How many labelled examples, mirrored pairs or canary requests it takes to be sure, and how sure.
    Size(size::Arguments),
    /// Vary one or two parameters over a range: cost and accuracy of every point, and the Pareto front.
    Sweep(Box<sweep::Arguments>),
    /// What happens to the traffic when a provider fails: the same day with and without the incident. Of a
    /// file that ends in .jsonl, a log of stand-ins: what the gateway in front of them did.
    Drill(Box<drill::Arguments>),
    /// May this change ship? Two policies, or two configurations, on the same requests; the exit code says.
    Gate(Box<gate::Arguments>),
    /// Put two reports side by side: which numbers are not the same, and which verdicts changed.
    Diff(diff::Arguments),
    /// Say why one request goes where it goes under each policy, step by step.
    Explain(explain::Arguments),
    /// Ask one question through a policy, live, and show every attempt it took.
    #[cfg(feature = "live")]
    Call(call::Arguments),
    /// Serve stand-ins for providers on this machine, with scripted faults, for any client or gateway.
    #[cfg(feature = "live")]
    Serve(serve::Arguments),
    /// Print the JSON Schema of a kind of file, for editors, or its keys as tables, for people.
    Schema(schema::Arguments),
    /// Print the manual page, or write one for each command to a folder.
    Man(man::Arguments),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Runs the program with these arguments (the first is the program's name).
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let command = environment::with_variables(Arguments::command());
    let matches = command.clone().try_get_matches_from(&arguments);
    let parsed = matches.and_then(|matches| {
        // A document says how it was made in flags: nobody else has this environment.
        let arguments = environment::written_out(&command, &matches, &arguments);
        Ok((Arguments::from_arg_matches(&matches)?, arguments))
    });
    let (parsed, arguments) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Clap says by itself whether it goes to stdout (help, version) or stderr.
            let code = if error.use_stderr() {
                Exit::BadInput
            } else {
                Exit::Fine
            };
            let _ = error.print();
            if let Some(variables) = environment::blamed(&command, &error, &arguments) {
                Screen::new(None).say(&variables);
            }
            return ExitCode::from(code as u8);
        }
    };
    let screen = Screen::new(match parsed.color {
        Colour::Auto => None,
        Colour::Always => Some(true),
        Colour::Never => Some(false),
    });
    let exit = match parsed.command {
        Command::Init(command) => init::run(&command, &screen),
        Command::Compare(command) => compare::run(&command, &arguments, &screen),
        Command::Size(command) => size::run(&command, &arguments, &screen),
        Command::Check(command) => check::run(&command, &screen),
        Command::Sweep(command) => sweep::run(&command, &arguments, &screen),
        Command::Drill(command) => drill::run(&command, &arguments, &screen),
        Command::Gate(command) => gate::run(&command, &arguments, &screen),
        Command::Diff(command) => diff::run(&command, &arguments, &screen),
        Command::Explain(command) => explain::run(&command, &screen),
        #[cfg(feature = "live")]
        Command::Call(command) => call::run(&command, &screen),
        #[cfg(feature = "live")]
        Command::Serve(command) => serve::run(&command, &screen),
        Command::Schema(command) => schema::run(&command, &screen),
        Command::Man(arguments) => man::run(&arguments, command, &screen),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "routelab", &mut script);
            screen.print(&String::from_utf8_lossy(&script))
        }
    };
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        environment::with_variables(Arguments::command()).debug_assert();
    }
}
