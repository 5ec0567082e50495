//! What an entry of a timeline concerns, and when: the keys that limits, incidents, outages and drifts
//! have in common.
//!
//! An entry names a provider, a region or routes. A provider stands for all routes it runs and a region
//! for all endpoints in it, as the catalogue says; so a script keeps its sense when routes are added.

use std::collections::BTreeSet;

use crate::catalogue::Catalogue;
use crate::router::RouteId;
use crate::source::{At, Diagnostic, Table, Value, describe_list};
use crate::units::Duration;

/// Latest time in a script, in seconds: ten years.
const TIME_MAX_S: f64 = 10.0 * 365.0 * 86_400.0;
/// Shortest length of time in a script, in seconds: the tick of virtual time.
const LENGTH_MIN_S: f64 = 1e-6;

/// The routes that an entry concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// What people call them: the provider, the region, or the routes.
    pub(super) name: String,
    /// Which they are, each once, in the order of the catalogue.
    pub(super) routes: Vec<RouteId>,
}

/// Ways to say which routes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Provider,
    Region,
    Route,
}

impl Group {
    const ALL: [Self; 3] = [Self::Provider, Self::Region, Self::Route];

    const fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Region => "region",
            Self::Route => "route",
        }
    }

    /// The names of this kind that have routes, each once, in the order of the catalogue.
    fn known(self, catalogue: &Catalogue) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let names = catalogue
            .routes
            .iter()
            .filter_map(|route| match self {
                Self::Provider => catalogue
                    .providers
                    .get(route.provider)
                    .map(|provider| provider.name.as_str()),
                Self::Region => route.region.as_deref(),
                Self::Route => Some(route.name.as_str()),
            })
            .filter(|name| seen.insert(*name));
        names.collect()
    }

    /// The routes behind a name; none if nobody knows it.
    fn routes(self, name: &str, catalogue: &Catalogue) -> Vec<RouteId> {
        let routes = catalogue.routes.iter().enumerate();
        routes
            .filter(|(_, route)| match self {
                Self::Provider => catalogue
                    .providers
                    .get(route.provider)
                    .is_some_and(|provider| provider.name == name),
                Self::Region => route.region.as_deref() == Some(name),
                Self::Route => route.name == name,
            })
            .map(|(index, _)| RouteId(index as u16))
            .collect()
    }
}

