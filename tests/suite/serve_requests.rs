//! Requests of real clients at the servers: every captured one is answered, and what providers refuse is
//! refused here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use routelab::standin::faults::Act;
use routelab::standin::loopback::{Asked, Log, Model, ServerSpec};
use routelab::wire::{ADAPTERS, Response, Stop};
use serde_json::{Value, json};

use crate::served::{ask, question, send, server};
use crate::wire_cases::{headers, json_files, say, shared};

/// Captured requests for services that are not offered, with the reason.
const NOT_OFFERED: &[(&str, &str)] = &[
    ("anthropic_py__count_tokens", "counts tokens: no answer"),
    ("google_genai_py__count_tokens", "counts tokens: no answer"),
    ("google_genai_py__interactions", "the Interactions API"),
    ("openai_py__responses_basic", "the Responses API"),
    ("vercel_openai_default__generate_basic", "the Responses API"),
    ("vercel_openai_default__stream", "the Responses API"),
    ("vercel_openai_default__tools_loop", "the Responses API"),
];

#[test]
fn captured_requests_are_answered_over_a_socket() {
    let Some(folder) = shared("captured_requests") else {
        return;
    };
    let server = server(ServerSpec::default());
    let (mut answered, mut refused) = (0, 0);
    for (name, file) in json_files(&folder) {
        for sent in file["requests"].as_array().unwrap() {
            let head = headers(&sent["headers"]);
            // The test's own client frames the body.
            let head: Vec<(&str, &str)> = head
                .0
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .filter(|(name, _)| {
                    !["host", "content-length", "connection", "transfer-encoding"]
                        .iter()
                        .any(|own| name.eq_ignore_ascii_case(own))
                })
                .collect();
            let body = match &sent["body"] {
                Value::Null => String::new(),
                body => body.to_string(),
            };
            let method = sent["method"].as_str().unwrap();
            let path = sent["path"].as_str().unwrap();
            let got = send(server.addr(), method, path, &head, body.as_bytes());
            if NOT_OFFERED.iter().any(|(other, _)| *other == name) {
                assert_eq!(got.status, 404, "{name}: {}", got.text());
                assert!(got.json()["error"]["message"].is_string(), "{name}");
                refused += 1;
            } else {
                assert_eq!(got.status, 200, "{name}: {}", got.text());
                assert!(!got.body.is_empty(), "{name}");
                answered += 1;
            }
        }
    }
    say(&format!("{answered} answered, {refused} not offered"));
    assert!(answered > 80 && refused >= NOT_OFFERED.len());
}

/// A body that each dialect takes, and its path.
fn simplest(dialect: &str) -> (&'static str, Value) {
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    match dialect {
        "gemini" => (
            "/v1beta/models/m:generateContent",
            json!({ "contents": [{ "parts": [{ "text": "Hi" }] }] }),
        ),
        "anthropic" => (
            "/anthropic/v1/messages",
            json!({ "model": "m", "max_tokens": 9, "messages": messages }),
        ),
        "ollama" => (
            "/api/chat",
            json!({ "model": "m", "messages": messages, "stream": false }),
        ),
        "compatible" => (
            "/compatible/v1/chat/completions",
            json!({ "model": "m", "messages": messages }),
        ),
        _ => (
            "/v1/chat/completions",
            json!({ "model": "m", "messages": messages }),
        ),
    }
}

#[test]
fn keys_are_asked_for_where_the_providers_do() {
    let server = server(ServerSpec::default());
    let version = ("anthropic-version", "2023-06-01");
    for kind in ADAPTERS {
        let (path, body) = simplest(kind.name);
        let body = body.to_string();
        let post = |path: &str, header: Option<(&str, &str)>| {
            let headers: Vec<_> = header.into_iter().chain([version]).collect();
            send(server.addr(), "POST", path, &headers, body.as_bytes())
        };
        let open = ["compatible", "ollama"].contains(&kind.name);
        for none in [
            None,
            Some(("authorization", "Bearer ")),
            Some(("authorization", "Basic abc")),
            Some(("x-api-key", "")),
        ] {
            let got = post(path, none);
            if open {
                assert_eq!(got.status, 200, "{}", kind.name);
            } else {
                assert_eq!(got.status, 401, "{} {none:?}", kind.name);
                let error = (kind.make)().classify(
                    got.status,
                    &got.headers,
                    &got.body,
                    routelab::units::Duration::ZERO,
                );
                assert_eq!(error.kind.name(), "auth", "{}: {}", kind.name, got.text());
            }
        }
        for some in [
            ("authorization", "Bearer k"),
            ("x-api-key", "k"),
            ("x-goog-api-key", "k"),
            ("api-key", "k"),
        ] {
            assert_eq!(post(path, Some(some)).status, 200, "{} {some:?}", kind.name);
        }
        assert_eq!(post(&format!("{path}?key=k"), None).status, 200);
    }
}

