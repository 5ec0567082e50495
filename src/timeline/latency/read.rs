//! Reading `[timeline.latency]`.

use super::preset::PRESETS;
use super::{Latency, Spread, Stall};
use crate::source::{Table, Value};
use crate::timeline::Names;
use crate::units::Probability;

/// Most tokens that may stand in for an unknown length.
const TOKENS_MAX: u64 = 10_000_000;

/// The latency of every route, by route of the catalogue: what its own table says, else what the table
/// for all says, else [`Latency::hosted`]. Providers that nobody described are usual ones, not instant
/// ones.
pub(in crate::timeline) fn read(value: Option<&Value<'_>>, names: &Names<'_>) -> Vec<Latency> {
    let mut spreads = Spreads::default();
    let routes = names.catalogue.routes.len();
    let Some(mut table) = value.and_then(Value::table) else {
        return vec![Latency::hosted(); routes];
    };
    let own = table.get("route").and_then(|value| value.table());
    let usual = latency(&mut table, Latency::hosted(), &mut spreads);
    table.finish();
    let mut all = vec![usual.clone(); routes];
    let entries = own.map(|mut own| own.entries()).unwrap_or_default();
    for (name, value) in entries {
        match names.catalogue.find(&name.value) {
            Some(route) => {
                if let Some(mut table) = value.table() {
                    let own = latency(&mut table, usual.clone(), &mut spreads);
                    table.finish();
                    all[usize::from(route.0)] = own;
                }
            }
            None => {
                value.report_diagnostic(name.unknown("route", names.catalogue.names()));
            }
        }
    }
    all
}

/// Lognormal factors that were made already: many routes have the same, and making one takes a
/// millisecond.
#[derive(Default)]
struct Spreads(Vec<(f64, Spread)>);

impl Spreads {
    fn lognormal(&mut self, sigma: f64) -> Option<Spread> {
        if let Some((_, made)) = self.0.iter().find(|(known, _)| *known == sigma) {
            return Some(made.clone());
        }
        let made = Spread::lognormal(sigma)?;
        self.0.push((sigma, made.clone()));
        Some(made)
    }

    fn read(&mut self, value: &Value<'_>) -> Option<Spread> {
        self.lognormal(value.number_in(0.0, Spread::SIGMA_MAX)?)
    }
}

/// What is not in the table is as in `base`, or as in the preset the table names.
fn latency(table: &mut Table<'_>, base: Latency, spreads: &mut Spreads) -> Latency {
    let mut latency = base;
    if let Some(value) = table.get("preset") {
        let names = PRESETS.map(|preset| preset.name);
        if let Some(index) = value.one_of("preset", &names) {
            latency = (PRESETS[index].make)();
        }
    }
    let mut micros = |key: &str, max_ms: f64, into: &mut f64| {
        if let Some(ms) = table.get(key).and_then(|v| v.number_in(0.0, max_ms)) {
            *into = ms * 1e3;
        }
    };
    micros(
        "overhead_ms",
        Latency::DELAY_MAX_MS,
        &mut latency.overhead_us,
    );
    micros(
        "per_input_token_ms",
        Latency::PER_TOKEN_MAX_MS,
        &mut latency.per_input_token_us,
    );
    micros(
        "per_output_token_ms",
        Latency::PER_TOKEN_MAX_MS,
        &mut latency.per_output_token_us,
    );
    if let Some(share) = table
        .get("cached_share")
        .and_then(|value| value.probability())
    {
        latency.cached_share = share.get();
    }
    spread(table, &mut latency, spreads);
    load(table, &mut latency);
    if let Some(value) = table.get("stall") {
        if value.is_table() {
            if let Some(stall) = value.table().and_then(|table| stall(table, spreads)) {
                latency.stall = Some(stall);
            }
        } else if value.boolean() == Some(true) {
            value.error_help(
                format!("`{}` is false or a table", value.path()),
                "write `stall = { share = 0.001, seconds = 30 }`",
            );
        } else {
            latency.stall = None;
        }
    }
    if let Some(mut tokens) = table.get("unknown_tokens").and_then(|value| value.table()) {
        let mut count = |key: &str, into: &mut u32| {
            let value = tokens.get(key);
            if let Some(count) = value.and_then(|value| value.integer_in(1, TOKENS_MAX)) {
                *into = count as u32;
            }
        };
        count("input", &mut latency.unknown_input);
        count("output", &mut latency.unknown_output);
        tokens.finish();
    }
    latency
}

