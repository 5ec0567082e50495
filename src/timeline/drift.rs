//! How the quality of a route changes: the silent regression after a vendor's update.
//!
//! A drift changes grades, and nothing else: the answers come as fast, cost as much and fail as often as
//! before, which is why nobody notices. Several may hold at once; they take effect one after the other,
//! in the order of the file, each with a coin of its own.

use super::ENTRIES_MAX;
use super::target::{length, moment, required, route};
use crate::catalogue::Catalogue;
use crate::router::RouteId;
use crate::source::{Table, Value};
use crate::units::{Instant, Probability, Score, mix64};

/// What an answer's random bits are split for.
const LANE: u64 = 0x6472_6966_742e_6c31;

/// From a moment on, a share of a route's right answers are wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// Which route.
    pub route: RouteId,
    /// From when on.
    pub from: Instant,
    /// Until when; for ever if `None`.
    pub until: Option<Instant>,
    /// Share of the right answers that turn wrong.
    pub right_to_wrong: Probability,
    /// Share of the wrong answers that turn right: an update may also be a gain.
    pub wrong_to_right: Probability,
}

/// All drifts of a timeline, by route.
#[derive(Clone, Debug, Default)]
pub struct Drifts {
    of: Vec<Vec<Turn>>,
}

/// A drift as it is applied.
#[derive(Clone, Copy, Debug)]
struct Turn {
    from: Instant,
    until: Instant,
    /// Splits the random bits.
    purpose: u64,
    /// A lane below turns right into wrong, of 2³².
    right_to_wrong: u64,
    /// A lane below turns wrong into right, of 2³².
    wrong_to_right: u64,
}

impl Drifts {
    /// The drifts of a world with so many routes.
    #[must_use]
    pub fn new(drifts: &[Drift], routes: usize) -> Self {
        let mut of = vec![Vec::new(); routes];
        for drift in drifts {
            let Some(list): Option<&mut Vec<Turn>> = of.get_mut(usize::from(drift.route.0)) else {
                continue;
            };
            // Numbered within the route, so that entries for other routes change nothing here.
            list.push(Turn {
                from: drift.from,
                until: drift.until.unwrap_or(Instant(u64::MAX)),
                purpose: LANE.wrapping_add(list.len() as u64),
                right_to_wrong: drift.right_to_wrong.threshold(),
                wrong_to_right: drift.wrong_to_right.threshold(),
            });
        }
        Self { of }
    }

    /// The grade of an answer that `route` gives at `at`, if it would have been `grade` without drifts.
    ///
    /// `bits` are 64 random bits of (request, route), the same for every attempt, for a request that is
    /// sent again is the same question: [`Attempted::bits`](super::Attempted::bits) with attempt 0. An
    /// answer that is wrong under some share of right answers that turn wrong is wrong under every larger
    /// one, so two worlds that differ in the share differ in no more answers than they must.
    ///
    /// A right or wrong grade turns with the drift's share. A partial grade becomes its own mean under that
    /// rule, g·(1 − right to wrong) + (1 − g)·(wrong to right), so the mean grade moves the same way
    /// whether credit is partial or not. A missing one stays missing.
    #[must_use]
    #[inline]
    pub fn grade(&self, route: RouteId, at: Instant, bits: u64, grade: Score) -> Score {
        match self.of.get(usize::from(route.0)) {
            Some(turns) if !turns.is_empty() => turns
                .iter()
                .filter(|turn| turn.from <= at && at < turn.until)
                .fold(grade, |grade, turn| turn.apply(bits, grade)),
            _ => grade,
        }
    }
}

impl Turn {
    fn apply(&self, bits: u64, grade: Score) -> Score {
        let Some(millionths) = grade.millionths() else {
            return grade;
        };
        if !grade.is_binary() {
            return self.scale(millionths);
        }
        let lane = mix64(bits ^ mix64(self.purpose)) >> 32;
        let right = grade == Score::RIGHT;
        let turns = if right {
            lane < self.right_to_wrong
        } else {
            lane < self.wrong_to_right
        };
        Score::from_right(right != turns)
    }

    fn scale(&self, millionths: u32) -> Score {
        // Thresholds are at most 2³², so the sum is below 2⁵³.
        let right = u64::from(millionths);
        let wrong = 1_000_000 - right;
        let sum = right * ((1 << 32) - self.right_to_wrong) + wrong * self.wrong_to_right;
        Score::from_bits(((sum + (1 << 31)) >> 32) as u32)
    }
}

/// Reads the list `[[timeline.drift]]`, in the order of the file.
pub(super) fn read(timeline: &mut Table<'_>, catalogue: &Catalogue) -> Vec<Drift> {
    let Some(value) = timeline.get("drift") else {
        return Vec::new();
    };
    let Some(list) = value.list() else {
        return Vec::new();
    };
    if list.len() > ENTRIES_MAX {
        value.error(format!("at most {ENTRIES_MAX} drifts fit in one timeline"));
        return Vec::new();
    }
    let mut drifts: Vec<Drift> = Vec::with_capacity(list.len());
    for value in list {
        let Some(drift) = value.table().and_then(|table| drift(table, catalogue)) else {
            continue;
        };
        if drifts.contains(&drift) {
            value.error_help(
                "this drift is declared above already",
                "drifts take effect one after the other; for a larger share, raise it",
            );
        }
        drifts.push(drift);
    }
    drifts
}

