//! Both ends of the wire against each other, in memory: what is built is read back as the same request,
//! what is rendered parses to the same answer, and the lesson's tool loop gives the same on every adapter.

use routelab::router::FaultKind;
use routelab::units::{Duration, Tokens};
use routelab::wire::{
    ADAPTERS, Adapter, Answer, End, Headers, Message, Place, Request, Response, Stop, StreamEvent,
    Target, ToolCall, ToolSpec, Usage, adapter, collect,
};
use serde_json::{Map, Value, json};

use crate::wire_cases::{read, sent};

pub(crate) const TARGET: Target<'static> = Target {
    model: "stub-model",
    key: Some("key"),
};

fn weather() -> ToolSpec {
    ToolSpec {
        name: "get_weather".into(),
        description: "Get the current weather for a city".into(),
        parameters: json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }),
    }
}

pub(crate) fn second_turn() -> Request {
    let call = ToolCall::new("call_1", "get_weather", "{\"city\": \"Paris\"}");
    Request {
        system: "Be brief.".into(),
        messages: vec![
            Message::user("Weather in Paris?"),
            Message::Assistant {
                text: String::new(),
                tool_calls: vec![call.clone()],
                echo: None,
            },
            Message::result(&call, "{\"temp_c\": 18}"),
        ],
        tools: vec![weather()],
        output_cap: 100,
        ..Request::default()
    }
}

/// The scripted model of the lesson: asks for the weather, then tells it.
fn scripted(request: &Request) -> Response {
    let said = |text: &str| Response {
        text: text.into(),
        stop: Stop::End,
        ..Response::default()
    };
    let mut response = match request.messages.last().unwrap() {
        Message::Tool { text, .. } => {
            let result: Value = serde_json::from_str(text).unwrap();
            let word = |name: &str| result[name].as_str().unwrap().to_owned();
            let (sky, city) = (word("sky"), word("city"));
            said(&format!(
                "It is {} C and {sky} in {city}.",
                result["temp_c"]
            ))
        }
        Message::User { text } if text.contains("weather") && !request.tools.is_empty() => {
            Response {
                tool_calls: vec![ToolCall::new(
                    "call_1",
                    "get_weather",
                    "{\"city\": \"Paris\"}",
                )],
                stop: Stop::ToolCalls,
                ..Response::default()
            }
        }
        other => panic!("nothing to say to {other:?}"),
    };
    let output = match response.stop {
        Stop::ToolCalls => 12,
        _ => response.text.split_whitespace().count(),
    };
    response.usage.output = Tokens::new(output as u32);
    response
}

/// JSON as the lesson's server counts it: with a space after each colon and comma, then words.
fn words_of(value: &Value) -> usize {
    fn spaced(value: &Value, text: &mut String) {
        match value {
            Value::Array(items) => {
                text.push('[');
                for (n, item) in items.iter().enumerate() {
                    text.push_str(if n > 0 { ", " } else { "" });
                    spaced(item, text);
                }
                text.push(']');
            }
            Value::Object(object) => {
                text.push('{');
                for (n, (key, item)) in object.iter().enumerate() {
                    text.push_str(if n > 0 { ", " } else { "" });
                    text.push_str(&format!("{}: ", Value::from(key.as_str())));
                    spaced(item, text);
                }
                text.push('}');
            }
            plain => text.push_str(&plain.to_string()),
        }
    }
    let mut text = String::new();
    spaced(value, &mut text);
    text.split_whitespace().count()
}

fn input_tokens(body: &Value) -> usize {
    if let Some(contents) = body.get("contents") {
        return words_of(contents);
    }
    if body.get("max_tokens").is_some() && body.get("system").is_some() {
        return words_of(&body["messages"]);
    }
    body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|message| message["content"].as_str())
        .map(|content| content.split_whitespace().count())
        .sum()
}

