//! The form of a page: its parts as HTML, around them one complete file.

use super::html::Html;
use super::{Cell, Column, Page, Part, Request, Section, Table, VerdictLine, figure};
use crate::report::Manifest;
use crate::report::format::{visible, whole};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Page {
    /// The whole file.
    pub(in crate::report) fn html(&self) -> String {
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action 'none'",
            digest(STYLE),
            digest(SCRIPT)
        );
        let title = format!("{}: {}", self.title, self.kind);
        let head = [
            Html::element("meta", &[("charset", "utf-8")], []),
            // Before anything that it could forbid.
            Html::element(
                "meta",
                &[
                    ("http-equiv", "Content-Security-Policy"),
                    ("content", &policy),
                ],
                [],
            ),
            meta("viewport", "width=device-width, initial-scale=1"),
            meta("color-scheme", "light dark"),
            meta("referrer", "no-referrer"),
            Html::leaf("title", &[], &title),
            Html::code("style", STYLE),
        ];
        let sections = self.sections.iter().map(Section::html);
        let body = [
            Html::leaf(
                "a",
                &[("class", "skip"), ("href", "#report")],
                "Skip to the report",
            ),
            Html::newline(),
            self.header(),
            Html::newline(),
            Html::element("main", &[("id", "report"), ("tabindex", "-1")], sections),
            Html::newline(),
            Html::code("script", SCRIPT),
            Html::newline(),
        ];
        let html = Html::element(
            "html",
            &[("lang", "en")],
            [
                Html::newline(),
                Html::element(
                    "head",
                    &[],
                    head.into_iter().flat_map(|part| [part, Html::newline()]),
                ),
                Html::newline(),
                Html::element("body", &[], body),
                Html::newline(),
            ],
        );
        format!("<!doctype html>\n{}\n", html.into_text())
    }

    fn header(&self) -> Html {
        let facts = self.facts.iter().map(|fact| Html::leaf("li", &[], fact));
        let links = self.sections.iter().map(|section| {
            let target = format!("#{}", section.id);
            Html::element(
                "li",
                &[],
                [Html::leaf("a", &[("href", &target)], &section.link)],
            )
        });
        let kind = format!("routelab {}", self.kind);
        let mut inner = vec![
            Html::leaf("p", &[("class", "kind")], &kind),
            Html::element("h1", &[], [Html::name(&self.title)]),
            Html::element("ul", &[("class", "facts")], facts),
        ];
        if let Some(warning) = self.warning {
            inner.push(Html::leaf("p", &[("class", "warning")], warning));
        }
        inner.push(Html::element(
            "nav",
            &[("aria-label", "Sections")],
            [Html::element("ul", &[], links)],
        ));
        Html::element("header", &[], inner)
    }
}

fn meta(name: &str, content: &str) -> Html {
    Html::element("meta", &[("name", name), ("content", content)], [])
}

/// The SHA-256 of a text in Base64 (RFC 4648, section 4), as a content security policy wants it.
fn digest(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Sha256::digest(text.as_bytes());
    let mut out = String::with_capacity(44);
    for three in digest.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            out.push(if at > three.len() {
                '='
            } else {
                char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63])
            });
        }
    }
    out
}

impl Section {
    fn html(&self) -> Html {
        let heading = format!("{}-heading", self.id);
        let mut inner = vec![
            Html::newline(),
            Html::leaf("h2", &[("id", &heading)], &self.heading),
        ];
        if !self.about.is_empty() {
            inner.push(Html::sentence("p", &[("class", "about")], &self.about));
        }
        for (place, part) in self.parts.iter().enumerate() {
            inner.push(Html::newline());
            inner.push(part.html(&format!("{}-{place}", self.id)));
        }
        Html::element(
            "section",
            &[("id", &self.id), ("aria-labelledby", &heading)],
            inner,
        )
    }
}

