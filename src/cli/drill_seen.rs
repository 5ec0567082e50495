//! `drill seen.jsonl`: what stand-ins logged of whoever called them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use flate2::read::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use super::screen::Screen;
use super::{Exit, inputs, provenance};
use crate::catalogue::{Catalogue, Route};
use crate::report::{self, FileDigest};
use crate::source::{Diagnostic, Location, describe_list};
use crate::traffic::seen::{self, Classes, Reached, Residency, Ruling, Tie};
use crate::units::Duration;

/// Largest file of data classes, in bytes.
const CLASSES_BYTES_MAX: u64 = 256 << 20;
/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// What can be said about a log of stand-ins, beside the log.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "For a log of stand-ins (.jsonl, .jsonl.gz)")]
pub(super) struct Options {
    /// Whose data requests hold (CSV: request, tenant, data_class), where headers do not say.
    #[arg(long, value_name = "FILE", requires = "routes")]
    classes: Option<PathBuf>,
    /// What ties attempts to a request [default: the surest thing that each line has].
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(Tie::ALL.map(Tie::name)))]
    tie: Option<String>,
    /// Longest silence within one request, in seconds; what comes later is another request.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    within_s: u32,
}

impl Options {
    /// Whether a file of data classes is named.
    pub(super) const fn has_classes(&self) -> bool {
        self.classes.is_some()
    }

    /// Whether it is said what ties attempts together.
    pub(super) const fn has_tie(&self) -> bool {
        self.tie.is_some()
    }
}

/// Whether this command is about that file.
pub(super) fn is_log(path: &Path) -> bool {
    let name = path.to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.ends_with(".jsonl") || name.ends_with(".ndjson")
}

/// Reads the log and prints what it comes to. `routes` says where which data may go.
pub(super) fn run(
    log: &Path,
    routes: Option<&Path>,
    options: &Options,
    format: &str,
    report: Option<&Path>,
    command_line: &[OsString],
    screen: &Screen,
) -> Exit {
    let mut reader = inputs::Reader::default();
    let catalogue = match routes {
        None => None,
        Some(path) => reader.catalogue(path).ok(),
    };
    let classes = match &options.classes {
        None => Some(Classes::default()),
        Some(path) => classes(path, &mut reader),
    };
    let (Some(classes), false) = (classes, reader.found.has_errors()) else {
        screen.complain(&reader.found);
        return Exit::BadInput;
    };
    let rules = catalogue.as_ref().map(Rules);
    let asked = seen::Options {
        within: Duration::from_secs(u64::from(options.within_s)),
        tie: (options.tie.as_deref())
            .and_then(|name| Tie::ALL.into_iter().find(|tie| tie.name() == name)),
        classes,
        residency: rules.as_ref().map(|rules| rules as &dyn Residency),
    };
    let read = read(log, &asked, &mut reader);
    screen.complain(&reader.found);
    let (Some(seen), false) = (read, reader.found.has_errors()) else {
        return Exit::BadInput;
    };
    let folder = match provenance::Folder::prepare(report, screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    let sheet = report::seen(&inputs::recorded(log), &seen);
    let manifest = provenance::manifest(&reader.digests, inputs::SEED, command_line);
    provenance::deliver(&sheet, format, &manifest, &folder, Vec::new(), screen)
}

fn classes(path: &Path, reader: &mut inputs::Reader) -> Option<Classes> {
    let bytes = reader.bytes(path, CLASSES_BYTES_MAX)?;
    let shown = inputs::shown(path);
    match String::from_utf8(bytes) {
        Ok(text) => Classes::parse(
            text.trim_start_matches('\u{feff}'),
            &shown,
            &mut reader.found,
        ),
        Err(_) => {
            let error = Diagnostic::error(format!("`{shown}` is not UTF-8 text"));
            reader.found.push(error.help("save the file as UTF-8"));
            None
        }
    }
}

/// Reads a log of any size once, and notes its digest.
pub(super) fn read(
    path: &Path,
    options: &seen::Options<'_>,
    reader: &mut inputs::Reader,
) -> Option<seen::Seen> {
    let shown = inputs::shown(path);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            reader.found.push(inputs::unreadable(path, &error));
            return None;
        }
    };
    let mut hashed = Hashed {
        inner: file,
        digest: Sha256::new(),
    };
    let is_gzip = path.extension().is_some_and(|extension| extension == "gz");
    let found = &mut reader.found;
    let read = if is_gzip {
        let plain = MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, &mut hashed));
        let mut log = BufReader::with_capacity(BUFFER_BYTES, plain);
        seen::read(&mut log, &shown, options, found)
    } else {
        let mut log = BufReader::with_capacity(BUFFER_BYTES, &mut hashed);
        seen::read(&mut log, &shown, options, found)
    };
    match read {
        Ok(seen) => {
            let digest: [u8; 32] = hashed.digest.finalize().into();
            reader.digests.push(FileDigest {
                path: inputs::recorded(path),
                sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            });
            Some(seen)
        }
        Err(error) if is_gzip => {
            let what = format!("this is not a sound gzip file: {error}");
            let place = Location::File { path: shown };
            reader.found.push(Diagnostic::error(what).at(place));
            None
        }
        Err(error) => {
            reader.found.push(inputs::unreadable(path, &error));
            None
        }
    }
}

