//! `init`: a folder in which the next command works at once.
//!
//! What it writes are ordinary files to be edited: routes with prices, policies, and a workload. Nothing is
//! overwritten unless the user says so, and either all files of a template are written or none.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::screen::Screen;
use super::{Exit, inputs, schema};
use crate::source::{Diagnostic, Diagnostics};

/// Files that stand in the way are listed up to this many.
const LISTED_MAX: usize = 20;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The folder; it is made if there is none.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// What the folder is for.
    #[arg(long, value_enum, default_value_t = Template::Quickstart)]
    template: Template,
    /// Overwrite files that are there already.
    #[arg(long)]
    force: bool,
}

/// What a folder is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Template {
    /// Three routes, three policies and a synthetic workload to compare them on.
    Quickstart,
    /// A recorded data set in place of the synthetic workload: where your own outcomes go.
    Recorded,
    /// A day of traffic with an outage, and policies with and without a fallback.
    Drill,
    /// A current and a proposed policy, and a workflow for GitHub Actions that holds them together.
    Ci,
}

/// A file of a template.
#[derive(Clone, Debug)]
struct File {
    path: Cow<'static, str>,
    text: Cow<'static, str>,
    /// What is in it, in a few words.
    about: &'static str,
}

const fn file(path: &'static str, text: &'static str, about: &'static str) -> File {
    File {
        path: Cow::Borrowed(path),
        text: Cow::Borrowed(text),
        about,
    }
}

const ROUTES: File = file(
    "policies/routes.toml",
    include_str!("../../policies/routes.toml"),
    "three routes with prices and where their data may go",
);
const STATIC: File = file(
    "policies/static.toml",
    include_str!("../../policies/static.toml"),
    "rules by task",
);
const CASCADE: File = file(
    "policies/cascade.toml",
    include_str!("../../policies/cascade.toml"),
    "cheap first, a verifier decides who is asked next",
);
const CAPABILITY_COST: File = file(
    "policies/capability-cost.toml",
    include_str!("../../policies/capability-cost.toml"),
    "the cheapest route predicted to be good enough",
);
const SUPPORT: File = file(
    "workloads/support.toml",
    include_str!("../../workloads/support.toml"),
    "invented traffic of five tasks",
);

const QUICKSTART: &[File] = &[ROUTES, STATIC, CASCADE, CAPABILITY_COST, SUPPORT];

const RECORDED: &[File] = &[
    ROUTES,
    STATIC,
    CASCADE,
    file(
        "workloads/requests.toml",
        include_str!("init/recorded/requests.toml"),
        "which column of the data is what",
    ),
    file(
        "data/invented-requests.csv",
        include_str!("init/recorded/requests.csv"),
        "sixty invented requests, graded on every route",
    ),
];

const DRILL: &[File] = &[
    ROUTES,
    file(
        "policies/alone.toml",
        include_str!("../../policies/drill/alone.toml"),
        "one route and nobody behind it",
    ),
    file(
        "policies/fallback.toml",
        include_str!("../../policies/drill/fallback.toml"),
        "the same route with two fallbacks",
    ),
    file(
        "policies/cascade.toml",
        include_str!("../../policies/drill/cascade.toml"),
        "cheap first, which falls back as well",
    ),
    file(
        "workloads/outage-drill.toml",
        include_str!("../../workloads/outage-drill.toml"),
        "a day of traffic on which two providers fail",
    ),
];

const CI: &[File] = &[
    ROUTES,
    file(
        "policies/current.toml",
        include_str!("init/ci/current.toml"),
        "what runs today",
    ),
    file(
        "policies/proposed.toml",
        include_str!("init/ci/proposed.toml"),
        "what is proposed",
    ),
    SUPPORT,
    file(
        ".github/workflows/routelab.yml",
        include_str!("init/ci/routelab.yml"),
        "a workflow that checks and gates every pull request",
    ),
];

impl Template {
    const fn files(self) -> &'static [File] {
        match self {
            Self::Quickstart => QUICKSTART,
            Self::Recorded => RECORDED,
            Self::Drill => DRILL,
            Self::Ci => CI,
        }
    }

    /// The command that works in the folder at once.
    const fn next(self) -> &'static str {
        match self {
            Self::Quickstart => "routelab compare workloads/support.toml",
            Self::Recorded => "routelab compare workloads/requests.toml",
            Self::Drill => "routelab drill workloads/outage-drill.toml",
            Self::Ci => {
                "routelab gate workloads/support.toml --baseline current --candidate proposed"
            }
        }
    }
}

