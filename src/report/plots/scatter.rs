//! Cost against accuracy: policies as dots with their intervals, controls as hollow squares, and the line
//! through those that none is both cheaper and better than.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::report::format::{margin_points, whole};
use crate::report::plot::axis::Axis;
use crate::report::plot::labels::Labels;
use crate::report::plot::{
    Area, CROWDED, Drawn, FEW, FONT, FRAME, GRID, INK, LOG_RATIO, REFERENCE, beyond, short,
    whiskers, write,
};
use crate::report::{Findings, Row, Standing};
use crate::stats::Estimate;
use crate::stats::pareto::{Point, front};

/// Where the plane is, and how large everything is.
#[derive(Clone, Copy)]
pub(super) struct Look {
    /// Left, top, right, bottom.
    pub(super) frame: (i32, i32, i32, i32),
    /// Height of texts in pixels.
    pub(super) text: i32,
    /// Radius of a dot.
    pub(super) dot: i32,
}

/// How it looks alone.
pub(super) const ALONE: Look = Look {
    frame: FRAME,
    text: 13,
    dot: 6,
};

/// Most names of one label.
const NAMES_MAX: usize = 3;

/// A label for all who stand on one spot, the longest wording first: where there is no room for it, a
/// shorter one may find some.
fn wordings(names: &[String]) -> Vec<String> {
    let mut wordings = Vec::new();
    if names.len() <= NAMES_MAX {
        wordings.push(names.join(", "));
    }
    if let [first, rest @ ..] = names
        && !rest.is_empty()
    {
        wordings.push(format!("{first} and {} more", rest.len()));
        wordings.push(first.clone());
    }
    wordings
}

/// Whether two places are one to the eye.
fn is_near(a: (i32, i32), b: (i32, i32)) -> bool {
    (a.0 - b.0).abs() <= 2 && (a.1 - b.1).abs() <= 2
}

/// Who stands where.
struct Mark {
    standing: Standing,
    control: bool,
    on_front: bool,
}

/// What is drawn.
pub(super) struct Picture<'f> {
    findings: &'f Findings,
    marks: Vec<Mark>,
}

impl<'f> Picture<'f> {
    /// `None` if nobody has both a cost and an accuracy.
    pub(super) fn of(findings: &'f Findings) -> Option<Self> {
        let known: Vec<(&Row, Standing)> = findings
            .rows
            .iter()
            .filter(|row| row.mix.is_none())
            .filter_map(|row| {
                let standing = standing(row)?;
                (standing.accuracy.value.is_some() && standing.usd_per_1k.value.is_some())
                    .then_some((row, standing))
            })
            .collect();
        // Only what can be run is on the line: an oracle cannot.
        let points: Vec<Point> = known
            .iter()
            .map(|(row, one)| {
                let can_be_run = !row.control || row.kind == "always";
                let value = |estimate: &Estimate| match can_be_run {
                    true => estimate.value.unwrap_or(f64::NAN),
                    false => f64::NAN,
                };
                Point {
                    cost: value(&one.usd_per_1k),
                    accuracy: value(&one.accuracy),
                }
            })
            .collect();
        let marks: Vec<Mark> = known
            .into_iter()
            .zip(front(&points))
            .map(|((row, standing), on_front)| Mark {
                standing,
                control: row.control,
                on_front,
            })
            .collect();
        (!marks.is_empty()).then_some(Self { findings, marks })
    }

    fn axes(&self, controls: bool, look: Look) -> Option<(Axis, Axis)> {
        let (left, top, right, bottom) = look.frame;
        let of = |which: fn(&Standing) -> &Estimate, unit: f64| -> Vec<f64> {
            self.marks
                .iter()
                // Whom the others are compared with is always in the picture.
                .filter(|mark| {
                    controls
                        || !mark.control
                        || self.findings.baseline.as_deref() == Some(&*mark.standing.name)
                })
                .map(|mark| which(&mark.standing))
                .flat_map(|estimate| [estimate.value, estimate.low, estimate.high])
                .flatten()
                .map(|value| value * unit)
                .collect()
        };
        let x = Axis::fitting(&of(|one| &one.usd_per_1k, 1.0), (left, right), LOG_RATIO)?;
        let shares = of(|one| &one.accuracy, 100.0);
        Some((x, Axis::fitting(&shares, (bottom, top), f64::INFINITY)?))
    }

