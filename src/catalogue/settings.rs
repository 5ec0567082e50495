//! The `[router]` table: how often, how long, and after which failures.

use super::Catalogue;
use crate::router::{
    BreakerScope, BreakerSpec, CooldownSpec, CredentialId, FaultKind, HintUse, Jitter, Kinds,
    Limits, ProviderId, RetryShare, RouteSpec, Router, RouterConfig, Scope, Trip, preset,
};
use crate::source::{Table, Value};
use crate::units::Duration;

/// Longest time that can be configured, in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Reads `[router]` into the catalogue; without it the defaults stand.
pub(super) fn read(value: Option<&Value<'_>>, catalogue: &mut Catalogue) {
    let Some(mut table) = value.and_then(Value::table) else {
        return;
    };
    let names: Vec<&str> = preset::PRESETS.iter().map(|preset| preset.name).collect();
    let preset = table
        .get("preset")
        .and_then(|value| value.one_of("preset", &names));
    let (mut config, mut limits) = match preset {
        Some(index) => (
            (preset::PRESETS[index].config)(),
            preset::PRESETS[index].limits,
        ),
        None => (RouterConfig::default(), Limits::default()),
    };
    if let Some(attempts) = table
        .get("attempts_max")
        .and_then(|value| value.integer_in(1, 100))
    {
        config.attempts_max = attempts as u8;
    }
    if let Some(retries) = table
        .get("retries_per_call")
        .and_then(|value| value.integer_in(0, 255))
    {
        config.retries_per_call = Some(retries as u8);
    }
    set(&mut table, "deadline_s", |deadline| {
        config.call_deadline = Some(deadline)
    });
    set(&mut table, "ttft_max_s", |limit| limits.ttft = limit);
    set(&mut table, "gap_max_s", |limit| limits.gap = limit);
    set(&mut table, "attempt_max_s", |limit| limits.attempt = limit);
    if let Some(mut wait) = table.get("wait").and_then(|value| value.table()) {
        set(&mut wait, "base_s", |base| config.wait.base = base);
        set(&mut wait, "cap_s", |cap| config.wait.cap = cap);
        set(&mut wait, "wait_max_s", |max| config.wait.wait_max = max);
        if let Some(extra) = wait
            .get("extra_max_s")
            .and_then(|value| value.number_in(0.0, SECONDS_MAX))
        {
            config.wait.extra = Duration::from_secs_f64(extra);
        }
        if let Some(factor) = wait.get("factor").and_then(|value| value.integer_in(1, 10)) {
            config.wait.factor = factor as u32;
        }
        let jitters = [
            ("none", Jitter::None),
            ("full", Jitter::Full),
            ("equal", Jitter::Equal),
        ];
        if let Some(index) = wait
            .get("jitter")
            .and_then(|v| v.one_of("jitter", &jitters.map(|(name, _)| name)))
        {
            config.wait.jitter = jitters[index].1;
        }
        let hints = [
            ("longer", HintUse::Longer),
            ("instead", HintUse::Instead),
            ("ignored", HintUse::Ignored),
        ];
        if let Some(index) = wait
            .get("hint")
            .and_then(|v| v.one_of("use of a hint", &hints.map(|(name, _)| name)))
        {
            config.wait.hint = hints[index].1;
        }
        wait.finish();
    }
    if let Some(value) = table.get("breaker") {
        config.breaker = if value.is_table() {
            read_breaker(&value, config.breaker)
        } else {
            off(&value, config.breaker)
        };
    }
    if let Some(value) = table.get("cooldown") {
        config.cooldown = if value.is_table() {
            read_cooldown(&value, config.cooldown)
        } else {
            off(&value, config.cooldown)
        };
    }
    if let Some(value) = table.get("retry_budget") {
        config.retry_share = read_retry_budget(&value, config.retry_share);
    }
    if let Some(mut faults) = table.get("fault").and_then(|value| value.table()) {
        for (name, value) in faults.entries() {
            let Some(kind) = FaultKind::from_name(&name.value) else {
                value.report_diagnostic(
                    name.unknown("kind of failure", FaultKind::ALL.map(FaultKind::name)),
                );
                continue;
            };
            read_fault(kind, &value, &mut config);
        }
    }
    table.finish();
    catalogue.router = config;
    catalogue.limits = limits;
}

