//! One Proxy from its object to the calls of its provider, and the lines about it.

use super::{observed, only_units_begin_traces};
use crate::lab::{
    Scene, eventually,
    otlp::{Collector, Span, Tree},
    proxy::{Applied, PATIENCE, proxy},
};
use anyhow::{Context as _, ensure};
use crds::Phase;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// One Proxy over http/protobuf.
pub async fn an_apply_is_one_tree_over_http(scene: Scene) -> anyhow::Result<()> {
    an_apply_is_one_tree(scene, "http/protobuf").await
}

/// One Proxy over gRPC.
pub async fn an_apply_is_one_tree_over_grpc(scene: Scene) -> anyhow::Result<()> {
    an_apply_is_one_tree(scene, "grpc").await
}

/// From the object to the API calls of its provider it is one tree, whose ids are in the log.
async fn an_apply_is_one_tree(scene: Scene, protocol: &str) -> anyhow::Result<()> {
    const SENTINEL: &str = "s3ntinel-0a7f";
    let collector = Collector::start().await?;
    let launch = observed(&scene, &collector, protocol);
    let mut operator = launch
        .env("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab")
        .start()
        .await?;
    scene
        .secret("init", &format!("#cloud-config\npassword: {SENTINEL}\n"))
        .await?;
    let draft = proxy("a").managed_by("kubernetes").cloud_init_from("init");
    let a = scene.apply(draft).await?;
    a.becomes(Phase::Ready).await?;
    let tree = eventually("the tree of the creation", PATIENCE, || async {
        whole(&collector, &a, "provider.create")
    })
    .await?;
    a.delete().await?;
    a.is_gone().await?;
    let status = operator.stop().await?;
    ensure!(status.code() == Some(0), "{status}");

    let top = "Reconcile Proxy > reconcile.managed";
    let paths = tree.paths();
    for path in [
        top.to_owned(),
        format!("{top} > get"),
        format!("{top} > patch"),
        format!("{top} > status.patch > patch_status"),
        format!("{top} > provider.create > get"),
        format!("{top} > provider.create > create"),
        format!("{top} > create"),
    ] {
        ensure!(paths.contains(&path), "no {path} in {paths:#?}");
    }
    let root = tree.root()?;
    ensure!(
        root.get("proxy") == a.id() && !root.get("reconcileID").is_empty(),
        "{root:?}"
    );
    ensure!(
        root.resource
            .get("service.name")
            .is_some_and(|name| name == "proxy-operator")
    );
    ensure!(
        root.resource
            .get("deployment.environment")
            .is_some_and(|name| name == "lab")
    );
    let create = tree.named("provider.create").next().context("a create")?;
    let said = ["provider.name", "provider.result"].map(|name| create.get(name));
    ensure!(
        said == ["kubernetes", "ok"] && !create.is_error,
        "{create:?}"
    );
    ensure!(
        create.get("provider.id").starts_with(scene.namespace()),
        "{create:?}"
    );
    for call in tree.named("create") {
        ensure!(call.kind == SpanKind::Client, "{call:?}");
    }

    // The end of the same Proxy: that its pod is not there any more is the answer that was hoped for.
    let gone = whole(&collector, &a, "provider.delete")?.context("the tree of the end")?;
    ensure!(
        gone.paths()
            .contains("Reconcile Proxy > reconcile.delete > provider.delete > delete")
    );
    let spans = collector.spans();
    let last = spans
        .iter()
        .find(|span| span.get("provider.result") == "NotFound");
    let last = last.context("a get of what is gone")?;
    ensure!(last.name == "provider.get" && !last.is_error, "{last:?}");

    let text = collector.text();
    ensure!(
        text.contains(&a.id()) && !text.contains(SENTINEL),
        "a secret in {text}"
    );
    only_units_begin_traces(&spans)?;
    lines_carry_the_ids(&operator.log()?, &spans, &tree)
}

/// The trace of this Proxy in which there is such a span, when it has come whole.
fn whole(collector: &Collector, proxy: &Applied, name: &str) -> anyhow::Result<Option<Tree>> {
    let spans = collector.spans();
    let of_proxy: BTreeSet<_> = spans
        .iter()
        .filter(|span| span.name == "Reconcile Proxy" && span.get("proxy") == proxy.id())
        .map(|span| span.trace.clone())
        .collect();
    let named = |span: &Span| span.name == name && of_proxy.contains(&span.trace);
    if !spans.iter().any(named) {
        return Ok(None);
    }
    collector.tree(named).map(Some)
}

/// Each line about the Proxy that was written inside of a span says so once, and of a span that exists.
fn lines_carry_the_ids(log: &str, spans: &[Span], tree: &Tree) -> anyhow::Result<()> {
    let mut of_tree = 0;
    for line in log.lines() {
        let fields: Map<String, Value> = serde_json::from_str(line)?;
        for key in fields.keys() {
            let camel =
                key.chars().all(char::is_alphanumeric) && key.starts_with(char::is_lowercase);
            ensure!(camel, "{key} in {line}");
        }
        let text = |key: &str| fields.get(key).and_then(Value::as_str);
        let (Some(trace), Some(span)) = (text("traceID"), text("spanID")) else {
            let apart = !line.contains("traceID") && !line.contains("reconcileID");
            ensure!(apart, "no ids in {line}");
            continue;
        };
        for key in ["traceID", "spanID", "proxy", "reconcileID"] {
            let times = line.matches(&format!("\"{key}\":")).count();
            ensure!(times <= 1, "{times} times {key}: {line}");
        }
        let known = spans
            .iter()
            .any(|known| known.trace == trace && known.id == span);
        ensure!(known, "no such span: {line}");
        if trace == tree.root()?.trace {
            of_tree += 1;
            ensure!(text("proxy") == Some(tree.root()?.get("proxy")), "{line}");
            ensure!(
                text("reconcileID") == Some(tree.root()?.get("reconcileID")),
                "{line}"
            );
        }
    }
    ensure!(of_tree > 0, "no line of the tree in {log}");
    Ok(())
}