/// A file whose bytes are digested as they are read.
struct Hashed {
    inner: File,
    digest: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(into)?;
        self.digest.update(&into[..n]);
        Ok(n)
    }
}

/// What the catalogue says about where data may go.
pub(super) struct Rules<'a>(pub(super) &'a Catalogue);

impl Residency for Rules<'_> {
    fn judge(&self, reached: &Reached<'_>) -> Ruling {
        let catalogue = self.0;
        let Some(need) = catalogue.requirement(reached.tenant, reached.data_class) else {
            let class = reached.data_class.unwrap_or_default();
            return Ruling::Unknown(format!("there is no rule for data class `{class}`"));
        };
        let named = reached.route;
        let routes: Vec<&Route> = (catalogue.routes.iter())
            .filter(|route| match named {
                Some(name) => route.name == name,
                None => Some(route.model.as_str()) == reached.model,
            })
            .collect();
        let may = |route: &&Route| {
            route.residency.is_subset_of(need.residency) && (route.local || !need.local_only)
        };
        let allowed = routes.iter().filter(|route| may(route)).count();
        match routes.first() {
            None => Ruling::Unknown(match (named, reached.model) {
                (Some(name), _) => format!("the catalogue has no route `{name}`"),
                (None, Some(model)) => format!("no route of the catalogue has model `{model}`"),
                (None, None) => "nobody read which model was asked".to_owned(),
            }),
            Some(_) if allowed == routes.len() => Ruling::Allowed,
            Some(route) if allowed == 0 => Ruling::Refused {
                route: describe_names(&routes),
                why: self.why(route, need.residency, need.local_only),
            },
            Some(route) => Ruling::Unknown(format!(
                "model `{}` is that of several routes, not all of which may be used: let the gateway send x-routelab-route",
                route.model
            )),
        }
    }
}

fn describe_names(routes: &[&Route]) -> String {
    let names: Vec<&str> = routes.iter().map(|route| route.name.as_str()).collect();
    names.join(" or ")
}

impl Rules<'_> {
    /// Where the route's data may end up, against where it may be.
    fn why(&self, route: &Route, may: crate::router::Regions, local_only: bool) -> String {
        let names = |regions: crate::router::Regions| {
            let all = self.0.regions.iter().enumerate();
            describe_list(
                all.filter(move |(bit, _)| regions.0 >> bit & 1 == 1)
                    .map(|(_, name)| name.as_str()),
            )
        };
        if local_only && !route.local {
            return "must stay on one's own machines".to_owned();
        }
        format!("{} is not within {}", names(route.residency), names(may))
    }
}
