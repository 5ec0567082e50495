//! A rule for mirrored pairs that is applied again and again: how often it promotes, and when, exactly.
//!
//! Whatever the rule is, if it decides on the counts (n10, n01, n), the run is a Markov chain on those
//! counts. The chance of every pair of counts is carried forward one mirrored pair at a time; at each
//! look the counts on which the rule decides are taken out. That shows what looking every day does to
//! a rule meant to be applied once, and how long a rule made for it takes.
//!
//! What it is not: fast for millions of pairs. The work grows as n²; [`peeking`] refuses what would take
//! more than some tens of seconds.

use super::NonInferiority;

/// The counts at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairCounts {
    /// Only the candidate was right.
    pub n10: u64,
    /// Only the primary was right.
    pub n01: u64,
    /// All pairs, those that agree included.
    pub n: u64,
}

/// What repeated looks lead to.
#[derive(Clone, Debug, PartialEq)]
pub struct Peeking {
    /// Chance of promotion at this look or before, for each look.
    pub promoted_by: Vec<f64>,
    /// Chance of being stopped as inferior at this look or before, for each look.
    pub stopped_by: Vec<f64>,
    /// Expected number of pairs until a decision, or until the last look if there is none.
    pub expected_n: f64,
}

impl Peeking {
    /// Chance of promotion at any look.
    #[must_use]
    pub fn promoted(&self) -> f64 {
        self.promoted_by.last().copied().unwrap_or(0.0)
    }

    /// Chance of being stopped as inferior at any look.
    #[must_use]
    pub fn stopped(&self) -> f64 {
        self.stopped_by.last().copied().unwrap_or(0.0)
    }

    /// Chance of no decision at any look.
    #[must_use]
    pub fn undecided(&self) -> f64 {
        (1.0 - self.promoted() - self.stopped()).max(0.0)
    }
}

/// Rows and columns with less chance than this in all are left out: far below any figure reported.
const NEGLIGIBLE: f64 = 1e-21;

/// Pairs after which negligible counts are left out again.
const BETWEEN_CUTS: u64 = 16;

/// Additions that a calculation may take: some tens of seconds.
const MAX_ADDITIONS: f64 = 3e10;

/// What `rule` leads to when it is applied after each number of pairs in `looks`, if a pair has chance
/// `p10` that only the candidate is right and `p01` that only the primary is.
///
/// `rule(counts, look)` gets the counts and the index of the look, and must depend on nothing else:
/// `NonInferior` promotes, `Inferior` stops, `Inconclusive` goes on. `None` unless p10, p01 ≥ 0 with
/// p10 + p01 ≤ 1, the looks increase from at least 1, and the work is within reach (about n = 20,000 at
/// a disagreement of 10 %, n = 100,000 at 1 %).
///
/// Chances are exact but for what is left out, less than 1e-16 in all. Method: as for
/// [`operating_characteristics`](super::operating_characteristics), in two dimensions.
#[must_use]
pub fn peeking(
    (p10, p01): (f64, f64),
    looks: &[u64],
    mut rule: impl FnMut(PairCounts, usize) -> NonInferiority,
) -> Option<Peeking> {
    let possible = p10 >= 0.0 && p01 >= 0.0 && p10 + p01 <= 1.0;
    let increasing =
        looks.first().is_none_or(|first| *first > 0) && looks.is_sorted_by(|a, b| a < b);
    let last = looks.last().copied().unwrap_or(0);
    if !(possible && increasing && additions(last as f64, p10, p01) <= MAX_ADDITIONS) {
        return None;
    }
    let mut found = Peeking {
        promoted_by: Vec::with_capacity(looks.len()),
        stopped_by: Vec::with_capacity(looks.len()),
        expected_n: 0.0,
    };
    let (mut promoted, mut stopped) = (0.0, 0.0);
    let mut grid = Grid::new(p10, p01);
    for (look, &n) in looks.iter().enumerate() {
        while grid.n < n {
            grid.advance((n - grid.n).min(BETWEEN_CUTS));
        }
        let (mut promoted_here, mut stopped_here) = (0.0, 0.0);
        grid.each(|counts, chance| {
            let taken = match rule(counts, look) {
                NonInferiority::Inconclusive => return,
                NonInferiority::NonInferior => &mut promoted_here,
                NonInferiority::Inferior => &mut stopped_here,
            };
            *taken += std::mem::take(chance);
        });
        promoted += promoted_here;
        stopped += stopped_here;
        found.expected_n += n as f64 * (promoted_here + stopped_here);
        found.promoted_by.push(promoted);
        found.stopped_by.push(stopped);
    }
    // Summed from what is left rather than as 1 − …, which would lose its digits.
    found.expected_n += last as f64 * grid.chances.iter().sum::<f64>();
    Some(found)
}

/// Additions that n pairs take: the counts lie within some nine standard deviations of their means.
fn additions(n: f64, p10: f64, p01: f64) -> f64 {
    let width = |p: f64| (19.0 * (n * p * (1.0 - p)).sqrt() + 40.0).min(n + 1.0);
    n * width(p10) * width(p01)
}

