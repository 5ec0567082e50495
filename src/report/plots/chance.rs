//! The chance of promotion against the true difference, one curve for each number of pairs.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::format::{decimal, margin_points, whole};
use crate::report::plot::axis::Axis;
use crate::report::plot::{Area, Drawn, FEW, FONT, GRID, INK, REFERENCE, write};
use crate::report::{Findings, Promotion};

/// Width and height.
pub(super) const SIZE: (u32, u32) = (960, 440);
/// The frame of the plane: left, top, right, bottom.
const FRAME: (i32, i32, i32, i32) = (80, 84, 780, 372);

pub(super) fn draw<'a>(area: &Area<'a>, findings: &Findings, promotion: &Promotion) -> Drawn<'a> {
    let (left, top, right, bottom) = FRAME;
    let title = super::promotion_title(promotion);
    write(area, &title, (left, 18), (18, INK, HPos::Left, VPos::Top))?;
    let under = format!(
        "rule {}, margin {} points, one-sided alpha {}; the two disagree on {} % of pairs; exact",
        promotion.rule,
        margin_points(findings.margin),
        findings.alpha,
        decimal(promotion.disagreement * 100.0, 1)
    );
    write(
        area,
        &under,
        (left, 46),
        (12, REFERENCE, HPos::Left, VPos::Top),
    )?;
    let differences: Vec<f64> = promotion
        .curves
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|(difference, _)| difference * 100.0)
        .collect();
    let low = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let high = differences
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    if low >= high {
        return Ok(());
    }
    let x = Axis::between(low, high, (left, right));
    let y = Axis::between(0.0, 100.0, (bottom, top));
    for (pixel, text) in x.ticks() {
        area.draw(&PathElement::new(
            vec![(pixel, top), (pixel, bottom)],
            GRID.stroke_width(1),
        ))?;
        let at = (pixel, bottom + 8);
        write(area, &text, at, (13, INK, HPos::Center, VPos::Top))?;
    }
    for share in [0, 20, 40, 60, 80, 100] {
        let pixel = y.pixel(f64::from(share));
        area.draw(&PathElement::new(
            vec![(left, pixel), (right, pixel)],
            GRID.stroke_width(1),
        ))?;
        let at = (left - 8, pixel + 5);
        let text = format!("{share} %");
        write(area, &text, at, (13, INK, HPos::Right, VPos::Bottom))?;
    }
    for (value, text) in [
        (-findings.margin * 100.0, "the margin"),
        (0.0, "no difference"),
    ] {
        let pixel = x.pixel(value);
        for from in (top..bottom).step_by(8) {
            let dash = vec![(pixel, from), (pixel, (from + 4).min(bottom))];
            area.draw(&PathElement::new(dash, REFERENCE.stroke_width(1)))?;
        }
        // With a margin of zero both stand on one place.
        if value != 0.0 || findings.margin > 0.0 {
            let at = (pixel, top - 4);
            write(area, text, at, (12, REFERENCE, HPos::Center, VPos::Bottom))?;
        }
    }
    area.draw(&Rectangle::new(
        [(left, top), (right, bottom)],
        INK.mix(0.5).stroke_width(1),
    ))?;
    // The curves meet at the right: names stand in the order of their height at no difference.
    for (place, curve) in promotion.curves.iter().enumerate() {
        let colour = FEW[place % FEW.len()];
        let points: Vec<(i32, i32)> = curve
            .points
            .iter()
            .map(|(difference, chance)| (x.pixel(difference * 100.0), y.pixel(chance * 100.0)))
            .collect();
        area.draw(&PathElement::new(points, colour.stroke_width(2)))?;
        let entry = promotion.curves.len() - 1 - place;
        let middle = top + 16 + entry as i32 * 24;
        let sign = vec![(right + 16, middle), (right + 40, middle)];
        area.draw(&PathElement::new(sign, colour.stroke_width(2)))?;
        let text = format!("{} pairs", whole(curve.pairs));
        let at = (right + 48, middle + 5);
        write(area, &text, at, (13, INK, HPos::Left, VPos::Bottom))?;
    }
    let text = "true difference of the candidate, points";
    let at = ((left + right) / 2, bottom + 34);
    write(area, text, at, (14, INK, HPos::Center, VPos::Top))?;
    let font = ("sans-serif", 14.0 * FONT).into_font();
    let style = font
        .transform(FontTransform::Rotate270)
        .color(&INK)
        .pos(Pos::new(HPos::Center, VPos::Top));
    area.draw(&Text::new(
        "chance of promotion",
        (18, (top + bottom) / 2),
        style,
    ))
}
