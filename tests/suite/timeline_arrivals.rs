//! When requests come: processes against theory, recorded traces against reference values, and the
//! independence of tenants.

use routelab::catalogue::Catalogue;
use routelab::source::{Diagnostics, SourceFile};
use routelab::timeline::{self, Arrival, Arrivals, Names};
use routelab::units::{Duration, Instant};
use routelab::workload::{Domain, DrawKey, NO_NAME};

use crate::given::{reference, routes, shared};

pub(crate) const TENANTS: [&str; 3] = ["acme", "borealis", "cygnus"];

pub(crate) fn key(replicate: u32) -> DrawKey {
    DrawKey {
        seed: 2026,
        domain: Domain::Traffic,
        replicate,
    }
}

pub(crate) fn draft(
    text: &str,
    tenants: &[&str],
    catalogue: &Catalogue,
    found: &mut Diagnostics,
) -> Option<timeline::Draft> {
    let tenants: Vec<String> = tenants.iter().map(|&name| name.to_owned()).collect();
    let names = Names {
        catalogue,
        tenants: &tenants,
    };
    timeline::parse(&SourceFile::new("world.toml", text), &names, found)
}

/// Arrivals of a workload with `TENANTS` whose table `[timeline.arrivals]` reads like this.
pub(crate) fn arrivals(text: &str) -> Arrivals {
    arrivals_of(text, &TENANTS)
}

pub(crate) fn arrivals_of(text: &str, tenants: &[&str]) -> Arrivals {
    let mut found = Diagnostics::default();
    let text = format!("[timeline.arrivals]\n{text}");
    let draft = draft(&text, tenants, &routes(), &mut found);
    let built = draft.and_then(|draft| draft.build(None, &mut found));
    assert!(found.0.is_empty(), "{}", found.render(false));
    built.unwrap().arrivals
}

/// A trace, and the complaints about it.
pub(crate) fn trace(keys: &str, data: &[u8]) -> (Option<Arrivals>, String) {
    let mut found = Diagnostics::default();
    let text = format!("[timeline.arrivals]\ntrace = \"t.data\"\n{keys}");
    let draft = draft(&text, &TENANTS, &routes(), &mut found);
    let draft = draft.unwrap_or_else(|| panic!("{}", found.render(false)));
    assert_eq!(draft.trace_path().unwrap().value, "t.data");
    let built = draft.build(Some(data), &mut found);
    assert_eq!(built.is_none(), found.has_errors());
    (built.map(|timeline| timeline.arrivals), found.render(false))
}

/// Seconds of the arrivals before `until_s`.
fn times(arrivals: &Arrivals, replicate: u32, until_s: f64) -> Vec<f64> {
    arrivals
        .open(key(replicate))
        .map(|arrival| arrival.at.since(Instant::ZERO).as_secs_f64())
        .take_while(|at| *at < until_s)
        .collect()
}

/// Mean and variance (n − 1) of numbers.
fn mean_variance(numbers: &[f64]) -> (f64, f64) {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, squares / (count - 1.0))
}

/// Counts in bins of `width_s` from the first arrival on; the last, partial bin is left out.
fn counts(times: &[f64], width_s: f64) -> Vec<f64> {
    let micros: Vec<u64> = times.iter().map(|at| (at * 1e6).round() as u64).collect();
    let width = (width_s * 1e6) as u64;
    let span = micros.last().unwrap() - micros[0];
    let mut bins = vec![0.0; (span / width) as usize];
    for at in &micros {
        if let Some(bin) = bins.get_mut(((at - micros[0]) / width) as usize) {
            *bin += 1.0;
        }
    }
    bins
}

fn dispersion(times: &[f64], width_s: f64) -> f64 {
    let (mean, variance) = mean_variance(&counts(times, width_s));
    variance / mean
}

fn gaps(times: &[f64]) -> Vec<f64> {
    times.windows(2).map(|two| two[1] - two[0]).collect()
}

