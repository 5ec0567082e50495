//! A workload behind a server: the answer to a request is worked out anew from its number.

use super::{Asked, Model};
use crate::standin::world::{
    JUDGED_HEADER, REPLICATE_HEADER, REQUEST_HEADER, ROUTE_HEADER, VERIFIER_HEADER, World,
};
use crate::units::name_key;
use crate::wire::{Message, Response, Stop};

impl Model for World {
    /// Without the header that names a request, the question's text chooses one: the same question
    /// always gets the same answer.
    fn answer(&self, asked: &Asked<'_>) -> Response {
        let header = |name: &str| asked.headers.get(name);
        let number = match header(REQUEST_HEADER) {
            Some(_) => asked.number,
            None => {
                let question = asked.incoming.request.messages.iter().rev();
                let text = question.into_iter().find_map(|message| match message {
                    Message::User { text } => Some(text.as_str()),
                    Message::Assistant { .. } | Message::Tool { .. } => None,
                });
                name_key(text.unwrap_or_default()) % self.workload.len().max(1)
            }
        };
        let route = header(ROUTE_HEADER).unwrap_or(&asked.incoming.model);
        let replicate = header(REPLICATE_HEADER).and_then(|text| text.parse().ok());
        let verifier = header(VERIFIER_HEADER).and_then(|text| text.parse().ok());
        let said = World::answer(
            self,
            route,
            number,
            replicate.unwrap_or(self.key.replicate),
            verifier,
            header(JUDGED_HEADER),
        );
        said.unwrap_or_else(|| Response {
            text: format!("The workload knows no route or model `{route}`."),
            stop: Stop::End,
            ..Response::default()
        })
    }
}
