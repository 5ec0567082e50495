//! Ten thousand random schedules of faults, limits and incidents, under random routers: breakers open and
//! close again, nothing is stuck, and no data leaves the EU that may not.

use rayon::prelude::*;
use routelab::catalogue::Catalogue;
use routelab::policy::PolicyFile;
use routelab::router::{
    BreakerScope, BreakerSpec, BreakerState, FaultKind, Jitter, RetryShare, RouteId, Trip,
};
use routelab::sim::{Passage, Timed};
use routelab::timeline::{Arrivals, Chances, Effect, Incident, Latency, Limit, Timeline};
use routelab::units::{Duration, Instant, Probability, mix64};
use routelab::workload::Workload;

use crate::given::{policy_of, routes, run_timed, workload_of};

const SCHEDULES: u64 = 10_000;
const REQUESTS: u64 = 60;

/// A third of the requests may not leave the EU; of the three routes one may.
const WORLD: &str = r#"
[synthetic]
requests = 60
hint_noise = 0.1
data_class = { public = 0.67, eu-only = 0.33 }
[synthetic.task.chat]
share = 1
difficulty = { uniform = [0.1, 0.9] }
tokens = { input = 800, output = 40 }
[synthetic.model.small]
skill = { chat = 0.5 }
[synthetic.model.medium]
skill = { chat = 0.6 }
[synthetic.model.large]
skill = { chat = 0.9 }
"#;

/// Random numbers of one schedule.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0) % n
    }

    fn share(&mut self) -> Probability {
        Probability::new(self.below(101) as f64 / 100.0).unwrap()
    }

    fn seconds(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(low * 1_000 + self.below((high - low) * 1_000 + 1))
    }

    fn kind(&mut self) -> FaultKind {
        FaultKind::ALL[self.below(10) as usize]
    }

    fn routes(&mut self) -> Vec<RouteId> {
        let set = 1 + self.below(7);
        let all = (0..3).filter(|route| set >> route & 1 == 1);
        all.map(RouteId).collect()
    }
}

fn router(dice: &mut Dice, catalogue: &mut Catalogue) {
    let router = &mut catalogue.router;
    router.attempts_max = 1 + dice.below(3) as u8;
    router.call_deadline = Some(dice.seconds(10, 60));
    router.wait.base = dice.seconds(0, 2);
    router.wait.jitter = [Jitter::None, Jitter::Full, Jitter::Equal][dice.below(3) as usize];
    router.retry_share = [
        None,
        Some(RetryShare::InFlight {
            percent: 20,
            reserve: 1,
        }),
        Some(RetryShare::Window {
            percent: 20,
            reserve_per_s: 1,
            window: Duration::from_secs(10),
        }),
    ][dice.below(3) as usize];
    if dice.below(4) == 0 {
        router.cooldown = None;
    }
    let scopes = [
        BreakerScope::Route,
        BreakerScope::Provider,
        BreakerScope::Credential,
    ];
    router.breaker = Some(BreakerSpec {
        trip: if dice.below(2) == 0 {
            Trip::Consecutive(1 + dice.below(4) as u32)
        } else {
            Trip::Share {
                percent: 50,
                results_min: 1 + dice.below(4) as u32,
                window: dice.seconds(1, 20),
            }
        },
        cooldown: dice.seconds(1, 15),
        grows: dice.below(2) == 0,
        cooldown_max: Duration::from_secs(30),
        scope: scopes[dice.below(3) as usize],
        trial: dice.below(5) > 0,
        stops_retries: dice.below(2) == 0,
    });
}