#[test]
fn gaps_have_the_declared_mean_and_variation_and_long_windows_their_square() {
    for (process, cv) in [
        ("\"poisson\"", 1.0_f64),
        ("{ gamma = { cv = 0.4 } }", 0.4),
        ("{ gamma = { cv = 2.3 } }", 2.3),
        ("{ weibull = { cv = 0.4 } }", 0.4),
        ("{ weibull = { cv = 2.3 } }", 2.3),
    ] {
        let arrivals = arrivals(&format!("rate_per_s = 5.0\nprocess = {process}"));
        assert_eq!(arrivals.mean_rate_per_s(), Some(5.0));
        let times = times(&arrivals, 0, 200_000.0);
        let (mean, variance) = mean_variance(&gaps(&times));
        // A million gaps: the standard error of the mean is 0.002·cv/10 of it, the Weibull's variance is the
        // noisiest.
        assert!(
            (5.0 * mean - 1.0).abs() < 0.004 * cv.max(0.5),
            "{process} {mean}"
        );
        let found = variance.sqrt() / mean;
        assert!((found / cv - 1.0).abs() < 0.02, "{process} {found}");
        // The index of dispersion of long windows tends to cv² (Cox, 1962): 1,000 mean gaps are long, and
        // 1,000 windows have a standard error of 4.5 %.
        let index = dispersion(&times, 200.0);
        assert!((index / (cv * cv) - 1.0).abs() < 0.16, "{process} {index}");
    }
}

#[test]
fn counts_of_a_poisson_process_are_poisson() {
    let arrivals = Arrivals::poisson(3.0).unwrap();
    let times = times(&arrivals, 1, 40_000.0);
    let bins = counts(&times, 1.0);
    let mut probability = (-3.0_f64).exp();
    let mut statistic = 0.0;
    let mut rest = bins.len() as f64;
    for count in 0..10 {
        let expected = probability * bins.len() as f64;
        let found = bins.iter().filter(|bin| **bin == f64::from(count)).count() as f64;
        statistic += (found - expected).powi(2) / expected;
        rest -= expected;
        probability *= 3.0 / f64::from(count + 1);
    }
    let above = bins.iter().filter(|bin| **bin >= 10.0).count() as f64;
    statistic += (above - rest).powi(2) / rest;
    // χ² with 10 degrees of freedom: 0.1 % lie above 29.6.
    assert!(statistic < 29.6, "{statistic}");
    // Neighbouring windows are independent: the correlation's standard error is 0.005.
    let (mean, variance) = mean_variance(&bins);
    let products: f64 = bins
        .windows(2)
        .map(|two| (two[0] - mean) * (two[1] - mean))
        .sum();
    assert!((products / bins.len() as f64 / variance).abs() < 0.02);
}

#[test]
fn a_bursty_process_expects_no_more_in_its_first_second_than_later() {
    let arrivals = arrivals("rate_per_s = 10.0\nprocess = { gamma = { cv = 5.0 } }");
    let first: Vec<f64> = (0..3_000)
        .map(|replicate| times(&arrivals, replicate, 1.0).len() as f64)
        .collect();
    let (mean, variance) = mean_variance(&first);
    // An ordinary first gap would give 10 + (25 − 1)/2 or nearly so.
    let error = (variance / 3_000.0).sqrt();
    assert!(
        (mean - 10.0).abs() < 3.5 * error && error < 0.5,
        "{mean} ± {error}"
    );
}

#[test]
fn even_gaps_are_even_and_begin_at_zero() {
    let even = arrivals("rate_per_s = 4.0\nprocess = \"even\"");
    let every = Arrivals::every(Duration::from_millis(250));
    let one: Vec<Arrival> = even.open(key(0)).take(1_000_000).collect();
    let other: Vec<Arrival> = every.open(key(9)).take(1_000_000).collect();
    assert_eq!(one, other);
    assert_eq!(every.mean_rate_per_s(), Some(4.0));
    assert_eq!(
        every.busiest(Duration::from_secs(5), Duration::from_secs(60)),
        Instant::ZERO
    );
    assert_eq!((every.ends(), even.ends()), (None, None));
}

