//! Base images in a host's pool: what they are called, whether they are whole, and how they get there.
//!
//! A base image is whole when its marker says so and the file has the size that the marker says. The
//! marker is written last, and the image's first bytes shortly before: what a cut-off leaves behind is
//! neither marked nor even an image.

mod fetch;
mod store;

use super::{
    classify::{is, refused, unless_absent},
    config::{self, Firmware, Format, ImageUrl, Name, Sha256Hex},
    error::HostError,
    libvirt::{Libvirt, RPC, rpc},
    link::{Answer, HostSession},
    upload,
    volume::{self, Marker, Volume},
};
use fetch::Download;
use std::fmt;
use virt::{storage_pool::StoragePool, storage_vol::StorageVol, sys};

/// The largest marker that is read.
const LARGEST_MARKER: usize = 64 << 10;

/// A disk image that a Proxy may start from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// What stands for it in names of volumes.
    pub key: String,
    /// Where it is fetched from.
    pub url: ImageUrl,
    /// What its bytes must hash to.
    pub sha256: Option<Sha256Hex>,
    /// What kind of file it is.
    pub format: Format,
    /// What starts it.
    pub firmware: Firmware,
}

impl Image {
    /// An image of the config.
    #[must_use]
    pub fn configured(key: &Name, image: &config::Image) -> Self {
        Self {
            key: key.as_str().to_owned(),
            url: image.url.clone(),
            sha256: image.sha256.clone(),
            format: image.format,
            firmware: image.firmware,
        }
    }

    /// An image given by its URL alone.
    #[must_use]
    pub fn at(url: ImageUrl) -> Self {
        Self {
            key: volume::url_key(&url),
            url,
            sha256: None,
            format: Format::default(),
            firmware: Firmware::default(),
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.key, self.url)
    }
}

/// A base image that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The volume's name.
    pub name: String,
    /// Its path on the host.
    pub path: String,
    /// How large a disk it is, in bytes.
    pub virtual_size: u64,
}

/// The image in the pool, if it is there and whole.
///
/// # Errors
/// When libvirt cannot tell.
pub fn find(connect: &Libvirt, pool: &str, image: &Image) -> Answer<Option<Base>> {
    let in_pool = self::pool(connect, pool)?;
    if let Some(sha256) = &image.sha256 {
        let name = volume::base_name(&image.key, sha256, image.format);
        return whole(connect, &in_pool, &name).map(|found| found.map(|(base, _)| base));
    }
    // Which content it has is known only from the time it was fetched.
    let (prefix, suffix) = (format!("base-{}-", image.key), format!(".{}", image.format));
    let mut newest: Option<(Base, Marker)> = None;
    for (name, _) in volumes(&in_pool, pool)? {
        let Some(base) = volume::marked(&name) else {
            continue;
        };
        if !(base.starts_with(&prefix) && base.ends_with(&suffix)) {
            continue;
        }
        let Some((base, marker)) = whole(connect, &in_pool, base)? else {
            continue;
        };
        let newer = newest
            .as_ref()
            .is_none_or(|(_, other)| other.fetched_at < marker.fetched_at);
        if marker.is_from(&image.url) && newer {
            newest = Some((base, marker));
        }
    }
    Ok(newest.map(|(base, _)| base))
}

/// The base image of this name and its marker, if both are there and agree.
fn whole(connect: &Libvirt, in_pool: &StoragePool, name: &str) -> Answer<Option<(Base, Marker)>> {
    let (Some(marker), Some(there)) = (marker(connect, in_pool, name)?, volume(in_pool, name)?)
    else {
        return Ok(None);
    };
    let described = describe(&there, name)?;
    if described.physical != marker.size {
        return Ok(None);
    }
    let base = Base {
        name: name.to_owned(),
        path: described.path,
        virtual_size: described.capacity,
    };
    Ok(Some((base, marker)))
}

/// What the marker of a base image says; `None` if it has none, or one that was cut off.
///
/// # Errors
/// When libvirt cannot tell.
pub fn marker(connect: &Libvirt, in_pool: &StoragePool, base: &str) -> Answer<Option<Marker>> {
    let name = volume::marker_name(base);
    let Some(there) = volume(in_pool, &name)? else {
        return Ok(None);
    };
    let bytes = upload::read(connect, &there, &name, 0, LARGEST_MARKER)?;
    Ok(serde_json::from_slice(&bytes).ok())
}

