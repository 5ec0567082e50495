//! A workload as the model behind a server.

use sha2::{Digest as _, Sha256};

use super::{Asked, Model};
use crate::standin::scripted;
use crate::standin::world::{
    JUDGED_HEADER, REPLICATE_HEADER, REQUEST_HEADER, ROUTE_HEADER, VERIFIER_HEADER, World,
};
use crate::wire::{Headers, Incoming, Message, Response};

/// Requests are named by [`REQUEST_HEADER`]. Without it the last words of the user pick one, always the
/// same for the same words. Requests, models and routes that the workload does not know get the answer of [`scripted`].
impl Model for World {
    fn answer(&self, asked: &Asked<'_>) -> Response {
        let header = |name| asked.headers.get(name);
        let number = number(self, asked.headers, asked.number, asked.incoming);
        let name = header(ROUTE_HEADER).unwrap_or(&asked.incoming.model);
        let replicate = header(REPLICATE_HEADER).and_then(|text| text.parse().ok());
        let verifier = header(VERIFIER_HEADER).and_then(|text| text.parse().ok());
        World::answer(
            self,
            name,
            number,
            replicate.unwrap_or(self.key.replicate),
            verifier,
            header(JUDGED_HEADER),
        )
        .unwrap_or_else(|| scripted::answer(asked.adapter, asked.incoming, asked.body))
    }
}

/// Which request of the workload this is; `counted` is its number if it has the header.
pub(super) fn number(world: &World, headers: &Headers, counted: u64, asked: &Incoming) -> u64 {
    match headers.get(REQUEST_HEADER) {
        Some(_) => counted,
        None => number_of_words(&asked.request.messages) % world.workload.len().max(1),
    }
}

fn number_of_words(messages: &[Message]) -> u64 {
    let words = messages.iter().rev().find_map(|message| match message {
        Message::User { text } => Some(text.as_str()),
        _ => None,
    });
    let digest = Sha256::digest(words.unwrap_or_default());
    digest
        .iter()
        .take(8)
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}
