//! `PATH=VALUES`: which key is varied, and over what.

use super::POINTS_MAX;
use super::decimal::{Amiss, Decimal};
use crate::source::{Diagnostic, nearest};

/// Which file a parameter is a key of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The policy's file.
    Policy,
    /// The workload's file.
    Workload,
    /// The route catalogue.
    Catalogue,
    /// No file: the margin of "not worse".
    Margin,
}

/// First words of paths, and the files they lead into.
const SCOPES: [(&str, Scope); 6] = [
    ("policy", Scope::Policy),
    ("workload", Scope::Workload),
    ("route", Scope::Catalogue),
    ("router", Scope::Catalogue),
    ("require", Scope::Catalogue),
    ("margin", Scope::Margin),
];

/// One step of a path: a key of a table, or a place in a list (from 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Key(String),
    Place(usize),
}

/// A key and the values it takes, as they are written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The path as given.
    pub path: String,
    /// The file it leads into.
    pub scope: Scope,
    /// Its values in the order given, at least one, all different. Numbers of ranges are exact decimals.
    pub values: Vec<String>,
    /// The path below the file's root.
    pub(super) words: Vec<Word>,
}

impl Parameter {
    /// Reads `PATH=VALUES`. Values are separated by commas; each is a number, a word, or a range
    /// `FIRST:LAST:STEP` of decimals. Words of the path are separated by dots; a word that holds other
    /// characters than letters, digits, `-` and `_` stands in quotation marks, and `[2]` behind a word is
    /// the third item of a list.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, Box<Diagnostic>> {
        let (words, rest) = path(text).map_err(|why| {
            Diagnostic::error(format!("cannot read the parameter `{text}`: {why}")).help(
                "write PATH=VALUES, such as `policy.cascade.verifier.simulated.accept_if_wrong=0:0.6:0.1` or `workload.synthetic.correlation=0,0.25,1`",
            )
        })?;
        let written = text[..text.len() - rest.len()].trim_end();
        let written = written.strip_suffix('=').unwrap_or(written).trim();
        let first = match words.first() {
            Some(Word::Key(first)) => first.as_str(),
            _ => "",
        };
        let Some((_, scope)) = SCOPES.iter().find(|(name, _)| *name == first) else {
            let names = SCOPES.map(|(name, _)| name);
            let help = match nearest(first, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "a path begins with `policy`, `workload`, `route`, `router`, `require`, or is `margin`"
                    .to_owned(),
            };
            return Err(Diagnostic::error(format!(
                "parameter `{written}`: unknown file `{first}`"
            ))
            .help(help)
            .into());
        };
        if let (Scope::Workload, Some(Word::Key(second))) = (*scope, words.get(1))
            && second == "timeline"
        {
            let error = Diagnostic::error(format!(
                "`{written}` cannot be varied: `sweep` takes requests one by one, so that nothing in `[timeline]` has a say"
            ));
            return Err(Box::new(error.help(
                "run `drill` on each value; `--limit`, `--down` and `--rate` change one from the command line",
            )));
        }
        let wrong =
            |message: String| Diagnostic::error(format!("parameter `{written}`: {message}"));
        let words = match scope {
            // These tables are the catalogue's own.
            Scope::Catalogue => words,
            Scope::Margin if words.len() > 1 => {
                return Err(wrong("the margin has no keys".to_owned()).into());
            }
            Scope::Policy | Scope::Workload if words.len() == 1 => {
                return Err(wrong("no key of the file is named".to_owned())
                    .help(format!("go on with a dot: `{first}.TABLE.KEY`"))
                    .into());
            }
            Scope::Margin | Scope::Policy | Scope::Workload => words[1..].to_vec(),
        };
        let mut values: Vec<String> = Vec::new();
        for item in rest.split(',') {
            for value in expand(item.trim()).map_err(wrong)? {
                if values.contains(&value) {
                    return Err(wrong(format!("the value `{value}` is given twice")).into());
                }
                values.push(value);
                if values.len() > POINTS_MAX {
                    return Err(wrong(format!("a sweep has at most {POINTS_MAX} points")).into());
                }
            }
        }
        if *scope == Scope::Margin {
            for value in &values {
                if !value.parse::<f64>().is_ok_and(|m| (0.0..1.0).contains(&m)) {
                    return Err(wrong(format!(
                        "the margin must be a share from 0 to below 1, such as 0.03 for three points, not {value}"
                    )).into());
                }
            }
        }
        Ok(Self {
            path: written.to_owned(),
            scope: *scope,
            values,
            words,
        })
    }

    /// The words of the path as written, split at dots that are not quoted.
    pub(super) fn path_words(&self) -> Vec<&str> {
        let mut quote = None;
        self.path
            .split(move |c| {
                match (quote, c) {
                    (None, '"' | '\'') => quote = Some(c),
                    (Some(open), c) if c == open => quote = None,
                    _ => {}
                }
                quote.is_none() && c == '.'
            })
            .map(str::trim)
            .collect()
    }

    /// Whether both lead to the same place.
    pub(super) fn is_same_key(&self, other: &Self) -> bool {
        self.scope == other.scope && self.words == other.words
    }
}

