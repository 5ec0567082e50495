//! Differences from the baseline by part of the traffic: a row of dots with intervals for each part.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use crate::report::format::margin_points;
use crate::report::plot::axis::Axis;
use crate::report::plot::labels::width;
use crate::report::plot::{Area, Drawn, FEW, GRID, INK, REFERENCE, short, write};
use crate::report::{Findings, Slice, SliceBy, SliceRow};
use crate::stats::Estimate;

const WIDTH: i32 = 960;
/// Left and right edge of the plane, and its top.
const LEFT: i32 = 230;
const RIGHT: i32 = 930;
/// Height of one policy's dot, and what parts are apart.
const DOT: i32 = 14;
const GAP: i32 = 14;
/// Most parts, and most policies.
const PARTS_MAX: usize = 24;
const POLICIES_MAX: usize = FEW.len();
/// Most characters of a part's name.
const CHARS_MAX: usize = 24;

/// What is drawn.
pub(super) struct Picture<'f> {
    findings: &'f Findings,
    parts: Vec<&'f Slice>,
    /// Parts that there is no room for.
    left_out: usize,
    /// In the order of their colours.
    policies: Vec<&'f str>,
    /// Policies that there is no colour for.
    unnamed: usize,
    /// Places of the legend's entries, and the top of the plane below it.
    legend: Vec<(i32, i32)>,
    top: i32,
}

impl<'f> Picture<'f> {
    /// `None` without parts in which somebody differs from the baseline.
    pub(super) fn of(findings: &'f Findings) -> Option<Self> {
        let with = |by: SliceBy| -> Vec<&'f Slice> {
            let slices = findings.slices.iter().filter(|slice| slice.by == by);
            slices
                .filter(|slice| slice.rows.iter().any(|row| difference(row).is_some()))
                .collect()
        };
        // Tasks and tenants; both at once would be too many to see anything.
        let mut parts = with(SliceBy::Task);
        parts.extend(with(SliceBy::Tenant));
        let mut policies: Vec<&str> = Vec::new();
        for row in parts.iter().flat_map(|part| &part.rows) {
            if difference(row).is_some() && !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        if parts.is_empty() || policies.is_empty() {
            return None;
        }
        let left_out = parts.len().saturating_sub(PARTS_MAX);
        parts.truncate(PARTS_MAX);
        let unnamed = policies.len().saturating_sub(POLICIES_MAX);
        policies.truncate(POLICIES_MAX);
        let mut legend = Vec::new();
        let (mut x, mut y) = (LEFT, 78);
        for name in &policies {
            let wide = 20 + width(&short(name), 13) + 18;
            if x + wide > WIDTH && x > LEFT {
                (x, y) = (LEFT, y + 20);
            }
            legend.push((x, y));
            x += wide;
        }
        Some(Self {
            findings,
            parts,
            left_out,
            policies,
            unnamed,
            legend,
            top: y + 22,
        })
    }

    fn step(&self) -> i32 {
        self.policies.len() as i32 * DOT + GAP
    }

    fn bottom(&self) -> i32 {
        self.top + self.parts.len() as i32 * self.step()
    }

    /// Width and height.
    pub(super) fn size(&self) -> (u32, u32) {
        (WIDTH as u32, (self.bottom() + 72) as u32)
    }

