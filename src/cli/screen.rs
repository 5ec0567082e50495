//! Writing to the two standard streams.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;

use super::{Exit, inputs};
use crate::source::{Diagnostic, Diagnostics};

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
            Err(error) => {
                self.say(&format!("error: cannot write to stdout: {error}"));
                Exit::Failure
            }
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
            let _ = write!(std::io::stderr().lock(), "{}", diagnostics.render(colour));
        }
    }

    /// Whether a progress bar would be seen.
    pub(super) fn is_watched(&self) -> bool {
        std::io::stderr().is_terminal()
    }

    /// Says that nothing could be written there, and what to do.
    pub(super) fn cannot_write(&self, path: &Path, error: &std::io::Error) -> Exit {
        let help = match error.kind() {
            ErrorKind::NotADirectory => {
                "one of the folders in its path is a file; name another place"
            }
            ErrorKind::AlreadyExists => "a file of this name is in the way; name another folder",
            ErrorKind::IsADirectory => "it is a folder; name a file",
            ErrorKind::NotFound => {
                "make the folder that it is to be in first, or name another place"
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "name a place that you may write to, or change its permissions"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "make room there, or name a place on another disk"
            }
            _ => "name another place to write to",
        };
        self.complain(&Diagnostics(vec![
            Diagnostic::error(format!(
                "cannot write to `{}`: {}",
                inputs::shown(path),
                inputs::plain(error)
            ))
            .help(help),
        ]));
        Exit::Failure
    }
}
