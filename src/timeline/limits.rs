//! Rate limits of providers: token buckets that routes share.
//!
//! A limit belongs to an organisation and a model family, not to a key or a route, and counts in several
//! dimensions at once; a request must pass all of them. So the 429s of a simulation come from its
//! traffic, and fewer requests mean fewer of them. Documented by providers and followed here: continuous
//! refill (Anthropic, "Rate limits"; OpenAI, "Rate limits"), enforcement over parts of a minute (Azure
//! OpenAI: 600 requests a minute may be enforced as 10 a second), cached prompt tokens that are free
//! (Anthropic, Groq), answers counted by the caller's cap before they exist (Cerebras, OpenAI), and
//! refused requests that count all the same (OpenAI).
//!
//! What is not here: what was reserved for an answer and not used is not given back, and an answer whose
//! actual tokens count is counted when it begins. Both are right over a minute, not over a second.

mod spec;

pub use spec::parse_limit;
pub(super) use spec::read;

use super::Bucket;
use crate::router::RouteId;
use crate::units::{Duration, Instant, Tokens};

/// Microseconds of a minute.
const MINUTE_US: u64 = 60_000_000;
/// Share of 1 in the fixed-point numbers of this file.
const WHOLE: u64 = 1 << 32;

/// What is limited.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Dimension {
    /// Requests.
    Requests,
    /// Prompt tokens.
    InputTokens,
    /// Generated tokens.
    OutputTokens,
    /// Both kinds of tokens together.
    Tokens,
}

impl Dimension {
    /// All four.
    pub const ALL: [Self; 4] = [
        Self::Requests,
        Self::InputTokens,
        Self::OutputTokens,
        Self::Tokens,
    ];

    /// The key in files, such as `requests_per_min`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_min",
            Self::InputTokens => "input_tokens_per_min",
            Self::OutputTokens => "output_tokens_per_min",
            Self::Tokens => "tokens_per_min",
        }
    }

    /// The key on the command line, such as `rpm`.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::Requests => "rpm",
            Self::InputTokens => "itpm",
            Self::OutputTokens => "otpm",
            Self::Tokens => "tpm",
        }
    }

    /// In words, such as `input tokens`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
            Self::Tokens => "tokens",
        }
    }
}

/// How the tokens of an answer that does not exist yet are counted when its request is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputCount {
    /// As many as the answer will have.
    Actual,
    /// As many as the caller lets it have; as many as it will have where nobody set a cap.
    Cap,
}

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// The routes that share it.
    pub routes: Vec<RouteId>,
    /// How much a minute, in the order of [`Dimension::ALL`].
    pub per_min: [Option<u64>; 4],
    /// How much of the allowance can be used at once: what comes in over this time.
    pub window: Duration,
    /// How answers are counted.
    pub output: OutputCount,
    /// Whether prompt tokens that the provider has cached count as none, among input tokens and among
    /// tokens.
    pub cached_free: bool,
    /// Whether a refused request uses up the allowance of requests, too: what is there of one. Callers
    /// that come faster than the allowance fills then never get in.
    pub refused_count: bool,
}

impl Limit {
    /// A limit over a minute that does not limit anything yet: actual answers, nothing free, refusals
    /// free.
    #[must_use]
    pub fn new(name: impl Into<String>, routes: Vec<RouteId>) -> Self {
        Self {
            name: name.into(),
            routes,
            per_min: [None; 4],
            window: Duration::from_secs(60),
            output: OutputCount::Actual,
            cached_free: false,
            refused_count: false,
        }
    }

    /// The same, with so much of one dimension a minute.
    #[must_use]
    pub const fn with(mut self, dimension: Dimension, per_min: u64) -> Self {
        self.per_min[dimension as usize] = Some(per_min);
        self
    }

    /// Puts a limit of a command line into force. Where limits already count a dimension for a route,
    /// their numbers become this one's, for everybody who shares them; what nobody counted is limited
    /// for the routes of this one alone. A window that is too short for a single one becomes long enough.
    pub fn set_in(self, limits: &mut Vec<Self>) {
        for dimension in Dimension::ALL {
            let Some(per_min) = self.per_min[dimension as usize] else {
                continue;
            };
            let mut alone = Vec::new();
            for &route in &self.routes {
                let mut counted = false;
                for one in &mut *limits {
                    if one.routes.contains(&route) && one.per_min[dimension as usize].is_some() {
                        one.per_min[dimension as usize] = Some(per_min);
                        let single = Duration(MINUTE_US.div_ceil(per_min.max(1)));
                        one.window = one.window.max(single);
                        counted = true;
                    }
                }
                if !counted {
                    alone.push(route);
                }
            }
            if !alone.is_empty() {
                limits.push(
                    Self {
                        routes: alone,
                        per_min: [None; 4],
                        ..self.clone()
                    }
                    .with(dimension, per_min),
                );
            }
        }
    }
}

/// A request that was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which limit, as an index.
    pub limit: u16,
    /// What was used up.
    pub dimension: Dimension,
    /// When to come again: a request that comes then gets in, unless others come before it. Never if
    /// `None`: see [`Refusal::is_final`].
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Whether the request is larger than the limit's whole capacity, so that no wait helps.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        self.retry_after.is_none()
    }
}

/// One bucket of a limit.
#[derive(Clone, Copy, Debug)]
struct Counter {
    bucket: Bucket,
    dimension: Dimension,
}

