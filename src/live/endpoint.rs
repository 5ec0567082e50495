//! Where a route's requests go: base addresses, their paths, keys.

use std::sync::Arc;

use super::error::BuildError;
use crate::catalogue::{Catalogue, ProviderKind};
use crate::wire::{self, Adapter};

/// Where a vendor documents its own server to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultBaseUrl {
    /// The wire format.
    pub kind: ProviderKind,
    /// The address without the path of its API.
    pub url: &'static str,
    /// Where that is documented, and when it was read.
    pub source: &'static str,
}

/// The addresses that hold where a catalogue gives none. A compatible server has none: it is wherever
/// somebody put it.
pub const DEFAULT_BASE_URLS: &[DefaultBaseUrl] = &[
    DefaultBaseUrl {
        kind: ProviderKind::OpenAi,
        url: "https://api.openai.com",
        source: "OpenAI API reference, servers of the OpenAPI document 2.3.0; November 2026",
    },
    DefaultBaseUrl {
        kind: ProviderKind::Anthropic,
        url: "https://api.anthropic.com",
        source: "Anthropic API overview; November 2026",
    },
    DefaultBaseUrl {
        kind: ProviderKind::Gemini,
        url: "https://generativelanguage.googleapis.com",
        source: "Gemini API reference, service endpoint; November 2026",
    },
    DefaultBaseUrl {
        kind: ProviderKind::Ollama,
        url: "http://localhost:11434",
        source: "Ollama API documentation; November 2026",
    },
];

/// One route's server, ready to be asked.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) adapter: Arc<dyn Adapter>,
    /// Without a slash at its end.
    pub(super) base: String,
    /// Host and port, as records show it.
    pub(super) host: String,
    pub(super) key: Option<String>,
    /// The variable whose key is missing. Nothing can be sent then.
    pub(super) missing_key: Option<String>,
    pub(super) model: String,
}

/// The endpoints of all routes, and what is wrong with those that are used.
pub(super) fn endpoints(
    catalogue: &Catalogue,
    base_urls: &[(String, String)],
    keys: &dyn Fn(&str) -> Option<String>,
    is_used: &dyn Fn(usize) -> bool,
    errors: &mut Vec<BuildError>,
) -> Vec<Option<Endpoint>> {
    for (name, _) in base_urls {
        if !catalogue.providers.iter().any(|known| known.name == *name) {
            push(
                errors,
                BuildError::UnknownProvider {
                    name: name.clone(),
                    known: catalogue.providers.iter().map(|p| p.name.clone()).collect(),
                },
            );
        }
    }
    let endpoint = |(index, route): (usize, &crate::catalogue::Route)| {
        let provider = catalogue.providers.get(route.provider)?;
        let mut report = |error| {
            if is_used(index) {
                push(errors, error);
            }
        };
        let given = base_urls
            .iter()
            .find(|(name, _)| *name == provider.name)
            .map(|(_, url)| url.clone())
            .or_else(|| provider.base_url.clone())
            .or_else(|| default_base_url(provider.kind).map(str::to_owned));
        let Some(base) = given else {
            report(BuildError::NoBaseUrl {
                provider: provider.name.clone(),
            });
            return None;
        };
        let (base, host) = match check(&base) {
            Ok(parts) => parts,
            Err(why) => {
                report(BuildError::BadBaseUrl {
                    provider: provider.name.clone(),
                    why,
                });
                return None;
            }
        };
        let mut key = None;
        let mut missing_key = None;
        if let Some(variable) = &provider.api_key_env {
            match keys(variable).filter(|key| !key.trim().is_empty()) {
                Some(found) if found.trim().bytes().all(|byte| byte.is_ascii_graphic()) => {
                    key = Some(found.trim().to_owned());
                }
                Some(_) => {
                    report(BuildError::BadKey {
                        variable: variable.clone(),
                    });
                    return None;
                }
                None => {
                    report(BuildError::MissingKey {
                        variable: variable.clone(),
                        provider: provider.name.clone(),
                    });
                    missing_key = Some(variable.clone());
                }
            }
        }
        Some(Endpoint {
            adapter: Arc::from(wire::adapter(provider.kind.name())?),
            base,
            host,
            key,
            missing_key,
            model: route.model.clone(),
        })
    };
    catalogue.routes.iter().enumerate().map(endpoint).collect()
}

/// One complaint for each cause, however many routes it concerns.
fn push(errors: &mut Vec<BuildError>, error: BuildError) {
    if !errors.contains(&error) {
        errors.push(error);
    }
}

