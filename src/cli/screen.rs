//! Writing to the two standard streams.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;

use super::Exit;
use crate::source::Diagnostics;

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

    /// Says that nothing could be written there.
    pub(super) fn cannot_write(&self, path: &Path, error: &std::io::Error) -> Exit {
        self.say(&format!(
            "error: cannot write to `{}`: {error}",
            path.display()
        ));
        Exit::Failure
    }
}