/// A limit that a route is under.
#[derive(Clone, Copy, Debug)]
struct Under {
    /// Index of the limit.
    limit: u16,
    /// Its counters: from here,
    first: u32,
    /// to here, exclusive.
    end: u32,
    /// Share of the prompt that counts, of [`WHOLE`].
    counted: u64,
    output: OutputCount,
    refused_count: bool,
}

impl Under {
    /// What a request needs of each dimension.
    #[inline(always)]
    fn needs(&self, input: Tokens, output: Tokens, cap: Tokens) -> [u64; 4] {
        let input = u64::from(input.get().unwrap_or(0));
        // Rounded up: a free part never makes more than itself free.
        let input = (input * self.counted).div_ceil(WHOLE);
        let output = match self.output {
            OutputCount::Actual => output,
            OutputCount::Cap if cap.get().is_some() => cap,
            OutputCount::Cap => output,
        };
        let output = u64::from(output.get().unwrap_or(0));
        [1, input, output, input + output]
    }
}

/// The buckets of all limits.
#[derive(Clone, Debug)]
pub struct Limiter {
    /// Limit after limit.
    counters: Vec<Counter>,
    /// By route: the limits it is under.
    of: Vec<Vec<Under>>,
}

impl Limiter {
    /// All buckets full, and no prompt cached.
    #[must_use]
    pub fn new(limits: &[Limit], routes: usize) -> Self {
        Self::with_cached(limits, std::iter::repeat_n(0.0, routes))
    }

    /// All buckets full. `cached` is, for every route, the share of a prompt's tokens that its provider has
    /// cached, from 0 to 1.
    #[must_use]
    pub fn with_cached(limits: &[Limit], cached: impl IntoIterator<Item = f64>) -> Self {
        let cached: Vec<f64> = cached.into_iter().collect();
        let mut counters = Vec::new();
        let mut of = vec![Vec::new(); cached.len()];
        // Limits are told apart by 16 bits; files have far fewer.
        for (limit, index) in limits.iter().zip(0..u16::MAX) {
            let first = counters.len() as u32;
            for dimension in Dimension::ALL {
                if let Some(per_min) = limit.per_min[dimension as usize] {
                    let bucket = Bucket::over(per_min, limit.window);
                    counters.push(Counter { bucket, dimension });
                }
            }
            for route in &limit.routes {
                let route = usize::from(route.0);
                let Some(list): Option<&mut Vec<Under>> = of.get_mut(route) else {
                    continue;
                };
                if list.iter().any(|under| under.limit == index) {
                    continue;
                }
                let free = if limit.cached_free {
                    cached[route]
                } else {
                    0.0
                };
                list.push(Under {
                    limit: index,
                    first,
                    end: counters.len() as u32,
                    // A float-to-integer `as` saturates and maps NaN to zero.
                    counted: WHOLE - ((free * WHOLE as f64).round() as u64).min(WHOLE),
                    output: limit.output,
                    refused_count: limit.refused_count,
                });
            }
        }
        Self { counters, of }
    }

    /// Lets a request in, or says which limit it meets. It is let in by all limits of its route or by none:
    /// what is refused uses up nothing, but where [`Limit::refused_count`] says so. Unknown tokens
    /// count as none. Times must not run backwards.
    ///
    /// # Errors
    ///
    /// The limit that makes the caller wait longest, of those that refuse.
    #[inline]
    pub fn admit(
        &mut self,
        route: RouteId,
        now: Instant,
        input: Tokens,
        output: Tokens,
        cap: Tokens,
    ) -> Result<(), Refusal> {
        let Self { counters, of } = self;
        let Some(of) = of.get(usize::from(route.0)) else {
            return Ok(());
        };
        let mut passes = true;
        for under in of {
            let needs = under.needs(input, output, cap);
            for counter in &mut counters[under.first as usize..under.end as usize] {
                passes &= counter.bucket.has(needs[counter.dimension as usize], now);
            }
        }
        if !passes {
            return refuse(counters, of, now, |under| under.needs(input, output, cap));
        }
        for under in of {
            let needs = under.needs(input, output, cap);
            for counter in &mut counters[under.first as usize..under.end as usize] {
                counter.bucket.spend(needs[counter.dimension as usize]);
            }
        }
        Ok(())
    }
}

/// Refuses a request that does not pass. The limit to blame is found before refusals are counted, the
/// wait after: it has to last until everything is there.
#[cold]
fn refuse(
    counters: &mut [Counter],
    of: &[Under],
    now: Instant,
    needs: impl Fn(&Under) -> [u64; 4],
) -> Result<(), Refusal> {
    // "Never" is longer than any wait.
    let order = |wait: Option<Duration>| (wait.is_none(), wait);
    let mut worst: Option<Refusal> = None;
    for under in of {
        let needs = needs(under);
        for counter in &mut counters[under.first as usize..under.end as usize] {
            let wait = counter.bucket.wait(needs[counter.dimension as usize], now);
            if wait != Some(Duration::ZERO)
                && worst.is_none_or(|worst| order(wait) > order(worst.retry_after))
            {
                worst = Some(Refusal {
                    limit: under.limit,
                    dimension: counter.dimension,
                    retry_after: wait,
                });
            }
        }
    }
    let Some(mut refusal) = worst else {
        return Ok(());
    };
    for under in of.iter().filter(|under| under.refused_count) {
        for counter in &mut counters[under.first as usize..under.end as usize] {
            if counter.dimension == Dimension::Requests {
                counter.bucket.drain(1, now);
                let wait = counter.bucket.wait(1, now);
                if order(wait) > order(refusal.retry_after) {
                    refusal.retry_after = wait;
                }
            }
        }
    }
    Err(refusal)
}
