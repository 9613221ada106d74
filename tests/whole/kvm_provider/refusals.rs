//! What cannot be created, and what is said about it.

use super::{
    cuts::created,
    images::says,
    stand::{Settings, Stand, ZONE, host_entry},
};
use crate::conformance::{Backend as _, expect_error, gone};
use actors::provider::contract::{CreateRequest, ErrorClass, Provider};
use anyhow::{Context as _, ensure};
use proxy_operator::providers::kvm::volume::{overlay_name, seed_name};
use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::net::TcpListener;

type Change = fn(&mut CreateRequest);

pub async fn impossible_orders_reach_no_host(stand: &Stand<'_>) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let dialled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dialled);
    let listening = tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let host =
        |name: &str| format!("- {{name: {name}, address: '{address}', user: root, bridge: br0}}\n");
    let two = Settings {
        hosts: host("a") + &host("b"),
        ..stand.settings()
    };
    let provider = stand.with(&two).await?;
    let rows: [(Change, &[&str]); 14] = [
        (
            |r| r.placement.zone = None,
            &["spec.placement.zone", "missing", "a, b"],
        ),
        (
            |r| r.placement.zone = Some("c".into()),
            &["spec.placement.zone", "\"c\"", "a, b"],
        ),
        (
            |r| r.placement.zone = Some(String::new()),
            &["spec.placement.zone", "\"\""],
        ),
        (
            |r| r.placement.machine_type = None,
            &["spec.placement.machineType", "missing", "small"],
        ),
        (
            |r| r.placement.machine_type = Some("x".into()),
            &["spec.placement.machineType", "\"x\"", "small"],
        ),
        (
            |r| r.placement.image = None,
            &["spec.placement.image", "missing"],
        ),
        (
            |r| r.placement.image = Some("x".into()),
            &["spec.placement.image", "\"x\""],
        ),
        (
            |r| r.placement.image = Some("ftp://h/x".into()),
            &["spec.placement.image", "ftp://h/x", "http"],
        ),
        (
            |r| r.placement.image = Some("file:///etc/passwd".into()),
            &["spec.placement.image", "file:///etc/passwd"],
        ),
        (
            |r| r.placement.image = Some("http://".into()),
            &["spec.placement.image", "http://"],
        ),
        (
            |r| r.name = "Not A Name".into(),
            &["name", "\"Not A Name\""],
        ),
        (|r| r.name = "../x".into(), &["name", "\"../x\""]),
        (|r| r.uid = String::new(), &["uid"]),
        (
            |r| r.installation = "else".into(),
            &["installation", "\"else\""],
        ),
    ];
    for (change, words) in rows {
        let mut request = stand.order();
        request.placement.zone = Some("a".to_owned());
        change(&mut request);
        let error = expect_error(Provider::create(&*provider, &request).await, words)?;
        says(&error, ErrorClass::Permanent, words)?;
    }
    ensure!(dialled.load(Ordering::SeqCst) == 0, "a host was dialled");
    // The test would notice.
    let one = stand
        .with(&Settings {
            hosts: host("a"),
            ..stand.settings()
        })
        .await?;
    let error = expect_error(Provider::create(&*one, &stand.order()).await, "no sshd")?;
    says(&error, ErrorClass::Transient, &["host a"])?;
    ensure!(dialled.load(Ordering::SeqCst) > 0, "no host was dialled");
    listening.abort();
    Ok(())
}

pub async fn a_host_that_lacks_something_is_told(stand: &Stand<'_>) -> anyhow::Result<()> {
    use ErrorClass::{Permanent, QuotaExceeded, Transient};
    let entry = host_entry(ZONE, stand.host, "");
    let bridge = entry.replace("bridge: br0", "bridge: br9");
    let pool = entry.replace("pool: default", "pool: elsewhere");
    ensure!(bridge != entry && pool != entry, "{entry}");
    let with = |hosts: String| Settings {
        hosts,
        ..stand.settings()
    };
    let vast = Settings {
        disk: 1000,
        ..stand.settings()
    };
    let rows = [
        // Both are mended on the host.
        (
            with(bridge),
            "small",
            Transient,
            &[ZONE, "bridge br9", "missing"][..],
        ),
        (with(pool), "small", Permanent, &[ZONE, "pool", "elsewhere"]),
        (
            stand.settings(),
            "huge",
            QuotaExceeded,
            &[ZONE, "MiB of memory free", "1000000 MiB"],
        ),
        (
            vast,
            "small",
            QuotaExceeded,
            &[ZONE, "pool default", "MiB free", "1024000 MiB"],
        ),
    ];
    for (settings, machine, class, words) in rows {
        let provider = stand.with(&settings).await?;
        let mut request = stand.order();
        request.placement.machine_type = Some(machine.to_owned());
        let error = expect_error(Provider::create(&*provider, &request).await, words)?;
        says(&error, class, words)?;
        Provider::delete(
            &*provider,
            &format!("hosts/{ZONE}/domains/{}", request.name),
        )
        .await?;
        ensure!(stand.made(&request.name).await?.is_empty(), "{words:?}");
    }
    Ok(())
}

