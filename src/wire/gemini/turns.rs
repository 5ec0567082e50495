//! Conversations as Gemini wants them: turns of parts, with what it wants back on them.

use serde_json::Value;

use super::{NAME, SIGNATURE};
use crate::wire::types::{Echo, Message, ToolCall, ToolSpec};
use crate::wire::write::List;

/// Turns as parts. Results of one round of tools travel in one user turn.
pub(super) fn write_turns(messages: &[Message], turns: &mut List<'_>) {
    let both_results =
        |a: &Message, b: &Message| matches!((a, b), (Message::Tool { .. }, Message::Tool { .. }));
    let mut before = 0;
    for round in messages.chunk_by(both_results) {
        match &round[0] {
            Message::User { text } => turns.object(|turn| {
                turn.word("role", "user");
                turn.list("parts", |parts| write_text(text, parts));
            }),
            Message::Assistant {
                text,
                tool_calls,
                echo,
            } => {
                let signed = signed(text, echo.as_ref());
                // Empty turns are refused.
                if !text.is_empty() || !tool_calls.is_empty() || signed.is_some() {
                    turns.object(|turn| {
                        turn.word("role", "model");
                        turn.list("parts", |parts| {
                            write_said(text, signed, parts);
                            tool_calls.iter().for_each(|call| write_call(call, parts));
                        });
                    });
                }
            }
            Message::Tool { .. } => turns.object(|turn| {
                turn.word("role", "user");
                turn.list("parts", |parts| {
                    for result in round {
                        write_result(result, &messages[..before], parts);
                    }
                });
            }),
        }
        before += round.len();
    }
}

pub(super) fn write_text(text: &str, parts: &mut List<'_>) {
    parts.object(|part| part.text("text", text));
}

/// A text, and the part of it that was signed, which has to be a part of its own again.
fn write_said(text: &str, signed: Option<(&str, &Value)>, parts: &mut List<'_>) {
    let (end, signature) = match signed {
        Some((end, signature)) => (end, Some(signature)),
        None => ("", None),
    };
    let start = &text[..text.len() - end.len()];
    if !start.is_empty() {
        write_text(start, parts);
    }
    if let Some(signature) = signature {
        parts.object(|part| {
            part.text("text", end);
            part.value(SIGNATURE, signature);
        });
    }
}

/// The end of `text` that the provider signed, with its signature. A turn that somebody changed since
/// is not what was signed.
pub(in crate::wire) fn signed<'a>(
    text: &'a str,
    echo: Option<&'a Echo>,
) -> Option<(&'a str, &'a Value)> {
    let fields = &echo.filter(|echo| echo.adapter == NAME)?.fields;
    let part = fields.get("text").and_then(Value::as_str).unwrap_or("");
    let signature = fields.get(SIGNATURE)?;
    text.ends_with(part).then_some((part, signature))
}

fn write_call(call: &ToolCall, parts: &mut List<'_>) {
    let echo = call.echo.as_ref().filter(|echo| echo.adapter == NAME);
    let kept = |name| echo.and_then(|echo| echo.fields.get(name));
    parts.object(|part| {
        part.object("functionCall", |inner| {
            inner.text("name", &call.name);
            inner.value("args", &call.arguments);
            if let Some(id) = kept("id") {
                inner.value("id", id);
            }
        });
        if let Some(signature) = kept(SIGNATURE) {
            part.value(SIGNATURE, signature);
        }
    });
}

fn write_result(message: &Message, before: &[Message], parts: &mut List<'_>) {
    let Message::Tool {
        call_id,
        name,
        text,
    } = message
    else {
        return;
    };
    parts.object(|part| {
        part.object("functionResponse", |result| {
            result.text("name", name);
            result.object("response", |response| response.text("result", text));
            // An id goes back only if the provider gave one to the call.
            if let Some(id) = given_id(before, call_id) {
                result.value("id", id);
            }
        });
    });
}

pub(super) fn write_tools(tools: &[ToolSpec], declarations: &mut List<'_>) {
    for tool in tools {
        declarations.object(|object| {
            object.text("name", &tool.name);
            object.text("description", &tool.description);
            object.value("parametersJsonSchema", &tool.parameters);
        });
    }
}

/// The id this provider gave to the call `call_id`, latest first.
fn given_id<'a>(before: &'a [Message], call_id: &str) -> Option<&'a Value> {
    before.iter().rev().find_map(|message| {
        let Message::Assistant { tool_calls, .. } = message else {
            return None;
        };
        let call = tool_calls.iter().find(|call| call.id == call_id)?;
        let echo = call.echo.as_ref().filter(|echo| echo.adapter == NAME)?;
        echo.fields.get("id")
    })
}
