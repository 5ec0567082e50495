//! Servers against the closed forms of queueing theory.
//!
//! Arrivals are Poisson, from the project's own draws, with fixed seeds. The tolerance of a mean is four
//! standard errors, and these come from the means of 50 batches in a row, each far longer than the queue
//! remembers (batch means; Law, Simulation Modeling and Analysis, chapter 9). A test also says how large a
//! standard error may be, so that none can pass by being blunt.

use super::*;
use crate::workload::draws::Page;
use crate::workload::{Domain, DrawKey};

/// Mean service time, in microseconds.
const SERVICE: f64 = 1e6;
const BATCHES: usize = 50;

/// What was seen of a queue, as one value per batch.
struct Seen {
    /// Mean wait, in mean service times, of all that arrive.
    wait: Vec<f64>,
    /// Share of arrivals that had to wait.
    waited: Vec<f64>,
    /// Share of arrivals that left the queue.
    left: Vec<f64>,
}

/// Runs `customers` after a tenth more that only fill the system.
fn run(latency: &Latency, load: f64, customers: usize, seed: u64, work: &Work) -> Seen {
    let servers_count = f64::from(latency.slots().unwrap());
    let mean_gap = SERVICE / (load * servers_count);
    let key = DrawKey {
        seed,
        domain: Domain::Lab,
        replicate: 0,
    };
    let mut page = Page::open(key, 77, 0);
    let gaps = Spread::exponential();
    let mut servers = Servers::new(std::slice::from_ref(latency));
    let batch = customers / BATCHES;
    let warm = customers / 10;
    let mut seen = Seen {
        wait: vec![0.0; BATCHES],
        waited: vec![0.0; BATCHES],
        left: vec![0.0; BATCHES],
    };
    let mut clock = 0.0;
    let mut blocks = [[0; 16]; 64];
    for number in 0..warm + batch * BATCHES {
        if number % 64 == 0 {
            page.read(&mut blocks);
        }
        let block = &blocks[number % 64];
        clock += mean_gap * gaps.at(block[0]);
        let at = Instant(clock as u64);
        let lanes = u64::from(block[1]) | u64::from(block[2]) << 32;
        let timing = servers.serve(0, &Work { at, lanes, ..*work });
        if number < warm {
            continue;
        }
        let into = (number - warm) / batch;
        let share = 1.0 / batch as f64;
        let left = timing.ending == Ending::LeftQueue;
        seen.left[into] += f64::from(u8::from(left)) * share;
        seen.wait[into] += timing.started.since(at).0 as f64 / SERVICE * share;
        seen.waited[into] += f64::from(u8::from(timing.started > at)) * share;
    }
    seen
}

