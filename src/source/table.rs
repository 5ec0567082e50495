//! Reading TOML by hand, one key at a time, so that every value keeps its place and no error hides another.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Diagnostic, Diagnostics, Location, Severity, SourceFile, Value, nearest};

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

    /// Whether anything found so far is wrong, and not only odd.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        let found = self.found.borrow();
        found.iter().any(|one| one.severity == Severity::Error)
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

    pub(super) fn location(&self, span: Range<usize>) -> Location {
        Location::Span {
            file: self.file.clone(),
            span,
        }
    }
}

/// A table of the file. Keys that nobody asked for are errors once [`Table::finish`] is called.
#[derive(Debug)]
pub struct Table<'t> {
    pub(super) context: &'t Context,
    pub(super) entries: &'t DeTable<'t>,
    pub(super) span: Range<usize>,
    pub(super) path: String,
    pub(super) asked: BTreeSet<String>,
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
        #[cfg(test)]
        census::note(&self.path, key, census::By::Name);
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
                #[cfg(test)]
                census::note(&self.path, name.get_ref(), census::By::Listing);
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

/// "unknown {what} `x`", with the nearest known name or the list of them.
pub(super) fn unknown<'n>(
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

/// Which keys readers ask for: tests hold the schemas of files against it.
#[cfg(test)]
pub(crate) mod census {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// How a key came up.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum By {
        /// The reader asked for it by name, whether it is there or not.
        Name,
        /// It is there, and the reader took whatever is.
        Listing,
    }

    /// Path of the table, key, and how it came up.
    pub(crate) type Asked = BTreeSet<(String, String, By)>;

    thread_local! {
        static ASKED: RefCell<Asked> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(super) fn note(path: &str, key: &str, by: By) {
        ASKED.with_borrow_mut(|asked| asked.insert((path.to_owned(), key.to_owned(), by)));
    }

    /// What is asked for in the course of `read`, on this thread.
    pub(crate) fn of(read: impl FnOnce()) -> Asked {
        ASKED.take();
        read();
        ASKED.take()
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
