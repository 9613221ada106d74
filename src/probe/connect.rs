//! The question for a tunnel and the proxy's answer to it.

mod answer;

use super::{USER_AGENT, budget::Budget, stage::Stage};
use actors::prober::probe::{FailureKind, ProbeFailure};
use answer::AnswerReader;
use http::StatusCode;
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Turns `stream` into a tunnel to `target` (host and port), and returns the bytes of the tunnel
/// that came along with the answer.
///
/// # Errors
/// [`FailureKind::ProxyAuth`], [`FailureKind::ConnectRefused`], [`FailureKind::Protocol`] or
/// [`FailureKind::Timeout`].
pub(super) async fn tunnel(
    stream: &mut TcpStream,
    proxy: &str,
    target: &str,
    budget: &Budget,
) -> Result<Vec<u8>, ProbeFailure> {
    let stage = Stage::Connect { target, proxy };
    let (status, early) = budget
        .spend(stage, "no complete answer", ask(stream, target))
        .await?
        .map_err(|error| stage.failed(FailureKind::Protocol, error))?;
    if status.is_success() {
        return Ok(early);
    }
    Err(if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        stage.failed(
            FailureKind::ProxyAuth,
            format_args!("the proxy wants credentials: answered {status}"),
        )
    } else {
        stage.failed(
            FailureKind::ConnectRefused,
            format_args!("refused by the proxy: answered {status}"),
        )
    })
}

/// Why there is no answer to read a status from.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("the connection broke ({0})")]
    Broken(#[from] io::Error),
    #[error("the connection was closed without an answer")]
    Silent,
    #[error("the connection was closed in the middle of the answer's header")]
    Truncated,
    #[error(transparent)]
    Answer(#[from] answer::AnswerError),
}

async fn ask(stream: &mut TcpStream, target: &str) -> Result<(StatusCode, Vec<u8>), AskError> {
    let question =
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: {USER_AGENT}\r\n\r\n");
    stream.write_all(question.as_bytes()).await?;
    let mut answer = AnswerReader::default();
    loop {
        if stream.read_buf(answer.buffer()).await? == 0 {
            return Err(if answer.buffer().is_empty() {
                AskError::Silent
            } else {
                AskError::Truncated
            });
        }
        if let Some(status) = answer.status()? {
            return Ok((status, answer.into_early()));
        }
    }
}
