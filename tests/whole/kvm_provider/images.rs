//! Images, from servers and of kinds good and bad.

use super::{
    cuts::created,
    stand::{Settings, Stand, ZONE, is_marker},
};
use crate::{
    conformance::{Backend as _, expect_error, gone},
    lab::image_server::{Framing, Manner},
};
use actors::provider::contract::{CreateRequest, ErrorClass, Provider, ProviderError};
use anyhow::{Context as _, ensure};
use futures::future::{join_all, try_join_all};
use proxy_operator::providers::kvm::KvmProvider;
use std::{fs, path::Path, process::Command};

/// Lines for `images:`, one for each: what is behind the installation's id in the key, and its fields.
pub fn entries(stand: &Stand<'_>, images: &[(&str, String)]) -> String {
    let line = |(key, fields): &(&str, String)| {
        let key = format!("{}-{key}", stand.image());
        format!("  {key}: {{firmware: bios, {fields}}}\n")
    };
    images.iter().map(line).collect()
}

pub fn of_image(stand: &Stand<'_>, key: &str) -> CreateRequest {
    let mut request = stand.order();
    request.placement.image = Some(format!("{}-{key}", stand.image()));
    request
}

pub async fn refusal(
    provider: &KvmProvider,
    request: &CreateRequest,
) -> anyhow::Result<ProviderError> {
    expect_error(
        Provider::create(provider, request).await,
        &request.placement,
    )
}

pub fn says(error: &ProviderError, class: ErrorClass, words: &[&str]) -> anyhow::Result<()> {
    ensure!(
        error.class == class,
        "{:?}, not {class:?}: {error}",
        error.class
    );
    for word in words {
        ensure!(error.message.contains(word), "{word:?} is not in: {error}");
    }
    Ok(())
}

