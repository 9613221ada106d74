//! The request to the target, over the tunnel or straight to the proxy.

use super::{USER_AGENT, budget::Budget, stage::Stage, target::Target};
use crate::telemetry::with_causes;
use actors::prober::probe::{FailureKind, ProbeFailure};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use std::{error::Error, io, pin::pin};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};
use tokio_rustls::rustls;

/// No more of a body is read than this, in bytes; a longer one is a success too. Also the longest
/// head.
const LIMIT: usize = 64 * 1024;

/// Fetches `target` over `stream`, compares the status (a redirect is one like any other), and only
/// if it is the `expected` one reads the body too, into `page`. Returns when the head of the answer was
/// complete.
///
/// # Errors
/// [`FailureKind::Status`], [`FailureKind::ProxyAuth`], [`FailureKind::Protocol`],
/// [`FailureKind::Timeout`], or [`FailureKind::Tls`] for an alert that comes after the handshake
/// (TLS 1.3 lets the client finish first).
pub(super) async fn get<S>(
    stream: S,
    proxy: &str,
    target: &Target,
    expected: u16,
    budget: &Budget,
    page: &mut impl Extend<Bytes>,
) -> Result<Instant, ProbeFailure>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let stage = Stage::Get {
        url: &target.shown,
        proxy,
    };
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(LIMIT)
        .max_header_size(LIMIT)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failure(stage, &error))?;
    let mut exchange = pin!(exchange(sender, stage, target, expected, budget, page));
    // The connection is driven here and not by a task, so that dropping the probe closes it. It may
    // end first: then what it read is waiting, and so is its error.
    tokio::select! {
        biased;
        answered = &mut exchange => answered,
        _ = connection => exchange.await,
    }
}

async fn exchange(
    mut sender: SendRequest<Empty<Bytes>>,
    stage: Stage<'_>,
    target: &Target,
    expected: u16,
    budget: &Budget,
    page: &mut impl Extend<Bytes>,
) -> Result<Instant, ProbeFailure> {
    let request = Request::get(target.uri.clone())
        .header(header::HOST, &target.host)
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
        .map_err(|error| stage.failed(FailureKind::Protocol, error))?;
    let response = budget
        .spend(stage, "no complete answer", sender.send_request(request))
        .await?
        .map_err(|error| failure(stage, &error))?;
    let answered = Instant::now();
    verdict(target, response.status(), expected)
        .map_err(|(kind, what)| stage.failed(kind, what))?;
    budget
        .spend(stage, "the body did not end", read(response, page))
        .await?
        .map_err(|error| failure(stage, &error))?;
    Ok(answered)
}

/// Whether `status` is what was wanted. Without a tunnel the proxy's own answers look like the
/// target's: only a 407 is surely the proxy's, while a 502, 503 or 504 may be of either and so
/// counts as [`FailureKind::Status`].
fn verdict(
    target: &Target,
    status: StatusCode,
    expected: u16,
) -> Result<(), (FailureKind, String)> {
    if status.as_u16() == expected {
        Ok(())
    } else if target.tls_name.is_none() && status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        Err((
            FailureKind::ProxyAuth,
            format!("the proxy wants credentials: answered {status}"),
        ))
    } else {
        Err((
            FailureKind::Status,
            format!("answered {status}, expected {expected}"),
        ))
    }
}

/// Reads a body to its end, or to the limit.
async fn read(
    response: http::Response<Incoming>,
    page: &mut impl Extend<Bytes>,
) -> Result<(), hyper::Error> {
    let framed = is_framed(response.headers());
    let mut body = response.into_body();
    let mut read = 0;
    while read < LIMIT {
        match body.frame().await {
            None => break,
            Some(Ok(frame)) => {
                let data = frame.into_data().unwrap_or_default();
                read += data.len();
                page.extend([data]);
            }
            // Many servers end such a body by closing TCP without TLS's own goodbye.
            Some(Err(error)) if !framed && is_early_end(&error) => break,
            Some(Err(error)) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the body says itself where it ends; else the end of the connection is its end.
fn is_framed(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING)
}

fn failure(stage: Stage<'_>, error: &hyper::Error) -> ProbeFailure {
    if is_early_end(error) {
        return stage.failed(
            FailureKind::Protocol,
            "the connection was closed before the answer was complete",
        );
    }
    let from_tls = cause(error)
        .and_then(io::Error::get_ref)
        .and_then(|error| error.downcast_ref::<rustls::Error>());
    let kind = match from_tls {
        Some(_) => FailureKind::Tls,
        None => FailureKind::Protocol,
    };
    stage.failed(kind, with_causes(error))
}

fn is_early_end(error: &hyper::Error) -> bool {
    error.is_incomplete_message()
        || cause(error).is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

fn cause(error: &hyper::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}
