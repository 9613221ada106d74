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
