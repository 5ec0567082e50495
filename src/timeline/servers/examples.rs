//! Servers on examples small enough to work out by hand, and against a plain second implementation.

use proptest::prelude::*;

use super::*;
use crate::units::Probability;

const NONE: Limits = Limits::NONE;

fn ms(millis: u64) -> Instant {
    Instant(millis * 1_000)
}

/// A whole answer of `tokens` tokens to no prompt, sent after `at` milliseconds.
fn whole(at: u64, tokens: u32, patience: Duration) -> Work {
    Work {
        at: ms(at),
        input: Tokens::new(0),
        output: Tokens::new(tokens),
        slow: 1.0,
        lanes: 0x1234_5678_9abc_def0,
        limits: Limits {
            attempt: patience,
            ..NONE
        },
        stream: false,
        breaks: None,
    }
}

/// The first token at once, then a millisecond a token.
fn by_token() -> Latency {
    Latency::new(0.0, 0.0, 1.0).unwrap()
}

/// (start, end, ending) of each, in milliseconds.
fn serve(latency: Latency, works: &[Work]) -> Vec<(u64, u64, Ending)> {
    let mut servers = Servers::new(&[latency]);
    works
        .iter()
        .map(|work| {
            let timing = servers.serve(0, work);
            assert!(timing.over.0.is_multiple_of(1_000));
            (
                timing.started.0 / 1_000,
                timing.over.0 / 1_000,
                timing.ending,
            )
        })
        .collect()
}

#[test]
fn two_servers_take_attempts_in_the_order_they_came() {
    use Ending::Complete;
    let two = by_token().with_slots(2, 1.0).unwrap();
    let patient = |at, tokens| whole(at, tokens, Duration::MAX);
    let found = serve(
        two,
        &[
            patient(0, 11), // first server until 10
            patient(1, 5),  // second server until 5
            patient(2, 21), // waits for the second: 5 to 25
            patient(3, 2),  // waits for the first: 10 to 11
            patient(4, 3),  // waits for the first again: 11 to 13
            patient(20, 5), // the first is idle since 13
            patient(30, 1), // both idle
        ],
    );
    assert_eq!(
        found,
        [
            (0, 10, Complete),
            (1, 5, Complete),
            (5, 25, Complete),
            (10, 11, Complete),
            (11, 13, Complete),
            (20, 24, Complete),
            (30, 30, Complete),
        ]
    );
}

#[test]
fn a_server_that_gets_free_at_the_moment_of_an_arrival_is_free() {
    let one = by_token().with_slots(1, 1.0).unwrap();
    let patient = |at, tokens| whole(at, tokens, Duration::MAX);
    let found = serve(
        one,
        &[patient(0, 6), patient(5, 6), patient(5, 6), patient(15, 6)],
    );
    let starts: Vec<u64> = found.iter().map(|one| one.0).collect();
    assert_eq!(starts, [0, 5, 10, 15]);
}

#[test]
fn two_servers_that_get_free_together_take_two_who_wait() {
    let two = by_token().with_slots(2, 1.0).unwrap();
    let patient = |at, tokens| whole(at, tokens, Duration::MAX);
    let found = serve(
        two,
        &[
            patient(0, 11),
            patient(0, 11),
            patient(1, 3),
            patient(2, 4),
            patient(3, 5),
        ],
    );
    let starts: Vec<u64> = found.iter().map(|one| one.0).collect();
    assert_eq!(starts, [0, 0, 10, 10, 12]);
}

#[test]
fn who_hangs_up_before_its_turn_never_occupies_a_server() {
    use Ending::{Complete, HungUp, LeftQueue};
    let one = by_token().with_slots(1, 1.0).unwrap();
    let found = serve(
        one,
        &[
            whole(0, 11, Duration::MAX),              // 0 to 10
            whole(1, 101, Duration::from_millis(5)),  // gone at 6
            whole(2, 4, Duration::MAX),               // 10 to 13
            whole(3, 101, Duration::from_millis(10)), // gone at 13, when its turn comes
            whole(4, 101, Duration::from_millis(19)), // 13, gone at 23
            whole(5, 2, Duration::MAX),               // 23 to 24
        ],
    );
    assert_eq!(
        found,
        [
            (0, 10, Complete),
            (10, 6, LeftQueue),
            (10, 13, Complete),
            (13, 13, HungUp),
            (13, 23, HungUp),
            (23, 24, Complete),
        ]
    );
}

#[test]
fn an_answer_that_breaks_off_frees_its_server_then() {
    use Ending::{BrokeOff, Complete, HungUp};
    let one = by_token().with_slots(1, 1.0).unwrap();
    let quarter = Some(1 << 30);
    let found = serve(
        one,
        &[
            Work {
                breaks: quarter,
                ..whole(0, 41, Duration::MAX)
            },
            whole(1, 4, Duration::MAX),
            // The caller hangs up before it would break off.
            Work {
                breaks: quarter,
                ..whole(13, 101, Duration::from_millis(20))
            },
        ],
    );
    assert_eq!(
        found,
        [(0, 10, BrokeOff), (10, 13, Complete), (13, 33, HungUp)]
    );
}

