//! Reads the files that a command names, and remembers their digests.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::timeline::has_timeline;
use crate::catalogue::{self, Catalogue};
use crate::policy::{self, PolicyFile};
use crate::report::FileDigest;
use crate::source::{
    CONFIG_BYTES_MAX, Diagnostic, Diagnostics, Document, Location, SourceFile, describe_list,
    nearest,
};
use crate::timeline::Timeline;
use crate::verify::Commands;
use crate::workload::{self, Workload};

/// Largest data file that is read, in bytes.
pub(super) const DATA_BYTES_MAX: u64 = 8 << 30;
/// Most policy files of one experiment.
const POLICIES_MAX: usize = 256;

/// Where the catalogue is looked for when nobody says.
pub(super) const ROUTES: &str = "policies/routes.toml";
/// Where policies are looked for when nobody says.
pub(super) const POLICIES: &str = "policies";

/// The seed when nobody gives one.
pub(super) const SEED: u64 = 2026;

/// Whether policies may bring programs of their own.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Permission {
    /// Let verifiers of the policies run programs (`verifier.command`): only for files you trust.
    #[arg(long)]
    allow_commands: bool,
}

impl Permission {
    pub(super) fn commands(self) -> Commands {
        if self.allow_commands {
            Commands::Allowed
        } else {
            Commands::Refused
        }
    }
}

/// What `compare` and `explain` have in common.
#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// A workload (TOML), or recorded outcomes of every route (CSV, JSONL or Parquet, also .gz).
    pub(super) data: PathBuf,
    /// A policy file, or a folder of them [default: policies/].
    #[arg(short, long, value_name = "FILE|DIR")]
    pub(super) policy: Vec<PathBuf>,
    /// The route catalogue [default: policies/routes.toml].
    #[arg(long, value_name = "FILE")]
    pub(super) routes: Option<PathBuf>,
    /// Which columns of a data file mean what (TOML), when its names are not the usual ones.
    #[arg(long, value_name = "FILE")]
    pub(super) columns: Option<PathBuf>,
    /// Seed of every random draw.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) permission: Permission,
}

/// Everything an experiment reads.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) catalogue: Catalogue,
    pub(super) workload: Workload,
    pub(super) policies: Vec<PolicyFile>,
    /// The workload file's `[timeline]`, if it has one.
    pub(super) timeline: Option<Timeline>,
    pub(super) digests: Vec<FileDigest>,
    /// What the user should know before reading the result.
    pub(super) remarks: Vec<String>,
}

/// Reads files and keeps their digests.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) digests: Vec<FileDigest>,
    pub(super) found: Diagnostics,
    /// Whether the policies' verifiers may run programs.
    pub(super) commands: Commands,
    /// Whether the workload file that was read has a `[timeline]`, right or wrong.
    pub(super) has_timeline: bool,
}

