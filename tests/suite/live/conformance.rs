//! One application function against every dialect, streamed and not.

use std::sync::Arc;

use routelab::standin::loopback::{Asked, Model, ServerSpec};
use routelab::wire::{Response, Stop, ToolCall};

use super::application::{self, ask};
use super::{Stage, policy};

const DIALECTS: [(&str, &str, (u32, u32)); 5] = [
    ("oa", "openai", (14, 8)),
    ("an", "anthropic", (35, 8)),
    ("ge", "gemini", (33, 8)),
    ("co", "compatible", (14, 8)),
    ("ol", "ollama", (14, 8)),
];

fn only(route: &str) -> String {
    format!("[fixed]\nroute = \"{route}\"\n")
}

/// WA-10: the same call, the same answer, and the lesson's token counts.
#[tokio::test]
async fn wa10_one_tool_loop_serves_every_dialect_streamed_and_not() {
    let mut answers = Vec::new();
    for (route, dialect, (input, output)) in DIALECTS {
        let stage = Stage::new("", &only(route));
        for streamed in [false, true] {
            let talk = ask(&stage.client, "What is the weather in Paris?", streamed)
                .await
                .unwrap_or_else(|error| panic!("{dialect}: {error}"));
            let calls: Vec<_> = talk
                .calls
                .iter()
                .map(|call| (call.name.clone(), call.arguments.clone()))
                .collect();
            assert_eq!(talk.shown, talk.answer.text, "{dialect}");
            assert_eq!(talk.answer.stop, Stop::End, "{dialect}");
            assert_eq!(
                talk.tokens.last(),
                Some(&(Some(input), Some(output))),
                "{dialect} streamed: {streamed}"
            );
            assert!(talk.answer.warnings.is_empty());
            answers.push((calls, talk.answer.text));
        }
        assert_eq!(stage.server.calls(dialect), 4);
    }
    assert_eq!(answers.len(), 10);
    let (calls, text) = &answers[0];
    assert_eq!(text, "It is 18 C and cloudy in Paris.");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].0, "get_weather");
    assert_eq!(
        serde_json::Value::Object(calls[0].1.clone()).to_string(),
        r#"{"city":"Paris"}"#
    );
    assert!(answers.iter().all(|other| *other == answers[0]));
}

/// The application's source may not know any provider: neither a name nor a field that only one has.
#[test]
fn application_code_names_no_vendors_field() {
    let source = include_str!("application.rs").to_lowercase();
    let words = [
        "openai",
        "anthropic",
        "claude",
        "gpt",
        "gemini",
        "google",
        "ollama",
        "choices",
        "delta",
        "tool_use",
        "tool_result",
        "functioncall",
        "function_call",
        "functionresponse",
        "input_schema",
        "max_tokens",
        "max_completion",
        "maxoutputtokens",
        "finish_reason",
        "finishreason",
        "stop_reason",
        "candidates",
        "usagemetadata",
        "prompt_tokens",
        "completion_tokens",
        "tool_call_id",
        "tool_use_id",
        "contents",
        "systeminstruction",
        "[done]",
    ];
    for word in words {
        assert!(!source.contains(word), "the application says `{word}`");
    }
    // The scan finds something where there is something to find.
    let adapter = include_str!("../../../src/wire/chat.rs").to_lowercase();
    assert!(words.iter().filter(|word| adapter.contains(**word)).count() >= 5);
}

/// Asks for tools for ever.
struct Insatiable;

impl Model for Insatiable {
    fn answer(&self, _: &Asked<'_>) -> Response {
        Response {
            tool_calls: vec![ToolCall::new("c", "get_weather", r#"{"city":"Paris"}"#)],
            stop: Stop::ToolCalls,
            ..Response::default()
        }
    }
}

#[tokio::test]
async fn wa11_a_tool_loop_that_does_not_end_is_an_error_after_four_rounds() {
    let stage = Stage::saying(Insatiable, "", &only("oa"));
    let error = ask(&stage.client, "What is the weather in Paris?", false)
        .await
        .unwrap_err();
    assert!(error.contains("did not stop"), "{error}");
    assert_eq!(stage.server.calls("openai"), 4);
}

/// Calls a tool whose name is near to one that was offered, beside one that was.
struct Inventive;

impl Model for Inventive {
    fn answer(&self, _: &Asked<'_>) -> Response {
        Response {
            tool_calls: vec![
                ToolCall::new("a", "get_weathers", "{}"),
                ToolCall::new("b", "get_weather", r#"{"city":"Paris"}"#),
            ],
            stop: Stop::ToolCalls,
            ..Response::default()
        }
    }
}

/// R33: a name that was not offered is reported and left as it is; its sibling survives.
#[tokio::test]
async fn r33_a_tool_that_was_not_offered_is_never_taken_for_another() {
    for (route, ..) in DIALECTS {
        let stage = Stage::saying(Inventive, "", &only(route));
        let mut request = super::hello();
        request.tools.push(routelab::wire::ToolSpec {
            name: "get_weather".into(),
            description: "Weather".into(),
            parameters: serde_json::json!({ "type": "object" }),
        });
        let context = routelab::live::CallContext::default();
        let completion = stage.client.complete(&request, &context).await.unwrap();
        let mut stream = stage.client.stream(&request, &context);
        let (events, end) = super::drain(&mut stream).await;
        end.unwrap();
        let streamed = routelab::wire::collect(events).unwrap();
        for answer in [&completion.response, &streamed] {
            let names: Vec<&str> = answer.tool_calls.iter().map(|c| c.name.as_str()).collect();
            assert_eq!(names, ["get_weathers", "get_weather"], "{route}");
            assert_eq!(answer.tool_calls[1].arguments["city"], "Paris");
            assert_eq!(answer.warnings, [routelab::wire::Warning::UnofferedTool]);
        }
        assert_eq!(completion.trail[0].warnings, ["unoffered_tool"]);
    }
}

/// A policy that learns from examples has none in a live call, and says so before anything is sent.
#[test]
fn policies_that_need_examples_are_refused_when_the_client_is_built() {
    let server = routelab::standin::loopback::Server::start(ServerSpec::default()).unwrap();
    let catalogue = super::catalogue(&super::routes(&server, ""));
    for text in [
        "[task-means]\n",
        "[length]\nweak = \"oa\"\nstrong = \"an\"\n",
        "[eval-driven]\ntarget = 0.9\nexamples = 10\notherwise = \"oa\"\n",
    ] {
        let policy = policy(text, &catalogue);
        let options = routelab::live::Options {
            keys: Arc::new(|_| Some(super::KEY.to_owned())),
            ..Default::default()
        };
        let errors = routelab::live::Client::new(catalogue.clone(), &policy, options).unwrap_err();
        assert!(
            errors[0].to_string().contains("labelled examples"),
            "{text}"
        );
    }
    let _ = application::ask;
}
