//! Attempts as records: from what a call knows to what hooks are told.

use super::client::Shared;
use super::flight::Flight;
use super::need::transcript;
use super::walk::Question;
use crate::router::{RouteId, Skip};
use crate::traffic::{Attempt, Content, Metered, Outcome, Rejected, Schema, TokenCounts};
use crate::units::Instant;
use crate::wire::{Error, Finish, Place, Usage};

/// Most characters kept of what a server says about itself: ids, codes, models.
const WORD_CHARS_MAX: usize = 128;
/// What a key is recognised by, at least.
const KEY_CHARS_MIN: usize = 8;

/// What is known before anything happens.
fn blank(shared: &Shared, question: &Question, route: RouteId, rejected: &[Rejected]) -> Attempt {
    let index = usize::from(route.0);
    let named = shared.catalogue.routes.get(index);
    let endpoint = shared.endpoints.get(index).and_then(Option::as_ref);
    let provider = named.and_then(|route| shared.catalogue.providers.get(route.provider));
    Attempt {
        schema: Schema,
        trace_id: question.trace_id.clone(),
        origin: question.origin,
        policy: shared.policy_name.clone(),
        policy_digest: shared.policy_digest.clone(),
        routes_digest: shared.routes_digest.clone(),
        propensity: None,
        rejected: rejected.to_vec(),
        residency: question.residency.clone(),
        local_only: question.need.local_only,
        route: named.map(|route| route.name.clone()).unwrap_or_default(),
        region: named.and_then(|route| route.region.clone()),
        host: endpoint.map(|endpoint| endpoint.host.clone()),
        provider: provider.map(|one| one.name.clone()).unwrap_or_default(),
        dialect: provider.map_or("", |one| one.kind.name()).to_owned(),
        model: named.map(|route| route.model.clone()).unwrap_or_default(),
        model_reported: None,
        attempt: 0,
        outcome: Outcome::Skipped,
        kind: None,
        reason: None,
        code: None,
        status: None,
        request_id: None,
        stop: None,
        verdict: None,
        warnings: Vec::new(),
        tokens: TokenCounts::default(),
        cost: None,
        billed: Some(false),
        metered: Metered::Nothing,
        latency: None,
        ttft: None,
        waited: None,
        content: None,
    }
}

/// A route was passed over.
pub(super) fn skipped(
    shared: &Shared,
    question: &Question,
    route: RouteId,
    why: Skip,
    rejected: &[Rejected],
) -> Attempt {
    Attempt {
        reason: Some(why.name().to_owned()),
        ..blank(shared, question, route, rejected)
    }
}

/// How an attempt ended.
pub(super) enum Ending<'a> {
    /// With an answer.
    Answer,
    /// With a failure; `shown` if the caller saw part of an answer.
    Failure { error: &'a Error, shown: bool },
    /// The caller went away.
    Cancelled,
}

