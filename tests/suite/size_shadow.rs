//! Sizes of shadow runs: the lesson's rows exactly and played through, both directions, on the command line.

use std::sync::atomic::AtomicBool;

use routelab::size::{
    Mirroring, Origin, Rehearsal, Runs, ShadowPlan, Truth, recorded_truths, simulated_truths,
};
use routelab::stats::{Criterion, Grader, Joint, Rule};
use routelab::workload::Workload;
use serde_json::Value;

use crate::given::{fixture, routes, workload};
use crate::program::run;

/// The lesson's rows: task, candidate; the primary is always `large`.
const ROWS: [(&str, &str); 3] = [("summarize", "medium"), ("faq", "small"), ("faq", "medium")];

fn at(names: &[String], name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap()
}

fn lesson_truths(world: &Workload) -> Vec<Truth> {
    let truth = |(task, candidate): (&str, &str)| {
        let mut found = simulated_truths(
            world,
            Some(&routes()),
            at(&world.routes, candidate),
            at(&world.routes, "large"),
            &[at(&world.tasks, task)],
        )
        .unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0)
    };
    ROWS.map(truth).to_vec()
}

const MIRRORING: Mirroring = Mirroring {
    requests_per_day: 5_000.0,
    mirror_share: 0.1,
    graded_share: 0.5,
    label_delay_days: 2.0,
    usd_per_grade: Some(0.1),
};

fn plan(rules: &[Rule], pairs: &[u64]) -> ShadowPlan {
    ShadowPlan {
        rules: rules.to_vec(),
        criterion: Criterion::new(0.03, 1.96).unwrap(),
        pairs: pairs.to_vec(),
        powers: vec![0.8, 0.9],
        certify: Vec::new(),
        grader: None,
        mirroring: MIRRORING,
        traffic_known: true,
        peek: None,
    }
}

