//! Base images in a pool: fetched once, kept while they are needed, and what a full pool does to them.

use super::{
    cuts::created,
    images::{entries, of_image, refusal, says},
    stand::{Settings, Stand, ZONE, digest, host_entry},
};
use crate::{
    conformance::{Backend as _, eventually, expect_error, gone},
    lab::image_server::Manner,
};
use actors::provider::contract::{ErrorClass, Provider};
use anyhow::ensure;
use futures::future::{join_all, try_join_all};
use proxy_operator::providers::kvm::Pace;
use std::{fs, time::Duration};

pub async fn twenty_creates_share_one_download(stand: &Stand<'_>) -> anyhow::Result<()> {
    let provider = stand.ours().await?;
    // The first attempt is cut off under them all; they ask again.
    let cut = Manner {
        cut_after: Some(300_000),
        speed: Some(400_000),
        ..Manner::default()
    };
    stand.images.behave("/image", cut);
    let requests: Vec<_> = (0..20).map(|_| stand.order()).collect();
    let all = || {
        join_all(
            requests
                .iter()
                .map(|request| Provider::create(&*provider, request)),
        )
    };
    for outcome in all().await {
        let error = expect_error(outcome, "a cut-off")?;
        ensure!(error.class == ErrorClass::Transient, "{error}");
    }
    let first = stand.images.tally("/image").gets;
    ensure!(first == 1, "{first} downloads for the first attempt");
    stand.images.behave(
        "/image",
        Manner {
            speed: Some(400_000),
            ..Manner::default()
        },
    );
    let ids = all().await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let gets = stand.images.tally("/image").gets;
    ensure!(gets == first + 1, "{gets} downloads after the second");
    stand.base_is_right().await?;
    let domains = stand.host.domains().await?;
    for request in &requests {
        ensure!(
            stand.made(&request.name).await?.len() == 1,
            "{}",
            request.name
        );
        ensure!(
            domains
                .get(&request.name)
                .is_some_and(|state| state == "running"),
            "{domains:?}"
        );
    }
    try_join_all(ids.iter().map(|created| gone(&*provider, &created.id))).await?;
    Ok(())
}

/// And what nothing needs any more is removed.
pub async fn a_changed_entry_leaves_the_old_base_alone(stand: &Stand<'_>) -> anyhow::Result<()> {
    let files = tempfile::tempdir()?;
    let second = files.path().join("second");
    let mut bytes = fs::read(&stand.halting)?;
    bytes.resize(bytes.len() + 65_536, 0);
    fs::write(&second, bytes)?;
    let digests = (stand.sha256.clone(), digest(&second)?);

    let before = stand.ours().await?;
    let old = stand.order();
    let old_id = created(&before, &old).await?.id;
    let old_base = format!("base-{}-{}.qcow2", stand.image(), &digests.0[..12]);
    let look = format!("stat -c '%i %Y %s' {old_base}; sha256sum {old_base}");
    let seen = stand.in_pool(&look).await?;

    stand.images.give("/image", &second);
    let (key, url) = (stand.image(), stand.images.url("/image"));
    let after = stand
        .with(&Settings {
            images: format!(
                "  {key}: {{url: '{url}', sha256: {}, firmware: bios}}\n",
                digests.1
            ),
            pace: Pace {
                every: Duration::from_millis(300),
                age: Duration::from_secs(1),
            },
            ..stand.settings()
        })
        .await?;
    let new = stand.order();
    let new_id = created(&after, &new).await?.id;
    let new_base = format!("base-{}-{}.qcow2", stand.image(), &digests.1[..12]);
    let both = [old_base.clone(), new_base.clone()];
    ensure!(
        stand.bases()? == both.clone().into(),
        "{:?}",
        stand.bases()?
    );
    ensure!(
        seen == stand.in_pool(&look).await?,
        "the old base was touched"
    );

    // A sweep is over when it has removed what somebody left long ago.
    let junk = format!("base-{}-{}.qcow2", stand.image(), "f".repeat(12));
    let swept = async || {
        let touch = format!("head -c 1000 /dev/zero > {junk}; touch -d '2 hours ago' {junk}");
        stand.in_pool(&touch).await?;
        stand.volumes(&junk)?;
        eventually("it is tidied", || async {
            let there = stand.volumes(&junk)?;
            Ok(there.is_empty().then_some(()))
        })
        .await
    };
    gone(&*after, &new_id).await?;
    // Both are older than the age now, for sure.
    tokio::time::sleep(Duration::from_secs(2)).await;
    swept().await?;
    swept().await?;
    ensure!(
        stand.bases()? == both.into(),
        "used, or named: {:?}",
        stand.bases()?
    );
    ensure!(
        seen == stand.in_pool(&look).await?,
        "the old base was touched"
    );
    gone(&*after, &old_id).await?;
    eventually("what nothing needs is removed", || async {
        let left = stand.volumes(&format!("base-{}", stand.image()))?;
        let expected = [new_base.clone(), format!("{new_base}.json")];
        Ok((left == expected.into()).then_some(()))
    })
    .await
}

