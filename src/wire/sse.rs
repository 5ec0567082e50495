//! A push-style decoder of Server-Sent Events: bytes in, frames out.
//!
//! The format is that of the HTML standard, section 9.2.6 ("Interpreting an event stream"):
//! lines end with LF, CRLF or CR, a byte order mark may come first, a blank line ends an event,
//! `data` lines join with LF, lines that begin with a colon are comments. It does no I/O, and the
//! frames do not depend on how the bytes were cut.
//!
//! It differs from a browser's `EventSource` on purpose in three places. An event the stream broke off
//! before its blank line is not dropped but handed out by [`Decoder::finish`], because a browser
//! reconnects and a paid-for completion cannot. The field `error`, which older llama.cpp servers send
//! in place of `data`, is kept. Events whose data is empty are left out. Invalid UTF-8 becomes U+FFFD,
//! line by line.

/// The most a decoder buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line in bytes, without its end.
    pub line_bytes: usize,
    /// Most bytes of `data` and `error` in one event.
    pub event_bytes: usize,
}

impl Default for Limits {
    /// 8 MiB each: an inline picture fits.
    fn default() -> Self {
        Self {
            line_bytes: 8 << 20,
            event_bytes: 8 << 20,
        }
    }
}

/// A limit was passed. The decoder is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The limit in bytes.
    pub limit: usize,
}

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The field `event`; empty if there was none.
    pub event: String,
    /// The `data` lines, joined with LF.
    pub data: String,
    /// The non-standard field `error`.
    pub error: Option<String>,
}

/// The decoder. Feed it with [`push`](Self::push), then call [`finish`](Self::finish) once.
#[derive(Clone, Debug)]
pub struct Decoder {
    limits: Limits,
    line: Vec<u8>,
    /// The last byte was a CR that ended a line, so that an LF belongs to it.
    after_cr: bool,
    /// No line has ended yet, so that a byte order mark may come.
    at_start: bool,
    frame: Frame,
    /// The frame has a `data` line, perhaps an empty one.
    has_data: bool,
}

