//! What is asked, and the head of the answer: decisions without IO.

use super::{Framing, Manner};
use anyhow::Context as _;
use std::{fmt::Write as _, ops::Range};

/// A request.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// `Range`, as it was sent.
    pub range: Option<String>,
    /// `If-Range`, as it was sent.
    pub if_range: Option<String>,
    /// `Connection: close`.
    pub last: bool,
}

impl Asked {
    /// Reads one, with its length; none while its end is missing.
    ///
    /// # Errors
    /// What is no HTTP/1 request.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Option<(Self, usize)>> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = request.parse(bytes)? else {
            return Ok(None);
        };
        let header = |name: &str| {
            let mut headers = request.headers.iter();
            let found = headers.find(|header| header.name.eq_ignore_ascii_case(name))?;
            Some(String::from_utf8_lossy(found.value).into_owned())
        };
        let target = request.path.context("no path")?;
        let asked = Self {
            method: request.method.context("no method")?.to_owned(),
            path: target.split('?').next().unwrap_or(target).to_owned(),
            range: header("range"),
            if_range: header("if-range"),
            last: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
        };
        Ok(Some((asked, length)))
    }

    pub fn is_get(&self) -> bool {
        self.method == "GET"
    }
}

/// The head of an answer, and what follows.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    /// With the empty line.
    pub text: String,
    /// The part of the file that is the body.
    pub body: Option<Range<u64>>,
    /// The connection is closed after it.
    pub close: bool,
}

/// Decides on an answer. `size` is that of the file, if there is one.
pub fn plan(asked: &Asked, manner: &Manner, size: Option<u64>) -> Head {
    if let Some(location) = &manner.redirect {
        return without_body("302 Found", &format!("Location: {location}\r\n"));
    }
    if let Some(status) = manner.status {
        return without_body(&format!("{status} As Told"), "");
    }
    let Some(size) = size else {
        return without_body("404 Not Found", "");
    };
    if !matches!(asked.method.as_str(), "GET" | "HEAD") {
        return without_body("405 Method Not Allowed", "Allow: GET, HEAD\r\n");
    }
    let same = asked.if_range.is_none() || asked.if_range == manner.etag;
    let range = asked.range.as_deref().filter(|_| same && !manner.no_ranges);
    let part = match range.map(|range| part(range, size)) {
        None => 0..size,
        Some(Some(part)) => part,
        Some(None) => {
            let whole = format!("Content-Range: bytes */{size}\r\n");
            return without_body("416 Range Not Satisfiable", &whole);
        }
    };
    let mut text = String::from("HTTP/1.1 ");
    text += if range.is_some() {
        "206 Partial Content"
    } else {
        "200 OK"
    };
    text += "\r\nContent-Type: application/octet-stream\r\n";
    if range.is_some() {
        let last = part.end - 1;
        write!(
            text,
            "Content-Range: bytes {}-{last}/{size}\r\n",
            part.start
        )
        .ok();
    }
    if !manner.no_ranges {
        text += "Accept-Ranges: bytes\r\n";
    }
    if let Some(etag) = &manner.etag {
        write!(text, "ETag: {etag}\r\n").ok();
    }
    if let Some(encoding) = &manner.encoding {
        write!(text, "Content-Encoding: {encoding}\r\n").ok();
    }
    match manner.framing {
        Framing::Length => write!(text, "Content-Length: {}\r\n", part.end - part.start).ok(),
        Framing::Chunked => write!(text, "Transfer-Encoding: chunked\r\n").ok(),
        Framing::Close => write!(text, "Connection: close\r\n").ok(),
    };
    Head {
        text: text + "\r\n",
        body: asked.is_get().then_some(part),
        close: manner.framing == Framing::Close,
    }
}

fn without_body(status: &str, more: &str) -> Head {
    Head {
        text: format!("HTTP/1.1 {status}\r\n{more}Content-Length: 0\r\n\r\n"),
        body: None,
        close: false,
    }
}

/// One range of a `Range` header; none if it lies outside the file or is no such thing.
fn part(range: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let part = match (first, last) {
        ("", last) => size.saturating_sub(last.parse().ok()?)..size,
        (first, "") => first.parse().ok()?..size,
        (first, last) => first.parse().ok()?..size.min(last.parse::<u64>().ok()?.checked_add(1)?),
    };
    (part.start < part.end).then_some(part)
}
