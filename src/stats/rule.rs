//! Rules that promote a candidate: "not worse than the primary by the margin or more", decided on the
//! counts of a paired comparison.
//!
//! A rule promotes when its lower limit for the difference reaches −margin. Counts are whole numbers, and
//! margin and critical value are decimals, so for most rules the comparison is one of whole numbers: it
//! is made in floats where the two sides differ clearly, and exactly where they do not. Equality at the
//! boundary is therefore decided the same on every machine.
//!
//! What this is not: the three-way verdict of reports on weighted counts, which is
//! [`tango_test`](super::tango_test).

use super::interval::Limits;
use super::paired::{
    Ddof, Newcombe, Pairs, agresti_min, bonett_price, newcombe, tango, tango_statistic, wald,
    wald_continuity,
};
use super::tally::PairTally;
use super::unconditional::unconditional_cutoff;
use super::wide::{Wide, product};

/// A paired 2×2 table of whole counts, candidate first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Both right.
    pub n11: u64,
    /// Candidate right, primary wrong.
    pub n10: u64,
    /// Candidate wrong, primary right.
    pub n01: u64,
    /// Both wrong.
    pub n00: u64,
}

impl Counts {
    /// Pairs in the table. `None` if they do not fit the type.
    #[must_use]
    pub fn n(self) -> Option<u64> {
        self.n11
            .checked_add(self.n10)?
            .checked_add(self.n01)?
            .checked_add(self.n00)
    }
}

impl From<Counts> for Pairs {
    fn from(counts: Counts) -> Self {
        Self::new(counts.n11, counts.n10, counts.n01, counts.n00)
    }
}

impl From<&PairTally> for Counts {
    /// The pairs in which both answers are right or wrong; partly right ones are in no cell.
    fn from(pairs: &PairTally) -> Self {
        Self {
            n11: pairs.n11,
            n10: pairs.n10,
            n01: pairs.n01,
            n00: pairs.n00,
        }
    }
}

/// A number with at most twelve decimals as a reduced fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    numerator: u64,
    denominator: u64,
}

/// Steps in one: twelve decimals.
pub(super) const DECIMAL: u64 = 1_000_000_000_000;

impl Decimal {
    fn new(value: f64) -> Self {
        let numerator = (value * DECIMAL as f64).round() as u64;
        let (mut a, mut b) = (DECIMAL, numerator);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Self {
            numerator: numerator / a,
            denominator: DECIMAL / a,
        }
    }

    fn value(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// What a candidate has to show: a margin and how sure to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    margin: Decimal,
    z: Decimal,
}

impl Criterion {
    /// The margin is the loss in the share right that is still acceptable, such as 0.03; `z` is the
    /// critical value of the one-sided test, such as 1.96 for α = 0.025 (the lower end of a two-sided
    /// interval of 95 %). Both are taken to twelve decimals, which makes them fractions.
    ///
    /// `None` unless 0 ≤ margin < 1 and 0 < z ≤ 40, after rounding.
    #[must_use]
    pub fn new(margin: f64, z: f64) -> Option<Self> {
        let in_range = (0.0..1.0).contains(&margin) && z > 0.0 && z <= 40.0;
        let criterion = in_range.then(|| Self {
            margin: Decimal::new(margin),
            z: Decimal::new(z),
        })?;
        (criterion.margin() < 1.0 && criterion.z() > 0.0).then_some(criterion)
    }

    /// The margin, a share.
    #[must_use]
    pub fn margin(self) -> f64 {
        self.margin.value()
    }

    /// The critical value.
    #[must_use]
    pub fn z(self) -> f64 {
        self.z.value()
    }

    /// One-sided α: the probability 1 − Φ(z) of a wrong promotion at the margin that the rules aim at.
    #[must_use]
    pub fn alpha(self) -> f64 {
        0.5 * libm::erfc(self.z() / std::f64::consts::SQRT_2)
    }

