//! Logs written by hand, and what they come to.

use super::*;

/// A row of an attempt: number, milliseconds, model, what else.
fn row(seq: u64, at_ms: u64, model: &str, more: &str) -> String {
    format!(
        "{{\"seq\":{seq},\"at_ms\":{at_ms},\"method\":\"POST\",\"path\":\"/v1\",\"dialect\":\"openai\",\"model\":\"{model}\",\"status\":200{more}}}\n"
    )
    .replacen(
        "\"status\":200,\"status\"",
        "\"status\"",
        1,
    )
}

const LIMITED: &str = ",\"status\":429,\"fault\":\"kind\",\"kind\":\"rate_limit\",\"answer_headers\":{\"retry-after\":\"2\"}";

fn id(name: &str) -> String {
    format!(",\"headers\":{{\"x-routelab-request\":\"{name}\"}}")
}

fn read_with(log: &str, options: &Options<'_>) -> (Seen, String) {
    let mut found = Diagnostics::default();
    let seen = read(&mut log.as_bytes(), "seen.jsonl", options, &mut found).unwrap();
    (seen, found.render(false))
}

fn sums(log: &str) -> Seen {
    let (seen, found) = read_with(log, &Options::default());
    assert_eq!(found, "");
    seen
}

#[test]
fn attempts_of_one_id_are_one_request() {
    let log = [
        row(0, 0, "small", &format!("{LIMITED}{}", id("a"))),
        row(1, 10, "small", &id("b")),
        row(2, 2_500, "small", &format!("{LIMITED}{}", id("a"))),
        row(3, 2_600, "large", &id("a")),
    ]
    .concat();
    let seen = sums(&log);
    assert_eq!((seen.rows, seen.attempts, seen.failed), (4, 4, 2));
    assert_eq!((seen.requests, seen.answered, seen.rescued), (2, 2, 1));
    assert_eq!((seen.retries, seen.failovers), (1, 1));
    assert_eq!(seen.by_attempts[..4], [1, 0, 1, 0]);
    assert_eq!((seen.attempts_max, seen.amplification()), (3, Some(2.0)));
    assert_eq!(seen.by_tie, [2, 0, 0, 0, 0, 0, 0]);
    // The request `b` came while `small` had asked for two seconds of quiet.
    assert_eq!(seen.places[0].sent_meanwhile, 1);
    assert_eq!((seen.places[0].attempts, seen.places[0].failed), (3, 2));
    assert_eq!(seen.places[1].model.as_deref(), Some("large"));
    assert_eq!(seen.failures.len(), 1);
    assert_eq!(seen.failures[0].kind, FaultKind::RateLimit);
}

#[test]
fn who_retries_before_the_time_is_over_is_counted_and_by_how_much() {
    let at = |second_ms: u64| {
        sums(
            &[
                row(0, 1_000, "m", &format!("{LIMITED}{}", id("a"))),
                row(1, second_ms, "m", &id("a")),
            ]
            .concat(),
        )
        .hints
    };
    let early = at(1_700);
    assert_eq!((early.given, early.retried, early.too_early), (1, 1, 1));
    assert_eq!(early.earliest_by, Duration::from_millis(1_300));
    assert_eq!(at(2_999).too_early, 1);
    assert_eq!(at(3_000).too_early, 0);
    // Elsewhere nobody asked for anything.
    let elsewhere = sums(
        &[
            row(0, 0, "m", &format!("{LIMITED}{}", id("a"))),
            row(1, 5, "n", &id("a")),
        ]
        .concat(),
    );
    assert_eq!(elsewhere.hints.retried, 0);
    assert_eq!(elsewhere.failover_gaps.n, 1);
    // What a date comes to is not in a log.
    let dated = LIMITED.replace("\"2\"", "\"Thu, 01 Jan 1970 00:00:30 GMT\"");
    let hints = sums(&row(0, 0, "m", &dated)).hints;
    assert_eq!((hints.given, hints.unreadable), (0, 1));
}

#[test]
fn without_ids_a_conversation_goes_on_until_it_is_answered() {
    let said = |words: &str| format!(",\"conversation_sha256\":\"{words}\"");
    let broken = |words: &str| format!(",\"status\":500{}", said(words));
    let log = [
        row(0, 0, "m", &broken("aa")),
        row(1, 1_000, "n", &said("aa")),
        // The same question again, after it was answered: another request.
        row(2, 2_000, "m", &said("aa")),
        // And one whose caller gave up; much later somebody asks the same.
        row(3, 3_000, "m", &broken("bb")),
        row(4, 400_000, "m", &said("bb")),
    ]
    .concat();
    let seen = sums(&log);
    assert_eq!((seen.requests, seen.answered), (4, 3));
    assert_eq!(seen.by_tie[Tie::Conversation as usize], 4);
    assert_eq!(seen.failovers, 1);
    let longer = Options {
        within: Duration::from_secs(1_000),
        ..Options::default()
    };
    assert_eq!(read_with(&log, &longer).0.requests, 3);
}

