//! How a host is, and how soon that is told.

use super::{
    cuts::created,
    stand::{Settings, Stand, ZONE, host_entry},
};
use crate::{
    conformance::{eventually, expect_error, gone},
    lab::{hypervisor::Daemon, image_server::Manner},
};
use actors::provider::contract::{ErrorClass, Operation, Provider, TargetCheck};
use anyhow::{Context as _, ensure};
use std::{
    net::Ipv4Addr,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

/// What a check of a host that answers may take on a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);
/// As long as the monitor gives by default.
pub(super) const CHECK: Duration = Duration::from_secs(15);

fn of<'a>(checks: &'a [TargetCheck], name: &str) -> anyhow::Result<&'a TargetCheck> {
    let found = checks.iter().find(|check| check.name == name);
    found.with_context(|| format!("{name} in {checks:?}"))
}

/// On a host of its own.
pub async fn every_check_has_its_reason(stand: &Stand<'_>) -> anyhow::Result<()> {
    what_is_wrong_with_a_host_is_told(stand).await?;
    what_is_wrong_with_credentials_is_told(stand).await?;
    forbidden_forwarding_is_told(stand).await
}

async fn what_is_wrong_with_a_host_is_told(stand: &Stand<'_>) -> anyhow::Result<()> {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = stand.host.address.to_string();
    let at = |name: &str, other: &str| host_entry(name, stand.host, "").replace(&address, other);
    let pool = |name: &str, pool: &str| {
        host_entry(name, stand.host, "").replace("pool: default", &format!("pool: {pool}"))
    };
    stand
        .host
        .virsh(&["pool-define-as", "idle", "dir", "--target", "/tmp/idle"])
        .await?;
    let rows = [
        (
            "a-reachable",
            host_entry("a-reachable", stand.host, ""),
            "Reachable",
            "pool runs",
        ),
        (
            "b-closed",
            at("b-closed", "127.0.0.1:1"),
            "Unreachable",
            "refused",
        ),
        (
            "c-silent",
            at("c-silent", &silent.local_addr()?.to_string()),
            "Timeout",
            "",
        ),
        (
            "d-user",
            host_entry("d-user", stand.host, "").replace("user: root", "user: nobody"),
            "Unauthorized",
            "nobody",
        ),
        (
            "e-socket",
            host_entry("e-socket", stand.host, "socket: /run/nowhere"),
            "LibvirtConnectFailed",
            "/run/nowhere",
        ),
        (
            "f-pool",
            pool("f-pool", "nowhere"),
            "PoolNotFound",
            "nowhere",
        ),
        (
            "g-idle",
            pool("g-idle", "idle"),
            "PoolNotActive",
            "inactive",
        ),
    ];
    let hosts = rows.iter().map(|(_, entry, ..)| entry.clone()).collect();
    let provider = stand
        .with(&Settings {
            hosts,
            ..stand.settings()
        })
        .await?;
    let limit = Provider::deadline(&*provider, Operation::Check) + PROMPTLY;
    for round in 0..2 {
        let begun = Instant::now();
        let checks = Provider::check(&*provider, CHECK).await;
        ensure!(begun.elapsed() < limit, "{:?}", begun.elapsed());
        let names: Vec<_> = checks.iter().map(|check| &*check.name).collect();
        ensure!(names == rows.each_ref().map(|row| row.0), "{names:?}");
        for (check, (name, _, reason, word)) in checks.iter().zip(&rows) {
            ensure!(
                check.reason == *reason,
                "{name} in round {round}: {check:?}"
            );
            ensure!(check.ready == (*reason == "Reachable"), "{check:?}");
            ensure!(check.message.contains(word), "{check:?}");
            ensure!(check.ready || check.message.len() > 10, "{check:?}");
        }
        details_are_told(&checks[0])?;
        ensure!(checks[0].address == address, "{checks:?}");
        ensure!(checks[6].details["poolState"] == "inactive", "{checks:?}");
    }
    // A pool that is not active is not taken for a full one.
    let mut request = stand.order();
    request.placement.zone = Some("g-idle".to_owned());
    let error = expect_error(Provider::create(&*provider, &request).await, "g-idle")?;
    ensure!(
        error.class == ErrorClass::Transient && error.message.contains("pool idle is not active"),
        "{error}"
    );
    Ok(())
}

fn details_are_told(check: &TargetCheck) -> anyhow::Result<()> {
    let details = &check.details;
    for key in [
        "user",
        "hostname",
        "libvirtVersion",
        "pool",
        "poolState",
        "poolCapacity",
        "poolAvailable",
        "memoryFree",
    ] {
        ensure!(
            details.get(key).is_some_and(|value| !value.is_empty()),
            "{key} in {details:?}"
        );
    }
    ensure!(
        details["poolState"] == "running" && details["user"] == "root",
        "{details:?}"
    );
    Ok(())
}