fn default_base_url(kind: ProviderKind) -> Option<&'static str> {
    DEFAULT_BASE_URLS
        .iter()
        .find(|default| default.kind == kind)
        .map(|default| default.url)
}

/// The address without a slash at its end, and its host; or what is wrong with it. The address itself is
/// not repeated in the complaint: it may hold a password.
fn check(base: &str) -> Result<(String, String), &'static str> {
    let url = reqwest::Url::parse(base.trim()).map_err(|_| "it is no address")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it is no http or https address");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a user name or a password; keys belong into a variable");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it has something behind its path");
    }
    let Some(host) = url.host_str() else {
        return Err("it names no host");
    };
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    Ok((url.as_str().trim_end_matches('/').to_owned(), host))
}

/// A base address and an adapter's path as one address. People write the base with and without the
/// version, as their SDK wants it: `https://host`, `https://host/v1`, `https://host/openai/v1`. A version in
/// the base stands for the one in the path, and a first segment that the base ends with is not repeated.
#[must_use]
pub fn join(base: &str, path: &str) -> String {
    let base = base.trim_end_matches('/');
    let rest = path.strip_prefix('/').unwrap_or(path);
    let (first, tail) = rest.split_once('/').unwrap_or((rest, ""));
    let after_host = base.split_once("://").map_or(base, |(_, rest)| rest);
    let mut segments = after_host.split('/').skip(1);
    let is_said =
        segments.clone().last() == Some(first) || (is_version(first) && segments.any(is_version));
    if is_said && !tail.is_empty() {
        format!("{base}/{tail}")
    } else {
        format!("{base}/{rest}")
    }
}

/// `v1`, `v1beta`, `v2alpha1`: a version of an API.
fn is_version(segment: &str) -> bool {
    let mut chars = segment.chars();
    chars.next() == Some('v')
        && chars.next().is_some_and(|c| c.is_ascii_digit())
        && chars.all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_never_doubled() {
        let chat = "/v1/chat/completions";
        let gemini = "/v1beta/models/m:generateContent";
        for (base, path, joined) in [
            ("http://h:1", chat, "http://h:1/v1/chat/completions"),
            ("http://h:1/", chat, "http://h:1/v1/chat/completions"),
            ("http://h:1/v1", chat, "http://h:1/v1/chat/completions"),
            ("http://h:1/v1/", chat, "http://h:1/v1/chat/completions"),
            (
                "https://h/openai",
                chat,
                "https://h/openai/v1/chat/completions",
            ),
            (
                "https://h/openai/v1",
                chat,
                "https://h/openai/v1/chat/completions",
            ),
            (
                "https://h/v1beta/openai",
                chat,
                "https://h/v1beta/openai/chat/completions",
            ),
            ("https://h/v1", "/v1/messages", "https://h/v1/messages"),
            (
                "https://h",
                gemini,
                "https://h/v1beta/models/m:generateContent",
            ),
            (
                "https://h/v1beta",
                gemini,
                "https://h/v1beta/models/m:generateContent",
            ),
            // Another version in the base is what its writer wants.
            (
                "https://h/v1",
                gemini,
                "https://h/v1/models/m:generateContent",
            ),
            ("http://h:11434", "/api/chat", "http://h:11434/api/chat"),
            ("http://h:11434/api", "/api/chat", "http://h:11434/api/chat"),
        ] {
            assert_eq!(join(base, path), joined, "{base} {path}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_meant_are_refused_without_being_repeated() {
        for bad in [
            "",
            "nonsense",
            "ftp://h",
            "https://user:secret@h",
            "https://h/?key=secret",
            "https://h/#x",
        ] {
            let why = check(bad).unwrap_err();
            assert!(!why.contains("secret"), "{bad}");
        }
        assert_eq!(
            check("https://h:8080/v1/").unwrap(),
            ("https://h:8080/v1".to_owned(), "h:8080".to_owned())
        );
    }

    #[test]
    fn every_kind_but_the_compatible_one_has_its_vendors_address() {
        for kind in [
            ProviderKind::OpenAi,
            ProviderKind::Anthropic,
            ProviderKind::Gemini,
            ProviderKind::Ollama,
        ] {
            let url = default_base_url(kind).unwrap();
            assert_eq!(check(url).unwrap().0, url);
        }
        assert_eq!(default_base_url(ProviderKind::Compatible), None);
    }
}
