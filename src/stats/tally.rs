//! Integer sums over the requests of one experiment cell.

use super::rule::Counts;

/// Why nobody answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unserved {
    /// Some route could have, but the data may not go there.
    RefusedByResidency = 0,
    /// No allowed route has the window or the tools.
    NoCapableRoute = 1,
    /// Routes were tried (or were unavailable) and none answered.
    Failed = 2,
}

/// What one policy did with the requests of one cell. Scores are millionths, money is 10⁻¹² USD.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Requests seen.
    pub requests: u64,
    /// Requests whose outcome has a grade (an unserved request is graded wrong).
    pub graded: u64,
    /// Graded requests whose score is neither 0 nor 1.
    pub fractional: u64,
    /// Σ score.
    pub score_sum: i128,
    /// Σ score².
    pub score_square_sum: i128,
    /// Served requests whose answer nobody graded.
    pub missing: u64,
    /// Requests on which a verifier met an ungraded answer: no grade, no cost.
    pub undetermined: u64,
    /// Unserved requests by reason, indexed by [`Unserved`].
    pub unserved: [u64; 3],
    /// Σ calls made for the caller (mirrors are apart).
    pub calls_sum: u64,
    /// Σ calls².
    pub calls_square_sum: u64,
    /// Requests whose cost is known.
    pub costed: u64,
    /// Σ cost.
    pub cost_sum: i128,
    /// Σ cost².
    pub cost_square_sum: i128,
    /// Requests with both cost and grade known, and the sums over just these.
    pub both: u64,
    /// Σ cost where both are known.
    pub both_cost_sum: i128,
    /// Σ cost² where both are known.
    pub both_cost_square_sum: i128,
    /// Σ score where both are known.
    pub both_score_sum: i128,
    /// Σ score² where both are known.
    pub both_score_square_sum: i128,
    /// Σ cost × score where both are known.
    pub both_cross_sum: i128,
    /// Final answers per route, indexed by route id.
    pub final_count: Vec<u64>,
    /// Answers served although the last verdict on them was a rejection.
    pub unverified: u64,
    /// Requests that were passed on after a verifier's rejection at least once.
    pub escalated: u64,
    /// Answers a verifier looked at that were entirely right, and how many of them it accepted.
    pub verified_right: u64,
    /// See [`Tally::verified_right`].
    pub accepted_right: u64,
    /// Answers a verifier looked at that were entirely wrong, and how many of them it accepted.
    pub verified_wrong: u64,
    /// See [`Tally::verified_wrong`].
    pub accepted_wrong: u64,
    /// Requests on which a verifier could not look at an answer.
    pub unavailable: u64,
    /// Σ calls of judges; they are part of `calls_sum`.
    pub judge_calls_sum: u64,
    /// Σ (a request's calls of judges)².
    pub judge_calls_square_sum: u64,
    /// Σ cost of a request's judges, where it is known; it is part of its cost.
    pub judge_cost_sum: i128,
    /// Σ (cost of a request's judges)².
    pub judge_cost_square_sum: i128,
    /// Requests on which a judge was asked whose cost is not known.
    pub judge_unpriced: u64,
    /// Requests of unknown prompt length: they passed the window filter unchecked.
    pub unknown_need: u64,
    /// Mirrored calls.
    pub mirror_calls: u64,
    /// Requests whose mirroring cost is known (a request without a mirror costs zero).
    pub mirror_costed: u64,
    /// Σ cost of mirrors.
    pub mirror_cost_sum: i128,
    /// Σ (cost of a request's mirrors)².
    pub mirror_cost_square_sum: i128,
    /// Requests of which the candidate was asked for an answer that nobody saw. A copy that was kept back
    /// (residency, no capable route) is none.
    pub mirrored: u64,
    /// Of these, requests on which what was served or the copy has a grade between right and wrong.
    pub mirror_fractional: u64,
    /// Mirrored requests that the candidate and what was served both got right. Together with `m10`,
    /// `m01` and `m00` they are the mirrored pairs that are graded; see [`Tally::mirror_pairs`].
    pub m11: u64,
    /// Candidate right, served answer wrong.
    pub m10: u64,
    /// Candidate wrong (or without an answer, when it was asked), served answer right.
    pub m01: u64,
    /// Both wrong.
    pub m00: u64,
}

/// What one policy did with a part of the requests, as far as a verdict about it looks: the fields of a
/// [`Tally`] of the same names.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SegmentTally {
    /// Requests seen.
    pub requests: u64,
    /// Requests whose outcome has a grade.
    pub graded: u64,
    /// Graded requests whose score is neither 0 nor 1.
    pub fractional: u64,
    /// Σ score, in millionths.
    pub score_sum: i128,
    /// Σ score².
    pub score_square_sum: i128,
    /// Requests whose cost is known.
    pub costed: u64,
    /// Σ cost, in 10⁻¹² USD.
    pub cost_sum: i128,
    /// Σ cost².
    pub cost_square_sum: i128,
}

