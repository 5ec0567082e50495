//! How the quality of a route changes: the silent regression after a vendor's update.

use crate::router::RouteId;
use crate::units::{Instant, Probability, Score, mix64};

/// Splits the coins of drifts off a request's random word.
const DRIFT: u64 = 0x6472_6966_742e_3031;

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

impl Drift {
    /// The grade that an answer to a request that arrives at `at` has, if it would have had `grade`. The
    /// request's random word decides whether it is one of those that turn.
    #[must_use]
    #[inline]
    pub fn grade(&self, at: Instant, word: u64, grade: Score) -> Score {
        if at < self.from || self.until.is_some_and(|until| at >= until) {
            return grade;
        }
        let lane = mix64(word ^ DRIFT ^ u64::from(self.route.0)) >> 32;
        if grade == Score::RIGHT && lane < self.right_to_wrong.threshold() {
            Score::WRONG
        } else if grade == Score::WRONG && lane < self.wrong_to_right.threshold() {
            Score::RIGHT
        } else {
            grade
        }
    }
}