    /// The same critical value at another margin; see [`Criterion::new`].
    #[must_use]
    pub fn with_margin(self, margin: f64) -> Option<Self> {
        Self::new(margin, self.z())
    }
}

/// A rule for promoting a candidate. All but Newcombe's depend on the counts through n10, n01 and n only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Tango's score test, T(−m) ≥ z; see [`tango_statistic`]. The default: its error at
    /// the margin is close to nominal however rarely the two disagree.
    Tango,
    /// Newcombe's hybrid score interval with corrected correlation; see [`newcombe`].
    Newcombe10,
    /// Newcombe's hybrid score interval with raw correlation; see [`newcombe`].
    Newcombe8,
    /// Bonett and Price's adjusted Wald interval; see [`bonett_price`].
    BonettPrice,
    /// Agresti and Min's adjusted Wald interval; see [`agresti_min`].
    AgrestiMin,
    /// The plain Wald interval with sample variance, as used in the lesson this tool grew from. With
    /// little disagreement it promotes almost anything: its standard error is zero when no pair
    /// disagrees. For replay and as a warning.
    WaldLesson,
    /// [`WaldLesson`](Self::WaldLesson) widened by 1/n.
    WaldContinuity,
    /// Tango's statistic with the cutoff at which the error at the margin is at most α whatever the rate
    /// of disagreement; see [`unconditional_cutoff`](super::unconditional_cutoff).
    ExactUnconditional,
}

/// All rules with the names they go by, the default first.
pub const RULES: &[(&str, Rule)] = &[
    ("tango", Rule::Tango),
    ("newcombe-10", Rule::Newcombe10),
    ("newcombe-8", Rule::Newcombe8),
    ("bonett-price", Rule::BonettPrice),
    ("agresti-min", Rule::AgrestiMin),
    ("wald", Rule::WaldLesson),
    ("wald-continuity", Rule::WaldContinuity),
    ("exact-unconditional", Rule::ExactUnconditional),
];

impl Rule {
    /// The name the rule goes by.
    #[must_use]
    pub fn name(self) -> &'static str {
        RULES
            .iter()
            .find(|(_, rule)| *rule == self)
            .map_or("", |(name, _)| name)
    }

    /// The rule of this name; [`RULES`] lists them.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        RULES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, rule)| *rule)
    }

    /// Whether the decision looks at the pairs that agree as more than a number: Newcombe's correlation
    /// tells "both right" from "both wrong", all others need n10, n01 and n only.
    #[must_use]
    pub const fn looks_at_agreement(self) -> bool {
        matches!(self, Self::Newcombe8 | Self::Newcombe10)
    }

    /// The rule made ready for tables of `n` pairs.
    ///
    /// `None` above 2⁵³ pairs, and for the exact unconditional rule where its cutoff is not computed
    /// (see [`unconditional_cutoff`](super::unconditional_cutoff)).
    #[must_use]
    pub fn at(self, n: u64, criterion: Criterion) -> Option<Decider> {
        if n > 1 << 53 {
            return None;
        }
        let wald = |shift, added, total, divisor| {
            Test::Wald(Wald {
                shift,
                added,
                total,
                divisor,
            })
        };
        let test = match self {
            _ if n == 0 => Test::Never,
            Self::Tango => Test::Tango,
            Self::Newcombe10 => Test::Newcombe(Newcombe::Ten),
            Self::Newcombe8 => Test::Newcombe(Newcombe::Eight),
            Self::BonettPrice => wald(0, 2, n + 2, n + 2),
            Self::AgrestiMin => wald(0, 1, n + 2, n + 2),
            // One pair has no sample variance.
            Self::WaldLesson | Self::WaldContinuity if n == 1 => Test::Never,
            Self::WaldLesson => wald(0, 0, n, n - 1),
            Self::WaldContinuity => wald(1, 0, n, n - 1),
            Self::ExactUnconditional => {
                match unconditional_cutoff(n, criterion.margin(), criterion.alpha())? {
                    Some(cutoff) => Test::Score(cutoff.statistic),
                    None => Test::Never,
                }
            }
        };
        Some(Decider { n, criterion, test })
    }

    /// Whether these counts promote the candidate. Without pairs nobody is promoted.
    ///
    /// Ties: Tango's test and the four Wald-like rules are decided in exact arithmetic, promoting at
    /// equality. Newcombe's limit counts as reaching −m from 10⁻¹² below, and the exact unconditional
    /// rule promotes every table whose T is within 10⁻¹⁰ of the cutoff: there equality means that two
    /// roundings of one number differ. `None` as for [`Rule::at`].
    #[must_use]
    pub fn promotes(self, counts: Counts, criterion: Criterion) -> Option<bool> {
        let decider = self.at(counts.n()?, criterion)?;
        Some(decider.promotes(counts.n10, counts.n01, counts.n11))
    }

    /// The rule's two-sided interval of the difference at critical value `z`. `None` where the rule has
    /// none: without pairs, one pair under the Wald rules, and the exact unconditional test.
    #[must_use]
    pub fn limits(self, counts: Counts, z: f64) -> Option<Limits> {
        let pairs = Pairs::from(counts);
        match self {
            _ if pairs.n() == 0.0 => None,
            Self::Tango => tango(pairs, z),
            Self::Newcombe10 => newcombe(pairs, z, Newcombe::Ten),
            Self::Newcombe8 => newcombe(pairs, z, Newcombe::Eight),
            Self::BonettPrice => Some(bonett_price(pairs, z)),
            Self::AgrestiMin => Some(agresti_min(pairs, z)),
            Self::WaldLesson => wald(pairs, z, Ddof::One),
            Self::WaldContinuity => wald_continuity(pairs, z, Ddof::One),
            Self::ExactUnconditional => None,
        }
    }
}

