//! Real calls through a policy: the driver of the router core that opens sockets.
//!
//! ```text
//! Request + CallContext ──policy──▶ plan ──Router::step──▶ Step::Send ──reqwest──▶ Exchange ──▶ events
//!                                             ▲                                        │
//!                                             └────────── Input::Reply / Fault ────────┘
//! ```
//!
//! [`Client`] is the whole interface for applications: [`Client::complete`] and [`Client::stream`]. It
//! decides nothing itself: the policy names the routes, the router says what to do next, an adapter
//! writes and reads the bytes. What it adds is the transport and the clock, and what follows from them:
//!
//! - One attempt of the router is one HTTP request. The transport repeats nothing, follows no
//!   redirects, and reads neither proxies nor addresses nor keys from the environment, but the keys
//!   whose variables the catalogue names.
//! - Output that the caller has seen is never followed by output of another attempt: what fails after it
//!   surfaces as [`CallError::MidStream`].
//! - An answer that ended because the provider filtered it is a failure of kind `content_filter`, in
//!   `complete` and in `stream` alike. The router decides whether another route may be asked, as
//!   long as nothing was shown.
//! - Whoever drops the future or the stream cancels the call: the connection is closed, the route's place
//!   in flight is given back once, and the attempt is recorded as `cancelled`.
//!
//! What it is not: a cache, a queue, a place to keep conversations.

mod client;
mod clock;
mod endpoint;
mod error;
mod flight;
mod hooks;
mod meter;
mod need;
mod record;
mod stream;
mod telemetry;
mod verdict;
mod walk;

pub use client::{CallContext, Client, Completion, KeyLookup, Options, PolicyChoice, Spend};
pub use clock::{Clock, RealClock, Sleep, VirtualClock};
pub use endpoint::{DEFAULT_BASE_URLS, DefaultBaseUrl, join};
pub use error::{BuildError, CallError};
pub use hooks::{Hook, JsonLines};
pub use meter::{Meter, MeterRow, Sum, Totals};
pub use need::{input_tokens_estimate, transcript};
pub use stream::AnswerStream;
pub use telemetry::{SEMCONV_VERSION, Tracing};
