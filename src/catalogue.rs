//! The route catalogue: `routes.toml`, the contract between a platform team and its routes.
//!
//! It says for each route who runs it, what it costs, how much it can read and everywhere its data may
//! go; and for each tenant and data class where their data may go. A route without a price or without
//! a residency tag is an error, not a default.

mod parse;
mod settings;

pub use parse::{parse, parse_partly};

use std::collections::BTreeMap;

use crate::router::{Limits, Need, Regions, RouteId, RouterConfig};
use crate::source::Location;
use crate::units::{Price, Tokens};

/// Days after which `check` calls a price old.
pub const PRICE_AGE_DAYS_MAX: i64 = 90;

/// Wire format a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// OpenAI Chat Completions.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini generateContent.
    Gemini,
    /// An OpenAI-compatible server.
    Compatible,
    /// Ollama's own chat API.
    Ollama,
}

impl ProviderKind {
    /// All of them, by the name that files use; it is also the name of the wire adapter.
    pub const ALL: [(&str, Self); 5] = [
        ("openai", Self::OpenAi),
        ("anthropic", Self::Anthropic),
        ("gemini", Self::Gemini),
        ("compatible", Self::Compatible),
        ("ollama", Self::Ollama),
    ];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Who runs a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Name, as routes call it.
    pub name: String,
    /// Wire format.
    pub kind: ProviderKind,
    /// Where its server is; the vendor's own address when `None`.
    pub base_url: Option<String>,
    /// Name of the environment variable that holds the key. The key itself is never in a file.
    pub api_key_env: Option<String>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Name, unique.
    pub name: String,
    /// Index into [`Catalogue::providers`].
    pub provider: usize,
    /// Model id the provider knows.
    pub model: String,
    /// Region of the endpoint.
    pub region: Option<String>,
    /// Everywhere its data may go.
    pub residency: Regions,
    /// List price; `None` only for routes that a data file brought along without one.
    pub price: Option<Price>,
    /// When the price was read (year, month, day).
    pub priced_on: Option<(u16, u8, u8)>,
    /// Tokens of prompt and answer together; unknown passes every prompt.
    pub context_tokens: Tokens,
    /// Whether it can be given tools.
    pub tools: bool,
    /// Whether it runs on the caller's own machines.
    pub local: bool,
    /// Where the route is defined.
    pub location: Option<Location>,
}

/// What requests of one tenant or data class need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Regions the data may go to.
    pub residency: Regions,
    /// Whether it must stay on the caller's own machines.
    pub local_only: bool,
}

impl Requirement {
    /// No requirement.
    pub const NONE: Self = Self {
        residency: Regions::ALL,
        local_only: false,
    };

    /// Both requirements at once.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            residency: self.residency.intersect(other.residency),
            local_only: self.local_only || other.local_only,
        }
    }
}

/// Everything `routes.toml` says.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Routes; a [`RouteId`] is an index into this list.
    pub routes: Vec<Route>,
    /// Providers.
    pub providers: Vec<Provider>,
    /// Region tags; the index is the bit in [`Regions`].
    pub regions: Vec<String>,
    /// What a request needs when its tenant has no rule of its own.
    pub default: Requirement,
    /// Rules by tenant: they replace the default.
    pub tenants: BTreeMap<String, Requirement>,
    /// Rules by data class: they hold beside the tenant's.
    pub data_classes: BTreeMap<String, Requirement>,
    /// How the router retries, waits, and breaks circuits.
    pub router: RouterConfig,
    /// How long an attempt may take, on every route.
    pub limits: Limits,
    /// Whether the routes were taken from a data file because no catalogue was given.
    pub made_up: bool,
    /// Where each rule about requests stands: by `default`, `tenant.NAME` and `data_class.NAME`.
    pub rules: BTreeMap<String, Location>,
}

impl Catalogue {
    /// The days on which prices were read (`YYYY-MM-DD`), earliest and latest; `None` if no route says so.
    #[must_use]
    pub fn priced_on(&self) -> Option<(String, String)> {
        let days = || self.routes.iter().filter_map(|route| route.priced_on);
        let text = |(year, month, day): (u16, u8, u8)| format!("{year:04}-{month:02}-{day:02}");
        Some((text(days().min()?), text(days().max()?)))
    }

