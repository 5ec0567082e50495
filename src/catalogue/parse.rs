//! Reads `routes.toml`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Catalogue, Provider, ProviderKind, Requirement, Route};
use crate::router::{REGIONS_MAX, ROUTES_MAX, Regions};
use crate::source::{At, Diagnostic, Diagnostics, Document, Location, SourceFile, Table, Value};
use crate::units::{Price, TokenPrice};

/// Longest name of a route, tenant, or region, in characters.
const NAME_CHARS_MAX: usize = 64;

/// What to write when the default requirement is missing.
const DEFAULT_HELP: &str = "`default = { residency = [\"eu\", \"us\"] }` (your regions), or `default = { residency = \"anywhere\" }`";

/// Reads a catalogue; `None`, with the reasons in `diagnostics`, if anything in it is wrong.
#[must_use]
pub fn parse(file: &Arc<SourceFile>, diagnostics: &mut Diagnostics) -> Option<Catalogue> {
    parse_partly(file, diagnostics).ok()
}

/// Reads a catalogue.
///
/// # Errors
///
/// With the reasons in `diagnostics`, if anything in it is wrong: then the catalogue is good for nothing
/// but its route names, so that files that refer to them can still be checked; `None` if not even
/// those can be relied on.
pub fn parse_partly(
    file: &Arc<SourceFile>,
    diagnostics: &mut Diagnostics,
) -> Result<Catalogue, Option<Box<Catalogue>>> {
    let document = Document::parse(file);
    let context = document.context();
    let readable = !context.has_errors();
    let mut root = document.table(&context);
    let mut reader = Reader::default();

    let router = root.get("router");
    if let Some(mut table) = root.get("provider").and_then(|value| value.table()) {
        for (name, value) in table.entries() {
            reader.provider(&name, &value);
        }
    }
    if let Some(mut table) = root.require("route").and_then(|value| value.table()) {
        if table.is_empty() {
            table.error("a catalogue needs at least one route");
        }
        for (name, value) in table.entries() {
            reader.route(&name, &value);
        }
    }
    let (default, tenants, data_classes) = match root.get("require") {
        Some(value) => value.table().map(|table| reader.require(table)),
        None => {
            context.report(
                Diagnostic::error("the catalogue does not say where data may go")
                    .at(Location::File {
                        path: file.path.clone(),
                    })
                    .help(format!("add the table `[require]` with {DEFAULT_HELP}")),
            );
            None
        }
    }
    .unwrap_or((Requirement::NONE, BTreeMap::new(), BTreeMap::new()));
    let mut catalogue = Catalogue {
        routes: reader.routes,
        providers: reader.providers,
        regions: reader.regions,
        default,
        tenants,
        data_classes,
        router: Default::default(),
        limits: Default::default(),
        rules: reader.rules,
        made_up: false,
    };
    super::settings::read(router.as_ref(), &mut catalogue);
    root.finish();
    let wrong = context.has_errors();
    context.finish(diagnostics);
    if !wrong {
        return Ok(catalogue.with_router_routes());
    }
    let reliable = readable && !catalogue.routes.is_empty();
    Err(reliable.then(|| Box::new(catalogue)))
}

#[derive(Default)]
struct Reader {
    routes: Vec<Route>,
    providers: Vec<Provider>,
    regions: Vec<String>,
    rules: BTreeMap<String, Location>,
}

impl Reader {
    fn provider(&mut self, name: &At<String>, value: &Value<'_>) {
        check_name("provider", name, value);
        let Some(mut table) = value.table() else {
            return;
        };
        let names = ProviderKind::ALL.map(|(name, _)| name);
        let kind = table
            .require("kind")
            .and_then(|value| value.one_of("provider kind", &names));
        let base_url = table.get("base_url").and_then(|value| value.string());
        if let Some(url) = &base_url
            && !(url.value.starts_with("http://") || url.value.starts_with("https://"))
        {
            table.context().report(
                Diagnostic::error(format!("`{}` is no http or https address", url.value))
                    .at(url.location.clone()),
            );
        }
        let api_key_env = table.get("api_key_env").and_then(|value| value.string());
        if let Some(env) = &api_key_env {
            let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            if env.value.is_empty() || !env.value.chars().all(plain) {
                // The text may be a key that was pasted here, so it is not repeated; the excerpt
                // veils it too.
                table.context().report(
                    Diagnostic::error(
                        "`api_key_env` must be the name of an environment variable, in capitals",
                    )
                    .at(env.location.clone())
                    .help("write `api_key_env = \"LOCAL_KEY\"` and put the key itself into that variable, never into a file"),
                );
            }
        }
        table.finish();
        if let Some(kind) = kind {
            self.providers.push(Provider {
                name: name.value.clone(),
                kind: ProviderKind::ALL[kind].1,
                base_url: base_url.map(|at| at.value),
                api_key_env: api_key_env.map(|at| at.value),
            });
        }
    }

