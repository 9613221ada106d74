//! The values that a `kvm:` block is made of. Each is checked while it is read, so that a complaint
//! names the very field.

use serde::{Deserialize, Deserializer, de::Error};
use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    num::{NonZeroU16, NonZeroU32},
    path::PathBuf,
    str::FromStr,
};
use url::Url;

/// A name that becomes part of volume names or of a provider id: a letter or digit, then up to 62
/// more of `[A-Za-z0-9_.-]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Name(String);

impl Name {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-');
        let first = text.bytes().next();
        if text.len() <= 63
            && first.is_some_and(|c| c.is_ascii_alphanumeric())
            && text.bytes().all(inner)
        {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "{text:?} is not a name: 1 to 63 letters, digits, '_', '.' and '-', with a letter or digit first"
        ))
    }
}

/// Where an SSH server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Address {
    /// A host name or an address, an IPv6 one without brackets.
    pub host: String,
    /// Its port, above zero.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            format!("{text:?} is not host:port, such as nas1.example.org:22 or [fd00::1]:22: {why}")
        };
        let (host, port, is_host) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once("]:").ok_or_else(|| refused("no port"))?;
                (host, port, host.parse::<Ipv6Addr>().is_ok())
            }
            None if text.parse::<Ipv6Addr>().is_ok() => {
                return Err(refused("an IPv6 address needs brackets and a port"));
            }
            None => {
                let (host, port) = text.rsplit_once(':').ok_or_else(|| refused("no port"))?;
                (host, port, is_host_name(host))
            }
        };
        if !is_host {
            return Err(refused(&format!("{host:?} is no host")));
        }
        match port.parse::<NonZeroU16>() {
            Ok(number) if port.bytes().all(|c| c.is_ascii_digit()) => Ok(Self {
                host: host.to_owned(),
                port: number.get(),
            }),
            _ => Err(refused(&format!("{port:?} is no port from 1 to 65535"))),
        }
    }
}

/// A name as DNS and `/etc/hosts` have them, or an IPv4 address.
fn is_host_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    // What ends in a number is read as an address by every resolver.
    if last.bytes().all(|c| c.is_ascii_digit()) {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    name.len() <= 253 && name.split('.').all(label)
}

/// Where an image is fetched from: http or https, without a user or a password.
///
/// Printed without its query, which may hold a signature.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct ImageUrl(Url);

impl ImageUrl {
    /// The whole URL, for fetching and for hashing; not for printing.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }
}

impl FromStr for ImageUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            let shown = text.split(['?', '#']).next().unwrap_or_default();
            format!("{shown:?} is not an image's URL: {why}")
        };
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(refused("it holds white space or control characters"));
        }
        let mut url = Url::parse(text).map_err(|e| refused(&e.to_string()))?;
        // The text is not shown: it holds what the complaint is about.
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an image's URL must not hold a user or a password".into());
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("it must begin with http:// or https://"));
        }
        url.set_fragment(None);
        Ok(Self(url))
    }
}

impl fmt::Display for ImageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.as_str();
        match text.split_once('?') {
            Some((shown, _)) => write!(f, "{shown}?…"),
            None => f.write_str(text),
        }
    }
}

impl fmt::Debug for ImageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A SHA-256 digest: 64 hex digits, kept in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha256Hex(String);

impl Sha256Hex {
    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Sha256Hex {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Ok(Self(text.to_ascii_lowercase()));
        }
        Err(format!("{text:?} is not 64 hexadecimal digits"))
    }
}

/// A document that may hold secrets, and is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Document(String);

impl Document {
    /// Its bytes, unchanged.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<&str> for Document {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({} bytes)", self.0.len())
    }
}

macro_rules! read_from_text {
    ($($value:ident),+) => {$(
        impl TryFrom<String> for $value {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
    )+};
}
read_from_text!(Name, Address, ImageUrl, Sha256Hex);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Sha256Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number from 1 to `MOST`.
pub(super) fn up_to<'de, D: Deserializer<'de>, const MOST: u32>(
    from: D,
) -> Result<NonZeroU32, D::Error> {
    let number = u32::deserialize(from)?;
    match NonZeroU32::new(number) {
        Some(good) if number <= MOST => Ok(good),
        _ => Err(D::Error::custom(format!(
            "{number} is not from 1 to {MOST}"
        ))),
    }
}

/// The path of a file that this program reads.
pub(super) fn file<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() || text.contains(char::is_control) {
        return Err(D::Error::custom(format!("{text:?} is not a file's path")));
    }
    if text.starts_with('~') {
        return Err(D::Error::custom(format!(
            "{text:?}: '~' is not replaced; write the whole path"
        )));
    }
    Ok(text.into())
}

pub(super) fn optional_file<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<PathBuf>, D::Error> {
    file(from).map(Some)
}

/// The name of a user on a host.
pub(super) fn user<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let fits = |c: char| !c.is_whitespace() && !c.is_control();
    checked(from, "the name of a user", |text| {
        text.len() <= 255 && text.chars().all(fits)
    })
}

/// The name of a network interface: what both Linux and libvirt's schema take.
pub(super) fn interface<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-');
    checked(
        from,
        "a network interface: 1 to 15 letters, digits, '_', '.' and '-'",
        |text| text.len() <= 15 && text.bytes().all(fits) && text != "." && text != "..",
    )
}

/// The path of a unix socket; the kernel takes no longer one.
pub(super) fn socket<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(
        from,
        "the absolute path of a socket, at most 107 bytes",
        |text| text.starts_with('/') && text.len() <= 107 && !text.contains(char::is_control),
    )
}

/// The name of a storage pool; libvirt takes no slash.
pub(super) fn pool<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    checked(from, "the name of a storage pool", |text| {
        text.len() <= 255
            && text.trim() == text
            && !text.contains(|c: char| c.is_control() || c == '/')
    })
}

fn checked<'de, D: Deserializer<'de>>(
    from: D,
    what: &str,
    is_good: impl Fn(&str) -> bool,
) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() || !is_good(&text) {
        return Err(D::Error::custom(format!("{text:?} is not {what}")));
    }
    Ok(text)
}
