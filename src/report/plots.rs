//! A comparison as pictures: cost and accuracy, chances of promotion, parts of the traffic, and a slide.
//!
//! As in `plot`, everything is laid out in whole pixels, plotters writes the SVG, no font is looked up and
//! nothing depends on the machine. Numbers come from the findings as they are.

mod chance;
mod parts;
mod scatter;
mod slide;

pub use slide::slide;

use super::{Findings, Promotion};
use plotters::prelude::*;

/// Every picture of a comparison, as the name of a file and an SVG document: `accuracy-cost.svg`,
/// `promotion.svg` (and `promotion-2.svg`, … if there are several), `slices.svg`. Those with nothing to show are left
/// out.
#[must_use]
pub fn plots(findings: &Findings) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    plots.extend(scatter(findings).map(|svg| ("accuracy-cost.svg".to_owned(), svg)));
    for (place, one) in findings.promotions.iter().enumerate() {
        let name = match place {
            0 => "promotion.svg".to_owned(),
            place => format!("promotion-{}.svg", place + 1),
        };
        plots.push((name, promotion(findings, one)));
    }
    plots.extend(slices(findings).map(|svg| ("slices.svg".to_owned(), svg)));
    plots
}

/// Cost to the right, accuracy upwards; `None` if no policy has both.
pub(super) fn scatter(findings: &Findings) -> Option<String> {
    let picture = scatter::Picture::of(findings)?;
    let size = (super::plot::WIDTH as u32, super::plot::HEIGHT as u32);
    Some(svg(size, |area| picture.draw(area)))
}

/// The chance of promotion against the true difference.
pub(super) fn promotion(findings: &Findings, promotion: &Promotion) -> String {
    svg(chance::SIZE, |area| chance::draw(area, findings, promotion))
}

/// What a picture of chances is called.
pub(super) fn promotion_title(promotion: &Promotion) -> String {
    let who = super::plot::short(&promotion.policy);
    if promotion.is_shadow {
        format!("Chance that the candidate of {who} is promoted")
    } else {
        format!("Chance that a candidate like {who} is promoted")
    }
}

/// Differences from the baseline by part of the traffic; `None` without parts.
pub(super) fn slices(findings: &Findings) -> Option<String> {
    let picture = parts::Picture::of(findings)?;
    Some(svg(picture.size(), |area| picture.draw(area)))
}

/// An SVG document of this size.
fn svg(
    size: (u32, u32),
    draw: impl for<'a> FnOnce(&super::plot::Area<'a>) -> super::plot::Drawn<'a>,
) -> String {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        // A string has room for everything: drawing into it does not fail.
        let _ = area.fill(&WHITE);
        let _ = draw(&area);
        let _ = area.present();
    }
    text
}