#[test]
fn a_daily_curve_has_its_peak_where_it_should_and_keeps_the_variation_of_gaps() {
    let text = "rate_per_s = 20.0\nprocess = { gamma = { cv = 2.0 } }\ndaily = { peak_to_trough = 9.0, peak_at_h = 15 }";
    let arrivals = arrivals(text);
    let times = times(&arrivals, 0, 10.0 * 86_400.0);
    let hour = |of_day: f64| {
        let inside = |at: &&f64| (((*at % 86_400.0) / 3_600.0) - of_day).abs() < 0.5;
        times.iter().filter(inside).count() as f64
    };
    let expected = 10.0 * 86_400.0 * 20.0;
    // The standard error of a count n is cv·√n.
    assert!(
        (times.len() as f64 - expected).abs() < 4.0 * 2.0 * expected.sqrt(),
        "{}",
        times.len()
    );
    // An hour around the peak holds a little less than the peak's rate: sin(h)/h with h = π/24.
    let level = |cosine: f64| {
        1.0 + 0.8 * cosine * (std::f64::consts::PI / 24.0).sin() / (std::f64::consts::PI / 24.0)
    };
    for (of_day, cosine) in [(15.0, 1.0), (3.0, -1.0), (9.0, 0.0), (21.0, 0.0)] {
        let expected = 720_000.0 * level(cosine);
        let found = hour(of_day);
        assert!(
            (found - expected).abs() < 4.0 * 2.0 * expected.sqrt(),
            "{of_day} {found} {expected}"
        );
    }
    // Around the peak the rate hardly changes, and windows of a minute show the dispersion of the gaps.
    let peak: Vec<f64> = times
        .iter()
        .copied()
        .filter(|at| (at / 3_600.0 - 15.0).abs() < 1.0)
        .collect();
    let (mean, variance) = mean_variance(&gaps(&peak));
    assert!((variance.sqrt() / mean / 2.0 - 1.0).abs() < 0.05);
    let busiest = arrivals.busiest(Duration::from_secs(2_700), Duration::from_secs(86_400));
    let found = busiest.since(Instant::ZERO).as_secs_f64();
    assert!(
        (found - (15.0 * 3_600.0 - 1_350.0)).abs() <= 60.0,
        "{found}"
    );
    assert_eq!(
        arrivals.busiest(Duration::from_secs(2_700), Duration::MAX),
        busiest
    );
    let flat = Arrivals::poisson(5.0).unwrap();
    assert_eq!(
        flat.busiest(Duration::from_secs(60), Duration::MAX),
        Instant::ZERO
    );
    // A run that ends in the morning is busiest at its end; a short one begins at zero.
    let morning = arrivals.busiest(Duration::from_secs(2_700), Duration::from_secs(36_000));
    assert_eq!(morning, Instant(33_300_000_000));
    assert_eq!(
        arrivals.busiest(Duration::from_secs(600), Duration::from_secs(60)),
        Instant::ZERO
    );
}

#[test]
fn the_default_day_is_the_documented_one() {
    let mut found = Diagnostics::default();
    let draft = draft("[timeline]\n", &TENANTS, &routes(), &mut found).unwrap();
    let built = draft.build(None, &mut found).unwrap().arrivals;
    let day = Arrivals::daily(5.5, 9.9, Duration::from_secs(15 * 3_600)).unwrap();
    assert_eq!(built, day);
    assert_eq!(arrivals("rate_per_s = 5.5\ndaily = {}"), day);
    let Some(defaults) = reference("data/traffic/realism_defaults.json") else {
        return;
    };
    assert_eq!(defaults["arrivals"]["peak_to_trough_daily"], 9.9);
    assert_eq!(Arrivals::daily(0.0, 9.9, Duration::ZERO), None);
    assert_eq!(Arrivals::daily(f64::NAN, 9.9, Duration::ZERO), None);
    assert_eq!(Arrivals::daily(1.0, 0.9, Duration::ZERO), None);
    assert_eq!(Arrivals::poisson(-1.0), None);
}

