//! Adds up the outcomes of a slice of requests, in integers.
//!
//! Nearly all outcomes are plain: right or wrong, at a known and ordinary cost. Their sums need no
//! branches. A slice with anything else in it (a partial or missing grade, an unknown or enormous cost)
//! takes the slow way, outcome by outcome, to the same totals. Sums saturate; nothing wraps.

use super::drive::{NO_ROUTE, Outcome, flag};
use crate::standin::outcome::COST_UNKNOWN;
use crate::stats::{PairTally, Tally};
use crate::units::Score;

/// A score of one in the tally's unit.
const ONE: i128 = 1_000_000;
/// Costs below this are ordinary: a million of them fit 64 bits. It is 17 USD for one request.
const ORDINARY: u64 = 1 << 44;
/// Routes that are counted in one register.
const PACKED: usize = 8;
/// Outcomes after which that register has to be emptied.
const PACKED_MAX: usize = 255;

#[inline(always)]
pub(super) fn square(value: u64) -> i128 {
    // (2⁶⁴)² does not fit, but one request never costs 9 million dollars: clip at 2⁶³.
    let value = u128::from(value.min(i64::MAX as u64));
    (value * value) as i128
}

fn grow(sum: &mut i128, by: i128) {
    *sum = sum.saturating_add(by);
}

/// Adds the outcomes of one contestant.
pub(super) fn add(tally: &mut Tally, outcomes: &[Outcome]) {
    tally.requests += outcomes.len() as u64;
    for outcomes in outcomes.chunks(PACKED_MAX) {
        let sums = PlainSums::of(outcomes);
        if sums.are_plain(outcomes.len()) && tally.final_count.len() <= PACKED {
            sums.add_to(tally, outcomes.len() as u64);
        } else {
            for outcome in outcomes {
                add_one(tally, outcome);
            }
        }
        if sums.flags != 0 {
            for outcome in outcomes {
                add_flags(tally, *outcome);
            }
        }
    }
}

fn add_flags(tally: &mut Tally, outcome: Outcome) {
    tally.unverified += u64::from(outcome.flags() & flag::UNVERIFIED != 0);
    tally.escalated += u64::from(outcome.flags() & flag::ESCALATED != 0);
    tally.undetermined += u64::from(outcome.flags() & flag::UNDETERMINED != 0);
    if let Some(why) = outcome.unserved() {
        tally.unserved[why] += 1;
    }
}

/// Sums over at most [`PACKED_MAX`] outcomes, right if they are all plain and of at most [`PACKED`] routes.
///
/// Small counts share a word: the loop then has few enough sums for all of them to stay in registers.
struct PlainSums {
    /// Right answers in bits 0 to 15, calls in 16 to 31, calls² in 32 to 55, right or wrong ones in 56 to 63.
    counts: u64,
    /// All costs, or-ed.
    any_cost: u64,
    /// All flags, or-ed.
    flags: u8,
    cost: u64,
    right_cost: u64,
    cost_square: u128,
    /// Eight counters of eight bits, one for each route.
    routes: u64,
}

impl PlainSums {
    fn of(outcomes: &[Outcome]) -> Self {
        let (mut counts, mut any_cost, mut flags, mut routes) = (0u64, 0, 0, 0u64);
        let (mut cost, mut right_cost, mut cost_square) = (0u64, 0u64, 0u128);
        for outcome in outcomes {
            let grade = outcome.grade();
            let is_right = u64::from(grade == Score::RIGHT);
            let calls = u64::from(outcome.calls());
            // 255 · 255² fits the 24 bits of calls².
            let count =
                is_right | calls << 16 | (calls * calls) << 32 | u64::from(grade.is_binary()) << 56;
            counts = counts.wrapping_add(count);
            any_cost |= outcome.cost;
            flags |= outcome.flags();
            // An outcome that is not plain may overflow these; then they are thrown away.
            cost = cost.wrapping_add(outcome.cost);
            right_cost = right_cost.wrapping_add(outcome.cost & is_right.wrapping_neg());
            cost_square =
                cost_square.wrapping_add(u128::from(outcome.cost) * u128::from(outcome.cost));
            let route = outcome.route();
            routes =
                routes.wrapping_add(u64::from(route != NO_ROUTE) << (8 * (route % PACKED as u16)));
        }
        Self {
            counts,
            any_cost,
            flags,
            cost,
            right_cost,
            cost_square,
            routes,
        }
    }

    /// Whether all of the `n` outcomes are right or wrong and of ordinary cost.
    fn are_plain(&self, n: usize) -> bool {
        // The bound is a power of two, so it holds for each cost if it holds for all their bits.
        self.counts >> 56 == n as u64 && self.any_cost < ORDINARY
    }

