//! What a completion costs on its way to the wire and back: the request as bytes, the answer from
//! bytes, and a chunk of a stream. No socket takes part.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use routelab::units::Tokens;
use routelab::wire::{
    ADAPTERS, Adapter, Answer, End, Message, Request, Response, Stop, Target, ToolCall, ToolSpec,
    Usage,
};

/// A question of everyday size: about 60 tokens of instructions and question.
fn request() -> Request {
    Request {
        system: "You are the support desk of a web shop. Answer in at most three sentences.".into(),
        messages: vec![Message::user(
            "My order 4711 has not arrived although the parcel service says that it was delivered \
             on Monday. What can I do, and how long do I have to wait for my money?",
        )],
        output_cap: 200,
        temperature: Some(0.2),
        ..Request::default()
    }
}

/// The same conversation three turns later, with a tool.
fn tool_request() -> Request {
    let call = ToolCall::new("call_1", "find_order", "{\"order\": 4711}");
    Request {
        messages: vec![
            request().messages.remove(0),
            Message::answer(&Response {
                tool_calls: vec![call.clone()],
                ..Response::default()
            }),
            Message::result(
                &call,
                "{\"state\": \"delivered\", \"signed_by\": \"neighbour\"}",
            ),
        ],
        tools: vec![ToolSpec {
            name: "find_order".into(),
            description: "Look up where an order is".into(),
            parameters: serde_json::json!({
                "type": "object",
                "properties": { "order": { "type": "integer" } },
                "required": ["order"],
            }),
        }],
        ..request()
    }
}

/// An answer of about 45 tokens.
fn response() -> Response {
    Response {
        text:
            "I am sorry that your parcel is missing.\nPlease ask your neighbours first; if it does \
               not turn up within two working days, we start a search with the parcel service and \
               refund the full price after \"ten\" days at the latest."
                .into(),
        stop: Stop::End,
        usage: Usage {
            input: Tokens::new(61),
            output: Tokens::new(45),
            ..Usage::UNKNOWN
        },
        ..Response::default()
    }
}

fn tool_response() -> Response {
    Response {
        text: String::new(),
        tool_calls: vec![ToolCall::new("call_1", "find_order", "{\"order\":4711}")],
        stop: Stop::ToolCalls,
        ..response()
    }
}

const TARGET: Target<'static> = Target {
    model: "small-2026-10",
    key: Some("sk-0123456789abcdef0123456789abcdef"),
};

fn answer<'a>(response: &'a Response) -> Answer<'a> {
    Answer {
        response,
        id: "req_0123456789abcdef",
        model: "small-2026-10",
    }
}

/// The request as the bytes that are sent.
fn encode(adapter: &dyn Adapter, request: &Request) -> Vec<u8> {
    adapter.build(request, &TARGET, false).body
}

fn completions(c: &mut Criterion) {
    let mut group = c.benchmark_group("completion");
    for (what, request, response) in [
        ("text", request(), response()),
        ("tool", tool_request(), tool_response()),
    ] {
        for kind in ADAPTERS {
            let adapter = (kind.make)();
            let reply = adapter.render(&answer(&response));
            let body = reply.pieces.concat();
            let read = adapter.parse(&reply.headers, &body).expect("a sound body");
            assert_eq!(read.text, response.text);
            group.bench_function(format!("{}/{what}", kind.name), |b| {
                b.iter(|| {
                    let sent = encode(&*adapter, black_box(&request));
                    let read = adapter.parse(&reply.headers, black_box(&body));
                    (sent.len(), read.is_ok())
                });
            });
            if what == "text" {
                group.bench_function(format!("{}/encode", kind.name), |b| {
                    b.iter(|| encode(&*adapter, black_box(&request)).len());
                });
                group.bench_function(format!("{}/parse", kind.name), |b| {
                    b.iter(|| adapter.parse(&reply.headers, black_box(&body)).is_ok());
                });
            }
        }
    }
    group.finish();
}

fn streams(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream");
    let response = response();
    for kind in ADAPTERS {
        let adapter = (kind.make)();
        let reply = adapter.render_stream(&answer(&response));
        // Time a chunk: the elements are the frames of one answer.
        group.throughput(Throughput::Elements(reply.pieces.len() as u64));
        group.bench_function(kind.name, |b| {
            let mut events = Vec::new();
            b.iter(|| {
                events.clear();
                let mut parser = adapter.stream(&reply.headers);
                for piece in black_box(&reply.pieces) {
                    parser.push(piece, &mut events).expect("a sound stream");
                }
                parser
                    .finish(End::Eof, &mut events)
                    .expect("a complete stream");
                events.len()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, completions, streams);
criterion_main!(benches);