/// One call from end to end in memory: build, read, answer, render, parse.
fn call(adapter: &dyn Adapter, request: &Request, stream: bool) -> Response {
    let built = adapter.build(request, &TARGET, stream);
    let asked = adapter
        .parse_request(&built.path, &built.headers, &built.body)
        .unwrap();
    assert_eq!((asked.model.as_str(), asked.stream), ("stub-model", stream));
    let mut response = scripted(&asked.request);
    response.usage.input = Tokens::new(input_tokens(&sent(&built)) as u32);
    let answer = Answer {
        response: &response,
        id: "req_1",
        model: "stub",
    };
    if stream {
        let reply = adapter.render_stream(&answer);
        let (events, result) = read(
            adapter,
            &reply.headers,
            reply.pieces.iter().map(Vec::as_slice),
            End::Eof,
        );
        assert_eq!(result, Ok(()));
        collect(events).unwrap()
    } else {
        let reply = adapter.render(&answer);
        adapter
            .parse(&reply.headers, &reply.pieces.concat())
            .unwrap()
    }
}

/// Application code: it names no provider and none of their fields.
fn ask(
    question: &str,
    mut complete: impl FnMut(&Request) -> Response,
) -> (Vec<ToolCall>, Response) {
    let mut request = Request {
        system: "Be brief.".into(),
        messages: vec![Message::user(question)],
        tools: vec![weather()],
        output_cap: 100,
        ..Request::default()
    };
    let mut calls = Vec::new();
    for _ in 0..4 {
        let response = complete(&request);
        if response.tool_calls.is_empty() {
            return (calls, response);
        }
        request.messages.push(Message::answer(&response));
        for call in &response.tool_calls {
            let city = call.arguments["city"].as_str().unwrap();
            let result = format!("{{\"city\": \"{city}\", \"temp_c\": 18, \"sky\": \"cloudy\"}}");
            request.messages.push(Message::result(call, result));
            calls.push(call.clone());
        }
    }
    panic!("the tool loop did not end");
}

#[test]
fn wa10_one_application_gives_the_same_on_every_adapter() {
    for (name, input) in [
        ("openai", Some(14)),
        ("anthropic", Some(35)),
        ("gemini", Some(33)),
        ("compatible", Some(14)),
        // The lesson has no Ollama.
        ("ollama", None),
    ] {
        for stream in [false, true] {
            let adapter = adapter(name).unwrap();
            let (calls, last) = ask("What is the weather in Paris?", |request| {
                call(&*adapter, request, stream)
            });
            assert_eq!(calls.len(), 1, "{name}");
            assert_eq!(calls[0].name, "get_weather", "{name}");
            assert_eq!(
                Value::from(calls[0].arguments.clone()),
                json!({"city": "Paris"})
            );
            assert_eq!(last.text, "It is 18 C and cloudy in Paris.", "{name}");
            assert_eq!(last.stop, Stop::End, "{name}");
            assert_eq!(last.usage.output, Tokens::new(8), "{name}");
            if let Some(input) = input {
                assert_eq!(last.usage.input, Tokens::new(input), "{name} {stream}");
            }
        }
    }
}

fn rich() -> Response {
    Response {
        text: "Grüß 你好 🌍,\nand \"so\" on. ".into(),
        reasoning: "Two plus two.".into(),
        tool_calls: vec![
            ToolCall::new("a1", "get_weather", "{\"city\":\"Oslo\"}"),
            ToolCall::new("a2", "get_time", "{}"),
        ],
        stop: Stop::ToolCalls,
        usage: Usage {
            input: Tokens::new(129),
            output: Tokens::new(40),
            cached: Tokens::new(100),
            cache_write: Tokens::UNKNOWN,
            reasoning: Tokens::new(5),
        },
        ..Response::default()
    }
}

