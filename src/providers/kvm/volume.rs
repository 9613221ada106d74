//! What volumes are called, the XML that makes them, and what libvirt says about them.
//!
//! Everything about who owns a volume is in its name, so that one without a domain can be told to
//! be ours, and of which VM.

use super::{
    config::{Format, ImageUrl, Name, Sha256Hex},
    xml::{Element, XmlError, element},
};
use crate::config::names::is_dns_label;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How much of a digest names a base image.
const SHORT: usize = 12;

/// The first digits of a hash of `text`, in lower-case hex.
pub(super) fn hash(text: &str, digits: usize) -> String {
    let mut hash = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
    hash.truncate(digits);
    hash
}

/// The mark of an installation in the names of its volumes: 8 hex digits.
#[must_use]
pub fn installation_mark(installation: &str) -> String {
    hash(installation, 8)
}

/// The disk of the VM `name`, of the installation with this mark.
#[must_use]
pub fn overlay_name(name: &str, mark: &str) -> String {
    format!("{name}.{mark}.qcow2")
}

/// The seed of the VM `name`, of the installation with this mark.
#[must_use]
pub fn seed_name(name: &str, mark: &str) -> String {
    format!("{name}.{mark}-seed.iso")
}

/// The VM that a volume belongs to, if it is an overlay or a seed of the installation with this mark.
#[must_use]
pub fn owner<'a>(volume: &'a str, mark: &str) -> Option<&'a str> {
    let (name, rest) = volume.split_once('.')?;
    let kind = rest.strip_prefix(mark)?;
    (is_dns_label(name) && matches!(kind, ".qcow2" | "-seed.iso")).then_some(name)
}

/// The part of a base image's name that stands for an image given by its URL.
#[must_use]
pub fn url_key(url: &ImageUrl) -> String {
    format!("url{}", hash(url.url().as_str(), SHORT))
}

/// A base image with this content.
#[must_use]
pub fn base_name(key: &str, sha256: &Sha256Hex, format: Format) -> String {
    format!("base-{key}-{}.{format}", &sha256.as_str()[..SHORT])
}

/// A base image on its way, whose digest is not known yet; each installation has its own.
#[must_use]
pub fn partial_name(key: &str, mark: &str, format: Format) -> String {
    format!("base-{key}-partial-{mark}.{format}")
}

/// The marker that says that a base image is complete.
#[must_use]
pub fn marker_name(base: &str) -> String {
    format!("{base}.json")
}

/// Whether a volume is a base image, of whatever installation.
#[must_use]
pub fn is_base(volume: &str) -> bool {
    let digest = |text: &str| text.len() == SHORT && is_lower_hex(text);
    split_base(volume).is_some_and(|(_, tail)| digest(tail))
}

/// Whether a volume is a base image that the installation with this mark had not fetched to its end.
#[must_use]
pub fn is_partial(volume: &str, mark: &str) -> bool {
    split_base(volume)
        .is_some_and(|(key, tail)| tail == mark && key.strip_suffix("-partial").is_some_and(is_key))
}

/// The base image that a volume is the marker of.
#[must_use]
pub fn marked(volume: &str) -> Option<&str> {
    volume.strip_suffix(".json").filter(|base| is_base(base))
}

/// What is before the last hyphen and what is after it, without the format.
fn split_base(volume: &str) -> Option<(&str, &str)> {
    let (stem, format) = volume.rsplit_once('.')?;
    format.parse::<Format>().ok()?;
    let (key, tail) = stem.strip_prefix("base-")?.rsplit_once('-')?;
    is_key(key).then_some((key, tail))
}

/// A key, perhaps with `-partial` behind it.
fn is_key(text: &str) -> bool {
    let key = text.strip_suffix("-partial").unwrap_or(text);
    key.parse::<Name>().is_ok()
}

fn is_lower_hex(text: &str) -> bool {
    text.bytes()
        .all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

/// What the marker of a base image says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Marker {
    /// Where it was fetched from, without its query, which may hold a credential: for people.
    pub url: String,
    /// [`url_key`] of all of it.
    pub url_key: String,
    /// The digest of the whole, in lower-case hex.
    pub sha256: String,
    /// How many bytes it has.
    pub size: u64,
    /// What the server called this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// RFC 3339, UTC.
    pub fetched_at: String,
}

