//! A sweep as a picture: cost to the right, accuracy upwards, as SVG.
//!
//! Every position is a point with its intervals as whiskers. Points on their world's front are filled and
//! joined by a step line (between two steps the cheaper one is what can be had); the others are hollow
//! and pale. Squares are single routes, for reference. With two parameters each value of the second has
//! its colour and a line through its points in the order of the first.
//!
//! Axes and labels are laid out here, in whole pixels, and plotters writes the SVG: no font is looked up
//! and nothing depends on the machine. Text from outside is made visible here and escaped there.

pub(super) mod axis;
pub(super) mod labels;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::format::{decimal, margin_points, usd_value, visible, whole};
use super::sweep::{Standing, Sweep};
use crate::stats::Estimate;
use crate::sweep::Scope;
use axis::Axis;
use labels::{Labels, width};

pub(super) const WIDTH: i32 = 960;
pub(super) const HEIGHT: i32 = 640;
/// The frame of the plane: left, top, right, bottom.
pub(super) const FRAME: (i32, i32, i32, i32) = (80, 80, 920, 570);
/// Ratio of dearest to cheapest from which on costs are drawn on a logarithmic axis.
pub(super) const LOG_RATIO: f64 = 20.0;
/// Share of an axis that the points must take; else what is far from them is left outside.
pub(super) const CROWDED: f64 = 0.15;
/// Most entries of the legend.
const LEGEND_MAX: usize = 12;
/// Most single routes beyond the frame that are named.
const OUTSIDE_MAX: usize = 4;
/// Most characters of a text from outside.
const CHARS_MAX: usize = 48;
/// A font of one pixel has this size for plotters, whose sizes are line heights.
pub(super) const FONT: f64 = 1.24;

/// Colours that colour-blind readers tell apart (M. Okabe, K. Ito, *Color Universal Design*, 2008), in
/// an order that begins with the strongest.
pub(super) const FEW: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];
/// The ends and the middle of the ramp that more values share.
const MANY: [RGBColor; 3] = [
    RGBColor(68, 1, 84),
    RGBColor(33, 145, 140),
    RGBColor(220, 170, 20),
];
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);
pub(super) const REFERENCE: RGBColor = RGBColor(110, 110, 110);
pub(super) const GRID: RGBColor = RGBColor(228, 228, 228);

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
pub(super) type Drawn<'a> =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

impl Sweep {
    /// The sweep as an SVG document.
    #[must_use]
    pub fn plot(&self) -> String {
        let mut text = String::new();
        {
            let size = (WIDTH as u32, HEIGHT as u32);
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            // A string has room for everything: drawing into it does not fail.
            let _ = Picture::of(self).draw(&area);
            let _ = area.present();
        }
        text
    }
}

/// A position with a colour, a label, and whether it is on its front.
struct Mark<'s> {
    standing: &'s Standing,
    label: String,
    series: usize,
    filled: bool,
}

/// What is drawn.
struct Picture<'s> {
    sweep: &'s Sweep,
    marks: Vec<Mark<'s>>,
    /// By series, its name in the legend.
    series: Vec<String>,
    /// What the labels of points are, and what colours are.
    key: Vec<String>,
}

impl<'s> Picture<'s> {
    fn of(sweep: &'s Sweep) -> Self {
        let labels = sweep.grid.labels();
        // The margin moves no point.
        let drawn: Vec<usize> = (0..sweep.grid.parameters.len())
            .filter(|&index| sweep.grid.parameters[index].scope != Scope::Margin)
            .collect();
        let series: Vec<String> = match drawn.get(1) {
            Some(&second) => sweep.grid.parameters[second]
                .values
                .iter()
                .map(|value| format!("{} = {value}", labels[second]))
                .collect(),
            None => vec![String::new()],
        };
        let mut seen: Vec<(usize, usize)> = Vec::new();
        let mut marks = Vec::new();
        for (place, point) in sweep.grid.points.iter().zip(&sweep.points) {
            if seen.contains(&(place.world, place.policy)) {
                continue;
            }
            seen.push((place.world, place.policy));
            let label = match drawn.first() {
                Some(&first) => point.values[first].clone(),
                None => sweep.policy.clone(),
            };
            marks.push(Mark {
                standing: &point.standing,
                label: short(&label),
                series: drawn.get(1).map_or(0, |&second| place.values[second]),
                filled: point.on_front,
            });
        }
        let mut key = Vec::new();
        if let Some(&first) = drawn.first() {
            key.push(format!("labels: {}", labels[first]));
        }
        if sweep.has_front() {
            key.push("filled: on the point front".to_owned());
        }
        key.push("squares: single routes".to_owned());
        Self {
            sweep,
            marks,
            series,
            key,
        }
    }