/// Relative distance at which a comparison in floats is trusted; their errors are below 10⁻¹¹.
const CLEAR: f64 = 1e-9;

/// Up to this margin Tango's statistic in floats keeps eleven digits wherever its sign is positive.
const MARGIN_IN_FLOATS: f64 = 0.9;

/// A rule made ready for a number of pairs by [`Rule::at`].
#[derive(Clone, Copy, Debug)]
pub struct Decider {
    n: u64,
    criterion: Criterion,
    test: Test,
}

#[derive(Clone, Copy, Debug)]
enum Test {
    Never,
    Wald(Wald),
    Tango,
    Newcombe(Newcombe),
    /// Tango's statistic must reach this value.
    Score(f64),
}

/// The Wald-like rules in one form: with D' = D − `shift`, S' = S + `added` and n' = `total`,
/// D'/n' + m ≥ z·√((S' − D²/n')/(`divisor`·n')).
#[derive(Clone, Copy, Debug)]
struct Wald {
    shift: i128,
    added: u64,
    total: u64,
    divisor: u64,
}

impl Decider {
    /// Number of pairs the tables have.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// [`Rule::looks_at_agreement`] of the rule this was made from.
    #[must_use]
    pub const fn looks_at_agreement(&self) -> bool {
        matches!(self.test, Test::Newcombe(_))
    }

    /// Whether the table with these counts promotes; the remaining pairs are both wrong. Counts that
    /// exceed the number of pairs promote nobody.
    #[must_use]
    pub fn promotes(&self, n10: u64, n01: u64, n11: u64) -> bool {
        let Some(n00) = n10
            .checked_add(n01)
            .and_then(|sum| sum.checked_add(n11))
            .and_then(|sum| self.n.checked_sub(sum))
        else {
            return false;
        };
        match self.test {
            Test::Never => false,
            Test::Wald(form) => self.wald(form, n10, n01),
            Test::Tango => self.tango(n10, n01),
            Test::Newcombe(method) => {
                let pairs = Pairs::new(n11, n10, n01, n00);
                newcombe(pairs, self.criterion.z(), method)
                    .is_some_and(|limits| limits.low >= -self.criterion.margin() - 1e-12)
            }
            Test::Score(least) => {
                let pairs = Pairs::new(n11, n10, n01, n00);
                tango_statistic(pairs, -self.criterion.margin()) >= least - 1e-10
            }
        }
    }