fn read_fault(kind: FaultKind, value: &Value<'_>, config: &mut RouterConfig) {
    let Some(mut table) = value.table() else {
        return;
    };
    let mut flag = |key: &str, set: &mut Kinds| {
        if let Some(on) = table.get(key).and_then(|value| value.boolean()) {
            *set = if on {
                set.with(kind)
            } else {
                set.without(kind)
            };
        }
    };
    flag("retry", &mut config.tables.retry_here);
    flag("fail_over", &mut config.tables.fail_over);
    flag("counts", &mut config.tables.counts_against_health);
    flag("alert", &mut config.tables.alert);
    let scopes = [
        ("request", Scope::Request),
        ("route", Scope::Route),
        ("credential", Scope::Credential),
        ("provider", Scope::Provider),
    ];
    if let Some(index) = table
        .get("scope")
        .and_then(|value| value.one_of("scope", &scopes.map(|(name, _)| name)))
    {
        config.tables.scope[kind as usize] = scopes[index].1;
    }
    table.finish();
}

fn read_breaker(value: &Value<'_>, from: Option<BreakerSpec>) -> Option<BreakerSpec> {
    let mut spec = from.unwrap_or_default();
    let mut table = value.table()?;
    if let Some(failures) = table
        .get("failures")
        .and_then(|value| value.integer_in(1, 1_000_000))
    {
        spec.trip = Trip::Consecutive(failures as u32);
    }
    set(&mut table, "cooldown_s", |cooldown| {
        spec.cooldown = cooldown
    });
    let scopes = [
        ("route", BreakerScope::Route),
        ("credential", BreakerScope::Credential),
        ("provider", BreakerScope::Provider),
    ];
    if let Some(index) = table
        .get("scope")
        .and_then(|value| value.one_of("scope", &scopes.map(|(name, _)| name)))
    {
        spec.scope = scopes[index].1;
    }
    if let Some(stops) = table.get("stops_retries").and_then(|value| value.boolean()) {
        spec.stops_retries = stops;
    }
    table.finish();
    Some(spec)
}

fn read_cooldown(value: &Value<'_>, from: Option<CooldownSpec>) -> Option<CooldownSpec> {
    let mut spec = from.or(RouterConfig::default().cooldown)?;
    let mut table = value.table()?;
    set(&mut table, "base_s", |base| spec.base = Some(base));
    set(&mut table, "cooldown_max_s", |max| spec.max = max);
    if let Some(hint) = table.get("use_hint").and_then(|value| value.boolean()) {
        spec.use_hint = hint;
    }
    if let Some(kinds) = table.get("kinds").and_then(|value| value.strings()) {
        let mut set = Kinds::NONE;
        for name in kinds {
            match FaultKind::from_name(&name.value) {
                Some(kind) => set = set.with(kind),
                None => value.report_diagnostic(
                    name.unknown("kind of failure", FaultKind::ALL.map(FaultKind::name)),
                ),
            }
        }
        spec.kinds = set;
    }
    table.finish();
    Some(spec)
}

