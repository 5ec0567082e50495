//! How many labelled examples it takes to pick the right option by measuring.
//!
//! The rule under study takes, of several options ordered from cheapest to dearest, the first whose
//! share of right answers on n labelled examples reaches a bar, and a fallback if none does. With n
//! examples the pick is chance; here is that chance exactly, the n that makes it small, and a way to
//! spend labels where they are needed: options far from the bar are settled by a few examples, options
//! at the bar by none that anybody can pay for.
//!
//! What it is not: an estimate from data. The true accuracies are inputs, from a model of the traffic
//! or from a guess one wants to plan for.

use super::binomial::{binomial_lower, binomial_upper};
use super::sprt::Sprt;
use super::stream_test::{OperatingCharacteristics, StreamTest, operating_characteristics};

/// A share that must be reached, in whole millionths, so that equality is decided in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bar(u32);

impl Bar {
    /// A bar of so many millionths: 880,000 is 88 %. `None` above a million.
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths <= 1_000_000 {
            Some(Self(millionths))
        } else {
            None
        }
    }

    /// The nearest millionth to a share. `None` outside [0, 1].
    #[must_use]
    pub fn from_share(share: f64) -> Option<Self> {
        (0.0..=1.0)
            .contains(&share)
            .then(|| Self((share * 1e6).round() as u32))
    }

    /// The share.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// The fewest right answers out of `n` that reach the bar: ⌈bar·n⌉.
    #[must_use]
    pub fn least_right(self, n: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(n);
        // At most n, as the bar is at most one.
        u64::try_from(product.div_ceil(1_000_000)).unwrap_or(n)
    }
}

/// "The cheapest that passes": the first option whose score reaches the bar, else the fallback.
///
/// Options are named by their place from cheapest to dearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheapestPassing {
    /// What a score has to reach.
    pub bar: Bar,
    /// The option taken when none reaches it; usually the dearest, which then need not be measured.
    pub fallback: usize,
}

/// Examples per option with which the right pick is likely enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvalSize {
    /// The first n with the wanted chance. The chance is saw-toothed in n, because whole right answers
    /// must reach the bar, so that a few more examples may lower it again.
    pub first: u64,
    /// The n from which on the chance stays at or above the wanted one, up to the cap.
    pub settled: u64,
}

/// What measuring options one after the other by a sequential test comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct SequentialEval {
    /// Chance that each option is picked.
    pub picks: Vec<f64>,
    /// What the test does on each option that is measured: all but a fallback that comes last.
    pub tests: Vec<OperatingCharacteristics>,
    /// Expected labelled examples in all: an option is measured only if those before it failed.
    pub labels: f64,
}

impl CheapestPassing {
    /// The option picked if the true accuracies are known. `None` unless they are shares and the
    /// fallback is one of them.
    #[must_use]
    pub fn oracle(&self, accuracies: &[f64]) -> Option<usize> {
        let bar = self.bar.share();
        self.fits(accuracies).then(|| {
            let first = accuracies.iter().position(|accuracy| *accuracy >= bar);
            first.unwrap_or(self.fallback)
        })
    }

    /// The chance that each option is picked when every one is measured on `n` labelled examples of
    /// its own: with Pᵢ = P(Bin(n, accuracyᵢ) ≥ ⌈bar·n⌉) it is Pᵢ·Π(1 − Pⱼ) over those before it.
    ///
    /// Written to `picks`, one for each option; nothing is allocated. `None` unless n is at least 1,
    /// `picks` is as long as `accuracies`, these are shares and the fallback is one of them.
    ///
    /// With the same examples for all options the cheapest one is picked as often; the chances of the
    /// others then depend on how their errors coincide.
    pub fn picks_into(&self, n: u64, accuracies: &[f64], picks: &mut [f64]) -> Option<()> {
        if n == 0 || picks.len() != accuracies.len() || !self.fits(accuracies) {
            return None;
        }
        let (n, least) = (n as f64, self.bar.least_right(n) as f64);
        let mut rest = 1.0;
        for (i, (pick, &accuracy)) in picks.iter_mut().zip(accuracies).enumerate() {
            let (fails, passes) = if self.is_free(i, accuracies) {
                (1.0, 0.0)
            } else {
                sides(least, n, accuracy)
            };
            *pick = rest * passes;
            rest *= fails;
        }
        picks[self.fallback] += rest;
        Some(())
    }

