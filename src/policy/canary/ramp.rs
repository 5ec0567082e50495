//! A ramp at work: which draws are in the slice now, and what a grade changes.
//!
//! The state is a function of the grades in their order. Draws are no part of it: a unit (a user, say) has
//! one draw for good. The slice is the low end of the draws and the control the high end, so whoever is
//! in either at some step is in it at every later one, and nobody is ever in both.
//!
//! Rules, each held by a test below:
//! - A step is left upward once `min_graded` answers drawn at this step are graded and no test has said
//!   "abort". Below that it pauses for as long as it takes; nothing else moves it.
//! - Each step has tests of its own, from its own answers. A test that accepts the candidate is done and
//!   says no more in this step; one that is still undecided when `min_graded` is reached does not hold
//!   the step up.
//! - An abort is for good: the slice is empty from then on.
//! - An answer that is neither right nor wrong (no grade, partial credit) moves nothing. It is counted apart.
//! - A grade that arrives when its step is over counts in the totals and moves nothing.

use std::sync::Arc;

use crate::policy::rollout::{AbortRule, Rollout, RolloutEnd, SliceCount};
use crate::stats::{Sprt, SprtState, Verdict};
use crate::units::Score;

/// One more than the largest draw.
const DRAWS: u64 = 1 << 32;

/// One step of a ramp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// Share of the units in the slice, and as many in the control.
    pub(super) weight: f64,
    /// A draw below this is in the slice.
    pub(super) below: u64,
    /// Graded answers after which the step may be left.
    pub(super) min_graded: u64,
}

/// What a policy file says about a ramp.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ramp {
    /// At least one, weights rising.
    pub(super) steps: Vec<Step>,
    /// Whether as many units as the slice has stay with the base and are graded, too.
    pub(super) control: bool,
    /// Whether everybody gets the candidate after the last step; else its slice stays as it is.
    pub(super) promotes: bool,
    /// On wrong answers among the slice's.
    pub(super) sprt: Option<Sprt>,
    /// On the slice's among the wrong answers of slice and control.
    pub(super) against_control: Option<Sprt>,
}

/// Where a request stands in a ramp, and at which step it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// Answered by the candidate.
    Slice(usize),
    /// Answered by the base, and compared with the slice.
    Control(usize),
    /// Answered by the base.
    Outside,
}

/// A ramp and how far it has come.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    ramp: Arc<Ramp>,
    step: usize,
    end: RolloutEnd,
    /// Of the slice, at this step.
    graded: u64,
    sprt: Option<SprtState>,
    against_control: Option<SprtState>,
    slice: SliceCount,
    control: SliceCount,
}

impl Progress {
    /// Before the first request.
    pub(super) fn new(ramp: Arc<Ramp>) -> Self {
        Self {
            step: 0,
            end: RolloutEnd::Paused,
            graded: 0,
            sprt: ramp.sprt.map(SprtState::new),
            against_control: ramp.against_control.map(SprtState::new),
            slice: SliceCount::default(),
            control: SliceCount::default(),
            ramp,
        }
    }

    /// The seat of a 32-bit draw now.
    pub(super) fn seat(&self, draw: u32) -> Seat {
        let below = self.ramp.steps[self.step].below;
        let (slice, control) = match self.end {
            RolloutEnd::Paused => (below, self.ramp.control),
            // The ramp is over: there is nothing left to compare.
            RolloutEnd::Promoted { .. } if self.ramp.promotes => (DRAWS, false),
            RolloutEnd::Promoted { .. } => (below, false),
            RolloutEnd::RolledBack { .. } => (0, false),
        };
        let draw = u64::from(draw);
        if draw < slice {
            Seat::Slice(self.step)
        } else if control && draw >= DRAWS - below {
            Seat::Control(self.step)
        } else {
            Seat::Outside
        }
    }

    /// The answer to the request in this seat was graded, or turned out to have no grade.
    pub(super) fn note(&mut self, seat: Seat, grade: Option<Score>, request: u64) {
        if self.end != RolloutEnd::Paused {
            return;
        }
        let wrong = grade
            .filter(|grade| grade.is_binary())
            .map(|grade| grade == Score::WRONG);
        let (step, of_slice) = match seat {
            Seat::Slice(step) => (step, true),
            Seat::Control(step) => (step, false),
            Seat::Outside => return,
        };
        if of_slice {
            self.slice.note(wrong);
        } else {
            self.control.note(wrong);
        }
        let (Some(wrong), true) = (wrong, step == self.step) else {
            return;
        };
        self.graded += u64::from(of_slice);
        if let Some(by) = self.abort(of_slice, wrong) {
            self.end = RolloutEnd::RolledBack { request, by };
        } else if self.graded >= self.ramp.steps[self.step].min_graded {
            self.leave(request);
        }
    }

