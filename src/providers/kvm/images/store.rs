//! Storing an image in a pool while it is fetched: hashed on the way, and not held here.
//!
//! With a digest to expect, the upload goes to the volume that is named for it. Without one it goes to
//! a volume that counts as incomplete and is copied, on the host, under its own name. Either way the
//! first bytes come last: until the digest is right there is no image.

use super::{
    Base, Image, delete, describe, fetch::Download, fetch::SILENCE, mark, pool, volume, whole,
};
use crate::providers::kvm::{
    classify::refused,
    config::Sha256Hex,
    create::make_volume,
    error::HostError,
    libvirt::{Libvirt, Line, RPC, rpc},
    link::{Answer, HostSession},
    room, upload,
    volume::{self as names, Marker},
};
use actors::provider::contract::ErrorClass;
use bytes::Bytes;
use data_encoding::HEXLOWER;
use k8s_openapi::jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::{Instant, timeout},
};
use virt::{storage_pool::StoragePool, storage_vol::StorageVol};

/// Pieces on their way from the network to libvirt: a quarter of a MiB each.
const UNDER_WAY: usize = 4;
/// A transfer ends when it makes no progress, not at a time of its own.
const FOREVER: Duration = Duration::from_hours(24);
/// How long the host may take to copy an image.
const COPY: Duration = Duration::from_mins(10);
/// Between two words on how far it is.
const WORD: Duration = Duration::from_secs(10);

/// What goes to the thread that uploads. A channel that closes without an end is a cut-off.
enum Piece {
    Bytes(Bytes),
    End,
}

/// What has been uploaded.
struct Stored {
    size: u64,
    sha256: Sha256Hex,
}

/// Stores what is downloaded as the base image `image`, and marks it as whole.
pub(super) async fn store(
    session: &HostSession,
    line: &Line,
    image: &Image,
    mut download: Download,
) -> Answer<()> {
    let (pool_name, mark) = (session.settings.pool.clone(), &session.settings.mark);
    let target = match &image.sha256 {
        Some(sha256) => names::base_name(&image.key, sha256, image.format),
        None => names::partial_name(&image.key, mark, image.format),
    };
    let (head, length) = (download.head.clone(), download.length);
    line.run(RPC, {
        let (pool_name, target) = (pool_name.clone(), target.clone());
        move |connect| clear(connect, &pool_name, &target, length)
    })
    .await?;

    let (pieces, taken) = channel(UNDER_WAY);
    let upload = line.run(FOREVER, {
        let (pool_name, target) = (pool_name.clone(), target.clone());
        move |connect| upload_all(connect, &pool_name, &target, &head, taken)
    });
    tokio::pin!(upload);
    let fed = tokio::select! {
        stored = &mut upload => return Err(stored.err().unwrap_or_else(|| HostError::transient("ended early"))),
        fed = feed(session, image, &mut download, pieces) => fed,
    };
    let stored = match fed {
        Ok(()) => timeout(SILENCE, &mut upload).await.unwrap_or_else(|_| {
            line.cut();
            Err(stalled())
        })?,
        Err(error) => {
            if error.reason == Some(STALLED) {
                line.cut();
            }
            // The thread gives up for want of more; what it says is of no interest.
            timeout(RPC, upload).await.ok();
            return Err(error);
        }
    };
    let finish = Finish {
        pool: pool_name,
        target,
        image: image.clone(),
        head: download.head,
        etag: download.etag,
        stored,
    };
    let base = line.run(COPY, move |connect| finish.run(connect)).await?;
    tracing::info!(host = session.settings.name, %image, volume = base.name, "the image is in the pool");
    Ok(())
}

const STALLED: &str = "Stalled";

fn stalled() -> HostError {
    let message = format!("the upload made no progress for {} s", SILENCE.as_secs());
    HostError::transient(message).because(STALLED)
}

/// Passes on what the server sends.
async fn feed(
    session: &HostSession,
    image: &Image,
    download: &mut Download,
    pieces: Sender<Piece>,
) -> Answer<()> {
    let (settings, mut sent, mut said) = (&session.settings, 0u64, Instant::now());
    while let Some(bytes) = download.next(image).await? {
        let size = bytes.len() as u64;
        give(&pieces, Piece::Bytes(bytes)).await?;
        settings.downloaded.inc_by(size);
        sent += size;
        if said.elapsed() >= WORD {
            said = Instant::now();
            let (mib, of) = (sent >> 20, download.length.map(|length| length >> 20));
            tracing::info!(host = settings.name, %image, mib, of, "fetching");
        }
    }
    give(&pieces, Piece::End).await
}

async fn give(pieces: &Sender<Piece>, piece: Piece) -> Answer<()> {
    match timeout(SILENCE, pieces.send(piece)).await {
        Ok(Ok(())) => Ok(()),
        // The thread has failed, and says why itself.
        Ok(Err(_)) => std::future::pending().await,
        Err(_) => Err(stalled()),
    }
}

