//! Clients whose rate and burstiness change from window to window, as ServeGen publishes them.
//!
//! ServeGen (Xiang et al., "ServeGen: Workload Characterization and Generation of Large Language Model Serving in
//! Production", 2025) describes each client of a service by windows of ten minutes: its rate, the
//! coefficient of variation of its gaps, and the family that fits them best. Here each window of a client is
//! a piece of a renewal process of its own in equilibrium, so that every window expects exactly rate times
//! length arrivals. `arg1` and `arg2` of the published rows are not used: for Gamma they are the shape, 1/cv²,
//! and a scale in seconds; for Weibull they are shape and scale of a fit whose coefficient of variation is
//! up to ten times below the measured one, and sometimes zero. What was measured is kept: rate and cv.

use std::ops::Range;

use super::law::{CV_MAX, CV_MIN, Family, Law};
use super::renewal::{Lanes, Times, page};
use crate::units::{Duration, Instant};
use crate::workload::DrawKey;

/// Length of a window where the file has too few to tell: ServeGen's.
const WINDOW_S: f64 = 600.0;
/// Shortest length of a window.
const WINDOW_S_MIN: f64 = 1.0;
/// Coefficients of variation are rounded to a grid of this ratio, so that windows can share tables. They
/// are estimated from a window's few arrivals, with errors far above the 2 % that this adds at most.
const GRID: f64 = 1.04;
/// log₂ of the cells in an octave of a table.
const CELL_BITS: u32 = 4;

/// One row of a published file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) client: u32,
    pub(super) start_s: f64,
    pub(super) rate_per_s: f64,
    pub(super) cv: f64,
    pub(super) family: Family,
}

#[derive(Clone, Debug, PartialEq)]
struct Window {
    start: u64,
    length: f64,
    /// Arrivals expected.
    mass: f64,
    law: u32,
}

#[derive(Clone, Debug, PartialEq)]
struct Client {
    page: u64,
    windows: Range<usize>,
}

/// The clients of a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clients {
    clients: Vec<Client>,
    windows: Vec<Window>,
    laws: Vec<Law>,
    /// When the last window ends.
    end: u64,
    repeat: bool,
}

/// What is wrong with rows that are each sound.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unfit {
    /// Window starts are no multiples of their smallest distance in seconds.
    Uneven {
        /// The start that does not fit.
        start_s: f64,
        /// The smallest distance.
        window_s: f64,
    },
    /// Windows are shorter than a second.
    Short,
    /// A client has two rows for one window.
    Twice {
        /// Which client.
        client: u32,
        /// Which window.
        start_s: f64,
    },
    /// Nobody ever sends anything.
    Silent,
}

