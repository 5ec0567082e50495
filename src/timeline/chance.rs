//! What may go wrong with any attempt at any time.

use super::target::route;
use crate::catalogue::Catalogue;
use crate::router::FaultKind;
use crate::source::{At, Diagnostic, Table, Value, describe_list, nearest};
use crate::units::Probability;

/// How far above 1 shares may add up to by rounding.
const SLACK: f64 = 1e-9;

/// How often attempts at a route fail for no reason that a script names: shared capacity that is gone,
/// filters, errors. (Rate limits come from the limits, not from here.)
///
/// The coin is one of the attempt, so an attempt that is made again may go better, also where the
/// request is to blame, as with a content filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chances {
    /// Kinds and their shares of attempts, as declared.
    fail: Vec<(FaultKind, Probability)>,
    /// The same, added up: an attempt whose lane is below fails like this, if not like one before.
    below: Vec<(u64, FaultKind)>,
    /// Share of attempts that break off in the middle of the answer, as declared.
    cut: Probability,
    /// A lane below breaks off.
    cut_below: u64,
}

/// A provider on a normal day: the failures other than rate limits of [`Chances::normal_day`].
///
/// Reported: 2 % of the calls to models failed in March 2026, about 30 % of those because of rate limits
/// (Datadog, "State of AI Engineering", 2026, as several pages quote it). How the rest falls into
/// kinds is an assumption.
const NORMAL_DAY: [(FaultKind, f64); 7] = [
    (FaultKind::Overloaded, 0.004),
    (FaultKind::Server, 0.003),
    (FaultKind::Timeout, 0.004),
    (FaultKind::ContentFilter, 0.002),
    (FaultKind::ContextLength, 0.000_5),
    (FaultKind::Auth, 0.000_2),
    (FaultKind::InvalidRequest, 0.000_3),
];

impl Chances {
    /// Kinds of failure with their shares of attempts, and the share that breaks off of those that do not
    /// fail; `None` if the shares of the kinds add up to more than 1.
    #[must_use]
    pub fn new(fail: Vec<(FaultKind, Probability)>, cut: Probability) -> Option<Self> {
        let sum: f64 = fail.iter().map(|(_, share)| share.get()).sum();
        if sum > 1.0 + SLACK {
            return None;
        }
        let mut sum = 0.0;
        let below = fail
            .iter()
            .filter(|(_, share)| share.get() > 0.0)
            .map(|(kind, share)| {
                sum += share.get();
                let sum = Probability::new(sum).unwrap_or(Probability::ONE);
                (sum.threshold(), *kind)
            })
            .collect();
        Some(Self {
            fail,
            below,
            cut,
            cut_below: cut.threshold(),
        })
    }

    /// A hosted API on a day on which nothing special happens: 1.4 % of the attempts fail, without rate
    /// limits, which are another 0.6 % in the source (see the constant's comment).
    #[must_use]
    pub fn normal_day() -> Self {
        let fail = NORMAL_DAY
            .into_iter()
            .filter_map(|(kind, share)| Some((kind, Probability::new(share)?)))
            .collect();
        Self::new(fail, Probability::ZERO).unwrap_or_default()
    }

    /// Kinds and their shares of attempts, in the order in which they were declared.
    #[must_use]
    pub fn fail(&self) -> &[(FaultKind, Probability)] {
        &self.fail
    }

    /// Share of attempts that break off in the middle of the answer.
    #[must_use]
    pub const fn cut(&self) -> Probability {
        self.cut
    }

    /// What happens to the attempt whose lane this is.
    #[must_use]
    #[inline(always)]
    pub fn fate(&self, lane: u32) -> Option<FaultKind> {
        let lane = u64::from(lane);
        self.below
            .iter()
            .find(|(below, _)| lane < *below)
            .map(|(_, kind)| *kind)
    }

    /// Whether the answer whose lane this is breaks off in the middle.
    #[must_use]
    #[inline(always)]
    pub fn breaks_off(&self, lane: u32) -> bool {
        u64::from(lane) < self.cut_below
    }
}

/// Reads `[timeline.errors]`: shares for all routes, and tables `[timeline.errors.ROUTE]`, each of which
/// replaces the shares for all. By route of the catalogue.
pub(super) fn read(timeline: &mut Table<'_>, catalogue: &Catalogue) -> Vec<Chances> {
    let routes = catalogue.routes.len();
    let table = timeline.get("errors").and_then(|value| value.table());
    let Some(mut table) = table else {
        return vec![Chances::default(); routes];
    };
    // A table is a route, for no share is one; so a route may even be called `timeout`.
    let (own, shared): (Vec<_>, Vec<_>) = table
        .entries()
        .into_iter()
        .partition(|(_, value)| value.is_table());
    let all = chances(&table, shared, catalogue.names());
    let mut chances_by_route = vec![all.unwrap_or_default(); routes];
    for (name, value) in own {
        let found = match route(&name, catalogue) {
            Ok(found) => found,
            Err(complaint) => {
                value.report_diagnostic(*complaint);
                continue;
            }
        };
        let Some(mut table) = value.table() else {
            continue;
        };
        let entries = table.entries();
        if let Some(chances) = chances(&table, entries, std::iter::empty()) {
            chances_by_route[usize::from(found.0)] = chances;
        }
    }
    chances_by_route
}

