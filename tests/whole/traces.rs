//! Traces: what is followed where, and what it costs when nobody takes them.
//! What an apply leaves, from the object to the calls of its provider, is in [`apply`].

mod apply;

pub use apply::{an_apply_is_one_tree_over_grpc, an_apply_is_one_tree_over_http};

use crate::lab::{
    Scene, eventually,
    operator::Launch,
    otlp::{Collector, Span},
    proxy::{PATIENCE, proxy},
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::Phase;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use reqwest::Method;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

fn observed(scene: &Scene, collector: &Collector, protocol: &str) -> Launch {
    scene
        .operator()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint(protocol))
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        .env("OTEL_BSP_SCHEDULE_DELAY", "200")
}

/// Watches, elections and the like make none.
fn only_units_begin_traces(spans: &[Span]) -> anyhow::Result<()> {
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.id).collect();
    for span in spans.iter().filter(|span| span.parent.is_empty()) {
        let is_unit =
            ["Reconcile Proxy", "gc.sweep", "providerhealth.check"].contains(&&*span.name);
        ensure!(is_unit || span.kind == SpanKind::Server, "a root: {span:?}");
    }
    for span in spans.iter().filter(|span| !span.parent.is_empty()) {
        ensure!(ids.contains(&span.parent), "an orphan: {span:?}");
    }
    Ok(())
}

/// A request is a part of its caller's trace, and is named by its route; health checks are in none.
pub async fn a_request_continues_its_callers_trace(scene: Scene) -> anyhow::Result<()> {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const CALLER: &str = "b7ad6b7169203331";
    let squid = Squid::start(squid::Options::default()).await?;
    let collector = Collector::start().await?;
    let mut operator = observed(&scene, &collector, "http/protobuf")
        .start()
        .await?;
    let a = scene.apply(proxy("a").through(&squid)).await?;
    a.becomes(Phase::Ready).await?;

    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()?;
    let call = |method, path: &str, sampled: &str| {
        let url = format!("http://{}{path}", operator.api);
        let caller = format!("00-{TRACE}-{CALLER}-{sampled}");
        client
            .request(method, url)
            .header("traceparent", caller)
            .send()
    };
    let granted = client
        .post(format!("http://{}/v1/leases", operator.api))
        .send()
        .await?;
    let lease: Value = serde_json::from_slice(&granted.bytes().await?)?;
    let lease = lease["leaseID"].as_str().context("a lease")?;
    call(Method::GET, &format!("/v1/leases/{lease}"), "00").await?;
    call(Method::GET, "/healthz", "01").await?;
    call(Method::GET, "/nothing/at/all", "01").await?;
    call(Method::DELETE, &format!("/v1/leases/{lease}"), "01").await?;
    let status = operator.stop().await?;
    ensure!(status.code() == Some(0), "{status}");

    let spans = collector.spans();
    let requests: Vec<_> = spans
        .iter()
        .filter(|span| span.kind == SpanKind::Server)
        .collect();
    let names: Vec<_> = requests.iter().map(|span| span.name.as_str()).collect();
    ensure!(
        names == ["POST /v1/leases", "GET", "DELETE /v1/leases/{id}"],
        "{names:?}"
    );
    let [post, nothing, delete] = requests[..] else {
        unreachable!("as many as names")
    };
    ensure!(post.trace != TRACE && post.parent.is_empty(), "{post:?}");
    for span in [nothing, delete] {
        ensure!((&*span.trace, &*span.parent) == (TRACE, CALLER), "{span:?}");
    }
    ensure!(post.get("http.route") == "/v1/leases", "{post:?}");
    ensure!(
        post.get("http.response.status_code") == "201" && !post.is_error,
        "{post:?}"
    );
    ensure!(nothing.get("http.response.status_code") == "404" && !nothing.is_error);
    ensure!(
        !collector.text().contains(lease),
        "who has the id may end the lease"
    );
    Ok(())
}

/// What is not sampled is not sent; whoever is asked by a sampled caller, is.
pub async fn the_sampler_is_obeyed(scene: Scene) -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    let launch = observed(&scene, &collector, "grpc");
    let sampler = launch.env("OTEL_TRACES_SAMPLER", "parentbased_always_off");
    let mut operator = sampler.start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()?;
    for sampled in ["00", "01"] {
        let request = client.get(format!("http://{}/v1/proxies", operator.api));
        let caller = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{sampled}");
        request.header("traceparent", caller).send().await?;
    }
    operator.stop().await?;
    let names: Vec<_> = collector
        .spans()
        .into_iter()
        .map(|span| span.name)
        .collect();
    ensure!(names == ["GET /v1/proxies"], "{names:?}");
    // Lines are told together by their ids all the same.
    ensure!(operator.log()?.contains("\"traceID\":"));
    Ok(())
}

