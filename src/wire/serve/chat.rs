//! The serving end of Chat Completions, for both adapters of that shape.

use serde_json::{Value, json};

use super::{
    Answer, EVENT_STREAM, Incoming, Reply, cap, count, frame, function_tool, name_of, thirds, word,
    words,
};
use crate::router::FaultKind;
use crate::wire::error::Error;
use crate::wire::json::{field, joined, label, list, text};
use crate::wire::percent;
use crate::wire::types::{Message, OUTPUT_CAP_DEFAULT, Request, Stop, ToolCall, Usage};

/// The creation time of every answer: a stand-in has no clock.
const CREATED: u64 = 0;

pub(in crate::wire) fn parse_request(path: &str, body: &[u8]) -> Result<Incoming, Error> {
    let body = super::received(body)?;
    let turns = list(&body, "messages");
    if turns.is_empty() {
        return Err(super::refuse("messages: at least one is required"));
    }
    let mut request = Request {
        tools: list(&body, "tools")
            .iter()
            .filter_map(function_tool)
            .collect(),
        output_cap: cap(
            field(&body, "max_completion_tokens").or_else(|| field(&body, "max_tokens"))
        )
        .unwrap_or(OUTPUT_CAP_DEFAULT),
        temperature: body.get("temperature").and_then(Value::as_f64),
        top_p: body.get("top_p").and_then(Value::as_f64),
        ..Request::default()
    };
    let mut media_parts = 0;
    for turn in turns {
        media_parts += super::media_parts(
            turn.get("content").unwrap_or(&Value::Null),
            &["text", "refusal", "thinking"],
        );
        let said = joined(turn.get("content").unwrap_or(&Value::Null));
        match text(turn, "role").unwrap_or("") {
            // `developer` is the newer name of `system`.
            "system" | "developer" => {
                if !request.system.is_empty() {
                    request.system.push('\n');
                }
                request.system.push_str(&said);
            }
            "user" => request.messages.push(Message::User { text: said }),
            "assistant" => request.messages.push(Message::Assistant {
                text: said,
                tool_calls: list(turn, "tool_calls").iter().filter_map(call).collect(),
                echo: None,
            }),
            "tool" => {
                let id = label(turn, "tool_call_id")
                    .ok_or_else(|| super::refuse("messages: a tool turn needs tool_call_id"))?;
                request.messages.push(Message::Tool {
                    name: name_of(&request.messages, &id),
                    call_id: id,
                    text: said,
                });
            }
            other => return Err(super::refuse(&format!("messages: unknown role '{other}'"))),
        }
    }
    Ok(Incoming {
        model: model(path, &body)?,
        stream: body.get("stream").and_then(Value::as_bool) == Some(true),
        request,
        media_parts,
    })
}

/// The model: named in the body, or on Azure by the deployment in
/// `/openai/deployments/{deployment}/chat/completions`, where the body need not repeat it.
fn model(path: &str, body: &Value) -> Result<String, Error> {
    let deployment = || {
        let (_, below) = path.split_once("/deployments/")?;
        let (name, _) = below.split_once('/')?;
        percent::decode(name).filter(|name| !name.is_empty())
    };
    super::model(body).or_else(|error| deployment().ok_or(error))
}

fn call(call: &Value) -> Option<ToolCall> {
    let function = call.get("function")?;
    Some(ToolCall::new(
        label(call, "id")?,
        text(function, "name")?,
        text(function, "arguments").unwrap_or(""),
    ))
}

fn finish_reason(stop: Stop) -> &'static str {
    word(
        stop,
        ["stop", "length", "tool_calls", "content_filter", "other"],
    )
}

fn usage(usage: &Usage) -> Value {
    let mut object = json!({});
    count(&mut object, "prompt_tokens", usage.input);
    count(&mut object, "completion_tokens", usage.output);
    if let (Some(input), Some(output)) = (usage.input.get(), usage.output.get()) {
        object["total_tokens"] = (u64::from(input) + u64::from(output)).into();
    }
    let mut prompt = json!({});
    count(&mut prompt, "cached_tokens", usage.cached);
    count(&mut prompt, "cache_write_tokens", usage.cache_write);
    if prompt != json!({}) {
        object["prompt_tokens_details"] = prompt;
    }
    if let Some(reasoning) = usage.reasoning.get() {
        object["completion_tokens_details"] = json!({ "reasoning_tokens": reasoning });
    }
    object
}