/// Two policies on the same requests. `first` is the policy, `second` the baseline.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PairTally {
    /// Requests graded for both.
    pub graded: u64,
    /// Of these, requests where a score is neither 0 nor 1.
    pub fractional: u64,
    /// Both right (only requests where both scores are 0 or 1 enter the four counts).
    pub n11: u64,
    /// First right, second wrong.
    pub n10: u64,
    /// First wrong, second right.
    pub n01: u64,
    /// Both wrong.
    pub n00: u64,
    /// Σ (first score − second score).
    pub score_difference_sum: i128,
    /// Σ (first score − second score)².
    pub score_difference_square_sum: i128,
    /// Requests whose cost is known for both.
    pub costed: u64,
    /// Σ (first cost − second cost).
    pub cost_difference_sum: i128,
    /// Σ (first cost − second cost)².
    pub cost_difference_square_sum: i128,
}

/// Adds the named fields of `$from` to those of `$into`, saturating. The pattern names every field, so
/// a field added to the type but not to its merge does not compile.
macro_rules! add_fields {
    ($into:ident, $from:ident, $kind:ident { $($field:ident),+ $(,)? } apart from { $($apart:ident),* }) => {
        let $kind { $($field,)+ $($apart: _,)* } = $from;
        $($into.$field = $into.$field.saturating_add(*$field);)+
    };
}

impl Tally {
    /// Adds `other`'s requests to these.
    ///
    /// The result does not depend on the order of merging, not even at the limits: only sums of terms
    /// that are never negative can reach the end of their type (an i128 holds 10²⁰ requests of the
    /// dearest kind, but squares of costs above a million dollars do not fit for long), and such a sum
    /// stays at its maximum, which the interval functions read as "no variance known".
    pub fn merge(&mut self, other: &Self) {
        add_fields!(self, other, Tally {
            requests, graded, fractional, score_sum, score_square_sum, missing, undetermined,
            calls_sum, calls_square_sum, costed, cost_sum, cost_square_sum,
            both, both_cost_sum, both_cost_square_sum, both_score_sum, both_score_square_sum,
            both_cross_sum, unverified, escalated, verified_right, accepted_right,
            verified_wrong, accepted_wrong, unavailable, judge_calls_sum, judge_calls_square_sum,
            judge_cost_sum, judge_cost_square_sum, judge_unpriced, unknown_need,
            mirror_calls, mirror_costed, mirror_cost_sum, mirror_cost_square_sum,
            mirrored, mirror_fractional, m11, m10, m01, m00,
        } apart from { unserved, final_count });
        for (mine, theirs) in self.unserved.iter_mut().zip(other.unserved) {
            *mine = mine.saturating_add(theirs);
        }
        if self.final_count.len() < other.final_count.len() {
            self.final_count.resize(other.final_count.len(), 0);
        }
        for (mine, theirs) in self.final_count.iter_mut().zip(&other.final_count) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// All tallies in one.
    #[must_use]
    pub fn total<'a>(tallies: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut total = Self::default();
        for tally in tallies {
            total.merge(tally);
        }
        total
    }

    /// Requests whose course is known: all but those on which a verifier met an ungraded answer.
    #[must_use]
    pub fn determined(&self) -> u64 {
        self.requests.saturating_sub(self.undetermined)
    }

    /// The paired table of a shadow: the candidate's answers to the mirrored requests against what was
    /// served, where both are right or wrong. What a rule decides about promotion.
    #[must_use]
    pub fn mirror_pairs(&self) -> Counts {
        Counts {
            n11: self.m11,
            n10: self.m10,
            n01: self.m01,
            n00: self.m00,
        }
    }

    /// Mirrored requests that are pairs of right and wrong answers.
    #[must_use]
    pub fn mirror_graded(&self) -> u64 {
        [self.m11, self.m10, self.m01, self.m00]
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Requests nobody answered, whatever the reason.
    #[must_use]
    pub fn unserved_total(&self) -> u64 {
        self.unserved
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }
}

impl SegmentTally {
    /// Adds one request: its score in millionths and its cost in 10⁻¹² USD, as far as they are known.
    pub fn add(&mut self, score: Option<u32>, cost: Option<u64>) {
        self.requests = self.requests.saturating_add(1);
        if let Some(score) = score {
            let score = i128::from(score);
            self.graded = self.graded.saturating_add(1);
            self.fractional = self
                .fractional
                .saturating_add(u64::from(score != 0 && score != 1_000_000));
            self.score_sum = self.score_sum.saturating_add(score);
            self.score_square_sum = self.score_square_sum.saturating_add(score * score);
        }
        if let Some(cost) = cost {
            // As everywhere: one request never costs 9 million dollars, so clip at 2⁶³ before squaring.
            let clipped = i128::from(cost.min(i64::MAX as u64));
            self.costed = self.costed.saturating_add(1);
            self.cost_sum = self.cost_sum.saturating_add(i128::from(cost));
            self.cost_square_sum = self.cost_square_sum.saturating_add(clipped * clipped);
        }
    }

