//! The serving end of Ollama's chat API: one JSON object a line.

use serde_json::{Value, json};

use super::{
    Answer, Incoming, Reply, call_of_result, cap, count, function_tool, refuse, word, words,
};
use crate::router::FaultKind;
use crate::wire::error::Error;
use crate::wire::json::{field, joined, label, list, text};
use crate::wire::ollama::calls;
use crate::wire::tools::made_up_id;
use crate::wire::types::{Message, OUTPUT_CAP_DEFAULT, Request, Stop, ToolCall};

pub(in crate::wire) fn parse_request(body: &[u8]) -> Result<Incoming, Error> {
    let body = super::received(body)?;
    let empty = Value::Null;
    let options = field(&body, "options").unwrap_or(&empty);
    let mut request = Request {
        tools: list(&body, "tools")
            .iter()
            .filter_map(function_tool)
            .collect(),
        output_cap: cap(options.get("num_predict")).unwrap_or(OUTPUT_CAP_DEFAULT),
        temperature: options.get("temperature").and_then(Value::as_f64),
        top_p: options.get("top_p").and_then(Value::as_f64),
        ..Request::default()
    };
    let mut media_parts = 0;
    for turn in list(&body, "messages") {
        media_parts += list(turn, "images").len();
        let said = joined(turn.get("content").unwrap_or(&Value::Null));
        match text(turn, "role").unwrap_or("") {
            "system" => request.system.push_str(&said),
            "user" => request.messages.push(Message::User { text: said }),
            "assistant" => {
                let turn_number = request.messages.len().to_string();
                let tool_calls = calls(turn)
                    .into_iter()
                    .enumerate()
                    .map(|(n, (id, name, raw))| {
                        let id = if id.is_empty() {
                            made_up_id(&turn_number, n, &name)
                        } else {
                            id
                        };
                        ToolCall::new(id, name, raw)
                    });
                request.messages.push(Message::Assistant {
                    text: said,
                    tool_calls: tool_calls.collect(),
                    echo: None,
                });
            }
            "tool" => {
                let id = label(turn, "tool_call_id").unwrap_or_default();
                let name = label(turn, "tool_name").unwrap_or_default();
                let call = call_of_result(&request.messages, &id, &name);
                let (call_id, name) =
                    call.map_or((id, name), |call| (call.id.clone(), call.name.clone()));
                request.messages.push(Message::Tool {
                    call_id,
                    name,
                    text: said,
                });
            }
            other => return Err(refuse(&format!("messages: unknown role '{other}'"))),
        }
    }
    Ok(Incoming {
        model: super::model(&body)?,
        // Streaming is what happens if nothing is said.
        stream: body.get("stream").and_then(Value::as_bool) != Some(false),
        request,
        media_parts,
    })
}

fn done_reason(stop: Stop) -> &'static str {
    word(stop, ["stop", "length", "stop", "stop", "unload"])
}

fn object(answer: &Answer<'_>, message: Value, last: bool) -> Value {
    let response = answer.response;
    let mut body = json!({
        "model": answer.model,
        // A stand-in has no clock; the id tells answers apart instead.
        "created_at": answer.id,
        "message": message,
        "done": last,
    });
    if last {
        body["done_reason"] = done_reason(response.stop).into();
        count(&mut body, "prompt_eval_count", response.usage.input);
        count(&mut body, "eval_count", response.usage.output);
    }
    body
}

fn call_list(answer: &Answer<'_>) -> Value {
    let calls = answer.response.tool_calls.iter().map(|call| {
        json!({ "id": call.id, "function": { "name": call.name, "arguments": call.arguments } })
    });
    calls.collect()
}

pub(in crate::wire) fn render(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let mut message = json!({ "role": "assistant", "content": response.text });
    if !response.reasoning.is_empty() {
        message["thinking"] = response.reasoning.as_str().into();
    }
    if !response.tool_calls.is_empty() {
        message["tool_calls"] = call_list(answer);
    }
    Reply::whole(Vec::new(), &object(answer, message, true))
}

pub(in crate::wire) fn render_stream(answer: &Answer<'_>) -> Reply {
    let response = answer.response;
    let mut messages: Vec<Value> = words(&response.reasoning)
        .map(|piece| json!({ "role": "assistant", "content": "", "thinking": piece }))
        .collect();
    messages.extend(
        words(&response.text).map(|piece| json!({ "role": "assistant", "content": piece })),
    );
    if !response.tool_calls.is_empty() {
        let calls = call_list(answer);
        messages.push(json!({ "role": "assistant", "content": "", "tool_calls": calls }));
    }
    let mut objects: Vec<Value> = messages
        .into_iter()
        .map(|message| object(answer, message, false))
        .collect();
    objects.push(object(
        answer,
        json!({ "role": "assistant", "content": "" }),
        true,
    ));
    let pieces = objects
        .into_iter()
        .map(|object| format!("{object}\n").into_bytes())
        .collect();
    Reply::stream(Vec::new(), "application/x-ndjson", pieces)
}

pub(in crate::wire) fn render_fault(kind: FaultKind, message: &str) -> (u16, Value) {
    // Ollama has no codes; the status and the words are all there is.
    let message = match kind {
        FaultKind::ContextLength => {
            format!("prompt too long; exceeded max context length: {message}")
        }
        FaultKind::Unsupported => format!("{message} does not support tools"),
        FaultKind::ContentFilter => format!("blocked by content filtering policy: {message}"),
        _ => message.to_owned(),
    };
    (super::status_of(kind), json!({ "error": message }))
}
