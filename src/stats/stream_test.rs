//! Any sequential test of a stream of hits and misses, and exactly what it does.
//!
//! A test that decides on two whole numbers, hits and observations, can be followed exactly: the number
//! of hits is a Markov chain, so the chance of every undecided state is carried forward one observation
//! at a time. No simulation is needed to say how often a canary is rolled back for nothing or how many
//! requests it takes to see that it is bad.
//!
//! What it is not: a way to decide. The tests themselves are `Sprt` and `BernoulliMixture`.

/// Where a sequential test stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not decided yet.
    Continue,
    /// The share of hits is taken to be the lower one.
    AcceptH0,
    /// The share of hits is taken to be the higher one.
    AcceptH1,
}

/// A test that decides on the counts alone.
pub trait StreamTest {
    /// What the test says at `hits` in `n` observations.
    ///
    /// Must be monotone: at the same `n`, more hits may not turn [`Verdict::AcceptH1`] into something
    /// else, nor fewer hits [`Verdict::AcceptH0`].
    fn verdict(&self, hits: u64, n: u64) -> Verdict;
}

/// What a test does when the true share of hits is known: exact, not simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatingCharacteristics {
    /// Chance that it accepts H1.
    pub accept_h1: f64,
    /// Chance that it accepts H0.
    pub accept_h0: f64,
    /// Chance that it has not decided after `cap` observations.
    pub undecided: f64,
    /// Expected number of observations until it decides or reaches `cap`.
    pub expected_n: f64,
    /// Observations after which the calculation stopped: the cap that was asked for, or without one
    /// the number after which what is undecided no longer shows in any of the other figures.
    pub cap: u64,
}

impl OperatingCharacteristics {
    /// Whether the test decides in all but one run in 1e9. If a calculation without a cap says no, it was
    /// given up, and the chances of both decisions are short of what the undecided runs would add.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.undecided <= 1e-9
    }
}

/// Exact chances of both decisions and the expected number of observations, if each observation is a
/// hit with chance `p`. `None` unless 0 ≤ p ≤ 1.
///
/// With a `cap` the test is broken off after so many observations and may be undecided. Without one the
/// calculation goes on until that no longer shows, or, with hypotheses so close that the test takes
/// millions of observations, until [`StreamSteps::MAX_ADDITIONS`] additions have been made;
/// `undecided` and `cap` then say how far it came. Every term is positive, so that even chances of
/// 1e-80 have nearly all their digits.
///
/// Method: forward recursion over the band of undecided counts, as in P. Armitage, C. K. McPherson,
/// B. C. Rowe, JRSS A 132 (1969) 235–244, section 2.
#[must_use]
pub fn operating_characteristics(
    test: &impl StreamTest,
    p: f64,
    cap: Option<u64>,
) -> Option<OperatingCharacteristics> {
    let mut found = OperatingCharacteristics {
        accept_h1: 0.0,
        accept_h0: 0.0,
        undecided: 1.0,
        expected_n: 0.0,
        cap: 0,
    };
    for step in StreamSteps::new(test, p, cap)? {
        // E[N] = Σ P(N ≥ n): everyone still undecided before this step makes it.
        found.expected_n += found.undecided;
        found.accept_h1 += step.accept_h1;
        found.accept_h0 += step.accept_h0;
        found.undecided = step.undecided;
        found.cap = step.n;
    }
    found.cap = cap.unwrap_or(found.cap);
    Some(found)
}

/// The number of observations within which the test accepts H1 with chance `quantile`, counted among
/// the runs that accept it. `None` where p or the quantile is outside [0, 1], or when H1 is never
/// accepted, or when a calculation without a cap was given up: nobody knows then how many accept it. The
/// caps are those of [`operating_characteristics`].
#[must_use]
pub fn n_until_h1(test: &impl StreamTest, p: f64, quantile: f64, cap: Option<u64>) -> Option<u64> {
    let odds = operating_characteristics(test, p, cap)?;
    let total = odds.accept_h1;
    let is_known = cap.is_some() || odds.is_decided();
    if !(is_known && total > 0.0 && (0.0..=1.0).contains(&quantile)) {
        return None;
    }
    let mut sum = 0.0;
    let mut last = None;
    for step in StreamSteps::new(test, p, cap)? {
        if step.accept_h1 > 0.0 {
            sum += step.accept_h1;
            last = Some(step.n);
            if sum >= quantile * total {
                break;
            }
        }
    }
    last
}

/// What one more observation does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamStep {
    /// Observations so far, this one included.
    pub n: u64,
    /// Chance that H1 is accepted exactly here.
    pub accept_h1: f64,
    /// Chance that H0 is accepted exactly here.
    pub accept_h0: f64,
    /// Chance that nothing is decided yet.
    pub undecided: f64,
}

/// A test one observation at a time: what it decides at each, and what is left.
#[derive(Clone, Debug)]
pub struct StreamSteps<'a, T> {
    test: &'a T,
    p: f64,
    cap: Option<u64>,
    n: u64,
    /// The number of hits that `mass[0]` stands for.
    first: u64,
    /// Chance of each number of hits, undecided ones only.
    mass: Vec<f64>,
    /// Chances of H1 and H0 so far.
    decided: (f64, f64),
    undecided: f64,
    additions: u64,
}

impl<'a, T: StreamTest> StreamSteps<'a, T> {
    /// Additions after which a calculation without a cap is given up: about a second's work.
    pub const MAX_ADDITIONS: u64 = 1 << 28;

