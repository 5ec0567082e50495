//! How the quality of a route changes: the silent regression after a vendor's update.

use crate::router::RouteId;
use crate::units::{Instant, Probability};

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
