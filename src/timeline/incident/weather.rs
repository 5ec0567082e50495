//! All incidents of one run, asked in the order of time.

use super::{Effect, Incident};
use crate::router::RouteId;
use crate::timeline::Outages;
use crate::units::{Duration, Instant, mix64, name_key};
use crate::workload::DrawKey;

/// Most incidents of one run, drawn ones included: they are told apart by 16 bits.
pub const INCIDENTS_MAX: usize = 65_535;

/// What is wrong with a route at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions<'a> {
    /// Effects of the incidents that last, each with its index in the list of all, by rising index.
    pub active: &'a [(u16, Effect)],
    /// By incident: what its coins are tossed by. Of a scripted one its place in the script, of a drawn one a
    /// number of its process's name and its own number there, so that nothing else moves them.
    pub coins: &'a [u64],
}

/// The incidents of one run, asked in the order of time. An answer costs a comparison, but for the
/// moments at which something begins or ends.
#[derive(Clone, Debug)]
pub struct Weather {
    incidents: Vec<Incident>,
    coins: Vec<u64>,
    tracks: Vec<Track>,
    complete_until: Instant,
}

/// One route's way through the incidents.
#[derive(Clone, Debug)]
struct Track {
    /// When what lasts changes next.
    change: Instant,
    /// What lasts.
    active: Vec<(u16, Effect)>,
    /// The route's incidents by their beginning,
    order: Vec<u16>,
    /// of which this is the first that has not begun.
    next: usize,
}

impl Weather {
    /// Scripted incidents, and those that `outages` come to under `key` before `horizon`.
    ///
    /// At most [`INCIDENTS_MAX`] are kept: of scripted ones the first, then of drawn ones the earliest;
    /// see [`Weather::complete_until`].
    #[must_use]
    pub fn open(
        incidents: &[Incident],
        outages: &[Outages],
        routes: usize,
        key: DrawKey,
        horizon: Duration,
    ) -> Self {
        let mut all: Vec<Incident> = incidents.iter().take(INCIDENTS_MAX).cloned().collect();
        let mut drawn = Vec::new();
        for (index, outage) in outages.iter().enumerate() {
            // One more than there is room for, to see that there is none.
            let found = outage.spells(key, horizon).take(INCIDENTS_MAX + 1);
            let name = name_key(&outage.name);
            let numbered = found.zip(0u64..);
            drawn.extend(numbered.map(|(spell, n)| (index, spell, mix64(name ^ n))));
        }
        drawn.sort_by_key(|(index, spell, _)| (spell.from, *index));
        let room = INCIDENTS_MAX - all.len();
        let complete_until = drawn
            .get(room)
            .map_or(Instant(u64::MAX), |(_, spell, _)| spell.from);
        drawn.truncate(room);
        // Those of one process stay together, as scripted incidents stay in the order of the file.
        drawn.sort_by_key(|(index, ..)| *index);
        let mut coins: Vec<u64> = (0..all.len() as u64).collect();
        coins.extend(drawn.iter().map(|(.., coin)| *coin));
        all.extend(drawn.iter().map(|(index, spell, _)| Incident {
            name: outages[*index].name.clone(),
            routes: outages[*index].routes.clone(),
            from: spell.from,
            until: spell.until,
            effect: spell.effect,
        }));
        Self {
            tracks: (0..routes)
                .map(|route| Track::new(&all, RouteId(route as u16)))
                .collect(),
            incidents: all,
            coins,
            complete_until,
        }
    }

    /// All incidents, those that were drawn included.
    #[must_use]
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// When the first incident begins that there was no room for; the end of time if there was room for
    /// all. Before then nothing is missing.
    #[must_use]
    pub const fn complete_until(&self) -> Instant {
        self.complete_until
    }

    /// What is wrong with `route` now. Times must not run backwards: what ended stays ended.
    #[inline]
    pub fn at(&mut self, route: RouteId, now: Instant) -> Conditions<'_> {
        let Self {
            incidents,
            coins,
            tracks,
            ..
        } = self;
        let Some(track) = tracks.get_mut(usize::from(route.0)) else {
            return Conditions {
                active: &[],
                coins: &[],
            };
        };
        if track.change <= now {
            track.look(incidents, now);
        }
        Conditions {
            active: &track.active,
            coins,
        }
    }
}

