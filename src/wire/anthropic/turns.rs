//! Conversations as Anthropic wants them: turns of typed blocks.

use serde_json::Value;

use super::{NAME, THINKING};
use crate::wire::types::{Message, ToolCall};
use crate::wire::write::List;

/// Turns as typed blocks. Results of one round of tools travel in one user turn.
pub(super) fn write_turns(messages: &[Message], turns: &mut List<'_>) {
    let both_results =
        |a: &Message, b: &Message| matches!((a, b), (Message::Tool { .. }, Message::Tool { .. }));
    for round in messages.chunk_by(both_results) {
        match &round[0] {
            Message::User { text } => turns.object(|turn| {
                turn.word("role", "user");
                turn.text("content", text);
            }),
            // Empty text blocks and empty turns are refused.
            Message::Assistant {
                text, tool_calls, ..
            } if text.is_empty() && tool_calls.is_empty() => {}
            Message::Assistant {
                text, tool_calls, ..
            } => turns.object(|turn| {
                turn.word("role", "assistant");
                turn.list("content", |blocks| write_answer(text, tool_calls, blocks));
            }),
            Message::Tool { .. } => turns.object(|turn| {
                turn.word("role", "user");
                turn.list("content", |blocks| {
                    for result in round {
                        write_result(result, blocks);
                    }
                });
            }),
        }
    }
}

fn write_answer(text: &str, tool_calls: &[ToolCall], blocks: &mut List<'_>) {
    // Thinking comes first, or a turn with calls is refused.
    for call in tool_calls {
        let echo = call.echo.as_ref().filter(|echo| echo.adapter == NAME);
        if let Some(Value::Array(kept)) = echo.and_then(|echo| echo.fields.get(THINKING)) {
            kept.iter().for_each(|block| blocks.value(block));
        }
    }
    if !text.is_empty() {
        blocks.object(|block| {
            block.word("type", "text");
            block.text("text", text);
        });
    }
    for call in tool_calls {
        blocks.object(|block| {
            block.word("type", "tool_use");
            block.text("id", &call.id);
            block.text("name", &call.name);
            block.value("input", &call.arguments);
        });
    }
}

fn write_result(message: &Message, blocks: &mut List<'_>) {
    if let Message::Tool { call_id, text, .. } = message {
        blocks.object(|block| {
            block.word("type", "tool_result");
            block.text("tool_use_id", call_id);
            block.text("content", text);
        });
    }
}
