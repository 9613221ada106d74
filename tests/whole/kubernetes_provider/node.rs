//! Pods that run.

use super::lab::{Lab, config, make};
use crate::conformance::{Backend, eventually, expect_error, gone};
use actors::provider::contract::{ErrorClass, InstanceState, Provider};
use anyhow::{Context, ensure};
use crds::Proxy;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use proxy_operator::providers::kubernetes::{KubernetesProvider, config::KubernetesConfig};
use serde_json::{Value, json};
use std::{net::Ipv4Addr, num::NonZeroU16, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Where pods reach this machine.
const HERE: Ipv4Addr = Ipv4Addr::new(10, 76, 0, 1);

pub async fn a_restricted_pod_proxies(lab: Arc<Lab>) -> anyhow::Result<()> {
    let origin = TcpListener::bind((HERE, 0)).await?;
    let open = origin.local_addr()?;
    let provider = KubernetesProvider::new(
        "kubernetes".to_owned(),
        KubernetesConfig {
            connect_ports: vec![NonZeroU16::new(open.port()).context("a port")?],
            ..config()
        },
        lab.cluster(),
    );
    let request = lab.request().await?;
    let id = provider.create(&request).await?.id;
    let ip = lab.running(&provider, &id).await?;
    lab.ready(&request.name).await?;

    let origin = tokio::spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = origin.accept().await?;
            heads.push(read_head(&mut stream).await?);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
            stream.write_all(answer).await?;
        }
        anyhow::Ok(heads)
    });
    let mut plain = TcpStream::connect((ip, request.port)).await?;
    let get =
        format!("GET http://{open}/page HTTP/1.1\r\nHost: {open}\r\nConnection: close\r\n\r\n");
    plain.write_all(get.as_bytes()).await?;
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await?;
    ensure!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
        "{answer}"
    );

    let mut tunnel = TcpStream::connect((ip, request.port)).await?;
    ensure!(
        connect(&mut tunnel, &open.to_string())
            .await?
            .starts_with("HTTP/1.1 200")
    );
    tunnel.write_all(b"GET /inside HTTP/1.1\r\n\r\n").await?;
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).await?;
    ensure!(answer.ends_with("hello"), "{answer}");

    let heads = origin.await??;
    ensure!(heads[0].starts_with("GET /page ") && heads[1].starts_with("GET /inside "));
    for giveaway in ["via:", "x-forwarded-for:"] {
        ensure!(!heads[0].to_lowercase().contains(giveaway), "{}", heads[0]);
    }
    for refused in [format!("{HERE}:1"), format!("127.0.0.1:{}", open.port())] {
        let mut stream = TcpStream::connect((ip, request.port)).await?;
        let answer = connect(&mut stream, &refused).await?;
        ensure!(answer.starts_with("HTTP/1.1 403"), "{refused}: {answer}");
    }
    let pod = lab.ready(&request.name).await?;
    let containers = pod
        .status
        .and_then(|status| status.container_statuses)
        .context("a status")?;
    ensure!(containers[0].restart_count == 0, "{containers:?}");
    gone(&provider, &id).await
}

pub async fn a_privileged_port_is_served(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, mut request) = (lab.ours(), lab.request().await?);
    request.port = 80;
    let id = provider.create(&request).await?.id;
    let ip = lab.running(&*provider, &id).await?;
    lab.ready(&request.name).await?;
    let mut stream = TcpStream::connect((ip, 80)).await?;
    ensure!(
        connect(&mut stream, "127.0.0.1:443")
            .await?
            .starts_with("HTTP/1.1 403")
    );
    gone(&*provider, &id).await
}

pub async fn a_failed_pod_is_terminated(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, request) = (lab.ours(), lab.request().await?);
    let id = provider.create(&request).await?.id;
    lab.running(&*provider, &id).await?;
    let patch = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 1}}));
    lab.pods()
        .patch(&request.name, &PatchParams::default(), &patch)
        .await?;
    eventually("the kubelet ends the pod", || async {
        let state = provider.get(&id).await?.state;
        Ok((state == InstanceState::Terminated).then_some(()))
    })
    .await?;
    gone(&*provider, &id).await?;
    provider.create(&request).await?;
    lab.running(&*provider, &id).await?;
    gone(&*provider, &id).await
}

pub async fn a_full_quota_heals(lab: Arc<Lab>) -> anyhow::Result<()> {
    let provider = lab.ours();
    let (first, second) = (lab.request().await?, lab.request().await?);
    let quotas: Api<ResourceQuota> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let hard = json!({"pods": "1", "limits.cpu": "2", "limits.memory": "1Gi"});
    make(
        &quotas,
        json!({"metadata": {"name": "few"}, "spec": {"hard": hard}}),
    )
    .await?;
    // It binds once the quota controller has counted.
    eventually("the quota is in force", || async {
        let status = quotas.get("few").await?.status;
        Ok(status.and_then(|status| status.used))
    })
    .await?;
    let id = provider.create(&first).await?.id;
    let error = expect_error(provider.create(&second).await, "the quota")?;
    ensure!(error.class == ErrorClass::QuotaExceeded, "{error}");
    ensure!(error.message.contains("exceeded quota: few"), "{error}");
    let again = provider
        .create(&first)
        .await
        .context("the quota is full of this very pod")?;
    ensure!(again.id == id);

    let patch = Patch::Merge(json!({"spec": {"hard": {"pods": "2"}}}));
    quotas.patch("few", &PatchParams::default(), &patch).await?;
    let healed = eventually("the raised quota is in force", || async {
        match provider.create(&second).await {
            Ok(created) => Ok(Some(created.id)),
            Err(error) if error.class == ErrorClass::QuotaExceeded => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    gone(&*provider, &healed).await?;
    gone(&*provider, &id).await
}

pub async fn the_pod_follows_its_proxy(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, request) = (lab.ours(), lab.request().await?);
    let proxies: Api<Proxy> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let finalizers = |value: Value| Patch::Merge(json!({"metadata": {"finalizers": value}}));
    let (name, as_is) = (&request.proxy_name, PatchParams::default());
    proxies
        .patch(name, &as_is, &finalizers(json!([crds::names::FINALIZER])))
        .await?;
    let id = provider.create(&request).await?.id;
    proxies.delete(name, &DeleteParams::default()).await?;
    provider
        .get(&id)
        .await
        .context("the finalizer holds its Proxy, which holds the pod")?;
    proxies
        .patch(name, &as_is, &finalizers(Value::Null))
        .await?;
    eventually("the garbage collector takes the pod", || async {
        let answer = provider.get(&id).await;
        Ok(answer
            .is_err_and(|error| error.class == ErrorClass::NotFound)
            .then_some(()))
    })
    .await
}

async fn connect(stream: &mut TcpStream, authority: &str) -> anyhow::Result<String> {
    let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    read_head(stream).await
}

/// Reads up to the blank line, byte by byte: what follows belongs to somebody else.
async fn read_head(stream: &mut TcpStream) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(head)?)
}
