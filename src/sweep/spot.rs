//! Where in a file a parameter's value stands, and the file with another value there.

use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::parameter::{Parameter, Scope, Word};
use crate::source::{Diagnostic, Location, SourceFile, describe_list, nearest};

/// The place of one value in a file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    span: Range<usize>,
    is_text: bool,
}

impl Spot {
    /// Finds the value that the parameter varies. It must be in the file: a key that is left to its
    /// default has no place.
    ///
    /// # Errors
    ///
    /// There is no such key, with the nearest ones; or it holds a table or a list, with what is in it.
    pub fn find(file: &Arc<SourceFile>, parameter: &Parameter) -> Result<Self, Box<Diagnostic>> {
        // What cannot be parsed was reported when the file was read.
        let (root, _) = DeTable::parse_recoverable(&file.text);
        let prefix = match parameter.scope {
            Scope::Policy => "policy.",
            Scope::Workload => "workload.",
            Scope::Catalogue | Scope::Margin => "",
        };
        let mut leaves = Vec::new();
        for (name, value) in root.get_ref().iter() {
            collect(
                &format!("{prefix}{}", written(name.get_ref())),
                value.get_ref(),
                &mut leaves,
            );
        }
        let absent = || {
            let last = parameter.path.rsplit('.').next().unwrap_or_default();
            let alike: Vec<&str> = leaves
                .iter()
                .map(String::as_str)
                .filter(|leaf| leaf.rsplit('.').next() == Some(last))
                .collect();
            let help = match alike.as_slice() {
                [one] => format!("did you mean `{one}`?"),
                [_, ..] => format!("keys of that name: {}", describe_list(alike)),
                [] => {
                    // Paths are long, so that nearly any two are alike: the key itself has to be.
                    let ends = leaves.iter().filter_map(|leaf| leaf.rsplit('.').next());
                    let near = nearest(last, ends);
                    let near = near.and_then(|near| {
                        leaves
                            .iter()
                            .find(|leaf| leaf.rsplit('.').next() == Some(near))
                    });
                    match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!(
                            "its keys: {}",
                            describe_list(leaves.iter().map(String::as_str))
                        ),
                    }
                }
            };
            Diagnostic::error(format!(
                "there is no `{}` to vary in this file",
                parameter.path
            ))
            .at(Location::File {
                path: file.path.clone(),
            })
            .help(help)
            .help("a key that is left to its default has to be written into the file first")
        };
        let mut words = parameter.words.iter();
        let Some(Word::Key(first)) = words.next() else {
            return Err(absent().into());
        };
        let mut found = root.get_ref().get(first.as_str()).ok_or_else(absent)?;
        for word in words {
            found = match (word, found.get_ref()) {
                (Word::Key(key), DeValue::Table(table)) => table.get(key.as_str()),
                (Word::Place(place), DeValue::Array(items)) => items.get(*place),
                _ => None,
            }
            .ok_or_else(absent)?;
        }
        let several = match found.get_ref() {
            DeValue::Table(_) => Some("a table"),
            DeValue::Array(_) => Some("a list"),
            _ => None,
        };
        if let Some(what) = several {
            let mut below = Vec::new();
            collect(&parameter.path, found.get_ref(), &mut below);
            return Err(Diagnostic::error(format!(
                "`{}` is {what}, and a sweep varies one value",
                parameter.path
            ))
            .at(Location::Span {
                file: file.clone(),
                span: found.span(),
            })
            .help(format!(
                "in it: {}",
                describe_list(below.iter().map(String::as_str))
            ))
            .into());
        }
        Ok(Self {
            span: found.span(),
            is_text: found.get_ref().is_str(),
        })
    }

    /// The file with these values at these places. Nothing else changes, so what a reader says about the
    /// result points at the lines of the original.
    #[must_use]
    pub fn replaced(file: &SourceFile, mut values: Vec<(&Self, &str)>) -> Arc<SourceFile> {
        let mut text = file.text.clone();
        // From the back, so that places in front stay where they are.
        values.sort_by_key(|(spot, _)| std::cmp::Reverse(spot.span.start));
        for (spot, value) in values {
            let value = if !spot.is_text && is_bare(value) {
                value.to_owned()
            } else {
                quoted(value)
            };
            text.replace_range(spot.span.clone(), &value);
        }
        SourceFile::new(file.path.clone(), text)
    }
}

/// The paths of all single values in `value`.
fn collect(path: &str, value: &DeValue<'_>, into: &mut Vec<String>) {
    match value {
        DeValue::Table(table) => {
            for (name, value) in table.iter() {
                collect(
                    &format!("{path}.{}", written(name.get_ref())),
                    value.get_ref(),
                    into,
                );
            }
        }
        DeValue::Array(items) => {
            for (place, value) in items.iter().enumerate() {
                collect(&format!("{path}[{place}]"), value.get_ref(), into);
            }
        }
        _ => into.push(path.to_owned()),
    }
}

