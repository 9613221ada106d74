//! Base images that nobody needs any more, and what was left of some, are removed now and then.
//!
//! A base is kept while an overlay in its pool is backed by it, and while the config names it. What is
//! young is kept too: its first overlay may be on the way.

use super::{
    error::HostError,
    images::{self, Image},
    libvirt::{Libvirt, Line, RPC},
    link::{Answer, HostSettings},
    volume::{self, Marker, Volume},
};
use k8s_openapi::jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use virt::{storage_pool::StoragePool, storage_vol::StorageVol};

/// How often it is looked, and how old it must be what is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Between two looks.
    pub every: Duration,
    /// Since it was fetched, or last written.
    pub age: Duration,
}

impl Pace {
    /// What users get.
    pub const DEFAULT: Self = Self {
        every: Duration::from_mins(10),
        age: Duration::from_hours(1),
    };
}

/// Looks again and again, for as long as it is let.
pub async fn run(settings: Arc<HostSettings>, line: Line) {
    loop {
        tokio::time::sleep(settings.tidy.every).await;
        let look = {
            let settings = Arc::clone(&settings);
            move |connect: &Libvirt| sweep(connect, &settings)
        };
        match line.run(4 * RPC, look).await {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => {
                tracing::info!(host = settings.name, ?removed, "removed what no VM needs");
            }
            Err(error) => {
                tracing::warn!(host = settings.name, %error, "could not look for images that no VM needs");
            }
        }
    }
}

fn sweep(connect: &Libvirt, settings: &HostSettings) -> Answer<Vec<String>> {
    let pool = &settings.pool;
    let in_pool = images::pool(connect, pool)?;
    let all = look(&in_pool, pool)?;
    let mut markers = BTreeMap::new();
    for name in all.keys().filter(|name| volume::is_base(name)) {
        if let Some(marker) = images::marker(connect, &in_pool, name)? {
            markers.insert(name.clone(), marker);
        }
    }
    let described = all.iter().map(|(name, (_, volume))| (&**name, volume));
    let age = i64::try_from(settings.tidy.age.as_secs()).unwrap_or(i64::MAX);
    let rules = Rules {
        images: &settings.images,
        mark: &settings.mark,
        oldest_kept: Timestamp::now().as_second().saturating_sub(age),
    };
    let useless = rules.useless(&described.collect(), &markers);
    let mut removed = Vec::new();
    for name in useless {
        let Some((there, described)) = all.get(&name) else {
            continue;
        };
        // Whoever makes an overlay looks for the marker afterwards; here it is the other way round. So one of the
        // two sees what the other has done. A marker that is back is of somebody who has fetched it anew.
        let marker = volume::marker_name(&name);
        if let Some((there, _)) = all.get(&marker) {
            remove(connect, there, &marker)?;
        }
        let now = look(&in_pool, pool)?;
        let is_used = now.values().any(|(_, found)| found.is_on(&described.path));
        let is_marked = images::volume(&in_pool, &marker)?.is_some();
        if let Some(marker) = markers.get(&name)
            && is_used
            && !is_marked
        {
            images::mark(connect, &in_pool, &name, marker)?;
        }
        if is_used || is_marked {
            continue;
        }
        remove(connect, there, &name)?;
        removed.push(name);
    }
    Ok(removed)
}

fn remove(connect: &Libvirt, there: &StorageVol, name: &str) -> Answer<()> {
    images::delete(connect, there, name).map_err(|error| HostError {
        message: format!("remove {name}: {}", error.message),
        ..error
    })
}

