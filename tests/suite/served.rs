//! A plain HTTP client for tests of servers: sockets of the standard library, and nothing it could hide.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use routelab::standin::loopback::{Server, ServerSpec};
use routelab::standin::transmission::{SCHEDULE_HEADER, Schedule};
use routelab::wire::{ADAPTERS, End, Headers, Message, Outgoing, Request, Target, adapter};

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
    /// `None` if it was still open when the patience of the reader ended.
    pub(crate) end: Option<End>,
}

impl Got {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

pub(crate) fn server(spec: ServerSpec) -> Server {
    Server::start(spec).expect("a free port")
}

/// How long a test waits for bytes that should come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends a request and reads the answer to its end.
pub(crate) fn send(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Got {
    send_for(addr, method, path, headers, body, PATIENCE)
}

/// The same, without waiting longer than this for the next bytes.
pub(crate) fn send_for(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    patience: Duration,
) -> Got {
    let mut stream = TcpStream::connect(addr).unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses early may stop reading.
    let _ = stream.write_all(body);
    receive(&mut stream, patience)
}

/// Reads an answer.
pub(crate) fn receive(stream: &mut TcpStream, patience: Duration) -> Got {
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut raw = Vec::new();
    let mut piece = [0; 4_096];
    let closed = loop {
        match stream.read(&mut piece) {
            Ok(0) => break true,
            Ok(n) => {
                raw.extend_from_slice(&piece[..n]);
                if says_that_no_more_comes(&raw) {
                    break false;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break true,
            Err(_) => break false,
        }
    };
    let (status, headers, at) =
        head_of(&raw).unwrap_or_else(|| panic!("no head in: {}", String::from_utf8_lossy(&raw)));
    let (body, whole) = body_of(&headers, &raw[at..]);
    Got {
        status,
        headers,
        body,
        end: match (whole, closed) {
            (true, _) => Some(End::Eof),
            (false, true) => Some(End::Reset),
            (false, false) => None,
        },
    }
}

/// Whether what came is all that the schedule beside it promises before an answer stops.
fn says_that_no_more_comes(raw: &[u8]) -> bool {
    let Some((headers, at)) = head_of(raw).map(|(_, headers, at)| (headers, at)) else {
        return false;
    };
    headers
        .get(SCHEDULE_HEADER)
        .and_then(|text| Schedule::parse(text)?.hangs_at)
        .is_some_and(|upto| body_of(&headers, &raw[at..]).0.len() as u64 >= upto)
}

/// Status, headers, and where the body begins.
fn head_of(raw: &[u8]) -> Option<(u16, Headers, usize)> {
    let at = raw.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&raw[..at]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
    let headers = lines.map(|line| line.split_once(": ").unwrap_or((line, "")));
    Some((status, headers.collect(), at + 4))
}

/// The body without its framing, and whether it came to its end.
fn body_of(headers: &Headers, raw: &[u8]) -> (Vec<u8>, bool) {
    if let Some(length) = headers.get("content-length") {
        let length: usize = length.parse().unwrap();
        return (raw.to_vec(), raw.len() == length);
    }
    let mut body = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(at + 2..at + 2 + size) else {
            break;
        };
        body.extend_from_slice(chunk);
        rest = &rest[(at + 4 + size).min(rest.len())..];
    }
    (body, false)
}

/// What the adapter of this name sends for one question.
pub(crate) fn question(dialect: &str, model: &str, text: &str, stream: bool) -> Outgoing {
    let request = Request {
        messages: vec![Message::user(text)],
        ..Request::default()
    };
    let target = Target {
        model,
        key: Some("sk-test-KEY"),
    };
    adapter(dialect).unwrap().build(&request, &target, stream)
}

/// Sends what an adapter built.
pub(crate) fn ask(server: &Server, dialect: &str, out: &Outgoing, patience: Duration) -> Got {
    let root = server.root_url(dialect);
    let prefix = root.splitn(4, '/').nth(3).unwrap();
    let headers: Vec<(&str, &str)> = out
        .headers
        .0
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    send_for(
        server.addr(),
        "POST",
        &format!("/{prefix}{}", out.path),
        &headers,
        &out.body,
        patience,
    )
}

#[test]
fn one_server_speaks_every_dialect_at_the_address_it_names() {
    let server = server(ServerSpec::default());
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        for stream in [false, true] {
            let out = question(kind.name, "m", "Who goes there?", stream);
            let got = ask(&server, kind.name, &out, PATIENCE);
            assert_eq!(got.status, 200, "{}: {}", kind.name, got.text());
            assert_eq!(got.end, Some(End::Eof));
            let response = if stream {
                let (events, result) =
                    crate::wire_cases::read(&*adapter, &got.headers, [&got.body[..]], End::Eof);
                result.unwrap();
                routelab::wire::collect(events).unwrap()
            } else {
                adapter.parse(&got.headers, &got.body).unwrap()
            };
            assert_eq!(response.text, "You asked: Who goes there?", "{}", kind.name);
            assert!(response.usage.input.get().is_some(), "{}", kind.name);
        }
        assert_eq!(server.calls(kind.name), 2, "{}", kind.name);
    }
    assert_eq!(server.calls_by_model()[&("gemini", "m".to_owned())], 2);
    assert_eq!(server.in_flight(), 0);
}

#[test]
fn two_servers_know_nothing_of_each_other() {
    let (one, two) = (server(ServerSpec::default()), server(ServerSpec::default()));
    assert_ne!(one.addr(), two.addr());
    let out = question("openai", "m", "Hi", false);
    for _ in 0..3 {
        ask(&one, "openai", &out, PATIENCE);
    }
    assert_eq!((one.calls("openai"), two.calls("openai")), (3, 0));
    let addr = one.addr();
    drop(one);
    assert!(TcpStream::connect(addr).is_err(), "it still listens");
    assert_eq!(ask(&two, "openai", &out, PATIENCE).status, 200);
}

#[test]
fn a_server_starts_and_stops_inside_a_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = server(ServerSpec::default());
        assert!(server.addr().port() > 0);
    });
}
