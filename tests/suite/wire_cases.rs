//! Case files in the format `wire-case/1`: bodies from reports of faults in other people's adapters, with
//! what should come out. `ROUTELAB_WIRE_CASES=DIR` names another folder of them.

use std::path::{Path, PathBuf};

use routelab::router::FaultTables;
use routelab::units::Duration;
use routelab::wire::{
    Adapter, End, Error, Headers, Message, Outgoing, Place, Request, Response, StreamEvent, Target,
    ToolCall, Usage, Warning, adapter, collect,
};
use serde_json::{Value, json};

/// The folder `../shared/data/wire`, if there is one.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data/wire")
        .join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(
        std::env::var("ROUTELAB_REQUIRE_SHARED").map_or(true, |value| value != "1"),
        "{} is missing",
        folder.display()
    );
    say(&format!("skipped: {} is missing", folder.display()));
    None
}

/// A remark on what a test did not do.
#[expect(
    clippy::print_stderr,
    reason = "a test that leaves something out has to say so"
)]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// Every JSON file of a folder, by name.
pub(crate) fn json_files(folder: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no files in {}", folder.display());
    files
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect()
}

pub(crate) fn headers(value: &Value) -> Headers {
    match value {
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
            .collect(),
        Value::Array(pairs) => pairs
            .iter()
            .map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
            .collect(),
        _ => Headers::default(),
    }
}

/// RFC 4648 base 64 with padding.
pub(crate) fn base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut held, mut bits) = (0_u32, 0);
    for symbol in text.bytes().filter(|&symbol| symbol != b'=') {
        let value = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            other => panic!("no base 64: {other}"),
        };
        held = held << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    bytes
}

/// The body of a built request.
pub(crate) fn sent(built: &Outgoing) -> Value {
    serde_json::from_slice(&built.body).expect("a body is JSON")
}

/// Reads a whole stream in the given pieces.
pub(crate) fn read<'a>(
    adapter: &dyn Adapter,
    headers: &Headers,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    end: End,
) -> (Vec<StreamEvent>, Result<(), Error>) {
    let mut parser = adapter.stream(headers);
    let mut events = Vec::new();
    for piece in pieces {
        if let Err(error) = parser.push(piece, &mut events) {
            return (events, Err(error));
        }
    }
    let result = parser.finish(end, &mut events);
    (events, result)
}

fn partial_text(events: &[StreamEvent]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Complaints about one case.
struct Check<'a> {
    id: &'a str,
    wrong: &'a mut Vec<String>,
}