    /// [`CheapestPassing::picks_into`] a new vector.
    #[must_use]
    pub fn picks(&self, n: u64, accuracies: &[f64]) -> Option<Vec<f64>> {
        let mut picks = vec![0.0; accuracies.len()];
        self.picks_into(n, accuracies, &mut picks)?;
        Some(picks)
    }

    /// The examples per option with which the oracle's option is picked with chance `target`.
    ///
    /// `None` if no n up to `cap` settles it: an option is a near tie, so near the bar that no
    /// practical number of examples tells on which side it lies. The answer is then to move the bar or
    /// to accept either pick. Also `None` unless 0 < target < 1 and the accuracies are as for
    /// [`CheapestPassing::oracle`].
    ///
    /// Where Chernoff's bound exp(−n·KL(bar‖accuracy)) already promises the chance, n need not be
    /// looked at; below, every n is. The work grows as that bound times its square root.
    #[must_use]
    pub fn examples_needed(&self, accuracies: &[f64], target: f64, cap: u64) -> Option<EvalSize> {
        let oracle = self.oracle(accuracies)?;
        if !(target > 0.0 && target < 1.0) {
            return None;
        }
        let mut picks = vec![0.0; accuracies.len()];
        let mut enough = |n: u64| {
            self.picks_into(n, accuracies, &mut picks);
            picks[oracle] >= target
        };
        // Where nothing is promised the float is infinite, and `as` saturates.
        let promised = self.promised(oracle, accuracies, target).ceil() as u64;
        let start = cap.min(promised);
        let settled = match (1..=start).rev().find(|&n| !enough(n)) {
            Some(last) if last >= cap => return None,
            Some(last) => last + 1,
            None => 1,
        };
        if settled > cap {
            return None;
        }
        let first = (1..=settled).find(|&n| enough(n))?;
        Some(EvalSize { first, settled })
    }

    /// n from which on the wanted chance is certain, because every measurement that matters falls on
    /// its side of the bar: the union of H. Chernoff's bounds (Annals of Mathematical Statistics 23
    /// (1952) 493–507).
    fn promised(&self, oracle: usize, accuracies: &[f64], target: f64) -> f64 {
        let bar = self.bar.share();
        let passes = accuracies[oracle] >= bar;
        let matters = |i: &usize| if passes { *i <= oracle } else { *i != oracle };
        let term = |a: f64, b: f64| if a > 0.0 { a * libm::log(a / b) } else { 0.0 };
        let divergence = |i: usize| term(bar, accuracies[i]) + term(1.0 - bar, 1.0 - accuracies[i]);
        let mattering = (0..accuracies.len()).filter(matters);
        let least = mattering
            .clone()
            .map(divergence)
            .fold(f64::INFINITY, f64::min);
        let count = mattering.count().max(1) as f64;
        // A bar of zero is reached by any score, and then the divergence is zero only if it is a tie.
        let divergence = if self.bar.0 == 0 {
            f64::INFINITY
        } else {
            least
        };
        libm::log(count / (1.0 - target)) / divergence.max(0.0)
    }

    /// The chances and the expected labels when the options are measured from the cheapest on, each
    /// until `test` decides, at most `cap` examples, and measuring ends with the first that passes.
    /// H1 is "reaches the bar"; what is undecided at the cap has not passed.
    ///
    /// `None` for accuracies as for [`CheapestPassing::oracle`].
    #[must_use]
    pub fn sequential(
        &self,
        accuracies: &[f64],
        test: &impl StreamTest,
        cap: u64,
    ) -> Option<SequentialEval> {
        if !self.fits(accuracies) {
            return None;
        }
        let mut found = SequentialEval {
            picks: vec![0.0; accuracies.len()],
            tests: Vec::with_capacity(accuracies.len()),
            labels: 0.0,
        };
        let mut rest = 1.0;
        for (i, &accuracy) in accuracies.iter().enumerate() {
            if self.is_free(i, accuracies) {
                break;
            }
            let test = operating_characteristics(test, accuracy, Some(cap))?;
            found.picks[i] = rest * test.accept_h1;
            found.labels += rest * test.expected_n;
            rest *= test.accept_h0 + test.undecided;
            found.tests.push(test);
        }
        found.picks[self.fallback] += rest;
        Some(found)
    }

    fn fits(&self, accuracies: &[f64]) -> bool {
        let is_share = |accuracy: &f64| (0.0..=1.0).contains(accuracy);
        self.fallback < accuracies.len() && accuracies.iter().all(is_share)
    }

