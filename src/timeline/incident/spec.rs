//! Reading `[[timeline.incident]]`.

use super::{Effect, Incident};
use crate::catalogue::Catalogue;
use crate::router::FaultKind;
use crate::source::{Table, Value, describe_list};
use crate::timeline::ENTRIES_MAX;
use crate::timeline::target::{Target, length, moment, required};
use crate::units::{Instant, Probability};

/// Most times as long as usual that an incident can make things take.
const SLOW_MAX: f64 = 1_000.0;

/// Reads the list `[[timeline.incident]]`, in the order of the file.
pub(in crate::timeline) fn read(timeline: &mut Table<'_>, catalogue: &Catalogue) -> Vec<Incident> {
    let Some(value) = timeline.get("incident") else {
        return Vec::new();
    };
    let Some(list) = value.list() else {
        return Vec::new();
    };
    if list.len() > ENTRIES_MAX {
        value.error(format!(
            "at most {ENTRIES_MAX} incidents fit in one timeline"
        ));
        return Vec::new();
    }
    let mut incidents: Vec<Incident> = Vec::with_capacity(list.len());
    for value in list {
        let Some(incident) = value.table().and_then(|table| incident(table, catalogue)) else {
            continue;
        };
        // Two coins of the same share are not one: what was meant once would happen more often.
        if incidents.iter().any(|other| other.repeats(&incident)) {
            value.error_help(
                format!("this incident at {} is declared above already", incident.name),
                "incidents may overlap, and each hits its own share; for a larger share, raise `share`",
            );
        }
        incidents.push(incident);
    }
    incidents
}

fn incident(mut table: Table<'_>, catalogue: &Catalogue) -> Option<Incident> {
    let target = Target::read(&mut table, catalogue);
    let at = moment(&mut table, "at");
    let at = required(&table, "at", at);
    let lasts = length(&mut table, "for");
    let lasts = required(&table, "for", lasts);
    let effect = effect(&mut table);
    if effect == Some(None) {
        table.error(format!(
            "`[{}]` does nothing: it needs one of {}",
            table.path(),
            describe_list(EFFECTS)
        ));
    }
    table.finish();
    let from = Instant::ZERO.after(at?);
    let target = target?;
    Some(Incident {
        name: target.name,
        routes: target.routes,
        from,
        until: from.after(lasts?),
        effect: effect??,
    })
}

/// What can go wrong, one key each.
const EFFECTS: [&str; 3] = ["fail", "slow", "cut"];

/// Reads `fail` (with `share`), `slow` or `cut`: `Some(None)` if none is there, `None` if it is wrong.
pub(in crate::timeline) fn effect(table: &mut Table<'_>) -> Option<Option<Effect>> {
    let mut given: Vec<(&str, Value<'_>)> = Vec::new();
    for key in EFFECTS {
        if let Some(value) = table.get(key) {
            given.push((key, value));
        }
    }
    let share = table.get("share");
    let portion = match &share {
        Some(value) => value.probability(),
        None => Some(Probability::ONE),
    };
    let (key, value) = match given.as_slice() {
        [] => {
            return match &share {
                Some(stray) => {
                    stray.error(format!("`{}` goes with `fail` only", stray.path()));
                    None
                }
                None => Some(None),
            };
        }
        [one] => one,
        [(first, _), .., (last, value)] => {
            value.error_help(
                format!("an entry does one thing, and this one has both `{first}` and `{last}`"),
                "write one entry for each; they may last at the same time",
            );
            return None;
        }
    };
    if *key != "fail"
        && let Some(stray) = &share
    {
        stray.error_help(
            format!("`{}` goes with `fail` only", stray.path()),
            "`slow` concerns all attempts, and `cut` is a share itself",
        );
        return None;
    }
    let effect = match *key {
        "fail" => {
            let names = FaultKind::ALL.map(FaultKind::name);
            let kind = value.one_of("kind of failure", &names);
            Effect::Fail {
                kind: FaultKind::ALL[kind?],
                share: portion?,
            }
        }
        "slow" => Effect::Slow {
            factor: value.number_in(1.0, SLOW_MAX)?,
        },
        _ => Effect::Cut {
            share: value.probability()?,
        },
    };
    Some(Some(effect))
}
