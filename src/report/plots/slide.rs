//! One picture that stands alone on a screen: the verdict, what it stands on, and cost against accuracy.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::scatter::{self, Look};
use crate::report::format::{margin_points, points, share, usd, visible, whole};
use crate::report::page::{level, priced};
use crate::report::plot::labels::width;
use crate::report::plot::{Area, Drawn, FEW, GRID, INK, REFERENCE, short, write};
use crate::report::{Findings, Row};
use crate::sim::Evidence;
use crate::stats::NonInferiority;

const SIZE: (u32, u32) = (1600, 900);
/// Left edge of everything, and how wide the column of words is.
const LEFT: i32 = 64;
const COLUMN: i32 = 500;
/// Where the picture is, and how large things in it are.
const PLOT: Look = Look {
    frame: (690, 150, 1536, 740),
    text: 18,
    dot: 8,
};
/// Sizes of the sentence that are tried, the largest first, and how low it may reach.
const SIZES: [i32; 5] = [32, 28, 25, 22, 19];
const SENTENCE: (i32, i32) = (150, 560);
/// The band at the top that says that nothing here is measured.
const AMBER: RGBColor = RGBColor(255, 236, 190);

/// The comparison as one slide of 1600 × 900 pixels, as an SVG document: the sentence to take away, the level
/// of evidence in words, the days of the prices, cost against accuracy, seed and version.
#[must_use]
pub fn slide(findings: &Findings) -> String {
    super::svg(SIZE, |area| draw(area, findings))
}

fn draw<'a>(area: &Area<'a>, findings: &Findings) -> Drawn<'a> {
    let workload = &findings.workload;
    let level = level(workload.evidence);
    let right = SIZE.0 as i32 - LEFT;
    let name = short(&workload.name);
    write(area, &name, (LEFT, 40), (36, INK, HPos::Left, VPos::Top))?;
    let under = format!(
        "{} requests, {} % intervals",
        whole(workload.requests),
        margin_points(findings.level)
    );
    write(
        area,
        &under,
        (LEFT, 92),
        (20, REFERENCE, HPos::Left, VPos::Top),
    )?;
    // The level of evidence is as large as the name: it is half of the message.
    let badge = format!("{}: {}", level.word, level.stands_on);
    let wide = width(&badge, 24) + 40;
    let middle = right - wide / 2;
    if workload.evidence == Evidence::Simulated {
        let corners = [(right - wide, 36), (right, 88)];
        area.draw(&Rectangle::new(corners, AMBER.filled()))?;
        let at = (middle, 98);
        let text = "says nothing about real models";
        write(area, text, at, (18, REFERENCE, HPos::Center, VPos::Top))?;
    }
    let at = (middle, 50);
    write(area, &badge, at, (24, INK, HPos::Center, VPos::Top))?;
    sentence(area, &findings.summary)?;
    numbers(area, findings)?;
    if let Some(picture) = scatter::Picture::of(findings) {
        picture.plane(area, PLOT, false)?;
    }
    let line = vec![(LEFT, 836), (right, 836)];
    area.draw(&PathElement::new(line, GRID.stroke_width(2)))?;
    let prices = priced(findings).unwrap_or_else(|| "prices without a date".to_owned());
    let source = format!(
        "{prices}   ·   seed {}   ·   routelab {}",
        findings.manifest.seed,
        visible(&findings.manifest.version)
    );
    write(
        area,
        &source,
        (LEFT, 852),
        (18, REFERENCE, HPos::Left, VPos::Top),
    )?;
    let key = "dots: policies, filled on the front; squares: controls";
    write(
        area,
        key,
        (right, 852),
        (18, REFERENCE, HPos::Right, VPos::Top),
    )
}

