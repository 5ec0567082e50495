//! Writing request bodies as JSON text, field by field in the documented order.
//!
//! A body is written once into one buffer, without a tree of values in between: that is most of what a
//! request costs. What only one adapter gets ([`Request::extras`]) is merged while writing, so that
//! there is one way of building a body and not two.

use serde_json::{Map, Value};

use super::types::{Message, Request};

/// The body of a request: an object whose fields `write` adds, with the extras for `adapter`.
pub(super) fn body(
    adapter: &str,
    request: &Request,
    write: impl FnOnce(&mut Object<'_, '_>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(room(request));
    object(&mut out, request.extras.get(adapter), write);
    out
}

/// About how long a body gets, so that its buffer seldom has to move.
fn room(request: &Request) -> usize {
    let turns: usize = request
        .messages
        .iter()
        .map(|message| match message {
            Message::User { text } => text.len() + 40,
            Message::Assistant {
                text, tool_calls, ..
            } => {
                let calls: usize = tool_calls.iter().map(|call| call.raw.len() + 160).sum();
                text.len() + 60 + calls
            }
            Message::Tool { text, .. } => text.len() + 120,
        })
        .sum();
    // A sixteenth more for what has to be escaped.
    let text = request.system.len() + turns + request.tools.len() * 400;
    256 + text + text / 16
}

fn object<'e>(
    out: &mut Vec<u8>,
    extras: Option<&'e Map<String, Value>>,
    write: impl FnOnce(&mut Object<'_, 'e>),
) {
    out.push(b'{');
    let mut object = Object {
        out,
        extras,
        written: Vec::new(),
        is_empty: true,
    };
    write(&mut object);
    object.rest();
    out.push(b'}');
}

/// An object being written. Names must not need escaping.
pub(super) struct Object<'o, 'e> {
    out: &'o mut Vec<u8>,
    /// Fields that take the place of those written here, or come after them: objects are merged,
    /// anything else replaces.
    extras: Option<&'e Map<String, Value>>,
    /// Fields of `extras` that are in the text already.
    written: Vec<&'static str>,
    is_empty: bool,
}

impl<'e> Object<'_, 'e> {
    /// A text.
    #[inline]
    pub(super) fn text(&mut self, name: &'static str, text: &str) {
        if self.begin(name) {
            string(self.out, text);
        }
    }

    /// A text that is written as it is: it must not need escaping.
    #[inline]
    pub(super) fn word(&mut self, name: &'static str, word: &'static str) {
        if self.begin(name) {
            self.out.push(b'"');
            self.out.extend_from_slice(word.as_bytes());
            self.out.push(b'"');
        }
    }

    /// A count.
    pub(super) fn number(&mut self, name: &'static str, number: u32) {
        if self.begin(name) {
            decimal(self.out, number);
        }
    }

    /// A number that may be absent. JSON has no word for those that are not finite.
    pub(super) fn float(&mut self, name: &'static str, number: Option<f64>) {
        let Some(number) = number else { return };
        self.value(name, &number);
    }

    /// True or false.
    pub(super) fn flag(&mut self, name: &'static str, flag: bool) {
        if self.begin(name) {
            self.out
                .extend_from_slice(if flag { b"true" } else { b"false" });
        }
    }

    /// `null`.
    pub(super) fn null(&mut self, name: &'static str) {
        if self.begin(name) {
            self.out.extend_from_slice(b"null");
        }
    }

    /// JSON that is there already.
    pub(super) fn value(&mut self, name: &'static str, value: &impl serde::Serialize) {
        if self.begin(name) {
            json(self.out, value);
        }
    }

    /// An object.
    #[inline]
    pub(super) fn object(&mut self, name: &'static str, write: impl FnOnce(&mut Object<'_, 'e>)) {
        let inner = self.extras.and_then(|extras| extras.get(name));
        if let Some(Value::Object(inner)) = inner {
            self.written.push(name);
            self.name(name);
            object(self.out, Some(inner), write);
        } else if self.begin(name) {
            object(self.out, None, write);
        }
    }

    /// A list.
    #[inline]
    pub(super) fn list(&mut self, name: &'static str, write: impl FnOnce(&mut List<'_>)) {
        if self.begin(name) {
            list(self.out, write);
        }
    }

    /// Writes the name. False if the extras replace the value, which is then written as well.
    #[inline]
    fn begin(&mut self, name: &'static str) -> bool {
        if self.extras.is_none() {
            self.name(name);
            return true;
        }
        self.begin_or_replace(name)
    }

    #[cold]
    fn begin_or_replace(&mut self, name: &'static str) -> bool {
        self.name(name);
        let Some(value) = self.extras.and_then(|extras| extras.get(name)) else {
            return true;
        };
        self.written.push(name);
        json(self.out, value);
        false
    }

    #[inline]
    fn name(&mut self, name: &str) {
        self.out
            .extend_from_slice(if self.is_empty { b"\"" } else { b",\"" });
        self.is_empty = false;
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// The extras that nothing here has a name for.
    fn rest(&mut self) {
        let Some(extras) = self.extras else { return };
        for (name, value) in extras {
            if self.written.iter().any(|written| written == name) {
                continue;
            }
            if !std::mem::replace(&mut self.is_empty, false) {
                self.out.push(b',');
            }
            string(self.out, name);
            self.out.push(b':');
            json(self.out, value);
        }
    }
}

