//! Environment variables for every flag, by one rule, so that none can be forgotten.
//!
//! A flag of a command is `ROUTELAB_<COMMAND>_<FLAG>`, such as `ROUTELAB_COMPARE_REQUIRE`. The few flags that
//! mean the same wherever they are, so that a variable set once does right by all commands, are
//! `ROUTELAB_<FLAG>`: [`SHARED`]. The command line goes before the environment, and a variable that is empty
//! counts as not set. A flag that may be repeated takes one value from its variable.

use std::ffi::{OsStr, OsString};

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Flags that mean the same wherever they are.
const SHARED: [&str; 8] = [
    "allow-commands",
    "color",
    "columns",
    "margin",
    "quiet",
    "routes",
    "seed",
    "threads",
];

/// Flags of that kind that are something else for one command: a sweep may vary the margin itself.
const OWN: [(&str, &str); 1] = [("sweep", "margin")];

/// The command with a variable for each of its flags and those of its subcommands.
pub(super) fn with_variables(command: Command) -> Command {
    below(command, &[])
}

fn below(command: Command, path: &[String]) -> Command {
    let command = command.mut_args(|argument| of_argument(argument, path));
    command.mut_subcommands(|inner| {
        let mut path = path.to_vec();
        path.push(inner.get_name().to_owned());
        below(inner, &path)
    })
}

fn of_argument(argument: Arg, path: &[String]) -> Arg {
    let Some(name) = variable(&argument, path) else {
        return argument;
    };
    let is_empty = std::env::var_os(&name).is_some_and(|value| value.is_empty());
    let argument = if matches!(argument.get_action(), ArgAction::SetTrue) {
        argument.value_parser(BoolishValueParser::new())
    } else {
        argument
    };
    if is_empty {
        return argument;
    }
    // The parser wants names that live as long as the program; there is one for each flag.
    let name: &'static str = String::leak(name);
    argument.env(name).hide_env_values(true)
}

/// The variable of a flag; nothing for what stands in its place on the line, and for help.
fn variable(argument: &Arg, path: &[String]) -> Option<String> {
    let flag = argument.get_long()?;
    if matches!(
        argument.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    ) {
        return None;
    }
    let is_own = OWN
        .iter()
        .any(|(command, own)| *own == flag && path.first().is_some_and(|name| name == command));
    let mut words = vec!["routelab"];
    if !SHARED.contains(&flag) || is_own {
        words.extend(path.iter().map(String::as_str));
    }
    words.push(flag);
    Some(words.join("_").replace('-', "_").to_uppercase())
}

/// The subcommand that a command line calls, and where its arguments begin on the line.
fn called<'c>(command: &'c Command, line: &[OsString]) -> (&'c Command, usize) {
    let (mut command, mut begin) = (command, 1);
    for (index, word) in line.iter().enumerate().skip(1) {
        if word == "--" {
            break;
        }
        if let Some(inner) = command.find_subcommand(word) {
            (command, begin) = (inner, index + 1);
        }
    }
    (command, begin)
}

/// The command line as it would be without the environment: what came from there is written out as flags,
/// so that whoever repeats the line repeats the run.
pub(super) fn written_out(
    command: &Command,
    matches: &ArgMatches,
    line: &[OsString],
) -> Vec<OsString> {
    let (called, begin) = called(command, line);
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    let from_there = called
        .get_arguments()
        .filter(|argument| {
            let source = matches.value_source(argument.get_id().as_str());
            source == Some(ValueSource::EnvVariable)
        })
        .filter_map(|argument| {
            let flag = argument.get_long()?;
            if matches!(argument.get_action(), ArgAction::SetTrue) {
                let is_set = matches.get_flag(argument.get_id().as_str());
                return is_set.then(|| OsString::from(format!("--{flag}")));
            }
            let value = std::env::var_os(argument.get_env()?)?;
            let mut text = OsString::from(format!("--{flag}="));
            text.push(value);
            Some(text)
        });
    let (head, tail) = line.split_at(begin.min(line.len()));
    head.iter()
        .cloned()
        .chain(from_there)
        .chain(tail.iter().cloned())
        .collect()
}