    fn colour(&self, series: usize) -> RGBColor {
        if self.series.len() <= FEW.len() {
            return FEW[series % FEW.len()];
        }
        let at = series as f64 / (self.series.len() - 1) as f64 * 2.0;
        let (from, to, share) = if at < 1.0 {
            (MANY[0], MANY[1], at)
        } else {
            (MANY[1], MANY[2], at - 1.0)
        };
        let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share) as u8;
        RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
    }

    fn draw<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        area.fill(&WHITE)?;
        let (left, top, right, bottom) = FRAME;
        let points: Vec<&Standing> = self.marks.iter().map(|mark| mark.standing).collect();
        let everybody: Vec<&Standing> = points
            .iter()
            .copied()
            .chain(&self.sweep.references)
            .collect();
        let axes = |of: &[&Standing]| -> Option<(Axis, Axis)> {
            let known = |which: fn(&Standing) -> &Estimate, unit: f64| -> Vec<f64> {
                of.iter()
                    .filter(|one| one.accuracy.value.is_some() && one.usd_per_1k.value.is_some())
                    .flat_map(|one| [which(one).value, which(one).low, which(one).high])
                    .flatten()
                    .map(|value| value * unit)
                    .collect()
            };
            let costs = known(|one| &one.usd_per_1k, 1.0);
            let shares = known(|one| &one.accuracy, 100.0);
            let x = Axis::fitting(&costs, (left, right), LOG_RATIO)?;
            Some((x, Axis::fitting(&shares, (bottom, top), f64::INFINITY)?))
        };
        // Single routes far away would leave the points no room.
        let near = axes(&points);
        let fitted = axes(&everybody).zip(near).map(|(all, near)| {
            let crowded = all.0.share_of(&near.0).min(all.1.share_of(&near.1)) < CROWDED;
            if crowded { near } else { all }
        });
        self.titles(area)?;
        let Some((x, y)) = fitted.or(near) else {
            return write(
                area,
                "no point has both a cost and an accuracy",
                ((left + right) / 2, (top + bottom) / 2),
                (14, INK, HPos::Center, VPos::Center),
            );
        };
        frame(area, &x, &y)?;
        let scale = if x.is_log() { ", logarithmic" } else { "" };
        write(
            area,
            &format!("cost, USD per 1,000 requests{scale}"),
            ((left + right) / 2, bottom + 36),
            (14, INK, HPos::Center, VPos::Top),
        )?;
        let inside = |one: &&Standing| {
            let (cost, accuracy) = (one.usd_per_1k.value, one.accuracy.value);
            cost.is_some_and(|cost| x.holds(cost))
                && accuracy.is_some_and(|share| y.holds(share * 100.0))
        };
        let (references, outside): (Vec<&Standing>, Vec<&Standing>) =
            self.sweep.references.iter().partition(inside);
        beyond(area, &outside)?;
        let at = |one: &Standing| -> Option<(i32, i32)> {
            Some((
                x.pixel(one.usd_per_1k.value?),
                y.pixel(one.accuracy.value? * 100.0),
            ))
        };
        self.lines(area, &at)?;
        for (one, colour, pale) in references.iter().map(|one| (*one, REFERENCE, true)).chain(
            self.marks
                .iter()
                .map(|mark| (mark.standing, self.colour(mark.series), !mark.filled)),
        ) {
            whiskers(area, one, &x, &y, colour.mix(if pale { 0.3 } else { 0.7 }))?;
        }
        let mut placed = Labels::within(FRAME);
        for one in &references {
            if let Some((px, py)) = at(one) {
                let corners = [(px - 4, py - 4), (px + 4, py + 4)];
                area.draw(&Rectangle::new(corners, WHITE.filled()))?;
                area.draw(&Rectangle::new(corners, REFERENCE.stroke_width(2)))?;
                placed.keep_clear((px, py), 6);
            }
        }
        for mark in &self.marks {
            if let Some(centre) = at(mark.standing) {
                let colour = self.colour(mark.series);
                if mark.filled {
                    area.draw(&Circle::new(centre, 5, colour.filled()))?;
                } else {
                    area.draw(&Circle::new(centre, 4, WHITE.filled()))?;
                    area.draw(&Circle::new(centre, 4, colour.mix(0.55).stroke_width(2)))?;
                }
                placed.keep_clear(centre, 6);
            }
        }
        self.legend(area, &mut placed)?;
        // Names of routes first, and points on the front before the others: what finds no room is left out.
        let mut named: Vec<&str> = Vec::new();
        for one in &references {
            if named.contains(&one.name.as_str()) {
                continue;
            }
            if let Some(centre) = at(one) {
                named.push(&one.name);
                label(area, &mut placed, &short(&one.name), centre, REFERENCE)?;
            }
        }
        let on = self.marks.iter().filter(|mark| mark.filled);
        for mark in on.chain(self.marks.iter().filter(|mark| !mark.filled)) {
            if let Some(centre) = at(mark.standing) {
                label(
                    area,
                    &mut placed,
                    &mark.label,
                    centre,
                    self.colour(mark.series),
                )?;
            }
        }
        Ok(())
    }

    fn titles<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let sweep = self.sweep;
        let workload = &sweep.workload;
        let title = format!(
            "{} on {}: {} points, {}",
            short(&sweep.policy),
            short(&workload.name),
            whole(self.marks.len() as u64),
            workload.evidence_word()
        );
        let left = FRAME.0;
        write(area, &title, (left, 18), (18, INK, HPos::Left, VPos::Top))?;
        let under = format!(
            "{} requests each, {} % intervals for each point alone; {}",
            whole(workload.requests),
            margin_points(sweep.level),
            self.key.join("; ")
        );
        write(
            area,
            &under,
            (left, 48),
            (12, REFERENCE, HPos::Left, VPos::Top),
        )?;
        let font = ("sans-serif", 14.0 * FONT).into_font();
        let style = font
            .transform(FontTransform::Rotate270)
            .color(&INK)
            .pos(Pos::new(HPos::Center, VPos::Top));
        let middle = (18, (FRAME.1 + FRAME.3) / 2);
        area.draw(&Text::new("accuracy, % of requests right", middle, style))
    }

    /// The lines through points, and the fronts.
    fn lines<'a>(
        &self,
        area: &Area<'a>,
        at: &dyn Fn(&Standing) -> Option<(i32, i32)>,
    ) -> Drawn<'a> {
        for series in 0..self.series.len() {
            let of: Vec<&Mark<'_>> = self.marks.iter().filter(|m| m.series == series).collect();
            // Where everything of a colour is one front, its steps say the same.
            let is_one_front = self.sweep.has_front()
                && of.iter().all(|mark| mark.filled)
                && of
                    .windows(2)
                    .all(|two| two[0].standing.world == two[1].standing.world)
                && self.sweep.grid.worlds.len() == self.series.len();
            if of.len() > 1 && !is_one_front && (self.series.len() > 1 || !self.sweep.has_front()) {
                let through: Vec<(i32, i32)> =
                    of.iter().filter_map(|mark| at(mark.standing)).collect();
                let style = self.colour(series).mix(0.35).stroke_width(1);
                area.draw(&PathElement::new(through, style))?;
            }
        }
        if !self.sweep.has_front() {
            return Ok(());
        }
        for world in 0..self.sweep.grid.worlds.len() {
            let mut on: Vec<&Mark<'_>> = self
                .marks
                .iter()
                .filter(|mark| mark.filled && mark.standing.world == world)
                .collect();
            on.sort_by(|a, b| {
                let cost = |mark: &Mark<'_>| mark.standing.usd_per_1k.value.unwrap_or(0.0);
                cost(a).total_cmp(&cost(b))
            });
            let series = on.first().map_or(0, |mark| mark.series);
            let mixed = on.iter().any(|mark| mark.series != series);
            let colour = if mixed { INK } else { self.colour(series) };
            let corners: Vec<(i32, i32)> = on.iter().filter_map(|mark| at(mark.standing)).collect();
            let mut steps = Vec::new();
            for &(px, py) in &corners {
                if let Some(&(_, before)) = steps.last() {
                    steps.push((px, before));
                }
                steps.push((px, py));
            }
            if steps.len() > 1 {
                area.draw(&PathElement::new(steps, colour.mix(0.8).stroke_width(2)))?;
            }
        }
        Ok(())
    }

    /// The names of the colours, in the lower right corner, where a front leaves room.
    fn legend<'a>(&self, area: &Area<'a>, placed: &mut Labels) -> Drawn<'a> {
        if self.series.len() < 2 {
            return Ok(());
        }
        let mut entries: Vec<(String, Option<RGBColor>)> = self
            .series
            .iter()
            .enumerate()
            .map(|(index, name)| (short(name), Some(self.colour(index))))
            .collect();
        if entries.len() > LEGEND_MAX {
            let more = entries.len() - LEGEND_MAX + 1;
            entries.truncate(LEGEND_MAX - 1);
            entries.push((format!("and {more} more"), None));
        }
        let widest = entries.iter().map(|(name, _)| width(name, 13)).max();
        let size = (widest.unwrap_or(0) + 40, entries.len() as i32 * 20 + 12);
        let (left, top) = placed.corner(size);
        let corners = [(left, top), (left + size.0, top + size.1)];
        area.draw(&Rectangle::new(corners, WHITE.mix(0.9).filled()))?;
        area.draw(&Rectangle::new(corners, GRID.stroke_width(1)))?;
        for (index, (name, colour)) in entries.iter().enumerate() {
            let middle = top + 16 + index as i32 * 20;
            if let Some(colour) = colour {
                area.draw(&Circle::new((left + 16, middle - 3), 5, colour.filled()))?;
            }
            let at = (left + 30, middle + 4);
            write(area, name, at, (13, INK, HPos::Left, VPos::Bottom))?;
        }
        Ok(())
    }
}