/// The sentence in the largest size in which it fits, cut if it fits in none.
fn sentence<'a>(area: &Area<'a>, text: &str) -> Drawn<'a> {
    let text = visible(text);
    let high = SENTENCE.1 - SENTENCE.0;
    let pitch = |size: i32| size * 4 / 3;
    let fitting = SIZES
        .into_iter()
        .map(|size| (size, wrapped(&text, size)))
        .find(|(size, lines)| lines.len() as i32 * pitch(*size) <= high);
    let (size, mut lines) = fitting.unwrap_or_else(|| {
        let size = SIZES[SIZES.len() - 1];
        (size, wrapped(&text, size))
    });
    let most = (high / pitch(size)) as usize;
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            last.push('…');
        }
    }
    for (place, line) in lines.iter().enumerate() {
        let at = (LEFT, SENTENCE.0 + place as i32 * pitch(size));
        write(area, line, at, (size, INK, HPos::Left, VPos::Top))?;
    }
    Ok(())
}

/// Lines that are no wider than the column; a word that is wider is broken.
fn wrapped(text: &str, size: i32) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word = word;
        while let Some(line) = lines.last_mut() {
            let space = if line.is_empty() { "" } else { " " };
            let longer = format!("{line}{space}{word}");
            if width(&longer, size) <= COLUMN {
                *line = longer;
                break;
            }
            if !line.is_empty() {
                lines.push(String::new());
                continue;
            }
            // Alone on its line and still too wide.
            let fits = word
                .char_indices()
                .map(|(at, c)| at + c.len_utf8())
                .take_while(|end| width(&word[..*end], size) <= COLUMN)
                .last()
                .unwrap_or(word.len());
            *line = word[..fits].to_owned();
            word = &word[fits..];
            if word.is_empty() {
                break;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// Three numbers with their intervals of the policy that the sentence is about.
fn numbers<'a>(area: &Area<'a>, findings: &Findings) -> Drawn<'a> {
    let Some(row) = subject(findings) else {
        return Ok(());
    };
    let difference = findings
        .paired
        .iter()
        .find(|pair| pair.policy == row.policy)
        .map(|pair| points(&pair.accuracy_difference));
    let mut y = 596;
    let name = short(&row.policy);
    write(area, &name, (LEFT, y), (22, FEW[0], HPos::Left, VPos::Top))?;
    y += 40;
    let lines = [
        ("accuracy", row.metric("accuracy").map(share)),
        ("USD per 1,000", row.metric("usd_per_1k").map(usd)),
        ("difference, points", difference),
    ];
    for (what, number) in lines {
        let Some(number) = number else {
            continue;
        };
        write(
            area,
            what,
            (LEFT, y + 4),
            (18, REFERENCE, HPos::Left, VPos::Top),
        )?;
        let at = (LEFT + 190, y);
        write(area, &number, at, (24, INK, HPos::Left, VPos::Top))?;
        y += 44;
    }
    Ok(())
}

/// The cheapest policy that is shown to be not worse, else the one that comes closest.
fn subject(findings: &Findings) -> Option<&Row> {
    let tested = || findings.paired.iter().filter(|pair| !pair.control);
    let cost = |row: &Row| row.metric("usd_per_1k").and_then(|cost| cost.value);
    let cheapest = tested()
        .filter(|pair| pair.verdict == NonInferiority::NonInferior)
        .filter_map(|pair| findings.row(&pair.policy))
        .filter_map(|row| Some((row, cost(row)?)))
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(row, _)| row);
    cheapest.or_else(|| {
        tested()
            .filter_map(|pair| Some((pair, pair.accuracy_difference.value?)))
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .and_then(|(pair, _)| findings.row(&pair.policy))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_and_long_words_broken() {
        let text = format!("a policy named {} is cheapest", "x".repeat(300));
        for size in SIZES {
            let lines = wrapped(&text, size);
            assert!(lines.iter().all(|line| width(line, size) <= COLUMN));
            let without = |text: &str| text.replace(' ', "");
            assert_eq!(without(&lines.concat()), without(&text));
        }
    }
}
