//! What a document says about where it came from: the command line and the inputs' digests.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::screen::Screen;
use super::{Exit, inputs};
use crate::report::{FileDigest, Manifest, Sheet};

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
        if ["--threads", "--report", "--plot", "--color", "--resume"].contains(&flag) {
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

/// The command line as somebody would type it to go on: all of it but where it goes on from.
pub(super) fn again(command_line: &[OsString]) -> Vec<String> {
    let mut words = vec!["routelab".to_owned()];
    let mut skip_value = false;
    for argument in command_line.iter().skip(1) {
        let text = argument.to_string_lossy();
        if std::mem::take(&mut skip_value) || text.starts_with("--resume=") {
            continue;
        }
        if text == "--resume" {
            skip_value = true;
            continue;
        }
        words.push(quoted(&text));
    }
    words
}

/// A word as a POSIX shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A report folder in the making: its files are written beside their place first, so that what stands there is
/// always whole. What would keep it from being written is found before a run that may take long.
#[derive(Debug)]
pub(super) struct Folder<'a> {
    target: Option<&'a Path>,
    /// Where the files are written first.
    part: PathBuf,
    /// Whether `target` has to be kept, because it holds something already.
    keeps: bool,
}

impl<'a> Folder<'a> {
    /// Makes room for a report, if one is asked for.
    ///
    /// # Errors
    ///
    /// If that cannot be done; the reason was said.
    pub(super) fn prepare(target: Option<&'a Path>, screen: &Screen) -> Result<Self, Exit> {
        let Some(path) = target else {
            return Ok(Self {
                target,
                part: PathBuf::new(),
                keeps: false,
            });
        };
        let keeps = path.exists();
        let manifest = path.join(MANIFEST);
        if manifest.exists() && listed(&manifest).is_none() {
            let text = "a `manifest.json` that is none of this program stands there";
            let error = std::io::Error::new(std::io::ErrorKind::AlreadyExists, text);
            return Err(screen.cannot_write(path, &error));
        }
        let part = if keeps {
            path.join(format!(".part-{}", std::process::id()))
        } else {
            let mut name = std::ffi::OsString::from(".");
            name.push(path.file_name().unwrap_or_default());
            name.push(format!(".part-{}", std::process::id()));
            path.with_file_name(name)
        };
        match std::fs::create_dir_all(&part) {
            Ok(()) => Ok(Self {
                target,
                part,
                keeps,
            }),
            Err(error) => Err(screen.cannot_write(path, &error)),
        }
    }

    /// Puts these files (name and bytes) into the folder, the last one last: whoever finds it there finds the
    /// others, too. In a folder that is there already they replace the files that its manifest lists and
    /// those of the same names; other files stay.
    ///
    /// # Errors
    ///
    /// If they cannot be written; the reason was said.
    pub(super) fn write(
        &self,
        files: impl FnOnce() -> Vec<(String, Vec<u8>)>,
        screen: &Screen,
    ) -> Result<(), Exit> {
        let Some(target) = self.target else {
            return Ok(());
        };
        self.put(target, &files())
            .map_err(|error| screen.cannot_write(target, &error))
    }

    fn put(&self, target: &Path, files: &[(String, Vec<u8>)]) -> std::io::Result<()> {
        for (name, bytes) in files {
            std::fs::write(self.part.join(name), bytes)?;
        }
        if !self.keeps {
            return std::fs::rename(&self.part, target);
        }
        let old = listed(&target.join(MANIFEST)).unwrap_or_default();
        if let Some((name, _)) = files.iter().find(|(name, _)| {
            let is_ours = *name == MANIFEST || old.iter().any(|(known, _)| known == name);
            target.join(name).exists() && !is_ours
        }) {
            let text = format!("`{name}` stands there, and no report of this program lists it");
            return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, text));
        }
        // From here on until the new one is in place nobody takes the folder for a whole report.
        match std::fs::remove_file(target.join(MANIFEST)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for (name, digest) in &old {
            let path = target.join(name);
            let unchanged = || {
                let bytes = std::fs::read(&path).unwrap_or_default();
                crate::report::sha256_hex(&bytes) == *digest
            };
            // What somebody has changed since is theirs.
            if files.iter().all(|(new, _)| new != name) && unchanged() {
                let _ = std::fs::remove_file(&path);
            }
        }
        for (name, _) in files {
            std::fs::rename(self.part.join(name), target.join(name))?;
        }
        std::fs::remove_dir(&self.part)
    }
}

impl Drop for Folder<'_> {
    /// Where no report came of it, nothing is left.
    fn drop(&mut self) {
        if self.target.is_some() {
            // It is gone if the report was written.
            let _ = std::fs::remove_dir_all(&self.part);
        }
    }
}

/// Prints a document and writes its report, with `more` files in it, if one is asked for.
pub(super) fn deliver(
    sheet: &Sheet,
    format: &str,
    manifest: &Manifest,
    folder: &Folder<'_>,
    more: Vec<(String, Vec<u8>)>,
    screen: &Screen,
) -> Exit {
    let written = match folder.target {
        Some(_) => folder.write(|| sheet.files(more, manifest), screen),
        None => Ok(()),
    };
    // The parsers admit only names of formats.
    let Some(text) = sheet.render(format, manifest) else {
        return Exit::BadInput;
    };
    let printed = screen.print(&text);
    // What was computed was printed all the same.
    match (printed, written) {
        (Exit::Fine, Err(failure)) => failure,
        (printed, _) => printed,
    }
}