/// Two minutes: incidents in the first, none in the second.
fn timeline(dice: &mut Dice, catalogue: &Catalogue) -> Timeline {
    let mut timeline = Timeline::instant(catalogue, Arrivals::every(Duration::from_millis(2_000)));
    timeline.latency = vec![Latency::hosted(); 3];
    for _ in 0..1 + dice.below(5) {
        let from = dice.seconds(0, 55);
        let until = Instant::ZERO
            .after(from)
            .after(dice.seconds(1, 30))
            .min(Instant(60_000_000));
        let effect = match dice.below(5) {
            0 => Effect::Cut {
                share: dice.share(),
            },
            1 => Effect::Slow {
                factor: 1.0 + dice.below(60) as f64,
            },
            _ => Effect::Fail {
                kind: dice.kind(),
                share: dice.share(),
            },
        };
        timeline.incidents.push(Incident {
            name: "drawn".to_owned(),
            routes: dice.routes(),
            from: Instant::ZERO.after(from),
            until,
            effect,
        });
    }
    if dice.below(2) == 0 {
        timeline.limits = vec![Limit {
            per_min: [
                Some(5 + dice.below(60)),
                Some(5_000 + dice.below(60_000)),
                None,
                None,
            ],
            window: dice.seconds(5, 60),
            ..Limit::new("shared", dice.routes())
        }];
    }
    if dice.below(2) == 0 {
        let share = Probability::new(0.02).unwrap();
        let chances = Chances::new(
            vec![(dice.kind(), share), (FaultKind::Timeout, share)],
            share,
        );
        timeline.chances = vec![chances.unwrap_or_default(); 3];
    }
    timeline
}

fn play(number: u64, workload: &Workload, policies: &[PolicyFile; 3]) -> Passage {
    let mut dice = Dice(mix64(number ^ 0x7363_6865_6475_6c65));
    let mut catalogue = routes();
    router(&mut dice, &mut catalogue);
    let timeline = timeline(&mut dice, &catalogue);
    let timed = Timed {
        timeline: &timeline,
        calm: false,
        keep_lines: false,
    };
    let which = dice.below(3) as usize;
    let policies = &policies[which..=which];
    let ran = run_timed(&catalogue, workload, policies, &timed, (number, REQUESTS));
    match ran {
        Ok(mut results) => results.contestants.remove(0).passages.remove(0),
        Err(stopped) => panic!("schedule {number}: {stopped:?}"),
    }
}

#[test]
fn nothing_is_stuck_and_no_data_leaves_the_eu_in_ten_thousand_schedules() {
    let workload = workload_of("world.toml", WORLD);
    let catalogue = routes();
    let policies = [
        policy_of(
            "static",
            "[static]\ndefault = \"small\"\nfallback = [\"large\", \"medium\"]\n",
            &catalogue,
        ),
        policy_of(
            "cascade",
            "[cascade]\norder = [\"small\", \"large\", \"medium\"]\nverifier.simulated = { accept_if_correct = 0.9, accept_if_wrong = 0.3 }\n",
            &catalogue,
        ),
        policy_of(
            "large-first",
            "[static]\ndefault = \"large\"\nfallback = [\"medium\", \"small\"]\n",
            &catalogue,
        ),
    ];
    let seen: Vec<(u64, u64, u64, u64)> = (0..SCHEDULES)
        .into_par_iter()
        .map(|number| {
            let passage = play(number, &workload, &policies);
            let totals = passage.totals;
            assert_eq!(totals.requests, REQUESTS, "schedule {number}");
            let unserved: u64 = passage.unserved.iter().map(|lost| lost.requests).sum();
            assert_eq!(totals.served + unserved, REQUESTS, "schedule {number}");
            assert_eq!(passage.residency_violations, 0, "schedule {number}");
            for state in &passage.breakers {
                assert!(
                    !matches!(state, BreakerState::HalfOpen { .. }),
                    "schedule {number}: a trial never ended"
                );
            }
            let opened: u64 = passage.routes.iter().map(|route| route.opened).sum();
            let closed = passage
                .changes
                .iter()
                .filter(|change| change.change == routelab::router::BreakerChange::Closed)
                .count();
            // The last requests come a minute after the last incident.
            let last = passage.bins.iter().rev().take(20);
            let late = last.fold((0, 0), |(served, all), bin| {
                (served + bin.served, all + bin.requests)
            });
            (opened, closed as u64, late.0, late.1)
        })
        .collect();
    let sum = seen.iter().fold((0, 0, 0, 0), |sum, one| {
        (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2, sum.3 + one.3)
    });
    // They open and close by the thousand: otherwise nothing was tested.
    assert!(sum.0 > 5_000, "{sum:?}");
    assert!(sum.1 > 2_000, "{sum:?}");
    // What is left of errors at the end are limits and chance, not breakers that stayed open.
    assert!(sum.2 as f64 > 0.9 * sum.3 as f64, "{sum:?}");
}