    /// Whether an option is taken without being measured: a fallback with no option after it.
    fn is_free(&self, option: usize, accuracies: &[f64]) -> bool {
        option == self.fallback && option + 1 == accuracies.len()
    }
}

/// P(X < k) and P(X ≥ k) for X binomial, from one sum: the smaller has its own digits.
fn sides(k: f64, n: f64, p: f64) -> (f64, f64) {
    let q = 1.0 - p;
    if k > n * p {
        let upper = binomial_upper(k, n, p, q);
        (1.0 - upper, upper)
    } else {
        let lower = binomial_lower(k - 1.0, n, p, q);
        (lower, 1.0 - lower)
    }
}

/// A sequential test of "reaches the bar" that may err, but by no more than `alpha` (passing) and
/// `beta` (failing), only outside a zone of indifference: H0 is bar − `zone`, H1 is bar + `zone`.
/// Within the zone either decision is fine, and the labels needed stay finite.
///
/// `None` unless both ends lie strictly between 0 and 1 and the errors are as for [`Sprt::new`].
#[must_use]
pub fn indifference_zone(bar: Bar, zone: f64, alpha: f64, beta: f64) -> Option<Sprt> {
    Sprt::new(bar.share() - zone, bar.share() + zone, alpha, beta)
}

/// One cell of the traffic, such as a kind of task: what may be picked there, and what comes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalCell<'a> {
    /// Its share of the traffic.
    pub share: f64,
    /// Chance that each option is picked.
    pub picks: &'a [f64],
    /// The option that should be.
    pub oracle: usize,
    /// Accuracy of each option on the traffic of this cell.
    pub accuracy: &'a [f64],
    /// Cost of a request with each option, in any unit.
    pub cost: &'a [f64],
}

/// What the picks come to over all cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalOutlook {
    /// Expected number of cells with the oracle's option.
    pub matches: f64,
    /// Chance that all cells have it, if they are measured on examples of their own.
    pub all_match: f64,
    /// Expected accuracy over the traffic.
    pub accuracy: f64,
    /// Expected cost of a request, in the unit of the cells.
    pub cost: f64,
    /// Accuracy with the oracle's option in every cell.
    pub oracle_accuracy: f64,
    /// Cost of a request with the oracle's option in every cell.
    pub oracle_cost: f64,
}

