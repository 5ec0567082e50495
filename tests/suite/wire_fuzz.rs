//! The bodies of the fuzz targets over seeds and random damage to them, on every run of the suite.

pub(crate) mod bodies;

use proptest::prelude::*;
use routelab::router::FaultKind;
use routelab::units::Tokens;
use routelab::wire::{
    ADAPTERS, Answer, Message, Request, Response, Stop, Target, ToolCall, Usage, adapter,
};

use crate::wire_cases::{json_files, shared};

/// Every target by name.
pub(crate) fn run(target: &str, bytes: &[u8]) {
    match target {
        "sse" => bodies::sse(bytes),
        "classify" => bodies::classify(bytes),
        "parse_request" => bodies::parse_request(bytes),
        stream => bodies::stream(stream.strip_suffix("_stream").unwrap(), bytes),
    }
}

const TARGETS: &[&str] = &[
    "sse",
    "openai_stream",
    "anthropic_stream",
    "gemini_stream",
    "ollama_stream",
    "classify",
    "parse_request",
];

/// Sound answers, streams, requests and failures of every adapter.
fn seeds() -> Vec<Vec<u8>> {
    let response = Response {
        text: "Grüß 你好 🌍".into(),
        reasoning: "Hm".into(),
        tool_calls: vec![
            ToolCall::new("a", "f", "{\"k\":\"你\"}"),
            ToolCall::new("b", "g", "{\"l\":[1,2]}"),
        ],
        stop: Stop::ToolCalls,
        usage: Usage {
            input: Tokens::new(9),
            output: Tokens::new(8),
            ..Usage::UNKNOWN
        },
        ..Response::default()
    };
    let answer = Answer {
        response: &response,
        id: "r",
        model: "m",
    };
    let request = Request {
        system: "s".into(),
        messages: vec![
            Message::user("q"),
            Message::answer(&response),
            Message::result(&response.tool_calls[0], "1"),
        ],
        ..Request::default()
    };
    let target = Target {
        model: "m",
        key: None,
    };
    let mut seeds = Vec::new();
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        seeds.push(adapter.render_stream(&answer).pieces.concat());
        seeds.push(adapter.render(&answer).pieces.concat());
        seeds.push(adapter.build(&request, &target, true).body);
        for fault in [FaultKind::RateLimit, FaultKind::ContextLength] {
            seeds.push(adapter.render_fault_frame(fault, "x"));
            let (status, body) = adapter.render_fault(fault, "x");
            seeds.push([&status.to_be_bytes()[..], body.to_string().as_bytes()].concat());
        }
    }
    seeds
}

#[test]
fn every_target_holds_on_every_seed() {
    let mut all = seeds();
    if let Some(folder) = shared("captured_responses") {
        let bodies = json_files(&folder).into_iter().filter_map(|(_, file)| {
            let body = file["response"]["body_text"].as_str()?;
            Some(body.as_bytes().to_vec())
        });
        all.extend(bodies);
    }
    for seed in &all {
        for target in TARGETS {
            run(target, seed);
        }
    }
}

#[test]
fn every_target_of_the_fuzzer_is_run_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/fuzz_targets");
    let mut files: Vec<String> = match std::fs::read_dir(folder) {
        Ok(files) => files
            .map(|file| {
                file.unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect(),
        Err(_) => return, // the published package has no fuzzer
    };
    files.sort();
    let mut expected: Vec<&str> = TARGETS.to_vec();
    expected.sort_unstable();
    assert_eq!(files, expected);
}

/// Damage to sound bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Duplicate(prop::sample::Index, prop::sample::Index),
    Splice(prop::sample::Index, prop::sample::Index),
    Insert(prop::sample::Index, &'static [u8]),
}

fn damage() -> impl Strategy<Value = Damage> {
    use Damage::{Cut, Duplicate, Flip, Insert, Splice};
    let index = any::<prop::sample::Index>;
    let token = prop::sample::select(vec![
        &b"\n\n"[..],
        b"\r",
        b"data: ",
        b"event: error\n",
        b"data: [DONE]\n\n",
        b"null",
        b"\xff",
        b"\xef\xbb\xbf",
        b"{\"error\":{\"code\":429}}",
        b"18446744073709551615",
    ]);
    prop_oneof![
        (index(), any::<u8>()).prop_map(|(at, byte)| Flip(at, byte)),
        index().prop_map(Cut),
        (index(), index()).prop_map(|(a, b)| Duplicate(a, b)),
        (index(), index()).prop_map(|(a, b)| Splice(a, b)),
        (index(), token).prop_map(|(at, token)| Insert(at, token)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    match damage {
        Damage::Flip(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Damage::Duplicate(a, b) => {
            let (a, b) = (a.index(bytes.len()), b.index(bytes.len()));
            let piece = bytes[a.min(b)..a.max(b)].to_vec();
            bytes.splice(a.max(b)..a.max(b), piece);
        }
        Damage::Splice(a, b) => {
            bytes.truncate(a.index(bytes.len()));
            bytes.extend_from_slice(&other[b.index(other.len())..]);
        }
        Damage::Insert(at, token) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, token.iter().copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_target_holds_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for target in TARGETS {
            run(target, &bytes);
        }
    }

    #[test]
    fn every_target_holds_on_damaged_seeds(
        one in any::<prop::sample::Index>(),
        two in any::<prop::sample::Index>(),
        damages in proptest::collection::vec(damage(), 1..5),
    ) {
        let seeds = seeds();
        let mut bytes = one.get(&seeds).clone();
        for damage in &damages {
            let other: &Vec<u8> = two.get(&seeds);
            apply(damage, &mut bytes, other);
        }
        for target in TARGETS {
            run(target, &bytes);
        }
    }
}

#[test]
fn the_streams_of_the_seeds_are_read_by_their_adapters() {
    // Else the damage above would be done to nothing.
    for kind in ADAPTERS {
        let adapter = adapter(kind.name).unwrap();
        let sound = seeds().into_iter().filter(|seed| {
            let mut events = Vec::new();
            let mut parser = adapter.stream(&routelab::wire::Headers::default());
            parser.push(seed, &mut events).is_ok() && events.len() > 3
        });
        assert!(sound.count() >= 1, "{}", kind.name);
    }
}
