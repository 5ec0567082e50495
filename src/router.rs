//! The sans-IO router core: it decides, somebody else acts.
//!
//! One [`Router`] holds what calls share (breakers, cooldowns, in-flight counts, budgets); one
//! [`Call`] is a request in progress with exactly one outstanding [`Step`]. A driver opens a call,
//! feeds it [`Input`]s with the time at which they happened, and does what each step says:
//!
//! ```text
//! let mut call = router.open(plan, need, jitter);
//! let mut step = router.step(&mut call, Input::Begin, now, &mut log);
//! loop {
//!     step = match step {
//!         Step::Send { route, .. } => /* send it, then */ router.step(&mut call, Input::Reply(..) or Input::Fault(..), now, &mut log),
//!         Step::Verify { route, verifier } => router.step(&mut call, Input::Verdict(..), now, &mut log),
//!         Step::Wait { until } => /* sleep, then */ router.step(&mut call, Input::Wake, until, &mut log),
//!         Step::Done(served) => break Ok(served),
//!         Step::Failed(failure) => break Err(failure),
//!     }
//! }
//! ```
//!
//! What is not here: a clock, randomness, floating point, allocation after [`Router::open`], a vendor,
//! a policy, a simulator. The sequence of `(now, Input)` is the whole trace: feed it again and the
//! same steps come out.

mod breaker;
mod budget;
mod config;
mod fault;
mod log;
mod plan;
mod pool;
pub mod preset;
pub mod retry;
mod step;
mod walk;

pub use breaker::{BreakerScope, BreakerSpec, BreakerState, Trip};
pub use budget::{Account, AccountSpec, RetryShare};
pub use config::{ConfigError, CooldownSpec, PoolSpec, RouteSpec, RouterConfig, Strategy};
pub use fault::{FaultTables, Kinds, Scope};
pub use log::{Alert, BreakerChange, Log};
pub use plan::{Plan, VERIFIERS_MAX};
pub use retry::{HintUse, Jitter, WaitPolicy, wait};
pub use step::{
    Failure, FailureReason, Input, Limits, Served, ServedVerdict, Skip, Step, UnservedReason,
};
pub use walk::{Abreast, AnswersAbreast, Call, EligibleSet, InstantEnd, InstantWalk, Router};

use crate::units::{Duration, Instant, Tokens};

/// Most routes one router knows.
pub const ROUTES_MAX: usize = 256;
/// Most legs in one plan.
pub const LEGS_MAX: usize = 8;
/// Most distinct region tags in one configuration.
pub const REGIONS_MAX: usize = 64;

/// A route: one endpoint that can answer. An index into the catalogue's list of routes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct RouteId(pub u16);

/// Who runs a route. An index into the catalogue's list of providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(pub u16);

/// Which key or account at a provider a route is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CredentialId(pub u16);

/// A pool of interchangeable routes. An index into the configuration's list of pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u16);

/// Which verifier is to look at an answer. Only the driver knows what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerifierId(pub u8);

/// Whose money a call spends. An index into the configuration's list of accounts; no budget is
/// kept for an account that is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub u16);

/// A set of region tags, at most [`REGIONS_MAX`]; which bit is which region is the catalogue's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Regions(pub u64);

impl Regions {
    /// Every region, also those nobody named.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether everything in `self` is also in `allowed`.
    #[must_use]
    #[inline(always)]
    pub const fn is_subset_of(self, allowed: Self) -> bool {
        self.0 & !allowed.0 == 0
    }

    /// What both allow.
    #[must_use]
    pub const fn intersect(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// What one leg of a plan tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// This route.
    Route(RouteId),
    /// Whichever member the pool's strategy picks.
    Pool(PoolId),
}

/// One step of a plan. Without a verifier its answer is final; with one, a rejected answer goes to the next leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Where the request goes.
    pub target: Target,
    /// Who looks at the answer.
    pub verifier: Option<VerifierId>,
}

/// What a request needs from a route. Hard filters, checked before anything is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Prompt tokens. Unknown passes the window filter (whoever measures counts it).
    pub input_tokens: Tokens,
    /// Most tokens the answer may have. Unknown counts as none in the window filter.
    pub output_cap: Tokens,
    /// Whether the request carries tools.
    pub tools: bool,
    /// Regions the request's data may go to.
    pub residency: Regions,
    /// Only routes that run on the caller's own machines.
    pub local_only: bool,
    /// Whose budget is spent, if budgets are kept.
    pub account: Option<AccountId>,
    /// When the whole walk must have ended.
    pub deadline: Option<Instant>,
}

/// Tokens a provider said it billed. `input` is the whole prompt including cache; `output` everything billed as output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens.
    pub input: Tokens,
    /// Generated tokens, reasoning included.
    pub output: Tokens,
}

/// The ten kinds of failure, from what the ten vendors' documents say a caller may do about it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[repr(u8)]
pub enum FaultKind {
    /// Too many requests or tokens a minute (429).
    RateLimit,
    /// The provider has no capacity (503, 529).
    Overloaded,
    /// Nothing came in time (408, 504, no connection).
    Timeout,
    /// The provider broke (500).
    Server,
    /// Out of money or of a daily allowance.
    Quota,
    /// The credential is not accepted (401, 403).
    Auth,
    /// The prompt does not fit the model's window.
    ContextLength,
    /// The route cannot do what is asked.
    Unsupported,
    /// A policy outcome of the provider, not a fault.
    ContentFilter,
    /// The request itself is wrong.
    InvalidRequest,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// How long the provider asked to wait, if it said.
    pub retry_after: Option<Duration>,
    /// What the attempt cost all the same, if anybody said.
    pub usage: Option<Usage>,
}

/// A finished answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What it was billed, if the provider said.
    pub usage: Option<Usage>,
}

/// What a verifier says of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Good enough to serve.
    Accept,
    /// Try the next leg.
    Reject,
    /// The verifier itself failed: escalates like a rejection, and is counted apart.
    Unavailable,
}