fn drift(mut table: Table<'_>, catalogue: &Catalogue) -> Option<Drift> {
    let name = table.require("route").and_then(|value| value.string());
    let route = name.and_then(|name| {
        let found = route(&name, catalogue);
        found
            .map_err(|complaint| table.context().report(*complaint))
            .ok()
    });
    let at = moment(&mut table, "at");
    let at = required(&table, "at", at);
    let lasts = length(&mut table, "for");
    let keys = ["right_to_wrong", "wrong_to_right"];
    let given = keys.map(|key| table.get(key));
    if given.iter().all(Option::is_none) {
        table.error(format!(
            "`[{}]` changes nothing: it needs `right_to_wrong`, `wrong_to_right` or both",
            table.path()
        ));
    }
    table.finish();
    let share = |value: &Option<Value<'_>>| match value {
        Some(value) => value.probability(),
        None => Some(Probability::ZERO),
    };
    let [down, up] = &given;
    let (down, up) = (share(down), share(up));
    let from = Instant::ZERO.after(at?);
    Some(Drift {
        route: route?,
        from,
        until: lasts?.map(|lasts| from.after(lasts)),
        right_to_wrong: down?,
        wrong_to_right: up?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROUTE: RouteId = RouteId(1);

    fn drift(right_to_wrong: f64, wrong_to_right: f64) -> Drift {
        Drift {
            route: ROUTE,
            from: Instant(100),
            until: None,
            right_to_wrong: Probability::new(right_to_wrong).unwrap(),
            wrong_to_right: Probability::new(wrong_to_right).unwrap(),
        }
    }

    fn later(drifts: &Drifts, bits: u64, grade: Score) -> Score {
        drifts.grade(ROUTE, Instant(100), bits, grade)
    }

    #[test]
    fn it_holds_from_its_first_microsecond_on_its_route_alone() {
        let mut one = drift(1.0, 1.0);
        one.until = Some(Instant(200));
        let drifts = Drifts::new(&[one], 2);
        let grade = |route, at| drifts.grade(RouteId(route), Instant(at), 7, Score::RIGHT);
        assert_eq!(grade(1, 99), Score::RIGHT);
        assert_eq!(grade(1, 100), Score::WRONG);
        assert_eq!(grade(1, 199), Score::WRONG);
        assert_eq!(grade(1, 200), Score::RIGHT);
        assert_eq!(grade(0, 150), Score::RIGHT);
        assert_eq!(grade(9, 150), Score::RIGHT);
        assert_eq!(later(&drifts, 7, Score::WRONG), Score::RIGHT);
    }

    #[test]
    fn the_share_of_answers_that_turn_is_the_declared_one() {
        let drifts = Drifts::new(&[drift(0.3, 0.1)], 2);
        let count = 100_000_u32;
        for (grade, share) in [(Score::RIGHT, 0.3), (Score::WRONG, 0.1)] {
            let turned = (0..u64::from(count))
                .filter(|&n| later(&drifts, mix64(n), grade) != grade)
                .count() as f64;
            // Four standard errors of a binomial share.
            let error = 4.0 * (share * (1.0 - share) / f64::from(count)).sqrt();
            let found = turned / f64::from(count);
            assert!((found - share).abs() < error, "{found} for {share}");
        }
    }

    #[test]
    fn two_drifts_toss_two_coins() {
        let one = drift(0.5, 0.0);
        let two = Drift {
            from: Instant(50),
            ..one.clone()
        };
        let drifts = Drifts::new(&[one, two], 2);
        let count = 100_000;
        let right = (0..count)
            .filter(|&n| later(&drifts, mix64(n), Score::RIGHT) == Score::RIGHT)
            .count() as f64;
        let error = 4.0 * (0.25 * 0.75 / count as f64).sqrt();
        assert!((right / count as f64 - 0.25).abs() < error, "{right}");
    }

    proptest! {
        #[test]
        fn a_larger_share_turns_every_answer_that_a_smaller_one_turns(
            a in 0.0..=1.0_f64, b in 0.0..=1.0_f64, bits: u64,
        ) {
            let (small, large) = (a.min(b), a.max(b));
            let turned = |share, grade| {
                let (down, up) = if grade == Score::RIGHT { (share, 0.0) } else { (0.0, share) };
                later(&Drifts::new(&[drift(down, up)], 2), bits, grade) != grade
            };
            for grade in [Score::RIGHT, Score::WRONG] {
                prop_assert!(!turned(small, grade) || turned(large, grade));
            }
        }

        #[test]
        fn partial_grades_move_to_their_mean_and_missing_ones_stay(
            grade in 1..1_000_000_u32, down in 0.0..=1.0_f64, up in 0.0..=1.0_f64, bits: u64,
        ) {
            let drifts = Drifts::new(&[drift(down, up)], 2);
            let share = f64::from(grade) / 1e6;
            let found = later(&drifts, bits, Score::from_fraction(share).unwrap());
            let mean = share * (1.0 - down) + (1.0 - share) * up;
            let found = f64::from(found.millionths().unwrap()) / 1e6;
            prop_assert!((found - mean).abs() < 1e-6, "{} {}", found, mean);
            prop_assert!(later(&drifts, bits, Score::MISSING).is_missing());
        }
    }
}
