//! A drill as pictures, one SVG for each policy: its first replicate from beginning to end.
//!
//! Above, how many requests come and which share of them is served within the SLO, with the same share on the
//! calm day as a thin line. Below, a strip for each route: attempts by how they ended, as a stack, and
//! under it a bar while its breaker was not closed. Times in which an incident lasts are shaded: above
//! for all, on the strips for the routes that it concerns.
//!
//! As in `plot`, everything is laid out here in whole pixels, no font is looked up, and texts from outside
//! are made visible here and escaped there.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::drill::{Drill, DrillRow};
use super::drill_words::length;
use super::format::whole;
use super::plot::axis::Axis;
use super::plot::labels::width;
use super::plot::{Area, Drawn, GRID, INK, REFERENCE, short, write};
use crate::sim::{Counts, Passage, RouteBin};
use crate::units::{Duration, Instant};

const WIDTH: i32 = 1_000;
/// Left and right edge of the planes.
const LEFT: i32 = 84;
const RIGHT: i32 = 976;
/// Top and bottom of the plane of arrivals, and of that of the shares.
const ARRIVALS: (i32, i32) = (112, 192);
const SHARES: (i32, i32) = (222, 372);
/// Top of the first strip, its height, the height of a breaker's bar, and the distance of strips.
const STRIPS: i32 = 414;
const STRIP: i32 = 62;
const BREAKER: i32 = 5;
const STEP: i32 = 98;
/// Most strips; the routes with fewer attempts are left out.
const STRIPS_MAX: usize = 12;
/// Most columns of a time line; further bins are added up.
const COLUMNS_MAX: usize = 446;
/// Most incidents that are named, and how many pixels to the right of one its name may begin.
const NAMED_MAX: usize = 3;
const NEAR: i32 = 20;
/// What the first plane shows.
const HEADING: &str = "arrivals per minute";

// From M. Okabe, K. Ito, *Color Universal Design*, 2008: colour-blind readers tell them apart, and they
// differ in lightness as well.
const WITHIN: RGBColor = RGBColor(0, 114, 178);
const CALM: RGBColor = RGBColor(0, 158, 115);
const LOAD: RGBColor = RGBColor(190, 190, 190);
const ANSWERED: RGBColor = RGBColor(86, 180, 233);
const REFUSED: RGBColor = RGBColor(240, 200, 40);
const FAILED: RGBColor = RGBColor(213, 94, 0);
const OPEN: RGBColor = RGBColor(40, 40, 40);
const SHADE: RGBColor = RGBColor(204, 121, 167);

impl Drill {
    /// The time line of each policy (of each control, if there are no policies) as an SVG document, under a
    /// name that is safe as a part of a file's name. The names differ.
    #[must_use]
    pub fn plots(&self) -> Vec<(String, String)> {
        let mut plots: Vec<(String, String)> = Vec::new();
        for row in self.shown() {
            let mut name = safe(&row.policy);
            let taken = |name: &str| {
                plots
                    .iter()
                    .any(|(known, _)| known.eq_ignore_ascii_case(name))
            };
            if taken(&name) {
                let base = name;
                name = (2..)
                    .map(|number| format!("{base}-{number}"))
                    .find(|name| !taken(name))
                    .unwrap_or_default();
            }
            plots.push((name, Picture::of(self, row).svg()));
        }
        plots
    }
}

/// A part of a file's name on any system.
fn safe(name: &str) -> String {
    let kept: String = name
        .chars()
        .take(80)
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
            // Names may have dots, but not begin with one or be an extension.
            _ => '-',
        })
        .collect();
    if kept.is_empty() {
        "policy".to_owned()
    } else {
        kept
    }
}

/// What is drawn.
struct Picture<'d> {
    drill: &'d Drill,
    row: &'d DrillRow,
    /// Routes with a strip each, in the order of the catalogue.
    strips: Vec<usize>,
    /// Routes that were sent something and have none.
    left_out: usize,
    /// Bins of a column, columns, and what a column lasts in minutes.
    fold: usize,
    columns: usize,
    column_min: f64,
    time: Axis,
}

