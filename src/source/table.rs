//! Reading TOML by hand, one key at a time, so that every value keeps its place and no error hides another.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Diagnostic, Diagnostics, Location, SourceFile, nearest};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub location: Location,
}

impl<T> At<T> {
    /// The same place with another value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At {
            value: f(self.value),
            location: self.location,
        }
    }
}

/// A parsed file.
#[derive(Debug)]
pub struct Document<'a> {
    file: &'a Arc<SourceFile>,
    root: Spanned<DeTable<'a>>,
    syntax: Vec<Diagnostic>,
}

impl<'a> Document<'a> {
    /// Parses as much as can be parsed; what cannot is reported by [`Document::context`]'s diagnostics.
    #[must_use]
    pub fn parse(file: &'a Arc<SourceFile>) -> Self {
        let (root, errors) = DeTable::parse_recoverable(&file.text);
        let syntax = errors
            .iter()
            .map(|error| {
                let span = error.span().unwrap_or(0..0);
                let mut message = error.message().replace('\n', ", ");
                if message == "duplicate key"
                    && let Some(key) = file.text.get(span.clone())
                {
                    message = format!("`{}` is already defined above", key.trim());
                }
                Diagnostic::error(message).at(Location::Span {
                    file: file.clone(),
                    span,
                })
            })
            .collect();
        Self { file, root, syntax }
    }

    /// A fresh list of complaints about this file, starting with its syntax errors.
    #[must_use]
    pub fn context(&self) -> Context {
        Context {
            file: self.file.clone(),
            found: RefCell::new(self.syntax.clone()),
        }
    }

    /// The whole file as a table.
    #[must_use]
    pub fn table<'t>(&'t self, context: &'t Context) -> Table<'t> {
        Table {
            context,
            entries: self.root.get_ref(),
            span: 0..0,
            path: String::new(),
            asked: BTreeSet::new(),
        }
    }
}

/// The complaints about one file, collected while it is read.
#[derive(Debug)]
pub struct Context {
    file: Arc<SourceFile>,
    found: RefCell<Vec<Diagnostic>>,
}

impl Context {
    /// Adds a complaint.
    pub fn report(&self, diagnostic: Diagnostic) {
        self.found.borrow_mut().push(diagnostic);
    }

    /// What was found so far is wrong.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        !self.found.borrow().is_empty()
    }

    /// Everything that was found, in the order of the file.
    pub fn finish(self, into: &mut Diagnostics) {
        let mut found = self.found.into_inner();
        found.sort_by_key(|one| match &one.location {
            Some(Location::Span { span, .. }) => span.start,
            _ => usize::MAX,
        });
        into.0.append(&mut found);
    }

    fn location(&self, span: Range<usize>) -> Location {
        Location::Span {
            file: self.file.clone(),
            span,
        }
    }
}

/// A table of the file. Keys that nobody asked for are errors once [`Table::finish`] is called.
#[derive(Debug)]
pub struct Table<'t> {
    context: &'t Context,
    entries: &'t DeTable<'t>,
    span: Range<usize>,
    path: String,
    asked: BTreeSet<String>,
}

impl<'t> Table<'t> {
    /// Where the table's header or brace stands.
    #[must_use]
    pub fn location(&self) -> Location {
        self.context.location(self.span.clone())
    }

