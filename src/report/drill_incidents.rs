//! Incidents and how long it takes until their harm is over.
//!
//! A request is harmed if it is within the SLO on the calm day and not in the drill. The *time to recover*
//! from an incident runs from its end to the start of the first bin of the time line from which on three
//! bins in a row have at most 1 % harmed requests; bins in which nobody came are passed over, and the bin
//! in which the incident ends counts as its end. The resolution is a bin. If there are no such bins, it
//! did not recover within the run. Harm is booked by when requests arrived, and whatever else goes wrong
//! at that time prolongs the recovery as well.

use super::drill::over_replicates;
use crate::sim::{Counts, Passage};
use crate::stats::Estimate;
use crate::timeline::{Effect, Incident};
use crate::units::{Duration, Instant};

/// Bins in a row that must be nearly free of harm.
const BINS: usize = 3;
/// Share of harmed requests that such a bin has at most, as one of so many.
const HARMED_ONE_OF: u64 = 100;

/// Something that went wrong, in words.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Occasion {
    /// What people call it.
    pub(super) name: String,
    /// Indices of its routes.
    pub(super) routes: Vec<usize>,
    /// Their names.
    pub(super) route_names: Vec<String>,
    pub(super) from: Instant,
    pub(super) until: Instant,
    pub(super) effect: Effect,
}

/// What an incident did to one policy's requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recovery {
    /// Requests harmed that came in a bin in which it lasted, per replicate.
    pub(super) harmed: Estimate,
    /// By replicate: the time to recover; `None` if it did not within the run.
    pub(super) times: Vec<Option<Duration>>,
    /// Seconds until recovery, if it recovered in every replicate.
    pub(super) mean_s: Estimate,
    /// Whether nobody came any more when it began.
    pub(super) is_too_late: bool,
}

/// The incidents of a replicate with the names of their routes.
pub(super) fn occasions(incidents: &[Incident], route: &dyn Fn(usize) -> String) -> Vec<Occasion> {
    incidents
        .iter()
        .map(|incident| {
            let routes: Vec<usize> = incident
                .routes
                .iter()
                .map(|route| usize::from(route.0))
                .collect();
            Occasion {
                name: incident.name.clone(),
                route_names: routes.iter().map(|index| route(*index)).collect(),
                routes,
                from: incident.from,
                until: incident.until,
                effect: incident.effect,
            }
        })
        .collect()
}

/// What each incident of the first replicate did; those that all replicates have in common are averaged
/// over them.
pub(super) fn recoveries(
    passages: &[Passage],
    incidents: &[Vec<Incident>],
    common: usize,
    level: f64,
) -> Vec<Recovery> {
    let first = incidents.first().map_or(&[][..], Vec::as_slice);
    first
        .iter()
        .enumerate()
        .map(|(index, incident)| {
            let counted = if index < common {
                passages
            } else {
                &passages[..passages.len().min(1)]
            };
            let times: Vec<Option<Duration>> = counted
                .iter()
                .map(|passage| time_to_recover(passage, incident.until))
                .collect();
            let harmed = counted
                .iter()
                .map(|passage| Some(harmed(passage, incident) as f64));
            let seconds = times.iter().map(|time| time.map(Duration::as_secs_f64));
            let mut estimates = [
                over_replicates(harmed, level),
                over_replicates(seconds, level),
            ];
            for estimate in &mut estimates {
                estimate.low = estimate.low.map(|low| low.max(0.0));
            }
            let [harmed, mean_s] = estimates;
            Recovery {
                harmed,
                times,
                mean_s,
                is_too_late: counted
                    .iter()
                    .all(|passage| incident.from > Instant::ZERO.after(passage.span)),
            }
        })
        .collect()
}

/// Requests harmed that came in a bin in which the incident lasted.
fn harmed(passage: &Passage, incident: &Incident) -> u64 {
    let last = Instant(incident.until.0.saturating_sub(1)).max(incident.from);
    let range = passage.bin_of(incident.from)..=passage.bin_of(last);
    passage
        .bins
        .iter()
        .enumerate()
        .filter(|(index, _)| range.contains(index))
        .map(|(_, counts)| counts.harmed)
        .sum()
}

