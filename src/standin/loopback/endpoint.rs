//! Which of a provider's services a path belongs to.

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// A completion.
    Complete,
    /// The models there are, or one of them.
    Models,
    /// Ollama's description of a model, which some clients ask for on their own.
    Show,
}

impl Service {
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Complete | Self::Show => "POST",
            Self::Models => "GET",
        }
    }
}

/// The dialect and the service of a path (without its query); `None` if nothing is served there.
///
/// A path may begin with the dialect's name; without one it is a provider's own, with or without the
/// version. Azure's `/openai/deployments/{name}/…` is among them.
pub(super) fn endpoint(path: &str, is_gemini_key: bool) -> Option<(&'static str, Service)> {
    let first = path.strip_prefix('/')?.split('/').next()?;
    let named = ["openai", "anthropic", "gemini", "compatible", "ollama"]
        .into_iter()
        .find(|name| *name == first);
    let rest = named.map_or(path, |name| &path[1 + name.len()..]);
    let (dialect, service) = provider_path(rest, is_gemini_key)?;
    match named {
        None => Some((dialect, service)),
        Some(name) if name == dialect => Some((name, service)),
        // The shape of Chat Completions has two adapters.
        Some("compatible") if dialect == "openai" => Some(("compatible", service)),
        Some(name) if service == Service::Models && dialect == "openai" => Some((name, service)),
        Some(_) => None,
    }
}

fn provider_path(path: &str, is_gemini_key: bool) -> Option<(&'static str, Service)> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    if let ["api", method] = parts.as_slice() {
        return match *method {
            "chat" => Some(("ollama", Service::Complete)),
            "show" => Some(("ollama", Service::Show)),
            "tags" => Some(("ollama", Service::Models)),
            _ => None,
        };
    }
    let is_version = |part: &str| matches!(part, "v1" | "v1beta" | "v1alpha");
    let (version, parts) = match parts.split_first() {
        Some((first, rest)) if is_version(first) => (Some(*first), rest),
        _ => (None, parts.as_slice()),
    };
    match parts {
        ["deployments", _, "chat", "completions"] if version.is_none() => {
            Some(("openai", Service::Complete))
        }
        ["chat", "completions"] => Some(("openai", Service::Complete)),
        ["messages"] => Some(("anthropic", Service::Complete)),
        ["models", rest @ ..] => {
            let is_gemini = is_gemini_key || !matches!(version, None | Some("v1"));
            match rest {
                [name] if name.contains(':') => {
                    let method = name.rsplit(':').next()?;
                    matches!(method, "generateContent" | "streamGenerateContent")
                        .then_some(("gemini", Service::Complete))
                }
                [] | [_] if is_gemini => Some(("gemini", Service::Models)),
                [] | [_] => Some(("openai", Service::Models)),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_all_clients_find_their_dialect() {
        use Service::{Complete, Models, Show};
        for (path, expected) in [
            ("/v1/chat/completions", Some(("openai", Complete))),
            ("/chat/completions", Some(("openai", Complete))),
            ("/openai/v1/chat/completions", Some(("openai", Complete))),
            (
                "/openai/deployments/d/chat/completions",
                Some(("openai", Complete)),
            ),
            (
                "/compatible/v1/chat/completions",
                Some(("compatible", Complete)),
            ),
            ("/v1/messages", Some(("anthropic", Complete))),
            ("/anthropic/v1/messages", Some(("anthropic", Complete))),
            ("/v1/models/m:generateContent", Some(("gemini", Complete))),
            (
                "/v1beta/models/m:streamGenerateContent",
                Some(("gemini", Complete)),
            ),
            (
                "/gemini/v1beta/models/m:generateContent",
                Some(("gemini", Complete)),
            ),
            ("/api/chat", Some(("ollama", Complete))),
            ("/ollama/api/chat", Some(("ollama", Complete))),
            ("/api/show", Some(("ollama", Show))),
            ("/v1/models", Some(("openai", Models))),
            ("/anthropic/v1/models", Some(("anthropic", Models))),
            ("/v1beta/models", Some(("gemini", Models))),
            ("/compatible/v1/models/m", Some(("compatible", Models))),
            ("/anthropic/v1/chat/completions", None),
            ("/v1/models/m:countTokens", None),
            ("/v1/responses", None),
            ("/", None),
            ("", None),
            ("*", None),
            ("//", None),
        ] {
            assert_eq!(endpoint(path, false), expected, "{path}");
        }
        assert_eq!(endpoint("/v1/models", true), Some(("gemini", Models)));
    }
}
