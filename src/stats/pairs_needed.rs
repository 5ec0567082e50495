//! How many pairs a promotion takes, and what margin a number of pairs can certify.
//!
//! Power is not monotone in n: counts are whole, so it rises slowly and falls suddenly, like the teeth of
//! a saw. One "n for 80 %" therefore hides something. The first n with the power is where it can be had
//! by stopping at just the right moment; the settled n is the one after which it stays.

use super::promotion::{Joint, promotion_probability};
use super::quantile::z_two_sided;
use super::rule::{Criterion, DECIMAL, Rule};

/// Pairs needed for a promotion with a given power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairsNeeded {
    /// The first n with at least the power.
    pub first: u64,
    /// The n from which the power never falls below again, as far as was looked.
    pub settled: u64,
    /// Every n from [`settled`](Self::settled) to this one was evaluated and has the power. It spans two
    /// teeth of the saw or more; beyond it the teeth get smaller and the power rises.
    pub verified_to: u64,
}

/// Most pairs that are asked for; what needs more is as good as never.
const PAIRS_MAX: f64 = 1e7;

/// Up to this many pairs every n from the floor on is evaluated.
const EXHAUSTIVE: u64 = 4_000;

/// Fewest and most consecutive n that have to agree before they are believed.
const TEETH: (f64, f64) = (64.0, 5_000.0);

/// The first n at which agreement of all pairs is evidence: (1 − rate)ⁿ ≤ α, rate being that of
/// disagreement. With the margin as the rate, no valid rule promotes on perfect agreement below it,
/// because a candidate worse by the margin that never wins would agree throughout more often than α.
///
/// `None` unless 0 < rate < 1 and 0 < α < 1.
#[must_use]
pub fn no_disagreement_floor(rate: f64, alpha: f64) -> Option<u64> {
    let in_range = rate > 0.0 && rate < 1.0 && alpha > 0.0 && alpha < 1.0;
    let floor = in_range.then(|| libm::log(alpha) / libm::log1p(-rate))?;
    (floor < 1e15).then(|| floor.ceil().max(1.0) as u64)
}

/// Pairs needed so that the rule promotes a candidate of this joint distribution with probability
/// `power`, by exact evaluation ([`promotion_probability`]).
///
/// Numbers below [`no_disagreement_floor`] are not looked at: a rule that promotes there (Wald's, whose
/// standard error is zero without disagreement) does so without evidence. With margin zero the rate of
/// disagreement stands in for the margin. Up to 4,000 pairs every n from the floor on is evaluated;
/// above, and for the exact unconditional rule, the search starts where two teeth of the saw lie wholly below the power, and everything
/// before that is taken to lie below it too.
///
/// Takes milliseconds for hundreds of pairs and some seconds for hundreds of thousands.
///
/// `None` if the candidate is worse by the margin or more (no number of pairs helps), if more than 10⁷
/// pairs are needed (or more than a rule can handle, see [`Rule::at`]), or unless 0 < power < 1.
#[must_use]
pub fn pairs_needed(
    rule: Rule,
    joint: Joint,
    criterion: Criterion,
    power: f64,
) -> Option<PairsNeeded> {
    let guess = approximate_pairs_needed(joint, criterion, power)?;
    if guess > PAIRS_MAX {
        return None;
    }
    let rate = if criterion.margin() > 0.0 {
        criterion.margin()
    } else {
        joint.disagreement()
    };
    // Where the two always disagree, a single pair is evidence.
    let floor = if rate < 1.0 {
        no_disagreement_floor(rate, criterion.alpha())?
    } else {
        1
    };
    let reached = |n: u64| Some(promotion_probability(rule, n, joint, criterion)? >= power);
    // The exact unconditional rule is a search of its own at every n.
    let start = if guess <= EXHAUSTIVE as f64 && rule != Rule::ExactUnconditional {
        floor
    } else {
        below(guess, floor, |n| teeth(n, joint, criterion), reached)?
    };
    let (mut first, mut settled) = (None, None);
    for n in start.. {
        if n as f64 > 4.0 * PAIRS_MAX {
            break;
        }
        if !reached(n)? {
            settled = None;
            continue;
        }
        let first = *first.get_or_insert(n);
        let settled = *settled.get_or_insert(n);
        if n + 1 - settled >= teeth(n, joint, criterion) {
            return Some(PairsNeeded {
                first,
                settled,
                verified_to: n,
            });
        }
    }
    None
}