#[test]
fn streams_are_waited_for_by_token_and_whole_answers_by_their_end() {
    let latency = Latency::new(100.0, 0.0, 10.0).unwrap();
    let limits = |ttft, gap, attempt| Limits {
        ttft: Duration::from_millis(ttft),
        gap: Duration::from_millis(gap),
        attempt: Duration::from_millis(attempt),
    };
    // First token at 100 ms, complete at 300 ms.
    let cases = [
        (true, limits(100, 10, 300), 300, Ending::Complete),
        (true, limits(99, 10, 300), 99, Ending::HungUp),
        (true, limits(100, 9, 300), 109, Ending::HungUp),
        (true, limits(100, 10, 299), 299, Ending::HungUp),
        (true, limits(100, 10, 99), 99, Ending::HungUp),
        (true, limits(60, 10, 50), 50, Ending::HungUp),
        (false, limits(1, 1, 300), 300, Ending::Complete),
        (false, limits(1, 1, 299), 299, Ending::HungUp),
    ];
    for (stream, limits, over, ending) in cases {
        let work = Work {
            limits,
            stream,
            ..whole(0, 21, Duration::MAX)
        };
        let timing = Servers::new(std::slice::from_ref(&latency)).serve(0, &work);
        assert_eq!((timing.over, timing.ending), (ms(over), ending), "{work:?}");
        assert_eq!((timing.first_token, timing.ended), (ms(100), ms(300)));
    }
}

#[test]
fn times_follow_the_formula() {
    let half = Probability::new(0.5).unwrap();
    let latency = Latency::new(80.0, 0.5, 25.0)
        .unwrap()
        .with_cached_share(half);
    let mut servers = Servers::new(&[latency.clone(), Latency::INSTANT]);
    let work = Work {
        input: Tokens::new(1_000),
        slow: 3.0,
        stream: true,
        ..whole(7, 101, Duration::MAX)
    };
    let timing = servers.serve(0, &work);
    assert_eq!(timing.first_token, ms(7 + 3 * (80 + 250)));
    assert_eq!(timing.ended, ms(7 + 3 * (80 + 250 + 2_500)));
    assert_eq!(servers.overhead(0), Duration::from_millis(80));
    let timing = servers.serve(1, &work);
    assert_eq!((timing.first_token, timing.ended), (ms(7), ms(7)));
    // An unknown length is not zero, and an answer without tokens is no shorter than its first.
    let unknown = Work {
        input: Tokens::UNKNOWN,
        output: Tokens::UNKNOWN,
        ..whole(0, 0, Duration::MAX)
    };
    let known = latency.with_unknown(Tokens::new(600), Tokens::new(11));
    let timing = Servers::new(std::slice::from_ref(&known)).serve(0, &unknown);
    assert_eq!(timing.first_token, ms(80 + 150));
    assert_eq!(timing.ended, ms(80 + 150 + 250));
    let none = Servers::new(&[known]).serve(0, &whole(0, 0, Duration::MAX));
    assert_eq!((none.first_token, none.ended), (ms(80), ms(80)));
}

#[test]
fn first_token_and_pace_vary_independently() {
    let spread = |sigma| Spread::lognormal(sigma).unwrap();
    let latency = Latency::new(100.0, 0.0, 10.0).unwrap();
    let both = latency.with_spread(spread(0.5)).with_pace(spread(0.1));
    let mut servers = Servers::new(&[both]);
    let mut at = |lanes| {
        let timing = servers.serve(
            0,
            &Work {
                lanes,
                ..whole(0, 11, Duration::MAX)
            },
        );
        let rest = timing.ended.since(timing.first_token).0 as f64;
        (timing.first_token.0 as f64, rest)
    };
    // Lanes at one standard deviation: Φ(1) = 0.841344746.
    let lane = (0.841_344_746 * 4_294_967_296.0) as u64;
    let median = 1_u64 << 31;
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-5;
    let (first, rest) = at(median << 32 | lane);
    assert!(near(first, 100e3 * 0.5_f64.exp()) && near(rest, 100e3));
    let (first, rest) = at(lane << 32 | median);
    assert!(near(first, 100e3) && near(rest, 100e3 * 0.1_f64.exp()));
}