impl Target {
    /// Reads `provider`, `region` or `routes`, of which there must be exactly one.
    pub(super) fn read(table: &mut Table<'_>, catalogue: &Catalogue) -> Option<Self> {
        let mut given: Vec<(Group, Value<'_>)> = Vec::new();
        for (key, group) in ["provider", "region", "routes"].into_iter().zip(Group::ALL) {
            if let Some(value) = table.get(key) {
                given.push((group, value));
            }
        }
        match given.as_slice() {
            [(Group::Route, value)] => routes(value, catalogue),
            [(group, value)] => {
                let name = value.string()?;
                let routes = group.routes(&name.value, catalogue);
                if routes.is_empty() {
                    value.report_diagnostic(without_routes(*group, &name, catalogue));
                    return None;
                }
                Some(Self {
                    name: name.value,
                    routes,
                })
            }
            [] => {
                table.error(format!(
                    "`[{}]` does not say what it concerns: it needs `provider`, `region` or `routes`",
                    table.path()
                ));
                None
            }
            [.., (_, last)] => {
                last.error(
                    "only one of `provider`, `region` and `routes` can say what is concerned",
                );
                None
            }
        }
    }

    /// A provider, a region or a route by its bare name, as on a command line.
    ///
    /// # Errors
    ///
    /// If nothing has this name, or if it stands for different routes as a name of different kinds.
    pub(super) fn named(name: &str, catalogue: &Catalogue) -> Result<Self, Box<Diagnostic>> {
        let found: Vec<(Group, Vec<RouteId>)> = Group::ALL
            .into_iter()
            .map(|group| (group, group.routes(name, catalogue)))
            .filter(|(_, routes)| !routes.is_empty())
            .collect();
        let Some((_, first)) = found.first() else {
            let known = Group::ALL.map(|group| group.known(catalogue));
            let help = match crate::source::nearest(name, known.iter().flatten().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "providers: {}; regions: {}; routes: {}",
                    describe_list(known[0].iter().copied()),
                    describe_list(known[1].iter().copied()),
                    describe_list(known[2].iter().copied()),
                ),
            };
            let message = format!("no provider, region or route is called `{name}`");
            return Err(Box::new(Diagnostic::error(message).help(help)));
        };
        if found.iter().any(|(_, routes)| routes != first) {
            let kinds: Vec<String> = found
                .iter()
                .map(|(group, routes)| {
                    let names = routes
                        .iter()
                        .map(|route| catalogue.routes[usize::from(route.0)].name.as_str());
                    format!("a {} ({})", group.name(), describe_list(names))
                })
                .collect();
            let message = format!(
                "`{name}` is the name of {}, which are different routes",
                kinds.join(" and of ")
            );
            return Err(Box::new(Diagnostic::error(message).help(
                "say which is meant with an incident in the workload file, which has \
                 `provider`, `region` and `routes`",
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            routes: first.clone(),
        })
    }
}

fn routes(value: &Value<'_>, catalogue: &Catalogue) -> Option<Target> {
    let names = value.strings()?;
    if names.is_empty() {
        value.error(format!("`{}` names no route", value.path()));
        return None;
    }
    let mut routes = Vec::with_capacity(names.len());
    let mut sound = true;
    for name in &names {
        match route(name, catalogue) {
            Ok(found) if routes.contains(&found) => {
                value.report_diagnostic(
                    Diagnostic::error(format!("route `{}` is listed twice", name.value))
                        .at(name.location.clone()),
                );
                sound = false;
            }
            Ok(found) => routes.push(found),
            Err(complaint) => {
                value.report_diagnostic(*complaint);
                sound = false;
            }
        }
    }
    routes.sort_unstable();
    let list: Vec<&str> = names.iter().map(|name| name.value.as_str()).collect();
    sound.then(|| Target {
        name: list.join(", "),
        routes,
    })
}

/// The route of this name.
pub(super) fn route(name: &At<String>, catalogue: &Catalogue) -> Result<RouteId, Box<Diagnostic>> {
    catalogue
        .find(&name.value)
        .ok_or_else(|| Box::new(name.unknown("route", catalogue.names())))
}

/// The complaint about a provider or region without routes: it may be known all the same.
fn without_routes(group: Group, name: &At<String>, catalogue: &Catalogue) -> Diagnostic {
    let kind = group.name();
    let idle = match group {
        Group::Provider => catalogue
            .providers
            .iter()
            .any(|provider| provider.name == name.value),
        Group::Region => catalogue.regions.contains(&name.value),
        Group::Route => false,
    };
    if !idle {
        return name.unknown(kind, group.known(catalogue));
    }
    let (message, help) = if group == Group::Region {
        (
            format!(
                "no route has its endpoint in the region `{}`: it is a residency tag",
                name.value
            ),
            "the region of an endpoint is the key `region` of its route",
        )
    } else {
        (
            format!(
                "the provider `{}` runs no route of the catalogue",
                name.value
            ),
            "",
        )
    };
    Diagnostic::error(message)
        .at(name.location.clone())
        .help(help)
}

/// A time that may be given in one of three units; `None` if it was wrong.
pub(super) type Given = Option<Option<Duration>>;

/// Reads `{stem}_s`, `{stem}_min` or `{stem}_h` as a point in time, at the earliest 0.
pub(super) fn moment(table: &mut Table<'_>, stem: &str) -> Given {
    time(table, stem, |value, unit_s| {
        value
            .number_in(0.0, TIME_MAX_S / unit_s)
            .map(|number| Duration::from_secs_f64(number * unit_s))
    })
}

/// Reads `{stem}_s`, `{stem}_min` or `{stem}_h` as a length of time, which is more than none.
pub(super) fn length(table: &mut Table<'_>, stem: &str) -> Given {
    time(table, stem, |value, unit_s| {
        let number = value.positive()?;
        if !(LENGTH_MIN_S..=TIME_MAX_S).contains(&(number * unit_s)) {
            value.error(format!(
                "`{}` must be between a microsecond and ten years, but is {} s",
                value.path(),
                number * unit_s
            ));
            return None;
        }
        Some(Duration::from_secs_f64(number * unit_s))
    })
}

fn time(
    table: &mut Table<'_>,
    stem: &str,
    read: impl Fn(&Value<'_>, f64) -> Option<Duration>,
) -> Given {
    let mut given: Vec<(&str, f64, Value<'_>)> = Vec::new();
    for (unit, unit_s) in [("s", 1.0), ("min", 60.0), ("h", 3_600.0)] {
        if let Some(value) = table.get(&format!("{stem}_{unit}")) {
            given.push((unit, unit_s, value));
        }
    }
    match given.as_slice() {
        [] => Some(None),
        [(_, unit_s, value)] => read(value, *unit_s).map(Some),
        [(first, ..), .., (last, _, value)] => {
            value.error(format!(
                "`{stem}_{last}` says again what `{stem}_{first}` says; keep one of them"
            ));
            None
        }
    }
}

/// The same, where one of the three keys must be there.
pub(super) fn required(table: &Table<'_>, stem: &str, given: Given) -> Option<Duration> {
    let given = given?;
    if given.is_none() {
        table.error(format!(
            "missing key `{stem}_s`, `{stem}_min` or `{stem}_h` in `[{}]`",
            table.path()
        ));
    }
    given
}
