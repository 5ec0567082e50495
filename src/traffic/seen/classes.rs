//! Whose data a request holds, where its own headers do not say: a CSV file beside the log.

use std::collections::BTreeMap;

use crate::source::{Diagnostic, Diagnostics, Location};

/// Most requests that the file may name.
pub const CLASSES_MAX: usize = 1_000_000;

/// Tenant and data class by a request's id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(BTreeMap<String, Said>);

/// Tenant and data class, as far as the file says.
type Said = (Option<Box<str>>, Option<Box<str>>);

impl Classes {
    /// Reads a CSV file with the columns `request` (the id by which attempts are tied: see
    /// [`Tie`](super::Tie)), and `tenant` or `data_class` or both. An empty cell says nothing. `None`, with the
    /// reasons in `diagnostics`, if anything is wrong with it.
    #[must_use]
    pub fn parse(text: &str, path: &str, diagnostics: &mut Diagnostics) -> Option<Self> {
        let whole = |message: String| {
            Diagnostic::error(message).at(Location::File {
                path: path.to_owned(),
            })
        };
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => {
                diagnostics.push(whole(format!("the file cannot be read: {error}")));
                return None;
            }
        };
        let column = |name: &str| header.iter().position(|known| known == name);
        let (tenant, class) = (column("tenant"), column("data_class"));
        let (Some(request), true) = (column("request"), tenant.is_some() || class.is_some()) else {
            let found = whole("the columns of a file of data classes are `request`, and `tenant` or `data_class` or both".to_owned());
            let names: Vec<&str> = header.iter().collect();
            diagnostics.push(found.help(format!("it has: {}", names.join(", "))));
            return None;
        };
        let mut classes = Self::default();
        let mut sound = true;
        for record in reader.records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    diagnostics.push(whole(format!("the file cannot be read: {error}")));
                    return None;
                }
            };
            let line = record.position().map_or(0, csv::Position::line) as usize;
            let at = |message: String| {
                let text: String = record.iter().collect::<Vec<_>>().join(",");
                let text: String = text.chars().take(400).collect();
                Diagnostic::error(message).at(Location::Line {
                    path: path.to_owned(),
                    line,
                    range: 0..text.len(),
                    text,
                })
            };
            let cell = |column: Option<usize>| {
                let text = record.get(column?)?;
                (!text.is_empty()).then(|| Box::from(super::row::short(text)))
            };
            let Some(id) = record.get(request).filter(|id| !id.is_empty()) else {
                diagnostics.push(at("there is no id in the column `request`".to_owned()));
                sound = false;
                continue;
            };
            let said = (cell(tenant), cell(class));
            if classes.0.len() >= CLASSES_MAX {
                diagnostics.push(at(format!(
                    "a file of data classes names at most {CLASSES_MAX} requests"
                )));
                return None;
            }
            if let Some(before) = classes.0.insert(super::row::short(id), said.clone())
                && before != said
            {
                diagnostics.push(at(format!("request `{id}` is there twice, and differs")));
                sound = false;
            }
        }
        sound.then_some(classes)
    }

    /// What is known about the request with this id: tenant and data class.
    pub(super) fn of(&self, id: &str) -> (Option<&str>, Option<&str>) {
        self.0.get(id).map_or((None, None), |(tenant, class)| {
            (tenant.as_deref(), class.as_deref())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Classes, String> {
        let mut found = Diagnostics::default();
        Classes::parse(text, "classes.csv", &mut found).ok_or_else(|| found.render(false))
    }

    #[test]
    fn an_empty_cell_says_nothing_and_so_does_an_absent_id() {
        let classes = read("request,data_class,tenant\n1, pii ,\n2,,acme\n2,,acme\n").unwrap();
        assert_eq!(classes.of("1"), (None, Some("pii")));
        assert_eq!(classes.of("2"), (Some("acme"), None));
        assert_eq!(classes.of("3"), (None, None));
    }

    #[test]
    fn what_is_wrong_with_the_file_is_said_with_its_line() {
        for (text, wanted) in [
            ("id,tenant\n1,a\n", "it has: id, tenant"),
            ("request\n1\n", "`tenant` or `data_class`"),
            ("", "the columns of a file of data classes"),
            ("request,tenant\n,a\n", "classes.csv:2"),
            ("request,tenant\n1,a\n1,b\n", "twice, and differs"),
            ("request,tenant\n1,a,b\n", "cannot be read"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(wanted), "{text:?}: {found}");
        }
    }
}
