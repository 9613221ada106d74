//! The head of a proxy's answer to CONNECT, read however it is split over packets.
//!
//! A general HTTP client cannot be used here: it would take `Content-Length` and
//! `Transfer-Encoding` for the frame of a body, while after a 2xx to CONNECT they mean nothing and
//! all that follows the head is the tunnel (RFC 9110, 9.3.6).

use http::StatusCode;

/// The longest head that is read, in bytes; 1xx answers before the final one count too.
const LIMIT: usize = 64 * 1024;

/// A usual answer is some hundred bytes; a longer one makes the buffer grow.
const USUAL: usize = 1024;

/// How much of a line that is not HTTP is shown.
const SHOWN: usize = 40;

/// Why bytes are not the head of an answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("the answer is not HTTP/1: it starts with \"{0}\"")]
    NotHttp(String),
    #[error("the answer's header is malformed ({0})")]
    Malformed(httparse::Error),
    #[error("the answer's header is longer than {LIMIT} bytes")]
    TooLong,
}

/// Collects bytes until the head of the final answer is whole. Every byte is looked at once, and
/// parsed at most twice, even when each comes in a packet of its own.
pub(super) struct AnswerReader {
    bytes: Vec<u8>,
    /// Up to where line ends were searched for.
    scanned: usize,
    /// Where the line that is not complete yet begins.
    line: usize,
    /// Where the head that is not complete yet begins: behind those of 1xx answers.
    head: usize,
    /// Lines of that head so far: no fewer than it has headers.
    lines: usize,
}

impl Default for AnswerReader {
    fn default() -> Self {
        Self {
            bytes: Vec::with_capacity(USUAL),
            scanned: 0,
            line: 0,
            head: 0,
            lines: 0,
        }
    }
}

