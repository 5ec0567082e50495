//! Streams: what may be followed by another attempt and what may not, and what a caller that goes away
//! leaves behind.

use std::sync::Arc;

use routelab::live::CallError;
use routelab::router::{BreakerState, FailureReason, FaultKind};
use routelab::standin::faults::{Act, Cut};
use routelab::standin::loopback::ServerSpec;
use routelab::traffic::{Metered, Outcome};
use routelab::units::Duration;
use routelab::wire::{Place, Response, Stop, StreamEvent};

use super::{CHAIN, Says, Stage, drain, eventually, fails};

const LESSON: &str = "preset = \"lesson\"";

fn said(text: &str, stop: Stop) -> Response {
    Response {
        text: text.into(),
        stop,
        ..Response::default()
    }
}

fn text(events: &[StreamEvent]) -> String {
    let words = events.iter().filter_map(|event| match event {
        StreamEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    words.collect()
}

/// ST-06, ST-08, ST-09, ST-15: an error frame after output surfaces; nothing is asked again and nothing is
/// glued to what was shown.
#[tokio::test]
async fn st08_an_error_after_output_surfaces_and_is_never_replayed() {
    for kind in [FaultKind::Overloaded, FaultKind::RateLimit] {
        let stage = Stage::new(LESSON, CHAIN);
        stage.queue("openai", 1, &Act::ErrorFrame { kind, after: 1 });
        let (events, end) = drain(&mut stage.stream()).await;
        let Err(CallError::MidStream {
            error,
            partial,
            trail,
        }) = end
        else {
            panic!("a failure after output: {end:?}");
        };
        assert_eq!(text(&events), "You ");
        assert_eq!(partial, "You ");
        assert!(
            !events
                .iter()
                .any(|event| matches!(event, StreamEvent::Done(_)))
        );
        assert_eq!((error.kind, error.after_output), (kind, true));
        assert_eq!(trail.len(), 1);
        assert_eq!(trail[0].outcome, Outcome::ErrorMidStream);
        assert_eq!(trail[0].metered, Metered::MidStream);
        assert_eq!(stage.calls(), [1, 0, 0]);
        assert_eq!(stage.clock.waits(), []);
        assert_eq!(stage.client.in_flight("oa"), Some(0));
    }
}

/// ST-05: an error frame before any output is a failure like any other.
#[tokio::test]
async fn st05_an_error_frame_before_output_falls_back() {
    let stage = Stage::new(LESSON, CHAIN);
    let frame = Act::ErrorFrame {
        kind: FaultKind::Overloaded,
        after: 0,
    };
    stage.queue("openai", 2, &frame);
    let (events, end) = drain(&mut stage.stream()).await;
    end.unwrap();
    assert_eq!(text(&events), "You asked: hello there");
    assert_eq!(
        stage.diary.trace(),
        "oa#1:overloaded oa#2:overloaded an#1:ok"
    );
    // A stream without anything in it is the server's failure, not an empty answer.
    let nothing = Act::Cut {
        after: 0,
        how: Cut::Clean,
    };
    stage.queue("openai", 1, &nothing);
    let (events, end) = drain(&mut stage.stream()).await;
    end.unwrap();
    assert_eq!(text(&events), "You asked: hello there");
    assert_eq!(stage.diary.trace(), "oa#1:server oa#2:ok");
}

/// R03, TR-04: a stream that is cut off is an error, whatever dialect it is in and however it ends.
#[tokio::test]
async fn r03_a_cut_stream_is_an_error_and_counts_against_the_route() {
    for (route, dialect) in [
        ("oa", "openai"),
        ("an", "anthropic"),
        ("ge", "gemini"),
        ("co", "compatible"),
        ("ol", "ollama"),
    ] {
        for (how, kind, place) in [
            (Cut::Clean, FaultKind::Server, Place::TruncatedStream),
            (Cut::Reset, FaultKind::Timeout, Place::Transport),
        ] {
            let stage = Stage::new(LESSON, &format!("[fixed]\nroute = \"{route}\"\n"));
            stage.queue(dialect, 1, &Act::Cut { after: 2, how });
            let (events, end) = drain(&mut stage.stream()).await;
            assert_eq!(text(&events).trim_end(), "You asked:", "{dialect}");
            let Err(CallError::MidStream { error, .. }) = end else {
                panic!("{dialect}: {end:?}");
            };
            assert_eq!((error.kind, error.place), (kind, place), "{dialect}");
            assert!(
                events.iter().all(StreamEvent::is_content),
                "no end: {dialect}"
            );
            assert_eq!(
                stage.client.breaker(route),
                Some(BreakerState::Closed { failures: 1 }),
                "{dialect}"
            );
        }
    }
}

/// TR-01: success is what ended well, not what began well.
#[tokio::test]
async fn tr01_three_deaths_after_output_open_the_breaker() {
    let stage = Stage::new(LESSON, CHAIN);
    let dies = Act::Cut {
        after: 1,
        how: Cut::Reset,
    };
    stage.queue("openai", 3, &dies);
    for _ in 0..3 {
        let (_, end) = drain(&mut stage.stream()).await;
        assert!(matches!(end, Err(CallError::MidStream { .. })));
    }
    assert!(matches!(
        stage.client.breaker("oa"),
        Some(BreakerState::Open { .. })
    ));
    let mut stream = stage.stream();
    drain(&mut stream).await.1.unwrap();
    assert_eq!(stream.route(), Some("an"));
    assert_eq!(stage.calls(), [3, 1, 0]);
}

/// ER-07, TR-17, R31: a filtered answer is a failure of its own kind, in a stream and at once. Before
/// output the router decides, and by default no other route is tried.
#[tokio::test]
async fn er07_tr17_r31_a_filtered_answer_is_the_same_failure_streamed_and_not() {
    for streamed in [false, true] {
        let stage = Stage::saying(Says(said("", Stop::Filtered)), LESSON, CHAIN);
        let error = stage.answer(streamed).await.unwrap_err();
        let CallError::Unserved { failure, last, .. } = &error else {
            panic!("{error:?}");
        };
        let reason = FailureReason::Rejected(FaultKind::ContentFilter);
        assert_eq!(failure.reason, reason, "streamed: {streamed}");
        assert_eq!(last.as_ref().unwrap().kind, FaultKind::ContentFilter);
        assert_eq!(error.kind(), Some(FaultKind::ContentFilter));
        assert_eq!(
            stage.calls(),
            [1, 0, 0],
            "an outage fallback is no way round a refusal"
        );
        assert_eq!(
            stage.client.breaker("oa"),
            Some(BreakerState::Closed { failures: 0 })
        );
    }
    // Who configures it may go on, in both ways.
    let goes_on = "preset = \"lesson\"\nfault.content_filter = { fail_over = true }";
    for streamed in [false, true] {
        let stage = Stage::saying(Says(said("", Stop::Filtered)), goes_on, CHAIN);
        assert!(stage.answer(streamed).await.is_err());
        assert_eq!(stage.calls(), [1, 1, 1], "streamed: {streamed}");
    }
    // After output it surfaces, as everything does.
    let stage = Stage::saying(Says(said("Well, I", Stop::Filtered)), goes_on, CHAIN);
    let (events, end) = drain(&mut stage.stream()).await;
    assert_eq!(text(&events), "Well, I");
    let Err(CallError::MidStream { error, partial, .. }) = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        (error.kind, partial.as_str()),
        (FaultKind::ContentFilter, "Well, I")
    );
    assert_eq!(stage.calls(), [1, 0, 0]);
}

/// An answer that a verifier has to see is not shown before it has; the last route's comes as it comes.
#[tokio::test]
async fn a_verified_answer_is_held_back_until_the_verdict() {
    let cascade =
        "[cascade]\norder = [\"oa\", \"an\"]\nverifier.pattern = { matches = \"^Yes\" }\n";
    for streamed in [false, true] {
        let stage = Stage::new(LESSON, cascade);
        let answer = stage.answer(streamed).await.unwrap();
        assert_eq!(answer.text, "You asked: hello there");
        let attempts = stage.diary.attempts.lock().unwrap().clone();
        assert_eq!(super::trace(&attempts), "oa#1:ok an#1:ok");
        assert_eq!(attempts[0].verdict.as_deref(), Some("reject"));
        assert_eq!(attempts[1].verdict, None);
    }
    // If the last one fails before output, the answer that was kept is better than none.
    let stage = Stage::new(LESSON, cascade);
    stage.queue("anthropic", 2, &fails(FaultKind::Server));
    let (events, end) = drain(&mut stage.stream()).await;
    end.unwrap();
    assert_eq!(text(&events), "You asked: hello there");
    // An accepted answer asks nobody else.
    let accepts = cascade.replace("^Yes", "^You");
    let stage = Stage::new(LESSON, &accepts);
    let completion = stage.complete().await.unwrap();
    assert_eq!(completion.route, "oa");
    assert_eq!(completion.trail[0].verdict.as_deref(), Some("accept"));
    assert_eq!(stage.calls(), [1, 0, 0]);
}

/// A judge is one more call: it is paid for, and its attempts are told apart.
#[tokio::test]
async fn a_judge_is_asked_and_its_attempts_are_its_own() {
    let cascade = "[cascade]\norder = [\"oa\", \"an\"]\nverifier.judge = { route = \"ge\", question = \"Is it right?\" }\n";
    // The scripted model answers neither yes nor no, so there is no verdict.
    let stage = Stage::new(LESSON, cascade);
    let completion = stage.complete().await.unwrap();
    let trail: Vec<(&str, &str)> = completion
        .trail
        .iter()
        .map(|one| (one.origin.name(), one.route.as_str()))
        .collect();
    assert_eq!(trail, [("judge", "ge"), ("user", "oa"), ("user", "an")]);
    assert_eq!(completion.trail[1].verdict.as_deref(), Some("unavailable"));
    assert_eq!(completion.served.unavailable_verdicts, 1);
    let stage = Stage::saying(Says(said("Yes, it is.", Stop::End)), LESSON, cascade);
    let completion = stage.complete().await.unwrap();
    assert_eq!(completion.route, "oa");
    assert_eq!(stage.calls(), [1, 0, 1]);
}

/// R09, ST-16: dropping a stream in the middle closes its connection and gives its place back once.
#[tokio::test]
async fn r09_a_dropped_stream_is_cancelled_once() {
    let spec = ServerSpec {
        model: Arc::new(Says(said(&"word ".repeat(400_000), Stop::End))),
        ..ServerSpec::default()
    };
    let stage = Stage::of(spec, LESSON, CHAIN, |_| {});
    let mut streams: Vec<_> = (0..8).map(|_| stage.stream()).collect();
    for stream in &mut streams {
        assert!(matches!(
            stream.next().await,
            Some(Ok(StreamEvent::Text(_)))
        ));
    }
    assert_eq!(stage.client.in_flight("oa"), Some(8));
    // Nobody reads on, so the servers cannot go on writing: what is not asked for is not fetched.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(stage.server.in_flight(), 8);
    for (index, stream) in streams.into_iter().enumerate() {
        drop(stream);
        assert_eq!(stage.client.in_flight("oa"), Some(7 - index as u32));
    }
    eventually("the end of all answers", || stage.server.in_flight() == 0).await;
    let attempts = stage.diary.attempts.lock().unwrap().clone();
    assert_eq!(attempts.len(), 8);
    for attempt in &attempts {
        assert_eq!(attempt.outcome, Outcome::Cancelled);
        assert_eq!(attempt.metered, Metered::Abandoned);
        assert_eq!(
            (attempt.billed, attempt.cost, attempt.tokens.input),
            (None, None, None)
        );
    }
    // And nothing of it counts against the route.
    assert_eq!(
        stage.client.breaker("oa"),
        Some(BreakerState::Closed { failures: 0 })
    );
}

/// R05: a trial whose caller goes away gives its permit back.
#[tokio::test]
async fn r05_a_dropped_trial_frees_the_breaker() {
    let stage = Stage::new(LESSON, "[fixed]\nroute = \"oa\"\n");
    stage.queue("openai", 4, &fails(FaultKind::Server));
    for _ in 0..2 {
        assert!(stage.complete().await.is_err());
    }
    assert!(matches!(
        stage.client.breaker("oa"),
        Some(BreakerState::Open { .. })
    ));
    stage.clock.advance(Duration::from_secs(31));
    // The trial hangs, and its caller loses patience.
    stage.queue("openai", 1, &Act::Stall { after: 0 });
    let short = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(short, stage.complete()).await.is_err());
    assert_eq!(stage.client.in_flight("oa"), Some(0));
    // The next call is the trial.
    let completion = stage.complete().await.unwrap();
    assert_eq!(completion.trail.len(), 1);
    assert_eq!(
        stage.client.breaker("oa"),
        Some(BreakerState::Closed { failures: 0 })
    );
}

