//! The world that a drill runs in: the workload's `[timeline]` or a day of traffic, and what the command
//! line adds to it.

use super::drill::Arguments;
use super::inputs::Inputs;
use super::numbers::When;
use super::timeline::{REQUESTS_MAX, extent, requests};
use crate::router::FaultKind;
use crate::source::{Diagnostic, Diagnostics};
use crate::timeline::{
    self, Arrivals, Effect, Incident, Latency, Limit, RATE_MAX_PER_S, RATE_MIN_PER_S, Timeline,
};
use crate::units::{Duration, Instant, Probability};

/// Requests per second in the mean of the default day: a service of medium size.
const RATE_PER_S: f64 = 1.0;
/// How many times as many requests come at the peak of the default day as at its trough: measured over a
/// day of 73 clients of deepseek-r1 (ServeGen, 2025).
const PEAK_TO_TROUGH: f64 = 9.9;
/// When the default day has its peak: in the middle of the afternoon.
const PEAK_AT: Duration = Duration::from_secs(15 * 3_600);
/// Width of the bins of the default day: times to recover are known to this.
const BIN: Duration = Duration::from_secs(300);
/// Length of the default day in hours.
const HOURS: f64 = 24.0;

/// What is run.
pub(super) struct World {
    pub(super) timeline: Timeline,
    /// Most requests of a replicate.
    pub(super) requests: u64,
    /// Requests that come in the first replicate.
    pub(super) expected: u64,
    /// What was assumed, for the reader.
    pub(super) remarks: Vec<String>,
}

/// The world that the arguments ask for. The workload's timeline is taken out of the inputs.
///
/// # Errors
///
/// Names that nothing has, limits that are none, times beyond the end of the run: all at once.
pub(super) fn of(arguments: &Arguments, inputs: &mut Inputs) -> Result<World, Diagnostics> {
    let mut found = Diagnostics::default();
    let mut world = match inputs.timeline.take() {
        Some(timeline) => declared(arguments, inputs, timeline),
        None => a_day(arguments, inputs),
    }
    .map_err(|error| Diagnostics(vec![*error]))?;
    for text in &arguments.limit {
        match timeline::parse_limit(text, &inputs.catalogue) {
            Ok(limit) => {
                let route = limit.name.clone();
                let before = world.timeline.limits.clone();
                limit.set_in(&mut world.timeline.limits);
                let remark = remark_of(text, &route, &before, &world.timeline.limits);
                world.remarks.push(remark);
            }
            Err(error) => found.push(*error),
        }
    }
    let length;
    (world.expected, length) = extent(&world.timeline, world.requests, arguments.inputs.seed);
    match incidents(arguments, inputs, &world.timeline, length) {
        Ok(incidents) => world.timeline.incidents.extend(incidents),
        Err(mut wrong) => found.0.append(&mut wrong.0),
    }
    if found.has_errors() {
        return Err(found);
    }
    if !world.timeline.has_incidents() && world.timeline.limits.is_empty() {
        world.remarks.push(
            "nothing goes wrong: name what fails with --down, or what is limited with --limit"
                .to_owned(),
        );
    }
    Ok(world)
}

/// What a `--limit` changed.
fn remark_of(text: &str, route: &str, before: &[Limit], after: &[Limit]) -> String {
    let changed: Vec<String> = after
        .iter()
        .zip(before)
        .filter(|(after, before)| after.per_min != before.per_min)
        .map(|(after, _)| format!("`{}`", after.name))
        .collect();
    if changed.is_empty() {
        format!("`{text}` of the command line limits `{route}` alone, beside what else is limited")
    } else {
        format!(
            "`{text}` of the command line changes {}, for all routes that share it",
            changed.join(", ")
        )
    }
}

fn hours(hours: f64) -> Duration {
    Duration::from_secs_f64(hours * 3_600.0)
}

/// A day with the rate of `rate_per_s` in its mean.
fn daily(rate_per_s: f64) -> Result<Arrivals, Box<Diagnostic>> {
    Arrivals::daily(rate_per_s, PEAK_TO_TROUGH, PEAK_AT).ok_or_else(|| {
        let error = Diagnostic::error(format!(
            "{rate_per_s} requests a second are more, or fewer, than can be simulated"
        ));
        Box::new(error.help(format!(
            "a rate lies between {RATE_MIN_PER_S} and {RATE_MAX_PER_S}: it is what --rate says, or --requests (or recorded rows) over --hours"
        )))
    })
}