/// What is done at intervals is a trace each time, down to the calls that it makes.
pub async fn sweeps_and_checks_are_traces(scene: Scene) -> anyhow::Result<()> {
    let collector = Collector::start().await?;
    let launch = observed(&scene, &collector, "http/protobuf");
    // Of a provider that is called as in other scenarios, its health is told by one of them.
    let own = scene.namespace();
    let mut operator = launch
        .with_providers(&format!(
            "providers: [{{name: {own}, type: kubernetes, kubernetes: {{image: 'lab.local/squid:1'}}}}]"
        ))
        .env("PROXY_OPERATOR_GC_INTERVAL", "1s")
        .start()
        .await?;
    let a = scene.apply(proxy("a").managed_by(own)).await?;
    a.becomes(Phase::Ready).await?;
    for (name, paths) in [
        (
            "gc.sweep",
            [
                "gc.sweep > provider.list > list",
                "gc.sweep > list_metadata",
            ]
            .as_slice(),
        ),
        (
            "providerhealth.check",
            &[
                "providerhealth.check > list",
                "providerhealth.check > patch",
            ],
        ),
    ] {
        for path in paths {
            eventually(path, PATIENCE, || async {
                let all = collector.spans().into_iter();
                let roots = all.filter(|span| span.name == name);
                let mut trees = roots.filter_map(|root| collector.tree(|span| *span == root).ok());
                Ok(trees.any(|tree| tree.paths().contains(*path)).then_some(()))
            })
            .await
            .with_context(|| names(&collector))?;
        }
    }
    operator.stop().await?;
    only_units_begin_traces(&collector.spans())
}

fn names(collector: &Collector) -> String {
    let spans = collector.spans().into_iter();
    let names: BTreeSet<_> = spans.map(|span| span.name).collect();
    format!("there are {names:?}")
}

/// Probes are traces when that is wanted.
pub async fn probes_are_traced_when_asked_for(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let collector = Collector::start().await?;
    let launch = observed(&scene, &collector, "grpc");
    let _operator = launch
        .env("PROXY_OPERATOR_TRACE_HEALTH_PROBES", "true")
        .start()
        .await?;
    let good = scene.apply(proxy("good").through(&squid)).await?;
    let down = scene.apply(proxy("down").at("127.0.0.1", 1)).await?;
    for (proxy, result) in [(&good, "ok"), (&down, "connect")] {
        let probe = eventually("a probe", PATIENCE, || async {
            let mut spans = collector.spans().into_iter();
            Ok(spans
                .find(|span| span.name == "healthcheck.probe" && span.get("proxy") == proxy.id()))
        })
        .await?;
        ensure!(
            probe.parent.is_empty() && probe.get("result") == result,
            "{probe:?}"
        );
        ensure!(probe.is_error == (result != "ok"), "{probe:?}");
    }
    Ok(())
}

/// A collector that is away or hangs is a line for whoever looks for it.
pub async fn a_collector_that_is_away_is_not_missed(scene: Scene) -> anyhow::Result<()> {
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let hangs = format!("http://{}", silent.local_addr()?);
    let collectors = [
        ("http/protobuf", "http://127.0.0.1:9"),
        ("grpc", "http://127.0.0.1:9"),
        ("http/protobuf", hangs.as_str()),
        ("grpc", hangs.as_str()),
    ];
    for (number, (protocol, endpoint)) in collectors.into_iter().enumerate() {
        let mut operator = scene
            .operator()
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "1500")
            .env("OTEL_BSP_SCHEDULE_DELAY", "100")
            .start()
            .await?;
        let name = format!("a{number}");
        let a = scene.apply(proxy(&name).managed_by("kubernetes")).await?;
        a.becomes(Phase::Ready).await?;
        eventually("a line about it", PATIENCE, || async {
            Ok(operator
                .log()?
                .contains("spans were not exported")
                .then_some(()))
        })
        .await
        .with_context(|| format!("{protocol} {endpoint}"))?;
        a.delete().await?;
        a.is_gone().await?;
        let begun = Instant::now();
        let status = operator.stop().await?;
        let took = begun.elapsed();
        ensure!(status.code() == Some(0), "{status}");
        ensure!(
            took < Duration::from_secs(5),
            "{protocol} {endpoint}: stopped after {took:?}"
        );
        let log = operator.log()?;
        let loud = log.lines().find(|line| {
            !line.contains("\"level\":\"DEBUG\"")
                && (line.contains("opentelemetry") || line.contains("exported"))
        });
        ensure!(loud.is_none(), "{loud:?}");
    }
    Ok(())
}
