//! Reading `[timeline.limit.NAME]`, and limits of a command line.

use super::{Dimension, Limit, MINUTE_US, OutputCount};
use crate::catalogue::Catalogue;
use crate::source::{Diagnostic, Table, Value, describe_list, nearest};
use crate::timeline::ENTRIES_MAX;
use crate::timeline::target::Target;
use crate::units::Duration;

/// Most of anything a minute.
const PER_MIN_MAX: u64 = 1_000_000_000_000;
/// Shortest and longest window, in seconds.
const WINDOW_S: (f64, f64) = (0.001, 86_400.0);

/// Reads the tables `[timeline.limit.NAME]`, in the order of the file.
pub(in crate::timeline) fn read(timeline: &mut Table<'_>, catalogue: &Catalogue) -> Vec<Limit> {
    let Some(value) = timeline.get("limit") else {
        return Vec::new();
    };
    let Some(mut table) = value.table() else {
        return Vec::new();
    };
    let entries = table.entries();
    if entries.len() > ENTRIES_MAX {
        value.error(format!("at most {ENTRIES_MAX} limits fit in one timeline"));
        return Vec::new();
    }
    entries
        .into_iter()
        .filter_map(|(name, value)| limit(name.value, value.table()?, catalogue))
        .collect()
}

fn limit(name: String, mut table: Table<'_>, catalogue: &Catalogue) -> Option<Limit> {
    let target = Target::read(&mut table, catalogue);
    let mut limit = Limit::new(name, Vec::new());
    let mut sound = true;
    let mut read = |table: &mut Table<'_>, key: &str, into: &mut dyn FnMut(&Value<'_>) -> bool| {
        if let Some(value) = table.get(key) {
            sound &= into(&value);
        }
    };
    read(&mut table, "window_s", &mut |value| {
        let window = value.number_in(WINDOW_S.0, WINDOW_S.1);
        limit.window = window.map_or(limit.window, Duration::from_secs_f64);
        window.is_some()
    });
    for dimension in Dimension::ALL {
        read(&mut table, dimension.key(), &mut |value| {
            let per_min = value.integer_in(1, PER_MIN_MAX);
            limit.per_min[dimension as usize] = per_min;
            per_min.is_some_and(|per_min| holds_one(value, per_min, limit.window))
        });
    }
    read(&mut table, "output", &mut |value| {
        let found = value.one_of("way to count answers", &["actual", "cap"]);
        if found == Some(1) {
            limit.output = OutputCount::Cap;
        }
        found.is_some()
    });
    for (key, flag) in [
        ("cached_free", &mut limit.cached_free),
        ("refused_count", &mut limit.refused_count),
    ] {
        read(&mut table, key, &mut |value| {
            let given = value.boolean();
            *flag = given.unwrap_or(false);
            given.is_some()
        });
    }
    if sound && limit.per_min == [None; 4] {
        table.error(format!(
            "`[{}]` limits nothing: it needs at least one of {}",
            table.path(),
            describe_list(Dimension::ALL.map(Dimension::key))
        ));
        sound = false;
    }
    table.finish();
    limit.routes = target?.routes;
    sound.then_some(limit)
}

/// Whether a single one ever fits; a limit that refuses everything is an outage by another name.
fn holds_one(value: &Value<'_>, per_min: u64, window: Duration) -> bool {
    let holds = u128::from(per_min) * u128::from(window.0) >= u128::from(MINUTE_US);
    if !holds {
        value.error_help(
            format!(
                "`{}` lets nothing through: {per_min} a minute is less than one in the window of {window}",
                value.path()
            ),
            format!(
                "a window of {:.3} s holds one",
                (60_000.0 / per_min as f64).ceil() / 1_000.0
            ),
        );
    }
    holds
}

/// Reads `ROUTE.KEY=N`, a limit of one route on a command line: KEY is `rpm` (requests), `itpm` (input
/// tokens), `otpm` (output tokens) or `tpm` (both), N how many a minute.
///
/// # Errors
///
/// If it has another form, or names a route or key that is not known, or a number that no limit can have.
pub fn parse_limit(text: &str, catalogue: &Catalogue) -> Result<Limit, Box<Diagnostic>> {
    let unreadable = |why: &str, help: &str| {
        let complaint = Diagnostic::error(format!("`{text}` is no limit: {why}"))
            .help("write ROUTE.KEY=N, for example `small.tpm=40_000`")
            .help("KEY is `rpm`, `itpm`, `otpm` or `tpm`: requests, input, output or all tokens a minute")
            .help(help);
        Err(Box::new(complaint))
    };
    let Some((left, number)) = text.rsplit_once('=') else {
        return unreadable("the number is missing", "");
    };
    // Names of routes may have dots in them.
    let Some((name, key)) = left.trim().rsplit_once('.') else {
        return unreadable("the route or the key is missing", "");
    };
    let Some(route) = catalogue.find(name) else {
        let help = match nearest(name, catalogue.names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known: {}", describe_list(catalogue.names())),
        };
        let message = format!("unknown route `{name}` in the limit `{text}`");
        return Err(Box::new(Diagnostic::error(message).help(help)));
    };
    let keys = Dimension::ALL.map(Dimension::short);
    let Some(index) = keys.iter().position(|known| *known == key) else {
        let near = nearest(key, keys).map(|near| format!("did you mean `{near}`?"));
        return unreadable(&format!("unknown key `{key}`"), &near.unwrap_or_default());
    };
    let digits = number.trim().replace('_', "");
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<u64>() {
        Ok(per_min) if plain && (1..=PER_MIN_MAX).contains(&per_min) => {
            Ok(Limit::new(name, vec![route]).with(Dimension::ALL[index], per_min))
        }
        _ => unreadable(
            &format!(
                "`{}` is no whole number between 1 and {PER_MIN_MAX}",
                number.trim()
            ),
            "",
        ),
    }
}