/// `sigma` or `spread`, and `output_sigma`.
fn spread(table: &mut Table<'_>, latency: &mut Latency, spreads: &mut Spreads) {
    let sigma = table.get("sigma");
    let named = table.get("spread");
    if let (Some(_), Some(named)) = (&sigma, &named) {
        named.error_help(
            format!("`{}` does not go with `sigma`", named.path()),
            "`sigma` is for `spread = \"lognormal\"`, which is what it is without `spread`",
        );
    } else if let Some(first) = sigma.and_then(|value| spreads.read(&value)) {
        latency.first = first;
    } else if let Some(value) = named {
        match value.one_of("spread", &["none", "exponential"]) {
            Some(0) => latency.first = Spread::NONE,
            Some(_) => latency.first = Spread::exponential(),
            None => {}
        }
    }
    if let Some(pace) = table
        .get("output_sigma")
        .and_then(|value| spreads.read(&value))
    {
        latency.pace = pace;
    }
}

/// `slots` and `load_factor`.
fn load(table: &mut Table<'_>, latency: &mut Latency) {
    if let Some(slots) = table
        .get("slots")
        .and_then(|value| value.integer_in(1, u64::from(Latency::SLOTS_MAX)))
    {
        latency.slots = u32::try_from(slots)
            .ok()
            .and_then(std::num::NonZeroU32::new);
        if slots == 1 {
            // What the table for all says of load cannot hold for one slot.
            latency.load_factor = 1.0;
        }
    }
    let Some(value) = table.get("load_factor") else {
        return;
    };
    let Some(factor) = value.number_in(1.0, Latency::LOAD_FACTOR_MAX) else {
        return;
    };
    match latency.slots() {
        None => value.error_help(
            format!("`{}` needs `slots`", value.path()),
            "load is the share of slots that are taken",
        ),
        Some(1) if factor > 1.0 => value.error_help(
            format!("`{}` means nothing with one slot", value.path()),
            "times grow from those of one attempt alone to those of a full house, and here that is the same",
        ),
        Some(_) => latency.load_factor = factor,
    }
}

