//! Documents that are not comparisons, as pages: their grids, their pictures, their file, their notes.

use super::{Cell, Column, Group, Page, Part, Section, Status, Table};
use crate::report::Manifest;
use crate::report::layout::{Block, Line};
use crate::report::sheet::Sheet;

/// A sheet as a page.
pub(in crate::report) fn page(sheet: &Sheet, manifest: &Manifest) -> Page {
    // A title is a name, a colon or a comma, and a line of facts.
    let end = [": ", ", "]
        .iter()
        .filter_map(|sign| sheet.title.find(sign))
        .min()
        .unwrap_or(sheet.title.len());
    let (title, facts) = sheet.title.split_at(end);
    let facts = facts.trim_start_matches([':', ',', ' ']);
    let mut sections = vec![Section::new(
        "summary",
        "Summary",
        "",
        vec![Part::Summary(sheet.summary.clone())],
    )];
    if let Some(file) = &sheet.file {
        sections.push(Section::new(
            "file",
            "Proposed file",
            "",
            vec![Part::File(file.name.to_owned(), file.text.clone())],
        ));
    }
    let mut figures: Vec<Part> = sheet.figures.iter().cloned().map(Part::Figure).collect();
    // Where there is one picture, it says more than the first table; many belong behind the first.
    let early = figures.len() == 1;
    if early {
        sections.push(pictures(std::mem::take(&mut figures)));
    }
    for (place, block) in sheet.blocks.iter().enumerate() {
        sections.push(section(block, &format!("table-{}", place + 1)));
        if place == 0 && !figures.is_empty() {
            sections.push(pictures(std::mem::take(&mut figures)));
        }
    }
    if !sheet.notes.is_empty() {
        sections.push(Section::new(
            "notes",
            "Notes",
            "",
            vec![Part::Notes(sheet.notes.clone())],
        ));
    }
    sections.push(Section::new(
        "source",
        "Source: how to make this again",
        "",
        vec![Part::Source(manifest.clone())],
    ));
    Page {
        kind: kind(sheet.schema),
        title: title.to_owned(),
        facts: facts
            .split(", ")
            .filter(|fact| !fact.is_empty())
            .map(str::to_owned)
            .collect(),
        warning: evidence(sheet).and_then(super::evidence::warning_of),
        sections,
    }
}

/// The level of evidence that the document's facts name, if they do.
fn evidence(sheet: &Sheet) -> Option<&str> {
    let workload = sheet.facts.get("workload");
    let named = sheet.facts.get("evidence");
    named
        .or_else(|| workload.and_then(|workload| workload.get("evidence")))?
        .as_str()
}

fn pictures(figures: Vec<Part>) -> Section {
    let heading = if figures.len() == 1 {
        "Picture"
    } else {
        "Time lines"
    };
    Section::new("pictures", heading, "", figures)
}

/// What a document of this schema is called.
fn kind(schema: &str) -> &'static str {
    match schema.split('/').next().unwrap_or_default() {
        "routelab.drill" => "drill",
        "routelab.seen" => "drill of a log",
        "routelab.sweep" => "sweep",
        "routelab.gate" => "gate",
        "routelab.diff" => "diff",
        _ => "size",
    }
}

/// A block as a section: what its heading says in brackets or behind a colon stands below it.
pub(super) fn section(block: &Block, id: &str) -> Section {
    let bracket = block
        .heading
        .strip_suffix(')')
        .and_then(|text| text.split_once(" ("));
    let (heading, about) = bracket
        .or_else(|| block.heading.split_once(": "))
        .unwrap_or((block.heading.as_str(), ""));
    // What stood in brackets stands alone now.
    let mut chars = about.chars();
    let about: String = match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).chain(['.']).collect(),
        None => String::new(),
    };
    Section::new(
        id,
        heading,
        &about,
        vec![Part::Table(table(block, heading))],
    )
}

/// A grid of texts as a table whose numbers can be sorted.
pub(super) fn table(block: &Block, caption: &str) -> Table {
    let mut groups = vec![Group::default()];
    for line in &block.lines {
        match line {
            Line::Label(label) => groups.push(Group {
                label: (*label).to_owned(),
                rows: Vec::new(),
            }),
            Line::Cells(cells) => {
                let mut row: Vec<Cell> = cells
                    .iter()
                    .zip(&block.columns)
                    .map(|(text, column)| match column.title.as_str() {
                        "verdict" | "result" => verdict(text),
                        _ => cell(text, column.right),
                    })
                    .collect();
                let Some(group) = groups.last_mut() else {
                    continue;
                };
                // A name that stands once for several rows: sorted, they would not know whose they are.
                let above = group.rows.last().and_then(|above| above.first());
                if let (Some(first), Some(above)) = (row.first_mut(), above)
                    && first.text.is_empty()
                {
                    *first = above.clone();
                }
                group.rows.push(row);
            }
        }
    }
    Table {
        caption: caption.to_owned(),
        columns: block
            .columns
            .iter()
            .map(|column| Column {
                title: column.title.clone(),
                right: column.right,
                about: String::new(),
            })
            .collect(),
        groups,
        filters: Vec::new(),
    }
}

/// What became of something, with its sign.
fn verdict(text: &str) -> Cell {
    let status = match text {
        "non-inferior" | "pass" => Some(Status::Pass),
        "inferior" | "fail" | "FAIL" => Some(Status::Fail),
        "inconclusive" => Some(Status::Inconclusive),
        _ => None,
    };
    Cell {
        status,
        ..cell(text, false)
    }
}

/// A text with what stands in brackets at its end in a lower voice.
pub(super) fn cell(text: &str, right: bool) -> Cell {
    if !right {
        // What has spaces is likely to be a sentence: names are cut, sentences are not.
        return match text.contains(' ') {
            true => Cell::prose(text),
            false => Cell::words(text),
        };
    }
    let (value, aside) = match text.find(['[', '(']) {
        Some(at) if at > 0 => (text[..at].trim_end(), &text[at..]),
        _ => (text, ""),
    };
    Cell {
        text: value.to_owned(),
        aside: aside.to_owned(),
        key: number(value),
        ..Cell::default()
    }
}

/// The number a text begins with, `<1 %` being a little less than one.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start_matches(['<', '>', '+']);
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || "-.,".contains(c)))
        .unwrap_or(text.len());
    text[..end].replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_numbers_are_sorted_by_their_value() {
        let got = cell("17.49 [16.65, 18.33]", true);
        assert_eq!(
            (got.text.as_str(), got.aside.as_str(), got.key),
            ("17.49", "[16.65, 18.33]", Some(17.49))
        );
        assert_eq!(cell("-1,234.5 %", true).key, Some(-1234.5));
        assert_eq!(cell("<1 %", true).key, Some(1.0));
        assert_eq!(cell("unknown", true).key, None);
        assert_eq!(cell("a [b]", false).aside, "");
    }
}