    pub(super) fn draw<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let findings = self.findings;
        let baseline = findings.baseline.as_deref().unwrap_or("the baseline");
        let title = format!(
            "Accuracy against {} by part of the traffic, {}",
            short(baseline),
            findings.workload.evidence_word()
        );
        write(area, &title, (20, 18), (18, INK, HPos::Left, VPos::Top))?;
        let mut under = format!(
            "difference in points with {} % intervals, each for itself; broken line: margin of {} points",
            margin_points(findings.level),
            margin_points(findings.margin)
        );
        for (count, what) in [(self.left_out, "parts"), (self.unnamed, "policies")] {
            if count > 0 {
                under.push_str(&format!("; not drawn: {count} more {what}"));
            }
        }
        let at = (20, 46);
        write(area, &under, at, (12, REFERENCE, HPos::Left, VPos::Top))?;
        for (place, (name, (x, y))) in self.policies.iter().zip(&self.legend).enumerate() {
            area.draw(&Circle::new((x + 6, *y), 5, FEW[place].filled()))?;
            let at = (x + 18, y + 5);
            write(area, &short(name), at, (13, INK, HPos::Left, VPos::Bottom))?;
        }
        let mut values: Vec<f64> = self
            .parts
            .iter()
            .flat_map(|part| &part.rows)
            .filter(|row| self.policies.contains(&row.policy.as_str()))
            .filter_map(difference)
            .flat_map(|estimate| [estimate.value, estimate.low, estimate.high])
            .flatten()
            .map(|value| value * 100.0)
            .collect();
        values.extend([0.0, -findings.margin * 100.0]);
        let Some(x) = Axis::fitting(&values, (LEFT, RIGHT), f64::INFINITY) else {
            return Ok(());
        };
        let (top, bottom) = (self.top, self.bottom());
        for (pixel, text) in x.ticks() {
            let line = vec![(pixel, top), (pixel, bottom)];
            area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
            let at = (pixel, bottom + 8);
            write(area, &text, at, (13, INK, HPos::Center, VPos::Top))?;
        }
        let zero = x.pixel(0.0);
        let line = vec![(zero, top), (zero, bottom)];
        area.draw(&PathElement::new(line, REFERENCE.stroke_width(1)))?;
        let margin = x.pixel(-findings.margin * 100.0);
        for from in (top..bottom).step_by(8) {
            let dash = vec![(margin, from), (margin, (from + 4).min(bottom))];
            area.draw(&PathElement::new(dash, REFERENCE.stroke_width(1)))?;
        }
        for (place, part) in self.parts.iter().enumerate() {
            self.part(area, part, top + place as i32 * self.step(), &x)?;
        }
        let corners = [(LEFT, top), (RIGHT, bottom)];
        area.draw(&Rectangle::new(corners, INK.mix(0.5).stroke_width(1)))?;
        let text = "difference of accuracies, points";
        let at = ((LEFT + RIGHT) / 2, bottom + 34);
        write(area, text, at, (14, INK, HPos::Center, VPos::Top))
    }

    fn part<'a>(&self, area: &Area<'a>, part: &Slice, top: i32, x: &Axis) -> Drawn<'a> {
        let middle = top + self.step() / 2;
        if top > self.top {
            let line = vec![(LEFT, top), (RIGHT, top)];
            area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        }
        let name = name(part);
        let at = (LEFT - 12, middle - 1);
        write(area, &name, at, (13, INK, HPos::Right, VPos::Bottom))?;
        let n = format!("n = {}", crate::report::format::whole(part.requests));
        let at = (LEFT - 12, middle + 2);
        write(area, &n, at, (11, REFERENCE, HPos::Right, VPos::Top))?;
        for (place, policy) in self.policies.iter().enumerate() {
            let found = part.rows.iter().find(|row| row.policy == *policy);
            let Some(estimate) = found.and_then(difference) else {
                continue;
            };
            let Some(value) = estimate.value else {
                continue;
            };
            let y = top + GAP / 2 + place as i32 * DOT + DOT / 2;
            let colour = FEW[place];
            if let Some(limits) = estimate.limits() {
                let (low, high) = (x.pixel(limits.low * 100.0), x.pixel(limits.high * 100.0));
                let line = vec![(low, y), (high, y)];
                area.draw(&PathElement::new(line, colour.stroke_width(2)))?;
            }
            let centre = (x.pixel(value * 100.0), y);
            area.draw(&Circle::new(centre, 4, colour.filled()))?;
        }
        Ok(())
    }
}

/// What a part is called.
fn name(part: &Slice) -> String {
    let name = match (&part.task, &part.tenant) {
        (Some(task), _) => short(task),
        (None, Some(tenant)) => format!("tenant {}", short(tenant)),
        (None, None) => "no tenant named".to_owned(),
    };
    if name.chars().count() <= CHARS_MAX {
        return name;
    }
    name.chars().take(CHARS_MAX - 1).chain(['…']).collect()
}

/// The difference of a policy under test, if it is known.
fn difference(row: &SliceRow) -> Option<&Estimate> {
    let difference = row.accuracy_difference.as_ref()?;
    (!row.control && difference.value.is_some()).then_some(difference)
}