#[test]
fn one_trace_may_hold_many_requests() {
    let of = |words: &str| {
        format!(
            ",\"headers\":{{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"}},\"conversation_sha256\":\"{words}\""
        )
    };
    let log = [
        row(0, 0, "m", &format!(",\"status\":500{}", of("aa"))),
        row(1, 10, "m", &of("aa")),
        row(2, 20, "m", &of("bb")),
        row(3, 30, "m", &of("bb")),
    ]
    .concat();
    let seen = sums(&log);
    assert_eq!((seen.requests, seen.by_tie[Tie::Trace as usize]), (2, 2));
    assert_eq!(seen.after_success, 1, "an id that is used after an answer");
}

#[test]
fn who_ties_by_something_else_gets_something_else() {
    let log = [
        row(
            0,
            0,
            "m",
            &format!(",\"status\":500,\"body_sha256\":\"{:064}\"{}", 1, id("a")),
        ),
        row(
            1,
            10,
            "m",
            &format!(",\"body_sha256\":\"{:064}\"{}", 1, id("b")),
        ),
    ]
    .concat();
    assert_eq!(sums(&log).requests, 2);
    for (tie, requests) in [(Tie::Body, 1), (Tie::Trace, 2), (Tie::Nothing, 2)] {
        let options = Options {
            tie: Some(tie),
            ..Options::default()
        };
        assert_eq!(read_with(&log, &options).0.requests, requests, "{tie:?}");
    }
    assert_eq!(
        read_with(
            &log,
            &Options {
                tie: Some(Tie::Body),
                ..Options::default()
            }
        )
        .0
        .same_body,
        1
    );
}

#[test]
fn a_server_that_was_started_again_begins_a_new_session() {
    let first = [
        row(0, 0, "m", &format!("{LIMITED}{}", id("a"))),
        row(1, 9_000, "m", ""),
    ]
    .concat();
    let second = [row(0, 5, "m", &id("a")), row(1, 10, "m", "")].concat();
    let seen = sums(&format!("{first}{second}"));
    assert_eq!((seen.sessions, seen.requests), (2, 4));
    assert_eq!(seen.length, Duration::from_millis(9_010));
    assert_eq!(
        seen.retries, 0,
        "the same id in another session is another request"
    );
    // Lines of one session in a slightly wrong order are no new one.
    let shuffled = [row(1, 3, "m", ""), row(0, 2, "m", ""), row(2, 4, "m", "")].concat();
    assert_eq!(sums(&shuffled).sessions, 1);
}

#[test]
fn rows_that_ask_for_no_completion_are_no_attempts() {
    let log = concat!(
        "{\"seq\":0,\"at_ms\":1,\"method\":\"GET\",\"dialect\":\"openai\",\"status\":200}\n",
        "\n",
        "{\"seq\":1,\"at_ms\":2,\"method\":\"GET\",\"dialect\":null,\"status\":404}\n",
        "{\"seq\":2,\"at_ms\":3,\"method\":\"POST\",\"dialect\":\"openai\",\"status\":401,\"kind\":\"auth\"}\n",
    );
    let seen = sums(log);
    assert_eq!((seen.rows, seen.other_rows, seen.attempts), (3, 2, 1));
    assert_eq!(
        seen.failures[0].kind,
        FaultKind::Auth,
        "refused before it was read"
    );
    assert_eq!(seen.by_tie[Tie::Nothing as usize], 1);
}