impl Part {
    /// As HTML; `id` is its own within the page.
    fn html(&self, id: &str) -> Html {
        match self {
            Self::Summary(text) => Html::sentence("p", &[("class", "summary")], text),
            Self::Prose(text) => Html::sentence("p", &[("class", "prose")], text),
            Self::Notes(notes) => Html::element(
                "ul",
                &[("class", "notes")],
                notes.iter().map(|note| Html::sentence("li", &[], note)),
            ),
            Self::Verdicts(lines) => Html::element(
                "ul",
                &[("class", "verdicts")],
                lines.iter().map(VerdictLine::html),
            ),
            Self::Table(table) => table.html(id),
            Self::Folded(words, table) => Html::element(
                "details",
                &[],
                [Html::leaf("summary", &[], words), table.html(id)],
            ),
            Self::Figure(drawn) => figure::html(drawn, id),
            Self::Requests(requests) => Html::element(
                "div",
                &[("class", "requests"), ("id", id)],
                requests
                    .iter()
                    .enumerate()
                    .map(|(place, request)| request.html(&format!("{id}-{place}"))),
            ),
            Self::File(name, text) => {
                let label = format!("Text of {name}");
                Html::element(
                    "div",
                    &[("class", "file")],
                    [Html::leaf("h3", &[], name), preformatted(id, &label, text)],
                )
            }
            Self::Source(manifest) => source(manifest, id),
        }
    }
}

/// Lines as they are, in a box that scrolls sideways and can be copied from.
fn preformatted(id: &str, label: &str, text: &str) -> Html {
    let lines = text
        .lines()
        .flat_map(|line| [Html::text(line), Html::newline()]);
    Html::element(
        "pre",
        &[
            ("id", id),
            ("class", "copy"),
            ("tabindex", "0"),
            ("role", "group"),
            ("aria-label", label),
        ],
        [Html::element("code", &[], lines)],
    )
}

impl VerdictLine {
    fn html(&self) -> Html {
        let class = self.status.class();
        let mut inner = vec![
            Html::element(
                "span",
                &[("class", "word")],
                [sign(self.status), Html::text(" "), Html::text(&self.word)],
            ),
            Html::text(" "),
            Html::element("span", &[("class", "subject")], [Html::name(&self.subject)]),
            Html::text(" "),
        ];
        inner.extend([
            Html::leaf("span", &[("class", "measured")], &self.measured),
            Html::text(" "),
        ]);
        let mut claim = vec![Html::text(&self.claim)];
        if !self.remark.is_empty() {
            claim.push(Html::text(" "));
            claim.push(Html::leaf("span", &[("class", "remark")], &self.remark));
        }
        inner.push(Html::element("span", &[("class", "claim")], claim));
        Html::element("li", &[("class", class)], inner)
    }
}

/// The sign of a status, which its word says to whoever cannot see it.
fn sign(status: super::Status) -> Html {
    Html::leaf(
        "span",
        &[("class", "sign"), ("aria-hidden", "true")],
        status.sign(),
    )
}

impl Table {
    /// As HTML, in a box that scrolls sideways where there is too little room.
    fn html(&self, id: &str) -> Html {
        let caption = format!("{id}-caption");
        let head = self.columns.iter().map(Column::html);
        let mut inner = vec![
            Html::leaf(
                "caption",
                &[("id", &caption), ("class", "heard")],
                &self.caption,
            ),
            Html::newline(),
            Html::element("thead", &[], [Html::element("tr", &[], head)]),
        ];
        let width = self.columns.len().max(1).to_string();
        let rows = || self.groups.iter().flat_map(|group| &group.rows);
        let widths: Vec<u32> = (0..self.columns.len())
            .map(|column| {
                let asides = rows().filter_map(|row| row.get(column));
                let widest = asides.map(|cell| digits_wide(&cell.aside)).max();
                widest.unwrap_or(0).min(ASIDE_DIGITS_MAX)
            })
            .collect();
        for group in self.groups.iter().filter(|group| !group.rows.is_empty()) {
            let mut rows = vec![Html::newline()];
            if !group.label.is_empty() {
                let label = Html::leaf(
                    "th",
                    &[("colspan", &width), ("scope", "rowgroup")],
                    &group.label,
                );
                rows.push(Html::element("tr", &[("class", "label")], [label]));
                rows.push(Html::newline());
            }
            for row in &group.rows {
                let columns = self.columns.iter().zip(&widths).enumerate();
                let cells = row
                    .iter()
                    .zip(columns)
                    .map(|(cell, (place, (column, width)))| {
                        cell.html(place == 0, column.right, *width)
                    });
                rows.push(Html::element("tr", &[], cells));
                rows.push(Html::newline());
            }
            inner.push(Html::element("tbody", &[], rows));
        }
        let filters: Vec<String> = self.filters.iter().map(usize::to_string).collect();
        let filters = filters.join(",");
        let mut attributes = vec![("id", id)];
        if !filters.is_empty() {
            attributes.push(("data-filters", &filters));
        }
        Html::element(
            "div",
            &[
                ("class", "scroll"),
                ("role", "group"),
                ("tabindex", "0"),
                ("aria-labelledby", &caption),
            ],
            [Html::element("table", &attributes, inner)],
        )
    }
}