impl Decoder {
    /// A decoder at the beginning of a body.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            frame: Frame::default(),
            has_data: false,
        }
    }

    /// Reads more bytes and appends the events they complete to `frames`.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if a line or an event passes its limit; the frames before it are in `frames`.
    pub fn push(&mut self, mut bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        while let Some(&first) = bytes.first() {
            if self.after_cr {
                self.after_cr = false;
                if first == b'\n' {
                    bytes = &bytes[1..];
                    continue;
                }
            }
            let Some(end) = bytes
                .iter()
                .position(|&byte| byte == b'\n' || byte == b'\r')
            else {
                return self.extend(bytes);
            };
            self.extend(&bytes[..end])?;
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(frames)?;
        }
        Ok(())
    }

    /// The body is over: hands out an event that was not ended by a blank line, if there is one.
    ///
    /// # Errors
    ///
    /// [`TooLong`] if that event passes its limit.
    pub fn finish(&mut self) -> Result<Option<Frame>, TooLong> {
        let mut frames = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut frames)?;
        }
        self.end_frame(&mut frames);
        Ok(frames.pop())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > self.limits.line_bytes {
            return Err(TooLong {
                limit: self.limits.line_bytes,
            });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, frames: &mut Vec<Frame>) -> Result<(), TooLong> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = &bytes[..];
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            self.end_frame(frames);
        } else {
            self.field(&String::from_utf8_lossy(line))?;
        }
        // Keep the allocation for the next line, unless it is a rare huge one.
        if bytes.capacity() <= 64 << 10 {
            self.line = bytes;
            self.line.clear();
        }
        Ok(())
    }

    fn field(&mut self, line: &str) -> Result<(), TooLong> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        // Exactly one space belongs to the syntax.
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => self.frame.event = value.to_owned(),
            "data" => {
                self.room_for(value)?;
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
            }
            "error" => {
                self.room_for(value)?;
                let error = self.frame.error.get_or_insert_default();
                if !error.is_empty() {
                    error.push('\n');
                }
                error.push_str(value);
            }
            // `id` and `retry` are for reconnecting, which must not happen; an empty name is a comment.
            _ => {}
        }
        Ok(())
    }

    fn room_for(&self, value: &str) -> Result<(), TooLong> {
        let held = self.frame.data.len() + self.frame.error.as_ref().map_or(0, String::len);
        if held + 1 + value.len() > self.limits.event_bytes {
            return Err(TooLong {
                limit: self.limits.event_bytes,
            });
        }
        Ok(())
    }

    fn end_frame(&mut self, frames: &mut Vec<Frame>) {
        let frame = std::mem::take(&mut self.frame);
        self.has_data = false;
        // An event without a `data` line is none. The standard hands out one whose data is empty; it is
        // left out here, since it can hold no JSON and only keeps the connection busy.
        if !frame.data.is_empty() || frame.error.is_some() {
            frames.push(frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(pieces: &[&[u8]]) -> (Vec<Frame>, Option<Frame>) {
        let mut decoder = Decoder::new(Limits::default());
        let mut frames = Vec::new();
        for piece in pieces {
            decoder.push(piece, &mut frames).expect("within limits");
        }
        let last = decoder.finish().expect("within limits");
        (frames, last)
    }

    fn data(text: &str) -> Frame {
        Frame {
            data: text.to_owned(),
            ..Frame::default()
        }
    }

    /// The standard read once more, on the whole text at once.
    fn reference(bytes: &[u8]) -> Vec<Frame> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
        let mut at = 0;
        while at < text.len() {
            match text[at] {
                b'\r' => {
                    lines.push(Vec::new());
                    at += usize::from(text.get(at + 1) == Some(&b'\n'));
                }
                b'\n' => lines.push(Vec::new()),
                byte => lines.last_mut().unwrap().push(byte),
            }
            at += 1;
        }
        // The end of the body ends the last event.
        lines.push(Vec::new());
        let mut frames = Vec::new();
        let (mut event, mut data, mut error) = (String::new(), Vec::new(), Vec::new());
        for line in lines {
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.is_empty() {
                let joined = data.join("\n");
                if !joined.is_empty() || !error.is_empty() {
                    frames.push(Frame {
                        event: event.clone(),
                        data: joined,
                        error: (!error.is_empty()).then(|| {
                            let kept: String = error.join("\n");
                            kept.trim_start_matches('\n').to_owned()
                        }),
                    });
                }
                (event, data, error) = (String::new(), Vec::new(), Vec::new());
                continue;
            }
            let colon = line.find(':').unwrap_or(line.len());
            let value = line.get(colon + 1..).unwrap_or("");
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match &line[..colon] {
                "event" => event = value,
                "data" => data.push(value),
                "error" => error.push(value),
                _ => {}
            }
        }
        frames
    }

    #[test]
    fn st01_the_framing_of_the_standard() {
        let (frames, last) = decode(&[b"\xef\xbb\xbf: hello\n\ndata: a\r\ndata:b\rdata:  c\n\nevent: x\ndata: d\n\nevent: y\n\nid: 7\nretry: 3\ndata\n\ndata: tail"]);
        let mut named = data("d");
        named.event = "x".into();
        assert_eq!(frames, [data("a\nb\n c"), named]);
        assert_eq!(last, Some(data("tail")));
    }

    #[test]
    fn w19_the_old_error_field_is_kept() {
        let (frames, _) = decode(&[b"error: {\"code\":400}\n\n"]);
        assert_eq!(frames[0].error.as_deref(), Some("{\"code\":400}"));
    }

    #[test]
    fn r27_a_character_may_be_cut_anywhere() {
        let body = "data: 你好 🌍 Grüß\r\n\r\n".as_bytes();
        for cut in 0..=body.len() {
            let (frames, last) = decode(&[&body[..cut], &body[cut..]]);
            assert_eq!((frames, last), (vec![data("你好 🌍 Grüß")], None), "{cut}");
        }
        let (frames, _) = decode(&[b"data: a\xffb\n\n"]);
        assert_eq!(frames, [data("a\u{fffd}b")]);
    }

    #[test]
    fn limits_are_typed_errors() {
        let limits = Limits {
            line_bytes: 20,
            event_bytes: 30,
        };
        let mut frames = Vec::new();
        let mut decoder = Decoder::new(limits);
        assert_eq!(
            decoder.push(&[b'x'; 21], &mut frames),
            Err(TooLong { limit: 20 })
        );
        let mut decoder = Decoder::new(limits);
        let line = b"data: 01234567\n";
        let mut result = Ok(());
        for _ in 0..10 {
            result = result.and_then(|()| decoder.push(line, &mut frames));
        }
        assert_eq!(result, Err(TooLong { limit: 30 }));
        // Comments for ever hold nothing.
        let mut decoder = Decoder::new(limits);
        for _ in 0..10_000 {
            decoder.push(b": ping\n\n", &mut frames).unwrap();
        }
        assert_eq!((frames.len(), decoder.line.len()), (0, 0));
    }

    fn tokens() -> impl Strategy<Value = Vec<u8>> {
        let token = prop_oneof![
            Just(&b"data"[..]),
            Just(&b"data: "[..]),
            Just(&b"event:"[..]),
            Just(&b"error: "[..]),
            Just(&b"\n"[..]),
            Just(&b"\r"[..]),
            Just(&b"\r\n"[..]),
            Just(&b"\n\n"[..]),
            Just(&b":"[..]),
            Just(&b" "[..]),
            Just(&b"x"[..]),
            Just(&b"\xef\xbb\xbf"[..]),
            Just("你".as_bytes()),
            Just(&b"\xff"[..]),
            Just(&b"\0"[..]),
            Just(&b"id: 1"[..]),
        ];
        proptest::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn any_cuts_give_the_frames_of_the_whole_text(
            bytes in tokens(),
            sizes in proptest::collection::vec(1_usize..9, 1..40),
        ) {
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            for &size in sizes.iter().cycle() {
                if rest.is_empty() { break; }
                let (piece, after) = rest.split_at(size.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            let (mut frames, last) = decode(&pieces);
            frames.extend(last);
            prop_assert_eq!(frames, reference(&bytes));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let (mut frames, last) = decode(&[&bytes]);
            frames.extend(last);
            prop_assert_eq!(frames, reference(&bytes));
        }
    }
}