/// Which of the flags that an error is about came from the environment, for whoever does not see them on the
/// line.
pub(super) fn blamed(command: &Command, error: &clap::Error, line: &[OsString]) -> Option<String> {
    let mut named: Vec<String> = Vec::new();
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        match error.get(kind) {
            Some(ContextValue::String(one)) => named.push(one.clone()),
            Some(ContextValue::Strings(several)) => named.extend(several.iter().cloned()),
            _ => {}
        }
    }
    let (called, _) = called(command, line);
    let variables: Vec<String> = command
        .get_arguments()
        .chain(called.get_arguments())
        .filter_map(|argument| {
            let (flag, variable) = (argument.get_long()?, argument.get_env()?);
            let is_named = named.iter().any(|one| {
                let name = one.split([' ', '=']).next();
                name == Some(&format!("--{flag}"))
            });
            let on_the_line = line
                .iter()
                .any(|word| is_flag(word, flag, argument.get_short()));
            (is_named && !on_the_line && std::env::var_os(variable).is_some())
                .then(|| variable.to_string_lossy().into_owned())
        })
        .collect();
    let first = variables.first()?;
    let mut names = variables.clone();
    names.dedup();
    Some(format!(
        "  help: the value comes from the environment variable {}; correct it, or unset it: `unset {first}`",
        names.join(" and ")
    ))
}

/// Whether a word of the line is this flag.
fn is_flag(word: &OsStr, flag: &str, short: Option<char>) -> bool {
    let word = word.to_string_lossy();
    let name = word.split('=').next().unwrap_or_default();
    let is_short = short.is_some_and(|short| word.starts_with(&format!("-{short}")));
    name.strip_prefix("--") == Some(flag) || is_short
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;

    /// Every flag of every command, with its variable.
    fn flags(command: &Command, path: &[String], into: &mut Vec<(String, Option<String>)>) {
        for argument in command.get_arguments().filter(|one| !one.is_positional()) {
            let flag = argument.get_long().unwrap_or_default();
            if ["help", "version"].contains(&flag) {
                continue;
            }
            let variable = argument
                .get_env()
                .map(|name| name.to_string_lossy().into_owned());
            into.push((format!("{} --{flag}", path.join(" ")), variable));
        }
        for inner in command
            .get_subcommands()
            .filter(|inner| inner.get_name() != "help")
        {
            let mut path = path.to_vec();
            path.push(inner.get_name().to_owned());
            flags(inner, &path, into);
        }
    }

    #[test]
    fn every_flag_has_a_variable_and_only_shared_ones_have_one_of_the_same_name() {
        let command = with_variables(super::super::Arguments::command());
        let mut all = Vec::new();
        flags(&command, &[], &mut all);
        assert!(all.len() > 60, "{}", all.len());
        let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (flag, variable) in all {
            let variable = variable.unwrap_or_else(|| panic!("{flag} has no variable"));
            by_name.entry(variable).or_default().push(flag);
        }
        for (variable, flags) in &by_name {
            let plain = variable.strip_prefix("ROUTELAB_").unwrap();
            assert!(
                plain
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'),
                "{variable}"
            );
            let shared = SHARED
                .iter()
                .any(|flag| flag.replace('-', "_").to_uppercase() == plain);
            assert!(shared || flags.len() == 1, "{variable} is {flags:?}");
        }
        assert!(by_name["ROUTELAB_SEED"].len() > 3);
        assert_eq!(by_name["ROUTELAB_SWEEP_MARGIN"], ["sweep --margin"]);
        assert_eq!(
            by_name["ROUTELAB_SIZE_SHADOW_ALPHA"],
            ["size shadow --alpha"]
        );
    }

    #[test]
    fn the_called_command_is_found_behind_flags() {
        let command = super::super::Arguments::command();
        let line = |words: &str| words.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (words, name, begin) in [
            ("routelab compare w.toml", "compare", 2),
            ("routelab --color never size shadow w.toml", "shadow", 5),
            ("routelab", "routelab", 1),
            ("routelab check -- compare", "check", 2),
        ] {
            let (found, at) = called(&command, &line(words));
            assert_eq!((found.get_name(), at), (name, begin), "{words}");
        }
    }
}
