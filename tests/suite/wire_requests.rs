//! What adapters send: the lesson's bodies, credentials, what is for one provider alone.

use routelab::wire::{
    ADAPTERS, Adapter, Echo, End, Headers, Message, Request, Target, adapter, collect,
};
use serde_json::{Value, json};

use crate::given::fixture;
use crate::wire_cases::{read, sent};
use crate::wire_ends::{TARGET, second_turn};

#[test]
fn wa09_the_second_turn_is_the_lessons() {
    let golden = fixture("wire_second_turn.json");
    for name in ["openai", "anthropic", "gemini", "compatible"] {
        let expected = &golden[name];
        let built = adapter(name).unwrap().build(&second_turn(), &TARGET, false);
        assert_eq!(built.path, expected["path"], "{name}");
        let body = sent(&built);
        let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
        assert_eq!(json!(keys), expected["keys"], "{name}");
        let turns = body[expected["turns"].as_str().unwrap()]
            .as_array()
            .unwrap();
        // As text, so that the order of keys counts.
        let last = Value::from(turns[turns.len() - 2..].to_vec());
        assert_eq!(last.to_string(), expected["last"].to_string(), "{name}");
        let auth = expected["auth"].as_str().unwrap();
        let extra: Vec<&str> = built
            .headers
            .0
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| *name != auth && *name != "content-type")
            .collect();
        assert_eq!(json!(extra), expected["extra_headers"], "{name}");
        assert!(built.headers.get(auth).unwrap().ends_with("key"));
    }
}

#[test]
fn wa20_no_key_sends_no_credential() {
    for kind in ADAPTERS {
        for key in [None, Some("")] {
            let target = Target { model: "m", key };
            let built = (kind.make)().build(&second_turn(), &target, true);
            for secret in ["authorization", "x-goog-api-key"] {
                assert_eq!(built.headers.get(secret), None, "{}", kind.name);
            }
        }
    }
}

#[test]
fn wa13_extras_reach_one_adapter_and_no_other() {
    let extra = json!({ "reasoning_effort": "low", "generationConfig": { "seed": 7 } });
    for kind in ADAPTERS {
        let mut request = second_turn();
        request
            .extras
            .insert(kind.name.into(), extra.as_object().unwrap().clone());
        for other in ADAPTERS {
            let adapter = (other.make)();
            let with = adapter.build(&request, &TARGET, false);
            let without = adapter.build(&second_turn(), &TARGET, false);
            if other.name == kind.name {
                let body = sent(&with);
                assert_eq!(body["reasoning_effort"], "low");
                assert_eq!(body["generationConfig"]["seed"], 7);
                if other.name == "gemini" {
                    assert_eq!(body["generationConfig"]["maxOutputTokens"], 100);
                }
            } else {
                assert_eq!(
                    with, without,
                    "{} got what {} should",
                    other.name, kind.name
                );
            }
        }
    }
}

#[test]
fn sampling_parameters_are_not_sent_to_versions_that_refuse_them() {
    use routelab::wire::Anthropic;
    let request = Request {
        temperature: Some(0.5),
        top_p: Some(0.9),
        ..second_turn()
    };
    for (version, allowed) in [
        ("2023-06-01", true),
        ("2026-10-21", false),
        ("2027-01-01", false),
    ] {
        let adapter = Anthropic {
            version: version.into(),
            ..Anthropic::default()
        };
        let built = adapter.build(&request, &TARGET, false);
        assert_eq!(built.headers.get("anthropic-version"), Some(version));
        let mut body = sent(&built);
        assert_eq!(body.get("temperature").is_some(), allowed, "{version}");
        assert_eq!(body.get("top_p").is_some(), allowed, "{version}");
        // The stand-in holds clients to it.
        body["temperature"] = 1.0.into();
        let read = adapter.parse_request("", &built.headers, body.to_string().as_bytes());
        assert_eq!(read.is_ok(), allowed, "{version}");
    }
}

#[test]
fn what_belongs_to_one_provider_goes_back_to_it_alone() {
    let fields = json!({ "id": "g1", "thoughtSignature": "c2lnLTE=" });
    let mut request = second_turn();
    if let Message::Assistant { tool_calls, .. } = &mut request.messages[1] {
        tool_calls[0].echo = Some(Echo {
            adapter: "gemini",
            fields: fields.as_object().unwrap().clone(),
        });
    }
    for kind in ADAPTERS {
        let body = sent(&(kind.make)().build(&request, &TARGET, false)).to_string();
        assert_eq!(
            body.contains("c2lnLTE="),
            kind.name == "gemini",
            "{}",
            kind.name
        );
        // The id goes with the call and with its result.
        let times = body.matches("\"g1\"").count();
        assert_eq!(
            times,
            if kind.name == "gemini" { 2 } else { 0 },
            "{}",
            kind.name
        );
    }
}

#[test]
fn signed_thinking_goes_back_before_its_calls_and_to_nobody_else() {
    let adapter = adapter("anthropic").unwrap();
    let thinking = json!({"type": "thinking", "thinking": "Let me look.", "signature": "c2ln"});
    let hidden = json!({"type": "redacted_thinking", "data": "ZGF0YQ=="});
    let call =
        json!({"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"city": "Oslo"}});
    let body = json!({
        "id": "m1",
        "content": [thinking, hidden, {"type": "text", "text": "Wait."}, call],
        "stop_reason": "tool_use",
    });
    let whole = adapter
        .parse(&Headers::default(), body.to_string().as_bytes())
        .unwrap();
    let events = [
        json!({"type": "message_start", "message": {"id": "m1"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me "}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "look."}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}}),
        json!({"type": "content_block_start", "index": 1, "content_block": hidden}),
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": "Wait."}}),
        json!({"type": "content_block_start", "index": 3, "content_block": {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {}}}),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": "{\"city\":\"Oslo\"}"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ];
    let frames: String = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    let (events, result) = read(
        &*adapter,
        &Headers::default(),
        [frames.as_bytes()],
        End::Eof,
    );
    assert_eq!(result, Ok(()));
    assert_eq!(collect(events).unwrap(), whole);
    let request = Request {
        messages: vec![
            Message::user("Weather?"),
            Message::answer(&whole),
            Message::result(&whole.tool_calls[0], "12C"),
        ],
        ..Request::default()
    };
    let next = sent(&adapter.build(&request, &TARGET, false));
    assert_eq!(next["messages"][1]["content"], body["content"]);
    for kind in ADAPTERS.iter().filter(|kind| kind.name != "anthropic") {
        let next = sent(&(kind.make)().build(&request, &TARGET, false)).to_string();
        assert!(
            !next.contains("c2ln") && !next.contains("Let me look"),
            "{}",
            kind.name
        );
    }
}