/// A key that the host does not know, a host key that we do not know, a key that is not there.
async fn what_is_wrong_with_credentials_is_told(stand: &Stand<'_>) -> anyhow::Result<()> {
    let files = tempfile::tempdir()?;
    let key = files.path().join("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status()?;
    ensure!(made.success(), "ssh-keygen: {made}");
    let nothing = files.path().join("nothing");
    std::fs::write(&nothing, "")?;
    for (key, known_hosts, reason) in [
        (&key, &stand.host.known_hosts, "Unauthorized"),
        (&stand.host.key, &nothing, "SSHHandshakeFailed"),
        (
            &files.path().join("absent"),
            &stand.host.known_hosts,
            "SSHMaterialUnavailable",
        ),
    ] {
        let mut config = stand.config(&stand.settings())?;
        config.ssh_key_file.clone_from(key);
        config.known_hosts_file = Some(known_hosts.clone());
        let provider = stand.made_of(config, stand.settings().pace).await?;
        let checks = Provider::check(&*provider, CHECK).await;
        ensure!(
            checks[0].reason == reason && !checks[0].ready,
            "{reason}: {checks:?}"
        );
    }
    Ok(())
}

/// By sshd, that is.
async fn forbidden_forwarding_is_told(stand: &Stand<'_>) -> anyhow::Result<()> {
    let sshd = stand.host.folder().join("ssh/sshd_config");
    let config = std::fs::read_to_string(&sshd)?;
    let forbidding = config.replace("StreamLocalForwarding yes", "StreamLocalForwarding no");
    ensure!(forbidding != config, "{config}");
    stand.host.stop(Daemon::Sshd).await?;
    std::fs::write(&sshd, forbidding)?;
    stand.host.start_again(Daemon::Sshd).await?;
    let provider = stand.ours().await?;
    let checks = Provider::check(&*provider, CHECK).await;
    ensure!(checks[0].reason == "Forbidden", "{checks:?}");
    ensure!(
        checks[0].message.contains("AllowStreamLocalForwarding"),
        "{checks:?}"
    );
    Ok(())
}

/// On a host of its own, beside one that is well.
pub async fn a_host_that_is_cut_off_delays_no_other(stand: &Stand<'_>) -> anyhow::Result<()> {
    let hosts = host_entry("cut", stand.host, "") + &host_entry("well", stand.other, "");
    let provider = stand
        .with(&Settings {
            hosts,
            ..stand.settings()
        })
        .await?;
    let checks = Provider::check(&*provider, CHECK).await;
    ensure!(checks.iter().all(|check| check.ready), "{checks:?}");
    stand.host.cut().await?;
    let limit = Provider::deadline(&*provider, Operation::Check) + PROMPTLY;
    // On the connection that is there, and, when that has been given up, while it is dialled.
    for _ in 0..4 {
        let begun = Instant::now();
        let checks = Provider::check(&*provider, CHECK).await;
        ensure!(begun.elapsed() < limit, "{:?}", begun.elapsed());
        let (cut, well) = (of(&checks, "cut")?, of(&checks, "well")?);
        ensure!(!cut.ready && cut.reason == "Timeout", "{cut:?}");
        ensure!(well.ready && well.latency < PROMPTLY, "{well:?}");
    }
    stand.host.mend().await?;
    eventually("both are well", || async {
        let checks = Provider::check(&*provider, CHECK).await;
        Ok(checks.iter().all(|check| check.ready).then_some(()))
    })
    .await
}

pub async fn a_check_waits_for_no_transfer(stand: &Stand<'_>) -> anyhow::Result<()> {
    let provider = stand.ours().await?;
    let request = stand.order();
    stand.images.behave(
        "/image",
        Manner {
            stall_after: Some(200_000),
            ..Manner::default()
        },
    );
    let create = {
        let (provider, request) = (Arc::clone(&provider), request.clone());
        tokio::spawn(async move { created(&provider, &request).await })
    };
    eventually("the transfer is under way", || async {
        Ok((stand.images.tally("/image").bytes >= 200_000).then_some(()))
    })
    .await?;
    for _ in 0..5 {
        let checks = Provider::check(&*provider, CHECK).await;
        let check = of(&checks, ZONE)?;
        ensure!(check.ready && check.latency < PROMPTLY, "{check:?}");
    }
    ensure!(stand.images.tally("/image").open == 1, "it was over");
    stand.images.behave("/image", Manner::default());
    let id = create.await??.id;
    gone(&*provider, &id).await
}
