//! What a stand-in says when a workload decides: the answer as a provider would write it.

use std::collections::BTreeMap;

use super::outcome::JudgeCall;
use crate::units::{Score, Tokens};
use crate::verify::Verifier;
use crate::wire::{Response, Stop, Usage};
use crate::workload::{Batch, DrawKey, Workload};

/// The header that names a request of the workload; without it a question's text decides.
pub const REQUEST_HEADER: &str = "x-routelab-request";
/// The header with the number of the attempt, from 1.
pub const ATTEMPT_HEADER: &str = "x-routelab-attempt";
/// The header that names the route, where several have one model.
pub const ROUTE_HEADER: &str = "x-routelab-route";
/// The header that names the verifier who will look at the answer, by its place in [`World::verifiers`].
pub const VERIFIER_HEADER: &str = "x-routelab-verifier";
/// The header that names the route whose answer is to be judged.
pub const JUDGED_HEADER: &str = "x-routelab-judged";
/// The header with the replicate.
pub const REPLICATE_HEADER: &str = "x-routelab-replicate";

/// What is asked of a stand-in.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Where the route stands in the workload.
    pub column: u16,
    /// Who will look at the answer.
    pub verifier: Option<&'a Verifier>,
    /// It is asked to judge the answer of the route that stands there.
    pub judged: Option<u16>,
}

/// The answer to request `i` of the batch. Its text passes or fails the verifier as the workload says,
/// its token counts are the workload's, and unknown ones are not sent.
#[must_use]
pub fn respond(batch: &Batch, i: usize, question: Question<'_>) -> Response {
    let accepts = |column: u16, verifier: &Verifier| {
        let column = usize::from(column);
        let (grade, lane) = (batch.grade[column][i], batch.verifier_lane[column][i]);
        verifier.rates()?.accepts(grade, lane)
    };
    let judge = question.verifier.and_then(Verifier::judge);
    let (text, usage) = match (question.judged, judge, question.verifier) {
        (Some(judged), Some(judge), Some(verifier)) => {
            let text = match accepts(judged, verifier) {
                Some(accepts) => judge.answer(accepts).to_owned(),
                None => "I cannot tell.".to_owned(),
            };
            let call = JudgeCall::new(judge, None, batch, judged, i);
            (text, (call.input_tokens, Tokens::new(judge.output_tokens)))
        }
        _ => {
            let column = usize::from(question.column);
            let specimen = question
                .verifier
                .and_then(|verifier| verifier.specimen(accepts(question.column, verifier)?));
            let text = match specimen {
                Some(text) => text.to_owned(),
                None => match batch.grade[column][i] {
                    Score::RIGHT => "This is a right answer.".to_owned(),
                    Score::WRONG => "This is a wrong answer.".to_owned(),
                    Score::MISSING => "This is an answer without a grade.".to_owned(),
                    _ => "This is a partly right answer.".to_owned(),
                },
            };
            let input = batch.input_tokens[i];
            (text, (input, batch.output(column, i)))
        }
    };
    Response {
        text,
        stop: Stop::End,
        usage: Usage {
            input: usage.0,
            output: usage.1,
            ..Usage::UNKNOWN
        },
        ..Response::default()
    }
}

/// A workload that answers requests one by one, as a server gets them.
#[derive(Clone, Debug)]
pub struct World {
    /// The workload.
    pub workload: Workload,
    /// Which of its draws.
    pub key: DrawKey,
    /// Where a route stands in the workload, by its name and by its model's.
    pub columns: BTreeMap<String, u16>,
    /// Who may look at answers.
    pub verifiers: Vec<Verifier>,
}

impl World {
    /// The answer of the route or model of this name to request `number`. `None` if the workload knows no
    /// such route, or has no such request.
    #[must_use]
    pub fn answer(
        &self,
        name: &str,
        number: u64,
        replicate: u32,
        verifier: Option<usize>,
        judged: Option<&str>,
    ) -> Option<Response> {
        let mut batch = Batch::default();
        let key = DrawKey {
            replicate,
            ..self.key
        };
        self.workload.fill(key, number, 1, &mut batch);
        if batch.len == 0 {
            return None;
        }
        let judged = judged.and_then(|name| self.columns.get(name)).copied();
        // A judge need not be a route of the workload: what it says follows from the judged answer.
        let column = self.columns.get(name).copied();
        let question = Question {
            column: column.or(judged)?,
            verifier: verifier.and_then(|index| self.verifiers.get(index)),
            judged,
        };
        Some(respond(&batch, 0, question))
    }
}
