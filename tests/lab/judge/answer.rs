//! What a path is answered with, and the answers as HTTP.

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use std::{convert::Infallible, io, net::IpAddr, time::Duration};
use tokio::time::sleep;

/// `/large` is sent in pieces of this.
static PIECE: [u8; 64 * 1024] = [b'x'; 64 * 1024];

/// A body that may break off.
pub type Body = BoxBody<Bytes, io::Error>;

/// What a path is answered with.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Status(StatusCode),
    Address,
    Delay(Duration),
    CutEarly,
    Cut,
    /// So many MiB.
    Large(usize),
    Redirect,
}

/// Reads a path; the table is in the module above.
pub fn answer(path: &str) -> Answer {
    let mut words = path.split('/').skip(1);
    let (first, second) = (words.next().unwrap_or(""), words.next());
    match (first, second) {
        ("" | "generate_204", _) => Answer::Status(StatusCode::NO_CONTENT),
        ("ip", _) => Answer::Address,
        ("status", Some(code)) => Answer::Status(code.parse().unwrap_or(StatusCode::BAD_REQUEST)),
        ("delay", Some(millis)) => match millis.parse() {
            Ok(millis) => Answer::Delay(Duration::from_millis(millis)),
            Err(_) => Answer::Status(StatusCode::BAD_REQUEST),
        },
        ("cut", Some("early")) => Answer::CutEarly,
        ("cut", _) => Answer::Cut,
        ("large", mib) => Answer::Large(mib.and_then(|n| n.parse().ok()).unwrap_or(8)),
        ("redirect", _) => Answer::Redirect,
        _ => Answer::Status(StatusCode::NOT_FOUND),
    }
}

impl Answer {
    /// Takes the time that it takes.
    ///
    /// # Errors
    /// What hyper answers by closing the connection at once.
    pub async fn give(self, peer: IpAddr) -> io::Result<Response<Body>> {
        Ok(match self {
            Self::Status(status) => empty(status),
            Self::Address => text("text/plain", peer.to_string()),
            Self::Delay(time) => {
                sleep(time).await;
                empty(StatusCode::NO_CONTENT)
            }
            Self::CutEarly => return Err(io::ErrorKind::ConnectionAborted.into()),
            Self::Cut => cut(),
            Self::Large(mib) => large(mib),
            Self::Redirect => redirect(),
        })
    }
}

/// A status without a body.
pub fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(never).boxed());
    *response.status_mut() = status;
    response
}

/// 200 with a body of this content type.
pub fn text(kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).map_err(never).boxed());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn redirect() -> Response<Body> {
    let mut response = empty(StatusCode::FOUND);
    let there = HeaderValue::from_static("/generate_204");
    response.headers_mut().insert(header::LOCATION, there);
    response
}

fn large(mib: usize) -> Response<Body> {
    let length = mib.saturating_mul(1024 * 1024);
    let piece = || Ok(Frame::data(Bytes::from_static(&PIECE)));
    let pieces = std::iter::repeat_with(piece).take(length / PIECE.len());
    let mut response = Response::new(BoxBody::new(StreamBody::new(stream::iter(pieces))));
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, length.into());
    response
}

fn cut() -> Response<Body> {
    let start = stream::iter([Ok(Frame::data(Bytes::from_static(b"so far and ")))]);
    let end = stream::once(async {
        // Lets the start go out first.
        sleep(Duration::from_millis(5)).await;
        Err(io::Error::from(io::ErrorKind::ConnectionAborted))
    });
    let mut response = Response::new(BoxBody::new(StreamBody::new(start.chain(end))));
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, 1000.into());
    response
}

fn never(error: Infallible) -> io::Error {
    match error {}
}
