//! What the serving ends take, refuse and note, beyond what the adapters themselves send; and what goes
//! back to a provider with a whole turn.

use routelab::wire::{
    ADAPTERS, Answer, End, Headers, Message, Request, Response, Stop, Target, adapter, collect,
};
use serde_json::{Value, json};

use crate::wire_cases::{read, sent};
use crate::wire_ends::{TARGET, second_turn};

fn version(version: &str) -> Headers {
    [("anthropic-version", version)].into_iter().collect()
}

#[test]
fn the_name_of_a_gemini_model_is_encoded_in_the_path_and_decoded_again() {
    let gemini = adapter("gemini").unwrap();
    for (model, segment) in [
        ("gemini-3.0-pro_x", "gemini-3.0-pro_x"),
        ("a/b?c:d#e f", "a%2Fb%3Fc%3Ad%23e%20f"),
        ("模型", "%E6%A8%A1%E5%9E%8B"),
        ("50%", "50%25"),
    ] {
        for stream in [false, true] {
            let target = Target { model, key: None };
            let built = gemini.build(&second_turn(), &target, stream);
            assert!(
                built
                    .path
                    .starts_with(&format!("/v1beta/models/{segment}:")),
                "{}",
                built.path
            );
            let asked = gemini
                .parse_request(&built.path, &built.headers, &built.body)
                .unwrap();
            assert_eq!((asked.model.as_str(), asked.stream), (model, stream));
        }
    }
    // Bytes that are no text are no name.
    let body = json!({"contents": [{"parts": [{"text": "x"}]}]}).to_string();
    let error = gemini
        .parse_request(
            "/v1beta/models/%ff%fe:generateContent",
            &Headers::default(),
            body.as_bytes(),
        )
        .unwrap_err();
    assert_eq!(error.status, Some(400));
}

#[test]
fn an_azure_deployment_names_the_model_if_the_body_does_not() {
    let path = "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21";
    let without = json!({"messages": [{"role": "user", "content": "Hi"}]});
    let mut with = without.clone();
    with["model"] = "other".into();
    for name in ["openai", "compatible"] {
        let adapter = adapter(name).unwrap();
        let model = |path: &str, body: &Value| {
            adapter
                .parse_request(path, &Headers::default(), body.to_string().as_bytes())
                .map(|asked| asked.model)
        };
        assert_eq!(model(path, &without).as_deref(), Ok("my gpt"), "{name}");
        assert_eq!(model(path, &with).as_deref(), Ok("other"), "{name}");
        for path in [
            "/v1/chat/completions",
            "/chat/completions",
            "/openai/deployments//chat",
        ] {
            assert_eq!(model(path, &with).as_deref(), Ok("other"), "{name}");
            let error = model(path, &without).unwrap_err();
            assert_eq!(error.status, Some(400), "{name} {path}");
        }
    }
}

#[test]
fn media_are_counted_where_they_are_left_out() {
    let cases = [
        (
            "openai",
            json!({"model": "m", "messages": [{"role": "user", "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
            ]}]}),
            3,
        ),
        (
            "anthropic",
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [
                {"type": "image", "source": {"type": "url", "url": "http://x"}},
                {"type": "text", "text": "Look"},
                {"type": "tool_result", "tool_use_id": "t", "content": [
                    {"type": "text", "text": "12"}, {"type": "document", "source": {}},
                ]},
            ]}]}),
            2,
        ),
        (
            "gemini",
            json!({"contents": [{"parts": [
                {"text": "Look"},
                {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                {"file_data": {"file_uri": "gs://x"}},
            ]}]}),
            2,
        ),
        (
            "ollama",
            json!({"model": "m", "messages": [
                {"role": "user", "content": "Look", "images": ["AA==", "AA=="]},
                {"role": "assistant", "content": "I see", "images": []},
            ]}),
            2,
        ),
    ];
    for (name, body, expected) in cases {
        let asked = adapter(name)
            .unwrap()
            .parse_request(
                "/v1beta/models/m:generateContent",
                &version("2026-10-21"),
                body.to_string().as_bytes(),
            )
            .unwrap();
        assert_eq!(asked.media_parts, expected, "{name}");
        let said = asked
            .request
            .messages
            .iter()
            .any(|message| *message == Message::user("Look"));
        assert!(said, "{name}: {:?}", asked.request.messages);
    }
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        let built = adapter.build(&second_turn(), &TARGET, false);
        let asked = adapter
            .parse_request(&built.path, &built.headers, &built.body)
            .unwrap();
        assert_eq!(asked.media_parts, 0, "{}", kind.name);
    }
}

