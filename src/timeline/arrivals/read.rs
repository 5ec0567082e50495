//! Reading `[timeline.arrivals]`.
//!
//! ```toml
//! [timeline.arrivals]
//! rate_per_s = 5.0        # in the mean of a day; required, 1e-6 to 1e6
//! process = "poisson"     # the default; "even"; { gamma = { cv = 2.3 } } or { weibull = { cv = 2.3 } }: renewals
//!                         # whose gaps have this coefficient of variation, 0.05 to 50
//! daily = { peak_to_trough = 9.9, peak_at_h = 15 } # a sine over 24 hours; both have these defaults; without
//!                         # `daily` the rate is constant. Time zero is midnight.
//!
//! [[timeline.arrivals.burst]] # the rate is multiplied for a while; overlapping factors are multiplied
//! at_s = 3600
//! for_s = 120
//! factor = 5.0            # 0 to 10,000; below 1 it is a lull
//! tenant = "acme"         # this tenant's rate only; all by default
//!
//! [timeline.arrivals.tenant.acme] # instead of `rate_per_s` above: all tenants of the workload, each on its own
//! rate_per_s = 1.0
//! process.gamma.cv = 3.95 # `process` and `daily` are those above unless given
//! ```
//!
//! Or a recorded trace, whose formats [`super::data`] lists; nothing above goes with it:
//!
//! ```toml
//! [timeline.arrivals]
//! trace = "azure_llm_2023_code.csv.gz" # relative to this file; also compressed with gzip
//! speed = 1.0                          # 2 plays it twice as fast
//! repeat = false                       # whether it starts again at its end
//! ```

use super::data::Plan;
use super::intensity::{Burst, Curve, Daily};
use super::law::{CELL_BITS, CV_MAX, CV_MIN, Family, Law};
use super::renewal::{Renewal, page};
use super::{Arrivals, PEAK_TO_TROUGH_MAX, RATE_MAX_PER_S, RATE_MIN_PER_S};
use crate::source::{At, Diagnostic, Table, Value, describe_list};
use crate::timeline::{ENTRIES_MAX, Names};
use crate::units::{Duration, Instant};
use crate::workload::NO_NAME;

/// Mean rate where no arrivals are declared: that of Azure's chat service of 2023 (19,366 requests in 3,502 s;
/// measured on AzureLLMInferenceTrace_conv.csv).
const RATE_PER_S: f64 = 5.5;
/// Highest rate of a day over its lowest where `daily` does not say: measured on ServeGen's deepseek-r1
/// clients, sums over windows of ten minutes of one day. (Its mm-image clients have 2.7.)
const PEAK_TO_TROUGH: f64 = 9.9;
/// Hour of the highest rate where `daily` does not say: an assumption. Services for work peak in the
/// afternoon; that is also when most incidents of providers begin (55 % between 14 and 22 h UTC; Chu et al., ICPE
/// 2025).
const PEAK_AT_H: f64 = 15.0;
/// Latest second at which a burst may begin, and the longest one: ten years.
const BURST_S_MAX: f64 = 315_576_000.0;
/// Largest factor of a burst.
const FACTOR_MAX: f64 = 10_000.0;

/// Arrivals as they are declared.
#[derive(Clone, Debug)]
pub(in crate::timeline) enum Declared {
    /// Nothing is missing.
    Ready(Arrivals),
    /// The data of a trace is missing.
    Trace(Plan),
}

/// Reads the table `[timeline.arrivals]`; the default day if there is none. `None` if it is wrong: the
/// reasons are with the value's file.
pub(in crate::timeline) fn read(value: Option<&Value<'_>>, names: &Names<'_>) -> Option<Declared> {
    let Some(value) = value else {
        let peak_at = Duration::from_secs_f64(PEAK_AT_H * 3_600.0);
        return Arrivals::daily(RATE_PER_S, PEAK_TO_TROUGH, peak_at).map(Declared::Ready);
    };
    let mut table = value.table()?;
    let declared = match table.get("trace") {
        Some(file) => trace(&file, &mut table, names),
        None => renewals(&mut table, names).map(Declared::Ready),
    };
    table.finish();
    declared
}