/// An attempt has ended at `now`, in its own time.
pub(super) fn ended(
    shared: &Shared,
    question: &Question,
    flight: &Flight,
    ending: Ending<'_>,
    rejected: &[Rejected],
    now: Instant,
) -> Attempt {
    let index = usize::from(flight.route.0);
    let mut record = blank(shared, question, flight.route, rejected);
    let key = shared
        .endpoints
        .get(index)
        .and_then(Option::as_ref)
        .and_then(|endpoint| endpoint.key.as_deref());
    let clean = |text: &str| scrub(text, key);
    record.attempt = flight.attempt;
    record.status = flight.status;
    record.latency = Some(now.since(flight.started));
    record.ttft = flight.first.map(|first| first.since(flight.started));
    record.waited = Some(flight.waited);
    if let Some(finish) = &flight.finish {
        note_finish(&mut record, finish, &clean);
    }
    let price = shared
        .catalogue
        .routes
        .get(index)
        .and_then(|route| route.price);
    record.cost = price.and_then(|price| record.tokens.cost(&price));
    let is_counted = record.tokens.input.is_some() || record.tokens.output.is_some();
    record.billed = is_counted.then_some(true);
    match &ending {
        Ending::Answer => {
            record.outcome = Outcome::Ok;
            record.metered = Metered::Answered;
        }
        Ending::Cancelled => {
            record.outcome = Outcome::Cancelled;
            record.metered = Metered::Abandoned;
        }
        Ending::Failure { error, shown } => {
            record.kind = Some(error.kind.name().to_owned());
            record.reason = Some(error.place.name().to_owned());
            record.code = error.code.as_deref().map(clean);
            record.status = record.status.or(error.status);
            if record.request_id.is_none() {
                record.request_id = error.request_id.as_deref().map(clean);
            }
            (record.outcome, record.metered) = if *shown {
                (Outcome::ErrorMidStream, Metered::MidStream)
            } else {
                (Outcome::Error, Metered::Failed)
            };
            // Who refuses a request bills nothing for it. Of one that broke nobody can tell.
            let is_refused = matches!(error.place, Place::Status | Place::InBody | Place::InStream);
            if (is_refused || flight.never_left) && !is_counted && !shown {
                record.billed = Some(false);
            }
        }
    }
    if shared.content {
        record.content = Some(Content {
            request: transcript(&question.request),
            answer: flight.collector.text().to_owned(),
            message: match &ending {
                Ending::Failure { error, .. } => Some(clean(&error.message)),
                Ending::Answer | Ending::Cancelled => None,
            },
        });
    }
    record
}

fn note_finish(record: &mut Attempt, finish: &Finish, clean: &dyn Fn(&str) -> String) {
    record.tokens = counts(&finish.usage);
    record.stop = Some(finish.stop.name().to_owned());
    record.request_id = finish.request_id.as_deref().map(clean);
    record.model_reported = finish.model.as_deref().map(clean);
    record.warnings = finish
        .warnings
        .iter()
        .map(|warning| warning.name().to_owned())
        .collect();
}

fn counts(usage: &Usage) -> TokenCounts {
    TokenCounts {
        input: usage.input.get(),
        output: usage.output.get(),
        cached: usage.cached.get(),
        cache_write: usage.cache_write.get(),
        reasoning: usage.reasoning.get(),
    }
}

/// A server's words, short, without control characters, and without the key: some servers quote it, or
/// its beginning, when they refuse it.
pub(super) fn scrub(text: &str, key: Option<&str>) -> String {
    let mut clean: String = text
        .chars()
        .take(WORD_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let Some(key) = key else {
        return clean;
    };
    // Any run of the key gives it away, its end as well as its beginning. Keys are ASCII, so no cut goes
    // through a character; a key that is not could not be sent.
    let run = key.len().min(KEY_CHARS_MIN);
    for start in 0..=key.len() - run {
        let (Some(part), Some(rest)) = (key.get(start..start + run), key.get(start..)) else {
            continue;
        };
        while let Some(at) = clean.find(part).filter(|_| !part.is_empty()) {
            let same = clean[at..]
                .bytes()
                .zip(rest.bytes())
                .take_while(|(a, b)| a == b)
                .count();
            clean.replace_range(at..at + same, "\u{2026}");
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_server_quotes_is_taken_out_also_where_it_is_cut() {
        let key = Some("sk-0123456789abcdef");
        for (said, kept) in [
            ("bad key sk-0123456789abcdef.", "bad key \u{2026}."),
            ("bad key sk-0123456789", "bad key \u{2026}"),
            ("sk-01234 and sk-0123456789abcdef", "\u{2026} and \u{2026}"),
            ("it ends in 89abcdef", "it ends in \u{2026}"),
            (
                "in the middle 23456789ab it says",
                "in the middle \u{2026} it says",
            ),
            ("nothing here", "nothing here"),
        ] {
            assert_eq!(scrub(said, key), kept);
        }
        assert_eq!(scrub("a\nb\u{1b}[31m", None), "a b [31m");
        assert_eq!(scrub(&"x".repeat(1_000), None).len(), WORD_CHARS_MAX);
        assert_eq!(scrub("the key is k", Some("k")).matches('k').count(), 0);
    }
}