/// The words before the first `=` that is not quoted, and what comes after it.
fn path(text: &str) -> Result<(Vec<Word>, &str), String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    loop {
        let (word, after) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let inner = &rest[1..];
                let end = inner
                    .find(quote)
                    .ok_or_else(|| format!("the quotation mark {quote} is not closed"))?;
                (&inner[..end], &inner[end + 1..])
            }
            _ => {
                let bare = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
                let end = rest.find(|c| !bare(c)).unwrap_or(rest.len());
                if end == 0 {
                    return Err(match rest.chars().next() {
                        Some(c) => format!("a key was expected where `{c}` stands"),
                        None => "there are no values".to_owned(),
                    });
                }
                (&rest[..end], &rest[end..])
            }
        };
        words.push(Word::Key(word.to_owned()));
        rest = after;
        while let Some(inner) = rest.strip_prefix('[') {
            let (place, after) = inner.split_once(']').ok_or("`[` is not closed")?;
            let place = place
                .trim()
                .parse()
                .map_err(|_| format!("`[{place}]` is no place in a list; the first is `[0]`"))?;
            words.push(Word::Place(place));
            rest = after;
        }
        rest = rest.trim_start();
        match rest.chars().next() {
            Some('.') => rest = rest[1..].trim_start(),
            Some('=') => return Ok((words, &rest[1..])),
            Some(c) => return Err(format!("`.` or `=` was expected where `{c}` stands")),
            None => return Err("there are no values".to_owned()),
        }
    }
}

/// The values that one item stands for.
fn expand(item: &str) -> Result<Vec<String>, String> {
    if item.is_empty() {
        return Err("a value is missing".to_owned());
    }
    let parts: Vec<&str> = item.split(':').map(str::trim).collect();
    // A word may hold colons; what begins like a number was meant as a range.
    let is_range = parts.len() > 1 && Decimal::parse(parts[0]).is_some();
    if !is_range {
        return Ok(vec![item.to_owned()]);
    }
    let &[first, last, step] = parts.as_slice() else {
        return Err(format!("the range `{item}` is not FIRST:LAST:STEP"));
    };
    let number = |text: &str| {
        Decimal::parse(text)
            .ok_or_else(|| format!("`{text}` in the range `{item}` is no decimal number"))
    };
    Decimal::range(number(first)?, number(last)?, number(step)?, POINTS_MAX)
        .map(|all| all.iter().map(Decimal::to_string).collect())
        .map_err(|amiss| match amiss {
            Amiss::NoStep => format!("the step of the range `{item}` is zero"),
            Amiss::Away => format!("the step of the range `{item}` leads away from its end"),
            Amiss::TooMany(count) => {
                format!(
                    "the range `{item}` has {count} values; a sweep has at most {POINTS_MAX} points"
                )
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Result<Vec<String>, String> {
        Parameter::parse(text)
            .map(|one| one.values)
            .map_err(|error| error.message)
    }

    #[test]
    fn values_are_ranges_numbers_and_words_in_any_mixture() {
        assert_eq!(
            values("policy.a=0:0.2:0.1, 0.9").unwrap(),
            ["0", "0.1", "0.2", "0.9"]
        );
        assert_eq!(values("policy.a=small,large").unwrap(), ["small", "large"]);
        assert_eq!(values("policy.a=org:model:v1").unwrap(), ["org:model:v1"]);
        assert_eq!(values("policy.a=0.30").unwrap(), ["0.30"]);
    }

    #[test]
    fn paths_take_quoted_words_and_places_in_lists() {
        let read = Parameter::parse("policy.static.task.\"my = task\"[2] = a").unwrap();
        assert_eq!(read.path, "policy.static.task.\"my = task\"[2]");
        let key = |text: &str| Word::Key(text.to_owned());
        assert_eq!(
            read.words,
            [key("static"), key("task"), key("my = task"), Word::Place(2)]
        );
        assert_eq!(read.values, ["a"]);
        let read = Parameter::parse("route.small.usd_per_mtok.input=1").unwrap();
        assert_eq!((read.scope, read.words.len()), (Scope::Catalogue, 4));
    }

    #[test]
    fn what_cannot_be_read_is_refused_in_words() {
        for (text, why) in [
            ("policy.a", "there are no values"),
            ("policy.a=", "a value is missing"),
            ("policy.a=1,,2", "a value is missing"),
            ("policy.a=1,2,1", "`1` is given twice"),
            ("policy..a=1", "a key was expected where `.` stands"),
            ("policy.\"a=1", "is not closed"),
            ("policy.a[x]=1", "`[x]` is no place"),
            ("policy.a[1=1", "`[` is not closed"),
            ("policy.a b=1", "`.` or `=` was expected where `b` stands"),
            ("=1", "a key was expected where `=` stands"),
            ("", "there are no values"),
            ("polcy.a=1", "unknown file `polcy`"),
            ("policy=1", "no key of the file is named"),
            ("margin.x=0.1", "the margin has no keys"),
            ("margin=3", "a share from 0 to below 1"),
            ("margin=nan", "a share from 0 to below 1"),
            ("policy.a=0:1", "is not FIRST:LAST:STEP"),
            ("policy.a=0:1:x", "`x` in the range"),
            ("policy.a=0:1:0", "is zero"),
            ("policy.a=1:0:0.1", "leads away"),
            ("policy.a=0:1:0.0001", "has 10001 values"),
        ] {
            let error = values(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}|(policy|margin)[.a-z\"'\\[\\]0-9=:,e-]{0,30}") {
            let _ = Parameter::parse(&text);
        }
    }
}
