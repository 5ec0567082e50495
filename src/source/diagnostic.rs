//! One complaint, and a list of them, shown the way rustc shows its own.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::SourceFile;

/// Most complaints that are printed; the rest are counted.
const SHOWN_MAX: usize = 50;
/// Longest piece of a line that is shown around a complaint, in bytes.
const EXCERPT_BYTES_MAX: usize = 160;

/// Whether a run can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but the user should know.
    Warning,
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A range of bytes of a file that is held in memory.
    Span {
        /// The file.
        file: Arc<SourceFile>,
        /// The bytes.
        span: Range<usize>,
    },
    /// A place in a file that is read line by line.
    Line {
        /// Path of the file.
        path: String,
        /// Line number, from 1.
        line: usize,
        /// The line (or the start of it).
        text: String,
        /// Bytes of `text` that are meant.
        range: Range<usize>,
    },
    /// A file as a whole.
    File {
        /// Path of the file.
        path: String,
    },
}

impl Location {
    /// `path:line`, or the path alone.
    #[must_use]
    pub fn short(&self) -> String {
        match self {
            Self::Span { file, span } => {
                format!("{}:{}", file.path, file.line_column(span.start).0)
            }
            Self::Line { path, line, .. } => format!("{path}:{line}"),
            Self::File { path } => path.clone(),
        }
    }

    /// Path, line number, the line's text, and the range in it.
    fn excerpt(&self) -> Option<(&str, usize, String, Range<usize>)> {
        match self {
            Self::Span { file, span } => {
                let text = file.text.as_str();
                let mut start = span.start.min(text.len());
                while !text.is_char_boundary(start) {
                    start -= 1;
                }
                let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
                let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
                let line = text[line_start..line_end].trim_end_matches('\r').to_owned();
                let range = start - line_start..span.end.clamp(start, line_end) - line_start;
                Some((&file.path, file.line_column(start).0, line, range))
            }
            Self::Line {
                path,
                line,
                text,
                range,
            } => Some((path, *line, text.clone(), range.clone())),
            Self::File { .. } => None,
        }
    }
}

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// Where.
    pub location: Option<Location>,
    /// A few words under the caret.
    pub label: String,
    /// What was expected, or what to do.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error without a place; add one with [`Diagnostic::at`].
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            location: None,
            label: String::new(),
            help: Vec::new(),
        }
    }

    /// A warning without a place.
    #[must_use]
    pub fn warning(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(message)
        }
    }

    /// The same, with a place.
    #[must_use]
    pub fn at(mut self, location: Location) -> Self {
        self.location = Some(location);
        self
    }

    /// The same, with words under the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// The same, with a help line. An empty text adds none.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        let help = help.into();
        if !help.is_empty() {
            self.help.push(help);
        }
        self
    }

    /// The complaint as text, with colour codes if `colour`.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let message = printable(&self.message);
        let label = printable(&self.label);
        let help: Vec<String> = self.help.iter().map(|line| printable(line)).collect();
        let mut group = level
            .primary_title(message.as_str())
            .elements(Vec::<Snippet<'_, annotate_snippets::Annotation<'_>>>::new());
        let place =
            self.location
                .as_ref()
                .and_then(Location::excerpt)
                .map(|(path, line, text, range)| {
                    let (text, range) = clip(&text, range);
                    (printable(path), line, text, range)
                });
        if let Some((path, line, text, range)) = &place {
            let mut annotation = AnnotationKind::Primary.span(range.clone());
            if !label.is_empty() {
                annotation = annotation.label(label.as_str());
            }
            group = group.element(
                Snippet::source(text.as_str())
                    .line_start(*line)
                    .path(path.as_str())
                    .annotation(annotation),
            );
        }
        let file_only = match &self.location {
            Some(Location::File { path }) => Some(format!("in {}", printable(path))),
            _ => None,
        };
        if let Some(place) = &file_only {
            group = group.element(Level::NOTE.message(place.as_str()));
        }
        for line in &help {
            group = group.element(Level::HELP.message(line.as_str()));
        }
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group])
    }
}

