//! Two documents of the same kind, side by side: which numbers are not the same, and which verdicts changed.
//!
//! It reads the JSON that every command writes, so it works for all of them: whatever has a value, limits and a
//! method is an estimate, whatever is called `verdict`, `outcome` or `result` is a verdict, and both are found again in the other
//! document by what they are about, not by where they stand. It tests nothing: two runs on the same requests are
//! tied together in a way that their files do not tell, so all it says of intervals is whether they overlap. For a verdict on a change
//! there is `gate`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::format::decimal;
use super::sheet::{Sheet, block};

/// Most lines of a table.
const LINES_MAX: usize = 60;
/// What tells the members of a list apart, if they say it.
const IDENTITY: [&str; 12] = [
    "policy",
    "baseline",
    "by",
    "task",
    "tenant",
    "name",
    "requirement",
    "question",
    "route",
    "day",
    "kind",
    "path",
];
/// Numbers that say what was asked.
const SETTINGS: [&str; 8] = [
    "margin",
    "alpha",
    "requests",
    "replicates",
    "level",
    "seed",
    "version",
    "command",
];
/// What verdicts are called.
const VERDICTS: [&str; 3] = ["verdict", "outcome", "result"];

/// An estimate as it stands in a document.
#[derive(Clone, Debug, PartialEq)]
struct Number {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

/// What a document says, by what it is about.
#[derive(Default)]
struct Said {
    numbers: BTreeMap<String, Number>,
    verdicts: BTreeMap<String, String>,
    /// Digests by path.
    inputs: BTreeMap<String, String>,
    /// What was asked, by its name.
    settings: BTreeMap<String, String>,
}

/// The documents side by side. `names` are what they are called.
///
/// # Errors
///
/// In words, if one of them is no document of this program, or they are of different kinds.
pub fn diff(names: [&str; 2], documents: [&Value; 2]) -> Result<Sheet, String> {
    let schema = |index: usize| {
        let schema = documents[index].get("schema").and_then(Value::as_str);
        schema
            .filter(|schema| schema.starts_with("routelab."))
            .ok_or_else(|| {
                format!(
                    "`{}` is no document of routelab: it has no `schema`",
                    names[index]
                )
            })
    };
    let (first, second) = (schema(0)?, schema(1)?);
    if first != second {
        return Err(format!(
            "`{}` is a `{first}` and `{}` is a `{second}`: only documents of one kind can be compared",
            names[0], names[1]
        ));
    }
    let [before, after] = documents.map(said);
    let numbers = keys(&before.numbers, &after.numbers);
    let (mut lines, mut records, mut equal, mut apart) = (Vec::new(), Vec::new(), 0_u64, 0_u64);
    for key in &numbers {
        let (one, other) = (before.numbers.get(key), after.numbers.get(key));
        if one == other {
            equal += 1;
            continue;
        }
        let intervals = intervals(one, other);
        apart += u64::from(intervals == "apart");
        let change = one.zip(other);
        let change = change.and_then(|(one, other)| Some(other.value? - one.value?));
        lines.push(vec![
            key.clone(),
            shown(one),
            shown(other),
            change.map_or_else(String::new, |change| digits(change, true)),
            intervals.to_owned(),
        ]);
        let value =
            |of: Option<&Number>, pick: fn(&Number) -> Option<f64>| json!(of.and_then(pick));
        let record = json!({
            "number": key,
            "before": value(one, |one| one.value),
            "before_low": value(one, |one| one.low),
            "before_high": value(one, |one| one.high),
            "after": value(other, |one| one.value),
            "after_low": value(other, |one| one.low),
            "after_high": value(other, |one| one.high),
            "change": change,
            "intervals": intervals,
        });
        if let Value::Object(record) = record {
            records.push(record);
        }
    }
    // What is sure to have changed stands first.
    let rank = |word: &str| {
        ["apart", "new", "gone", "overlap", "unknown"]
            .iter()
            .position(|known| *known == word)
    };
    lines.sort_by_key(|line| rank(&line[4]));
    let absent = |text: Option<&String>| text.cloned().unwrap_or_else(|| "(absent)".to_owned());
    let changed = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        let keys = keys(one, other).into_iter();
        let differing = keys.filter(|key| one.get(key) != other.get(key));
        differing
            .map(|key| vec![absent(one.get(&key)), absent(other.get(&key)), key])
            .collect::<Vec<Vec<String>>>()
    };
    let verdicts = changed(&before.verdicts, &after.verdicts);
    let inputs = changed(&before.inputs, &after.inputs);
    let settings = changed(&before.settings, &after.settings);
    if numbers.is_empty() && before.verdicts.is_empty() && after.verdicts.is_empty() {
        return Err(format!(
            "there is no number in `{}` or `{}`",
            names[0], names[1]
        ));
    }
    let summary = format!(
        "{} of {} numbers differ, {apart} of them by more than their intervals; {} of {} verdicts changed; {}{}.",
        lines.len(),
        numbers.len(),
        verdicts.len(),
        keys(&before.verdicts, &after.verdicts).len(),
        match inputs.len() {
            0 => "the inputs are the same".to_owned(),
            1 => "one input is not the same".to_owned(),
            n => format!("{n} inputs are not the same"),
        },
        match settings.len() {
            0 => String::new(),
            _ => format!(
                "; what was asked is not: {}",
                super::notes::listed(settings.iter().map(|line| line[2].as_str()))
            ),
        }
    );
    let mut facts = Map::new();
    facts.insert("of".to_owned(), json!(first));
    facts.insert("equal".to_owned(), json!(equal));
    facts.insert("numbers".to_owned(), json!(records));
    let listed = |changed: &[Vec<String>]| {
        let entry =
            |line: &Vec<String>| json!({ "about": line[2], "before": line[0], "after": line[1] });
        changed.iter().map(entry).collect::<Vec<Value>>()
    };
    facts.insert("verdicts".to_owned(), json!(listed(&verdicts)));
    facts.insert("inputs".to_owned(), json!(listed(&inputs)));
    facts.insert("settings".to_owned(), json!(listed(&settings)));
    let left = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    let mut notes = vec![
        "intervals that overlap do not show that nothing changed, and numbers of the same requests are tied together: for a verdict on a change use `routelab gate`".to_owned(),
    ];
    if left > 0 {
        notes.push(format!(
            "{left} more numbers differ; they are in JSON and CSV"
        ));
    }
    let turned = |lines: Vec<Vec<String>>| -> Vec<Vec<String>> {
        let turn = |line: Vec<String>| vec![line[2].clone(), short(&line[0]), short(&line[1])];
        lines.into_iter().map(turn).collect()
    };
    let blocks = vec![
        block(
            "What was asked".to_owned(),
            &[("about", false), ("before", false), ("after", false)],
            turned(settings),
        ),
        block(
            "Verdicts that changed".to_owned(),
            &[("about", false), ("before", false), ("after", false)],
            turned(verdicts),
        ),
        block(
            "Numbers that differ".to_owned(),
            &[
                ("number", false),
                ("before", true),
                ("after", true),
                ("change", true),
                ("intervals", false),
            ],
            lines,
        ),
        block(
            "Inputs that are not the same".to_owned(),
            &[("file", false), ("before", false), ("after", false)],
            turned(inputs),
        ),
    ];
    Ok(Sheet {
        schema: "routelab.diff/1",
        title: format!("{} and {}, {first}", names[0], names[1]),
        blocks: blocks
            .into_iter()
            .filter(|block| !block.lines.is_empty())
            .collect(),
        file: None,
        figures: Vec::new(),
        summary,
        notes,
        facts,
        records,
    })
}

