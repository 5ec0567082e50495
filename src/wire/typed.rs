//! Reading the answers of everyday shape without a tree of values in between.
//!
//! Each dialect lists the fields that it reads of an ordinary answer. What has them with the expected
//! types is read straight from the text, and texts are borrowed from it. Anything else (a number in the
//! place of a text, a second spelling, an error object, a kind of block that is rare) is not read here
//! at all: [`read`] or the dialect says `None`, and the tolerant reading through
//! [`serde_json::Value`] decides. So there is one meaning of an answer, and this is only its short way.

use std::borrow::Cow;

use super::json::is_small;
use super::pull::{self, Cursor, Read};
use super::stream::BODY_BYTES_MAX;
use crate::units::Tokens;

/// `object` becomes what `body` says, if that is one of its type through and through.
#[inline]
pub(super) fn read<'de, T: Read<'de>>(object: &mut T, body: &'de [u8]) -> Option<()> {
    if body.len() > BODY_BYTES_MAX || !is_small(body) {
        return None;
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    pull::read(object, std::str::from_utf8(body).ok()?)
}

/// A counter that may be missing.
pub(super) fn tokens(count: Option<u64>) -> Tokens {
    Tokens::from(count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)))
}

/// A text, borrowed from the body where nothing in it is escaped.
#[derive(Debug, Default)]
pub(super) struct Text<'de>(pub Cow<'de, str>);

impl Text<'_> {
    /// The text, unless there is none or it is empty.
    pub(super) fn filled(text: &Option<Self>) -> Option<&str> {
        text.as_ref()
            .map(|text| &*text.0)
            .filter(|text| !text.is_empty())
    }

    /// The same, to keep.
    pub(super) fn kept(text: Option<Self>) -> Option<String> {
        text.filter(|text| !text.0.is_empty())
            .map(|text| text.0.into_owned())
    }
}

impl<'de> Read<'de> for Text<'de> {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        self.0.read(cursor)
    }
}

/// A value of which only counts that it is there.
#[derive(Debug, Default)]
pub(super) struct Skip;

impl<'de> Read<'de> for Skip {
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        cursor.skip()
    }
}

/// A list of at most one element; with more of them, which one counts is decided elsewhere.
#[derive(Debug)]
pub(super) struct AtMostOne<T>(pub Option<T>);

impl<T> Default for AtMostOne<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Read<'de>> Read<'de> for AtMostOne<T> {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        cursor.list(|cursor| {
            if self.0.is_some() {
                return None;
            }
            self.0.insert(T::default()).read(cursor)
        })
    }
}

