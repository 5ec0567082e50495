//! What each kind of failure permits: three tables, kept apart.
//!
//! Most gateways mix three questions: may the same route be asked again, may another one be asked,
//! and does the failure say anything about the route's health. Here each is a set of kinds, so that
//! a configuration can answer them one by one.

use super::FaultKind;

impl FaultKind {
    /// All ten kinds.
    pub const ALL: [Self; 10] = [
        Self::RateLimit,
        Self::Overloaded,
        Self::Timeout,
        Self::Server,
        Self::Quota,
        Self::Auth,
        Self::ContextLength,
        Self::Unsupported,
        Self::ContentFilter,
        Self::InvalidRequest,
    ];

    /// The name used in configurations, traces and reports, such as `rate_limit`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::Server => "server",
            Self::Quota => "quota",
            Self::Auth => "auth",
            Self::ContextLength => "context_length",
            Self::Unsupported => "unsupported",
            Self::ContentFilter => "content_filter",
            Self::InvalidRequest => "invalid_request",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A set of kinds of failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u16);

impl Kinds {
    /// No kind.
    pub const NONE: Self = Self(0);

    /// These kinds.
    #[must_use]
    pub const fn of(kinds: &[FaultKind]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < kinds.len() {
            bits |= 1 << kinds[index] as u16;
            index += 1;
        }
        Self(bits)
    }

    /// Whether `kind` is in the set.
    #[must_use]
    #[inline(always)]
    pub const fn has(self, kind: FaultKind) -> bool {
        self.0 >> kind as u16 & 1 == 1
    }

    /// The set and `kind`.
    #[must_use]
    pub const fn with(self, kind: FaultKind) -> Self {
        Self(self.0 | 1 << kind as u16)
    }

    /// The set without `kind`.
    #[must_use]
    pub const fn without(self, kind: FaultKind) -> Self {
        Self(self.0 & !(1 << kind as u16))
    }

    /// The members, in the order of [`FaultKind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = FaultKind> {
        FaultKind::ALL.into_iter().filter(move |&k| self.has(k))
    }
}

/// About whom a failure says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only about the request: it would fail again, and it proves nothing about the route.
    Request,
    /// About the one endpoint.
    Route,
    /// About the key it was called with: other keys at the same provider may be fine.
    Credential,
    /// About everything the provider runs.
    Provider,
}

/// What each kind of failure permits and proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultTables {
    /// The same route may be asked again after a wait.
    pub retry_here: Kinds,
    /// The next leg may be tried. A [`FaultKind::ContextLength`] goes to strictly bigger windows
    /// only, whatever else the plan lists.
    pub fail_over: Kinds,
    /// It counts against the breaker. A kind whose scope is [`Scope::Request`] never does, and one
    /// whose scope is [`Scope::Credential`] does not count against a provider-wide breaker: a bad
    /// key must not shut out everybody else's.
    pub counts_against_health: Kinds,
    /// An operator should hear of it: money or credentials, which waiting does not mend.
    pub alert: Kinds,
    /// About whom the kind says something, indexed by `kind as usize`. It also says how far a
    /// cooldown reaches.
    pub scope: [Scope; 10],
}

impl FaultTables {
    /// The lesson's table of ten kinds (retry here, fail over), with the traps of its breaker
    /// mended: kinds that are about the request say nothing about the route's health.
    pub const DEFAULT: Self = Self {
        retry_here: Kinds::of(&[
            FaultKind::RateLimit,
            FaultKind::Overloaded,
            FaultKind::Timeout,
            FaultKind::Server,
        ]),
        fail_over: Kinds::of(&[
            FaultKind::RateLimit,
            FaultKind::Overloaded,
            FaultKind::Timeout,
            FaultKind::Server,
            FaultKind::Quota,
            FaultKind::Auth,
            FaultKind::ContextLength,
            FaultKind::Unsupported,
        ]),
        counts_against_health: Kinds::of(&[
            FaultKind::RateLimit,
            FaultKind::Overloaded,
            FaultKind::Timeout,
            FaultKind::Server,
            FaultKind::Quota,
            FaultKind::Auth,
        ]),
        alert: Kinds::of(&[FaultKind::Quota, FaultKind::Auth]),
        scope: [
            Scope::Credential, // rate limits are kept per key
            Scope::Route,
            Scope::Route,
            Scope::Route,
            Scope::Credential,
            Scope::Credential,
            Scope::Request,
            Scope::Request,
            Scope::Request,
            Scope::Request,
        ],
    };

    /// About whom `kind` says something.
    #[must_use]
    #[inline(always)]
    pub const fn scope_of(&self, kind: FaultKind) -> Scope {
        self.scope[kind as usize]
    }
}

impl Default for FaultTables {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_read_back() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(FaultKind::from_name("rate limit"), None);
        for (index, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set = Kinds::of(&[FaultKind::Auth]).with(FaultKind::Server);
        assert!(set.has(FaultKind::Auth) && set.has(FaultKind::Server));
        assert!(!set.has(FaultKind::Quota));
        let kinds: Vec<_> = set.without(FaultKind::Auth).iter().collect();
        assert_eq!(kinds, [FaultKind::Server]);
        assert_eq!(Kinds::NONE.iter().count(), 0);
    }

    /// ER-01: (retry here, fail over) of each kind.
    #[test]
    fn er01_the_default_table_is_the_lessons() {
        use FaultKind::*;
        let expected = [
            (RateLimit, true, true),
            (Overloaded, true, true),
            (Timeout, true, true),
            (Server, true, true),
            (Quota, false, true),
            (Auth, false, true),
            (ContextLength, false, true),
            (Unsupported, false, true),
            (ContentFilter, false, false),
            (InvalidRequest, false, false),
        ];
        let tables = FaultTables::DEFAULT;
        for (kind, retry, fail_over) in expected {
            assert_eq!(tables.retry_here.has(kind), retry, "{kind:?}");
            assert_eq!(tables.fail_over.has(kind), fail_over, "{kind:?}");
        }
    }
}