#[test]
fn what_is_rendered_is_read_back_streamed_or_not() {
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        for stop in Stop::ALL {
            let mut response = rich();
            if stop != Stop::ToolCalls {
                response.tool_calls.clear();
            }
            response.stop = stop;
            let answer = Answer {
                response: &response,
                id: "r1",
                model: "m",
            };
            let whole = adapter.render(&answer);
            let whole = adapter
                .parse(&whole.headers, &whole.pieces.concat())
                .unwrap();
            let reply = adapter.render_stream(&answer);
            let body = reply.pieces.concat();
            let (events, result) = read(&*adapter, &reply.headers, [&body[..]], End::Eof);
            assert_eq!(result, Ok(()), "{}", kind.name);
            let streamed = collect(events).unwrap();
            assert_eq!(whole, streamed, "{}", kind.name);
            assert_eq!(whole.text, response.text, "{}", kind.name);
            assert_eq!(whole.reasoning, response.reasoning, "{}", kind.name);
            let calls = |response: &Response| -> Vec<(String, String, Map<String, Value>)> {
                // Gemini's stand-in sends no ids, so they are made up when they are read.
                let id = |id: &str| if kind.name == "gemini" { "" } else { id }.to_owned();
                let calls = response.tool_calls.iter();
                calls
                    .map(|c| (id(&c.id), c.name.clone(), c.arguments.clone()))
                    .collect()
            };
            assert_eq!(calls(&whole), calls(&response), "{}", kind.name);
            if kind.name == "ollama" {
                // It has words for two stops and two counters only.
                assert_eq!(whole.usage.input, response.usage.input);
                assert_eq!(whole.usage.output, response.usage.output);
            } else {
                assert_eq!(whole.stop, stop, "{}", kind.name);
                assert_eq!(whole.usage, response.usage, "{}", kind.name);
            }
        }
    }
}

#[test]
fn r03_tr04_a_stream_cut_anywhere_before_its_signal_is_an_error() {
    let response = rich();
    let answer = Answer {
        response: &response,
        id: "r1",
        model: "m",
    };
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        let reply = adapter.render_stream(&answer);
        let whole = reply.pieces.concat();
        let all = read(&*adapter, &reply.headers, [&whole[..]], End::Eof);
        assert_eq!(all.1, Ok(()));
        for end in [End::Eof, End::Reset] {
            let mut ok = 0;
            for cut in 0..whole.len() {
                let (events, result) = read(&*adapter, &reply.headers, [&whole[..cut]], end);
                match result {
                    // Only what comes after the signal may be missing: usage and `[DONE]`.
                    Ok(()) => {
                        ok += 1;
                        let response = collect(events).unwrap();
                        assert_eq!(
                            response.text, answer.response.text,
                            "{} at {cut}",
                            kind.name
                        );
                        assert_eq!(response.stop, Stop::ToolCalls);
                    }
                    Err(error) => {
                        let expected = match end {
                            End::Eof => (FaultKind::Server, Place::TruncatedStream),
                            End::Reset => (FaultKind::Timeout, Place::Transport),
                        };
                        let got = (error.kind, error.place);
                        assert_eq!(got, expected, "{} at {cut}", kind.name);
                        assert_eq!(collect(events), None);
                    }
                }
            }
            assert!(
                ok * 2 < whole.len(),
                "{}: {ok} of {}",
                kind.name,
                whole.len()
            );
        }
    }
}

#[test]
fn r27_every_line_ending_and_every_cut_gives_the_same_events() {
    let response = rich();
    let answer = Answer {
        response: &response,
        id: "r1",
        model: "m",
    };
    for name in ["openai", "anthropic", "gemini", "compatible"] {
        let adapter = adapter(name).unwrap();
        let reply = adapter.render_stream(&answer);
        let lf = String::from_utf8(reply.pieces.concat()).unwrap();
        let expected = read(&*adapter, &reply.headers, [lf.as_bytes()], End::Eof);
        assert_eq!(expected.1, Ok(()));
        for ending in ["\n", "\r\n", "\r"] {
            for mark in ["", "\u{feff}"] {
                let body = format!("{mark}{}", lf.replace('\n', ending)).into_bytes();
                for cut in 0..=body.len() {
                    let (a, b) = body.split_at(cut);
                    let got = read(&*adapter, &reply.headers, [a, b], End::Eof);
                    assert_eq!(got, expected, "{name} {ending:?} at {cut}");
                }
            }
        }
    }
}