/// An n from which two teeth lie wholly below the power, going down from `guess`; at least `floor`.
fn below(
    guess: f64,
    floor: u64,
    teeth: impl Fn(u64) -> u64,
    reached: impl Fn(u64) -> Option<bool>,
) -> Option<u64> {
    let mut n = guess;
    loop {
        n *= 0.97;
        let start = (n as u64).max(floor);
        let mut any = false;
        // From above: if the power is reached at all, it is there.
        for near in (start..start + teeth(start)).rev() {
            if reached(near)? {
                any = true;
                break;
            }
        }
        if !any || start == floor {
            return Some(start);
        }
    }
}

/// Consecutive n that span two teeth of the saw at n. The number of net wins that a rule demands is
/// about z·√(n·V) − m·n, and a tooth is what it takes that to move by two.
fn teeth(n: u64, joint: Joint, criterion: Criterion) -> u64 {
    let variance = null_variance(joint, criterion.margin()).max(0.0);
    let slope = criterion.margin() - criterion.z() * (variance / n as f64).sqrt() / 2.0;
    (4.0 / slope.abs()).clamp(TEETH.0, TEETH.1).ceil() as u64
}

/// Variance of one pair's difference under the hypothesis that it is −m: 2q + d(1 − d), d = −m, with q
/// the share "candidate wrong, primary right" that comes nearest to `joint` among those with that
/// difference (Tango's restricted estimate, with probabilities in place of counts).
fn null_variance(joint: Joint, margin: f64) -> f64 {
    let reach = margin * (1.0 + margin);
    let half = joint.disagreement() + (2.0 - joint.difference()) * margin;
    let root = (half * half - 8.0 * joint.p01() * reach).max(0.0).sqrt();
    (half + root) / 2.0 - reach
}

/// Pairs needed by the normal approximation of Tango's test, a cross-check of [`pairs_needed`]:
/// (z·√V0 + z_power·√(pd − δ²))²/(m + δ)², where δ is the true difference, pd the rate of disagreement
/// and V0 the variance of a pair under the hypothesis. Slightly large where disagreement is rare.
///
/// `None` if δ ≤ −m, or unless 0 < power < 1. Not rounded; infinite where m + δ is too small to square.
///
/// Source: the usual normal approximation of power, with different variances under hypothesis and truth;
/// V0 by T. Tango, Statistics in Medicine 17 (1998) 891–908.
#[must_use]
pub fn approximate_pairs_needed(joint: Joint, criterion: Criterion, power: f64) -> Option<f64> {
    let room = criterion.margin() + joint.difference();
    if !(room > 0.0 && power > 0.0 && power < 1.0) {
        return None;
    }
    let quantile = z_two_sided((2.0 * power - 1.0).abs());
    let z_power = if quantile.is_nan() {
        0.0
    } else {
        quantile * (power - 0.5).signum()
    };
    let spread = joint.disagreement() - joint.difference() * joint.difference();
    let reach = criterion.z() * null_variance(joint, criterion.margin()).max(0.0).sqrt()
        + z_power * spread.max(0.0).sqrt();
    Some((reach.max(0.0) / room).powi(2))
}