/// On a host of its own.
pub async fn a_full_pool_is_told_and_heals(stand: &Stand<'_>) -> anyhow::Result<()> {
    const MIB: u64 = 1 << 20;
    let files = tempfile::tempdir()?;
    let sparse = |name: &str, size: u64| {
        let path = files.path().join(name);
        fs::File::create(&path)?.set_len(size)?;
        stand.images.give(&format!("/{name}"), &path);
        anyhow::Ok((path, stand.images.url(&format!("/{name}"))))
    };
    let (_, huge) = sparse("huge", 3 << 30)?;
    let (_, large) = sparse("large", 48 * MIB)?;
    let settings = Settings {
        images: entries(
            stand,
            &[
                ("huge", format!("url: '{huge}', format: raw")),
                ("large", format!("url: '{large}', format: raw")),
            ],
        ),
        ..stand.settings()
    };
    let provider = stand.with(&settings).await?;

    // No room for the disk.
    stand.host.fill(100 * MIB).await?;
    let request = of_image(stand, "large");
    let error = refusal(&provider, &request).await?;
    says(
        &error,
        ErrorClass::QuotaExceeded,
        &[ZONE, "pool default", "MiB free", "1024 MiB"],
    )?;
    ensure!(
        stand.images.tally("/large").gets == 0,
        "it was fetched nevertheless"
    );

    // Room for it, but not for the image.
    stand.host.fill(2048 * MIB).await?;
    let error = refusal(&provider, &of_image(stand, "huge")).await?;
    says(
        &error,
        ErrorClass::QuotaExceeded,
        &[ZONE, "pool default", "MiB free", "3072 MiB", "-huge"],
    )?;
    ensure!(
        stand.volumes("base-")?.is_empty(),
        "{:?}",
        stand.volumes("base-")?
    );

    // Filled while the image comes.
    stand.host.drain().await?;
    stand.images.behave(
        "/large",
        Manner {
            speed: Some(4 << 20),
            ..Manner::default()
        },
    );
    let create = {
        let (provider, request) = (provider.clone(), request.clone());
        tokio::spawn(async move { refusal(&provider, &request).await })
    };
    eventually("it is under way", || async {
        Ok((stand.images.tally("/large").bytes > MIB).then_some(()))
    })
    .await?;
    // It grows while this is done, and needs more than is left.
    stand.host.fill(12 * MIB).await?;
    let error = create.await??;
    says(
        &error,
        ErrorClass::QuotaExceeded,
        &[ZONE, "No space left", "-large"],
    )?;
    stand.images.behave("/large", Manner::default());
    ensure!(stand.volumes(".json")?.is_empty(), "it is marked as whole");

    stand.host.drain().await?;
    let id = created(&provider, &request).await?.id;
    let bases = stand.bases()?;
    ensure!(bases.len() == 1, "{bases:?}");
    gone(&*provider, &id).await?;
    // The same host, entered under another name: the pool is full of what is there.
    let twice = Settings {
        hosts: host_entry("again", stand.host, ""),
        ..settings
    };
    let again = stand.with(&twice).await?;
    let gets = stand.images.tally("/large").gets;
    let id = created(&again, &request).await?.id;
    ensure!(stand.images.tally("/large").gets == gets, "it was there");
    gone(&*again, &id).await
}