impl EvalOutlook {
    /// Sums over the cells. `None` when a cell's lists differ in length or its oracle is not in them.
    /// Nothing is allocated.
    #[must_use]
    pub fn new(cells: &[EvalCell<'_>]) -> Option<Self> {
        let mut sum = Self {
            matches: 0.0,
            all_match: 1.0,
            accuracy: 0.0,
            cost: 0.0,
            oracle_accuracy: 0.0,
            oracle_cost: 0.0,
        };
        for cell in cells {
            let options = cell.picks.len();
            if cell.accuracy.len() != options || cell.cost.len() != options {
                return None;
            }
            let expected = |values: &[f64]| -> f64 {
                cell.picks
                    .iter()
                    .zip(values)
                    .map(|(pick, value)| pick * value)
                    .sum()
            };
            let matches = *cell.picks.get(cell.oracle)?;
            sum.matches += matches;
            sum.all_match *= matches;
            sum.accuracy += cell.share * expected(cell.accuracy);
            sum.cost += cell.share * expected(cell.cost);
            sum.oracle_accuracy += cell.share * cell.accuracy[cell.oracle];
            sum.oracle_cost += cell.share * cell.cost[cell.oracle];
        }
        Some(sum)
    }

    /// What a request loses against the oracle's picks, if a right answer is worth `value` in the unit
    /// of the costs.
    ///
    /// Accuracy alone misleads: a pick that is too dear raises it. Negative if the bar is not where
    /// this value would put it.
    #[must_use]
    pub fn regret(&self, value: f64) -> f64 {
        value * (self.oracle_accuracy - self.accuracy) + self.cost - self.oracle_cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{BernoulliMixture, BernoulliSequence};
    use proptest::prelude::*;

    fn bar(share: f64) -> Bar {
        Bar::from_share(share).unwrap()
    }

    fn rule(share: f64, fallback: usize) -> CheapestPassing {
        CheapestPassing {
            bar: bar(share),
            fallback,
        }
    }

    /// The chance of `right` out of n, multiplied out.
    fn term(n: u64, right: u64, p: f64) -> f64 {
        let choose = |n: u64, k: u64| (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
        choose(n, right) * p.powi(right as i32) * (1.0 - p).powi((n - right) as i32)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn picks_are_those_of_all_outcomes(
            accuracies in prop::array::uniform3(0.0_f64..=1.0), n in 1_u64..9, fallback in 0_usize..3,
            share in 0.0_f64..=1.0,
        ) {
            let rule = rule(share, fallback);
            let mut expected = [0.0; 3];
            for a in 0..=n {
                for b in 0..=n {
                    for c in 0..=n {
                        let chance = term(n, a, accuracies[0]) * term(n, b, accuracies[1])
                            * term(n, c, accuracies[2]);
                        // The definition, in integers: right/n ≥ bar.
                        let passes = |right: u64| right * 1_000_000 >= n * u64::from(rule.bar.0);
                        let pick = [a, b, c].iter().position(|right| passes(*right));
                        expected[pick.unwrap_or(fallback)] += chance;
                    }
                }
            }
            let picks = rule.picks(n, &accuracies).unwrap();
            for (pick, expected) in picks.iter().zip(expected) {
                prop_assert!((pick - expected).abs() < 1e-12, "{:?}", picks);
            }
        }

        #[test]
        fn sizes_are_those_found_by_trying_every_n(
            accuracies in prop::array::uniform3(0.3_f64..1.0), share in 0.3_f64..0.95, target in 0.5_f64..0.99,
            fallback in 0_usize..3,
        ) {
            let rule = rule(share, fallback);
            let oracle = rule.oracle(&accuracies).unwrap();
            let cap = 400;
            let enough: Vec<u64> = (1..=cap)
                .filter(|n| rule.picks(*n, &accuracies).unwrap()[oracle] >= target)
                .collect();
            let settled = (1..=cap).rev().take_while(|n| enough.contains(n)).last();
            let expected = settled.map(|settled| EvalSize { first: enough[0], settled });
            prop_assert_eq!(rule.examples_needed(&accuracies, target, cap), expected);
        }
    }

    #[test]
    fn equality_with_the_bar_is_decided_in_integers() {
        assert_eq!(bar(0.88).least_right(15), 14);
        assert_eq!(bar(0.88).least_right(25), 22);
        assert_eq!(bar(0.88).least_right(300), 264);
        assert_eq!(bar(0.7).least_right(10), 7);
        assert_eq!(bar(0.0).least_right(10), 0);
        assert_eq!(bar(1.0).least_right(u64::MAX), u64::MAX);
        assert_eq!(Bar::from_millionths(1_000_001), None);
        assert_eq!(Bar::from_millionths(880_000), Bar::from_share(0.88));
        for share in [-0.1, 1.1, f64::NAN] {
            assert_eq!(Bar::from_share(share), None);
        }
    }

    #[test]
    fn a_tie_with_the_bar_is_never_settled() {
        let rule = rule(0.88, 2);
        assert_eq!(rule.examples_needed(&[0.88, 0.95, 0.99], 0.8, 20_000), None);
        assert_eq!(
            rule.examples_needed(&[0.8799, 0.95, 0.99], 0.8, 5_000),
            None
        );
        let clear = rule
            .examples_needed(&[0.2, 0.4, 0.99], 0.99, 20_000)
            .unwrap();
        assert!(clear.settled < 20, "{clear:?}");
        // Certain options are settled by one example.
        let sure = rule.examples_needed(&[1.0, 1.0, 1.0], 0.99, 20_000);
        assert_eq!(
            sure,
            Some(EvalSize {
                first: 1,
                settled: 1
            })
        );
        let hopeless = rule.examples_needed(&[0.0, 0.0, 0.0], 0.99, 20_000);
        assert_eq!(
            hopeless,
            Some(EvalSize {
                first: 1,
                settled: 1
            })
        );
        for target in [0.0, 1.0, f64::NAN] {
            assert_eq!(rule.examples_needed(&[0.2, 0.4, 0.99], target, 100), None);
        }
        assert_eq!(rule.examples_needed(&[0.2, 0.4, 0.99], 0.9, 0), None);
    }

    #[test]
    fn bars_at_the_ends_pick_the_first_and_the_perfect() {
        let accuracies = [0.2, 1.0, 0.5];
        assert_eq!(
            rule(0.0, 2).picks(10, &accuracies),
            Some(vec![1.0, 0.0, 0.0])
        );
        let top = rule(1.0, 2).picks(10, &accuracies).unwrap();
        assert!(
            (top[0] - 0.2_f64.powi(10)).abs() < 1e-20 && top[2] == 0.0,
            "{top:?}"
        );
        let size = rule(0.0, 2).examples_needed(&accuracies, 0.9, 100);
        assert_eq!(
            size,
            Some(EvalSize {
                first: 1,
                settled: 1
            })
        );
        let size = rule(1.0, 2).examples_needed(&accuracies, 0.9, 100);
        assert_eq!(
            size,
            Some(EvalSize {
                first: 2,
                settled: 2
            })
        );
    }

    #[test]
    fn millions_of_examples_are_finite_and_right() {
        let rule = rule(0.88, 2);
        for n in [1, 1_000_000, 1 << 50] {
            let picks = rule.picks(n, &[0.879, 0.881, 0.99]).unwrap();
            assert!(
                (picks.iter().sum::<f64>() - 1.0).abs() < 1e-12,
                "{n} {picks:?}"
            );
        }
        assert!(rule.picks(1_000_000, &[0.87, 0.89, 0.99]).unwrap()[1] > 0.999_999);
    }

    #[test]
    fn nonsense_is_refused() {
        let rule = rule(0.88, 3);
        assert_eq!(rule.picks(10, &[0.5; 3]), None);
        assert_eq!(rule.picks(0, &[0.5; 4]), None);
        assert_eq!(rule.picks(10, &[0.5, 0.5, 0.5, f64::NAN]), None);
        assert_eq!(rule.oracle(&[0.5, 0.5, 0.5, 1.5]), None);
        assert_eq!(rule.picks_into(10, &[0.5; 4], &mut [0.0; 3]), None);
        let test = indifference_zone(bar(0.88), 0.02, 0.05, 0.05).unwrap();
        assert_eq!(rule.sequential(&[0.5; 3], &test, 100), None);
        assert_eq!(indifference_zone(bar(0.88), 0.12, 0.05, 0.05), None);
        assert_eq!(indifference_zone(bar(0.88), 0.0, 0.05, 0.05), None);
    }

    #[test]
    fn sequential_labels_go_where_they_are_needed() {
        let rule = rule(0.88, 2);
        let test = indifference_zone(bar(0.88), 0.02, 0.05, 0.05).unwrap();
        let far = rule.sequential(&[0.3, 0.4, 0.99], &test, 5000).unwrap();
        let near = rule.sequential(&[0.3, 0.87, 0.99], &test, 5000).unwrap();
        assert!(far.labels < 60.0 && near.labels > 200.0, "{far:?} {near:?}");
        assert!(far.picks[2] > 0.999 && far.tests.len() == 2);
        assert!((near.picks.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Without an alternative to name it takes more labels, and errs less.
        let sequence = BernoulliSequence::new(0.05, 300.0, 0.05).unwrap();
        let free = BernoulliMixture::new(sequence, 0.88).unwrap();
        let slow = rule.sequential(&[0.3, 0.8, 0.99], &free, 5000).unwrap();
        let fast = rule.sequential(&[0.3, 0.8, 0.99], &test, 5000).unwrap();
        assert!(
            slow.labels > fast.labels && slow.picks[2] > 0.99,
            "{slow:?} {fast:?}"
        );
    }

    #[test]
    fn a_pick_too_dear_gains_accuracy_and_still_costs() {
        let picks = [0.6, 0.4];
        let cell = EvalCell {
            share: 1.0,
            picks: &picks,
            oracle: 0,
            accuracy: &[0.9, 0.95],
            cost: &[1.0, 10.0],
        };
        let outlook = EvalOutlook::new(&[cell, EvalCell { share: 0.0, ..cell }]).unwrap();
        assert!(outlook.accuracy > outlook.oracle_accuracy);
        assert!((outlook.matches - 1.2).abs() < 1e-15 && (outlook.all_match - 0.36).abs() < 1e-15);
        // 0.4·9 dearer for 0.02 more right answers, worth 10 each.
        assert!((outlook.regret(10.0) - 3.4).abs() < 1e-12);
        assert_eq!(EvalOutlook::new(&[EvalCell { oracle: 2, ..cell }]), None);
        assert_eq!(
            EvalOutlook::new(&[EvalCell {
                cost: &[1.0],
                ..cell
            }]),
            None
        );
    }
}