#[test]
fn every_damaged_row_is_counted_and_shown_with_its_place() {
    let good = row(0, 0, "m", "");
    let log = format!(
        "{good}{{\"seq\":1,\n{}[1,2]\nnot json\n\u{feff}\n",
        row(2, 1, "m", ",\"fault\":\"meteor\"")
    );
    let (seen, found) = read_with(&log, &Options::default());
    assert_eq!((seen.rows, seen.bad_rows, seen.attempts), (6, 5, 1));
    for wanted in [
        "seen.jsonl:2:",
        "seen.jsonl:3:",
        "there is no fault `meteor`",
        "seen.jsonl:4:",
        "seen.jsonl:5:",
        "seen.jsonl:6:",
    ] {
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
    let many: String = good + &"x\n".repeat(500);
    let (seen, found) = read_with(&many, &Options::default());
    assert_eq!(seen.bad_rows, 500);
    assert!(
        found.contains("480 more lines were not understood"),
        "{found}"
    );
    assert!(found.len() < 8_000, "{}", found.len());
}

#[test]
fn a_log_of_nothing_is_an_error_and_another_kind_of_log_is_named() {
    for (log, wanted) in [
        ("", "the log is empty"),
        ("\n \n", "the log is empty"),
        ("x\n", "no line of the log was understood"),
        (
            "{\"schema\":\"routelab.attempt/1\",\"trace_id\":\"1\"}\n",
            "a record of `call --log`",
        ),
    ] {
        let (_, found) = read_with(log, &Options::default());
        assert!(
            found.contains(wanted) && found.contains("1 error"),
            "{found}"
        );
    }
}

#[test]
fn a_line_without_end_is_not_kept_in_memory() {
    /// Gives `left` bytes that are no line feed, then a good row.
    struct Endless {
        left: usize,
        rest: Vec<u8>,
        at: usize,
    }
    impl std::io::Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = into.len().min(self.left);
            if n > 0 {
                into[..n].fill(b'x');
                self.left -= n;
                return Ok(n);
            }
            let rest = &self.rest[self.at..];
            let n = rest.len().min(into.len());
            into[..n].copy_from_slice(&rest[..n]);
            self.at += n;
            Ok(n)
        }
    }
    let endless = Endless {
        left: LINE_BYTES_MAX + 100,
        rest: format!("\n{}", row(0, 0, "m", "")).into_bytes(),
        at: 0,
    };
    let mut found = Diagnostics::default();
    let mut log = std::io::BufReader::with_capacity(1 << 20, endless);
    let seen = read(&mut log, "x", &Options::default(), &mut found).unwrap();
    assert_eq!((seen.bad_rows, seen.attempts), (1, 1));
    assert!(found.render(false).contains("longer than 67108864 bytes"));
}

/// `far` may not have what is `pii`.
struct Rules;

impl Residency for Rules {
    fn judge(&self, reached: &Reached<'_>) -> Ruling {
        match (reached.data_class, reached.tenant, reached.model) {
            (Some("pii"), _, Some("far")) | (_, Some("acme"), Some("far")) => Ruling::Refused {
                route: "far".to_owned(),
                why: "us".to_owned(),
            },
            (Some("odd"), ..) => Ruling::Unknown("no rule for `odd`".to_owned()),
            _ => Ruling::Allowed,
        }
    }
}

#[test]
fn whose_data_went_where_it_must_not_is_named() {
    let headers =
        |id: &str, more: &str| format!(",\"headers\":{{\"x-routelab-request\":\"{id}\"{more}}}");
    let class = |name: &str| format!(",\"x-routelab-data-class\":\"{name}\"");
    let log = [
        row(0, 0, "near", &headers("a", &class("pii"))),
        row(1, 1, "far", &headers("b", &class("pii"))),
        // A retry without the header is the same data; and it fails, which sent the data all the same.
        row(2, 2, "far", &format!(",\"status\":500{}", headers("b", ""))),
        row(3, 3, "far", &headers("c", "")),
        row(4, 4, "far", &headers("d", "")),
        row(5, 5, "far", &headers("e", &class("odd"))),
        row(6, 6, "far", &headers("f", &class("open"))),
    ]
    .concat();
    let mut found = Diagnostics::default();
    let classes = Classes::parse("request,tenant\nd,acme\n", "c.csv", &mut found).unwrap();
    let options = Options {
        classes,
        residency: Some(&Rules),
        ..Options::default()
    };
    let residences = read_with(&log, &options).0.residences.unwrap();
    assert_eq!((residences.judged, residences.unclassed), (5, 1));
    assert_eq!((residences.strays, residences.stray_requests), (3, 2));
    assert_eq!(residences.unknown, [("no rule for `odd`".to_owned(), 1)]);
    let named: Vec<(u64, &str)> = residences
        .listed
        .iter()
        .map(|stray| (stray.line, stray.request.as_deref().unwrap()))
        .collect();
    assert_eq!(named, [(2, "b"), (3, "b"), (5, "d")]);
    assert_eq!(residences.listed[2].tenant.as_deref(), Some("acme"));
    assert_eq!(sums(&log).residences, None, "nobody said where it may go");
}

#[test]
fn what_is_kept_is_bounded_by_what_is_open() {
    // A request every millisecond, of which 300 s are open: more than may be.
    let rows = 230_000_u64;
    let log: String = (0..rows)
        .map(|seq| row(seq, seq, "m", &id(&seq.to_string())))
        .collect();
    let seen = sums(&log);
    assert_eq!(seen.requests, rows);
    assert_eq!(seen.closed_early, rows - tie::OPEN_MAX as u64);
    assert!(seen.bins.len() <= bins::BINS_MAX);
}
