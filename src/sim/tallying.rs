//! Adds up the outcomes of a slice of requests, in integers.
//!
//! Outcomes stand in columns, so that the sums over right, wrong and priced answers (nearly all there
//! are) run without branches; anything else (a partial or missing grade, an unknown cost) takes the
//! slow way, request by request, to the same totals.

use super::drive::{NO_ROUTE, Outcome, flag};
use crate::standin::outcome::COST_UNKNOWN;
use crate::stats::{PairTally, Tally};
use crate::units::Score;

/// A score of one in the tally's unit.
const ONE: i128 = 1_000_000;

/// Outcomes of one contestant for a slice of requests, column by column.
#[derive(Debug, Default)]
pub(super) struct Column {
    cost: Vec<u64>,
    grade: Vec<Score>,
    route: Vec<u16>,
    calls: Vec<u8>,
    flags: Vec<u8>,
}

impl Column {
    pub(super) fn with_capacity(len: usize) -> Self {
        Self {
            cost: Vec::with_capacity(len),
            grade: Vec::with_capacity(len),
            route: Vec::with_capacity(len),
            calls: Vec::with_capacity(len),
            flags: Vec::with_capacity(len),
        }
    }

    /// Forgets everything and makes room for `len` outcomes.
    pub(super) fn reset(&mut self, len: usize) {
        self.cost.clear();
        self.cost.resize(len, 0);
        self.grade.clear();
        self.grade.resize(len, Score::WRONG);
        self.route.clear();
        self.route.resize(len, NO_ROUTE);
        self.calls.clear();
        self.calls.resize(len, 0);
        self.flags.clear();
        self.flags.resize(len, 0);
    }

    #[inline(always)]
    pub(super) fn set(&mut self, i: usize, outcome: Outcome) {
        self.cost[i] = outcome.cost;
        self.grade[i] = outcome.grade;
        self.route[i] = outcome.route;
        self.calls[i] = outcome.calls;
        self.flags[i] = outcome.flags;
    }

    fn get(&self, i: usize) -> Outcome {
        Outcome {
            cost: self.cost[i],
            grade: self.grade[i],
            route: self.route[i],
            calls: self.calls[i],
            flags: self.flags[i],
        }
    }

    fn len(&self) -> usize {
        self.cost.len()
    }

    /// Whether every outcome is right or wrong and has a known cost.
    fn is_plain(&self) -> bool {
        // No early exit: without one the loops vectorise, and the answer is nearly always yes.
        let graded = self
            .grade
            .iter()
            .fold(true, |all, grade| all & grade.is_binary());
        let costed = self
            .cost
            .iter()
            .fold(true, |all, cost| all & (*cost != COST_UNKNOWN));
        graded & costed
    }
}

#[inline(always)]
pub(super) fn square(value: u64) -> i128 {
    // (2⁶⁴)² does not fit, but one request never costs 9 million dollars: clip at 2⁶³.
    let value = u128::from(value.min(i64::MAX as u64));
    (value * value) as i128
}

/// Adds the outcomes of one contestant.
pub(super) fn add(tally: &mut Tally, column: &Column) {
    tally.requests += column.len() as u64;
    count_routes(&mut tally.final_count, &column.route);
    if column.flags.iter().any(|flags| *flags != 0) {
        for i in 0..column.len() {
            add_flags(tally, column.flags[i]);
        }
    }
    if column.is_plain() {
        add_plain(tally, column);
    } else {
        for i in 0..column.len() {
            add_one(tally, &column.get(i));
        }
    }
}

/// Adds to the final answers per route.
fn count_routes(counts: &mut [u64], routes: &[u16]) {
    if counts.len() <= 8 {
        // One vectorised pass for each route beats a chain of increments of the same few counters.
        for (route, count) in counts.iter_mut().enumerate() {
            let route = route as u16;
            *count += u64::from(
                routes
                    .iter()
                    .map(|other| u32::from(*other == route))
                    .sum::<u32>(),
            );
        }
    } else {
        for route in routes {
            if let Some(count) = counts.get_mut(*route as usize) {
                *count += 1;
            }
        }
    }
}

