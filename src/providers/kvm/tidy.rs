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
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use virt::storage_vol::StorageVol;

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
    let in_pool = images::pool(connect, &settings.pool)?;
    let mut all: BTreeMap<String, (StorageVol, Volume)> = BTreeMap::new();
    for (name, there) in images::volumes(&in_pool, &settings.pool)? {
        // One that cannot be looked at may be an overlay: nothing is removed then.
        match images::describe(&there, &name) {
            Ok(described) => drop(all.insert(name, (there, described))),
            Err(error) if images::volume(&in_pool, &name)?.is_some() => return Err(error),
            Err(_) => {}
        }
    }
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
    for name in &useless {
        if let Some((there, _)) = all.get(name) {
            images::delete(connect, there, name).map_err(|error| HostError {
                message: format!("remove {name}: {}", error.message),
                ..error
            })?;
        }
    }
    Ok(useless)
}

/// What is kept.
struct Rules<'a> {
    images: &'a [Image],
    mark: &'a str,
    oldest_kept: i64,
}

impl Rules<'_> {
    /// The volumes that may go, each marker before its base.
    fn useless(
        &self,
        volumes: &BTreeMap<&str, &Volume>,
        markers: &BTreeMap<String, Marker>,
    ) -> Vec<String> {
        let used: BTreeSet<&str> = volumes
            .values()
            .filter_map(|volume| volume.backing.as_ref())
            .map(|backing| &*backing.path)
            .collect();
        let mut useless = Vec::new();
        for (name, found) in volumes {
            let is_old = |since: i64| since < self.oldest_kept;
            let untouched = found.modified.is_some_and(is_old);
            if volume::is_partial(name, self.mark) && untouched {
                useless.push((*name).to_owned());
            }
            if !volume::is_base(name) || used.contains(&*found.path) {
                continue;
            }
            match markers.get(*name) {
                Some(marker) => {
                    let fetched = marker.fetched_at.parse::<Timestamp>();
                    let old = fetched.map_or(untouched, |at| is_old(at.as_second()));
                    if old && !self.is_named(name, marker) {
                        useless.extend([volume::marker_name(name), (*name).to_owned()]);
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
                marker.url == image.url.to_string()
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
            image("latest", "http://x/latest", None),
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
                marker("http://x/latest", OLD),
            ),
            (
                "base-latest-bbbbbbbbbbbb.qcow2",
                marker("http://x/before", OLD),
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
                "base-latest-bbbbbbbbbbbb.qcow2.json",
                "base-latest-bbbbbbbbbbbb.qcow2",
                "base-pinned-ffffffffffff.qcow2.json",
                "base-pinned-ffffffffffff.qcow2",
            ]
        );
    }
}
