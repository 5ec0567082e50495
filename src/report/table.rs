//! The report as plain text for a terminal. The width never depends on the terminal.

use super::Findings;
use super::format::visible;
use super::layout::{Block, Line, blocks, notes, title};
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle, presets};

const STYLE: TableStyle = presets::NOTHING.header_separator(LineStyle::none().fill('-'));

pub(super) fn render(findings: &Findings) -> String {
    let mut out = format!("{}\n", visible(&title(findings)));
    for block in blocks(findings) {
        out.push_str(&format!(
            "\n{}\n{}\n",
            visible(&block.heading),
            grid(&block)
        ));
    }
    out.push_str(&format!("\n{}\n", visible(&findings.summary)));
    let notes = notes(findings);
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        out.push_str(&format!("note: {}\n", visible(&note)));
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