impl Check<'_> {
    fn equal(&mut self, what: &str, got: impl Into<Value>, expected: &Value) {
        let got = got.into();
        if got != *expected {
            self.wrong
                .push(format!("{}: {what} is {got}, not {expected}", self.id));
        }
    }

    /// Every key of `expected` that is there must match.
    fn response(&mut self, response: &Response, expected: &Value) {
        let has = |name| expected.get(name);
        if let Some(text) = has("text") {
            self.equal("text", response.text.as_str(), text);
        }
        if let Some(reasoning) = has("reasoning") {
            self.equal("reasoning", response.reasoning.as_str(), reasoning);
        }
        if let Some(stop) = has("stop") {
            self.equal("stop", response.stop.name(), stop);
        }
        if let Some(raw) = has("raw_stop") {
            self.equal(
                "raw_stop",
                response.raw_stop.clone().map_or(Value::Null, Value::from),
                raw,
            );
        }
        if let Some(id) = has("request_id") {
            self.equal(
                "request_id",
                response.request_id.clone().map_or(Value::Null, Value::from),
                id,
            );
        }
        if let Some(usage) = has("usage").and_then(Value::as_object) {
            for (name, count) in usage {
                let counted = counter(&response.usage, name).map_or(Value::Null, Value::from);
                self.equal(name, counted, count);
            }
        }
        if let Some(warnings) = has("warnings") {
            let names: Vec<&str> = response
                .warnings
                .iter()
                .map(|warning| warning.name())
                .collect();
            // Codes that nothing here raises belong to what is not yet read.
            let known = [
                Warning::MalformedToolCall,
                Warning::ArgumentsNotJson,
                Warning::UnnamedToolCall,
            ];
            for code in warnings.as_array().unwrap() {
                if known.iter().any(|warning| code == warning.name()) {
                    let raised = names.iter().any(|name| code == name);
                    self.equal(&format!("raised {code}"), raised, &json!(true));
                }
            }
        }
        if let Some(calls) = has("tool_calls").and_then(Value::as_array) {
            self.calls(&response.tool_calls, calls);
        }
    }

    fn calls(&mut self, calls: &[ToolCall], expected: &[Value]) {
        self.equal("number of calls", calls.len(), &json!(expected.len()));
        for (number, (call, expected)) in calls.iter().zip(expected).enumerate() {
            if let Some(id) = expected.get("id") {
                if id.get("synthesised") == Some(&Value::Bool(true)) {
                    let unique = calls.iter().filter(|other| other.id == call.id).count() == 1;
                    self.equal("made-up id", !call.id.is_empty() && unique, &json!(true));
                } else {
                    self.equal("id", call.id.as_str(), id);
                }
            }
            self.equal("name", call.name.as_str(), &expected["name"]);
            let arguments = Value::Object(call.arguments.clone());
            self.equal(
                &format!("arguments of {number}"),
                arguments,
                &expected["arguments"],
            );
        }
    }

    fn error(&mut self, error: &Error, expected: &Value) {
        let tables = FaultTables::DEFAULT;
        self.equal("kind", error.kind.name(), &expected["kind"]);
        if let Some(retry) = expected.get("retry_same") {
            self.equal("retry_same", tables.retry_here.has(error.kind), retry);
        }
        if let Some(failover) = expected.get("failover") {
            self.equal("failover", tables.fail_over.has(error.kind), failover);
        }
        if let Some(detail) = expected.get("detail") {
            let fits = match detail.as_str().unwrap() {
                // The words of the format; others are free.
                "in_stream" => error.place == Place::InStream,
                "mid_stream" => error.after_output,
                "truncated_stream" => {
                    matches!(error.place, Place::TruncatedStream | Place::Transport)
                }
                _ => true,
            };
            self.equal(&format!("{error} {detail}"), fits, &json!(true));
        }
        if let Some(status) = expected.get("status") {
            self.equal(
                "status",
                error.status.map_or(Value::Null, Value::from),
                status,
            );
        }
        if let Some(wait) = expected.get("retry_after_ms") {
            self.equal("retry_after_ms", millis(error.retry_after), wait);
        }
    }
}

fn millis(wait: Option<Duration>) -> Value {
    wait.map_or(Value::Null, |wait| (wait.0.div_ceil(1_000)).into())
}

fn counter(usage: &Usage, name: &str) -> Option<u32> {
    match name {
        "input_tokens" => usage.input,
        "output_tokens" => usage.output,
        "cached_input_tokens" => usage.cached,
        "cache_write_tokens" => usage.cache_write,
        "reasoning_tokens" => usage.reasoning,
        other => panic!("unknown counter {other}"),
    }
    .get()
}

/// `part` occurs in `whole`: objects by the named keys, lists element by element.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|found| is_part(value, found))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(a, b)| is_part(a, b))
        }
        _ => part == whole,
    }
}

/// A normalised request as the case files write it.
fn request(value: &Value) -> Request {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let messages = value["messages"].as_array().unwrap().iter().map(|message| {
        let text = string(&message["text"]);
        match message["role"].as_str().unwrap() {
            "user" => Message::User { text },
            "tool" => Message::Tool {
                call_id: string(&message["tool_call_id"]),
                name: string(&message["tool_name"]),
                text,
            },
            "assistant" => Message::Assistant {
                text,
                tool_calls: message["tool_calls"]
                    .as_array()
                    .map_or_else(Vec::new, |calls| {
                        calls
                            .iter()
                            .map(|call| {
                                let raw = call["arguments"].to_string();
                                ToolCall::new(string(&call["id"]), string(&call["name"]), raw)
                            })
                            .collect()
                    }),
                echo: None,
            },
            other => panic!("unknown role {other}"),
        }
    });
    let tools = value["tools"].as_array().map_or(&[][..], Vec::as_slice);
    Request {
        system: string(&value["system"]),
        messages: messages.collect(),
        tools: tools
            .iter()
            .map(|tool| routelab::wire::ToolSpec {
                name: string(&tool["name"]),
                description: string(&tool["description"]),
                parameters: tool["parameters"].clone(),
            })
            .collect(),
        output_cap: value["max_tokens"].as_u64().map_or(256, |cap| cap as u32),
        temperature: value["temperature"].as_f64(),
        top_p: value["top_p"].as_f64(),
        extras: Default::default(),
    }
}