    /// With m = a/b and z = e/f, squared and without denominators: x ≥ 0 and
    /// x²·f²·divisor ≥ e²·b²·(S'·n' − D²), where x = b·D' + a·n'.
    fn wald(&self, form: Wald, n10: u64, n01: u64) -> bool {
        let (a, b) = (
            self.criterion.margin.numerator,
            self.criterion.margin.denominator,
        );
        let (e, f) = (self.criterion.z.numerator, self.criterion.z.denominator);
        let difference = i128::from(n10) - i128::from(n01);
        let x = i128::from(b) * (difference - form.shift) + i128::from(a) * i128::from(form.total);
        let Ok(x) = u128::try_from(x) else {
            return false;
        };
        let spread = u128::from(n10 + n01 + form.added) * u128::from(form.total)
            - difference.unsigned_abs().pow(2);
        let left = (x as f64 * f as f64).powi(2) * form.divisor as f64;
        let right = (e as f64 * b as f64).powi(2) * spread as f64;
        if (left - right).abs() > CLEAR * left.max(right) {
            return left > right;
        }
        let [b, e, f, divisor] = [b, e, f, form.divisor].map(u128::from);
        // Below 2³⁹⁰ for all counts and decimals in range, so both products exist.
        product(&[x, x, f, f, divisor]) >= product(&[e, e, b, b, spread])
    }

    /// T(−m) ≥ z. The statistic is x/b over √(n·(2q − m(1+m))), where x = b·D + a·n and q is the larger
    /// root of A·q² − B·q + C with A = 2n, B = S + (2n − D)·m and C = n01·m(1+m). Solved for q the
    /// condition is q ≤ r for a rational r, and that holds if r is right of the parabola's vertex and
    /// the parabola is not negative there.
    fn tango(&self, n10: u64, n01: u64) -> bool {
        let (a, b) = (
            self.criterion.margin.numerator,
            self.criterion.margin.denominator,
        );
        let difference = i128::from(n10) - i128::from(n01);
        let x = i128::from(b) * difference + i128::from(a) * i128::from(self.n);
        // At x = 0 the statistic is zero, whatever its variance.
        let x = match u128::try_from(x) {
            Ok(x) if x > 0 => x,
            _ => return false,
        };
        let (m, z, n) = (self.criterion.margin(), self.criterion.z(), self.n as f64);
        if m <= MARGIN_IN_FLOATS {
            let (sum, lost, reach) = ((n10 + n01) as f64, n01 as f64, m * (1.0 + m));
            let half = sum + (2.0 * n - difference as f64) * m;
            let root = (half * half - 8.0 * n * lost * reach).max(0.0).sqrt();
            let variance = (half + root) * 0.5 - n * reach;
            let numerator = x as f64 / b as f64;
            let (left, right) = (numerator * numerator, z * z * variance);
            if (left - right).abs() > CLEAR * left.max(right) {
                return left > right;
            }
        }
        self.tango_exactly(x, n10, n01).unwrap_or(false)
    }

