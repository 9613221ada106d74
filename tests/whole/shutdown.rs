//! How it ends: in order when it is told once, at once when it is told twice.

use crate::{
    lab::{
        Scene, eventually,
        operator::Operator,
        otlp::Collector,
        proxy::{PATIENCE, proxy},
        squid::{self, Squid},
    },
    whole::faults::Census,
};
use anyhow::{Context as _, bail, ensure};
use crds::Phase;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};

const CLIENTS: u32 = 16;
/// What is promised.
const BOUND: Duration = Duration::from_secs(10);

/// In the middle of everything: what was answered is whole and traced, nothing is half done, and the next
/// one goes on where this one ended.
pub async fn under_load_it_ends_in_order(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let collector = Collector::start().await?;
    let census = Census::begin(&scene);
    let mut operator = scene
        .operator()
        .logging("info")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint("grpc"))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .start()
        .await?;
    let wide = json!({"maxLeases": 1000});
    let external = scene
        .apply(proxy("external").through(&squid).with(wide))
        .await?;
    external.becomes(Phase::Ready).await?;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(client(operator.api, number));
    }
    eventually("clients at work", PATIENCE, || async {
        let granted = operator
            .metric("proxy_operator_leases_granted_total ")
            .await?;
        Ok((granted > u64::from(10 * CLIENTS)).then_some(()))
    })
    .await?;
    let mut managed = Vec::new();
    for number in 0..4 {
        let draft = proxy(&format!("m{number}")).managed_by("kubernetes");
        managed.push(scene.apply(draft).await?);
    }
    eventually("the first is being made", PATIENCE, || async {
        Ok((!scene.pods().await?.is_empty()).then_some(()))
    })
    .await?;
    let begun = Instant::now();
    let status = operator.stop().await?;
    let took = begun.elapsed();
    ensure!(status.code() == Some(0), "{status}");
    ensure!(took < BOUND, "stopped after {took:?}");

    let traced: BTreeSet<_> = collector
        .spans()
        .into_iter()
        .map(|span| span.trace)
        .collect();
    let mut answered = 0;
    while let Some(ended) = clients.join_next().await {
        for trace in ended?? {
            answered += 1;
            ensure!(
                traced.contains(&trace),
                "an answered request is in no trace: {trace}"
            );
        }
    }
    ensure!(answered > 10 * CLIENTS, "only {answered} requests");

    let operator = operator.again().await?;
    for proxy in &managed {
        proxy.becomes(Phase::Ready).await?;
    }
    let pods = census.pods()?;
    ensure!(pods.len() == managed.len(), "{pods:#?}");
    operator.lease(json!({})).await.map(drop)
}

/// Takes leases and gives them back until nobody answers any more; gives the traces of those requests
/// that were answered, each of them in full.
async fn client(api: SocketAddr, number: u32) -> anyhow::Result<Vec<String>> {
    let http = Client::builder().no_proxy().tls_certs_only([]).build()?;
    let mut traces = Vec::new();
    let mut lease = None::<String>;
    for count in 1_u32.. {
        let trace = format!("{:016x}{:016x}", number + 1, count);
        let (method, path, expected) = match &lease {
            None => (Method::POST, "/v1/leases".to_owned(), 201),
            Some(id) => (Method::DELETE, format!("/v1/leases/{id}"), 204),
        };
        let request = http
            .request(method, format!("http://{api}{path}"))
            .header("traceparent", format!("00-{trace}-00000000000000ff-01"));
        // Refused, or closed before anything of an answer came.
        let Ok(answer) = request.send().await else {
            return Ok(traces);
        };
        let status = answer.status().as_u16();
        // Once there is a status, all of the answer has to come.
        let body = answer.bytes().await.context("an answer was cut off")?;
        ensure!(
            status == expected,
            "{status} {:?}",
            String::from_utf8_lossy(&body)
        );
        lease = match lease {
            None => {
                let grant: Value = serde_json::from_slice(&body)?;
                Some(grant["leaseID"].as_str().context("an id")?.to_owned())
            }
            Some(_) => None,
        };
        traces.push(trace);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("there is an end to everything")
}

/// A second signal of either kind does not wait for what the first one waits for.
pub async fn told_twice_it_ends_at_once(scene: Scene) -> anyhow::Result<()> {
    for (first, second) in [("-TERM", "-TERM"), ("-TERM", "-INT"), ("-INT", "-TERM")] {
        let mut operator = scene.operator().start().await?;
        let mut slow = unfinished(&operator).await?;
        operator.signal(first).await?;
        eventually("it has heard", PATIENCE, || async {
            Ok(operator
                .log()?
                .contains("\"msg\":\"stopping\"")
                .then_some(()))
        })
        .await?;
        let begun = Instant::now();
        operator.signal(second).await?;
        let status = operator.ends().await?;
        let took = begun.elapsed();
        ensure!(status.code() == Some(130), "{first} {second}: {status}");
        ensure!(took < Duration::from_secs(2), "{first} {second}: {took:?}");
        // It was cut off, and not answered in the three seconds that it would have had.
        let mut answer = Vec::new();
        slow.read_to_end(&mut answer).await.ok();
        ensure!(answer.is_empty(), "{:?}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

/// A request whose body does not come, so that it is under way for long.
async fn unfinished(operator: &Operator) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(operator.api).await?;
    let head = "POST /v1/leases HTTP/1.1\r\nHost: lab\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await?;
    // The head has been read when a later connection is served.
    operator.get("/v1/proxies").await?;
    Ok(stream)
}