/// What the workload file declares, with what the command line says otherwise.
fn declared(
    arguments: &Arguments,
    inputs: &Inputs,
    mut timeline: Timeline,
) -> Result<World, Box<Diagnostic>> {
    let mut remarks = Vec::new();
    if let Some(rate) = arguments.rate {
        timeline.arrivals = daily(rate)?;
        remarks.push(format!(
            "requests come as --rate says, {rate} a second in the mean of a day with a peak at 15:00, not as `[timeline]` says"
        ));
    }
    if let Some(given) = arguments.hours {
        timeline.duration = Some(hours(given));
    }
    let workload = &inputs.workload;
    let requests = requests(arguments.requests, workload, Some(&timeline));
    if requests == REQUESTS_MAX {
        remarks.push(most_remark());
    }
    Ok(World {
        timeline,
        requests,
        expected: 0,
        remarks,
    })
}

fn most_remark() -> String {
    format!(
        "a replicate has as many requests as come, at most {} million",
        REQUESTS_MAX / 1_000_000
    )
}

/// A day of traffic at hosted providers without limits and without errors of their own.
fn a_day(arguments: &Arguments, inputs: &Inputs) -> Result<World, Box<Diagnostic>> {
    let workload = &inputs.workload;
    let length = hours(arguments.hours.unwrap_or(HOURS));
    let asked = if workload.is_recorded() {
        let rows = workload.len();
        Some(arguments.requests.map_or(rows, |asked| asked.min(rows)))
    } else {
        arguments.requests
    };
    // So many requests are spread over the run, unless somebody says how fast they come.
    let spread = asked.filter(|_| arguments.rate.is_none());
    let rate = match (arguments.rate, spread) {
        (Some(rate), _) => rate,
        (None, Some(asked)) => asked as f64 / length.as_secs_f64(),
        (None, None) => RATE_PER_S,
    };
    let mut timeline = Timeline::instant(&inputs.catalogue, daily(rate)?);
    timeline.latency.fill(Latency::hosted());
    // Rows that are spread over the run are all used, whether or not the last one comes in time.
    let is_whole_day = arguments.hours.is_none_or(|hours| hours % HOURS == 0.0);
    timeline.duration = (spread.is_none() || !is_whole_day).then_some(length);
    if length <= hours(2.0 * HOURS) {
        timeline.bin = Some(BIN);
    }
    let mut remarks = vec![format!(
        "the workload has no `[timeline]`: requests come over {} h, {:.3} a second in the mean of a day, {PEAK_TO_TROUGH} times as many at 15:00 as at 3:00 (as measured of deepseek-r1, ServeGen); answers take as long as at hosted providers; no rate limits, no errors but those of incidents, and no SLO, so that every served request is within it",
        arguments.hours.unwrap_or(HOURS),
        rate
    )];
    if asked.is_none() {
        remarks.push(most_remark());
    }
    Ok(World {
        timeline,
        requests: asked.unwrap_or(REQUESTS_MAX),
        expected: 0,
        remarks,
    })
}

/// What the command line lets fail.
fn incidents(
    arguments: &Arguments,
    inputs: &Inputs,
    timeline: &Timeline,
    length: Duration,
) -> Result<Vec<Incident>, Diagnostics> {
    let mut found = Diagnostics::default();
    let effect = match arguments.slow {
        Some(factor) => Effect::Slow { factor },
        None => Effect::Fail {
            // The parser admits only names of kinds, and only shares.
            kind: FaultKind::from_name(&arguments.fail).unwrap_or(FaultKind::Overloaded),
            share: Probability::new(arguments.share).unwrap_or(Probability::ONE),
        },
    };
    let from = match arguments.at {
        When::Peak => timeline.arrivals.busiest(arguments.length, length),
        When::At(after) => Instant::ZERO.after(after),
    };
    if !arguments.down.is_empty() && from.since(Instant::ZERO) >= length {
        found.push(
            Diagnostic::error(format!(
                "--at is {:.1} h after the beginning of the run, and the last request comes after {:.1} h",
                from.since(Instant::ZERO).as_secs_f64() / 3_600.0,
                length.as_secs_f64() / 3_600.0
            ))
            .help("name an earlier time, or let the run take longer with --hours or more requests"),
        );
    }
    let mut incidents: Vec<Incident> = Vec::new();
    for target in &arguments.down {
        match Incident::of_target(&inputs.catalogue, target, from, arguments.length, effect) {
            Ok(incident) if incidents.iter().any(|other| incident.repeats(other)) => {
                found.push(
                    Diagnostic::error(format!("--down names `{target}` twice"))
                        .help("once is enough: all of its attempts fail"),
                );
            }
            Ok(incident) => incidents.push(incident),
            Err(error) => found.push(*error),
        }
    }
    if found.has_errors() {
        Err(found)
    } else {
        Ok(incidents)
    }
}
