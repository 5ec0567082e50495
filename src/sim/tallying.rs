//! Adds up the outcomes of a slice of requests, in integers.
//!
//! Nearly all outcomes are plain: right or wrong, at a known and ordinary cost. Their sums need no
//! branches. A slice with anything else in it (a partial or missing grade, an unknown or enormous cost)
//! takes the slow way, outcome by outcome, to the same totals. Sums saturate; nothing wraps.

use super::drive::{NO_ROUTE, Outcome, flag};
use crate::standin::outcome::COST_UNKNOWN;
use crate::stats::{PairTally, SegmentTally, Tally};
use crate::units::Score;
use crate::units::lanes::{self, LANES, Lanes};

/// A score of one in the tally's unit.
const ONE: i128 = 1_000_000;
/// Costs below this are ordinary: a million of them fit 64 bits. It is 17 USD for one request.
pub(super) const ORDINARY: u64 = 1 << 44;
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

/// Adds, and stays at the limit instead of wrapping.
pub(super) fn grow(sum: &mut i128, by: i128) {
    *sum = sum.saturating_add(by);
}

/// What became of a slice of requests under one contestant, in one of two shapes.
#[derive(Default)]
pub(super) struct Column {
    /// Whether `cost` and `right` hold it; else `outcomes` does.
    is_plain: bool,
    /// Costs of plain outcomes, below [`ORDINARY`], in groups of 64.
    pub(super) cost: Vec<[u64; LANES]>,
    /// Which plain outcomes are right, by group.
    pub(super) right: Vec<Lanes>,
    outcomes: Vec<Outcome>,
}

impl Column {
    /// Room for plain outcomes: wrong and free, until something is added.
    #[inline(always)]
    pub(super) fn begin_plain(&mut self, groups: usize) {
        self.is_plain = true;
        self.cost.clear();
        self.cost.resize(groups, [0; LANES]);
        self.right.clear();
        self.right.resize(groups, 0);
    }

    /// Room for outcomes of any sort.
    pub(super) fn begin_outcomes(&mut self) -> &mut Vec<Outcome> {
        self.is_plain = false;
        self.outcomes.clear();
        &mut self.outcomes
    }

    /// The outcomes, if it does not hold plain ones.
    pub(super) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// Brings outcomes that turned out plain into the shape in which they are paired fast.
    pub(super) fn settle(&mut self) {
        let (groups, rest) = self.outcomes.as_chunks::<LANES>();
        let plain = |one: &Outcome| one.grade().is_binary() && one.cost < ORDINARY;
        if self.is_plain || !rest.is_empty() || !self.outcomes.iter().all(plain) {
            return;
        }
        self.is_plain = true;
        self.cost.clear();
        self.right.clear();
        for group in groups {
            self.cost.push(group.map(|one| one.cost));
            let right = |lane: usize| group[lane].grade() == Score::RIGHT;
            self.right.push(lanes::which(right));
        }
    }

    /// What became of the i-th request, as far as differences look at it; `None` beyond the column's end.
    pub(super) fn at(&self, i: usize) -> Option<Known> {
        if self.is_plain {
            let cost = self.cost.get(i / LANES)?[i % LANES];
            let right = self.right.get(i / LANES)? >> (i % LANES) & 1 == 1;
            return Some(Known {
                score: Score::from_right(right).millionths(),
                cost: Some(cost),
            });
        }
        let outcome = self.outcomes.get(i)?;
        Some(Known {
            score: outcome.grade().millionths(),
            cost: (outcome.cost != COST_UNKNOWN).then_some(outcome.cost),
        })
    }

    /// Plain outcomes as outcomes, as far as pairs look at them.
    fn spelt_out(&self) -> Vec<Outcome> {
        let groups = self.cost.iter().zip(&self.right);
        groups
            .flat_map(|(cost, right)| {
                cost.iter().enumerate().map(move |(lane, cost)| {
                    let grade = Score::from_right(right >> lane & 1 == 1);
                    Outcome::new(*cost, grade, NO_ROUTE, 0, 0)
                })
            })
            .collect()
    }
}

/// What is known of one outcome: its score in millionths, its cost in 10⁻¹² USD.
pub(super) struct Known {
    pub(super) score: Option<u32>,
    pub(super) cost: Option<u64>,
}

/// Σ x² of numbers below 2⁴⁴, from the 22-bit halves of each: that takes no product of more than 64 bits.
#[derive(Clone, Copy, Default)]
struct Squares {
    low: u64,
    cross: u64,
    high: u64,
}

