//! The requests that Google's client cannot make: a list that lets single zones fail, and one that asks
//! for a part of each VM only. They go out over a client of ours with the same credentials.

use super::{
    api::{About, Api},
    classify::Refusal,
};
use bytes::Bytes;
use google_cloud_gax::error::rpc::Status;
use reqwest::Response;
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;

/// No answer is larger: a page is some 300 KB.
const LARGEST: usize = 64 << 20;
const CONNECT: Duration = Duration::from_secs(5);

impl Api {
    pub(super) async fn read<T: DeserializeOwned + Serialize + Sync>(
        &self,
        rpc: &'static str,
        below: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Refusal> {
        let path = self.path(below);
        let about = About::of(rpc, "GET", &path);
        self.bounded(&about, async {
            let headers = self.credentials.headers().await;
            let headers = headers.map_err(|error| Refusal::of_token(&error))?;
            let http = self.http.get_or_try_init(|| async { client() }).await;
            let http = http.map_err(|error| Refusal::no_client(&error.to_string()))?;
            let request = http
                .get(format!("{}{path}", self.endpoint))
                .headers(headers)
                .query(query);
            self.wire.request(about.method, &path, Some(&query));
            let response = request.send().await.map_err(Refusal::of_transport)?;
            let status = response.status();
            let body = whole(response).await?;
            if !status.is_success() {
                return Err(match Status::try_from(&body) {
                    Ok(error) => Refusal::of_answer(status.as_u16(), &error),
                    Err(_) => Refusal::of_stranger(status.as_u16()),
                });
            }
            let answer = serde_json::from_slice(&body).map_err(|_| Refusal::unreadable())?;
            self.wire.answer(about.method, &path, &answer);
            Ok(answer)
        })
        .await
    }
}

async fn whole(mut response: Response) -> Result<Bytes, Refusal> {
    let mut body = Vec::new();
    while let Some(more) = response.chunk().await.map_err(Refusal::of_transport)? {
        if body.len() + more.len() > LARGEST {
            return Err(Refusal::unreadable());
        }
        body.extend_from_slice(&more);
    }
    Ok(body.into())
}

fn client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .http1_only()
        .user_agent(concat!("proxy-operator/", env!("CARGO_PKG_VERSION")))
        .build()
}