fn trace(file: &Value<'_>, table: &mut Table<'_>, names: &Names<'_>) -> Option<Declared> {
    for key in ["rate_per_s", "process", "daily", "burst", "tenant"] {
        if let Some(stray) = table.get(key) {
            stray.error_help(
                format!("`{}` does not go with `trace`", stray.path()),
                "the times of a trace are taken as they are, but for `speed`",
            );
        }
    }
    let file = file.string();
    let speed = table.get("speed");
    let speed = speed.map_or(Some(1.0), |value| value.number_in(0.001, 1_000.0));
    let repeat = table.get("repeat");
    let repeat = repeat.map_or(Some(false), |value| value.boolean());
    Some(Declared::Trace(Plan {
        file: file?,
        speed: speed?,
        repeat: repeat?,
        tenants: names.tenants.iter().cloned().zip(0..).collect(),
    }))
}

/// What a stream of arrivals may say, and inherits if it does not.
#[derive(Clone)]
struct Manner {
    law: Law,
    daily: Option<Daily>,
}

fn renewals(table: &mut Table<'_>, names: &Names<'_>) -> Option<Arrivals> {
    for key in ["speed", "repeat"] {
        if let Some(stray) = table.get(key) {
            stray.error(format!("`{}` goes with `trace` only", stray.path()));
        }
    }
    let mut laws = Vec::new();
    let manner = Manner {
        law: Law::Poisson,
        daily: None,
    };
    let manner = self::manner(table, &manner, &mut laws);
    let tenants = table.get("tenant");
    let bursts = table.get("burst");
    let bursts = bursts.map_or(Some(Vec::new()), |value| {
        self::bursts(&value, names, tenants.is_some())
    });
    let rate = match (&tenants, table.get("rate_per_s")) {
        (None, Some(value)) => rate(&value).map(Some),
        (None, None) => {
            let _ = table.require("rate_per_s");
            None
        }
        (Some(_), Some(stray)) => {
            stray.error_help(
                format!(
                    "`{}` is declared for each tenant or for all, not both",
                    stray.path()
                ),
                "leave it out here: the rate of all is the sum of the tenants'",
            );
            None
        }
        (Some(_), None) => Some(None),
    };
    let streams: Vec<(u16, f64, Manner)> = match tenants {
        Some(value) => by_tenant(&value, names, manner.as_ref(), &mut laws)?,
        None => vec![(NO_NAME, rate??, manner?)],
    };
    rate?;
    let bursts = bursts?;
    let mut sound = true;
    let mut renewals = Vec::with_capacity(streams.len());
    for (tenant, rate_per_s, manner) in streams {
        let own = bursts
            .iter()
            .filter(|(whose, _)| whose.is_none_or(|whose| whose == tenant))
            .map(|(_, burst)| *burst);
        let own: Vec<Burst> = own.collect();
        let curve = Curve::new(rate_per_s, manner.daily, &own);
        let highest = rate_per_s * curve.highest_factor();
        if highest > RATE_MAX_PER_S {
            sound = false;
            table.error(format!(
                "bursts that overlap make the rate {highest} per second; at most {RATE_MAX_PER_S}"
            ));
        }
        let page = match names.tenants.get(usize::from(tenant)) {
            Some(name) => page("arrivals of a tenant", name),
            None => page("arrivals", ""),
        };
        renewals.push(Renewal {
            page,
            tenant,
            law: manner.law,
            curve,
        });
    }
    sound.then(|| Arrivals::renewals(renewals))
}

fn rate(value: &Value<'_>) -> Option<f64> {
    // That a rate is not positive is plainer than that it is below a millionth.
    value.positive()?;
    value.number_in(RATE_MIN_PER_S, RATE_MAX_PER_S)
}

/// Laws that were made already: tenants that say the same share a table.
type Laws = Vec<(Family, f64, Law)>;