impl Clients {
    /// Clients from rows in any order; `names` are those of the clients. Everything happens `speed` times as
    /// fast. Coefficients of variation outside of what can be drawn are clamped.
    pub(super) fn new(
        mut rows: Vec<Row>,
        names: &[String],
        speed: f64,
        repeat: bool,
    ) -> Result<Self, Unfit> {
        rows.sort_by(|a, b| {
            (a.client, a.start_s)
                .partial_cmp(&(b.client, b.start_s))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let window_s = window_length(&rows)?;
        let twice = rows
            .windows(2)
            .find(|two| two[0].client == two[1].client && two[0].start_s == two[1].start_s);
        if let Some(two) = twice {
            return Err(Unfit::Twice {
                client: two[1].client,
                start_s: two[1].start_s,
            });
        }
        rows.retain(|row| row.rate_per_s > 0.0);
        let micros = |s: f64| Duration::from_secs_f64(s / speed).0;
        let mut laws = Laws::default();
        let mut clients: Vec<Client> = Vec::new();
        let mut windows: Vec<Window> = Vec::with_capacity(rows.len());
        let mut end = 0;
        let mut last = None;
        for row in &rows {
            if last != Some(row.client) {
                last = Some(row.client);
                let name = &names[row.client as usize];
                clients.push(Client {
                    page: page("arrivals of a client", name),
                    windows: windows.len()..windows.len(),
                });
            }
            let start = micros(row.start_s);
            let until = micros(row.start_s + window_s);
            end = end.max(until);
            windows.push(Window {
                start,
                length: (until - start) as f64,
                mass: row.rate_per_s * window_s,
                law: laws.of(row.family, row.cv),
            });
            if let Some(client) = clients.last_mut() {
                client.windows.end = windows.len();
            }
        }
        if windows.is_empty() || end == 0 {
            return Err(Unfit::Silent);
        }
        Ok(Self {
            clients,
            windows,
            laws: laws.laws,
            end,
            repeat,
        })
    }

    /// Arrivals expected in all, over the time until the last window ends.
    pub(super) fn mean_rate_per_s(&self) -> f64 {
        let mass: f64 = self.windows.iter().map(|window| window.mass).sum();
        mass / Duration(self.end).as_secs_f64()
    }

    /// When the last window ends, unless all begins again then.
    pub(super) fn ends(&self) -> Option<Duration> {
        (!self.repeat).then_some(Duration(self.end))
    }

    /// The clients' arrivals in the replicate of `key`.
    pub(super) fn open(&self, key: DrawKey) -> Vec<Sending<'_>> {
        let sending = |client: &Client| Sending {
            all: self,
            client: client.windows.clone(),
            window: client.windows.start,
            round: 0,
            inside: false,
            done: 0.0,
            lanes: Lanes::open(key, client.page),
        };
        self.clients.iter().map(sending).collect()
    }

    /// Times at which the expected rate changes, over at most two rounds, and arrivals expected before them.
    pub(super) fn cumulative(&self) -> Vec<(Instant, f64)> {
        let rounds: &[u64] = if self.repeat { &[0, 1] } else { &[0] };
        let mut changes: Vec<(u64, f64)> = Vec::new();
        for round in rounds {
            let offset = round * self.end;
            for window in &self.windows {
                let rate = window.mass / window.length;
                let start = window.start.saturating_add(offset);
                changes.push((start, rate));
                changes.push((start.saturating_add(window.length as u64), -rate));
            }
        }
        changes.sort_by_key(|(at, _)| *at);
        let (mut last, mut rate, mut sum) = (0, 0.0, 0.0);
        let mut steps: Vec<(Instant, f64)> = vec![(Instant::ZERO, 0.0)];
        for (at, change) in changes {
            if at > last {
                sum += rate * (at - last) as f64;
                steps.push((Instant(at), sum));
                last = at;
            }
            rate += change;
        }
        steps
    }

    /// Coefficient of variation of the gaps in the mean of all windows, weighted by their arrivals.
    pub(super) fn variation(&self) -> f64 {
        let cv = |window: &Window| self.laws[window.law as usize].cv();
        let weighted = self.windows.iter().map(|window| window.mass * cv(window));
        let mass: f64 = self.windows.iter().map(|window| window.mass).sum();
        weighted.sum::<f64>() / mass
    }
}

/// The smallest distance of two windows' starts, of which all are multiples.
fn window_length(rows: &[Row]) -> Result<f64, Unfit> {
    let mut starts: Vec<f64> = rows.iter().map(|row| row.start_s).collect();
    starts.sort_by(f64::total_cmp);
    starts.dedup();
    let distances = starts.windows(2).map(|two| two[1] - two[0]);
    let window_s = distances.fold(f64::INFINITY, f64::min);
    if window_s.is_infinite() {
        return Ok(WINDOW_S);
    }
    if window_s < WINDOW_S_MIN {
        return Err(Unfit::Short);
    }
    let fits = |start_s: &f64| {
        let count = (start_s - starts[0]) / window_s;
        (count - count.round()).abs() < 1e-6
    };
    match starts.iter().find(|start_s| !fits(start_s)) {
        Some(&start_s) => Err(Unfit::Uneven { start_s, window_s }),
        None => Ok(window_s),
    }
}

/// Laws of gaps on a grid of coefficients of variation, each made once.
#[derive(Debug, Default)]
struct Laws {
    known: std::collections::BTreeMap<(Family, i64), u32>,
    laws: Vec<Law>,
}

impl Laws {
    fn of(&mut self, family: Family, cv: f64) -> u32 {
        let step = libm::log(GRID);
        let place = libm::round(libm::log(cv.clamp(CV_MIN, CV_MAX)) / step) as i64;
        let laws = &mut self.laws;
        *self.known.entry((family, place)).or_insert_with(|| {
            let cv = libm::exp(place as f64 * step).clamp(CV_MIN, CV_MAX);
            laws.push(Law::new(family, cv, CELL_BITS));
            laws.len() as u32 - 1
        })
    }
}

/// The arrivals of one client.
#[derive(Clone, Debug)]
pub(super) struct Sending<'a> {
    all: &'a Clients,
    client: Range<usize>,
    window: usize,
    round: u64,
    /// Whether the first arrival of the window was drawn.
    inside: bool,
    /// Operational time since the start of the window.
    done: f64,
    lanes: Lanes,
}

