//! HTML by construction: there is no way to put text into it that is not escaped.
//!
//! Tags and names of attributes are literals of this program; their values and all text between tags are
//! escaped here. Two things are taken as they are: literals (the style sheet, the script) and SVG that our
//! own plots wrote, which [`figure`](super::figure) alone may hand over.

use super::super::format::visible;

/// Elements that have no end tag (WHATWG HTML, 13.1.2 "Elements", void elements).
const VOID: [&str; 3] = ["meta", "br", "hr"];

/// A piece of HTML, whole: every element that it opens it closes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Html(String);

/// Attributes, as name and value.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Html {
    /// Text, shown as it is: markup is escaped, and so is what moves, hides or reorders other text.
    pub(super) fn text(text: &str) -> Self {
        let mut out = String::with_capacity(text.len() + 8);
        escape(text, &mut out);
        Self(out)
    }

    /// An element with what is in it.
    pub(super) fn element(
        tag: &'static str,
        attributes: Attributes<'_>,
        inner: impl IntoIterator<Item = Self>,
    ) -> Self {
        let mut out = format!("<{tag}");
        for (name, value) in attributes {
            out.push(' ');
            out.push_str(name);
            out.push_str("=\"");
            escape(value, &mut out);
            out.push('"');
        }
        out.push('>');
        if !VOID.contains(&tag) {
            for part in inner {
                out.push_str(&part.0);
            }
            out.push_str("</");
            out.push_str(tag);
            out.push('>');
        }
        Self(out)
    }

    /// An element with text in it.
    pub(super) fn leaf(tag: &'static str, attributes: Attributes<'_>, text: &str) -> Self {
        Self::element(tag, attributes, [Self::text(text)])
    }

    /// An element with a sentence in it, in which words between backticks are set as code.
    pub(super) fn sentence(tag: &'static str, attributes: Attributes<'_>, text: &str) -> Self {
        let parts: Vec<&str> = text.split('`').collect();
        // An odd backtick is none of ours.
        if parts.len().is_multiple_of(2) {
            return Self::leaf(tag, attributes, text);
        }
        let inner = parts.iter().enumerate().map(|(place, part)| {
            if !place.is_multiple_of(2) {
                Self::leaf("code", &[], part)
            } else {
                Self::text(part)
            }
        });
        Self::element(tag, attributes, inner)
    }

    /// A style sheet or a script, which is a literal of this program and so needs no escaping (and could
    /// have none: these elements know no entities).
    pub(super) fn code(tag: &'static str, code: &'static str) -> Self {
        Self(format!("<{tag}>{code}</{tag}>"))
    }

    /// SVG that our own plots wrote, in which texts from outside are escaped already.
    pub(super) fn drawn(svg: String) -> Self {
        Self(svg)
    }

    /// A name from outside: kept apart from the text around it, whatever its direction, and cut if it is
    /// very long, with the whole of it as the title.
    pub(super) fn name(name: &str) -> Self {
        let whole = visible(name);
        if whole.chars().count() <= NAME_CHARS_MAX {
            return Self::leaf("bdi", &[], &whole);
        }
        let cut: String = whole
            .chars()
            .take(NAME_CHARS_MAX - 1)
            .chain(['…'])
            .collect();
        Self::leaf("bdi", &[("title", &whole)], &cut)
    }

    /// A line break of the source, for whoever reads it.
    pub(super) fn newline() -> Self {
        Self("\n".to_owned())
    }

    /// The text of the HTML.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Most characters of a name that are shown.
const NAME_CHARS_MAX: usize = 64;

/// Escapes the five characters that mean something in text or in a quoted attribute.
fn escape(text: &str, out: &mut String) {
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_text_in_elements_and_attributes() {
        let html = Html::element(
            "p",
            &[("title", "\"><script>alert(1)</script>")],
            [Html::text("<b>&'\u{202e}\n")],
        );
        assert_eq!(
            html.into_text(),
            "<p title=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\">&lt;b&gt;&amp;&#39;\\u{202e}\\n</p>"
        );
        assert_eq!(
            Html::element("meta", &[("charset", "utf-8")], []).into_text(),
            "<meta charset=\"utf-8\">"
        );
    }

    #[test]
    fn long_names_are_cut_and_are_whole_in_the_title() {
        let name = "x".repeat(300);
        let html = Html::name(&name).into_text();
        assert!(html.contains(&format!("title=\"{name}\"")));
        assert!(html.ends_with(&format!(">{}…</bdi>", "x".repeat(63))));
        assert_eq!(Html::name("static").into_text(), "<bdi>static</bdi>");
    }

    proptest! {
        #[test]
        fn no_text_opens_or_closes_anything(text in any::<String>()) {
            let html = Html::leaf("p", &[("title", &text)], &text).into_text();
            prop_assert_eq!(html.matches('<').count(), 2);
            prop_assert_eq!(html.matches('>').count(), 2);
            prop_assert_eq!(html.matches('"').count(), 2);
        }
    }
}