/// Text from outside, safe to show on a terminal: control characters become visible escapes.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        } else {
            out.push(c);
        }
    }
    out
}

/// The part of a line around `range` that is worth showing, control characters replaced.
fn clip(text: &str, range: Range<usize>) -> (String, Range<usize>) {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (start, end) = (floor(range.start), floor(range.end.max(range.start)));
    let from = if start > EXCERPT_BYTES_MAX / 2 {
        floor(start - EXCERPT_BYTES_MAX / 2)
    } else {
        0
    };
    let end = end.min(floor(from + EXCERPT_BYTES_MAX));
    let to = floor((from + EXCERPT_BYTES_MAX).max(end));
    // Control characters become one visible character each, so only byte offsets before the range move.
    let text = &veiled(text);
    let clean = |part: &str| -> String {
        part.chars()
            .map(|c| {
                if c.is_control() && c != '\t' {
                    '\u{fffd}'
                } else {
                    c
                }
            })
            .collect()
    };
    // What is left out before is blank, so that the column stays what it is.
    let before = " ".repeat(text[..from].chars().count()) + &clean(&text[from..start]);
    let middle = clean(&text[start..end]);
    let after = clean(&text[end..to]);
    let shown = before.len()..before.len() + middle.len();
    (before + &middle + &after, shown)
}

/// Words in the name of a key whose value nobody but its owner should read.
const SECRET_NAMES: [&str; 6] = [
    "api_key", "apikey", "api-key", "secret", "password", "token",
];

/// The line with the values of keys that may hold a secret replaced by as many asterisks as they have
/// bytes. Keys are pasted into files by mistake, and error texts are pasted into tickets.
fn veiled(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(equals) = rest.find('=') {
        let (before, value) = rest.split_at(equals + 1);
        out.push_str(before);
        let name = before[..equals].trim_end();
        let from = name
            .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '"' | '\'')))
            .map_or(0, |at| at + 1);
        let name = name.get(from..).unwrap_or(name).to_lowercase();
        // `input_tokens = 400` is no secret: a number never is.
        let is_text = value.trim_start().starts_with(['"', '\'']);
        // So is the name of a column of counts: `input_tokens = "prompt"`.
        let counts = name.trim_end_matches(['"', '\'']).ends_with("tokens");
        if !is_text || counts || !SECRET_NAMES.iter().any(|secret| name.contains(secret)) {
            rest = value;
            continue;
        }
        let opening = value.len() - value.trim_start().len();
        let quote = value[opening..].chars().next().unwrap_or('"');
        // Without a closing quote everything to the end of the line may belong to it.
        let end = value[opening + 1..]
            .find(quote)
            .map_or(value.len(), |at| opening + 1 + at);
        out.push_str(&value[..=opening]);
        out.extend(std::iter::repeat_n('*', end - opening - 1));
        rest = &value[end..];
    }
    out.push_str(rest);
    out
}

/// Complaints in the order they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Whether any is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|one| one.severity == Severity::Error)
    }

    /// All of them as text, with the number of errors and warnings at the end.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        for one in self.0.iter().take(SHOWN_MAX) {
            out.push_str(&one.render(colour));
            out.push_str("\n\n");
        }
        if self.0.len() > SHOWN_MAX {
            let _ = writeln!(out, "… and {} more\n", self.0.len() - SHOWN_MAX);
        }
        let errors = self
            .0
            .iter()
            .filter(|one| one.severity == Severity::Error)
            .count();
        let warnings = self.0.len() - errors;
        let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        match (errors, warnings) {
            (0, 0) => {}
            (0, w) => out.push_str(&count(w, "warning")),
            (e, 0) => out.push_str(&count(e, "error")),
            (e, w) => out.push_str(&format!("{}, {}", count(e, "error"), count(w, "warning"))),
        }
        if !self.0.is_empty() {
            out.push('\n');
        }
        out
    }
}