/// Ways to serve an image that are all as they should be.
fn good_manners() -> [(&'static str, Manner); 7] {
    [
        (
            "chunked",
            Manner {
                framing: Framing::Chunked,
                ..Manner::default()
            },
        ),
        (
            "unmeasured",
            Manner {
                framing: Framing::Close,
                ..Manner::default()
            },
        ),
        (
            "elsewhere",
            Manner {
                redirect: Some("/image".to_owned()),
                ..Manner::default()
            },
        ),
        (
            "rangeless",
            Manner {
                no_ranges: true,
                ..Manner::default()
            },
        ),
        (
            "slow",
            Manner {
                speed: Some(400_000),
                ..Manner::default()
            },
        ),
        (
            "tagged",
            Manner {
                etag: Some("\"v1\"".to_owned()),
                ..Manner::default()
            },
        ),
        (
            "encoded",
            Manner {
                encoding: Some("gzip".to_owned()),
                ..Manner::default()
            },
        ),
    ]
}

pub async fn however_it_is_served_it_arrives(stand: &Stand<'_>) -> anyhow::Result<()> {
    let mut images = Vec::new();
    for (key, manner) in good_manners() {
        let path = format!("/{key}");
        stand.images.give(&path, &stand.halting);
        stand.images.behave(&path, manner);
        let url = stand.images.url(&path);
        // Half of them without a digest, and that in upper case.
        let digest = match images.len() % 2 {
            0 => format!(", sha256: {}", stand.sha256.to_uppercase()),
            _ => String::new(),
        };
        images.push((key, format!("url: '{url}'{digest}")));
    }
    let settings = Settings {
        images: entries(stand, &images),
        ..stand.settings()
    };
    let provider = stand.with(&settings).await?;
    let arrive = images.iter().map(|(key, _)| {
        let (provider, request) = (&provider, of_image(stand, key));
        async move {
            let id = Provider::create(&**provider, &request)
                .await
                .context(*key)?
                .id;
            let base = format!("base-{}-{key}-{}.qcow2", stand.image(), &stand.sha256[..12]);
            let said = stand
                .in_pool(&format!("sha256sum {base}; cat {base}.json"))
                .await?;
            ensure!(said.starts_with(&stand.sha256), "{key}: {said}");
            ensure!(
                said.contains(&format!("\"sha256\":\"{}\"", stand.sha256)),
                "{key}: {said}"
            );
            let tagged = said.contains(r#""etag":"\"v1\"""#);
            ensure!(tagged == (*key == "tagged"), "{key}: {said}");
            let gets = stand.images.tally(&format!("/{key}")).gets;
            ensure!(gets == 1, "{key}: asked {gets} times");
            gone(&**provider, &id).await
        }
    });
    try_join_all(arrive).await?;
    ensure!(
        stand.images.tally("/image").gets == 1,
        "the redirect was not followed"
    );
    let bases = stand.bases()?;
    ensure!(bases.len() == images.len(), "{bases:?}");
    Ok(())
}

pub async fn faulty_servers_are_told_apart(stand: &Stand<'_>) -> anyhow::Result<()> {
    use ErrorClass::{Permanent, Transient};
    let status = |status| Manner {
        status: Some(status),
        ..Manner::default()
    };
    let cut = |framing| Manner {
        framing,
        cut_after: Some(200_000),
        ..Manner::default()
    };
    let right = format!("sha256: {}", stand.sha256);
    let wrong = format!("sha256: {}", "ab".repeat(32));
    let (right, wrong, none) = (&*right, &*wrong, "format: qcow2");
    let redirect = |to: &str| Manner {
        redirect: Some(to.to_owned()),
        ..Manner::default()
    };
    let rows = [
        ("s404", status(404), right, Permanent, &["404"][..]),
        ("s403", status(403), none, Permanent, &["403"]),
        ("s410", status(410), none, Permanent, &["410"]),
        ("s429", status(429), right, Transient, &["429"]),
        ("s500", status(500), right, Transient, &["500"]),
        ("s503", status(503), none, Transient, &["503"]),
        ("cut", cut(Framing::Length), right, Transient, &[]),
        ("cut-undigested", cut(Framing::Length), none, Transient, &[]),
        ("cut-chunked", cut(Framing::Chunked), none, Transient, &[]),
        // That it is not whole shows only in its digest.
        (
            "cut-unmeasured",
            cut(Framing::Close),
            right,
            Permanent,
            &["SHA-256"],
        ),
        (
            "wrong",
            Manner::default(),
            wrong,
            Permanent,
            &["SHA-256", &"ab".repeat(32), &stand.sha256],
        ),
        ("loop", redirect("/loop"), right, Transient, &["redirect"]),
        ("astray", redirect("/nowhere"), right, Permanent, &["404"]),
    ];
    let images: Vec<_> = rows
        .iter()
        .map(|(key, manner, fields, ..)| {
            let path = format!("/{key}");
            stand.images.give(&path, &stand.halting);
            stand.images.behave(&path, manner.clone());
            (
                *key,
                format!("url: '{}', {fields}", stand.images.url(&path)),
            )
        })
        .collect();
    let settings = Settings {
        images: entries(stand, &images),
        ..stand.settings()
    };
    let provider = stand.with(&settings).await?;
    let tried = join_all(rows.iter().map(|(key, _, _, class, words)| {
        let (provider, request) = (&provider, of_image(stand, key));
        async move {
            let error = refusal(provider, &request).await.context(*key)?;
            let named = format!("{}-{key}", stand.image());
            says(&error, *class, words).context(*key)?;
            says(&error, *class, &[&named, ZONE, "http://127.0.0.1"]).context(*key)?;
            // Nothing of it counts as an image, and nothing was made of it.
            let left = stand.volumes(&format!("base-{named}-"))?;
            ensure!(left.iter().all(|name| !is_marker(name)), "{key}: {left:?}");
            ensure!(*class == Transient || left.is_empty(), "{key}: {left:?}");
            ensure!(stand.made(&request.name).await?.is_empty(), "{key}");
            anyhow::Ok(request)
        }
    }))
    .await;
    let requests = tried.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    // What may pass has passed.
    for (row, request) in rows
        .iter()
        .zip(&requests)
        .filter(|(row, _)| row.3 == Transient)
    {
        let key = row.0;
        stand.images.behave(&format!("/{key}"), Manner::default());
        let id = Provider::create(&*provider, request).await.context(key)?.id;
        gone(&*provider, &id).await?;
    }
    Ok(())
}

/// Takes the minute after which a server is given up.
pub async fn a_silent_server_is_given_up(stand: &Stand<'_>) -> anyhow::Result<()> {
    let provider = stand.ours().await?;
    let stalled = Manner {
        stall_after: Some(100_000),
        ..Manner::default()
    };
    stand.images.behave("/image", stalled);
    let request = stand.order();
    let error = refusal(&provider, &request).await?;
    says(&error, ErrorClass::Transient, &[stand.image(), ZONE])?;
    ensure!(stand.images.tally("/image").gets == 1, "asked again");
    stand.images.behave("/image", Manner::default());
    let id = created(&provider, &request).await?.id;
    stand.base_is_right().await?;
    gone(&*provider, &id).await
}

pub async fn what_is_no_image_is_refused(stand: &Stand<'_>) -> anyhow::Result<()> {
    let files = tempfile::tempdir()?;
    let file = |name: &str, bytes: &[u8]| {
        let mut content = bytes.to_vec();
        content.resize(200_000.max(bytes.len()), b'x');
        fs::write(files.path().join(name), content)
    };
    file("gzip", &[0x1f, 0x8b, 8, 0])?;
    file("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0])?;
    file("zstd", &[0x28, 0xb5, 0x2f, 0xfd])?;
    file("bzip2", b"BZh91AY&SY")?;
    file("raw", b"")?;
    file("page", b"<!DOCTYPE html><html>")?;
    fs::write(files.path().join("nothing"), b"")?;
    fs::write(files.path().join("short"), b"QFI\xfb\0\0\0\x03")?;
    fs::copy(&stand.halting, files.path().join("qcow2"))?;
    qemu_img(
        files.path(),
        "backed",
        "backing_file=/etc/passwd,backing_fmt=raw",
    )?;
    qemu_img(files.path(), "outside", "data_file=outside.raw")?;
    let rows = [
        ("gzip", "qcow2", &["unpacked"][..]),
        ("xz", "qcow2", &["unpacked"]),
        ("zstd", "qcow2", &["unpacked"]),
        ("bzip2", "raw", &["unpacked"]),
        ("raw", "qcow2", &["qcow2"]),
        ("page", "qcow2", &["qcow2"]),
        ("nothing", "qcow2", &[]),
        ("short", "qcow2", &[]),
        ("qcow2", "raw", &["qcow2"]),
        ("backed", "qcow2", &["backing"]),
        ("outside", "qcow2", &["data file"]),
    ];
    let images: Vec<_> = rows
        .iter()
        .map(|(key, format, _)| {
            let path = format!("/{key}");
            stand.images.give(&path, files.path().join(key));
            (
                *key,
                format!("url: '{}', format: {format}", stand.images.url(&path)),
            )
        })
        .collect();
    let settings = Settings {
        images: entries(stand, &images),
        ..stand.settings()
    };
    let provider = stand.with(&settings).await?;
    for (key, _, words) in rows {
        let request = of_image(stand, key);
        let error = refusal(&provider, &request).await.context(key)?;
        let named = format!("{}-{key}", stand.image());
        says(&error, ErrorClass::Permanent, words).context(key)?;
        says(
            &error,
            ErrorClass::Permanent,
            &[&named, ZONE, &stand.images.url(&format!("/{key}"))],
        )?;
        let left = stand.volumes(&named)?;
        ensure!(left.is_empty(), "{key}: {left:?}");
    }
    Ok(())
}

fn qemu_img(folder: &Path, name: &str, options: &str) -> anyhow::Result<()> {
    let mut command = Command::new("qemu-img");
    command.args([
        "create", "-q", "-u", "-f", "qcow2", "-o", options, name, "4M",
    ]);
    if !options.starts_with("backing") {
        command = Command::new("qemu-img");
        command.args(["create", "-q", "-f", "qcow2", "-o", options, name, "4M"]);
    }
    let status = command.current_dir(folder).status()?;
    ensure!(status.success(), "qemu-img create {name}: {status}");
    Ok(())
}