/// All volumes of a pool, with what libvirt says about them.
fn look(in_pool: &StoragePool, pool: &str) -> Answer<BTreeMap<String, (StorageVol, Volume)>> {
    let mut all = BTreeMap::new();
    for (name, there) in images::volumes(in_pool, pool)? {
        // One that cannot be looked at may be an overlay: nothing is removed then.
        match images::describe(&there, &name) {
            Ok(described) => drop(all.insert(name, (there, described))),
            Err(error) if images::volume(in_pool, &name)?.is_some() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(all)
}

/// What is kept.
struct Rules<'a> {
    images: &'a [Image],
    mark: &'a str,
    oldest_kept: i64,
}

impl Rules<'_> {
    /// The images that may go, as a whole or what there is of them.
    fn useless(
        &self,
        volumes: &BTreeMap<&str, &Volume>,
        markers: &BTreeMap<String, Marker>,
    ) -> Vec<String> {
        let is_used = |base: &Volume| volumes.values().any(|other| other.is_on(&base.path));
        let mut useless = Vec::new();
        for (name, found) in volumes {
            let is_old = |since: i64| since < self.oldest_kept;
            let untouched = found.modified.is_some_and(is_old);
            if volume::is_partial(name, self.mark) && untouched {
                useless.push((*name).to_owned());
            }
            if !volume::is_base(name) || is_used(found) {
                continue;
            }
            match markers.get(*name) {
                Some(marker) => {
                    let fetched = marker.fetched_at.parse::<Timestamp>();
                    let old = fetched.map_or(untouched, |at| is_old(at.as_second()));
                    if old && !self.is_named(name, marker) {
                        useless.push((*name).to_owned());
                    }
                }
                None if untouched => useless.push((*name).to_owned()),
                None => {}
            }
        }
        useless
    }

    fn is_named(&self, base: &str, marker: &Marker) -> bool {
        self.images.iter().any(|image| match &image.sha256 {
            Some(sha256) => volume::base_name(&image.key, sha256, image.format) == base,
            None => {
                marker.is_from(&image.url)
                    && base.starts_with(&format!("base-{}-", image.key))
                    && base.ends_with(&format!(".{}", image.format))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::kvm::volume::Backing;

    const NEW: i64 = 2000;
    const OLD: i64 = 10;

    fn volume(name: &str, modified: i64, backing: Option<&str>) -> Volume {
        Volume {
            name: name.to_owned(),
            path: format!("/pool/{name}"),
            format: None,
            capacity: 1,
            physical: 1,
            backing: backing.map(|base| Backing {
                path: format!("/pool/{base}"),
                format: None,
            }),
            modified: Some(modified),
        }
    }

    fn marker(url: &str, fetched: i64) -> Marker {
        Marker {
            url: url.to_owned(),
            url_key: volume::url_key(&url.parse().unwrap()),
            sha256: String::new(),
            size: 1,
            etag: None,
            fetched_at: Timestamp::from_second(fetched).unwrap().to_string(),
        }
    }

    fn image(key: &str, url: &str, sha256: Option<&str>) -> Image {
        Image {
            key: key.to_owned(),
            sha256: sha256.map(|digits| digits.parse().unwrap()),
            ..Image::at(url.parse().unwrap())
        }
    }

    #[test]
    fn only_what_is_old_and_neither_used_nor_named_goes() {
        let digest = "0123456789ab".to_owned() + &"0".repeat(52);
        let images = [
            image("pinned", "http://x/pinned", Some(&digest)),
            image("latest", "http://x/latest?version=2", None),
        ];
        let volumes = [
            volume("base-pinned-0123456789ab.qcow2", OLD, None),
            volume("base-pinned-ffffffffffff.qcow2", OLD, None),
            volume("base-latest-aaaaaaaaaaaa.qcow2", OLD, None),
            volume("base-latest-bbbbbbbbbbbb.qcow2", OLD, None),
            volume("base-used-aaaaaaaaaaaa.qcow2", OLD, None),
            volume("base-young-aaaaaaaaaaaa.qcow2", OLD, None),
            volume("base-cut-aaaaaaaaaaaa.qcow2", OLD, None),
            volume("base-cut-bbbbbbbbbbbb.qcow2", NEW, None),
            volume("base-gone-partial-12345678.qcow2", OLD, None),
            volume("base-here-partial-12345678.qcow2", NEW, None),
            volume("base-theirs-partial-87654321.qcow2", OLD, None),
            volume("vm.qcow2", OLD, Some("base-used-aaaaaaaaaaaa.qcow2")),
            volume("base-of-somebody.qcow2", OLD, None),
        ];
        let markers = [
            (
                "base-pinned-0123456789ab.qcow2",
                marker("http://x/before", OLD),
            ),
            (
                "base-pinned-ffffffffffff.qcow2",
                marker("http://x/pinned", OLD),
            ),
            (
                "base-latest-aaaaaaaaaaaa.qcow2",
                marker("http://x/latest?version=2", OLD),
            ),
            (
                "base-latest-bbbbbbbbbbbb.qcow2",
                marker("http://x/latest?version=1", OLD),
            ),
            ("base-used-aaaaaaaaaaaa.qcow2", marker("http://x/used", OLD)),
            (
                "base-young-aaaaaaaaaaaa.qcow2",
                marker("http://x/young", NEW),
            ),
        ];
        let rules = Rules {
            images: &images,
            mark: "12345678",
            oldest_kept: 1000,
        };
        let useless = rules.useless(
            &volumes.iter().map(|v| (&*v.name, v)).collect(),
            &markers
                .map(|(name, marker)| (name.to_owned(), marker))
                .into(),
        );
        assert_eq!(
            useless,
            [
                "base-cut-aaaaaaaaaaaa.qcow2",
                "base-gone-partial-12345678.qcow2",
                "base-latest-bbbbbbbbbbbb.qcow2",
                "base-pinned-ffffffffffff.qcow2",
            ]
        );
    }
}
