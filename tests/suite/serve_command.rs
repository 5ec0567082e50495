//! `routelab serve` from outside: what it prints, that it can be used at once, how it ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::given::project;
use crate::program::command;
use crate::served::send;

/// The program, serving, and what it printed first. It is stopped when dropped.
struct Serving {
    child: Child,
    first: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut child = command(&project(""))
            .arg("serve")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        // Keep the pipe open, or the program would write into nothing.
        child.stdout = Some(out.into_inner());
        Self { child, first }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.first).unwrap()
    }

    /// Sends a signal and returns the exit code.
    fn stop(&mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn chat(at: &Value, model: &str, words: &str) -> crate::served::Got {
    let port = at["port"].as_u64().unwrap() as u16;
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": words }] });
    send(
        ([127, 0, 0, 1], port).into(),
        "POST",
        "/openai/v1/chat/completions",
        &[("authorization", "Bearer sk-KEY")],
        body.to_string().as_bytes(),
    )
}

#[test]
fn it_prints_where_to_point_clients_and_stops_on_request() {
    for signal in ["-INT", "-TERM"] {
        let mut serving = Serving::start(&["--json"]);
        let at = serving.json();
        assert_eq!(at["schema"], "routelab.serve/1");
        let openai = &at["dialects"][0];
        assert_eq!(openai["variable"], "OPENAI_BASE_URL");
        let url = format!("http://127.0.0.1:{}/openai/v1", at["port"]);
        assert_eq!(openai["base_url"], url);
        let got = chat(&at, "m", "Hi");
        assert_eq!(
            got.json()["choices"][0]["message"]["content"],
            "You asked: Hi"
        );
        assert_eq!(serving.stop(signal), Some(0), "{signal}");
    }
}

#[test]
fn people_read_variables() {
    let serving = Serving::start(&[]);
    let expected = "openai      OPENAI_BASE_URL=http://127.0.0.1:";
    assert!(serving.first.starts_with(expected), "{}", serving.first);
}

#[test]
fn faults_and_the_log_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults.toml");
    std::fs::write(
        &faults,
        "fault = [{ route = \"bad\", kind = \"rate_limit\" }]",
    )
    .unwrap();
    let log = folder.path().join("seen.jsonl");
    let serving = Serving::start(&[
        "--json",
        "--faults",
        faults.to_str().unwrap(),
        "--log",
        log.to_str().unwrap(),
    ]);
    let at = serving.json();
    assert_eq!(chat(&at, "bad", "SECRET-WORDS").status, 429);
    assert_eq!(chat(&at, "good", "SECRET-WORDS").status, 200);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> = lines.iter().map(|l| (&l["status"], &l["fault"])).collect();
    let (kind, none) = (json!("kind"), Value::Null);
    assert_eq!(told, [(&json!(429), &kind), (&json!(200), &none)]);
    assert!(!text.contains("SECRET-WORDS") && !text.contains("sk-KEY"));
}

#[test]
fn a_workload_answers_the_same_to_the_same_words() {
    let arguments = ["--json", "--world", "workloads/support.toml", "--seed", "7"];
    let answers = || {
        let serving = Serving::start(&arguments);
        let at = serving.json();
        let words = [
            "one", "two", "three", "four", "five", "six", "seven", "eight",
        ];
        words.map(|words| {
            let body = chat(&at, "small-2026-10-01", words).json();
            let text = body["choices"][0]["message"]["content"].to_string();
            (text, body["usage"].to_string())
        })
    };
    let (first, second) = (answers(), answers());
    assert_eq!(first, second);
    // The workload's answers and token counts, not the script's.
    assert!(
        first.iter().all(|(text, _)| text.contains(" answer.")),
        "{first:?}"
    );
    assert!(first.iter().any(|one| one.1 != first[0].1), "{first:?}");
}

#[test]
fn bad_input_is_refused_before_anything_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults.toml");
    std::fs::write(&faults, "fault = [{ route = \"x\" }]").unwrap();
    let run = |arguments: &[&str]| -> crate::program::Ran {
        let output = command(&project("")).arg("serve").args(arguments).output();
        output.unwrap().into()
    };
    let said = run(&["--faults", faults.to_str().unwrap()]).refused();
    assert!(said.contains("a rule needs one of"), "{said}");
    let said = run(&["--faults", "nowhere.toml"]).refused();
    assert!(said.contains("nowhere.toml"), "{said}");
    assert!(run(&["--host", "example.org"]).refused().contains("--host"));
    assert!(run(&["--log-bodies"]).refused().contains("--log"));
    // A name that no route has is a slip of the pen where routes are known.
    std::fs::write(&faults, "fault = [{ route = \"nobody\", status = 500 }]").unwrap();
    let routes = ["--routes", "policies/routes.toml", "--faults"];
    let mut arguments = routes.to_vec();
    arguments.push(faults.to_str().unwrap());
    let said = run(&arguments).refused();
    assert!(said.contains("nobody"), "{said}");
}

#[test]
fn a_port_that_is_taken_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = command(&project(""))
        .args(["serve", "--port", &port])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot listen on 127.0.0.1:"), "{said}");
}

#[test]
fn a_world_with_a_timeline_is_acted_out() {
    let folder = tempfile::tempdir().unwrap();
    let world = folder.path().join("w.toml");
    let text = std::fs::read_to_string(project("workloads/support.toml")).unwrap();
    let timeline = "\n[timeline.latency]\npreset = \"instant\"\noverhead_ms = 200\n\
        [[timeline.incident]]\nroutes = [\"large\"]\nat_s = 0\nfor_h = 1\nfail = \"overloaded\"\n\
        [timeline.limit.few]\nroutes = [\"small\"]\nrequests_per_min = 1\n";
    std::fs::write(&world, text + timeline).unwrap();
    let log = folder.path().join("seen.jsonl");
    let (world, log_path) = (world.to_str().unwrap(), log.to_str().unwrap());
    let mut serving = Serving::start(&["--json", "--world", world, "--log", log_path]);
    let at = serving.json();
    let since = |began: std::time::Instant| began.elapsed().as_millis();
    let ask = |model: &str| {
        let began = now();
        let got = chat(&at, model, "Hi");
        (got.status, since(began))
    };
    let (status, took) = ask("small");
    assert_eq!(status, 200);
    assert!(took >= 200, "{took} ms");
    // One a minute, and that was it.
    assert_eq!(ask("small").0, 429);
    assert_eq!(ask("large").0, 503);
    // A model that no route has knows no timeline.
    assert_eq!(ask("unheard-of").0, 200);
    assert_eq!(serving.stop("-INT"), Some(0));
    let seen = std::fs::read_to_string(log).unwrap();
    let kinds: Vec<Value> = seen
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
        .collect();
    let null = Value::Null;
    assert_eq!(
        kinds,
        [null.clone(), json!("rate_limit"), json!("overloaded"), null]
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "whether a server waits can only be told by a clock"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn a_timeline_that_is_wrong_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let world = folder.path().join("w.toml");
    let text = std::fs::read_to_string(project("workloads/support.toml")).unwrap();
    std::fs::write(
        &world,
        text + "\n[timeline.latency.route.smal]\nslots = 0\n",
    )
    .unwrap();
    let arguments = ["serve", "--world", world.to_str().unwrap()];
    let errors = crate::program::run_in(&project(""), &arguments).refused();
    assert!(errors.contains("did you mean `small`?"), "{errors}");
}
