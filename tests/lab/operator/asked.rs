//! What an operator is asked over HTTP: the lease API, the admin server, metrics and health.

use super::{Operator, PATIENCE};
use crate::lab::{eventually, proxy::Applied};
use anyhow::{Context as _, ensure};
use reqwest::Method;
use serde_json::{Value, json};

impl Operator {
    /// Asks the lease API: status and body, `null` for an empty one.
    ///
    /// # Errors
    /// No answer, or a body that is no JSON.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let mut request = self
            .http
            .request(method, format!("http://{}{path}", self.api));
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    /// As [`Operator::ask`], with a token.
    ///
    /// # Errors
    /// No answer, or a body that is no JSON.
    pub async fn ask_as(&self, token: &str, path: &str) -> anyhow::Result<(u16, Value)> {
        let url = format!("http://{}{path}", self.api);
        answer(self.http.get(url).bearer_auth(token)).await
    }

    /// `GET` on the lease API.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub async fn get(&self, path: &str) -> anyhow::Result<(u16, Value)> {
        self.ask(Method::GET, path, None).await
    }

    /// Asks for a lease.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub async fn acquire(&self, wish: Value) -> anyhow::Result<(u16, Value)> {
        self.ask(Method::POST, "/v1/leases", Some(wish)).await
    }

    /// A lease that has to be granted.
    ///
    /// # Errors
    /// That it was not.
    pub async fn lease(&self, wish: Value) -> anyhow::Result<Value> {
        let (status, lease) = self.acquire(wish.clone()).await?;
        ensure!(status == 201, "{wish}: {status} {lease}");
        Ok(lease)
    }

    /// Reports on a lease.
    ///
    /// # Errors
    /// That the report was not taken.
    pub async fn report(&self, lease: &Value, result: &str) -> anyhow::Result<()> {
        let id = lease["leaseID"].as_str().context("a leaseID")?;
        let path = format!("/v1/leases/{id}/report");
        let report = json!({"result": result});
        let (status, body) = self.ask(Method::POST, &path, Some(report)).await?;
        ensure!(status == 204, "{result}: {status} {body}");
        Ok(())
    }

    /// Gives a lease back.
    ///
    /// # Errors
    /// That it was not taken.
    pub async fn release(&self, lease: &Value) -> anyhow::Result<()> {
        let id = lease["leaseID"].as_str().context("a leaseID")?;
        let (status, body) = self
            .ask(Method::DELETE, &format!("/v1/leases/{id}"), None)
            .await?;
        ensure!(status == 204, "{status} {body}");
        Ok(())
    }

    /// The ids of all proxies that the lease API shows.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub async fn shown(&self) -> anyhow::Result<Vec<String>> {
        let (status, body) = self.get("/v1/proxies").await?;
        ensure!(status == 200, "{status} {body}");
        ids_of(&body)
    }

    /// Waits until the lease API shows these proxies and no others; in the order of their names.
    ///
    /// # Errors
    /// That it never did.
    pub async fn shows(&self, proxies: &[&Applied]) -> anyhow::Result<()> {
        let ids: Vec<_> = proxies.iter().map(|proxy| proxy.id()).collect();
        let what = format!("the lease API shows {ids:?}");
        eventually(&what, PATIENCE, || async {
            Ok((self.shown().await? == ids).then_some(()))
        })
        .await
    }

    /// The same of one that asks for a token.
    ///
    /// # Errors
    /// That it never did.
    pub async fn shows_as(&self, token: &str, proxies: &[&Applied]) -> anyhow::Result<()> {
        let ids: Vec<_> = proxies.iter().map(|proxy| proxy.id()).collect();
        let what = format!("the lease API shows {ids:?}");
        eventually(&what, PATIENCE, || async {
            let (_, body) = self.ask_as(token, "/v1/proxies").await?;
            Ok((ids_of(&body)? == ids).then_some(()))
        })
        .await
    }

    /// Asks the admin server: status and body.
    ///
    /// # Errors
    /// No answer, or a body that is no JSON.
    pub async fn ask_admin(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let url = format!("http://{}{path}", self.admin()?);
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    /// Ends an actor by `kill`, `panic` or `stop`.
    ///
    /// # Errors
    /// As [`Operator::ask_admin`].
    pub async fn end(&self, path: &str, how: &str) -> anyhow::Result<(u16, Value)> {
        let path = format!("/admin/actors/{path}/{how}");
        self.ask_admin(Method::POST, &path, None).await
    }

    /// The count of the series whose name and labels begin so; 0 if there is none.
    ///
    /// # Errors
    /// No answer.
    pub async fn metric(&self, series: &str) -> anyhow::Result<u64> {
        let text = self.scrape().await?;
        let line = text.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        Ok(value.map_or(Ok(0), str::parse)?)
    }

    /// The text of `/metrics`.
    ///
    /// # Errors
    /// No answer.
    pub async fn scrape(&self) -> anyhow::Result<String> {
        let answer = self
            .http
            .get(format!("http://{}/metrics", self.metrics))
            .send()
            .await?;
        ensure!(answer.status() == 200, "{}", answer.status());
        Ok(answer.text().await?)
    }

    /// Status and text of a path on the health server.
    ///
    /// # Errors
    /// No answer.
    pub async fn checkup(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let url = format!("http://{}{path}", self.health);
        let answer = self.http.get(url).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

fn ids_of(list: &Value) -> anyhow::Result<Vec<String>> {
    let proxies = list["proxies"].as_array().context("proxies")?;
    let id = |view: &Value| view["id"].as_str().map(str::to_owned);
    Ok(proxies.iter().filter_map(id).collect())
}

async fn answer(request: reqwest::RequestBuilder) -> anyhow::Result<(u16, Value)> {
    let answer = request.send().await?;
    let (status, body) = (answer.status().as_u16(), answer.bytes().await?);
    if body.is_empty() {
        return Ok((status, Value::Null));
    }
    let body = serde_json::from_slice(&body)
        .with_context(|| format!("{status} {:?}", String::from_utf8_lossy(&body)))?;
    Ok((status, body))
}
