//! `serve`: stand-in servers on this machine, for anything that speaks to a provider.

use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::json;

use super::Exit;
use super::inputs::{self, Reader};
use super::screen::Screen;
use crate::catalogue::Catalogue;
use crate::router::Limits;
use crate::standin::faults::{self, Faults};
use crate::standin::loopback::{Acting, Log, Model, Scripted, Server, ServerSpec};
use crate::standin::world::World;
use crate::timeline::Timeline;
use crate::units::Duration;
use crate::wire::ADAPTERS;
use crate::workload::{Domain, DrawKey, Workload};

/// Until when outages are drawn, of a timeline that does not say how long it is: thirty days.
const HORIZON: Duration = Duration::from_secs(30 * 86_400);
/// The form of what `--json` prints.
const SCHEMA: &str = "routelab.serve/1";

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The address to listen on. Anything but this machine's own lets others in: there are no passwords.
    #[arg(long, value_name = "IP", default_value_t = Ipv4Addr::LOCALHOST.into())]
    host: IpAddr,
    /// The port; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// What goes wrong (TOML): statuses, error frames, cuts, stalls, by model, request and attempt.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Answer as the routes of this workload would, instead of by script. If it has a timeline, that is
    /// acted out: answers take their time, limits refuse, incidents come and go from the start on.
    #[arg(long, value_name = "WORKLOAD")]
    world: Option<PathBuf>,
    /// The route catalogue: which route a model's name stands for [default: policies/routes.toml with
    /// --world, none without].
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Seed of the workload's draws.
    #[arg(long, value_name = "N", default_value_t = inputs::SEED)]
    seed: u64,
    /// Write a line of JSON here for each request that comes in: no keys, no prompts.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write the bodies of requests to the log, too.
    #[arg(long, requires = "log")]
    log_bodies: bool,
    /// Print the addresses as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, screen: &Screen) -> Exit {
    let mut spec = match read(arguments, screen) {
        Ok(spec) => spec,
        Err(exit) => return exit,
    };
    if let Some(path) = &arguments.log {
        match File::options().create(true).append(true).open(path) {
            Ok(file) => spec.log = Some(Arc::new(Mutex::new(BufWriter::new(file))) as Log),
            Err(error) => {
                return screen.cannot_write(path, &error);
            }
        }
    }
    // Before anybody can know the address: a signal that comes early ends the server as any other.
    let (stop, stopped) = mpsc::channel();
    if let Err(error) = ctrlc::set_handler(move || {
        let _ = stop.send(());
    }) {
        return screen.fail(
            &format!("cannot wait for signals: {error}"),
            "start it from a program or shell that lets it set a signal handler",
        );
    }
    let server = match Server::start(spec) {
        Ok(server) => server,
        Err(error) => {
            let at = (arguments.host, arguments.port);
            let help = match error.kind() {
                ErrorKind::AddrInUse => "--port 0 takes a free port",
                ErrorKind::PermissionDenied => "choose a --port above 1023",
                _ => "choose another --host or --port",
            };
            return screen.fail(
                &format!("cannot listen on {}:{}: {error}", at.0, at.1),
                help,
            );
        }
    };
    if !arguments.host.is_loopback() {
        screen.say(&format!(
            "warning: {} may be reached from other machines, and this server checks no keys",
            server.addr()
        ));
    }
    let printed = screen.print(&if arguments.json {
        machine(&server)
    } else {
        human(&server)
    });
    if printed != Exit::Fine {
        return printed;
    }
    // The handler lives as long as the process, so this ends with a signal.
    let _ = stopped.recv();
    drop(server);
    Exit::Fine
}

/// The environment variable that a dialect's official client reads its address from.
fn variable(dialect: &str) -> Option<&'static str> {
    match dialect {
        "openai" => Some("OPENAI_BASE_URL"),
        "anthropic" => Some("ANTHROPIC_BASE_URL"),
        "gemini" => Some("GOOGLE_GEMINI_BASE_URL"),
        "ollama" => Some("OLLAMA_HOST"),
        _ => None,
    }
}

fn machine(server: &Server) -> String {
    let dialects: Vec<_> = ADAPTERS
        .iter()
        .map(|kind| {
            json!({
                "name": kind.name,
                "about": kind.about,
                "base_url": server.base_url(kind.name),
                "root_url": server.root_url(kind.name),
                "variable": variable(kind.name),
            })
        })
        .collect();
    let addr = server.addr();
    let line = json!({
        "schema": SCHEMA,
        "host": addr.ip().to_string(),
        "port": addr.port(),
        "dialects": dialects,
    });
    format!("{line}\n")
}

