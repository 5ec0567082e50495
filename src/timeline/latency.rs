//! How long a route takes: to the first token, for each further token, and when many ask at once.
//!
//! time to first token = stall + (overhead + uncached prompt tokens × time per token) × first-token factor
//! × load factor × slowness, and every token after the first takes time per token × pace factor × load
//! factor × slowness. The shape is that of llm-d-inference-sim's *per-token* latency calculator (its
//! latency documentation, read November 2026), with lognormal factors instead of its clipped normal ones:
//! measured times to the first token are skewed (llmperf-leaderboard, December 2023: lognormal σ 0.12 to
//! 0.38 for steady providers), and a factor that is never negative needs no clipping.
//!
//! It is a model of what callers see, not of a GPU: batching, caches and schedulers are in the numbers.

mod preset;
mod read;
mod spread;

use std::num::NonZeroU32;

use crate::units::{Probability, Tokens};

pub(super) use read::read;
pub use spread::Spread;

/// How long a route takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Before anything else: network, queueing that is not modelled, safety checks. Microseconds.
    pub(super) overhead_us: f64,
    /// For each prompt token that is not cached, in microseconds.
    pub(super) per_input_token_us: f64,
    /// For each token after the first, in microseconds.
    pub(super) per_output_token_us: f64,
    /// Share of the prompt tokens that the provider has cached.
    pub(super) cached_share: f64,
    /// Factor of the time to the first token.
    pub(super) first: Spread,
    /// Factor of the time per output token, one for the whole answer.
    pub(super) pace: Spread,
    /// Requests served at the same time; all of them if `None`.
    pub(super) slots: Option<NonZeroU32>,
    /// How many times as long everything takes when all slots are taken, at least 1.
    pub(super) load_factor: f64,
    /// What happens rarely, and then takes long.
    pub(super) stall: Option<Stall>,
    /// What stands in for a prompt whose length nobody knows.
    pub(super) unknown_input: u32,
    /// What stands in for an answer whose length nobody knows.
    pub(super) unknown_output: u32,
}

/// A wait before the first token that has nothing to do with the request: a cold start, a lost message
/// and a retry inside the provider.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stall {
    /// Share of the attempts.
    pub(super) share: Probability,
    /// How long, in microseconds; the median if it is spread.
    pub(super) us: f64,
    /// Factor of it.
    pub(super) spread: Spread,
}

impl Latency {
    /// Longest overhead or stall, in milliseconds: a day.
    pub const DELAY_MAX_MS: f64 = 86_400_000.0;
    /// Longest time per token, in milliseconds: a minute.
    pub const PER_TOKEN_MAX_MS: f64 = 60_000.0;
    /// Most slots of a route.
    pub const SLOTS_MAX: u32 = 65_536;
    /// Largest load factor.
    pub const LOAD_FACTOR_MAX: f64 = 1_000.0;

    /// Takes no time.
    pub const INSTANT: Self = Self {
        overhead_us: 0.0,
        per_input_token_us: 0.0,
        per_output_token_us: 0.0,
        cached_share: 0.0,
        first: Spread::NONE,
        pace: Spread::NONE,
        slots: None,
        load_factor: 1.0,
        stall: None,
        unknown_input: preset::UNKNOWN_INPUT,
        unknown_output: preset::UNKNOWN_OUTPUT,
    };

    /// Always the same times, in milliseconds: before anything else, for each prompt token, for each token
    /// after the first. Nothing is cached and nobody queues. `None` for a time that is negative, no
    /// number, or longer than [`Self::DELAY_MAX_MS`] or [`Self::PER_TOKEN_MAX_MS`].
    #[must_use]
    pub fn new(
        overhead_ms: f64,
        per_input_token_ms: f64,
        per_output_token_ms: f64,
    ) -> Option<Self> {
        let allowed = (0.0..=Self::DELAY_MAX_MS).contains(&overhead_ms)
            && (0.0..=Self::PER_TOKEN_MAX_MS).contains(&per_input_token_ms)
            && (0.0..=Self::PER_TOKEN_MAX_MS).contains(&per_output_token_ms);
        allowed.then_some(Self {
            overhead_us: overhead_ms * 1e3,
            per_input_token_us: per_input_token_ms * 1e3,
            per_output_token_us: per_output_token_ms * 1e3,
            ..Self::INSTANT
        })
    }

    /// A large model at a hosting provider on a usual day: the preset `hosted-70b`.
    #[must_use]
    pub fn hosted() -> Self {
        preset::hosted_70b()
    }

    /// The preset of this name; [`Latency::presets`] lists them.
    #[must_use]
    pub fn preset(name: &str) -> Option<Self> {
        preset::PRESETS
            .iter()
            .find(|preset| preset.name == name)
            .map(|preset| (preset.make)())
    }