    /// Dotted path, empty at the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file's complaints.
    #[must_use]
    pub fn context(&self) -> &'t Context {
        self.context
    }

    /// Whether the table has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of `key`, if it is there.
    pub fn get(&mut self, key: &str) -> Option<Value<'t>> {
        self.asked.insert(key.to_owned());
        let (name, value) = self.entries.get_key_value(key)?;
        Some(self.child(name, value))
    }

    /// The value of `key`; its absence is an error.
    pub fn require(&mut self, key: &str) -> Option<Value<'t>> {
        let found = self.get(key);
        if found.is_none() {
            let place = if self.path.is_empty() {
                "this file".to_owned()
            } else {
                format!("`[{}]`", self.path)
            };
            self.error(format!("missing key `{key}` in {place}"));
        }
        found
    }

    /// Reports an error about the table as a whole.
    pub fn error(&self, message: impl Into<String>) {
        self.context
            .report(Diagnostic::error(message).at(self.location()));
    }

    /// All entries, in file order; all of them count as asked for.
    pub fn entries(&mut self) -> Vec<(At<String>, Value<'t>)> {
        let mut entries: Vec<_> = self
            .entries
            .iter()
            .map(|(name, value)| {
                self.asked.insert(name.get_ref().to_string());
                let at = At {
                    value: name.get_ref().to_string(),
                    location: self.context.location(name.span()),
                };
                (name.span().start, at, self.child(name, value))
            })
            .collect();
        entries.sort_by_key(|(start, ..)| *start);
        entries
            .into_iter()
            .map(|(_, at, value)| (at, value))
            .collect()
    }

    /// Reports every key that was never asked for, with the nearest one that was.
    pub fn finish(self) {
        for name in self.entries.keys() {
            let text: &str = name.get_ref();
            if !self.asked.contains(text) {
                let known = describe_list(self.asked.iter().map(String::as_str));
                let help = match nearest(text, self.asked.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if self.asked.is_empty() => String::new(),
                    None => format!("known keys here: {known}"),
                };
                let place = if self.path.is_empty() {
                    String::new()
                } else {
                    format!(" in `[{}]`", self.path)
                };
                self.context.report(
                    Diagnostic::error(format!("unknown key `{text}`{place}"))
                        .at(self.context.location(name.span()))
                        .help(help),
                );
            }
        }
    }

    fn child(
        &self,
        name: &'t Spanned<std::borrow::Cow<'t, str>>,
        value: &'t Spanned<DeValue<'t>>,
    ) -> Value<'t> {
        let key = name.get_ref();
        let path = if self.path.is_empty() {
            key.to_string()
        } else {
            format!("{}.{key}", self.path)
        };
        Value {
            context: self.context,
            value: value.get_ref(),
            span: value.span(),
            name: name.span(),
            path,
        }
    }
}

/// One value of the file. The readers report what they did not expect and then return `None`.
#[derive(Clone, Debug)]
pub struct Value<'t> {
    context: &'t Context,
    value: &'t DeValue<'t>,
    span: Range<usize>,
    name: Range<usize>,
    path: String,
}

impl<'t> Value<'t> {
    /// Where the value stands.
    #[must_use]
    pub fn location(&self) -> Location {
        self.context.location(self.span.clone())
    }

    /// Where the value's key stands (of a list's item: the item).
    #[must_use]
    pub fn name_location(&self) -> Location {
        self.context.location(self.name.clone())
    }

    /// Dotted path of the value.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reports an error about this value.
    pub fn error(&self, message: impl Into<String>) {
        self.error_help(message, "");
    }

    /// Reports an error about this value, with advice.
    pub fn error_help(&self, message: impl Into<String>, help: impl Into<String>) {
        self.context
            .report(Diagnostic::error(message).help(help).at(self.location()));
    }

    /// Adds a complaint that has its own place.
    pub fn report_diagnostic(&self, diagnostic: Diagnostic) {
        self.context.report(diagnostic);
    }