/// Declares an object all of whose fields may be missing or `null`. Of a field that is there twice the
/// last one counts, as in [`serde_json::Value`]. Names after `not` make it unreadable.
macro_rules! object {
    (
        $(#[$doc:meta])*
        $life:lifetime $name:ident $(<$own:lifetime>)? {
            $($field:ident: $type:ty = $key:literal,)*
        }
        $(not $($bad:literal)|+)?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $name $(<$own>)? {
            $(pub(super) $field: Option<$type>,)*
        }

        impl<$life> $crate::wire::pull::Read<$life> for $name $(<$own>)? {
            #[inline]
            fn read(&mut self, cursor: &mut $crate::wire::pull::Cursor<$life>) -> Option<()> {
                cursor.object(|name, cursor| match name {
                    $($key => $crate::wire::pull::Read::read(&mut self.$field, cursor),)*
                    $($($bad)|+ => None,)?
                    _ => cursor.skip(),
                })
            }
        }
    };
}

pub(super) use object;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::error::Error;
    use super::super::serve::Answer;
    use super::super::stream::{Dialect, End, Flow, Reader, Sink, StreamParser};
    use super::super::types::{Response, Stop, StreamEvent, ToolCall, Usage};
    use super::super::{adapter, anthropic, chat, gemini, ollama};
    use crate::units::Tokens;

    /// The same dialect without its short way.
    struct Long<D>(D);

    impl<D: Dialect> Dialect for Long<D> {
        fn chunk(&mut self, name: &str, chunk: &Value, sink: &mut Sink) -> Result<Flow, Error> {
            self.0.chunk(name, chunk, sink)
        }

        fn whole(&self, body: &Value) -> Result<Response, Error> {
            self.0.whole(body)
        }

        fn is_complete(&self, sink: &Sink) -> bool {
            self.0.is_complete(sink)
        }

        fn is_line_by_line(&self) -> bool {
            self.0.is_line_by_line()
        }
    }

    type Read = (Vec<StreamEvent>, Result<(), Error>);

    fn stream(dialect: impl Dialect, body: &[u8]) -> Read {
        let mut reader = Reader::new(dialect, None);
        let mut events = Vec::new();
        let result = match reader.push(body, &mut events) {
            Ok(()) => reader.finish(End::Eof, &mut events),
            error => error,
        };
        (events, result)
    }

    /// A stream read the short way and the long way.
    fn both(name: &str, body: &[u8]) -> (Read, Read) {
        fn pair<D: Dialect>(make: fn() -> D, body: &[u8]) -> (Read, Read) {
            (stream(make(), body), stream(Long(make()), body))
        }
        match name {
            "openai" => pair(|| chat::Chunks, body),
            "anthropic" => pair(anthropic::Events::default, body),
            "gemini" => pair(|| gemini::Chunks, body),
            _ => pair(ollama::Lines::default, body),
        }
    }

    /// A whole body read the short way, if that is possible, and the long way.
    fn wholes(name: &str, body: &Value) -> (Option<Response>, Result<Response, Error>) {
        let bytes = body.to_string().into_bytes();
        match name {
            "openai" => (chat::short(&bytes), chat::whole(body)),
            "anthropic" => (anthropic::short(&bytes), anthropic::whole(body)),
            "gemini" => (gemini::short(&bytes), gemini::whole(body)),
            _ => (ollama::short(&bytes), ollama::whole(body)),
        }
    }

    const DIALECTS: [&str; 4] = ["openai", "anthropic", "gemini", "ollama"];

    fn response(calls: bool) -> Response {
        Response {
            text: "Say \"hi\" 你好\n".into(),
            tool_calls: if calls {
                vec![ToolCall::new("a", "f", "{\"k\":1}")]
            } else {
                Vec::new()
            },
            stop: if calls { Stop::ToolCalls } else { Stop::End },
            usage: Usage {
                input: Tokens::new(12),
                output: Tokens::new(7),
                cached: Tokens::new(3),
                cache_write: Tokens::new(2),
                reasoning: Tokens::new(1),
            },
            ..Response::default()
        }
    }

    fn rendered(name: &str, calls: bool, streamed: bool) -> String {
        let adapter = adapter(name).unwrap();
        let response = response(calls);
        let answer = Answer {
            response: &response,
            id: "r",
            model: "m",
        };
        let reply = if streamed {
            adapter.render_stream(&answer)
        } else {
            adapter.render(&answer)
        };
        String::from_utf8(reply.pieces.concat()).unwrap()
    }

    #[test]
    fn everyday_answers_are_read_the_short_way() {
        for name in DIALECTS {
            let body: Value = serde_json::from_str(&rendered(name, false, false)).unwrap();
            let (short, long) = wholes(name, &body);
            assert_eq!(short.expect(name), long.unwrap());
        }
        // A list is no object, even with the right things in the right order.
        for body in [
            "[\"r\",\"m\",[]]",
            "{\"choices\":[[0,{\"content\":\"x\"}]]}",
        ] {
            assert_eq!(chat::short(body.as_bytes()), None);
        }
    }

    /// Replaces the value number `at` in reading order, or adds a field to the object there.
    fn spoil(value: &mut Value, at: &mut usize, key: Option<&str>, by: &Value) {
        if *at == 0 {
            match (key, value.as_object_mut()) {
                (Some(key), Some(object)) => {
                    object.insert(key.to_owned(), by.clone());
                }
                _ => *value = by.clone(),
            }
        }
        *at = at.wrapping_sub(1);
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| spoil(item, at, key, by)),
            Value::Object(object) => object
                .values_mut()
                .for_each(|item| spoil(item, at, key, by)),
            _ => {}
        }
    }

    const KEYS: &[&str] = &[
        "error",
        "content",
        "text",
        "message",
        "delta",
        "choices",
        "index",
        "finish_reason",
        "finishReason",
        "refusal",
        "reasoning",
        "reasoning_content",
        "tool_calls",
        "function_call",
        "function",
        "functionCall",
        "thought",
        "thoughtSignature",
        "usage",
        "usageMetadata",
        "usage_metadata",
        "id",
        "responseId",
        "response_id",
        "model",
        "type",
        "parts",
        "thinking",
        "done",
        "done_reason",
        "stop_reason",
        "promptFeedback",
        "prompt_cache_hit_tokens",
        "thoughtsTokenCount",
        "prompt_tokens",
        "output_tokens",
        "eval_count",
        "unknown",
    ];

    fn odd() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!(null)),
            Just(json!(true)),
            Just(json!(false)),
            Just(json!(0)),
            Just(json!(1)),
            Just(json!(-1)),
            Just(json!(3.0)),
            Just(json!(0.5)),
            Just(json!(u64::MAX)),
            Just(json!("")),
            Just(json!("x")),
            Just(json!("STOP")),
            Just(json!([])),
            Just(json!({})),
            Just(json!([null])),
            Just(json!([{}])),
            Just(json!([{"text": "y", "type": "text"}])),
            Just(json!({"message": "m", "code": 429})),
            Just(json!({"content": "c", "text": "t", "parts": [{"text": "p"}]})),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_024))]

        #[test]
        fn the_short_way_means_what_the_long_way_means(
            calls in any::<bool>(),
            spoils in proptest::collection::vec(
                (0_usize..50, proptest::option::of(proptest::sample::select(KEYS)), odd()),
                0..4,
            ),
        ) {
            for name in DIALECTS {
                let mut body: Value = serde_json::from_str(&rendered(name, calls, false)).unwrap();
                for (at, key, by) in &spoils {
                    spoil(&mut body, &mut at.clone(), *key, by);
                }
                let (short, long) = wholes(name, &body);
                if let Some(short) = short {
                    prop_assert_eq!(Ok(short), long, "{}: {}", name, body);
                }
                let text = rendered(name, calls, true);
                let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                for (number, (at, key, by)) in spoils.iter().enumerate() {
                    let line = (at * 7 + number) % lines.len();
                    let (head, data) = match lines[line].strip_prefix("data: ") {
                        Some(data) => ("data: ", data),
                        None => ("", lines[line].as_str()),
                    };
                    if let Ok(mut chunk) = serde_json::from_str::<Value>(data) {
                        spoil(&mut chunk, &mut (at % 12), *key, by);
                        lines[line] = format!("{head}{chunk}");
                    }
                }
                let body = lines.join("\n") + "\n";
                let (short, long) = both(name, body.as_bytes());
                prop_assert_eq!(short, long, "{}: {}", name, body);
            }
        }
    }
}