impl Marker {
    /// Whether it was fetched from there.
    #[must_use]
    pub fn is_from(&self, url: &ImageUrl) -> bool {
        self.url_key == url_key(url)
    }
}

/// The XML of a volume of so many bytes, to be filled by an upload.
#[must_use]
pub fn upload_xml(name: &str, bytes: u64) -> String {
    volume(name, bytes, Format::Raw).to_string()
}

/// The XML of an overlay with this size in bytes, on the image at `backing`, a path on the host.
#[must_use]
pub fn overlay_xml(name: &str, bytes: u64, backing: &str, backing_format: Format) -> String {
    volume(name, bytes, Format::Qcow2)
        .holding([element("backingStore").holding([
            element("path").text(backing),
            element("format").with("type", backing_format),
        ])])
        .to_string()
}

fn volume(name: &str, bytes: u64, format: Format) -> Element {
    element("volume").holding([
        element("name").text(name),
        element("capacity").with("unit", "bytes").text(bytes),
        element("allocation").with("unit", "bytes").text(0),
        element("target").holding([element("format").with("type", format)]),
    ])
}

/// What libvirt says about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name in the pool.
    pub name: String,
    /// Its path on the host.
    pub path: String,
    /// What libvirt takes it for: `qcow2`, `raw`, `iso`, …
    pub format: Option<String>,
    /// How large it looks from inside, in bytes.
    pub capacity: u64,
    /// How large its file is, in bytes; 0 when libvirt does not say.
    pub physical: u64,
    /// The image that it is an overlay of.
    pub backing: Option<Backing>,
    /// When its file was written last, in seconds since the Unix epoch.
    pub modified: Option<i64>,
}

/// The image below an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Its path on the host.
    pub path: String,
    /// Its format as the overlay has it.
    pub format: Option<String>,
}

impl Volume {
    /// Whether it is an overlay of the image at this path.
    #[must_use]
    pub fn is_on(&self, base: &str) -> bool {
        self.backing
            .as_ref()
            .is_some_and(|backing| backing.path == base)
    }

    /// Reads a volume's XML.
    ///
    /// # Errors
    /// What is no XML, or says neither name nor path nor capacity.
    pub fn parse(xml: &str) -> Result<Self, XmlError> {
        let root = Element::parse(xml)?;
        let text = |path: &[&str]| {
            let found = path
                .iter()
                .try_fold(&root, |at, name| at.children(name).next())
                .map(|found| found.content().to_owned());
            found
                .filter(|text| !text.is_empty())
                .ok_or_else(|| XmlError::new(format!("a volume without {}", path.join("/"))))
        };
        let format = |of: &Element| {
            let format = of.at(["format"]);
            format
                .and_then(|format| format.attribute("type"))
                .map(str::to_owned)
        };
        let target = root.at(["target"]);
        let backing = root.at(["backingStore"]).and_then(|backing| {
            let path = backing.at(["path"])?.content();
            (!path.is_empty()).then(|| Backing {
                path: path.to_owned(),
                format: format(backing),
            })
        });
        Ok(Self {
            name: text(&["name"])?,
            path: text(&["target", "path"])?,
            format: target.and_then(format),
            capacity: capacity(&root)?,
            physical: root
                .at(["physical"])
                .and_then(|physical| physical.content().parse().ok())
                .unwrap_or_default(),
            backing,
            modified: target
                .and_then(|target| target.at(["timestamps", "mtime"]))
                .and_then(|mtime| seconds(mtime.content())),
        })
    }
}

/// libvirt always answers in bytes, whatever it was asked in.
fn capacity(volume: &Element) -> Result<u64, XmlError> {
    let capacity = volume.at(["capacity"]);
    let bytes = capacity.filter(|c| {
        c.attribute("unit")
            .is_none_or(|unit| matches!(unit, "bytes" | "B"))
    });
    bytes
        .and_then(|bytes| bytes.content().parse().ok())
        .ok_or_else(|| XmlError::new("a volume without a capacity in bytes"))
}

/// The whole seconds of `seconds.nanoseconds`.
fn seconds(text: &str) -> Option<i64> {
    text.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