    /// The steps of `test` if each observation is a hit with chance `p`. They end at the `cap`, and
    /// without one as [`operating_characteristics`] says. `None` unless 0 ≤ p ≤ 1.
    #[must_use]
    pub fn new(test: &'a T, p: f64, cap: Option<u64>) -> Option<Self> {
        (0.0..=1.0).contains(&p).then(|| Self {
            test,
            p,
            cap,
            n: 0,
            first: 0,
            mass: vec![1.0],
            decided: (0.0, 0.0),
            undecided: 1.0,
            additions: 0,
        })
    }

    /// The chance that nothing is decided yet and there were at least so many hits.
    #[must_use]
    pub fn undecided_with(&self, hits: u64) -> f64 {
        let skip = usize::try_from(hits.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.mass.iter().skip(skip).sum()
    }

    /// Whether the rest shows in no figure: in neither chance, however small, nor in their sum.
    fn is_over(&self) -> bool {
        let negligible = 1e-17 * self.decided.0.min(self.decided.1);
        match self.cap {
            Some(cap) => self.n >= cap || self.undecided == 0.0,
            None => {
                self.undecided <= negligible.max(1e-300) || self.additions >= Self::MAX_ADDITIONS
            }
        }
    }

    /// Adds one observation to the chances of all undecided counts.
    fn observe(&mut self) {
        self.n += 1;
        self.additions += 1 + self.mass.len() as u64;
        let (hit, miss) = (self.p, 1.0 - self.p);
        let mut below = 0.0;
        for mass in &mut self.mass {
            let stays = *mass;
            *mass = stays * miss + below * hit;
            below = stays;
        }
        self.mass.push(below * hit);
    }

    fn verdict(&self, index: usize) -> Verdict {
        self.test.verdict(self.first + index as u64, self.n)
    }
}

impl<T: StreamTest> Iterator for StreamSteps<'_, T> {
    type Item = StreamStep;

    fn next(&mut self) -> Option<StreamStep> {
        if self.is_over() {
            return None;
        }
        self.observe();
        // Both regions lie at the ends, because verdicts are monotone.
        let low = (0..self.mass.len())
            .take_while(|&i| self.verdict(i) == Verdict::AcceptH0)
            .count();
        let high = (low..self.mass.len())
            .rev()
            .take_while(|&i| self.verdict(i) == Verdict::AcceptH1)
            .count();
        let high = self.mass.len() - high;
        let step = StreamStep {
            n: self.n,
            accept_h1: self.mass.drain(high..).rev().sum(),
            accept_h0: self.mass.drain(..low).sum(),
            undecided: self.mass.iter().sum(),
        };
        self.first += low as u64;
        self.undecided = step.undecided;
        self.decided.0 += step.accept_h1;
        self.decided.1 += step.accept_h0;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decides at a fixed number of observations.
    struct Fixed {
        n: u64,
        least: u64,
    }

    impl StreamTest for Fixed {
        fn verdict(&self, hits: u64, n: u64) -> Verdict {
            if n < self.n {
                Verdict::Continue
            } else if hits >= self.least {
                Verdict::AcceptH1
            } else {
                Verdict::AcceptH0
            }
        }
    }

    #[test]
    fn a_test_of_fixed_length_is_a_binomial_tail() {
        let test = Fixed { n: 4, least: 3 };
        let found = operating_characteristics(&test, 0.3, None).unwrap();
        let tail = 4.0 * 0.3_f64.powi(3) * 0.7 + 0.3_f64.powi(4);
        assert!((found.accept_h1 - tail).abs() < 1e-15);
        assert!((found.accept_h0 - (1.0 - tail)).abs() < 1e-15);
        assert_eq!(
            (found.undecided, found.expected_n, found.cap),
            (0.0, 4.0, 4)
        );
        assert_eq!(n_until_h1(&test, 0.3, 0.5, None), Some(4));
        assert_eq!(n_until_h1(&test, 0.0, 0.5, None), None);
    }

    #[test]
    fn what_is_undecided_is_known_by_hits() {
        let test = Fixed { n: 9, least: 3 };
        let mut steps = StreamSteps::new(&test, 0.25, Some(4)).unwrap();
        assert_eq!(steps.by_ref().count(), 4);
        for (hits, chance) in [
            (0, 1.0),
            (3, 13.0 / 256.0),
            (4, 1.0 / 256.0),
            (5, 0.0),
            (u64::MAX, 0.0),
        ] {
            assert!(
                (steps.undecided_with(hits) - chance).abs() < 1e-15,
                "{hits}"
            );
        }
    }

    #[test]
    fn a_test_that_never_ends_is_given_up_and_says_so() {
        let test = Fixed {
            n: u64::MAX,
            least: 0,
        };
        let found = operating_characteristics(&test, 0.5, None).unwrap();
        assert!((found.undecided - 1.0).abs() < 1e-9);
        assert!(found.cap > 10_000 && found.expected_n > 0.99 * found.cap as f64);
        assert!(!found.is_decided());
    }

    #[test]
    fn a_quantile_of_runs_that_were_not_followed_to_their_end_is_unknown() {
        // The first answer accepts H1 if it is a hit; the other half of the runs never ends.
        struct HalfEndless;
        impl StreamTest for HalfEndless {
            fn verdict(&self, hits: u64, n: u64) -> Verdict {
                if hits >= n {
                    Verdict::AcceptH1
                } else {
                    Verdict::Continue
                }
            }
        }
        let found = operating_characteristics(&HalfEndless, 0.5, None).unwrap();
        assert!((found.accept_h1 - 0.5).abs() < 1e-12 && !found.is_decided());
        assert_eq!(n_until_h1(&HalfEndless, 0.5, 0.9, None), None);
        assert_eq!(n_until_h1(&HalfEndless, 0.5, 0.9, Some(100)), Some(1));
    }
}
