//! Reading one value: a string, a number, a list, a table. What was not expected is reported at its place.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use super::table::{At, Context, Table, unknown};
use super::{Diagnostic, Location};

/// One value of the file. The readers report what they did not expect and then return `None`.
#[derive(Clone, Debug)]
pub struct Value<'t> {
    pub(super) context: &'t Context,
    pub(super) value: &'t DeValue<'t>,
    pub(super) span: Range<usize>,
    pub(super) name: Range<usize>,
    pub(super) path: String,
}

impl<'t> Value<'t> {
    /// Where the value stands.
    #[must_use]
    pub fn location(&self) -> Location {
        self.context.location(self.span.clone())
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

    /// Whether the value is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// The value as JSON, tables as objects in file order. Dates, and numbers that JSON lacks, are
    /// reported: they have no counterpart.
    #[must_use]
    pub fn json(&self) -> Option<serde_json::Value> {
        use serde_json::{Number, Value as Json};
        match self.value {
            DeValue::String(text) => Some(Json::String(text.to_string())),
            DeValue::Boolean(value) => Some(Json::Bool(*value)),
            DeValue::Integer(text) => {
                let digits = text.as_str().replace('_', "");
                let number = i64::from_str_radix(&digits, text.radix());
                if number.is_err() {
                    self.error(format!("`{}` must be a finite number", self.path));
                }
                number.ok().map(Json::from)
            }
            DeValue::Float(_) => self.number().and_then(Number::from_f64).map(Json::Number),
            DeValue::Array(_) => {
                let items = self.list()?;
                let read: Vec<Json> = items.iter().filter_map(Value::json).collect();
                (read.len() == items.len()).then_some(Json::Array(read))
            }
            DeValue::Table(_) => {
                let entries = self.table()?.entries();
                let read: serde_json::Map<String, Json> = entries
                    .iter()
                    .filter_map(|(name, value)| Some((name.value.clone(), value.json()?)))
                    .collect();
                (read.len() == entries.len()).then_some(Json::Object(read))
            }
            DeValue::Datetime(_) => {
                self.error(format!(
                    "`{}` is a date, which JSON does not have; write it as a string",
                    self.path
                ));
                None
            }
        }
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