    fn expected(&self, what: &str) {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) | DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(format!("`{}` must be {what}, not {found}", self.path));
    }

    /// Whether the value is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.value.is_table()
    }

    /// Whether the value is a string.
    #[must_use]
    pub fn is_str(&self) -> bool {
        self.value.is_str()
    }

    /// Whether the value is a number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        self.value.is_integer() || self.value.is_float()
    }

    /// A string.
    #[must_use]
    pub fn string(&self) -> Option<At<String>> {
        match self.value {
            DeValue::String(text) => Some(At {
                value: text.to_string(),
                location: self.location(),
            }),
            _ => {
                self.expected("a string");
                None
            }
        }
    }

    /// True or false.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            _ => {
                self.expected("true or false");
                None
            }
        }
    }

    /// A finite number.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        let number = match self.value {
            DeValue::Float(text) => text.as_str().replace('_', "").parse::<f64>().ok(),
            DeValue::Integer(text) => {
                i64::from_str_radix(&text.as_str().replace('_', ""), text.radix())
                    .ok()
                    .map(|n| n as f64)
            }
            _ => {
                self.expected("a number");
                return None;
            }
        };
        match number {
            Some(number) if number.is_finite() => Some(number),
            _ => {
                self.error(format!("`{}` must be a finite number", self.path));
                None
            }
        }
    }

    /// A finite number in `low..=high`.
    #[must_use]
    pub fn number_in(&self, low: f64, high: f64) -> Option<f64> {
        let number = self.number()?;
        if (low..=high).contains(&number) {
            return Some(number);
        }
        let wanted = match (low > f64::MIN, high < f64::MAX) {
            (true, true) => format!("between {low} and {high}"),
            (true, false) => format!("at least {low}"),
            _ => format!("at most {high}"),
        };
        self.error(format!("`{}` must be {wanted}, but is {number}", self.path));
        None
    }

    /// A number above zero.
    #[must_use]
    pub fn positive(&self) -> Option<f64> {
        let number = self.number()?;
        if number > 0.0 {
            return Some(number);
        }
        self.error(format!("`{}` must be above 0, but is {number}", self.path));
        None
    }

    /// A probability.
    #[must_use]
    pub fn probability(&self) -> Option<crate::units::Probability> {
        let number = self.number()?;
        let probability = crate::units::Probability::new(number);
        if probability.is_none() {
            self.error_help(
                format!(
                    "`{}` is a probability and must be between 0 and 1, but is {number}",
                    self.path
                ),
                if (2.0..=100.0).contains(&number) {
                    format!("{number} % is written {}", number / 100.0)
                } else {
                    String::new()
                },
            );
        }
        probability
    }

    /// A whole number in `low..=high`.
    #[must_use]
    pub fn integer_in(&self, low: u64, high: u64) -> Option<u64> {
        let DeValue::Integer(text) = self.value else {
            match self.value {
                DeValue::Float(text) => self.error(format!(
                    "`{}` must be a whole number, but is {}",
                    self.path,
                    text.as_str()
                )),
                _ => self.expected("a whole number"),
            }
            return None;
        };
        let number = i128::from_str_radix(&text.as_str().replace('_', ""), text.radix()).ok();
        match number {
            Some(number) if number >= i128::from(low) && number <= i128::from(high) => {
                Some(number as u64)
            }
            Some(number) => {
                self.error(format!(
                    "`{}` must be between {low} and {high}, but is {number}",
                    self.path
                ));
                None
            }
            None => {
                self.error(format!("`{}` must be between {low} and {high}", self.path));
                None
            }
        }
    }

    /// A date `YYYY-MM-DD` as (year, month, day).
    #[must_use]
    pub fn date(&self) -> Option<(u16, u8, u8)> {
        if let DeValue::Datetime(moment) = self.value
            && let Some(date) = moment.date
        {
            return Some((date.year, date.month, date.day));
        }
        self.expected("a date such as 2026-10-01");
        None
    }

    /// The items of a list.
    #[must_use]
    pub fn list(&self) -> Option<Vec<Value<'t>>> {
        let DeValue::Array(items) = self.value else {
            self.expected("a list");
            return None;
        };
        let item = |(index, item): (usize, &'t Spanned<DeValue<'t>>)| Value {
            context: self.context,
            value: item.get_ref(),
            span: item.span(),
            name: item.span(),
            path: format!("{}[{index}]", self.path),
        };
        Some(items.iter().enumerate().map(item).collect())
    }

    /// A list of strings.
    #[must_use]
    pub fn strings(&self) -> Option<Vec<At<String>>> {
        let items = self.list()?;
        let strings: Vec<_> = items.iter().filter_map(Value::string).collect();
        (strings.len() == items.len()).then_some(strings)
    }

    /// A table.
    #[must_use]
    pub fn table(&self) -> Option<Table<'t>> {
        let DeValue::Table(entries) = self.value else {
            self.expected("a table");
            return None;
        };
        Some(Table {
            context: self.context,
            entries,
            span: self.name.clone(),
            path: self.path.clone(),
            asked: BTreeSet::new(),
        })
    }

    /// A string that must be one of `names`: its index.
    #[must_use]
    pub fn one_of(&self, what: &str, names: &[&str]) -> Option<usize> {
        let name = self.string()?;
        let found = names.iter().position(|known| *known == name.value);
        if found.is_none() {
            self.context
                .report(unknown(what, &name, names.iter().copied()));
        }
        found
    }
}