    /// With m = a/b, z = e/f, U = x²f² + a(a+b)e²n and G = b·(bS + a(2n − D))·e²: 2U ≥ G, and U ≥ G or
    /// 2·n01·a(a+b)·b²·e⁴·n ≥ U·(G − U). All below 2⁶⁴⁰, so the result is never `None`.
    fn tango_exactly(&self, x: u128, n10: u64, n01: u64) -> Option<bool> {
        let [a, b, e, f, n, n10, n01] = [
            self.criterion.margin.numerator,
            self.criterion.margin.denominator,
            self.criterion.z.numerator,
            self.criterion.z.denominator,
            self.n,
            n10,
            n01,
        ]
        .map(u128::from);
        let reach = a * (a + b);
        let u = product(&[x, x, f, f])?.plus(product(&[reach, e, e, n])?)?;
        let g = product(&[b, b * (n10 + n01) + a * (2 * n + n01 - n10), e, e])?;
        if u.times(Wide::new(2))? < g {
            return Some(false);
        }
        let Some(short) = g.minus(u) else {
            return Some(true);
        };
        let left = product(&[2, n01, reach, b, b, e, e, e, e, n])?;
        Some(left >= u.times(short)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn criterion(margin: f64) -> Criterion {
        Criterion::new(margin, 1.96).unwrap()
    }

    fn counts(n11: u64, n10: u64, n01: u64, n00: u64) -> Counts {
        Counts { n11, n10, n01, n00 }
    }

    #[test]
    fn every_rule_has_a_name_and_goes_by_it() {
        for &(name, rule) in RULES {
            assert_eq!(rule.name(), name);
            assert_eq!(Rule::parse(name), Some(rule));
        }
        assert_eq!(Rule::parse("fisher"), None);
        assert_eq!(RULES[0].1, Rule::Tango);
    }

    #[test]
    fn margins_and_critical_values_out_of_range_are_refused() {
        for (margin, z) in [
            (-0.01, 1.96),
            (1.0, 1.96),
            (0.999_999_999_999_9, 1.96),
            (f64::NAN, 1.96),
            (0.03, 0.0),
            (0.03, 1e-13),
            (0.03, f64::INFINITY),
            (0.03, f64::NAN),
        ] {
            assert_eq!(Criterion::new(margin, z), None, "{margin} {z}");
        }
        let lesson = criterion(0.03);
        assert_eq!((lesson.margin(), lesson.z()), (0.03, 1.96));
        assert!((lesson.alpha() - 0.024_997_895_148_220_435).abs() < 1e-15);
    }

    #[test]
    fn a_tie_of_the_lessons_rule_promotes() {
        // All table cells where both sides are equal: x²(n−1)·25² = 49²·100²·(Sn − D²), by brute force.
        let mut ties = 0;
        for n in 2..400_u64 {
            let decider = Rule::WaldLesson.at(n, criterion(0.03)).unwrap();
            for n10 in 0..=n.min(40) {
                for n01 in 0..=(n - n10).min(40) {
                    let (d, s, n) = (n10 as i128 - n01 as i128, (n10 + n01) as i128, n as i128);
                    let x = 100 * d + 3 * n;
                    let (left, right) = (x * x * (n - 1) * 625, 2401 * 10_000 * (s * n - d * d));
                    let want = x >= 0 && left >= right;
                    assert_eq!(decider.promotes(n10, n01, 0), want, "{n} {n10} {n01}");
                    ties += u32::from(x > 0 && left == right);
                }
            }
        }
        // Perfect agreement is no tie: its right side is zero.
        assert!(ties > 0, "no tie was met");
    }

    #[test]
    fn a_tie_of_tangos_test_promotes_and_the_next_decimal_does_not() {
        // Without disagreement T(−m) = √(n·m/(1−m)): with m = 1/5 and n = 16 it is exactly 2.
        let agreed =
            |m, z| Rule::Tango.promotes(counts(16, 0, 0, 0), Criterion::new(m, z).unwrap());
        assert_eq!(agreed(0.2, 2.0), Some(true));
        assert_eq!(agreed(0.2, 2.000_000_000_001), Some(false));
        assert_eq!(agreed(0.199_999_999_999, 2.0), Some(false));
        // Margin zero is McNemar's D/√S: 9 against 0 of 9 is exactly 3, 25 against 9 is 16/√34.
        let zero = |n10, n01, z| {
            Rule::Tango.promotes(counts(50, n10, n01, 5), Criterion::new(0.0, z).unwrap())
        };
        assert_eq!(zero(9, 0, 3.0), Some(true));
        assert_eq!(zero(9, 0, 3.000_000_000_001), Some(false));
        assert_eq!(zero(9, 9, 1e-12), Some(false));
        assert_eq!(zero(0, 0, 1e-12), Some(false));
        // A million pairs, twelve decimals: still exact.
        let large = |z| {
            let criterion = Criterion::new(0.5, z).unwrap();
            Rule::Tango.promotes(counts(1_000_000, 0, 0, 0), criterion)
        };
        assert_eq!(large(40.0), Some(true));
        let m = 0.001_597_444_089_f64;
        let least = (1e6 * m / (1.0 - m)).sqrt();
        let near =
            |z| Rule::Tango.promotes(counts(1_000_000, 0, 0, 0), Criterion::new(m, z).unwrap());
        assert_eq!(near(least - 1e-11), Some(true));
        assert_eq!(near(least + 1e-11), Some(false));
    }

    #[test]
    fn nobody_is_promoted_without_pairs_or_with_more_counts_than_pairs() {
        for &(name, rule) in RULES {
            let empty = rule.promotes(Counts::default(), criterion(0.03));
            assert_eq!(empty, Some(false), "{name}");
            let decider = rule.at(5, criterion(0.03)).unwrap();
            assert!(!decider.promotes(5, 1, 0), "{name}");
            assert!(!decider.promotes(u64::MAX, 1, 0), "{name}");
            assert!(rule.at(u64::MAX, criterion(0.03)).is_none(), "{name}");
        }
        let overfull = counts(u64::MAX, 1, 0, 0);
        assert_eq!(Rule::Tango.promotes(overfull, criterion(0.03)), None);
    }

    #[test]
    fn extreme_tables_are_decided() {
        for &(name, rule) in RULES {
            for margin in [0.0, 0.03, 0.5, 0.999] {
                // One pair, and the largest tables: all agree, all for, all against.
                for n in [1, 40] {
                    let at = rule.at(n, criterion(margin)).unwrap();
                    assert!(!at.promotes(0, n, 0), "{name} {margin} {n}");
                }
                if rule == Rule::ExactUnconditional {
                    continue;
                }
                for n in [1_000_000, 1 << 53] {
                    let at = rule.at(n, criterion(margin)).unwrap();
                    assert!(at.promotes(n, 0, 0), "{name} {margin} {n}");
                    assert!(!at.promotes(0, n, 0), "{name} {margin} {n}");
                    if margin > 0.0 {
                        assert!(at.promotes(0, 0, n), "{name} {margin} {n}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn decisions_are_those_of_the_intervals_away_from_ties(
            n11 in 0_u64..900, n10 in 0_u64..60, n01 in 0_u64..60, n00 in 0_u64..100,
            margin in 0.0_f64..0.9, z in 0.1_f64..5.0,
        ) {
            let table = counts(n11, n10, n01, n00);
            let criterion = Criterion::new(margin, z).unwrap();
            for &(name, rule) in RULES {
                let Some(limits) = rule.limits(table, criterion.z()) else { continue };
                let distance = limits.low + criterion.margin();
                if distance.abs() > 1e-9 {
                    prop_assert_eq!(
                        rule.promotes(table, criterion), Some(distance > 0.0), "{} {:?}", name, table
                    );
                }
            }
        }

        #[test]
        fn tangos_test_in_whole_numbers_is_the_one_in_floats(
            n in 1_u64..2_000_000, part in 0.0_f64..1.0, share in 0.0_f64..1.0,
            margin in 0.0_f64..0.99, z in 0.1_f64..6.0,
        ) {
            let discordant = (n as f64 * part * part) as u64;
            let n10 = (discordant as f64 * share) as u64;
            let n01 = discordant - n10;
            let criterion = Criterion::new(margin, z).unwrap();
            let decider = Rule::Tango.at(n, criterion).unwrap();
            let pairs = Pairs::new(n - discordant, n10, n01, 0);
            let statistic = tango_statistic(pairs, -criterion.margin());
            prop_assume!((statistic - criterion.z()).abs() > 1e-6 * statistic.abs().max(1.0));
            let want = statistic >= criterion.z();
            prop_assert_eq!(decider.promotes(n10, n01, 0), want);
            let (a, b) = (criterion.margin.numerator, criterion.margin.denominator);
            let x = i128::from(b) * (i128::from(n10) - i128::from(n01)) + i128::from(a) * i128::from(n);
            if let Ok(x) = u128::try_from(x) && x > 0 {
                prop_assert_eq!(decider.tango_exactly(x, n10, n01), Some(want));
            }
        }
    }
}