fn model<'a>(input: &'a Value) -> Target<'a> {
    Target {
        model: input["model"].as_str().unwrap_or("m"),
        key: None,
    }
}

/// Adapters that must read a dialect alike.
fn readers(dialect: &str, kind: &str) -> Vec<Box<dyn Adapter>> {
    let names: &[&str] = match dialect {
        // What they send differs, what they read does not.
        "openai-chat" if kind == "request" => &["openai"],
        "openai-chat" => &["openai", "compatible"],
        "anthropic-messages" => &["anthropic"],
        "gemini-generate-content" => &["gemini"],
        "ollama-chat" => &["ollama"],
        other => panic!("unknown dialect {other}"),
    };
    names.iter().map(|name| adapter(name).unwrap()).collect()
}

fn run_stream(adapter: &dyn Adapter, case: &Value, check: &mut Check<'_>) {
    let input = &case["input"];
    let expected = &case["expect"];
    let head = headers(&input["headers"]);
    let pieces: Vec<Vec<u8>> = input["pieces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|piece| match piece {
            Value::String(text) => text.clone().into_bytes(),
            object => base64(object["b64"].as_str().unwrap()),
        })
        .collect();
    let whole = pieces.concat();
    let status = input["status"].as_u64().unwrap_or(200) as u16;
    if !(200..300).contains(&status) {
        let error = adapter.classify(status, &head, &whole, Duration::ZERO);
        check.error(&error, &expected["error"]);
        return;
    }
    let end = match input["end"].as_str() {
        Some("reset") => End::Reset,
        _ => End::Eof,
    };
    let first = read(adapter, &head, pieces.iter().map(Vec::as_slice), end);
    for size in [whole.len().max(1), 1, 7] {
        let again = read(adapter, &head, whole.chunks(size), end);
        // Only the size of the pieces may differ, never what they add up to.
        check.equal(
            &format!("reads of {size} bytes"),
            format!("{:?}", again),
            &json!(format!("{:?}", first)),
        );
    }
    let (events, result) = first;
    match (result, expected["outcome"].as_str()) {
        (Ok(()), Some("ok")) => {
            let response = collect(events).expect("a finished stream is an answer");
            check.response(&response, expected);
        }
        (Err(error), Some("error")) => {
            check.error(&error, &expected["error"]);
            if let Some(partial) = expected.get("partial_text") {
                check.equal("partial text", partial_text(&events), partial);
            }
            if let Some(id) = expected.get("request_id") {
                check.equal(
                    "request_id",
                    error.request_id.map_or(Value::Null, Value::from),
                    id,
                );
            }
        }
        (result, outcome) => check
            .wrong
            .push(format!("{}: {result:?}, expected {outcome:?}", check.id)),
    }
}