impl<'d> Picture<'d> {
    fn of(drill: &'d Drill, row: &'d DrillRow) -> Self {
        let first = &row.drill.first;
        let sent = |index: &usize| first.routes.get(*index).is_some_and(|one| one.attempts > 0);
        let mut strips: Vec<usize> = (0..first.routes.len()).filter(sent).collect();
        let all = strips.len();
        strips.sort_by_key(|index| (std::cmp::Reverse(first.routes[*index].attempts), *index));
        strips.truncate(STRIPS_MAX);
        strips.sort_unstable();
        let most = |passage: &Passage| {
            let routes = passage.routes.iter().map(|route| route.bins.len());
            routes.chain([passage.bins.len()]).max().unwrap_or(0)
        };
        let bins = most(first).max(1);
        let fold = bins.div_ceil(COLUMNS_MAX);
        let columns = bins.div_ceil(fold);
        // No width at all would be no picture.
        let width = Duration(first.bin.0.max(1));
        let column_min = width.as_secs_f64() * fold as f64 / 60.0;
        Self {
            drill,
            row,
            left_out: all - strips.len(),
            strips,
            fold,
            columns,
            column_min,
            time: Axis::between(0.0, columns as f64 * column_min, (LEFT, RIGHT)),
        }
    }

    /// Requests of the replicate.
    fn requests(&self) -> u64 {
        let bins = &self.row.drill.first.bins;
        bins.iter().map(|counts| counts.requests).sum()
    }

    fn bottom(&self) -> i32 {
        STRIPS + self.strips.len() as i32 * STEP - (STEP - STRIP - BREAKER - 4)
    }

    fn svg(&self) -> String {
        let mut text = String::new();
        {
            let more = if self.left_out > 0 { 20 } else { 0 };
            let size = (WIDTH as u32, (self.bottom() + 58 + more) as u32);
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            // A string has room for everything: drawing into it does not fail.
            let _ = self.draw(&area);
            let _ = area.present();
        }
        text
    }

    /// Left and right pixel of a column.
    fn column(&self, column: usize) -> (i32, i32) {
        let at = |column: usize| self.time.pixel(column as f64 * self.column_min);
        (at(column), at(column + 1))
    }

    /// Bins as columns.
    fn folded<T, S: Default>(&self, bins: &[T], add: impl Fn(&mut S, &T)) -> Vec<S> {
        let mut columns: Vec<S> = (0..self.columns).map(|_| S::default()).collect();
        for (index, bin) in bins.iter().enumerate() {
            if let Some(column) = columns.get_mut(index / self.fold) {
                add(column, bin);
            }
        }
        columns
    }

    fn counts(&self, passage: &Passage) -> Vec<Counts> {
        self.folded(&passage.bins, Counts::merge)
    }

