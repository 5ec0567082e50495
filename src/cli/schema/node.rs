//! Pieces that schemas are made of: one value of a file each, with what it means, its unit and its default.

use serde_json::{Map, Value as Json, json};

/// Annotation with the unit of a number. Validators pass over names that they do not know.
pub(super) const UNIT: &str = "x-unit";
/// Annotation with what stands for a name in a table of names, such as `ROUTE`.
pub(super) const NAME: &str = "x-name";

/// The schema of one value.
#[derive(Clone, Debug)]
pub(super) struct Node {
    map: Map<String, Json>,
    required: bool,
}

impl Node {
    fn new(about: &str) -> Self {
        let mut map = Map::new();
        if !about.is_empty() {
            map.insert("description".to_owned(), json!(about));
        }
        Self {
            map,
            required: false,
        }
    }

    pub(super) fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.map.insert(key.to_owned(), value.into());
        self
    }

    /// The table that holds it is wrong without it.
    pub(super) fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// What holds if it is not there.
    pub(super) fn default(self, value: impl Into<Json>) -> Self {
        self.with("default", value)
    }

    pub(super) fn unit(self, unit: &str) -> Self {
        self.with(UNIT, unit)
    }

    pub(super) fn from(self, low: impl Into<Json>) -> Self {
        self.with("minimum", low)
    }

    pub(super) fn above(self, low: impl Into<Json>) -> Self {
        self.with("exclusiveMinimum", low)
    }

    pub(super) fn to(self, high: impl Into<Json>) -> Self {
        self.with("maximum", high)
    }

    pub(super) fn below(self, high: impl Into<Json>) -> Self {
        self.with("exclusiveMaximum", high)
    }

    /// Of a list: how many items it has.
    pub(super) fn items(self, low: usize, high: usize) -> Self {
        self.with("minItems", low).with("maxItems", high)
    }

    /// Of a table: it has exactly one of its keys.
    pub(super) fn one_key(self) -> Self {
        self.with("minProperties", 1).with("maxProperties", 1)
    }

    /// Of a table: it has at least one key.
    pub(super) fn some_key(self) -> Self {
        self.with("minProperties", 1)
    }

    /// Of a table: it has exactly one of these keys. May be said of several groups.
    pub(super) fn exactly_one_of(mut self, keys: &[&str]) -> Self {
        let choices: Vec<Json> = keys
            .iter()
            .map(|key| json!({ "required": [key] }))
            .collect();
        let all = self
            .map
            .entry("allOf")
            .or_insert_with(|| Json::Array(Vec::new()));
        if let Json::Array(all) = all {
            all.push(json!({ "oneOf": choices }));
        }
        self
    }

    pub(super) fn json(self) -> Json {
        Json::Object(self.map)
    }
}

/// A number.
pub(super) fn number(about: &str) -> Node {
    Node::new(about).with("type", "number")
}

/// A share or probability.
pub(super) fn share(about: &str) -> Node {
    number(about).from(0).to(1)
}

/// A whole number.
pub(super) fn whole(about: &str, low: u64, high: u64) -> Node {
    Node::new(about).with("type", "integer").from(low).to(high)
}

/// A text.
pub(super) fn text(about: &str) -> Node {
    Node::new(about).with("type", "string")
}

/// True or false.
pub(super) fn flag(about: &str) -> Node {
    Node::new(about).with("type", "boolean")
}

/// A date, which TOML writes without quotation marks.
pub(super) fn date(about: &str) -> Node {
    text(about).with("format", "date")
}

/// One of these words.
pub(super) fn word<'n>(about: &str, words: impl IntoIterator<Item = &'n str>) -> Node {
    let words: Vec<&str> = words.into_iter().collect();
    text(about).with("enum", words)
}

/// A list.
pub(super) fn list(about: &str, item: Node) -> Node {
    Node::new(about)
        .with("type", "array")
        .with("items", item.json())
}

/// A table whose keys are all known.
pub(super) fn table<'k>(about: &str, keys: impl IntoIterator<Item = (&'k str, Node)>) -> Node {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (key, node) in keys {
        if node.required {
            required.push(json!(key));
        }
        properties.insert(key.to_owned(), node.json());
    }
    let mut node = Node::new(about)
        .with("type", "object")
        .with("properties", properties);
    if !required.is_empty() {
        node = node.with("required", required);
    }
    node.with("additionalProperties", false)
}

/// A table of names, such as one for each route: `name` stands for one of them in documents.
pub(super) fn names(about: &str, name: &str, value: Node) -> Node {
    Node::new(about)
        .with("type", "object")
        .with(NAME, name)
        .with("additionalProperties", value.json())
}

/// One thing or another.
pub(super) fn either(about: &str, choices: impl IntoIterator<Item = Node>) -> Node {
    let choices: Vec<Json> = choices.into_iter().map(Node::json).collect();
    Node::new(about).with("anyOf", choices)
}

/// What stands under this name in `$defs`.
pub(super) fn defined(about: &str, name: &str) -> Node {
    Node::new(about).with("$ref", format!("#/$defs/{name}"))
}

/// A text or a list of texts.
pub(super) fn words(about: &str) -> Node {
    either(about, [text(""), list("", text(""))])
}

/// The name of a route.
pub(super) fn route(about: &str) -> Node {
    text(about)
}

/// Names of routes, at least one.
pub(super) fn routes(about: &str) -> Node {
    list(about, text("")).with("minItems", 1)
}

/// A table that anything may be in.
pub(super) fn any_table(about: &str) -> Node {
    Node::new(about).with("type", "object")
}
