//! `routelab call`: the program itself against a stand-in.

use std::path::Path;

use routelab::router::FaultKind;
use routelab::standin::faults::Act;
use routelab::standin::loopback::{Server, ServerSpec};
use routelab::wire::{Response, Stop};

use super::{CHAIN, KEY, Says, fails, routes};
use crate::program::{Ran, command};

struct Desk {
    folder: tempfile::TempDir,
    server: Server,
}

impl Desk {
    fn new(spec: ServerSpec, router: &str) -> Self {
        let server = Server::start(spec).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("policies")).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("policies/routes.toml", &routes(&server, router));
        write("p.toml", CHAIN);
        Self { folder, server }
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(Some(KEY), arguments)
    }

    fn run_with(&self, key: Option<&str>, arguments: &[&str]) -> Ran {
        let mut program = command(self.folder.path());
        program.arg("call").args(arguments).env_remove("MARKER_KEY");
        if let Some(key) = key {
            program.env("MARKER_KEY", key);
        }
        // Not even a proxy in the environment may send the data elsewhere.
        for proxy in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
            program.env(proxy, "http://127.0.0.1:1");
        }
        program.output().unwrap().into()
    }
}

#[test]
fn a_call_prints_the_answer_and_every_attempt() {
    let desk = Desk::new(ServerSpec::default(), "preset = \"lesson\"");
    desk.server.queue("openai", fails(FaultKind::Quota));
    let ran = desk.run(&["hello there", "-p", "p.toml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout, "You asked: hello there\n");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words(lines[0])[..3],
        ["route", "attempt", "outcome"],
        "{}",
        ran.stderr
    );
    assert_eq!(
        words(lines[1])[..4],
        ["oa", "1", "quota", "(HTTP"],
        "{}",
        ran.stderr
    );
    assert_eq!(words(lines[2])[..3], ["an", "1", "ok"], "{}", ran.stderr);
    assert!(lines[3].starts_with("2 requests sent"), "{}", ran.stderr);
    let at_once = desk.run(&["hello there", "-p", "p.toml", "--no-stream"]);
    assert_eq!(at_once.stdout, ran.stdout);
}

#[test]
fn one_document_says_it_all() {
    let desk = Desk::new(ServerSpec::default(), "");
    let log = "seen.jsonl";
    let ran = desk.run(&["hello there", "-p", "p.toml", "--json", "--log", log]);
    let document = ran.json();
    assert_eq!(document["schema"], "routelab.call/1");
    assert_eq!(document["answer"], "You asked: hello there");
    assert_eq!(
        (document["route"].as_str(), document["stop"].as_str()),
        (Some("oa"), Some("end"))
    );
    assert_eq!(document["trail"][0]["schema"], "routelab.attempt/1");
    assert_eq!(
        document["trail"][0]["policy_digest"]
            .as_str()
            .unwrap()
            .len(),
        64
    );
    let logged = std::fs::read_to_string(desk.folder.path().join(log)).unwrap();
    let line: serde_json::Value = serde_json::from_str(logged.trim()).unwrap();
    assert_eq!(line, document["trail"][0]);
    assert!(!logged.contains("hello there") && !logged.contains(KEY));
}

#[test]
fn no_answer_is_exit_code_one_with_the_reason() {
    let desk = Desk::new(ServerSpec::default(), "");
    desk.server
        .queue("openai", fails(FaultKind::InvalidRequest));
    let ran = desk.run(&["hello", "-p", "p.toml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(
        ran.stderr.contains("error: the request was refused"),
        "{}",
        ran.stderr
    );
    let frame = Act::ErrorFrame {
        kind: FaultKind::Overloaded,
        after: 1,
    };
    desk.server.queue("openai", frame.clone());
    let ran = desk.run(&["hello", "-p", "p.toml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "You \n"));
    assert!(
        ran.stderr.contains("broke off after it had begun"),
        "{}",
        ran.stderr
    );
    desk.server.queue("openai", frame);
    let ran = desk.run(&["hello", "-p", "p.toml", "--json"]);
    assert_eq!(ran.code, Some(1));
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["error"]["partial_answer"], "You ");
    assert_eq!(document["error"]["kind"], "overloaded");
}

#[test]
fn what_is_wrong_with_the_input_is_said_at_once_and_nothing_is_sent() {
    let desk = Desk::new(ServerSpec::default(), "");
    let wrong = desk
        .run_with(
            None,
            &["hello", "-p", "p.toml", "--base-url", "nobody=http://h"],
        )
        .refused();
    assert!(
        wrong.contains("MARKER_KEY") && wrong.contains("`nobody`"),
        "{wrong}"
    );
    let wrong = desk
        .run(&["hello", "-p", "p.toml", "--base-url", "x"])
        .refused();
    assert!(wrong.contains("--base-url openai="), "{wrong}");
    let wrong = desk.run(&["hello", "-p", "absent.toml"]).refused();
    assert!(wrong.contains("absent.toml"), "{wrong}");
    let wrong = desk.run(&["hello", "-p", "policies"]).refused();
    assert!(wrong.contains("folder"), "{wrong}");
    let wrong = desk
        .run(&["hello", "-p", "p.toml", "--data-class", "secret"])
        .refused();
    assert!(wrong.contains("`secret`"), "{wrong}");
    let means = desk.folder.path().join("means.toml");
    std::fs::write(&means, "[task-means]\n").unwrap();
    let wrong = desk.run(&["hello", "-p", "means.toml"]).refused();
    assert!(wrong.contains("labelled examples"), "{wrong}");
    assert_eq!(desk.server.calls("openai"), 0);
}

#[test]
fn foreign_text_cannot_control_the_terminal() {
    let hostile = Response {
        text: "a\u{1b}]0;owned\u{7}\r\nb\tc\u{9b}2J".into(),
        stop: Stop::End,
        ..Response::default()
    };
    let spec = ServerSpec {
        model: std::sync::Arc::new(Says(hostile)),
        ..ServerSpec::default()
    };
    let desk = Desk::new(spec, "");
    for more in [&[][..], &["--no-stream"][..]] {
        let arguments = [&["hello", "-p", "p.toml"][..], more].concat();
        let ran = desk.run(&arguments);
        let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
        assert!(ran.stdout.chars().all(is_plain), "{:?}", ran.stdout);
        assert!(ran.stdout.contains("\nb\tc"));
    }
}

#[test]
fn addresses_with_and_without_a_version_are_the_same() {
    let desk = Desk::new(ServerSpec::default(), "");
    let root = desk.server.root_url("openai");
    for base in [
        root.clone(),
        format!("{root}/"),
        format!("{root}/v1"),
        desk.server.base_url("openai"),
    ] {
        let given = format!("oa-host={base}");
        let ran = desk.run(&["hello there", "-p", "p.toml", "--base-url", &given]);
        assert_eq!(ran.fine(), "You asked: hello there\n", "{base}");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_cancels_and_says_what_was_abandoned() {
    use std::io::{BufRead as _, BufReader, Read as _};
    let desk = Desk::new(ServerSpec::default(), "");
    desk.server.queue("openai", Act::Stall { after: 1 });
    let mut program = command(Path::new(desk.folder.path()));
    program
        .args(["call", "hello", "-p", "p.toml", "--log", "seen.jsonl"])
        .env("MARKER_KEY", KEY)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = program.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    // The first word is there: the answer has begun and will not go on.
    let mut first = [0; 3];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"You");
    let signal = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    let status = child.wait().unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(
        said.contains("interrupted: abandoned the attempt at `oa`"),
        "{said}"
    );
    let logged = std::fs::read(desk.folder.path().join("seen.jsonl")).unwrap();
    let line = BufReader::new(&logged[..]).lines().next().unwrap().unwrap();
    assert!(
        line.contains("\"cancelled\"") && line.contains("\"abandoned\""),
        "{line}"
    );
}