fn add_flags(tally: &mut Tally, flags: u8) {
    tally.unverified += u64::from(flags & flag::UNVERIFIED != 0);
    tally.escalated += u64::from(flags & flag::ESCALATED != 0);
    tally.undetermined += u64::from(flags & flag::UNDETERMINED != 0);
    if let Some(why) = drive_unserved(flags) {
        tally.unserved[why] += 1;
    }
}

fn drive_unserved(flags: u8) -> Option<usize> {
    let code = flags >> flag::UNSERVED_SHIFT;
    if code == 0 {
        None
    } else {
        Some(code as usize - 1)
    }
}

/// Adds outcomes that are all right or wrong and all priced.
fn add_plain(tally: &mut Tally, column: &Column) {
    let right: u64 = column
        .grade
        .iter()
        .map(|grade| u64::from(*grade == Score::RIGHT))
        .sum();
    let calls: u64 = column.calls.iter().map(|calls| u64::from(*calls)).sum();
    let calls_square: u64 = column
        .calls
        .iter()
        .map(|calls| u64::from(*calls) * u64::from(*calls))
        .sum();
    let most = column.cost.iter().copied().max().unwrap_or(0);
    let (cost, right_cost) = if most < u64::MAX >> 16 && column.len() < 1 << 16 {
        // Both sums fit 64 bits.
        let cost: u64 = column.cost.iter().sum();
        let of_right = column.cost.iter().zip(&column.grade);
        let right_cost: u64 = of_right
            .map(|(cost, grade)| if *grade == Score::RIGHT { *cost } else { 0 })
            .sum();
        (i128::from(cost), i128::from(right_cost))
    } else {
        let cost = column.cost.iter().map(|cost| i128::from(*cost)).sum();
        let of_right = column
            .cost
            .iter()
            .zip(&column.grade)
            .filter(|(_, grade)| **grade == Score::RIGHT);
        (cost, of_right.map(|(cost, _)| i128::from(*cost)).sum())
    };
    let cost_square: i128 = column.cost.iter().map(|cost| square(*cost)).sum();
    let n = column.len() as u64;
    let score = i128::from(right) * ONE;
    tally.graded += n;
    tally.score_sum += score;
    tally.score_square_sum += score * ONE;
    tally.calls_sum += calls;
    tally.calls_square_sum += calls_square;
    tally.costed += n;
    tally.cost_sum += cost;
    tally.cost_square_sum += cost_square;
    tally.both += n;
    tally.both_cost_sum += cost;
    tally.both_cost_square_sum += cost_square;
    tally.both_score_sum += score;
    tally.both_score_square_sum += score * ONE;
    tally.both_cross_sum += right_cost * ONE;
}

/// Adds one outcome of any sort, but for its flags and route.
fn add_one(tally: &mut Tally, outcome: &Outcome) {
    if outcome.flags & flag::UNDETERMINED != 0 {
        return;
    }
    tally.calls_sum += u64::from(outcome.calls);
    tally.calls_square_sum += u64::from(outcome.calls) * u64::from(outcome.calls);
    let score = outcome.grade.millionths().map(i128::from);
    match score {
        None => tally.missing += 1,
        Some(score) => {
            tally.graded += 1;
            tally.fractional += u64::from(!outcome.grade.is_binary());
            tally.score_sum += score;
            tally.score_square_sum += score * score;
        }
    }
    if outcome.cost == COST_UNKNOWN {
        return;
    }
    let cost = i128::from(outcome.cost);
    tally.costed += 1;
    tally.cost_sum += cost;
    tally.cost_square_sum += square(outcome.cost);
    if let Some(score) = score {
        tally.both += 1;
        tally.both_cost_sum += cost;
        tally.both_cost_square_sum += square(outcome.cost);
        tally.both_score_sum += score;
        tally.both_score_square_sum += score * score;
        tally.both_cross_sum += cost * score;
    }
}