    fn draw<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        area.fill(&WHITE)?;
        self.titles(area)?;
        self.time_grid(area)?;
        self.arrivals(area)?;
        self.shades(area)?;
        self.shares(area)?;
        for (place, route) in self.strips.iter().enumerate() {
            self.strip(area, STRIPS + place as i32 * STEP, *route)?;
        }
        self.names(area)
    }

    fn titles<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let workload = &self.drill.workload;
        let title = format!(
            "{} on {}: drill, {}",
            short(&self.row.policy),
            short(&workload.name),
            workload.evidence_word()
        );
        write(area, &title, (LEFT, 16), (18, INK, HPos::Left, VPos::Top))?;
        let replicate = if workload.replicates > 1 {
            format!("first of {} replicates, ", whole(workload.replicates))
        } else {
            String::new()
        };
        let column = Duration::from_secs_f64(self.column_min * 60.0);
        let under = format!(
            "{replicate}{} requests in {}, {}; a step is {}",
            whole(self.requests()),
            length(self.row.drill.first.span),
            self.drill.slo_in_words(),
            length(column)
        );
        write(
            area,
            &under,
            (LEFT, 42),
            (12, REFERENCE, HPos::Left, VPos::Top),
        )?;
        self.legend(area)
    }

    /// What colours mean, in two lines of entries under the title.
    fn legend<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let mut entries = vec![("within the SLO", WITHIN, Sign::Line(2))];
        if self.row.calm.is_some() {
            entries.push(("on the calm day", CALM, Sign::Line(1)));
        }
        entries.extend([
            ("answered", ANSWERED, Sign::Box),
            ("refused by a limit", REFUSED, Sign::Box),
            ("failed", FAILED, Sign::Box),
            ("breaker not closed", OPEN, Sign::Bar),
        ]);
        if !self.drill.occasions.is_empty() {
            entries.push(("incident", SHADE, Sign::Shade));
        }
        let mut x = LEFT;
        for (text, colour, sign) in entries {
            let y = 74;
            match sign {
                Sign::Line(thick) => area.draw(&PathElement::new(
                    vec![(x, y), (x + 18, y)],
                    colour.stroke_width(thick),
                ))?,
                Sign::Box => area.draw(&Rectangle::new(
                    [(x, y - 5), (x + 18, y + 5)],
                    colour.filled(),
                ))?,
                Sign::Bar => area.draw(&Rectangle::new(
                    [(x, y - 2), (x + 18, y + 3)],
                    colour.filled(),
                ))?,
                Sign::Shade => area.draw(&Rectangle::new(
                    [(x, y - 6), (x + 18, y + 6)],
                    colour.mix(0.25).filled(),
                ))?,
            }
            let at = (x + 24, y + 5);
            write(area, text, at, (12, INK, HPos::Left, VPos::Bottom))?;
            x += 24 + width(text, 12) + 14;
        }
        Ok(())
    }

    /// Left and right pixel of a span of time.
    fn span(&self, from: Instant, until: Instant) -> (i32, i32) {
        let pixel = |at: Instant| {
            let minutes = at.since(Instant::ZERO).as_secs_f64() / 60.0;
            self.time.pixel(minutes)
        };
        let (left, right) = (pixel(from), pixel(until));
        // What is short is seen all the same.
        (left, right.max((left + 1).min(RIGHT)))
    }

    fn shades<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let style = SHADE.mix(0.25);
        for one in &self.drill.occasions {
            let (left, right) = self.span(one.from, one.until);
            for (top, bottom) in [ARRIVALS, SHARES] {
                let corners = [(left, top), (right, bottom)];
                area.draw(&Rectangle::new(corners, style.filled()))?;
            }
            for (place, route) in self.strips.iter().enumerate() {
                if one.routes.contains(route) {
                    let top = STRIPS + place as i32 * STEP;
                    let corners = [(left, top), (right, top + STRIP)];
                    area.draw(&Rectangle::new(corners, style.filled()))?;
                }
            }
        }
        Ok(())
    }

    /// Names of incidents above the first plane, where they meet neither its heading nor each other.
    fn names<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let mut free = LEFT + width(HEADING, 12) + 12;
        let mut named = 0;
        for one in &self.drill.occasions {
            let text = short(&one.name);
            let wide = width(&text, 12);
            let (left, right) = self.span(one.from, one.until);
            let x = ((left + right - wide) / 2).min(RIGHT - wide).max(free);
            // A name far from its incident would be taken for another's.
            if named == NAMED_MAX || x > right + NEAR || x + wide > WIDTH {
                continue;
            }
            (free, named) = (x + wide + 8, named + 1);
            let at = (x, ARRIVALS.0 - 5);
            write(area, &text, at, (12, INK, HPos::Left, VPos::Bottom))?;
        }
        Ok(())
    }

    /// Round times, with lines through all planes and texts below the last.
    fn time_grid<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let minutes = self.columns as f64 * self.column_min;
        // Steps that people count in, in minutes.
        let steps = [
            1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 180.0, 360.0, 720.0, 1_440.0, 2_880.0,
            10_080.0, 43_200.0,
        ];
        let step = steps
            .into_iter()
            .find(|step| minutes / step <= 13.0)
            .unwrap_or(minutes.max(1.0));
        let (unit, per) = if step >= 1_440.0 {
            ("days", 1_440.0)
        } else if step >= 60.0 {
            ("hours", 60.0)
        } else {
            ("minutes", 1.0)
        };
        let bottom = self.bottom();
        let planes = [ARRIVALS, SHARES]
            .into_iter()
            .chain((0..self.strips.len() as i32).map(|place| {
                let top = STRIPS + place * STEP;
                (top, top + STRIP)
            }));
        let planes: Vec<(i32, i32)> = planes.collect();
        let mut at = 0.0;
        while at <= minutes * (1.0 + 1e-9) {
            let x = self.time.pixel(at);
            for (top, bottom) in &planes {
                let line = vec![(x, *top), (x, *bottom)];
                area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
            }
            let text = format!("{}", at / per);
            let place = (x, bottom + 6);
            write(area, &text, place, (12, INK, HPos::Center, VPos::Top))?;
            at += step;
        }
        let place = ((LEFT + RIGHT) / 2, bottom + 26);
        let what = format!("{unit} from the beginning");
        write(area, &what, place, (13, INK, HPos::Center, VPos::Top))?;
        if self.left_out > 0 {
            let place = (LEFT, bottom + 50);
            let what = format!("{} routes with fewer attempts are not drawn", self.left_out);
            write(area, &what, place, (12, REFERENCE, HPos::Left, VPos::Top))?;
        }
        Ok(())
    }

    /// The frame of a plane with its heading and round numbers on the left.
    fn frame<'a>(
        &self,
        area: &Area<'a>,
        heading: &str,
        (top, bottom): (i32, i32),
        ticks: &[(i32, String)],
    ) -> Drawn<'a> {
        for (y, text) in ticks {
            area.draw(&PathElement::new(
                vec![(LEFT - 4, *y), (LEFT, *y)],
                INK.mix(0.5).stroke_width(1),
            ))?;
            let at = (LEFT - 8, *y + 5);
            write(area, text, at, (12, INK, HPos::Right, VPos::Bottom))?;
        }
        let corners = [(LEFT, top), (RIGHT, bottom)];
        area.draw(&Rectangle::new(corners, INK.mix(0.5).stroke_width(1)))?;
        let at = (LEFT, top - 5);
        write(area, heading, at, (12, INK, HPos::Left, VPos::Bottom))
    }

    /// A stack of steps from the bottom of a plane up to these values.
    fn steps<'a>(
        &self,
        area: &Area<'a>,
        values: &[f64],
        axis: &Axis,
        base: i32,
        colour: RGBColor,
    ) -> Drawn<'a> {
        let mut outline: Vec<(i32, i32)> = vec![(LEFT, base)];
        for (column, value) in values.iter().enumerate() {
            let (left, right) = self.column(column);
            let y = axis.pixel(*value);
            // Something is never drawn as nothing.
            let y = if *value > 0.0 { y.min(base - 1) } else { base };
            if outline.last() != Some(&(left, y)) {
                outline.push((left, y));
            }
            outline.push((right, y));
        }
        outline.push((RIGHT, base));
        straighten(&mut outline);
        area.draw(&Polygon::new(outline, colour.filled()))
    }

    fn arrivals<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let (top, bottom) = ARRIVALS;
        let per_min: Vec<f64> = self
            .counts(&self.row.drill.first)
            .iter()
            .map(|counts| counts.requests as f64 / self.column_min)
            .collect();
        let most = per_min.iter().copied().fold(0.0, f64::max);
        let axis = Axis::between(0.0, most * 1.08, (bottom, top));
        self.steps(area, &per_min, &axis, bottom, LOAD)?;
        self.frame(area, HEADING, ARRIVALS, &axis.about(4.0))
    }

    fn shares<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let (top, bottom) = SHARES;
        let axis = Axis::between(0.0, 104.0, (bottom, top));
        for tick in [25.0, 50.0, 75.0, 100.0] {
            let y = axis.pixel(tick);
            let line = vec![(LEFT, y), (RIGHT, y)];
            area.draw(&PathElement::new(line, GRID.stroke_width(1)))?;
        }
        if let Some(calm) = &self.row.calm {
            self.share_line(area, &self.counts(&calm.first), &axis, CALM, 1)?;
        }
        let mine = self.counts(&self.row.drill.first);
        self.share_line(area, &mine, &axis, WITHIN, 2)?;
        let ticks: Vec<(i32, String)> = [0, 25, 50, 75, 100]
            .map(|tick| (axis.pixel(f64::from(tick)), format!("{tick} %")))
            .into();
        let heading = if self.drill.has_slo() {
            "share of arrivals served within the SLO"
        } else {
            "share of arrivals served (no SLO is declared)"
        };
        self.frame(area, heading, SHARES, &ticks)
    }

    /// The share within the SLO, broken where nobody came.
    fn share_line<'a>(
        &self,
        area: &Area<'a>,
        counts: &[Counts],
        axis: &Axis,
        colour: RGBColor,
        thick: u32,
    ) -> Drawn<'a> {
        let mut lines: Vec<Vec<(i32, i32)>> = vec![Vec::new()];
        for (column, counts) in counts.iter().enumerate() {
            let known = counts.requests.saturating_sub(counts.undetermined);
            let Some(line) = lines.last_mut() else { break };
            if known == 0 {
                if !line.is_empty() {
                    lines.push(Vec::new());
                }
                continue;
            }
            let y = axis.pixel(counts.in_slo as f64 / known as f64 * 100.0);
            let (left, right) = self.column(column);
            line.extend([(left, y), (right, y)]);
        }
        for mut line in lines.into_iter().filter(|line| !line.is_empty()) {
            straighten(&mut line);
            area.draw(&PathElement::new(line, colour.stroke_width(thick)))?;
        }
        Ok(())
    }

    fn strip<'a>(&self, area: &Area<'a>, top: i32, route: usize) -> Drawn<'a> {
        let Some(passage) = self.row.drill.first.routes.get(route) else {
            return Ok(());
        };
        let bins: Vec<RouteBin> = self.folded(&passage.bins, |sum: &mut RouteBin, bin| {
            sum.attempts += bin.attempts;
            sum.failed += bin.failed;
            sum.refused += bin.refused;
            sum.breaker_open = sum.breaker_open.plus(bin.breaker_open);
        });
        let bottom = top + STRIP;
        let of = |count: fn(&RouteBin) -> u64| -> Vec<f64> {
            let per_min = bins.iter().map(|bin| count(bin) as f64 / self.column_min);
            per_min.collect()
        };
        let all = of(|bin| bin.attempts);
        let most = all.iter().copied().fold(0.0, f64::max);
        let axis = Axis::between(0.0, most * 1.08, (bottom, top));
        // The whole first, then what stands lower in the stack.
        self.steps(area, &all, &axis, bottom, FAILED)?;
        let not_failed =
            of(|bin| bin.attempts - bin.failed.saturating_sub(bin.refused).min(bin.attempts));
        self.steps(area, &not_failed, &axis, bottom, REFUSED)?;
        let answered = of(|bin| bin.attempts.saturating_sub(bin.failed));
        self.steps(area, &answered, &axis, bottom, ANSWERED)?;
        for (column, bin) in bins.iter().enumerate() {
            if bin.breaker_open > Duration::ZERO {
                let (left, right) = self.column(column);
                let corners = [
                    (left, bottom + 3),
                    (right.max(left + 1), bottom + 3 + BREAKER),
                ];
                area.draw(&Rectangle::new(corners, OPEN.filled()))?;
            }
        }
        let heading = format!(
            "{}: attempts per minute, {} in all",
            short(self.drill.route(route)),
            whole(passage.attempts)
        );
        self.frame(area, &heading, (top, bottom), &axis.about(3.0))
    }
}

