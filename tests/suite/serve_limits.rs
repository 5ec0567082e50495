//! Clients that take their time, send without end or come in crowds: the server stays within its bounds.

#![expect(clippy::disallowed_methods, reason = "these tests are about real time")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use routelab::standin::faults::Act;
use routelab::standin::loopback::{Bounds, Server, ServerSpec};

use crate::served::{ask, question, receive, send, server};

const PATIENCE: Duration = Duration::from_secs(20);

fn within(bounds: Bounds) -> Server {
    server(ServerSpec {
        bounds,
        ..ServerSpec::default()
    })
}

fn works(server: &Server) {
    let out = question("openai", "m", "Hi", true);
    assert_eq!(ask(server, "openai", &out, PATIENCE).status, 200);
}

#[test]
fn a_body_over_the_limit_is_refused_and_not_kept() {
    let server = within(Bounds {
        body_bytes_max: 100_000,
        ..Bounds::default()
    });
    let key = [("api-key", "k")];
    for path in [
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/models/m:generateContent",
    ] {
        let got = send(server.addr(), "POST", path, &key, &vec![b' '; 150_000]);
        assert_eq!(got.status, 413, "{path}: {}", got.text());
        assert!(
            got.json()["error"]["message"]
                .as_str()
                .unwrap()
                .contains("large")
        );
    }
    // Even one that is told to have no end at all is cut off.
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream
        .write_all(b"POST /v1/messages HTTP/1.1\r\nhost: t\r\napi-key: k\r\ntransfer-encoding: chunked\r\n\r\n")
        .unwrap();
    let chunk = [b"4000\r\n".as_slice(), &[b'x'; 0x4000], b"\r\n"].concat();
    let mut sent = 0_usize;
    while sent < 64 << 20 && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 64 << 20, "all of it was taken");
    works(&server);
}

#[test]
fn many_large_bodies_together_are_refused() {
    let server = within(Bounds {
        body_bytes_max: 100_000,
        bodies_bytes_max: 100_000,
        ..Bounds::default()
    });
    // The first is held half sent.
    let mut first = TcpStream::connect(server.addr()).unwrap();
    first
        .write_all(
            b"POST /v1/messages HTTP/1.1\r\nhost: t\r\napi-key: k\r\ncontent-length: 90000\r\n\r\n",
        )
        .unwrap();
    first.write_all(&vec![b' '; 80_000]).unwrap();
    let refused = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let body = vec![b' '; 50_000];
        let got = send(
            server.addr(),
            "POST",
            "/v1/messages",
            &[("api-key", "k")],
            &body,
        );
        got.status == 503
    });
    assert!(refused, "both were held");
    drop(first);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let body = vec![b' '; 50_000];
        let got = send(
            server.addr(),
            "POST",
            "/v1/messages",
            &[("api-key", "k")],
            &body,
        );
        if got.status == 400 {
            break; // read, and found to be no JSON
        }
        assert!(Instant::now() < deadline, "what was held is not given back");
    }
}

#[test]
fn a_head_without_end_is_cut_off() {
    let server = within(Bounds::default());
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.write_all(b"POST /v1/messages HTTP/1.1\r\n").unwrap();
    let mut sent = 0;
    while sent < 8 << 20 && stream.write_all(b"x-more: and more and more\r\n").is_ok() {
        sent += 27;
    }
    assert!(sent < 8 << 20, "all of it was taken");
    // Many headers in one go are refused by status.
    let many: Vec<(String, String)> = (0..200).map(|n| (format!("x-{n}"), "1".into())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let got = send(server.addr(), "POST", "/v1/messages", &many, b"");
    assert_eq!(got.status, 431);
    works(&server);
}

#[test]
fn a_slow_sender_is_sent_away() {
    let server = within(Bounds {
        read_max: Duration::from_millis(300),
        ..Bounds::default()
    });
    // A head that never ends.
    let mut head = TcpStream::connect(server.addr()).unwrap();
    head.write_all(b"POST /v1/messages HT").unwrap();
    head.set_read_timeout(Some(PATIENCE)).unwrap();
    let started = Instant::now();
    let mut rest = Vec::new();
    let _ = head.read_to_end(&mut rest);
    assert!(
        started.elapsed() < PATIENCE / 2,
        "the head may take for ever"
    );
    // A body that drips.
    let mut body = TcpStream::connect(server.addr()).unwrap();
    body.write_all(
        b"POST /v1/messages HTTP/1.1\r\nhost: t\r\napi-key: k\r\ncontent-length: 90\r\n\r\n",
    )
    .unwrap();
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(60));
        if body.write_all(b" ").is_err() {
            break;
        }
    }
    assert_eq!(receive(&mut body, PATIENCE).status, 408);
    works(&server);
}

#[test]
fn a_crowd_waits_its_turn() {
    let server = within(Bounds {
        connections_max: 2,
        ..Bounds::default()
    });
    let idle = [(); 2].map(|()| TcpStream::connect(server.addr()).unwrap());
    // The first byte makes sure that they are in.
    for stream in &idle {
        (&*stream).write_all(b"P").unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    let out = question("openai", "m", "Hi", false);
    let address = server.addr();
    let body = String::from_utf8(out.body.clone()).unwrap();
    let waiting = std::thread::spawn(move || {
        let started = Instant::now();
        let key = [("api-key", "k")];
        let got = send(
            address,
            "POST",
            "/v1/chat/completions",
            &key,
            body.as_bytes(),
        );
        (got.status, started.elapsed())
    });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(server.calls("openai"), 0, "a third got in");
    drop(idle);
    let (status, waited) = waiting.join().unwrap();
    assert_eq!(status, 200);
    assert!(waited >= Duration::from_millis(250), "{waited:?}");
}

#[test]
fn a_reader_that_does_not_read_holds_no_more_than_its_answer() {
    let server = within(Bounds::default());
    server.queue("openai", Act::Stall { after: 3 });
    let out = question("openai", "m", "a b c d e", true);
    let got = ask(&server, "openai", &out, Duration::from_millis(100));
    assert_eq!(got.end, None);
    // Others are served meanwhile.
    works(&server);
}

#[test]
fn deep_json_and_strange_bytes_are_bad_requests() {
    let server = within(Bounds::default());
    let deep = "[".repeat(200_000);
    let in_messages = format!("{{\"model\":\"m\",\"messages\":{deep}");
    for body in [deep.as_bytes(), in_messages.as_bytes(), b"\xff\xfe{}", b""] {
        for path in ["/v1/chat/completions", "/v1/messages", "/api/chat"] {
            let headers = [("api-key", "k"), ("anthropic-version", "2023-06-01")];
            let got = send(server.addr(), "POST", path, &headers, body);
            assert_eq!(got.status, 400, "{path}: {}", got.text());
        }
    }
    works(&server);
}
