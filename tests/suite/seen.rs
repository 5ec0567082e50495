//! `drill seen.jsonl`: logs of stand-ins, written by hand and by the server itself.

use std::fs;
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

use crate::given::project;
use crate::program::{Ran, run_in};

const LOG: &str = "tests/fixtures/seen/seen.jsonl";
const CLASSES: &str = "tests/fixtures/seen/classes.csv";

fn drill(more: &[&str]) -> Ran {
    let mut arguments = vec!["drill", LOG, "--routes", "policies/routes.toml"];
    arguments.extend(["--classes", CLASSES]);
    arguments.extend(more);
    run_in(&project(""), &arguments)
}

#[test]
fn a_log_by_hand_comes_to_this() {
    let ran = drill(&[]);
    insta::assert_snapshot!("seen_stderr", ran.stderr);
    insta::assert_snapshot!("seen_table", ran.fine());
    insta::assert_snapshot!("seen_csv", drill(&["--format", "csv"]).fine());
    let markdown = drill(&["--format", "markdown"]).fine();
    assert!(markdown.contains("## Where data must not be"), "{markdown}");
}

#[test]
fn every_number_of_the_table_is_in_the_json() {
    let json = drill(&["--format", "json"]).json();
    assert_eq!(json["schema"], "routelab.seen/1");
    assert_eq!(json["manifest"]["inputs"][2]["path"], LOG);
    let bytes = fs::read(project(LOG)).unwrap();
    assert_eq!(
        json["manifest"]["inputs"][2]["sha256"],
        routelab::report::sha256_hex(&bytes)
    );
    for (key, wanted) in [
        ("rows", 16),
        ("bad_rows", 2),
        ("other_rows", 1),
        ("requests", 7),
        ("answered", 5),
        ("rescued", 3),
        ("attempts", 13),
        ("failed", 8),
        ("retries", 3),
        ("failovers", 3),
    ] {
        assert_eq!(json[key], wanted, "{key}");
    }
    assert_eq!(json["retry_after"]["retries"], 3);
    assert_eq!(json["retry_after"]["too_early"], 2);
    assert_eq!(json["retry_after"]["earliest_by_s"], 4.75);
    assert_eq!(json["residency"]["violations"], 2);
    assert_eq!(json["residency"]["listed"][1]["request"], "4");
    // 5 of 7 by Wilson's formula, written out.
    let (p, n, z) = (5.0_f64 / 7.0, 7.0_f64, 1.959_963_984_540_f64);
    let centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    let limit = |key: &str| json["availability"][key].as_f64().unwrap();
    assert!((limit("low") - (centre - half)).abs() < 1e-9);
    assert!((limit("high") - (centre + half)).abs() < 1e-9);
    let bins = json["bins"].as_array().unwrap();
    let sum = |key: &str| {
        bins.iter()
            .map(|bin| bin[key].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        (sum("attempts"), sum("failed"), sum("requests")),
        (13, 8, 7)
    );
}

#[test]
fn a_compressed_log_is_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = fs::read(project(LOG)).unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&bytes).unwrap();
    let packed = encoder.finish().unwrap();
    fs::write(folder.path().join("seen.jsonl"), &bytes).unwrap();
    fs::write(folder.path().join("seen.jsonl.gz"), &packed).unwrap();
    let of = |name: &str| {
        let mut json = run_in(folder.path(), &["drill", name, "--format", "json"]).json();
        json["manifest"] = serde_json::Value::Null;
        json["log"] = serde_json::Value::Null;
        json
    };
    assert_eq!(of("seen.jsonl"), of("seen.jsonl.gz"));
    // Half of it is no shorter log.
    let cut = folder.path().join("cut.jsonl.gz");
    fs::write(cut, &packed[..packed.len() / 2]).unwrap();
    let refused = run_in(folder.path(), &["drill", "cut.jsonl.gz"]).refused();
    assert!(refused.contains("not a sound gzip file"), "{refused}");
}

