//! The report as GitHub-flavoured Markdown, for pull requests and report folders.

use super::Findings;
use super::format::visible;
use super::layout::{Block, Line, blocks, notes, title};

pub(super) fn render(findings: &Findings) -> String {
    text(
        &title(findings),
        &blocks(findings),
        &findings.summary,
        &notes(findings),
    )
}

/// Any document: a title, blocks, the sentence that matters most, and notes.
pub(super) fn text(title: &str, blocks: &[Block], summary: &str, notes: &[String]) -> String {
    let mut out = format!("# {}\n\n**{}**\n", escaped(title), escaped(summary));
    for block in blocks {
        out.push_str(&format!(
            "\n## {}\n\n{}",
            escaped(&block.heading),
            grid(block)
        ));
    }
    if !notes.is_empty() {
        out.push_str("\n## Notes\n\n");
    }
    for note in notes {
        out.push_str(&format!("- {}\n", item(note)));
    }
    out
}

fn grid(block: &Block) -> String {
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut out = line(&mut block.columns.iter().map(|column| escaped(&column.title)));
    out.push_str(&line(
        &mut block
            .columns
            .iter()
            .map(|column| if column.right { "---:" } else { "---" }.to_owned()),
    ));
    for row in &block.lines {
        out.push_str(&match row {
            Line::Cells(cells) => line(&mut cells.iter().map(|text| escaped(text))),
            Line::Label(label) => {
                let rest = block.columns.iter().skip(1).map(|_| String::new());
                line(&mut std::iter::once(format!("**{label}**")).chain(rest))
            }
        });
    }
    out
}

/// Text that Markdown shows as it is: no markup, no HTML, no cell borders, no links.
///
/// CommonMark 0.31 section 2.4: a backslash before any ASCII punctuation makes it literal. Angle
/// brackets and ampersands become entities, which also holds where a renderer passes HTML through.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in visible(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // An @ would notify whoever is called that on the forge.
            '@' => out.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            // A bare web address would become a link.
            ':' if out.ends_with("http") || out.ends_with("https") => out.push_str("&#58;"),
            c => out.push(c),
        }
    }
    out
}

/// As [`escaped`], for the start of a list item, where a dash, a plus or a number would begin another
/// list.
fn item(text: &str) -> String {
    let text = escaped(text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let marker = text[digits..].starts_with(['.', ')']) && digits > 0;
    if marker || text.starts_with(['-', '+', '=']) {
        format!("{}\\{}", &text[..digits], &text[digits..])
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_cell() {
        assert_eq!(escaped("a|b"), "a\\|b");
        assert_eq!(escaped("<img src=x>"), "&lt;img src=x&gt;");
        assert_eq!(escaped("a\n\n# b"), "a\\\\n\\\\n\\# b");
        assert_eq!(escaped("[x](http://e.x)"), "\\[x\\](http&#58;//e.x)");
        assert_eq!(item("- item"), "\\- item");
        assert_eq!(item("12. item"), "12\\. item");
        assert_eq!(item("12 rows"), "12 rows");
        assert_eq!(escaped("always-large"), "always-large");
    }
}
