//! The default latencies against measured ones: llmperf-leaderboard's individual requests of December
//! 2023, and the statistics that were computed from them independently.

use std::collections::BTreeMap;
use std::io::Read as _;

use routelab::router::Limits;
use routelab::timeline::{Latency, Servers, Work};
use routelab::units::{Duration, Instant, Tokens, mix64};

use crate::given::{reference, shared};

/// What was measured at one provider with one model: times to the first token and between tokens, in
/// seconds.
#[derive(Default)]
struct Measured {
    ttft: Vec<f64>,
    itl: Vec<f64>,
}

/// By provider and model.
fn measured() -> Option<BTreeMap<(String, String), Measured>> {
    let bytes = shared("data/traffic/traces/llmperf_2023_latency.csv.gz")?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    let mut all = BTreeMap::<_, Measured>::new();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    for row in reader.records() {
        let row = row.unwrap();
        if !row[3].is_empty() {
            continue;
        }
        let one = all
            .entry((row[0].to_owned(), row[1].to_owned()))
            .or_default();
        one.ttft.push(row[4].parse().unwrap());
        one.itl.push(row[5].parse().unwrap());
    }
    for one in all.values_mut() {
        one.ttft.sort_by(f64::total_cmp);
        one.itl.sort_by(f64::total_cmp);
    }
    Some(all)
}

/// The sample standard deviation of the logarithms.
fn sigma(values: &[f64]) -> f64 {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    (squares / (logs.len() as f64 - 1.0)).sqrt()
}

/// The quantile of sorted values, with linear interpolation.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let place = p * (sorted.len() as f64 - 1.0);
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (place - low as f64) * (sorted[high] - sorted[low])
}

/// A provider is steady here if its slowest request took less than five times the median.
fn steady(one: &Measured) -> bool {
    one.ttft[one.ttft.len() - 1] < 5.0 * quantile(&one.ttft, 0.5) && sigma(&one.itl) < 0.3
}

/// Times to the first token and per further token, in seconds, that a preset gives 550 prompt tokens and
/// 150 of an answer, as the benchmark asked for.
fn modelled(preset: &str, requests: u64) -> Measured {
    let latency = Latency::preset(preset).unwrap();
    let mut servers = Servers::new(&[latency]);
    let mut found = Measured::default();
    for number in 0..requests {
        let timing = servers.serve(
            0,
            &Work {
                at: Instant::ZERO,
                input: Tokens::new(550),
                output: Tokens::new(150),
                slow: 1.0,
                lanes: mix64(number),
                limits: Limits::NONE,
                stream: true,
                breaks: None,
            },
        );
        let rest = timing.ended.since(timing.first_token);
        found.ttft.push(timing.first_token.0 as f64 / 1e6);
        found.itl.push(rest.as_secs_f64() / 149.0);
    }
    found.ttft.sort_by(f64::total_cmp);
    found.itl.sort_by(f64::total_cmp);
    found
}