/// Most characters of a word that is never broken, and of a name that is not where there is room.
const SHORT_CHARS_MAX: usize = 16;
const NAME_CHARS_WHOLE: usize = 28;
/// Widest aside for which the style sheet has a class, in digits.
const ASIDE_DIGITS_MAX: u32 = 28;

/// How wide a text of mostly digits is, in digits: signs of a number are narrower than these.
fn digits_wide(text: &str) -> u32 {
    let tenths: u32 = text
        .chars()
        .map(|c| match c {
            '[' | ']' | '(' | ')' | ',' | '.' | ' ' | '-' => 6,
            '+' => 13,
            _ => 10,
        })
        .sum();
    tenths.div_ceil(10)
}

impl Column {
    fn html(&self) -> Html {
        let mut attributes = vec![("scope", "col")];
        if self.right {
            attributes.push(("class", "number"));
        }
        if !self.about.is_empty() {
            attributes.push(("title", &self.about));
        }
        // A heading of nothing would be read out as one.
        if self.title.is_empty() {
            return Html::element("td", &[], []);
        }
        Html::leaf("th", &attributes, &self.title)
    }
}

impl Cell {
    fn html(&self, is_first: bool, right: bool, aside_width: u32) -> Html {
        let key = self.key.map(|key| format!("{key}"));
        let mut attributes: Vec<(&'static str, &str)> = Vec::new();
        if is_first {
            attributes.push(("scope", "row"));
        }
        let chars = self.text.chars().count();
        let class = match (right, self.status) {
            (true, _) => "number",
            (false, Some(status)) => status.class(),
            (false, None) if chars <= SHORT_CHARS_MAX => "short",
            (false, None) if chars <= NAME_CHARS_WHOLE && !self.is_prose => "middling",
            (false, None) => "long",
        };
        attributes.push(("class", class));
        if let Some(key) = &key {
            attributes.push(("data-key", key));
        }
        let mut inner = Vec::new();
        if let Some(status) = self.status {
            inner.extend([sign(status), Html::text(" ")]);
        }
        inner.push(match (right, self.is_prose) {
            (true, _) => Html::text(&self.text),
            (false, true) => Html::leaf("bdi", &[], &self.text),
            (false, false) => Html::name(&self.text),
        });
        if aside_width > 0 {
            // Of one width in a column, so that the numbers before them end at one place.
            let class = format!("aside w{aside_width}");
            inner.push(Html::text(" "));
            inner.push(Html::leaf("span", &[("class", &class)], &self.aside));
        }
        if !self.detail.is_empty() {
            attributes.push(("title", &self.detail));
            // A title is for the mouse; this is for whoever listens.
            inner.push(Html::leaf(
                "span",
                &[("class", "heard")],
                &format!(" ({})", self.detail),
            ));
        }
        Html::element(if is_first { "th" } else { "td" }, &attributes, inner)
    }
}

impl Request {
    fn html(&self, id: &str) -> Html {
        let mut summary = vec![
            Html::text("request "),
            Html::name(&self.id),
            Html::text(" "),
            Html::element("span", &[("class", "task")], [Html::name(&self.task)]),
        ];
        if !self.tenant.is_empty() {
            summary.push(Html::text(" "));
            summary.push(Html::element(
                "span",
                &[("class", "tenant")],
                [Html::name(&self.tenant)],
            ));
        }
        let mut inner = vec![
            Html::element("summary", &[], summary),
            self.table.html(&format!("{id}-table")),
        ];
        for (place, (policy, lines)) in self.stories.iter().enumerate() {
            if lines.is_empty() {
                continue;
            }
            inner.push(Html::element("h3", &[], [Html::name(policy)]));
            let label = format!("Request {} under {}", visible(&self.id), visible(policy));
            let text = lines.join("\n");
            inner.push(preformatted(&format!("{id}-{place}"), &label, &text));
        }
        let task = visible(&self.task);
        Html::element(
            "details",
            &[("class", "request"), ("data-task", &task)],
            inner,
        )
    }
}

/// The command that makes the document again, and what it was made from.
fn source(manifest: &Manifest, id: &str) -> Html {
    let mut inner = Vec::new();
    if !manifest.command.is_empty() {
        let words: Vec<String> = manifest.command.iter().map(|word| shell(word)).collect();
        inner.push(Html::leaf(
            "p",
            &[("class", "prose")],
            "This command makes the same numbers again, at any number of threads, and this page with them:",
        ));
        let command = format!("{} {}", words.join(" "), where_to(&manifest.command));
        inner.push(preformatted(
            &format!("{id}-command"),
            "The command that makes this document again",
            &command,
        ));
    }
    let rows = manifest
        .inputs
        .iter()
        .map(|input| vec![Cell::words(&input.path), Cell::words(&input.sha256)])
        .collect();
    inner.push(Html::leaf(
        "p",
        &[("class", "prose")],
        &format!(
            "routelab {}, seed {}, {} input {}. There is no date and no host in here, so that the same inputs give the same bytes.",
            manifest.version,
            manifest.seed,
            whole(manifest.inputs.len() as u64),
            if manifest.inputs.len() == 1 { "file" } else { "files" }
        ),
    ));
    if !manifest.inputs.is_empty() {
        let table = Table {
            caption: "Inputs and the digests of their bytes".to_owned(),
            columns: vec![Column::words("file"), Column::words("SHA-256")],
            groups: vec![super::Group {
                label: String::new(),
                rows,
            }],
            filters: Vec::new(),
        };
        inner.push(table.html(&format!("{id}-inputs")));
    }
    Html::element("div", &[("class", "source")], inner)
}

/// How a command says that it wants the page: what it was told before is not in a manifest, because it
/// changes no number.
fn where_to(command: &[String]) -> &'static str {
    let is_page = command.iter().any(|word| word == "--format=html")
        || command.windows(2).any(|two| two == ["--format", "html"]);
    if is_page {
        "> report.html"
    } else {
        "--report report"
    }
}

/// A word of a command line as a POSIX shell takes it for one word.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_base64_of_sha256() {
        // FIPS 180-4, the empty message, in Base64.
        assert_eq!(digest(""), "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
        assert_eq!(
            digest("abc"),
            "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell("workloads/support.toml"), "workloads/support.toml");
        assert_eq!(shell("accuracy>=0.9"), "'accuracy>=0.9'");
        assert_eq!(shell("it's"), "'it'\\''s'");
        assert_eq!(shell(""), "''");
    }

    #[test]
    fn a_command_says_where_the_page_goes() {
        let command = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        for words in [
            &["compare", "--format", "html"][..],
            &["compare", "--format=html"],
        ] {
            assert_eq!(where_to(&command(words)), "> report.html");
        }
        let other = command(&["compare", "html", "--format", "json"]);
        assert_eq!(where_to(&other), "--report report");
    }

    #[test]
    fn style_and_script_cannot_end_before_they_end() {
        for code in [STYLE, SCRIPT] {
            assert!(!code.contains("</") && !code.contains("<!--"));
            // An HTML parser makes LF of CR LF, and the digest would be another.
            assert!(!code.contains('\r'));
        }
        assert!(SCRIPT.lines().count() <= 200);
    }
}
