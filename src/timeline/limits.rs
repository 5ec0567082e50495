//! Rate limits of providers: token buckets that routes share.

use super::Bucket;
use crate::router::RouteId;
use crate::units::{Duration, Instant, Tokens};

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// How much of a minute's allowance can be used at once.
    pub window: Duration,
    /// How answers are counted.
    pub output: OutputCount,
}

/// A request that was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which limit, as an index.
    pub limit: u16,
    /// What was used up.
    pub dimension: Dimension,
    /// When to come again; never if `None`.
    pub retry_after: Option<Duration>,
}

/// The buckets of all limits.
#[derive(Clone, Debug)]
pub struct Limiter {
    buckets: Vec<[Option<Bucket>; 4]>,
    outputs: Vec<OutputCount>,
    /// By route: the limits it is under.
    of: Vec<Vec<u16>>,
}

impl Limiter {
    /// All buckets full.
    #[must_use]
    pub fn new(limits: &[Limit], routes: usize) -> Self {
        let bucket = |limit: &Limit, dimension: usize| {
            limit.per_min[dimension].map(|per_min| {
                let burst = u128::from(per_min) * u128::from(limit.window.0) / 60_000_000;
                Bucket::new(per_min, u64::try_from(burst).unwrap_or(u64::MAX).max(1))
            })
        };
        let mut of = vec![Vec::new(); routes];
        for (index, limit) in limits.iter().enumerate() {
            for route in &limit.routes {
                if let Some(list) = of.get_mut(usize::from(route.0)) {
                    list.push(index as u16);
                }
            }
        }
        Self {
            buckets: limits
                .iter()
                .map(|limit| std::array::from_fn(|dimension| bucket(limit, dimension)))
                .collect(),
            outputs: limits.iter().map(|limit| limit.output).collect(),
            of,
        }
    }

    /// Lets a request in, or says which limit it meets. What is refused uses up nothing. Unknown tokens
    /// count as none.
    ///
    /// # Errors
    ///
    /// The limit that makes the caller wait longest.
    pub fn admit(
        &mut self,
        route: RouteId,
        now: Instant,
        input: Tokens,
        output: Tokens,
        cap: Tokens,
    ) -> Result<(), Refusal> {
        let Some(of) = self.of.get(usize::from(route.0)) else {
            return Ok(());
        };
        let input = u64::from(input.get().unwrap_or(0));
        let output = u64::from(output.get().unwrap_or(0));
        let needs = |count: OutputCount| {
            let output = match count {
                OutputCount::Actual => output,
                OutputCount::Cap => cap.get().map_or(output, u64::from),
            };
            [1, input, output, input + output]
        };
        let mut worst: Option<Refusal> = None;
        for &index in of {
            let needs = needs(self.outputs[usize::from(index)]);
            let buckets = &mut self.buckets[usize::from(index)];
            for ((bucket, need), dimension) in buckets.iter_mut().zip(needs).zip(Dimension::ALL) {
                let Some(bucket) = bucket else { continue };
                let wait = bucket.wait(need, now);
                if wait == Some(Duration::ZERO) {
                    continue;
                }
                let longer = worst.is_none_or(|worst| match (worst.retry_after, wait) {
                    (None, _) => false,
                    (Some(_), None) => true,
                    (Some(old), Some(new)) => new > old,
                });
                if longer {
                    worst = Some(Refusal {
                        limit: index,
                        dimension,
                        retry_after: wait,
                    });
                }
            }
        }
        if let Some(refusal) = worst {
            return Err(refusal);
        }
        for &index in of {
            let needs = needs(self.outputs[usize::from(index)]);
            for (bucket, need) in self.buckets[usize::from(index)].iter_mut().zip(needs) {
                if let Some(bucket) = bucket {
                    bucket.take(need, now);
                }
            }
        }
        Ok(())
    }
}
