//! Reading other people's JSON: fields under two spellings, counters that may be missing, text in
//! parts. Nothing here fails; what cannot be read is not there.

use serde_json::Value;

use super::error::Error;
use super::stream::{malformed, too_large};
use crate::units::Tokens;

/// Most values in one JSON text that is read as a tree. So many take about 100 MiB; without a limit, a
/// body of the size that is allowed could take gigabytes.
pub(super) const VALUES_MAX: usize = 1 << 20;

/// Reads JSON as a tree, bounded.
pub(super) fn parse(text: &[u8]) -> Result<Value, Error> {
    if !is_small(text) {
        return Err(too_large("number of JSON values", VALUES_MAX));
    }
    serde_json::from_slice(text).map_err(|_| malformed())
}

/// Whether a text can hold no more than [`VALUES_MAX`] values. There is a comma or an opening bracket
/// before each but the first, so that short texts need not be looked at.
pub(super) fn is_small(text: &[u8]) -> bool {
    if text.len() <= 2 * VALUES_MAX {
        return true;
    }
    let (mut values, mut in_string, mut is_escaped) = (1, false, false);
    for &byte in text {
        if in_string {
            in_string = byte != b'"' || is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
        } else {
            in_string = byte == b'"';
            values += usize::from(matches!(byte, b',' | b'[' | b'{'));
        }
    }
    values <= VALUES_MAX
}

/// A field that some senders write in camel case and others in snake case. `null` is not there.
pub(super) fn either<'a>(object: &'a Value, camel: &str, snake: &str) -> Option<&'a Value> {
    field(object, camel).or_else(|| field(object, snake))
}

/// A field that is not `null`.
pub(super) fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A text field that is not empty.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// A field that is text or a number, as text: ids and codes come as both.
pub(super) fn label(object: &Value, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A list, or an empty one.
pub(super) fn list<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A counter. Missing, negative and fractional ones are unknown.
pub(super) fn tokens(object: &Value, name: &str) -> Tokens {
    let count = object.get(name).and_then(|value| {
        value.as_u64().or_else(|| {
            let float = value.as_f64()?;
            (float >= 0.0 && float.fract() == 0.0 && float < 4e9).then_some(float as u64)
        })
    });
    Tokens::from(count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)))
}

/// The sum of a counter that must be known and others that count only where they are.
pub(super) fn sum(base: Tokens, parts: &[Tokens]) -> Tokens {
    Tokens::from(base.get().map(|base| {
        parts
            .iter()
            .filter_map(|part| part.get())
            .fold(base, u32::saturating_add)
    }))
}

/// `newer` where it is known.
pub(super) fn latest(older: Tokens, newer: Tokens) -> Tokens {
    if newer == Tokens::UNKNOWN {
        older
    } else {
        newer
    }
}

/// The greater of two counters that only grow; unknown ones do not count.
pub(super) fn greater(a: Tokens, b: Tokens) -> Tokens {
    Tokens::from(a.get().max(b.get()))
}

/// Text that may be a string, a list of parts with `text`, or `null`. Parts without text are left out.
pub(super) fn joined(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.as_str().or_else(|| text(part, "text")))
            .collect::<Vec<_>>()
            .join(""),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn odd_counters_are_unknown_and_huge_ones_saturate() {
        let usage =
            json!({"a": 3, "b": -1, "c": 1.5, "d": "4", "e": null, "f": 4.0, "g": u64::MAX});
        let read = |name| tokens(&usage, name).get();
        assert_eq!(
            ["a", "b", "c", "d", "e", "f", "missing"].map(read),
            [Some(3), None, None, None, None, Some(4), None]
        );
        assert!(read("g").is_some());
        assert_eq!(sum(Tokens::UNKNOWN, &[Tokens::new(1)]), Tokens::UNKNOWN);
        assert_eq!(
            sum(Tokens::new(2), &[Tokens::UNKNOWN, Tokens::new(1)]),
            Tokens::new(3)
        );
        assert_eq!(greater(Tokens::UNKNOWN, Tokens::new(1)), Tokens::new(1));
    }

    #[test]
    fn a_text_of_too_many_values_is_refused_and_a_long_one_is_not() {
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX + 1));
        let error = parse(many.as_bytes()).unwrap_err();
        assert_eq!(error.place, crate::wire::Place::TooLarge);
        // Brackets and commas in a text do not count, nor does a quote that is escaped end it.
        let long = json!({ "a": "\"[,{\\".repeat(VALUES_MAX) }).to_string();
        assert!(parse(long.as_bytes()).is_ok());
        let deep = "[".repeat(4 * VALUES_MAX);
        assert!(parse(deep.as_bytes()).is_err());
    }
}