/// Where the schemas go.
const SCHEMAS: &str = ".routelab/schema/";
const SCHEMAS_ABOUT: &str = "what may be in each file, for editors";

/// What editors that use Taplo (such as VS Code with Even Better TOML) read: where the schemas are, and the
/// schemas of this very version.
fn for_editors() -> Vec<File> {
    let rules = file(
        ".taplo.toml",
        include_str!("init/taplo.toml"),
        "where editors find the schemas",
    );
    let mut files = vec![rules];
    for (index, (name, text)) in schema::inputs().enumerate() {
        files.push(File {
            path: Cow::Owned(format!("{SCHEMAS}{name}.json")),
            text: Cow::Owned(text),
            about: if index == 0 { SCHEMAS_ABOUT } else { "" },
        });
    }
    files
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Exit {
    let folder = &arguments.folder;
    let mut files = arguments.template.files().to_vec();
    files.extend(for_editors());
    let in_the_way = in_the_way(folder, &files, arguments.force);
    if !in_the_way.is_empty() {
        screen.complain(&Diagnostics(vec![refusal(&in_the_way, arguments.force)]));
        return Exit::BadInput;
    }
    let replaced: Vec<bool> = files
        .iter()
        .map(|file| folder.join(&*file.path).exists())
        .collect();
    if let Err((path, error)) = write(folder, &files) {
        return screen.cannot_write(&path, &error);
    }
    // The schemas are one thing to whoever reads this.
    let in_a_line = |file: &File| !file.path.starts_with(SCHEMAS) || file.about == SCHEMAS_ABOUT;
    let width = files.iter().map(|file| file.path.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (file, replaced) in files
        .iter()
        .zip(replaced)
        .filter(|(file, _)| in_a_line(file))
    {
        let verb = if replaced { "replaced" } else { "created " };
        let path = if file.path.starts_with(SCHEMAS) {
            SCHEMAS
        } else {
            &file.path
        };
        text.push_str(&format!("{verb}  {path:width$}   {}\n", file.about));
    }
    text.push_str("next: ");
    if folder.as_path() != Path::new(".") {
        text.push_str(&format!("cd {} && ", quoted(&inputs::shown(folder))));
    }
    text.push_str(&format!("{}\n", arguments.template.next()));
    screen.print(&text)
}

/// What stands where a file or one of its folders should be. `force` excuses plain files.
fn in_the_way(folder: &Path, files: &[File], force: bool) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut add = |path: &Path| {
        if !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    };
    for file in files {
        let path = folder.join(&*file.path);
        // The nearest thing above it that exists must be a folder.
        let above = path.ancestors().skip(1).find(|one| one.exists());
        if let Some(above) = above.filter(|above| !above.is_dir()) {
            add(above);
            continue;
        }
        if let Ok(there) = path.symlink_metadata()
            && (there.is_dir() || !force)
        {
            add(&path);
        }
    }
    found
}

/// The complaint about what stands in the way.
fn refusal(in_the_way: &[PathBuf], force: bool) -> Diagnostic {
    let mut list: Vec<String> = in_the_way
        .iter()
        .take(LISTED_MAX)
        .map(|path| format!("`{}`", inputs::shown(path)))
        .collect();
    if in_the_way.len() > LISTED_MAX {
        list.push(format!("… ({} in all)", in_the_way.len()));
    }
    let (verb, them) = match in_the_way {
        [_] => ("is", "it"),
        _ => ("are", "them"),
    };
    let blocked = in_the_way.iter().any(|path| path.is_dir()) || force;
    Diagnostic::error(format!(
        "{} {verb} in the way; nothing was written",
        list.join(", ")
    ))
    .help(if blocked {
        format!("name another folder, or move {them} away")
    } else {
        format!("name another folder, or add --force to overwrite {them}")
    })
}

/// Writes all files or, if any cannot be written, none: what was made until then goes again.
///
/// # Errors
///
/// The path that could not be written, and why.
fn write(folder: &Path, files: &[File]) -> Result<(), (PathBuf, io::Error)> {
    let mut done = Undo::default();
    let written = write_noting(folder, files, &mut done);
    match &written {
        Ok(()) => done.keep(),
        Err(_) => done.back(),
    }
    written
}

fn write_noting(
    folder: &Path,
    files: &[File],
    done: &mut Undo,
) -> Result<(), (PathBuf, io::Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    // First everything under other names: what can go wrong mostly goes wrong here.
    let mut ready = Vec::with_capacity(files.len());
    for file in files {
        let path = folder.join(&*file.path);
        if let Some(parent) = path.parent() {
            done.make_folders(parent).map_err(at(parent))?;
        }
        let part = beside(&path, "part");
        // Noted first: a write that fails halfway leaves a file as well.
        done.0.push(Done::File(part.clone()));
        std::fs::write(&part, file.text.as_bytes()).map_err(at(&path))?;
        ready.push((part, path));
    }
    for (part, path) in ready {
        if path.symlink_metadata().is_ok() {
            let old = beside(&path, "old");
            std::fs::rename(&path, &old).map_err(at(&path))?;
            done.0.push(Done::Moved(old, path.clone()));
        }
        std::fs::rename(&part, &path).map_err(at(&path))?;
        done.0.push(Done::File(path));
    }
    Ok(())
}

/// A hidden name in the same folder, so that renaming stays on one file system.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.routelab-{ending}"))
}