#[test]
fn the_lessons_rows_have_the_reference_odds_under_every_rule_of_the_file() {
    let file = fixture("statistics_reference.json");
    let wanted = file["promotion"].as_array().unwrap();
    let mut pairs: Vec<u64> = wanted
        .iter()
        .map(|want| want["n"].as_u64().unwrap())
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    let sizing = plan(&[Rule::WaldLesson, Rule::Tango], &pairs)
        .size(lesson_truths(&workload("workloads/support.toml")));
    let mut compared = 0;
    for want in wanted {
        let key = want["task_cand_primary"].as_str().unwrap();
        for cell in &sizing.cells {
            let truth = &sizing.truths[cell.truth];
            let own = format!("{}/{}/{}", truth.task, truth.candidate, truth.primary);
            if own != key || want["n"].as_u64() != Some(cell.n) {
                continue;
            }
            let name = if cell.rule == "wald" {
                "wald_seed"
            } else {
                "tango"
            };
            let want = want[name].as_f64().unwrap();
            // Absolute, and relative where the odds themselves are tiny.
            let allowed = 1e-10_f64.min(1e-8 * want);
            assert!(
                (cell.promote - want).abs() <= allowed.max(1e-14 * want),
                "{key} {name}: {cell:?} {want}"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 2 * wanted.len());
}

#[test]
fn the_lessons_rows_played_through_the_pipeline_agree_with_the_exact_odds() {
    let world = workload("workloads/support.toml");
    let truths = lesson_truths(&world);
    let catalogue = routes();
    let rehearsal = Rehearsal {
        workload: &world,
        catalogue: &catalogue,
        runs: Runs {
            count: 2_000,
            seed: 2026,
        },
    };
    let plan = plan(&[Rule::WaldLesson, Rule::Tango], &[50, 200, 800, 1_600]);
    let played = rehearsal
        .play(&plan, &truths, &|_| {}, &AtomicBool::new(false))
        .unwrap();
    assert_eq!(played.len(), 24, "three rows, four sizes, two rules");
    for one in &played {
        let share = one.simulated.value.unwrap();
        let spread = (one.exact * (1.0 - one.exact) / 2_000.0).sqrt();
        // Four standard errors, and one run of two thousand where the odds are next to nothing.
        assert!(
            (share - one.exact).abs() <= 4.0 * spread + 1.0 / 2_000.0,
            "{one:?}"
        );
    }
    // The check would see a wrong one: the rows differ by far more than it allows.
    let of = |truth: usize| {
        let found = played
            .iter()
            .find(|p| p.truth == truth && p.n == 50 && p.rule == "wald");
        found.unwrap().simulated.value.unwrap()
    };
    assert!(of(2) > 0.4 && of(1) < 0.15 && of(0) < 0.01);
}

#[test]
fn a_world_that_does_not_fit_the_candidate_is_not_played() {
    // One summary in ten is too long for `small`: a run would have fewer pairs than requests.
    let world = workload("workloads/support.toml");
    let (small, large) = (at(&world.routes, "small"), at(&world.routes, "large"));
    let task = at(&world.tasks, "summarize");
    let catalogue = routes();
    let truths = simulated_truths(&world, Some(&catalogue), small, large, &[task]).unwrap();
    assert!((truths[0].share - 0.2 * 0.9).abs() < 1e-12);
    let rehearsal = Rehearsal {
        workload: &world,
        catalogue: &catalogue,
        runs: Runs { count: 2, seed: 1 },
    };
    let played = rehearsal.play(
        &plan(&[Rule::Tango], &[50]),
        &truths,
        &|_| {},
        &AtomicBool::new(false),
    );
    assert!(played.unwrap().is_empty());
}

#[test]
fn sizes_are_the_reference_ones_and_their_campaigns_add_up() {
    let sizing = plan(&[Rule::Tango, Rule::WaldLesson], &[50])
        .size(lesson_truths(&workload("workloads/support.toml")));
    let want = &fixture("statistics_reference.json")["sample_size"]["faq/medium/large"];
    let mut compared = 0;
    for needed in &sizing.needed {
        let truth = &sizing.truths[needed.truth];
        if (truth.task.as_str(), truth.candidate.as_str()) != ("faq", "medium") {
            assert_eq!((needed.first, needed.settled), (None, None), "{needed:?}");
            continue;
        }
        let name = if needed.rule == "wald" {
            "wald_seed"
        } else {
            "tango"
        };
        let want = &want[name][needed.power.to_string()];
        assert_eq!(needed.first, want["first"].as_u64());
        assert_eq!(needed.settled, want["settled"].as_u64());
        let campaign = needed.campaign.unwrap();
        let n = needed.settled.unwrap();
        assert_eq!(campaign.graded_pairs, n);
        assert_eq!(
            campaign.mirrored_pairs,
            2 * n,
            "half of the pairs are graded"
        );
        // 5,000 a day, 35 % of them of the task, a tenth of those mirrored; then two days for the grade.
        let days = 2.0 * n as f64 / 175.0 + 2.0;
        assert!((campaign.days.unwrap() - days).abs() < 1e-9);
        assert!((campaign.grading_usd.unwrap() - 0.2 * n as f64).abs() < 1e-9);
        // 400 tokens at 1 USD and 120 at 4 USD a million.
        let usd = 2.0 * n as f64 * (400.0 + 120.0 * 4.0) / 1e6;
        assert!((campaign.mirror_usd.unwrap() - usd).abs() < 1e-9);
        compared += 1;
    }
    assert_eq!(compared, 4);
}

#[test]
fn the_smallest_certified_margin_is_the_one_whose_size_is_n() {
    let truths = lesson_truths(&workload("workloads/support.toml"));
    let mut plan = plan(&[Rule::Tango], &[800]);
    plan.certify = vec![491; truths.len()];
    let sizing = plan.size(truths.clone());
    let found = sizing
        .certified
        .iter()
        .find(|one| one.truth == 2 && one.power == 0.8)
        .unwrap();
    let margin = found.margin.unwrap();
    // 491 pairs promote at three points with 80 %: the margin is at most that, and just below it they do not.
    assert!(margin <= 0.03 && margin > 0.029, "{margin}");
    let chance = |margin: f64| {
        let mut plan = plan.clone();
        plan.criterion = Criterion::new(margin, 1.96).unwrap();
        plan.pairs = vec![491];
        plan.size(truths.clone()).cells[2].promote
    };
    assert!(chance(margin) >= 0.8);
    assert!(chance(margin - 1e-4) < 0.8);
}

#[test]
fn days_and_pairs_are_two_sides_of_one_sum() {
    let truths = lesson_truths(&workload("workloads/support.toml"));
    let faq = &truths[2];
    for n in [1_u64, 50, 491, 10_000] {
        let days = MIRRORING.campaign(faq, n, true).days.unwrap();
        let within = MIRRORING.pairs_within(faq, days + 1e-9);
        assert!((n..=n + 1).contains(&within), "{n}: {days} days, {within}");
    }
    assert_eq!(
        MIRRORING.pairs_within(faq, 1.0),
        0,
        "no grade has come by then"
    );
}

fn given(p10: f64, p01: f64) -> Truth {
    Truth {
        task: "given".to_owned(),
        candidate: "candidate".to_owned(),
        primary: "primary".to_owned(),
        joint: Joint::from_disagreement(p10, p01).unwrap(),
        share: 1.0,
        usd_per_mirror: None,
        pairs: None,
        ungraded: None,
        origin: Origin::Given,
    }
}

#[test]
fn a_grader_that_errs_is_corrected_for_and_the_naive_rule_stands_beside_it() {
    // Worse by exactly the margin: 43 % naive, at most 2.5 % corrected.
    let mut plan = plan(&[Rule::Tango], &[20_000]);
    plan.grader = Grader::new(0.9, 0.9);
    let sizing = plan.size(vec![given(0.02, 0.05)]);
    let cell = &sizing.cells[0];
    assert!(
        (cell.promote_uncorrected.unwrap() - 0.43).abs() < 0.005,
        "{cell:?}"
    );
    assert!(cell.promote <= 0.025, "{cell:?}");
    assert!((sizing.graded_margin - 0.024).abs() < 1e-12);
    // A truly equal candidate needs more pairs than with a grader that never errs.
    let equal = |grader: Option<Grader>| {
        let mut plan = plan.clone();
        plan.grader = grader;
        plan.size(vec![given(0.02, 0.02)]).needed[0]
            .settled
            .unwrap()
    };
    assert!(equal(Grader::new(0.9, 0.9)) > 3 * equal(None));
    // And one that never errs is no grader at all.
    assert_eq!(equal(Some(Grader::perfect())), equal(None));
}

#[test]
fn recorded_pairs_are_counted_by_task_and_lacking_grades_are_told() {
    let world = workload("workloads/lesson-recorded.toml");
    let (small, large) = (at(&world.routes, "small"), at(&world.routes, "large"));
    let truths = recorded_truths(&world, Some(&routes()), small, large, &[]).unwrap();
    assert_eq!(truths.len(), world.tasks.len() + 1, "and all together");
    let pairs: u64 = truths
        .iter()
        .rev()
        .skip(1)
        .map(|truth| truth.pairs.unwrap())
        .sum();
    let all = truths.last().unwrap();
    assert_eq!(all.pairs, Some(pairs));
    assert_eq!(all.pairs.unwrap() + all.ungraded.unwrap(), 6_000);
    assert_eq!(all.origin, Origin::Recorded);
    assert!((truths.iter().rev().skip(1).map(|t| t.share).sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn a_margin_is_certified_only_where_agreement_is_evidence_and_a_grader_allows() {
    let margin = |rule: Rule, n: u64, grader: Option<Grader>, truth: Truth| {
        let mut plan = plan(&[rule], &[50]);
        plan.certify = vec![n];
        plan.grader = grader;
        plan.size(vec![truth]).certified[0].margin
    };
    // Ten pairs that agree: Wald's standard error is 0, but 3 in 10 could still be lost, 0.7^10 > 0.025.
    let found = margin(Rule::WaldLesson, 10, None, given(0.001, 0.001)).unwrap();
    assert!(
        found > 0.3 && (1.0 - found).powi(10) <= 0.025 + 1e-6,
        "{found}"
    );
    let blind = Grader::new(0.51, 0.5);
    assert_eq!(margin(Rule::Tango, 1_000, blind, given(0.02, 0.03)), None);
}

#[test]
fn sizes_too_large_to_search_are_approximate_and_say_so() {
    let mut close = plan(&[Rule::Tango, Rule::ExactUnconditional], &[50]);
    close.powers = vec![0.9];
    let sizing = close.size(vec![given(0.05, 0.079)]);
    let tango = &sizing.needed[0];
    assert_eq!(tango.settled, None);
    assert!(tango.about.unwrap() > 200_000, "{tango:?}");
    assert!(sizing.needed[1].about.is_some());
}

#[test]
fn peeking_at_the_margin_shows_each_rule_at_its_worst() {
    let mut peeks = plan(&[Rule::Tango, Rule::WaldLesson], &[50]);
    peeks.peek = Some((50, 400));
    let sizing = peeks.size(vec![given(0.01, 0.02)]);
    let edge = |name: &str| {
        let mut rows = sizing.peeked.iter();
        rows.find(|one| one.truth.is_none() && one.method.contains(name))
            .unwrap()
            .promote
    };
    assert!(edge("wald") > 0.3);
    assert!(edge("tango, every") > 0.04);
    assert!(edge("e-process") <= 0.025);
    assert!(edge("Lan-DeMets") <= 0.03);
}

#[test]
fn extreme_plans_are_finite() {
    for (p10, p01) in [
        (0.0, 0.0),
        (0.1, 0.9),
        (0.5, 0.4),
        (0.0, 0.02),
        (1e-9, 1e-9),
    ] {
        for margin in [0.0, 0.03, 0.999] {
            let mut plan = plan(
                &[Rule::Tango, Rule::WaldLesson, Rule::BonettPrice],
                &[1, 2, 1_000_000],
            );
            plan.criterion = Criterion::new(margin, 1.96).unwrap();
            plan.powers = vec![0.5];
            plan.peek = Some((7, 20));
            plan.certify = vec![1];
            let sizing = plan.size(vec![given(p10, p01)]);
            assert_eq!(sizing.cells.len(), 9);
            for cell in &sizing.cells {
                assert!(
                    (0.0..=1.0).contains(&cell.promote),
                    "{p10} {p01} {margin}: {cell:?}"
                );
            }
            for one in &sizing.peeked {
                assert!((0.0..=1.0 + 1e-12).contains(&one.promote), "{one:?}");
                assert!(
                    one.expected_n >= 1.0 && one.expected_n <= 20.0 + 1e-9,
                    "{one:?}"
                );
            }
        }
    }
}

const LESSON: &[&str] = &[
    "size",
    "shadow",
    "workloads/support.toml",
    "--candidate",
    "small",
    "--candidate",
    "medium",
    "--primary",
    "large",
    "--task",
    "faq",
    "--task",
    "summarize",
    "--pairs",
    "50,200,800",
];

#[test]
fn the_command_prints_its_plan() {
    let mut arguments = LESSON.to_vec();
    arguments.extend([
        "--rule", "tango", "--rule", "wald", "--n", "500", "--peek", "50,500",
    ]);
    arguments.extend(["--requests-per-day", "5000", "--usd-per-grade", "0.1"]);
    let out = run(&arguments);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    let widest = out
        .stdout
        .lines()
        .filter(|line| line.starts_with([' ', '-']))
        .map(str::len)
        .max();
    assert!(widest <= Some(132), "{widest:?}");
    insta::assert_snapshot!("size_shadow_table", out.stdout);
    let given = run(&[
        "size", "shadow", "--p10", "0.02", "--p01", "0.02", "--grader", "0.9,0.95",
    ]);
    insta::assert_snapshot!("size_shadow_given", given.stdout);
}

#[test]
fn the_formats_hold_the_same_numbers() {
    let format = |name: &str| {
        let mut arguments = LESSON.to_vec();
        arguments.extend(["--format", name]);
        let out = run(&arguments);
        assert_eq!(out.code, Some(0), "{}", out.stderr);
        out.stdout
    };
    let json: Value = serde_json::from_str(&format("json")).unwrap();
    assert_eq!(json["schema"], "routelab.size-shadow/1");
    let csv = format("csv");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    for cell in json["cells"].as_array().unwrap() {
        let truth = &json["truths"][cell["truth"].as_u64().unwrap() as usize];
        let n = cell["n"].to_string();
        let found = rows.iter().find(|row| {
            &row[0] == "promote"
                && truth["task"] == row[1]
                && truth["candidate"] == row[2]
                && cell["rule"] == row[4]
                && row[5] == n
        });
        let value: f64 = found.unwrap()[7].parse().unwrap();
        assert_eq!(Some(value), cell["promote"].as_f64());
    }
    assert!(format("markdown").contains("| faq | medium for large |"));
}