impl Squares {
    const HALF: u32 = 22;

    #[inline(always)]
    fn add(&mut self, x: u64) {
        // Halves of 32 bits, for products of such are what every processor has many of at a time.
        let low = u64::from(x as u32 & ((1 << Self::HALF) - 1));
        let high = u64::from((x >> Self::HALF) as u32);
        self.low = self.low.wrapping_add(low * low);
        self.cross = self.cross.wrapping_add(low * high);
        self.high = self.high.wrapping_add(high * high);
    }

    /// Right for up to 2²⁰ numbers.
    fn sum(self) -> i128 {
        i128::from(self.low)
            + (i128::from(self.cross) << (Self::HALF + 1))
            + (i128::from(self.high) << (2 * Self::HALF))
    }
}

/// Adds plain outcomes, but for calls, routes, escalations and reasons, which whoever walked them knows.
#[inline(always)]
pub(super) fn add_plain(tally: &mut Tally, column: &Column) {
    let (mut cost, mut right_cost) = (0u64, 0u64);
    let mut squares = Squares::default();
    for (group, right) in column.cost.iter().zip(&column.right) {
        for (lane, one) in group.iter().enumerate() {
            cost = cost.wrapping_add(*one);
            right_cost = right_cost.wrapping_add(*one & lanes::mask(*right, lane));
            squares.add(*one);
        }
    }
    let n = (column.cost.len() * LANES) as u64;
    let right: u32 = column.right.iter().map(|right| right.count_ones()).sum();
    tally.requests += n;
    Sums {
        n,
        right: u64::from(right),
        cost,
        right_cost,
        cost_square: squares.sum(),
    }
    .add_to(tally);
}

/// Sums over plain outcomes.
struct Sums {
    n: u64,
    right: u64,
    cost: u64,
    right_cost: u64,
    cost_square: i128,
}

