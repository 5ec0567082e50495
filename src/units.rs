//! Quantities with their unit in the type: instants, durations, tokens, money, probabilities, scores.
//!
//! Everything a decision or a total depends on is an integer, so that sums are exact and do not
//! depend on their order. Conversions to `f64` happen at the edge, when a report is written.
//! What this module is not: a clock. Nothing here knows what time it is.

pub(crate) mod lanes;
pub(crate) mod vectors;

use std::fmt;

/// A point in virtual or real time: whole microseconds since the driver's own epoch.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Instant(pub u64);

/// A length of time in whole microseconds.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Duration(pub u64);

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self(0);

    /// `self + duration`, saturating at the end of time (584,000 years).
    #[must_use]
    pub const fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.0))
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any deadline.
    pub const MAX: Self = Self(u64::MAX);

    /// Whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000))
    }

    /// Seconds, rounded to the nearest microsecond. Negative and NaN become zero, huge values saturate.
    #[must_use]
    pub fn from_secs_f64(secs: f64) -> Self {
        // A float-to-integer `as` saturates and maps NaN to zero.
        Self((secs * 1e6).round() as u64)
    }

    /// Seconds, for display.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s", self.as_secs_f64())
    }
}

/// A bijection of 64-bit words in which every input bit reaches every output bit: the finaliser
/// "variant 13" of David Stafford, as used by `SplittableRandom` (Steele, Lea and Flood, OOPSLA 2014).
/// It splits random words by a key; it is no source of randomness of its own.
#[must_use]
#[inline(always)]
pub const fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A 64-bit key for a name: the first eight bytes of its SHA-256, little-endian.
#[must_use]
pub fn name_key(name: &str) -> u64 {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(name.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(first)
}

/// An amount of money in units of 10⁻¹² USD.
///
/// The unit is small enough that every list price with up to six decimals per million tokens is a
/// whole number per token, and large enough that one request of 18 million USD still fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(pub u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Units in one US dollar.
    pub const PER_DOLLAR: u64 = 1_000_000_000_000;

    /// Sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// US dollars, for display.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::PER_DOLLAR as f64
    }

    /// From US dollars, rounded to the unit. `None` for negative, NaN, infinite or too large values.
    #[must_use]
    pub fn from_f64(dollars: f64) -> Option<Self> {
        let units = dollars * Self::PER_DOLLAR as f64;
        (0.0..1.8e19)
            .contains(&units)
            .then(|| Self(units.round() as u64))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} USD", self.as_f64())
    }
}

/// A list price: 10⁻¹² USD for one token, which is 10⁻⁶ USD for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenPrice(pub u64);

impl TokenPrice {
    /// From USD per million tokens. `None` if negative, not finite, above 10⁹, or with more than
    /// six decimals (the price would not be exact).
    #[must_use]
    pub fn from_usd_per_mtok(usd: f64) -> Option<Self> {
        let scaled = usd * 1e6;
        let whole = scaled.round();
        let exact = (scaled - whole).abs() <= 1e-6 * whole.max(1.0);
        (exact && (0.0..=1e15).contains(&scaled)).then_some(Self(whole as u64))
    }

    /// USD per million tokens.
    #[must_use]
    pub fn as_usd_per_mtok(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Price of `tokens`, saturating.
    #[must_use]
    #[inline(always)]
    pub const fn times(self, tokens: u32) -> Usd {
        Usd(self.0.saturating_mul(tokens as u64))
    }
}

/// What a route charges for its tokens. Parts that are not given are billed as their parent:
/// cached input and cache writes as input, reasoning as output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// A prompt token.
    pub input: TokenPrice,
    /// A generated token.
    pub output: TokenPrice,
    /// A prompt token read from the provider's cache.
    pub cached_input: Option<TokenPrice>,
    /// A prompt token written to the provider's cache.
    pub cache_write: Option<TokenPrice>,
    /// A hidden reasoning token.
    pub reasoning: Option<TokenPrice>,
}

impl Price {
    /// Cost of a call with `input` prompt and `output` generated tokens, no cache, saturating.
    #[must_use]
    #[inline(always)]
    pub const fn of(&self, input: u32, output: u32) -> Usd {
        self.input.times(input).plus(self.output.times(output))
    }
}

/// A probability in `[0, 1]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Probability(f64);

impl Probability {
    /// Always.
    pub const ONE: Self = Self(1.0);
    /// Never.
    pub const ZERO: Self = Self(0.0);

