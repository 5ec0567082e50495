//! `man`: the manual pages, made from the same descriptions as the help.

use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;

use super::screen::Screen;
use super::{Exit, provenance};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Write one page for each command to this folder; without it the page of `routelab` is printed.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, command: Command, screen: &Screen) -> Exit {
    let mut command = command;
    command.build();
    let mut pages = Vec::new();
    if let Err(error) = collect(&command, &mut pages) {
        // Pages are written to memory, where nothing can be in the way.
        return screen.fail(
            &format!("a manual page cannot be made: {error}"),
            "read `routelab help`, which says the same",
        );
    }
    let Some(folder) = &arguments.folder else {
        let page = pages.first().map(|(_, bytes)| bytes.as_slice());
        return screen.print(&String::from_utf8_lossy(page.unwrap_or_default()));
    };
    match provenance::write(folder, &pages) {
        Ok(()) => {
            let first = folder.join("routelab.1");
            screen.print(&format!(
                "created  {} pages in {}\nnext: man {}\n",
                pages.len(),
                super::inputs::shown(folder),
                super::inputs::shown(&first)
            ))
        }
        Err(error) => screen.cannot_write(folder, &error),
    }
}

/// The page of a command and those of all commands below it: name and bytes.
fn collect(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let man = Man::new(command.clone());
    let mut bytes = Vec::new();
    man.render(&mut bytes)?;
    pages.push((man.get_filename(), bytes));
    for inner in command.get_subcommands() {
        if inner.get_name() != "help" {
            collect(inner, pages)?;
        }
    }
    Ok(())
}
