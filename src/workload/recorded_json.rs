//! One JSON object per line (JSON Lines, <https://jsonlines.org>, 2013).
//!
//! Objects may nest: the cell of `{"grade": {"small": 1}}` is called `grade.small`. Columns are all keys
//! of the file, in the order in which they come; an absent key is a missing value.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::recorded_rows::Collector;
use crate::source::{Diagnostic, Location};

/// Reads a whole file into `rows`.
pub(crate) fn read(data: &[u8], path: &str, rows: &mut Collector<'_>) {
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    let mut header: Vec<String> = Vec::new();
    let mut columns: BTreeMap<String, usize> = BTreeMap::new();
    let mut sound = true;
    each(data, path, &mut |object, _| match object {
        Ok(object) => flatten("", &object, &mut |name, _| {
            if !columns.contains_key(name) {
                columns.insert(name.to_owned(), header.len());
                header.push(name.to_owned());
            }
        }),
        Err(problem) => {
            sound = false;
            rows.problem(|| problem);
        }
    });
    if header.is_empty() {
        if sound {
            rows.file_problem("the file is empty");
        }
        return;
    }
    let width = header.len();
    if !rows.header(header) {
        return;
    }
    each(data, path, &mut |object, location| {
        let Ok(object) = object else {
            return;
        };
        let mut cells = vec![Cow::Borrowed(""); width];
        flatten("", &object, &mut |name, value| {
            if let Some(column) = columns.get(name) {
                cells[*column] = text(value).into();
            }
        });
        rows.row(&cells, &|_| location.clone());
    });
}

/// Calls `take` with each line's object, or with what is wrong with the line.
fn each(
    data: &[u8],
    path: &str,
    take: &mut dyn FnMut(Result<Map<String, Value>, Diagnostic>, Location),
) {
    for (number, line) in data.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        // Only the start of the line is ever shown.
        let text = String::from_utf8_lossy(&line[..line.len().min(400)]).into_owned();
        let location = Location::Line {
            path: path.to_owned(),
            line: number + 1,
            range: 0..text.len(),
            text,
        };
        let object = match serde_json::from_slice(line) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err("the line is not a JSON object".to_owned()),
            Err(error) => {
                // The parser saw one line only, so that its "line 1" would mislead.
                let what = error.to_string();
                let what = what.split(" at line ").next().unwrap_or_default();
                Err(format!(
                    "the line is not JSON: {what} (column {})",
                    error.column()
                ))
            }
        };
        let object = object.map_err(|message| Diagnostic::error(message).at(location.clone()));
        take(object, location);
    }
}

/// Calls `take` with the dotted name and the value of everything in `object` that is not an object.
fn flatten(prefix: &str, object: &Map<String, Value>, take: &mut dyn FnMut(&str, &Value)) {
    for (key, value) in object {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            Value::Object(inner) => flatten(&name, inner, take),
            value => take(&name, value),
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
