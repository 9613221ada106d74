//! Reading a request's body: limited while it arrives, whether its length was told or not.

use super::refusal::Refusal;
use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

/// The longest body.
pub const MAX_BODY: usize = 64 * 1024;

/// How much of a body that nobody wants is read and dropped.
const MAX_DRAIN: usize = 256 * MAX_BODY;

/// The whole body, which is empty where none was sent.
///
/// # Errors
/// [`Refusal::InvalidBody`] where it is over [`MAX_BODY`], breaks off, or is not there by `until`.
pub async fn body<S, B, E>(stream: &mut S, until: Instant) -> Result<Bytes, Refusal>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    match timeout_at(until, collect(stream)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(why)) => Err(Refusal::InvalidBody(why)),
        Err(_) => Err(Refusal::InvalidBody(
            "the body did not arrive in time".into(),
        )),
    }
}

async fn collect<S, B, E>(stream: &mut S) -> Result<Bytes, String>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    let mut whole = Bytes::new();
    while let Some(chunk) = stream.next().await {
        let mut chunk = chunk.map_err(|_| "the body broke off".to_owned())?;
        let length = chunk.remaining();
        if whole.len() + length > MAX_BODY {
            return Err(format!("the body is over {MAX_BODY} bytes"));
        }
        let chunk = chunk.copy_to_bytes(length);
        if whole.is_empty() {
            whole = chunk;
        } else {
            let mut longer = BytesMut::from(whole);
            longer.extend_from_slice(&chunk);
            whole = longer.freeze();
        }
    }
    Ok(whole)
}

/// Reads what is left of a body and drops it: a client that still writes when its connection is
/// closed may never see the answer. Gives up at `until` or at 16 MiB; hyper closes the connection
/// then.
pub async fn drain<S, B, E>(stream: &mut S, until: Instant)
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
{
    let mut dropped = 0;
    let rest = async {
        while let Some(Ok(chunk)) = stream.next().await {
            dropped += chunk.remaining();
            if dropped > MAX_DRAIN {
                break;
            }
        }
    };
    timeout_at(until, rest).await.ok();
}
