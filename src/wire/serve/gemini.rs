//! The serving end of Gemini generateContent. Requests are read in camel and in snake case.

use serde_json::{Map, Value, json};

use super::{
    Answer, EVENT_STREAM, Incoming, Reply, call_of_result, cap, count, frame, less, refuse, word,
    words,
};
use crate::router::FaultKind;
use crate::units::Tokens;
use crate::wire::error::Error;
use crate::wire::gemini::{NAME, SIGNATURE, call_of, is_thought, signed, signed_text};
use crate::wire::json::{either, field, joined, label, list, sum, text};
use crate::wire::percent;
use crate::wire::tools::made_up_id;
use crate::wire::types::{
    Echo, Message, OUTPUT_CAP_DEFAULT, Request, Response, Stop, ToolCall, ToolSpec, Usage,
};

pub(in crate::wire) fn parse_request(path: &str, body: &[u8]) -> Result<Incoming, Error> {
    let (model, stream) = asked(path).ok_or_else(|| refuse("no model and method in the path"))?;
    let body = super::received(body)?;
    let turns = list(&body, "contents");
    if turns.is_empty() {
        return Err(refuse("contents: at least one is required"));
    }
    let empty = Value::Null;
    let config = either(&body, "generationConfig", "generation_config").unwrap_or(&empty);
    let mut request = Request {
        system: either(&body, "systemInstruction", "system_instruction")
            .map_or_else(String::new, |system| {
                joined(system.get("parts").unwrap_or(&Value::Null))
            }),
        tools: list(&body, "tools")
            .iter()
            .filter_map(|tool| either(tool, "functionDeclarations", "function_declarations"))
            .filter_map(Value::as_array)
            .flatten()
            .filter_map(tool)
            .collect(),
        output_cap: cap(either(config, "maxOutputTokens", "max_output_tokens"))
            .unwrap_or(OUTPUT_CAP_DEFAULT),
        temperature: config.get("temperature").and_then(Value::as_f64),
        top_p: either(config, "topP", "top_p").and_then(Value::as_f64),
        ..Request::default()
    };
    let mut media_parts = 0;
    for turn in turns {
        let parts = list(turn, "parts");
        media_parts += parts.iter().filter(|part| is_media(part)).count();
        match text(turn, "role").unwrap_or("user") {
            "user" | "function" | "tool" => user(parts, &mut request.messages),
            "model" => {
                let number = request.messages.len();
                request.messages.push(assistant(parts, number));
            }
            other => return Err(refuse(&format!("contents: unexpected role '{other}'"))),
        }
    }
    Ok(Incoming {
        model,
        stream,
        request,
        media_parts,
    })
}

/// Model and whether to stream, from `…/models/{model}:{method}`.
fn asked(path: &str) -> Option<(String, bool)> {
    let path = path.split('?').next()?;
    let (_, last) = path.rsplit_once("/models/")?;
    let (model, method) = last.rsplit_once(':')?;
    let stream = match method {
        "generateContent" => false,
        "streamGenerateContent" => true,
        _ => return None,
    };
    Some((percent::decode(model)?, stream))
}

fn tool(tool: &Value) -> Option<ToolSpec> {
    Some(ToolSpec {
        name: label(tool, "name")?,
        description: text(tool, "description").unwrap_or("").to_owned(),
        parameters: either(tool, "parametersJsonSchema", "parameters_json_schema")
            .or_else(|| field(tool, "parameters"))
            .cloned()
            .unwrap_or_else(|| json!({ "type": "object" })),
    })
}

/// A picture, sound or file, inline or by address.
fn is_media(part: &Value) -> bool {
    either(part, "inlineData", "inline_data")
        .or_else(|| either(part, "fileData", "file_data"))
        .is_some()
}

/// What the last signed part of text in a turn of the model's brought.
fn echo_of(parts: &[Value]) -> Option<Echo> {
    parts
        .iter()
        .rev()
        .filter(|part| !is_thought(part) && call_of(part).is_none())
        .find_map(signed_text)
}

fn said(parts: &[Value]) -> String {
    parts
        .iter()
        .filter(|part| !is_thought(part))
        .filter_map(|part| text(part, "text"))
        .collect()
}

fn assistant(parts: &[Value], turn: usize) -> Message {
    let mut tool_calls = Vec::new();
    for (id, name, arguments, echo) in parts.iter().filter_map(call_of) {
        // Ids are optional here; the turn's number keeps made-up ones apart.
        let id = if id.is_empty() {
            made_up_id(&turn.to_string(), tool_calls.len(), &name)
        } else {
            id
        };
        tool_calls.push(ToolCall {
            echo,
            ..ToolCall::new(id, name, arguments)
        });
    }
    Message::Assistant {
        text: said(parts),
        tool_calls,
        echo: echo_of(parts),
    }
}

/// A user turn: results of tools become turns of their own, text the user's.
fn user(parts: &[Value], messages: &mut Vec<Message>) {
    let mut any_result = false;
    for result in parts
        .iter()
        .filter_map(|part| either(part, "functionResponse", "function_response"))
    {
        let name = text(result, "name").unwrap_or("").to_owned();
        let id = label(result, "id").unwrap_or_default();
        let call_id = call_of_result(messages, &id, &name).map_or(id, |call| call.id.clone());
        messages.push(Message::Tool {
            call_id,
            name,
            text: result_text(field(result, "response")),
        });
        any_result = true;
    }
    let text = said(parts);
    if !text.is_empty() || !any_result {
        messages.push(Message::User { text });
    }
}

