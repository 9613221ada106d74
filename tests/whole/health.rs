//! Verdicts as users see them: in the status, in the metrics, and in what is leased.

use crate::lab::{
    Scene, eventually,
    proxy::{self, Applied, condition, proxy},
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use serde_json::json;
use std::{
    net::{Ipv6Addr, SocketAddr},
    time::Duration,
};

/// The first probe decides, then thresholds do; who is unhealthy is not leased; all of it heals.
pub async fn a_verdict_follows_the_judge(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let check = json!({"failureThreshold": 3, "successThreshold": 2});
    let draft = proxy("a").managed_by("kubernetes");
    let a = scene
        .apply(draft.with(json!({"healthCheck": check})))
        .await?;
    a.becomes(Phase::Ready).await?;

    a.answers_like(Some("/status/503"));
    let before = a.probes();
    let object = a.becomes(Phase::Unhealthy).await?;
    ensure!(a.probes() >= before + 3, "{before} to {}", a.probes());
    let said = condition(&object, ConditionType::Healthy).context("a verdict")?;
    ensure!(
        (said.0, said.1) == ("False", "ProbeFailed") && said.2.contains("503"),
        "{said:?}"
    );
    ensure!(
        proxy::ip(&object).is_ok(),
        "an unhealthy proxy runs: {object:?}"
    );
    a.event("Unhealthy").await?;
    let (status, body) = operator.acquire(json!({})).await?;
    ensure!(status == 409 && body["unhealthy"] == 1, "{status} {body}");
    let failures = format!(
        "proxy_operator_healthcheck_failures_total{{kind=\"status\",proxy=\"{}\"}}",
        a.id()
    );
    ensure!(operator.metric(&failures).await? >= 3);
    let (_, list) = operator.get("/v1/proxies?healthy=true").await?;
    ensure!(list["count"] == 0, "{list}");

    a.answers_like(None);
    a.becomes(Phase::Ready).await?;
    operator.lease(json!({})).await?;
    Ok(())
}

/// What fails at the first probe was never healthy, and needs no threshold for that.
pub async fn the_first_probe_decides(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let _operator = scene.operator().start().await?;
    let check = json!({"periodSeconds": 3600, "failureThreshold": 20});
    let draft = proxy("a")
        .through(&squid)
        .with(json!({"healthCheck": check}));
    let a = Applied::new(scene.clone(), "a".into());
    a.answers_like(Some("/status/500"));
    scene.apply(draft).await?;
    a.becomes(Phase::Unhealthy).await?;
    ensure!(a.probes() == 1, "{} probes", a.probes());

    // A changed check takes effect at once, an hour's period or not.
    a.answers_like(None);
    let check = json!({"periodSeconds": 1, "successThreshold": 1});
    a.change(json!({"spec": {"healthCheck": check}})).await?;
    a.becomes(Phase::Ready).await?;
    Ok(())
}

/// Each kind of failure has its word in the metric and its error in the status.
pub async fn failures_are_told_apart(scene: Scene) -> anyhow::Result<()> {
    let judge = &scene.lab().judge;
    let open = Squid::start(squid::Options::default()).await?;
    let wary = squid::Access::Authenticated {
        user: "crawler",
        password: "planted-password",
    };
    let wary = Squid::start(squid::Options::with(wary)).await?;
    let closed = squid::Access::NoConnect;
    let closed = Squid::start(squid::Options::with(closed)).await?;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    // It takes connections and never says a word.
    let mute = std::net::TcpListener::bind("127.0.0.1:0")?;
    let operator = scene.operator().start().await?;

    let at = |name: &str, to: SocketAddr, url: String| {
        let check = json!({"url": url, "timeoutSeconds": 1});
        let draft = proxy(name).at(&to.ip().to_string(), to.port());
        draft.with(json!({"healthCheck": check}))
    };
    let fine = || scene.lab().url("/generate_204");
    for (kind, words, draft) in [
        ("connect", "refused", at("nobody", nobody, fine())),
        ("timeout", "", at("mute", mute.local_addr()?, fine())),
        ("proxy_auth", "407", at("wary", wary.address, fine())),
        (
            "connect_refused",
            "403",
            at("closed", closed.address, fine()),
        ),
        (
            "tls",
            "certificate",
            at(
                "stranger",
                open.address,
                format!("https://{}/", judge.untrusted),
            ),
        ),
        (
            "tls",
            "not valid",
            at(
                "misnamed",
                open.address,
                format!("https://{}/", judge.misnamed),
            ),
        ),
        (
            "status",
            "503",
            at("status", open.address, scene.lab().url("/status/503")),
        ),
        (
            "protocol",
            "",
            at("cut", open.address, scene.lab().url("/cut/early")),
        ),
    ] {
        let proxy = scene.apply(draft).await?;
        let object = proxy.becomes(Phase::Unhealthy).await?;
        let said = condition(&object, ConditionType::Healthy).context("a verdict")?;
        ensure!(said.2.contains(words), "{kind}: {said:?}");
        let id = proxy.id();
        let series =
            format!("proxy_operator_healthcheck_failures_total{{kind=\"{kind}\",proxy=\"{id}\"}}");
        ensure!(
            operator.metric(&series).await? >= 1,
            "{series} in\n{}",
            operator.scrape().await?
        );
    }
    Ok(())
}

/// An endpoint may be a name or an IPv6 address.
pub async fn an_endpoint_may_be_a_name_or_ipv6(scene: Scene) -> anyhow::Result<()> {
    let four = Squid::start(squid::Options::default()).await?;
    let six = Squid::start(squid::Options {
        address: Ipv6Addr::LOCALHOST.into(),
        ..squid::Options::default()
    })
    .await?;
    let operator = scene.operator().start().await?;
    for (name, host, port) in [
        ("name", "localhost", four.address.port()),
        ("six", "::1", six.address.port()),
    ] {
        let proxy = scene.apply(proxy(name).at(host, port)).await?;
        proxy.becomes(Phase::Ready).await?;
        let (_, view) = operator.get(&format!("/v1/proxies/{}", proxy.id())).await?;
        ensure!(view["ip"] == host && view["port"] == port, "{view}");
    }
    Ok(())
}

/// A proxy that stops answering delays nobody else's probes.
pub async fn a_silent_proxy_delays_no_other(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let mute = std::net::TcpListener::bind("127.0.0.1:0")?;
    let _operator = scene.operator().start().await?;
    let check = json!({"timeoutSeconds": 60});
    for n in 0..5 {
        let draft = proxy(&format!("mute{n}")).at("127.0.0.1", mute.local_addr()?.port());
        scene
            .apply(draft.with(json!({"healthCheck": check})))
            .await?;
    }
    let a = scene.apply(proxy("a").through(&squid)).await?;
    a.becomes(Phase::Ready).await?;
    a.is_probed_again(5).await
}

/// A restarted operator begins with the verdicts on record: nobody is unhealthy because of it.
pub async fn a_restart_keeps_verdicts(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    // The first probe would decide; with a verdict on record it takes three.
    let check = json!({"periodSeconds": 3600, "failureThreshold": 3});
    let draft = proxy("a")
        .through(&squid)
        .with(json!({"healthCheck": check}));
    let a = scene.apply(draft).await?;
    a.becomes(Phase::Ready).await?;
    let probes = a.probes();

    a.answers_like(Some("/status/500"));
    let operator = operator.again().await?;
    eventually("a probe", Duration::from_mins(1), || async {
        Ok((a.probes() > probes).then_some(()))
    })
    .await?;
    operator.lease(json!({})).await?;
    let phase = a.get().await?.status.and_then(|status| status.phase);
    ensure!(phase == Some(Phase::Ready), "{phase:?}");
    Ok(())
}