#[test]
fn a_burst_multiplies_the_rate_while_it_lasts() {
    let text = "rate_per_s = 50.0\n[[timeline.arrivals.burst]]\nat_s = 3600\nfor_s = 120.5\nfactor = 5.0\n";
    let arrivals = arrivals(text);
    let times = times(&arrivals, 0, 7_200.0);
    let count =
        |from: f64, to: f64| times.iter().filter(|at| (from..to).contains(*at)).count() as f64;
    for (from, to, rate) in [
        (0.0, 3_600.0, 50.0),
        (3_600.0, 3_720.5, 250.0),
        (3_720.5, 7_200.0, 50.0),
    ] {
        let expected = (to - from) * rate;
        assert!(
            (count(from, to) - expected).abs() < 4.0 * expected.sqrt(),
            "{from}"
        );
    }
    let hour = Duration::from_secs(7_200);
    assert_eq!(
        arrivals.busiest(Duration::from_millis(120_500), hour),
        Instant(3_600_000_000)
    );
    // Longer windows hold the burst wherever it lies in them: the first of them counts.
    let longer = arrivals.busiest(Duration::from_secs(600), hour).0;
    assert_eq!(longer, 3_720_500_000 - 600_000_000);
}

const BY_TENANT: &str = "process = { gamma = { cv = 2.3 } }
[timeline.arrivals.tenant.acme]
rate_per_s = 1.0
process.gamma.cv = 3.95
[timeline.arrivals.tenant.cygnus]
rate_per_s = 7.0
process = \"poisson\"
daily = { peak_to_trough = 3.0 }
[timeline.arrivals.tenant.borealis]
rate_per_s = 2.0
[[timeline.arrivals.burst]]
at_s = 100
for_s = 50
factor = 10
tenant = \"borealis\"
";

#[test]
fn tenants_come_on_their_own_and_do_not_move_each_other() {
    let all = arrivals(BY_TENANT);
    assert!(all.has_tenants());
    assert_eq!(all.mean_rate_per_s(), Some(10.0));
    let variation = all.variation().unwrap();
    assert!((variation - (3.95 + 2.0 * 2.3 + 7.0) / 10.0).abs() < 1e-12);
    let merged: Vec<Arrival> = all.open(key(3)).take(200_000).collect();
    assert!(merged.is_sorted_by_key(|arrival| (arrival.at, arrival.tenant)));
    let of = |arrivals: &[Arrival], tenant: u16| -> Vec<Instant> {
        let own = arrivals.iter().filter(|arrival| arrival.tenant == tenant);
        own.map(|arrival| arrival.at).collect()
    };
    // A workload without borealis, in which cygnus has another index.
    let (before, rest) = BY_TENANT
        .split_once("[timeline.arrivals.tenant.borealis]")
        .unwrap();
    assert!(rest.contains("tenant = \"borealis\""));
    let fewer = arrivals_of(before, &["cygnus", "acme"]);
    let fewer: Vec<Arrival> = fewer.open(key(3)).take(120_000).collect();
    for (old, new) in [(0, 1), (2, 0)] {
        let (one, other) = (of(&merged, old), of(&fewer, new));
        let common = one.len().min(other.len());
        assert!(common > 8_000, "{common}");
        assert_eq!(one[..common], other[..common]);
    }
    // The burst is borealis's alone: 20 a second for 50 s, with cv² = 5.3 times the variance.
    let burst = |tenant| {
        let in_burst = |at: &&Instant| (100_000_000..150_000_000).contains(&at.0);
        of(&merged, tenant).iter().filter(in_burst).count() as f64
    };
    assert!(
        (burst(1) - 1_000.0).abs() < 4.0 * 2.3 * 1_000.0_f64.sqrt(),
        "{}",
        burst(1)
    );
    assert!(burst(2) < 50.0 * 7.0 + 4.0 * 350.0_f64.sqrt());
    // One process for all says of nobody whose it is.
    let one = arrivals("rate_per_s = 1");
    assert!(
        !one.has_tenants()
            && one
                .open(key(0))
                .take(9)
                .all(|arrival| arrival.tenant == NO_NAME)
    );
}

