//! Expectations by integration against the worlds they are of, drawn a million times.

use routelab::catalogue::Catalogue;
use routelab::size;
use routelab::units::{Price, TokenPrice, Tokens};
use routelab::workload::{
    BATCH, Batch, Cascade, Domain, DrawKey, Expected, Population, Terms, Workload,
};

use crate::given::{contestant, policy_of, routes, run, workload, workload_of};

const MANY: u64 = 400_000;
/// Two-sided chance of a false alarm below 1e-5 for each comparison; there are a few hundred.
const ERRORS_MAX: f64 = 4.6;

fn near(what: &str, got: f64, se: f64, want: f64) {
    assert!(
        (got - want).abs() <= ERRORS_MAX * se + 1e-9,
        "{what}: {got} drawn, {want} expected: {:.1} standard errors apart",
        (got - want).abs() / se
    );
}

fn share(what: &str, count: u64, n: u64, want: f64) {
    let n = n as f64;
    // The expected share's own error, so that a count of zero is judged as well.
    near(
        what,
        count as f64 / n,
        (want * (1.0 - want) / n).sqrt(),
        want,
    );
}

/// Every (task, pair of routes): shares, marginals and 2×2 tables of the drawn grades and lengths.
fn drawn_grades_agree(workload: &Workload, catalogue: &Catalogue) -> Population {
    let population = size::population(workload, catalogue).unwrap();
    let terms = size::terms(workload, catalogue);
    let (tasks, routes) = (workload.tasks.len(), workload.routes.len());
    let mut seen = vec![0_u64; tasks];
    let mut fits = vec![vec![0_u64; routes]; tasks];
    let mut right = vec![vec![0_u64; routes]; tasks];
    // Per task and pair of routes: 2×2 cells over the requests that fit both, and over all.
    let mut pairs = vec![vec![[0_u64; 8]; routes * routes]; tasks];
    let key = DrawKey {
        seed: 7,
        domain: Domain::Traffic,
        replicate: 0,
    };
    let mut batch = Batch::default();
    for first in (0..MANY).step_by(BATCH) {
        workload.fill(key, first, BATCH, &mut batch);
        for i in 0..batch.len {
            let task = usize::from(batch.task[i]);
            let need =
                batch.input_tokens[i].get().unwrap() + batch.output_cap[i].get().unwrap_or(0);
            let fit: Vec<bool> = terms
                .iter()
                .map(|terms| {
                    terms
                        .context_tokens
                        .get()
                        .is_none_or(|window| need <= window)
                })
                .collect();
            let good: Vec<bool> = (0..routes)
                .map(|route| batch.grade[route][i].millionths() == Some(1_000_000))
                .collect();
            seen[task] += 1;
            for one in 0..routes {
                fits[task][one] += u64::from(fit[one]);
                right[task][one] += u64::from(good[one]);
                for other in 0..routes {
                    let cells = &mut pairs[task][one * routes + other];
                    let cell = |a: bool, b: bool| 2 * usize::from(!a) + usize::from(!b);
                    if fit[one] && fit[other] {
                        cells[cell(good[one], good[other])] += 1;
                    }
                    let all = cell(good[one] && fit[one], good[other] && fit[other]);
                    cells[4 + all] += 1;
                }
            }
        }
    }
    let n: u64 = seen.iter().sum();
    for (t, task) in population.tasks.iter().enumerate() {
        share(&task.name, seen[t], n, task.share);
        for one in 0..routes {
            let what = format!("{}/{}", task.name, workload.routes[one]);
            let of = &task.routes[one];
            share(&format!("{what} right"), right[t][one], seen[t], of.right);
            share(&format!("{what} fits"), fits[t][one], seen[t], of.fits);
            for other in 0..routes {
                let what = format!("{what}/{}", workload.routes[other]);
                let cells = pairs[t][one * routes + other];
                let both = population.joint(Some(t), one, other).unwrap();
                let all = population.joint_of_all(Some(t), one, other).unwrap();
                let table = |joint: routelab::stats::Joint| {
                    [joint.p11(), joint.p01(), joint.p10(), joint.p00()]
                };
                let paired: u64 = cells[..4].iter().sum();
                // `cell` counts (right, wrong) as 1: the candidate right, the primary wrong.
                let [p11, p01, p10, p00] = table(both);
                for (at, want) in [p11, p10, p01, p00].into_iter().enumerate() {
                    share(&format!("{what} both {at}"), cells[at], paired, want);
                }
                let [p11, p01, p10, p00] = table(all);
                for (at, want) in [p11, p10, p01, p00].into_iter().enumerate() {
                    share(&format!("{what} all {at}"), cells[4 + at], seen[t], want);
                }
            }
        }
    }
    population
}

