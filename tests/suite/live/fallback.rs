//! The lesson's fallback scenarios, end to end over sockets: traces, waits, and what the servers saw.

use routelab::live::CallError;
use routelab::router::{BreakerChange, BreakerState, FailureReason, FaultKind};
use routelab::standin::faults::Act;
use routelab::units::Duration;
use routelab::wire::Headers;

use super::{CHAIN, Stage, fails};

const LESSON: &str = "preset = \"lesson\"";

/// One scenario: what is queued, the trace, the calls of each server, how many waits.
struct Scenario {
    name: &'static str,
    queue: Vec<(&'static str, usize, Act)>,
    trace: &'static str,
    calls: [u64; 3],
    waits: usize,
    served: Result<&'static str, FailureReason>,
}

fn status(status: u16, body: &str) -> Act {
    Act::Status {
        status,
        headers: Headers::from_iter([("content-type", "application/json")]),
        body: body.as_bytes().to_vec(),
    }
}

fn scenarios() -> Vec<Scenario> {
    let busy = Act::Kind {
        kind: FaultKind::RateLimit,
        retry_after: Some(Duration::from_secs(1)),
    };
    let broke = status(
        429,
        r#"{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted","message":"x"}}"#,
    );
    let overloaded = fails(FaultKind::Overloaded);
    vec![
        Scenario {
            name: "429 with a hint: the same provider again",
            queue: vec![("openai", 1, busy)],
            trace: "oa#1:rate_limit oa#2:ok",
            calls: [2, 0, 0],
            waits: 1,
            served: Ok("oa"),
        },
        Scenario {
            name: "two 503: the second provider",
            queue: vec![("openai", 2, overloaded.clone())],
            trace: "oa#1:overloaded oa#2:overloaded an#1:ok",
            calls: [2, 1, 0],
            waits: 1,
            served: Ok("an"),
        },
        Scenario {
            name: "money is no rate limit: no wait",
            queue: vec![("openai", 1, broke)],
            trace: "oa#1:quota an#1:ok",
            calls: [1, 1, 0],
            waits: 0,
            served: Ok("an"),
        },
        Scenario {
            name: "a wrong request is wrong everywhere",
            queue: vec![("openai", 1, fails(FaultKind::InvalidRequest))],
            trace: "oa#1:invalid_request",
            calls: [1, 0, 0],
            waits: 0,
            served: Err(FailureReason::Rejected(FaultKind::InvalidRequest)),
        },
        Scenario {
            name: "401, then 529 twice: the third provider",
            queue: vec![
                ("openai", 1, fails(FaultKind::Auth)),
                ("anthropic", 2, overloaded.clone()),
            ],
            trace: "oa#1:auth an#1:overloaded an#2:overloaded ge#1:ok",
            calls: [1, 2, 1],
            waits: 1,
            served: Ok("ge"),
        },
        Scenario {
            name: "everybody is down",
            queue: ["openai", "anthropic", "gemini"]
                .map(|dialect| (dialect, 2, overloaded.clone()))
                .into(),
            trace: "oa#1:overloaded oa#2:overloaded an#1:overloaded an#2:overloaded ge#1:overloaded ge#2:overloaded",
            calls: [2, 2, 2],
            waits: 3,
            served: Err(FailureReason::Exhausted(FaultKind::Overloaded)),
        },
    ]
}

/// FB-03 and ST-07: the same scenarios for an answer at once and for a stream.
#[tokio::test]
async fn fb03_st07_failures_before_output_fall_back_as_the_lesson_prints() {
    for streamed in [false, true] {
        for scenario in scenarios() {
            let what = format!("{}, streamed: {streamed}", scenario.name);
            let stage = Stage::new(LESSON, CHAIN);
            for (dialect, times, act) in &scenario.queue {
                stage.queue(dialect, *times, act);
            }
            let answer = stage.answer(streamed).await;
            let attempts = stage.diary.attempts.lock().unwrap().clone();
            assert_eq!(stage.diary.trace(), scenario.trace, "{what}");
            assert_eq!(stage.calls(), scenario.calls, "{what}");
            let waits = stage.clock.waits();
            assert_eq!(waits.len(), scenario.waits, "{what}");
            // Each wait is told with the attempt that it came before.
            let told: Vec<Duration> = attempts
                .iter()
                .filter_map(|one| one.waited)
                .filter(|wait| *wait > Duration::ZERO)
                .collect();
            assert_eq!(told, waits, "{what}");
            match (scenario.served, answer) {
                (Ok(route), Ok(answer)) => {
                    assert_eq!(answer.text, "You asked: hello there", "{what}");
                    assert_eq!(attempts.last().unwrap().route, route, "{what}");
                }
                (Err(reason), Err(CallError::Unserved { failure, .. })) => {
                    assert_eq!(failure.reason, reason, "{what}");
                }
                (wanted, got) => panic!("{what}: {wanted:?}, but {got:?}"),
            }
        }
    }
}

/// RB-02: a hint is a minimum, with up to a tenth of a second on top; a backoff stays below its bound.
#[tokio::test]
async fn rb02_waits_keep_to_hint_and_backoff() {
    let stage = Stage::new(LESSON, CHAIN);
    let one_second = Act::Kind {
        kind: FaultKind::RateLimit,
        retry_after: Some(Duration::from_secs(1)),
    };
    stage.queue("openai", 1, &one_second);
    stage.complete().await.unwrap();
    stage.queue("openai", 1, &fails(FaultKind::Overloaded));
    stage.complete().await.unwrap();
    let waits = stage.clock.waits();
    let second = Duration::from_secs(1);
    assert!(waits[0] >= second && waits[0] <= second.plus(Duration::from_millis(100)));
    assert!(waits[1] <= second.plus(Duration::from_millis(100)));
}

/// R25: a hint within the limits is waited for, one beyond them is not waited for at all. A date counts
/// from the wall clock.
#[tokio::test]
async fn r25_a_hint_is_kept_or_the_next_route_is_asked_at_once() {
    let after = |value: &str| Act::Status {
        status: 429,
        headers: Headers::from_iter([("retry-after", value)]),
        body: br#"{"error":{"type":"rate_limit_error","message":"slow"}}"#.to_vec(),
    };
    let patient = "preset = \"lesson\"\nwait = { wait_max_s = 60 }";
    // 30 seconds after the clock's start.
    for hint in ["30", "30.0", "Tue, 14 Nov 2023 22:13:50 GMT"] {
        let stage = Stage::new(patient, CHAIN);
        stage.queue("openai", 1, &after(hint));
        stage.complete().await.unwrap();
        let waits = stage.clock.waits();
        assert_eq!(waits.len(), 1, "{hint}");
        assert!(waits[0] >= Duration::from_secs(30) && waits[0] <= Duration::from_millis(30_100));
    }
    let stage = Stage::new(patient, CHAIN);
    stage.queue("openai", 1, &after("3600"));
    stage.complete().await.unwrap();
    assert_eq!(stage.clock.waits(), []);
    assert_eq!(stage.diary.trace(), "oa#1:rate_limit an#1:ok");
}

/// The lesson's breaker rows: three failures open it, the next call does not touch the provider, after
/// the cooldown one trial closes it.
#[tokio::test]
async fn br_the_breaker_opens_keeps_away_and_closes_after_one_trial() {
    let stage = Stage::new(LESSON, CHAIN);
    stage.queue("openai", 4, &fails(FaultKind::Server));
    for _ in 0..3 {
        stage.complete().await.unwrap();
    }
    assert_eq!(
        stage.diary.trace(),
        "oa#1:server oa#2:server an#1:ok oa#1:server oa#2:server an#1:ok oa#-:breaker_open an#1:ok"
    );
    assert_eq!(stage.calls(), [4, 3, 0]);
    assert_eq!(stage.clock.waits().len(), 2);
    assert!(matches!(
        stage.client.breaker("oa"),
        Some(BreakerState::Open { .. })
    ));
    let completion = stage.complete().await.unwrap();
    assert_eq!(completion.route, "an");
    assert_eq!(completion.trail[0].reason.as_deref(), Some("breaker_open"));
    assert_eq!(completion.trail[1].rejected[0].route, "oa");
    assert_eq!(stage.calls()[0], 4);
    stage.clock.advance(Duration::from_secs(31));
    let completion = stage.complete().await.unwrap();
    assert_eq!(completion.route, "oa");
    assert_eq!(stage.calls()[0], 5);
    assert_eq!(
        stage.client.breaker("oa"),
        Some(BreakerState::Closed { failures: 0 })
    );
    let changes = stage.diary.breakers.lock().unwrap().clone();
    let changes: Vec<BreakerChange> = changes.into_iter().map(|(_, change)| change).collect();
    assert!(matches!(changes[0], BreakerChange::Opened { .. }));
    let end = [BreakerChange::HalfOpen, BreakerChange::Closed];
    assert_eq!(changes[changes.len() - 2..], end);
}

/// R07: a bill that is not paid is no rate limit, and somebody should hear of it.
#[tokio::test]
async fn r07_quota_raises_an_alert_and_is_not_asked_again() {
    let stage = Stage::new(LESSON, CHAIN);
    stage.queue("openai", 1, &fails(FaultKind::Quota));
    stage.complete().await.unwrap();
    assert_eq!(
        *stage.diary.alerts.lock().unwrap(),
        [("oa".to_owned(), FaultKind::Quota)]
    );
    assert_eq!(stage.calls(), [1, 1, 0]);
}

/// TR-12: one deadline for the whole walk, waits included.
#[tokio::test]
async fn tr12_the_deadline_holds_for_the_whole_walk() {
    let stage = Stage::new("preset = \"lesson\"\ndeadline_s = 2", CHAIN);
    let busy = Act::Kind {
        kind: FaultKind::RateLimit,
        retry_after: Some(Duration::from_millis(1_500)),
    };
    for dialect in ["openai", "anthropic", "gemini"] {
        stage.queue(dialect, 2, &busy);
    }
    let CallError::Unserved { failure, .. } = stage.complete().await.unwrap_err() else {
        panic!("an unserved call");
    };
    assert_eq!(failure.reason, FailureReason::Deadline);
    let waited: u64 = stage.clock.waits().iter().map(|wait| wait.0).sum();
    assert!(waited < 2_000_000, "{waited}");
    // The caller's own deadline holds as well.
    let stage = Stage::new(LESSON, CHAIN);
    stage.queue("openai", 1, &busy);
    let context = routelab::live::CallContext {
        deadline: Some(Duration::from_secs(1)),
        ..Default::default()
    };
    let completion = stage
        .client
        .complete(&super::hello(), &context)
        .await
        .unwrap();
    assert_eq!(
        completion.route, "an",
        "a wait beyond the deadline is not begun"
    );
    assert_eq!(stage.clock.waits(), []);
}

/// FB-04: a prompt that does not fit goes to the first route with room for it, and nothing else is called.
#[tokio::test]
async fn fb04_a_long_prompt_skips_small_windows() {
    let server_text = |stage: &Stage| super::routes(&stage.server, LESSON);
    let stage = Stage::new(LESSON, CHAIN);
    let mut text = server_text(&stage);
    for (route, window) in [("oa", 16_000), ("an", 64_000), ("ge", 400_000)] {
        let model = format!("model = \"{route}-model\"\n");
        text = text.replace(&model, &format!("{model}context_tokens = {window}\n"));
    }
    let catalogue = super::catalogue(&text);
    let policy = super::policy(CHAIN, &catalogue);
    let options = routelab::live::Options {
        keys: std::sync::Arc::new(|_| Some(super::KEY.to_owned())),
        ..Default::default()
    };
    let client = routelab::live::Client::new(catalogue, &policy, options).unwrap();
    let request = routelab::wire::Request {
        messages: vec![routelab::wire::Message::user("word ".repeat(70_000))],
        ..super::hello()
    };
    let completion = client
        .complete(&request, &routelab::live::CallContext::default())
        .await
        .unwrap();
    assert_eq!(
        super::trace(&completion.trail),
        "oa#-:context_length an#-:context_length ge#1:ok"
    );
    assert_eq!(stage.calls(), [0, 0, 1]);
}
