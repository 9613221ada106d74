//! Reading a request's body: limited while it arrives, whether its length was told or not.

use super::refusal::Refusal;
use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use std::{pin::pin, time::Duration};

/// The longest body.
pub const MAX_BODY: usize = 64 * 1024;

/// How much of a body over the limit is read and dropped. A client that still writes when the
/// connection is closed may never see the answer, so moderate slips are read to their end.
const MAX_DRAIN: usize = 16 * MAX_BODY;

/// The whole body, which is empty where none was sent.
///
/// # Errors
/// [`Refusal::InvalidBody`] where it is over [`MAX_BODY`], breaks off, or takes longer than
/// `deadline`. hyper closes a connection whose request was not read to its end.
pub async fn body<S, B, E>(stream: S, deadline: Duration) -> Result<Bytes, Refusal>
where
    S: Stream<Item = Result<B, E>>,
    B: Buf,
{
    match tokio::time::timeout(deadline, collect(stream)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(why)) => Err(Refusal::InvalidBody(why)),
        Err(_) => Err(Refusal::InvalidBody(format!(
            "the body did not arrive within {} s",
            deadline.as_secs_f32()
        ))),
    }
}

async fn collect<S, B, E>(stream: S) -> Result<Bytes, String>
where
    S: Stream<Item = Result<B, E>>,
    B: Buf,
{
    let mut stream = pin!(stream);
    let mut whole = Bytes::new();
    let mut dropped = 0;
    while let Some(chunk) = stream.next().await {
        let mut chunk = chunk.map_err(|_| "the body broke off".to_owned())?;
        let length = chunk.remaining();
        if dropped > 0 || whole.len() + length > MAX_BODY {
            dropped += length;
            if dropped > MAX_DRAIN {
                break;
            }
        } else if whole.is_empty() {
            whole = chunk.copy_to_bytes(length);
        } else {
            let mut longer = BytesMut::from(whole);
            longer.extend_from_slice(&chunk.copy_to_bytes(length));
            whole = longer.freeze();
        }
    }
    if dropped > 0 {
        return Err(format!("the body is over {MAX_BODY} bytes"));
    }
    Ok(whole)
}
