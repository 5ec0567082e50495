//! Synthetic worlds against exact population values, and the guarantees that all draws rest on.

use proptest::prelude::*;
use routelab::source::{Diagnostics, SourceFile};
use routelab::units::Score;
use routelab::workload::{BATCH, Batch, Domain, DrawKey, NO_NAME, Workload, parse};

use crate::given::reference;

fn world(text: &str) -> Workload {
    let mut diagnostics = Diagnostics::default();
    let spec = parse(&SourceFile::new("w.toml", text), "w", &mut diagnostics);
    let built = spec.and_then(|spec| spec.build(None, &mut diagnostics));
    assert!(!diagnostics.has_errors(), "{}", diagnostics.render(false));
    built.expect("a sound file gives a world")
}

fn complaints(text: &str) -> String {
    let mut diagnostics = Diagnostics::default();
    let spec = parse(&SourceFile::new("w.toml", text), "w", &mut diagnostics);
    assert!(
        spec.is_none() && diagnostics.has_errors(),
        "accepted: {text}"
    );
    diagnostics.render(false)
}

fn support() -> String {
    include_str!("../../workloads/support.toml").to_owned()
}

fn key(replicate: u32) -> DrawKey {
    DrawKey {
        seed: 2026,
        domain: Domain::Traffic,
        replicate,
    }
}

fn right(grade: Score) -> bool {
    grade == Score::RIGHT
}

/// Calls `take` with each request of the first `count`: the batch and the place in it.
fn each(world: &Workload, count: u64, mut take: impl FnMut(&Batch, usize)) {
    let mut batch = Batch::default();
    let mut first = 0;
    while first < count {
        let size = (count - first).min(BATCH as u64) as usize;
        world.fill(key(0), first, size, &mut batch);
        assert_eq!(batch.len, size);
        for i in 0..size {
            take(&batch, i);
        }
        first += size as u64;
    }
}

/// Whether a share of `n` draws is within four standard errors of `p`.
fn close(hits: u64, n: u64, p: f64, what: &str) {
    let (share, se) = (hits as f64 / n as f64, (p * (1.0 - p) / n as f64).sqrt());
    assert!(
        (share - p).abs() <= 4.0 * se + 1e-12,
        "{what}: {share} against {p}, {:.2} standard errors",
        (share - p) / se
    );
}

fn number(value: &serde_json::Value) -> f64 {
    value
        .as_f64()
        .or_else(|| value.as_str()?.parse().ok())
        .expect("a number")
}

#[test]
fn the_support_world_has_its_population_values() {
    let world = world(&support());
    assert_eq!(world.routes, ["small", "medium", "large"]);
    assert_eq!(
        world.tasks,
        ["faq", "extract", "summarize", "reasoning", "code"]
    );
    let n = 1_000_000;
    let (mut tasks, mut long) = ([0_u64; 5], 0);
    let (mut correct, mut static_rules) = ([0_u64; 3], 0);
    let mut hint_sum = 0.0;
    each(&world, n, |batch, i| {
        let task = usize::from(batch.task[i]);
        tasks[task] += 1;
        long += u64::from(batch.input_tokens[i].get() == Some(30_000));
        for (route, correct) in correct.iter_mut().enumerate() {
            *correct += u64::from(right(batch.grade[route][i]));
        }
        static_rules += u64::from(right(batch.grade[[0, 0, 1, 2, 2][task]][i]));
        hint_sum += batch.difficulty_hint[i];
        assert_eq!(batch.tenant[i], NO_NAME);
    });
    for (task, share) in [0.35, 0.20, 0.20, 0.15, 0.10].into_iter().enumerate() {
        close(tasks[task], n, share, &world.tasks[task]);
    }
    close(long, n, 0.02, "long summaries");
    // Means of Beta(a, b) are a / (a + b).
    let mean = 0.35 * 2.0 / 7.0 + 0.2 / 3.0 + 0.2 * 3.0 / 7.0 + 0.25 * 4.0 / 7.0;
    assert!((hint_sum / n as f64 - mean).abs() < 4.0 * 0.25 / 1_000.0);
    let Some(vectors) = reference("data/statistics/reference_vectors.json") else {
        return;
    };
    let policies = &vectors["policies_population"];
    let population = |name: &str| number(&policies[name]["pop_acc"]);
    // `always small` cannot take the long summaries, which its reference counts as wrong; so its accuracy
    // is checked below task by task, and here for the two policies that serve every request.
    close(
        correct[2],
        n,
        population("policy always large"),
        "always large",
    );
    close(static_rules, n, population("policy static"), "static");
}