#[test]
fn anthropic_refuses_what_its_version_refuses() {
    let anthropic = adapter("anthropic").unwrap();
    let sound =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let status = |headers: &Headers, body: &Value| {
        anthropic
            .parse_request("/v1/messages", headers, body.to_string().as_bytes())
            .map_or_else(|error| error.status, |_| Some(200))
    };
    let (new, old) = (version("2026-10-21"), version("2023-06-01"));
    for headers in [&new, &old] {
        assert_eq!(status(headers, &sound), Some(200));
        let mut body = sound.clone();
        body.as_object_mut().unwrap().shift_remove("max_tokens");
        assert_eq!(status(headers, &body), Some(400));
    }
    assert_eq!(status(&Headers::default(), &sound), Some(400));
    let mut refused = Vec::new();
    for (name, default) in [
        ("temperature", json!(1.0)),
        ("top_p", json!(1)),
        ("top_k", json!(0)),
    ] {
        let mut body = sound.clone();
        body[name] = default;
        refused.push(body);
    }
    let document = json!({"type": "document", "source": {"type": "text", "data": "x"}});
    let cited = json!({"type": "text", "text": "x", "citations": [{"type": "char_location"}]});
    for (role, block) in [("assistant", &document), ("user", &cited)] {
        let mut body = sound.clone();
        body["messages"] =
            json!([{"role": role, "content": [{"type": "text", "text": "x"}, block]}]);
        refused.push(body);
    }
    for body in &refused {
        assert_eq!(status(&new, body), Some(400), "{body}");
        assert_eq!(status(&old, body), Some(200), "{body}");
    }
    // The same blocks where they belong.
    let plain = json!({"type": "text", "text": "x", "citations": []});
    for content in [json!([document]), json!([plain])] {
        let mut body = sound.clone();
        body["messages"][0]["content"] = content;
        assert_eq!(status(&new, &body), Some(200), "{body}");
    }
}

/// Parts of an answer, and what is sent back of it, streamed or not.
fn gemini_turn(parts: &Value) -> (Response, Value) {
    let gemini = adapter("gemini").unwrap();
    let body = json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "responseId": "r"});
    let whole = gemini
        .parse(&Headers::default(), body.to_string().as_bytes())
        .unwrap();
    let parts = parts.as_array().unwrap();
    let frames: String = parts
        .iter()
        .enumerate()
        .map(|(at, part)| {
            let mut candidate = json!({"content": {"parts": [part]}});
            if at + 1 == parts.len() {
                candidate["finishReason"] = "STOP".into();
            }
            format!(
                "data: {}\n\n",
                json!({"candidates": [candidate], "responseId": "r"})
            )
        })
        .collect();
    let (events, result) = read(&*gemini, &Headers::default(), [frames.as_bytes()], End::Eof);
    assert_eq!(result, Ok(()));
    assert_eq!(collect(events).unwrap(), whole);
    let request = Request {
        messages: vec![
            Message::user("q"),
            Message::answer(&whole),
            Message::user("and?"),
        ],
        ..Request::default()
    };
    let next = sent(&gemini.build(&request, &TARGET, false));
    (whole, next["contents"][1]["parts"].clone())
}

#[test]
fn a_signature_on_a_text_goes_back_on_that_text() {
    // On the only part, on the last of two, on an empty one at the end of a stream.
    for parts in [
        json!([{"text": "Hello.", "thoughtSignature": "c2ln"}]),
        json!([{"text": "Hel"}, {"text": "lo.", "thoughtSignature": "c2ln"}]),
        json!([{"text": "Hello."}, {"text": "", "thoughtSignature": "c2ln"}]),
    ] {
        let (response, back) = gemini_turn(&parts);
        assert_eq!(response.text, "Hello.");
        assert_eq!(back, parts);
        // The serving end reads it back as the same turn.
        let gemini = adapter("gemini").unwrap();
        let answer = Answer {
            response: &response,
            id: "r",
            model: "m",
        };
        for reply in [gemini.render(&answer), gemini.render_stream(&answer)] {
            let body = reply.pieces.concat();
            let again = match gemini.parse(&reply.headers, &body) {
                Ok(again) => again,
                Err(_) => collect(read(&*gemini, &reply.headers, [&body[..]], End::Eof).0).unwrap(),
            };
            assert_eq!(again.echo, response.echo);
        }
        let request = Request {
            messages: vec![Message::user("q"), Message::answer(&response)],
            ..Request::default()
        };
        let built = gemini.build(&request, &TARGET, false);
        let asked = gemini
            .parse_request(&built.path, &built.headers, &built.body)
            .unwrap();
        assert_eq!(asked.request.messages, request.messages);
        // Nobody else gets it.
        for kind in ADAPTERS.iter().filter(|kind| kind.name != "gemini") {
            let built = (kind.make)().build(&request, &TARGET, false);
            assert!(!sent(&built).to_string().contains("c2ln"), "{}", kind.name);
        }
    }
    // Signed thoughts stay where they are, and a picture's signature is not the text's.
    let (response, back) = gemini_turn(&json!([
        {"text": "Hm.", "thought": true, "thoughtSignature": "dGhvdWdodA=="},
        {"text": "Hello."},
        {"inlineData": {"mimeType": "image/png", "data": ""}, "thoughtSignature": "cGlj"},
    ]));
    assert_eq!((response.echo, response.stop), (None, Stop::End));
    assert_eq!(back, json!([{"text": "Hello."}]));
}

#[test]
fn a_turn_that_was_changed_is_not_sent_as_signed() {
    let (response, _) = gemini_turn(&json!([{"text": "Hello.", "thoughtSignature": "c2ln"}]));
    let Message::Assistant {
        tool_calls, echo, ..
    } = Message::answer(&response)
    else {
        panic!("an answer is the assistant's turn");
    };
    let changed = Message::Assistant {
        text: "Goodbye!".into(),
        tool_calls,
        echo,
    };
    let request = Request {
        messages: vec![Message::user("q"), changed],
        ..Request::default()
    };
    let next = sent(&adapter("gemini").unwrap().build(&request, &TARGET, false));
    assert_eq!(next["contents"][1]["parts"], json!([{"text": "Goodbye!"}]));
}
