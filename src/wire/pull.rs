//! Reading JSON where it lies: a cursor over the text that hands out borrowed pieces of it.
//!
//! It is for bodies of everyday shape ([`super::typed`]) and gives up on anything else: every step says
//! `None` at what is no JSON (RFC 8259), and also at what is JSON but rare, such as names with escapes,
//! halves of surrogate pairs, or numbers with exponents where nobody reads them. Whoever gets `None`
//! reads the text again with `serde_json`. So it never accepts what `serde_json` refuses.

use std::borrow::Cow;

use super::write::plain;

/// Deepest nesting that is followed; `serde_json` goes to 127.
const DEPTH_MAX: u8 = 100;

/// Something that can be read at a cursor. It is read in place: answers are large when they are taken
/// apart, and moving them about costs more than reading them.
pub(super) trait Read<'de>: Default {
    /// Becomes the value at the cursor, which then stands behind it.
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()>;
}

/// A place in a text.
pub(super) struct Cursor<'de> {
    text: &'de str,
    at: usize,
    depth: u8,
}

/// `value` becomes the one value that is the whole text.
#[inline]
pub(super) fn read<'de, T: Read<'de>>(value: &mut T, text: &'de str) -> Option<()> {
    let mut cursor = Cursor {
        text,
        at: 0,
        depth: 0,
    };
    value.read(&mut cursor)?;
    cursor.peek().is_none().then_some(())
}

impl<'de> Cursor<'de> {
    /// The next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.text.as_bytes().get(self.at)? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    #[inline]
    fn eat(&mut self, byte: u8) -> Option<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    #[inline]
    fn word(&mut self, word: &str) -> Option<()> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return None;
        }
        self.at += word.len();
        Some(())
    }

    #[inline]
    fn enter(&mut self, bracket: u8) -> Option<()> {
        self.eat(bracket)?;
        self.depth += 1;
        (self.depth <= DEPTH_MAX).then_some(())
    }

    /// Between elements: true behind a comma, false behind the end.
    #[inline]
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b',' {
            return Some(true);
        }
        self.depth -= 1;
        (byte == end).then_some(false)
    }

    /// Reads an object; `field` gets each name and reads its value.
    #[inline]
    pub(super) fn object(
        &mut self,
        mut field: impl FnMut(&'de str, &mut Self) -> Option<()>,
    ) -> Option<()> {
        self.enter(b'{')?;
        if self.peek()? == b'}' {
            self.goes_on(b'}')?;
            return Some(());
        }
        loop {
            self.eat(b'"')?;
            let Cow::Borrowed(name) = self.string()? else {
                return None;
            };
            self.eat(b':')?;
            field(name, self)?;
            if !self.goes_on(b'}')? {
                return Some(());
            }
        }
    }

    /// Reads a list; `element` reads each.
    #[inline]
    pub(super) fn list(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.enter(b'[')?;
        if self.peek()? == b']' {
            self.goes_on(b']')?;
            return Some(());
        }
        loop {
            element(self)?;
            if !self.goes_on(b']')? {
                return Some(());
            }
        }
    }

    /// The rest of a text whose opening quote is behind the cursor.
    #[inline]
    fn string(&mut self) -> Option<Cow<'de, str>> {
        let end = self.at + plain(&self.text.as_bytes()[self.at..]);
        if *self.text.as_bytes().get(end)? != b'"' {
            return self.escaped(end).map(Cow::Owned);
        }
        let text = self.text.get(self.at..end)?;
        self.at = end + 1;
        Some(Cow::Borrowed(text))
    }

    /// The same where something in it is escaped, first at `end`.
    fn escaped(&mut self, mut end: usize) -> Option<String> {
        let bytes = self.text.as_bytes();
        // Not more than there is, and mostly enough for an answer.
        let left = bytes.len() - self.at;
        let mut text = String::with_capacity(left.min((end - self.at) * 2 + 320));
        loop {
            text.push_str(self.text.get(self.at..end)?);
            self.at = end + 1;
            match *bytes.get(end)? {
                b'"' => return Some(text),
                b'\\' => text.push(self.escape()?),
                _ => return None, // a control character
            }
            end = self.at + plain(&bytes[self.at..]);
        }
    }

    /// What an escape stands for; its backslash is behind the cursor.
    fn escape(&mut self) -> Option<char> {
        let bytes = self.text.as_bytes();
        let kind = *bytes.get(self.at)?;
        self.at += 1;
        Some(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.hex()?;
                if (0xd800..0xdc00).contains(&first) {
                    self.word("\\u")?;
                    let second = self.hex()?;
                    if !(0xdc00..0xe000).contains(&second) {
                        return None;
                    }
                    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?
                } else {
                    char::from_u32(first)?
                }
            }
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        self.at += 4;
        digits.iter().try_fold(0, |number, &digit| {
            Some(number << 4 | char::from(digit).to_digit(16)?)
        })
    }

    /// Digits of a whole number without needless zeros before it: where they end.
    #[inline]
    fn digits(&self, from: usize) -> Option<usize> {
        let bytes = self.text.as_bytes();
        let count = bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let needless = count > 1 && bytes[from] == b'0';
        (count > 0 && !needless).then_some(from + count)
    }

    /// Passes over a value of any kind.
    pub(super) fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.string().map(drop)
            }
            b'{' => self.object(|_, cursor| cursor.skip()),
            b'[' => self.list(Self::skip),
            b'n' => self.word("null"),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            first => {
                let mut end = self.digits(self.at + usize::from(first == b'-'))?;
                let bytes = self.text.as_bytes();
                if bytes.get(end) == Some(&b'.') {
                    let fraction = bytes[end + 1..].iter();
                    let count = fraction.take_while(|byte| byte.is_ascii_digit()).count();
                    if count == 0 {
                        return None;
                    }
                    end += 1 + count;
                }
                // Three hundred digits may be more than a number can hold.
                let is_rare = matches!(bytes.get(end), Some(b'e' | b'E')) || end - self.at > 40;
                self.at = end;
                (!is_rare).then_some(())
            }
        }
    }
}