    /// Index of a provider by name; the wire formats are providers of their own.
    fn provider_index(&mut self, value: &Value<'_>) -> Option<usize> {
        let name = value.string()?;
        if let Some(index) = self
            .providers
            .iter()
            .position(|provider| provider.name == name.value)
        {
            return Some(index);
        }
        if let Some((builtin, kind)) = ProviderKind::ALL
            .iter()
            .find(|(builtin, _)| *builtin == name.value)
        {
            let api_key_env = match kind {
                ProviderKind::OpenAi => Some("OPENAI_API_KEY"),
                ProviderKind::Anthropic => Some("ANTHROPIC_API_KEY"),
                ProviderKind::Gemini => Some("GEMINI_API_KEY"),
                ProviderKind::Compatible | ProviderKind::Ollama => None,
            };
            self.providers.push(Provider {
                name: (*builtin).to_owned(),
                kind: *kind,
                base_url: None,
                api_key_env: api_key_env.map(str::to_owned),
            });
            return Some(self.providers.len() - 1);
        }
        let known: Vec<&str> = self
            .providers
            .iter()
            .map(|provider| provider.name.as_str())
            .chain(ProviderKind::ALL.map(|(name, _)| name))
            .collect();
        value.report_diagnostic(name.unknown("provider", known.iter().copied()));
        None
    }

    fn route(&mut self, name: &At<String>, value: &Value<'_>) {
        check_name("route", name, value);
        let Some(mut table) = value.table() else {
            return;
        };
        if self.routes.len() == ROUTES_MAX {
            table.error(format!("at most {ROUTES_MAX} routes fit in one catalogue"));
            return;
        }
        let provider = table
            .require("provider")
            .and_then(|value| self.provider_index(&value));
        let model = table.require("model").and_then(|value| value.string());
        let region = table.get("region").and_then(|value| value.string());
        let residency = match table.get("residency") {
            Some(value) => self.regions(&value),
            None => {
                table.context().report(
                    Diagnostic::error(format!("route `{}` has no residency tag", name.value))
                        .at(table.location())
                        .help("list everywhere its data may go, such as `residency = [\"eu\"]`"),
                );
                None
            }
        };
        let price = match table.get("usd_per_mtok") {
            Some(value) => read_price(&value),
            None => {
                table.context().report(
                    Diagnostic::error(format!("route `{}` has no price", name.value))
                        .at(table.location())
                        .help("add `usd_per_mtok = { input = …, output = … }`, and `priced_on` with the day you read it"),
                );
                None
            }
        };
        let priced_on = table.get("priced_on").and_then(|value| value.date());
        let context_tokens = table
            .get("context_tokens")
            .and_then(|value| value.integer_in(1, 1_000_000_000))
            .map(|n| n as u32);
        let tools = table
            .get("tools")
            .and_then(|value| value.boolean())
            .unwrap_or(true);
        let local = table
            .get("local")
            .and_then(|value| value.boolean())
            .unwrap_or(false);
        table.finish();
        self.routes.push(Route {
            name: name.value.clone(),
            provider: provider.unwrap_or(0),
            model: model.map(|at| at.value).unwrap_or_default(),
            region: region.map(|at| at.value),
            residency: residency.unwrap_or_default(),
            price,
            priced_on,
            context_tokens: context_tokens.into(),
            tools,
            local,
            location: Some(name.location.clone()),
        });
    }

