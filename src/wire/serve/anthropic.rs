//! The serving end of Anthropic Messages.

use serde_json::{Value, json};

use super::{
    Answer, EVENT_STREAM, Incoming, Reply, cap, count, frame, less, name_of, refuse, thirds, word,
    words,
};
use crate::router::FaultKind;
use crate::wire::Headers;
use crate::wire::anthropic::WITHOUT_SAMPLING;
use crate::wire::error::Error;
use crate::wire::json::{field, joined, label, list, text};
use crate::wire::types::{Message, Request, Stop, ToolCall, ToolSpec, Usage};

pub(in crate::wire) fn parse_request(headers: &Headers, body: &[u8]) -> Result<Incoming, Error> {
    let version = headers
        .get("anthropic-version")
        .ok_or_else(|| refuse("anthropic-version: header is required"))?;
    let body = super::received(body)?;
    let sampling = ["temperature", "top_p", "top_k"];
    if version >= WITHOUT_SAMPLING
        && let Some(name) = sampling.iter().find(|name| field(&body, name).is_some())
    {
        return Err(refuse(&format!(
            "{name}: not accepted in version {version}"
        )));
    }
    let turns = list(&body, "messages");
    if turns.is_empty() {
        return Err(refuse("messages: at least one is required"));
    }
    let mut request = Request {
        system: joined(body.get("system").unwrap_or(&Value::Null)),
        tools: list(&body, "tools").iter().filter_map(tool).collect(),
        output_cap: cap(body.get("max_tokens"))
            .ok_or_else(|| refuse("max_tokens: Field required"))?,
        temperature: body.get("temperature").and_then(Value::as_f64),
        top_p: body.get("top_p").and_then(Value::as_f64),
        ..Request::default()
    };
    let mut media_parts = 0;
    for turn in turns {
        let content = turn.get("content").unwrap_or(&Value::Null);
        let role = text(turn, "role").unwrap_or("");
        if version >= WITHOUT_SAMPLING
            && let Some(what) = no_longer_accepted(role, content)
        {
            return Err(refuse(&format!(
                "messages: {what} not accepted in version {version}"
            )));
        }
        media_parts += media(content);
        match role {
            "user" => user(content, &mut request.messages),
            "assistant" => request.messages.push(Message::Assistant {
                text: words_of(content),
                tool_calls: list(turn, "content").iter().filter_map(call).collect(),
                echo: None,
            }),
            other => return Err(refuse(&format!("messages: unexpected role '{other}'"))),
        }
    }
    Ok(Incoming {
        model: super::model(&body)?,
        stream: body.get("stream").and_then(Value::as_bool) == Some(true),
        request,
        media_parts,
    })
}

/// What version 2026-10-21 refuses in a turn and earlier ones took (its release notes).
fn no_longer_accepted(role: &str, content: &Value) -> Option<&'static str> {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    let of_type = |block: &&Value, type_| text(block, "type") == Some(type_);
    match role {
        "assistant" => blocks
            .iter()
            .any(|block| of_type(&block, "document"))
            .then_some("`document` blocks in assistant turns are"),
        "user" => blocks
            .iter()
            .filter(|block| of_type(block, "text"))
            .any(|block| !list(block, "citations").is_empty())
            .then_some("citations in user text are"),
        _ => None,
    }
}

/// Types of blocks that are read, or that only repeat what ran at the provider.
const READ_BLOCKS: &[&str] = &[
    "text",
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
];

/// Pictures, documents and the like, in a turn and in the results of tools in it.
fn media(content: &Value) -> usize {
    let inside = content
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .filter(|block| text(block, "type") == Some("tool_result"))
        .filter_map(|block| block.get("content"))
        .map(|content| super::media_parts(content, READ_BLOCKS));
    super::media_parts(content, READ_BLOCKS) + inside.sum::<usize>()
}

fn tool(tool: &Value) -> Option<ToolSpec> {
    Some(ToolSpec {
        name: label(tool, "name")?,
        description: text(tool, "description").unwrap_or("").to_owned(),
        parameters: tool
            .get("input_schema")
            .cloned()
            .unwrap_or_else(|| json!({ "type": "object" })),
    })
}

fn call(block: &Value) -> Option<ToolCall> {
    if text(block, "type") != Some("tool_use") {
        return None;
    }
    let raw = field(block, "input").map_or_else(String::new, Value::to_string);
    Some(ToolCall::new(
        label(block, "id")?,
        text(block, "name")?,
        raw,
    ))
}

/// The text blocks of a content, or the content that is text.
fn words_of(content: &Value) -> String {
    match content {
        Value::Array(blocks) => blocks
            .iter()
            .filter(|block| text(block, "type") == Some("text"))
            .filter_map(|block| text(block, "text"))
            .collect(),
        other => joined(other),
    }
}

/// A user turn: results of tools become turns of their own, text the user's.
fn user(content: &Value, messages: &mut Vec<Message>) {
    let mut any_result = false;
    for block in content.as_array().map_or(&[][..], Vec::as_slice) {
        if text(block, "type") == Some("tool_result") {
            let call_id = label(block, "tool_use_id").unwrap_or_default();
            messages.push(Message::Tool {
                name: name_of(messages, &call_id),
                call_id,
                text: joined(block.get("content").unwrap_or(&Value::Null)),
            });
            any_result = true;
        }
    }
    let said = words_of(content);
    if !said.is_empty() || !any_result {
        messages.push(Message::User { text: said });
    }
}