/// Reads `process` and `daily`.
fn manner(table: &mut Table<'_>, inherited: &Manner, laws: &mut Laws) -> Option<Manner> {
    let law = match table.get("process") {
        Some(value) => process(&value, laws),
        None => Some(inherited.law.clone()),
    };
    let daily = match table.get("daily") {
        Some(value) => daily(&value).map(Some),
        None => Some(inherited.daily.clone()),
    };
    Some(Manner {
        law: law?,
        daily: daily?,
    })
}

fn process(value: &Value<'_>, laws: &mut Laws) -> Option<Law> {
    if value.is_str() {
        let index = value.one_of("process", &["poisson", "even"]);
        return index.map(|index| [Law::Poisson, Law::Even][index].clone());
    }
    if !value.is_table() {
        value.error(format!(
            "`{}` must be \"poisson\", \"even\", {{ gamma = {{ cv = 2.3 }} }} or {{ weibull = {{ cv = 2.3 }} }}",
            value.path()
        ));
        return None;
    }
    let mut table = value.table()?;
    let families: Vec<(Family, Value<'_>)> =
        [("gamma", Family::Gamma), ("weibull", Family::Weibull)]
            .into_iter()
            .filter_map(|(name, family)| Some((family, table.get(name)?)))
            .collect();
    let law = match families.as_slice() {
        [(family, value)] => spread(*family, value, laws),
        [] => {
            if table.is_empty() {
                table.error(format!("`{}` needs `gamma` or `weibull`", table.path()));
            }
            None
        }
        [_, (_, second), ..] => {
            second.error("a process is either `gamma` or `weibull`, not both");
            None
        }
    };
    table.finish();
    law
}

fn spread(family: Family, value: &Value<'_>, laws: &mut Laws) -> Option<Law> {
    let mut table = value.table()?;
    let cv = table.require("cv");
    let cv = cv.and_then(|value| {
        let cv = value.number()?;
        if cv == 0.0 {
            value.error_help(
                format!("`{}` is 0", value.path()),
                "gaps that do not vary are written process = \"even\"",
            );
            return None;
        }
        value.number_in(CV_MIN, CV_MAX)
    });
    table.finish();
    let cv = cv?;
    let known = laws
        .iter()
        .find(|(other, at, _)| *other == family && *at == cv);
    if let Some((.., law)) = known {
        return Some(law.clone());
    }
    let law = Law::new(family, cv, CELL_BITS);
    laws.push((family, cv, law.clone()));
    Some(law)
}

fn daily(value: &Value<'_>) -> Option<Daily> {
    let mut table = value.table()?;
    let ratio = table.get("peak_to_trough");
    let ratio = ratio.map_or(Some(PEAK_TO_TROUGH), |value| {
        value.number_in(1.0, PEAK_TO_TROUGH_MAX)
    });
    let peak = table.get("peak_at_h");
    let peak = peak.map_or(Some(PEAK_AT_H), |value| value.number_in(0.0, 24.0));
    table.finish();
    let peak_at = Duration::from_secs_f64(peak? * 3_600.0);
    Some(Daily::new(ratio?, peak_at))
}

/// Reads the tables `tenant.<name>`: index, rate and manner of each, by index.
fn by_tenant(
    value: &Value<'_>,
    names: &Names<'_>,
    inherited: Option<&Manner>,
    laws: &mut Laws,
) -> Option<Vec<(u16, f64, Manner)>> {
    let mut table = value.table()?;
    let mut declared: Vec<(u16, Option<(f64, Manner)>)> = Vec::new();
    let fallback = Manner {
        law: Law::Poisson,
        daily: None,
    };
    let entries = table.entries();
    if entries.len() > ENTRIES_MAX {
        table.error(format!(
            "more than {ENTRIES_MAX} tenants have arrivals of their own"
        ));
        return None;
    }
    let mut sound = inherited.is_some();
    for (name, value) in entries {
        let index = tenant(&name, names);
        if let Err(problem) = &index {
            value.report_diagnostic(*problem.clone());
        }
        let Some(mut own) = value.table() else {
            sound = false;
            continue;
        };
        let rate = own.require("rate_per_s");
        let rate = rate.and_then(|value| self::rate(&value));
        let manner = manner(&mut own, inherited.unwrap_or(&fallback), laws);
        own.finish();
        match index {
            Ok(index) => declared.push((index, rate.zip(manner))),
            Err(_) => sound = false,
        }
    }
    let silent: Vec<&str> = names
        .tenants
        .iter()
        .enumerate()
        .filter(|(index, _)| {
            !declared
                .iter()
                .any(|(known, _)| usize::from(*known) == *index)
        })
        .map(|(_, name)| name.as_str())
        .collect();
    // An unknown name is most likely one of those that seem to be missing.
    if sound && !silent.is_empty() {
        value.error_help(
            format!("no arrivals are declared for {}", describe_list(silent)),
            "where one tenant has its own rate, every tenant of the workload needs one",
        );
        return None;
    }
    if declared.is_empty() && sound {
        value.error(format!("`{}` names no tenant", value.path()));
        return None;
    }
    declared.sort_by_key(|(index, _)| *index);
    let count = declared.len();
    let streams: Vec<_> = declared
        .into_iter()
        .filter_map(|(index, own)| own.map(|(rate, manner)| (index, rate, manner)))
        .collect();
    (sound && streams.len() == count).then_some(streams)
}

fn tenant(name: &At<String>, names: &Names<'_>) -> Result<u16, Box<Diagnostic>> {
    let known = names.tenants.iter().position(|known| *known == name.value);
    known.map(|index| index as u16).ok_or_else(|| {
        let mut unknown = name.unknown("tenant", names.tenants.iter().map(String::as_str));
        if names.tenants.is_empty() {
            unknown.help = vec!["the workload has no tenants".to_owned()];
        }
        Box::new(unknown)
    })
}

/// Reads the tables `[[burst]]`: whose each is, if it is one tenant's, and what it does.
fn bursts(
    value: &Value<'_>,
    names: &Names<'_>,
    by_tenant: bool,
) -> Option<Vec<(Option<u16>, Burst)>> {
    let items = value.list()?;
    if items.len() > ENTRIES_MAX {
        value.error(format!("more than {ENTRIES_MAX} bursts"));
        return None;
    }
    let read: Vec<_> = items
        .iter()
        .filter_map(|item| burst(item, names, by_tenant))
        .collect();
    (read.len() == items.len()).then_some(read)
}

fn burst(item: &Value<'_>, names: &Names<'_>, by_tenant: bool) -> Option<(Option<u16>, Burst)> {
    let mut table = item.table()?;
    let at = table.require("at_s");
    let at = at.and_then(|value| value.number_in(0.0, BURST_S_MAX));
    let length = table.require("for_s");
    let length = length.and_then(|value| {
        let seconds = value.positive()?;
        value.number_in(0.0, BURST_S_MAX)?;
        // Shorter than a microsecond is no time at all.
        let length = Duration::from_secs_f64(seconds);
        if length == Duration::ZERO {
            value.error(format!("`{}` is shorter than a microsecond", value.path()));
        }
        (length > Duration::ZERO).then_some(length)
    });
    let factor = table.require("factor");
    let factor = factor.and_then(|value| value.number_in(0.0, FACTOR_MAX));
    let whose = match table.get("tenant") {
        None => Some(None),
        Some(value) if !by_tenant => {
            value.error_help(
                format!("`{}`: arrivals are not declared by tenant", value.path()),
                "give each tenant a table [timeline.arrivals.tenant.NAME] with its `rate_per_s`",
            );
            None
        }
        Some(value) => value.string().and_then(|name| match tenant(&name, names) {
            Ok(index) => Some(Some(index)),
            Err(problem) => {
                value.report_diagnostic(*problem);
                None
            }
        }),
    };
    table.finish();
    let burst = Burst {
        at: Instant::ZERO.after(Duration::from_secs_f64(at?)),
        length: length?,
        factor: factor?,
    };
    Some((whose?, burst))
}