#[test]
fn always_small_has_its_population_accuracy_when_long_summaries_count_as_wrong() {
    let Some(vectors) = reference("data/statistics/reference_vectors.json") else {
        return;
    };
    let (mut served, n) = (0, 1_000_000);
    each(&world(&support()), n, |batch, i| {
        let fits = batch.input_tokens[i]
            .get()
            .is_some_and(|tokens| tokens < 16_000);
        served += u64::from(fits && right(batch.grade[0][i]));
    });
    let expected = number(&vectors["policies_population"]["policy always small"]["pop_acc"]);
    close(served, n, expected, "always small");
}

#[test]
fn joint_outcomes_follow_the_mixture_copula() {
    let Some(vectors) = reference("data/statistics/reference_vectors.json") else {
        return;
    };
    let copula = vectors["copula"].as_object().unwrap();
    for rho in ["0", "0.25", "1"] {
        let text = support().replace("correlation = 0.0", &format!("correlation = {rho}"));
        let world = world(&text);
        // [task][candidate][primary][both, candidate only, primary only, neither]
        let mut counts = [[[[0_u64; 4]; 3]; 3]; 5];
        let n = 1_000_000;
        each(&world, n, |batch, i| {
            let of_task = &mut counts[usize::from(batch.task[i])];
            for (candidate, of_candidate) in of_task.iter_mut().enumerate() {
                for (primary, cell) in of_candidate.iter_mut().enumerate() {
                    let (a, b) = (batch.grade[candidate][i], batch.grade[primary][i]);
                    cell[3 - 2 * usize::from(right(a)) - usize::from(right(b))] += 1;
                }
            }
        });
        let mut checked = 0;
        for (name, values) in copula {
            let Some((cells, _)) = name
                .split_once(&format!("|rho={rho}"))
                .filter(|(cells, rest)| rest.is_empty() && cells.contains('/'))
            else {
                continue;
            };
            let index = |names: &[String], name: &str| {
                names.iter().position(|known| known == name).unwrap()
            };
            let mut parts = cells.split('/');
            let task = index(&world.tasks, parts.next().unwrap());
            let candidate = index(&world.routes, parts.next().unwrap());
            let primary = index(&world.routes, parts.next().unwrap());
            let found = counts[task][candidate][primary];
            let total = found.iter().sum();
            // The reference's order is both, candidate only, primary only, neither.
            for (at, cell) in found.iter().enumerate() {
                close(
                    *cell,
                    total,
                    number(&values["F"][at]),
                    &format!("{name} cell {at}"),
                );
            }
            checked += 1;
        }
        assert_eq!(checked, 3, "rho = {rho}");
        if rho == "0" {
            for (name, values) in vectors["joint_probabilities"].as_object().unwrap() {
                let candidate = usize::from(name == "faq/medium/large");
                let found = counts[0][candidate][2];
                for (at, cell) in ["p11", "p10", "p01", "p00"].into_iter().enumerate() {
                    close(found[at], found.iter().sum(), number(&values[cell]), name);
                }
            }
        }
    }
}