impl AnswerReader {
    /// Where to append what was read.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The status of the final answer, or `None` while its head is not whole.
    ///
    /// # Errors
    /// [`AnswerError`], as early as the bytes show it.
    pub(super) fn status(&mut self) -> Result<Option<StatusCode>, AnswerError> {
        loop {
            self.check_start()?;
            let Some(blank) = self.next_line()? else {
                return Ok(None);
            };
            if self.lines == 1 {
                // Only the status line is here, so this finds out whether it is one.
                self.parse_head()?;
            } else if blank && let Some(status) = self.parse_head()? {
                // 101 is final: what follows it is not HTTP.
                if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
                    return Ok(Some(status));
                }
                self.head = self.line;
                self.lines = 0;
            }
        }
    }

    /// The bytes behind the head: the first of the tunnel.
    pub(super) fn into_early(mut self) -> Vec<u8> {
        self.bytes.split_off(self.line)
    }

    /// Ends with something that speaks another protocol at its first bytes: it may never send a
    /// line end, and the failure would be a timeout that explains nothing.
    fn check_start(&self) -> Result<(), AnswerError> {
        const START: &[u8] = b"HTTP/1.";
        let head = self.bytes.get(self.head..).unwrap_or_default();
        if head.iter().zip(START).all(|(byte, wanted)| byte == wanted) {
            return Ok(());
        }
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
        let shown = line.get(..SHOWN).unwrap_or(line).trim_ascii_end();
        Err(AnswerError::NotHttp(shown.escape_ascii().to_string()))
    }

    /// Steps over one more complete line and says whether it is blank.
    fn next_line(&mut self) -> Result<Option<bool>, AnswerError> {
        let fresh = self.bytes.get(self.scanned..).unwrap_or_default();
        let Some(at) = fresh.iter().position(|&byte| byte == b'\n') else {
            self.scanned = self.bytes.len();
            return if self.scanned >= LIMIT {
                Err(AnswerError::TooLong)
            } else {
                Ok(None)
            };
        };
        let end = self.scanned + at + 1;
        if end > LIMIT {
            return Err(AnswerError::TooLong);
        }
        let line = self.bytes.get(self.line..end).unwrap_or_default();
        let blank = matches!(line, b"\n" | b"\r\n");
        (self.scanned, self.line) = (end, end);
        self.lines += 1;
        Ok(Some(blank))
    }

    /// Parses the complete lines; `None` when more of them must follow.
    fn parse_head(&self) -> Result<Option<StatusCode>, AnswerError> {
        let head = self.bytes.get(self.head..self.line).unwrap_or_default();
        let mut headers = vec![httparse::EMPTY_HEADER; self.lines];
        let mut answer = httparse::Response::new(&mut headers);
        let parsed = answer.parse(head).map_err(AnswerError::Malformed)?;
        let status = answer.code.map(StatusCode::from_u16).transpose();
        let status = status.map_err(|_| AnswerError::Malformed(httparse::Error::Status))?;
        Ok(status.filter(|_| parsed.is_complete()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::mem;

    type Read = Result<Option<(u16, Vec<u8>)>, AnswerError>;

    /// Feeds `pieces`, each as if it were a packet, and stops at the first result.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
        let mut reader = AnswerReader::default();
        let mut pieces = pieces.into_iter();
        while let Some(piece) = pieces.next() {
            reader.buffer().extend_from_slice(piece);
            if let Some(status) = reader.status()? {
                let mut early = reader.into_early();
                pieces.for_each(|piece| early.extend_from_slice(piece));
                return Ok(Some((status.as_u16(), early)));
            }
        }
        Ok(None)
    }

    /// In one piece, byte by byte, and cut in two at every place: always the same.
    fn read_in_every_way(bytes: &[u8]) -> Read {
        let whole = read([bytes]);
        assert_eq!(read(bytes.chunks(1)), whole, "byte by byte");
        for at in 0..=bytes.len() {
            let (one, two) = bytes.split_at(at);
            assert_eq!(read([one, two]), whole, "cut at {at}");
        }
        whole
    }

    #[test]
    fn a_whole_head_gives_its_status_and_what_is_behind_it() {
        for (bytes, status, early) in [
            ("HTTP/1.1 200 Connection established\r\n\r\n", 200, ""),
            ("HTTP/1.0 200 OK\r\n\r\n", 200, ""),
            ("HTTP/1.1 200\r\n\r\n", 200, ""),
            ("HTTP/1.1 200 \r\n\r\n", 200, ""),
            ("HTTP/1.1 200 OK\n\n", 200, ""),
            ("HTTP/1.1 204 No Content\r\nVia: x\r\n\r\n", 204, ""),
            ("HTTP/1.1 299 Odd\r\n\r\n", 299, ""),
            (
                "HTTP/1.1 200 OK\r\n\r\ntunnel\r\n\r\n",
                200,
                "tunnel\r\n\r\n",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\ntunnel",
                200,
                "tunnel",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                200,
                "0\r\n\r\n",
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx",
                200,
                "x",
            ),
            ("HTTP/1.1 101 Switching\r\n\r\nx", 101, "x"),
            ("HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", 302, ""),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", 403, ""),
            (
                "HTTP/1.1 407 Proxy Authentication Required\r\n\r\nbody",
                407,
                "body",
            ),
            ("HTTP/1.1 999 Odd\r\n\r\n", 999, ""),
        ] {
            let read = read_in_every_way(bytes.as_bytes());
            assert_eq!(read, Ok(Some((status, early.into()))), "{bytes:?}");
        }
    }

    #[test]
    fn a_head_that_is_not_whole_gives_nothing_yet() {
        for bytes in [
            "",
            "H",
            "HTTP/1.1 2",
            "HTTP/1.1 200 OK",
            "HTTP/1.1 200 OK\r",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nVia: x\r\n",
            "HTTP/1.1 200 OK\r\nVia: x\r\n\r",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
        ] {
            assert_eq!(read_in_every_way(bytes.as_bytes()), Ok(None), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_http_is_told_at_its_first_bytes() {
        for (bytes, shown) in [
            ("SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0-OpenSSH_9.2"),
            ("\u{15}\u{3}\u{3}", "\\x15\\x03\\x03"),
            ("\r\n\r\n", ""),
            ("HTTP/2 200\r\n\r\n", "HTTP/2 200"),
            (
                "<html>01234567890123456789012345678901234567890123456789</html>",
                "<html>0123456789012345678901234567890123",
            ),
        ] {
            let read_whole = read([bytes.as_bytes()]);
            assert_eq!(read_whole, Err(AnswerError::NotHttp(shown.into())));
            let read_slowly = read(bytes.as_bytes().chunks(1));
            assert!(
                matches!(read_slowly, Err(AnswerError::NotHttp(_))),
                "{bytes:?}: {read_slowly:?}"
            );
        }
        let after_interim = read([b"HTTP/1.1 100 Continue\r\n\r\nnonsense".as_slice()]);
        assert_eq!(after_interim, Err(AnswerError::NotHttp("nonsense".into())));
    }

    #[test]
    fn a_malformed_line_is_told_without_waiting_for_the_end() {
        for bytes in [
            "HTTP/1.1 2000 OK\r\n",
            "HTTP/1.1 20 OK\r\n",
            "HTTP/1.1 abc OK\r\n",
            "HTTP/1.1200 OK\r\n",
            "HTTP/1.9 200 OK\r\n",
            "HTTP/1.1\r\n",
            "HTTP/1.1 000 OK\r\n",
            "HTTP/1.1 200 O\u{0}K\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
        ] {
            let read = read_in_every_way(bytes.as_bytes());
            assert!(
                matches!(read, Err(AnswerError::Malformed(_))),
                "{bytes:?}: {read:?}"
            );
        }
    }

    proptest! {
        /// Whatever bytes come, how they are split decides nothing.
        #[test]
        fn packets_make_no_difference(
            words in prop::collection::vec(
                prop::sample::select(vec!["HTTP/1.1 ", "100", "200", " ", "a", ":", "\r", "\n", "\r\n", "\0"]),
                0..24,
            ),
            start in prop::sample::select(vec!["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 C\r\n\r\n"]),
        ) {
            let bytes = format!("{start}{}", words.concat()).into_bytes();
            // The text of an error shows what was there when it was found.
            let kind = |read: Read| read.map_err(|error| mem::discriminant(&error));
            let whole = kind(read([&*bytes]));
            prop_assert_eq!(kind(read(bytes.chunks(1))), whole.clone());
            for at in 0..=bytes.len() {
                let (one, two) = bytes.split_at(at);
                prop_assert_eq!(kind(read([one, two])), whole.clone());
            }
        }
    }

    /// A head of exactly `length` bytes, with as many short headers as fit.
    fn head_of(length: usize) -> Vec<u8> {
        let (start, end) = ("HTTP/1.1 200 OK\r\n", "\r\n");
        let mut head = String::from(start);
        while head.len() + "a:\n".len() + end.len() <= length - "ab:\n".len() {
            head += "a:\n";
        }
        let rest = length - head.len() - end.len();
        head = head + &"a".repeat(rest - 2) + ":\n" + end;
        assert_eq!(head.len(), length);
        head.into_bytes()
    }

    #[test]
    fn a_head_ends_within_64_kib_or_is_refused() {
        let longest = head_of(LIMIT);
        for size in [1, 1000, LIMIT] {
            let read = read(longest.chunks(size));
            assert_eq!(read, Ok(Some((200, vec![]))), "packets of {size}");
        }
        let mut with_tunnel = longest.clone();
        with_tunnel.extend_from_slice(b"tunnel");
        assert_eq!(read([&*with_tunnel]), Ok(Some((200, b"tunnel".to_vec()))));

        let too_long = head_of(LIMIT + 1);
        let one_line = [b"HTTP/1.1 200 ".as_slice(), &b"x".repeat(70 * 1024)].concat();
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(70 * 1024 / 25);
        for bytes in [too_long, one_line, interim] {
            for size in [1, 1000, bytes.len()] {
                let read = read(bytes.chunks(size));
                assert_eq!(read, Err(AnswerError::TooLong), "packets of {size}");
            }
        }
    }
}
