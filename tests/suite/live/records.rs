//! Records, meters and what must not be in them.

use std::sync::{Arc, Mutex};

use routelab::live::{CallContext, CallError, JsonLines, Meter, Tracing};
use routelab::router::FaultKind;
use routelab::standin::faults::{Act, Cut};
use routelab::standin::loopback::ServerSpec;
use routelab::traffic::{Attempt, Origin, SCHEMA};
use routelab::units::{Tokens, Usd};
use routelab::wire::{Headers, Response, Stop, Usage};

use super::{CHAIN, KEY, Says, Stage, drain, fails};

/// A writer that several hold.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// OB-01, OB-02: one event for each attempt, with the provider's own id and its tokens.
#[tokio::test]
async fn ob01_ob02_every_attempt_is_one_line() {
    for (route, id, input) in [
        ("oa", "req_oa_1", 2),
        ("an", "req_an_1", 5),
        ("ge", "resp_1", 6),
    ] {
        let lines = Shared::default();
        let hook = Arc::new(JsonLines::new(lines.clone()));
        let fixed = format!("[fixed]\nroute = \"{route}\"\n");
        let stage = Stage::of(ServerSpec::default(), "", &fixed, |options| {
            options.hooks.push(hook.clone());
            options.policy_digest = Some("abc".into());
        });
        let context = CallContext {
            trace_id: Some("r1".into()),
            ..CallContext::default()
        };
        stage
            .client
            .complete(&super::hello(), &context)
            .await
            .unwrap();
        let (_, end) = drain(&mut stage.client.stream(&super::hello(), &context)).await;
        end.unwrap();
        let text = lines.text();
        let records: Vec<Attempt> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records, *stage.diary.attempts.lock().unwrap());
        assert_eq!(records.len(), 2);
        let first = &records[0];
        assert_eq!(first.request_id.as_deref(), Some(id), "{route}");
        assert_eq!(
            (first.tokens.input, first.tokens.output),
            (Some(input), Some(4)),
            "{route}"
        );
        assert_eq!((first.trace_id.as_str(), first.attempt), ("r1", 1));
        assert_eq!(
            first.cost,
            Some(Usd::from_f64((f64::from(input) + 12.0) / 1e6).unwrap())
        );
        assert_eq!(
            first.host.as_deref(),
            Some(stage.server.addr().to_string().as_str())
        );
        assert_eq!(first.residency.as_deref(), Some(&["eu".to_owned()][..]));
        assert_eq!((first.status, first.billed), (Some(200), Some(true)));
        assert_eq!(first.policy_digest.as_deref(), Some("abc"));
        assert!(first.latency.is_some());
        assert_eq!((first.ttft, records[1].ttft.is_some()), (None, true));
        // The order of fields is a part of the schema.
        let start = format!(
            "{{\"schema\":\"{SCHEMA}\",\"trace_id\":\"r1\",\"origin\":\"user\",\"policy\":\"p\","
        );
        assert!(text.starts_with(&start), "{text}");
        let foreign = text.replace(SCHEMA, "routelab.attempt/0");
        assert!(serde_json::from_str::<Attempt>(foreign.lines().next().unwrap()).is_err());
    }
}

/// Prompts and answers are in records only if somebody asked.
#[tokio::test]
async fn content_is_recorded_only_where_it_was_asked_for() {
    for asked in [false, true] {
        let lines = Shared::default();
        let hook = Arc::new(JsonLines::new(lines.clone()));
        let stage = Stage::of(ServerSpec::default(), "", CHAIN, |options| {
            options.hooks.push(hook.clone());
            options.content = asked;
        });
        stage.complete().await.unwrap();
        assert_eq!(lines.text().contains("hello there"), asked);
        assert_eq!(lines.text().contains("You asked"), asked);
    }
}

/// The key is nowhere: not in records, logs, errors or debug output, not even where a server quotes it.
#[tokio::test]
async fn no_key_is_seen_anywhere() {
    let lines = Shared::default();
    let log = Shared::default();
    let hook = Arc::new(JsonLines::new(lines.clone()));
    let spec = ServerSpec {
        log: Some(Arc::new(Mutex::new(log.clone()))),
        log_bodies: true,
        ..ServerSpec::default()
    };
    let stage = Stage::of(spec, "attempts_max = 1", CHAIN, |options| {
        options.hooks.push(hook.clone());
        options.hooks.push(Arc::new(Tracing));
        options.content = true;
    });
    let quoting = Act::Status {
        status: 401,
        headers: Headers::from_iter([("x-request-id", KEY), ("request-id", KEY)]),
        body: format!(
            "{{\"error\":{{\"message\":\"Incorrect key {KEY} and Bearer {KEY}\",\"type\":\"authentication_error\",\"code\":\"{KEY}\",\"status\":\"{KEY}\"}}}}"
        )
        .into_bytes(),
    };
    let mut seen = format!("{:?}{:?}", stage.client, stage.stream());
    for streamed in [false, true] {
        for dialect in ["openai", "anthropic", "gemini"] {
            stage.queue(dialect, 1, &quoting);
        }
        let error = stage.answer(streamed).await.unwrap_err();
        assert_eq!(error.kind(), Some(FaultKind::Auth));
        seen += &format!("{error}{error:?}");
    }
    seen += &stage
        .answer(true)
        .await
        .map(|answer| format!("{answer:?}"))
        .unwrap();
    seen += &lines.text();
    seen += &log.text();
    seen += &format!("{:?}", stage.diary.attempts.lock().unwrap());
    assert!(seen.contains("authentication") || seen.contains("auth"));
    assert_eq!(lines.text().lines().count(), 7);
    for part in [KEY, &KEY[..12], &KEY[..8]] {
        assert!(!seen.contains(part), "`{part}` in: {seen}");
    }
}