    /// The test that says "abort" at this answer, if one does.
    fn abort(&mut self, of_slice: bool, wrong: bool) -> Option<AbortRule> {
        if of_slice
            && let Some(sprt) = &mut self.sprt
            && sprt.observe(wrong) == Verdict::AcceptH1
        {
            return Some(AbortRule::Sprt);
        }
        // Given that an answer of slice or control is wrong, it is the slice's with one chance for equal
        // error rates and with another for unequal ones: right answers say nothing more.
        if wrong
            && let Some(test) = &mut self.against_control
            && test.observe(of_slice) == Verdict::AcceptH1
        {
            return Some(AbortRule::Control);
        }
        None
    }

    fn leave(&mut self, request: u64) {
        if self.step + 1 == self.ramp.steps.len() {
            self.end = RolloutEnd::Promoted { request };
            return;
        }
        self.step += 1;
        self.graded = 0;
        self.sprt = self.ramp.sprt.map(SprtState::new);
        self.against_control = self.ramp.against_control.map(SprtState::new);
    }

    /// Where it stands.
    pub(super) fn rollout(&self) -> Rollout {
        Rollout {
            end: self.end,
            step: self.step,
            steps: self.ramp.steps.len(),
            graded_at_step: self.graded,
            slice: self.slice,
            control: self.ramp.control.then_some(self.control),
        }
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.ramp.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(weight: f64, min_graded: u64) -> Step {
        Step {
            weight,
            below: crate::units::Probability::new(weight).unwrap().threshold(),
            min_graded,
        }
    }

    fn ramp(steps: Vec<Step>) -> Ramp {
        Ramp {
            steps,
            control: true,
            promotes: false,
            sprt: Sprt::new(0.05, 0.10, 0.05, 0.10),
            against_control: Sprt::new(0.5, 2.0 / 3.0, 0.05, 0.10),
        }
    }

    fn three() -> Vec<Step> {
        vec![step(0.01, 3), step(0.05, 5), step(0.25, 4)]
    }

    /// What is noted, drawn by proptest: whose answer, of which step, with which grade.
    fn notes() -> impl Strategy<Value = Vec<(Seat, Option<Score>)>> {
        let seat = prop_oneof![
            4 => (0usize..3).prop_map(Seat::Slice),
            2 => (0usize..3).prop_map(Seat::Control),
            1 => Just(Seat::Outside),
        ];
        let grade = prop_oneof![
            6 => Just(Some(Score::RIGHT)),
            2 => Just(Some(Score::WRONG)),
            1 => Just(None),
            1 => Just(Score::from_fraction(0.5)),
        ];
        prop::collection::vec((seat, grade), 0..200)
    }

    fn is_graded(grade: Option<Score>) -> bool {
        grade.is_some_and(Score::is_binary)
    }

    proptest! {
        /// Whatever comes in whatever order: a step is never left upward with fewer than `min_graded`
        /// graded answers of its own slice, never by anything else, and nothing comes after the end.
        #[test]
        fn a_step_is_left_only_by_enough_graded_answers_of_its_own(
            notes in notes(), mins in prop::array::uniform3(1u64..30), tested in any::<bool>(),
        ) {
            let mut steps = three();
            for (step, min) in steps.iter_mut().zip(mins) {
                step.min_graded = min;
            }
            let mut ramp = ramp(steps);
            if !tested {
                ramp.sprt = None;
                ramp.against_control = None;
            }
            let mut progress = Progress::new(Arc::new(ramp));
            let mut graded = [0u64; 3];
            for (request, (seat, grade)) in notes.into_iter().enumerate() {
                let before = progress.rollout();
                progress.note(seat, grade, request as u64);
                let after = progress.rollout();
                if before.end != RolloutEnd::Paused {
                    prop_assert_eq!(before, after);
                    continue;
                }
                if seat == Seat::Slice(before.step) && is_graded(grade) {
                    graded[before.step] += 1;
                }
                let promoted = matches!(after.end, RolloutEnd::Promoted { .. });
                let left = after.step > before.step || promoted;
                let rolled_back = matches!(after.end, RolloutEnd::RolledBack { .. });
                prop_assert_eq!(left, graded[before.step] >= mins[before.step] && !rolled_back);
                prop_assert!(after.step <= before.step + 1);
                prop_assert!(tested || !rolled_back);
                prop_assert!(!promoted || after.step == 2);
            }
        }

        /// Whoever is in the slice or the control stays there while weights rise, and nobody is in both.
        #[test]
        fn slices_are_nested_and_the_control_is_apart(draw in any::<u32>(), last in 0.06f64..=0.5) {
            let mut steps = three();
            steps[2] = step(last, 4);
            let mut progress = Progress::new(Arc::new(ramp(steps)));
            let mut was = Seat::Outside;
            for at in 0..3 {
                let seat = progress.seat(draw);
                match was {
                    Seat::Slice(_) => prop_assert_eq!(seat, Seat::Slice(at)),
                    Seat::Control(_) => prop_assert_eq!(seat, Seat::Control(at)),
                    Seat::Outside => {}
                }
                // The control is the slice seen from the other end of the draws.
                let mirrored = progress.seat(!draw);
                prop_assert_eq!(seat == Seat::Slice(at), mirrored == Seat::Control(at));
                was = seat;
                for _ in 0..progress.steps()[at].min_graded {
                    progress.note(Seat::Slice(at), Some(Score::RIGHT), 0);
                }
            }
            let promoted = matches!(progress.rollout().end, RolloutEnd::Promoted { .. });
            prop_assert!(promoted);
            prop_assert_eq!(progress.seat(draw) == Seat::Slice(2), matches!(was, Seat::Slice(_)));
        }

        /// The tests are those of `stats`: a lone SPRT withdraws at the same answer as its own state does.
        #[test]
        fn the_first_answer_that_tips_the_test_withdraws(wrong in prop::collection::vec(any::<bool>(), 1..60)) {
            let sprt = Sprt::new(0.05, 0.30, 0.05, 0.10).unwrap();
            let ramp = Ramp { sprt: Some(sprt), against_control: None, ..ramp(vec![step(0.1, 1_000)]) };
            let mut progress = Progress::new(Arc::new(ramp));
            let mut state = SprtState::new(sprt);
            let mut tipped = None;
            for (request, wrong) in wrong.into_iter().enumerate() {
                progress.note(Seat::Slice(0), Some(Score::from_right(!wrong)), request as u64);
                if state.observe(wrong) == Verdict::AcceptH1 && tipped.is_none() {
                    tipped = Some(request as u64);
                }
            }
            let end = progress.rollout().end;
            let expected = tipped.map_or(RolloutEnd::Paused, |request| RolloutEnd::RolledBack { request, by: AbortRule::Sprt });
            prop_assert_eq!(end, expected);
        }
    }

    #[test]
    fn a_withdrawn_candidate_serves_nobody_ever_again() {
        let mut progress = Progress::new(Arc::new(ramp(vec![step(0.3, 10), step(0.5, 10)])));
        for request in 0..10 {
            progress.note(Seat::Slice(0), Some(Score::WRONG), request);
        }
        // 5 = ⌈ln((1 − β)/α)/ln(p1/p0)⌉ wrong answers in a row.
        let by = AbortRule::Sprt;
        let end = progress.rollout().end;
        assert_eq!(end, RolloutEnd::RolledBack { request: 4, by });
        for draw in [0, 1, u32::MAX / 2, u32::MAX] {
            assert_eq!(progress.seat(draw), Seat::Outside);
        }
    }

    #[test]
    fn answers_without_a_grade_are_counted_apart_and_move_nothing() {
        let mut progress = Progress::new(Arc::new(ramp(three())));
        for request in 0..50 {
            progress.note(Seat::Slice(0), None, request);
            progress.note(Seat::Slice(0), Score::from_fraction(0.5), request);
        }
        let rollout = progress.rollout();
        assert_eq!((rollout.end, rollout.step), (RolloutEnd::Paused, 0));
        assert_eq!(
            rollout.slice,
            SliceCount {
                graded: 0,
                wrong: 0,
                ungraded: 100
            }
        );
    }

    #[test]
    fn a_candidate_worse_than_its_control_is_withdrawn_and_an_equal_one_is_not() {
        let only_control = |promotes| Ramp {
            sprt: None,
            promotes,
            ..ramp(vec![step(0.5, 100)])
        };
        let mut worse = Progress::new(Arc::new(only_control(false)));
        let mut equal = Progress::new(Arc::new(only_control(true)));
        for request in 0..100 {
            worse.note(Seat::Slice(0), Some(Score::WRONG), request);
            for seat in [Seat::Control(0), Seat::Slice(0)] {
                equal.note(seat, Some(Score::WRONG), request);
            }
        }
        // 11 = ⌈ln((1 − β)/α)/ln((2/3)/(1/2))⌉ wrong answers in a row, all of the slice.
        let worse = worse.rollout();
        let by = AbortRule::Control;
        assert_eq!(worse.end, RolloutEnd::RolledBack { request: 10, by });
        assert_eq!((worse.slice.wrong, worse.extra_wrong()), (11, Some(11)));
        let rollout = equal.rollout();
        assert_eq!(rollout.end, RolloutEnd::Promoted { request: 99 });
        assert_eq!(rollout.extra_wrong(), Some(0));
        // And `then = "promote"` gives it to everybody.
        assert_eq!(equal.seat(u32::MAX), Seat::Slice(0));
    }

    #[test]
    fn a_late_grade_of_an_earlier_step_moves_nothing() {
        let mut progress = Progress::new(Arc::new(ramp(three())));
        for request in 0..3 {
            progress.note(Seat::Slice(0), Some(Score::RIGHT), request);
        }
        for request in 3..50 {
            progress.note(Seat::Slice(0), Some(Score::RIGHT), request);
        }
        let rollout = progress.rollout();
        assert_eq!((rollout.step, rollout.graded_at_step), (1, 0));
        assert_eq!(rollout.slice.graded, 50);
    }
}
