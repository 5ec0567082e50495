//! What clients ask for besides answers: the models there are, and what a model can do.

use serde_json::{Value, json};

/// A list of models, or the one at the end of the path, in a dialect's shape.
pub(super) fn models(dialect: &str, path: &str, names: &[&str]) -> Value {
    let asked = path
        .rsplit_once("/models/")
        .map(|(_, name)| name)
        .filter(|name| !name.is_empty());
    let one = |name: &str| match dialect {
        "anthropic" => json!({
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
        }),
        "gemini" => json!({
            "name": format!("models/{name}"),
            "supportedGenerationMethods": ["generateContent"],
        }),
        "ollama" => json!({ "name": name, "model": name }),
        _ => json!({ "id": name, "object": "model", "created": 0, "owned_by": "routelab" }),
    };
    if let Some(name) = asked {
        return one(name);
    }
    let all: Vec<Value> = names.iter().map(|name| one(name)).collect();
    match dialect {
        "anthropic" => json!({
            "data": all,
            "has_more": false,
            "first_id": names.first(),
            "last_id": names.last(),
        }),
        "gemini" | "ollama" => json!({ "models": all }),
        _ => json!({ "object": "list", "data": all }),
    }
}

/// Ollama's `/api/show`: enough for a client to learn that the model takes tools.
pub(super) fn show() -> Value {
    json!({
        "modelfile": "",
        "parameters": "",
        "template": "{{ .Prompt }}",
        "details": { "format": "gguf", "family": "routelab", "families": ["routelab"] },
        "model_info": {},
        "capabilities": ["completion", "tools"],
    })
}