/// A list being written.
pub(super) struct List<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl List<'_> {
    /// An object at the end of the list.
    #[inline]
    pub(super) fn object(&mut self, write: impl FnOnce(&mut Object<'_, '_>)) {
        self.comma();
        object(self.out, None, write);
    }

    /// JSON that is there already, at the end of the list.
    pub(super) fn value(&mut self, value: &Value) {
        self.comma();
        json(self.out, value);
    }

    #[inline]
    fn comma(&mut self) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
    }
}

fn list(out: &mut Vec<u8>, write: impl FnOnce(&mut List<'_>)) {
    out.push(b'[');
    write(&mut List {
        out,
        is_empty: true,
    });
    out.push(b']');
}

fn json(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    let before = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Values and numbers can always be written; should one not, the body stays JSON.
        out.truncate(before);
        out.extend_from_slice(b"null");
    }
}

fn decimal(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0_u8; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A JSON string, escaped as `serde_json` does: what RFC 8259 wants escaped, and nothing else.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut rest = bytes;
    loop {
        let plain = plain(rest);
        out.extend_from_slice(&rest[..plain]);
        let Some(&special) = rest.get(plain) else {
            break;
        };
        escape(out, special);
        rest = &rest[plain + 1..];
    }
    out.push(b'"');
}

/// How many bytes at the start need no escaping. Eight bytes at a time: `x - 0x2020…` borrows into
/// the top bit of every byte below 0x20, and the same with 1 finds the zeros that are left where a
/// quote or a backslash is taken away by exclusive or ("Hacker's Delight", 2nd edition, section 6-1).
pub(super) fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES << 7;
    let mut at = 0;
    while let Some(eight) = bytes.get(at..at + 8) {
        let x = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        let zeros = |x: u64| x.wrapping_sub(ONES) & !x;
        let control = x.wrapping_sub(ONES * 0x20) & !x;
        let quote = zeros(x ^ (ONES * u64::from(b'"')));
        let backslash = zeros(x ^ (ONES * u64::from(b'\\')));
        let found = (control | quote | backslash) & TOPS;
        if found != 0 {
            // A borrow can only set bits above a byte that is found rightly.
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes
        .get(at)
        .is_some_and(|&byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
    {
        at += 1;
    }
    at
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #[test]
        fn strings_are_those_of_serde_json(text in "[\\x00-\\x7f\u{80}\u{ff}你🌍\"\\\\\n]{0,60}") {
            let mut out = Vec::new();
            string(&mut out, &text);
            prop_assert_eq!(out, serde_json::to_vec(&text).unwrap());
        }

        #[test]
        fn counts_are_decimal(number in any::<u32>()) {
            let mut out = Vec::new();
            decimal(&mut out, number);
            prop_assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    fn written(extras: Option<Value>) -> String {
        let mut request = Request::default();
        if let Some(Value::Object(extras)) = extras {
            request.extras.insert("a".into(), extras);
        }
        let body = body("a", &request, |body| {
            body.word("w", "x");
            body.object("o", |inner| {
                inner.number("n", 0);
                inner.float("f", Some(0.5));
                inner.float("none", None);
                inner.float("nan", Some(f64::NAN));
            });
            body.list("l", |list| {
                list.object(|first| first.flag("t", true));
                list.value(&json!([1]));
            });
            body.null("z");
        });
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn fields_come_in_the_order_they_are_written() {
        assert_eq!(
            written(None),
            r#"{"w":"x","o":{"n":0,"f":0.5,"nan":null},"l":[{"t":true},[1]],"z":null}"#
        );
        assert_eq!(body("a", &Request::default(), |_| {}), b"{}");
    }

    #[test]
    fn extras_go_into_objects_and_replace_the_rest() {
        let extras =
            json!({"new\"": 1, "o": {"g": {"h": 2}, "f": [3]}, "l": {"a": 4}, "z": 5, "w": null});
        assert_eq!(
            written(Some(extras)),
            r#"{"w":null,"o":{"n":0,"f":[3],"nan":null,"g":{"h":2}},"l":{"a":4},"z":5,"new\"":1}"#
        );
        // An object is not merged into what is none, and what is none replaces an object.
        assert_eq!(
            written(Some(json!({"o": "s"}))),
            r#"{"w":"x","o":"s","l":[{"t":true},[1]],"z":null}"#
        );
    }
}