    /// Draws it with its title into an area of `WIDTH` × `HEIGHT` pixels.
    pub(super) fn draw<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        self.titles(area)?;
        self.plane(area, ALONE, true)
    }

    /// Draws the plane alone, with or without a line about who is beyond its frame.
    pub(super) fn plane<'a>(&self, area: &Area<'a>, look: Look, has_rest: bool) -> Drawn<'a> {
        let (left, top, right, bottom) = look.frame;
        // Controls far away would leave the policies no room.
        let near = self.axes(false, look);
        let fitted = self.axes(true, look).map(|all| match &near {
            Some(near) if all.0.share_of(&near.0).min(all.1.share_of(&near.1)) < CROWDED => *near,
            _ => all,
        });
        let Some((x, y)) = fitted else {
            return Ok(());
        };
        frame(area, look, &x, &y)?;
        let scale = if x.is_log() { ", logarithmic" } else { "" };
        write(
            area,
            &format!("cost, USD per 1,000 requests{scale}"),
            ((left + right) / 2, bottom + look.text * 2 + 10),
            (look.text + 1, INK, HPos::Center, VPos::Top),
        )?;
        let font = ("sans-serif", f64::from(look.text + 1) * FONT).into_font();
        let style = font
            .transform(FontTransform::Rotate270)
            .color(&INK)
            .pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(
            "accuracy, % of requests right",
            (left - look.text * 5 + 3, (top + bottom) / 2),
            style,
        ))?;
        let at = |one: &Standing| -> Option<(i32, i32)> {
            let (cost, share) = (one.usd_per_1k.value?, one.accuracy.value? * 100.0);
            (x.holds(cost) && y.holds(share)).then(|| (x.pixel(cost), y.pixel(share)))
        };
        let outside: Vec<&Standing> = self
            .marks
            .iter()
            .map(|mark| &mark.standing)
            .filter(|one| at(one).is_none())
            .collect();
        if has_rest {
            beyond(area, &outside)?;
        }
        self.line(area, &at)?;
        let mut placed = Labels::within((left, top, right, bottom));
        let inside: Vec<(&Mark, (i32, i32))> = self
            .marks
            .iter()
            .filter_map(|mark| Some((mark, at(&mark.standing)?)))
            .collect();
        // Controls first: policies lie above them.
        let in_order = || {
            let of = |control: bool| {
                inside
                    .iter()
                    .filter(move |(mark, _)| mark.control == control)
            };
            of(true).chain(of(false))
        };
        for (mark, _) in in_order() {
            let colour = if mark.control { REFERENCE } else { FEW[0] };
            whiskers(area, &mark.standing, &x, &y, colour.mix(0.55))?;
        }
        for (mark, centre) in in_order() {
            let (px, py) = *centre;
            if mark.control {
                let half = look.dot * 2 / 3;
                let corners = [(px - half, py - half), (px + half, py + half)];
                area.draw(&Rectangle::new(corners, WHITE.filled()))?;
                area.draw(&Rectangle::new(corners, REFERENCE.stroke_width(2)))?;
            } else if mark.on_front {
                area.draw(&Circle::new(*centre, look.dot, FEW[0].filled()))?;
            } else {
                area.draw(&Circle::new(*centre, look.dot - 1, WHITE.filled()))?;
                area.draw(&Circle::new(*centre, look.dot - 1, FEW[0].stroke_width(2)))?;
            }
            // Labels stand eight pixels from the centre: more would keep out a dot's own.
            placed.keep_clear(*centre, (look.dot + 1).min(8));
        }
        // Policies have the first choice of room. Who stands on one spot shares a label.
        let mut named: Vec<(i32, i32)> = Vec::new();
        for control in [false, true] {
            for (mark, centre) in inside.iter().filter(|(mark, _)| mark.control == control) {
                if named.iter().any(|other| is_near(*other, *centre)) {
                    continue;
                }
                named.push(*centre);
                let here = |(_, other): &&(&Mark, (i32, i32))| is_near(*other, *centre);
                let of = |control: bool| {
                    let mine = inside.iter().filter(here);
                    mine.filter(move |(mark, _)| mark.control == control)
                };
                let names: Vec<String> = of(false)
                    .chain(of(true))
                    .map(|(mark, _)| short(&mark.standing.name))
                    .collect();
                let colour = if mark.control { REFERENCE } else { INK };
                for text in wordings(&names) {
                    if let Some(at) = placed.place(&text, look.text, *centre) {
                        let style = (look.text, colour, HPos::Left, VPos::Bottom);
                        write(area, &text, at, style)?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The line through those on the front: between two steps the cheaper one is what can be had.
    fn line<'a>(&self, area: &Area<'a>, at: &dyn Fn(&Standing) -> Option<(i32, i32)>) -> Drawn<'a> {
        let on = self
            .marks
            .iter()
            .filter(|mark| mark.on_front)
            .filter_map(|mark| at(&mark.standing));
        let steps = steps(on.collect());
        if steps.len() > 1 {
            area.draw(&PathElement::new(steps, FEW[0].mix(0.6).stroke_width(2)))?;
        }
        Ok(())
    }

    fn titles<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let workload = &self.findings.workload;
        let title = format!(
            "{}: accuracy against cost, {}",
            short(&workload.name),
            workload.evidence_word()
        );
        let left = FRAME.0;
        write(area, &title, (left, 18), (18, INK, HPos::Left, VPos::Top))?;
        let under = format!(
            "{} requests, {} % intervals; dots: policies, filled on the front (line); squares: controls",
            whole(workload.requests),
            margin_points(self.findings.level)
        );
        write(
            area,
            &under,
            (left, 46),
            (12, REFERENCE, HPos::Left, VPos::Top),
        )
    }
}

