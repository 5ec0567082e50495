//! The exact probability that a rule promotes a candidate after n pairs.
//!
//! Nothing is simulated and no normal curve is assumed. The number of discordant pairs S is binomial, and
//! of them the number n10 that the candidate wins is binomial again. For each S a rule promotes from some
//! k(S) wins on, so P(promote) = Σ P(S)·P(n10 ≥ k(S) | S). The sum starts at the likeliest S and walks
//! outward; k(S) and the tail are kept up to date step by step, and the walk ends where all that remains
//! is below the last digit of the sum. That holds for tiny results too: 8·10⁻¹⁷ comes out with all its
//! digits. The work grows with √n, not n.
//!
//! Newcombe's rules also look at how many of the agreeing pairs are right, which is one more sum inside.

use super::binomial::{MovingTail, binomial_pmf};
use super::rule::{Criterion, Decider, Rule};

/// Probabilities of the four outcomes of a pair, candidate first.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Joint {
    p11: f64,
    p10: f64,
    p01: f64,
    p00: f64,
}

impl Joint {
    /// Both right, only the candidate right, only the primary right, both wrong.
    ///
    /// `None` unless all four are at least 0 and their sum is 1 to within 10⁻⁹.
    #[must_use]
    pub fn new(p11: f64, p10: f64, p01: f64, p00: f64) -> Option<Self> {
        let fine = [p11, p10, p01, p00].iter().all(|p| *p >= 0.0);
        let sum = p11 + p10 + p01 + p00;
        (fine && (sum - 1.0).abs() <= 1e-9).then_some(Self { p11, p10, p01, p00 })
    }

    /// From the two rates of disagreement alone, all agreeing pairs taken to be right: enough for every
    /// rule that does not look at agreement ([`Rule::looks_at_agreement`]). `None` as for [`Joint::new`].
    #[must_use]
    pub fn from_disagreement(p10: f64, p01: f64) -> Option<Self> {
        let agreeing = 1.0 - (p10 + p01);
        // A sum of rates may exceed one by a rounding.
        let agreeing = if agreeing > -1e-12 {
            agreeing.max(0.0)
        } else {
            agreeing
        };
        Self::new(agreeing, p10, p01, 0.0)
    }

    /// From the accuracy of the candidate, that of the primary, and how often they disagree: all three
    /// are what a pilot measures. `None` if no joint distribution has these.
    #[must_use]
    pub fn from_accuracies(candidate: f64, primary: f64, disagreement: f64) -> Option<Self> {
        let difference = candidate - primary;
        let p10 = (disagreement + difference) / 2.0;
        let p01 = (disagreement - difference) / 2.0;
        let p11 = primary - p01;
        Self::new(p11, p10, p01, 1.0 - disagreement - p11)
    }

    /// A candidate that is worse by exactly `margin`, with the two disagreeing at rate `disagreement` and
    /// the primary right at rate `primary`. Where the null hypothesis of a rule is at its edge.
    ///
    /// `None` if no joint distribution has these.
    #[must_use]
    pub fn at_margin(margin: f64, disagreement: f64, primary: f64) -> Option<Self> {
        let p10 = (disagreement - margin) / 2.0;
        let p01 = (disagreement + margin) / 2.0;
        let p11 = primary - p01;
        Self::new(p11, p10, p01, 1.0 - disagreement - p11)
    }

    /// Probability that both are right.
    #[must_use]
    pub fn p11(self) -> f64 {
        self.p11
    }

    /// Probability that only the candidate is right.
    #[must_use]
    pub fn p10(self) -> f64 {
        self.p10
    }

    /// Probability that only the primary is right.
    #[must_use]
    pub fn p01(self) -> f64 {
        self.p01
    }

    /// Probability that both are wrong.
    #[must_use]
    pub fn p00(self) -> f64 {
        self.p00
    }

    /// True difference, candidate minus primary, in share right.
    #[must_use]
    pub fn difference(self) -> f64 {
        self.p10 - self.p01
    }

    /// Probability that exactly one is right. It, not accuracy, drives how many pairs are needed.
    #[must_use]
    pub fn disagreement(self) -> f64 {
        self.p10 + self.p01
    }
}

