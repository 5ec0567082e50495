//! A model that always says the same: for clients under test, where what is said does not matter.
//!
//! It asks for the weather when it has tools and is asked about it, reports a tool's result, and else
//! repeats the question. Its token counts are words of the conversation as it arrived, which differ
//! between providers for one question, as they do in life. Simulated answers: no evidence about a model.

use serde_json::Value;
use serde_json::ser::Formatter;

use crate::units::Tokens;
use crate::wire::{Incoming, Message, Response, Stop, ToolCall, Usage};

/// Tokens a tool call counts as.
const TOOL_CALL_TOKENS: u32 = 12;
/// Characters of a question that are repeated.
const QUOTED_CHARS: usize = 40;
/// The city when a question names none.
const CITY_DEFAULT: &str = "Paris";

/// The answer to a request that came in as `body` at the adapter of this name.
#[must_use]
pub fn answer(adapter: &str, incoming: &Incoming, body: &[u8]) -> Response {
    let request = &incoming.request;
    let mut response = Response::default();
    let input = input_tokens(adapter, body);
    let text = match request.messages.last() {
        Some(Message::Tool { text, .. }) => report(text),
        Some(Message::User { text }) => {
            let weather = request.tools.iter().find(|tool| tool.name == "get_weather");
            if let Some(tool) = weather.or(request.tools.first())
                && text.to_lowercase().contains("weather")
            {
                let city = serde_json::json!({ "city": city(text) });
                // With a space after the colon, as models write it.
                let raw = spaced(&city);
                response.tool_calls = vec![ToolCall::new("call_1", &tool.name, raw)];
                response.stop = Stop::ToolCalls;
                response.usage = usage(input, TOOL_CALL_TOKENS);
                return response;
            }
            let quoted: String = text.chars().take(QUOTED_CHARS).collect();
            format!("You asked: {quoted}")
        }
        Some(Message::Assistant { .. }) | None => "You asked: nothing".to_owned(),
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let cap = request.output_cap as usize;
    let said = words.len().min(cap);
    response.text = words[..said].join(" ");
    response.stop = if words.len() > cap {
        Stop::Length
    } else {
        Stop::End
    };
    response.usage = usage(input, said as u32);
    response
}

fn usage(input: Option<u32>, output: u32) -> Usage {
    Usage {
        input: input.into(),
        output: Tokens::new(output),
        ..Usage::UNKNOWN
    }
}

/// What a tool found, in a sentence if it was the weather.
fn report(result: &str) -> String {
    let found: Value = serde_json::from_str(result).unwrap_or_default();
    let field = |names: &[&str]| {
        names.iter().find_map(|name| match found.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    };
    match (
        field(&["temp_c", "temp", "temperature"]),
        field(&["sky", "conditions"]),
        field(&["city"]),
    ) {
        (Some(temperature), Some(sky), Some(city)) => {
            format!("It is {temperature} C and {sky} in {city}.")
        }
        _ => format!("The tool says: {result}"),
    }
}

/// The words after the last ` in `, without the question mark.
fn city(question: &str) -> &str {
    question
        .rsplit_once(" in ")
        .map(|(_, rest)| rest.trim_end_matches(|c: char| !c.is_alphanumeric()))
        .filter(|city| !city.is_empty())
        .unwrap_or(CITY_DEFAULT)
}

/// Words of the conversation as this provider's clients write it.
fn input_tokens(adapter: &str, body: &[u8]) -> Option<u32> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let words = |text: &str| text.split_whitespace().count();
    let count = match adapter {
        "anthropic" => words(&spaced(body.get("messages")?)),
        "gemini" => words(&spaced(body.get("contents")?)),
        _ => body
            .get("messages")?
            .as_array()?
            .iter()
            .map(|message| match message.get("content") {
                Some(Value::String(text)) => words(text),
                Some(Value::Array(parts)) => parts
                    .iter()
                    .filter_map(|part| part.get("text")?.as_str())
                    .map(words)
                    .sum(),
                _ => 0,
            })
            .sum(),
    };
    u32::try_from(count).ok()
}

/// JSON with a space after each comma and colon.
fn spaced(value: &Value) -> String {
    struct Spaces;
    impl Formatter for Spaces {
        fn begin_array_value<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first {
                Ok(())
            } else {
                writer.write_all(b", ")
            }
        }
        fn begin_object_key<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first {
                Ok(())
            } else {
                writer.write_all(b", ")
            }
        }
        fn begin_object_value<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
        ) -> std::io::Result<()> {
            writer.write_all(b": ")
        }
    }
    let mut text = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, Spaces);
    match serde::Serialize::serialize(value, &mut serializer) {
        Ok(()) => String::from_utf8(text).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_city_is_what_stands_after_in() {
        assert_eq!(city("What is the weather in New York?"), "New York");
        assert_eq!(city("How is the weather?"), "Paris");
        assert_eq!(city("What is in the weather in Rome today"), "Rome today");
    }

    #[test]
    fn json_is_counted_as_words() {
        let value: Value = serde_json::from_str(r#"[{"a":1,"b":[2,"c d"]}]"#).unwrap();
        assert_eq!(spaced(&value), r#"[{"a": 1, "b": [2, "c d"]}]"#);
    }
}