/// Whole policies through the whole simulation.
fn run_policies_agree(workload: &Workload, catalogue: &Catalogue, population: &Population) {
    let names: Vec<String> = catalogue.names().map(str::to_owned).collect();
    let order: Vec<usize> = names
        .iter()
        .map(|name| {
            workload
                .routes
                .iter()
                .position(|route| route == name)
                .unwrap()
        })
        .collect();
    let text = format!(
        "[cascade]\norder = {names:?}\nverifier.simulated = {{ accept_if_correct = 0.9, accept_if_wrong = 0.2 }}\n"
    );
    let cascade = policy_of("cascade", &text, catalogue);
    let results = run(catalogue, workload, &[cascade], MANY);
    let mut cases: Vec<(String, Expected)> = workload
        .routes
        .iter()
        .enumerate()
        .map(|(at, name)| (format!("always-{name}"), population.always(at)))
        .collect();
    cases.push((
        "cascade".to_owned(),
        population
            .cascade(&Cascade {
                order: &order,
                accept_if_correct: 0.9,
                accept_if_wrong: 0.2,
            })
            .unwrap(),
    ));
    for (name, want) in cases {
        let tally = &contestant(&results, &name).tallies[0];
        let n = tally.requests as f64;
        let check = |what: &str, sum: f64, square: f64, want: f64| {
            let mean = sum / n;
            let se = ((square / n - mean * mean).max(0.0) / (n - 1.0)).sqrt();
            // What happens once in a million requests may not have happened yet.
            near(&format!("{name} {what}"), mean, se.max(1.0 / n), want);
        };
        let (right, squares) = (tally.score_sum as f64, tally.score_square_sum as f64);
        check("accuracy", right / 1e6, squares / 1e12, want.accuracy);
        let (calls, squares) = (tally.calls_sum as f64, tally.calls_square_sum as f64);
        check("calls", calls, squares, want.calls);
        let (usd, squares) = (tally.cost_sum as f64, tally.cost_square_sum as f64);
        check("USD", usd / 1e9, squares / 1e18, want.usd_per_1k.unwrap());
    }
}

#[test]
fn the_support_world_drawn_agrees_with_its_population() {
    let workload = workload("workloads/support.toml");
    let population = drawn_grades_agree(&workload, &routes());
    assert!(population.notes.is_empty(), "{:?}", population.notes);
    run_policies_agree(&workload, &routes(), &population);
}

#[test]
fn the_tenants_world_drawn_agrees_with_its_population() {
    let workload = workload("workloads/tenants.toml");
    // A catalogue in which nobody's data is refused: what the population leaves out.
    let mut catalogue = routes();
    for requirement in catalogue.data_classes.values_mut() {
        *requirement = catalogue.default;
    }
    let population = drawn_grades_agree(&workload, &catalogue);
    assert_eq!(population.notes.len(), 1);
    assert!(
        population.notes[0].contains("tools"),
        "{:?}",
        population.notes
    );
    assert!(
        population.notes[0].contains("residency"),
        "{:?}",
        population.notes
    );
    run_policies_agree(&workload, &catalogue, &population);
}

#[test]
fn a_plan_without_a_verifier_is_a_cascade_that_accepts_everything() {
    let workload = workload("workloads/support.toml");
    let population = size::population(&workload, &routes()).unwrap();
    for order in [&[0, 1][..], &[0], &[2, 0], &[1, 0, 2]] {
        let mut sum = (0.0, 0.0, 0.0);
        for task in &population.tasks {
            let one = task.first_that_fits(order);
            sum.0 += task.share * one.accuracy;
            sum.1 += task.share * one.usd_per_1k.unwrap();
            sum.2 += task.share * one.calls;
        }
        let whole = population
            .cascade(&Cascade {
                order,
                accept_if_correct: 1.0,
                accept_if_wrong: 1.0,
            })
            .unwrap();
        assert!((sum.0 - whole.accuracy).abs() < 1e-13, "{order:?}");
        assert!(
            (sum.1 - whole.usd_per_1k.unwrap()).abs() < 1e-12,
            "{order:?}"
        );
        assert!((sum.2 - whole.calls).abs() < 1e-13, "{order:?}");
    }
}