/// Marks a base image as whole.
///
/// # Errors
/// What libvirt gives.
pub fn mark(connect: &Libvirt, in_pool: &StoragePool, base: &str, marker: &Marker) -> Answer<()> {
    let json = serde_json::to_vec(marker).map_err(HostError::transient)?;
    upload::small(connect, in_pool, &volume::marker_name(base), &json).map(drop)
}

/// That a base image that was whole has not been taken away meanwhile: to be asked when there is an overlay on it.
///
/// # Errors
/// `Transient` when it has.
pub fn is_kept(connect: &Libvirt, pool: &str, base: &Base) -> Answer<()> {
    let marker = volume::marker_name(&base.name);
    match volume(&self::pool(connect, pool)?, &marker)? {
        Some(_) => Ok(()),
        None => Err(HostError::transient(format!(
            "image {} has just gone from the pool",
            base.name
        ))),
    }
}

/// Brings the image into the pool of the host, unless it is there.
///
/// # Errors
/// `Permanent` for what only another URL, digest or format mends.
pub async fn bring(session: &HostSession, image: &Image) -> Answer<()> {
    let line = session.line().await?;
    let pool = session.settings.pool.clone();
    let wanted = image.clone();
    let there = line
        .run(RPC, move |connect| find(connect, &pool, &wanted))
        .await?;
    if there.is_some() {
        return Ok(());
    }
    let download = Download::begin(image).await?;
    let named = |error: HostError| HostError {
        message: format!("image {image}: {}", error.message),
        ..error
    };
    store::store(session, &line, image, download)
        .await
        .map_err(named)
}

/// The pool of this name.
///
/// # Errors
/// `Permanent` when there is none.
pub fn pool(connect: &Libvirt, name: &str) -> Answer<StoragePool> {
    rpc("virStoragePoolLookupByName", name, || {
        connect.lookup_storage_pool_by_name(name)
    })
    .map_err(|fault| refused(format!("look up pool {name}"), &fault))
}

/// The pool of this name; `None` when libvirt vouches that there is none.
///
/// # Errors
/// When libvirt cannot tell.
pub fn pool_if_any(connect: &Libvirt, name: &str) -> Answer<Option<StoragePool>> {
    let found = rpc("virStoragePoolLookupByName", name, || {
        connect.lookup_storage_pool_by_name(name)
    });
    match found {
        Err(fault) if is(&fault, sys::VIR_ERR_NO_STORAGE_POOL) => Ok(None),
        found => found
            .map(Some)
            .map_err(|fault| refused(format!("look up pool {name}"), &fault)),
    }
}

/// All volumes of a pool, with their names. One that goes meanwhile is left out.
///
/// # Errors
/// When libvirt cannot tell.
pub fn volumes(in_pool: &StoragePool, pool: &str) -> Answer<Vec<(String, StorageVol)>> {
    let all = rpc("virStoragePoolListAllVolumes", pool, || {
        in_pool.list_all_volumes(0)
    })
    .map_err(|fault| refused(format!("list the volumes of pool {pool}"), &fault))?;
    // The name is part of the handle: no call, and no failure.
    let named = all
        .into_iter()
        .filter_map(|volume| Some((volume.name().ok()?, volume)));
    Ok(named.collect())
}

/// The volume of this name; `None` when libvirt vouches that there is none.
///
/// # Errors
/// When libvirt cannot tell.
pub fn volume(in_pool: &StoragePool, name: &str) -> Answer<Option<StorageVol>> {
    let found = rpc("virStorageVolLookupByName", name, || {
        in_pool.lookup_storage_vol_by_name(name)
    });
    unless_absent(format!("look up volume {name}"), found)
}

/// What libvirt says about a volume.
///
/// # Errors
/// When it cannot tell, or is not understood.
pub fn describe(there: &StorageVol, name: &str) -> Answer<Volume> {
    let xml = rpc("virStorageVolGetXMLDesc", name, || there.xml_desc(0))
        .map_err(|fault| refused(format!("look at volume {name}"), &fault))?;
    tracing::trace!(volume = name, xml, "described");
    Volume::parse(&xml)
        .map_err(|error| HostError::transient(format!("look at volume {name}: {error}")))
}

/// Deletes a volume, which may be gone already.
///
/// # Errors
/// When libvirt does not do it, or this process may not act any more.
pub fn delete(connect: &Libvirt, there: &StorageVol, name: &str) -> Answer<()> {
    connect.may_act()?;
    let deleted = rpc("virStorageVolDelete", name, || there.delete(0));
    unless_absent(format!("delete volume {name}"), deleted).map(drop)
}
