//! Writing to the two standard streams.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;

use super::{Exit, inputs};
use crate::source::{Diagnostic, Diagnostics, Location, Severity};

/// Names come from files: control characters must not reach the terminal, nor what turns text around.
pub(super) fn visible(text: &str) -> String {
    crate::report::visible(text)
}

/// Where output goes and whether it is coloured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Screen {
    colour: Option<bool>,
}

impl Screen {
    pub(super) fn new(colour: Option<bool>) -> Self {
        Self { colour }
    }

    /// Prints a result to stdout. A reader that stopped reading is no failure.
    pub(super) fn print(&self, text: &str) -> Exit {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Exit::Fine,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Exit::Fine,
            Err(error) => self.fail(
                &format!("cannot write to stdout: {error}"),
                "send it to a file or a program that takes it",
            ),
        }
    }

    /// Prints a line to stderr.
    pub(super) fn say(&self, text: &str) {
        // When stderr is gone there is nobody to tell.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// Prints complaints to stderr.
    pub(super) fn complain(&self, diagnostics: &Diagnostics) {
        if !diagnostics.0.is_empty() {
            let colour = self.colour.unwrap_or_else(|| {
                std::io::stderr().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            });
            let shown = with_a_way_out(diagnostics).render(colour);
            let _ = write!(std::io::stderr().lock(), "{shown}");
        }
    }

    /// Whether a progress bar would be seen.
    pub(super) fn is_watched(&self) -> bool {
        std::io::stderr().is_terminal()
    }

    /// Says that nothing could be written there, and what to do.
    pub(super) fn cannot_write(&self, path: &Path, error: &std::io::Error) -> Exit {
        self.complain(&Diagnostics(vec![unwritable(path, error)]));
        Exit::Failure
    }

    /// Says that something failed while running, and what to do.
    pub(super) fn fail(&self, what: &str, help: &str) -> Exit {
        self.complain(&Diagnostics(vec![Diagnostic::error(what).help(help)]));
        Exit::Failure
    }
}

/// Why nothing can be written there, and what to do.
pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Diagnostic {
    let help = match error.kind() {
        ErrorKind::NotADirectory => "one of the folders in its path is a file; name another place",
        ErrorKind::AlreadyExists => "a file of this name is in the way; name another folder",
        ErrorKind::IsADirectory => "it is a folder; name a file",
        ErrorKind::NotFound => "make the folder that it is to be in first, or name another place",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "name a place that you may write to, or change its permissions"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "make room there, or name a place on another disk"
        }
        _ => "name another place to write to",
    };
    Diagnostic::error(format!(
        "cannot write to `{}`: {}",
        inputs::shown(path),
        match error.kind() {
            ErrorKind::NotFound => "there is no such folder".to_owned(),
            _ => inputs::plain(error),
        }
    ))
    .help(help)
}

/// The same, with a way out at the end where the last error names none: what somebody reads last is what
/// they do next.
fn with_a_way_out(diagnostics: &Diagnostics) -> Diagnostics {
    let mut diagnostics = diagnostics.clone();
    let last = diagnostics.0.last_mut();
    if let Some(last) = last.filter(|one| one.severity == Severity::Error && one.help.is_empty()) {
        last.help.push(match &last.location {
            Some(Location::File { path } | Location::Line { path, .. }) => {
                format!("correct `{path}`, then run this again")
            }
            Some(Location::Span { file, .. }) => {
                format!("correct `{}`, then run this again", file.path)
            }
            None => "correct the command line, which --help explains, and run it again".to_owned(),
        });
    }
    diagnostics
}