#[cfg(feature = "live")]
mod over_sockets {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use routelab::router::FaultKind;
    use routelab::source::Diagnostics;
    use routelab::standin::faults::Act;
    use routelab::standin::loopback::{Log, Server, ServerSpec};
    use routelab::traffic::seen::{self, Options, Seen, Tie};

    use crate::served::{ask, question, server};

    const WAIT: Duration = Duration::from_millis(300);

    /// What stands between its callers and the stand-ins: it tries each of its places as often as it may.
    struct Gateway<'a> {
        server: &'a Server,
        places: &'a [(&'a str, &'a str)],
        attempts: u32,
        /// Between attempts at one place.
        waits: Duration,
        /// Whether it passes on what its callers call their requests.
        names: bool,
    }

    impl Gateway<'_> {
        fn answer(&self, number: u32) -> bool {
            for (dialect, model) in self.places {
                for attempt in 0..self.attempts {
                    if attempt > 0 {
                        std::thread::sleep(self.waits);
                    }
                    let mut out = question(dialect, model, &format!("question {number}"), false);
                    if self.names {
                        let name = ("x-routelab-request".to_owned(), number.to_string());
                        out.headers.0.push(name);
                    }
                    let got = ask(self.server, dialect, &out, Duration::from_secs(20));
                    if got.status == 200 {
                        return true;
                    }
                }
            }
            false
        }
    }

    /// Two requests through a gateway while the first provider refuses the first three attempts: what the
    /// stand-ins saw.
    fn two_requests(waits: Duration, names: bool) -> Seen {
        let log = Arc::new(Mutex::new(Vec::new()));
        let server = server(ServerSpec {
            log: Some(Arc::clone(&log) as Log),
            ..ServerSpec::default()
        });
        for _ in 0..3 {
            let refusal = Act::Kind {
                kind: FaultKind::RateLimit,
                retry_after: Some(routelab::units::Duration(WAIT.as_micros() as u64)),
            };
            server.queue("openai", refusal);
        }
        let gateway = Gateway {
            server: &server,
            places: &[("openai", "small"), ("anthropic", "large")],
            attempts: 2,
            waits,
            names,
        };
        assert!(gateway.answer(1) && gateway.answer(2));
        drop(server);
        let text = log.lock().unwrap().clone();
        let mut found = Diagnostics::default();
        let seen = seen::read(&mut text.as_slice(), "log", &Options::default(), &mut found);
        assert_eq!(found.render(false), "");
        seen.unwrap()
    }

    #[test]
    fn a_gateway_that_waits_and_one_that_does_not_are_told_apart() {
        for names in [true, false] {
            let patient = two_requests(WAIT + Duration::from_millis(20), names);
            let hasty = two_requests(Duration::from_millis(5), names);
            for seen in [&patient, &hasty] {
                // The first goes to the other provider after two refusals, the second is retried once.
                assert_eq!((seen.requests, seen.attempts, seen.failed), (2, 5, 3));
                assert_eq!((seen.answered, seen.rescued), (2, 2));
                assert_eq!((seen.retries, seen.failovers), (2, 1));
                assert_eq!(seen.same_body, 2);
                assert_eq!(seen.by_attempts[..3], [0, 1, 1]);
                assert_eq!((seen.hints.given, seen.hints.retried), (3, 2));
                let tie = if names {
                    Tie::Request
                } else {
                    Tie::Conversation
                };
                assert_eq!(seen.by_tie[tie as usize], 2, "{tie:?}");
                assert_eq!(seen.failures[0].kind, FaultKind::RateLimit);
                assert_eq!(seen.failures[0].status, 429);
            }
            assert_eq!(patient.hints.too_early, 0);
            assert_eq!(hasty.hints.too_early, 2);
            assert!(hasty.hints.earliest_by.as_secs_f64() > 0.1);
        }
    }
}
