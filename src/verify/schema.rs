//! Accepts answers that are JSON of a given shape.
//!
//! The `jsonschema` crate checks; nothing is ever fetched, and a schema that refers to another document is
//! refused where it stands. Patterns in a schema are matched in linear time, so no answer can make them slow.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value as Json;

use super::{Check, Checked, Kind, Reading, Verifier};
use crate::router::Verdict;
use crate::source::{Table, Value};

/// Keywords by which a schema refers to another.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords whose values are data, not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Most bytes of a schema as JSON: the checker walks it recursively.
const SCHEMA_BYTES_MAX: usize = 65_536;

pub(super) const KIND: Kind = Kind {
    name: "json_schema",
    about: "Accepts an answer that is JSON and fits a schema, also inside a ```json fence. `schema` is the schema as a table, \
            `schema_json` as text; it may not refer to other documents. Good for forms that programs read. \
            Fails on wrong answers of the right shape: it cannot see what is in the fields.",
    example: "verifier.json_schema = { schema = { type = \"object\", required = [\"city\"] }, simulate = { passes = '{\"city\": \"Oslo\"}', fails = \"Oslo\", pass_if_correct = 0.98, pass_if_wrong = 0.6 } }",
    read,
};

#[derive(Debug)]
struct Schema(Validator);

impl Check for Schema {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn check(&self, answer: &str) -> Verdict {
        let fits = serde_json::from_str::<Json>(unfenced(answer))
            .is_ok_and(|answer| self.0.is_valid(&answer));
        if fits {
            Verdict::Accept
        } else {
            Verdict::Reject
        }
    }
}

/// The text inside a fence of backticks that is all there is, else the text itself.
fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    let inside = || {
        let (info, rest) = answer.strip_prefix("```")?.split_once('\n')?;
        let info = info.trim();
        let plain = info.is_empty() || info.eq_ignore_ascii_case("json");
        rest.trim_end().strip_suffix("```").filter(|_| plain)
    };
    inside().unwrap_or(answer)
}

fn read(mut table: Table<'_>, _reading: &Reading<'_>) -> Option<Verifier> {
    let (as_table, as_text) = (table.get("schema"), table.get("schema_json"));
    let schema = match (as_table, as_text) {
        (Some(value), None) => {
            let remote = refuse_remote_references(&value);
            let schema = value.table().and_then(|_| value.json());
            schema.filter(|_| !remote).map(|schema| (schema, value))
        }
        (None, Some(value)) => parse_text(&value).map(|schema| (schema, value)),
        (None, None) => {
            table.error("a `json_schema` verifier needs a `schema`, or `schema_json`");
            None
        }
        (Some(_), Some(_)) => {
            table.error("a `json_schema` verifier has either `schema` or `schema_json`");
            None
        }
    };
    let check = schema.and_then(|(schema, value)| build(&schema, &value));
    Checked::read(table, check)
}

fn parse_text(value: &Value<'_>) -> Option<Json> {
    let text = value.string()?.value;
    let schema: Json = match serde_json::from_str(&text) {
        Ok(schema) => schema,
        Err(error) => {
            value.error(format!("`{}` is not JSON: {error}", value.path()));
            return None;
        }
    };
    if let Some(reference) = remote_reference(&schema) {
        value.error_help(remote_text(&reference), REMOTE_HELP);
        return None;
    }
    Some(schema)
}

fn build(schema: &Json, value: &Value<'_>) -> Option<Box<dyn Check>> {
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        value.error(format!(
            "`{}` is a schema of {bytes} bytes, at most {SCHEMA_BYTES_MAX} are read",
            value.path()
        ));
        return None;
    }
    let built = jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .build(schema);
    match built {
        Ok(validator) => Some(Box::new(Schema(validator))),
        Err(error) => {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() {
                "the top".to_owned()
            } else {
                format!("`{place}`")
            };
            value.error(format!(
                "`{}` is no JSON Schema: at {place}: {error}",
                value.path()
            ));
            None
        }
    }
}

