//! Why a client could not be built, and why a call has no answer.

use std::fmt;

use crate::router::{Failure, FailureReason, FaultKind};
use crate::source::describe_list;
use crate::traffic::Attempt;
use crate::wire;

/// Something that stands against building a client. None of them holds a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// No key is in the variable that the catalogue names.
    MissingKey {
        /// The variable.
        variable: String,
        /// The provider that wants it.
        provider: String,
    },
    /// What is in the variable cannot be sent in a header.
    BadKey {
        /// The variable.
        variable: String,
    },
    /// Nobody says where the provider's server is.
    NoBaseUrl {
        /// The provider.
        provider: String,
    },
    /// A base address makes no sense.
    BadBaseUrl {
        /// The provider.
        provider: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A base address is given for a provider that the catalogue does not have.
    UnknownProvider {
        /// The name.
        name: String,
        /// The names it has.
        known: Vec<String>,
    },
    /// The policy learns from labelled examples, and live calls bring none.
    NeedsExamples {
        /// Name of the policy.
        policy: String,
        /// Its kind.
        kind: &'static str,
    },
    /// A verifier that knows the truth of a simulated world.
    SimulatedVerifier {
        /// Name of the policy.
        policy: String,
    },
    /// The router's settings contradict each other.
    Router {
        /// How.
        why: String,
    },
    /// The transport could not be set up.
    Transport {
        /// Why.
        why: String,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingKey { variable, provider } => write!(
                f,
                "the environment variable `{variable}` is not set: provider `{provider}` needs the key that should be in it"
            ),
            Self::BadKey { variable } => write!(
                f,
                "what is in the environment variable `{variable}` is no key: a key is printable ASCII without spaces"
            ),
            Self::NoBaseUrl { provider } => write!(
                f,
                "nobody says where provider `{provider}` is: give it a `base_url` in the catalogue"
            ),
            Self::BadBaseUrl { provider, why } => {
                write!(
                    f,
                    "the base address of provider `{provider}` is not usable: {why}"
                )
            }
            Self::UnknownProvider { name, known } => write!(
                f,
                "the catalogue has no provider `{name}`, only {}",
                describe_list(known.iter().map(String::as_str))
            ),
            Self::NeedsExamples { policy, kind } => write!(
                f,
                "policy `{policy}` ({kind}) learns from labelled examples, and a live call has none"
            ),
            Self::SimulatedVerifier { policy } => write!(
                f,
                "policy `{policy}` has a simulated verifier, which judges by the truth of a simulated world; a live call needs one that reads the answer"
            ),
            Self::Router { why } => write!(f, "the router's settings do not fit each other: {why}"),
            Self::Transport { why } => write!(f, "the transport could not be set up: {why}"),
        }
    }
}

impl std::error::Error for BuildError {}

/// Why a call has no answer, or no whole one.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// No route answered, and nothing was shown.
    Unserved {
        /// The router's reason.
        failure: Failure,
        /// The last failure, if anything was sent.
        last: Option<Box<wire::Error>>,
        /// Every attempt and every route that was passed over.
        trail: Vec<Attempt>,
    },
    /// It failed after output had reached the caller. Nothing is asked again: whether to show the
    /// partial answer, to drop it or to begin anew is the application's choice.
    MidStream {
        /// What went wrong.
        error: Box<wire::Error>,
        /// The text that was shown.
        partial: String,
        /// Every attempt and every route that was passed over.
        trail: Vec<Attempt>,
    },
    /// The catalogue has no rule for this data class, so nobody knows where the data may go.
    UnknownDataClass {
        /// The name.
        name: String,
    },
}

impl CallError {
    /// The kind of failure that ended the call, if it was one.
    #[must_use]
    pub fn kind(&self) -> Option<FaultKind> {
        match self {
            Self::Unserved { failure, .. } => match failure.reason {
                FailureReason::Exhausted(kind)
                | FailureReason::Rejected(kind)
                | FailureReason::MidStream(kind) => Some(kind),
                _ => None,
            },
            Self::MidStream { error, .. } => Some(error.kind),
            Self::UnknownDataClass { .. } => None,
        }
    }

    /// Every attempt and every route that was passed over.
    #[must_use]
    pub fn trail(&self) -> &[Attempt] {
        match self {
            Self::Unserved { trail, .. } | Self::MidStream { trail, .. } => trail,
            Self::UnknownDataClass { .. } => &[],
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unserved { failure, last, .. } => {
                f.write_str(&reason(failure.reason))?;
                if let Some(last) = last {
                    write!(f, "; the last failure: {last}")?;
                }
                Ok(())
            }
            Self::MidStream { error, .. } => {
                write!(f, "the answer broke off after it had begun: {error}")
            }
            Self::UnknownDataClass { name } => write!(
                f,
                "the catalogue has no rule for data class `{name}`, so the request goes nowhere"
            ),
        }
    }
}

impl std::error::Error for CallError {}

fn reason(reason: FailureReason) -> String {
    match reason {
        FailureReason::RefusedByResidency => {
            "the request's data may go to no route of the plan".to_owned()
        }
        FailureReason::NoCapableRoute => "no route of the plan can take the request".to_owned(),
        FailureReason::Exhausted(kind) => {
            format!("every route failed, the last one with `{}`", kind.name())
        }
        FailureReason::AllUnavailable => {
            "every route is behind an open breaker or pauses".to_owned()
        }
        FailureReason::Rejected(kind) => format!(
            "the request was refused (`{}`), which no other route may mend",
            kind.name()
        ),
        FailureReason::MidStream(kind) => {
            format!("it failed with `{}` after output", kind.name())
        }
        FailureReason::Deadline => "there was no time left".to_owned(),
        FailureReason::RetryBudget => "the budget for retries is spent".to_owned(),
        FailureReason::MoneyBudget => "the account cannot pay for it".to_owned(),
        FailureReason::Cancelled => "it was cancelled".to_owned(),
    }
}