/// Dropping the future of one event loses nothing, as in a `select!`.
#[tokio::test]
async fn next_can_be_dropped_and_asked_again() {
    let stage = Stage::new(LESSON, CHAIN);
    let mut stream = stage.stream();
    let mut events = Vec::new();
    loop {
        let event = {
            let next = stream.next();
            tokio::select! {
                biased;
                // Ready at once in every other round, so that `next` is dropped in every state.
                () = tokio::task::yield_now() => None,
                event = next => Some(event),
            }
        };
        match event {
            None => {
                // Let the socket's own tasks run.
                tokio::task::yield_now().await;
                let patience = std::time::Duration::from_millis(1);
                if let Ok(event) = tokio::time::timeout(patience, stream.next()).await {
                    match event {
                        Some(event) => events.push(event.unwrap()),
                        None => break,
                    }
                }
            }
            Some(Some(event)) => events.push(event.unwrap()),
            Some(None) => break,
        }
    }
    assert_eq!(text(&events), "You asked: hello there");
    assert_eq!(stage.calls(), [1, 0, 0]);
    assert_eq!(stage.diary.trace(), "oa#1:ok");
}

/// A stream that nobody asks for anything sends nothing.
#[tokio::test]
async fn a_stream_that_is_dropped_unread_sends_nothing() {
    let stage = Stage::new(LESSON, CHAIN);
    drop(stage.stream());
    assert_eq!(stage.calls(), [0, 0, 0]);
    assert_eq!(stage.diary.trace(), "");
}