fn keys<V>(one: &BTreeMap<String, V>, other: &BTreeMap<String, V>) -> Vec<String> {
    let mut keys: Vec<String> = one.keys().chain(other.keys()).cloned().collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Whether both intervals overlap, as far as there are any.
fn intervals(one: Option<&Number>, other: Option<&Number>) -> &'static str {
    match (one, other) {
        (None, _) => "new",
        (_, None) => "gone",
        (Some(one), Some(other)) => match (one.low, one.high, other.low, other.high) {
            (Some(a), Some(b), Some(c), Some(d)) if b < c || d < a => "apart",
            (Some(_), Some(_), Some(_), Some(_)) => "overlap",
            _ => "unknown",
        },
    }
}

fn shown(number: Option<&Number>) -> String {
    let Some(number) = number else {
        return "(absent)".to_owned();
    };
    match (number.value, number.low, number.high) {
        (Some(value), Some(low), Some(high)) => format!(
            "{} [{}, {}]",
            digits(value, false),
            digits(low, false),
            digits(high, false)
        ),
        (Some(value), ..) => digits(value, false),
        _ => "unknown".to_owned(),
    }
}

/// Four significant digits, for numbers whose unit nobody knows here.
fn digits(value: f64, signed: bool) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        m if m >= 1_000.0 => 0,
        m if m >= 100.0 => 1,
        m if m >= 10.0 => 2,
        m if m >= 1.0 || m == 0.0 => 3,
        m if m >= 0.01 => 4,
        _ => 6,
    };
    let sign = if signed && value > 0.0 { "+" } else { "" };
    format!("{sign}{}", decimal(value, decimals))
}

/// The beginning of a digest; anything else as it is.
fn short(text: &str) -> String {
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest {
        format!("{}…", &text[..12])
    } else {
        text.to_owned()
    }
}