#[test]
fn stalls_come_as_often_as_they_should_and_add_to_the_first_token_only() {
    let share = Probability::new(0.01).unwrap();
    let latency = Latency::new(100.0, 0.0, 10.0).unwrap();
    let stalling = latency.with_stall(share, 30_000.0, Spread::NONE).unwrap();
    let mut servers = Servers::new(&[stalling]);
    let total = 200_000;
    let mut stalled = 0;
    for n in 0..total {
        let timing = servers.serve(
            0,
            &Work {
                lanes: mix64(n),
                slow: 2.0,
                ..whole(0, 11, Duration::MAX)
            },
        );
        let first = timing.first_token.0 / 1_000;
        assert_eq!(
            timing.ended.since(timing.first_token),
            Duration::from_millis(200)
        );
        match first {
            200 => {}
            30_200 => stalled += 1,
            other => panic!("{other}"),
        }
    }
    // Binomial: four standard deviations.
    let deviation = (total as f64 * 0.01 * 0.99).sqrt();
    let off = (f64::from(stalled) - 0.01 * total as f64).abs();
    assert!(off < 4.0 * deviation, "{stalled} of {total}");
}

#[test]
fn load_rises_evenly_from_one_attempt_to_a_full_house() {
    // 1 + 2 × (n − 1)/3, for 90 ms: 90, 150, 210, 270, and 270 for whoever had to wait.
    let four = Latency::new(90.0, 0.0, 0.0)
        .unwrap()
        .with_slots(4, 3.0)
        .unwrap();
    let work = |at| whole(at, 1, Duration::MAX);
    let found = serve(
        four,
        &[work(0), work(0), work(0), work(0), work(0), work(1_000)],
    );
    let spans: Vec<u64> = found.iter().map(|one| one.1 - one.0).collect();
    assert_eq!(spans, [90, 150, 210, 270, 270, 90]);
    assert_eq!(found[4].0, 90);
}

#[test]
fn routes_do_not_share_servers() {
    let one = by_token().with_slots(1, 1.0).unwrap();
    let mut servers = Servers::new(&[one.clone(), one]);
    let work = whole(0, 11, Duration::MAX);
    assert_eq!(servers.serve(0, &work).started, ms(0));
    assert_eq!(servers.serve(1, &work).started, ms(0));
    assert_eq!(servers.serve(0, &work).started, ms(10));
}

#[test]
fn the_largest_times_saturate_and_do_not_panic() {
    let slowest = Latency::new(
        Latency::DELAY_MAX_MS,
        Latency::PER_TOKEN_MAX_MS,
        Latency::PER_TOKEN_MAX_MS,
    )
    .unwrap()
    .with_spread(Spread::lognormal(Spread::SIGMA_MAX).unwrap())
    .with_pace(Spread::lognormal(Spread::SIGMA_MAX).unwrap())
    .with_slots(2, Latency::LOAD_FACTOR_MAX)
    .unwrap();
    let mut servers = Servers::new(&[slowest]);
    for n in 0..5 {
        let timing = servers.serve(
            0,
            &Work {
                input: Tokens::new(u32::MAX),
                output: Tokens::new(u32::MAX),
                lanes: u64::MAX,
                slow: 1e6,
                at: Instant(u64::MAX - 5 + n),
                ..whole(0, 0, Duration::MAX)
            },
        );
        assert_eq!(timing.ended, Instant(u64::MAX));
    }
}

/// When each attempt starts and is over, found by looking at all earlier ones: it starts at the first
/// moment from its arrival on at which fewer than `slots` of those ahead of it are in service, and not
/// before any of those ahead of it.
fn by_search(slots: usize, works: &[(u64, u64, u64)]) -> Vec<(u64, Option<u64>)> {
    // (start, over) of those who were served.
    let mut served: Vec<(u64, u64)> = Vec::new();
    let mut found = Vec::new();
    for &(at, service, patience) in works {
        let mut moments: Vec<u64> = served
            .iter()
            .map(|one| one.1)
            .filter(|end| *end > at)
            .collect();
        moments.push(at);
        moments.sort_unstable();
        let free = |now: u64| served.iter().filter(|(_, over)| *over > now).count() < slots;
        let start = moments.into_iter().find(|now| free(*now)).unwrap();
        if start > at + patience {
            found.push((at + patience, None));
        } else {
            let over = (start + service).min(at + patience);
            served.push((start, over));
            found.push((over, Some(start)));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn a_heap_of_ends_is_the_queue(
        slots in 1..5_u32,
        steps in prop::collection::vec((0..6_u64, 0..20_u64, 0..40_u64), 1..60),
    ) {
        let latency = by_token().with_slots(slots, 1.0).unwrap();
        let mut servers = Servers::new(&[latency]);
        let mut at = 0;
        let mut works = Vec::new();
        for (gap, service, patience) in steps {
            at += gap;
            works.push((at, service, patience));
        }
        for (work, (over, start)) in works.iter().zip(by_search(slots as usize, &works)) {
            let patience = Duration::from_millis(work.2);
            let timing = servers.serve(0, &whole(work.0, work.1 as u32 + 1, patience));
            prop_assert_eq!(timing.over, ms(over));
            prop_assert_eq!(timing.ending == Ending::LeftQueue, start.is_none());
            if let Some(start) = start {
                prop_assert_eq!(timing.started, ms(start));
            }
        }
    }
}