    /// A list of region tags as a set; new tags are added to the list of regions.
    fn regions(&mut self, value: &Value<'_>) -> Option<Regions> {
        let tags = value.strings()?;
        if tags.is_empty() {
            value.error(format!("`{}` must name at least one region", value.path()));
            return None;
        }
        let mut set = 0;
        for tag in tags {
            let index = match self.regions.iter().position(|known| *known == tag.value) {
                Some(index) => index,
                None if self.regions.len() == REGIONS_MAX => {
                    value.error(format!(
                        "at most {REGIONS_MAX} different regions fit in one catalogue"
                    ));
                    return None;
                }
                None => {
                    self.regions.push(tag.value);
                    self.regions.len() - 1
                }
            };
            set |= 1 << index;
        }
        Some(Regions(set))
    }

    fn require(
        &mut self,
        mut table: Table<'_>,
    ) -> (
        Requirement,
        BTreeMap<String, Requirement>,
        BTreeMap<String, Requirement>,
    ) {
        let default = match table.get("default") {
            Some(value) => {
                self.rules.insert("default".to_owned(), value.location());
                self.requirement(&value)
            }
            None => {
                table.context().report(
                    Diagnostic::error("`[require]` does not say where data may go by default")
                        .at(table.location())
                        .help(format!("add {DEFAULT_HELP}")),
                );
                None
            }
        }
        .unwrap_or(Requirement::NONE);
        let mut group = |reader: &mut Self, key: &str| {
            let mut rules = BTreeMap::new();
            if let Some(mut table) = table.get(key).and_then(|value| value.table()) {
                for (name, value) in table.entries() {
                    check_name(key, &name, &value);
                    let place = format!("{key}.{}", name.value);
                    reader.rules.insert(place, name.location.clone());
                    if let Some(rule) = reader.requirement(&value) {
                        rules.insert(name.value, rule);
                    }
                }
            }
            rules
        };
        let tenants = group(self, "tenant");
        let data_classes = group(self, "data_class");
        table.finish();
        (default, tenants, data_classes)
    }

    fn requirement(&mut self, value: &Value<'_>) -> Option<Requirement> {
        let mut table = value.table()?;
        let residency = match table.require("residency") {
            // A word, so that "no restriction" is said and not left out.
            Some(value) if value.is_str() => value
                .one_of("residency", &["anywhere"])
                .map(|_| Regions::ALL),
            Some(value) => {
                let before = self.regions.len();
                let set = self.regions(&value);
                if self.regions.len() > before {
                    let known: Vec<String> = self.regions[..before].to_vec();
                    for tag in value.strings().unwrap_or_default() {
                        if !known.contains(&tag.value) {
                            value.report_diagnostic(
                                tag.unknown("region", known.iter().map(String::as_str)),
                            );
                        }
                    }
                    self.regions.truncate(before);
                    None
                } else {
                    set
                }
            }
            None => None,
        };
        let local_only = table
            .get("local_only")
            .and_then(|value| value.boolean())
            .unwrap_or(false);
        table.finish();
        Some(Requirement {
            residency: residency?,
            local_only,
        })
    }
}

fn read_price(value: &Value<'_>) -> Option<Price> {
    let mut table = value.table()?;
    let mut part = |key: &str, required: bool| -> Option<TokenPrice> {
        let value = if required {
            table.require(key)
        } else {
            table.get(key)
        }?;
        let usd = value.number()?;
        let price = TokenPrice::from_usd_per_mtok(usd);
        if price.is_none() {
            let wrong = if (0.0..=1e9).contains(&usd) {
                "may have at most six decimals"
            } else {
                "must be between 0 and 10⁹"
            };
            value.error_help(
                format!("`{}` {wrong}, but is {usd}", value.path()),
                "a price is USD per million tokens",
            );
        }
        price
    };
    let (input, output) = (part("input", true), part("output", true));
    let (cached_input, cache_write, reasoning) = (
        part("cached_input", false),
        part("cache_write", false),
        part("reasoning", false),
    );
    table.finish();
    Some(Price {
        input: input?,
        output: output?,
        cached_input,
        cache_write,
        reasoning,
    })
}

fn check_name(what: &str, name: &At<String>, value: &Value<'_>) {
    let chars = name.value.chars().count();
    if chars == 0 || chars > NAME_CHARS_MAX || name.value.chars().any(char::is_control) {
        value.report_diagnostic(
            Diagnostic::error(format!(
                "a {what}'s name has 1 to {NAME_CHARS_MAX} characters and no control characters"
            ))
            .at(name.location.clone()),
        );
    }
}
