//! Fetching an image: the request, what its answer means, and its bytes in pieces of a good size.

use super::Image;
use crate::{
    providers::kvm::{
        config::Format,
        error::HostError,
        image_header::{self, NEEDED},
        link::Answer,
    },
    telemetry::with_causes,
};
use actors::provider::contract::ErrorClass;
use bytes::{Bytes, BytesMut};
use reqwest::{Client, Response, StatusCode, header::ETAG};
use std::time::Duration;

/// How long a server may take to accept a connection, and to say something more.
const CONNECT: Duration = Duration::from_secs(10);
pub(super) const SILENCE: Duration = Duration::from_mins(1);
/// What libvirt sends in one packet, without its header.
const PIECE: usize = 262_120;

/// An image on its way here. Its first bytes have come, and look like what the config says.
pub(super) struct Download {
    response: Response,
    rest: BytesMut,
    ended: bool,
    /// The first bytes, which are left out of [`Self::next`].
    pub head: Bytes,
    /// What the server said the whole has.
    pub length: Option<u64>,
    /// What the server calls this version.
    pub etag: Option<String>,
}

impl Download {
    /// Asks for the image and reads as much as shows what it is.
    ///
    /// # Errors
    /// `Permanent` for what another URL or format mends.
    pub async fn begin(image: &Image) -> Answer<Self> {
        let failed = |error: reqwest::Error| failed(image, error);
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(SILENCE)
            // The digest is that of the file, whatever the server would make of it.
            .user_agent(concat!("proxy-operator/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(failed)?;
        let response = client
            .get(image.url.url().clone())
            .send()
            .await
            .map_err(failed)?;
        let status = response.status();
        if !status.is_success() {
            let message = format!("image {image}: the server answers {status}");
            return Err(HostError::new(class_of(status), message));
        }
        let etag = response.headers().get(ETAG);
        let mut download = Self {
            etag: etag.and_then(|tag| Some(tag.to_str().ok()?.to_owned())),
            length: response.content_length(),
            response,
            rest: BytesMut::new(),
            ended: false,
            head: Bytes::new(),
        };
        download.fill(NEEDED).await.map_err(failed)?;
        let first = download.rest.len().min(NEEDED);
        download.head = download.rest.split_to(first).freeze();
        download.check(image)?;
        Ok(download)
    }

    fn check(&self, image: &Image) -> Answer<()> {
        let format: Format = image.format;
        image_header::check(format, &self.head)
            .map(drop)
            .map_err(|why| HostError::permanent(format!("image {image}: {why}")))
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When the server does not send all of it.
    pub async fn next(&mut self, image: &Image) -> Answer<Option<Bytes>> {
        self.fill(PIECE)
            .await
            .map_err(|error| failed(image, error))?;
        let size = self.rest.len().min(PIECE);
        Ok((size > 0).then(|| self.rest.split_to(size).freeze()))
    }

    /// Reads until there are `wanted` bytes, or the end.
    async fn fill(&mut self, wanted: usize) -> reqwest::Result<()> {
        while self.rest.len() < wanted && !self.ended {
            match self.response.chunk().await? {
                Some(more) => self.rest.extend_from_slice(&more),
                None => self.ended = true,
            }
        }
        Ok(())
    }
}

/// The URL is left out, for its query may hold a signature.
fn failed(image: &Image, error: reqwest::Error) -> HostError {
    let error = error.without_url();
    HostError::transient(format!("image {image}: {}", with_causes(&error)))
}

fn class_of(status: StatusCode) -> ErrorClass {
    let may_pass = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    if status.is_client_error() && !may_pass.contains(&status) {
        ErrorClass::Permanent
    } else {
        ErrorClass::Transient
    }
}