    fn add_to(&self, tally: &mut Tally, n: u64) {
        for (route, count) in tally.final_count.iter_mut().enumerate() {
            *count += self.routes >> (8 * route) & 0xff;
        }
        let (cost, cost_square) = (i128::from(self.cost), self.cost_square as i128);
        let score = i128::from(self.counts & 0xffff) * ONE;
        tally.graded += n;
        grow(&mut tally.score_sum, score);
        grow(&mut tally.score_square_sum, score * ONE);
        tally.calls_sum += self.counts >> 16 & 0xffff;
        tally.calls_square_sum += self.counts >> 32 & 0xff_ffff;
        tally.costed += n;
        grow(&mut tally.cost_sum, cost);
        grow(&mut tally.cost_square_sum, cost_square);
        tally.both += n;
        grow(&mut tally.both_cost_sum, cost);
        grow(&mut tally.both_cost_square_sum, cost_square);
        grow(&mut tally.both_score_sum, score);
        grow(&mut tally.both_score_square_sum, score * ONE);
        grow(&mut tally.both_cross_sum, i128::from(self.right_cost) * ONE);
    }
}

/// Adds one outcome of any sort, but for its flags.
fn add_one(tally: &mut Tally, outcome: &Outcome) {
    if let Some(count) = tally.final_count.get_mut(usize::from(outcome.route())) {
        *count += 1;
    }
    if outcome.flags() & flag::UNDETERMINED != 0 {
        return;
    }
    tally.calls_sum += u64::from(outcome.calls());
    tally.calls_square_sum += u64::from(outcome.calls()) * u64::from(outcome.calls());
    let score = outcome.grade().millionths().map(i128::from);
    match score {
        None => tally.missing += 1,
        Some(score) => {
            tally.graded += 1;
            tally.fractional += u64::from(!outcome.grade().is_binary());
            grow(&mut tally.score_sum, score);
            grow(&mut tally.score_square_sum, score * score);
        }
    }
    if outcome.cost == COST_UNKNOWN {
        return;
    }
    let cost = i128::from(outcome.cost);
    tally.costed += 1;
    grow(&mut tally.cost_sum, cost);
    grow(&mut tally.cost_square_sum, square(outcome.cost));
    if let Some(score) = score {
        tally.both += 1;
        grow(&mut tally.both_cost_sum, cost);
        grow(&mut tally.both_cost_square_sum, square(outcome.cost));
        grow(&mut tally.both_score_sum, score);
        grow(&mut tally.both_score_square_sum, score * score);
        grow(&mut tally.both_cross_sum, cost * score);
    }
}

/// Adds the outcomes of a contestant and of its baseline on the same requests.
pub(super) fn add_pairs(pair: &mut PairTally, mine: &[Outcome], theirs: &[Outcome]) {
    // By whether the first and the second are right.
    let mut counts = [0u64; 4];
    let (mut costed, mut sum, mut squares) = (0u64, 0i128, 0i128);
    for (mine, theirs) in mine.iter().zip(theirs) {
        if mine.grade().is_binary() && theirs.grade().is_binary() {
            let cell = usize::from(mine.grade() == Score::RIGHT) * 2
                + usize::from(theirs.grade() == Score::RIGHT);
            counts[cell] += 1;
        } else if let (Some(a), Some(b)) = (mine.grade().millionths(), theirs.grade().millionths())
        {
            let difference = i128::from(a) - i128::from(b);
            pair.graded += 1;
            pair.fractional += 1;
            grow(&mut pair.score_difference_sum, difference);
            grow(
                &mut pair.score_difference_square_sum,
                difference * difference,
            );
        }
        if mine.cost != COST_UNKNOWN && theirs.cost != COST_UNKNOWN {
            costed += 1;
            // A slice is far too short for these to overflow.
            sum += i128::from(mine.cost) - i128::from(theirs.cost);
            squares = squares.saturating_add(square(mine.cost.abs_diff(theirs.cost)));
        }
    }
    let [n00, n01, n10, n11] = counts;
    pair.n00 += n00;
    pair.n01 += n01;
    pair.n10 += n10;
    pair.n11 += n11;
    pair.graded += counts.iter().sum::<u64>();
    grow(
        &mut pair.score_difference_sum,
        (i128::from(n10) - i128::from(n01)) * ONE,
    );
    grow(
        &mut pair.score_difference_square_sum,
        i128::from(n10 + n01) * ONE * ONE,
    );
    pair.costed += costed;
    grow(&mut pair.cost_difference_sum, sum);
    grow(&mut pair.cost_difference_square_sum, squares);
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
            Outcome::new(cost, grade, route, calls, flags)
        })
    }

    proptest! {
        /// The vectorised sums of plain outcomes and the slow way must agree, and so must few and many routes.
        #[test]
        fn the_fast_sums_equal_the_slow_ones(outcomes in prop::collection::vec(outcome(), 0..300), routes in 12usize..20) {
            let plain: Vec<Outcome> = outcomes
                .iter()
                .copied()
                .filter(|one| one.cost != COST_UNKNOWN && one.grade().is_binary() && one.flags() & flag::UNDETERMINED == 0)
                .map(|one| Outcome::new(one.cost, one.grade(), one.route() % 3, one.calls(), one.flags()))
                .collect();
            let fresh = |routes| Tally { final_count: vec![0; routes], ..Tally::default() };
            let mut fast = fresh(3);
            add(&mut fast, &plain);
            let mut slow = fresh(routes);
            slow.requests = plain.len() as u64;
            for one in &plain {
                add_flags(&mut slow, *one);
                add_one(&mut slow, one);
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
            add(&mut whole, &outcomes);
            add(&mut parts, &outcomes[..cut]);
            add(&mut parts, &outcomes[cut..]);
            prop_assert_eq!(whole, parts);
        }
    }
}