pub async fn what_is_not_ours_is_not_touched(stand: &Stand<'_>) -> anyhow::Result<()> {
    let provider = stand.ours().await?;
    // A domain of another installation, and one that carries no marks at all.
    for marked in [true, false] {
        let request = stand.order();
        let marks = marked.then(|| {
            let mut marks = stand.marks(&request.uid);
            "another".clone_into(&mut marks.installation);
            marks
        });
        stand.define(&request.name, marks)?;
        let before = (
            stand.visible(&request.name).await?,
            stand.made(&request.name).await?,
        );
        let id = format!("hosts/{ZONE}/domains/{}", request.name);
        let error = expect_error(Provider::create(&*provider, &request).await, "a stranger")?;
        let whose = if marked { "another" } else { "no mark" };
        says(
            &error,
            ErrorClass::AdoptionConflict,
            &[ZONE, &request.name, whose],
        )?;
        let error = expect_error(Provider::delete(&*provider, &id).await, "a stranger")?;
        says(&error, ErrorClass::AdoptionConflict, &[ZONE, &request.name])?;
        let after = (
            stand.visible(&request.name).await?,
            stand.made(&request.name).await?,
        );
        ensure!(before == after, "touched: {before:?} became {after:?}");
    }

    // A volume of the name that ours would have, with somebody's data.
    let request = stand.order();
    let overlay = overlay_name(&request.name, &stand.mark());
    stand
        .in_pool(&format!("head -c 1000000 /dev/urandom > {overlay}"))
        .await?;
    stand.volumes(&overlay)?;
    let look = format!("sha256sum {overlay}");
    let before = stand.in_pool(&look).await?;
    let error = expect_error(
        Provider::create(&*provider, &request).await,
        "a foreign volume",
    )?;
    says(
        &error,
        ErrorClass::AdoptionConflict,
        &[ZONE, &overlay, "pool default"],
    )?;
    ensure!(
        before == stand.in_pool(&look).await?,
        "the volume was touched"
    );
    stand.in_pool(&format!("rm {overlay}")).await?;
    stand.volumes(&overlay)?;

    // What is left of an earlier attempt is no obstacle: a seed that was cut off, an overlay that had
    // just been begun, a base without a marker.
    let seed = seed_name(&request.name, &stand.mark());
    stand.without_bases().await?;
    let base = format!("base-{}-{}.qcow2", stand.image(), &stand.sha256[..12]);
    stand
        .in_pool(&format!(
            "echo junk > {seed}; : > {overlay}; head -c 5000 /dev/urandom > {base}"
        ))
        .await?;
    stand.volumes(&seed)?;
    let id = created(&provider, &request).await?.id;
    stand.base_is_right().await?;
    let head = stand.in_pool(&format!("head -c 4 {seed} | od -c")).await?;
    ensure!(
        !head.contains("j   u   n   k"),
        "the seed was trusted: {head}"
    );
    gone(&*provider, &id).await
}

/// On a host of its own, whose firmware is hidden.
pub async fn missing_firmware_is_told(stand: &Stand<'_>) -> anyhow::Result<()> {
    let images = stand
        .settings()
        .images
        .replace("firmware: bios", "firmware: uefi");
    let provider = stand
        .with(&Settings {
            images,
            ..stand.settings()
        })
        .await?;
    let request = stand.order();
    let hidden = "/usr/share/qemu/firmware";
    stand
        .host
        .exec(&["mount", "-t", "tmpfs", "none", hidden])
        .await?;
    let error = expect_error(Provider::create(&*provider, &request).await, "no firmware")?;
    says(
        &error,
        ErrorClass::Transient,
        &[ZONE, "UEFI firmware", "ovmf", "firmware: bios"],
    )?;
    stand.host.exec(&["umount", hidden]).await?;
    let id = created(&provider, &request)
        .await
        .context("it is there again")?
        .id;
    gone(&*provider, &id).await
}