/// Names the single routes that are not on the plane, each once, with where they would be.
pub(super) fn beyond<'a>(area: &Area<'a>, outside: &[&Standing]) -> Drawn<'a> {
    let mut named: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    for one in outside {
        let known = (one.usd_per_1k.value, one.accuracy.value);
        if let ((Some(cost), Some(share)), false) = (known, named.contains(&one.name.as_str())) {
            named.push(&one.name);
            texts.push(format!(
                "{} (USD {}, {} %)",
                short(&one.name),
                usd_value(cost),
                decimal(share * 100.0, 1)
            ));
        }
    }
    if texts.is_empty() {
        return Ok(());
    }
    let shown = texts.len().min(OUTSIDE_MAX);
    let more = match texts.len() - shown {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let text = format!("beyond the frame: {}{more}", texts[..shown].join(", "));
    let at = (FRAME.0, 64);
    write(area, &text, at, (11, REFERENCE, HPos::Left, VPos::Top))
}

/// A text from outside, short enough and harmless.
pub(super) fn short(text: &str) -> String {
    let text = visible(text);
    if text.chars().count() <= CHARS_MAX {
        return text;
    }
    text.chars().take(CHARS_MAX - 1).chain(['…']).collect()
}

pub(super) fn write<'a>(
    area: &Area<'a>,
    text: &str,
    at: (i32, i32),
    (pixels, colour, h, v): (i32, RGBColor, HPos, VPos),
) -> Drawn<'a> {
    let font = ("sans-serif", f64::from(pixels) * FONT).into_font();
    let style = font.color(&colour).pos(Pos::new(h, v));
    area.draw(&Text::new(text.to_owned(), at, style))
}