/// P(the rule promotes) after `n` pairs that are independent draws from `joint`.
///
/// Exact up to rounding: relative error about 10⁻¹², also for results as small as 10⁻²⁵⁰. Valid for any
/// n up to 2⁵³ and any joint distribution, with no disagreement or nothing but disagreement too. Takes
/// about √(n·p(1−p)) steps (some microseconds for thousands of pairs, a millisecond for a million), and
/// the square of it for rules that look at agreement.
///
/// `None` where [`Rule::at`] gives none.
/// Source of the two-stage sum: the multinomial factors as S ~ Bin(n, p10 + p01),
/// n10 | S ~ Bin(S, p10/(p10 + p01)), n11 | S ~ Bin(n − S, p11/(p11 + p00)). That a rule promotes from
/// some number of wins on holds for each of them and is checked by enumeration in the tests.
#[must_use]
pub fn promotion_probability(
    rule: Rule,
    n: u64,
    joint: Joint,
    criterion: Criterion,
) -> Option<f64> {
    Some(rule.at(n, criterion)?.promotion_probability(joint))
}

impl Decider {
    /// [`promotion_probability`] for a rule that is ready: several distributions cost one preparation,
    /// which matters for the exact unconditional rule.
    #[must_use]
    pub fn promotion_probability(&self, joint: Joint) -> f64 {
        if self.looks_at_agreement() {
            over_agreement(self, joint)
        } else {
            over_disagreement(self.n(), joint, |s, n10| self.promotes(n10, s - n10, 0))
        }
    }
}

/// A contribution below this share of the sum cannot change it: the walk outward ends here.
const NEGLIGIBLE: f64 = 1e-18;

/// Steps after which a probability carried on by ratios is computed afresh.
const FRESH: u64 = 256;

/// The terms of a binomial distribution outward from its likeliest value.
#[derive(Clone, Copy)]
struct Walk {
    n: u64,
    p: f64,
    q: f64,
    /// The likeliest count.
    mode: u64,
    /// Its probability.
    peak: f64,
}

impl Walk {
    fn new(n: u64, p: f64, q: f64) -> Self {
        let mode = (((n + 1) as f64 * p).floor() as u64).min(n);
        let peak = binomial_pmf(mode as f64, n as f64, p, q);
        Self {
            n,
            p,
            q,
            mode,
            peak,
        }
    }

    /// The count above and its probability; a probability of zero ends the walk.
    fn above(&self, count: u64, probability: f64) -> (u64, f64) {
        if count == self.n || self.q <= 0.0 {
            return (count, 0.0);
        }
        let next = count + 1;
        let ratio = (self.n - count) as f64 / next as f64 * (self.p / self.q);
        (next, self.carried(next, probability * ratio))
    }

    /// The count below and its probability; a probability of zero ends the walk.
    fn below(&self, count: u64, probability: f64) -> (u64, f64) {
        if count == 0 || self.p <= 0.0 {
            return (count, 0.0);
        }
        let next = count - 1;
        let ratio = count as f64 / (self.n - next) as f64 * (self.q / self.p);
        (next, self.carried(next, probability * ratio))
    }

    fn carried(&self, count: u64, probability: f64) -> f64 {
        if count.is_multiple_of(FRESH) {
            binomial_pmf(count as f64, self.n as f64, self.p, self.q)
        } else {
            probability
        }
    }
}

/// The chances `part` and `rest` as shares of their sum; a sum of zero has nothing to share.
fn shares(part: f64, rest: f64) -> (f64, f64) {
    let sum = part + rest;
    if sum > 0.0 {
        (part / sum, rest / sum)
    } else {
        (0.5, 0.5)
    }
}

/// Moves k to the first number of wins that promotes, by steps from where it is.
fn settle(tail: &mut MovingTail, s: u64, promotes: impl Fn(u64) -> bool) {
    let mut k = tail.k() as u64;
    if k > 0 && promotes(k - 1) {
        while k > 0 && promotes(k - 1) {
            tail.lower();
            k -= 1;
        }
    } else {
        while k <= s && !promotes(k) {
            tail.raise();
            k += 1;
        }
    }
}

