//! What the API answers, as JSON. Serialised from borrowed data straight into the answer's bytes.

use super::lease_id;
use actors::leases::terms::{Grant, View};
use bytes::Bytes;
use crds::Phase;
use futures::{StreamExt as _, stream};
use schemars::JsonSchema;
use serde::Serialize;
use std::{collections::BTreeMap, convert::Infallible};
use warp::{
    Reply as _,
    http::{HeaderValue, StatusCode, header},
    reply::Response,
};

/// One proxy as the API shows it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Proxy")]
pub struct ProxyView<'a> {
    /// `namespace/name`.
    id: &'a str,
    /// Where to connect to: an IP address, or an External proxy's host name; empty until there is one.
    ip: &'a str,
    /// The port to connect to.
    port: u16,
    /// Free selection labels; left out when there are none.
    #[serde(skip_serializing_if = "is_empty")]
    attributes: &'a BTreeMap<String, String>,
    /// Where the proxy is in its life.
    phase: Phase,
    /// The verdict of the probes; only healthy proxies are leased.
    healthy: bool,
    /// How long the last good probe took; null until there was one.
    latency_millis: Option<u32>,
    /// Slots taken now.
    active_leases: u32,
    /// Slots there are.
    max_leases: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_empty(map: &&BTreeMap<String, String>) -> bool {
    map.is_empty()
}

impl<'a> From<&'a View> for ProxyView<'a> {
    fn from(view: &'a View) -> Self {
        let proxy = &*view.candidate;
        Self {
            id: proxy.key.as_str(),
            ip: &proxy.ip,
            port: proxy.port,
            attributes: &proxy.attributes,
            phase: proxy.phase,
            healthy: proxy.healthy,
            latency_millis: proxy.latency_millis,
            active_leases: view.active_leases,
            max_leases: proxy.max_leases,
        }
    }
}

/// The proxies that match, sorted by id.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ProxyList")]
pub struct ProxyList<'a> {
    /// The proxies.
    pub proxies: Vec<ProxyView<'a>>,
    /// How many there are.
    pub count: usize,
}

/// A lease just granted, with the proxy to use.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Grant")]
pub struct Granted<'a> {
    /// 26 characters of upper-case base32.
    #[serde(rename = "leaseID")]
    id: String,
    /// The proxy to use.
    proxy: ProxyView<'a>,
    /// When the lease ends unless renewed: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    /// The lifetime asked for.
    ttl_seconds: u64,
}

/// A live lease.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Lease")]
pub struct Lease<'a> {
    /// 26 characters of upper-case base32.
    #[serde(rename = "leaseID")]
    id: String,
    /// The proxy's id, `namespace/name`.
    proxy: &'a str,
    /// The site that the lease was taken for; left out when it was for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    /// When the lease ends unless renewed: RFC 3339, UTC.
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    /// The lifetime asked for.
    ttl_seconds: u64,
}

impl<'a> Granted<'a> {
    /// `None` where the proxy left the fleet: the ledger grants no such lease.
    #[must_use]
    pub fn new(grant: &'a Grant) -> Option<Self> {
        Some(Self {
            id: lease_id::text(grant.id),
            proxy: ProxyView::from(grant.proxy.as_ref()?),
            expires_at: humantime::format_rfc3339_millis(grant.expires_at).to_string(),
            ttl_seconds: grant.ttl.as_secs(),
        })
    }
}

impl<'a> From<&'a Grant> for Lease<'a> {
    fn from(grant: &'a Grant) -> Self {
        Self {
            id: lease_id::text(grant.id),
            proxy: grant.key.as_str(),
            target: grant.target.as_deref(),
            expires_at: humantime::format_rfc3339_millis(grant.expires_at).to_string(),
            ttl_seconds: grant.ttl.as_secs(),
        }
    }
}

/// An answer with `value` as its body.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let (status, body) = serialised(status, value);
    let mut response = content("application/json", body);
    *response.status_mut() = status;
    response
}

/// A 200 with `value` as its body, which holds `place` until all of it is sent.
pub fn large_json(value: &impl Serialize, place: impl Send + Sync + 'static) -> Response {
    let (status, body) = serialised(StatusCode::OK, value);
    let length = HeaderValue::from(body.len());
    let sent = stream::iter([Ok::<_, Infallible>(body)]);
    // The stream is dropped when it was asked for more: that is when the one piece that it has is sent.
    let sent = sent.inspect(move |_| _ = &place);
    let mut response = warp::reply::stream(sent).into_response();
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CONTENT_LENGTH, length);
    response
}

fn serialised(status: StatusCode, value: &impl Serialize) -> (StatusCode, Vec<u8>) {
    // The types here cannot fail to serialise: string keys only, no maps of our own making.
    match serde_json::to_vec(value) {
        Ok(body) => (status, body),
        Err(error) => {
            tracing::error!(%error, "an answer did not serialise");
            (StatusCode::INTERNAL_SERVER_ERROR, Vec::new())
        }
    }
}

/// A 200 with `body`.
pub fn content(media_type: &'static str, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// An answer without a body.
#[must_use]
pub fn no_content() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
