//! A follower passes requests to the lease API on to the leader, so that a client may ask any replica.
//!
//! The leader checks the request as if it had come to it directly, the token included; its answer is
//! handed back as it is. What was sent is never sent again: a lease must not be granted twice. So a
//! leader that cannot be reached is a 503 `not_leader`, after which trying again is safe, and one that
//! breaks off is a 500 `internal`, after which nobody knows.

use super::{refusal::Refusal, trace};
use crate::telemetry::with_causes;
use actors::leader::standing::Standing;
use bytes::Bytes;
use std::time::Duration;
use warp::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    reply::Response,
};

/// Marks a request that was passed on: whoever gets it answers it, or says that it cannot.
const HOP: HeaderName = HeaderName::from_static("x-proxy-operator-hop");
/// To connect: a leader that is there answers at once.
const CONNECT: Duration = Duration::from_secs(2);
/// For all of it, a little longer than the leader gives its ledger.
const DEADLINE: Duration = Duration::from_secs(8);
/// Shorter than the leader waits for a request on a connection, so that none is sent into its end.
const IDLE: Duration = Duration::from_secs(5);

/// What is said from one hop to the next, and not to the one after.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Passes requests on while another process leads.
pub struct Forward {
    standing: Standing,
    client: reqwest::Client,
}

impl Forward {
    /// A forwarder that goes by `standing`.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn new(standing: Standing) -> reqwest::Result<Self> {
        let client = reqwest::Client::builder()
            .http1_only()
            .no_proxy()
            // Plain HTTP inside the cluster needs no certificates.
            .tls_certs_only([])
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT)
            .timeout(DEADLINE)
            .pool_idle_timeout(IDLE)
            .build()?;
        Ok(Self { standing, client })
    }

    /// Whether requests are for another process now.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !self.standing.may_act()
    }

    /// Passes a request on and hands back what the leader answers.
    ///
    /// # Errors
    /// [`Refusal::NotLeader`] when the leader cannot have seen it, [`Refusal::Internal`] when it may have.
    pub async fn pass(
        &self,
        method: &Method,
        path_and_query: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response, Refusal> {
        let leader = self.standing.leader().ok_or(Refusal::NotLeader)?;
        if headers.contains_key(HOP) {
            return Err(Refusal::NotLeader);
        }
        // The answer to a HEAD has no length that could be handed back; ours gets one, and no body.
        let asked = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let mut passed = end_to_end(headers);
        passed.insert(HOP, HeaderValue::from_static("1"));
        trace::pass_on(&mut passed);
        let request = self
            .client
            .request(asked.clone(), format!("http://{leader}{path_and_query}"))
            .headers(passed)
            .body(body);
        let answered = async {
            let answer = request.send().await?;
            let (status, headers) = (answer.status(), end_to_end(answer.headers()));
            let mut response = Response::new(answer.bytes().await?.into());
            (*response.status_mut(), *response.headers_mut()) = (status, headers);
            Ok::<_, reqwest::Error>(response)
        };
        answered.await.map_err(|error| {
            tracing::debug!(
                leader,
                error = with_causes(&error),
                "no answer from the leader"
            );
            // Before there is a connection, and where no URL can be made of the address.
            if error.is_connect() || error.is_builder() {
                Refusal::NotLeader
            } else {
                Refusal::Internal
            }
        })
    }
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    // Those that the sender names as its own, too.
    let named: Vec<_> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        kept.remove(name);
    }
    kept.remove("keep-alive");
    kept
}

#[cfg(test)]
#[path = "forward_test.rs"]
mod tests;
