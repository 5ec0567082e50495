//! The one place where a verifier looks at a live answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::client::Shared;
use super::flight::within;
use super::need;
use super::walk::{Question, Walk};
use crate::router::{Need, Plan, Verdict, VerifierId};
use crate::traffic::{Attempt, Origin};
use crate::units::{Instant, Tokens, mix64};
use crate::verify::{Judge, Verifier};
use crate::wire::{Message, Request, Response};

/// A verdict on its way, with the attempts it took to get it.
pub(super) type Verdicts = Pin<Box<dyn Future<Output = (Verdict, Vec<Attempt>)> + Send>>;

/// Shows an answer to a verifier. A judge is one more call, with the residency of the request it
/// judges, its own attempts and nobody to judge *it*. Whoever has not spoken by `deadline` was not
/// available.
pub(super) fn verdict(
    shared: Arc<Shared>,
    question: Arc<Question>,
    verifier: VerifierId,
    response: &Response,
    deadline: Instant,
) -> Verdicts {
    let answer = words(response);
    let Some(verifier) = shared.verifiers.get(usize::from(verifier.0)).cloned() else {
        return Box::pin(std::future::ready((Verdict::Unavailable, Vec::new())));
    };
    if let Verifier::Judge(judge) = verifier {
        return Box::pin(ask(shared, question, judge, answer, deadline));
    }
    Box::pin(async move {
        // A check may run a program or a pattern over a long text: not on the thread that reads sockets.
        let check = tokio::task::spawn_blocking(move || verifier.verdict(&answer));
        let spoken = within(&*shared.clock, deadline, check).await;
        let verdict = match spoken {
            Some(Ok(Some(verdict))) => verdict,
            // Out of time, panicked, or a verifier that reads no answers.
            _ => Verdict::Unavailable,
        };
        (verdict, Vec::new())
    })
}

async fn ask(
    shared: Arc<Shared>,
    question: Arc<Question>,
    judge: Judge,
    answer: String,
    deadline: Instant,
) -> (Verdict, Vec<Attempt>) {
    let request = Request {
        messages: vec![Message::user(
            judge.prompt(&need::transcript(&question.request), &answer),
        )],
        output_cap: judge.output_tokens.max(1),
        ..Request::default()
    };
    let need = Need {
        input_tokens: Tokens::new(need::input_tokens_estimate(&request)),
        output_cap: Tokens::new(request.output_cap),
        tools: false,
        deadline: Some(deadline),
        ..question.need
    };
    let about = Arc::new(Question {
        request,
        need,
        origin: Origin::Judge,
        ..(*question).clone()
    });
    let jitter = mix64(question.jitter ^ JUDGE);
    let mut walk = Walk::new(
        shared,
        about,
        Plan::single(judge.route),
        None,
        false,
        jitter,
    );
    let verdict = match walk.run().await {
        Ok(response) => judge.read(&response.text),
        Err(_) => Verdict::Unavailable,
    };
    (verdict, walk.take_trail())
}

/// Keeps a judge's jitter apart from that of the call it judges.
const JUDGE: u64 = 0x6a75_6467_652e_3031;

/// What a verifier reads: the text, or, of an answer that only calls tools, the calls as JSON.
fn words(response: &Response) -> String {
    if !response.text.is_empty() || response.tool_calls.is_empty() {
        return response.text.clone();
    }
    let calls: Vec<serde_json::Value> = response
        .tool_calls
        .iter()
        .map(|call| serde_json::json!({ "name": call.name, "arguments": call.arguments }))
        .collect();
    serde_json::Value::Array(calls).to_string()
}