impl Times for Sending<'_> {
    fn next(&mut self) -> u64 {
        loop {
            if self.window == self.client.end {
                if !self.all.repeat {
                    return u64::MAX;
                }
                self.window = self.client.start;
                self.round += 1;
            }
            let window = &self.all.windows[self.window];
            let law = &self.all.laws[window.law as usize];
            if self.inside {
                self.done += law.gap(self.lanes.next());
            } else {
                let (part, gap) = (self.lanes.next(), self.lanes.next());
                self.done = law.first(part, gap);
                self.inside = true;
            }
            if self.done < window.mass {
                let since = self.done / window.mass * window.length;
                let start = self.round.saturating_mul(self.all.end);
                return start
                    .saturating_add(window.start)
                    .saturating_add(since as u64);
            }
            self.inside = false;
            self.window += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Domain;

    const fn row(client: u32, start_s: f64, rate_per_s: f64, cv: f64, family: Family) -> Row {
        Row {
            client,
            start_s,
            rate_per_s,
            cv,
            family,
        }
    }

    fn key(replicate: u32) -> DrawKey {
        DrawKey {
            seed: 5,
            domain: Domain::Traffic,
            replicate,
        }
    }

    fn names() -> Vec<String> {
        ["a", "b"].map(str::to_owned).to_vec()
    }

    /// Times of one client, in seconds.
    fn times(clients: &Clients, client: usize, replicate: u32, until_s: f64) -> Vec<f64> {
        let mut sending = clients.open(key(replicate)).swap_remove(client);
        let next = std::iter::repeat_with(move || sending.next() as f64 / 1e6);
        next.take_while(|at| *at < until_s).collect()
    }

    #[test]
    fn windows_have_their_own_rate_and_variation() {
        use Family::{Gamma, Weibull};
        let windows = [
            (400.0, 0.5, Gamma),
            (0.0, 1.0, Gamma),
            (200.0, 2.3, Weibull),
            (600.0, 1.0, Weibull),
            (300.0, 4.0, Gamma),
        ];
        let rows = windows
            .iter()
            .enumerate()
            .map(|(index, &(rate, cv, family))| row(0, 600.0 * index as f64, rate, cv, family));
        let clients = Clients::new(rows.collect(), &names(), 1.0, false).unwrap();
        assert_eq!(clients.ends(), Some(Duration::from_secs(3_000)));
        let all: Vec<Vec<f64>> = (0..12)
            .map(|replicate| times(&clients, 0, replicate, 4e9))
            .collect();
        for (index, (rate, cv, _)) in windows.into_iter().enumerate() {
            let from = 600.0 * index as f64;
            let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
            let mut arrivals = 0.0;
            for times in &all {
                let inside: Vec<f64> = times
                    .iter()
                    .copied()
                    .filter(|at| (from..from + 600.0).contains(at))
                    .collect();
                arrivals += inside.len() as f64;
                for two in inside.windows(2) {
                    let gap = two[1] - two[0];
                    count += 1.0;
                    sum += gap;
                    squares += gap * gap;
                }
            }
            let expected = 12.0 * 600.0 * rate;
            // A renewal count has variance cv² times its mean.
            assert!(
                (arrivals - expected).abs() <= 4.0 * cv * f64::sqrt(expected),
                "{index} {arrivals}"
            );
            if rate > 0.0 {
                let mean: f64 = sum / count;
                let found = (squares / count - mean * mean).sqrt() / mean;
                assert!((found / cv - 1.0).abs() < 0.04, "{index} {found} {cv}");
            }
        }
    }

    #[test]
    fn a_bursty_window_expects_what_its_rate_says() {
        // 20 arrivals expected, at a cv of 8: an ordinary first gap would add 31.
        let clients = Clients::new(
            vec![row(0, 0.0, 20.0 / 600.0, 8.0, Family::Gamma)],
            &names(),
            1.0,
            false,
        );
        let clients = clients.unwrap();
        let counts: Vec<f64> = (0..4_000)
            .map(|replicate| times(&clients, 0, replicate, 600.0).len() as f64)
            .collect();
        let mean = counts.iter().sum::<f64>() / 4_000.0;
        let variance = counts
            .iter()
            .map(|count| (count - mean).powi(2))
            .sum::<f64>()
            / 3_999.0;
        let error = (variance / 4_000.0).sqrt();
        assert!(
            (mean - 20.0).abs() < 3.5 * error && error < 1.0,
            "{mean} ± {error}"
        );
    }

    #[test]
    fn clients_do_not_move_each_other_and_days_are_not_copies() {
        let one = row(0, 0.0, 5.0, 2.0, Family::Gamma);
        let other = row(1, 600.0, 1.0, 0.5, Family::Weibull);
        let alone = Clients::new(vec![one], &names(), 1.0, true).unwrap();
        let both = Clients::new(vec![other, one], &names(), 1.0, false).unwrap();
        let first = times(&both, 0, 0, 1e9);
        assert!(first.len() > 2_000);
        assert_eq!(times(&alone, 0, 0, 600.0), first);
        let second: Vec<f64> = times(&alone, 0, 0, 1_200.0)[first.len()..]
            .iter()
            .map(|at| at - 600.0)
            .collect();
        assert!(second.len() > 2_000 && second != first);
        assert!(
            times(&both, 1, 0, 1e9)
                .iter()
                .all(|at| (600.0..1_200.0).contains(at))
        );
        // Twice as fast: the same draws in half the time.
        let fast = Clients::new(vec![one], &names(), 2.0, false).unwrap();
        for (slow, fast) in first.iter().zip(times(&fast, 0, 0, 1e9)) {
            assert!((slow / 2.0 - fast).abs() < 2e-6);
        }
        assert_eq!(fast.mean_rate_per_s(), 10.0);
    }

    #[test]
    fn the_cumulative_rate_adds_up_over_clients_and_rounds() {
        let rows = || {
            vec![
                row(0, 0.0, 5.0, 2.0, Family::Gamma),
                row(1, 0.0, 1.0, 2.0, Family::Gamma),
                row(1, 600.0, 2.0, 2.0, Family::Gamma),
            ]
        };
        let steps = |repeat| {
            Clients::new(rows(), &names(), 1.0, repeat)
                .unwrap()
                .cumulative()
        };
        let at = |minutes: u64| Instant(minutes * 60_000_000);
        let expected = [
            (at(0), 0.0),
            (at(10), 3_600.0),
            (at(20), 4_800.0),
            (at(30), 8_400.0),
            (at(40), 9_600.0),
        ];
        let close = |found: Vec<(Instant, f64)>, expected: &[(Instant, f64)]| {
            assert_eq!(found.len(), expected.len());
            for (one, other) in found.iter().zip(expected) {
                assert!(
                    one.0 == other.0 && (one.1 - other.1).abs() < 1e-6,
                    "{found:?}"
                );
            }
        };
        close(steps(false), &expected[..3]);
        close(steps(true), &expected);
    }
}