/// "unknown {what} `x`", with the nearest known name or the list of them.
pub(crate) fn unknown<'n>(
    what: &str,
    name: &At<String>,
    known: impl IntoIterator<Item = &'n str> + Clone,
) -> Diagnostic {
    let help = match nearest(&name.value, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", describe_list(known)),
    };
    Diagnostic::error(format!("unknown {what} `{}`", name.value))
        .at(name.location.clone())
        .help(help)
}

impl At<String> {
    /// The complaint "unknown {what}", with the nearest of the known names.
    #[must_use]
    pub fn unknown<'n>(
        &self,
        what: &str,
        known: impl IntoIterator<Item = &'n str> + Clone,
    ) -> Diagnostic {
        unknown(what, self, known)
    }
}

/// Names for a message: quoted, comma-separated, at most a dozen.
#[must_use]
pub fn describe_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.into_iter().collect();
    let mut text = names
        .iter()
        .take(12)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > 12 {
        text.push_str(&format!(", … ({} in all)", names.len()));
    }
    if text.is_empty() {
        "none".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str, read: impl FnOnce(&mut Table<'_>)) -> Vec<String> {
        let file = SourceFile::new("t.toml", text);
        let document = Document::parse(&file);
        let context = document.context();
        let mut table = document.table(&context);
        read(&mut table);
        table.finish();
        let mut all = Diagnostics::default();
        context.finish(&mut all);
        all.0
            .iter()
            .map(|one| {
                format!(
                    "{}: {}",
                    one.location.as_ref().unwrap().short(),
                    one.message
                )
            })
            .collect()
    }

    #[test]
    fn all_errors_of_a_file_come_at_once_in_file_order() {
        let found = complaints("a = 1.5\nb = \"x\"\nc = [1, 2]\nzz = 1\n", |table| {
            let _ = table.get("b").unwrap().number();
            let _ = table.get("a").unwrap().probability();
            let _ = table.get("c").unwrap().strings();
            let _ = table.require("d");
        });
        assert_eq!(
            found,
            [
                "t.toml:1: missing key `d` in this file",
                "t.toml:1: `a` is a probability and must be between 0 and 1, but is 1.5",
                "t.toml:2: `b` must be a number, not a string",
                "t.toml:3: `c[0]` must be a string, not a number",
                "t.toml:3: `c[1]` must be a string, not a number",
                "t.toml:4: unknown key `zz`",
            ]
        );
    }

    #[test]
    fn syntax_errors_do_not_hide_the_rest() {
        let found = complaints("a = = 1\nb = true\n", |table| {
            let _ = table.get("a");
            let _ = table.get("b").map(|value| value.number());
        });
        assert!(found.len() >= 2, "{found:?}");
        assert!(
            found
                .last()
                .unwrap()
                .contains("`b` must be a number, not true or false"),
            "{found:?}"
        );
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused() {
        let found = complaints("a = nan\nb = inf\nc = 99999999999999999999\n", |table| {
            for key in ["a", "b"] {
                assert_eq!(table.get(key).unwrap().number(), None);
            }
            assert_eq!(table.get("c").unwrap().integer_in(0, 10), None);
        });
        assert_eq!(found.len(), 3, "{found:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,200}|([a-c]( = )[0-9\\[\\]{}\"a-z.,]{0,9}\n){0,8}") {
            complaints(&text, |table| {
                for (_, value) in table.entries() {
                    let _ = (value.number(), value.string(), value.strings(), value.date(), value.integer_in(1, 9));
                }
            });
        }
    }
}
