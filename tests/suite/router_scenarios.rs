//! The router lesson's scenarios as trace strings.

use routelab::router::*;
use routelab::units::*;

#[test]
fn one_route_answers() {
    let config = RouterConfig {
        routes: vec![RouteSpec {
            name: "a".into(),
            provider: ProviderId(0),
            credential: CredentialId(0),
            window: Tokens::UNKNOWN,
            tools: true,
            residency: Regions::ALL,
            local: false,
            price: None,
            weight: None,
            limits: Limits::NONE,
        }],
        ..RouterConfig::default()
    };
    let mut router = Router::new(&config).unwrap();
    let need = Need {
        input_tokens: Tokens::new(10),
        output_cap: Tokens::new(10),
        tools: false,
        residency: Regions::ALL,
        local_only: false,
        account: None,
        deadline: None,
    };
    let mut call = router.open(Plan::single(RouteId(0)), need, 1);
    let step = router.step(&mut call, Input::Begin, Instant(0), &mut ());
    assert!(matches!(step, Step::Send { attempt: 1, .. }));
    let step = router.step(
        &mut call,
        Input::Reply(Reply { usage: None }),
        Instant(1),
        &mut (),
    );
    assert!(matches!(step, Step::Done(_)), "{step:?}");
}
