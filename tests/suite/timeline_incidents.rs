//! Incidents: whom they concern, and how many attempts they hit when several last at once.

use routelab::catalogue::Catalogue;
use routelab::router::{FaultKind, Limits, RouteId};
use routelab::timeline::{Attempted, Cause, Incident, Latency, Providers, Timeline};
use routelab::units::{Duration, Instant, Tokens, mix64};
use routelab::workload::{Domain, DrawKey};

use crate::given::catalogue_of;
use crate::timeline_scripts::{LARGE, SMALL, SMALL_US, catalogue, fail, sound};

fn incident_at(target: &str, catalogue: &Catalogue) -> Result<Incident, String> {
    let effect = fail(FaultKind::Overloaded, 1.0);
    let length = Duration::from_secs(60);
    Incident::of_target(catalogue, target, Instant(5), length, effect)
        .map_err(|complaint| complaint.render(false))
}

#[test]
fn an_incident_of_the_command_line_finds_providers_regions_and_routes() {
    let catalogue = catalogue();
    for (target, routes) in [
        ("openai", &[SMALL, SMALL_US][..]),
        ("us-east", &[SMALL_US, LARGE]),
        ("small", &[SMALL]),
    ] {
        let incident = incident_at(target, &catalogue).unwrap();
        assert_eq!(
            (incident.name.as_str(), incident.routes.as_slice()),
            (target, routes)
        );
        assert_eq!(incident.until, Instant(60_000_005));
    }
    let near = incident_at("us-esat", &catalogue).unwrap_err();
    assert!(near.contains("did you mean `us-east`?"), "{near}");
    let far = incident_at("mars", &catalogue).unwrap_err();
    assert!(
        far.contains(
            "providers: `openai`, `gemini`; regions: `eu-west`, `us-east`; routes: `small`"
        ),
        "{far}"
    );
    let effect = fail(FaultKind::Overloaded, 1.0);
    for (from, length) in [
        (Instant(5), Duration::ZERO),
        (Instant(u64::MAX), Duration::from_secs(1)),
    ] {
        assert!(Incident::of_target(&catalogue, "openai", from, length, effect).is_err());
    }
}

#[test]
fn a_name_of_two_kinds_is_ambiguous_only_if_it_stands_for_different_routes() {
    let route = |name: &str, provider: &str, region: &str| {
        format!(
            "[route.{name}]\nprovider = \"{provider}\"\nmodel = \"m\"\nregion = \"{region}\"\n\
             residency = [\"eu\"]\nusd_per_mtok = {{ input = 1, output = 1 }}\n"
        )
    };
    let require = "[require]\ndefault = { residency = [\"eu\"] }\n";
    let one = route("openai", "openai", "eu");
    assert!(incident_at("openai", &catalogue_of(&format!("{one}{require}"))).is_ok());
    let two = route("other", "openai", "eu");
    let both = catalogue_of(&format!("{one}{two}{require}"));
    let complaint = incident_at("openai", &both).unwrap_err();
    assert!(
        complaint.contains("a provider (`openai`, `other`) and of a route (`openai`)"),
        "{complaint}"
    );
}

/// Shares of attempts at `route` by how they end, over 20,000 requests at `at_s`.
fn outcomes(
    timeline: &Timeline,
    route: RouteId,
    at_s: u64,
) -> Vec<(Option<FaultKind>, Cause, f64)> {
    const COUNT: u64 = 20_000;
    let key = DrawKey {
        seed: 2026,
        domain: Domain::Traffic,
        replicate: 0,
    };
    // Nobody runs out of patience where nothing takes time.
    let timeline = Timeline {
        latency: vec![Latency::INSTANT; timeline.latency.len()],
        ..timeline.clone()
    };
    let mut providers = Providers::open(&timeline, key, Duration::from_secs(10_000));
    let mut found: Vec<(Option<FaultKind>, Cause, f64)> = Vec::new();
    for request in 0..COUNT {
        let answered = providers.attempt(&Attempted {
            route,
            at: Instant::ZERO.after(Duration::from_secs(at_s)),
            input: Tokens::new(10),
            output: Tokens::new(10),
            cap: Tokens::new(10),
            limits: Limits::default(),
            bits: Attempted::bits(mix64(request), 99, 1),
        });
        let kind = answered.fault.map(|fault| fault.kind);
        match found
            .iter_mut()
            .find(|(one, cause, _)| (*one, *cause) == (kind, answered.cause))
        {
            Some((.., share)) => *share += 1.0 / COUNT as f64,
            None => found.push((kind, answered.cause, 1.0 / COUNT as f64)),
        }
    }
    found
}

#[test]
fn overlapping_incidents_toss_a_coin_each_and_the_first_in_the_file_decides() {
    let timeline = sound(
        r#"
[[timeline.incident]]
provider = "openai"
at_s = 100
for_s = 100
fail = "overloaded"
share = 0.5

[[timeline.incident]]
region = "us-east"
at_s = 50
for_s = 200
fail = "server"
share = 0.4
"#,
    );
    let overloaded = (Some(FaultKind::Overloaded), Cause::Incident(0));
    let server = (Some(FaultKind::Server), Cause::Incident(1));
    let fine = (None, Cause::None);
    for (route, at_s, expected) in [
        (SMALL_US, 49, vec![(fine, 1.0)]),
        (SMALL_US, 99, vec![(server, 0.4), (fine, 0.6)]),
        (
            SMALL_US,
            150,
            vec![(overloaded, 0.5), (server, 0.2), (fine, 0.3)],
        ),
        (SMALL, 150, vec![(overloaded, 0.5), (fine, 0.5)]),
        (LARGE, 150, vec![(server, 0.4), (fine, 0.6)]),
        (SMALL_US, 200, vec![(server, 0.4), (fine, 0.6)]),
        (SMALL_US, 250, vec![(fine, 1.0)]),
    ] {
        let found = outcomes(&timeline, route, at_s);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((kind, cause), share) in expected {
            let part = found.iter().find(|(k, c, _)| (*k, *c) == (kind, cause));
            let part = part.map_or(0.0, |(.., share)| *share);
            // Four standard errors of a share of 20,000.
            let error = 4.0 * (share * (1.0 - share) / 20_000.0_f64).sqrt() + 1e-9;
            assert!((part - share).abs() <= error, "{kind:?} {share}: {found:?}");
        }
    }
}

#[test]
fn a_larger_share_fails_every_attempt_that_a_smaller_one_fails() {
    let failing = |share: f64| -> Vec<bool> {
        let timeline = sound(&format!(
            "[[timeline.incident]]\nroutes = [\"small\"]\nat_s = 0\nfor_s = 9\nfail = \"server\"\nshare = {share}\n"
        ));
        let key = DrawKey {
            seed: 1,
            domain: Domain::Traffic,
            replicate: 0,
        };
        let mut providers = Providers::open(&timeline, key, Duration::from_secs(9));
        let mut fails = |request| {
            let answered = providers.attempt(&Attempted {
                route: SMALL,
                at: Instant(1),
                input: Tokens::new(1),
                output: Tokens::new(1),
                cap: Tokens::UNKNOWN,
                limits: Limits::default(),
                bits: Attempted::bits(mix64(request), 7, 1),
            });
            answered.fault.is_some()
        };
        (0..2_000).map(&mut fails).collect()
    };
    let (few, many) = (failing(0.2), failing(0.7));
    assert!(few.iter().zip(&many).all(|(few, many)| !few | many));
    assert!(few.iter().any(|&fails| fails));
}