/// Chances of the undecided counts, in a window that moves and grows with them.
struct Grid {
    p10: f64,
    p01: f64,
    n: u64,
    /// The counts n10 of the first row and n01 of the first column.
    first: (u64, u64),
    columns: usize,
    /// Row by row.
    chances: Vec<f64>,
    next: Vec<f64>,
}

impl Grid {
    fn new(p10: f64, p01: f64) -> Self {
        Self {
            p10,
            p01,
            n: 0,
            first: (0, 0),
            columns: 1,
            chances: vec![1.0],
            next: Vec::new(),
        }
    }

    /// Adds so many pairs, after a cut of the window.
    fn advance(&mut self, pairs: u64) {
        self.recut(pairs as usize);
        if self.chances.is_empty() {
            self.n += pairs;
            return;
        }
        let same = (1.0 - self.p10 - self.p01).max(0.0);
        let columns = self.columns;
        self.next.resize(self.chances.len(), 0.0);
        for _ in 0..pairs {
            // Nothing leaves the window: it was cut with room for as many rows and columns.
            let mut above: Option<&[f64]> = None;
            for (row, next) in self
                .chances
                .chunks(columns)
                .zip(self.next.chunks_mut(columns))
            {
                next[0] = same * row[0];
                for ((next, here), left) in next[1..].iter_mut().zip(&row[1..]).zip(row) {
                    *next = same * here + self.p01 * left;
                }
                for (next, above) in next.iter_mut().zip(above.into_iter().flatten()) {
                    *next += self.p10 * above;
                }
                above = Some(row);
            }
            std::mem::swap(&mut self.chances, &mut self.next);
        }
        self.n += pairs;
    }

    /// Leaves out rows and columns at the edges that are negligible, and adds `room` of both.
    fn recut(&mut self, room: usize) {
        let rows: Vec<f64> = self
            .chances
            .chunks(self.columns)
            .map(|row| row.iter().sum())
            .collect();
        let mut columns = vec![0.0; self.columns];
        for row in self.chances.chunks(self.columns) {
            for (sum, chance) in columns.iter_mut().zip(row) {
                *sum += chance;
            }
        }
        let (Some((top, bottom)), Some((left, right))) = (kept(&rows), kept(&columns)) else {
            self.chances.clear();
            return;
        };
        let width = right - left + room;
        let mut chances = vec![0.0; (bottom - top + room) * width];
        let kept_rows = self.chances.chunks(self.columns).skip(top);
        for (new, old) in chances.chunks_mut(width).zip(kept_rows).take(bottom - top) {
            new[..right - left].copy_from_slice(&old[left..right]);
        }
        self.first.0 += top as u64;
        self.first.1 += left as u64;
        self.columns = width;
        self.chances = chances;
    }

    /// Shows all counts that have a chance.
    fn each(&mut self, mut show: impl FnMut(PairCounts, &mut f64)) {
        for (n10, row) in (self.first.0..).zip(self.chances.chunks_mut(self.columns)) {
            for (n01, chance) in (self.first.1..).zip(row) {
                if *chance > 0.0 {
                    let n = self.n;
                    show(PairCounts { n10, n01, n }, chance);
                }
            }
        }
    }
}

