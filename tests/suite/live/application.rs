//! What an application looks like: a tool loop that knows no provider. The neighbouring module scans this
//! file for words that only one provider uses.

use routelab::live::{CallContext, Client};
use routelab::wire::{Message, Request, Response, StreamEvent, ToolCall, ToolSpec, collect};

/// Rounds of tool calls before an application gives up.
const ROUNDS_MAX: usize = 4;

/// What a conversation came to.
#[derive(Debug)]
pub(super) struct Talk {
    pub(super) answer: Response,
    /// What a user would have seen.
    pub(super) shown: String,
    pub(super) calls: Vec<ToolCall>,
    /// Prompt and generated tokens of each round.
    pub(super) tokens: Vec<(Option<u32>, Option<u32>)>,
}

/// Asks a question, runs the tools the model asks for, and asks again until it answers.
pub(super) async fn ask(client: &Client, question: &str, streamed: bool) -> Result<Talk, String> {
    let weather = ToolSpec {
        name: "get_weather".into(),
        description: "Get the current weather for a city".into(),
        parameters: serde_json::json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }),
    };
    let mut request = Request {
        system: "Be brief.".into(),
        messages: vec![Message::user(question)],
        tools: vec![weather],
        output_cap: 100,
        ..Request::default()
    };
    let context = CallContext::default();
    let (mut shown, mut calls, mut tokens) = (String::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS_MAX {
        let answer = if streamed {
            let mut events = Vec::new();
            let mut stream = client.stream(&request, &context);
            while let Some(event) = stream.next().await {
                let event = event.map_err(|error| error.to_string())?;
                if let StreamEvent::Text(text) = &event {
                    shown.push_str(text);
                }
                events.push(event);
            }
            collect(events).ok_or("the stream had no end")?
        } else {
            let completion = client.complete(&request, &context).await;
            let answer = completion.map_err(|error| error.to_string())?.response;
            shown.push_str(&answer.text);
            answer
        };
        tokens.push((answer.usage.input.get(), answer.usage.output.get()));
        if answer.tool_calls.is_empty() {
            return Ok(Talk {
                answer,
                shown,
                calls,
                tokens,
            });
        }
        request.messages.push(Message::answer(&answer));
        for call in &answer.tool_calls {
            request.messages.push(Message::result(call, run(call)));
        }
        calls.extend(answer.tool_calls);
    }
    Err("the model did not stop asking for tools".into())
}

/// The application's only tool.
fn run(call: &ToolCall) -> String {
    let city = call.arguments.get("city").and_then(|city| city.as_str());
    match (call.name.as_str(), city) {
        ("get_weather", Some(city)) => {
            format!("{{\"city\": \"{city}\", \"temp_c\": 18, \"sky\": \"cloudy\"}}")
        }
        _ => "{\"error\": \"no such tool\"}".into(),
    }
}