/// Adds the outcomes of a contestant and of its baseline on the same requests.
pub(super) fn add_pairs(pair: &mut PairTally, mine: &Column, theirs: &Column) {
    let mut counts = [0u64; 4];
    for (mine, theirs) in mine.grade.iter().zip(&theirs.grade) {
        if mine.is_binary() && theirs.is_binary() {
            let cell =
                usize::from(*mine == Score::RIGHT) * 2 + usize::from(*theirs == Score::RIGHT);
            counts[cell] += 1;
        } else if let (Some(a), Some(b)) = (mine.millionths(), theirs.millionths()) {
            let difference = i128::from(a) - i128::from(b);
            pair.graded += 1;
            pair.fractional += 1;
            pair.score_difference_sum += difference;
            pair.score_difference_square_sum += difference * difference;
        }
    }
    let (mut costed, mut sum, mut squares) = (0u64, 0i128, 0i128);
    for (mine, theirs) in mine.cost.iter().zip(&theirs.cost) {
        if *mine != COST_UNKNOWN && *theirs != COST_UNKNOWN {
            costed += 1;
            sum += i128::from(*mine) - i128::from(*theirs);
            squares += square(mine.abs_diff(*theirs));
        }
    }
    pair.costed += costed;
    pair.cost_difference_sum += sum;
    pair.cost_difference_square_sum += squares;
    let [n00, n01, n10, n11] = counts;
    pair.n00 += n00;
    pair.n01 += n01;
    pair.n10 += n10;
    pair.n11 += n11;
    pair.graded += counts.iter().sum::<u64>();
    pair.score_difference_sum += (i128::from(n10) - i128::from(n01)) * ONE;
    pair.score_difference_square_sum += i128::from(n10 + n01) * ONE * ONE;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome() -> impl Strategy<Value = Outcome> {
        let cost = prop_oneof![4 => 0u64..1 << 40, 1 => Just(COST_UNKNOWN), 1 => any::<u64>()];
        let grade = prop_oneof![
            3 => Just(Score::RIGHT),
            3 => Just(Score::WRONG),
            1 => Just(Score::MISSING),
            1 => (0u32..=1000).prop_map(|n| Score::from_fraction(f64::from(n) / 1000.0).unwrap()),
        ];
        (cost, grade, 0u16..12, 0u8..9, 0u8..8).prop_map(|(cost, grade, route, calls, flags)| {
            Outcome {
                cost,
                grade,
                route,
                calls,
                flags,
            }
        })
    }

    fn column(outcomes: &[Outcome]) -> Column {
        let mut column = Column::default();
        column.reset(outcomes.len());
        for (i, outcome) in outcomes.iter().enumerate() {
            column.set(i, *outcome);
        }
        column
    }

    proptest! {
        /// The vectorised sums of plain outcomes and the slow way must agree, and so must few and many routes.
        #[test]
        fn the_fast_sums_equal_the_slow_ones(outcomes in prop::collection::vec(outcome(), 0..300), routes in 12usize..20) {
            let plain: Vec<Outcome> = outcomes
                .iter()
                .copied()
                .filter(|one| one.cost != COST_UNKNOWN && one.grade.is_binary() && one.flags & flag::UNDETERMINED == 0)
                .map(|one| Outcome { route: one.route % 3, ..one })
                .collect();
            let fresh = |routes| Tally { final_count: vec![0; routes], ..Tally::default() };
            let mut fast = fresh(3);
            add(&mut fast, &column(&plain));
            let mut slow = fresh(routes);
            slow.requests = plain.len() as u64;
            for one in &plain {
                add_flags(&mut slow, one.flags);
                add_one(&mut slow, one);
                slow.final_count[one.route as usize] += 1;
            }
            slow.final_count.truncate(3);
            prop_assert_eq!(fast, slow);
        }

        /// Cutting a column in two changes nothing.
        #[test]
        fn sums_do_not_depend_on_the_slicing(outcomes in prop::collection::vec(outcome(), 0..200), cut in 0usize..200) {
            let cut = cut.min(outcomes.len());
            let mut whole = Tally { final_count: vec![0; 12], ..Tally::default() };
            let mut parts = whole.clone();
            add(&mut whole, &column(&outcomes));
            add(&mut parts, &column(&outcomes[..cut]));
            add(&mut parts, &column(&outcomes[cut..]));
            prop_assert_eq!(whole, parts);
        }
    }
}