/// The first number of wins out of `s` that promotes, s + 1 if none does, by halving.
fn first_promoted(s: u64, promotes: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, s + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if promotes(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Σ P(S)·P(n10 ≥ k(S) | S) for a decision on (S, n10) that holds from some k(S) on.
pub(super) fn over_disagreement(n: u64, joint: Joint, promotes: impl Fn(u64, u64) -> bool) -> f64 {
    let (wins, losses) = shares(joint.p10, joint.p01);
    let (disagree, agree) = shares(joint.p10 + joint.p01, joint.p11 + joint.p00);
    let walk = Walk::new(n, disagree, agree);
    let first = first_promoted(walk.mode, |n10| promotes(walk.mode, n10));
    let start = MovingTail::new(walk.mode as f64, first as f64, wins, losses);

    let (mut sum, mut tail) = (0.0, start);
    let (mut s, mut probability) = (walk.mode, walk.peak);
    loop {
        sum += probability * tail.tail();
        (s, probability) = walk.below(s, probability);
        if probability <= NEGLIGIBLE * sum {
            break;
        }
        tail.fewer_trials();
        settle(&mut tail, s, |n10| promotes(s, n10));
    }
    tail = start;
    (s, probability) = walk.above(walk.mode, walk.peak);
    while probability > NEGLIGIBLE * sum {
        tail.more_trials();
        settle(&mut tail, s, |n10| promotes(s, n10));
        sum += probability * tail.tail();
        (s, probability) = walk.above(s, probability);
    }
    sum.min(1.0)
}

/// The same with one more sum inside, over the agreeing pairs that both get right.
fn over_agreement(decider: &Decider, joint: Joint) -> f64 {
    let n = decider.n();
    let (wins, losses) = shares(joint.p10, joint.p01);
    let (disagree, agree) = shares(joint.p10 + joint.p01, joint.p11 + joint.p00);
    let (both, neither) = shares(joint.p11, joint.p00);
    let walk = Walk::new(n, disagree, agree);

    // P(promote, S = s) for the sum so far, `tail` standing at the likeliest n11 of the last s.
    let inner = |s: u64, probability: f64, tail: &mut MovingTail, so_far: f64| {
        let right = Walk::new(n - s, both, neither);
        let least = |sum: f64| NEGLIGIBLE * (so_far / probability + sum);
        settle(tail, s, |n10| decider.promotes(n10, s - n10, right.mode));
        let mut sum = right.peak * tail.tail();
        for upward in [false, true] {
            let mut moving = *tail;
            let (mut n11, mut weight) = (right.mode, right.peak);
            loop {
                (n11, weight) = if upward {
                    right.above(n11, weight)
                } else {
                    right.below(n11, weight)
                };
                if weight <= least(sum) {
                    break;
                }
                settle(&mut moving, s, |n10| decider.promotes(n10, s - n10, n11));
                sum += weight * moving.tail();
            }
        }
        probability * sum
    };

    let mode = Walk::new(n - walk.mode, both, neither).mode;
    let first = first_promoted(walk.mode, |n10| {
        decider.promotes(n10, walk.mode - n10, mode)
    });
    let start = MovingTail::new(walk.mode as f64, first as f64, wins, losses);
    let mut sum = 0.0;
    let mut tail = start;
    let (mut s, mut probability) = (walk.mode, walk.peak);
    loop {
        sum += inner(s, probability, &mut tail, sum);
        (s, probability) = walk.below(s, probability);
        if probability <= NEGLIGIBLE * sum {
            break;
        }
        tail.fewer_trials();
    }
    tail = start;
    (s, probability) = walk.above(walk.mode, walk.peak);
    while probability > NEGLIGIBLE * sum {
        tail.more_trials();
        sum += inner(s, probability, &mut tail, sum);
        (s, probability) = walk.above(s, probability);
    }
    sum.min(1.0)
}

/// P(the rule's two-sided interval at critical value `z` contains the true difference) after `n` pairs
/// from `joint`, by enumerating tables: exact. Nominal is 2·Φ(z) − 1.
///
/// The work grows with n² (n³ for rules that look at agreement), so n is at most 400 (100).
/// `None` above that, for n = 0 and for the exact unconditional test, which has no interval. Tables for
/// which the rule has no interval (one pair under the Wald rules) count as not covered.
#[must_use]
pub fn coverage(rule: Rule, n: u64, joint: Joint, z: f64) -> Option<f64> {
    let most = if rule.looks_at_agreement() { 100 } else { 400 };
    if n == 0 || n > most || rule == Rule::ExactUnconditional {
        return None;
    }
    let (wins, losses) = shares(joint.p10, joint.p01);
    let (disagree, agree) = shares(joint.p10 + joint.p01, joint.p11 + joint.p00);
    let (both, neither) = shares(joint.p11, joint.p00);
    let truth = joint.difference();
    let covered = |n11, n10, n01, n00| {
        let counts = super::rule::Counts { n11, n10, n01, n00 };
        // A limit that equals the truth but for rounding covers it.
        rule.limits(counts, z)
            .is_some_and(|limits| limits.low - 1e-12 <= truth && truth <= limits.high + 1e-12)
    };
    let mut sum = 0.0;
    for s in 0..=n {
        let discordant = binomial_pmf(s as f64, n as f64, disagree, agree);
        for n10 in 0..=s {
            let weight = discordant * binomial_pmf(n10 as f64, s as f64, wins, losses);
            if weight == 0.0 {
                continue;
            }
            let rest = n - s;
            if !rule.looks_at_agreement() {
                sum += weight * f64::from(u8::from(covered(rest, n10, s - n10, 0)));
                continue;
            }
            for n11 in 0..=rest {
                if covered(n11, n10, s - n10, rest - n11) {
                    sum += weight * binomial_pmf(n11 as f64, rest as f64, both, neither);
                }
            }
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Counts, RULES};

    fn criterion(margin: f64) -> Criterion {
        Criterion::new(margin, 1.96).unwrap()
    }

    /// ln n!, for multinomial probabilities that share nothing with the code under test.
    fn log_factorial(n: u64) -> f64 {
        (2..=n).map(|i| libm::log(i as f64)).sum()
    }

    /// Every table of n pairs with its multinomial probability and whether the rule promotes it.
    fn tables(rule: Rule, n: u64, joint: Joint, criterion: Criterion) -> Vec<(Counts, f64, bool)> {
        let decider = rule.at(n, criterion).unwrap();
        let power = |p: f64, k: u64| if k == 0 { 0.0 } else { k as f64 * libm::log(p) };
        let mut all = Vec::new();
        let logs: Vec<f64> = (0..=n).map(log_factorial).collect();
        for n10 in 0..=n {
            for n01 in 0..=n - n10 {
                let rest = n - n10 - n01;
                // Without a look at agreement the split of the rest is of no interest.
                let split = if rule.looks_at_agreement() {
                    0..=rest
                } else {
                    rest..=rest
                };
                for n11 in split {
                    let n00 = rest - n11;
                    let (p11, p00) = if rule.looks_at_agreement() {
                        (joint.p11(), joint.p00())
                    } else {
                        (joint.p11() + joint.p00(), 0.0)
                    };
                    let log = logs[n as usize]
                        - [n11, n10, n01, n00]
                            .iter()
                            .map(|k| logs[*k as usize])
                            .sum::<f64>()
                        + power(p11, n11)
                        + power(joint.p10(), n10)
                        + power(joint.p01(), n01)
                        + power(p00, n00);
                    let counts = Counts { n11, n10, n01, n00 };
                    all.push((counts, libm::exp(log), decider.promotes(n10, n01, n11)));
                }
            }
        }
        all
    }

    fn joints() -> Vec<Joint> {
        [
            (0.981, 0.005, 0.0133, 0.0007),
            (0.5, 0.1, 0.1, 0.3),
            (0.1, 0.6, 0.25, 0.05),
            (0.0, 0.5, 0.5, 0.0),
            (0.0, 1.0, 0.0, 0.0),
            (0.0, 0.0, 1.0, 0.0),
            (1.0, 0.0, 0.0, 0.0),
            (0.4, 0.0, 0.1, 0.5),
            (0.7, 0.2, 0.0, 0.1),
        ]
        .into_iter()
        .map(|(p11, p10, p01, p00)| Joint::new(p11, p10, p01, p00).unwrap())
        .collect()
    }

    #[test]
    fn the_sum_is_the_sum_over_all_tables() {
        for &(name, rule) in RULES {
            for n in [0, 1, 2, 3, 7, 20, 33, 40] {
                for margin in [0.0, 0.03, 0.2, 0.9] {
                    for joint in joints() {
                        let want: f64 = tables(rule, n, joint, criterion(margin))
                            .iter()
                            .filter(|(_, _, promoted)| *promoted)
                            .map(|(_, probability, _)| probability)
                            .sum();
                        let got = promotion_probability(rule, n, joint, criterion(margin)).unwrap();
                        assert!(
                            (got - want).abs() <= 1e-11 * want + 1e-300,
                            "{name}, n {n}, margin {margin}, {joint:?}: {got:e} {want:e}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn every_rule_promotes_from_some_number_of_wins_on() {
        // What the algorithm rests on: at a given S (and n11) more wins never undo a promotion.
        for &(name, rule) in RULES {
            for n in [1_u64, 2, 13, 30, 61, 120] {
                for (margin, z) in [
                    (0.0, 1.96),
                    (0.03, 1.96),
                    (0.1, 1.0),
                    (0.3, 3.0),
                    (0.9, 1.645),
                ] {
                    let decider = rule.at(n, Criterion::new(margin, z).unwrap()).unwrap();
                    for s in 0..=n {
                        let rest = n - s;
                        let agreeing = if rule.looks_at_agreement() { rest } else { 0 };
                        for n11 in 0..=agreeing {
                            let mut before = false;
                            for n10 in 0..=s {
                                let now = decider.promotes(n10, s - n10, n11);
                                assert!(
                                    now || !before,
                                    "{name} {n} {margin} {z}: {n11} {n10} of {s}"
                                );
                                before = now;
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn extreme_inputs_are_finite_and_right() {
        let million = 1_000_000;
        for &(name, rule) in RULES {
            if rule == Rule::ExactUnconditional {
                let none = promotion_probability(rule, million, joints()[0], criterion(0.03));
                assert_eq!(none, None);
                continue;
            }
            let p = |n, joint, margin| {
                promotion_probability(rule, n, joint, criterion(margin)).unwrap()
            };
            let [agree, win, lose] = [6, 4, 5].map(|index| joints()[index]);
            assert_eq!(p(0, agree, 0.03), 0.0, "{name}");
            for n in [1_000, million] {
                assert_eq!(p(n, agree, 0.03), 1.0, "{name}");
                assert_eq!(p(n, win, 0.0), 1.0, "{name}");
                assert_eq!(p(n, lose, 0.03), 0.0, "{name}");
            }
        }
        // A million pairs that disagree half of the time, at the margin: nominal.
        let joint = Joint::from_disagreement(0.245, 0.255).unwrap();
        let error = promotion_probability(Rule::Tango, million, joint, criterion(0.01)).unwrap();
        assert!((error - criterion(0.01).alpha()).abs() < 1e-4, "{error}");
        // Hopeless: a probability that is tiny, but not zero.
        let joint = Joint::from_disagreement(0.02, 0.08).unwrap();
        let hopeless = promotion_probability(Rule::Tango, 10_000, joint, criterion(0.03)).unwrap();
        assert!(hopeless > 0.0 && hopeless < 1e-30, "{hopeless:e}");
    }

    #[test]
    fn joint_distributions_that_are_none_are_refused() {
        assert!(Joint::new(0.5, 0.5, 0.1, 0.0).is_none());
        assert!(Joint::new(1.1, -0.1, 0.0, 0.0).is_none());
        assert!(Joint::new(f64::NAN, 0.1, 0.1, 0.8).is_none());
        assert!(Joint::from_disagreement(0.6, 0.6).is_none());
        assert!(Joint::at_margin(0.03, 0.02, 0.9).is_none());
        assert!(Joint::at_margin(0.03, 0.3, 0.99).is_none());
        let joint = Joint::from_accuracies(0.9, 0.92, 0.06).unwrap();
        assert!((joint.p11() + joint.p10() - 0.9).abs() < 1e-15);
        assert!((joint.p11() + joint.p01() - 0.92).abs() < 1e-15);
        assert!(Joint::from_accuracies(0.9, 0.8, 0.05).is_none());
    }

    #[test]
    fn coverage_is_what_enumeration_of_multinomials_gives() {
        let joint = Joint::new(0.6, 0.1, 0.15, 0.15).unwrap();
        for &(name, rule) in RULES {
            let n = 12;
            let Some(got) = coverage(rule, n, joint, 1.96) else {
                assert_eq!(rule, Rule::ExactUnconditional, "{name}");
                continue;
            };
            let want: f64 = tables(rule, n, joint, criterion(0.03))
                .iter()
                .filter(|(counts, _, _)| {
                    let limits = rule.limits(*counts, 1.96).unwrap();
                    limits.low <= joint.difference() + 1e-12
                        && joint.difference() <= limits.high + 1e-12
                })
                .map(|(_, probability, _)| probability)
                .sum();
            assert!((got - want).abs() < 1e-12, "{name}: {got} {want}");
        }
        assert_eq!(coverage(Rule::Tango, 0, joint, 1.96), None);
        assert_eq!(coverage(Rule::Tango, 401, joint, 1.96), None);
        assert_eq!(coverage(Rule::Newcombe10, 101, joint, 1.96), None);
    }

    #[test]
    fn tangos_interval_keeps_its_level_where_walds_does_not() {
        // 50 pairs that disagree four times in a hundred.
        let joint = Joint::new(0.93, 0.015, 0.025, 0.03).unwrap();
        let of = |rule| coverage(rule, 50, joint, 1.96).unwrap();
        assert!(of(Rule::Tango) > 0.95, "{}", of(Rule::Tango));
        assert!(of(Rule::WaldLesson) < 0.88, "{}", of(Rule::WaldLesson));
        // In the middle all of them are near nominal.
        let joint = Joint::new(0.4, 0.2, 0.25, 0.15).unwrap();
        for &(name, rule) in RULES {
            if let Some(coverage) = coverage(rule, 60, joint, 1.96) {
                assert!((coverage - 0.95).abs() < 0.02, "{name}: {coverage}");
            }
        }
    }
}