pub(in crate::wire) fn render(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let content = if response.text.is_empty() && !response.tool_calls.is_empty() {
        Value::Null
    } else {
        response.text.as_str().into()
    };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
    if !response.reasoning.is_empty() {
        message["reasoning_content"] = response.reasoning.as_str().into();
    }
    if !response.tool_calls.is_empty() {
        let calls = response.tool_calls.iter().map(|call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": { "name": call.name, "arguments": call.raw },
            })
        });
        message["tool_calls"] = calls.collect();
    }
    let mut body = json!({
        "id": answer.id,
        "object": "chat.completion",
        "created": CREATED,
        "model": answer.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_reason(response.stop),
        }],
    });
    if response.usage != Usage::UNKNOWN {
        body["usage"] = usage(&response.usage);
    }
    Reply::whole(vec![("x-request-id", answer.id)], &body)
}

pub(in crate::wire) fn render_stream(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let object = |choices: Value| {
        json!({
            "id": answer.id,
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": answer.model,
            "choices": choices,
        })
    };
    let chunk = |delta: Value, reason: Option<&str>| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": reason }]);
        frame("", &object(choices))
    };
    let mut pieces = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    for piece in words(&response.reasoning) {
        pieces.push(chunk(json!({ "reasoning_content": piece }), None));
    }
    for piece in words(&response.text) {
        pieces.push(chunk(json!({ "content": piece }), None));
    }
    for (index, call) in response.tool_calls.iter().enumerate() {
        let head = json!({
            "index": index,
            "id": call.id,
            "type": "function",
            "function": { "name": call.name, "arguments": "" },
        });
        pieces.push(chunk(json!({ "tool_calls": [head] }), None));
        for piece in thirds(&call.raw) {
            let more = json!({ "index": index, "function": { "arguments": piece } });
            pieces.push(chunk(json!({ "tool_calls": [more] }), None));
        }
    }
    pieces.push(chunk(json!({}), Some(finish_reason(response.stop))));
    if response.usage != Usage::UNKNOWN {
        let mut last = object(json!([]));
        last["usage"] = usage(&response.usage);
        pieces.push(frame("", &last));
    }
    pieces.push(b"data: [DONE]\n\n".to_vec());
    Reply::stream(vec![("x-request-id", answer.id)], EVENT_STREAM, pieces)
}

/// Status, type and code of a failure, as OpenAI documents them.
fn documented(kind: FaultKind) -> (u16, &'static str, Option<&'static str>) {
    let invalid = "invalid_request_error";
    match kind {
        FaultKind::RateLimit => (429, "requests", Some("rate_limit_exceeded")),
        FaultKind::Overloaded => (
            503,
            "service_unavailable_error",
            Some("server_is_overloaded"),
        ),
        FaultKind::Timeout => (504, "timeout", None),
        FaultKind::Server => (500, "server_error", None),
        FaultKind::Quota => (429, "insufficient_quota", Some("credit_balance_exhausted")),
        FaultKind::Auth => (401, invalid, Some("invalid_api_key")),
        FaultKind::ContextLength => (400, invalid, Some("context_length_exceeded")),
        FaultKind::Unsupported => (400, invalid, Some("unsupported_parameter")),
        FaultKind::ContentFilter => (400, invalid, Some("content_policy_violation")),
        FaultKind::InvalidRequest => (400, invalid, None),
    }
}

pub(in crate::wire) fn render_fault(kind: FaultKind, message: &str) -> (u16, Value) {
    let (status, type_, code) = documented(kind);
    let error = json!({ "message": message, "type": type_, "param": null, "code": code });
    (status, json!({ "error": error }))
}

/// As llama.cpp writes it: the code is the status.
pub(in crate::wire) fn render_compatible_fault(kind: FaultKind, message: &str) -> (u16, Value) {
    let status = super::status_of(kind);
    let type_ = match kind {
        FaultKind::RateLimit => "rate_limit_error",
        FaultKind::Overloaded => "unavailable_error",
        FaultKind::Timeout => "timeout_error",
        FaultKind::Server => "server_error",
        FaultKind::Quota => "payment_required",
        FaultKind::Auth => "authentication_error",
        FaultKind::ContextLength => "exceed_context_size_error",
        FaultKind::Unsupported => "not_supported_error",
        FaultKind::ContentFilter => "content_filter",
        FaultKind::InvalidRequest => "invalid_request_error",
    };
    let error = json!({ "code": status, "message": message, "type": type_ });
    (status, json!({ "error": error }))
}