fn human(server: &Server) -> String {
    let mut text = String::new();
    for kind in ADAPTERS {
        let url = server.base_url(kind.name);
        let line = match variable(kind.name) {
            Some(variable) => format!("{variable}={url}"),
            None => url,
        };
        text.push_str(&format!("{:<11} {line}\n", kind.name));
    }
    text.push_str("any key will do; Ctrl-C ends it\n");
    text
}

/// Everything but the log.
fn read(arguments: &Arguments, screen: &Screen) -> Result<ServerSpec, Exit> {
    let mut reader = Reader::default();
    let default = Path::new(inputs::ROUTES);
    let routes = match &arguments.routes {
        Some(path) => Some(path.as_path()),
        None if arguments.world.is_some() && default.exists() => Some(default),
        None => None,
    };
    let catalogue = routes.and_then(|path| reader.catalogue(path).ok());
    let (workload, timeline) = match &arguments.world {
        Some(path) => world_at(&mut reader, path, catalogue.as_ref()),
        None => (None, None),
    };
    let faults = match &arguments.faults {
        Some(path) => reader
            .text(path)
            .and_then(|file| faults::parse(&file, &mut reader.found)),
        None => Some(Faults::default()),
    };
    let names = catalogue.as_ref().map_or_else(Vec::new, names);
    if let (Some(faults), false) = (&faults, names.is_empty()) {
        let mut known: Vec<&str> = names
            .iter()
            .flat_map(|(model, route)| [model.as_str(), route.as_str()])
            .collect();
        if let Some(workload) = &workload {
            known.extend(workload.routes.iter().map(String::as_str));
        }
        reader.found.0.append(&mut faults.check_names(&known).0);
    }
    let wrong = reader.found.has_errors();
    screen.complain(&reader.found);
    let Some(faults) = faults.filter(|_| !wrong) else {
        return Err(Exit::BadInput);
    };
    let world = workload.map(|workload| world(workload, catalogue.as_ref(), arguments.seed));
    let acting = match (timeline, &world) {
        (Some(timeline), Some(world)) => Some(acting(timeline, world, catalogue.as_ref())),
        _ => None,
    };
    let model: Arc<dyn Model> = match world {
        Some(world) => Arc::new(world),
        None => Arc::new(Scripted),
    };
    Ok(ServerSpec {
        acting,
        host: arguments.host,
        port: arguments.port,
        model,
        faults,
        names,
        log_bodies: arguments.log_bodies,
        ..ServerSpec::default()
    })
}

/// A workload, and its timeline if it has one. Without a catalogue the workload's routes are all there is.
fn world_at(
    reader: &mut Reader,
    path: &Path,
    catalogue: Option<&Catalogue>,
) -> (Option<Workload>, Option<Timeline>) {
    let workload = reader.workload(path, None);
    let timeline = workload.as_ref().and_then(|workload| {
        let made_up;
        let catalogue = match catalogue {
            Some(catalogue) => catalogue,
            None => {
                made_up = Catalogue::of_unknown_routes(&workload.routes);
                &made_up
            }
        };
        reader.timeline(path, catalogue, &workload.tenants)
    });
    (workload, timeline)
}

/// The timeline as the servers act it out.
fn acting(timeline: Timeline, world: &World, catalogue: Option<&Catalogue>) -> Acting {
    let routes = match catalogue {
        Some(catalogue) => catalogue.names().map(str::to_owned).collect(),
        None => world.workload.routes.clone(),
    };
    Acting {
        horizon: timeline.duration.unwrap_or(HORIZON),
        timeline,
        world: world.clone(),
        routes,
        limits: catalogue.map_or_else(Limits::default, |catalogue| catalogue.limits),
    }
}

/// Models and the routes that lead to them.
fn names(catalogue: &Catalogue) -> Vec<(String, String)> {
    catalogue
        .routes
        .iter()
        .map(|route| (route.model.clone(), route.name.clone()))
        .collect()
}

/// The workload as a model. Several routes may have one model; its name stands for the first of them.
fn world(workload: Workload, catalogue: Option<&Catalogue>, seed: u64) -> World {
    let mut columns = std::collections::BTreeMap::new();
    for (column, name) in (0_u16..).zip(&workload.routes) {
        columns.insert(name.clone(), column);
    }
    for route in catalogue.iter().flat_map(|catalogue| &catalogue.routes) {
        if let Some(column) = columns.get(&route.name).copied() {
            columns.entry(route.model.clone()).or_insert(column);
        }
    }
    World {
        workload,
        key: DrawKey {
            seed,
            domain: Domain::Traffic,
            replicate: 0,
        },
        columns,
        verifiers: Vec::new(),
    }
}