/// The mean of the batches is within four standard errors of `expected`, and the standard error is at most
/// `blunt` of it.
#[track_caller]
fn agrees(what: &str, batches: &[f64], expected: f64, blunt: f64) {
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let squares: f64 = batches.iter().map(|x| (x - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    assert!(
        (mean - expected).abs() <= 4.0 * error,
        "{what}: {mean} instead of {expected}, standard error {error}"
    );
    assert!(
        error <= blunt * expected,
        "{what}: a standard error of {error} shows nothing about {expected}"
    );
}

/// A patient caller; the whole service is before the first token.
fn patient() -> Work {
    Work {
        at: Instant::ZERO,
        input: Tokens::new(0),
        output: Tokens::new(1),
        slow: 1.0,
        lanes: 0,
        limits: Limits::NONE,
        stream: false,
        breaks: None,
    }
}

fn service(spread: Spread, slots: u32) -> Latency {
    let latency = Latency::new(SERVICE / 1e3, 0.0, 0.0).unwrap();
    latency.with_spread(spread).with_slots(slots, 1.0).unwrap()
}

/// P(wait > 0) of M/M/c with `c` servers at load ρ (Erlang, 1917): from Erlang's B by its recursion
/// B(n) = aB(n − 1)/(n + aB(n − 1)), then C = B/(1 − ρ(1 − B)).
fn erlang_c(c: u32, load: f64) -> f64 {
    let offered = load * f64::from(c);
    let mut b = 1.0;
    for n in 1..=c {
        b = offered * b / (f64::from(n) + offered * b);
    }
    b / (1.0 - load * (1.0 - b))
}

#[test]
fn erlang_c_is_the_published_one() {
    // M/M/1 waits with probability ρ; two servers at ρ = 1/2: 1/3; ten at a = 8: 0.40918 (any table).
    assert!((erlang_c(1, 0.7) - 0.7).abs() < 1e-12);
    assert!((erlang_c(2, 0.5) - 1.0 / 3.0).abs() < 1e-12);
    assert!((erlang_c(10, 0.8) - 0.409_18).abs() < 1e-5);
}

#[test]
fn exponential_service_waits_as_erlang_says() {
    for (c, load, seed, blunt) in [
        (1, 0.5, 1, 0.02),
        (1, 0.8, 2, 0.04),
        (2, 0.7, 3, 0.04),
        (5, 0.8, 4, 0.04),
        (5, 0.9, 5, 0.06),
        (20, 0.9, 6, 0.06),
        // Waits are rare and long here, and so vary more.
        (100, 0.9, 7, 0.1),
    ] {
        let latency = service(Spread::exponential(), c);
        let seen = run(&latency, load, 500_000, seed, &patient());
        let waits = erlang_c(c, load);
        // Mean wait C/(cμ − λ), here in units of 1/μ.
        let mean = waits / (f64::from(c) * (1.0 - load));
        let case = format!("{c} servers at {load}");
        agrees(
            &format!("{case}, share that waits"),
            &seen.waited,
            waits,
            blunt / 2.0,
        );
        agrees(&format!("{case}, mean wait"), &seen.wait, mean, blunt);
    }
}

#[test]
fn one_server_waits_as_pollaczek_and_khinchine_say() {
    // Mean wait λE[S²]/(2(1 − ρ)), 1930 and 1932. For lognormal service with median 1, E[S] = e^(σ²/2)
    // and E[S²] = e^(2σ²).
    for (sigma, load, seed) in [
        (0.0, 0.5, 11),
        (0.0, 0.9, 12),
        (0.4, 0.7, 13),
        (1.0, 0.7, 14),
    ] {
        let sigma: f64 = sigma;
        let mean = (sigma * sigma / 2.0).exp();
        let latency = service(Spread::lognormal(sigma).unwrap(), 1);
        let expected = load / mean * (2.0 * sigma * sigma).exp() / (2.0 * (1.0 - load));
        let customers = if sigma < 1.0 { 500_000 } else { 1_000_000 };
        let seen = run(&latency, load / mean, customers, seed, &patient());
        let case = format!("σ {sigma} at {load}");
        agrees(&format!("{case}, mean wait"), &seen.wait, expected, 0.04);
        agrees(
            &format!("{case}, share that waits"),
            &seen.waited,
            load,
            0.01,
        );
    }
}

#[test]
fn impatient_callers_leave_as_barrer_says() {
    // M/M/1 in which whoever would wait longer than τ leaves (Barrer, 1957), in units of 1/μ: the wait that
    // an arrival meets has an atom p at 0 and density λp·e^((λ − 1)x) up to τ, λp·e^(λτ − x) beyond. It
    // works at loads above 1, too. Here the first token comes as soon as service starts, so that a limit
    // on it is a limit on the wait.
    let answer = Work {
        output: Tokens::new(2),
        stream: true,
        ..patient()
    };
    let latency = Latency::new(0.0, 0.0, SERVICE / 1e3).unwrap();
    let latency = latency.with_pace(Spread::exponential()).with_slots(1, 1.0);
    for (load, patience, seed) in [(0.8, 1.0, 21), (0.9, 3.0, 22), (1.5, 2.0, 23)] {
        let load: f64 = load;
        let grown = ((load - 1.0) * patience).exp();
        let within = load * (grown - 1.0) / (load - 1.0);
        let idle = 1.0 / (1.0 + within + load * grown);
        let leaves = idle * load * grown;
        let limits = Limits {
            ttft: Duration((patience * SERVICE) as u64),
            ..Limits::NONE
        };
        let seen = run(
            latency.as_ref().unwrap(),
            load,
            500_000,
            seed,
            &Work { limits, ..answer },
        );
        let case = format!("load {load}, patience {patience}");
        agrees(
            &format!("{case}, share that leaves"),
            &seen.left,
            leaves,
            0.02,
        );
        agrees(
            &format!("{case}, share that waits"),
            &seen.waited,
            1.0 - idle,
            0.01,
        );
    }
}

#[test]
fn the_comparison_would_notice_a_wrong_queue() {
    // One server more or a shade less load, and the formulas no longer hold.
    let latency = service(Spread::exponential(), 5);
    let seen = run(&latency, 0.8, 500_000, 4, &patient());
    for (c, load) in [(6, 0.8), (5, 0.78)] {
        let wrong = erlang_c(c, load);
        let found = std::panic::catch_unwind(|| agrees("", &seen.waited, wrong, 0.02));
        assert!(found.is_err(), "{c} {load}");
    }
}
