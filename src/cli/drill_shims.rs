//! REMOVE AT MERGE: what other branches add to `timeline`, with the signatures that they have there.
//!
//! `drill` calls these functions by the names below. Once the real ones are there, delete this file and
//! its `mod` line, and call `Arrivals::daily`, `Arrivals::busiest`, `Latency::hosted`,
//! `Incident::of_target` and `timeline::parse_limit` instead.

use crate::catalogue::Catalogue;
use crate::router::RouteId;
use crate::source::{Diagnostic, describe_list, nearest};
use crate::timeline::{Arrivals, Dimension, Effect, Incident, Latency, Limit, OutputCount};
use crate::units::{Duration, Instant};

pub(super) fn daily(rate_per_s: f64, _peak_to_trough: f64, _peak_at: Duration) -> Option<Arrivals> {
    Some(Arrivals::every(Duration::from_secs_f64(1.0 / rate_per_s)))
}

pub(super) fn busiest(_arrivals: &Arrivals, length: Duration, within: Duration) -> Instant {
    Instant(within.0.saturating_sub(length.0) / 2)
}

pub(super) fn hosted() -> Latency {
    Latency::INSTANT
}

pub(super) fn of_target(
    catalogue: &Catalogue,
    target: &str,
    from: Instant,
    length: Duration,
    effect: Effect,
) -> Result<Incident, Diagnostic> {
    let named = |route: &crate::catalogue::Route| {
        route.name == target
            || catalogue.providers[route.provider].name == target
            || route.region.as_deref() == Some(target)
    };
    let routes: Vec<RouteId> = (0_u16..)
        .zip(&catalogue.routes)
        .filter(|(_, route)| named(route))
        .map(|(index, _)| RouteId(index))
        .collect();
    if routes.is_empty() {
        let names: Vec<&str> = catalogue.names().collect();
        let error = Diagnostic::error(format!("nothing is called `{target}`"));
        return Err(error.help(match nearest(target, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", describe_list(names)),
        }));
    }
    Ok(Incident {
        name: target.to_owned(),
        routes,
        from,
        until: from.after(length),
        effect,
    })
}

pub(super) fn parse_limit(text: &str, catalogue: &Catalogue) -> Result<Limit, Diagnostic> {
    let wrong = || Diagnostic::error(format!("`{text}` is no limit"));
    let (name, amount) = text.split_once('=').ok_or_else(wrong)?;
    let (route, key) = name.rsplit_once('.').ok_or_else(wrong)?;
    let route = catalogue.find(route).ok_or_else(wrong)?;
    let dimension = ["rpm", "itpm", "otpm", "tpm"]
        .iter()
        .position(|known| *known == key)
        .ok_or_else(wrong)?;
    let mut per_min = [None; Dimension::ALL.len()];
    per_min[dimension] = Some(amount.parse().map_err(|_| wrong())?);
    Ok(Limit {
        name: name.to_owned(),
        routes: vec![route],
        per_min,
        window: Duration::from_secs(60),
        output: OutputCount::Actual,
    })
}