/// Removes what an earlier attempt left, if there is room for a new one.
fn clear(connect: &Libvirt, pool_name: &str, target: &str, length: Option<u64>) -> Answer<()> {
    let in_pool = pool(connect, pool_name)?;
    if let Some(old) = volume(&in_pool, target)? {
        delete(connect, &old, target)?;
    }
    let available = room::available(&in_pool, pool_name)?;
    let needed = length.unwrap_or_default();
    if available < needed {
        let message = format!(
            "pool {pool_name} has {} MiB free, the image has {} MiB",
            available >> 20,
            needed >> 20
        );
        return Err(HostError::new(ErrorClass::QuotaExceeded, message));
    }
    Ok(())
}

/// On the thread: everything but the head goes where it belongs.
fn upload_all(
    connect: &Libvirt,
    pool_name: &str,
    target: &str,
    head: &Bytes,
    mut pieces: Receiver<Piece>,
) -> Answer<Stored> {
    let in_pool = pool(connect, pool_name)?;
    // It grows as it is filled, so that its size tells how far it came.
    let there = make_volume(connect, &in_pool, target, &names::upload_xml(target, 1))?;
    let mut hash = Sha256::new_with_prefix(head);
    let mut size = head.len() as u64;
    let upload = upload::Upload::begin(connect, &there, target, size)?;
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Bytes(bytes)) => {
                hash.update(&bytes);
                size += bytes.len() as u64;
                upload.send(&bytes)?;
            }
            Some(Piece::End) => break,
            None => {
                upload.abort();
                return Err(HostError::transient("the transfer was given up"));
            }
        }
    }
    upload.finish()?;
    let sha256 = HEXLOWER.encode(&hash.finalize());
    let sha256 = sha256.parse().map_err(HostError::transient)?;
    Ok(Stored { size, sha256 })
}

/// What is left to do when all but the head is there.
struct Finish {
    pool: String,
    target: String,
    image: Image,
    head: Bytes,
    etag: Option<String>,
    stored: Stored,
}

impl Finish {
    fn run(self, connect: &Libvirt) -> Answer<Base> {
        let in_pool = pool(connect, &self.pool)?;
        let there = volume(&in_pool, &self.target)?
            .ok_or_else(|| HostError::transient("the volume has just gone"))?;
        // It grew as it was filled. A copy has its size from the start, whatever is in it.
        self.check_size(&there, &self.target)?;
        if let Some(expected) = &self.image.sha256
            && *expected != self.stored.sha256
        {
            delete(connect, &there, &self.target)?;
            let found = &self.stored.sha256;
            let message = format!("its SHA-256 is {found}, the config says {expected}");
            return Err(HostError::permanent(message));
        }
        let sha256 = &self.stored.sha256;
        let name = names::base_name(&self.image.key, sha256, self.image.format);
        let there = if name == self.target {
            there
        } else if let Some((base, _)) = whole(connect, &in_pool, &name)? {
            // The server has what it had before; only its address is new.
            delete(connect, &there, &self.target)?;
            self.mark(connect, &in_pool, &name)?;
            return Ok(base);
        } else {
            self.copy(connect, &in_pool, &there, &name)?
        };
        upload::at(connect, &there, &name, 0, &self.head)?;
        self.check_size(&there, &name)?;
        self.mark(connect, &in_pool, &name)?;
        whole(connect, &in_pool, &name)?
            .map(|(base, _)| base)
            .ok_or_else(|| HostError::transient(format!("volume {name} has just gone")))
    }

    /// Where the pool is full, libvirt may call an upload a success all the same.
    fn check_size(&self, there: &StorageVol, name: &str) -> Answer<()> {
        let (found, sent) = (describe(there, name)?.physical, self.stored.size);
        if found == sent {
            return Ok(());
        }
        let message = format!(
            "volume {name} has {found} bytes after {sent} were sent; no space left in the pool, it seems"
        );
        Err(HostError::transient(message))
    }

    /// Under its own name, byte for byte, since without its head it is an image to nobody.
    fn copy(
        &self,
        connect: &Libvirt,
        in_pool: &StoragePool,
        from: &StorageVol,
        name: &str,
    ) -> Answer<StorageVol> {
        if let Some(old) = volume(in_pool, name)? {
            delete(connect, &old, name)?;
        }
        let xml = names::upload_xml(name, self.stored.size);
        connect.may_act()?;
        let copied = rpc("virStorageVolCreateXMLFrom", name, || {
            StorageVol::create_xml_from(in_pool, &xml, from, 0)
        })
        .map_err(|fault| refused(format!("copy to volume {name}"), &fault))?;
        delete(connect, from, &self.target)?;
        Ok(copied)
    }

    fn mark(&self, connect: &Libvirt, in_pool: &StoragePool, name: &str) -> Answer<()> {
        let marker = Marker {
            url: self.image.url.to_string(),
            url_key: names::url_key(&self.image.url),
            sha256: self.stored.sha256.as_str().to_owned(),
            size: self.stored.size,
            etag: self.etag.clone(),
            fetched_at: Timestamp::now().to_string(),
        };
        mark(connect, in_pool, name, &marker)
    }
}