/// Something that was done.
#[derive(Debug)]
enum Done {
    /// A folder was made.
    Folder(PathBuf),
    /// A file was made.
    File(PathBuf),
    /// A file that was there before was moved away: where it is, and where it belongs.
    Moved(PathBuf, PathBuf),
}

/// What was done, in order, so that it can be taken back.
#[derive(Debug, Default)]
struct Undo(Vec<Done>);

impl Undo {
    /// Makes a folder with all above it, and remembers those that were not there.
    fn make_folders(&mut self, folder: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = folder
            .ancestors()
            .take_while(|one| !one.as_os_str().is_empty() && !one.exists())
            .collect();
        for one in missing.into_iter().rev() {
            std::fs::create_dir(one)?;
            self.0.push(Done::Folder(one.to_owned()));
        }
        Ok(())
    }

    /// It went well: the files that were replaced are not needed any more.
    fn keep(self) {
        for done in self.0 {
            if let Done::Moved(old, _) = done {
                let _ = std::fs::remove_file(old);
            }
        }
    }

    /// It did not: everything as it was. What cannot be undone is left; the error has been said.
    fn back(self) {
        for done in self.0.into_iter().rev() {
            let _ = match done {
                Done::Folder(path) => std::fs::remove_dir(path),
                Done::File(path) => std::fs::remove_file(path),
                Done::Moved(old, path) => std::fs::rename(old, path),
            };
        }
    }
}

/// A path as a shell reads it.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@%:,".contains(c);
    if !path.is_empty() && !path.starts_with('-') && path.chars().all(plain) {
        return path.to_owned();
    }
    // A name that begins with a dash is no flag behind `./`.
    let dot = if path.starts_with('-') { "./" } else { "" };
    format!("'{dot}{}'", path.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_that_fails_halfway_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::write(path.join("a.toml"), "mine").unwrap();
        let sub = file("sub/deep/c.toml", "new", "");
        let a = file("a.toml", "new", "");
        for (files, wrong) in [
            // Below a file nothing can be written.
            (
                [sub.clone(), a.clone(), file("a.toml/x", "new", "")],
                "a.toml/x",
            ),
            // The second file of a name finds what it wants to put in place gone.
            ([a.clone(), sub.clone(), sub.clone()], "sub/deep/c.toml"),
        ] {
            let (at, _) = write(path, &files).unwrap_err();
            assert_eq!(at, path.join(wrong));
            assert_eq!(names(path), ["a.toml"], "{wrong}");
            let text = std::fs::read_to_string(path.join("a.toml")).unwrap();
            assert_eq!(text, "mine", "{wrong}");
        }
        write(path, &[a, sub]).unwrap();
        assert_eq!(names(path), ["a.toml", "sub"]);
        let text = std::fs::read_to_string(path.join("a.toml")).unwrap();
        assert_eq!(text, "new");
    }

    #[test]
    fn the_folder_is_named_as_a_shell_reads_it() {
        for (path, shell) in [
            ("demo", "demo"),
            ("a/b-1", "a/b-1"),
            ("my routes", "'my routes'"),
            ("it's", "'it'\\''s'"),
            ("-x", "'./-x'"),
            ("$(rm)", "'$(rm)'"),
        ] {
            assert_eq!(quoted(path), shell);
        }
    }
}