#[test]
fn what_is_built_is_read_back() {
    let mut request = second_turn();
    request.messages.push(Message::Assistant {
        text: "It is 18 °C.".into(),
        tool_calls: Vec::new(),
        echo: None,
    });
    request.messages.push(Message::user("And in \"Oslo\"?\n"));
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        let built = adapter.build(&request, &TARGET, true);
        let asked = adapter
            .parse_request(&built.path, &built.headers, &built.body)
            .unwrap();
        assert!(asked.stream && asked.model == "stub-model");
        let mut got = asked.request;
        // Gemini and Ollama do not carry the id of a call that has none of theirs.
        if let [
            Message::User { .. },
            Message::Assistant { tool_calls, .. },
            Message::Tool { call_id, .. },
            ..,
        ] = &mut got.messages[..]
        {
            assert_eq!(*call_id, tool_calls[0].id, "{}", kind.name);
            tool_calls[0].id = "call_1".into();
            tool_calls[0].raw = "{\"city\": \"Paris\"}".into();
            *call_id = "call_1".into();
        }
        assert_eq!(got, request, "{}", kind.name);
    }
}

#[test]
fn er08_every_rendered_failure_is_classified_as_what_it_is() {
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        for fault in FaultKind::ALL {
            let (status, body) = adapter.render_fault(fault, "injected");
            let bytes = body.to_string().into_bytes();
            let error = adapter.classify(status, &Headers::default(), &bytes, Duration::ZERO);
            assert_eq!(error.kind, fault, "{}: {body}", kind.name);
            assert_eq!(error.fault().kind, fault);
        }
        // In a stream the kinds with a code or wording of their own survive.
        for fault in [
            FaultKind::Overloaded,
            FaultKind::RateLimit,
            FaultKind::ContextLength,
        ] {
            if kind.name == "ollama" && fault != FaultKind::ContextLength {
                continue; // it has no codes, so in a stream only wordings tell
            }
            let frame = adapter.render_fault_frame(fault, "injected");
            let (events, result) = read(&*adapter, &Headers::default(), [&frame[..]], End::Eof);
            let error = result.unwrap_err();
            assert_eq!(
                (error.kind, error.place),
                (fault, Place::InStream),
                "{}",
                kind.name
            );
            assert!(events.is_empty());
        }
    }
}

#[test]
fn the_registry_is_sound() {
    for kind in ADAPTERS {
        assert_eq!((kind.make)().name(), kind.name);
        assert!(!kind.about.is_empty());
        assert_eq!(
            ADAPTERS
                .iter()
                .filter(|other| other.name == kind.name)
                .count(),
            1
        );
    }
    assert!(adapter("cohere").is_none());
}

#[test]
fn r17_keep_alives_and_roles_are_no_output() {
    let body = ": ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n: ping\n\n";
    let adapter = adapter("openai").unwrap();
    let mut parser = adapter.stream(&Headers::default());
    let mut events: Vec<StreamEvent> = Vec::new();
    parser.push(body.as_bytes(), &mut events).unwrap();
    assert_eq!(events, []);
}

#[test]
fn r23_thoughts_are_output_streamed_or_not() {
    let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 20, "thoughtsTokenCount": 100, "totalTokenCount": 130});
    let body = json!({
        "candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
        "usageMetadata": usage,
    });
    let adapter = adapter("gemini").unwrap();
    let whole = adapter
        .parse(&Headers::default(), body.to_string().as_bytes())
        .unwrap();
    let frame = format!("data: {body}\n\n");
    let (events, _) = read(&*adapter, &Headers::default(), [frame.as_bytes()], End::Eof);
    let streamed = collect(events).unwrap();
    for usage in [whole.usage, streamed.usage] {
        assert_eq!(usage.input, Tokens::new(10));
        assert_eq!(usage.output, Tokens::new(120));
        assert_eq!(usage.reasoning, Tokens::new(100));
    }
    let mut plain = body;
    plain["usageMetadata"]
        .as_object_mut()
        .unwrap()
        .shift_remove("thoughtsTokenCount");
    let whole = adapter
        .parse(&Headers::default(), plain.to_string().as_bytes())
        .unwrap();
    assert_eq!(whole.usage.output, Tokens::new(20));
}
