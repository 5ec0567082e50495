//! A schema as tables for people: key, type, unit, default, meaning.

use serde_json::{Map, Value as Json};

use super::node::{NAME, UNIT};

/// Numbers from here on are no bounds that anybody meets: every whole number below is exact as a float.
const BOUND_MAX: f64 = 9_007_199_254_740_992.0;

const INTRODUCTION: &str = "\
# Configuration reference

Every key of every file that you write, as `routelab schema --markdown` prints it. The same as JSON Schema for
your editor: `routelab schema workload > workload.json`. What no schema can say (that a name exists, that shares add
up to 1), `routelab check` says, with file, line and column.

A key without a default is optional and left out unless it says `required`. NAME, ROUTE, TASK and other words in capitals
stand for names of your own.
";

/// The whole page.
pub(super) fn page<'t>(kinds: impl Iterator<Item = (&'t str, Json)>) -> String {
    let sections = kinds.map(|(title, schema)| format!("\n{}", section(title, &schema)));
    std::iter::once(INTRODUCTION.to_owned())
        .chain(sections)
        .collect()
}

/// One kind of file.
pub(super) fn section(title: &str, schema: &Json) -> String {
    let mut out = Writer {
        text: format!("## {title}\n"),
        is_placed: true,
        known: Vec::new(),
    };
    let root = schema["$ref"].as_str().map(definition_name);
    if root.is_some() {
        out.text.push_str(&format!("\n{}\n", about_of(schema)));
    } else {
        out.table(schema, "", true);
    }
    if let Some(definitions) = schema["$defs"].as_object() {
        for (name, definition) in definitions {
            out.text.push_str(&format!("\n### Definition: `{name}`\n"));
            // A definition that is the whole file stands at its root.
            out.is_placed = root == Some(name.as_str());
            let path = if out.is_placed { "" } else { name };
            out.definition(definition, path);
        }
    }
    out.text
}

struct Writer {
    text: String,
    /// Whether what is written stands where it says in a file.
    is_placed: bool,
    /// Tables that were written, without what they are about, and where they stand.
    known: Vec<(Json, String)>,
}

impl Writer {
    /// A table with its keys, and below it the tables within.
    fn table(&mut self, node: &Json, path: &str, is_root: bool) {
        if !is_root {
            // A definition has no place of its own in a file.
            let brackets = match (self.is_placed, path.ends_with("[]")) {
                (false, _) => ("", ""),
                (true, true) => ("[[", "]]"),
                (true, false) => ("[", "]"),
            };
            let shown = path.replace("[]", "");
            self.text
                .push_str(&format!("\n### `{}{shown}{}`\n", brackets.0, brackets.1));
        }
        // Tables of the same keys are written down once.
        let mut keys = node.clone();
        if let Some(map) = keys.as_object_mut() {
            map.remove("description");
        }
        if let Some((_, first)) = self.known.iter().find(|(known, _)| *known == keys) {
            let same = format!("\n{}Its keys are those of `{first}`.\n", sentence(node));
            self.text.push_str(&same);
            return;
        }
        self.known.push((keys, path.replace("[]", "")));
        self.keys(node);
        self.within(node, path);
    }

    /// A definition is a table, or one thing or another.
    fn definition(&mut self, node: &Json, path: &str) {
        if node["properties"].is_object() {
            self.keys(node);
            self.within(node, path);
            return;
        }
        let about = sentence(node);
        self.text
            .push_str(&format!("\n{about}{}.\n", capitalised(&kind(node))));
        self.tables_of(node, path);
    }

    /// What it is, its keys, and rules about them.
    fn keys(&mut self, node: &Json) {
        let about = about(node);
        if !about.is_empty() {
            self.text.push_str(&format!("\n{about}\n"));
        }
        let rules = rules(node);
        if !rules.is_empty() {
            self.text.push_str(&format!("\n{rules}\n"));
        }
        let Some(properties) = node["properties"].as_object() else {
            return;
        };
        self.text.push_str(
            "\n| key | type | unit | default | meaning |\n| --- | --- | --- | --- | --- |\n",
        );
        let required: Vec<&str> = node["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        for (key, value) in properties {
            let default = match &value["default"] {
                _ if required.contains(&key.as_str()) => "required".to_owned(),
                Json::Null => String::new(),
                default => format!("`{}`", toml(default)),
            };
            self.row([
                &format!("`{key}`"),
                &kind(value),
                unit(value),
                &default,
                about_of(value),
            ]);
        }
        if let Some(name) = node[NAME].as_str() {
            let value = &node["additionalProperties"];
            self.row([name, &kind(value), unit(value), "", about_of(value)]);
        }
    }

