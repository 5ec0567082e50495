//! Every fault in every dialect through a real socket: a reader comes to the same end as in memory.

#![expect(clippy::disallowed_methods, reason = "these tests are about real time")]

use std::time::{Duration as Wall, Instant as Clockwork};

use routelab::router::{FaultKind, Limits};
use routelab::standin::faults::{Act, Cut};
use routelab::standin::loopback::{Clock, Server, ServerSpec};
use routelab::standin::scripted;
use routelab::standin::transmission::{Ending, Piece, SCHEDULE_HEADER, Schedule, Transmission};
use routelab::standin::wired::{Received, receive};
use routelab::units::{Duration, Instant};
use routelab::wire::{ADAPTERS, Adapter, Answer, End, Outgoing};

use crate::served::{Got, ask, question, server};

const LIMITS: Limits = Limits {
    ttft: Duration::from_secs(2),
    gap: Duration::from_secs(3),
    attempt: Duration::from_secs(20),
};

/// Every act, before and after output.
fn acts() -> Vec<Act> {
    let mut acts = vec![
        Act::Status {
            status: 503,
            headers: [("retry-after", "3")].into_iter().collect(),
            body: b"try later".to_vec(),
        },
        Act::KeepAlivesOnly,
        Act::SlowFirstToken {
            delay: Duration::from_millis(30),
        },
    ];
    for kind in FaultKind::ALL {
        acts.push(Act::Kind {
            kind,
            retry_after: Some(Duration::from_millis(1_500)),
        });
        acts.push(Act::ErrorFrame { kind, after: 2 });
    }
    for after in [0, 2] {
        let kind = FaultKind::Overloaded;
        acts.push(Act::ErrorFrame { kind, after });
        for how in [Cut::Clean, Cut::Reset] {
            acts.push(Act::Cut { after, how });
        }
        acts.push(Act::Stall { after });
        acts.push(Act::BrokenFrame { after });
    }
    acts
}

/// What a reader in memory makes of the act.
fn in_memory(adapter: &dyn Adapter, out: &Outgoing, act: &Act, stream: bool) -> Received {
    let body = String::from_utf8(out.body.clone()).unwrap();
    let incoming = adapter
        .parse_request(&out.path, &out.headers, body.as_bytes())
        .unwrap();
    let response = scripted::answer(adapter.name(), &incoming, body.as_bytes());
    let answer = Answer {
        response: &response,
        id: "req",
        model: "m",
    };
    let sent = Transmission::of(adapter, &answer, stream, Some(act));
    receive(adapter, &sent, stream, LIMITS, Instant::ZERO)
}

/// What it makes of the bytes that came through the socket.
fn through(adapter: &dyn Adapter, got: &Got, stream: bool) -> Received {
    let schedule = Schedule::parse(got.headers.get(SCHEDULE_HEADER).unwrap()).unwrap();
    let mut pieces = Vec::new();
    let mut from = 0;
    let upto = schedule.hangs_at.map_or(got.body.len(), |at| at as usize);
    for (at, wait) in &schedule.waits {
        let at = *at as usize;
        pieces.push((Duration::ZERO, from..at));
        from = at;
        pieces.push((*wait, at..at));
    }
    pieces.push((Duration::ZERO, from..upto));
    let sent = Transmission {
        status: got.status,
        headers: got.headers.clone(),
        pieces: pieces
            .into_iter()
            .map(|(wait, range)| Piece {
                wait,
                bytes: got.body[range].to_vec(),
            })
            .collect(),
        ending: match (schedule.hangs_at, got.end) {
            (Some(_), _) => Ending::Hang,
            (None, Some(End::Eof)) => Ending::Clean,
            (None, Some(End::Reset)) => Ending::Reset,
            (None, None) => panic!("it neither ends nor says that it does not"),
        },
    };
    receive(adapter, &sent, stream, LIMITS, Instant::ZERO)
}

/// Without what differs from call to call.
fn comparable(mut received: Received) -> Received {
    match &mut received.result {
        Ok(response) => response.request_id = None,
        Err(error) => error.request_id = None,
    }
    received
}