/// A line through these places that goes to the right and upwards only, in steps.
fn steps(mut places: Vec<(i32, i32)>) -> Vec<(i32, i32)> {
    // Of two at one pixel the lower one, which costs a little less, comes first; pixels count downwards.
    places.sort_by_key(|&(x, y)| (x, -y));
    let mut steps: Vec<(i32, i32)> = Vec::new();
    for (x, y) in places {
        if let Some(&(_, before)) = steps.last() {
            steps.push((x, before));
        }
        steps.push((x, y));
    }
    steps
}

/// The plane with its ticks.
fn frame<'a>(area: &Area<'a>, look: Look, x: &Axis, y: &Axis) -> Drawn<'a> {
    let (left, top, right, bottom) = look.frame;
    for (pixel, text) in x.ticks() {
        let line = vec![(pixel, top), (pixel, bottom)];
        area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        let at = (pixel, bottom + 8);
        let style = (look.text, INK, HPos::Center, VPos::Top);
        write(area, &text, at, style)?;
    }
    for (pixel, text) in y.ticks() {
        let line = vec![(left, pixel), (right, pixel)];
        area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        let at = (left - 8, pixel + look.text / 2 - 1);
        let style = (look.text, INK, HPos::Right, VPos::Bottom);
        write(area, &text, at, style)?;
    }
    let corners = [(left, top), (right, bottom)];
    area.draw(&Rectangle::new(corners, INK.mix(0.5).stroke_width(1)))
}

fn standing(row: &Row) -> Option<Standing> {
    Some(Standing {
        name: row.policy.clone(),
        world: 0,
        accuracy: row.metric("accuracy")?.clone(),
        usd_per_1k: row.metric("usd_per_1k")?.clone(),
        calls_per_request: row.metric("calls_per_request")?.clone(),
        unserved: row.metric("unserved")?.clone(),
        notes: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_up_where_two_stand_at_one_pixel() {
        let line = steps(vec![(40, 20), (10, 90), (40, 50), (70, 10)]);
        assert_eq!(
            line,
            [
                (10, 90),
                (40, 90),
                (40, 50),
                (40, 50),
                (40, 20),
                (70, 20),
                (70, 10)
            ]
        );
        assert!(
            line.windows(2)
                .all(|two| two[0].0 <= two[1].0 && two[0].1 >= two[1].1)
        );
    }

    #[test]
    fn labels_of_one_spot_get_shorter() {
        let names = |count: usize| -> Vec<String> { (0..count).map(|i| format!("p{i}")).collect() };
        assert_eq!(wordings(&names(1)), ["p0"]);
        assert_eq!(wordings(&names(3)), ["p0, p1, p2", "p0 and 2 more", "p0"]);
        assert_eq!(wordings(&names(5)), ["p0 and 4 more", "p0"]);
        assert!(is_near((10, 10), (12, 8)) && !is_near((10, 10), (13, 10)));
    }
}