#[test]
fn labelled_examples_have_the_population_accuracy_and_are_redrawn_by_replicate() {
    let world = world(&support());
    let lab = |replicate| DrawKey {
        domain: Domain::Lab,
        ..key(replicate)
    };
    let n = 400_000;
    if let Some(vectors) = reference("data/statistics/reference_vectors.json") {
        for (t, task) in ["faq", "extract"].into_iter().enumerate() {
            for (r, route) in ["small", "medium", "large"].into_iter().enumerate() {
                let found = world.examples(lab(0), 0, t, r, n);
                assert_eq!(found.n, n as u64);
                let p = number(&vectors["marginals"][task][route]);
                close(
                    found.score_sum / 1_000_000,
                    found.n,
                    p,
                    &format!("{task} {route}"),
                );
            }
        }
    }
    let few = |replicate, task, route| world.examples(lab(replicate), 0, task, route, 300);
    assert_eq!(few(0, 2, 0), few(0, 2, 0));
    assert_ne!(few(0, 2, 0).score_sum, few(1, 2, 0).score_sum);
    // More examples extend fewer, so that an eval set grows rather than being redrawn.
    assert!(world.examples(lab(0), 0, 2, 0, 200).score_sum <= few(0, 2, 0).score_sum);
    assert_eq!(few(0, 0, 0).input_tokens_sum, 300 * 400);
    assert_eq!(few(0, 9, 0).n, 0);
    assert_eq!(world.lengths(lab(0), 0, 5_000).len(), 5_000);
}

#[test]
fn routes_keep_their_draws_when_others_come_go_or_move() {
    let text = support();
    let models: Vec<&str> = text.split("[synthetic.model.").collect();
    let model = |at: usize| format!("[synthetic.model.{}\n", models[at].trim_end());
    let whole = world(&text);
    let mut all = Batch::default();
    whole.fill(key(1), 500, 3_000, &mut all);
    for order in [vec![3], vec![3, 1], vec![2, 3, 1]] {
        let parts: String = order.iter().map(|at| model(*at)).collect();
        let other = world(&format!("{}{parts}", models[0]));
        let mut batch = Batch::default();
        other.fill(key(1), 500, 3_000, &mut batch);
        assert_eq!(other.routes.len(), order.len());
        for (r, route) in other.routes.iter().enumerate() {
            let before = whole
                .routes
                .iter()
                .position(|known| known == route)
                .unwrap();
            assert_eq!(batch.grade[r], all.grade[before], "{route}");
            assert_eq!(batch.verifier_lane[r], all.verifier_lane[before], "{route}");
        }
    }
}

const RICH: &str = r#"
[synthetic]
requests = 10
hint_noise = 0.1
correlation = 0.3
slope = 8
sessions_per_user = 3
language = { en = 0.8, de = 0.2 }
data_class = { public = 0.9, internal = 0.1 }
[synthetic.task.chat]
share = 0.5
difficulty = { uniform = [0.1, 0.6] }
tokens = { input = { lognormal = { p50 = 400, p95 = 4000 } }, output = { uniform = [10, 90] }, output_cap = 60 }
tools = 0.25
[synthetic.task.long]
share = 0.5
difficulty = { fixed = 0.5 }
tokens = { input = { mixture = [{ weight = 0.7, lognormal = { p50 = 10, p95 = 20 } }, { weight = 0.3, uniform = [100, 200] }] }, output = 7 }
[synthetic.tenant.acme]
share = 0.6
users = 50
[synthetic.tenant.bank]
share = 0.4
users = 10
language = { fr = 1.0 }
data_class = "eu-only"
[synthetic.model.a]
skill = { chat = 0.5, long = 0.5 }
language = { de = -0.2 }
[synthetic.model.b]
skill = { chat = 0.6, long = 0.7 }
"#;