const REMOTE_HELP: &str =
    "put the schema it means under `$defs` and refer to it as `#/$defs/NAME`; nothing is fetched";

fn remote_text(reference: &str) -> String {
    format!("the schema refers to another document, `{reference}`")
}

fn is_remote(reference: &str) -> bool {
    !reference.starts_with('#')
}

/// Reports each reference in a table that leads elsewhere; whether there was one.
fn refuse_remote_references(value: &Value<'_>) -> bool {
    let mut remote = false;
    if value.is_table() {
        let entries = value.table().map(|mut table| table.entries());
        for (key, inner) in entries.unwrap_or_default() {
            if DATA.contains(&key.value.as_str()) {
                continue;
            }
            if REFERENCES.contains(&key.value.as_str()) && inner.is_str() {
                if let Some(reference) = inner.string().filter(|text| is_remote(&text.value)) {
                    inner.error_help(remote_text(&reference.value), REMOTE_HELP);
                    remote = true;
                }
            } else {
                remote |= refuse_remote_references(&inner);
            }
        }
    } else if value.is_list() {
        for inner in value.list().unwrap_or_default() {
            remote |= refuse_remote_references(&inner);
        }
    }
    remote
}

fn remote_reference(schema: &Json) -> Option<String> {
    match schema {
        Json::Object(entries) => entries
            .iter()
            .filter(|(key, _)| !DATA.contains(&key.as_str()))
            .find_map(|(key, inner)| match inner {
                Json::String(reference) if REFERENCES.contains(&key.as_str()) => {
                    is_remote(reference).then(|| reference.clone())
                }
                _ => remote_reference(inner),
            }),
        Json::Array(items) => items.iter().find_map(remote_reference),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(schema: &Json, answer: &str) -> bool {
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        Schema(options.offline().build(schema).unwrap()).check(answer) == Verdict::Accept
    }

    #[test]
    fn fences_around_the_whole_answer_are_taken_off() {
        for (answer, want) in [
            ("{}", "{}"),
            ("```json\n{}\n```", "{}\n"),
            (" ```JSON \n{}\n```\n", "{}\n"),
            ("```\n[1]\n```", "[1]\n"),
            ("```python\n1\n```", "```python\n1\n```"),
            ("here: ```json\n{}\n```", "here: ```json\n{}\n```"),
            ("```json {} ```", "```json {} ```"),
            ("```", "```"),
            ("``````", "``````"),
        ] {
            assert_eq!(unfenced(answer), want, "{answer:?}");
        }
    }

    #[test]
    fn schemas_that_go_round_in_circles_come_to_an_end() {
        let circle = json!({
            "$ref": "#/$defs/a",
            "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}},
        });
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            circle,
        ] {
            let _ = fits(&schema, "[1]");
        }
        let tree = json!({"type": "array", "items": {"$ref": "#"}});
        assert!(fits(&tree, "[[], [[]]]"));
        assert!(!fits(&tree, "[[], [[1]]]"));
        // Deeper than the parser goes.
        assert!(!fits(&tree, &("[".repeat(100_000) + &"]".repeat(100_000))));
    }

    #[test]
    fn the_longest_chain_of_references_is_followed() {
        let mut defs = serde_json::Map::new();
        let mut schema = json!({});
        for next in 1.. {
            defs.insert(
                next.to_string(),
                json!({"$ref": format!("#/$defs/{}", next + 1)}),
            );
            schema = json!({"$ref": "#/$defs/1", "$defs": defs});
            if next % 100 == 0 && schema.to_string().len() > SCHEMA_BYTES_MAX - 5_000 {
                let last = json!({"type": "string"});
                schema["$defs"][(next + 1).to_string()] = last;
                break;
            }
        }
        assert!(schema.to_string().len() < SCHEMA_BYTES_MAX);
        assert!(fits(&schema, "\"x\"") && !fits(&schema, "1"));
    }
}
