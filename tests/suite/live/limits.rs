//! Time limits on real sockets, with limits of some tens of milliseconds; and servers that are not there.

use std::sync::Arc;

use routelab::live::{CallContext, CallError, Client, Options, RealClock};
use routelab::router::{FailureReason, FaultKind};
use routelab::standin::faults::Act;
use routelab::standin::loopback::ServerSpec;
use routelab::wire::{Place, StreamEvent};

use super::{CHAIN, Stage, drain, eventually, hello};

/// Real time, one attempt.
fn timed(router: &str, policy: &str) -> Stage {
    let router = format!("attempts_max = 1\n{router}");
    Stage::of(ServerSpec::default(), &router, policy, |options| {
        options.clock = Arc::new(RealClock::new());
    })
}

/// R17: keep-alives are no tokens, and the next route answers.
#[tokio::test]
async fn r17_keep_alives_do_not_put_off_the_first_token() {
    let stage = timed("ttft_max_s = 0.08", CHAIN);
    stage.queue("openai", 1, &Act::KeepAlivesOnly);
    let (events, end) = drain(&mut stage.stream()).await;
    end.unwrap();
    assert!(events.iter().any(StreamEvent::is_content));
    let attempts = stage.diary.attempts.lock().unwrap().clone();
    assert_eq!(super::trace(&attempts), "oa#1:timeout an#1:ok");
    assert_eq!(attempts[0].reason.as_deref(), Some("time_limit"));
    assert_eq!(attempts[0].ttft, None);
    // The connection of the silent one is closed.
    eventually("the silent answer's end", || stage.server.in_flight() == 0).await;
    assert_eq!(stage.client.in_flight("oa"), Some(0));
}

/// R19: a server that falls silent after the first token is given up at the gap.
#[tokio::test]
async fn r19_silence_after_the_first_token_ends_at_the_gap() {
    let stage = timed("gap_max_s = 0.08", CHAIN);
    stage.queue("openai", 1, &Act::Stall { after: 1 });
    let (events, end) = drain(&mut stage.stream()).await;
    assert_eq!(events, [StreamEvent::Text("You ".into())]);
    let Err(CallError::MidStream { error, partial, .. }) = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        (error.kind, error.place),
        (FaultKind::Timeout, Place::Limit)
    );
    assert_eq!(partial, "You ");
    assert_eq!(stage.client.in_flight("oa"), Some(0));
    eventually("the end of the answer", || stage.server.in_flight() == 0).await;
}

/// An answer sent at once knows only the limit of the attempt; the call's deadline cuts it short.
#[tokio::test]
async fn the_limit_of_the_attempt_and_the_deadline_hold_for_whole_answers() {
    for router in ["attempt_max_s = 0.08", "deadline_s = 0.08"] {
        let stage = timed(router, "[fixed]\nroute = \"oa\"\n");
        stage.queue("openai", 1, &Act::Stall { after: 0 });
        let error = stage.complete().await.unwrap_err();
        let CallError::Unserved { failure, last, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(last.unwrap().kind, FaultKind::Timeout);
        assert!(
            matches!(
                failure.reason,
                FailureReason::Exhausted(FaultKind::Timeout) | FailureReason::Deadline
            ),
            "{router}: {:?}",
            failure.reason
        );
    }
}

/// A caller that takes its time is no reason to call the server slow.
#[tokio::test]
async fn time_in_which_nobody_asks_counts_against_no_limit() {
    let stage = timed("gap_max_s = 0.1\nttft_max_s = 5", CHAIN);
    let mut stream = stage.stream();
    assert!(stream.next().await.unwrap().is_ok());
    tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    let (_, end) = drain(&mut stream).await;
    end.unwrap();
    let latency = stage.diary.attempts.lock().unwrap()[0].latency.unwrap();
    assert!(latency.as_secs_f64() < 0.25, "{latency}");
}

/// ER-06: nobody at the address is a timeout like any other failure of the network.
#[tokio::test]
async fn er06_a_server_that_is_not_there_is_a_timeout_and_the_next_is_asked() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let stage = Stage::of(
        ServerSpec::default(),
        "attempts_max = 1",
        CHAIN,
        |options| options.base_urls = vec![("oa-host".into(), nowhere)],
    );
    for streamed in [false, true] {
        stage.answer(streamed).await.unwrap();
        let attempts = stage.diary.attempts.lock().unwrap().clone();
        assert_eq!(stage.diary.trace(), "oa#1:timeout an#1:ok");
        assert_eq!(attempts[0].reason.as_deref(), Some("transport"));
        // Nothing reached anybody who could bill it.
        assert_eq!(attempts[0].billed, Some(false));
    }
}

