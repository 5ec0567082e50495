//! Copies that nobody sees: beside the call, within its residency, and never in its way.

use routelab::live::CallContext;
use routelab::standin::faults::Act;
use routelab::standin::loopback::ServerSpec;
use routelab::traffic::Origin;

use super::{Stage, hello};

const SHADOW: &str = "[shadow]\ncandidate = \"an\"\nshare = 1.0\nbase.fixed = { route = \"oa\" }\n";

#[tokio::test]
async fn a_copy_is_sent_beside_the_answer_and_told_apart() {
    let stage = Stage::new("", SHADOW);
    let completion = stage.complete().await.unwrap();
    assert_eq!(completion.route, "oa");
    assert_eq!(
        completion.trail.len(),
        1,
        "a copy is no part of the answer's trail"
    );
    stage.client.mirrors_ended().await;
    let attempts = stage.diary.attempts.lock().unwrap().clone();
    let copy = attempts
        .iter()
        .find(|one| one.origin == Origin::Shadow)
        .unwrap();
    assert_eq!((copy.route.as_str(), attempts.len()), ("an", 2));
    assert_eq!(copy.trace_id, completion.trail[0].trace_id);
    assert_eq!(stage.calls(), [1, 1, 0]);
}

#[tokio::test]
async fn a_copy_that_hangs_delays_nobody_and_copies_are_bounded() {
    let stage = Stage::of(ServerSpec::default(), "", SHADOW, |options| {
        options.mirrors_max = 2;
    });
    stage.queue("anthropic", 2, &Act::Stall { after: 0 });
    for _ in 0..5 {
        let context = CallContext::default();
        stage.client.complete(&hello(), &context).await.unwrap();
    }
    assert_eq!(stage.client.mirrors_in_flight(), 2);
    assert_eq!(stage.calls()[0], 5);
    assert!(stage.server.calls("anthropic") <= 2);
}

#[tokio::test]
async fn a_copy_obeys_residency() {
    let stage = Stage::new("", SHADOW);
    let elsewhere = super::routes(&stage.server, "").replace(
        "[route.an]\nprovider = \"an-host\"\nmodel = \"an-model\"\nresidency = [\"eu\"]",
        "[route.an]\nprovider = \"an-host\"\nmodel = \"an-model\"\nresidency = [\"us\"]",
    );
    let catalogue = super::catalogue(&elsewhere);
    let policy = super::policy(SHADOW, &catalogue);
    let diary = std::sync::Arc::new(super::Diary::default());
    let options = routelab::live::Options {
        hooks: vec![diary.clone()],
        keys: std::sync::Arc::new(|_| Some(super::KEY.to_owned())),
        ..Default::default()
    };
    let client = routelab::live::Client::new(catalogue, &policy, options).unwrap();
    client
        .complete(&hello(), &CallContext::default())
        .await
        .unwrap();
    client.mirrors_ended().await;
    assert_eq!(stage.calls(), [1, 0, 0]);
    let attempts = diary.attempts.lock().unwrap();
    let skipped = attempts
        .iter()
        .find(|one| one.origin == Origin::Shadow)
        .unwrap();
    assert_eq!(skipped.reason.as_deref(), Some("residency"));
}