impl<'de, T: Read<'de>> Read<'de> for Option<T> {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        if cursor.peek()? == b'n' {
            *self = None;
            return cursor.word("null");
        }
        self.insert(T::default()).read(cursor)
    }
}

impl<'de> Read<'de> for Cow<'de, str> {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        cursor.eat(b'"')?;
        *self = cursor.string()?;
        Some(())
    }
}

impl<'de> Read<'de> for u64 {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        cursor.peek()?;
        let end = cursor.digits(cursor.at)?;
        let bytes = cursor.text.as_bytes();
        if matches!(bytes.get(end), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        *self = bytes[cursor.at..end]
            .iter()
            .try_fold(0_u64, |number, byte| {
                number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
            })?;
        cursor.at = end;
        Some(())
    }
}

impl<'de> Read<'de> for bool {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        *self = cursor.peek()? == b't';
        cursor.word(if *self { "true" } else { "false" })
    }
}

impl<'de, T: Read<'de>> Read<'de> for Vec<T> {
    #[inline]
    fn read(&mut self, cursor: &mut Cursor<'de>) -> Option<()> {
        cursor.list(|cursor| {
            self.push(T::default());
            self.last_mut()?.read(cursor)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::typed::Skip;

    use proptest::prelude::*;
    use serde_json::Value;

    fn one<'de, T: Read<'de>>(text: &'de str) -> Option<T> {
        let mut value = T::default();
        read(&mut value, text)?;
        Some(value)
    }

    #[test]
    fn texts_and_numbers_are_read_as_serde_json_reads_them() {
        for text in [
            r#""""#,
            r#""plain text longer than eight bytes""#,
            r#" "a\"b\\c\/d\b\f\n\r\t" "#,
            r#""\u00e9\u4f60\ud83c\udf0d""#,
            "\"你好 🌍\"",
        ] {
            let expected: String = serde_json::from_str(text).unwrap();
            assert_eq!(one::<Cow<'_, str>>(text).as_deref(), Some(&*expected));
        }
        for text in [
            r#""\ud83c""#,
            r#""\udf0d""#,
            r#""\ud83cx""#,
            r#""\x""#,
            r#""a"#,
            "\"\n\"",
            "\"",
        ] {
            assert_eq!(one::<Cow<'_, str>>(text), None, "{text}");
            assert!(serde_json::from_str::<String>(text).is_err());
        }
        assert_eq!(one::<u64>(" 18446744073709551615 "), Some(u64::MAX));
        for text in [
            "18446744073709551616",
            "01",
            "-1",
            "1.0",
            "1e2",
            "",
            "x",
            "1 2",
        ] {
            assert_eq!(one::<u64>(text), None, "{text}");
        }
        assert_eq!(
            one::<Vec<Option<bool>>>("[true , null,false]"),
            Some(vec![Some(true), None, Some(false)])
        );
    }

    fn token() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\"a\":",
            "\"k\"",
            "\\u12",
            "\\ud800",
            "\\n",
            "null",
            "true",
            "fals",
            "e",
            "0",
            "1",
            "-",
            ".5",
            "1e9",
            " ",
            "\n",
            "\t",
            "\u{1}",
            "你",
            "[1,2]",
            "{\"b\":[]}",
            "\u{a0}",
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_048))]

        #[test]
        fn nothing_is_accepted_that_serde_json_refuses(tokens in prop::collection::vec(token(), 0..12)) {
            let text = tokens.concat();
            if one::<Skip>(&text).is_some() {
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
            }
        }

        #[test]
        fn everyday_json_is_accepted(text in "[^\u{0}-\u{1f}]{0,20}", number in any::<u32>(), deep in 0_usize..90) {
            let inner = serde_json::json!({ "t": text, "n": [number, -1.25, null, true], "o": {} });
            let body = format!("{}{inner}{}", "[".repeat(deep), "]".repeat(deep));
            prop_assert!(one::<Skip>(&body).is_some(), "{}", body);
            let quoted = Value::from(text.as_str()).to_string();
            prop_assert_eq!(one::<Cow<'_, str>>(&quoted).map(Cow::into_owned), Some(text));
        }
    }
}