fn stall(mut table: Table<'_>, spreads: &mut Spreads) -> Option<Stall> {
    let share = table.require("share").and_then(|value| value.probability());
    let seconds = table
        .require("seconds")
        .and_then(|value| value.number_in(0.0, Latency::DELAY_MAX_MS / 1e3));
    let spread = match table.get("sigma") {
        Some(value) => spreads.read(&value),
        None => Some(Spread::NONE),
    };
    table.finish();
    let share: Probability = share?;
    Some(Stall {
        share,
        us: seconds? * 1e6,
        spread: spread?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::source::{Diagnostics, Document, SourceFile};

    fn read_text(text: &str) -> Result<Vec<Latency>, Vec<String>> {
        let catalogue =
            Catalogue::of_unknown_routes(&["small".to_owned(), "medium".into(), "large".into()]);
        let names = Names {
            catalogue: &catalogue,
            tenants: &[],
        };
        let file = SourceFile::new("w.toml", text);
        let document = Document::parse(&file);
        let context = document.context();
        let mut root = document.table(&context);
        let all = read(root.get("latency").as_ref(), &names);
        let mut found = Diagnostics::default();
        context.finish(&mut found);
        if found.0.is_empty() {
            return Ok(all);
        }
        let line = |one: &crate::source::Diagnostic| {
            let place = one.location.as_ref().unwrap().short();
            let help = one.help.join(" ");
            format!("{place}: {} | {help}", one.message)
        };
        Err(found.0.iter().map(line).collect())
    }

    #[test]
    fn providers_that_nobody_described_are_usual_ones() {
        assert_eq!(read_text(""), Ok(vec![Latency::hosted(); 3]));
        assert_eq!(read_text("[latency]"), Ok(vec![Latency::hosted(); 3]));
    }

    #[test]
    fn a_route_has_what_it_says_then_its_preset_then_what_holds_for_all() {
        let all = read_text(
            "[latency]\noverhead_ms = 40\nper_output_token_ms = 0.5\nsigma = 0.3\nslots = 8\n\
             load_factor = 2\nstall = false\n\
             [latency.route.large]\nper_input_token_ms = 0.25\nslots = 2\n\
             [latency.route.small]\npreset = \"hosted-8b\"\ncached_share = 0\nstall = { share = 0.5, seconds = 3, sigma = 0.3 }\n\
             unknown_tokens = { input = 10, output = 20 }\n",
        )
        .unwrap();
        let usual = Latency {
            overhead_us: 40_000.0,
            per_output_token_us: 500.0,
            first: Spread::lognormal(0.3).unwrap(),
            stall: None,
            ..Latency::hosted().with_slots(8, 2.0).unwrap()
        };
        assert_eq!(all[1], usual);
        let large = Latency {
            per_input_token_us: 250.0,
            ..usual.clone().with_slots(2, 2.0).unwrap()
        };
        assert_eq!(all[2], large);
        let small = Latency {
            cached_share: 0.0,
            unknown_input: 10,
            unknown_output: 20,
            ..Latency::preset("hosted-8b").unwrap()
        };
        let spread = Spread::lognormal(0.3).unwrap();
        let half = Probability::new(0.5).unwrap();
        assert_eq!(all[0], small.with_stall(half, 3_000.0, spread).unwrap());
    }

    #[test]
    fn everything_has_a_key() {
        let all = read_text(
            "[latency]\npreset = \"instant\"\noverhead_ms = 1\nper_input_token_ms = 2\nper_output_token_ms = 3\n\
             cached_share = 0.5\nspread = \"exponential\"\noutput_sigma = 0.1\nslots = 4\nload_factor = 1.5\n",
        );
        let expected = Latency::new(1.0, 2.0, 3.0)
            .unwrap()
            .with_cached_share(Probability::new(0.5).unwrap())
            .with_spread(Spread::exponential())
            .with_pace(Spread::lognormal(0.1).unwrap())
            .with_slots(4, 1.5)
            .unwrap();
        assert_eq!(all, Ok(vec![expected; 3]));
        let none = read_text("[latency]\nspread = \"none\"\n").unwrap();
        assert_eq!(none[0], Latency::hosted().with_spread(Spread::NONE));
    }

    #[test]
    fn one_slot_drops_the_load_factor_that_holds_for_all() {
        let all =
            read_text("[latency]\nslots = 4\nload_factor = 3\n[latency.route.small]\nslots = 1\n");
        assert_eq!(
            all.unwrap()[0],
            Latency::hosted().with_slots(1, 1.0).unwrap()
        );
    }

    #[test]
    fn every_mistake_is_named_at_its_place() {
        let cases = [
            (
                "slots = 0",
                "`latency.slots` must be between 1 and 65536, but is 0",
            ),
            ("slots = 2.5", "must be a whole number, but is 2.5"),
            (
                "overhead_ms = -1",
                "`latency.overhead_ms` must be between 0 and 86400000, but is -1",
            ),
            (
                "per_input_token_ms = -0.5",
                "must be between 0 and 60000, but is -0.5",
            ),
            ("per_output_token_ms = nan", "must be a finite number"),
            (
                "per_output_token_ms = \"25\"",
                "must be a number, not a string",
            ),
            (
                "sigma = 3.5",
                "`latency.sigma` must be between 0 and 3, but is 3.5",
            ),
            ("sigma = -0.1", "must be between 0 and 3"),
            ("output_sigma = 9", "must be between 0 and 3"),
            (
                "sigma = 0.2\nspread = \"exponential\"",
                "`latency.spread` does not go with `sigma`",
            ),
            ("spread = \"normal\"", "unknown spread `normal`"),
            ("cached_share = 28", "28 % is written 0.28"),
            ("load_factor = 2", "`latency.load_factor` needs `slots`"),
            (
                "slots = 4\nload_factor = 0.5",
                "must be between 1 and 1000, but is 0.5",
            ),
            ("slots = 1\nload_factor = 2", "means nothing with one slot"),
            (
                "stall = { share = 0.1 }",
                "missing key `seconds` in `[latency.stall]`",
            ),
            (
                "stall = { share = 1.5, seconds = -1 }",
                "must be between 0 and 86400, but is -1",
            ),
            ("stall = true", "`latency.stall` is false or a table"),
            (
                "stall = { share = 0.1, seconds = 1, sgma = 1 }",
                "did you mean `sigma`?",
            ),
            (
                "preset = \"hosted-7b\"",
                "unknown preset `hosted-7b` | did you mean `hosted-70b`?",
            ),
            (
                "overhaed_ms = 1",
                "unknown key `overhaed_ms` in `[latency]` | did you mean `overhead_ms`?",
            ),
            (
                "route.smal.slots = 3",
                "unknown route `smal` | did you mean `small`?",
            ),
            (
                "route.small.slots = 0",
                "`latency.route.small.slots` must be between 1 and 65536",
            ),
            (
                "route.small.slot = 1",
                "unknown key `slot` in `[latency.route.small]`",
            ),
            ("route.small = 3", "`latency.route.small` must be a table"),
            (
                "unknown_tokens = { input = 0 }",
                "must be between 1 and 10000000, but is 0",
            ),
        ];
        for (text, expected) in cases {
            let found = read_text(&format!("[latency]\n{text}\n")).expect_err(text);
            assert!(
                found.iter().any(|line| line.contains(expected)),
                "{text}: {found:?}"
            );
            assert!(
                found.iter().all(|line| line.starts_with("w.toml:")),
                "{found:?}"
            );
        }
        let both = read_text("latency = 3\n").expect_err("not a table");
        assert!(both[0].contains("`latency` must be a table"), "{both:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_table_makes_the_reader_panic(
            text in "((sigma|slots|load_factor|overhead_ms|stall|spread|route|preset|output_sigma)( = )[-0-9\\[\\]{}\"a-z.,=]{0,9}\n){0,8}",
        ) {
            let _ = read_text(&format!("[latency]\n{text}"));
        }
    }
}