/// See the module's documentation.
fn time_to_recover(passage: &Passage, end: Instant) -> Option<Duration> {
    let first = passage.bin_of(end);
    let with_requests: Vec<(usize, &Counts)> = passage
        .bins
        .iter()
        .enumerate()
        .skip(first)
        .filter(|(_, counts)| counts.compared > 0)
        .collect();
    let is_sound = |counts: &Counts| counts.harmed.saturating_mul(HARMED_ONE_OF) <= counts.compared;
    let (bin, _) = with_requests
        .windows(BINS)
        .find(|bins| bins.iter().all(|(_, counts)| is_sound(counts)))?[0];
    let start = Instant((bin as u64).saturating_mul(passage.bin.0));
    Some(start.since(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// A time line of minutes with 100 requests each and so many harmed.
    fn line(harmed: &[u64]) -> Passage {
        Passage {
            bin: MINUTE,
            bins: harmed
                .iter()
                .map(|harmed| Counts {
                    requests: 100,
                    harmed: *harmed,
                    compared: 100,
                    ..Counts::default()
                })
                .collect(),
            ..Passage::default()
        }
    }

    fn minutes(n: u64) -> Instant {
        Instant(n * MINUTE.0)
    }

    #[test]
    fn recovery_begins_with_the_first_of_three_sound_bins() {
        let passage = line(&[0, 50, 50, 9, 1, 2, 1, 0, 1, 0]);
        // The incident ends with minute 3; minutes 4 is sound, 5 is not, and from 6 on all are.
        assert_eq!(
            time_to_recover(&passage, minutes(3)),
            Some(Duration(3 * MINUTE.0))
        );
        // In the middle of a bin that is sound: at once.
        let end = Instant(minutes(6).0 + 30_000_000);
        assert_eq!(time_to_recover(&passage, end), Some(Duration::ZERO));
    }

    #[test]
    fn two_sound_bins_before_the_end_are_no_recovery() {
        assert_eq!(time_to_recover(&line(&[0, 50, 0, 0]), minutes(2)), None);
        assert_eq!(
            time_to_recover(&line(&[0, 50, 0, 0, 0]), minutes(2)),
            Some(Duration::ZERO)
        );
        assert_eq!(time_to_recover(&line(&[]), minutes(2)), None);
    }

    #[test]
    fn bins_of_which_nothing_is_known_say_nothing() {
        let mut passage = line(&[50, 0, 0, 0, 0]);
        passage.bins[1].compared = 0;
        passage.bins[2].compared = 0;
        assert_eq!(time_to_recover(&passage, minutes(1)), None);
        passage.bins.push(passage.bins[4]);
        assert_eq!(
            time_to_recover(&passage, minutes(1)),
            Some(Duration(2 * MINUTE.0))
        );
    }

    #[test]
    fn harm_is_counted_in_the_bins_of_the_incident_and_averaged_over_common_replicates() {
        let incident = |name: &str| Incident {
            name: name.to_owned(),
            routes: Vec::new(),
            from: minutes(1),
            until: minutes(3),
            effect: Effect::Slow { factor: 2.0 },
        };
        let passages = [line(&[1, 20, 30, 4, 0, 0]), line(&[0, 10, 20, 0, 0, 0])];
        let drawn = [
            vec![incident("a"), incident("b")],
            vec![incident("a"), incident("c")],
        ];
        let all = recoveries(&passages, &drawn, 1, 0.95);
        assert_eq!(all[0].harmed.value, Some(40.0));
        assert_eq!(all[0].times.len(), 2);
        assert_eq!(all[0].times[1], Some(Duration::ZERO));
        assert_eq!(all[1].harmed.value, Some(50.0));
        assert_eq!(
            all[1].times,
            [None],
            "4 % in the fourth minute, then two bins"
        );
        assert_eq!(all[1].mean_s.value, None);
    }
}