#[test]
fn the_same_key_gives_the_same_arrivals_and_another_key_others() {
    for text in [
        BY_TENANT,
        "rate_per_s = 2",
        "rate_per_s = 2\nprocess.weibull.cv = 3",
    ] {
        let arrivals = arrivals(text);
        let first = |key| arrivals.open(key).take(5_000).collect::<Vec<_>>();
        assert_eq!(first(key(4)), first(key(4)));
        assert_ne!(first(key(4)), first(key(5)));
        let lab = DrawKey {
            domain: Domain::Lab,
            ..key(4)
        };
        assert_ne!(first(key(4)), first(lab));
        // A copy in the middle goes on as the original does.
        let mut running = arrivals.open(key(4));
        let _ = running.nth(777);
        let copy = running.clone();
        assert!(running.take(500).eq(copy.take(500)));
    }
}

#[test]
fn arrivals_of_a_seed_are_frozen() {
    let first = |text: &str| -> String {
        let arrivals = arrivals(text);
        let times = arrivals.open(key(0)).take(6);
        times
            .map(|one| format!("{} {}\n", one.at.0, one.tenant))
            .collect()
    };
    insta::assert_snapshot!(format!(
        "{}\n{}\n{}",
        first("rate_per_s = 2\ndaily = {}"),
        first("rate_per_s = 2\nprocess.weibull.cv = 3"),
        first(BY_TENANT)
    ));
}

#[test]
fn recorded_traces_have_the_dispersion_that_was_measured_on_them() {
    let Some(stats) = reference("data/traffic/reference_stats.json") else {
        return;
    };
    for (file, unit, part) in [
        (
            "azure_llm_2023_code.csv.gz",
            "azure_llm_2023_code/full",
            0..1,
        ),
        (
            "azure_llm_2023_conv.csv.gz",
            "azure_llm_2023_conv/rows_first_half",
            0..2,
        ),
        (
            "azure_llm_2023_conv.csv.gz",
            "azure_llm_2023_conv/rows_second_half",
            1..2,
        ),
        (
            "mooncake_fast25_conversation.jsonl.gz",
            "mooncake_fast25_conversation/full",
            0..1,
        ),
        (
            "mooncake_fast25_synthetic.jsonl.gz",
            "mooncake_fast25_synthetic/rows_first_half",
            0..2,
        ),
        (
            "mooncake_fast25_synthetic.jsonl.gz",
            "mooncake_fast25_synthetic/rows_second_half",
            1..2,
        ),
    ] {
        let data = shared(&format!("data/traffic/traces/{file}")).unwrap();
        let (arrivals, notes) = trace("", &data);
        let arrivals = arrivals.unwrap();
        assert_eq!(notes.is_empty(), file.starts_with("azure"), "{notes}");
        let all = times(&arrivals, 0, f64::INFINITY);
        assert_eq!(arrivals.ends().unwrap().as_secs_f64(), *all.last().unwrap());
        // Halves are those of the rows; the whole is "half 0 of 1".
        let window = match (part.start, part.end) {
            (0, 1) => &all[..],
            (0, _) => &all[..all.len() / 2],
            _ => &all[all.len() / 2..],
        };
        let expected = &stats["units"][unit]["arrivals"];
        let close = |name: &str, found: f64, expected: &serde_json::Value, tolerance: f64| {
            let expected = expected.as_f64().unwrap();
            assert!(
                (found / expected - 1.0).abs() <= tolerance,
                "{unit} {name}: {found} {expected}"
            );
        };
        assert_eq!(expected["rows"], window.len());
        // Azure's 100 ns are cut to microseconds.
        let (mean, variance) = mean_variance(&gaps(window));
        close(
            "cv",
            variance.sqrt() / mean,
            &expected["iat_cv_ddof1"],
            1e-6,
        );
        close("rate", 1.0 / mean, &expected["mean_rate_rps"], 1e-8);
        if part.end == 1 {
            close(
                "rate",
                arrivals.mean_rate_per_s().unwrap(),
                &expected["mean_rate_rps"],
                1e-8,
            );
        }
        for (width_s, bins) in [
            (1.0, "counts_1s"),
            (10.0, "counts_10s"),
            (60.0, "counts_60s"),
        ] {
            let found = counts(window, width_s);
            assert_eq!(expected[bins]["bins"], found.len(), "{unit}");
            let most = found.iter().copied().fold(0.0, f64::max);
            let exact = part.start == 0 || file.starts_with("mooncake");
            // A second half starts at a row whose digits are cut: a count may move to the next bin.
            let tolerance = if exact { 1e-9 } else { 0.01 };
            close(
                bins,
                dispersion(window, width_s),
                &expected[bins]["index_of_dispersion"],
                tolerance,
            );
            close(
                bins,
                most,
                &expected[bins]["max"],
                if exact { 1e-9 } else { 0.05 },
            );
        }
    }
}

