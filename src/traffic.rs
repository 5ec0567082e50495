//! The canonical record of one attempt: what was asked where, what came of it, and what it cost.
//!
//! One record is written for every request that was sent and for every route that was passed over.
//! It holds ids, counts and times. Prompts and answers are in it only where somebody asked for
//! them; keys never are. What is not known is absent (`null`), never zero.
//!
//! Its JSON has a fixed order of fields and names its schema, so that whoever reads a log can tell
//! what they have before them.

pub mod attempts;
pub mod seen;

use serde::{Deserialize, Serialize};

use crate::units::{Duration, Price, Usd};

/// The schema of [`Attempt`] as JSON.
pub const SCHEMA: &str = "routelab.attempt/1";

/// On whose behalf an attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Somebody waits for the answer.
    User,
    /// A copy whose answer nobody sees.
    Shadow,
    /// A verifier that asks a route.
    Judge,
    /// A second attempt beside a slow first one.
    Hedge,
}

impl Origin {
    /// The word in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Shadow => "shadow",
            Self::Judge => "judge",
            Self::Hedge => "hedge",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// With a whole answer (which need not be the one that was served).
    Ok,
    /// It failed before the caller saw any of it.
    Error,
    /// It failed after the caller had seen some of it.
    ErrorMidStream,
    /// The caller went away.
    Cancelled,
    /// Nothing was sent.
    Skipped,
}

impl Outcome {
    /// The word in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::ErrorMidStream => "error_mid_stream",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
        }
    }
}

/// Under which heading a usage meter books an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metered {
    /// A whole answer came.
    Answered,
    /// It failed before any output reached the caller.
    Failed,
    /// It failed after output: what was produced may be billed, and nobody says how much.
    MidStream,
    /// The caller went away: what was produced until then may be billed.
    Abandoned,
    /// Nothing was sent.
    Nothing,
}

/// Tokens that the provider says it counted; `None` where it said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// The whole prompt, cached and cache-written tokens included.
    pub input: Option<u32>,
    /// Everything billed as output, reasoning included.
    pub output: Option<u32>,
    /// The part of `input` that was read from a cache.
    pub cached: Option<u32>,
    /// The part of `input` that was written to a cache.
    pub cache_write: Option<u32>,
    /// The part of `output` that was reasoning.
    pub reasoning: Option<u32>,
}

impl TokenCounts {
    /// What they cost at a list price; `None` if prompt or output is not known. A part that has a price
    /// of its own but was not reported is billed as what it is a part of. (Most providers leave a
    /// counter out when there is nothing to count.)
    #[must_use]
    pub fn cost(&self, price: &Price) -> Option<Usd> {
        let (input, output) = (self.input?, self.output?);
        let cached = self.cached.unwrap_or(0).min(input);
        let written = self.cache_write.unwrap_or(0).min(input - cached);
        let reasoning = self.reasoning.unwrap_or(0).min(output);
        let parts = [
            (price.input, input - cached - written),
            (price.cached_input.unwrap_or(price.input), cached),
            (price.cache_write.unwrap_or(price.input), written),
            (price.output, output - reasoning),
            (price.reasoning.unwrap_or(price.output), reasoning),
        ];
        Some(parts.iter().fold(Usd::ZERO, |sum, (price, tokens)| {
            sum.plus(price.times(*tokens))
        }))
    }
}

/// A route that was passed over, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Name of the route.
    pub route: String,
    /// [`Skip::name`](crate::router::Skip::name).
    pub reason: String,
}