    /// Names of the presets, each with what it stands for.
    pub fn presets() -> impl Iterator<Item = (&'static str, &'static str)> {
        preset::PRESETS
            .iter()
            .map(|preset| (preset.name, preset.what))
    }

    /// The same with this factor of the time to the first token (overhead and prompt).
    #[must_use]
    pub fn with_spread(self, first: Spread) -> Self {
        Self { first, ..self }
    }

    /// The same with this factor of the time per output token, drawn once for an answer.
    #[must_use]
    pub fn with_pace(self, pace: Spread) -> Self {
        Self { pace, ..self }
    }

    /// The same with this share of every prompt in the provider's cache: it takes no time to read.
    #[must_use]
    pub fn with_cached_share(self, share: Probability) -> Self {
        Self {
            cached_share: share.get(),
            ..self
        }
    }

    /// The same with room for `slots` attempts at a time, and a queue in order of arrival before them;
    /// everything takes `load_factor` times as long when all slots are taken. `None` unless `slots` is in
    /// 1..=[`Self::SLOTS_MAX`] and `load_factor` in 1..=[`Self::LOAD_FACTOR_MAX`]. With a single slot there is no
    /// load between idle and full, and the factor must be 1.
    #[must_use]
    pub fn with_slots(self, slots: u32, load_factor: f64) -> Option<Self> {
        let slots = NonZeroU32::new(slots).filter(|slots| slots.get() <= Self::SLOTS_MAX)?;
        let most = if slots.get() == 1 {
            1.0
        } else {
            Self::LOAD_FACTOR_MAX
        };
        (1.0..=most).contains(&load_factor).then_some(Self {
            slots: Some(slots),
            load_factor,
            ..self
        })
    }

    /// The same with a share of attempts that stall for `ms` milliseconds times `spread` before the first
    /// token. `None` for a time that is negative, no number or longer than [`Self::DELAY_MAX_MS`].
    #[must_use]
    pub fn with_stall(self, share: Probability, ms: f64, spread: Spread) -> Option<Self> {
        (0.0..=Self::DELAY_MAX_MS).contains(&ms).then_some(Self {
            stall: Some(Stall {
                share,
                us: ms * 1e3,
                spread,
            }),
            ..self
        })
    }

    /// The same with these lengths in place of unknown ones. An unknown length is not zero: what nobody
    /// counted takes its time all the same. Lengths that are unknown here, too, stay as they were.
    #[must_use]
    pub fn with_unknown(self, input: Tokens, output: Tokens) -> Self {
        Self {
            unknown_input: input.get().unwrap_or(self.unknown_input),
            unknown_output: output.get().unwrap_or(self.unknown_output),
            ..self
        }
    }

    /// Requests served at the same time; `None` if that has no limit.
    #[must_use]
    pub fn slots(&self) -> Option<u32> {
        self.slots.map(NonZeroU32::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_are_refused() {
        for wrong in [
            -0.001,
            f64::NAN,
            f64::INFINITY,
            Latency::DELAY_MAX_MS * 1.001,
        ] {
            assert_eq!(Latency::new(wrong, 0.0, 0.0), None);
            assert_eq!(Latency::new(0.0, wrong, 0.0), None);
            assert_eq!(Latency::new(0.0, 0.0, wrong), None);
            let stall = Latency::INSTANT.with_stall(Probability::ONE, wrong, Spread::NONE);
            assert_eq!(stall, None);
        }
        assert!(
            Latency::new(
                Latency::DELAY_MAX_MS,
                Latency::PER_TOKEN_MAX_MS,
                Latency::PER_TOKEN_MAX_MS
            )
            .is_some()
        );
    }

    #[test]
    fn servers_are_at_least_one_and_load_never_makes_them_faster() {
        let with = |slots, factor| Latency::INSTANT.with_slots(slots, factor);
        for (slots, factor) in [
            (0, 1.0),
            (Latency::SLOTS_MAX + 1, 1.0),
            (4, 0.99),
            (4, f64::NAN),
            (4, Latency::LOAD_FACTOR_MAX + 1.0),
            // One slot is never partly taken.
            (1, 2.0),
        ] {
            assert_eq!(with(slots, factor), None, "{slots} {factor}");
        }
        assert_eq!(with(1, 1.0).unwrap().slots(), Some(1));
        assert!(with(Latency::SLOTS_MAX, Latency::LOAD_FACTOR_MAX).is_some());
    }

    #[test]
    fn presets_have_names_that_find_them() {
        let names: Vec<&str> = Latency::presets().map(|(name, _)| name).collect();
        assert!(names.len() >= 4);
        for name in &names {
            assert!(Latency::preset(name).is_some(), "{name}");
        }
        assert_eq!(Latency::preset("instant"), Some(Latency::INSTANT));
        assert_eq!(Latency::preset("hosted-70b"), Some(Latency::hosted()));
        assert_eq!(Latency::preset("hosted-70B"), None);
    }
}