    /// Adds `other`'s requests to these; the order of merging does not matter (see [`Tally::merge`]).
    pub fn merge(&mut self, other: &Self) {
        add_fields!(self, other, SegmentTally {
            requests, graded, fractional, score_sum, score_square_sum,
            costed, cost_sum, cost_square_sum,
        } apart from {});
    }

    /// A tally with these fields. What a segment does not count is zero in it, which says nothing: read
    /// accuracy and cost from it, and nothing else.
    #[must_use]
    pub fn to_tally(&self) -> Tally {
        Tally {
            requests: self.requests,
            graded: self.graded,
            fractional: self.fractional,
            score_sum: self.score_sum,
            score_square_sum: self.score_square_sum,
            costed: self.costed,
            cost_sum: self.cost_sum,
            cost_square_sum: self.cost_square_sum,
            ..Tally::default()
        }
    }
}

impl PairTally {
    /// Adds `other`'s pairs to these; the order of merging does not matter (see [`Tally::merge`]).
    pub fn merge(&mut self, other: &Self) {
        add_fields!(self, other, PairTally {
            graded, fractional, n11, n10, n01, n00,
            score_difference_sum, score_difference_square_sum,
            costed, cost_difference_sum, cost_difference_square_sum,
        } apart from {});
    }

    /// All tallies in one.
    #[must_use]
    pub fn total<'a>(tallies: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut total = Self::default();
        for tally in tallies {
            total.merge(tally);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tally with a different number in every field, derived from `seed`.
    fn tally(seed: u64, routes: usize) -> Tally {
        let at = |k: u64| {
            seed.wrapping_mul(6_364_136_223_846_793_005)
                .rotate_left(k as u32)
                >> 40
        };
        Tally {
            requests: at(1),
            graded: at(2),
            fractional: at(3),
            score_sum: at(4).into(),
            score_square_sum: at(5).into(),
            missing: at(6),
            undetermined: at(7),
            unserved: [at(8), at(9), at(10)],
            calls_sum: at(11),
            calls_square_sum: at(12),
            costed: at(13),
            cost_sum: at(14).into(),
            cost_square_sum: i128::from(at(15)) << 103,
            both: at(16),
            both_cost_sum: at(17).into(),
            both_cost_square_sum: at(18).into(),
            both_score_sum: at(19).into(),
            both_score_square_sum: at(20).into(),
            both_cross_sum: at(21).into(),
            final_count: (0..routes as u64).map(|r| at(22 + r)).collect(),
            unverified: at(31),
            escalated: at(32),
            verified_right: at(33),
            accepted_right: at(34),
            verified_wrong: at(35),
            accepted_wrong: at(36),
            unavailable: at(43),
            judge_calls_sum: at(44),
            judge_calls_square_sum: at(45),
            judge_cost_sum: at(52).into(),
            judge_cost_square_sum: at(53).into(),
            judge_unpriced: at(54),
            unknown_need: at(37),
            mirror_calls: at(38),
            mirror_costed: at(39),
            mirror_cost_sum: at(41).into(),
            mirror_cost_square_sum: at(42).into(),
            mirrored: at(46),
            mirror_fractional: at(47),
            m11: at(48),
            m10: at(49),
            m01: at(50),
            m00: at(51),
        }
    }

    proptest! {
        #[test]
        fn merging_does_not_depend_on_order_or_grouping(
            seeds in prop::collection::vec((any::<u64>(), 0_usize..5), 1..8), cut in 0_usize..8,
        ) {
            let all: Vec<Tally> = seeds.iter().map(|&(seed, routes)| tally(seed, routes)).collect();
            let forward = Tally::total(&all);
            prop_assert_eq!(&forward, &Tally::total(all.iter().rev()));
            let cut = cut.min(all.len());
            let halves = [Tally::total(&all[..cut]), Tally::total(&all[cut..])];
            prop_assert_eq!(&forward, &Tally::total(&halves));
            prop_assert_eq!(forward.requests, all.iter().map(|t| t.requests).sum::<u64>());
            prop_assert_eq!(forward.unserved[2], all.iter().map(|t| t.unserved[2]).sum::<u64>());
        }
    }

    #[test]
    fn a_sum_of_squares_stays_at_its_maximum() {
        let dear = Tally {
            cost_square_sum: i128::MAX - 1,
            ..Tally::default()
        };
        let total = Tally::total([&dear, &dear]);
        assert_eq!(total.cost_square_sum, i128::MAX);
        assert_eq!(Tally::total([&total, &dear]).cost_square_sum, i128::MAX);
    }

    #[test]
    fn pairs_add_up_with_their_signs() {
        let one = PairTally {
            n10: 3,
            n01: 5,
            graded: 9,
            cost_difference_sum: -7,
            ..PairTally::default()
        };
        let two = PairTally {
            n10: 1,
            n01: 2,
            graded: 4,
            cost_difference_sum: 10,
            ..PairTally::default()
        };
        let total = PairTally::total([&one, &two]);
        assert_eq!(
            (
                total.n10,
                total.n01,
                total.graded,
                total.cost_difference_sum
            ),
            (4, 7, 13, 3)
        );
    }
}