impl Reader {
    /// A text file of at most [`CONFIG_BYTES_MAX`].
    pub(super) fn text(&mut self, path: &Path) -> Option<Arc<SourceFile>> {
        let shown = shown(path);
        let bytes = self.bytes(path, CONFIG_BYTES_MAX)?;
        match String::from_utf8(bytes) {
            Ok(text) => {
                // A byte-order mark is an editor's habit, not a part of the text.
                let text = text
                    .strip_prefix('\u{feff}')
                    .map(str::to_owned)
                    .unwrap_or(text);
                Some(SourceFile::new(shown, text))
            }
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                let start = bytes[..at].iter().rposition(|byte| *byte == b'\n');
                let line = &bytes[start.map_or(0, |feed| feed + 1)..];
                let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let before = at - start.map_or(0, |feed| feed + 1);
                self.found.push(
                    Diagnostic::error(format!("`{shown}` is not UTF-8 text"))
                        .at(Location::Line {
                            path: shown,
                            line: bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1,
                            // One replacement character stands for the first bad bytes.
                            range: before..before + '\u{fffd}'.len_utf8(),
                            text: String::from_utf8_lossy(line).into_owned(),
                        })
                        .help("save the file as UTF-8"),
                );
                None
            }
        }
    }

    /// The bytes of a file of at most `most` bytes.
    pub(super) fn bytes(&mut self, path: &Path, most: u64) -> Option<Vec<u8>> {
        let shown = shown(path);
        let read = || -> std::io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) if bytes.len() as u64 > most => {
                let large = Diagnostic::error(format!("`{shown}` is larger than {most} bytes"));
                self.found
                    .push(large.help("name a smaller file, or split it"));
                None
            }
            Ok(bytes) => {
                let digest = FileDigest::of(&recorded(path), &bytes);
                if !self.digests.contains(&digest) {
                    self.digests.push(digest);
                }
                Some(bytes)
            }
            Err(error) => {
                self.found.push(unreadable(path, &error));
                None
            }
        }
    }

    /// A catalogue. If anything is wrong with it, the error holds what is still good for checking the
    /// names in policies.
    pub(super) fn catalogue(&mut self, path: &Path) -> Result<Catalogue, Option<Box<Catalogue>>> {
        let file = self.text(path).ok_or(None)?;
        catalogue::parse_partly(&file, &mut self.found)
    }

    /// The policies of files and folders, each once, in the order given (a folder's by name). Without
    /// a catalogue there is nothing to hold their names against, so only their syntax is checked.
    pub(super) fn policies(
        &mut self,
        paths: &[PathBuf],
        catalogue: Option<&Catalogue>,
    ) -> Vec<PolicyFile> {
        let mut files: Vec<PathBuf> = Vec::new();
        for path in paths {
            if path.is_dir() {
                let found = policy_files(path);
                if found.is_empty() {
                    self.found.push(
                        Diagnostic::error(format!(
                            "there is no policy in the folder `{}`",
                            shown(path)
                        ))
                        .help("a policy is a TOML file whose name is the policy's name"),
                    );
                }
                files.extend(found);
            } else {
                files.push(path.clone());
            }
        }
        let mut seen: Vec<PathBuf> = Vec::new();
        let mut policies: Vec<(PolicyFile, PathBuf)> = Vec::new();
        for path in files {
            // `a.toml` and `./a.toml` are one file.
            let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            if seen.contains(&real) {
                continue;
            }
            seen.push(real);
            if seen.len() > POLICIES_MAX {
                let many = format!("at most {POLICIES_MAX} policies can be compared at once");
                self.found
                    .push(Diagnostic::error(many).help("name fewer with -p"));
                break;
            }
            let Some(file) = self.text(&path) else {
                continue;
            };
            let name = policy_name(&path);
            let Some(catalogue) = catalogue else {
                Document::parse(&file).context().finish(&mut self.found);
                continue;
            };
            let Some(policy) =
                policy::parse_allowing(&file, &name, catalogue, self.commands, &mut self.found)
            else {
                continue;
            };
            if let Some((_, other)) = policies.iter().find(|(known, _)| known.name == policy.name) {
                self.found.push(
                    Diagnostic::error(format!("two policies are called `{}`", policy.name)).help(
                        format!(
                            "`{}` and `{}`: a policy is named by its file",
                            shown(other),
                            shown(&path)
                        ),
                    ),
                );
                continue;
            }
            policies.push((policy, path));
        }
        policies.into_iter().map(|(policy, _)| policy).collect()
    }

    /// Where `name` stands among the `known` names of a workload's routes or tasks; a complaint if nowhere.
    pub(super) fn named(
        &mut self,
        workload: &Workload,
        what: &str,
        name: &str,
        known: &[String],
    ) -> Option<usize> {
        let at = known.iter().position(|one| one == name);
        if at.is_none() {
            let names = || known.iter().map(String::as_str);
            let help = match nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it knows {}", describe_list(names())),
            };
            let error = Diagnostic::error(format!(
                "workload `{}` has no {what} `{name}`",
                workload.name
            ));
            self.found.push(error.help(help));
        }
        at
    }

    /// A workload file, or a data file given directly.
    pub(super) fn workload(&mut self, path: &Path, columns: Option<&Path>) -> Option<Workload> {
        self.has_timeline = false;
        if is_workload_file(path) {
            if columns.is_some() {
                self.found.push(
                    Diagnostic::error("--columns is for a data file given directly; a workload file has its own `[recorded.columns]`")
                        .help("leave --columns out"),
                );
            }
            let file = self.text(path)?;
            return self.workload_of(path, &file);
        }
        let columns = match columns {
            Some(columns) => {
                let file = self.text(columns)?;
                if file.text.trim().is_empty() {
                    let nothing = format!("`{}` is empty: it names no column", shown(columns));
                    self.found.push(Diagnostic::error(nothing).help(
                        "write `grade = \"correct_{route}\"` into it, or leave --columns out: the usual names are found without it",
                    ));
                    return None;
                }
                Some(file)
            }
            None => None,
        };
        let spec = workload::bare(&shown(path), columns.as_ref(), &mut self.found)?;
        let data = (path.to_owned(), Location::File { path: shown(path) });
        self.built(spec, Some(data))
    }

    /// The workload of a file that stands at `path` and has this text.
    pub(super) fn workload_of(&mut self, path: &Path, file: &Arc<SourceFile>) -> Option<Workload> {
        self.has_timeline = has_timeline(file);
        let spec = workload::parse(file, &stem(path), &mut self.found)?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let data = spec
            .data_path()
            .map(|data| (folder.join(&data.value), data.location.clone()));
        self.built(spec, data)
    }

    /// What a specification describes, with its data read from the file that is named at a place.
    fn built(
        &mut self,
        spec: workload::WorkloadSpec,
        data: Option<(PathBuf, Location)>,
    ) -> Option<Workload> {
        let written = spec.data_path().map(|data| data.value.clone());
        let read = data.as_ref().map(|(data, _)| shown(data));
        let bytes = match &data {
            None => None,
            Some((data, location)) => Some(self.named_bytes(data, location)?),
        };
        let before = self.found.0.len();
        let built = spec.build(bytes.as_deref(), &mut self.found);
        if let (Some(written), Some(read)) = (written, read) {
            self.rename(before, &written, &read);
        }
        built
    }

    /// The content of a data file that another file names at `location`, where complaints about it then point.
    pub(super) fn named_bytes(&mut self, path: &Path, location: &Location) -> Option<Vec<u8>> {
        let before = self.found.0.len();
        let bytes = self.bytes(path, DATA_BYTES_MAX);
        if bytes.is_none() {
            for error in &mut self.found.0[before..] {
                error.location.get_or_insert(location.clone());
            }
        }
        bytes
    }

    /// In what was found from `before` on, calls the file that is `written` somewhere as it was `read`: a file
    /// names its data from where it stands itself, and the user stands elsewhere.
    pub(super) fn rename(&mut self, before: usize, written: &str, read: &str) {
        for one in &mut self.found.0[before..] {
            match &mut one.location {
                Some(Location::Line { path, .. } | Location::File { path }) if *path == written => {
                    read.clone_into(path);
                }
                _ => {}
            }
        }
    }
}

