//! What one call through the router costs: the fast path of a simulation.
//!
//! Answers and verdicts come from a table that is too long for the branch predictor to learn.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use routelab::router::{
    CredentialId, Fault, FaultKind, Input, Leg, Limits, Need, Plan, ProviderId, Regions, Reply,
    RouteId, RouteSpec, Router, RouterConfig, Step, Target, Verdict, VerifierId,
};
use routelab::units::{Instant, Tokens};

const CALLS: usize = 1 << 16;

fn router() -> Router {
    let route = |index: u16| RouteSpec {
        name: format!("route{index}").into(),
        provider: ProviderId(index),
        credential: CredentialId(index),
        window: Tokens::new(16_000 << (2 * index)),
        tools: true,
        residency: Regions(1),
        local: false,
        price: None,
        weight: None,
        limits: Limits::default(),
    };
    Router::new(&RouterConfig {
        routes: (0..3).map(route).collect(),
        ..RouterConfig::default()
    })
    .expect("a valid configuration")
}

fn need(input: u32) -> Need {
    Need {
        input_tokens: Tokens::new(input),
        output_cap: Tokens::new(500),
        tools: false,
        residency: Regions(1),
        local_only: false,
        account: None,
        deadline: None,
    }
}

/// Pseudo-random 32-bit numbers (Vigna's SplitMix64 step).
fn draws() -> Vec<u32> {
    let mut state = 2026_u64;
    (0..CALLS)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z >> 32) as u32
        })
        .collect()
}

/// Drives one call to its end; eight bits of `draw` decide on each answer and each verdict.
#[inline(always)]
fn drive(router: &mut Router, plan: Plan, need: Need, draw: u32, faults: bool) -> u32 {
    let mut call = router.open(plan, need, u64::from(draw));
    let mut now = Instant(1);
    let mut bits = draw;
    let mut input = Input::Begin;
    loop {
        match router.step(&mut call, input, now, &mut ()) {
            Step::Send { .. } => {
                let failed = faults && bits & 0xff < 5;
                bits = bits.rotate_right(8);
                input = if failed {
                    Input::Fault(Fault {
                        kind: FaultKind::Overloaded,
                        retry_after: None,
                        usage: None,
                    })
                } else {
                    Input::Reply(Reply { usage: None })
                };
            }
            Step::Verify { .. } => {
                input = Input::Verdict(if bits & 0xff < 180 {
                    Verdict::Accept
                } else {
                    Verdict::Reject
                });
                bits = bits.rotate_right(8);
            }
            Step::Wait { until } => {
                now = until;
                input = Input::Wake;
            }
            Step::Done(served) => return u32::from(served.route.0),
            Step::Failed(_) => return 3,
        }
    }
}

fn calls(c: &mut Criterion) {
    let draws = draws();
    let mut group = c.benchmark_group("router");
    group.throughput(Throughput::Elements(CALLS as u64));
    let mut bench = |name: &str, plan: Plan, faults: bool| {
        let mut router = router();
        group.bench_function(name, |b| {
            b.iter(|| {
                router.reset();
                let mut sum = 0;
                for &draw in black_box(&draws) {
                    let need = need(draw & 0x1fff);
                    sum += drive(&mut router, plan, need, draw, faults);
                }
                sum
            });
        });
    };
    let single = Plan::single(RouteId(0));
    let verified = |route| Leg {
        target: Target::Route(RouteId(route)),
        verifier: Some(VerifierId(0)),
    };
    let cascade = Plan::new(&[verified(0), verified(1), verified(2)]).expect("three legs");
    bench("single", single, false);
    bench("cascade", cascade, false);
    bench("single_2_percent_faults", single, true);
    group.finish();
}

criterion_group!(benches, calls);
criterion_main!(benches);