fn run_case(adapter: &dyn Adapter, case: &Value, check: &mut Check<'_>) {
    let input = &case["input"];
    let expected = &case["expect"];
    match case["kind"].as_str().unwrap() {
        "stream" => run_stream(adapter, case, check),
        "response" => {
            let body = input["body"].to_string();
            match adapter.parse(&headers(&input["headers"]), body.as_bytes()) {
                Ok(response) => {
                    check.equal("outcome", "ok", &expected["outcome"]);
                    check.response(&response, expected);
                }
                Err(error) => {
                    check.equal("outcome", "error", &expected["outcome"]);
                    check.error(&error, &expected["error"]);
                }
            }
        }
        "response_set" => {
            let stops = expected["stop"].as_array().unwrap();
            let values = input["values"].as_array().unwrap();
            assert_eq!(stops.len(), values.len(), "{}", check.id);
            for (value, stop) in values.iter().zip(stops) {
                let template = input["template"].to_string();
                let body = template.replace("\"$VALUE\"", &value.to_string());
                let response = adapter.parse(&Headers::default(), body.as_bytes()).unwrap();
                check.equal(&format!("stop of {value}"), response.stop.name(), stop);
                if value.as_str() != Some("") {
                    let raw = response.raw_stop.map_or(Value::Null, Value::from);
                    check.equal("raw_stop", raw, value);
                }
            }
        }
        "error" => {
            let status = input["status"].as_u64().unwrap() as u16;
            let body = input["body"].to_string();
            let wall = Duration::from_secs(1_000_000_000);
            let head = headers(&input["headers"]);
            let error = adapter.classify(status, &head, body.as_bytes(), wall);
            check.error(&error, &expected["error"]);
        }
        "error_set" => {
            let status = input["status"].as_u64().unwrap() as u16;
            let body = input["body"].to_string();
            let wall = wall(input["now"].as_str().unwrap());
            let waits = expected["retry_after_ms"].as_array().unwrap();
            let heads = input["headers"].as_array().unwrap();
            assert_eq!(waits.len(), heads.len(), "{}", check.id);
            for (head, wait) in heads.iter().zip(waits) {
                let error = adapter.classify(status, &headers(head), body.as_bytes(), wall);
                check.error(&error, &expected["error"]);
                check.equal(&format!("wait of {head}"), millis(error.retry_after), wait);
            }
        }
        "request" => {
            let built = adapter.build(&request(input), &model(input), false);
            let body = sent(&built);
            if !is_part(&expected["wire_contains"], &body) {
                check.wrong.push(format!("{}: built {body}", check.id));
            }
        }
        "round_trip" => {
            let answer = &input["response"];
            let body = answer["body"].to_string();
            let response = adapter
                .parse(&headers(&answer["headers"]), body.as_bytes())
                .unwrap();
            check.response(&response, &expected["response"]);
            let mut messages = vec![Message::user("question"), Message::answer(&response)];
            for result in input["then_tool_results"].as_array().unwrap() {
                let call = &response.tool_calls[result["call"].as_u64().unwrap() as usize];
                messages.push(Message::result(call, result["text"].as_str().unwrap()));
            }
            let next = Request {
                messages,
                ..Request::default()
            };
            let body = sent(&adapter.build(&next, &model(input), false));
            for (name, tail) in expected["next_request_contains"].as_object().unwrap() {
                let list = name.strip_suffix("_tail").expect("the end of a list");
                let built = body[list].as_array().unwrap();
                let tail = tail.as_array().unwrap();
                let end = &built[built.len().saturating_sub(tail.len())..];
                let fits =
                    end.len() == tail.len() && tail.iter().zip(end).all(|(a, b)| is_part(a, b));
                if !fits {
                    check.wrong.push(format!("{}: built {built:?}", check.id));
                }
            }
        }
        other => panic!("{}: unknown kind {other}", check.id),
    }
}

/// A date and time such as `2026-11-29T12:00:00Z` as time since the Unix epoch.
fn wall(text: &str) -> Duration {
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    // Days from civil, Howard Hinnant's algorithm.
    let shifted = year - i64::from(month <= 2);
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let seconds = days * 86_400 + number(11..13) * 3_600 + number(14..16) * 60 + number(17..19);
    Duration::from_secs(u64::try_from(seconds).unwrap())
}

#[test]
fn wire_cases_pass_at_every_read_size() {
    let folder = match std::env::var_os("ROUTELAB_WIRE_CASES") {
        Some(folder) => PathBuf::from(folder),
        None => match shared("cases") {
            Some(folder) => folder,
            None => return,
        },
    };
    let mut wrong = Vec::new();
    let (mut run, mut later) = (0, Vec::new());
    for (_, case) in json_files(&folder) {
        let id = case["id"].as_str().unwrap();
        assert_eq!(case["schema"], "wire-case/1", "{id}");
        let kind = case["kind"].as_str().unwrap();
        if kind.starts_with("text_tool_call") || !case["input"]["lenient"].is_null() {
            later.push(id.to_owned());
            continue;
        }
        for adapter in readers(case["dialect"].as_str().unwrap(), kind) {
            let label = format!("{id} ({})", adapter.name());
            let mut check = Check {
                id: &label,
                wrong: &mut wrong,
            };
            run_case(&*adapter, &case, &mut check);
        }
        run += 1;
    }
    say(&format!(
        "{run} cases; calls written as text are not yet read: {}",
        later.join(" ")
    ));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 0, "no case was run");
}