#[test]
fn every_fault_in_every_dialect_reads_as_in_memory() {
    let server = server(ServerSpec {
        clock: Clock::Virtual,
        ..ServerSpec::default()
    });
    let mut cases = 0;
    let started = Clockwork::now();
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        for stream in [false, true] {
            let out = question(kind.name, "m", "one two three four", stream);
            for act in acts() {
                let holds = matches!(act, Act::Stall { .. } | Act::KeepAlivesOnly);
                server.queue(kind.name, act.clone());
                let got = ask(&server, kind.name, &out, Wall::from_secs(20));
                let case = format!("{} {act:?} stream {stream}", kind.name);
                assert_eq!(got.end.is_none(), holds, "{case}");
                let read = comparable(through(&*adapter, &got, stream));
                let expected = comparable(in_memory(&*adapter, &out, &act, stream));
                assert_eq!(read, expected, "{case}: {}", got.text());
                cases += 1;
            }
        }
    }
    assert!(cases > 300);
    // Nobody slept where the scripts say so.
    assert!(started.elapsed() < Wall::from_secs(60));
}

/// The time an answer took, and the answer.
fn timed(server: &Server, act: Act, patience: Wall) -> (Wall, Got) {
    server.queue("openai", act);
    let out = question("openai", "m", "one two three", true);
    let started = Clockwork::now();
    let got = ask(server, "openai", &out, patience);
    (started.elapsed(), got)
}

#[test]
fn in_real_time_the_server_waits_where_the_script_says() {
    let server = server(ServerSpec::default());
    let second = Wall::from_secs(1);
    let delay = Duration::from_millis(300);
    let (took, got) = timed(&server, Act::SlowFirstToken { delay }, 20 * second);
    assert!(took >= Wall::from_millis(300), "{took:?}");
    assert_eq!(got.headers.get(SCHEDULE_HEADER), None);
    assert_eq!(got.end, Some(End::Eof));

    let (took, got) = timed(&server, Act::Stall { after: 1 }, second / 2);
    assert!(took >= second / 2, "{took:?}");
    assert_eq!(got.end, None);
    assert!(got.text().contains("You ") && !got.text().contains("one"));

    // A beat each half second, and the reader is patient for longer than that.
    server.queue("openai", Act::KeepAlivesOnly);
    let out = question("openai", "m", "one", true);
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    let body = String::from_utf8(out.body.clone()).unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\napi-key: k\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    std::thread::sleep(Wall::from_millis(1_300));
    assert_eq!(server.in_flight(), 1);
    let got = crate::served::receive(&mut stream, Wall::from_millis(100));
    assert_eq!(
        got.text().matches(": keep-alive\n\n").count(),
        2,
        "{}",
        got.text()
    );
    drop(stream);
    // When the client leaves the server notices.
    let deadline = Clockwork::now() + 5 * second;
    while server.in_flight() > 0 {
        assert!(Clockwork::now() < deadline, "the answer is still held");
        std::thread::sleep(Wall::from_millis(10));
    }
}

#[test]
fn an_answer_that_never_ends_is_held_only_so_long() {
    let mut spec = ServerSpec::default();
    spec.bounds.hold_max = Wall::from_millis(200);
    let server = server(spec);
    for act in [Act::Stall { after: 1 }, Act::KeepAlivesOnly] {
        let (took, got) = timed(&server, act, Wall::from_secs(20));
        assert!(took < Wall::from_secs(10), "{took:?}");
        assert_eq!(got.end, Some(End::Reset));
    }
}

#[test]
fn pieces_arrive_one_by_one() {
    use std::io::Read as _;
    let server = server(ServerSpec::default());
    let out = question("anthropic", "m", "one two three four five", true);
    let body = String::from_utf8(out.body.clone()).unwrap();
    let mut stream = std::net::TcpStream::connect(server.addr()).unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: t\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    // Each event travels in a chunk of its own: the chunk sizes are those of the events.
    let text = String::from_utf8(all).unwrap();
    let chunks = text.matches("\r\nevent: ").count();
    let events = text.matches("event: ").count();
    assert!(events > 8);
    assert_eq!(chunks, events);
}
