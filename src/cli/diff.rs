//! `diff`: two reports side by side.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use serde_json::Value;

use super::screen::Screen;
use super::{Exit, inputs, provenance};
use crate::report::{self, SHEET_FORMATS};
use crate::source::{Diagnostic, Diagnostics, Location};

/// Largest document that is read, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;
/// What a report folder keeps its numbers in.
const FINDINGS: &str = "findings.json";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The report of before: its folder, or its findings.json.
    before: PathBuf,
    /// The report of after.
    after: PathBuf,
    /// How the result is printed.
    #[arg(long, value_name = "FORMAT", default_value = "table", value_parser = PossibleValuesParser::new(SHEET_FORMATS))]
    format: String,
    /// Also write the page, all formats and a manifest to this folder.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, command_line: &[OsString], screen: &Screen) -> Exit {
    let mut reader = inputs::Reader::default();
    let documents = [&arguments.before, &arguments.after].map(|path| document(path, &mut reader));
    let [Some(before), Some(after)] = &documents else {
        screen.complain(&reader.found);
        return Exit::BadInput;
    };
    let names = [&arguments.before, &arguments.after].map(|path| inputs::recorded(path));
    let sheet = match report::diff([&names[0], &names[1]], [before, after]) {
        Ok(sheet) => sheet,
        Err(why) => {
            let error = Diagnostic::error(why);
            let help = "name two folders that --report made, or two files of --format json";
            screen.complain(&Diagnostics(vec![error.help(help)]));
            return Exit::BadInput;
        }
    };
    let folder = match provenance::Folder::prepare(arguments.report.as_deref(), screen) {
        Ok(folder) => folder,
        Err(exit) => return exit,
    };
    let manifest = provenance::manifest(&reader.digests, inputs::SEED, command_line);
    provenance::deliver(
        &sheet,
        &arguments.format,
        &manifest,
        &folder,
        Vec::new(),
        screen,
    )
}

fn document(path: &Path, reader: &mut inputs::Reader) -> Option<Value> {
    let inside = path.join(FINDINGS);
    let file = if path.is_dir() {
        inside.as_path()
    } else {
        path
    };
    let bytes = reader.bytes(file, DOCUMENT_BYTES_MAX)?;
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(mut document) => {
            // A folder knows by which command it was made.
            let manifest = std::fs::read(path.join("manifest.json")).ok();
            let manifest = manifest.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            if let Some(command) = manifest.as_ref().and_then(|one| one.get("command"))
                && let Some(own) = document.get_mut("manifest").and_then(Value::as_object_mut)
            {
                own.entry("command").or_insert_with(|| command.clone());
            }
            Some(document)
        }
        Err(error) => {
            let shown = inputs::shown(file);
            let wrong = Diagnostic::error(format!("this is no JSON: {error}"));
            let wrong = wrong.at(Location::File { path: shown });
            reader
                .found
                .push(wrong.help("name the folder that --report made, or a file of --format json"));
            None
        }
    }
}