/// The known name nearest to what was written, if one is near enough to be meant
/// (Damerau–Levenshtein distance of at most a third of its length, or a shared start or end).
#[must_use]
pub fn nearest<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let lower = written.to_lowercase();
    known
        .into_iter()
        .filter_map(|name| {
            let distance = strsim::damerau_levenshtein(&lower, &name.to_lowercase());
            let limit = (name.chars().count().max(3) / 3).max(1);
            let part = written.len() >= 3 && (name.starts_with(written) || name.ends_with(written));
            (distance <= limit || part).then_some((distance, name))
        })
        // The first of equally near names wins, so the answer does not depend on chance.
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_shows_line_caret_and_help() {
        let file = SourceFile::new("policies/cascade.toml", "[cascade]\norder = [\"smal\"]\n");
        let shown = Diagnostic::error("unknown route `smal`")
            .at(Location::Span { file, span: 19..25 })
            .label("no such route")
            .help("did you mean `small`?")
            .render(false);
        assert_eq!(
            shown,
            "error: unknown route `smal`\n --> policies/cascade.toml:2:10\n  |\n2 | order = [\"smal\"]\n  |          ^^^^^^ no such route\n  |\n  = help: did you mean `small`?"
        );
    }

    #[test]
    fn control_characters_from_outside_never_reach_the_terminal() {
        let location = Location::Line {
            path: "a\u{1b}[31m.csv".into(),
            line: 3,
            text: "x,\u{1b}[2J,y".into(),
            range: 2..6,
        };
        let shown = Diagnostic::error("bad \u{7} cell")
            .at(location)
            .render(false);
        assert!(
            !shown.contains('\u{1b}') && !shown.contains('\u{7}'),
            "{shown}"
        );
    }

    #[test]
    fn very_long_lines_and_ranges_at_odd_offsets_are_clipped_not_panicked_on() {
        let text = "é".repeat(1000);
        for start in 0..40 {
            let location = Location::Line {
                path: "d.csv".into(),
                line: 1,
                text: text.clone(),
                range: start * 50 + 1..usize::MAX,
            };
            assert!(Diagnostic::error("x").at(location).render(false).len() < 2000);
        }
    }

    #[test]
    fn secrets_are_veiled_wherever_their_line_is_shown() {
        for (line, shown) in [
            ("api_key_env = \"sk-1\"", "api_key_env = \"****\""),
            (
                "x = { kind = \"openai\", API_KEY='a=b', n = 1 }",
                "x = { kind = \"openai\", API_KEY='***', n = 1 }",
            ),
            ("token = \"open", "token = \"****"),
            ("\"password\" = \"\"", "\"password\" = \"\""),
            ("secret = \"é\" # =", "secret = \"**\" # ="),
            ("input_tokens = 400", "input_tokens = 400"),
            ("model = \"token\"", "model = \"token\""),
            ("api_key =", "api_key ="),
        ] {
            assert_eq!(veiled(line), shown);
            assert_eq!(veiled(line).len(), line.len());
        }
    }

    #[test]
    fn the_column_stays_right_when_the_start_of_a_long_line_is_left_out() {
        for before in [0, 10, 79, 80, 81, 500, 100_000] {
            let location = Location::Line {
                path: "d.csv".into(),
                line: 7,
                text: "ä".repeat(before) + "bad,1",
                range: 2 * before..2 * before + 3,
            };
            let shown = Diagnostic::error("x").at(location).render(false);
            assert!(
                shown.contains(&format!("d.csv:7:{}\n", before + 1)),
                "{shown}"
            );
            assert!(shown.contains("bad,1") && shown.contains("^^^"), "{shown}");
            assert!(shown.len() < 2000);
        }
    }

    #[test]
    fn near_names_are_found_and_far_names_are_not_suggested() {
        let known = ["small", "medium", "large"];
        assert_eq!(nearest("smal", known), Some("small"));
        assert_eq!(nearest("lagre", known), Some("large"));
        assert_eq!(nearest("claude", known), None);
        assert_eq!(nearest("", known), None);
    }
}
