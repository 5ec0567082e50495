//! Percent-encoding of one segment of a path (RFC 3986, section 2.1): names of models may hold
//! anything, and a slash or a question mark among it must not end the segment.

use std::borrow::Cow;

/// `text` with everything encoded that RFC 3986, section 2.3, does not call unreserved.
pub(super) fn encode(text: &str) -> Cow<'_, str> {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(DIGITS[usize::from(digit)]));
            }
        }
    }
    Cow::Owned(encoded)
}

/// What [`encode`] encoded. A per cent sign without two hexadecimal digits stands for itself, as
/// clients that encode nothing send it. `None` if the bytes are no UTF-8.
pub(super) fn decode(segment: &str) -> Option<String> {
    let bytes = segment.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |at: usize| {
            bytes
                .get(at)
                .and_then(|&byte| char::from(byte).to_digit(16))
        };
        if bytes[at] == b'%'
            && let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2))
        {
            decoded.push((high * 16 + low) as u8);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reserved_characters_are_encoded_and_odd_input_is_read() {
        assert_eq!(encode("gemini-3.0_x~"), "gemini-3.0_x~");
        assert_eq!(encode("a/b?c:d e%你"), "a%2Fb%3Fc%3Ad%20e%25%E4%BD%A0");
        assert_eq!(decode("100%").as_deref(), Some("100%"));
        assert_eq!(decode("%zz%4").as_deref(), Some("%zz%4"));
        assert_eq!(decode("%2f%2F").as_deref(), Some("//"));
        assert_eq!(decode("%ff"), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(text in any::<String>()) {
            let encoded = encode(&text);
            prop_assert!(encoded.is_ascii());
            prop_assert!(!encoded.contains(['/', '?', ':', '#', ' ']));
            prop_assert_eq!(decode(&encoded), Some(text));
        }
    }
}