/// Reads the entries of one table. `routes` may be meant by a key that nobody knows.
fn chances<'n>(
    table: &Table<'_>,
    entries: Vec<(At<String>, Value<'_>)>,
    routes: impl Iterator<Item = &'n str>,
) -> Option<Chances> {
    let mut fail: Vec<(FaultKind, Probability)> = Vec::new();
    let mut cut = Probability::ZERO;
    let mut sound = true;
    // First, wherever it stands: what is written beside it holds instead of its part.
    for (_, value) in entries.iter().filter(|(name, _)| name.value == "preset") {
        match value.one_of("preset", &["normal-day"]) {
            Some(_) => fail = Chances::normal_day().fail,
            None => sound = false,
        }
    }
    let known = FaultKind::ALL.map(FaultKind::name);
    let known: Vec<&str> = known
        .into_iter()
        .chain(["cut", "preset"])
        .chain(routes)
        .collect();
    for (name, value) in entries {
        if name.value == "preset" {
            continue;
        }
        let kind = FaultKind::from_name(&name.value);
        if kind.is_none() && name.value != "cut" {
            let help = match nearest(&name.value, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys here: {}", describe_list(known.iter().copied())),
            };
            let message = format!("unknown key `{}` in `[{}]`", name.value, table.path());
            value.report_diagnostic(Diagnostic::error(message).at(name.location).help(help));
            sound = false;
            continue;
        }
        let Some(share) = value.probability() else {
            sound = false;
            continue;
        };
        let Some(kind) = kind else {
            cut = share;
            continue;
        };
        if kind == FaultKind::RateLimit {
            value.report_diagnostic(
                Diagnostic::warning("rate limits that are drawn do not depend on the load")
                    .at(name.location)
                    .help("`[timeline.limit.NAME]` refuses what exceeds a limit"),
            );
        }
        match fail.iter_mut().find(|(known, _)| *known == kind) {
            Some(part) => part.1 = share,
            None => fail.push((kind, share)),
        }
    }
    if !sound {
        return None;
    }
    let sum: f64 = fail.iter().map(|(_, share)| share.get()).sum();
    let chances = Chances::new(fail, cut);
    if chances.is_none() {
        table.error(format!(
            "the shares in `[{}]` add up to {sum}, more than 1",
            table.path()
        ));
    }
    chances
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(value: f64) -> Probability {
        Probability::new(value).unwrap()
    }

    #[test]
    fn shares_are_hit_to_within_two_lanes() {
        let chances = Chances::new(
            vec![
                (FaultKind::Server, share(0.25)),
                (FaultKind::Auth, share(0.0)),
                (FaultKind::Timeout, share(0.125)),
            ],
            share(0.5),
        )
        .unwrap();
        let at = |share: f64| (share * 4_294_967_296.0) as u32;
        assert_eq!(chances.fate(0), Some(FaultKind::Server));
        assert_eq!(chances.fate(at(0.25) - 1), Some(FaultKind::Server));
        assert_eq!(chances.fate(at(0.25)), Some(FaultKind::Timeout));
        assert_eq!(chances.fate(at(0.375) - 1), Some(FaultKind::Timeout));
        assert_eq!(chances.fate(at(0.375)), None);
        assert_eq!(chances.fate(u32::MAX), None);
        assert!(chances.breaks_off(at(0.5) - 1) && !chances.breaks_off(at(0.5)));
    }

    #[test]
    fn shares_that_add_up_to_one_leave_nothing_over() {
        let kinds = FaultKind::ALL.map(|kind| (kind, share(0.1)));
        let chances = Chances::new(kinds.to_vec(), Probability::ZERO).unwrap();
        assert!(chances.fate(u32::MAX).is_some());
        let more = [kinds.to_vec(), vec![(FaultKind::Server, share(0.01))]].concat();
        assert_eq!(Chances::new(more, Probability::ZERO), None);
    }

    #[test]
    fn by_default_nothing_happens() {
        let chances = Chances::default();
        assert_eq!(chances.fate(0), None);
        assert!(!chances.breaks_off(0));
    }

    proptest! {
        #[test]
        fn every_kind_gets_its_share_of_the_lanes(shares in prop::collection::vec(0.0..0.1_f64, 10)) {
            let fail: Vec<_> = FaultKind::ALL.into_iter().zip(shares.iter().map(|&s| share(s))).collect();
            let chances = Chances::new(fail, Probability::ZERO).unwrap();
            let mut before = 0;
            for (below, kind) in &chances.below {
                let declared = shares[*kind as usize] * 4_294_967_296.0;
                prop_assert!(((below - before) as f64 - declared).abs() <= 1.0 + 1e-3);
                prop_assert_eq!(chances.fate((below - 1) as u32), Some(*kind));
                before = *below;
            }
        }
    }
}