/// Retries as a share of the traffic, in one of two forms. What a table leaves out is what those who invented
/// the form take: Finagle's `RetryBudget` 20 %, 10 a second and 10 s (its guide, "Retries"), Envoy's
/// `retry_budget` 20 % and 3 (its reference of `CircuitBreakers.Thresholds.RetryBudget`).
fn read_retry_budget(value: &Value<'_>, kept: Option<RetryShare>) -> Option<RetryShare> {
    if value.is_number() || value.is_str() || value.is_list() {
        value.error_help(
            format!("`{}` must be a table, or false for no budget", value.path()),
            RETRY_BUDGETS,
        );
        return kept;
    }
    if !value.is_table() {
        if value.boolean()? && kept.is_none() {
            value.error_help(
                format!("`{}` is true, but there is no budget to keep", value.path()),
                RETRY_BUDGETS,
            );
        }
        return off(value, kept);
    }
    let mut table = value.table()?;
    let mut whole = |key: &str, max: u64| {
        let value = table.get(key)?;
        Some(value.integer_in(0, max).map(|number| number as u32))
    };
    let (percent, per_s) = (whole("percent", 1_000), whole("reserve_per_s", 1_000_000));
    let (in_flight, reserve) = (
        whole("in_flight_percent", 1_000),
        whole("reserve", 1_000_000),
    );
    let window = table.get("window_s").map(|value| {
        let seconds = value.number_in(0.1, 3_600.0)?;
        Some(Duration::from_secs_f64(seconds))
    });
    let of_window = percent.is_some() || per_s.is_some() || window.is_some();
    let of_flight = in_flight.is_some() || reserve.is_some();
    let is_empty = table.is_empty();
    table.finish();
    match (of_window, of_flight) {
        (true, false) => Some(RetryShare::Window {
            percent: percent.unwrap_or(Some(20))?,
            reserve_per_s: per_s.unwrap_or(Some(10))?,
            window: window.unwrap_or(Some(Duration::from_secs(10)))?,
        }),
        (false, true) => Some(RetryShare::InFlight {
            percent: in_flight.unwrap_or(Some(20))?,
            reserve: reserve.unwrap_or(Some(3))?,
        }),
        (true, true) => {
            value.error_help(
                format!("`{}` mixes two forms of a budget", value.path()),
                RETRY_BUDGETS,
            );
            kept
        }
        (false, false) => {
            // Else unknown keys have been reported.
            if is_empty {
                value.error_help(format!("`{}` says nothing", value.path()), RETRY_BUDGETS);
            }
            kept
        }
    }
}

const RETRY_BUDGETS: &str = "of the calls lately: `{ percent = 20, reserve_per_s = 10, window_s = 10 }`; of the calls in progress: `{ in_flight_percent = 20, reserve = 3 }`";

/// `false` switches off, `true` keeps what there was.
fn off<T>(value: &Value<'_>, kept: Option<T>) -> Option<T> {
    match value.boolean() {
        Some(false) => None,
        _ => kept,
    }
}

fn set(table: &mut Table<'_>, key: &str, mut then: impl FnMut(Duration)) {
    if let Some(value) = table.get(key)
        && let Some(seconds) = value.positive()
        && value.number_in(0.0, SECONDS_MAX).is_some()
    {
        then(Duration::from_secs_f64(seconds));
    }
}

impl Catalogue {
    /// The same with the routes filled into the router's configuration.
    pub(super) fn with_router_routes(mut self) -> Self {
        self.router.routes = self
            .routes
            .iter()
            .map(|route| RouteSpec {
                name: route.name.as_str().into(),
                provider: ProviderId(route.provider as u16),
                // One key for each provider: the key's name is the provider's.
                credential: CredentialId(route.provider as u16),
                window: route.context_tokens,
                tools: route.tools,
                residency: route.residency,
                local: route.local,
                price: route.price,
                weight: None,
                limits: self.limits,
            })
            .collect();
        self
    }

    /// A router without any history.
    ///
    /// # Panics
    ///
    /// Never for a catalogue that was read by [`parse`](super::parse), which checks all of this.
    #[must_use]
    pub fn router(&self) -> Router {
        match Router::new(&self.router) {
            Ok(router) => router,
            Err(errors) => unreachable!("a checked catalogue: {errors:?}"),
        }
    }
}
