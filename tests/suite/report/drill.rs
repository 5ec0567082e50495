//! Drills: results made by hand, the documents, the pictures, and what outside text can do to them.

use super::made::*;
use proptest::prelude::*;
use routelab::report::{Drill, DrillOptions, FileDigest, Manifest, SHEET_FORMATS, drill};
use routelab::router::{BreakerChange, FaultKind, RouteId};
use routelab::sim::{
    Change, Contestant, Counts, Lost, Passage, Reason, Results, RouteBin, RoutePassage, Timetable,
};
use routelab::timeline::{
    Arrivals, Dimension, Effect, Incident, Limit, OutputCount, Slo, Timeline,
};
use routelab::units::{Duration, Instant, Probability};

const BIN: Duration = Duration::from_secs(600);
/// Bins of the made-up day.
const BINS: u64 = 24;
/// The incident lasts from the beginning of this bin to that of the other.
const DOWN: (u64, u64) = (10, 13);

fn at(bin: u64) -> Instant {
    Instant(bin * BIN.0)
}

/// What one day was like: `held` is how many of a hundred requests of a bin are served while it lasts.
fn passage(held: u64, replicate: u64) -> Passage {
    let mut passage = Passage {
        span: Duration(BINS * BIN.0),
        bin: BIN,
        routes: vec![RoutePassage::default(); 3],
        in_flight_max: 7,
        wasted_cost: 250_000_000_000,
        ..Passage::default()
    };
    for bin in 0..BINS {
        let is_down = (DOWN.0..DOWN.1).contains(&bin);
        let requests = 100 + bin % 3;
        // A few more are late in the second replicate.
        let served = if is_down {
            held.min(requests)
        } else {
            requests
        };
        let counts = Counts {
            requests,
            served,
            in_slo: served.saturating_sub(1 + replicate),
            fallback: if is_down { served } else { 0 },
            attempts: requests + if is_down { 20 } else { 0 },
            retries: if is_down { 10 } else { 0 },
            harmed: requests - served,
            lost: requests - served,
            spoilt: (requests - served) / 2,
            compared: requests,
            judged: requests,
            ..Counts::default()
        };
        passage.totals.merge(&counts);
        passage.bins.push(counts);
        let [primary, secondary, _] = passage.routes.as_mut_slice() else {
            unreachable!("there are three");
        };
        primary.bins.push(RouteBin {
            attempts: if is_down { 20 } else { requests },
            failed: if is_down { 20 } else { 0 },
            ttft_sum: Duration(if is_down { 0 } else { requests * 400_000 }),
            breaker_open: if is_down { BIN } else { Duration::ZERO },
            in_flight_max: 3,
            ..RouteBin::default()
        });
        secondary.bins.push(RouteBin {
            attempts: if is_down { requests } else { 0 },
            failed: requests - served,
            refused: requests - served,
            ..RouteBin::default()
        });
        for _ in 0..served {
            passage.ttft.add(Duration::from_millis(400 + 10 * bin));
            passage.total.add(Duration::from_millis(2_400 + 10 * bin));
        }
    }
    for route in &mut passage.routes {
        route.attempts = route.bins.iter().map(|bin| bin.attempts).sum();
    }
    let lost = passage.totals.lost;
    passage.routes[0].faults[FaultKind::Overloaded as usize] = 60;
    passage.routes[0].by_incident = 60;
    passage.routes[0].opened = 1;
    passage.routes[0].breaker_open = Duration(3 * BIN.0);
    passage.routes[1].faults[FaultKind::RateLimit as usize] = lost;
    passage.routes[1].refused[Dimension::Tokens as usize] = lost;
    passage.routes[1].input_tokens = 120_000;
    if lost > 0 {
        passage.unserved = vec![
            Lost {
                class: 0,
                reason: Reason::Saturated(0, Dimension::Tokens),
                requests: lost - 1,
            },
            Lost {
                class: 1,
                reason: Reason::Exhausted(FaultKind::Overloaded),
                requests: 1,
            },
        ];
    }
    passage.changes = vec![
        Change {
            at: at(DOWN.0),
            route: RouteId(0),
            change: BreakerChange::Opened { until: at(DOWN.1) },
        },
        Change {
            at: at(DOWN.1),
            route: RouteId(0),
            change: BreakerChange::Closed,
        },
    ];
    passage
}