impl Sums {
    fn add_to(&self, tally: &mut Tally) {
        let (n, cost) = (self.n, i128::from(self.cost));
        let score = i128::from(self.right) * ONE;
        tally.graded += n;
        grow(&mut tally.score_sum, score);
        grow(&mut tally.score_square_sum, score * ONE);
        tally.costed += n;
        grow(&mut tally.cost_sum, cost);
        grow(&mut tally.cost_square_sum, self.cost_square);
        tally.both += n;
        grow(&mut tally.both_cost_sum, cost);
        grow(&mut tally.both_cost_square_sum, self.cost_square);
        grow(&mut tally.both_score_sum, score);
        grow(&mut tally.both_score_square_sum, score * ONE);
        grow(&mut tally.both_cross_sum, i128::from(self.right_cost) * ONE);
    }
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
        tally.calls_sum += self.counts >> 16 & 0xffff;
        tally.calls_square_sum += self.counts >> 32 & 0xff_ffff;
        Sums {
            n,
            right: self.counts & 0xffff,
            cost: self.cost,
            right_cost: self.right_cost,
            cost_square: self.cost_square as i128,
        }
        .add_to(tally);
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

/// Pairs one contestant's outcomes with those of another on the same requests.
pub(super) fn add_pairs(pair: &mut PairTally, mine: &Column, theirs: &Column) {
    match (mine.is_plain, theirs.is_plain) {
        (true, true) => add_plain_pairs(pair, mine, theirs),
        (false, false) => add_outcome_pairs(pair, &mine.outcomes, &theirs.outcomes),
        (true, false) => add_outcome_pairs(pair, &mine.spelt_out(), &theirs.outcomes),
        (false, true) => add_outcome_pairs(pair, &mine.outcomes, &theirs.spelt_out()),
    }
}

fn add_plain_pairs(pair: &mut PairTally, mine: &Column, theirs: &Column) {
    let mut counts = [0; 4];
    let mut sum = 0i64;
    let mut squares = Squares::default();
    for (a, b) in mine.right.iter().zip(&theirs.right) {
        for (count, lanes) in counts.iter_mut().zip([!a & !b, !a & b, a & !b, a & b]) {
            *count += u64::from(lanes.count_ones());
        }
    }
    for (a, b) in mine
        .cost
        .as_flattened()
        .iter()
        .zip(theirs.cost.as_flattened())
    {
        // Ordinary costs fit a signed word, and a slice's sum of them does.
        let difference = *a as i64 - *b as i64;
        sum += difference;
        squares.add(difference.unsigned_abs());
    }
    add_cells(pair, counts);
    pair.costed += mine.cost.as_flattened().len() as u64;
    grow(&mut pair.cost_difference_sum, i128::from(sum));
    grow(&mut pair.cost_difference_square_sum, squares.sum());
}

/// Adds the outcomes of a contestant and of its baseline on the same requests.
fn add_outcome_pairs(pair: &mut PairTally, mine: &[Outcome], theirs: &[Outcome]) {
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
    add_cells(pair, counts);
    pair.costed += costed;
    grow(&mut pair.cost_difference_sum, sum);
    grow(&mut pair.cost_difference_square_sum, squares);
}

/// Adds pairs of right and wrong answers, by whether the first and the second are right.
fn add_cells(pair: &mut PairTally, [n00, n01, n10, n11]: [u64; 4]) {
    pair.n00 += n00;
    pair.n01 += n01;
    pair.n10 += n10;
    pair.n11 += n11;
    pair.graded += n00 + n01 + n10 + n11;
    grow(
        &mut pair.score_difference_sum,
        (i128::from(n10) - i128::from(n01)) * ONE,
    );
    grow(
        &mut pair.score_difference_square_sum,
        i128::from(n10 + n01) * ONE * ONE,
    );
}

/// Adds the outcomes of one contestant on some of a slice's requests: `members` has a bit for each, 64 to a word.
pub(super) fn add_some(tally: &mut SegmentTally, column: &Column, members: &[Lanes]) {
    if !column.is_plain {
        for i in each_of(members) {
            if let Some(known) = column.at(i) {
                tally.add(known.score, known.cost);
            }
        }
        return;
    }
    let (mut n, mut right) = (0, 0);
    let (mut cost, mut squares) = (0u64, Squares::default());
    for ((costs, is_right), mask) in column.cost.iter().zip(&column.right).zip(members) {
        n += u64::from(mask.count_ones());
        right += u64::from((mask & is_right).count_ones());
        for lane in lanes::each(*mask) {
            cost += costs[lane];
            squares.add(costs[lane]);
        }
    }
    let score = i128::from(right) * ONE;
    tally.requests += n;
    tally.graded += n;
    grow(&mut tally.score_sum, score);
    grow(&mut tally.score_square_sum, score * ONE);
    tally.costed += n;
    grow(&mut tally.cost_sum, i128::from(cost));
    grow(&mut tally.cost_square_sum, squares.sum());
}

/// Pairs the same requests of a contestant and of its baseline.
pub(super) fn add_some_pairs(
    pair: &mut PairTally,
    mine: &Column,
    theirs: &Column,
    members: &[Lanes],
) {
    if !(mine.is_plain && theirs.is_plain) {
        // Few slices come here, and each of their requests once.
        let outcome = |known: Known| {
            let grade = known.score.map_or(Score::MISSING, Score::from_bits);
            Outcome::new(known.cost.unwrap_or(COST_UNKNOWN), grade, NO_ROUTE, 0, 0)
        };
        for i in each_of(members) {
            if let (Some(a), Some(b)) = (mine.at(i), theirs.at(i)) {
                add_outcome_pairs(pair, &[outcome(a)], &[outcome(b)]);
            }
        }
        return;
    }
    let mut counts = [0; 4];
    let (mut costed, mut sum, mut squares) = (0, 0i64, Squares::default());
    let groups = mine.cost.iter().zip(&theirs.cost);
    let rights = mine.right.iter().zip(&theirs.right);
    for (((costs, others), (a, b)), mask) in groups.zip(rights).zip(members) {
        for (count, lanes) in counts.iter_mut().zip([!a & !b, !a & b, a & !b, a & b]) {
            *count += u64::from((lanes & mask).count_ones());
        }
        costed += u64::from(mask.count_ones());
        for lane in lanes::each(*mask) {
            let difference = costs[lane] as i64 - others[lane] as i64;
            sum += difference;
            squares.add(difference.unsigned_abs());
        }
    }
    add_cells(pair, counts);
    pair.costed += costed;
    grow(&mut pair.cost_difference_sum, i128::from(sum));
    grow(&mut pair.cost_difference_square_sum, squares.sum());
}

/// The places of the bits that are set.
fn each_of(members: &[Lanes]) -> impl Iterator<Item = usize> {
    let groups = members.iter().enumerate();
    groups.flat_map(|(group, mask)| lanes::each(*mask).map(move |lane| group * LANES + lane))
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