/// What a report folder may hold that a run would replace, and how it is told that a run wrote it.
const MANIFEST: &str = "manifest.json";

/// The files (name and digest) of the report whose manifest stands there: `None` if it is no manifest of this program.
fn listed(manifest: &Path) -> Option<Vec<(String, String)>> {
    let bytes = std::fs::read(manifest).ok()?;
    let read = serde_json::from_slice::<serde_json::Value>(&bytes).ok()?;
    if read.get("command")?.get(0)?.as_str()? != "routelab" {
        return None;
    }
    let outputs = read.get("outputs")?.as_array()?.iter();
    let text = |output: &serde_json::Value, key: &str| Some(output.get(key)?.as_str()?.to_owned());
    let files = outputs.filter_map(|output| Some((text(output, "path")?, text(output, "sha256")?)));
    let plain = |name: &str| {
        Path::new(name)
            .file_name()
            .is_some_and(|plain| plain == name)
    };
    Some(files.filter(|(name, _)| plain(name)).collect())
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
    fn a_command_line_can_be_typed_again() {
        let line = [
            "x/routelab",
            "compare",
            "w.toml",
            "--require",
            "accuracy>=0.9",
            "--resume",
            "old",
            "-p",
            "it's here.toml",
        ];
        let line: Vec<OsString> = line.iter().map(OsString::from).collect();
        assert_eq!(
            again(&line).join(" "),
            r"routelab compare w.toml --require 'accuracy>=0.9' -p 'it'\''s here.toml'"
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

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn files(names: &[&str]) -> Vec<(String, Vec<u8>)> {
        let outputs: Vec<String> = names
            .iter()
            .map(|name| {
                let digest = crate::report::sha256_hex(name.as_bytes());
                format!("{{\"path\": \"{name}\", \"sha256\": \"{digest}\"}}")
            })
            .collect();
        let manifest = format!(
            "{{\"outputs\": [{}], \"command\": [\"routelab\"]}}",
            outputs.join(", ")
        );
        let file = |name: &&str| ((*name).to_owned(), name.as_bytes().to_vec());
        let mut files: Vec<_> = names.iter().map(file).collect();
        files.push(("manifest.json".to_owned(), manifest.into_bytes()));
        files
    }

    #[test]
    fn a_report_replaces_the_files_of_the_one_before_and_no_others() {
        let scratch = tempfile::tempdir().unwrap();
        let screen = Screen::new(Some(false));
        let target = scratch.path().join("new").join("run");
        let make = |names: &[&str]| {
            let folder = Folder::prepare(Some(&target), &screen).unwrap();
            folder.write(|| files(names), &screen).unwrap();
        };
        make(&["a.svg", "b.svg"]);
        assert_eq!(names(&target), ["a.svg", "b.svg", "manifest.json"]);
        std::fs::write(target.join("mine.txt"), "kept").unwrap();
        make(&["b.svg", "c.svg"]);
        assert_eq!(
            names(&target),
            ["b.svg", "c.svg", "manifest.json", "mine.txt"]
        );
        assert_eq!(names(target.parent().unwrap()), ["run"]);
    }

    #[test]
    fn what_somebody_else_put_there_is_neither_deleted_nor_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let screen = Screen::new(Some(false));
        let target = scratch.path().join("run");
        std::fs::create_dir(&target).unwrap();
        let put = |name: &str, text: &str| std::fs::write(target.join(name), text).unwrap();
        let manifest = |path: &str| {
            format!(
                "{{\"outputs\": [{{\"path\": \"{path}\", \"sha256\": \"0\"}}], \"command\": [\"routelab\"]}}"
            )
        };
        // A manifest of another program.
        put("manifest.json", r#"{"outputs": [{"path": "thesis.txt"}]}"#);
        put("thesis.txt", "kept");
        assert!(Folder::prepare(Some(&target), &screen).is_err());
        // One that names files elsewhere, and one whose file was changed.
        std::fs::write(scratch.path().join("precious"), "kept").unwrap();
        for (path, own) in [("../precious", "a"), ("..", "c"), ("thesis.txt", "d")] {
            put("manifest.json", &manifest(path));
            let folder = Folder::prepare(Some(&target), &screen).unwrap();
            folder.write(|| files(&[own]), &screen).unwrap();
        }
        assert_eq!(names(scratch.path()), ["precious", "run"]);
        // A file of the same name that no report lists.
        put("b", "kept");
        let folder = Folder::prepare(Some(&target), &screen).unwrap();
        assert!(folder.write(|| files(&["b", "d"]), &screen).is_err());
        drop(folder);
        let left = ["a", "b", "c", "d", "manifest.json", "thesis.txt"];
        assert_eq!(names(&target), left);
    }

    #[test]
    fn a_run_that_ends_without_a_report_leaves_nothing_behind() {
        let scratch = tempfile::tempdir().unwrap();
        let screen = Screen::new(Some(false));
        let target = scratch.path().join("run");
        drop(Folder::prepare(Some(&target), &screen).unwrap());
        assert!(names(scratch.path()).is_empty());
        std::fs::create_dir(&target).unwrap();
        drop(Folder::prepare(Some(&target), &screen).unwrap());
        assert!(names(&target).is_empty());
    }
}
