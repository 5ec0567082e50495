//! What a request needs from a route, as far as it can be told before it is sent.

use crate::catalogue::Requirement;
use crate::router::Need;
use crate::units::{Instant, Tokens};
use crate::wire::{Message, Request};

/// Characters of a Latin script that make a token, at most (most tokenisers need more).
const CHARS_PER_TOKEN: usize = 3;
/// Tokens around each message, tool and tool call.
const TOKENS_PER_PART: usize = 8;

/// Prompt tokens of a request, estimated from its text so that it is rather too many than too few.
///
/// Everything that travels is counted: system prompt, messages, tool calls and results, tools with their
/// schemas. ASCII counts as a token for every three characters, any other character as a token of
/// its own, and each part has eight for its frame. Vendors say that a token is about four characters of
/// English (OpenAI, "What are tokens and how to count them"; Google, "Understand and count tokens", both
/// read November 2026); tokens of providers are not comparable, so an estimate has to lean to one
/// side, and a prompt that does not fit costs more than a route passed over. The provider's own refusal is
/// still handled.
#[must_use]
pub fn input_tokens_estimate(request: &Request) -> u32 {
    let mut tokens = text(&request.system);
    for message in &request.messages {
        tokens += TOKENS_PER_PART;
        match message {
            Message::User { text: words } => tokens += text(words),
            Message::Assistant {
                text: words,
                tool_calls,
                echo: _,
            } => {
                tokens += text(words);
                for call in tool_calls {
                    tokens += TOKENS_PER_PART + text(&call.id) + text(&call.name) + text(&call.raw);
                }
            }
            Message::Tool {
                call_id,
                name,
                text: words,
            } => tokens += text(call_id) + text(name) + text(words),
        }
    }
    for tool in &request.tools {
        tokens += TOKENS_PER_PART
            + text(&tool.name)
            + text(&tool.description)
            + text(&tool.parameters.to_string());
    }
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

fn text(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().filter(|c| !c.is_ascii()).count();
    ascii.div_ceil(CHARS_PER_TOKEN) + others
}

/// Characters of the prompt that people wrote: the conversation and the system prompt.
pub(super) fn prompt_chars(request: &Request) -> u32 {
    let words = request.messages.iter().map(|message| match message {
        Message::User { text } | Message::Assistant { text, .. } | Message::Tool { text, .. } => {
            text.chars().count()
        }
    });
    let chars = request.system.chars().count() + words.sum::<usize>();
    u32::try_from(chars).unwrap_or(u32::MAX)
}

/// The router's view of a request.
pub(super) fn need(request: &Request, requirement: Requirement, deadline: Option<Instant>) -> Need {
    Need {
        input_tokens: Tokens::new(input_tokens_estimate(request)),
        output_cap: Tokens::new(request.output_cap),
        tools: !request.tools.is_empty(),
        residency: requirement.residency,
        local_only: requirement.local_only,
        account: None,
        deadline,
    }
}

/// The conversation in words, for a judge or a record that wants it. A single question is just itself;
/// in anything longer each turn begins with who spoke.
#[must_use]
pub fn transcript(request: &Request) -> String {
    if let ([Message::User { text }], "") = (request.messages.as_slice(), request.system.as_str()) {
        return text.clone();
    }
    let mut lines = Vec::new();
    if !request.system.is_empty() {
        lines.push(format!("system: {}", request.system));
    }
    for message in &request.messages {
        match message {
            Message::User { text } => lines.push(format!("user: {text}")),
            Message::Assistant {
                text, tool_calls, ..
            } => {
                if !text.is_empty() || tool_calls.is_empty() {
                    lines.push(format!("assistant: {text}"));
                }
                for call in tool_calls {
                    lines.push(format!("assistant calls {}: {}", call.name, call.raw));
                }
            }
            Message::Tool { name, text, .. } => lines.push(format!("tool {name}: {text}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ToolCall, ToolSpec};

    /// TR-11: a need that leaves out the system prompt, tools and tool calls lets requests through that
    /// do not fit.
    #[test]
    fn tr11_everything_that_travels_is_counted() {
        let base = Request {
            messages: vec![Message::user("What is the weather?")],
            ..Request::default()
        };
        let estimate = input_tokens_estimate(&base);
        assert!(
            estimate >= 6,
            "one token for each word at least: {estimate}"
        );
        let long = "word ".repeat(300);
        let mut with_system = base.clone();
        with_system.system = long.clone();
        let mut with_tool = base.clone();
        with_tool.tools.push(ToolSpec {
            name: "t".into(),
            description: String::new(),
            parameters: serde_json::json!({ "description": long.clone() }),
        });
        let mut with_call = base.clone();
        with_call.messages.push(Message::Assistant {
            text: String::new(),
            tool_calls: vec![ToolCall::new("i", "t", format!("{{\"a\":\"{long}\"}}"))],
            echo: None,
        });
        let mut with_result = base.clone();
        with_result.messages.push(Message::Tool {
            call_id: "i".into(),
            name: "t".into(),
            text: long,
        });
        for bigger in [with_system, with_tool, with_call, with_result] {
            assert!(input_tokens_estimate(&bigger) >= estimate + 300);
        }
    }

    #[test]
    fn scripts_of_one_token_a_character_are_not_underrated() {
        let request = |text: &str| Request {
            messages: vec![Message::user(text)],
            ..Request::default()
        };
        let chinese = input_tokens_estimate(&request(&"\u{4f60}\u{597d}".repeat(500)));
        assert!(chinese >= 1_000, "{chinese}");
    }
}
