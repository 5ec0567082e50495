//! The EU primary is down and the EU secondary may take half of what is needed: who is not served, why, and
//! which limit it was.

use routelab::sim::{Reason, Results, Timed};
use routelab::timeline::{Arrivals, Dimension, Effect, Incident, Timeline, parse_limit};
use routelab::units::{Duration, Instant, Probability};

use crate::given::{policy_of, routes, run_timed, workload_of};
use routelab::router::FaultKind;

/// 1,000 tokens each; half of them may not leave the EU.
const WORLD: &str = r#"
[synthetic]
requests = 6000
hint_noise = 0
data_class = { public = 0.5, eu-only = 0.5 }
[synthetic.task.chat]
share = 1
difficulty = { fixed = 0.3 }
tokens = { input = 900, output = 100 }
[synthetic.model.small]
skill = { chat = 0.7 }
[synthetic.model.medium]
skill = { chat = 0.7 }
[synthetic.model.large]
skill = { chat = 0.7 }
"#;

/// Ten requests a second for ten minutes, `small` down all the time.
fn run(fallback: &str, retries: bool) -> Results {
    let mut catalogue = routes();
    if !retries {
        catalogue.router.attempts_max = 1;
        catalogue.router.breaker = None;
        catalogue.router.cooldown = None;
    }
    let workload = workload_of("world.toml", WORLD);
    let text = format!("[static]\ndefault = \"small\"\nfallback = {fallback}\n");
    let policies = [policy_of("static", &text, &catalogue)];
    let mut timeline = Timeline::instant(&catalogue, Arrivals::every(Duration::from_millis(100)));
    let effect = Effect::Fail {
        kind: FaultKind::Overloaded,
        share: Probability::ONE,
    };
    let whole = Duration::from_secs(3_600);
    timeline.incidents =
        vec![Incident::of_target(&catalogue, "openai", Instant::ZERO, whole, effect).unwrap()];
    timeline.limits = vec![parse_limit("medium.tpm=300_000", &catalogue).unwrap()];
    let timed = Timed {
        timeline: &timeline,
        calm: true,
        keep_lines: false,
    };
    run_timed(&catalogue, &workload, &policies, &timed, (2026, 6_000))
        .unwrap_or_else(|stopped| panic!("{stopped:?}"))
}

/// A full bucket of 300 requests, and 300 more a minute, of 600 a minute that are needed.
#[test]
fn a_secondary_with_half_the_tokens_serves_half_and_its_limit_is_named() {
    let results = run("[\"medium\"]", false);
    let timetable = results.timetable.as_ref().unwrap();
    let passage = &results.contestants[0].passages[0];
    // The last request comes 0.1 s before the tenth minute is over.
    let room = 300 + 300 * 10 - 1;
    assert!(
        passage.totals.served.abs_diff(room) <= 1,
        "{} served",
        passage.totals.served
    );
    assert_eq!(timetable.limits, ["medium"]);
    for lost in &passage.unserved {
        assert_eq!(lost.reason, Reason::Saturated(0, Dimension::Tokens));
    }
    let classes: Vec<&str> = passage
        .unserved
        .iter()
        .map(|lost| timetable.classes[usize::from(lost.class)].as_str())
        .collect();
    assert_eq!(passage.unserved.len(), 2, "{classes:?}");
    // On the calm day everybody is served, so all who are not were lost to the outage.
    let unserved: u64 = passage.unserved.iter().map(|lost| lost.requests).sum();
    assert_eq!(passage.totals.lost, unserved);
    assert_eq!(results.contestants[0].calm[0].totals.served, 6_000);
    assert_eq!(passage.residency_violations, 0);
}

/// With a third route in the US, only those whose data may not go there are left over.
#[test]
fn whoever_may_leave_the_eu_is_served_there_and_nobody_else_is_sent() {
    for retries in [false, true] {
        let results = run("[\"medium\", \"large\"]", retries);
        let timetable = results.timetable.as_ref().unwrap();
        let passage = &results.contestants[0].passages[0];
        assert!(!passage.unserved.is_empty());
        for lost in &passage.unserved {
            assert_eq!(timetable.classes[usize::from(lost.class)], "eu");
            assert_eq!(
                lost.reason,
                Reason::Saturated(0, Dimension::Tokens),
                "retries: {retries}"
            );
        }
        assert_eq!(passage.residency_violations, 0);
        assert!(passage.routes[2].served > 0, "large takes the rest");
    }
}
