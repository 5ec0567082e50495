//! Where texts find room: beside their point, on the plane, and on nothing else.

/// A box of pixels: left, top, right, bottom.
type Area = (i32, i32, i32, i32);

/// How wide a text of this many pixels' height is, about: a little more than most fonts need.
pub(in crate::report) fn width(text: &str, pixels: i32) -> i32 {
    let share = |c: char| if c.is_ascii() { 58 } else { 100 };
    text.chars().map(share).sum::<i32>() * pixels / 100
}

/// The places that are taken.
#[derive(Debug)]
pub(in crate::report) struct Labels {
    frame: Area,
    taken: Vec<Area>,
}

impl Labels {
    /// Nothing is taken of the plane within this frame.
    pub(in crate::report) fn within(frame: Area) -> Self {
        Self {
            frame,
            taken: Vec::new(),
        }
    }

    /// No label will stand nearer to this place.
    pub(in crate::report) fn keep_clear(&mut self, (x, y): (i32, i32), radius: i32) {
        self.taken
            .push((x - radius, y - radius, x + radius, y + radius));
    }

    /// Where the text's lower left corner goes, on one of eight sides of its point; `None` if there is no room.
    pub(in crate::report) fn place(
        &mut self,
        text: &str,
        pixels: i32,
        (x, y): (i32, i32),
    ) -> Option<(i32, i32)> {
        const GAP: i32 = 8;
        let (wide, high) = (width(text, pixels), pixels);
        let columns = [x + GAP, x - GAP - wide, x - wide / 2];
        let rows = [y - GAP, y + GAP + high, y + high / 2];
        // A step line comes from below and leaves to the right, and whiskers run along the axes.
        let sides = [
            (1, 0),
            (0, 1),
            (1, 1),
            (0, 0),
            (1, 2),
            (0, 2),
            (2, 0),
            (2, 1),
        ];
        let found = sides
            .map(|(column, row)| (columns[column], rows[row]))
            .into_iter()
            .find(|&(left, bottom)| self.is_free((left, bottom - high, left + wide, bottom)))?;
        self.taken
            .push((found.0, found.1 - high, found.0 + wide, found.1));
        Some(found)
    }

    /// The upper left of a box of this size in the corner of the plane where it covers the fewest places,
    /// which it takes.
    pub(in crate::report) fn corner(&mut self, (wide, high): (i32, i32)) -> (i32, i32) {
        const GAP: i32 = 10;
        let (left, top, right, bottom) = self.frame;
        let (near, far) = (left + GAP, right - GAP - wide);
        let (up, down) = (top + GAP, bottom - GAP - high);
        let corners = [(far, down), (far, up), (near, up), (near, down)];
        let covered = |&(x, y): &(i32, i32)| {
            let area = (x, y, x + wide, y + high);
            self.taken
                .iter()
                .filter(|other| meet(area, **other))
                .count()
        };
        let best = corners
            .into_iter()
            .min_by_key(covered)
            .unwrap_or(corners[0]);
        self.taken
            .push((best.0, best.1, best.0 + wide, best.1 + high));
        best
    }

    fn is_free(&self, area: Area) -> bool {
        let (left, top, right, bottom) = self.frame;
        area.0 >= left
            && area.1 >= top
            && area.2 <= right
            && area.3 <= bottom
            && !self.taken.iter().any(|other| meet(area, *other))
    }
}

fn meet(a: Area, b: Area) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn labels_meet_neither_each_other_nor_points(
            points in prop::collection::vec((80_i32..920, 80_i32..560), 0..60),
        ) {
            let mut labels = Labels::within((80, 80, 920, 560));
            for point in &points {
                labels.keep_clear(*point, 6);
            }
            let marks = labels.taken.len();
            let mut texts = Vec::new();
            for point in &points {
                if let Some((x, y)) = labels.place("0.125", 13, *point) {
                    texts.push((x, y - 13, x + width("0.125", 13), y));
                }
            }
            for (index, text) in texts.iter().enumerate() {
                prop_assert!(!texts[..index].iter().any(|other| meet(*text, *other)));
                prop_assert!(!labels.taken[..marks].iter().any(|mark| meet(*text, *mark)));
            }
            // The first one has all the room there is, unless points stand in its way.
            prop_assert!(points.len() != 1 || texts.len() == 1);
        }
    }

    #[test]
    fn a_legend_goes_where_it_covers_least() {
        let mut labels = Labels::within((0, 0, 400, 400));
        labels.keep_clear((380, 380), 5);
        labels.keep_clear((380, 20), 5);
        assert_eq!(labels.corner((50, 50)), (10, 10));
    }
}