#[test]
fn joint_tables_over_all_tasks_are_the_means_of_the_tasks() {
    let workload = workload("workloads/support.toml");
    let population = size::population(&workload, &routes()).unwrap();
    let mean: f64 = (0..workload.tasks.len())
        .map(|task| {
            population.tasks[task].share * population.joint_of_all(Some(task), 0, 2).unwrap().p10()
        })
        .sum();
    let all = population.joint_of_all(None, 0, 2).unwrap();
    assert!((all.p10() - mean).abs() < 1e-15);
    // A route against itself never disagrees, and what is out of range has no table.
    assert_eq!(population.joint(None, 1, 1).unwrap().disagreement(), 0.0);
    assert_eq!(population.joint(Some(99), 0, 1), None);
    assert_eq!(population.joint(None, 0, 99), None);
    let never = Cascade {
        order: &[0, 1],
        accept_if_correct: 1.5,
        accept_if_wrong: 0.0,
    };
    assert_eq!(population.cascade(&never), None);
}

#[test]
fn unknown_prices_stay_unknown_and_windows_without_room_fit_nothing() {
    let workload = workload("workloads/support.toml");
    let price = Price {
        input: TokenPrice(1_000_000),
        output: TokenPrice(1_000_000),
        cached_input: None,
        cache_write: None,
        reasoning: None,
    };
    let terms = [
        Terms {
            context_tokens: Tokens::new(10),
            price: None,
        },
        Terms {
            context_tokens: Tokens::UNKNOWN,
            price: None,
        },
        Terms {
            context_tokens: Tokens::UNKNOWN,
            price: Some(price),
        },
    ];
    let population = workload.population(&terms).unwrap();
    let nothing = population.always(0);
    assert_eq!((nothing.accuracy, nothing.calls), (0.0, 0.0));
    assert_eq!(population.joint(None, 0, 1), None);
    assert_eq!(population.always(1).usd_per_1k, None);
    assert!(population.always(2).usd_per_1k.unwrap() > 0.0);
    // A route that is passed over needs no price, one that may be asked does.
    let cascade = |order: &[usize]| {
        let cascade = Cascade {
            order,
            accept_if_correct: 1.0,
            accept_if_wrong: 0.0,
        };
        population.cascade(&cascade).unwrap()
    };
    let (passed_over, alone) = (cascade(&[0, 2]), population.always(2));
    assert!((passed_over.accuracy - alone.accuracy).abs() < 1e-14);
    assert!((passed_over.usd_per_1k.unwrap() - alone.usd_per_1k.unwrap()).abs() < 1e-14);
    assert_eq!(cascade(&[2, 1]).usd_per_1k, None);
}

#[test]
fn recorded_rows_have_no_known_population() {
    let rows = workload("workloads/lesson-recorded.toml");
    let refused = size::population(&rows, &routes()).unwrap_err();
    assert!(refused.message.contains("recorded"), "{}", refused.message);
}

#[test]
fn worlds_too_large_to_integrate_are_refused_in_words() {
    let mut text = String::from("[synthetic]\nrequests = 1\nslope = 100\n");
    let (mut languages, mut shifts) = (Vec::new(), Vec::new());
    for at in 0..1_000 {
        languages.push(format!("l{at} = 0.001"));
        shifts.push(format!("l{at} = 0.{at:03}"));
    }
    text += &format!("language = {{ {} }}\n", languages.join(", "));
    text += "[synthetic.task.t]\nshare = 1.0\ndifficulty = { beta = [0.05, 0.05] }\ntokens = { input = 1, output = 1 }\n";
    text += &format!(
        "[synthetic.model.m]\nskill = {{ t = 0.5 }}\nlanguage = {{ {} }}\n",
        shifts.join(", ")
    );
    let world = workload_of("large.toml", &text);
    let refused = size::population(&world, &routes()).unwrap_err();
    assert!(refused.message.contains("too large"), "{}", refused.message);
}
