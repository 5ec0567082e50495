//! A strict little reader of HTML and SVG: every tag must be closed in its order, every attribute quoted.

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Markup {
    /// Names of all elements, in order.
    pub(super) tags: Vec<String>,
    /// All attributes with their values.
    pub(super) attributes: Vec<(String, String)>,
    /// Texts of the headings of second order.
    pub(super) headings: Vec<String>,
}

/// Elements without an end tag.
const VOID: [&str; 3] = ["meta", "br", "hr"];

/// Reads a document, and panics where it is not well-formed.
#[track_caller]
pub(super) fn read(text: &str) -> Markup {
    let mut markup = Markup::default();
    let mut open: Vec<String> = Vec::new();
    let mut rest = text.strip_prefix("<!doctype html>").unwrap_or(text);
    while let Some(at) = rest.find('<') {
        let before = &rest[..at];
        assert!(!before.contains('>'), "a stray > in: {before}");
        if open.last().is_some_and(|tag| tag == "h2") {
            markup.headings.push(before.to_owned());
        }
        rest = &rest[at + 1..];
        if let Some(end) = rest.strip_prefix('/') {
            let (name, after) = end.split_once('>').expect("an end tag ends");
            assert_eq!(open.pop().as_deref(), Some(name), "closed out of order");
            rest = after;
            continue;
        }
        let name_end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .expect("a tag ends");
        let name = rest[..name_end].to_owned();
        assert!(
            !name.is_empty(),
            "a stray < before: {}",
            &rest[..rest.len().min(60)]
        );
        rest = &rest[name_end..];
        let is_closed = attributes(&mut rest, &mut markup.attributes);
        markup.tags.push(name.clone());
        if name == "style" || name == "script" {
            // Their text is not markup, up to their end tag.
            let end = format!("</{name}>");
            rest = rest.split_once(&end).expect("closed").1;
        } else if !is_closed && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    markup
}

/// Reads up to the end of a tag; true if it is closed within itself.
#[track_caller]
fn attributes(rest: &mut &str, found: &mut Vec<(String, String)>) -> bool {
    loop {
        let text = rest.trim_start();
        if let Some(after) = text.strip_prefix("/>") {
            *rest = after;
            return true;
        }
        if let Some(after) = text.strip_prefix('>') {
            *rest = after;
            return false;
        }
        let (name, after) = text.split_once("=\"").expect("an attribute is quoted");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == ':';
        assert!(
            !name.is_empty() && name.chars().all(plain),
            "attribute {name}"
        );
        let (value, after) = after.split_once('"').expect("a value ends");
        assert!(!value.contains('<'), "{value}");
        found.push((name.to_owned(), value.to_owned()));
        *rest = after;
    }
}

#[test]
#[should_panic(expected = "closed out of order")]
fn the_reader_refuses_what_is_closed_out_of_order() {
    read("<p><b>x</p></b>");
}