/// ER-06: bodies that are no objects, or are missing, are failures and nothing worse.
#[tokio::test]
async fn er06_odd_bodies_do_no_harm() {
    for (status, body) in [
        (500, ""),
        (503, "null"),
        (429, "[1,2]"),
        (400, "<html>"),
        (200, ""),
        (200, "null"),
        (200, "[]"),
        (302, ""),
        (204, ""),
    ] {
        let act = Act::Status {
            status,
            headers: routelab::wire::Headers::from_iter([("location", "http://127.0.0.1:1/")]),
            body: body.into(),
        };
        for streamed in [false, true] {
            let stage = Stage::new("attempts_max = 1", "[fixed]\nroute = \"oa\"\n");
            stage.queue("openai", 1, &act);
            let answer = stage.answer(streamed).await;
            assert!(answer.is_err(), "{status} {body:?} {answer:?}");
            // A redirect is not followed.
            assert_eq!(stage.server.calls("openai"), 1);
            let attempts = stage.diary.attempts.lock().unwrap();
            assert_eq!(attempts[0].status, Some(status));
        }
    }
}

/// All that is missing is said at once, by the names of variables and providers.
#[test]
fn everything_that_is_missing_is_named_at_once() {
    let text = "[provider.a]\nkind = \"openai\"\napi_key_env = \"FIRST_KEY\"\n\
        [provider.b]\nkind = \"anthropic\"\napi_key_env = \"SECOND_KEY\"\n\
        [provider.c]\nkind = \"compatible\"\n\
        [provider.unused]\nkind = \"openai\"\napi_key_env = \"THIRD_KEY\"\n";
    let route = |name: &str| {
        format!(
            "[route.{name}]\nprovider = \"{name}\"\nmodel = \"m\"\nresidency = [\"eu\"]\nusd_per_mtok = {{ input = 1, output = 1 }}\n"
        )
    };
    let all: String = ["a", "b", "c", "unused"].map(route).concat();
    let text = format!("{text}{all}[require]\ndefault = {{ residency = [\"eu\"] }}\n");
    let catalogue = super::catalogue(&text);
    let policy = super::policy(
        "[static]\ndefault = \"a\"\nfallback = [\"b\", \"c\"]\n",
        &catalogue,
    );
    let options = Options {
        keys: Arc::new(|name| (name == "SECOND_KEY").then(|| "two words".to_owned())),
        base_urls: vec![("nobody".into(), "http://h".into())],
        ..Options::default()
    };
    let errors = Client::new(catalogue, &policy, options).unwrap_err();
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    for (at, word) in [
        (0, "nobody"),
        (1, "FIRST_KEY"),
        (2, "SECOND_KEY"),
        (3, "`c`"),
    ] {
        assert!(said[at].contains(word), "{said:?}");
    }
    assert!(!said.concat().contains("two words"));
    assert!(
        !said.concat().contains("THIRD_KEY"),
        "its route is not used"
    );
}

/// A data class without a rule goes nowhere.
#[tokio::test]
async fn an_unknown_data_class_is_refused() {
    let stage = Stage::new("", CHAIN);
    let context = CallContext {
        data_class: Some("secret".into()),
        ..CallContext::default()
    };
    let error = stage.client.complete(&hello(), &context).await.unwrap_err();
    assert!(matches!(error, CallError::UnknownDataClass { .. }));
    let (_, end) = drain(&mut stage.client.stream(&hello(), &context)).await;
    assert!(matches!(end, Err(CallError::UnknownDataClass { .. })));
    assert_eq!(stage.calls(), [0, 0, 0]);
}
