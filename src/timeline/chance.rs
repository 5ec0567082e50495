//! What may go wrong with any attempt at any time.

use crate::router::FaultKind;
use crate::units::Probability;

/// How often attempts at a route fail for no reason that a script names: shared capacity that is gone,
/// filters, errors. (Rate limits come from the limits, not from here.)
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chances {
    /// Kinds and their shares of attempts; the shares add up to at most 1.
    pub fail: Vec<(FaultKind, Probability)>,
    /// Share of attempts that break off in the middle of the answer.
    pub cut: Probability,
}

impl Chances {
    /// These kinds with these shares, and the share that breaks off.
    #[must_use]
    pub const fn new(fail: Vec<(FaultKind, Probability)>, cut: Probability) -> Self {
        Self { fail, cut }
    }

    /// What happens to the attempt whose lane this is.
    #[must_use]
    #[inline(always)]
    pub fn fate(&self, lane: u32) -> Option<FaultKind> {
        if self.fail.is_empty() {
            return None;
        }
        let mut below = 0.0;
        for (kind, share) in &self.fail {
            below += share.get();
            if f64::from(lane) < below * 4_294_967_296.0 {
                return Some(*kind);
            }
        }
        None
    }
}
