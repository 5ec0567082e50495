//! Runs the program itself, from outside.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// How a run ended and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

impl Ran {
    /// Stdout of a run that must have gone well.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }

    /// Stdout of a run that must have gone well, as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.fine()).expect("JSON")
    }

    /// Stderr of a run whose input must have been refused, with nothing on stdout.
    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert_eq!(self.code, Some(2), "{}", self.stderr);
        assert_eq!(self.stdout, "");
        self.stderr
    }
}

/// The program in `folder`, with nothing in its environment that could change what it does.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routelab"));
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ROUTELAB_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs it.
pub(crate) fn run_in(folder: &Path, arguments: &[&str]) -> Ran {
    let output = command(folder).args(arguments).output();
    output.expect("the program starts").into()
}

/// Runs it in the project's folder, on the shipped files.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    run_in(&crate::given::project(""), arguments)
}