    /// `None` unless `0 ≤ value ≤ 1` (NaN is refused).
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=1.0).contains(&value).then_some(Self(value))
    }

    /// The value.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The threshold `t` for which a uniform 32-bit `lane` satisfies `lane < t` with this
    /// probability, to within 2⁻³³. It is 2³² for certainty, hence the 64-bit type.
    #[must_use]
    pub fn threshold(self) -> u64 {
        (self.0 * 4_294_967_296.0).round() as u64
    }
}

/// The grade of one answer in millionths: 0 is wrong, 1,000,000 is right, partial credit between.
/// A grade that nobody gave is [`Score::MISSING`]: neither wrong nor right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(u32);

impl Score {
    /// A wrong answer.
    pub const WRONG: Self = Self(0);
    /// A right answer.
    pub const RIGHT: Self = Self(1_000_000);
    /// No grade was recorded. Compare with [`Score::is_missing`], never by order.
    pub const MISSING: Self = Self(u32::MAX);

    /// From a fraction in `[0, 1]`, rounded to a millionth; `None` outside (and for NaN).
    #[must_use]
    pub fn from_fraction(fraction: f64) -> Option<Self> {
        (0.0..=1.0)
            .contains(&fraction)
            .then(|| Self((fraction * 1e6).round() as u32))
    }

    /// The score as it is kept: millionths, or [`u32::MAX`] for a missing one.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Back from [`Score::bits`].
    #[must_use]
    #[inline(always)]
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Right or wrong.
    #[must_use]
    #[inline(always)]
    pub const fn from_right(right: bool) -> Self {
        Self(right as u32 * 1_000_000)
    }

    /// Whether nobody graded the answer.
    #[must_use]
    #[inline(always)]
    pub const fn is_missing(self) -> bool {
        self.0 == u32::MAX
    }

    /// Millionths, `None` when missing.
    #[must_use]
    #[inline(always)]
    pub const fn millionths(self) -> Option<u32> {
        if self.is_missing() {
            None
        } else {
            Some(self.0)
        }
    }

    /// Whether it is exactly 0 or exactly 1.
    #[must_use]
    #[inline(always)]
    pub const fn is_binary(self) -> bool {
        self.0 == 0 || self.0 == 1_000_000
    }
}

/// A number of tokens, or "nobody said".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tokens(u32);

impl Tokens {
    /// Nobody said. It is not zero: what depends on it is unknown, too.
    pub const UNKNOWN: Self = Self(u32::MAX);

    /// A known count; counts of 2³² − 1 and more saturate one below.
    #[must_use]
    #[inline(always)]
    pub const fn new(count: u32) -> Self {
        Self(if count == u32::MAX {
            u32::MAX - 1
        } else {
            count
        })
    }

    /// The count as it is kept: [`u32::MAX`] for an unknown one.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The count, `None` when unknown.
    #[must_use]
    #[inline(always)]
    pub const fn get(self) -> Option<u32> {
        if self.0 == u32::MAX {
            None
        } else {
            Some(self.0)
        }
    }
}

impl From<Option<u32>> for Tokens {
    fn from(count: Option<u32>) -> Self {
        count.map_or(Self::UNKNOWN, Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_prices_are_exact_per_token() {
        let price = Price {
            input: TokenPrice::from_usd_per_mtok(0.15).unwrap(),
            output: TokenPrice::from_usd_per_mtok(0.60).unwrap(),
            cached_input: None,
            cache_write: None,
            reasoning: None,
        };
        assert_eq!(price.of(400, 120), Usd(400 * 150_000 + 120 * 600_000));
        assert_eq!(price.input.as_usd_per_mtok(), 0.15);
    }

    #[test]
    fn prices_that_would_be_rounded_are_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY, 0.000_000_5, 1e10] {
            assert_eq!(TokenPrice::from_usd_per_mtok(bad), None, "{bad}");
        }
    }

    #[test]
    fn certainty_accepts_every_lane_and_impossibility_none() {
        assert!(u64::from(u32::MAX) < Probability::ONE.threshold());
        assert_eq!(Probability::ZERO.threshold(), 0);
        assert_eq!(Probability::new(1.2), None);
        assert_eq!(Probability::new(f64::NAN), None);
    }

    #[test]
    fn a_missing_score_is_neither_wrong_nor_right() {
        assert_eq!(Score::MISSING.millionths(), None);
        assert!(!Score::MISSING.is_binary());
        assert_eq!(
            Score::from_fraction(0.25).unwrap().millionths(),
            Some(250_000)
        );
        assert_eq!(Score::from_fraction(1.000_1), None);
    }

    #[test]
    fn durations_saturate_instead_of_wrapping() {
        assert_eq!(Instant(5).since(Instant(9)), Duration::ZERO);
        assert_eq!(Instant(u64::MAX).after(Duration(5)), Instant(u64::MAX));
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(1.013_436_424), Duration(1_013_436));
    }
}