#[test]
fn tenants_languages_data_classes_users_and_tools_have_their_shares() {
    let world = world(RICH);
    assert_eq!(world.tenants, ["acme", "bank"]);
    assert_eq!(world.languages, ["en", "de", "fr"]);
    assert_eq!(world.data_classes, ["public", "internal", "eu-only"]);
    let n = 200_000;
    let (mut bank, mut german, mut internal, mut tools, mut chats) = (0, 0, 0, 0, 0);
    let (mut users, mut sessions) = (
        std::collections::BTreeSet::new(),
        std::collections::BTreeSet::new(),
    );
    let (mut english_right, mut english, mut german_right, mut below_median) = (0, 0, 0, 0);
    each(&world, n, |batch, i| {
        users.insert(batch.user[i]);
        sessions.insert(batch.session[i]);
        let chat = batch.task[i] == 0;
        chats += u64::from(chat);
        tools += u64::from(batch.tools[i]);
        if batch.tenant[i] == 1 {
            bank += 1;
            assert_eq!((batch.language[i], batch.data_class[i]), (2, 2));
        } else {
            german += u64::from(batch.language[i] == 1);
            internal += u64::from(batch.data_class[i] == 1);
        }
        let output = batch.output(1, i).get().unwrap();
        if chat {
            assert!((10..=60).contains(&output));
            assert_eq!(batch.output_cap[i].get(), Some(60));
            below_median += u64::from(batch.input_tokens[i].get().unwrap() < 400);
        } else {
            assert_eq!(output, 7);
            assert!(!batch.tools[i]);
            if batch.language[i] == 1 {
                german_right += u64::from(right(batch.grade[0][i]));
            } else {
                english += 1;
                english_right += u64::from(right(batch.grade[0][i]));
            }
        }
    });
    close(bank, n, 0.4, "bank");
    close(german, n - bank, 0.2, "German");
    close(internal, n - bank, 0.1, "internal");
    close(tools, chats, 0.25, "tools");
    assert_eq!((users.len(), sessions.len()), (60, 180));
    // Difficulty 0.5: skill 0.5 gives one half; with 0.2 less it gives 1 / (1 + e^1.6).
    close(english_right, english, 0.5, "skill without a shift");
    close(
        german_right,
        n - chats - english,
        1.0 / (1.0 + 1.6_f64.exp()),
        "skill in German",
    );
    // Rounding makes 399.5 to 400.5 one value, so the median is only nearly half.
    assert!((below_median as f64 / chats as f64 - 0.5).abs() < 0.01);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_batch_equals_its_requests_read_one_by_one(
        rich: bool, seed: u64, replicate: u32, first in prop_oneof![0..10_000_u64, Just(u64::MAX / 2)], len in 1..300_usize,
    ) {
        let world = world(if rich { RICH } else { include_str!("../../workloads/support.toml") });
        let key = DrawKey { seed, domain: Domain::Traffic, replicate };
        let (mut batch, mut one) = (Batch::default(), Batch::default());
        // Vectors that held something longer before must not matter.
        world.fill(key, 3, 500, &mut batch);
        world.fill(key, first, len, &mut batch);
        for i in 0..len {
            world.fill(key, first + i as u64, 1, &mut one);
            prop_assert_eq!(one.task[0], batch.task[i]);
            prop_assert_eq!(one.tenant[0], batch.tenant[i]);
            prop_assert_eq!(one.language[0], batch.language[i]);
            prop_assert_eq!(one.data_class[0], batch.data_class[i]);
            prop_assert_eq!(one.user[0], batch.user[i]);
            prop_assert_eq!(one.session[0], batch.session[i]);
            prop_assert_eq!(one.tools[0], batch.tools[i]);
            prop_assert_eq!(one.input_tokens[0], batch.input_tokens[i]);
            prop_assert_eq!(one.output_cap[0], batch.output_cap[i]);
            prop_assert_eq!(one.difficulty_hint[0].to_bits(), batch.difficulty_hint[i].to_bits());
            prop_assert_eq!(one.policy_word[0], batch.policy_word[i]);
            prop_assert_eq!(one.output(0, 0), batch.output(0, i));
            for r in 0..world.routes.len() {
                prop_assert_eq!(one.grade[r][0], batch.grade[r][i]);
                prop_assert_eq!(one.verifier_lane[r][0], batch.verifier_lane[r][i]);
            }
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(cut in 0..3_000_usize, with in "[a-z0-9=.\\[\\]{}\" \n-]{0,12}") {
        let mut text = RICH.to_owned();
        let at = cut.min(text.len());
        if text.is_char_boundary(at) {
            text.insert_str(at, &with);
            let mut diagnostics = Diagnostics::default();
            let spec = parse(&SourceFile::new("w.toml", text), "w", &mut diagnostics);
            prop_assert_eq!(spec.is_some(), !diagnostics.has_errors());
        }
    }
}

#[test]
fn every_mistake_in_a_file_is_named_at_once() {
    let text = support()
        .replace("share = 0.35", "share = 0.30")
        .replace("beta = [2, 5]", "beta = [2, 5, 1]")
        .replace("faq = 0.70, ", "faw = 0.70, ")
        .replace("hint_noise", "hint_nose")
        .replace("input = 800", "input = -800");
    let shown = complaints(&text);
    for part in [
        "add up to 0.95, not 1",
        "must be two numbers, a and b, but has 3",
        "unknown task `faw`",
        "did you mean `faq`?",
        "has no skill for `faq`",
        "unknown key `hint_nose`",
        "did you mean `hint_noise`?",
        "must be between 0 and 1000000000, but is -800",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

#[test]
fn impossible_worlds_are_refused() {
    let one = "[synthetic]\nrequests = 1\n[synthetic.task.a]\nshare = 1\ndifficulty = { fixed = 0.5 }\ntokens = { input = 1, output = 1 }\n[synthetic.model.m]\nskill = { a = 1 }\n";
    world(one);
    for (from, to, part) in [
        (
            "[synthetic]",
            "[recorded]\nfile = \"x.csv\"\n[synthetic]",
            "not both",
        ),
        ("requests = 1", "requests = 0", "must be between 1"),
        ("fixed = 0.5", "fixed = 1.5", "between 0 and 1"),
        ("{ fixed = 0.5 }", "{ beta = [0, 1] }", "between 0.05"),
        (
            "{ fixed = 0.5 }",
            "{ beta = [1, 2], fixed = 1 }",
            "exactly one of",
        ),
        (
            "{ fixed = 0.5 }",
            "{ bata = [1, 2] }",
            "did you mean `beta`",
        ),
        (
            "input = 1,",
            "input = \"x\",",
            "must be a number of tokens or a distribution",
        ),
        (
            "input = 1,",
            "input = { mixture = [{ weight = 0.5, fixed = 1 }] },",
            "add up to 0.5",
        ),
        (
            "input = 1,",
            "input = { lognormal = { p50 = 10, p95 = 5 } },",
            "p95 must be p50 or more",
        ),
        (
            "skill = { a = 1 }",
            "skill = { a = 1 }\nlanguage = { de = 0.1 }",
            "no traffic is in the language `de`",
        ),
        (
            "[synthetic.task.a]",
            "slope = 0\n[synthetic.task.a]",
            "between 0.01 and 100",
        ),
        (
            "[synthetic.model.m]\nskill = { a = 1 }\n",
            "",
            "missing key `model`",
        ),
    ] {
        assert!(one.contains(from));
        let shown = complaints(&one.replace(from, to));
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(complaints("").contains("needs a table `[synthetic]` or `[recorded]`"));
}

#[test]
fn the_support_world_is_frozen() {
    let world = world(&support());
    let mut batch = Batch::default();
    world.fill(key(0), 0, 6_000, &mut batch);
    let mut shown = String::new();
    for i in [0, 1, 2, 3, 63, 64, 5_999] {
        let grades: Vec<bool> = batch.grade.iter().map(|grade| right(grade[i])).collect();
        let lanes: Vec<u32> = batch.verifier_lane.iter().map(|lane| lane[i]).collect();
        shown.push_str(&format!(
            "{i}: {} hint {:?} in {:?} out {:?} grades {grades:?} verifier {lanes:x?} policy {:x}\n",
            world.tasks[usize::from(batch.task[i])],
            batch.difficulty_hint[i],
            batch.input_tokens[i].get(),
            batch.output(0, i).get(),
            batch.policy_word[i],
        ));
    }
    let count = |grades: &Vec<Score>| grades.iter().filter(|grade| right(**grade)).count();
    let counts: Vec<usize> = batch.grade.iter().map(count).collect();
    shown.push_str(&format!("right answers of 6000: {counts:?}\n"));
    let lab = DrawKey {
        domain: Domain::Lab,
        ..key(0)
    };
    shown.push_str(&format!("{:?}\n", world.examples(lab, 0, 1, 0, 300)));
    insta::assert_snapshot!(shown);
}
