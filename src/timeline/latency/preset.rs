//! Latencies that have a source.

use super::{Latency, Spread};
use crate::units::Probability;

/// Prompt tokens where nobody knows: the median of a chat service (Azure LLM inference trace 2023,
/// conversation).
pub(super) const UNKNOWN_INPUT: u32 = 1_020;
/// Answer tokens where nobody knows: the median of the same.
pub(super) const UNKNOWN_OUTPUT: u32 = 129;

/// σ of the time to the first token. Steady providers in llmperf-leaderboard's individual measurements
/// (December 2023) have 0.12 to 0.38, most of them about 0.2.
const SIGMA: f64 = 0.2;
/// σ of the time per token from one answer to the next; steady providers in the same have 0.03 to 0.22.
const PACE_SIGMA: f64 = 0.1;
/// Share of cached prompt tokens. 28 % of the calls in Datadog's State of AI Engineering 2026 read from a
/// cache, as several pages report; an endless cache would find 36.6 % of the prompt blocks of the Mooncake
/// conversation trace (FAST 2025). So this is between what is read and what could be.
const CACHED_SHARE: f64 = 0.28;
/// Of 1,861 measured requests at providers that keep models loaded, two took 100 s to the first token and
/// the next slowest 2.2 s (llmperf-leaderboard, December 2023).
const STALL_SHARE: f64 = 0.001;
/// How long those two took, in milliseconds.
const STALL_MS: f64 = 100_000.0;

/// A latency by name.
pub(super) struct Preset {
    pub(super) name: &'static str,
    /// What it stands for.
    pub(super) what: &'static str,
    pub(super) make: fn() -> Latency,
}

/// All of them.
pub(super) const PRESETS: [Preset; 5] = [
    Preset {
        name: "hosted-70b",
        what: "a 70B-class model on eight GPUs at a hosting provider",
        make: hosted_70b,
    },
    Preset {
        name: "hosted-8b",
        what: "an 8B-class model on one GPU at a hosting provider",
        make: hosted_8b,
    },
    Preset {
        name: "stalling-70b",
        what: "hosted-70b where 1.3 % of the calls stall for 100 s",
        make: stalling_70b,
    },
    Preset {
        name: "cold-70b",
        what: "hosted-70b whose model is often not loaded or whose queue is long",
        make: cold_70b,
    },
    Preset {
        name: "instant",
        what: "no time at all",
        make: || Latency::INSTANT,
    },
];

/// Overhead, prompt and output times of llm-d-inference-sim's documented latency profiles (its
/// documentation, read November 2026), which mirror deployments on H100.
fn hosted(overhead_us: f64, per_input_token_us: f64, per_output_token_us: f64) -> Latency {
    let instant = Latency {
        overhead_us,
        per_input_token_us,
        per_output_token_us,
        cached_share: CACHED_SHARE,
        first: Spread::lognormal(SIGMA).unwrap_or(Spread::NONE),
        pace: Spread::lognormal(PACE_SIGMA).unwrap_or(Spread::NONE),
        ..Latency::INSTANT
    };
    stalling(instant, STALL_SHARE, STALL_MS, Spread::NONE)
}

fn stalling(latency: Latency, share: f64, ms: f64, spread: Spread) -> Latency {
    Latency {
        stall: Probability::new(share).map(|share| super::Stall {
            share,
            us: ms * 1e3,
            spread,
        }),
        ..latency
    }
}

pub(super) fn hosted_70b() -> Latency {
    hosted(80_000.0, 500.0, 25_000.0)
}

fn hosted_8b() -> Latency {
    hosted(30_000.0, 250.0, 12_000.0)
}

/// One provider in llmperf-leaderboard's measurements had a 95th percentile of 0.70 s and a 99th of 53 s:
/// 2 of 149 requests took 100 s.
fn stalling_70b() -> Latency {
    stalling(hosted_70b(), 2.0 / 149.0, STALL_MS, Spread::NONE)
}

/// The provider that loads models on demand had σ 0.64 where nothing stalled, and for its largest model 16
/// of 145 requests took more than ten times the median: 12 to 72 s, with median 24 s and σ 0.65.
fn cold_70b() -> Latency {
    let slow = hosted_70b().with_spread(Spread::lognormal(0.64).unwrap_or(Spread::NONE));
    let spread = Spread::lognormal(0.65).unwrap_or(Spread::NONE);
    stalling(slow, 16.0 / 145.0, 24_000.0, spread)
}