    fn row(&mut self, cells: [&str; 5]) {
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// The tables that are in this one.
    fn within(&mut self, node: &Json, path: &str) {
        for (key, value) in node["properties"].as_object().into_iter().flatten() {
            self.tables_of(value, &join(path, key));
        }
        if let Some(name) = node[NAME].as_str()
            && node["properties"].is_object()
        {
            self.tables_of(&node["additionalProperties"], &join(path, name));
        }
    }

    /// The tables that this value may be.
    fn tables_of(&mut self, value: &Json, path: &str) {
        if value["properties"].is_object() {
            self.table(value, path, false);
        } else if let Some(name) = value[NAME].as_str() {
            self.tables_of(&value["additionalProperties"], &join(path, name));
        } else if value["items"].is_object() {
            self.tables_of(&value["items"], &format!("{path}[]"));
        }
        for choice in value["anyOf"].as_array().into_iter().flatten() {
            self.tables_of(choice, path);
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn about(node: &Json) -> String {
    about_of(node).to_owned()
}

fn about_of(node: &Json) -> &str {
    node["description"].as_str().unwrap_or_default()
}

/// What it is, before another sentence.
fn sentence(node: &Json) -> String {
    let about = about_of(node);
    if about.is_empty() {
        String::new()
    } else {
        format!("{about} ")
    }
}

fn unit(node: &Json) -> &str {
    let own = node[UNIT].as_str();
    // What may be one thing or another has the unit of what has one.
    let of_choice = || {
        let choices = node["anyOf"].as_array()?;
        choices.iter().find_map(|choice| choice[UNIT].as_str())
    };
    own.or_else(of_choice).unwrap_or_default()
}

/// What a reference within the schema refers to.
fn definition_name(reference: &str) -> &str {
    reference.trim_start_matches("#/$defs/")
}

/// A default as TOML writes it.
fn toml(value: &Json) -> String {
    match value {
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

/// The type of a value, in words.
fn kind(node: &Json) -> String {
    if let Some(reference) = node["$ref"].as_str() {
        let name = definition_name(reference);
        return format!("[`{name}`](#definition-{name})");
    }
    if let Some(choices) = node["anyOf"].as_array()
        && node["type"].is_null()
    {
        let mut kinds: Vec<String> = Vec::new();
        for kind in choices.iter().map(kind) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        return kinds.join(" or ");
    }
    if let Some(words) = node["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    if !node["const"].is_null() {
        return format!("`{}`", node["const"]);
    }
    match node["type"].as_str().unwrap_or_default() {
        "number" => format!("number{}", range(node)),
        "integer" => format!("whole number{}", range(node)),
        "string" if node["format"] == "date" => "date".to_owned(),
        "string" => "text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "null" => "null".to_owned(),
        "array" => {
            let count = match (node["minItems"].as_u64(), node["maxItems"].as_u64()) {
                (Some(low), Some(high)) if low == high => format!("{low} × "),
                (Some(low), Some(high)) => format!("{low} to {high} × "),
                (Some(low), None) if low > 0 => format!("{low} or more × "),
                (None | Some(_), _) => String::new(),
            };
            format!("list of {count}{}", kind(&node["items"]))
        }
        _ => match node[NAME].as_str() {
            Some(name) if node["properties"].is_null() => {
                format!("by {name}: {}", kind(&node["additionalProperties"]))
            }
            _ => "table".to_owned(),
        },
    }
}

fn range(node: &Json) -> String {
    let bound = |key: &str| {
        node[key]
            .as_f64()
            .filter(|bound| bound.abs() < BOUND_MAX)
            .map(grouped)
    };
    let low = match (bound("minimum"), bound("exclusiveMinimum")) {
        (Some(low), _) => Some((low, true)),
        (None, low) => low.map(|low| (low, false)),
    };
    let high = match (bound("maximum"), bound("exclusiveMaximum")) {
        (Some(high), _) => Some((high, true)),
        (None, high) => high.map(|high| (high, false)),
    };
    let high_words = |(high, included): &(String, bool)| {
        let word = if *included { "up to" } else { "below" };
        format!("{word} {high}")
    };
    match (low, high) {
        (Some((low, true)), Some((high, true))) => format!(", {low} to {high}"),
        (Some((low, true)), Some(high)) => format!(", {low} or more, {}", high_words(&high)),
        (Some((low, false)), Some(high)) => format!(", above {low}, {}", high_words(&high)),
        (Some((low, true)), None) => format!(", {low} or more"),
        (Some((low, false)), None) => format!(", above {low}"),
        (None, Some(high)) => format!(", {}", high_words(&high)),
        (None, None) => String::new(),
    }
}

/// A number with commas between thousands; very large and very small ones as powers of ten.
fn grouped(number: f64) -> String {
    if number != 0.0 && (number.abs() >= 1e9 || number.abs() < 1e-3) {
        return format!("{number:e}");
    }
    let text = number.to_string();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::from(sign);
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// Rules about keys of a table, in words.
fn rules(node: &Json) -> String {
    let mut rules = Vec::new();
    if node["properties"].is_object() {
        match (
            node["minProperties"].as_u64(),
            node["maxProperties"].as_u64(),
        ) {
            (Some(1), Some(1)) => rules.push("Exactly one of these keys.".to_owned()),
            (Some(1), None) => rules.push("At least one of these keys.".to_owned()),
            _ => {}
        }
    }
    for group in node["allOf"].as_array().into_iter().flatten() {
        rules.push(format!("Exactly one of {}.", alternatives(&group["oneOf"])));
    }
    if node["properties"].is_object() && node["anyOf"].is_array() {
        rules.push(format!("At least one of {}.", alternatives(&node["anyOf"])));
    }
    let not_together = match &node["not"]["anyOf"] {
        Json::Array(pairs) => pairs.iter().collect(),
        _ => vec![&node["not"]],
    };
    for pair in not_together {
        let keys = keys_of(pair);
        if !keys.is_empty() {
            rules.push(format!("Not both {}.", keys.join(" and ")));
        }
    }
    let none = Map::new();
    for (key, needs) in node["dependentRequired"].as_object().unwrap_or(&none) {
        let needs: Vec<String> = needs
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .map(|key| format!("`{key}`"))
            .collect();
        rules.push(format!("`{key}` goes with {} only.", needs.join(" and ")));
    }
    rules.join(" ")
}

fn keys_of(group: &Json) -> Vec<String> {
    let required = group["required"].as_array();
    let keys = required.into_iter().flatten().filter_map(Json::as_str);
    keys.map(|key| format!("`{key}`")).collect()
}

fn alternatives(groups: &Json) -> String {
    let groups = groups.as_array().into_iter().flatten();
    let keys: Vec<String> = groups.flat_map(keys_of).collect();
    keys.join(", ")
}

/// With a capital at its beginning.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_words() {
        for (number, shown) in [
            (0.0, "0"),
            (0.05, "0.05"),
            (1_000_000.0, "1,000,000"),
            (-5.0, "-5"),
            (86_400.5, "86,400.5"),
            (1e12, "1e12"),
            (1e-6, "1e-6"),
        ] {
            assert_eq!(grouped(number), shown);
        }
        let node = |text: &str| serde_json::from_str::<Json>(text).unwrap();
        for (text, shown) in [
            (
                r#"{"type":"number","minimum":0,"maximum":1}"#,
                "number, 0 to 1",
            ),
            (
                r#"{"type":"number","exclusiveMinimum":0,"maximum":1}"#,
                "number, above 0, up to 1",
            ),
            (
                r#"{"type":"integer","minimum":1,"maximum":9223372036854775807}"#,
                "whole number, 1 or more",
            ),
            (
                r#"{"type":"array","items":{"type":"string"},"minItems":1}"#,
                "list of 1 or more × text",
            ),
            (
                r#"{"anyOf":[{"type":"boolean"},{"const":"x"}]}"#,
                "true or false or `\"x\"`",
            ),
        ] {
            assert_eq!(kind(&node(text)), shown);
        }
    }
}