/// The same on a day without the incident.
fn calm(replicate: u64) -> Passage {
    let mut calm = passage(102, replicate);
    calm.unserved.clear();
    calm.changes.clear();
    calm.totals = Counts::default();
    for bin in &mut calm.bins {
        *bin = Counts {
            requests: bin.requests,
            served: bin.requests,
            in_slo: bin.requests - 1,
            attempts: bin.requests,
            ..Counts::default()
        };
        calm.totals.merge(bin);
    }
    calm
}

fn incident() -> Incident {
    Incident {
        name: "azure-eu".to_owned(),
        routes: vec![RouteId(0)],
        from: at(DOWN.0),
        until: at(DOWN.1),
        effect: Effect::Fail {
            kind: FaultKind::Overloaded,
            share: Probability::ONE,
        },
    }
}

/// Two policies and two controls; the oracle sends nothing.
fn results(names: [&str; 2], replicates: u64) -> Results {
    let requests = BINS as usize * 101;
    let some = |route, usd| -> Vec<Did> {
        (0..requests)
            .map(|i| did(route, i % 10 != 0, usd))
            .collect()
    };
    let mut results = experiment(
        &["primary", "secondary", "overseas"],
        &[
            (names[0], "fixed", some(0, 0.004)),
            (names[1], "fixed", some(0, 0.003)),
            ("always-primary", "always", some(0, 0.003)),
            ("oracle", "oracle", some(0, 0.003)),
        ],
    );
    results.replicates = replicates;
    results.timetable = Some(Timetable {
        limits: vec!["eu-2".to_owned()],
        classes: vec!["eu".to_owned(), "eu, us".to_owned()],
        incidents: (0..replicates).map(|_| vec![incident()]).collect(),
        slo: slo(),
        has_calm: true,
    });
    let held = [80, 40, 0];
    for (contestant, held) in results.contestants.iter_mut().zip(held) {
        go_through(contestant, held, replicates);
    }
    results
}

fn go_through(contestant: &mut Contestant, held: u64, replicates: u64) {
    contestant.passages = (0..replicates).map(|r| passage(held + r, r)).collect();
    contestant.calm = (0..replicates).map(calm).collect();
    let tally = contestant.tallies[0].clone();
    contestant.tallies = vec![tally; replicates as usize];
    contestant.calm_tallies = contestant.tallies.clone();
}

const fn slo() -> Slo {
    Slo {
        ttft: Duration::from_secs(3),
        total: Duration::from_secs(20),
    }
}

fn timeline() -> Timeline {
    let catalogue = crate::given::routes();
    let mut timeline = Timeline::instant(&catalogue, Arrivals::every(Duration::from_secs(6)));
    timeline.slo = slo();
    timeline.incidents = vec![incident()];
    let mut limit = Limit::new("eu-2", vec![RouteId(1)]).with(Dimension::Tokens, 40_000);
    limit.output = OutputCount::Actual;
    timeline.limits = vec![limit];
    timeline
}

fn options() -> DrillOptions {
    DrillOptions {
        level: 0.95,
        assumptions: vec!["a day was assumed".to_owned()],
    }
}

fn made() -> Drill {
    drill(
        &results(["resilient", "thrifty"], 2),
        &timeline(),
        &options(),
    )
}

fn manifest() -> Manifest {
    Manifest {
        version: "0.1.0".to_owned(),
        seed: 2026,
        inputs: vec![FileDigest::of("w.toml", b"[synthetic]")],
        outputs: Vec::new(),
        command: ["routelab", "drill", "w.toml"].map(str::to_owned).to_vec(),
    }
}

fn render(drill: &Drill, format: &str) -> String {
    let text = drill.sheet().render(format, &manifest());
    text.expect("the format is known")
}