#[test]
fn the_spread_of_the_first_token_is_one_that_steady_providers_show() {
    let (Some(all), Some(statistics), Some(defaults)) = (
        measured(),
        reference("data/traffic/reference_stats.json"),
        reference("data/traffic/realism_defaults.json"),
    ) else {
        return;
    };
    let (mut first, mut pace, mut compared) = (Vec::new(), Vec::new(), 0);
    for ((provider, model), one) in &all {
        let unit = format!("llmperf_2023_latency/{provider}/{model}");
        let known = &statistics["units"][&unit]["ttft_s"]["lognormal_sigma_ddof1"];
        // Not every unit was computed twice.
        if let Some(known) = known.as_f64() {
            assert!((sigma(&one.ttft) / known - 1.0).abs() < 1e-9, "{unit}");
            compared += 1;
        }
        if steady(one) {
            first.push(sigma(&one.ttft));
            pace.push(sigma(&one.itl));
        }
    }
    assert!(compared >= 8, "only {compared} were compared");
    assert!(first.len() >= 12, "only {} are steady", first.len());
    let ends = |values: &[f64]| {
        values.iter().fold((f64::MAX, 0.0_f64), |(low, high), v| {
            (low.min(*v), high.max(*v))
        })
    };
    let (low, high) = ends(&first);
    let stated = &defaults["latency"]["ttft_lognormal_sigma_range_steady"];
    assert!((low - stated[0].as_f64().unwrap()).abs() < 0.01, "{low}");
    assert!((high - stated[1].as_f64().unwrap()).abs() < 0.01, "{high}");
    let (slow_low, slow_high) = ends(&pace);
    for preset in ["hosted-70b", "hosted-8b"] {
        let mut found = modelled(preset, 50_000);
        // Stalls are measured below.
        found.ttft.retain(|value| *value < 50.0);
        let (of_first, of_pace) = (sigma(&found.ttft), sigma(&found.itl));
        assert!((low..=high).contains(&of_first), "{preset}: {of_first}");
        assert!(
            (slow_low..=slow_high).contains(&of_pace),
            "{preset}: {of_pace}"
        );
        let stated = defaults["latency"]["ttft_lognormal_sigma_steady"].as_f64();
        // The standard error of a σ from n values is σ/√(2n): 0.0006.
        assert!((of_first - stated.unwrap()).abs() < 0.003, "{of_first}");
    }
}

#[test]
fn a_large_hosted_model_takes_as_long_as_measured_ones() {
    let Some(defaults) = reference("data/traffic/realism_defaults.json") else {
        return;
    };
    let found = modelled("hosted-70b", 20_000);
    let within = |key: &str, value: f64| {
        let range = &defaults["latency"][key];
        let (low, high) = (range[0].as_f64().unwrap(), range[1].as_f64().unwrap());
        assert!((low..=high).contains(&value), "{key}: {value}");
    };
    within(
        "hosted_70b_2023_ttft_ms_p50",
        quantile(&found.ttft, 0.5) * 1e3,
    );
    within(
        "hosted_70b_2023_itl_ms_p50",
        quantile(&found.itl, 0.5) * 1e3,
    );
}

#[test]
fn stalls_make_the_tail_that_no_lognormal_has() {
    let Some(all) = measured() else { return };
    let one = &all[&("together".to_owned(), "llama-2-13b".to_owned())];
    let found = modelled("stalling-70b", 200_000);
    for (what, times) in [("measured", &one.ttft), ("modelled", &found.ttft)] {
        let at = |p| quantile(times, p);
        let (p50, p95, p99) = (at(0.5), at(0.95), at(0.99));
        assert!(
            p95 < 2.0 * p50 && p99 > 50.0 * p50,
            "{what}: {p50} {p95} {p99}"
        );
        // The lognormal with that median and that 95th percentile is nowhere near the 99th.
        let lognormal = p50 * (p95 / p50).powf(2.326_348 / 1.644_854);
        assert!(lognormal < p99 / 20.0, "{what}: {lognormal} {p99}");
    }
    // The default's share of stalls, 0.001, is within four standard deviations of what all providers
    // that keep models loaded show together.
    let (mut stalled, mut total) = (0.0, 0.0);
    for ((provider, _), one) in &all {
        if provider != "replicate" {
            let limit = 10.0 * quantile(&one.ttft, 0.5);
            total += one.ttft.len() as f64;
            stalled += one.ttft.iter().filter(|value| **value > limit).count() as f64;
        }
    }
    assert!(stalled >= 1.0 && (stalled - 0.001 * total).abs() < 4.0 * (0.001 * total).sqrt());
    let usual = modelled("hosted-70b", 200_000);
    let share = usual.ttft.iter().filter(|value| **value > 50.0).count() as f64 / 200_000.0;
    assert!(
        (share - 0.001).abs() < 4.0 * (0.001_f64 / 200_000.0).sqrt(),
        "{share}"
    );
    // A model that has to be loaded: far more of both.
    let cold = modelled("cold-70b", 20_000);
    assert!(quantile(&cold.ttft, 0.95) > 10.0 * quantile(&cold.ttft, 0.5));
    assert!(Duration::from_secs_f64(quantile(&cold.ttft, 0.99)) > Duration::from_secs(30));
}