/// The plane with its ticks.
fn frame<'a>(area: &Area<'a>, x: &Axis, y: &Axis) -> Drawn<'a> {
    let (left, top, right, bottom) = FRAME;
    for (pixel, text) in x.ticks() {
        let line = vec![(pixel, top), (pixel, bottom)];
        area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        write(
            area,
            &text,
            (pixel, bottom + 8),
            (13, INK, HPos::Center, VPos::Top),
        )?;
    }
    for (pixel, text) in y.ticks() {
        let line = vec![(left, pixel), (right, pixel)];
        area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        write(
            area,
            &text,
            (left - 8, pixel + 5),
            (13, INK, HPos::Right, VPos::Bottom),
        )?;
    }
    let corners = [(left, top), (right, bottom)];
    area.draw(&Rectangle::new(corners, INK.mix(0.5).stroke_width(1)))
}

/// The intervals of one position, as a cross.
pub(super) fn whiskers<'a>(
    area: &Area<'a>,
    one: &Standing,
    x: &Axis,
    y: &Axis,
    colour: RGBAColor,
) -> Drawn<'a> {
    let (Some(cost), Some(accuracy)) = (one.usd_per_1k.value, one.accuracy.value) else {
        return Ok(());
    };
    let (px, py) = (x.pixel(cost), y.pixel(accuracy * 100.0));
    let line = |from, to| area.draw(&PathElement::new(vec![from, to], colour.stroke_width(1)));
    if let Some(limits) = one.usd_per_1k.limits() {
        let (low, high) = (x.pixel(limits.low), x.pixel(limits.high));
        line((low, py), (high, py))?;
        line((low, py - 3), (low, py + 3))?;
        line((high, py - 3), (high, py + 3))?;
    }
    if let Some(limits) = one.accuracy.limits() {
        let (low, high) = (y.pixel(limits.low * 100.0), y.pixel(limits.high * 100.0));
        line((px, low), (px, high))?;
        line((px - 3, low), (px + 3, low))?;
        line((px - 3, high), (px + 3, high))?;
    }
    Ok(())
}

fn label<'a>(
    area: &Area<'a>,
    placed: &mut Labels,
    text: &str,
    centre: (i32, i32),
    colour: RGBColor,
) -> Drawn<'a> {
    match placed.place(text, 13, centre) {
        Some(at) => write(area, text, at, (13, colour, HPos::Left, VPos::Bottom)),
        None => Ok(()),
    }
}