/// How an entry of the legend is drawn.
enum Sign {
    Line(u32),
    Box,
    Bar,
    Shade,
}

/// Leaves out points on a straight line between their neighbours.
fn straighten(points: &mut Vec<(i32, i32)>) {
    let mut kept: Vec<(i32, i32)> = Vec::with_capacity(points.len());
    for &point in points.iter() {
        while let [.., a, b] = kept.as_slice()
            && ((a.1 == b.1 && b.1 == point.1) || (a.0 == b.0 && b.0 == point.0))
        {
            kept.pop();
        }
        kept.push(point);
    }
    *points = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_harmless_on_any_system() {
        assert_eq!(safe("cascade"), "cascade");
        assert_eq!(safe("../../etc/passwd"), "------etc-passwd");
        assert_eq!(safe("a b\\c:d*e?\u{202e}"), "a-b-c-d-e--");
        assert_eq!(safe(""), "policy");
        assert_eq!(safe(&"x".repeat(500)).len(), 80);
    }

    #[test]
    fn straight_lines_need_no_points_between() {
        let mut points = vec![(0, 5), (1, 5), (2, 5), (2, 3), (3, 3), (4, 3), (4, 3)];
        straighten(&mut points);
        assert_eq!(points, [(0, 5), (2, 5), (2, 3), (4, 3)]);
    }
}