#[test]
fn a_drill_reads_well_in_every_format() {
    let drill = made();
    insta::assert_snapshot!("drill_table", render(&drill, "table"));
    insta::assert_snapshot!("drill_markdown", render(&drill, "markdown"));
    let csv = render(&drill, "csv");
    let shown: Vec<&str> = csv
        .lines()
        .enumerate()
        .filter(|(index, _)| *index == 0 || index % 12 == 11)
        .map(|(_, line)| line)
        .collect();
    insta::assert_snapshot!("drill_csv", shown.join("\n"));
    let mut json: serde_json::Value = serde_json::from_str(&render(&drill, "json")).unwrap();
    // One policy is enough to look at, and of its time lines the first bin under the incident.
    let policies = json["policies"].as_array_mut().unwrap();
    policies.truncate(1);
    for line in ["time_line", "calm_time_line"] {
        let line = &mut policies[0][line];
        let keep = |bins: &mut serde_json::Value| {
            let all = bins.as_array_mut().unwrap();
            *all = vec![all[DOWN.0 as usize].clone()];
        };
        keep(&mut line["bins"]);
        for route in line["routes"].as_array_mut().unwrap() {
            keep(&mut route["bins"]);
        }
    }
    insta::assert_snapshot!("drill_json", serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn a_picture_of_a_drill_is_as_it_was_looked_at() {
    let plots = made().plots();
    let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["resilient", "thrifty"]);
    insta::assert_snapshot!("drill_plot", plots[0].1);
}

#[test]
fn the_numbers_of_a_drill_are_those_of_the_passages() {
    let json: serde_json::Value = serde_json::from_str(&render(&made(), "json")).unwrap();
    assert_eq!(json["schema"], "routelab.drill/1");
    let policies = json["policies"].as_array().unwrap();
    let names: Vec<&str> = policies
        .iter()
        .map(|one| one["policy"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["resilient", "thrifty", "always-primary"]);
    // 24 bins of 100, 101 or 102 requests. 80 and 81 of them are served in each of three bins.
    let requests = 24.0 * 101.0;
    let served = |replicate: f64| requests - 3.0 * (101.0 - 80.0 - replicate);
    let expected = (served(0.0) + served(1.0)) / 2.0 / requests;
    let availability = &policies[0]["drill"]["availability"];
    assert_close(availability["value"].as_f64(), expected, 1e-12);
    assert_eq!(availability["method"], "t-replicates");
    assert_eq!(availability["n"], 2);
    // Student with one degree of freedom: 12.706205 × half the difference of two values.
    let half = 12.706_204_736 * (served(1.0) - served(0.0)) / requests / 2.0;
    assert_close(
        availability["high"].as_f64(),
        (expected + half).min(1.0),
        1e-6,
    );
    assert_close(
        policies[0]["calm"]["availability"]["value"].as_f64(),
        1.0,
        0.0,
    );
    assert!(policies[0]["calm"]["availability"]["low"].is_null());
    assert_close(
        policies[0]["harm"]["lost"]["value"].as_f64(),
        3.0 * 20.5 / requests,
        1e-12,
    );
    assert_close(
        policies[0]["incidents"][0]["time_to_recover_s"]["value"].as_f64(),
        0.0,
        0.0,
    );
    assert_eq!(policies[0]["unserved"][0]["limit"], "eu-2");
    assert_eq!(policies[0]["unserved"][0]["used_up"], "tpm");
    assert_eq!(policies[0]["routes"][1]["refused"]["tpm"], 63 + 60);
    let bin = &policies[0]["time_line"]["routes"][0]["bins"][10];
    assert!(bin["mean_ttft_s"].is_null(), "nobody answered: {bin}");
    assert_eq!(bin["breaker_open_s"], 600.0);
}

#[test]
fn the_answer_names_the_best_policy_and_the_limit_that_was_used_up() {
    let text = render(&made(), "table");
    assert!(
        text.contains("When `azure-eu` fails at 1:40 for 30 min, `resilient` keeps the most requests within the SLO"),
        "{text}"
    );
    assert!(
        text.contains("`secondary`: tokens per minute of limit `eu-2` used up"),
        "{text}"
    );
}

#[test]
fn one_replicate_has_no_intervals_and_says_why() {
    let results = results(["resilient", "thrifty"], 1);
    let drill = drill(&results, &timeline(), &options());
    let text = render(&drill, "table");
    assert!(!text.contains('['), "{text}");
    assert!(text.contains("one replicate: no intervals"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&render(&drill, "json")).unwrap();
    let availability = &json["policies"][0]["drill"]["availability"];
    assert!(availability["value"].is_number() && availability["low"].is_null());
}

#[test]
fn without_an_incident_there_is_nothing_to_compare_with() {
    let mut results = results(["resilient", "thrifty"], 2);
    let table = results.timetable.as_mut().unwrap();
    table.has_calm = false;
    table.incidents = vec![Vec::new(); 2];
    let drill = drill(&results, &timeline(), &options());
    let text = render(&drill, "table");
    for word in ["calm day", "harmed", "Incidents", "recover"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert_eq!(drill.plots().len(), 2);
    assert!(!drill.plots()[0].1.contains("on the calm day"));
}

#[test]
fn a_cost_that_is_unknown_stays_unknown() {
    let mut results = results(["resilient", "thrifty"], 2);
    let contestant = &mut results.contestants[0];
    for tally in contestant
        .tallies
        .iter_mut()
        .chain(&mut contestant.calm_tallies)
    {
        (tally.costed, tally.cost_sum, tally.cost_square_sum) = (0, 0, 0);
    }
    let drill = drill(&results, &timeline(), &options());
    let json: serde_json::Value = serde_json::from_str(&render(&drill, "json")).unwrap();
    for name in ["usd_per_1k", "usd_per_1k_served", "wasted_usd_per_1k"] {
        let cost = &json["policies"][0]["drill"][name];
        assert!(cost["value"].is_null(), "{name}: {cost}");
    }
    assert!(render(&drill, "table").contains("unknown"));
}

#[test]
fn names_from_outside_break_out_of_no_document() {
    let evil = "=cmd|' /C calc'!A0\n\u{1b}[31m<b>&\"\u{202e}";
    let mut results = results([evil, "../../up"], 2);
    results.workload = format!("w{evil}");
    results.routes[0] = format!("r{evil}");
    let table = results.timetable.as_mut().unwrap();
    table.limits[0] = evil.to_owned();
    table.classes[0] = evil.to_owned();
    for incident in table.incidents.iter_mut().flatten() {
        incident.name = evil.to_owned();
    }
    let mut timeline = timeline();
    timeline.limits[0].name = evil.to_owned();
    let drill = drill(&results, &timeline, &options());
    for format in SHEET_FORMATS {
        let text = render(&drill, format);
        assert!(!text.contains('\u{1b}'), "{format}");
        if format != "json" && format != "csv" {
            assert!(!text.contains('\u{202e}'), "{format}");
        }
        if format == "markdown" {
            assert!(!text.contains("<b>"), "{text}");
        }
        if format == "csv" {
            assert!(!text.lines().any(|line| line.starts_with('=')), "{text}");
        }
    }
    for (name, svg) in drill.plots() {
        assert!(
            name.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)),
            "{name}"
        );
        assert!(!svg.contains("<b>") && !svg.contains('\u{1b}') && !svg.contains('\u{202e}'));
    }
}

#[test]
fn policies_whose_names_differ_in_case_or_signs_have_plots_of_their_own() {
    let drill = drill(&results(["a.b", "A b"], 1), &timeline(), &options());
    let names: Vec<String> = drill.plots().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a-b", "A-b-2"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_counted_can_be_written_down_and_drawn(
        bins in prop::collection::vec((0_u64..300, 0_u64..300, 0_u64..300, 0_u64..300), 0..700),
        width in prop_oneof![Just(0), Just(1), 1_u64..100_000_000_000],
        from in 0_u64..10_000_000_000_000,
        lasts in 0_u64..10_000_000_000,
        replicates in 1_u64..4,
    ) {
        let mut results = results(["resilient", "thrifty"], replicates);
        for incident in results.timetable.as_mut().unwrap().incidents.iter_mut().flatten() {
            incident.from = Instant(from);
            incident.until = Instant(from + lasts);
        }
        for passage in results.contestants.iter_mut().flat_map(|one| &mut one.passages) {
            passage.bin = Duration(width);
            passage.bins = bins
                .iter()
                .map(|(requests, served, harmed, undetermined)| Counts {
                    requests: *requests,
                    served: *served,
                    in_slo: *served,
                    harmed: *harmed,
                    compared: *requests,
                    undetermined: *undetermined,
                    ..Counts::default()
                })
                .collect();
            passage.routes[1].bins = bins
                .iter()
                .map(|(attempts, failed, refused, open)| RouteBin {
                    attempts: *attempts,
                    failed: *failed,
                    refused: *refused,
                    breaker_open: Duration(*open),
                    ..RouteBin::default()
                })
                .collect();
        }
        let drill = drill(&results, &timeline(), &options());
        for format in SHEET_FORMATS {
            prop_assert!(!render(&drill, format).contains("NaN"));
        }
        for (_, svg) in drill.plots() {
            prop_assert!(svg.len() < 400_000 && svg.ends_with("</svg>\n"), "{}", svg.len());
            prop_assert!(!svg.contains("NaN"));
        }
    }
}
