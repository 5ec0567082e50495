//! What a document says about where it came from: the command line and the inputs' digests.

use std::ffi::OsString;
use std::path::Path;

use super::screen::Screen;
use super::{Exit, inputs};
use crate::report::{FileDigest, Manifest};

/// The manifest of a document made by this command line.
pub(super) fn manifest(digests: &[FileDigest], seed: u64, command_line: &[OsString]) -> Manifest {
    Manifest {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed,
        inputs: digests.to_vec(),
        outputs: Vec::new(),
        command: command(command_line, seed),
    }
}

/// The command line without what cannot change the result (threads, where things are written, quietness, colour),
/// without absolute paths, and with the seed if it came from the environment.
fn command(command_line: &[OsString], seed: u64) -> Vec<String> {
    let relative = |text: &str| {
        if Path::new(text).is_absolute() {
            inputs::recorded(Path::new(text))
        } else {
            text.to_owned()
        }
    };
    let mut kept = vec!["routelab".to_owned()];
    let mut skip_value = false;
    let mut has_seed = false;
    for argument in command_line.iter().skip(1) {
        let argument = argument.to_string_lossy();
        let mut text = argument.as_ref();
        if std::mem::take(&mut skip_value) || text == "--quiet" || text == "-q" {
            continue;
        }
        // `-qp FILE` is `-q -p FILE`.
        let joined;
        if let Some(rest) = text.strip_prefix("-q") {
            joined = format!("-{rest}");
            text = &joined;
        }
        let (flag, value) = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with('-') => (flag, Some(value)),
            _ => (text, None),
        };
        if ["--threads", "--report", "--plot", "--color"].contains(&flag) {
            skip_value = value.is_none();
            continue;
        }
        has_seed |= flag == "--seed";
        kept.push(match (value, text.strip_prefix("-p")) {
            (Some(value), _) => format!("{flag}={}", relative(value)),
            (None, Some(path)) => format!("-p{}", relative(path)),
            (None, None) => relative(text),
        });
    }
    if !has_seed && seed != inputs::SEED {
        kept.push(format!("--seed={seed}"));
    }
    kept
}

/// A report folder that was made before a run that may take long, so that what stands in its way is said first.
#[derive(Debug)]
pub(super) struct Folder<'a> {
    path: Option<&'a Path>,
    was_made: bool,
}

impl<'a> Folder<'a> {
    /// Makes the folder, if one is asked for and there is none.
    ///
    /// # Errors
    ///
    /// If that cannot be done; the reason was said.
    pub(super) fn prepare(path: Option<&'a Path>, screen: &Screen) -> Result<Self, Exit> {
        let was_made = path.is_some_and(|path| !path.exists());
        if let Some(path) = path
            && let Err(error) = std::fs::create_dir_all(path)
        {
            return Err(screen.cannot_write(path, &error));
        }
        Ok(Self { path, was_made })
    }

    /// There will be no report: a folder that was made for it goes again, if it is empty.
    pub(super) fn abandon(&self) {
        if let (true, Some(path)) = (self.was_made, self.path) {
            let _ = std::fs::remove_dir(path);
        }
    }
}

/// Writes these files (name and bytes) to a folder, each whole or not at all.
pub(super) fn write(folder: &Path, files: &[(String, Vec<u8>)]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, bytes) in files {
        let temporary = folder.join(format!(".{name}.part"));
        std::fs::write(&temporary, bytes)?;
        std::fs::rename(&temporary, folder.join(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_change_the_result_is_not_in_the_manifest() {
        let line = [
            "/usr/bin/routelab",
            "compare",
            "w.toml",
            "--threads",
            "7",
            "--report=out",
            "-q",
            "--seed",
            "3",
            "--color=never",
        ];
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        assert_eq!(
            command(&line, 3),
            ["routelab", "compare", "w.toml", "--seed", "3"]
        );
    }

    #[test]
    fn no_absolute_path_is_in_the_manifest_and_the_seed_always_is() {
        let here = std::env::current_dir().unwrap();
        let inside = here.join("a").join("b.toml");
        let inside = inside.to_str().unwrap();
        let outside = here.parent().unwrap().join("c.toml");
        let outside = outside.to_str().unwrap();
        let line = [
            "routelab".to_owned(),
            "compare".to_owned(),
            inside.to_owned(),
            format!("--routes={outside}"),
            format!("-p{inside}"),
            "-qp".to_owned(),
            outside.to_owned(),
            "--require".to_owned(),
            "accuracy>=0.9".to_owned(),
        ];
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        assert_eq!(
            command(&line, 7),
            [
                "routelab",
                "compare",
                "a/b.toml",
                "--routes=../c.toml",
                "-pa/b.toml",
                "-p",
                "../c.toml",
                "--require",
                "accuracy>=0.9",
                "--seed=7",
            ]
        );
    }
}