/// TR-16, OB-06: what failed and what was abandoned is metered apart from what was served, and unknown is
/// counted, not zero.
#[tokio::test]
async fn tr16_ob06_the_meter_tells_served_failed_and_abandoned_apart() {
    let meter = Arc::new(Meter::new());
    let stage = Stage::of(
        ServerSpec::default(),
        "attempts_max = 1",
        CHAIN,
        |options| {
            options.hooks.push(meter.clone());
        },
    );
    stage.complete().await.unwrap();
    stage.queue("openai", 1, &fails(FaultKind::Overloaded));
    stage.complete().await.unwrap();
    let cut = Act::Cut {
        after: 1,
        how: Cut::Reset,
    };
    stage.queue("openai", 1, &cut);
    assert!(matches!(
        stage.answer(true).await,
        Err(CallError::MidStream { .. })
    ));
    stage.queue("openai", 1, &Act::Stall { after: 1 });
    let mut stream = stage.stream();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let oa = meter.route("oa");
    assert_eq!(oa.answered.attempts, 1);
    assert_eq!(
        (oa.answered.input_tokens, oa.answered.output_tokens),
        (2, 4)
    );
    assert_eq!(oa.answered.usd(), Usd::from_f64(14.0 / 1e6).unwrap());
    assert_eq!(
        (oa.answered.tokens_unknown, oa.answered.cost_unknown),
        (0, 0)
    );
    // A refusal costs nothing, and that is known.
    assert_eq!(
        (
            oa.failed.attempts,
            oa.failed.unbilled,
            oa.failed.cost_unknown
        ),
        (1, 1, 0)
    );
    for sum in [oa.mid_stream, oa.abandoned] {
        assert_eq!(
            (sum.attempts, sum.tokens_unknown, sum.cost_unknown),
            (1, 1, 1)
        );
        assert_eq!((sum.cost, sum.unbilled), (0, 0));
    }
    assert_eq!(meter.route("an").answered.attempts, 1);
    let rows = meter.rows();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.origin == Origin::User));
}

/// R23: reasoning is billed output, streamed and not; a counter that nobody sent is unknown.
#[tokio::test]
async fn r23_reasoning_is_a_part_of_what_is_billed() {
    let thinks = Response {
        text: "Yes.".into(),
        stop: Stop::End,
        usage: Usage {
            input: Tokens::new(10),
            output: Tokens::new(120),
            reasoning: Tokens::new(100),
            ..Usage::UNKNOWN
        },
        ..Response::default()
    };
    let stage = Stage::saying(Says(thinks), "", "[fixed]\nroute = \"ge\"\n");
    for streamed in [false, true] {
        stage.answer(streamed).await.unwrap();
    }
    for attempt in stage.diary.attempts.lock().unwrap().iter() {
        assert_eq!(
            (
                attempt.tokens.input,
                attempt.tokens.output,
                attempt.tokens.reasoning
            ),
            (Some(10), Some(120), Some(100))
        );
        assert_eq!(attempt.cost, Some(Usd::from_f64(370.0 / 1e6).unwrap()));
    }
    // Without a count there is no cost, and the sum says so.
    let silent = Response {
        text: "Yes.".into(),
        stop: Stop::End,
        ..Response::default()
    };
    let stage = Stage::saying(Says(silent), "", CHAIN);
    let completion = stage.complete().await.unwrap();
    assert_eq!(completion.trail[0].cost, None);
    assert_eq!(completion.spend.total(), None);
    assert_eq!(completion.spend.unknown, 1);
}

/// Keeps the fields of events, by name.
#[derive(Default)]
struct Fields(Mutex<Vec<(String, String)>>);

impl tracing::field::Visit for &Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let kept = (field.name().to_owned(), format!("{value:?}"));
        self.0.lock().unwrap().push(kept);
    }
}

impl tracing::Subscriber for Fields {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut visitor = self;
        event.record(&mut visitor);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Events carry the names of the OpenTelemetry conventions, and leave out what is not known.
#[tokio::test]
async fn tracing_events_have_the_conventions_names() {
    let stage = Stage::new("attempts_max = 1", "[fixed]\nroute = \"ge\"\n");
    stage.complete().await.unwrap();
    stage.queue("gemini", 1, &fails(FaultKind::Overloaded));
    assert!(stage.complete().await.is_err());
    let attempts = stage.diary.attempts.lock().unwrap().clone();
    let fields_of = |attempt: &Attempt| {
        let fields = Arc::new(Fields::default());
        tracing::subscriber::with_default(fields.clone(), || {
            routelab::live::Hook::attempt(&Tracing, attempt);
        });
        fields.0.lock().unwrap().clone()
    };
    let answered = fields_of(&attempts[0]);
    let value = |fields: &[(String, String)], name: &str| {
        let found = fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim_matches('"').to_owned())
    };
    let host = stage.server.addr().ip().to_string();
    for (name, expected) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "gcp.gemini"),
        ("gen_ai.request.model", "ge-model"),
        ("gen_ai.usage.input_tokens", "6"),
        ("gen_ai.usage.output_tokens", "4"),
        ("server.address", host.as_str()),
        ("http.response.status_code", "200"),
        ("routelab.outcome", "ok"),
    ] {
        assert_eq!(value(&answered, name).as_deref(), Some(expected), "{name}");
    }
    for absent in ["error.type", "gen_ai.usage.cache_read.input_tokens"] {
        assert_eq!(value(&answered, absent), None, "{absent}");
    }
    let failed = fields_of(&attempts[1]);
    assert_eq!(value(&failed, "error.type").as_deref(), Some("overloaded"));
    assert_eq!(value(&failed, "gen_ai.usage.input_tokens"), None);
}