#[test]
fn served_clients_send_as_much_and_as_unevenly_as_was_published() {
    let Some(stats) = reference("data/traffic/reference_stats.json") else {
        return;
    };
    for (file, service) in [
        (
            "servegen_deepseek-r1_clients",
            "servegen_deepseek-r1_clients/full",
        ),
        (
            "servegen_mm-image_clients",
            "servegen_mm-image_clients/full",
        ),
    ] {
        let data = shared(&format!("data/traffic/traces/{file}.csv.gz")).unwrap();
        let (arrivals, notes) = trace("", &data);
        let arrivals = arrivals.unwrap();
        assert_eq!(notes, "");
        assert_eq!(arrivals.ends(), Some(Duration::from_secs(86_400)));
        let rate = stats["units"][service]["total_rate_mean_rps"]
            .as_f64()
            .unwrap();
        let found = arrivals.mean_rate_per_s().unwrap();
        assert!((found / rate - 1.0).abs() < 1e-9, "{found} {rate}");
        let variation = stats["units"][service]["cv_rate_weighted"]
            .as_f64()
            .unwrap();
        let found = arrivals.variation().unwrap();
        // Single windows are off by up to 2 %, in both directions.
        assert!(
            (found / variation - 1.0).abs() < 0.002,
            "{found} {variation}"
        );
        // Days of several replicates: each window's count has variance cv² times its mean.
        let days: Vec<f64> = (0..8)
            .map(|replicate| times(&arrivals, replicate, f64::INFINITY).len() as f64)
            .collect();
        let (mean, variance) = mean_variance(&days);
        let error = (variance / 8.0).sqrt();
        assert!(
            (mean - 86_400.0 * rate).abs() < 4.0 * error,
            "{mean} ± {error}, {rate}"
        );
        assert!(error < 0.02 * mean, "{error} {mean}");
        let day = times(&arrivals, 0, f64::INFINITY);
        assert!(day.is_sorted() && *day.last().unwrap() < 86_400.0);
        // Ten minutes at the busiest time hold the highest published rate.
        let ten = Duration::from_secs(600);
        let start = arrivals.busiest(ten, Duration::from_secs(86_400));
        assert_eq!(start.0 % 600_000_000, 0);
        let within = |from: u64| {
            let times = (0..8).flat_map(|replicate| times(&arrivals, replicate, f64::INFINITY));
            let from = from as f64 / 1e6;
            times.filter(|at| (from..from + 600.0).contains(at)).count() as f64 / 8.0
        };
        let highest = stats["units"][service]["total_rate_max_rps"]
            .as_f64()
            .unwrap();
        let found = within(start.0) / 600.0;
        assert!(
            (found / highest - 1.0).abs() < 0.25,
            "{service} {found} {highest}"
        );
    }
}
