//! Answers as HTTP.

use super::refusal::Refusal;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;
use serde_json::Value;
use std::{io, time::Duration};
use tokio::time::sleep;

/// A body that may break off.
pub type Body = BoxBody<Bytes, io::Error>;

/// An answer that is not sent yet.
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Content type.
    kind: &'static str,
    /// Body.
    pub body: Vec<u8>,
    /// More header fields.
    pub headers: Vec<(&'static str, String)>,
    /// Whether the connection ends in the middle of it.
    pub cut: bool,
}

impl Reply {
    /// JSON, as Google formats it.
    pub fn json(status: u16, value: &Value) -> Self {
        // What was made of values can be written.
        let body = serde_json::to_vec_pretty(value).unwrap_or_default();
        Self::new(status, "application/json; charset=UTF-8", body)
    }

    /// An error.
    pub fn refusal(refusal: &Refusal) -> Self {
        let mut reply = Self::json(refusal.code, &refusal.body());
        reply.headers = refusal.headers();
        reply
    }

    /// Some text.
    pub fn text(status: u16, kind: &'static str, body: &str) -> Self {
        Self::new(status, kind, body.into())
    }

    /// Nothing but a status.
    pub fn empty(status: u16) -> Self {
        Self::new(status, "text/plain", Vec::new())
    }

    /// The page for a URL that is none of an API's.
    pub fn html(status: u16) -> Self {
        let page = format!(
            "<!DOCTYPE html>\n<html lang=en>\n<title>Error {status}</title>\n\
             <p><b>{status}.</b> <ins>That's an error.</ins>\n"
        );
        Self::new(status, "text/html; charset=UTF-8", page.into_bytes())
    }

    fn new(status: u16, kind: &'static str, body: Vec<u8>) -> Self {
        Self {
            status,
            kind,
            body,
            headers: Vec::new(),
            cut: false,
        }
    }

    /// As hyper sends it.
    ///
    /// # Errors
    /// A header that is none.
    pub fn http(mut self) -> io::Result<Response<Body>> {
        let length = self.body.len();
        let body = if self.cut {
            self.body.truncate(length / 2);
            let half = Ok(Frame::data(Bytes::from(self.body)));
            let end = async {
                // What was sent so far is to arrive.
                sleep(Duration::from_millis(50)).await;
                Err(io::Error::from(io::ErrorKind::ConnectionAborted))
            };
            let pieces = stream::iter([half]).chain(stream::once(end));
            BoxBody::new(StreamBody::new(pieces))
        } else {
            Full::new(Bytes::from(self.body))
                .map_err(|never| match never {})
                .boxed()
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(self.status).map_err(io::Error::other)?;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(header::CONTENT_LENGTH, length.into());
        for (name, value) in self.headers {
            let value = HeaderValue::from_str(&value).map_err(io::Error::other)?;
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(response)
    }
}