fn said(document: &Value) -> Said {
    let mut said = Said::default();
    let inputs = document.pointer("/manifest/inputs");
    for input in inputs.and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| input.get(key).and_then(Value::as_str).map(str::to_owned);
        if let (Some(path), Some(digest)) = (text("path"), text("sha256")) {
            said.inputs.insert(path, digest);
        }
    }
    for key in ["seed", "version", "command"] {
        if let Some(value) = document.pointer(&format!("/manifest/{key}")) {
            let words = value.as_array().map(|words| {
                let words = words.iter().filter_map(Value::as_str);
                words.collect::<Vec<&str>>().join(" ")
            });
            let text = words.or_else(|| value.as_str().map(str::to_owned));
            let text = text.unwrap_or_else(|| value.to_string());
            said.settings.insert(key.to_owned(), text);
        }
    }
    if let Some(object) = document.as_object() {
        for (key, value) in object {
            if key != "manifest" {
                walk(value, key, key, &mut said);
            }
        }
    }
    said
}

/// Goes through a value that is about `about` and stands under `key`.
fn walk(value: &Value, key: &str, about: &str, said: &mut Said) {
    match value {
        Value::Object(object) if object.contains_key("value") && object.contains_key("method") => {
            let number = |key: &str| object.get(key).and_then(Value::as_f64);
            let number = Number {
                value: number("value"),
                low: number("low"),
                high: number("high"),
            };
            said.numbers.insert(about.to_owned(), number);
        }
        Value::Object(object) => {
            for (key, value) in object {
                walk(value, key, &format!("{about}.{key}"), said);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let identity = IDENTITY.iter().filter_map(|key| item.get(key)?.as_str());
                let identity: Vec<&str> = identity.collect();
                let mut place = if identity.is_empty() {
                    format!("{about}[{index}]")
                } else {
                    format!("{about}[{}]", identity.join(", "))
                };
                // Two of the same name are told apart by where they stand.
                if !identity.is_empty()
                    && items[..index]
                        .iter()
                        .any(|other| IDENTITY.iter().all(|key| other.get(key) == item.get(key)))
                {
                    place.push_str(&format!("#{index}"));
                }
                walk(item, key, &place, said);
            }
        }
        Value::Number(number) if SETTINGS.contains(&key) && !about.starts_with("slices") => {
            // One for all that share it: the margin of every pair is the same.
            said.settings
                .entry(key.to_owned())
                .or_insert_with(|| number.to_string());
        }
        Value::String(text) if VERDICTS.contains(&key) => {
            said.verdicts.insert(about.to_owned(), text.clone());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(value: f64, verdict: &str, first: &str) -> Value {
        let row = |name: &str, value: f64| {
            json!({ "policy": name, "metrics": { "accuracy": {
                "value": value, "low": value - 0.01, "high": value + 0.01, "method": "wilson" } } })
        };
        let mut rows = vec![row("a", 0.5), row("b", value)];
        if first == "b" {
            rows.reverse();
        }
        json!({
            "schema": "routelab.findings/1",
            "manifest": { "inputs": [{ "path": "w.toml", "sha256": format!("{verdict}") }] },
            "rows": rows,
            "paired": [{ "policy": "b", "verdict": verdict }],
        })
    }

    #[test]
    fn what_is_the_same_is_counted_and_what_differs_is_shown_wherever_it_stands() {
        let (one, other) = (
            document(0.9, "inferior", "a"),
            document(0.95, "non-inferior", "b"),
        );
        let sheet = diff(["one", "two"], [&one, &other]).unwrap();
        assert_eq!(
            sheet.summary,
            "1 of 2 numbers differ, 1 of them by more than their intervals; 1 of 1 verdicts changed; one input is not the same."
        );
        assert_eq!(sheet.records.len(), 1);
        assert_eq!(sheet.records[0]["number"], "rows[b].metrics.accuracy");
        assert_eq!(sheet.records[0]["intervals"], "apart");
        let same = diff(["one", "one"], [&one, &one]).unwrap();
        assert!(
            same.summary.starts_with("0 of 2 numbers differ"),
            "{}",
            same.summary
        );
        assert!(same.blocks.is_empty());
    }

    #[test]
    fn documents_of_different_kinds_are_refused() {
        let one = document(0.9, "inferior", "a");
        let other = json!({ "schema": "routelab.gate/1" });
        assert!(
            diff(["one", "two"], [&one, &other])
                .unwrap_err()
                .contains("only documents of one kind")
        );
        assert!(
            diff(["one", "two"], [&json!([]), &one])
                .unwrap_err()
                .contains("`one` is no document")
        );
    }
}