/// From the first to after the last that is not negligible.
fn kept(sums: &[f64]) -> Option<(usize, usize)> {
    let matters = |sum: &f64| *sum >= NEGLIGIBLE;
    let first = sums.iter().position(matters)?;
    let last = sums.iter().rposition(matters)?;
    Some((first, last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{MixtureE, Pairs, tango_test};
    use proptest::prelude::*;

    fn tango(counts: PairCounts) -> NonInferiority {
        let same = counts.n - counts.n10 - counts.n01;
        tango_test(Pairs::new(same, counts.n10, counts.n01, 0), 0.1, 1.2)
    }

    /// The same by walking every sequence of pairs.
    fn enumerated(
        (p10, p01): (f64, f64),
        looks: &[u64],
        rule: &dyn Fn(PairCounts, usize) -> NonInferiority,
    ) -> Peeking {
        let length = *looks.last().unwrap();
        let mut each = vec![(0.0, 0.0); looks.len()];
        let mut expected_n = 0.0;
        for code in 0..3_u32.pow(length as u32) {
            let mut rest = code;
            let mut chance = 1.0;
            let mut counts = PairCounts {
                n10: 0,
                n01: 0,
                n: 0,
            };
            let mut ended = None;
            for _ in 0..length {
                counts.n += 1;
                match rest % 3 {
                    0 => chance *= 1.0 - p10 - p01,
                    1 => {
                        chance *= p10;
                        counts.n10 += 1;
                    }
                    _ => {
                        chance *= p01;
                        counts.n01 += 1;
                    }
                }
                rest /= 3;
                let look = looks.iter().position(|n| *n == counts.n);
                if let (None, Some(look)) = (ended, look) {
                    let verdict = rule(counts, look);
                    ended = (verdict != NonInferiority::Inconclusive).then_some((look, verdict));
                }
            }
            match ended {
                Some((look, NonInferiority::NonInferior)) => each[look].0 += chance,
                Some((look, _)) => each[look].1 += chance,
                None => {}
            }
            expected_n += chance * ended.map_or(length, |(look, _)| looks[look]) as f64;
        }
        let (mut promoted, mut stopped) = (0.0, 0.0);
        let mut found = Peeking {
            promoted_by: vec![],
            stopped_by: vec![],
            expected_n,
        };
        for (good, bad) in each {
            promoted += good;
            stopped += bad;
            found.promoted_by.push(promoted);
            found.stopped_by.push(stopped);
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_chances_are_those_of_all_sequences(
            p10 in 0.0_f64..0.5, p01 in 0.0_f64..0.5, gaps in prop::collection::vec(1_u64..4, 1..4),
        ) {
            let mut n = 0;
            let looks: Vec<u64> = gaps.iter().map(|gap| { n += gap; n }).collect();
            // A rule that differs from look to look.
            let rule = |counts: PairCounts, look: usize| match tango(counts) {
                NonInferiority::NonInferior if look == 1 => NonInferiority::Inconclusive,
                verdict => verdict,
            };
            let found = peeking((p10, p01), &looks, rule).unwrap();
            let all = enumerated((p10, p01), &looks, &rule);
            for (a, b) in [(&found.promoted_by, &all.promoted_by), (&found.stopped_by, &all.stopped_by)] {
                for (a, b) in a.iter().zip(b) {
                    prop_assert!((a - b).abs() < 1e-12);
                }
            }
            prop_assert!((found.expected_n - all.expected_n).abs() < 1e-10);
        }
    }

    #[test]
    fn one_look_at_one_count_is_a_multinomial_term() {
        let at = PairCounts {
            n10: 3,
            n01: 2,
            n: 200,
        };
        let found = peeking((0.01, 0.02), &[200], |counts, _| {
            if counts == at {
                NonInferiority::NonInferior
            } else {
                NonInferiority::Inconclusive
            }
        })
        .unwrap();
        let log = |x: f64| libm::log(x);
        let g = |x: f64| libm::lgamma(x + 1.0);
        let term = g(200.0) - g(3.0) - g(2.0) - g(195.0)
            + 3.0 * log(0.01)
            + 2.0 * log(0.02)
            + 195.0 * log(0.97);
        assert!((found.promoted() - libm::exp(term)).abs() < 1e-13);
        assert!((found.expected_n - 200.0).abs() < 1e-11);
        assert!((found.undecided() + found.promoted() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn an_always_valid_rule_stays_below_its_level_and_a_naive_one_does_not() {
        let looks: Vec<u64> = (1..=60).map(|k| 10 * k).collect();
        let at_margin = (0.045, 0.075);
        let process = MixtureE::new(0.03).unwrap();
        let valid = peeking(at_margin, &looks, |c, _| {
            process.decide(c.n10, c.n01, c.n, 0.025)
        })
        .unwrap();
        assert!(
            valid.promoted() < 0.025 && valid.stopped() < 0.025,
            "{valid:?}"
        );
        let naive = peeking(at_margin, &looks, |c, _| {
            let same = c.n - c.n10 - c.n01;
            tango_test(Pairs::new(same, c.n10, c.n01, 0), 0.03, 1.96)
        })
        .unwrap();
        assert!(
            naive.promoted() > 0.05 && naive.stopped() > 0.05,
            "{naive:?}"
        );
        assert!(naive.promoted_by.is_sorted() && naive.expected_n < 600.0);
    }

    #[test]
    fn extremes_are_exact() {
        let never = |_: PairCounts, _| NonInferiority::Inconclusive;
        let always = |_: PairCounts, _| NonInferiority::NonInferior;
        let none = peeking((0.1, 0.1), &[], never).unwrap();
        assert_eq!((none.promoted(), none.expected_n), (0.0, 0.0));
        for (p10, p01) in [
            (0.0, 0.0),
            (1.0, 0.0),
            (0.0, 1.0),
            (0.5, 0.5),
            (1e-300, 0.1),
        ] {
            let found = peeking((p10, p01), &[1, 7, 100], always).unwrap();
            assert!((found.promoted_by[0] - 1.0).abs() < 1e-15);
            assert!((found.expected_n - 1.0).abs() < 1e-13);
            let found = peeking((p10, p01), &[1, 7, 100], never).unwrap();
            assert_eq!(found.promoted(), 0.0);
            assert!((found.expected_n - 100.0).abs() < 1e-11, "{found:?}");
        }
        for looks in [&[0, 5][..], &[5, 5], &[6, 5]] {
            assert_eq!(peeking((0.1, 0.1), looks, never), None);
        }
        for rates in [(-0.1, 0.1), (0.6, 0.5), (f64::NAN, 0.1)] {
            assert_eq!(peeking(rates, &[5], never), None);
        }
        assert_eq!(peeking((0.3, 0.3), &[10_000_000], never), None);
    }
}