fn stop_reason(stop: Stop) -> &'static str {
    word(
        stop,
        [
            "end_turn",
            "max_tokens",
            "tool_use",
            "refusal",
            "pause_turn",
        ],
    )
}

fn usage(usage: &Usage) -> Value {
    let mut object = json!({});
    let fresh = less(usage.input, &[usage.cached, usage.cache_write]);
    count(&mut object, "input_tokens", fresh);
    count(
        &mut object,
        "cache_creation_input_tokens",
        usage.cache_write,
    );
    count(&mut object, "cache_read_input_tokens", usage.cached);
    count(&mut object, "output_tokens", usage.output);
    if let Some(reasoning) = usage.reasoning.get() {
        object["output_tokens_details"] = json!({ "thinking_tokens": reasoning });
    }
    object
}

fn message(answer: &Answer<'_>, content: Value, stop: Value, usage: Value) -> Value {
    json!({
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": usage,
    })
}

pub(in crate::wire) fn render(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let mut content = Vec::new();
    if !response.reasoning.is_empty() {
        content
            .push(json!({ "type": "thinking", "thinking": response.reasoning, "signature": "" }));
    }
    if !response.text.is_empty() {
        content.push(json!({ "type": "text", "text": response.text }));
    }
    content.extend(response.tool_calls.iter().map(|call| {
        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments })
    }));
    let stop = stop_reason(response.stop).into();
    let body = message(answer, content.into(), stop, usage(&response.usage));
    Reply::whole(vec![("request-id", answer.id)], &body)
}

pub(in crate::wire) fn render_stream(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let mut pieces = Vec::new();
    let mut push = |event: Value| {
        let name = event["type"].as_str().unwrap_or("").to_owned();
        pieces.push(frame(&name, &event));
    };
    // The prompt is counted at the start, the answer cumulatively: one token so far.
    let mut counted = response.usage;
    counted.output = crate::units::Tokens::from(counted.output.get().map(|output| output.min(1)));
    counted.reasoning = crate::units::Tokens::UNKNOWN;
    let start = message(answer, json!([]), Value::Null, usage(&counted));
    push(json!({ "type": "message_start", "message": start }));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        if index == 0 {
            push(json!({ "type": "ping" }));
        }
        for delta in deltas {
            push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        push(json!({ "type": "content_block_stop", "index": index }));
        index += 1;
    };
    if !response.reasoning.is_empty() {
        let deltas = words(&response.reasoning)
            .map(|piece| json!({ "type": "thinking_delta", "thinking": piece }));
        block(
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            deltas.collect(),
        );
    }
    if !response.text.is_empty() {
        let deltas =
            words(&response.text).map(|piece| json!({ "type": "text_delta", "text": piece }));
        block(json!({ "type": "text", "text": "" }), deltas.collect());
    }
    for call in &response.tool_calls {
        let start = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        // A final input is always an object here, so a malformed one goes out as it is kept.
        let input = Value::Object(call.arguments.clone()).to_string();
        let deltas = thirds(if call.is_malformed() {
            &input
        } else {
            &call.raw
        })
        .into_iter()
        .map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
        block(start, deltas.collect());
    }
    let mut end = json!({});
    count(&mut end, "output_tokens", response.usage.output);
    if let Some(reasoning) = response.usage.reasoning.get() {
        end["output_tokens_details"] = json!({ "thinking_tokens": reasoning });
    }
    let delta = json!({ "stop_reason": stop_reason(response.stop), "stop_sequence": null });
    push(json!({ "type": "message_delta", "delta": delta, "usage": end }));
    push(json!({ "type": "message_stop" }));
    Reply::stream(vec![("request-id", answer.id)], EVENT_STREAM, pieces)
}

pub(in crate::wire) fn render_fault(kind: FaultKind, message: &str) -> (u16, Value) {
    let (status, type_) = match kind {
        FaultKind::RateLimit => (429, "rate_limit_error"),
        FaultKind::Overloaded => (529, "overloaded_error"),
        FaultKind::Timeout => (504, "timeout_error"),
        FaultKind::Server => (500, "api_error"),
        FaultKind::Quota => (402, "billing_error"),
        FaultKind::Auth => (401, "authentication_error"),
        FaultKind::Unsupported => (404, "not_found_error"),
        FaultKind::ContextLength | FaultKind::ContentFilter | FaultKind::InvalidRequest => {
            (400, "invalid_request_error")
        }
    };
    // Three kinds have no code of their own: only the wording tells.
    let message = match kind {
        FaultKind::ContextLength => format!("prompt is too long: {message}"),
        FaultKind::ContentFilter => {
            format!("Output blocked by content filtering policy: {message}")
        }
        FaultKind::Unsupported => format!("model: {message}"),
        _ => message.to_owned(),
    };
    let body = json!({
        "type": "error",
        "error": { "type": type_, "message": message },
        "request_id": "req_standin",
    });
    (status, body)
}