impl Track {
    fn new(incidents: &[Incident], route: RouteId) -> Self {
        let mut order: Vec<u16> = incidents
            .iter()
            .zip(0..u16::MAX)
            .filter(|(incident, _)| incident.routes.contains(&route))
            .map(|(_, index)| index)
            .collect();
        order.sort_by_key(|&index| incidents[usize::from(index)].from);
        let first = order
            .first()
            .map(|&index| incidents[usize::from(index)].from);
        Self {
            change: first.unwrap_or(Instant(u64::MAX)),
            active: Vec::with_capacity(order.len().min(8)),
            order,
            next: 0,
        }
    }

    #[cold]
    fn look(&mut self, incidents: &[Incident], now: Instant) {
        let incident = |index: u16| &incidents[usize::from(index)];
        self.active
            .retain(|(index, _)| incident(*index).until > now);
        while let Some(&index) = self.order.get(self.next) {
            let one = incident(index);
            if one.from > now {
                break;
            }
            if one.until > now {
                self.active.push((index, one.effect));
            }
            self.next += 1;
        }
        self.active.sort_unstable_by_key(|(index, _)| *index);
        let ends = self.active.iter().map(|(index, _)| incident(*index).until);
        let begins = self.order.get(self.next).map(|&index| incident(index).from);
        self.change = ends.chain(begins).min().unwrap_or(Instant(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Probability;
    use crate::workload::Domain;

    const KEY: DrawKey = DrawKey {
        seed: 2026,
        domain: Domain::Traffic,
        replicate: 0,
    };

    fn incident(routes: &[u16], from: u64, until: u64) -> Incident {
        Incident {
            name: "x".into(),
            routes: routes.iter().copied().map(RouteId).collect(),
            from: Instant(from),
            until: Instant(until),
            effect: Effect::Cut {
                share: Probability::ONE,
            },
        }
    }

    fn open(incidents: &[Incident], routes: usize) -> Weather {
        Weather::open(incidents, &[], routes, KEY, Duration::MAX)
    }

    proptest! {
        #[test]
        fn what_lasts_is_what_began_and_did_not_end(
            spans in prop::collection::vec((0..200_u64, 0..60_u64, 1..8_u16), 0..40),
            gaps in prop::collection::vec((0..20_u64, 0..3_u16), 1..80),
        ) {
            let incidents: Vec<Incident> = spans
                .iter()
                .map(|&(from, length, routes)| {
                    let routes: Vec<u16> = (0..3).filter(|bit| routes >> bit & 1 == 1).collect();
                    incident(&routes, from, from + length)
                })
                .collect();
            let mut weather = open(&incidents, 3);
            let mut now = Instant::ZERO;
            for (gap, route) in gaps {
                now = now.after(Duration(gap));
                let found: Vec<u16> =
                    weather.at(RouteId(route), now).active.iter().map(|(index, _)| *index).collect();
                let expected: Vec<u16> = incidents
                    .iter()
                    .zip(0..)
                    .filter(|(one, _)| {
                        one.routes.contains(&RouteId(route)) && one.from <= now && now < one.until
                    })
                    .map(|(_, index)| index)
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn an_incident_covers_its_first_microsecond_and_not_its_last() {
        let mut weather = open(&[incident(&[0], 10, 20)], 1);
        let lasts: Vec<bool> = [9, 10, 19, 20]
            .iter()
            .map(|&at| !weather.at(RouteId(0), Instant(at)).active.is_empty())
            .collect();
        assert_eq!(lasts, [false, true, true, false]);
        assert!(weather.at(RouteId(7), Instant(30)).active.is_empty());
    }

    #[test]
    fn nothing_is_looked_up_between_changes() {
        let mut weather = open(&[incident(&[0], 10, 20), incident(&[0], 15, 40)], 1);
        let mut changes = Vec::new();
        for at in 0..50 {
            let before = weather.tracks[0].change;
            weather.at(RouteId(0), Instant(at));
            if weather.tracks[0].change != before {
                changes.push(at);
            }
        }
        assert_eq!(changes, [10, 15, 20, 40]);
    }

    #[test]
    fn more_incidents_than_can_be_told_apart_are_cut_off_and_said_to_be() {
        let many: Vec<Incident> = (0..70_000).map(|at| incident(&[0], at, at + 1)).collect();
        let mut weather = open(&many, 1);
        assert_eq!(weather.incidents().len(), INCIDENTS_MAX);
        assert_eq!(weather.complete_until(), Instant(u64::MAX));
        let last = INCIDENTS_MAX as u64 - 1;
        assert_eq!(weather.at(RouteId(0), Instant(last)).active[0].0, 65_534);
        assert!(weather.at(RouteId(0), Instant(last + 1)).active.is_empty());
    }
}