/// What was asked and answered, for those who want it in their records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The conversation that was sent, in words.
    pub request: String,
    /// The answer as far as it came.
    pub answer: String,
    /// The beginning of the provider's error message, if there was one. It may quote the prompt.
    pub message: Option<String>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Always [`SCHEMA`].
    pub schema: Schema,
    /// What all attempts of one call have in common.
    pub trace_id: String,
    /// On whose behalf.
    pub origin: Origin,
    /// Name of the policy that decided.
    pub policy: String,
    /// Digest of its file, if somebody computed it.
    pub policy_digest: Option<String>,
    /// Digest of the route catalogue, if somebody computed it.
    pub routes_digest: Option<String>,
    /// The probability with which the policy chose this plan, if it drew and says so.
    pub propensity: Option<f64>,
    /// The routes this call had passed over before.
    pub rejected: Vec<Rejected>,
    /// Where the request's data may go; `None` for anywhere.
    pub residency: Option<Vec<String>>,
    /// Whether it must stay on the caller's own machines.
    pub local_only: bool,
    /// Name of the route.
    pub route: String,
    /// Where its endpoint stands, as the catalogue says.
    pub region: Option<String>,
    /// Host (and port) that was asked.
    pub host: Option<String>,
    /// Name of the provider in the catalogue.
    pub provider: String,
    /// The dialect it speaks.
    pub dialect: String,
    /// The model that was asked.
    pub model: String,
    /// The model that says it answered.
    pub model_reported: Option<String>,
    /// Which attempt of this call on this route, from 1; 0 where nothing was sent.
    pub attempt: u8,
    /// How it ended.
    pub outcome: Outcome,
    /// The kind of failure, one of ten.
    pub kind: Option<String>,
    /// Where the failure showed, or why the route was passed over.
    pub reason: Option<String>,
    /// The provider's code for the failure.
    pub code: Option<String>,
    /// HTTP status.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// Why the answer ended.
    pub stop: Option<String>,
    /// What a verifier said of the answer: `accept`, `reject` or `unavailable`.
    pub verdict: Option<String>,
    /// What was odd about the answer.
    pub warnings: Vec<String>,
    /// Tokens.
    pub tokens: TokenCounts,
    /// At list price; `None` when unknown.
    #[serde(rename = "cost_usd", with = "dollars")]
    pub cost: Option<Usd>,
    /// Whether the provider billed it, as far as anybody can tell: `None` when nobody can.
    pub billed: Option<bool>,
    /// Under which heading it is booked.
    pub metered: Metered,
    /// From sending to the end; without the time in which the caller did not ask for more.
    #[serde(rename = "latency_us", with = "micros")]
    pub latency: Option<Duration>,
    /// From sending to the first content. Only of streams: of an answer sent at once nobody can tell.
    #[serde(rename = "ttft_us", with = "micros")]
    pub ttft: Option<Duration>,
    /// The wait before it was sent.
    #[serde(rename = "waited_us", with = "micros")]
    pub waited: Option<Duration>,
    /// Words, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<Content>,
}

/// The name of the schema, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schema;

impl Serialize for Schema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(SCHEMA)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = String::deserialize(deserializer)?;
        if found == SCHEMA {
            Ok(Self)
        } else {
            Err(serde::de::Error::custom(format!(
                "the record's schema is `{found}`, not `{SCHEMA}`"
            )))
        }
    }
}

mod dollars {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::units::Usd;

    pub(super) fn serialize<S: Serializer>(
        cost: &Option<Usd>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        cost.map(Usd::as_f64).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Usd>, D::Error> {
        Option::<f64>::deserialize(deserializer)?
            .map(|dollars| {
                Usd::from_f64(dollars)
                    .ok_or_else(|| serde::de::Error::custom("a cost is a number of dollars"))
            })
            .transpose()
    }
}

mod micros {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::units::Duration;

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.0).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::TokenPrice;

    fn price(input: f64, output: f64) -> Price {
        let per = |usd| TokenPrice::from_usd_per_mtok(usd).unwrap();
        Price {
            input: per(input),
            output: per(output),
            cached_input: None,
            cache_write: None,
            reasoning: None,
        }
    }

    /// OB-07: 2,792 prompt and 296 generated tokens at the article's placeholder prices.
    #[test]
    fn ob07_cost_is_tokens_times_list_price() {
        let tokens = TokenCounts {
            input: Some(2_792),
            output: Some(296),
            ..TokenCounts::default()
        };
        let cost = tokens.cost(&price(1.0, 5.0)).unwrap();
        assert_eq!(cost, Usd::from_f64(0.004_272).unwrap());
    }

    #[test]
    fn parts_with_a_price_of_their_own_are_billed_at_it() {
        let per = |usd| TokenPrice::from_usd_per_mtok(usd);
        let price = Price {
            cached_input: per(0.1),
            cache_write: per(1.25),
            reasoning: per(2.0),
            ..price(1.0, 4.0)
        };
        let tokens = TokenCounts {
            input: Some(1_000),
            output: Some(200),
            cached: Some(600),
            cache_write: Some(100),
            reasoning: Some(50),
        };
        let micro_dollars = 300.0 + 600.0 * 0.1 + 100.0 * 1.25 + 150.0 * 4.0 + 50.0 * 2.0;
        assert_eq!(tokens.cost(&price), Usd::from_f64(micro_dollars / 1e6));
    }

    #[test]
    fn an_unknown_side_makes_the_cost_unknown() {
        let tokens = TokenCounts {
            input: Some(10),
            ..TokenCounts::default()
        };
        assert_eq!(tokens.cost(&price(1.0, 4.0)), None);
    }
}