    /// Routes that a data file names, about which nothing else is known: no price, no window, no
    /// restriction. Good for looking at the data; never for deciding where real data may go.
    #[must_use]
    pub fn of_unknown_routes(names: &[String]) -> Self {
        let routes = names
            .iter()
            .map(|name| Route {
                name: name.clone(),
                provider: 0,
                model: name.clone(),
                region: None,
                residency: Regions::default(),
                price: None,
                priced_on: None,
                context_tokens: Tokens::UNKNOWN,
                tools: true,
                local: false,
                location: None,
            })
            .collect();
        let provider = Provider {
            name: "recorded".into(),
            kind: ProviderKind::Compatible,
            base_url: None,
            api_key_env: None,
        };
        Self {
            routes,
            providers: vec![provider],
            regions: Vec::new(),
            default: Requirement::NONE,
            tenants: BTreeMap::new(),
            data_classes: BTreeMap::new(),
            router: RouterConfig::default(),
            limits: Limits::default(),
            rules: BTreeMap::new(),
            made_up: true,
        }
        .with_router_routes()
    }

    /// The route of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<RouteId> {
        self.routes
            .iter()
            .position(|route| route.name == name)
            .map(|index| RouteId(index as u16))
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.routes.iter().map(|route| route.name.as_str())
    }

    /// What a request of this tenant and data class needs. A data class without a rule is `None`:
    /// refusing is the caller's duty, guessing would not be safe.
    #[must_use]
    pub fn requirement(
        &self,
        tenant: Option<&str>,
        data_class: Option<&str>,
    ) -> Option<Requirement> {
        let tenant = tenant
            .and_then(|name| self.tenants.get(name))
            .copied()
            .unwrap_or(self.default);
        match data_class {
            None => Some(tenant),
            Some(name) => self.data_classes.get(name).map(|class| tenant.and(*class)),
        }
    }

    /// Where the rules stand that make up [`Catalogue::requirement`]: the tenant's, or the default's, then the data
    /// class's.
    pub fn rules_of(
        &self,
        tenant: Option<&str>,
        data_class: Option<&str>,
    ) -> impl Iterator<Item = &Location> {
        let tenant = tenant.filter(|name| self.tenants.contains_key(*name));
        let first = tenant.map_or_else(|| "default".to_owned(), |name| format!("tenant.{name}"));
        let second = data_class.map(|name| format!("data_class.{name}"));
        let keys = std::iter::once(first).chain(second);
        keys.filter_map(|key| self.rules.get(&key))
    }

    /// What `route` can take.
    #[must_use]
    pub fn fit(&self, route: RouteId) -> Fit {
        let route = &self.routes[usize::from(route.0)];
        Fit {
            context_tokens: route.context_tokens,
            residency: route.residency,
            tools: route.tools,
            local: route.local,
        }
    }

    /// Whether `route` could serve `need` at all.
    #[must_use]
    pub fn can_serve(&self, route: RouteId, need: &Need) -> bool {
        self.fit(route).takes(need)
    }
}

/// What a route can take: the facts behind the router's hard filters, for policies that plan with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    context_tokens: Tokens,
    residency: Regions,
    tools: bool,
    local: bool,
}

impl Fit {
    /// Most tokens of prompt and output cap together; `u32::MAX` when unknown, which no request exceeds.
    #[must_use]
    pub(crate) fn window_max(&self) -> u32 {
        self.context_tokens.get().unwrap_or(u32::MAX)
    }

    /// Whether a request with this need passes the filters.
    #[must_use]
    #[inline]
    pub fn takes(&self, need: &Need) -> bool {
        let fits = match (need.input_tokens.get(), self.context_tokens.get()) {
            (Some(input), Some(window)) => {
                u64::from(input) + u64::from(need.output_cap.get().unwrap_or(0))
                    <= u64::from(window)
            }
            _ => true,
        };
        fits & (self.tools | !need.tools)
            & self.residency.is_subset_of(need.residency)
            & (self.local | !need.local_only)
    }
}
