//! Reading `[timeline.outage.NAME]`.

use super::{Lasting, Outages, Severity};
use crate::catalogue::Catalogue;
use crate::source::{Table, Value, describe_list};
use crate::timeline::ENTRIES_MAX;
use crate::timeline::incident::{Effect, effect};
use crate::timeline::target::Target;
use crate::units::{Duration, Probability};
use crate::workload::quantile::{NORMAL_95, SPREAD_MAX};

/// Shortest typical time, in the unit of its key. A process that alternates faster is a share of attempts, not
/// an outage.
const TIME_MIN: f64 = 0.001;
/// Longest typical time, in seconds: ten years.
const TIME_MAX_S: f64 = 10.0 * 365.0 * 86_400.0;

/// Reads the tables `[timeline.outage.NAME]`, in the order of the file.
pub(in crate::timeline) fn read(timeline: &mut Table<'_>, catalogue: &Catalogue) -> Vec<Outages> {
    let Some(value) = timeline.get("outage") else {
        return Vec::new();
    };
    let Some(mut table) = value.table() else {
        return Vec::new();
    };
    let entries = table.entries();
    if entries.len() > ENTRIES_MAX {
        value.error(format!("at most {ENTRIES_MAX} outages fit in one timeline"));
        return Vec::new();
    }
    entries
        .into_iter()
        .filter_map(|(name, value)| outages(name.value, value.table()?, catalogue))
        .collect()
}

fn outages(name: String, mut table: Table<'_>, catalogue: &Catalogue) -> Option<Outages> {
    let target = Target::read(&mut table, catalogue);
    let mut outages = Outages::typical(name, Vec::new());
    let mut sound = true;
    for (key, unit_s, law) in [
        ("up_h", 3_600.0, &mut outages.up),
        ("down_min", 60.0, &mut outages.down),
    ] {
        if let Some(value) = table.get(key) {
            match lasting(&value, unit_s) {
                Some(read) => *law = read,
                None => sound = false,
            }
        }
    }
    let has_share = table.get("share").is_some();
    match effect(&mut table) {
        Some(Some(effect)) => {
            outages.effect = effect;
            if has_share || !matches!(effect, Effect::Fail { .. }) {
                outages.severity = None;
            }
        }
        Some(None) => {}
        None => sound = false,
    }
    sound &= severity(&mut table, &mut outages);
    table.finish();
    outages.routes = target?.routes;
    sound.then_some(outages)
}

/// Reads the keys about partial outages; whether all was right.
fn severity(table: &mut Table<'_>, outages: &mut Outages) -> bool {
    let partial_share = table.get("partial_share");
    let ranges = [table.get("partial"), table.get("major")];
    let given = || partial_share.iter().chain(ranges.iter().flatten());
    let Some(severity) = &mut outages.severity else {
        for stray in given() {
            stray.error_help(
                format!("`{}` goes with `fail` without `share` only", stray.path()),
                "`share` is how many attempts every outage fails; without it that is drawn",
            );
        }
        return given().next().is_none();
    };
    let mut sound = true;
    if let Some(value) = partial_share {
        match value.probability() {
            Some(share) => severity.partial_share = share,
            None => sound = false,
        }
    }
    let Severity { partial, major, .. } = severity;
    for (value, into) in ranges.into_iter().zip([partial, major]) {
        if let Some(value) = value {
            match range(&value) {
                Some(range) => *into = range,
                None => sound = false,
            }
        }
    }
    sound
}

fn range(value: &Value<'_>) -> Option<[Probability; 2]> {
    let list = value.list()?;
    let [low, high] = list.as_slice() else {
        value.error(format!(
            "`{}` must be two shares, from and to, such as [0.05, 0.5]",
            value.path()
        ));
        return None;
    };
    let (low, high) = (low.probability(), high.probability());
    let (low, high) = (low?, high?);
    if high < low {
        value.error(format!(
            "`{}` runs backwards: {} is more than {}",
            value.path(),
            low.get(),
            high.get()
        ));
        return None;
    }
    Some([low, high])
}

/// Reads a law of times in units of `unit_s` seconds: a number, `{ exponential = MEAN }` or
/// `{ lognormal = { p50, p95 } }`.
fn lasting(value: &Value<'_>, unit_s: f64) -> Option<Lasting> {
    let time = |value: &Value<'_>| {
        value
            .number_in(TIME_MIN, TIME_MAX_S / unit_s)
            .map(|number| Duration::from_secs_f64(number * unit_s))
    };
    if value.is_number() {
        return time(value).map(Lasting::Fixed);
    }
    if !value.is_table() {
        value.error_help(
            format!("`{}` must be a number or a distribution", value.path()),
            "such as { exponential = 100 } or { lognormal = { p50 = 67, p95 = 566 } }",
        );
        return None;
    }
    let mut table = value.table()?;
    let kinds = ["exponential", "lognormal"];
    let given = kinds.map(|kind| table.get(kind));
    let law = match &given {
        [Some(mean), None] => time(mean).map(|mean| Lasting::Exponential { mean }),
        [None, Some(value)] => lognormal(value, time),
        _ => {
            value.error(format!(
                "`{}` must have exactly one of {}",
                value.path(),
                describe_list(kinds)
            ));
            None
        }
    };
    table.finish();
    law
}

fn lognormal(value: &Value<'_>, time: impl Fn(&Value<'_>) -> Option<Duration>) -> Option<Lasting> {
    let mut table = value.table()?;
    let p50 = table.require("p50").and_then(|value| time(&value));
    let p95 = table.require("p95").and_then(|value| time(&value));
    table.finish();
    let (p50, p95) = (p50?, p95?);
    let ratio = p95.0 as f64 / p50.0 as f64;
    if !(1.0..=SPREAD_MAX).contains(&ratio) {
        value.error(format!(
            "`{}`: p95 must be p50 or more, and at most {SPREAD_MAX} times as much",
            value.path()
        ));
        return None;
    }
    Some(Lasting::Lognormal {
        p50,
        sigma: libm::log(ratio) / NORMAL_95,
    })
}