/// Reads everything an experiment needs.
///
/// # Errors
///
/// Everything that is wrong with any of the files.
pub(super) fn read(arguments: &Files) -> Result<(Inputs, Diagnostics), Diagnostics> {
    let mut reader = Reader {
        commands: arguments.permission.commands(),
        ..Reader::default()
    };
    let workload = reader.workload(&arguments.data, arguments.columns.as_deref());
    let routes = arguments
        .routes
        .clone()
        .unwrap_or_else(|| PathBuf::from(ROUTES));
    let nobody_asked = arguments.routes.is_none() && arguments.policy.is_empty();
    let mut remarks = Vec::new();
    // Data about routes nobody described can still be looked at: its controls need no catalogue.
    let foreign = |catalogue: &Option<Catalogue>| match (catalogue, &workload) {
        (Some(catalogue), Some(workload)) => {
            workload.is_recorded()
                && !workload
                    .routes
                    .iter()
                    .any(|name| catalogue.find(name).is_some())
        }
        (None, Some(workload)) => workload.is_recorded() && !Path::new(ROUTES).exists(),
        _ => false,
    };
    let mut names_only = None;
    let catalogue = if nobody_asked && !routes.exists() {
        None
    } else {
        reader
            .catalogue(&routes)
            .map_err(|partly| names_only = partly)
            .ok()
    };
    let (catalogue, policies) = if nobody_asked && foreign(&catalogue) {
        // The digest of a file that has no say in the result does not belong in the manifest.
        reader
            .digests
            .retain(|digest| digest.path != recorded(&routes));
        let names = workload
            .as_ref()
            .map(|workload| workload.routes.clone())
            .unwrap_or_default();
        remarks.push(format!(
            "no route of `{}` is in a catalogue, so only controls are run; describe the routes in a file for --routes and name policies with -p",
            shown(&arguments.data)
        ));
        (Some(Catalogue::of_unknown_routes(&names)), Vec::new())
    } else if nobody_asked && workload.is_none() && !routes.exists() {
        // Once the data can be read, it may well need no catalogue: one thing at a time.
        (None, Vec::new())
    } else {
        if catalogue.is_none() && nobody_asked && !routes.exists() {
            reader.found.push(
                Diagnostic::error(format!("there is no route catalogue at `{ROUTES}`"))
                    .help("name one with --routes FILE, or run in a folder that has it"),
            );
        }
        let paths = if arguments.policy.is_empty() {
            vec![PathBuf::from(POLICIES)]
        } else {
            arguments.policy.clone()
        };
        let policies = reader.policies(&paths, catalogue.as_ref().or(names_only.as_deref()));
        (catalogue, policies)
    };
    // Its times name routes and tenants, so that it is read when these are known.
    let known = catalogue.as_ref().or(names_only.as_deref());
    let timeline = match (known, &workload) {
        (Some(catalogue), Some(workload)) => {
            reader.timeline(&arguments.data, catalogue, &workload.tenants)
        }
        _ => None,
    };
    match (catalogue, workload) {
        (Some(catalogue), Some(workload)) if !reader.found.has_errors() => Ok((
            Inputs {
                catalogue,
                workload,
                policies,
                timeline,
                digests: reader.digests,
                remarks,
            },
            reader.found,
        )),
        _ => Err(reader.found),
    }
}