/// Clients put the result under `result` or `content`, or send an object of their own.
fn result_text(response: Option<&Value>) -> String {
    let Some(response) = response else {
        return String::new();
    };
    for name in ["result", "content", "output"] {
        match response.get(name) {
            Some(Value::String(text)) => return text.clone(),
            Some(other) if !other.is_null() => return other.to_string(),
            _ => {}
        }
    }
    response.to_string()
}

fn finish_reason(stop: Stop) -> &'static str {
    word(stop, ["STOP", "MAX_TOKENS", "STOP", "SAFETY", "OTHER"])
}

fn usage(usage: &Usage) -> Value {
    let mut object = json!({});
    count(&mut object, "promptTokenCount", usage.input);
    count(&mut object, "cachedContentTokenCount", usage.cached);
    count(
        &mut object,
        "candidatesTokenCount",
        less(usage.output, &[usage.reasoning]),
    );
    count(&mut object, "thoughtsTokenCount", usage.reasoning);
    if usage.output != Tokens::UNKNOWN {
        count(
            &mut object,
            "totalTokenCount",
            sum(usage.input, &[usage.output]),
        );
    }
    object
}

fn object(answer: &Answer<'_>, parts: Vec<Value>, last: bool) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if last {
        candidate["finishReason"] = finish_reason(answer.response.stop).into();
    }
    let mut body = json!({ "candidates": [candidate] });
    if last && answer.response.usage != Usage::UNKNOWN {
        body["usageMetadata"] = usage(&answer.response.usage);
    }
    body["modelVersion"] = answer.model.into();
    body["responseId"] = answer.id.into();
    body
}

/// The text of an answer: the start that is not signed, and the part that is.
fn said_parts(response: &Response) -> (&str, Option<Value>) {
    let text = response.text.as_str();
    let Some((end, signature)) = signed(text, response.echo.as_ref()) else {
        return (text, None);
    };
    let part = json!({ "text": end, SIGNATURE: signature });
    (&text[..text.len() - end.len()], Some(part))
}

fn call_parts(response: &Response) -> impl Iterator<Item = Value> {
    response.tool_calls.iter().map(|call| {
        let mut part = Map::new();
        let mut inner = json!({ "name": call.name, "args": call.arguments });
        let echo = call.echo.as_ref().filter(|echo| echo.adapter == NAME);
        // Ids are optional here, and only what a provider really sends is echoed.
        if let Some(id) = echo.and_then(|echo| echo.fields.get("id")) {
            inner["id"] = id.clone();
        }
        part.insert("functionCall".into(), inner);
        if let Some(signature) = echo.and_then(|echo| echo.fields.get(SIGNATURE)) {
            part.insert(SIGNATURE.into(), signature.clone());
        }
        Value::Object(part)
    })
}

pub(in crate::wire) fn render(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let mut parts = Vec::new();
    if !response.reasoning.is_empty() {
        parts.push(json!({ "text": response.reasoning, "thought": true }));
    }
    let (start, end) = said_parts(response);
    if !start.is_empty() {
        parts.push(json!({ "text": start }));
    }
    parts.extend(end);
    parts.extend(call_parts(response));
    Reply::whole(Vec::new(), &object(answer, parts, true))
}

pub(in crate::wire) fn render_stream(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let mut parts: Vec<Value> = words(&response.reasoning)
        .map(|piece| json!({ "text": piece, "thought": true }))
        .collect();
    let (start, end) = said_parts(response);
    parts.extend(words(start).map(|piece| json!({ "text": piece })));
    parts.extend(end);
    parts.extend(call_parts(response));
    let last = parts.pop();
    let mut pieces: Vec<Vec<u8>> = parts
        .into_iter()
        .map(|part| frame("", &object(answer, vec![part], false)))
        .collect();
    pieces.push(frame("", &object(answer, last.into_iter().collect(), true)));
    Reply::stream(Vec::new(), EVENT_STREAM, pieces)
}

pub(in crate::wire) fn render_fault(kind: FaultKind, message: &str) -> (u16, Value) {
    let invalid = "INVALID_ARGUMENT";
    let (status, code) = match kind {
        FaultKind::RateLimit => (429, "RESOURCE_EXHAUSTED"),
        FaultKind::Overloaded => (503, "UNAVAILABLE"),
        FaultKind::Timeout => (504, "DEADLINE_EXCEEDED"),
        FaultKind::Server => (500, "INTERNAL"),
        FaultKind::Quota => (402, "RESOURCE_EXHAUSTED"),
        FaultKind::Auth => (403, "PERMISSION_DENIED"),
        FaultKind::Unsupported => (404, "NOT_FOUND"),
        FaultKind::ContextLength | FaultKind::ContentFilter | FaultKind::InvalidRequest => {
            (400, invalid)
        }
    };
    // Two kinds have no code of their own: only the wording tells.
    let message = match kind {
        FaultKind::ContextLength => {
            format!("The input token count exceeds the maximum number of tokens allowed: {message}")
        }
        FaultKind::Unsupported => format!("models/{message} is not found for API version v1beta"),
        _ => message.to_owned(),
    };
    let error = json!({ "code": status, "message": message, "status": code });
    let mut body = json!({ "error": error });
    if kind == FaultKind::ContentFilter {
        body["promptFeedback"] = json!({ "blockReason": "SAFETY" });
    }
    (status, body)
}