#[test]
fn wrong_paths_methods_and_bodies_are_refused_in_the_dialects_shape() {
    let server = server(ServerSpec::default());
    let key = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")];
    let send = |method: &str, path: &str, body: &str| {
        send(server.addr(), method, path, &key, body.as_bytes())
    };
    for path in ["/", "/nothing", "/anthropic/v1/chat/completions", "/v1/%00"] {
        let got = send("POST", path, "{}");
        assert_eq!(got.status, 404, "{path}");
        assert!(got.json()["error"]["message"].is_string());
    }
    let got = send("GET", "/v1/messages", "");
    assert_eq!((got.status, got.headers.get("allow")), (405, Some("POST")));
    assert_eq!(got.json()["type"], "error");
    // SI-01: Anthropic refuses a request without max_tokens.
    let got = send(
        "POST",
        "/v1/messages",
        r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#,
    );
    assert_eq!(got.status, 400);
    assert_eq!(got.json()["error"]["type"], "invalid_request_error");
    let got = send("POST", "/v1/models/m:generateContent", "no JSON");
    assert_eq!(got.json()["error"]["status"], "INVALID_ARGUMENT");
    assert_eq!(got.json()["error"]["code"], 400);
    assert_eq!(send("POST", "/v1/chat/completions", "[]").status, 400);
    // Refused requests are no calls.
    assert_eq!(server.calls("openai") + server.calls("anthropic"), 0);
}

#[test]
fn clients_may_ask_which_models_there_are() {
    let spec = ServerSpec {
        names: vec![
            ("small".into(), "a".into()),
            ("small".into(), "b".into()),
            ("large".into(), "c".into()),
        ],
        ..ServerSpec::default()
    };
    let server = server(spec);
    let get = |path| send(server.addr(), "GET", path, &[("x-api-key", "k")], b"").json();
    let list = get("/v1/models");
    let names: Vec<&Value> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["id"])
        .collect();
    assert_eq!(names, ["small", "large"]);
    assert_eq!(get("/anthropic/v1/models")["data"][1]["id"], "large");
    assert_eq!(get("/v1beta/models")["models"][0]["name"], "models/small");
    assert_eq!(get("/ollama/api/tags")["models"][0]["name"], "small");
    assert_eq!(get("/v1/models/other")["id"], "other");
}

#[test]
fn si01_queued_faults_are_taken_one_per_request_before_any_rule() {
    let server = server(ServerSpec::default());
    let status = |status| Act::Status {
        status,
        headers: [("retry-after", "7")].into_iter().collect(),
        body: b"{}".to_vec(),
    };
    server.queue("openai", status(503));
    server.queue("openai", status(429));
    server.queue("gemini", status(500));
    let patience = Duration::from_secs(20);
    let out = question("openai", "m", "Hi", true);
    let statuses = [(); 3].map(|()| ask(&server, "openai", &out, patience).status);
    assert_eq!(statuses, [503, 429, 200]);
    let out = question("gemini", "m", "Hi", false);
    let got = ask(&server, "gemini", &out, patience);
    assert_eq!(
        (got.status, got.headers.get("retry-after")),
        (500, Some("7"))
    );
    assert_eq!(server.calls("openai"), 3);
}

/// Says what it was told.
struct Echo;

impl Model for Echo {
    fn answer(&self, asked: &Asked<'_>) -> Response {
        Response {
            text: format!("{} {}", asked.incoming.model, asked.number),
            stop: Stop::End,
            ..Response::default()
        }
    }
}

#[test]
fn requests_are_numbered_by_model_unless_they_bring_a_number() {
    let server = server(ServerSpec {
        model: Arc::new(Echo),
        ..ServerSpec::default()
    });
    let say = |model: &str, header: &[(&str, &str)]| {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "Hi" }] });
        let path = "/compatible/v1/chat/completions";
        let got = send(
            server.addr(),
            "POST",
            path,
            header,
            body.to_string().as_bytes(),
        );
        let text = got.json()["choices"][0]["message"]["content"].clone();
        text.as_str().unwrap().to_owned()
    };
    assert_eq!(say("a", &[]), "a 0");
    assert_eq!(say("b", &[]), "b 0");
    assert_eq!(say("a", &[]), "a 1");
    assert_eq!(say("a", &[("x-routelab-request", "77")]), "a 77");
    assert_eq!(say("a", &[("x-routelab-request", "not a number")]), "a 3");
}