/// The smallest margin at which the rule promotes a candidate of this joint distribution with probability
/// `power` after `n` pairs; what other fields call the minimal detectable effect.
///
/// Power rises with the margin, so it is found by halving, to 10⁻¹² (10⁻⁶ for the exact unconditional
/// rule, whose cutoff is a search of its own). The power is computed at that margin, so the answer is a
/// margin that has it. Wald's rule certifies any margin when nothing disagrees: do not ask it at small n.
///
/// `None` if no margin below one has the power, unless 0 < power < 1, or as in [`Criterion::new`] and
/// [`Rule::at`].
#[must_use]
pub fn smallest_margin(rule: Rule, n: u64, joint: Joint, z: f64, power: f64) -> Option<f64> {
    if !(power > 0.0 && power < 1.0) {
        return None;
    }
    let steps = if rule == Rule::ExactUnconditional {
        1_000_000
    } else {
        DECIMAL
    };
    let margin = |step: u64| step as f64 / steps as f64;
    let reached = |step: u64| {
        let criterion = Criterion::new(margin(step), z)?;
        Some(promotion_probability(rule, n, joint, criterion)? >= power)
    };
    let (mut low, mut high) = (0, steps - 1);
    if !reached(high)? {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if reached(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(margin(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::RULES;

    fn lesson() -> Criterion {
        Criterion::new(0.03, 1.96).unwrap()
    }

    fn good() -> Joint {
        Joint::new(0.975, 0.01, 0.012, 0.003).unwrap()
    }

    #[test]
    fn first_and_settled_are_what_evaluating_every_n_says() {
        for &(name, rule) in RULES {
            if rule == Rule::ExactUnconditional || rule.looks_at_agreement() {
                continue;
            }
            for power in [0.5, 0.8, 0.95] {
                let got = pairs_needed(rule, good(), lesson(), power).unwrap();
                let reached =
                    |n: u64| promotion_probability(rule, n, good(), lesson()).unwrap() >= power;
                let floor = no_disagreement_floor(0.03, lesson().alpha()).unwrap();
                let first = (floor..).find(|n| reached(*n)).unwrap();
                // Far beyond what was verified.
                let last_short = (floor..4 * got.settled).rev().find(|n| !reached(*n));
                assert_eq!(got.first, first, "{name} {power}");
                assert_eq!(
                    got.settled,
                    last_short.map_or(floor, |n| n + 1),
                    "{name} {power}"
                );
                assert!(got.verified_to >= got.settled + 63, "{name} {power}");
            }
        }
    }

    #[test]
    fn a_search_that_starts_high_finds_the_same_as_one_from_the_floor() {
        let criterion = Criterion::new(0.01, 1.96).unwrap();
        let joint = Joint::from_disagreement(0.03, 0.033).unwrap();
        let guess = approximate_pairs_needed(joint, criterion, 0.9).unwrap();
        assert!(guess > EXHAUSTIVE as f64, "{guess}");
        let got = pairs_needed(Rule::Tango, joint, criterion, 0.9).unwrap();
        let reached =
            |n: u64| promotion_probability(Rule::Tango, n, joint, criterion).unwrap() >= 0.9;
        assert_eq!((300..).find(|n| reached(*n)), Some(got.first));
        assert!((got.settled..got.settled + 2_000).all(reached));
        assert!(!reached(got.settled - 1));
        assert!(
            (got.settled as f64 / guess - 1.0).abs() < 0.02,
            "{got:?} {guess}"
        );
    }

    #[test]
    fn the_exact_test_needs_about_as_many_as_tangos() {
        let criterion = Criterion::new(0.1, 1.96).unwrap();
        let joint = Joint::from_disagreement(0.05, 0.06).unwrap();
        let tango = pairs_needed(Rule::Tango, joint, criterion, 0.8).unwrap();
        let exact = pairs_needed(Rule::ExactUnconditional, joint, criterion, 0.8).unwrap();
        assert!(exact.settled >= tango.first, "{exact:?} {tango:?}");
        assert!(exact.settled <= tango.settled + 30, "{exact:?} {tango:?}");
        assert!(exact.first <= exact.settled && exact.settled < exact.verified_to);
    }

    #[test]
    fn what_no_number_of_pairs_reaches_is_never() {
        let never = |joint: Joint, power| pairs_needed(Rule::Tango, joint, lesson(), power);
        assert_eq!(
            never(Joint::from_disagreement(0.01, 0.04).unwrap(), 0.8),
            None
        );
        assert_eq!(
            never(Joint::from_disagreement(0.01, 0.05).unwrap(), 0.8),
            None
        );
        assert_eq!(
            never(Joint::from_disagreement(0.2, 0.229_999).unwrap(), 0.8),
            None
        );
        assert_eq!(never(good(), 0.0), None);
        assert_eq!(never(good(), 1.0), None);
        assert_eq!(never(good(), f64::NAN), None);
        // Two that never disagree, and no margin: there is nothing to show.
        let same = Joint::from_disagreement(0.0, 0.0).unwrap();
        let zero = Criterion::new(0.0, 1.96).unwrap();
        assert_eq!(pairs_needed(Rule::Tango, same, zero, 0.8), None);
    }

    #[test]
    fn perfect_agreement_and_perfect_victory_need_few() {
        let same = Joint::from_disagreement(0.0, 0.0).unwrap();
        let agreed = pairs_needed(Rule::Tango, same, lesson(), 0.8).unwrap();
        assert_eq!((agreed.first, agreed.settled), (125, 125));
        assert_eq!(no_disagreement_floor(0.03, lesson().alpha()), Some(122));
        assert_eq!(no_disagreement_floor(0.0, 0.025), None);
        assert_eq!(no_disagreement_floor(1e-30, 0.025), None);
        // Every pair won, margin zero: D/√S = √n ≥ 1.96.
        let won = Joint::from_disagreement(1.0, 0.0).unwrap();
        let zero = Criterion::new(0.0, 1.96).unwrap();
        assert_eq!(
            pairs_needed(Rule::Tango, won, zero, 0.8).unwrap().settled,
            4
        );
    }

    #[test]
    fn the_smallest_margin_has_the_power_and_the_next_smaller_has_not() {
        for &(name, rule) in RULES {
            let n = if rule.looks_at_agreement() { 200 } else { 400 };
            let margin = smallest_margin(rule, n, good(), 1.96, 0.8).unwrap();
            let power = |margin: f64| {
                let criterion = Criterion::new(margin, 1.96).unwrap();
                promotion_probability(rule, n, good(), criterion).unwrap()
            };
            let step = if rule == Rule::ExactUnconditional {
                1e-6
            } else {
                1e-12
            };
            assert!(power(margin) >= 0.8, "{name} {margin}");
            assert!(
                margin > step && power(margin - step) < 0.8,
                "{name} {margin}"
            );
        }
    }

    #[test]
    fn more_pairs_certify_smaller_margins_and_too_few_none() {
        let margin = |n| smallest_margin(Rule::Tango, n, good(), 1.96, 0.8);
        assert!(margin(200).unwrap() > margin(800).unwrap());
        assert!(margin(800).unwrap() > margin(1_000_000).unwrap());
        // √(m/(1 − m)) ≥ 1.96 has a solution below one even for a single pair; nothing has without any.
        assert!(margin(1).unwrap() > 0.79);
        assert_eq!(margin(0), None);
        assert_eq!(
            smallest_margin(Rule::Tango, 100, good(), f64::NAN, 0.8),
            None
        );
        assert_eq!(smallest_margin(Rule::Tango, 100, good(), 1.96, 1.5), None);
        // Never better than the truth: a candidate two points worse needs a margin above two points.
        let worse = Joint::from_disagreement(0.01, 0.03).unwrap();
        let least = smallest_margin(Rule::Tango, 1_000_000, worse, 1.96, 0.8).unwrap();
        assert!(least > 0.02 && least < 0.021, "{least}");
    }
}