/// A key as a path holds it.
fn written(key: &str) -> String {
    let bare = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else if key.contains('"') {
        format!("'{key}'")
    } else {
        format!("\"{key}\"")
    }
}

/// Whether TOML reads the text as a number, a date, or true or false.
fn is_bare(text: &str) -> bool {
    let harmless = |b: u8| b.is_ascii_alphanumeric() || b"+-_.:".contains(&b);
    text.bytes().all(harmless) && DeTable::parse(&format!("x = {text}")).is_ok()
}

/// The text as a TOML string on one line.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "# kept\n[static]\ndefault = \"large\" # who else\ntask = { faq = 'small', \"my task\" = \"small\" }\n\n[[static.rule]]\ninput_tokens_min = 1_000\nweights = [0.5, 0.25]\nroute = \"\"\"\nlarge\"\"\"\non = true\n";

    fn change(vary: &str) -> Result<String, Box<Diagnostic>> {
        let file = SourceFile::new("p.toml", POLICY);
        let parameter = Parameter::parse(vary)?;
        let spot = Spot::find(&file, &parameter)?;
        Ok(Spot::replaced(&file, vec![(&spot, &parameter.values[0])])
            .text
            .clone())
    }

    #[test]
    fn only_the_value_changes() {
        for (vary, old, new) in [
            ("policy.static.default=small", "\"large\" #", "\"small\" #"),
            ("policy.static.task.faq=5", "'small'", "\"5\""),
            (
                "policy.static.task.\"my task\"=a\"b\\",
                "\"small\" }",
                "\"a\\\"b\\\\\" }",
            ),
            ("policy.static.rule[0].input_tokens_min=2", "1_000", "2"),
            (
                "policy.static.rule[0].input_tokens_min=much",
                "1_000",
                "\"much\"",
            ),
            ("policy.static.rule[0].weights[1]=0.3", "0.25", "0.3"),
            ("policy.static.rule[0].on=false", "true", "false"),
            ("policy.static.rule[0].on=1e-3", "true", "1e-3"),
            (
                "policy.static.rule[0].route=x",
                "\"\"\"\nlarge\"\"\"",
                "\"x\"",
            ),
        ] {
            assert_eq!(
                change(vary).unwrap(),
                POLICY.replacen(old, new, 1),
                "{vary}"
            );
        }
    }

    #[test]
    fn two_values_of_one_file_change_together() {
        let file = SourceFile::new("p.toml", "a = 1\nb = 22222\n");
        let spots = ["policy.a=1", "policy.b=1"]
            .map(|vary| Spot::find(&file, &Parameter::parse(vary).unwrap()).unwrap());
        let text = &Spot::replaced(&file, vec![(&spots[0], "333"), (&spots[1], "4")]).text;
        assert_eq!(text, "a = 333\nb = 4\n");
    }

    #[test]
    fn no_value_can_write_more_than_a_value() {
        for value in ["1\nx = 2", "1 # x", "{a=1}", "[1]", "\u{7f}", "\"", "a\nb"] {
            let file = SourceFile::new("p.toml", "a = 1\nb = 2\n");
            let spot = Spot::find(&file, &Parameter::parse("policy.a=1").unwrap()).unwrap();
            let changed = Spot::replaced(&file, vec![(&spot, value)]);
            let root = DeTable::parse(&changed.text).unwrap();
            assert_eq!(root.get_ref()["a"].get_ref().as_str(), Some(value));
            assert_eq!(root.get_ref().len(), 2);
        }
    }

    #[test]
    fn a_key_that_is_not_there_is_refused_with_those_that_are() {
        let help = |vary: &str| change(vary).unwrap_err().help[0].clone();
        assert_eq!(
            help("policy.static.task.fax=a"),
            "did you mean `policy.static.task.faq`?"
        );
        assert_eq!(
            help("policy.static.faq=a"),
            "did you mean `policy.static.task.faq`?"
        );
        assert_eq!(
            help("policy.rule[0].weights[1]=a"),
            "did you mean `policy.static.rule[0].weights[1]`?"
        );
        assert!(help("policy.zzz=a").starts_with("its keys: `policy.static.default`, "));
        assert!(help("policy.static.rule[0].weights[2]=a").contains("weights["));
        let table = change("policy.static.task=a").unwrap_err();
        assert_eq!(
            table.message,
            "`policy.static.task` is a table, and a sweep varies one value"
        );
        assert_eq!(
            table.help,
            ["in it: `policy.static.task.faq`, `policy.static.task.\"my task\"`"]
        );
        assert!(
            change("policy.static.rule=a")
                .unwrap_err()
                .message
                .contains("is a list")
        );
    }
}