/// What the policy in this file is called.
pub(super) fn policy_name(path: &Path) -> String {
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The TOML files of a folder that hold policies, by name.
pub(super) fn policy_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| {
            entries
                .filter_map(Result::ok)
                .map(|entry| entry.path())
                .collect()
        })
        .unwrap_or_default();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
            // What begins with a dot is for other programs, such as `.taplo.toml`.
            && path.file_name().is_some_and(|name| {
                name != "routes.toml" && !name.to_string_lossy().starts_with('.')
            })
            && path.is_file()
    });
    files.sort();
    files
}

/// Why a file cannot be read, and what to do: perhaps another one was meant.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    if path == Path::new("-") {
        return Diagnostic::error("cannot read `-`: standard input is not read, only files are")
            .help("write it to a file and name that one; its digest is part of every report");
    }
    let wrong = Diagnostic::error(format!("cannot read `{}`: {}", shown(path), plain(error)));
    match error.kind() {
        std::io::ErrorKind::NotFound => wrong.help(match near_file(path) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                "name a file that is there; `routelab init` writes some to begin with".to_owned()
            }
        }),
        std::io::ErrorKind::IsADirectory => wrong.help("name a file in it"),
        std::io::ErrorKind::PermissionDenied => {
            wrong.help("name a file that you may read, or change its permissions")
        }
        _ => wrong.help("name another file"),
    }
}

/// A path as messages and manifests show it: with `/`, and relative if it lies below the current folder.
pub(super) fn shown(path: &Path) -> String {
    let relative = std::env::current_dir()
        .ok()
        .and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    let text = relative
        .as_deref()
        .unwrap_or(path)
        .to_string_lossy()
        .replace('\\', "/");
    text.strip_prefix("./").map(str::to_owned).unwrap_or(text)
}

/// A path as manifests show it: with `/`, and never absolute, for the same run on another machine
/// must write the same bytes.
pub(super) fn recorded(path: &Path) -> String {
    let shown = shown(path);
    if !Path::new(&shown).is_absolute() {
        return shown;
    }
    let here = std::env::current_dir().unwrap_or_default();
    let shared = here
        .components()
        .zip(path.components())
        .take_while(|(a, b)| a == b)
        .count();
    let mut relative = PathBuf::new();
    for _ in here.components().skip(shared) {
        relative.push("..");
    }
    relative.extend(path.components().skip(shared));
    if relative.is_absolute() {
        // Another drive: nothing leads there from here.
        relative = path.file_name().map(PathBuf::from).unwrap_or_default();
    }
    relative.to_string_lossy().replace('\\', "/")
}

/// Whether the path is of a workload file rather than of data.
pub(super) fn is_workload_file(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "toml")
}

/// A file's name without its extensions.
fn stem(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// An error of the system in plain words.
pub(super) fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    }
}

/// A file beside the missing one whose name is near.
fn near_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut names: Vec<String> = std::fs::read_dir(parent)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names.retain(|other| other != name);
    let near = crate::source::nearest(name, names.iter().map(String::as_str))?;
    Some(shown(&parent.join(near)))
}
