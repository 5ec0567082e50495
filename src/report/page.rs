//! A document as one HTML file, for people: opened from disk, printed, sent by mail.
//!
//! A `Page` is a document in parts: verdicts, prose, tables, figures, requests to look into, and where it
//! all came from. `Page::html` writes it down as one file that asks nobody for anything: style and script
//! are in it, and a content security policy forbids whatever else (W3C, *Content Security Policy Level 3*).
//! Everything can be read without the script, which only adds sorting, filters, a button that copies and one
//! for dark and light. A status is a word and a sign, never a colour alone; a number stands with its
//! interval, and says by which method it has it.
//!
//! What this is not: a way to compute anything. `compare` and `sheet` say what is on a page, `html` makes it
//! impossible to write text that is not escaped, `write` gives the parts their form.

mod compare;
mod evidence;
mod figure;
mod html;
mod measures;
mod methods;
mod sheet;
mod slices;
mod stories;
mod write;

pub(super) use compare::priced;
pub use compare::{compare, compare_with};
pub(super) use evidence::level;
pub(super) use sheet::page as of_sheet;

use super::Manifest;
use super::sheet::Figure;

/// What became of something that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// Nobody knows yet.
    Inconclusive,
}

impl Status {
    /// Its sign, beside the word.
    const fn sign(self) -> &'static str {
        match self {
            Self::Pass => "✓",
            Self::Fail => "✗",
            Self::Inconclusive => "?",
        }
    }

    /// Its name in the style sheet.
    const fn class(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "open",
        }
    }
}

/// One line of the verdicts at the top of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictLine {
    /// What became of it.
    pub status: Status,
    /// The same in a word or two, such as `pass (simulated)`.
    pub word: String,
    /// About whom it is: a policy, a task, a tenant.
    pub subject: String,
    /// What was asked, such as `accuracy>=0.9`.
    pub claim: String,
    /// What was measured, with its interval; empty if nothing was.
    pub measured: String,
    /// What is missing, or why; empty if nothing is to be said.
    pub remark: String,
}

/// A document.
pub(super) struct Page {
    /// What kind of document it is, such as `comparison`.
    pub(super) kind: &'static str,
    /// What it is about.
    pub(super) title: String,
    /// What one wants to know at once, such as how many requests: a line of short texts.
    pub(super) facts: Vec<String>,
    /// How far the numbers can be trusted, in a sentence of its own.
    pub(super) warning: Option<&'static str>,
    /// In reading order.
    pub(super) sections: Vec<Section>,
}

/// A heading with what stands under it.
pub(super) struct Section {
    /// Its name within the page, for links.
    pub(super) id: String,
    /// Its heading.
    pub(super) heading: String,
    /// The heading in a word or two, for links.
    pub(super) link: String,
    /// What it shows, in a sentence or two; empty if that is plain.
    pub(super) about: String,
    /// What it shows.
    pub(super) parts: Vec<Part>,
}

impl Section {
    /// A section with one sentence about it.
    fn new(id: &str, heading: &str, about: &str, parts: Vec<Part>) -> Self {
        Self {
            id: id.to_owned(),
            heading: heading.to_owned(),
            link: link(heading),
            about: about.to_owned(),
            parts,
        }
    }
}

/// A heading in few words: what follows a comma or a colon is detail.
fn link(heading: &str) -> String {
    const CHARS_MAX: usize = 32;
    let text = heading.split([',', ':']).next().unwrap_or_default();
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(CHARS_MAX).collect();
    // Whole words, if there are several.
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{}…", &cut[..end])
}

/// A part of a section.
pub(super) enum Part {
    /// The sentence to take away.
    Summary(String),
    /// A paragraph.
    Prose(String),
    /// Sentences of equal weight.
    Notes(Vec<String>),
    /// What was asked and what became of it.
    Verdicts(Vec<VerdictLine>),
    /// Rows and columns.
    Table(Table),
    /// A table that is closed until somebody opens it, under these words.
    Folded(String, Table),
    /// A picture.
    Figure(Figure),
    /// Requests with what happened to them.
    Requests(Vec<Request>),
    /// A file, as its name and its text.
    File(String, String),
    /// Where it all came from.
    Source(Manifest),
}

/// Rows and columns.
#[derive(Default)]
pub(super) struct Table {
    /// What it shows: read out before it, and shown above it.
    pub(super) caption: String,
    /// Its columns.
    pub(super) columns: Vec<Column>,
    /// Its rows, in groups that sorting leaves apart.
    pub(super) groups: Vec<Group>,
    /// Columns by whose values rows can be picked.
    pub(super) filters: Vec<usize>,
}

/// A column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    /// Its heading.
    pub(super) title: String,
    /// Numbers stand on the right.
    pub(super) right: bool,
    /// What it holds, as a hint; empty if that is plain.
    pub(super) about: String,
}

impl Column {
    /// A column of numbers.
    fn number(title: &str, about: &str) -> Self {
        Self {
            title: title.to_owned(),
            right: true,
            about: about.to_owned(),
        }
    }

    /// A column of words.
    fn words(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            right: false,
            about: String::new(),
        }
    }
}

/// Rows that belong together.
#[derive(Default)]
pub(super) struct Group {
    /// Its name, if it has one.
    pub(super) label: String,
    /// One list of cells for each row, one cell for each column.
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    /// What stands in it.
    pub(super) text: String,
    /// What stands behind it in a lower voice, such as an interval.
    pub(super) aside: String,
    /// All there is to know about it: how it was measured, on how many.
    pub(super) detail: String,
    /// What it is sorted by, if not by its text.
    pub(super) key: Option<f64>,
    /// What became of something, shown with its sign.
    pub(super) status: Option<Status>,
    /// Whether it may be long and is shown whole.
    pub(super) is_prose: bool,
}

impl Cell {
    /// Words that may be long.
    fn prose(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_prose: true,
            ..Self::default()
        }
    }

    /// A name or a word.
    fn words(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// A number as it is written, sorted by what it is.
    fn number(text: String, key: Option<f64>) -> Self {
        Self {
            text,
            key,
            ..Self::default()
        }
    }
}

/// One request and what became of it.
pub(super) struct Request {
    /// Its id.
    pub(super) id: String,
    /// Its task.
    pub(super) task: String,
    /// Whose it is; empty if it does not say.
    pub(super) tenant: String,
    /// What each policy did, in a table.
    pub(super) table: Table,
    /// By policy, what happened step by step.
    pub(super) stories: Vec<(String, Vec<String>)>,
}
