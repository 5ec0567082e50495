//! What Ctrl-C leaves behind, and how a run goes on from there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::screen::{Screen, unwritable};
use super::{Exit, inputs, provenance};
use crate::report::{FileDigest, sha256_hex};
use crate::sim::Checkpoint;
use crate::source::{Diagnostic, Diagnostics, Location};

/// Largest checkpoint that is read, in bytes.
const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;
/// Where the checkpoint goes if there is no report folder to stand beside.
const NAME: &str = "routelab.checkpoint";

/// Option of commands that can go on.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Resuming {
    /// Go on from where a run was interrupted: the file that Ctrl-C left.
    #[arg(long, value_name = "FILE")]
    pub(super) resume: Option<PathBuf>,
}

/// Where a run begins, and where it is kept if it is interrupted.
#[derive(Debug)]
pub(super) struct Resume {
    /// A digest of every file behind the experiment.
    pub(super) inputs: String,
    /// What was done before.
    pub(super) from: Option<Checkpoint>,
    /// The file it was read from.
    read: Option<PathBuf>,
    keep: PathBuf,
    command: Vec<String>,
}

impl Resume {
    /// Reads what was done before, if a file is named.
    ///
    /// # Errors
    ///
    /// If it cannot be read; the reason was said.
    pub(super) fn prepare(
        option: &Resuming,
        report: Option<&Path>,
        digests: &[FileDigest],
        command_line: &[OsString],
        screen: &Screen,
    ) -> Result<Self, Exit> {
        let from = match &option.resume {
            Some(path) => Some(read(path).map_err(|found| {
                screen.complain(&found);
                Exit::BadInput
            })?),
            None => None,
        };
        let all: Vec<String> = digests
            .iter()
            .map(|digest| format!("{} {}", digest.sha256, digest.path))
            .collect();
        let keep = match (&option.resume, report) {
            (Some(path), _) => path.clone(),
            (None, Some(report)) => {
                let mut name = report.file_name().unwrap_or_default().to_owned();
                name.push(".checkpoint");
                report.with_file_name(name)
            }
            (None, None) => PathBuf::from(NAME),
        };
        let command = provenance::again(command_line);
        // Two runs that are interrupted in one folder keep a file each.
        let keep = if option.resume.is_none() {
            let mut name = keep.file_stem().unwrap_or_default().to_owned();
            name.push(format!(
                "-{:.8}.checkpoint",
                sha256_hex(command.join(" ").as_bytes())
            ));
            keep.with_file_name(name)
        } else {
            keep
        };
        Ok(Self {
            inputs: sha256_hex(all.join("\n").as_bytes()),
            from,
            read: option.resume.clone(),
            keep,
            command,
        })
    }

    /// Keeps what was done, and says how to go on.
    pub(super) fn keep(&self, done: &str, checkpoint: &Checkpoint, screen: &Screen) -> Exit {
        let (replicates, chunks) = checkpoint.progress();
        if replicates == 0 && chunks == 0 {
            screen.say(&format!(
                "interrupted {done}; nothing was finished, so nothing was written"
            ));
            return Exit::Interrupted;
        }
        let folder = self
            .keep
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let name = self.keep.file_name().unwrap_or_default().to_string_lossy();
        let file = [(name.into_owned(), checkpoint.to_text().into_bytes())];
        if let Err(error) = provenance::write(folder.unwrap_or(Path::new(".")), &file) {
            screen.complain(&Diagnostics(vec![unwritable(&self.keep, &error)]));
            return Exit::Interrupted;
        }
        let shown = inputs::shown(&self.keep);
        let command = self.command.join(" ");
        screen.say(&format!(
            "interrupted {done}; what was done is in `{shown}`\nnext: {command} --resume {}",
            provenance::quoted(&shown)
        ));
        Exit::Interrupted
    }

    /// The run is done: what was kept of it is of no more use.
    pub(super) fn done(&self) {
        if let Some(path) = &self.read {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> Result<Checkpoint, Diagnostics> {
    // Its digest belongs to no report: the result does not depend on it.
    let mut reader = inputs::Reader::default();
    let Some(bytes) = reader.bytes(path, CHECKPOINT_BYTES_MAX) else {
        return Err(reader.found);
    };
    let read = String::from_utf8(bytes)
        .map_err(|_| "this is no checkpoint: it is not UTF-8 text".to_owned())
        .and_then(|text| Checkpoint::from_text(&text));
    read.map_err(|why| {
        let place = Location::File {
            path: inputs::shown(path),
        };
        let error = Diagnostic::error(why).at(place);
        Diagnostics(vec![error.help(
            "name the file that an interrupted run left, or leave out --resume to begin anew",
        )])
    })
}
