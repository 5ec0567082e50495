//! The report as plain text for a terminal. The width never depends on the terminal.

use super::Findings;
use super::format::visible;
use super::layout::{Block, Line, blocks, notes, title};
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle, presets};

const STYLE: TableStyle = presets::NOTHING.header_separator(LineStyle::none().fill('-'));

pub(super) fn render(findings: &Findings) -> String {
    text(
        &title(findings),
        &blocks(findings),
        &findings.summary,
        &notes(findings),
    )
}

/// Any document: a title, blocks, the sentence at the end, and notes.
pub(super) fn text(title: &str, blocks: &[Block], summary: &str, notes: &[String]) -> String {
    let mut out = format!("{}\n", visible(title));
    for block in blocks {
        out.push_str(&format!("\n{}\n{}\n", visible(&block.heading), grid(block)));
    }
    out.push_str(&format!("\n{}\n", visible(summary)));
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        out.push_str(&format!("note: {}\n", visible(note)));
    }
    out
}

fn grid(block: &Block) -> String {
    let mut table = Table::new();
    table.force_no_tty().load_style(STYLE);
    let aligned = |text: &str, right: bool| {
        Cell::new(visible(text)).set_alignment(if right {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        })
    };
    table.set_header(
        block
            .columns
            .iter()
            .map(|column| aligned(&column.title, column.right)),
    );
    for line in &block.lines {
        match line {
            Line::Cells(cells) => {
                let columns = block.columns.iter().map(|column| column.right);
                table.add_row(
                    cells
                        .iter()
                        .zip(columns)
                        .map(|(text, right)| aligned(text, right)),
                );
            }
            Line::Label(label) => {
                table.add_row([format!("{label}:")]);
            }
        }
    }
    table.trim_fmt()
}