#[test]
fn rules_see_models_routes_numbers_and_attempts() {
    let text = r#"
        fault = [
            { route = "frail", attempts = 1, status = 503 },
            { route = "main", skip = 1, first = 1, status = 500 },
        ]
    "#;
    let mut found = routelab::source::Diagnostics::default();
    let file = routelab::source::SourceFile::new("faults.toml", text);
    let faults = routelab::standin::faults::parse(&file, &mut found).unwrap();
    let server = server(ServerSpec {
        faults,
        names: vec![("m".into(), "main".into())],
        ..ServerSpec::default()
    });
    let status = |model: &str, header: &[(&str, &str)]| {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "Hi" }] });
        let path = "/compatible/v1/chat/completions";
        send(
            server.addr(),
            "POST",
            path,
            header,
            body.to_string().as_bytes(),
        )
        .status
    };
    assert_eq!(status("frail", &[]), 503);
    assert_eq!(status("frail", &[("x-routelab-attempt", "2")]), 200);
    assert_eq!([(); 3].map(|()| status("m", &[])), [200, 500, 200]);
    let other = ("x-routelab-route", "other");
    let second = ("x-routelab-request", "1");
    assert_eq!(status("m", &[second]), 500);
    assert_eq!(status("m", &[second, other]), 200);
    assert_eq!(status("x", &[("x-routelab-route", "frail")]), 503);
}

/// A log and what is in it.
fn log() -> (Log, Arc<Mutex<Vec<u8>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    (Arc::clone(&lines) as Log, lines)
}

#[test]
fn the_log_tells_every_request_without_keys_and_bodies() {
    let (log, lines) = log();
    let server = server(ServerSpec {
        log: Some(log),
        ..ServerSpec::default()
    });
    server.queue("gemini", Act::KeepAlivesOnly);
    server.queue(
        "gemini",
        Act::SlowFirstToken {
            delay: routelab::units::Duration::ZERO,
        },
    );
    let short = Duration::from_millis(200);
    for kind in ADAPTERS {
        let out = question(kind.name, "m", "PROMPT-WORDS", true);
        ask(&server, kind.name, &out, short);
        send(
            server.addr(),
            "POST",
            "/nowhere?key=sk-test-KEY",
            &[],
            b"PROMPT-WORDS",
        );
    }
    let out = question("gemini", "m", "PROMPT-WORDS", false);
    ask(&server, "gemini", &out, short);
    let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    assert!(!text.contains("sk-test-KEY"), "{text}");
    assert!(!text.contains("PROMPT-WORDS"), "{text}");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2 * ADAPTERS.len() + 1);
    for (seq, line) in lines.iter().enumerate() {
        assert_eq!(line["seq"], seq);
        assert!(line["at_ms"].as_f64().unwrap() >= 0.0);
    }
    assert_eq!(lines[1]["status"], 404);
    assert_eq!(lines[1]["query"], json!(["key"]));
    let first = &lines[0];
    assert_eq!(first["dialect"], "openai");
    assert_eq!(
        (&first["model"], &first["stream"]),
        (&json!("m"), &json!(true))
    );
    assert_eq!(
        (&first["messages"], &first["tools"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(first["body_sha256"].as_str().unwrap().len(), 64);
    assert_eq!(first["headers"]["authorization"], Value::Null);
    assert!(first["headers"].get("authorization").is_some());
    assert_eq!(first["fault"], Value::Null);
    let faults: Vec<&Value> = lines
        .iter()
        .filter(|line| line["dialect"] == "gemini")
        .map(|line| &line["fault"])
        .collect();
    assert_eq!(faults, ["keep_alives_only", "slow_first_token_s"]);
}

#[test]
fn the_log_holds_bodies_only_if_asked() {
    let (log, lines) = log();
    let server = server(ServerSpec {
        log: Some(log),
        log_bodies: true,
        ..ServerSpec::default()
    });
    let out = question("ollama", "m", "PROMPT-WORDS", false);
    ask(&server, "ollama", &out, Duration::from_secs(20));
    let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["body"].as_str().unwrap().as_bytes(), out.body);
    assert!(!text.contains("sk-test-KEY"));
}
